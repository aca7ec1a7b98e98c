//! Element-wise fusion. A chain of element-wise operators becomes one program that keeps intermediate values in
//! registers; operators after a matrix product or convolution become its epilogue.

use super::Target;
use super::prologue::operand_counts;
use crate::dtype::DataType;
use crate::ir::{Epilogue, Graph, Node, ValueId};
use crate::ops::elementwise::Elementwise;
use crate::ops::fused::{Fused, Instruction};
use crate::ops::{Api, Fusion, Op, Operation};
use crate::shape::{Descriptor, broadcasts_to};
use std::collections::BTreeSet;

/// Maximum number of operands of a program: each needs a register block while it runs. Targets may allow fewer.
const MAX_OPERANDS: usize = 8;
/// Maximum number of instructions of a program: its register blocks must stay in the first-level cache.
const MAX_INSTRUCTIONS: usize = 24;

/// Moves element-wise operators into the epilogue of the product whose result they read, including everything in
/// between that has no other readers. The product moves to the position where the other operands are computed.
pub fn fuse_epilogues(graph: &mut Graph, target: &Target) {
    let (uses, counts) = (graph.use_counts(), operand_counts(graph, target));
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        node.reads().for_each(|id| readers[id.index()].push(index));
    }
    // The new position of each node: a product with an epilogue moves to the position of the last node it absorbs,
    // whose result it computes.
    let mut places: Vec<Option<usize>> = (0..graph.nodes.len()).map(Some).collect();
    for index in 0..graph.nodes.len() {
        if places[index] != Some(index) || !accepts_epilogue(&graph.nodes[index], target) {
            continue;
        }
        let host = &graph.nodes[index];
        let own: usize = host.reads().map(|id| counts[id.index()]).sum();
        // The program's first operand is the result.
        let most = (target.operands)(&host.op).node.saturating_sub(own).saturating_add(1);
        if graph.descriptor(host.outputs[0]).dtype == DataType::Float64 {
            continue;
        }
        let Region { chain, mut members } = Region::behind(graph, &uses, &readers, &places, (index, most));
        let Some(&last) = members.last() else { continue };
        let outputs = graph.nodes[last].outputs.clone();
        for member in members.drain(..) {
            places[member] = None;
            let origins = std::mem::take(&mut graph.nodes[member].origins);
            graph.nodes[index].absorb(origins);
        }
        places[index] = Some(last);
        // Epilogues of products with float16 results round only at the end; others round float16 values as if they were
        // stored.
        let unrounded = graph.descriptor(outputs[0]).dtype == DataType::Float16;
        let node = &mut graph.nodes[index];
        let (program, mut operands) = chain.finish(unrounded);
        operands.remove(0);
        (node.epilogue, node.outputs) = (Epilogue { program, operands }, outputs);
    }
    let mut nodes: Vec<(usize, Node)> = std::mem::take(&mut graph.nodes)
        .into_iter()
        .zip(places)
        .filter_map(|(node, place)| Some((place?, node)))
        .collect();
    nodes.sort_by_key(|(place, _)| *place);
    graph.nodes = nodes.into_iter().map(|(_, node)| node).collect();
}

/// Whether the kernel of a node can apply an epilogue to its output.
fn accepts_epilogue(node: &Node, target: &Target) -> bool {
    (target.takes_epilogue)(&node.op) && node.epilogue.is_empty()
}

/// Whether an operator is discontinuous: extra digits beyond float16 could change its result.
fn jumps(op: Elementwise) -> bool {
    use Elementwise::{Cast, Ceil, Dequantize, Floor, Quantize, RoundEven, Sign};
    op.is_test() || matches!(op, Ceil | Floor | RoundEven | Sign | Cast { .. } | Quantize | Dequantize)
}

/// Element-wise nodes after a product; only the result of the last one is read outside.
struct Region {
    /// Their program; its first operand is the result of the product.
    chain: Chain,
    /// Their indices in the graph, ascending.
    members: Vec<usize>,
}

impl Region {
    /// The largest region after the node `host` whose program has at most `most` operands. Nodes without an entry in
    /// `places` are gone.
    fn behind(
        graph: &Graph,
        uses: &[usize],
        readers: &[Vec<usize>],
        places: &[Option<usize>],
        (host, most): (usize, usize),
    ) -> Region {
        let result = graph.nodes[host].outputs[0];
        let Descriptor { dtype, shape } = graph.descriptor(result);
        let mut region = Region { chain: Chain::new(most), members: Vec::new() };
        let mut inside: Vec<(ValueId, ChainOperand)> = vec![(result, region.chain.operand(result))];
        // Uses of the region's values by nodes that are not members yet.
        let mut open = uses[result.index()];
        let mut next: BTreeSet<usize> = readers[result.index()].iter().copied().collect();
        let mut closed = (region.chain.size(), 0);
        while let Some(index) = next.pop_first() {
            let node = &graph.nodes[index];
            let Some(program) = program(graph, node).filter(|_| places[index].is_some()) else { break };
            let output = node.outputs[0];
            let unrounded = *dtype == DataType::Float16 && program.instructions.iter().any(|step| jumps(step.op));
            // Epilogues work on blocks of floats of 32 bits.
            let doubles = program.instructions.iter().any(|step| step.dtype == DataType::Float64);
            if unrounded || doubles || graph.descriptor(output).shape != *shape {
                break;
            }
            let operand = |chain: &mut Chain, id: &ValueId| {
                let known = inside.iter().find(|(other, _)| other == id).map(|(_, operand)| *operand);
                known.unwrap_or_else(|| chain.operand(*id))
            };
            let operands: Vec<ChainOperand> =
                node.inputs.iter().flatten().map(|id| operand(&mut region.chain, id)).collect();
            open -= node.inputs.iter().flatten().filter(|id| inside.iter().any(|(other, _)| other == *id)).count();
            let own = region.chain.append(&program, &operands);
            if !region.chain.fits() {
                break;
            }
            region.members.push(index);
            inside.push((output, own));
            if open == 0 && graph.descriptor(output).dtype == *dtype {
                closed = (region.chain.size(), region.members.len());
            }
            open += uses[output.index()];
            next.extend(&readers[output.index()]);
        }
        let (size, members) = closed;
        region.chain.truncate(size);
        region.members.truncate(members);
        region
    }
}

/// Merges element-wise operators into the only operator that reads their output.
pub fn fuse_chains(graph: &mut Graph, target: &Target) {
    let uses = graph.use_counts();
    let mut nodes: Vec<Option<Node>> = Vec::new();
    let mut producers: Vec<Option<usize>> = vec![None; graph.values.len()];
    for mut node in std::mem::take(&mut graph.nodes) {
        if let Some(own) = program(graph, &node) {
            let mut chain = Chain::new((target.operands)(&node.op).node);
            let mut absorbed: Vec<(usize, ChainOperand)> = Vec::new();
            let mut operands = Vec::new();
            let inputs: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
            for (at, &id) in inputs.iter().enumerate() {
                let inner = producers[id.index()].filter(|_| reads_alone(graph, &uses, &node, id));
                if let Some(&(_, operand)) = absorbed.iter().find(|(index, _)| Some(*index) == inner) {
                    operands.push(operand);
                    continue;
                }
                // Leaves room for the node's own operands and instructions.
                let rest = (inputs.len() - at - 1, own.instructions.len());
                let inner = inner.and_then(|index| Some((index, nodes[index].as_ref()?)));
                let taken = inner.and_then(|(index, inner)| Some((index, chain.absorb(graph, inner, rest)?)));
                absorbed.extend(taken);
                operands.push(match taken {
                    Some((_, operand)) => operand,
                    None => chain.operand(id),
                });
            }
            chain.append(&own, &operands);
            if !absorbed.is_empty() {
                let inner = absorbed.iter().filter_map(|(producer, _)| nodes[*producer].take());
                inner.for_each(|inner| node.absorb(inner.origins));
                let (program, operands) = chain.finish(false);
                (node.op, node.inputs) = (Operation::Fusion(program.into()), operands.into_iter().map(Some).collect());
            }
        }
        node.outputs.iter().for_each(|id| producers[id.index()] = Some(nodes.len()));
        nodes.push(Some(node));
    }
    graph.nodes = nodes.into_iter().flatten().collect();
}

/// Whether only `reader` needs the value `id`, and it has the shape of the result: computing it there computes no
/// element twice.
fn reads_alone(graph: &Graph, uses: &[usize], reader: &Node, id: ValueId) -> bool {
    let times = reader.inputs.iter().filter(|input| **input == Some(id)).count();
    uses[id.index()] == times && graph.descriptor(id).shape == graph.descriptor(reader.outputs[0]).shape
}

/// The program of an element-wise node.
pub(super) fn program(graph: &Graph, node: &Node) -> Option<Fused> {
    if let Some(op) = node.op.elementwise() {
        let types: Vec<_> = node.inputs.iter().flatten().map(|&id| graph.descriptor(id).dtype).collect();
        return Some(Fused::single(op, &types));
    }
    match &node.op {
        Api(Op::Quantize(op)) => {
            let descriptors: Vec<_> = node.inputs.iter().flatten().map(|&id| graph.descriptor(id)).collect();
            let [input, scale, _] = descriptors[..] else { return None };
            // Programs cannot broadcast a scale per block.
            let types: Vec<_> = descriptors.iter().map(|descriptor| descriptor.dtype).collect();
            broadcasts_to(&scale.shape, &input.shape).then(|| Fused::single(op.elementwise(), &types))
        }
        Operation::Fusion(Fusion::Fused(program)) => Some(program.clone()),
        _ => None,
    }
}

/// An operand of an instruction in a chain.
#[derive(Clone, Copy)]
enum ChainOperand {
    /// An operand of the whole chain.
    Outer(usize),
    /// The result of an instruction.
    Result(usize),
}

/// A program under construction.
struct Chain {
    /// The largest number of operands.
    most: usize,
    inputs: Vec<ValueId>,
    instructions: Vec<(Elementwise, Vec<ChainOperand>, DataType)>,
}

impl Chain {
    fn new(most: usize) -> Chain {
        Chain { most: most.min(MAX_OPERANDS), inputs: Vec::new(), instructions: Vec::new() }
    }

    fn operand(&mut self, id: ValueId) -> ChainOperand {
        let known = self.inputs.iter().position(|&other| other == id);
        ChainOperand::Outer(known.unwrap_or_else(|| {
            self.inputs.push(id);
            self.inputs.len() - 1
        }))
    }

    /// Appends `program` with its operands taken from `operands`; returns its result.
    fn append(&mut self, program: &Fused, operands: &[ChainOperand]) -> ChainOperand {
        let start = self.instructions.len();
        for Instruction { op, operands: registers, dtype } in &program.instructions {
            let resolve = |&register: &usize| match register.checked_sub(program.inputs) {
                None => operands[register],
                Some(result) => ChainOperand::Result(start + result),
            };
            self.instructions.push((*op, registers.iter().map(resolve).collect(), *dtype));
        }
        ChainOperand::Result(self.instructions.len() - 1)
    }

    /// Appends the program of `node`, if it has one and leaves room for the given numbers of operands and instructions;
    /// returns its result.
    fn absorb(&mut self, graph: &Graph, node: &Node, (operands, instructions): (usize, usize)) -> Option<ChainOperand> {
        let (program, size) = (program(graph, node)?, self.size());
        let sources: Vec<ChainOperand> = node.inputs.iter().flatten().map(|&id| self.operand(id)).collect();
        let result = self.append(&program, &sources);
        if self.inputs.len() + operands > self.most || self.instructions.len() + instructions > MAX_INSTRUCTIONS {
            self.truncate(size);
            return None;
        }
        Some(result)
    }

    fn fits(&self) -> bool {
        self.inputs.len() <= self.most && self.instructions.len() <= MAX_INSTRUCTIONS
    }

    /// The numbers of operands and instructions so far.
    fn size(&self) -> (usize, usize) {
        (self.inputs.len(), self.instructions.len())
    }

    /// Removes everything appended since the chain had this size.
    fn truncate(&mut self, (inputs, instructions): (usize, usize)) {
        self.inputs.truncate(inputs);
        self.instructions.truncate(instructions);
    }

    /// The program and its operands. `x * sigmoid(x)` becomes one instruction, for float16 only if intermediate values
    /// are not rounded (`unrounded`).
    fn finish(self, unrounded: bool) -> (Fused, Vec<ValueId>) {
        let inputs = self.inputs.len();
        let register = |operand: ChainOperand| match operand {
            ChainOperand::Outer(index) => index,
            ChainOperand::Result(index) => inputs + index,
        };
        let instructions = self.instructions.into_iter().map(|(op, operands, dtype)| Instruction {
            op,
            operands: operands.into_iter().map(register).collect(),
            dtype,
        });
        let mut program = Fused { inputs, instructions: instructions.collect() };
        for index in (0..program.instructions.len()).rev() {
            if unrounded || program.instructions[index].dtype == DataType::Float32 {
                contract_silu(&mut program, index);
            }
        }
        (program, self.inputs)
    }
}

/// Contracts the product at `index` of a program with the sigmoid before it, if it is `x * sigmoid(x)`.
fn contract_silu(program: &mut Fused, index: usize) {
    let product = &program.instructions[index];
    let (Elementwise::Mul, &[a, b]) = (product.op, product.operands.as_slice()) else { return };
    let sigmoid_of = |gate: usize, x: usize| {
        let gate = gate.checked_sub(program.inputs)?;
        let Instruction { op, operands, .. } = &program.instructions[gate];
        (*op == Elementwise::Sigmoid && *operands == [x]).then_some((gate, x))
    };
    let Some((gate, x)) = sigmoid_of(b, a).or_else(|| sigmoid_of(a, b)) else { return };
    let result = program.inputs + gate;
    if program.reads(result) != 1 {
        return;
    }
    let product = &mut program.instructions[index];
    (product.op, product.operands) = (Elementwise::Silu, vec![x]);
    program.instructions.remove(gate);
    let operands = program.instructions.iter_mut().flat_map(|instruction| &mut instruction.operands);
    operands.filter(|operand| **operand > result).for_each(|operand| *operand -= 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{CPU, check_pass, check_pass_changes_nothing};

    fn epilogues(graph: &mut Graph) {
        fuse_epilogues(graph, &CPU);
    }

    fn chains(graph: &mut Graph) {
        fuse_chains(graph, &CPU);
    }

    #[test]
    fn relu_moves_into_the_convolution() {
        check_pass(
            epilogues,
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [4, 3, 3, 3]
             %2 = conv2d %0 %1 padding=[1, 1, 1, 1]
             %3 = relu %2
             %4 = exp %3
             output y = %4",
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [4, 3, 3, 3]
             %2 = conv2d %0 %1 _ padding=[1, 1, 1, 1] epilogue=[relu(r0), exp(r1)]
             output y = %2",
        );
    }

    #[test]
    fn a_product_with_its_own_sigmoid_is_one_instruction() {
        check_pass(
            epilogues,
            "%0 = input x float32 [2, 4]
             %1 = constant float32 [4, 4]
             %2 = constant float32 [4]
             %3 = matmul %0 %1
             %4 = add %3 %2
             %5 = sigmoid %4
             %6 = mul %5 %4
             %7 = sigmoid %6
             %8 = mul %7 %4
             output y = %8",
            "%0 = input x float32 [2, 4]
             %1 = constant float32 [4, 4]
             %2 = constant float32 [4]
             %3 = matmul %0 %1 %2 epilogue=[add(r0 r1), silu(r2), sigmoid(r3), mul(r4 r2)]
             output y = %3",
        );
        check_pass(
            chains,
            "%0 = input x float32 [2, 4]
             %1 = sigmoid %0
             %2 = mul %0 %1
             output y = %2",
            "%0 = input x float32 [2, 4]
             %1 = fused %0 program=[silu(r0)]
             output y = %1",
        );
        check_pass(
            epilogues,
            "%0 = input x float16 [2, 4]
             %1 = constant float16 [4, 4]
             %2 = matmul %0 %1
             %3 = sigmoid %2
             %4 = mul %2 %3
             output y = %4",
            "%0 = input x float16 [2, 4]
             %1 = constant float16 [4, 4]
             %2 = matmul %0 %1 epilogue=[silu(r0)]
             output y = %2",
        );
        check_pass(
            epilogues,
            "%0 = input x float32 [2, 4]
             %1 = constant float32 [4, 4]
             %2 = matmul %0 %1
             %3 = cast %2 dataType=float16
             %4 = sigmoid %3
             %5 = mul %4 %3
             %6 = cast %5 dataType=float32
             output y = %6",
            "%0 = input x float32 [2, 4]
             %1 = constant float32 [4, 4]
             %2 = matmul %0 %1 epilogue=[cast(r0) dataType=float16, sigmoid(r1), mul(r2 r1), cast(r3)]
             output y = %2",
        );
        // The sigmoid is rounded, or read again.
        for text in [
            "%0 = input x float16 [4]\n%1 = sigmoid %0\n%2 = mul %0 %1\noutput y = %2",
            "%0 = input x float32 [4]\n%1 = sigmoid %0\n%2 = mul %0 %1\n%3 = add %2 %1\noutput y = %3",
        ] {
            let mut graph = parse(text);
            chains(&mut graph);
            assert!(graph.to_string().contains("sigmoid") && !graph.to_string().contains("silu"), "{graph}");
        }
    }

    #[test]
    fn bias_residual_and_relu_move_into_the_product_which_moves_behind_the_residual() {
        check_pass(
            epilogues,
            "%0 = input x float32 [2, 4]
             %1 = constant float32 [4, 4]
             %2 = constant float32 [4]
             %3 = matmul %0 %1
             %4 = add %2 %3
             %5 = softmax %0 axis=1
             %6 = add %4 %5
             %7 = relu %6
             output y = %7
             output z = %5",
            "%0 = input x float32 [2, 4]
             %1 = softmax %0 axis=1
             %2 = constant float32 [4, 4]
             %3 = constant float32 [4]
             %4 = matmul %0 %2 %3 %1 epilogue=[add(r1 r0), add(r3 r2), relu(r4)]
             output y = %4
             output z = %1",
        );
    }

    #[test]
    fn one_of_two_products_that_are_added_takes_the_sum() {
        check_pass(
            epilogues,
            "%0 = input x float32 [4, 4]
             %1 = matmul %0 %0
             %2 = exp %0
             %3 = matmul %2 %0
             %4 = add %1 %3
             %5 = relu %4
             %6 = matmul %5 %0
             %7 = neg %6
             %8 = add %7 %5
             output y = %8",
            "%0 = input x float32 [4, 4]
             %1 = exp %0
             %2 = matmul %1 %0
             %3 = matmul %0 %0 %2 epilogue=[add(r0 r1), relu(r2)]
             %4 = matmul %3 %0 %3 epilogue=[neg(r0), add(r2 r1)]
             output y = %4",
        );
    }

    #[test]
    fn a_chain_that_reads_the_product_several_times_moves_into_it() {
        check_pass(
            epilogues,
            "%0 = input x float32 [4, 4]
             %1 = constant float32 [] 0.5
             %2 = matmul %0 %0
             %3 = mul %2 %1
             %4 = erf %2
             %5 = linear %4 beta=1
             %6 = mul %3 %5
             %7 = exp %6
             %8 = add %6 %7
             %9 = softmax %8 axis=0
             %10 = add %8 %9
             output y = %10",
            "%0 = input x float32 [4, 4]
             %1 = constant float32 []
             %2 = matmul %0 %0 %1 epilogue=[mul(r0 r1), erf(r0), linear(r3) beta=1.0, mul(r2 r4), exp(r5), add(r5 r6)]
             %3 = softmax %2
             %4 = add %2 %3
             output y = %4",
        );
    }

    #[test]
    fn a_chain_with_another_reader_of_an_intermediate_value_stays() {
        check_pass_changes_nothing(
            epilogues,
            "%0 = input x float32 [4, 4]
             %1 = matmul %0 %0
             %2 = sigmoid %1
             %3 = reduceMax %1 axes=[1] keepDimensions=true
             %4 = mul %1 %2
             %5 = add %4 %3
             output y = %5",
        );
    }

    #[test]
    fn an_addition_that_makes_the_result_larger_stays() {
        check_pass_changes_nothing(
            epilogues,
            "%0 = input x float32 [4, 4]
             %1 = input y float32 [2, 4, 4]
             %2 = matmul %0 %0
             %3 = add %2 %1
             output y = %3",
        );
    }

    #[test]
    fn discontinuous_operators_in_between_stay_behind_half_floats() {
        check_pass(
            epilogues,
            "%0 = input x float16 [4, 4]
             %1 = matmul %0 %0
             %2 = add %1 %0
             %3 = greater %2 %0
             %4 = where %3 %2 %0
             output y = %4",
            "%0 = input x float16 [4, 4]
             %1 = matmul %0 %0 %0 epilogue=[add(r0 r1)]
             %2 = greater %1 %0
             %3 = where %2 %1 %0
             output y = %3",
        );
    }

    #[test]
    fn relu_stays_when_the_convolution_has_another_reader() {
        check_pass_changes_nothing(
            epilogues,
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [4, 3, 3, 3]
             %2 = conv2d %0 %1 padding=[1, 1, 1, 1]
             %3 = relu %2
             output y = %3
             output z = %2",
        );
    }

    #[test]
    fn a_discontinuous_operator_stays_behind_half_floats() {
        let text = "%0 = input x float16 [4, 4]
                    %1 = matmul %0 %0
                    %2 = floor %1
                    output y = %2";
        check_pass_changes_nothing(epilogues, text);
        let text = text.replace("float16", "float32");
        let fused = "%0 = input x float32 [4, 4]\n%1 = matmul %0 %0 epilogue=[floor(r0)]\noutput y = %1";
        check_pass(epilogues, &text, fused);
    }

    #[test]
    fn an_operator_that_changes_the_type_stays() {
        check_pass_changes_nothing(
            epilogues,
            "%0 = input x float32 [4, 4]
             %1 = matmul %0 %0
             %2 = cast %1 dataType=int32
             output y = %2",
        );
    }

    #[test]
    fn a_chain_becomes_one_program() {
        check_pass(
            chains,
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
            chains,
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
            chains,
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
            chains,
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
            chains,
            "%0 = input x float32 [1, 3]
             %1 = input s float32 [64, 3]
             %2 = exp %0
             %3 = mul %2 %1
             output y = %3",
        );
    }

    #[test]
    fn only_as_many_operands_are_merged_as_fit() {
        let chain = |start: usize, from: usize| -> String {
            (0..14).map(|i| format!("%{} = abs %{}\n", start + i, if i == 0 { from } else { start + i - 1 })).collect()
        };
        let text = format!(
            "%0 = input x float32 [4]\n%1 = input z float32 [4]\n{}{}%30 = add %15 %29\noutput y = %30",
            chain(2, 0),
            chain(16, 1)
        );
        let mut graph = crate::ir::parse(&text);
        chains(&mut graph);
        graph.verify();
        let lengths = graph.nodes.iter().map(|node| program(&graph, node).expect("fused").instructions.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [14, 15]);
    }

    #[test]
    fn a_program_stays_below_the_limits() {
        let mut text = "%0 = input x float32 [4]\n".to_string();
        (0..60).for_each(|i| text += &format!("%{} = abs %{i}\n", i + 1));
        let mut graph = crate::ir::parse(&(text + "output y = %60"));
        chains(&mut graph);
        assert!(graph.nodes.len() > 1);
        for node in &graph.nodes {
            let Operation::Fusion(Fusion::Fused(program)) = &node.op else { panic!("not fused") };
            assert!(program.instructions.len() <= MAX_INSTRUCTIONS);
        }
    }
}
