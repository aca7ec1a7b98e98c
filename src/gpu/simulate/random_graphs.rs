//! Graphs of random sizes for every kernel, as texts.

use crate::testing::{Random, Tolerance};

/// Sizes at and around the boundaries of tiles, workgroups and packed words.
const EDGES: [u64; 11] = [1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65];
/// Lengths around the 256 invocations of a workgroup.
const LENGTHS: [u64; 6] = [1, 3, 64, 255, 257, 600];

/// For results that are sums of a few products, rounded once.
const SUMS: Tolerance = Tolerance::ulps(16).or_absolute(4e-3);
const CLOSE: Tolerance = Tolerance::ulps(16).or_absolute(2e-3);
const EXACT: Tolerance = Tolerance::EXACT;

/// Draws the lines of a graph whose first value is `%0` and whose output is `%y`.
pub type Generate = fn(&mut Random) -> String;

/// The generators, with the tolerance of their results.
pub const GENERATORS: &[(&str, Generate, Tolerance)] = &[
    ("matmul", matmul, SUMS),
    ("gemm", gemm, SUMS),
    ("conv2d", conv2d, SUMS),
    ("convTranspose2d", conv_transpose2d, SUMS),
    ("pool2d", pool2d, CLOSE),
    ("resample2d", resample2d, CLOSE),
    ("reduction", reduction, SUMS),
    ("argMinMax", arg_min_max, EXACT),
    ("cumulativeSum", cumulative_sum, SUMS),
    ("softmax", softmax, CLOSE),
    ("normalization", normalization, SUMS),
    ("attention", attention, CLOSE),
    ("grouped attention", grouped_attention, CLOSE),
    ("quantized weights", quantized_weights, SUMS),
    ("recurrent", recurrent, SUMS),
    ("gather", gather, EXACT),
    ("scatter", scatter, EXACT),
    ("concat", concat, EXACT),
    ("movement", movement, EXACT),
    ("elementwise", elementwise, CLOSE),
];

/// The text of a graph, with one more operator that may be fused into the kernel.
pub fn random_graph(generate: Generate, random: &mut Random) -> String {
    generate(random) + "\n%z = neg %y\noutput y = %z"
}

fn pick<T: Clone>(random: &mut Random, from: &[T]) -> T {
    from[(random.next() >> 20) as usize % from.len()].clone()
}

fn up_to(random: &mut Random, most: u64) -> u64 {
    1 + (random.next() >> 20) % most
}

fn float(random: &mut Random) -> &'static str {
    pick(random, &["float32", "float32", "float16"])
}

fn matmul(random: &mut Random) -> String {
    let [rows, columns, depth] = [(); 3].map(|_| pick(random, &EDGES));
    let (a, b) = pick(random, &[("", ""), ("2, ", "2, "), ("3, 1, ", "2, "), ("1, ", "2, "), ("2, ", "")]);
    let dtype = float(random);
    format!(
        "%0 = input a {dtype} [{a}{rows}, {depth}]
         %1 = input b {dtype} [{b}{depth}, {columns}]
         %y = matmul %0 %1"
    )
}

fn gemm(random: &mut Random) -> String {
    let [rows, columns, depth] = [(); 3].map(|_| pick(random, &EDGES));
    let [a_transpose, b_transpose] = [(); 2].map(|_| pick(random, &[false, true]));
    let a = if a_transpose { [depth, rows] } else { [rows, depth] };
    let b = if b_transpose { [columns, depth] } else { [depth, columns] };
    let c = pick(random, &[vec![], vec![columns], vec![rows, 1], vec![rows, columns]]);
    let dtype = float(random);
    format!(
        "%0 = input a {dtype} {a:?}
         %1 = input b {dtype} {b:?}
         %2 = input c {dtype} {c:?}
         %y = gemm %0 %1 %2 aTranspose={a_transpose} bTranspose={b_transpose} alpha=0.5 beta=2.0"
    )
}

fn conv2d(random: &mut Random) -> String {
    let groups = pick(random, &[1, 1, 1, 2, 3]);
    let (inputs, outputs) = (groups * up_to(random, 5), groups * pick(random, &[1, 3, 16, 17, 20]));
    let [height, width] = [(); 2].map(|_| 4 + up_to(random, 8));
    let [tall, wide] = [(); 2].map(|_| up_to(random, 3));
    let [strides, dilations, padding] =
        [2, 2, 3].map(|most| format!("[{}, {}]", up_to(random, most), up_to(random, most)));
    let padding = padding.replace(']', ", 0, 1]");
    let dtype = float(random);
    let nhwc = pick(random, &[false, true]);
    let (input, filter, layouts) = match nhwc {
        false => ([2, inputs, height, width], [outputs, inputs / groups, tall, wide], ""),
        true => {
            ([2, height, width, inputs], [outputs, tall, wide, inputs / groups], "inputLayout=nhwc filterLayout=ohwi")
        }
    };
    format!(
        "%0 = input x {dtype} {input:?}
         %1 = input w {dtype} {filter:?}
         %2 = input bias {dtype} [{outputs}]
         %y = conv2d %0 %1 %2 groups={groups} strides={strides} dilations={dilations} padding={padding} {layouts}"
    )
}

fn conv_transpose2d(random: &mut Random) -> String {
    let groups = pick(random, &[1, 1, 2]);
    let (inputs, outputs) = (groups * up_to(random, 4), up_to(random, 5));
    let [height, width] = [(); 2].map(|_| 2 + up_to(random, 5));
    let [tall, wide] = [(); 2].map(|_| up_to(random, 3));
    let [strides, dilations] = [3, 2].map(|most| format!("[{}, {}]", up_to(random, most), up_to(random, most)));
    let dtype = float(random);
    format!(
        "%0 = input x {dtype} [2, {inputs}, {height}, {width}]
         %1 = input w {dtype} [{inputs}, {outputs}, {tall}, {wide}]
         %y = convTranspose2d %0 %1 _ groups={groups} strides={strides} dilations={dilations} padding=[0, 1, 1, 0]"
    )
}

fn pool2d(random: &mut Random) -> String {
    let (op, dtype) = pick(
        random,
        &[("averagePool2d", "float32"), ("l2Pool2d", "float16"), ("maxPool2d", "int8"), ("maxPool2d", "int64")],
    );
    let [height, width] = [(); 2].map(|_| 4 + up_to(random, 9));
    let [tall, wide, down, right] = [(); 4].map(|_| up_to(random, 3));
    let shape = [2, up_to(random, 5), height, width];
    format!(
        "%0 = input x {dtype} {shape:?}
         %y = {op} %0 windowDimensions=[{tall}, {wide}] strides=[{down}, {right}] padding=[0, 1, 1, 0]"
    )
}

fn resample2d(random: &mut Random) -> String {
    let dtype = pick(random, &["float32", "float16", "uint8", "int8"]);
    let mode = pick(random, &["linear", "nearest-neighbor"]);
    let shape = [1, 2, 1 + up_to(random, 7), 1 + up_to(random, 7)];
    let sizes = [up_to(random, 13), up_to(random, 13)];
    format!(
        "%0 = input x {dtype} {shape:?}
         %a = resample2d %0 mode={mode} sizes={sizes:?}
         %y = cast %a dataType=float32"
    )
}

/// A shape and its reduced axes, the first of which is long.
fn reduced(random: &mut Random) -> (Vec<u64>, Vec<usize>) {
    let mut shape = vec![up_to(random, 4), up_to(random, 3), up_to(random, 3)];
    let axes = pick(random, &[[true, false, false], [false, true, false], [false, false, true], [true, false, true]]);
    let axes: Vec<usize> = (0..3).filter(|&axis| axes[axis]).collect();
    shape[axes[0]] = pick(random, &LENGTHS);
    (shape, axes)
}

fn reduction(random: &mut Random) -> String {
    let (shape, axes) = reduced(random);
    let (op, dtype) = pick(
        random,
        &[
            ("reduceSum", "int64"),
            ("reduceMean", "float16"),
            ("reduceMax", "float32"),
            ("reduceL2", "float32"),
            ("reduceLogSumExp", "float32"),
            ("reduceMin", "uint8"),
            ("reduceProduct", "int32"),
        ],
    );
    format!(
        "%0 = input x {dtype} {shape:?}
         %a = {op} %0 axes={axes:?} keepDimensions={}
         %y = cast %a dataType=float32",
        pick(random, &[false, true])
    )
}

fn arg_min_max(random: &mut Random) -> String {
    let (shape, axes) = reduced(random);
    let (op, to) = (pick(random, &["argMin", "argMax"]), pick(random, &["int32", "int64"]));
    let dtype = pick(random, &["float32", "float16", "int8", "uint64"]);
    format!(
        "%0 = input x {dtype} {shape:?}
         %y = {op} %0 axis={} outputDataType={to}",
        axes[0]
    )
}

fn cumulative_sum(random: &mut Random) -> String {
    let (shape, axes) = reduced(random);
    let dtype = pick(random, &["float32", "int64", "int32"]);
    let [exclusive, reversed] = [(); 2].map(|_| pick(random, &[false, true]));
    format!(
        "%0 = input x {dtype} {shape:?}
         %y = cumulativeSum %0 axis={} exclusive={exclusive} reversed={reversed}",
        axes[0]
    )
}

fn softmax(random: &mut Random) -> String {
    let (shape, axes) = reduced(random);
    format!(
        "%0 = input x {} {shape:?}
         %y = softmax %0 axis={}",
        float(random),
        axes[0]
    )
}

fn normalization(random: &mut Random) -> String {
    let (shape, axes) = reduced(random);
    let weights: Vec<u64> = axes.iter().map(|&axis| shape[axis]).collect();
    match pick(random, &[0, 1, 2]) {
        0 => format!(
            "%0 = input x float32 {shape:?}
             %1 = input scale float32 {weights:?}
             %2 = input bias float32 {weights:?}
             %y = layerNormalization %0 %1 %2 axes={axes:?}"
        ),
        1 => {
            let channels = up_to(random, 5);
            format!(
                "%0 = input x float32 [2, {channels}, {}, {}]
                 %1 = input scale float32 [{channels}]
                 %y = instanceNormalization %0 %1 _",
                up_to(random, 20),
                up_to(random, 20)
            )
        }
        _ => format!(
            "%0 = input x float32 {shape:?}
             %1 = constant float32 [{0}]
             %2 = constant float32 [{0}] 0.5
             %y = batchNormalization %0 %1 %2 _ _ axis={1}",
            shape[axes[0]], axes[0]
        ),
    }
}

fn attention(random: &mut Random) -> String {
    let [rows, keys] = [(); 2].map(|_| pick(random, &[1, 5, 15, 16, 17, 33]));
    let (depth, columns) = (pick(random, &[1, 8, 31, 32, 33]), pick(random, &[1, 16, 17, 127, 129]));
    format!(
        "%0 = input q float32 [2, {rows}, {depth}]
         %1 = input k float32 [2, {depth}, {keys}]
         %2 = input v float32 [2, {keys}, {columns}]
         %3 = input m float32 [{keys}]
         %4 = matmul %0 %1
         %5 = constant float32 [] 0.25
         %6 = mul %4 %5
         %9 = {} %6
         %7 = add %9 %3
         %8 = softmax %7 axis=2
         %y = matmul %8 %2",
        pick(random, &["identity", "tanh"])
    )
}

/// Several query heads per head of keys and values, which are repeated for them.
fn grouped_attention(random: &mut Random) -> String {
    let [rows, keys] = [(); 2].map(|_| pick(random, &[1, 5, 16, 17, 33]));
    let (heads, group) = (up_to(random, 2), 1 + up_to(random, 3));
    let (depth, columns) = (pick(random, &[8, 31, 33]), pick(random, &[16, 17]));
    let all = heads * group;
    format!(
        "%0 = input q float32 [1, {all}, {rows}, {depth}]
         %1 = input k float32 [1, {heads}, {keys}, {depth}]
         %2 = input v float32 [1, {heads}, {keys}, {columns}]
         %3 = reshape %1 newShape=[1, {heads}, 1, {keys}, {depth}]
         %4 = expand %3 newShape=[1, {heads}, {group}, {keys}, {depth}]
         %5 = reshape %4 newShape=[1, {all}, {keys}, {depth}]
         %6 = transpose %5 permutation=[0, 1, 3, 2]
         %7 = reshape %2 newShape=[1, {heads}, 1, {keys}, {columns}]
         %8 = expand %7 newShape=[1, {heads}, {group}, {keys}, {columns}]
         %9 = reshape %8 newShape=[1, {all}, {keys}, {columns}]
         %10 = matmul %0 %6
         %11 = constant float32 [] 0.25
         %12 = mul %10 %11
         %13 = softmax %12 axis=3
         %y = matmul %13 %9"
    )
}

/// Weights of a few bits, with scales and zero points for blocks of the depth or for columns.
fn quantized_weights(random: &mut Random) -> String {
    let weights = pick(random, &["uint4", "int4", "uint8", "int8"]);
    let dtype = float(random);
    let (rows, columns) = (pick(random, &[1, 3, 9, 17]), pick(random, &[1, 7, 32, 33, 65]));
    let (blocks, block) = (up_to(random, 3), pick(random, &[4, 8, 15, 32]));
    let depth = blocks * block;
    let scales = pick(random, &[1, blocks]);
    let used = 1 + (depth - 1) * pick(random, &[1, 1, 2]) / 2;
    format!(
        "%0 = input x {dtype} [{rows}, {used}]
         %1 = constant {weights} [{columns}, {blocks}, {block}]
         %2 = constant {dtype} [{columns}, {scales}, 1] 0.25 0.5 -0.125 1
         %3 = constant {weights} [{columns}, {scales}, 1]
         %4 = dequantizeLinear %1 %2 %3
         %5 = reshape %4 newShape=[{columns}, {depth}]
         %6 = slice %5 starts=[0, 0] sizes=[{columns}, {used}]
         %y = gemm %0 %6 bTranspose=true"
    )
}

fn recurrent(random: &mut Random) -> String {
    let (op, gates) = pick(random, &[("gru", 3), ("lstm", 4)]);
    let [steps, batches, features, hidden] = [(); 4].map(|_| up_to(random, 4));
    let direction = pick(random, &["forward", "backward", "both"]);
    let directions = if direction == "both" { 2 } else { 1 };
    let results = if op == "gru" { "%y, %1s" } else { "%y, %1c, %1s" };
    format!(
        "%0 = input x float32 [{steps}, {batches}, {features}]
         %1 = input w float32 [{directions}, {}, {features}]
         %2 = input r float32 [{directions}, {}, {hidden}]
         {results} = {op} %0 %1 %2 steps={steps} hiddenSize={hidden} direction={direction} returnSequence=true",
        gates * hidden,
        gates * hidden,
    )
}

fn gather(random: &mut Random) -> String {
    let dtype = pick(random, &["float32", "float16", "int8", "int64"]);
    let indices = pick(random, &["int32", "int64", "uint32"]);
    let [a, b, c] = [(); 3].map(|_| up_to(random, 9));
    let count = pick(random, &EDGES);
    let (shape, op) = pick(
        random,
        &[
            (vec![count], "gather %0 %1 axis=1".to_string()),
            (vec![a, count, c], "gatherElements %0 %1 axis=1".to_string()),
            (vec![count, 2], "gatherND %0 %1".to_string()),
        ],
    );
    format!(
        "%0 = input x {dtype} [{a}, {b}, {c}]
         %1 = input i {indices} {shape:?}
         %y = {op}"
    )
}

fn scatter(random: &mut Random) -> String {
    let dtype = pick(random, &["float32", "float16", "int8", "int64"]);
    let indices = pick(random, &["int32", "int64", "uint32"]);
    let [a, b, c] = [(); 3].map(|_| up_to(random, 9));
    let count = pick(random, &EDGES);
    let (shape, updates, op) = match pick(random, &[false, true]) {
        false => (vec![a, count, c], vec![a, count, c], "scatterElements %0 %1 %2 axis=1"),
        true => (vec![count, 2], vec![count, c], "scatterND %0 %1 %2"),
    };
    format!(
        "%0 = input x {dtype} [{a}, {b}, {c}]
         %1 = input i {indices} {shape:?}
         %2 = input u {dtype} {updates:?}
         %y = {op}"
    )
}

fn concat(random: &mut Random) -> String {
    let dtype = pick(random, &["float32", "float16", "int8", "int64"]);
    let mut shape = [up_to(random, 5), up_to(random, 5), up_to(random, 5)];
    let axis = pick(random, &[0, 1, 2]);
    let mut lines = String::new();
    for operand in 0..3 {
        shape[axis] = up_to(random, 40);
        lines += &format!("%{operand} = input x{operand} {dtype} {shape:?}\n");
    }
    lines + &format!("%y = concat %0 %1 %2 axis={axis}")
}

fn movement(random: &mut Random) -> String {
    let [a, b, c] = [up_to(random, 6), 1 + up_to(random, 6), 3 + up_to(random, 30)];
    let op = pick(
        random,
        &[
            "transpose %0 permutation=[2, 0, 1]",
            "tile %0 repetitions=[2, 1, 3]",
            "reverse %0 axes=[0, 2]",
            &format!("slice %0 starts=[0, 1, 2] sizes=[{a}, 1, {}]", c - 2),
            "pad %0 beginningPadding=[1, 0, 2] endingPadding=[0, 1, 3] mode=edge",
            "pad %0 beginningPadding=[0, 1, 2] endingPadding=[0, 0, 3] mode=reflection",
            "pad %0 beginningPadding=[0, 0, 2] endingPadding=[2, 0, 3] value=3",
            "triangular %0 upper=true diagonal=2",
        ],
    )
    .to_string();
    let dtype = pick(random, &["float32", "float16", "int8", "int32", "int64"]);
    format!("%0 = input x {dtype} [{a}, {b}, {c}]\n%y = {op}")
}

fn elementwise(random: &mut Random) -> String {
    let dtype = float(random);
    let rows = up_to(random, 9);
    let columns = pick(random, &EDGES);
    let b = pick(random, &[vec![], vec![columns], vec![rows, 1], vec![rows, columns]]);
    format!(
        "%0 = input a {dtype} [{rows}, {columns}]
         %1 = input b {dtype} {b:?}
         %2 = add %0 %1
         %3 = sigmoid %2
         %4 = greater %0 %1
         %y = where %4 %3 %0"
    )
}
