//! `col2im`.

use super::{Env, Run};
use crate::cpu::kernels::blocks::AddBlocks;
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::ops::extension::col2im::Col2Im;

/// Compiled sums of blocks.
pub struct Col2ImStep(pub Col2Im);

impl Run for Col2ImStep {
    fn kernel(&self) -> &'static str {
        "col2im"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (input, op) = (io.input::<f32>(0), &self.0);
        let area = |sizes: [u32; 2]| sizes[0] as usize * sizes[1] as usize;
        let (plane, columns) = (area(op.image), area(op.block) * area(op.counts));
        for_each_chunk(env.threads, io.output(), plane, 1, columns + plane, |first, out| {
            for (channel, out) in (first..).zip(out.chunks_exact_mut(plane)) {
                env.isa.run(AddBlocks { op, columns: &input[channel * columns..][..columns], out });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    /// Blocks as far as they fit into an image of this size with padding around it.
    fn check_op(dtype: &str, channels: u32, image: [u32; 2], [block, strides, dilations, padding]: [[u32; 2]; 4]) {
        let count = |at: usize| {
            let reach = (block[at] - 1) * dilations[at] + 1;
            (image[at] + 2 * padding[at]).checked_sub(reach).map(|room| room / strides[at] + 1)
        };
        let (Some(rows), Some(columns)) = (count(0), count(1)) else { return };
        let shape = [2, channels * block[0] * block[1], rows * columns];
        let graph = parse(&format!(
            "%0 = input x {dtype} {shape:?}\n%1 = col2im %0 image={image:?} block={block:?} strides={strides:?} \
             dilations={dilations:?} padding={padding:?} counts=[{rows}, {columns}]\noutput y = %1"
        ));
        // Sums of at most 25 numbers below 4.
        check(&graph, Tolerance::ulps(4).or_absolute(2e-5));
    }

    #[test]
    fn blocks_of_every_kind() {
        let square = |size: u32| [size, size];
        for image in [[1, 1], [5, 7], [20, 33]] {
            for block in [[1, 1], [3, 3], [2, 5], [4, 1]] {
                for stride in 1..4 {
                    for dilation in 1..3 {
                        for padding in 0..3 {
                            check_op("float32", 3, image, [block, square(stride), square(dilation), square(padding)]);
                        }
                    }
                }
            }
        }
        check_op("float16", 2, [9, 9], [[3, 3], [2, 2], [1, 1], [1, 1]]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_blocks(
            image in prop::array::uniform2(1u32..20),
            [block, strides, dilations] in prop::array::uniform3(prop::array::uniform2(1u32..5)),
            padding in prop::array::uniform2(0u32..4),
        ) {
            check_op("float32", 2, image, [block, strides, dilations, padding]);
        }
    }
}
