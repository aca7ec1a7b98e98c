//! Convolution with channels last as a product of patches and packed filters.

use super::super::{Env, for_each_tile};
use super::{Call, Conv2dShape};
use crate::cpu::kernels::float::Float;
use crate::cpu::product::frame::panel_widths;
use crate::cpu::product::panels::Packed;
use crate::cpu::product::patches::PatchProduct;
use crate::cpu::product::rows::{Im2col, PatchMatrix};
use crate::cpu::schedule::tiles::{Slots, Tiles};
use crate::cpu::simd::Isa;

/// The most rows of a tile: with 256 elements of depth they are half a second-level cache, and a panel of filters meets
/// all of them.
const MAX_ROWS: usize = 480;

/// The most columns of a tile: copying the patches is then a small share of the work.
const MAX_COLS: usize = 1024;

/// Work below this many multiply-adds is not worth a tile of its own: a few microseconds.
const MIN_COST: usize = 1 << 17;

/// Packed filters and how the output is cut.
pub(super) struct PatchPlan<T> {
    patches: PatchMatrix,
    /// One per group.
    pub(super) filters: Vec<Packed<T>>,
    rows: usize,
    cols: usize,
    slot: usize,
    threads: usize,
}

impl<T: Float> PatchPlan<T> {
    pub(super) fn new(
        isa: Isa,
        threads: usize,
        shape: &Conv2dShape,
        patches: PatchMatrix,
        filters: Vec<Packed<T>>,
    ) -> PatchPlan<T> {
        let depth = patches.depth();
        let [rows, cols] = cut(isa, threads, shape, depth);
        let slot = PatchProduct::<T>::scratch_len(isa, rows, cols, depth).next_multiple_of(16);
        PatchPlan { patches, filters, rows, cols, slot, threads }
    }

    pub(super) fn scratch_len(&self) -> usize {
        self.slot * self.threads
    }

    /// As [`Conv2dStep::run`](super::Conv2dStep::run).
    pub(super) fn run(&self, env: &Env, shape: &Conv2dShape, call: Call<T>, out: &mut [T], scratch: &mut [f32]) {
        let tiles = Tiles::new(out, shape.matrices(), self.rows, self.cols);
        let slots = Slots::new(scratch, self.slot, self.threads);
        let [channels, outputs] = shape.group();
        for_each_tile(env, &tiles, &slots, self.rows * self.cols * self.patches.depth(), |tile, slot| {
            let group = tile.batch;
            let patches = Im2col { image: &call.input[group * channels..], matrix: &self.patches };
            let bias = call.bias.map(|bias| &bias[group * outputs..][tile.cols.clone()]);
            let product = PatchProduct { isa: env.isa, patches, filters: &self.filters[group] };
            product.compute(tile, bias, call.tail, slot.floats);
        });
    }
}

/// Rows and columns of a tile. For several threads the longer side is cut: along the rows every tile reads all filters,
/// along the columns each copies the patches.
fn cut(isa: Isa, threads: usize, shape: &Conv2dShape, depth: usize) -> [usize; 2] {
    let (matrices, widths) = (shape.matrices(), panel_widths(isa));
    let (m, n) = (matrices.rows, matrices.cols);
    let even = |count: usize, most: usize, unit: usize| {
        count.div_ceil(count.div_ceil(most)).next_multiple_of(unit).min(count.next_multiple_of(unit))
    };
    let (mut rows, mut cols) = (even(m, MAX_ROWS, 1), even(n, MAX_COLS, widths.cols));
    while threads > 1
        && matrices.batches * m.div_ceil(rows) * n.div_ceil(cols) < 3 * threads
        && rows * cols.min(n) * depth >= 2 * MIN_COST
    {
        if cols > widths.cols && (n > m || rows <= widths.rows) {
            cols = even(cols, cols.div_ceil(2), widths.cols);
        } else if rows > widths.rows {
            rows = rows.div_ceil(2);
        } else {
            break;
        }
    }
    [rows, cols]
}
