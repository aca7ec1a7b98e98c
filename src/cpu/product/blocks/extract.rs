//! Weights as floats, for products of many rows.

use super::{BlockPanel, BlockPanels, NIBBLES, VECTORS};
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

impl BlockPanels {
    /// Converts the depths `depth`, which start at a multiple of 8, of the panel at `column` to floats `[depth][width]`.
    ///
    /// # Panics
    /// If `room` is too short.
    pub fn extract(&self, isa: Isa, column: usize, depth: Range<usize>, room: &mut [f32]) {
        assert!(depth.start.is_multiple_of(8) && room.len() >= depth.len() * self.width);
        isa.run(Extract { panel: self.panel(column), depth, room });
    }
}

struct Extract<'a> {
    panel: BlockPanel<'a>,
    depth: Range<usize>,
    room: &'a mut [f32],
}

impl Kernel for Extract<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Extract { panel, depth, room } = self;
        match panel.bits {
            4 => extract::<S, true>(simd, &panel, depth, room),
            _ => extract::<S, false>(simd, &panel, depth, room),
        }
    }
}

#[inline(always)]
fn extract<S: Simd, const NIBBLE: bool>(simd: S, panel: &BlockPanel, depth: Range<usize>, room: &mut [f32]) {
    let (per_word, width, size) = (if NIBBLE { 8 } else { 4 }, VECTORS * S::LANES, panel.blocks.size());
    assert!(depth.end <= panel.blocks.depth);
    let mut k = depth.start;
    while k < depth.end {
        let index = k / size;
        let (block, end) = (panel.block(index), depth.end.min((index + 1) * size));
        // SAFETY: the block belongs to the panel.
        let scale = unsafe { [0, 1].map(|v| panel.scales(simd, block, v)) };
        // SAFETY: as above.
        let zero = unsafe { [0, 1].map(|v| panel.zeros(simd, block, v)) };
        while k < end {
            let word = (k - index * size) / per_word;
            for v in 0..VECTORS {
                let mut numbers = [simd.splat(0.0); 8];
                // SAFETY: the block has words for all of its depths.
                unsafe {
                    let words = block.add(panel.places.words + word * panel.places.row + v * 4 * S::LANES);
                    match (NIBBLE, panel.zero, panel.table) {
                        (true, _, Some(table)) => numbers = simd.looked_up(words, table),
                        (true, Some(_), None) => numbers = simd.nibbles::<true>(words, zero[v]),
                        (true, None, None) => numbers = simd.nibbles::<false>(words, zero[v]),
                        (false, ..) => numbers[..4].copy_from_slice(&simd.bytes(words, zero[v])),
                    }
                }
                for i in 0..per_word {
                    let at = k + if NIBBLE { NIBBLES[i] } else { i };
                    if at < end {
                        let to = (at - depth.start) * width + v * S::LANES;
                        simd.store(simd.mul(numbers[i], scale[v]), &mut room[to..]);
                    }
                }
            }
            k = end.min(k + per_word);
        }
    }
}
