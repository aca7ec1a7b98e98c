//! `linearAttention`.

use super::{Env, Run};
use crate::cpu::kernels::linear_attention::{LinearAttention as Kernel, Rows, scratch_len, vectors};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::split_with;
use crate::cpu::simd::Isa;
use crate::memory::{ColumnBlock, SharedMut};
use crate::ops::extension::linear_attention::LinearAttention;
use crate::shape::Descriptor;

/// A compiled linear attention. Threads share the states, and blocks of their columns.
pub struct LinearAttentionStep {
    isa: Isa,
    /// Vectors of columns per block.
    vectors: usize,
    scale: f32,
    batch: usize,
    steps: usize,
    /// Heads of queries, keys and values.
    heads: [usize; 3],
    /// Features of keys, and of values.
    features: [usize; 2],
}

impl LinearAttentionStep {
    /// Creates the step of `op` for these queries, keys and values.
    pub fn new(env: &Env, op: &LinearAttention, operands: [&Descriptor; 3]) -> LinearAttentionStep {
        let [query, key, value] = operands.map(|operand| [0, 1, 2, 3].map(|axis| operand.sizes()[axis] as usize));
        let [batch, steps, ..] = query;
        let (heads, features) = ([query[2], key[2], value[2]], [key[3], value[3]]);
        let vectors = vectors(env.isa, features[1], batch * heads[2], env.threads.count());
        LinearAttentionStep { isa: env.isa, vectors, scale: op.scale as f32, batch, steps, heads, features }
    }

    /// Columns of a block.
    fn wide(&self) -> usize {
        self.vectors * self.isa.lanes()
    }

    /// Queries that each state answers.
    fn queries(&self) -> usize {
        let [queries, _, states] = self.heads;
        (queries / states).max(1)
    }
}

impl Run for LinearAttentionStep {
    fn kernel(&self) -> &'static str {
        "linearAttention"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let &LinearAttentionStep { isa, vectors, scale, batch, steps, heads: [queries, keys, states], .. } = self;
        let (own, wide, [rows, columns]) = (self.queries(), self.wide(), self.features);
        let [query, key, value] = [0, 1, 2].map(|index| io.input::<f32>(index));
        let [decay, rate, past] = [3, 4, 5].map(|index| io.optional::<f32>(index));
        let (out, state) = (SharedMut::new(io.output::<f32>()), SharedMut::new(io.output::<f32>()));
        let blocks = columns.div_ceil(wide);
        let cost = steps * rows * wide.min(columns) * (1 + own + rate.is_some() as usize);
        split_with(env.threads, batch * states * blocks, 1, cost, io.scratch::<f32>(), |parts, scratch| {
            for part in parts {
                let (matrix, first) = (part / blocks, part % blocks * wide);
                let (batch, head, width) = (matrix / states, matrix % states, wide.min(columns - first));
                // `len` numbers of head number `of` of `heads`, for each step.
                let each = |data, of: usize, heads: usize, len: usize| {
                    let data: &[f32] = data;
                    Rows { data: &data[(batch * steps * heads + of) * len..], stride: heads * len, len }
                };
                let all = |data: &[f32]| data.len() / (self.batch * steps);
                let values = each(value, head, states, columns);
                let start = matrix * rows * columns + first;
                let output = |step: usize, number: usize| {
                    let row = ((batch * steps + step) * states + head) * own + number;
                    // SAFETY: parts have different heads or columns, and the kernel asks for each row once.
                    unsafe { out.range(row * columns + first..row * columns + first + width) }
                };
                isa.run(Kernel {
                    vectors,
                    steps,
                    query: Rows { len: own * rows, ..each(query, head * queries / states, queries, rows) },
                    scale,
                    key: each(key, head * keys / states, keys, rows),
                    value: Rows { data: &values.data[first..], len: width, ..values },
                    decay: decay.map(|decay| each(decay, head, states, all(decay) / states)),
                    rate: rate.map(|rate| each(rate, head % all(rate), all(rate), 1)),
                    past: past.map(|past| &past[start..]),
                    // SAFETY: parts have different states or columns.
                    state: unsafe { ColumnBlock::new(&state, start, width, columns, rows) },
                    output: &output,
                    scratch: &mut *scratch,
                });
            }
        });
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        let len = scratch_len(self.wide(), self.features[0], self.queries());
        threads * len.next_multiple_of(16) * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Random, Tolerance, check_with};
    use proptest::prelude::*;

    /// Sizes of the operands: 0 for those that are missing.
    struct Case {
        steps: usize,
        /// Heads of queries, keys and values.
        heads: [usize; 3],
        size: usize,
        columns: usize,
        decays: usize,
        rates: usize,
        past: bool,
    }

    impl Case {
        fn check(&self, dtype: &str) {
            let &Case { steps, heads: [queries, keys, states], size, columns, decays, rates, past } = self;
            let operand = |number: usize, name: &str, shape: &[usize], is_given: bool| match is_given {
                true => (format!("%{number} = input {name} {dtype} {shape:?}\n"), format!(" %{number}")),
                false => (String::new(), " _".to_string()),
            };
            let operands = [
                operand(0, "q", &[2, steps, queries, size], true),
                operand(1, "k", &[2, steps, keys, size], true),
                operand(2, "v", &[2, steps, states, columns], true),
                operand(3, "d", &[2, steps, states, decays], decays > 0),
                operand(4, "r", &[2, steps, rates], rates > 0),
                operand(5, "s", &[2, states, size, columns], past),
            ];
            let inputs = operands.each_ref().map(|(input, _)| &input[..]).concat();
            let names = operands.each_ref().map(|(_, name)| &name[..]).concat();
            let graph =
                parse(&format!("{inputs}%6, %7 = linearAttention{names} scale=0.5\noutput y = %6\noutput z = %7"));
            let mut random = Random::new((steps * size + columns) as u64);
            let inputs = graph.inputs.iter().map(|(name, id)| {
                let [low, high] = match &name[..] {
                    // Longer keys would make states grow without bounds.
                    "k" => [-1.0, 1.0].map(|x| x / (size as f64).sqrt()),
                    "d" | "r" => [0.0, 1.0],
                    _ => [-1.0, 1.0],
                };
                (name.clone(), random.tensor_in(graph.descriptor(*id), low, high))
            });
            let float = Tolerance::ulps(16).or_absolute(2e-5);
            check_with(
                &graph,
                &inputs.collect(),
                if dtype == "float32" { float } else { Tolerance { ulps: 1, ..float } },
            );
        }
    }

    const SMALL: Case = Case { steps: 3, heads: [2; 3], size: 4, columns: 5, decays: 1, rates: 2, past: true };

    #[test]
    fn columns_and_rows_at_the_edges_of_vectors() {
        for columns in [1, 3, 4, 8, 15, 16, 17, 32, 33, 64, 65, 128, 150] {
            Case { columns, size: columns % 7 + 1, ..SMALL }.check("float32");
            Case { columns, steps: 1, size: 16, rates: 1, ..SMALL }.check("float32");
        }
        for size in [1, 7, 8, 31, 64, 129] {
            Case { size, columns: 20, decays: size, ..SMALL }.check("float32");
        }
    }

    #[test]
    fn operands_may_be_missing() {
        for (decays, rates) in [(0, 0), (1, 0), (4, 0), (0, 1), (0, 2)] {
            for past in [false, true] {
                for steps in [1, 2, 9] {
                    Case { steps, decays, rates, past, ..SMALL }.check("float32");
                    Case { steps, decays, rates, past, columns: 64, ..SMALL }.check("float16");
                }
            }
        }
    }

    #[test]
    fn heads_share_states() {
        for heads in [[1, 1, 1], [2, 2, 4], [2, 1, 4], [4, 1, 2], [6, 2, 2], [5, 1, 1], [12, 3, 3]] {
            for rates in [0, 1, heads[2]] {
                Case { heads, rates, ..SMALL }.check("float32");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn random_shapes(
            steps in 1usize..12, keys in 1usize..3, shared in 1usize..4, queries in 1usize..5, size in 1usize..40,
            columns in 1usize..140, wide: bool, rates in 0usize..3, past: bool,
        ) {
            let states = keys * shared;
            let decays = if wide { size } else { 1 };
            let rates = [0, 1, states][rates];
            Case { steps, heads: [states * queries, keys, states], size, columns, decays, rates, past }.check("float32");
        }
    }
}
