
// output[stack, r, c] = follow(plus(sum over k of a[r, k] b[k, c]))
//
// A workgroup computes a tile of 64 rows and 64 columns, each of its 256 invocations 4 rows and 4 columns of that. The
// operands pass through workgroup memory, 16 of the sum's terms at a time.
//
// What the operands are is said by functions: `sizes()` gives rows, columns and depth, `prepare(stack)` is called once, then
// `a_element(row, k)`, `b_element(k, column)`, `output_place(row, column)`, and `plus(sum, row, place)` for each sum.
// Dispatch: one workgroup per tile of each matrix, in a grid: columns first, then rows.
var<workgroup> a_tile: array<f32, 1024>;
var<workgroup> b_tile: array<f32, 1024>;

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let rows = sizes().x;
  let columns = sizes().y;
  let depth = sizes().z;
  let row_tiles = (rows + 63u) / 64u;
  let column_tiles = (columns + 63u) / 64u;
  let tile = group.y * groups.x + group.x;
  let stack = tile / (row_tiles * column_tiles);
  // The same for all invocations of a workgroup.
  if (stack >= immediates.elements) { return; }
  let first_row = (tile / column_tiles) % row_tiles * 64u;
  let first_column = tile % column_tiles * 64u;
  prepare(stack);

  let own_row = local / 16u * 4u;
  let own_column = local % 16u * 4u;
  var sums: array<vec4<f32>, 4>;
  for (var start = 0u; start < depth; start = start + 16u) {
    for (var j = 0u; j < 4u; j = j + 1u) {
      let place = a_place(local, j);
      let row = first_row + place.x;
      let k = start + place.y;
      var element = 0.0;
      if (row < rows && k < depth) { element = a_element(row, k); }
      a_tile[place.y * 64u + place.x] = element;
    }
    for (var j = 0u; j < 4u; j = j + 1u) {
      let place = b_place(local, j);
      let column = first_column + place.x;
      let k = start + place.y;
      var element = 0.0;
      if (column < columns && k < depth) { element = b_element(k, column); }
      b_tile[place.y * 64u + place.x] = element;
    }
    workgroupBarrier();
    for (var k = 0u; k < 16u; k = k + 1u) {
      let b_first = k * 64u + own_column;
      let b_row = vec4<f32>(b_tile[b_first], b_tile[b_first + 1u], b_tile[b_first + 2u], b_tile[b_first + 3u]);
      let a_first = k * 64u + own_row;
      sums[0] = fma(vec4<f32>(a_tile[a_first]), b_row, sums[0]);
      sums[1] = fma(vec4<f32>(a_tile[a_first + 1u]), b_row, sums[1]);
      sums[2] = fma(vec4<f32>(a_tile[a_first + 2u]), b_row, sums[2]);
      sums[3] = fma(vec4<f32>(a_tile[a_first + 3u]), b_row, sums[3]);
    }
    workgroupBarrier();
  }

  for (var i = 0u; i < 4u; i = i + 1u) {
    let row = first_row + own_row + i;
    for (var j = 0u; j < 4u; j = j + 1u) {
      let column = first_column + own_column + j;
      if (row < rows && column < columns) {
        let place = output_place(row, column);
        store(place, follow(plus(sums[i][j], row, place), place));
      }
    }
  }
}
