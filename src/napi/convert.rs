//! Conversions between the facade's values and the crate's.

use super::Result;
use crate::dtype::{DataType, Number};
use crate::error::{Error, ErrorKind};
use crate::ir::ValueId;
use crate::ops::attributes::{Attribute, Attributes};
use napi::bindgen_prelude::{Array, BigInt, FromNapiValue, JsObjectValue, Object, Unknown};
use napi::{JsValue, ValueType};
use std::collections::BTreeMap;

/// The exception for an error; its `code` is the code of the error, or the name of the exception.
pub fn thrown(error: Error) -> napi::Error<String> {
    napi::Error::new(error.tag().to_string(), error.message)
}

/// Like [`thrown`], always with a code.
pub fn coded(error: Error) -> napi::Error<String> {
    thrown(error.with_code())
}

/// A TypeError.
pub fn type_error(message: &str) -> napi::Error<String> {
    thrown(Error::new(ErrorKind::Type, message))
}

/// An InvalidStateError.
pub fn invalid_state(message: &str) -> napi::Error<String> {
    thrown(Error::new(ErrorKind::InvalidState, message))
}

/// An error of napi-rs itself: a value was not of the kind that the facade guarantees.
pub fn from_napi(error: napi::Error) -> napi::Error<String> {
    type_error(&error.reason)
}

/// The data type with this index in the IDL enumeration.
pub fn data_type(index: u32) -> Result<DataType> {
    DataType::ALL.get(index as usize).copied().ok_or_else(no_such_type)
}

fn no_such_type() -> napi::Error<String> {
    type_error("there is no data type with that index")
}

/// The data type of a constant with this index in the IDL enumeration, extended by the types of the extension `int4`.
pub fn constant_type(index: u32) -> Result<DataType> {
    DataType::OF_CONSTANTS.get(index as usize).copied().ok_or_else(no_such_type)
}

/// The index of a data type in the IDL enumeration.
pub fn data_type_index(dtype: DataType) -> u32 {
    DataType::ALL.iter().position(|&other| other == dtype).expect("a data type") as u32
}

/// The index of the data type of a result: float64, which only models have, follows those of the IDL enumeration.
pub fn result_type_index(dtype: DataType) -> u32 {
    DataType::OF_VALUES.iter().position(|&other| other == dtype).expect("the type of a value") as u32
}

/// Converts a value with napi-rs.
///
/// # Errors
/// A TypeError for a value of another type.
pub fn from_value<T: FromNapiValue>(value: &Unknown) -> Result<T> {
    let raw = value.value();
    // SAFETY: `raw` is a live value of its environment.
    unsafe { T::from_napi_value(raw.env, raw.value) }.map_err(from_napi)
}

fn kind(value: &Unknown) -> Result<ValueType> {
    value.get_type().map_err(from_napi)
}

/// An MLNumber: a number or a bigint.
pub fn number(value: Unknown) -> Result<Number> {
    if kind(&value)? != ValueType::BigInt {
        return Ok(Number::Float(from_value(&value)?));
    }
    let BigInt { sign_bit, words } = from_value(&value)?;
    Ok(Number::from_words(sign_bit, &words))
}

fn entries<'a>(object: &'a Object) -> Result<impl Iterator<Item = Result<(String, Unknown<'a>)>> + 'a> {
    let names = Object::keys(object).map_err(from_napi)?;
    Ok(names.into_iter().map(move |name| {
        let value = object.get_named_property::<Unknown>(&name).map_err(from_napi)?;
        Ok((name, value))
    }))
}

/// Operands by name: `{input: 3, inputs: [4, 5]}`.
pub fn operands(object: &Object) -> Result<BTreeMap<String, Vec<ValueId>>> {
    entries(object)?
        .map(|entry| {
            let (name, value) = entry?;
            let ids: Vec<u32> = match kind(&value)? {
                ValueType::Number => vec![from_value(&value)?],
                _ => from_value(&value)?,
            };
            Ok((name, ids.into_iter().map(ValueId).collect()))
        })
        .collect()
}

/// Attributes by name.
pub fn attributes(object: &Object) -> Result<Attributes> {
    let attributes = entries(object)?.map(|entry| {
        let (name, value) = entry?;
        Ok((name, attribute(value)?))
    });
    Ok(Attributes(attributes.collect::<Result<_>>()?))
}

fn attribute(value: Unknown) -> Result<Attribute> {
    Ok(match kind(&value)? {
        ValueType::Boolean => Attribute::Bool(from_value(&value)?),
        ValueType::Number | ValueType::BigInt => Attribute::Number(number(value)?),
        ValueType::String => Attribute::Text(from_value(&value)?),
        _ => {
            let array: Array = from_value(&value)?;
            let items: Vec<Unknown> =
                (0..array.len()).map(|index| array.get_element(index).map_err(from_napi)).collect::<Result<_>>()?;
            match items.first().map(kind).transpose()? {
                Some(ValueType::String) => Attribute::Texts(items.iter().map(from_value).collect::<Result<_>>()?),
                _ => Attribute::Numbers(items.into_iter().map(number).collect::<Result<_>>()?),
            }
        }
    })
}
