//! The baseline level of all CPUs.

use super::super::{Portable, Simd};
use super::vector::{Dot, EVENS_FIRST, Integers, ToBytes};

/// Four lanes in plain Rust; the compiler maps them to the base vector registers of the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortableDot;

// SAFETY: vectors are arrays of 4 integers.
unsafe impl Integers for PortableDot {
    type Float = Portable;
    type Sums = [i32; 4];
    const LANES: usize = 4;

    #[inline(always)]
    fn float(self) -> Portable {
        Portable
    }

    #[inline(always)]
    fn splat(self, x: i32) -> [i32; 4] {
        [x; 4]
    }

    #[inline(always)]
    unsafe fn load_sums(self, from: *const i32) -> [i32; 4] {
        // SAFETY: the caller guarantees that four integers can be read.
        unsafe { from.cast::<[i32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_bytes<const SIGNED: bool>(self, from: *const u8) -> [i32; 4] {
        // SAFETY: the caller guarantees that 4 bytes can be read.
        let bytes = unsafe { from.cast::<[u8; 4]>().read() };
        bytes.map(|byte| if SIGNED { byte as i8 as i32 } else { byte as i32 })
    }

    #[inline(always)]
    fn add(self, a: [i32; 4], b: [i32; 4]) -> [i32; 4] {
        std::array::from_fn(|lane| a[lane].wrapping_add(b[lane]))
    }

    #[inline(always)]
    fn sub_product(self, sums: [i32; 4], a: [i32; 4], b: [i32; 4]) -> [i32; 4] {
        let mut out = sums;
        for (lane, sum) in out.iter_mut().enumerate() {
            *sum = sum.wrapping_sub(a[lane].wrapping_mul(b[lane]));
        }
        out
    }

    #[inline(always)]
    fn to_float(self, sums: [i32; 4]) -> <Portable as Simd>::F32 {
        Portable.load(&sums.map(|x| x as f32))
    }

    #[inline(always)]
    fn round(self, x: <Portable as Simd>::F32) -> [i32; 4] {
        let mut lanes = [0.0; 4];
        Portable.store(x, &mut lanes);
        lanes.map(|x| x.round_ties_even() as i32)
    }

    #[inline(always)]
    fn digit(self, numbers: [i32; 4], bits: i32) -> [[i32; 4]; 2] {
        let digits = numbers.map(|number| number << (32 - bits) >> (32 - bits));
        [digits, std::array::from_fn(|lane| numbers[lane].wrapping_sub(digits[lane]) >> bits)]
    }

    #[inline(always)]
    fn total(self, sums: [i32; 4]) -> i32 {
        sums.into_iter().fold(0, i32::wrapping_add)
    }

    #[inline(always)]
    unsafe fn store_digits<const SIZE: usize, const EVENS: bool>(self, group: [[i32; 4]; 4], to: *mut u8) {
        for (at, &place) in EVENS_FIRST[0].iter().enumerate() {
            let from = if EVENS { place as usize } else { at };
            let bytes = group.as_flattened()[from].to_le_bytes();
            // SAFETY: the caller guarantees that 16 integers can be written.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(at * SIZE), SIZE) };
        }
    }

    #[inline(always)]
    unsafe fn store_bytes<const VECS: usize, const INTERLEAVED: bool>(
        self,
        sums: [[i32; 4]; VECS],
        how: ToBytes,
        to: *mut u8,
        count: usize,
    ) {
        // With four lanes both orders are the same.
        for (v, sums) in sums.iter().enumerate() {
            for (lane, &x) in sums.iter().enumerate().filter(|(lane, _)| 4 * v + lane < count) {
                // SAFETY: the caller guarantees that `count` bytes can be written.
                unsafe { to.add(4 * v + lane).write(how.byte(x)) };
            }
        }
    }
}

// SAFETY: vectors are arrays of 16 bytes.
unsafe impl Dot for PortableDot {
    type Bytes = [u8; 16];
    const PER_WORD: usize = 2;

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> [u8; 16] {
        // SAFETY: the caller guarantees that 16 bytes can be read.
        unsafe { from.cast::<[u8; 16]>().read() }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const u8, count: usize) -> [u8; 16] {
        let mut bytes = [0; 16];
        // SAFETY: the caller guarantees that `count` bytes can be read; no more than the array holds are written.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count.min(16)) };
        bytes
    }

    #[inline(always)]
    unsafe fn broadcast(self, from: *const u8) -> [u8; 16] {
        // SAFETY: the caller guarantees that 4 bytes can be read.
        let word = unsafe { from.cast::<[u8; 4]>().read() };
        std::array::from_fn(|i| word[i % 4])
    }

    #[inline(always)]
    unsafe fn load_words(self, from: *const u8) -> [u8; 16] {
        // SAFETY: the caller guarantees that 8 bytes can be read.
        let bytes = unsafe { from.cast::<[i8; 8]>().read() };
        let mut wide = [0; 16];
        for (wide, &byte) in wide.as_chunks_mut::<2>().0.iter_mut().zip(&bytes) {
            *wide = (byte as i16).to_le_bytes();
        }
        wide
    }

    #[inline(always)]
    fn multiply_words(self, sums: [i32; 4], left: [u8; 16], right: [u8; 16]) -> [i32; 4] {
        let number = |bytes: &[u8; 16], i: usize| i16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]) as i32;
        let product = |i: usize| number(&left, i) * number(&right, i);
        let mut out = sums;
        for (lane, sum) in out.iter_mut().enumerate() {
            *sum = sum.wrapping_add(product(2 * lane) + product(2 * lane + 1));
        }
        out
    }

    #[inline(always)]
    fn invert_signs(self, bytes: [u8; 16]) -> [u8; 16] {
        bytes.map(|byte| byte ^ 0x80)
    }

    #[inline(always)]
    fn nibbles(self, bytes: [u8; 16]) -> [[u8; 16]; 2] {
        let (mut low, mut high) = ([0; 16], [0; 16]);
        for i in 0..16 {
            (low[i], high[i]) = (bytes[i] & 15, bytes[i] >> 4);
        }
        [low, high]
    }

    #[inline(always)]
    fn split<const SIGNED: bool>(self, bytes: [u8; 16]) -> [[u8; 16]; 2] {
        let mut halves = [[0; 16]; 2];
        for (i, &byte) in bytes.iter().enumerate() {
            let wide = if SIGNED { byte as i8 as i16 } else { byte as i16 };
            halves[i % 2][i / 2 * 2..][..2].copy_from_slice(&wide.to_le_bytes());
        }
        halves
    }

    #[inline(always)]
    fn dot(self, sums: [i32; 4], left: [u8; 16], right: [u8; 16]) -> [i32; 4] {
        let mut out = sums;
        for (lane, sum) in out.iter_mut().enumerate() {
            let product = |i: usize| left[4 * lane + i] as i32 * right[4 * lane + i] as i8 as i32;
            *sum = sum.wrapping_add((product(0) + product(1)) + (product(2) + product(3)));
        }
        out
    }

    #[inline(always)]
    fn interleave(self, bytes: [[u8; 16]; 4]) -> [[u8; 16]; 4] {
        let mut quads = [[0; 16]; 4];
        for (v, quads) in quads.iter_mut().enumerate() {
            for (i, byte) in quads.iter_mut().enumerate() {
                *byte = bytes[i % 4][4 * v + i / 4];
            }
        }
        quads
    }
}
