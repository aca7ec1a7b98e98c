//! The flow of values through a graph: which nodes the wanted values need, and which nodes wait for which.

use super::budget::work;
use super::graph::{Arena, ByName, GraphId, NameId, NameSet, Node, NodeId};
use rapidhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Lists of numbers, one after another.
#[derive(Debug, Default)]
struct Lists {
    /// The end of each list.
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn add(&mut self, list: impl IntoIterator<Item = u32>) {
        self.items.extend(list);
        self.ends.push(self.items.len() as u32);
    }

    fn list(&self, at: u32) -> &[u32] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.items[start as usize..self.ends[at as usize] as usize]
    }

    /// For each number below `count`, the lists that contain it, in order.
    fn inverse(&self, count: usize) -> Lists {
        let mut ends = vec![0u32; count];
        self.items.iter().for_each(|&item| ends[item as usize] += 1);
        let mut next = Vec::with_capacity(count);
        let mut sum = 0;
        for end in &mut ends {
            next.push(sum);
            sum += *end;
            *end = sum;
        }
        let mut items = vec![0; self.items.len()];
        for at in 0..self.ends.len() as u32 {
            for &item in self.list(at) {
                items[next[item as usize] as usize] = at;
                next[item as usize] += 1;
            }
        }
        Lists { ends, items }
    }
}

/// The nodes of a graph that wanted values need. Nodes and values have places: indices into this flow.
#[derive(Debug)]
pub struct Flow {
    /// The nodes in an executable order.
    pub nodes: Vec<NodeId>,
    /// The values that the nodes read or compute.
    values: Vec<NameId>,
    /// The places of the values that each node reads, each once.
    reads: Lists,
    /// The places of the named outputs of each node.
    makes: Lists,
    /// The places of the nodes that read each value.
    readers: Lists,
    /// For each node, the number of values that it reads and other nodes compute.
    waits: Vec<u32>,
    /// The work of translating all nodes, in the units of budgets.
    pub work: usize,
}

impl Flow {
    /// The nodes of `graph` that the `wanted` values need.
    pub fn of(arena: &Arena, graph: GraphId, wanted: &[NameId]) -> Flow {
        let mut needed: NameSet = wanted.iter().copied().collect();
        let mut nodes = Vec::new();
        for &id in arena.graph(graph).nodes.iter().rev() {
            let node = arena.node(id);
            if node.outputs().iter().flatten().any(|output| needed.contains(output)) {
                needed.extend(node.reads());
                nodes.push(id);
            }
        }
        nodes.reverse();
        let (mut values, mut places): (Vec<NameId>, ByName<u32>) = Default::default();
        let mut place = |value: NameId| {
            *places.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() as u32 - 1
            })
        };
        let (mut reads, mut makes) = (Lists::default(), Lists::default());
        let mut made = Vec::new();
        let mut waits = Vec::with_capacity(nodes.len());
        for node in nodes.iter().map(|&id| arena.node(id)) {
            let mut own: Vec<u32> = node.reads().map(&mut place).collect();
            own.sort_unstable();
            own.dedup();
            // The order is executable: what nodes compute was seen before.
            waits.push(own.iter().filter(|&&value| made.get(value as usize) == Some(&true)).count() as u32);
            reads.add(own);
            let outputs: Vec<u32> = node.outputs().iter().flatten().map(|&output| place(output)).collect();
            for &output in &outputs {
                made.resize(made.len().max(output as usize + 1), false);
                made[output as usize] = true;
            }
            makes.add(outputs);
        }
        let readers = reads.inverse(values.len());
        // Nodes of inner graphs count with the nodes that contain the graphs, and again whenever these run.
        let work = nodes.iter().map(|&id| work(arena.node(id).size())).sum();
        Flow { nodes, values, reads, makes, readers, waits, work }
    }

    /// The node at `place`.
    pub fn node<'a>(&self, arena: &'a Arena, place: u32) -> Node<'a> {
        arena.node(self.nodes[place as usize])
    }

    /// The values that the node at `place` reads, each once.
    pub fn reads(&self, place: u32) -> impl Iterator<Item = NameId> {
        self.reads.list(place).iter().map(|&value| self.values[value as usize])
    }

    /// The named outputs of the node at `place`, each with the places of its readers.
    pub fn outputs(&self, place: u32) -> impl Iterator<Item = (NameId, &[u32])> {
        self.makes.list(place).iter().map(|&value| (self.values[value as usize], self.readers.list(value)))
    }

    /// The places of the nodes that read outputs of the node at `place`, once for each output.
    pub fn readers(&self, place: u32) -> impl Iterator<Item = u32> {
        self.outputs(place).flat_map(|(_, readers)| readers.iter().copied())
    }

    /// For each node, the number of values that it waits for at the start.
    pub fn waits(&self) -> &[u32] {
        &self.waits
    }

    /// The places of the nodes that wait for no others.
    pub fn first(&self) -> impl Iterator<Item = u32> {
        (0..self.nodes.len() as u32).filter(|&place| self.waits[place as usize] == 0)
    }

    /// The values that the nodes read or compute.
    pub fn values(&self) -> &[NameId] {
        &self.values
    }

    /// The values that are read or computed, with the number of nodes that read each.
    pub fn uses(&self) -> ByName<u32> {
        let uses = |(value, &id): (usize, &NameId)| (id, self.readers.list(value as u32).len() as u32);
        self.values.iter().enumerate().map(uses).collect()
    }
}

/// The nodes of a flow that can go next, because all that they read is there.
pub struct Frontier<'f> {
    flow: &'f Flow,
    /// For each node, the number of values that it waited for at the beginning.
    waits: &'f [u32],
    /// The numbers that have changed since.
    changed: HashMap<u32, u32, RandomState>,
    ready: BinaryHeap<Reverse<u32>>,
    done: Vec<u32>,
}

impl<'f> Frontier<'f> {
    /// The nodes at the places `starts`, which wait for nothing, and all that follow; `waits` are the numbers of values
    /// that nodes wait for.
    pub fn new(flow: &'f Flow, waits: &'f [u32], starts: impl IntoIterator<Item = u32>) -> Frontier<'f> {
        let ready = starts.into_iter().map(Reverse).collect();
        Frontier { flow, waits, changed: HashMap::default(), ready, done: Vec::new() }
    }

    /// The nodes of a flow from its start.
    pub fn of(flow: &'f Flow) -> Frontier<'f> {
        Frontier::new(flow, &flow.waits, flow.first())
    }

    /// Takes the place of the next node, the first one that is ready in the executable order.
    pub fn take(&mut self) -> Option<u32> {
        self.ready.pop().map(|Reverse(place)| place)
    }

    /// The outputs of the node at `place` are there.
    pub fn finish(&mut self, place: u32) {
        self.done.push(place);
        for reader in self.flow.readers(place) {
            let left = self.changed.entry(reader).or_insert(self.waits[reader as usize]);
            *left -= 1;
            if *left == 0 {
                self.ready.push(Reverse(reader));
            }
        }
    }

    /// The outputs of finished nodes that others read.
    pub fn outputs_to_keep(&self) -> Vec<NameId> {
        let done: HashSet<u32, RandomState> = self.done.iter().copied().collect();
        let outputs = self.done.iter().flat_map(|&place| self.flow.outputs(place));
        outputs.filter(|(_, readers)| readers.iter().any(|reader| !done.contains(reader))).map(|(id, _)| id).collect()
    }

    /// The places of the finished nodes, in the order in which they finished.
    pub fn done(&self) -> &[u32] {
        &self.done
    }

    /// Like [`done`](Self::done).
    pub fn into_done(self) -> Vec<u32> {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::file::Files;
    use crate::onnx::model::Model;
    use crate::onnx::tensor::ElementType::{Bool, Float};
    use crate::onnx::testing::{Attr, TestGraph};

    fn model(graph: TestGraph) -> Model {
        Model::decode(graph.encode(17), Files::default()).unwrap()
    }

    fn id(model: &Model, name: &str) -> NameId {
        model.arena.find(model.main, [&name.to_string()])[0].unwrap()
    }

    #[test]
    fn names_mean_what_their_graph_defines() {
        // The inner graph has a name `a` of its own, and captures `b`, which a later node of the file computes.
        let inner = TestGraph::default().node("Neg", "b", "a", vec![]).node("Add", "a c", "r", vec![]).output("r");
        let other = TestGraph::default().output("a");
        let branches = vec![("then_branch", Attr::Graph(inner)), ("else_branch", Attr::Graph(other))];
        let graph = TestGraph::default().input("x", Float, &["2"]).input("c", Bool, &[]);
        let graph = graph.node("If", "c", "y", branches).node("Relu", "x", "a", vec![]).node("Relu", "a", "b", vec![]);
        let model = model(graph.output("y"));
        let node = model.arena.node(*model.graph().nodes.last().unwrap());
        assert_eq!(node.operator().name, "If", "the last one that can run");
        let [then, other] = node.graphs().collect::<Vec<_>>()[..] else { panic!("two graphs") };
        assert_eq!(model.arena.graph(then).captured, [id(&model, "c"), id(&model, "b")]);
        assert_eq!(model.arena.graph(other).captured, [id(&model, "a")]);
        let reads: NameSet = node.reads().collect();
        assert_eq!(reads, ["a", "b", "c"].map(|name| id(&model, name)).into_iter().collect());
    }

    #[test]
    fn nodes_go_when_all_that_they_read_is_there() {
        let graph = TestGraph::default().input("x", Float, &["2"]);
        let graph = graph
            .node("Relu", "x", "a", vec![])
            .node("Neg", "x", "unneeded", vec![])
            .node("Add", "a a", "b", vec![])
            .node("Neg", "x", "c", vec![])
            .node("Mul", "b c", "y", vec![]);
        let model = model(graph.output("y"));
        let flow = Flow::of(&model.arena, model.main, &[id(&model, "y")]);
        let operator = |place: u32| flow.node(&model.arena, place).operator().name.as_str();
        assert_eq!((0..4).map(operator).collect::<Vec<_>>(), ["Relu", "Add", "Neg", "Mul"]);
        let mut frontier = Frontier::of(&flow);
        // Relu finishes, Add does not: Neg still goes, and Mul waits.
        assert_eq!(frontier.take(), Some(0));
        frontier.finish(0);
        assert_eq!(frontier.take(), Some(1));
        assert_eq!(frontier.take(), Some(2));
        frontier.finish(2);
        assert_eq!(frontier.take(), None);
        let mut kept = frontier.outputs_to_keep();
        kept.sort_unstable();
        assert_eq!(kept, ["a", "c"].map(|name| id(&model, name)));
        // The next part begins at Add.
        let waits = [0, 0, 0, 1];
        let mut frontier = Frontier::new(&flow, &waits, [1]);
        assert_eq!(frontier.take(), Some(1));
        frontier.finish(1);
        assert_eq!(frontier.take(), Some(3));
        frontier.finish(3);
        assert_eq!((frontier.take(), frontier.done()), (None, &[1, 3][..]));
    }
}
