//! `deformColumns`: the elements of an image that a deformable convolution multiplies, in rows.

use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::extension::grid_sample::{Axis, Mode, joined};
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;

crate::attributes! {
    /// For `DeformConv` of images `[N, height, width, channels]`: a row for each place of the result, in each group of
    /// channels, with the channels at each element of the window, `[N, groups, places, elements * channels]`. Elements are
    /// moved by `offsets`, `[N, sets * elements * 2, ...]`, and multiplied by an optional `mask`, `[N, sets * elements, ...]`.
    pub struct DeformColumns {
        /// Height and width of the window.
        kernel "kernel": [u32; 2] = [1, 1],
        /// Distances of windows.
        strides "strides": [u32; 2] = [1, 1],
        /// Distances of the elements of a window.
        dilations "dilations": [u32; 2] = [1, 1],
        /// How far the first window is outside of the image.
        padding "padding": [u32; 2] = [0, 0],
        /// Number of groups of channels.
        groups "groups": u32 = 1,
        /// Number of sets of channels with offsets of their own.
        sets "sets": u32 = 1,
    }
}

impl DeformColumns {
    /// Elements of a window.
    pub fn elements(&self) -> usize {
        self.kernel[0] as usize * self.kernel[1] as usize
    }

    /// Where an element of window `number` is along a dimension, without its offset.
    #[inline(always)]
    pub fn place(&self, axis: usize, number: usize, element: usize) -> f32 {
        let at = [element / self.kernel[1] as usize, element % self.kernel[1] as usize][axis];
        let along = |list: [u32; 2], count: usize| list[axis] as i64 * count as i64;
        (along(self.strides, number) + along(self.dilations, at) - i64::from(self.padding[axis])) as f32
    }
}

impl NamedOperator for DeformColumns {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "deformColumns",
        operands: &[
            operand("input", FLOATS, (4, 4)),
            operand("offsets", Types::OneOf(&[DataType::Float32]), (4, 4)),
            optional("mask", Types::OneOf(&[DataType::Float32]), (4, 4)),
        ],
        outputs: &[output("output", Types::SameAs("input"), (4, 4))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<DeformColumns, Problem> {
        DeformColumns::read(attributes)
    }
}

impl Operator for DeformColumns {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        DeformColumns::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (input, offsets) = (required(inputs, 0), required(inputs, 1));
        let (batch, channels) = (input.shape[0], input.shape[3]);
        for (name, count) in [("groups", self.groups), ("sets", self.sets)] {
            if count == 0 || !channels.is_multiple_of(count) {
                return Err(Problem::attribute(name, count.to_string(), format!("a divisor of {channels}")));
            }
        }
        let elements = self.kernel[0].checked_mul(self.kernel[1]).filter(|&elements| elements > 0);
        let rows = elements.and_then(|elements| elements.checked_mul(self.sets)?.checked_mul(2));
        let (Some(elements), Some(rows)) = (elements, rows) else {
            return Err(Problem::attribute("kernel", format!("{:?}", self.kernel), "two small positive numbers"));
        };
        let [_, _, height, width] = offsets.shape[..] else { unreachable!("four dimensions") };
        let mut check = vec![("offsets", offsets, rows)];
        check.extend(inputs.get(2).copied().flatten().map(|mask| ("mask", mask, rows / 2)));
        for (operand, given, rows) in check {
            let expected = vec![batch, rows.into(), height, width];
            if given.shape != expected {
                return Err(Problem::Shape { operand, got: given.shape.clone(), expected });
            }
        }
        let shape = vec![batch, self.groups.into(), height * width, channels / self.groups * elements];
        Ok(vec![Descriptor::new(input.dtype, shape)])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, offsets) = (required(inputs, 0), required(inputs, 1));
        let [_, height, width, channels] = input.shape()[..] else { unreachable!("four dimensions") };
        let (columns, own) = (offsets.shape()[3], channels / self.groups as usize);
        vec![Tensor::from_fn(&outputs[0], |index| {
            let &[image, group, number, row] = index else { unreachable!("four dimensions") };
            let (element, channel) = (row / own, group * own + row % own);
            let set = channel / (channels / self.sets as usize);
            let window = [number / columns, number % columns];
            let at = set * self.elements() + element;
            let taps = [0, 1].map(|axis| {
                let offset = offsets.at(&[image, 2 * at + axis, window[0], window[1]]).to_f64() as f32;
                Axis::new([height, width][axis] as u32)
                    .taps(Mode::Linear, self.place(axis, window[axis], element) + offset)
            });
            let mask = inputs.get(2).copied().flatten();
            let factor = mask.map_or(1.0, |mask| mask.at(&[image, at, window[0], window[1]]).to_f64());
            let taps = joined(&taps, &[height, width]).into_iter().map(|(at, weight)| (at, weight * factor));
            let products = taps
                .filter(|tap| tap.1 != 0.0)
                .map(|(at, weight)| input.at(&[image, at / width, at % width, channel]).to_f64() * weight);
            Number::Float(products.sum())
        })]
    }
}
