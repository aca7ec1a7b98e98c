//! Steps of a plan: numbers fixed at build time, run over slices with threads. Running a step allocates nothing.

pub mod conv2d;
pub mod conv_transpose2d;
pub mod matmul;

use crate::cpu::kernels::float::Float;
use crate::cpu::kernels::gemm::{panel_widths, tile_scratch};
use crate::cpu::kernels::tiles::{Slot, Slots, Tile, Tiles};
use crate::cpu::threads::Threads;
use crate::simd::Isa;

/// What a step runs with.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The threads.
    pub threads: &'a Threads,
    /// The instruction set. Packed operands are only good for the one that they were packed for.
    pub isa: Isa,
}

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

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Numbers in -1..1 with a fixed seed.
    pub fn random<T: Float>(len: usize, seed: u64) -> Vec<T> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..len)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                T::from_f32((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0)
            })
            .collect()
    }

    /// Compares with exact sums and the sums of magnitudes. A sum of `terms` products in any order is off by at
    /// most `terms` roundings of the sum of magnitudes; half floats are rounded once more.
    pub fn assert_sums<T: Float>(got: &[T], exact: &[(f64, f64)], terms: usize, case: impl Fn() -> String) {
        assert_eq!(got.len(), exact.len(), "{}", case());
        let store = if T::IS_F32 { 0.0 } else { 2f64.powi(-11) };
        for (i, (x, &(sum, magnitude))) in got.iter().zip(exact).enumerate() {
            let x = x.to_f32() as f64;
            let bound = magnitude * (terms as f64 + 2.0) * 2f64.powi(-24)
                + sum.abs() * store
                + 1e-7 * (store != 0.0) as u8 as f64;
            assert!((x - sum).abs() <= bound, "{}: element {i} is {x}, expected {sum} within {bound:e}", case());
        }
    }

    /// The bits of all elements.
    pub fn bits<T: Float>(xs: &[T]) -> Vec<u32> {
        xs.iter().map(|x| x.to_f32().to_bits()).collect()
    }

    /// Runs `run` on every level with 1, 2 and 7 threads; the bits must not depend on the number of threads.
    pub fn on_all<T: Float>(run: impl Fn(&Env) -> Vec<T>, check: impl Fn(&Env, &[T])) {
        for isa in Isa::available() {
            let mut first = None;
            for count in [1, 2, 7] {
                let threads = Threads::new(count).unwrap();
                let env = Env { threads: &threads, isa };
                let out = run(&env);
                check(&env, &out);
                let bits = bits(&out);
                assert!(*first.get_or_insert_with(|| bits.clone()) == bits, "{count} threads on {isa:?} differ");
            }
        }
    }
}
