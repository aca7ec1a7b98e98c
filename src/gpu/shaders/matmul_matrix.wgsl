
// One side of a product with constant strides. Parameters from $FIRST on: the strides of positions (rows of the first
// matrix, columns of the second) and of terms, and the first parameter of strided() for the stack.
var<private> $SIDE_at: u32;

fn $SIDE_prepare(stack: u32) { $SIDE_at = strided(parameter($FIRSTu + 2u), stack); }
fn $SIDE_place(position: u32, term: u32) -> u32 {
  return $SIDE_at + position * parameter($FIRSTu) + term * parameter($FIRSTu + 1u);
}
