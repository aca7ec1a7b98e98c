//! A session compiled for all sizes: a graph that is imported and optimized once.

use super::Session;
use super::deciding::Decided;
use super::known::Known;
use super::signature::Shapes;
use super::specialization::{Specialization, bind_constants};
use crate::compile::find_growing;
use crate::dimension::Dim;
use crate::error::Result;
use crate::ir::Builder;
use crate::onnx::cuts::Rest;
use crate::onnx::model::{Dimension, ValueInfo};
use crate::onnx::tensor::ElementType;
use crate::onnx::{Binding, Imported, Model, Request, import};
use crate::runtime::{CompiledGraph, Optimized, Site, Template, Templates};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// For each dimension of each input, the index of its free size; `None` if it is fixed.
type Places = Vec<Vec<Option<usize>>>;

/// What a template is for, leaving out the values of free sizes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// The inputs of a session.
    Inputs {
        /// Differ for other ranks.
        places: Arc<Places>,
        /// The bytes of inputs that decide; `None` if the model is cut where they do.
        decided: Option<Arc<[u8]>>,
        /// Whether the session runs it, so that caches grow in place and loops may be left to run round by round.
        grows: bool,
    },
    /// What is known at the start of a part of a model.
    Known(Known),
}

impl Form {
    /// Whether `form` is the same, or adds values that nothing made for this one reads.
    fn begins(&self, form: &Form) -> bool {
        match (self, form) {
            (Form::Known(own), Form::Known(known)) => own.begins(known),
            (own, form) => own == form,
        }
    }
}

/// The free sizes of the given inputs, each once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FreeSizes {
    pub form: Form,
    /// The free sizes, and integers that decide or depend on data.
    pub sizes: Vec<i64>,
}

impl FreeSizes {
    /// The free sizes of inputs with these shapes. Dimensions named in `fixed` are not free.
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
        FreeSizes { form: Form::Inputs { places: Arc::new(places), decided: None, grows }, sizes }
    }

    /// The free sizes of inputs of known ranks, to be used [`with`](Self::with) shapes: dimensions of one name have the
    /// same size. `None` if a rank is unknown.
    pub fn of_names(inputs: &[ValueInfo], fixed: &BTreeMap<String, u32>) -> Option<FreeSizes> {
        let shapes: Option<Shapes> = inputs.iter().map(|input| Some(vec![0; input.shape.as_ref()?.len()])).collect();
        Some(FreeSizes::of(inputs, &shapes?, fixed, true))
    }

    /// The same for inputs of these shapes; `None` if a single size here has several values there.
    fn with(&self, shapes: &Shapes, grows: bool) -> Option<FreeSizes> {
        let Form::Inputs { places, .. } = &self.form else { unreachable!("made for a session") };
        let mut sizes = vec![None; self.sizes.len()];
        for (places, shape) in places.iter().zip(shapes.iter()) {
            for (place, &size) in places.iter().zip(shape) {
                let is_other = |at: usize| *sizes[at].get_or_insert(i64::from(size)) != i64::from(size);
                if place.is_some_and(is_other) {
                    return None;
                }
            }
        }
        let sizes = sizes.into_iter().map(|size| size.expect("each symbol occurs in a shape")).collect();
        Some(FreeSizes { form: Form::Inputs { places: places.clone(), decided: None, grows }, sizes })
    }

    /// The same with the elements of inputs that decide: integers come after the sizes.
    fn deciding(mut self, elements: &Decided) -> FreeSizes {
        let Form::Inputs { decided, .. } = &mut self.form else { unreachable!("made for a session") };
        *decided = Some(elements.constants.clone());
        self.sizes.extend(&elements.numbers);
        self
    }

    /// Whether what is compiled for these is valid for `free`, which may add values that nothing compiled reads.
    pub fn begins(&self, free: &FreeSizes) -> bool {
        self.form.begins(&free.form) && free.sizes.starts_with(&self.sizes)
    }

    /// Whether they are for a graph that a session runs.
    fn is_to_run(&self) -> bool {
        matches!(self.form, Form::Inputs { grows: true, .. })
    }

    /// The shape of the session's input at `index`, with the free sizes as dimensions.
    fn dims(&self, index: usize, shape: &[u32], free: &[Dim]) -> Vec<Dim> {
        let Form::Inputs { places, .. } = &self.form else { unreachable!("asked for a session") };
        let dim = |(place, &size): (&Option<usize>, &u32)| place.map_or(Dim::from(size), |place| free[place]);
        places[index].iter().zip(shape).map(dim).collect()
    }
}

/// The result of an import for a template.
pub(super) struct Recorded {
    pub builder: Builder,
    pub inputs: Vec<Binding>,
    pub outputs: Vec<Binding>,
    pub rest: Option<Rest>,
    /// Whether inputs or outputs of the session are doubles, which graphs of the API do not have.
    pub has_doubles: bool,
}

/// Imports a session, or a part of its model, for free sizes.
pub(super) type Recorder<'a> = &'a dyn Fn(&[Dim]) -> Result<Recorded>;

/// The data recorded with the graph of a session, or of a part of its model.
pub(super) struct Bindings {
    form: Form,
    /// Whether a graph of the API would be another one: caches can grow in place, or inputs or outputs are doubles.
    pub differs: bool,
    pub inputs: Vec<Binding>,
    pub outputs: Vec<Binding>,
    /// The dimensions of the inputs and of the outputs that depend on sizes.
    pub unknown: [Box<[UnknownDim]>; 2],
    /// The work that remains after the graph.
    rest: Option<Rest>,
}

/// A dimension of an input or output that depends on sizes.
pub(super) struct UnknownDim {
    /// The index of the input or output.
    pub port: usize,
    /// The axis of the dimension.
    pub axis: usize,
    /// The dimension, for [`Dim::at`].
    pub dim: Dim,
}

impl UnknownDim {
    /// The errors of `bindings`.
    fn all_of(bindings: &[Binding]) -> Box<[UnknownDim]> {
        let of_port = |(port, binding): (usize, &Binding)| {
            let dims = binding.descriptor.shape.iter().copied().enumerate().filter(|(_, dim)| !dim.is_number());
            dims.map(move |(axis, dim)| UnknownDim { port, axis, dim }).collect::<Vec<_>>()
        };
        bindings.iter().enumerate().flat_map(of_port).collect()
    }
}

impl Bindings {
    /// The work that remains after the graph, with all sizes known.
    pub fn rest(&self, values: &[i64]) -> Option<Rest> {
        Some(self.rest.as_ref()?.at(values))
    }

    /// Whether the recorded data are valid for `form`.
    fn serves(&self, form: &Form) -> bool {
        match (&self.form, form) {
            (Form::Inputs { places: own, decided: elements, .. }, Form::Inputs { places, decided, .. })
                if !self.differs && self.rest.is_none() =>
            {
                own == places && elements == decided
            }
            (own, form) => own.begins(form),
        }
    }
}

/// A session compiled for given sizes.
pub(super) struct Filled {
    pub template: Arc<Template<Bindings>>,
    /// The values that its tape has computed for the sizes.
    pub values: Vec<i64>,
    /// `None` if no output has any elements.
    pub graph: Option<Arc<CompiledGraph>>,
    /// The specialization for other sizes that was resized, if the graph was made from one.
    pub resized: Option<Specialization>,
}

/// A template that fits given sizes.
pub(super) struct Found {
    template: Arc<Template<Bindings>>,
    /// The values that its tape has computed for the sizes.
    values: Vec<i64>,
}

/// The template that fits these sizes: a kept one, or a new one that `import` imports, if `may_record` allows that.
///
/// # Errors
/// An OnnxError for nodes that are not supported at these sizes, an OperationError if compiling fails.
pub(super) fn find(
    templates: &Templates<Bindings>,
    site: &Site,
    free: &FreeSizes,
    import: Recorder,
    may_record: impl FnOnce() -> bool,
) -> Result<Option<Found>> {
    let fits = |bindings: &Bindings| bindings.serves(&free.form);
    let found = match templates.kept(&free.sizes, fits) {
        Some(kept) => Some(kept),
        None if may_record() => {
            let record = |dims: &[Dim]| optimized(site, &free.form, import(dims)?);
            Some(templates.add(&free.sizes, Template::record(&free.sizes, record)?))
        }
        None => None,
    };
    Ok(found.map(|(template, values)| Found { template, values }))
}

impl Found {
    /// Whether an integer computed from the sizes exceeds the range of integers.
    pub fn saturates(&self) -> bool {
        self.template.saturates(&self.values)
    }

    /// Compiles for the sizes. If possible, resizes the specialization from `spare`, which was made for other sizes.
    ///
    /// # Errors
    /// An OperationError if compiling fails, an UnknownError if memory for constants that depend on sizes runs out.
    pub fn fill(self, site: &Site, spare: impl FnOnce() -> Option<Specialization>) -> Result<Filled> {
        let Found { template, values } = self;
        let mut spare = spare();
        let of_spare = spare.as_mut().and_then(Specialization::take_graph);
        let (graph, is_resized) = template.compile(site, &values, of_spare)?;
        Ok(Filled { template, values, graph, resized: spare.filter(|_| is_resized) })
    }
}

/// The optimized graph of an import, `None` if no output has any elements, and the data that belong to it.
fn optimized(site: &Site, form: &Form, imported: Recorded) -> Result<(Option<Optimized>, Bindings)> {
    let Recorded { builder, mut inputs, mut outputs, rest, has_doubles } = imported;
    inputs.shrink_to_fit();
    outputs.shrink_to_fit();
    let computed: Vec<_> = outputs.iter().filter_map(|output| Some((output.name.clone(), output.operand?))).collect();
    let mut differs = has_doubles;
    let graph = match computed.is_empty() {
        true => None,
        false => {
            let mut graph = builder.finish(computed);
            // The stages of a cut model read tensors in row-major order.
            if let (None, Form::Inputs { grows, .. }) = (&rest, form) {
                find_growing(&mut graph);
                differs |= !graph.growing.is_empty();
                if !grows {
                    graph.growing.clear();
                }
            }
            Some(site.optimize(graph)?)
        }
    };
    let unknown = [&inputs, &outputs].map(|bindings| UnknownDim::all_of(bindings));
    Ok((graph, Bindings { form: form.clone(), differs, inputs, outputs, unknown, rest }))
}

impl Session {
    /// The free sizes of inputs of these shapes and with these deciding elements, for a graph whose caches grow in place
    /// or not.
    pub(super) fn free_sizes(&self, shapes: &Shapes, decided: Option<&Arc<Decided>>, grows: bool) -> FreeSizes {
        let of_names = self.free.as_ref().and_then(|free| free.with(shapes, grows));
        let of_shapes = || FreeSizes::of(&self.signature.inputs, shapes, &self.options.free_dimensions, grows);
        let sizes = of_names.unwrap_or_else(of_shapes);
        decided.iter().fold(sizes, |sizes, elements| sizes.deciding(elements))
    }

    /// Imports `model` for inputs of these shapes and with these deciding elements, with `dims` in place of the sizes in
    /// `free`.
    ///
    /// # Errors
    /// An OnnxError for nodes that are not supported at these sizes.
    pub(super) fn record(
        &self,
        site: &Site,
        model: &Model,
        shapes: &Shapes,
        free: &FreeSizes,
        decided: Option<&Arc<Decided>>,
        dims: &[Dim],
    ) -> Result<Recorded> {
        let (inputs, options) = (&self.signature.inputs, &self.options);
        let mut builder = site.backend.builder();
        let mut bindings = bind_constants(&mut builder, options);
        let known = match decided {
            None => Vec::new(),
            Some(elements) => {
                let numbers = &dims[dims.len() - elements.numbers.len()..];
                self.deciding().bind(&mut builder, shapes, &elements.constants, numbers)?
            }
        };
        bindings.extend(known.iter().filter_map(|known| Some((known.name.clone(), known.operand?))));
        let shaped = || inputs.iter().map(|input| input.name.clone()).zip(shapes.iter());
        let sized = |(index, (name, shape)): (usize, (String, &[u32]))| (name, free.dims(index, shape, dims));
        let request = Request {
            free_dimensions: options.free_dimensions.clone(),
            strict_dimensions: options.strict_dimensions == Some(true),
            shapes: shaped().map(|(name, shape)| (name, shape.to_vec())).collect(),
            dims: shaped().enumerate().map(sized).collect(),
            bindings,
            outputs: options.outputs.clone(),
            may_cut: true,
            // Others become graphs of the API.
            for_api: !free.is_to_run(),
            stop: self.stop.clone(),
            unrolls_all: !free.is_to_run(),
        };
        let Imported { inputs: fed, mut outputs, rest, .. } =
            import(model, &mut builder, &request).map_err(|error| error.into_error())?;
        let places: HashMap<&str, usize> =
            inputs.iter().enumerate().map(|(at, input)| (input.name.as_str(), at)).collect();
        let mut inputs: Vec<Binding> = fed.into_iter().chain(known).collect();
        inputs.sort_by_key(|input| places.get(input.name.as_str()).copied());
        if rest.is_none() {
            // The computed part of an output may be a slice, which has another name in the model.
            let names = self.signature.outputs.iter().map(|output| &output.name);
            outputs.iter_mut().zip(names).for_each(|(output, name)| output.name.clone_from(name));
        }
        let is_double = |info: &ValueInfo| info.element == Some(ElementType::Double);
        let has_doubles = self.signature.inputs.iter().chain(&self.signature.outputs).any(is_double);
        Ok(Recorded { builder, inputs, outputs, rest, has_doubles })
    }
}
