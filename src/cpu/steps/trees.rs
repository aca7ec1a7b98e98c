//! `treeEnsemble`.

use super::{Env, Run};
use crate::cpu::kernels::reduce::Float;
use crate::cpu::kernels::trees::{Feature, Given, Thresholds, Trees};
use crate::cpu::memory::Io;
use crate::cpu::schedule::pool::Threads;
use crate::cpu::schedule::shared::{for_each_chunk, for_each_chunk_with};
use crate::dtype::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Buffer, elements, elements_mut};
use crate::ops::extension::tree_ensemble::{Aggregate, TreeEnsemble};
use crate::shape::Descriptor;
use std::ops::Range;
use std::sync::Arc;

/// Rows that a thread takes through a tree before the next one, whose branches thus stay in the nearest cache.
const BLOCK: usize = 64;

/// The cost of a level: about a nanosecond.
const COST: usize = 64;

/// Compiled decision trees.
pub struct TreeEnsembleStep {
    op: TreeEnsemble,
    /// The type of features, weights and outputs.
    dtype: DataType,
    rows: usize,
    trees: Trees,
    /// Whether each leaf has a single vote, for the only target, and its weight is in the packed trees.
    has_weights: bool,
}

/// The operands behind the input: thresholds, branches, roots, leaves, targets and weights.
type Operands = [Arc<Buffer>; 6];

impl TreeEnsembleStep {
    /// Packs the trees of `op` for an operand `input`.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out, an `OperationError` if the trees are damaged.
    pub fn new(op: &TreeEnsemble, input: &Descriptor, operands: &Operands) -> Result<TreeEnsembleStep> {
        let damaged =
            || Error::new(ErrorKind::Operation, "treeEnsemble: a number of its trees is outside of its range");
        let sizes = input.sizes();
        let ints = |index: usize| elements::<i32>(operands[index].bytes());
        let (leaves, targets) = (ints(3), ints(4));
        let count = i64::from(op.count);
        let is_ordered =
            leaves.is_sorted() && leaves[0] >= 0 && *leaves.last().expect("a size") as usize <= targets.len();
        if !is_ordered || !targets.iter().all(|&target| (0..count).contains(&i64::from(target))) {
            return Err(damaged());
        }
        let is_single = |(at, &end): (usize, &i32)| end as usize == at + 1;
        let is_double = input.dtype == DataType::Float64;
        let has_weights =
            !is_double && op.count == 1 && leaves[0] == 0 && leaves[1..].iter().enumerate().all(is_single);
        let mut numbers = Buffer::zeroed((leaves.len() - 1) * size_of::<u32>())?;
        let weights = elements::<u32>(operands[5].bytes());
        let list = elements_mut::<u32>(numbers.bytes_mut());
        list.iter_mut()
            .enumerate()
            .for_each(|(at, number)| *number = if has_weights { weights[at] } else { at as u32 });
        let given = Given {
            thresholds: match is_double {
                true => Thresholds::Doubles(elements(operands[0].bytes())),
                false => Thresholds::Floats(elements(operands[0].bytes())),
            },
            branches: ints(1).as_chunks().0,
            roots: ints(2),
            leaves: elements(numbers.bytes()),
            width: sizes[1] as usize,
        };
        let trees = Trees::pack(&given)?.ok_or_else(damaged)?;
        Ok(TreeEnsembleStep { op: op.clone(), dtype: input.dtype, rows: sizes[0] as usize, trees, has_weights })
    }

    /// The operands that the step does not read from memory.
    pub fn packed_operands(&self) -> Range<usize> {
        1..if self.has_weights { 7 } else { 4 }
    }

    /// Adapts the step to another number of rows; returns `false` if the number of features is another one.
    pub fn resize(&mut self, input: &Descriptor) -> bool {
        let sizes = input.sizes();
        self.rows = sizes[0] as usize;
        self.trees.width() == sizes[1] as usize
    }

    /// Whether the threads share the trees of each row, not the rows.
    fn shares_trees(&self, threads: &Threads) -> bool {
        self.rows < threads.count() && threads.useful(COST * self.trees.levels()) > 1
    }

    fn by_trees<T: Number>(&self, env: &Env, x: &[T], votes: &Votes<T>, scratch: &mut [f64], out: &mut [T]) {
        let (count, width) = (self.trees.count(), self.trees.width());
        let (numbers, sums) = scratch.split_at_mut(count);
        let sums = &mut sums[..self.op.count as usize];
        let cost = COST * self.trees.levels().div_ceil(count);
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(sums.len())) {
            for_each_chunk(env.threads, &mut *numbers, 1, 1, cost, |first, part| {
                let count = part.len();
                self.trees.of_row(x, first, count, |tree, leaf| part[tree - first] = f64::from(leaf));
            });
            votes.begin(sums);
            numbers.iter().for_each(|&leaf| votes.add(leaf as u32, sums));
            votes.finish(sums, out);
        }
    }

    fn by_rows<T: Number>(&self, env: &Env, x: &[T], votes: &Votes<T>, scratch: &mut [f64], out: &mut [T]) {
        let (width, count) = (self.trees.width(), self.op.count as usize);
        let cost = COST * self.trees.levels();
        for_each_chunk_with(env.threads, out, count, 1, cost, scratch, |first, out, scratch| {
            for (block, out) in out.chunks_mut(BLOCK * count).enumerate() {
                let (start, rows) = (first + block * BLOCK, out.len() / count);
                let sums = &mut scratch[..out.len()];
                votes.begin(sums);
                let x = &x[start * width..][..rows * width];
                match votes.are_terms() {
                    true => self.trees.of_rows(x, |row, leaf| sums[row] += f64::from(f32::from_bits(leaf))),
                    false => self.trees.of_rows(x, |row, leaf| votes.add(leaf, &mut sums[row * count..][..count])),
                }
                votes.finish(sums, out);
            }
        });
    }
}

/// The type of features, weights and outputs.
trait Number: Feature + Float {}

impl<T: Feature + Float> Number for T {}

/// What leaves add to the sums of a row.
struct Votes<'a, T> {
    aggregate: Aggregate,
    /// What a target has without a vote.
    absent: f64,
    /// Whether the place of a sum is NaN before the first vote, not 0.
    is_open: bool,
    divisor: f64,
    /// Where the votes of leaves begin, their targets and weights; `None` if the number of a leaf is its weight.
    lists: Option<(&'a [i32], &'a [i32], &'a [T])>,
}

impl<T: Number> Votes<'_, T> {
    fn begin(&self, sums: &mut [f64]) {
        sums.fill(if self.is_open { f64::NAN } else { 0.0 });
    }

    /// Whether the numbers of leaves are the terms of a sum.
    fn are_terms(&self) -> bool {
        self.lists.is_none() && !self.is_open
    }

    #[inline(always)]
    fn add(&self, leaf: u32, sums: &mut [f64]) {
        match self.lists {
            None => self.combine(&mut sums[0], f64::from(f32::from_bits(leaf))),
            Some((starts, targets, weights)) => {
                let own = starts[leaf as usize] as usize..starts[leaf as usize + 1] as usize;
                for (&target, &weight) in targets[own.clone()].iter().zip(&weights[own]) {
                    self.combine(&mut sums[target as usize], weight.into());
                }
            }
        }
    }

    #[inline(always)]
    fn combine(&self, sum: &mut f64, weight: f64) {
        *sum = if self.is_open && sum.is_nan() { weight } else { self.aggregate.combine(*sum, weight) };
    }

    fn finish(&self, sums: &[f64], out: &mut [T]) {
        for (&sum, out) in sums.iter().zip(out) {
            *out = T::nearest(if self.is_open && sum.is_nan() { self.absent } else { sum / self.divisor });
        }
    }
}

impl Run for TreeEnsembleStep {
    fn kernel(&self) -> &'static str {
        if self.has_weights { "treeEnsemble" } else { "treeEnsemble of votes" }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        match self.dtype {
            DataType::Float64 => self.run_as::<f64>(env, io),
            _ => self.run_as::<f32>(env, io),
        }
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        vec![self.trees.packed()]
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        let count = self.op.count as usize;
        (threads * BLOCK * count).max(self.trees.count() + count) * size_of::<f64>()
    }
}

impl TreeEnsembleStep {
    fn run_as<T: Number>(&self, env: &Env, io: &mut Io) {
        let (x, op) = (io.input::<T>(0), &self.op);
        let lists = (!self.has_weights).then(|| (io.input(4), io.input(5), io.input(6)));
        let is_average = op.aggregate == Aggregate::Average;
        let is_sum = is_average || op.aggregate == Aggregate::Sum;
        let votes = Votes {
            aggregate: op.aggregate,
            absent: if op.marks_absent { f64::NAN } else { 0.0 },
            is_open: !is_sum || op.marks_absent,
            divisor: if is_average { self.trees.count() as f64 } else { 1.0 },
            lists,
        };
        let (out, scratch) = (io.output(), io.scratch_f64());
        match self.shares_trees(env.threads) {
            true => self.by_trees(env, x, &votes, scratch, out),
            false => self.by_rows(env, x, &votes, scratch, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;
    use crate::ir::{Builder, Graph};
    use crate::memory::bytes_of;
    use crate::ops::Extension;
    use crate::ops::attributes::Attributes;
    use crate::shape::Descriptor;
    use crate::testing::{Random, Tolerance, check_with};
    use std::collections::HashMap;

    /// The operands of `treeEnsemble` behind the input.
    #[derive(Default)]
    struct Lists {
        thresholds: Vec<f32>,
        branches: Vec<[i32; 4]>,
        roots: Vec<i32>,
        leaves: Vec<i32>,
        targets: Vec<i32>,
        weights: Vec<f32>,
    }

    impl Lists {
        /// Random trees of up to `depth` levels, for this number of features and targets; a leaf has `votes` votes.
        fn random(random: &mut Random, trees: u32, depth: u32, [width, count, votes]: [i32; 3]) -> Lists {
            let mut lists = Lists { leaves: vec![0], ..Lists::default() };
            for _ in 0..trees {
                let root = lists.grow(random, depth, [width, count, votes]);
                lists.roots.push(root);
            }
            if lists.branches.is_empty() {
                lists.thresholds.push(0.0);
                lists.branches.push([0, -1, -1, 0]);
            }
            lists
        }

        fn grow(&mut self, random: &mut Random, depth: u32, sizes: [i32; 3]) -> i32 {
            let [width, count, votes] = sizes;
            let below = |random: &mut Random, most: i32| (random.uniform() * f64::from(most)) as i32;
            if depth == 0 || random.uniform() < 0.15 {
                for _ in 0..votes {
                    self.targets.push(below(random, count));
                    self.weights.push(random.uniform() as f32 - 0.5);
                }
                self.leaves.push(self.targets.len() as i32);
                return 1 - self.leaves.len() as i32;
            }
            let own = self.branches.len();
            self.thresholds.push((random.uniform() * 4.0 - 2.0) as f32);
            self.branches.push([below(random, width), 0, 0, below(random, 2)]);
            for side in [1, 2] {
                self.branches[own][side] = self.grow(random, depth - 1, sizes);
            }
            own as i32
        }

        fn graph(&self, dtype: DataType, [rows, width]: [u32; 2], attributes: &str) -> Graph {
            let mut builder = Builder::new();
            let x = builder.input("x", Descriptor::new(dtype, [rows, width])).unwrap();
            let mut operands = vec![Some(x)];
            let mut add = |dtype: DataType, shape: &[usize], bytes: &[u8]| {
                let shape: Vec<u32> = shape.iter().map(|&size| size as u32).collect();
                operands.push(Some(builder.constant(Descriptor::new(dtype, shape), bytes).unwrap()));
            };
            let floats = |list: &[f32]| match dtype {
                // Thresholds and weights that are no float32.
                DataType::Float64 => bytes_of(&list.iter().map(|&x| f64::from(x) * 1.1).collect::<Vec<_>>()).to_vec(),
                _ => bytes_of(list).to_vec(),
            };
            let ints = |list: &[i32]| bytes_of(list).to_vec();
            add(dtype, &[self.thresholds.len()], &floats(&self.thresholds));
            add(DataType::Int32, &[self.branches.len(), 4], &ints(self.branches.as_flattened()));
            add(DataType::Int32, &[self.roots.len()], &ints(&self.roots));
            add(DataType::Int32, &[self.leaves.len()], &ints(&self.leaves));
            add(DataType::Int32, &[self.targets.len()], &ints(&self.targets));
            add(dtype, &[self.weights.len()], &floats(&self.weights));
            let op = Extension::read("treeEnsemble", Attributes::parse(attributes)).unwrap();
            let outputs = builder.add_operation(op.into(), operands, String::new()).unwrap();
            builder.finish(vec![("y".to_string(), outputs[0])])
        }
    }

    /// Checks random trees on numbers, some of which are NaN or infinite.
    fn check_trees(rows: u32, trees: u32, depth: u32, [width, count, votes]: [i32; 3], attributes: &str) {
        for dtype in [DataType::Float32, DataType::Float64] {
            check_trees_of(dtype, rows, trees, depth, [width, count, votes], attributes);
        }
    }

    fn check_trees_of(
        dtype: DataType,
        rows: u32,
        trees: u32,
        depth: u32,
        [width, count, votes]: [i32; 3],
        attributes: &str,
    ) {
        let mut random = Random::new(u64::from(rows * 1000 + trees));
        let lists = Lists::random(&mut random, trees, depth, [width, count, votes]);
        let graph = lists.graph(dtype, [rows, width as u32], &format!("count={count} {attributes}"));
        let descriptor = graph.descriptor(graph.inputs[0].1);
        let x = crate::ops::tensor::Tensor::from_fn(descriptor, |_| {
            let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            let x = special.get((random.uniform() * 20.0) as usize).copied();
            x.unwrap_or_else(|| random.uniform() * 5.0 - 2.5).into()
        });
        let x = x.rounded();
        // Sums are rounded once; those of float64 at each term, in the order of the oracle.
        check_with(&graph, &HashMap::from([("x".to_string(), x)]), Tolerance::ulps(1));
    }

    #[test]
    fn rows_and_trees_around_the_number_of_lanes() {
        for rows in [1, 2, 7, 8, 9, 63, 64, 65, 200] {
            check_trees(rows, 5, 6, [4, 1, 1], "");
            check_trees(rows, 5, 6, [4, 3, 2], "");
        }
        for trees in [1, 7, 8, 9, 17] {
            check_trees(3, trees, 5, [4, 1, 1], "");
            check_trees(1, trees, 0, [4, 1, 1], "");
        }
    }

    #[test]
    fn every_aggregate() {
        for aggregate in ["sum", "average", "min", "max"] {
            for marks in ["", "marksAbsent=true"] {
                let attributes = format!("aggregate={aggregate} {marks}");
                check_trees(20, 4, 4, [3, 1, 1], &attributes);
                check_trees(20, 2, 4, [3, 6, 1], &attributes);
                check_trees(20, 2, 4, [3, 2, 3], &attributes);
            }
        }
    }

    #[test]
    fn threads_share_the_trees_of_few_rows() {
        // Enough work for several threads.
        check_trees(1, 900, 6, [4, 1, 1], "");
        check_trees(3, 900, 6, [4, 2, 1], "aggregate=max");
    }
}
