
// A convolution as a product of the filters of a group [output channels, terms] with the pieces of the image that they meet
// [terms, output positions] ("implicit GEMM"). A term is a channel and a place in the filter.
//
// Parameters: sizes and strides of output, input and filter, 30 the groups, and from 31 on: output channels of a group, output
// positions, terms, then for height and width strides, paddings in front and dilations.
var<private> batch: u32;
var<private> group: u32;

fn sizes() -> vec3<u32> { return vec3<u32>(parameter(31u), parameter(32u), parameter(33u)); }

fn prepare(stack: u32) {
  batch = stack / parameter(30u);
  group = stack % parameter(30u);
}

fn a_element(row: u32, k: u32) -> f32 {
  let at = term(k);
  return w(place(16u, vec4<u32>(group * parameter(31u) + row, at.x, at.y, at.z)));
}

fn b_element(k: u32, column: u32) -> f32 {
  let at = term(k);
  let width = parameter(3u);
  // Positions in the padding in front are huge numbers.
  let y = column / width * parameter(34u) + at.y * parameter(38u) - parameter(36u);
  let x_at = column % width * parameter(35u) + at.z * parameter(39u) - parameter(37u);
  if (y >= parameter(10u) || x_at >= parameter(11u)) { return 0.0; }
  return x(place(8u, vec4<u32>(batch, group * parameter(17u) + at.x, y, x_at)));
}

fn output_place(row: u32, column: u32) -> u32 {
  let width = parameter(3u);
  return place(0u, vec4<u32>(batch, group * parameter(31u) + row, column / width, column % width));
}

fn plus(sum: f32, row: u32, at: u32) -> f32 {
  let c = group * parameter(31u) + row;
  return sum + BIAS;
}
