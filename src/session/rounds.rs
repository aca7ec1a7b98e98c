//! Rounds of a loop whose graph runs as a whole: its inputs and outputs are bound once; a round then copies the slices
//! that it reads and the rows that it returns, runs the graph, and exchanges the states before it with those after it.

use super::control::{Turn, truth};
use super::known::{Data, Held, Role, host};
use super::program::{Prepared, Program, Values, held};
use super::specialization::Specialization;
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::Buffer;
use crate::onnx::control_flow::{ControlNode, Rounds};
use crate::onnx::cuts::KeptTensor;
use crate::onnx::graph::NameId;
use crate::onnx::value::Value;
use crate::runtime::{Backend, CompiledGraph, Contents, Site, Tensor};
use crate::shape::Descriptor;
use std::collections::HashSet;
use std::sync::Arc;

/// The rounds before which an attempt is worthwhile: the states that a round returns may differ in shape from the first
/// ones, and then stay the same.
const ATTEMPTS: u64 = 2;

/// Where a round finds the bytes of an output of the graph.
enum Source {
    /// In the compiled graph's output at this index.
    Output(usize),
    /// In the tensor at this index among [`BoundRounds::read`].
    Input(usize),
    /// They are always the same.
    Constant(Arc<Buffer>),
}

/// A state of the rounds.
struct State {
    /// Its index among the tensors that are read.
    before: usize,
    /// Its index among those that are written.
    after: usize,
    /// Where its bytes are copied from after a round; `None` if the compiled graph writes them.
    copied: Option<Source>,
}

/// The graph of a loop, bound to tensors.
struct BoundRounds {
    /// `None` if nothing is computed.
    graph: Option<Arc<CompiledGraph>>,
    /// What the compiled graph reads, in its order, then other inputs.
    read: Vec<Arc<Tensor>>,
    /// What the compiled graph writes, in its order, then other states.
    written: Vec<Arc<Tensor>>,
    /// Number of inputs and of outputs of the compiled graph.
    ports: [usize; 2],
    /// For each input of the loop's graph, its index among the tensors that are read.
    inputs: Vec<usize>,
    /// The states that change.
    states: Vec<State>,
    /// Where a `Loop` finds whether it goes on.
    condition: Option<Source>,
    /// Type, shape and source of each row.
    rows: Vec<(Descriptor, Source)>,
}

/// Runs the remaining rounds, if their graph, [a single one](Program::whole), can be bound.
///
/// # Errors
/// An OnnxError for an unsupported or invalid part of the graph, an OperationError if computing fails, an UnknownError
/// if memory runs out, an InvalidStateError if the session is destroyed or its context lost.
pub(super) fn run_ahead(node: &Turn, body: &Program, rounds: &mut Rounds<Turn>) -> Result<()> {
    // On a GPU, states stay on the device in any case, and slices and rows are copied to and from it one by one.
    if rounds.round >= ATTEMPTS || !matches!(node.run.site.backend, Backend::Cpu) {
        return Ok(());
    }
    let Some(mut bound) = BoundRounds::of(node, body, rounds)? else { return Ok(()) };
    bound.reserve(rounds)?;
    while !rounds.are_over() {
        node.check_goes_on()?;
        bound.run(node.run.site, rounds)?;
    }
    let first = first_state(rounds);
    for (state, &at) in rounds.states.iter_mut().zip(&bound.inputs[first..]) {
        *state = Value::Tensor(Data::Device(bound.read[at].clone()));
    }
    Ok(())
}

/// A tensor with these bytes of its own.
fn tensor(descriptor: &Descriptor, bytes: Buffer) -> Arc<Tensor> {
    let tensor = Tensor::new(descriptor.clone());
    tensor.set(Contents::Bytes(Arc::new(bytes)));
    Arc::new(tensor)
}

/// A tensor with bytes of its own, to be written.
fn blank(descriptor: &Descriptor) -> Result<Arc<Tensor>> {
    Ok(tensor(descriptor, Buffer::zeroed(descriptor.bytes())?))
}

/// Calls `look` with the bytes of `tensor`.
fn read<T>(tensor: &Tensor, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
    Ok(look(tensor.lock()?.bytes()?.bytes()))
}

/// Calls `change` with the bytes of `tensor`, which nothing else holds.
fn write(tensor: &Tensor, change: impl FnOnce(&mut [u8])) -> Result<()> {
    change(tensor.lock()?.bytes_mut(tensor.descriptor())?.bytes_mut());
    Ok(())
}

/// The index of the first state among the inputs of the loop's graph.
fn first_state(rounds: &Rounds<Turn>) -> usize {
    if rounds.is_loop { 2 } else { 0 }
}

/// The inputs of the graph before the next round; the bytes of counters and slices are not read.
fn inputs(rounds: &Rounds<Turn>) -> Result<Vec<Held>> {
    let mut inputs = Vec::new();
    if rounds.is_loop {
        inputs.push(host(DataType::Int64, &[], Buffer::zeroed(size_of::<i64>())?));
        inputs.push(truth()?);
    }
    inputs.extend(rounds.states.iter().cloned());
    let slice = |slice: &Descriptor| host(slice.dtype, &numbers(&slice.shape), Buffer::default());
    inputs.extend(rounds.scanned.iter().map(|scanned| slice(&scanned.slice)));
    Ok(inputs)
}

/// A loop's graph before it is bound.
struct Unbound<'a> {
    site: &'a Site<'a>,
    body: &'a Program,
    /// What the graph sees.
    values: &'a Values,
    /// Its inputs.
    given: &'a [Held],
    /// What computes it.
    graph: &'a Specialization,
}

impl Unbound<'_> {
    /// The index of the graph's input `id`.
    fn input(&self, id: NameId) -> Option<usize> {
        self.body.graph().input_values.iter().position(|&input| input == id)
    }

    /// The tensors that are read: those of the compiled graph, `places` among `fed`, then one for each other input; and
    /// for each input, its index among them.
    fn read(&self, places: &[usize], fed: &[(NameId, Held)]) -> Result<(Vec<Arc<Tensor>>, Vec<usize>)> {
        let mut read = Vec::new();
        let mut inputs = vec![None; self.given.len()];
        let mut captured = HashSet::new();
        for (id, value) in places.iter().map(|&place| &fed[place]) {
            let input = self.input(*id);
            if let Some(at) = input {
                inputs[at] = Some(read.len());
            }
            read.push(match (input, value) {
                (Some(_), value) => own(self.site, value)?,
                // Graphs lock each tensor once.
                (None, Value::Tensor(Data::Device(tensor))) if captured.insert(Arc::as_ptr(tensor)) => tensor.clone(),
                (None, value) => {
                    let descriptor = value.descriptor().expect("inputs are tensors").clone();
                    self.site.tensor_of(descriptor, &value.bytes(self.site)?)?
                }
            });
        }
        let mut placed = Vec::new();
        for (value, at) in self.given.iter().zip(inputs) {
            placed.push(at.unwrap_or(read.len()));
            if at.is_none() {
                read.push(own(self.site, value)?);
            }
        }
        Ok((read, placed))
    }

    /// Type, shape and source of the output `id`; `None` unless it is a tensor with elements. `inputs` are indices
    /// of the inputs among the tensors that are read, `writes` those of what the compiled graph writes among its
    /// outputs.
    fn source(&self, id: NameId, inputs: &[usize], writes: &[usize]) -> Result<Option<(Descriptor, Source)>> {
        let rest = self.graph.rest.as_ref().expect("a part has one");
        let kept = rest.values.iter().find(|(kept, _)| *kept == id).map(|(_, kept)| kept);
        let value = match (kept, self.input(id)) {
            (Some(Value::Tensor(KeptTensor::Output(place))), _) => {
                let source = |at| (self.graph.outputs[*place].descriptor.clone(), Source::Output(at));
                return Ok(writes.iter().position(|at| at == place).map(source));
            }
            (None, Some(at)) => {
                let descriptor = self.given[at].descriptor().expect("inputs are tensors");
                return Ok(Some((descriptor.clone(), Source::Input(inputs[at]))));
            }
            (Some(kept), _) => held(kept, Role::Constant, &[])?,
            (None, None) => self.values.get(&id).cloned().unwrap_or(Value::Absent),
        };
        match value.descriptor().filter(|descriptor| !descriptor.is_empty()) {
            Some(descriptor) => Ok(Some((descriptor.clone(), Source::Constant(value.bytes(self.site)?)))),
            None => Ok(None),
        }
    }
}

impl BoundRounds {
    /// Binds `body`; `None` if it has several stages, or its types and shapes change with a round.
    fn of(node: &Turn, body: &Program, rounds: &Rounds<Turn>) -> Result<Option<BoundRounds>> {
        let given = inputs(rounds)?;
        let is_tensor = |held: &Held| held.descriptor().is_some_and(|descriptor| !descriptor.is_empty());
        if body.graph().inputs.len() != given.len() || !given.iter().all(is_tensor) {
            return Ok(None);
        }
        let values = node.values(body, given.clone());
        let Some(Prepared { graph, inputs: fed }) = body.whole(node.run, &values)? else { return Ok(None) };
        let unbound = Unbound { site: node.run.site, body, values: &values, given: &given, graph: &graph };
        let [reads, writes] = graph.places();
        let (read, inputs) = unbound.read(&reads, &fed)?;
        let mut sources = Vec::new();
        for &id in body.wanted() {
            let Some(source) = unbound.source(id, &inputs, &writes)? else { return Ok(None) };
            sources.push(source);
        }
        let written = writes.iter().map(|&place| blank(&graph.outputs[place].descriptor)).collect::<Result<_>>()?;
        let (states, condition, rows) = Default::default();
        let (ports, graph) = ([reads.len(), writes.len()], graph.graph().cloned());
        let bound = BoundRounds { graph, read, written, ports, inputs, states, condition, rows };
        bound.with_sources(rounds, sources)
    }

    /// Adds the sources of all outputs; `None` if they do not have the types and shapes that the next round needs.
    fn with_sources(
        mut self,
        rounds: &Rounds<Turn>,
        sources: Vec<(Descriptor, Source)>,
    ) -> Result<Option<BoundRounds>> {
        let mut sources = sources.into_iter();
        if rounds.is_loop {
            let (descriptor, source) = sources.next().expect("the outputs were counted");
            let is_truth = matches!(descriptor.dtype, DataType::Uint8 | DataType::Int32 | DataType::Int64);
            if !is_truth || descriptor.elements() != 1 {
                return Ok(None);
            }
            self.condition = Some(source);
        }
        for at in 0..rounds.states.len() {
            let before = self.inputs[first_state(rounds) + at];
            let (descriptor, source) = sources.next().expect("the outputs were counted");
            if descriptor != *self.read[before].descriptor() {
                return Ok(None);
            }
            let (after, copied) = match source {
                Source::Input(same) if same == before => continue,
                Source::Output(after) => (after, None),
                source => {
                    self.written.push(blank(&descriptor)?);
                    (self.written.len() - 1, Some(source))
                }
            };
            self.states.push(State { before, after, copied });
        }
        for ((descriptor, source), collected) in sources.zip(&rounds.collected) {
            if collected.row.as_ref().is_some_and(|row| *row != descriptor) {
                return Ok(None);
            }
            self.rows.push((descriptor, source));
        }
        Ok(Some(self))
    }

    /// Makes room for all rows, if no condition ends the rounds early.
    fn reserve(&self, rounds: &mut Rounds<Turn>) -> Result<()> {
        let is_sure = match &self.condition {
            None => true,
            Some(Source::Constant(bytes)) => bytes.bytes().iter().any(|&byte| byte != 0),
            // The truth that the rounds begin with.
            Some(Source::Input(at)) => *at == self.inputs[1],
            Some(Source::Output(_)) => false,
        };
        for (collected, (descriptor, _)) in rounds.collected.iter_mut().zip(&self.rows) {
            collected.row.get_or_insert_with(|| descriptor.clone());
            if let (Some(limit), true) = (rounds.limit, is_sure) {
                collected.rows.reserve(limit - rounds.round, descriptor.bytes())?;
            }
        }
        Ok(())
    }

    /// Runs the next round.
    fn run(&mut self, site: &Site, rounds: &mut Rounds<Turn>) -> Result<()> {
        if rounds.is_loop {
            write(&self.read[self.inputs[0]], |bytes| bytes.copy_from_slice(&rounds.round.to_le_bytes()))?;
        }
        let first = self.inputs.len() - rounds.scanned.len();
        for (scanned, &at) in rounds.scanned.iter().zip(&self.inputs[first..]) {
            write(&self.read[at], |slice| scanned.column.read(scanned.at(rounds.round), slice))?;
        }
        if let Some(graph) = &self.graph {
            let [reads, writes] = self.ports;
            site.run(graph, "run", [&self.read[..reads], &self.written[..writes]])?;
        }
        if let Some(condition) = &self.condition {
            rounds.goes_on = self.look(condition, |bytes| bytes.iter().any(|&byte| byte != 0))?;
        }
        for ((_, source), collected) in self.rows.iter().zip(&mut rounds.collected) {
            self.look(source, |row| collected.rows.push(row))??;
        }
        for state in &self.states {
            if let Some(source) = &state.copied {
                self.look(source, |bytes| write(&self.written[state.after], |target| target.copy_from_slice(bytes)))??;
            }
        }
        for state in &self.states {
            std::mem::swap(&mut self.read[state.before], &mut self.written[state.after]);
        }
        rounds.round += 1;
        Ok(())
    }

    /// Calls `use_bytes` with the bytes at `source`, after the graph ran.
    fn look<T>(&self, source: &Source, use_bytes: impl FnOnce(&[u8]) -> T) -> Result<T> {
        match source {
            Source::Output(at) => read(&self.written[*at], use_bytes),
            Source::Input(at) => read(&self.read[*at], use_bytes),
            Source::Constant(bytes) => Ok(use_bytes(bytes.bytes())),
        }
    }
}

/// A tensor of its own for an input of the loop's graph, with the bytes of `value`, or with any if that has none.
fn own(site: &Site, value: &Held) -> Result<Arc<Tensor>> {
    let descriptor = value.descriptor().expect("a tensor");
    let bytes = value.bytes(site)?;
    match bytes.len() == descriptor.bytes() {
        true => Ok(tensor(descriptor, Buffer::copy_of(bytes.bytes())?)),
        false => blank(descriptor),
    }
}
