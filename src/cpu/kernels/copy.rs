//! Copies between two strided layouts: slices, transposes, broadcasts, reversals, concatenations, and so on.

use super::transpose::transpose_elements;
use crate::cpu::simd::Isa;
use crate::dtype::Element;
use crate::memory::SharedMut;
use crate::ops::strided::Strided;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of loops of a copy: `tile()` writes each of the 8 dimensions as two.
const MAX_LOOPS: usize = 16;

/// Side of the square blocks of a transposition, in elements: source and destination blocks of 4-byte elements together
/// take 32 KiB, which fits a first-level cache.
const TRANSPOSE_BLOCK: usize = 64;

/// Contiguous elements copied as one item of work: large enough to hide the bookkeeping, small enough to spread a
/// tensor of some ten thousand elements over the threads.
const COPY_BLOCK: usize = 4096;

/// Contiguous bytes copied in the time of one multiply-add.
const BYTES_PER_COST: usize = 2;

/// Cost of copying a single element, in multiply-adds.
const STRIDED_COST: usize = 8;

/// A loop over `len` elements, with strides of `src` and `dst` elements.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Loop {
    len: usize,
    src: isize,
    dst: usize,
}

impl Loop {
    const ONCE: Loop = Loop { len: 1, src: 0, dst: 0 };

    /// The loop over the blocks of `block` elements of this loop.
    fn blocks(self, block: usize) -> Loop {
        Loop { len: self.len.div_ceil(block), src: self.src * block as isize, dst: self.dst * block }
    }
}

/// The strategy for the two innermost loops.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plane {
    /// Rows are contiguous in both.
    Rows,
    /// Rows of the destination are contiguous and filled with one element.
    Fill,
    /// Rows of the destination are contiguous; in the source their elements are strided, and columns are contiguous.
    Transpose,
    /// Anything else.
    Strided,
}

/// A copy with its loops ordered and merged and its strategy chosen: created once, run often.
#[derive(Clone, Debug, PartialEq)]
pub struct StridedCopy {
    /// The loops around the planes, outermost first, then the loops over the blocks of a plane.
    outer: Vec<Loop>,
    rows: Loop,
    cols: Loop,
    plane: Plane,
    block_rows: usize,
    block_cols: usize,
    src_start: usize,
    dst_start: usize,
    /// One past the last element that is read, and the last that is written.
    src_end: usize,
    dst_end: usize,
}

/// The loops of a copy, the longest stride in the destination first. Drops loops that run once, and merges neighbors
/// that form a longer loop.
fn merged_loops(src: &Strided, dst: &Strided) -> Vec<Loop> {
    let all = src.shape.iter().zip(&src.strides).zip(&dst.strides);
    let mut loops: Vec<Loop> = all
        .map(|((&len, &src), &dst)| Loop { len: len as usize, src, dst: dst as usize })
        .filter(|l| l.len != 1)
        .collect();
    loops.sort_by_key(|l| std::cmp::Reverse(l.dst));
    let mut merged: Vec<Loop> = Vec::new();
    for inner in loops {
        match merged.last_mut() {
            Some(outer) if outer.src == inner.src * inner.len as isize && outer.dst == inner.dst * inner.len => {
                *outer = Loop { len: outer.len * inner.len, ..inner };
            }
            _ => merged.push(inner),
        }
    }
    merged
}

impl StridedCopy {
    /// Creates a copy of every element of `src` to its position in `dst`. The views have the same shape.
    ///
    /// # Panics
    /// If positions of `dst` are not nested: every stride must be positive and exceed the span of all shorter ones,
    /// which rules out writing a position twice. Views of whole tensors and windows of them are nested.
    pub fn new(src: &Strided, dst: &Strided) -> StridedCopy {
        assert_eq!(src.shape, dst.shape);
        let mut loops = merged_loops(src, dst);
        let mut dst_end = dst.offset + 1;
        let (mut first, mut last) = (src.offset, src.offset);
        for l in loops.iter().rev() {
            assert!(l.dst >= dst_end - dst.offset, "{dst:?} writes a place twice");
            dst_end += (l.len - 1) * l.dst;
            let reach = (l.len as isize - 1) * l.src;
            match reach < 0 {
                true => first = first.checked_add_signed(reach).expect("the source starts inside"),
                false => last = last.checked_add_signed(reach).expect("the source ends inside"),
            }
        }
        assert!(first <= src.offset);
        let cols = loops.pop().unwrap_or(Loop { dst: 1, src: 1, ..Loop::ONCE });
        let transposed = loops.iter().rposition(|l| l.src == 1);
        let plane = match (cols.src, cols.dst) {
            (1, 1) => Plane::Rows,
            (0, 1) => Plane::Fill,
            (_, 1) if transposed.is_some() => Plane::Transpose,
            _ => Plane::Strided,
        };
        let rows = match (plane, transposed) {
            (Plane::Transpose, Some(index)) => loops.remove(index),
            _ => loops.pop().unwrap_or(Loop::ONCE),
        };
        let (block_rows, block_cols) = match plane {
            // Blocks of a narrow transposition are longer, to hold as many elements.
            Plane::Transpose if rows.len < TRANSPOSE_BLOCK => (rows.len, COPY_BLOCK / rows.len),
            Plane::Transpose => (COPY_BLOCK / cols.len.min(TRANSPOSE_BLOCK), cols.len.min(TRANSPOSE_BLOCK)),
            _ if cols.len >= COPY_BLOCK => (1, COPY_BLOCK),
            _ => (rows.len.min(COPY_BLOCK / cols.len), cols.len),
        };
        let mut outer = loops;
        outer.extend([rows.blocks(block_rows), cols.blocks(block_cols)]);
        StridedCopy {
            outer,
            rows,
            cols,
            plane,
            block_rows,
            block_cols,
            src_start: src.offset,
            dst_start: dst.offset,
            src_end: last + 1,
            dst_end,
        }
    }

    /// Starts copying elements from `src` to `dst`. Elements of `dst` outside the view stay unchanged.
    ///
    /// # Panics
    /// If a view reaches beyond its slice.
    pub fn blocks<'a, T: Element>(&'a self, isa: Isa, src: &'a [T], dst: &'a mut [T]) -> CopyBlocks<'a, T> {
        assert!(self.src_end <= src.len() && self.dst_end <= dst.len(), "{self:?}: {} to {}", src.len(), dst.len());
        CopyBlocks { copy: self, isa, src, dst: SharedMut::new(dst), next: AtomicUsize::new(0) }
    }

    /// Copies the block of a plane that starts at `at`.
    fn copy_block<T: Element>(&self, isa: Isa, src: &[T], dst: &SharedMut<T>, at: &Position) {
        let [.., row_block, col_block] = at.counts[..self.outer.len()] else { unreachable!("planes have two loops") };
        let rows = self.block_rows.min(self.rows.len - row_block * self.block_rows);
        let cols = self.block_cols.min(self.cols.len - col_block * self.block_cols);
        let from = self.src_start.wrapping_add_signed(at.src);
        let to = self.dst_start + at.dst;
        match (self.plane, cols) {
            (Plane::Transpose, _) => self.transpose(isa, src, from, dst, to, [rows, cols]),
            // A constant length avoids a call to `memcpy`: rows of 2 to 4 elements (points, colors) are common, and
            // take much less time than the call.
            (Plane::Rows, 2) => self.copy_rows(src, from, dst, to, rows, 2),
            (Plane::Rows, 3) => self.copy_rows(src, from, dst, to, rows, 3),
            (Plane::Rows, 4) => self.copy_rows(src, from, dst, to, rows, 4),
            _ => self.copy_rows(src, from, dst, to, rows, cols),
        }
    }

    /// Copies `rows` rows of `cols` elements.
    #[inline(always)]
    fn copy_rows<T: Element>(
        &self,
        src: &[T],
        mut from: usize,
        dst: &SharedMut<T>,
        mut to: usize,
        rows: usize,
        cols: usize,
    ) {
        for _ in 0..rows {
            // SAFETY: `new` checked that the positions are nested, hence the spans of different rows do not overlap;
            // `copy_next` hands each block to one thread, which holds one row at a time.
            let out = unsafe { dst.range(to..to + (cols - 1) * self.cols.dst + 1) };
            match self.plane {
                Plane::Rows => out.copy_from_slice(&src[from..from + cols]),
                Plane::Fill => out.fill(src[from]),
                Plane::Strided | Plane::Transpose => self.copy_strided(src, from, out),
            }
            from = from.wrapping_add_signed(self.rows.src);
            to += self.rows.dst;
        }
    }

    /// Copies the elements of `src` from position `from` to the span `out`, with the strides of the inner loop.
    #[inline(always)]
    fn copy_strided<T: Element>(&self, src: &[T], from: usize, out: &mut [T]) {
        let step = self.cols.src.unsigned_abs();
        if self.cols.dst == 1 && self.cols.src == -1 {
            let reversed = &src[from + 1 - out.len()..=from];
            return out.iter_mut().zip(reversed.iter().rev()).for_each(|(o, &x)| *o = x);
        }
        let out = out.iter_mut().step_by(self.cols.dst);
        match self.cols.src {
            0 => out.for_each(|o| *o = src[from]),
            1.. => out.zip(src[from..].iter().step_by(step)).for_each(|(o, &x)| *o = x),
            _ => out.zip(src[..=from].iter().rev().step_by(step)).for_each(|(o, &x)| *o = x),
        }
    }

    /// Copies `rows` rows of `cols` elements, where neighbors in a column are adjacent in the source.
    fn transpose<T: Element>(
        &self,
        isa: Isa,
        src: &[T],
        from: usize,
        dst: &SharedMut<T>,
        to: usize,
        [rows, cols]: [usize; 2],
    ) {
        let (from_stride, to_stride) = (self.cols.src, self.rows.dst as isize);
        let last = from.checked_add_signed((cols - 1) as isize * from_stride).expect("the source starts inside");
        assert!(from.max(last) + rows <= src.len());
        assert!(to + (rows - 1) * self.rows.dst + cols <= dst.len());
        let (from, to) = (src.as_ptr().wrapping_add(from), dst.as_mut_ptr().wrapping_add(to));
        // SAFETY: the first and last elements are inside the slices, and no other thread copies the same elements.
        unsafe { transpose_elements(isa, from, from_stride, [cols, rows], to, to_stride) };
    }
}

/// A copy in progress, divided into blocks of similar size; any thread can copy any block.
pub struct CopyBlocks<'a, T> {
    copy: &'a StridedCopy,
    isa: Isa,
    src: &'a [T],
    dst: SharedMut<'a, T>,
    next: AtomicUsize,
}

impl<T: Element> CopyBlocks<'_, T> {
    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.copy.outer.iter().map(|l| l.len).product()
    }

    /// Cost of a block, in multiply-adds.
    pub fn cost(&self) -> usize {
        let StridedCopy { rows, cols, block_rows, block_cols, .. } = *self.copy;
        let elements = block_rows.min(rows.len) * block_cols.min(cols.len);
        match self.copy.plane {
            Plane::Rows | Plane::Fill => (elements * size_of::<T>()).div_ceil(BYTES_PER_COST),
            Plane::Transpose | Plane::Strided => elements * STRIDED_COST,
        }
    }

    /// Copies the next `count` blocks, or the remaining ones if there are fewer.
    pub fn copy_next(&self, count: usize) {
        let count = count.min(self.count());
        // Each block is taken once, by whichever thread.
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let mut block = Position::new(&self.copy.outer, first);
        for _ in first..(first + count).min(self.count()) {
            self.copy.copy_block(self.isa, self.src, &self.dst, &block);
            block.advance(&self.copy.outer);
        }
    }
}

/// The state of a walk over nested loops.
struct Position {
    /// The iteration of each loop.
    counts: [usize; MAX_LOOPS],
    /// Offset from the start of the view, in elements.
    src: isize,
    dst: usize,
}

impl Position {
    /// The position of item number `item` of `loops`; the last loop is the innermost.
    fn new(loops: &[Loop], mut item: usize) -> Position {
        let mut position = Position { counts: [0; MAX_LOOPS], src: 0, dst: 0 };
        for (count, l) in position.counts[..loops.len()].iter_mut().zip(loops).rev() {
            *count = item % l.len;
            item /= l.len;
            position.src += *count as isize * l.src;
            position.dst += *count * l.dst;
        }
        position
    }

    /// Advances to the next item, and from the last one to the first.
    fn advance(&mut self, loops: &[Loop]) {
        for (count, l) in self.counts[..loops.len()].iter_mut().zip(loops).rev() {
            *count += 1;
            self.src += l.src;
            self.dst += l.dst;
            if *count < l.len {
                return;
            }
            *count = 0;
            self.src -= l.len as isize * l.src;
            self.dst -= l.len * l.dst;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Number;
    use crate::shape::elements;
    use crate::testing::Random;
    use crate::with_storage;
    use proptest::prelude::*;

    /// Copies every element by its index, one at a time.
    fn naive(src: &Strided, dst: &Strided, from: &[u32], to: &mut [u32]) {
        let shape: Vec<usize> = src.shape.iter().map(|&dim| dim as usize).collect();
        for index in ndarray::indices(shape) {
            use ndarray::Dimension;
            let place = |view: &Strided| {
                let steps = index.slice().iter().zip(&view.strides).map(|(&i, &stride)| i as isize * stride);
                view.offset.wrapping_add_signed(steps.sum())
            };
            to[place(dst)] = from[place(src)];
        }
    }

    fn check(src: &Strided, dst: &Strided, from: usize, to: usize) {
        fn run<T: Element>(copy: &StridedCopy, from: &[u32], to: usize, isa: Isa, threads: usize) -> Vec<T> {
            let from: Vec<T> = from.iter().map(|&x| T::from_number(Number::Int(x as i128))).collect();
            let mut out = vec![T::from_number(Number::Int(0x7f)); to];
            let blocks = copy.blocks(isa, &from, &mut out);
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| (0..blocks.count().div_ceil(threads)).for_each(|_| blocks.copy_next(1)));
                }
            });
            out
        }
        // Small numbers, which all storage types represent exactly.
        let from: Vec<u32> = (0..from as u32).map(|i| i.wrapping_mul(37) % 127).collect();
        let mut expected = vec![0x7f; to];
        naive(src, dst, &from, &mut expected);
        let copy = StridedCopy::new(src, dst);
        for bytes in [1, 2, 4, 8] {
            with_storage!(bytes, T => {
                let expected: Vec<T> = expected.iter().map(|&x| T::from_number(Number::Int(x as i128))).collect();
                for isa in Isa::available() {
                    for threads in [1, 7] {
                        let got = run::<T>(&copy, &from, to, isa, threads);
                        assert!(got == expected, "{bytes} bytes, {isa:?}, {threads} threads, {copy:?}");
                    }
                }
            });
        }
    }

    /// Checks the transposition of a tensor with dimensions `shape`, read in the order `axes`.
    fn check_transpose(shape: &[u32], axes: &[usize]) {
        let whole = Strided::row_major(shape);
        let src = Strided {
            shape: axes.iter().map(|&axis| shape[axis]).collect(),
            strides: axes.iter().map(|&axis| whole.strides[axis]).collect(),
            offset: 0,
        };
        let dst = Strided::row_major(&src.shape);
        check(&src, &dst, elements(shape), elements(shape));
    }

    #[test]
    fn transposes_at_the_edges_of_tiles_and_blocks() {
        for rows in [1, 2, 7, 8, 9, 63, 64, 65, 130] {
            for cols in [1, 7, 8, 9, 64, 67, 129] {
                check_transpose(&[rows, cols], &[1, 0]);
            }
        }
        for few in [2, 3, 4, 5] {
            check_transpose(&[1, few, 5003], &[0, 2, 1]);
            check_transpose(&[2, 5003, few], &[0, 2, 1]);
        }
        check_transpose(&[3, 9000], &[1, 0]);
        check_transpose(&[3, 17, 9, 10], &[0, 2, 1, 3]);
        check_transpose(&[3, 17, 9, 10], &[3, 1, 2, 0]);
        check_transpose(&[2, 300, 400], &[0, 2, 1]);
    }

    #[test]
    fn contiguous_copies_are_one_loop() {
        for shape in [&[][..], &[1, 1], &[4096], &[4095, 3], &[2, 3, 5000]] {
            let whole = Strided::row_major(shape);
            let copy = StridedCopy::new(&whole, &whole);
            assert_eq!((copy.plane, copy.rows), (Plane::Rows, Loop::ONCE));
            check(&whole, &whole, elements(shape), elements(shape));
        }
    }

    #[test]
    fn short_rows_reversals_and_fills() {
        for cols in [1, 2, 3, 4, 5, 9] {
            // A column of the destination from a reversed source, and one from a single repeated element.
            let dst = Strided::row_major(&[700, 11]).window(&[0, 2], &[700, cols]);
            let reversed = Strided {
                shape: vec![700, cols],
                strides: vec![-(cols as isize), -1],
                offset: 700 * cols as usize - 1,
            };
            check(&reversed, &dst, 700 * cols as usize, 7700);
            check(&Strided::row_major(&[700, cols]), &dst, 700 * cols as usize, 7700);
            check(&Strided { shape: vec![700, cols], strides: vec![0, 0], offset: 2 }, &dst, 3, 7700);
            check(&Strided { shape: vec![700, cols], strides: vec![1, -3], offset: 30 }, &dst, 1000, 7700);
        }
    }

    #[test]
    #[should_panic(expected = "writes a place twice")]
    fn places_must_be_nested() {
        let dst = Strided { shape: vec![4, 4], strides: vec![2, 1], offset: 0 };
        StridedCopy::new(&Strided::row_major(&[4, 4]), &dst);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_views(shape in prop::collection::vec(1u32..7, 0..6), seed: u64) {
            let mut random = Random::new(seed);
            let mut pick = |n: usize| (random.next() % n as u64) as usize;
            // The destination is a window of a larger tensor.
            let starts: Vec<u32> = shape.iter().map(|_| pick(3) as u32).collect();
            let outer: Vec<u32> = shape.iter().zip(&starts).map(|(&dim, &start)| dim + start + pick(3) as u32).collect();
            let dst = Strided::row_major(&outer).window(&starts, &shape);
            // The source has its dimensions in any order: some repeated, some reversed, some with gaps.
            let mut order: Vec<usize> = (0..shape.len()).collect();
            order.sort_by_key(|_| pick(1000));
            let mut src = Strided { shape: shape.clone(), strides: vec![0; shape.len()], offset: 0 };
            let mut reach = 1;
            for axis in order {
                let dim = shape[axis] as usize;
                let stride = reach * [1, 1, 1, 2][pick(4)];
                match pick(5) {
                    0 => continue,
                    1 => {
                        src.strides[axis] = -(stride as isize);
                        src.offset += (dim - 1) * stride;
                    }
                    _ => src.strides[axis] = stride as isize,
                }
                reach = stride * dim;
            }
            check(&src, &dst, reach, elements(&outer));
        }
    }
}
