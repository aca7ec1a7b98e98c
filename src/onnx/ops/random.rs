//! Random numbers. With a seed, they are drawn during translation: a WebNN graph computes the same every time. Without
//! a seed, a session cuts the model there and draws new numbers in each run.
//!
//! The generator is SplitMix64; its initial state is the bits of the float32 `seed`. Number `i` depends only on the
//! seed and on `i`: the same seed produces the same numbers everywhere, but not those of other runtimes, because the
//! standard names no generator.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::{Cut, Refusal};
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::tensor::checked_shape;
use crate::ops::arg_min_max::{ArgAttributes, ArgMinMax};
use crate::ops::elementwise::Elementwise as E;
use crate::shape::Descriptor;
use std::f32::consts::TAU;
use std::hash::{BuildHasher, RandomState};

/// A source of numbers that depend only on its seed.
#[derive(Clone, Copy)]
struct Source(u64);

impl Source {
    /// The source for the node's seed. Without a seed, a new source each time, if the node is evaluated for a single
    /// run.
    fn new(call: &Call) -> Step<Source> {
        match call.float_attribute("seed") {
            Some(seed) => Ok(Source((seed as f32).to_bits() as u64)),
            None if call.is_evaluated() => Ok(Source(RandomState::new().hash_one(()))),
            None => {
                let reason = "without a seed, its numbers differ in every run, but those of a graph are fixed";
                Err(Refusal(reason.to_string()).unless(Cut::Elements))
            }
        }
    }

    /// Number `at`, uniform in `[0, 1)`: a multiple of 2^-24, which float32 represents exactly.
    fn uniform(self, at: u64) -> f64 {
        let mut z = self.0.wrapping_add(at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 40) as f64 / (1u64 << 24) as f64
    }

    /// Numbers `2 * at` and `2 * at + 1` of the standard normal distribution (Box and Muller).
    fn normal(self, at: u64) -> [f32; 2] {
        let (radius, angle) = (1.0 - self.uniform(2 * at) as f32, TAU * self.uniform(2 * at + 1) as f32);
        let (radius, (sin, cos)) = ((-2.0 * radius.ln()).sqrt(), angle.sin_cos());
        [radius * cos, radius * sin]
    }

    /// Number `at` of the standard Gumbel distribution.
    fn gumbel(self, at: u64) -> f64 {
        // Uses the middles of the steps, which are neither 0 nor 1.
        -(-(self.uniform(at) + 0.5 / (1u64 << 24) as f64).ln()).ln()
    }

    /// A float32 constant with the elements `f(0), f(1), ...`.
    fn tensor(self, call: &mut Call, shape: &[u32], f: impl Fn(u64) -> f64) -> Step<OperandId> {
        call.written(shape, |numbers: &mut [f32]| {
            (0..).zip(numbers).for_each(|(at, number)| *number = f(at) as f32);
        })
    }

    /// A float32 constant with numbers of a normal distribution.
    fn normal_tensor(self, call: &mut Call, shape: &[u32], mean: f64, scale: f64) -> Step<OperandId> {
        call.written(shape, |numbers: &mut [f32]| {
            for (at, pair) in (0..).zip(numbers.chunks_mut(2)) {
                let drawn = self.normal(at);
                pair.iter_mut().zip(drawn).for_each(|(number, drawn)| *number = (mean + scale * drawn as f64) as f32);
            }
        })
    }
}

/// The type of the output: that of the attribute `dtype`, or `default` without it.
fn output_type(call: &Call, default: Option<DataType>) -> Step<DataType> {
    match call.type_attribute("dtype")? {
        Some(element) => call.computed_type(element, "dtype"),
        None => default.ok_or_else(|| "the input is of a type that WebNN does not have".into()),
    }
}

/// The distribution to draw from.
#[derive(Clone, Copy)]
enum Distribution {
    Normal,
    Uniform,
}

fn random(call: &mut Call, distribution: Distribution, like: bool) -> Outcome {
    let source = Source::new(call)?;
    let (shape, default) = match like {
        true => (call.input_sizes(0)?, call.input_type(0)),
        false => {
            let shape = call.ints_attribute("shape").ok_or("shape is missing")?;
            (checked_shape(&shape).map_err(Refusal)?, Some(DataType::Float32))
        }
    };
    let dtype = output_type(call, default)?;
    if !dtype.is_float() {
        return Err(Refusal(format!("its numbers are of type {dtype}, expected a floating-point type")));
    }
    if shape.contains(&0) {
        return Ok(vec![Value::Empty(Descriptor::new(dtype, shape))]);
    }
    let drawn = match distribution {
        Distribution::Normal => {
            let (mean, scale) = (call.float_or("mean", 0.0), call.float_or("scale", 1.0));
            source.normal_tensor(call, &shape, mean, scale)?
        }
        Distribution::Uniform => {
            let (low, high) = (call.float_or("low", 0.0), call.float_or("high", 1.0));
            source.tensor(call, &shape, |at| low + (high - low) * source.uniform(at))?
        }
    };
    let output = call.cast(drawn, dtype);
    call.one(output)
}

/// 1 with the probability in the input, otherwise 0.
fn bernoulli(call: &mut Call) -> Outcome {
    let source = Source::new(call)?;
    let dtype = output_type(call, call.input_type(0))?;
    if let Some(Value::Empty(Descriptor { shape, .. })) = call.value(0) {
        return Ok(vec![Value::Empty(Descriptor::new(dtype, shape))]);
    }
    let x = call.input(0)?;
    let x = call.cast(x, DataType::Float32)?;
    let drawn = source.tensor(call, &call.sizes(x), |at| source.uniform(at))?;
    let is_one = call.emit(E::Greater, &[x, drawn])?;
    let output = call.cast(is_one, dtype);
    call.one(output)
}

/// Draws classes, `[batch, samples]`, from log probabilities, `[batch, classes]`: each time the class whose log
/// probability plus a number of the Gumbel distribution is largest.
fn multinomial(call: &mut Call) -> Outcome {
    let source = Source::new(call)?;
    let output_data_type = output_type(call, Some(DataType::Int32))?;
    if !matches!(output_data_type, DataType::Int32 | DataType::Int64) {
        return Err(Refusal(format!("dtype is {output_data_type}, expected int32 or int64")));
    }
    let x = call.input(0)?;
    // The result is a constant of this shape.
    let [batch, classes] = call.dims(x, "the input")?.map(Dim::get);
    let given = call.int_or("sample_size", 1);
    let samples = u32::try_from(given).ok().filter(|&samples| samples > 0);
    let samples = samples.ok_or_else(|| Refusal(format!("sample_size is {given}, expected a positive number")))?;
    let x = call.cast(x, DataType::Float32)?;
    let x = call.reshape(x, &[batch, 1, classes])?;
    let shape = [batch, samples, classes];
    let drawn = source.tensor(call, &shape, |at| source.gumbel(at))?;
    let sum = call.add(x, drawn)?;
    let attributes = ArgAttributes { axis: 2, keep_dimensions: false, output_data_type };
    let output = call.emit(ArgMinMax { max: true, attributes }, &[sum]);
    call.one(output)
}

/// The restrictions of all these operators.
const NOTES: &str = "own generator; with a seed, the same numbers in every run; without one, `loadModel()` only";

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Bernoulli", NOTES, bernoulli),
    standard("Multinomial", NOTES, multinomial),
    standard("RandomNormal", NOTES, |call| random(call, Distribution::Normal, false)),
    standard("RandomNormalLike", NOTES, |call| random(call, Distribution::Normal, true)),
    standard("RandomUniform", NOTES, |call| random(call, Distribution::Uniform, false)),
    standard("RandomUniformLike", NOTES, |call| random(call, Distribution::Uniform, true)),
];

#[cfg(test)]
mod tests {
    use crate::dtype::{DataType, Number};
    use crate::onnx::import::Request;
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;
    use crate::ops::tensor::Tensor;
    use std::collections::HashMap;

    /// The elements of the output `y` for an input `x` of this shape, filled with `value`.
    fn drawn(graph: TestGraph, shape: &[u32], value: f64) -> (DataType, Vec<f64>) {
        let graph = graph.output("y").import(22, &Request::default()).unwrap();
        let x = crate::shape::Descriptor::new(DataType::Float32, shape);
        let x = Tensor::from_fn(&x, |_| Number::Float(value));
        let inputs = HashMap::from([("x".to_string(), x)]);
        let y = crate::reference::run(&graph, &inputs).remove("y").unwrap();
        let dtype = y.descriptor().dtype;
        let numbers = crate::onnx::tensor::numbers(dtype, &y.to_bytes());
        (dtype, numbers.into_iter().map(Number::to_f64).collect())
    }

    fn moments(numbers: &[f64]) -> [f64; 2] {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        [mean, numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count]
    }

    fn normal(seed: f32) -> TestGraph {
        let attributes = vec![
            ("shape", Attr::Ints(&[100, 100])),
            ("mean", Attr::Float(3.0)),
            ("scale", Attr::Float(2.0)),
            ("seed", Attr::Float(seed)),
        ];
        TestGraph::default().input("x", Float, &["1"]).node("RandomNormal", "", "y", attributes)
    }

    #[test]
    fn numbers_follow_their_distribution_and_their_seed() {
        let (_, first) = drawn(normal(1.0), &[1], 0.0);
        let [mean, variance] = moments(&first);
        assert!((mean - 3.0).abs() < 0.1 && (variance - 4.0).abs() < 0.2, "mean {mean}, variance {variance}");
        assert_eq!(first, drawn(normal(1.0), &[1], 0.0).1);
        assert_ne!(first, drawn(normal(2.0), &[1], 0.0).1);

        let attributes = vec![("low", Attr::Float(-2.0)), ("high", Attr::Float(4.0)), ("seed", Attr::Float(0.5))];
        let graph = TestGraph::default().input("x", Float, &["5000"]).node("RandomUniformLike", "x", "y", attributes);
        let (_, numbers) = drawn(graph, &[5000], 0.0);
        assert!(numbers.iter().all(|x| (-2.0..4.0).contains(x)));
        let [mean, variance] = moments(&numbers);
        assert!((mean - 1.0).abs() < 0.1 && (variance - 3.0).abs() < 0.2, "mean {mean}, variance {variance}");
    }

    #[test]
    fn types_and_shapes_come_from_attributes_or_the_input() {
        let attributes = vec![("dtype", Attr::Int(10)), ("seed", Attr::Float(1.0))];
        let graph = TestGraph::default().input("x", Float, &["2", "3"]).node("RandomNormalLike", "x", "y", attributes);
        assert!(graph.output("y").text(22).contains("constant float16 [2, 3]"));
        let attributes = vec![("shape", Attr::Ints(&[1 << 24])), ("seed", Attr::Float(1.0))];
        let message = TestGraph::default().node("RandomUniform", "", "y", attributes).output("y").refusal(22);
        assert!(message.contains("a constant of 16777216 elements, more than 8388608"), "{message}");
        let attributes = vec![("dtype", Attr::Int(6)), ("seed", Attr::Float(1.0)), ("shape", Attr::Ints(&[2]))];
        let message = TestGraph::default().node("RandomUniform", "", "y", attributes).output("y").refusal(22);
        assert!(message.contains("of type int32, expected a floating-point type"), "{message}");
    }

    #[test]
    fn without_a_seed_nothing_is_drawn() {
        let graph = TestGraph::default().node("RandomNormal", "", "y", vec![("shape", Attr::Ints(&[2]))]).output("y");
        let message = graph.refusal(22);
        assert!(message.contains("without a seed, its numbers differ in every run"), "{message}");
    }

    #[test]
    fn draws_have_the_probabilities_of_the_input() {
        let bernoulli = |probability: f64| {
            let attributes = vec![("seed", Attr::Float(1.0)), ("dtype", Attr::Int(6))];
            let graph = TestGraph::default().input("x", Float, &["4000"]).node("Bernoulli", "x", "y", attributes);
            let (dtype, numbers) = drawn(graph, &[4000], probability);
            assert_eq!(dtype, DataType::Int32);
            moments(&numbers)[0]
        };
        assert_eq!([bernoulli(0.0), bernoulli(1.0)], [0.0, 1.0]);
        let mean = bernoulli(0.3);
        assert!((mean - 0.3).abs() < 0.03, "{mean}");

        let attributes = vec![("seed", Attr::Float(1.0)), ("sample_size", Attr::Int(3000)), ("dtype", Attr::Int(7))];
        let graph = TestGraph::default().input("x", Float, &["2", "4"]).node("Multinomial", "x", "y", attributes);
        let (dtype, classes) = drawn(graph, &[2, 4], -1.5);
        assert_eq!((dtype, classes.len()), (DataType::Int64, 6000));
        for class in 0..4 {
            let share = classes.iter().filter(|&&drawn| drawn == class as f64).count() as f64 / 6000.0;
            assert!((share - 0.25).abs() < 0.03, "class {class}: {share}");
        }
    }
}
