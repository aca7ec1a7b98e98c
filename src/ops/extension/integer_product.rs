//! `matmulInteger` and `convInteger`: products of integers of 8 bits, as integers of 32 bits.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::conv2d::Conv2dAttributes;
use crate::ops::matmul::Matmul;
use crate::ops::quantized::{ProductKind, is_single};
use crate::ops::rows::{Along, Rows};
use crate::ops::rule::*;
use crate::ops::spatial::InputLayout;
use crate::ops::tensor::{Tensor, wrap};
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, given, required, row};
use crate::shape::Descriptor;

/// The product of `input - inputZeroPoint` and `filter - filterZeroPoint`, in the lowest 32 bits.
///
/// Zero points have the types of their operands and are 0 by default: one element, or, for the filter, one per output
/// channel, which is the last dimension of a second matrix. Images have channels last.
#[derive(Clone, Debug, PartialEq)]
pub struct IntegerProduct {
    /// The kind of product.
    pub product: ProductKind,
}

const BYTES: Types = Types::OneOf(&[DataType::Uint8, DataType::Int8]);

macro_rules! rule {
    ($name:literal, $ranks:expr) => {
        OpRule {
            name: $name,
            operands: &[
                operand("input", BYTES, $ranks),
                operand("filter", BYTES, $ranks),
                optional("inputZeroPoint", Types::SameAs("input"), ANY_RANK),
                optional("filterZeroPoint", Types::SameAs("filter"), (0, 1)),
            ],
            outputs: &[output("output", Types::OneOf(&[DataType::Int32]), $ranks)],
        }
    };
}

impl NamedOperator for IntegerProduct {
    const RULES: &'static [OpRule] = &[rule!("convInteger", (4, 4)), rule!("matmulInteger", FROM_2D)];

    fn read(name: &str, attributes: &mut Attributes) -> Result<IntegerProduct, Problem> {
        let product = match name {
            "convInteger" => ProductKind::Conv2d(Conv2dAttributes::read(attributes)?),
            _ => ProductKind::Matmul,
        };
        Ok(IntegerProduct { product })
    }
}

impl Operator for IntegerProduct {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, if matches!(self.product, ProductKind::Conv2d(_)) { "convInteger" } else { "matmulInteger" })
    }

    fn write(&self, attributes: &mut Attributes) {
        self.product.write(attributes);
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.product.visit_dims(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        if let ProductKind::Conv2d(Conv2dAttributes { input_layout: InputLayout::Nchw, .. }) = self.product {
            return Err(Problem::attribute("inputLayout", "nchw", "nhwc"));
        }
        let mut output = self.product.infer(inputs)?;
        output.dtype = DataType::Int32;
        let channels = output.shape.last().copied().unwrap_or(Dim::ONE);
        for (operand, index) in [("inputZeroPoint", 2), ("filterZeroPoint", 3)] {
            let fits = |shape: &[Dim]| is_single(shape) || index == 3 && *shape == [channels];
            if let Some(got) = given(inputs, index).filter(|got| !fits(&got.shape)) {
                return Err(Problem::Shape { operand, got: got.shape.clone(), expected: Vec::new() });
            }
        }
        Ok(vec![output])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, count: Dim) -> Option<Rows<Self>> {
        let ProductKind::Matmul = self.product else { return None };
        let mut rows = Matmul.rows(&inputs[..2], output, along, count)?.map(|_| self.clone());
        rows.operands.resize(inputs.len(), None);
        Some(rows)
    }

    fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        self.product.multiply_adds(inputs, outputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let numbers = |operand: usize, axis: usize| {
            let zeros: Vec<f64> =
                given(inputs, operand + 2).map_or(vec![0.0], |zeros| zeros.numbers().map(Number::to_f64).collect());
            let bytes = required(inputs, operand);
            let float = Descriptor { dtype: DataType::Float32, ..bytes.descriptor() };
            Tensor::from_fn(&float, |index| Number::Float(bytes.at(index).to_f64() - zeros[index[axis] % zeros.len()]))
        };
        let axis = self.product.channel_axis(required(inputs, 1).shape().len());
        // Exact as float64.
        let sums = self.product.reference([&numbers(0, 0), &numbers(1, axis)], &outputs[0]);
        vec![Tensor::from_fn(&outputs[0], |index| Number::Int(wrap(DataType::Int32, sums.at(index).to_f64() as i128)))]
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    fn check_matmul([a, b]: [&str; 2], sources: [&str; 3], [az, bz]: [&str; 2], types: [&str; 2]) {
        let [x, w] = types;
        let [of_b, of_az, of_bz] = sources;
        let text = format!(
            "%0 = input a {x} {a}
             %1 = {of_b} {w} {b}
             %2 = {of_az} {x} {az}
             %3 = {of_bz} {w} {bz}
             %4 = matmulInteger %0 %1 %2 %3
             output y = %4"
        );
        let named = text.replace("1 = input", "1 = input b").replace("2 = input", "2 = input az");
        check(&parse(&named.replace("3 = input", "3 = input bz")), Tolerance::EXACT);
    }

    #[test]
    fn matrices_of_any_source() {
        let shapes = [
            ("[1, 9]", "[9, 70]", "[70]"),
            ("[13, 70]", "[70, 33]", "[33]"),
            ("[3, 5, 7]", "[7, 4]", "[4]"),
            ("[5, 7]", "[2, 1, 7, 4]", "[]"),
            ("[3, 1, 2, 5]", "[1, 4, 5, 3]", "[3]"),
            ("[4, 1, 64]", "[4, 64, 65]", "[65]"),
            ("[100, 600]", "[600, 17]", "[1]"),
        ];
        for (index, (a, b, zeros)) in shapes.into_iter().enumerate() {
            for types in [["uint8", "int8"], ["int8", "int8"], ["uint8", "uint8"], ["int8", "uint8"]] {
                for bits in (0..8).filter(|bits| (bits + index) % 3 == 0) {
                    let sources = [0, 1, 2].map(|bit| if bits >> bit & 1 == 0 { "input" } else { "constant" });
                    check_matmul([a, b], sources, ["[]", zeros], types);
                }
            }
        }
    }

    #[test]
    fn convolutions_of_any_source() {
        for (groups, inputs, outputs, options) in [
            (1, 3, 5, "padding=[1, 1, 1, 1]"),
            (1, 20, 70, "strides=[2, 2] padding=[0, 1, 1, 2]"),
            (2, 8, 34, "padding=[1, 0, 2, 0] dilations=[2, 2]"),
            (40, 40, 40, "padding=[1, 1, 1, 1]"),
            (70, 70, 70, "padding=[1, 1, 1, 1] strides=[2, 2]"),
        ] {
            for types in [["uint8", "int8"], ["int8", "uint8"]] {
                for (w, xz, wz) in [
                    ("constant", "constant", "constant"),
                    ("constant", "input xz", "constant"),
                    ("constant", "input xz", "input wz"),
                    ("input w", "input xz", "constant"),
                ] {
                    let [x, f] = types;
                    check(
                        &parse(&format!(
                            "%0 = input x {x} [2, 9, 8, {inputs}]
                             %1 = {w} {f} [{outputs}, {}, 3, 3]
                             %2 = {xz} {x} []
                             %3 = {wz} {f} [{outputs}]
                             %4 = convInteger %0 %1 %2 %3 groups={groups} inputLayout=nhwc {options}
                             output y = %4",
                            inputs / groups
                        )),
                        Tolerance::EXACT,
                    );
                }
            }
        }
    }

    #[test]
    fn many_taps_and_sums_that_wrap() {
        check(
            &parse(
                "%0 = input x uint8 [1, 24, 24, 1]
                 %1 = constant int8 [3, 1, 20, 20]
                 %2 = convInteger %0 %1 inputLayout=nhwc
                 output y = %2",
            ),
            Tolerance::EXACT,
        );
        // 255 * 255 * 40000 is above 2^31.
        check(
            &parse(
                "%0 = constant uint8 [1, 40000] 255
                 %1 = input b uint8 [40000, 2]
                 %2 = matmulInteger %0 %1
                 output y = %2",
            ),
            Tolerance::EXACT,
        );
    }
}
