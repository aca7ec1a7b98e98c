//! Graphs with one element-wise operator, for tests of every backend.

use super::NamedOperator;
use super::elementwise::Elementwise;
use super::extension::elementwise::Extended;
use super::sweep::rules;
use super::tensor::Tensor;
use crate::dtype::{DataType, Number};
use crate::ir::{Graph, parse};
use crate::testing::Tolerance;
use std::collections::HashMap;

/// The functions of `simd::math` are within 4 ULP; a product or quotient adds one. In float16, an argument near a zero
/// of a function is exact, so the same bound holds.
const TOLERANCE: Tolerance = Tolerance::ulps(6);

/// The sigmoid in an approximated `gelu` magnifies the rounding of its argument.
pub fn tolerance(name: &str, dtype: DataType) -> Tolerance {
    match name {
        "tanhGelu" => Tolerance::ulps(40),
        _ if dtype.is_float() => TOLERANCE,
        _ => Tolerance::EXACT,
    }
}

/// The line of a graph that calls the method `name`, with its required attributes.
fn call(name: &str, operands: &str) -> String {
    let attributes = match name {
        "clamp" => " minValue=-1 maxValue=2",
        "cast" => " dataType=int32",
        "elu" => " alpha=1.5",
        "leakyRelu" => " alpha=0.3",
        "linear" => " alpha=1.7 beta=-2.3",
        "hardSigmoid" => " alpha=0.3 beta=0.4",
        _ => "",
    };
    format!("{name} {operands}{attributes}")
}

/// A graph with one operator on inputs of these shapes.
pub fn graph(name: &str, dtype: DataType, shapes: &[Vec<u32>]) -> Graph {
    let rule = rules().find(|rule| rule.name == name).unwrap();
    let mut text = String::new();
    for (i, (operand, shape)) in rule.operands.iter().zip(shapes).enumerate() {
        let dtype = if operand.name == "condition" { DataType::Uint8 } else { dtype };
        text += &format!("%{i} = input x{i} {dtype} {shape:?}\n");
    }
    let operands: Vec<String> = (0..rule.operands.len()).map(|i| format!("%{i}")).collect();
    parse(&(text + "%9 = " + &call(name, &operands.join(" ")) + "\noutput y = %9"))
}

/// Every method with every supported data type: (name, type, number of operands).
pub fn cases() -> Vec<(&'static str, DataType, usize)> {
    let mut cases = Vec::new();
    for rule in Elementwise::RULES.iter().chain(Extended::RULES) {
        let operand = rule.operands.iter().find(|operand| operand.name != "condition").unwrap();
        for &dtype in rule.resolve(operand.types) {
            cases.push((rule.name, dtype, rule.operands.len()));
        }
    }
    cases
}

/// Zeros, infinities, NaN and numbers at which functions change.
const SPECIAL: [f64; 15] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    -3.0,
    3.0,
    1e-30,
    -1e-30,
    65504.0,
    -65504.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Every method with every float type on all pairs of special values: graph, inputs and tolerance.
pub fn special_cases() -> impl Iterator<Item = (Graph, HashMap<String, Tensor>, Tolerance)> {
    let all: Vec<(f64, f64)> = SPECIAL.iter().flat_map(|&a| SPECIAL.iter().map(move |&b| (a, b))).collect();
    cases().into_iter().filter(|(_, dtype, _)| dtype.is_float()).map(move |(name, dtype, operands)| {
        let graph = graph(name, dtype, &vec![vec![all.len() as u32]; operands]);
        let mut inputs = HashMap::new();
        for (i, (name, id)) in graph.inputs.iter().enumerate() {
            let tensor = Tensor::from_fn(graph.descriptor(*id), |index| {
                let (a, b) = all[index[0]];
                match (graph.descriptor(*id).dtype, i + 2 - operands.min(2)) {
                    (DataType::Uint8, _) => Number::Int((index[0] % 3) as i128),
                    (dtype, 1) => Number::Float(b).cast(dtype),
                    (dtype, _) => Number::Float(a).cast(dtype),
                }
            });
            inputs.insert(name.clone(), tensor);
        }
        (graph, inputs, tolerance(name, dtype))
    })
}
