//! Contexts, tensors and graphs at run time, and the timelines that order the work on them.

mod backend;
mod background;
mod compiled;
mod context;
#[cfg(test)]
mod context_tests;
mod graph_store;
mod idle;
mod queue;
mod release;
mod rows;
mod settings;
mod site;
mod system;
mod template;
mod tensor;
mod timeline;
mod weak_list;

pub use crate::gpu::exit::end_openings;
pub use backend::{Backend, Optimized, Weight};
pub use background::{panicked, spawn};
pub use compiled::CompiledGraph;
pub use context::{Context, Wish};
pub use idle::{IDLE, Idle, Watch};
pub use release::trim;
pub use rows::CacheRows;
pub use site::Site;
pub use system::system_info;
pub use template::{Recent, Template, Templates};
pub use tensor::{Contents, Read, Slot, Tensor};
pub use timeline::{Done, Later, Wake};
pub use weak_list::WeakList;
