//! `NonMaxSuppression`: the number of kept boxes depends on their values, so it is evaluated during translation.

use crate::dtype::DataType;
use crate::memory::{Buffer, elements as views};
use crate::onnx::call::{Call, Step};
use crate::onnx::error::{Cut, Refusal};
use crate::onnx::registry::{Entry, Outcome, standard};
use std::sync::Arc;

/// A box as its lower and upper corners.
#[derive(Clone, Copy)]
struct Rectangle([[f32; 2]; 2]);

impl Rectangle {
    /// From two corners in any order, or from a center and a size.
    fn new(numbers: &[f32], is_center: bool) -> Rectangle {
        let &[a, b, c, d] = numbers else { unreachable!("four numbers") };
        match is_center {
            true => Rectangle([[a - c / 2.0, b - d / 2.0], [a + c / 2.0, b + d / 2.0]]),
            false => Rectangle([[a.min(c), b.min(d)], [a.max(c), b.max(d)]]),
        }
    }

    fn area(self) -> f32 {
        let Rectangle([low, high]) = self;
        (high[0] - low[0]) * (high[1] - low[1])
    }

    /// Whether the intersection exceeds the fraction `threshold` of the union.
    fn overlaps(self, other: Rectangle, threshold: f32) -> bool {
        let (Rectangle([low, high]), Rectangle([other_low, other_high])) = (self, other);
        let side = |at: usize| (high[at].min(other_high[at]) - low[at].max(other_low[at])).max(0.0);
        let (common, areas) = (side(0) * side(1), [self.area(), other.area()]);
        let all = areas[0] + areas[1] - common;
        areas[0] > 0.0 && areas[1] > 0.0 && all > 0.0 && common / all > threshold
    }
}

/// The first number of the constant at `index`, if present.
fn optional_number(call: &Call, index: usize, what: &str) -> Step<Option<f64>> {
    Ok(call.optional_floats(index, what)?.and_then(|numbers| numbers.first().copied()))
}

/// The bytes of the constant at `index`, float32 numbers.
fn floats(call: &mut Call, index: usize, count: usize) -> Step<Arc<Buffer>> {
    call.take_work(count)?;
    match call.constant_elements(index)? {
        Some((DataType::Float32, bytes)) => Ok(bytes),
        Some((other, _)) => Err(Refusal(format!("input {index} is of type {other}, expected float32"))),
        None => Err(Refusal(format!(
            "input {index} is computed from inputs of the model: the number of kept boxes is unknown"
        ))
        .unless(Cut::Elements)),
    }
}

/// Memory of a run, in bytes per score and per box: the scores' order with its scratch space, and the corners.
const BYTES_PER_BOX: usize = 2 * size_of::<usize>() + size_of::<Rectangle>();

/// Batch, class and index of each kept box: the boxes with the highest scores first, without those that overlap an
/// already kept one.
fn non_max_suppression(call: &mut Call) -> Outcome {
    let (boxes, scores) = (call.input_sizes(0)?, call.input_sizes(1)?);
    let (&[batches, count, 4], &[score_batches, classes, score_count]) = (&boxes[..], &scores[..]) else {
        return Err(Refusal(format!(
            "boxes {boxes:?} and scores {scores:?}, expected [n, boxes, 4], [n, classes, boxes]"
        )));
    };
    if (batches, count) != (score_batches, score_count) {
        return Err(Refusal(format!("boxes {boxes:?} do not match scores {scores:?}")));
    }
    let most = optional_number(call, 2, "max_output_boxes_per_class")?.unwrap_or(0.0).max(0.0) as usize;
    let elements = batches as u64 * classes as u64 * count as u64;
    if most == 0 || elements == 0 {
        return Ok(vec![call.int_list(&[0, 3], &[])?]);
    }
    let threshold = optional_number(call, 3, "iou_threshold")?.unwrap_or(0.0) as f32;
    let least = optional_number(call, 4, "score_threshold")?.map(|least| least as f32);
    let is_center = call.int_or("center_point_box", 0) != 0;
    let corners = floats(call, 0, 4 * batches as usize * count as usize)?;
    let scores = floats(call, 1, elements as usize)?;
    let (corners, scores) = (views::<f32>(corners.bytes()), views::<f32>(scores.bytes()));
    call.take_room(batches as usize * count as usize * BYTES_PER_BOX)?;
    let rectangles: Vec<_> = corners.chunks_exact(4).map(|corners| Rectangle::new(corners, is_center)).collect();
    let mut kept = Vec::new();
    for (line, scores) in scores.chunks_exact(count as usize).enumerate() {
        let (batch, class) = (line / classes as usize, line % classes as usize);
        let rectangles = &rectangles[batch * count as usize..][..count as usize];
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.retain(|&at| least.is_none_or(|least| scores[at] > least));
        // The sort is stable: the first of equal scores wins.
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let mut found: Vec<usize> = Vec::new();
        for at in order {
            if found.len() == most {
                break;
            }
            call.take_work(1 + found.len())?;
            if !found.iter().any(|&other| rectangles[at].overlaps(rectangles[other], threshold)) {
                found.push(at);
                call.take_room(3 * size_of::<i64>())?;
                kept.extend([batch as i64, class as i64, at as i64]);
            }
        }
    }
    Ok(vec![call.int_list(&[(kept.len() / 3) as u32, 3], &kept)?])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[standard("NonMaxSuppression", "constant inputs", non_max_suppression)];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::{Attr, TestGraph};

    const BOXES: [f32; 16] = [0., 0., 1., 1., 0., 0.1, 1., 1.1, 1., 11., 0., 10., 0., 10.1, 1., 11.1];

    fn graph(most: i64, threshold: f32) -> TestGraph {
        let graph = TestGraph::default().floats("boxes", &[1, 4, 4], &BOXES);
        let graph = graph.floats("scores", &[1, 1, 4], &[0.9, 0.75, 0.6, 0.95]);
        graph.ints("most", &[most]).floats("iou", &[1], &[threshold])
    }

    fn kept(most: i64, threshold: f32, center: i64) -> Vec<i64> {
        let attributes = vec![("center_point_box", Attr::Int(center))];
        let graph = graph(most, threshold).node("NonMaxSuppression", "boxes scores most iou", "y", attributes);
        let graph = graph.output("y").import(11, &Default::default()).unwrap();
        let rows = crate::reference::run(&graph, &Default::default()).remove("y").unwrap().to_bytes();
        rows.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn boxes_that_overlap_better_ones_are_dropped() {
        assert_eq!(kept(10, 0.5, 0), [0, 0, 3, 0, 0, 0]);
        assert_eq!(kept(1, 0.5, 0), [0, 0, 3]);
        assert_eq!(kept(10, 1.0, 0), [0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0, 2]);
    }

    #[test]
    fn computed_boxes_are_refused() {
        let inputs = || graph(10, 0.5).input("b", Float, &["1", "4", "4"]).input("s", Float, &["1", "1", "4"]);
        let message = inputs().node("NonMaxSuppression", "b scores most", "y", vec![]).output("y").refusal(11);
        assert!(message.contains("input 0 is computed from inputs of the model: the number of kept"), "{message}");
        let message = inputs().node("NonMaxSuppression", "boxes s most", "y", vec![]).output("y").refusal(11);
        assert!(message.contains("input 1 is computed"), "{message}");
        // No boxes are requested.
        let none = inputs().node("NonMaxSuppression", "b s", "y", vec![]).node("Shape", "y", "z", vec![]).output("z");
        assert!(none.text(13).contains("constant int64 [2]"));
    }
}
