//! The memory plan: the place of every value during a dispatch. Shapes are static, so all intermediate values share one
//! arena; values with disjoint lifetimes share its bytes, views share the bytes of their source, and outputs are
//! computed in place in the bound tensors.

use super::Granularity;
use super::blocks::{ArenaBlocks, Lifetime};
use super::views::{View, view, view_in};
use crate::ir::{Changes, Graph, Growing, Node, Source, ValueId};

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
        let meets = || self.offset < other.offset + other.bytes && other.offset < self.offset + self.bytes;
        self.space == other.space && self.bytes > 0 && other.bytes > 0 && meets()
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
    /// For each value, whether it is one of them.
    is_used: Vec<bool>,
    /// The nodes that read or write each value.
    touching: Lists,
    /// The view of each node, if it is one.
    found: Vec<Option<View>>,
    /// The memory of a view that has been replaced.
    spare: Vec<usize>,
    aliasing: Aliasing,
    /// The aliasing for the previous sizes, if it had to be found again; its memory is reused for the next ones.
    before: Aliasing,
    /// Whether views share memory.
    shares_views: bool,
    granularity: Granularity,
    /// For each value, its index among the inputs of the graph.
    inputs: Vec<Option<usize>>,
    /// For each value, its block in the arena, if it has one.
    values: Vec<Option<usize>>,
    /// The block of the first node's scratch memory; those of the other nodes follow.
    first_scratch: usize,
    blocks: ArenaBlocks,
    /// The values whose places or sizes have changed since the previous [`place`](Self::place).
    moved: Marks,
    /// The nodes that read or write these values, or whose scratch memory may have changed.
    moved_nodes: Marks,
}

/// A set of indices that costs no more to empty than it has members.
#[derive(Default)]
struct Marks {
    is_marked: Vec<bool>,
    marked: Vec<usize>,
}

impl Marks {
    /// The empty set of indices below `count`.
    fn new(count: usize) -> Marks {
        Marks { is_marked: vec![false; count], marked: Vec::new() }
    }

    fn add(&mut self, index: usize) {
        if !std::mem::replace(&mut self.is_marked[index], true) {
            self.marked.push(index);
        }
    }

    fn contains(&self, index: usize) -> bool {
        self.is_marked[index]
    }

    fn clear(&mut self) {
        self.marked.drain(..).for_each(|index| self.is_marked[index] = false);
    }
}

/// A list of indices for each index.
struct Lists {
    /// Where each list starts, and the last one ends.
    starts: Vec<usize>,
    items: Vec<usize>,
}

impl Lists {
    /// The lists of `count` indices: for each pair in `pairs`, the second index in the list of the first one.
    fn of(count: usize, pairs: impl Iterator<Item = (usize, usize)> + Clone) -> Lists {
        let mut starts = vec![0; count + 1];
        pairs.clone().for_each(|(of, _)| starts[of + 1] += 1);
        (0..count).for_each(|at| starts[at + 1] += starts[at]);
        let (mut next, mut items) = (starts.clone(), vec![0; starts[count]]);
        for (of, item) in pairs {
            items[next[of]] = item;
            next[of] += 1;
        }
        Lists { starts, items }
    }

    fn get(&self, of: usize) -> &[usize] {
        &self.items[self.starts[of]..self.starts[of + 1]]
    }
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
    /// For each output, whether it is the whole of its root.
    are_whole: Vec<bool>,
    /// For each value, whether it is an output of the graph.
    is_output: Vec<bool>,
    /// For each value, the last node seen to read it.
    readers: Vec<Option<usize>>,
    /// The values that a view places inside another one.
    links: Vec<Link>,
}

/// A value inside another one, as a view has it.
struct Link {
    child: usize,
    parent: usize,
    /// The node of the view, and which of its parts the value is.
    node: usize,
    part: usize,
    /// The offset of the value in its root.
    offset: usize,
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
        let is_used = used_values(graph);
        let used: Vec<usize> = (0..is_used.len()).filter(|&id| is_used[id]).collect();
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
        let mut values = vec![None; graph.values.len()];
        roots.iter().enumerate().for_each(|(block, &root)| values[root] = Some(block));
        let mut inputs = vec![None; graph.values.len()];
        graph.inputs.iter().enumerate().for_each(|(index, (_, id))| inputs[id.index()] = Some(index));
        let touched = |(index, node): (usize, &Node)| {
            node.reads().chain(&node.outputs).map(move |id| (id.index(), index)).collect::<Vec<_>>()
        };
        let touched: Vec<(usize, usize)> = graph.nodes.iter().enumerate().flat_map(touched).collect();
        MemoryPlan {
            places: Vec::new(),
            scratch: Vec::new(),
            arena: 0,
            used,
            is_used,
            touching: Lists::of(graph.values.len(), touched.iter().copied()),
            found,
            spare: Vec::new(),
            aliasing,
            before: Aliasing::default(),
            shares_views: share_views,
            granularity,
            inputs,
            values,
            first_scratch: roots.len(),
            blocks,
            moved: Marks::new(graph.values.len()),
            moved_nodes: Marks::new(graph.nodes.len()),
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
    pub fn resize(&mut self, graph: &Graph, changes: &Changes) -> bool {
        let MemoryPlan { used, found, spare, aliasing, before, moved, shares_views, granularity, .. } = self;
        moved.clear();
        let views = shares_views.then_some(*granularity);
        let (mut is_shifted, mut is_alike) = (false, true);
        for &index in &changes.nodes {
            let now = view_in(graph, &graph.nodes[index], spare);
            is_shifted |= found[index] != now;
            is_alike &= View::are_alike(&found[index], &now, granularity.view);
            if let Some(view) = std::mem::replace(&mut found[index], now) {
                *spare = view.into_offsets();
            }
        }
        if is_alike {
            if is_shifted {
                aliasing.shift(found, moved);
            }
            if aliasing.outputs_fit(graph) {
                return true;
            }
        }
        std::mem::swap(aliasing, before);
        aliasing.find(graph, used, found, views);
        used.iter().for_each(|&id| moved.add(id));
        aliasing.is_alike(before, used)
    }

    /// The nodes that read or write memory that the last [`place`](Self::place) moved.
    pub fn moved_nodes(&self) -> &[usize] {
        &self.moved_nodes.marked
    }

    /// Whether the place or the size of a value has changed in the last [`place`](Self::place).
    pub fn has_moved(&self, id: ValueId) -> bool {
        self.moved.contains(id.index())
    }

    /// Assigns places to all values. `scratch` lists the nodes with `changes` and the bytes of scratch memory that
    /// their steps need.
    pub fn place(&mut self, graph: &Graph, scratch: impl Iterator<Item = (usize, usize)>, changes: &Changes) {
        let is_new = self.places.is_empty();
        self.places.resize(graph.values.len(), None);
        self.scratch.resize(graph.nodes.len(), Place::NONE);
        self.moved_nodes.clear();
        let mut is_other = is_new;
        for &index in changes.values.iter().filter(|index| self.is_used[**index]) {
            self.moved.add(index);
            if let Some(block) = self.values[index] {
                is_other |= self.blocks.set_bytes(block, graph.values[index].descriptor.bytes());
            }
        }
        for (node, bytes) in scratch {
            is_other |= self.blocks.set_bytes(self.first_scratch + node, bytes);
            self.moved_nodes.add(node);
        }
        if is_other {
            self.arena = self.blocks.pack(self.granularity.block);
            self.used.iter().for_each(|&index| self.moved.add(index));
            (0..graph.nodes.len()).for_each(|node| self.moved_nodes.add(node));
        }
        for at in 0..self.moved.marked.len() {
            let index = self.moved.marked[at];
            self.places[index] = self.place_of(graph, index);
            self.touching.get(index).iter().for_each(|&node| self.moved_nodes.add(node));
        }
        for &node in &self.moved_nodes.marked {
            self.scratch[node] = self.in_arena(self.first_scratch + node);
        }
    }

    /// The place of the value at `index`; `None` if it needs no memory.
    fn place_of(&self, graph: &Graph, index: usize) -> Option<Place> {
        let Home { root, offset } = self.aliasing.parents[index];
        let bytes_of = |index: usize| graph.values[index].descriptor.bytes();
        let whole = |space: Space| Place { space, offset: 0, bytes: bytes_of(root) };
        let home = match (&graph.values[root].source, self.aliasing.outputs[root]) {
            (Source::Constant(_), _) => whole(Space::Constant(ValueId(root as u32))),
            (Source::Sizes(_), _) => unreachable!("memory is planned for sizes that are known"),
            (Source::Node, Some(output)) => whole(Space::Output(output)),
            (Source::Node, None) => self.in_arena(self.values[root]?),
            (Source::Input, _) => whole(Space::Input(self.inputs[root]?)),
        };
        Some(Place { offset: home.offset + offset, bytes: bytes_of(index), ..home })
    }

    fn in_arena(&self, block: usize) -> Place {
        let range = self.blocks.range(block);
        Place { space: Space::Arena, offset: range.start, bytes: range.len() }
    }
}

/// Plans the memory of `graph`; `scratch` has the bytes of scratch memory of each node's step. With `share_views`,
/// views need no step.
pub fn plan(graph: &Graph, scratch: &[usize], share_views: bool, granularity: Granularity) -> MemoryPlan {
    let mut plan = MemoryPlan::new(graph, share_views, granularity);
    plan.place(graph, scratch.iter().copied().enumerate(), &Changes::all(graph));
    plan
}

/// For each value, whether nodes or `graph` read or write it.
fn used_values(graph: &Graph) -> Vec<bool> {
    let mut is_used = vec![false; graph.values.len()];
    let of_nodes = graph.nodes.iter().flat_map(|node| node.reads().chain(&node.outputs));
    let named = graph.inputs.iter().chain(&graph.outputs).map(|(_, id)| id);
    of_nodes.chain(named).for_each(|id| is_used[id.index()] = true);
    is_used
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
        self.links.clear();
        for Growing { input, output, .. } in &graph.growing {
            let root = graph.outputs[*output].1.index();
            self.parents[graph.inputs[*input].1.index()] = Home { root, offset: 0 };
        }
        if let Some(granularity) = views {
            self.find_views(graph, found, granularity);
            used.iter().for_each(|&id| _ = self.home(id));
            self.links.iter_mut().for_each(|link| link.offset = self.parents[link.child].offset);
        }
        self.place_outputs(graph);
    }

    /// Adopts other offsets of the views that were `found`, and adds the values at other offsets to `moved`.
    fn shift(&mut self, found: &[Option<View>], moved: &mut Marks) {
        for Link { child, parent, node, part, .. } in &self.links {
            let view = found[*node].as_ref().expect("a view is still one");
            self.parents[*child] = Home { root: *parent, offset: view.offsets()[*part] };
        }
        for at in 0..self.links.len() {
            let child = self.links[at].child;
            let Home { offset, .. } = self.home(child);
            if std::mem::replace(&mut self.links[at].offset, offset) != offset {
                moved.add(child);
            }
        }
    }

    /// Whether the same outputs as before are the whole of their roots.
    fn outputs_fit(&self, graph: &Graph) -> bool {
        graph.outputs.iter().zip(&self.are_whole).all(|((_, id), is_whole)| self.is_whole(graph, *id) == *is_whole)
    }

    /// Whether value `id` is the whole of its root.
    fn is_whole(&self, graph: &Graph, id: ValueId) -> bool {
        let Home { root, offset } = self.parents[id.index()];
        let bytes = |id: usize| graph.values[id].descriptor.bytes();
        root == id.index() || offset == 0 && bytes(root) == bytes(id.index())
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
                    let parent = node.inputs[0].expect("a view has an operand").index();
                    self.link(index, node.outputs.iter().map(|output| (output.index(), parent)));
                    self.views[index] = true;
                }
                Some(View::Joined(offsets)) => {
                    let inputs = || node.inputs.iter().flatten();
                    // Each operand must be computed, have memory of its own, and appear only once.
                    let root = node.outputs[0].index();
                    let joined = &graph.values[root].descriptor;
                    let row = joined.bytes().checked_div(joined.shape[0].size()).unwrap_or(0);
                    // Otherwise, what follows a cache could be there for some of its lengths only.
                    let rows_fit = row.is_multiple_of(granularity.view);
                    let Aliasing { parents, is_output, readers, .. } = self;
                    let movable = |(place, id): (usize, &ValueId)| {
                        let own = parents[id.index()].root;
                        // A cache is in place already, at the start.
                        place == 0 && rows_fit && own == root && matches!(graph.value(*id).source, Source::Input)
                            || matches!(graph.value(*id).source, Source::Node)
                                && own == id.index()
                                && !is_output[id.index()]
                                && readers[id.index()].replace(index) != Some(index)
                    };
                    if inputs().enumerate().all(movable) {
                        for (input, offset) in inputs().zip(offsets) {
                            self.parents[input.index()] = Home { root, offset: *offset };
                        }
                        self.link(index, inputs().map(|input| (input.index(), root)));
                        self.views[index] = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// Records the children of the view at `node`, with their parents.
    fn link(&mut self, node: usize, parts: impl Iterator<Item = (usize, usize)>) {
        let link = |(part, (child, parent))| Link { child, parent, node, part, offset: 0 };
        self.links.extend(parts.enumerate().map(link));
    }

    /// Computes outputs in their tensors if possible; the others are copied at the end.
    fn place_outputs(&mut self, graph: &Graph) {
        self.are_whole = graph.outputs.iter().map(|(_, id)| self.is_whole(graph, *id)).collect();
        // Only the cache lives in its tensor.
        for growing in &graph.growing {
            self.outputs[graph.outputs[growing.output].1.index()] = Some(growing.output);
        }
        for (index, (_, id)) in graph.outputs.iter().enumerate() {
            if self.outputs[id.index()] == Some(index) {
                continue;
            }
            let root = self.parents[id.index()].root;
            let is_computed = matches!(graph.values[root].source, Source::Node);
            if is_computed && self.outputs[root].is_none() && self.are_whole[index] {
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
        let mut moment = 0;
        for (index, node) in graph.nodes.iter().enumerate() {
            // Nodes of one step run at the same moment: that of the first one.
            if graph.beside.binary_search(&index).is_err() {
                moment = index;
            }
            node.reads().chain(&node.outputs).for_each(|&id| need(id, moment));
        }
        self.copies.iter().for_each(|&(id, _)| need(id, graph.nodes.len()));
        lifetimes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{CPU, Random};

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

    /// A random graph over rows of four numbers: views of views, concatenations, outputs anywhere among them, and a cache.
    /// Everything is a function of `seed`, except the sizes, which depend on `size`, too.
    fn random_graph(seed: u64, size: usize) -> Graph {
        let mut random = Random::new(seed);
        let mut pick = |count: usize| random.next() as usize % count;
        // For each value, its rows as multiples of the size, and as a number.
        let mut rows = vec![(1, 0), (1, 0)];
        let count = |(times, more): (usize, usize)| times * size + more;
        let mut text = format!("%0 = input past float32 [{size}, 4]\n%1 = input x float32 [{size}, 4]\n");
        for id in 2..30 {
            let from = pick(id - 1) + 1;
            let (times, more) = rows[from];
            let (line, of_line) = match pick(6) {
                0 if times > 0 => (
                    format!("slice %{from} starts=[{size}, 0] sizes=[{}, 4]", count((times - 1, more))),
                    (times - 1, more),
                ),
                1 if times > 0 => (format!("slice %{from} starts=[0, 0] sizes=[{size}, 4]"), (1, 0)),
                2 => (format!("identity %{from}"), rows[from]),
                3 => {
                    let other = pick(id - 1) + 1;
                    (format!("concat %{from} %{other} axis=0"), (times + rows[other].0, more + rows[other].1))
                }
                4 => (format!("pad %{from} beginningPadding=[1, 0] endingPadding=[0, 0]"), (times, more + 1)),
                _ => (format!("abs %{from}"), rows[from]),
            };
            // Values without rows, or with very many, become simple ones.
            let is_usual = of_line != (0, 0) && of_line.0 < 20;
            let (line, of_line) = if is_usual { (line, of_line) } else { (format!("exp %{from}"), rows[from]) };
            text += &format!("%{id} = {line}\n");
            rows.push(of_line);
        }
        text += &format!("%30 = concat %0 %{} axis=0\n%31 = abs %30\noutput present = %30\n", pick(29) + 1);
        (0..4).for_each(|index| text += &format!("output y{index} = %{}\n", pick(30) + 2));
        let mut graph = parse(&text);
        graph.growing = vec![Growing { input: 0, output: 0, axis: 0 }];
        graph
    }

    /// What differs between two graphs that differ in sizes only.
    fn changes(before: &Graph, after: &Graph) -> Changes {
        let is_other = |at: &usize| before.values[*at].descriptor != after.values[*at].descriptor;
        let values: Vec<usize> = (0..after.values.len()).filter(is_other).collect();
        let touches = |index: &usize| {
            let node = &after.nodes[*index];
            before.nodes[*index] != *node || node.reads().chain(&node.outputs).any(|id| values.contains(&id.index()))
        };
        Changes { nodes: (0..after.nodes.len()).filter(touches).collect(), values, constants: Vec::new() }
    }

    #[test]
    fn resized_plans_equal_new_ones() {
        let (mut resized, mut rebuilt) = (0, 0);
        for seed in 1..120 {
            let scratch = |graph: &Graph, node: usize| graph.descriptor(graph.nodes[node].outputs[0]).bytes() / 3;
            let new = |graph: &Graph| {
                let bytes: Vec<usize> = (0..graph.nodes.len()).map(|node| scratch(graph, node)).collect();
                super::plan(graph, &bytes, true, CPU.granularity)
            };
            let mut before = random_graph(seed, 5);
            let mut plan = new(&before);
            for size in [6, 7, 8, 40, 41, 42, 9, 1, 2, 100, 101] {
                let graph = random_graph(seed, size);
                let expected = new(&graph);
                let changes = changes(&before, &graph);
                if plan.resize(&graph, &changes) {
                    let places: Vec<Option<Place>> = plan.places.clone();
                    let of_nodes = changes.nodes.iter().map(|&node| (node, scratch(&graph, node)));
                    plan.place(&graph, of_nodes, &changes);
                    assert_eq!(plan.places, expected.places, "{size} in {seed}: {graph}");
                    assert_eq!((&plan.scratch, plan.arena), (&expected.scratch, expected.arena), "{size} in {seed}");
                    let moved = (0..places.len()).filter(|&id| places[id] != plan.places[id]);
                    for id in moved.map(|id| ValueId(id as u32)) {
                        let touches = |node: &Node| node.reads().chain(&node.outputs).any(|other| *other == id);
                        let nodes = (0..graph.nodes.len()).filter(|&at| touches(&graph.nodes[at]));
                        assert!(plan.has_moved(id), "%{} at {size} in {seed}", id.index());
                        nodes
                            .for_each(|node| assert!(plan.moved_nodes().contains(&node), "{node} at {size} in {seed}"));
                    }
                    resized += 1;
                } else {
                    plan = expected;
                    rebuilt += 1;
                }
                assert_eq!(plan.aliasing.copies, new(&graph).aliasing.copies, "{size} in {seed}");
                before = graph;
            }
        }
        assert!(resized > 10 * rebuilt, "{resized} were resized, {rebuilt} made anew");
    }

    #[test]
    fn what_does_not_depend_on_sizes_stays_untouched() {
        let graph = |size: usize| {
            let mut text = format!("%0 = input past float32 [{size}, 4]\n%1 = input x float32 [1, 4]\n");
            (2..100).for_each(|id| text += &format!("%{id} = abs %{}\n", id - 1));
            let all = size + 1;
            text += &format!("%100 = concat %0 %99 axis=0\n%101 = reshape %100 newShape=[4, {all}]\n");
            text += "%102 = matmul %99 %101\n%103 = abs %100\n";
            let mut graph = parse(&(text + "output present = %100\noutput y = %102\noutput z = %103"));
            graph.growing = vec![Growing { input: 0, output: 0, axis: 0 }];
            graph
        };
        let mut before = graph(100);
        let mut plan = super::plan(&before, &[0; 102], true, CPU.granularity);
        for size in 101..110 {
            let graph = graph(size);
            let changes = changes(&before, &graph);
            assert!(plan.resize(&graph, &changes));
            plan.place(&graph, changes.nodes.iter().map(|&node| (node, 0)), &changes);
            // The last one that writes into the cache, its readers, and the reader of both.
            assert!(plan.moved_nodes().len() <= 5, "{:?}", plan.moved_nodes());
            before = graph;
        }
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
