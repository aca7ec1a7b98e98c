//! `ZipMap` at the end of a classifier: a map from labels to scores for each row. A graph has the scores; who returns them
//! to a caller makes the maps.

use crate::dimension::Dim;
use crate::error::amount;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::graph::NameId;
use crate::onnx::import::Value;
use crate::onnx::model::Model;
use crate::onnx::registry::{Entry, ML, Outcome, ml};

/// The attributes that hold the labels.
const LABELS: [&str; 2] = ["classlabels_strings", "classlabels_int64s"];

fn count(call: &Call) -> Step<usize> {
    let texts = call.texts_attribute(LABELS[0]).map(|labels| labels.len());
    let ints = call.ints_attribute(LABELS[1]).map(|labels| labels.len());
    let found = [texts, ints].into_iter().flatten().find(|&count| count > 0);
    found.ok_or_else(|| Refusal(format!("{} and {} are missing, expected one of them", LABELS[0], LABELS[1])))
}

/// The scores as they are.
fn zip_map(call: &mut Call) -> Outcome {
    let (labels, scores) = (count(call)?, call.required(0)?);
    let shape = call.input_shape(0)?;
    let is_vector = matches!(scores, Value::Tensor(_) | Value::Empty(_)) && matches!(shape.len(), 1 | 2);
    match shape.last() {
        Some(&width) if is_vector && width == Dim::number(labels as i64) => Ok(vec![scores]),
        _ => Err(Refusal(format!(
            "the scores have shape {shape:?}, expected one for each of {}",
            amount(labels, "label")
        ))),
    }
}

/// The labels with which `ZipMap` makes `value`, if it does.
pub fn labels_of(model: &Model, value: NameId) -> Option<Vec<String>> {
    let arena = &model.arena;
    let node = arena.node(arena.maker(value)?);
    if node.operator().domain != ML || node.operator().name != "ZipMap" {
        return None;
    }
    let arguments = arena.arguments(node, None).ok()?;
    let texts = arena.attribute(&arguments, LABELS[0]).map(|attribute| attribute.strings).unwrap_or_default();
    if !texts.is_empty() {
        return Some(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect());
    }
    Some(arena.attribute(&arguments, LABELS[1])?.ints.iter().map(i64::to_string).collect())
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[ml("ZipMap", "as an output of the model", zip_map)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::file::Files;
    use crate::onnx::import::Request;
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::{Attr, TestGraph};

    fn graph(attributes: Vec<(&'static str, Attr<'static>)>) -> TestGraph {
        let graph = TestGraph::default().input("x", Float, &["2", "3"]).node("Softmax", "x", "scores", vec![]);
        graph.node("ai.onnx.ml.ZipMap", "scores", "maps", attributes).output("maps")
    }

    fn labels(graph: TestGraph) -> Option<Vec<String>> {
        let model = Model::decode(graph.encode(17), Files::default()).unwrap();
        labels_of(&model, model.graph().output_values[0])
    }

    #[test]
    fn maps_are_scores_and_labels() {
        let texts = || vec![("classlabels_strings", Attr::Texts(&["a", "b", "c"]))];
        assert_eq!(labels(graph(texts())), Some(vec!["a".into(), "b".into(), "c".into()]));
        assert!(graph(texts()).import(17, &Request::default()).is_ok());
        let ints = vec![("classlabels_int64s", Attr::Ints(&[-1, 0, 7]))];
        assert_eq!(labels(graph(ints)), Some(vec!["-1".into(), "0".into(), "7".into()]));
        let other = TestGraph::default().input("x", Float, &["2", "3"]).node("Softmax", "x", "y", vec![]).output("y");
        assert_eq!(labels(other), None);
    }

    #[test]
    fn labels_that_do_not_fit_are_refused() {
        let message = graph(vec![("classlabels_int64s", Attr::Ints(&[1, 2]))]).refusal(17);
        assert!(message.contains("the scores have shape [2, 3], expected one for each of 2 labels"), "{message}");
        assert!(graph(vec![]).refusal(17).contains("classlabels_int64s are missing"));
    }
}
