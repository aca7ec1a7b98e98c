//! Texts, as tensors of strings hold them. WebNN has none: a model computes with their numbers, int32, and equal texts have
//! equal numbers. Moving texts, choosing between them and comparing them are then operators on integers; what looks into
//! texts is computed on the host.

use super::call::{Call, Step};
use super::error::{Cut, ModelError, Refusal, Result, quoted};
use super::graph::{NodeId, Operator};
use super::import::Value;
use super::model::Model;
use super::proto;
use super::registry::ML;
use super::tensor::{ElementType, Literal, TensorRecord};
use super::text_list::TextList;
use crate::dtype::DataType;
use crate::error::{Code, Error, amount};
use crate::ir::OperandId;
use crate::memory::{check_room, elements};
use crate::shape::Descriptor;
use bytes::Bytes;
use hashbrown::HashTable;
use rapidhash::fast::RandomState;
use std::any::Any;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory for a text beside its bytes: its end, and its place in a table.
const TEXT_BYTES: usize = 24;

/// Maximum memory for the texts of a run, and for a list of them, in bytes: a few nodes that join texts with themselves, or
/// repeat a long one, would fill any.
const MAX_RUN_BYTES: usize = 1 << 30;

/// The text that pads, whose number is 0.
const NO_TEXT: &str = "";

/// What encoders of labels return by default for labels that they do not know; its number.
pub const UNUSED: i32 = 1;

/// Distinct texts in the order of their numbers.
#[derive(Debug, Default)]
struct Table {
    texts: TextList,
    /// Their places by their hashes.
    places: HashTable<u32>,
    hasher: RandomState,
}

impl Table {
    /// The place of `text`, if it is there.
    fn find(&self, text: &str) -> Option<usize> {
        let is_it = |&place: &u32| self.texts.get(place as usize) == Some(text);
        self.places.find(self.hasher.hash_one(text), is_it).map(|&place| place as usize)
    }

    /// The place of `text`, which is added unless it is there.
    fn place(&mut self, text: &str) -> usize {
        if let Some(known) = self.find(text) {
            return known;
        }
        let place = self.texts.len();
        self.texts.push(text);
        let Table { texts, places, hasher } = self;
        let hash = |&place: &u32| hasher.hash_one(texts.get(place as usize).expect("a place"));
        places.insert_unique(hasher.hash_one(text), number(place) as u32, hash);
        place
    }
}

/// The texts in a model: those of its constants and attributes. Their numbers are their places.
#[derive(Debug)]
pub struct Texts(Table);

impl Texts {
    /// The texts of `model`. Those that are no UTF-8 are left out: whatever reads them fails.
    pub fn of(model: &Model) -> Texts {
        let mut table = Table::default();
        table.place(NO_TEXT);
        table.place("_Unused");
        let mut add = |bytes: &[u8]| {
            if let Ok(text) = std::str::from_utf8(bytes) {
                table.place(text);
            }
        };
        let add_tensor = |record: &TensorRecord, add: &mut dyn FnMut(&[u8])| {
            if record.element == ElementType::String {
                record.encoded_texts().into_iter().flatten().for_each(|text| add(&text));
            }
        };
        model.arena.initializers().for_each(|record| add_tensor(record, &mut add));
        for attribute in model.arena.attributes() {
            let proto::Attribute { s, strings, t, .. } = attribute;
            s.iter().chain(&strings).for_each(|text| add(text));
            if let Some(record) = t.and_then(|encoded| TensorRecord::decode(&encoded).ok()) {
                add_tensor(&record, &mut add);
            }
        }
        Texts(table)
    }

    /// The numbers of a constant's texts.
    ///
    /// # Errors
    /// If texts cannot be decoded, are no UTF-8, or are not as many as the shape says.
    pub fn numbers(&self, literal: &Literal) -> Result<Vec<i32>> {
        let number = |text: &Bytes| self.number_of(text);
        literal.texts().and_then(|texts| texts.iter().map(number).collect()).map_err(ModelError::new)
    }

    /// The number of a text in the model.
    fn number_of(&self, text: &[u8]) -> Result<i32, String> {
        let checked = std::str::from_utf8(text).map_err(|error| {
            let (start, shown) = (error.valid_up_to(), String::from_utf8_lossy(text));
            format!("the text {} is no UTF-8 from byte {start} on", quoted(&shown))
        })?;
        Ok(number(self.0.find(checked).expect("all texts of the model are there")))
    }
}

fn number(place: usize) -> i32 {
    // A file has less than 2^31 texts, and a run has memory for fewer.
    i32::try_from(place).expect("fewer than 2^31 texts")
}

/// The texts of a run: those of the model, and others, whose numbers are negative.
#[derive(Debug)]
pub struct RunTexts {
    model: Arc<Model>,
    own: Mutex<Table>,
}

impl RunTexts {
    /// Those of the model.
    pub fn new(model: Arc<Model>) -> RunTexts {
        RunTexts { model, own: Mutex::default() }
    }

    /// The numbers of these texts.
    ///
    /// # Errors
    /// If memory for them runs out.
    pub fn numbers(&self, texts: impl IntoIterator<Item: AsRef<str>>) -> crate::error::Result<Vec<i32>> {
        let (known, mut own) = (&self.model.texts().0, lock(&self.own));
        let number_of = |text: &str| {
            if let Some(place) = known.find(text) {
                return Ok(number(place));
            }
            let before = own.texts.bytes() + TEXT_BYTES * own.texts.len();
            check_bytes(before.saturating_add(TEXT_BYTES + text.len()))?;
            Ok(-1 - number(own.place(text)))
        };
        let mut number_of = number_of;
        texts.into_iter().map(|text| number_of(text.as_ref())).collect()
    }

    /// The texts with these numbers.
    ///
    /// # Errors
    /// If there is no text with a number, or memory runs out.
    pub fn list(&self, numbers: &[i32]) -> crate::error::Result<TextList> {
        let (known, own) = (&self.model.texts().0.texts, lock(&self.own));
        let text = |number: i32| match usize::try_from(number) {
            Ok(place) => known.get(place),
            Err(_) => own.texts.get((-1 - number) as usize),
        };
        let texts = numbers.iter().map(|&number| {
            text(number).ok_or_else(|| Error::coded(Code::Operation, format!("no text has the number {number}")))
        });
        let bytes = texts.clone().try_fold(0usize, |sum, text| Ok::<_, Error>(sum.saturating_add(text?.len())))?;
        check_bytes(bytes.saturating_add(size_of_val(numbers) * 2))?;
        texts.collect()
    }
}

/// Checks that the texts of a run, or a list of them, may take this many bytes.
fn check_bytes(bytes: usize) -> crate::error::Result<()> {
    match bytes {
        0..=MAX_RUN_BYTES => check_room(bytes),
        _ => {
            let message = format!("the texts of a run need more memory than {}", amount(MAX_RUN_BYTES, "byte"));
            Err(Error::coded(Code::NoMemory, message))
        }
    }
}

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

/// What nodes have made of their attributes, by node.
#[derive(Clone, Default)]
pub(super) struct Prepared(Arc<Mutex<HashMap<NodeId, Arc<dyn Any + Send + Sync>>>>);

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} nodes", lock(&self.0).len())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Says that input `index` holds the numbers of texts.
    pub fn mark_texts(&mut self, index: usize) {
        self.inputs[index] = self.inputs[index].take().map(Value::of_texts);
    }

    /// What `prepare` makes of the attributes of the node, once for all runs.
    ///
    /// # Errors
    /// The errors of `prepare`.
    pub fn prepared<T: Send + Sync + 'static>(&mut self, prepare: impl FnOnce(&mut Self) -> Step<T>) -> Step<Arc<T>> {
        // In a function, attributes can be those of its calls.
        let key = self.place.arguments.is_none().then_some(self.node.id());
        let known = |all: &Prepared| key.and_then(|key| lock(&all.0).get(&key).cloned());
        if let Some(known) = known(&self.importer.model.prepared).and_then(|any| any.downcast::<T>().ok()) {
            return Ok(known);
        }
        let made = Arc::new(prepare(self)?);
        if let Some(key) = key {
            lock(&self.importer.model.prepared.0).insert(key, made.clone());
        }
        Ok(made)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::file::Files;
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn texts_of_models_and_runs_have_numbers() {
        let labels = vec![("classlabels_strings", Attr::Texts(&["a", "b", "a"]))];
        let graph = TestGraph::default().input("x", Float, &["1", "3"]);
        let graph = graph.node("ai.onnx.ml.ZipMap", "x", "y", labels).output("y");
        let model = Arc::new(Model::decode(graph.encode(17), Files::default()).unwrap());
        let [first, second] = ["a", "b"].map(|text| model.texts().number_of(text.as_bytes()).unwrap());
        assert!(first > UNUSED && second == first + 1);
        assert_eq!(model.texts().number_of(b"_Unused"), Ok(UNUSED));
        let [one, other] = [(); 2].map(|()| RunTexts::new(model.clone()));
        assert_eq!(one.numbers(["b", "", "x", "y", "x"]).unwrap(), [second, 0, -1, -2, -1]);
        assert_eq!(other.numbers(["y"]).unwrap(), [-1]);
        assert!(one.list(&[-2, second]).unwrap().iter().eq(["y", "b"]));
        for unknown in [-3, 1000, i32::MIN, i32::MAX] {
            assert!(one.list(&[unknown]).is_err());
        }
    }
}
