// One workgroup computes one result: each invocation combines every 256th element, then pairs are combined.
//
// Parameters: number of results, number of elements of each, where the numbers of strided() begin for both.
// Dispatch: one workgroup per result, in a grid.
var<workgroup> totals: array<total_value, 256>;

fn first_of(row: u32) -> u32 { return strided(parameter(2u), row); }

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let row = group.y * groups.x + group.x;
  // The same for all invocations of a workgroup.
  if (row >= parameter(0u)) { return; }
  let length = parameter(1u);
  let first = first_of(row);
  var result = start(row);
  for (var i = local; i < length; i = i + 256u) {
    result = combine(result, term(first + strided(parameter(3u), i), i, row));
  }
  totals[local] = result;
  for (var half = 128u; half > 0u; half = half / 2u) {
    workgroupBarrier();
    if (local < half) { totals[local] = combine(totals[local], totals[local + half]); }
  }
  if (local == 0u) {
    result = totals[0];
    // STORE
  }
}
