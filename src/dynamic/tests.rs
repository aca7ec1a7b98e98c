//! Tests of named dimensions without JavaScript.

use super::*;
use crate::dimension::{Tape, dims};
use crate::ops::attributes::{Attribute, Attributes};
use std::collections::BTreeMap;

fn named(shape: &[&str]) -> Vec<NamedDimension> {
    let dimension = |text: &&str| text.parse().map_or(NamedDimension::Name(text.to_string()), NamedDimension::Number);
    shape.iter().map(dimension).collect()
}

fn shown(shape: &[NamedDimension]) -> Vec<String> {
    let dimension = |dimension: &NamedDimension| match dimension {
        NamedDimension::Number(size) => size.to_string(),
        NamedDimension::Name(name) => name.clone(),
    };
    shape.iter().map(dimension).collect()
}

#[derive(Default)]
struct Draft {
    builder: Builder,
    symbols: Symbols,
}

impl Draft {
    fn input(&mut self, shape: &[&str]) -> OperandId {
        let name = format!("i{}", self.builder.graph_len());
        self.symbols.input(&mut self.builder, &name, DataType::Float32, named(shape)).unwrap()
    }

    fn add(
        &mut self,
        name: &str,
        operands: &[(&str, &[OperandId])],
        attributes: &[(&str, &[u32])],
    ) -> Result<OperandId> {
        let operands: BTreeMap<_, _> = operands.iter().map(|(name, ids)| (name.to_string(), ids.to_vec())).collect();
        let numbers = |list: &[u32]| Attribute::Numbers(list.iter().map(|&n| f64::from(n).into()).collect());
        let attributes = attributes.iter().map(|(name, list)| (name.to_string(), numbers(list)));
        let (op, inputs) = self.builder.read_named(name, operands, Attributes(attributes.collect()), "it")?;
        Ok(self.symbols.add(&mut self.builder, op, inputs, "it")?[0])
    }

    fn shape(&self, id: OperandId) -> Vec<String> {
        shown(&self.symbols.shape(&self.builder, id))
    }
}

#[test]
fn names_pass_through_and_computed_dimensions_get_new_ones() {
    let mut draft = Draft::default();
    let [a, b] = [draft.input(&["n", "k"]), draft.input(&["k", "5"])];
    let product = draft.add("matmul", &[("a", &[a]), ("b", &[b])], &[]).unwrap();
    assert_eq!(draft.shape(product), ["n", "5"]);
    let reshaped = draft.add("reshape", &[("input", &[product])], &[("newShape", &[3, 35])]).unwrap();
    assert_eq!(draft.shape(reshaped), ["3", "35"]);
    let broadcast = [draft.input(&["1", "m"]), draft.input(&["n", "1"])];
    let sum = draft.add("add", &[("a", &broadcast[..1]), ("b", &broadcast[1..])], &[]).unwrap();
    assert_eq!(draft.shape(sum), ["n", "m"]);
    let either = [draft.input(&["n"]), draft.input(&["m"])];
    let sum = draft.add("add", &[("a", &either[..1]), ("b", &either[1..])], &[]).unwrap();
    let [made] = &draft.shape(sum)[..] else { panic!("one dimension") };
    assert!(made != "n" && made != "m");
}

#[test]
fn a_shape_of_the_graph_follows_from_its_inputs() {
    let mut draft = Draft::default();
    let [a, b] = [draft.input(&["n", "2"]), draft.input(&["2", "m"])];
    let product = draft.add("matmul", &[("a", &[a]), ("b", &[b])], &[]).unwrap();
    let graph = draft.builder.finish(vec![("y".into(), product)]);
    let outline = Outline::new(graph, draft.symbols, u64::MAX >> 1);
    let sizes = outline.sizes("dispatch", &[vec![4, 2], vec![2, 9]]).unwrap();
    assert_eq!(sizes, [4, 9]);
    let (shape, tape) = Tape::record(&sizes, |free| {
        let graph = outline.at(free).unwrap();
        graph.descriptor(graph.outputs[0].1).shape.clone()
    });
    let mut values = Vec::new();
    assert!(tape.evaluate(&[7, 5], &mut values));
    assert_eq!(shape.iter().map(|dim| dim.at(&values)).collect::<Vec<_>>(), [7, 5]);
    let graph = outline.at(&dims(&[3, 8])).unwrap();
    assert_eq!(graph.descriptor(graph.outputs[0].1).shape, dims(&[3, 8]));
}

#[test]
fn valid_sizes_are_found_if_they_exist() {
    let mut draft = Draft::default();
    let x = draft.input(&["n", "m", "3"]);
    for (shape, fits) in [(&[12u32][..], true), (&[9973 * 3], true), (&[10], false)] {
        let reshaped = draft.add("reshape", &[("input", &[x])], &[("newShape", shape)]);
        assert_eq!(reshaped.is_ok(), fits, "{shape:?}: {reshaped:?}");
    }
    let mut slice = |start: u32, size: u32| {
        let attributes: [(&str, &[u32]); 2] = [("starts", &[0, start, 0]), ("sizes", &[1, size, 3])];
        draft.add("slice", &[("input", &[x])], &attributes)
    };
    assert!(slice(100_000, 70_000).is_ok());
    assert!(slice(u32::MAX, 1).is_err());
}
