//! Long short-term memory.

use super::Env;
use super::recurrent::{Cell, Moment, OperandPlaces, RecurrentStep, StateBlock};
use crate::cpu::product::recurrent::LstmGates;
use crate::cpu::weights::Weights;
use crate::error::Result;
use crate::ops::lstm::{Lstm, LstmCell, LstmFunction};
use crate::ops::recurrent::Direction;
use crate::shape::Descriptor;

/// `lstm()` and `lstmCell()`.
pub type LstmStep = RecurrentStep<LstmFunction>;

impl LstmStep {
    /// Creates the step of `op` for an input with this descriptor; `weights` are the weights and the recurrent weights,
    /// if constant.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed weights.
    pub fn sequence(env: &Env, op: &Lstm, input: &Descriptor, weights: [Option<Weights>; 2]) -> Result<LstmStep> {
        let places =
            OperandPlaces { bias: Some(3), recurrent_bias: Some(4), peephole: Some(5), hidden: Some(6), cell: Some(7) };
        let function = op.function().expect("inferred");
        RecurrentStep::new(env, function, input, op.attributes.hidden_size, op.attributes.direction, places, weights)
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
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};
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
