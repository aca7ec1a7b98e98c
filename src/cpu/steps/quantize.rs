//! `quantizeLinear()` and `dequantizeLinear()`: element-wise programs whose operands repeat in blocks.

use super::elementwise::{Axes, ElementwiseStep};
use crate::ops::fused::Fused;
use crate::ops::quantize::Quantize;
use crate::shape::{Descriptor, strides};

/// Creates the step of `op` for input, scale and zero point.
pub fn step(op: Quantize, inputs: [&Descriptor; 3], output: &Descriptor) -> ElementwiseStep {
    let types = inputs.map(|input| input.dtype);
    let (dims, strides) = blocks(inputs);
    let program = Fused::single(op.elementwise(), &types);
    ElementwiseStep::with_strides(&program, &types, &dims, &strides, output.dtype)
}

/// Adapts a step to operands of other shapes; returns `false` if it must be rebuilt.
#[must_use]
pub fn resize(step: &mut ElementwiseStep, inputs: [&Descriptor; 3]) -> bool {
    let (dims, strides) = blocks(inputs);
    step.resize_strides(&dims, &strides)
}

/// The dimensions, and the strides of the operands. Each dimension is split into blocks and the elements of a block;
/// the scale repeats along the latter.
fn blocks([input, scale, _]: [&Descriptor; 3]) -> (Axes, [Axes; 3]) {
    let (sizes, parts) = (input.sizes(), scale.sizes());
    let blocks = sizes.iter().zip(parts.iter());
    let dims: Axes = blocks.flat_map(|(&all, &blocks)| [blocks as usize, (all / blocks) as usize]).collect();
    let of_input = strides(&sizes).into_iter().zip(dims.as_chunks::<2>().0);
    let of_input: Axes = of_input.flat_map(|(stride, [_, block])| [stride * block, stride]).collect();
    let of_scale: Axes = strides(&parts).into_iter().flat_map(|stride| [stride, 0]).collect();
    (dims, [of_input, of_scale.clone(), of_scale])
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    fn both(float: &str, integer: &str, shape: &[u32], scale: &[u32]) {
        let operands = format!("%1 = input a {float} {scale:?}\n%2 = abs %1\n%3 = input zero {integer} {scale:?}");
        let quantize = format!(
            "%0 = input x {float} {shape:?}\n{operands}\n%4 = constant {float} [] 0.01\n%5 = add %2 %4\n\
             %6 = cast %5 dataType={float}\n%7 = quantizeLinear %0 %6 %3\noutput y = %7"
        );
        // A scale that the graph sums is rounded differently in the oracle, which can move a quotient over a tie.
        check(&parse(&quantize), Tolerance::ulps(1));
        let dequantize =
            format!("%0 = input x {integer} {shape:?}\n{operands}\n%4 = dequantizeLinear %0 %2 %3\noutput y = %4");
        check(&parse(&dequantize), Tolerance::ulps(1));
    }

    #[test]
    fn every_type() {
        for float in ["float32", "float16"] {
            for integer in ["int8", "uint8", "int32", "uint32"] {
                both(float, integer, &[], &[]);
                both(float, integer, &[600], &[1]);
                both(float, integer, &[6, 300], &[3, 2]);
                both(float, integer, &[4, 6, 8], &[1, 6, 2]);
                both(float, integer, &[3, 1000], &[3, 1]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_blocks(dims in prop::collection::vec((1u32..4, 1u32..4), 0..4), long in 1u32..40) {
            let mut scale: Vec<u32> = dims.iter().map(|(blocks, _)| *blocks).collect();
            let mut shape: Vec<u32> = dims.iter().map(|(blocks, block)| blocks * block).collect();
            shape.push(2 * long);
            scale.push(2);
            both("float32", "int8", &shape, &scale);
        }
    }
}
