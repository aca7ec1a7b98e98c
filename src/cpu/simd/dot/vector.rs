//! The operations of a level: vectors of bytes and of their sums.

use crate::cpu::simd::Simd;

/// Code that is compiled once per [`DotLevel`](super::DotLevel). Mark `run` and all performance-critical functions
/// below it `#[inline(always)]`.
pub trait DotKernel {
    /// The kernel's return type.
    type Output;
    /// Does the work, with the witness of the level it is compiled for.
    fn run<D: Dot>(self, dot: D) -> Self::Output;
}

/// Converts 32-bit results to bytes: `clamp(x + zero, low, high)`, finally with some bits inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToBytes {
    /// The value that represents 0, in 0..=255.
    pub zero: i16,
    /// The smallest byte.
    pub low: u8,
    /// The largest byte.
    pub high: u8,
    /// The bits to invert: 0x80 produces signed bytes; `zero`, `low` and `high` are then 128 larger than the signed values.
    pub flip: u8,
}

impl ToBytes {
    /// The byte of `x`. The sum must not overflow.
    #[inline(always)]
    pub(super) fn byte(self, x: i32) -> u8 {
        (x + self.zero as i32).clamp(self.low as i32, self.high as i32) as u8 ^ self.flip
    }
}

/// A byte shuffle that puts the even ones of eight integers first: for bytes (twice), and for integers of 16 bits.
pub(super) const EVENS_FIRST: [[u8; 16]; 2] =
    [[0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15], [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15]];

/// Vectors of 32-bit sums, and their conversion to floats and bytes. Values of the implementing types are witnesses: they
/// prove that the CPU has the instructions.
///
/// # Safety
/// A vector has exactly [`LANES`](Integers::LANES) integers, and no method accesses memory beyond what it documents:
/// kernels check the ends of their slices by these numbers.
pub unsafe trait Integers: Copy + Send + Sync + 'static {
    /// The level of floating-point vectors with as many lanes.
    type Float: Simd;
    /// A vector of [`LANES`](Integers::LANES) 32-bit integers.
    type Sums: Copy;
    /// 32-bit lanes per vector.
    const LANES: usize;

    /// The floating-point operations.
    fn float(self) -> Self::Float;

    /// A vector with `x` in all lanes.
    fn splat(self, x: i32) -> Self::Sums;

    /// Loads the `LANES` integers at `from`, at any alignment.
    ///
    /// # Safety
    /// `from` must be valid for reads of `LANES` integers.
    unsafe fn load_sums(self, from: *const i32) -> Self::Sums;

    /// The `LANES` bytes at `from` as integers.
    ///
    /// # Safety
    /// `from` must be valid for reads of `LANES` bytes.
    unsafe fn load_bytes<const SIGNED: bool>(self, from: *const u8) -> Self::Sums;

    /// `a + b`, in the lowest 32 bits.
    fn add(self, a: Self::Sums, b: Self::Sums) -> Self::Sums;

    /// `sums - a * b`, the lowest 32 bits.
    fn sub_product(self, sums: Self::Sums, a: Self::Sums, b: Self::Sums) -> Self::Sums;

    /// Converts to the nearest floats.
    fn to_float(self, sums: Self::Sums) -> <Self::Float as Simd>::F32;

    /// Rounds to the nearest integers, ties to even. Results outside the range of `i32` are undefined.
    fn round(self, x: <Self::Float as Simd>::F32) -> Self::Sums;

    /// The lowest digit of `bits` bits with a sign, and what remains without it, shifted down by `bits`.
    fn digit(self, numbers: Self::Sums, bits: i32) -> [Self::Sums; 2];

    /// The sum of all lanes, the lowest 32 bits.
    fn total(self, sums: Self::Sums) -> i32;

    /// Writes 16 integers, the first vectors of `group`, as integers of `SIZE` bytes, 1 or 2, which they fit into. If
    /// `EVENS_FIRST`, each eight of them are in the order 0, 2, 4, 6, 1, 3, 5, 7.
    ///
    /// # Safety
    /// `to` must be valid for writes of `16 * SIZE` bytes.
    unsafe fn store_digits<const SIZE: usize, const EVENS_FIRST: bool>(self, group: [Self::Sums; 4], to: *mut u8);

    /// Writes the first `count` lanes of `sums`, whose magnitudes are below 2^30, as bytes to `to`. The lanes are in
    /// the order of [`Dot::interleave`] if `INTERLEAVED`, else vector by vector.
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

/// Products of bytes, or of 16-bit integers, added to vectors of sums.
///
/// # Safety
/// A vector has exactly [`BYTES`](Dot::BYTES) bytes, and no method accesses memory beyond what it documents.
pub unsafe trait Dot: Integers {
    /// A vector of `4 * LANES` bytes.
    type Bytes: Copy;
    /// Bytes per vector.
    const BYTES: usize = 4 * Self::LANES;
    /// The fastest 32-bit words to multiply: of 4 bytes, or of 2 integers of 16 bits.
    const PER_WORD: usize;
    /// Whether left factors are signed bytes.
    const IS_SIGNED: bool = false;

    /// Loads the `BYTES` bytes at `from`.
    ///
    /// # Safety
    /// `from` must be valid for reads of `BYTES` bytes.
    unsafe fn load(self, from: *const u8) -> Self::Bytes;

    /// Loads the first `min(count, BYTES)` bytes at `from`; the others are 0. Reads nothing beyond them.
    ///
    /// # Safety
    /// `from` must be valid for reads of `count` bytes.
    unsafe fn load_first(self, from: *const u8, count: usize) -> Self::Bytes;

    /// The four bytes at `from` in every lane.
    ///
    /// # Safety
    /// `from` must be valid for reads of 4 bytes.
    unsafe fn broadcast(self, from: *const u8) -> Self::Bytes;

    /// The right numbers of [`LANES`](Integers::LANES) words: signed bytes, as integers of 16 bits if a word has two.
    ///
    /// # Safety
    /// `from` must be valid for reads of `LANES * PER_WORD` bytes.
    unsafe fn load_words(self, from: *const u8) -> Self::Bytes;

    /// `sums`, plus the sum of the products of the [`PER_WORD`](Dot::PER_WORD) numbers in each lane: left and right
    /// bytes, or integers of 16 bits.
    fn multiply_words(self, sums: Self::Sums, left: Self::Bytes, right: Self::Bytes) -> Self::Sums;

    /// Inverts the sign bit of all bytes.
    fn invert_signs(self, bytes: Self::Bytes) -> Self::Bytes;

    /// The low and the high nibbles of the bytes, as bytes.
    fn nibbles(self, bytes: Self::Bytes) -> [Self::Bytes; 2];

    /// The bytes at even and those at odd places as integers of 16 bits.
    fn split<const SIGNED: bool>(self, bytes: Self::Bytes) -> [Self::Bytes; 2];

    /// `sums`, plus the sum of the products of the four left and right bytes in each lane.
    #[inline(always)]
    fn dot(self, sums: Self::Sums, left: Self::Bytes, right: Self::Bytes) -> Self::Sums {
        if Self::PER_WORD == 4 {
            return self.multiply_words(sums, left, right);
        }
        let (left, right) = (self.split::<false>(left), self.split::<true>(right));
        self.multiply_words(self.multiply_words(sums, left[0], right[0]), left[1], right[1])
    }

    /// A vector to add products of nibbles to, which may have less room than `sums`.
    #[inline(always)]
    fn open_nibbles(self, sums: Self::Sums) -> Self::Sums {
        sums
    }

    /// [`dot`](Dot::dot) for left factors up to 15, added to a vector that [`open_nibbles`](Dot::open_nibbles)
    /// returned, at most eight times.
    #[inline(always)]
    fn add_nibbles(self, open: Self::Sums, left: Self::Bytes, right: Self::Bytes) -> Self::Sums {
        self.dot(open, left, right)
    }

    /// The `sums` passed to [`open_nibbles`](Dot::open_nibbles), plus the products added since.
    #[inline(always)]
    fn close_nibbles(self, _sums: Self::Sums, open: Self::Sums) -> Self::Sums {
        open
    }

    /// Interleaves the bytes of four vectors: byte `16 * l + 4 * v + e` of each becomes one of the four bytes in lane
    /// `4 * l + e` of vector `v`.
    fn interleave(self, bytes: [Self::Bytes; 4]) -> [Self::Bytes; 4];
}
