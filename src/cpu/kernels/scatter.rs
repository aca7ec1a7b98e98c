//! Writing at places that a tensor of indices holds. When two updates have the same place, the last one stays: the
//! work is only split where the places of different threads differ.

use super::gather::Index;
use super::storage::Storage;
use crate::cpu::schedule::pool::Threads;
use crate::cpu::schedule::shared::{SharedMut, for_each_chunk};

/// Columns that one thread has at least: whole cache lines.
const COLUMNS: usize = 64;

/// Puts the rows of `updates`, each of `row_len` elements, over the rows `rows` of `dst`, in this order.
pub fn scatter_rows<T: Storage>(threads: &Threads, updates: &[T], rows: &[u32], row_len: usize, dst: &mut [T]) {
    assert_eq!(updates.len(), rows.len() * row_len);
    let dst = SharedMut::new(dst);
    threads.split(row_len, COLUMNS, rows.len(), |columns| {
        for (updates, &row) in updates.chunks_exact(row_len).zip(rows) {
            let start = row as usize * row_len;
            // SAFETY: ranges of columns do not overlap, and neither do rows; a thread holds one piece of a row at a
            // time.
            let out = unsafe { dst.range(start + columns.start..start + columns.end) };
            out.copy_from_slice(&updates[columns.clone()]);
        }
    });
}

/// Along the middle one of three dimensions, which has `size` places in `dst` and `count` in `indices` and `updates`:
/// `dst[o, indices[o, a, i], i] = updates[o, a, i]` for one `a` after the other, with `inner` places of the last
/// dimension.
pub fn scatter_elements<T: Storage, I: Index>(
    threads: &Threads,
    updates: &[T],
    indices: &[I],
    count: usize,
    inner: usize,
    dst: &mut [T],
    size: usize,
) {
    assert_eq!(updates.len(), indices.len());
    let block = count * inner;
    for_each_chunk(threads, dst, size * inner, 1, 2 * block, |first, part| {
        for (block_index, out) in (first..).zip(part.chunks_exact_mut(size * inner)) {
            let updates = &updates[block_index * block..][..block];
            let indices = &indices[block_index * block..][..block];
            for (updates, indices) in updates.chunks_exact(inner).zip(indices.chunks_exact(inner)) {
                for (i, (&update, index)) in updates.iter().zip(indices).enumerate() {
                    out[index.place(size) * inner + i] = update;
                }
            }
        }
    });
}
