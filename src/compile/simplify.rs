//! Simplification: removes operators that do nothing, and merges chains that move elements.

use crate::ir::{Graph, Node, Source, ValueId};
use crate::ops::elementwise::Elementwise;
use crate::ops::transpose::Transpose;
use crate::ops::{Api, Op};

/// Removes operators that change nothing, and merges consecutive transposes and consecutive reshapes.
pub fn simplify(graph: &mut Graph) {
    let mut replacements: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    let producers = graph.producers();
    // For each node that has become unused, the node that does its work.
    let mut heirs: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for index in 0..graph.nodes.len() {
        let mut node = graph.nodes[index].clone();
        node.each_read_mut(|id| *id = replacements[id.index()]);
        if let Some(producer) = merge_with_producer(graph, &producers, &mut node) {
            heirs[producer].get_or_insert(index);
        }
        if does_nothing(graph, &node) {
            let replacement = node.inputs[0].expect("it has an operand");
            replacements[node.outputs[0].index()] = replacement;
            heirs[index] = producers[replacement.index()];
        }
        graph.nodes[index] = node;
    }
    // An output keeps its node if the replacement would be an input or a constant: nothing else would write the output.
    for (_, id) in &mut graph.outputs {
        let replacement = replacements[id.index()];
        if matches!(graph.values[replacement.index()].source, Source::Node) {
            *id = replacement;
        }
    }
    graph.drop_replaced(heirs);
}

/// Whether the output of `node` equals its first operand, including the shape.
pub(super) fn does_nothing(graph: &Graph, node: &Node) -> bool {
    let Some(Some(input)) = node.inputs.first() else { return false };
    if node.outputs.len() != 1 || graph.descriptor(*input) != graph.descriptor(node.outputs[0]) {
        return false;
    }
    let shape = &graph.descriptor(*input).shape;
    match &node.op {
        Api(Op::Elementwise(Elementwise::Identity | Elementwise::Cast { .. })) => true,
        Api(Op::Reshape(_) | Op::Expand(_) | Op::Slice(_)) => true,
        Api(Op::Tile(_) | Op::Pad(_)) => true,
        Api(Op::Transpose(op)) => op.keeps_order(shape),
        Api(Op::Concat(_)) => node.inputs.len() == 1,
        _ => false,
    }
}

/// Lets `node` read the operand of its producer if both are transposes, or both reshapes. Returns the index of that
/// producer.
fn merge_with_producer(graph: &Graph, producers: &[Option<usize>], node: &mut Node) -> Option<usize> {
    let input = (*node.inputs.first()?)?;
    let index = producers[input.index()]?;
    let producer = &graph.nodes[index];
    match (&mut node.op, &producer.op) {
        (Api(Op::Transpose(outer)), Api(Op::Transpose(inner))) => {
            let rank = graph.descriptor(input).rank();
            let inner = inner.axes(rank);
            let axes = outer.axes(rank).into_iter().map(|axis| inner[axis] as u32).collect();
            *outer = Transpose { permutation: Some(axes) };
            node.inputs = producer.inputs.clone();
        }
        (Api(Op::Reshape(_)), Api(Op::Reshape(_))) => node.inputs = producer.inputs.clone(),
        _ => return None,
    }
    Some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_pass, check_pass_changes_nothing};

    #[test]
    fn operators_that_do_nothing_are_removed() {
        check_pass(
            simplify,
            "%0 = input x float32 [2, 3]
             %1 = identity %0
             %2 = cast %1 dataType=float32
             %3 = reshape %2 newShape=[2, 3]
             %4 = slice %3 starts=[0, 0] sizes=[2, 3]
             %5 = transpose %4 permutation=[0, 1]
             %6 = exp %5
             %7 = identity %6
             output y = %7",
            "%0 = input x float32 [2, 3]
             %1 = exp %0
             output y = %1",
        );
    }

    #[test]
    fn transposes_merge() {
        check_pass(
            simplify,
            "%0 = input x float32 [2, 3, 4]
             %1 = transpose %0 permutation=[2, 0, 1]
             %2 = transpose %1 permutation=[1, 0, 2]
             %3 = abs %2
             output y = %3",
            "%0 = input x float32 [2, 3, 4]
             %1 = transpose %0 permutation=[0, 2, 1]
             %2 = abs %1
             output y = %2",
        );
    }

    #[test]
    fn transposes_that_cancel_are_removed() {
        check_pass(
            simplify,
            "%0 = input x float32 [2, 3]
             %1 = transpose %0
             %2 = transpose %1
             %3 = abs %2
             output y = %3",
            "%0 = input x float32 [2, 3]
             %1 = abs %0
             output y = %1",
        );
    }

    #[test]
    fn an_input_that_is_an_output_keeps_its_operator() {
        check_pass_changes_nothing(simplify, "%0 = input x float32 [2]\n%1 = identity %0\noutput y = %1");
    }

    #[test]
    fn operators_that_change_something_stay() {
        check_pass_changes_nothing(
            simplify,
            "%0 = input x float32 [2, 2]
             %1 = transpose %0 permutation=[1, 0]
             %2 = cast %1 dataType=float16
             %3 = reshape %2 newShape=[4]
             %4 = slice %3 sizes=[2] starts=[1]
             output y = %4",
        );
    }

    #[test]
    fn a_merged_transpose_with_another_reader_stays() {
        check_pass(
            simplify,
            "%0 = input x float32 [2, 3]
             %1 = transpose %0 permutation=[1, 0]
             %2 = transpose %1 permutation=[1, 0]
             %3 = add %2 %0
             output y = %3
             output z = %1",
            "%0 = input x float32 [2, 3]
             %1 = transpose %0 permutation=[1, 0]
             %2 = add %0 %0
             output y = %2
             output z = %1",
        );
    }
}
