//! `x (1 + erf(x / sqrt 2)) / 2`, with its factors in any order, becomes `gelu()`.

use super::{Facts, beside_scalar, scalar, two};
use crate::dtype::DataType;
use crate::ir::{Graph, ValueId};
use crate::ops::elementwise::Elementwise;
use crate::ops::{Api, Op};
use std::f64::consts::FRAC_1_SQRT_2;

/// Maximum number of nested products to look into.
const MAX_FACTORS: usize = 4;

/// Replaces decomposed `gelu()` by one operator.
pub fn fuse_gelu(graph: &mut Graph) {
    let facts = Facts::of(graph);
    let mut heirs = vec![None; graph.nodes.len()];
    for index in 0..graph.nodes.len() {
        let Some((input, parts)) = find(graph, &facts, index) else { continue };
        parts.into_iter().for_each(|part| heirs[part] = Some(index));
        let node = &mut graph.nodes[index];
        (node.op, node.inputs) = (Elementwise::Gelu.into(), vec![Some(input)]);
    }
    graph.drop_replaced(heirs);
}

/// The factors of a product, including those of nested products without other readers.
#[derive(Default)]
struct Factors {
    scalar: f64,
    others: Vec<ValueId>,
    nodes: Vec<usize>,
}

impl Factors {
    fn multiply(&mut self, graph: &Graph, facts: &Facts, id: ValueId) {
        if let Some(factor) = scalar(graph, id) {
            self.scalar *= factor;
            return;
        }
        let inner = facts.elementwise(graph, id).filter(|_| facts.uses[id.index()] == 1);
        let inner = inner.filter(|(op, _)| *op == Elementwise::Mul && self.nodes.len() < MAX_FACTORS);
        match inner.and_then(|(_, node)| two(node)) {
            None => self.others.push(id),
            Some(operands) => {
                self.nodes.extend(facts.producers[id.index()]);
                operands.into_iter().for_each(|id| self.multiply(graph, facts, id));
            }
        }
    }
}

/// The operand of the `gelu()` that the node at `index` computes, and the nodes that it replaces.
fn find(graph: &Graph, facts: &Facts, index: usize) -> Option<(ValueId, Vec<usize>)> {
    let node = &graph.nodes[index];
    if node.op != Api(Op::Elementwise(Elementwise::Mul)) || !node.epilogue.is_empty() {
        return None;
    }
    let mut factors = Factors { scalar: 1.0, ..Factors::default() };
    two(node)?.into_iter().for_each(|id| factors.multiply(graph, facts, id));
    let [a, b] = factors.others[..] else { return None };
    if factors.scalar != 0.5 {
        return None;
    }
    let (x, mut nodes) = one_and_erf(graph, facts, a, b).or_else(|| one_and_erf(graph, facts, b, a))?;
    nodes.append(&mut factors.nodes);
    (graph.descriptor(x) == graph.descriptor(node.outputs[0])).then_some((x, nodes))
}

/// `x`, if `id` is `1 + erf(x / sqrt 2)` without other readers.
fn one_and_erf(graph: &Graph, facts: &Facts, x: ValueId, id: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let once = |id: ValueId, op: Elementwise| {
        let (own, node) = facts.elementwise(graph, id)?;
        (own == op && facts.uses[id.index()] == 1).then_some((facts.producers[id.index()]?, node))
    };
    let (add, sum) = once(id, Elementwise::Add)?;
    let (erf, _) = beside_scalar(graph, sum).filter(|(_, one)| *one == 1.0)?;
    let (function, erf) = once(erf, Elementwise::Erf)?;
    let argument = erf.inputs[0]?;
    let (op, node) = facts.elementwise(graph, argument).filter(|_| facts.uses[argument.index()] == 1)?;
    let (input, factor) = match op {
        Elementwise::Mul => beside_scalar(graph, node)?,
        Elementwise::Div => {
            let [input, divisor] = two(node)?;
            (input, 1.0 / scalar(graph, divisor)?)
        }
        _ => return None,
    };
    // Constants are rounded to their type; their reciprocals have the same error.
    let rounding = if graph.descriptor(x).dtype == DataType::Float16 { 1e-3 } else { 1e-6 };
    let is_root = (factor / FRAC_1_SQRT_2 - 1.0).abs() < rounding;
    let scaled = facts.producers[argument.index()]?;
    (is_root && input == x).then_some((x, vec![add, function, scaled]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    fn text(argument: &str, product: &str) -> String {
        format!(
            "%0 = input x float32 [2, 3]
             %1 = constant float32 [] 1.4142135
             %2 = constant float32 [1] 0.70710677
             %3 = constant float32 [] 1
             %4 = constant float32 [] 0.5
             %5 = {argument}
             %6 = erf %5
             %7 = add %6 %3
             {product}
             output y = %y"
        )
    }

    #[test]
    fn every_order_of_the_product() {
        for argument in ["div %0 %1", "mul %2 %0"] {
            for product in [
                "%8 = mul %0 %7\n%y = mul %8 %4",
                "%8 = mul %0 %4\n%y = mul %8 %7",
                "%8 = mul %4 %7\n%y = mul %0 %8",
                "%8 = mul %4 %0\n%y = mul %7 %8",
            ] {
                let text = text(argument, product);
                let mut graph = parse(&text);
                fuse_gelu(&mut graph);
                graph.verify();
                graph.sort_origins();
                assert_eq!(graph.to_string(), "%0 = input x float32 [2, 3]\n%1 = gelu %0\noutput y = %1\n");
                assert_eq!(graph.nodes[0].origins, [0, 1, 2, 3, 4], "all are its origins");
                check(&parse(&text), Tolerance::ulps(16).or_absolute(1e-6));
            }
        }
        let half = text("div %0 %1", "%8 = mul %0 %7\n%y = mul %8 %4").replace("float32", "float16");
        let mut graph = parse(&half);
        fuse_gelu(&mut graph);
        assert_eq!(graph.nodes.len(), 1, "{graph}");
        check(&parse(&half), Tolerance::ulps(4).or_absolute(5e-3));
    }

    #[test]
    fn a_gate_behind_it_stays() {
        let mut graph = parse(
            &text("div %0 %1", "%8 = mul %0 %7\n%9 = mul %8 %4\n%y = mul %9 %5")
                .replace("%5 = div %0 %1", "%a = input g float32 [2, 3]\n%5 = div %0 %1")
                .replace("mul %9 %5", "mul %9 %a"),
        );
        fuse_gelu(&mut graph);
        let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.rule().name).collect();
        assert_eq!(names, ["gelu", "mul"]);
    }

    #[test]
    fn other_constants_operands_and_readers_stay() {
        let good = "%8 = mul %0 %7\n%y = mul %8 %4";
        for text in [
            text("div %0 %2", good),
            text("mul %0 %1", good),
            text("div %1 %0", good),
            text("div %0 %1", "%8 = mul %0 %7\n%y = mul %8 %3"),
            text("div %0 %1", "%8 = mul %6 %7\n%y = mul %8 %4"),
            text("div %0 %1", "%8 = mul %0 %7\n%y = mul %8 %4\noutput z = %6"),
            text("div %0 %1", "%8 = mul %0 %7\n%y = mul %8 %4\noutput z = %8"),
            text("div %0 %1", good).replace("add %6 %3", "add %6 %4"),
            text("div %0 %1", good).replace("erf %5", "tanh %5"),
        ] {
            let mut graph = parse(&text);
            let before = graph.to_string();
            fuse_gelu(&mut graph);
            assert_eq!(graph.to_string(), before);
        }
    }
}
