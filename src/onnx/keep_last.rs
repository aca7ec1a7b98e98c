//! Adds slices to a model, which keep only the last rows of values.

use super::error::{ModelError, Result, quoted};
use super::graph::NameId;
use super::model::Model;
use super::proto;
use super::tensor::TensorRecord;
use crate::error::Code;
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, HashSet};

/// The first version of `ai.onnx` whose Slice takes starts and ends as inputs.
const PLACES_ARE_INPUTS: i64 = 10;

/// `TensorProto.INT64`.
const INT64: i32 = 7;

impl Model {
    /// Returns a copy of the model in which slices follow values of its main graph: for each name in `counts`, one that
    /// keeps the last `count` rows along the second to last dimension, or all rows if there are fewer. Also returns the
    /// names of the slices.
    ///
    /// # Errors
    /// If there is no value with such a name.
    pub fn keeping_last(&self, counts: &BTreeMap<String, u32>) -> Result<(Model, BTreeMap<String, String>)> {
        let mut model = self.clone();
        let opset = *model.metadata.opsets.entry(String::new()).or_insert(PLACES_ARE_INPUTS);
        let mut known: HashSet<String> = self.arena.names(self.main).map(String::from).collect();
        let mut unused = |mut name: String| {
            while !known.insert(name.clone()) {
                name.push('\'');
            }
            name
        };
        let values = self.arena.find(self.main, counts.keys());
        let mut names = BTreeMap::new();
        for ((name, &count), value) in counts.iter().zip(values) {
            let value = value.ok_or_else(|| {
                let message = format!("the output {} is not a value of the model", quoted(name));
                ModelError::coded(Code::UnknownOutput, message)
            })?;
            let kept = unused(format!("{name}:last"));
            let (mut inputs, mut attributes): (Vec<NameId>, Vec<proto::Attribute>) = (vec![value], Vec::new());
            for (place, number) in [("starts", -i64::from(count)), ("ends", i64::MAX), ("axes", -2)] {
                if opset < PLACES_ARE_INPUTS {
                    attributes.push(proto::Attribute { name: place.into(), ints: vec![number], ..Default::default() });
                    continue;
                }
                let constant = integer(&unused(format!("{kept}:{place}")), number)?;
                inputs.push(model.arena.append_initializer(model.main, constant));
            }
            model.arena.append_node(
                model.main,
                ("Slice", opset),
                &format!("keepLast.{name}"),
                &inputs,
                &kept,
                &attributes,
            );
            names.insert(name.clone(), kept);
        }
        Ok((model, names))
    }
}

/// A list with a single int64.
fn integer(name: &str, number: i64) -> Result<TensorRecord> {
    let header = proto::TensorHeader {
        dims: vec![1],
        data_type: INT64,
        name: name.into(),
        raw_data: Some(Bytes::copy_from_slice(&number.to_le_bytes())),
        ..Default::default()
    };
    TensorRecord::decode(&header.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Builder;
    use crate::onnx::file::Files;
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::TestGraph;
    use crate::onnx::{Request, import};

    /// The kept sizes of a matrix with four rows.
    fn kept(count: u32, opset: i64) -> Vec<u32> {
        let graph = TestGraph::default().input("x", Float, &["4", "3"]).node("Relu", "x", "y", vec![]).output("y");
        // Names that the new ones must not collide with.
        let graph = graph.ints("y:last", &[0]).ints("y:last':ends", &[0]);
        let (files, bytes) = Files::of_bytes(graph.encode(opset));
        let (model, names) = Model::decode(bytes, files).unwrap().keeping_last(&[("y".into(), count)].into()).unwrap();
        assert_eq!(names["y"], "y:last'");
        let request = Request { outputs: Some(vec![names["y"].clone()]), ..Default::default() };
        let imported = import(&model, &mut Builder::new(), &request).unwrap();
        imported.outputs[0].descriptor.sizes().to_vec()
    }

    #[test]
    fn places_are_taken_in_every_version() {
        for opset in [7, 9, 10, 13, 24] {
            assert_eq!([1, 3, 4, 5, u32::MAX].map(|count| kept(count, opset)[0]), [1, 3, 4, 4, 4], "opset {opset}");
        }
    }
}
