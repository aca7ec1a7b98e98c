//! `NonMaxSuppression`: the number of kept boxes depends on their values, so it is evaluated during translation.

use crate::dtype::DataType;
use crate::memory::{Buffer, elements as views};
use crate::onnx::call::{Call, Step};
use crate::onnx::error::{Cut, Refusal};
use crate::onnx::registry::{Entry, Outcome, standard};
use std::sync::Arc;

/// Kept boxes to compare with at a time.
const BLOCK: usize = 16;

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
}

/// [`BLOCK`] boxes: their corners and areas. Places without a box have empty ones, which overlap nothing.
#[derive(Clone, Copy, Default)]
struct Block {
    low: [[f32; BLOCK]; 2],
    high: [[f32; BLOCK]; 2],
    area: [f32; BLOCK],
}

impl Block {
    /// Whether the intersection of `one` and any of these exceeds the fraction `threshold` of their union.
    fn overlaps(&self, one: Rectangle, area: f32, threshold: f32) -> bool {
        let Rectangle([low, high]) = one;
        let mut any = false;
        for at in 0..BLOCK {
            let side = |d: usize| (high[d].min(self.high[d][at]) - low[d].max(self.low[d][at])).max(0.0);
            let common = side(0) * side(1);
            let all = area + self.area[at] - common;
            any |= (self.area[at] > 0.0) & (all > 0.0) & (common / all > threshold);
        }
        any && area > 0.0
    }
}

/// The boxes that a class keeps.
#[derive(Default)]
struct Kept {
    blocks: Vec<Block>,
    count: usize,
}

impl Kept {
    /// Keeps `one`, unless it overlaps another one. Returns whether it does.
    fn keep(&mut self, one: Rectangle, threshold: f32) -> bool {
        let area = one.area();
        if self.blocks.iter().any(|block| block.overlaps(one, area, threshold)) {
            return false;
        }
        let at = self.count % BLOCK;
        if at == 0 {
            self.blocks.push(Block::default());
        }
        let block = self.blocks.last_mut().expect("a block was added");
        let Rectangle([low, high]) = one;
        for d in 0..2 {
            (block.low[d][at], block.high[d][at]) = (low[d], high[d]);
        }
        block.area[at] = area;
        self.count += 1;
        true
    }
}

/// A score and the place of its box: the greater, the better; of equal scores, the first one is better.
fn entry(score: f32, at: usize) -> u64 {
    // The sum of the two zeros is the positive one.
    let bits = (score + 0.0).to_bits();
    let rank = bits ^ (((bits as i32 >> 31) as u32) | 1 << 31);
    u64::from(rank) << 32 | u64::from(!(at as u32))
}

/// The place in an [`entry`].
fn place(entry: u64) -> usize {
    !(entry as u32) as usize
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

/// The best entries to sort first, for each box that is wanted.
const TRIED: usize = 2;

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
    let count = count as usize;
    call.take_room(count * size_of::<u64>())?;
    let mut candidates = vec![0; count];
    let mut chosen = Vec::new();
    for (line, scores) in scores.chunks_exact(count).enumerate() {
        let (batch, class) = (line / classes as usize, line % classes as usize);
        let corners = &corners[4 * batch * count..][..4 * count];
        let mut found = 0;
        for (at, &score) in scores.iter().enumerate() {
            // The next one overwrites a score that is too low.
            candidates[found] = entry(score, at);
            found += usize::from(least.is_none_or(|least| score > least));
        }
        let (mut rest, mut kept) = (&mut candidates[..found], Kept::default());
        let mut next = most.saturating_mul(TRIED).max(BLOCK);
        while !rest.is_empty() && kept.count < most {
            // Sorts no more of them than are likely to be needed.
            let first = next.min(rest.len());
            if first < rest.len() {
                rest.select_nth_unstable_by(first - 1, |a, b| b.cmp(a));
            }
            let (best, others) = std::mem::take(&mut rest).split_at_mut(first);
            best.sort_unstable_by(|a, b| b.cmp(a));
            for at in best.iter().map(|&entry| place(entry)) {
                if kept.count == most {
                    break;
                }
                call.take_work(1 + kept.count)?;
                if kept.keep(Rectangle::new(&corners[4 * at..][..4], is_center), threshold) {
                    call.take_room(size_of::<Block>() / BLOCK + 3 * size_of::<i64>())?;
                    chosen.extend([batch as i64, class as i64, at as i64]);
                }
            }
            (rest, next) = (others, next.saturating_mul(2));
        }
    }
    Ok(vec![call.int_list(&[(chosen.len() / 3) as u32, 3], &chosen)?])
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
    fn of_equal_scores_the_first_box_wins() {
        // Boxes apart from each other, in more than one block and more than are sorted at first.
        let boxes: Vec<f32> = (0..200).flat_map(|at| [at as f32, 0.0, at as f32 + 1.0, 1.0]).collect();
        for most in [1, 3, 40, 200, 1000] {
            let graph = TestGraph::default().floats("boxes", &[1, 200, 4], &boxes);
            let graph = graph.floats("scores", &[1, 1, 200], &[0.5; 200]).ints("most", &[most]);
            let graph = graph.node("NonMaxSuppression", "boxes scores most", "y", vec![]).output("y");
            let graph = graph.import(11, &Default::default()).unwrap();
            let rows = crate::reference::run(&graph, &Default::default()).remove("y").unwrap().to_bytes();
            let places =
                rows.as_chunks::<24>().0.iter().map(|row| i64::from_le_bytes(*row[16..].first_chunk().unwrap()));
            assert!(places.eq(0..most.min(200)));
        }
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
