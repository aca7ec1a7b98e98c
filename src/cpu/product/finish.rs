//! The operations after a product or convolution. Scaling, a bias, a residual and bounds are applied in the registers
//! that hold the sums, if possible; everything else to runs of results in cache.

use crate::cpu::kernels::float::{Float, Floats, narrow};
use crate::cpu::schedule::tiles::Tile;
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::with_floats;
use std::ops::Range;

/// The addend of a product: `beta * data[row * row_stride + col * col_stride]`. Stride 0 broadcasts.
#[derive(Clone, Copy)]
pub struct Addend<'a> {
    /// The elements.
    pub data: Floats<'a>,
    /// Distance between rows, in elements.
    pub row_stride: usize,
    /// Distance between columns, in elements.
    pub col_stride: usize,
    /// The factor.
    pub beta: f32,
}

/// A function called once per contiguous run of outputs, in `f32`, while the run is in cache, with the position of its
/// first element in the whole output. Runs are as long as the layout allows.
pub type Finish<'a> = Option<&'a (dyn Fn(usize, &mut [f32]) + Sync)>;

/// The operations applied to the results of a product or convolution of any layout before they are stored.
#[derive(Clone, Copy)]
pub struct Tail<'a> {
    /// The first addend: one element per element of the output, in the same order.
    pub residual: Option<Floats<'a>>,
    /// The bounds to clamp to. NaN stays NaN, and -0 stays at a lower bound of 0.
    pub clamp: Option<[f32; 2]>,
    /// Runs last.
    pub finish: Finish<'a>,
}

impl Tail<'_> {
    /// No operations.
    pub const NONE: Self = Tail { residual: None, clamp: None, finish: None };

    /// Applies the operations to a run of results that starts at `offset` of the whole output.
    pub fn apply(&self, isa: Isa, offset: usize, sums: &mut [f32]) {
        if let Some(residual) = self.residual {
            isa.run(AddAll { residual: residual.after(offset), sums });
        }
        if let Some(bounds) = self.clamp {
            isa.run(ClampAll { bounds, sums });
        }
        if let Some(finish) = self.finish {
            finish(offset, sums);
        }
    }

    /// Applies the operations to the results of a tile, stored row by row in `sums`, rounds them to nearest and writes
    /// them to the tile.
    pub(super) fn narrow<T: Float>(&self, isa: Isa, mut sums: &mut [f32], tile: &mut Tile<T>) {
        for (offset, run) in tile.runs() {
            let (now, behind) = sums.split_at_mut(run.len());
            self.apply(isa, offset, now);
            narrow(isa, now, run);
            sums = behind;
        }
    }
}

/// The operations on the sums before they are stored.
pub struct ProductEpilogue<'a> {
    /// The factor of the product.
    pub alpha: f32,
    /// The addend, if any.
    pub addend: Option<Addend<'a>>,
    /// The operations that follow.
    pub tail: Tail<'a>,
}

impl ProductEpilogue<'_> {
    /// Applies the operations to the elements of row `row` from column `col` on, which start at `offset` of the whole
    /// output.
    pub fn apply(&self, isa: Isa, [row, col]: [usize; 2], offset: usize, sums: &mut [f32]) {
        if self.alpha != 1.0 || self.addend.is_some() {
            isa.run(Affine { alpha: self.alpha, addend: &self.addend, row, col, sums });
        }
        self.tail.apply(isa, offset, sums);
    }

    /// The operations to apply in the registers that hold the sums, if all operands are `f32`.
    pub(super) fn in_registers(&self) -> Option<InRegisters<'_>> {
        let addend = match &self.addend {
            Some(Addend { data, row_stride, col_stride, beta }) => {
                Some((data.as_f32()?, [*row_stride, *col_stride], *beta))
            }
            None => None,
        };
        let residual = match self.tail.residual {
            Some(residual) => Some(residual.as_f32()?),
            None => None,
        };
        Some(InRegisters { alpha: self.alpha, addend, residual, clamp: self.tail.clamp })
    }

    /// The operations to apply to the sums of some columns in registers before [`tail`](Self::tail), if there is at
    /// most one addend per column; widens the addends into `addends`.
    pub(super) fn widened<'a>(&self, isa: Isa, cols: Range<usize>, addends: &'a mut [f32]) -> Option<InRegisters<'a>> {
        let addend = match self.addend {
            None => None,
            Some(Addend { data, row_stride: 0, col_stride: 1, beta }) => {
                data.after(cols.start).widen(isa, addends);
                Some((&*addends, [0, 1], beta))
            }
            Some(_) => return None,
        };
        Some(InRegisters { alpha: self.alpha, addend, residual: None, clamp: None })
    }
}

struct Affine<'a> {
    alpha: f32,
    addend: &'a Option<Addend<'a>>,
    row: usize,
    col: usize,
    sums: &'a mut [f32],
}

impl Kernel for Affine<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Affine { alpha, addend, row, col, sums } = self;
        let Some(Addend { data, row_stride, col_stride, beta }) = *addend else {
            return sums.iter_mut().for_each(|x| *x *= alpha);
        };
        let data = data.after(row * row_stride + col * col_stride);
        if col_stride == 0 {
            let constant = beta * data.at(0);
            return sums.iter_mut().for_each(|x| *x = simd.mul_add_scalar(*x, alpha, constant));
        }
        with_floats!(Floats, data, data => {
            for (x, c) in sums.iter_mut().zip(data.iter().step_by(col_stride)) {
                *x = simd.mul_add_scalar(*x, alpha, beta * c.to_f32());
            }
        });
    }
}

struct AddAll<'a> {
    residual: Floats<'a>,
    sums: &'a mut [f32],
}

impl Kernel for AddAll<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        with_floats!(Floats, self.residual, residual => {
            let residual = &residual[..self.sums.len()];
            self.sums.iter_mut().zip(residual).for_each(|(x, r)| *x += r.to_f32());
        });
    }
}

struct ClampAll<'a> {
    bounds: [f32; 2],
    sums: &'a mut [f32],
}

impl Kernel for ClampAll<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let [low, high] = self.bounds;
        for x in self.sums {
            let y = if low > *x { low } else { *x };
            *x = if high < y { high } else { y };
        }
    }
}

/// The number of lanes of vector `v` of a tile's row that are within its `cols` columns.
#[inline(always)]
pub(super) fn lanes_within<S: Simd>(cols: usize, v: usize) -> usize {
    cols.saturating_sub(v * S::LANES).min(S::LANES)
}

/// The operations applied to sums in the registers of the micro-kernel.
#[derive(Clone, Copy)]
pub struct InRegisters<'a> {
    alpha: f32,
    addend: Option<(&'a [f32], [usize; 2], f32)>,
    residual: Option<&'a [f32]>,
    clamp: Option<[f32; 2]>,
}

impl InRegisters<'_> {
    /// Multiplies sums with `alpha`.
    pub fn scaled(alpha: f32) -> Self {
        InRegisters { alpha, addend: None, residual: None, clamp: None }
    }

    /// Whether the addends of neighbors in a row are contiguous or all the same.
    pub(super) fn is_plain(&self) -> bool {
        self.addend.as_ref().is_none_or(|(_, [_, col_stride], _)| *col_stride <= 1)
    }

    /// Finishes the sums of a tile of `cols` columns. Its first element has this row and column of the product, and the
    /// position `offset` in an output with `stride` elements between rows. The loops are short enough for the compiler
    /// to unroll: the sums must stay in registers.
    #[inline(always)]
    pub(super) fn apply_all<S: Simd, const ROWS: usize, const VECS: usize>(
        &self,
        simd: S,
        sums: &mut [[S::F32; VECS]; ROWS],
        [row, col]: [usize; 2],
        offset: usize,
        stride: usize,
        cols: usize,
    ) {
        let alpha = simd.splat(self.alpha);
        match &self.addend {
            Some((data, [row_stride, col_stride], beta)) => {
                let beta = simd.splat(*beta);
                let data = &data[row * row_stride + col * col_stride..];
                assert!(data.len() > (ROWS - 1) * row_stride + (cols - 1) * col_stride);
                for (row, sums) in sums.iter_mut().enumerate() {
                    let data = data.as_ptr().wrapping_add(row * row_stride);
                    // SAFETY: the elements of the tile were just checked to be present, one or `cols` per row.
                    let mut addends = [unsafe { simd.splat(*data) }; VECS];
                    if *col_stride != 0 {
                        for (v, addend) in addends.iter_mut().enumerate() {
                            let data = data.wrapping_add(v * S::LANES);
                            // SAFETY: as above.
                            *addend = unsafe { simd.load_first(data, lanes_within::<S>(cols, v)) };
                        }
                    }
                    for (sum, addend) in sums.iter_mut().zip(addends) {
                        *sum = simd.mul_add(*sum, alpha, simd.mul(beta, addend));
                    }
                }
            }
            None if self.alpha != 1.0 => {
                for sums in sums.iter_mut() {
                    for sum in sums {
                        *sum = simd.mul(*sum, alpha);
                    }
                }
            }
            None => {}
        }
        if let Some(residual) = self.residual {
            let residual = &residual[offset..];
            assert!(residual.len() >= (ROWS - 1) * stride + cols);
            for (row, sums) in sums.iter_mut().enumerate() {
                for (v, sum) in sums.iter_mut().enumerate() {
                    let other = residual.as_ptr().wrapping_add(row * stride + v * S::LANES);
                    // SAFETY: as above.
                    *sum = simd.add(*sum, unsafe { simd.load_first(other, lanes_within::<S>(cols, v)) });
                }
            }
        }
        if let Some([low, high]) = self.clamp {
            let (low, high) = (simd.splat(low), simd.splat(high));
            for sums in sums {
                for sum in sums {
                    *sum = simd.min(high, simd.max(low, *sum));
                }
            }
        }
    }

    /// The results for `len` sums at row and column `place` of the product, at `offset` of the output.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(
        &self,
        simd: S,
        sum: S::F32,
        [row, col]: [usize; 2],
        offset: usize,
        len: usize,
    ) -> S::F32 {
        let mut sum = sum;
        match &self.addend {
            Some((data, [row_stride, col_stride], beta)) => {
                let data = &data[row * row_stride + col * col_stride..];
                let addend = match col_stride {
                    0 => simd.splat(data[0]),
                    1 => simd.load_partial(&data[..len]),
                    _ => {
                        let mut lanes = [0.0; 16];
                        lanes.iter_mut().zip(data.iter().step_by(*col_stride)).for_each(|(lane, x)| *lane = *x);
                        simd.load(&lanes)
                    }
                };
                sum = simd.mul_add(sum, simd.splat(self.alpha), simd.mul(simd.splat(*beta), addend));
            }
            None => sum = simd.mul(sum, simd.splat(self.alpha)),
        }
        if let Some(residual) = self.residual {
            sum = simd.add(sum, simd.load_partial(&residual[offset..][..len]));
        }
        if let Some([low, high]) = self.clamp {
            sum = simd.min(simd.splat(high), simd.max(simd.splat(low), sum));
        }
        sum
    }
}
