//! The operations after a product or convolution: the part of the program that runs in the registers of the kernels,
//! and the rest.

use super::Env;
use super::elementwise::{ElementwiseStep, REGISTER};
use crate::cpu::kernels::elementwise::unary_float_in_place;
use crate::cpu::memory::Io;
use crate::cpu::product::finish::{Finish, Tail};
use crate::cpu::schedule::shared::PerThread;
use crate::memory::bytes_of_mut;
use crate::ops::elementwise::Elementwise as E;
use crate::ops::fused::{Fused, Instruction};
use crate::shape::{Descriptor, broadcast_strides};

/// The program after an operator, and its operands.
pub struct Following<'a> {
    /// The index of the operand that the operator itself adds, if it has one.
    pub addend: Option<usize>,
    /// The program; operand 0 is the result of the operator.
    pub program: &'a Fused,
    /// The output.
    pub output: &'a Descriptor,
    /// The other operands of the program.
    pub operands: &'a [&'a Descriptor],
    /// The index of the first of `operands` among all operands of the step.
    pub first: usize,
}

/// A compiled program after a product. Its first operations can run in registers: the addition of a bias by the
/// product, then of a value of the output's shape (a residual), then bounds.
pub struct EpilogueStep {
    registers: RegisterPart,
    rest: Rest,
    /// Operand `i` of the rest is operand `i + shift` of the node.
    shift: usize,
}

/// The operations on results in cache.
enum Rest {
    Nothing,
    /// A single function of each result.
    Function(E),
    Program(ElementwiseStep),
}

/// The operations that run in registers.
#[derive(Clone, Copy)]
struct RegisterPart {
    addend: Option<usize>,
    residual: Option<usize>,
    clamp: Option<[f32; 2]>,
    /// Number of instructions that run in registers.
    done: usize,
}

impl EpilogueStep {
    /// Compiles the program. `takes` decides whether the product, which has no addend yet, can add an operand with
    /// these strides over the output's dimensions; it is called again only after returning false.
    pub fn new(following: &Following, takes: impl FnMut(&[usize]) -> bool) -> EpilogueStep {
        let Following { program, output, first, .. } = following;
        let registers = RegisterPart::new(following, takes);
        let program = without(program, registers.done);
        let rest = match program.instructions.as_slice() {
            [] => Rest::Nothing,
            [Instruction { op, operands, .. }] if *operands == [0] && !matches!(op, E::Cast { .. }) => {
                Rest::Function(*op)
            }
            _ => Rest::Program(ElementwiseStep::behind(&program, output, following.operands.iter().copied())),
        };
        EpilogueStep { registers, rest, shift: first.saturating_sub(1) }
    }

    /// Adapts the program to other sizes; returns `false` if the step must be rebuilt.
    #[must_use]
    pub fn resize(&mut self, following: &Following, takes: impl FnMut(&[usize]) -> bool) -> bool {
        let done = self.registers.done;
        self.registers = RegisterPart::new(following, takes);
        done == self.registers.done
            && match &mut self.rest {
                Rest::Program(rest) => rest.resize(following.operands.iter().copied(), following.output),
                Rest::Nothing | Rest::Function(_) => true,
            }
    }

    /// The node's operand that the product adds: its own, or one of the program.
    pub fn addend(&self) -> Option<usize> {
        self.registers.addend
    }

    /// Whether results need operations that do not run in registers.
    pub fn finishes(&self) -> bool {
        !matches!(self.rest, Rest::Nothing)
    }

    /// Scratch length in `f32` elements that [`with_tail`](Self::with_tail) needs on `threads` threads.
    pub fn scratch_len(&self, threads: usize) -> usize {
        self.slot() * threads
    }

    fn slot(&self) -> usize {
        match &self.rest {
            Rest::Program(rest) => rest.register_bytes().next_multiple_of(REGISTER) / size_of::<f32>(),
            Rest::Nothing | Rest::Function(_) => 0,
        }
    }

    /// Calls `run` with the operations on the sums.
    pub fn with_tail(&self, &Env { isa, threads, .. }: &Env, io: &Io, scratch: &mut [f32], run: impl FnOnce(Tail)) {
        let residual = self.registers.residual.and_then(|operand| io.optional::<f32>(operand));
        let clamp = self.registers.clamp;
        let run = |finish: Finish| run(Tail { residual, clamp, finish });
        match &self.rest {
            Rest::Nothing => run(None),
            Rest::Function(op) => run(Some(&|_, values: &mut [f32]| unary_float_in_place(isa, *op, values))),
            Rest::Program(rest) => {
                let registers = PerThread::within(threads, scratch);
                run(Some(&|at, values: &mut [f32]| {
                    registers.with(|own| rest.run_in_place(isa, io, self.shift, at, values, bytes_of_mut(own)));
                }));
            }
        }
    }
}

impl RegisterPart {
    /// Takes instructions into registers as long as possible; `takes` is as in [`EpilogueStep::new`].
    fn new(following: &Following, mut takes: impl FnMut(&[usize]) -> bool) -> RegisterPart {
        let Following { addend, program, .. } = following;
        let mut registers = RegisterPart { addend: *addend, residual: None, clamp: None, done: 0 };
        for instruction in &program.instructions {
            let done = registers.done;
            let value = if done == 0 { 0 } else { program.inputs + done - 1 };
            if program.reads(value) != 1 || !registers.takes(instruction, value, following, &mut takes) {
                break;
            }
            registers.done += 1;
        }
        registers
    }

    /// Takes an instruction on `value`, if it can run in registers after the previous ones.
    fn takes(
        &mut self,
        instruction: &Instruction,
        value: usize,
        Following { program, output, operands, first, .. }: &Following,
        takes: &mut impl FnMut(&[usize]) -> bool,
    ) -> bool {
        match (instruction.op, instruction.operands.as_slice()) {
            (E::Identity, _) => true,
            (E::Add, &[a, b]) if self.clamp.is_none() && self.residual.is_none() => {
                let other = if a == value { b } else { a };
                if other == 0 || other >= program.inputs {
                    return false;
                }
                let (at, descriptor) = (first + other - 1, operands[other - 1]);
                let strides = broadcast_strides(&descriptor.sizes(), &output.sizes());
                if self.addend.is_none() && takes(&strides) {
                    self.addend = Some(at);
                } else if descriptor.elements() == output.elements() {
                    self.residual = Some(at);
                } else {
                    return false;
                }
                true
            }
            (E::Relu, _) if self.clamp.is_none() => {
                self.clamp = Some([0.0, f32::INFINITY]);
                true
            }
            (E::Clamp { min, max }, _) if self.clamp.is_none() => {
                self.clamp = Some([min.to_f64() as f32, max.to_f64() as f32]);
                true
            }
            _ => false,
        }
    }
}

/// The program without its first `done` instructions, whose result becomes operand 0.
fn without(program: &Fused, done: usize) -> Fused {
    let register = |&register: &usize| match register.checked_sub(program.inputs) {
        Some(result) if result + 1 == done => 0,
        Some(result) => program.inputs + result - done,
        None => register,
    };
    let rest = program.instructions[done..].iter().map(|Instruction { op, operands, dtype }| Instruction {
        op: *op,
        operands: operands.iter().map(register).collect(),
        dtype: *dtype,
    });
    Fused { inputs: program.inputs, instructions: rest.collect() }
}

/// Whether the strides over dimensions of these sizes are those of a vector along `axis`.
pub fn is_vector_along(axis: usize, strides: &[usize], shape: &[u32]) -> bool {
    let wanted = |at: usize| usize::from(at == axis);
    (0..shape.len()).all(|at| shape[at] == 1 || strides[at] == wanted(at))
}
