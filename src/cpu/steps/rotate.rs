//! `rotate`.

use super::{Env, Run};
use crate::cpu::kernels::rotate::Rotate as Kernel;
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::ops::extension::rotate::Rotate;
use crate::shape::{Descriptor, broadcast_strides};

/// The cost of an element.
const COST: usize = 8;

/// A compiled rotation of features.
pub struct RotateStep {
    width: usize,
    pairs: usize,
    /// The dimensions of the rows, and the distances of their cosines in rows.
    places: [(usize, usize); 3],
    interleaved: bool,
}

impl RotateStep {
    /// Creates the rotation `op` of `input` by `cos` and sines of the same shape.
    pub fn new(op: &Rotate, input: &Descriptor, cos: &Descriptor) -> RotateStep {
        let (sizes, angles) = (input.sizes(), cos.sizes());
        let strides = broadcast_strides(&angles[..3], &sizes[..3]);
        let places = [0, 1, 2].map(|axis| (sizes[axis] as usize, strides[axis]));
        RotateStep { width: sizes[3] as usize, pairs: angles[3] as usize, places, interleaved: op.interleaved }
    }
}

impl Run for RotateStep {
    fn kernel(&self) -> &'static str {
        "rotate"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (x, cos, sin, out) = (io.input::<f32>(0), io.input(1), io.input(2), io.output::<f32>());
        let &RotateStep { width, pairs, places, interleaved } = self;
        for_each_chunk(env.threads, out, width, 1, COST * width, |first, out| {
            let x = &x[first * width..][..out.len()];
            env.isa.run(Kernel { x, out, width, first, cos, sin, pairs, places, interleaved });
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::{Graph, parse};
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    fn graph(dtype: &str, shape: &[u32], angles: &[u32], interleaved: bool) -> Graph {
        parse(&format!(
            "%0 = input x {dtype} {shape:?}\n%1 = input c {dtype} {angles:?}\n%2 = input s {dtype} {angles:?}\n\
             %3 = rotate %0 %1 %2 interleaved={interleaved}\noutput y = %3"
        ))
    }

    /// Two products of up to 16 can cancel.
    fn tolerance(dtype: &str) -> Tolerance {
        if dtype == "float16" { Tolerance::ulps(1).or_absolute(4e-6) } else { Tolerance::ulps(2).or_absolute(4e-6) }
    }

    #[test]
    fn sizes_at_the_edges() {
        for dtype in ["float32", "float16"] {
            for interleaved in [false, true] {
                for pairs in [1, 2, 7, 8, 15, 16, 17, 32, 64] {
                    check(&graph(dtype, &[2, 3, 5, 2 * pairs], &[1, 1, 5, pairs], interleaved), tolerance(dtype));
                    check(&graph(dtype, &[2, 5, 3, 2 * pairs + 3], &[2, 5, 1, pairs], interleaved), tolerance(dtype));
                }
                check(&graph(dtype, &[1, 128, 12, 64], &[1, 128, 1, 32], interleaved), tolerance(dtype));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_shapes(dims in prop::array::uniform3(1u32..6), mask in 0u32..8, pairs in 1u32..40, more in 0u32..5, interleaved: bool) {
            let kept = |axis: usize| if mask >> axis & 1 == 0 { dims[axis] } else { 1 };
            let (shape, angles) = ([dims[0], dims[1], dims[2], 2 * pairs + more], [kept(0), kept(1), kept(2), pairs]);
            check(&graph("float32", &shape, &angles, interleaved), tolerance("float32"));
        }
    }
}
