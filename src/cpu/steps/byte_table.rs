//! Element-wise programs from a tensor of bytes to bytes, as a table of their 256 results.

use super::byte_sum::ProgramOperand;
use super::elementwise::ElementwiseStep;
use super::{Env, Run};
use crate::cpu::memory::{Io, run_once};
use crate::cpu::schedule::shared::for_each_chunk;
use crate::error::Result;
use crate::memory::Buffer;
use crate::ops::fused::Fused;
use crate::shape::Descriptor;

/// Elements per part of the output that a thread computes, at least.
const GRAIN: usize = 4096;

/// The cost per element, in multiply-adds of floats.
const COST: usize = 16;

/// The cost of a program, in multiply-adds of floats per element, from which a table is faster.
const MIN_COST: usize = 32;

/// A table of the results of a program.
pub struct ByteTableStep {
    table: Box<[u8; 256]>,
    operand: usize,
}

impl ByteTableStep {
    /// The step of a program, if this is one that depends on a single tensor of bytes, and worth a table.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory, an `OperationError` if a mapped constant cannot be read.
    pub fn new(
        env: &Env,
        program: &Fused,
        operands: &[ProgramOperand],
        output: &Descriptor,
    ) -> Result<Option<ByteTableStep>> {
        let is_single = |(descriptor, constant): &ProgramOperand| constant.is_some() && descriptor.elements() == 1;
        let mut others = operands.iter().enumerate().filter(|(_, operand)| !is_single(operand));
        let (Some((operand, &(input, None))), None) = (others.next(), others.next()) else { return Ok(None) };
        let is_byte = |descriptor: &Descriptor| descriptor.dtype.bits() == 8;
        let same = input.elements() == output.elements() && input.elements() > 256;
        if !same || !is_byte(input) || !is_byte(output) {
            return Ok(None);
        }
        let of = |descriptor: &Descriptor, count: u32| Descriptor::new(descriptor.dtype, [count]);
        let descriptors: Vec<Descriptor> = operands
            .iter()
            .enumerate()
            .map(|(index, (descriptor, _))| of(descriptor, if index == operand { 256 } else { 1 }))
            .collect();
        let step = ElementwiseStep::new(program, descriptors.iter(), &of(output, 256));
        if step.cost() < MIN_COST {
            return Ok(None);
        }
        let mut all = Buffer::zeroed(256)?;
        (0..=255).zip(all.bytes_mut()).for_each(|(number, byte)| *byte = number);
        let constants = operands.iter().map(|(_, constant)| constant.map(|constant| constant.buffer()).transpose());
        let constants = constants.collect::<Result<Vec<_>>>()?;
        let buffers: Vec<Option<&Buffer>> =
            constants.iter().map(|constant| Some(constant.as_deref().unwrap_or(&all))).collect();
        let mut outputs = [Buffer::zeroed(256)?];
        let mut scratch = Buffer::zeroed(step.scratch_bytes(env.threads.count()))?;
        run_once(&buffers, &mut outputs, &mut scratch, |io| step.run(env, io));
        let mut table = Box::new([0; 256]);
        table.copy_from_slice(outputs[0].bytes());
        Ok(Some(ByteTableStep { table, operand }))
    }
}

impl Run for ByteTableStep {
    fn kernel(&self) -> &'static str {
        "int8 table"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (out, input) = (io.output::<u8>(), io.input::<u8>(self.operand));
        for_each_chunk(env.threads, out, 1, GRAIN, COST, |first, out| {
            for (to, &byte) in out.iter_mut().zip(&input[first..]) {
                *to = self.table[byte as usize];
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::Passes;
    use crate::cpu::arena::Arena;
    use crate::cpu::plan::{Plan, PlanOptions};
    use crate::cpu::schedule::pool::Threads;
    use crate::cpu::simd::Isa;
    use crate::cpu::steps::Env;
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    fn graph([x, y]: [&str; 2], shape: &str, value: &str) -> String {
        format!(
            "%0 = input x {x} {shape}
             %1 = constant float32 [1] 0.05
             %2 = constant {x} [1] 101
             %3 = constant float32 [1] 0.004
             %4 = constant {y} [1] 3
             %5 = dequantizeLinear %0 %1 %2
             %6 = {value} %5
             %7 = quantizeLinear %6 %3 %4
             output y = %7"
        )
    }

    #[test]
    fn functions_of_bytes() {
        let threads = Threads::new(1).unwrap();
        for types in [["uint8", "uint8"], ["int8", "int8"], ["int8", "uint8"]] {
            for value in ["sigmoid", "hardSwish", "tanh", "leakyRelu"] {
                let graph = parse(&graph(types, "[5000]", value));
                check(&graph, Tolerance::ulps(1));
                let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
                let plan = Plan::compile(graph, &env, Passes::ALL, PlanOptions::default()).unwrap();
                let kernels: Vec<_> = plan.description().steps.iter().map(|step| step.kernel.to_string()).collect();
                assert_eq!(kernels, ["int8 table"], "{value}");
            }
        }
    }

    #[test]
    fn tensors_of_few_bytes_and_of_other_types_are_computed() {
        for types in [["uint8", "uint8"], ["int32", "uint8"], ["uint8", "int32"]] {
            check(&parse(&graph(types, "[70]", "sigmoid")), Tolerance::ulps(1));
        }
    }
}
