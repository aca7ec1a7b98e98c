
// output[row] = sum over keys of softmax(scale * query[row] key[k] with masks) value[k]
//
// A workgroup computes 16 rows and up to 128 columns of one matrix of the output. It processes 16 keys at a time and
// keeps, per row, the largest score so far and the sum of the exponentials relative to it (Milakov and Gimelshein 2018;
// Dao et al. 2022). Invocation (row, key) computes a score, and then the columns key, key + 16, .. of its row.
//
// Dispatch: one workgroup per matrix, block of rows and block of columns, in a grid: blocks of columns first.
var<workgroup> queries: array<f32, 512>;
var<workgroup> keys: array<f32, 512>;
var<workgroup> powers: array<f32, 256>;
var<workgroup> values: array<f32, 2048>;

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let row_count = parameter(0u);
  let key_count = parameter(1u);
  let depth = parameter(2u);
  let column_count = parameter(3u);
  let row_blocks = (row_count + 15u) / 16u;
  let column_blocks = (column_count + 127u) / 128u;
  let block = group.y * groups.x + group.x;
  let matrix = block / (row_blocks * column_blocks);
  // Uniform within a workgroup.
  if (matrix >= immediates.elements) { return; }
  let first_row = (block / column_blocks) % row_blocks * 16u;
  let first_column = block % column_blocks * 128u;
  let query_at = start_of(0u, matrix);
  let key_at = start_of(1u, matrix);
  let value_at = start_of(2u, matrix);

  let own = local / 16u;
  let lane = local % 16u;
  let row = first_row + own;
  var largest = LOWEST;
  var total = 0.0;
  var sums: array<f32, 8>;
  for (var first_key = 0u; first_key < key_count; first_key = first_key + 16u) {
    // Scores of 16 rows and 16 keys, 32 terms at a time.
    var score = 0.0;
    for (var first = 0u; first < depth; first = first + 32u) {
      for (var j = 0u; j < 2u; j = j + 1u) {
        let term = first + lane + 16u * j;
        let key_row = first_key + own;
        var element = 0.0;
        if (row < row_count && term < depth) { element = query(place(0u, query_at, row, term)); }
        queries[own * 32u + lane + 16u * j] = element;
        element = 0.0;
        if (key_row < key_count && term < depth) { element = key(place(1u, key_at, key_row, term)); }
        keys[own * 32u + lane + 16u * j] = element;
      }
      workgroupBarrier();
      for (var i = 0u; i < 32u; i = i + 1u) { score = fma(queries[own * 32u + i], keys[lane * 32u + i], score); }
      workgroupBarrier();
    }
    let own_key = first_key + lane;
    let valid = row < row_count && own_key < key_count;
    if (valid) { score = masked(parameter_f32(4u) * score, matrix, row, own_key); }
    powers[local] = select(LOWEST, score, valid);
    for (var j = 0u; j < 8u; j = j + 1u) {
      let column = first_column + lane + 16u * j;
      let key_row = first_key + own;
      var element = 0.0;
      if (key_row < key_count && column < column_count) { element = value_of(place(2u, value_at, key_row, column)); }
      values[own * 128u + lane + 16u * j] = element;
    }
    workgroupBarrier();

    var next = largest;
    for (var i = 0u; i < 16u; i = i + 1u) { next = max_f32(next, powers[own * 16u + i]); }
    workgroupBarrier();
    // Scores may all be -infinity or the lowest number, but next is at least the latter.
    powers[local] = select(0.0, exp_f32(powers[local] - next), valid);
    workgroupBarrier();
    let shrink = exp_f32(largest - next);
    total = total * shrink;
    for (var j = 0u; j < 8u; j = j + 1u) { sums[j] = sums[j] * shrink; }
    for (var i = 0u; i < 16u; i = i + 1u) {
      let power = powers[own * 16u + i];
      total = total + power;
      for (var j = 0u; j < 8u; j = j + 1u) { sums[j] = fma(power, values[i * 128u + lane + 16u * j], sums[j]); }
    }
    largest = next;
    workgroupBarrier();
  }

  let output_at = start_of(3u, matrix);
  let is_empty = total == 0.0 || is_nan(total);
  for (var j = 0u; j < 8u; j = j + 1u) {
    let column = first_column + lane + 16u * j;
    if (row < row_count && column < column_count) {
      let at = place(3u, output_at, row, column);
      store(at, follow(select(sums[j] / total, EMPTY, is_empty), at));
    }
  }
}
