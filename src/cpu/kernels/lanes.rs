//! Copies rows of a few vectors.

use crate::cpu::simd::Simd;

/// Writes `to[i] = from[i]` over the whole of `to`, usually a few vectors: the tail is a masked load instead of
/// scalars.
#[inline(always)]
pub fn copy<S: Simd>(simd: S, from: &[f32], to: &mut [f32]) {
    let from = &from[..to.len()];
    let body = to.len() / S::LANES * S::LANES;
    for at in (0..body).step_by(S::LANES) {
        simd.store(simd.load(&from[at..]), &mut to[at..]);
    }
    if body < to.len() {
        simd.store_partial(simd.load_partial(&from[body..]), &mut to[body..]);
    }
}

/// Writes `to[i] = from[i * hop]` over the whole of `to`.
#[inline(always)]
pub fn gather<S: Simd>(simd: S, from: &[f32], hop: usize, to: &mut [f32]) {
    if to.is_empty() {
        return;
    }
    let from = &from[..(to.len() - 1) * hop + 1];
    match hop {
        1 => copy(simd, from, to),
        2 => {
            // Pairs of a constant length become vector shuffles.
            let (pairs, last) = from.as_chunks::<2>();
            let len = pairs.len();
            to.iter_mut().zip(pairs).for_each(|(to, from)| *to = from[0]);
            if let (Some(to), Some(from)) = (to.get_mut(len), last.first()) {
                *to = *from;
            }
        }
        _ => to.iter_mut().zip(from.iter().step_by(hop)).for_each(|(to, from)| *to = *from),
    }
}
