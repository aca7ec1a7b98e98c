// Shares rows between invocations: LANES invocations process each of the ROWS rows of a workgroup.
//
// Parameters: number of rows, elements per row, parts per row. Dispatch: one workgroup per ROWS rows and part, in a
// grid, parts first.
var<private> row: u32;
// Workgroups past the last row compute the last one again and do not store it.
var<private> is_row: bool;
var<private> own_row: u32;
var<private> lane: u32;
var<private> part: u32;
var<private> subgroup: u32;
var<private> subgroups: u32;
var<private> subgroup_lane: u32;
var<private> subgroup_lanes: u32;

@compute @workgroup_size(WORKGROUP)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
BUILTINS) {
  let block = group.y * groups.x + group.x;
  let count = parameter(0u);
  let first = block / parameter(2u) * ROWS;
  // Uniform within a workgroup.
  if (first >= count) { return; }
  part = block % parameter(2u);
  lane = ROW_LANE;
  own_row = OWN_ROW;
  row = min(first + own_row, count - 1u);
  is_row = first + own_row < count;
KNOWN  run();
}
