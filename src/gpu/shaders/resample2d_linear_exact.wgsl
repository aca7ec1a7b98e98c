// Elements of 8 bits between others, computed in whole numbers: a tie is rounded to the even one, and must be seen as one.
//
// Parameters as for the nearest neighbour; an entry of a table is the lower place, the higher one, and the weight of the
// higher one as a fraction with twice the size of the output below the line.
fn exact(i: u32) -> u32 {
  var at = 0u;
  var rest = i;
  var places: array<vec2<u32>, 2>;
  var weights: array<u32, 2>;
  var wholes: array<u32, 2>;
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
        weights[t] = parameter(entry + 2u);
        wholes[t] = 2u * size;
      }
    }
  }
  let upper = along_x(at + places[0].x, places[1], weights[1], wholes[1]);
  let lower = along_x(at + places[0].y, places[1], weights[1], wholes[1]);
  let sum = add_u64(scaled(upper, wholes[0] - weights[0]), scaled(lower, weights[0]));
  let whole = mul_u64(u32_to_u64(wholes[0]), u32_to_u64(wholes[1]));
  let quotient = div_u64(sum, whole);
  let remainder = sub_u64(sum, mul_u64(quotient, whole));
  let twice = add_u64(remainder, remainder);
  let result = u64_to_u32(quotient);
  let up = less_u64(whole, twice) || (equal_u64(whole, twice) && (result & 1u) == 1u);
  return result + select(0u, 1u, up);
}

fn scaled(x: u64_value, weight: u32) -> u64_value { return mul_u64(x, u32_to_u64(weight)); }
fn positive(at: u32) -> u64_value { return u32_to_u64(u32(i32(x(at)) + OFFSET)); }

fn along_x(at: u32, places: vec2<u32>, weight: u32, whole: u32) -> u64_value {
  return add_u64(scaled(positive(at + places.x), whole - weight), scaled(positive(at + places.y), weight));
}
