
// output[i] = follow(plus(alpha * (sum of the parts of a product), channel of i, i)); the parts are added in order.
// Parameters: as matmul_common.wgsl.
fn value(i: u32) -> f32 {
  var sum = 0.0;
  for (var part = 0u; part < parameter(3u); part = part + 1u) { sum = sum + parts(part * parameter(5u) + i); }
  return plus(parameter_f32(6u) * sum, channel_of(i), i);
}
