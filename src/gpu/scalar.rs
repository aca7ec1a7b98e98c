//! Element-wise operators as WGSL expressions.

use super::dialect::Dialect;
use super::kernel::Parameters;
use crate::dtype::{DataType, Number};
use crate::ops::elementwise::Elementwise::{self, self as E};
use crate::ops::elementwise::TANH_GELU;
use crate::ops::fused::Fused;
use std::fmt::Write;

/// Writes expressions. Numbers in attributes become parameters: expressions with other numbers share the kernel.
pub struct Scalars<'p> {
    /// The dialect of the device.
    pub dialect: Dialect,
    /// The parameters of the kernel.
    pub parameters: &'p mut Parameters,
}

impl Scalars<'_> {
    /// Writes statements that compute the last register of `program`. Register `i < inputs` is the expression
    /// `operands[i]` of type `types[i]`. Returns the statements and the name of the variable with the result.
    pub fn program(&mut self, program: &Fused, operands: &[String], types: &[DataType]) -> (String, String) {
        let mut text = String::new();
        let mut types = types.to_vec();
        for (index, operand) in operands.iter().enumerate() {
            let _ = writeln!(text, "  let r{index} = {operand};");
        }
        for instruction in &program.instructions {
            let registers: Vec<String> = instruction.operands.iter().map(|register| format!("r{register}")).collect();
            let inputs: Vec<DataType> = instruction.operands.iter().map(|&register| types[register]).collect();
            let expression = self.expression(&instruction.op, &registers, &inputs);
            let _ = writeln!(text, "  let r{} = {expression};", types.len());
            types.push(instruction.dtype);
        }
        (text, format!("r{}", types.len() - 1))
    }

    fn parameter(&mut self, value: f64) -> String {
        let place = self.parameters.push((value as f32).to_bits());
        format!("bitcast<f32>(parameter({place}u))")
    }

    /// The expression for a number of type `dtype`.
    pub fn number(&mut self, value: Number, dtype: DataType) -> String {
        let Number::Int(value) = value else { return self.parameter(value.to_f64()) };
        let low = self.parameters.push(value as u32);
        match dtype {
            DataType::Int64 | DataType::Uint64 => {
                let high = self.parameters.push((value >> 32) as u32);
                format!("{}_from_words(parameter({low}u), parameter({high}u))", self.dialect.suffix(dtype))
            }
            DataType::Int32 | DataType::Int8 => format!("bitcast<i32>(parameter({low}u))"),
            _ => format!("parameter({low}u)"),
        }
    }

    /// The expression for `op` on operands of types `inputs`, with a result of type `out`.
    pub fn expression(&mut self, op: &Elementwise, operands: &[String], inputs: &[DataType]) -> String {
        let x = operands[0].as_str();
        let y = operands.get(1).map_or("", String::as_str);
        let dtype = inputs[0];
        let suffix = self.dialect.suffix(dtype);
        let unary = |name: &str| format!("{name}_{suffix}({x})");
        let binary = |name: &str| wrapped(dtype, format!("{name}_{suffix}({x}, {y})"));
        let zero = format!("zero_{suffix}()");
        let less = |a: &str, b: &str| format!("less_{suffix}({a}, {b})");
        let yes = |condition: String| format!("select(0u, 1u, {condition})");
        match op {
            E::Identity => x.to_string(),
            E::Cast { to } => cast(self.dialect, x, dtype, *to),
            E::Where => format!("select({}, {y}, {x} != 0u)", operands[2]),
            E::Dequantize => self.dequantize(operands, inputs),
            E::Quantize => self.quantize(operands, inputs),
            E::Abs => wrapped(dtype, unary("abs")),
            E::Neg => wrapped(dtype, unary("neg")),
            E::Sign => unary("sign"),
            E::Ceil => format!("ceil({x})"),
            E::Floor => format!("floor({x})"),
            E::Sqrt => format!("sqrt({x})"),
            E::Reciprocal => format!("1.0 / {x}"),
            E::RoundEven => unary("round_even"),
            E::Cos => unary("cos"),
            E::Sin => unary("sin"),
            E::Tan => unary("tan"),
            E::Erf => unary("erf"),
            E::Exp => unary("exp"),
            E::Log => unary("log"),
            E::Sigmoid => unary("sigmoid"),
            E::Silu => format!("{x} * {}", unary("sigmoid")),
            E::Tanh => unary("tanh"),
            E::Softplus => unary("softplus"),
            E::Gelu => unary("gelu"),
            E::Softsign => format!("softsign_f32({x})"),
            E::Relu => format!("max_{suffix}({x}, {zero})"),
            E::HardSwish => format!("{x} * max_f32(0.0, min_f32({x} + 3.0, 6.0)) / 6.0"),
            E::Elu { alpha } => format!("select({} * expm1_f32({x}), {x}, {x} > 0.0)", self.parameter(*alpha)),
            E::HardSigmoid { alpha, beta } => {
                let (alpha, beta) = (self.parameter(*alpha), self.parameter(*beta));
                format!("min_f32(max_f32(fma({alpha}, {x}, {beta}), 0.0), 1.0)")
            }
            E::LeakyRelu { alpha } => format!("select({x}, {} * {x}, {x} < 0.0)", self.parameter(*alpha)),
            E::Linear { alpha, beta } => {
                let (alpha, beta) = (self.parameter(*alpha), self.parameter(*beta));
                format!("fma({alpha}, {x}, {beta})")
            }
            E::Clamp { min, max } => {
                let (min, max) = (self.number(*min, dtype), self.number(*max, dtype));
                format!("min_{suffix}(max_{suffix}({x}, {min}), {max})")
            }
            E::Add => binary("add"),
            E::Sub => binary("sub"),
            E::Mul => binary("mul"),
            E::Div => binary("div"),
            E::Max => binary("max"),
            E::Min => binary("min"),
            E::Pow => binary("pow"),
            E::Prelu => {
                let product = wrapped(dtype, format!("mul_{suffix}({y}, {x})"));
                format!("select({x}, {product}, {})", less(x, &zero))
            }
            E::Equal => yes(format!("equal_{suffix}({x}, {y})")),
            E::NotEqual => yes(format!("!equal_{suffix}({x}, {y})")),
            E::Greater => yes(less(y, x)),
            E::Lesser => yes(less(x, y)),
            E::GreaterOrEqual => yes(format!("(equal_{suffix}({x}, {y}) || {})", less(y, x))),
            E::LesserOrEqual => yes(format!("(equal_{suffix}({x}, {y}) || {})", less(x, y))),
            E::LogicalNot => yes(format!("{x} == 0u")),
            E::LogicalAnd => yes(format!("({x} != 0u && {y} != 0u)")),
            E::LogicalOr => yes(format!("({x} != 0u || {y} != 0u)")),
            E::LogicalXor => yes(format!("(({x} != 0u) != ({y} != 0u))")),
            E::Acos => unary("acos"),
            E::Acosh => unary("acosh"),
            E::Asin => unary("asin"),
            E::Asinh => unary("asinh"),
            E::Atan => unary("atan"),
            E::Atanh => unary("atanh"),
            E::Cosh => unary("cosh"),
            E::Sinh => unary("sinh"),
            E::Swish { alpha } => format!("swish_f32({x}, {} * {x})", self.parameter(*alpha)),
            E::TanhGelu => {
                let [a, b] = TANH_GELU.map(|number| self.parameter(number));
                format!("swish_f32({x}, {x} * fma({x} * {x}, {b}, {a}))")
            }
            E::BitwiseAnd => format!("({x} & {y})"),
            E::BitwiseOr => format!("({x} | {y})"),
            E::BitwiseXor => format!("({x} ^ {y})"),
            E::BitwiseNot => wrapped(dtype, format!("~{x}")),
            E::ShiftLeft => binary("shift_left"),
            E::ShiftRight => format!("shift_right_{suffix}({x}, {y})"),
            E::IsNaN => yes(format!("is_nan({x})")),
            E::IsInfinite => yes(format!("is_infinite({x})")),
        }
    }

    /// `(x - zero) * scale` for operands in the order of `dequantizeLinear()`.
    fn dequantize(&mut self, operands: &[String], inputs: &[DataType]) -> String {
        let [x, scale, zero] = [0, 1, 2].map(|index| operands[index].as_str());
        match inputs[0] {
            DataType::Int8 | DataType::Uint8 => {
                let signed =
                    |value: &str| if inputs[0] == DataType::Uint8 { format!("i32({value})") } else { value.into() };
                format!("f32({} - {}) * {scale}", signed(x), signed(zero))
            }
            dtype => format!("difference_{}({x}, {zero}) * {scale}", self.dialect.suffix(dtype)),
        }
    }

    /// `clamp(roundEven(x / scale) + zero)` for operands in the order of `quantizeLinear()`.
    fn quantize(&mut self, operands: &[String], inputs: &[DataType]) -> String {
        let [x, scale, zero] = [0, 1, 2].map(|index| operands[index].as_str());
        let dtype = inputs[2];
        let steps = format!("round_even_f32({x} / {scale})");
        match dtype {
            DataType::Int8 => format!("shifted_i8({steps}, {zero})"),
            DataType::Uint8 => format!("shifted_u8({steps}, {zero})"),
            _ => format!("shifted_{}({steps}, {zero})", self.dialect.suffix(dtype)),
        }
    }
}

/// Keeps the lowest bits of an 8-bit value.
fn wrapped(dtype: DataType, expression: String) -> String {
    match dtype {
        DataType::Int8 => format!("wrap_i8({expression})"),
        DataType::Uint8 => format!("wrap_u8({expression})"),
        _ => expression,
    }
}

/// `cast()` of the expression `x`.
pub fn cast(dialect: Dialect, x: &str, from: DataType, to: DataType) -> String {
    let converted = format!("{}_to_{}({x})", dialect.suffix(from), dialect.suffix(to));
    match (from.is_float(), to) {
        (_, DataType::Float16) => format!("round_f16({converted})"),
        (true, DataType::Int8) => format!("clamp({converted}, -128, 127)"),
        (true, DataType::Uint8) => format!("min({converted}, 255u)"),
        (false, DataType::Int8 | DataType::Uint8) => wrapped(to, converted),
        _ => converted,
    }
}
