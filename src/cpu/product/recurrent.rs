//! Recurrent networks: products with panels of weights, and the gates, element by element.

use crate::cpu::kernels::float::Float;
use crate::cpu::simd::{Kernel, Simd, math};
use crate::ops::recurrent::Activation;
use std::ops::Range;

/// Units of a panel: whole vectors of every instruction set.
pub const UNITS: usize = 16;

/// Adds products of some rows and a panel of [`UNITS`] columns:
/// `products[row * UNITS + unit] += sum_k x[row * depth + part.start + k] * panel[k * UNITS + unit]`.
pub struct PanelProducts<'a, T> {
    /// Rows of `depth` elements.
    pub x: &'a [f32],
    /// Elements of a row.
    pub depth: usize,
    /// The elements of a row that the panel belongs to.
    pub part: Range<usize>,
    /// The weights.
    pub panel: &'a [T],
    /// The sums so far.
    pub products: &'a mut [f32],
}

impl<T: Float> Kernel for PanelProducts<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let PanelProducts { x, depth, part, panel, products } = self;
        let mut products = products;
        let mut rows = x.chunks_exact(depth).map(|row| &row[part.clone()]);
        // Few rows take several depths at once, so that as many sums are on their way as the latency of an addition asks
        // for.
        while products.len() >= 8 * UNITS {
            let (now, rest) = products.split_at_mut(8 * UNITS);
            add_rows::<S, T, 8, 1>(simd, [(); 8].map(|()| rows.next().expect("a row per sum")), panel, now);
            products = rest;
        }
        while products.len() >= 4 * UNITS {
            let (now, rest) = products.split_at_mut(4 * UNITS);
            add_rows::<S, T, 4, 2>(simd, [(); 4].map(|()| rows.next().expect("a row per sum")), panel, now);
            products = rest;
        }
        for now in products.chunks_exact_mut(UNITS) {
            add_rows::<S, T, 1, 8>(simd, [rows.next().expect("a row per sum")], panel, now);
        }
    }
}

/// One block of rows; `UNROLL` depths have sums of their own.
#[inline(always)]
fn add_rows<S: Simd, T: Float, const ROWS: usize, const UNROLL: usize>(
    simd: S,
    rows: [&[f32]; ROWS],
    panel: &[T],
    products: &mut [f32],
) {
    let depth = rows[0].len();
    let body = depth / UNROLL * UNROLL;
    for first in (0..UNITS).step_by(S::LANES) {
        let mut sums = [[simd.splat(0.0); UNROLL]; ROWS];
        for (k, weights) in panel[..body * UNITS].chunks_exact(UNROLL * UNITS).enumerate() {
            for u in 0..UNROLL {
                let weights = T::load(simd, &weights[u * UNITS + first..][..S::LANES]);
                for (row, sums) in rows.iter().zip(&mut sums) {
                    sums[u] = simd.mul_add(simd.splat(row[k * UNROLL + u]), weights, sums[u]);
                }
            }
        }
        for k in body..depth {
            let weights = T::load(simd, &panel[k * UNITS + first..][..S::LANES]);
            for (row, sums) in rows.iter().zip(&mut sums) {
                sums[0] = simd.mul_add(simd.splat(row[k]), weights, sums[0]);
            }
        }
        for (sums, products) in sums.into_iter().zip(products.chunks_exact_mut(UNITS)) {
            let products = &mut products[first..][..S::LANES];
            let sum = sums.into_iter().reduce(|a, b| simd.add(a, b)).expect("UNROLL is not 0");
            simd.store(simd.add(simd.load(products), sum), products);
        }
    }
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
    /// Of the input, forget and output gates, of the cell gate, and of the cell state for the hidden state.
    pub activations: [Activation; 3],
    /// Peephole weights of the input, output and forget gate.
    pub peephole: Option<[&'a [f32]; 3]>,
    /// What the input, output, forget and cell gate are computed from; holds anything afterwards.
    pub gates: [&'a mut [f32]; 4],
    /// The cell state, replaced by the next one.
    pub cell: &'a mut [f32],
    /// Gets the next hidden state.
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
    /// Of the gate.
    pub activation: Activation,
    /// What the gate is computed from; holds the gate afterwards.
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

/// The update and new gate of a GRU. All slices have the same length.
pub struct GruGates<'a> {
    /// Of the update and of the new gate.
    pub activations: [Activation; 2],
    /// What the update gate is computed from; holds anything afterwards.
    pub update: &'a mut [f32],
    /// What the new gate is computed from, with the part of the hidden state; holds anything afterwards.
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
