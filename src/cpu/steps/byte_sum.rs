//! Element-wise programs from bytes to bytes with one scale per tensor, as between the products of quantized networks.

use super::{Env, Run};
use crate::cpu::memory::Io;
use crate::cpu::product::formats::ByteFormat;
use crate::cpu::product::int8::sums::{ByteSum, Join};
use crate::cpu::product::int8::to_bytes;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::cpu::simd::Isa;
use crate::dtype::{DataType, Number};
use crate::error::Result;
use crate::ir::Constant;
use crate::ops::elementwise::Elementwise;
use crate::ops::fused::{Fused, Instruction};
use crate::ops::quantized::Scale;
use crate::ops::tensor::Tensor;
use crate::shape::Descriptor;

/// Elements per part of the output that a thread computes, at least.
const GRAIN: usize = 1024;

/// The cost per element, in multiply-adds of floats.
const COST: usize = 8;

/// An operand of a program, with its elements if it is a constant.
pub type ProgramOperand<'a> = (&'a Descriptor, Option<&'a Constant>);

/// A sum or product of two tensors of bytes, or a conversion to another scale.
pub struct ByteSumStep {
    sum: ByteSum,
    /// The operands that are read; the same one twice if there is only one.
    operands: [usize; 2],
}

impl ByteSumStep {
    /// The step of a program, if this is one that dequantizes one or two tensors of bytes, adds or multiplies them,
    /// clamps the result, and quantizes it.
    ///
    /// # Errors
    /// An `OperationError` if a mapped constant cannot be read.
    pub fn new(
        isa: Isa,
        program: &Fused,
        operands: &[ProgramOperand],
        output: &Descriptor,
    ) -> Result<Option<ByteSumStep>> {
        let result = |value: usize| Some(&program.instructions[value.checked_sub(program.inputs)?]);
        let Some(Instruction { op: Elementwise::Quantize, operands: last, dtype }) = program.instructions.last() else {
            return Ok(None);
        };
        // Without fused multiply-add, quotients are not exact.
        if !matches!(dtype, DataType::Int8 | DataType::Uint8) || isa == Isa::Portable {
            return Ok(None);
        }
        let (mut value, mut clamps) = (last[0], Vec::new());
        let (join, parts) = loop {
            let Some(Instruction { op, operands, dtype: DataType::Float32 }) = result(value) else { return Ok(None) };
            match op {
                Elementwise::Relu => clamps.push([0.0, f32::INFINITY]),
                Elementwise::Clamp { min, max } => clamps.push([min.to_f64() as f32, max.to_f64() as f32]),
                Elementwise::Add => break (Join::Add, [operands[0], operands[1]]),
                Elementwise::Mul => break (Join::Mul, [operands[0], operands[1]]),
                Elementwise::Dequantize => break (Join::First, [value, value]),
                _ => return Ok(None),
            }
            value = operands[0];
        };
        let mut sources = [(0, Scale { scale: 1.0, zero: 0 }); 2];
        for (source, part) in sources.iter_mut().zip(parts) {
            let Some(Instruction { op: Elementwise::Dequantize, operands: from, .. }) = result(part) else {
                return Ok(None);
            };
            let Some(scale) = scale(operands, from)? else { return Ok(None) };
            let Some(&(input, _)) = operands.get(from[0]) else { return Ok(None) };
            if input.dtype != *dtype || input.elements() != output.elements() {
                return Ok(None);
            }
            *source = (from[0], scale);
        }
        let Some(to) = scale(operands, last)? else { return Ok(None) };
        let range = clamps
            .iter()
            .rev()
            .fold([f32::NEG_INFINITY, f32::INFINITY], |range, &[min, max]| range.map(|bound| bound.max(min).min(max)));
        let sum = ByteSum {
            operands: sources.map(|(_, scale)| scale),
            is_signed: *dtype == DataType::Int8,
            join,
            scale: to.scale,
            to: to_bytes(*dtype, to, range),
        };
        Ok(sum.is_exact().then_some(ByteSumStep { sum, operands: sources.map(|(operand, _)| operand) }))
    }
}

/// The scale and zero point among the operands of an instruction, if both are single constants.
fn scale(operands: &[ProgramOperand], of: &[usize]) -> Result<Option<Scale>> {
    let single = |operand: usize| -> Result<Option<Number>> {
        let Some((descriptor, Some(constant))) = operands.get(operand) else { return Ok(None) };
        if descriptor.elements() != 1 {
            return Ok(None);
        }
        Ok(Tensor::from_bytes(descriptor, constant.buffer()?.bytes()).numbers().next())
    };
    let (Some(scale), Some(zero)) = (single(of[1])?, single(of[2])?) else { return Ok(None) };
    Ok(Some(Scale { scale: scale.to_f64() as f32, zero: zero.to_f64() as i16 }))
}

impl Run for ByteSumStep {
    fn kernel(&self) -> &'static str {
        "int8 elementwise"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (out, format) = (io.output::<u8>(), ByteFormat::of(env.isa));
        let operands = self.operands.map(|operand| io.input::<u8>(operand));
        for_each_chunk(env.threads, out, 1, GRAIN, COST, |first, out| {
            self.sum.run(format, operands.map(|operand| &operand[first..first + out.len()]), out);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Passes;
    use crate::cpu::arena::Arena;
    use crate::cpu::plan::{Plan, PlanOptions};
    use crate::cpu::schedule::pool::Threads;
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    /// A graph that quantizes `value`, computed from two dequantized inputs `%5` and `%6` of these types and shapes.
    fn graph([x, z, y]: [&str; 3], [a, b]: [&str; 2], value: &str) -> String {
        format!(
            "%0 = input x {x} {a}
             %1 = input z {z} {b}
             %2 = constant float32 [1, 1] 0.013
             %3 = constant {x} [1, 1] 101
             %4 = constant {z} [1, 1] 25
             %7 = constant float32 [1, 1] 0.029
             %8 = constant {y} [1, 1] 3
             %5 = dequantizeLinear %0 %2 %3
             %6 = dequantizeLinear %1 %7 %4
             {value}
             %15 = quantizeLinear %14 %7 %8
             output y = %15"
        )
    }

    const VALUES: [&str; 5] = [
        "%14 = add %5 %6",
        "%14 = mul %6 %5",
        "%9 = add %6 %5\n%14 = relu %9",
        "%9 = add %5 %5\n%10 = clamp %9 minValue=-1.5 maxValue=4\n%14 = clamp %10 minValue=-3 maxValue=0.7",
        "%14 = clamp %5 minValue=-0.6 maxValue=1",
    ];

    #[test]
    fn sums_products_and_conversions() {
        for types in [["uint8"; 3], ["int8"; 3]] {
            for shape in ["[3, 700]", "[1, 5]"] {
                for value in VALUES {
                    // The oracle rounds sums that are a tie in float32 once, from float64.
                    check(&parse(&graph(types, [shape; 2], value)), Tolerance::ulps(1));
                }
            }
        }
    }

    #[test]
    fn only_programs_of_bytes_with_one_scale_each_are_byte_sums() {
        let threads = Threads::new(1).unwrap();
        for isa in Isa::available() {
            let env = Env { threads: &threads, isa, arena: &Arena::default() };
            let kernels = |text: &str| {
                let plan = Plan::compile(parse(text), &env, Passes::ALL, PlanOptions::default()).unwrap();
                plan.description().steps.iter().map(|step| step.kernel.to_string()).collect::<Vec<_>>()
            };
            let (bytes, floats) = ("int8 elementwise", "elementwise fused");
            for value in VALUES {
                let expected = if isa == Isa::Portable { floats } else { bytes };
                assert_eq!(kernels(&graph(["int8"; 3], ["[3, 70]"; 2], value)), [expected], "{value}");
            }
            for (types, shapes, value) in [
                (["int8", "uint8", "int8"], ["[3, 70]"; 2], VALUES[0]),
                (["int8"; 3], ["[3, 70]", "[1, 70]"], VALUES[0]),
                (["int8"; 3], ["[3, 70]"; 2], "%14 = sub %5 %6"),
                (["int8"; 3], ["[3, 70]"; 2], "%9 = exp %6\n%14 = add %5 %9"),
            ] {
                let kernels = kernels(&graph(types, shapes, value));
                assert!(!kernels.contains(&bytes.to_string()), "{types:?} {shapes:?} {value}: {kernels:?}");
            }
        }
    }
}
