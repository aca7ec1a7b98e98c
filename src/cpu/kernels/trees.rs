//! Decision trees, several at once: a step from a branch to the next waits for memory, so a thread takes eight of them
//! in turns, of different rows in a tree or of different trees for a row.

use super::reduce::is_nan;
use crate::error::Result;
use crate::memory::{Buffer, elements, elements_mut};
use std::sync::Arc;

/// How many places move together. Of 4, 8 and 16, the fastest for 100 and 1000 trees of 6 and 10 levels.
const LANES: usize = 8;

/// Levels between two looks whether all places are leaves.
const LEVELS: u32 = 4;

/// The bit beside a feature that tells that NaN counts as at most the threshold.
const MISSING: u32 = 1 << 31;

/// A branch: the bits of its threshold, its feature with [`MISSING`], and where rows go whose feature is at most the
/// threshold, or above. A leaf leads to itself, and has a number of its own in place of the threshold.
pub type Node = [u32; 4];

/// A type of features.
pub trait Feature: Copy + PartialOrd {
    /// The threshold of the node at a place: the number in the node if it has 32 bits, else that in the list of
    /// thresholds.
    ///
    /// # Safety
    /// There is a node at this place, and if the type has 64 bits, a threshold.
    unsafe fn threshold(node: &Node, thresholds: &[f64], at: usize) -> Self;
}

impl Feature for f32 {
    #[inline(always)]
    unsafe fn threshold(node: &Node, _: &[f64], _: usize) -> f32 {
        f32::from_bits(node[0])
    }
}

impl Feature for f64 {
    #[inline(always)]
    unsafe fn threshold(_: &Node, thresholds: &[f64], at: usize) -> f64 {
        // SAFETY: the caller knows that the list has this threshold.
        *unsafe { thresholds.get_unchecked(at) }
    }
}

/// Thresholds of branches.
#[derive(Clone, Copy, Debug)]
pub enum Thresholds<'a> {
    /// Those for features of float32.
    Floats(&'a [f32]),
    /// Those for features of float64.
    Doubles(&'a [f64]),
}

/// A tree: its first node, and the number of levels below it.
type Tree = [u32; 2];

/// Trees as they are given: see [`TreeEnsemble`](crate::ops::extension::tree_ensemble::TreeEnsemble).
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The thresholds of branches.
    pub thresholds: Thresholds<'a>,
    /// Feature, places, and the treatment of NaN, for each branch.
    pub branches: &'a [[i32; 4]],
    /// Where trees begin.
    pub roots: &'a [i32],
    /// What a leaf has in place of a threshold, for each.
    pub leaves: &'a [u32],
    /// The number of features.
    pub width: usize,
}

/// Trees in which every place is a node, and every feature below the width.
pub struct Trees {
    nodes: Arc<Buffer>,
    /// The thresholds of all nodes if they are float64, else empty.
    thresholds: Buffer,
    trees: Buffer,
    width: usize,
    /// Whether NaN counts as at most the threshold at any branch.
    any_missing: bool,
    /// Of all trees together.
    levels: usize,
}

impl Trees {
    /// Packs trees; `None` if a place or feature is outside, or a branch leads to one in front of it.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn pack(given: &Given) -> Result<Option<Trees>> {
        let (branches, leaves) = (given.branches.len(), given.leaves.len());
        let count = branches + leaves;
        let (floats, doubles) = match given.thresholds {
            Thresholds::Floats(floats) => (floats, &[][..]),
            Thresholds::Doubles(doubles) => (&[][..], doubles),
        };
        if floats.len() + doubles.len() != branches || count >= MISSING as usize {
            return Ok(None);
        }
        let node_of = |place: i32, least: usize| {
            let is_branch = place >= 0;
            let at = if is_branch { place as usize } else { !place as usize };
            let is_valid = if is_branch { (least..branches).contains(&at) } else { at < leaves };
            is_valid.then_some(if is_branch { at } else { branches + at } as u32)
        };
        let mut nodes = Buffer::zeroed(count * size_of::<Node>())?;
        let mut depths = Buffer::zeroed(count * size_of::<u32>())?;
        let depths: &mut [u32] = elements_mut(depths.bytes_mut());
        let (list, _) = elements_mut::<u32>(nodes.bytes_mut()).as_chunks_mut::<4>();
        for (at, &number) in given.leaves.iter().enumerate() {
            let own = (branches + at) as u32;
            list[branches + at] = [number, 0, own, own];
        }
        let mut any_missing = false;
        // Branches lead to what is behind them only, whose depths are thus known.
        for (at, &[feature, at_most, above, missing]) in given.branches.iter().enumerate().rev() {
            let places = [at_most, above].map(|place| node_of(place, at + 1));
            let (Ok(feature), [Some(at_most), Some(above)]) = (u32::try_from(feature), places) else { return Ok(None) };
            if feature as usize >= given.width {
                return Ok(None);
            }
            any_missing |= missing != 0;
            let bit = if missing != 0 { MISSING } else { 0 };
            list[at] = [floats.get(at).map_or(0, |threshold| threshold.to_bits()), feature | bit, at_most, above];
            depths[at] = 1 + depths[at_most as usize].max(depths[above as usize]);
        }
        let mut trees = Buffer::zeroed(given.roots.len() * size_of::<Tree>())?;
        let mut levels = 0;
        let roots = elements_mut::<u32>(trees.bytes_mut()).as_chunks_mut::<2>().0;
        for (tree, &root) in roots.iter_mut().zip(given.roots) {
            let Some(root) = node_of(root, 0) else { return Ok(None) };
            *tree = [root, depths[root as usize]];
            levels += tree[1] as usize;
        }
        // Leaves read feature 0.
        let is_valid = given.width > 0;
        let mut thresholds = Buffer::zeroed(if doubles.is_empty() { 0 } else { count * size_of::<f64>() })?;
        if !doubles.is_empty() {
            elements_mut(thresholds.bytes_mut())[..branches].copy_from_slice(doubles);
        }
        Ok(is_valid.then_some(Trees {
            nodes: Arc::new(nodes),
            thresholds,
            trees,
            width: given.width,
            any_missing,
            levels,
        }))
    }

    /// Number of trees.
    pub fn count(&self) -> usize {
        self.trees.len() / size_of::<Tree>()
    }

    /// Number of features.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The levels of all trees together.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// The packed nodes.
    pub fn packed(&self) -> &Arc<Buffer> {
        &self.nodes
    }

    fn nodes(&self) -> &[Node] {
        elements::<u32>(self.nodes.bytes()).as_chunks().0
    }

    fn thresholds(&self) -> &[f64] {
        elements(self.thresholds.bytes())
    }

    fn trees(&self) -> &[Tree] {
        elements::<u32>(self.trees.bytes()).as_chunks().0
    }

    /// Calls `reached` with the number of the leaf that each row of `x` reaches in each tree: row, number. A row hears
    /// of its trees in order. `x` is `[rows, width]`.
    pub fn of_rows<T: Feature>(&self, x: &[T], mut reached: impl FnMut(usize, u32)) {
        let rows = x.len() / self.width;
        let full = rows - rows % LANES;
        for &[root, depth] in self.trees() {
            for first in (0..full).step_by(LANES) {
                let starts = std::array::from_fn(|lane| (first + lane) * self.width);
                let leaves = self.walk([root; LANES], depth, x, starts);
                leaves.into_iter().enumerate().for_each(|(lane, leaf)| reached(first + lane, leaf));
            }
        }
        for row in full..rows {
            self.of_row(&x[row * self.width..][..self.width], 0, self.count(), |_, leaf| reached(row, leaf));
        }
    }

    /// Calls `reached` with the number of the leaf that the row `x` reaches in `count` trees from `first` on, in order.
    pub fn of_row<T: Feature>(&self, x: &[T], first: usize, count: usize, mut reached: impl FnMut(usize, u32)) {
        for (chunk, trees) in self.trees()[first..first + count].chunks(LANES).enumerate() {
            let depth = trees.iter().map(|&[_, depth]| depth).max().unwrap_or(0);
            let at = std::array::from_fn(|lane| trees.get(lane).unwrap_or(&trees[0])[0]);
            let leaves = self.walk(at, depth, x, [0; LANES]);
            let tree = first + chunk * LANES;
            leaves.into_iter().take(trees.len()).enumerate().for_each(|(lane, leaf)| reached(tree + lane, leaf));
        }
    }

    /// The numbers of the leaves that are reached within `depth` levels from nodes on, for rows that begin at `starts`.
    fn walk<T: Feature>(&self, at: [u32; LANES], depth: u32, x: &[T], starts: [usize; LANES]) -> [u32; LANES] {
        assert!(starts.iter().all(|start| start + self.width <= x.len()));
        assert!(size_of::<T>() == size_of::<f32>() || self.thresholds().len() == self.nodes().len());
        match self.any_missing {
            true => self.walk_as::<T, true>(at, depth, x, starts),
            false => self.walk_as::<T, false>(at, depth, x, starts),
        }
    }

    #[inline(always)]
    fn walk_as<T: Feature, const ANY_MISSING: bool>(
        &self,
        mut at: [u32; LANES],
        depth: u32,
        x: &[T],
        starts: [usize; LANES],
    ) -> [u32; LANES] {
        let (nodes, thresholds) = (self.nodes(), self.thresholds());
        let mut left = depth;
        while left > 0 {
            let before = at;
            for _ in 0..left.min(LEVELS) {
                for lane in 0..LANES {
                    // SAFETY: `pack` has checked that trees begin at nodes, and nodes lead to nodes.
                    let node = unsafe { nodes.get_unchecked(at[lane] as usize) };
                    // SAFETY: `walk` has checked that each node has a threshold.
                    let threshold = unsafe { T::threshold(node, thresholds, at[lane] as usize) };
                    let [_, feature, at_most, above] = *node;
                    let place = starts[lane] + (feature & !MISSING) as usize;
                    // SAFETY: `pack` has checked that features are below the width, and `walk` that as many begin at
                    // each start.
                    let value = *unsafe { x.get_unchecked(place) };
                    let is_at_most = value <= threshold || ANY_MISSING && is_nan(&value) & (feature & MISSING != 0);
                    at[lane] = std::hint::select_unpredictable(is_at_most, at_most, above);
                }
            }
            left -= left.min(LEVELS);
            if at == before {
                break;
            }
        }
        at.map(|at| nodes[at as usize][0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_trees_are_found() {
        let packs = |branches: &[[i32; 4]], roots: &[i32]| {
            let thresholds = vec![0.5; branches.len()];
            let given =
                Given { thresholds: Thresholds::Floats(&thresholds), branches, roots, leaves: &[7, 8], width: 2 };
            Trees::pack(&given).unwrap().map(|trees| trees.levels())
        };
        assert_eq!(packs(&[[0, 1, -1, 0], [1, -1, -2, 1]], &[0, -1]), Some(2));
        // A circle, a branch in front, places and features outside.
        assert_eq!(packs(&[[0, 0, -1, 0]], &[0]), None);
        assert_eq!(packs(&[[0, 1, -1, 0], [1, 0, -2, 1]], &[0]), None);
        assert_eq!(packs(&[[0, 1, -1, 0]], &[0]), None);
        assert_eq!(packs(&[[0, -1, -3, 0]], &[0]), None);
        assert_eq!(packs(&[[0, -1, i32::MIN, 0]], &[0]), None);
        assert_eq!(packs(&[[2, -1, -2, 0]], &[0]), None);
        assert_eq!(packs(&[[-1, -1, -2, 0]], &[0]), None);
        assert_eq!(packs(&[[0, -1, -2, 0]], &[1]), None);
        assert_eq!(packs(&[[0, -1, -2, 0]], &[-3]), None);
    }
}
