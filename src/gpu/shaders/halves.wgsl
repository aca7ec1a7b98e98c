// float16 for devices without the type f16, in integers: the builtin unpack2x16float and pack2x16float leave infinity,
// NaN and denormals to the driver, and pack2x16float of SwiftShader returns other numbers for all three.

// The float16 value with the lowest 16 of these bits.
fn half_value(bits: u32) -> f32 {
  let magnitude = (bits & 0x7fffu) << 13u;
  // The exponents of float16 start at -15, those of float32 at -127; denormals are multiples of 2^-24.
  let number = select(magnitude + 0x38000000u, magnitude + 0x70000000u, magnitude >= 0x0f800000u);
  let small = bitcast<u32>(f32(bits & 0x7fffu) * 5.9604645e-8);
  return bitcast<f32>(select(number, small, magnitude < 0x00800000u) | ((bits & 0x8000u) << 16u));
}

// The bits of the nearest float16 value; of two, the even one.
fn half_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let magnitude = bits & 0x7fffffffu;
  // A carry out of the mantissa increments the exponent.
  let number = (magnitude + 0xfffu + ((magnitude >> 13u) & 1u) - 0x38000000u) >> 13u;
  // 0.5 has the ulp of float16's denormals.
  let small = bitcast<u32>(bitcast<f32>(magnitude) + 0.5) - 0x3f000000u;
  let beyond = select(0x7c00u, 0x7e00u, magnitude > 0x7f800000u);
  let finite = select(number, small, magnitude < 0x38800000u);
  return select(finite, beyond, magnitude >= 0x477ff000u) | ((bits >> 16u) & 0x8000u);
}

fn unpack_halves(word: u32) -> vec2<f32> { return vec2<f32>(half_value(word), half_value(word >> 16u)); }
fn pack_halves(x: vec2<f32>) -> u32 { return half_bits(x.x) | (half_bits(x.y) << 16u); }
fn round_f16(x: f32) -> f32 { return half_value(half_bits(x)); }
