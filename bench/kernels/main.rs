//! Speed of kernels in typical graphs: products, convolutions, operators on rows, element-wise operators, and data
//! movement. Run with `npm run bench -- kernels`, followed by a part of the names of the lines to print, and
//! `--threads N`. `WEBNN_ISA` selects the instruction set.
//!
//! Each time is shown beside the machine's limit, measured in the same run because neighbors on the machine affect it:
//! multiply-adds in registers for computation, a copy of as many bytes for data movement. A naive loop shows the gain
//! of an optimized kernel, and the `gemm` crate serves as a comparison for products.

mod bytes;
mod convolutions;
mod elementwise;
mod graph;
mod movement;
mod naive;
mod products;
mod report;
mod rows;

use report::Report;
use webnn_node::cpu::arena::Arena;
use webnn_node::cpu::schedule::pool::Threads;
use webnn_node::cpu::simd::Isa;
use webnn_node::cpu::steps::Env;

/// The command line: a part of names, and a number of threads.
fn arguments() -> (String, usize) {
    let (mut filter, mut threads) = (String::new(), 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo passes this to every benchmark.
            "--bench" => (),
            "--threads" => {
                let count = arguments.next().and_then(|count| count.parse().ok());
                threads = count.expect("--threads needs a positive integer");
            }
            _ => filter = argument,
        }
    }
    (filter, threads)
}

fn main() {
    let (filter, count) = arguments();
    let threads = Threads::new(count).expect("a thread pool");
    let env =
        Env { threads: &threads, isa: Isa::detect().expect("an available instruction set"), arena: &Arena::default() };
    let mut report = Report::new(&env, filter);
    products::measure(&mut report, &env);
    convolutions::measure(&mut report, &env);
    bytes::measure(&mut report, &env);
    rows::measure(&mut report, &env);
    elementwise::measure(&mut report, &env);
    movement::measure(&mut report, &env);
}
