//! The outputs of an operator on operands with named dimensions, inferred from samples.
//!
//! Rules compare dimensions, and their results depend on the outcomes. An operator is therefore evaluated for sizes in
//! place of the names: first for sizes that differ in the properties that rules test (equal, 1, multiples); while it
//! rejects them, for others that change the outcome of the latest comparisons. It is rejected if no sizes fit. A
//! dimension of an output is a name or a number if it was the same one in all samples; otherwise it gets a new name.

use super::{Dimension, Symbol};
use crate::dimension::{Dim, Tape};
use crate::dtype::DataType;
use crate::error::Problem;
use crate::ops::Op;
use crate::shape::{Descriptor, is_valid_dimension};
use std::collections::{BTreeSet, HashSet, VecDeque};

/// Maximum number of further size assignments to try after one has fit.
const MANY: usize = 120;

/// Maximum number of sizes to assign, over all tries, before an operator is rejected.
const WORK: usize = 24_000;

/// Minimum number of size assignments to try before an operator is rejected.
const LEAST: usize = 60;

/// Number of comparisons to derive further sizes from.
const COMPARISONS: usize = 8;

/// Maximum number of names to vary one at a time.
const VARIED: usize = 32;

/// Sizes that fit most windows, splits and groups, and have few multiples in common with others.
const COMMON: [u32; 4] = [24, 1, 2, 7];
const DIFFERENT: [u32; 8] = [11, 13, 17, 19, 23, 29, 31, 37];

/// An operand of an operator.
pub struct Operand<'a> {
    pub dtype: DataType,
    pub shape: &'a [Dimension],
}

/// An output: its descriptor for valid sizes, and its dimensions; `None` for computed ones.
pub type Inferred = (Descriptor, Vec<Option<Dimension>>);

/// An operator was rejected.
pub struct Refusal {
    pub problem: Problem,
    /// The size assignment that was tried first; empty if sizes do not matter.
    pub sizes: Vec<(Symbol, u32)>,
}

/// A dimension of an output in a sample.
#[derive(Clone, Copy)]
struct Seen {
    value: i64,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Number,
    /// The size of the symbol at this index.
    Free(usize),
    Computed,
}

/// The outputs for valid sizes.
struct Sample {
    sizes: Vec<u32>,
    outputs: Vec<(DataType, Vec<Seen>)>,
}

/// Infers an operator's outputs for operands with these dimensions, at most `most` bytes each.
///
/// # Errors
/// If it rejects the operands for all tried sizes.
pub fn infer(op: &Op, operands: &[Option<Operand>], most: u64) -> Result<Vec<Inferred>, Refusal> {
    let symbols = symbols(operands);
    let mut queue: VecDeque<Vec<u32>> = seeds(symbols.len()).into();
    let dimensions: usize = operands.iter().flatten().map(|operand| operand.shape.len()).sum();
    let mut limit = (WORK / (dimensions + 1)).max(LEAST);
    let mut tried: HashSet<Vec<u32>> = HashSet::new();
    let mut samples: Vec<Sample> = Vec::new();
    let mut refusal = None;
    while let Some(sizes) = queue.pop_front() {
        if tried.len() >= limit {
            break;
        }
        if !tried.insert(sizes.clone()) {
            continue;
        }
        match sample(op, operands, &symbols, &sizes, most) {
            Ok(outputs) => {
                if samples.is_empty() {
                    // Tried before sizes that are only for use after failures.
                    varied(&sizes).for_each(|sizes| queue.push_front(sizes));
                    limit = tried.len() + queue.len().min(MANY);
                }
                samples.push(Sample { sizes, outputs });
            }
            Err((problem, comparisons)) => {
                let matters = !comparisons.is_empty();
                let room = limit.saturating_sub(queue.len());
                queue.extend(others(&sizes, &comparisons).take(room));
                let sizes = symbols.iter().copied().zip(sizes);
                let sizes = if matters { sizes.collect() } else { Vec::new() };
                refusal.get_or_insert(Refusal { problem, sizes });
                if !matters {
                    break;
                }
            }
        }
    }
    match samples.is_empty() {
        false => Ok(told(&symbols, &samples)),
        true => Err(refusal.expect("at least one set of sizes was tried")),
    }
}

/// The distinct symbols among the dimensions.
fn symbols(operands: &[Option<Operand>]) -> Vec<Symbol> {
    let dimensions = operands.iter().flatten().flat_map(|operand| operand.shape);
    let symbols: BTreeSet<Symbol> = dimensions.filter_map(Dimension::symbol).collect();
    symbols.into_iter().collect()
}

/// The first size assignments to try.
fn seeds(count: usize) -> Vec<Vec<u32>> {
    let mut seeds: Vec<Vec<u32>> = COMMON.iter().map(|&size| vec![size; count]).collect();
    seeds.push((0..count).map(|at| DIFFERENT[at % DIFFERENT.len()]).collect());
    seeds
}

/// The assignments that differ from `sizes` in a single size.
fn varied(sizes: &[u32]) -> impl Iterator<Item = Vec<u32>> {
    (0..sizes.len().min(VARIED)).flat_map(|at| [1, 7, 24].map(|size| with(sizes, at, size)))
}

/// Assignments that may change the outcome of a comparison: a sum or a product makes its sides equal.
fn others(sizes: &[u32], comparisons: &[(i64, i64)]) -> impl Iterator<Item = Vec<u32>> {
    let places = 0..sizes.len().min(VARIED);
    let wanted = comparisons.iter().flat_map(move |&(a, b)| {
        places.clone().flat_map(move |at| {
            let size = i64::from(sizes[at]);
            let difference = b.saturating_sub(a);
            let scaled = |by: i64, of: i64| if of == 0 { 0 } else { size.saturating_mul(by) / of };
            let sums = [size.saturating_add(difference), size.saturating_sub(difference)];
            let next = sums.map(|sum| sum.saturating_add(1));
            sums.into_iter().chain(next).chain([scaled(b, a), scaled(a, b), a, b]).map(move |wanted| (at, wanted))
        })
    });
    let wanted =
        wanted.filter(|&(at, size)| is_valid_dimension(size.try_into().unwrap_or(0)) && size != i64::from(sizes[at]));
    wanted.map(|(at, size)| with(sizes, at, size as u32))
}

/// `sizes` with the one at `at` replaced.
fn with(sizes: &[u32], at: usize, size: u32) -> Vec<u32> {
    let mut other = sizes.to_vec();
    other[at] = size;
    other
}

/// Evaluates the operator for these sizes of the symbols; on failure, returns the problem and the latest comparisons.
#[expect(clippy::type_complexity, reason = "used in one place")]
fn sample(
    op: &Op,
    operands: &[Option<Operand>],
    symbols: &[Symbol],
    sizes: &[u32],
    most: u64,
) -> Result<Vec<(DataType, Vec<Seen>)>, (Problem, Vec<(i64, i64)>)> {
    let sizes: Vec<i64> = sizes.iter().map(|&size| size.into()).collect();
    let (resolved, tape) = Tape::record(&sizes, |free| {
        let dim = |dimension: &Dimension| match dimension {
            Dimension::Number(size) => Dim::from(*size),
            Dimension::Named(symbol) => free[symbols.binary_search(symbol).expect("every symbol is in the list")],
        };
        let descriptor =
            |operand: &Operand| Descriptor { dtype: operand.dtype, shape: operand.shape.iter().map(dim).collect() };
        let descriptors: Vec<Option<Descriptor>> =
            operands.iter().map(|operand| operand.as_ref().map(descriptor)).collect();
        let descriptors: Vec<Option<&Descriptor>> = descriptors.iter().map(Option::as_ref).collect();
        op.clone().resolve_below(&descriptors, most)
    });
    match resolved {
        Ok(outputs) => {
            let seen = |&dim: &Dim| {
                let kind = match tape.free(dim) {
                    Some(at) => Kind::Free(at),
                    None if dim.is_number() => Kind::Number,
                    None => Kind::Computed,
                };
                Seen { value: dim.shown(), kind }
            };
            Ok(outputs.iter().map(|output| (output.dtype, output.shape.iter().map(seen).collect())).collect())
        }
        Err(problem) => {
            let mut values = Vec::new();
            let matters = problem.depends_on_sizes() || tape.counts().1 > 0;
            let comparable = matters && tape.evaluate(&sizes, &mut values);
            let last = if comparable { COMPARISONS } else { 0 };
            Err((problem, tape.comparisons(&values).take(last).collect()))
        }
    }
}

/// Combines the samples into outputs.
fn told(symbols: &[Symbol], samples: &[Sample]) -> Vec<Inferred> {
    let first = &samples[0].outputs;
    let output = |(index, (dtype, dims)): (usize, &(DataType, Vec<Seen>))| {
        let shape: Vec<u32> = dims.iter().map(|seen| seen.value as u32).collect();
        let dimensions = (0..dims.len()).map(|axis| {
            let seen: Vec<Seen> = samples.iter().map(|sample| sample.outputs[index].1[axis]).collect();
            dimension(symbols, samples, &seen)
        });
        (Descriptor::new(*dtype, shape), dimensions.collect())
    };
    first.iter().enumerate().map(output).collect()
}

/// The dimension of an output that had these values in the samples.
fn dimension(symbols: &[Symbol], samples: &[Sample], seen: &[Seen]) -> Option<Dimension> {
    let value = seen[0].value;
    if seen.iter().any(|seen| matches!(seen.kind, Kind::Number)) && seen.iter().all(|seen| seen.value == value) {
        return Some(Dimension::Number(value as u32));
    }
    let is_size = |at: usize| samples.iter().zip(seen).all(|(sample, seen)| i64::from(sample.sizes[at]) == seen.value);
    let mut free = seen.iter().filter_map(|seen| if let Kind::Free(at) = seen.kind { Some(at) } else { None });
    free.find(|&at| is_size(at)).map(|at| Dimension::Named(symbols[at]))
}
