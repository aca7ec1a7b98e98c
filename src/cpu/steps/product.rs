//! How a product is cut into tiles, and the tiles given to threads.

use super::Env;
use crate::cpu::kernels::float::Float;
use crate::cpu::product::frame::{panel_widths, tile_scratch};
use crate::cpu::schedule::tiles::{Slot, Slots, Tile, Tiles};
use crate::cpu::simd::Isa;

/// Gives every tile to `work` with a slot of scratch, on all threads. `cost` is per tile, in multiply-adds.
pub(crate) fn for_each_tile<T: Send>(
    env: &Env,
    tiles: &Tiles<T>,
    slots: &Slots,
    cost: usize,
    work: impl Fn(&mut Tile<T>, &mut Slot) + Sync,
) {
    env.threads.split(tiles.count(), 1, cost, |range| {
        let mut slot = slots.take();
        for _ in range {
            if let Some(mut tile) = tiles.take() {
                work(&mut tile, &mut slot);
            }
        }
    });
}

/// Work below this many multiply-adds is not worth a tile of its own: a few microseconds.
const MIN_TILE_COST: usize = 1 << 17;

/// The most rows of a tile: two cache blocks of the left operand, so that packing the right one is spread out.
const MAX_TILE_ROWS: usize = 480;

/// The most columns of a tile. With 480 rows its sums are below 2 MiB, and packing the left operand is spread
/// over as many multiply-adds per element.
const MAX_TILE_COLS: usize = 1024;

/// How a product is cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProductPlan {
    /// Rows and columns of a tile, multiples of the panel widths.
    pub rows: usize,
    pub cols: usize,
    /// Multiply-adds of a tile.
    pub cost: usize,
    /// Scratch floats per thread.
    pub slot: usize,
}

impl ProductPlan {
    /// Cuts `batches` products `[m, k] x [k, n]` for `threads` threads. `packed` tells which operands are packed
    /// beforehand: cutting along the lanes of the other operand repeats no packing.
    pub fn new<T: Float>(
        isa: Isa,
        threads: usize,
        batches: usize,
        [m, k, n]: [usize; 3],
        packed: [bool; 2],
    ) -> ProductPlan {
        let widths = panel_widths(isa);
        let mut rows = m.min(MAX_TILE_ROWS).next_multiple_of(widths.rows);
        let mut cols = n.min(MAX_TILE_COLS).next_multiple_of(widths.cols);
        while threads > 1
            && batches * m.div_ceil(rows) * n.div_ceil(cols) < 3 * threads
            && rows.min(m) * cols.min(n) * k >= 2 * MIN_TILE_COST
        {
            let (down, across) = (rows.div_ceil(widths.rows), cols.div_ceil(widths.cols));
            let cut_cols = match packed {
                [true, false] => across > 1,
                [false, true] => down <= 1,
                _ => cols > rows,
            };
            if cut_cols && across > 1 {
                cols = across.div_ceil(2) * widths.cols;
            } else if down > 1 {
                rows = down.div_ceil(2) * widths.rows;
            } else {
                break;
            }
        }
        let (height, width) = (rows.min(m), cols.min(n));
        let slot = tile_scratch::<T>(isa, height, width, k, packed).next_multiple_of(16);
        ProductPlan { rows, cols, cost: height * width * k, slot }
    }
}
