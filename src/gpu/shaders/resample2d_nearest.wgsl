// Parameters: for each dimension, the last one first, size of the output and stride of the input; then for each of the two
// dimensions that are resampled which it is, where its table begins, and the stride of the input.
fn nearest(i: u32) -> x_value {
  var at = 0u;
  var rest = i;
  for (var d = 0u; d < 4u; d = d + 1u) {
    let size = parameter(2u * d);
    let c = rest % size;
    rest = rest / size;
    at = at + c * parameter(2u * d + 1u);
    for (var t = 0u; t < 2u; t = t + 1u) {
      if (parameter(8u + 3u * t) == d) { at = at + parameter(parameter(9u + 3u * t) + c) * parameter(10u + 3u * t); }
    }
  }
  return x(at);
}
