//! The interface of all operators.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::OpRule;
use super::tensor::Tensor;
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;
use std::fmt;

/// The descriptors of a node's operands, in the order of the rule; optional ones may be absent.
pub type Inputs<'a> = [Option<&'a Descriptor>];
/// The oracle tensors of a node's operands, in the order of the rule; optional ones may be absent.
pub type Tensors<'a> = [Option<&'a Tensor>];

/// The operand at `index`, which the rule requires and validation has checked.
pub fn required<'a, T>(operands: &[Option<&'a T>], index: usize) -> &'a T {
    given(operands, index).expect("validated against the rule")
}

/// The operand at `index`, if present.
pub fn given<'a, T>(operands: &[Option<&'a T>], index: usize) -> Option<&'a T> {
    operands.get(index).copied().flatten()
}

/// Maximum number of operands of a `concat()` and outputs of a `split()`: "valid tensor count" of the draft.
pub const MAX_TENSOR_COUNT: usize = 8192;

/// A family of operators that are read by their names: those of the API are methods of MLGraphBuilder.
pub trait NamedOperator: Operator {
    /// The rules of all operators of this family.
    const RULES: &'static [OpRule];

    /// The operator `name` (one of [`RULES`](Self::RULES)) with `attributes`; removes the attributes that it knows.
    fn read(name: &str, attributes: &mut Attributes) -> Result<Self, Problem>;
}

/// The interface of every operator family.
pub trait Operator: Clone + fmt::Debug + PartialEq + Sized {
    /// The rule of this operator.
    fn rule(&self) -> &'static OpRule;

    /// Attributes that differ from their defaults.
    fn write(&self, attributes: &mut Attributes);

    /// Shape inference: the outputs, including data types, for `inputs` that the rule accepts.
    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem>;

    /// The naive reference, a direct translation of the draft's formulas. `outputs` is the result of
    /// [`infer`](Self::infer).
    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor>;

    /// Checks arguments that the draft's steps accept although its formulas do not cover them. Called when the graph is
    /// built.
    fn check_defined(&self, _inputs: &Inputs) -> Result<(), Problem> {
        Ok(())
    }

    /// Casts numbers in the attributes to the data type of the operands that they apply to, and checks attributes that
    /// depend on each other (`clamp`). Called once, before [`infer`](Self::infer).
    fn resolve(&mut self, _inputs: &Inputs) -> Result<(), Problem> {
        Ok(())
    }

    /// This operator on transposed tensors, whose dimension `i` is dimension `axes[i]` of the current operands and
    /// outputs; `None` if it does not support that.
    fn transposed(&self, _axes: &[usize]) -> Option<Self> {
        None
    }

    /// This operator, computing only `count` arbitrary places of each group `along` a dimension of its only output;
    /// `None` if these places need more of the operands than the same places, or all of it.
    fn rows(&self, _inputs: &Inputs, _output: &Descriptor, _along: Along, _count: Dim) -> Option<Rows<Self>> {
        None
    }

    /// Calls `visit` with every dimension among the attributes.
    fn visit_dims(&mut self, _visit: &mut dyn FnMut(&mut Dim)) {}

    /// Multiply-adds of the sums of products in the draft's formulas: matrix products, convolutions (including terms in
    /// padding), and the products with weights in recurrent networks. 0 for everything else, including element-wise
    /// operators and pooling, whose time depends on the bytes that they move.
    fn multiply_adds(&self, _inputs: &Inputs, _outputs: &[&Descriptor]) -> u64 {
        0
    }

    /// Bytes of the operands to read, each counted once.
    fn bytes_read(&self, inputs: &Inputs, _outputs: &[&Descriptor]) -> u64 {
        inputs.iter().flatten().map(|input| input.bytes() as u64).sum()
    }
}

/// Where dimension `axis` is after a transposition by `axes`.
pub fn place_of(axes: &[usize], axis: u32) -> u32 {
    axes.iter().position(|&other| other == axis as usize).expect("a permutation") as u32
}

/// Per-dimension values after a transposition by `axes`.
pub fn permuted<T: Copy>(axes: &[usize], of_dimensions: &[T]) -> Vec<T> {
    axes.iter().map(|&axis| of_dimensions[axis]).collect()
}

/// The problem that no method of MLGraphBuilder is called `name`.
pub fn no_operator(name: &str) -> Problem {
    Problem::attribute("operator", name, "an operator of the draft")
}

/// The rule with this name among those of a family.
pub fn row(rules: &'static [OpRule], name: &str) -> &'static OpRule {
    rules.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("no rule for {name}"))
}

/// A floating-point attribute, cast to the data type of the operand at `index`.
pub fn cast_to(value: f64, inputs: &Inputs, index: usize) -> f64 {
    Number::Float(value).cast(required(inputs, index).dtype).to_f64()
}
