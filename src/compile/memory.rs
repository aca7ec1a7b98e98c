//! The memory plan: where every value lives during a dispatch. Shapes are static, so all intermediate values share
//! one arena; values whose lifetimes do not overlap share its bytes, views share the bytes of what they view, and
//! outputs are computed in place in the bound tensors.

use super::views::{View, view};
use crate::ir::{Graph, Source, ValueId};
use crate::memory::ALIGNMENT;

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
}

/// Plans the memory of `graph`; `scratch` holds, for each node, the bytes of scratch memory of its step, and
/// `share_views` allows views to need no step.
pub fn plan(graph: &Graph, scratch: &[usize], share_views: bool) -> MemoryPlan {
    let count = graph.values.len();
    let mut planner = Planner {
        graph,
        parents: (0..count).map(|root| Home { root, offset: 0 }).collect(),
        views: vec![false; graph.nodes.len()],
        outputs: vec![None; count],
        copies: Vec::new(),
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
            match view(self.graph, node) {
                Some(View::Parts(offsets)) if node.epilogue.is_empty() => {
                    let input = node.inputs[0].expect("a view has an operand").index();
                    for (output, offset) in node.outputs.iter().zip(offsets) {
                        self.parents[output.index()] = Home { root: input, offset };
                    }
                    self.views[index] = true;
                }
                Some(View::Joined(offsets)) if node.epilogue.is_empty() => {
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
        let arena = pack(&mut blocks);

        let mut root_places: Vec<Option<Place>> = vec![None; lifetimes.len()];
        for (root, value) in self.graph.values.iter().enumerate() {
            let id = ValueId(root as u32);
            let space = match (&value.source, self.outputs[root]) {
                (Source::Constant(_), _) => Some(Space::Constant(id)),
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

    fn lives_with(&self, other: &Block) -> bool {
        self.lifetime.first <= other.lifetime.last && other.lifetime.first <= self.lifetime.last
    }
}

/// Gives every block its offset and returns the bytes of the arena: the largest blocks first, each at the lowest
/// offset where it fits between the blocks that live at the same time.
fn pack(blocks: &mut [Block]) -> usize {
    let mut order: Vec<usize> = (0..blocks.len()).filter(|&i| blocks[i].bytes > 0).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(blocks[i].bytes));
    let mut placed: Vec<usize> = Vec::new();
    let mut arena = 0;
    for &index in &order {
        let mut neighbours: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&other| blocks[other].lives_with(&blocks[index]))
            .map(|&other| (blocks[other].offset, blocks[other].bytes))
            .collect();
        neighbours.sort_unstable();
        let mut offset = 0;
        for (start, bytes) in neighbours {
            if offset + blocks[index].bytes <= start {
                break;
            }
            offset = offset.max((start + bytes).next_multiple_of(ALIGNMENT));
        }
        blocks[index].offset = offset;
        arena = arena.max(offset + blocks[index].bytes);
        placed.push(index);
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
        let plan = plan(&graph, &[0; 5], true);
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
        let plan = plan(&graph, &[0, 100, 0, 0, 0], true);
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
        let plan = plan(&graph, &[0], true);
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
        let plan = plan(&graph, &[0; 4], true);
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
        let plan = plan(&graph, &[0; 4], true);
        let place = |i: usize| plan.places[i].unwrap();
        assert_eq!((place(1).offset, place(2).offset), (place(3).offset, place(3).offset + 64));
        assert_eq!(plan.views, [false, false, true, false]);
    }

    #[test]
    fn a_view_of_an_input_is_copied_to_its_output() {
        let graph = parse("%0 = input x float32 [4]\n%1 = reshape %0 newShape=[2, 2]\noutput y = %1");
        let plan = plan(&graph, &[0], true);
        assert_eq!(plan.copies, [(ValueId(1), 0)]);
    }

    #[test]
    fn an_input_is_not_computed_inside_of_a_concatenation() {
        let graph = parse("%0 = input x float32 [1, 4]\n%1 = abs %0\n%2 = concat %0 %1 axis=0\noutput y = %2");
        assert_eq!(plan(&graph, &[0; 2], true).views, [false, false]);
    }
}
