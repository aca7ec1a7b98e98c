//! Views: operators whose output is, byte for byte, a contiguous part of an operand, or the other way round. The memory
//! planner gives both the same place; the operator needs no step.

use crate::ir::{Graph, Node};
use crate::ops::elementwise::Elementwise;
use crate::ops::{Api, Op};

/// How the operands and outputs of a node share memory.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// Output `i` is the part of operand 0 that starts at byte `offsets[i]`.
    Parts(Vec<usize>),
    /// Operand `i` is the part of output 0 that starts at byte `offsets[i]`.
    Joined(Vec<usize>),
}

impl View {
    /// Where the parts start, in bytes.
    pub fn offsets(&self) -> &[usize] {
        match self {
            View::Parts(offsets) | View::Joined(offsets) => offsets,
        }
    }

    /// The memory of the offsets.
    pub fn into_offsets(self) -> Vec<usize> {
        match self {
            View::Parts(offsets) | View::Joined(offsets) => offsets,
        }
    }

    /// Whether the two differ at most in where parts start, and both or neither at multiples of `granularity`.
    pub fn are_alike(one: &Option<View>, other: &Option<View>, granularity: usize) -> bool {
        let fits = |view: &View| view.offsets().iter().all(|offset| offset.is_multiple_of(granularity));
        match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                std::mem::discriminant(one) == std::mem::discriminant(other) && fits(one) == fits(other)
            }
            _ => false,
        }
    }
}

/// The view of `node`, if it is one. A node with an epilogue or prologue is not, and may have other shapes.
pub fn view(graph: &Graph, node: &Node) -> Option<View> {
    view_in(graph, node, &mut Vec::new())
}

/// Like [`view`], in the memory of `spare`, which it takes if there is a view.
pub fn view_in(graph: &Graph, node: &Node, spare: &mut Vec<usize>) -> Option<View> {
    if !node.is_plain() {
        return None;
    }
    spare.clear();
    let sizes = |index: usize| graph.descriptor(node.inputs[index].expect("the rule requires it")).sizes();
    let size = graph.descriptor(node.outputs[0]).dtype.size();
    let mut kind: fn(Vec<usize>) -> View = View::Parts;
    match &node.op {
        Api(Op::Elementwise(Elementwise::Identity)) => spare.push(0),
        Api(Op::Reshape(op)) => spare.push(op.contiguous_offset()?),
        Api(Op::Expand(op)) => spare.push(op.contiguous_offset(&sizes(0))?),
        Api(Op::Slice(op)) => spare.push(op.contiguous_offset(&sizes(0))?),
        Api(Op::Transpose(op)) => spare.push(op.contiguous_offset(&sizes(0))?),
        Api(Op::Split(op)) => {
            for place in op.strided(&sizes(0)) {
                spare.push(place.contiguous_offset()?);
            }
        }
        Api(Op::Concat(op)) => {
            spare.extend(op.contiguous_offsets((0..node.inputs.len()).map(sizes))?);
            kind = View::Joined;
        }
        _ => return None,
    }
    spare.iter_mut().for_each(|offset| *offset *= size);
    Some(kind(std::mem::take(spare)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    fn views(text: &str) -> Vec<Option<View>> {
        let graph = parse(text);
        graph.nodes.iter().map(|node| view(&graph, node)).collect()
    }

    #[test]
    fn contiguous_parts_are_views() {
        let found = views(
            "%0 = input x float16 [4, 6]
             %1 = reshape %0 newShape=[2, 12]
             %2 = slice %1 starts=[1, 0] sizes=[1, 12]
             %3, %4 = split %0 splits=[1, 3]
             %5 = identity %0
             %6 = transpose %2 permutation=[1, 0]
             output a = %2
             output b = %3
             output c = %4
             output d = %5
             output e = %6",
        );
        let parts = |offsets: &[usize]| Some(View::Parts(offsets.to_vec()));
        assert_eq!(found, [parts(&[0]), parts(&[24]), parts(&[0, 12]), parts(&[0]), parts(&[0])]);
    }

    #[test]
    fn outer_concatenations_are_views_of_their_operands() {
        let text = "%0 = input x float32 [1, 6]
                    %1 = input y float32 [2, 6]
                    %2 = concat %0 %1 axis=0
                    output z = %2";
        assert_eq!(views(text), [Some(View::Joined(vec![0, 24]))]);
    }

    #[test]
    fn a_node_that_computes_its_operand_is_not_a_view() {
        let mut graph = parse(
            "%0 = constant uint8 [4, 2, 3]
             %1 = constant float32 [4, 2, 1]
             %2 = constant uint8 [4, 2, 1]
             %3 = dequantizeLinear %0 %1 %2
             %4 = reshape %3 newShape=[4, 6]
             %5 = slice %4 starts=[0, 0] sizes=[2, 6]
             output y = %5",
        );
        crate::compile::prologue::fuse_prologues(&mut graph, &crate::testing::GPU).unwrap();
        assert!(!graph.nodes[0].is_plain(), "{graph}");
        assert_eq!(view(&graph, &graph.nodes[0]), None);
    }

    #[test]
    fn scattered_parts_are_copied() {
        let found = views(
            "%0 = input x float32 [4, 6]
             %1 = slice %0 starts=[0, 1] sizes=[4, 2]
             %2, %3 = split %0 splits=2 axis=1
             %4 = concat %0 %0 axis=1
             %5 = transpose %0 permutation=[1, 0]
             output a = %1
             output b = %2
             output c = %3
             output d = %4
             output e = %5",
        );
        assert_eq!(found, [None, None, None, None]);
    }
}
