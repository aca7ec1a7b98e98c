
// What the input adds to the gates of all time steps: one element per step, row, gate and unit. Parameters as in
// recurrent.wgsl.
fn value(i: u32) -> f32 {
  let batches = parameter(1u);
  let features = parameter(2u);
  let units = parameter(4u) * parameter(3u);
  let line = i / units;
  let row = line % parameter(6u);
  let weight = row / batches * units + i % units;
  let first = (line / parameter(6u) * batches + row % batches) * features;
  var sum = vec2<f32>(bias(weight), 0.0);
  for (var k = 0u; k < features; k = k + 1u) {
    sum = add_precise(sum, two_product(x(first + k), w(weight * features + k)));
  }
  return sum.x + sum.y;
}
