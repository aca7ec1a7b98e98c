//! `matmul` and `gemm` of float64. Nothing is packed ahead: models compute little in it.

use super::matmul::MatmulShape;
use super::{Env, Run};
use crate::cpu::kernels::double_product::{COLUMNS, DoubleProduct, PANEL, ROWS, Strided};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::{PerThread, for_each_chunk_with, for_each_column_block};

/// Rows that a thread computes at least if the output has few columns.
const GRAIN: usize = 32;

/// A compiled product.
pub struct DoubleProductStep {
    shape: MatmulShape,
    /// The factors of the product and of the addend.
    factors: [f64; 2],
}

impl DoubleProductStep {
    /// Creates the product of this shape, with the factors of the product and of the addend.
    pub fn new(shape: MatmulShape, factors: [f64; 2]) -> DoubleProductStep {
        DoubleProductStep { shape, factors }
    }
}

impl Run for DoubleProductStep {
    fn kernel(&self) -> &'static str {
        "product float64"
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        threads * PANEL * size_of::<f64>()
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let MatmulShape { m, k, n, .. } = self.shape;
        let [a, b] = [0, 1].map(|index| io.input::<f64>(index));
        let c = self.shape.c.as_ref().map(|strides| (io.input::<f64>(2), strides));
        let (out, scratch, [alpha, beta]) = (io.output::<f64>(), io.scratch::<f64>(), self.factors);
        let sides = |batch: usize| {
            let [a_start, b_start] = [0, 1].map(|side| self.shape.start(side, batch));
            let (a_strides, b_strides) = (&self.shape.a, &self.shape.b);
            let a = Strided { elements: &a[a_start..], row: a_strides.row, col: a_strides.col };
            (a, Strided { elements: &b[b_start..], row: b_strides.row, col: b_strides.col })
        };
        // The addend has no batches.
        let write = |out: &mut [f64], is_first: bool, row: usize, column: usize, sums: &[f64]| {
            for ((out, &sum), column) in out.iter_mut().zip(sums).zip(column..) {
                *out = match &c {
                    _ if !is_first => *out + alpha * sum,
                    Some((c, strides)) => alpha * sum + beta * c[row * strides.row + column * strides.col],
                    None => alpha * sum,
                };
            }
        };
        let in_place = m < ROWS && self.shape.b.col == 1;
        if n >= m.max(2 * COLUMNS) {
            let own = PerThread::new(env.threads, scratch);
            let sizes = [self.shape.batches(), m, n];
            return for_each_column_block(env.threads, out, sizes, [COLUMNS, n], m * k, |batch, columns, mut out| {
                own.with(|panel| {
                    let (a, b) = sides(batch);
                    let put = |is_first: bool, row: usize, column: usize, sums: &[f64]| {
                        let out = &mut out.row(row)[column - columns.start..][..sums.len()];
                        write(out, is_first, row, column, sums);
                    };
                    let columns = columns.clone();
                    env.isa.run(DoubleProduct { a, b, rows: 0..m, columns, depth: k, in_place, panel, put });
                });
            });
        }
        for_each_chunk_with(env.threads, out, n, GRAIN, n * k, scratch, |first, out, panel| {
            let (mut at, mut rest) = (first, out);
            while !rest.is_empty() {
                let (batch, row) = (at / m, at % m);
                let count = (m - row).min(rest.len() / n);
                let (out, tail) = rest.split_at_mut(count * n);
                let (a, b) = sides(batch);
                let put = |is_first: bool, place: usize, column: usize, sums: &[f64]| {
                    let out = &mut out[(place - row) * n + column..][..sums.len()];
                    write(out, is_first, place, column, sums);
                };
                let rows = row..row + count;
                env.isa.run(DoubleProduct { a, b, rows, columns: 0..n, depth: k, in_place, panel: &mut *panel, put });
                (at, rest) = (at + count, tail);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    /// Sums of up to `k` products of numbers up to 4.
    fn tolerance(k: u32) -> Tolerance {
        Tolerance::ulps(4).or_absolute(16.0 * k as f64 * f64::EPSILON)
    }

    fn gemm([m, k, n]: [u32; 3], [a_transpose, b_transpose]: [bool; 2], c: Option<[u32; 2]>) {
        let turned = |sizes: [u32; 2], turns: bool| if turns { [sizes[1], sizes[0]] } else { sizes };
        let addend = c.map_or(String::new(), |c| format!("%2 = input c float64 {c:?}\n"));
        let text = format!(
            "%0 = input a float64 {:?}\n%1 = input b float64 {:?}\n{addend}\
             %3 = gemm %0 %1 {} alpha=0.3 beta=-1.7 aTranspose={a_transpose} bTranspose={b_transpose}\noutput y = %3",
            turned([m, k], a_transpose),
            turned([k, n], b_transpose),
            if c.is_some() { "%2" } else { "" },
        );
        check(&parse(&text), tolerance(k));
    }

    #[test]
    fn products_at_the_edges_of_tiles_and_panels() {
        for m in [1, 3, 4, 5, 9] {
            for n in [1, 8, 9, 17, 260] {
                for k in [1, 256, 257] {
                    gemm([m, k, n], [false; 2], Some([1, n]));
                }
            }
        }
    }

    #[test]
    fn matrices_are_broadcast() {
        for [a, b] in [
            [&[2, 3, 5, 7][..], &[7, 4][..]],
            [&[5, 7], &[2, 3, 7, 20]],
            [&[2, 1, 33, 7], &[1, 3, 7, 9]],
            [&[3, 40, 6], &[3, 6, 40]],
        ] {
            let text = format!(
                "%0 = input a float64 {a:?}\n%1 = input b float64 {b:?}\n%2 = matmul %0 %1\n%3 = add %2 %2\noutput y = %3"
            );
            check(&parse(&text), tolerance(14));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_product(m in 1u32..40, k in 1u32..300, n in 1u32..40, turns: [bool; 2], addend in 0u32..5) {
            let c = [[1, 1], [m, n], [1, n], [m, 1]];
            gemm([m, k, n], turns, c.get(addend as usize).copied());
        }
    }
}
