//! The memory plan: the place of every value during a dispatch. Shapes are static, so all intermediate values share one
//! arena; values with disjoint lifetimes share its bytes, views share the bytes of their source, and outputs are
//! computed in place in the bound tensors.

use super::Granularity;
use super::blocks::{ArenaBlocks, Lifetime};
use super::views::{View, view};
use crate::ir::{Changes, Graph, Growing, Source, ValueId};

/// A memory whose address is known only at dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The arena of the graph.
    Arena,
    /// The tensor bound to the input with this index.
    Input(usize),
    /// The tensor bound to the output with this index.
    Output(usize),
    /// The bytes of this constant value.
    Constant(ValueId),
}

/// A piece of memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The memory.
    pub space: Space,
    /// Start in that memory, in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

impl Place {
    /// An empty place.
    pub const NONE: Place = Place { space: Space::Arena, offset: 0, bytes: 0 };

    /// The place without its first `bytes` bytes.
    pub fn after(self, bytes: usize) -> Place {
        Place { offset: self.offset + bytes, bytes: self.bytes - bytes, ..self }
    }

    /// Whether the two share a byte.
    pub fn overlaps(&self, other: &Place) -> bool {
        let disjoint = self.offset + self.bytes <= other.offset || other.offset + other.bytes <= self.offset;
        self.space == other.space && self.bytes > 0 && other.bytes > 0 && !disjoint
    }
}

/// The places of the values of a graph.
pub struct MemoryPlan {
    /// The place of each value that is computed or read.
    pub places: Vec<Option<Place>>,
    /// The scratch memory of each node.
    pub scratch: Vec<Place>,
    /// Size of the arena in bytes.
    pub arena: usize,
    /// The values that nodes or the graph read or write. Passes leave many others behind.
    used: Vec<usize>,
    /// The values that each node reads or writes.
    touched: Box<[Box<[ValueId]>]>,
    /// The view of each node, if it is one.
    found: Vec<Option<View>>,
    aliasing: Aliasing,
    /// The aliasing for the previous sizes; its memory is reused for the next ones.
    before: Aliasing,
    granularity: Granularity,
    /// The values with a block in the arena, in block order. The blocks of scratch memory follow.
    roots: Vec<usize>,
    blocks: ArenaBlocks,
    /// For each value, whether its place or size has changed since the previous [`place`](Self::place).
    moved: Vec<bool>,
    /// For each node, whether the place or size of its scratch memory may have changed.
    moved_scratch: Vec<bool>,
}

/// The values that share memory.
#[derive(Default)]
struct Aliasing {
    /// For each value, the value that contains it, and the offset; itself if none. After [`find`](Self::find), that is
    /// the root.
    parents: Vec<Home>,
    views: Vec<bool>,
    /// For each root that is computed in the tensor of an output, the index of that output.
    outputs: Vec<Option<usize>>,
    copies: Vec<(ValueId, usize)>,
    /// For each value, whether it is an output of the graph.
    is_output: Vec<bool>,
    /// For each value, the last node seen to read it.
    readers: Vec<Option<usize>>,
}

/// The value that contains a value's bytes, and their offset.
#[derive(Clone, Copy)]
struct Home {
    root: usize,
    offset: usize,
}

impl MemoryPlan {
    /// Creates a plan of `graph` without places. With `share_views`, views need no step.
    pub fn new(graph: &Graph, share_views: bool, granularity: Granularity) -> MemoryPlan {
        let found: Vec<Option<View>> = graph.nodes.iter().map(|node| view(graph, node)).collect();
        let used = used_values(graph);
        let touched = graph.nodes.iter().map(|node| node.reads().chain(&node.outputs).copied().collect()).collect();
        let mut aliasing = Aliasing::default();
        aliasing.find(graph, &used, &found, share_views.then_some(granularity));
        let lifetimes = aliasing.lifetimes(graph);
        let in_arena = |root: &usize| {
            matches!(graph.values[*root].source, Source::Node)
                && aliasing.outputs[*root].is_none()
                && aliasing.parents[*root].root == *root
                && lifetimes[*root].is_some()
        };
        let roots: Vec<usize> = (0..lifetimes.len()).filter(in_arena).collect();
        let of_scratch = (0..graph.nodes.len()).map(|at| Lifetime { first: at, last: at });
        let of_values = roots.iter().filter_map(|&root| lifetimes[root]);
        let blocks = ArenaBlocks::new(of_values.chain(of_scratch));
        let (places, scratch, before, moved, moved_scratch) = Default::default();
        MemoryPlan {
            places,
            scratch,
            arena: 0,
            used,
            touched,
            found,
            aliasing,
            before,
            granularity,
            roots,
            blocks,
            moved,
            moved_scratch,
        }
    }

    /// For each node, whether it is a view without a step.
    pub fn views(&self) -> &[bool] {
        &self.aliasing.views
    }

    /// Values copied to the output with this index after all nodes.
    pub fn copies(&self) -> &[(ValueId, usize)] {
        &self.aliasing.copies
    }

    /// Adopts new sizes of `graph`; places must be assigned again. Returns `false` if other values share memory now:
    /// the plan must then be rebuilt.
    #[must_use]
    pub fn resize(&mut self, graph: &Graph, share_views: bool, changes: &Changes) -> bool {
        let MemoryPlan { used, found, aliasing, before, moved, .. } = self;
        for ((node, found), _) in
            graph.nodes.iter().zip(&mut *found).zip(&changes.nodes).filter(|(_, changes)| **changes)
        {
            *found = view(graph, node);
        }
        std::mem::swap(aliasing, before);
        aliasing.find(graph, used, found, share_views.then_some(self.granularity));
        reset(moved, graph.values.len(), false);
        used.iter().for_each(|&id| moved[id] = aliasing.parents[id].offset != before.parents[id].offset);
        aliasing.is_alike(before, used)
    }

    /// Whether the node at `index` reads or writes memory that has moved since the previous placement.
    pub fn has_moved(&self, index: u32) -> bool {
        let index = index as usize;
        self.moved_scratch[index] || self.touched[index].iter().any(|id| self.moved[id.index()])
    }

    /// Assigns places to all values. `scratch` lists the nodes with `changes` and the bytes of scratch memory that
    /// their steps need.
    pub fn place(&mut self, graph: &Graph, scratch: impl Iterator<Item = (usize, usize)>, changes: &Changes) {
        let MemoryPlan { places, used, aliasing, roots, blocks, moved, moved_scratch, .. } = self;
        let mut is_other = places.is_empty();
        for (block, &root) in roots.iter().enumerate().filter(|(_, root)| changes.values[**root]) {
            is_other |= blocks.set_bytes(block, graph.values[root].descriptor.bytes());
        }
        reset(moved_scratch, graph.nodes.len(), false);
        for (node, bytes) in scratch {
            is_other |= blocks.set_bytes(roots.len() + node, bytes);
            moved_scratch[node] = true;
        }
        moved.resize(graph.values.len(), false);
        if is_other {
            self.arena = blocks.pack(self.granularity.block);
            moved.fill(true);
            moved_scratch.fill(true);
        }
        // The places of values inside another one that has moved or changed its size follow from its place.
        for (moved, changed) in moved.iter_mut().zip(&changes.values) {
            *moved |= changed;
        }
        places.resize(graph.values.len(), None);

        let in_arena = |block: usize| {
            let range = blocks.range(block);
            Place { space: Space::Arena, offset: range.start, bytes: range.len() }
        };
        for &index in used.iter().filter(|index| moved[**index]) {
            let value = &graph.values[index];
            let space = match (&value.source, aliasing.outputs[index]) {
                (Source::Constant(_), _) => Some(Space::Constant(ValueId(index as u32))),
                (Source::Sizes(_), _) => unreachable!("memory is planned for sizes that are known"),
                (Source::Node, output) => output.map(Space::Output),
                (Source::Input, _) => None,
            };
            places[index] = space.map(|space| Place { space, offset: 0, bytes: value.descriptor.bytes() });
        }
        for (index, (_, id)) in graph.inputs.iter().enumerate().filter(|(_, (_, id))| moved[id.index()]) {
            let bytes = graph.descriptor(*id).bytes();
            places[id.index()] = Some(Place { space: Space::Input(index), offset: 0, bytes });
        }
        let in_blocks = roots.iter().enumerate().filter(|(_, root)| moved[**root]);
        in_blocks.for_each(|(block, &root)| places[root] = Some(in_arena(block)));
        for &index in used.iter().filter(|index| moved[**index]) {
            let Home { root, offset } = aliasing.parents[index];
            if root != index {
                let bytes = graph.values[index].descriptor.bytes();
                places[index] = places[root].map(|place| Place { offset: place.offset + offset, bytes, ..place });
            }
        }
        self.scratch.resize(graph.nodes.len(), Place::NONE);
        for (node, scratch) in self.scratch.iter_mut().enumerate().filter(|(node, _)| moved_scratch[*node]) {
            *scratch = in_arena(roots.len() + node);
        }
    }
}

/// Plans the memory of `graph`; `scratch` has the bytes of scratch memory of each node's step. With `share_views`,
/// views need no step.
pub fn plan(graph: &Graph, scratch: &[usize], share_views: bool, granularity: Granularity) -> MemoryPlan {
    let mut plan = MemoryPlan::new(graph, share_views, granularity);
    plan.place(graph, scratch.iter().copied().enumerate(), &Changes::all(graph));
    plan
}

/// The values that nodes or `graph` read or write, each once.
fn used_values(graph: &Graph) -> Vec<usize> {
    let mut is_used = vec![false; graph.values.len()];
    let of_nodes = graph.nodes.iter().flat_map(|node| node.reads().chain(&node.outputs));
    let named = graph.inputs.iter().chain(&graph.outputs).map(|(_, id)| id);
    of_nodes.chain(named).for_each(|id| is_used[id.index()] = true);
    (0..is_used.len()).filter(|&id| is_used[id]).collect()
}

/// Refills `list` with `len` copies of `item`.
fn reset<T: Clone>(list: &mut Vec<T>, len: usize, item: T) {
    list.clear();
    list.resize(len, item);
}

impl Aliasing {
    /// Finds out which of the `used` values of `graph` share memory. Views that were `found` share it if `views` has a
    /// granularity that their offsets satisfy.
    fn find(&mut self, graph: &Graph, used: &[usize], found: &[Option<View>], views: Option<Granularity>) {
        let count = graph.values.len();
        self.parents.resize(count, Home { root: 0, offset: 0 });
        used.iter().for_each(|&id| self.parents[id] = Home { root: id, offset: 0 });
        reset(&mut self.views, graph.nodes.len(), false);
        reset(&mut self.outputs, count, None);
        self.copies.clear();
        for Growing { input, output, .. } in &graph.growing {
            let root = graph.outputs[*output].1.index();
            self.parents[graph.inputs[*input].1.index()] = Home { root, offset: 0 };
        }
        if let Some(granularity) = views {
            self.find_views(graph, found, granularity);
            used.iter().for_each(|&id| _ = self.home(id));
        }
        self.place_outputs(graph);
    }

    /// Whether the same values share memory, at any offsets.
    fn is_alike(&self, other: &Aliasing, used: &[usize]) -> bool {
        self.views == other.views
            && self.outputs == other.outputs
            && self.copies == other.copies
            && used.iter().all(|&id| self.parents[id].root == other.parents[id].root)
    }

    /// The root that contains value `id`, and the offset in it. Compresses the path: all values on it then point at the
    /// root.
    fn home(&mut self, id: usize) -> Home {
        let mut home = Home { root: id, offset: 0 };
        while self.parents[home.root].root != home.root {
            let Home { root, offset } = self.parents[home.root];
            home = Home { root, offset: home.offset + offset };
        }
        let (mut at, mut rest) = (id, home);
        while at != home.root {
            let Home { root, offset } = std::mem::replace(&mut self.parents[at], rest);
            rest.offset -= offset;
            at = root;
        }
        home
    }

    fn find_views(&mut self, graph: &Graph, found: &[Option<View>], granularity: Granularity) {
        reset(&mut self.is_output, graph.values.len(), false);
        graph.outputs.iter().for_each(|(_, id)| self.is_output[id.index()] = true);
        reset(&mut self.readers, graph.values.len(), None);
        for (index, node) in graph.nodes.iter().enumerate() {
            let fits = |offset: &usize| offset.is_multiple_of(granularity.view);
            match found[index].as_ref().filter(|view| view.offsets().iter().all(fits)) {
                Some(View::Parts(offsets)) => {
                    // A view of a view becomes a view of the whole value, which keeps chains of views short.
                    let home = self.home(node.inputs[0].expect("a view has an operand").index());
                    for (output, offset) in node.outputs.iter().zip(offsets) {
                        self.parents[output.index()] = Home { root: home.root, offset: home.offset + offset };
                    }
                    self.views[index] = true;
                }
                Some(View::Joined(offsets)) => {
                    let inputs = || node.inputs.iter().flatten();
                    // Each operand must be computed, have memory of its own, and appear only once.
                    let root = node.outputs[0].index();
                    let Aliasing { parents, is_output, readers, .. } = self;
                    let movable = |(place, id): (usize, &ValueId)| {
                        let own = parents[id.index()].root;
                        // A cache is in place already, at the start.
                        let is_there = place == 0 && matches!(graph.value(*id).source, Source::Input) && own == root;
                        is_there
                            || matches!(graph.value(*id).source, Source::Node)
                                && own == id.index()
                                && !is_output[id.index()]
                                && readers[id.index()].replace(index) != Some(index)
                    };
                    if inputs().enumerate().all(movable) {
                        for (input, offset) in inputs().zip(offsets) {
                            self.parents[input.index()] = Home { root, offset: *offset };
                        }
                        self.views[index] = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// Computes outputs in their tensors if possible; the others are copied at the end.
    fn place_outputs(&mut self, graph: &Graph) {
        // Only the cache lives in its tensor.
        for growing in &graph.growing {
            self.outputs[graph.outputs[growing.output].1.index()] = Some(growing.output);
        }
        for (index, (_, id)) in graph.outputs.iter().enumerate() {
            if self.outputs[id.index()] == Some(index) {
                continue;
            }
            let Home { root, offset } = self.parents[id.index()];
            let value = &graph.values[root];
            let whole = offset == 0 && value.descriptor.bytes() == graph.descriptor(*id).bytes();
            if whole && matches!(value.source, Source::Node) && self.outputs[root].is_none() {
                self.outputs[root] = Some(index);
            } else {
                self.copies.push((*id, index));
            }
        }
    }

    /// The lifetime of each root.
    fn lifetimes(&self, graph: &Graph) -> Vec<Option<Lifetime>> {
        let mut lifetimes: Vec<Option<Lifetime>> = vec![None; graph.values.len()];
        let mut need = |id: ValueId, at: usize| {
            let lifetime = lifetimes[self.parents[id.index()].root].get_or_insert(Lifetime { first: at, last: at });
            lifetime.first = lifetime.first.min(at);
            lifetime.last = lifetime.last.max(at);
        };
        for (index, node) in graph.nodes.iter().enumerate() {
            node.reads().chain(&node.outputs).for_each(|&id| need(id, index));
        }
        self.copies.iter().for_each(|&(id, _)| need(id, graph.nodes.len()));
        lifetimes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::CPU;

    #[test]
    fn a_chain_alternates_between_two_blocks() {
        let graph = parse(
            "%0 = input x float32 [64]
             %1 = exp %0
             %2 = abs %1
             %3 = exp %2
             %4 = abs %3
             %5 = exp %4
             output y = %5",
        );
        let plan = plan(&graph, &[0; 5], true, CPU.granularity);
        assert_eq!(plan.arena, 512);
        assert_eq!(plan.places[0].unwrap().space, Space::Input(0));
        assert_eq!(plan.places[5].unwrap().space, Space::Output(0));
    }

    #[test]
    fn values_that_live_together_do_not_overlap() {
        let graph = parse(
            "%0 = input x float32 [3, 5]
             %1 = exp %0
             %2 = abs %0
             %3 = neg %1
             %4 = add %2 %3
             %5 = mul %4 %1
             output y = %5
             output z = %3",
        );
        let plan = plan(&graph, &[0, 100, 0, 0, 0], true, CPU.granularity);
        let place = |i: usize| plan.places[i].unwrap();
        for (a, b) in [(1, 2), (1, 4), (2, 4)] {
            assert!(!place(a).overlaps(&place(b)), "%{a} and %{b}");
        }
        assert!(!plan.scratch[1].overlaps(&place(1)) && !plan.scratch[1].overlaps(&place(2)));
        assert_eq!(place(3).space, Space::Output(1));
    }

    #[test]
    fn an_operand_under_two_names_is_copied() {
        let graph = parse("%0 = input x float32 [2]\n%1 = abs %0\noutput y = %1\noutput z = %1");
        let plan = plan(&graph, &[0], true, CPU.granularity);
        assert_eq!(plan.copies(), [(ValueId(1), 1)]);
    }

    #[test]
    fn views_live_inside_their_source() {
        let graph = parse(
            "%0 = input x float32 [4, 16]
             %1 = exp %0
             %2 = reshape %1 newShape=[64]
             %3 = slice %2 starts=[16] sizes=[32]
             %4 = abs %3
             output y = %4",
        );
        let plan = plan(&graph, &[0; 4], true, CPU.granularity);
        let place = |i: usize| plan.places[i].unwrap();
        assert_eq!(place(2), place(1));
        assert_eq!(place(3), Place { offset: place(1).offset + 64, bytes: 128, ..place(1) });
        assert_eq!(plan.views(), [false, true, true, false]);
        assert_eq!(plan.arena, 256);
    }

    #[test]
    fn operands_of_an_outer_concatenation_are_computed_in_place() {
        let graph = parse(
            "%0 = input x float32 [1, 16]
             %1 = exp %0
             %2 = abs %0
             %3 = concat %1 %2 axis=0
             %4 = neg %3
             output y = %4",
        );
        let plan = plan(&graph, &[0; 4], true, CPU.granularity);
        let place = |i: usize| plan.places[i].unwrap();
        assert_eq!((place(1).offset, place(2).offset), (place(3).offset, place(3).offset + 64));
        assert_eq!(plan.views(), [false, false, true, false]);
    }

    #[test]
    fn a_view_of_an_input_is_copied_to_its_output() {
        let graph = parse("%0 = input x float32 [4]\n%1 = reshape %0 newShape=[2, 2]\noutput y = %1");
        let plan = plan(&graph, &[0], true, CPU.granularity);
        assert_eq!(plan.copies(), [(ValueId(1), 0)]);
    }

    #[test]
    fn an_input_is_not_computed_inside_of_a_concatenation() {
        let graph = parse("%0 = input x float32 [1, 4]\n%1 = abs %0\n%2 = concat %0 %1 axis=0\noutput y = %2");
        assert_eq!(plan(&graph, &[0; 2], true, CPU.granularity).views(), [false, false]);
    }

    #[test]
    fn a_cache_stays_at_the_start_of_its_output_and_is_copied_elsewhere() {
        for (operands, is_view) in [("%0 %1", true), ("%0 %0", false), ("%0 %1 %0", false)] {
            let text =
                format!("%0 = input x float32 [1, 4]\n%1 = abs %0\n%2 = concat {operands} axis=0\noutput y = %2");
            let mut graph = parse(&text);
            graph.growing = vec![Growing { input: 0, output: 0, axis: 0 }];
            let plan = plan(&graph, &vec![0; graph.nodes.len()], true, CPU.granularity);
            assert_eq!(plan.views().last(), Some(&is_view), "{operands}");
            assert_eq!(plan.places[0].map(|place| place.offset), Some(0), "{operands}");
        }
    }

    #[test]
    fn a_chain_of_views_becomes_views_of_one_value() {
        let mut text = "%0 = input x float32 [4, 16]\n%1 = exp %0\n".to_string();
        for i in 1..2000 {
            text += &format!("%{} = reshape %{i} newShape={}\n", i + 1, ["[64]", "[4, 16]"][i % 2]);
        }
        let graph = parse(&(text + "%z = abs %2000\noutput y = %z"));
        let plan = plan(&graph, &vec![0; graph.nodes.len()], true, CPU.granularity);
        assert_eq!(plan.places[2000], plan.places[1]);
    }

    /// Cases that can go wrong where values share memory.
    #[test]
    fn graphs_whose_values_share_memory() {
        let graphs = [
            // Concatenations of views, of concatenations, and of values that others read.
            "%1 = exp %0\n%2 = reshape %1 newShape=[1, 12]\n%3 = abs %2\n%4 = concat %2 %3 axis=0\n%5 = neg %4
             output y = %5\noutput z = %1",
            "%1 = exp %0\n%2 = neg %1\n%3 = concat %1 %2 axis=0\n%4 = abs %1\n%5 = concat %3 %4 axis=0\noutput y = %5",
            "%1 = exp %0\n%2 = concat %1 %1 axis=0\n%3 = concat %2 %2 axis=0\noutput y = %3\noutput z = %2",
            "%1 = exp %0\n%2 = neg %0\n%3 = concat %1 %2 axis=0\n%4 = concat %2 %1 axis=0\noutput y = %3\noutput z = %4",
            "%1 = exp %0\n%2 = concat %1 %0 axis=0\n%3 = reshape %2 newShape=[2, 12]\noutput y = %3\noutput z = %2",
            // A value is computed inside a concatenation while a slice of the concatenation is read.
            "%1 = exp %0\n%2 = slice %1 starts=[1, 0] sizes=[2, 4]\n%3 = neg %2\n%4 = concat %1 %3 axis=0\noutput y = %4",
            // Pieces that are outputs, whole and in parts.
            "%1, %2, %3 = split %0 splits=3\noutput y = %1\noutput z = %3",
            "%1 = exp %0\n%2, %3, %4 = split %1 splits=3\n%5 = slice %3 starts=[0, 1] sizes=[1, 2]
             output x1 = %5\noutput y = %4\noutput z = %1\noutput w = %3",
            "%1 = exp %0\n%2, %3, %4 = split %1 splits=3\n%5 = concat %2 %3 %4 axis=0\noutput y = %5\noutput z = %3",
            // Outputs that are views of outputs, of inputs, of constants, or one value under two names.
            "%1 = exp %0\n%2 = reshape %1 newShape=[12]\n%3 = reshape %2 newShape=[2, 6]\n%4 = identity %3
             output y = %4\noutput z = %1\noutput w = %2\noutput v = %4",
            "%1 = reshape %0 newShape=[12]\n%2 = slice %1 starts=[3] sizes=[6]\noutput y = %1\noutput z = %2\noutput w = %2",
            "%1 = constant float32 [3, 4]\n%2 = reshape %1 newShape=[12]\n%3 = add %0 %1\n%4 = identity %1
             output y = %2\noutput z = %3\noutput w = %4",
            // Outputs of nodes that nobody reads, with a graph output among them.
            "%1 = reshape %0 newShape=[1, 3, 4]\n%2 = constant float32 [1, 8, 4]\n%3 = constant float32 [1, 8, 2]
             %4, %5, %6 = lstm %1 %2 %3 steps=1 hiddenSize=2 returnSequence=true
             %7 = reshape %6 newShape=[6]\n%8 = neg %7\noutput y = %7\noutput z = %8",
        ];
        for rest in graphs {
            let graph = parse(&format!("%0 = input x float32 [3, 4]\n{rest}"));
            let tolerance = crate::testing::Tolerance::ulps(16).or_absolute(1e-5);
            crate::testing::check(&graph, tolerance);
        }
    }
}
