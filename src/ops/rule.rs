//! Rules: the data types and ranks that an operator accepts and returns. Validation, `opSupportLimits()`, the support
//! table of the documentation and the generators of tests read them; nothing repeats them.

use crate::dtype::DataType::{self, *};
use crate::error::Problem;
use crate::shape::{Descriptor, MAX_RANK};

/// Allowed data types of an operand or output.
#[derive(Clone, Copy, Debug)]
pub enum Types {
    /// Any of these.
    OneOf(&'static [DataType]),
    /// The type of the operand with this name.
    SameAs(&'static str),
}

/// Every data type: those of the draft, and float64.
pub const ANY: Types = Types::OneOf(&DataType::OF_VALUES);
/// Every data type of the draft.
pub const DRAFT: Types = Types::OneOf(&DataType::ALL);
/// The floating-point types of the draft.
pub const FLOATS: Types = Types::OneOf(&[Float32, Float16]);
/// The floating-point types.
pub const REALS: Types = Types::OneOf(&[Float32, Float16, Float64]);
/// The integer types.
pub const INTEGERS: Types = Types::OneOf(&[Int32, Uint32, Int64, Uint64, Int8, Uint8]);
/// The signed types.
pub const SIGNED: Types = Types::OneOf(&[Float32, Float16, Int64, Int32, Int8, Float64]);
/// The floating-point types and the integers of at least 32 bits.
pub const WIDE: Types = Types::OneOf(&[Float32, Float16, Int32, Uint32, Int64, Uint64, Float64]);
/// The types of truth values.
pub const BOOLEAN: Types = Types::OneOf(&[Uint8]);
/// The types of indices.
pub const INDICES: Types = Types::OneOf(&[Int32, Uint32, Int64]);
/// The types of quantized values.
pub const QUANTIZED: Types = Types::OneOf(&[Uint8, Int8, Uint32, Int32]);

/// The types of values to dequantize, those of an extension last.
pub const DEQUANTIZED: Types = Types::OneOf(&[Uint8, Int8, Uint32, Int32, Uint4, Int4]);

/// Smallest and largest rank.
pub type Ranks = (usize, usize);
/// "N" of the draft's tables.
pub const ANY_RANK: Ranks = (0, MAX_RANK);
/// "1 to N" of the draft's tables.
pub const FROM_1D: Ranks = (1, MAX_RANK);
/// "2 to N" of the draft's tables.
pub const FROM_2D: Ranks = (2, MAX_RANK);

/// One operand of an operator.
#[derive(Clone, Copy, Debug)]
pub struct OperandRule {
    /// The name in the IDL.
    pub name: &'static str,
    /// The data types that the draft accepts; any other is a TypeError.
    pub types: Types,
    /// Smallest and largest accepted rank.
    pub ranks: Ranks,
    /// Whether it may be omitted.
    pub optional: bool,
    /// Whether it stands for any number of operands (`concat`). Only the last operand may be variadic.
    pub variadic: bool,
}

/// A required operand.
pub const fn operand(name: &'static str, types: Types, ranks: Ranks) -> OperandRule {
    OperandRule { name, types, ranks, optional: false, variadic: false }
}

/// An operand that may be omitted.
pub const fn optional(name: &'static str, types: Types, ranks: Ranks) -> OperandRule {
    OperandRule { name, types, ranks, optional: true, variadic: false }
}

/// A sequence of operands.
pub const fn variadic(name: &'static str, types: Types, ranks: Ranks) -> OperandRule {
    OperandRule { name, types, ranks, optional: false, variadic: true }
}

/// One output of an operator.
#[derive(Clone, Copy, Debug)]
pub struct OutputRule {
    /// The name in `MLOpSupportLimits`.
    pub name: &'static str,
    /// The possible data types.
    pub types: Types,
    /// Smallest and largest rank.
    pub ranks: Ranks,
}

/// An output.
pub const fn output(name: &'static str, types: Types, ranks: Ranks) -> OutputRule {
    OutputRule { name, types, ranks }
}

/// The rule of one operator.
#[derive(Clone, Copy, Debug)]
pub struct OpRule {
    /// The method of MLGraphBuilder.
    pub name: &'static str,
    /// Operands in the order of nodes.
    pub operands: &'static [OperandRule],
    /// Outputs.
    pub outputs: &'static [OutputRule],
}

impl OpRule {
    /// The data types that `types` stands for in this rule.
    pub fn resolve(&self, types: Types) -> &'static [DataType] {
        match types {
            Types::OneOf(types) => types,
            Types::SameAs(name) => {
                let other = self.operands.iter().find(|operand| operand.name == name);
                self.resolve(other.unwrap_or_else(|| panic!("{}: no operand {name}", self.name)).types)
            }
        }
    }

    /// The rule of a node's operand at `index`; a variadic operand covers every index from its own on.
    pub fn operand(&self, index: usize) -> Option<&OperandRule> {
        self.operands.get(index).or_else(|| self.operands.last().filter(|last| last.variadic))
    }

    /// Checks presence, data types and ranks of `inputs` against this rule.
    pub fn validate(&self, inputs: &[Option<&Descriptor>]) -> Result<(), Problem> {
        if inputs.len() > self.operands.len() && !self.operands.last().is_some_and(|last| last.variadic) {
            let expected = self.operands.len().to_string();
            return Err(Problem::Attribute { name: "number of operands", got: inputs.len().to_string(), expected });
        }
        for index in 0..inputs.len().max(self.operands.len()) {
            let Some(rule) = self.operand(index) else { continue };
            match inputs.get(index).copied().flatten() {
                Some(input) => self.validate_operand(rule, input, inputs)?,
                None if rule.optional => {}
                None => return Err(Problem::Missing { operand: rule.name }),
            }
        }
        Ok(())
    }

    fn validate_operand(
        &self,
        rule: &OperandRule,
        input: &Descriptor,
        inputs: &[Option<&Descriptor>],
    ) -> Result<(), Problem> {
        let fits = match rule.types {
            Types::OneOf(types) => types.contains(&input.dtype),
            Types::SameAs(name) => {
                let other = self.operands.iter().position(|operand| operand.name == name);
                other.and_then(|i| inputs.get(i).copied().flatten()).is_none_or(|other| other.dtype == input.dtype)
            }
        };
        if !fits {
            let expected = match rule.types {
                // Only models have float64: a message about another type is one of the API.
                Types::OneOf(types) => types.iter().copied().filter(|&dtype| dtype != Float64).collect(),
                Types::SameAs(name) => {
                    let other = self.operands.iter().position(|operand| operand.name == name);
                    other.and_then(|i| inputs[i]).map(|other| other.dtype).into_iter().collect()
                }
            };
            return Err(Problem::DataType { operand: rule.name, got: input.dtype, expected });
        }
        let (min, max) = rule.ranks;
        if !(min..=max).contains(&input.rank()) {
            return Err(Problem::Rank { operand: rule.name, got: input.rank(), min, max });
        }
        Ok(())
    }
}
