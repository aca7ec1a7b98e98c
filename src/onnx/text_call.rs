//! Texts in translations: operators that do not look into them see their numbers, the others read them.

use super::call::{Call, Step};
use super::error::{Cut, Refusal};
use super::graph::Operator;
use super::import::Value;
use super::registry::ML;
use super::run_texts::RunTexts;
use super::tensor::Literal;
use super::text_list::TextList;
use super::texts::number;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::memory::elements;
use crate::shape::Descriptor;

// ---- Operators that do not look into texts -----------------------------------------------------------------------

/// Operators that treat texts as what their numbers are, by the inputs that can be texts; all of them if none is named.
const MOVING: &[(&str, &[usize])] = &[
    ("Compress", &[0]),
    ("Concat", &[]),
    ("DepthToSpace", &[0]),
    ("Equal", &[0, 1]),
    ("Expand", &[0]),
    ("Flatten", &[0]),
    ("Gather", &[0]),
    ("GatherElements", &[0]),
    ("GatherND", &[0]),
    ("Pad", &[0, 2]),
    ("Reshape", &[0]),
    ("ReverseSequence", &[0]),
    ("Scatter", &[0, 2]),
    ("ScatterElements", &[0, 2]),
    ("ScatterND", &[0, 2]),
    ("Slice", &[0]),
    ("SpaceToDepth", &[0]),
    ("Split", &[0]),
    ("SplitToSequence", &[0]),
    ("Squeeze", &[0]),
    ("Tile", &[0]),
    ("Transpose", &[0]),
    ("Unsqueeze", &[0]),
    ("Where", &[1, 2]),
];

/// The same for `ai.onnx.ml`.
const MOVING_ML: &[(&str, &[usize])] = &[("ArrayFeatureExtractor", &[0])];

/// The inputs of an operator that does not look into texts as their numbers, if there are texts among them; all others
/// as they are. Also returns whether its outputs are texts then.
///
/// # Errors
/// If only some of the inputs that can be texts are.
pub(super) fn as_numbers(
    operator: &Operator,
    mut inputs: Vec<Option<Value>>,
) -> Result<(Vec<Option<Value>>, bool), Refusal> {
    let is_texts = |input: &Option<Value>| matches!(input, Some(Value::Texts(_)));
    if !inputs.iter().any(is_texts) {
        return Ok((inputs, false));
    }
    let moving = match operator.domain.as_str() {
        "" => MOVING,
        ML => MOVING_ML,
        _ => &[],
    };
    let Some((name, places)) = moving.iter().find(|(name, _)| *name == operator.name) else {
        return Ok((inputs, false));
    };
    for (at, input) in inputs.iter_mut().enumerate() {
        let can_be = places.is_empty() || places.contains(&at);
        match input.take() {
            Some(Value::Texts(id)) if can_be => *input = Some(Value::Tensor(id)),
            Some(Value::Tensor(_) | Value::Literal(_)) if can_be => {
                return Err(Refusal(format!("input {at} is a tensor of numbers, expected texts as in the others")));
            }
            other => *input = other,
        }
    }
    Ok((inputs, *name != "Equal"))
}

/// Outputs of an operator on the numbers of texts, as texts.
pub(super) fn as_texts(outputs: Vec<Value>) -> Vec<Value> {
    let of_texts = |value: Value| match value {
        Value::Sequence(values) => Value::list(values.iter().cloned().map(Value::of_texts).collect()),
        other => other.of_texts(),
    };
    outputs.into_iter().map(of_texts).collect()
}

// ---- Operators that do -------------------------------------------------------------------------------------------

impl<'m> Call<'_, 'm> {
    /// The numbers of the texts at `index`.
    ///
    /// # Errors
    /// If the input is missing, or not a tensor of texts with elements.
    pub fn texts(&self, index: usize) -> Step<OperandId> {
        match self.required(index)? {
            Value::Texts(id) => Ok(id),
            Value::Empty(Descriptor { shape, .. }) => {
                Err(Refusal(format!("input {index} has shape {shape:?}, without elements")))
            }
            _ => Err(Refusal(format!("input {index} is no tensor of texts"))),
        }
    }

    /// The numbers of the texts in the attribute `name`, if it is present and has any.
    ///
    /// # Errors
    /// If a text is no UTF-8.
    pub fn text_numbers(&self, name: &str) -> Step<Option<Vec<i32>>> {
        let Some(texts) = self.attribute(name).map(|attribute| attribute.strings) else { return Ok(None) };
        let known = self.importer.model.texts();
        let numbers = texts.iter().map(|text| known.number_of(text)).collect::<Result<Vec<i32>, _>>();
        Ok(Some(numbers.map_err(|reason| format!("{name}: {reason}"))?).filter(|numbers| !numbers.is_empty()))
    }

    /// The number of the text in the attribute `name`, if it is present.
    ///
    /// # Errors
    /// If it is no UTF-8.
    pub fn text_number(&self, name: &str) -> Step<Option<i32>> {
        let Some(text) = self.attribute(name).and_then(|attribute| attribute.s) else { return Ok(None) };
        Ok(Some(self.importer.model.texts().number_of(&text).map_err(|reason| format!("{name}: {reason}"))?))
    }

    /// The numbers of the texts in a tensor of an attribute.
    ///
    /// # Errors
    /// If texts cannot be decoded, are no UTF-8, or are not as many as the shape says.
    pub fn numbers_of_texts(&self, literal: &Literal) -> Step<Vec<i32>> {
        Ok(self.importer.model.texts().numbers(literal)?)
    }

    /// A constant with the texts of these numbers.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn text_constant(&mut self, shape: &[u32], numbers: &[i32]) -> Step<Value> {
        if shape.contains(&0) {
            return Ok(Value::Empty(Descriptor::new(DataType::Int32, shape)));
        }
        self.written(shape, |places: &mut [i32]| places.copy_from_slice(numbers)).map(Value::Texts)
    }

    /// The texts of the run, for a node that looks into texts.
    ///
    /// # Errors
    /// If the node is not evaluated for a run, which becomes a cut.
    pub fn run_texts(&self) -> Step<&'m RunTexts> {
        let cut = || Refusal::from("texts are computed in a run of a session").unless(Cut::Elements);
        self.importer.texts.ok_or_else(cut)
    }

    /// The texts at `index`, in a run.
    ///
    /// # Errors
    /// If the input is missing or of another type, or the node is not evaluated for a run.
    pub fn read_texts(&mut self, index: usize) -> Step<TextList> {
        if let Some(Value::Empty(_)) = self.value(index) {
            return Ok(TextList::default());
        }
        let operand = self.texts(index)?;
        self.texts_of(operand)
    }

    /// The texts whose numbers `operand` has, in a run.
    ///
    /// # Errors
    /// If the node is not evaluated for a run.
    pub fn texts_of(&self, operand: OperandId) -> Step<TextList> {
        let texts = self.run_texts()?;
        Ok(texts.list(elements(self.bytes_of(operand)?.bytes()))?)
    }

    /// For each of the texts at `index`, its place among all of them in ascending order.
    ///
    /// # Errors
    /// Same as [`read_texts`](Self::read_texts).
    pub fn text_ranks(&mut self, index: usize) -> Step<Vec<i32>> {
        let texts = self.read_texts(index)?;
        let mut sorted: Vec<&str> = texts.iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Ok(texts.iter().map(|text| number(sorted.binary_search(&text).expect("it is among them"))).collect())
    }

    /// A tensor of texts, which the run keeps.
    ///
    /// # Errors
    /// If the node is not evaluated for a run, or memory runs out.
    pub fn made_texts<S: AsRef<str>>(&mut self, shape: &[u32], made: impl IntoIterator<Item = S>) -> Step<Value> {
        let numbers = self.run_texts()?.numbers(made)?;
        self.text_constant(shape, &numbers)
    }
}
