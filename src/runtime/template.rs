//! Graphs that are optimized once for many sizes.
//!
//! A [`Template`] is a graph for all sizes for which all compile-time decisions have the same outcome. [`Templates`]
//! caches one per recent combination of outcomes, [`Recent`] the compiled graphs for the last few sets of sizes.

use super::backend::{Optimized, Weight};
use super::compiled::CompiledGraph;
use super::site::Site;
use crate::description::Origin;
use crate::dimension::{Dim, Tape};
use crate::error::Result;
use crate::ir::Stencil;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of templates to keep, the most recently used ones. Each combination of outcomes has its own, for example a
/// batch of one, which broadcasts.
const MAX_TEMPLATES: usize = 8;

/// Minimum size in bytes of weights to keep for other sizes. Smaller ones are packed in an instant; constants that
/// depend on sizes differ for each set, and are smaller.
const MIN_KEPT: usize = 1 << 14;

/// The most recently used items, the latest at the end.
pub struct Recent<T>(Mutex<Vec<T>>);

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent(Mutex::default())
    }
}

impl<T: Clone> Recent<T> {
    /// Locks the list.
    pub fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the latest item for which `pick` returns a result, and makes it the most recently used.
    pub fn find<R>(&self, mut pick: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let mut kept = self.lock();
        let (at, picked) = kept.iter().enumerate().rev().find_map(|(at, one)| Some((at, pick(one)?)))?;
        kept[at..].rotate_left(1);
        Some(picked)
    }

    /// Makes room for one more item, keeping at most `most`. Returns the least recently used item if it was evicted.
    pub fn make_room(&self, most: usize) -> Option<T> {
        let mut kept = self.lock();
        (kept.len() >= most).then(|| kept.remove(0))
    }

    /// Adds an item. Requires room; see [`make_room`](Self::make_room).
    pub fn add(&self, made: &T) {
        self.lock().push(made.clone());
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *self.lock());
        drop(kept);
    }
}

/// A graph for all sizes for which compile-time decisions have the same outcome, and other data recorded with it.
pub struct Template<T> {
    tape: Tape,
    /// `None` if there is nothing to compute.
    graph: Option<(Mutex<Stencil>, Origin)>,
    /// Weights that steps read in place and their sizes in bytes, by their addresses. Kept even if no compiled graph uses
    /// them at the moment, to avoid packing or uploading them again.
    weights: Mutex<HashMap<usize, (Weight, usize)>>,
    recorded: T,
}

impl<T> Template<T> {
    /// Calls `work` for all sizes with the same outcomes; only for these sizes if `work` fails on symbols because it
    /// needs their values, like a node whose number of results depends on them.
    ///
    /// # Errors
    /// The error of `work` on numbers.
    pub fn record(sizes: &[i64], work: impl Fn(&[Dim]) -> Result<(Option<Optimized>, T)>) -> Result<Template<T>> {
        let made = |(made, tape): (Result<(Option<Optimized>, T)>, Tape)| {
            let (graph, recorded) = made?;
            let graph = graph.map(|Optimized { graph, origin }| (Mutex::new(Stencil::new(graph)), origin));
            Ok(Template { tape, graph, weights: Mutex::default(), recorded })
        };
        made(Tape::record(sizes, &work)).or_else(|_| {
            made(Tape::record(sizes, |dims| {
                let numbers: Vec<Dim> = dims.iter().map(|dim| Dim::number(dim.pinned())).collect();
                work(&numbers)
            }))
        })
    }

    /// The data recorded with the graph. Its dimensions are valid for [`Dim::at`] with the values of this template.
    pub fn recorded(&self) -> &T {
        &self.recorded
    }

    /// Compiles the graph for the sizes that `values` stand for; `None` if there is nothing to compute. If `spare`,
    /// which has no other users, was compiled from this template for other sizes, resizes its plan, which is much
    /// faster than making one. Also returns whether it did.
    ///
    /// # Errors
    /// An `UnknownError` if memory for constants that depend on sizes runs out, an `OperationError` if compiling fails.
    pub fn compile(
        &self,
        site: &Site,
        values: &[i64],
        spare: Option<Arc<CompiledGraph>>,
    ) -> Result<(Option<Arc<CompiledGraph>>, bool)> {
        let Some((stencil, origin)) = &self.graph else { return Ok((None, false)) };
        // The next filling overwrites the remains of one that panicked.
        let mut stencil = stencil.lock().unwrap_or_else(PoisonError::into_inner);
        stencil.fill(values)?;
        let origin = origin.at(values);
        let resized = match spare {
            Some(spare) => site.resize(spare, &mut stencil, &origin)?,
            None => None,
        };
        if resized.is_some() {
            return Ok((resized, true));
        }
        let compiled = stencil.lower(|graph| site.lower(graph, origin))?;
        self.keep_weights(&compiled);
        Ok((Some(compiled), false))
    }

    /// Whether an integer computed from the sizes that `values` stand for exceeds the range of integers.
    pub fn saturates(&self, values: &[i64]) -> bool {
        self.tape.saturates(values)
    }

    /// Keeps the weights that `graph` reads, which was compiled from this template.
    fn keep_weights(&self, graph: &CompiledGraph) {
        let mut weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        graph.each_weight(|weight, bytes| {
            if bytes >= MIN_KEPT {
                weights.entry(Arc::as_ptr(&weight).addr()).or_insert((weight, bytes));
            }
        });
    }
}

/// The most recently used templates.
pub struct Templates<T>(Recent<Arc<Template<T>>>);

impl<T> Default for Templates<T> {
    fn default() -> Templates<T> {
        Templates(Recent::default())
    }
}

impl<T> Templates<T> {
    /// Returns the template for `sizes`, and its tape's values for them: a cached one that passes `fits` and makes the
    /// same decisions, or a new one from `record`.
    ///
    /// # Errors
    /// The error of `record`.
    ///
    /// # Panics
    /// If `record` records other sizes.
    pub fn find(
        &self,
        sizes: &[i64],
        fits: impl Fn(&T) -> bool,
        record: impl FnOnce() -> Result<Template<T>>,
    ) -> Result<(Arc<Template<T>>, Vec<i64>)> {
        match self.kept(sizes, fits) {
            Some(kept) => Ok(kept),
            None => Ok(self.add(sizes, record()?)),
        }
    }

    /// The cached template that passes `fits` and makes the same decisions for `sizes`, and its tape's values for them.
    pub fn kept(&self, sizes: &[i64], fits: impl Fn(&T) -> bool) -> Option<(Arc<Template<T>>, Vec<i64>)> {
        let mut values = Vec::new();
        let kept = self.0.find(|template| {
            let decides_alike = fits(&template.recorded) && template.tape.evaluate(sizes, &mut values);
            decides_alike.then(|| template.clone())
        });
        kept.map(|template| (template, values))
    }

    /// Caches `template`, which was recorded with `sizes`; returns it, and its tape's values for them.
    ///
    /// # Panics
    /// If it was recorded with other sizes.
    pub fn add(&self, sizes: &[i64], template: Template<T>) -> (Arc<Template<T>>, Vec<i64>) {
        let (template, mut values) = (Arc::new(template), Vec::new());
        assert!(template.tape.evaluate(sizes, &mut values), "it was recorded with these sizes");
        drop(self.0.make_room(MAX_TEMPLATES));
        self.0.add(&template);
        (template, values)
    }

    /// Calls `visit` with the weights that the templates keep, and their sizes in bytes. Several templates may keep the
    /// same ones.
    pub fn each_weight(&self, visit: &mut dyn FnMut(&Weight, usize)) {
        for template in self.0.lock().iter() {
            let weights = template.weights.lock().unwrap_or_else(PoisonError::into_inner);
            weights.values().for_each(|(weight, bytes)| visit(weight, *bytes));
        }
    }

    /// Number of templates.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.clear();
    }
}
