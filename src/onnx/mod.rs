//! Reads ONNX models into the graph builder.
//!
//! How a model is read: [`file`] finds the bytes, [`proto`] decodes messages one by one, once, into the arena of
//! [`graph`]; [`flow`] tells which nodes wanted values need; [`import`](mod@import) translates these nodes for given
//! shapes, by the tables of [`registry`] and [`ops`].

mod absent;
mod blocks;
pub mod body;
mod budget;
pub mod call;
pub mod constants;
pub mod control_flow;
pub mod cuts;
pub mod deciding;
pub mod decode;
pub mod describe;
pub mod doubles;
pub mod emit;
mod empty;
pub mod error;
pub mod file;
pub mod flow;
mod foreign;
pub mod graph;
pub mod import;
mod keep_last;
pub mod lists;
pub mod lookups;
pub mod model;
pub mod ops;
mod prepared;
pub mod probe;
mod promotion;
#[expect(missing_docs, reason = "the fields are those of the standard")]
pub mod proto;
pub mod registry;
pub mod run_texts;
pub mod sized;
pub mod sizes;
pub mod stop;
pub mod tensor;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod text_call;
pub mod text_list;
pub mod texts;
pub mod value;

pub use error::{ModelError, Result, Unsupported};
pub use import::{Binding, Imported, Request, import};
pub use model::Model;
