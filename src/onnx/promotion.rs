//! Operators on doubles. One without float64 computes in float32, and returns doubles. What that leaves as float32 in
//! places meets doubles again in operators whose operands have the same type, which thus are float64.

use super::call::{Call, Step};
use crate::dtype::DataType::{Float32, Float64};
use crate::ir::OperandId;
use crate::ops::Operation;
use crate::ops::rule::{OpRule, Types};

/// The operand whose type the operand at `index` has.
fn group(rule: &OpRule, index: usize) -> Option<&'static str> {
    rule.operand(index).map(|operand| group_of(operand.types).unwrap_or(operand.name))
}

fn group_of(types: Types) -> Option<&'static str> {
    if let Types::SameAs(name) = types { Some(name) } else { None }
}

impl Call<'_, '_> {
    /// Emits an operator with operands that are float64.
    ///
    /// # Errors
    /// Same as [`emit_all`](Self::emit_all).
    pub(super) fn emit_on_doubles(
        &mut self,
        op: Operation,
        mut inputs: Vec<Option<OperandId>>,
    ) -> Step<Vec<OperandId>> {
        let rule = op.rule();
        let is_double = |call: &Self, id: Option<OperandId>| id.is_some_and(|id| call.dtype(id) == Float64);
        let doubles: Vec<usize> = (0..inputs.len()).filter(|&index| is_double(self, inputs[index])).collect();
        let groups: Vec<_> = doubles.iter().filter_map(|&index| group(rule, index)).collect();
        let takes =
            |index: &usize| rule.operand(*index).is_some_and(|operand| rule.resolve(operand.types).contains(&Float64));
        if doubles.iter().all(takes) {
            for (index, input) in inputs.iter_mut().enumerate() {
                let Some(id) = input.filter(|&id| self.dtype(id) == Float32) else { continue };
                if group(rule, index).is_some_and(|group| groups.contains(&group)) {
                    *input = Some(self.cast(id, Float64)?);
                }
            }
            return self.emit_as_given(op, inputs);
        }
        for index in doubles {
            inputs[index] = inputs[index].map(|id| self.cast(id, Float32)).transpose()?;
        }
        let mut outputs = self.emit_as_given(op, inputs)?;
        for (index, output) in outputs.iter_mut().enumerate() {
            let types = rule.outputs.get(index).or(rule.outputs.last()).map(|output| output.types);
            let group = types.and_then(group_of);
            if group.is_some_and(|group| groups.contains(&group)) && self.dtype(*output) == Float32 {
                *output = self.cast(*output, Float64)?;
            }
        }
        Ok(outputs)
    }
}
