//! Operators that prepare features: they compute numbers from numbers.

use super::scores::{constant, size};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, ml};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::reduce::ReduceKind;

/// Number of features of `shape`: the size of its last dimension.
///
/// # Errors
/// If there are other than 1 or 2 dimensions.
fn width(shape: &[Dim]) -> Step<Dim> {
    match shape {
        [width] | [_, width] => Ok(*width),
        _ => Err(Refusal(format!("X has shape {shape:?}, expected 1 or 2 dimensions"))),
    }
}

/// Checks that the list `name` has one number, or one per feature of `x`.
fn check_per_feature(call: &Call, x: OperandId, name: &str, count: usize) -> Step<()> {
    if count == 1 {
        return Ok(());
    }
    let width = width(&call.shape(x))?;
    match width == size(count)? {
        true => Ok(()),
        false => Err(Refusal(format!("{name} has {count} numbers, expected 1 or {width}, one per feature"))),
    }
}

/// The numbers of the attribute `name`, one or one per feature of `x`.
fn per_feature(call: &mut Call, x: OperandId, name: &str) -> Step<Option<OperandId>> {
    let Some(numbers) = call.floats_attribute(name).filter(|numbers| !numbers.is_empty()) else { return Ok(None) };
    check_per_feature(call, x, name, numbers.len())?;
    let shape = [size(numbers.len())?];
    constant(call, &shape, &numbers).map(Some)
}

/// `(x - offset) * scale`.
fn scaler(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let mut x = call.cast(x, DataType::Float32)?;
    if let Some(offset) = per_feature(call, x, "offset")? {
        x = call.sub(x, offset)?;
    }
    let output = match per_feature(call, x, "scale")? {
        Some(scale) => call.mul(x, scale),
        None => Ok(x),
    };
    call.one(output)
}

/// Divides rows by a norm, unless it is 0. As in onnxruntime, `MAX` is the largest number, not the largest size.
fn normalizer(call: &mut Call) -> Outcome {
    let kind = match call.text_or("norm", "MAX").as_str() {
        "MAX" => ReduceKind::Max,
        "L1" => ReduceKind::L1,
        "L2" => ReduceKind::L2,
        other => return Err(Refusal(format!("norm is {other}, expected MAX, L1 or L2"))),
    };
    let x = call.input(0)?;
    let x = call.cast(x, DataType::Float32)?;
    width(&call.shape(x))?;
    let norm = call.reduce(kind, x, &[call.rank(x) as u32 - 1], true)?;
    let (zero, one) = (call.scalar_like(x, 0.0)?, call.scalar_like(x, 1.0)?);
    let is_zero = call.emit(E::Equal, &[norm, zero])?;
    let norm = call.select(is_zero, one, norm)?;
    let output = call.div(x, norm);
    call.one(output)
}

/// Replaces missing values: NaN, or a number.
fn imputer(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let dtype = call.dtype(x);
    let name = if dtype.is_float() { "imputed_value_floats" } else { "imputed_value_int64s" };
    let (imputed, replaced): (Vec<Number>, Number) = match dtype.is_float() {
        true => {
            let imputed = call.floats_attribute(name).unwrap_or_default();
            (imputed.into_iter().map(Number::Float).collect(), call.float_or("replaced_value_float", 0.0).into())
        }
        false => {
            let imputed = call.ints_attribute(name).unwrap_or_default();
            (imputed.into_iter().map(Number::from).collect(), call.int_or("replaced_value_int64", 0).into())
        }
    };
    if imputed.is_empty() {
        return Err(Refusal(format!("{name} is missing for an input of type {dtype}")));
    }
    check_per_feature(call, x, name, imputed.len())?;
    let shape = [size(imputed.len())?];
    let imputed = call.constant(dtype, &shape, imputed)?;
    let is_missing = match replaced {
        Number::Float(number) if number.is_nan() => call.emit(E::IsNaN, &[x])?,
        number => {
            let number = call.scalar(dtype, number)?;
            call.emit(E::Equal, &[x, number])?
        }
    };
    let output = call.select(is_missing, imputed, x);
    call.one(output)
}

/// 1 for numbers above the threshold, else 0.
fn binarizer(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let dtype = call.dtype(x);
    let threshold = call.float_or("threshold", 0.0);
    let compared = if dtype.is_float() { x } else { call.cast(x, DataType::Float32)? };
    let threshold = call.scalar_like(compared, threshold)?;
    let is_above = call.emit(E::Greater, &[compared, threshold])?;
    let output = call.cast(is_above, dtype);
    call.one(output)
}

/// The features of each input, cut or padded to the size that the node says, side by side.
fn feature_vectorizer(call: &mut Call) -> Outcome {
    let sizes = call.ints_attribute("inputdimensions").unwrap_or_default();
    if sizes.len() != call.input_count() || sizes.is_empty() {
        let (got, expected) = (sizes.len(), call.input_count());
        return Err(Refusal(format!("inputdimensions has {got} sizes, expected {expected}, one per input")));
    }
    let mut parts = Vec::new();
    for (index, &wanted) in sizes.iter().enumerate() {
        let x = call.input(index)?;
        let x = call.cast(x, DataType::Float32)?;
        let shape = call.shape(x);
        let [rows, width] = match shape[..] {
            [] => return Err(Refusal(format!("input {index} is a scalar, expected 1 dimension or more"))),
            [width] => [Dim::number(1), width],
            [rows, ref rest @ ..] => [rows, rest.iter().copied().product()],
        };
        let wanted = u32::try_from(wanted).ok().filter(|&wanted| wanted > 0);
        let wanted = wanted.ok_or_else(|| Refusal(format!("inputdimensions is {sizes:?}, expected sizes above 0")))?;
        let x = call.reshape(x, &[rows, width])?;
        parts.push(match width > wanted {
            true => call.slice_axis(x, 1, 0u32, wanted)?,
            false => call.pad_axis(x, 1, [Dim::number(0), Dim::from(wanted) - width])?,
        });
    }
    let output = call.concat(&parts, 1);
    call.one(output)
}

/// The features at the given places.
fn array_feature_extractor(call: &mut Call) -> Outcome {
    let (mut x, places) = (call.input(0)?, call.input(1)?);
    let shape = call.shape(x);
    let last = *shape.last().ok_or("X is a scalar, expected 1 dimension or more")?;
    if shape.len() == 1 {
        x = call.reshape(x, &[Dim::number(1), last])?;
    }
    if let Some(known) = call.numbers_of(places)
        && let Some(outside) = known.iter().find(|place| !(0.0..last.pinned() as f64).contains(&place.to_f64()))
    {
        return Err(Refusal(format!("Y holds {outside}, expected places from 0 to {}", last - 1)));
    }
    let count: Dim = call.shape(places).into_iter().product();
    let places = call.reshape(places, &[count])?;
    let axis = call.rank(x) as u32 - 1;
    let output = call.gather(x, places, axis);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    ml("ArrayFeatureExtractor", "computed places outside are those at the end", array_feature_extractor),
    ml("Binarizer", "", binarizer),
    ml("FeatureVectorizer", "", feature_vectorizer),
    ml("Imputer", "", imputer),
    ml("Normalizer", "", normalizer),
    ml("Scaler", "", scaler),
];

#[cfg(test)]
mod tests {
    use crate::onnx::ops::ml::testing::{Input, assert_close, refusal, run};
    use crate::onnx::tensor::ElementType::{Float, Int64};
    use crate::onnx::testing::{Attr, TestGraph};

    const X: Input = (Float, &[2, 3], &[1.0, -2.0, 0.5, 0.0, 0.0, 0.0]);

    /// The results are those of onnxruntime 1.31.
    #[test]
    fn rows_are_scaled_and_normalized() {
        let attributes = vec![("offset", Attr::Floats(&[0.5, -1.0, 2.0])), ("scale", Attr::Floats(&[2.0, 0.25, -3.0]))];
        assert_close(&run("Scaler", X, "y", attributes)[0], &[1.0, -0.25, 4.5, -1.0, 0.25, 6.0]);
        for (norm, expected) in [
            ("MAX", [1.0, -2.0, 0.5]),
            ("L1", [0.285_714_3, -0.571_428_6, 0.142_857_15]),
            ("L2", [0.436_435_8, -0.872_871_6, 0.218_217_9]),
        ] {
            let results = run("Normalizer", X, "y", vec![("norm", Attr::Text(norm))]);
            assert_close(&results[0], &[&expected[..], &[0.0; 3]].concat());
        }
    }

    #[test]
    fn missing_values_are_replaced() {
        let x: Input = (Float, &[2, 2], &[f64::NAN, 1.0, 2.0, f64::NAN]);
        let imputed = ("imputed_value_floats", Attr::Floats(&[5.0, 6.0]));
        let results = run("Imputer", x, "y", vec![imputed, ("replaced_value_float", Attr::Float(f32::NAN))]);
        assert_close(&results[0], &[5.0, 1.0, 2.0, 6.0]);
        let x: Input = (Int64, &[3], &[-1.0, 0.0, 7.0]);
        let attributes = vec![("imputed_value_int64s", Attr::Ints(&[9])), ("replaced_value_int64", Attr::Int(-1))];
        assert_close(&run("Imputer", x, "y", attributes)[0], &[9.0, 0.0, 7.0]);
        assert_close(&run("Binarizer", x, "y", vec![("threshold", Attr::Float(0.5))])[0], &[0.0, 0.0, 1.0]);
    }

    #[test]
    fn features_are_cut_and_padded() {
        for (size, expected) in [(2, &[1.0, -2.0, 0.0, 0.0][..]), (4, &[1.0, -2.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0])] {
            let results = run("FeatureVectorizer", X, "y", vec![("inputdimensions", Attr::Ints(&[size]))]);
            assert_close(&results[0], expected);
        }
    }

    #[test]
    fn features_at_places() {
        let graph = |places: &[i64]| {
            let graph = TestGraph::default().input("x", Float, &["n", "4"]).ints("p", places);
            graph.node("ai.onnx.ml.ArrayFeatureExtractor", "x p", "y", vec![]).output("y")
        };
        let request = crate::onnx::import::Request {
            free_dimensions: [("n".to_string(), 3)].into(),
            ..crate::onnx::import::Request::default()
        };
        let imported = graph(&[3, 0]).import(17, &request).unwrap();
        assert_eq!(*imported.descriptor(imported.outputs[0].1).sizes(), [3, 2]);
        let error = graph(&[3, 4]).import(17, &request).unwrap_err().message;
        assert!(error.contains("Y holds 4, expected places from 0 to 3"), "{error}");
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        let message = refusal("Scaler", X, "y", vec![("scale", Attr::Floats(&[1.0, 2.0]))]);
        assert!(message.contains("scale has 2 numbers, expected 1 or 3, one per feature"), "{message}");
        let message = refusal("Imputer", X, "y", vec![("imputed_value_int64s", Attr::Ints(&[1]))]);
        assert!(message.contains("imputed_value_floats is missing for an input of type float32"), "{message}");
        let message = refusal("Normalizer", X, "y", vec![("norm", Attr::Text("L3"))]);
        assert!(message.contains("norm is L3, expected MAX, L1 or L2"), "{message}");
        let message = refusal("FeatureVectorizer", X, "y", vec![("inputdimensions", Attr::Ints(&[1, 2]))]);
        assert!(message.contains("inputdimensions has 2 sizes, expected 1, one per input"), "{message}");
    }
}
