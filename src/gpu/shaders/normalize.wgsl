
// output[i] = (x[i] - mean) / sqrt(mean of squared differences + epsilon) * scale + bias; the mean is optional.
//
// A power of two scales the largest element, or the root of epsilon, to about 1: squares of floats then reach neither
// infinity nor 0.
fn run() {
  let length = parameter(1u);
  let first = first_of(row);
  var largest = ROOT;
  for (var i = lane; i < length; i = i + LANES) { largest = max_f32(largest, abs(fetch(i, first + element_of(i)))); }
  largest = largest_across(largest);
  let size = unit(largest);
  var mean = 0.0;
  if (CENTERED) {
    var total = vec2<f32>(0.0);
    for (var i = lane; i < length; i = i + LANES) {
      total = add_precise(total, vec2<f32>(again(i, first + element_of(i)) * size, 0.0));
    }
    total = total_across(total);
    mean = (total.x + total.y) / f32(length);
  }
  // Two passes: the mean of squares minus the square of the mean cancels if the mean is large.
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
