//! What the recurrent operators share: the product of the inputs of all time steps with their weights, and the loop
//! over directions and time steps. A cell operator is a sequence of one step.
//!
//! A time step is computed in blocks of units (features of the hidden state) and rows of the batch: the weights of a
//! block's units are a panel for each gate, and the gates are applied while the sums are in cache. Everything is computed
//! in `f32`.

use super::matmul::{MatmulShape, MatmulStep, MatrixStrides};
use super::{Env, Run};
use crate::cpu::kernels::float::{Floats, FloatsMut, narrow};
use crate::cpu::memory::Io;
use crate::cpu::product::columns::Columns;
use crate::cpu::product::finish::Tail;
use crate::cpu::product::panels::{Layout, Panels, depth_blocks};
use crate::cpu::product::recurrent::{BLOCK, Block, ROWS, add_products};
use crate::cpu::product::rows::Strided;
use crate::cpu::product::tile::tile_size;
use crate::cpu::schedule::shared::{for_each_chunk, for_each_column_block};
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::Buffer;
use crate::ops::recurrent::Direction;
use crate::shape::{Descriptor, PerAxis};
use crate::with_floats;
use std::ops::Range;
use std::sync::Arc;

/// Multiply-adds of a time step from which on its units are worth sharing for each thread. Two directions with less are
/// computed side by side.
const SHARED_STEP: usize = 1 << 20;

/// Where the operands are that not every recurrent operator has at the same place. `input`, `weight` and
/// `recurrentWeight` always come first.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperandPlaces {
    /// `bias`
    pub bias: Option<usize>,
    /// `recurrentBias`
    pub recurrent_bias: Option<usize>,
    /// `peepholeWeight`
    pub peephole: Option<usize>,
    /// The first hidden state.
    pub hidden: Option<usize>,
    /// The first cell state.
    pub cell: Option<usize>,
}

/// The sizes of a recurrent network.
#[derive(Clone, Copy, Debug)]
pub struct NetworkSizes {
    /// Time steps.
    pub steps: usize,
    /// Rows of the batch.
    pub batch: usize,
    /// Features of the input.
    pub input: usize,
    /// Features of the hidden state.
    pub hidden: usize,
    /// Gates.
    pub gates: usize,
    /// 2 with a cell state, otherwise 1.
    pub states: usize,
}

impl NetworkSizes {
    /// The sizes for `C` and an input of the shape `[steps, batch, input]`, or of one step `[batch, input]`.
    fn new<C: Cell>(input: &[u32], hidden: u32) -> NetworkSizes {
        let (steps, &[batch, features]) = input.split_last_chunk().expect("the rule row requires rank 2");
        NetworkSizes {
            steps: steps.iter().product::<u32>() as usize,
            batch: batch as usize,
            input: features as usize,
            hidden: hidden as usize,
            gates: C::GATES,
            states: C::STATES,
        }
    }

    /// Rows of input.
    fn rows(&self) -> usize {
        self.steps * self.batch
    }

    /// Rows of the weights.
    fn sums(&self) -> usize {
        self.gates * self.hidden
    }
}

/// What a network computes in a time step.
pub trait Cell: Sync {
    /// The name of the kernel.
    const KERNEL: &'static str;
    /// Number of gates.
    const GATES: usize;
    /// Number of states: 2 with a cell state, otherwise 1.
    const STATES: usize;

    /// The place of the gate whose product with the hidden state is not simply added to that with the input, if there is
    /// one.
    fn separate(&self) -> Option<usize> {
        None
    }

    /// Whether the hidden state goes through [`reset`](Cell::reset) first.
    fn resets(&self) -> bool {
        false
    }

    /// Replaces the hidden state in `block` by the one that the recurrent weights are multiplied with.
    fn reset(&self, _moment: &Moment, _block: &mut StateBlock) {}

    /// Replaces the states in `block` by the next ones. `reset` is what [`reset`](Cell::reset) made of the hidden
    /// state `[batch, hidden]`, or the state itself.
    fn advance(&self, moment: &Moment, reset: &[f32], block: &mut StateBlock);
}

/// A recurrent operator: `cell` over all directions and time steps.
pub struct RecurrentStep<C> {
    cell: C,
    network: Network,
}

impl<C: Cell> RecurrentStep<C> {
    /// The step for an input of this descriptor, `[steps, batch, input]` or for a single step `[batch, input]`, and
    /// `hidden` features of the hidden state; `weights` are the weights and the recurrent weights if they are constant.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for packed weights, an `OperationError` when mapped ones cannot be read.
    pub fn new(
        env: &Env,
        cell: C,
        input: &Descriptor,
        hidden: u32,
        direction: Direction,
        places: OperandPlaces,
        weights: [Option<Weights>; 2],
    ) -> Result<RecurrentStep<C>> {
        let sizes = NetworkSizes::new::<C>(&input.sizes(), hidden);
        let network = Network::new(env, sizes, input.dtype, direction, places, weights)?;
        Ok(RecurrentStep { cell, network })
    }

    /// Whether the step keeps packed copies of the weights and of the recurrent weights.
    pub fn keeps_weights(&self) -> [bool; 2] {
        [self.network.packs_weight, self.network.recurrent.is_some()]
    }
}

impl<C: Cell> Run for RecurrentStep<C> {
    fn kernel(&self) -> &'static str {
        C::KERNEL
    }

    fn run(&self, env: &Env, io: &mut Io) {
        self.network.run(env, io, &self.cell);
    }

    fn scratch_bytes(&self, _: usize) -> usize {
        self.network.scratch_bytes(self.cell.resets())
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        self.network.packed()
    }
}

/// A block of the states.
pub struct StateBlock {
    /// The units that it covers.
    pub units: Range<usize>,
    /// The rows of the batch that it covers.
    pub rows: Range<usize>,
    /// Distance between rows.
    width: usize,
    /// The hidden state.
    pub hidden: Block,
    /// The cell state, if there is one.
    pub cell: Block,
}

impl StateBlock {
    /// The places of a [`Block`] that its rows take.
    pub fn used(&self) -> usize {
        self.rows.len() * self.width
    }
}

/// What the sums of a gate start with.
#[derive(Clone, Copy)]
pub enum Start {
    /// The product of input and weights, with the bias, and the recurrent one unless the gate is
    /// [separate](Cell::separate).
    Input,
    /// The recurrent bias.
    RecurrentBias,
}

/// The recurrent weights of one direction for all gates, in panels.
#[derive(Clone, Copy)]
enum GatePanels<'a> {
    /// One operand per gate, packed when the graph was built.
    Kept(&'a [Panels]),
    /// Widened or packed for this run: gates, depth blocks, and panels.
    Wide(&'a [f32]),
}

/// One time step of one direction.
pub struct Moment<'a> {
    env: &'a Env<'a>,
    sizes: NetworkSizes,
    /// Products of the inputs of this step with the weights: `[batch, gates * hidden]`.
    inputs: &'a [f32],
    recurrent: GatePanels<'a>,
    recurrent_bias: Option<Floats<'a>>,
    peephole: Option<Floats<'a>>,
    /// The hidden state before this step, `[batch, hidden]`.
    hidden: &'a [f32],
}

impl<'a> Moment<'a> {
    /// With what the step runs.
    pub fn env(&self) -> &'a Env<'a> {
        self.env
    }

    /// The hidden state before this step, `[batch, hidden]`.
    pub fn hidden(&self) -> &'a [f32] {
        self.hidden
    }

    /// `h * R^T` of the gates at these places, added to what they start with; `h` is `[batch, hidden]`.
    pub fn sums<const N: usize>(&self, gates: [(usize, Start); N], h: &[f32], block: &StateBlock) -> [Block; N] {
        let mut sums = gates.map(|(place, start)| self.start(place, start, block));
        let hidden = self.sizes.hidden;
        for part in depth_blocks(hidden) {
            let panels = gates.map(|(place, _)| self.panel(place, block.units.start, part.clone()));
            let h = &h[block.rows.start * hidden + part.start..];
            add_products(self.env.isa, h, [block.rows.len(), hidden, part.len()], panels, &mut sums);
        }
        sums
    }

    /// What the sums of the gate at `place` start with.
    pub fn start(&self, place: usize, start: Start, block: &StateBlock) -> Block {
        let mut sums = [0.0; BLOCK];
        let (hidden, units) = (self.sizes.hidden, block.units.clone());
        for (row, sums) in block.rows.clone().zip(sums.chunks_exact_mut(block.width)) {
            let sums = &mut sums[..units.len()];
            match start {
                Start::Input => {
                    let inputs = &self.inputs[row * self.sizes.sums() + place * hidden..][units.clone()];
                    sums.copy_from_slice(inputs);
                }
                Start::RecurrentBias => {
                    if let Some(bias) = self.recurrent_bias {
                        bias.after(place * hidden + units.start).widen(self.env.isa, sums);
                    }
                }
            }
        }
        sums
    }

    /// The peephole weights of the gate with the number `index`, repeated for each row of the block.
    pub fn peephole(&self, index: usize, block: &StateBlock) -> Option<Block> {
        let weights = self.peephole?.after(index * self.sizes.hidden + block.units.start);
        let mut repeated = [0.0; BLOCK];
        for row in repeated.chunks_exact_mut(block.width).take(block.rows.len()) {
            weights.widen(self.env.isa, &mut row[..block.units.len()]);
        }
        Some(repeated)
    }

    /// The panel of the gate at `place` that starts at `unit`, for one depth block.
    fn panel(&self, place: usize, unit: usize, part: Range<usize>) -> &'a [f32] {
        let (isa, hidden) = (self.env.isa, self.sizes.hidden);
        match self.recurrent {
            GatePanels::Kept(gates) => gates[place].extract(isa, unit, part, &mut []),
            GatePanels::Wide(panels) => {
                let width = tile_size(isa).cols;
                let start = hidden.next_multiple_of(width) * (place * hidden + part.start) + unit * part.len();
                &panels[start..][..width * part.len()]
            }
        }
    }
}

/// A recurrent network, ready to run.
struct Network {
    sizes: NetworkSizes,
    dtype: DataType,
    direction: Direction,
    places: OperandPlaces,
    /// Multiply all inputs with the weights of a direction.
    inputs: Vec<MatmulStep>,
    packs_weight: bool,
    /// The packed recurrent weights of each direction and gate if they are constant.
    recurrent: Option<Vec<Panels>>,
    /// Units of a panel.
    width: usize,
}

/// Lengths of the parts of scratch memory, in floats.
struct ScratchParts {
    /// Of each direction: recurrent weights as panels.
    weights: usize,
    /// For the product of inputs and weights.
    product: usize,
    /// The biases of a direction.
    bias: usize,
    /// Of each direction: sums of the inputs, the hidden state, the hidden state after the reset gate, and the states.
    states: [usize; 4],
}

impl Network {
    /// Plans the network. `weights` are the weights and the recurrent weights if they are constant.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for packed weights, an `OperationError` when mapped ones cannot be read.
    fn new(
        env: &Env,
        sizes: NetworkSizes,
        dtype: DataType,
        direction: Direction,
        places: OperandPlaces,
        [weight, recurrent]: [Option<Weights>; 2],
    ) -> Result<Network> {
        let strides = |row, col| MatrixStrides { batch: PerAxis::new(), row, col };
        let shape = MatmulShape {
            // The weights are transposed.
            b: strides(1, sizes.input),
            c: Some(strides(0, 1)),
            ..MatmulShape::plain(sizes.rows(), sizes.input, sizes.sums())
        };
        let of_direction = |d: usize| {
            let types = [dtype, DataType::Float32];
            let mut step = MatmulStep::new(env.isa, env.threads.count(), shape.clone(), types, false);
            if let Some(weight) = weight {
                step.prepack_b(weight.skip(d * sizes.sums() * sizes.input))?;
            }
            Ok(step)
        };
        let inputs = (0..direction.count()).map(of_direction).collect::<Result<_>>()?;
        let width = tile_size(env.isa).cols;
        let hidden = sizes.hidden;
        let pack = |recurrent: Weights| -> Result<Vec<Panels>> {
            let gate = |gate: usize| {
                let layout = Layout::Strided { lane_stride: hidden, depth_stride: 1 };
                Panels::new(env.isa, recurrent.skip(gate * hidden * hidden), layout, hidden, hidden, width)
            };
            (0..direction.count() * sizes.gates).map(gate).collect()
        };
        let recurrent = recurrent.map(pack).transpose()?;
        Ok(Network { sizes, dtype, direction, places, inputs, packs_weight: weight.is_some(), recurrent, width })
    }

    /// The memory of the packed weights.
    fn packed(&self) -> Vec<&Arc<Buffer>> {
        let inputs = self.inputs.iter().flat_map(MatmulStep::packed);
        inputs.chain(self.recurrent.iter().flatten().map(Panels::buffer)).collect()
    }

    fn parts(&self, resets: bool) -> ScratchParts {
        let NetworkSizes { batch, hidden, gates, states, .. } = self.sizes;
        let in_place = self.recurrent.is_some() && self.dtype == DataType::Float32;
        let state = batch * hidden;
        ScratchParts {
            weights: if in_place { 0 } else { gates * hidden.next_multiple_of(self.width) * hidden },
            product: self.inputs[0].scratch_len(),
            bias: self.sizes.sums(),
            states: [self.sizes.rows() * self.sizes.sums(), state, if resets { state } else { 0 }, states * state],
        }
    }

    fn scratch_bytes(&self, resets: bool) -> usize {
        let ScratchParts { weights, product, bias, states } = self.parts(resets);
        (self.direction.count() * (weights + states.iter().sum::<usize>()) + product + bias) * size_of::<f32>()
    }

    /// Runs `cell` over all directions and time steps.
    fn run(&self, env: &Env, io: &mut Io, cell: &impl Cell) {
        let NetworkSizes { batch, hidden, states, .. } = self.sizes;
        let (count, parts) = (self.direction.count(), self.parts(cell.resets()));
        let (weights, rest) = io.scratch::<f32>().split_at_mut(count * parts.weights);
        let (product, rest) = rest.split_at_mut(parts.product);
        let (bias, rest) = rest.split_at_mut(parts.bias);
        let own = parts.states.iter().sum::<usize>();
        let memory = &mut rest[..count * own];
        let operand = |place: Option<usize>| place.and_then(|index| io.floats(index, self.dtype));
        let input = io.floats(0, self.dtype);
        for (d, memory) in memory.chunks_exact_mut(own).enumerate() {
            self.add_biases(env, cell, [operand(self.places.bias), operand(self.places.recurrent_bias)], d, bias);
            let weight = io.floats(1, self.dtype).filter(|_| !self.packs_weight);
            let weight = weight.map(|all| all.after(d * self.sizes.sums() * self.sizes.input));
            let sums = FloatsMut::F32(&mut memory[..parts.states[0]]);
            self.inputs[d].run(env, [input, weight], Some(Floats::F32(bias)), Tail::NONE, sums, product);
        }
        if parts.weights > 0 {
            let raw = io.floats(2, self.dtype);
            for_each_chunk(env.threads, weights, parts.weights, 1, parts.weights, |first, weights| {
                for (d, weights) in weights.chunks_exact_mut(parts.weights).enumerate() {
                    self.widen(env, first + d, raw, weights);
                }
            });
        }
        let (weights, cost) = (&*weights, self.sizes.rows() * self.sizes.sums() * hidden);
        let run = |d: usize, memory: &mut [f32]| {
            let (sums, memory) = memory.split_at_mut(parts.states[0]);
            let recurrent = match &self.recurrent {
                Some(kept) if parts.weights == 0 => GatePanels::Kept(&kept[d * self.sizes.gates..]),
                _ => GatePanels::Wide(&weights[d * parts.weights..]),
            };
            let part = |place: Option<usize>, len: usize| operand(place).map(|all| all.after(d * len));
            let moment = Moment {
                env,
                sizes: self.sizes,
                inputs: &[],
                recurrent,
                recurrent_bias: part(self.places.recurrent_bias, self.sizes.sums()),
                peephole: part(self.places.peephole, 3 * hidden),
                hidden: &[],
            };
            let first = [part(self.places.hidden, batch * hidden), part(self.places.cell, batch * hidden)];
            self.direction(moment, cell, d, first, sums, memory);
        };
        let step = batch * self.sizes.sums() * hidden;
        if step < SHARED_STEP * env.threads.count() {
            for_each_chunk(env.threads, memory, own, 1, cost, |first, memory| {
                memory.chunks_exact_mut(own).enumerate().for_each(|(d, memory)| run(first + d, memory));
            });
        } else {
            memory.chunks_exact_mut(own).enumerate().for_each(|(d, memory)| run(d, memory));
        }
        let state_of = |memory: &[f32], index: usize, out: FloatsMut, d: usize| {
            let state = &memory[own - (states - index) * batch * hidden..][..batch * hidden];
            with_floats!(FloatsMut, out, out => narrow(env.isa, state, &mut out[d * batch * hidden..][..batch * hidden]));
        };
        let mut last_hidden = io.floats_output(self.dtype);
        let mut last_cell = (states == 2).then(|| io.floats_output(self.dtype));
        let mut sequence = (io.outputs_left() > 0).then(|| io.floats_output(self.dtype));
        for (d, memory) in memory.chunks_exact(own).enumerate() {
            state_of(memory, 0, last_hidden.reborrow(), d);
            if let Some(last_cell) = &mut last_cell {
                state_of(memory, 1, last_cell.reborrow(), d);
            }
            if let Some(sequence) = &mut sequence {
                self.store_sequence(env, d, memory, sequence.reborrow());
            }
        }
    }

    /// What is added to the products of inputs and weights of direction `d`.
    fn add_biases(&self, env: &Env, cell: &impl Cell, biases: [Option<Floats>; 2], d: usize, out: &mut [f32]) {
        let (hidden, [bias, recurrent]) = (self.sizes.hidden, biases);
        let own = |all: Option<Floats<'_>>, to: &mut [f32]| match all {
            Some(all) => all.after(d * self.sizes.sums()).widen(env.isa, to),
            None => to.fill(0.0),
        };
        own(bias, out);
        let Some(recurrent) = recurrent else { return };
        for (place, out) in out.chunks_exact_mut(hidden).enumerate() {
            if cell.separate() != Some(place) {
                let recurrent = recurrent.after(d * self.sizes.sums() + place * hidden);
                out.iter_mut().enumerate().for_each(|(unit, x)| *x += recurrent.at(unit));
            }
        }
    }

    /// The recurrent weights of direction `d` as panels of floats: `raw` ones, or those that are kept.
    fn widen(&self, env: &Env, d: usize, raw: Option<Floats>, out: &mut [f32]) {
        let NetworkSizes { gates, hidden, .. } = self.sizes;
        let padded = hidden.next_multiple_of(self.width);
        for (gate, out) in out.chunks_exact_mut((padded * hidden).max(1)).enumerate() {
            let gate = d * gates + gate;
            for part in depth_blocks(hidden) {
                let panels = &mut out[padded * part.start..][..padded * part.len()];
                let starts = (0..hidden).step_by(self.width);
                for (start, panel) in starts.zip(panels.chunks_exact_mut(self.width * part.len())) {
                    if let Some(kept) = &self.recurrent {
                        kept[gate].extract(env.isa, start, part.clone(), panel);
                        continue;
                    }
                    let data = raw.expect("the weights were not packed").after(gate * hidden * hidden);
                    let columns = Columns::Strided(Strided { data, lane_stride: hidden, depth_stride: 1 });
                    let lanes = start..(start + self.width).min(hidden);
                    columns.pack(env.isa, lanes, part.clone(), self.width, panel);
                }
            }
        }
    }

    /// All time steps of direction `d`. The first features of `sums`, which has what [`Moment::inputs`] are for each step,
    /// become the hidden states after the steps; the last part of `memory` the last states.
    fn direction(
        &self,
        moment: Moment,
        cell: &impl Cell,
        d: usize,
        [first_hidden, first_cell]: [Option<Floats>; 2],
        sums: &mut [f32],
        memory: &mut [f32],
    ) {
        let NetworkSizes { steps, batch, hidden, .. } = self.sizes;
        let isa = moment.env.isa;
        let (h, memory) = memory.split_at_mut(batch * hidden);
        let (reset, state) = memory.split_at_mut(if cell.resets() { batch * hidden } else { 0 });
        for (state, first) in state.chunks_exact_mut(batch * hidden).zip([first_hidden, first_cell]) {
            match first {
                Some(first) => first.widen(isa, state),
                None => state.fill(0.0),
            }
        }
        for step in 0..steps {
            let time = self.direction.time(d, step, steps);
            h.copy_from_slice(&state[..batch * hidden]);
            let inputs = &mut sums[time * batch * self.sizes.sums()..][..batch * self.sizes.sums()];
            let now = Moment { inputs, hidden: h, ..moment };
            if cell.resets() {
                self.for_each_block(&now, state, &|block| cell.reset(&now, block));
                let (hidden_state, _) = state.split_at_mut(batch * hidden);
                reset.copy_from_slice(hidden_state);
                // The blocks of the second pass start from the hidden state again.
                hidden_state.copy_from_slice(h);
            }
            let reset = if cell.resets() { &*reset } else { &*h };
            self.for_each_block(&now, state, &|block| cell.advance(&now, reset, block));
            for (inputs, state) in inputs.chunks_exact_mut(self.sizes.sums()).zip(state.chunks_exact(hidden)) {
                inputs[..hidden].copy_from_slice(state);
            }
        }
    }

    /// Calls `work` with the blocks of the states, `[states, batch, hidden]`, in parallel over units.
    fn for_each_block(&self, moment: &Moment, state: &mut [f32], work: &(dyn Fn(&mut StateBlock) + Sync)) {
        let NetworkSizes { batch, hidden, gates, states, .. } = self.sizes;
        let shape = [1, states * batch, hidden];
        let cost = gates * hidden / states;
        for_each_column_block(moment.env.threads, state, shape, self.width, cost, |_, first, count, mut columns| {
            for start in (0..batch).step_by(ROWS) {
                let (rows, units) = (start..(start + ROWS).min(batch), first..first + count);
                let mut block = StateBlock {
                    units,
                    rows: rows.clone(),
                    width: self.width,
                    hidden: [0.0; BLOCK],
                    cell: [0.0; BLOCK],
                };
                for (row, at) in rows.clone().zip((0..).step_by(self.width)) {
                    block.hidden[at..at + count].copy_from_slice(columns.row(row));
                    if states == 2 {
                        block.cell[at..at + count].copy_from_slice(columns.row(batch + row));
                    }
                }
                work(&mut block);
                for (row, at) in rows.zip((0..).step_by(self.width)) {
                    columns.row(row).copy_from_slice(&block.hidden[at..at + count]);
                    if states == 2 {
                        columns.row(batch + row).copy_from_slice(&block.cell[at..at + count]);
                    }
                }
            }
        });
    }

    /// Writes the hidden states of direction `d` after all steps, which are the first features of `sums`.
    fn store_sequence(&self, env: &Env, d: usize, sums: &[f32], out: FloatsMut) {
        let NetworkSizes { steps, batch, hidden, .. } = self.sizes;
        let count = self.direction.count();
        with_floats!(FloatsMut, out, out => {
            for row in 0..steps * batch {
                let to = &mut out[(row / batch * count + d) * batch * hidden + row % batch * hidden..][..hidden];
                narrow(env.isa, &sums[row * self.sizes.sums()..][..hidden], to);
            }
        });
    }
}
