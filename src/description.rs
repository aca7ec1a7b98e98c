//! Descriptions of plans, for people: the graph as given and as compiled, and its steps. Created with the plan, from
//! data that lowering discards; the text form is created on request only.

use crate::compile::{Passes, Target, optimize};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Evaluator, Graph, Listing, Node, ValueId};
use crate::ops::Operator;
use crate::shape::Descriptor;
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::sync::Arc;

/// Maximum number of characters of a JavaScript string.
const MAX_TEXT: usize = (1 << 29) - 24;

/// Serializes JSON for JavaScript. Files and loops decide how long it is: it is given up where it becomes too long, before
/// it fills memory.
///
/// # Errors
/// An OperationError if the text is too long for a JavaScript string, an UnknownError if memory runs out.
pub fn text(json: &impl Serialize) -> Result<String> {
    text_within(json, MAX_TEXT)
}

/// Like [`text`]; messages start with `operation`.
///
/// # Errors
/// Same as [`text`].
pub fn text_of(operation: &str, json: &impl Serialize) -> Result<String> {
    text(json).map_err(|error| Error { message: format!("{operation}: {}", error.message), ..error })
}

fn text_within(json: &impl Serialize, most: usize) -> Result<String> {
    let mut text = Text { bytes: Vec::new(), most };
    serde_json::to_writer(&mut text, json).map_err(|error| match error.io_error_kind() {
        Some(io::ErrorKind::OutOfMemory) => Error::new(ErrorKind::Unknown, "no memory for a description"),
        Some(_) => {
            let message = format!("a description has more than {most} bytes, which is more than a string can hold");
            Error::new(ErrorKind::Operation, message)
        }
        None => Error::new(ErrorKind::Operation, format!("a description has no JSON form: {error}")),
    })?;
    Ok(String::from_utf8(text.bytes).expect("JSON is UTF-8"))
}

/// A list whose elements are made while it is serialized, once.
pub struct Lazily<I>(Cell<Option<I>>);

impl<I> Lazily<I> {
    /// The list of these elements.
    pub fn of(elements: I) -> Lazily<I> {
        Lazily(Cell::new(Some(elements)))
    }
}

impl<I: Iterator<Item: Serialize>> Serialize for Lazily<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.take().into_iter().flatten())
    }
}

/// A text of limited length.
struct Text {
    bytes: Vec<u8>,
    most: usize,
}

impl io::Write for Text {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.try_reserve(part.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computes {
    /// Nodes that follow each other in the compiled graph: the index of the first one, and their number.
    Nodes(u32, u32),
    /// A copy of a value to an output of the graph.
    Copy(ValueId),
}

impl Computes {
    /// The node at `index`.
    pub fn node(index: usize) -> Computes {
        Computes::Nodes(index as u32, 1)
    }
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepListing {
    /// What it computes.
    pub computes: Computes,
    /// The kernel; on a GPU there may be several, separated by commas.
    pub kernel: Cow<'static, str>,
}

/// Memory of a plan in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Constants that steps read unpacked, including shared ones.
    pub constants: usize,
    /// Constants packed into the order of kernels.
    pub packed: usize,
    /// Intermediate values and scratch memory; on the CPU the plans of a context share them.
    pub arena: usize,
}

/// The graphs behind a plan. Plans for other sizes share them.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The graph as given.
    source: Arc<Listing>,
    /// The graph after the passes.
    compiled: Arc<Listing>,
    /// The descriptors of all values, by their ids in both graphs.
    descriptors: Arc<[Descriptor]>,
    /// The tape's values for the plan's sizes; empty for a graph with fixed sizes.
    values: Arc<[i64]>,
    /// The passes that ran on the graph.
    pub passes: Passes,
}

impl Origin {
    /// Optimizes `graph` for `target`, see [`optimize`]; returns the origin of its plans.
    ///
    /// # Errors
    /// Same as [`optimize`].
    pub fn optimize(graph: &mut Graph, target: &Target, passes: Passes, evaluator: &Evaluator) -> Result<Origin> {
        let source = Listing::of(graph);
        let passes = optimize(graph, target, passes, evaluator)?;
        Ok(Origin::new(source, graph, passes))
    }

    /// The origin of plans of `compiled`, which `passes` produced from `source`.
    fn new(source: Listing, compiled: &Graph, passes: Passes) -> Origin {
        let (source, listed) = (Arc::new(source), Listing::of(compiled));
        // The parts of a model that is cut are often too small for a pass to change them.
        let listed = if listed.is_same(&source) { source.clone() } else { Arc::new(listed) };
        Origin {
            source,
            compiled: listed,
            descriptors: compiled.values.iter().map(|value| value.descriptor.clone()).collect(),
            values: Arc::default(),
            passes,
        }
    }

    /// The origin for a graph that no pass has run on.
    pub fn unchanged(graph: &Graph, passes: Passes) -> Origin {
        Origin::new(Listing::of(graph), graph, passes)
    }

    /// Whether both are origins of plans of the same graph, for any sizes.
    pub fn is_alike(&self, other: &Origin) -> bool {
        Arc::ptr_eq(&self.compiled, &other.compiled)
    }

    /// The tape's values for the sizes.
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    /// The origin for the sizes whose tape `values` these are.
    pub fn at(&self, values: &[i64]) -> Origin {
        Origin { values: values.into(), ..self.clone() }
    }
}

/// The description of a plan. Holds no weights.
#[derive(Debug)]
pub struct Description {
    /// The origin of the plan.
    pub origin: Origin,
    /// The steps, in execution order.
    pub steps: Arc<[StepListing]>,
    /// The memory of the plan.
    pub memory: Holdings,
    /// The processor of the plan.
    pub processor: Processor,
}

/// The processor that runs a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Processor {
    /// The CPU.
    Cpu {
        /// The instruction set.
        isa: &'static str,
        /// The number of threads.
        threads: usize,
    },
    /// A GPU.
    Gpu {
        /// The name of the adapter.
        adapter: String,
    },
}

impl Processor {
    /// Its name in `MLGraph.devices`.
    pub fn device(&self) -> &'static str {
        match self {
            Processor::Cpu { .. } => "cpu",
            Processor::Gpu { .. } => "gpu",
        }
    }
}

impl Description {
    /// Bytes that are freed with the plan. On the CPU, the arena is not the plan's own.
    pub fn bytes(&self) -> usize {
        let Holdings { constants, packed, arena } = self.memory;
        match self.processor {
            Processor::Cpu { .. } => constants + packed,
            Processor::Gpu { .. } => constants + packed + arena,
        }
    }

    /// A `GraphDescription` of `inspect.d.ts`.
    pub fn json(&self) -> Json {
        let Holdings { constants, packed, arena } = self.memory;
        let (isa, threads, adapter) = match &self.processor {
            Processor::Cpu { isa, threads } => (Some(isa), Some(threads), None),
            Processor::Gpu { adapter } => (None, None, Some(adapter)),
        };
        let Origin { source, compiled, values, passes, .. } = &self.origin;
        let descriptors = self.descriptors();
        json!({
            "source": source.at(values).json(&descriptors),
            "compiled": compiled.at(values).json(&descriptors),
            "steps": self.steps_json(),
            "memory": { "constantBytes": constants, "packedBytes": packed, "arenaBytes": arena },
            "passes": passes.enabled().collect::<Vec<_>>(),
            "devices": [self.processor.device()],
            "isa": isa,
            "threads": threads,
            "adapter": adapter,
        })
    }
}

impl Description {
    /// The descriptors of all values with the plan's sizes, by id.
    fn descriptors(&self) -> Vec<Descriptor> {
        let mut descriptors = self.origin.descriptors.to_vec();
        let dims = descriptors.iter_mut().flat_map(|descriptor| &mut descriptor.shape);
        dims.for_each(|dim| dim.fix(&self.origin.values));
        descriptors
    }

    /// The `StepDescription`s of `inspect.d.ts`.
    pub fn steps_json(&self) -> Vec<Json> {
        let (descriptors, compiled) = (self.descriptors(), self.origin.compiled.at(&self.origin.values));
        let step = |(index, step): (usize, &StepListing)| step.json(index, compiled.nodes(), &descriptors);
        self.steps.iter().enumerate().map(step).collect()
    }
}

impl StepListing {
    fn json(&self, index: usize, nodes: &[Node], descriptors: &[Descriptor]) -> Json {
        let StepListing { computes, kernel } = self;
        let descriptor = |id: &ValueId| &descriptors[id.index()];
        match *computes {
            Computes::Nodes(first, count) => {
                let (all, node) = (&nodes[first as usize..][..count as usize], &nodes[first as usize]);
                let (mut work, mut read, mut written) = (0, 0, 0);
                for (place, node) in all.iter().enumerate() {
                    let outputs: Vec<_> = node.outputs.iter().map(descriptor).collect();
                    work += node.op.multiply_adds(&seen(node, &descriptor), &outputs);
                    read += bytes_read(node, &descriptor, &outputs);
                    written += outputs.iter().map(|output| output.bytes()).sum::<usize>();
                    // All of them read the same left operand.
                    if place > 0 {
                        read -= node.inputs[0].as_ref().map_or(0, |left| descriptor(left).bytes() as u64);
                    }
                }
                let mut step = json!({
                    "index": index,
                    "kernel": kernel,
                    "node": first,
                    "operator": node.op.rule().name,
                    "label": node.label,
                    "multiplyAdds": work,
                    "bytesRead": read,
                    "bytesWritten": written,
                });
                if count > 1 {
                    step["beside"] = (first + 1..first + count).collect();
                }
                step
            }
            Computes::Copy(id) => json!({
                "index": index,
                "kernel": kernel,
                "node": null,
                "operator": "copy",
                "label": "",
                "multiplyAdds": 0,
                "bytesRead": descriptor(&id).bytes(),
                "bytesWritten": descriptor(&id).bytes(),
            }),
        }
    }
}

/// The operands of a node as its operator sees them, that is, after prologues.
fn seen<'a>(node: &'a Node, descriptor: &dyn Fn(&ValueId) -> &'a Descriptor) -> Vec<Option<&'a Descriptor>> {
    let mut own: Vec<_> = node.inputs.iter().map(|id| id.as_ref().map(descriptor)).collect();
    node.prologues.iter().for_each(|prologue| own[prologue.operand] = Some(&prologue.descriptor));
    own
}

/// Bytes of all operands that a step reads. If it reads only a part of an operand that a prologue computes, it reads
/// the same fraction of the prologue's operands.
fn bytes_read<'a>(node: &'a Node, descriptor: &dyn Fn(&ValueId) -> &'a Descriptor, outputs: &[&Descriptor]) -> u64 {
    let own = seen(node, descriptor);
    let all: u64 = own.iter().flatten().map(|operand| operand.bytes() as u64).sum();
    let read = node.op.bytes_read(&own, outputs);
    let sum = |ids: &mut dyn Iterator<Item = &ValueId>| -> u64 { ids.map(|id| descriptor(id).bytes() as u64).sum() };
    let computed: u64 = node.prologues.iter().map(|prologue| prologue.descriptor.bytes() as u64).sum();
    let first = sum(&mut node.prologues.iter().filter_map(|prologue| node.inputs[prologue.operand].as_ref()));
    let others = sum(&mut node.reads()) - sum(&mut node.inputs.iter().flatten());
    let of_computed = read.saturating_sub(all - computed);
    read - of_computed + (of_computed as f64 / computed.max(1) as f64 * first as f64) as u64 + others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::prologue::fuse_prologues;
    use crate::ir::parse;
    use crate::testing::GPU;

    #[test]
    fn a_text_that_is_too_long_is_an_error_before_it_fills_memory() {
        assert_eq!(text_within(&["abc"], 7).unwrap(), r#"["abc"]"#);
        assert_eq!(text_within(&["abc"], 6).unwrap_err().kind, ErrorKind::Operation);
        let written = std::cell::Cell::new(0);
        let endless = (0..usize::MAX).map(|number| written.replace(number));
        let error =
            serde_json::to_writer(&mut Text { bytes: Vec::new(), most: 1000 }, &Lazily::of(endless)).unwrap_err();
        assert!(error.is_io() && written.get() < 1000);
    }

    #[test]
    fn quantized_weights_count_with_their_packed_bytes() {
        let weights = |constant: &str, reader: &str| {
            let mut graph = parse(&format!(
                "%0 = input x float32 [2, 16]
                 %1 = input i int32 [3]
                 %2 = constant {constant}
                 %3 = constant float32 [8, 1]
                 %4 = constant uint8 [8, 1]
                 %5 = dequantizeLinear %2 %3 %4
                 %6 = {reader}
                 output y = %6"
            ));
            fuse_prologues(&mut graph, &GPU).unwrap();
            let node = graph.nodes.last().expect("the reader");
            let outputs: Vec<_> = node.outputs.iter().map(|&id| graph.descriptor(id)).collect();
            bytes_read(node, &|id| graph.descriptor(*id), &outputs)
        };
        let parameters = 8 * 4 + 8;
        let product = "gemm %0 %5 bTranspose=true";
        assert_eq!(weights("uint8 [8, 16] 200", product), 2 * 16 * 4 + 8 * 16 + parameters);
        assert_eq!(weights("uint8 [8, 16] 9", product), 2 * 16 * 4 + 8 * 16 / 2 + parameters);
        // Three rows of eight.
        assert_eq!(weights("uint8 [8, 16] 200", "gather %5 %1"), 3 * 4 + 3 * 16 + parameters);
    }
}
