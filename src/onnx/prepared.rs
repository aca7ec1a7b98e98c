//! What nodes make of their attributes once for all runs.

use super::graph::NodeId;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type ByNode = HashMap<NodeId, Arc<dyn Any + Send + Sync>>;

/// What nodes have made of their attributes. Clones share it.
#[derive(Clone, Default)]
pub struct Prepared(Arc<Mutex<ByNode>>);

impl Prepared {
    fn lock(&self) -> MutexGuard<'_, ByNode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `node` has made, if it is of this type.
    pub fn get<T: Send + Sync + 'static>(&self, node: NodeId) -> Option<Arc<T>> {
        self.lock().get(&node)?.clone().downcast().ok()
    }

    /// Keeps what `node` has made.
    pub fn keep<T: Send + Sync + 'static>(&self, node: NodeId, made: Arc<T>) {
        self.lock().insert(node, made);
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({})", self.lock().len())
    }
}
