
// The operands of a stack of products of matrices.
//
// Parameters: rows, columns, depth; distances of rows and columns of a, and of b; alpha; where the numbers of strided() begin
// for the stacks of a and of b.
var<private> a_at: u32;
var<private> b_at: u32;
var<private> output_at: u32;

fn sizes() -> vec3<u32> { return vec3<u32>(parameter(0u), parameter(1u), parameter(2u)); }

fn prepare(stack: u32) {
  a_at = strided(parameter(8u), stack);
  b_at = strided(parameter(9u), stack);
  output_at = stack * parameter(0u) * parameter(1u);
}

fn a_element(row: u32, k: u32) -> f32 { return a(a_at + row * parameter(3u) + k * parameter(4u)); }
fn b_element(k: u32, column: u32) -> f32 { return b(b_at + k * parameter(5u) + column * parameter(6u)); }
fn output_place(row: u32, column: u32) -> u32 { return output_at + row * parameter(1u) + column; }
