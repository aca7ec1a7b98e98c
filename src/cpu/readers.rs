//! Tracks which nodes still need the raw bytes of a constant while a graph is lowered. Bytes that are only read packed
//! are freed at once.

use super::lower::Lowered;
use super::product::panels::Panels;
use super::step::Step;
use super::steps::gather::PackedGatherStep;
use crate::ir::{Constant, Graph, Identity, Node, Sharing, Source, Value, ValueId};
use crate::memory::Buffer;
use crate::ops::{Api, Op};
use std::collections::HashMap;

/// A packed matrix, and whether its product multiplies with the transposed matrix.
type Tied = (Panels, bool);

/// The readers of the constants of a graph.
pub struct Readers {
    /// For each value, how many operands of nodes and outputs of the graph read its raw bytes.
    raw: Vec<usize>,
    /// For each constant, the nodes that gather from it. Gather steps read nothing else of it.
    gathers: HashMap<ValueId, Vec<usize>>,
    /// For each constant that is widened from float16, the one that nodes gather these float16 numbers from.
    stored: HashMap<ValueId, ValueId>,
    /// Constants that are only gathered from and packed for products, such as the embedding of a language model that
    /// also computes its logits. Gathers then read rows from the panels.
    tied: HashMap<ValueId, Tied>,
    /// What several readers compute from the same constants.
    sharing: Sharing,
}

impl Readers {
    /// Counts the readers in `graph`, before any node is lowered.
    pub fn new(graph: &Graph) -> Readers {
        let mut gathers: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            if let Some(id) = gathered(node).filter(|id| graph.value(*id).constant().is_some()) {
                gathers.entry(id).or_default().push(index);
            }
        }
        let identity = |constant: &Constant| (Identity::of(constant), constant.len());
        let identities = |id: &ValueId| Some((identity(graph.value(*id).constant()?), *id));
        let gathered: HashMap<_, ValueId> = gathers.keys().filter_map(identities).collect();
        let stored = |(index, value): (usize, &Value)| {
            let halves = value.constant()?.halves()?;
            Some((ValueId(index as u32), *gathered.get(&identity(&halves))?))
        };
        let stored = graph.values.iter().enumerate().filter_map(stored).collect();
        let mut sharing = Sharing::default();
        let reads = graph.nodes.iter().flat_map(Node::reads).chain(graph.outputs.iter().map(|(_, id)| id));
        reads.filter_map(|id| graph.value(*id).constant()).for_each(|constant| sharing.expect(constant));
        Readers { raw: graph.use_counts(), gathers, stored, tied: HashMap::new(), sharing }
    }

    /// What constants that are read in place have in common with others.
    pub fn into_sharing(self) -> Sharing {
        self.sharing
    }

    /// The step of `node`, if it gathers from a constant that is only kept packed.
    pub fn lower_tied(&self, graph: &Graph, node: &Node) -> Option<Lowered> {
        let matrix = self.tied.get(&gathered(node)?)?;
        tied_gather(graph, node, matrix).map(lowered)
    }

    /// Records what the last step in `all`, the steps of the nodes lowered so far (none for views), has packed. If
    /// nothing else needs the raw bytes of a packed constant, replaces the steps in `all` that gather from it. Frees
    /// bytes without readers.
    pub fn note(&mut self, graph: &mut Graph, all: &mut [Option<Lowered>]) {
        let index = all.len() - 1;
        let Some(packed) = all[index].as_ref().map(|lowered| lowered.packed.clone()) else { return };
        for operand in packed {
            let id = graph.nodes[index].inputs[operand].expect("a packed operand was given");
            if self.tied.contains_key(&id) {
                continue;
            }
            self.raw[id.index()] -= 1;
            if let Some(constant) = graph.value(id).constant() {
                self.sharing.done(constant);
            }
            let stored = *self.stored.get(&id).unwrap_or(&id);
            if operand == 1 {
                self.tie(graph, all, stored);
            }
            for id in [id, stored] {
                if self.raw[id.index()] == 0 {
                    graph.values[id.index()].source = Source::Constant(Buffer::default().into());
                }
            }
        }
    }

    /// If nothing else reads the raw bytes of `id`, whose numbers the last step in `all` packed, makes all nodes that gather
    /// from it read the packed copy.
    fn tie(&mut self, graph: &Graph, all: &mut [Option<Lowered>], id: ValueId) {
        let Some(gathers) = self.gathers.get(&id).filter(|gathers| gathers.len() == self.raw[id.index()]) else {
            return;
        };
        let index = all.len() - 1;
        let Some(Lowered { step: Step::Dense(step), .. }) = &all[index] else { return };
        let transposed = matches!(&graph.nodes[index].op, Api(Op::Gemm(op)) if op.attributes.b_transpose);
        let Some(matrix) = step.packed_matrix().map(|matrix| (matrix, transposed)) else { return };
        let step = |&node: &usize| Some((node, tied_gather(graph, &graph.nodes[node], &matrix)?));
        let Some(steps) = gathers.iter().map(step).collect::<Option<Vec<_>>>() else { return };
        for (node, step) in steps.into_iter().filter(|(node, _)| *node < index) {
            all[node] = Some(lowered(step));
        }
        if let Some(constant) = graph.value(id).constant() {
            (0..self.raw[id.index()]).for_each(|_| self.sharing.done(constant));
        }
        self.raw[id.index()] = 0;
        self.tied.insert(id, matrix);
    }
}

/// The value that a node gathers rows from.
fn gathered(node: &Node) -> Option<ValueId> {
    match (&node.op, node.inputs.as_slice()) {
        (Api(Op::Gather(_)), [Some(input), Some(indices)]) if input != indices => Some(*input),
        _ => None,
    }
}

fn tied_gather(graph: &Graph, node: &Node, (matrix, transposed): &Tied) -> Option<PackedGatherStep> {
    let Api(Op::Gather(op)) = &node.op else { return None };
    let [input, indices] = [0, 1].map(|index| graph.descriptor(node.inputs[index].expect("required")));
    PackedGatherStep::new(op, [input, indices], matrix, *transposed)
}

fn lowered(step: PackedGatherStep) -> Lowered {
    Lowered { step: step.into(), packed: vec![0] }
}
