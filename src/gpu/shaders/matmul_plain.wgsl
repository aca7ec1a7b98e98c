
// output[stack, r, c] = plus(sum over k of a[r, k] b[k, c]), with the functions of matmul.wgsl.
fn value(i: u32) -> output_value {
  let columns = parameter(1u);
  let row = i / columns;
  prepare(row / parameter(0u));
  var sum = 0.0;
  for (var k = 0u; k < parameter(2u); k = k + 1u) {
    sum = fma(a_element(row % parameter(0u), k), b_element(k, i % columns), sum);
  }
  return plus(sum, row, i);
}
