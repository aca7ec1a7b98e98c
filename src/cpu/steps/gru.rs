//! Gated recurrent units.

use super::Env;
use super::recurrent::{Cell, Moment, OperandPlaces, RecurrentStep, StateBlock};
use crate::cpu::product::recurrent::{GruGates, GruReset};
use crate::cpu::weights::Weights;
use crate::error::Result;
use crate::ops::gru::{Gru, GruCell, GruFunction};
use crate::ops::recurrent::Direction;
use crate::shape::Descriptor;

/// `gru()` and `gruCell()`.
pub type GruStep = RecurrentStep<GruFunction>;

impl GruStep {
    /// Creates the step of `op` for an input with this descriptor; `weights` are the weights and the recurrent weights,
    /// if constant.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed weights.
    pub fn sequence(env: &Env, op: &Gru, input: &Descriptor, weights: [Option<Weights>; 2]) -> Result<GruStep> {
        let places =
            OperandPlaces { bias: Some(3), recurrent_bias: Some(4), hidden: Some(5), ..OperandPlaces::default() };
        let function = op.function().expect("inferred");
        RecurrentStep::new(env, function, input, op.attributes.hidden_size, op.attributes.direction, places, weights)
    }

    /// Creates the step of `op` for an input with this descriptor; `weights` are the weights and the recurrent weights,
    /// if constant.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed weights.
    pub fn cell(env: &Env, op: &GruCell, input: &Descriptor, weights: [Option<Weights>; 2]) -> Result<GruStep> {
        let places =
            OperandPlaces { bias: Some(4), recurrent_bias: Some(5), hidden: Some(3), ..OperandPlaces::default() };
        let function = op.function().expect("inferred");
        RecurrentStep::new(env, function, input, op.attributes.hidden_size, Direction::Forward, places, weights)
    }
}

impl Cell for GruFunction {
    const KERNEL: &'static str = "gru";
    const GATES: usize = 3;
    const STATES: usize = 1;

    fn resets(&self) -> bool {
        !self.reset_after
    }

    fn reset(&self, moment: &Moment, block: &mut StateBlock) {
        let [z, r, _] = self.places;
        // The update gate waits in its slot for `advance`.
        block.multiply(moment, [z, r], 0, moment.hidden);
        let units = block.units.clone();
        for row in 0..block.batch {
            let ([out], [sums]) = block.row(row, [1]);
            let (reset, before) = (moment.gate(r, row, &units, sums), moment.before(row, &units));
            moment.run(GruReset { activation: self.activations[0], reset, before, out });
        }
    }

    fn advance(&self, moment: &Moment, block: &mut StateBlock) {
        let [z, r, n] = self.places;
        if self.reset_after {
            block.multiply(moment, [z, r, n], 0, moment.hidden);
        } else {
            block.multiply(moment, [n], 2, moment.reset);
        }
        let units = block.units.clone();
        for row in 0..block.batch {
            let ([hidden], sums) = block.row(row, [0, 1, 2]);
            let gate = |slot: usize, place| moment.gate(place, row, &units, &*sums[slot]);
            moment.run(GruGates {
                activations: self.activations,
                update: gate(0, z),
                reset: self.reset_after.then(|| gate(1, r)),
                new: gate(2, n),
                before: moment.before(row, &units),
                hidden,
            });
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
        let rows = 3 * hidden;
        let outputs = if options.contains("returnSequence=true") { "%6, %7" } else { "%6" };
        let second = if options.contains("returnSequence=true") { "output s = %7" } else { "" };
        let graph = parse(&format!(
            "%0 = input x {dtype} [{steps}, {batch}, {input}]
             %1 = {weight} {dtype} [{d}, {rows}, {input}]
             %2 = constant {dtype} [{d}, {rows}, {hidden}]
             %3 = constant {dtype} [{d}, {rows}]
             %4 = input rb {dtype} [{d}, {rows}]
             %5 = input h {dtype} [{d}, {batch}, {hidden}]
             {outputs} = gru %0 %1 %2 %3 %4 %5 steps={steps} hiddenSize={hidden} {options}
             output y = %6
             {second}"
        ));
        check(&graph, if dtype == "float32" { FLOAT } else { HALF });
    }

    #[test]
    fn sequences() {
        for dtype in ["float32", "float16"] {
            for reset_after in [true, false] {
                for layout in ["zrn", "rzn"] {
                    let options = format!("resetAfter={reset_after} layout={layout}");
                    sequence(dtype, [1, 1, 3, 5], false, "constant", &options);
                    sequence(dtype, [4, 3, 5, 17], false, "input w", &format!("{options} direction=backward"));
                    let both = format!("{options} direction=both returnSequence=true");
                    sequence(dtype, [5, 9, 4, 16], true, "constant", &both);
                }
            }
        }
        sequence("float32", [2, 2, 70, 150], false, "constant", "returnSequence=true");
        // The depth of the recurrent product is cut.
        for dtype in ["float32", "float16"] {
            sequence(dtype, [2, 1, 3, 270], true, "constant", "resetAfter=false direction=both");
        }
    }

    #[test]
    fn activations() {
        for first in ["relu", "sigmoid", "tanh"] {
            for second in ["relu", "sigmoid", "tanh"] {
                let options = format!("activations=[{first}, {second}]");
                // With more steps, states would explode with relu.
                sequence("float32", [1, 2, 3, 4], false, "constant", &options);
            }
        }
    }

    #[test]
    fn cells() {
        for dtype in ["float32", "float16"] {
            for options in ["", "resetAfter=false", "layout=rzn", "resetAfter=false layout=rzn"] {
                for [batch, input, hidden] in [[1, 1, 1], [3, 4, 15], [9, 5, 33]] {
                    let rows = 3 * hidden;
                    let bias = if batch == 3 { "_ %4" } else { "%4" };
                    let graph = parse(&format!(
                        "%0 = input x {dtype} [{batch}, {input}]
                         %1 = constant {dtype} [{rows}, {input}]
                         %2 = input r {dtype} [{rows}, {hidden}]
                         %3 = input h {dtype} [{batch}, {hidden}]
                         %4 = constant {dtype} [{rows}]
                         %5 = gruCell %0 %1 %2 %3 {bias} hiddenSize={hidden} {options}
                         output y = %5"
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
            steps in 1usize..6, batch in 1usize..18, input in 1usize..20, hidden in 1usize..40,
            reset_after: bool, both: bool, half: bool,
        ) {
            let direction = if both { "both" } else { "forward" };
            let options = format!("resetAfter={reset_after} direction={direction} returnSequence=true");
            let dtype = if half { "float16" } else { "float32" };
            sequence(dtype, [steps, batch, input, hidden], both, "constant", &options);
        }
    }
}
