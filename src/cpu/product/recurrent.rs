//! Recurrent networks: products with panels of weights, and the element-wise gates.

#![expect(
    clippy::needless_range_loop,
    reason = "loops over indices become vectors; iterators over several arrays are functions that must be inlined"
)]

use super::panel_data::PanelData;
use super::tile::{Left, MAX_PANELS, Multiply, Panel, multiply, takes_half, tile_size};
use crate::cpu::simd::{Isa, Kernel, Simd, math};
use crate::memory::ColumnBlock;
use crate::ops::recurrent::Activation;

/// Where the products of some rows with several panels go.
#[derive(Clone, Copy, Debug)]
pub struct PanelOutputs {
    /// The row and the column of the first one in the block.
    pub first: [usize; 2],
    /// The rows and columns from one panel's products to those of the next.
    pub apart: [usize; 2],
}

/// Writes `h * panels[i]` to `out`, or adds it to what is there. `h` has `rows` rows of `depth` elements, `stride` apart.
///
/// # Panics
/// If a slice is too short, or the products exceed `out`.
pub fn multiply_panels<'a>(
    isa: Isa,
    h: &[f32],
    [rows, stride, depth]: [usize; 3],
    panels: impl Iterator<Item = PanelData<'a>>,
    out: &mut ColumnBlock<f32>,
    PanelOutputs { first: [row, column], apart }: PanelOutputs,
    accumulate: bool,
) {
    let width = tile_size(isa).cols;
    let mut all = [Panel { data: PanelData::F32(&[]), step: width, next: 0 }; MAX_PANELS];
    let mut count = 0;
    for data in panels {
        all[count].data = data;
        count += 1;
    }
    let [down, across] = apart.map(|apart| apart * count.saturating_sub(1));
    assert!(row + down + rows <= out.rows() && column + across + width <= out.width());
    // Panels of 16 bits are widened while they are read, for few rows at a time.
    let (mut high, is_half) = (rows, all[0].data.as_f32().is_none());
    while is_half && !takes_half(high) {
        high -= 1;
    }
    for top in (0..rows).step_by(high) {
        let product = Multiply {
            left: Left { data: &h[top * stride..], stride, step: 1 },
            rows: high.min(rows - top),
            panels: &all[..count],
            cols: count * width,
            depth,
            out: out.row(row + top)[column..].as_mut_ptr(),
            stride: out.stride(),
            panel_stride: apart[0] * out.stride() + apart[1],
            accumulate,
            finish: None,
        };
        // SAFETY: the block was just checked to have that many rows of each panel's columns, and is borrowed mutably.
        unsafe { multiply(isa, product) };
    }
}

/// Number of units that the gates process at once, a multiple of the columns of a panel.
pub const UNITS: usize = 32;

/// A number of each unit. Gates compute in float64 from float32 products, and states are rounded once: factors far from
/// 0..1 magnify every rounding in between.
type Units = [f64; UNITS];

/// The units from `at` on.
#[inline(always)]
fn units(from: &[f32], at: usize) -> &[f32; UNITS] {
    from[at..].first_chunk().expect("whole chunks of units")
}

/// All units.
#[inline(always)]
fn chunks(of: &mut [f32]) -> &mut [[f32; UNITS]] {
    let (chunks, rest) = of.as_chunks_mut();
    assert!(rest.is_empty(), "whole chunks of units");
    chunks
}

/// What a gate adds up, one number per unit. There may be more numbers than units.
#[derive(Clone, Copy)]
pub struct GateTerms<'a> {
    /// The product of input and weights.
    pub input: &'a [f32],
    /// Its bias.
    pub bias: &'a [f32],
    /// The product of the hidden state and the recurrent weights.
    pub recurrent: &'a [f32],
    /// Its bias.
    pub recurrent_bias: &'a [f32],
}

impl GateTerms<'_> {
    /// The sums of everything, for the units from `at` on.
    #[inline(always)]
    fn sums(&self, at: usize) -> Units {
        self.reset_sums(at, &[1.0; UNITS])
    }

    /// The sums, with the recurrent part multiplied by `reset`.
    #[inline(always)]
    fn reset_sums(&self, at: usize, reset: &Units) -> Units {
        let [input, bias] = [units(self.input, at), units(self.bias, at)];
        let [recurrent, recurrent_bias] = [units(self.recurrent, at), units(self.recurrent_bias, at)];
        let mut sums = [0.0; UNITS];
        for i in 0..UNITS {
            let recurrent = recurrent[i] as f64 + recurrent_bias[i] as f64;
            sums[i] = (input[i] as f64 + bias[i] as f64) + reset[i] * recurrent;
        }
        sums
    }
}

/// `xs[i] = activation(xs[i])`.
#[inline(always)]
fn activate<S: Simd>(simd: S, activation: Activation, xs: &mut Units) {
    if activation == Activation::Relu {
        for x in xs {
            // NaN stays NaN.
            *x = if *x < 0.0 { 0.0 } else { *x };
        }
        return;
    }
    // Loops of their own: vectors of float32 have twice as many lanes.
    let mut floats = [0.0; UNITS];
    for i in 0..UNITS {
        floats[i] = xs[i] as f32;
    }
    if activation == Activation::Sigmoid {
        for i in 0..UNITS {
            floats[i] = math::sigmoid(simd, floats[i]);
        }
    } else {
        for i in 0..UNITS {
            floats[i] = math::tanh(simd, floats[i]);
        }
    }
    for i in 0..UNITS {
        xs[i] = floats[i] as f64;
    }
}

/// Some units of an LSTM, a multiple of [`UNITS`]: as many as `cell` and `hidden` have.
pub struct LstmGates<'a> {
    /// The activations of the input, output and forget gates, of the cell gate, and of the new cell state.
    pub activations: [Activation; 3],
    /// Peephole weights of the input, output and forget gates.
    pub peephole: Option<[&'a [f32]; 3]>,
    /// The input, output, forget and cell gates.
    pub gates: [GateTerms<'a>; 4],
    /// The cell state, replaced by the next one.
    pub cell: &'a mut [f32],
    /// Receives the new hidden state.
    pub hidden: &'a mut [f32],
}

impl Kernel for LstmGates<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let LstmGates { activations: [gate, new, filter], peephole, gates: [i, o, f, g], cell, hidden } = self;
        let states = chunks(cell).iter_mut().zip(chunks(hidden));
        for (index, (cell, hidden)) in states.enumerate() {
            let at = index * UNITS;
            let (mut i, mut o, mut f, mut g) = (i.sums(at), o.sums(at), f.sums(at), g.sums(at));
            if let Some(weights) = peephole {
                let [wi, wo, wf] = [units(weights[0], at), units(weights[1], at), units(weights[2], at)];
                for unit in 0..UNITS {
                    let cell = cell[unit] as f64;
                    i[unit] += wi[unit] as f64 * cell;
                    o[unit] += wo[unit] as f64 * cell;
                    f[unit] += wf[unit] as f64 * cell;
                }
            }
            activate(simd, gate, &mut i);
            activate(simd, gate, &mut o);
            activate(simd, gate, &mut f);
            activate(simd, new, &mut g);
            // Becomes the activated cell state.
            let mut next = [0.0; UNITS];
            for unit in 0..UNITS {
                next[unit] = f[unit] * cell[unit] as f64 + i[unit] * g[unit];
                cell[unit] = next[unit] as f32;
            }
            activate(simd, filter, &mut next);
            // In one loop, the rounding is not vectorized.
            for unit in 0..UNITS {
                next[unit] *= o[unit];
            }
            for unit in 0..UNITS {
                hidden[unit] = next[unit] as f32;
            }
        }
    }
}

/// The reset gate of a GRU, before the product with the recurrent weights: `activation(reset) * before`, for a multiple
/// of [`UNITS`].
pub struct GruReset<'a> {
    /// The activation of the gate.
    pub activation: Activation,
    /// The gate.
    pub reset: GateTerms<'a>,
    /// The hidden state.
    pub before: &'a [f32],
    /// Receives the result.
    pub out: &'a mut [f32],
}

impl Kernel for GruReset<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (index, out) in chunks(self.out).iter_mut().enumerate() {
            let at = index * UNITS;
            let mut reset = self.reset.sums(at);
            activate(simd, self.activation, &mut reset);
            let before = units(self.before, at);
            for i in 0..UNITS {
                out[i] = (reset[i] * before[i] as f64) as f32;
            }
        }
    }
}

/// The gates of some units of a GRU, a multiple of [`UNITS`]: as many as `hidden` has.
pub struct GruGates<'a> {
    /// The activations of the update and reset gates, and of the new gate.
    pub activations: [Activation; 2],
    /// The update gate.
    pub update: GateTerms<'a>,
    /// The reset gate, if it applies to the recurrent part of the new gate.
    pub reset: Option<GateTerms<'a>>,
    /// The new gate.
    pub new: GateTerms<'a>,
    /// The hidden state.
    pub before: &'a [f32],
    /// Receives the new one.
    pub hidden: &'a mut [f32],
}

impl Kernel for GruGates<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let [gate, new] = self.activations;
        for (index, hidden) in chunks(self.hidden).iter_mut().enumerate() {
            let at = index * UNITS;
            let mut z = self.update.sums(at);
            activate(simd, gate, &mut z);
            let mut r = [1.0; UNITS];
            if let Some(reset) = self.reset {
                r = reset.sums(at);
                activate(simd, gate, &mut r);
            }
            let mut n = self.new.reset_sums(at, &r);
            activate(simd, new, &mut n);
            let before = units(self.before, at);
            for i in 0..UNITS {
                hidden[i] = (z[i] * before[i] as f64 + n[i] * (1.0 - z[i])) as f32;
            }
        }
    }
}
