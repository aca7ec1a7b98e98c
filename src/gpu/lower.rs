//! Lowers nodes to dispatches: the GPU implementation of each operator.

use super::dialect::Dialect;
use super::kernel::{ALIGNMENT, Bound, Dispatch, MAX_BUFFERS, Parameters};
use super::map::{BoundEpilogue, Entry, Map, Readable, Wide};
use super::steps::{attention, copy, cumulative, gather, normalization, product, recurrent, reduce, spatial};
use crate::dtype::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Graph, Node, Prologue, Source};
use crate::ops::elementwise::Elementwise;
use crate::ops::extension::elementwise::Extended;
use crate::ops::fused::Fused;
use crate::ops::{Api, Extension, Fusion, Op, Operation};
use crate::shape::Descriptor;

/// A node as a sequence of dispatches.
pub struct Lowered {
    /// The dispatches, in order.
    pub dispatches: Vec<Dispatch>,
    /// Bytes of scratch memory that they share.
    pub scratch: usize,
}

/// The operands and outputs of a node, and its dispatches so far.
pub struct Lowering<'a> {
    /// The dialect of the device.
    pub dialect: Dialect,
    /// The descriptors of the operator's operands.
    pub inputs: Vec<Option<&'a Descriptor>>,
    /// The descriptors of its outputs.
    pub outputs: Vec<&'a Descriptor>,
    graph: &'a Graph,
    node: &'a Node,
    lowered: Lowered,
}

impl<'a> Lowering<'a> {
    /// The descriptor of a required operand.
    pub fn input(&self, index: usize) -> &'a Descriptor {
        self.inputs[index].expect("validated against the rule")
    }

    /// Reserves `bytes` bytes of scratch memory for the dispatches of this node.
    pub fn scratch(&mut self, bytes: usize) -> Bound {
        let offset = self.lowered.scratch.next_multiple_of(ALIGNMENT);
        self.lowered.scratch = offset + bytes;
        Bound::Scratch { offset, bytes }
    }

    /// Appends a launch.
    pub fn dispatch(&mut self, dispatch: Dispatch) {
        debug_assert!(dispatch.bindings.len() < MAX_BUFFERS, "{} binds {:?}", dispatch.name, dispatch.bindings);
        self.lowered.dispatches.push(dispatch);
    }

    /// The operand at `index`, with the name of the function that reads its elements.
    pub fn readable(&self, name: &'static str, index: usize) -> Readable {
        Readable { name, bound: Bound::Input(index), dtype: self.input(index).dtype }
    }

    /// Appends a kernel that computes each element of an output on its own, with the function `value(i)`, then applies
    /// the epilogue.
    pub fn map(
        &mut self,
        output: usize,
        name: &'static str,
        inputs: Vec<Readable>,
        functions: &str,
        parameters: Parameters,
    ) {
        self.entered(output, name, inputs, functions, parameters, Entry::Words);
    }

    /// Like [`map`](Self::map), with any kind of entry point.
    pub fn entered(
        &mut self,
        output: usize,
        name: &'static str,
        inputs: Vec<Readable>,
        functions: &str,
        parameters: Parameters,
        entry: Entry,
    ) {
        let map = Map {
            name,
            inputs,
            output: Bound::Output(output),
            descriptor: self.outputs[output],
            functions: functions.to_string(),
            parameters,
            entry,
            wide: Wide::default(),
            epilogue: self.epilogue(),
        };
        let dispatch = map.dispatch(self);
        self.dispatch(dispatch);
    }

    /// Appends a kernel with an entry point of its own, which computes the (only) output in float32. If a word of the
    /// output holds several elements, a second kernel packs them.
    pub fn own(
        &mut self,
        name: &'static str,
        inputs: Vec<Readable>,
        functions: &str,
        parameters: Parameters,
        entry: Entry,
    ) {
        let output = self.outputs[0];
        if self.dialect.lanes(output.dtype) == 1 {
            return self.entered(0, name, inputs, functions, parameters, entry);
        }
        let descriptor = Descriptor::new(DataType::Float32, output.sizes().to_vec());
        let functions = functions.to_string();
        self.packed(DataType::Float32, |l, output| {
            l.to_scratch(name, inputs, (output, &descriptor), functions, parameters, entry);
        });
    }

    /// Appends a kernel that writes to scratch memory, without an epilogue.
    pub fn to_scratch(
        &mut self,
        name: &'static str,
        inputs: Vec<Readable>,
        (output, descriptor): (Bound, &Descriptor),
        functions: String,
        parameters: Parameters,
        entry: Entry,
    ) {
        let wide = Wide::default();
        let map = Map { name, inputs, output, descriptor, functions, parameters, entry, wide, epilogue: None };
        let dispatch = map.dispatch(self);
        self.dispatch(dispatch);
    }

    /// Runs `compute` to compute the elements of the (only) output in scratch memory, as values of the type `wide`, one
    /// per word; then copies them to the output, packed for its type, through the epilogue.
    pub fn packed(&mut self, wide: DataType, compute: impl FnOnce(&mut Self, Bound)) {
        let results = self.scratch(self.outputs[0].elements() * wide.size());
        compute(self, results);
        self.copy(Readable { name: "x", bound: results, dtype: wide });
    }

    /// Appends a kernel that copies the elements of `x` to the (only) output, through the epilogue.
    pub fn copy(&mut self, x: Readable) {
        self.map(0, "copy", vec![x], "fn value(i: u32) -> x_value { return x(i); }\n", Parameters::default());
    }

    /// Whether the (only) output begins with the first operand, in its memory.
    pub fn begins_with_cache(&self) -> bool {
        let output = self.node.outputs[0];
        self.graph.growing.iter().any(|growing| self.graph.outputs[growing.output].1 == output)
    }

    /// The prologue that computes the operand at this index while a kernel reads it, and the operands of its program.
    pub fn prologue(&self, index: usize) -> Option<(&'a Prologue, Vec<(Bound, &'a Descriptor)>)> {
        let prologue = self.node.prologue(index)?;
        let first = Bound::Input(index);
        let others = (0..prologue.others.len()).map(|other| Bound::Prologue(index, other));
        Some((prologue, [first].into_iter().chain(others).map(|bound| self.bound(bound)).collect()))
    }

    /// The epilogue of the node.
    pub fn epilogue(&self) -> Option<BoundEpilogue<'a>> {
        let crate::ir::Epilogue { program, operands } = &self.node.epilogue;
        let operands = (0..operands.len()).map(|index| self.bound(Bound::Epilogue(index))).collect();
        (!program.is_empty()).then_some(BoundEpilogue { program, operands })
    }

    /// Whether a binding is a constant.
    pub fn is_constant(&self, bound: Bound) -> bool {
        bound.value(self.node).is_some_and(|id| matches!(self.graph.value(id).source, Source::Constant(_)))
    }

    /// A binding of a value, and the value's descriptor.
    fn bound(&self, bound: Bound) -> (Bound, &'a Descriptor) {
        (bound, self.graph.descriptor(bound.value(self.node).expect("it is given")))
    }
}

/// Lowers `node`.
///
/// # Errors
/// An `OperationError` for anything that the device does not support.
pub fn lower(graph: &Graph, node: &Node, dialect: Dialect) -> Result<Lowered> {
    let mut lowering = Lowering {
        dialect,
        inputs: graph.operand_descriptors(node),
        outputs: node.outputs.iter().map(|&id| graph.descriptor(id)).collect(),
        graph,
        node,
        lowered: Lowered { dispatches: Vec::new(), scratch: 0 },
    };
    match &node.op {
        Api(op) => lower_op(op, &mut lowering),
        Operation::Fusion(fusion) => lower_fusion(fusion, &mut lowering)?,
        Operation::Extension(op) => lower_extension(op, &mut lowering),
    }
    Ok(lowering.lowered)
}

fn lower_op(op: &Op, l: &mut Lowering) {
    match op {
        Op::Elementwise(op) => lower_elementwise(*op, l),
        Op::Reshape(_) => l.copy(l.readable("x", 0)),
        Op::Expand(op) => copy::strided(l, 0, &op.strided(&l.input(0).sizes())),
        Op::Slice(op) => copy::strided(l, 0, &op.strided(&l.input(0).sizes())),
        Op::Transpose(op) => copy::strided(l, 0, &op.strided(&l.input(0).sizes())),
        Op::Reverse(op) => copy::strided(l, 0, &op.strided(&l.input(0).sizes())),
        Op::Tile(op) => copy::strided(l, 0, &op.strided(&l.input(0).sizes())),
        Op::Split(op) => {
            let places = op.strided(&l.input(0).sizes());
            places.iter().enumerate().for_each(|(index, place)| copy::strided(l, index, place));
        }
        Op::Concat(op) => copy::concat(op, l),
        Op::Pad(op) => copy::pad(op, l),
        Op::Triangular(op) => copy::triangular(op, l),
        Op::Gather(op) => gather::gather(op, l),
        Op::GatherElements(op) => gather::gather_elements(op, l),
        Op::GatherNd(_) => gather::gather_nd(l),
        Op::ScatterElements(op) => gather::scatter_elements(op, l),
        Op::ScatterNd(_) => gather::scatter_nd(l),
        Op::Reduce(op) => reduce::reduce(op, l),
        Op::ArgMinMax(op) => reduce::arg_min_max(op, l),
        Op::CumulativeSum(op) => cumulative::cumulative_sum(op, l),
        Op::Softmax(op) => normalization::softmax(op, l),
        Op::BatchNormalization(op) => normalization::batch(op, l),
        Op::InstanceNormalization(op) => normalization::instance(op, l),
        Op::LayerNormalization(op) => normalization::layer(op, l),
        Op::Matmul(_) => product::matmul(l),
        Op::Gemm(op) => product::gemm(op, l),
        Op::Conv2d(op) => spatial::conv2d(op, l),
        Op::ConvTranspose2d(op) => spatial::conv_transpose2d(op, l),
        Op::Pool2d(op) => spatial::pool2d(op, l),
        Op::Resample2d(op) => spatial::resample2d(op, l),
        Op::Quantize(op) => copy::quantize(op, l),
        Op::Gru(op) => recurrent::gru(op, l),
        Op::GruCell(op) => recurrent::gru_cell(op, l),
        Op::Lstm(op) => recurrent::lstm(op, l),
        Op::LstmCell(op) => recurrent::lstm_cell(op, l),
    }
}

fn lower_elementwise(op: Elementwise, l: &mut Lowering) {
    let types: Vec<_> = l.inputs.iter().flatten().map(|input| input.dtype).collect();
    copy::elementwise(l, &Fused::single(op, &types));
}

fn lower_extension(op: &Extension, l: &mut Lowering) {
    match op {
        Extension::Elementwise(Extended(op)) => lower_elementwise(*op, l),
        op => unreachable!("imports for GPUs have no {}", op.rule().name),
    }
}

fn lower_fusion(fusion: &Fusion, l: &mut Lowering) -> Result<()> {
    match fusion {
        Fusion::Fused(program) => copy::elementwise(l, program),
        Fusion::Attention(op) => attention::attention(op, l),
        Fusion::RmsNormalization(op) => normalization::root_mean_square(op, l),
        Fusion::Quantized(_) | Fusion::BlockProduct(_) => {
            let message = format!("{} has no GPU kernel", fusion.rule().name);
            return Err(Error::new(ErrorKind::Operation, message));
        }
    }
    Ok(())
}
