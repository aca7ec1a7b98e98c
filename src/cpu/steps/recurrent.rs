//! The common part of the recurrent operators: multiplies the inputs of all time steps with their weights, then loops
//! over time steps. A cell operator is a sequence of one step.
//!
//! A time step is computed in blocks of units (features of the hidden state): the weights of a block are one panel per
//! gate, and the gates are applied while the sums are in cache. Threads share the blocks of all directions of a step; if
//! that is not worthwhile, a direction is the work of one thread. All computation is in `f32`.

use super::block_product::SPEED;
use super::matmul::{MatmulShape, MatmulStep, MatrixStrides};
use super::{Env, Run};
use crate::cpu::kernels::float::Floats;
use crate::cpu::memory::Io;
use crate::cpu::product::blocks::BlockPanels;
use crate::cpu::product::blocks::rounding::Rounding;
use crate::cpu::product::finish::Tail;
use crate::cpu::product::matrix::{Matrix, StridedMatrix};
use crate::cpu::product::panel_data::PanelData;
use crate::cpu::product::panels::{Layout, Panels, depth_blocks};
use crate::cpu::product::recurrent::{GateTerms, PanelOutputs, UNITS, multiply_panels};
use crate::cpu::product::tile::{MAX_PANELS, tile_size};
use crate::cpu::schedule::shared::{for_each_chunk, for_each_column_block};
use crate::cpu::simd::Kernel;
use crate::cpu::weights::Weights;
use crate::error::Result;
use crate::memory::{Buffer, ColumnBlock};
use crate::ops::recurrent::Direction;
use crate::shape::{Descriptor, PerAxis};
use std::ops::Range;
use std::sync::Arc;

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
    /// Number of directions.
    pub directions: usize,
}

impl NetworkSizes {
    /// The sizes for `C` and an input of shape `[steps, batch, input]`, or `[batch, input]` for a single step.
    fn new<C: Cell>(input: &[u32], hidden: u32, direction: Direction) -> NetworkSizes {
        let (steps, &[batch, features]) = input.split_last_chunk().expect("the rule requires rank 2");
        NetworkSizes {
            steps: steps.iter().product::<u32>() as usize,
            batch: batch as usize,
            input: features as usize,
            hidden: hidden as usize,
            gates: C::GATES,
            states: C::STATES,
            directions: direction.count(),
        }
    }

    /// Rows of input.
    fn rows(&self) -> usize {
        self.steps * self.batch
    }

    /// Rows of the weights of a direction.
    fn sums(&self) -> usize {
        self.gates * self.hidden
    }

    /// Number of units in all blocks, including padding.
    fn padded(&self) -> usize {
        self.hidden.next_multiple_of(UNITS)
    }

    /// Number of rows of a [`StateBlock`].
    fn block_rows(&self) -> usize {
        (self.states + self.gates) * self.batch
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

    /// Writes the hidden state to multiply with the recurrent weights to `block`.
    fn reset(&self, _moment: &Moment, _block: &mut StateBlock) {}

    /// Writes the new states to `block`.
    fn advance(&self, moment: &Moment, block: &mut StateBlock);
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
        let sizes = NetworkSizes::new::<C>(&input.sizes(), hidden, direction);
        let [weight, recurrent] = weights;
        let recurrent = recurrent.map(|weights| pack_floats(env, &sizes, weights)).transpose()?.map(Kept::Floats);
        Ok(RecurrentStep { cell, network: Network::new(env, sizes, direction, places, weight, recurrent)? })
    }

    /// The same with quantized recurrent weights: the columns of each direction and gate, which start at a panel. Hidden
    /// states are rounded to 8 bits.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_bytes(
        env: &Env,
        cell: C,
        input: &Descriptor,
        hidden: u32,
        direction: Direction,
        places: OperandPlaces,
        (weight, recurrent): (Option<Weights>, BlockPanels),
    ) -> Result<RecurrentStep<C>> {
        let sizes = NetworkSizes::new::<C>(&input.sizes(), hidden, direction);
        let network = Network::new(env, sizes, direction, places, weight, Some(Kept::Bytes(recurrent)))?;
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
        self.network.lens.bytes(&self.network.sizes)
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        self.network.packed()
    }
}

/// Some units of the states and of the gates' sums.
pub struct StateBlock<'a> {
    /// The units, including padding: whole [`UNITS`].
    pub units: Range<usize>,
    /// Rows of the batch.
    pub batch: usize,
    /// Number of states.
    states: usize,
    /// The rows of the states, followed by those of the sums: `[states + gates, batch]`. The hidden state, which comes
    /// first, is only written.
    columns: ColumnBlock<'a, f32>,
}

impl StateBlock<'_> {
    /// The states of row `row` of the batch, and its sums at `slots`.
    pub fn row<const STATES: usize, const N: usize>(
        &mut self,
        row: usize,
        slots: [usize; N],
    ) -> ([&mut [f32]; STATES], [&mut [f32]; N]) {
        let states = std::array::from_fn(|state| state * self.batch + row);
        self.columns.several(states, slots.map(|slot| (self.states + slot) * self.batch + row))
    }

    /// Computes `h * R^T` for the gates at these positions into the slots from `first` on; `h` is `[batch, hidden]`, the
    /// state that was remembered last.
    pub fn multiply<const N: usize>(&mut self, moment: &Moment, places: [usize; N], first: usize, h: &[f32]) {
        let StepOperands { env, sizes: NetworkSizes { batch, hidden, .. }, .. } = *moment.operands;
        let (first, width) = ((self.states + first) * batch, tile_size(env.isa).cols);
        if let RecurrentPanels::Bytes(panels, rounding) = moment.operands.recurrent {
            return self.multiply_rounded(moment, places, first, (panels, rounding));
        }
        // A single gate takes several neighboring panels at once.
        let (at_once, apart) = if N == 1 { (MAX_PANELS, [0, width]) } else { (1, [batch, 0]) };
        let panels = self.units.len().min(hidden - self.units.start).div_ceil(width);
        let groups = panels.div_ceil(at_once);
        for group in 0..groups {
            // If the weights exceed the caches, every second step starts with those that the step before it left there.
            let group = if moment.step.is_multiple_of(2) { group } else { groups - 1 - group };
            let group = group * at_once..panels.min((group + 1) * at_once);
            let outputs = PanelOutputs { first: [first, group.start * width], apart };
            for depth in depth_blocks(hidden) {
                let panel = |index: usize| {
                    places.map(|place| moment.panel(place, self.units.start + index * width, depth.clone()))
                };
                let (h, size) = (&h[depth.start..], [batch, hidden, depth.len()]);
                let panels = group.clone().flat_map(panel);
                multiply_panels(env.isa, h, size, panels, &mut self.columns, outputs, depth.start > 0);
            }
        }
    }

    /// The same for the rounded hidden state; `first` is a row of the block.
    fn multiply_rounded<const N: usize>(
        &mut self,
        moment: &Moment,
        places: [usize; N],
        first: usize,
        (panels, rounding): (&BlockPanels, Rounding),
    ) {
        let StepOperands { env, sizes: NetworkSizes { batch, hidden, gates, .. }, .. } = *moment.operands;
        let (width, row_len) = (tile_size(env.isa).cols, rounding.row_len());
        for (first, place) in (first..).step_by(batch).zip(places) {
            let gate = (moment.d * gates + place) * hidden.next_multiple_of(width);
            let columns = gate + self.units.start..gate + self.units.end.min(hidden);
            for (row, rounded) in moment.rounded.chunks_exact(row_len).take(batch).enumerate() {
                panels.multiply_rounded(rounding, rounded, columns.clone(), self.columns.row(first + row));
            }
        }
    }
}

/// The recurrent weights of all directions and gates, in panels.
#[derive(Clone, Copy)]
enum RecurrentPanels<'a> {
    /// One operand per gate, packed when the graph was built.
    Kept(&'a [Panels]),
    /// One operand for all gates, whose columns start at panels, and the rounding of hidden states.
    Bytes(&'a BlockPanels, Rounding),
    /// Packed for this run; ordered by gate, depth block and panel.
    Packed(&'a [f32]),
}

/// What all time steps read. At least [`UNITS`] more numbers follow the last one of each slice.
struct StepOperands<'a> {
    env: &'a Env<'a>,
    sizes: NetworkSizes,
    direction: Direction,
    /// Products of all inputs with the weights: `[steps, batch, directions, gates, hidden]`.
    inputs: &'a [f32],
    recurrent: RecurrentPanels<'a>,
    /// The bias and the recurrent bias: `[directions, gates, hidden]`.
    biases: [&'a [f32]; 2],
    /// `[directions, 3, hidden]`
    peephole: Option<&'a [f32]>,
}

/// One time step of one direction.
pub struct Moment<'a> {
    operands: &'a StepOperands<'a>,
    /// The direction.
    d: usize,
    /// The number of the step, counted in that direction.
    step: usize,
    /// The hidden state before this step, `[batch, hidden]`.
    pub hidden: &'a [f32],
    /// The hidden state after the reset gate, `[batch, hidden]`, if the cell has one.
    pub reset: &'a [f32],
    /// The rows of the state that was remembered last, if they are rounded.
    rounded: &'a [f32],
}

impl<'a> Moment<'a> {
    /// Runs a kernel.
    pub fn run(&self, kernel: impl Kernel) {
        self.operands.env.isa.run(kernel);
    }

    /// The hidden state before this step, of row `row` of the batch, from the first unit of a block on.
    pub fn before(&self, row: usize, units: &Range<usize>) -> &'a [f32] {
        &self.hidden[row * self.operands.sizes.hidden + units.start..]
    }

    /// What the gate at `place` adds up for row `row` of the batch and the units of a block, given its products with the
    /// hidden state.
    pub fn gate<'g>(&'g self, place: usize, row: usize, units: &Range<usize>, recurrent: &'g [f32]) -> GateTerms<'g> {
        let StepOperands { sizes, direction, inputs, biases, .. } = self.operands;
        let row = direction.time(self.d, self.step, sizes.steps) * sizes.batch + row;
        let first = self.d * sizes.sums() + place * sizes.hidden + units.start;
        let [bias, recurrent_bias] = biases.map(|bias| &bias[first..]);
        GateTerms { input: &inputs[row * sizes.directions * sizes.sums() + first..], bias, recurrent, recurrent_bias }
    }

    /// The peephole weights of the units of a block, for each gate that has some.
    pub fn peephole(&self, units: &Range<usize>) -> Option<[&'a [f32]; 3]> {
        let hidden = self.operands.sizes.hidden;
        let peephole = self.operands.peephole?;
        Some([0, 1, 2].map(|gate| &peephole[(3 * self.d + gate) * hidden + units.start..]))
    }

    /// The panel of the gate at `place` that starts at `unit`, for one depth block.
    fn panel(&self, place: usize, unit: usize, depth: Range<usize>) -> PanelData<'a> {
        let StepOperands { env, sizes: NetworkSizes { gates, hidden, .. }, recurrent, .. } = *self.operands;
        let (gate, width) = (self.d * gates + place, tile_size(env.isa).cols);
        match recurrent {
            RecurrentPanels::Kept(gates) => gates[gate].block(unit..(unit + width).min(hidden), depth),
            RecurrentPanels::Bytes(..) => unreachable!("panels of floats"),
            RecurrentPanels::Packed(panels) => {
                let start = hidden.next_multiple_of(width) * (gate * hidden + depth.start) + unit * depth.len();
                PanelData::F32(&panels[start..][..width * depth.len()])
            }
        }
    }
}

/// A compiled recurrent network.
struct Network {
    sizes: NetworkSizes,
    direction: Direction,
    places: OperandPlaces,
    /// The products of all inputs with the weights of all directions.
    inputs: MatmulStep,
    packs_weight: bool,
    /// The recurrent weights, if constant.
    recurrent: Option<Kept>,
    lens: ScratchLens,
}

/// Recurrent weights that were packed when the graph was built.
enum Kept {
    /// Of each direction and gate.
    Floats(Vec<Panels>),
    /// Of all directions and gates.
    Bytes(BlockPanels),
}

impl Kept {
    /// The rounding of hidden states, if they are rounded.
    fn rounding(&self, sizes: &NetworkSizes) -> Option<(&BlockPanels, Rounding)> {
        let Kept::Bytes(panels) = self else { return None };
        Some((panels, panels.rounding(sizes.hidden, true)))
    }
}

/// Packs the recurrent weights of each direction and gate.
fn pack_floats(env: &Env, sizes: &NetworkSizes, weights: Weights) -> Result<Vec<Panels>> {
    let (hidden, width) = (sizes.hidden, tile_size(env.isa).cols);
    let gate = |gate: usize| {
        let layout = Layout::Strided { lane_stride: hidden, depth_stride: 1 };
        Panels::new(env.isa, weights.skip(gate * hidden * hidden), layout, hidden, hidden, width)
    };
    (0..sizes.directions * sizes.gates).map(gate).collect()
}

/// Lengths of the parts of the scratch memory, in floats: whole cache lines.
struct ScratchLens {
    /// Per gate: the recurrent weights as panels, unless they were packed when the graph was built.
    packed: usize,
    /// The scratch for the product of inputs and weights.
    product: usize,
    /// The products of the inputs.
    inputs: usize,
    /// The biases, the recurrent biases, and the peephole weights.
    constants: [usize; 3],
    /// Per direction: states and sums of gates.
    work: usize,
    /// Per direction: the hidden states before and after all steps, and the one after the reset gate; and rounded rows.
    history: usize,
    /// Where the rounded rows start among these.
    rounded: usize,
}

impl ScratchLens {
    /// The lengths for panels of `width` units, or none if their number is 0, and for rounded rows of this length.
    fn new(sizes: &NetworkSizes, inputs: &MatmulStep, width: usize, rounded: usize) -> ScratchLens {
        let &NetworkSizes { steps, batch, hidden, directions, .. } = sizes;
        let and_more = |len: usize| (len + UNITS).next_multiple_of(16);
        let sums = directions * sizes.sums();
        let states = and_more((steps + 2) * batch * hidden);
        ScratchLens {
            packed: if width == 0 { 0 } else { hidden.next_multiple_of(width) * hidden },
            product: inputs.scratch_len(),
            inputs: and_more(sizes.rows() * sums),
            constants: [sums, sums, 3 * directions * hidden].map(and_more),
            work: sizes.block_rows() * sizes.padded(),
            history: states + (batch * rounded).next_multiple_of(16),
            rounded: states,
        }
    }

    /// The bytes of all parts.
    fn bytes(&self, sizes: &NetworkSizes) -> usize {
        let of_direction = sizes.gates * self.packed + self.work + self.history;
        let constants: usize = self.constants.iter().sum();
        (sizes.directions * of_direction + self.product + self.inputs + constants) * size_of::<f32>()
    }
}

impl Network {
    /// Plans the network. `weight` are the weights, if constant.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed weights, an `OperationError` if mapped ones cannot be
    /// read.
    fn new(
        env: &Env,
        sizes: NetworkSizes,
        direction: Direction,
        places: OperandPlaces,
        weight: Option<Weights>,
        recurrent: Option<Kept>,
    ) -> Result<Network> {
        let strides = |row, col| MatrixStrides { batch: PerAxis::new(), row, col };
        let shape = MatmulShape {
            // The weights are transposed.
            b: strides(1, sizes.input),
            ..MatmulShape::plain(sizes.rows(), sizes.input, sizes.directions * sizes.sums())
        };
        let mut inputs = MatmulStep::new(env.isa, env.threads.count(), shape, false, false);
        if let Some(weight) = weight {
            inputs.prepack(1, weight)?;
        }
        let width = if recurrent.is_some() { 0 } else { tile_size(env.isa).cols };
        let rounding = recurrent.as_ref().and_then(|recurrent| recurrent.rounding(&sizes));
        let lens = ScratchLens::new(&sizes, &inputs, width, rounding.map_or(0, |(_, rounding)| rounding.row_len()));
        Ok(Network { sizes, direction, places, inputs, packs_weight: weight.is_some(), recurrent, lens })
    }

    /// The buffers of the packed weights.
    fn packed(&self) -> Vec<&Arc<Buffer>> {
        let (floats, bytes) = match &self.recurrent {
            Some(Kept::Floats(gates)) => (&gates[..], None),
            Some(Kept::Bytes(panels)) => (&[][..], Some(panels.buffer())),
            None => (&[][..], None),
        };
        self.inputs.packed().chain(floats.iter().map(Panels::buffer)).chain(bytes).collect()
    }

    /// Runs `cell` over all directions and time steps.
    fn run(&self, env: &Env, io: &mut Io, cell: &impl Cell) {
        let NetworkSizes { steps, batch, hidden, gates, directions, .. } = self.sizes;
        let lens = &self.lens;
        let mut rest = io.scratch::<f32>();
        let mut take = |len: usize| rest.split_off_mut(..len).expect("as long as planned");
        let (packed, product, inputs) = (take(directions * gates * lens.packed), take(lens.product), take(lens.inputs));
        let [bias, recurrent_bias, peephole] = lens.constants.map(&mut take);
        let (work, history) = (take(directions * lens.work), take(directions * lens.history));

        let operand = |place: Option<usize>| place.and_then(|index| io.optional::<f32>(index));
        let weight = operand(Some(1)).filter(|_| !self.packs_weight);
        let products = &mut inputs[..self.sizes.rows() * directions * gates * hidden];
        let operands = (operand(Some(0)), weight.map(Floats::F32), None);
        self.inputs.run(env.isa, env.threads.into(), operands, Tail::NONE, products, product);
        self.pack(env, operand(Some(2)), packed);
        // Absent operands are 0.
        let copy = |place: Option<usize>, start: usize, to: &mut [f32]| match operand(place) {
            Some(from) => to.copy_from_slice(&from[start..][..to.len()]),
            None => to.fill(0.0),
        };
        copy(self.places.bias, 0, &mut bias[..directions * gates * hidden]);
        copy(self.places.recurrent_bias, 0, &mut recurrent_bias[..directions * gates * hidden]);
        copy(self.places.peephole, 0, &mut peephole[..directions * 3 * hidden]);
        for (d, (work, history)) in self.of_directions(work, history).enumerate() {
            let state = batch * hidden;
            copy(self.places.hidden, d * state, &mut history[..state]);
            for (row, cell) in self.state(work, 1).enumerate() {
                copy(self.places.cell, d * state + row * hidden, cell);
            }
        }

        let recurrent = match &self.recurrent {
            Some(Kept::Floats(gates)) => RecurrentPanels::Kept(gates),
            Some(Kept::Bytes(panels)) => RecurrentPanels::Bytes(panels, panels.rounding(hidden, true)),
            None => RecurrentPanels::Packed(packed),
        };
        let operands = StepOperands {
            env,
            sizes: self.sizes,
            direction: self.direction,
            inputs,
            recurrent,
            biases: [bias, recurrent_bias],
            peephole: operand(self.places.peephole).map(|_| &*peephole),
        };
        let cost = directions * gates * hidden * batch * hidden / self.speed();
        if env.threads.useful(cost) > directions {
            self.advance(&operands, cell, 0, work, history);
        } else {
            let mut each = self.of_directions(work, history);
            let mut each = [each.next(), each.next()];
            for_each_chunk(env.threads, &mut each[..directions], 1, 1, steps * cost / directions, |first, each| {
                for (d, (work, history)) in each.iter_mut().flatten().enumerate() {
                    self.advance(&operands, cell, first + d, work, history);
                }
            });
        }
        self.store(env, io, work, history);
    }

    /// The parts of each direction.
    fn of_directions<'m>(
        &self,
        work: &'m mut [f32],
        history: &'m mut [f32],
    ) -> impl Iterator<Item = (&'m mut [f32], &'m mut [f32])> {
        work.chunks_exact_mut(self.lens.work).zip(history.chunks_exact_mut(self.lens.history))
    }

    /// The rows of state number `index` of a direction; none if there is no such state.
    fn state<'w>(&self, work: &'w mut [f32], index: usize) -> impl Iterator<Item = &'w mut [f32]> {
        let NetworkSizes { batch, hidden, states, .. } = self.sizes;
        let rows = work.chunks_exact_mut(self.sizes.padded()).take(states * batch).skip(index * batch).take(batch);
        rows.map(move |row| &mut row[..hidden])
    }

    /// Writes the recurrent weights as panels of floats, unless they were packed when the graph was built.
    fn pack(&self, env: &Env, raw: Option<&[f32]>, packed: &mut [f32]) {
        let (hidden, width, len) = (self.sizes.hidden, tile_size(env.isa).cols, self.lens.packed);
        for_each_chunk(env.threads, packed, len.max(1), 1, len, |first, packed| {
            for (gate, mut packed) in packed.chunks_exact_mut(len).enumerate() {
                let raw = raw.expect("the weights were not packed");
                let data = Floats::F32(&raw[(first + gate) * hidden * hidden..]);
                let columns = Matrix::Strided(StridedMatrix { data, lane_stride: hidden, depth_stride: 1 });
                for depth in depth_blocks(hidden) {
                    for start in (0..hidden).step_by(width) {
                        let panel = packed.split_off_mut(..width * depth.len()).expect("room for all panels");
                        columns.pack(env.isa, start..(start + width).min(hidden), depth.clone(), width, panel);
                    }
                }
            }
        });
    }

    /// Runs all time steps of the directions from `first` on to which `work` and `history` belong.
    fn advance(&self, operands: &StepOperands, cell: &impl Cell, first: usize, work: &mut [f32], history: &mut [f32]) {
        let steps = self.sizes.steps;
        self.round(history, 0);
        for step in 0..steps {
            if cell.resets() {
                self.for_each_block(operands, [first, step], work, history, &|moment, block| cell.reset(moment, block));
                self.remember(work, history, steps + 1);
            }
            self.for_each_block(operands, [first, step], work, history, &|moment, block| cell.advance(moment, block));
            self.remember(work, history, step + 1);
        }
    }

    /// Calls `call` with the blocks of all directions in `work`, in parallel.
    fn for_each_block(
        &self,
        operands: &StepOperands,
        [first, step]: [usize; 2],
        work: &mut [f32],
        history: &[f32],
        call: &(dyn Fn(&Moment, &mut StateBlock) + Sync),
    ) {
        let NetworkSizes { steps, batch, hidden, gates, states, .. } = self.sizes;
        let shape = [work.len() / self.lens.work, self.sizes.block_rows(), self.sizes.padded()];
        let cost = batch * gates * hidden / self.speed();
        for_each_column_block(operands.env.threads, work, shape, [UNITS, usize::MAX], cost, |d, units, columns| {
            let state = |index: usize| &history[d * self.lens.history + index * batch * hidden..];
            let rounded = &history[d * self.lens.history + self.lens.rounded..];
            let (hidden, reset) = (state(step), state(steps + 1));
            let moment = Moment { operands, d: first + d, step, hidden, reset, rounded };
            call(&moment, &mut StateBlock { units, batch, states, columns });
        });
    }

    /// Copies the hidden states of all directions in `work` to `history`, and rounds them if they are multiplied so.
    fn remember(&self, work: &mut [f32], history: &mut [f32], index: usize) {
        let NetworkSizes { batch, hidden, .. } = self.sizes;
        for (work, history) in self.of_directions(work, history) {
            let to = history[index * batch * hidden..].chunks_exact_mut(hidden);
            self.state(work, 0).zip(to).for_each(|(from, to)| to.copy_from_slice(from));
        }
        self.round(history, index);
    }

    /// Rounds the hidden states of all directions, if they are multiplied so.
    fn round(&self, history: &mut [f32], index: usize) {
        let NetworkSizes { batch, hidden, .. } = self.sizes;
        let Some((panels, rounding)) = self.recurrent.as_ref().and_then(|kept| kept.rounding(&self.sizes)) else {
            return;
        };
        for history in history.chunks_exact_mut(self.lens.history) {
            let (states, rounded) = history.split_at_mut(self.lens.rounded);
            let rows = states[index * batch * hidden..].chunks_exact(hidden).take(batch);
            rows.zip(rounded.chunks_exact_mut(rounding.row_len())).for_each(|(row, to)| {
                rounding.round(panels.format(), row, to);
            });
        }
    }

    /// How many products with the recurrent weights are computed in the time of one of floats.
    fn speed(&self) -> usize {
        if let Some(Kept::Bytes(_)) = self.recurrent { SPEED } else { 1 }
    }

    /// Writes the outputs.
    fn store(&self, env: &Env, io: &mut Io, work: &mut [f32], history: &[f32]) {
        let NetworkSizes { steps, batch, hidden, states, directions, .. } = self.sizes;
        let (direction, state) = (self.direction, batch * hidden);
        let remembered = |d: usize, index: usize| &history[d * self.lens.history + index * state..][..state];
        let each = io.output::<f32>().chunks_exact_mut(state).enumerate();
        each.for_each(|(d, out)| out.copy_from_slice(remembered(d, steps)));
        if states == 2 {
            let cells = work.chunks_exact_mut(self.lens.work).flat_map(|work| self.state(work, 1));
            let out = io.output::<f32>().chunks_exact_mut(hidden);
            out.zip(cells).for_each(|(out, cell)| out.copy_from_slice(cell));
        }
        if io.outputs_left() > 0 {
            for_each_chunk(env.threads, io.output::<f32>(), state, 1, state, |first, out| {
                for (index, out) in (first..).zip(out.chunks_exact_mut(state)) {
                    let (time, d) = (index / directions, index % directions);
                    out.copy_from_slice(remembered(d, 1 + direction.time(d, time, steps)));
                }
            });
        }
    }
}

#[cfg(test)]
#[path = "recurrent_tests.rs"]
mod tests;
