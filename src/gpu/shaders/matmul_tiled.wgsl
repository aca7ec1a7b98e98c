
// output[stack, r, c] = result(sum over terms k of a[r, k] b[k, c])
//
// A workgroup of $INVOCATIONS invocations computes a tile of $HEIGHT rows and columns, each invocation $ROW_GROUPS
// times 4 rows of $COLUMN_GROUPS times 4 columns. The operands pass through workgroup memory, 8 terms at a time: 4
// elements of both sides per invocation. The memory holds two steps: while one is multiplied, the next is read, first
// into registers.
//
// `a_load` and `b_load` return the operands, `finish_four` stores the sums. Dispatch: one workgroup per part of the
// terms, matrix, tile of rows and tile of columns, in a grid: columns first.
//
// Rows of tiles are padded by 4 floats. With contiguous terms, two invocations carry the 8 terms of a position; without
// padding, their stores, 4 rows apart, would hit the same banks.
var<workgroup> a_tile: array<array<array<vec4<f32>, $PITCH>, 8>, 2>;
var<workgroup> b_tile: array<array<array<vec4<f32>, $PITCH>, 8>, 2>;

@compute @workgroup_size($INVOCATIONS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
// WORK
  // 32 invocations, a subgroup on many devices, compute 4 times 8 pieces: together they read few words of the tiles.
  let block = local >> 5u;
  let row = (block / $BLOCKSu) * 4u + ((local >> 3u) & 3u);
  let column = (block % $BLOCKSu) * 8u + (local & 7u);
$for i 0 $ROW_GROUPS
$for j 0 4
$for h 0 $COLUMN_GROUPS
  var sum_$i_$j_$h = vec4<f32>();
$end
$end
$end

  a_keep(0u, local, a_fetch(first_row, first_term, local));
  b_keep(0u, local, b_fetch(first_column, first_term, local));
  workgroupBarrier();
  var buffer = 0u;
  for (var term = first_term; term < last_term; term = term + 8u) {
    let next_a = a_fetch(first_row, term + 8u, local);
    let next_b = b_fetch(first_column, term + 8u, local);
$for k 0 8
    {
$for i 0 $ROW_GROUPS
      let a_$i = a_tile[buffer][$k][row + $iu * $ROW_THREADSu];
$end
$for h 0 $COLUMN_GROUPS
      let b_$h = b_tile[buffer][$k][column + $hu * $COLUMN_THREADSu];
$end
$for i 0 $ROW_GROUPS
$for j 0 4
$for h 0 $COLUMN_GROUPS
      sum_$i_$j_$h = fma(vec4<f32>(a_$i[$j]), b_$h, sum_$i_$j_$h);
$end
$end
$end
    }
$end
    buffer = 1u - buffer;
    a_keep(buffer, local, next_a);
    b_keep(buffer, local, next_b);
    workgroupBarrier();
  }

$for i 0 $ROW_GROUPS
$for j 0 4
$for h 0 $COLUMN_GROUPS
  finish_four(
    sum_$i_$j_$h,
    first_row + (row + $iu * $ROW_THREADSu) * 4u + $ju,
    first_column + (column + $hu * $COLUMN_THREADSu) * 4u,
  );
$end
$end
$end
}
