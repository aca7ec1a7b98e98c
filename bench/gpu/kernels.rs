//! Speed of matrix product kernels on a GPU, relative to the GPU's limits. Run with `npm run bench -- gpu-kernels`,
//! followed by `--sizes 2048x2048x2048,1x4096x4096` (rows x depth x columns), `--transposed` for a second matrix with
//! contiguous terms, `--rounds N`, and `--software` for a CPU that emulates a GPU, which says nothing about speed.
//!
//! The limits are measured in the same run, interleaved with the products: a copy of 256 MiB (`--copy MIB`), and
//! multiply-adds in registers in float32 and float16. A time is the median of the rounds, each long enough to hide the
//! cost of a launch.

use std::time::Instant;
use webnn_node::dtype::DataType;
use webnn_node::gpu::adapter::{Choice, Limits};
use webnn_node::gpu::device::{Device, EXTENSIONS};
use webnn_node::gpu::dialect::Dialect;
use webnn_node::gpu::direct::Direct;
use webnn_node::gpu::kernel::{Bound, Dispatch, Parameters, grid, header};
use webnn_node::gpu::lower::{Lowered, lower};
use webnn_node::gpu::steps::product::choice::{TILES, Variant};
use webnn_node::gpu::template::Values;
use webnn_node::ir::{Builder, Graph};
use webnn_node::ops::Op;
use webnn_node::ops::matmul::{Gemm, GemmAttributes};
use webnn_node::shape::Descriptor;

/// Minimum duration of a round of one line in seconds: far longer than submitting the work and waiting for it.
const ROUND_SECONDS: f64 = 0.02;

/// Maximum number of multiply-adds to measure the plain kernel with; it reads its operands from memory for each of
/// them.
const MOST_PLAIN: u64 = 1 << 30;

/// The command line.
struct Arguments {
    software: bool,
    transposed: bool,
    rounds: usize,
    copy_mib: usize,
    sizes: Vec<[u32; 3]>,
}

impl Arguments {
    fn read() -> Arguments {
        let mut wanted = Arguments { software: false, transposed: false, rounds: 7, copy_mib: 256, sizes: Vec::new() };
        let mut sizes = "256x256x256,1x1024x1024".to_string();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
            match argument.as_str() {
                // Cargo passes this to every benchmark.
                "--bench" => (),
                "--software" => wanted.software = true,
                "--transposed" => wanted.transposed = true,
                "--rounds" => wanted.rounds = value().parse().expect("--rounds needs a positive integer"),
                "--copy" => wanted.copy_mib = value().parse().expect("--copy needs a number of MiB"),
                "--sizes" => sizes = value(),
                other => panic!("{other} is unknown"),
            }
        }
        let parse = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} is not a size"));
        wanted.sizes = sizes
            .split(',')
            .map(|size| size.split('x').map(parse).collect::<Vec<u32>>().try_into().expect("rows x depth x columns"))
            .collect();
        wanted
    }
}

/// A kernel to measure.
struct Line {
    name: String,
    run: Direct,
    multiply_adds: u64,
    bytes: u64,
    half: bool,
    /// Runs per round.
    times: u32,
    seconds: Vec<f64>,
}

impl Line {
    fn new(name: String, run: Direct, [multiply_adds, bytes]: [u64; 2], half: bool) -> Line {
        Line { name, run, multiply_adds, bytes, half, times: 1, seconds: Vec::new() }
    }

    /// Seconds per run, over `times` runs.
    fn time(&self, device: &Device) -> f64 {
        let start = Instant::now();
        let submission = self.run.submit(device, self.times).expect("the device is there");
        device.finish(submission).expect("the device is there");
        start.elapsed().as_secs_f64() / self.times as f64
    }

    /// Determines the number of runs per round; the first run also loads and warms up.
    fn calibrate(&mut self, device: &Device) {
        self.time(device);
        self.times = (ROUND_SECONDS / self.time(device)).ceil().clamp(1.0, 1000.0) as u32;
    }

    fn median(&self) -> f64 {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    }
}

/// A custom kernel with one input and one output.
fn simple(device: &Device, source: String, elements: u32, workgroups: u32, buffers: [&wgpu::Buffer; 2]) -> Direct {
    let dispatch = Dispatch {
        name: "limit",
        source: header(device.dialect).to_string() + &source,
        bindings: vec![Bound::Input(0), Bound::Output(0)],
        parameters: Parameters(vec![0]),
        elements,
        workgroups: grid(workgroups),
    };
    let lowered = Lowered { dispatches: vec![dispatch], scratch: 0 };
    Direct::new(device, lowered, &[buffers[0]], &[buffers[1]]).expect("a kernel")
}

const ENTRY: &str = "
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 256u + local;
";

fn copy(device: &Device, mib: usize) -> Line {
    let bytes = mib << 20;
    let [from, to] = ["from", "to"].map(|name| device.buffer(name, bytes).expect("memory"));
    let elements = (bytes / 16) as u32;
    let source = format!(
        "@group(0) @binding(1) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
{ENTRY}  if (i < immediates.elements) {{ y[i] = x[i]; }}
}}"
    );
    let run = simple(device, source, elements, elements.div_ceil(256), [&from, &to]);
    Line::new("copy".to_string(), run, [0, 2 * bytes as u64], false)
}

/// Multiply-adds of 32 independent sums per invocation, 16 of each per loop iteration.
fn arithmetic(device: &Device, scalar: &str, software: bool) -> Line {
    let (turns, workgroups) = if software { (4, 64) } else { (256, 8192) };
    let [x, y] = ["x", "y"].map(|name| device.buffer(name, workgroups as usize * 256 * 16).expect("memory"));
    let template = format!(
        "@group(0) @binding(1) var<storage, read_write> x: array<vec4<$T>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<$T>>;
{ENTRY}  let factor = x[i];
$for j 0 8
  var s$j = factor + vec4<$T>($j.0);
$end
  for (var turn = 0u; turn < immediates.elements; turn = turn + 1u) {{
$for n 0 16
$for j 0 8
    s$j = fma(s$j, factor, factor);
$end
$end
  }}
  y[i] = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7;
}}"
    );
    let run = simple(device, Values::default().with("T", scalar).expand(&template), turns, workgroups, [&x, &y]);
    let multiply_adds = turns as u64 * 16 * 32 * workgroups as u64 * 256;
    Line::new(format!("multiply-adds {scalar}"), run, [multiply_adds, 0], scalar == "f16")
}

fn graph([rows, depth, columns]: [u32; 3], dtype: DataType, b_transpose: bool) -> Graph {
    let mut builder = Builder::new();
    let b = if b_transpose { [columns, depth] } else { [depth, columns] };
    let mut input = |name, shape| builder.input(name, Descriptor::new(dtype, shape)).expect("an input");
    let (a, b) = (input("a", [rows, depth]), input("b", b));
    let gemm = Op::Gemm(Gemm { attributes: GemmAttributes { b_transpose, ..Default::default() } });
    let y = builder.add(gemm, vec![Some(a), Some(b), None], "product").expect("a product");
    builder.finish(vec![("y".to_string(), y[0])])
}

/// The chosen kernel for this size, and every other one that supports it.
fn products(device: &Device, size: [u32; 3], dtype: DataType, transposed: bool) -> Vec<Line> {
    let graph = graph(size, dtype, transposed);
    let [rows, depth, columns] = size.map(u64::from);
    let counts = [rows * depth, depth * columns, rows * columns].map(|count| count as usize * dtype.size());
    let buffers = counts.map(|bytes| device.buffer("matrix", bytes).expect("memory"));
    let few = [Variant::Plain, Variant::Lines, Variant::Dots, Variant::SubgroupDots];
    let units = [64, 128].map(Variant::Cooperative);
    let forced = few.into_iter().chain(TILES.map(Variant::Tiled)).chain(units).map(Some);
    let mut seen = Vec::new();
    let mut lines = Vec::new();
    for product in std::iter::once(None).chain(forced) {
        if product == Some(Variant::Plain) && rows * depth * columns > MOST_PLAIN {
            continue;
        }
        let lowered = lower(&graph, &graph.nodes[0], Dialect { product, ..device.dialect }).expect("kernels");
        // An unsupported variant falls back to the chosen one.
        if seen.contains(&lowered.dispatches[0].source) && product.is_some() {
            continue;
        }
        seen.push(lowered.dispatches[0].source.clone());
        let run = Direct::new(device, lowered, &[&buffers[0], &buffers[1]], &[&buffers[2]]).expect("kernels");
        let which = product.map_or("chosen".to_string(), |variant| format!("{variant:?}"));
        let work = [rows * depth * columns, counts.iter().sum::<usize>() as u64];
        let name = format!("{dtype} {rows}x{depth}x{columns}{} {which}", if transposed { " transposed" } else { "" });
        lines.push(Line::new(name, run, work, dtype == DataType::Float16));
    }
    lines
}

fn main() {
    let wanted = Arguments::read();
    let choice = if wanted.software { Choice::Software } else { Choice::Hardware };
    let device = Device::open(choice, EXTENSIONS, Limits::Adapter).expect("a device");
    let Some(device) = device else { return println!("no such GPU (--software uses one emulated by a CPU)") };
    let mut lines = vec![copy(&device, wanted.copy_mib), arithmetic(&device, "f32", wanted.software)];
    if device.dialect.f16 {
        lines.push(arithmetic(&device, "f16", wanted.software));
    }
    let types = [DataType::Float32, DataType::Float16];
    for (&size, dtype) in wanted.sizes.iter().flat_map(|size| types.map(|dtype| (size, dtype))) {
        lines.extend(products(&device, size, dtype, wanted.transposed));
    }
    lines.iter_mut().for_each(|line| line.calibrate(&device));
    for _ in 0..wanted.rounds {
        for line in &mut lines {
            let seconds = line.time(&device);
            line.seconds.push(seconds);
        }
    }
    print(&device, &lines);
}

fn print(device: &Device, lines: &[Line]) {
    let info = &device.info;
    println!("{} ({}, {} {})\n", info.name, info.backend, info.driver, info.driver_info);
    let bandwidth = lines[0].bytes as f64 / lines[0].median();
    let rate = |line: &Line| line.multiply_adds as f64 / line.median();
    let peak =
        |half| lines[1..3].iter().find(|line| line.half == half && line.bytes == 0).map_or(rate(&lines[1]), rate);
    println!("| what | time (us) | GFLOP/s | of peak | GB/s | of copy |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for line in lines {
        let (seconds, bytes) = (line.median(), line.bytes as f64 / line.median());
        println!(
            "| {} | {:.1} | {:.0} | {:.0} % | {:.1} | {:.0} % |",
            line.name,
            seconds * 1e6,
            2e-9 * rate(line),
            100.0 * rate(line) / peak(line.half),
            bytes / 1e9,
            100.0 * bytes / bandwidth,
        );
    }
}
