//! `col2im`: images as sums of overlapping blocks.

use crate::dtype::Number;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;
use std::collections::HashMap;

crate::attributes! {
    /// `Col2Im` of `[N, channels * elements of a block, blocks]` to images `[N, channels, height, width]`. Elements of
    /// blocks that are outside of the image are dropped.
    pub struct Col2Im {
        /// Height and width of images.
        image "image": [u32; 2] = [0, 0],
        /// Height and width of blocks.
        block "block": [u32; 2] = [0, 0],
        /// Distances of blocks.
        strides "strides": [u32; 2] = [1, 1],
        /// Distances of the elements of a block.
        dilations "dilations": [u32; 2] = [1, 1],
        /// How far the first block is outside of the image.
        padding "padding": [u32; 2] = [0, 0],
        /// Number of blocks along each dimension.
        counts "counts": [u32; 2] = [0, 0],
    }
}

impl Col2Im {
    /// Where element `at` of block `number` is along `axis`, which may be outside of the image.
    pub fn place(&self, axis: usize, number: usize, at: usize) -> i64 {
        let along = |list: [u32; 2], count: usize| list[axis] as i64 * count as i64;
        along(self.strides, number) + along(self.dilations, at) - i64::from(self.padding[axis])
    }
}

impl NamedOperator for Col2Im {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "col2im",
        operands: &[operand("input", FLOATS, (3, 3))],
        outputs: &[output("output", Types::SameAs("input"), (4, 4))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Col2Im, Problem> {
        Col2Im::read(attributes)
    }
}

impl Operator for Col2Im {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Col2Im::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        for (name, list) in [
            ("image", self.image),
            ("block", self.block),
            ("strides", self.strides),
            ("dilations", self.dilations),
            ("counts", self.counts),
        ] {
            if list.contains(&0) {
                return Err(Problem::attribute(name, format!("{list:?}"), "two positive numbers"));
            }
        }
        let area = |sizes: [u32; 2]| sizes[0] as u64 * sizes[1] as u64;
        let [rows, blocks] = [1, 2].map(|axis| u64::from(input.shape[axis].get()));
        if !rows.is_multiple_of(area(self.block)) || area(self.counts) != blocks {
            let expected = format!("{blocks} in all, and blocks that divide {rows}");
            return Err(Problem::attribute("counts", format!("{:?}", self.counts), expected));
        }
        let channels = (rows / area(self.block)) as u32;
        let shape = vec![input.shape[0], channels.into(), self.image[0].into(), self.image[1].into()];
        Ok(vec![Descriptor::new(input.dtype, shape)])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let mut sums: HashMap<Vec<usize>, f64> = HashMap::new();
        let [height, width] = [0, 1].map(|axis| self.block[axis] as usize);
        // `from_fn` visits every element.
        Tensor::from_fn(&input.descriptor(), |index| {
            let &[image, row, number] = index else { unreachable!("three dimensions") };
            let (channel, at) = (row / (height * width), row % (height * width));
            let columns = self.counts[1] as usize;
            let places = [self.place(0, number / columns, at / width), self.place(1, number % columns, at % width)];
            let element = input.at(index);
            if (0..2).all(|axis| (0..i64::from(self.image[axis])).contains(&places[axis])) {
                let place = vec![image, channel, places[0] as usize, places[1] as usize];
                *sums.entry(place).or_default() += element.to_f64();
            }
            element
        });
        vec![Tensor::from_fn(&outputs[0], |index| Number::Float(sums.get(index).copied().unwrap_or(0.0)))]
    }
}
