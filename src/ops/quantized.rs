//! Products and convolutions of quantized tensors with exact integer sums, fused by the compiler from
//! `dequantizeLinear`, a product, a clamp and `quantizeLinear`.

use super::attributes::Attributes;
use super::conv2d::{Conv2d, Conv2dAttributes};
use super::elementwise::Elementwise;
use super::matmul::{Gemm, GemmAttributes, Matmul};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, Operator, Tensors, given, required};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::shape::Descriptor;

/// The kind of product.
#[derive(Clone, Debug, PartialEq)]
pub enum ProductKind {
    /// `conv2d()` with its options; channels are the last dimension of input and output.
    Conv2d(Conv2dAttributes),
    /// `matmul()`.
    Matmul,
    /// `gemm()` with a transposed second operand.
    Transposed,
}

impl ProductKind {
    /// Writes the attributes of the product.
    pub fn write(&self, attributes: &mut Attributes) {
        match self {
            ProductKind::Conv2d(options) => options.write(attributes),
            ProductKind::Matmul => {}
            ProductKind::Transposed => attributes.put("bTranspose", &true, &false),
        }
    }

    /// Calls `visit` with every dimension among the attributes.
    pub fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        if let ProductKind::Conv2d(options) = self {
            options.padding.iter_mut().for_each(visit);
        }
    }

    /// The product of the first two operands as if they were floats.
    pub fn infer(&self, inputs: &Inputs) -> Result<Descriptor, Problem> {
        let [input, filter] =
            [0, 1].map(|index| Descriptor::new(DataType::Float32, required(inputs, index).shape.clone()));
        let operands = [Some(&input), Some(&filter)];
        let mut outputs = match self {
            ProductKind::Conv2d(options) => Conv2d { attributes: options.clone() }.infer(&operands)?,
            ProductKind::Matmul => Matmul.infer(&operands)?,
            ProductKind::Transposed => transposed().infer(&operands)?,
        };
        Ok(outputs.remove(0))
    }

    /// Its multiply-adds.
    pub fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        match self {
            ProductKind::Conv2d(options) => Conv2d { attributes: options.clone() }.multiply_adds(inputs, outputs),
            ProductKind::Matmul => Matmul.multiply_adds(inputs, outputs),
            ProductKind::Transposed => transposed().multiply_adds(inputs, outputs),
        }
    }

    /// The sums of products, in float64, for an output of this shape.
    pub fn reference(&self, operands: [&Tensor; 2], output: &Descriptor) -> Tensor {
        let (operands, output) = (operands.map(Some), [Descriptor { dtype: DataType::Float32, ..output.clone() }]);
        let mut sums = match self {
            ProductKind::Conv2d(options) => Conv2d { attributes: options.clone() }.reference(&operands, &output),
            ProductKind::Matmul => Matmul.reference(&operands, &output),
            ProductKind::Transposed => transposed().reference(&operands, &output),
        };
        sums.remove(0)
    }

    /// The dimension of output channels in a filter of this rank.
    pub fn channel_axis(&self, rank: usize) -> usize {
        match self {
            ProductKind::Conv2d(options) => options.filter_layout.axes()[0],
            ProductKind::Matmul => rank - 1,
            ProductKind::Transposed => 0,
        }
    }
}

/// How the elements of a tensor represent numbers: `(x - zero) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The value of a step, finite and above 0.
    pub scale: f32,
    /// The element that represents 0.
    pub zero: i16,
}

impl Scale {
    /// Excludes extreme scales, whose products and quotients may be infinite or 0, and negative ones, which would reverse
    /// clamps.
    pub fn is_usable(&self) -> bool {
        (1e-15..1e15).contains(&self.scale)
    }
}

/// `quantizeLinear(clamp(product(dequantizeLinear(input), dequantizeLinear(filter)) * factor + bias))`.
///
/// Operands are the input and the filter (int8 or uint8), the scales of the filter (float32, one per output channel),
/// its optional zero points (of its type, one per output channel; 0 by default), and an optional bias (float32, one per
/// output channel). Without an output scale, the output is float32. Products whose output is float32 may have two more
/// operands, computed at run time: the zero point of the input (one element, of its type), which replaces the
/// operator's, and the factor (float32, one element, or one per output channel in the last dimension; 1 by default).
/// Last comes an optional addend of the sums of integers, before they are scaled (int32, one per output channel).
///
/// The sums of products are exact. The float32 operations that follow round a few times: the result equals that of the
/// composition within one step of the output, or, without an output scale, within the rounding of its sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// The product.
    pub product: ProductKind,
    /// The scale of the input.
    pub input: Scale,
    /// The minimum before quantization.
    pub min: f32,
    /// The maximum before quantization.
    pub max: f32,
    /// The type of the output, int8 or uint8, and its scale.
    pub output: Option<(DataType, Scale)>,
}

const BYTES: Types = Types::OneOf(&[DataType::Uint8, DataType::Int8]);
const FLOAT: Types = Types::OneOf(&[DataType::Float32]);
const OUTPUT: &[OutputRule] =
    &[output("output", Types::OneOf(&[DataType::Uint8, DataType::Int8, DataType::Float32]), ANY_RANK)];

const fn rule(name: &'static str, operands: &'static [OperandRule]) -> OpRule {
    OpRule { name, operands, outputs: OUTPUT }
}

/// Maximum number of terms per sum: with 9-bit factors it is below 2^31.
pub const MAX_DEPTH: usize = 32768;

impl Quantized {
    /// The maximum magnitude of a scaled sum, in steps of the output, for magnitudes of filter scales up to `scale` and
    /// of the bias up to `bias`. Above 2^30, the operator must not be used.
    pub fn largest(&self, depth: usize, scale: f32, bias: f32) -> f64 {
        let sum = depth as f64 * 255.0 * 255.0 * self.input.scale as f64 * scale as f64 + bias as f64;
        sum / self.output.map_or(1.0, |(_, output)| output.scale as f64)
    }
}

impl Operator for Quantized {
    fn rule(&self) -> &'static OpRule {
        const OPERANDS: &[OperandRule] = &[
            operand("input", BYTES, ANY_RANK),
            operand("filter", BYTES, ANY_RANK),
            operand("filterScale", FLOAT, (1, 1)),
            optional("filterZeroPoint", Types::SameAs("filter"), (1, 1)),
            optional("bias", FLOAT, (1, 1)),
            optional("inputZeroPoint", Types::SameAs("input"), ANY_RANK),
            optional("factor", FLOAT, ANY_RANK),
            optional("addend", Types::OneOf(&[DataType::Int32]), (1, 1)),
        ];
        const CONV2D: OpRule = rule("quantizedConv2d", OPERANDS);
        const MATMUL: OpRule = rule("quantizedMatmul", OPERANDS);
        match self.product {
            ProductKind::Conv2d(_) => &CONV2D,
            _ => &MATMUL,
        }
    }

    fn write(&self, attributes: &mut Attributes) {
        self.product.write(attributes);
        let mut put = |name, value: f64, default: f64| attributes.put(name, &value, &default);
        put("inputScale", self.input.scale as f64, f64::NAN);
        put("inputZeroPoint", self.input.zero as f64, 0.0);
        put("minValue", self.min as f64, f64::NEG_INFINITY);
        put("maxValue", self.max as f64, f64::INFINITY);
        if let Some((_, output)) = self.output {
            put("outputScale", output.scale as f64, f64::NAN);
            put("outputZeroPoint", output.zero as f64, 0.0);
        }
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.product.visit_dims(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let mut output = self.product.infer(inputs)?;
        let channels = output.shape.last().copied().unwrap_or(Dim::number(1));
        for (operand, index) in [("filterScale", 2), ("filterZeroPoint", 3), ("bias", 4), ("addend", 7)] {
            if let Some(got) = given(inputs, index).filter(|got| got.shape != [channels]) {
                return Err(Problem::Shape { operand, got: got.shape.clone(), expected: vec![channels] });
            }
        }
        for (operand, index) in [("inputZeroPoint", 5), ("factor", 6)] {
            let fits = |shape: &[Dim]| is_single(shape) || index == 6 && is_per_channel(shape, channels);
            if let Some(got) = given(inputs, index).filter(|got| !fits(&got.shape)) {
                return Err(Problem::Shape { operand, got: got.shape.clone(), expected: Vec::new() });
            }
        }
        output.dtype = self.output.map_or(DataType::Float32, |(dtype, _)| dtype);
        Ok(vec![output])
    }

    fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        self.product.multiply_adds(inputs, outputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let float =
            |shape: &[usize]| Descriptor::new(DataType::Float32, shape.iter().map(|&d| d as u32).collect::<Vec<_>>());
        let (input, filter, scales) = (required(inputs, 0), required(inputs, 1), required(inputs, 2));
        let zero =
            given(inputs, 5).map_or(self.input.zero as f64, |zero| zero.numbers().next().map_or(0.0, Number::to_f64));
        let factors: Vec<f64> =
            given(inputs, 6).map_or(vec![1.0], |factor| factor.numbers().map(Number::to_f64).collect());
        let x = Tensor::from_fn(&float(input.shape()), |index| {
            Number::Float((input.at(index).to_f64() - zero) * self.input.scale as f64)
        });
        let axis = self.product.channel_axis(filter.shape().len());
        let w = Tensor::from_fn(&float(filter.shape()), |index| {
            let channel = [index[axis]];
            let zero = given(inputs, 3).map_or(0.0, |zeros| zeros.at(&channel).to_f64());
            Number::Float((filter.at(index).to_f64() - zero) * scales.at(&channel).to_f64())
        });
        let sums = self.product.reference([&x, &w], &outputs[0]);
        vec![Tensor::from_fn(&outputs[0], |index| {
            let channel = index.last().copied().unwrap_or(0);
            let bias = given(inputs, 4).map_or(0.0, |bias| bias.at(&[channel]).to_f64());
            let factor = factors[channel % factors.len()];
            let scale = self.input.scale as f64 * scales.at(&[channel]).to_f64();
            let addend = given(inputs, 7).map_or(0.0, |addend| addend.at(&[channel]).to_f64() * scale);
            let value = ((sums.at(index).to_f64() + addend) * factor + bias).max(self.min as f64).min(self.max as f64);
            match self.output {
                None => Number::Float(value),
                Some((dtype, Scale { scale, zero })) => {
                    let operands = [Number::Float(value), Number::Float(scale as f64), Number::Int(zero as i128)];
                    Elementwise::Quantize.eval(&operands, dtype)
                }
            }
        })]
    }
}

/// Whether a tensor of this shape has a single element.
pub fn is_single(shape: &[Dim]) -> bool {
    shape.iter().all(|&size| size == 1)
}

/// Whether a tensor of this shape has one element per channel, in its last dimension.
fn is_per_channel(shape: &[Dim], channels: Dim) -> bool {
    shape.last() == Some(&channels) && shape[..shape.len() - 1].iter().all(|&size| size == 1)
}

fn transposed() -> Gemm {
    Gemm { attributes: GemmAttributes { b_transpose: true, ..GemmAttributes::default() } }
}
