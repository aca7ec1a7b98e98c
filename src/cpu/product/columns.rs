//! Right operands of products: packed beforehand, or packed panel by panel while the product is computed.

use super::blocks::BlockPanels;
use super::matrix::{Matrix, StridedMatrix};
use super::panels::Panels;
use super::tile::Panel;
use crate::cpu::kernels::float::Floats;
use crate::cpu::simd::Isa;
use std::ops::Range;

/// Panels that so few register tiles read are not worth packing when their rows are neighbours in memory.
const UNPACKED_TILES: usize = 2;

/// A right operand.
#[derive(Clone, Copy)]
pub enum Columns<'a> {
    /// Packed beforehand.
    Panels(&'a Panels),
    /// Numbers of few bits, which become floats panel by panel.
    Blocks(&'a BlockPanels),
    /// Packed when they are needed, or read in place.
    Matrix(Matrix<'a>),
}

impl Columns<'_> {
    /// The panel of the columns `cols`, at most `width` of them, at the depths `depth`, a depth block; `tiles` register tiles
    /// read it. `room` has `width` floats for each depth.
    ///
    /// # Panics
    /// If `room` is shorter, or `cols` does not start at a panel of an operand that was packed beforehand.
    pub fn panel<'s>(
        &'s self,
        isa: Isa,
        cols: Range<usize>,
        depth: Range<usize>,
        [width, tiles]: [usize; 2],
        room: &'s mut [f32],
    ) -> Panel<'s> {
        match *self {
            Columns::Panels(panels) => {
                let next = width * depth.len();
                Panel { data: panels.extract(isa, cols.start, depth, room), step: width, next }
            }
            Columns::Blocks(panels) => {
                panels.extract(isa, cols.start, depth, room);
                Panel { data: room, step: width, next: 0 }
            }
            Columns::Matrix(Matrix::Strided(StridedMatrix {
                data: Floats::F32(data),
                lane_stride: 1,
                depth_stride,
            })) if cols.len() == width && tiles <= UNPACKED_TILES => {
                Panel { data: &data[cols.start + depth.start * depth_stride..], step: depth_stride, next: width }
            }
            Columns::Matrix(source) => {
                let room = &mut room[..width * depth.len()];
                source.pack(isa, cols, depth, width, room);
                Panel { data: room, step: width, next: 0 }
            }
        }
    }
}
