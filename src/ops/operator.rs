//! What operators have in common.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::OpRule;
use super::tensor::Tensor;
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;
use std::fmt;

/// The descriptors of a node's operands, in the order of the rule row; an optional one can be absent.
pub type Inputs<'a> = [Option<&'a Descriptor>];
/// The oracle tensors of a node's operands, in the order of the rule row; an optional one can be absent.
pub type Tensors<'a> = [Option<&'a Tensor>];

/// The operand at `index`, which the rule row requires and validation has found.
pub fn required<'a, T>(operands: &[Option<&'a T>], index: usize) -> &'a T {
    given(operands, index).expect("validated against the rule row")
}

/// The operand at `index`, if it was given.
pub fn given<'a, T>(operands: &[Option<&'a T>], index: usize) -> Option<&'a T> {
    operands.get(index).copied().flatten()
}

/// The most operands of a `concat()` and outputs of a `split()`: "valid tensor count" of the draft.
pub const MAX_TENSOR_COUNT: usize = 8192;

/// A family of operators that methods of MLGraphBuilder make.
pub trait ApiOperator: Operator {
    /// The rows of all methods of this family.
    const RULES: &'static [OpRule];

    /// The operator that the method `name` (one of [`RULES`](Self::RULES)) makes with `attributes`; takes out what
    /// it knows.
    fn read(name: &str, attributes: &mut Attributes) -> Result<Self, Problem>;
}

/// What every operator family provides.
pub trait Operator: Clone + fmt::Debug + PartialEq + Sized {
    /// The row of this operator.
    fn rule(&self) -> &'static OpRule;

    /// Attributes that differ from their defaults.
    fn write(&self, attributes: &mut Attributes);

    /// The shape rule: outputs for `inputs` that the rule row accepts. Data types of the outputs are set here too.
    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem>;

    /// The naive reference, straight from the formulas of the draft. `outputs` is what [`infer`](Self::infer) gave.
    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor>;

    /// Checks what the draft's steps of the method let pass although its formulas do not cover it. Called when the graph
    /// is built.
    fn check_defined(&self, _inputs: &Inputs) -> Result<(), Problem> {
        Ok(())
    }

    /// Numbers in the attributes are cast to the data type of the operands they are used with, and attributes
    /// that depend on each other are checked (`clamp`). Called once, before [`infer`](Self::infer).
    fn resolve(&mut self, _inputs: &Inputs) -> Result<(), Problem> {
        Ok(())
    }

    /// This operator between tensors of which dimension `i` is dimension `axes[i]` of those that it reads and writes now;
    /// `None` if it cannot do that.
    fn transposed(&self, _axes: &[usize]) -> Option<Self> {
        None
    }

    /// This operator for `count` places of each group `along` a dimension of its only output, whichever they are; `None` if
    /// places along that dimension need more of the operands than the same places, or everything.
    fn rows(&self, _inputs: &Inputs, _output: &Descriptor, _along: Along, _count: Dim) -> Option<Rows<Self>> {
        None
    }

    /// Shows `visit` every dimension among the attributes.
    fn visit_dims(&mut self, _visit: &mut dyn FnMut(&mut Dim)) {}

    /// Multiply-adds of the sums of products that the formulas of the draft have: matrix products, convolutions (terms
    /// with padding included) and the products with weights of recurrent networks. 0 for everything else, element-wise
    /// operators and pooling among it: how long those take depends on the bytes that they move.
    fn multiply_adds(&self, _inputs: &Inputs, _outputs: &[&Descriptor]) -> u64 {
        0
    }

    /// Bytes of the operands that are read, each counted once.
    fn bytes_read(&self, inputs: &Inputs, _outputs: &[&Descriptor]) -> u64 {
        inputs.iter().flatten().map(|input| input.bytes() as u64).sum()
    }
}

/// The place of the dimension `axis` after a transposition by `axes`.
pub fn place_of(axes: &[usize], axis: u32) -> u32 {
    axes.iter().position(|&other| other == axis as usize).expect("a permutation") as u32
}

/// What belongs to the dimensions, after a transposition by `axes`.
pub fn permuted<T: Copy>(axes: &[usize], of_dimensions: &[T]) -> Vec<T> {
    axes.iter().map(|&axis| of_dimensions[axis]).collect()
}

/// The row of that name among the rows of a family.
pub fn row(rules: &'static [OpRule], name: &str) -> &'static OpRule {
    rules.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("no rule row for {name}"))
}

/// A number that stands for a floating-point attribute, cast to the data type of the operand at `index`.
pub fn cast_to(value: f64, inputs: &Inputs, index: usize) -> f64 {
    Number::Float(value).cast(required(inputs, index).dtype).to_f64()
}
