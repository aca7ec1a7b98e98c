//! Casts between texts and numbers.

use crate::dtype::{DataType, Number};
use crate::onnx::call::{Call, Step};
use crate::onnx::error::{Refusal, quoted};
use crate::onnx::import::Value;
use crate::onnx::registry::Outcome;
use crate::onnx::tensor::ElementType;
use std::borrow::Cow;

/// The number that a text stands for, as the C library reads it.
fn parsed(text: &str, is_float: bool) -> Option<Number> {
    let trimmed = text.trim();
    match is_float {
        true => trimmed.parse::<f64>().ok().map(Number::Float),
        false => trimmed.parse::<i128>().ok().map(Number::Int),
    }
}

/// Reads numbers from texts.
pub fn from_texts(call: &mut Call, to: DataType, is_bool: bool) -> Outcome {
    let shape = call.input_sizes(0)?;
    let texts = call.read_texts(0)?;
    let number = |text: &str| {
        let number = parsed(text, to.is_float());
        let number = number.ok_or_else(|| Refusal(format!("the text {} is no {to} number", quoted(text))))?;
        Ok(if is_bool { Number::Int((number != Number::Int(0)).into()) } else { number })
    };
    let numbers = texts.iter().map(number).collect::<Step<Vec<Number>>>()?;
    let output = call.constant(to, &shape, numbers);
    call.one(output)
}

/// A number as onnxruntime writes it: like C's `%.8g` for float32 and `%.17g` for double.
fn written(number: Number, digits: usize) -> Cow<'static, str> {
    let x = match number {
        Number::Int(x) => return x.to_string().into(),
        Number::Float(x) => x,
    };
    if x.is_nan() {
        return "NaN".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "INF" } else { "-INF" }.into();
    }
    let scientific = format!("{x:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("an integer");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs()).into();
    }
    let decimals = (digits as i32 - 1 - exponent) as usize;
    trimmed(&format!("{x:.decimals$}")).into()
}

/// Writes numbers as texts.
pub fn to_texts(call: &mut Call) -> Outcome {
    let shape = call.input_sizes(0)?;
    if let Some(empty @ (Value::Empty(_) | Value::Texts(_))) = call.value(0) {
        return Ok(vec![empty]);
    }
    call.run_texts()?;
    let is_double = call.input_literal(0).is_some_and(|literal| literal.element == ElementType::Double);
    let digits = if is_double { 17 } else { 8 };
    let numbers = call.given_numbers(0, "the input")?.ok_or("input 0 is missing")?;
    let texts = numbers.into_iter().map(|number| written(number, digits));
    Ok(vec![call.made_texts(&shape, texts)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_c() {
        let cases = [
            (0.0, "0"),
            (1.5, "1.5"),
            (-1.0 / 3.0, "-0.33333333"),
            (1e7, "10000000"),
            (1e8, "1e+08"),
            (123456789.0, "1.2345679e+08"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-INF"),
        ];
        for (x, expected) in cases {
            assert_eq!(written(Number::Float(x), 8), expected);
        }
        assert_eq!(written(Number::Float(0.1), 17), "0.10000000000000001");
        assert_eq!(written(Number::Int(-7), 8), "-7");
    }

    #[test]
    fn texts_are_read_as_numbers() {
        assert_eq!(parsed(" 2.5e1", true), Some(Number::Float(25.0)));
        assert_eq!(parsed("INF", true), Some(Number::Float(f64::INFINITY)));
        assert_eq!(parsed("-12", false), Some(Number::Int(-12)));
        assert_eq!(parsed("a", true), None);
        assert_eq!(parsed("1.5", false), None);
    }
}
