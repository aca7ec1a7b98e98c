// Parameters as for the nearest neighbour; an entry of a table is the lower place, the higher one, and how far the element
// is on the way between them.
fn linear(i: u32) -> f32 {
  var at = 0u;
  var rest = i;
  var places: array<vec2<u32>, 2>;
  var weights: array<f32, 2>;
  for (var d = 0u; d < 4u; d = d + 1u) {
    let size = parameter(2u * d);
    let c = rest % size;
    rest = rest / size;
    at = at + c * parameter(2u * d + 1u);
    for (var t = 0u; t < 2u; t = t + 1u) {
      if (parameter(8u + 3u * t) == d) {
        let entry = parameter(9u + 3u * t) + 3u * c;
        let stride = parameter(10u + 3u * t);
        places[t] = vec2<u32>(parameter(entry), parameter(entry + 1u)) * stride;
        weights[t] = parameter_f32(entry + 2u);
      }
    }
  }
  let upper = along_x(at + places[0].x, places[1], weights[1]);
  let lower = along_x(at + places[0].y, places[1], weights[1]);
  return upper * (1.0 - weights[0]) + lower * weights[0];
}

fn along_x(at: u32, places: vec2<u32>, weight: f32) -> f32 {
  return f32(x(at + places.x)) * (1.0 - weight) + f32(x(at + places.y)) * weight;
}
