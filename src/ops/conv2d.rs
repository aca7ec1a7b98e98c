//! Convolution: section "conv2d" of the draft.

use super::attributes::Attributes;
use super::rule::*;
use super::spatial::{Image, InputLayout, exactly, output_dimension, positive, slides};
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, given, required, row};
use crate::dimension::{Dim, numbers};
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;

crate::enumeration! {
    /// `MLConv2dFilterOperandLayout`: o stands for output channels, i for input channels per group.
    #[expect(missing_docs, reason = "the names are the layouts")]
    pub enum FilterLayout {
        Oihw = "oihw",
        Hwio = "hwio",
        Ohwi = "ohwi",
        Ihwo = "ihwo",
    }
}

impl FilterLayout {
    /// The positions of output channels, input channels, height and width in the shape of a filter.
    pub fn axes(self) -> [usize; 4] {
        match self {
            FilterLayout::Oihw => [0, 1, 2, 3],
            FilterLayout::Hwio => [3, 2, 0, 1],
            FilterLayout::Ohwi => [0, 3, 1, 2],
            FilterLayout::Ihwo => [3, 0, 1, 2],
        }
    }
}

crate::attributes! {
    /// `MLConv2dOptions`.
    pub struct Conv2dAttributes {
        /// Leading and trailing padding of the height, then of the width.
        padding "padding": Vec<Dim> = vec![Dim::number(0); 4],
        /// Strides along height and width.
        strides "strides": Vec<u32> = vec![1; 2],
        /// Dilations along height and width.
        dilations "dilations": Vec<u32> = vec![1; 2],
        /// Number of channel groups.
        groups "groups": u32 = 1,
        /// Layout of the input and the output.
        input_layout "inputLayout": InputLayout = InputLayout::Nchw,
        /// Layout of the filter.
        filter_layout "filterLayout": FilterLayout = FilterLayout::Oihw,
    }
}

/// `conv2d()`. Operands are `input`, `filter` and an optional `bias`.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv2d {
    /// The options.
    pub attributes: Conv2dAttributes,
}

/// The operands of both convolutions.
pub(super) const CONVOLVED: &[OperandRule] = &[
    operand("input", FLOATS, (4, 4)),
    operand("filter", Types::SameAs("input"), (4, 4)),
    optional("bias", Types::SameAs("input"), (1, 1)),
];

/// The output of both convolutions.
pub(super) const CONVOLUTION: &[OutputRule] = &[output("output", Types::SameAs("input"), (4, 4))];

/// Checks that `bias`, if present, has one element per output channel.
///
/// # Errors
/// If it has a different shape.
pub(super) fn check_bias(bias: Option<&Descriptor>, output_channels: Dim) -> Result<(), Problem> {
    match bias {
        Some(bias) if bias.shape != [output_channels] => {
            Err(Problem::Shape { operand: "bias", got: bias.shape.clone(), expected: vec![output_channels] })
        }
        _ => Ok(()),
    }
}

impl NamedOperator for Conv2d {
    const RULES: &'static [OpRule] = &[OpRule { name: "conv2d", operands: CONVOLVED, outputs: CONVOLUTION }];

    fn read(_: &str, attributes: &mut Attributes) -> Result<Conv2d, Problem> {
        Ok(Conv2d { attributes: Conv2dAttributes::read(attributes)? })
    }
}

impl Operator for Conv2d {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, "conv2d")
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let input_layout = self.attributes.input_layout.transposed(axes)?;
        Some(Conv2d { attributes: Conv2dAttributes { input_layout, ..self.attributes.clone() } })
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.attributes.padding.iter_mut().for_each(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let a = &self.attributes;
        let (input, filter) = (required(inputs, 0), required(inputs, 1));
        let padding = exactly("padding", &a.padding)?;
        let strides = positive("strides", &a.strides)?;
        let dilations = positive("dilations", &a.dilations)?;
        let image = a.input_layout.image(&input.shape);
        let [output_channels, filter_inputs, height, width] = a.filter_layout.axes().map(|axis| filter.shape[axis]);
        // No number of channels is 0, and no other number is a multiple of 0.
        if !image.channels.is_multiple_of(a.groups) || !output_channels.is_multiple_of(a.groups) {
            let expected =
                format!("a divisor of {} input channels and {output_channels} output channels", image.channels);
            return Err(Problem::attribute("groups", a.groups, expected));
        }
        if image.channels / a.groups != filter_inputs {
            let mut expected = filter.shape.clone();
            expected[a.filter_layout.axes()[1]] = image.channels / a.groups;
            return Err(Problem::Shape { operand: "filter", got: filter.shape.clone(), expected });
        }
        check_bias(given(inputs, 2), output_channels)?;
        let [vertical, horizontal] = slides(image, [height, width], padding, strides, dilations);
        let output = Image {
            channels: output_channels,
            height: output_dimension("output height", vertical.outputs().0)?,
            width: output_dimension("output width", horizontal.outputs().0)?,
            ..image
        };
        Ok(vec![Descriptor::new(input.dtype, a.input_layout.shape(output))])
    }

    fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        let filter = required(inputs, 1);
        let [_, taps @ ..] = self.attributes.filter_layout.axes().map(|axis| filter.sizes()[axis] as u64);
        outputs[0].elements() as u64 * taps.iter().product::<u64>()
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let Conv2dAttributes { padding, strides, dilations, groups, input_layout, filter_layout } = &self.attributes;
        let (input, filter) = (required(inputs, 0), required(inputs, 1).floats());
        let (image, padding) = (input_layout.image(&input.descriptor().sizes()), numbers(padding));
        let input = input.floats();
        let [output_channels, group_inputs, height, width] = filter_layout.axes().map(|axis| filter.shape()[axis]);
        let group_outputs = output_channels / *groups as usize;
        let bias = given(inputs, 2).map(Tensor::floats);
        vec![Tensor::from_fn(&outputs[0], |index| {
            let [batch, channel, y, x] = input_layout.axes().map(|axis| index[axis]);
            let first_input = channel / group_outputs * group_inputs;
            let mut sum = bias.map_or(0.0, |bias| bias[[channel].as_slice()]);
            for (i, ky, kx) in ndarray::indices((group_inputs, height, width)) {
                // The position in the image of a window's step, if it is inside of the image.
                let inside = |at: usize, k: usize, axis: usize, size: u32| {
                    let position =
                        at as i64 * strides[axis] as i64 + k as i64 * dilations[axis] as i64 - padding[2 * axis] as i64;
                    (0..size as i64).contains(&position).then_some(position as usize)
                };
                if let Some(y) = inside(y, ky, 0, image.height)
                    && let Some(x) = inside(x, kx, 1, image.width)
                {
                    let mut at = [0; 4];
                    filter_layout.axes().into_iter().zip([channel, i, ky, kx]).for_each(|(axis, k)| at[axis] = k);
                    sum += input[input_layout.index(batch, first_input + i, y, x).as_slice()] * filter[at.as_slice()];
                }
            }
            Number::Float(sum)
        })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;
    use crate::dtype::DataType::Float32;

    fn infer(
        attributes: Conv2dAttributes,
        input: [u32; 4],
        filter: [u32; 4],
        bias: Option<u32>,
    ) -> Result<Vec<u32>, String> {
        let (input, filter) = (Descriptor::new(Float32, input), Descriptor::new(Float32, filter));
        let bias = bias.map(|n| Descriptor::new(Float32, [n]));
        let outputs = Conv2d { attributes }.infer(&[Some(&input), Some(&filter), bias.as_ref()]);
        outputs.map(|mut outputs| outputs.remove(0).sizes().to_vec()).map_err(|problem| problem.to_string())
    }

    #[test]
    fn shapes() {
        let default = Conv2dAttributes::default;
        assert_eq!(infer(default(), [1, 3, 5, 7], [4, 3, 3, 3], Some(4)).unwrap(), [1, 4, 3, 5]);
        let strided = Conv2dAttributes { strides: vec![2, 2], padding: dims(&[1, 0, 0, 1]), ..default() };
        assert_eq!(infer(strided, [2, 1, 5, 5], [1, 1, 3, 3], None).unwrap(), [2, 1, 2, 2]);
        let layouts = [
            (FilterLayout::Oihw, [6, 2, 3, 2]),
            (FilterLayout::Hwio, [3, 2, 2, 6]),
            (FilterLayout::Ohwi, [6, 3, 2, 2]),
            (FilterLayout::Ihwo, [2, 3, 2, 6]),
        ];
        for (filter_layout, filter) in layouts {
            let attributes =
                Conv2dAttributes { groups: 2, filter_layout, input_layout: InputLayout::Nhwc, ..default() };
            assert_eq!(infer(attributes, [1, 5, 5, 4], filter, Some(6)).unwrap(), [1, 3, 4, 6]);
        }
    }

    #[test]
    fn mismatches_are_named() {
        let default = Conv2dAttributes::default;
        let fail = |attributes, bias| infer(attributes, [1, 4, 5, 5], [6, 4, 3, 3], bias).unwrap_err();
        assert_eq!(fail(default(), Some(5)), "bias has shape [5], expected [6]");
        assert_eq!(
            fail(Conv2dAttributes { groups: 0, ..default() }, None),
            "groups is 0, expected a divisor of 4 input channels and 6 output channels"
        );
        assert_eq!(
            fail(Conv2dAttributes { groups: 2, ..default() }, None),
            "filter has shape [6, 4, 3, 3], expected [6, 2, 3, 3]"
        );
        assert_eq!(
            fail(Conv2dAttributes { strides: vec![1, 0], ..default() }, None),
            "strides is [1, 0], expected numbers above 0"
        );
        assert_eq!(
            fail(Conv2dAttributes { padding: dims(&[1]), ..default() }, None),
            "padding is [1], expected 4 numbers"
        );
        assert_eq!(
            fail(Conv2dAttributes { dilations: vec![3, 1], ..default() }, None),
            "output height is -1, expected a dimension between 1 and 2147483647"
        );
        let hostile = Conv2dAttributes {
            padding: dims(&[u32::MAX; 4]),
            dilations: vec![u32::MAX; 2],
            strides: vec![u32::MAX; 2],
            ..default()
        };
        assert_eq!(infer(hostile, [1, 4, 5, 5], [6, 4, 3, 3], None).unwrap(), [1, 6, 1, 1]);
    }
}
