
// output[stack, r, c] = result(sum over terms k of a[r, k] b[k, c]) for up to $ROWS rows and a b with contiguous terms
//
// A workgroup computes 32 columns. A team of its invocations processes the terms of 4 columns together, 4 terms per
// invocation, and adds up its members' sums. Teams are subgroups of any size, or 32 invocations that share workgroup
// memory. Dispatch: as matmul_tiled.wgsl, for tiles of $HEIGHT rows and 32 columns.
$if SUBGROUPS
fn sum_of_team(sum: vec4<f32>, local: u32) -> vec4<f32> { return subgroupAdd(sum); }
$else
var<workgroup> sums: array<vec4<f32>, 256>;

fn sum_of_team(sum: vec4<f32>, local: u32) -> vec4<f32> {
  sums[local] = sum;
  for (var half = 16u; half > 0u; half = half / 2u) {
    workgroupBarrier();
    if ((local & 31u) < half) { sums[local] = sums[local] + sums[local + half]; }
  }
  workgroupBarrier();
  let total = sums[local & 0xffffffe0u];
  workgroupBarrier();
  return total;
}
$end

fn columns_of_team(first_row: u32, column: u32, first: u32, last: u32, lane: u32, members: u32, local: u32) {
$for r 0 $ROWS
  var sum_$r = vec4<f32>();
$end
  for (var term = first + lane * 4u; term < last; term = term + members * 4u) {
$for c 0 4
    let b_$c = b_load(column + $cu, term);
$end
$for r 0 $ROWS
    let a_$r = a_load(first_row + $ru, term);
    sum_$r = sum_$r + vec4<f32>(dot(a_$r, b_0), dot(a_$r, b_1), dot(a_$r, b_2), dot(a_$r, b_3));
$end
  }
$for r 0 $ROWS
  let total_$r = sum_of_team(sum_$r, local);
$end
$for r 0 $ROWS
  if (lane == $ru % members) { finish_four(total_$r, first_row + $ru, column); }
$end
}

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
$if SUBGROUPS
  @builtin(subgroup_id) team: u32,
  @builtin(num_subgroups) teams: u32,
  @builtin(subgroup_invocation_id) lane: u32,
  @builtin(subgroup_size) members: u32,
$end
) {
// WORK
$if SUBGROUPS
  for (var c = team; c < 8u; c = c + teams) {
    columns_of_team(first_row, first_column + 4u * c, first_term, last_term, lane, members, local);
  }
$else
  columns_of_team(first_row, first_column + 4u * (local >> 5u), first_term, last_term, local & 31u, 32u, local);
$end
}
