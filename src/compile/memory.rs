//! The memory plan: where every value lives during a dispatch. Shapes are static, so all intermediate values share
//! one arena; values whose lifetimes do not overlap share its bytes, views share the bytes of what they view, and
//! outputs are computed in place in the bound tensors.

use super::views::{View, view};
use crate::ir::{Graph, Node, Source, ValueId};
use crate::memory::ALIGNMENT;
use std::num::NonZeroU32;

/// A memory that is known at dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The arena of the graph.
    Arena,
    /// The tensor bound to the input of this index.
    Input(usize),
    /// The tensor bound to the output of this index.
    Output(usize),
    /// The bytes of this constant value.
    Constant(ValueId),
}

/// A piece of memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which memory.
    pub space: Space,
    /// Where it starts in it.
    pub offset: usize,
    /// How long it is.
    pub bytes: usize,
}

impl Place {
    /// Whether the two share a byte.
    pub fn overlaps(&self, other: &Place) -> bool {
        let disjoint = self.offset + self.bytes <= other.offset || other.offset + other.bytes <= self.offset;
        self.space == other.space && self.bytes > 0 && other.bytes > 0 && !disjoint
    }
}

/// What offsets must be multiples of, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Granularity {
    /// Those of values and scratch memory in the arena.
    pub block: usize,
    /// Those of views in what they are a part of; operators whose views would lie elsewhere need steps.
    pub view: usize,
}

impl Granularity {
    /// That of memory which the CPU addresses.
    pub const CPU: Granularity = Granularity { block: ALIGNMENT, view: 1 };
}

/// Where the values of a graph live.
#[derive(Debug)]
pub struct MemoryPlan {
    /// For each value that is computed or read, its place.
    pub places: Vec<Option<Place>>,
    /// For each node, the place of its scratch memory.
    pub scratch: Vec<Place>,
    /// For each node, whether it is a view, which needs no step.
    pub views: Vec<bool>,
    /// Values that are copied to the output of this index when all nodes are done.
    pub copies: Vec<(ValueId, usize)>,
    /// Bytes of the arena.
    pub arena: usize,
}

/// The value that a value's bytes are a part of, and where.
#[derive(Clone, Copy)]
struct Home {
    root: usize,
    offset: usize,
}

/// First and last node during which some bytes are needed.
#[derive(Clone, Copy)]
struct Lifetime {
    first: usize,
    last: usize,
}

struct Planner<'a> {
    graph: &'a Graph,
    /// For each value, the value it lives inside of and where; itself if nowhere.
    parents: Vec<Home>,
    views: Vec<bool>,
    /// For each root that is computed in the tensor of an output, the index of the output.
    outputs: Vec<Option<usize>>,
    copies: Vec<(ValueId, usize)>,
    granularity: Granularity,
}

/// Whether a node computes nothing but its operator.
fn is_plain(node: &Node) -> bool {
    node.epilogue.is_empty() && node.prologues.is_empty()
}

/// Plans the memory of `graph`; `scratch` holds, for each node, the bytes of scratch memory of its step, and
/// `share_views` allows views to need no step.
pub fn plan(graph: &Graph, scratch: &[usize], share_views: bool, granularity: Granularity) -> MemoryPlan {
    let count = graph.values.len();
    let mut planner = Planner {
        graph,
        parents: (0..count).map(|root| Home { root, offset: 0 }).collect(),
        views: vec![false; graph.nodes.len()],
        outputs: vec![None; count],
        copies: Vec::new(),
        granularity,
    };
    if share_views {
        planner.find_views();
    }
    planner.place_outputs();
    planner.finish(scratch)
}

impl Planner<'_> {
    fn home(&self, id: usize) -> Home {
        let (mut at, mut offset) = (id, 0);
        while self.parents[at].root != at {
            offset += self.parents[at].offset;
            at = self.parents[at].root;
        }
        Home { root: at, offset }
    }

    fn find_views(&mut self) {
        let uses = self.graph.use_counts();
        for (index, node) in self.graph.nodes.iter().enumerate() {
            let fits = |offset: &usize| offset.is_multiple_of(self.granularity.view);
            match view(self.graph, node).filter(|view| view.offsets().iter().all(fits)) {
                Some(View::Parts(offsets)) if is_plain(node) => {
                    // A view of a view is one of the whole value, so that chains of views stay short.
                    let home = self.home(node.inputs[0].expect("a view has an operand").index());
                    for (output, offset) in node.outputs.iter().zip(offsets) {
                        self.parents[output.index()] = Home { root: home.root, offset: home.offset + offset };
                    }
                    self.views[index] = true;
                }
                Some(View::Joined(offsets)) if is_plain(node) => {
                    let inputs: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
                    // Each operand must be computed, live in memory of its own, and be needed at one place only once.
                    let movable = |id: &ValueId| {
                        matches!(self.graph.value(*id).source, Source::Node)
                            && self.parents[id.index()].root == id.index()
                            && !self.graph.outputs.iter().any(|(_, output)| output == id)
                            && inputs.iter().filter(|other| *other == id).count() == 1
                            && uses[id.index()] > 0
                    };
                    if inputs.iter().all(movable) {
                        let root = node.outputs[0].index();
                        for (input, offset) in inputs.iter().zip(offsets) {
                            self.parents[input.index()] = Home { root, offset };
                        }
                        self.views[index] = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// Computes outputs in their tensors where possible; the others are copied at the end.
    fn place_outputs(&mut self) {
        for (index, (_, id)) in self.graph.outputs.iter().enumerate() {
            let Home { root, offset } = self.home(id.index());
            let value = &self.graph.values[root];
            let whole = offset == 0 && value.descriptor.bytes() == self.graph.descriptor(*id).bytes();
            if whole && matches!(value.source, Source::Node) && self.outputs[root].is_none() {
                self.outputs[root] = Some(index);
            } else {
                self.copies.push((*id, index));
            }
        }
    }

    /// For each root, when its bytes are needed.
    fn lifetimes(&self) -> Vec<Option<Lifetime>> {
        let mut lifetimes: Vec<Option<Lifetime>> = vec![None; self.graph.values.len()];
        let mut need = |id: ValueId, at: usize| {
            let lifetime = lifetimes[self.home(id.index()).root].get_or_insert(Lifetime { first: at, last: at });
            lifetime.first = lifetime.first.min(at);
            lifetime.last = lifetime.last.max(at);
        };
        for (index, node) in self.graph.nodes.iter().enumerate() {
            node.inputs.iter().flatten().chain(&node.outputs).for_each(|&id| need(id, index));
        }
        self.copies.iter().for_each(|&(id, _)| need(id, self.graph.nodes.len()));
        lifetimes
    }

    fn finish(self, scratch: &[usize]) -> MemoryPlan {
        let lifetimes = self.lifetimes();
        let in_arena = |root: usize| {
            matches!(self.graph.values[root].source, Source::Node)
                && self.outputs[root].is_none()
                && self.parents[root].root == root
        };
        let roots: Vec<usize> = (0..lifetimes.len()).filter(|&i| in_arena(i) && lifetimes[i].is_some()).collect();
        let mut blocks: Vec<Block> = roots
            .iter()
            .map(|&root| Block::new(self.graph.values[root].descriptor.bytes(), lifetimes[root].expect("filtered")))
            .collect();
        blocks
            .extend(scratch.iter().enumerate().map(|(at, &bytes)| Block::new(bytes, Lifetime { first: at, last: at })));
        let arena = pack(&mut blocks, self.granularity.block);

        let mut root_places: Vec<Option<Place>> = vec![None; lifetimes.len()];
        for (root, value) in self.graph.values.iter().enumerate() {
            let id = ValueId(root as u32);
            let space = match (&value.source, self.outputs[root]) {
                (Source::Constant(_), _) => Some(Space::Constant(id)),
                (Source::Sizes(_), _) => unreachable!("memory is planned for sizes that are known"),
                (Source::Input, _) => self.graph.inputs.iter().position(|(_, input)| *input == id).map(Space::Input),
                (Source::Node, output) => output.map(Space::Output),
            };
            root_places[root] = space.map(|space| Place { space, offset: 0, bytes: value.descriptor.bytes() });
        }
        for (&root, block) in roots.iter().zip(&blocks) {
            root_places[root] = Some(block.place());
        }
        let places = (0..lifetimes.len())
            .map(|id| {
                let Home { root, offset } = self.home(id);
                let place = root_places[root]?;
                Some(Place { offset: place.offset + offset, bytes: self.graph.values[id].descriptor.bytes(), ..place })
            })
            .collect();
        let scratch = blocks[roots.len()..].iter().map(Block::place).collect();
        MemoryPlan { places, scratch, views: self.views, copies: self.copies, arena }
    }
}

/// Some bytes of the arena for some time.
struct Block {
    bytes: usize,
    lifetime: Lifetime,
    offset: usize,
}

impl Block {
    fn new(bytes: usize, lifetime: Lifetime) -> Block {
        Block { bytes, lifetime, offset: 0 }
    }

    fn place(&self) -> Place {
        Place { space: Space::Arena, offset: self.offset, bytes: self.bytes }
    }
}

/// Blocks by the time in which they live, for finding those that live at the same time as another one without looking at
/// all: a graph has thousands, most of which live for a moment.
struct Calendar {
    /// Number of moments, a power of two.
    moments: usize,
    /// A binary tree over the moments, the root at 1, the children of node `i` at `2 * i` and `2 * i + 1`, the moments at
    /// the end. A block stands at the fewest nodes that cover its lifetime.
    covering: Lists,
    /// Blocks by the first moment of their lifetime.
    starting: Lists,
}

/// Lists of blocks in memory that they share. The last one of a list that was added comes first.
struct Lists {
    /// For each list, where in `links` it begins.
    heads: Vec<Option<NonZeroU32>>,
    /// Blocks, each with the place of the next one. Places count from 1.
    links: Vec<(u32, Option<NonZeroU32>)>,
}

impl Lists {
    fn new(count: usize) -> Lists {
        Lists { heads: vec![None; count], links: Vec::new() }
    }

    fn add(&mut self, list: usize, block: usize) {
        self.links.push((block as u32, self.heads[list]));
        self.heads[list] = NonZeroU32::new(self.links.len() as u32);
    }

    fn of(&self, list: usize) -> impl Iterator<Item = usize> {
        let link = |at: NonZeroU32| self.links[at.get() as usize - 1];
        std::iter::successors(self.heads[list].map(link), move |(_, next)| next.map(link))
            .map(|(block, _)| block as usize)
    }
}

impl Calendar {
    /// An empty calendar of at least `moments` moments.
    fn new(moments: usize) -> Calendar {
        let moments = moments.next_power_of_two();
        Calendar { moments, covering: Lists::new(2 * moments), starting: Lists::new(moments) }
    }

    fn insert(&mut self, block: usize, Lifetime { first, last }: Lifetime) {
        self.starting.add(first, block);
        let (mut low, mut high) = (first + self.moments, last + self.moments + 1);
        while low < high {
            if low % 2 == 1 {
                self.covering.add(low, block);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                self.covering.add(high, block);
            }
            (low, high) = (low / 2, high / 2);
        }
    }

    /// The blocks that live at some moment of a lifetime: those that live at its start, and those that start later.
    fn living(&self, Lifetime { first, last }: Lifetime) -> impl Iterator<Item = usize> {
        let at_start =
            std::iter::successors(Some(first + self.moments), |node| Some(node / 2).filter(|&node| node > 0));
        let later = (first + 1..=last).flat_map(|moment| self.starting.of(moment));
        at_start.flat_map(|node| self.covering.of(node)).chain(later)
    }
}

/// Gives every block its offset and returns the bytes of the arena: the largest blocks first, each at the lowest
/// offset where it fits between the blocks that live at the same time. Offsets are multiples of `alignment`.
fn pack(blocks: &mut [Block], alignment: usize) -> usize {
    let mut order: Vec<usize> = (0..blocks.len()).filter(|&i| blocks[i].bytes > 0).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(blocks[i].bytes));
    let mut placed = Calendar::new(order.iter().map(|&i| blocks[i].lifetime.last + 1).max().unwrap_or(0));
    let mut neighbours: Vec<(usize, usize)> = Vec::new();
    let mut arena = 0;
    for &index in &order {
        let Block { bytes, lifetime, .. } = blocks[index];
        neighbours.clear();
        neighbours.extend(placed.living(lifetime).map(|other| (blocks[other].offset, blocks[other].bytes)));
        neighbours.sort_unstable();
        let mut offset = 0;
        for &(start, length) in &neighbours {
            if offset + bytes <= start {
                break;
            }
            offset = offset.max((start + length).next_multiple_of(alignment));
        }
        blocks[index].offset = offset;
        arena = arena.max(offset + bytes);
        placed.insert(index, lifetime);
    }
    arena
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

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
        let plan = plan(&graph, &[0; 5], true, Granularity::CPU);
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
        let plan = plan(&graph, &[0, 100, 0, 0, 0], true, Granularity::CPU);
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
        let plan = plan(&graph, &[0], true, Granularity::CPU);
        assert_eq!(plan.copies, [(ValueId(1), 1)]);
    }

    #[test]
    fn views_live_inside_of_what_they_view() {
        let graph = parse(
            "%0 = input x float32 [4, 16]
             %1 = exp %0
             %2 = reshape %1 newShape=[64]
             %3 = slice %2 starts=[16] sizes=[32]
             %4 = abs %3
             output y = %4",
        );
        let plan = plan(&graph, &[0; 4], true, Granularity::CPU);
        let place = |i: usize| plan.places[i].unwrap();
        assert_eq!(place(2), place(1));
        assert_eq!(place(3), Place { offset: place(1).offset + 64, bytes: 128, ..place(1) });
        assert_eq!(plan.views, [false, true, true, false]);
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
        let plan = plan(&graph, &[0; 4], true, Granularity::CPU);
        let place = |i: usize| plan.places[i].unwrap();
        assert_eq!((place(1).offset, place(2).offset), (place(3).offset, place(3).offset + 64));
        assert_eq!(plan.views, [false, false, true, false]);
    }

    #[test]
    fn a_view_of_an_input_is_copied_to_its_output() {
        let graph = parse("%0 = input x float32 [4]\n%1 = reshape %0 newShape=[2, 2]\noutput y = %1");
        let plan = plan(&graph, &[0], true, Granularity::CPU);
        assert_eq!(plan.copies, [(ValueId(1), 0)]);
    }

    #[test]
    fn an_input_is_not_computed_inside_of_a_concatenation() {
        let graph = parse("%0 = input x float32 [1, 4]\n%1 = abs %0\n%2 = concat %0 %1 axis=0\noutput y = %2");
        assert_eq!(plan(&graph, &[0; 2], true, Granularity::CPU).views, [false, false]);
    }

    fn lives_with(a: &Block, b: &Block) -> bool {
        a.lifetime.first <= b.lifetime.last && b.lifetime.first <= a.lifetime.last
    }

    fn random_blocks(count: usize, longest: usize) -> Vec<Block> {
        let mut random = crate::testing::Random::new(count as u64);
        let mut pick = |n: usize| (random.next() % n as u64) as usize;
        let block = |at| {
            let first = pick(at + 1);
            Block::new(pick(5) * 40 * pick(100), Lifetime { first, last: first + pick(longest) })
        };
        (0..count).map(block).collect()
    }

    #[test]
    fn blocks_that_live_together_share_no_byte() {
        for longest in [1, 2, 10, 300] {
            let mut blocks = random_blocks(300, longest);
            let arena = pack(&mut blocks, ALIGNMENT);
            for (i, a) in blocks.iter().enumerate() {
                assert!(a.bytes == 0 || a.offset + a.bytes <= arena);
                for b in blocks[..i].iter().filter(|b| lives_with(a, b)) {
                    assert!(!a.place().overlaps(&b.place()), "{:?} and {:?}", a.place(), b.place());
                }
            }
        }
    }

    #[test]
    fn calendars_know_who_lives_together() {
        let blocks = random_blocks(200, 30);
        let mut calendar = Calendar::new(blocks.iter().map(|block| block.lifetime.last + 1).max().unwrap());
        for (index, block) in blocks.iter().enumerate() {
            let mut living: Vec<usize> = calendar.living(block.lifetime).collect();
            living.sort_unstable();
            assert!(living.into_iter().eq((0..index).filter(|&other| lives_with(block, &blocks[other]))));
            calendar.insert(index, block.lifetime);
        }
    }

    #[test]
    fn large_graphs_are_planned_in_no_time() {
        // Each block lives with the next few ones, and every hundredth for long.
        let mut blocks: Vec<Block> = (0..1 << 14)
            .map(|first| {
                let length = if first % 100 == 0 { 500 } else { 3 };
                Block::new(64 + first % 7 * 4096, Lifetime { first, last: first + length })
            })
            .collect();
        let start = std::time::Instant::now();
        pack(&mut blocks, ALIGNMENT);
        // Looking at all pairs takes seconds in a build like this one.
        assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
    }

    #[test]
    fn a_chain_of_views_is_views_of_one_value() {
        let mut text = "%0 = input x float32 [4, 16]\n%1 = exp %0\n".to_string();
        for i in 1..2000 {
            text += &format!("%{} = reshape %{i} newShape={}\n", i + 1, ["[64]", "[4, 16]"][i % 2]);
        }
        let graph = parse(&(text + "%z = abs %2000\noutput y = %z"));
        let plan = plan(&graph, &vec![0; graph.nodes.len()], true, Granularity::CPU);
        assert_eq!(plan.places[2000], plan.places[1]);
    }

    /// What can go wrong where values share memory.
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
            // A value is computed inside of a concatenation while a slice of that is read.
            "%1 = exp %0\n%2 = slice %1 starts=[1, 0] sizes=[2, 4]\n%3 = neg %2\n%4 = concat %1 %3 axis=0\noutput y = %4",
            // Pieces that are outputs, as they are and in parts.
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
