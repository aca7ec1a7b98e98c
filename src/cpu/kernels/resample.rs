//! Bilinear resampling of two dimensions.

use crate::dtype::Element;
use crate::ops::resample2d::{Between, nearest_integer};
use std::ops::{Add, Mul};

/// An element type that can be interpolated.
pub trait Interpolated: Element {
    /// The type of the arithmetic. For integers, it has enough digits for one rounding to give the exact result's nearest
    /// value.
    type Wide: Copy + Add<Output = Self::Wide> + Mul<Output = Self::Wide>;
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
/// `xs[j]`. `rows` are whole rows `[xs, inner]` of the result, starting at row `first`.
pub fn interpolate<T: Interpolated>(
    src: &[T],
    sizes: ResampleSizes,
    ys: &[Between],
    xs: &[Between],
    first: usize,
    rows: &mut [T],
) {
    let row_len = sizes.x * sizes.inner;
    for (index, out) in (first..).zip(rows.chunks_exact_mut(xs.len() * sizes.inner)) {
        let (plane, between) = (index / sizes.between, index % sizes.between);
        let (outer, y) = (plane / ys.len(), Neighbors::new::<T>(&ys[plane % ys.len()]));
        let row = |y: usize| &src[((outer * sizes.y + y) * sizes.between + between) * row_len..][..row_len];
        linear_row(row(y.low), row(y.high), y, xs, sizes.inner, out);
    }
}

/// Computes one output row, `[xs, inner]`, from the input rows `low` and `high`, `[x, inner]`.
fn linear_row<T: Interpolated>(
    low: &[T],
    high: &[T],
    y: Neighbors<T::Wide>,
    xs: &[Between],
    inner: usize,
    out: &mut [T],
) {
    if inner == 1 {
        for (o, x) in out.iter_mut().zip(xs) {
            let x = Neighbors::new::<T>(x);
            let corners = [low[x.low], low[x.high], high[x.low], high[x.high]].map(T::widen);
            *o = T::narrow(weighted(Neighbors::corners(&y, &x), corners));
        }
        return;
    }
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
