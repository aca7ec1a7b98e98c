//! Sums of products of 8-bit integers: adds four neighboring products to each 32-bit lane.
//!
//! Right factors are signed; left ones are unsigned on x86, signed on NEON, as the instructions require. Other left factors
//! become so by adding or subtracting 128, whose contribution callers correct in the sums. All sums are exact (modulo
//! 2^32) at every level.

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::Isa;
#[cfg(target_arch = "aarch64")]
pub use neon::NeonDot;
use portable::PortableDot;
pub use vector::{Dot, DotKernel, Integers, ToBytes};
#[cfg(target_arch = "x86_64")]
use x86::{Avx2Dot, Avx512Dot, Avx512Narrow, Avx512Vnni, AvxVnni};

/// The instruction set for sums of products of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotLevel {
    /// The baseline of the architecture.
    Portable,
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon(NeonDot<false>),
    /// NEON with dot products.
    #[cfg(target_arch = "aarch64")]
    NeonDot(NeonDot<true>),
    /// AVX2: bytes are widened to 16 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2Dot),
    /// AVX2 and AVX-VNNI.
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni),
    /// AVX-512 without VNNI: bytes are widened to 16 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512Dot),
    /// AVX-512 with VNNI, in vectors of 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512Narrow(Avx512Narrow),
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni),
}

impl DotLevel {
    /// All levels of this CPU that are compatible with `isa`, the best one last. Tests run on all of them.
    pub fn available(isa: Isa) -> impl Iterator<Item = DotLevel> {
        let levels = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => {
                [Some(DotLevel::Avx2(Avx2Dot(avx2))), None, AvxVnni::detect(avx2).map(DotLevel::AvxVnni)]
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(avx512) => {
                let best = Avx512Vnni::detect(avx512);
                let narrow = best.and_then(Avx512Vnni::narrow).map(DotLevel::Avx512Narrow);
                [Some(DotLevel::Avx512(Avx512Dot(avx512))), narrow, best.map(DotLevel::Avx512Vnni)]
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(neon) => {
                [Some(DotLevel::Neon(NeonDot::new(neon))), None, NeonDot::detect(neon).map(DotLevel::NeonDot)]
            }
            _ => [Some(DotLevel::Portable), None, None],
        };
        levels.into_iter().flatten()
    }

    /// The best level of this CPU that is compatible with `isa`.
    pub fn of(isa: Isa) -> DotLevel {
        DotLevel::available(isa).last().unwrap_or(DotLevel::Portable)
    }

    /// The level with half as many lanes, if there is one with the same instructions.
    pub fn narrow(self) -> DotLevel {
        match self {
            #[cfg(target_arch = "x86_64")]
            DotLevel::Avx512Vnni(dot) => dot.narrow().map_or(self, DotLevel::Avx512Narrow),
            _ => self,
        }
    }

    /// Runs `kernel` in a function compiled for this level.
    #[inline]
    pub fn run<K: DotKernel>(self, kernel: K) -> K::Output {
        match self {
            DotLevel::Portable => kernel.run(PortableDot),
            #[cfg(target_arch = "aarch64")]
            DotLevel::Neon(dot) => dot.enter(kernel),
            #[cfg(target_arch = "aarch64")]
            DotLevel::NeonDot(dot) => dot.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            DotLevel::Avx2(dot) => dot.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            DotLevel::AvxVnni(dot) => dot.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            DotLevel::Avx512(dot) => dot.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            DotLevel::Avx512Narrow(dot) => dot.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            DotLevel::Avx512Vnni(dot) => dot.enter(kernel),
        }
    }

    /// Whether left factors are signed bytes: [`Dot::IS_SIGNED`].
    pub fn is_signed(self) -> bool {
        struct IsSigned;
        impl DotKernel for IsSigned {
            type Output = bool;
            #[inline(always)]
            fn run<D: Dot>(self, _: D) -> bool {
                D::IS_SIGNED
            }
        }
        self.run(IsSigned)
    }

    /// 32-bit lanes of a vector: [`Integers::LANES`].
    pub fn lanes(self) -> usize {
        struct Lanes;
        impl DotKernel for Lanes {
            type Output = usize;
            #[inline(always)]
            fn run<D: Dot>(self, _: D) -> usize {
                D::LANES
            }
        }
        self.run(Lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Simd;
    use super::*;

    struct Check;

    impl DotKernel for Check {
        type Output = ();
        #[inline(always)]
        fn run<D: Dot>(self, dot: D) {
            let n = D::BYTES;
            let bytes = |seed: usize| (0..n).map(|i| (i * 89 + seed * 57 + 13) as u8).collect::<Vec<u8>>();
            let (a, b) = (bytes(1), bytes(2));
            let ints: Vec<i32> = (0..D::LANES as i32).map(|i| i * 1000 - 7).collect();
            let left_of = |byte: u8| if D::IS_SIGNED { byte as i8 as i32 } else { byte as i32 };
            // Also with extreme factors in every product.
            for (a, b) in [
                (a.clone(), b),
                (vec![255; n], vec![0x80; n]),
                (vec![255; n], vec![0x7f; n]),
                (vec![0x80; n], vec![0x80; n]),
            ] {
                // SAFETY: the vectors hold all bytes and integers that are read.
                let (left, right, start) =
                    unsafe { (dot.load(a.as_ptr()), dot.load(b.as_ptr()), dot.load_sums(ints.as_ptr())) };
                let sums = dot.dot(start, left, right);
                let expected: Vec<i32> = ints
                    .iter()
                    .enumerate()
                    .map(|(lane, start)| {
                        start + (4 * lane..4 * lane + 4).map(|i| left_of(a[i]) * b[i] as i8 as i32).sum::<i32>()
                    })
                    .collect();
                assert_eq!(lanes(dot, sums), expected);
            }
            let (word, signed) = ([1, 200, 3, 0x7f], |i: usize| a[i] as i8 as i32);
            // SAFETY: the word and the vector hold all bytes that are read.
            let (left, right) = unsafe { (dot.broadcast(word.as_ptr()), dot.load_words(a.as_ptr())) };
            let sums = lanes(dot, dot.multiply_words(dot.splat(5), left, right));
            let pair = |bytes: &[u8]| i16::from_le_bytes([bytes[0], bytes[1]]) as i32;
            let expected = match D::PER_WORD {
                4 => signed(4) + left_of(200) * signed(5) + 3 * signed(6) + 0x7f * signed(7),
                _ => pair(&word) * signed(2) + pair(&word[2..]) * signed(3),
            };
            assert_eq!(sums[1], (5 + expected) as f32 as i32);
            self.stores(dot, left_of);
        }
    }

    fn lanes<D: Dot>(dot: D, sums: D::Sums) -> Vec<i32> {
        // Exact as floats: the sums are below 2^24.
        let mut floats = vec![0.0; D::LANES];
        dot.float().store(dot.to_float(sums), &mut floats);
        floats.into_iter().map(|x| x as i32).collect()
    }

    impl Check {
        #[inline(always)]
        fn stores<D: Dot>(self, dot: D, left_of: impl Fn(u8) -> i32) {
            let n = D::BYTES;
            let ints: Vec<i32> = (0..n as i32).map(|i| (i - 20) * 5 * if i % 7 == 0 { 100_000 } else { 1 }).collect();
            // SAFETY: the vector holds `4 * LANES` integers.
            let sums = [0, 1, 2, 3].map(|v| unsafe { dot.load_sums(ints.as_ptr().add(v * D::LANES)) });
            let ways = [
                ToBytes { zero: 0, low: 0, high: 255, flip: 0 },
                ToBytes { zero: 100, low: 110, high: 200, flip: 0 },
                ToBytes { zero: 131, low: 0, high: 255, flip: 0x80 },
            ];
            for how in ways {
                for count in [0, 1, 5, n / 4, n / 2, n - 1, n] {
                    let mut out = vec![77; n];
                    // SAFETY: at most all bytes of `out` are written.
                    unsafe { dot.store_bytes::<4, false>(sums, how, out.as_mut_ptr(), count) };
                    let expected: Vec<u8> = ints.iter().map(|&x| how.byte(x)).collect();
                    assert_eq!(out[..count], expected[..count]);
                    assert!(out[count..].iter().all(|&x| x == 77));
                    let mut out = vec![77; n];
                    // SAFETY: at most all bytes of `out` are written.
                    unsafe { dot.store_bytes::<4, true>(sums, how, out.as_mut_ptr(), count) };
                    let order = |i: usize| i % 16 / 4 * D::LANES + i / 16 * 4 + i % 4;
                    assert!((0..count).all(|i| out[i] == expected[order(i)]), "interleaved");
                    let mut out = vec![77; n / 4];
                    // SAFETY: at most all bytes of `out` are written.
                    unsafe {
                        dot.store_bytes::<1, false>([sums[1]], how, out.as_mut_ptr(), count.min(n / 4));
                    }
                    assert_eq!(out[..count.min(n / 4)], expected[n / 4..][..count.min(n / 4)]);
                }
            }
            let columns: Vec<Vec<u8>> = (0..4).map(|c| (0..n).map(|i| (i + 64 * c) as u8).collect()).collect();
            // SAFETY: the vectors hold all bytes that are read.
            let quads = dot.interleave([0, 1, 2, 3].map(|c| unsafe { dot.load(columns[c].as_ptr()) }));
            for v in 0..4 {
                // The right factors 1, 0, 0, 0 select the first byte of each lane, and so on.
                for (byte, column) in columns.iter().enumerate() {
                    let pick: Vec<u8> = (0..n).map(|i| (i % 4 == byte) as u8).collect();
                    // SAFETY: the vector holds all bytes that are read.
                    let right = unsafe { dot.load(pick.as_ptr()) };
                    let picked = lanes(dot, dot.dot(dot.splat(0), quads[v], right));
                    let source = |lane: usize| left_of(column[16 * (lane / 4) + 4 * v + lane % 4]);
                    assert!(picked.iter().enumerate().all(|(lane, &x)| x == source(lane)));
                }
            }
        }
    }

    #[test]
    fn every_level_is_exact() {
        for isa in Isa::available() {
            for level in DotLevel::available(isa) {
                level.run(Check);
            }
        }
    }
}
