//! What the processor and the memory of this machine can do at most: the measure for kernels and models.
//!
//! Neighbours on the machine and clock rates change these numbers, so they are measured in the run that uses them.

mod arithmetic;
mod memory;
mod timing;

pub use arithmetic::{Rates, rates};
pub use memory::{Pages, Reading, read_bandwidth};
pub use timing::{best_of, best_on_threads};
