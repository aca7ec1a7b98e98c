//! Operands that are packed beforehand, as a rule constants, and packing them piece by piece.

use super::operand::{Operand, Strided, depth_block, depth_blocks};
use super::rows::{Im2col, PatchMatrix};
use super::winograd::OutputTile;
use crate::cpu::kernels::float::{Float, narrow};
use crate::cpu::simd::Isa;
use crate::cpu::weights::{Staging, Weights};
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::{Buffer, elements, elements_mut};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Where the lanes of an operand are among the elements of a constant, which start with lane 0 at depth 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Layout<'a> {
    /// As in [`Strided`].
    Strided {
        /// Distance between lanes, in elements.
        lane_stride: usize,
        /// Distance between depth indices, in elements.
        depth_stride: usize,
    },
    /// Each lane is an image with a single patch, as in [`Im2col`].
    Patches(Cow<'a, PatchMatrix>),
}

/// What [`Packed`] makes of the elements of a constant. The same form of the same elements is the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PanelForm {
    layout: Layout<'static>,
    lanes: usize,
    depth: usize,
    width: usize,
    dtype: DataType,
    /// The transform of the filters, if they are transformed.
    winograd: Option<OutputTile>,
}

impl PanelForm {
    /// The form of transformed filters; the other arguments are those of [`Packed::new`].
    pub fn winograd<T: Float>(layout: Layout, lanes: usize, depth: usize, width: usize, tile: OutputTile) -> PanelForm {
        let layout = layout.into_owned();
        PanelForm { layout, lanes, depth, width, dtype: T::DATA_TYPE, winograd: Some(tile) }
    }
}

/// A part of an operand that is packed at once, and the elements of the constant that it needs.
#[derive(Debug)]
pub struct Piece {
    /// The lanes, from a panel on.
    pub lanes: Range<usize>,
    /// The depth indices.
    pub depth: Range<usize>,
    /// The elements of the constant.
    pub elements: Range<usize>,
}

impl Layout<'_> {
    /// The operand that `data` holds.
    pub fn operand<'d, T>(&'d self, data: &'d [T]) -> Operand<'d, T> {
        match self {
            &Layout::Strided { lane_stride, depth_stride } => {
                Operand::Strided(Strided { data, lane_stride, depth_stride })
            }
            Layout::Patches(matrix) => Operand::Im2col(Im2col { image: data, matrix }),
        }
    }

    fn into_owned(self) -> Layout<'static> {
        match self {
            Layout::Strided { lane_stride, depth_stride } => Layout::Strided { lane_stride, depth_stride },
            Layout::Patches(matrix) => Layout::Patches(Cow::Owned(matrix.into_owned())),
        }
    }

    fn lane_stride(&self) -> usize {
        match self {
            Layout::Strided { lane_stride, .. } => *lane_stride,
            Layout::Patches(matrix) => matrix.image_stride,
        }
    }

    /// Number of elements from the first to the last one of the first `lanes` lanes at the first `depth` depth indices
    /// (of patches, at all).
    fn extent(&self, lanes: usize, depth: usize) -> usize {
        let within = match self {
            Layout::Strided { depth_stride, .. } => (depth - 1) * depth_stride,
            Layout::Patches(matrix) => {
                let [rows, cols] = [0, 1].map(|axis| (matrix.size[axis] - 1) * matrix.strides[axis]);
                (matrix.channels - 1) * matrix.channel_stride + rows + cols
            }
        };
        (lanes - 1) * self.lane_stride() + within + 1
    }

    /// Cuts an operand into pieces of `limit` elements, if it has more and its lanes, or all of the same depth, follow
    /// each other in memory. Others (filters whose output channels are not outermost) stay in one piece.
    pub fn pieces(&self, lanes: usize, depth: usize, width: usize, limit: usize) -> Vec<Piece> {
        if lanes == 0 || depth == 0 {
            return Vec::new();
        }
        let all = self.extent(lanes, depth);
        let lane_stride = self.lane_stride();
        if all > limit && lane_stride >= self.extent(1, depth) {
            let step = (limit / lane_stride / width * width).max(width);
            let piece = |start: usize| {
                let end = (start + step).min(lanes);
                let first = start * lane_stride;
                let elements = first..first + self.extent(end - start, depth);
                Piece { lanes: start..end, depth: 0..depth, elements }
            };
            return (0..lanes).step_by(step).map(piece).collect();
        }
        match *self {
            Layout::Strided { depth_stride, .. } if all > limit && depth_stride >= self.extent(lanes, 1) => {
                let step = (limit / depth_stride).max(1);
                let piece = |start: usize| {
                    let end = (start + step).min(depth);
                    let first = start * depth_stride;
                    let elements = first..first + self.extent(lanes, end - start);
                    Piece { lanes: 0..lanes, depth: start..end, elements }
                };
                (0..depth).step_by(step).map(piece).collect()
            }
            _ => vec![Piece { lanes: 0..lanes, depth: 0..depth, elements: 0..all }],
        }
    }
}

/// An operand that was packed beforehand. It keeps the element type, so that packed float16 weights take no more memory
/// than the raw ones. Clones share the panels, and so does everything that packs the same elements in the same way.
///
/// The panels of one depth block follow each other, and the blocks follow each other.
#[derive(Clone)]
pub struct Packed<T> {
    data: Arc<Buffer>,
    lanes: usize,
    depth: usize,
    width: usize,
    element: PhantomData<T>,
}

impl<T: Float> Packed<T> {
    /// Packs all `lanes` lanes of `depth` elements in panels of `width` lanes.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for the panels, an `OperationError` when mapped weights cannot be read.
    pub fn new(
        isa: Isa,
        weights: Weights,
        layout: Layout,
        lanes: usize,
        depth: usize,
        width: usize,
    ) -> Result<Packed<T>> {
        let form =
            PanelForm { layout: layout.clone().into_owned(), lanes, depth, width, dtype: T::DATA_TYPE, winograd: None };
        let data = weights.packed(form, || {
            let mut data = Buffer::streamed(lanes.div_ceil(width) * width * depth * size_of::<T>())?;
            let mut panels = Panels { data: elements_mut(data.bytes_mut()), lanes, depth, width };
            let mut staging = Staging::default();
            for piece in layout.pieces(lanes, depth, width, weights.piece_len::<T>()) {
                let source = layout.operand(weights.piece::<T>(isa, piece.elements, &mut staging)?);
                panels.fill(isa, &source, piece.lanes, piece.depth);
            }
            Ok(data)
        })?;
        Ok(Packed { data, lanes, depth, width, element: PhantomData })
    }

    /// The memory that is held.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.data
    }

    /// Number of lanes, and of elements in each.
    pub fn sizes(&self) -> [usize; 2] {
        [self.lanes, self.depth]
    }

    /// All elements of one lane.
    pub fn lane(&self, lane: usize) -> impl Iterator<Item = T> {
        let first = lane / self.width * self.width;
        depth_blocks(self.depth).flat_map(move |block| {
            let panel = self.panels(first..(first + 1).min(self.lanes), block);
            panel[lane - first..].iter().step_by(self.width).copied()
        })
    }

    /// Copies the elements of all lanes at one depth index to `out`, which is as long as there are lanes.
    pub fn copy_depth(&self, depth: usize, out: &mut [T]) {
        let start = depth / depth_block(self.depth) * depth_block(self.depth);
        let block = start..(start + depth_block(self.depth)).min(self.depth);
        let panels = self.panels(0..self.lanes, block.clone());
        for (out, panel) in out.chunks_mut(self.width).zip(panels.chunks_exact(self.width * block.len())) {
            out.copy_from_slice(&panel[(depth - start) * self.width..][..out.len()]);
        }
    }

    /// The panels that cover `lanes`, for one depth block.
    pub fn panels(&self, lanes: Range<usize>, depth: Range<usize>) -> &[T] {
        debug_assert!(lanes.start.is_multiple_of(self.width) && lanes.end <= self.lanes);
        debug_assert!(depth.start.is_multiple_of(depth_block(self.depth)) && depth.end <= self.depth);
        let padded = self.lanes.div_ceil(self.width) * self.width;
        let start = padded * depth.start + lanes.start * depth.len();
        &elements::<T>(self.data.bytes())[start..][..lanes.len().div_ceil(self.width) * self.width * depth.len()]
    }
}

/// Panels that are being filled.
struct Panels<'a, T> {
    data: &'a mut [T],
    lanes: usize,
    depth: usize,
    width: usize,
}

impl<T: Float> Panels<'_, T> {
    /// Fills in the lanes `lanes`, which start at a panel, at the depth indices `depth`: those of `source` from its first
    /// lane and depth index on.
    fn fill(&mut self, isa: Isa, source: &Operand<T>, lanes: Range<usize>, depth: Range<usize>) {
        let width = self.width;
        let padded = self.lanes.div_ceil(width) * width;
        let mut room = vec![0.0; depth_block(self.depth) * width];
        for block in depth_blocks(self.depth) {
            let part = block.start.max(depth.start)..block.end.min(depth.end);
            if part.is_empty() {
                continue;
            }
            let panel = &mut room[..part.len() * width];
            for start in lanes.clone().step_by(width) {
                let end = (start + width).min(lanes.end);
                let from = part.start - depth.start..part.end - depth.start;
                source.pack(isa, start - lanes.start..end - lanes.start, from, width, panel);
                let at = padded * block.start + start * block.len() + (part.start - block.start) * width;
                narrow(isa, panel, &mut self.data[at..][..panel.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Constant;
    use crate::memory::{Backing, Mapped, bytes_of};
    use half::f16;

    fn check<T: Float>() {
        for isa in Isa::available() {
            for (lanes, depth) in [(1, 1), (3, 5), (12, 4), (13, 300), (33, 9)] {
                for (lane_stride, depth_stride) in [(1, lanes + 2), (depth + 1, 1), (2, 2 * lanes)] {
                    let len = (lanes - 1) * lane_stride + (depth - 1) * depth_stride + 1;
                    let data: Vec<T> = (0..len).map(|i| T::from_f32((i % 1021) as f32 + 1.0)).collect();
                    let layout = Layout::Strided { lane_stride, depth_stride };
                    let source = layout.operand(&data);
                    for width in [4, 12, 32] {
                        let weights = Weights::of_slice(&data);
                        let packed = Packed::<T>::new(isa, weights, layout.clone(), lanes, depth, width).unwrap();
                        for block in depth_blocks(depth) {
                            let mut direct = vec![f32::NAN; lanes.div_ceil(width) * width * block.len()];
                            source.pack(isa, 0..lanes, block.clone(), width, &mut direct);
                            let mut indirect = vec![f32::NAN; direct.len()];
                            Operand::Packed(&packed).pack(isa, 0..lanes, block.clone(), width, &mut indirect);
                            assert_eq!(direct, indirect);
                            for (i, &x) in direct.iter().enumerate() {
                                let lane = i / (block.len() * width) * width + i % width;
                                let k = block.start + i / width % block.len();
                                let wanted = if lane < lanes {
                                    data[lane * lane_stride + k * depth_stride].to_f32()
                                } else {
                                    0.0
                                };
                                assert_eq!(x, wanted, "lane {lane}, depth {k}, width {width}");
                            }
                        }
                        check_rows(&packed, &data, [lane_stride, depth_stride]);
                    }
                }
            }
        }
    }

    /// Lanes and depth indices can be copied out of the panels.
    fn check_rows<T: Float>(packed: &Packed<T>, data: &[T], [lane_stride, depth_stride]: [usize; 2]) {
        let [lanes, depth] = packed.sizes();
        for lane in 0..lanes {
            let wanted = (0..depth).map(|k| data[lane * lane_stride + k * depth_stride]);
            assert!(packed.lane(lane).eq(wanted));
        }
        let mut out = vec![T::default(); lanes];
        for k in 0..depth {
            packed.copy_depth(k, &mut out);
            assert!((0..lanes).all(|lane| out[lane] == data[lane * lane_stride + k * depth_stride]));
        }
    }

    #[test]
    fn panels_hold_the_lanes_of_any_matrix() {
        check::<f32>();
        check::<f16>();
    }

    /// Packing in pieces gives what packing at once gives, from aligned and unaligned windows.
    fn check_pieces<S: Float, T: Float>(layout: &Layout, [lanes, depth, width]: [usize; 3]) {
        let isa = Isa::best();
        let elements: Vec<S> =
            (0..layout.extent(lanes, depth)).map(|i| S::from_f32((i * 37 % 2039) as f32 - 1000.0)).collect();
        let owned = Constant::from(Buffer::copy_of(bytes_of(&elements)).unwrap());
        let whole =
            Packed::<T>::new(isa, Weights::of(&owned, S::DATA_TYPE), layout.clone(), lanes, depth, width).unwrap();
        let pieces = layout.pieces(lanes, depth, width, (4 << 20) / size_of::<T>());
        assert!(pieces.len() > 1, "{layout:?} is cut");
        for offset in [0, 1, 4, 6] {
            let bytes = [&vec![255; offset], bytes_of(&elements)].concat();
            let window = Mapped::new(Backing::of_bytes(bytes), offset..offset + owned.len()).unwrap();
            let mapped = Constant::Mapped(window);
            let weights = Weights::of(&mapped, S::DATA_TYPE);
            let packed = Packed::<T>::new(isa, weights, layout.clone(), lanes, depth, width).unwrap();
            assert!(Arc::ptr_eq(packed.buffer(), whole.buffer()), "{layout:?}: the same bytes are one buffer");
        }
    }

    #[test]
    fn pieces_make_the_same_panels() {
        let rows = |depth| Layout::Strided { lane_stride: depth, depth_stride: 1 };
        let columns = |lanes| Layout::Strided { lane_stride: 1, depth_stride: lanes };
        check_pieces::<f32, f32>(&rows(1021), [1300, 1021, 32]);
        check_pieces::<f16, f16>(&rows(2100), [1100, 2100, 16]);
        check_pieces::<f16, f32>(&rows(1021), [1300, 1021, 12]);
        check_pieces::<f32, f32>(&columns(1301), [1301, 1027, 32]);
        check_pieces::<f16, f16>(&columns(2301), [2301, 1027, 6]);
        let filter = |channels_first| PatchMatrix {
            channels: 130,
            channels_first,
            size: [3, 3],
            image_stride: 130 * 9,
            channel_stride: 9,
            strides: [3, 1],
            out: [1, 1],
            step: [1, 1],
            taps: [(0..3).collect(), (0..3).collect()],
        };
        for channels_first in [false, true] {
            let layout = Layout::Patches(Cow::Owned(filter(channels_first)));
            check_pieces::<f32, f32>(&layout, [1000, 130 * 9, 12]);
        }
    }
}
