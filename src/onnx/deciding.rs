//! Inputs that decide: their elements are conditions, counts, shapes or bounds.
//!
//! A session reads their elements before it imports the model, from the bytes or the tensor that a caller passes. With
//! them, it need not cut the model where they decide. Truth values and other integers are then constants of the import, those
//! of int64 and int32 integers that depend on sizes still unknown: an import is valid for other numbers as well.

use super::error::{ModelError, Result};
use super::import::{Binding, Imported, PROBES, Request, import};
use super::model::{Dimension, Model, ValueInfo};
use super::sizes::filled;
use super::tensor::ElementType;
use crate::dimension::{Dim, Tape};
use crate::dtype::DataType;
use crate::ir::{Builder, Graph, OperandId, Source, Value, ValueId};
use crate::memory::elements;
use crate::shape::Descriptor;
use std::collections::HashMap;

/// Maximum number of elements of an input that decides. A shape has one element for each dimension, paddings have two.
/// Tokens and masks, which have more, differ in every run.
const MAX_ELEMENTS: usize = 16;

/// Maximum number of inputs that may decide: those of a set of bits.
const MAX_INPUTS: usize = 64;

/// Maximum number of imports to find the inputs that decide.
const MAX_TRIALS: usize = 16;

/// The number that stands in for unknown integers.
const NUMBER: i64 = 2;

/// Inputs by their indices among the candidates.
type Set = u64;

/// An input whose elements may decide.
#[derive(Clone, Debug)]
pub struct Decider {
    /// The name of the input.
    pub name: String,
    /// Its type, and the shape with which it decides, as far as the shape is known; other sizes are 1.
    pub descriptor: Descriptor,
}

impl Decider {
    /// Whether its elements are integers that depend on sizes still unknown, rather than constants.
    fn is_number(&self) -> bool {
        matches!(self.descriptor.dtype, DataType::Int64 | DataType::Int32)
    }

    /// Adds its elements to `constants`, or to `numbers`.
    pub fn read(&self, bytes: &[u8], constants: &mut Vec<u8>, numbers: &mut Vec<i64>) {
        match self.descriptor.dtype {
            DataType::Int64 => numbers.extend(elements::<i64>(bytes)),
            DataType::Int32 => numbers.extend(elements::<i32>(bytes).iter().map(|&int| i64::from(int))),
            _ => constants.extend(bytes),
        }
    }

    /// `input`, if it has few integers or truth values. A list whose length is not known decides with a single element:
    /// with more, it has one for each of a batch.
    fn of(input: &ValueInfo, request: &Request) -> Option<Decider> {
        let is_number = |dtype: &DataType| !dtype.is_float() && !input.is_texts();
        let dtype = input.element.and_then(ElementType::carried).filter(is_number)?;
        let declared = input.shape.as_ref()?;
        let size = |dimension: &Dimension| match dimension {
            Dimension::Fixed(size) => Some(*size),
            Dimension::Free(name) => request.free_dimensions.get(name).copied().or((declared.len() == 1).then_some(1)),
        };
        let shape = declared.iter().map(size).collect::<Option<Vec<u32>>>()?;
        let is_short = (1..=MAX_ELEMENTS).contains(&filled(&shape));
        is_short.then(|| Decider { name: input.name.clone(), descriptor: Descriptor::new(dtype, shape) })
    }

    /// Its elements as an operand of `builder`: the next ones of `constants`, or of `numbers`.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn bind(
        &self,
        builder: &mut Builder,
        shape: &[u32],
        constants: &mut &[u8],
        numbers: &mut &[Dim],
    ) -> crate::error::Result<OperandId> {
        let descriptor = Descriptor::new(self.descriptor.dtype, shape);
        match self.is_number() {
            true => {
                let (own, rest) = numbers.split_at(descriptor.elements());
                *numbers = rest;
                builder.sizes(descriptor, own)
            }
            false => {
                let (own, rest) = constants.split_at(descriptor.bytes());
                *constants = rest;
                builder.constant(descriptor, own)
            }
        }
    }
}

/// Whether `model` may have inputs that decide, judged by their types and shapes.
pub fn may_decide(model: &Model, request: &Request) -> bool {
    !candidates(model, request).is_empty()
}

fn candidates(model: &Model, request: &Request) -> Vec<Decider> {
    let is_open = |input: &&ValueInfo| !request.bindings.contains_key(&input.name);
    let inputs = model.free_inputs().filter(is_open);
    inputs.filter_map(|input| Decider::of(input, request)).take(MAX_INPUTS).collect()
}

/// What imports with stand-ins for sizes and elements tell about a model.
#[derive(Default)]
pub struct Tried {
    /// The inputs whose elements decide, directly or through computations with other such inputs: an import shows that
    /// a cut depends on them, or a choice between two graphs that could both run. Integers that an import needs as
    /// numbers, like the count of a loop that is unrolled, are not among them: such an import is valid for one number
    /// only.
    pub deciders: Vec<Decider>,
    /// Whether an import succeeded: some sizes make the model possible. `false` if there was none.
    pub is_possible: bool,
}

/// Finds the inputs of `model` that decide. `builder` holds the operands of the request, and remains unchanged.
pub fn deciders(model: &Model, builder: &mut Builder, request: &Request) -> Tried {
    let all = candidates(model, request);
    if all.is_empty() {
        return Tried::default();
    }
    let mut sized = request.clone();
    for input in model.free_inputs().filter(|input| all.iter().any(|one| one.name == input.name)) {
        for dimension in input.shape.iter().flatten() {
            if let Dimension::Free(name) = dimension {
                sized.free_dimensions.entry(name.clone()).or_insert(1);
            }
        }
    }
    let request = sized.with_sizes(model, PROBES[0]);
    let mut trials = Trials { model, builder, request, all, left: MAX_TRIALS, is_possible: false };
    let (mut known, mut refused, mut next): (Set, Set, Set) = (0, 0, 0);
    while let Some(Findings { asked, pinned }) = trials.both(next) {
        refused |= pinned;
        known = next & !refused;
        next = (known | asked) & !refused;
        if trials.are_over(next, refused) {
            known = next;
        }
        if next == known {
            break;
        }
    }
    let Trials { all, is_possible, .. } = trials;
    let is_known = |at: &usize| known & (1 << at) != 0;
    let deciders = all.into_iter().enumerate().filter(|(at, _)| is_known(at)).map(|(_, one)| one).collect();
    Tried { deciders, is_possible }
}

/// What trials tell about inputs.
#[derive(Clone, Copy, Default)]
struct Findings {
    /// The inputs whose elements are asked for.
    asked: Set,
    /// The known inputs whose integers must be numbers.
    pinned: Set,
}

/// Imports with stand-ins for the elements of inputs.
struct Trials<'a> {
    model: &'a Model,
    builder: &'a mut Builder,
    request: Request,
    /// The inputs that may decide.
    all: Vec<Decider>,
    /// How many imports are left.
    left: usize,
    /// Whether one succeeded.
    is_possible: bool,
}

impl Trials<'_> {
    /// Whether imports with the inputs in `known` tell nothing: no others are left to be asked for, and there are no
    /// integers that could be needed as numbers.
    fn are_over(&self, known: Set, refused: Set) -> bool {
        let is_left = |(at, one): (usize, &Decider)| match known & (1 << at) != 0 {
            true => one.is_number(),
            false => refused & (1 << at) == 0,
        };
        !self.all.iter().enumerate().any(is_left)
    }

    /// The findings with the elements of the inputs in `known`: all true, and all false. `None` if there were enough
    /// trials.
    fn both(&mut self, known: Set) -> Option<Findings> {
        let is_constant = |(at, one): (usize, &Decider)| known & (1 << at) != 0 && !one.is_number();
        let truths: &[u8] = if self.all.iter().enumerate().any(is_constant) { &[0, 1] } else { &[0] };
        let mut all = Findings::default();
        for &truth in truths {
            self.left = self.left.checked_sub(1)?;
            let Findings { asked, pinned } = self.one(known, truth);
            all = Findings { asked: all.asked | asked, pinned: all.pinned | pinned };
        }
        Some(all)
    }

    fn one(&mut self, known: Set, truth: u8) -> Findings {
        let Trials { model, builder, request, all, is_possible, .. } = self;
        let known = all.iter().enumerate().filter(|(at, _)| known & (1 << at) != 0);
        // For each integer, the input.
        let integers = known.clone().filter(|(_, one)| one.is_number());
        let owners: Vec<usize> =
            integers.flat_map(|(at, one)| std::iter::repeat_n(at, one.descriptor.elements())).collect();
        let before = builder.checkpoint();
        let (imported, tape) = Tape::record(&vec![NUMBER; owners.len()], |dims| -> Result<Imported> {
            let (mut numbers, mut request) = (dims, request.clone());
            for (_, one) in known {
                let bytes = vec![truth; one.descriptor.bytes()];
                let bound = one.bind(builder, &one.descriptor.sizes(), &mut &bytes[..], &mut numbers);
                request.bindings.insert(one.name.clone(), bound.map_err(ModelError::of_constant)?);
            }
            import(model, builder, &request)
        });
        *is_possible |= imported.is_ok();
        let asked = imported.map_or(0, |imported| asked(builder.graph(), &imported, all));
        builder.roll_back(before);
        let pinned = tape.pinned(owners.len()).into_iter().zip(owners).filter(|(pinned, _)| *pinned);
        Findings { asked, pinned: pinned.fold(0, |set, (_, owner)| set | 1 << owner) }
    }
}

/// The inputs among `all` that determine an undecided operand, with constants and shapes, but without other inputs.
fn asked(graph: &Graph, imported: &Imported, all: &[Decider]) -> Set {
    if imported.undecided.is_empty() {
        return 0;
    }
    let places: HashMap<&str, usize> = all.iter().enumerate().map(|(at, one)| (one.name.as_str(), at)).collect();
    let operand = |input: &Binding| Some((input.operand?, 1 << places.get(input.name.as_str())?));
    let inputs: HashMap<OperandId, Set> = imported.inputs.iter().filter_map(operand).collect();
    // For each value, the inputs that it follows from; `None` if others are among them.
    let source = |(at, value): (usize, &Value)| match value.source {
        Source::Constant(_) | Source::Sizes(_) => Some(0),
        Source::Input => inputs.get(&ValueId(at as u32)).copied(),
        Source::Node => None,
    };
    let mut sets: Vec<Option<Set>> = graph.values.iter().enumerate().map(source).collect();
    for node in &graph.nodes {
        let read = node.reads().try_fold(0, |set, id| Some(set | sets[id.index()]?));
        node.outputs.iter().for_each(|output| sets[output.index()] = read);
    }
    imported.undecided.iter().filter_map(|id| sets[id.index()]).fold(0, |set, own| set | own)
}
