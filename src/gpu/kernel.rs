//! Kernels as WGSL sources, and what launching one needs.

use super::dialect::{Dialect, PerDialect};
use crate::ir::{Node, ValueId};
use std::sync::Arc;

/// Invocations per workgroup of kernels that compute each element on its own: a multiple of every subgroup size.
pub const WORKGROUP: u32 = 64;

/// Maximum number of buffers of a kernel, parameters included: WebGPU's limit on every device.
pub const MAX_BUFFERS: usize = 8;

/// Maximum number of workgroups along a dimension on every device.
const MAX_WORKGROUPS: u32 = 65_535;

/// Numbers that a kernel reads: sizes, strides, attributes. All kernels of a graph share one buffer for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(pub Vec<u32>);

impl Parameters {
    /// Appends a number and returns its position.
    pub fn push(&mut self, value: u32) -> u32 {
        self.0.push(value);
        self.0.len() as u32 - 1
    }

    /// Appends a float as its bits and returns its position.
    pub fn push_f32(&mut self, value: f32) -> u32 {
        self.push(value.to_bits())
    }

    /// Appends numbers and returns the position of the first.
    pub fn extend(&mut self, values: impl IntoIterator<Item = u32>) -> u32 {
        let first = self.0.len() as u32;
        self.0.extend(values);
        first
    }
}

/// What a binding of a kernel stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The operator's operand at this index.
    Input(usize),
    /// The operand at this index among those of the epilogue, not counting the result.
    Epilogue(usize),
    /// An additional operand of a prologue: the index of the prologue's operand, then the index among the prologue's
    /// own operands.
    Prologue(usize, usize),
    /// The node's output at this index.
    Output(usize),
    /// Scratch memory of the node.
    Scratch {
        /// Byte offset, a multiple of [`ALIGNMENT`].
        offset: usize,
        /// Size in bytes.
        bytes: usize,
    },
}

impl Bound {
    /// The value of `node` that is bound; `None` for scratch memory and for omitted operands.
    pub fn value(self, node: &Node) -> Option<ValueId> {
        match self {
            Bound::Input(index) => node.inputs[index],
            Bound::Epilogue(index) => Some(node.epilogue.operands[index]),
            Bound::Prologue(operand, index) => node.prologue(operand).map(|prologue| prologue.others[index]),
            Bound::Output(index) => Some(node.outputs[index]),
            Bound::Scratch { .. } => None,
        }
    }
}

/// Alignment in bytes of the offset of every binding: the largest that a device may require.
pub const ALIGNMENT: usize = 256;

/// One launch of a kernel.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Name, for people.
    pub name: &'static str,
    /// The complete source. Its entry point is `main`; binding 0 holds the parameters.
    pub source: String,
    /// The bindings from 1 on.
    pub bindings: Vec<Bound>,
    /// The numbers returned by the function `parameter(i)`.
    pub parameters: Parameters,
    /// Number of elements to compute.
    pub elements: u32,
    /// Workgroups along x, y and z.
    pub workgroups: [u32; 3],
}

/// The declarations at the start of every kernel; most of its text.
pub fn header(dialect: Dialect) -> Arc<str> {
    static HEADERS: PerDialect<Arc<str>> = PerDialect::empty();
    HEADERS.get(dialect, || Ok(made_header(dialect).into())).expect("a text")
}

fn made_header(dialect: Dialect) -> String {
    let prelude = dialect.prelude();
    format!(
        "{prelude}
struct Immediates {{
  first_parameter: u32,
  elements: u32,
  // Always 0, which compilers do not know.
  zero: u32,
}}
var<immediate> immediates: Immediates;
@group(0) @binding(0) var<storage, read> parameters: array<u32>;
fn parameter(i: u32) -> u32 {{ return parameters[immediates.first_parameter + i]; }}
fn parameter_f32(i: u32) -> f32 {{ return bitcast<f32>(parameter(i)); }}
{}",
        include_str!("shaders/index.wgsl")
    )
}

/// Arranges `count` workgroups in two dimensions if one does not suffice: the index of a workgroup is `id.y *
/// num_workgroups.x + id.x`. There may be a few more than `count`.
pub fn grid(count: u32) -> [u32; 3] {
    let rows = count.div_ceil(MAX_WORKGROUPS);
    [count.div_ceil(rows.max(1)).max(1), rows.max(1), 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_hold_all_workgroups_and_few_more() {
        for count in [1, 2, 65_535, 65_536, 65_537, 1 << 20, u32::MAX / 64] {
            let [x, y, z] = grid(count).map(u64::from);
            assert!(x <= 65_535 && y <= 65_535 && z == 1);
            assert!((count as u64..count as u64 + y).contains(&(x * y)), "{count}: {x} x {y}");
        }
    }
}
