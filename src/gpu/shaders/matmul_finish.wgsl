
// The value to store for a sum of products.
$if SPLIT
fn result(sum: f32, row: u32, column: u32, place: u32) -> f32 { return sum; }
$else
fn result(sum: f32, row: u32, column: u32, place: u32) -> f32 {
  return follow(plus(parameter_f32(6u) * sum, channel(row, column), place), place);
}
$end

$if STORE_WIDE
$else
// Stores a sum unless it lies outside of the matrix.
fn finish(sum: f32, row: u32, column: u32) {
  if (row >= parameter(0u) || column >= parameter(1u)) { return; }
  let place = output_at + row * parameter(7u) + column * parameter(8u);
  store(part_at + place, result(sum, row, column, place));
}
$end

// Stores the sums of four neighboring columns.
fn finish_four(sums: vec4<f32>, row: u32, column: u32) {
$if STORE_WIDE
  if (row >= parameter(0u) || column >= parameter(1u)) { return; }
  let place = output_at + row * parameter(7u) + column;
  let four = vec4<f32>(
    result(sums.x, row, column, place),
    result(sums.y, row, column + 1u, place + 1u),
    result(sums.z, row, column + 2u, place + 2u),
    result(sums.w, row, column + 3u, place + 3u),
  );
  store_four((part_at + place) >> 2u, four);
$else
  finish(sums.x, row, column);
  finish(sums.y, row, column + 1u);
  finish(sums.z, row, column + 2u);
  finish(sums.w, row, column + 3u);
$end
}
