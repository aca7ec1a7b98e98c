//! The layout of a value's elements within the value that it rearranges: operators that only move elements need not run
//! if their reader can address the elements directly.

use super::{Facts, beside_scalar, scalar, two};
use crate::dimension::Dim;
use crate::ir::{Graph, Node, ValueId};
use crate::ops::elementwise::Elementwise;
use crate::ops::{Api, Op};
use crate::shape::dim_strides;

/// Maximum length of the chain of operators to follow.
const MAX_CHAIN: usize = 16;

/// A loop: its size, and its stride in elements.
pub type Factor = (Dim, Dim);

/// The elements of a value, as addressed within another value, its root. A dimension can be several loops over the
/// root, outermost first; a dimension of size 1 has none.
#[derive(Clone, Debug, PartialEq)]
pub struct StridedView {
    /// The value that holds the elements.
    pub root: ValueId,
    /// The offset of the first element, in elements.
    pub offset: Dim,
    /// The loops of each dimension.
    pub dims: Vec<Vec<Factor>>,
    /// A factor for all elements, see [`StridedView::scaled`].
    pub scale: f64,
    /// The nodes between value and root.
    pub nodes: Vec<usize>,
}

/// Drops loops that run once, and merges adjacent loops into longer ones where possible.
pub fn merged(factors: impl IntoIterator<Item = Factor>) -> Vec<Factor> {
    let mut merged: Vec<Factor> = Vec::new();
    for (size, stride) in factors.into_iter().filter(|(size, _)| *size != 1) {
        match merged.last_mut() {
            Some(outer) if outer.1 == stride * size => *outer = (outer.0 * size, stride),
            _ => merged.push((size, stride)),
        }
    }
    merged
}

/// Divides loops into the dimensions `shape`; `None` if a dimension ends inside a loop that cannot be divided there.
pub fn grouped(factors: Vec<Factor>, shape: &[Dim]) -> Option<Vec<Vec<Factor>>> {
    let mut rest = merged(factors);
    let mut dims = Vec::new();
    for &dim in shape.iter().rev() {
        let (mut needed, mut own) = (dim, Vec::new());
        while needed != 1 {
            let (size, stride) = rest.pop()?;
            if needed.is_multiple_of(size) {
                own.insert(0, (size, stride));
                needed = needed / size;
            } else if size.is_multiple_of(needed) {
                own.insert(0, (needed, stride));
                rest.push((size / needed, stride * needed));
                needed = Dim::number(1);
            } else {
                return None;
            }
        }
        dims.insert(0, own);
    }
    rest.is_empty().then_some(dims)
}

impl StridedView {
    /// A value as a view of itself.
    pub fn whole(graph: &Graph, id: ValueId) -> StridedView {
        let shape = &graph.descriptor(id).shape;
        let factors = shape.iter().copied().zip(dim_strides(shape));
        let dims = factors.map(|factor| merged([factor])).collect();
        StridedView { root: id, offset: Dim::number(0), dims, scale: 1.0, nodes: Vec::new() }
    }

    /// A value as a view of the value it rearranges, as far back as its producers allow.
    pub fn of(graph: &Graph, facts: &Facts, id: ValueId) -> StridedView {
        StridedView::within(graph, facts, id, MAX_CHAIN, false)
    }

    /// Like [`StridedView::of`], also past products with a scalar that have no other readers.
    pub fn scaled(graph: &Graph, facts: &Facts, id: ValueId) -> StridedView {
        StridedView::within(graph, facts, id, MAX_CHAIN, true)
    }

    fn within(graph: &Graph, facts: &Facts, id: ValueId, chain: usize, may_scale: bool) -> StridedView {
        let moved = || {
            let (index, node) = facts.producer(graph, id).filter(|_| chain > 0)?;
            if !node.epilogue.is_empty() {
                return None;
            }
            let (input, factor) = match moves(node) {
                true => ((*node.inputs.first()?)?, None),
                false => factor(graph, node).filter(|_| may_scale && facts.uses[id.index()] == 1)?,
            };
            let mut view = StridedView::within(graph, facts, input, chain - 1, may_scale);
            view.nodes.push(index);
            match factor {
                Some(factor) => Some(StridedView { scale: view.scale * factor, ..view }),
                None => view.through(graph, node, id),
            }
        };
        moved().unwrap_or_else(|| StridedView::whole(graph, id))
    }

    /// The view of the output `id` of `node`; `self` is the view of its first operand.
    fn through(self, graph: &Graph, node: &Node, id: ValueId) -> Option<StridedView> {
        let shape = graph.descriptor(id).shape.clone();
        let input = node.inputs.first().copied().flatten()?;
        match &node.op {
            Api(Op::Elementwise(Elementwise::Identity)) => Some(self),
            Api(Op::Transpose(op)) => {
                let dims = op.axes(shape.len()).into_iter().map(|axis| self.dims[axis].clone()).collect();
                Some(StridedView { dims, ..self })
            }
            Api(Op::Reshape(_)) => {
                Some(StridedView { dims: grouped(self.dims.into_iter().flatten().collect(), &shape)?, ..self })
            }
            Api(Op::Expand(_)) => self.broadcast(&shape),
            Api(Op::Slice(op)) => self.window(&op.starts, op.strides.as_deref(), &shape),
            Api(Op::Split(op)) => {
                let index = node.outputs.iter().position(|&output| output == id)?;
                let axis = op.axis as usize;
                let mut starts = vec![Dim::number(0); shape.len()];
                starts[axis] = op.sizes(graph.descriptor(input).shape[axis])[..index].iter().copied().sum();
                self.window(&starts, None, &shape)
            }
            _ => None,
        }
    }

    /// The window of size `shape` from `starts` on, with every `steps`-th element of each dimension.
    fn window(mut self, starts: &[Dim], steps: Option<&[u32]>, shape: &[Dim]) -> Option<StridedView> {
        for (axis, factors) in self.dims.iter_mut().enumerate() {
            let (start, step) = (starts[axis], steps.map_or(1, |steps| steps[axis]));
            let whole: Dim = factors.iter().map(|(size, _)| *size).product();
            if whole == shape[axis] {
                continue;
            }
            let [(_, stride)] = factors[..] else { return None };
            self.offset += start * stride;
            *factors = if shape[axis] == 1 { Vec::new() } else { vec![(shape[axis], stride * step)] };
        }
        Some(self)
    }

    /// Broadcasts to `shape`; `None` if that is not possible.
    pub fn broadcast(self, shape: &[Dim]) -> Option<StridedView> {
        let added = shape.len().checked_sub(self.dims.len())?;
        let mut dims = vec![Vec::new(); added];
        dims.extend(self.dims);
        for (factors, &size) in dims.iter_mut().zip(shape) {
            let own: Dim = factors.iter().map(|(size, _)| *size).product();
            if own == size {
                continue;
            }
            if own != 1 {
                return None;
            }
            *factors = vec![(size, Dim::number(0))];
        }
        Some(StridedView { dims, ..self })
    }

    /// The stride of a dimension in elements, if it is a single loop; 0 if it has one element.
    pub fn stride(&self, axis: usize) -> Option<Dim> {
        match merged(self.dims[axis].iter().copied())[..] {
            [] => Some(Dim::number(0)),
            [(_, stride)] => Some(stride),
            _ => None,
        }
    }
}

/// The operand that a node multiplies by a scalar constant, and the constant.
fn factor(graph: &Graph, node: &Node) -> Option<(ValueId, Option<f64>)> {
    let (input, factor) = match node.op {
        Api(Op::Elementwise(Elementwise::Mul)) => beside_scalar(graph, node)?,
        Api(Op::Elementwise(Elementwise::Div)) => {
            let [input, divisor] = two(node)?;
            (input, 1.0 / scalar(graph, divisor)?)
        }
        _ => return None,
    };
    (graph.descriptor(input).shape == graph.descriptor(node.outputs[0]).shape).then_some((input, Some(factor)))
}

/// Whether a node only moves elements of its first operand.
fn moves(node: &Node) -> bool {
    let identity = matches!(node.op, Api(Op::Elementwise(Elementwise::Identity)));
    identity || matches!(node.op, Api(Op::Transpose(_) | Op::Reshape(_) | Op::Expand(_) | Op::Slice(_) | Op::Split(_)))
}

/// Splits the loops of several lists with equal numbers of elements at the same sizes. Returns the sizes, and the
/// strides of each list; `None` if a loop cannot be split.
pub fn refined(lists: Vec<Vec<Factor>>) -> Option<(Vec<Dim>, Vec<Vec<Dim>>)> {
    let mut lists: Vec<Vec<Factor>> =
        lists.into_iter().map(|list| list.into_iter().filter(|(size, _)| *size != 1).collect()).collect();
    let (mut sizes, mut strides) = (Vec::new(), vec![Vec::new(); lists.len()]);
    while lists.iter().any(|list| !list.is_empty()) {
        let last: Option<Vec<Dim>> = lists.iter().map(|list| Some(list.last()?.0)).collect();
        let size = last?.into_iter().min()?;
        sizes.insert(0, size);
        for (list, strides) in lists.iter_mut().zip(&mut strides) {
            let (whole, stride) = list.pop()?;
            if !whole.is_multiple_of(size) {
                return None;
            }
            strides.insert(0, stride);
            if whole > size {
                list.push((whole / size, stride * size));
            }
        }
    }
    Some((sizes, strides))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    /// Loops as plain numbers.
    fn listed(dims: &[Vec<Factor>]) -> Vec<Vec<(u32, u32)>> {
        dims.iter().map(|loops| loops.iter().map(|(size, stride)| (size.get(), stride.get())).collect()).collect()
    }

    fn view(text: &str) -> (u32, Vec<Vec<(u32, u32)>>) {
        let graph = parse(text);
        let view = StridedView::of(&graph, &Facts::of(&graph), graph.outputs[0].1);
        assert_eq!(view.root, graph.inputs[0].1);
        (view.offset.get(), listed(&view.dims))
    }

    #[test]
    fn heads_of_a_projection() {
        let (offset, dims) = view(
            "%0 = input x float32 [2, 5, 24]
             %1, %2 = split %0 splits=[8, 16] axis=2
             %3 = reshape %2 newShape=[2, 5, 4, 4]
             %4 = transpose %3 permutation=[0, 2, 3, 1]
             output y = %4",
        );
        assert_eq!((offset, dims), (8, vec![vec![(2, 120)], vec![(4, 4)], vec![(4, 1)], vec![(5, 24)]]));
    }

    #[test]
    fn repeated_heads_stay_two_loops() {
        let (_, dims) = view(
            "%0 = input x float32 [1, 2, 7, 4]
             %1 = reshape %0 newShape=[1, 2, 1, 7, 4]
             %2 = expand %1 newShape=[1, 2, 3, 7, 4]
             %3 = reshape %2 newShape=[6, 7, 4]
             %4 = transpose %3 permutation=[0, 2, 1]
             output y = %4",
        );
        assert_eq!(dims, vec![vec![(2, 28), (3, 0)], vec![(4, 1)], vec![(7, 4)]]);
    }

    #[test]
    fn a_reshape_that_needs_a_copy_is_a_root() {
        let graph = parse(
            "%0 = input x float32 [4, 6]
             %1 = transpose %0
             %2 = slice %1 starts=[1, 0] sizes=[3, 4] strides=[2, 1]
             %3 = reshape %2 newShape=[8]
             %4 = reshape %1 newShape=[3, 8]
             %5 = transpose %4
             output y = %3
             output z = %5",
        );
        let facts = Facts::of(&graph);
        let view = StridedView::of(&graph, &facts, graph.outputs[1].1);
        assert_eq!((view.root, listed(&view.dims)), (graph.inputs[0].1, vec![vec![(2, 1), (4, 6)], vec![(3, 2)]]));
        let view = StridedView::of(&graph, &facts, graph.outputs[0].1);
        assert_eq!((view.root, view.offset.get()), (graph.inputs[0].1, 1));
    }

    #[test]
    fn lists_are_divided_alike() {
        let factors = |lists: &[&[(u32, u32)]]| -> Vec<Vec<Factor>> {
            lists.iter().map(|list| list.iter().map(|&(size, stride)| (size.into(), stride.into())).collect()).collect()
        };
        let lists = factors(&[&[(2, 100), (12, 5)], &[(24, 7)], &[(8, 3), (3, 0)]]);
        let (sizes, strides) = refined(lists).unwrap();
        assert_eq!(sizes, [2, 4, 3]);
        assert_eq!(strides, [[100, 15, 5], [84, 21, 7], [12, 3, 0]]);
        assert_eq!(refined(factors(&[&[(4, 1), (6, 4)], &[(3, 1), (8, 3)]])), None);
    }
}
