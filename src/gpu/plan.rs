//! A compiled graph on the GPU: dispatches with their pipelines, and the memory that they work on.

use super::device::{Device, IMMEDIATES, Pipeline};
use super::kernel::{ALIGNMENT, Bound, Dispatch};
use super::lower::lower;
use crate::compile::Passes;
use crate::compile::memory::{Granularity, MemoryPlan, Place, Space, plan};
use crate::error::Result;
use crate::ir::{Graph, ValueId};
use crate::shape::Descriptor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The passes that make operators which there are kernels for.
pub const PASSES: Passes = Passes { layout: false, quantized: false, ..Passes::ALL };

/// What offsets in buffers are multiples of.
const GRANULARITY: Granularity = Granularity { block: ALIGNMENT, view: ALIGNMENT };

/// One launch with everything that it needs.
struct Launch {
    name: &'static str,
    pipeline: Arc<Pipeline>,
    places: Vec<Place>,
    immediates: [u32; 3],
    workgroups: [u32; 3],
}

/// A graph that is ready to run.
pub struct Plan {
    launches: Vec<Launch>,
    copies: Vec<(Place, usize)>,
    arena: wgpu::Buffer,
    parameters: wgpu::Buffer,
    constants: BTreeMap<ValueId, wgpu::Buffer>,
    inputs: Vec<(String, Descriptor)>,
    outputs: Vec<(String, Descriptor)>,
}

impl Plan {
    /// Lowers `graph` to kernels for `device` and compiles them.
    ///
    /// # Errors
    /// An `OperationError` for what the device cannot do, an `UnknownError` when its memory is not enough.
    pub fn new(graph: &Graph, device: &Device, share_views: bool) -> Result<Plan> {
        let lowered = graph.nodes.iter().map(|node| lower(graph, node, device.dialect)).collect::<Result<Vec<_>>>()?;
        let scratch: Vec<usize> = lowered.iter().map(|lowered| lowered.scratch).collect();
        let memory = plan(graph, &scratch, share_views, GRANULARITY);
        let mut parameters: Vec<u32> = Vec::new();
        let mut launches = Vec::new();
        for (index, lowered) in lowered.into_iter().enumerate() {
            if memory.views[index] {
                continue;
            }
            for dispatch in lowered.dispatches {
                let first = parameters.len() as u32;
                parameters.extend(&dispatch.parameters.0);
                launches.push(launch(graph, device, &memory, index, dispatch, first)?);
            }
        }
        let mut constants = BTreeMap::new();
        let places = launches.iter().flat_map(|launch| &launch.places).chain(copied(&memory).map(|(place, _)| place));
        for place in places {
            if let Space::Constant(id) = place.space
                && !constants.contains_key(&id)
            {
                let bytes = graph.value(id).constant().expect("a place in a constant").buffer()?;
                constants.insert(id, device.buffer_of("constant", bytes.bytes())?);
            }
        }
        let bytes: Vec<u8> = parameters.iter().flat_map(|value| value.to_le_bytes()).collect();
        let describe = |named: &[(String, ValueId)]| {
            named.iter().map(|(name, id)| (name.clone(), graph.descriptor(*id).clone())).collect()
        };
        Ok(Plan {
            launches,
            copies: copied(&memory).map(|(place, output)| (*place, output)).collect(),
            arena: device.buffer("arena", memory.arena)?,
            parameters: device.buffer_of("parameters", &bytes)?,
            constants,
            inputs: describe(&graph.inputs),
            outputs: describe(&graph.outputs),
        })
    }

    /// Names and descriptors of the inputs, in the order in which [`run`](Plan::run) takes them.
    pub fn inputs(&self) -> &[(String, Descriptor)] {
        &self.inputs
    }

    /// Names and descriptors of the outputs, in the order in which [`run`](Plan::run) takes them.
    pub fn outputs(&self) -> &[(String, Descriptor)] {
        &self.outputs
    }

    /// Fills the memory of intermediate results with ones, which are NaN as floats.
    pub fn fill_arena(&self, device: &Device) {
        device.write(&self.arena, &vec![0xff; self.arena.size() as usize]);
    }

    /// Submits one run on the bytes of the bound tensors.
    pub fn run(&self, device: &Device, inputs: &[&wgpu::Buffer], outputs: &[&wgpu::Buffer]) {
        let buffer = |place: &Place| match place.space {
            Space::Arena => &self.arena,
            Space::Input(index) => inputs[index],
            Space::Output(index) => outputs[index],
            Space::Constant(id) => &self.constants[&id],
        };
        let mut encoder = device.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for launch in &self.launches {
                let group = bind(device, launch, &self.parameters, buffer);
                pass.set_pipeline(&launch.pipeline.pipeline);
                pass.set_bind_group(0, &group, &[]);
                let bytes: Vec<u8> = launch.immediates.iter().flat_map(|value| value.to_le_bytes()).collect();
                pass.set_immediates(0, &bytes);
                let [x, y, z] = launch.workgroups;
                pass.dispatch_workgroups(x, y, z);
            }
        }
        for (from, output) in &self.copies {
            let bytes = from.bytes.next_multiple_of(4) as u64;
            encoder.copy_buffer_to_buffer(buffer(from), from.offset as u64, outputs[*output], 0, bytes);
        }
        device.queue.submit([encoder.finish()]);
    }
}

fn copied(memory: &MemoryPlan) -> impl Iterator<Item = (&Place, usize)> {
    memory
        .copies
        .iter()
        .map(|(id, output)| (memory.places[id.index()].as_ref().expect("a value with a place"), *output))
}

fn launch(
    graph: &Graph,
    device: &Device,
    memory: &MemoryPlan,
    index: usize,
    dispatch: Dispatch,
    first: u32,
) -> Result<Launch> {
    let node = &graph.nodes[index];
    let place = |id: ValueId| memory.places[id.index()].expect("every operand and output has a place");
    let places = dispatch.bindings.iter().map(|bound| match *bound {
        Bound::Input(input) => place(node.inputs[input].expect("lowering binds operands that are given")),
        Bound::Output(output) => place(node.outputs[output]),
        Bound::Scratch { offset, bytes } => {
            let scratch = memory.scratch[index];
            Place { offset: scratch.offset + offset, bytes, ..scratch }
        }
    });
    Ok(Launch {
        name: dispatch.name,
        places: places.collect(),
        pipeline: device.pipeline(dispatch.name, &dispatch.source, dispatch.bindings.len() as u32)?,
        immediates: [first, dispatch.elements, 0],
        workgroups: dispatch.workgroups,
    })
}

fn bind<'a>(
    device: &Device,
    launch: &Launch,
    parameters: &wgpu::Buffer,
    buffer: impl Fn(&Place) -> &'a wgpu::Buffer,
) -> wgpu::BindGroup {
    const { assert!(IMMEDIATES as usize == size_of::<[u32; 3]>()) };
    let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: parameters.as_entire_binding() }];
    for (index, place) in launch.places.iter().enumerate() {
        let binding = wgpu::BufferBinding {
            buffer: buffer(place),
            offset: place.offset as u64,
            size: std::num::NonZeroU64::new(place.bytes.next_multiple_of(8) as u64),
        };
        entries
            .push(wgpu::BindGroupEntry { binding: index as u32 + 1, resource: wgpu::BindingResource::Buffer(binding) });
    }
    device.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(launch.name),
        layout: &launch.pipeline.layout,
        entries: &entries,
    })
}
