//! Interleaves rows: each becomes one lane of vectors of floats.

use super::float::Float;
use crate::cpu::simd::Simd;

/// Writes `out[k * width + lane] = of(lane)[k]` for lanes below `lanes`; `None` stands for zeros. All lanes have the
/// same length.
#[inline(always)]
pub fn transpose<'a, T: Float>(lanes: usize, width: usize, out: &mut [f32], of: impl Fn(usize) -> Option<&'a [T]>) {
    let mut lane = 0;
    while lane < lanes {
        if lane + 4 <= lanes
            && let (Some(a), Some(b), Some(c), Some(d)) = (of(lane), of(lane + 1), of(lane + 2), of(lane + 3))
        {
            transpose_four([a, b, c, d], width, &mut out[lane..]);
            lane += 4;
            continue;
        }
        match of(lane) {
            Some(from) => from.iter().enumerate().for_each(|(k, x)| out[lane + k * width] = x.to_f32()),
            None => out[lane..].iter_mut().step_by(width).for_each(|x| *x = 0.0),
        }
        lane += 1;
    }
}

/// Writes `to[i] = from[i]` over the whole of `to`, usually a few vectors: the tail is a masked load instead of
/// scalars.
#[inline(always)]
pub fn copy<S: Simd, T: Float>(simd: S, from: &[T], to: &mut [f32]) {
    let from = &from[..to.len()];
    match T::as_f32(from) {
        Some(from) => {
            let body = to.len() / S::LANES * S::LANES;
            for at in (0..body).step_by(S::LANES) {
                simd.store(simd.load(&from[at..]), &mut to[at..]);
            }
            if body < to.len() {
                simd.store_partial(simd.load_partial(&from[body..]), &mut to[body..]);
            }
        }
        None => T::widen_slice(simd, from, to),
    }
}

/// Writes `to[i] = from[i * hop]` over the whole of `to`.
#[inline(always)]
pub fn gather<S: Simd, T: Float>(simd: S, from: &[T], hop: usize, to: &mut [f32]) {
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
            to.iter_mut().zip(pairs).for_each(|(to, from)| *to = from[0].to_f32());
            if let (Some(to), Some(from)) = (to.get_mut(len), last.first()) {
                *to = from.to_f32();
            }
        }
        _ => to.iter_mut().zip(from.iter().step_by(hop)).for_each(|(to, from)| *to = from.to_f32()),
    }
}

/// Transposes four lanes at a time, in squares of 4 by 4 that stay in registers.
#[inline(always)]
fn transpose_four<T: Float>(from: [&[T]; 4], width: usize, out: &mut [f32]) {
    let depth = from[0].len();
    let mut k = 0;
    while k + 4 <= depth {
        let square = from.map(|lane| {
            let lane = &lane[k..k + 4];
            [lane[0].to_f32(), lane[1].to_f32(), lane[2].to_f32(), lane[3].to_f32()]
        });
        let rows = &mut out[k * width..][..3 * width + 4];
        for i in 0..4 {
            rows[i * width..][..4].copy_from_slice(&[square[0][i], square[1][i], square[2][i], square[3][i]]);
        }
        k += 4;
    }
    for k in k..depth {
        out[k * width..][..4].copy_from_slice(&from.map(|lane| lane[k].to_f32()));
    }
}
