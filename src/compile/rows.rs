//! Positions that `slice()` and `gather()` drop are not computed in the first place. Both move in front of the
//! operators that compute their operand position by position: for the logits of a prompt, the product then computes
//! only the last row.
//!
//! The pass applies where all readers need a value as a whole, or at the same few positions: an operator whose result
//! is needed at a few positions needs its operands at these ([`Operator::rows`]). Where that ends, the value is sliced.

use super::{Reads, Target};
use crate::dimension::{Dim, DimKey};
use crate::ir::{Graph, Node, Source, ValueId};
use crate::ops::gather::Gather;
use crate::ops::reshape::Reshape;
use crate::ops::rows::{Along, Rows};
use crate::ops::slice::Slice;
use crate::ops::{Api, Op, Operation, Operator};
use crate::shape::{Descriptor, MAX_RANK};
use std::collections::{HashMap, HashSet};

/// At most one in this many positions may be kept. Copying rows of an operand writes and reads them once more: at a
/// third of the rows, that is still less than reading all.
const MOST_KEPT: u32 = 3;

/// The positions that are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Places<D> {
    /// Every `stride`-th position of a window.
    Window { start: D, window: D, stride: u32 },
    /// The positions at the indices stored in a value.
    Indices(ValueId),
}

/// Positions of a value.
#[derive(Clone, Copy)]
struct Kept {
    along: Along,
    /// Number of positions per group.
    count: Dim,
    places: Places<Dim>,
}

/// A key that is equal for equal positions.
type KeptKey = (usize, [DimKey; 3], Places<DimKey>);

impl Kept {
    fn key(&self) -> KeptKey {
        let Along { axis, groups, size } = self.along;
        let places = match self.places {
            Places::Window { start, window, stride } => {
                Places::Window { start: start.key(), window: window.key(), stride }
            }
            Places::Indices(id) => Places::Indices(id),
        };
        (axis, [groups, size, self.count].map(Dim::key), places)
    }
}

/// The positions of a value that its readers need.
#[derive(Clone)]
enum Need {
    Nothing,
    Kept(Kept),
    Everything,
}

impl Need {
    fn add(&mut self, other: Need) {
        *self = match (&*self, other) {
            (Need::Nothing, other) => other,
            (Need::Kept(own), Need::Kept(other)) if own.key() == other.key() => return,
            _ => Need::Everything,
        }
    }
}

/// What the pass does with a node.
enum Plan {
    Stays,
    /// It keeps these positions of its first operand.
    Keeps(Kept),
    /// It computes only these positions of its output.
    Computes(Kept, Box<Rows<Operation>>),
}

/// Computes only the positions of values that slices and gathers keep.
pub fn keep_rows(graph: &mut Graph, target: &Target) {
    let producers = graph.producers();
    let mut plans = plans(graph, &producers);
    withdraw(graph, &producers, target, &mut plans);
    if !plans.iter().any(|plan| matches!(plan, Plan::Computes(..))) {
        return;
    }
    let mut work: Vec<(Node, Plan)> = std::mem::take(&mut graph.nodes).into_iter().zip(plans).collect();
    indices_first(&mut work);
    let mut rewrite = Rewrite { graph, kept: HashMap::new() };
    work.into_iter().for_each(|(node, plan)| rewrite.node(node, plan));
    graph.drop_unused();
}

/// The positions that `node` keeps of its first operand, if they are few.
fn kept_by(graph: &Graph, producers: &[Option<usize>], node: &Node) -> Option<Kept> {
    let input = *node.inputs.first()?.as_ref()?;
    // Compares sizes only where that can pay: the compiled graph depends on every size it compares.
    producers[input.index()].filter(|_| node.is_plain())?;
    let shape = &graph.descriptor(input).shape;
    let kept = |axis: usize, count: Dim, places: Places<Dim>| {
        let most = count * MOST_KEPT;
        let is_few = count.is_number() && shape[axis].min(most) == most;
        is_few.then_some(Kept { along: Along { axis, groups: Dim::ONE, size: shape[axis] }, count, places })
    };
    match &node.op {
        Api(Op::Slice(op)) => (0..shape.len()).find_map(|axis| {
            let (start, window, stride) = (op.starts[axis], op.sizes[axis], op.stride(axis));
            kept(axis, window.div_ceil(stride), Places::Window { start, window, stride })
        }),
        Api(Op::Gather(op)) => {
            let indices = node.inputs[1]?;
            kept(op.axis as usize, graph.descriptor(indices).count(), Places::Indices(indices))
        }
        _ => None,
    }
}

/// The plan of each node, as far as its readers and its operator allow.
fn plans(graph: &Graph, producers: &[Option<usize>]) -> Vec<Plan> {
    let mut needs = vec![Need::Nothing; graph.values.len()];
    graph.outputs.iter().for_each(|(_, id)| needs[id.index()] = Need::Everything);
    let mut plans = Vec::with_capacity(graph.nodes.len());
    for node in graph.nodes.iter().rev() {
        let plan = match kept_by(graph, producers, node) {
            Some(kept) => Plan::Keeps(kept),
            None => computed(graph, node, &needs).unwrap_or(Plan::Stays),
        };
        let first = |index: usize, kept: &Kept| (index == 0).then_some(kept.along);
        for (index, &id) in node.inputs.iter().enumerate().filter_map(|(index, id)| Some((index, id.as_ref()?))) {
            let need = match &plan {
                Plan::Stays => None,
                Plan::Keeps(kept) => Some((kept, first(index, kept))),
                Plan::Computes(kept, rows) => Some((kept, rows.operands[index])),
            };
            needs[id.index()].add(match need {
                Some((kept, Some(along))) => Need::Kept(Kept { along, ..*kept }),
                _ => Need::Everything,
            });
        }
        node.reads().skip(node.inputs.iter().flatten().count()).for_each(|id| needs[id.index()] = Need::Everything);
        plans.push(plan);
    }
    plans.reverse();
    plans
}

/// Computes only the positions of the output of `node` that its readers need, if possible.
fn computed(graph: &Graph, node: &Node, needs: &[Need]) -> Option<Plan> {
    let &[output] = node.outputs.as_slice() else { return None };
    let Need::Kept(kept) = &needs[output.index()] else { return None };
    let inputs = graph.input_descriptors(node);
    let rows = node.op.rows(&inputs, graph.descriptor(output), kept.along, kept.count)?;
    // To slice several groups, the slice needs an extra dimension.
    let fits = |(input, along): (&Option<&Descriptor>, &Option<Along>)| match (input, along) {
        (Some(input), Some(along)) => along.is_whole() || input.rank() < MAX_RANK,
        _ => true,
    };
    let all_fit = inputs.iter().zip(&rows.operands).all(fits);
    (node.is_plain() && all_fit).then(|| Plan::Computes(*kept, rows.into()))
}

/// Keeps nodes unchanged if all their operands are computed as a whole and slicing these gains nothing: nodes that may
/// be views, and nodes fused into the product before them or the slice after them.
fn withdraw(graph: &Graph, producers: &[Option<usize>], target: &Target, plans: &mut [Plan]) {
    let uses = graph.use_counts();
    let computes_before = (target.reads)(&Slice::default().into(), 0) == Reads::Once;
    // Values that the kernel of a fully computed product can continue with.
    let mut fused: HashSet<ValueId> = HashSet::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let Plan::Computes(_, rows) = &plans[index] else {
            if (target.takes_epilogue)(&node.op) {
                fused.insert(node.outputs[0]);
            }
            continue;
        };
        let is_computed =
            |id: &ValueId| producers[id.index()].is_some_and(|index| matches!(plans[index], Plan::Computes(..)));
        let sliced = || node.inputs.iter().zip(&rows.operands).filter_map(|(id, along)| along.and(*id));
        if sliced().any(|id| is_computed(&id)) {
            continue;
        }
        let is_fused = sliced().any(|id| fused.contains(&id) && uses[id.index()] == 1);
        let stays = match &node.op {
            Api(Op::Reshape(_) | Op::Concat(_) | Op::Slice(_)) => true,
            op if op.elementwise().is_some() => is_fused || (computes_before && uses[node.outputs[0].index()] == 1),
            _ => false,
        };
        if stays {
            plans[index] = Plan::Stays;
            if is_fused {
                fused.insert(node.outputs[0]);
            }
        }
    }
}

/// Moves the nodes that compute the indices of gathers to the front. None of them can depend on values computed only at
/// these indices.
fn indices_first(work: &mut [(Node, Plan)]) {
    let indices = |(_, plan): &(Node, Plan)| match plan {
        Plan::Computes(Kept { places: Places::Indices(id), .. }, _) => Some(*id),
        _ => None,
    };
    let mut needed: HashSet<ValueId> = work.iter().filter_map(indices).collect();
    if needed.is_empty() {
        return;
    }
    for (node, _) in work.iter().rev() {
        if node.outputs.iter().any(|id| needed.contains(id)) {
            needed.extend(node.reads());
        }
    }
    work.sort_by_key(|(node, _)| !node.outputs.iter().any(|id| needed.contains(id)));
}

struct Rewrite<'g> {
    graph: &'g mut Graph,
    /// The positions of values computed so far.
    kept: HashMap<(ValueId, KeptKey), ValueId>,
}

impl Rewrite<'_> {
    fn node(&mut self, node: Node, plan: Plan) {
        match plan {
            Plan::Stays => self.graph.nodes.push(node),
            Plan::Keeps(kept) => {
                let input = node.inputs[0].expect("it has an operand");
                let node = match self.kept.get(&(input, kept.key())) {
                    Some(&id) => self.rest(node, kept, id),
                    None => node,
                };
                self.graph.nodes.push(node);
            }
            Plan::Computes(kept, rows) => {
                let Rows { op, operands } = *rows;
                let places = |(id, along): (&Option<ValueId>, &Option<Along>)| {
                    id.map(|id| along.map_or(id, |along| self.sliced(id, Kept { along, ..kept })))
                };
                let inputs = node.inputs.iter().zip(&operands).map(places).collect();
                let output = node.outputs[0];
                let shape = kept.along.taken_of(&self.graph.descriptor(output).shape, kept.count);
                let made = self.add_value(output, shape);
                self.kept.insert((output, kept.key()), made);
                self.graph.nodes.push(Node { op, inputs, outputs: vec![made], ..node });
            }
        }
    }

    /// The node that does what remains of `node` once `id` holds only the positions it keeps.
    fn rest(&self, node: Node, Kept { along: Along { axis, .. }, count, .. }: Kept, id: ValueId) -> Node {
        let op = match &node.op {
            Api(Op::Slice(op)) => {
                let mut op = op.clone();
                (op.starts[axis], op.sizes[axis]) = (Dim::ZERO, count);
                op.strides.iter_mut().for_each(|strides| strides[axis] = 1);
                op.into()
            }
            _ => Reshape { new_shape: self.graph.descriptor(node.outputs[0]).shape.clone() }.into(),
        };
        Node { op, inputs: vec![Some(id)], ..node }
    }

    /// Returns these positions of `id`.
    fn sliced(&mut self, id: ValueId, kept: Kept) -> ValueId {
        if let Some(&known) = self.kept.get(&(id, kept.key())) {
            return known;
        }
        let shape = self.graph.descriptor(id).shape.clone();
        let Along { axis, groups, size } = kept.along;
        let made = if kept.along.is_whole() {
            self.push_places(id, axis, kept)
        } else {
            let grouped = [&shape[..axis], &[groups, size], &shape[axis + 1..]].concat();
            let grouped = self.reshaped(id, grouped);
            let taken = self.push_places(grouped, axis + 1, kept);
            self.reshaped(taken, kept.along.taken_of(&shape, kept.count))
        };
        self.kept.insert((id, kept.key()), made);
        made
    }

    /// Appends an operator that takes the positions along dimension `axis` of `id`.
    fn push_places(&mut self, id: ValueId, axis: usize, Kept { count, places, .. }: Kept) -> ValueId {
        let mut shape = self.graph.descriptor(id).shape.clone();
        let (op, inputs): (Operation, _) = match places {
            Places::Window { start, window, stride } => {
                let mut starts = vec![Dim::ZERO; shape.len()];
                let (mut sizes, mut strides) = (shape.clone(), vec![1; shape.len()]);
                (starts[axis], sizes[axis], strides[axis]) = (start, window, stride);
                (Slice { starts, sizes, strides: (stride != 1).then_some(strides) }.into(), vec![Some(id)])
            }
            Places::Indices(indices) => {
                let indices = match self.graph.descriptor(indices).rank() {
                    1 => indices,
                    _ => self.reshaped(indices, vec![count]),
                };
                (Gather { axis: axis as u32 }.into(), vec![Some(id), Some(indices)])
            }
        };
        shape[axis] = count;
        let output = self.add_value(id, shape);
        self.push(op, inputs, output);
        output
    }

    fn reshaped(&mut self, id: ValueId, new_shape: Vec<Dim>) -> ValueId {
        let output = self.add_value(id, new_shape.clone());
        self.push(Reshape { new_shape }.into(), vec![Some(id)], output);
        output
    }

    fn add_value(&mut self, like: ValueId, shape: Vec<Dim>) -> ValueId {
        let dtype = self.graph.descriptor(like).dtype;
        self.graph.add_value(Descriptor::new(dtype, shape), Source::Node)
    }

    /// Appends a node without origins in the graph as built.
    fn push(&mut self, op: Operation, inputs: Vec<Option<ValueId>>, output: ValueId) {
        let (label, epilogue, prologues, origins) = Default::default();
        self.graph.nodes.push(Node { op, label, inputs, outputs: vec![output], epilogue, prologues, origins });
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
