
// `$SIDE_load(position, term)`: four neighboring elements of one side of a product, either terms of one position or
// positions of one term; zeros beyond the last position, beyond the last term of this workgroup, and in padding.
$if WIDE
fn $SIDE_load(position: u32, term: u32) -> vec4<$TYPE> {
  if (position >= parameter($COUNTu) || term >= end_of_terms) { return vec4<$TYPE>(); }
  let at = $SIDE_place(position, term);
  if (at == NOWHERE) { return vec4<$TYPE>(); }
  return $SIDE_$READ(at >> 2u);
}
$else
fn $SIDE_or_zero(position: u32, term: u32) -> $TYPE {
  if (position >= parameter($COUNTu) || term >= end_of_terms) { return $TYPE(); }
  let at = $SIDE_place(position, term);
  if (at == NOWHERE) { return $TYPE(); }
  return $TYPE($SIDE(at));
}
fn $SIDE_load(position: u32, term: u32) -> vec4<$TYPE> {
$if TERMS
  return vec4<$TYPE>(
    $SIDE_or_zero(position, term),
    $SIDE_or_zero(position, term + 1u),
    $SIDE_or_zero(position, term + 2u),
    $SIDE_or_zero(position, term + 3u),
  );
$else
  return vec4<$TYPE>(
    $SIDE_or_zero(position, term),
    $SIDE_or_zero(position + 1u, term),
    $SIDE_or_zero(position + 2u, term),
    $SIDE_or_zero(position + 3u, term),
  );
$end
}
$end
