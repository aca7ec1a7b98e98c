// Element functions on 64-bit integers, for devices without them: a value is a pair of words, the lower one first. The
// functions mirror those of int64.wgsl.

alias i64_value = vec2<u32>;
alias u64_value = vec2<u32>;

fn add_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn neg_u64(x: vec2<u32>) -> vec2<u32> { return add_u64(~x, vec2<u32>(1u, 0u)); }
fn sub_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
fn mul_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x * b.x, multiply_high(a.x, b.x) + a.x * b.y + a.y * b.x);
}
fn less_u64(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }
fn equal_u64(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x == b.x && a.y == b.y; }
fn zero_u64() -> vec2<u32> { return vec2<u32>(0u); }
fn one_u64() -> vec2<u32> { return vec2<u32>(1u, 0u); }
fn abs_u64(x: vec2<u32>) -> vec2<u32> { return x; }
fn sign_u64(x: vec2<u32>) -> vec2<u32> { return vec2<u32>(select(0u, 1u, (x.x | x.y) != 0u), 0u); }
fn max_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, less_u64(a, b)); }
fn min_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(b, a, less_u64(a, b)); }

// Bit by bit from the top. Division by zero returns 0.
fn div_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if ((b.x | b.y) == 0u) { return vec2<u32>(0u); }
  if (a.y == 0u && b.y == 0u) { return vec2<u32>(a.x / b.x, 0u); }
  var quotient = vec2<u32>(0u);
  var rest = vec2<u32>(0u);
  for (var i = 0u; i < 64u; i = i + 1u) {
    let carry = rest.y >> 31u;
    let bit = select(a.y >> ((31u - i) & 31u), a.x >> ((63u - i) & 31u), i >= 32u) & 1u;
    rest = vec2<u32>(rest.x << 1u | bit, rest.y << 1u | rest.x >> 31u);
    quotient = vec2<u32>(quotient.x << 1u, quotient.y << 1u | quotient.x >> 31u);
    if (carry == 1u || !less_u64(rest, b)) {
      rest = sub_u64(rest, b);
      quotient.x = quotient.x | 1u;
    }
  }
  return quotient;
}

fn pow_u64(base: vec2<u32>, exponent: vec2<u32>) -> vec2<u32> {
  var result = one_u64();
  var square = base;
  var e = exponent;
  while ((e.x | e.y) != 0u) {
    if ((e.x & 1u) == 1u) { result = mul_u64(result, square); }
    square = mul_u64(square, square);
    e = vec2<u32>(e.x >> 1u | e.y << 31u, e.y >> 1u);
  }
  return result;
}

fn is_negative(x: vec2<u32>) -> bool { return (x.y >> 31u) == 1u; }
fn add_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return add_u64(a, b); }
fn sub_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return sub_u64(a, b); }
fn mul_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return mul_u64(a, b); }
fn neg_i64(x: vec2<u32>) -> vec2<u32> { return neg_u64(x); }
fn abs_i64(x: vec2<u32>) -> vec2<u32> { return select(x, neg_u64(x), is_negative(x)); }
fn sign_i64(x: vec2<u32>) -> vec2<u32> { return select(sign_u64(x), vec2<u32>(0xffffffffu), is_negative(x)); }
fn div_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let quotient = div_u64(abs_i64(a), abs_i64(b));
  return select(quotient, neg_u64(quotient), is_negative(a) != is_negative(b));
}
fn less_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return less_u64(vec2<u32>(a.x, a.y ^ 0x80000000u), vec2<u32>(b.x, b.y ^ 0x80000000u));
}
fn equal_i64(a: vec2<u32>, b: vec2<u32>) -> bool { return equal_u64(a, b); }
fn zero_i64() -> vec2<u32> { return vec2<u32>(0u); }
fn one_i64() -> vec2<u32> { return vec2<u32>(1u, 0u); }
fn max_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, less_i64(a, b)); }
fn min_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(b, a, less_i64(a, b)); }
fn pow_i64(base: vec2<u32>, exponent: vec2<u32>) -> vec2<u32> {
  if (!is_negative(exponent)) { return pow_u64(base, exponent); }
  let minus_one = vec2<u32>(0xffffffffu);
  if (equal_u64(base, one_u64()) || (equal_u64(base, minus_one) && (exponent.x & 1u) == 0u)) { return one_u64(); }
  return select(vec2<u32>(0u), minus_one, equal_u64(base, minus_one));
}

// A word's shift by 32 bits is undefined: splits it into two.
fn shift_left_u64(x: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
  if (by.y != 0u || by.x > 63u) { return vec2<u32>(0u); }
  if (by.x > 31u) { return vec2<u32>(0u, x.x << (by.x & 31u)); }
  return vec2<u32>(x.x << by.x, (x.y << by.x) | ((x.x >> 1u) >> (31u - by.x)));
}
fn shift_right_u64(x: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
  if (by.y != 0u || by.x > 63u) { return vec2<u32>(0u); }
  if (by.x > 31u) { return vec2<u32>(x.y >> (by.x & 31u), 0u); }
  return vec2<u32>((x.x >> by.x) | ((x.y << 1u) << (31u - by.x)), x.y >> by.x);
}
fn shift_left_i64(x: vec2<u32>, by: vec2<u32>) -> vec2<u32> { return shift_left_u64(x, by); }
fn shift_right_i64(x: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
  return select(shift_right_u64(x, by), ~shift_right_u64(~x, by), is_negative(x));
}

fn i64_from_words(low: u32, high: u32) -> vec2<u32> { return vec2<u32>(low, high); }
fn u64_from_words(low: u32, high: u32) -> vec2<u32> { return vec2<u32>(low, high); }

fn i64_to_i64(x: vec2<u32>) -> vec2<u32> { return x; }
fn u64_to_u64(x: vec2<u32>) -> vec2<u32> { return x; }
fn i64_to_u64(x: vec2<u32>) -> vec2<u32> { return x; }
fn u64_to_i64(x: vec2<u32>) -> vec2<u32> { return x; }
fn i64_to_i32(x: vec2<u32>) -> i32 { return bitcast<i32>(x.x); }
fn i64_to_u32(x: vec2<u32>) -> u32 { return x.x; }
fn u64_to_i32(x: vec2<u32>) -> i32 { return bitcast<i32>(x.x); }
fn u64_to_u32(x: vec2<u32>) -> u32 { return x.x; }
fn i32_to_i64(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }
fn i32_to_u64(x: i32) -> vec2<u32> { return i32_to_i64(x); }
fn u32_to_i64(x: u32) -> vec2<u32> { return vec2<u32>(x, 0u); }
fn u32_to_u64(x: u32) -> vec2<u32> { return vec2<u32>(x, 0u); }

// Converts the 32 bits from the leading one on, and the rest as one bit that decides ties.
fn u64_to_f32(x: vec2<u32>) -> f32 {
  if (x.y == 0u) { return f32(x.x); }
  let zeros = countLeadingZeros(x.y);
  let high = select(x.y << zeros | x.x >> ((32u - zeros) & 31u), x.y, zeros == 0u);
  let sticky = select(0u, 1u, (x.x << zeros) != 0u);
  return f32(high | sticky) * power_of_two(32 - i32(zeros));
}
fn i64_to_f32(x: vec2<u32>) -> f32 {
  let magnitude = u64_to_f32(abs_i64(x));
  return select(magnitude, -magnitude, is_negative(x));
}
fn f32_to_u64(x: f32) -> vec2<u32> {
  if (is_nan(x) || x <= 0.0) { return vec2<u32>(0u); }
  if (x >= 18446744073709551616.0) { return vec2<u32>(0xffffffffu); }
  if (x < 4294967296.0) { return vec2<u32>(u32(x), 0u); }
  let bits = bitcast<u32>(x);
  let mantissa = (bits & 0x007fffffu) | 0x00800000u;
  // In 9..=40.
  let shift = (bits >> 23u) - 150u;
  if (shift >= 32u) { return vec2<u32>(0u, mantissa << (shift - 32u)); }
  return vec2<u32>(mantissa << shift, mantissa >> (32u - shift));
}
fn f32_to_i64(x: f32) -> vec2<u32> {
  if (x >= 9223372036854775808.0) { return vec2<u32>(0xffffffffu, 0x7fffffffu); }
  if (x <= -9223372036854775808.0) { return vec2<u32>(0u, 0x80000000u); }
  let magnitude = f32_to_u64(abs(x));
  return select(magnitude, neg_u64(magnitude), x < 0.0);
}
