//! Nodes with graphs whose execution depends on data: runs the taken branch, or one round after another.

use super::known::{Held, host, outline};
use super::program::{Program, Run, Values, at_node};
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::ir::Builder;
use crate::memory::{Buffer, check_room, elements};
use crate::onnx::body::{is_described, row};
use crate::onnx::graph::{ByName, NameId, Node};
use crate::onnx::model::ValueInfo;
use crate::onnx::proto;
use crate::onnx::value::Value;
use crate::shape::Descriptor;
use std::sync::Arc;

/// A node during a run.
struct Turn<'a> {
    program: &'a Program,
    run: &'a Run<'a>,
    node: Node<'a>,
    values: &'a Values,
}

/// Runs `node` of `program`, and returns its outputs.
///
/// # Errors
/// An OnnxError for an unsupported or invalid part of the model, an OperationError if computing fails.
pub(super) fn run(program: &Program, run: &Run, node: Node, values: &Values) -> Result<Vec<Held>> {
    let turn = Turn { program, run, node, values };
    if let Some(function) = program.function(node)? {
        let input = |(at, &id): (usize, &NameId)| Ok((id, turn.input(at)?.unwrap_or(Value::Absent)));
        let inputs = function.graph().input_values.iter().enumerate().map(input).collect::<Result<_>>()?;
        return function.run(run, inputs);
    }
    match node.operator().name.as_str() {
        "If" => turn.branch(),
        "Loop" => turn.rounds(),
        "Scan" => turn.scan(),
        "SequenceMap" => turn.map(),
        other => Err(turn.fail(format!("graphs of {other} cannot be run"))),
    }
}

impl Turn<'_> {
    fn fail(&self, reason: impl std::fmt::Display) -> Error {
        at_node(self.node, reason)
    }

    /// The input at `index`, if present.
    fn input(&self, index: usize) -> Result<Option<Held>> {
        let Some(id) = self.node.input(index) else { return Ok(None) };
        let known = match self.values.get(&id) {
            Some(value) => Some(value.clone()),
            None => self.program.initializer(id)?,
        };
        known.map(Some).ok_or_else(|| self.fail(format!("input {index} is not known")))
    }

    /// The inputs from `first` on.
    fn inputs(&self, first: usize) -> Result<Vec<Held>> {
        (first..self.node.inputs().len()).map(|index| Ok(self.input(index)?.unwrap_or(Value::Absent))).collect()
    }

    /// The integer in a tensor of one element.
    fn int(&self, value: &Held, what: &str) -> Result<i64> {
        let descriptor = value.descriptor().filter(|descriptor| descriptor.elements() == 1);
        let descriptor = descriptor.ok_or_else(|| self.fail(format!("{what} is not a tensor of 1 element")))?;
        let bytes = value.bytes(self.run.site)?;
        match descriptor.dtype {
            DataType::Int64 => Ok(elements::<i64>(bytes.bytes())[0]),
            DataType::Int32 => Ok(i64::from(elements::<i32>(bytes.bytes())[0])),
            DataType::Uint8 => Ok(i64::from(bytes.bytes()[0])),
            other => Err(self.fail(format!("{what} is of type {other}, expected bool, int32 or int64"))),
        }
    }

    /// Runs `body` with these inputs; returns its outputs.
    fn call(&self, body: &Program, inputs: Vec<Held>) -> Result<Vec<Held>> {
        let graph = body.graph();
        if graph.inputs.len() != inputs.len() {
            let (got, expected) = (graph.inputs.len(), inputs.len());
            return Err(self.fail(format!("its graph has {got} inputs, expected {expected}")));
        }
        body.run(self.run, self.visible(body).chain(graph.input_values.iter().copied().zip(inputs)).collect())
    }

    /// The values that `body` captures.
    fn visible(&self, body: &Program) -> impl Iterator<Item = (NameId, Held)> {
        body.graph().captured.iter().filter_map(|id| Some((*id, self.values.get(id)?.clone())))
    }

    fn branch(&self) -> Result<Vec<Held>> {
        let condition = self.input(0)?.ok_or_else(|| self.fail("cond (input 0) is missing"))?;
        let name = if self.int(&condition, "cond (input 0)")? != 0 { "then_branch" } else { "else_branch" };
        self.call(&*self.program.body(self.node, name)?, Vec::new())
    }

    /// The number of outputs of `body` after the first `states`.
    fn collected(&self, body: &Program, states: usize) -> Result<usize> {
        let outputs = body.outputs().len();
        outputs
            .checked_sub(states)
            .ok_or_else(|| self.fail(format!("its graph has {outputs} outputs, expected at least {states}")))
    }

    fn rounds(&self) -> Result<Vec<Held>> {
        let body = self.program.body(self.node, "body")?;
        let trips = self.input(0)?.map(|trips| self.int(&trips, "the trip count (input 0)")).transpose()?;
        let goes_on = self.input(1)?.map(|condition| self.int(&condition, "cond (input 1)")).transpose()?;
        let mut state: Vec<Held> = self.inputs(2)?.into_iter().map(Held::fed).collect();
        let states = state.len();
        let scans = self.collected(&body, 1 + states)?;
        let mut rows: Vec<Rows> = (0..scans).map(|_| Rows::default()).collect();
        let mut goes_on = goes_on.is_none_or(|condition| condition != 0);
        let mut round: i64 = 0;
        let counted = |round: i64| -> Result<[Held; 2]> {
            let counter = host(DataType::Int64, &[], Buffer::copy_of(&round.to_le_bytes())?);
            Ok([counter, host(DataType::Uint8, &[], Buffer::copy_of(&[1])?)])
        };
        let mut known = Vec::new();
        if !goes_on || trips.is_some_and(|trips| trips <= 0) {
            let inputs = counted(0)?.into_iter().chain(state.iter().cloned()).collect();
            known = self.not_run((&body, 1 + states), inputs)?;
        }
        while goes_on && trips.is_none_or(|trips| round < trips) {
            self.run.session.check_goes_on()?;
            let mut results = self.call(&body, counted(round)?.into_iter().chain(state).collect())?.into_iter();
            let condition = results.next().expect("there is at least one output");
            goes_on = self.int(&condition, "the condition of its graph (output 0)")? != 0;
            state = results.by_ref().take(states).collect();
            rows.iter_mut().zip(results).try_for_each(|(rows, row)| self.push(rows, &row))?;
            round += 1;
        }
        for (at, rows) in rows.into_iter().enumerate() {
            state.push(self.stacked(rows, (&body, 1 + states + at), &known, (0, false))?);
        }
        Ok(state)
    }

    /// What follows for the types and shapes of the outputs of `body`, which does not run on these inputs, unless it
    /// describes all from the `first` collected one on.
    fn not_run(&self, (body, first): (&Program, usize), inputs: Vec<Held>) -> Result<Vec<Option<Descriptor>>> {
        if body.outputs()[first..].iter().all(is_described) {
            return Ok(Vec::new());
        }
        self.run.session.check_goes_on()?;
        let mut builder = Builder::with_limit(self.run.site.backend.max_tensor_bytes());
        let inputs = body.graph().input_values.iter().copied().zip(inputs);
        let mut values = ByName::default();
        for (id, held) in self.visible(body).chain(inputs) {
            values.insert(id, outline(self.run.site, &mut builder, &held)?);
        }
        Ok(body.shapes(self.run, &builder, &values))
    }

    fn push(&self, rows: &mut Rows, row: &Held) -> Result<()> {
        let descriptor = row.descriptor().ok_or_else(|| self.fail("a row that it collects is not a tensor"))?;
        match &rows.row {
            None => rows.row = Some(descriptor.clone()),
            Some(first) if first == descriptor => {}
            Some(first) => {
                let Descriptor { dtype, shape } = first;
                let (got, sizes) = (descriptor.dtype, &descriptor.shape);
                let message = format!("a round returns a row of {got} {sizes:?}, the first one {dtype} {shape:?}");
                return Err(self.fail(message));
            }
        }
        if !descriptor.is_empty() {
            let row = row.bytes(self.run.site)?;
            // The vector grows to at most twice its size, and reordering takes as much again.
            check_room(3 * (rows.bytes.len() + row.len()))?;
            let room = rows.bytes.try_reserve(row.len());
            room.map_err(|_| self.fail(format!("no memory for {} bytes of rows", rows.bytes.len() + row.len())))?;
            rows.bytes.extend_from_slice(row.bytes());
        }
        rows.count += 1;
        Ok(())
    }

    /// Stacks rows of an output of `body` along a new dimension `axis`, from the last to the first if `reversed`.
    /// Without rows, it has the shape that is declared or `known`.
    fn stacked(
        &self,
        mut rows: Rows,
        (body, output): (&Program, usize),
        known: &[Option<Descriptor>],
        (axis, reversed): (i64, bool),
    ) -> Result<Held> {
        let info: &ValueInfo = &body.outputs()[output];
        let known = known.get(output).and_then(Option::as_ref);
        let row = rows.row.take().or_else(|| row(info, known)).ok_or_else(|| {
            self.fail(format!("no round returns a row of '{}', and its type is not described", info.name))
        })?;
        let rank = row.rank() as i64 + 1;
        let counted = if axis < 0 { axis + rank } else { axis };
        if !(0..rank).contains(&counted) {
            return Err(self.fail(format!("axis {axis} is not a dimension of a tensor of rank {rank}")));
        }
        let (axis, mut shape) = (counted as usize, numbers(&row.shape));
        let inner = shape[axis..].iter().map(|&size| size as usize).product::<usize>() * row.dtype.size();
        let outer: usize = shape[..axis].iter().map(|&size| size as usize).product();
        shape.insert(axis, rows.count);
        let mut ordered = Buffer::zeroed(rows.bytes.len())?;
        let mut places = ordered.bytes_mut().chunks_exact_mut(inner.max(1));
        let count = rows.count as usize;
        for at in 0..outer {
            for turn in 0..count {
                let row = if reversed { count - 1 - turn } else { turn };
                if let Some(place) = places.next() {
                    place.copy_from_slice(&rows.bytes[(row * outer + at) * inner..][..inner]);
                }
            }
        }
        let descriptor = Descriptor::new(row.dtype, shape.as_slice());
        descriptor.check("the collected tensor").or_else(|problem| match descriptor.is_empty() {
            true => Ok(()),
            false => Err(self.fail(problem)),
        })?;
        Ok(host(row.dtype, &shape, ordered))
    }

    fn attribute(&self, name: &str) -> Option<proto::Attribute> {
        self.program.model().arena.attribute(&self.program.arguments(self.node), name)
    }

    /// An attribute with one integer for each of `count` inputs or outputs; zeros if it is missing.
    fn listed(&self, name: &str, count: usize) -> Result<Vec<i64>> {
        let ints = self.attribute(name).map(|attribute| attribute.ints);
        let ints = ints.unwrap_or_else(|| vec![0; count]);
        match ints.len() == count {
            true => Ok(ints),
            false => Err(self.fail(format!("{name} is {ints:?}, expected {count} integers"))),
        }
    }

    fn scan(&self) -> Result<Vec<Held>> {
        if self.node.operator().opset.is_some_and(|opset| opset < 9) {
            return Err(self.fail("its graph depends on data, which is not supported in opset 8"));
        }
        let body = self.program.body(self.node, "body")?;
        let count = self.attribute("num_scan_inputs");
        let count = count.and_then(|attribute| usize::try_from(attribute.i.unwrap_or(0)).ok()).unwrap_or(0);
        let mut state: Vec<Held> = self.inputs(0)?.into_iter().map(Held::fed).collect();
        if count == 0 || count > state.len() {
            return Err(self.fail("num_scan_inputs is not between 1 and the number of inputs"));
        }
        let scanned = state.split_off(state.len() - count);
        let states = state.len();
        let outputs = self.collected(&body, states)?;
        let axes = self.listed("scan_input_axes", count)?;
        let directions = self.listed("scan_input_directions", count)?;
        let mut columns = Vec::new();
        for ((value, axis), direction) in scanned.iter().zip(axes).zip(directions) {
            columns.push(self.column(value, axis, direction != 0)?);
        }
        let lengths: Vec<usize> = columns.iter().map(|column| column.length).collect();
        if lengths.iter().any(|&length| length != lengths[0]) {
            return Err(self.fail(format!("the scanned inputs have lengths {lengths:?}, expected the same")));
        }
        let mut rows: Vec<Rows> = (0..outputs).map(|_| Rows::default()).collect();
        let mut known = Vec::new();
        if lengths[0] == 0 {
            let slice = |column: &Column| Ok(host(column.dtype, &column.shape, column.zeros()?));
            let slices = columns.iter().map(slice).collect::<Result<Vec<_>>>()?;
            known = self.not_run((&body, states), state.iter().cloned().chain(slices).collect())?;
        }
        for round in 0..lengths[0] {
            self.run.session.check_goes_on()?;
            let mut inputs = state;
            for column in &columns {
                inputs.push(column.at(round)?);
            }
            let mut results = self.call(&body, inputs)?.into_iter();
            state = results.by_ref().take(states).collect();
            rows.iter_mut().zip(results).try_for_each(|(rows, row)| self.push(rows, &row))?;
        }
        let axes = self.listed("scan_output_axes", outputs)?;
        let directions = self.listed("scan_output_directions", outputs)?;
        for (at, ((rows, axis), direction)) in rows.into_iter().zip(axes).zip(directions).enumerate() {
            state.push(self.stacked(rows, (&body, states + at), &known, (axis, direction != 0))?);
        }
        Ok(state)
    }

    fn column(&self, value: &Held, axis: i64, is_reversed: bool) -> Result<Column> {
        let descriptor =
            value.descriptor().ok_or_else(|| self.fail("a scanned input is not a tensor that WebNN has"))?;
        let mut shape = numbers(&descriptor.shape);
        let rank = shape.len() as i64;
        let counted = if axis < 0 { axis + rank } else { axis };
        if !(0..rank).contains(&counted) {
            return Err(self.fail(format!("axis {axis} is not a dimension of a tensor of rank {rank}")));
        }
        let bytes = match descriptor.is_empty() {
            true => Arc::default(),
            false => value.bytes(self.run.site)?,
        };
        let length = shape.remove(counted as usize) as usize;
        Ok(Column { dtype: descriptor.dtype, shape, axis: counted as usize, length, bytes, is_reversed })
    }

    /// Runs the node's graph for each position of its sequences.
    fn map(&self) -> Result<Vec<Held>> {
        let body = self.program.body(self.node, "body")?;
        let inputs = self.inputs(0)?;
        let Some(Value::Sequence(first)) = inputs.first() else {
            return Err(self.fail("input 0 is not a sequence"));
        };
        let mut columns: Vec<Vec<Held>> = vec![Vec::new(); body.outputs().len()];
        for at in 0..first.len() {
            self.run.session.check_goes_on()?;
            let element = |input: &Held| match input {
                Value::Sequence(values) => values.get(at).cloned(),
                other => Some(other.clone()),
            };
            let inputs: Option<Vec<Held>> = inputs.iter().map(element).collect();
            let inputs = inputs.ok_or_else(|| self.fail("the sequences differ in their lengths"))?;
            let outputs = self.call(&body, inputs)?;
            columns.iter_mut().zip(outputs).for_each(|(column, output)| column.push(output));
        }
        Ok(columns.into_iter().map(|column| Value::list(column)).collect())
    }
}

/// Rows of one type and shape.
#[derive(Default)]
struct Rows {
    row: Option<Descriptor>,
    bytes: Vec<u8>,
    count: u32,
}

/// A tensor that is read slice by slice.
struct Column {
    dtype: DataType,
    /// The shape of a slice.
    shape: Vec<u32>,
    axis: usize,
    length: usize,
    bytes: Arc<Buffer>,
    is_reversed: bool,
}

impl Column {
    /// The elements of a slice, all 0.
    fn zeros(&self) -> Result<Buffer> {
        Buffer::zeroed(self.shape.iter().map(|&size| size as usize).product::<usize>() * self.dtype.size())
    }

    fn at(&self, round: usize) -> Result<Held> {
        let at = if self.is_reversed { self.length - 1 - round } else { round };
        let size = |sizes: &[u32]| sizes.iter().map(|&size| size as usize).product::<usize>();
        let (outer, inner) = (size(&self.shape[..self.axis]), size(&self.shape[self.axis..]) * self.dtype.size());
        let mut slice = Buffer::zeroed(outer * inner)?;
        for (row, place) in slice.bytes_mut().chunks_exact_mut(inner.max(1)).enumerate() {
            place.copy_from_slice(&self.bytes.bytes()[(row * self.length + at) * inner..][..inner]);
        }
        Ok(host(self.dtype, &self.shape, slice))
    }
}
