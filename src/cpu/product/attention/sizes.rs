//! What both ways to compute attention share.

use crate::cpu::simd::{Simd, math};

/// Maximum number of queries to stream through keys and values.
const MAX_ALONE: usize = 8;

/// The matrix sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of the query.
    pub rows: usize,
    /// Rows of key and value.
    pub keys: usize,
    /// Columns of query and key.
    pub depth: usize,
    /// Columns of value and output.
    pub columns: usize,
}

impl Sizes {
    /// Whether there are few enough queries to [stream](super::Stream) keys and values.
    pub fn are_streamed(&self) -> bool {
        self.rows <= MAX_ALONE
    }
}

/// `scores = softcap * tanh(scores)`, unless `softcap` is 0.
#[inline(always)]
pub fn cap<S: Simd>(simd: S, softcap: f32, scores: &mut [f32]) {
    if softcap != 0.0 {
        scores.iter_mut().for_each(|x| *x = softcap * math::tanh(simd, *x));
    }
}
