//! Kernels as WGSL texts, and what it takes to launch one.

use super::dialect::Dialect;
use crate::ir::{Node, ValueId};

/// Invocations in a workgroup of kernels that compute each element on its own: a multiple of every subgroup size.
pub const WORKGROUP: u32 = 64;

/// The most workgroups along a dimension that every device allows.
const MAX_WORKGROUPS: u32 = 65_535;

/// Numbers that a kernel reads: sizes, strides, attributes. All kernels of a graph have theirs in one buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(pub Vec<u32>);

impl Parameters {
    /// Adds a number; gives its place.
    pub fn push(&mut self, value: u32) -> u32 {
        self.0.push(value);
        self.0.len() as u32 - 1
    }

    /// Adds a float by its bits; gives its place.
    pub fn push_f32(&mut self, value: f32) -> u32 {
        self.push(value.to_bits())
    }

    /// Adds numbers; gives the place of the first.
    pub fn extend(&mut self, values: impl IntoIterator<Item = u32>) -> u32 {
        let first = self.0.len() as u32;
        self.0.extend(values);
        first
    }
}

/// What a kernel binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The operand of the operator at this index.
    Input(usize),
    /// The operand of the epilogue at this index, behind the result.
    Epilogue(usize),
    /// What the prologue of the operand at the first index reads beside that one, at the second index.
    Prologue(usize, usize),
    /// The output of the node at this index.
    Output(usize),
    /// Scratch memory of the node.
    Scratch {
        /// Where it starts, in bytes, a multiple of [`ALIGNMENT`].
        offset: usize,
        /// How long it is.
        bytes: usize,
    },
}

impl Bound {
    /// What it is of the values of `node`; `None` for scratch memory and for what is not given.
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

/// Every offset of a binding is a multiple of this, in bytes: the most that a device may ask for.
pub const ALIGNMENT: usize = 256;

/// One launch of a kernel.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// What it does, for people.
    pub name: &'static str,
    /// The whole text. Its entry point is `main`, binding 0 holds the parameters.
    pub source: String,
    /// What bindings 1 and up are.
    pub bindings: Vec<Bound>,
    /// The numbers that the function `parameter(i)` gives.
    pub parameters: Parameters,
    /// The elements that are computed.
    pub elements: u32,
    /// Workgroups along x, y and z.
    pub workgroups: [u32; 3],
}

/// The declarations that every kernel starts with.
pub fn header(dialect: Dialect) -> String {
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

/// `count` workgroups, in two dimensions where one is not enough: the index of a workgroup is
/// `id.y * num_workgroups.x + id.x`, and there may be some too many.
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
