//! Element-wise fusion. A chain of element-wise operators becomes one program that keeps intermediate values in
//! registers, and unary operators behind a matrix product or convolution become its epilogue.

use crate::dtype::DataType;
use crate::ir::{Graph, Node, ValueId};
use crate::ops::Op;
use crate::ops::elementwise::Elementwise;
use crate::ops::fused::{Fused, Instruction};

/// The most operands of a program: each needs a register block while it runs.
const MAX_OPERANDS: usize = 8;
/// The most instructions of a program: its register blocks must stay in the first-level cache.
const MAX_INSTRUCTIONS: usize = 24;

/// Moves unary element-wise operators into the epilogue of the operator whose output they alone read.
pub fn fuse_epilogues(graph: &mut Graph) {
    let uses = graph.use_counts();
    let producers = graph.producers();
    // Where a node went that was moved into an epilogue, so that a chain ends up in one place.
    let mut hosts: Vec<usize> = (0..graph.nodes.len()).collect();
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let (Op::Elementwise(op), [Some(input)]) = (&node.op, node.inputs.as_slice()) else { continue };
        let Some(producer) = producers[input.index()] else { continue };
        let host = hosts[producer];
        let same_type = graph.descriptor(*input).dtype == graph.descriptor(node.outputs[0]).dtype;
        let host_takes = accepts_epilogue(&graph.nodes[host].op) && graph.descriptor(*input).dtype.is_float();
        // Where the result jumps, it must not be decided by digits that float16 does not have.
        let jumps = matches!(op, Elementwise::Ceil | Elementwise::Floor | Elementwise::RoundEven | Elementwise::Sign);
        let unrounded = jumps && graph.descriptor(*input).dtype == DataType::Float16;
        if !same_type || unrounded || !host_takes || uses[input.index()] != 1 {
            continue;
        }
        let (op, outputs) = (*op, node.outputs.clone());
        let origins = std::mem::take(&mut graph.nodes[index].origins);
        graph.nodes[host].epilogue.push(op);
        graph.nodes[host].outputs = outputs;
        graph.nodes[host].absorb(origins);
        hosts[index] = host;
    }
    let mut index = 0;
    graph.nodes.retain(|_| {
        index += 1;
        hosts[index - 1] == index - 1
    });
}

/// Whether the steps of an operator can apply unary operators to their output while it is in cache.
fn accepts_epilogue(op: &Op) -> bool {
    matches!(op, Op::Matmul(_) | Op::Gemm(_) | Op::Conv2d(_) | Op::ConvTranspose2d(_))
}

/// Merges element-wise operators into the one that alone reads their output.
pub fn fuse_chains(graph: &mut Graph) {
    let uses = graph.use_counts();
    let mut nodes: Vec<Option<Node>> = Vec::new();
    let mut producers: Vec<Option<usize>> = vec![None; graph.values.len()];
    for mut node in std::mem::take(&mut graph.nodes) {
        if let Some(own) = program(graph, &node) {
            let mut chain = Chain::default();
            let mut absorbed: Vec<(usize, Operand)> = Vec::new();
            let mut operands = Vec::new();
            for &id in node.inputs.iter().flatten() {
                let inner = producers[id.index()].filter(|_| reads_alone(graph, &uses, &node, id));
                let inner = inner.and_then(|index| Some((index, nodes[index].as_ref()?)));
                let inner = inner.and_then(|(index, inner)| Some((index, inner, program(graph, inner)?)));
                let Some((index, inner, program)) = inner else {
                    operands.push(chain.operand(id));
                    continue;
                };
                let known = absorbed.iter().find(|(other, _)| *other == index).map(|(_, operand)| *operand);
                operands.push(known.unwrap_or_else(|| {
                    let sources: Vec<Operand> = inner.inputs.iter().flatten().map(|&id| chain.operand(id)).collect();
                    let operand = chain.append(&program, &sources);
                    absorbed.push((index, operand));
                    operand
                }));
            }
            chain.append(&own, &operands);
            if !absorbed.is_empty() && chain.fits() {
                let inner = absorbed.iter().filter_map(|(producer, _)| nodes[*producer].take());
                inner.for_each(|inner| node.absorb(inner.origins));
                (node.op, node.inputs) = chain.finish();
            }
        }
        node.outputs.iter().for_each(|id| producers[id.index()] = Some(nodes.len()));
        nodes.push(Some(node));
    }
    graph.nodes = nodes.into_iter().flatten().collect();
}

/// Whether nothing but `reader` needs the value `id`, and it has the shape of the result: computing it there computes
/// no element twice.
fn reads_alone(graph: &Graph, uses: &[usize], reader: &Node, id: ValueId) -> bool {
    let times = reader.inputs.iter().filter(|input| **input == Some(id)).count();
    uses[id.index()] == times && graph.descriptor(id).shape == graph.descriptor(reader.outputs[0]).shape
}

/// The program of an element-wise node.
fn program(graph: &Graph, node: &Node) -> Option<Fused> {
    match &node.op {
        Op::Elementwise(op) => {
            let types: Vec<_> = node.inputs.iter().flatten().map(|&id| graph.descriptor(id).dtype).collect();
            Some(Fused::single(*op, &types))
        }
        Op::Fused(program) => Some(program.clone()),
        _ => None,
    }
}

/// Where an instruction of a chain finds an operand.
#[derive(Clone, Copy)]
enum Operand {
    /// An operand of the whole chain.
    Outer(usize),
    /// The result of an instruction.
    Result(usize),
}

/// A program under construction.
#[derive(Default)]
struct Chain {
    inputs: Vec<ValueId>,
    instructions: Vec<(Elementwise, Vec<Operand>, DataType)>,
}

impl Chain {
    fn operand(&mut self, id: ValueId) -> Operand {
        let known = self.inputs.iter().position(|&other| other == id);
        Operand::Outer(known.unwrap_or_else(|| {
            self.inputs.push(id);
            self.inputs.len() - 1
        }))
    }

    /// Appends `program` with its operands taken from `operands`; gives its result.
    fn append(&mut self, program: &Fused, operands: &[Operand]) -> Operand {
        let start = self.instructions.len();
        for Instruction { op, operands: registers, dtype } in &program.instructions {
            let resolve = |&register: &usize| match register.checked_sub(program.inputs) {
                None => operands[register],
                Some(result) => Operand::Result(start + result),
            };
            self.instructions.push((*op, registers.iter().map(resolve).collect(), *dtype));
        }
        Operand::Result(self.instructions.len() - 1)
    }

    fn fits(&self) -> bool {
        self.inputs.len() <= MAX_OPERANDS && self.instructions.len() <= MAX_INSTRUCTIONS
    }

    fn finish(self) -> (Op, Vec<Option<ValueId>>) {
        let inputs = self.inputs.len();
        let register = |operand: Operand| match operand {
            Operand::Outer(index) => index,
            Operand::Result(index) => inputs + index,
        };
        let instructions = self.instructions.into_iter().map(|(op, operands, dtype)| Instruction {
            op,
            operands: operands.into_iter().map(register).collect(),
            dtype,
        });
        let program = Fused { inputs, instructions: instructions.collect() };
        (program.into(), self.inputs.into_iter().map(Some).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_pass, check_pass_changes_nothing};

    #[test]
    fn relu_moves_into_the_convolution() {
        check_pass(
            fuse_epilogues,
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [4, 3, 3, 3]
             %2 = conv2d %0 %1 padding=[1, 1, 1, 1]
             %3 = relu %2
             %4 = exp %3
             output y = %4",
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [4, 3, 3, 3]
             %2 = conv2d %0 %1 padding=[1, 1, 1, 1] epilogue=[relu, exp]
             output y = %2",
        );
    }

    #[test]
    fn relu_stays_when_the_convolution_has_another_reader() {
        check_pass_changes_nothing(
            fuse_epilogues,
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [4, 3, 3, 3]
             %2 = conv2d %0 %1 padding=[1, 1, 1, 1]
             %3 = relu %2
             output y = %3
             output z = %2",
        );
    }

    #[test]
    fn an_operator_that_jumps_stays_behind_half_floats() {
        let text = "%0 = input x float16 [4, 4]
                    %1 = matmul %0 %0
                    %2 = floor %1
                    output y = %2";
        check_pass_changes_nothing(fuse_epilogues, text);
        let text = text.replace("float16", "float32");
        let fused = "%0 = input x float32 [4, 4]\n%1 = matmul %0 %0 epilogue=[floor]\noutput y = %1";
        check_pass(fuse_epilogues, &text, fused);
    }

    #[test]
    fn an_operator_that_changes_the_type_stays() {
        check_pass_changes_nothing(
            fuse_epilogues,
            "%0 = input x float32 [4, 4]
             %1 = matmul %0 %0
             %2 = cast %1 dataType=int32
             output y = %2",
        );
    }

    #[test]
    fn a_chain_becomes_one_program() {
        check_pass(
            fuse_chains,
            "%0 = input x float32 [2, 3]
             %1 = input s float32 [3]
             %2 = exp %0
             %3 = mul %2 %1
             %4 = relu %3
             output y = %4",
            "%0 = input x float32 [2, 3]
             %1 = input s float32 [3]
             %2 = fused %0 %1 program=[exp(r0), mul(r2 r1), relu(r3)]
             output y = %2",
        );
    }

    #[test]
    fn types_may_change_inside_of_a_chain() {
        check_pass(
            fuse_chains,
            "%0 = input x float16 [4]
             %1 = input z float16 [4]
             %2 = greater %0 %1
             %3 = where %2 %0 %1
             %4 = cast %3 dataType=int32
             output y = %4",
            "%0 = input x float16 [4]
             %1 = input z float16 [4]
             %2 = fused %0 %1 program=[greater(r0 r1), where(r2 r0 r1), cast(r3) dataType=int32]
             output y = %2",
        );
    }

    #[test]
    fn a_value_that_is_read_twice_by_one_reader_is_computed_once() {
        check_pass(
            fuse_chains,
            "%0 = input x float32 [4]
             %1 = exp %0
             %2 = mul %1 %1
             output y = %2",
            "%0 = input x float32 [4]
             %1 = fused %0 program=[exp(r0), mul(r1 r1)]
             output y = %1",
        );
    }

    #[test]
    fn a_value_with_another_reader_stays() {
        check_pass_changes_nothing(
            fuse_chains,
            "%0 = input x float32 [4]
             %1 = exp %0
             %2 = abs %1
             output y = %2
             output z = %1",
        );
    }

    #[test]
    fn a_value_that_is_broadcast_stays() {
        check_pass_changes_nothing(
            fuse_chains,
            "%0 = input x float32 [1, 3]
             %1 = input s float32 [64, 3]
             %2 = exp %0
             %3 = mul %2 %1
             output y = %3",
        );
    }

    #[test]
    fn a_program_stays_below_the_limits() {
        let mut text = "%0 = input x float32 [4]\n".to_string();
        (0..60).for_each(|i| text += &format!("%{} = abs %{i}\n", i + 1));
        let mut graph = crate::ir::parse(&(text + "output y = %60"));
        fuse_chains(&mut graph);
        assert!(graph.nodes.len() > 1);
        for node in &graph.nodes {
            let Op::Fused(program) = &node.op else { panic!("not fused") };
            assert!(program.instructions.len() <= MAX_INSTRUCTIONS);
        }
    }
}
