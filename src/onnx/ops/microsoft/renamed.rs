//! Operators of the standard in the forms that older exporters wrote, before the standard had them.

use crate::onnx::call::Call;
use crate::onnx::ops::arrange::trilu;
use crate::onnx::ops::convolution::conv_transpose_with_pads;
use crate::onnx::ops::gather::gather_nd;
use crate::onnx::ops::generate::{distinct, range};
use crate::onnx::ops::movement::pad;
use crate::onnx::ops::sampling::grid_sample;
use crate::onnx::ops::shape::unsqueeze;
use crate::onnx::registry::{Entry, Outcome, microsoft};

/// The first operator set in which sizes of paddings are inputs, and so are axes to insert.
const WITH_INPUTS: i64 = 13;

fn padded(call: &mut Call) -> Outcome {
    call.opset = WITH_INPUTS;
    pad(call)
}

fn expand_dims(call: &mut Call) -> Outcome {
    call.opset = WITH_INPUTS;
    call.one_int(1, "axis")?;
    unsqueeze(call)
}

/// The step is 1 unless it is given.
fn stepped_range(call: &mut Call) -> Outcome {
    if call.value(2).is_none()
        && let Some(dtype) = call.input_type(0)
    {
        let one = call.int_scalar(dtype, 1)?;
        call.replace(2, one);
    }
    range(call)
}

/// Elements in the order of their first occurrence; where that is, is no output.
fn unique(call: &mut Call) -> Outcome {
    let mut outputs = distinct(call, false)?;
    outputs.remove(1);
    Ok(outputs)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    microsoft("ConvTransposeWithDynamicPads", "constant pads", conv_transpose_with_pads),
    microsoft("ExpandDims", "constant axes", expand_dims),
    microsoft("GatherND", "indices out of bounds are clamped", gather_nd),
    microsoft("GridSample", "", grid_sample),
    microsoft("Pad", "constant pads and values", padded),
    microsoft("Range", "constant limits, at most 1048576 elements", stepped_range),
    microsoft("Trilu", "constant diagonals", trilu),
    microsoft("Unique", "constant inputs", unique),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn inputs_of_later_operator_sets_are_read() {
        let graph = || TestGraph::default().input("x", Float, &["2", "3"]);
        let padded = graph().ints("p", &[0, 1, 2, 0]).node("com.microsoft.Pad", "x p", "y", vec![]).output("y");
        assert_eq!(padded.output_shape(12), [4, 4]);
        let axis = |axis: i32| {
            let graph = graph().raw("a", Int32, &[], &axis.to_le_bytes());
            graph.node("com.microsoft.ExpandDims", "x a", "y", vec![]).output("y")
        };
        assert_eq!(axis(-1).output_shape(12), [2, 3, 1]);
        let message = axis(3).refusal(12);
        assert!(message.contains("axis is 3") || message.contains("axis 3"), "{message}");
    }

    #[test]
    fn pads_of_a_convolution_are_an_input() {
        let graph = |pads: &[i64]| {
            let graph = TestGraph::default().input("x", Float, &["1", "2", "4", "5"]).ints("p", pads);
            let graph = graph.input("w", Float, &["2", "3", "3", "3"]);
            let strides = vec![("strides", Attr::Ints(&[2, 2]))];
            graph.node("com.microsoft.ConvTransposeWithDynamicPads", "x w p", "y", strides).output("y")
        };
        assert_eq!(graph(&[1, 0, 1, 2]).output_shape(12), [1, 3, 7, 9]);
        for pads in [&[-1, 0, 0, 0][..], &[1, 1, 1]] {
            assert!(graph(pads).refusal(12).contains("expected 4 numbers that are not negative"));
        }
    }

    #[test]
    fn ranges_have_steps_of_1() {
        let graph = TestGraph::default().ints("start", &[2]).ints("limit", &[7]);
        let text = graph.node("com.microsoft.Range", "start limit", "y", vec![]).output_of("y", Int64).text(12);
        assert!(text.contains("constant int64 [5]"), "{text}");
    }

    #[test]
    fn distinct_elements_keep_their_order() {
        let graph = TestGraph::default().floats("x", &[6], &[2.0, 1.0, 1.0, 3.0, 4.0, 3.0]);
        let graph = graph.node("com.microsoft.Unique", "x", "y which count", vec![]);
        let graph = graph.output("y").output_of("which", Int64).output_of("count", Int64);
        let graph = graph.import(12, &Default::default()).unwrap();
        let results = crate::reference::run(&graph, &Default::default());
        let numbers = |name: &str| results[name].numbers().map(|number| number.to_f64()).collect::<Vec<f64>>();
        assert_eq!(numbers("y"), [2.0, 1.0, 3.0, 4.0]);
        assert_eq!(numbers("which"), [0.0, 1.0, 1.0, 2.0, 3.0, 2.0]);
        assert_eq!(numbers("count"), [1.0, 2.0, 2.0, 1.0]);
    }
}
