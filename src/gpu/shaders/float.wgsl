// Element functions on f32.
//
// Like those of the CPU (src/cpu/simd/math.rs explains the polynomials), they are correct for NaN, the infinities and
// -0. WGSL's builtin functions need not be: they may be off by several hundred ULP, and drivers differ.
//
// Some drivers (Metal's) let their compiler assume that there is neither NaN nor infinity, reorder sums and products and
// simplify (a + b) - a to b. Hence NaN and infinity are recognized by their bits, a comparison of floats may have any
// result for NaN, and no value that depends on the order of operations passes without opaque().

const ROUND: f32 = 12582912.0;
const LN2_HIGH: f32 = 0.693359375;
const LN2_LOW: f32 = -0.00021219444;
const LOG2_E: f32 = 1.4426950408889634;
const SQRT_2: f32 = 1.4142135623730951;

fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn is_infinite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }

// Constants without WGSL literals; no compiler knows them.
fn from_bits(bits: u32) -> f32 { return bitcast<f32>(bits ^ immediates.zero); }
fn infinity() -> f32 { return from_bits(0x7f800000u); }
fn nan() -> f32 { return from_bits(0x7fc00000u); }

// The lowest number: where maxima start.
const LOWEST: f32 = -3.4028234663852886e38;

// A float whose origin compilers do not know.
fn opaque(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ immediates.zero); }

fn with_sign(magnitude: f32, sign: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(magnitude) & 0x7fffffffu) | (bitcast<u32>(sign) & 0x80000000u));
}

// NaN takes precedence over numbers.
fn max_f32(a: f32, b: f32) -> f32 { return select(select(select(b, a, a > b), a, is_nan(a)), b, is_nan(b)); }
fn min_f32(a: f32, b: f32) -> f32 { return select(select(select(b, a, a < b), a, is_nan(a)), b, is_nan(b)); }

// The place of a number among all numbers; of infinity, too, but not of NaN. 0 and -0 are at the same place.
fn place_of(x: f32) -> i32 {
  let bits = bitcast<i32>(x);
  return select(bits, -(bits & 0x7fffffff), bits < 0);
}
fn less_f32(a: f32, b: f32) -> bool { return place_of(a) < place_of(b) && !is_nan(a) && !is_nan(b); }
fn equal_f32(a: f32, b: f32) -> bool { return place_of(a) == place_of(b) && !is_nan(a) && !is_nan(b); }

fn sign_f32(x: f32) -> f32 { return select(0.0, 1.0, x > 0.0) - select(0.0, 1.0, x < 0.0); }

// Adding and subtracting ROUND would suffice if no compiler optimized it away.
fn round_even_f32(x: f32) -> f32 {
  return select(with_sign(round(x), x), x, abs(x) >= 8388608.0 || is_nan(x));
}

fn power_of_two(n: i32) -> f32 { return bitcast<f32>(bitcast<u32>(n + 127) << 23u); }

// e^(high + low), with a small correction low.
fn exp_sum(high: f32, low: f32) -> f32 { return exp_scaled(high, low, 0); }

// The same, times 2^shift for a shift of 0 or -1.
fn exp_scaled(high: f32, low: f32, shift: i32) -> f32 {
  let x = clamp(high, -104.0, 90.0);
  let n = i32(round(x * LOG2_E));
  let r = fma(f32(n), -LN2_LOW, fma(f32(n), -LN2_HIGH, x)) + low;
  var p = fma(0.0013926251, r, 0.008363233);
  p = fma(p, r, 0.041666554);
  p = fma(p, r, 0.16666577);
  p = fma(p, r, 0.5);
  let y = fma(r * r, p, r) + 1.0;
  return select(ldexp_f32(y, n + shift), high, is_nan(high));
}

fn exp_f32(x: f32) -> f32 { return exp_sum(x, 0.0); }

fn log_f32(x: f32) -> f32 {
  let denormal = x < 1.1754943508222875e-38;
  let scaled = select(x, x * 8388608.0, denormal);
  let bits = bitcast<i32>(scaled) - 0x3f3504f3;
  let n = f32(bits >> 23u) - select(0.0, 23.0, denormal);
  let f = bitcast<f32>((bits & 0x007fffff) + 0x3f3504f3) - 1.0;
  var p = fma(0.069716115, f, -0.11479734);
  p = fma(p, f, 0.1168542);
  p = fma(p, f, -0.12425687);
  p = fma(p, f, 0.14249058);
  p = fma(p, f, -0.16667802);
  p = fma(p, f, 0.20000716);
  p = fma(p, f, -0.24999997);
  p = fma(p, f, 0.33333331);
  let square = f * f;
  let tail = fma(n, LN2_LOW, square * f * p);
  var y = fma(n, LN2_HIGH, fma(square, -0.5, tail) + f);
  let sign_and_rest = bitcast<u32>(x);
  y = select(y, x, sign_and_rest == 0x7f800000u);
  // NaN, and what is below 0.
  y = select(y, nan(), sign_and_rest > 0x7f800000u);
  return select(y, -infinity(), (sign_and_rest << 1u) == 0u);
}

fn tanh_f32(x: f32) -> f32 {
  let a = abs(x);
  let s = x * x;
  var p = fma(0.0022695017, s, -0.008323187);
  p = fma(p, s, 0.021762503);
  p = fma(p, s, -0.05395846);
  p = fma(p, s, 0.133333);
  p = fma(p, s, -0.33333334);
  let near_zero = fma(a * s, p, a);
  let far = 1.0 - 2.0 / (exp_f32(2.0 * a) + 1.0);
  return select(with_sign(select(far, near_zero, a < 0.625), x), x, is_nan(x));
}

fn sigmoid_f32(x: f32) -> f32 {
  let e = exp_f32(-abs(x));
  return select(1.0, e, x < 0.0) / (1.0 + e);
}

fn softplus_f32(x: f32) -> f32 {
  let e = exp_f32(-abs(x));
  let u = opaque(1.0 + e);
  let tail = log_f32(u) + (e - opaque(u - 1.0)) / u;
  return select(0.0, x, x > 0.0) + tail;
}

// e^x - 1
fn expm1_f32(x: f32) -> f32 {
  // The series near 0, to avoid cancellation.
  var p = fma(0.00019841270, x, 0.0013888889);
  p = fma(p, x, 0.008333334);
  p = fma(p, x, 0.041666668);
  p = fma(p, x, 0.16666667);
  p = fma(p, x, 0.5);
  return select(exp_f32(x) - 1.0, fma(x * x, p, x), abs(x) < 0.35);
}

// erfc(y / sqrt 2) e^(y^2 / 2) / 2 for 0 <= y <= 14.5
fn normal_tail(y: f32) -> f32 {
  let sum = 1.0 / (y + 4.0);
  let u = (y - 4.0) * sum;
  var p = fma(-5.264565e-5, u, -0.00023462176);
  p = fma(p, u, 0.00016935546);
  p = fma(p, u, 0.0016462956);
  p = fma(p, u, -0.0034880755);
  p = fma(p, u, -0.007545268);
  p = fma(p, u, 0.060397294);
  p = fma(p, u, -0.18652131);
  p = fma(p, u, 0.38713738);
  p = fma(p, u, -0.60789666);
  p = fma(p, u, 0.75528513);
  return p * sum;
}

fn erf_f32(x: f32) -> f32 {
  let a = abs(x);
  let s = x * x;
  var p = fma(-1.0090027e-5, s, 0.000113967386);
  p = fma(p, s, -0.0008499891);
  p = fma(p, s, 0.0052219743);
  p = fma(p, s, -0.026865717);
  p = fma(p, s, 0.112837866);
  p = fma(p, s, -0.3761264);
  p = fma(p, s, 0.12837917);
  let near_zero = fma(a, p, a);
  let b = min(a, 9.0);
  let far = 1.0 - 2.0 * exp_f32(-b * b) * normal_tail(b * SQRT_2);
  return select(with_sign(select(far, near_zero, a < 0.92), x), x, is_nan(x));
}

fn gelu_f32(x: f32) -> f32 {
  let a = abs(x);
  let b = min(a, 14.5);
  let upper = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
  let low = (upper - b) * (upper + b) * 0.5;
  let t = exp_sum(upper * upper * -0.5, low) * normal_tail(b);
  let negative = -b * t;
  let positive = select(fma(-a, t, a), a, a > 14.5);
  let y = select(positive + select(0.0, x, x == 0.0), negative, x < 0.0);
  return select(y, x, is_nan(x));
}

// A number as the sum of two floats that do not overlap: the sums and products of Dekker and Knuth.
fn two_sum(a: f32, b: f32) -> vec2<f32> {
  let s = opaque(a + b);
  let t = opaque(s - a);
  return vec2<f32>(s, opaque(a - opaque(s - t)) + opaque(b - t));
}

fn two_product(a: f32, b: f32) -> vec2<f32> {
  // Without fused multiply-add, which a device may round twice: 12-bit halves have exact products.
  let ah = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
  let bh = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
  let al = a - ah;
  let bl = b - bh;
  let p = opaque(a * b);
  return vec2<f32>(p, opaque(opaque(opaque(ah * bh - p) + ah * bl) + al * bh) + al * bl);
}

// A sum of two floats plus another such sum, again as a sum of two floats. Preserves infinities and NaN.
fn add_precise(sum: vec2<f32>, x: vec2<f32>) -> vec2<f32> {
  let high = sum.x + x.x;
  if (is_infinite(high) || is_nan(high)) { return vec2<f32>(high, 0.0); }
  let s = two_sum(sum.x, x.x);
  let low = s.y + (sum.y + x.y);
  return two_sum(s.x, low);
}

// |base|^exponent: 2^(exponent log2 |base|), with the logarithm as a sum of two floats.
fn pow_magnitude(a: f32, y: f32) -> f32 {
  let denormal = a < 1.1754943508222875e-38;
  let scaled = select(a, a * 16777216.0, denormal);
  let bits = bitcast<i32>(scaled) - 0x3f3504f3;
  let e = f32(bits >> 23u) - select(0.0, 24.0, denormal);
  let m = bitcast<f32>((bits & 0x007fffff) + 0x3f3504f3);
  // log2 m = 2 / ln 2 (s + s^3 / 3 + ..), s = (m - 1) / (m + 1); m - 1 is exact, m + 1 is a sum of two floats.
  let numerator = m - 1.0;
  let denominator = two_sum(m, 1.0);
  let s = numerator / denominator.x;
  let back = two_product(s, denominator.x);
  let rest = (opaque(numerator - back.x) - back.y - s * denominator.y) / denominator.x;
  let q = s * s;
  var p = fma(0.07692308, q, 0.09090909);
  p = fma(p, q, 0.11111111);
  p = fma(p, q, 0.14285715);
  p = fma(p, q, 0.2);
  // The term s^3 / 3 with its error; smaller terms without.
  let square = two_product(s, s);
  let third = two_product(square.x, 0.33333334);
  let third_low = third.y + square.y * 0.33333334 + square.x * -9.934108e-9 + p * q * q;
  let factor = two_sum(1.0, third.x);
  let factor_low = factor.y + third_low;
  let series = two_product(s, factor.x);
  let series_low = series.y + s * factor_low + rest * factor.x;
  // Times 2 / ln 2 = 2.88539004 + 3.65e-8
  let scaled_series = two_product(series.x, 2.885390043258667);
  let scaled_low = scaled_series.y + series_low * 2.885390043258667 + series.x * 3.8519327e-8;
  let sum = two_sum(e, scaled_series.x);
  let log2_low = sum.y + scaled_low;
  let product = two_product(sum.x, y);
  let low = product.y + log2_low * y;
  // Beyond the range of floats, the halves above may be infinite.
  let whole = clamp(sum.x * y, -200.0, 200.0);
  let n = round(whole);
  let fraction = select(opaque(product.x - n) + low, 0.0, abs(sum.x * y) >= 200.0);
  return ldexp_f32(exp_f32(fraction * 0.6931472), i32(n));
}

// x 2^n for |n| <= 250 and x between 1/2 and 2. One multiplication alone rounds: no other order of it is possible.
fn ldexp_f32(x: f32, n: i32) -> f32 {
  let half = n >> 1u;
  return bitcast<f32>(bitcast<i32>(x) + (half << 23u)) * power_of_two(n - half);
}

fn pow_f32(base: f32, exponent: f32) -> f32 {
  if (equal_f32(base, 1.0) || equal_f32(exponent, 0.0)) { return 1.0; }
  if (is_nan(base) || is_nan(exponent)) { return nan(); }
  let a = abs(base);
  let whole = equal_f32(trunc(exponent), exponent);
  let half = exponent * 0.5;
  let odd = whole && !equal_f32(trunc(half), half);
  var y: f32;
  if (a == 1.0) {
    y = 1.0;
  } else if (a == 0.0 || is_infinite(base)) {
    y = select(infinity(), 0.0, (a == 0.0) == (exponent > 0.0));
  } else if (is_infinite(exponent)) {
    y = select(infinity(), 0.0, (a < 1.0) == (exponent > 0.0));
  } else {
    y = pow_magnitude(a, exponent);
  }
  if (base < 0.0 && !whole && !is_infinite(base)) { return nan(); }
  return select(y, with_sign(y, base), odd);
}

// 2 / pi, 224 bits after the binary point.
const TWO_OVER_PI = array<u32, 7>(0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);

fn multiply_high(a: u32, b: u32) -> u32 {
  let al = a & 0xffffu; let ah = a >> 16u;
  let bl = b & 0xffffu; let bh = b >> 16u;
  let low = al * bl;
  let middle = ah * bl + (low >> 16u);
  let other = al * bh + (middle & 0xffffu);
  return ah * bh + (middle >> 16u) + (other >> 16u);
}

// An angle as a number of whole quarter turns and the remainder, -0.5 to 0.5 of them times pi/2 (Payne and Hanek).
struct Reduced { quarters: u32, rest: f32 }

fn reduce_angle(x: f32) -> Reduced {
  let bits = bitcast<u32>(abs(x));
  if (bits < 0x3f490fdbu) { return Reduced(0u, abs(x)); }
  let exponent = i32(bits >> 23u) - 150;
  let mantissa = (bits & 0x007fffffu) | 0x00800000u;
  // |x| = mantissa 2^exponent, with an exponent above -25. The leading bits of 2 / pi contribute only whole turns.
  let skip = u32(max(exponent - 2, 0));
  let word = skip >> 5u;
  let shift = skip & 31u;
  let c0 = two_over_pi(word); let c1 = two_over_pi(word + 1u);
  let c2 = two_over_pi(word + 2u); let c3 = two_over_pi(word + 3u);
  let a0 = select(c0 << shift | c1 >> ((32u - shift) & 31u), c0, shift == 0u);
  let a1 = select(c1 << shift | c2 >> ((32u - shift) & 31u), c1, shift == 0u);
  let a2 = select(c2 << shift | c3 >> ((32u - shift) & 31u), c2, shift == 0u);
  // mantissa * (a0 a1 a2), 120 bits, without the lowest 32.
  let l2 = multiply_high(mantissa, a2);
  let p1 = mantissa * a1;
  let w2 = p1 + l2;
  let h1 = multiply_high(mantissa, a1) + select(0u, 1u, w2 < p1);
  let p0 = mantissa * a0;
  let w1 = p0 + h1;
  let w0 = multiply_high(mantissa, a0) + select(0u, 1u, w1 < p0);
  // The binary point follows bit `place`, 8 to 34, of (w0 w1 w2), counted from the top.
  let place = u32(exponent + 32 - i32(skip));
  let s = place & 31u;
  let t = 32u - s;
  var whole: u32; var top: u32; var next: u32;
  if (place == 32u) {
    whole = w0; top = w1; next = w2;
  } else if (place > 32u) {
    whole = w0 << s | w1 >> t; top = w1 << s | w2 >> t; next = w2 << s;
  } else {
    whole = w0 >> t; top = w0 << s | w1 >> t; next = w1 << s | w2 >> t;
  }
  // Rounds to the nearest quarter turn: the fraction becomes a signed number.
  let up = top >> 31u;
  let negative = up == 1u;
  var high = select(top, ~top, negative);
  var low = select(next, ~next, negative);
  let zeros = countLeadingZeros(high);
  if (zeros > 0u && zeros < 32u) {
    high = high << zeros | low >> (32u - zeros);
  } else if (zeros >= 32u) {
    high = low;
  }
  let fraction = f32(high) * power_of_two(-32 - i32(min(zeros, 32u)));
  let rest = fraction * 1.5707964;
  return Reduced(whole + up, select(rest, -rest, negative));
}

fn two_over_pi(index: u32) -> u32 {
  var words = TWO_OVER_PI;
  return select(0u, words[min(index, 6u)], index < 7u);
}

fn sin_polynomial(r: f32) -> f32 {
  let s = r * r;
  var p = fma(2.7249314e-6, s, -0.00019840082);
  p = fma(p, s, 0.0083333319);
  p = fma(p, s, -0.16666667);
  return fma(r * s, p, r);
}

fn cos_polynomial(r: f32) -> f32 {
  let s = r * r;
  var p = fma(2.4463117e-5, s, -0.0013887584);
  p = fma(p, s, 0.04166665);
  p = fma(p, s, -0.5);
  return fma(s, p, 1.0);
}

fn sin_f32(x: f32) -> f32 {
  if (is_nan(x) || is_infinite(x)) { return nan(); }
  let angle = reduce_angle(x);
  var y = select(sin_polynomial(angle.rest), cos_polynomial(angle.rest), (angle.quarters & 1u) == 1u);
  y = select(y, -y, (angle.quarters & 2u) != 0u);
  return select(y, -y, (bitcast<u32>(x) >> 31u) == 1u);
}

fn cos_f32(x: f32) -> f32 {
  if (is_nan(x) || is_infinite(x)) { return nan(); }
  let angle = reduce_angle(x);
  let y = select(cos_polynomial(angle.rest), sin_polynomial(angle.rest), (angle.quarters & 1u) == 1u);
  return select(y, -y, ((angle.quarters + 1u) & 2u) != 0u);
}

fn tan_f32(x: f32) -> f32 {
  if (is_nan(x) || is_infinite(x)) { return nan(); }
  let angle = reduce_angle(x);
  let s = sin_polynomial(angle.rest);
  let c = cos_polynomial(angle.rest);
  let y = select(s / c, -c / s, (angle.quarters & 1u) == 1u);
  return select(y, -y, (bitcast<u32>(x) >> 31u) == 1u);
}

fn softsign_f32(x: f32) -> f32 { return x / (1.0 + abs(x)); }

// The inverse trigonometric and the hyperbolic functions mirror those of src/cpu/simd/angles.rs.
// atan(x) for |x| <= 1
fn atan_near(x: f32) -> f32 {
  let s = x * x;
  var p = fma(-0.00238699722, s, 0.0135077713);
  p = fma(p, s, -0.0358715393);
  p = fma(p, s, 0.0625016913);
  p = fma(p, s, -0.0865688026);
  p = fma(p, s, 0.110337645);
  p = fma(p, s, -0.142785683);
  p = fma(p, s, 0.199997395);
  p = fma(p, s, -0.333333313);
  return fma(x * s, p, x);
}
// asin(x) for |x| <= 1/2
fn asin_near(x: f32) -> f32 {
  let s = x * x;
  var p = fma(0.0336908475, s, 0.0171492379);
  p = fma(p, s, 0.0311006624);
  p = fma(p, s, 0.0445994027);
  p = fma(p, s, 0.0750009418);
  p = fma(p, s, 0.166666657);
  return fma(x * s, p, x);
}
// asinh(x) for |x| <= 1/2
fn asinh_near(x: f32) -> f32 {
  let s = x * x;
  var p = fma(0.00993650407, s, -0.0205267929);
  p = fma(p, s, 0.0301561784);
  p = fma(p, s, -0.0446300209);
  p = fma(p, s, 0.0749997273);
  p = fma(p, s, -0.166666672);
  return fma(x * s, p, x);
}
// atanh(x) for |x| <= 1/2
fn atanh_near(x: f32) -> f32 {
  let s = x * x;
  var p = fma(0.157517806, s, 0.0649348944);
  p = fma(p, s, 0.114698753);
  p = fma(p, s, 0.142639801);
  p = fma(p, s, 0.200004727);
  p = fma(p, s, 0.333333313);
  return fma(x * s, p, x);
}
// sinh(x) for |x| <= 1
fn sinh_near(x: f32) -> f32 {
  let s = x * x;
  var p = fma(2.80628024e-6, s, 0.000198381022);
  p = fma(p, s, 0.00833333936);
  p = fma(p, s, 0.166666672);
  return fma(x * s, p, x);
}

// pi / 2 - y
fn complement(y: f32) -> f32 { return 1.5707964 + (-4.3711388e-8 - y); }

fn atan_f32(x: f32) -> f32 {
  let a = abs(x);
  let y = atan_near(select(a, 1.0 / a, a > 1.0));
  return select(with_sign(select(y, complement(y), a > 1.0), x), x, is_nan(x));
}

fn asin_f32(x: f32) -> f32 {
  let a = abs(x);
  let y = asin_near(select(a, sqrt(max(0.5 * (1.0 - a), 0.0)), a > 0.5));
  return select(with_sign(select(y, complement(2.0 * y), a > 0.5), x), nan(), a > 1.0 || is_nan(x));
}

fn acos_f32(x: f32) -> f32 {
  let a = abs(x);
  let y = asin_near(select(x, sqrt(max(0.5 * (1.0 - a), 0.0)), a > 0.5));
  let far = select(2.0 * y, 2.0 * complement(y), x < 0.0);
  return select(select(complement(y), far, a > 0.5), nan(), a > 1.0 || is_nan(x));
}

// log(x + root), where root is about x if x is huge
fn log_of_sum(x: f32, root: f32) -> f32 {
  let huge = x > 4096.0;
  return log_f32(select(x + root, x, huge)) + select(0.0, 0.69314718, huge);
}

fn asinh_f32(x: f32) -> f32 {
  let a = abs(x);
  let b = min(a, 4096.0);
  let y = select(log_of_sum(a, sqrt(fma(b, b, 1.0))), asinh_near(b), a < 0.5);
  return select(with_sign(y, x), x, is_nan(x));
}

fn acosh_f32(x: f32) -> f32 {
  let t = clamp(x - 1.0, 0.0, 4096.0);
  let y = select(log_of_sum(x, sqrt(t * (t + 2.0))), 2.0 * asinh_near(sqrt(0.5 * t)), t < 0.5);
  return select(y, nan(), x < 1.0 || is_nan(x));
}

fn atanh_f32(x: f32) -> f32 {
  let a = abs(x);
  let y = select(0.5 * log_f32((1.0 + a) / (1.0 - a)), atanh_near(a), a < 0.5);
  return select(with_sign(select(y, infinity(), a == 1.0), x), nan(), a > 1.0 || is_nan(x));
}

fn sinh_f32(x: f32) -> f32 {
  let a = abs(x);
  let half = exp_scaled(a, 0.0, -1);
  let y = select(half - 0.25 / half, sinh_near(a), a < 1.0);
  return select(with_sign(y, x), x, is_nan(x));
}

fn cosh_f32(x: f32) -> f32 {
  let half = exp_scaled(abs(x), 0.0, -1);
  return select(half + 0.25 / half, x, is_nan(x));
}

fn swish_f32(x: f32, argument: f32) -> f32 {
  let gate = sigmoid_f32(argument);
  return select(x * gate, -0.0, equal_f32(gate, 0.0));
}
