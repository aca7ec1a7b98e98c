//! `maxRoiPool`: maxima of the pixels in the bins of regions of images.

use crate::dtype::Number;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;
use std::ops::Range;

crate::attributes! {
    /// `MaxRoiPool` of images `[N, channels, height, width]` in regions `[R, 5]`: the index of the image, left, top, right
    /// and bottom. An image that does not exist is the nearest one; the maximum of no pixels is 0.
    pub struct MaxRoiPool {
        /// Bins of a region, from top to bottom.
        output_height "outputHeight": u32 = 1,
        /// Bins of a region, from left to right.
        output_width "outputWidth": u32 = 1,
        /// What coordinates of regions are multiplied by.
        spatial_scale "spatialScale": f64 = 1.0,
    }
}

/// The image with this index among `count`.
pub fn image_at(index: f32, count: usize) -> usize {
    // The conversion saturates.
    (index as usize).min(count - 1)
}

impl MaxRoiPool {
    /// The pixels in the bin `bin` of `bins`, of a region from `start` to `end`, along a dimension of `size` pixels.
    pub fn pixels(&self, [start, end]: [f32; 2], [bin, bins]: [u32; 2], size: u32) -> Range<usize> {
        let scale = self.spatial_scale as f32;
        // Of whole pixels; these conversions saturate.
        let [start, end] = [start, end].map(|edge| (edge * scale).round() as i32 as i64);
        let extent = (end - start + 1).max(1) as f32 / bins as f32;
        let place = |edge: f32| (edge as i64 + start).clamp(0, i64::from(size)) as usize;
        place((bin as f32 * extent).floor())..place(((bin as f32 + 1.0) * extent).ceil())
    }
}

impl NamedOperator for MaxRoiPool {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "maxRoiPool",
        operands: &[operand("input", FLOATS, (4, 4)), operand("rois", Types::SameAs("input"), (2, 2))],
        outputs: &[output("output", Types::SameAs("input"), (4, 4))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<MaxRoiPool, Problem> {
        MaxRoiPool::read(attributes)
    }
}

impl Operator for MaxRoiPool {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        MaxRoiPool::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (input, rois) = (required(inputs, 0), required(inputs, 1));
        for (name, bins) in [("outputHeight", self.output_height), ("outputWidth", self.output_width)] {
            if bins == 0 {
                return Err(Problem::Attribute { name, got: bins.to_string(), expected: "at least 1".to_string() });
            }
        }
        let expected = vec![rois.shape[0], 5u32.into()];
        if rois.shape != expected {
            return Err(Problem::Shape { operand: "rois", got: rois.shape.clone(), expected });
        }
        let shape = vec![rois.shape[0], input.shape[1], self.output_height.into(), self.output_width.into()];
        Ok(vec![Descriptor::new(input.dtype, shape)])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, rois) = (required(inputs, 0), required(inputs, 1));
        let [images, _, height, width] = input.shape()[..] else { unreachable!("four dimensions") };
        vec![Tensor::from_fn(&outputs[0], |index| {
            let &[region, channel, y, x] = index else { unreachable!("four dimensions") };
            let number = |at: usize| rois.at(&[region, at]).to_f64() as f32;
            let image = image_at(number(0), images);
            let rows = self.pixels([number(2), number(4)], [y as u32, self.output_height], height as u32);
            let columns = self.pixels([number(1), number(3)], [x as u32, self.output_width], width as u32);
            let pixels = rows.flat_map(|row| columns.clone().map(move |column| [image, channel, row, column]));
            Number::Float(pixels.map(|at| input.at(&at).to_f64()).reduce(f64::max).unwrap_or(0.0))
        })]
    }
}
