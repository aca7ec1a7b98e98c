//! Runs one operator on buffers of its own, without a plan: for a device's self-test, and for measurements.

use super::device::Device;
use super::kernel::{Bound, Dispatch};
use super::lower::Lowered;
use super::pipelines::Pipeline;
use super::poller::Submission;
use crate::error::Result;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The dispatches of one operator, ready to run.
pub struct Direct {
    launches: Vec<Launch>,
}

struct Launch {
    pipeline: Arc<Pipeline>,
    group: wgpu::BindGroup,
    elements: u32,
    workgroups: [u32; 3],
}

impl Direct {
    /// Compiles `lowered` for `device` and binds its operands and outputs.
    ///
    /// # Errors
    /// An `OperationError` if a kernel does not compile, an `UnknownError` if memory runs out.
    ///
    /// # Panics
    /// If the operator has a prologue or an epilogue.
    pub fn new(
        device: &Device,
        lowered: Lowered,
        inputs: &[&wgpu::Buffer],
        outputs: &[&wgpu::Buffer],
    ) -> Result<Direct> {
        let scratch = device.buffer("scratch", lowered.scratch)?;
        let mut launches = Vec::new();
        for dispatch in lowered.dispatches {
            let bytes: Vec<u8> = dispatch.parameters.0.iter().flat_map(|value| value.to_le_bytes()).collect();
            let parameters = device.buffer_of("parameters", &bytes)?;
            let pipeline = device.pipeline(dispatch.name, &dispatch.source, dispatch.bindings.len() as u32)?;
            let bound = dispatch.bindings.iter().map(|bound| match *bound {
                Bound::Input(index) => inputs[index].as_entire_buffer_binding(),
                Bound::Output(index) => outputs[index].as_entire_buffer_binding(),
                Bound::Scratch { offset, bytes } => wgpu::BufferBinding {
                    buffer: &scratch,
                    offset: offset as u64,
                    size: NonZeroU64::new(bytes.next_multiple_of(8) as u64),
                },
                Bound::Epilogue(_) | Bound::Prologue(..) => panic!("only an operator by itself runs without a plan"),
            });
            let bindings = std::iter::once(parameters.as_entire_buffer_binding()).chain(bound).enumerate();
            let entries: Vec<_> = bindings
                .map(|(index, binding)| wgpu::BindGroupEntry {
                    binding: index as u32,
                    resource: wgpu::BindingResource::Buffer(binding),
                })
                .collect();
            let group = device.scoped(|| {
                device.device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some(dispatch.name),
                    layout: &pipeline.layout,
                    entries: &entries,
                })
            })?;
            let Dispatch { elements, workgroups, .. } = dispatch;
            launches.push(Launch { pipeline, group, elements, workgroups });
        }
        Ok(Direct { launches })
    }

    /// Appends the dispatches to `pass`.
    pub fn encode(&self, pass: &mut wgpu::ComputePass) {
        for launch in &self.launches {
            let bytes: Vec<u8> = [0, launch.elements, 0].iter().flat_map(|value| value.to_le_bytes()).collect();
            let [x, y, z] = launch.workgroups;
            pass.set_pipeline(&launch.pipeline.pipeline);
            pass.set_bind_group(0, &launch.group, &[]);
            pass.set_immediates(0, &bytes);
            pass.dispatch_workgroups(x, y, z);
        }
    }

    /// Submits the dispatches `times` times.
    ///
    /// # Errors
    /// An `OperationError` if the device rejects them or is lost.
    pub fn submit(&self, device: &Device, times: u32) -> Result<Submission> {
        let commands = device.scoped(|| {
            let mut encoder = device.device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                (0..times).for_each(|_| self.encode(&mut pass));
            }
            encoder.finish()
        })?;
        device.submit(Some(commands))
    }
}
