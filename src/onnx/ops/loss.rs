//! Losses for classification.

use crate::dimension::Dim;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::gather::GatherElements;
use crate::ops::reduce::ReduceKind;

/// The loss for log probabilities `[N, C, ...]`, with labels `[N, ...]` and weights `[C]` as inputs 1 and 2.
fn likelihood_loss(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let (labels, weights) = (call.input(1)?, call.optional(2)?);
    let shape = call.shape(labels);
    let x_shape = call.shape(x);
    if x_shape.len() < 2 || shape[..] != [&x_shape[..1], &x_shape[2..]].concat() {
        return Err(Refusal(format!("the labels have shape {shape:?}, expected that of {x_shape:?} without classes")));
    }
    let places = call.reshape(labels, &[&shape[..1], &[Dim::ONE], &shape[1..]].concat())?;
    let picked = call.emit(GatherElements { axis: 1 }, &[x, places])?;
    let picked = call.reshape(picked, &shape)?;
    let mut loss = call.emit(E::Neg, &[picked])?;
    let mut weight = weights.map(|weights| call.gather(weights, labels, 0)).transpose()?;
    let zero = call.scalar_like(x, 0.0)?;
    if let Some(ignored) = call.int_attribute("ignore_index") {
        let ignored = call.int_scalar(call.dtype(labels), ignored)?;
        let counts = call.emit(E::NotEqual, &[labels, ignored])?;
        let one = call.scalar_like(x, 1.0)?;
        weight = Some(call.select(counts, weight.unwrap_or(one), zero)?);
        loss = call.select(counts, loss, zero)?;
    }
    if let Some(weight) = weight {
        loss = call.mul(loss, weight)?;
    }
    let axes: Vec<u32> = (0..shape.len() as u32).collect();
    match (call.text_or("reduction", "mean").as_str(), weight) {
        ("none", _) => Ok(loss),
        ("sum", _) => call.reduce(ReduceKind::Sum, loss, &axes, false),
        ("mean", None) => call.reduce(ReduceKind::Mean, loss, &axes, false),
        ("mean", Some(weight)) => {
            let sum = call.reduce(ReduceKind::Sum, loss, &axes, false)?;
            let total = call.reduce(ReduceKind::Sum, weight, &axes, false)?;
            call.div(sum, total)
        }
        (other, _) => Err(Refusal(format!("reduction is {other}"))),
    }
}

fn negative_log_likelihood_loss(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let loss = likelihood_loss(call, x);
    call.one(loss)
}

fn softmax_cross_entropy_loss(call: &mut Call) -> Outcome {
    let scores = call.input(0)?;
    if call.rank(scores) < 2 {
        return Err(Refusal(format!("the scores have rank {}, expected at least 2", call.rank(scores))));
    }
    let max = call.reduce(ReduceKind::Max, scores, &[1], true)?;
    let shifted = call.sub(scores, max)?;
    let sum = call.reduce(ReduceKind::LogSumExp, shifted, &[1], true)?;
    let log = call.sub(shifted, sum)?;
    let loss = likelihood_loss(call, log)?;
    Ok(vec![Value::Tensor(loss), Value::Tensor(log)])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("NegativeLogLikelihoodLoss", "", negative_log_likelihood_loss),
    standard("SoftmaxCrossEntropyLoss", "", softmax_cross_entropy_loss),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn ignored_labels_have_no_weight() {
        let loss = |attributes| {
            let graph = TestGraph::default().input("x", Float, &["4", "3"]).input("t", Int64, &["4"]);
            graph.node("NegativeLogLikelihoodLoss", "x t", "y", attributes).output("y").text(13)
        };
        let text = loss(vec![("ignore_index", Attr::Int(-1))]);
        assert!(text.contains("notEqual") && text.contains("= div "), "{text}");
        let text = loss(vec![]);
        assert!(text.contains("reduceMean") && !text.contains("where"), "{text}");
    }

    #[test]
    fn labels_of_another_shape_are_refused() {
        let graph = TestGraph::default().input("x", Float, &["4", "3", "2"]).input("t", Int64, &["4"]);
        let message = graph.node("NegativeLogLikelihoodLoss", "x t", "y", vec![]).output("y").refusal(13);
        assert!(message.contains("the labels have shape [4], expected that of [4, 3, 2] without classes"), "{message}");
    }
}
