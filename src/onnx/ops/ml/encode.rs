//! Operators that map categories and labels to numbers.

use super::scores::size;
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, ml};
use crate::onnx::tensor::ElementType;
use crate::onnx::texts::UNUSED;
use crate::ops::arg_min_max::{ArgAttributes, ArgMinMax};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::reduce::ReduceKind;

/// Whether elements of `x` equal each of the `keys`, in a new last dimension. Since version 4, NaN equals NaN.
fn matches(call: &mut Call, x: OperandId, keys: Vec<Number>) -> Step<OperandId> {
    let (dtype, count) = (call.dtype(x), size(keys.len())?);
    let is_nan = |key: &Number| key.to_f64().is_nan();
    let some_nan = call.opset >= 4 && dtype.is_float() && keys.iter().any(is_nan);
    let nans: Vec<Number> = keys.iter().map(|key| Number::Int(is_nan(key).into())).collect();
    let keys = call.constant(dtype, &[count], keys)?;
    let shape = [call.shape(x), vec![Dim::number(1)]].concat();
    let x = call.reshape(x, &shape)?;
    let equal = call.emit(E::Equal, &[x, keys])?;
    if !some_nan {
        return Ok(equal);
    }
    let nans = call.constant(DataType::Uint8, &[count], nans)?;
    let is_nan = call.emit(E::IsNaN, &[x])?;
    let both = call.emit(E::LogicalAnd, &[is_nan, nans])?;
    call.emit(E::LogicalOr, &[equal, both])
}

/// A 1 for each category that an element equals, else 0, in a new last dimension.
fn one_hot_encoder(call: &mut Call) -> Outcome {
    let equal = match call.text_numbers("cats_strings")? {
        Some(texts) => {
            let x = call.texts(0)?;
            matches(call, x, texts.into_iter().map(i64::from).map(Number::from).collect())?
        }
        None => {
            let categories = call.ints_attribute("cats_int64s").filter(|ints| !ints.is_empty());
            let categories = categories.ok_or("cats_int64s and cats_strings are missing")?;
            let x = call.input(0)?;
            let x = call.cast(x, DataType::Int64)?;
            matches(call, x, categories.into_iter().map(Number::from).collect())?
        }
    };
    let output = call.cast(equal, DataType::Float32);
    call.one(output)
}

/// The keys or the values of an encoder: numbers, or those of texts.
struct List {
    dtype: DataType,
    numbers: Vec<Number>,
    is_texts: bool,
}

impl List {
    fn of_ints(ints: impl IntoIterator<Item = i64>) -> List {
        List { dtype: DataType::Int64, numbers: ints.into_iter().map(Number::from).collect(), is_texts: false }
    }

    fn of_texts(texts: Vec<i32>) -> List {
        let numbers = texts.into_iter().map(i64::from).map(Number::from).collect();
        List { dtype: DataType::Int32, numbers, is_texts: true }
    }

    /// What it holds, for messages.
    fn kind(&self) -> String {
        if self.is_texts { "texts".to_string() } else { format!("numbers of type {}", self.dtype) }
    }
}

/// The type that represents numbers of a file's type.
fn represented(element: ElementType) -> Step<DataType> {
    let dtype = element.carried().ok_or_else(|| format!("a table is of type {element}, which WebNN does not have"));
    dtype.map_err(Refusal)
}

/// The list in one of the attributes `keys_*` or `values_*`, called `name`.
fn list(call: &mut Call, name: &str) -> Step<List> {
    let [texts, ints, floats, tensor] = ["strings", "int64s", "floats", "tensor"].map(|kind| format!("{name}_{kind}"));
    if let Some(tensor) = call.tensor_attribute(&tensor)? {
        if tensor.element == ElementType::String {
            return call.numbers_of_texts(&tensor).map(List::of_texts);
        }
        let dtype = represented(tensor.element)?;
        call.check_lists(tensor.elements().saturating_mul(size_of::<Number>()))?;
        let mut numbers = Vec::with_capacity(tensor.elements());
        tensor.visit(|number| numbers.push(number))?;
        return Ok(List { dtype, numbers, is_texts: false });
    }
    if let Some(texts) = call.text_numbers(&texts)? {
        return Ok(List::of_texts(texts));
    }
    if let Some(ints) = call.ints_attribute(&ints) {
        return Ok(List::of_ints(ints));
    }
    let found = call.floats_attribute(&floats);
    let numbers = found.ok_or_else(|| Refusal(format!("{texts}, {ints}, {floats} and {tensor} are missing")))?;
    let numbers = numbers.into_iter().map(Number::Float).collect();
    Ok(List { dtype: DataType::Float32, numbers, is_texts: false })
}

/// What an encoder with these values returns for what it does not know.
fn default(call: &mut Call, values: &List) -> Step<Number> {
    if let Some(tensor) = call.tensor_attribute("default_tensor")? {
        let first = match values.is_texts && tensor.element == ElementType::String {
            true => call.numbers_of_texts(&tensor)?.first().map(|&text| i64::from(text).into()),
            false => tensor.first()?,
        };
        return first.ok_or_else(|| "default_tensor has no elements".into());
    }
    Ok(match values.dtype.is_float() {
        _ if values.is_texts => i64::from(call.text_number("default_string")?.unwrap_or(UNUSED)).into(),
        true => call.float_or("default_float", -0.0).into(),
        false => call.int_or("default_int64", -1).into(),
    })
}

/// How many numbers a table of integer keys may span, per key and beside that.
const SPAN: [i128; 2] = [4, 1024];

/// The values of integer keys that are close together, by their distance from the smallest one less 1: that number, and
/// the values; `default` for all others, the first and the last included.
fn table(keys: &[Number], values: &[Number], default: Number) -> Option<(i128, Vec<Number>)> {
    let ints: Option<Vec<i128>> =
        keys.iter().map(|key| if let Number::Int(int) = key { Some(*int) } else { None }).collect();
    let ints = ints?;
    let (first, last) = (ints.iter().min()? - 1, ints.iter().max()? + 1);
    if last - first > SPAN[0] * ints.len() as i128 + SPAN[1] || i64::try_from(first).is_err() {
        return None;
    }
    let mut table = vec![default; (last - first + 1) as usize];
    // The first of equal keys wins.
    for (key, value) in ints.iter().zip(values).rev() {
        table[(key - first) as usize] = *value;
    }
    i64::try_from(last).is_ok().then_some((first, table))
}

/// The elements of a [`table`] at the integers `x`.
fn looked_up(call: &mut Call, x: OperandId, first: i128, values: OperandId) -> Step<OperandId> {
    let last = first + i128::from(call.sizes(values)[0]) - 1;
    let x = call.emit(E::Clamp { min: Number::Int(first), max: Number::Int(last) }, &[x])?;
    let first = call.scalar(call.dtype(x), Number::Int(first))?;
    let places = call.sub(x, first)?;
    call.gather(values, places, 0)
}

/// The values of keys that elements equal, the first of several.
fn encoded(call: &mut Call, keys: List, values: List) -> Outcome {
    if keys.numbers.is_empty() || keys.numbers.len() != values.numbers.len() {
        let (keys, values) = (amount(keys.numbers.len(), "key"), amount(values.numbers.len(), "value"));
        return Err(Refusal(format!("it has {keys} and {values}, expected as many, at least 1")));
    }
    let x = if keys.is_texts { call.texts(0)? } else { call.input(0)? };
    if call.dtype(x) != keys.dtype {
        let got = call.dtype(x);
        return Err(Refusal(format!("the input is of type {got}, expected {}, as the keys", keys.kind())));
    }
    let default = default(call, &values)?;
    let has_room = keys.dtype == DataType::Int64 || keys.is_texts;
    let output = match table(&keys.numbers, &values.numbers, default).filter(|_| has_room) {
        Some((first, table)) => {
            let shape = [size(table.len())?];
            let table = call.constant(values.dtype, &shape, table)?;
            looked_up(call, x, first, table)?
        }
        None => searched(call, x, keys.numbers, &values, default)?,
    };
    Ok(vec![if values.is_texts { Value::Texts(output) } else { Value::Tensor(output) }])
}

/// Like [`encoded`], by a comparison with each key.
fn searched(call: &mut Call, x: OperandId, keys: Vec<Number>, values: &List, default: Number) -> Step<OperandId> {
    let default = call.scalar(values.dtype, default)?;
    let shape = [size(values.numbers.len())?];
    let values = call.constant(values.dtype, &shape, values.numbers.iter().copied())?;
    let equal = matches(call, x, keys)?;
    let axis = call.rank(equal) as u32 - 1;
    let attributes = ArgAttributes { axis, ..ArgAttributes::default() };
    let places = call.emit(ArgMinMax { max: true, attributes }, &[equal])?;
    let is_known = call.reduce(ReduceKind::Max, equal, &[axis], false)?;
    let found = call.gather(values, places, 0)?;
    call.select(is_known, found, default)
}

fn label_encoder(call: &mut Call) -> Outcome {
    if let Some(classes) = call.text_numbers("classes_strings")? {
        // Version 1: between texts and their places.
        let places = List::of_ints(0..classes.len() as i64);
        return mapped(call, places, List::of_texts(classes));
    }
    let (keys, values) = (list(call, "keys")?, list(call, "values")?);
    encoded(call, keys, values)
}

/// Maps texts to integers, or integers to texts.
fn mapped(call: &mut Call, ints: List, texts: List) -> Outcome {
    match call.required(0)? {
        Value::Texts(_) => encoded(call, texts, ints),
        _ => encoded(call, ints, texts),
    }
}

fn category_mapper(call: &mut Call) -> Outcome {
    let texts = call.text_numbers("cats_strings")?.ok_or("cats_strings is missing")?;
    let ints = call.ints_attribute("cats_int64s").ok_or("cats_int64s is missing")?;
    mapped(call, List::of_ints(ints), List::of_texts(texts))
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    ml("CategoryMapper", "", category_mapper),
    ml("LabelEncoder", "", label_encoder),
    ml("OneHotEncoder", "categories that are unknown are zeros", one_hot_encoder),
];

#[cfg(test)]
mod tests {
    use crate::onnx::ops::ml::testing::{Input, assert_close, refusal, run};
    use crate::onnx::tensor::ElementType::{Float, Int64};
    use crate::onnx::testing::Attr;

    const CODES: Input = (Int64, &[4], &[1.0, 3.0, 5.0, 2.0]);

    #[test]
    fn categories_become_columns() {
        let results = run("OneHotEncoder", CODES, "y", vec![("cats_int64s", Attr::Ints(&[5, 1]))]);
        assert_close(&results[0], &[0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn keys_become_values() {
        let keys = || ("keys_int64s", Attr::Ints(&[5, 1, 5]));
        let attributes = vec![keys(), ("values_int64s", Attr::Ints(&[50, 10, 7])), ("default_int64", Attr::Int(-9))];
        assert_close(&run("LabelEncoder", CODES, "y", attributes)[0], &[10.0, -9.0, 50.0, -9.0]);
        let attributes = vec![keys(), ("values_floats", Attr::Floats(&[0.5, 0.25, 7.0]))];
        assert_close(&run("LabelEncoder", CODES, "y", attributes)[0], &[0.25, 0.0, 0.5, 0.0]);
        // Keys that no table has room for, and elements at the ends of int64.
        let (least, most) = (i64::MIN as f64, i64::MAX as f64);
        let x: Input = (Int64, &[4], &[least, most, 1.0, 5.0]);
        for keys in [&[1, 5, 1][..], &[1, i64::MIN, 1 << 40], &[1, i64::MAX, 7], &[1, 1_000_000, 2]] {
            let values = ("values_int64s", Attr::Ints(&[10, 50, 7]));
            let results = run("LabelEncoder", x, "y", vec![("keys_int64s", Attr::Ints(keys)), values]);
            let expected = [least, most, 1.0, 5.0].map(|x| match keys.iter().position(|&key| key as f64 == x) {
                Some(at) => [10.0, 50.0, 7.0][at],
                None => -1.0,
            });
            assert_close(&results[0], &expected);
        }
        // NaN is a key like others, since version 4.
        let x: Input = (Float, &[3], &[f64::NAN, 0.5, 1.0]);
        let [keys, values] = [[f32::NAN, 0.5], [1.5, 2.5]].map(|list| list.map(f32::to_le_bytes).concat());
        let attributes = vec![
            ("keys_tensor", Attr::Tensor(Float, &[2], &keys)),
            ("values_tensor", Attr::Tensor(Float, &[2], &values)),
            ("default_tensor", Attr::Tensor(Float, &[1], &[0, 0, 0, 0x3f])),
        ];
        assert_close(&run("LabelEncoder", x, "y", attributes)[0], &[1.5, 2.5, 0.5]);
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        let texts = || Attr::Texts(&["a", "b"]);
        let message = refusal("OneHotEncoder", CODES, "y", vec![("cats_strings", texts())]);
        assert!(message.contains("input 0 is no tensor of texts"), "{message}");
        let keys = || ("keys_int64s", Attr::Ints(&[1, 2]));
        let message = refusal("LabelEncoder", CODES, "y", vec![("keys_strings", texts()), ("values_strings", texts())]);
        assert!(message.contains("input 0 is no tensor of texts"), "{message}");
        let message = refusal("LabelEncoder", CODES, "y", vec![keys(), ("values_int64s", Attr::Ints(&[1]))]);
        assert!(message.contains("it has 2 keys and 1 value, expected as many"), "{message}");
        let message = refusal("LabelEncoder", CODES, "y", vec![keys()]);
        assert!(message.contains("values_tensor are missing"), "{message}");
        let floats = ("keys_floats", Attr::Floats(&[1.0]));
        let message = refusal("LabelEncoder", CODES, "y", vec![floats, ("values_int64s", Attr::Ints(&[1]))]);
        assert!(message.contains("the input is of type int64, expected numbers of type float32"), "{message}");
    }
}
