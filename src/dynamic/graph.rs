//! A built graph with named dimensions, compiled for the sizes of its dispatches.

use super::Outline;
use crate::description::Description;
use crate::dimension::Dim;
use crate::error::{Code, Error, ErrorKind, Result};
use crate::ir::Growing;
use crate::memory::store::Store;
use crate::runtime::{CompiledGraph, Contents, Context, Done, Recent, Site, Template, Templates, Tensor, panicked};
use crate::shape::Descriptor;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// A graph with named dimensions, ready to dispatch. The timeline compiles it for the sizes of a dispatch.
pub struct DynamicGraph {
    /// `None` after the release.
    outline: Mutex<Option<Arc<Outline>>>,
    /// The shapes of the outputs.
    shapes: Templates<Vec<Vec<Dim>>>,
    /// The compiled graphs, each with its outputs that share the memory of inputs.
    templates: Templates<Arc<[Growing]>>,
    kept: Recent<(Key, Arc<CompiledGraph>)>,
}

/// What a compiled graph depends on besides its sizes.
#[derive(Clone, PartialEq)]
struct Key {
    sizes: Arc<[i64]>,
    /// The outputs that share the memory of inputs.
    growing: Arc<[Growing]>,
}

impl DynamicGraph {
    /// Wraps the graph of `outline`.
    pub fn new(outline: Outline) -> DynamicGraph {
        let (shapes, templates, kept) = Default::default();
        DynamicGraph { outline: Mutex::new(Some(Arc::new(outline))), shapes, templates, kept }
    }

    fn outline(&self) -> Result<Arc<Outline>> {
        let outline = self.outline.lock().unwrap_or_else(PoisonError::into_inner).clone();
        outline.ok_or_else(|| Error::new(ErrorKind::InvalidState, "the graph is destroyed"))
    }

    /// Number of inputs and of outputs; zeros after the release.
    pub fn ports(&self) -> [usize; 2] {
        self.outline().map_or([0; 2], |outline| [outline.input_names().count(), outline.outputs().count()])
    }

    /// `computeShapes()`: the free sizes for inputs of these shapes, in order, and the shapes of the outputs.
    ///
    /// # Errors
    /// A TypeError if the shapes do not match the inputs, or violate the rules of an operator.
    pub fn compute_shapes(&self, operation: &str, inputs: &[impl AsRef<[u32]>]) -> Result<(Vec<i64>, Vec<Vec<u32>>)> {
        let outline = self.outline()?;
        let sizes = outline.sizes(operation, inputs)?;
        let record = || {
            Template::record(&sizes, |free| {
                let graph = outline.at(free)?;
                Ok((None, graph.outputs.iter().map(|(_, id)| graph.descriptor(*id).shape.clone()).collect()))
            })
        };
        let found = self.shapes.find(&sizes, |_| true, record);
        let (template, values) = found
            .map_err(|error| Error { code: error.code, ..Error::new(error.kind, format!("{operation}: {error}")) })?;
        let numbers = |shape: &Vec<Dim>| shape.iter().map(|dim| dim.at(&values) as u32).collect();
        Ok((sizes, template.recorded().iter().map(numbers).collect()))
    }

    /// Runs the graph on distinct tensors of `context`, in the order of inputs and outputs. If the run fails later,
    /// reading the outputs returns the error. `donations` are pairs of indices: an output, and the input whose memory
    /// it takes over. Where the backend supports that, only the appended part is written. The input keeps its contents.
    ///
    /// # Errors
    /// A TypeError if the shapes of the tensors do not match the graph or each other, or an output cannot take the
    /// memory of its input.
    pub fn dispatch(
        self: &Arc<Self>,
        context: &Context,
        inputs: Vec<Arc<Tensor>>,
        outputs: Vec<Arc<Tensor>>,
        donations: &[[usize; 2]],
    ) -> Result<()> {
        let growing = self.outline()?.growing("dispatch", donations)?.into();
        let given: Vec<_> = inputs.iter().map(|tensor| tensor.descriptor().sizes()).collect();
        let (sizes, shapes) = self.compute_shapes("dispatch", &given)?;
        for (((name, output), shape), tensor) in self.outline()?.outputs().zip(&shapes).zip(&outputs) {
            let got = tensor.descriptor();
            if got.dtype != output.dtype || got.sizes()[..] != shape[..] {
                let (dtype, got_dtype, got_shape) = (output.dtype, got.dtype, &got.shape);
                let message = format!(
                    "dispatch: output {name:?} needs {dtype} {shape:?}, the tensor is {got_dtype} {got_shape:?}"
                );
                return Err(Error::coded(Code::Shape, message));
            }
        }
        let (graph, key) = (self.clone(), Key { sizes: sizes.into(), growing });
        context.enqueue(
            move |site| {
                let run = || run(site, &*graph.compiled(site, &key)?, &inputs, &outputs);
                let ran = catch_unwind(AssertUnwindSafe(run));
                if let Err(error) = ran.unwrap_or_else(|panic| Err(panicked(&*panic))) {
                    // Reading the outputs returns the error.
                    outputs.iter().for_each(|output| output.fail(&error));
                }
                Ok(None)
            },
            Done::unobserved(),
        );
        Ok(())
    }

    /// The graph for these sizes, cached or newly compiled.
    fn compiled(&self, site: &Site, key: &Key) -> Result<Arc<CompiledGraph>> {
        if let Some(known) = self.kept.find(|(of, graph)| (of == key).then(|| graph.clone())) {
            return Ok(known);
        }
        let (outline, Key { sizes, growing }, store) = (self.outline()?, key, RefCell::new(None));
        let record = || {
            Template::record(sizes, |free| {
                let mut graph = outline.at(free)?;
                graph.growing = growing.to_vec();
                store.replace(site.keep(&mut graph));
                Ok((Some(site.optimize(graph)?), growing.clone()))
            })
        };
        let (template, values) = self.templates.find(sizes, |known| known == growing, record)?;
        let spare = self.kept.make_room(site.kept_sizes()).map(|(_, graph)| graph);
        let (compiled, _) = template.compile(site, &values, spare)?;
        let compiled = compiled.expect("it has outputs, and sizes are not 0");
        store.take().iter().for_each(|store: &Arc<Store>| store.save());
        self.kept.add(&(key.clone(), compiled.clone()));
        Ok(compiled)
    }

    /// The description for the most recently used sizes; `None` before the first compilation.
    pub fn description(&self) -> Option<Arc<Description>> {
        self.kept.lock().last().and_then(|(_, graph)| graph.description())
    }

    /// Frees the graph's resources after all earlier work.
    pub fn release(self: &Arc<Self>, context: &Context) {
        let graph = self.clone();
        context.enqueue_release(move || {
            drop(graph.outline.lock().unwrap_or_else(PoisonError::into_inner).take());
            graph.kept.clear();
            graph.templates.clear();
            graph.shapes.clear();
        });
    }

    /// Number of templates.
    #[cfg(test)]
    pub fn templates(&self) -> usize {
        self.templates.count()
    }
}

/// Runs `graph`; outputs that grow in the memory of inputs write only the appended part.
///
/// # Errors
/// An OperationError for any failure.
fn run(site: &Site, graph: &CompiledGraph, inputs: &[Arc<Tensor>], outputs: &[Arc<Tensor>]) -> Result<()> {
    let growing = graph.growing();
    if growing.is_empty() {
        return graph.run(site.env, "dispatch", [inputs, outputs], None);
    }
    let [own_inputs, own_outputs] = graph.ports();
    let (mut sources, mut targets) = (inputs.to_vec(), outputs.to_vec());
    for &Growing { input, output, axis } in &growing {
        let own = |ports: &[(String, Descriptor)], at: usize| Arc::new(Tensor::new(ports[at].1.clone()));
        (sources[input], targets[output]) = (own(&own_inputs, input), own(&own_outputs, output));
        let rows =
            inputs[input].rows(&site.backend, axis).and_then(|rows| rows.append(targets[output].descriptor().bytes()));
        let appended = rows.map_err(|error| Error::new(ErrorKind::Operation, format!("dispatch: {error}")))?;
        targets[output].set(Contents::Appended(appended));
    }
    graph.run(site.env, "dispatch", [&sources, &targets], None)?;
    for &Growing { output, axis, .. } in &growing {
        let rows = targets[output].finish().expect("the graph has appended rows");
        outputs[output].replace_rows(rows, axis);
    }
    Ok(())
}
