//! Transposed convolution: section "convTranspose2d" of the draft.

use super::attributes::Attributes;
use super::conv2d::{CONVOLUTION, CONVOLVED, check_bias};
use super::rule::*;
use super::spatial::{Image, InputLayout, exactly, output_dimension, positive, slides};
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, given, required, row};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::{Descriptor, is_dimension};

crate::enumeration! {
    /// `MLConvTranspose2dFilterOperandLayout`: i stands for input channels, o for output channels per group.
    #[expect(missing_docs, reason = "the names are the layouts")]
    pub enum TransposedFilterLayout {
        Iohw = "iohw",
        Hwoi = "hwoi",
        Ohwi = "ohwi",
    }
}

impl TransposedFilterLayout {
    /// The positions of input channels, output channels, height and width in the shape of a filter.
    pub fn axes(self) -> [usize; 4] {
        match self {
            TransposedFilterLayout::Iohw => [0, 1, 2, 3],
            TransposedFilterLayout::Hwoi => [3, 2, 0, 1],
            TransposedFilterLayout::Ohwi => [3, 0, 1, 2],
        }
    }
}

crate::attributes! {
    /// `MLConvTranspose2dOptions`.
    pub struct ConvTranspose2dAttributes {
        /// Leading and trailing padding of the height, then of the width.
        padding "padding": Vec<u32> = vec![0; 4],
        /// Strides along height and width.
        strides "strides": Vec<u32> = vec![1; 2],
        /// Dilations along height and width.
        dilations "dilations": Vec<u32> = vec![1; 2],
        /// How much larger the output's height and width are than their smallest sizes.
        output_padding "outputPadding": Vec<u32> = vec![0; 2],
        /// Height and width of the output; replaces `outputPadding`.
        output_sizes "outputSizes": Option<Vec<Dim>> = None,
        /// Number of channel groups.
        groups "groups": u32 = 1,
        /// Layout of the input and the output.
        input_layout "inputLayout": InputLayout = InputLayout::Nchw,
        /// Layout of the filter.
        filter_layout "filterLayout": TransposedFilterLayout = TransposedFilterLayout::Iohw,
    }
}

/// `convTranspose2d()`. Operands are `input`, `filter` and an optional `bias`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvTranspose2d {
    /// The options.
    pub attributes: ConvTranspose2dAttributes,
}

impl ConvTranspose2d {
    /// The height and width of the output, at least `least`.
    fn output_sizes(&self, least: [Dim; 2], strides: [u32; 2]) -> Result<[Dim; 2], Problem> {
        let padding: [u32; 2] = exactly("outputPadding", &self.attributes.output_padding)?;
        let sizes = match &self.attributes.output_sizes {
            Some(sizes) => {
                let sizes: [Dim; 2] = exactly("outputSizes", sizes)?;
                let fits = |axis: usize| (least[axis]..least[axis] + strides[axis]).contains(&sizes[axis]);
                if !(fits(0) && fits(1)) {
                    let expected = format!("at least {least:?} and less than the strides {strides:?} above it");
                    return Err(Problem::attribute("outputSizes", sizes, expected));
                }
                sizes
            }
            None if padding[0] < strides[0] && padding[1] < strides[1] => {
                [least[0] + padding[0], least[1] + padding[1]]
            }
            None => {
                let expected = format!("numbers below the strides {strides:?}");
                return Err(Problem::attribute("outputPadding", padding, expected));
            }
        };
        Ok([output_dimension("output height", sizes[0])?, output_dimension("output width", sizes[1])?])
    }
}

impl NamedOperator for ConvTranspose2d {
    const RULES: &'static [OpRule] = &[OpRule { name: "convTranspose2d", operands: CONVOLVED, outputs: CONVOLUTION }];

    fn read(_: &str, attributes: &mut Attributes) -> Result<ConvTranspose2d, Problem> {
        Ok(ConvTranspose2d { attributes: ConvTranspose2dAttributes::read(attributes)? })
    }
}

impl Operator for ConvTranspose2d {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, "convTranspose2d")
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let input_layout = self.attributes.input_layout.transposed(axes)?;
        Some(ConvTranspose2d { attributes: ConvTranspose2dAttributes { input_layout, ..self.attributes.clone() } })
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.attributes.output_sizes.iter_mut().flatten().for_each(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let a = &self.attributes;
        let (input, filter) = (required(inputs, 0), required(inputs, 1));
        let padding = exactly("padding", &a.padding)?.map(Dim::from);
        let strides = positive("strides", &a.strides)?;
        let dilations = positive("dilations", &a.dilations)?;
        let image = a.input_layout.image(&input.shape);
        let [filter_inputs, group_outputs, height, width] = a.filter_layout.axes().map(|axis| filter.shape[axis]);
        if a.groups == 0 {
            return Err(Problem::attribute("groups", a.groups, "a number above 0"));
        }
        if image.channels != filter_inputs {
            let mut expected = filter.shape.clone();
            expected[a.filter_layout.axes()[0]] = image.channels;
            return Err(Problem::Shape { operand: "filter", got: filter.shape.clone(), expected });
        }
        let output_channels = group_outputs * a.groups;
        if !is_dimension(output_channels) {
            let expected = format!("at most {} output channels in all groups", i32::MAX);
            return Err(Problem::attribute("groups", a.groups, expected));
        }
        check_bias(given(inputs, 2), output_channels)?;
        let least = slides(image, [height, width], padding, strides, dilations).map(|slide| slide.transposed_output());
        let [height, width] = self.output_sizes(least, strides)?;
        let output = Image { channels: output_channels, height, width, ..image };
        Ok(vec![Descriptor::new(input.dtype, a.input_layout.shape(output))])
    }

    /// The draft's steps accept any number of groups, but it must divide the number of channels.
    fn check_defined(&self, inputs: &Inputs) -> Result<(), Problem> {
        let ConvTranspose2dAttributes { groups, input_layout, .. } = self.attributes;
        let channels = input_layout.image(&required(inputs, 0).shape).channels;
        if channels.is_multiple_of(groups) {
            return Ok(());
        }
        Err(Problem::attribute("groups", groups, format!("a divisor of {channels} input channels")))
    }

    /// Every element of the input is multiplied with all taps and output channels of its group.
    fn multiply_adds(&self, inputs: &Inputs, _: &[&Descriptor]) -> u64 {
        let (input, filter) = (required(inputs, 0), required(inputs, 1));
        let [_, taps @ ..] = self.attributes.filter_layout.axes().map(|axis| filter.sizes()[axis] as u64);
        input.elements() as u64 * taps.iter().product::<u64>()
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let ConvTranspose2dAttributes { padding, strides, dilations, groups, input_layout, filter_layout, .. } =
            &self.attributes;
        let (input, filter) = (required(inputs, 0), required(inputs, 1).floats());
        let image = input_layout.image(&input.descriptor().sizes());
        let input = input.floats();
        let [inputs_of_all, group_outputs, height, width] = filter_layout.axes().map(|axis| filter.shape()[axis]);
        let group_inputs = inputs_of_all / *groups as usize;
        let bias = given(inputs, 2).map(Tensor::floats);
        vec![Tensor::from_fn(&outputs[0], |index| {
            let [batch, channel, y, x] = input_layout.axes().map(|axis| index[axis]);
            let first_input = channel / group_outputs * group_inputs;
            let mut sum = bias.map_or(0.0, |bias| bias[[channel].as_slice()]);
            for (i, ky, kx) in ndarray::indices((group_inputs, height, width)) {
                // The input position from which step `k` of the window reaches the output position `at`, if there is
                // one.
                let source = |at: usize, k: usize, axis: usize, size: u32| {
                    let scaled = at as i64 + padding[2 * axis] as i64 - k as i64 * dilations[axis] as i64;
                    let (position, rest) = (scaled / strides[axis] as i64, scaled % strides[axis] as i64);
                    (scaled >= 0 && rest == 0 && position < size as i64).then_some(position as usize)
                };
                if let Some(y) = source(y, ky, 0, image.height)
                    && let Some(x) = source(x, kx, 1, image.width)
                {
                    let mut at = [0; 4];
                    let coordinates = [first_input + i, channel % group_outputs, ky, kx];
                    filter_layout.axes().into_iter().zip(coordinates).for_each(|(axis, k)| at[axis] = k);
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

    fn infer(attributes: ConvTranspose2dAttributes, input: [u32; 4], filter: [u32; 4]) -> Result<Vec<u32>, String> {
        let (input, filter) = (Descriptor::new(Float32, input), Descriptor::new(Float32, filter));
        let outputs = ConvTranspose2d { attributes }.infer(&[Some(&input), Some(&filter), None]);
        outputs.map(|mut outputs| outputs.remove(0).sizes().to_vec()).map_err(|problem| problem.to_string())
    }

    #[test]
    fn shapes() {
        let default = ConvTranspose2dAttributes::default;
        let strided = || ConvTranspose2dAttributes { strides: vec![3, 2], ..default() };
        assert_eq!(infer(default(), [1, 1, 3, 3], [1, 2, 3, 3]).unwrap(), [1, 2, 5, 5]);
        assert_eq!(infer(strided(), [1, 1, 3, 3], [1, 2, 3, 3]).unwrap(), [1, 2, 9, 7]);
        let padded = ConvTranspose2dAttributes { output_padding: vec![1, 1], ..strided() };
        assert_eq!(infer(padded, [1, 1, 3, 3], [1, 2, 3, 3]).unwrap(), [1, 2, 10, 8]);
        let sized = ConvTranspose2dAttributes {
            output_sizes: Some(dims(&[10, 8])),
            output_padding: vec![100, 100],
            ..strided()
        };
        assert_eq!(infer(sized, [1, 1, 3, 3], [1, 2, 3, 3]).unwrap(), [1, 2, 10, 8]);
        let layouts = [
            (TransposedFilterLayout::Iohw, [4, 3, 2, 1]),
            (TransposedFilterLayout::Hwoi, [2, 1, 3, 4]),
            (TransposedFilterLayout::Ohwi, [3, 2, 1, 4]),
        ];
        for (filter_layout, filter) in layouts {
            let attributes =
                ConvTranspose2dAttributes { groups: 2, filter_layout, input_layout: InputLayout::Nhwc, ..default() };
            assert_eq!(infer(attributes, [1, 5, 5, 4], filter).unwrap(), [1, 6, 5, 6]);
        }
    }

    #[test]
    fn indivisible_channels_are_refused_when_the_graph_is_built() {
        let grouped = |groups| ConvTranspose2dAttributes { groups, ..Default::default() };
        assert_eq!(infer(grouped(3), [1, 4, 5, 5], [4, 2, 3, 3]).unwrap(), [1, 6, 7, 7]);
        let input = Descriptor::new(Float32, [1, 4, 5, 5]);
        let check = |groups| ConvTranspose2d { attributes: grouped(groups) }.check_defined(&[Some(&input)]);
        assert!(check(2).is_ok());
        assert_eq!(check(3).unwrap_err().to_string(), "groups is 3, expected a divisor of 4 input channels");
    }

    #[test]
    fn mismatches_are_named() {
        let default = ConvTranspose2dAttributes::default;
        let fail = |attributes| infer(attributes, [1, 4, 5, 5], [4, 6, 3, 3]).unwrap_err();
        assert_eq!(
            fail(ConvTranspose2dAttributes { output_padding: vec![0, 1], ..default() }),
            "outputPadding is [0, 1], expected numbers below the strides [1, 1]"
        );
        assert_eq!(
            fail(ConvTranspose2dAttributes { output_sizes: Some(dims(&[7, 8])), ..default() }),
            "outputSizes is [7, 8], expected at least [7, 7] and less than the strides [1, 1] above it"
        );
        assert_eq!(
            fail(ConvTranspose2dAttributes { groups: 0, ..default() }),
            "groups is 0, expected a number above 0"
        );
        assert_eq!(
            fail(ConvTranspose2dAttributes { padding: vec![4, 3, 0, 0], ..default() }),
            "output height is 0, expected a dimension between 1 and 2147483647"
        );
        assert_eq!(
            infer(default(), [1, 3, 5, 5], [4, 6, 3, 3]).unwrap_err(),
            "filter has shape [4, 6, 3, 3], expected [3, 6, 3, 3]"
        );
        let hostile = ConvTranspose2dAttributes {
            dilations: vec![u32::MAX; 2],
            strides: vec![u32::MAX; 2],
            output_sizes: Some(dims(&[u32::MAX; 2])),
            ..default()
        };
        assert!(fail(hostile).contains("outputSizes"));
    }
}
