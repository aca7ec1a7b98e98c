//! Launches of kernels, made from what nodes are lowered to.

use super::device::Device;
use super::kernel::{ALIGNMENT, Bound, Dispatch};
use super::pipelines::Pipeline;
use super::split::split;
use crate::compile::memory::{MemoryPlan, Place, Space};
use crate::error::{Error, ErrorKind, Result, amount};
use crate::ir::{Graph, Node, ValueId};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Calls the function once with each number below the count, on all available threads.
pub type Share<'a> = &'a dyn Fn(usize, &(dyn Fn(usize) + Sync));

/// One launch with its pipeline and bindings.
pub(super) struct Launch {
    pub name: &'static str,
    pub pipeline: Arc<Pipeline>,
    /// The memory that it binds.
    pub places: Vec<Place>,
    pub immediates: [u32; 3],
    pub workgroups: [u32; 3],
    bounds: Vec<Bound>,
    parameters: Vec<u32>,
    /// Whether a binding has several places, because it exceeds a limit of the device.
    is_split: bool,
}

impl Launch {
    /// Whether it binds any tensor of a run.
    pub fn is_bound(&self) -> bool {
        self.places.iter().any(|place| matches!(place.space, Space::Input(_) | Space::Output(_)))
    }

    /// Whether a binding has several places.
    pub fn is_split(&self) -> bool {
        self.is_split
    }

    /// Whether `other` needs the same bind group.
    pub fn binds_like(&self, other: &Launch) -> bool {
        Arc::ptr_eq(&self.pipeline, &other.pipeline) && self.places == other.places
    }
}

/// The parameters of all launches, which learn where theirs begin.
pub(super) fn lay_out(launches: &mut [Launch]) -> Vec<u32> {
    let mut numbers = Vec::new();
    for launch in launches {
        launch.immediates[0] = numbers.len() as u32;
        numbers.extend_from_slice(&launch.parameters);
    }
    numbers
}

/// A launch whose kernel is not compiled yet.
pub(super) struct Unbuilt {
    source: String,
    name: &'static str,
    places: Vec<Place>,
    elements: u32,
    workgroups: [u32; 3],
    bounds: Vec<Bound>,
    parameters: Vec<u32>,
    is_split: bool,
}

/// What launches are built from.
pub(super) struct Parts<'a> {
    pub graph: &'a Graph,
    pub device: &'a Device,
    pub memory: &'a MemoryPlan,
}

impl Parts<'_> {
    /// A launch of the node at this index.
    ///
    /// # Errors
    /// An `OperationError` if the kernel exceeds the limits of the device.
    pub fn launch(&self, index: usize, dispatch: Dispatch) -> Result<Unbuilt> {
        let Dispatch { name, source, bindings: bounds, parameters, elements, workgroups } = dispatch;
        let places = self.places(index, &bounds);
        let (source, places) = self.within_limits(&self.graph.nodes[index], source, places)?;
        let is_split = places.len() > bounds.len();
        Ok(Unbuilt { source, name, places, elements, workgroups, bounds, parameters: parameters.0, is_split })
    }

    /// The places that a launch of the node at this index binds now, unless it is split.
    pub fn places_of(&self, index: usize, launch: &Launch) -> Vec<Place> {
        self.places(index, &launch.bounds)
    }

    fn places(&self, index: usize, bounds: &[Bound]) -> Vec<Place> {
        let (memory, node) = (self.memory, &self.graph.nodes[index]);
        let place = |id: ValueId| memory.places[id.index()].expect("every operand and output has a place");
        let places = bounds.iter().map(|bound| match *bound {
            Bound::Scratch { offset, bytes } => {
                let scratch = memory.scratch[index];
                Place { offset: scratch.offset + offset, bytes, ..scratch }
            }
            bound => place(bound.value(node).expect("lowering binds operands that are given")),
        });
        places.collect()
    }

    /// Splits bindings that exceed the device's limits; returns the kernel's new source and bindings.
    fn within_limits(&self, node: &Node, source: String, places: Vec<Place>) -> Result<(String, Vec<Place>)> {
        let limits = &self.device.limits;
        let refuse = |what: String| {
            let (name, label) = (node.op.rule().name, &node.label);
            let label = if label.is_empty() { String::new() } else { format!(" (label {label:?})") };
            Error::new(ErrorKind::Operation, format!("{name}{label}: {what} on {}", self.device.name()))
        };
        let piece = (limits.max_storage_buffer_binding_size as usize / ALIGNMENT * ALIGNMENT).max(ALIGNMENT);
        let fits = places.iter().all(|place| place.bytes.next_multiple_of(8) <= piece);
        let (source, places) = match fits {
            true => (source, places),
            false => split(&source, &places, piece)
                .map_err(|why| refuse(format!("a kernel needs more than {piece} bytes in one piece ({why})")))?,
        };
        let most = limits.max_storage_buffers_per_shader_stage as usize;
        if places.len() + 1 > most {
            let pieces =
                if fits { String::new() } else { format!(" for tensors in pieces of {}", amount(piece, "byte")) };
            let count = places.len() + 1;
            return Err(refuse(format!("a kernel needs {count} buffers{pieces}, expected at most {most}")));
        }
        Ok((source, places))
    }
}

/// Compiles the kernels on all threads, each distinct source once.
///
/// # Errors
/// An `OperationError` if a kernel does not compile.
pub(super) fn built(device: &Device, share: Share, unbuilt: Vec<Unbuilt>) -> Result<Vec<Launch>> {
    let by_body: BTreeMap<&str, &Unbuilt> =
        unbuilt.iter().map(|launch| (device.body(&launch.source), launch)).collect();
    let made: Vec<OnceLock<Result<Arc<Pipeline>>>> = by_body.iter().map(|_| OnceLock::new()).collect();
    let items: Vec<_> = by_body.values().zip(&made).collect();
    share(items.len(), &|index| {
        let (Unbuilt { name, source, places, .. }, made) = items[index];
        made.get_or_init(|| device.pipeline(name, source, places.len() as u32));
    });
    let made = made.into_iter().map(|made| made.into_inner().expect("all were compiled"));
    let pipelines: BTreeMap<&str, Arc<Pipeline>> =
        by_body.keys().zip(made).map(|(body, made)| Ok((*body, made?))).collect::<Result<_>>()?;
    let of_launch = |unbuilt: &Unbuilt| pipelines[device.body(&unbuilt.source)].clone();
    let pipelines: Vec<Arc<Pipeline>> = unbuilt.iter().map(of_launch).collect();
    let launch = |(unbuilt, pipeline): (Unbuilt, Arc<Pipeline>)| Launch {
        name: unbuilt.name,
        pipeline,
        places: unbuilt.places,
        immediates: [0, unbuilt.elements, 0],
        workgroups: unbuilt.workgroups,
        bounds: unbuilt.bounds,
        parameters: unbuilt.parameters,
        is_split: unbuilt.is_split,
    };
    Ok(unbuilt.into_iter().zip(pipelines).map(launch).collect())
}
