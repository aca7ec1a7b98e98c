// The place of the input element for element `i` of the output, or 0xffffffff in constant padding.
fn source(i: u32) -> u32 {
  let rank = parameter(0u);
  let mode = parameter(1u);
  var at = 0u;
  var rest = i;
  for (var d = 0u; d < rank; d = d + 1u) {
    let first = 2u + 4u * d;
    let size = parameter(first);
    let outer = rest / size;
    let input_size = i32(parameter(first + 2u));
    var place = i32(rest - outer * size) - i32(parameter(first + 1u));
    rest = outer;
    if (place < 0 || place >= input_size) {
      if (mode == 0u) { return 0xffffffffu; }
      if (mode == 1u) {
        place = clamp(place, 0, input_size - 1);
      } else {
        place = abs(place);
        place = select(place, 2 * (input_size - 1) - place, place >= input_size);
      }
    }
    at = at + u32(place) * parameter(first + 3u);
  }
  return at;
}
