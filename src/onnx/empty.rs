//! Nodes that have inputs without elements, which WebNN operands cannot represent. Their outputs usually have no
//! elements either: translating the node with other sizes in place of 0 finds the outputs' sizes.

use super::call::Call;
use super::graph::{Argument, Node};
use super::import::{Importer, Place, Start, Value, with_importer};
use super::registry::Entry;
use crate::dimension::Dim;
use crate::error::Result;
use crate::ir::{Builder, OperandId};
use crate::shape::Descriptor;

/// Sizes that stand in for 0. Output sizes grow by as much from 0 to the first one as from the first to the second,
/// also with strides up to 4, or of 6, 8, 12 or 24.
pub(super) const STAND_INS: [u32; 2] = [24, 48];

/// Operators whose results are sums of products: over nothing, they are 0.
const SUMS: [&str; 6] =
    ["Einsum", "FusedMatMul", "MatMul", "MatMulInteger", "NegativeLogLikelihoodLoss", "TransposeMatMul"];

/// `value` of `other` in `builder`, with `size` in place of 0.
pub(super) fn stand_in(builder: &mut Builder, other: &Builder, value: &Value, size: u32) -> Option<Value> {
    let operand = |value: Result<OperandId>| value.ok().map(Value::Tensor);
    match value {
        Value::Tensor(id) => operand(builder.stand_in(other, *id)),
        Value::Texts(id) => operand(builder.stand_in(other, *id)).map(Value::of_texts),
        Value::Empty(Descriptor { dtype, shape }) => {
            let sizes = shape.iter().map(|&dim| if dim == 0 { Dim::from(size) } else { dim });
            operand(builder.unnamed_input(Descriptor { dtype: *dtype, shape: sizes.collect() }))
        }
        Value::Sequence(values) => {
            let values = values.iter().map(|value| stand_in(builder, other, value, size));
            Some(Value::list(values.collect::<Option<_>>()?))
        }
        other => Some(other.clone()),
    }
}

/// The descriptor for sizes of 0, given those for [`STAND_INS`].
pub(super) fn extrapolated(small: &Descriptor, large: &Descriptor) -> Option<Descriptor> {
    let sizes = small.shape.iter().zip(&large.shape).map(|(&small, &large)| match small == large {
        true => small,
        false => small + small - large,
    });
    let shape: Vec<Dim> = sizes.collect();
    let is_valid = small.rank() == large.rank() && shape.iter().all(|&size| size >= 0);
    is_valid.then_some(Descriptor { dtype: small.dtype, shape })
}

impl Importer<'_> {
    /// The outputs of `node`, one of whose inputs has no elements, if none of the outputs has elements either, or they
    /// are sums over nothing.
    pub(super) fn without_elements(
        &mut self,
        (node, entry): (Node, &Entry),
        inputs: &[Option<Value>],
        arguments: &[Argument],
        (opset, place): (i64, Place),
    ) -> Option<Vec<Value>> {
        if self.model.arena.has_graph(arguments) {
            return None;
        }
        let outputs_for = |size: u32| -> Option<Vec<Option<Descriptor>>> {
            let mut builder = Builder::like(self.builder);
            let inputs = inputs.iter().map(|input| match input {
                Some(input) => stand_in(&mut builder, self.builder, input, size).map(Some),
                None => Some(None),
            });
            let inputs = inputs.collect::<Option<Vec<_>>>()?;
            let start = Start { stop: self.stop.clone(), ..Start::default() };
            let translated = with_importer(self.model, &mut builder, 0, start, |importer| {
                let mut call = Call::new(importer, node, inputs, arguments.to_vec(), opset, place);
                let outputs = entry.apply(&mut call).ok();
                Ok(outputs.map(|outputs| outputs.iter().map(|output| importer.described(output)).collect()))
            });
            translated.ok().flatten()
        };
        let [small, large] = [outputs_for(STAND_INS[0])?, outputs_for(STAND_INS[1])?];
        let mut outputs = Vec::new();
        for (at, (small, large)) in small.iter().zip(&large).enumerate() {
            outputs.push(match (node.output(at), small, large) {
                // No node reads this output.
                (None, ..) => Value::Unknown,
                (Some(_), Some(small), Some(large)) => match extrapolated(small, large)? {
                    output if output.is_empty() => Value::Empty(output),
                    Descriptor { dtype, shape } if SUMS.contains(&node.operator().name.as_str()) => {
                        let mut call = Call::new(self, node, Vec::new(), Vec::new(), opset, place);
                        let zero = call.int_scalar(dtype, 0).ok()?;
                        Value::Tensor(call.expand(zero, &shape).ok()?)
                    }
                    _ => return None,
                },
                _ => return None,
            });
        }
        Some(outputs)
    }

    /// The descriptor of a tensor.
    pub(super) fn described(&self, value: &Value) -> Option<Descriptor> {
        match value {
            Value::Tensor(id) => Some(self.builder.descriptor(*id).clone()),
            Value::Empty(descriptor) => Some(descriptor.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dimension::numbers;
    use crate::ir::Builder;
    use crate::onnx::file::Files;
    use crate::onnx::tensor::ElementType::{Float, Int64, Uint8};
    use crate::onnx::testing::{Attr, TestGraph};
    use crate::onnx::{Model, Request, import};

    fn shape_of(graph: TestGraph) -> Vec<u32> {
        let model = Model::decode(graph.encode(17), Files::default()).unwrap();
        let imported = import(&model, &mut Builder::new(), &Request::default()).unwrap();
        numbers(&imported.outputs[0].descriptor.shape)
    }

    #[test]
    fn outputs_of_nodes_without_elements_have_their_shapes() {
        let x = |shape: &[&str]| TestGraph::default().input("x", Float, shape);
        let weights = |shape: &[i64]| vec![0.5; shape.iter().product::<i64>() as usize];
        let pads = || vec![("pads", Attr::Ints(&[1, 1, 1, 1])), ("strides", Attr::Ints(&[2, 2]))];
        let cases = [
            (x(&["0", "3"]).floats("w", &[3, 4], &weights(&[3, 4])).node("MatMul", "x w", "y", vec![]), vec![0, 4]),
            (
                x(&["2", "0", "3"]).floats("w", &[3, 4], &weights(&[12])).node("MatMul", "x w", "y", vec![]),
                vec![2, 0, 4],
            ),
            (x(&["0", "3"]).floats("w", &[3, 4], &weights(&[12])).node("Gemm", "x w", "y", vec![]), vec![0, 4]),
            (
                x(&["0", "2", "9", "9"]).floats("w", &[5, 2, 3, 3], &weights(&[90])).node("Conv", "x w", "y", pads()),
                vec![0, 5, 5, 5],
            ),
            (
                x(&["0", "4"]).node("ArgMax", "x", "y", vec![("axis", Attr::Int(1)), ("keepdims", Attr::Int(0))]),
                vec![0],
            ),
            (x(&["5", "4"]).input("i", Int64, &["0", "1"]).node("GatherND", "x i", "y", vec![]), vec![0, 4]),
            (
                x(&["5", "4"]).input("i", Int64, &["5", "0"]).node(
                    "GatherElements",
                    "x i",
                    "y",
                    vec![("axis", Attr::Int(1))],
                ),
                vec![5, 0],
            ),
            (
                x(&["0"])
                    .floats("s", &[], &[0.5])
                    .raw("z", Uint8, &[], &[3])
                    .node("QuantizeLinear", "x s z", "q", vec![])
                    .node("DequantizeLinear", "q s z", "y", vec![]),
                vec![0],
            ),
        ];
        for (graph, expected) in cases {
            assert_eq!(shape_of(graph.output("y")), expected);
        }
    }

    #[test]
    fn outputs_with_elements_are_computed_or_refused() {
        let scatter = |operator: &str, indices: &[&str], updates: &[&str]| {
            let graph = TestGraph::default().input("x", Float, &["5", "4"]).input("i", Int64, indices);
            graph.input("u", Float, updates).node(operator, "x i u", "y", vec![]).output("y")
        };
        assert!(scatter("ScatterND", &["0", "1"], &["0", "4"]).text(17).contains("output y = %"));
        assert!(scatter("ScatterElements", &["0", "4"], &["0", "4"]).text(17).contains("output y = %"));
        let graph = TestGraph::default().input("a", Float, &["3", "0"]).input("b", Float, &["0", "4"]);
        let text = graph.node("MatMul", "a b", "y", vec![]).output("y").text(17);
        assert!(text.contains("constant float32 [3, 4]"), "{text}");
        let graph = TestGraph::default().input("x", Float, &["0"]).node("DynamicQuantizeLinear", "x", "y s z", vec![]);
        assert!(graph.output("s").text(17).contains("constant float32 []"));
        let graph = TestGraph::default().input("a", Float, &["3", "0"]).input("b", Float, &["0", "4"]);
        let graph = graph.input("c", Float, &["4"]).node("Gemm", "a b c", "y", vec![("beta", Attr::Float(2.0))]);
        let text = graph.output("y").text(17);
        assert!(text.contains("expand") && text.contains("[3, 4]"), "{text}");
        let graph = TestGraph::default().input("x", Float, &["0", "3"]);
        let graph = graph.node("Einsum", "x x", "y", vec![("equation", Attr::Text("ij,ik->jk"))]);
        assert!(graph.output("y").text(17).contains("constant float32 [3, 3]"));
        // Not a sum: the largest of no elements is not 0.
        let graph = TestGraph::default().input("x", Float, &["1", "2", "0", "0"]);
        assert!(graph.node("GlobalMaxPool", "x", "y", vec![]).output("y").refusal(17).contains("without elements"));
    }
}
