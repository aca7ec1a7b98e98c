
// Interpolates 8-bit elements in integer arithmetic, which detects exact ties and rounds them to even. Weights are
// fractions whose denominator is twice the size of the output.
fn exact(i: u32) -> u32 {
  let found = locate(i);
  let rows = between(0u, found.coordinates[0]);
  let columns = between(1u, found.coordinates[1]);
  let row_parts = 2u * found.coordinates[0].y;
  let column_parts = 2u * found.coordinates[1].y;
  let upper = along_x(found.at + rows.x, columns, column_parts);
  let lower = along_x(found.at + rows.y, columns, column_parts);
  let sum = add_u64(scaled(upper, row_parts - rows.z), scaled(lower, rows.z));
  let whole = mul_u64(u32_to_u64(row_parts), u32_to_u64(column_parts));
  let quotient = div_u64(sum, whole);
  let remainder = sub_u64(sum, mul_u64(quotient, whole));
  let twice = add_u64(remainder, remainder);
  let result = u64_to_u32(quotient);
  let up = less_u64(whole, twice) || (equal_u64(whole, twice) && (result & 1u) == 1u);
  return result + select(0u, 1u, up);
}

fn scaled(x: u64_value, weight: u32) -> u64_value { return mul_u64(x, u32_to_u64(weight)); }
fn positive(at: u32) -> u64_value { return u32_to_u64(u32(i32(x(at)) + OFFSET)); }

fn along_x(at: u32, columns: vec3<u32>, parts: u32) -> u64_value {
  return add_u64(scaled(positive(at + columns.x), parts - columns.z), scaled(positive(at + columns.y), columns.z));
}
