//! `cropAndResize`: regions of images in another size.

use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::extension::grid_sample::{Axis, Mode, joined};
use crate::ops::gather::clamp_index;
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;

crate::attributes! {
    /// `com.microsoft.CropAndResize` of images `[N, height, width, channels]` in regions `[R, 4]`: top, left, bottom and
    /// right, from 0, the middle of the first pixels, to 1, the middle of the last ones. The image of each region is clamped
    /// as an index of [`gather`](crate::ops::gather). The result is `[R, height, width, channels]`.
    pub struct CropAndResize {
        /// Height and width of the result.
        size "size": [u32; 2] = [1, 1],
        /// Whether the result has the nearest pixels, of two the later one, and is not interpolated.
        nearest "nearest": bool = false,
        /// What is outside of the images.
        outside "outside": f64 = 0.0,
    }
}

impl CropAndResize {
    /// The place along a dimension of `size` pixels for place `at` of `count` in a region.
    #[inline(always)]
    pub fn place(&self, [start, end]: [f32; 2], [at, count]: [u32; 2], size: u32) -> f32 {
        let last = size as f32 - 1.0;
        let place = if count > 1 {
            start * last + at as f32 * ((end - start) * last / (count as f32 - 1.0))
        } else {
            0.5 * (start + end) * last
        };
        // Places outside remain there.
        let is_rounded = self.nearest && place >= 0.0 && place <= last;
        if is_rounded { (place + 0.5).floor() } else { place }
    }

    /// How pixels depend on those of the image.
    pub fn mode(&self) -> Mode {
        if self.nearest { Mode::Nearest } else { Mode::Linear }
    }
}

impl NamedOperator for CropAndResize {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "cropAndResize",
        operands: &[
            operand("input", FLOATS, (4, 4)),
            operand("rois", Types::OneOf(&[DataType::Float32]), (2, 2)),
            operand("images", INDICES, (1, 1)),
        ],
        outputs: &[output("output", Types::SameAs("input"), (4, 4))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<CropAndResize, Problem> {
        CropAndResize::read(attributes)
    }
}

impl Operator for CropAndResize {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        CropAndResize::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let [input, rois, images] = [0, 1, 2].map(|index| required(inputs, index));
        if self.size.contains(&0) {
            return Err(Problem::attribute("size", format!("{:?}", self.size), "two positive numbers"));
        }
        let count = rois.shape[0];
        for (operand, got, expected) in [("rois", rois, vec![count, 4u32.into()]), ("images", images, vec![count])] {
            if got.shape != expected {
                return Err(Problem::Shape { operand, got: got.shape.clone(), expected });
            }
        }
        let [height, width] = self.size;
        Ok(vec![Descriptor::new(input.dtype, vec![count, height.into(), width.into(), input.shape[3]])])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let [input, rois, images] = [0, 1, 2].map(|index| required(inputs, index));
        let [count, height, width, _] = input.shape()[..] else { unreachable!("four dimensions") };
        vec![Tensor::from_fn(&outputs[0], |index| {
            let &[region, y, x, channel] = index else { unreachable!("four dimensions") };
            let image = clamp_index(images.at(&[region]), count);
            let edge = |at: usize| rois.at(&[region, at]).to_f64() as f32;
            let places = [0, 1].map(|axis| {
                let size = [height, width][axis] as u32;
                let at = [[y, x][axis] as u32, self.size[axis]];
                (Axis::new(size), self.place([edge(axis), edge(axis + 2)], at, size))
            });
            if places.iter().any(|(axis, place)| !(*place >= 0.0 && *place <= axis.last())) {
                return Number::Float(self.outside);
            }
            let taps = joined(&places.map(|(axis, place)| axis.taps(self.mode(), place)), &[height, width]);
            let products = taps.into_iter().filter(|tap| tap.1 != 0.0);
            let product = |(at, weight)| input.at(&[image, at / width, at % width, channel]).to_f64() * weight;
            Number::Float(products.map(product).sum())
        })]
    }
}
