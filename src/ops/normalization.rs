//! `batchNormalization()`, `instanceNormalization()` and `layerNormalization()`.

use super::attributes::Attributes;
use super::gather::check_axis;
use super::reduce::reduced_axes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::spatial::InputLayout;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, cast_to, given, place_of, required};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;

crate::attributes! {
    /// `batchNormalization()`; operands are input, mean, variance, scale and bias.
    pub struct BatchNormalization {
        /// The dimension of the features.
        axis "axis": u32 = 1,
        /// The number added to the variance.
        epsilon "epsilon": f64 = 1e-5,
    }
}

crate::attributes! {
    /// `instanceNormalization()`; operands are input, scale and bias.
    pub struct InstanceNormalization {
        /// The number added to the variance.
        epsilon "epsilon": f64 = 1e-5,
        /// The layout of the input.
        layout "layout": InputLayout = InputLayout::Nchw,
    }
}

crate::attributes! {
    /// `layerNormalization()`; operands are input, scale and bias.
    pub struct LayerNormalization {
        /// The dimensions of a layer, in the order of the dimensions of scale and bias; by default all but the first.
        axes "axes": Option<Vec<u32>> = None,
        /// The number added to the variance.
        epsilon "epsilon": f64 = 1e-5,
    }
}

/// An optional operand of the input's type.
const fn weights(name: &'static str, ranks: Ranks) -> OperandRule {
    optional(name, Types::SameAs("input"), ranks)
}

/// Checks the shape of an operand.
fn check_shape(operand: &'static str, got: &Descriptor, expected: &[Dim]) -> Result<(), Problem> {
    match got.shape == expected {
        true => Ok(()),
        false => Err(Problem::Shape { operand, got: got.shape.clone(), expected: expected.to_vec() }),
    }
}

/// Checks the shapes of the operands that are present, from `first` on.
fn check_shapes(names: &[&'static str], inputs: &Inputs, first: usize, expected: &[Dim]) -> Result<(), Problem> {
    let operands = names.iter().enumerate().filter_map(|(i, name)| Some((name, given(inputs, first + i)?)));
    operands.into_iter().try_for_each(|(name, operand)| check_shape(name, operand, expected))
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias`.
fn normalized(x: f64, [mean, variance]: [f64; 2], epsilon: f64, [scale, bias]: [f64; 2]) -> Number {
    Number::Float((x - mean) / (variance + epsilon).sqrt() * scale + bias)
}

/// The element of an optional operand, or its default.
fn weight(operand: Option<&Tensor>, index: &[usize], default: f64) -> f64 {
    operand.map_or(default, |operand| operand.floats()[index])
}

/// Mean and variance of the elements of `input` that agree with `index` in the dimensions that are not `reduced`.
fn moments(input: &Tensor, index: &[usize], reduced: &[bool]) -> [f64; 2] {
    let window = input.floats().slice_each_axis(|axis| {
        let i = axis.axis.index();
        if reduced[i] { (..).into() } else { (index[i]..index[i] + 1).into() }
    });
    let mean = window.sum() / window.len() as f64;
    [mean, window.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / window.len() as f64]
}

impl NamedOperator for BatchNormalization {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "batchNormalization",
        operands: &[
            operand("input", FLOATS, FROM_1D),
            operand("mean", Types::SameAs("input"), (1, 1)),
            operand("variance", Types::SameAs("input"), (1, 1)),
            weights("scale", (1, 1)),
            weights("bias", (1, 1)),
        ],
        outputs: &[output("output", Types::SameAs("input"), FROM_1D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<BatchNormalization, Problem> {
        BatchNormalization::read(attributes)
    }
}

impl Operator for BatchNormalization {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        BatchNormalization::write(self, attributes);
    }

    fn resolve(&mut self, inputs: &Inputs) -> Result<(), Problem> {
        self.epsilon = cast_to(self.epsilon, inputs, 0);
        Ok(())
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        Some(BatchNormalization { axis: place_of(axes, self.axis), ..self.clone() })
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let features = input.shape[check_axis(self.axis, input)?];
        check_shapes(&["mean", "variance", "scale", "bias"], inputs, 1, &[features])?;
        Ok(vec![input.clone()])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        (along.axis != self.axis as usize).then(|| Rows::of_first(self.clone(), along, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let [input, mean, variance] = [0, 1, 2].map(|index| required(inputs, index).floats());
        let (scale, bias) = (given(inputs, 3), given(inputs, 4));
        vec![Tensor::from_fn(&outputs[0], |index| {
            let feature = &index[self.axis as usize..][..1];
            let weights = [weight(scale, feature, 1.0), weight(bias, feature, 0.0)];
            normalized(input[index], [mean[feature], variance[feature]], self.epsilon, weights)
        })]
    }
}

impl NamedOperator for InstanceNormalization {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "instanceNormalization",
        operands: &[operand("input", FLOATS, (4, 4)), weights("scale", (1, 1)), weights("bias", (1, 1))],
        outputs: &[output("output", Types::SameAs("input"), (4, 4))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<InstanceNormalization, Problem> {
        InstanceNormalization::read(attributes)
    }
}

impl Operator for InstanceNormalization {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        InstanceNormalization::write(self, attributes);
    }

    fn resolve(&mut self, inputs: &Inputs) -> Result<(), Problem> {
        self.epsilon = cast_to(self.epsilon, inputs, 0);
        Ok(())
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        Some(InstanceNormalization { layout: self.layout.transposed(axes)?, ..self.clone() })
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        check_shapes(&["scale", "bias"], inputs, 1, &[input.shape[self.channel_axis()]])?;
        Ok(vec![input.clone()])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let together = self.reduced()[along.axis] || along.axis == self.channel_axis();
        (!together).then(|| Rows::of_first(self.clone(), along, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, axis) = (required(inputs, 0), self.channel_axis());
        let (scale, bias) = (given(inputs, 1), given(inputs, 2));
        vec![Tensor::from_fn(&outputs[0], |index| {
            let channel = &index[axis..][..1];
            let weights = [weight(scale, channel, 1.0), weight(bias, channel, 0.0)];
            let moments = moments(input, index, &self.reduced());
            normalized(input.floats()[index], moments, self.epsilon, weights)
        })]
    }
}

impl InstanceNormalization {
    /// The dimension of the channels.
    pub fn channel_axis(&self) -> usize {
        self.layout.axes()[1]
    }

    /// For each dimension, whether mean and variance are computed over it.
    pub fn reduced(&self) -> [bool; 4] {
        let [_, _, height, width] = self.layout.axes();
        std::array::from_fn(|axis| axis == height || axis == width)
    }
}

impl NamedOperator for LayerNormalization {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "layerNormalization",
        operands: &[operand("input", FLOATS, ANY_RANK), weights("scale", ANY_RANK), weights("bias", ANY_RANK)],
        outputs: &[output("output", Types::SameAs("input"), ANY_RANK)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<LayerNormalization, Problem> {
        LayerNormalization::read(attributes)
    }
}

impl Operator for LayerNormalization {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        LayerNormalization::write(self, attributes);
    }

    fn resolve(&mut self, inputs: &Inputs) -> Result<(), Problem> {
        self.epsilon = cast_to(self.epsilon, inputs, 0);
        Ok(())
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let axes = self.axes(input.rank());
        reduced_axes(input.rank(), Some(&axes))?;
        let sizes: Vec<Dim> = axes.iter().map(|&axis| input.shape[axis as usize]).collect();
        check_shapes(&["scale", "bias"], inputs, 1, &sizes)?;
        Ok(vec![input.clone()])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let together = self.axes(output.rank()).contains(&(along.axis as u32));
        (!together).then(|| Rows::of_first(self.clone(), along, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, axes) = (required(inputs, 0), self.axes(outputs[0].rank()));
        let reduced = reduced_axes(outputs[0].rank(), Some(&axes)).expect("inferred");
        let (scale, bias) = (given(inputs, 1), given(inputs, 2));
        vec![Tensor::from_fn(&outputs[0], |index| {
            let place: Vec<usize> = axes.iter().map(|&axis| index[axis as usize]).collect();
            let weights = [weight(scale, &place, 1.0), weight(bias, &place, 0.0)];
            normalized(input.floats()[index], moments(input, index, &reduced), self.epsilon, weights)
        })]
    }
}

impl LayerNormalization {
    /// The dimensions of a layer in an input of rank `rank`.
    pub fn axes(&self, rank: usize) -> Vec<u32> {
        self.axes.clone().unwrap_or_else(|| (1..rank as u32).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType::Float32;

    fn infer(op: &impl Operator, shapes: &[Option<&[u32]>]) -> Result<Vec<u32>, String> {
        let inputs: Vec<_> = shapes.iter().map(|shape| shape.map(|shape| Descriptor::new(Float32, shape))).collect();
        let inputs: Vec<_> = inputs.iter().map(|input| input.as_ref()).collect();
        op.infer(&inputs).map(|mut outputs| outputs.remove(0).sizes().to_vec()).map_err(|problem| problem.to_string())
    }

    #[test]
    fn batch_shapes() {
        let op = BatchNormalization::default();
        let input = Some(&[2, 3, 4][..]);
        assert_eq!(infer(&op, &[input, Some(&[3]), Some(&[3])]), Ok(vec![2, 3, 4]));
        assert_eq!(infer(&op, &[input, Some(&[3]), Some(&[3]), None, Some(&[3])]), Ok(vec![2, 3, 4]));
        let message = infer(&op, &[input, Some(&[3]), Some(&[4])]).unwrap_err();
        assert_eq!(message, "variance has shape [4], expected [3]");
        let message = infer(&op, &[input, Some(&[3]), Some(&[3]), None, Some(&[2])]).unwrap_err();
        assert_eq!(message, "bias has shape [2], expected [3]");
        assert!(infer(&op, &[Some(&[3]), Some(&[3]), Some(&[3])]).unwrap_err().starts_with("axis is 1"));
    }

    #[test]
    fn instance_shapes() {
        let input = Some(&[2, 3, 4, 5][..]);
        let op = InstanceNormalization::default();
        assert_eq!(infer(&op, &[input, Some(&[3])]), Ok(vec![2, 3, 4, 5]));
        assert_eq!(infer(&op, &[input, Some(&[5])]).unwrap_err(), "scale has shape [5], expected [3]");
        let op = InstanceNormalization { layout: InputLayout::Nhwc, ..op };
        assert_eq!(infer(&op, &[input, None, Some(&[5])]), Ok(vec![2, 3, 4, 5]));
        assert_eq!(op.reduced(), [false, true, true, false]);
    }

    #[test]
    fn layer_shapes() {
        let input = Some(&[2, 3, 4][..]);
        let op = |axes: Option<&[u32]>| LayerNormalization { axes: axes.map(Vec::from), epsilon: 0.0 };
        assert_eq!(infer(&op(None), &[input, Some(&[3, 4])]), Ok(vec![2, 3, 4]));
        assert_eq!(infer(&op(Some(&[2, 0])), &[input, Some(&[4, 2]), Some(&[4, 2])]), Ok(vec![2, 3, 4]));
        assert_eq!(infer(&op(Some(&[])), &[input, Some(&[])]), Ok(vec![2, 3, 4]));
        assert_eq!(infer(&op(None), &[Some(&[])]), Ok(vec![]));
        assert_eq!(infer(&op(None), &[Some(&[5]), Some(&[])]), Ok(vec![5]));
        let message = infer(&op(Some(&[2, 0])), &[input, Some(&[2, 4])]).unwrap_err();
        assert_eq!(message, "scale has shape [2, 4], expected [4, 2]");
        assert!(infer(&op(None), &[input, None, Some(&[4])]).is_err());
        assert!(infer(&op(Some(&[3])), &[input]).is_err());
        assert!(infer(&op(Some(&[1, 1])), &[input]).is_err());
    }

    #[test]
    fn layers_have_mean_0_and_variance_1() {
        let input = Tensor::float(Float32, ndarray::arr2(&[[1.0, 3.0], [5.0, 15.0]]).into_dyn());
        let op = LayerNormalization { axes: None, epsilon: 0.0 };
        let output = &op.reference(&[Some(&input)], &[input.descriptor()])[0];
        assert_eq!(output.to_vec::<f32>(), [-1.0, 1.0, -1.0, 1.0]);
    }
}
