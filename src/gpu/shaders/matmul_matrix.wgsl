
// One side of a product whose elements lie at equal distances. Parameters: from $FIRST on the distances of neighbouring
// positions (rows of the first matrix, columns of the second) and terms, and where the numbers of strided() for the stack begin.
var<private> $SIDE_at: u32;

fn $SIDE_prepare(stack: u32) { $SIDE_at = strided(parameter($FIRSTu + 2u), stack); }
fn $SIDE_place(position: u32, term: u32) -> u32 {
  return $SIDE_at + position * parameter($FIRSTu) + term * parameter($FIRSTu + 1u);
}
