//! Bilinear resampling of two dimensions.

use crate::cpu::simd::{Kernel, Simd};
use crate::dtype::Element;
use crate::ops::resample2d::{Between, nearest_integer};
use std::ops::{Add, Mul};

/// An element type that can be interpolated.
pub trait Interpolated: Element {
    /// The type of the arithmetic. For integers, it has enough digits for one rounding to give the exact result's nearest
    /// value.
    type Wide: Copy + Send + Add<Output = Self::Wide> + Mul<Output = Self::Wide>;
    /// Converts the value to the type of the arithmetic.
    fn widen(self) -> Self::Wide;
    /// Rounds to the nearest value of this type; for integers ties go to even.
    fn narrow(wide: Self::Wide) -> Self;
    /// Converts a weight to the type of the arithmetic.
    fn weight(weight: f64) -> Self::Wide;
}

macro_rules! interpolated {
    ($($type:ty as $Wide:ty: |$x:ident| $widen:expr, |$y:ident| $narrow:expr;)*) => {$(
        impl Interpolated for $type {
            type Wide = $Wide;
            #[inline(always)]
            fn widen(self) -> $Wide {
                let $x = self;
                $widen
            }
            #[inline(always)]
            fn narrow($y: $Wide) -> $type {
                $narrow
            }
            #[inline(always)]
            fn weight(weight: f64) -> $Wide {
                weight as $Wide
            }
        }
    )*};
}

interpolated! {
    f32 as f32: |x| x, |y| y;
    // The conversion to an integer saturates.
    i8 as f64: |x| x as f64, |y| nearest_integer(y) as i8;
    u8 as f64: |x| x as f64, |y| nearest_integer(y) as u8;
}

/// Two neighbors and their weights.
#[derive(Clone, Copy)]
struct Neighbors<W> {
    low: usize,
    high: usize,
    low_weight: W,
    high_weight: W,
}

impl<W: Copy + Add<Output = W> + Mul<Output = W>> Neighbors<W> {
    #[inline(always)]
    fn new<T: Interpolated<Wide = W>>(between: &Between) -> Neighbors<W> {
        Neighbors {
            low: between.low,
            high: between.high,
            low_weight: T::weight(1.0 - between.weight),
            high_weight: T::weight(between.weight),
        }
    }

    /// The weights of four elements, the lower row first.
    #[inline(always)]
    fn corners(y: &Neighbors<W>, x: &Neighbors<W>) -> [W; 4] {
        let row = |weight: W| [x.low_weight * weight, x.high_weight * weight];
        let ([a, b], [c, d]) = (row(y.low_weight), row(y.high_weight));
        [a, b, c, d]
    }
}

/// The sum of the elements times `weights`, added in onnxruntime's order: networks that quantize resampled data obtain
/// the same integers.
#[inline(always)]
fn weighted<W: Copy + Add<Output = W> + Mul<Output = W>>(weights: [W; 4], [a, b, c, d]: [W; 4]) -> W {
    a * weights[0] + b * weights[1] + c * weights[2] + d * weights[3]
}

/// The sizes of a tensor with two resampled dimensions: `[outer, y, between, x, inner]`.
#[derive(Clone, Copy, Debug)]
pub struct ResampleSizes {
    /// Input size along y.
    pub y: usize,
    /// Elements between y and x.
    pub between: usize,
    /// Input size along x.
    pub x: usize,
    /// Elements after x.
    pub inner: usize,
}

/// Interpolates each `result[o, i, b, j, c]` between the four `src[o, y, b, x, c]` around the position `ys[i]`,
/// `xs[j]`.
pub struct Interpolate<'a, T: Interpolated> {
    /// The source.
    pub src: &'a [T],
    /// Its sizes.
    pub sizes: ResampleSizes,
    /// The positions along y.
    pub ys: &'a [Between],
    /// The positions along x.
    pub xs: &'a [Between],
    /// The index of the first row of `rows`.
    pub first: usize,
    /// Whole rows `[xs, inner]` of the result.
    pub rows: &'a mut [T],
    /// [`SCRATCH_ROWS`] rows `[xs]`.
    pub scratch: &'a mut [T::Wide],
}

/// Rows of scratch memory.
pub const SCRATCH_ROWS: usize = 6;

impl<T: Interpolated> Kernel for Interpolate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Interpolate { src, sizes, ys, xs, first, rows, scratch } = self;
        let row_len = sizes.x * sizes.inner;
        let mut columns = (sizes.inner == 1).then(|| Columns::new(xs, scratch));
        for (index, out) in (first..).zip(rows.chunks_exact_mut(xs.len() * sizes.inner)) {
            let (plane, between) = (index / sizes.between, index % sizes.between);
            let (outer, y) = (plane / ys.len(), Neighbors::new::<T>(&ys[plane % ys.len()]));
            let [low, high] = [y.low, y.high].map(|y| ((outer * sizes.y + y) * sizes.between + between) * row_len);
            match &mut columns {
                Some(columns) => columns.row(src, [low, high], &y, out),
                None => pixels(&src[low..][..row_len], &src[high..][..row_len], y, xs, sizes.inner, out),
            }
        }
    }
}

/// The two elements around each column, of one row of the source.
struct Around<'a, W> {
    /// Where the row starts; none has been read if it is `None`.
    row: Option<usize>,
    low: &'a mut [W],
    high: &'a mut [W],
}

/// Interpolates rows of single elements. What it reads of a row of the source serves all rows next to it.
struct Columns<'a, T: Interpolated> {
    xs: &'a [Between],
    low_weights: &'a [T::Wide],
    high_weights: &'a [T::Wide],
    /// The lower and the higher row.
    around: [Around<'a, T::Wide>; 2],
}

impl<'a, T: Interpolated> Columns<'a, T> {
    #[inline(always)]
    fn new(xs: &'a [Between], scratch: &'a mut [T::Wide]) -> Columns<'a, T> {
        let mut rows = scratch.chunks_exact_mut(xs.len());
        let mut row = || rows.next().expect("scratch memory");
        let [low_weights, high_weights] = [row(), row()];
        for ((low, high), x) in low_weights.iter_mut().zip(&mut *high_weights).zip(xs) {
            (*low, *high) = (T::weight(1.0 - x.weight), T::weight(x.weight));
        }
        let around = [0, 1].map(|_| Around { row: None, low: row(), high: row() });
        Columns { xs, low_weights, high_weights, around }
    }

    /// Computes a row between those of the source that start at `low` and `high`.
    #[inline(always)]
    fn row(&mut self, src: &[T], [low, high]: [usize; 2], y: &Neighbors<T::Wide>, out: &mut [T]) {
        if self.around[0].row != Some(low) {
            self.around.swap(0, 1);
        }
        self.read(src, 0, low);
        if high != low {
            self.read(src, 1, high);
        }
        let count = out.len();
        let [lower, higher] = [&self.around[0], &self.around[(high != low) as usize]];
        let (low_low, low_high) = (&lower.low[..count], &lower.high[..count]);
        let (high_low, high_high) = (&higher.low[..count], &higher.high[..count]);
        let (low_weights, high_weights) = (&self.low_weights[..count], &self.high_weights[..count]);
        for i in 0..count {
            let weights = [
                low_weights[i] * y.low_weight,
                high_weights[i] * y.low_weight,
                low_weights[i] * y.high_weight,
                high_weights[i] * y.high_weight,
            ];
            out[i] = T::narrow(weighted(weights, [low_low[i], low_high[i], high_low[i], high_high[i]]));
        }
    }

    /// Reads the elements around all columns of the row that starts at `start`, unless they are there.
    #[inline(always)]
    fn read(&mut self, src: &[T], which: usize, start: usize) {
        let around = &mut self.around[which];
        if around.row == Some(start) {
            return;
        }
        around.row = Some(start);
        let src = &src[start..];
        for ((low, high), x) in around.low.iter_mut().zip(&mut *around.high).zip(self.xs) {
            (*low, *high) = (src[x.low].widen(), src[x.high].widen());
        }
    }
}

/// Computes one output row, `[xs, inner]`, from the input rows `low` and `high`, `[x, inner]`.
#[inline(always)]
fn pixels<T: Interpolated>(low: &[T], high: &[T], y: Neighbors<T::Wide>, xs: &[Between], inner: usize, out: &mut [T]) {
    for (out, x) in out.chunks_exact_mut(inner).zip(xs) {
        let x = Neighbors::new::<T>(x);
        let (low_low, low_high) = (&low[x.low * inner..][..inner], &low[x.high * inner..][..inner]);
        let (high_low, high_high) = (&high[x.low * inner..][..inner], &high[x.high * inner..][..inner]);
        let weights = Neighbors::corners(&y, &x);
        for (i, o) in out.iter_mut().enumerate() {
            let corners = [low_low[i], low_high[i], high_low[i], high_high[i]].map(T::widen);
            *o = T::narrow(weighted(weights, corners));
        }
    }
}
