// Element functions on i64 and u64, for devices with these types.

alias i64_value = i64;
alias u64_value = u64;

fn add_i64(a: i64, b: i64) -> i64 { return a + b; }
fn sub_i64(a: i64, b: i64) -> i64 { return a - b; }
fn mul_i64(a: i64, b: i64) -> i64 { return a * b; }
fn div_i64(a: i64, b: i64) -> i64 {
  if (b == 0li) { return 0li; }
  if (b == -1li) { return -a; }
  return a / b;
}
fn neg_i64(x: i64) -> i64 { return -x; }
fn abs_i64(x: i64) -> i64 { return select(x, -x, x < 0li); }
fn sign_i64(x: i64) -> i64 { return select(0li, 1li, x > 0li) - select(0li, 1li, x < 0li); }
fn less_i64(a: i64, b: i64) -> bool { return a < b; }
fn equal_i64(a: i64, b: i64) -> bool { return a == b; }
fn zero_i64() -> i64 { return 0li; }
fn one_i64() -> i64 { return 1li; }
fn pow_i64(base: i64, exponent: i64) -> i64 {
  if (exponent < 0li) {
    if (base == 1li || (base == -1li && (exponent & 1li) == 0li)) { return 1li; }
    return select(0li, -1li, base == -1li);
  }
  return i64(pow_u64(u64(base), u64(exponent)));
}

fn add_u64(a: u64, b: u64) -> u64 { return a + b; }
fn sub_u64(a: u64, b: u64) -> u64 { return a - b; }
fn mul_u64(a: u64, b: u64) -> u64 { return a * b; }
fn div_u64(a: u64, b: u64) -> u64 {
  if (b == 0lu) { return 0lu; }
  return a / b;
}
fn neg_u64(x: u64) -> u64 { return 0lu - x; }
fn abs_u64(x: u64) -> u64 { return x; }
fn sign_u64(x: u64) -> u64 { return select(0lu, 1lu, x != 0lu); }
fn less_u64(a: u64, b: u64) -> bool { return a < b; }
fn equal_u64(a: u64, b: u64) -> bool { return a == b; }
fn zero_u64() -> u64 { return 0lu; }
fn one_u64() -> u64 { return 1lu; }
fn pow_u64(base: u64, exponent: u64) -> u64 {
  var result = 1lu;
  var square = base;
  var e = exponent;
  while (e > 0lu) {
    if ((e & 1lu) == 1lu) { result = result * square; }
    square = square * square;
    e = e / 2lu;
  }
  return result;
}

fn max_i64(a: i64, b: i64) -> i64 { return select(b, a, a > b); }
fn min_i64(a: i64, b: i64) -> i64 { return select(b, a, a < b); }
fn max_u64(a: u64, b: u64) -> u64 { return select(b, a, a > b); }
fn min_u64(a: u64, b: u64) -> u64 { return select(b, a, a < b); }

fn shift_left_u64(x: u64, by: u64) -> u64 { return select(x << u32(by & 63lu), 0lu, by > 63lu); }
fn shift_right_u64(x: u64, by: u64) -> u64 { return select(x >> u32(by & 63lu), 0lu, by > 63lu); }
fn shift_left_i64(x: i64, by: i64) -> i64 { return i64(shift_left_u64(u64(x), u64(by))); }
fn shift_right_i64(x: i64, by: i64) -> i64 { return x >> u32(min_u64(u64(by), 63lu)); }

fn i64_from_words(low: u32, high: u32) -> i64 { return i64(u64_from_words(low, high)); }
fn u64_from_words(low: u32, high: u32) -> u64 { return u64(low) | (u64(high) << 32u); }

fn i64_to_i64(x: i64) -> i64 { return x; }
fn u64_to_u64(x: u64) -> u64 { return x; }
fn i64_to_u64(x: i64) -> u64 { return u64(x); }
fn u64_to_i64(x: u64) -> i64 { return i64(x); }
fn i64_to_i32(x: i64) -> i32 { return bitcast<i32>(u32(u64(x) & 0xfffffffflu)); }
fn i64_to_u32(x: i64) -> u32 { return u32(u64(x) & 0xfffffffflu); }
fn u64_to_i32(x: u64) -> i32 { return bitcast<i32>(u32(x & 0xfffffffflu)); }
fn u64_to_u32(x: u64) -> u32 { return u32(x & 0xfffffffflu); }
fn i32_to_i64(x: i32) -> i64 { return i64(x); }
fn i32_to_u64(x: i32) -> u64 { return u64(i64(x)); }
fn u32_to_i64(x: u32) -> i64 { return i64(x); }
fn u32_to_u64(x: u32) -> u64 { return u64(x); }
fn i64_to_f32(x: i64) -> f32 {
  return select(u64_to_f32(u64(x)), -u64_to_f32(u64(-x)), x < 0li);
}
// Hardware conversions may round differently: converts the upper 24 bits, and the rest as one bit that decides ties.
fn u64_to_f32(x: u64) -> f32 {
  let high = u32(x >> 32u);
  if (high == 0u) { return f32(u32(x)); }
  let zeros = countLeadingZeros(high);
  let shifted = x << zeros;
  let sticky = select(0u, 1u, (shifted & 0xfffffffflu) != 0lu);
  return f32(u32(shifted >> 32u) | sticky) * power_of_two(32 - i32(zeros));
}
fn f32_to_u64(x: f32) -> u64 {
  if (is_nan(x) || x <= 0.0) { return 0lu; }
  if (x >= 18446744073709551616.0) { return 0xfffffffffffffffflu; }
  if (x < 4294967296.0) { return u64(u32(x)); }
  let bits = bitcast<u32>(x);
  return u64((bits & 0x007fffffu) | 0x00800000u) << ((bits >> 23u) - 150u);
}
fn f32_to_i64(x: f32) -> i64 {
  if (x >= 9223372036854775808.0) { return 0x7fffffffffffffffli; }
  let magnitude = i64(min_u64(f32_to_u64(abs(x)), 0x8000000000000000lu));
  return select(magnitude, -magnitude, x < 0.0);
}
