//! The invariants of a graph, checked after every pass in tests and in debug builds.

use super::{Epilogue, Graph, Growing, Node, Prologue, Source, Storage};
use crate::dimension::Dim;
use crate::ops::{Api, Op, Operator};
use crate::shape::{Descriptor, broadcasts_blockwise};
use std::collections::HashSet;

impl Graph {
    /// Panics unless every operand is defined before its use, every value is computed once, every node accepts its
    /// operands and returns outputs with the recorded descriptors, and names are unique.
    pub fn verify(&self) {
        let mut defined: Vec<bool> =
            self.values.iter().map(|value| matches!(value.source, Source::Constant(_) | Source::Sizes(_))).collect();
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
            for id in node.reads() {
                assert!(defined[id.index()], "{name} uses %{} before it is computed", id.0);
            }
            for id in &node.outputs {
                assert!(matches!(self.value(*id).source, Source::Node), "{name} computes an input or a constant");
                assert!(!std::mem::replace(&mut defined[id.index()], true), "%{} is computed twice", id.0);
            }
            for prologue in &node.prologues {
                let first = node.inputs[prologue.operand].expect("the first operand of a prologue is given");
                let operands: Vec<_> = [first].iter().chain(&prologue.others).map(|&id| self.descriptor(id)).collect();
                self.verify_prologue(name, prologue, &operands);
            }
            let own = &self.operand_descriptors(node)[..];
            let mut op = node.op.clone();
            let outputs = op.resolve(own).unwrap_or_else(|problem| panic!("{name}: {problem}"));
            // Compared as text, a NaN equals itself.
            let unchanged = op == node.op || format!("{op:?}") == format!("{:?}", node.op);
            assert!(unchanged, "{name}: attributes are resolved: {op:?} for {:?}", node.op);
            let written: Vec<_> = node.outputs.iter().map(|&id| self.descriptor(id).clone()).collect();
            assert_eq!(outputs, written, "outputs of {name}");
            if !node.epilogue.is_empty() {
                let Epilogue { program, operands } = &node.epilogue;
                let others = operands.iter().map(|&id| Some(self.descriptor(id)));
                let operands: Vec<_> = [Some(&outputs[0])].into_iter().chain(others).collect();
                assert_eq!(operands.len(), program.inputs, "{name}: operands of an epilogue");
                let result = program.infer(&operands).expect("a program infers");
                assert!(node.outputs.len() == 1 && result == outputs, "{name}: the epilogue keeps the result's form");
            }
        }
        for &index in &self.beside {
            let (node, before) = (&self.nodes[index], &self.nodes[index - 1]);
            assert_eq!(node.inputs[0], before.inputs[0], "nodes of one step have one left operand");
            let first = (0..index).rev().find(|index| self.beside.binary_search(index).is_err()).expect("a first node");
            let others = self.nodes[first..index].iter().flat_map(|node| &node.outputs);
            others.for_each(|id| assert!(node.reads().all(|read| read != id), "%{} is read in its own step", id.0));
        }
        self.verify_outputs(&defined);
    }

    /// Panics unless the program of a prologue returns the recorded operand.
    fn verify_prologue(&self, name: &str, prologue: &Prologue, operands: &[&Descriptor]) {
        let Prologue { descriptor, shape, program, storage, .. } = prologue;
        assert_eq!(operands.len(), program.inputs, "{name}: operands of a prologue");
        assert_eq!(program.output_type(), descriptor.dtype, "{name}: the type that a prologue returns");
        let elements: Dim = shape.iter().copied().product();
        assert_eq!(elements, descriptor.count(), "{name}: the elements of a prologue");
        for (index, operand) in operands.iter().enumerate() {
            if index == 0 && *storage == Storage::Nibbles {
                assert_eq!(operand.count(), elements.div_ceil(2u32), "{name}: packed numbers");
                continue;
            }
            let padded = [&vec![Dim::number(1); shape.len() - operand.rank()][..], &operand.shape].concat();
            assert!(broadcasts_blockwise(&padded, shape), "{name}: {:?} is spread to {shape:?}", operand.shape);
        }
    }

    /// Panics unless every output is computed, and their names are distinct.
    fn verify_outputs(&self, defined: &[bool]) {
        let (mut names, producers) = (HashSet::new(), self.producers());
        for Growing { input, output, .. } in &self.growing {
            let (cache, whole) = (self.inputs[*input].1, self.outputs[*output].1);
            let begins = |node: &Node| {
                let by_rows = matches!(&node.op, Api(Op::Concat(op)) if op.axis == 0);
                by_rows && node.is_plain() && node.inputs[0] == Some(cache)
            };
            let node = producers[whole.index()].map(|index| &self.nodes[index]);
            assert!(node.is_some_and(begins), "a cache is the beginning of a concatenation");
        }
        for (name, id) in &self.outputs {
            assert!(defined[id.index()], "output {name} is never computed");
            assert!(names.insert(name), "output {name} twice");
        }
    }
}
