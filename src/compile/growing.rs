//! Growing caches: an output that is an input with rows appended takes the memory of that input, and only the new rows
//! are written.
//!
//! The growing dimension comes first in the memory of both: rows can then be appended regardless of the other
//! dimensions. Callers must pass such tensors in that order, see [`Growing`].

use crate::dimension::Dim;
use crate::ir::{Graph, Growing, Node, Source, ValueId};
use crate::ops::concat::Concat;
use crate::ops::transpose::Transpose;
use crate::ops::{Api, Op};
use crate::shape::Descriptor;
use std::collections::HashMap;

/// Records in `graph` which outputs are an input with rows appended: caches of any length.
pub fn find_growing(graph: &mut Graph) {
    let mut found = appending(graph, |id, axis| !graph.descriptor(id).shape[axis].is_number());
    // Of several outputs, the first one takes the memory of an input.
    let mut taken = vec![false; graph.inputs.len()];
    found.retain(|one| !std::mem::replace(&mut taken[one.input], true));
    graph.growing = found;
}

/// The outputs of `graph` that are an input with rows appended along a dimension that `is_free`. Several outputs may
/// begin with the same input.
pub fn appending(graph: &Graph, is_free: impl Fn(ValueId, usize) -> bool) -> Vec<Growing> {
    let producers = graph.producers();
    let inputs: HashMap<ValueId, usize> = graph.inputs.iter().enumerate().map(|(at, (_, id))| (*id, at)).collect();
    let mut names = vec![0; graph.values.len()];
    graph.outputs.iter().for_each(|(_, id)| names[id.index()] += 1);
    let appending = |(output, (_, id)): (usize, &(String, ValueId))| {
        let node = producers[id.index()].filter(|_| names[id.index()] == 1).map(|index| &graph.nodes[index])?;
        let (Api(Op::Concat(op)), Some(first)) = (&node.op, node.inputs[0]) else { return None };
        let axis = op.axis as usize;
        let input = *inputs.get(&first)?;
        let reads_once = node.inputs.iter().filter(|id| **id == Some(first)).count() == 1;
        (reads_once && is_free(first, axis)).then_some(Growing { input, output, axis })
    };
    graph.outputs.iter().enumerate().filter_map(appending).collect()
}

/// Reorders the dimensions of the caches of `graph`, the growing one first.
pub fn grow(graph: &mut Graph) {
    let producers = graph.producers();
    // The cache that each node appends to.
    let mut caches: Vec<Option<Growing>> = vec![None; graph.nodes.len()];
    for growing in &graph.growing {
        let present = graph.outputs[growing.output].1;
        caches[producers[present.index()].expect("a concatenation")] = Some(*growing);
    }
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (node, cache) in std::mem::take(&mut graph.nodes).into_iter().zip(caches) {
        match cache {
            // Other readers of the input expect its original order.
            Some(cache) => first.push(append_rows(graph, &node, cache, &mut rest)),
            None => rest.push(node),
        }
    }
    first.append(&mut rest);
    graph.nodes = first;
    graph.drop_unused();
}

/// Adds the nodes that append to a cache by rows, in place of `concat`. Returns the node that restores the original
/// order of the cache.
fn append_rows(graph: &mut Graph, concat: &Node, cache: Growing, nodes: &mut Vec<Node>) -> Node {
    let Growing { input, output, axis } = cache;
    let (past, present) = (graph.inputs[input].1, graph.outputs[output].1);
    let rank = graph.descriptor(past).rank();
    let order: Vec<u32> =
        std::iter::once(axis).chain((0..rank).filter(|other| *other != axis)).map(|a| a as u32).collect();
    let back: Vec<u32> =
        (0..rank as u32).map(|a| order.iter().position(|&other| other == a).unwrap_or(0) as u32).collect();
    let own_past = reordered(graph, past, &order, Source::Input);
    graph.values[past.index()].source = Source::Node;
    let mut operands = vec![Some(own_past)];
    for id in concat.inputs[1..].iter().flatten() {
        let own = reordered(graph, *id, &order, Source::Node);
        nodes.push(transpose(concat, *id, own, &order));
        operands.push(Some(own));
    }
    let own_present = reordered(graph, present, &order, Source::Node);
    let outputs = vec![own_present];
    nodes.push(Node { op: Concat { axis: 0 }.into(), inputs: operands, outputs, ..concat.clone() });
    nodes.push(transpose(concat, own_present, present, &back));
    graph.inputs[input].1 = own_past;
    graph.outputs[output].1 = own_present;
    transpose(concat, own_past, past, &back)
}

/// Adds a value with the dimensions of `id` in this order.
fn reordered(graph: &mut Graph, id: ValueId, order: &[u32], source: Source) -> ValueId {
    let Descriptor { dtype, shape } = graph.descriptor(id);
    let shape: Vec<Dim> = order.iter().map(|&axis| shape[axis as usize]).collect();
    let descriptor = Descriptor::new(*dtype, shape);
    graph.add_value(descriptor, source)
}

/// The transpose of `from` to `to`, named after `concat`.
fn transpose(concat: &Node, from: ValueId, to: ValueId, order: &[u32]) -> Node {
    let op = Transpose { permutation: Some(order.to_vec()) }.into();
    Node { op, inputs: vec![Some(from)], outputs: vec![to], origins: Vec::new(), ..concat.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::Tape;
    use crate::ir::parse;
    use crate::testing::in_little_time;

    /// The text of `graph` with the size of `past` along `axis` free, after both functions, and its growing outputs.
    fn grown(text: &str, past: u32, axis: usize) -> (String, Vec<Growing>) {
        let mut graph = parse(text);
        let ((), _) = Tape::record(&[i64::from(graph.value(ValueId(past)).descriptor.sizes()[axis])], |free| {
            graph.values[past as usize].descriptor.shape[axis] = free[0];
            find_growing(&mut graph);
            grow(&mut graph);
            graph.verify();
        });
        (graph.to_string(), graph.growing)
    }

    #[test]
    fn a_cache_is_handed_over_by_rows() {
        let text = "%0 = input past float32 [1, 2, 3, 4]
                    %1 = input new float32 [1, 2, 1, 4]
                    %2 = concat %0 %1 axis=2
                    %3 = exp %2
                    output y = %3
                    output present = %2";
        let (text, growing) = grown(text, 0, 2);
        assert_eq!(growing, [Growing { input: 0, output: 1, axis: 2 }]);
        let expected = "%0 = input past float32 [3, 1, 2, 4]
                        %1 = input new float32 [1, 2, 1, 4]
                        %2 = transpose %1 permutation=[2, 0, 1, 3]
                        %3 = concat %0 %2
                        %4 = transpose %3 permutation=[1, 2, 0, 3]
                        %5 = exp %4
                        output y = %5
                        output present = %3";
        let expected: String = expected.lines().map(|line| line.trim().to_string() + "\n").collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn many_caches_take_little_time() {
        let count = 50_000;
        let line = |i| {
            format!(
                "%p{i} = input p{i} float32 [2, 3]
                 %n{i} = input n{i} float32 [2, 1]
                 %c{i} = concat %p{i} %n{i} axis=1
                 output c{i} = %c{i}
                 "
            )
        };
        let mut graph = parse(&(0..count).map(line).collect::<String>());
        let pasts: Vec<ValueId> = graph.inputs.iter().step_by(2).map(|(_, id)| *id).collect();
        let ((), _) = Tape::record(&[3], |free| {
            pasts.iter().for_each(|id| graph.values[id.index()].descriptor.shape[1] = free[0]);
            in_little_time(|| {
                find_growing(&mut graph);
                grow(&mut graph);
                graph.verify();
            });
        });
        assert_eq!(graph.caches().into_iter().flatten().count(), count);
    }

    #[test]
    fn other_outputs_stay_as_they_are() {
        for (text, axis) in [
            // The input comes second, the input appended to itself, a fixed length, and an output under two names.
            ("%2 = concat %1 %0 axis=2\noutput y = %2", 2),
            ("%2 = concat %0 %0 axis=2\noutput y = %2", 2),
            ("%2 = concat %0 %1 axis=2\noutput y = %2", 1),
            ("%2 = concat %0 %1 axis=2\noutput y = %2\noutput z = %2", 2),
        ] {
            let text = format!("%0 = input past float32 [1, 2, 3, 4]\n%1 = input new float32 [1, 2, 1, 4]\n{text}");
            assert_eq!(grown(&text, 0, axis).1, [], "{text}");
        }
    }
}
