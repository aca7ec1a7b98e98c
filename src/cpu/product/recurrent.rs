//! Recurrent networks: products with panels of weights, and the element-wise gates.

use super::tile::{Left, Multiply, Panel, multiply, tile_size};
use crate::cpu::kernels::float::Floats;
use crate::cpu::simd::{Isa, Kernel, Simd, math};
use crate::memory::ColumnBlock;
use crate::ops::recurrent::Activation;

/// Adds `h * panels[i]` to the `rows` rows of `out` from `first + i * rows` on. `h` has `rows` rows of `depth`
/// elements, `stride` apart.
///
/// # Panics
/// If a slice is too short, or `out` has fewer rows or other columns than a panel.
pub fn add_products<const N: usize>(
    isa: Isa,
    h: &[f32],
    [rows, stride, depth]: [usize; 3],
    panels: [&[f32]; N],
    out: &mut ColumnBlock<f32>,
    first: usize,
) {
    let width = tile_size(isa).cols;
    assert!(out.width() == width && first + N * rows <= out.rows());
    let product = Multiply {
        left: Left { data: h, stride, step: 1 },
        rows,
        panels: &panels.map(|data| Panel { data: Floats::F32(data), step: width, next: 0 }),
        cols: N * width,
        depth,
        out: out.row(first).as_mut_ptr(),
        stride: out.stride(),
        panel_stride: rows * out.stride(),
        accumulate: true,
        finish: None,
    };
    // SAFETY: the block was just checked to have that many rows of a panel's columns, and is borrowed mutably.
    unsafe { multiply(isa, product) };
}

/// Maximum number of units that the gates process at once: the columns of a panel.
pub const MAX_UNITS: usize = 32;

/// A number of each unit. Gates compute in float64 from float32 products, and states are rounded once: factors far from
/// 0..1 magnify every rounding in between.
type Units = [f64; MAX_UNITS];

/// What a gate adds up, one number per unit.
#[derive(Clone, Copy)]
pub struct Gate<'a> {
    /// The product of input and weights.
    pub input: &'a [f32],
    /// Its bias.
    pub bias: &'a [f32],
    /// The product of the hidden state and the recurrent weights.
    pub recurrent: &'a [f32],
    /// Its bias.
    pub recurrent_bias: &'a [f32],
}

impl Gate<'_> {
    /// The sums of everything.
    #[inline(always)]
    fn sums(&self) -> Units {
        self.reset_sums(&[1.0; MAX_UNITS])
    }

    /// The sums, with the recurrent part multiplied by `reset`.
    #[inline(always)]
    fn reset_sums(&self, reset: &Units) -> Units {
        let mut sums = [0.0; MAX_UNITS];
        let inputs = self.input.iter().zip(self.bias);
        let recurrent = self.recurrent.iter().zip(self.recurrent_bias).zip(reset);
        for ((sum, (&x, &bias)), ((&h, &recurrent_bias), reset)) in sums.iter_mut().zip(inputs).zip(recurrent) {
            *sum = (x as f64 + bias as f64) + reset * (h as f64 + recurrent_bias as f64);
        }
        sums
    }
}

/// `xs[i] = activation(xs[i])` for the first `count` units.
///
/// In plain loops: a closure that is not inlined is compiled without the features of the instruction set.
#[inline(always)]
fn activate<S: Simd>(simd: S, activation: Activation, count: usize, xs: &mut Units) {
    let xs = &mut xs[..count];
    if activation == Activation::Relu {
        for x in xs {
            // NaN stays NaN.
            *x = if *x < 0.0 { 0.0 } else { *x };
        }
        return;
    }
    // Loops of their own: vectors of float32 have twice as many lanes.
    let mut floats = [0.0; MAX_UNITS];
    let floats = &mut floats[..count];
    for (float, x) in floats.iter_mut().zip(&*xs) {
        *float = *x as f32;
    }
    if activation == Activation::Sigmoid {
        for x in &mut *floats {
            *x = math::sigmoid(simd, *x);
        }
    } else {
        for x in &mut *floats {
            *x = math::tanh(simd, *x);
        }
    }
    for (x, float) in xs.iter_mut().zip(floats) {
        *x = *float as f64;
    }
}

/// Some units of an LSTM, at most [`MAX_UNITS`]. All slices have the same length.
pub struct LstmGates<'a> {
    /// The activations of the input, output and forget gates, of the cell gate, and of the new cell state.
    pub activations: [Activation; 3],
    /// Peephole weights of the input, output and forget gates.
    pub peephole: Option<[&'a [f32]; 3]>,
    /// The input, output, forget and cell gates.
    pub gates: [Gate<'a>; 4],
    /// The cell state, replaced by the next one.
    pub cell: &'a mut [f32],
    /// Receives the new hidden state.
    pub hidden: &'a mut [f32],
}

impl Kernel for LstmGates<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let LstmGates { activations: [gate, new, filter], peephole, gates, cell, hidden } = self;
        let count = cell.len();
        let [i, o, f, g] = gates;
        let mut sums = [i.sums(), o.sums(), f.sums(), g.sums()];
        if let Some(weights) = peephole {
            for (sums, weights) in sums.iter_mut().zip(weights) {
                for ((sum, &weight), &cell) in sums.iter_mut().zip(weights).zip(&*cell) {
                    *sum += weight as f64 * cell as f64;
                }
            }
        }
        let [i, o, f, g] = &mut sums;
        for sums in [&mut *i, &mut *o, &mut *f] {
            activate(simd, gate, count, sums);
        }
        activate(simd, new, count, g);
        // Becomes the activated cell state.
        let mut filtered = [0.0; MAX_UNITS];
        let factors = f.iter().zip(&*i).zip(&*g);
        for ((next, cell), ((f, i), g)) in filtered.iter_mut().zip(&mut *cell).zip(factors) {
            *next = f * *cell as f64 + i * g;
            *cell = *next as f32;
        }
        activate(simd, filter, count, &mut filtered);
        for ((hidden, o), next) in hidden.iter_mut().zip(&*o).zip(&filtered) {
            *hidden = (o * next) as f32;
        }
    }
}

/// The reset gate of a GRU, before the product with the recurrent weights: `hidden = activation(reset) * hidden`. At
/// most [`MAX_UNITS`]; all slices have the same length.
pub struct GruReset<'a> {
    /// The activation of the gate.
    pub activation: Activation,
    /// The gate.
    pub reset: Gate<'a>,
    /// The hidden state.
    pub hidden: &'a mut [f32],
}

impl Kernel for GruReset<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut reset = self.reset.sums();
        activate(simd, self.activation, self.hidden.len(), &mut reset);
        for (hidden, reset) in self.hidden.iter_mut().zip(&reset) {
            *hidden = (reset * *hidden as f64) as f32;
        }
    }
}

/// The gates of some units of a GRU, at most [`MAX_UNITS`]. All slices have the same length.
pub struct GruGates<'a> {
    /// The activations of the update and reset gates, and of the new gate.
    pub activations: [Activation; 2],
    /// The update gate.
    pub update: Gate<'a>,
    /// The reset gate, if it applies to the recurrent part of the new gate.
    pub reset: Option<Gate<'a>>,
    /// The new gate.
    pub new: Gate<'a>,
    /// The hidden state, replaced by the next one.
    pub hidden: &'a mut [f32],
}

impl Kernel for GruGates<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let GruGates { activations: [gate, new_activation], update, reset, new, hidden } = self;
        let (count, mut z) = (hidden.len(), update.sums());
        activate(simd, gate, count, &mut z);
        let mut n = match reset {
            Some(reset) => {
                let mut r = reset.sums();
                activate(simd, gate, count, &mut r);
                new.reset_sums(&r)
            }
            None => new.sums(),
        };
        activate(simd, new_activation, count, &mut n);
        for ((hidden, z), n) in hidden.iter_mut().zip(&z).zip(&n) {
            *hidden = (z * *hidden as f64 + n * (1.0 - z)) as f32;
        }
    }
}
