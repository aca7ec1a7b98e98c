
// The part of a tile that one invocation carries from one side of the product to workgroup memory.
$if TERMS
fn $SIDE_fetch(first: u32, term: u32, local: u32) -> vec4<f32> {
  return $SIDE_load(first + (local >> 1u), term + (local & 1u) * 4u);
}
fn $SIDE_keep(buffer: u32, local: u32, four: vec4<f32>) {
  let at = local >> 1u;
  let term = (local & 1u) * 4u;
  $SIDE_tile[buffer][term][at >> 2u][at & 3u] = four.x;
  $SIDE_tile[buffer][term + 1u][at >> 2u][at & 3u] = four.y;
  $SIDE_tile[buffer][term + 2u][at >> 2u][at & 3u] = four.z;
  $SIDE_tile[buffer][term + 3u][at >> 2u][at & 3u] = four.w;
}
$else
fn $SIDE_fetch(first: u32, term: u32, local: u32) -> vec4<f32> {
  return $SIDE_load(first + (local % $FOURSu) * 4u, term + local / $FOURSu);
}
fn $SIDE_keep(buffer: u32, local: u32, four: vec4<f32>) {
  $SIDE_tile[buffer][local / $FOURSu][local % $FOURSu] = four;
}
$end
