//! The rules of `If`, `Loop`, `Scan` and `SequenceMap`, for whoever runs their graphs: a translation, which unrolls
//! rounds into one graph, and a session, which runs one round after another.

use super::body::{is_described, row};
use super::error::quoted;
use super::model::ValueInfo;
use super::value::Value;
use crate::error::amount;
use crate::shape::Descriptor;

/// A node with graphs in attributes, and what its rules are made of.
pub trait ControlNode: Sized {
    /// A tensor.
    type Tensor: Clone;
    /// A graph in an attribute.
    type Body;
    /// A tensor that is read slice by slice.
    type Column;
    /// The rows that an output has returned so far.
    type Rows: Default;
    /// Why the node cannot run.
    type Error;

    /// An error of the node.
    fn fail(&self, reason: String) -> Self::Error;

    /// Number of inputs that the node names, including omitted ones in between.
    fn input_count(&self) -> usize;

    /// The input at `index`; `None` if it is omitted, or an optional without an element.
    ///
    /// # Errors
    /// If it cannot be read.
    fn input(&self, index: usize) -> Result<Option<Value<Self::Tensor>>, Self::Error>;

    /// The integers of an attribute, where a single integer counts as a list of one; `None` if it is missing.
    ///
    /// # Errors
    /// If the attributes are malformed.
    fn ints(&self, attribute: &str) -> Result<Option<Vec<i64>>, Self::Error>;

    /// The graph in an attribute.
    ///
    /// # Errors
    /// If it is missing or malformed.
    fn body(&mut self, attribute: &str) -> Result<Self::Body, Self::Error>;

    /// Number of inputs of `body`.
    fn inputs_of(body: &Self::Body) -> usize;

    /// The declared outputs of `body`.
    fn outputs_of(body: &Self::Body) -> &[ValueInfo];

    /// Runs `body` on as many values as it has inputs; returns its outputs.
    ///
    /// # Errors
    /// If it fails.
    fn run(
        &mut self,
        body: &mut Self::Body,
        inputs: Vec<Value<Self::Tensor>>,
    ) -> Result<Vec<Value<Self::Tensor>>, Self::Error>;

    /// Types and shapes of the outputs that `body` would have for these inputs; `None` where they do not follow.
    ///
    /// # Errors
    /// If a value cannot be read.
    fn shapes(
        &mut self,
        body: &Self::Body,
        inputs: Vec<Value<Self::Tensor>>,
    ) -> Result<Vec<Option<Descriptor>>, Self::Error>;

    /// Checks, before the first round, that `body` may run `rounds` times; `None` if the number is not known.
    ///
    /// # Errors
    /// If it must not.
    fn begin(&mut self, body: &Self::Body, rounds: Option<u64>) -> Result<(), Self::Error>;

    /// Checks, before every round, that the run goes on.
    ///
    /// # Errors
    /// If it was ended.
    fn check_goes_on(&self) -> Result<(), Self::Error>;

    /// Runs as many of the remaining rounds as can be run at once; the others follow one by one.
    ///
    /// # Errors
    /// If a round fails.
    fn run_ahead(&mut self, _: &mut Self::Body, _: &mut Rounds<Self>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The integer, or the truth, in a tensor of one element, which messages call `what`.
    ///
    /// # Errors
    /// If it is something else, or not known.
    fn int(&self, value: &Value<Self::Tensor>, what: &str) -> Result<i64, Self::Error>;

    /// Type and shape of a tensor; `None` for anything else.
    fn descriptor(&self, value: &Value<Self::Tensor>) -> Option<Descriptor>;

    /// A value as a state: what it is now says nothing about later rounds.
    fn state(value: Value<Self::Tensor>) -> Value<Self::Tensor> {
        value
    }

    /// An int64 scalar.
    ///
    /// # Errors
    /// If there is no room for it.
    fn counter(&mut self, round: u64) -> Result<Value<Self::Tensor>, Self::Error>;

    /// A scalar that is true.
    ///
    /// # Errors
    /// If there is no room for it.
    fn truth(&mut self) -> Result<Value<Self::Tensor>, Self::Error>;

    /// A tensor to be read in slices along `axis`, and its length there.
    ///
    /// # Errors
    /// If it cannot be read, or its length is not known.
    fn column(&mut self, value: &Value<Self::Tensor>, axis: usize) -> Result<(Self::Column, u32), Self::Error>;

    /// The slice at the index `at` of a tensor, without the dimension along which it is read.
    ///
    /// # Errors
    /// If there is no room for it.
    fn slice(&mut self, column: &Self::Column, at: u32) -> Result<Value<Self::Tensor>, Self::Error>;

    /// A value of the type and shape of a slice, for [`shapes`](Self::shapes).
    ///
    /// # Errors
    /// If there is no room for it.
    fn slice_of_nothing(&mut self, slice: Descriptor) -> Result<Value<Self::Tensor>, Self::Error>;

    /// Appends a row of the same type and shape as the others.
    ///
    /// # Errors
    /// If there is no room for it.
    fn push(&mut self, rows: &mut Self::Rows, row: Value<Self::Tensor>) -> Result<(), Self::Error>;

    /// Stacks `rows` of this type and shape, at least one, along a new dimension `axis`, the last one first if they are
    /// `reversed`.
    ///
    /// # Errors
    /// If there is no room for them.
    fn stack(
        &mut self,
        rows: Self::Rows,
        row: &Descriptor,
        axis: usize,
        reversed: bool,
    ) -> Result<Value<Self::Tensor>, Self::Error>;
}

/// The dimension `axis` of a tensor of `rank` dimensions; negative values count from the end.
///
/// # Errors
/// The reason, if there is no such dimension.
pub fn dimension(axis: i64, rank: usize) -> Result<usize, String> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    let valid = usize::try_from(counted).ok().filter(|&axis| axis < rank);
    valid.ok_or_else(|| format!("axis {axis} is not a dimension of a tensor of rank {rank}"))
}

// ---- If and SequenceMap ------------------------------------------------------------------------------------------

/// The attribute with the graph that `If` runs.
pub fn branch_for(condition: bool) -> &'static str {
    if condition { "then_branch" } else { "else_branch" }
}

/// The outputs of `If`, whose condition must be known.
///
/// # Errors
/// The error of its graph, or if it lacks the condition.
pub fn choose<F: ControlNode>(flow: &mut F) -> Result<Vec<Value<F::Tensor>>, F::Error> {
    let condition = int_input(flow, 0, "cond")?.ok_or_else(|| flow.fail("cond (input 0) is missing".to_string()))?;
    let mut body = flow.body(branch_for(condition != 0))?;
    call(flow, &mut body, Vec::new())
}

/// The outputs of `SequenceMap`: runs its graph for each position of its sequences.
///
/// # Errors
/// The errors of its graph, or if its inputs do not match.
pub fn map<F: ControlNode>(flow: &mut F) -> Result<Vec<Value<F::Tensor>>, F::Error> {
    let inputs = required(flow, 0)?;
    let first = inputs.first().and_then(Value::elements);
    let length = first.ok_or_else(|| flow.fail("input 0 is not a sequence".to_string()))?.len();
    let mut body = flow.body("body")?;
    let mut columns = vec![Vec::new(); F::outputs_of(&body).len()];
    for at in 0..length {
        flow.check_goes_on()?;
        let element = |input: &Value<F::Tensor>| match input.elements() {
            Some(values) => values.get(at).cloned(),
            None => Some(input.clone()),
        };
        let inputs: Option<Vec<Value<F::Tensor>>> = inputs.iter().map(element).collect();
        let inputs = inputs.ok_or_else(|| flow.fail("the sequences differ in their lengths".to_string()))?;
        let outputs = call(flow, &mut body, inputs)?;
        columns.iter_mut().zip(outputs).for_each(|(column, output)| column.push(output));
    }
    Ok(columns.into_iter().map(Value::list).collect())
}

fn int_input<F: ControlNode>(flow: &F, index: usize, name: &str) -> Result<Option<i64>, F::Error> {
    flow.input(index)?.map(|value| flow.int(&value, &format!("{name} (input {index})"))).transpose()
}

/// The inputs from `first` on, all of which must be present.
fn required<F: ControlNode>(flow: &F, first: usize) -> Result<Vec<Value<F::Tensor>>, F::Error> {
    let input = |index| flow.input(index)?.ok_or_else(|| flow.fail(format!("input {index} is missing")));
    (first..flow.input_count()).map(input).collect()
}

fn call<F: ControlNode>(
    flow: &mut F,
    body: &mut F::Body,
    inputs: Vec<Value<F::Tensor>>,
) -> Result<Vec<Value<F::Tensor>>, F::Error> {
    let (got, expected) = (F::inputs_of(body), inputs.len());
    match got == expected {
        true => flow.run(body, inputs),
        false => Err(flow.fail(format!("its graph has {}, expected {expected}", amount(got, "input")))),
    }
}

// ---- Rounds ------------------------------------------------------------------------------------------------------

/// The rounds of a `Loop` or `Scan` that are left, and what the earlier ones returned.
///
/// The graph of a `Loop` has the inputs counter, condition and states, and the outputs condition, states and rows; that
/// of a `Scan` the inputs states and slices, and the outputs states and rows.
pub struct Rounds<F: ControlNode> {
    /// Whether they are those of a `Loop`.
    pub is_loop: bool,
    /// The number of rounds, or the most that there can be; `None` if only the condition ends them.
    pub limit: Option<u64>,
    /// The index of the next round.
    pub round: u64,
    /// Whether the condition lets them go on.
    pub goes_on: bool,
    /// The states before the next round.
    pub states: Vec<Value<F::Tensor>>,
    /// The scanned inputs.
    pub scanned: Vec<Scanned<F::Column>>,
    /// The collected outputs.
    pub collected: Vec<Collected<F::Rows>>,
}

/// A scanned input.
pub struct Scanned<Column> {
    /// The tensor.
    pub column: Column,
    /// Type and shape of a slice.
    pub slice: Descriptor,
    /// Number of slices.
    pub length: u32,
    /// Whether the last slice is the first to be read.
    pub is_reversed: bool,
}

impl<Column> Scanned<Column> {
    /// The index of the slice to read in `round`.
    pub fn at(&self, round: u64) -> u32 {
        let round = round as u32;
        if self.is_reversed { self.length - 1 - round } else { round }
    }
}

/// The rows of an output, one for each round.
pub struct Collected<Rows> {
    /// Type and shape of a row, if there is one.
    pub row: Option<Descriptor>,
    /// The rows.
    pub rows: Rows,
    /// The new dimension along which they are stacked.
    pub axis: i64,
    /// Whether the last row comes first.
    pub is_reversed: bool,
}

impl<Rows: Default> Collected<Rows> {
    fn new(axis: i64, is_reversed: bool) -> Collected<Rows> {
        Collected { row: None, rows: Rows::default(), axis, is_reversed }
    }
}

impl<F: ControlNode> Rounds<F> {
    /// Whether no round is left.
    pub fn are_over(&self) -> bool {
        !self.goes_on || self.limit.is_some_and(|limit| self.round >= limit)
    }

    /// The inputs of the graph in the next round; takes the states.
    fn inputs(&mut self, flow: &mut F) -> Result<Vec<Value<F::Tensor>>, F::Error> {
        let mut inputs = Vec::with_capacity(2 + self.states.len() + self.scanned.len());
        if self.is_loop {
            inputs.extend([flow.counter(self.round)?, flow.truth()?]);
        }
        inputs.append(&mut self.states);
        for scanned in &self.scanned {
            inputs.push(flow.slice(&scanned.column, scanned.at(self.round))?);
        }
        Ok(inputs)
    }

    /// What follows for the types and shapes of the outputs of `body`, which no round runs, unless it describes all
    /// that are collected.
    fn shapes(&self, flow: &mut F, body: &F::Body) -> Result<Vec<Option<Descriptor>>, F::Error> {
        if F::outputs_of(body)[self.first_row()..].iter().all(is_described) {
            return Ok(Vec::new());
        }
        flow.check_goes_on()?;
        let mut inputs = if self.is_loop { vec![flow.counter(0)?, flow.truth()?] } else { Vec::new() };
        inputs.extend(self.states.iter().cloned());
        for scanned in &self.scanned {
            inputs.push(flow.slice_of_nothing(scanned.slice.clone())?);
        }
        flow.shapes(body, inputs)
    }

    /// The index of the first collected output of the graph.
    pub fn first_row(&self) -> usize {
        usize::from(self.is_loop) + self.states.len()
    }

    /// Takes over what the graph returned.
    fn advance(&mut self, flow: &mut F, outputs: Vec<Value<F::Tensor>>, states: usize) -> Result<(), F::Error> {
        let mut outputs = outputs.into_iter();
        if self.is_loop {
            let condition = outputs.next().expect("the outputs were counted");
            self.goes_on = flow.int(&condition, "the condition of its graph (output 0)")? != 0;
        }
        self.states.extend(outputs.by_ref().take(states).map(F::state));
        for (collected, row) in self.collected.iter_mut().zip(outputs) {
            let descriptor = flow.descriptor(&row);
            let descriptor =
                descriptor.ok_or_else(|| flow.fail("a row that it collects is not a tensor".to_string()))?;
            match &collected.row {
                None => collected.row = Some(descriptor),
                Some(first) if *first == descriptor => {}
                Some(Descriptor { dtype, shape }) => {
                    let (got, sizes) = (descriptor.dtype, &descriptor.shape);
                    let reason = format!("a round returns a row of {got} {sizes:?}, the first one {dtype} {shape:?}");
                    return Err(flow.fail(reason));
                }
            }
            flow.push(&mut collected.rows, row)?;
        }
        self.round += 1;
        Ok(())
    }

    /// Runs all rounds; returns the states after the last one, then the stacked rows.
    fn finish(mut self, flow: &mut F, body: &mut F::Body) -> Result<Vec<Value<F::Tensor>>, F::Error> {
        let states = self.states.len();
        flow.begin(body, self.limit)?;
        let known = if self.are_over() { self.shapes(flow, body)? } else { Vec::new() };
        while !self.are_over() {
            flow.check_goes_on()?;
            flow.run_ahead(body, &mut self)?;
            if self.are_over() {
                break;
            }
            let inputs = self.inputs(flow)?;
            let outputs = call(flow, body, inputs)?;
            self.advance(flow, outputs, states)?;
        }
        let first = self.first_row();
        let mut outputs = self.states;
        for (at, collected) in self.collected.into_iter().enumerate() {
            outputs.push(stacked(flow, collected, &F::outputs_of(body)[first + at], known.get(first + at))?);
        }
        Ok(outputs)
    }
}

/// The stacked rows. Without any, they have the type and shape that `info` declares or that is `known`.
fn stacked<F: ControlNode>(
    flow: &mut F,
    collected: Collected<F::Rows>,
    info: &ValueInfo,
    known: Option<&Option<Descriptor>>,
) -> Result<Value<F::Tensor>, F::Error> {
    let Collected { row: of_rows, rows, axis, is_reversed } = collected;
    let of_none = || row(info, known.and_then(Option::as_ref));
    let is_empty = of_rows.is_none();
    let mut row = of_rows.or_else(of_none).ok_or_else(|| {
        flow.fail(format!("no round returns a row of {}, and its type is not described", quoted(&info.name)))
    })?;
    let axis = dimension(axis, row.rank() + 1).map_err(|reason| flow.fail(reason))?;
    if is_empty {
        row.shape.insert(axis, 0u32.into());
        return Ok(Value::Empty(row));
    }
    flow.stack(rows, &row, axis, is_reversed)
}

/// The number of outputs of `body` after the first `others`, which must exist.
fn count_rows<F: ControlNode>(flow: &F, body: &F::Body, others: usize) -> Result<usize, F::Error> {
    let outputs = F::outputs_of(body).len();
    let rows = outputs.checked_sub(others);
    rows.ok_or_else(|| flow.fail(format!("its graph has {}, expected at least {others}", amount(outputs, "output"))))
}

/// The outputs of `Loop`.
///
/// # Errors
/// The errors of its graph, or if it does not match the node.
pub fn repeat<F: ControlNode>(flow: &mut F) -> Result<Vec<Value<F::Tensor>>, F::Error> {
    let trips = int_input(flow, 0, "the trip count")?;
    let condition = int_input(flow, 1, "cond")?;
    let state = |index| Ok(flow.input(index)?.map_or(Value::Absent, F::state));
    let states = (2..flow.input_count()).map(state).collect::<Result<Vec<_>, F::Error>>()?;
    let mut body = flow.body("body")?;
    let rows = count_rows(flow, &body, 1 + states.len())?;
    let rounds = Rounds {
        is_loop: true,
        // Writers of loops with a condition alone state the largest number.
        limit: trips.filter(|&trips| trips < i64::MAX).map(|trips| trips.max(0) as u64),
        round: 0,
        goes_on: condition.is_none_or(|condition| condition != 0),
        states,
        scanned: Vec::new(),
        collected: (0..rows).map(|_| Collected::new(0, false)).collect(),
    };
    rounds.finish(flow, &mut body)
}

/// An attribute with one integer for each of `count` inputs or outputs; zeros if it is missing.
///
/// # Errors
/// If it has another number of integers.
pub fn listed<F: ControlNode>(flow: &F, attribute: &str, count: usize) -> Result<Vec<i64>, F::Error> {
    let ints = flow.ints(attribute)?.unwrap_or_else(|| vec![0; count]);
    match ints.len() == count {
        true => Ok(ints),
        false => Err(flow.fail(format!("{attribute} is {ints:?}, expected {count} integers"))),
    }
}

/// The parts of a `Scan`.
pub struct Scan<F: ControlNode> {
    /// Its graph.
    pub body: F::Body,
    /// The states before the first round.
    pub states: Vec<Value<F::Tensor>>,
    /// The scanned inputs.
    pub scanned: Vec<Value<F::Tensor>>,
    /// Number of collected outputs.
    pub rows: usize,
}

impl<F: ControlNode> Scan<F> {
    /// The parts of the node, whose inputs begin at the index `first`.
    ///
    /// # Errors
    /// If its graph does not match the node.
    pub fn of(flow: &mut F, first: usize) -> Result<Scan<F>, F::Error> {
        let count = flow.ints("num_scan_inputs")?.and_then(|ints| ints.first().copied()).unwrap_or(0);
        let mut states = required(flow, first)?;
        let count = usize::try_from(count).ok().filter(|count| (1..=states.len()).contains(count));
        let count =
            count.ok_or_else(|| flow.fail("num_scan_inputs is not between 1 and the number of inputs".to_string()))?;
        let scanned = states.split_off(states.len() - count);
        let body = flow.body("body")?;
        let rows = count_rows(flow, &body, states.len())?;
        Ok(Scan { body, states, scanned, rows })
    }

    /// Runs the rounds along these axes, each with whether it is read, or collected, from the end. Takes the states;
    /// returns those after the last round, then the stacked rows.
    ///
    /// # Errors
    /// The errors of the graph, or if the inputs do not match.
    pub fn run(
        &mut self,
        flow: &mut F,
        inputs: impl IntoIterator<Item = (i64, bool)>,
        outputs: impl IntoIterator<Item = (i64, bool)>,
    ) -> Result<Vec<Value<F::Tensor>>, F::Error> {
        let mut scanned = Vec::new();
        for (value, (axis, is_reversed)) in self.scanned.iter().zip(inputs) {
            let slice = flow.descriptor(value);
            let unlike = || flow.fail("a scanned input is not a tensor that WebNN has".to_string());
            let mut slice = slice.ok_or_else(unlike)?;
            let axis = dimension(axis, slice.rank()).map_err(|reason| flow.fail(reason))?;
            slice.shape.remove(axis);
            let (column, length) = flow.column(value, axis)?;
            scanned.push(Scanned { column, slice, length, is_reversed });
        }
        let lengths: Vec<u32> = scanned.iter().map(|scanned| scanned.length).collect();
        if lengths.iter().any(|length| *length != lengths[0]) {
            return Err(flow.fail(format!("the scanned inputs have lengths {lengths:?}, expected the same")));
        }
        let rounds = Rounds {
            is_loop: false,
            limit: Some(u64::from(lengths[0])),
            round: 0,
            goes_on: true,
            states: std::mem::take(&mut self.states).into_iter().map(F::state).collect(),
            scanned,
            collected: outputs.into_iter().map(|(axis, is_reversed)| Collected::new(axis, is_reversed)).collect(),
        };
        rounds.finish(flow, &mut self.body)
    }
}

/// The outputs of `Scan` since opset 9.
///
/// # Errors
/// The errors of its graph, or if it does not match the node.
pub fn scan<F: ControlNode>(flow: &mut F) -> Result<Vec<Value<F::Tensor>>, F::Error> {
    let mut scan = Scan::of(flow, 0)?;
    let axes = |attribute: &str, directions: &str, count| {
        let directions = listed(flow, directions, count)?.into_iter().map(|direction| direction != 0);
        Ok(listed(flow, attribute, count)?.into_iter().zip(directions).collect::<Vec<_>>())
    };
    let inputs = axes("scan_input_axes", "scan_input_directions", scan.scanned.len())?;
    let outputs = axes("scan_output_axes", "scan_output_directions", scan.rows)?;
    scan.run(flow, inputs, outputs)
}
