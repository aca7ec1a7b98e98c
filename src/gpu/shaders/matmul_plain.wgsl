
// output[i] = follow(plus(alpha * (sum over terms k of a[r, k] b[k, c]))); rows are contiguous in the output.
fn value(i: u32) -> output_value {
  let row = i / parameter(1u);
  let column = i % parameter(1u);
  prepare(0u, row / parameter(0u));
  var sum = 0.0;
  for (var term = 0u; term < parameter(2u); term = term + 1u) {
    sum = fma(a(a_place(row % parameter(0u), term)), b(b_place(column, term)), sum);
  }
  return plus(parameter_f32(6u) * sum, channel(row % parameter(0u), column), i);
}
