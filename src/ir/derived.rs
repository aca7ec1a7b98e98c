//! Constants that are outputs of a node with constant operands. They are computed whenever somebody reads their bytes:
//! never, if what is packed from them is there already.

use super::constant::Constant;
use super::graph::{Graph, Node};
use super::widened::widen_halves;
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::Buffer;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

type Compute = dyn Fn(&Graph, &Node) -> Result<Vec<Buffer>> + Send + Sync;

/// Computes the bytes of the outputs of a node with constant operands, at any time and on any thread. Cheap to clone.
///
/// Graphs hold it as long as their constants, so it should keep no threads alive.
#[derive(Clone)]
pub struct Evaluator(Arc<Compute>);

impl Evaluator {
    /// The evaluator that calls `compute`.
    pub fn new(compute: impl Fn(&Graph, &Node) -> Result<Vec<Buffer>> + Send + Sync + 'static) -> Evaluator {
        Evaluator(Arc::new(compute))
    }

    /// The bytes of the outputs of `node`.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out, an `OperationError` if a mapped constant cannot be read.
    pub fn evaluate(&self, graph: &Graph, node: &Node) -> Result<Vec<Buffer>> {
        (self.0)(graph, node)
    }
}

/// A node with constant operands, and those of its outputs that are in memory at the moment.
struct Derivation {
    id: u64,
    /// The node alone.
    graph: Graph,
    evaluator: Evaluator,
    depth: usize,
    retained: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The outputs that somebody may hold.
    made: Vec<Weak<Buffer>>,
    /// Number of [`Hold`]s.
    holds: usize,
    /// All outputs once they are computed, as long as there are holds.
    kept: Vec<Arc<Buffer>>,
}

/// An output of a node with constant operands, or a range of its bytes. Cheap to clone.
#[derive(Clone)]
pub struct Derived {
    from: Arc<Derivation>,
    /// The index of the output.
    output: usize,
    /// The bytes of the output.
    range: Range<usize>,
    /// Whether these are float16 numbers that are read as float32.
    is_wide: bool,
}

impl Derivation {
    /// The operands that are derived themselves.
    fn operands(&self) -> impl Iterator<Item = &Arc<Derivation>> {
        derived(self.graph.values.iter().filter_map(|value| value.constant()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All outputs in memory. Operands are computed first, in a loop: the stack of a thread is too small for long
    /// chains. Each is dropped after its last use, because all of a chain may not fit into memory together.
    fn outputs(&self) -> Result<Vec<Arc<Buffer>>> {
        let mut operands: HashMap<u64, Vec<Arc<Buffer>>> = HashMap::new();
        let (mut order, mut seen, mut stack) = (Vec::new(), HashSet::new(), vec![(self, false)]);
        while let Some((next, follows_operands)) = stack.pop() {
            if follows_operands {
                order.push(next);
            } else if seen.insert(next.id) {
                match next.lock().made() {
                    Some(made) => _ = operands.insert(next.id, made),
                    None => {
                        stack.push((next, true));
                        stack.extend(next.operands().map(|operand| (&**operand, false)));
                    }
                }
            }
        }
        let mut uses: HashMap<u64, usize> = HashMap::new();
        order.iter().flat_map(|next| next.operands()).for_each(|operand| *uses.entry(operand.id).or_default() += 1);
        for next in order {
            let made = next.compute()?;
            for operand in next.operands() {
                let left = uses.get_mut(&operand.id).expect("counted");
                *left -= 1;
                if *left == 0 {
                    operands.remove(&operand.id);
                }
            }
            operands.insert(next.id, made);
        }
        Ok(operands.remove(&self.id).expect("it comes last"))
    }

    /// All outputs; the operands are in memory. Threads that need them at the same time wait for the first one.
    fn compute(&self) -> Result<Vec<Arc<Buffer>>> {
        let mut state = self.lock();
        if let Some(made) = state.made() {
            return Ok(made);
        }
        let outputs = self.evaluator.evaluate(&self.graph, &self.graph.nodes[0])?;
        let made: Vec<Arc<Buffer>> = outputs.into_iter().map(Arc::new).collect();
        state.made = made.iter().map(Arc::downgrade).collect();
        if state.holds > 0 {
            state.kept.clone_from(&made);
        }
        Ok(made)
    }
}

impl State {
    /// All outputs, if they are in memory.
    fn made(&self) -> Option<Vec<Arc<Buffer>>> {
        self.made.iter().map(Weak::upgrade).collect::<Option<Vec<_>>>().filter(|made| !made.is_empty())
    }
}

impl Derived {
    /// The outputs of `node`, whose operands are constants.
    pub fn outputs_of(graph: &Graph, node: &Node, evaluator: &Evaluator) -> Vec<Derived> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let graph = graph.alone(node);
        let constants = || graph.values.iter().filter_map(|value| value.constant());
        let depth = 1 + derived(constants()).map(|operand| operand.depth).max().unwrap_or(0);
        let retained = constants().map(Constant::retained_bytes).sum();
        let lens: Vec<usize> = graph.outputs.iter().map(|(_, id)| graph.descriptor(*id).bytes()).collect();
        let (id, state) = (NEXT.fetch_add(1, Ordering::Relaxed), Mutex::default());
        let from = Arc::new(Derivation { id, graph, evaluator: evaluator.clone(), depth, retained, state });
        let output = |(output, len)| Derived { from: from.clone(), output, range: 0..len, is_wide: false };
        lens.into_iter().enumerate().map(output).collect()
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        if self.is_wide { 2 * self.range.len() } else { self.range.len() }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Identifies the output: unique in this process, even over time.
    pub fn id(&self) -> (u64, usize) {
        (self.from.id, self.output)
    }

    /// The length of the longest chain of nodes that compute it.
    pub fn depth(&self) -> usize {
        self.from.depth
    }

    /// Size in bytes of the memory that its sources keep from being freed.
    pub fn retained_bytes(&self) -> usize {
        self.from.retained
    }

    /// The stored bytes of the output: its own, or those that are widened.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Whether float16 numbers are read as float32.
    pub fn is_wide(&self) -> bool {
        self.is_wide
    }

    /// The float16 numbers as float32.
    ///
    /// # Panics
    /// If they are float32 already.
    pub fn widen(&self) -> Derived {
        assert!(!self.is_wide);
        Derived { is_wide: true, ..self.clone() }
    }

    /// The float16 numbers that are read as float32, if they are.
    pub fn halves(&self) -> Option<Derived> {
        self.is_wide.then(|| Derived { is_wide: false, ..self.clone() })
    }

    /// The part `range`, in bytes. Computes nothing.
    ///
    /// # Panics
    /// If `range` lies outside.
    pub fn window(&self, range: Range<usize>) -> Derived {
        assert!(range.start <= range.end && range.end <= self.len());
        let size = if self.is_wide { 2 } else { 1 };
        let start = self.range.start;
        Derived { range: start + range.start / size..start + range.end / size, ..self.clone() }
    }

    /// The whole output, as it is computed. As long as somebody holds it, nobody computes it again.
    ///
    /// # Errors
    /// The errors of the evaluator.
    pub fn output(&self) -> Result<Arc<Buffer>> {
        let made = self.from.lock().made.get(self.output).and_then(Weak::upgrade);
        match made {
            Some(made) => Ok(made),
            None => Ok(self.from.outputs()?.swap_remove(self.output)),
        }
    }

    /// All bytes: the whole output, or a copy of a part.
    ///
    /// # Errors
    /// The errors of the evaluator, an `UnknownError` if memory for a copy runs out.
    pub fn buffer(&self) -> Result<Arc<Buffer>> {
        let output = self.output()?;
        if self.is_wide {
            let mut wide = Buffer::zeroed(self.len())?;
            widen_halves(&output.bytes()[self.range()], wide.bytes_mut());
            return Ok(Arc::new(wide));
        }
        if self.range.len() == output.len() {
            return Ok(output);
        }
        Ok(Arc::new(Buffer::copy_of(&output.bytes()[self.range()])?))
    }

    /// Keeps all outputs of the node in memory, from when they are computed until the hold is dropped.
    pub fn hold(&self) -> Hold {
        Hold::new(&self.from)
    }

    /// Describes how the bytes are computed from those of the [`sources`](Self::sources): outputs with equal
    /// descriptions and sources have equal bytes if the evaluator uses the same instructions. All NaNs look the same.
    pub fn description(&self) -> String {
        let graph = &self.from.graph;
        // The numbers of the values tell which operands are given: in a graph of one node they follow its reads.
        let Node { op, inputs, outputs, epilogue, prologues, label: _, origins: _ } = &graph.nodes[0];
        let types: Vec<(DataType, _)> =
            graph.values.iter().map(|value| (value.descriptor.dtype, &value.descriptor.shape)).collect();
        format!("{:?}", (op, inputs, outputs, epilogue, prologues, types, self.output, &self.range, self.is_wide))
    }

    /// The constants that the node reads, in order; one that it reads twice is listed twice.
    pub fn sources(&self) -> impl Iterator<Item = &Constant> {
        self.from.graph.values.iter().filter_map(|value| value.constant())
    }
}

impl fmt::Debug for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.from.graph.nodes[0].op.rule().name;
        write!(f, "Derived({name} {}, output {}, {:?})", self.from.id, self.output, self.range)
    }
}

/// Keeps the outputs of a node in memory once they are computed.
pub struct Hold(Arc<Derivation>);

impl Hold {
    fn new(of: &Arc<Derivation>) -> Hold {
        let mut state = of.lock();
        state.holds += 1;
        if state.kept.is_empty() {
            state.kept = state.made().unwrap_or_default();
        }
        Hold(of.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.holds -= 1;
        if state.holds == 0 {
            state.kept = Vec::new();
        }
    }
}

/// Keeps what several readers have in common in memory until the last of them is done: it is computed once, no matter
/// how many parts of it are read one after the other.
#[derive(Default)]
pub struct Sharing(HashMap<u64, (usize, Option<Hold>)>);

impl Sharing {
    /// Notes that somebody will read `constant`.
    pub fn expect(&mut self, constant: &Constant) {
        for from in behind(constant) {
            let (readers, hold) = self.0.entry(from.id).or_default();
            *readers += 1;
            if *readers == 2 {
                *hold = Some(Hold::new(from));
            }
        }
    }

    /// Notes that one of the expected readers of `constant` is done.
    pub fn done(&mut self, constant: &Constant) {
        for from in behind(constant) {
            if let Some((readers, _)) = self.0.get_mut(&from.id) {
                *readers -= 1;
                if *readers == 0 {
                    self.0.remove(&from.id);
                }
            }
        }
    }
}

/// The nodes that compute those of `constants` that are derived.
fn derived<'c>(constants: impl Iterator<Item = &'c Constant>) -> impl Iterator<Item = &'c Arc<Derivation>> {
    constants.filter_map(|constant| if let Constant::Derived(derived) = constant { Some(&derived.from) } else { None })
}

/// The nodes that compute `constant`, directly or not.
fn behind(constant: &Constant) -> Vec<&Arc<Derivation>> {
    let mut all: Vec<&Arc<Derivation>> = derived([constant].into_iter()).collect();
    let mut seen: HashSet<u64> = all.iter().map(|from| from.id).collect();
    let mut next = 0;
    while let Some(from) = all.get(next).copied() {
        all.extend(from.operands().filter(|operand| seen.insert(operand.id)));
        next += 1;
    }
    all
}

#[cfg(test)]
#[path = "derived_tests.rs"]
mod tests;
