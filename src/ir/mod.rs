//! Graphs: values, nodes and the builder that creates them. A graph knows operators, but not how they run.

mod builder;
mod constant;
mod derived;
mod graph;
mod identity;
mod listing;
mod origins;
mod prologue;
mod small_float;
mod stencil;
mod text;
mod value_id;
mod verify;
mod widened;

pub use builder::{Builder, Checkpoint, OperandId};
pub use constant::{Constant, Filled};
pub use derived::{Derived, Evaluator, Hold, Sharing};
pub use graph::{Epilogue, Evaluate, Graph, Growing, Node, Source, Value, bytes_of_sizes};
pub use identity::Identity;
pub use listing::Listing;
pub use prologue::{Prologue, Storage, is_cheap};
pub use small_float::SmallFloat;
pub use stencil::{Changes, Filling, Stencil};
pub use text::parse;
pub use value_id::ValueId;
pub use widened::{FileType, Widened};
