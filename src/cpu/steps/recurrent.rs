//! The common part of the recurrent operators: multiplies the inputs of all time steps with their weights, then loops
//! over directions and time steps. A cell operator is a sequence of one step.
//!
//! A time step is computed in blocks of units (features of the hidden state): the weights of a block are one panel per
//! gate, and the gates are applied while the sums are in cache. All computation is in `f32`.

use super::matmul::{MatmulShape, MatmulStep, MatrixStrides};
use super::{Env, Run};
use crate::cpu::kernels::float::{Floats, FloatsMut, narrow};
use crate::cpu::memory::Io;
use crate::cpu::product::finish::Tail;
use crate::cpu::product::matrix::{Matrix, StridedMatrix};
use crate::cpu::product::panels::{Layout, Panels, depth_blocks};
use crate::cpu::product::recurrent::{Gate, MAX_UNITS, add_products};
use crate::cpu::product::tile::tile_size;
use crate::cpu::schedule::shared::{for_each_chunk, for_each_column_block};
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::Buffer;
use crate::memory::ColumnBlock;
use crate::ops::recurrent::Direction;
use crate::shape::{Descriptor, PerAxis};
use crate::with_floats;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Multiply-adds of a time step per thread that make sharing its units worthwhile. With fewer, two directions are
/// computed side by side instead.
const SHARED_STEP: usize = 1 << 20;

/// Where the operands are whose position depends on the operator. `input`, `weight` and `recurrentWeight` always come
/// first.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperandPlaces {
    /// `bias`
    pub bias: Option<usize>,
    /// `recurrentBias`
    pub recurrent_bias: Option<usize>,
    /// `peepholeWeight`
    pub peephole: Option<usize>,
    /// The initial hidden state.
    pub hidden: Option<usize>,
    /// The initial cell state.
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
    /// Number of gates.
    pub gates: usize,
    /// Number of states: 2 with a cell state, otherwise 1.
    pub states: usize,
}

impl NetworkSizes {
    /// The sizes for `C` and an input of shape `[steps, batch, input]`, or `[batch, input]` for a single step.
    fn new<C: Cell>(input: &[u32], hidden: u32) -> NetworkSizes {
        let (steps, &[batch, features]) = input.split_last_chunk().expect("the rule requires rank 2");
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

/// The computation of a time step.
pub trait Cell: Sync {
    /// The kernel name.
    const KERNEL: &'static str;
    /// Number of gates.
    const GATES: usize;
    /// Number of states: 2 with a cell state, otherwise 1.
    const STATES: usize;

    /// Whether the hidden state goes through [`reset`](Cell::reset) first.
    fn resets(&self) -> bool {
        false
    }

    /// Replaces the hidden state in `block` by the one to multiply with the recurrent weights.
    fn reset(&self, _moment: &Moment, _block: &mut StateBlock) {}

    /// Replaces the states in `block` by the new ones. `reset` is the result of [`reset`](Cell::reset) for the whole
    /// hidden state `[batch, hidden]`, or that state itself.
    fn advance(&self, moment: &Moment, reset: &[f32], block: &mut StateBlock);
}

/// A recurrent operator: `cell` over all directions and time steps.
pub struct RecurrentStep<C> {
    cell: C,
    network: Network,
}

impl<C: Cell> RecurrentStep<C> {
    /// Creates the step for an input with this descriptor, `[steps, batch, input]` or `[batch, input]` for a single
    /// step, and a hidden state of `hidden` features; `weights` are the weights and the recurrent weights, if constant.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed weights, an `OperationError` if mapped ones cannot be
    /// read.
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

/// Some units of the states and of the gates' sums.
pub struct StateBlock<'a> {
    /// The units in this block.
    pub units: Range<usize>,
    /// Rows of the batch.
    pub batch: usize,
    /// Number of states.
    states: usize,
    /// The rows of the states, followed by those of the sums: `[states + gates, batch]`.
    columns: ColumnBlock<'a, f32>,
}

impl StateBlock<'_> {
    /// The states of row `row` of the batch, and its sums at `slots`.
    pub fn row<const STATES: usize, const N: usize>(
        &mut self,
        row: usize,
        slots: [usize; N],
    ) -> ([&mut [f32]; STATES], [&mut [f32]; N]) {
        let (batch, units) = (self.batch, self.units.len());
        let states = std::array::from_fn(|state| state * batch + row);
        let sums = slots.map(|slot| (self.states + slot) * batch + row);
        let (states, sums) = self.columns.several(states, sums);
        (states.map(|state| &mut state[..units]), sums.map(|sums| &mut sums[..units]))
    }

    /// Computes `h * R^T` for the gates at these positions into the slots from `first` on; `h` is `[batch, hidden]`.
    pub fn multiply<const N: usize>(&mut self, moment: &Moment, places: [usize; N], first: usize, h: &[f32]) {
        let (batch, hidden) = (self.batch, moment.sizes.hidden);
        let first = (self.states + first) * batch;
        (first..first + N * batch).for_each(|row| self.columns.row(row).fill(0.0));
        for part in depth_blocks(hidden) {
            let panels = places.map(|place| moment.panel(place, self.units.start, part.clone()));
            let size = [batch, hidden, part.len()];
            add_products(moment.env.isa, &h[part.start..], size, panels, &mut self.columns, first);
        }
    }
}

/// The recurrent weights of one direction for all gates, in panels.
#[derive(Clone, Copy)]
enum GatePanels<'a> {
    /// One operand per gate, packed when the graph was built.
    Kept(&'a [Panels]),
    /// Widened or packed for this run; ordered by gate, depth block and panel.
    Wide(&'a [f32]),
}

/// One time step of one direction.
pub struct Moment<'a> {
    env: &'a Env<'a>,
    sizes: NetworkSizes,
    /// Products of the inputs of this step with the weights: `[batch, gates * hidden]`.
    inputs: &'a [f32],
    recurrent: GatePanels<'a>,
    /// The bias and the recurrent bias.
    biases: [Option<Floats<'a>>; 2],
    peephole: Option<Floats<'a>>,
    /// The hidden state before this step, `[batch, hidden]`.
    hidden: &'a [f32],
}

impl<'a> Moment<'a> {
    /// The environment of the running step.
    pub fn env(&self) -> &'a Env<'a> {
        self.env
    }

    /// The hidden state before this step, `[batch, hidden]`.
    pub fn hidden(&self) -> &'a [f32] {
        self.hidden
    }

    /// The gate at `place` for row `row` of the batch and some units, given its products with the hidden state and its
    /// [biases](Self::biases).
    pub fn gate<'g>(
        &'g self,
        place: usize,
        row: usize,
        units: Range<usize>,
        recurrent: &'g [f32],
        [bias, recurrent_bias]: &'g [[f32; MAX_UNITS]; 2],
    ) -> Gate<'g> {
        let input = &self.inputs[row * self.sizes.sums() + place * self.sizes.hidden..][units];
        Gate { input, bias, recurrent, recurrent_bias }
    }

    /// The bias and the recurrent bias of the gate at `place` for the units of a block, at the start of the arrays; by
    /// default 0.
    pub fn biases(&self, place: usize, block: &StateBlock) -> [[f32; MAX_UNITS]; 2] {
        self.biases.map(|bias| {
            let mut own = [0.0; MAX_UNITS];
            if let Some(bias) = bias {
                let from = bias.after(place * self.sizes.hidden + block.units.start);
                from.widen(self.env.isa, &mut own[..block.units.len()]);
            }
            own
        })
    }

    /// The peephole weights of gate number `index`, at the start of the array.
    pub fn peephole(&self, index: usize, block: &StateBlock) -> Option<[f32; MAX_UNITS]> {
        let mut weights = [0.0; MAX_UNITS];
        let from = self.peephole?.after(index * self.sizes.hidden + block.units.start);
        from.widen(self.env.isa, &mut weights[..block.units.len()]);
        Some(weights)
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

/// A compiled recurrent network.
struct Network {
    sizes: NetworkSizes,
    dtype: DataType,
    direction: Direction,
    places: OperandPlaces,
    /// The products of all inputs with the weights of a direction.
    inputs: Vec<MatmulStep>,
    packs_weight: bool,
    /// The packed recurrent weights of each direction and gate, if constant.
    recurrent: Option<Vec<Panels>>,
    /// Units per panel.
    width: usize,
}

/// Lengths of the parts of the scratch memory, in floats.
struct ScratchParts {
    /// Per direction: the recurrent weights as panels.
    weights: usize,
    /// The scratch for the product of inputs and weights.
    product: usize,
    /// Per direction: states and sums of gates, hidden state, hidden state after the reset gate, and products of the
    /// inputs.
    states: [usize; 4],
}

impl ScratchParts {
    /// Length of the states of a direction in floats: whole cache lines.
    fn own(&self) -> usize {
        self.states.iter().sum::<usize>().next_multiple_of(16)
    }
}

impl Network {
    /// Plans the network. `weights` are the weights and the recurrent weights, if constant.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed weights, an `OperationError` if mapped ones cannot be
    /// read.
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

    /// The buffers of the packed weights.
    fn packed(&self) -> Vec<&Arc<Buffer>> {
        let inputs = self.inputs.iter().flat_map(MatmulStep::packed);
        inputs.chain(self.recurrent.iter().flatten().map(Panels::buffer)).collect()
    }

    /// Number of units in all panels, including padding.
    fn padded(&self) -> usize {
        self.sizes.hidden.next_multiple_of(self.width)
    }

    fn parts(&self, resets: bool) -> ScratchParts {
        let NetworkSizes { batch, hidden, gates, states, .. } = self.sizes;
        let in_place = self.recurrent.is_some() && self.dtype == DataType::Float32;
        let state = batch * hidden;
        ScratchParts {
            weights: if in_place { 0 } else { gates * self.padded() * hidden },
            product: self.inputs[0].scratch_len(),
            states: [
                (states + gates) * batch * self.padded(),
                state,
                if resets { state } else { 0 },
                self.sizes.rows() * self.sizes.sums(),
            ],
        }
    }

    fn scratch_bytes(&self, resets: bool) -> usize {
        let parts = self.parts(resets);
        (self.direction.count() * (parts.weights + parts.own()) + parts.product) * size_of::<f32>()
    }

    /// Runs `cell` over all directions and time steps.
    fn run(&self, env: &Env, io: &mut Io, cell: &impl Cell) {
        let NetworkSizes { batch, hidden, states, .. } = self.sizes;
        let (count, parts) = (self.direction.count(), self.parts(cell.resets()));
        let (weights, rest) = io.scratch::<f32>().split_at_mut(count * parts.weights);
        let (product, rest) = rest.split_at_mut(parts.product);
        let own = parts.own();
        let inputs = own - parts.states[3];
        let memory = &mut rest[..count * own];
        let operand = |place: Option<usize>| place.and_then(|index| io.floats(index, self.dtype));
        let input = io.floats(0, self.dtype);
        for (d, memory) in memory.chunks_exact_mut(own).enumerate() {
            let weight = io.floats(1, self.dtype).filter(|_| !self.packs_weight);
            let weight = weight.map(|all| all.after(d * self.sizes.sums() * self.sizes.input));
            let sums = FloatsMut::F32(&mut memory[inputs..]);
            self.inputs[d].run(env, [input, weight], None, Tail::NONE, sums, product);
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
            let (memory, sums) = memory.split_at_mut(inputs);
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
                biases: [self.places.bias, self.places.recurrent_bias].map(|place| part(place, self.sizes.sums())),
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
            with_floats!(FloatsMut, out, out => {
                for (row, out) in out[d * batch * hidden..].chunks_exact_mut(hidden).take(batch).enumerate() {
                    narrow(env.isa, &memory[(index * batch + row) * self.padded()..][..hidden], out);
                }
            });
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
                self.store_sequence(env, d, &memory[inputs..], sequence.reborrow());
            }
        }
    }

    /// Writes the recurrent weights of direction `d` as panels of floats, from `raw` weights or from the packed copy.
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
                    let columns = Matrix::Strided(StridedMatrix { data, lane_stride: hidden, depth_stride: 1 });
                    let lanes = start..(start + self.width).min(hidden);
                    columns.pack(env.isa, lanes, part.clone(), self.width, panel);
                }
            }
        }
    }

    /// Runs all time steps of direction `d`. `sums` holds [`Moment::inputs`] of each step; the steps overwrite its
    /// first features with their hidden states. The first rows of `memory` become the final states.
    fn direction(
        &self,
        moment: Moment,
        cell: &impl Cell,
        d: usize,
        [first_hidden, first_cell]: [Option<Floats>; 2],
        sums: &mut [f32],
        memory: &mut [f32],
    ) {
        let NetworkSizes { steps, batch, hidden, gates, states, .. } = self.sizes;
        let isa = moment.env.isa;
        let (work, memory) = memory.split_at_mut((states + gates) * batch * self.padded());
        let (h, reset) = memory.split_at_mut(batch * hidden);
        for (index, first) in [first_hidden, first_cell][..states].iter().enumerate() {
            for (row, state) in self.state(work, index).enumerate() {
                match first {
                    Some(first) => first.after(row * hidden).widen(isa, state),
                    None => state.fill(0.0),
                }
            }
        }
        for step in 0..steps {
            let (time, backwards) = (self.direction.time(d, step, steps), step % 2 == 1);
            copy_rows(self.state(work, 0), h.chunks_exact_mut(hidden));
            let inputs = &mut sums[time * batch * self.sizes.sums()..][..batch * self.sizes.sums()];
            let now = Moment { inputs, hidden: h, ..moment };
            if cell.resets() {
                self.for_each_block(&now, work, backwards, &|block| cell.reset(&now, block));
                copy_rows(self.state(work, 0), reset.chunks_exact_mut(hidden));
                // The blocks of the second pass start from the hidden state again.
                copy_rows(h.chunks_exact(hidden), self.state(work, 0));
            }
            let reset = if cell.resets() { &*reset } else { &*h };
            self.for_each_block(&now, work, backwards, &|block| cell.advance(&now, reset, block));
            copy_rows(self.state(work, 0), inputs.chunks_exact_mut(self.sizes.sums()));
        }
    }

    /// The rows of state number `index`.
    fn state<'w>(&self, work: &'w mut [f32], index: usize) -> impl Iterator<Item = &'w mut [f32]> {
        let NetworkSizes { batch, hidden, .. } = self.sizes;
        let rows = work.chunks_exact_mut(self.padded()).skip(index * batch).take(batch);
        rows.map(move |row| &mut row[..hidden])
    }

    /// Calls `call` with the blocks of the states and sums, `[states + gates, batch, padded]`, in parallel over units.
    /// Alternate time steps go `backwards`.
    fn for_each_block(
        &self,
        moment: &Moment,
        work: &mut [f32],
        backwards: bool,
        call: &(dyn Fn(&mut StateBlock) + Sync),
    ) {
        let NetworkSizes { batch, hidden, gates, states, .. } = self.sizes;
        let shape = [1, (states + gates) * batch, self.padded()];
        let cost = gates * hidden / (states + gates);
        for_each_column_block(moment.env.threads, work, shape, self.width, cost, backwards, |_, first, _, columns| {
            let units = first..(first + self.width).min(hidden);
            call(&mut StateBlock { units, batch, states, columns });
        });
    }

    /// Writes the hidden states of direction `d` after all steps: the first features of `sums`.
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

/// Copies rows to the starts of others.
fn copy_rows<'a>(from: impl Iterator<Item = impl Deref<Target = [f32]>>, to: impl Iterator<Item = &'a mut [f32]>) {
    from.zip(to).for_each(|(from, to)| to[..from.len()].copy_from_slice(&from));
}

#[cfg(test)]
#[path = "recurrent_tests.rs"]
mod tests;
