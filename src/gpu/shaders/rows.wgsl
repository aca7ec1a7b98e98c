// Who computes what of a row: LANES invocations share each of the ROWS rows of a workgroup.
//
// Parameters: number of rows, elements of a row, parts of a row. Dispatch: one workgroup for ROWS rows and each part, in a
// grid, parts first.
var<private> row: u32;
// Where the row is past the last one, the last one is computed once more and not stored.
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
  // The same for all invocations of a workgroup.
  if (first >= count) { return; }
  part = block % parameter(2u);
  lane = ROW_LANE;
  own_row = OWN_ROW;
  row = min(first + own_row, count - 1u);
  is_row = first + own_row < count;
KNOWN  run();
}
