//! The operators: one file per family, each the single source of truth for its attributes, rule rows, shape rule
//! and naive reference. [`Op`] is the closed set of them.

pub mod arg_min_max;
pub mod attention;
pub mod attributes;
pub mod concat;
pub mod conv2d;
pub mod conv_transpose2d;
pub mod cumulative_sum;
pub mod elementwise;
pub mod fused;
pub mod gather;
pub mod gru;
pub mod limits;
pub mod lstm;
pub mod matmul;
pub mod normalization;
pub mod pad;
pub mod pool2d;
pub mod quantize;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod resample2d;
pub mod reshape;
pub mod reverse;
pub mod rms_normalization;
pub mod rule;
pub mod scatter;
pub mod slice;
pub mod softmax;
pub mod spatial;
pub mod split;
pub mod strided;
#[cfg(test)]
pub(crate) mod sweep;
pub mod tensor;
pub mod tile;
pub mod transpose;
pub mod triangular;
#[cfg(test)]
mod work;

use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;
use attributes::Attributes;
use rule::OpRule;
use std::fmt;
use tensor::Tensor;

/// The descriptors of a node's operands, in the order of the rule row; an optional one can be absent.
pub type Inputs<'a> = [Option<&'a Descriptor>];
/// The oracle tensors of a node's operands, in the order of the rule row; an optional one can be absent.
pub type Tensors<'a> = [Option<&'a Tensor>];

/// The operand at `index`, which the rule row requires and validation has found.
pub fn required<'a, T>(operands: &[Option<&'a T>], index: usize) -> &'a T {
    given(operands, index).expect("validated against the rule row")
}

/// The operand at `index`, if it was given.
pub fn given<'a, T>(operands: &[Option<&'a T>], index: usize) -> Option<&'a T> {
    operands.get(index).copied().flatten()
}

/// The most operands of a `concat()` and outputs of a `split()`: "valid tensor count" of the draft.
pub const MAX_TENSOR_COUNT: usize = 8192;

/// What every operator family provides.
pub trait Operator: Clone + fmt::Debug + PartialEq + Sized {
    /// The rows of all methods of this family.
    const RULES: &'static [OpRule];

    /// The operator that the method `name` (one of [`RULES`](Self::RULES)) makes with `attributes`; takes out what
    /// it knows.
    fn read(name: &str, attributes: &mut Attributes) -> Result<Self, Problem>;

    /// The row of this operator.
    fn rule(&self) -> &'static OpRule;

    /// Attributes that differ from their defaults.
    fn write(&self, attributes: &mut Attributes);

    /// The shape rule: outputs for `inputs` that the rule row accepts. Data types of the outputs are set here too.
    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem>;

    /// The naive reference, straight from the formulas of the draft. `outputs` is what [`infer`](Self::infer) gave.
    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor>;

    /// Checks what the draft's steps of the method let pass although its formulas do not cover it. Called when the graph
    /// is built.
    fn check_defined(&self, _inputs: &Inputs) -> Result<(), Problem> {
        Ok(())
    }

    /// Numbers in the attributes are cast to the data type of the operands they are used with, and attributes
    /// that depend on each other are checked (`clamp`). Called once, before [`infer`](Self::infer).
    fn resolve(&mut self, _inputs: &Inputs) -> Result<(), Problem> {
        Ok(())
    }

    /// This operator between tensors of which dimension `i` is dimension `axes[i]` of those that it reads and writes now;
    /// `None` if it cannot do that.
    fn transposed(&self, _axes: &[usize]) -> Option<Self> {
        None
    }

    /// Shows `visit` every dimension among the attributes.
    fn visit_dims(&mut self, _visit: &mut dyn FnMut(&mut Dim)) {}

    /// Multiply-adds of the sums of products that the formulas of the draft have: matrix products, convolutions (terms
    /// with padding included) and the products with weights of recurrent networks. 0 for everything else, element-wise
    /// operators and pooling among it: how long those take depends on the bytes that they move.
    fn multiply_adds(&self, _inputs: &Inputs, _outputs: &[&Descriptor]) -> u64 {
        0
    }

    /// Bytes of the operands that are read, each counted once.
    fn bytes_read(&self, inputs: &Inputs, _outputs: &[&Descriptor]) -> u64 {
        inputs.iter().flatten().map(|input| input.bytes() as u64).sum()
    }
}

/// The place of the dimension `axis` after a transposition by `axes`.
pub fn place_of(axes: &[usize], axis: u32) -> u32 {
    axes.iter().position(|&other| other == axis as usize).expect("a permutation") as u32
}

/// What belongs to the dimensions, after a transposition by `axes`.
pub fn permuted<T: Copy>(axes: &[usize], of_dimensions: &[T]) -> Vec<T> {
    axes.iter().map(|&axis| of_dimensions[axis]).collect()
}

/// The row of that name among the rows of a family.
pub fn row(rules: &'static [OpRule], name: &str) -> &'static OpRule {
    rules.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("no rule row for {name}"))
}

macro_rules! operators {
    ($($(#[$meta:meta])* $Variant:ident($Family:ty),)*) => {
        /// An operator with its attributes.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "a graph has thousands of nodes at most, and bytes of weights by the million")]
        pub enum Op { $($(#[$meta])* $Variant($Family),)* }

        impl Op {
            /// The rows of all operators, one per method of MLGraphBuilder.
            pub fn rules() -> impl Iterator<Item = &'static OpRule> {
                [$(<$Family as Operator>::RULES,)*].into_iter().flatten()
            }

            /// The operator that the method `name` makes with `attributes`.
            ///
            /// # Errors
            /// If there is no such method, an attribute is of the wrong kind, or one is unknown.
            pub fn read(name: &str, mut attributes: Attributes) -> Result<Op, Problem> {
                let op = $(if <$Family as Operator>::RULES.iter().any(|rule| rule.name == name) {
                    Op::$Variant(<$Family as Operator>::read(name, &mut attributes)?)
                } else)* {
                    return Err(Problem::attribute("operator", name, "an operator of the draft"));
                };
                match attributes.0.pop_first() {
                    None => Ok(op),
                    Some((unknown, _)) => Err(Problem::attribute("attribute", unknown, "an attribute of the operator")),
                }
            }

            /// The row of this operator.
            pub fn rule(&self) -> &'static OpRule {
                match self { $(Op::$Variant(op) => op.rule(),)* }
            }

            /// The attributes that differ from their defaults.
            pub fn attributes(&self) -> Attributes {
                let mut attributes = Attributes::default();
                match self { $(Op::$Variant(op) => op.write(&mut attributes),)* }
                attributes
            }

            /// Validates `inputs` against the rule row, casts and checks the attributes, and gives the checked
            /// descriptors of the outputs.
            pub fn resolve(&mut self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
                self.rule().validate(inputs)?;
                let outputs = match self { $(Op::$Variant(op) => { op.resolve(inputs)?; op.infer(inputs)? })* };
                outputs.iter().try_for_each(|output| output.check("output"))?;
                Ok(outputs)
            }

            /// As [`resolve`](Self::resolve), with outputs of at most `most` bytes.
            pub fn resolve_below(&mut self, inputs: &Inputs, most: u64) -> Result<Vec<Descriptor>, Problem> {
                let outputs = self.resolve(inputs)?;
                outputs.iter().try_for_each(|output| output.check_bytes("output", most))?;
                Ok(outputs)
            }

            /// Checks that the formulas of the draft cover what its steps have let pass.
            pub fn check_defined(&self, inputs: &Inputs) -> Result<(), Problem> {
                match self { $(Op::$Variant(op) => op.check_defined(inputs),)* }
            }

            /// This operator between transposed tensors, see [`Operator::transposed`].
            pub fn transposed(&self, axes: &[usize]) -> Option<Op> {
                match self { $(Op::$Variant(op) => op.transposed(axes).map(Op::$Variant),)* }
            }

            /// Shows `visit` every dimension among the attributes, see [`Operator::visit_dims`].
            pub fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
                match self { $(Op::$Variant(op) => op.visit_dims(visit),)* }
            }

            /// Multiply-adds of the sums of products, see [`Operator::multiply_adds`].
            pub fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
                match self { $(Op::$Variant(op) => op.multiply_adds(inputs, outputs),)* }
            }

            /// Bytes of the operands that are read, see [`Operator::bytes_read`].
            pub fn bytes_read(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
                match self { $(Op::$Variant(op) => op.bytes_read(inputs, outputs),)* }
            }

            /// The naive reference of this operator.
            pub fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
                match self { $(Op::$Variant(op) => op.reference(inputs, outputs),)* }
            }
        }

        $(impl From<$Family> for Op {
            fn from(op: $Family) -> Op { Op::$Variant(op) }
        })*
    };
}

operators! {
    /// `reduceL1()` and its kin.
    Reduce(reduce::Reduce),
    /// Element-wise operators: unary, binary, logical, activations, `where`, `cast`, `prelu`.
    Elementwise(elementwise::Elementwise),
    /// A chain of element-wise operators that the compiler made one.
    Fused(fused::Fused),
    /// Attention that the compiler made one.
    Attention(attention::Attention),
    /// `matmul()`.
    Matmul(matmul::Matmul),
    /// `gemm()`.
    Gemm(matmul::Gemm),
    /// `conv2d()`.
    Conv2d(conv2d::Conv2d),
    /// `convTranspose2d()`.
    ConvTranspose2d(conv_transpose2d::ConvTranspose2d),
    /// `averagePool2d()`, `l2Pool2d()` and `maxPool2d()`.
    Pool2d(pool2d::Pool2d),
    /// `gru()`.
    Gru(gru::Gru),
    /// `gruCell()`.
    GruCell(gru::GruCell),
    /// `lstm()`.
    Lstm(lstm::Lstm),
    /// `lstmCell()`.
    LstmCell(lstm::LstmCell),
    /// `concat()`.
    Concat(concat::Concat),
    /// `split()`.
    Split(split::Split),
    /// `slice()`.
    Slice(slice::Slice),
    /// `pad()`.
    Pad(pad::Pad),
    /// `reshape()`.
    Reshape(reshape::Reshape),
    /// `expand()`.
    Expand(reshape::Expand),
    /// `transpose()`.
    Transpose(transpose::Transpose),
    /// `reverse()`.
    Reverse(reverse::Reverse),
    /// `tile()`.
    Tile(tile::Tile),
    /// `triangular()`.
    Triangular(triangular::Triangular),
    /// `resample2d()`.
    Resample2d(resample2d::Resample2d),
    /// `gather()`.
    Gather(gather::Gather),
    /// `gatherElements()`.
    GatherElements(gather::GatherElements),
    /// `gatherND()`.
    GatherNd(gather::GatherNd),
    /// `scatterElements()`.
    ScatterElements(scatter::ScatterElements),
    /// `scatterND()`.
    ScatterNd(scatter::ScatterNd),
    /// `argMin()` and `argMax()`.
    ArgMinMax(arg_min_max::ArgMinMax),
    /// `batchNormalization()`.
    BatchNormalization(normalization::BatchNormalization),
    /// `cumulativeSum()`.
    CumulativeSum(cumulative_sum::CumulativeSum),
    /// `instanceNormalization()`.
    InstanceNormalization(normalization::InstanceNormalization),
    /// `layerNormalization()`.
    LayerNormalization(normalization::LayerNormalization),
    /// Root-mean-square normalisation that the compiler made one operator.
    RmsNormalization(rms_normalization::RmsNormalization),
    /// `quantizeLinear()` and `dequantizeLinear()`.
    Quantize(quantize::Quantize),
    /// A product of quantised tensors, which the compiler made of several operators.
    Quantized(quantized::Quantized),
    /// `softmax()`.
    Softmax(softmax::Softmax),
}

/// A number that stands for a floating-point attribute, cast to the data type of the operand at `index`.
pub fn cast_to(value: f64, inputs: &Inputs, index: usize) -> f64 {
    Number::Float(value).cast(required(inputs, index).dtype).to_f64()
}
