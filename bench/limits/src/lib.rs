//! What the CPU and the memory of this machine can do at most: the yardstick for kernels and models.
//!
//! Other programs on the machine and clock rates change these numbers: every run that uses them measures them.

mod arithmetic;
mod memory;
mod timing;

pub use arithmetic::{Rates, rates};
pub use memory::{Pages, Reading, read_bandwidth};
pub use timing::{best_of, best_on_threads};
