//! `roiAlign`: averages or maxima of interpolated samples in the bins of regions of images.

use crate::dtype::Number;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::gather::clamp_index;
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;
use std::ops::Range;

crate::attributes! {
    /// `RoiAlign` of images `[N, height, width, channels]` in regions `[R, 4]`: left, top, right and bottom. The image of
    /// each region is clamped as an index of [`gather`](crate::ops::gather). The result is `[R, channels, ...bins]`.
    pub struct RoiAlign {
        /// Bins of a region, from top to bottom.
        output_height "outputHeight": u32 = 1,
        /// Bins of a region, from left to right.
        output_width "outputWidth": u32 = 1,
        /// Samples of a bin along each dimension; 0 for about one per pixel.
        sampling_ratio "samplingRatio": u32 = 0,
        /// What coordinates of regions are multiplied by.
        spatial_scale "spatialScale": f64 = 1.0,
        /// Whether coordinates are those of edges of pixels, not of their middles.
        half_pixel "halfPixel": bool = true,
        /// Whether bins have the maxima of weighted pixels, not averages.
        maximum "maximum": bool = false,
    }
}

/// Maximum number of samples along a dimension of a region.
const MAX_SAMPLES: u32 = 1 << 16;

/// Samples of a bin that are looked at wherever they are.
const FEW: u64 = 64;

/// The largest coordinate and size of a bin whose samples can be told apart.
const FAR: f32 = (1u32 << 30) as f32;

/// The samples along a dimension of a region.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    start: f32,
    /// The size of a bin.
    bin: f32,
    /// Number of samples of a bin: a whole number.
    count: f32,
    /// Pixels of the image along the dimension.
    size: u32,
}

/// The pixels around a sample, and their weights. At the last pixel, both are the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The pixel in front of it.
    pub low: u32,
    /// The weight of that pixel.
    pub low_weight: f32,
    /// The weight of the next pixel; `None` at the last one.
    pub high_weight: Option<f32>,
}

impl Samples {
    /// Number of samples of each bin, including those outside of the image. Regions that are too far away have none.
    pub fn count(&self) -> u64 {
        let is_near = self.start.abs() <= FAR && self.bin.abs() <= FAR;
        if is_near { self.count.max(0.0) as u64 } else { 0 }
    }

    /// The samples of a bin without many of those that are outside of the image: there may be any number of them.
    pub fn near(&self, bin: u32) -> Range<u64> {
        let (count, step) = (self.count(), self.bin as f64 / self.count as f64);
        if count <= FEW || step <= 0.0 || step.is_nan() {
            return 0..count;
        }
        let base = self.start as f64 + bin as f64 * self.bin as f64;
        let first = ((-1.0 - base) / step - 2.0).max(0.0) as u64;
        let end = ((self.size as f64 - base) / step + 2.0).max(0.0) as u64;
        first.min(count)..end.min(count)
    }

    /// The pixels around the sample `at` of a bin; `None` if it is outside of the image by more than a pixel.
    pub fn between(&self, bin: u32, at: u64) -> Option<Between> {
        let size = self.bin as f64;
        let place = self.start as f64 + bin as f64 * size + (at as f64 + 0.5) * size / self.count as f64;
        if !(place >= -1.0 && place <= self.size as f64) {
            return None;
        }
        let place = place.max(0.0);
        let low = place as u32;
        if low >= self.size - 1 {
            return Some(Between { low: self.size - 1, low_weight: 1.0, high_weight: None });
        }
        let high = (place - low as f64) as f32;
        Some(Between { low, low_weight: 1.0 - high, high_weight: Some(high) })
    }
}

impl RoiAlign {
    /// The samples of a region from `start` to `end` in `bins` bins, along a dimension of `size` pixels.
    pub fn samples(&self, [start, end]: [f32; 2], bins: u32, size: u32) -> Samples {
        let (scale, offset) = (self.spatial_scale as f32, if self.half_pixel { 0.5 } else { 0.0 });
        let (start, end) = (start * scale - offset, end * scale - offset);
        let extent = if self.half_pixel { end - start } else { (end - start).max(1.0) };
        let bin = extent / bins as f32;
        let count = if self.sampling_ratio > 0 { self.sampling_ratio as f32 } else { bin.ceil() };
        Samples { start, bin, count, size }
    }

    /// Maximum number of samples of a region that are not outside of the image, along a dimension of `size` pixels, and
    /// of some others.
    pub fn most_samples(&self, bins: u32, size: u32) -> usize {
        let most = |count: u32| bins as usize * count as usize;
        match self.sampling_ratio {
            // Samples are no closer than half a pixel, if a bin has several, but for rounding.
            0 => 2 * (size as usize + 2) + size as usize / 1024 + 2 * most(1),
            ratio => most(ratio),
        }
    }
}

impl NamedOperator for RoiAlign {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "roiAlign",
        operands: &[
            operand("input", FLOATS, (4, 4)),
            operand("rois", Types::SameAs("input"), (2, 2)),
            operand("images", INDICES, (1, 1)),
        ],
        outputs: &[output("output", Types::SameAs("input"), (4, 4))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<RoiAlign, Problem> {
        RoiAlign::read(attributes)
    }
}

impl Operator for RoiAlign {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        RoiAlign::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let [input, rois, images] = [0, 1, 2].map(|index| required(inputs, index));
        for (name, bins) in [("outputHeight", self.output_height), ("outputWidth", self.output_width)] {
            if bins == 0 || bins.saturating_mul(self.sampling_ratio.max(1)) > MAX_SAMPLES {
                let expected = format!("1 to {MAX_SAMPLES} samples along a dimension");
                return Err(Problem::Attribute { name, got: bins.to_string(), expected });
            }
        }
        let count = rois.shape[0];
        for (operand, got, expected) in [("rois", rois, vec![count, 4u32.into()]), ("images", images, vec![count])] {
            if got.shape != expected {
                return Err(Problem::Shape { operand, got: got.shape.clone(), expected });
            }
        }
        let shape = vec![count, input.shape[3], self.output_height.into(), self.output_width.into()];
        Ok(vec![Descriptor::new(input.dtype, shape)])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let [input, rois, images] = [0, 1, 2].map(|index| required(inputs, index));
        let [_, height, width, _] = input.shape()[..] else { unreachable!("four dimensions") };
        vec![Tensor::from_fn(&outputs[0], |index| {
            let &[region, channel, y, x] = index else { unreachable!("four dimensions") };
            let image = clamp_index(images.at(&[region]), input.shape()[0]);
            let edge = |at: usize| rois.at(&[region, at]).to_f64() as f32;
            let vertical = self.samples([edge(1), edge(3)], self.output_height, height as u32);
            let horizontal = self.samples([edge(0), edge(2)], self.output_width, width as u32);
            let weighted = |samples: &Samples, bin: usize| {
                let inside = samples.near(bin as u32).filter_map(|at| samples.between(bin as u32, at));
                let pixels = inside.map(|Between { low, low_weight, high_weight }| {
                    let high = high_weight.map(|weight| (low as usize + 1, weight as f64));
                    [Some((low as usize, low_weight as f64)), high]
                });
                pixels.collect::<Vec<_>>()
            };
            let (rows, columns) = (weighted(&vertical, y), weighted(&horizontal, x));
            let count = vertical.count() as f64 * horizontal.count() as f64;
            let products = rows.iter().flatten().flatten().flat_map(|&(row, of_row)| {
                columns.iter().flatten().flatten().map(move |&(column, of_column)| {
                    input.at(&[image, row, column, channel]).to_f64() * of_row * of_column
                })
            });
            Number::Float(match self.maximum {
                false => products.sum::<f64>() / count.max(1.0),
                true => {
                    // Samples outside are 0.
                    let outside = (rows.len() * columns.len()) as f64 != count;
                    products.chain(outside.then_some(0.0)).reduce(f64::max).unwrap_or(0.0)
                }
            })
        })]
    }
}
