//! Dimensions: numbers, or functions of sizes still unknown.
//!
//! A model is compiled once for all sizes of its inputs. During compilation each size has a value, and code computes
//! with dimensions as if they were numbers; a [`Tape`] records all computations with free sizes, and the outcome of
//! every comparison. [`Tape::evaluate`] then computes all dimensions for other sizes and checks whether every
//! comparison has the same outcome: only then is the compiled result valid for them.

use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::iter::{Product, Sum};
use std::num::NonZeroU32;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub};

/// An index on the tape, from 1.
type Term = NonZeroU32;

/// A dimension, or an integer computed from dimensions.
///
/// Arithmetic saturates: sizes of tensors are far from the ends of the range, and values at the ends are rejected as
/// too large.
#[derive(Clone, Copy, Default)]
pub struct Dim {
    /// Its value, for the sizes that the tape was recorded with.
    value: i64,
    /// The computation on the tape; `None` for a number.
    term: Option<Term>,
}

/// The identity of a dimension; see [`Dim::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DimKey(i64, Option<Term>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Free(usize),
    Number(i64),
    Add(Term, Term),
    Sub(Term, Term),
    Mul(Term, Term),
    Div(Term, Term),
    Rem(Term, Term),
    Min(Term, Term),
    Max(Term, Term),
}

/// A comparison and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Guard {
    a: Term,
    b: Term,
    outcome: Outcome,
}

/// The outcome of a comparison, as far as somebody asked for it: if a size is below another one or not, it does not
/// matter whether they are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Order(Ordering),
    Equal(bool),
    Less(bool),
}

impl Outcome {
    /// Whether two values in this order have the outcome.
    fn is(self, order: Ordering) -> bool {
        match self {
            Outcome::Order(outcome) => order == outcome,
            Outcome::Equal(outcome) => order.is_eq() == outcome,
            Outcome::Less(outcome) => order.is_lt() == outcome,
        }
    }
}

/// The computations with free sizes, and the outcomes of comparisons.
#[derive(Debug, Default)]
pub struct Tape {
    operations: Vec<Operation>,
    guards: Vec<Guard>,
    known: HashMap<Operation, Term>,
    guarded: HashSet<Guard>,
    /// The computations whose values were asked for.
    pinned: HashSet<Term>,
}

thread_local! {
    /// The tape of the graph that this thread is compiling for all sizes.
    static TAPE: RefCell<Option<Tape>> = const { RefCell::new(None) };
}

/// Ends a recording, even on a panic.
struct Recording;

impl Drop for Recording {
    fn drop(&mut self) {
        TAPE.take();
    }
}

impl Tape {
    /// Calls `work` with free sizes that have these values; returns its result and the recording. Dimensions in the
    /// result are only valid for [`Dim::at`] with this tape.
    ///
    /// # Panics
    /// If this thread is already recording.
    pub fn record<T>(sizes: &[i64], work: impl FnOnce(&[Dim]) -> T) -> (T, Tape) {
        let mut tape = Tape::default();
        let free: Vec<Dim> = sizes
            .iter()
            .enumerate()
            .map(|(index, &size)| Dim { value: size, term: Some(tape.push(Operation::Free(index))) })
            .collect();
        let earlier = TAPE.replace(Some(tape));
        assert!(earlier.is_none(), "a recording within a recording");
        let recording = Recording;
        let result = work(&free);
        let tape = TAPE.take().expect("a recording is in progress");
        drop(recording);
        (result, tape.finished())
    }

    /// The recording without what only recording more would need: templates keep it.
    fn finished(mut self) -> Tape {
        self.operations.shrink_to_fit();
        self.guards.shrink_to_fit();
        (self.known, self.guarded) = Default::default();
        self
    }

    /// Evaluates the tape for other sizes into `values`; returns `false` if a comparison has a different outcome.
    ///
    /// # Panics
    /// If there are fewer sizes than the tape was recorded with.
    pub fn evaluate(&self, sizes: &[i64], values: &mut Vec<i64>) -> bool {
        values.clear();
        values.reserve_exact(self.operations.len());
        for operation in &self.operations {
            let get = |term: &Term| values[term.get() as usize - 1];
            let value = match operation {
                Operation::Free(index) => sizes[*index],
                Operation::Number(value) => *value,
                Operation::Add(a, b) => get(a).saturating_add(get(b)),
                Operation::Sub(a, b) => get(a).saturating_sub(get(b)),
                Operation::Mul(a, b) => get(a).saturating_mul(get(b)),
                Operation::Div(a, b) if get(b) > 0 => get(a).div_euclid(get(b)),
                Operation::Rem(a, b) if get(b) > 0 => get(a).rem_euclid(get(b)),
                // No divisor was 0 in the recording.
                Operation::Div(..) | Operation::Rem(..) => return false,
                Operation::Min(a, b) => get(a).min(get(b)),
                Operation::Max(a, b) => get(a).max(get(b)),
            };
            values.push(value);
        }
        let get = |term: Term| values[term.get() as usize - 1];
        self.guards.iter().all(|guard| guard.outcome.is(get(guard.a).cmp(&get(guard.b))))
    }

    /// Whether a sum, difference or product exceeds the range of integers for the sizes whose `values`
    /// [`evaluate`](Tape::evaluate) has computed: it is then at an end of the range.
    pub fn saturates(&self, values: &[i64]) -> bool {
        let get = |term: &Term| values[term.get() as usize - 1];
        self.operations.iter().any(|operation| match operation {
            Operation::Add(a, b) => get(a).checked_add(get(b)).is_none(),
            Operation::Sub(a, b) => get(a).checked_sub(get(b)).is_none(),
            Operation::Mul(a, b) => get(a).checked_mul(get(b)).is_none(),
            _ => false,
        })
    }

    /// For each of the `count` free sizes, whether [`Dim::pinned`] was asked for a number that depends on it: the
    /// recording is then valid for few of its values.
    pub fn pinned(&self, count: usize) -> Vec<bool> {
        let mut free = vec![false; count];
        let mut asked = vec![false; self.operations.len()];
        self.pinned.iter().for_each(|term| asked[term.get() as usize - 1] = true);
        // What an operation reads comes before it.
        for at in (0..asked.len()).rev() {
            if !asked[at] {
                continue;
            }
            match self.operations[at] {
                Operation::Free(index) => free[index] = true,
                Operation::Number(_) => {}
                Operation::Add(a, b)
                | Operation::Sub(a, b)
                | Operation::Mul(a, b)
                | Operation::Div(a, b)
                | Operation::Rem(a, b)
                | Operation::Min(a, b)
                | Operation::Max(a, b) => [a, b].iter().for_each(|term| asked[term.get() as usize - 1] = true),
            }
        }
        free
    }

    /// Number of values that [`evaluate`](Tape::evaluate) computes, and of comparisons that it checks.
    pub fn counts(&self) -> (usize, usize) {
        (self.operations.len(), self.guards.len())
    }

    /// The index of the free size, if `dim` is a free size of this recording.
    pub fn free(&self, dim: Dim) -> Option<usize> {
        match self.operations[dim.term?.get() as usize - 1] {
            Operation::Free(index) => Some(index),
            _ => None,
        }
    }

    /// The operands of the comparisons, latest first, among `values` computed by [`evaluate`](Tape::evaluate).
    pub fn comparisons(&self, values: &[i64]) -> impl Iterator<Item = (i64, i64)> {
        let get = |term: Term| values[term.get() as usize - 1];
        self.guards.iter().rev().map(move |guard| (get(guard.a), get(guard.b)))
    }

    fn push(&mut self, operation: Operation) -> Term {
        let next = Term::new(self.operations.len() as u32 + 1).expect("fewer than 2^32 operations");
        let term = *self.known.entry(operation).or_insert(next);
        if term == next {
            self.operations.push(operation);
        }
        term
    }

    fn term(&mut self, dim: Dim) -> Term {
        dim.term.unwrap_or_else(|| self.push(Operation::Number(dim.value)))
    }
}

/// Calls `work` with this thread's tape.
///
/// # Panics
/// If nothing is being recorded, which means that a dimension has outlived its recording.
fn with_tape<T>(work: impl FnOnce(&mut Tape) -> T) -> T {
    TAPE.with_borrow_mut(|tape| work(tape.as_mut().expect("dimensions that are not numbers belong to a recording")))
}

impl Dim {
    /// The number 0.
    pub const ZERO: Dim = Dim::number(0);

    /// Its identity: dimensions with the same key are equal for all sizes. Those with different keys may still be equal
    /// for some. Querying keys records no comparison.
    pub fn key(self) -> DimKey {
        match self.term {
            Some(term) => DimKey(0, Some(term)),
            None => DimKey(self.value, None),
        }
    }

    /// The number 1.
    pub const ONE: Dim = Dim::number(1);

    /// A number.
    pub const fn number(value: i64) -> Dim {
        Dim { value, term: None }
    }

    /// Whether it is a number, independent of the free sizes.
    pub fn is_number(self) -> bool {
        self.term.is_none()
    }

    /// The number. Turns a function of sizes into a number: the graph being compiled is then valid only for this value.
    ///
    /// # Panics
    /// If it does not fit into a `u32`.
    #[inline]
    pub fn get(self) -> u32 {
        u32::try_from(self.pinned()).expect("a size")
    }

    /// Like [`get`](Dim::get), for lengths and places in memory.
    #[inline]
    pub fn size(self) -> usize {
        self.get() as usize
    }

    /// Like [`get`](Dim::get), for signed integers.
    #[inline]
    pub fn pinned(self) -> i64 {
        if self.term.is_some() {
            // Records the comparison.
            let _ = self == Dim::number(self.value);
            with_tape(|tape| tape.pinned.extend(self.term));
        }
        self.value
    }

    /// The value for messages; the compiled result does not depend on it.
    pub fn shown(self) -> i64 {
        self.value
    }

    /// Its value, given the `values` computed by [`Tape::evaluate`].
    #[inline]
    pub fn at(self, values: &[i64]) -> i64 {
        self.term.map_or(self.value, |term| values[term.get() as usize - 1])
    }

    /// Replaces it by its value, given the `values` computed by [`Tape::evaluate`].
    pub fn fix(&mut self, values: &[i64]) {
        *self = Dim::number(self.at(values));
    }

    /// The quotient, rounded up.
    pub fn div_ceil(self, by: impl Into<Dim>) -> Dim {
        let by = by.into();
        (self + (by - 1)) / by
    }

    /// Whether it is a multiple of `of`. Only 0 is a multiple of 0.
    pub fn is_multiple_of(self, of: impl Into<Dim>) -> bool {
        let of = of.into();
        if of == 0 { self == 0 } else { self % of == 0 }
    }

    /// The smaller of the two.
    pub fn min(self, other: impl Into<Dim>) -> Dim {
        self.combine(other.into(), |a, b| a.min(b), Operation::Min)
    }

    /// The larger of the two.
    pub fn max(self, other: impl Into<Dim>) -> Dim {
        self.combine(other.into(), |a, b| a.max(b), Operation::Max)
    }

    /// Computes with the values. Plans are resized with numbers alone, for each token of a text: these take no detour.
    #[inline]
    fn combine(
        self,
        other: Dim,
        compute: impl Fn(i64, i64) -> i64,
        operation: impl Fn(Term, Term) -> Operation,
    ) -> Dim {
        let value = compute(self.value, other.value);
        match (self.term, other.term) {
            (None, None) => Dim::number(value),
            _ => Dim { value, term: Some(self.record(other, operation)) },
        }
    }

    /// Records a computation on this thread's tape.
    fn record(self, other: Dim, operation: impl Fn(Term, Term) -> Operation) -> Term {
        with_tape(|tape| {
            let (a, b) = (tape.term(self), tape.term(other));
            tape.push(operation(a, b))
        })
    }

    /// Compares, and records what the caller asks for.
    #[inline]
    fn compare(self, other: Dim, asked: impl Fn(Ordering) -> Outcome) -> Ordering {
        match (self.term, other.term) {
            (None, None) => self.value.cmp(&other.value),
            (one, two) if one == two => Ordering::Equal,
            _ => {
                let order = self.value.cmp(&other.value);
                self.record_comparison(other, asked(order));
                order
            }
        }
    }

    fn record_comparison(self, other: Dim, outcome: Outcome) {
        with_tape(|tape| {
            let guard = Guard { a: tape.term(self), b: tape.term(other), outcome };
            if tape.guarded.insert(guard) {
                tape.guards.push(guard);
            }
        });
    }

    #[inline]
    fn is_below(self, other: Dim) -> bool {
        self.compare(other, |order| Outcome::Less(order.is_lt())).is_lt()
    }
}

macro_rules! operators {
    ($($Trait:ident $method:ident $Operation:ident $compute:expr;)*) => {$(
        impl<T: Into<Dim>> $Trait<T> for Dim {
            type Output = Dim;

            #[inline]
            fn $method(self, other: T) -> Dim {
                self.combine(other.into(), $compute, Operation::$Operation)
            }
        }
    )*};
}

operators! {
    Add add Add i64::saturating_add;
    Sub sub Sub i64::saturating_sub;
    Mul mul Mul i64::saturating_mul;
    Div div Div i64::div_euclid;
    Rem rem Rem i64::rem_euclid;
}

impl<T: Into<Dim>> AddAssign<T> for Dim {
    fn add_assign(&mut self, other: T) {
        *self = *self + other;
    }
}

impl Sum for Dim {
    fn sum<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.reduce(Dim::add).unwrap_or(Dim::ZERO)
    }
}

impl Product for Dim {
    fn product<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.reduce(Dim::mul).unwrap_or(Dim::ONE)
    }
}

impl From<u32> for Dim {
    fn from(number: u32) -> Dim {
        Dim::number(number as i64)
    }
}

impl From<&u32> for Dim {
    fn from(number: &u32) -> Dim {
        Dim::from(*number)
    }
}

impl PartialEq for Dim {
    fn eq(&self, other: &Dim) -> bool {
        self.compare(*other, |order| Outcome::Equal(order.is_eq())).is_eq()
    }
}

impl Eq for Dim {}

impl PartialEq<u32> for Dim {
    fn eq(&self, other: &u32) -> bool {
        *self == Dim::from(*other)
    }
}

impl PartialEq<Dim> for u32 {
    fn eq(&self, other: &Dim) -> bool {
        *other == *self
    }
}

impl Ord for Dim {
    fn cmp(&self, other: &Dim) -> Ordering {
        self.compare(*other, Outcome::Order)
    }
}

macro_rules! ordered {
    ($($Other:ty)*) => {$(
        impl PartialOrd<$Other> for Dim {
            fn partial_cmp(&self, other: &$Other) -> Option<Ordering> {
                Some(self.cmp(&Dim::from(*other)))
            }

            fn lt(&self, other: &$Other) -> bool {
                self.is_below(Dim::from(*other))
            }

            fn ge(&self, other: &$Other) -> bool {
                !self.is_below(Dim::from(*other))
            }

            fn gt(&self, other: &$Other) -> bool {
                Dim::from(*other).is_below(*self)
            }

            fn le(&self, other: &$Other) -> bool {
                !Dim::from(*other).is_below(*self)
            }
        }
    )*};
}

ordered! { Dim u32 }

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl Serialize for Dim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.value)
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// The numbers of these dimensions; see [`Dim::get`].
pub fn numbers(dims: &[Dim]) -> Vec<u32> {
    dims.iter().map(|dim| dim.get()).collect()
}

/// Numbers as dimensions.
pub fn dims(numbers: &[u32]) -> Vec<Dim> {
    numbers.iter().copied().map(Dim::from).collect()
}

/// Types that convert to a list of dimensions.
pub trait IntoDims {
    /// The dimensions.
    fn into_dims(self) -> Vec<Dim>;
}

impl IntoDims for Vec<Dim> {
    fn into_dims(self) -> Vec<Dim> {
        self
    }
}

macro_rules! into_dims {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> IntoDims for $type {
            fn into_dims(self) -> Vec<Dim> {
                self.iter().copied().map(Dim::from).collect()
            }
        }
    )*};
}

into_dims! {
    [] &[Dim]; [] &Vec<Dim>; [const N: usize] [Dim; N]; [const N: usize] &[Dim; N];
    [] &[u32]; [] &Vec<u32>; [const N: usize] [u32; N]; [const N: usize] &[u32; N]; [] Vec<u32>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_leave_no_trace() {
        let (sum, tape) = Tape::record(&[], |_| Dim::number(3) * 4u32 + 1u32);
        assert_eq!((sum, tape.counts()), (Dim::number(13), (0, 0)));
    }

    #[test]
    fn computed_dimensions_follow_the_sizes() {
        let ((area, padded), tape) = Tape::record(&[5, 7], |free| {
            let [a, b] = free else { unreachable!() };
            (*a * *b, (*a + 3u32).div_ceil(4u32) * 4u32)
        });
        assert_eq!((area.shown(), padded.shown()), (35, 8));
        let mut values = Vec::new();
        assert!(tape.evaluate(&[10, 2], &mut values));
        assert_eq!((area.at(&values), padded.at(&values)), (20, 16));
    }

    #[test]
    fn a_different_outcome_of_a_comparison_is_detected() {
        let (_, tape) = Tape::record(&[5, 7], |free| (free[0] < free[1], free[0] == 1u32));
        let fits = |sizes: &[i64]| tape.evaluate(sizes, &mut Vec::new());
        assert!(fits(&[5, 7]) && fits(&[2, 3]) && fits(&[0, 9]));
        assert!(!fits(&[7, 7]) && !fits(&[8, 7]) && !fits(&[1, 7]));
    }

    #[test]
    fn a_comparison_records_only_what_it_asks_for() {
        let alike = |sizes: [i64; 2], compare: fn(Dim, Dim) -> bool| {
            let (_, tape) = Tape::record(&sizes, |free| compare(free[0], free[1]));
            [[4, 5], [5, 5], [6, 5]].map(|sizes| tape.evaluate(&sizes, &mut Vec::new()))
        };
        assert_eq!(alike([1, 2], |a, b| a < b), [true, false, false]);
        assert_eq!(alike([2, 2], |a, b| a < b), [false, true, true]);
        assert_eq!(alike([2, 2], |a, b| a <= b), [true, true, false]);
        assert_eq!(alike([3, 2], |a, b| a > b), [false, false, true]);
        assert_eq!(alike([3, 2], |a, b| a >= b), [false, true, true]);
        assert_eq!(alike([2, 2], |a, b| a == b), [false, true, false]);
        assert_eq!(alike([3, 2], |a, b| a.cmp(&b).is_gt()), [false, false, true]);
        assert_eq!(alike([2, 2], |a, b| a.cmp(&b).is_le()), [false, true, false]);
    }

    #[test]
    fn reading_a_dimension_as_a_number_pins_it() {
        let (number, tape) = Tape::record(&[6], |free| (free[0] * 2u32).get());
        assert_eq!(number, 12);
        assert!(tape.evaluate(&[6], &mut Vec::new()) && !tape.evaluate(&[5], &mut Vec::new()));
    }

    #[test]
    fn sizes_that_are_asked_for_are_told_from_those_that_are_compared() {
        let (_, tape) = Tape::record(&[5, 7, 2], |free| {
            let is_less = free[2] < free[0];
            (is_less, (free[0] * 2u32 + free[1]).pinned())
        });
        assert_eq!(tape.pinned(3), [true, true, false]);
    }

    #[test]
    fn values_beyond_the_range_are_noticed() {
        let (_, tape) = Tape::record(&[1], |free| (free[0] + 1u32, free[0].min(Dim::number(i64::MAX))));
        let saturates = |size: i64| {
            let mut values = Vec::new();
            assert!(tape.evaluate(&[size], &mut values));
            tape.saturates(&values)
        };
        assert!(!saturates(i64::MAX - 1) && !saturates(i64::MIN) && saturates(i64::MAX));
    }

    #[test]
    fn equal_terms_are_computed_once_and_compare_for_free() {
        let (_, tape) = Tape::record(&[6], |free| {
            let (a, b) = (free[0] * 2u32, free[0] * 2u32);
            assert!(a == b && a >= b);
        });
        assert_eq!(tape.counts(), (3, 0));
    }

    #[test]
    fn nothing_divides_by_a_size_of_zero() {
        let (_, tape) = Tape::record(&[6], |free| Dim::number(12) / free[0]);
        assert!(tape.evaluate(&[5], &mut Vec::new()) && !tape.evaluate(&[0], &mut Vec::new()));
    }

    #[test]
    fn a_panic_ends_the_recording() {
        std::panic::catch_unwind(|| Tape::record(&[1], |_| panic!("on purpose"))).unwrap_err();
        Tape::record(&[1], |_| ());
    }
}
