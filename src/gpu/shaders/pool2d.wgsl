
// Parameters from 16 on: first taps of height and width, strides of taps, strides of input positions.
fn value(i: u32) -> output_value {
  let at = coordinates(i);
  let rows = parameter(16u) + 3u * at.z;
  let columns = parameter(17u) + 3u * at.w;
  var total = ZERO;
  var count = 0u;
  var y = parameter(rows + 2u);
  for (var i = 0u; i < parameter(rows + 1u); i = i + 1u) {
    var x_at = parameter(columns + 2u);
    for (var j = 0u; j < parameter(columns + 1u); j = j + 1u) {
      let v = x(place(8u, vec4<u32>(at.x, at.y, y, x_at)));
      total = TERM;
      count = count + 1u;
      x_at = x_at + parameter(21u);
    }
    y = y + parameter(20u);
  }
  if (count == 0u) { return EMPTY; }
  return RESULT;
}
