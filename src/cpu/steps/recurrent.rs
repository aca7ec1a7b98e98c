//! What the recurrent operators share: the product of the inputs of all time steps with their weights, and the loop
//! over directions and time steps. A cell operator is a sequence of one step.
//!
//! A time step is computed in blocks of units (features of the hidden state) and rows of the batch: the weights of a
//! block's units are a panel, with the units in the lanes of vectors, and the gates are applied while the sums are in
//! registers or cache. Everything is computed in `f32`.

use super::matmul::{MatmulShape, MatmulStep, MatrixStrides};
use super::{Env, Run};
use crate::cpu::kernels::float::{Float, widen};
use crate::cpu::memory::Io;
use crate::cpu::product::frame::Tail;
use crate::cpu::product::operand::{Operand, Strided, depth_blocks};
use crate::cpu::product::panels::{Layout, Packed};
use crate::cpu::product::recurrent::{PanelProducts, UNITS};
use crate::cpu::schedule::shared::for_each_chunk;
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::Buffer;
use crate::ops::recurrent::Direction;
use crate::shape::{Descriptor, PerAxis};
use half::f16;
use std::ops::Range;
use std::sync::Arc;

/// Rows of the batch in a block.
const ROWS: usize = 8;

/// The numbers of a block, each row of the batch in [`UNITS`] places.
pub type Block = [f32; UNITS * ROWS];

/// Fewer rows of input (time steps times batch) are multiplied with the weights step by step: a product of all of them
/// pays off when its tiles are full.
const MIN_PRODUCT_ROWS: usize = 4;

/// Where the operands are that not every recurrent operator has at the same place. `input`, `weight` and
/// `recurrentWeight` always come first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places {
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
pub struct Sizes {
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

impl Sizes {
    /// The sizes for `C` and an input of the shape `[steps, batch, input]`, or of one step `[batch, input]`.
    fn new<C: Cell>(input: &[u32], hidden: u32) -> Sizes {
        let (steps, &[batch, features]) = input.split_last_chunk().expect("the rule row requires rank 2");
        Sizes {
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
    /// Names of the kernels that multiply inputs and weights step by step, and for all time steps at once.
    const KERNELS: [&'static str; 2];
    /// Number of gates.
    const GATES: usize;
    /// Number of states: 2 with a cell state, otherwise 1.
    const STATES: usize;

    /// Whether the hidden state goes through [`reset`](Cell::reset) first.
    fn resets(&self) -> bool {
        false
    }

    /// Replaces the hidden state in `block` by the one that the recurrent weights are multiplied with.
    fn reset<T: Float>(&self, _moment: &Moment<T>, _block: &mut StateBlock) {}

    /// Replaces the states in `block` by the next ones. `reset` is what [`reset`](Cell::reset) made of the hidden
    /// state `[batch, hidden]`, or the state itself.
    fn advance<T: Float>(&self, moment: &Moment<T>, reset: &[f32], block: &mut StateBlock);
}

/// A recurrent operator: `cell` over all directions and time steps, for both floating-point types.
pub struct RecurrentStep<C> {
    cell: C,
    network: Typed,
}

enum Typed {
    Float(Box<Network<f32>>),
    Half(Box<Network<f16>>),
}

/// Evaluates `$body` with `$network` standing for the network of whichever type.
macro_rules! with_network {
    ($step:expr, $network:ident => $body:expr) => {
        match &$step.network {
            Typed::Float($network) => $body,
            Typed::Half($network) => $body,
        }
    };
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
        places: Places,
        weights: [Option<Weights>; 2],
    ) -> Result<RecurrentStep<C>> {
        let sizes = Sizes::new::<C>(&input.sizes(), hidden);
        let network = match input.dtype {
            DataType::Float16 => Typed::Half(Box::new(Network::new(env, sizes, direction, places, weights)?)),
            _ => Typed::Float(Box::new(Network::new(env, sizes, direction, places, weights)?)),
        };
        Ok(RecurrentStep { cell, network })
    }

    /// Whether the step keeps packed copies of the weights and of the recurrent weights.
    pub fn keeps_weights(&self) -> [bool; 2] {
        with_network!(self, network => [network.inputs.is_packed(), network.recurrent.is_some()])
    }
}

impl<C: Cell> Run for RecurrentStep<C> {
    fn kernel(&self) -> &'static str {
        C::KERNELS[with_network!(self, network => matches!(network.inputs, InputWeights::Product { .. })) as usize]
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_network!(self, network => network.run(env, io, &self.cell))
    }

    fn scratch_bytes(&self, _: usize) -> usize {
        with_network!(self, network => network.scratch_bytes(&self.cell))
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        with_network!(self, network => network.packed())
    }
}

/// A block of the states.
pub struct StateBlock {
    /// The units that it covers.
    pub units: Range<usize>,
    /// The rows of the batch that it covers.
    pub rows: Range<usize>,
    /// The hidden state.
    pub hidden: Block,
    /// The cell state, if there is one.
    pub cell: Block,
}

impl StateBlock {
    /// The places of a [`Block`] that its rows take.
    pub fn used(&self) -> usize {
        self.rows.len() * UNITS
    }

    /// The block of `state`, which holds all states of `units` for `batch` rows: `[units, states, batch]`.
    fn load(state: &[f32], units: Range<usize>, rows: Range<usize>, batch: usize) -> StateBlock {
        let unit = state.len() / units.len();
        let mut block = StateBlock { units, rows, hidden: [0.0; UNITS * ROWS], cell: [0.0; UNITS * ROWS] };
        for (i, state) in state.chunks_exact(unit).enumerate() {
            for (k, row) in block.rows.clone().enumerate() {
                block.hidden[k * UNITS + i] = state[row];
                if let Some(cell) = state.get(batch + row) {
                    block.cell[k * UNITS + i] = *cell;
                }
            }
        }
        block
    }

    /// Writes the block to where [`load`](Self::load) read it.
    fn store(&self, state: &mut [f32], batch: usize) {
        let unit = state.len() / self.units.len();
        for (i, state) in state.chunks_exact_mut(unit).enumerate() {
            for (k, row) in self.rows.clone().enumerate() {
                state[row] = self.hidden[k * UNITS + i];
                if let Some(cell) = state.get_mut(batch + row) {
                    *cell = self.cell[k * UNITS + i];
                }
            }
        }
    }
}

/// The weights of one direction for all gates, in panels of [`UNITS`] units.
#[derive(Clone, Copy)]
enum GatePanels<'a, T> {
    /// One operand per gate, packed when the graph was built.
    Packed(&'a [Packed<T>]),
    /// Packed for this run: gates, depth blocks, and panels.
    Wide(&'a [f32]),
}

/// The inputs of a direction.
#[derive(Clone, Copy)]
enum Inputs<'a, T> {
    /// `[rows, gates * hidden]`: multiplied with the weights already.
    Product(&'a [f32]),
    /// `[rows, input]` and the weights.
    Raw(&'a [f32], GatePanels<'a, T>),
}

/// One time step of one direction.
pub struct Moment<'a, T> {
    env: &'a Env<'a>,
    sizes: Sizes,
    inputs: Inputs<'a, T>,
    /// Row of the inputs that belongs to row 0 of the batch.
    first_row: usize,
    recurrent: GatePanels<'a, T>,
    bias: Option<&'a [T]>,
    recurrent_bias: Option<&'a [T]>,
    peephole: Option<&'a [T]>,
    /// The hidden state before this step, `[batch, hidden]`.
    hidden: &'a [f32],
}

impl<'a, T: Float> Moment<'a, T> {
    /// With what the step runs.
    pub fn env(&self) -> &'a Env<'a> {
        self.env
    }

    /// The hidden state before this step, `[batch, hidden]`.
    pub fn hidden(&self) -> &'a [f32] {
        self.hidden
    }

    /// `x * W^T + b + h * R^T + rb` of the gate at `place`, with the hidden state `h`.
    pub fn sums(&self, place: usize, h: &[f32], block: &StateBlock) -> Block {
        let mut sums = self.of_input(place, block);
        let hidden = self.products(self.recurrent, h, place, block, self.sizes.hidden, 0);
        sums.iter_mut().zip(hidden).for_each(|(sum, x)| *sum += x);
        self.add_biases(&mut sums, [self.bias, self.recurrent_bias], place, block);
        sums
    }

    /// `x * W^T + b` of the gate at `place`.
    pub fn input_sums(&self, place: usize, block: &StateBlock) -> Block {
        let mut sums = self.of_input(place, block);
        self.add_biases(&mut sums, [self.bias, None], place, block);
        sums
    }

    /// `h * R^T + rb` of the gate at `place`, with the hidden state `h`.
    pub fn hidden_sums(&self, place: usize, h: &[f32], block: &StateBlock) -> Block {
        let mut sums = self.products(self.recurrent, h, place, block, self.sizes.hidden, 0);
        self.add_biases(&mut sums, [None, self.recurrent_bias], place, block);
        sums
    }

    /// The peephole weights of the gate with the number `index`, repeated for each row of the block.
    pub fn peephole(&self, index: usize, block: &StateBlock) -> Option<Block> {
        let weights = &self.peephole?[index * self.sizes.hidden..][block.units.clone()];
        let mut repeated = [0.0; UNITS * ROWS];
        for row in repeated.chunks_exact_mut(UNITS).take(block.rows.len()) {
            row.iter_mut().zip(weights).for_each(|(x, weight)| *x = weight.to_f32());
        }
        Some(repeated)
    }

    fn of_input(&self, place: usize, block: &StateBlock) -> Block {
        match self.inputs {
            Inputs::Raw(x, weight) => self.products(weight, x, place, block, self.sizes.input, self.first_row),
            Inputs::Product(sums) => {
                let mut copy = [0.0; UNITS * ROWS];
                for (row, copy) in block.rows.clone().zip(copy.chunks_exact_mut(UNITS)) {
                    let sums = &sums[(self.first_row + row) * self.sizes.sums() + place * self.sizes.hidden..];
                    copy[..block.units.len()].copy_from_slice(&sums[block.units.clone()]);
                }
                copy
            }
        }
    }

    /// Products of rows of `x`, which start at `first_row`, with the panel of the units.
    fn products(
        &self,
        weights: GatePanels<T>,
        x: &[f32],
        place: usize,
        block: &StateBlock,
        depth: usize,
        first_row: usize,
    ) -> Block {
        let mut products = [0.0; UNITS * ROWS];
        let used = &mut products[..block.rows.len() * UNITS];
        let x = &x[(first_row + block.rows.start) * depth..][..block.rows.len() * depth];
        let isa = self.env.isa;
        for part in depth_blocks(depth) {
            match weights {
                GatePanels::Packed(gates) => {
                    let panel = gates[place].panels(block.units.clone(), part.clone());
                    isa.run(PanelProducts { x, depth, part, panel, products: used });
                }
                GatePanels::Wide(panels) => {
                    let padded = self.sizes.hidden.next_multiple_of(UNITS);
                    let start = padded * (place * depth + part.start) + block.units.start * part.len();
                    let panel = &panels[start..][..UNITS * part.len()];
                    isa.run(PanelProducts { x, depth, part, panel, products: used });
                }
            }
        }
        products
    }

    fn add_biases(&self, sums: &mut Block, biases: [Option<&[T]>; 2], place: usize, block: &StateBlock) {
        let mut total = [0.0; UNITS];
        for bias in biases.into_iter().flatten() {
            let bias = &bias[place * self.sizes.hidden..][block.units.clone()];
            total.iter_mut().zip(bias).for_each(|(total, bias)| *total += bias.to_f32());
        }
        for sums in sums.chunks_exact_mut(UNITS) {
            sums.iter_mut().zip(total).for_each(|(sum, bias)| *sum += bias);
        }
    }
}

/// How inputs are multiplied with the weights.
enum InputWeights<T> {
    /// All of them at once, by one product for each direction, which may hold the weights.
    Product { steps: Vec<MatmulStep<f32>>, packed: bool },
    /// Step by step, with the packed weights of each direction and gate if they are constant.
    Panels(Option<Vec<Packed<T>>>),
}

impl<T: Float> InputWeights<T> {
    fn is_packed(&self) -> bool {
        match self {
            InputWeights::Product { packed, .. } => *packed,
            InputWeights::Panels(panels) => panels.is_some(),
        }
    }
}

/// A recurrent network of elements of type `T`, ready to run.
pub struct Network<T> {
    sizes: Sizes,
    direction: Direction,
    places: Places,
    inputs: InputWeights<T>,
    /// The packed recurrent weights of each direction and gate if they are constant.
    recurrent: Option<Vec<Packed<T>>>,
}

impl<T: Float> Network<T> {
    /// Plans the network. `weights` are the weights and the recurrent weights if they are constant.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for packed weights, an `OperationError` when mapped ones cannot be read.
    fn new(
        env: &Env,
        sizes: Sizes,
        direction: Direction,
        places: Places,
        weights: [Option<Weights>; 2],
    ) -> Result<Network<T>> {
        let [weight, recurrent] = weights;
        let pack = |weight: Weights, depth: usize| -> Result<Vec<Packed<T>>> {
            let gates = 0..direction.count() * sizes.gates;
            let gate = |gate: usize| {
                let layout = Layout::Strided { lane_stride: depth, depth_stride: 1 };
                Packed::new(env.isa, weight.skip(gate * sizes.hidden * depth), layout, sizes.hidden, depth, UNITS)
            };
            gates.map(gate).collect()
        };
        let inputs = if sizes.rows() >= MIN_PRODUCT_ROWS {
            let shape = MatmulShape {
                // The weights are transposed.
                b: MatrixStrides { batch: PerAxis::new(), row: 1, col: sizes.input },
                ..MatmulShape::plain(sizes.rows(), sizes.input, sizes.sums())
            };
            let of_direction = |d: usize| {
                let mut step = MatmulStep::new(env.isa, env.threads.count(), shape.clone());
                if let Some(weight) = weight {
                    step.prepack_b(weight.skip(d * sizes.sums() * sizes.input))?;
                }
                Ok(step)
            };
            let steps = (0..direction.count()).map(of_direction).collect::<Result<_>>()?;
            InputWeights::Product { steps, packed: weight.is_some() }
        } else {
            InputWeights::Panels(weight.map(|weight| pack(weight, sizes.input)).transpose()?)
        };
        let recurrent = recurrent.map(|recurrent| pack(recurrent, sizes.hidden)).transpose()?;
        Ok(Network { sizes, direction, places, inputs, recurrent })
    }

    /// The memory of the packed weights.
    fn packed(&self) -> Vec<&Arc<Buffer>> {
        let mut buffers = Vec::new();
        match &self.inputs {
            InputWeights::Product { steps, .. } => buffers.extend(steps.iter().flat_map(MatmulStep::packed)),
            InputWeights::Panels(panels) => buffers.extend(panels.iter().flatten().map(Packed::buffer)),
        }
        buffers.extend(self.recurrent.iter().flatten().map(Packed::buffer));
        buffers
    }

    /// The packed weights of direction `d` among those of all directions, or `raw` ones, which are packed into `wide`
    /// then.
    fn panels<'a>(
        &self,
        env: &Env,
        packed: &'a Option<Vec<Packed<T>>>,
        raw: Option<&[T]>,
        [d, depth]: [usize; 2],
        wide: &'a mut [f32],
    ) -> GatePanels<'a, T> {
        let Sizes { gates, hidden, .. } = self.sizes;
        if let Some(packed) = packed {
            return GatePanels::Packed(&packed[d * gates..][..gates]);
        }
        let raw = raw.expect("the weights were not packed");
        let padded = hidden.next_multiple_of(UNITS);
        for (gate, wide) in wide.chunks_exact_mut((padded * depth).max(1)).enumerate() {
            let data = &raw[(d * gates + gate) * hidden * depth..];
            let operand = Operand::Strided(Strided { data, lane_stride: depth, depth_stride: 1 });
            for part in depth_blocks(depth) {
                let block = &mut wide[padded * part.start..][..padded * part.len()];
                operand.pack(env.isa, 0..hidden, part, UNITS, block);
            }
        }
        GatePanels::Wide(wide)
    }

    /// Lengths of the parts of scratch memory: inputs widened, weights widened or as panels, recurrent weights as panels,
    /// sums of the inputs, for the product, the hidden state, the hidden state after the reset gate, and the states by
    /// units.
    fn scratch_lengths(&self, resets: bool) -> [usize; 8] {
        let Sizes { batch, input, hidden, gates, states, .. } = self.sizes;
        let wide = !T::IS_F32;
        let padded = gates * hidden.next_multiple_of(UNITS);
        let (weight, sums, product) = match &self.inputs {
            InputWeights::Product { steps, packed } => {
                let weight = if wide && !packed { self.sizes.sums() * input } else { 0 };
                (weight, self.sizes.rows() * self.sizes.sums(), steps[0].scratch_len())
            }
            InputWeights::Panels(Some(_)) => (0, 0, 0),
            InputWeights::Panels(None) => (padded * input, 0, 0),
        };
        [
            if wide { self.sizes.rows() * input } else { 0 },
            weight,
            if self.recurrent.is_some() { 0 } else { padded * hidden },
            sums,
            product,
            batch * hidden,
            if resets { batch * hidden } else { 0 },
            states * batch * hidden,
        ]
    }

    /// Bytes of scratch memory that [`run`](Self::run) needs.
    pub fn scratch_bytes(&self, cell: &impl Cell) -> usize {
        self.scratch_lengths(cell.resets()).iter().sum::<usize>() * size_of::<f32>()
    }

    /// Runs `cell` over all directions and time steps.
    pub fn run(&self, env: &Env, io: &mut Io, cell: &impl Cell) {
        let Sizes { steps, batch, input, hidden, states, .. } = self.sizes;
        let mut rest = io.scratch::<f32>();
        let [wide_x, wide_weight, wide_recurrent, sums, scratch, h, reset, state] =
            self.scratch_lengths(cell.resets()).map(|length| rest.split_off_mut(..length).expect("enough scratch"));
        let operand = |place: Option<usize>| place.and_then(|index| io.optional::<T>(index));
        let (first_hidden, first_cell) = (operand(self.places.hidden), operand(self.places.cell));
        let [bias, recurrent_bias, peephole] =
            [self.places.bias, self.places.recurrent_bias, self.places.peephole].map(operand);
        let (weight, recurrent) = (io.optional::<T>(1), io.optional::<T>(2));
        let x = as_wide(env, io.input::<T>(0), wide_x);
        let last_hidden = io.output::<T>();
        let mut last_cell = (states == 2).then(|| io.output::<T>());
        let mut sequence = (io.outputs_left() > 0).then(|| io.output::<T>());

        for d in 0..self.direction.count() {
            let of_direction = d * batch * hidden..(d + 1) * batch * hidden;
            let inputs = match &self.inputs {
                InputWeights::Product { steps, packed } => {
                    let weight = weight.filter(|_| !packed).map(|all| &all[d * self.sizes.sums() * input..]);
                    let weight = weight.map_or(&[][..], |weight| as_wide(env, weight, wide_weight));
                    steps[d].run(env, [x, weight], None, Tail::NONE, sums, scratch);
                    Inputs::Product(sums)
                }
                InputWeights::Panels(packed) => {
                    Inputs::Raw(x, self.panels(env, packed, weight, [d, input], wide_weight))
                }
            };
            let recurrent = self.panels(env, &self.recurrent, recurrent, [d, hidden], wide_recurrent);
            load(first_hidden.map(|all| &all[of_direction.clone()]), h);
            self.scatter(h, 0, state);
            if let Some(all) = first_cell {
                load(Some(&all[of_direction.clone()]), h);
                self.scatter(h, 1, state);
                self.gather(state, 0, h);
            } else if states == 2 {
                self.clear_cell(state);
            }
            for step in 0..steps {
                let time = self.direction.time(d, step, steps);
                let moment = Moment {
                    env,
                    sizes: self.sizes,
                    inputs,
                    first_row: time * batch,
                    recurrent,
                    bias: part(bias, d, self.sizes.sums()),
                    recurrent_bias: part(recurrent_bias, d, self.sizes.sums()),
                    peephole: part(peephole, d, 3 * hidden),
                    hidden: h,
                };
                self.step(&moment, cell, reset, state);
                self.gather(state, 0, h);
                if let Some(sequence) = &mut sequence {
                    let start = (time * self.direction.count() + d) * batch * hidden;
                    store(h, &mut sequence[start..][..batch * hidden]);
                }
            }
            store(h, &mut last_hidden[of_direction.clone()]);
            if let Some(last_cell) = &mut last_cell {
                self.gather(state, 1, h);
                store(h, &mut last_cell[of_direction]);
            }
        }
    }

    /// Advances the states, in parallel over units.
    fn step(&self, moment: &Moment<T>, cell: &impl Cell, reset: &mut [f32], state: &mut [f32]) {
        let reset = match cell.resets() {
            false => moment.hidden,
            true => {
                self.for_each_block(moment, state, &|block| cell.reset(moment, block));
                self.gather(state, 0, reset);
                // The blocks of the second pass start from the hidden state again.
                self.scatter(moment.hidden, 0, state);
                reset
            }
        };
        self.for_each_block(moment, state, &|block| cell.advance(moment, reset, block));
    }

    /// Calls `work` with the blocks of the states, `[hidden, states, batch]`, in parallel over units.
    fn for_each_block(&self, moment: &Moment<T>, state: &mut [f32], work: &(dyn Fn(&mut StateBlock) + Sync)) {
        let Sizes { batch, hidden, gates, states, .. } = self.sizes;
        let unit = states * batch;
        for_each_chunk(moment.env.threads, state, unit, UNITS, gates * batch * hidden, |first, part| {
            for (index, part) in part.chunks_mut(UNITS * unit).enumerate() {
                let start = first + index * UNITS;
                for row in (0..batch).step_by(ROWS) {
                    let units = start..start + part.len() / unit;
                    let mut block = StateBlock::load(part, units, row..(row + ROWS).min(batch), batch);
                    work(&mut block);
                    block.store(part, batch);
                }
            }
        });
    }

    /// Writes one state, `[batch, hidden]`, to its place by units.
    fn scatter(&self, from: &[f32], index: usize, state: &mut [f32]) {
        let Sizes { batch, hidden, states, .. } = self.sizes;
        for (unit, state) in state.chunks_exact_mut(states * batch).enumerate() {
            let state = &mut state[index * batch..][..batch];
            state.iter_mut().enumerate().for_each(|(row, x)| *x = from[row * hidden + unit]);
        }
    }

    /// Reads one state from its place by units to `[batch, hidden]`.
    fn gather(&self, state: &[f32], index: usize, to: &mut [f32]) {
        let Sizes { batch, hidden, states, .. } = self.sizes;
        for (unit, state) in state.chunks_exact(states * batch).enumerate() {
            let state = &state[index * batch..][..batch];
            state.iter().enumerate().for_each(|(row, x)| to[row * hidden + unit] = *x);
        }
    }

    fn clear_cell(&self, state: &mut [f32]) {
        let Sizes { batch, states, .. } = self.sizes;
        state.chunks_exact_mut(states * batch).for_each(|state| state[batch..].fill(0.0));
    }
}

/// The elements as `f32`: themselves, or widened into `wide`, which then is not longer than they are.
fn as_wide<'a, T: Float>(env: &Env, from: &'a [T], wide: &'a mut [f32]) -> &'a [f32] {
    if let Some(from) = T::as_f32(from) {
        return from;
    }
    widen(env.isa, &from[..wide.len()], wide);
    wide
}

/// The part of direction `d`, which has `length` elements.
fn part<T>(all: Option<&[T]>, d: usize, length: usize) -> Option<&[T]> {
    all.map(|all| &all[d * length..][..length])
}

/// Widens `from`, or zeros.
fn load<T: Float>(from: Option<&[T]>, to: &mut [f32]) {
    match from {
        Some(from) => to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f32()),
        None => to.fill(0.0),
    }
}

/// Rounds `from` to `to`.
fn store<T: Float>(from: &[f32], to: &mut [T]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = T::from_f32(*from));
}
