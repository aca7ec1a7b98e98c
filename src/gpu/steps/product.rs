//! Matrix products.

use crate::gpu::kernel::Parameters;
use crate::gpu::lower::Lowering;
use crate::gpu::map::{read_broadcast, strided};
use crate::ops::matmul::Gemm;
use crate::shape::broadcast_strides;

/// `matmul()`.
pub fn matmul(l: &mut Lowering) {
    let (a, b, output) = (&l.input(0).shape, &l.input(1).shape, &l.outputs[0].shape);
    let (m, n, k) = (output[output.len() - 2], output[output.len() - 1], a[a.len() - 1]);
    let batch = &output[..output.len() - 2];
    let mut parameters = Parameters(vec![m, n, k]);
    let mut first = [0; 2];
    for (index, shape) in [a, b].into_iter().enumerate() {
        let (own, matrix) = shape.split_at(shape.len() - 2);
        let size = (matrix[0] * matrix[1]) as isize;
        let strides: Vec<isize> = broadcast_strides(own, batch).iter().map(|&stride| stride as isize * size).collect();
        first[index] = strided(&mut parameters, batch, &strides, 0);
    }
    let [a, b] = first;
    let functions = format!(
        "fn value(i: u32) -> f32 {{
  let n = parameter(1u);
  let depth = parameter(2u);
  let row = i / n;
  let stack = row / parameter(0u);
  let a_at = strided({a}u, stack) + row % parameter(0u) * depth;
  let b_at = strided({b}u, stack) + i % n;
  var sum = 0.0;
  for (var k = 0u; k < depth; k = k + 1u) {{ sum = fma(a(a_at + k), b(b_at + k * n), sum); }}
  return sum;
}}\n"
    );
    let inputs = vec![l.readable("a", 0), l.readable("b", 1)];
    l.map(0, "matmul", inputs, &functions, parameters);
}

/// `gemm()`.
pub fn gemm(op: &Gemm, l: &mut Lowering) {
    let attributes = &op.attributes;
    let (a, output) = (&l.input(0).shape, &l.outputs[0].shape);
    let (m, n) = (output[0], output[1]);
    let depth = a[if attributes.a_transpose { 0 } else { 1 }];
    let [a_row, a_column] = if attributes.a_transpose { [1, m] } else { [depth, 1] };
    let [b_row, b_column] = if attributes.b_transpose { [1, depth] } else { [n, 1] };
    let mut parameters = Parameters(vec![n, depth, a_row, a_column, b_row, b_column]);
    parameters.push_f32(attributes.alpha as f32);
    parameters.push_f32(attributes.beta as f32);
    let mut inputs = vec![l.readable("a", 0), l.readable("b", 1)];
    let addend = match l.inputs.get(2).copied().flatten() {
        None => String::new(),
        Some(c) => {
            inputs.push(l.readable("c", 2));
            format!(" + parameter_f32(7u) * {}", read_broadcast(&mut parameters, "c", &c.shape, output))
        }
    };
    let functions = format!(
        "fn value(i: u32) -> f32 {{
  let row = i / parameter(0u);
  let column = i % parameter(0u);
  var a_at = row * parameter(2u);
  var b_at = column * parameter(5u);
  var sum = 0.0;
  for (var k = 0u; k < parameter(1u); k = k + 1u) {{
    sum = fma(a(a_at), b(b_at), sum);
    a_at = a_at + parameter(3u);
    b_at = b_at + parameter(4u);
  }}
  return parameter_f32(6u) * sum{addend};
}}\n"
    );
    l.map(0, "gemm", inputs, &functions, parameters);
}
