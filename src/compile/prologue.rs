//! Prologues: element-wise operators with a single reader become part of it, and their result is never written to
//! memory. Weights stored in few bits stay that way: every reader dequantizes them while it reads.

use super::fuse::program;
use super::{Reads, Target};
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::{Graph, Node, Prologue, Source, Storage, ValueId, is_cheap};
use crate::ops::fused::Fused;
use crate::ops::{Api, Op};
use crate::shape::Descriptor;
use std::collections::{HashMap, HashSet};

/// Maximum number of instructions of a program that runs again for each reader of an element.
const MAX_CHEAP: usize = 4;

/// Maximum number of reshapes between an operand and its producer.
const MAX_RESHAPES: usize = 8;

/// Whether reading the operands of `producer` instead of its result reads fewer bytes and costs little computation.
fn saves_bytes(graph: &Graph, producer: &Node, program: &Fused) -> bool {
    let bytes = |id: &ValueId| graph.descriptor(*id).count() * graph.descriptor(*id).dtype.size() as u32;
    let operands: Dim = producer.inputs.iter().flatten().map(bytes).sum();
    operands < bytes(&producer.outputs[0])
        && program.instructions.len() <= MAX_CHEAP
        && program.instructions.iter().all(|instruction| is_cheap(instruction.op))
}

/// The producer of an operand, past reshapes.
struct FoundPrologue {
    /// The element-wise node.
    producer: usize,
    /// The program that computes one element.
    program: Fused,
    /// Whether all of its operands are constants: several readers may then compute it.
    known: bool,
    /// The values on the way from the operand back to the node's output.
    way: Vec<ValueId>,
}

impl FoundPrologue {
    fn of(graph: &Graph, producers: &[Option<usize>], known: &[bool], operand: ValueId) -> Option<FoundPrologue> {
        let mut way = vec![operand];
        while way.len() <= MAX_RESHAPES {
            let index = producers[way[way.len() - 1].index()]?;
            let node = &graph.nodes[index];
            if let Api(Op::Reshape(_)) = node.op {
                way.push(node.inputs[0]?);
                continue;
            }
            let program = program(graph, node).or_else(|| blockwise(graph, node))?;
            let known = node.inputs.iter().flatten().all(|id| known[id.index()]);
            return Some(FoundPrologue { producer: index, program, known, way });
        }
        None
    }

    /// Whether a kernel that reads its operand this often can compute the prologue.
    fn fits(&self, graph: &Graph, reads: Reads) -> bool {
        match reads {
            Reads::Once => true,
            Reads::Often => saves_bytes(graph, &graph.nodes[self.producer], &self.program),
            Reads::Never => false,
        }
    }
}

/// The program of `quantizeLinear()` or `dequantizeLinear()` with blocks.
fn blockwise(graph: &Graph, node: &Node) -> Option<Fused> {
    let Api(Op::Quantize(op)) = &node.op else { return None };
    let types: Vec<_> = node.inputs.iter().flatten().map(|&id| graph.descriptor(id).dtype).collect();
    Some(Fused::single(op.elementwise(), &types))
}

/// For each value, whether it depends on constants only.
fn known_values(graph: &Graph) -> Vec<bool> {
    let mut known: Vec<bool> = graph.values.iter().map(|value| value.constant().is_some()).collect();
    for node in &graph.nodes {
        let all = node.reads().all(|id| known[id.index()]);
        node.outputs.iter().for_each(|id| known[id.index()] = all);
    }
    known
}

/// Values dequantized from constants of few bits. They must not be folded: all of their readers dequantize them.
pub fn weights(graph: &Graph, &Target { reads, .. }: &Target) -> HashSet<ValueId> {
    let (producers, known) = (graph.producers(), known_values(graph));
    // Whether all readers so far compute the value themselves; nodes are visited last to first.
    let mut computed = vec![true; graph.values.len()];
    graph.outputs.iter().for_each(|(_, id)| computed[id.index()] = false);
    let mut kept = HashSet::new();
    for node in graph.nodes.iter().rev() {
        node.epilogue.operands.iter().for_each(|id| computed[id.index()] = false);
        for (operand, id) in node.inputs.iter().enumerate().filter_map(|(index, id)| Some((index, (*id)?))) {
            let fits = || match &node.op {
                Api(Op::Reshape(_)) => computed[node.outputs[0].index()],
                op if reads(op, operand) == Reads::Never => false,
                _ => FoundPrologue::of(graph, &producers, &known, id).is_some_and(|found| {
                    found.known && saves_bytes(graph, &graph.nodes[found.producer], &found.program)
                }),
            };
            computed[id.index()] = computed[id.index()] && known[id.index()] && fits();
        }
    }
    for node in &graph.nodes {
        for (operand, id) in node.inputs.iter().enumerate().filter_map(|(index, id)| Some((index, (*id)?))) {
            if reads(&node.op, operand) != Reads::Never
                && let Some(found) = FoundPrologue::of(graph, &producers, &known, id)
                && found.way.iter().all(|id| computed[id.index()] && known[id.index()])
            {
                kept.extend(found.way);
            }
        }
    }
    kept
}

/// For each value, the number of tensors that a kernel reads in its place: the operands of the prologue, for weights that
/// its readers dequantize.
pub(super) fn operand_counts(graph: &Graph, target: &Target) -> Vec<usize> {
    let (producers, known) = (graph.producers(), known_values(graph));
    let mut counts = vec![1; graph.values.len()];
    for id in weights(graph, target) {
        if let Some(found) = FoundPrologue::of(graph, &producers, &known, id) {
            counts[id.index()] = found.program.inputs;
        }
    }
    counts
}

/// Moves element-wise nodes into their readers if they have a single reader or depend on constants only.
///
/// # Errors
/// An `UnknownError` if memory for packed constants runs out, an `OperationError` if a mapped one cannot be read.
pub fn fuse_prologues(graph: &mut Graph, target: &Target) -> Result<()> {
    let &Target { reads, operands, .. } = target;
    let (producers, known) = (graph.producers(), known_values(graph));
    let mut counts = operand_counts(graph, target);
    let mut uses = graph.use_counts();
    let mut packed = HashMap::new();
    for index in 0..graph.nodes.len() {
        let row = graph.nodes[index].inputs.len();
        for operand in 0..row {
            let node = &graph.nodes[index];
            let Some(id) = node.inputs[operand].filter(|_| reads(&node.op, operand) != Reads::Never) else { continue };
            let Some(found) = FoundPrologue::of(graph, &producers, &known, id) else { continue };
            let alone = found.way.iter().all(|id| uses[id.index()] == 1);
            let others = node.reads().map(|id| counts[id.index()]).sum::<usize>() - counts[id.index()];
            let (own, most) = (found.program.inputs, operands(&node.op));
            if !found.fits(graph, reads(&node.op, operand))
                || !(alone || found.known)
                || own > most.prologue
                || others + own > most.node
            {
                continue;
            }
            for id in &found.way {
                uses[id.index()] -= 1;
                if uses[id.index()] > 0 {
                    break;
                }
            }
            take(graph, index, operand, found, &mut packed)?;
            counts.resize(graph.values.len(), 1);
        }
    }
    graph.drop_unused();
    Ok(())
}

/// Makes `found` a prologue of the node at `index`.
fn take(
    graph: &mut Graph,
    index: usize,
    operand: usize,
    found: FoundPrologue,
    packed: &mut HashMap<ValueId, Option<ValueId>>,
) -> Result<()> {
    let origins: Vec<u32> = std::mem::take(&mut graph.nodes[found.producer].origins);
    let producer = graph.nodes[found.producer].clone();
    let descriptor = graph.descriptor(found.way[0]).clone();
    let shape = graph.descriptor(producer.outputs[0]).shape.clone();
    let mut operands = producer.inputs.into_iter().flatten();
    let mut first = operands.next().expect("a program has operands");
    let mut storage = Storage::Whole;
    // Numbers that only the first instruction reads can be packed, however often the kernel reads them.
    let reads_once = |instruction: &crate::ops::fused::Instruction| !instruction.operands.contains(&0);
    if found.known
        && graph.descriptor(first).shape == shape
        && found.program.instructions.iter().skip(1).all(reads_once)
        && let Some(nibbles) = nibbles(graph, first, packed)?
    {
        (first, storage) = (nibbles, Storage::Nibbles);
    }
    let node = &mut graph.nodes[index];
    node.absorb(origins);
    node.inputs[operand] = Some(first);
    let others = operands.collect();
    node.prologues.push(Prologue { operand, others, descriptor, shape, program: found.program, storage });
    Ok(())
}

/// The numbers of an 8-bit constant, packed two to a byte, if all fit into 4 bits. `packed` caches the results.
fn nibbles(graph: &mut Graph, id: ValueId, packed: &mut HashMap<ValueId, Option<ValueId>>) -> Result<Option<ValueId>> {
    if let Some(known) = packed.get(&id) {
        return Ok(*known);
    }
    let dtype = graph.descriptor(id).dtype;
    let fits = |byte: u8| match dtype {
        DataType::Int8 => (-8..8).contains(&(byte as i8)),
        _ => byte < 16,
    };
    let constant = match (&graph.value(id).source, dtype) {
        (Source::Constant(constant), DataType::Int8 | DataType::Uint8) => constant.buffer()?,
        _ => return Ok(None),
    };
    let all = constant.bytes();
    let found = match all.iter().all(|&byte| fits(byte)) {
        false => None,
        true => {
            let bytes = crate::nibbles::packed(all);
            Some(graph.add_constant(Descriptor::new(dtype, [bytes.len() as u32]), &bytes)?)
        }
    };
    packed.insert(id, found);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{Passes, optimize};
    use crate::ir::{Evaluator, parse};
    use crate::reference;
    use crate::testing::{GPU, Tolerance, check, check_pass, check_pass_changes_nothing};

    fn fuse(graph: &mut Graph) {
        fuse_prologues(graph, &GPU).unwrap();
    }

    #[test]
    fn dequantization_of_weights_moves_into_the_product_past_a_reshape() {
        check_pass(
            fuse,
            "%0 = input x float32 [2, 6]
             %1 = constant int8 [4, 2, 3]
             %2 = constant float32 [4, 2, 1]
             %3 = constant int8 [4, 2, 1]
             %4 = dequantizeLinear %1 %2 %3
             %5 = reshape %4 newShape=[4, 6]
             %6 = gemm %0 %5 bTranspose=true
             output y = %6",
            "%0 = input x float32 [2, 6]
             %1 = constant int8 [4, 2, 3]
             %2 = constant float32 [4, 2, 1]
             %3 = constant int8 [4, 2, 1]
             %4 = gemm %0 %1 _ %2 %3 bTranspose=true prologue=b:[dequantize(r0 r1 r2)]
             output y = %4",
        );
    }

    #[test]
    fn numbers_of_4_bits_are_packed() {
        check_pass(
            fuse,
            "%0 = input x float32 [2, 5]
             %1 = constant int8 [5, 3] -8 7 0 1 -1 2 -7
             %2 = constant float32 [1, 3]
             %3 = constant int8 [1, 3] -8 0 7
             %4 = dequantizeLinear %1 %2 %3
             %5 = matmul %0 %4
             output y = %5",
            "%0 = input x float32 [2, 5]
             %1 = constant int8 [8]
             %2 = constant float32 [1, 3]
             %3 = constant int8 [1, 3]
             %4 = matmul %0 %1 %2 %3 prologue=b of nibbles:[dequantize(r0 r1 r2)]
             output y = %4",
        );
    }

    #[test]
    fn an_embedding_that_is_also_a_product_operand_is_computed_by_both() {
        check_pass(
            fuse,
            "%0 = input x float32 [2, 6]
             %1 = input i uint32 [3]
             %2 = constant uint8 [5, 6]
             %3 = constant float32 [5, 1]
             %4 = constant uint8 [5, 1]
             %5 = dequantizeLinear %2 %3 %4
             %6 = gather %5 %1
             %7 = gemm %0 %5 bTranspose=true
             output y = %6
             output z = %7",
            "%0 = input x float32 [2, 6]
             %1 = input i uint32 [3]
             %2 = constant uint8 [5, 6]
             %3 = constant float32 [5, 1]
             %4 = constant uint8 [5, 1]
             %5 = gather %2 %1 %3 %4 prologue=input:[dequantize(r0 r1 r2)]
             %6 = gemm %0 %2 _ %3 %4 bTranspose=true prologue=b:[dequantize(r0 r1 r2)]
             output y = %5
             output z = %6",
        );
    }

    #[test]
    fn a_chain_moves_into_its_reader_and_stands_behind_an_epilogue() {
        check_pass(
            fuse,
            "%0 = input x float16 [4, 4]
             %1 = fused %0 program=[exp(r0), cast(r1) dataType=float32]
             %2 = softmax %1
             %3 = cast %0 dataType=float32
             %4 = matmul %3 %2 %2 epilogue=[add(r0 r1)]
             output y = %4",
            "%0 = input x float16 [4, 4]
             %1 = softmax %0 prologue=input:[exp(r0), cast(r1)]
             %2 = matmul %0 %1 %1 prologue=a:[cast(r0)] epilogue=[add(r0 r1)]
             output y = %2",
        );
    }

    #[test]
    fn costly_or_larger_operands_stay_in_front_of_a_reader_that_reads_them_often() {
        let text = "%0 = input x float32 [4, 4]
                    %1 = input z float16 [4, 4]
                    %2 = neg %0
                    %3 = cast %1
                    %4 = exp %3
                    %5 = matmul %2 %4
                    output y = %5";
        check_pass_changes_nothing(fuse, text);
    }

    #[test]
    fn values_with_other_readers_stay() {
        check_pass_changes_nothing(
            fuse,
            "%0 = input x float32 [4, 4]
             %1 = exp %0
             %2 = softmax %1 axis=1
             %3 = add %2 %1
             %4 = neg %0
             %5 = softmax %4
             output y = %3
             output z = %5
             output w = %4",
        );
    }

    /// Total size in bytes of all constants of the compiled graph.
    fn constants(text: &str) -> usize {
        let mut graph = parse(text);
        optimize(&mut graph, &GPU, Passes::ALL, &Evaluator::new(reference::evaluate)).expect("a graph");
        graph.values.iter().filter_map(|value| value.constant()).map(|constant| constant.len()).sum()
    }

    const QUANTIZED: &str = "%0 = input x float32 [3, 96]
                             %1 = constant int8 [160, 96]
                             %2 = constant float32 [160, 1]
                             %3 = constant int8 [160, 1]
                             %4 = dequantizeLinear %1 %2 %3\n";

    #[test]
    fn weights_stay_quantized_in_memory() {
        let bytes = 160 * 96 + 160 * 5;
        let product = |rest: &str| constants(&format!("{QUANTIZED}{rest}\noutput y = %9"));
        assert_eq!(product("%9 = gemm %0 %4 bTranspose=true"), bytes);
        assert_eq!(product("%5 = transpose %4\n%9 = matmul %0 %5"), bytes);
        assert_eq!(product("%5 = transpose %4\n%6 = relu %5\n%9 = matmul %0 %6"), 4 * 160 * 96);
        assert_eq!(product("%5 = gemm %0 %4 bTranspose=true\n%6 = exp %4\n%9 = gemm %5 %6"), 2 * 4 * 160 * 96);
        let nibbles = "%0 = input x float32 [3, 96]
                       %1 = constant uint8 [160, 3, 32] 0 15 8 7 3
                       %2 = constant float16 [160, 3, 1]
                       %3 = constant uint8 [160, 3, 1] 8
                       %4 = dequantizeLinear %1 %2 %3
                       %5 = reshape %4 newShape=[160, 96]
                       %6 = cast %0 dataType=float16
                       %7 = gemm %6 %5 bTranspose=true
                       output y = %7";
        assert_eq!(constants(nibbles), 160 * 96 / 2 + 160 * 3 * 3);
    }

    #[test]
    fn products_of_quantized_weights_agree_with_the_oracle() {
        let tolerance = Tolerance::ulps(16).or_absolute(2e-2);
        for rest in ["%9 = gemm %0 %4 bTranspose=true", "%5 = transpose %4\n%9 = matmul %0 %5"] {
            check(&parse(&format!("{QUANTIZED}{rest}\noutput y = %9")), tolerance);
        }
        for (rows, dtype, numbers) in [(1, "int8", "-8 7 0 1 -3"), (17, "uint8", "0 15 3 9 11"), (2, "uint8", "")] {
            let text = format!(
                "%0 = input x float32 [{rows}, 64]
                 %1 = constant {dtype} [70, 2, 32] {numbers}
                 %2 = constant float32 [70, 2, 1] 0.5 0.25 1
                 %3 = constant {dtype} [70, 2, 1] 7 0 1
                 %4 = dequantizeLinear %1 %2 %3
                 %5 = reshape %4 newShape=[70, 64]
                 %6 = gemm %0 %5 bTranspose=true
                 output y = %6"
            );
            check(&parse(&text), tolerance);
        }
    }

    #[test]
    fn other_kernels_with_prologues_agree_with_the_oracle() {
        let tolerance = Tolerance::ulps(8).or_absolute(1e-4);
        // Scales per row, per column, per block along both, and one for all.
        for scale in ["[6, 1]", "[1, 8]", "[3, 4]", "[1, 1]", "[6, 8]"] {
            let text = format!(
                "%0 = input x int8 [6, 8]
                 %1 = constant float32 {scale} 0.5 0.25 0.125
                 %2 = constant int8 {scale} 1 -2 3
                 %3 = dequantizeLinear %0 %1 %2
                 %4 = transpose %3
                 %5 = input i int32 [4]
                 %6 = constant uint8 [6, 8]
                 %7 = constant uint8 {scale} 1 2 3
                 %8 = dequantizeLinear %6 %1 %7
                 %9 = gather %8 %5 axis=1
                 output y = %4
                 output z = %9"
            );
            check(&parse(&text), tolerance);
        }
        check(
            &parse(
                "%0 = input x float32 [3, 4, 5]
                 %1 = input z float32 [3, 1, 5]
                 %2 = mul %0 %1
                 %3 = exp %2
                 %4 = softmax %3 axis=2
                 %5 = sub %0 %1
                 %6 = layerNormalization %5 axes=[2]
                 %7 = abs %5
                 %8 = reduceSum %7 axes=[0]
                 %9 = neg %0
                 %10 = cumulativeSum %9 axis=1
                 output a = %4
                 output b = %6
                 output c = %8
                 output d = %10",
            ),
            tolerance,
        );
    }

    #[test]
    fn filters_and_recurrent_weights_stay_quantized() {
        let tolerance = Tolerance::ulps(16).or_absolute(5e-2);
        let text = "%0 = input x float32 [1, 4, 9, 9]
                    %1 = constant int8 [20, 4, 3, 3]
                    %2 = constant float32 [20, 1, 1, 1] 0.03125
                    %3 = constant int8 [20, 1, 1, 1] 3
                    %4 = dequantizeLinear %1 %2 %3
                    %5 = conv2d %0 %4
                    %6 = relu %5
                    %7 = constant int8 [4, 2, 3, 3]
                    %8 = constant float32 [1, 1, 1, 1] 0.03125
                    %9 = constant int8 [1, 1, 1, 1] 3
                    %10 = dequantizeLinear %7 %8 %9
                    %11 = convTranspose2d %0 %10
                    output y = %6
                    output z = %11";
        assert_eq!(constants(text), 20 * 36 + 20 * 5 + 72 + 5);
        check(&parse(text), tolerance);
        let text = "%0 = input x float32 [2, 3, 5]
                    %1 = constant int8 [1, 12, 5]
                    %2 = constant float32 [1, 12, 1] 0.0078125
                    %3 = constant int8 [1, 12, 1] 3
                    %4 = dequantizeLinear %1 %2 %3
                    %5 = constant int8 [1, 12, 4]
                    %6 = dequantizeLinear %5 %2 %3
                    %7 = gru %0 %4 %6 hiddenSize=4 steps=2
                    output y = %7";
        assert_eq!(constants(text), 12 * 9 + 12 * 5);
        check(&parse(text), tolerance);
    }
}
