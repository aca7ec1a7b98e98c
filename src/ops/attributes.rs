//! Attributes: the arguments and options of an operator that are not operands, by their IDL names.
//!
//! JavaScript, the text form of graphs and importers all pass [`Attributes`]; each operator's struct reads itself from
//! them once. Names and defaults are thus in one place.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use std::collections::BTreeMap;
use std::fmt;

/// The value of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A boolean.
    Bool(bool),
    /// Any number.
    Number(Number),
    /// A value of an enumeration.
    Text(String),
    /// A list of numbers.
    Numbers(Vec<Number>),
    /// A list of values of an enumeration.
    Texts(Vec<String>),
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
            f.write_str("[")?;
            for (i, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str("]")
        }
        match self {
            Attribute::Bool(b) => write!(f, "{b}"),
            Attribute::Number(n) => write!(f, "{n}"),
            Attribute::Text(t) => f.write_str(t),
            Attribute::Numbers(items) => list(f, items),
            Attribute::Texts(items) => list(f, items),
        }
    }
}

/// Attributes by name, in alphabetical order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(pub BTreeMap<String, Attribute>);

impl Attributes {
    /// Reads `name=value name=value`; lists are in brackets and may contain spaces.
    ///
    /// # Panics
    /// If the text is malformed: it is hand-written, for tests.
    pub fn parse(text: &str) -> Attributes {
        let mut attributes = Attributes::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (name, value) = rest.split_once('=').expect("a name and a value");
            let end = if value.starts_with('[') { value.find(']').map(|end| end + 1) } else { value.find(' ') };
            let (value, tail) = value.split_at(end.unwrap_or(value.len()));
            attributes.0.insert(name.to_string(), parse_attribute(value));
            rest = tail.trim_start();
        }
        attributes
    }

    /// Removes and returns the attribute `name`, or its default if it is missing.
    pub fn take<T: AttributeValue>(&mut self, name: &'static str, default: T) -> Result<T, Problem> {
        match self.0.remove(name) {
            None => Ok(default),
            Some(value) => T::from_attribute(&value).ok_or_else(|| Problem::Attribute {
                name,
                got: value.to_string(),
                expected: T::EXPECTED.to_string(),
            }),
        }
    }

    /// Sets the attribute `name`, unless it has its default value.
    pub fn put<T: AttributeValue + PartialEq>(&mut self, name: &'static str, value: &T, default: &T) {
        if value != default
            && let Some(value) = value.to_attribute()
        {
            self.0.insert(name.to_string(), value);
        }
    }
}

fn parse_attribute(text: &str) -> Attribute {
    let is_number = |t: &str| t.parse::<f64>().is_ok();
    match text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        Some(items) => {
            let items: Vec<&str> = items.split(',').map(str::trim).filter(|t| !t.is_empty()).collect();
            match items.iter().all(|t| is_number(t)) {
                true => Attribute::Numbers(items.into_iter().map(parse_number).collect()),
                false => Attribute::Texts(items.into_iter().map(str::to_string).collect()),
            }
        }
        None if text == "true" || text == "false" => Attribute::Bool(text == "true"),
        None if is_number(text) => Attribute::Number(parse_number(text)),
        None => Attribute::Text(text.to_string()),
    }
}

/// Parses a number.
///
/// # Panics
/// If the text is not a number: it is hand-written, for tests.
pub fn parse_number(text: &str) -> Number {
    match text.parse::<i128>() {
        Ok(x) => Number::Int(x),
        Err(_) => Number::Float(text.parse().unwrap_or_else(|_| panic!("no number {text:?}"))),
    }
}

/// A Rust type that an attribute converts to and from.
pub trait AttributeValue: Sized {
    /// What error messages say was expected.
    const EXPECTED: &'static str;
    /// `None` if the value is of a different kind or out of range.
    fn from_attribute(value: &Attribute) -> Option<Self>;
    /// `None` for an option that is not set.
    fn to_attribute(&self) -> Option<Attribute>;
}

impl AttributeValue for bool {
    const EXPECTED: &'static str = "a boolean";
    fn from_attribute(value: &Attribute) -> Option<bool> {
        if let Attribute::Bool(b) = value { Some(*b) } else { None }
    }
    fn to_attribute(&self) -> Option<Attribute> {
        Some(Attribute::Bool(*self))
    }
}

impl AttributeValue for Number {
    const EXPECTED: &'static str = "a number";
    fn from_attribute(value: &Attribute) -> Option<Number> {
        if let Attribute::Number(n) = value { Some(*n) } else { None }
    }
    fn to_attribute(&self) -> Option<Attribute> {
        Some(Attribute::Number(*self))
    }
}

/// A Rust number type that attributes can hold.
trait FromNumber: Sized + Copy {
    fn from_number(n: Number) -> Option<Self>;
    fn to_number(self) -> Number;
}

macro_rules! integer_attributes {
    ($($type:ty: $expected:literal)*) => {$(
        impl FromNumber for $type {
            fn from_number(n: Number) -> Option<$type> {
                match n {
                    Number::Int(x) => x.try_into().ok(),
                    Number::Float(x) if x.fract() == 0.0 => (x as i128).try_into().ok(),
                    Number::Float(_) => None,
                }
            }
            fn to_number(self) -> Number {
                Number::Int(self as i128)
            }
        }
        impl AttributeValue for $type {
            const EXPECTED: &'static str = $expected;
            fn from_attribute(value: &Attribute) -> Option<$type> {
                <$type>::from_number(Number::from_attribute(value)?)
            }
            fn to_attribute(&self) -> Option<Attribute> {
                Some(Attribute::Number(self.to_number()))
            }
        }
    )*};
}

integer_attributes! { u32: "an unsigned 32-bit integer" i32: "a signed 32-bit integer" }

impl FromNumber for f64 {
    fn from_number(n: Number) -> Option<f64> {
        Some(n.to_f64())
    }
    fn to_number(self) -> Number {
        Number::Float(self)
    }
}

impl AttributeValue for f64 {
    const EXPECTED: &'static str = "a number";
    fn from_attribute(value: &Attribute) -> Option<f64> {
        Some(Number::from_attribute(value)?.to_f64())
    }
    fn to_attribute(&self) -> Option<Attribute> {
        Some(Attribute::Number(Number::Float(*self)))
    }
}

macro_rules! list_attributes {
    ($($type:ty: $expected:literal)*) => {$(
        impl AttributeValue for Vec<$type> {
            const EXPECTED: &'static str = $expected;
            fn from_attribute(value: &Attribute) -> Option<Vec<$type>> {
                match value {
                    Attribute::Numbers(items) => items.iter().map(|&n| <$type>::from_number(n)).collect(),
                    // An empty list has no kind of its own.
                    Attribute::Texts(items) if items.is_empty() => Some(Vec::new()),
                    _ => None,
                }
            }
            fn to_attribute(&self) -> Option<Attribute> {
                Some(Attribute::Numbers(self.iter().map(|&x| x.to_number()).collect()))
            }
        }
    )*};
}

impl FromNumber for Dim {
    fn from_number(n: Number) -> Option<Dim> {
        u32::from_number(n).map(Dim::from)
    }

    fn to_number(self) -> Number {
        Number::Int(self.shown() as i128)
    }
}

impl AttributeValue for Dim {
    const EXPECTED: &'static str = u32::EXPECTED;

    fn from_attribute(value: &Attribute) -> Option<Dim> {
        Dim::from_number(Number::from_attribute(value)?)
    }

    fn to_attribute(&self) -> Option<Attribute> {
        Some(Attribute::Number(self.to_number()))
    }
}

list_attributes! {
    u32: "a list of unsigned 32-bit integers"
    Dim: "a list of unsigned 32-bit integers"
    f64: "a list of numbers"
}

impl<const N: usize> AttributeValue for [u32; N] {
    const EXPECTED: &'static str = Vec::<u32>::EXPECTED;
    fn from_attribute(value: &Attribute) -> Option<[u32; N]> {
        Vec::from_attribute(value)?.try_into().ok()
    }
    fn to_attribute(&self) -> Option<Attribute> {
        self.to_vec().to_attribute()
    }
}

impl<T: AttributeValue> AttributeValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    fn from_attribute(value: &Attribute) -> Option<Option<T>> {
        T::from_attribute(value).map(Some)
    }
    fn to_attribute(&self) -> Option<Attribute> {
        self.as_ref().and_then(T::to_attribute)
    }
}

impl AttributeValue for DataType {
    const EXPECTED: &'static str = "an MLOperandDataType";
    fn from_attribute(value: &Attribute) -> Option<DataType> {
        if let Attribute::Text(name) = value { DataType::from_name(name) } else { None }
    }
    fn to_attribute(&self) -> Option<Attribute> {
        Some(Attribute::Text(self.name().to_string()))
    }
}

/// Declares an IDL enumeration: a Rust enum whose variants know their names.
#[macro_export]
macro_rules! enumeration {
    ($(#[$meta:meta])* pub enum $Name:ident { $($(#[$vmeta:meta])* $Variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Name { $($(#[$vmeta])* $Variant,)* }

        impl $Name {
            /// The name in the IDL enumeration.
            pub fn name(self) -> &'static str {
                match self { $($Name::$Variant => $text,)* }
            }
            /// The value of that name, if it exists.
            pub fn from_name(name: &str) -> Option<$Name> {
                match name { $($text => Some($Name::$Variant),)* _ => None }
            }
        }

        impl $crate::ops::attributes::AttributeValue for $Name {
            const EXPECTED: &'static str = concat!("one of" $(, " ", $text)*);
            fn from_attribute(value: &$crate::ops::attributes::Attribute) -> Option<$Name> {
                if let $crate::ops::attributes::Attribute::Text(name) = value { $Name::from_name(name) } else { None }
            }
            fn to_attribute(&self) -> Option<$crate::ops::attributes::Attribute> {
                Some($crate::ops::attributes::Attribute::Text(self.name().to_string()))
            }
        }

        impl $crate::ops::attributes::AttributeValue for Vec<$Name> {
            const EXPECTED: &'static str = concat!("a list of" $(, " ", $text)*);
            fn from_attribute(value: &$crate::ops::attributes::Attribute) -> Option<Vec<$Name>> {
                match value {
                    $crate::ops::attributes::Attribute::Texts(names) => {
                        names.iter().map(|name| $Name::from_name(name)).collect()
                    }
                    $crate::ops::attributes::Attribute::Numbers(items) if items.is_empty() => Some(Vec::new()),
                    _ => None,
                }
            }
            fn to_attribute(&self) -> Option<$crate::ops::attributes::Attribute> {
                let names = self.iter().map(|value| value.name().to_string()).collect();
                Some($crate::ops::attributes::Attribute::Texts(names))
            }
        }
    };
}

/// Declares the attribute struct of an operator family: `field "idlName": Type = default`.
#[macro_export]
macro_rules! attributes {
    ($(#[$meta:meta])* pub struct $Name:ident {
        $($(#[$fmeta:meta])* $field:ident $idl:literal: $Type:ty = $default:expr,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Name { $($(#[$fmeta])* pub $field: $Type,)* }

        impl Default for $Name {
            fn default() -> $Name {
                $Name { $($field: $default,)* }
            }
        }

        impl $Name {
            /// Takes the attributes of this struct out of `attributes`.
            pub fn read(
                attributes: &mut $crate::ops::attributes::Attributes,
            ) -> Result<$Name, $crate::error::Problem> {
                Ok($Name { $($field: attributes.take($idl, $default)?,)* })
            }

            /// Sets every attribute that differs from its default.
            pub fn write(&self, attributes: &mut $crate::ops::attributes::Attributes) {
                $(attributes.put($idl, &self.$field, &$default);)*
            }
        }
    };
}
