//! Convolution with 3 by 3 filters at step 1 by Winograd's algorithm (Lavin and Gray, "Fast Algorithms for
//! Convolutional Neural Networks", 2015), channels last. Transforms input tiles and filters, multiplies them position
//! by position as matrices over the channels, and transforms the products to output tiles. F(2x2, 3x3) takes 16
//! multiplications for 4 outputs instead of 36, F(4x4, 3x3) 36 for 16 instead of 144.
//!
//! # Errors
//! Errors, with `u = 2^-24` and `m` the largest `sum |x| |w|` among the outputs of a tile: `|out - exact|` is below
//! `3.5 u m` for F(2x2, 3x3) and below `16 u m` for F(4x4, 3x3), there usually `5 u m`, measured with random operands
//! of 32 and more channels; the rounding of the result comes on top. Direct sums of as many terms reach `4.4 u m`.
//! Tests assert these bounds.
//!
//! # Special values
//! An output depends on all inputs of its tile: an infinite or NaN input makes outputs up to three pixels away NaN,
//! where the definition has other values. An infinite or NaN weight makes all outputs of its channel NaN.

use super::finish::Tail;
use super::panel_data::PanelData;
use super::panels::depth_block;
use super::tile::{Left, Multiply, Panel, multiply, tile_size};
use crate::cpu::schedule::tiles::Tile;
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::cpu::weights::Weights;
use std::ops::Range;

/// The outputs of one tile of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputTile {
    /// F(2x2, 3x3).
    Two,
    /// F(4x4, 3x3).
    Four,
}

impl OutputTile {
    /// Rows and columns of an output tile.
    pub const fn size(self) -> usize {
        match self {
            OutputTile::Two => 2,
            OutputTile::Four => 4,
        }
    }

    /// Rows and columns of an input tile and of a transformed filter.
    pub const fn side(self) -> usize {
        self.size() + 2
    }

    /// Products per tile, input channel and output channel.
    pub const fn positions(self) -> usize {
        self.side() * self.side()
    }
}

/// F(4x4, 3x3) interpolates at 0, at these points and their negatives, and at infinity. With 3/4 and 3/2, errors are a
/// quarter of those with the usual 1 and 2, and `f32` represents all factors of the input and output transforms
/// exactly.
const POINTS: [f32; 2] = [0.75, 1.5];

/// `x - y`.
#[inline(always)]
fn sub<S: Simd>(simd: S, x: S::F32, y: S::F32) -> S::F32 {
    simd.mul_add(y, simd.splat(-1.0), x)
}

/// Transforms input along one dimension.
#[inline(always)]
fn input_transform<S: Simd, const SIDE: usize>(simd: S, d: [S::F32; SIDE]) -> [S::F32; SIDE] {
    let times = |factor: f32, x, y| simd.mul_add(simd.splat(factor), x, y);
    let mut out = d;
    if SIDE == 4 {
        out[0] = sub(simd, d[0], d[2]);
        out[1] = simd.add(d[1], d[2]);
        out[2] = sub(simd, d[2], d[1]);
        out[3] = sub(simd, d[1], d[3]);
    } else {
        let ([a, b], [aa, bb]) = (POINTS, POINTS.map(|point| point * point));
        let (even_a, odd_a) = (times(-bb, d[2], d[4]), times(-bb, d[1], d[3]));
        let (even_b, odd_b) = (times(-aa, d[2], d[4]), times(-aa, d[1], d[3]));
        out[0] = times(aa * bb, d[0], times(-aa - bb, d[2], d[4]));
        out[1] = times(a, odd_a, even_a);
        out[2] = times(-a, odd_a, even_a);
        out[3] = times(b, odd_b, even_b);
        out[4] = times(-b, odd_b, even_b);
        out[5] = times(aa * bb, d[1], times(-aa - bb, d[3], d[SIDE - 1]));
    }
    out
}

/// Transforms products along one dimension.
#[inline(always)]
fn output_transform<S: Simd, const SIDE: usize, const SIZE: usize>(simd: S, m: [S::F32; SIDE]) -> [S::F32; SIZE] {
    let times = |factor: f32, x, y| simd.mul_add(simd.splat(factor), x, y);
    let (sum, difference) = (simd.add(m[1], m[2]), sub(simd, m[1], m[2]));
    let mut out = [simd.splat(0.0); SIZE];
    if SIDE == 4 {
        out[0] = simd.add(m[0], sum);
        out[1] = sub(simd, difference, m[3]);
    } else {
        let (sum_b, difference_b) = (simd.add(m[3], m[4]), sub(simd, m[3], m[4]));
        let [a, b] = POINTS;
        let scaled = |factor: f32, x| simd.mul(simd.splat(factor), x);
        out[0] = simd.add(simd.add(m[0], sum), sum_b);
        out[1] = times(a, difference, scaled(b, difference_b));
        out[2] = times(a * a, sum, scaled(b * b, sum_b));
        out[SIZE - 1] = times(a * a * a, difference, times(b * b * b, difference_b, m[SIDE - 1]));
    }
    out
}

/// The rows of the filter transform.
fn filter_rows(tile: OutputTile) -> [[f64; 3]; 6] {
    match tile {
        OutputTile::Two => [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0], [0.0; 3], [0.0; 3]],
        OutputTile::Four => {
            let ([a, b], [aa, bb]) = (POINTS.map(f64::from), POINTS.map(|point| f64::from(point * point)));
            let row = |point: f64, divisor: f64| [1.0, point, point * point].map(|power| power / divisor);
            let (at_a, at_b) = (2.0 * aa * (aa - bb), 2.0 * bb * (bb - aa));
            [row(0.0, aa * bb), row(a, at_a), row(-a, at_a), row(b, at_b), row(-b, at_b), [0.0, 0.0, 1.0]]
        }
    }
}

/// Transformed filters: `[panel of output channels][position][input channel][output channel of the panel]`, with zeros
/// beyond the last output channel. Everything is read sequentially.
#[derive(Clone, Copy)]
pub struct Filters {
    /// The instruction set that determines the panels.
    pub isa: Isa,
    /// The output tile.
    pub tile: OutputTile,
    /// Input and output channels.
    pub channels: [usize; 2],
}

impl Filters {
    /// Number of floats.
    pub fn floats(self) -> usize {
        let ([inputs, outputs], width) = (self.channels, tile_size(self.isa).cols);
        outputs.div_ceil(width) * width * inputs * self.tile.positions()
    }

    /// Transforms the filters of the output channels `outputs`, which start at a panel. `strides` are the distances in
    /// `filter` between output channels, input channels, rows and columns.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn fill(self, weights: &Weights, outputs: Range<usize>, filter: &[f32], strides: [usize; 4], out: &mut [f32]) {
        let width = tile_size(self.isa).cols;
        let panel = self.tile.positions() * self.channels[0] * width;
        let panels = &mut out[outputs.start / width * panel..][..outputs.len().div_ceil(width) * panel];
        weights.fill(panels, panel, FILL_COST, |first, panels| {
            for (index, out) in panels.chunks_exact_mut(panel).enumerate() {
                let start = (first + index) * width;
                let lanes = width.min(outputs.len() - start);
                let filter = &filter[start * strides[0]..];
                self.isa.run(FillPanel { filters: self, filter, strides, lanes, width, out });
            }
        });
    }
}

/// Multiply-adds that take as long as computing one element of a transformed filter.
const FILL_COST: usize = 64;

struct FillPanel<'a> {
    filters: Filters,
    filter: &'a [f32],
    strides: [usize; 4],
    lanes: usize,
    width: usize,
    out: &'a mut [f32],
}

/// Filters transformed side by side.
const FILTER_LANES: usize = 8;

impl Kernel for FillPanel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let FillPanel { filters: Filters { tile, channels: [inputs, _], .. }, filter, strides, lanes, width, out } =
            self;
        let (rows, side) = (filter_rows(tile), tile.side());
        for input in 0..inputs {
            for first in (0..lanes).step_by(FILTER_LANES) {
                let count = FILTER_LANES.min(lanes - first);
                let mut taps = [[0.0f64; FILTER_LANES]; 9];
                for (tap, values) in taps.iter_mut().enumerate() {
                    let at = input * strides[1] + tap / 3 * strides[2] + tap % 3 * strides[3];
                    for (lane, value) in values[..count].iter_mut().enumerate() {
                        *value = filter[(first + lane) * strides[0] + at] as f64;
                    }
                }
                // The columns first: three rows of `side` each.
                let mut half = [[0.0f64; FILTER_LANES]; 18];
                for (i, half) in half[..3 * side].iter_mut().enumerate() {
                    let (row, g) = (i / side, rows[i % side]);
                    for (lane, half) in half.iter_mut().enumerate() {
                        *half = (0..3).map(|k| g[k] * taps[row * 3 + k][lane]).sum();
                    }
                }
                for position in 0..side * side {
                    let (g, column) = (rows[position / side], position % side);
                    let out = &mut out[(position * inputs + input) * width + first..][..count];
                    for (lane, out) in out.iter_mut().enumerate() {
                        *out = (0..3).map(|k| g[k] * half[k * side + column][lane]).sum::<f64>() as f32;
                    }
                }
            }
        }
    }
}

/// A convolution with transformed filters.
#[derive(Clone, Copy)]
pub struct Winograd<'a> {
    /// The filters.
    pub filters: Filters,
    /// The floats of the filters.
    pub weights: &'a [f32],
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Rows of zeros above and columns of zeros left of the input.
    pub padding: [usize; 2],
    /// Columns of the output.
    pub wide: usize,
    /// Maximum output columns computed at once: whole tiles of the algorithm.
    pub cols: usize,
}

/// The parts of the scratch memory, in floats.
struct Parts {
    inputs: usize,
    products: usize,
    bias: usize,
}

impl Winograd<'_> {
    fn parts(filters: Filters, [rows, cols]: [usize; 2]) -> Parts {
        let (lanes, width, size) = (filters.isa.lanes(), tile_size(filters.isa).cols, filters.tile.size());
        let tiles = rows.div_ceil(size) * cols.div_ceil(size);
        let positions = filters.tile.positions();
        let [inputs, outputs] = filters.channels;
        Parts {
            inputs: positions * tiles * row_stride(inputs, lanes),
            products: positions * position_stride(tiles * width, lanes),
            bias: outputs.next_multiple_of(width),
        }
    }

    /// Scratch length in floats that [`compute`](Self::compute) needs. `pixels` are the output rows and the columns at
    /// once.
    pub fn scratch_len(filters: Filters, pixels: [usize; 2]) -> usize {
        let Parts { inputs, products, bias } = Self::parts(filters, pixels);
        inputs + products + bias
    }

    /// Computes a tile of the output of one image. Its rows are the pixels of whole image rows, starting at a whole
    /// tile of the algorithm; its columns are channels, starting at a panel. `image` is `[row][column][channel]`.
    ///
    /// # Panics
    /// If the scratch memory is shorter than [`scratch_len`](Self::scratch_len), or the image or the weights are
    /// shorter than their sizes.
    pub fn compute(&self, image: &[f32], bias: Option<&[f32]>, tail: Tail, tile: &mut Tile<f32>, scratch: &mut [f32]) {
        let (isa, outputs) = (self.filters.isa, self.filters.channels[1]);
        let (rows, channels) = (tile.rows.start / self.wide..tile.rows.end / self.wide, tile.cols.clone());
        let parts = Self::parts(self.filters, [rows.len(), self.cols]);
        let (inputs, scratch) = scratch.split_at_mut(parts.inputs);
        let (products, scratch) = scratch.split_at_mut(parts.products);
        let padded_bias = &mut scratch[..parts.bias];
        padded_bias.fill(0.0);
        if let Some(bias) = bias {
            padded_bias[..outputs].copy_from_slice(&bias[..outputs]);
        }
        let (out, pixel) = tile.as_mut_ptr();
        for first in (0..self.wide).step_by(self.cols) {
            let cols = first..(first + self.cols).min(self.wide);
            let block = Block { conv: self, rows: rows.clone(), cols, channels: channels.clone(), image };
            // SAFETY: the tile owns its channels of all pixels of its rows.
            unsafe { block.sums(inputs, products, padded_bias, out, pixel) };
        }
        for (offset, run) in tile.runs() {
            tail.apply(isa, offset, run);
        }
    }
}

/// Distance between positions in floats: the floats of one plus a vector, to keep the positions of a tile from sharing
/// page offsets.
fn position_stride(floats: usize, lanes: usize) -> usize {
    floats + lanes
}

/// Distance in floats between tiles of the input at the same position: the channels plus a vector, to keep rows from
/// sharing page offsets.
fn row_stride(channels: usize, lanes: usize) -> usize {
    channels.next_multiple_of(lanes) + lanes
}

/// Some channels of some pixels of the output, starting at whole tiles of the algorithm and at a panel.
struct Block<'a> {
    conv: &'a Winograd<'a>,
    rows: Range<usize>,
    cols: Range<usize>,
    channels: Range<usize>,
    image: &'a [f32],
}

impl Block<'_> {
    /// Writes the convolution with bias to `out`, which starts with column 0 of the first row and the first channel;
    /// pixels are `pixel` floats apart.
    ///
    /// # Safety
    /// `out` is writable for the channels of all columns, in each of the rows.
    unsafe fn sums(&self, inputs: &mut [f32], products: &mut [f32], bias: &[f32], out: *mut f32, pixel: usize) {
        let Winograd { filters: Filters { isa, tile, channels: [from, _] }, weights, wide, .. } = *self.conv;
        let (width, lanes, size) = (tile_size(isa).cols, isa.lanes(), tile.size());
        let grid = [self.rows.len().div_ceil(size), self.cols.len().div_ceil(size)];
        let tiles = grid[0] * grid[1];
        isa.run(TransformInput { block: self, grid, out: inputs });
        let input_stride = row_stride(from, lanes);
        let stride_of_products = position_stride(tiles * width, lanes);
        // Parts of the depth: a panel of filters stays in the first-level cache while it is multiplied with all tiles.
        let step = depth_block(from);
        let panel = tile.positions() * from * width;
        for first in self.channels.clone().step_by(width) {
            let weights = &weights[first / width * panel..][..panel];
            let count = width.min(self.channels.end - first);
            for position in 0..tile.positions() {
                let products = &mut products[position * stride_of_products..][..tiles * width];
                for start in (0..from).step_by(step) {
                    let depth = step.min(from - start);
                    let product = Multiply {
                        left: Left {
                            data: &inputs[position * tiles * input_stride + start..],
                            stride: input_stride,
                            step: 1,
                        },
                        rows: tiles,
                        panels: &[Panel {
                            data: PanelData::F32(&weights[(position * from + start) * width..][..depth * width]),
                            step: width,
                            next: (depth * width) as isize,
                        }],
                        cols: count.next_multiple_of(lanes),
                        depth,
                        out: products.as_mut_ptr(),
                        stride: width,
                        panel_stride: width,
                        accumulate: start > 0,
                        finish: None,
                    };
                    // SAFETY: `products` has `tiles` rows of `width` floats.
                    unsafe { multiply(isa, product) };
                }
            }
            // SAFETY: the channels of the panel in these columns are among the writable ones.
            let out = unsafe { out.add(self.cols.start * pixel + first - self.channels.start) };
            let size = [self.rows.len(), self.cols.len()];
            let (bias, strides) = (&bias[first..], [wide * pixel, pixel]);
            let products = &products[..tile.positions() * stride_of_products];
            isa.run(TransformOutput { tile, products, width, grid, size, channels: count, bias, out, strides });
        }
    }
}

/// Transforms the input under a block to one row of channels per tile, for each position.
struct TransformInput<'a, 'b> {
    block: &'a Block<'a>,
    grid: [usize; 2],
    out: &'b mut [f32],
}

impl Kernel for TransformInput<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match self.block.conv.filters.tile {
            OutputTile::Two => self.all::<S, 4>(simd),
            OutputTile::Four => self.all::<S, 6>(simd),
        }
    }
}

/// The input pixels under a tile.
struct Under {
    /// Row and column of the first pixel.
    start: [isize; 2],
    /// Whether all pixels are inside the image.
    inside: bool,
}

impl TransformInput<'_, '_> {
    #[inline(always)]
    fn all<S: Simd, const SIDE: usize>(mut self, simd: S) {
        let conv = self.block.conv;
        let channels = conv.filters.channels[0];
        assert!(self.block.image.len() >= conv.input[0] * conv.input[1] * channels);
        for row in 0..self.grid[0] {
            for col in 0..self.grid[1] {
                let first = [self.block.rows.start + row * (SIDE - 2), self.block.cols.start + col * (SIDE - 2)];
                let start = [0, 1].map(|axis| first[axis] as isize - conv.padding[axis] as isize);
                let inside =
                    [0, 1].iter().all(|&axis| start[axis] >= 0 && start[axis] as usize + SIDE <= conv.input[axis]);
                let under = Under { start, inside };
                for channel in (0..channels).step_by(S::LANES) {
                    self.tile::<S, SIDE>(simd, row * self.grid[1] + col, &under, channel);
                }
            }
        }
    }

    /// A vector of channels of one pixel.
    #[inline(always)]
    fn pixel<S: Simd>(&self, simd: S, row: usize, col: usize, channel: usize) -> S::F32 {
        let conv = self.block.conv;
        let channels = conv.filters.channels[0];
        let from = &self.block.image[(row * conv.input[1] + col) * channels + channel..];
        if channel + S::LANES <= channels {
            return simd.load(from);
        }
        simd.load_partial(&from[..channels - channel])
    }

    #[inline(always)]
    fn tile<S: Simd, const SIDE: usize>(&mut self, simd: S, tile: usize, under: &Under, channel: usize) {
        let conv = self.block.conv;
        let [high, wide] = conv.input;
        // First along the columns.
        let mut half = [[simd.splat(0.0); SIDE]; SIDE];
        for (i, row) in (0..SIDE).zip(under.start[0]..) {
            if row < 0 || row >= high as isize {
                continue;
            }
            let mut pixels = [simd.splat(0.0); SIDE];
            for (j, pixel) in pixels.iter_mut().enumerate() {
                let col = under.start[1] + j as isize;
                if under.inside || (col >= 0 && col < wide as isize) {
                    *pixel = self.pixel(simd, row as usize, col as usize, channel);
                }
            }
            for (j, x) in input_transform::<S, SIDE>(simd, pixels).into_iter().enumerate() {
                half[j][i] = x;
            }
        }
        let stride = row_stride(conv.filters.channels[0], S::LANES);
        let (at, stride) = (tile * stride + channel, self.grid[0] * self.grid[1] * stride);
        for (j, column) in half.into_iter().enumerate() {
            for (i, x) in input_transform::<S, SIDE>(simd, column).into_iter().enumerate() {
                simd.store(x, &mut self.out[(i * SIDE + j) * stride + at..]);
            }
        }
    }
}

/// Transforms the products of a block for one panel of output channels, and adds the bias.
struct TransformOutput<'a> {
    tile: OutputTile,
    products: &'a [f32],
    width: usize,
    grid: [usize; 2],
    /// Rows and columns of the block.
    size: [usize; 2],
    /// Channels of the panel.
    channels: usize,
    bias: &'a [f32],
    /// Writable for the channels of the panel in all rows and columns.
    out: *mut f32,
    strides: [usize; 2],
}

impl Kernel for TransformOutput<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match self.tile {
            OutputTile::Two => self.all::<S, 4, 2>(simd),
            OutputTile::Four => self.all::<S, 6, 4>(simd),
        }
    }
}

impl TransformOutput<'_> {
    #[inline(always)]
    fn all<S: Simd, const SIDE: usize, const SIZE: usize>(self, simd: S) {
        for row in 0..self.grid[0] {
            for col in 0..self.grid[1] {
                for channel in (0..self.channels).step_by(S::LANES) {
                    self.one::<S, SIDE, SIZE>(simd, [row, col], channel);
                }
            }
        }
    }

    #[inline(always)]
    fn one<S: Simd, const SIDE: usize, const SIZE: usize>(&self, simd: S, [row, col]: [usize; 2], channel: usize) {
        let tiles = self.grid[0] * self.grid[1];
        let stride = position_stride(tiles * self.width, S::LANES);
        let from = &self.products[(row * self.grid[1] + col) * self.width + channel..];
        let mut half = [[simd.splat(0.0); SIDE]; SIZE];
        for j in 0..SIDE {
            let mut column = [simd.splat(0.0); SIDE];
            for (i, x) in column.iter_mut().enumerate() {
                *x = simd.load(&from[(i * SIDE + j) * stride..]);
            }
            for (i, x) in output_transform::<S, SIDE, SIZE>(simd, column).into_iter().enumerate() {
                half[i][j] = x;
            }
        }
        let bias = simd.load(&self.bias[channel..]);
        let lanes = S::LANES.min(self.channels - channel);
        for (i, half) in half.into_iter().enumerate() {
            let y = row * SIZE + i;
            if y >= self.size[0] {
                break;
            }
            for (j, x) in output_transform::<S, SIDE, SIZE>(simd, half).into_iter().enumerate() {
                let column = col * SIZE + j;
                if column >= self.size[1] {
                    break;
                }
                // SAFETY: the pixel belongs to the block, and the channels to the panel.
                unsafe {
                    let out = self.out.add(y * self.strides[0] + column * self.strides[1] + channel);
                    simd.store_first(simd.add(x, bias), out, lanes);
                }
            }
        }
    }
}
