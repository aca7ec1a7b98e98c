//! Pooling: reduces the elements of each window to one.
//!
//! Sums are `f64`, whose rounding does not show in `f32`.

use crate::cpu::simd::{Kernel, Simd};
use crate::ops::spatial::Slide;
use std::marker::PhantomData;
use std::ops::Range;

/// A reduction of elements of type `T` to one.
pub trait PoolFold<T>: Copy + Sync {
    /// The accumulator.
    type Sum: Copy;
    /// The accumulator of no elements.
    const EMPTY: Self::Sum;
    /// Adds `x` to the accumulator.
    fn add(sum: Self::Sum, x: T) -> Self::Sum;
    /// Combines two accumulators.
    fn merge(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// The result for `count` elements.
    fn finish(sum: Self::Sum, count: usize) -> T;
}

/// The mean; 0 for no elements.
#[derive(Clone, Copy)]
pub struct Average;

impl PoolFold<f32> for Average {
    type Sum = f64;
    // -0 and not 0: the mean of negative zeros is a negative zero.
    const EMPTY: f64 = -0.0;
    #[inline(always)]
    fn add(sum: f64, x: f32) -> f64 {
        sum + x as f64
    }
    #[inline(always)]
    fn merge(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn finish(sum: f64, count: usize) -> f32 {
        if count == 0 { 0.0 } else { (sum / count as f64) as f32 }
    }
}

/// The square root of the sum of squares; 0 for no elements.
#[derive(Clone, Copy)]
pub struct Norm;

impl PoolFold<f32> for Norm {
    type Sum = f64;
    const EMPTY: f64 = 0.0;
    #[inline(always)]
    fn add(sum: f64, x: f32) -> f64 {
        sum + x as f64 * x as f64
    }
    #[inline(always)]
    fn merge(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn finish(sum: f64, _: usize) -> f32 {
        sum.sqrt() as f32
    }
}

/// The largest element, or NaN if there is one; for no elements, the smallest value of the type.
#[derive(Clone, Copy)]
pub struct Largest;

macro_rules! largest {
    ($($type:ty: $lowest:expr,)*) => {$(
        impl PoolFold<$type> for Largest {
            type Sum = $type;
            const EMPTY: $type = $lowest;
            #[inline(always)]
            #[allow(clippy::eq_op, reason = "integers are never NaN")]
            fn add(sum: $type, x: $type) -> $type {
                // Evaluates both conditions to keep branches out of the loop.
                if (x > sum) | (x != x) { x } else { sum }
            }
            #[inline(always)]
            fn merge(a: $type, b: $type) -> $type {
                Self::add(a, b)
            }
            #[inline(always)]
            fn finish(sum: $type, _: usize) -> $type {
                sum
            }
        }
    )*};
}

largest! {
    f32: f32::NEG_INFINITY,
    i8: i8::MIN, u8: u8::MIN, i32: i32::MIN, u32: u32::MIN, i64: i64::MIN, u64: u64::MIN,
}

/// The elements of the image that a window covers along one dimension: `count` of them from `start`, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taps {
    /// Position in the image.
    pub start: usize,
    /// Number of positions; 0 if the window is entirely in the padding.
    pub count: usize,
    /// Distance between positions.
    pub step: usize,
}

impl Taps {
    /// The elements covered by the window of output position `at`.
    #[inline(always)]
    pub fn at(slide: &Slide, at: usize) -> Taps {
        let (_, count, start) = slide.taps(at);
        Taps { start, count, step: slide.dilation as usize }
    }
}

/// Outputs computed side by side.
const SIDE_BY_SIDE: usize = 64;

/// Partial sums of a reduction over contiguous elements.
const PARTS: usize = 16;

/// Fewer outputs than this are computed one by one, over contiguous elements, rather than side by side.
const MIN_SIDE_BY_SIDE: usize = 4;

/// Pixels with at least this many channels are reduced one by one.
const MIN_PIXEL: usize = 16;

/// Windows over an image, one row of them.
#[derive(Clone)]
pub struct Windows<'a, T> {
    /// `[height, width, channels]`
    pub image: &'a [T],
    /// Pixels per row of the image.
    pub width: usize,
    /// Channels per pixel; one in a plane.
    pub channels: usize,
    /// The rows under all windows.
    pub rows: Taps,
    /// The movement of the windows along the columns.
    pub columns: &'a Slide,
    /// The windows that are fully inside the width of the image.
    pub inner: Range<usize>,
}

/// Reduces neighboring windows of a row, each channel on its own.
pub struct PoolRow<'a, T, R> {
    /// The windows.
    pub windows: Windows<'a, T>,
    /// The first of them to reduce.
    pub first: usize,
    /// `[windows, channels]`
    pub out: &'a mut [T],
    /// The reduction.
    pub reduction: PhantomData<R>,
}

impl<T: Copy, R: PoolFold<T>> Kernel for PoolRow<'_, T, R> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let PoolRow { windows, first, out, .. } = self;
        let (channels, stride) = (windows.channels, windows.columns.stride as usize);
        let end = first + out.len() / channels;
        let [from, to] = [windows.inner.start, windows.inner.end].map(|at| at.clamp(first, end));
        // Neighbors in the output then read elements of the image at equal distances.
        let adjoin = channels == 1 || stride == 1 && channels < MIN_PIXEL;
        let to = if adjoin && (to - from) * channels >= MIN_SIDE_BY_SIDE { to } else { from };
        for at in (first..from).chain(to..end) {
            windows.one::<R>(Taps::at(windows.columns, at), &mut out[(at - first) * channels..][..channels]);
        }
        let columns = Taps::at(windows.columns, from);
        let inner = &mut out[(from - first) * channels..(to - first) * channels];
        for (block, out) in inner.chunks_mut(SIDE_BY_SIDE).enumerate() {
            let start = columns.start * channels + block * SIDE_BY_SIDE * stride;
            match stride {
                1 => windows.side_by_side::<R, 1>(columns, start, out),
                2 => windows.side_by_side::<R, 2>(columns, start, out),
                _ => windows.side_by_side::<R, 0>(columns, start, out),
            }
        }
    }
}

impl<T: Copy> Windows<'_, T> {
    /// Row number `index` under the windows.
    #[inline(always)]
    fn row(&self, index: usize) -> &[T] {
        let len = self.width * self.channels;
        &self.image[(self.rows.start + index * self.rows.step) * len..][..len]
    }

    /// Reduces one window.
    #[inline(always)]
    fn one<R: PoolFold<T>>(&self, columns: Taps, out: &mut [T]) {
        let count = self.rows.count * columns.count;
        if let [out] = out {
            let mut parts = [R::EMPTY; PARTS];
            if count > 0 && columns.step == 1 && columns.count == self.width && self.rows.step == 1 {
                contiguous::<T, R>(&self.image[self.rows.start * self.width..][..count], &mut parts);
            } else if count > 0 {
                for row in 0..self.rows.count {
                    let row = &self.row(row)[columns.start..];
                    if columns.step == 1 {
                        contiguous::<T, R>(&row[..columns.count], &mut parts);
                    } else {
                        for x in row.iter().step_by(columns.step).take(columns.count) {
                            parts[0] = R::add(parts[0], *x);
                        }
                    }
                }
            }
            *out = R::finish(parts.into_iter().fold(R::EMPTY, R::merge), count);
            return;
        }
        for (block, out) in out.chunks_mut(SIDE_BY_SIDE).enumerate() {
            let mut sums = [R::EMPTY; SIDE_BY_SIDE];
            let sums = &mut sums[..out.len()];
            for y in 0..self.rows.count {
                let row = self.row(y);
                for x in 0..columns.count {
                    let pixel = (columns.start + x * columns.step) * self.channels + block * SIDE_BY_SIDE;
                    for (sum, x) in sums.iter_mut().zip(&row[pixel..][..out.len()]) {
                        *sum = R::add(*sum, *x);
                    }
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = R::finish(*sum, count);
            }
        }
    }

    /// Reduces elements of complete windows, `STRIDE` apart in the image (0: any distance). The first tap of the first
    /// one is element `start` of a row.
    #[inline(always)]
    fn side_by_side<R: PoolFold<T>, const STRIDE: usize>(&self, columns: Taps, start: usize, out: &mut [T]) {
        let stride = if STRIDE == 0 { self.columns.stride as usize } else { STRIDE };
        let mut sums = [R::EMPTY; SIDE_BY_SIDE];
        let (last, sums) = sums[..out.len()].split_last_mut().expect("a chunk has elements");
        let reach = sums.len() * stride;
        for k in 0..self.rows.count {
            let row = self.row(k);
            for i in 0..columns.count {
                let taps = &row[start + i * columns.step * self.channels..][..reach + 1];
                for (sum, x) in sums.iter_mut().zip(taps.chunks_exact(stride)) {
                    *sum = R::add(*sum, x[0]);
                }
                *last = R::add(*last, taps[reach]);
            }
        }
        let count = self.rows.count * columns.count;
        for (out, sum) in out.iter_mut().zip(sums.iter().chain([&*last])) {
            *out = R::finish(*sum, count);
        }
    }
}

/// Adds the elements to the accumulators, the `i`-th one to part `i % PARTS`.
#[inline(always)]
fn contiguous<T: Copy, R: PoolFold<T>>(elements: &[T], parts: &mut [R::Sum; PARTS]) {
    let (blocks, tail) = elements.as_chunks::<PARTS>();
    for block in blocks {
        for (part, x) in parts.iter_mut().zip(block) {
            *part = R::add(*part, *x);
        }
    }
    for (part, x) in parts.iter_mut().zip(tail) {
        *part = R::add(*part, *x);
    }
}
