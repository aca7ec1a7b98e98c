//! Runs a dispatch: workgroups one after another, the invocations of each in lockstep. A set of invocations executes
//! statements together; branches and loops split the set, and it merges again after them.

use super::fast::Math;
use super::fault::{Checked, Fault, Kind, fault};
use super::memory::{Access, Memory, Sharing};
use super::program::{Field, Program};
use wgpu::naga::{
    AddressSpace, ArraySize, Barrier, Binding, Block, BuiltIn, Expression, Handle, Statement, SwitchValue, TypeInner,
};

/// The numbers of the active invocations, ascending.
pub type Lanes = Vec<u32>;

/// The base of a pointer: what it points into, without the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    Global(usize),
    Local(usize),
}

/// The values of a running function.
pub struct Frame {
    /// The values of all expressions, for every invocation.
    pub scalars: Vec<u64>,
    /// The roots of all expressions that are pointers.
    pub roots: Vec<Root>,
    result: Vec<u64>,
}

/// Where an expression's scalars are in the frames of its function; those of one invocation are contiguous.
#[derive(Clone, Copy)]
pub struct Column {
    start: usize,
    pub width: usize,
}

impl Column {
    /// The index of an invocation's first scalar. Always inlined, like all that the innermost loops of the simulation
    /// call.
    #[inline(always)]
    pub fn at(self, lane: u32) -> usize {
        self.start + self.width * lane as usize
    }
}

/// The memory and sizes of a launch.
pub struct Launch<'a> {
    /// Buffers, then the other variables of the kernel, which the run appends.
    pub memories: &'a mut Vec<Memory>,
    /// The buffer of each binding; binding 0 holds the parameters.
    pub bound: &'a [usize],
    pub immediates: &'a [u8],
    pub workgroups: [u32; 3],
    /// Invocations per subgroup.
    pub subgroup: usize,
    /// The rules for floats.
    pub math: Math,
}

/// Iterations after which a loop counts as endless: on the tests' inputs, the longest loops of the kernels run some
/// hundreds.
const MOST_TURNS: usize = 3_000;

/// A running kernel.
pub struct Machine<'a> {
    pub(super) program: &'a Program,
    pub(super) memories: &'a mut Vec<Memory>,
    /// The index of each global variable's memory.
    pub(super) places: Vec<usize>,
    pub(super) locals: Vec<Memory>,
    /// The number of `locals` that running functions own.
    depth: usize,
    pub(super) lanes: usize,
    pub(super) subgroup: usize,
    pub(super) math: Math,
    workgroups: [u32; 3],
    group: [u32; 3],
    number: u32,
    barriers: u32,
    storage_barriers: u32,
    idle: Vec<Vec<Frame>>,
}

/// Invocations that left a block early.
#[derive(Default)]
struct Left {
    broke: Lanes,
    continued: Lanes,
}

/// Runs all workgroups.
///
/// # Errors
/// The first fault.
pub fn run(program: &Program, launch: Launch) -> Checked<()> {
    let Launch { memories, bound, immediates, workgroups, subgroup, math } = launch;
    let buffers = memories.len();
    let lanes = program.lanes();
    let mut places = Vec::new();
    for global in &program.globals {
        let place = match (global.binding, global.space) {
            (Some(binding), _) => {
                let place = bound[binding];
                if memories[place].bytes.len() < global.size.max(element(program, global.ty)) {
                    return fault(Kind::OutOfBounds, format!("{} is bound to too few bytes", global.name));
                }
                place
            }
            (None, space) => {
                let sharing = match space {
                    AddressSpace::WorkGroup => Sharing::Workgroup,
                    AddressSpace::Private => Sharing::Invocation,
                    AddressSpace::Immediate => Sharing::Constant,
                    other => return fault(Kind::Unknown, format!("variables in {other:?}")),
                };
                let mut memory = Memory::variable(global.name.clone(), global.size, sharing, lanes);
                if space == AddressSpace::Immediate {
                    memory = Memory::holding(global.name.clone(), immediates);
                }
                memories.push(memory);
                memories.len() - 1
            }
        };
        memories[place].name.clone_from(&global.name);
        places.push(place);
    }
    // A buffer with several bindings must be read-only if any of its variables is.
    for (place, memory) in memories.iter_mut().enumerate() {
        let variables =
            || program.globals.iter().zip(&places).filter(|(_, of)| **of == place).map(|(global, _)| global);
        let grain = variables().map(|global| global.grain).min().unwrap_or(1);
        memory.start(grain, variables().all(|global| global.is_constant));
    }
    let mut machine = Machine {
        program,
        memories,
        places,
        locals: Vec::new(),
        depth: 0,
        lanes,
        subgroup,
        math,
        workgroups,
        group: [0; 3],
        number: 0,
        barriers: 0,
        storage_barriers: 0,
        idle: program.functions.iter().map(|_| Vec::new()).collect(),
    };
    let result = machine.run_all();
    machine.memories.truncate(buffers);
    result
}

/// Bytes per element of a runtime-sized type.
fn element(program: &Program, ty: Handle<wgpu::naga::Type>) -> usize {
    match program.module.types[ty].inner {
        TypeInner::Array { size: ArraySize::Dynamic, stride, .. } => stride as usize,
        _ => 0,
    }
}

impl Machine<'_> {
    fn run_all(&mut self) -> Checked<()> {
        let [x, y, z] = self.workgroups;
        for group in (0..z).flat_map(|k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k]))) {
            self.group = group;
            self.run_group()?;
            self.number += 1;
        }
        Ok(())
    }

    fn run_group(&mut self) -> Checked<()> {
        let program = self.program;
        for (global, &place) in program.globals.iter().zip(&self.places) {
            if global.space == AddressSpace::Private {
                let all: Lanes = (0..self.lanes as u32).collect();
                fill(&mut self.memories[place], &global.fields, &global.start, &all);
            }
        }
        let main = program.functions.len() - 1;
        let mut frame = self.frame(main);
        let arguments = program.function(main).arguments.iter();
        let bindings: Vec<Vec<Option<&Binding>>> = arguments
            .map(|argument| match &program.module.types[argument.ty].inner {
                TypeInner::Struct { members, .. } => members.iter().map(|member| member.binding.as_ref()).collect(),
                _ => vec![argument.binding.as_ref()],
            })
            .collect();
        for &(expression, index) in &program.functions[main].arguments {
            for lane in 0..self.lanes as u32 {
                let mut at = self.at(main, expression, lane);
                for binding in &bindings[index] {
                    for value in self.builtin(*binding, lane)? {
                        frame.scalars[at] = value;
                        at += 1;
                    }
                }
            }
        }
        let all = (0..self.lanes as u32).collect();
        let frame = self.enter(main, frame, all)?;
        self.idle[main].push(frame);
        Ok(())
    }

    /// The scalars of a builtin value.
    fn builtin(&self, binding: Option<&Binding>, lane: u32) -> Checked<Vec<u64>> {
        let Some(Binding::BuiltIn(builtin)) = binding else {
            return fault(Kind::Unknown, format!("the argument {binding:?}"));
        };
        let local = self.local_id(lane);
        let size = self.program.workgroup;
        let vector = |x: [u32; 3]| x.map(u64::from).to_vec();
        Ok(match builtin {
            BuiltIn::LocalInvocationId => vector(local),
            BuiltIn::LocalInvocationIndex => vec![lane.into()],
            BuiltIn::WorkGroupId => vector(self.group),
            BuiltIn::NumWorkGroups => vector(self.workgroups),
            BuiltIn::WorkGroupSize => vector(size),
            BuiltIn::GlobalInvocationId => vector([0, 1, 2].map(|d| self.group[d] * size[d] + local[d])),
            BuiltIn::SubgroupSize => vec![self.subgroup as u64],
            BuiltIn::SubgroupInvocationId => vec![lane as u64 % self.subgroup as u64],
            BuiltIn::SubgroupId => vec![lane as u64 / self.subgroup as u64],
            BuiltIn::NumSubgroups => vec![self.lanes.div_ceil(self.subgroup) as u64],
            other => return fault(Kind::Unknown, format!("{other:?}")),
        })
    }

    fn local_id(&self, lane: u32) -> [u32; 3] {
        let [x, y, _] = self.program.workgroup;
        [lane % x, lane / x % y, lane / (x * y)]
    }

    /// Appends the invocation to the message of `result`'s error.
    pub(super) fn blame<T>(&self, lane: u32, result: Checked<T>) -> Checked<T> {
        result.map_err(|mut fault: Box<Fault>| {
            let (local, group) = (self.local_id(lane), self.group);
            fault.message += &format!(", invocation {local:?} of workgroup {group:?}");
            fault
        })
    }

    /// The memory behind a pointer.
    pub(super) fn memory(&mut self, root: Root) -> &mut Memory {
        match root {
            Root::Global(index) => &mut self.memories[self.places[index]],
            Root::Local(index) => &mut self.locals[index],
        }
    }

    /// Describes the current access of an invocation to the memory behind a pointer.
    pub(super) fn access(&self, root: Root, lane: u32) -> Access {
        let in_workgroup = match root {
            Root::Global(index) => self.program.globals[index].space == AddressSpace::WorkGroup,
            Root::Local(_) => false,
        };
        let epoch = if in_workgroup { self.barriers } else { self.storage_barriers };
        Access { group: self.number, lane, epoch }
    }

    /// Where an expression's scalars are.
    pub(super) fn column(&self, function: usize, expression: Handle<Expression>) -> Column {
        let slot = &self.program.functions[function].slots[expression.index()];
        Column { start: slot.offset * self.lanes, width: slot.width }
    }

    /// The index of an invocation's first scalar of an expression.
    pub(super) fn at(&self, function: usize, expression: Handle<Expression>, lane: u32) -> usize {
        self.column(function, expression).at(lane)
    }

    /// A frame initialized with the constant values.
    fn frame(&mut self, function: usize) -> Frame {
        if let Some(frame) = self.idle[function].pop() {
            return frame;
        }
        let program = self.program;
        let compiled = &program.functions[function];
        let mut frame = Frame {
            scalars: vec![0; compiled.width * self.lanes],
            roots: vec![Root::Global(0); compiled.slots.len()],
            result: vec![0; compiled.result * self.lanes],
        };
        for (expression, value) in &compiled.constants {
            for lane in 0..self.lanes as u32 {
                let at = self.at(function, *expression, lane);
                frame.scalars[at..at + value.len()].copy_from_slice(value);
            }
        }
        for (expression, what) in program.function(function).expressions.iter() {
            if let Expression::GlobalVariable(global) = *what {
                frame.roots[expression.index()] = Root::Global(global.index());
            }
        }
        frame
    }

    /// Runs a function with the arguments in `frame`; returns the frame with the results.
    fn enter(&mut self, function: usize, mut frame: Frame, lanes: Lanes) -> Checked<Frame> {
        let program = self.program;
        let first = self.depth;
        for local in &program.functions[function].locals {
            let memory = Memory::variable(local.name.clone(), local.size, Sharing::Invocation, self.lanes);
            match self.locals.get_mut(self.depth) {
                Some(place) => *place = memory,
                None => self.locals.push(memory),
            }
            fill(&mut self.locals[self.depth], &local.fields, &local.start, &lanes);
            self.depth += 1;
        }
        for (expression, what) in program.function(function).expressions.iter() {
            if let Expression::LocalVariable(local) = *what {
                frame.roots[expression.index()] = Root::Local(first + local.index());
            }
        }
        let body = &program.function(function).body;
        self.block(function, &mut frame, body, lanes, &mut Left::default())?;
        self.depth = first;
        Ok(frame)
    }

    /// Runs statements; returns the invocations that reach their end.
    fn block(
        &mut self,
        function: usize,
        frame: &mut Frame,
        block: &Block,
        mut lanes: Lanes,
        left: &mut Left,
    ) -> Checked<Lanes> {
        for statement in block.iter() {
            if lanes.is_empty() {
                break;
            }
            lanes = self.statement(function, frame, statement, lanes, left)?;
        }
        Ok(lanes)
    }

    fn statement(
        &mut self,
        function: usize,
        frame: &mut Frame,
        statement: &Statement,
        lanes: Lanes,
        left: &mut Left,
    ) -> Checked<Lanes> {
        match statement {
            Statement::Emit(range) => {
                for expression in range.clone() {
                    self.evaluate(function, frame, expression, &lanes)?;
                }
            }
            Statement::Block(block) => return self.block(function, frame, block, lanes, left),
            Statement::If { condition, accept, reject } => {
                let column = self.column(function, *condition);
                let is_true = |lane: &u32| frame.scalars[column.at(*lane)] != 0;
                let (yes, no): (Lanes, Lanes) = lanes.into_iter().partition(is_true);
                let mut rest = self.block(function, frame, accept, yes, left)?;
                rest.extend(self.block(function, frame, reject, no, left)?);
                rest.sort_unstable();
                return Ok(rest);
            }
            Statement::Switch { selector, cases } => {
                return self.switch(function, frame, *selector, cases, lanes, left);
            }
            Statement::Loop { body, continuing, break_if } => {
                return self.repeat(function, frame, (body, continuing, *break_if), lanes);
            }
            Statement::Break => {
                left.broke.extend(lanes);
                return Ok(Lanes::new());
            }
            Statement::Continue => {
                left.continued.extend(lanes);
                return Ok(Lanes::new());
            }
            Statement::Return { value } => {
                if let Some(value) = value {
                    let width = self.program.functions[function].result;
                    for &lane in &lanes {
                        let (from, to) = (self.at(function, *value, lane), width * lane as usize);
                        frame.result[to..to + width].copy_from_slice(&frame.scalars[from..from + width]);
                    }
                }
                return Ok(Lanes::new());
            }
            Statement::ControlBarrier(barrier) => self.barrier(*barrier, &lanes)?,
            Statement::Store { pointer, value } => self.store(function, frame, *pointer, *value, &lanes)?,
            Statement::Call { function: called, arguments, result } => {
                self.call(function, frame, called.index(), arguments, *result, &lanes)?;
            }
            Statement::Atomic { pointer, fun, value, result } => {
                self.atomic(function, frame, (*pointer, *fun, *value, *result), &lanes)?;
            }
            Statement::WorkGroupUniformLoad { pointer, result } => {
                self.barrier(Barrier::WORK_GROUP, &lanes)?;
                self.load(function, frame, *result, *pointer, &lanes)?;
                self.barrier(Barrier::WORK_GROUP, &lanes)?;
            }
            Statement::SubgroupBallot { result, predicate } => {
                self.ballot(function, frame, *result, *predicate, &lanes)?;
            }
            Statement::SubgroupGather { mode, argument, result } => {
                self.gather(function, frame, (mode, *argument, *result), &lanes)?;
            }
            Statement::SubgroupCollectiveOperation { op, collective_op, argument, result } => {
                self.collect(function, frame, (*op, *collective_op, *argument, *result), &lanes)?;
            }
            other => return fault(Kind::Unknown, format!("the statement {other:?}")),
        }
        Ok(lanes)
    }

    fn repeat(
        &mut self,
        function: usize,
        frame: &mut Frame,
        (body, continuing, break_if): (&Block, &Block, Option<Handle<Expression>>),
        mut lanes: Lanes,
    ) -> Checked<Lanes> {
        let mut done = Lanes::new();
        for _ in 0..MOST_TURNS {
            let mut left = Left::default();
            let mut next = self.block(function, frame, body, lanes, &mut left)?;
            next.extend(left.continued);
            next.sort_unstable();
            done.extend(left.broke);
            next = self.block(function, frame, continuing, next, &mut Left::default())?;
            if let Some(condition) = break_if {
                let column = self.column(function, condition);
                let is_true = |lane: &u32| frame.scalars[column.at(*lane)] != 0;
                let (broke, stay): (Lanes, Lanes) = next.into_iter().partition(is_true);
                done.extend(broke);
                next = stay;
            }
            lanes = next;
            if lanes.is_empty() {
                done.sort_unstable();
                return Ok(done);
            }
        }
        self.blame(lanes[0], fault(Kind::Endless, format!("a loop has more than {MOST_TURNS} turns")))
    }

    fn switch(
        &mut self,
        function: usize,
        frame: &mut Frame,
        selector: Handle<Expression>,
        cases: &[wgpu::naga::SwitchCase],
        lanes: Lanes,
        left: &mut Left,
    ) -> Checked<Lanes> {
        let selected = |lane: u32| {
            let value = frame.scalars[self.at(function, selector, lane)] as u32;
            let is_equal = |case: SwitchValue| match case {
                SwitchValue::U32(x) => x == value,
                SwitchValue::I32(x) => x as u32 == value,
                SwitchValue::Default => false,
            };
            let exact = cases.iter().position(|case| is_equal(case.value));
            exact.or_else(|| cases.iter().position(|case| case.value == SwitchValue::Default))
        };
        let choices: Vec<Option<usize>> = lanes.iter().map(|&lane| selected(lane)).collect();
        let (mut rest, mut falling) = (Lanes::new(), Lanes::new());
        for (index, case) in cases.iter().enumerate() {
            let chosen =
                lanes.iter().zip(&choices).filter(|(_, choice)| **choice == Some(index)).map(|(lane, _)| *lane);
            falling.extend(chosen);
            falling.sort_unstable();
            let mut own = Left::default();
            let end = self.block(function, frame, &case.body, std::mem::take(&mut falling), &mut own)?;
            rest.extend(own.broke);
            left.continued.extend(own.continued);
            match case.fall_through {
                true => falling = end,
                false => rest.extend(end),
            }
        }
        rest.extend(lanes.iter().zip(&choices).filter(|(_, choice)| choice.is_none()).map(|(lane, _)| *lane));
        rest.extend(falling);
        rest.sort_unstable();
        Ok(rest)
    }

    fn barrier(&mut self, barrier: Barrier, lanes: &[u32]) -> Checked<()> {
        if lanes.len() != self.lanes {
            let text = format!("a barrier is reached by {} of {} invocations", lanes.len(), self.lanes);
            return self.blame(lanes[0], fault(Kind::Divergence, text));
        }
        if barrier.intersects(Barrier::SUB_GROUP | Barrier::TEXTURE) {
            return fault(Kind::Unknown, format!("{barrier:?}"));
        }
        self.barriers += barrier.contains(Barrier::WORK_GROUP) as u32;
        self.storage_barriers += barrier.contains(Barrier::STORAGE) as u32;
        Ok(())
    }

    fn call(
        &mut self,
        caller: usize,
        frame: &mut Frame,
        called: usize,
        arguments: &[Handle<Expression>],
        result: Option<Handle<Expression>>,
        lanes: &[u32],
    ) -> Checked<()> {
        let program = self.program;
        let mut inner = self.frame(called);
        for &(expression, index) in &program.functions[called].arguments {
            let width = program.functions[called].slots[expression.index()].width;
            inner.roots[expression.index()] = frame.roots[arguments[index].index()];
            let (from, to) = (self.column(caller, arguments[index]), self.column(called, expression));
            for &lane in lanes {
                let (from, to) = (from.at(lane), to.at(lane));
                inner.scalars[to..to + width].copy_from_slice(&frame.scalars[from..from + width]);
            }
        }
        let inner = self.enter(called, inner, lanes.to_vec())?;
        if let Some(result) = result {
            let width = program.functions[called].result;
            let to = self.column(caller, result);
            for &lane in lanes {
                let (from, to) = (width * lane as usize, to.at(lane));
                frame.scalars[to..to + width].copy_from_slice(&inner.result[from..from + width]);
            }
        }
        self.idle[called].push(inner);
        Ok(())
    }
}

/// Initializes a variable for each of `lanes`.
fn fill(memory: &mut Memory, fields: &[Field], start: &[u64], lanes: &[u32]) {
    for &lane in lanes {
        for (field, value) in fields.iter().zip(start) {
            let at = lane as usize * memory.size + field.offset;
            let width = field.scalar.bytes();
            memory.bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }
}
