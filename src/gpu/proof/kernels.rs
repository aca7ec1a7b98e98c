//! Kernels that stand for all others, as graphs of the sizes that models have. Their registers and instructions are a
//! committed table, `bench/gpu/isa.md`.

use crate::gpu::steps::product::choice::{TILES, Variant};

/// A graph, with a variant to force on its products.
pub struct Sample {
    /// Names the row of the table.
    pub name: String,
    /// The variant, where it is not left to the choice.
    pub product: Option<Variant>,
    /// The text of the graph; its output is `%y`.
    pub text: String,
}

/// `rows` times a matrix, followed by `tail`, which turns `%p` into `%y`.
fn product(dtype: &str, [rows, depth, columns]: [u32; 3], transposed: bool, tail: &str) -> String {
    let b = if transposed { [columns, depth] } else { [depth, columns] };
    format!(
        "%a = input a {dtype} [{rows}, {depth}]
         %b = input b {dtype} {b:?}
         %p = gemm %a %b bTranspose={transposed}
         {tail}"
    )
}

/// `rows` times a matrix of `weights` in blocks of 32, as quantized language models have it.
fn quantized(weights: &str, rows: u32) -> String {
    format!(
        "%a = input a float32 [{rows}, 512]
         %w = constant {weights} [256, 16, 32]
         %s = constant float32 [256, 16, 1]
         %z = constant {weights} [256, 16, 1] 1 2 3
         %d = dequantizeLinear %w %s %z
         %b = reshape %d newShape=[256, 512]
         %y = gemm %a %b bTranspose=true"
    )
}

/// Attention of 12 heads of width 64 with a mask.
fn attention(rows: u32, keys: u32) -> String {
    format!(
        "%q = input q float32 [12, {rows}, 64]
         %k = input k float32 [12, 64, {keys}]
         %v = input v float32 [12, {keys}, 64]
         %m = input m float32 [{keys}]
         %0 = matmul %q %k
         %1 = constant float32 [] 0.125
         %2 = mul %0 %1
         %3 = add %2 %m
         %4 = softmax %3 axis=2
         %y = matmul %4 %v"
    )
}

/// A convolution of an image of 56 x 56.
fn convolution([inputs, outputs, groups, window]: [u32; 4], layout: &str) -> String {
    let of_group = inputs / groups;
    let (image, filter, layouts) = match layout {
        "nchw" => ([1, inputs, 56, 56], [outputs, of_group, window, window], ""),
        _ => ([1, 56, 56, inputs], [outputs, window, window, of_group], "inputLayout=nhwc filterLayout=ohwi"),
    };
    let side = window / 2;
    format!(
        "%x = input x float32 {image:?}
         %w = input w float32 {filter:?}
         %b = input bias float32 [{outputs}]
         %y = conv2d %x %w %b groups={groups} padding=[{side}, {side}, {side}, {side}] {layouts}"
    )
}

/// A recurrent network over 16 steps.
fn recurrent(op: &str, gates: u32) -> String {
    let results = if op == "gru" { "%y, %s" } else { "%y, %c, %s" };
    format!(
        "%x = input x float32 [16, 1, 64]
         %w = input w float32 [1, {0}, 64]
         %r = input r float32 [1, {0}, 128]
         {results} = {op} %x %w %r steps=16 hiddenSize=128 returnSequence=true",
        gates * 128
    )
}

/// An operator with one operand, named `x`.
fn unary(dtype: &str, shape: &str, op: &str) -> String {
    format!("%x = input x {dtype} {shape}\n%y = {op}")
}

/// All samples.
pub fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |name: &str, product, text: String| samples.push(Sample { name: name.to_string(), product, text });
    let (plain, gelu) = ("%y = identity %p", "%y = gelu %p");
    for tile in TILES {
        let variant = Some(Variant::Tiled(tile));
        add(&format!("product, tiles of {tile}"), variant, product("float32", [512, 512, 512], false, plain));
        add(&format!("product, tiles of {tile}, gelu"), variant, product("float32", [512, 512, 512], false, gelu));
        add(&format!("product, tiles of {tile}, float16"), variant, product("float16", [512, 512, 512], true, plain));
    }
    for rows in [1, 8] {
        let named = |what: &str| format!("product, {what}, {rows} row{}", if rows == 1 { "" } else { "s" });
        let sizes = [rows, 768, 3072];
        add(&named("lines"), Some(Variant::Lines), product("float32", sizes, false, plain));
        add(&named("lines, float16"), Some(Variant::Lines), product("float16", sizes, false, plain));
        add(&named("dots"), Some(Variant::Dots), product("float32", sizes, true, plain));
        add(&named("subgroup dots"), Some(Variant::SubgroupDots), product("float32", sizes, true, plain));
        add(&named("4 bits"), None, quantized("uint4", rows));
        add(&named("8 bits"), None, quantized("uint8", rows));
    }
    add("product, 4 bits, 64 rows", None, quantized("uint4", 64));
    add("product, plain", Some(Variant::Plain), product("float32", [64, 8, 64], false, plain));
    add("product, parts", None, product("float32", [1, 4096, 1024], false, plain));
    add("attention, 128 rows", None, attention(128, 128));
    add("attention, 1 row", None, attention(1, 1024));
    add("conv2d, nchw", None, convolution([64, 64, 1, 3], "nchw"));
    add("conv2d, nhwc", None, convolution([64, 64, 1, 3], "nhwc"));
    add("conv2d, 1 x 1", None, convolution([64, 256, 1, 1], "nchw"));
    add("conv2d, depthwise", None, convolution([96, 96, 96, 3], "nchw"));
    add("conv2d, grouped", None, convolution([64, 64, 32, 3], "nchw"));
    for (name, dtype, shape, op) in [
        ("softmax, 256", "float32", "[64, 256]", "softmax %x axis=1"),
        ("softmax, 50257", "float32", "[4, 50257]", "softmax %x axis=1"),
        ("layerNormalization", "float32", "[64, 768]", "layerNormalization %x _ _ axes=[1]"),
        ("layerNormalization, float16", "float16", "[64, 768]", "layerNormalization %x _ _ axes=[1]"),
        ("instanceNormalization", "float32", "[1, 32, 56, 56]", "instanceNormalization %x _ _"),
        ("averagePool2d", "float32", "[1, 64, 56, 56]", "averagePool2d %x windowDimensions=[3, 3] strides=[2, 2]"),
        ("maxPool2d", "float32", "[1, 64, 56, 56]", "maxPool2d %x windowDimensions=[3, 3] strides=[2, 2]"),
        ("resample2d", "float32", "[1, 64, 28, 28]", "resample2d %x mode=linear sizes=[56, 56]"),
        ("reduceSum, rows", "float32", "[512, 768]", "reduceSum %x axes=[1]"),
        ("reduceSum, columns", "float32", "[512, 768]", "reduceSum %x axes=[0]"),
        ("reduceMean, all", "float16", "[64, 56, 56]", "reduceMean %x axes=[0, 1, 2]"),
        ("argMax", "float32", "[4, 50257]", "argMax %x axis=1 outputDataType=int32"),
        ("cumulativeSum", "float32", "[16, 1024]", "cumulativeSum %x axis=1"),
        ("transpose", "float32", "[12, 128, 64]", "transpose %x permutation=[1, 0, 2]"),
        ("sigmoid", "float32", "[1048576]", "sigmoid %x"),
        ("sigmoid, float16", "float16", "[1048576]", "sigmoid %x"),
        ("erf", "float32", "[1048576]", "erf %x"),
        ("sin", "float32", "[1048576]", "sin %x"),
        ("cast to int64", "float32", "[1048576]", "cast %x dataType=int64"),
        ("cast to uint8", "float32", "[1048576]", "cast %x dataType=uint8"),
    ] {
        add(name, None, unary(dtype, shape, op));
    }
    add(
        "rmsNormalization",
        None,
        "%x = input x float32 [64, 768]
         %w = input w float32 [768]
         %e = constant float32 [] 0.00001
         %0 = mul %x %x
         %1 = reduceMean %0 axes=[1] keepDimensions=true
         %2 = add %1 %e
         %3 = sqrt %2
         %4 = div %x %3
         %y = mul %4 %w"
            .to_string(),
    );
    for dtype in ["float32", "float16"] {
        let text = format!(
            "%x = input x {dtype} [1024, 768]
             %b = input b {dtype} [768]
             %0 = add %x %b
             %1 = sigmoid %0
             %y = mul %0 %1"
        );
        add(&format!("elementwise, {dtype}"), None, text);
    }
    let pair = |second: &str, op: &str| format!("%x = input x float32 [512, 768]\n%b = input b {second}\n%y = {op}");
    add("gather", None, pair("int64 [64]", "gather %x %b axis=0"));
    add(
        "scatterND",
        None,
        pair("int64 [64, 1]", "scatterND %x %b %u").replace("%y", "%u = input u float32 [64, 768]\n%y"),
    );
    add("concat", None, pair("float32 [64, 768]", "concat %x %b axis=0"));
    add(
        "quantizeLinear",
        None,
        pair("float32 [1, 768]", "quantizeLinear %x %b %z").replace("%y", "%z = input z int8 [1, 768]\n%y"),
    );
    add("gru", None, recurrent("gru", 3));
    add("lstm", None, recurrent("lstm", 4));
    samples
}
