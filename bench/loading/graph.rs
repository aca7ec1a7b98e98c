//! The time to load a graph of a language model's size, and its memory above that of the process before. The weights
//! are in one file, at an odd offset. Run with `npm run bench -- graph-loading`. Linux only: it reads `/proc/self/status`.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::time::Instant;
use webnn_node::compile::Passes;
use webnn_node::cpu::arena::Arena;
use webnn_node::cpu::plan::{Plan, PlanOptions};
use webnn_node::cpu::schedule::pool::Threads;
use webnn_node::cpu::simd::Isa;
use webnn_node::cpu::steps::Env;
use webnn_node::dtype::DataType;
use webnn_node::ir::{Builder, OperandId};
use webnn_node::memory::{Buffer, Mapped, MappedFile};
use webnn_node::ops::attributes::{Attribute, Attributes};
use webnn_node::shape::Descriptor;

const WIDTH: u32 = 768;
const LAYERS: usize = 12;
const WORDS: u32 = 50257;

/// A model under construction, with weights that follow each other in a file.
struct Model {
    builder: Builder,
    file: std::sync::Arc<MappedFile>,
    next: usize,
}

impl Model {
    fn weight(&mut self, shape: [u32; 2]) -> OperandId {
        let descriptor = Descriptor::new(DataType::Float32, shape);
        let window = Mapped::new(self.file.clone(), self.next..self.next + descriptor.bytes()).expect("in the file");
        self.next += descriptor.bytes();
        self.builder.constant_mapped(descriptor, window).expect("a constant")
    }

    fn add(&mut self, name: &str, operands: &[(&str, OperandId)], attributes: &[(&str, Attribute)]) -> OperandId {
        let operands = operands.iter().map(|&(name, id)| (name.to_string(), vec![id])).collect();
        let attributes: BTreeMap<_, _> =
            attributes.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        self.builder.add_named(name, operands, Attributes(attributes), "").expect("an operator")[0]
    }

    /// Embeddings, the products of all layers, and the logits from the embeddings.
    fn build(mut self, rows: u32) -> webnn_node::ir::Graph {
        let words = self.weight([WORDS, WIDTH]);
        let ids = self.builder.input("ids", Descriptor::new(DataType::Int64, [rows])).expect("an input");
        let mut x = self.add("gather", &[("input", words), ("indices", ids)], &[]);
        for _ in 0..LAYERS {
            for [from, to] in
                [[WIDTH, WIDTH], [WIDTH, 3 * WIDTH], [3 * WIDTH, WIDTH], [WIDTH, 4 * WIDTH], [4 * WIDTH, WIDTH]]
            {
                let weight = self.weight([from, to]);
                x = self.add("matmul", &[("a", x), ("b", weight)], &[]);
            }
        }
        let logits = self.add("gemm", &[("a", x), ("b", words)], &[("bTranspose", Attribute::Bool(true))]);
        self.builder.finish(vec![("logits".to_string(), logits)])
    }
}

/// A number from `/proc/self/status`, in MB.
fn status(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line of this name");
    let kib: f64 = line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib * 1024.0 / 1e6
}

fn main() {
    let path = std::env::temp_dir().join(format!("webnn-load-{}", std::process::id()));
    let bytes = 3 + 4 * WIDTH as usize * (WORDS as usize + LAYERS * 15 * WIDTH as usize);
    let mut out = BufWriter::new(std::fs::File::create(&path).expect("a temporary file"));
    out.write_all(&[0; 3]).expect("room for the file");
    for i in 0..(bytes / 4) as u32 {
        // Well mixed: sums over any stride neither cancel nor grow, and there are no subnormal numbers, which would be
        // slow.
        let mixed = (i ^ i >> 16).wrapping_mul(0x7feb_352d);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x846c_a68b) >> 8;
        let weight = mixed as f32 / (1 << 24) as f32 - 0.5;
        out.write_all(&(weight / 8.0).to_le_bytes()).expect("room for the file");
    }
    drop(out);
    let file = MappedFile::open(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file");
    let threads = Threads::new(1).expect("a thread pool");
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    let (before, size) = (status("VmRSS"), bytes as f64 / 1e6);
    println!("weights {size:.0} MB, process before {before:.0} MB");
    let mut plans = Vec::new();
    for rows in [64, 16, 1] {
        let model = Model { builder: Builder::new(), file: file.clone(), next: 3 };
        let started = Instant::now();
        let mut plan = Plan::compile(model.build(rows), &env, Passes::ALL, PlanOptions::default()).expect("a plan");
        let built = started.elapsed();
        let (peak, after) = (status("VmHWM") - before, status("VmRSS") - before);
        let ids = Buffer::zeroed(8 * rows as usize).expect("memory");
        let mut logits = Buffer::zeroed(4 * (rows * WORDS) as usize).expect("memory");
        let mut run = || {
            let started = Instant::now();
            plan.run(&env, &[&ids], &mut [&mut logits]).expect("a run");
            started.elapsed()
        };
        let best = (0..5).map(|_| run()).min().expect("five runs");
        println!(
            "{rows:3} rows: built in {built:6.1?}, peak {peak:4.0} MB ({:.3} of the file), after {after:4.0} MB ({:.3}), \
             plan {:4.0} MB, a run takes {best:6.1?}",
            peak / size,
            after / size,
            plan.bytes() as f64 / 1e6
        );
        plans.push(plan);
    }
}
