//! The text form of graphs, for the tests of passes and for people.
//!
//! ```text
//! %0 = input x float32 [1, 3, 8, 8]
//! %1 = constant float32 [4, 3, 3, 3]
//! %2 = conv2d %0 %1 padding=[1, 1, 1, 1]
//! output y = %2
//! ```
//!
//! A missing operand is `_`. `epilogue=[add(r0 r1), relu(r2)]` is the program of an epilogue: `r0` is the result of the
//! operator, `r1` the first operand after the operator's own, `r2` the result of `add`. Prologues are written but not
//! read. The bytes of constants are not written; [`parse`] fills them with the numbers that follow the shape, or with
//! pseudo-random ones if there are none.

use super::{Builder, Epilogue, Graph, OperandId, Source, ValueId};
use crate::dtype::{DataType, Number};
use crate::nibbles::packed;
use crate::ops::Operation;
use crate::ops::attributes::{Attribute, Attributes, parse_number};
use crate::ops::fused::Fused;
use crate::shape::Descriptor;
use std::collections::HashMap;
use std::fmt;

impl fmt::Display for Graph {
    /// Values are numbered in the order of their definition; constants precede their first reader.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers: HashMap<ValueId, usize> = HashMap::new();
        let describe = |id: ValueId| {
            let Descriptor { dtype, shape } = self.descriptor(id);
            format!("{dtype} {shape:?}")
        };
        for (name, id) in &self.inputs {
            writeln!(f, "%{} = input {name} {}", number(&mut numbers, *id), describe(*id))?;
        }
        for node in &self.nodes {
            for id in node.reads() {
                if matches!(self.value(*id).source, Source::Constant(_)) && !numbers.contains_key(id) {
                    writeln!(f, "%{} = constant {}", number(&mut numbers, *id), describe(*id))?;
                }
            }
            let inputs: Vec<String> = node
                .written()
                .iter()
                .map(|input| input.map_or("_".to_string(), |id| format!("%{}", number(&mut numbers, id))))
                .collect();
            let outputs: Vec<String> =
                node.outputs.iter().map(|&id| format!("%{}", number(&mut numbers, id))).collect();
            write!(f, "{} = {} {}", outputs.join(", "), node.op.rule().name, inputs.join(" "))?;
            for (name, value) in &node.op.attributes().0 {
                write!(f, " {name}={value}")?;
            }
            for prologue in &node.prologues {
                let name = node.op.rule().operands.get(prologue.operand).map_or("operand", |operand| operand.name);
                write!(f, " prologue={}", prologue.text(name))?;
            }
            if !node.epilogue.is_empty() {
                write!(f, " epilogue=[{}]", node.epilogue.program.texts().join(", "))?;
            }
            writeln!(f)?;
        }
        for (name, id) in &self.outputs {
            writeln!(f, "output {name} = %{}", number(&mut numbers, *id))?;
        }
        Ok(())
    }
}

fn number(numbers: &mut HashMap<ValueId, usize>, id: ValueId) -> usize {
    let next = numbers.len();
    *numbers.entry(id).or_insert(next)
}

/// Reads a graph from its text form.
///
/// # Panics
/// If the text is not a graph: it is hand-written, for tests.
pub fn parse(text: &str) -> Graph {
    let mut builder = Builder::new();
    let mut names: HashMap<String, OperandId> = HashMap::new();
    let mut outputs = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (left, right) = line.split_once(" = ").unwrap_or_else(|| panic!("no ' = ' in {line:?}"));
        if let Some(name) = left.strip_prefix("output ") {
            outputs.push((name.to_string(), names[right.trim()]));
            continue;
        }
        let (word, rest) = right.split_once(' ').unwrap_or((right, ""));
        let results = match word {
            "input" => {
                let (name, descriptor) = rest.split_once(' ').expect("a name and a descriptor");
                vec![builder.input(name, parse_descriptor(descriptor).0).expect("a valid input")]
            }
            "constant" => {
                let (descriptor, values) = parse_descriptor(rest);
                let seed = builder.graph_len();
                let number = |i: usize| match values.is_empty() {
                    true => pseudo_random(seed, i, descriptor.dtype),
                    false => values[i % values.len()],
                };
                let numbers = (0..descriptor.elements()).map(|i| number(i).cast(descriptor.dtype));
                let bytes = match descriptor.dtype.is_nibble() {
                    true => packed(&numbers.map(|number| number.to_f64() as i8 as u8).collect::<Vec<u8>>()),
                    false => numbers.flat_map(|number| number.to_bytes(descriptor.dtype)).collect(),
                };
                vec![builder.constant(descriptor, &bytes).expect("a valid constant")]
            }
            operator => {
                let (mut operands, mut attributes) = parse_operands(rest, &names);
                let epilogue = take_texts(&mut attributes, "epilogue");
                let op = match take_texts(&mut attributes, "program") {
                    Some(program) => Operation::Fusion(Fused::parse(&program, &types(&builder, &operands)).into()),
                    None => {
                        Operation::read(operator, attributes).unwrap_or_else(|problem| panic!("{line:?}: {problem}"))
                    }
                };
                let others = match epilogue {
                    Some(_) => operands.split_off(op.rule().operands.len()),
                    None => Vec::new(),
                };
                let results = builder
                    .add_operation(op, operands, String::new())
                    .unwrap_or_else(|error| panic!("{line:?}: {error}"));
                if let Some(epilogue) = epilogue {
                    let operands = [&[Some(results[0])], &others[..]].concat();
                    let program = Fused::parse(&epilogue, &types(&builder, &operands));
                    let operands = others.into_iter().map(|id| id.expect("the operands of an epilogue are given"));
                    builder.set_epilogue(Epilogue { program, operands: operands.collect() });
                }
                results
            }
        };
        for (name, id) in left.split(", ").zip(results) {
            names.insert(name.to_string(), id);
        }
    }
    builder.finish(outputs)
}

/// The data types of operands that are all present.
fn types(builder: &Builder, operands: &[Option<OperandId>]) -> Vec<DataType> {
    operands.iter().flatten().map(|&id| builder.descriptor(id).dtype).collect()
}

fn take_texts(attributes: &mut Attributes, name: &str) -> Option<Vec<String>> {
    match attributes.0.remove(name)? {
        Attribute::Texts(texts) => Some(texts),
        other => panic!("{name} is a list of texts, not {other}"),
    }
}

/// Small numbers that differ between elements and are exact in every data type.
fn pseudo_random(seed: usize, index: usize, dtype: DataType) -> Number {
    let hash =
        (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (index as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let small = ((hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 57) as i128;
    match dtype {
        DataType::Float32 | DataType::Float16 => Number::Float((small - 64) as f64 / 32.0),
        DataType::Uint8 | DataType::Uint32 | DataType::Uint64 => Number::Int(small),
        DataType::Uint4 => Number::Int(small % 16),
        DataType::Int4 => Number::Int(small % 16 - 8),
        _ => Number::Int(small - 64),
    }
}

/// Parses `float32 [2, 3] 1 2 3` into the descriptor and the numbers after it.
fn parse_descriptor(text: &str) -> (Descriptor, Vec<Number>) {
    let (dtype, rest) = text.split_once(' ').expect("a data type and a shape");
    let (shape, values) = rest.split_once(']').expect("a shape in brackets");
    let shape = shape.trim_start_matches('[').split(',').map(str::trim).filter(|d| !d.is_empty());
    let shape: Vec<u32> = shape.map(|d| d.parse().expect("a dimension")).collect();
    let dtype = DataType::from_name(dtype).unwrap_or_else(|| panic!("no data type {dtype}"));
    (Descriptor::new(dtype, shape), values.split_whitespace().map(parse_number).collect())
}

fn parse_operands(text: &str, names: &HashMap<String, OperandId>) -> (Vec<Option<OperandId>>, Attributes) {
    let (mut operands, mut attributes) = (Vec::new(), Attributes::default());
    let mut rest = text.trim();
    while !rest.is_empty() {
        // Lists contain spaces: a word ends at the first space outside of brackets.
        let mut depth = 0;
        let end = rest.find(|c: char| {
            depth += (c == '[') as i32 - (c == ']') as i32;
            c == ' ' && depth == 0
        });
        let (word, tail) = rest.split_at(end.unwrap_or(rest.len()));
        rest = tail.trim_start();
        match word.split_once('=') {
            Some(_) => attributes.0.append(&mut Attributes::parse(word).0),
            None if word == "_" => operands.push(None),
            None => operands.push(Some(*names.get(word).unwrap_or_else(|| panic!("no value {word}")))),
        }
    }
    (operands, attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let text = "%0 = input x float32 [2, 3]\n\
                    %1 = constant float32 [3]\n\
                    %2 = add %0 %1\n\
                    %3 = clamp %2 maxValue=6.0 minValue=0.0\n\
                    %4 = reduceMax %3 axes=[1] keepDimensions=true\n\
                    output y = %4\n\
                    output z = %2\n";
        let graph = parse(text);
        graph.verify();
        assert_eq!(graph.to_string(), text);
    }

    #[test]
    fn programs_round_trip() {
        let text = "%0 = input x float32 [2, 3]\n\
                    %1 = input y float32 [2, 4]\n\
                    %2 = constant float32 [3, 4]\n\
                    %3 = matmul %0 %2 %1 epilogue=[add(r0 r1), clamp(r2) maxValue=6.0 minValue=0.0]\n\
                    %4 = fused %3 %1 program=[greater(r0 r1), where(r2 r0 r1)]\n\
                    output y = %4\n";
        let graph = parse(text);
        graph.verify();
        assert_eq!(graph.to_string(), text);
    }

    #[test]
    fn constants_can_be_written_out() {
        let graph = parse("%0 = constant int8 [3] 1 -2 3\n%1 = identity %0\noutput y = %1");
        let (_, id) = &graph.outputs[0];
        let node = &graph.nodes[graph.producers()[id.index()].unwrap()];
        let constant = graph.value(node.inputs[0].unwrap()).constant().unwrap();
        assert_eq!(constant.buffer().unwrap().bytes(), [1, 254, 3]);
    }
}
