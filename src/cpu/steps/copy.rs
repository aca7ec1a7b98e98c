//! Steps that copy elements between two layouts: `reshape`, `expand`, `slice`, `split`, `concat`, `transpose`,
//! `reverse`, `tile` and `pad` with a constant.

use super::{Env, Run};
use crate::cpu::kernels::copy::StridedCopy;
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::dtype::{Element, Number};
use crate::memory::{bytes_of, elements};
use crate::ops::concat::Concat;
use crate::ops::pad::Pad;
use crate::ops::split::Split;
use crate::ops::strided::Strided;
use crate::shape::Descriptor;
use crate::with_storage;

/// Minimum elements of one range of a fill.
const FILL_GRAIN: usize = 4096;

/// Copies from the operands to the outputs.
pub struct CopyStep {
    /// Bytes per element.
    size: usize,
    outputs: Vec<Output>,
}

/// The writes to one output, in this order.
struct Output {
    /// The lowest bits of the value that all elements are filled with first.
    fill: Option<u64>,
    /// Copies, each from the operand at the given index.
    copies: Vec<(usize, StridedCopy)>,
}

impl CopyStep {
    /// Creates a step that copies the elements of operand 0 at `source` to its only output, `output`.
    pub fn new(source: &Strided, output: &Descriptor) -> CopyStep {
        CopyStep { size: output.dtype.size(), outputs: vec![Output::whole(source)] }
    }

    /// Creates a step that copies all elements of operand 0 in order.
    pub fn contiguous(output: &Descriptor) -> CopyStep {
        CopyStep::new(&Strided::row_major(&output.sizes()), output)
    }

    /// Creates the step for `split()` of `input`.
    pub fn split(op: &Split, input: &Descriptor) -> CopyStep {
        let outputs = op.strided(&input.sizes()).iter().map(Output::whole).collect();
        CopyStep { size: input.dtype.size(), outputs }
    }

    /// Creates the step for `concat()` of operands with these shapes.
    pub fn concat(op: &Concat, inputs: &[&[u32]], output: &Descriptor) -> CopyStep {
        let places = op.strided(inputs).into_iter().zip(inputs);
        let copies = places.map(|(place, shape)| StridedCopy::new(&Strided::row_major(shape), &place));
        let copies = copies.enumerate().collect();
        CopyStep { size: output.dtype.size(), outputs: vec![Output { fill: None, copies }] }
    }

    /// The same step for operands whose indices are larger by `by`.
    pub fn shifted(mut self, by: usize) -> CopyStep {
        self.outputs.iter_mut().flat_map(|output| &mut output.copies).for_each(|(operand, _)| *operand += by);
        self
    }

    /// Creates the step for `pad()` of `input` with a constant.
    pub fn pad(op: &Pad, input: &Descriptor, output: &Descriptor) -> CopyStep {
        let copy = StridedCopy::new(&Strided::row_major(&input.sizes()), &op.strided(&input.sizes(), &output.sizes()));
        let fill = (input.shape != output.shape).then(|| low_bits(op.value, output));
        CopyStep { size: output.dtype.size(), outputs: vec![Output { fill, copies: vec![(0, copy)] }] }
    }

    fn run_as<T: Element>(&self, env: &Env, io: &mut Io) {
        for output in &self.outputs {
            let out = io.output::<T>();
            if let Some(bits) = output.fill {
                let value = elements::<T>(bytes_of(&[bits]))[0];
                for_each_chunk(env.threads, out, 1, FILL_GRAIN, 1, |_, part| part.fill(value));
            }
            for (input, copy) in &output.copies {
                let blocks = copy.blocks(env.isa, io.input::<T>(*input), out);
                env.threads.split(blocks.count(), 1, blocks.cost(), |range| blocks.copy_next(range.len()));
            }
        }
    }
}

impl Output {
    /// Copies all elements that operand 0 has at `source`.
    fn whole(source: &Strided) -> Output {
        let copy = StridedCopy::new(source, &Strided::row_major(&source.shape));
        Output { fill: None, copies: vec![(0, copy)] }
    }
}

/// The bits of `value` as an element of `descriptor`.
fn low_bits(value: Number, descriptor: &Descriptor) -> u64 {
    let bytes = value.to_bytes(descriptor.dtype);
    bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | byte as u64)
}

impl Run for CopyStep {
    fn kernel(&self) -> &'static str {
        "copy"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_storage!(self.size, T => self.run_as::<T>(env, io))
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;
    use crate::ir::parse;
    use crate::testing::{Random, Tolerance, check};
    use proptest::prelude::*;

    /// Checks one operator on an input of each data type.
    fn check_types(shape: &[u32], op: &str) {
        for dtype in DataType::OF_VALUES {
            check_op(dtype, shape, op);
        }
    }

    fn check_op(dtype: DataType, shape: &[u32], op: &str) {
        let (name, attributes) = op.split_once(' ').unwrap_or((op, ""));
        let text = format!("%0 = input x {dtype} {shape:?}\n%1 = {name} %0 {attributes}\noutput y = %1");
        check(&parse(&text), Tolerance::EXACT);
    }

    #[test]
    fn every_operator_on_every_type() {
        check_types(&[2, 3, 4], "reshape newShape=[4, 6]");
        check_types(&[3, 1], "expand newShape=[2, 3, 5]");
        check_types(&[4, 9], "slice starts=[1, 2] sizes=[3, 6] strides=[2, 4]");
        check_types(&[3, 4, 5], "transpose");
        check_types(&[3, 4, 5], "reverse axes=[0, 2]");
        check_types(&[2, 3], "tile repetitions=[3, 2]");
        check_types(&[2, 3], "pad beginningPadding=[1, 0] endingPadding=[0, 2] value=1.5");
    }

    #[test]
    fn scalars() {
        check_types(&[], "reshape newShape=[1, 1]");
        check_types(&[], "expand newShape=[3]");
        check_types(&[], "slice starts=[] sizes=[]");
        check_types(&[], "transpose");
        check_types(&[], "reverse");
        check_types(&[], "tile repetitions=[]");
        check_types(&[], "pad beginningPadding=[] endingPadding=[]");
    }

    #[test]
    fn sizes_that_are_worth_threads() {
        let float = |shape: &[u32], op| check_op(DataType::Float32, shape, op);
        float(&[600, 300], "transpose");
        float(&[8, 128, 4, 32], "transpose permutation=[0, 2, 1, 3]");
        float(&[300, 500], "slice starts=[1, 3] sizes=[299, 497] strides=[1, 2]");
        float(&[300, 500], "reverse axes=[1]");
        float(&[1, 400], "expand newShape=[500, 400]");
        float(&[400, 1], "expand newShape=[400, 500]");
        float(&[20, 30], "tile repetitions=[20, 15]");
        float(&[400, 500], "pad beginningPadding=[1, 3] endingPadding=[2, 1] value=-7");
        float(&[150000], "reshape newShape=[300, 500]");
    }

    #[test]
    fn padding_values_are_cast() {
        for (dtype, value) in [
            (DataType::Float16, "65520"),
            (DataType::Uint8, "300"),
            (DataType::Int8, "-2.5"),
            (DataType::Int64, "-9223372036854775808"),
            (DataType::Uint64, "18446744073709551615"),
            (DataType::Float32, "-inf"),
        ] {
            check_op(dtype, &[2], &format!("pad beginningPadding=[1] endingPadding=[1] value={value}"));
        }
    }

    #[test]
    fn splits_and_concatenations() {
        for (shape, axis) in [([4, 6], 1), ([6, 4], 0), ([300, 600], 1)] {
            for splits in ["2", "[1, 2, 3]"] {
                let splits = splits.replace("3]", &format!("{}]", shape[axis] - 3));
                let text = format!("%0 = input x int8 {shape:?}\nOUT = split %0 splits={splits} axis={axis}\n");
                let (outs, ends) = match splits.starts_with('[') {
                    false => ("%1, %2", "output a = %1\noutput b = %2"),
                    true => ("%1, %2, %3", "output a = %1\noutput b = %2\noutput c = %3"),
                };
                check(&parse(&(text.replace("OUT", outs) + ends)), Tolerance::EXACT);
            }
        }
        for (shapes, axis) in [(["[2, 3]", "[2, 1]", "[2, 5]"], 1), (["[1]", "[7]", "[2]"], 0)] {
            let [a, b, c] = shapes;
            for dtype in DataType::OF_VALUES {
                let text = format!(
                    "%0 = input a {dtype} {a}\n%1 = input b {dtype} {b}\n%2 = input c {dtype} {c}\n\
                     %3 = concat %0 %1 %2 axis={axis}\n%4 = concat %1 axis={axis}\n%5 = concat %2 %2 axis={axis}\n\
                     output x = %3\noutput y = %4\noutput z = %5"
                );
                check(&parse(&text), Tolerance::EXACT);
            }
        }
    }

    #[test]
    fn a_thousand_tensors() {
        let names: Vec<String> = (1..=1000).map(|i| format!("%{i}")).collect();
        let text = format!(
            "%0 = input x uint8 [1000, 3]\n{} = split %0 splits=1000\n%y = concat {} axis=1\noutput y = %y",
            names.join(", "),
            names.join(" ")
        );
        check(&parse(&text), Tolerance::EXACT);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn random_shapes(shape in prop::collection::vec(1u32..7, 1..5), seed: u64) {
            let mut random = Random::new(seed);
            let mut pick = |n: usize| (random.next() % n as u64) as u32;
            let rank = shape.len();
            let dtype = DataType::OF_VALUES[pick(9) as usize];
            let op = match pick(6) {
                0 => {
                    let mut permutation: Vec<u32> = (0..rank as u32).collect();
                    permutation.sort_by_key(|_| pick(1000));
                    format!("transpose permutation={permutation:?}")
                }
                1 => {
                    let starts: Vec<u32> = shape.iter().map(|&dim| pick(dim as usize)).collect();
                    let sizes: Vec<u32> =
                        shape.iter().zip(&starts).map(|(&dim, &start)| 1 + pick((dim - start) as usize)).collect();
                    let strides: Vec<u32> = shape.iter().map(|_| 1 + pick(3)).collect();
                    format!("slice starts={starts:?} sizes={sizes:?} strides={strides:?}")
                }
                2 => {
                    let axes: Vec<u32> = (0..rank as u32).filter(|_| pick(2) == 0).collect();
                    format!("reverse axes={axes:?}")
                }
                3 => {
                    let repetitions: Vec<u32> = shape.iter().map(|_| 1 + pick(3)).collect();
                    format!("tile repetitions={repetitions:?}")
                }
                4 => {
                    let padding = [0, 1].map(|_| shape.iter().map(|_| pick(4)).collect::<Vec<u32>>());
                    format!("pad beginningPadding={:?} endingPadding={:?} value=3", padding[0], padding[1])
                }
                _ => {
                    let mut new_shape: Vec<u32> =
                        shape.iter().map(|&dim| if dim == 1 { 1 + pick(4) } else { dim }).collect();
                    new_shape.insert(0, 1 + pick(3));
                    format!("expand newShape={new_shape:?}")
                }
            };
            check_op(dtype, &shape, &op);
        }

        #[test]
        fn random_concatenations(shape in prop::collection::vec(1u32..6, 1..5), sizes in prop::collection::vec(1u32..6, 1..5), seed: u64) {
            let mut random = Random::new(seed);
            let axis = (random.next() % shape.len() as u64) as usize;
            let dtype = DataType::OF_VALUES[(random.next() % 9) as usize];
            let mut text = String::new();
            for (i, &size) in sizes.iter().enumerate() {
                let mut shape = shape.clone();
                shape[axis] = size;
                text += &format!("%{i} = input i{i} {dtype} {shape:?}\n");
            }
            let inputs: Vec<String> = (0..sizes.len()).map(|i| format!("%{i}")).collect();
            let outputs: Vec<String> = (0..sizes.len()).map(|i| format!("%o{i}")).collect();
            text += &format!("%c = concat {} axis={axis}\noutput c = %c\n", inputs.join(" "));
            text += &format!("{} = split %c splits={sizes:?} axis={axis}\n", outputs.join(", "));
            for i in 0..sizes.len() {
                text += &format!("output o{i} = %o{i}\n");
            }
            check(&parse(&text), Tolerance::EXACT);
        }
    }
}
