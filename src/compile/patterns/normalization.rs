//! Layer and root-mean-square normalization, decomposed into means, powers and square roots.

use super::{Facts, beside_scalar, is_fused, scalar, two};
use crate::dimension::Dim;
use crate::ir::{Graph, Node, ValueId};
use crate::ops::elementwise::Elementwise;
use crate::ops::normalization::LayerNormalization;
use crate::ops::reduce::ReduceKind;
use crate::ops::rms_normalization::RmsNormalization;
use crate::ops::{Api, Op, Operation};

/// Replaces decomposed layer and root-mean-square normalizations by one operator.
pub fn fuse_normalizations(graph: &mut Graph) {
    let facts = Facts::of(graph);
    let mut heirs = vec![None; graph.nodes.len()];
    for index in 0..graph.nodes.len() {
        let Some(found) = find(graph, &facts, index) else { continue };
        let last = found.behind.last().copied().unwrap_or(index);
        let parts = found.front.iter().chain(&found.behind).chain([&index]);
        parts.filter(|part| **part != last).for_each(|&part| heirs[part] = heirs[part].or(Some(last)));
        let node = &mut graph.nodes[last];
        (node.op, node.inputs) = (found.op, found.inputs);
    }
    graph.drop_replaced(heirs);
}

struct FoundNormalization {
    op: Operation,
    inputs: Vec<Option<ValueId>>,
    /// Preceding nodes whose work it does, unless something else needs them.
    front: Vec<usize>,
    /// The product with the scale and the sum with the bias; the fused operator takes the place of the last one.
    behind: Vec<usize>,
}

/// The parts of `x / sqrt(mean(square(y)) + epsilon)`.
struct Normalized {
    /// `x`.
    dividend: ValueId,
    /// `y`.
    squared: ValueId,
    /// Dimensions of the mean.
    axes: Vec<u32>,
    epsilon: f64,
    nodes: Vec<usize>,
}

fn find(graph: &Graph, facts: &Facts, index: usize) -> Option<FoundNormalization> {
    let normalized = normalized(graph, facts, &graph.nodes[index])?;
    if !is_fused(graph.descriptor(graph.nodes[index].outputs[0]).dtype) {
        return None;
    }
    let Normalized { dividend, squared, axes, epsilon, nodes: mut front } = normalized;
    let (mut id, mut inputs, mut behind) = (graph.nodes[index].outputs[0], Vec::new(), Vec::new());
    let centered = difference(graph, facts, dividend, &axes)
        .filter(|(x, _)| difference(graph, facts, squared, &axes).is_some_and(|(other, _)| other == *x));
    let input = match &centered {
        Some((x, _)) => *x,
        None if dividend == squared => dividend,
        None => return None,
    };
    let shape = graph.descriptor(input).shape.clone();
    if graph.descriptor(id).shape != shape {
        return None;
    }
    // Only the last dimensions, in ascending order.
    let rank = shape.len() as u32;
    if axes.is_empty() || !axes.iter().copied().eq(rank - axes.len() as u32..rank) {
        return None;
    }
    if let Some((_, nodes)) = &centered {
        front.extend(nodes);
        front.extend(facts.producers[squared.index()]);
    }
    inputs.push(Some(input));
    let row = &shape[(rank as usize - axes.len())..];
    let mut weight = |id: &mut ValueId, op: Elementwise| {
        let (reader, other) = weight(graph, facts, *id, op, row)?;
        // The scale must be computed before the product with it.
        *id = graph.nodes[reader].outputs[0];
        behind.push(reader);
        Some(other)
    };
    let scale = weight(&mut id, Elementwise::Mul);
    let op = match centered {
        Some(_) => {
            let bias = weight(&mut id, Elementwise::Add);
            inputs.extend([scale, bias]);
            LayerNormalization { axes: Some(axes), epsilon }.into()
        }
        None => {
            inputs.push(scale);
            Operation::Fusion(RmsNormalization { dimensions: axes.len() as u32, epsilon }.into())
        }
    };
    while inputs.last() == Some(&None) {
        inputs.pop();
    }
    Some(FoundNormalization { op, inputs, front, behind })
}

/// The only reader of `id`, if it is `op` with another operand of shape `row`, and that operand.
fn weight(graph: &Graph, facts: &Facts, id: ValueId, op: Elementwise, row: &[Dim]) -> Option<(usize, ValueId)> {
    let reader = facts.readers[id.index()].filter(|_| facts.uses[id.index()] == 1)?;
    let node = &graph.nodes[reader];
    let [a, b] = two(node)?;
    let other = if a == id { b } else { a };
    let matches = node.op == Api(Op::Elementwise(op)) && node.epilogue.is_empty() && a != b;
    (matches && graph.descriptor(other).shape == row).then_some((reader, other))
}

/// Matches `x / sqrt(...)`, in any of its spellings.
fn normalized(graph: &Graph, facts: &Facts, node: &Node) -> Option<Normalized> {
    let Api(Op::Elementwise(op)) = node.op else { return None };
    let [a, b] = two(node).filter(|_| node.epilogue.is_empty())?;
    match op {
        Elementwise::Div => root(graph, facts, a, b, Vec::new()),
        Elementwise::Mul => inverse_root(graph, facts, a, b).or_else(|| inverse_root(graph, facts, b, a)),
        _ => None,
    }
}

/// Matches `dividend * factor`, with a factor of `1 / sqrt(...)` or `(...) ^ -0.5`.
fn inverse_root(graph: &Graph, facts: &Facts, dividend: ValueId, factor: ValueId) -> Option<Normalized> {
    let (op, node) = facts.elementwise(graph, factor)?;
    let nodes = vec![facts.producers[factor.index()]?];
    match op {
        Elementwise::Reciprocal => root(graph, facts, dividend, node.inputs[0]?, nodes),
        Elementwise::Div => {
            let [one, x] = two(node)?;
            if scalar(graph, one) == Some(1.0) { root(graph, facts, dividend, x, nodes) } else { None }
        }
        Elementwise::Pow => {
            let [x, exponent] = two(node)?;
            if scalar(graph, exponent) == Some(-0.5) { variance(graph, facts, dividend, x, nodes) } else { None }
        }
        _ => None,
    }
}

fn root(graph: &Graph, facts: &Facts, dividend: ValueId, id: ValueId, mut nodes: Vec<usize>) -> Option<Normalized> {
    let (op, node) = facts.elementwise(graph, id)?;
    nodes.push(facts.producers[id.index()]?);
    match op {
        Elementwise::Sqrt => variance(graph, facts, dividend, node.inputs[0]?, nodes),
        Elementwise::Pow => {
            let [x, exponent] = two(node)?;
            if scalar(graph, exponent) == Some(0.5) { variance(graph, facts, dividend, x, nodes) } else { None }
        }
        _ => None,
    }
}

/// Matches `mean(square(y)) + epsilon`.
fn variance(graph: &Graph, facts: &Facts, dividend: ValueId, id: ValueId, mut nodes: Vec<usize>) -> Option<Normalized> {
    let (op, node) = facts.elementwise(graph, id)?;
    let (squares, epsilon) = beside_scalar(graph, node).filter(|_| op == Elementwise::Add)?;
    nodes.push(facts.producers[id.index()]?);
    let (square, axes) = mean(graph, facts, squares)?;
    nodes.push(facts.producers[squares.index()]?);
    let (op, node) = facts.elementwise(graph, square)?;
    nodes.push(facts.producers[square.index()]?);
    let [a, b] = two(node)?;
    let is_square = match op {
        Elementwise::Mul => a == b,
        Elementwise::Pow => scalar(graph, b) == Some(2.0),
        _ => false,
    };
    (is_square && epsilon >= 0.0).then_some(Normalized { dividend, squared: a, axes, epsilon, nodes })
}

/// The operand of the mean that computes `id`, and its dimensions, which are kept with size 1.
fn mean(graph: &Graph, facts: &Facts, id: ValueId) -> Option<(ValueId, Vec<u32>)> {
    let (_, node) = facts.producer(graph, id)?;
    let Api(Op::Reduce(op)) = &node.op else { return None };
    let input = node.inputs[0]?;
    let rank = graph.descriptor(input).rank();
    if op.kind != ReduceKind::Mean || !(op.attributes.keep_dimensions || rank == 0) {
        return None;
    }
    let mut axes = op.attributes.axes.clone().unwrap_or_else(|| (0..rank as u32).collect());
    axes.sort_unstable();
    Some((input, axes))
}

/// `x`, if `id` is `x - mean(x)`, and its nodes.
fn difference(graph: &Graph, facts: &Facts, id: ValueId, axes: &[u32]) -> Option<(ValueId, Vec<usize>)> {
    let (op, node) = facts.elementwise(graph, id)?;
    let [x, subtracted] = two(node).filter(|_| op == Elementwise::Sub)?;
    let (input, own) = mean(graph, facts, subtracted)?;
    let nodes = vec![facts.producers[id.index()]?, facts.producers[subtracted.index()]?];
    (input == x && own == axes).then_some((x, nodes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{Tolerance, check, check_pass, check_pass_changes_nothing};

    fn layer(spelling: &str) -> String {
        format!(
            "%0 = input x float32 [2, 3, 8]
             %1 = constant float32 [8]
             %2 = constant float32 [8]
             %3 = constant float32 [] 0.5
             %4 = constant float32 [] 2
             %5 = reduceMean %0 axes=[2] keepDimensions=true
             %6 = sub %0 %5
             {spelling}
             %v = reduceMean %7 axes=[2] keepDimensions=true
             %e = add %3 %v
             %s = sqrt %e
             %n = div %6 %s
             %m = mul %1 %n
             %o = add %m %2
             output y = %o"
        )
    }

    #[test]
    fn that_of_doubles_has_no_operator() {
        check_pass_changes_nothing(
            fuse_normalizations,
            "%0 = input x float64 [2, 3]
             %1 = mul %0 %0
             %2 = reduceMean %1 axes=[1] keepDimensions=true
             %3 = sqrt %2
             %4 = div %0 %3
             output y = %4",
        );
    }

    #[test]
    fn layers() {
        for square in ["%7 = mul %6 %6", "%7 = pow %6 %4", "%8 = sub %0 %5\n%7 = pow %8 %4"] {
            check_pass(
                fuse_normalizations,
                &layer(square),
                "%0 = input x float32 [2, 3, 8]
                 %1 = constant float32 [8]
                 %2 = constant float32 [8]
                 %3 = layerNormalization %0 %1 %2 axes=[2] epsilon=0.5
                 output y = %3",
            );
        }
    }

    #[test]
    fn root_mean_squares() {
        for inverse in ["%8 = reciprocal %7\n%9 = mul %0 %8", "%8 = div %2 %7\n%9 = mul %8 %0", "%9 = div %0 %7"] {
            let text = format!(
                "%0 = input x float32 [2, 3, 8]
                 %1 = constant float32 [8]
                 %2 = constant float32 [] 1
                 %3 = constant float32 [] 0.5
                 %4 = mul %0 %0
                 %5 = reduceMean %4 axes=[2] keepDimensions=true
                 %6 = add %5 %3
                 %7 = sqrt %6
                 {inverse}
                 %m = mul %1 %9
                 output y = %m"
            );
            check_pass(
                fuse_normalizations,
                &text,
                "%0 = input x float32 [2, 3, 8]
                 %1 = constant float32 [8]
                 %2 = rmsNormalization %0 %1 epsilon=0.5
                 output y = %2",
            );
            check(&parse(&text), Tolerance::ulps(4).or_absolute(1e-6));
            check(&parse(&text.replace("float32", "float16")), Tolerance::ulps(4).or_absolute(1e-2));
        }
    }

    #[test]
    fn other_dimensions_means_and_readers_stay() {
        let good = layer("%7 = mul %6 %6");
        for (from, to) in [
            ("%n = div %6 %s", "%n = div %0 %s"),
            ("%7 = mul %6 %6", "%7 = mul %6 %0"),
            ("%v = reduceMean", "%v = reduceSum"),
            ("%s = sqrt %e", "%s = exp %e"),
            ("axes=[2]", "axes=[1]"),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good);
            let mut graph = parse(&text);
            let before = graph.to_string();
            fuse_normalizations(&mut graph);
            assert_eq!(graph.to_string(), before, "{from}");
        }
        // The product with the scale has another reader: the pattern ends in front of it.
        let mut graph = parse(&(good + "\noutput z = %n"));
        fuse_normalizations(&mut graph);
        graph.verify();
        let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.rule().name).collect();
        assert_eq!(names, ["layerNormalization", "mul", "add"]);
    }
}
