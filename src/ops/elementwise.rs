//! Element-wise operators: the sections "Element-wise unary / binary / logical operations", the activations, `cast`,
//! `clamp`, `where` and `prelu` of the draft. Each output element depends on one element of each operand, after
//! broadcasting.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::{Tensor, wrap};
use super::{Inputs, NamedOperator, Operator, Tensors, cast_to, no_operator, required, row};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::shape::{Descriptor, broadcast};
use Elementwise as E;

/// One row per operator: the variant, its attributes with their names and defaults, the name, and the rules of the
/// operands and of the output. The names of the API are methods and options of the draft.
macro_rules! elementwise {
    (api { $($api:tt)* } onnx { $($onnx:tt)* }) => {
        elementwise!(@all $($api)* $($onnx)*);
        const ROWS: &[OpRule] = elementwise!(@rules $($api)*);
        /// The rules of the operators of ONNX that the API lacks.
        pub(super) const ONNX_ROWS: &[OpRule] = elementwise!(@rules $($onnx)*);
    };
    (@rules $($Variant:ident $({ $($attributes:tt)* })? => $name:literal, $operands:expr, $outputs:expr;)*) => {
        &[$(OpRule { name: $name, operands: $operands, outputs: $outputs },)*]
    };
    (@all $($Variant:ident $({ $($field:ident $idl:literal: $Type:ty = $default:expr),* })?
        => $name:literal, $operands:expr, $outputs:expr;)*) => {
        /// An element-wise operator.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the variants and fields are the methods and options of the draft, or ONNX's")]
        pub enum Elementwise {
            $($Variant $({ $($field: $Type),* })?,)*
            /// `(input - zeroPoint) * scale`, with operands in the order of `dequantizeLinear()`; only inside of other
            /// operators.
            Dequantize,
            /// `clamp(roundEven(input / scale) + zeroPoint)`, with operands in the order of `quantizeLinear()`; only
            /// inside of other operators.
            Quantize,
            /// `input * sigmoid(input)`; only inside of other operators.
            Silu,
        }

        fn read(name: &str, attributes: &mut Attributes) -> Result<E, Problem> {
            Ok(match name {
                $($name => E::$Variant $({ $($field: attributes.take($idl, $default)?),* })?,)*
                _ => return Err(no_operator(name)),
            })
        }

        fn write(op: &E, attributes: &mut Attributes) {
            match op {
                $(E::$Variant $({ $($field),* })? => { $($(attributes.put($idl, $field, &$default);)*)? })*
                E::Dequantize | E::Quantize | E::Silu => {}
            }
        }

        impl Elementwise {
            /// The name of the operator, for one of the API that of the MLGraphBuilder method.
            pub fn name(&self) -> &'static str {
                match self {
                    $(E::$Variant { .. } => $name,)*
                    E::Dequantize => "dequantize",
                    E::Quantize => "quantize",
                    E::Silu => "silu",
                }
            }
        }
    };
}

elementwise! {
    api {
        Abs => "abs", OF_SIGNED, SAME_AS_INPUT;
        Ceil => "ceil", OF_FLOATS, SAME_AS_INPUT;
        Cos => "cos", OF_FLOATS, SAME_AS_INPUT;
        Erf => "erf", OF_FLOATS, SAME_AS_INPUT;
        Exp => "exp", OF_FLOATS, SAME_AS_INPUT;
        Floor => "floor", OF_FLOATS, SAME_AS_INPUT;
        Identity => "identity", OF_ANY, SAME_AS_INPUT;
        Log => "log", OF_FLOATS, SAME_AS_INPUT;
        Neg => "neg", OF_SIGNED, SAME_AS_INPUT;
        Reciprocal => "reciprocal", OF_FLOATS, SAME_AS_INPUT;
        RoundEven => "roundEven", OF_FLOATS, SAME_AS_INPUT;
        Sin => "sin", OF_FLOATS, SAME_AS_INPUT;
        Sign => "sign", OF_SIGNED, SAME_AS_INPUT;
        Sqrt => "sqrt", OF_FLOATS, SAME_AS_INPUT;
        Tan => "tan", OF_FLOATS, SAME_AS_INPUT;
        Relu => "relu", OF_SIGNED, SAME_AS_INPUT;
        Sigmoid => "sigmoid", OF_FLOATS, SAME_AS_INPUT;
        Tanh => "tanh", OF_FLOATS, SAME_AS_INPUT;
        Softplus => "softplus", OF_FLOATS, SAME_AS_INPUT;
        Softsign => "softsign", OF_FLOATS, SAME_AS_INPUT;
        Gelu => "gelu", OF_FLOATS, SAME_AS_INPUT;
        HardSwish => "hardSwish", OF_FLOATS, SAME_AS_INPUT;
        Elu { alpha "alpha": f64 = 1.0 } => "elu", OF_FLOATS, SAME_AS_INPUT;
        HardSigmoid { alpha "alpha": f64 = 0.2, beta "beta": f64 = 0.5 } => "hardSigmoid", OF_FLOATS, SAME_AS_INPUT;
        LeakyRelu { alpha "alpha": f64 = 0.01 } => "leakyRelu", OF_FLOATS, SAME_AS_INPUT;
        Linear { alpha "alpha": f64 = 1.0, beta "beta": f64 = 0.0 } => "linear", OF_FLOATS, SAME_AS_INPUT;
        // The draft swaps the two infinities, contrary to its prose.
        Clamp {
            min "minValue": Number = Number::Float(f64::NEG_INFINITY),
            max "maxValue": Number = Number::Float(f64::INFINITY)
        } => "clamp", OF_ANY, SAME_AS_INPUT;
        Cast { to "dataType": DataType = DataType::Float32 } => "cast", OF_ANY, OF_ANY_TYPE;
        LogicalNot => "logicalNot", OF_A_TRUTH, TRUTH;
        IsNaN => "isNaN", OF_A_FLOAT, TRUTH;
        IsInfinite => "isInfinite", OF_A_FLOAT, TRUTH;
        Add => "add", OF_TWO, SAME_AS_A;
        Sub => "sub", OF_TWO, SAME_AS_A;
        Mul => "mul", OF_TWO, SAME_AS_A;
        Div => "div", OF_TWO, SAME_AS_A;
        Max => "max", OF_TWO, SAME_AS_A;
        Min => "min", OF_TWO, SAME_AS_A;
        Pow => "pow", OF_TWO, SAME_AS_A;
        Prelu => "prelu", OF_INPUT_AND_SLOPE, SAME_AS_INPUT;
        Equal => "equal", OF_TWO, TRUTH;
        NotEqual => "notEqual", OF_TWO, TRUTH;
        Greater => "greater", OF_TWO, TRUTH;
        GreaterOrEqual => "greaterOrEqual", OF_TWO, TRUTH;
        Lesser => "lesser", OF_TWO, TRUTH;
        LesserOrEqual => "lesserOrEqual", OF_TWO, TRUTH;
        LogicalAnd => "logicalAnd", OF_TWO_TRUTHS, TRUTH;
        LogicalOr => "logicalOr", OF_TWO_TRUTHS, TRUTH;
        LogicalXor => "logicalXor", OF_TWO_TRUTHS, TRUTH;
        Where => "where", OF_CHOICES, CHOSEN;
    }
    onnx {
        Acos => "acos", OF_FLOATS, SAME_AS_INPUT;
        Acosh => "acosh", OF_FLOATS, SAME_AS_INPUT;
        Asin => "asin", OF_FLOATS, SAME_AS_INPUT;
        Asinh => "asinh", OF_FLOATS, SAME_AS_INPUT;
        Atan => "atan", OF_FLOATS, SAME_AS_INPUT;
        Atanh => "atanh", OF_FLOATS, SAME_AS_INPUT;
        BitwiseAnd => "bitwiseAnd", OF_TWO_INTEGERS, SAME_AS_A;
        BitwiseNot => "bitwiseNot", OF_AN_INTEGER, SAME_AS_INPUT;
        BitwiseOr => "bitwiseOr", OF_TWO_INTEGERS, SAME_AS_A;
        BitwiseXor => "bitwiseXor", OF_TWO_INTEGERS, SAME_AS_A;
        Cosh => "cosh", OF_FLOATS, SAME_AS_INPUT;
        // Zeros move in, to the right into negative numbers ones: for all bits if `b` is not less than their number.
        ShiftLeft => "shiftLeft", OF_TWO_INTEGERS, SAME_AS_A;
        ShiftRight => "shiftRight", OF_TWO_INTEGERS, SAME_AS_A;
        Sinh => "sinh", OF_FLOATS, SAME_AS_INPUT;
        // `x * sigmoid(alpha * x)`.
        Swish { alpha "alpha": f64 = 1.0 } => "swish", OF_FLOATS, SAME_AS_INPUT;
        // The approximation of `gelu` by the hyperbolic tangent: `0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`.
        TanhGelu => "tanhGelu", OF_FLOATS, SAME_AS_INPUT;
    }
}

const SAME_AS_INPUT: &[OutputRule] = &[output("output", Types::SameAs("input"), ANY_RANK)];
const SAME_AS_A: &[OutputRule] = &[output("output", Types::SameAs("a"), ANY_RANK)];
const CHOSEN: &[OutputRule] = &[output("output", Types::SameAs("trueValue"), ANY_RANK)];
const OF_ANY_TYPE: &[OutputRule] = &[output("output", ANY, ANY_RANK)];
const TRUTH: &[OutputRule] = &[output("output", BOOLEAN, ANY_RANK)];
const OF_ANY: &[OperandRule] = &[operand("input", ANY, ANY_RANK)];
const OF_FLOATS: &[OperandRule] = &[operand("input", REALS, ANY_RANK)];
const OF_SIGNED: &[OperandRule] = &[operand("input", SIGNED, ANY_RANK)];
const OF_A_FLOAT: &[OperandRule] = &[operand("a", REALS, ANY_RANK)];
const OF_A_TRUTH: &[OperandRule] = &[operand("a", BOOLEAN, ANY_RANK)];
const OF_TWO: &[OperandRule] = &[operand("a", ANY, ANY_RANK), operand("b", Types::SameAs("a"), ANY_RANK)];
const OF_TWO_TRUTHS: &[OperandRule] = &[operand("a", BOOLEAN, ANY_RANK), operand("b", Types::SameAs("a"), ANY_RANK)];
const OF_AN_INTEGER: &[OperandRule] = &[operand("input", INTEGERS, ANY_RANK)];
const OF_TWO_INTEGERS: &[OperandRule] = &[operand("a", INTEGERS, ANY_RANK), operand("b", Types::SameAs("a"), ANY_RANK)];
const OF_INPUT_AND_SLOPE: &[OperandRule] =
    &[operand("input", SIGNED, ANY_RANK), operand("slope", Types::SameAs("input"), ANY_RANK)];
const OF_CHOICES: &[OperandRule] = &[
    operand("condition", BOOLEAN, ANY_RANK),
    operand("trueValue", ANY, ANY_RANK),
    operand("falseValue", Types::SameAs("trueValue"), ANY_RANK),
];

/// The approximation of `gelu` by the hyperbolic tangent is `x * sigmoid(a * x + b * x^3)`, which does not cancel where
/// the tangent is close to -1: `a = 2 * sqrt(2 / pi)` and `b = 0.044715 * a`.
pub const TANH_GELU: [f64; 2] = [1.595_769_121_605_730_8, 1.595_769_121_605_730_8 * 0.044715];

impl NamedOperator for Elementwise {
    const RULES: &'static [OpRule] = ROWS;

    fn read(name: &str, attributes: &mut Attributes) -> Result<E, Problem> {
        read(name, attributes)
    }
}

impl Operator for Elementwise {
    fn rule(&self) -> &'static OpRule {
        row(ROWS, self.name())
    }

    fn write(&self, attributes: &mut Attributes) {
        write(self, attributes);
    }

    fn resolve(&mut self, inputs: &Inputs) -> Result<(), Problem> {
        match self {
            E::Elu { alpha } | E::LeakyRelu { alpha } | E::Swish { alpha } => *alpha = cast_to(*alpha, inputs, 0),
            E::HardSigmoid { alpha, beta } | E::Linear { alpha, beta } => {
                *alpha = cast_to(*alpha, inputs, 0);
                *beta = cast_to(*beta, inputs, 0);
            }
            E::Clamp { min, max } => {
                let dtype = required(inputs, 0).dtype;
                (*min, *max) = (min.cast(dtype), max.cast(dtype));
                let crossed = match (*min, *max) {
                    (Number::Int(min), Number::Int(max)) => min > max,
                    (min, max) => min.to_f64() > max.to_f64(),
                };
                if crossed {
                    return Err(Problem::attribute_value("minValue", min, format!("at most maxValue, which is {max}")));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let _ = axes;
        Some(*self)
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        Some(Rows::of_broadcast(*self, along, inputs, output))
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let mut shape = required(inputs, 0).shape.clone();
        for other in inputs.iter().skip(1).flatten() {
            shape = broadcast(&shape, &other.shape).ok_or_else(|| Problem::Incompatible {
                what: "shapes do not broadcast",
                a: shape.clone(),
                b: other.shape.clone(),
            })?;
        }
        let types: Vec<DataType> = inputs.iter().flatten().map(|input| input.dtype).collect();
        Ok(vec![Descriptor::new(self.output_type(&types), shape)])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let operands: Vec<Tensor> = inputs.iter().flatten().map(|input| input.broadcast(&outputs[0].sizes())).collect();
        vec![Tensor::from_fn(&outputs[0], |index| {
            let zero = Number::Int(0);
            let at = |i: usize| operands.get(i).map_or(zero, |operand| operand.at(index));
            self.eval(&[at(0), at(1), at(2)], outputs[0].dtype)
        })]
    }
}

impl Elementwise {
    /// The data type of the output for operands of these types.
    pub fn output_type(&self, operands: &[DataType]) -> DataType {
        match self {
            E::Cast { to } => *to,
            E::Where | E::Dequantize => operands[1],
            E::Quantize => operands[2],
            _ if self.is_test() => DataType::Uint8,
            _ => operands[0],
        }
    }

    /// Whether the output is a truth value (1 or 0).
    pub fn is_test(&self) -> bool {
        matches!(
            self,
            E::LogicalNot
                | E::IsNaN
                | E::IsInfinite
                | E::Equal
                | E::NotEqual
                | E::Greater
                | E::GreaterOrEqual
                | E::Lesser
                | E::LesserOrEqual
                | E::LogicalAnd
                | E::LogicalOr
                | E::LogicalXor
        )
    }

    /// One element of the output, of type `out`, from elements of the operands (missing ones are ignored).
    ///
    /// Integers wrap around on overflow, integer division by zero returns 0, and a negative power of an integer is
    /// truncated towards zero. NaN propagates through `max`, `min`, `relu` and `clamp`.
    pub fn eval(&self, operands: &[Number; 3], out: DataType) -> Number {
        let yes = |truth: bool| Number::Int(truth as i128);
        match (self, operands) {
            (E::Identity, [x, ..]) => *x,
            (E::Cast { to }, [x, ..]) => cast(*x, *to),
            (E::Where, [condition, yes, no]) => {
                if *condition != Number::Int(0) {
                    *yes
                } else {
                    *no
                }
            }
            (E::Dequantize, [x, scale, zero]) => Number::Float((x.to_f64() - zero.to_f64()) * scale.to_f64()),
            (E::Quantize, [x, scale, zero]) => {
                // The draft composes this operator from others, and its float32 quotient determines ties. Rounding the
                // float64 quotient to float32 is equivalent.
                let steps = ((x.to_f64() / scale.to_f64()) as f32).round_ties_even() as f64;
                Number::Float(steps + zero.to_f64()).cast(out)
            }
            (E::Equal, [a, b, _]) => yes(a == b),
            (E::NotEqual, [a, b, _]) => yes(a != b),
            (E::Greater, [a, b, _]) => yes(less(*b, *a)),
            (E::Lesser, [a, b, _]) => yes(less(*a, *b)),
            (E::GreaterOrEqual, [a, b, _]) => yes(a == b || less(*b, *a)),
            (E::LesserOrEqual, [a, b, _]) => yes(a == b || less(*a, *b)),
            (E::IsNaN, [x, ..]) => yes(x.to_f64().is_nan()),
            (E::IsInfinite, [x, ..]) => yes(x.to_f64().is_infinite()),
            (_, [Number::Float(x), Number::Float(y), _]) => Number::Float(self.eval_float(*x, *y)),
            (_, [Number::Float(x), _, _]) => Number::Float(self.eval_float(*x, 0.0)),
            (_, [Number::Int(x), Number::Int(y), _]) => Number::Int(wrap(out, self.eval_int(*x, *y))),
            (_, [Number::Int(x), _, _]) => Number::Int(wrap(out, self.eval_int(*x, 0))),
        }
    }

    /// [`eval`](Self::eval) for floats, before their result is rounded.
    ///
    /// # Panics
    /// If the operator takes none.
    pub fn eval_float(&self, x: f64, y: f64) -> f64 {
        // The comparisons let NaN fall through to the branch that returns it.
        let max = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
        let min = |a: f64, b: f64| if a.is_nan() || a < b { a } else { b };
        match *self {
            E::Abs => x.abs(),
            E::Ceil => x.ceil(),
            E::Cos => x.cos(),
            E::Erf => libm::erf(x),
            E::Exp => x.exp(),
            E::Floor => x.floor(),
            E::Log => x.ln(),
            E::Neg => -x,
            E::Reciprocal => 1.0 / x,
            E::RoundEven => x.round_ties_even(),
            E::Sin => x.sin(),
            E::Sign => (x > 0.0) as i32 as f64 - (x < 0.0) as i32 as f64,
            E::Sqrt => x.sqrt(),
            E::Tan => x.tan(),
            E::Relu => max(x, 0.0),
            E::Sigmoid => 1.0 / ((-x).exp() + 1.0),
            E::Silu => x * E::Sigmoid.eval_float(x, y),
            E::Tanh => x.tanh(),
            E::Softplus => max(x, 0.0) + (-x.abs()).exp().ln_1p(),
            E::Softsign => x / (1.0 + x.abs()),
            // The limit; the formula would compute infinity times 0.
            E::Gelu if x == f64::NEG_INFINITY => -0.0,
            E::Gelu => 0.5 * x * libm::erfc(-x / std::f64::consts::SQRT_2),
            E::HardSwish => x * max(0.0, min(x + 3.0, 6.0)) / 6.0,
            E::Elu { alpha } => {
                if x > 0.0 {
                    x
                } else {
                    alpha * x.exp_m1()
                }
            }
            E::HardSigmoid { alpha, beta } => min(max(alpha * x + beta, 0.0), 1.0),
            E::LeakyRelu { alpha } => {
                if x < 0.0 {
                    alpha * x
                } else {
                    x
                }
            }
            E::Linear { alpha, beta } => alpha * x + beta,
            E::Clamp { min: low, max: high } => min(max(x, low.to_f64()), high.to_f64()),
            E::Acos => x.acos(),
            E::Acosh => x.acosh(),
            E::Asin => x.asin(),
            E::Asinh => libm::asinh(x),
            E::Atan => x.atan(),
            E::Atanh => libm::atanh(x),
            E::Cosh => x.cosh(),
            E::Sinh => x.sinh(),
            // The limits; the formulas would compute infinity times 0.
            E::Swish { alpha } if alpha * x == f64::NEG_INFINITY => -0.0,
            E::Swish { alpha } => x * E::Sigmoid.eval_float(alpha * x, y),
            E::TanhGelu if x == f64::NEG_INFINITY => -0.0,
            E::TanhGelu => x * E::Sigmoid.eval_float(TANH_GELU[0] * x + TANH_GELU[1] * x * x * x, y),
            E::Add => x + y,
            E::Sub => x - y,
            E::Mul => x * y,
            E::Div => x / y,
            E::Max => max(x, y),
            E::Min => min(x, y),
            E::Pow => x.powf(y),
            E::Prelu => {
                if x < 0.0 {
                    y * x
                } else {
                    x
                }
            }
            _ => unreachable!("{self:?} takes no floating-point operands"),
        }
    }

    fn eval_int(&self, x: i128, y: i128) -> i128 {
        match *self {
            E::Abs => x.abs(),
            E::Neg => -x,
            E::Sign => x.signum(),
            E::Relu => x.max(0),
            E::Clamp { min: Number::Int(min), max: Number::Int(max) } => x.clamp(min, max),
            E::LogicalNot => (x == 0) as i128,
            E::LogicalAnd => (x != 0 && y != 0) as i128,
            E::LogicalOr => (x != 0 || y != 0) as i128,
            E::LogicalXor => ((x != 0) != (y != 0)) as i128,
            E::Add => x + y,
            E::Sub => x - y,
            E::Mul => x.wrapping_mul(y),
            E::Div => x.checked_div(y).unwrap_or(0),
            E::Max => x.max(y),
            E::Min => x.min(y),
            E::Pow => integer_power(x, y),
            E::Prelu => x.max(0) + y.wrapping_mul(x.min(0)),
            E::BitwiseAnd => x & y,
            E::BitwiseNot => !x,
            E::BitwiseOr => x | y,
            E::BitwiseXor => x ^ y,
            E::ShiftLeft => {
                if (0..64).contains(&y) {
                    x << y
                } else {
                    0
                }
            }
            E::ShiftRight => x >> if (0..64).contains(&y) { y } else { 64 },
            _ => unreachable!("{self:?} takes no integer operands"),
        }
    }
}

/// `cast()`: floats truncate and saturate to integers, NaN becomes 0; integers keep their lowest bits.
pub fn cast(x: Number, to: DataType) -> Number {
    match (x, to.integer_range()) {
        (_, None) => x.cast(to),
        (Number::Float(x), Some((min, max))) => Number::Int((x as i128).clamp(min, max)),
        (Number::Int(x), Some(_)) => Number::Int(wrap(to, x)),
    }
}

fn less(a: Number, b: Number) -> bool {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a < b,
        (a, b) => a.to_f64() < b.to_f64(),
    }
}

/// `base^exponent`, modulo 2^128; a negative exponent returns the reciprocal, truncated towards zero.
fn integer_power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let (mut result, mut square, mut exponent) = (1i128, base, exponent);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossed_limits_are_shown_as_numbers() {
        let message = |min, max, dtype| {
            let input = Descriptor::new(dtype, [2]);
            let mut clamp = E::Clamp { min: Number::Float(min), max: Number::Float(max) };
            clamp.resolve(&[Some(&input)]).unwrap_err().to_string()
        };
        assert_eq!(message(1.5, -1.0, DataType::Float32), "minValue is 1.5, expected at most maxValue, which is -1.0");
        assert_eq!(message(7.0, 5.4, DataType::Int8), "minValue is 7, expected at most maxValue, which is 5");
    }

    #[test]
    fn every_name_reads_back() {
        for rule in E::RULES {
            let op = E::read(rule.name, &mut Attributes::default()).unwrap();
            assert_eq!(op.name(), rule.name);
            assert_eq!(op.rule().name, rule.name);
        }
    }

    #[test]
    fn integers() {
        let int = |op: E, x: i128, y: i128, t: DataType| match op
            .eval(&[Number::Int(x), Number::Int(y), Number::Int(0)], t)
        {
            Number::Int(r) => r,
            other => panic!("{other:?}"),
        };
        assert_eq!(int(E::Add, i64::MAX as i128, 1, DataType::Int64), i64::MIN as i128);
        assert_eq!(int(E::Mul, u64::MAX as i128, u64::MAX as i128, DataType::Uint64), 1);
        assert_eq!(int(E::Div, 7, 0, DataType::Int32), 0);
        assert_eq!(int(E::Div, -7, 2, DataType::Int32), -3);
        assert_eq!(int(E::Div, i32::MIN as i128, -1, DataType::Int32), i32::MIN as i128);
        assert_eq!(int(E::Pow, 3, 40, DataType::Int32), 3i32.wrapping_pow(40) as i128);
        assert_eq!(int(E::Pow, -1, -3, DataType::Int32), -1);
        assert_eq!(int(E::Pow, 2, -1, DataType::Int32), 0);
        assert_eq!(int(E::Abs, -128, 0, DataType::Int8), -128);
        assert_eq!(int(E::Prelu, -3, 5, DataType::Int8), -15);
    }

    #[test]
    fn nan_propagates() {
        let nan = f64::NAN;
        for (op, x, y) in [
            (E::Max, nan, 1.0),
            (E::Max, 1.0, nan),
            (E::Min, nan, 1.0),
            (E::Min, 1.0, nan),
            (E::Relu, nan, 0.0),
            (E::Clamp { min: Number::Float(0.0), max: Number::Float(1.0) }, nan, 0.0),
            (E::HardSigmoid { alpha: 1.0, beta: 0.0 }, nan, 0.0),
            (E::HardSwish, nan, 0.0),
            (E::Elu { alpha: 1.0 }, nan, 0.0),
            (E::LeakyRelu { alpha: 1.0 }, nan, 0.0),
            (E::Erf, nan, 0.0),
            (E::Gelu, nan, 0.0),
        ] {
            assert!(op.eval_float(x, y).is_nan(), "{op:?}");
        }
    }

    #[test]
    fn clamp_needs_ordered_limits() {
        let float = Descriptor::new(DataType::Float32, [0u32; 0]);
        let mut clamp = E::Clamp { min: Number::Float(2.0), max: Number::Float(1.0) };
        assert!(clamp.resolve(&[Some(&float)]).is_err());
        let byte = Descriptor::new(DataType::Uint8, [0u32; 0]);
        let mut clamp = E::Clamp { min: Number::Float(f64::NEG_INFINITY), max: Number::Float(300.0) };
        clamp.resolve(&[Some(&byte)]).unwrap();
        assert_eq!(clamp, E::Clamp { min: Number::Int(0), max: Number::Int(255) });
    }
}
