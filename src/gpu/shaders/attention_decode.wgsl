
// One part of an attention, for one row of queries and up to 256 keys: the sum of the values weighted by the
// exponentials of their scores relative to the largest score, the largest score, and the sum of the exponentials.
//
// Eight invocations compute one score; then each invocation computes a column for a quarter of the keys. Columns and
// depth are at most 256. Dispatch: one workgroup per row of each matrix and each 256 keys, in a grid: keys first.
var<workgroup> query_row: array<f32, 256>;
var<workgroup> scores: array<f32, 256>;
var<workgroup> terms: array<f32, 256>;
var<workgroup> quarters: array<f32, 1024>;

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
  let parts = (key_count + 255u) / 256u;
  let block = group.y * groups.x + group.x;
  let line = block / parts;
  let matrix = line / row_count;
  // Uniform within a workgroup.
  if (matrix >= immediates.elements) { return; }
  let row = line % row_count;
  let first_key = block % parts * 256u;
  let keys = min(key_count - first_key, 256u);
  let query_at = start_of(0u, matrix);
  let key_at = start_of(1u, matrix);
  let value_at = start_of(2u, matrix);
  if (local < depth) { query_row[local] = query(place(0u, query_at, row, local)); }
  workgroupBarrier();

  let lane = local & 7u;
  let own = local >> 3u;
  for (var first = 0u; first < 256u; first = first + 32u) {
    let own_key = first + own;
    var sum = 0.0;
    if (own_key < keys) {
      for (var i = lane; i < depth; i = i + 8u) {
        sum = fma(query_row[i], key(place(1u, key_at, first_key + own_key, i)), sum);
      }
    }
    terms[local] = sum;
    workgroupBarrier();
    if (lane == 0u) {
      var score = LOWEST;
      if (own_key < keys) {
        for (var i = 1u; i < 8u; i = i + 1u) { sum = sum + terms[local + i]; }
        score = masked(parameter_f32(4u) * sum, matrix, row, first_key + own_key);
      }
      scores[own_key] = score;
    }
    workgroupBarrier();
  }

  terms[local] = scores[local];
  for (var half = 128u; half > 0u; half = half / 2u) {
    workgroupBarrier();
    if (local < half) { terms[local] = max_f32(terms[local], terms[local + half]); }
  }
  workgroupBarrier();
  // All scores may be -infinity.
  let largest = max_f32(terms[0], LOWEST);
  let power = select(0.0, exp_f32(scores[local] - largest), local < keys);
  workgroupBarrier();
  scores[local] = power;
  terms[local] = power;
  for (var half = 128u; half > 0u; half = half / 2u) {
    workgroupBarrier();
    if (local < half) { terms[local] = terms[local] + terms[local + half]; }
  }
  workgroupBarrier();

  let quarter = local >> 6u;
  for (var column = local & 63u; column < column_count; column = column + 64u) {
    var sum = 0.0;
    for (var i = quarter; i < keys; i = i + 4u) {
      sum = fma(scores[i], value_of(place(2u, value_at, first_key + i, column)), sum);
    }
    quarters[quarter * 256u + column] = sum;
  }
  workgroupBarrier();
  let at = block * (column_count + 2u);
  if (local < column_count) {
    let sum = (quarters[local] + quarters[256u + local]) + (quarters[512u + local] + quarters[768u + local]);
    store(at + 2u + local, sum);
  }
  if (local == 0u) {
    store(at, largest);
    store(at + 1u, terms[0]);
  }
}
