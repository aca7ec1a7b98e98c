//! Compares the CPU with the oracle for every operator, data type and rank that the rules allow.

use super::attributes::{Attribute, Attributes};
use super::extension::elementwise::Extended;
use super::rule::{OpRule, OperandRule, Types};
use super::tensor::Tensor;
use super::{NamedOperator, Op, Operation};
use crate::dtype::{DataType, Number};
use crate::ir::{Builder, Graph};
use crate::shape::Descriptor;
use crate::testing::{Random, Tolerance, check, check_with};
use std::collections::BTreeMap;

/// Most results are one or two roundings away. Integers are exact. The looser bounds are for sums of a few products
/// that cancel, and for transcendental functions, which have strict tests of their own.
const FLOATS: Tolerance = Tolerance::ulps(16).or_absolute(1e-5);
const DOUBLES: Tolerance = Tolerance::ulps(4).or_absolute(1e-14);
/// float16 is rounded once, at the end: half a unit, and the float32 error before it can tip the rounding.
const HALVES: Tolerance = Tolerance::ulps(2).or_absolute(2e-3);

/// An operator with small operands of one rank.
struct Example {
    /// Shapes per operand; a variadic operand has several.
    shapes: Vec<(&'static str, Vec<Vec<u32>>)>,
    attributes: Attributes,
}

impl Example {
    fn new<const N: usize>(shapes: [(&'static str, &[u32]); N]) -> Example {
        let shapes = shapes.map(|(name, shape)| (name, vec![shape.to_vec()])).to_vec();
        Example { shapes, attributes: Attributes::default() }
    }

    fn with(mut self, name: &str, value: Attribute) -> Example {
        self.attributes.0.insert(name.to_string(), value);
        self
    }

    fn number(self, name: &str, value: u32) -> Example {
        self.with(name, Attribute::Number(Number::Int(value.into())))
    }

    fn list(self, name: &str, values: &[u32]) -> Example {
        self.with(name, Attribute::Numbers(values.iter().map(|&x| Number::Int(x.into())).collect()))
    }
}

/// A shape of this rank with at most 24 elements: 2, 3, 2, 1, 2, 1, 1, 1 from the inside.
fn shape(rank: usize) -> Vec<u32> {
    let mut shape = [1, 1, 1, 2, 1, 2, 3, 2][8 - rank..].to_vec();
    if rank == 1 {
        shape[0] = 6;
    }
    shape
}

/// Small operands for an operator whose first operand has rank `rank`.
fn example(rule: &OpRule, rank: usize) -> Example {
    let x = shape(rank);
    let last = x.last().copied().unwrap_or(1);
    let axis = rank.saturating_sub(1) as u32;
    let ones = vec![1; rank];
    match rule.name {
        "argMin" | "argMax" | "softmax" | "cumulativeSum" => Example::new([("input", &x)]).number("axis", axis),
        "batchNormalization" => {
            let channels = [last];
            let names = ["mean", "variance", "scale", "bias"];
            let mut example = Example::new([("input", &x)]).number("axis", axis);
            example.shapes.extend(names.map(|name| (name, vec![channels.to_vec()])));
            example
        }
        "layerNormalization" if rank == 0 => {
            Example::new([("input", &[]), ("scale", &[]), ("bias", &[])]).list("axes", &[])
        }
        "layerNormalization" => {
            Example::new([("input", &x), ("scale", &[last]), ("bias", &[last])]).list("axes", &[axis])
        }
        "instanceNormalization" => Example::new([("input", &[2, 3, 2, 2]), ("scale", &[3]), ("bias", &[3])]),
        "concat" => {
            let mut example = Example::new([]).number("axis", axis);
            example.shapes.push(("inputs", vec![x.clone(), x]));
            example
        }
        "conv2d" => Example::new([("input", &[1, 2, 4, 5]), ("filter", &[4, 2, 3, 2]), ("bias", &[4])]),
        "convTranspose2d" => Example::new([("input", &[1, 2, 3, 4]), ("filter", &[2, 3, 2, 2]), ("bias", &[3])]),
        "averagePool2d" | "l2Pool2d" | "maxPool2d" => {
            Example::new([("input", &[1, 2, 5, 4])]).list("windowDimensions", &[2, 3])
        }
        "resample2d" => Example::new([("input", &[1, 2, 3, 4])]).list("sizes", &[5, 6]),
        "dequantizeLinear" | "quantizeLinear" => {
            let mut blocks = ones.clone();
            blocks.iter_mut().zip(&x).last().into_iter().for_each(|(block, &size)| *block = size / 2);
            Example::new([("input", &x), ("scale", &blocks), ("zeroPoint", &blocks)])
        }
        "expand" => Example::new([("input", &ones)]).list("newShape", &x),
        "reshape" => Example::new([("input", &x)]).list("newShape", &x.iter().rev().copied().collect::<Vec<_>>()),
        "gather" => Example::new([("input", &x), ("indices", &[3])]).number("axis", axis),
        "gatherElements" => Example::new([("input", &x), ("indices", &x)]).number("axis", axis),
        "gatherND" => Example::new([("input", &x), ("indices", &[3, 1])]),
        "scatterElements" => Example::new([("input", &x), ("indices", &x), ("updates", &x)]).number("axis", axis),
        "scatterND" => Example::new([("input", &x), ("indices", &[1, rank as u32]), ("updates", &[1])]),
        "gemm" => Example::new([("a", &[2, 3]), ("b", &[3, 4]), ("c", &[4])]),
        "matmul" => {
            let (mut a, mut b) = (x.clone(), x);
            (a[rank - 2], a[rank - 1], b[rank - 2], b[rank - 1]) = (2, 3, 3, 4);
            Example::new([("a", &a), ("b", &b)])
        }
        "gru" | "lstm" => recurrent(rule.name, 3).number("steps", 2).number("hiddenSize", 2),
        "gruCell" | "lstmCell" => recurrent(rule.name, 2).number("hiddenSize", 2),
        "pad" => Example::new([("input", &x)]).list("beginningPadding", &ones).list("endingPadding", &vec![0; rank]),
        "slice" => Example::new([("input", &x)]).list("starts", &vec![0; rank]).list("sizes", &ones),
        "split" => Example::new([("input", &x)]).number("axis", axis).number("splits", 2),
        "tile" => Example::new([("input", &x)]).list(
            "repetitions",
            &vec![2; rank.min(2)].into_iter().chain(vec![1; rank.saturating_sub(2)]).collect::<Vec<_>>(),
        ),
        "where" => Example::new([("condition", &x), ("trueValue", &ones), ("falseValue", &x)]),
        _ => match rule.operands {
            [only] => Example::new([(only.name, &x)]),
            [a, b] => Example::new([(a.name, &x), (b.name, &ones)]),
            _ => panic!("no example of {}", rule.name),
        },
    }
}

/// Two steps, one batch, three features, two hidden values.
fn recurrent(name: &str, rank: usize) -> Example {
    let gates = if name.starts_with("gru") { 6 } else { 8 };
    let mut example = match rank {
        3 => Example::new([
            ("input", &[2, 1, 3]),
            ("weight", &[1, gates, 3]),
            ("recurrentWeight", &[1, gates, 2]),
            ("bias", &[1, gates]),
            ("recurrentBias", &[1, gates]),
            ("initialHiddenState", &[1, 1, 2]),
        ]),
        _ => Example::new([
            ("input", &[1, 3]),
            ("weight", &[gates, 3]),
            ("recurrentWeight", &[gates, 2]),
            ("bias", &[gates]),
            ("recurrentBias", &[gates]),
            ("hiddenState", &[1, 2]),
        ]),
    };
    match name {
        "lstm" => {
            example.shapes.push(("peepholeWeight", vec![vec![1, 6]]));
            example.shapes.push(("initialCellState", vec![vec![1, 1, 2]]));
        }
        "lstmCell" => {
            example.shapes.push(("peepholeWeight", vec![vec![6]]));
            example.shapes.push(("cellState", vec![vec![1, 2]]));
        }
        _ => {}
    }
    example
}

/// Every combination of data types for the operands of a rule.
fn choices(rule: &OpRule) -> Vec<BTreeMap<&'static str, DataType>> {
    let mut choices = vec![BTreeMap::new()];
    for OperandRule { name, types, .. } in rule.operands {
        choices = match types {
            Types::SameAs(other) => choices
                .into_iter()
                .map(|mut choice| {
                    choice.insert(*name, choice[other]);
                    choice
                })
                .collect(),
            Types::OneOf(types) => choices
                .into_iter()
                .flat_map(|choice| {
                    // Integers of 4 bits are constants.
                    types.iter().filter(|dtype| !dtype.is_nibble()).map(move |&dtype| {
                        let mut choice = choice.clone();
                        choice.insert(*name, dtype);
                        choice
                    })
                })
                .collect(),
        };
    }
    choices
}

/// Builds the example for these data types, with all operands as inputs; returns the graph and its tolerance.
fn build(rule: &OpRule, example: &Example, types: &BTreeMap<&'static str, DataType>) -> (Graph, Tolerance) {
    let mut builder = Builder::new();
    let mut operands = BTreeMap::new();
    for (name, shapes) in &example.shapes {
        let ids = shapes.iter().enumerate().map(|(index, shape)| {
            let input = builder.input(&format!("{name}{index}"), Descriptor::new(types[name], shape.clone()));
            input.expect("a valid input")
        });
        operands.insert(name.to_string(), ids.collect::<Vec<_>>());
    }
    // Random zero scales and negative variances make no sense: uses the absolute value plus one.
    for name in ["scale", "variance"] {
        if let Some(ids) = operands.get_mut(name) {
            let one = builder.scalar(types[name], Number::Int(1)).expect("a scalar");
            let abs = builder.add(super::elementwise::Elementwise::Abs, vec![Some(ids[0])], "").expect("abs");
            ids[0] =
                builder.add(super::elementwise::Elementwise::Add, vec![Some(abs[0]), Some(one)], "").expect("add")[0];
        }
    }
    let outputs = match Extended::RULES.iter().any(|extended| extended.name == rule.name) {
        true => {
            let op = Operation::read(rule.name, example.attributes.clone()).expect("attributes of the operator");
            let inputs = rule.operands.iter().flat_map(|operand| &operands[operand.name]).copied().map(Some);
            builder.add_operation(op, inputs.collect(), String::new())
        }
        false => builder.add_named(rule.name, operands, example.attributes.clone(), ""),
    };
    let outputs = outputs.unwrap_or_else(|error| panic!("{error} for {types:?} {:?}", example.shapes));
    let named: Vec<_> = outputs.iter().enumerate().map(|(i, &id)| (format!("y{i}"), id)).collect();
    let tolerance = match builder.descriptor(outputs[0]).dtype {
        DataType::Float32 => FLOATS,
        DataType::Float16 => HALVES,
        DataType::Float64 => DOUBLES,
        // The scale is a sum, which the oracle does not round: a tie can go the other way.
        _ if rule.name == "quantizeLinear" => Tolerance::ulps(1),
        _ => Tolerance::EXACT,
    };
    (builder.finish(named), tolerance)
}

/// The rules of the operators of the API, and of the element-wise ones of ONNX.
pub fn rules() -> impl Iterator<Item = &'static OpRule> {
    Op::rules().chain(Extended::RULES)
}

/// Calls `visit` with a small graph, and the tolerance of its result, for every data type and rank that the rules of
/// the operators `names` allow.
pub fn for_each_graph(names: impl Fn(&str) -> bool, mut visit: impl FnMut(Graph, Tolerance)) {
    for rule in rules().filter(|rule| names(rule.name)) {
        let (min, max) = rule.operands[0].ranks;
        for rank in min..=max {
            for types in choices(rule) {
                let mut example = example(rule, rank);
                let mut visit = |example: &Example| {
                    let (graph, tolerance) = build(rule, example, &types);
                    visit(graph, tolerance);
                };
                if ["argMin", "argMax", "cast"].contains(&rule.name) {
                    let member = if rule.name == "cast" { "dataType" } else { "outputDataType" };
                    for to in rule.resolve(rule.outputs[0].types) {
                        example.attributes.0.insert(member.to_string(), Attribute::Text(to.to_string()));
                        visit(&example);
                    }
                } else {
                    visit(&example);
                }
            }
        }
    }
}

fn sweep(names: impl Fn(&str) -> bool) {
    for_each_graph(names, |graph, tolerance| check(&graph, tolerance));
}

/// Operators with two or three operands, which have the most combinations of data types.
fn has_many_choices(name: &str) -> bool {
    let row = rules().find(|rule| rule.name == name).expect("a rule of this name");
    row.operands.len() > 1
}

#[test]
fn every_type_and_rank_of_the_operators_with_one_operand() {
    sweep(|name| !has_many_choices(name));
}

#[test]
fn every_type_and_rank_of_the_operators_with_more_operands() {
    sweep(has_many_choices);
}

/// Integers at the ends of the 64-bit types, and around the largest consecutive integers of float32 and float64.
fn wide_integer(dtype: DataType, random: &mut Random) -> Number {
    let (min, max) = dtype.integer_range().expect("an integer type");
    let ends = [min, min + 1, -1, 0, 1, 2, 3, max - 1, max, max / 2, max / 2 + 1, max / 2 + 2];
    let around = [24, 31, 32, 53, 62].map(|bits| 1i128 << bits);
    let all: Vec<i128> = ends.into_iter().chain(around.into_iter().flat_map(|x| [x - 1, x + 1, -x - 1])).collect();
    Number::Int(all[(random.next() % all.len() as u64) as usize].clamp(min, max))
}

#[test]
fn integers_of_64_bits_are_exact() {
    let is_wide = |dtype: &DataType| [DataType::Int64, DataType::Uint64].contains(dtype);
    let mut random = Random::new(64);
    let mut checked = 0;
    for rule in rules() {
        let rank = 3.clamp(rule.operands[0].ranks.0, rule.operands[0].ranks.1);
        for types in choices(rule).into_iter().filter(|types| types.values().any(is_wide)) {
            let mut example = example(rule, rank);
            let number = |x: i128| Attribute::Number(Number::Int(x));
            let results: Vec<Option<(&str, DataType)>> = match rule.name {
                "cast" => DataType::OF_VALUES.iter().map(|&to| Some(("dataType", to))).collect(),
                "clamp" => {
                    example = example.with("minValue", number(-(1 << 53) - 1)).with("maxValue", number((1 << 63) - 2));
                    vec![None]
                }
                "pad" => {
                    example = example.with("value", number((1 << 62) + 1));
                    vec![None]
                }
                _ => vec![None],
            };
            for result in results {
                if let Some((name, dtype)) = result {
                    example.attributes.0.insert(name.to_string(), Attribute::Text(dtype.to_string()));
                }
                let (graph, _) = build(rule, &example, &types);
                let inputs = graph.inputs.iter().map(|(name, id)| {
                    let descriptor = graph.descriptor(*id);
                    let tensor = match is_wide(&descriptor.dtype) {
                        true => Tensor::from_fn(descriptor, |_| wide_integer(descriptor.dtype, &mut random)),
                        false => random.tensor(descriptor),
                    };
                    (name.clone(), tensor)
                });
                let inputs = inputs.collect();
                check_with(&graph, &inputs, Tolerance::EXACT);
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "{checked} operators and types take integers of 64 bits");
}

#[test]
fn each_operator_of_the_idl_has_one_rule() {
    let blocks = include_str!("../../spec/webnn.idl").split("partial interface MLGraphBuilder {").skip(1);
    let methods = blocks.flat_map(|block| block.split("};").next().unwrap().split(';'));
    let mut expected: Vec<&str> =
        methods.filter_map(|method| method.split_once('(')?.0.split_whitespace().last()).collect();
    let mut names: Vec<&str> = Op::rules().map(|rule| rule.name).collect();
    expected.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, expected);
}
