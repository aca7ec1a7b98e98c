//! How many tensors the kernels of an operator can read, so that none binds more than [`MAX_BUFFERS`].

use super::kernel::MAX_BUFFERS;
use crate::compile::Operands;
use crate::ops::{Api, Fusion, Op, Operation};

/// What most kernels can read: they also bind their parameters and their output.
pub const MOST: usize = MAX_BUFFERS - 2;

/// The largest number of tensors that the kernels of `op` can read.
pub fn operands(op: &Operation) -> Operands {
    let (node, prologue) = match op {
        // One kernel reads the input and its weights, another one the recurrent weights, both biases apart; with the
        // gates or the states that they share.
        Api(Op::Gru(_) | Op::GruCell(_) | Op::Lstm(_) | Op::LstmCell(_)) => (usize::MAX, 3),
        // Up to two kernels read results per row of the ones before, and those of parts of rows.
        Api(Op::Reduce(_) | Op::Pool2d(_) | Op::Softmax(_)) => (MOST, MOST - 2),
        // The same with three results per row. The last kernel reads these joined, scale and bias.
        Api(Op::InstanceNormalization(_) | Op::LayerNormalization(_)) => (MOST - 1, MOST - 3),
        Operation::Fusion(Fusion::RmsNormalization(_)) => (MOST - 2, MOST - 2),
        _ => (MOST, MOST),
    };
    Operands { node, prologue }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::lower::lower;
    use crate::gpu::testing::{DIALECTS, optimized};
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    /// The largest number of buffers that a kernel of the compiled graph binds, after a comparison with the oracle.
    fn buffers(text: &str) -> usize {
        let graph = parse(text);
        check(&graph, Tolerance::ulps(64).or_absolute(1e-3));
        let compiled = &optimized(&graph);
        let kernels = DIALECTS.into_iter().flat_map(|dialect| {
            let nodes = compiled.nodes.iter();
            nodes.flat_map(move |node| lower(compiled, node, dialect).expect("it has kernels").dispatches)
        });
        kernels.map(|kernel| kernel.bindings.len() + 1).max().expect("a kernel")
    }

    /// Lines that add up `count` inputs of this shape; `%sum` is the sum.
    fn sum(count: usize, shape: &str) -> String {
        let inputs = (0..count).map(|i| format!("%i{i} = input i{i} float32 {shape}\n"));
        let sums = (2..count).map(|i| format!("%s{i} = add %s{} %i{i}\n", i - 1));
        let first = "%s1 = add %i0 %i1\n".to_string();
        let text = inputs.chain([first]).chain(sums).collect::<String>();
        text.replace(&format!("%s{} =", count - 1), "%sum =")
    }

    /// Lines with quantized weights `%{name}` of this shape, and of scales and zero points of the shape `scales`.
    fn quantized(name: &str, shape: &str, scales: &str) -> String {
        format!(
            "%{name}0 = constant int8 {shape} 3 -100 7
             %{name}1 = constant float32 {scales} 0.0078125
             %{name}2 = constant int8 {scales} 3
             %{name} = dequantizeLinear %{name}0 %{name}1 %{name}2\n"
        )
    }

    #[test]
    fn kernels_with_as_many_operands_as_fit_bind_as_many_buffers_as_every_device_can() {
        // Chains, and the kernels of few long rows.
        for (inputs, shape, line) in [
            (9, "[4, 3]", "%y = identity %sum"),
            (4, "[2, 16384]", "%y = softmax %sum axis=1"),
            (4, "[2, 16384]", "%y = reduceLogSumExp %sum axes=[1]"),
            (
                3,
                "[2, 16384]",
                "%a = input a float32 [16384]\n%b = input b float32 [16384]\n%y = layerNormalization %sum %a %b axes=[1]",
            ),
            (
                3,
                "[2, 16384]",
                "%a = input a float32 [16384]
                 %o = constant float32 [] 0.5
                 %q = mul %sum %sum
                 %m = reduceMean %q axes=[1] keepDimensions=true
                 %e = add %m %o
                 %r = sqrt %e
                 %n = div %sum %r
                 %y = mul %a %n",
            ),
        ] {
            let text = |inputs| format!("{}{line}\noutput y = %y", sum(inputs, shape));
            assert_eq!(buffers(&text(inputs)), MAX_BUFFERS, "{}", text(inputs));
            assert!(buffers(&text(inputs + 1)) <= MAX_BUFFERS);
        }
        // Quantized weights go before operands of the epilogue, and before those of another prologue.
        let weights = quantized("w", "[8, 8]", "[8, 1]");
        let text = format!(
            "%x = input x float32 [2, 8]\n%a = input a float32 [2, 8]\n%b = input b float32 [8]\n%c = input c float32 [2, 1]
             {weights}%p = gemm %x %w bTranspose=true\n%q = add %p %a\n%r = mul %q %b\n%y = sub %r %c\noutput y = %y"
        );
        assert_eq!(buffers(&text), MAX_BUFFERS);
        assert!(optimized(&parse(&text)).to_string().contains("prologue=b"));
    }

    #[test]
    fn recurrent_networks_with_every_operand_and_quantized_weights() {
        for (op, gates, rest) in [("lstm", 4, "%p %h %c"), ("gru", 3, "%h")] {
            let text = format!(
                "%x = input x float32 [3, 2, 5]
                 {}{}%b = input b float32 [1, {rows}]
                 %d = input d float32 [1, {rows}]
                 %p = input p float32 [1, 12]
                 %h = input h float32 [1, 2, 4]
                 %c = input c float32 [1, 2, 4]
                 %y{} = {op} %x %w %r %b %d {rest} steps=3 hiddenSize=4
                 output y = %y",
                quantized("w", &format!("[1, {}, 5]", 4 * gates), &format!("[1, {}, 1]", 4 * gates)),
                quantized("r", &format!("[1, {}, 4]", 4 * gates), &format!("[1, {}, 1]", 4 * gates)),
                if op == "lstm" { ", %z" } else { "" },
                rows = 4 * gates,
            );
            assert!(buffers(&text) <= MAX_BUFFERS);
            assert!(optimized(&parse(&text)).to_string().contains("prologue=weight"), "{}", optimized(&parse(&text)));
        }
    }
}
