//! Evaluates expressions for a set of invocations at a time.

use super::arithmetic::{self, Scalar};
use super::fast::Math;
use super::fault::{Checked, Kind, fault};
use super::machine::{Frame, Machine, Root};
use super::program::Slot;
use wgpu::naga::{
    ArraySize, AtomicFunction, BinaryOperator, Expression, Handle, MathFunction, RelationalFunction, TypeInner,
};

type Value = Handle<Expression>;

impl Machine<'_> {
    fn slot(&self, function: usize, expression: Value) -> &Slot {
        &self.program.functions[function].slots[expression.index()]
    }

    /// Evaluates an expression for `lanes`.
    pub(super) fn evaluate(&mut self, function: usize, frame: &mut Frame, target: Value, lanes: &[u32]) -> Checked<()> {
        let program = self.program;
        if self.math == Math::Fast && self.rewrite(function, frame, target, lanes) {
            return Ok(());
        }
        match &program.function(function).expressions[target] {
            Expression::Literal(_)
            | Expression::Constant(_)
            | Expression::ZeroValue(_)
            | Expression::FunctionArgument(_)
            | Expression::GlobalVariable(_)
            | Expression::LocalVariable(_) => {}
            Expression::Compose { components, .. } => {
                let to = self.column(function, target);
                let mut place = 0;
                for &component in components {
                    let from = self.column(function, component);
                    for &lane in lanes {
                        for i in 0..from.width {
                            frame.scalars[to.at(lane) + place + i] = frame.scalars[from.at(lane) + i];
                        }
                    }
                    place += from.width;
                }
            }
            Expression::Access { base, index } => {
                self.select(function, frame, target, *base, Index::Dynamic(*index), lanes)?;
            }
            Expression::AccessIndex { base, index } => {
                self.select(function, frame, target, *base, Index::Known(*index), lanes)?;
            }
            Expression::Splat { value, .. } => {
                self.map(function, frame, target, [*value; 3], lanes, |x, _, _| x);
            }
            Expression::Swizzle { size, vector, pattern } => {
                for &lane in lanes {
                    let (from, to) = (self.at(function, *vector, lane), self.at(function, target, lane));
                    for (i, component) in pattern.iter().enumerate().take(*size as usize) {
                        frame.scalars[to + i] = frame.scalars[from + *component as usize];
                    }
                }
            }
            Expression::Load { pointer } => self.load(function, frame, target, *pointer, lanes)?,
            Expression::Unary { op, expr } => {
                let scalar = self.slot(function, *expr).scalar();
                if arithmetic::unary(*op, scalar, 0).is_none() {
                    return fault(Kind::Unknown, format!("{op:?} of {scalar:?}"));
                }
                self.map(function, frame, target, [*expr; 3], lanes, |x, _, _| {
                    arithmetic::unary(*op, scalar, x).unwrap_or_default()
                });
            }
            Expression::Binary { op, left, right } => {
                self.binary(function, frame, (target, *op, *left, *right), lanes)?;
            }
            Expression::Select { condition, accept, reject } => {
                let choose = |condition, accept, reject| if condition != 0 { accept } else { reject };
                self.map(function, frame, target, [*condition, *accept, *reject], lanes, choose);
            }
            Expression::Relational { fun, argument } => {
                let slot = self.slot(function, *argument);
                let (width, scalar) = (slot.width, slot.scalar());
                for &lane in lanes {
                    let (from, to) = (self.at(function, *argument, lane), self.at(function, target, lane));
                    for i in 0..self.slot(function, target).width {
                        let x = scalar.float(frame.scalars[from + i]);
                        let whole = &frame.scalars[from..from + width];
                        frame.scalars[to + i] = match fun {
                            RelationalFunction::All => whole.iter().all(|&x| x != 0),
                            RelationalFunction::Any => whole.iter().any(|&x| x != 0),
                            RelationalFunction::IsNan => x.is_nan(),
                            RelationalFunction::IsInf => x.is_infinite(),
                        } as u64;
                    }
                }
            }
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                let arguments: Vec<Value> = [Some(*arg), *arg1, *arg2, *arg3].into_iter().flatten().collect();
                self.math(function, frame, (target, *fun, &arguments), lanes)?;
            }
            Expression::As { expr, convert, .. } => {
                let (from, to) = (self.slot(function, *expr).scalar(), self.slot(function, target).scalar());
                if convert.is_none() && from.bytes() != to.bytes() {
                    return fault(Kind::Unknown, format!("bits of {from:?} as {to:?}"));
                }
                let converts = convert.is_some();
                let change = |x, _, _| if converts { from.convert(x, to) } else { x };
                self.map(function, frame, target, [*expr; 3], lanes, change);
            }
            Expression::ArrayLength(array) => {
                let TypeInner::Pointer { base, .. } = self.slot(function, *array).inner else {
                    return fault(Kind::Unknown, "the length of something other than an array");
                };
                let TypeInner::Array { stride, .. } = program.module.types[base].inner else {
                    return fault(Kind::Unknown, "the length of something other than an array");
                };
                let root = frame.roots[array.index()];
                for &lane in lanes {
                    let offset = frame.scalars[self.at(function, *array, lane)] as usize;
                    let length = (self.memory(root).bytes.len() - offset) / stride as usize;
                    frame.scalars[self.at(function, target, lane)] = length as u64;
                }
            }
            other => return fault(Kind::Unknown, format!("the expression {other:?}")),
        }
        Ok(())
    }

    /// Computes each component of `target` from the components of the operands; scalar operands are broadcast.
    fn map(
        &mut self,
        function: usize,
        frame: &mut Frame,
        target: Value,
        operands: [Value; 3],
        lanes: &[u32],
        f: impl Fn(u64, u64, u64) -> u64,
    ) {
        let to = self.column(function, target);
        let [a, b, c] = operands.map(|operand| self.column(function, operand));
        let scalars = &mut frame.scalars[..];
        if to.width == 1 {
            for &lane in lanes {
                scalars[to.at(lane)] = f(scalars[a.at(lane)], scalars[b.at(lane)], scalars[c.at(lane)]);
            }
            return;
        }
        let width = to.width;
        let [i, j, k] = [a, b, c].map(|column| (column.width > 1) as usize);
        for &lane in lanes {
            let (to, a, b, c) = (to.at(lane), a.at(lane), b.at(lane), c.at(lane));
            for n in 0..width {
                scalars[to + n] = f(scalars[a + n * i], scalars[b + n * j], scalars[c + n * k]);
            }
        }
    }

    fn binary(
        &mut self,
        function: usize,
        frame: &mut Frame,
        (target, op, left, right): (Value, BinaryOperator, Value, Value),
        lanes: &[u32],
    ) -> Checked<()> {
        let scalar = self.slot(function, left).scalar();
        let Some(operator) = arithmetic::binary(op, scalar) else {
            return fault(Kind::Unknown, format!("{op:?} of {scalar:?}"));
        };
        if matches!(op, BinaryOperator::Divide | BinaryOperator::Modulo)
            || matches!(op, BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight)
        {
            let steps = [left, right].map(|operand| (self.slot(function, operand).width > 1) as usize);
            for &lane in lanes {
                let from = [left, right].map(|operand| self.at(function, operand, lane));
                for i in 0..self.slot(function, target).width {
                    let [a, b] = [0, 1].map(|k| frame.scalars[from[k] + i * steps[k]]);
                    if let Some(what) = arithmetic::misuse(op, scalar, a, b) {
                        let name = &self.program.function(function).name;
                        let text = format!("{what} in {}: {a} and {b}", name.as_deref().unwrap_or("main"));
                        return self.blame(lane, fault(Kind::Arithmetic, text));
                    }
                }
            }
        }
        self.map(function, frame, target, [left, right, right], lanes, |a, b, _| operator.apply(scalar, a, b));
        Ok(())
    }

    /// Selects a part of a value, or a pointer to a part of a pointer's target.
    fn select(
        &mut self,
        function: usize,
        frame: &mut Frame,
        target: Value,
        base: Value,
        index: Index,
        lanes: &[u32],
    ) -> Checked<()> {
        let slot = self.slot(function, base);
        let (is_pointer, width) = (slot.is_pointer(), self.slot(function, target).width);
        let root = frame.roots[base.index()];
        let first = lanes[0];
        // All invocations share the pointer's offset, hence a length known only at run time is the same for all.
        let offset = frame.scalars[self.at(function, base, first)] as usize;
        let parts = self.parts(function, base, index, width, root, offset)?;
        let (known, by, scalar) = match index {
            Index::Known(index) => (index as i64, None, Scalar::U32),
            Index::Dynamic(index) => (0, Some(self.column(function, index)), self.slot(function, index).scalar()),
        };
        let (source, result) = (self.column(function, base), self.column(function, target));
        for &lane in lanes {
            let chosen = by.map_or(known, |by| scalar.int(frame.scalars[by.at(lane)]));
            if chosen < 0 || chosen as u64 >= parts.length {
                let name = match is_pointer {
                    true => self.memory(root).name.clone(),
                    false => "a value".to_string(),
                };
                let text = format!("{name}: index {chosen} of {}", parts.length);
                return self.blame(lane, fault(Kind::OutOfBounds, text));
            }
            let (from, to) = (source.at(lane), result.at(lane));
            let moved = parts.start + chosen as usize * parts.stride;
            match is_pointer {
                true => frame.scalars[to] = frame.scalars[from] + moved as u64,
                false => frame.scalars.copy_within(from + moved..from + moved + width, to),
            }
        }
        frame.roots[target.index()] = root;
        Ok(())
    }

    /// The layout of the parts of `base`, or of its target if it is a pointer: in bytes for pointers, otherwise in
    /// scalars.
    fn parts(
        &mut self,
        function: usize,
        base: Value,
        index: Index,
        width: usize,
        root: Root,
        offset: usize,
    ) -> Checked<Parts> {
        let program = self.program;
        let slot = &program.functions[function].slots[base.index()];
        let pointed = match &slot.inner {
            TypeInner::Pointer { base, .. } => &program.module.types[*base].inner,
            inner => inner,
        };
        let in_bytes = slot.is_pointer();
        Ok(match (pointed, index) {
            (TypeInner::Array { size: ArraySize::Constant(count), stride, .. }, _) => {
                Parts { start: 0, stride: if in_bytes { *stride as usize } else { width }, length: count.get().into() }
            }
            (TypeInner::Array { size: ArraySize::Dynamic, stride, .. }, _) => {
                let stride = *stride as usize;
                Parts { start: 0, stride, length: self.memory(root).length(offset, stride) }
            }
            (TypeInner::Vector { size, scalar }, _) | (TypeInner::ValuePointer { size: Some(size), scalar, .. }, _) => {
                Parts { start: 0, stride: if in_bytes { scalar.width as usize } else { 1 }, length: *size as u64 }
            }
            (TypeInner::Struct { members, .. }, Index::Known(member)) => {
                let bytes = members[member as usize].offset as usize;
                let scalars = slot.fields.partition_point(|field| field.offset < bytes);
                Parts { start: if in_bytes { bytes } else { scalars }, stride: 0, length: members.len() as u64 }
            }
            (other, _) => return fault(Kind::Unknown, format!("a part of {other:?}")),
        })
    }

    fn is_atomic(&self, function: usize, pointer: Value) -> bool {
        match self.slot(function, pointer).inner {
            TypeInner::Pointer { base, .. } => matches!(self.program.module.types[base].inner, TypeInner::Atomic(_)),
            _ => false,
        }
    }

    /// Reads the target of a pointer.
    pub(super) fn load(
        &mut self,
        function: usize,
        frame: &mut Frame,
        target: Value,
        pointer: Value,
        lanes: &[u32],
    ) -> Checked<()> {
        let program = self.program;
        let root = frame.roots[pointer.index()];
        let is_atomic = self.is_atomic(function, pointer);
        let (from, to) = (self.column(function, pointer), self.column(function, target));
        let fields = &program.functions[function].slots[target.index()].fields[..];
        let bytes = fields.last().map_or(0, |field| field.offset + field.scalar.bytes());
        self.note_banks(root, lanes, bytes, |lane| frame.scalars[from.at(lane)] as usize);
        let mut access = self.access(root, 0);
        let memory = self.memory(root);
        for &lane in lanes {
            access.lane = lane;
            let (offset, to) = (frame.scalars[from.at(lane)] as usize, to.at(lane));
            for (i, field) in fields.iter().enumerate() {
                let (at, width) = (offset + field.offset, field.scalar.bytes());
                let loaded = match is_atomic {
                    true => memory.update(at, width, access, |bits| bits),
                    false => memory.load(at, width, access),
                };
                match loaded {
                    Ok(bits) => frame.scalars[to + i] = bits,
                    failed => return self.blame(lane, failed.map(|_| ())),
                }
            }
        }
        Ok(())
    }

    /// Replaces the target of a pointer.
    pub(super) fn store(
        &mut self,
        function: usize,
        frame: &mut Frame,
        pointer: Value,
        value: Value,
        lanes: &[u32],
    ) -> Checked<()> {
        let program = self.program;
        let root = frame.roots[pointer.index()];
        let is_atomic = self.is_atomic(function, pointer);
        let (to, from) = (self.column(function, pointer), self.column(function, value));
        let fields = &program.functions[function].slots[value.index()].fields[..];
        let bytes = fields.last().map_or(0, |field| field.offset + field.scalar.bytes());
        self.note_banks(root, lanes, bytes, |lane| frame.scalars[to.at(lane)] as usize);
        let mut access = self.access(root, 0);
        let memory = self.memory(root);
        for &lane in lanes {
            access.lane = lane;
            let (offset, from) = (frame.scalars[to.at(lane)] as usize, from.at(lane));
            for (i, field) in fields.iter().enumerate() {
                let (at, width, bits) = (offset + field.offset, field.scalar.bytes(), frame.scalars[from + i]);
                let stored = match is_atomic {
                    true => memory.update(at, width, access, |_| bits).map(|_| ()),
                    false => memory.store(at, width, bits, access),
                };
                if stored.is_err() {
                    return self.blame(lane, stored);
                }
            }
        }
        Ok(())
    }

    /// Updates an atomic number, one invocation after the other.
    pub(super) fn atomic(
        &mut self,
        function: usize,
        frame: &mut Frame,
        (pointer, fun, value, result): (Value, AtomicFunction, Value, Option<Value>),
        lanes: &[u32],
    ) -> Checked<()> {
        let root = frame.roots[pointer.index()];
        let scalar = self.slot(function, value).scalar();
        for &lane in lanes {
            let offset = frame.scalars[self.at(function, pointer, lane)] as usize;
            let operand = frame.scalars[self.at(function, value, lane)];
            let access = self.access(root, lane);
            let of = |op, old| arithmetic::binary(op, scalar).map_or(old, |f| f.apply(scalar, old, operand));
            let best = |f, old| arithmetic::math(f, scalar, [old, operand, 0, 0]).unwrap_or(old);
            let compared = match fun {
                AtomicFunction::Exchange { compare: Some(compare) } => {
                    Some(frame.scalars[self.at(function, compare, lane)])
                }
                _ => None,
            };
            let next = |old: u64| match fun {
                AtomicFunction::Add => of(BinaryOperator::Add, old),
                AtomicFunction::Subtract => of(BinaryOperator::Subtract, old),
                AtomicFunction::And => of(BinaryOperator::And, old),
                AtomicFunction::ExclusiveOr => of(BinaryOperator::ExclusiveOr, old),
                AtomicFunction::InclusiveOr => of(BinaryOperator::InclusiveOr, old),
                AtomicFunction::Min => best(MathFunction::Min, old),
                AtomicFunction::Max => best(MathFunction::Max, old),
                AtomicFunction::Exchange { .. } if compared.is_some_and(|compared| compared != old) => old,
                AtomicFunction::Exchange { .. } => operand,
            };
            let updated = self.memory(root).update(offset, scalar.bytes(), access, next);
            let old = self.blame(lane, updated)?;
            if let Some(result) = result {
                let to = self.at(function, result, lane);
                frame.scalars[to] = old;
                if let Some(compared) = compared {
                    frame.scalars[to + 1] = (compared == old) as u64;
                }
            }
        }
        Ok(())
    }

    fn math(
        &mut self,
        function: usize,
        frame: &mut Frame,
        (target, fun, arguments): (Value, MathFunction, &[Value]),
        lanes: &[u32],
    ) -> Checked<()> {
        let scalar = self.slot(function, arguments[0]).scalar();
        if arguments.len() <= 3 && !is_whole(fun) {
            if arithmetic::math(fun, scalar, [0; 4]).is_none() {
                return fault(Kind::Unknown, format!("{fun:?} of {scalar:?}"));
            }
            let operands = [0, 1, 2].map(|i| *arguments.get(i).unwrap_or(&arguments[0]));
            let compute = |a, b, c| arithmetic::math(fun, scalar, [a, b, c, 0]).unwrap_or_default();
            self.map(function, frame, target, operands, lanes, compute);
            return Ok(());
        }
        let (out, width) = (self.slot(function, target).scalar(), self.slot(function, target).width);
        for &lane in lanes {
            let to = self.at(function, target, lane);
            let whole: Vec<&[u64]> = arguments
                .iter()
                .map(|&argument| {
                    let at = self.at(function, argument, lane);
                    &frame.scalars[at..at + self.slot(function, argument).width]
                })
                .collect();
            let result = match is_whole(fun) {
                true => whole_math(fun, scalar, out, &whole),
                false => (0..width)
                    .map(|i| arithmetic::math(fun, scalar, [0, 1, 2, 3].map(|k| component(whole[k], i))))
                    .collect(),
            };
            let Some(result) = result else {
                return fault(Kind::Unknown, format!("{fun:?} of {scalar:?}"));
            };
            frame.scalars[to..to + width].copy_from_slice(&result);
        }
        Ok(())
    }
}

/// A component of a vector; a scalar is broadcast.
fn component(x: &[u64], i: usize) -> u64 {
    x[i.min(x.len() - 1)]
}

/// How a part is selected.
#[derive(Clone, Copy)]
enum Index {
    Known(u32),
    Dynamic(Value),
}

/// The layout of the parts of a value.
struct Parts {
    start: usize,
    stride: usize,
    length: u64,
}

/// Whether a function works on whole vectors rather than component-wise.
fn is_whole(fun: MathFunction) -> bool {
    use MathFunction as M;
    matches!(fun, M::Dot | M::Length | M::Normalize | M::Dot4I8Packed | M::Dot4U8Packed)
        || matches!(fun, M::Pack2x16float | M::Unpack2x16float | M::Pack4xI8 | M::Pack4xU8)
        || matches!(fun, M::Pack4xI8Clamp | M::Pack4xU8Clamp | M::Unpack4xI8 | M::Unpack4xU8)
}

/// Applies the functions for which [`is_whole`] is true.
fn whole_math(fun: MathFunction, scalar: Scalar, out: Scalar, x: &[&[u64]]) -> Option<Vec<u64>> {
    use MathFunction as M;
    let dot = |a: &[u64], b: &[u64]| {
        let products = a.iter().zip(b);
        match scalar.is_float() {
            true => scalar.float_bits(products.map(|(&a, &b)| scalar.float(a) * scalar.float(b)).sum()),
            false => scalar.int_bits(
                products.fold(0i64, |sum, (&a, &b)| sum.wrapping_add(scalar.int(a).wrapping_mul(scalar.int(b)))),
            ),
        }
    };
    let length = |a: &[u64]| scalar.float_bits(scalar.float(dot(a, a)).sqrt());
    let bytes = |signed: bool| -> i64 {
        let [a, b] = [0, 1].map(|k| arithmetic::unpack_bytes(x[k][0], signed));
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    };
    let four = || [0, 1, 2, 3].map(|i| scalar.int(x[0][i]));
    Some(match fun {
        M::Dot => vec![dot(x[0], x[1])],
        M::Length => vec![length(x[0])],
        M::Normalize => {
            let by = scalar.float(length(x[0]));
            x[0].iter().map(|&a| scalar.float_bits(scalar.float(a) / by)).collect()
        }
        M::Dot4I8Packed => vec![out.int_bits(bytes(true))],
        M::Dot4U8Packed => vec![out.int_bits(bytes(false))],
        M::Pack2x16float => vec![arithmetic::pack_halves([scalar.float(x[0][0]), scalar.float(x[0][1])])],
        M::Unpack2x16float => arithmetic::unpack_halves(x[0][0]).map(|half| out.float_bits(half)).to_vec(),
        M::Pack4xI8 | M::Pack4xU8 => vec![arithmetic::pack_bytes(four(), fun == M::Pack4xI8, false)],
        M::Pack4xI8Clamp | M::Pack4xU8Clamp => {
            vec![arithmetic::pack_bytes(four(), fun == M::Pack4xI8Clamp, true)]
        }
        M::Unpack4xI8 | M::Unpack4xU8 => {
            arithmetic::unpack_bytes(x[0][0], fun == M::Unpack4xI8).map(|byte| out.int_bits(byte)).to_vec()
        }
        _ => return None,
    })
}
