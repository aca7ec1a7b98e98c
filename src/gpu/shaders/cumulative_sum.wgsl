// One workgroup processes one row. Each of 256 invocations sums a piece; the sums of the preceding pieces are added in
// order: the result is the same on every device.
//
// Parameters: rows, elements per row, elements after the axis, whether the sum is exclusive, whether it is reversed.
// Dispatch: one workgroup per row, in a grid.
var<workgroup> sums: array<total_value, 256>;

fn at(row: u32, i: u32) -> u32 {
  let size = parameter(1u);
  let inner = parameter(2u);
  let place = select(i, size - 1u - i, parameter(4u) == 1u);
  return (row / inner * size + place) * inner + row % inner;
}

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let row = group.y * groups.x + group.x;
  if (row >= parameter(0u)) { return; }
  let size = parameter(1u);
  let piece = (size + 255u) / 256u;
  let first = min(local * piece, size);
  let last = min(first + piece, size);
  var sum = nothing();
  for (var i = first; i < last; i = i + 1u) { sum = plus(sum, of_element(x(at(row, i)))); }
  sums[local] = sum;
  workgroupBarrier();
  sum = nothing();
  for (var before = 0u; before < local; before = before + 1u) { sum = plus(sum, sums[before]); }
  let exclusive = parameter(3u) == 1u;
  for (var i = first; i < last; i = i + 1u) {
    let next = plus(sum, of_element(x(at(row, i))));
    if (exclusive) {
      output_words[at(row, i)] = rounded(sum);
    } else {
      output_words[at(row, i)] = rounded(next);
    }
    sum = next;
  }
}
