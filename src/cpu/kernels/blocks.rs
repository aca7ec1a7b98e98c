//! Sums of overlapping blocks of images.

use crate::cpu::simd::{Kernel, Simd};
use crate::ops::extension::col2im::Col2Im;
use std::ops::Range;

/// Adds the blocks of a channel of an image.
pub struct AddBlocks<'a> {
    /// Where the elements of blocks are.
    pub op: &'a Col2Im,
    /// For each element of a block, that of all blocks.
    pub columns: &'a [f32],
    /// The channel.
    pub out: &'a mut [f32],
}

/// The numbers of blocks, of `count` at this distance, one of whose elements is inside of `size`: that of the first block
/// is at `first`.
fn inside(first: i64, stride: u32, size: u32, count: u32) -> Range<usize> {
    let blocks = |distance: i64| (distance.max(0) as u64).div_ceil(stride.into()).min(count.into()) as usize;
    let (start, end) = (blocks(-first), blocks(i64::from(size) - first));
    start.min(end)..end
}

impl Kernel for AddBlocks<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AddBlocks { op, columns, out } = self;
        out.fill(0.0);
        let (width, stride) = (op.image[1] as usize, op.strides[1] as usize);
        let [rows_of_blocks, row_of_blocks] = [op.counts[0], op.counts[1]];
        let numbers = (rows_of_blocks * row_of_blocks) as usize;
        for (at, columns) in columns.chunks_exact(numbers).enumerate() {
            let (y, x) = (at / op.block[1] as usize, at % op.block[1] as usize);
            let (top, left) = (op.place(0, 0, y), op.place(1, 0, x));
            let across = inside(left, op.strides[1], op.image[1], row_of_blocks);
            if across.is_empty() {
                continue;
            }
            let start = (left + (across.start * stride) as i64) as usize;
            for number in inside(top, op.strides[0], op.image[0], rows_of_blocks) {
                let row = op.place(0, number, y) as usize;
                let from = &columns[number * row_of_blocks as usize..][across.clone()];
                let to = &mut out[row * width + start..(row + 1) * width];
                match stride {
                    1 => to.iter_mut().zip(from).for_each(|(to, from)| *to += from),
                    _ => to.iter_mut().step_by(stride).zip(from).for_each(|(to, from)| *to += from),
                }
            }
        }
    }
}
