//! Nodes that compute the same from the same operands run only once: importers repeat the same positions and masks in
//! each layer.

use crate::dimension::{Dim, DimKey};
use crate::dtype::DataType;
use crate::ir::{Graph, Source, Value, ValueId};
use crate::ops::{Operation, Operator};
use std::collections::HashMap;

/// Constants above this size in bytes are not compared: the repeated ones are small.
const MAX_COMPARED: usize = 256;

/// Constants with the same elements: type, shape, and bytes or sizes.
type ConstantKey = (DataType, Vec<DimKey>, Vec<u8>, Vec<DimKey>);

/// Equal for equal nodes: the operator with its attributes, its operands and its dimensions.
type NodeKey = (String, Vec<Option<ValueId>>, Vec<DimKey>);

/// Redirects readers to the first of several equal nodes, and of several small constants with the same elements.
pub fn merge_duplicates(graph: &mut Graph) {
    let mut replacements = constants(graph);
    let mut heirs = vec![None; graph.nodes.len()];
    let mut known: HashMap<NodeKey, usize> = HashMap::new();
    for (index, heir) in heirs.iter_mut().enumerate() {
        let node = &mut graph.nodes[index];
        node.each_read_mut(|id| *id = replacements[id.index()]);
        if !node.is_plain() {
            continue;
        }
        let (op, dims) = without_dims(&node.op);
        // As text, operators are found among any number of others, and NaN equals itself.
        let first = *known.entry((format!("{op:?}"), node.inputs.clone(), dims)).or_insert(index);
        if first != index {
            *heir = Some(first);
            let twins = graph.nodes[index].outputs.iter().zip(&graph.nodes[first].outputs);
            twins.for_each(|(own, first)| replacements[own.index()] = *first);
        }
    }
    // Outputs stay separate values: two outputs cannot share one.
    graph.drop_replaced(heirs);
}

/// The operator with all dimensions set to 0, and the keys of these dimensions: comparing sizes would make the graph
/// depend on them.
fn without_dims(op: &Operation) -> (Operation, Vec<DimKey>) {
    let (mut op, mut keys) = (op.clone(), Vec::new());
    op.visit_dims(&mut |dim| keys.push(std::mem::replace(dim, Dim::ZERO).key()));
    (op, keys)
}

/// The replacement of each value: itself, or the first constant with the same type, shape and elements.
fn constants(graph: &Graph) -> Vec<ValueId> {
    let mut known: HashMap<ConstantKey, ValueId> = HashMap::new();
    let of = |(index, value): (usize, &Value)| {
        let id = ValueId(index as u32);
        let (bytes, sizes) = match &value.source {
            Source::Constant(constant) if constant.len() <= MAX_COMPARED => match constant.buffer() {
                Ok(bytes) => (bytes.bytes().to_vec(), Vec::new()),
                Err(_) => return id,
            },
            Source::Sizes(sizes) => (Vec::new(), sizes.iter().map(|dim| dim.key()).collect()),
            _ => return id,
        };
        let shape = value.descriptor.shape.iter().map(|dim| dim.key()).collect();
        *known.entry((value.descriptor.dtype, shape, bytes, sizes)).or_insert(id)
    };
    graph.values.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{check_pass, in_little_time};

    #[test]
    fn equal_nodes_run_once() {
        check_pass(
            merge_duplicates,
            "%0 = input x float32 [2, 3]
             %1 = constant float32 [3] 1 2 3
             %2 = constant float32 [3] 1 2 3
             %3 = constant float32 [3] 1 2 4
             %4 = add %0 %1
             %5 = add %0 %2
             %6 = add %0 %3
             %7 = reshape %4 newShape=[6]
             %8 = reshape %5 newShape=[6]
             %9 = reshape %5 newShape=[3, 2]
             %10 = mul %7 %8
             output y = %10
             output z = %9
             output w = %6",
            "%0 = input x float32 [2, 3]
             %1 = constant float32 [3]
             %2 = add %0 %1
             %3 = constant float32 [3]
             %4 = add %0 %3
             %5 = reshape %2 newShape=[6]
             %6 = reshape %2 newShape=[3, 2]
             %7 = mul %5 %5
             output y = %7
             output z = %6
             output w = %4",
        );
    }

    #[test]
    fn outputs_stay_apart() {
        check_pass(
            merge_duplicates,
            "%0 = input x float32 [2]
             %1 = exp %0
             %2 = exp %0
             %3 = neg %2
             output y = %1
             output z = %2
             output w = %3",
            "%0 = input x float32 [2]
             %1 = exp %0
             %2 = exp %0
             %3 = neg %1
             output y = %1
             output z = %2
             output w = %3",
        );
    }

    #[test]
    fn many_alike_operators_take_little_time() {
        let pairs = 75_000;
        let pair = |i| {
            format!(
                "%a{i} = clamp %x maxValue={i}
                 %b{i} = clamp %x maxValue={i}
                 %y{i} = mul %a{i} %b{i}
                 output y{i} = %y{i}
                 "
            )
        };
        let mut graph = parse(&("%x = input x float32 [2]\n".to_string() + &(0..pairs).map(pair).collect::<String>()));
        in_little_time(|| merge_duplicates(&mut graph));
        assert_eq!(graph.nodes.len(), 2 * pairs);
    }
}
