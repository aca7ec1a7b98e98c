//! Long short-term memory.

use super::Env;
use super::recurrent::{Cell, Moment, OperandPlaces, RecurrentStep, StateBlock};
use crate::cpu::product::blocks::{BlockPanels, Operands};
use crate::cpu::product::formats::ByteFormat;
use crate::cpu::product::recurrent::LstmGates;
use crate::cpu::product::tile::tile_size;
use crate::cpu::simd::dot::DotLevel;
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::Constant;
use crate::memory::{Buffer, elements, elements_mut};
use crate::ops::block_product::Blocks;
use crate::ops::lstm::{Lstm, LstmAttributes, LstmCell, LstmFunction};
use crate::ops::recurrent::Direction;
use crate::shape::Descriptor;
use std::sync::Arc;

/// `lstm()` and `lstmCell()`.
pub type LstmStep = RecurrentStep<LstmFunction>;

impl LstmStep {
    /// Creates the step of `op` for an input with this descriptor; `weights` are the weights and the recurrent weights,
    /// if constant.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed weights.
    pub fn sequence(env: &Env, op: &Lstm, input: &Descriptor, weights: [Option<Weights>; 2]) -> Result<LstmStep> {
        let function = op.function().expect("inferred");
        let LstmAttributes { hidden_size, direction, .. } = op.attributes;
        RecurrentStep::new(env, function, input, hidden_size, direction, SEQUENCE, weights)
    }

    /// Creates the step of the same operator with quantized recurrent weights, which have a scale and a zero point for
    /// each row. All of them are constants; `weight` are the other weights, if constant.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed weights, an `OperationError` if mapped ones cannot be
    /// read.
    pub fn quantized(
        env: &Env,
        op: &Lstm,
        input: &Descriptor,
        weight: Option<Weights>,
        numbers: (&Constant, DataType),
        [scales, zeros]: [&Constant; 2],
    ) -> Result<LstmStep> {
        let function = op.function().expect("inferred");
        let LstmAttributes { hidden_size, direction, .. } = op.attributes;
        let (gates, depth) = (direction.count() * LstmFunction::GATES, hidden_size as usize);
        if ByteFormat::of(env.isa) == ByteFormat::Words(DotLevel::Portable) {
            // With the instructions of the baseline, floats are faster.
            let floats = dequantized(numbers, [scales, zeros], depth)?;
            let weights = [weight, Some(Weights::of(&floats, DataType::Float32, Some(env.threads)))];
            return RecurrentStep::new(env, function, input, hidden_size, direction, SEQUENCE, weights);
        }
        let rows = depth.next_multiple_of(tile_size(env.isa).cols);
        let whole = |constant: &Constant, bytes: usize| whole_panels(constant, gates, [depth * bytes, rows * bytes]);
        let (own, zero) = (whole(numbers.0, depth)?, whole(zeros, 1)?);
        let operands = Operands {
            numbers: (&own, numbers.1),
            scales: (&whole(scales, size_of::<f32>())?, DataType::Float32),
            zeros: Some(&zero),
            blocks: Blocks { columns: gates * rows, depth, count: 1 },
            by_column: true,
            one_column: false,
            table: None,
        };
        let panels = BlockPanels::new(env.isa, Weights::of(&own, numbers.1, Some(env.threads)), &operands)?;
        RecurrentStep::of_bytes(env, function, input, hidden_size, direction, SEQUENCE, (weight, panels))
    }

    /// Creates the step of `op` for an input with this descriptor; `weights` are the weights and the recurrent weights,
    /// if constant.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed weights.
    pub fn cell(env: &Env, op: &LstmCell, input: &Descriptor, weights: [Option<Weights>; 2]) -> Result<LstmStep> {
        let places =
            OperandPlaces { bias: Some(5), recurrent_bias: Some(6), peephole: Some(7), hidden: Some(3), cell: Some(4) };
        let function = op.function().expect("inferred");
        RecurrentStep::new(env, function, input, op.attributes.hidden_size, Direction::Forward, places, weights)
    }
}

/// Where the operands of `lstm()` are.
const SEQUENCE: OperandPlaces =
    OperandPlaces { bias: Some(3), recurrent_bias: Some(4), peephole: Some(5), hidden: Some(6), cell: Some(7) };

/// The `from` bytes of each gate, followed by copies of them up to `to` bytes.
fn whole_panels(constant: &Constant, gates: usize, [from, to]: [usize; 2]) -> Result<Constant> {
    if from == to {
        return Ok(constant.clone());
    }
    let (gate, mut whole) = (constant.buffer()?, Buffer::zeroed(gates * to)?);
    for (from, to) in gate.bytes().chunks_exact(from).zip(whole.bytes_mut().chunks_exact_mut(to)) {
        to.iter_mut().zip(from.iter().cycle()).for_each(|(to, from)| *to = *from);
    }
    Ok(Constant::Owned(Arc::new(whole)))
}

/// Rows of `depth` numbers as floats.
fn dequantized((numbers, dtype): (&Constant, DataType), parameters: [&Constant; 2], depth: usize) -> Result<Constant> {
    let [numbers, scales, zeros] = [numbers.buffer()?, parameters[0].buffer()?, parameters[1].buffer()?];
    let number = |byte: u8| if dtype == DataType::Int8 { byte as i8 as f32 } else { byte as f32 };
    let mut floats = Buffer::zeroed(numbers.len() * size_of::<f32>())?;
    let rows = elements_mut::<f32>(floats.bytes_mut()).chunks_exact_mut(depth).zip(numbers.bytes().chunks_exact(depth));
    for ((to, from), (scale, zero)) in rows.zip(elements::<f32>(scales.bytes()).iter().zip(zeros.bytes())) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = (number(*from) - number(*zero)) * scale);
    }
    Ok(Constant::Owned(Arc::new(floats)))
}

impl Cell for LstmFunction {
    const KERNEL: &'static str = "lstm";
    const GATES: usize = 4;
    const STATES: usize = 2;

    fn advance(&self, moment: &Moment, block: &mut StateBlock) {
        block.multiply(moment, self.places, 0, moment.hidden);
        let (units, peephole) = (block.units.clone(), moment.peephole(&block.units));
        for row in 0..block.batch {
            let ([hidden, cell], sums) = block.row(row, [0, 1, 2, 3]);
            let gates = [0, 1, 2, 3].map(|slot| moment.gate(self.places[slot], row, &units, &*sums[slot]));
            moment.run(LstmGates { activations: self.activations, peephole, gates, cell, hidden });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::Number;
    use crate::ir::{Graph, parse};
    use crate::ops::tensor::Tensor;
    use crate::testing::{Random, Tolerance, check, check_with};
    use proptest::prelude::*;

    /// Sums of terms of up to 8 have errors of some 1e-6; with recurrent weights of up to 2, each time step can
    /// multiply them several times.
    const FLOAT: Tolerance = Tolerance::ulps(16).or_absolute(2e-4);
    /// One rounding, plus the error of float32.
    const HALF: Tolerance = Tolerance::ulps(1).or_absolute(2e-4);

    fn sequence(dtype: &str, [steps, batch, input, hidden]: [usize; 4], both: bool, weight: &str, options: &str) {
        let d = if both { 2 } else { 1 };
        let rows = 4 * hidden;
        let peepholes = 3 * hidden;
        let outputs = if options.contains("returnSequence=true") { "%8, %9, %10" } else { "%8, %9" };
        let third = if options.contains("returnSequence=true") { "output s = %10" } else { "" };
        let graph = parse(&format!(
            "%0 = input x {dtype} [{steps}, {batch}, {input}]
             %1 = {weight} {dtype} [{d}, {rows}, {input}]
             %2 = constant {dtype} [{d}, {rows}, {hidden}]
             %3 = constant {dtype} [{d}, {rows}]
             %4 = input rb {dtype} [{d}, {rows}]
             %5 = constant {dtype} [{d}, {peepholes}]
             %6 = input h {dtype} [{d}, {batch}, {hidden}]
             %7 = input c {dtype} [{d}, {batch}, {hidden}]
             {outputs} = lstm %0 %1 %2 %3 %4 %5 %6 %7 steps={steps} hiddenSize={hidden} {options}
             output y = %8
             output z = %9
             {third}"
        ));
        check(&graph, if dtype == "float32" { FLOAT } else { HALF });
    }

    #[test]
    fn sequences() {
        for dtype in ["float32", "float16"] {
            for layout in ["iofg", "ifgo"] {
                let options = format!("layout={layout}");
                sequence(dtype, [1, 1, 3, 5], false, "constant", &options);
                sequence(dtype, [4, 3, 5, 17], false, "input w", &format!("{options} direction=backward"));
                let both = format!("{options} direction=both returnSequence=true");
                sequence(dtype, [5, 9, 4, 16], true, "constant", &both);
            }
        }
        sequence("float32", [2, 2, 70, 150], false, "constant", "returnSequence=true");
        // The depth of the recurrent product is cut.
        for dtype in ["float32", "float16"] {
            sequence(dtype, [2, 1, 3, 270], true, "constant", "direction=both");
        }
    }

    #[test]
    fn activations() {
        let names = ["relu", "sigmoid", "tanh"];
        for index in 0..27 {
            let [a, b, c] = [index / 9, index / 3 % 3, index % 3].map(|i| names[i]);
            // With more steps, states would explode with relu.
            sequence("float32", [1, 2, 3, 4], false, "constant", &format!("activations=[{a}, {b}, {c}]"));
        }
    }

    #[test]
    fn states_start_at_zero() {
        let graph = parse(
            "%0 = input x float32 [3, 2, 4]
             %1 = constant float32 [2, 20, 4]
             %2 = constant float32 [2, 20, 5]
             %3, %4, %5 = lstm %0 %1 %2 steps=3 hiddenSize=5 direction=both returnSequence=true
             output y = %3
             output z = %4
             output s = %5",
        );
        check(&graph, FLOAT);
    }

    #[test]
    fn cells() {
        for dtype in ["float32", "float16"] {
            for options in ["", "layout=ifgo"] {
                for [batch, input, hidden] in [[1, 1, 1], [3, 4, 15], [9, 5, 33]] {
                    let (rows, peepholes) = (4 * hidden, 3 * hidden);
                    let biases = if batch == 3 { "_ %5 %6" } else { "%5" };
                    let graph = parse(&format!(
                        "%0 = input x {dtype} [{batch}, {input}]
                         %1 = constant {dtype} [{rows}, {input}]
                         %2 = input r {dtype} [{rows}, {hidden}]
                         %3 = input h {dtype} [{batch}, {hidden}]
                         %4 = input c {dtype} [{batch}, {hidden}]
                         %5 = constant {dtype} [{rows}]
                         %6 = constant {dtype} [{peepholes}]
                         %7, %8 = lstmCell %0 %1 %2 %3 %4 {biases} hiddenSize={hidden} {options}
                         output y = %7
                         output z = %8"
                    ));
                    check(&graph, if dtype == "float32" { FLOAT } else { HALF });
                }
            }
        }
    }

    /// With quantized recurrent weights, which zero points make small numbers.
    fn quantized(dtype: &str, weights: &str, zero: &str, [steps, batch, hidden]: [usize; 3], direction: &str) -> Graph {
        let (d, rows) = (if direction == "both" { 2 } else { 1 }, 4 * hidden);
        let options = format!("steps={steps} hiddenSize={hidden} direction={direction}");
        parse(&format!(
            "%0 = input x {dtype} [{steps}, {batch}, 3]
             %1 = constant {dtype} [{d}, {rows}, 3]
             %2 = constant {weights} [{d}, {rows}, {hidden}]
             %3 = input b {dtype} [{d}, {rows}]
             %4 = input h {dtype} [{d}, {batch}, {hidden}]
             %5 = constant {dtype} [{d}, {rows}] 0.001 0.002 -0.0015
             %6 = constant {weights} [{d}, {rows}] {zero}
             %7, %8, %9 = dynamicQuantizeLstm %0 %1 %2 %3 _ _ %4 _ %5 %6 {options} returnSequence=true
             output y = %7
             output z = %8
             output s = %9"
        ))
    }

    #[test]
    fn quantized_recurrent_weights() {
        // The magnitudes of hidden states are below 1, those of weights below 0.51.
        let rounded = |hidden: usize| Tolerance::ulps(0).or_absolute(0.5 / 127.0 * (0.5 + hidden as f64).sqrt());
        for (weights, zero) in [("uint8", "128"), ("uint8", "100 128 160 0"), ("int8", "0"), ("int8", "-3 7")] {
            for (sizes, direction) in [([1, 1, 1], "forward"), ([3, 5, 16], "both"), ([2, 1, 150], "backward")] {
                let graph = quantized("float32", weights, zero, sizes, direction);
                let mut random = Random::new(sizes[2] as u64);
                let inputs = graph.inputs.iter().map(|(name, id)| {
                    let tensor = random.tensor_in(graph.descriptor(*id), -1.0, 1.0);
                    (name.clone(), tensor)
                });
                check_with(&graph, &inputs.collect(), rounded(sizes[2]));
            }
        }
    }

    #[test]
    fn hidden_states_that_need_no_rounding() {
        for dtype in ["float32", "float16"] {
            for (weights, zero) in [("uint8", "128"), ("uint8", "100 128 160 0"), ("int8", "-3 7")] {
                for (batch, hidden) in [(1, 7), (3, 40), (1, 256)] {
                    let graph = quantized(dtype, weights, zero, [1, batch, hidden], "both");
                    let mut random = Random::new(hidden as u64);
                    let inputs = graph.inputs.iter().map(|(name, id)| {
                        let descriptor = graph.descriptor(*id);
                        // Multiples of 1/127 of the largest one in each row.
                        let number = |index: &[usize]| (index.iter().sum::<usize>() * 37 % 255) as f64 - 127.0;
                        let state = |index: &[usize]| if index[2] == 0 { 127.0 } else { number(index) };
                        let tensor = match &name[..] {
                            "h" => Tensor::from_fn(descriptor, |index| Number::Float(state(index) / 128.0)),
                            _ => random.tensor(descriptor),
                        };
                        (name.clone(), tensor)
                    });
                    check_with(&graph, &inputs.collect(), if dtype == "float32" { FLOAT } else { HALF });
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn random_sizes(
            steps in 1usize..6, batch in 1usize..18, input in 1usize..20, hidden in 1usize..40, both: bool, half: bool,
        ) {
            let options = format!("direction={} returnSequence=true", if both { "both" } else { "backward" });
            let dtype = if half { "float16" } else { "float32" };
            sequence(dtype, [steps, batch, input, hidden], both, "constant", &options);
        }
    }
}
