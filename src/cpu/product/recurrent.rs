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

/// `xs[i] = activation(xs[i])`.
#[inline(always)]
fn activate<S: Simd>(simd: S, activation: Activation, xs: &mut [f32]) {
    match activation {
        // NaN stays NaN.
        Activation::Relu => xs.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
        Activation::Sigmoid => xs.iter_mut().for_each(|x| *x = math::sigmoid(simd, *x)),
        Activation::Tanh => xs.iter_mut().for_each(|x| *x = math::tanh(simd, *x)),
    }
}

/// Some elements of an LSTM. All slices have the same length.
pub struct LstmGates<'a> {
    /// The activations of the input, output and forget gates, of the cell gate, and of the new cell state.
    pub activations: [Activation; 3],
    /// Peephole weights of the input, output and forget gates.
    pub peephole: Option<[&'a [f32]; 3]>,
    /// The inputs of the input, output, forget and cell gates; undefined afterwards.
    pub gates: [&'a mut [f32]; 4],
    /// The cell state, replaced by the next one.
    pub cell: &'a mut [f32],
    /// Receives the new hidden state.
    pub hidden: &'a mut [f32],
}

impl Kernel for LstmGates<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let [gate, new, filter] = self.activations;
        let [i, o, f, g] = self.gates;
        let (cell, hidden) = (self.cell, self.hidden);
        if let Some(weights) = self.peephole {
            for (sums, weights) in [&mut *i, &mut *o, &mut *f].into_iter().zip(weights) {
                for ((sum, weight), cell) in sums.iter_mut().zip(weights).zip(&*cell) {
                    *sum += weight * cell;
                }
            }
        }
        activate(simd, gate, i);
        activate(simd, gate, f);
        activate(simd, gate, o);
        activate(simd, new, g);
        for (((cell, f), i), g) in cell.iter_mut().zip(&*f).zip(&*i).zip(&*g) {
            *cell = f * *cell + i * g;
        }
        hidden.copy_from_slice(cell);
        activate(simd, filter, hidden);
        for (hidden, o) in hidden.iter_mut().zip(&*o) {
            *hidden *= o;
        }
    }
}

/// The reset gate of a GRU: `hidden = activation(reset) * hidden`. All slices have the same length.
pub struct GruReset<'a> {
    /// The activation of the gate.
    pub activation: Activation,
    /// The input of the gate, replaced by the gate.
    pub reset: &'a mut [f32],
    /// The hidden state.
    pub hidden: &'a mut [f32],
}

impl Kernel for GruReset<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        activate(simd, self.activation, self.reset);
        for (hidden, reset) in self.hidden.iter_mut().zip(&*self.reset) {
            *hidden *= reset;
        }
    }
}

/// The update and new gates of a GRU. All slices have the same length.
pub struct GruGates<'a> {
    /// The activations of the update and new gates.
    pub activations: [Activation; 2],
    /// The input of the update gate; undefined afterwards.
    pub update: &'a mut [f32],
    /// The input of the new gate, including the contribution of the hidden state; undefined afterwards.
    pub new: &'a mut [f32],
    /// The hidden state, replaced by the next one.
    pub hidden: &'a mut [f32],
}

impl Kernel for GruGates<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let [gate, new] = self.activations;
        activate(simd, gate, self.update);
        activate(simd, new, self.new);
        for ((hidden, z), n) in self.hidden.iter_mut().zip(&*self.update).zip(&*self.new) {
            *hidden = z * *hidden + n * (1.0 - z);
        }
    }
}
