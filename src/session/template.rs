//! What a session is compiled to for all sizes: a graph that is imported and optimized once.

use super::signature::Shapes;
use super::specialization::{Port, bind_constants};
use super::{Session, SessionOptions};
use crate::dimension::{Dim, Tape};
use crate::error::Result;
use crate::ir::Builder;
use crate::memory::Buffer;
use crate::onnx::model::{Dimension, ValueInfo};
use crate::onnx::{Binding, Model, Request, import};
use crate::runtime::{CompiledGraph, Optimized, Site};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// How many templates a session keeps: those that were used last. There is one for each way in which sizes decide what is
/// compiled, as a batch of one does, whose dimension broadcasts.
const MAX_TEMPLATES: usize = 8;

/// Bytes of the smallest weights that are kept for other sizes. Smaller ones are packed in an instant, and constants that follow
/// from sizes, of which each set of sizes has others, are smaller.
const MIN_KEPT: usize = 1 << 14;

/// For each dimension of each input its place among the free sizes; `None` for one that is fixed.
type Places = Vec<Vec<Option<usize>>>;

/// The sizes of the inputs of a session that are free, each once.
#[derive(Debug)]
pub(super) struct FreeSizes {
    places: Places,
    /// The free sizes.
    sizes: Vec<u32>,
}

impl FreeSizes {
    /// The free sizes of inputs that have these shapes. Those in `fixed` are not free.
    fn of(inputs: &[ValueInfo], shapes: &Shapes, fixed: &BTreeMap<String, u32>) -> FreeSizes {
        let (mut names, mut sizes) = (HashMap::new(), Vec::new());
        let mut free = |name: Option<&str>, size: u32| {
            let next = sizes.len();
            let at = name.map_or(next, |name| *names.entry(name.to_string()).or_insert(next));
            if at == next {
                sizes.push(size);
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
        FreeSizes { places, sizes }
    }

    /// The shape of the input at `index`, with the free sizes as dimensions.
    fn dims(&self, index: usize, shape: &[u32], free: &[Dim]) -> Vec<Dim> {
        let dim = |(place, &size): (&Option<usize>, &u32)| place.map_or(Dim::from(size), |place| free[place]);
        self.places[index].iter().zip(shape).map(dim).collect()
    }
}

/// A session for all sizes that decide in the same way what is compiled.
pub(super) struct Template {
    tape: Tape,
    /// Where the free sizes stand in the shapes: inputs of any rank have others.
    places: Places,
    /// `None` if no output has any elements.
    graph: Option<Optimized>,
    inputs: Vec<Binding>,
    outputs: Vec<Binding>,
    /// What steps have packed and read in place. Kept while no specialization does, so that nothing is packed twice.
    weights: Mutex<HashMap<usize, Arc<Buffer>>>,
}

/// A session for given sizes, and its graph before it is compiled for them.
pub(super) struct Filled {
    pub graph: Option<Optimized>,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

impl Template {
    /// Imports and optimizes `model` for all sizes that decide as those in `shapes` do; for those alone where a node needs to
    /// know them, as one does whose number of results follows from them.
    ///
    /// # Errors
    /// An OnnxError for nodes that are not supported at these sizes, an OperationError when compiling fails.
    fn new(site: &Site, model: &Model, session: &Session, shapes: &Shapes, free: &FreeSizes) -> Result<Template> {
        Template::record(site, model, session, shapes, free, false)
            .or_else(|_| Template::record(site, model, session, shapes, free, true))
    }

    fn record(
        site: &Site,
        model: &Model,
        session: &Session,
        shapes: &Shapes,
        free: &FreeSizes,
        pinned: bool,
    ) -> Result<Template> {
        let (inputs, options) = (&session.signature.inputs, &session.options);
        let (made, tape) = Tape::record(&free.sizes, |dims| {
            let numbers: Vec<Dim>;
            let dims = match pinned {
                false => dims,
                true => {
                    numbers = dims.iter().map(|dim| Dim::from(dim.get())).collect();
                    &numbers
                }
            };
            let (mut builder, request) = request(site, inputs, options, shapes);
            let dims = inputs
                .iter()
                .zip(shapes.iter())
                .enumerate()
                .map(|(index, (input, shape))| (input.name.clone(), free.dims(index, shape, dims)));
            let request = Request { dims: dims.collect(), ..request };
            let imported = import(model, &mut builder, &request).map_err(|error| error.into_error())?;
            let computed = imported.outputs.iter();
            let computed: Vec<_> = computed.filter_map(|output| Some((output.name.clone(), output.operand?))).collect();
            let graph = match computed.is_empty() {
                true => None,
                false => Some(site.optimize(builder.finish(computed))?),
            };
            Ok((graph, imported.inputs, imported.outputs))
        });
        let (graph, inputs, outputs) = made?;
        let places = free.places.clone();
        Ok(Template { tape, places, graph, inputs, outputs, weights: Mutex::default() })
    }

    /// The session for other sizes, if they decide in the same way.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for constants that follow from sizes.
    fn fill(&self, free: &FreeSizes, values: &mut Vec<i64>) -> Option<Result<Filled>> {
        let fits = self.places == free.places && self.tape.evaluate(&free.sizes, values);
        fits.then(|| {
            let port = |binding: &Binding| {
                let mut descriptor = binding.descriptor.clone();
                descriptor.shape.iter_mut().for_each(|dim| dim.fix(values));
                Port { name: binding.name.clone(), descriptor }
            };
            let graph = self.graph.as_ref().map(|graph| graph.at(values)).transpose()?;
            let [inputs, outputs] = [&self.inputs, &self.outputs].map(|all| all.iter().map(port).collect());
            Ok(Filled { graph, inputs, outputs })
        })
    }

    /// Keeps what `graph`, which was compiled of this, reads.
    pub(super) fn keep_weights(&self, graph: &CompiledGraph) {
        let mut weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        graph.each_weight(|buffer| {
            if buffer.len() >= MIN_KEPT {
                weights.entry(Arc::as_ptr(buffer) as usize).or_insert_with(|| buffer.clone());
            }
        });
    }
}

/// A builder with the constants of a session, and what to import into it for inputs of these shapes.
fn request(site: &Site, inputs: &[ValueInfo], options: &SessionOptions, shapes: &Shapes) -> (Builder, Request) {
    let mut builder = Builder::with_limit(site.backend.max_tensor_bytes());
    let bindings = bind_constants(&mut builder, options);
    let names = inputs.iter().map(|input| input.name.clone());
    let request = Request {
        free_dimensions: options.free_dimensions.clone(),
        shapes: names.zip(shapes.iter().cloned()).collect(),
        bindings,
        outputs: options.outputs.clone(),
        ..Request::default()
    };
    (builder, request)
}

/// The templates of a session, the one that was used last at the end.
#[derive(Default)]
pub(super) struct Templates(Mutex<Vec<Arc<Template>>>);

impl Templates {
    /// The session for these shapes, from a template that fits them or a new one.
    ///
    /// # Errors
    /// As [`Template::record`] and [`Template::fill`].
    pub fn fill(&self, site: &Site, session: &Session, shapes: &Shapes) -> Result<(Arc<Template>, Filled)> {
        let free = FreeSizes::of(&session.signature.inputs, shapes, &session.options.free_dimensions);
        let mut values = Vec::new();
        let mut templates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for at in (0..templates.len()).rev() {
            if let Some(filled) = templates[at].fill(&free, &mut values) {
                let template = templates.remove(at);
                templates.push(template.clone());
                return Ok((template, filled?));
            }
        }
        let template = Arc::new(Template::new(site, &*session.model()?, session, shapes, &free)?);
        let filled = template.fill(&free, &mut values).expect("it was recorded with these sizes")?;
        if templates.len() == MAX_TEMPLATES {
            drop(templates.remove(0));
        }
        templates.push(template.clone());
        Ok((template, filled))
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
