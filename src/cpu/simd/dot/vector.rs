//! What a level has to have: vectors of bytes and of their sums.

use crate::cpu::simd::Simd;

/// Code that is compiled once per [`DotLevel`](super::DotLevel). Mark `run`, and every function below it that matters, with
/// `#[inline(always)]`.
pub trait DotKernel {
    /// What the kernel returns.
    type Output;
    /// The work, with the witness of the level it is compiled for.
    fn run<D: Dot>(self, dot: D) -> Self::Output;
}

/// How 32-bit results become bytes: `clamp(x + zero, low, high)`, with some bits inverted at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToBytes {
    /// What stands for 0, in 0..=255.
    pub zero: i16,
    /// The least byte.
    pub low: u8,
    /// The greatest byte.
    pub high: u8,
    /// The bits that are inverted: 0x80 makes signed bytes, whose `zero`, `low` and `high` are 128 larger than said.
    pub flip: u8,
}

impl ToBytes {
    /// The byte of `x`. The sum must not overflow.
    #[inline(always)]
    pub(super) fn byte(self, x: i32) -> u8 {
        (x + self.zero as i32).clamp(self.low as i32, self.high as i32) as u8 ^ self.flip
    }
}

/// The operations of one level. Implementors are witnesses: holding one proves that the CPU has the instructions.
///
/// # Safety
/// A vector has exactly [`LANES`](Dot::LANES) integers or [`BYTES`](Dot::BYTES) bytes, and no method reads or writes other memory
/// than it says: kernels check the ends of their slices by these numbers.
pub unsafe trait Dot: Copy + Send + Sync + 'static {
    /// The level of floating-point vectors, which have as many lanes.
    type Float: Simd;
    /// A vector of [`LANES`](Dot::LANES) 32-bit integers.
    type Sums: Copy;
    /// A vector of `4 * LANES` bytes.
    type Bytes: Copy;
    /// Left factors, made ready.
    type Left: Copy;
    /// Right factors, made ready.
    type Right: Copy;
    /// 32-bit lanes of a vector.
    const LANES: usize;
    /// Bytes of a vector.
    const BYTES: usize = 4 * Self::LANES;
    /// The most vectors in a row of a register tile, a power of two.
    const VECTORS: usize;
    /// The rows of a register tile with 1, 2 or 4 vectors, by the binary logarithm of that number.
    const ROWS: [usize; 3];

    /// The floating-point operations.
    fn float(self) -> Self::Float;

    /// All lanes are `x`.
    fn splat(self, x: i32) -> Self::Sums;

    /// The `LANES` integers at `from`, at any alignment.
    ///
    /// # Safety
    /// `from` must be valid for reads of `LANES` integers.
    unsafe fn load_sums(self, from: *const i32) -> Self::Sums;

    /// The `BYTES` bytes at `from`.
    ///
    /// # Safety
    /// `from` must be valid for reads of `BYTES` bytes.
    unsafe fn load(self, from: *const u8) -> Self::Bytes;

    /// The first `min(count, BYTES)` bytes at `from`; the others are 0. Reads nothing beyond.
    ///
    /// # Safety
    /// `from` must be valid for reads of `count` bytes.
    unsafe fn load_first(self, from: *const u8, count: usize) -> Self::Bytes;

    /// All bytes with their sign bit inverted.
    fn invert_signs(self, bytes: Self::Bytes) -> Self::Bytes;

    /// The four bytes of `quad` in every lane, as left factors.
    fn left_quad(self, quad: u32) -> Self::Left;

    /// The four signed bytes of `quad` in every lane, as right factors.
    fn right_quad(self, quad: u32) -> Self::Right;

    /// The low and the high halves of bytes, as bytes.
    fn nibbles(self, bytes: Self::Bytes) -> [Self::Bytes; 2];

    /// Unsigned bytes as left factors.
    fn left(self, bytes: Self::Bytes) -> Self::Left;

    /// Signed bytes as right factors.
    fn right(self, bytes: Self::Bytes) -> Self::Right;

    /// `sums`, and to each lane the sum of the products of its four bytes.
    fn dot(self, sums: Self::Sums, left: Self::Left, right: Self::Right) -> Self::Sums;

    /// `sums - a * b`, in the lowest 32 bits.
    fn sub_product(self, sums: Self::Sums, a: Self::Sums, b: Self::Sums) -> Self::Sums;

    /// Bytes `b` of four vectors, next to each other, as the four bytes of a lane: that of byte `16 * l + 4 * v + e` is
    /// lane `4 * l + e` of vector `v`.
    fn interleave(self, bytes: [Self::Bytes; 4]) -> [Self::Bytes; 4];

    /// The nearest floats.
    fn to_float(self, sums: Self::Sums) -> <Self::Float as Simd>::F32;

    /// The nearest integers, of ties the even ones. Anything outside of the range of `i32` has an undefined result.
    fn round(self, x: <Self::Float as Simd>::F32) -> Self::Sums;

    /// Writes the bytes of the first `count` lanes of `sums`, which are below 2^30 in magnitude, to `to`. The lanes are
    /// in the order of [`interleave`](Dot::interleave) if `INTERLEAVED`, else one vector after the other.
    ///
    /// # Safety
    /// `to` must be valid for writes of `count` bytes. `VECS` is 1, 2 or 4, and 4 if `INTERLEAVED`.
    unsafe fn store_bytes<const VECS: usize, const INTERLEAVED: bool>(
        self,
        sums: [Self::Sums; VECS],
        how: ToBytes,
        to: *mut u8,
        count: usize,
    );
}
