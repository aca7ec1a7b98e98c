//! Helpers shared by the tests of products.

use super::Env;
use crate::cpu::arena::Arena;
use crate::cpu::kernels::float::Float;
use crate::cpu::schedule::pool::Threads;
use crate::cpu::simd::Isa;

/// Numbers in -1..1 with a fixed seed.
pub fn random<T: Float>(len: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            T::from_f32((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0)
        })
        .collect()
}

/// Compares with exact sums, given the sums of magnitudes. A sum of `terms` products in any order has an error of at
/// most `terms` roundings of the sum of magnitudes; half floats are rounded once more.
pub fn assert_sums<T: Float>(got: &[T], exact: &[(f64, f64)], terms: usize, case: impl Fn() -> String) {
    assert_eq!(got.len(), exact.len(), "{}", case());
    let store = if T::IS_F32 { 0.0 } else { 2f64.powi(-11) };
    for (i, (x, &(sum, magnitude))) in got.iter().zip(exact).enumerate() {
        let x = x.to_f32() as f64;
        let bound =
            magnitude * (terms as f64 + 2.0) * 2f64.powi(-24) + sum.abs() * store + 1e-7 * (store != 0.0) as u8 as f64;
        assert!((x - sum).abs() <= bound, "{}: element {i} is {x}, expected {sum} within {bound:e}", case());
    }
}

/// The bits of all elements.
pub fn bits<T: Float>(xs: &[T]) -> Vec<u32> {
    xs.iter().map(|x| x.to_f32().to_bits()).collect()
}

/// Runs `run` at every level with 1, 2 and 7 threads; the bits must not depend on the number of threads.
pub fn on_all<T: Float>(run: impl Fn(&Env) -> Vec<T>, check: impl Fn(&Env, &[T])) {
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
