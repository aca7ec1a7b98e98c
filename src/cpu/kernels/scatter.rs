//! Writes at positions given by a tensor of indices. If two updates have the same position, the last one wins.

use super::gather::Index;
use crate::dtype::Element;
use crate::memory::ColumnBlock;
use std::ops::Range;

/// Overwrites rows of a matrix, in order: writes the columns `columns` of each row of `updates`, `row_len` elements
/// long, to the row of the same index in `rows`. `out` holds these columns.
pub fn scatter_rows<T: Element>(
    updates: &[T],
    rows: &[u32],
    row_len: usize,
    columns: Range<usize>,
    mut out: ColumnBlock<T>,
) {
    assert_eq!(updates.len(), rows.len() * row_len);
    for (updates, &row) in updates.chunks_exact(row_len).zip(rows) {
        out.row(row as usize).copy_from_slice(&updates[columns.clone()]);
    }
}

/// Scatters along the middle one of three dimensions, with `size` positions in `out` and `count` in `indices` and
/// `updates`: `out[o, indices[o, a, i], i] = updates[o, a, i]` in the order of `a`, with `inner` positions in the last
/// dimension.
pub fn scatter_elements<T: Element, I: Index>(
    updates: &[T],
    indices: &[I],
    count: usize,
    inner: usize,
    out: &mut [T],
    size: usize,
) {
    let block = count * inner;
    let updates = updates.chunks_exact(block).zip(indices.chunks_exact(block));
    for (out, (updates, indices)) in out.chunks_exact_mut(size * inner).zip(updates) {
        for (updates, indices) in updates.chunks_exact(inner).zip(indices.chunks_exact(inner)) {
            for (i, (&update, index)) in updates.iter().zip(indices).enumerate() {
                out[index.place(size) * inner + i] = update;
            }
        }
    }
}
