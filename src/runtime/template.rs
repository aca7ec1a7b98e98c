//! Graphs that are optimized once for many sizes.
//!
//! A [`Template`] is a graph for all sizes that decide in the same way what is compiled. [`Templates`] keeps one for each way
//! that was needed lately, [`Recent`] what is compiled for the last few sets of sizes.

use super::backend::Optimized;
use super::context::{CompiledGraph, Site};
use crate::description::Origin;
use crate::dimension::{Dim, Tape};
use crate::error::Result;
use crate::ir::Stencil;
use crate::memory::Buffer;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many templates are kept: those that were used last. There is one for each way in which sizes decide what is compiled, as
/// a batch of one does, whose dimension broadcasts.
const MAX_TEMPLATES: usize = 8;

/// Bytes of the smallest weights that are kept for other sizes. Smaller ones are packed in an instant, and constants that follow
/// from sizes, of which each set of sizes has others, are smaller.
const MIN_KEPT: usize = 1 << 14;

/// What was used last, the latest at the end.
pub struct Recent<T>(Mutex<Vec<T>>);

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent(Mutex::default())
    }
}

impl<T: Clone> Recent<T> {
    /// What is kept.
    pub fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest that `pick` makes something of, which becomes the last one used.
    pub fn find<R>(&self, mut pick: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let mut kept = self.lock();
        let (at, picked) = kept.iter().enumerate().rev().find_map(|(at, one)| Some((at, pick(one)?)))?;
        kept[at..].rotate_left(1);
        Some(picked)
    }

    /// Makes room for one more if at most `most` are kept. Gives what was used longest ago, if that was in its place.
    pub fn make_room(&self, most: usize) -> Option<T> {
        let mut kept = self.lock();
        (kept.len() >= most).then(|| kept.remove(0))
    }

    /// Keeps one more. There is room, see [`make_room`](Self::make_room).
    pub fn add(&self, made: &T) {
        self.lock().push(made.clone());
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *self.lock());
        drop(kept);
    }
}

/// A graph for all sizes that decide in the same way what is compiled, and what else was recorded with it.
pub struct Template<T> {
    tape: Tape,
    /// `None` if there is nothing to compute.
    graph: Option<(Mutex<Stencil>, Origin)>,
    /// What steps have packed and read in place. Kept while nothing that is compiled does, so that nothing is packed twice.
    weights: Mutex<HashMap<usize, Arc<Buffer>>>,
    recorded: T,
}

impl<T> Template<T> {
    /// Does `work` for all sizes that decide as these do; for these alone where it fails on symbols because it needs to know
    /// them, as a node does whose number of results follows from them.
    ///
    /// # Errors
    /// That of `work` for numbers.
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

    /// What was recorded with the graph. Its dimensions are good for [`Dim::at`] with the values of this template.
    pub fn recorded(&self) -> &T {
        &self.recorded
    }

    /// What is compiled for the sizes that `values` were computed for; `None` if there is nothing to compute. If `spare`, which
    /// nobody else uses, was compiled of this for other sizes, its plan is resized, which takes much less than making one; whether
    /// that was done.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for constants that follow from sizes, an `OperationError` when compiling
    /// fails.
    pub fn compile(
        &self,
        site: &Site,
        values: &[i64],
        spare: Option<Arc<CompiledGraph>>,
    ) -> Result<(Option<Arc<CompiledGraph>>, bool)> {
        let Some((stencil, origin)) = &self.graph else { return Ok((None, false)) };
        // What a filling that panicked has left there is overwritten by the next one.
        let mut stencil = stencil.lock().unwrap_or_else(PoisonError::into_inner);
        stencil.fill(values)?;
        let origin = origin.at(values);
        let resized = match spare {
            Some(spare) => site.resize(spare, &stencil, &origin)?,
            None => None,
        };
        if resized.is_some() {
            return Ok((resized, true));
        }
        let compiled = stencil.lower(|graph| site.lower(graph, origin))?;
        self.keep_weights(&compiled);
        Ok((Some(compiled), false))
    }

    /// Keeps what `graph`, which was compiled of this, reads.
    fn keep_weights(&self, graph: &CompiledGraph) {
        let mut weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        graph.each_weight(|buffer| {
            if buffer.len() >= MIN_KEPT {
                weights.entry(Arc::as_ptr(buffer) as usize).or_insert_with(|| buffer.clone());
            }
        });
    }
}

/// The templates that were used last.
pub struct Templates<T>(Recent<Arc<Template<T>>>);

impl<T> Default for Templates<T> {
    fn default() -> Templates<T> {
        Templates(Recent::default())
    }
}

impl<T> Templates<T> {
    /// The template for `sizes`, and what its tape computes for them: one that is kept, `fits` and decides alike, or the one
    /// that `record` makes.
    ///
    /// # Errors
    /// That of `record`.
    ///
    /// # Panics
    /// If `record` records other sizes.
    pub fn find(
        &self,
        sizes: &[i64],
        fits: impl Fn(&T) -> bool,
        record: impl FnOnce() -> Result<Template<T>>,
    ) -> Result<(Arc<Template<T>>, Vec<i64>)> {
        let mut values = Vec::new();
        let kept = self.0.find(|template| {
            let decides_alike = fits(&template.recorded) && template.tape.evaluate(sizes, &mut values);
            decides_alike.then(|| template.clone())
        });
        if let Some(template) = kept {
            return Ok((template, values));
        }
        let template = Arc::new(record()?);
        assert!(template.tape.evaluate(sizes, &mut values), "it was recorded with these sizes");
        drop(self.0.make_room(MAX_TEMPLATES));
        self.0.add(&template);
        Ok((template, values))
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.clear();
    }
}
