
// output[i] = (x[i] - mean) / sqrt(mean of squares of differences + epsilon) * scale + bias, or without the mean.
//
// A power of two makes the largest element, and the root of epsilon, about 1: squares of floats reach neither infinity nor 0
// then.
fn run() {
  let length = parameter(1u);
  let first = first_of(row);
  var largest = ROOT;
  for (var i = lane; i < length; i = i + LANES) { largest = max_f32(largest, abs(fetch(i, first + element_of(i)))); }
  largest = largest_across(largest);
  let size = unit(largest);
  var mean = 0.0;
  if (CENTRED) {
    var total = vec2<f32>(0.0);
    for (var i = lane; i < length; i = i + LANES) {
      total = add_precise(total, vec2<f32>(again(i, first + element_of(i)) * size, 0.0));
    }
    total = total_across(total);
    mean = (total.x + total.y) / f32(length);
  }
  // Two passes: the mean of squares less the square of the mean cancels where the mean is large.
  var squares = vec2<f32>(0.0);
  for (var i = lane; i < length; i = i + LANES) {
    let difference = again(i, first + element_of(i)) * size - mean;
    squares = add_precise(squares, vec2<f32>(difference * difference, 0.0));
  }
  squares = total_across(squares);
  let deviation = 1.0 / sqrt((squares.x + squares.y) / f32(length) + EPSILON * size * size);
  if (!is_row) { return; }
  for (var i = lane; i < length; i = i + LANES) {
    let at = first + element_of(i);
    let normal = (again(i, at) * size - mean) * deviation;
    store(at, follow(normal * SCALE + BIAS, at));
  }
}
