// The source of element `i` of the output.
//
// Parameters: for each dimension, the last one first, size of the output and stride of the input (0 for the two
// resampled ones); then, for each resampled dimension, its index, the start of its table, and the stride of the input.
struct Resampled {
  // The place of the element, leaving out the two dimensions.
  at: u32,
  // For each of the two: place in its table, size of the output, stride of the input.
  coordinates: array<vec3<u32>, 2>,
}

fn locate(i: u32) -> Resampled {
  var found: Resampled;
  var rest = i;
  for (var d = 0u; d < 4u; d = d + 1u) {
    let size = parameter(2u * d);
    let c = rest % size;
    rest = rest / size;
    found.at = found.at + c * parameter(2u * d + 1u);
    for (var t = 0u; t < 2u; t = t + 1u) {
      if (parameter(8u + 3u * t) == d) { found.coordinates[t] = vec3<u32>(c, size, parameter(10u + 3u * t)); }
    }
  }
  return found;
}

// The entry of a table: the lower place and the higher one (both times the stride), and the weight of the higher one.
fn between(t: u32, coordinates: vec3<u32>) -> vec3<u32> {
  let entry = parameter(9u + 3u * t) + 3u * coordinates.x;
  return vec3<u32>(parameter(entry) * coordinates.z, parameter(entry + 1u) * coordinates.z, parameter(entry + 2u));
}
