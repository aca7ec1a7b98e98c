//! The inputs and outputs of the main graph.

use super::{Binding, Imported, Importer, Place, Request, Value};
use crate::dimension::{dims, numbers};
use crate::dtype::DataType;
use crate::error::Code;
use crate::ir::OperandId;
use crate::onnx::constants::without_double;
use crate::onnx::cuts::Cuts;
use crate::onnx::error::{ModelError, Result, quoted};
use crate::onnx::flow::{Flow, Frontier};
use crate::onnx::graph::{NameId, NameSet};
use crate::onnx::model::{Model, ValueInfo};
use crate::onnx::sizes::Sizes;
use crate::onnx::tensor::ElementType;
use crate::ops::elementwise::Elementwise;
use crate::shape::Descriptor;
use std::collections::BTreeMap;

/// The data type of an input.
pub(in crate::onnx) fn input_type(input: &ValueInfo, for_api: bool) -> Result<DataType> {
    let carried = input.element.filter(|_| !for_api || !input.is_texts()).and_then(ElementType::carried);
    carried.ok_or_else(|| {
        let (name, data_type) = (quoted(&input.name), &input.data_type);
        let message = format!("the input {name} is of type {data_type}, which WebNN does not have");
        ModelError::coded(Code::UnsupportedOperator, message)
    })
}

/// The value of an input.
fn of_type(input: &ValueInfo, value: Value) -> Value {
    if input.is_texts() { value.of_texts() } else { value }
}

impl Request {
    /// The requested values.
    ///
    /// # Errors
    /// If there is no value with a requested name.
    pub fn wanted(&self, model: &Model) -> Result<Vec<NameId>> {
        let Some(names) = &self.outputs else { return Ok(model.graph().output_values.clone()) };
        let found = model.arena.find(model.main, names).into_iter().zip(names);
        let known = |(value, name): (Option<NameId>, &String)| {
            let message = || format!("the output {} is not a value of the model", quoted(name));
            value.ok_or_else(|| ModelError::coded(Code::UnknownOutput, message()))
        };
        found.map(known).collect()
    }
}

impl Importer<'_> {
    pub(super) fn main_graph(&mut self, request: &Request, flow: &Flow, wanted: &[NameId]) -> Result<Imported> {
        self.unrolls_all |= request.unrolls_all;
        let needed = flow.values().iter().chain(wanted).copied().collect();
        let inputs = self.inputs(request, &needed)?;
        let mut frontier = Frontier::of(flow);
        let place = Place { arguments: None, depth: 0 };
        self.flow(flow, &mut frontier, place)?;
        self.refuse_unknown(flow, &frontier);
        std::mem::take(&mut self.refused).none()?;
        let undecided = std::mem::take(&mut self.undecided);
        if self.cuts.as_ref().is_none_or(Cuts::is_empty) && !self.leaves_items(request, wanted)? {
            let outputs = wanted.iter().map(|&value| self.output(value, request.for_api)).collect::<Result<_>>()?;
            return Ok(Imported { inputs, outputs, rest: None, undecided });
        }
        let given: NameSet = self.model.required_inputs().map(|(_, value)| value).collect();
        let (outputs, rest) = self.kept(flow, frontier, wanted, &|value| given.contains(&value))?;
        Ok(Imported { inputs, outputs, rest: Some(rest), undecided })
    }

    /// Whether a session returns wanted values that are no tensors.
    fn leaves_items(&mut self, request: &Request, wanted: &[NameId]) -> Result<bool> {
        if request.for_api || self.cuts.is_none() {
            return Ok(false);
        }
        let is_item = |&id: &NameId| Ok(matches!(self.value(id)?, Some(Value::Sequence(_) | Value::Absent)));
        wanted.iter().map(is_item).try_fold(false, |any, item| Ok(any | item?))
    }

    /// Defines the inputs, including unneeded ones, whose bindings are checked as well.
    fn inputs(&mut self, request: &Request, needed: &NameSet) -> Result<Vec<Binding>> {
        let model = self.model;
        let known = |name: &String| model.free_inputs().any(|input| &input.name == name);
        if let Some(name) = request.shapes.keys().chain(request.bindings.keys()).find(|name| !known(name)) {
            return Err(ModelError::coded(Code::UnknownFeed, format!("the model has no input {}", quoted(name))));
        }
        let bound: BTreeMap<&str, (DataType, Vec<u32>)> = request
            .bindings
            .iter()
            .map(|(name, id)| {
                let Descriptor { dtype, shape } = self.builder.descriptor(*id);
                (name.as_str(), (*dtype, numbers(shape)))
            })
            .collect();
        let given = |name: &str| request.shapes.get(name).or_else(|| bound.get(name).map(|(_, shape)| shape));
        let mut sizes = Sizes::new(request.free_dimensions.clone()).strict(request.strict_dimensions);
        for input in model.free_inputs() {
            given(&input.name).map_or(Ok(()), |shape| sizes.bind(input, shape))?;
        }
        let (mut bindings, is_narrow) = (Vec::new(), request.for_api || !self.has_doubles);
        for (input, value) in model.required_inputs() {
            let is_needed = needed.contains(&value);
            if let (true, Some(_), Some(cuts)) = (!request.for_api, input.items, &mut self.cuts) {
                cuts.wait_for(value);
                continue;
            }
            let dtype = match input_type(input, request.for_api) {
                Err(_) if !is_needed => continue,
                Ok(dtype) if is_narrow => without_double(dtype),
                dtype => dtype?,
            };
            if let Some(id) = request.bindings.get(&input.name) {
                let got = bound[input.name.as_str()].0;
                // A constant of a session is a double where the model says so.
                if got != dtype && Some(got) != input.element.and_then(ElementType::carried) {
                    let name = quoted(&input.name);
                    let message = format!("the binding of {name} is of type {got}, expected {dtype}");
                    return Err(ModelError::coded(Code::Type, message));
                }
                let id = self.widened_input(input, *id)?;
                self.values.insert(value, of_type(input, Value::Tensor(id)));
                continue;
            }
            let shape = match given(&input.name).map_or_else(|| sizes.shape(input), |shape| Ok(shape.clone())) {
                Err(_) if !is_needed => continue,
                shape => shape?,
            };
            let shape = request.dims.get(&input.name).cloned().unwrap_or_else(|| dims(&shape));
            bindings.push(self.input((input, value), Descriptor { dtype, shape }, is_needed)?);
        }
        Ok(bindings)
    }

    fn input(
        &mut self,
        (input, value): (&ValueInfo, NameId),
        descriptor: Descriptor,
        is_needed: bool,
    ) -> Result<Binding> {
        let name = input.name.clone();
        if descriptor.is_empty() {
            let dtype = input.element.and_then(|element| self.computed_type(element)).unwrap_or(descriptor.dtype);
            self.values.insert(value, Value::Empty(Descriptor { dtype, ..descriptor.clone() }));
            return Ok(Binding { name, descriptor, operand: None });
        }
        if !is_needed {
            return Ok(Binding { name, descriptor, operand: None });
        }
        let id = self
            .builder
            .input(&name, descriptor.clone())
            .map_err(|error| ModelError::coded(Code::UnsupportedOperator, error.message))?;
        let own = self.widened_input(input, id)?;
        self.values.insert(value, of_type(input, Value::Tensor(own)));
        Ok(Binding { name, descriptor, operand: Some(id) })
    }

    /// The operand of an input as the model computes with it: in float64 if it is a double that the API passes as float32.
    fn widened_input(&mut self, input: &ValueInfo, id: OperandId) -> Result<OperandId> {
        let is_double = input.element.and_then(|element| self.computed_type(element)) == Some(DataType::Float64);
        match is_double && self.builder.descriptor(id).dtype == DataType::Float32 {
            true => self.cast(id, DataType::Float64, &input.name),
            false => Ok(id),
        }
    }

    fn cast(&mut self, id: OperandId, to: DataType, label: &str) -> Result<OperandId> {
        let cast = self.builder.add(Elementwise::Cast { to }, vec![Some(id)], label);
        Ok(cast.map_err(|error| ModelError::coded(Code::UnsupportedOperator, error.message))?[0])
    }

    fn output(&mut self, value: NameId, for_api: bool) -> Result<Binding> {
        let (model, name) = (self.model, self.model.arena.name(value));
        let fail =
            |why: String| ModelError::coded(Code::UnsupportedOperator, format!("the output {} {why}", quoted(name)));
        let declared = model.graph().output_of(value);
        if let Some(element) = declared.and_then(|output| output.element).filter(|element| element.carried().is_none())
        {
            return Err(fail(format!("is of type {element}, which WebNN does not have")));
        }
        let value = self.value(value)?.map(|value| self.computed(value)).transpose()?;
        let is_texts = matches!(value, Some(Value::Texts(_)));
        if is_texts && for_api {
            return Err(fail("is a tensor of texts, which WebNN does not have".to_string()));
        }
        if let Some(Value::Tensor(_) | Value::Texts(_)) = value {
            let undeclared = ValueInfo::unknown(name);
            declared.unwrap_or(&undeclared).check_texts(is_texts).map_err(&fail)?;
        }
        let (descriptor, operand) = match value {
            Some(Value::Tensor(id) | Value::Texts(id)) => {
                // What operators without float64 return is still of the declared type.
                let dtype = self.builder.descriptor(id).dtype;
                let to = match declared.and_then(|output| output.element) {
                    Some(ElementType::Double) if self.has_doubles && !for_api => DataType::Float64,
                    Some(ElementType::Float) => DataType::Float32,
                    _ if for_api => without_double(dtype),
                    _ => dtype,
                };
                let id = match (dtype, to) {
                    (DataType::Float32, DataType::Float64) | (DataType::Float64, DataType::Float32) => {
                        self.cast(id, to, name)?
                    }
                    _ => id,
                };
                // An output must be computed by a node.
                let id = match self.builder.is_computed(id) {
                    true => id,
                    false => self
                        .builder
                        .add(Elementwise::Identity, vec![Some(id)], name)
                        .map_err(|error| fail(error.message))?[0],
                };
                (self.builder.descriptor(id).clone(), Some(id))
            }
            Some(Value::Empty(descriptor)) => (descriptor, None),
            Some(Value::Literal(literal)) => {
                return Err(fail(format!("is of type {}, which WebNN does not have", literal.element)));
            }
            Some(Value::Sequence(_)) => return Err(fail("is a sequence, which WebNN does not have".to_string())),
            Some(Value::Absent) => return Err(fail("is an optional without an element".to_string())),
            Some(Value::Unknown) | None => return Err(fail("is not computed".to_string())),
        };
        if !descriptor.is_empty() {
            descriptor.check("output").map_err(|problem| fail(format!("cannot leave the model: {problem}")))?;
        }
        Ok(Binding { name: name.to_string(), descriptor, operand })
    }
}
