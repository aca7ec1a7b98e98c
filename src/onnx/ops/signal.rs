//! Signals: windows and Fourier transforms, which are products with constant matrices.

use crate::dtype::DataType;
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::tensor::ElementType;
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

/// A Fourier transform.
struct Transform {
    /// Number of elements; longer signals are truncated, shorter ones padded with zeros.
    length: u32,
    /// Whether it is the inverse transform.
    inverse: bool,
    /// Whether only the first half of the frequencies is computed, or, for the inverse, given: the signal is real.
    onesided: bool,
}

impl Transform {
    fn frequencies(&self) -> u32 {
        if self.onesided { self.length / 2 + 1 } else { self.length }
    }

    /// Maximum number of input elements that matter.
    fn most(&self) -> u32 {
        if self.inverse { self.frequencies() } else { self.length }
    }

    /// Number of elements of the output, and of their components.
    fn outputs(&self) -> [u32; 2] {
        if self.inverse && self.onesided { [self.length, 1] } else { [self.frequencies(), 2] }
    }

    /// The matrix `[samples * 2, length]` that reconstructs real signals from the first half of their frequencies.
    fn real_matrix(&self, call: &Call, samples: u32) -> Step<Vec<f64>> {
        let length = self.length as u64;
        let mut matrix = call.list(2 * samples as u64 * length)?;
        for k in 0..samples as u64 {
            // All frequencies but the first and the middle one have a mirror image in the other half.
            let factor = if k == 0 || 2 * k == length { 1.0 } else { 2.0 } / length as f64;
            let wave = |at: u64| (2.0 * PI * (at * k % length) as f64 / length as f64).sin_cos();
            let waves: Vec<_> = (0..length).map(wave).collect();
            matrix.extend(waves.iter().map(|(_, cos)| cos * factor));
            matrix.extend(waves.iter().map(|(sin, _)| -sin * factor));
        }
        Ok(matrix)
    }

    /// The matrix `[samples * components, frequencies * 2]` that transforms signals with real or complex elements.
    fn matrix(&self, call: &Call, samples: u32, components: u32) -> Step<Vec<f64>> {
        let (length, frequencies) = (self.length as u64, self.frequencies() as u64);
        let mut matrix = call.list(samples as u64 * components as u64 * frequencies * 2)?;
        let (sign, factor) = if self.inverse { (1.0, 1.0 / length as f64) } else { (-1.0, 1.0) };
        for sample in 0..samples as u64 {
            // Removes full turns before anything is rounded.
            let wave = |k: u64| (2.0 * PI * (sample * k % length) as f64 / length as f64).sin_cos();
            let waves: Vec<_> = (0..frequencies).map(wave).collect();
            matrix.extend(waves.iter().flat_map(|(sin, cos)| [cos * factor, sign * sin * factor]));
            if components == 2 {
                matrix.extend(waves.iter().flat_map(|(sin, cos)| [-sign * sin * factor, cos * factor]));
            }
        }
        Ok(matrix)
    }

    /// Transforms `x` `[..., samples, 1 or 2]` to `[..., outputs, components]`.
    fn emit(&self, call: &mut Call, x: OperandId) -> Step<OperandId> {
        let shape = call.sizes(x);
        let (batch, &[samples, components]) = shape.split_last_chunk::<2>().ok_or("the signal has rank below 2")?;
        let used = samples.min(self.most());
        let x = call.slice_axis(x, batch.len(), 0, used)?;
        let count: u32 = batch.iter().product();
        let rows = call.reshape(x, &[count, used * components])?;
        let values = if self.inverse && self.onesided {
            self.real_matrix(call, used)?
        } else {
            self.matrix(call, used, components)?
        };
        let outputs = self.outputs();
        let matrix = call.constant(call.dtype(x), &[used * components, outputs[0] * outputs[1]], values)?;
        let product = call.matmul(rows, matrix)?;
        call.reshape(product, &[batch, &outputs].concat())
    }
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
    let transform = Transform { length, inverse, onesided };
    // The axis moves in front of the components.
    let last = rank as u32 - 1;
    let order: Vec<u32> = (0..last).filter(|&at| at as usize != axis).chain([axis as u32, last]).collect();
    let moved = call.transpose(x, &order)?;
    let transformed = transform.emit(call, moved)?;
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
    let transform = Transform { length, inverse: false, onesided: call.int_or("onesided", 1) != 0 };
    if transform.onesided && components == 2 {
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
    let y = transform.emit(call, framed);
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
    fn transforms_are_one_product() {
        let graph = TestGraph::default().input("x", Float, &["2", "8", "1"]);
        let text = graph.node("DFT", "x", "y", vec![("onesided", Attr::Int(1))]).output("y").text(17);
        assert_eq!(text.matches("= matmul").count(), 1, "{text}");
        assert!(text.contains("newShape=[2, 5, 2]"), "{text}");
    }

    #[test]
    fn the_first_half_of_the_frequencies_makes_a_real_signal() {
        let graph = TestGraph::default().input("x", Float, &["2", "5", "2"]);
        let attributes = || vec![("onesided", Attr::Int(1)), ("inverse", Attr::Int(1))];
        let text = graph.node("DFT", "x", "y", attributes()).output("y").text(17);
        assert!(text.contains("newShape=[2, 8, 1]"), "{text}");
        let graph = TestGraph::default().input("x", Float, &["2", "5", "1"]);
        let message = graph.node("DFT", "x", "y", attributes()).output("y").refusal(17);
        assert!(message.contains("the inverse of complex frequencies"), "{message}");
    }

    /// As long as those of speech recognizers, in a model without weights.
    #[test]
    fn long_transforms_fit_into_the_memory_for_translations() {
        let transform = |samples| {
            let graph = TestGraph::default().input("x", Float, &["1", samples, "1"]);
            graph.node("DFT", "x", "y", vec![("onesided", Attr::Int(1))]).output("y")
        };
        assert_eq!(transform("2048").output_shape(17), [1, 1025, 2]);
        let message = transform("2400").refusal(17);
        assert!(message.contains("too much memory"), "{message}");
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
