
// output[n, c, y, x] = bias[c] + sum over taps r, s of input[n, c / outputs per group, y of r, x of s] times the
// filter's element for c, r and s.
//
// An invocation computes 4 neighbors along the width. Parameters: sizes and strides of output, input and filter; from
// 24 on: outputs per group, blocks of 4 columns, number of items; stride, leading padding and dilation along the
// height; leading padding along a line. Dispatch: one invocation per item.
fn pixel(line: u32, column: u32) -> f32 {
  // Positions in the leading padding wrap around to huge numbers.
  if (column >= parameter(11u)) { return 0.0; }
  return x(line + column * parameter(15u));
}

@compute @workgroup_size(WORKGROUP)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let item = (group.y * groups.x + group.x) * WORKGROUPu + local;
  if (item >= parameter(26u)) { return; }
  let at = item_of(item);
  let c = at.y;
  let first = at.w * 4u;
  let column = first * STRIDE - parameter(30u);
  var sum = vec4<f32>(BIAS);
  for (var r = 0u; r < parameter(18u); r = r + 1u) {
    let y = at.z * parameter(27u) + r * parameter(29u) - parameter(28u);
    if (y < parameter(10u)) {
      let line = place(8u, vec4<u32>(at.x, c / parameter(24u), y, 0u));
      let weights = place(16u, vec4<u32>(c, 0u, r, 0u));
// LINE
    }
  }
  for (var j = 0u; j < 4u; j = j + 1u) {
    if (first + j < parameter(3u)) {
      let to = place(0u, vec4<u32>(at.x, c, at.z, first + j));
      store(to, follow(sum[j], to));
    }
  }
}
