//! Helpers shared by the tests of products.

use super::Env;
use crate::cpu::arena::Arena;
use crate::cpu::schedule::pool::Threads;
use crate::cpu::simd::Isa;
use half::f16;

/// Numbers in -1..1 with a fixed seed.
pub fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// Compares with exact sums, given the sums of magnitudes. A sum of `terms` products in any order has an error of at
/// most `terms` roundings of the sum of magnitudes.
pub fn assert_sums(got: &[f32], exact: &[(f64, f64)], terms: usize, case: impl Fn() -> String) {
    assert_eq!(got.len(), exact.len(), "{}", case());
    for (i, (&x, &(sum, magnitude))) in got.iter().zip(exact).enumerate() {
        let (x, bound) = (x as f64, magnitude * (terms as f64 + 2.0) * 2f64.powi(-24));
        assert!((x - sum).abs() <= bound, "{}: element {i} is {x}, expected {sum} within {bound:e}", case());
    }
}

/// The bits of all elements.
fn bits(xs: &[f32]) -> Vec<u32> {
    xs.iter().map(|x| x.to_bits()).collect()
}

/// Numbers rounded to float16, as such, and as float32 again.
pub fn halves(xs: &[f32]) -> (Vec<f16>, Vec<f32>) {
    let halves: Vec<f16> = xs.iter().map(|&x| f16::from_f32(x)).collect();
    let wide = halves.iter().map(|x| x.to_f32()).collect();
    (halves, wide)
}

/// Runs `run` at every level with 1, 2 and 7 threads; the bits must not depend on the number of threads.
pub fn on_all(run: impl Fn(&Env) -> Vec<f32>, check: impl Fn(&Env, &[f32])) {
    for isa in Isa::available() {
        let mut first = None;
        for count in [1, 2, 7] {
            let threads = Threads::new(count).unwrap();
            let env = Env { threads: &threads, isa, arena: &Arena::default() };
            let out = run(&env);
            check(&env, &out);
            let bits = bits(&out);
            assert!(*first.get_or_insert_with(|| bits.clone()) == bits, "{count} threads on {isa:?} differ");
        }
    }
}
