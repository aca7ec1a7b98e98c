//! Storage of a right operand: panels as wide as the register tile.
//!
//! A product sums over the *depth*. The *lanes* of a right operand are its columns, each with one element per depth. A
//! panel holds `width` neighboring lanes as `[depth][width]`; lanes beyond the last one are 0. The panels of a depth
//! block are consecutive, and so are the blocks.

use super::matrix::{Matrix, PatchMatrix, Patches, StridedMatrix};
use super::panel_data::{PanelData, PanelElement, Unpacked};
use crate::cpu::kernels::float::Floats;
use crate::cpu::simd::{Bfloat16, Isa};
use crate::cpu::weights::{Staging, Weights};
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::{Buffer, elements, elements_mut};
use half::f16;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Maximum depth of a block. Larger depths are cut into equal blocks.
///
/// A block of 32 columns takes 32 KiB, which fits a first-level cache of 48 KiB together with a panel of 12 rows.
/// `npm run bench -- kernels` reached 70 to 90 % of the measured peak at 256^3 and 1024^3 on a busy Sapphire Rapids.
const MAX_DEPTH_BLOCK: usize = 256;

/// Multiply-adds that take as long as packing one element from memory.
const COPY_COST: usize = 16;

/// The length of the depth blocks, a multiple of 8 if there are several; the last one may be shorter. Depends only on
/// `depth`: every path sums in the same order.
pub fn depth_block(depth: usize) -> usize {
    match depth {
        0..=MAX_DEPTH_BLOCK => depth.max(1),
        _ => depth.div_ceil(depth.div_ceil(MAX_DEPTH_BLOCK)).next_multiple_of(8),
    }
}

/// The blocks of `0..depth` in order.
pub fn depth_blocks(depth: usize) -> impl Iterator<Item = Range<usize>> {
    let step = depth_block(depth);
    (0..depth).step_by(step).map(move |start| start..(start + step).min(depth))
}

/// Where an operand's lanes are among the elements of a constant, counted from lane 0 at depth 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Layout<'a> {
    /// As in [`StridedMatrix`].
    Strided {
        /// Distance between lanes, in elements.
        lane_stride: usize,
        /// Distance between depth indices, in elements.
        depth_stride: usize,
    },
    /// As in [`Patches`].
    Patches(Cow<'a, PatchMatrix>),
}

/// A part of an operand to pack in one go, and the constant's elements that it needs.
#[derive(Debug)]
pub struct Piece {
    /// The lanes, starting at a panel.
    pub lanes: Range<usize>,
    /// The depth indices.
    pub depth: Range<usize>,
    /// The elements of the constant.
    pub elements: Range<usize>,
}

impl Layout<'_> {
    /// The operand in `data`.
    fn source<'d>(&'d self, data: &'d [f32]) -> Matrix<'d> {
        match self {
            &Layout::Strided { lane_stride, depth_stride } => {
                Matrix::Strided(StridedMatrix { data: Floats::F32(data), lane_stride, depth_stride })
            }
            Layout::Patches(matrix) => Matrix::Patches(Patches { image: data, matrix }),
        }
    }

    /// Distance between lanes, in elements; 0 if an image has several patches.
    fn lane_stride(&self) -> usize {
        match self {
            Layout::Strided { lane_stride, .. } => *lane_stride,
            Layout::Patches(matrix) if matrix.out == [1, 1] => matrix.image_stride,
            Layout::Patches(_) => 0,
        }
    }

    /// Number of elements from the first to the last of the first `lanes` lanes and `depth` depth indices; for patches,
    /// of the whole image.
    fn extent(&self, lanes: usize, depth: usize) -> usize {
        match self {
            Layout::Strided { lane_stride, depth_stride } => (lanes - 1) * lane_stride + (depth - 1) * depth_stride + 1,
            Layout::Patches(matrix) => {
                let images = lanes.div_ceil(matrix.out[0] * matrix.out[1]);
                let [rows, cols] = [0, 1].map(|axis| (matrix.size[axis] - 1) * matrix.strides[axis]);
                (images - 1) * matrix.image_stride + (matrix.channels - 1) * matrix.channel_stride + rows + cols + 1
            }
        }
    }

    /// Cuts an operand that has more than `limit` elements into pieces of that size, if its lanes are consecutive in
    /// memory, or all elements of each depth. Others (filters whose output channels are not outermost) stay in one
    /// piece.
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

/// The type of the elements of [`Panels`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum PanelType {
    F32,
    F16,
    Bf16,
}

impl PanelType {
    /// The type for elements of a constant.
    fn of(weights: &Weights) -> PanelType {
        match weights.dtype() {
            DataType::Float16 => PanelType::F16,
            _ if weights.are_bfloat16() => PanelType::Bf16,
            _ => PanelType::F32,
        }
    }

    fn size(self) -> usize {
        if self == PanelType::F32 { size_of::<f32>() } else { size_of::<f16>() }
    }
}

/// An operand packed in advance, in the element type of the constant: weights of 16 bits take no more memory than the raw
/// ones. Clones share the memory, as do all operands that pack the same elements the same way.
#[derive(Clone)]
pub struct Panels {
    data: Arc<Buffer>,
    of: PanelType,
    lanes: usize,
    depth: usize,
    width: usize,
}

impl Panels {
    /// Packs all `lanes` lanes of `depth` elements in panels of `width` lanes.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the panels, an `OperationError` if mapped weights cannot be
    /// read.
    pub fn new(isa: Isa, weights: Weights, layout: Layout, lanes: usize, depth: usize, width: usize) -> Result<Panels> {
        let of = PanelType::of(&weights);
        let len = lanes.div_ceil(width) * width * depth * of.size();
        let data = weights.packed(&("panels", &layout, lanes, depth, width), &[], len, |bytes| {
            let mut staging = Staging::default();
            for piece in layout.pieces(lanes, depth, width, weights.piece_len()) {
                let source = layout.source(weights.piece(piece.elements, &mut staging)?);
                let filling =
                    Filling { source: &source, piece: [&piece.lanes, &piece.depth], sizes: [lanes, depth, width] };
                match of {
                    PanelType::F32 => filling.fill(isa, &weights, elements_mut::<f32>(bytes)),
                    PanelType::F16 => filling.fill(isa, &weights, elements_mut::<f16>(bytes)),
                    PanelType::Bf16 => filling.fill::<Bfloat16>(isa, &weights, bytes.as_chunks_mut().0),
                }
            }
            Ok(())
        })?;
        Ok(Panels { data, of, lanes, depth, width })
    }

    /// The buffer of the panels.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.data
    }

    /// The data type of the constant.
    pub fn dtype(&self) -> DataType {
        if self.of == PanelType::F16 { DataType::Float16 } else { DataType::Float32 }
    }

    /// Number of lanes, and of elements per lane.
    pub fn sizes(&self) -> [usize; 2] {
        [self.lanes, self.depth]
    }

    /// Whether elements have 16 bits, and are copied to be multiplied.
    pub fn is_half(&self) -> bool {
        self.of != PanelType::F32
    }

    /// The panels that cover `lanes`, which start at a panel, for one depth block.
    pub fn block(&self, lanes: Range<usize>, depth: Range<usize>) -> PanelData<'_> {
        debug_assert!(lanes.start.is_multiple_of(self.width) && lanes.end <= self.lanes);
        debug_assert!(depth.start.is_multiple_of(depth_block(self.depth)) && depth.end <= self.depth);
        let start = self.place([lanes.start, depth.start]);
        let range = start..start + lanes.len().div_ceil(self.width) * self.width * depth.len();
        let bytes = self.data.bytes();
        match self.of {
            PanelType::F32 => PanelData::F32(&elements(bytes)[range]),
            PanelType::F16 => PanelData::F16(&elements(bytes)[range]),
            PanelType::Bf16 => PanelData::Bf16(&bytes.as_chunks().0[range]),
        }
    }

    /// The offset in elements of the depth block at `depth` in the panel at `lane`.
    pub fn place(&self, [lane, depth]: [usize; 2]) -> usize {
        let padded = self.lanes.div_ceil(self.width) * self.width;
        padded * depth + lane * depth_block(self.depth).min(self.depth - depth)
    }

    /// Copies all elements of one lane.
    ///
    /// # Panics
    /// If they are of another [`dtype`](Self::dtype).
    pub fn copy_lane<T: Unpacked>(&self, lane: usize, out: &mut [T]) {
        let first = lane / self.width * self.width;
        for block in depth_blocks(self.depth) {
            let from = self.block(first..(first + 1).min(self.lanes), block.clone());
            T::unpack(from, [lane - first, self.width], &mut out[block]);
        }
    }

    /// Copies the elements of all lanes at one depth index to `out`, with one element per lane.
    ///
    /// # Panics
    /// If they are of another [`dtype`](Self::dtype).
    pub fn copy_depth<T: Unpacked>(&self, depth: usize, out: &mut [T]) {
        let start = depth / depth_block(self.depth) * depth_block(self.depth);
        let block = start..(start + depth_block(self.depth)).min(self.depth);
        for (index, out) in out.chunks_mut(self.width).enumerate() {
            let (lane, at) = (index * self.width, (depth - start) * self.width);
            T::unpack(self.block(lane..lane + 1, block.clone()), [at, 1], out);
        }
    }
}

/// A piece of an operand, to be written to its panels.
struct Filling<'a> {
    /// The elements, starting at the first lane and depth index of the piece.
    source: &'a Matrix<'a>,
    /// Lanes, which start at a panel, and depth indices.
    piece: [&'a Range<usize>; 2],
    /// Lanes, depth and width of all panels.
    sizes: [usize; 3],
}

impl Filling<'_> {
    fn fill<T: PanelElement>(&self, isa: Isa, weights: &Weights, data: &mut [T]) {
        let Filling { source, piece: [lanes, depth], sizes: [all, full_depth, width] } = *self;
        let padded = all.div_ceil(width) * width;
        for block in depth_blocks(full_depth) {
            let part = block.start.max(depth.start)..block.end.min(depth.end);
            if part.is_empty() {
                continue;
            }
            let len = width * block.len();
            let panels =
                &mut data[padded * block.start + lanes.start * block.len()..][..lanes.len().div_ceil(width) * len];
            let within = (part.start - block.start) * width..(part.end - block.start) * width;
            let from = part.start - depth.start..part.end - depth.start;
            weights.fill(panels, len, COPY_COST, |first, panels| {
                let mut room = Vec::new();
                for (index, panel) in panels.chunks_exact_mut(len).enumerate() {
                    let start = (first + index) * width;
                    let lanes = start..(start + width).min(lanes.len());
                    let panel = &mut panel[within.clone()];
                    T::fill(isa, panel, &mut room, |panel| source.pack(isa, lanes, from.clone(), width, panel));
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::schedule::pool::Threads;
    use crate::dtype::Element;
    use crate::dtype::Number;
    use crate::ir::Constant;
    use crate::memory::{Backing, Mapped, bytes_of};

    /// A number of any type.
    fn stored<T: Element>(x: f32) -> T {
        T::from_number(Number::Float(x as f64))
    }

    fn check<T: Element + Unpacked>() {
        for isa in Isa::available() {
            for (lanes, depth) in [(1, 1), (3, 5), (12, 4), (13, 300), (33, 9)] {
                for (lane_stride, depth_stride) in [(1, lanes + 2), (depth + 1, 1), (2, 2 * lanes)] {
                    let len = (lanes - 1) * lane_stride + (depth - 1) * depth_stride + 1;
                    let wide: Vec<f32> = (0..len).map(|i| (i % 1021) as f32 + 1.0).collect();
                    let data: Vec<T> = wide.iter().map(|&x| stored(x)).collect();
                    let layout = Layout::Strided { lane_stride, depth_stride };
                    let source = layout.source(&wide);
                    for width in [4, 12, 32] {
                        let weights = Weights::of_slice(&data);
                        let packed = Panels::new(isa, weights, layout.clone(), lanes, depth, width).unwrap();
                        for block in depth_blocks(depth) {
                            let mut direct = vec![f32::NAN; lanes.div_ceil(width) * width * block.len()];
                            let starts = (0..lanes).step_by(width);
                            for (start, panel) in starts.zip(direct.chunks_exact_mut(width * block.len())) {
                                let end = (start + width).min(lanes);
                                source.pack(isa, start..end, block.clone(), width, panel);
                                let mut wide = vec![f32::NAN; panel.len()];
                                packed.block(start..end, block.clone()).widen(isa, 0, &mut wide);
                                assert_eq!(wide, panel);
                            }
                            for (i, &x) in direct.iter().enumerate() {
                                let lane = i / (block.len() * width) * width + i % width;
                                let k = block.start + i / width % block.len();
                                let wanted =
                                    if lane < lanes { wide[lane * lane_stride + k * depth_stride] } else { 0.0 };
                                assert_eq!(x, wanted, "lane {lane}, depth {k}, width {width}");
                            }
                        }
                        check_rows(&packed, &data, [lane_stride, depth_stride]);
                    }
                }
            }
        }
    }

    /// Checks that lanes and depth indices can be copied out of the panels.
    fn check_rows<T: Element + Unpacked>(packed: &Panels, data: &[T], [lane_stride, depth_stride]: [usize; 2]) {
        let [lanes, depth] = packed.sizes();
        for lane in 0..lanes {
            let mut out = vec![T::default(); depth];
            packed.copy_lane(lane, &mut out);
            assert!((0..depth).all(|k| out[k] == data[lane * lane_stride + k * depth_stride]));
        }
        let mut out = vec![T::default(); lanes];
        for k in 0..depth {
            packed.copy_depth(k, &mut out);
            assert!((0..lanes).all(|lane| out[lane] == data[lane * lane_stride + k * depth_stride]));
        }
    }

    #[test]
    fn depth_is_cut_into_equal_blocks() {
        for (depth, wanted) in [(1, 1), (256, 256), (257, 136), (512, 256), (576, 192)] {
            assert_eq!(depth_block(depth), wanted);
            assert_eq!(depth_blocks(depth).map(|block| block.len()).sum::<usize>(), depth);
        }
        assert_eq!(depth_blocks(0).count(), 0);
    }

    #[test]
    fn panels_hold_the_lanes_of_any_matrix() {
        check::<f32>();
        check::<f16>();
    }

    /// Checks that packing in pieces, by any number of threads, from aligned and unaligned windows, equals packing at once.
    fn check_pieces<T: Element>(layout: &Layout, [lanes, depth, width]: [usize; 3]) {
        let isa = Isa::best();
        let elements: Vec<T> =
            (0..layout.extent(lanes, depth)).map(|i| stored((i * 37 % 2039) as f32 - 1000.0)).collect();
        let owned = Constant::from(Buffer::copy_of(bytes_of(&elements)).unwrap());
        let whole =
            Panels::new(isa, Weights::of(&owned, T::DATA_TYPE, None), layout.clone(), lanes, depth, width).unwrap();
        let pieces = layout.pieces(lanes, depth, width, (4 << 20) / size_of::<T>());
        assert!(pieces.len() > 1, "{layout:?} is not cut");
        for offset in [0, 1, 4, 6] {
            let bytes = [&vec![255; offset], bytes_of(&elements)].concat();
            let window = Mapped::new(Backing::of_bytes(bytes), offset..offset + owned.len()).unwrap();
            let mapped = Constant::Mapped(window);
            let threads = Threads::new(1 + offset).unwrap();
            let weights = Weights::of(&mapped, T::DATA_TYPE, Some(&threads));
            let packed = Panels::new(isa, weights, layout.clone(), lanes, depth, width).unwrap();
            assert!(Arc::ptr_eq(packed.buffer(), whole.buffer()), "{layout:?}: the same bytes share one buffer");
        }
    }

    #[test]
    fn pieces_make_the_same_panels() {
        let rows = |depth| Layout::Strided { lane_stride: depth, depth_stride: 1 };
        let columns = |lanes| Layout::Strided { lane_stride: 1, depth_stride: lanes };
        check_pieces::<f32>(&rows(1021), [1300, 1021, 32]);
        check_pieces::<f16>(&rows(2100), [1100, 2100, 16]);
        check_pieces::<f32>(&columns(1301), [1301, 1027, 32]);
        check_pieces::<f16>(&columns(2301), [2301, 1027, 6]);
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
            check_pieces::<f32>(&layout, [1000, 130 * 9, 12]);
        }
    }
}
