//! Products with a transposed constant: the product transposes while it packs. The constant is then not copied, nor
//! held in both forms if another operator (the embedding of a language model) reads it untransposed.

use crate::dimension::Dim;
use crate::ir::{Graph, Node, Source, ValueId};
use crate::ops::matmul::{Gemm, GemmAttributes};
use crate::ops::reshape::Reshape;
use crate::ops::{Api, Op};
use crate::shape::Descriptor;
use std::collections::HashMap;

/// Lets matrix products whose second operand transposes a constant matrix read that constant itself.
pub fn transpose_in_products(graph: &mut Graph) {
    let constants: HashMap<ValueId, ValueId> =
        graph.nodes.iter().filter_map(|node| Some((node.outputs[0], transposed_constant(graph, node)?))).collect();
    if constants.is_empty() {
        return;
    }
    for mut node in std::mem::take(&mut graph.nodes) {
        let constant = node.inputs.get(1).copied().flatten().and_then(|b| constants.get(&b).copied());
        match (&mut node.op, constant) {
            (Api(Op::Gemm(gemm)), Some(constant)) => {
                gemm.attributes.b_transpose ^= true;
                node.inputs[1] = Some(constant);
                graph.nodes.push(node);
            }
            (Api(Op::Matmul(_)), Some(constant)) => push_gemm(graph, &node, constant),
            _ => graph.nodes.push(node),
        }
    }
    graph.drop_unused();
}

/// The constant matrix that `node` transposes.
fn transposed_constant(graph: &Graph, node: &Node) -> Option<ValueId> {
    let (Api(Op::Transpose(op)), [Some(id)]) = (&node.op, node.inputs.as_slice()) else { return None };
    let matrix = graph.value(*id).constant().is_some() && graph.descriptor(*id).rank() == 2;
    (matrix && op.axes(2) == [1, 0]).then_some(*id)
}

/// Adds the `matmul()` of `node` with `constant` transposed, as a `gemm()`: the batch becomes more rows.
fn push_gemm(graph: &mut Graph, node: &Node, constant: ValueId) {
    let a = node.inputs[0].expect("the rule requires this operand");
    let attributes = GemmAttributes { b_transpose: true, ..GemmAttributes::default() };
    let gemm = |a, output| Node {
        op: Gemm { attributes }.into(),
        inputs: vec![Some(a), Some(constant)],
        outputs: vec![output],
        ..node.clone()
    };
    let output = node.outputs[0];
    let Descriptor { dtype, shape } = graph.descriptor(a).clone();
    let (&depth, rows) = shape.split_last().expect("inferred");
    if let [_] = rows {
        return graph.nodes.push(gemm(a, output));
    }
    let rows = rows.iter().copied().product();
    let new_shape = graph.descriptor(output).shape.clone();
    let mut value = |cols: Dim| graph.add_value(Descriptor::new(dtype, [rows, cols]), Source::Node);
    let (flat, sums) = (value(depth), value(*new_shape.last().expect("inferred")));
    let reshape = |from, new_shape, to| Node {
        op: Reshape { new_shape }.into(),
        inputs: vec![Some(from)],
        outputs: vec![to],
        // The origins belong to the product.
        origins: Vec::new(),
        ..node.clone()
    };
    let nodes = [reshape(a, vec![rows, depth], flat), gemm(flat, sums), reshape(sums, new_shape, output)];
    graph.nodes.extend(nodes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{Tolerance, check, check_pass, check_pass_changes_nothing};

    #[test]
    fn products_read_the_constant_itself() {
        check_pass(
            transpose_in_products,
            "%0 = input x float32 [2, 3, 5]
             %1 = constant float32 [4, 5]
             %2 = transpose %1 permutation=[1, 0]
             %3 = matmul %0 %2
             %4 = input z float32 [2, 5]
             %5 = matmul %4 %2
             %6 = gemm %4 %2
             %7 = constant float32 [5, 4]
             %8 = transpose %7
             %9 = gemm %4 %8 bTranspose=true
             output a = %3
             output b = %5
             output c = %6
             output d = %9",
            "%0 = input x float32 [2, 3, 5]
             %1 = input z float32 [2, 5]
             %2 = reshape %0 newShape=[6, 5]
             %3 = constant float32 [4, 5]
             %4 = gemm %2 %3 bTranspose=true
             %5 = reshape %4 newShape=[2, 3, 4]
             %6 = gemm %1 %3 bTranspose=true
             %7 = gemm %1 %3 bTranspose=true
             %8 = constant float32 [5, 4]
             %9 = gemm %1 %8
             output a = %5
             output b = %6
             output c = %7
             output d = %9",
        );
    }

    #[test]
    fn other_transposes_stay() {
        for text in [
            "%0 = input x float32 [3, 5]
             %1 = input y float32 [4, 5]
             %2 = transpose %1 permutation=[1, 0]
             %3 = matmul %0 %2
             output z = %3",
            "%0 = input x float32 [2, 3, 5]
             %1 = constant float32 [2, 4, 5]
             %2 = transpose %1 permutation=[0, 2, 1]
             %3 = matmul %0 %2
             output z = %3",
            "%0 = input x float32 [5, 3]
             %1 = constant float32 [5, 4]
             %2 = transpose %1 permutation=[1, 0]
             %3 = matmul %2 %0
             output z = %3",
        ] {
            check_pass_changes_nothing(transpose_in_products, text);
        }
    }

    #[test]
    fn embeddings_can_be_read_both_ways() {
        for dtype in ["float32", "float16"] {
            let graph = parse(&format!(
                "%0 = input i int32 [2, 3]
                 %1 = constant {dtype} [40, 6]
                 %2 = gather %1 %0
                 %3 = transpose %1 permutation=[1, 0]
                 %4 = matmul %2 %3
                 output y = %4"
            ));
            check(&graph, Tolerance::ulps(1).or_absolute(1e-5));
        }
    }
}
