//! Graphs with named dimensions: the extension `dynamic-shapes`.
//!
//! [`Symbols`] accompany a builder and record which dimensions of its operands are names. An operator on such operands
//! is accepted if it is valid for some sizes ([`samples`]). The [`Outline`] of the built graph infers all shapes again
//! for the sizes of a dispatch, and a [`DynamicGraph`] caches compiled graphs.

mod graph;
mod outline;
mod samples;
#[cfg(test)]
mod tests;

pub use graph::DynamicGraph;
pub use outline::Outline;

use crate::dtype::DataType;
use crate::error::{Error, ErrorKind, Problem, Result};
use crate::ir::{Builder, OperandId};
use crate::ops::Op;
use crate::shape::Descriptor;
use samples::{Operand, infer};
use std::collections::HashMap;

/// A dimension of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// A size.
    Number(u32),
    /// A size that is known when the graph is dispatched.
    Named(Symbol),
}

impl Dimension {
    /// The symbol, if it is a name.
    fn symbol(&self) -> Option<Symbol> {
        if let Dimension::Named(symbol) = self { Some(*symbol) } else { None }
    }
}

/// A named dimension, as an index into the names of a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(u32);

/// A dimension as callers write it.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedDimension {
    /// A size.
    Number(u32),
    /// A name.
    Name(String),
}

/// The shapes of the operands that depend on named dimensions.
type Shapes = HashMap<OperandId, Vec<Dimension>>;

/// The names of dimensions in a builder.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// All names: the caller's, and generated ones for computed dimensions.
    names: Vec<String>,
    given: HashMap<String, Symbol>,
    shapes: Shapes,
}

impl Symbols {
    /// `input()`: a named input of the graph whose dimensions may be names. Equal names stand for equal sizes.
    ///
    /// # Errors
    /// Same as [`Builder::input`], and a TypeError for an empty name.
    pub fn input(
        &mut self,
        builder: &mut Builder,
        name: &str,
        dtype: DataType,
        shape: Vec<NamedDimension>,
    ) -> Result<OperandId> {
        // Each name at its smallest size: an input that is too large then always is.
        let least = shape.iter().map(|dimension| match dimension {
            NamedDimension::Number(size) => *size,
            NamedDimension::Name(_) => 1,
        });
        if shape.contains(&NamedDimension::Name(String::new())) {
            let problem = Problem::attribute("descriptor.shape", "", "a name of a dimension that is not empty");
            return Err(Error::at("input", "", problem));
        }
        let id = builder.input(name, Descriptor::new(dtype, least.collect::<Vec<u32>>()))?;
        if shape.iter().any(|dimension| matches!(dimension, NamedDimension::Name(_))) {
            let dimensions = shape.into_iter().map(|dimension| match dimension {
                NamedDimension::Number(size) => Dimension::Number(size),
                NamedDimension::Name(name) => Dimension::Named(self.symbol(name)),
            });
            let dimensions = dimensions.collect();
            self.shapes.insert(id, dimensions);
        }
        Ok(id)
    }

    fn symbol(&mut self, name: String) -> Symbol {
        let next = Symbol(self.names.len() as u32);
        let symbol = *self.given.entry(name.clone()).or_insert(next);
        if symbol == next {
            self.names.push(name);
        }
        symbol
    }

    /// Appends an operator with operands in the order of the rule; returns its outputs.
    ///
    /// # Errors
    /// A TypeError if the operands or attributes violate the operator's rules for all tried sizes of the names.
    pub fn add(
        &mut self,
        builder: &mut Builder,
        op: Op,
        inputs: Vec<Option<OperandId>>,
        label: &str,
    ) -> Result<Vec<OperandId>> {
        if !inputs.iter().flatten().any(|id| self.shapes.contains_key(id)) {
            return builder.add(op, inputs, label);
        }
        let shapes: Vec<Option<Vec<Dimension>>> =
            inputs.iter().map(|input| input.map(|id| self.dimensions(builder, id))).collect();
        let operands: Vec<Option<Operand>> = inputs
            .iter()
            .zip(&shapes)
            .map(|(input, shape)| Some(Operand { dtype: builder.descriptor((*input)?).dtype, shape: shape.as_ref()? }))
            .collect();
        let name = op.rule().name;
        let inferred = infer(&op, &operands, builder.max_tensor_bytes()).map_err(|refusal| {
            let error = Error::at(name, label, refusal.problem);
            if refusal.sizes.is_empty() {
                return error;
            }
            let sizes = refusal.sizes.iter().map(|(symbol, size)| format!("{} = {size}", self.quoted(*symbol)));
            let sizes = sizes.collect::<Vec<_>>().join(", ");
            let message = format!("{}; no sizes of the named dimensions fit, for example {sizes}", error.message);
            Error { code: error.code, ..Error::new(ErrorKind::Type, message) }
        })?;
        let (descriptors, shapes): (Vec<_>, Vec<_>) = inferred.into_iter().unzip();
        // Left unresolved: resolved for the sizes of a dispatch.
        let outputs = builder.append(op, inputs, descriptors, label.to_string());
        for (index, (&id, shape)) in outputs.iter().zip(shapes).enumerate() {
            let shape = shape.into_iter().enumerate().map(|(axis, dimension)| {
                dimension.unwrap_or_else(|| {
                    let part = if outputs.len() == 1 { String::new() } else { format!("_{index}") };
                    self.made_up(&format!("{name}{}{part}_axis{axis}", outputs[0].0))
                })
            });
            let shape = shape.collect();
            self.shapes.insert(id, shape);
        }
        Ok(outputs)
    }

    /// A new name for a computed dimension.
    fn made_up(&mut self, wish: &str) -> Dimension {
        let mut name = wish.to_string();
        while self.given.contains_key(&name) {
            name.push('_');
        }
        self.names.push(name);
        Dimension::Named(Symbol(self.names.len() as u32 - 1))
    }

    fn dimensions(&self, builder: &Builder, id: OperandId) -> Vec<Dimension> {
        let numbers = || builder.descriptor(id).shape.iter().map(|dim| Dimension::Number(dim.get())).collect();
        self.shapes.get(&id).cloned().unwrap_or_else(numbers)
    }

    /// The shape of an operand.
    pub fn shape(&self, builder: &Builder, id: OperandId) -> Vec<NamedDimension> {
        let dimensions = self.dimensions(builder, id).into_iter();
        let named = dimensions.map(|dimension| match dimension {
            Dimension::Number(size) => NamedDimension::Number(size),
            Dimension::Named(symbol) => NamedDimension::Name(self.names[symbol.0 as usize].clone()),
        });
        named.collect()
    }

    /// Whether the shape of an operand depends on the sizes of inputs.
    pub fn is_dynamic(&self, id: OperandId) -> bool {
        self.shapes.contains_key(&id)
    }

    fn quoted(&self, symbol: Symbol) -> String {
        format!("{:?}", self.names[symbol.0 as usize])
    }
}
