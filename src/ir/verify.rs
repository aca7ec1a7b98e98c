//! The invariants of a graph, checked after every pass in tests and in debug builds.

use super::{Graph, Source};
use crate::ops::Operator;

impl Graph {
    /// Panics unless every operand is defined before it is used, every value is computed once, every node accepts
    /// its operands and gives outputs of the descriptors that are written down, and names are unique.
    pub fn verify(&self) {
        let mut defined: Vec<bool> =
            self.values.iter().map(|value| matches!(value.source, Source::Constant(_))).collect();
        for (name, id) in &self.inputs {
            assert!(matches!(self.value(*id).source, Source::Input), "input {name} is not an input value");
            defined[id.index()] = true;
        }
        for value in &self.values {
            if let Some(bytes) = value.constant() {
                assert_eq!(bytes.len(), value.descriptor.bytes(), "bytes of a constant");
            }
        }
        for node in &self.nodes {
            let name = node.op.rule().name;
            for id in node.inputs.iter().flatten() {
                assert!(defined[id.index()], "{name} uses %{} before it is computed", id.0);
            }
            for id in &node.outputs {
                assert!(matches!(self.value(*id).source, Source::Node), "{name} computes an input or a constant");
                assert!(!std::mem::replace(&mut defined[id.index()], true), "%{} is computed twice", id.0);
            }
            let descriptors = self.input_descriptors(node);
            let (own, others) = descriptors.split_at(node.operands().0.len());
            let mut op = node.op.clone();
            let outputs = op.resolve(own).unwrap_or_else(|problem| panic!("{name}: {problem}"));
            // As text, in which a NaN equals itself.
            assert_eq!(format!("{op:?}"), format!("{:?}", node.op), "{name}: attributes are resolved");
            let written: Vec<_> = node.outputs.iter().map(|&id| self.descriptor(id).clone()).collect();
            assert_eq!(outputs, written, "outputs of {name}");
            if !node.epilogue.is_empty() {
                assert!(own.len() == op.rule().operands.len(), "{name}: an epilogue stands behind a whole row");
                let operands: Vec<_> = [Some(&outputs[0])].into_iter().chain(others.iter().copied()).collect();
                assert!(operands.iter().all(Option::is_some), "{name}: the operands of an epilogue are given");
                let result = node.epilogue.infer(&operands).expect("a program infers");
                assert!(node.outputs.len() == 1 && result == outputs, "{name}: the epilogue keeps the result's form");
            }
        }
        for (name, id) in &self.outputs {
            assert!(defined[id.index()], "output {name} is never computed");
            assert_eq!(self.outputs.iter().filter(|(other, _)| other == name).count(), 1, "output {name} twice");
        }
    }
}
