//! `dft`.

use super::{Env, Run};
use crate::cpu::kernels::fourier::{Fourier, Signal, Transform};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk_with;
use crate::error::Result;
use crate::memory::check_room;
use crate::ops::extension::dft::Dft;
use crate::shape::Descriptor;

/// Maximum number of signals to transform at a time.
const LANES: usize = 16;

/// Numbers of signals to transform at a time that fit into a cache.
const NUMBERS: usize = 1 << 15;

/// Compiled Fourier transforms.
pub struct DftStep {
    op: Dft,
    fourier: Fourier,
    /// Number of samples of a signal, and of their components.
    inputs: [usize; 2],
    /// Signals to transform at a time.
    lanes: usize,
}

impl DftStep {
    /// Creates the transforms `op` of `input`.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for factors.
    pub fn new(op: &Dft, input: &Descriptor) -> Result<DftStep> {
        let length = op.length as usize;
        check_room(Fourier::bytes(length))?;
        let fourier = Fourier::new(length);
        let &[.., samples, components] = &*input.sizes() else { unreachable!("two dimensions") };
        let inputs = [samples as usize, components as usize];
        let signals = input.elements() / (inputs[0] * inputs[1]);
        let lanes = (NUMBERS / fourier.room()).clamp(1, LANES).min(signals);
        Ok(DftStep { op: op.clone(), fourier, inputs, lanes })
    }

    /// Puts signals into lanes.
    fn load(&self, input: &[f32], signal: &mut Signal, lanes: usize) {
        let ([samples, components], length) = (self.inputs, self.op.length as usize);
        let used = self.op.used(samples as u32) as usize;
        let end = length * lanes;
        signal.re[used * lanes..end].fill(0.0);
        signal.im[used * lanes..end].fill(0.0);
        for (lane, input) in input.chunks_exact(samples * components).enumerate() {
            for (at, number) in input.chunks_exact(components).take(used).enumerate() {
                signal.re[at * lanes + lane] = number[0];
                signal.im[at * lanes + lane] = number.get(1).copied().unwrap_or(0.0);
            }
        }
        if !self.op.is_to_real() {
            return;
        }
        // The other half of the frequencies of a real signal.
        for at in 0..used {
            let (from, to) = (at * lanes, (length - at) % length * lanes);
            if from == to {
                signal.im[from..from + lanes].fill(0.0);
                continue;
            }
            signal.re.copy_within(from..from + lanes, to);
            signal.im.copy_within(from..from + lanes, to);
            signal.im[to..to + lanes].iter_mut().for_each(|im| *im = -*im);
        }
    }

    /// Takes the results out of lanes.
    fn store(&self, signal: &Signal, out: &mut [f32], lanes: usize) {
        let [outputs, components] = self.op.outputs().map(|size| size as usize);
        let factor = if self.op.inverse { 1.0 / self.op.length as f32 } else { 1.0 };
        for (lane, out) in out.chunks_exact_mut(outputs * components).enumerate() {
            for (at, number) in out.chunks_exact_mut(components).enumerate() {
                number[0] = factor * signal.re[at * lanes + lane];
                if let Some(im) = number.get_mut(1) {
                    *im = factor * signal.im[at * lanes + lane];
                }
            }
        }
    }
}

impl Run for DftStep {
    fn kernel(&self) -> &'static str {
        "dft"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (input, scratch) = (io.input::<f32>(0), io.scratch::<f32>());
        let signal = self.inputs[0] * self.inputs[1];
        let unit = self.op.outputs().iter().product::<u32>() as usize;
        let (room, inverse) = (self.fourier.room(), self.op.inverse);
        let cost = 16 * room;
        for_each_chunk_with(env.threads, io.output(), unit, self.lanes, cost, scratch, |first, out, scratch| {
            for (group, out) in out.chunks_mut(unit * self.lanes).enumerate() {
                let (first, lanes) = (first + group * self.lanes, out.len() / unit);
                let mut parts = scratch.chunks_exact_mut(room * self.lanes).map(|part| &mut part[..room * lanes]);
                let mut part = || parts.next().expect("four parts");
                let mut a = Signal { re: part(), im: part() };
                let mut b = Signal { re: part(), im: part() };
                self.load(&input[first * signal..][..lanes * signal], &mut a, lanes);
                if inverse {
                    // The inverse transform is that of the numbers with their parts exchanged.
                    std::mem::swap(&mut a.re, &mut a.im);
                    std::mem::swap(&mut b.re, &mut b.im);
                }
                let is_in_b = env.isa.run(Transform { fourier: &self.fourier, lanes, a: &mut a, b: &mut b });
                let mut result = if is_in_b { b } else { a };
                if inverse {
                    std::mem::swap(&mut result.re, &mut result.im);
                }
                self.store(&result, out, lanes);
            }
        });
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        4 * threads * self.fourier.room() * self.lanes * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    fn check_op(dtype: &str, shape: &[u32], op: &str, length: u32) {
        let graph = parse(&format!("%0 = input x {dtype} {shape:?}\n%1 = dft %0 length={length} {op}\noutput y = %1"));
        // Each of some log2(length) stages rounds sums of numbers below 4 that grow with the root of the length.
        let scale = if op.contains("inverse") { 1.0 } else { length as f64 };
        let error = 4.0 * f64::from(f32::EPSILON) * (length as f64).log2().max(1.0) * scale.sqrt() * 4.0;
        let ulps = if dtype == "float16" { 1 } else { 4 };
        check(&graph, Tolerance::ulps(ulps).or_absolute(error));
    }

    const KINDS: [(u32, &str); 5] =
        [(1, ""), (2, ""), (1, "onesided=true"), (2, "inverse=true"), (2, "inverse=true onesided=true")];

    #[test]
    fn every_kind_and_radix() {
        for length in [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 25, 30, 60, 64, 77, 100, 127, 128] {
            for (components, op) in KINDS {
                let samples = if op.contains("inverse=true onesided") { length / 2 + 1 } else { length };
                check_op("float32", &[3, samples, components], op, length);
            }
        }
    }

    #[test]
    fn signals_are_cut_or_filled_with_zeros() {
        for (components, op) in KINDS {
            for samples in [1, 5, 13, 20] {
                for length in [12, 13, 30] {
                    check_op("float32", &[2, samples, components], op, length);
                }
            }
        }
    }

    #[test]
    fn more_signals_than_lanes() {
        for count in [15, 16, 17, 33, 100] {
            check_op("float32", &[count, 40, 1], "onesided=true", 40);
            check_op("float32", &[2, count, 14, 2], "", 14);
        }
        check_op("float16", &[5, 24, 2], "", 24);
    }

    #[test]
    fn long_signals() {
        for length in [1000, 1009, 2048] {
            check_op("float32", &[2, length, 1], "onesided=true", length);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_sizes(count in 1u32..40, samples in 1u32..80, length in 1u32..80, kind in 0usize..5) {
            let (components, op) = KINDS[kind];
            check_op("float32", &[count, samples, components], op, length);
        }
    }
}
