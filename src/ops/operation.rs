//! The closed sets of operators: those of the API, those of ONNX beside it, those of the compiler, and their union for
//! nodes.

use super::attributes::Attributes;
use super::elementwise::Elementwise;
use super::extension::elementwise::Extended;
use super::operator::{Inputs, NamedOperator, Operator, Tensors, no_operator};
use super::rows::{Along, Rows};
use super::rule::OpRule;
use super::tensor::Tensor;
use super::*;
use crate::dimension::Dim;
use crate::error::Problem;
use crate::shape::{Descriptor, MAX_VALUE_BYTES};

macro_rules! operators {
    ($(#[$meta:meta])* $Enum:ident { $($(#[$variant:meta])* $Variant:ident($Family:ty),)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $Enum { $($(#[$variant])* $Variant($Family),)* }

        impl Operator for $Enum {
            fn rule(&self) -> &'static OpRule {
                match self { $($Enum::$Variant(op) => Operator::rule(op),)* }
            }
            fn write(&self, attributes: &mut Attributes) {
                match self { $($Enum::$Variant(op) => Operator::write(op, attributes),)* }
            }
            fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
                match self { $($Enum::$Variant(op) => Operator::infer(op, inputs),)* }
            }
            fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
                match self { $($Enum::$Variant(op) => Operator::reference(op, inputs, outputs),)* }
            }
            fn check_defined(&self, inputs: &Inputs) -> Result<(), Problem> {
                match self { $($Enum::$Variant(op) => Operator::check_defined(op, inputs),)* }
            }
            fn resolve(&mut self, inputs: &Inputs) -> Result<(), Problem> {
                match self { $($Enum::$Variant(op) => Operator::resolve(op, inputs),)* }
            }
            fn transposed(&self, axes: &[usize]) -> Option<Self> {
                match self { $($Enum::$Variant(op) => Operator::transposed(op, axes).map($Enum::$Variant),)* }
            }
            fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, count: Dim) -> Option<Rows<Self>> {
                match self {
                    $($Enum::$Variant(op) => Some(Operator::rows(op, inputs, output, along, count)?.map($Enum::$Variant)),)*
                }
            }
            fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
                match self { $($Enum::$Variant(op) => Operator::visit_dims(op, visit),)* }
            }
            fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
                match self { $($Enum::$Variant(op) => Operator::multiply_adds(op, inputs, outputs),)* }
            }
            fn bytes_read(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
                match self { $($Enum::$Variant(op) => Operator::bytes_read(op, inputs, outputs),)* }
            }
        }

        impl $Enum {
            /// The rule of this operator.
            pub fn rule(&self) -> &'static OpRule {
                Operator::rule(self)
            }

            /// The attributes that differ from their defaults.
            pub fn attributes(&self) -> Attributes {
                let mut attributes = Attributes::default();
                self.write(&mut attributes);
                attributes
            }

            /// Validates `inputs` against the rule, casts and checks the attributes, and returns the checked
            /// descriptors of the outputs, values of a graph.
            pub fn resolve(&mut self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
                self.rule().validate(inputs)?;
                Operator::resolve(self, inputs)?;
                let outputs = self.infer(inputs)?;
                outputs.iter().try_for_each(|output| output.check_bytes("output", MAX_VALUE_BYTES))?;
                Ok(outputs)
            }

            /// Like [`resolve`](Self::resolve), for outputs of at most `most` bytes.
            pub fn resolve_below(&mut self, inputs: &Inputs, most: u64) -> Result<Vec<Descriptor>, Problem> {
                let outputs = self.resolve(inputs)?;
                outputs.iter().try_for_each(|output| output.check_bytes("output", most))?;
                Ok(outputs)
            }
        }

        $(impl From<$Family> for $Enum {
            fn from(op: $Family) -> $Enum { $Enum::$Variant(op) }
        })*
    };
}

macro_rules! named {
    ($(#[$meta:meta])* $Enum:ident { $($(#[$variant:meta])* $Variant:ident($Family:ty),)* }) => {
        operators! { $(#[$meta])* $Enum { $($(#[$variant])* $Variant($Family),)* } }

        impl $Enum {
            /// The rules of all operators.
            pub fn rules() -> impl Iterator<Item = &'static OpRule> {
                [$(<$Family as NamedOperator>::RULES,)*].into_iter().flatten()
            }

            /// The operator `name` with `attributes`.
            ///
            /// # Errors
            /// If it does not exist, or an attribute is of the wrong kind or unknown.
            pub fn read(name: &str, mut attributes: Attributes) -> Result<$Enum, Problem> {
                let op = $(if <$Family as NamedOperator>::RULES.iter().any(|rule| rule.name == name) {
                    $Enum::$Variant(<$Family as NamedOperator>::read(name, &mut attributes)?)
                } else)* {
                    return Err(no_operator(name));
                };
                match attributes.0.pop_first() {
                    None => Ok(op),
                    Some((unknown, _)) => Err(Problem::attribute("attribute", unknown, "an attribute of the operator")),
                }
            }
        }

        $(impl From<$Family> for Operation {
            fn from(op: $Family) -> Operation { $Enum::from(op).into() }
        })*
    };
}

named! {
    /// An operator of the API with its attributes, one per method of MLGraphBuilder.
    Op {
        /// `reduceL1()` and the other reductions.
        Reduce(reduce::Reduce),
        /// Element-wise operators: unary, binary, logical, activations, `where`, `cast`, `prelu`.
        Elementwise(elementwise::Elementwise),
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
        /// `quantizeLinear()` and `dequantizeLinear()`.
        Quantize(quantize::Quantize),
        /// `softmax()`.
        Softmax(softmax::Softmax),
    }
}

operators! {
    /// An operator that the compiler fuses from several. The API has none of these.
    Fusion {
        /// A fused chain of element-wise operators.
        Fused(fused::Fused),
        /// Fused attention.
        Attention(Box<attention::Attention>),
        /// Fused root-mean-square normalization.
        RmsNormalization(rms_normalization::RmsNormalization),
        /// A fused product of quantized tensors.
        Quantized(quantized::Quantized),
        /// A fused product with 4-bit or 8-bit weights.
        BlockProduct(block_product::BlockProduct),
    }
}

named! {
    /// An operator of ONNX that the API lacks.
    Extension {
        /// Element-wise operators.
        Elementwise(extension::elementwise::Extended),
        /// `LogSoftmax`.
        LogSoftmax(extension::log_softmax::LogSoftmax),
        /// `RotaryEmbedding`.
        Rotate(extension::rotate::Rotate),
        /// `MatMulInteger`, and `ConvInteger` with channels last.
        IntegerProduct(extension::integer_product::IntegerProduct),
        /// `Col2Im` of images.
        Col2Im(extension::col2im::Col2Im),
        /// `com.microsoft.CropAndResize` of images with channels last.
        CropAndResize(extension::crop_and_resize::CropAndResize),
        /// What `DeformConv` multiplies, of images with channels last.
        DeformColumns(extension::deform_columns::DeformColumns),
        /// `DFT` along the last dimension but that of components.
        Dft(extension::dft::Dft),
        /// `com.microsoft.DynamicQuantizeLSTM`, whose other weights are floats.
        DynamicQuantizeLstm(extension::dynamic_quantize_lstm::DynamicQuantizeLstm),
        /// What `MoE` multiplies.
        ExpertProduct(extension::expert_product::ExpertProduct),
        /// `GridSample` of images with channels last.
        GridSample(extension::grid_sample::GridSample),
        /// `LinearAttention`, with a dimension of heads and factors for logarithmic decays.
        LinearAttention(extension::linear_attention::LinearAttention),
        /// `MaxRoiPool`.
        MaxRoiPool(extension::max_roi_pool::MaxRoiPool),
        /// What `SVMClassifier` makes of probabilities of pairs.
        PairwiseCoupling(extension::pairwise_coupling::PairwiseCoupling),
        /// `RoiAlign` of images with channels last.
        RoiAlign(extension::roi_align::RoiAlign),
        /// `ScatterElements` with a reduction, or with indices for a part of the input.
        ScatterElementsReduced(extension::scatter::ScatterElementsReduced),
        /// `ScatterND` with a reduction.
        ScatterNdReduced(extension::scatter::ScatterNdReduced),
        /// `TopK`, without the values.
        TopK(extension::top_k::TopK),
        /// `TreeEnsemble` and its predecessors, without what follows the sums.
        TreeEnsemble(extension::tree_ensemble::TreeEnsemble),
    }
}

operators! {
    /// The operation of a node.
    Operation {
        /// An operator of the API.
        Api(Op),
        /// An operator of the compiler.
        Fusion(Fusion),
        /// An operator of ONNX.
        Extension(Extension),
    }
}

impl Extension {
    /// Whether GPUs have a kernel for this operator.
    pub fn is_for_gpus(&self) -> bool {
        matches!(self, Extension::Elementwise(_))
    }
}

impl Operation {
    /// The operator, if it is an element-wise one of the API or of ONNX.
    pub fn elementwise(&self) -> Option<Elementwise> {
        match self {
            Operation::Api(Op::Elementwise(op)) => Some(*op),
            Operation::Extension(Extension::Elementwise(Extended(op))) => Some(*op),
            _ => None,
        }
    }

    /// The operator `name` of the API or of ONNX with `attributes`.
    ///
    /// # Errors
    /// If it does not exist, or an attribute is of the wrong kind or unknown.
    pub fn read(name: &str, attributes: Attributes) -> Result<Operation, Problem> {
        match Extension::rules().any(|rule| rule.name == name) {
            true => Ok(Extension::read(name, attributes)?.into()),
            false => Ok(Op::read(name, attributes)?.into()),
        }
    }
}
