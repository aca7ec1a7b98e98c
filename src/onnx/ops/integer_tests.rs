//! Operators on integers against exact sums: random shapes, types and zero points, with passes on and off, on every
//! instruction set.

use crate::compile::Passes;
use crate::cpu::simd::Isa;
use crate::dtype::{DataType, Number};
use crate::onnx::tensor::ElementType::{self, Float, Int8, Int32, Uint8};
use crate::onnx::testing::*;
use crate::ops::tensor::Tensor;
use crate::shape::Descriptor;
use crate::testing::{Random, run_with};
use std::collections::HashMap;
use std::mem::take;

const OPSET: i64 = 17;

/// Integers, and the type that holds them.
#[derive(Clone)]
struct Ints {
    element: ElementType,
    shape: Vec<usize>,
    values: Vec<i64>,
}

fn below(random: &mut Random, end: usize) -> usize {
    (random.next() >> 33) as usize % end
}

fn within(random: &mut Random, range: std::ops::RangeInclusive<usize>) -> usize {
    range.start() + below(random, range.end() - range.start() + 1)
}

fn range(element: ElementType) -> [i64; 2] {
    match element {
        Int8 => [-128, 127],
        Uint8 => [0, 255],
        _ => [-100_000, 100_000],
    }
}

/// A number that is a power of two: products with it are exact.
fn step(random: &mut Random) -> f32 {
    [0.25, 0.5, 1.0, 2.0][below(random, 4)]
}

fn scale(random: &mut Random) -> f32 {
    (0.01 + random.uniform()) as f32
}

impl Ints {
    fn random(random: &mut Random, element: ElementType, shape: &[usize]) -> Ints {
        let [low, high] = range(element);
        let count = shape.iter().product();
        // One in eight is an end of the range: sums of these are the largest.
        let mut value = || match below(random, 8) {
            0 => [low, high][below(random, 2)],
            _ => low + below(random, (high - low + 1) as usize) as i64,
        };
        let values = (0..count).map(|_| value()).collect();
        Ints { element, shape: shape.to_vec(), values }
    }

    fn bytes(random: &mut Random, shape: &[usize]) -> Ints {
        let element = [Int8, Uint8][below(random, 2)];
        Ints::random(random, element, shape)
    }

    /// The element at `index`; dimensions of size 1 repeat, and missing leading ones are left out.
    fn at(&self, index: &[usize]) -> i64 {
        let own = &index[index.len() - self.shape.len()..];
        let flat = own.iter().zip(&self.shape).fold(0, |flat, (&i, &size)| flat * size + if size == 1 { 0 } else { i });
        self.values[flat]
    }
}

fn webnn(element: ElementType) -> DataType {
    element.webnn().expect("an 8-bit or 32-bit type")
}

/// All indices into a tensor of this shape.
fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let count = shape.iter().product();
    let shape = shape.to_vec();
    (0..count).map(move |flat: usize| {
        let mut rest = flat;
        let mut index = vec![0; shape.len()];
        for (i, &size) in index.iter_mut().zip(&shape).rev() {
            (*i, rest) = (rest % size, rest / size);
        }
        index
    })
}

/// A model under construction, with the tensors of its inputs.
struct Case<'r> {
    random: &'r mut Random,
    graph: TestGraph,
    inputs: HashMap<String, Tensor>,
}

impl<'r> Case<'r> {
    fn new(random: &'r mut Random) -> Self {
        Case { random, graph: TestGraph::default(), inputs: HashMap::new() }
    }

    fn add(&mut self, name: &str, element: ElementType, shape: &[usize], bytes: &[u8], constant: bool) {
        let graph = take(&mut self.graph);
        self.graph = match constant {
            true => graph.raw(name, element, &shape.iter().map(|&size| size as i64).collect::<Vec<_>>(), bytes),
            false => {
                let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
                let descriptor =
                    Descriptor::new(webnn(element), shape.iter().map(|&size| size as u32).collect::<Vec<_>>());
                self.inputs.insert(name.to_string(), Tensor::from_bytes(&descriptor, bytes));
                graph.input(name, element, &dims.iter().map(String::as_str).collect::<Vec<_>>())
            }
        };
    }

    /// An operand that is a constant or an input.
    fn ints(&mut self, name: &str, ints: &Ints) {
        let bytes: Vec<u8> =
            ints.values.iter().flat_map(|&x| Number::Int(x.into()).to_bytes(webnn(ints.element))).collect();
        let constant = below(self.random, 3) > 0;
        self.add(name, ints.element, &ints.shape, &bytes, constant);
    }

    fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let constant = below(self.random, 3) > 0;
        self.add(name, Float, shape, &bytes, constant);
    }

    /// A zero point of one of these shapes, or none (`_`). Returns its name and its elements.
    fn zero(&mut self, name: &'static str, element: ElementType, shapes: &[&[usize]]) -> (&'static str, Ints) {
        let at = below(self.random, shapes.len() + 1);
        let Some(shape) = shapes.get(at) else {
            return ("_", Ints { element, shape: Vec::new(), values: vec![0] });
        };
        let zero = Ints::random(self.random, element, shape);
        self.ints(name, &zero);
        (name, zero)
    }

    fn node(&mut self, operator: &str, inputs: &str, outputs: &str, attributes: Vec<(&str, Attr)>) {
        self.graph = take(&mut self.graph).node(operator, inputs, outputs, attributes);
    }

    /// Runs the model with several sets of passes on every instruction set, and calls `check` with its outputs.
    fn run(mut self, outputs: &[(&str, ElementType)], check: impl Fn(&[Vec<Number>], &dyn Fn() -> String)) {
        let graph = outputs.iter().fold(take(&mut self.graph), |graph, (name, of)| graph.output_of(name, *of));
        // Devices without products of integers compute in floats.
        let is_for_gpus = below(self.random, 4) == 0;
        let graph = if is_for_gpus { graph.import_for_gpus(OPSET) } else { graph.import(OPSET, &Default::default()) };
        let graph = graph.unwrap_or_else(|error| panic!("{error}"));
        let without = Passes::NAMES[below(self.random, Passes::NAMES.len())];
        let sets = [
            ("all", Passes::ALL),
            ("none", Passes::NONE),
            ("no quantized", Passes { quantized: false, ..Passes::ALL }),
            (without, Passes::without(without).expect("a pass")),
        ];
        for isa in Isa::available() {
            for (name, passes) in sets {
                let bytes = run_with(&graph, &self.inputs, isa, passes);
                let numbers = |((_, id), bytes): (&(String, _), &Vec<u8>)| {
                    Tensor::from_bytes(graph.descriptor(*id), bytes).numbers().collect()
                };
                let got: Vec<Vec<Number>> = graph.outputs.iter().zip(&bytes).map(numbers).collect();
                check(&got, &|| format!("{isa:?}, passes: {name}, of\n{graph}"));
            }
        }
    }

    /// Like [`run`](Self::run), for a single output of integers.
    fn gives(self, output: &str, element: ElementType, expected: &[i64]) {
        self.run(&[(output, element)], |got, context| {
            for (at, (&got, &expected)) in got[0].iter().zip(expected).enumerate() {
                assert!(got == Number::Int(expected.into()), "element {at}: {got:?}, not {expected}: {}", context());
            }
            assert_eq!(got[0].len(), expected.len());
        });
    }
}

/// A sum of products, and the sum of their magnitudes.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: i64,
    magnitude: i64,
}

impl Sum {
    fn add(&mut self, a: i64, b: i64) {
        self.value += a * b;
        self.magnitude += (a * b).abs();
    }
}

/// The matrix product of `a` and `b` without their zero points, and its shape.
fn product([a, a_zero]: [&Ints; 2], [b, b_zero]: [&Ints; 2]) -> (Vec<usize>, Vec<Sum>) {
    let rank = a.shape.len().max(b.shape.len());
    let size = |ints: &Ints, axis: usize| (axis + ints.shape.len()).checked_sub(rank).map_or(1, |at| ints.shape[at]);
    let mut shape: Vec<usize> = (0..rank - 2).map(|axis| size(a, axis).max(size(b, axis))).collect();
    shape.extend([size(a, rank - 2), size(b, rank - 1)]);
    let sum = |index: Vec<usize>| {
        let (batch, &[row, col]) = index.split_last_chunk::<2>().unwrap();
        let mut sum = Sum::default();
        for k in 0..size(a, rank - 1) {
            let (left, right) = ([batch, &[row, k]].concat(), [batch, &[k, col]].concat());
            let rows =
                if a_zero.shape.len() == 1 { a_zero.at(&[row]) } else { a_zero.at(&[batch, &[row, 0]].concat()) };
            let cols =
                if b_zero.shape.len() == 1 { b_zero.at(&[col]) } else { b_zero.at(&[batch, &[0, col]].concat()) };
            sum.add(a.at(&left) - rows, b.at(&right) - cols);
        }
        sum
    };
    let sums = indices(&shape).map(sum).collect();
    (shape, sums)
}

/// A convolution's operands and attributes, for any number of spatial dimensions.
struct Convolved {
    x: Ints,
    w: Ints,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    /// Leading, then trailing.
    pads: Vec<usize>,
    groups: usize,
}

impl Convolved {
    fn random(random: &mut Random) -> Convolved {
        // One in four suits algorithms that transform images and filters.
        let plain = below(random, 4) == 0;
        let count = if plain { 2 } else { within(random, 1..=3) };
        let mut each = |plainly: usize, from: std::ops::RangeInclusive<usize>, count: usize| -> Vec<usize> {
            (0..count).map(|_| if plain { plainly } else { within(random, from.clone()) }).collect()
        };
        let (kernel, strides, dilations) = (each(3, 1..=3, count), each(1, 1..=2, count), each(1, 1..=2, count));
        let (pads, spatial) = (each(1, 0..=2, 2 * count), each(14, 5..=8, count));
        let groups = if plain { 1 } else { [1, 1, 2, 5][below(random, 4)] };
        let inputs = if plain { within(random, 16..=40) } else { groups * [1, 2, 7][below(random, 3)] };
        let outputs = if plain { within(random, 16..=20) } else { groups * within(random, 1..=5) };
        let batches = within(random, 1..=2);
        let x = Ints::bytes(random, &[&[batches, inputs], &spatial[..]].concat());
        let w = Ints::bytes(random, &[&[outputs, inputs / groups], &kernel[..]].concat());
        Convolved { x, w, strides, dilations, pads, groups }
    }

    fn attributes<R>(&self, with: impl FnOnce(Vec<(&str, Attr)>) -> R) -> R {
        let [strides, dilations, pads] = [&self.strides, &self.dilations, &self.pads]
            .map(|list| list.iter().map(|&number| number as i64).collect::<Vec<_>>());
        with(vec![
            ("strides", Attr::Ints(&strides)),
            ("dilations", Attr::Ints(&dilations)),
            ("pads", Attr::Ints(&pads)),
            ("group", Attr::Int(self.groups as i64)),
        ])
    }

    fn channels(&self) -> usize {
        self.w.shape[0]
    }

    /// The output's shape.
    fn shape(&self) -> Vec<usize> {
        let count = self.strides.len();
        let size = |at: usize| {
            let padded = self.x.shape[2 + at] + self.pads[at] + self.pads[count + at];
            (padded - (self.w.shape[2 + at] - 1) * self.dilations[at] - 1) / self.strides[at] + 1
        };
        [self.x.shape[0], self.channels()].into_iter().chain((0..count).map(size)).collect()
    }

    fn sums(&self, x_zero: &Ints, w_zero: &Ints) -> Vec<Sum> {
        let (spatial, kernel, inputs) = (&self.x.shape[2..], &self.w.shape[2..], self.w.shape[1]);
        let [plane, taps] = [spatial, kernel].map(|sizes| sizes.iter().product::<usize>());
        let sum = |index: Vec<usize>| {
            let channel = index[1];
            let first = channel / (self.channels() / self.groups) * inputs;
            let w_zero = w_zero.at(if w_zero.shape.is_empty() { &[] } else { &index[1..2] });
            let mut sum = Sum::default();
            for (at, tap) in indices(kernel).enumerate() {
                // The place in the plane, if it is not in the padding.
                let place = (0..kernel.len()).try_fold(0, |flat, axis| {
                    let place = index[2 + axis] * self.strides[axis] + tap[axis] * self.dilations[axis];
                    let place = place.checked_sub(self.pads[axis]).filter(|&place| place < spatial[axis])?;
                    Some(flat * spatial[axis] + place)
                });
                let Some(place) = place else { continue };
                for input in 0..inputs {
                    let x = self.x.values[(index[0] * self.x.shape[1] + first + input) * plane + place];
                    let w = self.w.values[(channel * inputs + input) * taps + at];
                    sum.add(x - x_zero.values[0], w - w_zero);
                }
            }
            sum
        };
        indices(&self.shape()).map(sum).collect()
    }
}

/// The integers `x / scale + zero` in the range of `element`, as onnxruntime computes them.
fn quantized(x: f32, zero: i64, element: ElementType) -> i64 {
    let [low, high] = range(element);
    (x.round_ties_even() as i64 + zero).clamp(low, high)
}

#[test]
fn convolutions_of_integers() {
    let mut random = Random::new(1);
    for _ in 0..40 {
        let convolved = Convolved::random(&mut random);
        let mut case = Case::new(&mut random);
        case.ints("x", &convolved.x);
        case.ints("w", &convolved.w);
        let (x_name, x_zero) = case.zero("xz", convolved.x.element, &[&[], &[1]]);
        let (w_name, w_zero) = case.zero("wz", convolved.w.element, &[&[], &[convolved.channels()]]);
        let names = format!("x w {x_name} {w_name}");
        convolved.attributes(|attributes| case.node("ConvInteger", &names, "y", attributes));
        case.node("Cast", "y", "f", vec![("to", Attr::Int(1))]);
        let sums = convolved.sums(&x_zero, &w_zero);
        case.run(&[("y", Int32), ("f", Float)], |got, context| {
            assert_eq!([got[0].len(), got[1].len()], [sums.len(); 2]);
            for (at, sum) in sums.iter().enumerate() {
                let (int, float) = (got[0][at], got[1][at].to_f64());
                assert!(
                    int == Number::Int(sum.value.into()),
                    "element {at}: {int:?}, not {}: {}",
                    sum.value,
                    context()
                );
                // Sums that are only read as floats may round once partial sums do.
                let exact = sum.magnitude < 1 << 24;
                let allowed = if exact { 0.0 } else { sum.magnitude as f64 * 1e-5 };
                assert!((float - sum.value as f64).abs() <= allowed, "{float}, not {}: {}", sum.value, context());
            }
        });
    }
}

/// Shapes of two matrices, or stacks of them.
fn matrices(random: &mut Random) -> [Vec<usize>; 2] {
    let [rows, cols] = [(); 2].map(|_| [1, 2, 5, 17][below(random, 4)]);
    let depth = [1, 3, 16, 60, 257, 600][below(random, 6)];
    let batches: [[&[usize]; 2]; 4] = [[&[], &[]], [&[2], &[]], [&[2, 1], &[3]], [&[3], &[3]]];
    let [a, b] = batches[below(random, 4)];
    [[a, &[rows, depth]].concat(), [b, &[depth, cols]].concat()]
}

/// Two random matrices, with zero points.
struct Factors {
    a: Ints,
    b: Ints,
    names: [&'static str; 2],
    shape: Vec<usize>,
    sums: Vec<Sum>,
}

impl Factors {
    fn new(case: &mut Case, per_matrix: bool) -> Factors {
        let shapes = matrices(case.random);
        let [a, b] = [0, 1].map(|at| Ints::bytes(case.random, &shapes[at]));
        case.ints("a", &a);
        case.ints("b", &b);
        let ([.., rows, _], [.., cols]) = (&shapes[0][..], &shapes[1][..]) else { unreachable!() };
        let ends = [*rows, *cols];
        let mut wide = shapes.clone();
        *wide[0].last_mut().unwrap() = 1;
        let count = wide[1].len();
        wide[1][count - 2] = 1;
        let mut zero = |at: usize, name, element| match per_matrix {
            true => case.zero(name, element, &[&[], &[ends[at]], &wide[at]]),
            false => case.zero(name, element, &[&[], &[1]]),
        };
        let ((a_name, a_zero), (b_name, b_zero)) = (zero(0, "az", a.element), zero(1, "bz", b.element));
        let (shape, sums) = product([&a, &a_zero], [&b, &b_zero]);
        Factors { a, b, names: [a_name, b_name], shape, sums }
    }
}

#[test]
fn products_of_integers() {
    let mut random = Random::new(2);
    for _ in 0..40 {
        let mut case = Case::new(&mut random);
        let Factors { names: [a, b], sums, .. } = Factors::new(&mut case, true);
        case.node("MatMulInteger", &format!("a b {a} {b}"), "y", vec![]);
        case.gives("y", Int32, &sums.iter().map(|sum| sum.value).collect::<Vec<_>>());
    }
}

#[test]
fn products_of_32_bit_integers() {
    let mut random = Random::new(3);
    for _ in 0..20 {
        let shapes = matrices(&mut random);
        let [mut a, mut b] = shapes.map(|shape| Ints::random(&mut random, Int32, &shape));
        [&mut a, &mut b].into_iter().for_each(|ints| ints.values.iter_mut().for_each(|x| *x /= 100));
        let zero = Ints { element: Int32, shape: Vec::new(), values: vec![0] };
        let (_, sums) = product([&a, &zero], [&b, &zero]);
        let mut case = Case::new(&mut random);
        case.ints("a", &a);
        case.ints("b", &b);
        case.node("MatMul", "a b", "y", vec![]);
        case.gives("y", Int32, &sums.iter().map(|sum| sum.value).collect::<Vec<_>>());
    }
}

#[test]
fn quantized_convolutions() {
    let mut random = Random::new(4);
    for _ in 0..30 {
        let convolved = Convolved::random(&mut random);
        let (channels, mut case) = (convolved.channels(), Case::new(&mut random));
        let (x, w) = (&convolved.x, &convolved.w);
        case.ints("x", x);
        case.ints("w", w);
        let [x_zero, w_zero] = [(x, vec![]), (w, [vec![], vec![channels]][below(case.random, 2)].clone())]
            .map(|(ints, shape)| Ints::random(case.random, ints.element, &shape));
        let y_zero = Ints::bytes(case.random, &[]);
        for (name, zero) in [("xz", &x_zero), ("wz", &w_zero), ("yz", &y_zero)] {
            case.ints(name, zero);
        }
        let x_scale = scale(case.random);
        let spread = below(case.random, 2) == 0;
        let w_scales: Vec<f32> = (0..if spread { 1 } else { channels }).map(|_| scale(case.random)).collect();
        let sums = convolved.sums(&x_zero, &w_zero);
        let largest = sums.iter().map(|sum| sum.value.abs()).max().unwrap() as f32;
        let y_scale = x_scale * w_scales[0] * largest / 200.0;
        case.floats("xs", &[], &[x_scale]);
        case.floats("ws", if spread { &[] } else { std::slice::from_ref(&channels) }, &w_scales);
        case.floats("ys", &[], &[y_scale]);
        let bias = Ints::random(case.random, Int32, &[channels]);
        let biased = below(case.random, 2) == 0;
        if biased {
            case.ints("b", &bias);
        }
        let names = format!("x xs xz w ws wz ys yz {}", if biased { "b" } else { "_" });
        convolved.attributes(|attributes| case.node("QLinearConv", &names, "y", attributes));
        let expected = |(index, sum): (Vec<usize>, &Sum)| {
            let channel = index[1];
            let factor = x_scale * w_scales[channel % w_scales.len()] / y_scale;
            let sum = sum.value + if biased { bias.values[channel] } else { 0 };
            quantized(sum as f32 * factor, y_zero.values[0], y_zero.element)
        };
        let expected: Vec<i64> = indices(&convolved.shape()).zip(&sums).map(expected).collect();
        case.gives("y", y_zero.element, &expected);
    }
}

#[test]
fn quantized_products() {
    let mut random = Random::new(5);
    for _ in 0..30 {
        let mut case = Case::new(&mut random);
        let Factors { a, b, names, sums, shape } = Factors::new(&mut case, true);
        let (rows, cols) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        let mut scales = |count: usize| -> Vec<f32> {
            let count = if below(case.random, 2) == 0 { 1 } else { count };
            (0..count).map(|_| scale(case.random)).collect()
        };
        let (a_scales, b_scales) = (scales(rows), scales(cols));
        let largest = sums.iter().map(|sum| sum.value.abs()).max().unwrap().max(1) as f32;
        let y_scale = a_scales[0] * b_scales[0] * largest / 200.0;
        let y_zero = Ints::bytes(case.random, &[]);
        let of = |scales: &[f32]| if scales.len() == 1 { vec![] } else { vec![scales.len()] };
        case.floats("as", &of(&a_scales), &a_scales);
        case.floats("bs", &of(&b_scales), &b_scales);
        case.floats("ys", &[], &[y_scale]);
        case.ints("yz", &y_zero);
        // Zero points are required.
        for (name, given, ints) in [("az", names[0], &a), ("bz", names[1], &b)] {
            if given == "_" {
                case.ints(name, &Ints { element: ints.element, shape: Vec::new(), values: vec![0] });
            }
        }
        case.node("QLinearMatMul", "a as az b bs bz ys yz", "y", vec![]);
        let expected = |(index, sum): (Vec<usize>, &Sum)| {
            let [row, col] = [index[index.len() - 2], index[index.len() - 1]];
            let factor = a_scales[row % a_scales.len()] * b_scales[col % b_scales.len()] / y_scale;
            quantized(sum.value as f32 * factor, y_zero.values[0], y_zero.element)
        };
        let expected: Vec<i64> = indices(&shape).zip(&sums).map(expected).collect();
        case.gives("y", y_zero.element, &expected);
    }
}

/// What `DynamicQuantizeLinear` makes of `x`: the integers, the scale and the zero point.
fn dynamically(x: &[f32]) -> (Vec<i64>, f32, i64) {
    let (low, high) = x.iter().fold((0f32, 0f32), |(low, high), &x| (low.min(x), high.max(x)));
    let scale = (high - low) / 255.0;
    let zero = quantized(-low / scale, 0, Uint8);
    (x.iter().map(|&x| quantized(x / scale, zero, Uint8)).collect(), scale, zero)
}

#[test]
fn dynamically_quantized_operators() {
    let mut random = Random::new(6);
    for round in 0..30 {
        let mut convolved = Convolved::random(&mut random);
        let shapes = matrices(&mut random);
        let is_product = round % 2 == 0;
        let shape = if is_product { &shapes[0] } else { &convolved.x.shape };
        let x: Vec<f32> = (0..shape.iter().product()).map(|_| random.uniform() as f32 * 5.0 - 2.0).collect();
        let (integers, x_scale, x_zero) = dynamically(&x);
        let x_ints = Ints { element: Uint8, shape: shape.clone(), values: integers };
        let zero = Ints { element: Uint8, shape: Vec::new(), values: vec![x_zero] };
        let mut case = Case::new(&mut random);
        case.floats("x", shape, &x);
        case.node("DynamicQuantizeLinear", "x", "q qs qz", vec![]);
        let sums = if is_product {
            let w = Ints::bytes(case.random, &shapes[1]);
            case.ints("w", &w);
            let (name, w_zero) = case.zero("wz", w.element, &[&[], &[shapes[1][shapes[1].len() - 1]]]);
            case.node("MatMulInteger", &format!("q w qz {name}"), "y", vec![]);
            product([&x_ints, &zero], [&w, &w_zero]).1
        } else {
            case.ints("w", &convolved.w);
            let (name, w_zero) = case.zero("wz", convolved.w.element, &[&[], &[convolved.channels()]]);
            let names = format!("q w qz {name}");
            convolved.attributes(|attributes| case.node("ConvInteger", &names, "y", attributes));
            convolved.x = x_ints;
            convolved.sums(&zero, &w_zero)
        };
        let w_scale = step(case.random);
        case.floats("ws", &[], &[w_scale]);
        case.node("Cast", "y", "f", vec![("to", Attr::Int(1))]);
        case.node("Mul", "qs ws", "s", vec![]);
        case.node("Mul", "f s", "z", vec![]);
        case.run(&[("y", Int32), ("z", Float), ("qs", Float)], |got, context| {
            assert_eq!(got[2], [Number::Float(x_scale.into())]);
            for (at, sum) in sums.iter().enumerate() {
                assert!(got[0][at] == Number::Int(sum.value.into()), "element {at}: {:?}: {}", got[0][at], context());
                let (got, expected) = (got[1][at].to_f64(), sum.value as f64 * (x_scale * w_scale) as f64);
                let allowed = sum.magnitude as f64 * (x_scale * w_scale) as f64 * 1e-5;
                assert!((got - expected).abs() <= allowed, "element {at}: {got}, not {expected}: {}", context());
            }
        });
    }
}

/// Products of onnxruntime's that return floats, here with scales whose products are exact.
#[test]
fn products_that_return_floats() {
    let mut random = Random::new(7);
    for _ in 0..30 {
        let mut case = Case::new(&mut random);
        let Factors { names: [a, b], sums, shape, .. } = Factors::new(&mut case, false);
        let [a_scale, b_scale] = [(); 2].map(|_| step(case.random));
        case.floats("as", &[], &[a_scale]);
        case.floats("bs", &[1], &[b_scale]);
        let bias: Vec<f32> = (0..shape[shape.len() - 1]).map(|at| at as f32 * a_scale * b_scale).collect();
        case.floats("c", &[bias.len()], &bias);
        let names = format!("a b as bs {a} {b} c");
        case.node("com.microsoft.MatMulIntegerToFloat", &names, "y", vec![]);
        case.run(&[("y", Float)], |got, context| {
            for (at, (&got, sum)) in got[0].iter().zip(&sums).enumerate() {
                let expected = sum.value as f64 * (a_scale * b_scale) as f64 + bias[at % bias.len()] as f64;
                let exact = sum.magnitude < 1 << 23;
                let allowed = if exact { 0.0 } else { sum.magnitude as f64 * (a_scale * b_scale) as f64 * 1e-5 };
                let error = (got.to_f64() - expected).abs();
                assert!(error <= allowed, "element {at}: {got:?}, not {expected}: {}", context());
            }
        });
    }
}

#[test]
fn products_that_quantize_their_first_factor() {
    let mut random = Random::new(8);
    for _ in 0..15 {
        let shapes = matrices(&mut random);
        let a: Vec<f32> = (0..shapes[0].iter().product()).map(|_| random.uniform() as f32 * 5.0 - 2.0).collect();
        let (integers, _, a_zero) = dynamically(&a);
        let (low, high) = a.iter().fold((0f32, 0f32), |(low, high), &x| (low.min(x), high.max(x)));
        let a_scale = (high - low) / 255.0;
        let a_ints = Ints { element: Uint8, shape: shapes[0].clone(), values: integers };
        let zero = Ints { element: Uint8, shape: Vec::new(), values: vec![a_zero] };
        let mut case = Case::new(&mut random);
        let b = Ints::bytes(case.random, &shapes[1]);
        case.floats("a", &shapes[0], &a);
        case.ints("b", &b);
        let b_scale = scale(case.random);
        case.floats("bs", &[], &[b_scale]);
        let (name, b_zero) = case.zero("bz", b.element, &[&[], &[1]]);
        case.node("com.microsoft.DynamicQuantizeMatMul", &format!("a b bs {name}"), "y", vec![]);
        let (_, sums) = product([&a_ints, &zero], [&b, &b_zero]);
        case.run(&[("y", Float)], |got, context| {
            for (at, (&got, sum)) in got[0].iter().zip(&sums).enumerate() {
                let factor = a_scale as f64 * b_scale as f64;
                let (got, expected) = (got.to_f64(), sum.value as f64 * factor);
                let allowed = sum.magnitude as f64 * factor * 1e-5;
                assert!((got - expected).abs() <= allowed, "element {at}: {got}, not {expected}: {}", context());
            }
        });
    }
}

/// A tensor of integers with a scale and a zero point, as operands of that order.
struct Scaled {
    ints: Ints,
    scale: f32,
    zero: i64,
    names: String,
}

impl Scaled {
    fn new(case: &mut Case, name: &str, element: ElementType, shape: &[usize]) -> Scaled {
        let (ints, zero) = (Ints::random(case.random, element, shape), Ints::random(case.random, element, &[]));
        let scale = scale(case.random);
        case.ints(name, &ints);
        let names = format!("{name} {name}s {name}z");
        Scaled::with(case, name, scale, &zero);
        Scaled { ints, scale, zero: zero.values[0], names }
    }

    fn with(case: &mut Case, name: &str, scale: f32, zero: &Ints) {
        case.floats(&format!("{name}s"), &[], &[scale]);
        case.ints(&format!("{name}z"), zero);
    }

    fn real(&self, value: i64) -> f64 {
        (value - self.zero) as f64 * self.scale as f64
    }

    fn reals(&self) -> Vec<f64> {
        self.ints.values.iter().map(|&value| self.real(value)).collect()
    }
}

/// Checks that each result of `operator` is the integer next to the real one: these operators compute in floats.
fn check_nearest(mut case: Case, operator: &str, names: &str, attributes: Vec<(&str, Attr)>, reals: &[f64]) {
    let element = [Int8, Uint8][below(case.random, 2)];
    let zero = Ints::random(case.random, element, &[]);
    let largest = reals.iter().fold(1e-3f64, |most, real| most.max(real.abs()));
    let y_scale = (largest / 150.0) as f32;
    Scaled::with(&mut case, "y", y_scale, &zero);
    case.node(&format!("com.microsoft.{operator}"), &names.replace("OUT", "ys yz"), "y", attributes);
    case.run(&[("y", element)], |got, context| {
        assert_eq!(got[0].len(), reals.len());
        let [low, high] = range(element).map(|end| end as f64);
        for (at, (&got, &real)) in got[0].iter().zip(reals).enumerate() {
            let expected = (real / y_scale as f64 + zero.values[0] as f64).clamp(low, high);
            let error = (got.to_f64() - expected).abs();
            assert!(error <= 0.5 + 1e-3, "{operator}, element {at}: {got:?}, not {expected}: {}", context());
        }
    });
}

#[test]
fn quantized_gemm_and_other_operators() {
    let mut random = Random::new(9);
    for round in 0..6 {
        // The type of the output equals that of the first operand.
        let (element, shape) = ([Int8, Uint8][below(&mut random, 2)], [2, 3, 4, 5]);
        let mut case = Case::new(&mut random);
        let [rows, depth, cols] = [(); 3].map(|_| within(case.random, 1..=20));
        let a = Scaled::new(&mut case, "a", element, &[rows, depth]);
        let b = Scaled::new(&mut case, "b", Int8, &[depth, cols]);
        let c = Ints::random(case.random, Int32, &[cols]);
        case.ints("c", &c);
        let [a_zero, b_zero] =
            [a.zero, b.zero].map(|zero| Ints { element: Int32, shape: Vec::new(), values: vec![zero] });
        let (_, sums) = product([&a.ints, &a_zero], [&b.ints, &b_zero]);
        let factor = a.scale as f64 * b.scale as f64 * 0.5;
        let real = |(at, sum): (usize, &Sum)| (sum.value + c.values[at % cols]) as f64 * factor;
        let reals: Vec<f64> = sums.iter().enumerate().map(real).collect();
        let names = format!("{} {} c OUT", a.names, b.names);
        check_nearest(case, "QGemm", &names, vec![("alpha", Attr::Float(0.5))], &reals);

        for (operator, combine) in [("QLinearAdd", (|a, b| a + b) as fn(f64, f64) -> f64), ("QLinearMul", |a, b| a * b)]
        {
            let mut case = Case::new(&mut random);
            let a = Scaled::new(&mut case, "a", element, &shape);
            let b = Scaled::new(&mut case, "b", element, if round % 2 == 0 { &shape } else { &shape[2..] });
            let reals: Vec<f64> =
                indices(&shape).map(|at| combine(a.real(a.ints.at(&at)), b.real(b.ints.at(&at)))).collect();
            let names = format!("{} {} OUT", a.names, b.names);
            check_nearest(case, operator, &names, vec![], &reals);
        }

        for (operator, of) in [
            ("QLinearLeakyRelu", (|x| if x < 0.0 { x * 0.25 } else { x }) as fn(f64) -> f64),
            ("QLinearSigmoid", |x| 1.0 / (1.0 + (-x).exp())),
        ] {
            let mut case = Case::new(&mut random);
            let x = Scaled::new(&mut case, "x", element, &shape);
            let reals: Vec<f64> = x.reals().into_iter().map(of).collect();
            let attributes = if operator == "QLinearLeakyRelu" { vec![("alpha", Attr::Float(0.25))] } else { vec![] };
            check_nearest(case, operator, &format!("{} OUT", x.names), attributes, &reals);
        }

        let mut case = Case::new(&mut random);
        let x = Scaled::new(&mut case, "x", element, &shape);
        let means: Vec<f64> = x.reals().chunks(20).map(|plane| plane.iter().sum::<f64>() / 20.0).collect();
        check_nearest(case, "QLinearGlobalAveragePool", &format!("{} OUT", x.names), vec![], &means);

        let mut case = Case::new(&mut random);
        let (a, b) = (Scaled::new(&mut case, "a", element, &shape), Scaled::new(&mut case, "b", element, &shape));
        let joined: Vec<f64> =
            a.reals().chunks(60).zip(b.reals().chunks(60)).flat_map(|(a, b)| [a, b].concat()).collect();
        let names = format!("OUT {} {}", a.names, b.names);
        check_nearest(case, "QLinearConcat", &names, vec![("axis", Attr::Int(1))], &joined);
    }
}
