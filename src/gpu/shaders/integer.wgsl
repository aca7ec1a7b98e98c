// Element functions on i32 and u32. Overflow wraps around; division by zero returns 0. 8-bit elements use these
// functions, and are wrapped after each of them.

fn wrap_i8(x: i32) -> i32 { return extractBits(x, 0u, 8u); }
fn wrap_u8(x: u32) -> u32 { return x & 0xffu; }

fn add_i32(a: i32, b: i32) -> i32 { return a + b; }
fn sub_i32(a: i32, b: i32) -> i32 { return a - b; }
fn mul_i32(a: i32, b: i32) -> i32 { return a * b; }
fn div_i32(a: i32, b: i32) -> i32 {
  if (b == 0) { return 0; }
  if (b == -1) { return -a; }
  return a / b;
}
fn max_i32(a: i32, b: i32) -> i32 { return max(a, b); }
fn min_i32(a: i32, b: i32) -> i32 { return min(a, b); }
fn neg_i32(x: i32) -> i32 { return -x; }
fn abs_i32(x: i32) -> i32 { return select(x, -x, x < 0); }
fn sign_i32(x: i32) -> i32 { return select(0, 1, x > 0) - select(0, 1, x < 0); }
fn less_i32(a: i32, b: i32) -> bool { return a < b; }
fn equal_i32(a: i32, b: i32) -> bool { return a == b; }
fn zero_i32() -> i32 { return 0; }
fn one_i32() -> i32 { return 1; }
fn pow_i32(base: i32, exponent: i32) -> i32 {
  if (exponent < 0) {
    if (base == 1 || (base == -1 && (exponent & 1) == 0)) { return 1; }
    return select(0, -1, base == -1);
  }
  return bitcast<i32>(pow_u32(bitcast<u32>(base), bitcast<u32>(exponent)));
}

fn add_u32(a: u32, b: u32) -> u32 { return a + b; }
fn sub_u32(a: u32, b: u32) -> u32 { return a - b; }
fn mul_u32(a: u32, b: u32) -> u32 { return a * b; }
fn div_u32(a: u32, b: u32) -> u32 {
  if (b == 0u) { return 0u; }
  return a / b;
}
fn max_u32(a: u32, b: u32) -> u32 { return max(a, b); }
fn min_u32(a: u32, b: u32) -> u32 { return min(a, b); }
fn neg_u32(x: u32) -> u32 { return 0u - x; }
fn abs_u32(x: u32) -> u32 { return x; }
fn sign_u32(x: u32) -> u32 { return select(0u, 1u, x != 0u); }
fn less_u32(a: u32, b: u32) -> bool { return a < b; }
fn equal_u32(a: u32, b: u32) -> bool { return a == b; }
fn zero_u32() -> u32 { return 0u; }
fn one_u32() -> u32 { return 1u; }
fn pow_u32(base: u32, exponent: u32) -> u32 {
  var result = 1u;
  var square = base;
  for (var e = exponent; e > 0u; e = e >> 1u) {
    if ((e & 1u) == 1u) { result = result * square; }
    square = square * square;
  }
  return result;
}

fn shift_left_u32(x: u32, by: u32) -> u32 { return select(x << (by & 31u), 0u, by > 31u); }
fn shift_right_u32(x: u32, by: u32) -> u32 { return select(x >> (by & 31u), 0u, by > 31u); }
fn shift_left_i32(x: i32, by: i32) -> i32 {
  return bitcast<i32>(shift_left_u32(bitcast<u32>(x), bitcast<u32>(by)));
}
fn shift_right_i32(x: i32, by: i32) -> i32 { return x >> min(bitcast<u32>(by), 31u); }

fn add_f32(a: f32, b: f32) -> f32 { return a + b; }
fn sub_f32(a: f32, b: f32) -> f32 { return a - b; }
fn mul_f32(a: f32, b: f32) -> f32 { return a * b; }
fn div_f32(a: f32, b: f32) -> f32 { return a / b; }
fn neg_f32(x: f32) -> f32 { return -x; }
fn abs_f32(x: f32) -> f32 { return abs(x); }
fn zero_f32() -> f32 { return 0.0; }
fn one_f32() -> f32 { return 1.0; }

// Conversions: floats truncate and saturate to integers, NaN becomes 0; integers keep their lowest bits.
fn f32_to_f32(x: f32) -> f32 { return x; }
fn i32_to_i32(x: i32) -> i32 { return x; }
fn u32_to_u32(x: u32) -> u32 { return x; }
fn i32_to_u32(x: i32) -> u32 { return bitcast<u32>(x); }
fn u32_to_i32(x: u32) -> i32 { return bitcast<i32>(x); }
fn i32_to_f32(x: i32) -> f32 { return f32(x); }
fn u32_to_f32(x: u32) -> f32 { return f32(x); }
fn f32_to_i32(x: f32) -> i32 {
  if (is_nan(x)) { return 0; }
  if (x >= 2147483648.0) { return 0x7fffffff; }
  if (x < -2147483648.0) { return bitcast<i32>(0x80000000u); }
  return i32(x);
}
fn f32_to_u32(x: f32) -> u32 {
  if (is_nan(x) || x <= 0.0) { return 0u; }
  if (x >= 4294967296.0) { return 0xffffffffu; }
  return u32(x);
}

// a - b, which may need 33 bits, rounded once.
fn difference_i32(a: i32, b: i32) -> f32 {
  if (a >= b) { return f32(bitcast<u32>(a) - bitcast<u32>(b)); }
  return -f32(bitcast<u32>(b) - bitcast<u32>(a));
}
fn difference_u32(a: u32, b: u32) -> f32 {
  if (a >= b) { return f32(a - b); }
  return -f32(b - a);
}

// steps + zero, both integers, clamped to the range of the type; NaN becomes 0.
fn shifted_i8(steps: f32, zero: i32) -> i32 {
  if (is_nan(steps)) { return 0; }
  return clamp(i32(clamp(steps, -512.0, 512.0)) + zero, -128, 127);
}
fn shifted_u8(steps: f32, zero: u32) -> u32 {
  if (is_nan(steps)) { return 0u; }
  return u32(clamp(i32(clamp(steps, -512.0, 512.0)) + i32(zero), 0, 255));
}
fn shifted_i32(steps: f32, zero: i32) -> i32 {
  if (is_nan(steps)) { return 0; }
  // Beyond 2^32, every zero point leads to the same limit.
  if (steps >= 4294967296.0) { return 0x7fffffff; }
  if (steps <= -4294967296.0) { return bitcast<i32>(0x80000000u); }
  let magnitude = f32_to_u32(abs(steps));
  let sum = bitcast<u32>(zero) ^ 0x80000000u;
  let moved = shifted_by(sum, magnitude, steps < 0.0);
  return bitcast<i32>(moved ^ 0x80000000u);
}
fn shifted_u32(steps: f32, zero: u32) -> u32 {
  if (is_nan(steps)) { return 0u; }
  if (steps >= 4294967296.0) { return 0xffffffffu; }
  if (steps <= -4294967296.0) { return 0u; }
  return shifted_by(zero, f32_to_u32(abs(steps)), steps < 0.0);
}
fn shifted_by(x: u32, magnitude: u32, down: bool) -> u32 {
  if (down) { return select(x - magnitude, 0u, magnitude > x); }
  let sum = x + magnitude;
  return select(sum, 0xffffffffu, sum < x);
}
