//! Nodes with graphs whose execution depends on data: runs the taken branch, or one round after another.

use super::known::{Data, Held, Role, host, outline};
use super::program::{Program, Run, Values, at_node};
use super::rounds;
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::ir::Builder;
use crate::memory::{Buffer, check_room, elements};
use crate::onnx::ModelError;
use crate::onnx::control_flow::{self, ControlNode, Rounds};
use crate::onnx::graph::{ByName, NameId, Node};
use crate::onnx::import::refused;
use crate::onnx::model::ValueInfo;
use crate::onnx::value::Value;
use crate::shape::Descriptor;
use std::sync::Arc;

/// A node during a run.
pub(super) struct Turn<'a> {
    program: &'a Program,
    pub run: &'a Run<'a>,
    node: Node<'a>,
    values: &'a Values,
}

/// Runs `node` of `program`, and returns its outputs.
///
/// # Errors
/// An OnnxError for an unsupported or invalid part of the model, an OperationError if computing fails.
pub(super) fn run(program: &Program, run: &Run, node: Node, values: &Values) -> Result<Vec<Held>> {
    let mut turn = Turn::new(program, run, node, values);
    if let Some(function) = program.function(node)? {
        let input = |(at, &id): (usize, &NameId)| Ok((id, turn.input(at)?.unwrap_or(Value::Absent)));
        let inputs = function.graph().input_values.iter().enumerate().map(input).collect::<Result<_>>()?;
        return function.run(run, inputs);
    }
    let operator = node.operator();
    match operator.name.as_str() {
        "If" => control_flow::choose(&mut turn),
        "Loop" => control_flow::repeat(&mut turn),
        "Scan" if operator.opset.is_some_and(|opset| opset < 9) => {
            Err(turn.fail("its graph depends on data, which is not supported in opset 8".to_string()))
        }
        "Scan" => control_flow::scan(&mut turn),
        "SequenceMap" => control_flow::map(&mut turn),
        other => Err(turn.fail(format!("graphs of {other} cannot be run"))),
    }
}

impl<'a> Turn<'a> {
    /// `node` of `program`, which reads these values.
    pub fn new(program: &'a Program, run: &'a Run<'a>, node: Node<'a>, values: &'a Values) -> Turn<'a> {
        Turn { program, run, node, values }
    }

    /// The error that the node is not supported, for this reason.
    pub fn refuse(&self, reason: String) -> Error {
        ModelError::unsupported(vec![refused(self.node, &reason.into())], 1).into_error()
    }

    /// The values that `body` sees, with these inputs.
    pub fn values(&self, body: &Program, inputs: Vec<Held>) -> Values {
        let graph = body.graph();
        let captured = graph.captured.iter().filter_map(|id| Some((*id, self.values.get(id)?.clone())));
        captured.chain(graph.input_values.iter().copied().zip(inputs)).collect()
    }
}

impl ControlNode for Turn<'_> {
    type Tensor = Data;
    type Body = Arc<Program>;
    type Column = Column;
    type Rows = Stack;
    type Error = Error;

    fn fail(&self, reason: String) -> Error {
        at_node(self.node, reason)
    }

    fn input_count(&self) -> usize {
        self.node.inputs().len()
    }

    fn input(&self, index: usize) -> Result<Option<Held>> {
        let Some(id) = self.node.input(index) else { return Ok(None) };
        let value = match self.values.get(&id) {
            Some(value) => value.clone(),
            None => {
                let initializer = self.program.initializer(id)?;
                initializer.ok_or_else(|| self.fail(format!("input {index} is not known")))?
            }
        };
        Ok(Some(value).filter(|value| !matches!(value, Value::Absent)))
    }

    fn ints(&self, attribute: &str) -> Result<Option<Vec<i64>>> {
        let found = self.program.model().arena.attribute(&self.program.arguments(self.node)?, attribute);
        Ok(found.map(|found| if found.ints.is_empty() { found.i.into_iter().collect() } else { found.ints }))
    }

    fn body(&mut self, attribute: &str) -> Result<Arc<Program>> {
        self.program.body(self.node, attribute)
    }

    fn inputs_of(body: &Arc<Program>) -> usize {
        body.graph().inputs.len()
    }

    fn outputs_of(body: &Arc<Program>) -> &[ValueInfo] {
        body.outputs()
    }

    fn run(&mut self, body: &mut Arc<Program>, inputs: Vec<Held>) -> Result<Vec<Held>> {
        body.run(self.run, self.values(body, inputs))
    }

    fn shapes(&mut self, body: &Arc<Program>, inputs: Vec<Held>) -> Result<Vec<Option<Descriptor>>> {
        let mut builder = Builder::with_limit(self.run.site.backend.max_tensor_bytes())
            .with_extensions(self.run.site.backend.has_extensions());
        let mut values = ByName::default();
        for (id, held) in self.values(body, inputs) {
            values.insert(id, outline(self.run.site, &mut builder, &held)?);
        }
        Ok(body.shapes(self.run, &builder, &values))
    }

    fn begin(&mut self, _: &Arc<Program>, _: Option<u64>) -> Result<()> {
        Ok(())
    }

    fn check_goes_on(&self) -> Result<()> {
        self.run.session.check_goes_on()
    }

    fn run_ahead(&mut self, body: &mut Arc<Program>, rounds: &mut Rounds<Self>) -> Result<()> {
        rounds::run_ahead(self, body, rounds)
    }

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

    fn descriptor(&self, value: &Held) -> Option<Descriptor> {
        value.descriptor().cloned()
    }

    fn state(value: Held) -> Held {
        value.fed()
    }

    fn counter(&mut self, round: u64) -> Result<Held> {
        Ok(host(DataType::Int64, &[], Buffer::copy_of(&round.to_le_bytes())?))
    }

    fn truth(&mut self) -> Result<Held> {
        truth()
    }

    fn column(&mut self, value: &Held, axis: usize) -> Result<(Column, u32)> {
        let descriptor = value.descriptor().expect("a tensor");
        let bytes = value.bytes(self.run.site)?;
        let mut shape = numbers(&descriptor.shape);
        let length = shape.remove(axis);
        Ok((Column { dtype: descriptor.dtype, shape, axis, length: length as usize, bytes }, length))
    }

    fn slice(&mut self, column: &Column, at: u32) -> Result<Held> {
        let mut slice = Buffer::zeroed(column.slice_bytes())?;
        column.read(at, slice.bytes_mut());
        Ok(host(column.dtype, &column.shape, slice))
    }

    fn slice_of_nothing(&mut self, slice: Descriptor) -> Result<Held> {
        let zeros = Buffer::zeroed(slice.bytes())?;
        Ok(Held::host(slice, zeros, Role::Fed))
    }

    fn push(&mut self, rows: &mut Stack, row: Held) -> Result<()> {
        rows.push(row.bytes(self.run.site)?.bytes())
    }

    fn stack(&mut self, rows: Stack, row: &Descriptor, axis: usize, reversed: bool) -> Result<Held> {
        let mut shape = numbers(&row.shape);
        let count = u32::try_from(rows.count).map_err(|_| self.fail(format!("{} rows are too many", rows.count)))?;
        shape.insert(axis, count);
        let descriptor = Descriptor::new(row.dtype, shape.as_slice());
        descriptor.check("the collected tensor").or_else(|problem| match descriptor.is_empty() {
            true => Ok(()),
            false => Err(at_node(self.node, problem)),
        })?;
        let stacked = rows.into_tensor(&shape, axis, row.dtype.size(), reversed)?;
        Ok(host(row.dtype, &shape, stacked))
    }
}

/// The condition that the graph of a loop sees: it runs only if that is true.
///
/// # Errors
/// An UnknownError if memory runs out.
pub(super) fn truth() -> Result<Held> {
    Ok(Held::host(Descriptor::new(DataType::Uint8, [0u32; 0]), Buffer::copy_of(&[1])?, Role::Constant))
}

/// A tensor that is read slice by slice.
pub(super) struct Column {
    dtype: DataType,
    /// The shape of a slice.
    shape: Vec<u32>,
    axis: usize,
    length: usize,
    bytes: Arc<Buffer>,
}

/// The product of `sizes`.
fn product(sizes: &[u32]) -> usize {
    sizes.iter().map(|&size| size as usize).product()
}

impl Column {
    /// Size of a slice in bytes.
    fn slice_bytes(&self) -> usize {
        product(&self.shape) * self.dtype.size()
    }

    /// Copies the slice at the index `at` to `target`, which has its size.
    pub fn read(&self, at: u32, target: &mut [u8]) {
        let inner = product(&self.shape[self.axis..]) * self.dtype.size();
        for (block, place) in target.chunks_exact_mut(inner.max(1)).enumerate() {
            let start = (block * self.length + at as usize) * inner;
            place.copy_from_slice(&self.bytes.bytes()[start..][..inner]);
        }
    }
}

/// Rows of the same size, one after another.
#[derive(Default)]
pub(super) struct Stack {
    bytes: Buffer,
    filled: usize,
    count: u64,
}

impl Stack {
    /// Makes room for `rows` more rows of `bytes` bytes, and no more.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn reserve(&mut self, rows: u64, bytes: usize) -> Result<()> {
        let more = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(bytes);
        self.grow(self.filled.saturating_add(more))
    }

    fn grow(&mut self, len: usize) -> Result<()> {
        // Reordering takes as much again, and growing holds both.
        check_room(len.saturating_add(self.bytes.len()))?;
        let mut grown = Buffer::zeroed(len)?;
        grown.bytes_mut()[..self.filled].copy_from_slice(&self.bytes.bytes()[..self.filled]);
        self.bytes = grown;
        Ok(())
    }

    /// Appends a row.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn push(&mut self, row: &[u8]) -> Result<()> {
        let end = self.filled + row.len();
        if end > self.bytes.len() {
            self.grow(end.max(2 * self.bytes.len()))?;
        }
        self.bytes.bytes_mut()[self.filled..end].copy_from_slice(row);
        self.filled = end;
        self.count += 1;
        Ok(())
    }

    /// The elements, of `size` bytes each, of a tensor of the shape `shape` with a row at each index of `axis`, the last
    /// one first if they are `reversed`.
    fn into_tensor(self, shape: &[u32], axis: usize, size: usize, reversed: bool) -> Result<Buffer> {
        let (outer, count) = (product(&shape[..axis]), shape[axis] as usize);
        let inner = product(&shape[axis + 1..]) * size;
        if outer == 1 && !reversed {
            return match self.bytes.len() == self.filled {
                true => Ok(self.bytes),
                false => Buffer::copy_of(&self.bytes.bytes()[..self.filled]),
            };
        }
        if self.filled == 0 {
            return Ok(Buffer::default());
        }
        let mut ordered = Buffer::zeroed(self.filled)?;
        let mut places = ordered.bytes_mut().chunks_exact_mut(inner.max(1));
        for block in 0..outer {
            for turn in 0..count {
                let row = if reversed { count - 1 - turn } else { turn };
                if let Some(place) = places.next() {
                    place.copy_from_slice(&self.bytes.bytes()[(row * outer + block) * inner..][..inner]);
                }
            }
        }
        Ok(ordered)
    }
}
