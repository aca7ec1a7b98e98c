//! Constant folding: nodes with constant operands become constants. Small ones are computed when the graph is built,
//! large ones when somebody reads them.

use super::simplify::does_nothing;
use super::views::{View, view};
use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::{Constant, Derived, Evaluator, Graph, Node, Sharing, Source, ValueId, Widened};
use crate::ops::elementwise::Elementwise;
use crate::ops::{Api, Op, Operator};
use std::collections::HashSet;

/// A node is not folded if its outputs are this many times larger than its operands...
const MAX_GROWTH: usize = 8;
/// ... and larger than this many bytes: a scalar expanded to a whole tensor is cheaper to compute than to store.
const SMALL_BYTES: usize = 1 << 16;
/// The same for a table over two lists, such as the angles of samples and filters: what is computed of it, and products
/// with it, cost more than to store it.
const TABLE_BYTES: usize = 1 << 22;

/// Results of at least this many bytes are computed when they are read. Passes read smaller ones: scales and biases.
const DERIVED_BYTES: usize = 1 << 16;
/// Results whose sources keep this many times more memory in use than themselves are computed when the graph is built.
const MAX_RETAINED: usize = 2;
/// Maximum number of nodes in a chain that is computed when its last result is read: dropping it recurses.
const MAX_DEPTH: usize = 64;

/// Replaces nodes with constant operands by their results, except for the values in `keep`.
///
/// # Errors
/// An `UnknownError` if memory for the constants runs out, an `OperationError` if a mapped one cannot be read.
pub fn fold(graph: &mut Graph, keep: &HashSet<ValueId>, evaluator: &Evaluator) -> Result<()> {
    let mut uses = graph.use_counts();
    let mut pending = Vec::new();
    for node in std::mem::take(&mut graph.nodes) {
        let known = node.reads().all(|&id| graph.value(id).constant().is_some())
            && !node.outputs.iter().any(|id| keep.contains(id) || !graph.descriptor(*id).is_known());
        let bytes = |id: &ValueId| graph.descriptor(*id).bytes();
        let is_small = || {
            let operands: usize = node.reads().map(bytes).sum();
            let outputs: usize = node.outputs.iter().map(bytes).sum();
            let most = if is_table(graph, &node) { TABLE_BYTES } else { SMALL_BYTES };
            outputs <= operands * MAX_GROWTH || outputs <= most
        };
        if !known || !is_small() {
            graph.nodes.push(node);
            continue;
        }
        let constants = match windows(graph, &node)?.or_else(|| widened(graph, &node)) {
            Some(stored) => stored,
            None => computed(graph, &node, evaluator)?,
        };
        for (id, constant) in node.outputs.iter().zip(constants) {
            if matches!(&constant, Constant::Derived(derived) if !is_worthwhile(derived)) {
                pending.push(*id);
            }
            graph.values[id.index()].source = Source::Constant(constant);
        }
        // Drops each intermediate constant after its last use: all constants of a long chain may not fit into memory
        // together.
        for id in node.reads() {
            uses[id.index()] -= 1;
            if uses[id.index()] == 0 {
                graph.values[id.index()].source = Source::Node;
            }
        }
    }
    graph.drop_unused();
    compute_all(graph, &pending)
}

/// The outputs of a node with constant operands.
fn computed(graph: &mut Graph, node: &Node, evaluator: &Evaluator) -> Result<Vec<Constant>> {
    let constants = |graph: &Graph| -> Vec<(ValueId, Constant)> {
        node.reads().filter_map(|id| Some((*id, graph.value(*id).constant()?.clone()))).collect()
    };
    for (id, constant) in constants(graph) {
        if matches!(&constant, Constant::Derived(derived) if derived.depth() >= MAX_DEPTH) {
            graph.values[id.index()].source = Source::Constant(Constant::Owned(constant.buffer()?));
        }
    }
    // Functions of sizes belong to the compilation that knows them.
    let (mut op, mut is_known) = (node.op.clone(), node.prologues.is_empty());
    op.visit_dims(&mut |dim| is_known &= dim.is_number());
    is_known &= node.reads().all(|id| graph.descriptor(*id).is_known());
    let operands = constants(graph);
    let reads_derived = operands.iter().any(|(_, constant)| matches!(constant, Constant::Derived(_)));
    if is_known {
        let outputs = Derived::outputs_of(graph, node, evaluator);
        // Small results of large ones that are not computed yet wait for each other.
        if reads_derived || outputs.iter().all(is_worthwhile) {
            return Ok(outputs.into_iter().map(Constant::Derived).collect());
        }
    }
    Ok(evaluator.evaluate(graph, node)?.into_iter().map(Constant::from).collect())
}

/// Whether a constant is large enough to be computed when it is read, and keeps little other memory in use until then.
fn is_worthwhile(derived: &Derived) -> bool {
    let bytes = derived.len();
    bytes >= DERIVED_BYTES && derived.retained_bytes() <= bytes.saturating_mul(MAX_RETAINED)
}

/// Computes these values, if they are still constants.
fn compute_all(graph: &mut Graph, ids: &[ValueId]) -> Result<()> {
    let mut sharing = Sharing::default();
    let constant = |id: &ValueId| Some((*id, graph.value(*id).constant()?.clone()));
    let constants: Vec<(ValueId, Constant)> = ids.iter().filter_map(constant).collect();
    constants.iter().for_each(|(_, constant)| sharing.expect(constant));
    for (id, constant) in constants {
        graph.values[id.index()].source = Source::Constant(Constant::Owned(constant.buffer()?));
        sharing.done(&constant);
    }
    Ok(())
}

/// Whether a node combines each element of a list with each of another one.
fn is_table(graph: &Graph, node: &Node) -> bool {
    let is_list = |id: &&ValueId| graph.descriptor(**id).elements() > 1;
    matches!(node.op, Api(Op::Elementwise(_))) && node.reads().filter(is_list).count() > 1
}

/// The outputs of a node that only reinterprets the bytes of its constant operand, as windows over that constant: large
/// weights that are reshaped or split are not copied.
fn windows(graph: &Graph, node: &Node) -> Result<Option<Vec<Constant>>> {
    let operand = node.inputs.first().copied().flatten();
    let Some(constant) = operand.and_then(|id| graph.value(id).constant()) else { return Ok(None) };
    let offsets = match view(graph, node) {
        Some(View::Parts(offsets)) => offsets,
        _ if does_nothing(graph, node) => vec![0],
        _ => return Ok(None),
    };
    let window = |(id, start): (&_, usize)| constant.window(start..start + graph.descriptor(*id).bytes());
    node.outputs.iter().zip(offsets).map(window).collect::<Result<_>>().map(Some)
}

/// The output of a cast of float16 numbers in a file to float32: they are widened whenever they are read. Weights that
/// are packed from them are then never in memory as float32 numbers in their original order.
fn widened(graph: &Graph, node: &Node) -> Option<Vec<Constant>> {
    let Api(Op::Elementwise(Elementwise::Cast { to: DataType::Float32 })) = node.op else { return None };
    let operand = node.inputs[0].filter(|_| node.is_plain())?;
    match (graph.descriptor(operand).dtype, graph.value(operand).constant()?) {
        (DataType::Float16, Constant::Mapped(window)) => {
            Some(vec![Constant::Widened(Widened::of_halves(window.clone()))])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::with_mapped_constants;
    use std::sync::{Arc, Mutex};

    #[test]
    fn mapped_halves_are_widened_when_they_are_read() {
        let graph = parse(
            "%0 = constant float16 [4, 6]
             %1 = cast %0 dataType=float32
             %2 = slice %1 starts=[1, 0] sizes=[2, 6]
             output x = %1
             output y = %2",
        );
        let halves = graph.value(ValueId(0)).constant().unwrap().buffer().unwrap();
        let expected: Vec<f32> =
            crate::memory::elements::<half::f16>(halves.bytes()).iter().map(|x| x.to_f32()).collect();
        let (mut mapped, _file) = with_mapped_constants(&graph, 3);
        fold(&mut mapped, &HashSet::new(), &Evaluator::new(|_, node| panic!("{} copies", node.op.rule().name)))
            .unwrap();
        for (index, range) in [(0, 0..24), (1, 6..18)] {
            let Some(constant @ Constant::Widened(_)) = mapped.value(mapped.outputs[index].1).constant() else {
                panic!("output {index} is widened")
            };
            let read = constant.buffer().unwrap();
            assert_eq!(crate::memory::elements::<f32>(read.bytes()), &expected[range]);
        }
    }

    #[test]
    fn tables_over_two_lists_are_stored() {
        let folded = |text: &str| {
            let mut graph = parse(text);
            let zeros = Evaluator::new(|graph, node| {
                Ok(vec![crate::memory::Buffer::zeroed(graph.descriptor(node.outputs[0]).bytes())?])
            });
            fold(&mut graph, &HashSet::new(), &zeros).unwrap();
            graph.nodes.len()
        };
        let sum = |rows: u32, columns: u32| {
            folded(&format!(
                "%0 = constant float32 [{rows}, 1]
                 %1 = constant float32 [{columns}]
                 %2 = add %0 %1
                 %3 = sin %2
                 output x = %3"
            ))
        };
        assert_eq!([sum(640, 455), sum(1, 640 * 455), sum(2000, 2000)], [0, 0, 2]);
        let expanded = |elements: u32| {
            folded(&format!("%0 = constant float32 [1]\n%1 = expand %0 newShape=[{elements}]\noutput x = %1"))
        };
        assert_eq!([expanded(1000), expanded(100_000)], [0, 1]);
    }

    #[test]
    fn mapped_constants_that_are_only_reshaped_or_cut_are_not_copied() {
        let graph = parse(
            "%0 = constant float32 [4, 6]
             %1 = reshape %0 newShape=[2, 2, 6]
             %2 = identity %1
             %3 = cast %2 dataType=float32
             %4, %5 = split %3 splits=[1, 1]
             %6 = slice %5 starts=[0, 1, 0] sizes=[1, 1, 6]
             %7 = transpose %0 permutation=[1, 0]
             output x = %4
             output y = %6
             output z = %7",
        );
        let (mut mapped, _file) = with_mapped_constants(&graph, 3);
        let only_transpose = Evaluator::new(|_, node| {
            assert_eq!(node.op.rule().name, "transpose", "only transpose moves bytes");
            Ok(vec![crate::memory::Buffer::zeroed(96)?])
        });
        fold(&mut mapped, &HashSet::new(), &only_transpose).unwrap();
        let constant = |index: usize| mapped.value(mapped.outputs[index].1).constant();
        for (index, range) in [(0, 3..51), (1, 75..99)] {
            let Some(Constant::Mapped(window)) = constant(index) else { panic!("output {index} is a window") };
            assert_eq!(window.range(), range);
        }
        assert!(matches!(constant(2), Some(Constant::Owned(buffer)) if buffer.len() == 96));
    }

    /// An evaluator for the nodes of a graph, and the names of the operators that it has computed.
    fn recording() -> (Evaluator, Arc<Mutex<Vec<&'static str>>>) {
        let names = Arc::new(Mutex::new(Vec::new()));
        let own = names.clone();
        let evaluator = Evaluator::new(move |graph: &Graph, node: &Node| {
            own.lock().unwrap().push(node.op.rule().name);
            crate::reference::evaluate(graph, node)
        });
        (evaluator, names)
    }

    #[test]
    fn large_results_are_computed_when_they_are_read() {
        let text = "%0 = constant float32 [64, 300]
             %1 = neg %0
             %2 = exp %1
             %3 = transpose %2
             %4 = slice %3 starts=[0, 3] sizes=[300, 1]
             %5 = slice %3 starts=[0, 7] sizes=[300, 1]
             %6 = constant float32 [4]
             %7 = abs %6
             %8, %9 = split %2 splits=[60, 4]
             output x = %2
             output a = %4
             output b = %5
             output c = %7
             output d = %8
             output e = %9";
        let expected = crate::reference::run(&parse(text), &Default::default());
        let (evaluator, names) = recording();
        let mut graph = parse(text);
        fold(&mut graph, &HashSet::new(), &evaluator).unwrap();
        // The small results are parts of one of the large ones, which is computed once for all of them.
        assert_eq!(
            names.lock().unwrap().drain(..).collect::<Vec<_>>(),
            ["abs", "neg", "exp", "transpose", "slice", "slice"]
        );
        for (name, id) in &graph.outputs {
            let constant = graph.value(*id).constant().unwrap();
            let is_large = matches!(&**name, "x" | "d");
            assert_eq!(matches!(constant, Constant::Derived(_)), is_large, "{name}");
            assert_eq!(constant.buffer().unwrap().bytes(), expected[name].to_bytes(), "{name}");
        }
    }

    #[test]
    fn parts_of_large_owned_constants_do_not_keep_these_in_memory() {
        let text = "%0 = constant float32 [128, 640]
             %1 = slice %0 starts=[0, 0] sizes=[128, 160]
             output x = %1";
        let (evaluator, names) = recording();
        let mut owned = parse(text);
        let (mut mapped, _file) = with_mapped_constants(&owned, 3);
        fold(&mut owned, &HashSet::new(), &evaluator).unwrap();
        assert_eq!(*names.lock().unwrap(), ["slice"]);
        fold(&mut mapped, &HashSet::new(), &evaluator).unwrap();
        assert_eq!(*names.lock().unwrap(), ["slice"]);
    }

    #[test]
    fn long_chains_are_cut() {
        const LINKS: usize = 20_000;
        let mut text = "%0 = constant float32 [16384]\n".to_string();
        (0..LINKS).for_each(|link| text += &format!("%{} = neg %{link}\n", link + 1));
        let mut graph = parse(&(text + &format!("output x = %{LINKS}")));
        let count = Arc::new(Mutex::new(0));
        let own = count.clone();
        let copy = Evaluator::new(move |graph: &Graph, node: &Node| {
            *own.lock().unwrap() += 1;
            let operand = graph.value(node.inputs[0].unwrap()).constant().unwrap().buffer()?;
            Ok(vec![crate::memory::Buffer::copy_of(operand.bytes())?])
        });
        fold(&mut graph, &HashSet::new(), &copy).unwrap();
        let Some(Constant::Derived(last)) = graph.value(graph.outputs[0].1).constant() else { panic!("it is large") };
        assert!((1..=MAX_DEPTH).contains(&last.depth()));
        last.buffer().unwrap();
        assert_eq!(*count.lock().unwrap(), LINKS);
    }
}
