//! Attention that the compiler fused into one operator.

use super::{Env, Run};
use crate::cpu::kernels::float::Float;
use crate::cpu::memory::Io;
use crate::cpu::product::attention::{Attend, Combine, MAX_STREAMED, Sizes, Stream, StreamedHead, partial_len};
use crate::cpu::product::masks::{Mask, OUT_OF_SIGHT, OUT_OF_SIGHT_HALF, SeenKeys};
use crate::cpu::product::matrix::TypedMatrix;
use crate::cpu::schedule::shared::split_with;
use crate::cpu::simd::Isa;
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::memory::{SharedMut, bytes_of_mut, elements_mut};
use crate::ops::attention::{Attention, MAX_MASKS, MaskKind, Places};
use half::f16;
use std::ops::Range;

/// A compiled attention.
pub struct AttentionStep {
    op: Box<Attention>,
    sizes: Sizes,
    /// Type of keys and values.
    dtype: DataType,
    isa: Isa,
}

impl AttentionStep {
    /// Creates the attention `op` for keys and values of type `dtype`, with kernels of `isa`.
    pub fn new(op: &Attention, dtype: DataType, isa: Isa) -> AttentionStep {
        let mut op = Box::new(op.clone());
        group(&mut op);
        AttentionStep { sizes: sizes(&op), op, dtype, isa }
    }

    /// Adapts the step to other sizes of its operands, those of `op`.
    pub fn resize(&mut self, op: &Attention) {
        self.op.resize(op);
        group(&mut self.op);
        self.sizes = sizes(&self.op);
    }

    /// Queries that a thread computes at once.
    fn queries(&self) -> usize {
        match self.sizes.are_streamed() {
            true => self.sizes.rows * MAX_STREAMED.min(self.op.matrices()),
            false => self.sizes.query_block(self.isa),
        }
    }

    /// Scratch length per thread in floats: for the kernel, and for a block of the output.
    fn slot(&self) -> usize {
        match self.sizes.are_streamed() {
            true => self.sizes.stream_scratch(self.isa, self.queries()),
            false => {
                self.queries() * self.sizes.columns + self.sizes.scratch(self.isa, self.dtype == DataType::Float32)
            }
        }
    }

    /// Scratch length in floats for the results of all ranges of keys.
    fn partials_len(&self) -> usize {
        let queries = self.op.matrices() * self.sizes.rows;
        let all = self.sizes.ranges() * queries * partial_len(self.sizes.columns);
        if self.sizes.are_streamed() { all.next_multiple_of(16) } else { 0 }
    }

    /// Scratch length in floats for the keys that each matrix sees.
    fn seen_len(&self) -> usize {
        if self.sizes.are_streamed() { (2 * self.op.matrices()).next_multiple_of(16) } else { 0 }
    }

    /// The keys seen by any query of each matrix, or by any query at all if they are the same: the queries of a thread
    /// depend on the number of threads, and results must not.
    fn seen_by_all(&self, env: &Env, io: &Io, seen: &mut [[u32; 2]]) {
        let is_same = self.op.masks.iter().all(|mask| mask.places.batch.iter().all(|stride| *stride == 0));
        for matrix in 0..seen.len() {
            seen[matrix] = match is_same && matrix > 0 {
                true => seen[0],
                false => {
                    let Range { start, end } = self.seen(env, &self.masks(io, matrix, 0), self.sizes.rows);
                    [start as u32, end as u32]
                }
            };
        }
    }

    /// Streams a few queries of several matrices at once through a range of keys, and combines the results for all
    /// ranges that any query sees.
    fn stream<T: Float>(&self, env: &Env, io: &mut Io) {
        let (op, sizes, len) = (&self.op, self.sizes, partial_len(self.sizes.columns));
        let (query, [key, value]) = (io.input::<f32>(0), [1, 2].map(|index| io.input::<T>(index)));
        let (partials, scratch) = io.scratch::<f32>().split_at_mut(self.partials_len());
        let (seen, scratch) = scratch.split_at_mut(self.seen_len());
        let (shared, out) = (SharedMut::new(partials), SharedMut::new(io.output::<f32>()));
        let io = &*io;
        let seen = &mut elements_mut::<u32>(bytes_of_mut(seen)).as_chunks_mut().0[..op.matrices()];
        self.seen_by_all(env, io, seen);
        let seen = &*seen;
        let first = seen.iter().map(|&[start, _]| start).min().unwrap_or(0) as usize;
        let end = seen.iter().map(|&[_, end]| end).max().unwrap_or(0) as usize;
        let (all, first_range) = (op.matrices() * sizes.rows, sizes.range_of(first));
        let ranges = sizes.range_of(end - 1) + 1 - first_range;
        let cost = (end - first) / ranges * (sizes.depth + sizes.columns);
        // Queries that share keys stay together if there are enough others: each thread that has one of them reads all
        // of their keys.
        let grain = if op.matrices() * ranges >= env.threads.count() { sizes.rows } else { 1 };
        split_with(env.threads, all * ranges, grain, cost, scratch, |items, scratch| {
            let mut next = items.start;
            while next < items.end {
                let (begin, range) = (next, next / all);
                let end = items.end.min((range + 1) * all);
                let keys = |matrix: usize| seen[matrix][0] as usize..seen[matrix][1] as usize;
                let heads: [Option<StreamedHead<T>>; MAX_STREAMED] = std::array::from_fn(|_| {
                    let (matrix, first) = (next % all / sizes.rows, next % sizes.rows);
                    let queries = (sizes.rows - first).min(end - next);
                    next += queries;
                    (queries > 0).then(|| StreamedHead {
                        queries,
                        query: self.matrix(query, &op.query, matrix, first),
                        key: self.matrix(key, &op.key, matrix, 0),
                        value: self.matrix(value, &op.value, matrix, 0),
                        keys: sizes.range(first_range + range, &keys(matrix)),
                        masks: self.masks(io, matrix, first),
                    })
                });
                // SAFETY: each result is written by one item.
                let partials = unsafe { shared.range(begin * len..next * len) };
                let (scale, softcap) = (op.factor() as f32, op.softcap as f32);
                env.isa.run(Stream { sizes, scale, softcap, heads: &heads, out: partials, scratch });
                for (item, partial) in (begin..next).zip(partials.chunks_exact(len)).filter(|_| ranges == 1) {
                    // SAFETY: each row is written by one item.
                    unsafe { self.combine(env, partial, item, &out) };
                }
            }
        });
        if ranges > 1 {
            let partials = &partials[..ranges * all * len];
            env.threads.split(all, 1, ranges * len, |items| {
                for item in items {
                    // SAFETY: each row is written by one item.
                    unsafe { self.combine(env, &partials[item * len..], item, &out) };
                }
            });
        }
    }

    /// Writes the output of query `item` of all queries, given its results for all ranges of keys.
    ///
    /// # Safety
    /// No other code writes the row.
    unsafe fn combine(&self, env: &Env, partials: &[f32], item: usize, out: &SharedMut<f32>) {
        let Sizes { rows, columns, .. } = self.sizes;
        let stride = self.op.matrices() * rows * partial_len(columns);
        // SAFETY: the rows of the output are disjoint, and the caller guarantees that no other code uses this one.
        let out = unsafe { out.range(self.row([item / rows, item % rows])) };
        env.isa.run(Combine { partials, stride, empty_is_zero: self.op.empty_is_zero, out });
    }

    /// Where a row of a matrix is in the output. The matrices cover the output once.
    fn row(&self, [matrix, row]: [usize; 2]) -> Range<usize> {
        let start = self.op.start(&self.op.output, matrix) + row * self.op.output.row.size();
        start..start + self.sizes.columns
    }

    /// Processes one block of many queries of one matrix at a time.
    fn attend<T: Float>(&self, env: &Env, io: &mut Io) {
        let (op, sizes) = (&self.op, self.sizes);
        let (query, [key, value]) = (io.input::<f32>(0), [1, 2].map(|index| io.input::<T>(index)));
        let (scratch, out) = (io.scratch::<f32>(), SharedMut::new(io.output::<f32>()));
        let block = sizes.query_block(self.isa);
        let blocks = sizes.rows.div_ceil(block);
        let cost = block * sizes.keys * (sizes.depth + sizes.columns);
        let io = &*io;
        split_with(env.threads, op.matrices() * blocks, 1, cost, scratch, |items, scratch| {
            let (sums, scratch) = scratch.split_at_mut(block * sizes.columns);
            for item in items {
                let (matrix, first) = (item / blocks, item % blocks * block);
                let queries = block.min(sizes.rows - first);
                let masks = self.masks(io, matrix, first);
                env.isa.run(Attend {
                    isa: env.isa,
                    sizes,
                    queries,
                    scale: op.factor() as f32,
                    softcap: op.softcap as f32,
                    empty_is_zero: op.empty_is_zero,
                    query: self.matrix(query, &op.query, matrix, first),
                    key: self.matrix(key, &op.key, matrix, 0),
                    value: self.matrix(value, &op.value, matrix, 0),
                    keys: self.seen(env, &masks, queries),
                    masks: &masks,
                    out: sums,
                    scratch,
                });
                for (row, sums) in sums.chunks_exact(sizes.columns).take(queries).enumerate() {
                    // SAFETY: each row belongs to one block.
                    unsafe { out.range(self.row([matrix, first + row])) }.copy_from_slice(sums);
                }
            }
        });
    }

    /// The batch's matrix at `index`, starting at row `first`.
    fn matrix<'a, T>(&self, data: &'a [T], places: &Places, index: usize, first: usize) -> TypedMatrix<'a, T> {
        let data = &data[self.op.start(places, index) + first * places.row.size()..];
        TypedMatrix { data, row: places.row.size(), col: places.col.size() }
    }

    /// The keys that at least one of the first `queries` queries sees.
    fn seen(&self, env: &Env, masks: &[Option<Mask>; MAX_MASKS], queries: usize) -> Range<usize> {
        env.isa.run(SeenKeys { masks, queries, keys: self.sizes.keys })
    }

    /// The masks of the matrix at `index`, starting at row `first`.
    fn masks<'a>(&self, io: &Io<'a>, index: usize, first: usize) -> [Option<Mask<'a>>; MAX_MASKS] {
        std::array::from_fn(|mask| self.mask(io, mask, index, first))
    }

    fn mask<'a>(&self, io: &Io<'a>, index: usize, matrix: usize, first: usize) -> Option<Mask<'a>> {
        let mask = self.op.masks.get(index)?;
        let out_of_sight = if self.dtype == DataType::Float16 { OUT_OF_SIGHT_HALF } else { OUT_OF_SIGHT };
        Some(match mask.kind {
            MaskKind::Fill { value, when } => {
                let condition = self.matrix(io.input::<u8>(3 + index), &mask.places, matrix, first);
                let value = value as f32;
                Mask::Fill { condition, when, value, hides: value <= -out_of_sight }
            }
            MaskKind::Add => {
                let addend = self.matrix(io.input::<f32>(3 + index), &mask.places, matrix, first);
                Mask::Add { addend, out_of_sight }
            }
        })
    }
}

fn sizes(op: &Attention) -> Sizes {
    let [rows, keys, depth, columns] = [op.rows, op.keys, op.depth, op.columns].map(Dim::size);
    Sizes { rows, keys, depth, columns }
}

/// If each head has a single query, makes the queries of the heads that share keys and values the rows of one matrix.
fn group(op: &mut Attention) {
    let shares = |places: &Places| places.batch.last().is_some_and(|&stride| stride == 0);
    if op.rows != 1 || !(shares(&op.key) && shares(&op.value)) {
        return;
    }
    let Attention { batch, rows, query, key, value, masks, output, .. } = op;
    *rows = batch.pop().expect("places have as many dimensions as the batch");
    [key, value].into_iter().for_each(|places| _ = places.batch.pop());
    for places in [query, output].into_iter().chain(masks.iter_mut().map(|mask| &mut mask.places)) {
        places.row = places.batch.pop().expect("places have as many dimensions");
    }
}

impl Run for AttentionStep {
    fn kernel(&self) -> &'static str {
        if self.sizes.are_streamed() { "attention, streamed" } else { "attention" }
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        (self.partials_len() + self.seen_len() + self.slot().next_multiple_of(16) * threads) * size_of::<f32>()
    }

    fn run(&self, env: &Env, io: &mut Io) {
        match (self.dtype, self.sizes.are_streamed()) {
            (DataType::Float16, true) => self.stream::<f16>(env, io),
            (DataType::Float16, false) => self.attend::<f16>(env, io),
            (_, true) => self.stream::<f32>(env, io),
            (_, false) => self.attend::<f32>(env, io),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::patterns::fuse_attention;
    use crate::cpu::simd::Isa;
    use crate::dtype::Number;
    use crate::ir::{Graph, parse};
    use crate::ops::tensor::Tensor;
    use crate::testing::{Random, Tolerance, check_with, run_compiled_on};
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Results are weighted means of values in -1..1. Errors of a few ULP in scores of up to 8 change the weights by
    /// this much.
    const TOLERANCE: Tolerance = Tolerance::ulps(8).or_absolute(4e-6);
    /// The graph as built rounds to float16 after each operator.
    const HALF: Tolerance = Tolerance::ulps(8).or_absolute(4e-3);

    /// `[batch, rows, heads, depth]` against `[batch, keys, heads, depth]`, with `middle` between product and softmax.
    fn graph(dtype: &str, [batch, heads]: [u32; 2], sizes: [u32; 4], inputs: &str, middle: &str) -> Graph {
        let [rows, keys, depth, columns] = sizes;
        let graph = parse(&format!(
            "%0 = input q {dtype} [{batch}, {rows}, {heads}, {depth}]
             %1 = input k {dtype} [{batch}, {keys}, {heads}, {depth}]
             %2 = input v {dtype} [{batch}, {keys}, {heads}, {columns}]
             {inputs}
             %q = transpose %0 permutation=[0, 2, 1, 3]
             %k = transpose %1 permutation=[0, 2, 3, 1]
             %v = transpose %2 permutation=[0, 2, 1, 3]
             %c = constant {dtype} [] 0.75
             %p = matmul %q %k
             %s = mul %p %c
             {middle}
             %w = softmax %m axis=3
             %o = matmul %w %v
             %y = transpose %o permutation=[0, 2, 1, 3]
             output y = %y"
        ));
        let mut fused = graph.clone();
        fuse_attention(&mut fused);
        assert_eq!(fused.nodes.iter().filter(|node| node.op.rule().name == "attention").count(), 1, "{fused}");
        assert!(fused.nodes.len() <= 2, "{fused}");
        graph
    }

    fn check(graph: &Graph, tolerance: Tolerance) {
        check_masked(graph, tolerance, |_| -> f64 { unreachable!("no mask") });
    }

    /// Random operands in -1..1; the input `m`, if present, comes from `mask`.
    fn check_masked(graph: &Graph, tolerance: Tolerance, mask: impl FnMut(&[usize]) -> f64) {
        check_with(graph, &operands(graph, mask), tolerance);
    }

    fn operands(graph: &Graph, mut mask: impl FnMut(&[usize]) -> f64) -> HashMap<String, Tensor> {
        let mut random = Random::new(7);
        let tensor = |(name, id): &(String, _)| {
            let descriptor = graph.descriptor(*id);
            let tensor = match name.as_str() {
                "m" => Tensor::from_fn(descriptor, |index| match descriptor.dtype.is_float() {
                    true => Number::Float(mask(index)),
                    false => Number::Int(mask(index) as i128),
                }),
                _ => random.tensor_in(descriptor, -1.0, 1.0),
            };
            (name.clone(), tensor.rounded())
        };
        graph.inputs.iter().map(tensor).collect()
    }

    const NO_MASK: &str = "%m = identity %s";

    #[test]
    fn sizes_at_the_edges() {
        for rows in [1, 4, 5, 16, 17, 33] {
            for sizes in [[rows, 3, 5, 7], [rows, 17, 16, 20], [rows, 129, 8, 64]] {
                check(&graph("float32", [1, 2], sizes, "", NO_MASK), TOLERANCE);
            }
        }
        check(&graph("float16", [2, 1], [20, 130, 9, 8], "", NO_MASK), HALF);
        check(&graph("float16", [2, 1], [3, 130, 9, 8], "", NO_MASK), HALF);
    }

    #[test]
    fn added_masks() {
        for (rows, shape) in
            [(20, "[1, 1, 20, 140]"), (20, "[2, 1, 1, 140]"), (2, "[2, 2, 2, 140]"), (20, "[20, 1]"), (37, "[1]")]
        {
            for dtype in ["float32", "float16"] {
                let inputs = format!("%3 = input m {dtype} {shape}");
                let graph = graph(dtype, [2, 2], [rows, 140, 4, 5], &inputs, "%m = add %3 %s");
                let tolerance = if dtype == "float32" { TOLERANCE } else { HALF };
                // Every third key nearly vanishes; a row where all of them do is the mean of all values.
                check_masked(&graph, tolerance, |index| if index.iter().sum::<usize>() % 3 == 1 { -30.0 } else { 0.5 });
            }
        }
    }

    #[test]
    fn rows_of_minus_infinity_are_nan_or_zeros() {
        for (rows, keys) in [(3, 150), (20, 150), (3, 1400)] {
            let inputs = format!("%3 = input m float32 [1, 1, {rows}, {keys}]");
            let guard = "%a = add %s %3\n%b = softmax %a axis=3\n%i = isNaN %b\n%z = constant float32 [] 0\n\
                         %g = where %i %z %b\n";
            let plain = graph("float32", [1, 2], [rows, keys, 4, 5], &inputs, "%m = add %s %3");
            let text = plain.to_string();
            assert!(text.contains("softmax"));
            let empty = |index: &[usize]| match index[2] {
                1 => f64::NEG_INFINITY,
                // Hides the whole first block of keys, and none of the last.
                2 if index[3] + 10 < keys as usize => f64::NEG_INFINITY,
                _ => 0.0,
            };
            check_masked(&plain, TOLERANCE, empty);
            let guarded = parse(&format!(
                "%q = input q float32 [1, 2, {rows}, 4]\n%k = input k float32 [1, 2, 4, {keys}]\n\
                 %v = input v float32 [1, 2, {keys}, 5]\n{inputs}\n%s = matmul %q %k\n{guard}%y = matmul %g %v\noutput y = %y"
            ));
            let mut fused = guarded.clone();
            fuse_attention(&mut fused);
            assert!(fused.to_string().contains("emptyIsZero=true"), "{fused}");
            check_masked(&guarded, TOLERANCE, empty);
        }
    }

    #[test]
    fn replacing_masks() {
        for (rows, shape) in [(20, "[1, 1, 20, 140]"), (20, "[2, 1, 1, 140]"), (2, "[1, 2, 2, 140]")] {
            for middle in ["%m = where %3 %s %n", "%m = where %3 %n %s"] {
                let inputs = format!("%3 = input m uint8 {shape}\n%n = constant float32 [] -1e9");
                let graph = graph("float32", [2, 2], [rows, 140, 4, 5], &inputs, middle);
                check_masked(&graph, TOLERANCE, |index| (index.iter().sum::<usize>() % 3 == 1) as u8 as f64);
            }
        }
    }

    #[test]
    fn capped_scores() {
        // A cap of 1.5 bends scores of up to 7 strongly, a cap of 50 hardly at all.
        for (rows, cap) in [(3, 1.5), (20, 1.5), (3, 50.0), (20, 50.0)] {
            let middle = format!("%b = linear %s alpha={}\n%t = tanh %b\n%e = linear %t alpha={cap}", 1.0 / cap);
            for (dtype, tolerance) in [("float32", TOLERANCE), ("float16", HALF)] {
                let sizes = [rows, 140, 16, 9];
                check(&graph(dtype, [1, 2], sizes, "", &format!("{middle}\n%m = identity %e")), tolerance);
                let inputs = format!("%3 = input m {dtype} [{rows}, 140]");
                let graph = graph(dtype, [1, 2], sizes, &inputs, &format!("{middle}\n%m = add %e %3"));
                check_masked(&graph, tolerance, |index| if index[1] % 3 == 1 { f64::NEG_INFINITY } else { 0.5 });
            }
        }
    }

    /// Whether a query of a batch sees a key, given the numbers of queries and keys.
    type Sight = fn([usize; 3], [usize; 2]) -> bool;

    /// Masks of shapes that leave blocks of queries a range of keys.
    const SIGHTS: [Sight; 7] = [
        // Causal; the last query is at the last key.
        |[_, query, key], [rows, keys]| key + rows <= query + keys,
        // Causal, limited to the last 21 keys.
        |[_, query, key], [rows, keys]| key + rows <= query + keys && key + rows + 21 > query + keys,
        // Padding on the left, on the right, and on both sides.
        |[batch, _, key], _| key >= 5 + 120 * batch,
        |[batch, _, key], [_, keys]| key + 3 + 120 * batch < keys,
        |[batch, _, key], _| key >= 127 + batch && key < 130,
        // One query sees no key, the others one.
        |[_, query, key], _| query != 1 && key == 128,
        // Holes.
        |[_, query, key], _| key % 50 == query % 3 + 7,
    ];

    #[test]
    fn masked_keys() {
        for (index, sees) in SIGHTS.into_iter().enumerate() {
            // 2,100 keys are three ranges.
            for (rows, keys) in [(37, 260), (3, 260), (33, 129), (2, 2100)] {
                for (dtype, middle, [shown, hidden]) in [
                    ("float32", "%m = add %s %3", [0.5, f64::NEG_INFINITY]),
                    ("float32", "%m = add %s %3", [0.5, f32::MIN as f64]),
                    ("float16", "%m = add %s %3", [0.5, f64::NEG_INFINITY]),
                    ("float32", "%n = constant float32 [] -3.4028235e38\n%m = where %3 %s %n", [1.0, 0.0]),
                    ("float16", "%n = constant float16 [] -65504\n%m = where %3 %n %s", [0.0, 1.0]),
                ]
                .into_iter()
                .take(if keys > 2000 { 1 } else { 5 })
                {
                    let mask = if middle.contains("where") { "uint8" } else { dtype };
                    let own_rows = if matches!(index, 2..=4) { 1 } else { rows };
                    let inputs = format!("%3 = input m {mask} [2, 1, {own_rows}, {keys}]");
                    let graph = graph(dtype, [2, 2], [rows, keys, 8, 5], &inputs, middle);
                    let tolerance = if dtype == "float32" { TOLERANCE } else { HALF };
                    let sizes = [rows as usize, keys as usize];
                    check_masked(&graph, tolerance, |index| {
                        if sees([index[0], index[2], index[3]], sizes) { shown } else { hidden }
                    });
                }
            }
        }
    }

    #[test]
    fn unseen_keys_are_not_read() {
        for (rows, isa) in Isa::available().into_iter().flat_map(|isa| [(3, isa), (70, isa)]) {
            let inputs = format!("%3 = input m float32 [{rows}, 300]");
            let graph = graph("float32", [1, 2], [rows, 300, 8, 5], &inputs, "%m = add %s %3");
            // Each block of queries sees a different part of the keys from 100 to 230.
            let sees = |query: usize, key: usize| key >= 100 + query && key < 200 + query.min(30);
            let mask = |index: &[usize]| if sees(index[0], index[1]) { 0.0 } else { f64::NEG_INFINITY };
            let mut operands = operands(&graph, mask);
            let before = run_compiled_on(&graph, &operands, isa);
            for name in ["k", "v"] {
                let descriptor = graph.descriptor(graph.inputs.iter().find(|(input, _)| input == name).unwrap().1);
                let tensor = operands.remove(name).unwrap();
                let mut numbers = tensor.numbers();
                let spoilt = Tensor::from_fn(descriptor, |index| match (numbers.next().unwrap(), index[1]) {
                    (number, 100..230) => number,
                    _ => Number::Float(f64::NAN),
                });
                drop(numbers);
                operands.insert(name.to_string(), spoilt);
            }
            assert!(run_compiled_on(&graph, &operands, isa) == before, "{isa:?}, {rows} rows");
        }
    }

    #[test]
    fn groups_of_heads_share_keys() {
        for (group, dtype, tolerance) in [
            (1, "float32", TOLERANCE),
            (3, "float32", TOLERANCE),
            (3, "float16", HALF),
            (8, "float32", TOLERANCE),
            (20, "float32", TOLERANCE),
        ] {
            for (rows, mask) in
                [(1, ""), (1, "[1, 1, 1, 1, 150]"), (1, "[2, 1, 1, 1, 150]"), (1, "[2, 2, 1, 1, 150]"), (2, "")]
            {
                let masked = if mask.is_empty() { "%m = identity %s" } else { "%m = add %s %3" };
                let input = if mask.is_empty() { String::new() } else { format!("%3 = input m {dtype} {mask}") };
                let graph = parse(&format!(
                    "%0 = input q {dtype} [2, {rows}, 2, {group}, 16]
                     %1 = input k {dtype} [150, 2, 2, 1, 16]
                     %2 = input v {dtype} [150, 2, 2, 1, 24]
                     {input}
                     %q = transpose %0 permutation=[0, 2, 3, 1, 4]
                     %k = transpose %1 permutation=[1, 2, 3, 4, 0]
                     %v = transpose %2 permutation=[1, 2, 3, 0, 4]
                     %p = matmul %q %k
                     %s = linear %p alpha=0.25
                     {masked}
                     %w = softmax %m axis=4
                     %o = matmul %w %v
                     %y = transpose %o permutation=[0, 3, 1, 2, 4]
                     output y = %y"
                ));
                let mut fused = graph.clone();
                fuse_attention(&mut fused);
                assert!(fused.nodes.len() == 1, "{fused}");
                check_masked(&graph, tolerance, |index| (index.iter().sum::<usize>() % 3) as f64 * 0.5);
            }
        }
    }

    #[test]
    fn large_enough_for_threads() {
        check(&graph("float32", [2, 3], [70, 130, 16, 16], "", NO_MASK), TOLERANCE);
        check(&graph("float32", [4, 8], [1, 150, 32, 32], "", NO_MASK), TOLERANCE);
        // Several ranges of keys.
        check(&graph("float32", [1, 3], [1, 2060, 16, 16], "", NO_MASK), TOLERANCE);
        check(&graph("float16", [1, 1], [8, 1025, 32, 9], "", NO_MASK), HALF);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn random_sizes(rows in 1u32..50, keys in 1u32..200, depth in 1u32..40, columns in 1u32..40, half: bool) {
            let (dtype, tolerance) = if half { ("float16", HALF) } else { ("float32", TOLERANCE) };
            check(&graph(dtype, [1, 2], [rows, keys, depth, columns], "", NO_MASK), tolerance);
        }
    }
}
