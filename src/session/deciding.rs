//! Inputs whose elements decide about sizes, branches or rounds: a run of a session is compiled for them, too.
//!
//! Truth values choose the template, like the ranks of inputs; integers are free sizes of it, like the sizes of inputs.

use super::Session;
use super::signature::{Shapes, Signature};
use super::specialization::Specialization;
use super::value::Feed;
use crate::dimension::Dim;
use crate::error::{ErrorKind, Result};
use crate::ir::Builder;
use crate::memory::Buffer;
use crate::onnx::Binding;
use crate::onnx::deciding::Decider;
use crate::onnx::sizes::filled;
use crate::runtime::{Site, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of runs for which one template for other elements may be compiled. Elements that never return, like those
/// of a caller who means harm, must not compile the model in every run.
const COST: usize = 64;

/// Maximum number of templates to compile in a row.
const MAX_IN_A_ROW: usize = 8;

/// The inputs of a session that decide.
#[derive(Default)]
pub(super) struct Deciding {
    /// The inputs, and their indices among those of the session.
    inputs: Vec<(usize, Decider)>,
    /// The number of runs to spend on templates.
    credit: AtomicUsize,
}

/// The elements of the inputs that decide, in a run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decided {
    /// The bytes of those that are constants of the template.
    pub constants: Arc<[u8]>,
    /// The integers of the others.
    pub numbers: Vec<i64>,
}

impl Deciding {
    /// These inputs, which decide, of a session.
    pub fn of(deciders: Vec<Decider>, signature: &Signature) -> Deciding {
        let place = |decider: Decider| {
            let at = signature.inputs.iter().position(|input| input.name == decider.name)?;
            Some((at, decider))
        };
        let mut inputs: Vec<_> = deciders.into_iter().filter_map(place).collect();
        inputs.sort_by_key(|(at, _)| *at);
        Deciding { inputs, credit: AtomicUsize::new(MAX_IN_A_ROW * COST) }
    }

    /// The names of the inputs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|(_, decider)| decider.name.as_str())
    }

    /// Whether a tensor is among the feeds that decide.
    pub fn reads_tensor(&self, feeds: &[Feed]) -> bool {
        self.inputs.iter().any(|(at, _)| matches!(feeds[*at], Feed::Tensor(_)))
    }

    /// Their elements among `feeds` of these shapes; `bytes_of` reads a tensor. `None` if nothing decides, or not with
    /// this number of elements.
    ///
    /// # Errors
    /// The errors of `bytes_of`, or an UnknownError if memory runs out.
    pub fn elements_of(
        &self,
        shapes: &Shapes,
        feeds: &[Feed],
        bytes_of: impl Fn(&Tensor) -> Result<Arc<Buffer>>,
    ) -> Result<Option<Arc<Decided>>> {
        let fits = |(at, decider): &(usize, Decider)| filled(&shapes[*at]) == decider.descriptor.elements();
        if self.inputs.is_empty() || !self.inputs.iter().all(fits) {
            return Ok(None);
        }
        let (mut constants, mut numbers) = (Vec::new(), Vec::new());
        for (at, decider) in &self.inputs {
            let bytes = match &feeds[*at] {
                Feed::Bytes(bytes) => bytes.clone(),
                Feed::Tensor(tensor) => bytes_of(tensor)?,
                Feed::Cache(cache) => Arc::new(cache.to_dense()?),
                Feed::Items(_) => unreachable!("only tensors decide"),
            };
            decider.read(bytes.bytes(), &mut constants, &mut numbers);
        }
        Ok(Some(Arc::new(Decided { constants: constants.into(), numbers })))
    }

    /// The inputs as operands of `builder`, with these elements.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn bind(
        &self,
        builder: &mut Builder,
        shapes: &Shapes,
        mut constants: &[u8],
        mut numbers: &[Dim],
    ) -> Result<Vec<Binding>> {
        let mut bind = |(at, decider): &(usize, Decider)| {
            let operand = decider.bind(builder, &shapes[*at], &mut constants, &mut numbers)?;
            let descriptor = builder.descriptor(operand).clone();
            Ok(Binding { name: decider.name.clone(), descriptor, operand: Some(operand) })
        };
        self.inputs.iter().map(&mut bind).collect()
    }

    /// Whether a template may be compiled for other elements; counts it.
    pub fn may_compile(&self) -> bool {
        let spend = |credit: usize| credit.checked_sub(COST);
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }

    /// Lets this many templates, which were dropped, be compiled again.
    pub fn refund(&self, templates: usize) {
        let earn = |credit: usize| Some(credit.saturating_add(templates.saturating_mul(COST)).min(MAX_IN_A_ROW * COST));
        _ = self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earn);
    }

    /// Counts a run.
    fn count_run(&self) {
        let earn = |credit: usize| (credit < MAX_IN_A_ROW * COST).then_some(credit + 1);
        _ = self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earn);
    }
}

impl Session {
    /// The specialization for a run with these feeds: for the elements that decide, or else one that is cut where they
    /// do.
    ///
    /// # Errors
    /// Same as [`specialize`](Session::specialize).
    pub(super) fn specialize_for(&self, site: &Site, shapes: &Shapes, feeds: &[Feed]) -> Result<Arc<Specialization>> {
        // The run itself reports a bad tensor.
        let decided = self.deciding().elements_of(shapes, feeds, |tensor| site.bytes(tensor)).ok().flatten();
        if let Some(decided) = decided {
            self.deciding().count_run();
            match self.specialize_at(site, shapes, Some(&decided), true) {
                Ok(Some(made)) => return Ok(made),
                Ok(None) => {}
                // Only some nodes may be impossible with these elements: the stages before them run, and the one that
                // has them reports them.
                Err(error) if matches!(error.kind, ErrorKind::Model | ErrorKind::Type) => {}
                Err(error) => return Err(error),
            }
        }
        self.specialize(site, shapes, true)
    }
}
