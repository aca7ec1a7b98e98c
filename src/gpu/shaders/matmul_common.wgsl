
// Shared by all kernels of products.
//
// Parameters: 0 rows, 1 columns, 2 depth (the number of terms per sum), 3 parts that the terms are split into, 4 terms
// per part, 5 elements of the output, 6 alpha, 7 and 8 row and column stride of the output, 9 first parameter of
// strided() for its matrices.
const NOWHERE: u32 = 0xffffffffu;
var<private> end_of_terms: u32;
var<private> part_at: u32;
var<private> output_at: u32;
var<private> stack_at: u32;

fn prepare(part: u32, stack: u32) {
  end_of_terms = min((part + 1u) * parameter(4u), parameter(2u));
  part_at = part * parameter(5u);
  stack_at = stack;
  output_at = strided(parameter(9u), stack);
  a_prepare(stack);
  b_prepare(stack);
}

fn channel(row: u32, column: u32) -> u32 {
  let position = $POSITION;
  return $CHANNEL;
}
