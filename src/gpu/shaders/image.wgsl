
// Coordinates of element `i` of an image; its sizes and strides (batches, channels, height, width) are the parameters
// from 0 on.
fn coordinates(i: u32) -> vec4<u32> {
  let sizes = vec4<u32>(parameter(0u), parameter(1u), parameter(2u), parameter(3u));
  let strides = vec4<u32>(parameter(4u), parameter(5u), parameter(6u), parameter(7u));
  return (i / strides) % sizes;
}

// The place of an element; the sizes and strides are the parameters from `first` on.
fn place(first: u32, c: vec4<u32>) -> u32 {
  return c.x * parameter(first + 4u) + c.y * parameter(first + 5u) + c.z * parameter(first + 6u) + c.w * parameter(first + 7u);
}
