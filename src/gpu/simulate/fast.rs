//! The rewrites that compilers apply to floats where drivers let them ("fast math", as Metal's do): they assume that
//! there is neither NaN nor infinity, and that sums and products are associative. Each operator has the result that is
//! worst for a kernel that relies on IEEE 754:
//!
//! * a sum is that of all terms of its expression: those that cancel are left out, the others are added from last to
//!   first, and a product among them is not rounded (contraction);
//! * the factors of a product are multiplied from last to first, and a quotient is a product with a reciprocal;
//! * `fma()` rounds its product;
//! * a comparison with NaN has the opposite of its result, and nothing equals an infinity.
//!
//! Expressions end at loads, calls and conversions. A driver's compiler inlines functions, too: a kernel must not rely
//! on a call to separate two operations.

use super::arithmetic::Scalar;
use super::machine::{Frame, Machine};
use wgpu::naga::{Arena, BinaryOperator, Expression, Handle, Literal, MathFunction, UnaryOperator};

type Value = Handle<Expression>;

/// The rules for floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Math {
    /// Those of IEEE 754: one rounding per operation.
    Strict,
    /// Those of compilers that may rewrite expressions.
    Fast,
}

/// A product, as part of a sum.
struct Term {
    negative: bool,
    factors: Vec<Value>,
}

/// Appends the terms of the sum `value`.
fn add_terms(all: &Arena<Expression>, value: Value, negative: bool, terms: &mut Vec<Term>) {
    match all[value] {
        Expression::Binary { op: BinaryOperator::Add, left, right } => {
            add_terms(all, left, negative, terms);
            add_terms(all, right, negative, terms);
        }
        Expression::Binary { op: BinaryOperator::Subtract, left, right } => {
            add_terms(all, left, negative, terms);
            add_terms(all, right, !negative, terms);
        }
        Expression::Unary { op: UnaryOperator::Negate, expr } => add_terms(all, expr, !negative, terms),
        _ => {
            let mut factors = Vec::new();
            add_factors(all, value, &mut factors);
            terms.push(Term { negative, factors });
        }
    }
}

/// Appends the factors of the product `value`.
fn add_factors(all: &Arena<Expression>, value: Value, factors: &mut Vec<Value>) {
    match all[value] {
        Expression::Binary { op: BinaryOperator::Multiply, left, right } => {
            add_factors(all, left, factors);
            add_factors(all, right, factors);
        }
        _ => factors.push(value),
    }
}

/// Equal for expressions that a compiler knows to be equal: the same one, or equal literals.
fn key(all: &Arena<Expression>, value: Value) -> (usize, u32) {
    match all[value] {
        Expression::Literal(Literal::F32(x)) => (usize::MAX, x.to_bits()),
        _ => (value.index(), 0),
    }
}

/// The terms of the sum `value` that do not cancel.
fn terms_of(all: &Arena<Expression>, value: Value) -> Vec<Term> {
    let mut terms = Vec::new();
    add_terms(all, value, false, &mut terms);
    let keys = |term: &Term| {
        let mut keys: Vec<_> = term.factors.iter().map(|&factor| key(all, factor)).collect();
        keys.sort_unstable();
        keys
    };
    let mut kept: Vec<Term> = Vec::new();
    for term in terms {
        let opposite = |other: &Term| other.negative != term.negative && keys(other) == keys(&term);
        match kept.iter().position(opposite) {
            Some(index) => drop(kept.remove(index)),
            None => kept.push(term),
        }
    }
    kept
}

impl Machine<'_> {
    /// Evaluates the operator of `target` for `lanes`, if rewrites concern it; returns whether they do.
    pub(super) fn rewrite(&self, function: usize, frame: &mut Frame, target: Value, lanes: &[u32]) -> bool {
        let all = &self.program.function(function).expressions;
        let scalar_of = |value: Value| self.program.functions[function].slots[value.index()].scalar();
        match all[target] {
            Expression::Binary { op, left, right } if scalar_of(left).is_float() => {
                let scalar = scalar_of(left);
                match op {
                    BinaryOperator::Add | BinaryOperator::Subtract | BinaryOperator::Multiply => {
                        self.sum(function, frame, target, &terms_of(all, target), lanes);
                    }
                    BinaryOperator::Divide if key(all, left) == key(all, right) => {
                        self.floats(function, frame, target, &[], lanes, |_| 1.0);
                    }
                    BinaryOperator::Divide => {
                        let quotient = |x: &[f32]| x[0] * scalar.rounded(1.0 / x[1]);
                        self.floats(function, frame, target, &[left, right], lanes, quotient);
                    }
                    _ => return self.compare(function, frame, (target, op, left, right), lanes),
                }
            }
            Expression::Math { fun: MathFunction::Fma, arg, arg1: Some(b), arg2: Some(c), .. } => {
                let scalar = scalar_of(arg);
                let twice = |x: &[f32]| scalar.rounded(x[0] * x[1]) + x[2];
                self.floats(function, frame, target, &[arg, b, c], lanes, twice);
            }
            _ => return false,
        }
        true
    }

    fn sum(&self, function: usize, frame: &mut Frame, target: Value, terms: &[Term], lanes: &[u32]) {
        let values: Vec<Value> = terms.iter().flat_map(|term| &term.factors).copied().collect();
        let scalar = self.program.functions[function].slots[target.index()].scalar();
        self.floats(function, frame, target, &values, lanes, |x| {
            let mut rest = x;
            let mut sum = None;
            for term in terms.iter().rev() {
                let (before, own) = rest.split_at(rest.len() - term.factors.len());
                rest = before;
                let product = own[1..].iter().rev().copied().reduce(|a, b| scalar.rounded(a * b)).unwrap_or(1.0);
                let first = if term.negative { -own[0] } else { own[0] };
                sum = Some(match sum {
                    None => scalar.rounded(product * first),
                    Some(sum) => scalar.rounded(product.mul_add(first, sum)),
                });
            }
            sum.unwrap_or(0.0)
        });
    }

    fn compare(
        &self,
        function: usize,
        frame: &mut Frame,
        (target, op, left, right): (Value, BinaryOperator, Value, Value),
        lanes: &[u32],
    ) -> bool {
        let compare: fn(f32, f32) -> bool = match op {
            BinaryOperator::Equal => |a, b| a == b && a.is_finite(),
            BinaryOperator::NotEqual => |a, b| a != b || a.is_infinite(),
            BinaryOperator::Less => |a, b| a < b,
            BinaryOperator::LessEqual => |a, b| a <= b,
            BinaryOperator::Greater => |a, b| a > b,
            BinaryOperator::GreaterEqual => |a, b| a >= b,
            _ => return false,
        };
        self.each(function, frame, target, &[left, right], lanes, |x| {
            let is_nan = x[0].is_nan() || x[1].is_nan();
            (compare(x[0], x[1]) != is_nan) as u64
        });
        true
    }

    /// Computes each component of `target`, a float, from those of `values`.
    fn floats(
        &self,
        function: usize,
        frame: &mut Frame,
        target: Value,
        values: &[Value],
        lanes: &[u32],
        f: impl Fn(&[f32]) -> f32,
    ) {
        let scalar = self.program.functions[function].slots[target.index()].scalar();
        self.each(function, frame, target, values, lanes, |x| scalar.float_bits(f(x)));
    }

    /// Computes the bits of each component of `target` from the components of `values`; scalars are broadcast.
    fn each(
        &self,
        function: usize,
        frame: &mut Frame,
        target: Value,
        values: &[Value],
        lanes: &[u32],
        f: impl Fn(&[f32]) -> u64,
    ) {
        let slots = &self.program.functions[function].slots;
        let to = self.column(function, target);
        let from: Vec<_> =
            values.iter().map(|&value| (self.column(function, value), slots[value.index()].scalar())).collect();
        let mut x = vec![0.0; values.len()];
        for &lane in lanes {
            for component in 0..to.width {
                for (x, (column, scalar)) in x.iter_mut().zip(&from) {
                    let at = column.at(lane) + if column.width > 1 { component } else { 0 };
                    *x = scalar.float(frame.scalars[at]);
                }
                frame.scalars[to.at(lane) + component] = f(&x);
            }
        }
    }
}

impl Scalar {
    /// A float, rounded to this type.
    fn rounded(self, x: f32) -> f32 {
        self.float(self.float_bits(x))
    }
}
