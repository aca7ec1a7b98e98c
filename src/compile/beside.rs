//! Products of the same left operand, such as the query, key and value of attention, become neighbors: a backend computes
//! them in one step, which shares the work of all columns at once and prepares the rows once.

use crate::ir::{Graph, Node, Source, ValueId};
use crate::ops::{Api, Fusion, Op, Operation};
use std::collections::HashMap;

/// Maximum distance, in nodes, between the first product of a step and the others. Those further away usually belong to
/// another layer: their results would take memory from the first layer on.
const NEAR: usize = 32;

/// How a product reads its left operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Reading {
    Rows,
    Columns,
    /// Products with weights in blocks, and whether they round rows to 8 bits.
    Blocks(bool),
}

/// Moves products with constant right operands to the first one of the same left operand, and marks them as computed
/// [beside](Graph::beside) it, if their other operands are there by then.
pub fn move_beside(graph: &mut Graph) {
    let producers = graph.producers();
    let mut others: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    let mut firsts: HashMap<(ValueId, Reading), usize> = HashMap::new();
    let mut order = Vec::with_capacity(graph.nodes.len());
    for (index, node) in graph.nodes.iter().enumerate() {
        let first = left(graph, node).map(|left| firsts.entry(left).or_insert(index));
        let is_there = |id: &ValueId, first: usize| producers[id.index()].is_none_or(|producer| producer < first);
        match first {
            Some(first) if index - *first > NEAR => {
                *first = index;
                order.push(index);
            }
            Some(&mut first) if first < index && node.reads().all(|id| is_there(id, first)) => {
                others[first].push(index)
            }
            _ => order.push(index),
        }
    }
    let mut nodes: Vec<Option<Node>> = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
    for first in order {
        for (place, &index) in [first].iter().chain(&others[first]).enumerate() {
            if place > 0 {
                graph.beside.push(graph.nodes.len());
            }
            graph.nodes.extend(nodes[index].take());
        }
    }
}

/// The left operand of a product with a constant matrix, and how it is read.
fn left(graph: &Graph, node: &Node) -> Option<(ValueId, Reading)> {
    let reading = match &node.op {
        Api(Op::Matmul(_)) => Reading::Rows,
        Api(Op::Gemm(op)) if op.attributes.a_transpose => Reading::Columns,
        Api(Op::Gemm(_)) => Reading::Rows,
        Operation::Fusion(Fusion::BlockProduct(op)) => Reading::Blocks(op.rounds_rows),
        _ => return None,
    };
    let right = node.inputs[1]?;
    let is_matrix = matches!(graph.value(right).source, Source::Constant(_)) && graph.descriptor(right).rank() == 2;
    let left = node.inputs[0].filter(|left| *left != right && is_matrix && node.prologues.is_empty())?;
    (!matches!(graph.value(left).source, Source::Constant(_))).then_some((left, reading))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    /// The outputs of the nodes in the order after the pass; those of one step are joined by `+`.
    fn steps(text: &str) -> String {
        let mut graph = parse(text);
        move_beside(&mut graph);
        graph.verify();
        let name = |(at, node): (usize, &Node)| {
            let joint = if at == 0 {
                ""
            } else if graph.beside.contains(&at) {
                "+"
            } else {
                " "
            };
            format!("{joint}{}", node.outputs[0].index())
        };
        graph.nodes.iter().enumerate().map(name).collect()
    }

    const WEIGHTS: &str = "%0 = input x float32 [3, 8]\n%1 = constant float32 [8, 8]\n%2 = constant float32 [8, 4]\n";

    #[test]
    fn products_move_to_the_first_one() {
        for (rest, expected) in [
            (
                "%3 = matmul %0 %1\n%4 = abs %3\n%5 = matmul %0 %2\n%6 = neg %5\n%7 = gemm %0 %1\noutput y = %6\noutput z = %7\noutput w = %4",
                "3+5+7 4 6",
            ),
            // A transposed left operand is another one.
            (
                "%3 = constant float32 [3, 4]\n%4 = matmul %0 %1\n%5 = gemm %0 %3 aTranspose=true\n%6 = gemm %0 %2\noutput y = %4\noutput z = %5\noutput w = %6",
                "4+6 5",
            ),
            // Products with computed matrices, and with another left operand.
            (
                "%3 = abs %1\n%4 = matmul %0 %3\n%5 = matmul %0 %2\n%6 = matmul %4 %2\noutput y = %5\noutput z = %6",
                "3 4 5 6",
            ),
            // An addend that is there before the first product, and others that are not: computed later, or by the first one.
            ("%3 = abs %0\n%4 = gemm %3 %1\n%5 = gemm %3 %1 %0\noutput y = %4\noutput z = %5", "3 4+5"),
            (
                "%3 = gemm %0 %1\n%4 = abs %0\n%5 = gemm %0 %1 %4\n%6 = gemm %0 %2\noutput y = %3\noutput z = %5\noutput w = %6",
                "3+6 4 5",
            ),
            ("%3 = gemm %0 %1\n%4 = gemm %0 %1 %3\n%5 = gemm %0 %1 %4\noutput y = %5\noutput z = %3", "3 4 5"),
        ] {
            assert_eq!(steps(&format!("{WEIGHTS}{rest}")), expected, "{rest}");
        }
    }

    #[test]
    fn products_of_other_layers_stay() {
        let mut text = format!("{WEIGHTS}%3 = matmul %0 %1\n");
        (4..40).for_each(|id| text += &format!("%{id} = abs %{}\n", id - 1));
        text += "%40 = matmul %0 %1\n%41 = abs %40\n%42 = matmul %0 %2\noutput y = %39\noutput z = %41\noutput w = %42";
        assert!(steps(&text).ends_with(" 39 40+42 41"), "{}", steps(&text));
    }
}
