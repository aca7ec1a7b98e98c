//! Compiled graphs of a context.

use super::backend::{Plan, Weight};
use super::background::panicked;
use super::tensor::Tensor;
use crate::cpu::steps::Env;
use crate::description::Description;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::Growing;
use crate::observe::Stopwatch;
use crate::shape::Descriptor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// A graph of a context, compiled once the request to build it is done.
#[derive(Default)]
pub struct CompiledGraph {
    plan: Mutex<Option<Plan>>,
    /// Separate from the plan, which is locked while it runs.
    description: Mutex<Option<Arc<Description>>>,
}

impl CompiledGraph {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Option<Plan>> {
        self.plan.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn lock_description(&self) -> std::sync::MutexGuard<'_, Option<Arc<Description>>> {
        self.description.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The description of the compiled graph; `None` before it is built and after its release. Does not wait for a run.
    pub fn description(&self) -> Option<Arc<Description>> {
        self.lock_description().clone()
    }

    /// Drops the plan.
    pub(super) fn release(&self) {
        *self.lock_description() = None;
        *self.lock() = None;
    }

    /// Stores the plan.
    pub(super) fn hold(&self, plan: Plan) {
        *self.lock_description() = Some(plan.description().clone());
        *self.lock() = Some(plan);
    }

    /// Names and descriptors of its inputs and outputs; none before it is built.
    pub fn ports(&self) -> [Vec<(String, Descriptor)>; 2] {
        self.with_ports(|ports| ports.map(<[_]>::to_vec))
    }

    /// Calls `look` with the names and descriptors of inputs and outputs.
    pub fn with_ports<T>(&self, look: impl FnOnce([&[(String, Descriptor)]; 2]) -> T) -> T {
        look(self.lock().as_ref().map_or_else(Default::default, |plan| plan.ports()))
    }

    /// Calls `visit` with the constants that it reads; see [`Plan::each_weight`].
    pub fn each_weight(&self, mut visit: impl FnMut(Weight, usize)) {
        self.lock().iter().for_each(|plan| plan.each_weight(&mut visit));
    }

    /// Whether it runs on the CPU.
    pub fn is_on_cpu(&self) -> bool {
        matches!(&*self.lock(), Some(Plan::Cpu(_)))
    }

    /// The outputs that begin with an input, in its memory.
    pub fn growing(&self) -> Vec<Growing> {
        self.lock().as_ref().map_or_else(Vec::new, |plan| plan.growing().to_vec())
    }

    /// Size of the compiled graph in bytes; 0 before it is built.
    pub fn bytes(&self) -> usize {
        self.description().map_or(0, |description| description.bytes())
    }

    /// Runs the graph for `operation`, as work on the timeline of its context. The tensors are those of a
    /// [`dispatch`](Context::dispatch).
    ///
    /// # Errors
    /// An OperationError, which reading the outputs also returns.
    pub fn run(
        &self,
        env: &Env,
        operation: &str,
        [inputs, outputs]: [&[Arc<Tensor>]; 2],
        watch: Option<&mut Stopwatch>,
    ) -> Result<()> {
        let run = catch_unwind(AssertUnwindSafe(|| {
            let mut plan = self.lock();
            let plan = plan.as_mut().ok_or_else(|| Error::new(ErrorKind::InvalidState, "the graph is destroyed"))?;
            plan.run(env, inputs, outputs, watch)
        }));
        run.unwrap_or_else(|panic| Err(panicked(&*panic))).map_err(|error| {
            let error = Error::new(ErrorKind::Operation, format!("{operation}: {error}"));
            outputs.iter().for_each(|output| output.fail(&error));
            error
        })
    }
}
