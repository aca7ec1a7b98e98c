
// The operands of an attention. Parameters: rows, keys, depth, columns, scale; then, for query, key, value, output and
// each mask: row stride, column stride, and the first parameter of strided() for the matrices.
fn place(operand: u32, start: u32, row: u32, column: u32) -> u32 {
  return start + row * parameter(5u + 3u * operand) + column * parameter(6u + 3u * operand);
}
fn start_of(operand: u32, matrix: u32) -> u32 { return strided(parameter(7u + 3u * operand), matrix); }
