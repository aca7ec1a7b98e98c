//! Subgroup operations: a subgroup consists of adjacent invocations of a workgroup.

use super::arithmetic::{Binary, Scalar, binary, math};
use super::fault::{Checked, Kind, fault};
use super::machine::{Frame, Machine};
use wgpu::naga::{
    BinaryOperator, CollectiveOperation, Direction, Expression, GatherMode, Handle, MathFunction, SubgroupOperation,
};

type Value = Handle<Expression>;

impl Machine<'_> {
    /// Divides `lanes` into subgroups, which must be complete.
    fn subgroups(&self, lanes: &[u32]) -> Checked<Vec<Vec<u32>>> {
        let size = self.subgroup as u32;
        let groups: Vec<Vec<u32>> = lanes.chunk_by(|a, b| a / size == b / size).map(<[u32]>::to_vec).collect();
        for group in &groups {
            let whole = size.min(self.lanes as u32 - group[0] / size * size);
            if group.len() != whole as usize {
                let text = format!("a subgroup operation is reached by {} of {whole} invocations", group.len());
                return self.blame(group[0], fault(Kind::Divergence, text));
            }
        }
        Ok(groups)
    }

    pub(super) fn ballot(
        &mut self,
        function: usize,
        frame: &mut Frame,
        result: Value,
        predicate: Option<Value>,
        lanes: &[u32],
    ) -> Checked<()> {
        for group in self.subgroups(lanes)? {
            let mut words = [0u64; 4];
            for (i, &lane) in group.iter().enumerate() {
                let is_true = predicate.is_none_or(|value| frame.scalars[self.at(function, value, lane)] != 0);
                words[i / 32] |= (is_true as u64) << (i % 32);
            }
            for &lane in &group {
                let to = self.at(function, result, lane);
                frame.scalars[to..to + 4].copy_from_slice(&words);
            }
        }
        Ok(())
    }

    pub(super) fn gather(
        &mut self,
        function: usize,
        frame: &mut Frame,
        (mode, argument, result): (&GatherMode, Value, Value),
        lanes: &[u32],
    ) -> Checked<()> {
        let width = self.program.functions[function].slots[result.index()].width;
        for group in self.subgroups(lanes)? {
            for (i, &lane) in group.iter().enumerate() {
                let of = |value: Value| frame.scalars[self.at(function, value, lane)] as usize;
                let source = match *mode {
                    GatherMode::BroadcastFirst => 0,
                    GatherMode::Broadcast(index) | GatherMode::Shuffle(index) => of(index),
                    GatherMode::ShuffleDown(by) => i + of(by),
                    GatherMode::ShuffleUp(by) => i.wrapping_sub(of(by)),
                    GatherMode::ShuffleXor(mask) => i ^ of(mask),
                    GatherMode::QuadBroadcast(index) => i / 4 * 4 + of(index),
                    GatherMode::QuadSwap(direction) => {
                        i ^ match direction {
                            Direction::X => 1,
                            Direction::Y => 2,
                            Direction::Diagonal => 3,
                        }
                    }
                };
                let to = self.at(function, result, lane);
                match group.get(source) {
                    Some(&source) => {
                        let from = self.at(function, argument, source);
                        // `result` and `argument` are different expressions.
                        frame.scalars.copy_within(from..from + width, to);
                    }
                    // Reading from a nonexistent invocation is undefined: the value may be computed but must not
                    // matter.
                    None => frame.scalars[to..to + width].fill(u64::from(u32::MAX)),
                }
            }
        }
        Ok(())
    }

    pub(super) fn collect(
        &mut self,
        function: usize,
        frame: &mut Frame,
        (op, collective, argument, result): (SubgroupOperation, CollectiveOperation, Value, Value),
        lanes: &[u32],
    ) -> Checked<()> {
        let slot = &self.program.functions[function].slots[argument.index()];
        let (width, scalar) = (slot.width, slot.scalar());
        let Some(combine) = combination(op, scalar) else {
            return fault(Kind::Unknown, format!("{op:?} of {scalar:?} in a subgroup"));
        };
        for group in self.subgroups(lanes)? {
            for i in 0..width {
                let values: Vec<u64> =
                    group.iter().map(|&lane| frame.scalars[self.at(function, argument, lane) + i]).collect();
                for (k, &lane) in group.iter().enumerate() {
                    let part = match collective {
                        CollectiveOperation::Reduce => &values[..],
                        CollectiveOperation::InclusiveScan => &values[..=k],
                        CollectiveOperation::ExclusiveScan => &values[..k],
                    };
                    let folded = part.iter().copied().reduce(&combine);
                    let to = self.at(function, result, lane) + i;
                    frame.scalars[to] = folded.unwrap_or_else(|| match op {
                        SubgroupOperation::Mul if scalar.is_float() => scalar.float_bits(1.0),
                        SubgroupOperation::Mul => 1,
                        _ => 0,
                    });
                }
            }
        }
        Ok(())
    }
}

/// The function that combines two values.
fn combination(op: SubgroupOperation, scalar: Scalar) -> Option<impl Fn(u64, u64) -> u64> {
    let operator = match op {
        SubgroupOperation::All | SubgroupOperation::And => binary(BinaryOperator::And, scalar),
        SubgroupOperation::Any | SubgroupOperation::Or => binary(BinaryOperator::InclusiveOr, scalar),
        SubgroupOperation::Xor => binary(BinaryOperator::ExclusiveOr, scalar),
        SubgroupOperation::Add => binary(BinaryOperator::Add, scalar),
        SubgroupOperation::Mul => binary(BinaryOperator::Multiply, scalar),
        SubgroupOperation::Min | SubgroupOperation::Max => Some(Binary::Int(|a, _| a)),
    }?;
    let best = match op {
        SubgroupOperation::Min => Some(MathFunction::Min),
        SubgroupOperation::Max => Some(MathFunction::Max),
        _ => None,
    };
    Some(move |a, b| match best {
        Some(function) => math(function, scalar, [a, b, 0, 0]).unwrap_or(a),
        None => operator.apply(scalar, a, b),
    })
}
