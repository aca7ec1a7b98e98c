//! `pairwiseCoupling`.

use super::{Env, Run};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk_with;
use crate::ops::extension::pairwise_coupling::PairwiseCoupling;

/// The cost of an element of a matrix of classes, in some ten rounds.
const COST: usize = 160;

/// A compiled coupling of probabilities.
pub struct PairwiseCouplingStep(pub PairwiseCoupling);

impl Run for PairwiseCouplingStep {
    fn kernel(&self) -> &'static str {
        "pairwiseCoupling"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (x, out, scratch) = (io.input::<f32>(0), io.output::<f32>(), io.scratch_f64());
        let (count, pairs) = (self.0.classes as usize, self.0.pairs() as usize);
        for_each_chunk_with(env.threads, out, count, 1, COST * count * count, scratch, |first, out, scratch| {
            let (p, scratch) = scratch.split_at_mut(count);
            for (row, out) in (first..).zip(out.chunks_exact_mut(count)) {
                let own = &x[row * pairs..][..pairs];
                self.0.couple(own.iter().copied().map(f64::from), p, &mut scratch[..self.0.scratch()]);
                out.iter_mut().zip(&*p).for_each(|(out, &p)| *out = p as f32);
            }
        });
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        threads * (self.0.classes as usize + self.0.scratch()) * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::shape::Descriptor;
    use crate::testing::{Random, Tolerance, check_with};
    use std::collections::HashMap;

    #[test]
    fn rows_of_few_and_many_classes() {
        for (rows, classes) in [(1, 2), (3, 3), (70, 10), (2, 40)] {
            let pairs = classes * (classes - 1) / 2;
            let graph = parse(&format!(
                "%0 = input x float32 [{rows}, {pairs}]\n%1 = pairwiseCoupling %0 classes={classes}\noutput y = %1"
            ));
            let descriptor: &Descriptor = graph.descriptor(graph.inputs[0].1);
            let x = Random::new(classes).tensor_in(descriptor, 0.001, 0.999);
            check_with(&graph, &HashMap::from([("x".to_string(), x)]), Tolerance::ulps(1));
        }
    }
}
