//! Softmax and normalisations: sums over rows in float32, then every element on its own.

use super::reduce::{Rows, WorkgroupReduction, precise_sum};
use crate::dtype::DataType;
use crate::gpu::kernel::{Bound, Parameters};
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Readable, strided};
use crate::ops::normalization::{BatchNormalization, InstanceNormalization, LayerNormalization};
use crate::ops::reduce::reduced_axes;
use crate::ops::rms_normalization::RmsNormalization;
use crate::ops::softmax::Softmax;
use crate::shape::strides;

/// A float32 of each row, in scratch memory.
fn row_values(l: &mut Lowering, rows: &Rows) -> Bound {
    l.scratch(rows.count() as usize * 4)
}

fn of_rows(name: &'static str, bound: Bound) -> Readable {
    Readable { name, bound, dtype: DataType::Float32 }
}

/// The parameters of `strided()` that give the row of an element of `shape`.
fn row_of(parameters: &mut Parameters, shape: &[u32], reduced: &[bool]) -> u32 {
    let kept: Vec<u32> = shape.iter().zip(reduced).map(|(&size, &reduced)| if reduced { 1 } else { size }).collect();
    let own = strides(&kept);
    let steps: Vec<isize> =
        own.iter().zip(reduced).map(|(&stride, &reduced)| if reduced { 0 } else { stride as isize }).collect();
    strided(parameters, shape, &steps, 0)
}

/// A sum of a function of the elements of each row.
fn sum(l: &mut Lowering, rows: &Rows, others: Vec<Readable>, term: &str, finish: &str, target: Bound) {
    let functions = precise_sum(term, finish);
    let mut inputs = vec![l.readable("x", 0)];
    inputs.extend(others);
    WorkgroupReduction { name: "sum", inputs, rows, functions, outputs: vec![(target, DataType::Float32)] }.dispatch(l);
}

/// `softmax()`.
pub fn softmax(op: &Softmax, l: &mut Lowering) {
    let shape = &l.input(0).shape;
    let reduced: Vec<bool> = (0..shape.len()).map(|axis| axis == op.axis as usize).collect();
    let rows = Rows::new(shape, &reduced);
    let (largest, total) = (row_values(l, &rows), row_values(l, &rows));
    let functions = "alias total_value = f32;
fn start(row: u32) -> f32 { return x(first_of(row)); }
fn term(at: u32, i: u32, row: u32) -> f32 { return x(at); }
fn combine(a: f32, b: f32) -> f32 { return max_f32(a, b); }
fn finish0(x: f32, row: u32) -> f32 { return x; }
";
    let inputs = vec![l.readable("x", 0)];
    let outputs = vec![(largest, DataType::Float32)];
    WorkgroupReduction { name: "max", inputs, rows: &rows, functions: functions.to_string(), outputs }.dispatch(l);
    sum(l, &rows, vec![of_rows("largest", largest)], "exp_f32(x - largest(row))", "x", total);
    let mut parameters = Parameters::default();
    let row = row_of(&mut parameters, shape, &reduced);
    let functions = format!(
        "fn value(i: u32) -> f32 {{ let row = strided({row}u, i); return exp_f32(x(i) - largest(row)) / total(row); }}\n"
    );
    let inputs = vec![l.readable("x", 0), of_rows("largest", largest), of_rows("total", total)];
    l.map(0, "softmax", inputs, &functions, parameters);
}

/// An optional operand of the weights, and the expression for its element at `place`.
fn weight(
    l: &Lowering,
    inputs: &mut Vec<Readable>,
    name: &'static str,
    index: usize,
    otherwise: &str,
    place: &str,
) -> String {
    match l.inputs.get(index).copied().flatten() {
        None => otherwise.to_string(),
        Some(_) => {
            inputs.push(l.readable(name, index));
            format!("{name}({place})")
        }
    }
}

/// A power of two for each row by which its elements, and the root of `epsilon`, become about 1: squares of floats reach
/// neither infinity nor 0 then.
fn scales(l: &mut Lowering, rows: &Rows, epsilon: f64) -> Readable {
    let target = row_values(l, rows);
    let least = (epsilon.sqrt() as f32).to_bits();
    let functions = format!(
        "alias total_value = f32;
fn start(row: u32) -> f32 {{ return bitcast<f32>({least}u); }}
fn term(at: u32, i: u32, row: u32) -> f32 {{ return abs(x(at)); }}
fn combine(a: f32, b: f32) -> f32 {{ return max_f32(a, b); }}
fn finish0(x: f32, row: u32) -> f32 {{ return bitcast<f32>((254u - clamp(bitcast<u32>(x) >> 23u, 1u, 253u)) << 23u); }}
"
    );
    let inputs = vec![l.readable("x", 0)];
    let outputs = vec![(target, DataType::Float32)];
    WorkgroupReduction { name: "scale", inputs, rows, functions, outputs }.dispatch(l);
    of_rows("size", target)
}

/// The reciprocal of the root of a mean of squares, of scaled elements, and `epsilon`.
fn reciprocal_root(epsilon: f64) -> String {
    let epsilon = (epsilon as f32).to_bits();
    format!("1.0 / sqrt(x / f32(parameter(1u)) + bitcast<f32>({epsilon}u) * size(row) * size(row))")
}

/// A scale for each row, and the mean and the reciprocal of the standard deviation of its scaled elements.
fn moments(l: &mut Lowering, rows: &Rows, epsilon: f64) -> [Readable; 3] {
    let (mean, deviation) = (row_values(l, rows), row_values(l, rows));
    let size = scales(l, rows, epsilon);
    sum(l, rows, vec![size], "x * size(row)", "x / f32(parameter(1u))", mean);
    let mean = of_rows("mean", mean);
    // Two passes: the mean of squares less the square of the mean cancels where the mean is large.
    let square = "(x * size(row) - mean(row)) * (x * size(row) - mean(row))";
    sum(l, rows, vec![size, mean], square, &reciprocal_root(epsilon), deviation);
    [size, mean, of_rows("deviation", deviation)]
}

/// `batchNormalization()`.
pub fn batch(op: &BatchNormalization, l: &mut Lowering) {
    let shape = &l.input(0).shape;
    let axis = op.axis as usize;
    let inner: u32 = shape[axis + 1..].iter().product();
    let mut parameters = Parameters(vec![inner, shape[axis]]);
    let epsilon = parameters.push_f32(op.epsilon as f32);
    let mut inputs = vec![l.readable("x", 0), l.readable("mean", 1), l.readable("variance", 2)];
    let scale = weight(l, &mut inputs, "scale", 3, "1.0", "c");
    let bias = weight(l, &mut inputs, "bias", 4, "0.0", "c");
    let functions = format!(
        "fn value(i: u32) -> f32 {{
  let c = (i / parameter(0u)) % parameter(1u);
  return (x(i) - mean(c)) / sqrt(variance(c) + parameter_f32({epsilon}u)) * {scale} + {bias};
}}\n"
    );
    l.map(0, "batchNormalization", inputs, &functions, parameters);
}

/// `instanceNormalization()`.
pub fn instance(op: &InstanceNormalization, l: &mut Lowering) {
    let shape = &l.input(0).shape;
    let reduced = op.reduced();
    let axis = op.channel_axis();
    normalize(l, &reduced, op.epsilon, |parameters| {
        let steps: Vec<isize> = (0..4).map(|dimension| (dimension == axis) as isize).collect();
        strided(parameters, shape, &steps, 0)
    });
}

/// `layerNormalization()`.
pub fn layer(op: &LayerNormalization, l: &mut Lowering) {
    let shape = &l.input(0).shape;
    let axes = op.axes(shape.len());
    let reduced = reduced_axes(shape.len(), Some(&axes)).expect("validated");
    let sizes: Vec<u32> = axes.iter().map(|&axis| shape[axis as usize]).collect();
    let own = strides(&sizes);
    normalize(l, &reduced, op.epsilon, |parameters| {
        let step = |dimension: usize| {
            axes.iter().position(|&axis| axis as usize == dimension).map_or(0, |at| own[at] as isize)
        };
        let steps: Vec<isize> = (0..shape.len()).map(step).collect();
        strided(parameters, shape, &steps, 0)
    });
}

/// `(x - mean) / deviation * scale + bias`; `place` adds the parameters of `strided()` for the place of an element in the
/// weights.
fn normalize(l: &mut Lowering, reduced: &[bool], epsilon: f64, place: impl FnOnce(&mut Parameters) -> u32) {
    let shape = &l.input(0).shape;
    let rows = Rows::new(shape, reduced);
    let [size, mean, deviation] = moments(l, &rows, epsilon);
    let mut parameters = Parameters::default();
    let row = row_of(&mut parameters, shape, reduced);
    let place = place(&mut parameters);
    let mut inputs = vec![l.readable("x", 0), size, mean, deviation];
    let scale = weight(l, &mut inputs, "scale", 1, "1.0", "c");
    let bias = weight(l, &mut inputs, "bias", 2, "0.0", "c");
    let functions = format!(
        "fn value(i: u32) -> f32 {{
  let row = strided({row}u, i);
  let c = strided({place}u, i);
  return (x(i) * size(row) - mean(row)) * deviation(row) * {scale} + {bias};
}}\n"
    );
    l.map(0, "normalize", inputs, &functions, parameters);
}

/// Root-mean-square normalisation.
pub fn root_mean_square(op: &RmsNormalization, l: &mut Lowering) {
    let shape = &l.input(0).shape;
    let length: u32 = op.row(shape).iter().product();
    let rows = Rows::contiguous(l.input(0).elements() as u32 / length, length);
    let factor = row_values(l, &rows);
    let size = scales(l, &rows, op.epsilon);
    sum(l, &rows, vec![size], "x * size(row) * (x * size(row))", &reciprocal_root(op.epsilon), factor);
    let parameters = Parameters(vec![length]);
    let mut inputs = vec![l.readable("x", 0), size, of_rows("factor", factor)];
    let scale = weight(l, &mut inputs, "scale", 1, "1.0", "i % parameter(0u)");
    let functions = format!(
        "fn value(i: u32) -> f32 {{
  let row = i / parameter(0u);
  return x(i) * size(row) * factor(row) * {scale};
}}\n"
    );
    l.map(0, "normalize", inputs, &functions, parameters);
}
