//! Runs a whole graph like a plan, but without values that share memory.

use super::fast::Math;
use super::fault::Checked;
use super::machine::{Launch, run};
use super::memory::Memory;
use super::program::Program;
use crate::gpu::dialect::Dialect;
use crate::gpu::kernel::{Bound, Dispatch};
use crate::gpu::lower::lower;
use crate::ir::{Graph, Node, Source};
use crate::ops::tensor::Tensor;
use std::collections::HashMap;
use std::rc::Rc;

/// Words in front of a kernel's parameters, as if the parameters of other kernels came first in the same buffer.
const FIRST_PARAMETER: usize = 5;

/// A simulated device.
pub struct Simulator<'a> {
    /// The dialect of its shaders.
    pub dialect: Dialect,
    /// Invocations per subgroup.
    pub subgroup: usize,
    /// The rules for floats.
    pub math: Math,
    /// Changes a launch before it runs.
    pub edit: &'a dyn Fn(&mut Dispatch),
    /// Parsed kernels, by source.
    pub programs: &'a mut HashMap<String, Rc<Program>>,
}

impl Simulator<'_> {
    /// Runs `graph` and returns the bytes of every output.
    ///
    /// # Errors
    /// The first fault of a kernel.
    pub fn run(&mut self, graph: &Graph, inputs: &HashMap<String, Tensor>) -> Checked<Vec<Vec<u8>>> {
        let mut memories: Vec<Memory> = Vec::new();
        for value in &graph.values {
            memories.push(match &value.source {
                Source::Constant(constant) => {
                    let buffer = constant.buffer().expect("the bytes of a constant");
                    Memory::holding("constant".to_string(), buffer.bytes())
                }
                _ => Memory::output("value".to_string(), value.descriptor.bytes()),
            });
        }
        for (name, id) in &graph.inputs {
            memories[id.index()] = Memory::holding(name.clone(), &inputs[name].to_bytes());
        }
        for node in &graph.nodes {
            self.run_node(graph, node, &mut memories)?;
        }
        let bytes = |id: crate::ir::ValueId| memories[id.index()].bytes[..graph.descriptor(id).bytes()].to_vec();
        Ok(graph.outputs.iter().map(|(_, id)| bytes(*id)).collect())
    }

    fn run_node(&mut self, graph: &Graph, node: &Node, memories: &mut Vec<Memory>) -> Checked<()> {
        let values = memories.len();
        let mut scratch: HashMap<usize, usize> = HashMap::new();
        for mut dispatch in lower(graph, node, self.dialect).expect("all operators have kernels").dispatches {
            (self.edit)(&mut dispatch);
            let mut words = vec![u32::MAX; FIRST_PARAMETER];
            words.extend(&dispatch.parameters.0);
            let mut bound = vec![memories.len()];
            memories.push(Memory::holding("parameters".to_string(), &bytes_of(&words)));
            for binding in &dispatch.bindings {
                bound.push(match *binding {
                    Bound::Scratch { offset, bytes } => *scratch.entry(offset).or_insert_with(|| {
                        memories.push(Memory::scratch("scratch".to_string(), bytes));
                        memories.len() - 1
                    }),
                    bound => bound.value(node).expect("operands that are bound are given").index(),
                });
            }
            self.launch(&dispatch, memories, &bound).map_err(|mut fault| {
                fault.message = format!("{}: {}", dispatch.name, fault.message);
                fault
            })?;
            for &output in &node.outputs {
                let words_are_shared = self.dialect.lanes(graph.descriptor(output).dtype) > 1;
                memories[output.index()].check_writes(words_are_shared)?;
            }
        }
        for &output in &node.outputs {
            memories[output.index()].check_complete()?;
        }
        memories.truncate(values);
        Ok(())
    }

    fn launch(&mut self, dispatch: &Dispatch, memories: &mut Vec<Memory>, bound: &[usize]) -> Checked<()> {
        let program = match self.programs.get(&dispatch.source) {
            Some(program) => program.clone(),
            None => {
                let program = Rc::new(Program::new(dispatch.name, &dispatch.source)?);
                self.programs.insert(dispatch.source.clone(), program.clone());
                program
            }
        };
        let immediates = bytes_of(&[FIRST_PARAMETER as u32, dispatch.elements, 0]);
        let workgroups = dispatch.workgroups;
        let (subgroup, math) = (self.subgroup, self.math);
        run(&program, Launch { memories, bound, immediates: &immediates, workgroups, subgroup, math })
    }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
