//! Graphs of 100,000 nodes, inputs, outputs, constants or live values. Quadratic algorithms would take hours here.

use super::arena::Arena;
use super::plan::{Plan, PlanOptions};
use super::schedule::pool::Threads;
use super::simd::Isa;
use super::steps::Env;
use crate::compile::Passes;
use crate::dtype::DataType;
use crate::ir::{Builder, OperandId};
use crate::memory::{Buffer, elements, elements_mut};
use crate::ops::Op;
use crate::ops::concat::Concat;
use crate::ops::elementwise::Elementwise::{Add, Mul, Neg, Relu};
use crate::ops::matmul::Matmul;
use crate::ops::quantize::Quantize;
use crate::ops::reshape::Reshape;
use crate::ops::slice::Slice;
use crate::ops::softmax::Softmax;
use crate::ops::split::{Split, Splits};
use crate::ops::transpose::Transpose;
use crate::shape::Descriptor;

const MANY: usize = 100_000;

/// A graph under construction; all its inputs are ones.
#[derive(Default)]
struct Large(Builder);

impl Large {
    fn input(&mut self, name: impl ToString, shape: &[u32]) -> OperandId {
        self.0.input(&name.to_string(), Descriptor::new(DataType::Float32, shape)).unwrap()
    }

    fn add(&mut self, op: impl Into<Op>, inputs: &[OperandId]) -> OperandId {
        self.0.add(op, inputs.iter().copied().map(Some).collect(), "").unwrap()[0]
    }

    fn reshape(&mut self, input: OperandId, shape: &[u32]) -> OperandId {
        self.add(Reshape { new_shape: shape.iter().map(|&size| size.into()).collect() }, &[input])
    }

    fn constant(&mut self, value: f32, shape: &[u32]) -> OperandId {
        let descriptor = Descriptor::new(DataType::Float32, shape);
        let bytes: Vec<u8> = (0..descriptor.elements()).flat_map(|_| value.to_le_bytes()).collect();
        self.0.constant(descriptor, &bytes).unwrap()
    }

    /// Builds the graph with these outputs and runs it: every element of every output must be `expected`.
    fn check(self, outputs: Vec<OperandId>, expected: f32) {
        let named = outputs.into_iter().enumerate().map(|(index, id)| (index.to_string(), id)).collect();
        let threads = Threads::new(1).unwrap();
        let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
        let mut plan = Plan::compile(self.0.finish(named), &env, Passes::ALL, PlanOptions::default()).unwrap();
        let buffers = |ports: &[(String, Descriptor)]| -> Vec<Buffer> {
            ports.iter().map(|(_, port)| Buffer::zeroed(port.bytes()).unwrap()).collect()
        };
        let (mut inputs, mut outputs) = (buffers(plan.inputs()), buffers(plan.outputs()));
        inputs.iter_mut().for_each(|input| elements_mut::<f32>(input.bytes_mut()).fill(1.0));
        let inputs: Vec<&Buffer> = inputs.iter().collect();
        plan.run(&env, &inputs, &mut outputs.iter_mut().collect::<Vec<_>>()).unwrap();
        for (name, output) in outputs.iter().enumerate() {
            let output = elements::<f32>(output.bytes());
            assert!(output.iter().all(|&x| x == expected), "output {name}: {output:?}, expected {expected}");
        }
    }
}

#[test]
fn chains_of_outputs() {
    let mut large = Large::default();
    let mut x = large.input("x", &[1]);
    let outputs = (0..MANY).map(|_| {
        x = large.add(Relu, &[x]);
        x
    });
    let outputs = outputs.collect();
    large.check(outputs, 1.0);
}

#[test]
fn nested_concats() {
    let mut large = Large::default();
    let x = large.input("x", &[1]);
    let mut all = large.add(Neg, &[x]);
    for _ in 0..MANY / 2 {
        let next = large.add(Neg, &[x]);
        all = large.add(Concat { axis: 0 }, &[all, next]);
    }
    large.check(vec![all], -1.0);
}

#[test]
fn nested_concats_of_constants() {
    let mut large = Large::default();
    let (mut all, one) = (large.constant(1.0, &[1]), large.constant(1.0, &[1]));
    // Repeated copies are quadratic in bytes.
    for _ in 0..MANY / 10 {
        all = large.add(Concat { axis: 0 }, &[all, one]);
    }
    let x = large.input("x", &[1]);
    let all = large.add(Mul, &[all, x]);
    large.check(vec![all], 1.0);
}

#[test]
fn living_values() {
    let mut large = Large::default();
    let x = large.input("x", &[100]);
    // A computed value: slices of an input would need no copy.
    let x = large.add(Softmax { axis: 0 }, &[x]);
    let part = |large: &mut Large, x, size: u32| {
        let op = Slice { starts: vec![0u32.into()], sizes: vec![size.into()], strides: None };
        let part = large.add(op, &[x]);
        large.add(Softmax { axis: 0 }, &[part])
    };
    let living: Vec<_> = (0..MANY as u32).map(|index| part(&mut large, x, 1 + index * 7 % 100)).collect();
    let mut sum = part(&mut large, x, 1);
    for value in living {
        let one = part(&mut large, value, 1);
        sum = large.add(Add, &[sum, one]);
    }
    large.check(vec![sum], (1 + MANY) as f32);
}

#[test]
fn inputs_and_constants() {
    let mut large = Large::default();
    let (mut sum, mut known) = (large.input("x", &[1]), large.constant(1.0, &[1]));
    for index in 0..MANY {
        let checkpoint = large.0.checkpoint();
        large.input(index, &[2]);
        large.0.roll_back(checkpoint);
        let (input, constant) = (large.input(index, &[1]), large.constant(1.0, &[1]));
        sum = large.add(Add, &[sum, input]);
        known = large.add(Add, &[known, constant]);
    }
    sum = large.add(Add, &[sum, known]);
    large.check(vec![sum], (2 + 2 * MANY) as f32);
}

#[test]
fn readers_of_one_value() {
    let mut large = Large::default();
    let x = large.input("x", &[1, 1]);
    let product = large.add(Matmul, &[x, x]);
    let outputs = (0..MANY).map(|_| large.add(Neg, &[product])).collect();
    large.check(outputs, -1.0);
}

#[test]
fn reshapes() {
    let mut large = Large::default();
    let mut x = large.input("x", &[1]);
    let outputs = (0..MANY).map(|index| {
        x = large.reshape(x, if index % 2 == 0 { &[1, 1] } else { &[1] });
        x
    });
    let outputs = outputs.collect();
    large.check(outputs, 1.0);
}

#[test]
fn products() {
    let mut large = Large::default();
    let mut x = large.input("x", &[1, 1]);
    let one = large.constant(1.0, &[1, 1]);
    for _ in 0..MANY / 4 {
        let other = large.constant(1.0, &[1, 1]);
        x = large.add(Matmul, &[x, one]);
        x = large.add(Neg, &[x]);
        x = large.add(Matmul, &[x, other]);
        x = large.add(Neg, &[x]);
    }
    large.check(vec![x], 1.0);
}

#[test]
fn attentions() {
    let mut large = Large::default();
    let mut x = large.input("x", &[2, 2]);
    for _ in 0..MANY / 4 {
        let keys = large.add(Transpose { permutation: None }, &[x]);
        let scores = large.add(Matmul, &[x, keys]);
        let weights = large.add(Softmax { axis: 1 }, &[scores]);
        x = large.add(Matmul, &[weights, x]);
    }
    large.check(vec![x], 1.0);
}

#[test]
fn quantizations() {
    let mut large = Large::default();
    let mut x = large.input("x", &[1]);
    let one = large.constant(1.0, &[1]);
    let zero = large.0.constant(Descriptor::new(DataType::Int8, [1u32]), &[0]).unwrap();
    for _ in 0..MANY / 2 {
        x = large.add(Quantize::QuantizeLinear, &[x, one, zero]);
        x = large.add(Quantize::DequantizeLinear, &[x, one, zero]);
    }
    large.check(vec![x], 1.0);
}

#[test]
fn parts() {
    let mut large = Large::default();
    let mut x = large.input("x", &[2, 8000]);
    for _ in 0..MANY / 8000 {
        let splits = Splits::Count(8000);
        let parts = large.0.add(Split { splits, axis: 1 }, vec![Some(x)], "").unwrap();
        let parts: Vec<_> = parts.into_iter().map(|part| large.add(Softmax { axis: 1 }, &[part])).collect();
        x = large.add(Concat { axis: 1 }, &parts);
        x = large.reshape(x, &[1, 16000]);
        let splits = Splits::Count(8000);
        let parts = large.0.add(Split { splits, axis: 1 }, vec![Some(x)], "").unwrap();
        x = large.add(Concat { axis: 0 }, &parts);
        x = large.reshape(x, &[2, 8000]);
    }
    large.check(vec![x], 1.0);
}
