//! The inputs and outputs of a session, and the shapes of its inputs for given feeds.

use super::SessionOptions;
use super::value::{Offer, Target};
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::error::{Code, Error, Result, amount};
use crate::onnx::error::{listed, quoted};
use crate::onnx::model::{Dimension, Model, ValueInfo};
use crate::onnx::ops::ml::maps::labels_of;
use crate::onnx::sizes::{MAX_SIZE, SizeSlots, Sizes, check_names, contradiction, filled};
use crate::onnx::tensor::ElementType;
use crate::shape::Descriptor;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The shapes of all inputs, in their order. They share one list: a text has others for each token, of dozens of caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// Where each shape ends in `sizes`.
    ends: Arc<[u32]>,
    sizes: Arc<[u32]>,
}

impl Shapes {
    /// The shapes, in the order of the inputs.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.ends.len()).map(|at| &self[at])
    }
}

impl std::ops::Index<usize> for Shapes {
    type Output = [u32];

    fn index(&self, at: usize) -> &[u32] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.sizes[start as usize..self.ends[at] as usize]
    }
}

impl<S: AsRef<[u32]>> FromIterator<S> for Shapes {
    fn from_iter<I: IntoIterator<Item = S>>(shapes: I) -> Shapes {
        /// Most inputs have at most this many dimensions.
        const RANK: usize = 4;
        let shapes = shapes.into_iter();
        let count = shapes.size_hint().1.unwrap_or(0);
        let (mut ends, mut sizes) = (Vec::with_capacity(count), Vec::with_capacity(RANK * count));
        for shape in shapes {
            sizes.extend_from_slice(shape.as_ref());
            ends.push(sizes.len() as u32);
        }
        Shapes { ends: ends.into(), sizes: sizes.into() }
    }
}

/// Inputs and outputs with symbolic shapes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Signature {
    /// The inputs of each run: those of the model, without constants of the session.
    pub inputs: Vec<ValueInfo>,
    /// Further inputs, which have a default: [`Session::with_inputs`](super::Session::with_inputs) makes them inputs.
    pub optional_inputs: Vec<ValueInfo>,
    /// The outputs of each run.
    pub outputs: Vec<ValueInfo>,
    /// Sizes that are fixed for the session.
    #[serde(skip)]
    sizes: Sizes,
    /// The dimensions of the inputs, with slots of `sizes` for their names.
    #[serde(skip)]
    slots: Vec<SizeSlots>,
    /// The shapes of the inputs, if all are known.
    #[serde(skip)]
    fixed: Option<Shapes>,
    /// The dimensions that count the tokens of a text.
    #[serde(skip)]
    lengths: Option<Lengths>,
    /// Pairs of dimensions with the same name: the first of the name, and another.
    #[serde(skip)]
    twins: Vec<[Place; 2]>,
}

/// A dimension: the index of an input, and an axis.
type Place = (usize, usize);

/// Related dimensions of inputs, recognized by the names that exporters give them.
#[derive(Debug)]
struct Lengths {
    past: Place,
    sequence: Place,
    total: Place,
}

impl Lengths {
    /// Finds these dimensions among those of `inputs`, if all three exist and none of them is `given`: otherwise, the
    /// cache has a fixed length, however full it is.
    fn of(inputs: &[ValueInfo], given: &BTreeMap<String, u32>) -> Option<Lengths> {
        let find = |names: &[&str]| {
            let is_it = |dimension: &Dimension| match dimension {
                Dimension::Free(name) => names.contains(&name.as_str()) && !given.contains_key(name),
                Dimension::Fixed(_) => false,
            };
            let axis = |input: &ValueInfo| input.shape.iter().flatten().position(is_it);
            inputs.iter().enumerate().find_map(|(at, input)| Some((at, axis(input)?)))
        };
        Some(Lengths {
            past: find(&["past_sequence_length"])?,
            sequence: find(&["sequence_length"])?,
            total: find(&["total_sequence_length", "past_sequence_length + sequence_length"])?,
        })
    }
}

/// The pairs of dimensions of `inputs` with the same name, unless it is `given`.
fn twins(inputs: &[ValueInfo], given: &BTreeMap<String, u32>) -> Vec<[Place; 2]> {
    let mut first: HashMap<&str, Place> = HashMap::new();
    let mut twins = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        for (axis, dimension) in input.shape.iter().flatten().enumerate() {
            let Dimension::Free(name) = dimension else { continue };
            let one = *first.entry(name).or_insert((at, axis));
            if one != (at, axis) && !given.contains_key(name) {
                twins.push([one, (at, axis)]);
            }
        }
    }
    twins
}

/// The data type of a value in WebNN, see [`ElementType::carried`].
pub fn data_type(value: &ValueInfo) -> Option<DataType> {
    value.element.and_then(ElementType::carried)
}

/// Rejects a size that no dimension can have. Messages call it `what`.
///
/// # Errors
/// For anything but an integer from 0 to 2^31 - 1.
pub fn checked_size(size: f64, what: impl FnOnce() -> String) -> Result<u32> {
    if size.fract() == 0.0 && (0.0..=f64::from(MAX_SIZE)).contains(&size) {
        return Ok(size as u32);
    }
    let message = format!("{} is {size}, expected an integer between 0 and {MAX_SIZE}", what());
    Err(Error::coded(Code::Shape, message))
}

impl Signature {
    /// The signature of a session of `model` with these options.
    ///
    /// # Errors
    /// A TypeError for the size of a dimension that the model does not have, an OnnxError if there are no outputs.
    pub fn new(model: &Model, options: &SessionOptions) -> Result<Signature> {
        let SessionOptions { free_dimensions, strict_dimensions, .. } = options;
        check_names(&model.graph().inputs, free_dimensions).map_err(|error| error.into_error())?;
        let is_constant = |input: &&ValueInfo| options.constants.iter().any(|constant| constant.name == input.name);
        let inputs: Vec<ValueInfo> = model.free_inputs().filter(|input| !is_constant(input)).cloned().collect();
        let (mut outputs, values): (Vec<ValueInfo>, Vec<_>) = match &options.outputs {
            None => (model.graph().outputs.clone(), model.graph().output_values.iter().copied().map(Some).collect()),
            Some(names) => {
                let outputs = names.iter().map(|name| output_of(model, name));
                (outputs.collect(), model.arena.find(model.main, names))
            }
        };
        for (output, value) in outputs.iter_mut().zip(values) {
            output.labels = value.and_then(|value| labels_of(model, value));
        }
        if outputs.is_empty() {
            let message = "the model has no outputs: name values to compute in the option outputs";
            return Err(Error::coded(Code::ModelInvalid, message));
        }
        let mut sizes = Sizes::new(free_dimensions.clone()).strict(*strict_dimensions == Some(true));
        let slots = inputs.iter().map(|input| sizes.slots(input)).collect();
        let fixed = inputs.iter().map(|input| sizes.shape(input).ok()).collect::<Option<Shapes>>();
        let lengths = match strict_dimensions {
            Some(false) => None,
            Some(true) | None => Lengths::of(&inputs, free_dimensions),
        };
        let twins = twins(&inputs, free_dimensions);
        let optional_inputs = model.optional_inputs().cloned().collect();
        Ok(Signature { inputs, optional_inputs, outputs, sizes, slots, fixed, lengths, twins })
    }

    /// Names the dimensions that have several sizes in these shapes, although they have the same name; `None` if there
    /// are none.
    pub fn contradiction(&self, shapes: &Shapes) -> Option<String> {
        let differ = |&[(one, at), (other, axis)]: &[Place; 2]| shapes[one][at] != shapes[other][axis];
        if !self.twins.iter().any(differ) {
            return None;
        }
        contradiction(self.inputs.iter().zip(shapes.iter()))
    }

    /// Reduces outputs, by name, to this number of last positions along their second to last dimension.
    ///
    /// # Errors
    /// A TypeError for a name that is not an output, and for an output with fewer than two dimensions.
    pub fn keep_last(&mut self, counts: &BTreeMap<String, u32>) -> Result<()> {
        for (name, &count) in counts {
            let Some(output) = self.outputs.iter_mut().find(|output| output.name == *name) else {
                let known = listed(self.outputs.iter().map(|output| output.name.as_str()));
                let message = format!(
                    "loadModel: keepLast names {}, which is not an output: the model has {known}",
                    quoted(name)
                );
                return Err(Error::coded(Code::UnknownOutput, message));
            };
            let Some(mut shape) = output.declared_shape.clone() else { continue };
            let rank = shape.len();
            let Some(axis) = rank.checked_sub(2) else {
                let message = format!("keepLast names {}, which has rank {rank}, expected at least 2", quoted(name));
                return Err(at("loadModel", message));
            };
            shape[axis] = match shape[axis] {
                Dimension::Fixed(size) => Dimension::Fixed(size.min(count)),
                Dimension::Free(_) => Dimension::Free(String::new()),
            };
            *output = output.clone().with_shape(shape);
        }
        Ok(())
    }

    /// The shapes of the inputs, if all are known.
    pub fn fixed(&self) -> Option<&Shapes> {
        self.fixed.as_ref()
    }

    /// The shapes of the inputs for these feeds.
    ///
    /// # Errors
    /// A TypeError if a feed does not match, leaves a size open, or is passed more than once.
    pub fn shapes_of_feeds(&self, offers: &[Offer]) -> Result<Shapes> {
        let shapes = self.resolve(offers)?;
        self.check_lengths(&shapes)?;
        let mut expected = Descriptor::new(DataType::Uint8, Vec::<Dim>::new());
        for ((input, offer), shape) in self.inputs.iter().zip(offers).zip(shapes.iter()) {
            if let Some(dtype) = data_type(input) {
                expected.dtype = dtype;
                expected.shape.clear();
                expected.shape.extend(shape.iter().map(Dim::from));
                check_offer(input, offer, &expected)?;
            }
        }
        Ok(shapes)
    }

    /// Checks that the total number of tokens is the sum of those in the cache and the new ones.
    fn check_lengths(&self, shapes: &Shapes) -> Result<()> {
        let Some(Lengths { past, sequence, total }) = &self.lengths else { return Ok(()) };
        let size = |&(input, axis): &Place| shapes[input].get(axis).copied().unwrap_or(0);
        let (before, new) = (size(past), size(sequence));
        if u64::from(size(total)) == u64::from(before) + u64::from(new) {
            return Ok(());
        }
        let name = |&(input, _): &Place| quoted(&self.inputs[input].name);
        let (got, axis, expected) = (&shapes[total.0], total.1, u64::from(before) + u64::from(new));
        let message = format!(
            "{} has shape {got:?}, expected {expected} at [{axis}]: {} has {before} tokens and {} {new}; \
             strictDimensions: false allows other lengths",
            name(total),
            name(past),
            name(sequence),
        );
        Err(at_run(message))
    }

    /// Whether there is a cache, judged by the names that exporters give its inputs and their lengths.
    fn has_cache(&self) -> bool {
        let is_past = |dimension: &Dimension| match dimension {
            Dimension::Free(name) => name.starts_with("past"),
            Dimension::Fixed(_) => false,
        };
        self.inputs.iter().any(|input| input.name.starts_with("past") || input.shape.iter().flatten().any(is_past))
    }

    /// If the model has a cache and other shapes may be possible, attributes `error`, from a compilation for `shapes`,
    /// to these shapes: the caller provides the lengths of the cache, of the new tokens and of the mask, and they must
    /// match.
    pub fn of_sizes(&self, error: Error, shapes: &Shapes) -> Error {
        /// Maximum number of inputs in the message.
        const SHOWN: usize = 8;
        let Some(first) = error.unsupported.first() else { return error };
        if self.fixed.is_some() || !self.has_cache() || error.unsupported.iter().any(|node| !node.depends_on_sizes) {
            return error;
        }
        let shown =
            self.inputs.iter().zip(shapes.iter()).map(|(input, shape)| format!("{} {shape:?}", quoted(&input.name)));
        let mut shown: Vec<String> = shown.take(SHOWN).collect();
        if self.inputs.len() > SHOWN {
            shown.push(format!("{} more", self.inputs.len() - SHOWN));
        }
        Error::coded(Code::Shape, format!("the model cannot be run with {}: {first}", shown.join(", ")))
    }

    fn resolve(&self, offers: &[Offer]) -> Result<Shapes> {
        if let Some(fixed) = &self.fixed {
            let is_fixed = |(offer, fixed): (&Offer, &[u32])| offer.shape().is_none_or(|shape| *shape == *fixed);
            if offers.iter().zip(fixed.iter()).all(is_fixed) {
                return Ok(fixed.clone());
            }
        }
        let mut sizes = self.sizes.clone();
        let mut open = Vec::new();
        for (at, offer) in offers.iter().enumerate() {
            match offer {
                Offer::Data { bytes, shape: None } => open.push((at, *bytes)),
                _ => {
                    let (input, shape) = (&self.inputs[at], offer.shape().unwrap_or_default());
                    let bound = sizes.bind_at(input, &self.slots[at], &shape);
                    bound.map_err(|error| at_run(error.message + &self.disagreement(offers, input, &shape)))?;
                }
            }
        }
        // Each size found may determine another one elsewhere.
        while self.solve_one(&mut sizes, &open)? {}
        let shapes = offers.iter().enumerate().map(|(at, offer)| match offer {
            Offer::Data { bytes, shape: None } => self.shape_of_data(at, *bytes, &sizes).map(Cow::Owned),
            _ => Ok(offer.shape().unwrap_or_default()),
        });
        shapes.collect()
    }

    /// Derives one size from a number of elements, if possible; returns whether it did. `open` has inputs by index, and
    /// the numbers of bytes of their feeds.
    fn solve_one(&self, sizes: &mut Sizes, open: &[(usize, usize)]) -> Result<bool> {
        for &(at, bytes) in open {
            let input = &self.inputs[at];
            let Some(dtype) = data_type(input) else { continue };
            if !bytes.is_multiple_of(dtype.size()) {
                let name = quoted(&input.name);
                let message = format!(
                    "run: feed {name} has {}, expected a whole number of elements of {dtype}",
                    amount(bytes, "byte")
                );
                return Err(Error::coded(Code::Shape, message));
            }
            let solved = sizes.solve_at(input, &self.slots[at], bytes / dtype.size());
            if solved.map_err(|error| at_run(format_args!("feed {}", error.message)))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The shape of a feed of this number of bytes for the input at index `at` that has none. Where the sizes that other
    /// inputs have under the same names do not fit, the number alone decides.
    fn shape_of_data(&self, at: usize, bytes: usize, sizes: &Sizes) -> Result<Vec<u32>> {
        let (input, slots) = (&self.inputs[at], &self.slots[at]);
        let by_names = sizes.shape_at(input, slots);
        let elements = data_type(input).map_or(bytes, |dtype| bytes / dtype.size());
        let fits = by_names.as_ref().is_ok_and(|shape| filled(shape) == elements);
        if !fits && !sizes.is_strict() {
            let mut own = self.sizes.clone();
            if own.solve_at(input, slots, elements).is_ok_and(|is_solved| is_solved) {
                return own.shape_at(input, slots).map_err(|error| at_run(error.message));
            }
        }
        by_names.map_err(|_| at_run(sizes.lacking(input, " as { data, shape }")))
    }

    /// For a message: the input that set the sizes that `shape` of `input` contradicts; empty if the model did.
    fn disagreement(&self, offers: &[Offer], input: &ValueInfo, shape: &[u32]) -> String {
        let before = self.inputs.iter().zip(offers).take_while(|(other, _)| other.name != input.name);
        let mut given = before.filter_map(|(other, offer)| Some((other, offer.shape()?))).flat_map(|(other, shape)| {
            let dimensions = other.shape.iter().flatten().zip(shape.to_vec());
            dimensions.map(|(dimension, size)| (&other.name, dimension, size)).collect::<Vec<_>>()
        });
        let own = input.shape.iter().flatten().zip(shape);
        let differs = |(other, size): (&Dimension, u32)| match other {
            Dimension::Free(_) => own.clone().any(|(dimension, &own)| dimension == other && own != size),
            Dimension::Fixed(_) => false,
        };
        match given.find(|&(_, dimension, size)| differs((dimension, size))) {
            Some((name, Dimension::Free(dimension), size)) => format!(": {} has {dimension}={size}", quoted(name)),
            _ => String::new(),
        }
    }

    /// The shapes of the inputs, some of which are `given` by name. Messages start with `operation`.
    ///
    /// # Errors
    /// A TypeError if a shape does not match, belongs to no input, or is unknown.
    pub fn shapes_of_names(&self, operation: &str, given: &BTreeMap<String, Vec<u32>>) -> Result<Shapes> {
        if let Some(name) = given.keys().find(|name| !self.inputs.iter().any(|input| &input.name == *name)) {
            let known = listed(self.inputs.iter().map(|input| input.name.as_str()));
            let message = format!("{operation}: the model has no input {}, it has {known}", quoted(name));
            return Err(Error::coded(Code::UnknownFeed, message));
        }
        let mut sizes = self.sizes.clone();
        let fail = |error: crate::onnx::ModelError| at(operation, error.message);
        for (input, slots) in self.inputs.iter().zip(&self.slots) {
            given.get(&input.name).map_or(Ok(()), |shape| sizes.bind_at(input, slots, shape)).map_err(fail)?;
        }
        let shape = |(input, slots): (&ValueInfo, &SizeSlots)| match given.get(&input.name) {
            Some(shape) => Ok(shape.clone()),
            None => sizes.shape_at(input, slots).map_err(fail),
        };
        self.inputs.iter().zip(&self.slots).map(shape).collect()
    }

    /// Checks that `names` are exactly the names of the inputs.
    ///
    /// # Errors
    /// A TypeError that lists the missing and the unknown names.
    pub fn check_feeds(&self, names: &[String]) -> Result<()> {
        let known = || self.inputs.iter().map(|input| input.name.as_str());
        let missing: Vec<&str> = known().filter(|name| !names.iter().any(|given| given == name)).collect();
        let unknown: Vec<&str> =
            names.iter().map(String::as_str).filter(|given| !known().any(|name| name == *given)).collect();
        let code = match (missing.is_empty(), unknown.is_empty()) {
            (true, true) => return Ok(()),
            (false, _) => Code::MissingFeed,
            (true, false) => Code::UnknownFeed,
        };
        let missing = missing.into_iter().map(|name| format!("{} is missing", quoted(name)));
        let unknown = unknown.into_iter().map(|name| format!("{} is not an input", quoted(name)));
        let parts: Vec<String> = missing.chain(unknown).collect();
        let (parts, has) = (parts.join(", "), listed(known()));
        Err(Error::coded(code, format!("run: the feeds do not match the inputs: {parts}; the model has {has}")))
    }

    /// Checks that no output of texts goes into a tensor.
    ///
    /// # Errors
    /// A TypeError that names the first one.
    pub fn check_targets(&self, targets: &[Target]) -> Result<()> {
        let is_tensor = |target: &Target| matches!(target, Target::New | Target::Tensor(_));
        let mut outputs = self.outputs.iter().zip(targets);
        match outputs.find(|(output, target)| output.is_texts() && is_tensor(target)) {
            None => Ok(()),
            Some((output, _)) => {
                let name = quoted(&output.name);
                Err(Error::coded(Code::Type, format!("run: output {name} is of texts, which tensors do not hold")))
            }
        }
    }

    /// Checks that inputs and outputs are tensors of numbers: others are no operands.
    ///
    /// # Errors
    /// A NotSupportedError that names the first other one.
    pub fn check_tensors(&self, operation: &str) -> Result<()> {
        let is_other = |value: &&ValueInfo| value.is_texts() || value.items.is_some();
        let Some(ValueInfo { name, r#type, .. }) = self.inputs.iter().chain(&self.outputs).find(is_other) else {
            return Ok(());
        };
        let message = format!("{operation}: {} is {}, which an MLGraph cannot have", quoted(name), r#type);
        Err(Error::coded(Code::NotSupported, message))
    }

    /// Checks that `names` are names of outputs.
    ///
    /// # Errors
    /// A TypeError that names the first unknown one.
    pub fn check_fetches(&self, names: &[String]) -> Result<()> {
        let known = || self.outputs.iter().map(|output| output.name.as_str());
        let Some(unknown) = names.iter().find(|name| !known().any(|known| known == *name)) else { return Ok(()) };
        let message = format!("run: there is no output {}, the model has {}", quoted(unknown), listed(known()));
        Err(Error::coded(Code::UnknownOutput, message))
    }
}

/// Information about the value `name` of the main graph.
fn output_of(model: &Model, name: &str) -> ValueInfo {
    let declared = model.graph().outputs.iter().find(|output| output.name == name).cloned();
    declared.unwrap_or_else(|| ValueInfo::unknown(name))
}

/// Rejects data and tensors that do not match this type and shape.
fn check_offer(input: &ValueInfo, offer: &Offer, expected: &Descriptor) -> Result<()> {
    let dtype = expected.dtype;
    let what = || format!("run: feed {}", quoted(&input.name));
    let is_free = input.shape.iter().flatten().any(|dimension| matches!(dimension, Dimension::Free(_)));
    match offer {
        Offer::Data { bytes, shape: None } if is_free => {
            let checked = check_data(what, *bytes, expected);
            checked.map_err(|error| Error { message: format!("{}; or {{data, shape}}", error.message), ..error })
        }
        Offer::Data { bytes, .. } => check_data(what, *bytes, expected),
        Offer::Tensor(tensor) if tensor.descriptor().dtype == dtype => Ok(()),
        Offer::Tensor(tensor) => {
            let got = tensor.descriptor().dtype;
            let hint = if dtype == DataType::Float64 { ", which only arrays can have" } else { "" };
            Err(Error::coded(Code::Type, format!("{} is of type {got}, expected {dtype}{hint}", what())))
        }
    }
}

/// Checks that data have the number of bytes of a descriptor.
///
/// # Errors
/// A TypeError with both numbers.
pub fn check_data(what: impl FnOnce() -> String, bytes: usize, descriptor: &Descriptor) -> Result<()> {
    let fail = |message: String| Err(Error::coded(Code::Shape, message));
    let Descriptor { dtype, shape } = descriptor;
    // Shapes of models may have sizes of 0, which are outside the limits of WebNN.
    let expected = match descriptor.is_empty() {
        true => Ok(0),
        false => descriptor.check("the tensor").map(|()| descriptor.bytes()),
    };
    match expected {
        Ok(expected) if expected == bytes => Ok(()),
        Ok(expected) => fail(format!(
            "{} has {}, expected the {} of {dtype} {shape:?}",
            what(),
            amount(bytes, "byte"),
            amount(expected, "byte")
        )),
        Err(problem) => fail(format!("{}: {problem}", what())),
    }
}

/// Checks that an output fits its target.
///
/// # Errors
/// A TypeError with both descriptors.
pub fn check_target(name: &str, target: &Target, output: &Descriptor) -> Result<()> {
    let tensor = match target {
        Target::Tensor(tensor) => tensor,
        Target::New if output.is_empty() => {
            let message = format!("run: output {} has no elements, which a tensor cannot represent", quoted(name));
            return Err(Error::coded(Code::Shape, message));
        }
        Target::New if output.dtype == DataType::Float64 => {
            let message = format!("run: output {} is of type float64, which only arrays can have", quoted(name));
            return Err(Error::coded(Code::Type, message));
        }
        Target::New | Target::Read | Target::Into(_) | Target::Unread => return Ok(()),
    };
    let got = tensor.descriptor();
    if got == output {
        return Ok(());
    }
    let (name, Descriptor { dtype, shape }) = (quoted(name), output);
    let message = format!("run: output {name} needs {dtype} {shape:?}, the tensor is {} {:?}", got.dtype, got.shape);
    Err(Error::coded(Code::Shape, message))
}

fn at_run(message: impl std::fmt::Display) -> Error {
    at("run", message)
}

fn at(operation: &str, message: impl std::fmt::Display) -> Error {
    Error::coded(Code::Shape, format!("{operation}: {message}"))
}
