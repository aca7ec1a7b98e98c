//! Listings: a graph for people, without its constants.

use super::{Graph, Node, Prologue, Source, ValueId};
use crate::dtype::Number;
use crate::ops::attributes::Attribute;
use crate::shape::Descriptor;
use serde_json::{Map, Value as Json, json};

/// Where a listed value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Input,
    Constant,
    Node,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Constant => "constant",
            Kind::Node => "node",
        }
    }
}

/// The nodes of a graph, its named inputs and outputs, and the kinds of its values. Descriptors are kept separately:
/// passes do not change them.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Where each value comes from; `None` for unused ones.
    kinds: Box<[Option<Kind>]>,
    nodes: Vec<Node>,
    inputs: Vec<(String, ValueId)>,
    outputs: Vec<(String, ValueId)>,
}

/// The largest integer that JavaScript's numbers represent exactly.
const MAX_SAFE_INTEGER: i128 = (1 << 53) - 1;

impl Listing {
    /// Lists `graph`, without its constants.
    pub fn of(graph: &Graph) -> Listing {
        let (nodes, inputs, outputs) = (graph.nodes.clone(), graph.inputs.clone(), graph.outputs.clone());
        Listing { kinds: kinds(graph), nodes, inputs, outputs }
    }

    /// Whether both list the same for all sizes.
    pub fn is_same(&self, other: &Listing) -> bool {
        let Listing { kinds, nodes, inputs, outputs } = other;
        self.nodes.len() == nodes.len()
            && (&self.kinds, &self.inputs, &self.outputs) == (kinds, inputs, outputs)
            && self.nodes.iter().zip(nodes).all(|(node, other)| node.is_same(other))
    }

    /// The listing for the sizes that a tape's `values` stand for.
    pub fn at(&self, values: &[i64]) -> Listing {
        let mut listing = self.clone();
        listing.nodes.iter_mut().for_each(|node| node.visit_dims(&mut |dim| dim.fix(values)));
        listing
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A `GraphListing` of `inspect.d.ts`. `descriptors` are those of all values, by their ids.
    pub fn json(&self, descriptors: &[Descriptor]) -> Json {
        let values = self.kinds.iter().zip(descriptors).enumerate().filter_map(|(id, (kind, descriptor))| {
            Some(json!({
                "id": id,
                "dataType": descriptor.dtype.name(),
                "shape": descriptor.shape,
                "kind": (*kind)?.name(),
                "bytes": descriptor.bytes(),
            }))
        });
        let named = |all: &[(String, ValueId)]| -> Json {
            all.iter().map(|(name, id)| json!({ "name": name, "value": id.0 })).collect()
        };
        json!({
            "values": values.collect::<Json>(),
            "nodes": self.nodes.iter().enumerate().map(|(id, node)| node_json(id, node)).collect::<Json>(),
            "inputs": named(&self.inputs),
            "outputs": named(&self.outputs),
        })
    }
}

/// Where each value of `graph` comes from; `None` for unused ones.
fn kinds(graph: &Graph) -> Box<[Option<Kind>]> {
    let mut kinds = vec![None; graph.values.len()].into_boxed_slice();
    graph.inputs.iter().for_each(|(_, id)| kinds[id.index()] = Some(Kind::Input));
    let read = graph.nodes.iter().flat_map(Node::reads);
    for id in read.chain(graph.outputs.iter().map(|(_, id)| id)) {
        if matches!(graph.value(*id).source, Source::Constant(_) | Source::Sizes(_)) {
            kinds[id.index()] = Some(Kind::Constant);
        }
    }
    graph.nodes.iter().flat_map(|node| &node.outputs).for_each(|id| kinds[id.index()] = Some(Kind::Node));
    kinds
}

fn node_json(id: usize, node: &Node) -> Json {
    let attributes = node.op.attributes().0;
    json!({
        "id": id,
        "operator": node.op.rule().name,
        "label": node.label,
        "inputs": node.written().iter().map(|read| read.map(|id| id.0)).collect::<Vec<_>>(),
        "outputs": node.outputs.iter().map(|id| id.0).collect::<Vec<_>>(),
        "attributes": attributes.iter().map(|(name, value)| (name.clone(), attribute(value))).collect::<Map<_, _>>(),
        "prologues": node.prologues.iter().map(prologue).collect::<Json>(),
        "epilogue": node.epilogue.program.names().collect::<Vec<_>>(),
        "origins": node.origins,
    })
}

fn prologue(prologue: &Prologue) -> Json {
    json!({ "operand": prologue.operand, "operators": prologue.program.names().collect::<Vec<_>>() })
}

fn attribute(value: &Attribute) -> Json {
    match value {
        Attribute::Bool(value) => (*value).into(),
        Attribute::Number(value) => number(value),
        Attribute::Text(text) => text.as_str().into(),
        Attribute::Numbers(values) => values.iter().map(number).collect(),
        Attribute::Texts(texts) => texts.iter().map(String::as_str).collect(),
    }
}

/// A number, or text if JSON or JavaScript's numbers cannot represent it.
fn number(value: &Number) -> Json {
    match *value {
        Number::Int(x) if x.abs() <= MAX_SAFE_INTEGER => (x as i64).into(),
        Number::Int(x) => x.to_string().into(),
        Number::Float(x) if x.is_finite() => x.into(),
        Number::Float(x) if x.is_nan() => "NaN".into(),
        Number::Float(x) => if x > 0.0 { "Infinity" } else { "-Infinity" }.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    #[test]
    fn a_listing_names_everything_and_holds_no_constants() {
        let graph = parse(
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [4, 3, 3, 3]
             %2 = conv2d %0 %1 _ padding=[1, 1, 1, 1]
             %3 = clamp %2 minValue=-inf maxValue=6
             output y = %3",
        );
        let weights = std::sync::Arc::downgrade(&graph.value(ValueId(1)).constant().unwrap().buffer().unwrap());
        let listing = Listing::of(&graph);
        let descriptors: Vec<_> = graph.values.iter().map(|value| value.descriptor.clone()).collect();
        drop(graph);
        assert!(weights.upgrade().is_none());
        let json = listing.json(&descriptors);
        let filter = json!({ "id": 1, "dataType": "float32", "shape": [4, 3, 3, 3], "kind": "constant", "bytes": 432 });
        assert_eq!(json["values"][1], filter);
        let kinds: Vec<_> = json["values"].as_array().unwrap().iter().map(|value| &value["kind"]).collect();
        assert_eq!(kinds, ["input", "constant", "node", "node"]);
        let convolution = json!({
            "id": 0, "operator": "conv2d", "label": "", "inputs": [0, 1, null], "outputs": [2],
            "attributes": { "padding": [1, 1, 1, 1] }, "prologues": [], "epilogue": [], "origins": [0],
        });
        assert_eq!(json["nodes"][0], convolution);
        assert_eq!(json["nodes"][1]["attributes"], json!({ "maxValue": 6.0 }));
        assert_eq!(json["inputs"], json!([{ "name": "x", "value": 0 }]));
        assert_eq!(json["outputs"], json!([{ "name": "y", "value": 3 }]));
    }

    #[test]
    fn numbers_that_json_lacks_are_texts() {
        for (value, shown) in [
            (Number::Int(-5), json!(-5)),
            (Number::Int(MAX_SAFE_INTEGER), json!(9007199254740991i64)),
            (Number::Int(i64::MIN as i128), json!("-9223372036854775808")),
            (Number::Float(0.5), json!(0.5)),
            (Number::Float(f64::NEG_INFINITY), json!("-Infinity")),
            (Number::Float(f64::INFINITY), json!("Infinity")),
            (Number::Float(f64::NAN), json!("NaN")),
        ] {
            assert_eq!(number(&value), shown);
        }
    }
}
