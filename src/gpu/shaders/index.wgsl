
// The place of element `i`. Parameters: rank and offset, then size and stride of each dimension, the last dimension
// first. Strides may be negative.
fn strided(first: u32, i: u32) -> u32 {
  let rank = parameter(first);
  var at = parameter(first + 1u);
  var rest = i;
  for (var d = 0u; d < rank; d = d + 1u) {
    let size = parameter(first + 2u + 2u * d);
    let outer = rest / size;
    at = at + (rest - outer * size) * parameter(first + 3u + 2u * d);
    rest = outer;
  }
  return at;
}
