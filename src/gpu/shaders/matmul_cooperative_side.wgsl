
// The part of a tile that one invocation carries to workgroup memory, four elements selected by `slot`; and the place
// there of the square at a position and a term of the tile.
$if TERMS
fn $SIDE_fetch(first: u32, term: u32, slot: u32) -> vec4<f16> {
  return $SIDE_load(first + (slot >> 3u), term + (slot & 7u) * 4u);
}
fn $SIDE_keep(slot: u32, four: vec4<f16>) { $SIDE_stage[(slot >> 3u) * $PITCHu + (slot & 7u)] = four; }
fn $SIDE_square(position: u32, term: u32) -> u32 { return position * $PITCHu + term / 4u; }
$else
fn $SIDE_fetch(first: u32, term: u32, slot: u32) -> vec4<f16> {
  return $SIDE_load(first + (slot % $FOURSu) * 4u, term + slot / $FOURSu);
}
fn $SIDE_keep(slot: u32, four: vec4<f16>) { $SIDE_stage[slot / $FOURSu * $PITCHu + slot % $FOURSu] = four; }
fn $SIDE_square(position: u32, term: u32) -> u32 { return term * $PITCHu + position / 4u; }
$end
