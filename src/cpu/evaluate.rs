//! Computes single nodes on constants, for folding.

use super::arena::Arena;
use super::lower::lower;
use super::memory::run_once;
use super::schedule::pool::Threads;
use super::steps::{Env, Run};
use crate::compile::{is_settled, widen_halves};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Evaluator, Graph, Node, Source, ValueId};
use crate::memory::Buffer;

/// The evaluator for constants of graphs compiled in `env`. It computes on that pool of threads, but does not keep it
/// running: graphs may outlive their context.
pub fn evaluator(env: &Env) -> Evaluator {
    let (size, isa) = (env.threads.size(), env.isa);
    Evaluator::new(move |graph, node| {
        let refused = |error| Error::new(ErrorKind::Operation, format!("{size} threads did not start: {error}"));
        let threads = Threads::new(size).map_err(refused)?;
        evaluate(graph, node, &Env { threads: &threads, isa, arena: &Arena::default() })
    })
}

/// The bytes of the outputs of `node`; all its operands are constants.
///
/// # Errors
/// An `UnknownError` if there is not enough memory, an `OperationError` if a mapped constant cannot be read.
pub fn evaluate(graph: &Graph, node: &Node, env: &Env) -> Result<Vec<Buffer>> {
    if is_settled(graph, node) {
        return evaluate_settled(graph, node, env);
    }
    let mut own = graph.alone(node);
    widen_halves(&mut own)?;
    let mut outputs = Vec::new();
    for node in std::mem::take(&mut own.nodes) {
        for (id, bytes) in node.outputs.iter().zip(evaluate_settled(&own, &node, env)?) {
            match own.outputs.iter().any(|(_, output)| output == id) {
                true => outputs.push((*id, bytes)),
                false => own.values[id.index()].source = Source::Constant(bytes.into()),
            }
        }
    }
    outputs.sort_unstable_by_key(|(id, _)| own.outputs.iter().position(|(_, output)| output == id));
    Ok(outputs.into_iter().map(|(_, bytes)| bytes).collect())
}

fn evaluate_settled(graph: &Graph, node: &Node, env: &Env) -> Result<Vec<Buffer>> {
    let lowered = lower(graph, node, None, env, false)?;
    // Packed operands are not read again.
    let operand = |(index, id): (usize, Option<ValueId>)| {
        let id = id.filter(|_| !lowered.packed.contains(&index));
        id.map(|id| graph.value(id).constant().expect("operands are constants").buffer()).transpose()
    };
    let others = node.epilogue.operands.iter().map(|id| Some(*id));
    let inputs = node.inputs.iter().copied().chain(others).enumerate().map(operand).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<Option<&Buffer>> = inputs.iter().map(Option::as_deref).collect();
    let mut outputs =
        node.outputs.iter().map(|&id| Buffer::zeroed(graph.descriptor(id).bytes())).collect::<Result<Vec<_>>>()?;
    let mut scratch = Buffer::zeroed(lowered.step.scratch_bytes(env.threads.count()))?;
    run_once(&inputs, &mut outputs, &mut scratch, |io| lowered.step.run(env, io));
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Isa;
    use crate::ir::parse;

    #[test]
    fn an_evaluator_outlives_its_context_without_keeping_the_threads() {
        let graph = parse("%0 = constant int32 [3] 1 -2 3\n%1 = neg %0\noutput x = %1");
        let threads = Threads::new(9).unwrap();
        let evaluator = evaluator(&Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() });
        assert_eq!(threads.handles(), 1);
        drop(threads);
        let outputs = evaluator.evaluate(&graph, &graph.nodes[0]).unwrap();
        assert_eq!(crate::memory::elements::<i32>(outputs[0].bytes()), [-1, 2, -3]);
    }
}
