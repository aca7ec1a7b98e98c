
// output[i] = e^(x[i] - largest) / sum over the row
fn run() {
  let length = parameter(1u);
  let first = first_of(row);
  var largest = LOWEST;
  for (var i = lane; i < length; i = i + LANES) { largest = max_f32(largest, fetch(i, first + element_of(i))); }
  largest = largest_across(largest);
  var total = vec2<f32>(0.0);
  for (var i = lane; i < length; i = i + LANES) {
    let power = exp_f32(again(i, first + element_of(i)) - largest);
    total = add_precise(total, vec2<f32>(power, 0.0));
  }
  total = total_across(total);
  let sum = total.x + total.y;
  if (!is_row) { return; }
  for (var i = lane; i < length; i = i + LANES) {
    let at = first + element_of(i);
    store(at, follow(exp_f32(again(i, at) - largest) / sum, at));
  }
}
