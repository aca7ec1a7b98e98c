//! What a session is compiled to for all sizes: a graph that is imported and optimized once.

use super::Session;
use super::known::Known;
use super::signature::Shapes;
use super::specialization::{Specialization, bind_constants};
use crate::compile::find_growing;
use crate::dimension::Dim;
use crate::error::Result;
use crate::ir::Builder;
use crate::onnx::cuts::{Kept, Left, Rest};
use crate::onnx::model::{Dimension, ValueInfo};
use crate::onnx::{Binding, Imported, Model, Request, import};
use crate::runtime::{CompiledGraph, Optimized, Site, Template, Templates};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// For each dimension of each input its place among the free sizes; `None` for one that is fixed.
type Places = Vec<Vec<Option<usize>>>;

/// What a template is made for, besides the values of free sizes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// The inputs of a session: inputs of any rank have other places; and whether caches grow where they are, if there are any.
    Inputs(Arc<Places>, bool),
    /// What is known where a part of a model begins.
    Known(Known),
}

/// The sizes of what is given that are free, each once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FreeSizes {
    pub form: Form,
    /// The free sizes, and integers that data decide.
    pub sizes: Vec<i64>,
}

impl FreeSizes {
    /// The free sizes of inputs that have these shapes. Those in `fixed` are not free.
    fn of<'i>(inputs: &'i [ValueInfo], shapes: &Shapes, fixed: &BTreeMap<String, u32>, grows: bool) -> FreeSizes {
        let (mut names, mut sizes): (HashMap<(&str, u32), usize>, Vec<i64>) = Default::default();
        let mut free = |name: Option<&'i str>, size: u32| {
            let next = sizes.len();
            // Dimensions of one name are the same only if they have the same size.
            let at = name.map_or(next, |name| *names.entry((name, size)).or_insert(next));
            if at == next {
                sizes.push(i64::from(size));
            }
            Some(at)
        };
        let places = inputs
            .iter()
            .zip(shapes.iter())
            .map(|(input, shape)| {
                let place = |(axis, &size): (usize, &u32)| match input.shape.as_ref().map(|shape| &shape[axis]) {
                    Some(Dimension::Fixed(_)) => None,
                    Some(Dimension::Free(name)) if fixed.contains_key(name) => None,
                    Some(Dimension::Free(name)) => free(Some(name), size),
                    None => free(None, size),
                };
                shape.iter().enumerate().map(place).collect()
            })
            .collect();
        FreeSizes { form: Form::Inputs(Arc::new(places), grows), sizes }
    }

    /// Those of inputs of which only the ranks are known, for [`with`](Self::with): dimensions of one name have the same size.
    /// `None` if not even all ranks are known.
    pub fn of_names(inputs: &[ValueInfo], fixed: &BTreeMap<String, u32>) -> Option<FreeSizes> {
        let shapes: Option<Shapes> = inputs.iter().map(|input| Some(vec![0; input.shape.as_ref()?.len()])).collect();
        Some(FreeSizes::of(inputs, &shapes?, fixed, true))
    }

    /// The same for inputs of these shapes; `None` if what is one size here has several.
    fn with(&self, shapes: &Shapes, grows: bool) -> Option<FreeSizes> {
        let Form::Inputs(places, _) = &self.form else { unreachable!("made for a session") };
        let mut sizes = vec![None; self.sizes.len()];
        for (places, shape) in places.iter().zip(shapes.iter()) {
            for (place, &size) in places.iter().zip(shape) {
                let is_other = |at: usize| *sizes[at].get_or_insert(i64::from(size)) != i64::from(size);
                if place.is_some_and(is_other) {
                    return None;
                }
            }
        }
        let sizes = sizes.into_iter().map(|size| size.expect("each stands somewhere")).collect();
        Some(FreeSizes { form: Form::Inputs(places.clone(), grows), sizes })
    }

    /// The shape of the input of a session at `index`, with the free sizes as dimensions.
    fn dims(&self, index: usize, shape: &[u32], free: &[Dim]) -> Vec<Dim> {
        let Form::Inputs(places, _) = &self.form else { unreachable!("asked for a session") };
        let dim = |(place, &size): (&Option<usize>, &u32)| place.map_or(Dim::from(size), |place| free[place]);
        places[index].iter().zip(shape).map(dim).collect()
    }
}

/// What an import gives to a template.
pub(super) struct Recorded {
    pub builder: Builder,
    pub inputs: Vec<Binding>,
    pub outputs: Vec<Binding>,
    pub rest: Option<Rest>,
}

/// Imports something for free sizes.
pub(super) type Recorder<'a> = &'a dyn Fn(&[Dim]) -> Result<Recorded>;

/// What is recorded with the graph of a session, or of a part of its model.
pub(super) struct Bindings {
    form: Form,
    /// Whether there are caches that can grow where they are.
    pub has_caches: bool,
    pub inputs: Vec<Binding>,
    pub outputs: Vec<Binding>,
    /// What is left for later.
    rest: Option<Ending>,
}

impl Bindings {
    /// What is left for later, with all sizes.
    pub fn rest(&self, values: &[i64]) -> Option<Ending> {
        let Ending { left, values: kept } = self.rest.as_ref()?;
        let kept = kept.iter().map(|(name, kept)| (name.clone(), fixed(kept.clone(), values)));
        Some(Ending { left: left.clone(), values: kept.collect() })
    }

    /// Whether what is recorded is right for `form`.
    fn serves(&self, form: &Form) -> bool {
        match (&self.form, form) {
            (Form::Inputs(own, _), Form::Inputs(places, _)) if !self.has_caches => own == places,
            (own, form) => own == form,
        }
    }
}

/// What is compiled of a session for given sizes.
pub(super) struct Filled {
    pub template: Arc<Template<Bindings>>,
    /// What its tape has computed for the sizes.
    pub values: Vec<i64>,
    /// `None` if no output has any elements.
    pub graph: Option<Arc<CompiledGraph>>,
    /// What was made of the template for other sizes, if that is what the graph was made of.
    pub resized: Option<Specialization>,
}

/// What is left when a graph was run.
pub struct Ending {
    /// The nodes that are left.
    pub left: Arc<[Left]>,
    /// What they read, with all sizes.
    pub values: Vec<(String, Kept)>,
}

/// `kept` with all sizes.
fn fixed(mut kept: Kept, values: &[i64]) -> Kept {
    match &mut kept {
        Kept::Sizes(descriptor, dims) => {
            descriptor.shape.iter_mut().chain(dims).for_each(|dim| dim.fix(values));
            kept
        }
        Kept::Sequence(all) => Kept::Sequence(all.drain(..).map(|kept| fixed(kept, values)).collect()),
        _ => kept,
    }
}

/// Compiles for these sizes, from a template that fits them or a new one of what `import` gives. If possible, it resizes what
/// `spare` gives, which was made for other sizes.
///
/// # Errors
/// An OnnxError for nodes that are not supported at these sizes, an OperationError when compiling fails, an UnknownError when
/// there is no memory for constants that follow from sizes.
pub(super) fn fill(
    templates: &Templates<Bindings>,
    site: &Site,
    free: &FreeSizes,
    import: Recorder,
    spare: impl FnOnce() -> Option<Specialization>,
) -> Result<Filled> {
    let fits = |bindings: &Bindings| bindings.serves(&free.form);
    let record = || Template::record(&free.sizes, |dims| optimized(site, &free.form, import(dims)?));
    let (template, values) = templates.find(&free.sizes, fits, record)?;
    let mut spare = spare();
    let of_spare = spare.as_mut().and_then(Specialization::take_graph);
    let (graph, is_resized) = template.compile(site, &values, of_spare)?;
    Ok(Filled { template, values, graph, resized: spare.filter(|_| is_resized) })
}

/// The optimized graph of an import, `None` if no output has any elements, and what goes with it.
fn optimized(site: &Site, form: &Form, imported: Recorded) -> Result<(Option<Optimized>, Bindings)> {
    let Recorded { builder, inputs, outputs, rest } = imported;
    let computed: Vec<_> = outputs.iter().filter_map(|output| Some((output.name.clone(), output.operand?))).collect();
    let mut has_caches = false;
    let graph = match computed.is_empty() {
        true => None,
        false => {
            let mut graph = builder.finish(computed);
            // What is left of a model that is cut reads tensors as they are.
            if let (None, Form::Inputs(_, grows)) = (&rest, form) {
                find_growing(&mut graph);
                has_caches = !graph.growing.is_empty();
                if !grows {
                    graph.growing.clear();
                }
            }
            Some(site.optimize(graph)?)
        }
    };
    let rest = rest.map(|Rest { nodes, values }| Ending { left: nodes.into(), values });
    Ok((graph, Bindings { form: form.clone(), has_caches, inputs, outputs, rest }))
}

impl Session {
    /// The free sizes of inputs of these shapes, for a graph in which caches grow where they are, or not.
    pub(super) fn free_sizes(&self, shapes: &Shapes, grows: bool) -> FreeSizes {
        let of_names = self.free.as_ref().and_then(|free| free.with(shapes, grows));
        of_names.unwrap_or_else(|| FreeSizes::of(&self.signature.inputs, shapes, &self.options.free_dimensions, grows))
    }

    /// Imports `model` for inputs of these shapes, where the sizes in `free` are `dims`.
    ///
    /// # Errors
    /// An OnnxError for nodes that are not supported at these sizes.
    pub(super) fn record(
        &self,
        site: &Site,
        model: &Model,
        shapes: &Shapes,
        free: &FreeSizes,
        dims: &[Dim],
    ) -> Result<Recorded> {
        let (inputs, options) = (&self.signature.inputs, &self.options);
        let mut builder = Builder::with_limit(site.backend.max_tensor_bytes());
        let bindings = bind_constants(&mut builder, options);
        let shaped = || inputs.iter().map(|input| input.name.clone()).zip(shapes.iter());
        let sized = |(index, (name, shape)): (usize, (String, &Vec<u32>))| (name, free.dims(index, shape, dims));
        let request = Request {
            free_dimensions: options.free_dimensions.clone(),
            loose_dimensions: options.loose_dimensions,
            shapes: shaped().map(|(name, shape)| (name, shape.clone())).collect(),
            dims: shaped().enumerate().map(sized).collect(),
            bindings,
            outputs: options.outputs.clone(),
            may_cut: true,
        };
        let Imported { inputs, mut outputs, rest } =
            import(model, &mut builder, &request).map_err(|error| error.into_error())?;
        if rest.is_none() {
            // What is computed of an output may be a slice, which has another name in the model.
            let names = self.signature.outputs.iter().map(|output| &output.name);
            outputs.iter_mut().zip(names).for_each(|(output, name)| output.name.clone_from(name));
        }
        Ok(Recorded { builder, inputs, outputs, rest })
    }
}
