
// output[stack, r, c] = plus(sum over k of a[stack, r, k] b[stack, k, c]); parameters as in matmul_tiled.wgsl.
fn value(i: u32) -> output_value {
  let columns = parameter(1u);
  let row = i / columns;
  let stack = row / parameter(0u);
  var a_at = strided(parameter(8u), stack) + row % parameter(0u) * parameter(3u);
  var b_at = strided(parameter(9u), stack) + i % columns * parameter(6u);
  var sum = 0.0;
  for (var k = 0u; k < parameter(2u); k = k + 1u) {
    sum = fma(a(a_at), b(b_at), sum);
    a_at = a_at + parameter(4u);
    b_at = b_at + parameter(5u);
  }
  return plus(sum, i);
}
