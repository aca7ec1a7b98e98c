//! Values and nodes.

use super::{Binding, Importer, Part, Place, Value, refused};
use crate::error::amount;
use crate::onnx::absent::why_not;
use crate::onnx::budget::{Budget, MEMORY_PER_BYTE, work};
use crate::onnx::call::Call;
use crate::onnx::cuts::{Left, Rest};
use crate::onnx::decode::MAX_DEPTH;
use crate::onnx::error::{Cut, ModelError, Refusal, Result, quoted};
use crate::onnx::flow::{Flow, Frontier};
use crate::onnx::graph::{Argument, ByName, FunctionId, NameId, Node, NodeId, Operator};
use crate::onnx::registry::Entry;
use crate::onnx::text_call::{as_numbers, as_texts};
use std::mem::{replace, take};

impl Importer<'_> {
    /// Translates the nodes of `part`. Returns the kept values.
    pub(super) fn part(&mut self, part: &Part) -> Result<(Vec<Binding>, Rest)> {
        let mut frontier = Frontier::new(part.flow, part.waits, part.starts.iter().copied());
        self.flow(part.flow, &mut frontier, part.place)?;
        take(&mut self.refused).none()?;
        self.kept(part.flow, frontier, part.wanted, &|_| false)
    }

    /// A value; initializers become constants when they are first used.
    pub fn value(&mut self, id: NameId) -> Result<Option<Value>> {
        if let Some(value) = self.values.get(&id) {
            return Ok(Some(value.clone()));
        }
        let value = match &mut self.source {
            Some(source) => source.value(self.builder, id)?,
            None => None,
        };
        let value = match value {
            Some(value) => Some(value),
            None => self.initializer(id)?,
        };
        if let Some(value) = &value {
            self.values.insert(id, value.clone());
        }
        Ok(value)
    }

    fn initializer(&mut self, id: NameId) -> Result<Option<Value>> {
        let model = self.model;
        let Some(record) = model.arena.initializer(id) else { return Ok(None) };
        // All elements of a sparse tensor take memory, which must suffice before they are made.
        let without = match record.is_sparse() {
            true => Some(self.memory.checked_sub(record.byte_length()).ok_or_else(|| record.too_sparse())?),
            false => None,
        };
        let literal = record.load(&model.files)?;
        // The elements of a sparse tensor are not in a file, even if the values among them are.
        if record.is_external && !record.is_sparse() {
            self.memory = self.memory.saturating_add(literal.bytes.len().saturating_mul(MEMORY_PER_BYTE));
        }
        let name = model.arena.name(id);
        let named = |error: ModelError| ModelError { message: format!("tensor {}: {error}", quoted(name)), ..error };
        let value = self.literal(literal).map_err(named)?;
        // A literal of a type that WebNN has took it already.
        self.memory = without.map_or(self.memory, |without| self.memory.min(without));
        Ok(Some(value))
    }

    /// What remains to be used.
    pub(in crate::onnx) fn budget(&self) -> Budget {
        Budget { work: self.work, memory: self.memory, foldable: self.foldable.get() }
    }

    /// Deducts the work for a node of this number of bytes, unless the import should end.
    pub(in crate::onnx) fn count_node(&mut self, bytes: usize) -> Result<()> {
        self.stop.check()?;
        self.work = self.work.checked_sub(work(bytes)).ok_or_else(|| {
            ModelError::new("the model expands to too many nodes, including functions and the rounds of loops")
        })?;
        Ok(())
    }

    /// Translates the nodes of the imported graph itself, which can be cut, as far as possible.
    pub(super) fn flow(&mut self, flow: &Flow, frontier: &mut Frontier, place: Place) -> Result<()> {
        while let Some(at) = frontier.take() {
            let node = flow.node(&self.model.arena, at);
            self.count_node(node.size())?;
            let outputs = match self.waits(node) {
                true => Err(Refusal::from("it needs a value computed after a cut").unless(Cut::Waiting)),
                false => self.node(node, place)?,
            };
            let outputs = match self.inner_cut() {
                Some(inner) => Err(inner),
                None => outputs,
            };
            self.note(&outputs);
            match (outputs, &mut self.cuts) {
                (Err(refusal @ Refusal { cut: Some(cut), .. }), Some(cuts)) => {
                    cuts.add(Left { place: at, cut, why: refused(node, &refusal) });
                    continue;
                }
                (Ok(outputs), _) => self.define(node, outputs),
                (Err(refusal), _) => {
                    self.refuse(node, &refusal);
                    self.define(node, Vec::new());
                }
            }
            frontier.finish(at);
        }
        Ok(())
    }

    /// Translates the nodes of an inner graph or a function. A cut inside of it is one at the node that contains it.
    pub(in crate::onnx) fn nodes(&mut self, nodes: &[NodeId], place: Place) -> Result<()> {
        for &id in nodes {
            let node = self.model.arena.node(id);
            self.count_node(node.size())?;
            let outputs = self.node(node, place)?;
            self.note(&outputs);
            let outputs = match (outputs, &mut self.cuts) {
                (Ok(outputs), _) => outputs,
                (Err(refusal), Some(cuts)) if refusal.cut.is_some() => {
                    cuts.add_inner(refusal);
                    Vec::new()
                }
                (Err(refusal), _) => {
                    self.refuse(node, &refusal);
                    Vec::new()
                }
            };
            self.define(node, outputs);
        }
        Ok(())
    }

    /// Notes the operand that a refused node lacks.
    fn note(&mut self, outputs: &Result<Vec<Value>, Refusal>) {
        self.undecided.extend(outputs.as_ref().err().and_then(|refusal| refusal.cut.and(refusal.lacks)));
    }

    /// Defines the outputs of a node; those beyond `outputs` are unknown.
    fn define(&mut self, node: Node, outputs: Vec<Value>) {
        let outputs = outputs.into_iter().chain(std::iter::repeat(Value::Unknown));
        for (&id, value) in node.outputs().iter().zip(outputs) {
            id.map(|id| self.values.insert(id, value));
        }
    }

    /// The outputs of a node, or the reason for its refusal.
    fn node(&mut self, node: Node, place: Place) -> Result<Result<Vec<Value>, Refusal>> {
        let operator = node.operator();
        if operator.function.is_none() && operator.entry.is_none() {
            return Ok(Err(why_not(&operator.domain, &operator.name).into()));
        }
        // Casts need the exact value, and the bits.
        let is_exact = matches!(operator.name.as_str(), "Cast" | "BitCast");
        let mut inputs = Vec::with_capacity(node.inputs().len());
        for id in node.inputs() {
            let value = id.map_or(Ok(None), |id| self.value(id))?;
            let value = if is_exact { value } else { value.map(|value| self.computed(value)).transpose()? };
            inputs.push(value.filter(|value| !matches!(value, Value::Absent)));
        }
        if inputs.iter().any(|input| matches!(input, Some(Value::Unknown))) {
            return Ok(Ok(Vec::new()));
        }
        let arguments = self.model.arena.arguments(node, place.arguments)?;
        let outputs = match (operator.function, operator.entry) {
            (Some(function), _) => Ok(self.call_function(function, inputs, arguments, place.depth)?),
            (None, Some(entry)) => {
                opset_of(operator).and_then(|opset| self.call_entry(node, entry, inputs, arguments, (opset, place)))
            }
            (None, None) => unreachable!("refused above"),
        };
        if outputs.is_err() {
            // A translation that was ended says so as any other that fails.
            self.stop.check()?;
        }
        Ok(outputs.and_then(|outputs| check_outputs(node, outputs)))
    }

    fn call_entry(
        &mut self,
        node: Node,
        entry: &Entry,
        inputs: Vec<Option<Value>>,
        arguments: Vec<Argument>,
        (opset, place): (i64, Place),
    ) -> Result<Vec<Value>, Refusal> {
        let (inputs, moves_texts) = as_numbers(node.operator(), inputs)?;
        let outputs = self.translated((node, entry), inputs, arguments, (opset, place))?;
        Ok(if moves_texts { as_texts(outputs) } else { outputs })
    }

    fn translated(
        &mut self,
        (node, entry): (Node, &Entry),
        inputs: Vec<Option<Value>>,
        arguments: Vec<Argument>,
        (opset, place): (i64, Place),
    ) -> Result<Vec<Value>, Refusal> {
        if !inputs.iter().any(|input| matches!(input, Some(Value::Empty(_)))) {
            return entry.apply(&mut Call::new(self, node, inputs, arguments, opset, place));
        }
        let outputs = entry.apply(&mut Call::new(self, node, inputs.clone(), arguments.clone(), opset, place));
        outputs
            .or_else(|refusal| self.without_elements((node, entry), &inputs, &arguments, (opset, place)).ok_or(refusal))
    }

    fn call_function(
        &mut self,
        function: FunctionId,
        inputs: Vec<Option<Value>>,
        arguments: Vec<Argument>,
        depth: usize,
    ) -> Result<Vec<Value>> {
        if depth >= MAX_DEPTH {
            return Err(ModelError::new(format!("functions are nested more than {MAX_DEPTH} deep")));
        }
        let model = self.model;
        let function = model.function(function);
        let graph = model.arena.graph(function.graph);
        let arguments = model.arena.with_defaults(arguments, &function.defaults);
        // Inputs that a call omits, in between or at the end, are absent; a node that needs one is refused.
        let given = inputs.into_iter().map(|input| input.unwrap_or(Value::Absent));
        let own: ByName<Value> =
            graph.input_values.iter().copied().zip(given.chain(std::iter::repeat(Value::Absent))).collect();
        let outer = replace(&mut self.values, own);
        let place = Place { arguments: Some(&arguments), depth: depth + 1 };
        let ran = self.nodes(&graph.nodes, place).and_then(|()| self.results(&graph.output_values));
        self.values = outer;
        ran
    }

    pub(in crate::onnx) fn results(&mut self, values: &[NameId]) -> Result<Vec<Value>> {
        let result = |&id: &NameId| {
            let value = self.value(id)?;
            value.ok_or_else(|| {
                ModelError::new(format!("nothing computes the output {}", quoted(self.model.arena.name(id))))
            })
        };
        values.iter().map(result).collect()
    }
}

/// The operator set version that applies to a node. Extensions have a single version.
fn opset_of(operator: &Operator) -> Result<i64, Refusal> {
    match operator.opset {
        Some(version) => Ok(version),
        None if operator.domain.is_empty() => Err("the model does not state its version of ai.onnx".into()),
        None => Ok(1),
    }
}

/// Rejects a result with fewer outputs than `node` names.
fn check_outputs(node: Node, outputs: Vec<Value>) -> Result<Vec<Value>, Refusal> {
    if outputs.len() >= node.named_outputs() {
        return Ok(outputs);
    }
    let (count, all) = (outputs.len(), node.outputs().len());
    Err(Refusal(format!("only the first {count} of its {} can be computed", amount(all, "output"))))
}
