
// Combines the parts of attention_decode.wgsl. Dispatch: one workgroup per row of each matrix, in a grid.
@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let row_count = parameter(0u);
  let column_count = parameter(3u);
  let parts = (parameter(1u) + 255u) / 256u;
  let line = group.y * groups.x + group.x;
  let matrix = line / row_count;
  if (matrix >= immediates.elements) { return; }
  let row = line % row_count;
  let size = column_count + 2u;
  let first = line * parts * size;
  var largest = LOWEST;
  for (var p = 0u; p < parts; p = p + 1u) { largest = max_f32(largest, partial(first + p * size)); }
  var total = 0.0;
  for (var p = 0u; p < parts; p = p + 1u) {
    let at = first + p * size;
    total = fma(exp_f32(partial(at) - largest), partial(at + 1u), total);
  }
  let is_empty = total == 0.0 || is_nan(total);
  let output_at = start_of(3u, matrix);
  for (var column = local; column < column_count; column = column + 64u) {
    var sum = 0.0;
    for (var p = 0u; p < parts; p = p + 1u) {
      let at = first + p * size;
      sum = fma(exp_f32(partial(at) - largest), partial(at + 2u + column), sum);
    }
    let to = place(3u, output_at, row, column);
    store(to, follow(select(sum / total, EMPTY, is_empty), to));
  }
}
