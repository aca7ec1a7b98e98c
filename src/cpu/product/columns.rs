//! Right operands of products: packed in advance, or packed panel by panel during the product.

use super::blocks::BlockPanels;
use super::matrix::{Matrix, StridedMatrix};
use super::panel_data::PanelData;
use super::panels::Panels;
use super::tile::{Panel, takes_half, tile_size};
use crate::cpu::kernels::float::Floats;
use crate::cpu::simd::Isa;
use std::ops::Range;

/// Panels read by at most this many register tiles are not worth packing if their rows are contiguous in memory.
const UNPACKED_TILES: usize = 2;

/// A right operand.
#[derive(Clone, Copy)]
pub enum Columns<'a> {
    /// Packed in advance.
    Panels(&'a Panels),
    /// Integers of a few bits, converted to floats panel by panel.
    Blocks(&'a BlockPanels),
    /// Packed on demand, or read in place.
    Matrix(Matrix<'a>),
}

impl Columns<'_> {
    /// The panel of the columns `cols`, at most one register tile, over the depth block `depth`, for a tile of `rows`
    /// rows. `next` is the first column and depth of the panel needed after it. `room` holds one register tile of
    /// columns per depth.
    ///
    /// # Panics
    /// If `room` is too short, or `cols` does not start at a panel of an operand that was packed in advance.
    pub fn panel<'s>(
        &'s self,
        isa: Isa,
        [cols, depth]: [Range<usize>; 2],
        next: [usize; 2],
        rows: usize,
        room: &'s mut [f32],
    ) -> Panel<'s> {
        let tile = tile_size(isa);
        let width = tile.cols;
        let in_place = |data, step, place: &dyn Fn([usize; 2]) -> usize| {
            let here = place([cols.start, depth.start]);
            Panel { data, step, next: place(next).wrapping_sub(here) as isize }
        };
        match *self {
            Columns::Panels(panels) => match panels.block(cols.clone(), depth.clone()) {
                data if data.as_f32().is_none() && !takes_half(rows) => {
                    let room = &mut room[..data.len()];
                    data.widen(isa, 0, room);
                    Panel { data: PanelData::F32(room), step: width, next: 0 }
                }
                data => in_place(data, width, &|at| panels.place(at)),
            },
            Columns::Blocks(panels) => {
                panels.extract(isa, cols.start, depth, room);
                Panel { data: PanelData::F32(room), step: width, next: 0 }
            }
            Columns::Matrix(Matrix::Strided(StridedMatrix {
                data: Floats::F32(data),
                lane_stride: 1,
                depth_stride,
            })) if cols.len() == width && rows.div_ceil(tile.rows) <= UNPACKED_TILES => {
                let place = |[lane, depth]: [usize; 2]| lane + depth * depth_stride;
                in_place(PanelData::F32(&data[place([cols.start, depth.start])..]), depth_stride, &place)
            }
            Columns::Matrix(source) => {
                let room = &mut room[..width * depth.len()];
                source.pack(isa, cols, depth, width, room);
                Panel { data: PanelData::F32(room), step: width, next: 0 }
            }
        }
    }
}
