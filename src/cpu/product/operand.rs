//! Operands of matrix products, and their packing into panels for the micro-kernel.
//!
//! A product sums over the *depth*. Seen from there both operands are alike: a list of *lanes* (rows of the
//! left operand, columns of the right one), each with one element per depth index. A *panel* holds `width`
//! neighbouring lanes as `[depth][width]`, widened to `f32`; lanes beyond the last one are 0.

use super::panels::Packed;
use super::rows::Im2col;
use crate::cpu::kernels::float::Float;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// The most depth indices that are summed in one go. Longer depths are cut into equal blocks.
///
/// A panel of 32 columns is then 32 KiB, which fits a first-level cache of 48 KiB beside one of 12 rows; with it
/// `cargo bench --bench kernels` gave 70 to 90 % of the measured peak at 256^3 and 1024^3 on a busy Sapphire Rapids.
const MAX_DEPTH_BLOCK: usize = 256;

/// The length of the blocks that `depth` is cut into; the last one may be shorter. Depends on nothing else, so
/// that every path sums in the same order.
pub fn depth_block(depth: usize) -> usize {
    depth.div_ceil(depth.div_ceil(MAX_DEPTH_BLOCK).max(1)).max(1)
}

/// The blocks of `0..depth` in order.
pub fn depth_blocks(depth: usize) -> impl Iterator<Item = Range<usize>> {
    let step = depth_block(depth);
    (0..depth).step_by(step).map(move |start| start..(start + step).min(depth))
}

/// A matrix in memory: the element of `lane` at `depth` is `data[lane * lane_stride + depth * depth_stride]`.
#[derive(Clone, Copy)]
pub struct Strided<'a, T> {
    /// The elements, starting with lane 0 at depth 0.
    pub data: &'a [T],
    /// Distance between lanes, in elements.
    pub lane_stride: usize,
    /// Distance between depth indices, in elements.
    pub depth_stride: usize,
}

/// One operand of a product.
#[derive(Clone, Copy)]
pub enum Operand<'a, T> {
    /// Packed beforehand.
    Packed(&'a Packed<T>),
    /// A matrix with any strides.
    Strided(Strided<'a, T>),
    /// The matrix of the image patches of a convolution, never materialised.
    Im2col(Im2col<'a, T>),
}

impl<T: Float> Operand<'_, T> {
    /// Writes the panels of `width` lanes that cover `lanes`, one after the other, for the depths `depth`.
    /// `out` holds `lanes.len().div_ceil(width) * depth.len() * width` floats.
    ///
    /// # Panics
    /// For [`Packed`](Operand::Packed) operands when `lanes` does not start at a panel or `depth` is no block.
    pub fn pack(&self, isa: Isa, lanes: Range<usize>, depth: Range<usize>, width: usize, out: &mut [f32]) {
        isa.run(PackPanels { source: self, lanes, depth, width, out });
    }
}

struct PackPanels<'a, 'b, T> {
    source: &'a Operand<'b, T>,
    lanes: Range<usize>,
    depth: Range<usize>,
    width: usize,
    out: &'a mut [f32],
}

impl<T: Float> Kernel for PackPanels<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let PackPanels { source, lanes, depth, width, out } = self;
        if let Operand::Packed(packed) = source {
            return T::widen_slice(simd, packed.panels(lanes, depth), out);
        }
        let starts = lanes.clone().step_by(width);
        for (start, panel) in starts.zip(out.chunks_exact_mut(depth.len() * width)) {
            let lanes = start..(start + width).min(lanes.end);
            match source {
                Operand::Strided(strided) => strided.pack_panel(simd, lanes, depth.clone(), width, panel),
                Operand::Im2col(im2col) => im2col.pack_panel(simd, lanes, depth.clone(), width, panel),
                Operand::Packed(_) => {}
            }
        }
    }
}

impl<T: Float> Strided<'_, T> {
    #[inline(always)]
    fn pack_panel<S: Simd>(&self, simd: S, lanes: Range<usize>, depth: Range<usize>, width: usize, panel: &mut [f32]) {
        let Strided { data, lane_stride, depth_stride } = *self;
        if lanes.len() < width {
            panel.fill(0.0);
        }
        let base = lanes.start * lane_stride + depth.start * depth_stride;
        if lane_stride == 1 {
            for (k, row) in panel.chunks_exact_mut(width).enumerate() {
                copy(simd, &data[base + k * depth_stride..], &mut row[..lanes.len()]);
            }
        } else if depth_stride == 1 {
            transpose(lanes.len(), width, panel, |lane| Some(&data[base + lane * lane_stride..][..depth.len()]));
        } else {
            for (k, row) in panel.chunks_exact_mut(width).enumerate() {
                for (lane, to) in row[..lanes.len()].iter_mut().enumerate() {
                    *to = data[base + lane * lane_stride + k * depth_stride].to_f32();
                }
            }
        }
    }
}

/// Writes `out[k * width + lane] = of(lane)[k]` for the lanes below `lanes`; `None` stands for zeros. All lanes
/// are equally long.
#[inline(always)]
pub(super) fn transpose<'a, T: Float>(
    lanes: usize,
    width: usize,
    out: &mut [f32],
    of: impl Fn(usize) -> Option<&'a [T]>,
) {
    let mut lane = 0;
    while lane < lanes {
        if lane + 4 <= lanes
            && let (Some(a), Some(b), Some(c), Some(d)) = (of(lane), of(lane + 1), of(lane + 2), of(lane + 3))
        {
            transpose_four([a, b, c, d], width, &mut out[lane..]);
            lane += 4;
            continue;
        }
        match of(lane) {
            Some(from) => from.iter().enumerate().for_each(|(k, x)| out[lane + k * width] = x.to_f32()),
            None => out[lane..].iter_mut().step_by(width).for_each(|x| *x = 0.0),
        }
        lane += 1;
    }
}

/// Writes `to[i] = from[i]` over the whole of `to`, most often one or two vectors: masked operations instead of
/// a scalar rest.
#[inline(always)]
pub(super) fn copy<S: Simd, T: Float>(simd: S, from: &[T], to: &mut [f32]) {
    let from = &from[..to.len()];
    match T::as_f32(from) {
        Some(from) => {
            for (from, to) in from.chunks(S::LANES).zip(to.chunks_mut(S::LANES)) {
                simd.store_partial(simd.load_partial(from), to);
            }
        }
        None => to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f32()),
    }
}

/// Writes `to[i] = from[i * hop]` over the whole of `to`.
#[inline(always)]
pub(crate) fn gather<S: Simd, T: Float>(simd: S, from: &[T], hop: usize, to: &mut [f32]) {
    if to.is_empty() {
        return;
    }
    let from = &from[..(to.len() - 1) * hop + 1];
    match hop {
        1 => copy(simd, from, to),
        2 => {
            // Pairs of a known length become vector shuffles.
            let (pairs, last) = from.as_chunks::<2>();
            let len = pairs.len();
            to.iter_mut().zip(pairs).for_each(|(to, from)| *to = from[0].to_f32());
            if let (Some(to), Some(from)) = (to.get_mut(len), last.first()) {
                *to = from.to_f32();
            }
        }
        _ => to.iter_mut().zip(from.iter().step_by(hop)).for_each(|(to, from)| *to = from.to_f32()),
    }
}

/// Four lanes at a time, in squares of 4 by 4 that stay in registers.
#[inline(always)]
fn transpose_four<T: Float>(from: [&[T]; 4], width: usize, out: &mut [f32]) {
    let depth = from[0].len();
    let mut k = 0;
    while k + 4 <= depth {
        let square = from.map(|lane| {
            let lane = &lane[k..k + 4];
            [lane[0].to_f32(), lane[1].to_f32(), lane[2].to_f32(), lane[3].to_f32()]
        });
        let rows = &mut out[k * width..][..3 * width + 4];
        for i in 0..4 {
            rows[i * width..][..4].copy_from_slice(&[square[0][i], square[1][i], square[2][i], square[3][i]]);
        }
        k += 4;
    }
    for k in k..depth {
        out[k * width..][..4].copy_from_slice(&from.map(|lane| lane[k].to_f32()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_cut_into_equal_blocks() {
        for (depth, wanted) in [(1, 1), (256, 256), (257, 129), (512, 256), (576, 192)] {
            assert_eq!(depth_block(depth), wanted);
            assert_eq!(depth_blocks(depth).map(|block| block.len()).sum::<usize>(), depth);
        }
        assert_eq!(depth_blocks(0).count(), 0);
    }
}
