//! What a session is compiled to for all sizes: a graph that is imported and optimized once.

use super::signature::Shapes;
use super::specialization::{Port, bind_constants};
use super::{Session, SessionOptions};
use crate::dimension::Dim;
use crate::error::Result;
use crate::ir::Builder;
use crate::onnx::model::{Dimension, ValueInfo};
use crate::onnx::{Binding, Request, import};
use crate::runtime::{Optimized, Site, Template};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

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

/// What is recorded with the graph of a session.
pub(super) struct Bindings {
    /// Where the free sizes stand in the shapes: inputs of any rank have others.
    places: Places,
    inputs: Vec<Binding>,
    outputs: Vec<Binding>,
}

/// A session for given sizes, and its graph before it is compiled for them.
pub(super) struct Filled {
    pub graph: Option<Optimized>,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

impl Session {
    /// The session for these shapes, from a template that fits them or a new one.
    ///
    /// # Errors
    /// An OnnxError for nodes that are not supported at these sizes, an OperationError when compiling fails, an UnknownError
    /// when there is no memory for constants that follow from sizes.
    pub(super) fn fill(&self, site: &Site, shapes: &Shapes) -> Result<(Arc<Template<Bindings>>, Filled)> {
        let free = FreeSizes::of(&self.signature.inputs, shapes, &self.options.free_dimensions);
        let fits = |bindings: &Bindings| bindings.places == free.places;
        let (template, values) = self.templates.find(&free.sizes, fits, || self.record(site, shapes, &free))?;
        let port = |binding: &Binding| {
            let mut descriptor = binding.descriptor.clone();
            descriptor.shape.iter_mut().for_each(|dim| dim.fix(&values));
            Port { name: binding.name.clone(), descriptor }
        };
        let graph = template.graph_at(&values)?;
        let Bindings { inputs, outputs, .. } = template.recorded();
        let [inputs, outputs] = [inputs, outputs].map(|all| all.iter().map(port).collect());
        Ok((template, Filled { graph, inputs, outputs }))
    }

    /// Imports and optimizes the model for all sizes that decide as those in `shapes` do.
    fn record(&self, site: &Site, shapes: &Shapes, free: &FreeSizes) -> Result<Template<Bindings>> {
        let model = self.model()?;
        let (inputs, options) = (&self.signature.inputs, &self.options);
        Template::record(&free.sizes, |dims| {
            let (mut builder, request) = request(site, inputs, options, shapes);
            let dims = inputs
                .iter()
                .zip(shapes.iter())
                .enumerate()
                .map(|(index, (input, shape))| (input.name.clone(), free.dims(index, shape, dims)));
            let request = Request { dims: dims.collect(), ..request };
            let imported = import(&model, &mut builder, &request).map_err(|error| error.into_error())?;
            let computed = imported.outputs.iter();
            let computed: Vec<_> = computed.filter_map(|output| Some((output.name.clone(), output.operand?))).collect();
            let graph = match computed.is_empty() {
                true => None,
                false => Some(site.optimize(builder.finish(computed))?),
            };
            let places = free.places.clone();
            Ok((graph, Bindings { places, inputs: imported.inputs, outputs: imported.outputs }))
        })
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
