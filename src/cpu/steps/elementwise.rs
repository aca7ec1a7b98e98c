//! Element-wise programs, run over blocks of elements that stay in the first-level cache.

pub(super) use super::view::View;
use super::view::{MAX_DIMENSIONS, read_view};
use super::{Env, Run};
use crate::cpu::kernels::elementwise as kernel;
use crate::cpu::kernels::float::{narrow, widen};
use crate::cpu::kernels::stored::Stored;
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk_with;
use crate::cpu::simd::Isa;
use crate::dtype::{DataType, Element};
use crate::memory::{bytes_of_mut, elements, elements_mut};
use crate::ops::elementwise::Elementwise::{self, self as E};
use crate::ops::fused::Fused;
use crate::shape::{Descriptor, broadcast_strides};
use crate::with_element;
use arrayvec::ArrayVec;
use half::f16;

/// Elements per block. A register then takes 2 to 4 KiB: the registers of a chain of operators fit into a first-level
/// cache of 32 KiB, and selecting an operator's loop (some 5 ns) is cheap compared with its work (some 50 ns). Blocks of
/// programs that need no register may have any length.
const SPAN: usize = 1024;
/// The same for a program that has only elements of 1 byte.
const SPAN_OF_BYTES: usize = 4 * SPAN;
/// Bytes per register, whatever the type of its elements.
pub(super) const REGISTER: usize = SPAN * 8;
/// Rows of broadcast operands that are at least this long become separate blocks, and operands are read in place;
/// shorter rows are gathered into registers.
const MIN_ROW: usize = 256;
/// The same if all operands that repeat have one element per row: that is read as a number, without filling a register.
const MIN_ROW_OF_NUMBERS: usize = 128;

/// One number per dimension of a program.
pub(super) type Axes = ArrayVec<usize, MAX_DIMENSIONS>;

/// A compiled element-wise program.
///
/// A register holds the elements of a block as u8, i8, i32, u32, i64, u64, f32 or f64. float16 is only stored: operands are
/// widened when they are read, results of casts rounded, and the output narrowed when it is written.
pub struct ElementwiseStep {
    operands: Box<[Operand]>,
    actions: Box<[Action]>,
    output: DataType,
    /// Blocks do not cross a multiple of this many elements.
    row: usize,
    registers: usize,
    /// The most elements per block.
    span: usize,
    /// Cost per element, for the split over threads.
    cost: usize,
    /// Whether operand 0 is computed in place, see [`run_in_place`](Self::run_in_place).
    in_place: bool,
    /// Whether the program only converts between float32 and float16, which needs no register.
    converts: bool,
}

struct Operand {
    dtype: DataType,
    view: View,
    /// When to load the operand into a register; `None` if it is read in place.
    when: Option<When>,
}

impl Operand {
    fn new(dtype: DataType, view: View) -> Operand {
        Operand { dtype, view, when: None }
    }

    /// When to load the operand, given whether blocks lie within `rows` of all operands, and whether its reader takes
    /// float16.
    fn find_when(&self, rows: bool, reads_halves: bool) -> Option<When> {
        match (self.view.inner().1, self.view.is_single()) {
            (0, true) => Some(When::Once),
            (0, false) if rows => Some(When::Row),
            (1, whole) if (whole || rows) && (reads_halves || self.dtype != DataType::Float16) => None,
            _ => Some(When::Always),
        }
    }
}

/// Where the elements of a block are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Location {
    Register(usize),
    /// The memory of an operand.
    Operand(usize),
    /// The one element of an operand for all elements of a block.
    Element(usize),
    /// The memory of the output.
    Output,
}

/// When to load an operand into its register.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// Before every block.
    Always,
    /// One element for a whole row.
    Row,
    /// One element for all blocks.
    Once,
}

enum Action {
    Load {
        operand: usize,
        register: usize,
        when: When,
    },
    Compute(Compute),
    /// Rounds an intermediate value to float16 as if it were stored.
    Round {
        register: usize,
    },
    /// Narrows the result to float16.
    Store {
        register: usize,
    },
}

struct Compute {
    op: Elementwise,
    operands: [Location; 3],
    /// Data types of the operands.
    types: [DataType; 3],
    /// An operand with one element for the block, which is added to the result.
    shift: Option<usize>,
    dtype: DataType,
    out: Location,
}

/// The dimensions of a program with this output.
fn axes(output: &Descriptor) -> Axes {
    output.sizes().iter().map(|&dim| dim as usize).collect()
}

/// The strides that broadcast an operand to `output`.
fn broadcast(operand: &Descriptor, output: &Descriptor) -> Axes {
    broadcast_strides(&operand.sizes(), &output.sizes()).into_iter().collect()
}

impl ElementwiseStep {
    /// Compiles a program on operands that are broadcast to the shape of `output`.
    pub fn new<'a>(
        program: &Fused,
        inputs: impl Iterator<Item = &'a Descriptor>,
        output: &Descriptor,
    ) -> ElementwiseStep {
        ElementwiseStep::broadcasting(program, inputs, output, false)
    }

    /// Compiles a program on operands of the data types `types`, read with `strides` (in elements, 0 = repeated) over
    /// the output's dimensions `dims`.
    pub fn with_strides(
        program: &Fused,
        types: &[DataType],
        dims: &Axes,
        strides: &[Axes],
        output: DataType,
    ) -> ElementwiseStep {
        let operands = types.iter().zip(strides).map(|(&dtype, own)| Operand::new(dtype, View::new(dims, own)));
        ElementwiseStep::build(program, operands.collect(), dims, output, false)
    }

    /// Compiles a program whose operand 0 is computed by another step, which calls
    /// [`run_in_place`](Self::run_in_place). Operand 0 has the shape of the output, and both are floats. `others` are
    /// the types and shapes of the other operands.
    pub fn behind<'a>(
        program: &Fused,
        output: &'a Descriptor,
        others: impl Iterator<Item = &'a Descriptor>,
    ) -> ElementwiseStep {
        ElementwiseStep::broadcasting(program, std::iter::once(output).chain(others), output, true)
    }

    fn broadcasting<'a>(
        program: &Fused,
        inputs: impl Iterator<Item = &'a Descriptor>,
        output: &Descriptor,
        in_place: bool,
    ) -> ElementwiseStep {
        let dims = axes(output);
        let operand = |input: &Descriptor| Operand::new(input.dtype, View::new(&dims, &broadcast(input, output)));
        ElementwiseStep::build(program, inputs.map(operand).collect(), &dims, output.dtype, in_place)
    }

    fn build(
        program: &Fused,
        operands: Vec<Operand>,
        dims: &[usize],
        output: DataType,
        in_place: bool,
    ) -> ElementwiseStep {
        let cost = program.instructions.iter().map(|instruction| kernel::cost(&instruction.op)).sum();
        let (actions, operands) = (Box::default(), operands.into_boxed_slice());
        let converts = !in_place && is_conversion(program, &operands);
        let mut step =
            ElementwiseStep { actions, registers: 0, span: SPAN, operands, output, row: 0, cost, in_place, converts };
        step.measure(dims);
        let mut build = RegisterAllocator::new(program, &step.operands, in_place);
        build.writes_halves = converts;
        program.instructions.iter().enumerate().for_each(|(index, _)| build.instruction(index));
        (step.actions, step.registers) = (build.actions.into(), build.registers);
        let results = program.instructions.iter().map(|instruction| instruction.dtype);
        let mut types = step.operands.iter().map(|operand| operand.dtype).chain(results);
        step.span = match (step.registers, types.all(|dtype| dtype.size() == 1)) {
            (0, _) => usize::MAX,
            (_, true) => SPAN_OF_BYTES,
            _ => SPAN,
        };
        step
    }

    /// Determines the rows of the operands over the dimensions `dims`, and when to load operands; returns `false` if
    /// any of the latter changes.
    fn measure(&mut self, dims: &[usize]) -> bool {
        let elements = dims.iter().product();
        // The runs that have a single stride in each operand.
        let inner = self.operands.iter().map(|operand| operand.view.inner().0).min().unwrap_or(elements);
        let is_number = |operand: &Operand| operand.view.is_single() || operand.view.inner().1 == 0;
        let min = if self.operands.iter().all(is_number) { MIN_ROW_OF_NUMBERS } else { MIN_ROW };
        self.row = if inner >= min { inner } else { elements };
        let (rows, mut same) = (self.row < elements, true);
        for operand in &mut self.operands {
            let when = operand.find_when(rows, self.converts);
            same &= std::mem::replace(&mut operand.when, when) == when;
        }
        same
    }

    /// Adapts to operands of other shapes, broadcast to the shape of `output`, for a step created by [`new`](Self::new)
    /// or [`behind`](Self::behind); returns `false` if the step must be rebuilt.
    #[must_use]
    pub fn resize<'a>(&mut self, inputs: impl Iterator<Item = &'a Descriptor>, output: &'a Descriptor) -> bool {
        let dims = axes(output);
        let inputs = self.in_place.then_some(output).into_iter().chain(inputs);
        for (operand, input) in self.operands.iter_mut().zip(inputs) {
            operand.view.resize(&dims, &broadcast(input, output));
        }
        self.measure(&dims)
    }

    /// Adapts to other strides of the operands, for a step created by [`with_strides`](Self::with_strides); returns
    /// `false` if the step must be rebuilt.
    #[must_use]
    pub fn resize_strides(&mut self, dims: &Axes, strides: &[Axes]) -> bool {
        self.operands.iter_mut().zip(strides).for_each(|(operand, own)| operand.view.resize(dims, own));
        self.measure(dims)
    }

    /// Approximate cost per element, in multiply-adds of a matrix product.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Size in bytes of the registers that [`run_in_place`](Self::run_in_place) needs.
    pub fn register_bytes(&self) -> usize {
        self.registers * REGISTER
    }

    /// Replaces `values`, the elements of operand 0 from the output's position `at` on, by the results. Operand `i` is
    /// operand `i + shift` of `io`.
    ///
    /// # Panics
    /// If this was not created by [`behind`](Self::behind), or `registers` is shorter than
    /// [`register_bytes`](Self::register_bytes).
    pub fn run_in_place(&self, isa: Isa, io: &Io, shift: usize, at: usize, values: &mut [f32], registers: &mut [u8]) {
        assert!(self.in_place);
        let end = at + values.len();
        let (first, mut at, mut rest) = (at, at, values);
        while at < end {
            let len = self.span.min(self.row - at % self.row).min(end - at);
            let (values, tail) = rest.split_at_mut(len);
            elements_mut(&mut registers[..len * size_of::<f32>()]).copy_from_slice(values);
            let block = Span { step: self, isa, io, shift, at, len };
            block.run(at == first, at == first || at.is_multiple_of(self.row), registers, bytes_of_mut(values));
            (at, rest) = (at + len, tail);
        }
    }
}

/// Whether the program is one conversion between float32 and float16.
fn is_conversion(program: &Fused, operands: &[Operand]) -> bool {
    use DataType::{Float16, Float32};
    let ([input], [only]) = (operands, &program.instructions[..]) else { return false };
    match only.op {
        E::Cast { to } => matches!((input.dtype, to), (Float32, Float16) | (Float16, Float32)),
        _ => false,
    }
}

/// Assigns registers to the values of a program.
struct RegisterAllocator<'a> {
    program: &'a Fused,
    operands: &'a [Operand],
    /// For each value of the program, the value that it is a copy of.
    origin: Vec<usize>,
    /// For each value, the last instruction that reads it.
    last_use: Vec<usize>,
    places: Vec<Option<Location>>,
    /// The instruction that the one before it computes along with its own.
    absorbed: Option<usize>,
    free: Vec<usize>,
    registers: usize,
    actions: Vec<Action>,
    /// Whether the last instruction writes float16 itself.
    writes_halves: bool,
}

impl<'a> RegisterAllocator<'a> {
    /// With `in_place`, operand 0 is in the first register.
    fn new(program: &'a Fused, operands: &'a [Operand], in_place: bool) -> RegisterAllocator<'a> {
        let values = program.inputs + program.instructions.len();
        let mut origin: Vec<usize> = (0..values).collect();
        let mut last_use = vec![0; values];
        for (index, instruction) in program.instructions.iter().enumerate() {
            let sources: Vec<usize> = instruction.operands.iter().map(|&value| origin[value]).collect();
            sources.iter().for_each(|&source| last_use[source] = index);
            let is_last = index + 1 == program.instructions.len();
            if instruction.op == E::Identity && !is_last {
                origin[program.inputs + index] = sources[0];
            }
        }
        let (mut places, actions, free) = (vec![None; values], Vec::new(), Vec::new());
        if in_place {
            places[0] = Some(Location::Register(0));
        }
        let registers = in_place as usize;
        RegisterAllocator {
            program,
            operands,
            origin,
            last_use,
            places,
            absorbed: None,
            free,
            registers,
            actions,
            writes_halves: false,
        }
    }

    fn register(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.registers += 1;
            self.registers - 1
        })
    }

    fn dtype(&self, value: usize) -> DataType {
        match value.checked_sub(self.program.inputs) {
            None => self.operands[value].dtype,
            Some(index) => self.program.instructions[index].dtype,
        }
    }

    /// The location of a value that an instruction reads; loads an operand before its first use.
    fn read(&mut self, value: usize) -> Location {
        if let Some(place) = self.places[value] {
            return place;
        }
        let place = match self.operands[value].when {
            None => Location::Operand(value),
            Some(when) => {
                // A value that is loaded less than once per block must not share its register with other values.
                let register = match when {
                    When::Always => self.register(),
                    When::Row | When::Once => {
                        self.registers += 1;
                        self.last_use[value] = usize::MAX;
                        self.registers - 1
                    }
                };
                self.actions.push(Action::Load { operand: value, register, when });
                Location::Register(register)
            }
        };
        self.places[value] = Some(place);
        place
    }

    /// Whether `value` is an operand with one element for a whole block.
    fn is_uniform(&self, value: usize) -> bool {
        self.operands.get(value).is_some_and(|operand| matches!(operand.when, Some(When::Once | When::Row)))
    }

    /// The sources of an instruction, and whether all but the first one are [uniform](Self::is_uniform) and its operator
    /// takes them as numbers.
    fn sources(&self, index: usize) -> (Vec<usize>, bool) {
        let instruction = &self.program.instructions[index];
        let mut sources: Vec<usize> = instruction.operands.iter().map(|&value| self.origin[value]).collect();
        if matches!(instruction.op, E::Add | E::Mul) && self.is_uniform(sources[0]) {
            sources.swap(0, 1);
        }
        let takes_numbers = match instruction.op {
            E::Quantize | E::Dequantize => true,
            _ => sources.len() == 2 && matches!(instruction.dtype, DataType::Float32 | DataType::Float16),
        };
        let is_uniform = takes_numbers && sources[1..].iter().all(|&source| self.is_uniform(source));
        (sources, is_uniform)
    }

    /// If the instruction after the one at `index` adds a number to that one's result, a product that nothing else
    /// reads: that instruction, and the operand with the number.
    fn shift_of(&self, index: usize) -> Option<(usize, usize)> {
        let (next, result) = (index + 1, self.program.inputs + index);
        let [product, sum] = self.program.instructions.get(index..index + 2)? else { return None };
        let is_exact = product.dtype == DataType::Float32 && sum.dtype == DataType::Float32;
        if (product.op, sum.op) != (E::Mul, E::Add) || !is_exact || self.last_use[result] != next {
            return None;
        }
        let (sources, is_uniform) = self.sources(next);
        (is_uniform && sources[0] == result).then_some((next, sources[1]))
    }

    fn instruction(&mut self, mut index: usize) {
        let program = self.program;
        let instruction = &program.instructions[index];
        if self.origin[program.inputs + index] != program.inputs + index || self.absorbed == Some(index) {
            return;
        }
        let (mut operands, mut types) = ([Location::Output; 3], [instruction.dtype; 3]);
        let (sources, is_uniform) = self.sources(index);
        for (i, &source) in sources.iter().enumerate() {
            let place = if i > 0 && is_uniform { Location::Element(source) } else { self.read(source) };
            (operands[i], types[i]) = (place, self.dtype(source));
        }
        let shift = self.shift_of(index).filter(|_| is_uniform);
        if let Some((next, _)) = shift {
            (index, self.absorbed) = (next, Some(next));
        }
        let result = program.inputs + index;
        let is_last = index + 1 == program.instructions.len();
        let out = match instruction.dtype {
            dtype if is_last && (self.writes_halves || dtype != DataType::Float16) => Location::Output,
            _ => Location::Register(self.register()),
        };
        self.actions.push(Action::Compute(Compute {
            op: instruction.op,
            operands,
            types,
            shift: shift.map(|(_, operand)| operand),
            dtype: instruction.dtype,
            out,
        }));
        self.places[result] = Some(out);
        match out {
            Location::Register(register) if is_last => self.actions.push(Action::Store { register }),
            Location::Register(register) if instruction.dtype == DataType::Float16 => {
                self.actions.push(Action::Round { register });
            }
            _ => {}
        }
        for (i, &source) in sources.iter().enumerate() {
            if let (Location::Register(register), true) = (operands[i], self.last_use[source] <= index)
                && !sources[..i].contains(&source)
            {
                self.free.push(register);
            }
        }
    }
}

impl Run for ElementwiseStep {
    fn kernel(&self) -> &'static str {
        let operators = self.actions.iter().filter(|action| matches!(action, Action::Compute(_))).count();
        if operators > 1 { "elementwise fused" } else { "elementwise" }
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        threads * self.registers * REGISTER
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let size = self.output.size();
        let (out, scratch) = (io.output::<u8>(), io.scratch::<u8>());
        let scratch = &mut scratch[..self.scratch_bytes(env.threads.count())];
        let io = &*io;
        for_each_chunk_with(env.threads, out, size, SPAN, self.cost, scratch, |first, out, registers| {
            let end = first + out.len() / size;
            let (mut at, mut rest) = (first, out);
            while at < end {
                let len = self.span.min(self.row - at % self.row).min(end - at);
                let (out, tail) = rest.split_at_mut(len * size);
                let block = Span { step: self, isa: env.isa, io, shift: 0, at, len };
                block.run(at == first, at == first || at.is_multiple_of(self.row), registers, out);
                (at, rest) = (at + len, tail);
            }
        });
    }
}

/// The elements `at..at + len` of the output.
struct Span<'a> {
    step: &'a ElementwiseStep,
    isa: Isa,
    io: &'a Io<'a>,
    /// Operand `i` is operand `i + shift` of `io`.
    shift: usize,
    at: usize,
    len: usize,
}

/// All registers except the one being written.
#[derive(Clone, Copy)]
struct Registers<'a> {
    before: &'a [u8],
    after: &'a [u8],
}

impl<'a> Registers<'a> {
    fn get<T: Element>(self, register: usize, len: usize) -> &'a [T] {
        let start = register * REGISTER;
        let bytes = match start.checked_sub(self.before.len()) {
            None => &self.before[start..],
            Some(start) => &self.after[start - REGISTER..],
        };
        elements(&bytes[..len * size_of::<T>()])
    }
}

/// Runs `$body` with `$T` bound to the type that registers hold elements of `$dtype` in.
macro_rules! with_lane {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DataType::Float64 => {
                type $T = f64;
                $body
            }
            dtype => with_narrow!(dtype, $T => $body),
        }
    };
}

/// Like [`with_lane`], but for float64.
macro_rules! with_narrow {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DataType::Float32 | DataType::Float16 => {
                type $T = f32;
                $body
            }
            dtype => with_integer!(dtype, $T => $body),
        }
    };
}

/// Runs `$body` with `$T` bound to the unsigned integers of the size of `$dtype` in registers.
macro_rules! with_bits {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DataType::Int8 | DataType::Uint8 => {
                type $T = u8;
                $body
            }
            DataType::Int64 | DataType::Uint64 | DataType::Float64 => {
                type $T = u64;
                $body
            }
            _ => {
                type $T = u32;
                $body
            }
        }
    };
}

/// Like [`with_lane`], for integer types only.
macro_rules! with_integer {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DataType::Int64 => {
                type $T = i64;
                $body
            }
            DataType::Uint64 => {
                type $T = u64;
                $body
            }
            dtype => with_quantized!(dtype, $T => $body),
        }
    };
}

/// Like [`with_lane`], for quantized types only.
macro_rules! with_quantized {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DataType::Int32 => {
                type $T = i32;
                $body
            }
            DataType::Uint32 => {
                type $T = u32;
                $body
            }
            DataType::Int8 => {
                type $T = i8;
                $body
            }
            DataType::Uint8 => {
                type $T = u8;
                $body
            }
            other => unreachable!("{other} is not one of the expected types"),
        }
    };
}

impl Span<'_> {
    fn run(&self, first: bool, row_starts: bool, registers: &mut [u8], out: &mut [u8]) {
        for action in &self.step.actions {
            match action {
                Action::Load { when: When::Once, .. } if !first => {}
                Action::Load { when: When::Row, .. } if !row_starts => {}
                Action::Load { operand, register, when } => {
                    let register = &mut registers[register * REGISTER..][..REGISTER];
                    self.load(*operand, *when, register);
                }
                Action::Compute(compute) => match compute.out {
                    Location::Register(register) => {
                        let (before, rest) = registers.split_at_mut(register * REGISTER);
                        let (own, after) = rest.split_at_mut(REGISTER);
                        self.compute(compute, Registers { before, after }, own);
                    }
                    _ => self.compute(compute, Registers { before: registers, after: &[] }, out),
                },
                Action::Round { register } => {
                    let register = &mut registers[register * REGISTER..][..REGISTER];
                    round_to_half(self.isa, &mut elements_mut(register)[..self.len]);
                }
                Action::Store { register } => {
                    let registers = Registers { before: registers, after: &[] };
                    narrow(self.isa, registers.get(*register, self.len), elements_mut::<f16>(out));
                }
            }
        }
    }

    fn load(&self, operand: usize, when: When, register: &mut [u8]) {
        let Operand { dtype, view, .. } = &self.step.operands[operand];
        with_element!(*dtype, T => {
            let x = self.io.input::<T>(operand + self.shift);
            let register: &mut [<T as Stored>::Lane] = elements_mut(register);
            match when {
                When::Always => read_view(self.isa, view, x, self.at, &mut register[..self.len]),
                When::Row | When::Once => {
                    let value = x[view.offset(self.at)].lane();
                    register[..self.step.span.min(self.step.row)].fill(value);
                }
            }
        });
    }

    /// The element of an operand that has one for the whole block.
    fn element<T: Element>(&self, operand: usize) -> T {
        self.io.input::<T>(operand + self.shift)[self.step.operands[operand].view.offset(self.at)]
    }

    /// The same for a float.
    fn float(&self, operand: usize) -> f32 {
        match self.step.operands[operand].dtype {
            DataType::Float16 => self.element::<f16>(operand).lane(),
            _ => self.element(operand),
        }
    }

    fn compute(&self, compute: &Compute, registers: Registers, out: &mut [u8]) {
        let Compute { op, operands: places, types, dtype, .. } = compute;
        let operands = Operands { block: self, registers, places };
        match op {
            E::Identity => with_bits!(*dtype, T => operands.out::<T>(out).copy_from_slice(operands.get(0))),
            E::Cast { to: DataType::Float16 } if compute.out == Location::Output => {
                narrow(self.isa, operands.get(0), operands.out(out));
            }
            E::Cast { .. } if types[0] == DataType::Float16 && matches!(places[0], Location::Operand(_)) => {
                widen(self.isa, operands.get(0), operands.out(out));
            }
            E::Cast { to: DataType::Float16 } if types[0] == DataType::Float64 => {
                kernel::round_doubles(operands.get(0), operands.out(out));
            }
            E::Cast { to: DataType::Float64 } => with_lane!(types[0], T => {
                kernel::cast_double::<T, f64>(operands.get(0), operands.out(out));
            }),
            E::Cast { to } if types[0] == DataType::Float64 => with_narrow!(*to, T => {
                kernel::cast_double::<f64, T>(operands.get(0), operands.out(out));
            }),
            E::Cast { to } => with_narrow!(types[0], T => with_narrow!(*to, U => {
                kernel::cast::<T, U>(self.isa, operands.get(0), operands.out(out));
            })),
            E::Where => with_bits!(*dtype, T => {
                let (yes, no) = (operands.get(1), operands.get(2));
                kernel::select::<T>(self.isa, operands.get(0), yes, no, operands.out(out));
            }),
            E::Dequantize => with_quantized!(types[0], T => {
                let (x, out) = (operands.get(0), operands.out(out));
                match places[1..] {
                    [Location::Element(scale), Location::Element(zero)] => {
                        kernel::dequantize_uniform::<T>(self.isa, x, self.float(scale), self.element(zero), out);
                    }
                    _ => kernel::dequantize::<T>(self.isa, x, operands.get(1), operands.get(2), out),
                }
            }),
            E::Quantize => with_quantized!(*dtype, T => {
                let (x, out) = (operands.get(0), operands.out(out));
                match places[1..] {
                    [Location::Element(scale), Location::Element(zero)] => {
                        kernel::quantize_uniform::<T>(self.isa, x, self.float(scale), self.element(zero), out);
                    }
                    _ => kernel::quantize::<T>(self.isa, x, operands.get(1), operands.get(2), out),
                }
            }),
            E::IsNaN | E::IsInfinite if types[0] == DataType::Float64 => {
                kernel::test_double(*op, operands.get(0), operands.out(out));
            }
            E::IsNaN | E::IsInfinite => kernel::test_float(self.isa, *op, operands.get(0), operands.out(out)),
            E::Equal | E::NotEqual | E::Greater | E::GreaterOrEqual | E::Lesser | E::LesserOrEqual => {
                with_lane!(types[0], T => {
                    kernel::compare::<T>(self.isa, *op, operands.get(0), operands.get(1), operands.out(out));
                });
            }
            _ => self.arithmetic(compute, operands, out),
        }
    }

    /// Computes operators whose operands and output have the same type.
    fn arithmetic(&self, compute: &Compute, operands: Operands, out: &mut [u8]) {
        let Compute { op, operands: places, dtype, shift, .. } = compute;
        if let Location::Element(operand) = places[1] {
            let (x, y, out) = (operands.get(0), self.float(operand), operands.out(out));
            return match shift {
                Some(shift) => kernel::scale_and_shift(self.isa, x, y, self.float(*shift), out),
                None => kernel::binary_float_uniform(self.isa, *op, x, y, out),
            };
        }
        let unary = places[1] == Location::Output;
        match (dtype.is_float(), unary) {
            (_, true) if *dtype == DataType::Float64 => kernel::unary_double(*op, operands.get(0), operands.out(out)),
            (_, false) if *dtype == DataType::Float64 => {
                kernel::binary_double(*op, operands.get(0), operands.get(1), operands.out(out));
            }
            (true, true) => kernel::unary_float(self.isa, *op, operands.get(0), operands.out(out)),
            (true, false) => {
                let (x, y) = (operands.get(0), operands.get(1));
                kernel::binary_float(self.isa, *op, x, y, operands.out(out));
            }
            (false, true) => with_integer!(*dtype, T => {
                kernel::unary_integer::<T>(self.isa, *op, operands.get(0), operands.out(out));
            }),
            (false, false) => with_integer!(*dtype, T => {
                let (x, y) = (operands.get(0), operands.get(1));
                kernel::binary_integer::<T>(self.isa, *op, x, y, operands.out(out));
            }),
        }
    }
}

/// The operands of one instruction on a block.
#[derive(Clone, Copy)]
struct Operands<'a> {
    block: &'a Span<'a>,
    registers: Registers<'a>,
    places: &'a [Location; 3],
}

impl<'a> Operands<'a> {
    fn get<T: Element>(&self, index: usize) -> &'a [T] {
        let Span { step, io, shift, at, len, .. } = *self.block;
        match self.places[index] {
            Location::Register(register) => self.registers.get(register, len),
            Location::Operand(operand) => {
                let start = step.operands[operand].view.offset(at);
                &io.input(operand + shift)[start..start + len]
            }
            Location::Element(_) | Location::Output => unreachable!("no operator reads these as a slice"),
        }
    }

    fn out<'o, T: Element>(&self, bytes: &'o mut [u8]) -> &'o mut [T] {
        elements_mut(&mut bytes[..self.block.len * size_of::<T>()])
    }
}

/// Rounds floats to the nearest float16 values.
fn round_to_half(isa: Isa, values: &mut [f32]) {
    let mut halves = [f16::ZERO; SPAN];
    let halves = &mut halves[..values.len()];
    narrow(isa, values, halves);
    f16::copy(isa, halves, values);
}

#[cfg(test)]
#[path = "elementwise_tests.rs"]
mod tests;
