//! What the operators on images share: layouts, windows and output sizes.

use crate::dimension::Dim;
use crate::error::Problem;
use crate::shape::{expected_dimension, is_dimension};
use std::fmt::Debug;
use std::ops::Range;

crate::enumeration! {
    /// `MLInputOperandLayout`: the order of the dimensions of an image.
    pub enum InputLayout {
        /// batches, channels, height, width
        Nchw = "nchw",
        /// batches, height, width, channels
        Nhwc = "nhwc",
    }
}

/// The sizes of a batch of images, independent of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the words of the draft")]
pub struct Image<D = u32> {
    pub batches: D,
    pub channels: D,
    pub height: D,
    pub width: D,
}

impl InputLayout {
    /// The positions of batches, channels, height and width in a shape.
    pub fn axes(self) -> [usize; 4] {
        match self {
            InputLayout::Nchw => [0, 1, 2, 3],
            InputLayout::Nhwc => [0, 3, 1, 2],
        }
    }

    /// The sizes in `shape`, a shape of four dimensions.
    pub fn image<D: Copy>(self, shape: &[D]) -> Image<D> {
        let [batches, channels, height, width] = self.axes().map(|axis| shape[axis]);
        Image { batches, channels, height, width }
    }

    /// The shape of `image` in this layout.
    pub fn shape<D>(self, image: Image<D>) -> Vec<D> {
        let Image { batches, channels, height, width } = image;
        match self {
            InputLayout::Nchw => vec![batches, channels, height, width],
            InputLayout::Nhwc => vec![batches, height, width, channels],
        }
    }

    /// The layout of an image after a transposition by `axes`: from channels first to channels last, or back.
    pub fn transposed(self, axes: &[usize]) -> Option<InputLayout> {
        match (self, axes) {
            (InputLayout::Nchw, [0, 2, 3, 1]) => Some(InputLayout::Nhwc),
            (InputLayout::Nhwc, [0, 3, 1, 2]) => Some(InputLayout::Nchw),
            _ => None,
        }
    }

    /// The index of an element in this layout.
    pub fn index(self, batch: usize, channel: usize, y: usize, x: usize) -> [usize; 4] {
        match self {
            InputLayout::Nchw => [batch, channel, y, x],
            InputLayout::Nhwc => [batch, y, x, channel],
        }
    }
}

/// The list attribute `name` as an array.
///
/// # Errors
/// If it does not have `N` items.
pub fn exactly<T: Copy + Debug, const N: usize>(name: &'static str, values: &[T]) -> Result<[T; N], Problem> {
    values.try_into().map_err(|_| Problem::attribute(name, values, format!("{N} numbers")))
}

/// The list attribute `name` as an array of numbers above 0.
///
/// # Errors
/// If it does not have `N` items, or one is 0.
pub fn positive<const N: usize>(name: &'static str, values: &[u32]) -> Result<[u32; N], Problem> {
    match exactly(name, values)? {
        array if array.contains(&0) => Err(Problem::attribute(name, values, "numbers above 0")),
        array => Ok(array),
    }
}

/// A window that moves along one dimension of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the words of the draft")]
pub struct Slide<D = u32> {
    pub input: D,
    pub window: D,
    pub begin: D,
    pub end: D,
    pub stride: u32,
    pub dilation: u32,
}

/// How a window with checked attributes moves along height and width.
pub fn slides<D: Copy>(
    image: Image<D>,
    window: [D; 2],
    padding: [D; 4],
    strides: [u32; 2],
    dilations: [u32; 2],
) -> [Slide<D>; 2] {
    [0, 1].map(|axis| Slide {
        input: [image.height, image.width][axis],
        window: window[axis],
        begin: padding[2 * axis],
        end: padding[2 * axis + 1],
        stride: strides[axis],
        dilation: dilations[axis],
    })
}

impl<D: Copy + Into<Dim>> Slide<D> {
    /// "Effective filter size" of the draft: the span of the dilated window.
    fn effective(&self) -> Dim {
        (self.window.into() - 1) * self.dilation + 1
    }

    /// "Calculate conv output size" of the draft, rounded down and rounded up. Neither is necessarily a valid
    /// dimension.
    pub fn outputs(&self) -> (Dim, Dim) {
        let room = self.input.into() - self.effective() + self.begin.into() + self.end.into();
        (room / self.stride + 1, room.div_ceil(self.stride) + 1)
    }

    /// "Calculate convtranspose output size" of the draft. It is not necessarily a valid dimension.
    pub fn transposed_output(&self) -> Dim {
        (self.input.into() - 1) * self.stride + self.effective() - self.begin.into() - self.end.into()
    }
}

impl Slide {
    /// The output positions below `outputs` whose whole window is inside the image.
    pub fn inner(&self, outputs: usize) -> Range<usize> {
        // Valid output sizes imply that all of these are below 2^63.
        let (stride, begin) = (self.stride as i64, self.begin as i64);
        let last = self.input as i64 - 1 - (self.window as i64 - 1) * self.dilation as i64 + begin;
        let end = if last < 0 { 0 } else { (last / stride + 1).min(outputs as i64) as usize };
        let start = ((begin + stride - 1) / stride) as usize;
        start.min(end)..end
    }

    /// The taps of the window that fall into the image at output position `at`: first tap, number of taps, and input
    /// position of the first. Excludes taps in padding, and those beyond it if the output size was rounded up.
    pub fn taps(&self, at: usize) -> (usize, usize, usize) {
        // Valid output sizes imply that all of these are below 2^63.
        let (start, dilation) = (at as i64 * self.stride as i64 - self.begin as i64, self.dilation as i64);
        let first = if start < 0 { (-start + dilation - 1) / dilation } else { 0 };
        let position = start + first * dilation;
        let inside = if position < self.input as i64 { (self.input as i64 - 1 - position) / dilation + 1 } else { 0 };
        let count = inside.min(self.window as i64 - first).max(0);
        (first as usize, count as usize, if count > 0 { position as usize } else { 0 })
    }
}

/// `size` as a dimension of the output.
///
/// # Errors
/// If it is not a valid dimension; messages call the size `name`.
pub fn output_dimension(name: &'static str, size: Dim) -> Result<Dim, Problem> {
    match is_dimension(size) {
        true => Ok(size),
        false => Err(Problem::Attribute { name, got: size.to_string(), expected: expected_dimension() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes rounded down and rounded up, as numbers.
    fn outputs(slide: Slide) -> (i64, i64) {
        let (floor, ceil) = slide.outputs();
        (floor.pinned(), ceil.pinned())
    }

    const MAX: u32 = u32::MAX;

    #[test]
    fn sizes_are_rounded_both_ways() {
        let slide = Slide { input: 5, window: 3, begin: 1, end: 0, stride: 2, dilation: 1 };
        assert_eq!(outputs(slide), (2, 3));
        assert_eq!(outputs(Slide { window: 7, ..slide }), (0, 1));
        assert_eq!(outputs(Slide { dilation: 2, end: 1, ..slide }), (2, 2));
        assert_eq!(Slide { stride: 1, ..slide }.transposed_output(), 6);
    }

    #[test]
    fn hostile_numbers_do_not_overflow() {
        let slide = Slide { input: MAX, window: MAX, begin: MAX, end: MAX, stride: 1, dilation: MAX };
        assert!(slide.outputs().0 < 0);
        assert!(slide.transposed_output() > Dim::number(1 << 62));
        assert!(output_dimension("output height", slide.transposed_output()).is_err());
    }

    #[test]
    fn taps_are_those_inside_of_the_image() {
        for input in 1..6 {
            for (window, begin, stride, dilation) in
                [(1, 0, 1, 1), (3, 2, 1, 1), (2, 7, 2, 3), (4, 1, 3, 2), (3, 0, 2, 1), (9, 4, 1, 1)]
            {
                let slide = Slide { input, window, begin, end: 0, stride, dilation };
                let complete = |&at: &usize| slide.taps(at).1 == window as usize;
                assert_eq!(
                    slide.inner(8).collect::<Vec<_>>(),
                    (0..8).filter(complete).collect::<Vec<_>>(),
                    "{slide:?}"
                );
                for at in 0..8 {
                    let position = |k: u32| (at * stride + k * dilation) as i64 - begin as i64;
                    let inside: Vec<u32> = (0..window).filter(|&k| (0..input as i64).contains(&position(k))).collect();
                    let (first, count, start) = slide.taps(at as usize);
                    assert_eq!(count, inside.len(), "{slide:?} at {at}");
                    if let Some(&k) = inside.first() {
                        assert_eq!((first, start), (k as usize, position(k) as usize), "{slide:?} at {at}");
                    }
                }
            }
        }
        let far = Slide { input: 1, window: 2, begin: MAX, end: 0, stride: 1, dilation: MAX };
        assert_eq!(outputs(far), (1, 1));
        assert_eq!(far.taps(0), (1, 1, 0));
    }
}
