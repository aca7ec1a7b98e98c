//! What the models of this domain have in common: rows of features before them, labels and transformed scores behind.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::ops::arg_min_max::{ArgAttributes, ArgMinMax};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::reduce::ReduceKind;

/// The features at input 0 in float32, `[rows, features]`; a vector is a single row. As in onnxruntime, doubles are
/// rounded.
///
/// # Errors
/// If the input has another number of dimensions.
pub fn features(call: &mut Call) -> Step<OperandId> {
    features_as(call, DataType::Float32)
}

/// [`features`] of this type.
///
/// # Errors
/// Same as [`features`].
pub fn features_as(call: &mut Call, dtype: DataType) -> Step<OperandId> {
    let x = call.input(0)?;
    let x = call.cast(x, dtype)?;
    match call.shape(x)[..] {
        [features] => call.reshape(x, &[Dim::number(1), features]),
        [_, _] => Ok(x),
        ref shape => Err(Refusal(format!("X has shape {shape:?}, expected 1 or 2 dimensions"))),
    }
}

/// A float32 constant.
///
/// # Errors
/// If memory runs out, or the shape is invalid.
pub fn constant(call: &mut Call, shape: &[u32], numbers: &[f64]) -> Step<OperandId> {
    call.constant(DataType::Float32, shape, numbers.iter().copied())
}

/// The length of a list as a size.
///
/// # Errors
/// If a dimension cannot be as large.
pub fn size(count: usize) -> Step<u32> {
    u32::try_from(count).map_err(|_| Refusal(format!("{} are too many", amount(count, "element"))))
}

// ---- Transforms --------------------------------------------------------------------------------------------------

/// The attribute `post_transform`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transform {
    /// Scores as they are.
    None,
    /// Softmax of each row.
    Softmax,
    /// The logistic function.
    Logistic,
    /// Softmax of those of a row that are not 0.
    SoftmaxZero,
    /// The inverse of the normal distribution, approximated as onnxruntime does.
    Probit,
}

impl Transform {
    /// The transform that the node asks for.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn of(call: &Call) -> Step<Transform> {
        let name = call.text_or("post_transform", "NONE");
        Transform::named(&name).ok_or_else(|| {
            let known = "NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT";
            Refusal(format!("post_transform is {name}, expected {known}"))
        })
    }

    fn named(name: &str) -> Option<Transform> {
        Some(match name {
            "NONE" => Transform::None,
            "SOFTMAX" => Transform::Softmax,
            "LOGISTIC" => Transform::Logistic,
            "SOFTMAX_ZERO" => Transform::SoftmaxZero,
            "PROBIT" => Transform::Probit,
            _ => return None,
        })
    }

    /// The transform with this number in `TreeEnsemble`.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn numbered(number: i64) -> Step<Transform> {
        use Transform::*;
        let all = [None, Softmax, Logistic, SoftmaxZero, Probit];
        let found = usize::try_from(number).ok().and_then(|at| all.get(at).copied());
        found.ok_or_else(|| Refusal(format!("post_transform is {number}, expected 0 to 4")))
    }

    /// Transforms the scores of models: `[rows, scores]`. As in onnxruntime, only PROBIT changes a single score per
    /// row.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn apply(self, call: &mut Call, scores: OperandId) -> Step<OperandId> {
        let is_single = call.shape(scores)[1] == 1;
        match self {
            Transform::Probit => probit(call, scores),
            _ if is_single => Ok(scores),
            Transform::None => Ok(scores),
            Transform::Softmax => call.softmax(scores, 1),
            Transform::Logistic => call.emit(E::Sigmoid, &[scores]),
            Transform::SoftmaxZero => softmax_zero(call, scores),
        }
    }
}

/// What counts as 0 for `SOFTMAX_ZERO`.
const NEARLY_ZERO: f64 = 1e-7;

fn softmax_zero(call: &mut Call, scores: OperandId) -> Step<OperandId> {
    let max = call.reduce(ReduceKind::Max, scores, &[1], true)?;
    let (lowered, size) = (call.sub(scores, max)?, call.emit(E::Abs, &[scores])?);
    let least = call.scalar_like(scores, NEARLY_ZERO)?;
    let is_counted = call.emit(E::Greater, &[size, least])?;
    let powers = call.emit(E::Exp, &[lowered])?;
    let zero = call.scalar_like(scores, 0.0)?;
    let counted = call.select(is_counted, powers, zero)?;
    let sum = call.reduce(ReduceKind::Sum, counted, &[1], true)?;
    // Those that are nearly 0 are scaled like the others.
    let lowest = call.emit(E::Neg, &[max])?;
    let scale = call.emit(E::Exp, &[lowest])?;
    let scaled = call.mul(scores, scale)?;
    let all = call.select(is_counted, powers, scaled)?;
    call.div(all, sum)
}

/// `sqrt(2) * erfinv(2 * x - 1)`, with Winitzki's approximation.
fn probit(call: &mut Call, x: OperandId) -> Step<OperandId> {
    const A: f64 = 0.147;
    let x = call.linear(x, 2.0, -1.0)?;
    let (below, above) = (call.linear(x, -1.0, 1.0)?, call.linear(x, 1.0, 1.0)?);
    let product = call.mul(below, above)?;
    let log = call.emit(E::Log, &[product])?;
    let v = call.linear(log, 0.5, 2.0 / (std::f64::consts::PI * A))?;
    let square = call.mul(v, v)?;
    let scaled = call.scale(log, 1.0 / A)?;
    let inner = call.sub(square, scaled)?;
    let root = call.emit(E::Sqrt, &[inner])?;
    let difference = call.sub(root, v)?;
    let size = call.emit(E::Sqrt, &[difference])?;
    let zero = call.scalar_like(x, 0.0)?;
    let is_negative = call.emit(E::Lesser, &[x, zero])?;
    let negative = call.emit(E::Neg, &[size])?;
    let inverse = call.select(is_negative, negative, size)?;
    call.scale(inverse, std::f64::consts::SQRT_2)
}

// ---- Two classes -------------------------------------------------------------------------------------------------

/// What the score of the first of two classes is, if a model has a score of the second one only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Other {
    /// The rest to 1.
    Rest,
    /// The opposite score.
    Opposite,
}

/// The scores of two classes, `[rows, 2]`, from those of the second, `[rows, 1]`. As in onnxruntime, the only transform
/// is the logistic function, of opposite scores.
///
/// # Errors
/// For PROBIT, of which onnxruntime leaves a score undefined.
pub fn both(call: &mut Call, score: OperandId, other: Other, transform: Transform) -> Step<OperandId> {
    let is_logistic = match transform {
        Transform::Logistic => true,
        Transform::Probit => {
            return Err("post_transform is PROBIT for two classes with a single score, which is not defined".into());
        }
        _ => false,
    };
    let first = match other {
        Other::Rest if !is_logistic => call.linear(score, -1.0, 1.0)?,
        _ => call.emit(E::Neg, &[score])?,
    };
    let both = call.concat(&[first, score], 1)?;
    if is_logistic { call.emit(E::Sigmoid, &[both]) } else { Ok(both) }
}

// ---- Labels ------------------------------------------------------------------------------------------------------

/// The labels of classes.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// Integers.
    Ints(Vec<i64>),
    /// The numbers of texts.
    Texts(Vec<i32>),
}

impl Labels {
    /// The labels in one of two attributes.
    ///
    /// # Errors
    /// If there are none.
    pub fn of(call: &Call, texts: &str, ints: &str) -> Step<Labels> {
        if let Some(labels) = call.text_numbers(texts)? {
            return Ok(Labels::Texts(labels));
        }
        let labels = call.ints_attribute(ints).filter(|ints| !ints.is_empty());
        labels.map(Labels::Ints).ok_or_else(|| Refusal(format!("{texts} and {ints} are missing, expected one of them")))
    }

    /// Their number.
    pub fn count(&self) -> usize {
        match self {
            Labels::Ints(labels) => labels.len(),
            Labels::Texts(labels) => labels.len(),
        }
    }

    /// The labels at `places`, the first output of a classifier.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn at(&self, call: &mut Call, places: OperandId) -> Step<Value> {
        match self {
            Labels::Ints(labels) => {
                let labels = call.constant(DataType::Int64, &[size(labels.len())?], labels.iter().copied())?;
                call.gather(labels, places, 0).map(Value::Tensor)
            }
            Labels::Texts(labels) => {
                let labels =
                    call.written(&[size(labels.len())?], |places: &mut [i32]| places.copy_from_slice(labels))?;
                call.gather(labels, places, 0).map(Value::Texts)
            }
        }
    }

    /// The label of the largest of the scores `[rows, labels]`, the first of several.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn of_largest(&self, call: &mut Call, scores: OperandId) -> Step<Value> {
        let attributes = ArgAttributes { axis: 1, ..ArgAttributes::default() };
        let places = call.emit(ArgMinMax { max: true, attributes }, &[scores])?;
        self.at(call, places)
    }

    /// The second of two labels for rows whose score, `[rows, 1]`, is above `least`, else the first. Without two
    /// labels, these are 1 and 0.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn of_two(&self, call: &mut Call, score: OperandId, least: f64) -> Step<Value> {
        let least = call.scalar_like(score, least)?;
        let is_above = call.emit(E::Greater, &[score, least])?;
        let rows = call.shape(score)[0];
        let places = call.reshape(is_above, &[rows])?;
        match self.count() {
            2 => {
                let places = call.cast(places, DataType::Int32)?;
                self.at(call, places)
            }
            _ if matches!(self, Labels::Texts(_)) => {
                Err(Refusal(format!("it has {}, expected 2 texts for a single score", amount(self.count(), "label"))))
            }
            _ => call.cast(places, DataType::Int64).map(Value::Tensor),
        }
    }
}
