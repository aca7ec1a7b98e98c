//! Transposes matrices in squares that stay in registers. The elements have any size, the rows any distance: they may
//! overlap, be all the same one, or lie in reverse order. Half floats are widened on the way.

use super::float::Float;
use crate::cpu::simd::{Isa, Kernel, MAX_LANES, Simd};
use crate::dtype::Element;

/// The starts of parts of `side` elements that cover `len`; the last one overlaps the preceding one.
#[inline(always)]
fn starts(len: usize, side: usize) -> impl Iterator<Item = usize> {
    (0..len).step_by(side).map(move |start| start.min(len.saturating_sub(side)))
}

/// `to[c * to_stride + r] = rows[r][c]` for `high` rows and `wide` columns, at most a square.
///
/// # Safety
/// These elements must be readable and writable.
#[inline(always)]
unsafe fn turn_part<S: Simd, T: Float>(
    simd: S,
    rows: [*const T; MAX_LANES],
    [high, wide]: [usize; 2],
    to: *mut f32,
    to_stride: usize,
) {
    // SAFETY: by the contract.
    unsafe {
        if high == S::LANES && wide == S::LANES {
            turn_square(simd, rows, [S::LANES, S::LANES], to, to_stride);
        } else {
            turn_square(simd, rows, [high, wide], to, to_stride);
        }
    }
}

/// The body of [`turn_part`], which passes the usual sizes as constants.
///
/// # Safety
/// As for [`turn_part`].
#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]
unsafe fn turn_square<S: Simd, T: Float>(
    simd: S,
    rows: [*const T; MAX_LANES],
    [high, wide]: [usize; 2],
    to: *mut f32,
    to_stride: usize,
) {
    let mut square = [simd.splat(0.0); MAX_LANES];
    for row in 0..S::LANES {
        if row < high {
            // SAFETY: by the contract.
            square[row] = unsafe { T::load_first(simd, rows[row], wide) };
        }
    }
    simd.transpose(&mut square);
    for col in 0..S::LANES {
        if col < wide {
            // SAFETY: by the contract.
            unsafe { simd.store_first(square[col], to.add(col * to_stride), high) };
        }
    }
}

/// `to[c * to_stride + r] = from[r * from_stride + c]` for a matrix of `rows` by `cols`.
///
/// # Panics
/// If a slice is too short.
#[inline(always)]
pub fn transpose<S: Simd, T: Float>(
    simd: S,
    from: &[T],
    from_stride: usize,
    size: [usize; 2],
    to: &mut [f32],
    to_stride: usize,
) {
    let [rows, cols] = size;
    if rows == 0 || cols == 0 {
        return;
    }
    assert!((rows - 1) * from_stride + cols <= from.len() && (cols - 1) * to_stride + rows <= to.len());
    let (from, to) = (from.as_ptr(), to.as_mut_ptr());
    // SAFETY: the ends of both matrices were just checked.
    unsafe { transpose_ptr(simd, from, from_stride as isize, size, to, to_stride) }
}

/// Like [`transpose`], for rows anywhere, which all have as many elements; `None` stands for zeros.
///
/// # Panics
/// If the rows differ in length, or `to` is too short.
#[inline(always)]
pub fn interleave<S: Simd>(simd: S, rows: &[Option<&[f32]>], to: &mut [f32], to_stride: usize) {
    let Some(&any) = rows.iter().flatten().next() else {
        return to.chunks_mut(to_stride).for_each(|to| to[..rows.len()].fill(0.0));
    };
    assert!(any.is_empty() || (any.len() - 1) * to_stride + rows.len() <= to.len());
    for first in starts(rows.len(), S::LANES) {
        let high = S::LANES.min(rows.len());
        let mut group = [any.as_ptr(); MAX_LANES];
        for (to, row) in group.iter_mut().zip(&rows[first..][..high]) {
            let row = row.unwrap_or(any);
            assert!(row.len() == any.len());
            *to = row.as_ptr();
        }
        for at in starts(any.len(), S::LANES) {
            let (rows, size) = (group.map(|row| row.wrapping_add(at)), [high, S::LANES.min(any.len())]);
            // SAFETY: the lengths of the rows and of `to` were checked.
            unsafe { turn_part(simd, rows, size, to[at * to_stride + first..].as_mut_ptr(), to_stride) };
        }
    }
    for (lane, _) in rows.iter().enumerate().filter(|(_, row)| row.is_none()) {
        to[lane..].iter_mut().step_by(to_stride).for_each(|x| *x = 0.0);
    }
}

/// Like [`transpose`], for rows in any order.
///
/// # Safety
/// All of them must be readable and writable.
#[inline(always)]
unsafe fn transpose_ptr<S: Simd, T: Float>(
    simd: S,
    from: *const T,
    from_stride: isize,
    [rows, cols]: [usize; 2],
    to: *mut f32,
    to_stride: usize,
) {
    let size = [rows, cols].map(|len| len.min(S::LANES));
    // Writes rows of `to` from beginning to end.
    for at in starts(cols, S::LANES) {
        for first in starts(rows, S::LANES) {
            let from = from.wrapping_offset(first as isize * from_stride).wrapping_add(at);
            let rows = std::array::from_fn(|row| from.wrapping_offset(row as isize * from_stride));
            // SAFETY: by the contract.
            unsafe { turn_part(simd, rows, size, to.add(at * to_stride + first), to_stride) };
        }
    }
}

/// Moves elements: `to[c * to_stride + r] = from[r * from_stride + c]` for a matrix of `rows` by `cols`.
///
/// # Safety
/// All elements must be readable and writable, and no other thread may access those of `to`.
pub unsafe fn transpose_elements<T: Element>(
    isa: Isa,
    from: *const T,
    from_stride: isize,
    size: [usize; 2],
    to: *mut T,
    to_stride: isize,
) {
    let elements = Elements { from, from_stride, size, to, to_stride };
    match (size_of::<T>(), size) {
        (_, [2..=4, _] | [_, 2..=4]) => isa.run(Few(elements)),
        // Vectors of floats can move any bits.
        (4, _) => isa.run(Elements { from: from.cast::<f32>(), from_stride, size, to: to.cast(), to_stride }),
        (1, [rows, cols]) if isa.lanes() > WORD && rows >= isa.lanes() && cols >= WORD * isa.lanes() => {
            isa.run(Bytes(Elements { from: from.cast(), from_stride, size, to: to.cast(), to_stride }));
        }
        // SAFETY: by the contract, and the elements have this many bytes.
        (1, _) if size.iter().all(|&len| len >= SIDE) => unsafe {
            in_words::<1>(from.cast(), from_stride, size, to.cast(), to_stride)
        },
        // SAFETY: as above.
        (2, _) if size.iter().all(|&len| len >= SIDE) => unsafe {
            in_words::<2>(from.cast(), from_stride, size, to.cast(), to_stride)
        },
        // SAFETY: by the contract.
        _ => unsafe { elements.one_by_one() },
    }
}

/// Rows and columns of a square of [`in_words`].
const SIDE: usize = 8;

/// Moves elements of one or two bytes, at least 8 by 8. Not in a [`Kernel`]: the compiler would make larger vectors of the
/// words, which takes longer.
///
/// # Safety
/// As for [`transpose_elements`].
unsafe fn in_words<const BYTES: usize>(
    from: *const [u8; BYTES],
    from_stride: isize,
    [rows, cols]: [usize; 2],
    to: *mut [u8; BYTES],
    to_stride: isize,
) {
    for col in starts(cols, SIDE) {
        for row in starts(rows, SIDE) {
            // SAFETY: the square is inside the matrix.
            let (from, to) = unsafe {
                (from.offset(row as isize * from_stride).add(col), to.offset(col as isize * to_stride).add(row))
            };
            let mut square = [[0; BYTES]; SIDE];
            for (r, words) in square.iter_mut().enumerate() {
                // SAFETY: 8 elements of the matrix are `BYTES` words of 8 bytes, and are readable.
                *words = unsafe { from.offset(r as isize * from_stride).cast::<[u64; BYTES]>().read_unaligned() };
            }
            turn(&mut square);
            for (c, words) in square.iter().enumerate() {
                // SAFETY: as above; they are writable.
                unsafe { to.offset(c as isize * to_stride).cast::<[u64; BYTES]>().write_unaligned(*words) };
            }
        }
    }
}

/// Transposes a square of elements of `BYTES` bytes, stored as `BYTES` words per row: swaps quarters, then the quarters
/// of each.
#[inline(always)]
fn turn<const BYTES: usize>(square: &mut [[u64; BYTES]; SIDE]) {
    for distance in [4, 2, 1] {
        let bits = distance * 8 * BYTES;
        for upper in (0..SIDE).filter(|row| row & distance == 0) {
            let lower = upper + distance;
            if bits == 64 {
                (square[upper][BYTES - 1], square[lower][0]) = (square[lower][0], square[upper][BYTES - 1]);
                continue;
            }
            let low_half = u64::MAX / ((1 << bits) + 1);
            let (uppers, lowers) = square.split_at_mut(lower);
            for (upper, lower) in uppers[upper].iter_mut().zip(&mut lowers[0]) {
                let changed = (*upper >> bits ^ *lower) & low_half;
                *lower ^= changed;
                *upper ^= changed << bits;
            }
        }
    }
}

/// The arguments of [`transpose_elements`], whose caller guarantees what [`Kernel::run`] relies on.
struct Elements<T> {
    from: *const T,
    from_stride: isize,
    size: [usize; 2],
    to: *mut T,
    to_stride: isize,
}

impl Kernel for Elements<f32> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Elements { from, from_stride, size, to, to_stride } = self;
        // SAFETY: by the contract of `transpose_elements`.
        unsafe { transpose_ptr(simd, from, from_stride, size, to, to_stride as usize) }
    }
}

/// Bytes of a word.
const WORD: usize = 4;

/// Bytes, at least a vector of words wide and as many of these high as a vector has. Words are transposed as floats are;
/// then each byte of a vector of them is a part of a row.
struct Bytes(Elements<u8>);

impl Kernel for Bytes {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Elements { from, from_stride, size: [rows, cols], to, to_stride } = self.0;
        for col in starts(cols, WORD * S::LANES) {
            for row in starts(rows, S::LANES) {
                let mut square = [simd.splat(0.0); MAX_LANES];
                for (r, words) in square[..S::LANES].iter_mut().enumerate() {
                    let from = from.wrapping_offset((row + r) as isize * from_stride).wrapping_add(col);
                    // SAFETY: the square is inside the matrix, by the contract of `transpose_elements`.
                    *words = unsafe { simd.load_ptr(from.cast()) };
                }
                simd.transpose(&mut square);
                for (w, words) in square[..S::LANES].iter().enumerate() {
                    let mut bits = [0.0; MAX_LANES];
                    simd.store(*words, &mut bits);
                    for byte in 0..WORD {
                        let line = (col + w * WORD + byte) as isize * to_stride;
                        // SAFETY: as above; no other thread accesses these elements.
                        let to = unsafe { std::slice::from_raw_parts_mut(to.offset(line).add(row), S::LANES) };
                        for lane in 0..S::LANES {
                            to[lane] = (bits[lane].to_bits() >> (8 * byte)) as u8;
                        }
                    }
                }
            }
        }
    }
}

impl<T: Copy> Elements<T> {
    /// Moves single elements, those of small squares together.
    ///
    /// # Safety
    /// As for [`transpose_elements`].
    unsafe fn one_by_one(self) {
        let Elements { from, from_stride, size: [rows, cols], to, to_stride } = self;
        for (col, row) in (0..cols).step_by(SIDE).flat_map(|col| (0..rows).step_by(SIDE).map(move |row| (col, row))) {
            for c in col as isize..cols.min(col + SIDE) as isize {
                for r in row as isize..rows.min(row + SIDE) as isize {
                    // SAFETY: by the contract.
                    unsafe { *to.offset(c * to_stride + r) = *from.offset(r * from_stride + c) };
                }
            }
        }
    }
}

/// Two to four rows or columns: planes of colors that become pixels, or the reverse.
struct Few<T>(Elements<T>);

impl<T: Copy> Kernel for Few<T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Elements { from, from_stride, size, to, to_stride } = self.0;
        let (few, len, a, b) = match size {
            [few @ 2..=4, len] => (few, len, [from_stride, 1], [1, to_stride]),
            [len, few] => (few, len, [1, from_stride], [to_stride, 1]),
        };
        // SAFETY: by the contract of `transpose_elements`.
        unsafe {
            match few {
                2 => groups(2, len, from, a, to, b),
                3 => groups(3, len, from, a, to, b),
                _ => groups(4, len, from, a, to, b),
            }
        }
    }
}

/// Moves `len` groups of `few` elements, a constant. `a` and `b` are the distances within a group and between groups.
///
/// # Safety
/// All elements must be readable and writable.
#[inline(always)]
unsafe fn groups<T: Copy>(few: isize, len: usize, from: *const T, a: [isize; 2], to: *mut T, b: [isize; 2]) {
    macro_rules! groups {
        ($a:expr, $b:expr) => {
            for index in 0..len as isize {
                for within in 0..few {
                    // SAFETY: by the contract.
                    unsafe {
                        *to.offset(index * $b[1] + within * $b[0]) = *from.offset(index * $a[1] + within * $a[0])
                    };
                }
            }
        };
    }
    // Groups without gaps become vector shuffles, because the compiler knows their distances; also those of the other side
    // if they are neighbors.
    if b == [1, few] && a[1] == 1 {
        groups!([a[0], 1], [1, few]);
    } else if a == [1, few] && b[1] == 1 {
        groups!([1, few], [b[0], 1]);
    } else if b == [1, few] {
        groups!(a, [1, few]);
    } else if a == [1, few] {
        groups!([1, few], b);
    } else {
        groups!(a, b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::{Isa, Kernel};
    use half::f16;

    struct Three<'a>(&'a [f32], &'a [f16], usize, [usize; 2], [&'a mut [f32]; 3]);

    impl Kernel for Three<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let Three(from, halves, stride, [rows, cols], [transposed, widened, interleaved]) = self;
            transpose(simd, from, stride, [rows, cols], transposed, rows + 2);
            transpose(simd, halves, stride, [rows, cols], widened, rows + 2);
            // Every third row is absent.
            let row = |r: usize| (r % 3 != 1).then(|| &from[r * stride..][..cols]);
            interleave(simd, &(0..rows).map(row).collect::<Vec<_>>(), interleaved, rows + 2);
        }
    }

    fn check_floats(isa: Isa, [rows, cols]: [usize; 2], stride: usize) {
        let from: Vec<f32> = (0..(rows - 1) * stride + cols).map(|i| i as f32).collect();
        let halves: Vec<f16> = from.iter().map(|&x| f16::from_f32(x)).collect();
        let [mut transposed, mut widened, mut interleaved] = [(); 3].map(|()| vec![-1.0; cols * (rows + 2)]);
        let to = [&mut transposed[..], &mut widened, &mut interleaved];
        isa.run(Three(&from, &halves, stride, [rows, cols], to));
        assert_eq!(transposed, widened, "{rows} by {cols}, {stride} apart, {isa:?}");
        for (i, (&x, &y)) in transposed.iter().zip(&interleaved).enumerate() {
            let (c, r) = (i / (rows + 2), i % (rows + 2));
            let expected = if r < rows { (r * stride + c) as f32 } else { -1.0 };
            assert_eq!(x, expected, "{rows} by {cols}, {stride} apart, at {r}, {c}, {isa:?}");
            assert_eq!(y, if r < rows && r % 3 == 1 { 0.0 } else { expected }, "{rows} by {cols}, {isa:?}");
        }
    }

    #[test]
    fn floats_at_the_edges_of_squares() {
        for isa in Isa::available() {
            for rows in [1, 2, 3, 4, 5, 8, 15, 16, 17, 33] {
                for cols in [1, 4, 7, 8, 9, 16, 31, 40] {
                    // Apart, adjacent, overlapping, and the same row again and again; without an element to spare.
                    for stride in [cols + 1, cols, cols / 2, 0] {
                        check_floats(isa, [rows, cols], stride);
                    }
                }
            }
        }
    }

    #[test]
    fn rows_that_are_all_absent_become_zeros() {
        struct None<'a>(&'a mut [f32]);
        impl Kernel for None<'_> {
            type Output = ();
            #[inline(always)]
            fn run<S: Simd>(self, simd: S) {
                interleave(simd, &[Option::None; 3], self.0, 4);
            }
        }
        for isa in Isa::available() {
            let mut to = [5.0; 8];
            isa.run(None(&mut to));
            assert_eq!(to, [0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 5.0], "{isa:?}");
        }
    }

    /// Checks elements at distances of `strides`; those of the source may be negative.
    fn check_elements<T: Element>([rows, cols]: [usize; 2], strides: [isize; 2], of: impl Fn(usize) -> T) {
        let reach = (rows - 1) * strides[0].unsigned_abs();
        let from: Vec<T> = (0..reach + cols).map(&of).collect();
        let first = if strides[0] < 0 { reach } else { 0 };
        let len = (cols - 1) * strides[1] as usize + rows;
        for isa in Isa::available() {
            let mut to: Vec<T> = (0..len).map(|_| of(255)).collect();
            // SAFETY: the first and the last row are inside `from`, whose other end is 0, and `to` has all columns.
            unsafe {
                let from = from.as_ptr().add(first);
                transpose_elements(isa, from, strides[0], [rows, cols], to.as_mut_ptr(), strides[1]);
            }
            for (i, x) in to.iter().enumerate() {
                let (c, r) = (i / strides[1] as usize, i % strides[1] as usize);
                let place = first.wrapping_add_signed(r as isize * strides[0]) + c;
                assert!(*x == of(if r < rows { place } else { 255 }), "{rows} by {cols}, {strides:?}, {r}, {c}");
            }
        }
    }

    #[test]
    fn bytes_at_the_edges_of_squares_of_words() {
        for rows in [7, 8, 9, 15, 16, 17, 33] {
            for cols in [31, 32, 33, 63, 64, 65, 130] {
                let (high, wide) = (rows as isize, cols as isize);
                for strides in [[wide, high], [wide + 3, high + 2], [-wide, high], [0, high]] {
                    check_elements([rows, cols], strides, |i| i as u8 % 251);
                }
            }
        }
    }

    #[test]
    fn elements_of_every_size_at_the_edges_of_squares() {
        for rows in [1, 2, 3, 4, 5, 7, 8, 9, 16, 19] {
            for cols in [1, 2, 3, 4, 6, 8, 15, 16, 17] {
                let (high, wide) = (rows as isize, cols as isize);
                for strides in [[wide, high], [wide + 3, high + 2], [-wide, high], [0, high], [1 - wide, high + 1]] {
                    check_elements([rows, cols], strides, |i| i as u8 % 251);
                    check_elements([rows, cols], strides, |i| f16::from_bits(i as u16 ^ 0x5a00));
                    check_elements([rows, cols], strides, |i| i as u32 | 0x3f00_0000);
                    check_elements([rows, cols], strides, |i| i as u64 * 0x0101_0101_0101);
                }
            }
        }
    }
}
