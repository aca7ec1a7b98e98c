
// Combines the terms of a row, or of a part of one, and finishes the total.
fn run() {
  let length = parameter(1u);
  let size = (length + parameter(2u) - 1u) / parameter(2u);
  let first = min(part * size, length);
  let last = min(first + size, length);
  var total = start(row);
  for (var i = first + lane; i < last; i = i + LANES) { total = combine(total, TERM); }
  total = total_across(total);
  if (lane == 0u && is_row) {
    LAST
  }
}
