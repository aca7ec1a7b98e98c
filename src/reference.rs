//! The oracle: runs a graph node by node with the naive references.

use crate::error::Result;
use crate::ir::{Epilogue, Graph, Node, ValueId};
use crate::memory::Buffer;
use crate::ops::Operator;
use crate::ops::tensor::Tensor;
use crate::shape::Descriptor;
use std::collections::HashMap;

/// The outputs of `graph`, by name, for named `inputs`.
///
/// Intermediate floating-point values stay float64; integers always have their exact type.
///
/// # Panics
/// If an input is missing or its descriptor differs: the oracle is for tests.
pub fn run(graph: &Graph, inputs: &HashMap<String, Tensor>) -> HashMap<String, Tensor> {
    let mut values: Vec<Option<Tensor>> = graph
        .values
        .iter()
        .map(|value| {
            let bytes = value.constant()?.buffer().expect("the bytes of a constant");
            Some(Tensor::from_bytes(&value.descriptor, bytes.bytes()))
        })
        .collect();
    for (name, id) in &graph.inputs {
        let input = &inputs[name];
        assert_eq!(&input.descriptor(), graph.descriptor(*id), "input {name}");
        values[id.index()] = Some(input.clone());
    }
    for node in &graph.nodes {
        let value = |id: &ValueId| values[id.index()].as_ref();
        let mut operands: Vec<Option<&Tensor>> =
            node.inputs.iter().map(|input| input.as_ref().and_then(value)).collect();
        let computed: Vec<(usize, Tensor)> = node
            .prologues
            .iter()
            .map(|prologue| {
                let others = prologue.others.iter().filter_map(value);
                let all: Vec<&Tensor> = operands[prologue.operand].into_iter().chain(others).collect();
                (prologue.operand, prologue.evaluate(&all))
            })
            .collect();
        computed.iter().for_each(|(operand, value)| operands[*operand] = Some(value));
        let outputs: Vec<_> = node.outputs.iter().map(|&id| graph.descriptor(id).clone()).collect();
        let mut results = node.op.reference(&operands, &outputs);
        if !node.epilogue.is_empty() {
            let Epilogue { program, operands } = &node.epilogue;
            let all: Vec<&Tensor> = results.iter().chain(operands.iter().filter_map(value)).collect();
            results = vec![program.evaluate(&all, &outputs[0])];
        }
        for ((id, result), expected) in node.outputs.iter().zip(results).zip(outputs) {
            assert_eq!(result.descriptor(), expected, "the reference of {}", node.op.rule().name);
            values[id.index()] = Some(result);
        }
    }
    let output = |id: usize| values[id].clone().expect("computed by a node");
    graph.outputs.iter().map(|(name, id)| (name.clone(), output(id.index()))).collect()
}

/// The bytes of the outputs of a node with constant operands. Folds constants where no backend is available.
///
/// # Errors
/// An `UnknownError` if memory runs out, an `OperationError` if a mapped constant cannot be read.
pub fn evaluate(graph: &Graph, node: &Node) -> Result<Vec<Buffer>> {
    let constant = |id: &ValueId| {
        let bytes = graph.value(*id).constant().expect("operands are constants").buffer()?;
        Ok(Tensor::from_bytes(graph.descriptor(*id), bytes.bytes()))
    };
    let operands: Vec<Tensor> = node.inputs.iter().flatten().map(constant).collect::<Result<_>>()?;
    let outputs: Vec<Descriptor> = node.outputs.iter().map(|&id| graph.descriptor(id).clone()).collect();
    let results = node.op.reference(&operands.iter().map(Some).collect::<Vec<_>>(), &outputs);
    results.iter().map(|tensor| Buffer::copy_of(&tensor.to_bytes())).collect()
}
