//! Rows: the parts of an operator's operands that some places along a dimension of its result depend on.

use super::operator::Inputs;
use crate::dimension::Dim;
use crate::shape::Descriptor;

/// A dimension of a tensor to select places along: the same ones among the `size` places of each of `groups`
/// consecutive groups. There are several groups if a reshape merges other dimensions into the one with the places.
#[derive(Clone, Copy, Debug)]
pub struct Along {
    /// The dimension, of `groups * size` elements.
    pub axis: usize,
    /// Number of groups.
    pub groups: Dim,
    /// Number of places per group.
    pub size: Dim,
}

impl Along {
    /// The same places along a different dimension.
    pub fn at(self, axis: usize) -> Along {
        Along { axis, ..self }
    }

    /// Whether there is a single group, for all sizes.
    pub fn is_whole(&self) -> bool {
        is_one(self.groups)
    }

    /// The size of the dimension with `count` places selected of each group.
    pub fn taken(&self, count: Dim) -> Dim {
        product([self.groups, count])
    }

    /// The shape with `count` places selected of each group.
    pub fn taken_of(&self, shape: &[Dim], count: Dim) -> Vec<Dim> {
        let mut shape = shape.to_vec();
        shape[self.axis] = self.taken(count);
        shape
    }

    /// The corresponding places of an operand broadcast to `output`; `None` if all places need all of it.
    pub fn broadcast(self, operand: &[Dim], output: &[Dim]) -> Option<Along> {
        let axis = (self.axis + operand.len()).checked_sub(output.len())?;
        let (own, all) = (operand[axis], output[self.axis]);
        (own.key() == all.key() || (!is_one(own) && own == all)).then(|| self.at(axis))
    }
}

/// An operator, computing only some places of its result.
#[derive(Clone, Debug)]
pub struct Rows<Op> {
    /// The operator, with attributes for fewer places.
    pub op: Op,
    /// For each operand, the corresponding places along one of its dimensions; `None` if all of it is needed.
    pub operands: Vec<Option<Along>>,
}

impl<Op> Rows<Op> {
    /// An operator that needs these places of its first operand, and all of its other operands.
    pub fn of_first(op: Op, first: Along, inputs: &Inputs) -> Rows<Op> {
        let operands = (0..inputs.len()).map(|index| (index == 0).then_some(first)).collect();
        Rows { op, operands }
    }

    /// An operator whose operands are broadcast to `output`.
    pub fn of_broadcast(op: Op, along: Along, inputs: &Inputs, output: &Descriptor) -> Rows<Op> {
        let places = |input: &Option<&Descriptor>| along.broadcast(&input.as_ref()?.shape, &output.shape);
        Rows { op, operands: inputs.iter().map(places).collect() }
    }

    /// Converts to another kind of operator.
    pub fn map<Other>(self, to: impl FnOnce(Op) -> Other) -> Rows<Other> {
        Rows { op: to(self.op), operands: self.operands }
    }
}

fn is_one(dim: Dim) -> bool {
    dim.is_number() && dim == 1
}

/// The product of dimensions. Ignores dimensions of 1, which makes the keys of equal products equal.
pub fn product(dims: impl IntoIterator<Item = Dim>) -> Dim {
    dims.into_iter().filter(|&dim| !is_one(dim)).product()
}

/// The places of a tensor of shape `from` that a reshape to `to` turns into the places `along`; `None` if these are not
/// places along a dimension.
pub fn before_reshape(from: &[Dim], to: &[Dim], along: Along) -> Option<Along> {
    let (outer, behind) = (product(to[..along.axis].iter().copied()), product(to[along.axis + 1..].iter().copied()));
    let axis = (0..from.len())
        .rev()
        .find(|&axis| !is_one(from[axis]) && product(from[axis + 1..].iter().copied()).key() == behind.key())?;
    let (own, before) = (from[axis], product(from[..axis].iter().copied()));
    let groups = if own.key() == along.size.key() {
        Dim::ONE
    } else if before.key() == outer.key() {
        along.groups
    } else if is_one(before) {
        product([outer, along.groups])
    } else if own.is_number() && along.size.is_number() && own.is_multiple_of(along.size) {
        own / along.size
    } else {
        return None;
    };
    Some(Along { axis, groups, ..along })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::{Tape, dims};

    /// The dimension, and the number of groups, of the places before a reshape, as numbers.
    fn reshaped(from: &[u32], to: &[u32], [axis, groups, size]: [u32; 3]) -> Option<[u32; 2]> {
        let along = Along { axis: axis as usize, groups: groups.into(), size: size.into() };
        before_reshape(&dims(from), &dims(to), along).map(|along| [along.axis as u32, along.groups.get()])
    }

    #[test]
    fn places_survive_reshapes() {
        // Heads are merged, a batch is split off, ones come and go.
        assert_eq!(reshaped(&[2, 7, 3, 4], &[2, 7, 12], [1, 1, 7]), Some([1, 1]));
        assert_eq!(reshaped(&[14, 12], &[2, 7, 12], [1, 1, 7]), Some([0, 2]));
        assert_eq!(reshaped(&[2, 7, 12], &[14, 12], [0, 2, 7]), Some([1, 1]));
        assert_eq!(reshaped(&[3, 14, 12], &[3, 2, 7, 12], [2, 1, 7]), Some([1, 2]));
        assert_eq!(reshaped(&[7, 12], &[1, 7, 1, 12], [1, 1, 7]), Some([0, 1]));
        assert_eq!(reshaped(&[1, 7, 1], &[7], [0, 1, 7]), Some([1, 1]));
        // The places are spread over two dimensions, or in the middle of one.
        assert_eq!(reshaped(&[2, 3, 12], &[6, 12], [0, 1, 6]), None);
        assert_eq!(reshaped(&[84], &[7, 12], [0, 1, 7]), None);
    }

    #[test]
    fn free_batches_are_groups() {
        Tape::record(&[1, 7], |free| {
            let [batch, length, width] = [free[0], free[1], Dim::number(12)];
            let along = Along { axis: 1, groups: Dim::ONE, size: length };
            let flat = [batch * length, width];
            let flattened = before_reshape(&flat, &[batch, length, width], along).unwrap();
            assert_eq!((flattened.axis, flattened.groups.key()), (0, batch.key()));
            let back = before_reshape(&[batch, length, width], &flat, flattened).unwrap();
            assert!(back.axis == 1 && back.is_whole());
        });
    }
}
