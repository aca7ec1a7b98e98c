
// output[stack, r, c] = result(sum over terms k of a[r, k] b[k, c]) for up to $ROWS rows and a b with contiguous
// columns
//
// A workgroup computes 32 columns. Its 256 invocations form 32 slices of the terms for each group of 4 columns.
// Neighbors read adjacent elements, for 4 terms of b at a time to have several reads in flight; the sums of all slices
// are added at the end. Dispatch: as matmul_tiled.wgsl, for tiles of $HEIGHT rows and 32 columns.
var<workgroup> sums: array<array<array<vec4<f32>, 8>, 32>, $CHUNK>;

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
// WORK
  let slice = local >> 3u;
  let lane = local & 7u;
  let column = first_column + lane * 4u;
$for part 0 $CHUNKS
$for r 0 $CHUNK
  var sum_$part_$r = vec4<f32>();
$end
$end
  for (var term = first_term + slice * 4u; term < last_term; term = term + 128u) {
$for j 0 4
    let b_$j = b_load(column, term + $ju);
$end
$for part 0 $CHUNKS
$for r 0 $CHUNK
    let a_$part_$r = a_load(first_row + $partu * $CHUNKu + $ru, term);
$for j 0 4
    sum_$part_$r = fma(vec4<f32>(a_$part_$r[$j]), b_$j, sum_$part_$r);
$end
$end
$end
  }

  let own_row = local >> 5u;
  let own_column = local & 31u;
$for part 0 $CHUNKS
$for r 0 $CHUNK
  sums[$r][slice][lane] = sum_$part_$r;
$end
  workgroupBarrier();
  if (own_row < $CHUNKu) {
    var total = 0.0;
    for (var s = 0u; s < 32u; s = s + 1u) { total = total + sums[own_row][s][own_column >> 2u][own_column & 3u]; }
    finish(total, first_row + $partu * $CHUNKu + own_row, first_column + own_column);
  }
  workgroupBarrier();
$end
}
