
// output[n, c, y, x] = bias[c] + sum over k and taps r, s of input[n, first + k, y of r, x of s] times the filter's
// element for c, k, r and s. first_input(c) returns the first input channel for c; filter_place(c, r, s) returns the
// place of the filter's elements, FILTER_STEP apart per input channel.
fn value(i: u32) -> output_value {
  let at = coordinates(i);
  let c = at.y;
  let rows = parameter(24u) + 3u * at.z;
  let columns = parameter(25u) + 3u * at.w;
  var sum = BIAS;
  var r = parameter(rows);
  var y = parameter(rows + 2u);
  for (var i = 0u; i < parameter(rows + 1u); i = i + 1u) {
    var s = parameter(columns);
    var x_at = parameter(columns + 2u);
    for (var j = 0u; j < parameter(columns + 1u); j = j + 1u) {
      var source = place(8u, vec4<u32>(at.x, first_input(c), y, x_at));
      var weight = filter_place(c, r, s);
      for (var k = 0u; k < group_inputs(); k = k + 1u) {
        sum = fma(x(source), w(weight), sum);
        source = source + parameter(13u);
        weight = weight + parameter(FILTER_STEP);
      }
      s = s + parameter(27u);
      x_at = x_at + parameter(29u);
    }
    r = r + parameter(26u);
    y = y + parameter(28u);
  }
  return sum;
}
