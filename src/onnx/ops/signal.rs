//! Signals: windows, Fourier transforms, and those of short frames, which are products with constant matrices.

use crate::dtype::DataType;
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::tensor::ElementType;
use crate::ops::extension::dft::{Dft, turn};
use std::f64::consts::PI;

/// The type of `output_datatype`, by default float32.
fn output_type(call: &Call) -> Step<DataType> {
    let element = call.type_attribute("output_datatype")?.unwrap_or(ElementType::Float);
    element.webnn().ok_or_else(|| Refusal(format!("output_datatype is {element}, which WebNN does not have")))
}

/// A size from a constant.
fn size(call: &Call, index: usize, what: &str) -> Step<u32> {
    let size = call.one_int(index, what)?;
    let valid = u32::try_from(size).ok().filter(|&size| size > 0 && size <= i32::MAX as u32);
    valid.ok_or_else(|| Refusal(format!("{what} is {size}, expected a number above 0")))
}

/// A window: a sum of cosines of multiples of a full turn, with the factors `terms`.
fn cosine_window(call: &mut Call, terms: &[f64]) -> Outcome {
    let size = size(call, 0, "size")?;
    let turn = if call.int_or("periodic", 1) != 0 { size as f64 } else { size as f64 - 1.0 };
    let value = |at: u32| {
        // A symmetric window with a single element is its peak.
        let angle = if turn == 0.0 { PI } else { 2.0 * PI * at as f64 / turn };
        terms.iter().enumerate().map(|(k, factor)| factor * (angle * k as f64).cos()).sum::<f64>()
    };
    let output = call.constant(output_type(call)?, &[size], (0..size).map(value));
    call.one(output)
}

/// The matrix `[samples * components, frequencies * 2]` that transforms the `samples` real or complex elements of frames
/// to their first `frequencies`.
fn frame_matrix(call: &Call, samples: u32, components: u32, frequencies: u32) -> Step<Vec<f64>> {
    let (length, frequencies) = (samples as u64, frequencies as u64);
    let mut matrix = call.list(length * components as u64 * frequencies * 2)?;
    for sample in 0..length {
        let waves: Vec<_> = (0..frequencies).map(|k| turn(sample * k, length)).collect();
        matrix.extend(waves.iter().flat_map(|(sin, cos)| [*cos, -sin]));
        if components == 2 {
            matrix.extend(waves.iter().flat_map(|(sin, cos)| [*sin, *cos]));
        }
    }
    Ok(matrix)
}

/// The shape of a signal; its last dimension is 1 (real) or 2 (complex).
fn signal_shape(call: &Call, x: OperandId) -> Step<Vec<u32>> {
    let shape = call.sizes(x);
    match shape[..] {
        [_, .., 1 | 2] => Ok(shape),
        _ => Err(Refusal(format!("the signal has shape {shape:?}, expected a last dimension of 1 or 2"))),
    }
}

fn fourier_transform(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let shape = signal_shape(call, x)?;
    let rank = shape.len();
    // The axis is an attribute before opset 20, an input since then.
    let given = match call.opset {
        20.. => call.optional_ints(2, "axis")?.map_or(Ok(-2), |_| call.one_int(2, "axis"))?,
        _ => call.int_or("axis", 1),
    };
    let axis = call.axis(given, rank)? as usize;
    if axis == rank - 1 {
        return Err(Refusal(format!("axis is {given}, which is that of the complex components")));
    }
    let (inverse, onesided) = (call.int_or("inverse", 0) != 0, call.int_or("onesided", 0) != 0);
    if onesided && (shape[rank - 1] == 2) != inverse {
        return Err("onesided is for transforms of real signals, and for the inverse of complex frequencies".into());
    }
    let length = match call.value(1) {
        Some(_) => size(call, 1, "dft_length")?,
        None if onesided && inverse && shape[axis] == 1 => return Err("dft_length is missing".into()),
        None if onesided && inverse => 2 * (shape[axis] - 1),
        None => shape[axis],
    };
    // The axis moves in front of the components.
    let last = rank as u32 - 1;
    let order: Vec<u32> = (0..last).filter(|&at| at as usize != axis).chain([axis as u32, last]).collect();
    let moved = call.transpose(x, &order)?;
    let transformed = call.emit(Dft { length, inverse, onesided }, &[moved])?;
    let back: Vec<u32> =
        (0..=last).map(|at| order.iter().position(|&from| from == at).expect("a permutation") as u32).collect();
    let y = call.transpose(transformed, &back);
    call.one(y)
}

fn short_time_fourier_transform(call: &mut Call) -> Outcome {
    let (mut x, window) = (call.input(0)?, call.optional(2)?);
    // torch and onnxruntime omit the last dimension of a real signal, its single component.
    if let [batch, samples] = call.sizes(x)[..] {
        x = call.reshape(x, &[batch, samples, 1])?;
    }
    let shape = signal_shape(call, x)?;
    let &[_, samples, components] = &shape[..] else {
        return Err(Refusal(format!("the signal has shape {shape:?}, expected 3 dimensions")));
    };
    let step = size(call, 1, "frame_step")?;
    let length = match window {
        _ if call.value(3).is_some() => size(call, 3, "frame_length")?,
        Some(window) => *call.sizes(window).first().ok_or("the window is a scalar")?,
        None => samples,
    };
    let room = samples.checked_sub(length);
    let room =
        room.ok_or_else(|| Refusal(format!("a frame has {}, but the signal has {samples}", amount(length, "sample"))))?;
    let frames = room / step + 1;
    let onesided = call.int_or("onesided", 1) != 0;
    if onesided && components == 2 {
        return Err("onesided is not supported for complex signals".into());
    }
    let places = (0..frames as i64).flat_map(|frame| (0..length as i64).map(move |at| frame * step as i64 + at));
    let places = call.constant(DataType::Int32, &[frames, length], places)?;
    let mut framed = call.gather(x, places, 1)?;
    if let Some(window) = window {
        // A window shorter than the frame is padded with zeros.
        let given = call.sizes(window);
        let missing = match given[..] {
            [size] => length.checked_sub(size),
            _ => None,
        };
        let missing =
            missing.ok_or_else(|| Refusal(format!("the window has shape {given:?}, expected at most [{length}]")))?;
        let window = call.pad_axis(window, 0, [0, missing])?;
        let window = call.reshape(window, &[length, 1])?;
        framed = call.mul(framed, window)?;
    }
    // A product is faster than a transform of short frames, whose windows overlap.
    let frequencies = if onesided { length / 2 + 1 } else { length };
    let rows = call.reshape(framed, &[shape[0] * frames, length * components])?;
    let values = frame_matrix(call, length, components, frequencies)?;
    let matrix = call.constant(call.dtype(x), &[length * components, 2 * frequencies], values)?;
    let product = call.matmul(rows, matrix)?;
    let y = call.reshape(product, &[shape[0], frames, frequencies, 2]);
    call.one(y)
}

/// Triangles on the mel scale, between whole bins of a spectrum.
fn mel_weight_matrix(call: &mut Call) -> Outcome {
    let (bands, length) = (size(call, 0, "num_mel_bins")?, size(call, 1, "dft_length")?);
    let rate = size(call, 2, "sample_rate")?;
    let edge = |index: usize, what: &str| -> Step<f64> {
        let hertz = call.optional_floats(index, what)?.and_then(|edges| edges.first().copied());
        let hertz = hertz.filter(|hertz| hertz.is_finite() && *hertz >= 0.0);
        let hertz = hertz.ok_or_else(|| Refusal(format!("{what} is not a frequency")))?;
        Ok(2595.0 * (1.0 + hertz / 700.0).log10())
    };
    let (low, high) = (edge(3, "lower_edge_hertz")?, edge(4, "upper_edge_hertz")?);
    let bins = length / 2 + 1;
    let mut matrix = call.list(bins as u64 * bands as u64)?;
    let step = (high - low) / (bands as f64 + 2.0);
    let bin = |band: u32| {
        let hertz = 700.0 * (10f64.powf((band as f64 * step + low) / 2595.0) - 1.0);
        ((length as f64 + 1.0) * hertz / rate as f64).floor() as i64
    };
    if (0..bands + 2).any(|band| !(0..=bins as i64).contains(&bin(band))) {
        return Err(Refusal(format!("the edges are outside of the {bins} bins of the spectrum")));
    }
    matrix.resize(bins as usize * bands as usize, 0.0);
    for band in 0..bands {
        let [left, center, right] = [0, 1, 2].map(|at| bin(band + at));
        for place in left..right.max(center + 1).min(bins as i64) {
            let weight = match place {
                _ if place == center => 1.0,
                _ if place < center => (place - left) as f64 / (center - left) as f64,
                _ => (right - place) as f64 / (right - center) as f64,
            };
            matrix[place as usize * bands as usize + band as usize] = weight;
        }
    }
    let output = call.constant(output_type(call)?, &[bins, bands], matrix);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("BlackmanWindow", "constant size", |call| cosine_window(call, &[0.42, -0.5, 0.08])),
    standard("DFT", "constant length and axis", fourier_transform),
    standard("HammingWindow", "constant size", |call| cosine_window(call, &[25.0 / 46.0, -21.0 / 46.0])),
    standard("HannWindow", "constant size", |call| cosine_window(call, &[0.5, -0.5])),
    standard("MelWeightMatrix", "constant inputs", mel_weight_matrix),
    standard("STFT", "constant frame_step and frame_length", short_time_fourier_transform),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn transforms_are_one_operator() {
        let graph = TestGraph::default().input("x", Float, &["2", "8", "1"]);
        let text = graph.node("DFT", "x", "y", vec![("onesided", Attr::Int(1))]).output("y").text(17);
        assert!(text.contains("%1 = dft %0 length=8 onesided=true"), "{text}");
        let graph = TestGraph::default().input("x", Float, &["2", "8", "3", "2"]);
        let text = graph.node("DFT", "x", "y", vec![("axis", Attr::Int(1))]).output("y");
        assert_eq!(text.output_shape(17), [2, 8, 3, 2]);
    }

    #[test]
    fn the_first_half_of_the_frequencies_makes_a_real_signal() {
        let graph = TestGraph::default().input("x", Float, &["2", "5", "2"]);
        let attributes = || vec![("onesided", Attr::Int(1)), ("inverse", Attr::Int(1))];
        assert_eq!(graph.node("DFT", "x", "y", attributes()).output("y").output_shape(17), [2, 8, 1]);
        let graph = TestGraph::default().input("x", Float, &["2", "5", "1"]);
        let message = graph.node("DFT", "x", "y", attributes()).output("y").refusal(17);
        assert!(message.contains("the inverse of complex frequencies"), "{message}");
    }

    #[test]
    fn transforms_have_any_length() {
        let transform = |samples| {
            let graph = TestGraph::default().input("x", Float, &["1", samples, "1"]);
            graph.node("DFT", "x", "y", vec![("onesided", Attr::Int(1))]).output("y")
        };
        assert_eq!(transform("16384").output_shape(17), [1, 8193, 2]);
        assert_eq!(transform("1000003").output_shape(17), [1, 500002, 2]);
    }

    #[test]
    fn ambiguous_transforms_are_refused() {
        let graph = TestGraph::default().input("x", Float, &["2", "8", "2"]);
        let message = graph.node("DFT", "x", "y", vec![("onesided", Attr::Int(1))]).output("y").refusal(17);
        assert!(message.contains("onesided is for transforms of real signals"), "{message}");
        let graph = TestGraph::default().input("n", Int64, &[]);
        let message = graph.node("HannWindow", "n", "y", vec![]).output("y").refusal(17);
        assert!(message.contains("size (input 0) is computed from inputs of the model"), "{message}");
    }
}
