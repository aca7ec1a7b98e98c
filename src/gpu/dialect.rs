//! How WGSL represents tensors: the words in memory, and the values that kernels compute with.

use crate::dtype::DataType::{self, *};
use crate::error::Result;
use crate::gpu::steps::product::choice::Variant;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// The extensions that the shaders of a device may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// Whether the type `f16` exists. If not, float16 is stored with two elements per word.
    pub f16: bool,
    /// Whether the types `i64` and `u64` exist. If not, 64-bit elements are pairs of words.
    pub int64: bool,
    /// Whether subgroup operations are available. A subgroup has 4 to 64 invocations.
    pub subgroups: bool,
    /// The number of invocations per subgroup, if it is fixed.
    pub subgroup_size: Option<u32>,
    /// Units that multiply small float16 matrices with float32 accumulation, one subgroup at a time.
    pub cooperative: Option<MatrixUnits>,
    /// Bytes of workgroup memory; every device has at least 16384.
    pub workgroup_bytes: u32,
    /// Forces this variant on every matrix product that supports it, for tests and measurements.
    pub product: Option<Variant>,
}

/// What was made for each dialect, once per process.
pub struct PerDialect<T>(Mutex<Vec<(Dialect, T)>>);

impl<T: Clone> PerDialect<T> {
    /// Nothing yet.
    pub const fn empty() -> PerDialect<T> {
        PerDialect(Mutex::new(Vec::new()))
    }

    /// What `make` makes for `dialect`, or has made before.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn get(&self, dialect: Dialect, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, made)) = lock().iter().find(|(of, _)| *of == dialect) {
            return Ok(made.clone());
        }
        let made = make()?;
        lock().push((dialect, made.clone()));
        Ok(made)
    }
}

/// Units that multiply small matrices (cooperative matrices).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixUnits {
    /// Rows, columns and depth of a product.
    pub side: u32,
    /// Whether kernels emulate the units in workgroup memory: tests the surrounding code on any device.
    pub emulated: bool,
}

impl Dialect {
    /// The WGSL type that kernels compute a value in. Those of float64 are only moved: imports leave the rest to the CPU.
    pub fn value(self, dtype: DataType) -> &'static str {
        match dtype {
            Float32 | Float16 => "f32",
            Int32 | Int8 | Int4 => "i32",
            Uint32 | Uint8 | Uint4 => "u32",
            Int64 => "i64_value",
            Uint64 | Float64 => "u64_value",
        }
    }

    /// The suffix of functions on such values.
    pub fn suffix(self, dtype: DataType) -> &'static str {
        match dtype {
            Float32 | Float16 => "f32",
            Int32 | Int8 | Int4 => "i32",
            Uint32 | Uint8 | Uint4 => "u32",
            Int64 => "i64",
            Uint64 | Float64 => "u64",
        }
    }

    /// The WGSL type of the words of a tensor in memory.
    pub fn word(self, dtype: DataType) -> &'static str {
        match dtype {
            Float32 => "f32",
            Float16 if self.f16 => "f16",
            Int32 => "i32",
            Float16 | Int8 | Uint8 | Int4 | Uint4 | Uint32 => "u32",
            Int64 => "i64_value",
            Uint64 | Float64 => "u64_value",
        }
    }

    /// Number of elements per word.
    pub fn lanes(self, dtype: DataType) -> u32 {
        match dtype {
            Int4 | Uint4 => 8,
            Int8 | Uint8 => 4,
            Float16 if !self.f16 => 2,
            _ => 1,
        }
    }

    /// The source in front of every kernel: extensions, then the functions on values.
    pub fn prelude(self) -> String {
        let enables = match (self.f16, self.cooperative) {
            (true, Some(MatrixUnits { emulated: false, .. })) => "enable f16;\nenable wgpu_cooperative_matrix;\n",
            (true, _) => "enable f16;\n",
            (false, _) => "",
        };
        let int64 =
            if self.int64 { include_str!("shaders/int64.wgsl") } else { include_str!("shaders/int64_pairs.wgsl") };
        let half = match self.f16 {
            true => "fn round_f16(x: f32) -> f32 { return f32(f16(x)); }\n",
            false => include_str!("shaders/halves.wgsl"),
        };
        [enables, include_str!("shaders/float.wgsl"), include_str!("shaders/integer.wgsl"), int64, half].concat()
    }

    /// Declares a binding and the function `name(i)`, which returns element `i` of a tensor.
    pub fn readable(self, binding: u32, name: &str, dtype: DataType) -> String {
        let (word, value) = (self.word(dtype), self.value(dtype));
        let element = match (dtype, self.lanes(dtype)) {
            (Uint8, _) => format!("({name}_words[i >> 2u] >> ((i & 3u) << 3u)) & 0xffu"),
            (Int8, _) => format!("extractBits(bitcast<i32>({name}_words[i >> 2u]), (i & 3u) << 3u, 8u)"),
            (Float16, 2) => format!("half_value({name}_words[i >> 1u] >> ((i & 1u) << 4u))"),
            (Float16, _) => format!("f32({name}_words[i])"),
            _ => format!("{name}_words[i]"),
        };
        format!(
            "@group(0) @binding({binding}) var<storage, read_write> {name}_words: array<{word}>;\n\
             alias {name}_value = {value};\n\
             fn {name}(i: u32) -> {value} {{ return {element}; }}\n"
        )
    }

    /// Like [`readable`](Self::readable), for numbers of an 8-bit type that are stored in 4 bits each.
    pub fn readable_nibbles(self, binding: u32, name: &str, dtype: DataType) -> String {
        let value = self.value(dtype);
        let element = match dtype {
            Int8 => format!("extractBits(bitcast<i32>({name}_words[i >> 3u]), (i & 7u) << 2u, 4u)"),
            _ => format!("extractBits({name}_words[i >> 3u], (i & 7u) << 2u, 4u)"),
        };
        format!(
            "@group(0) @binding({binding}) var<storage, read_write> {name}_words: array<u32>;\n\
             fn {name}(i: u32) -> {value} {{ return {element}; }}\n"
        )
    }

    /// Like [`readable`](Self::readable), for floats, but the functions return four neighboring elements, starting at a
    /// multiple of four: `name_four(i)`, and, where the type `f16` exists, `name_halves(i)` as `vec4<f16>`.
    pub fn readable_four(self, binding: u32, name: &str, dtype: DataType) -> String {
        let (word, four, halves) = match self.word(dtype) {
            "u32" => (
                "vec2<u32>",
                format!("vec4<f32>(unpack_halves({name}_words[i].x), unpack_halves({name}_words[i].y))"),
                String::new(),
            ),
            "f16" => (
                "vec4<f16>",
                format!("vec4<f32>({name}_words[i])"),
                format!("fn {name}_halves(i: u32) -> vec4<f16> {{ return {name}_words[i]; }}\n"),
            ),
            _ => ("vec4<f32>", format!("{name}_words[i]"), String::new()),
        };
        format!(
            "@group(0) @binding({binding}) var<storage, read_write> {name}_words: array<{word}>;\n\
             fn {name}_four(i: u32) -> vec4<f32> {{ return {four}; }}\n{halves}"
        )
    }

    /// Declares a binding and two functions: `word(w)` computes all elements of word `w` with the function
    /// `compute(i)`, and `store_word(w)` stores the word. If `masked`, elements for which `covers(i)` is false keep
    /// their old values.
    pub fn writable(self, binding: u32, dtype: DataType, masked: bool) -> String {
        let (word, value, lanes) = (self.word(dtype), self.value(dtype), self.lanes(dtype));
        let element = |i: &str| match dtype {
            Int8 => format!("bitcast<u32>(compute({i}))"),
            Float16 if lanes == 1 => format!("f16(compute({i}))"),
            _ => format!("compute({i})"),
        };
        let (start, all) = match (lanes, masked) {
            (4, false) => ("0u", "packed"),
            (4, true) => ("output_words[w]", "packed"),
            (2, false) => ("vec2<f32>(0.0)", "pack_halves(packed)"),
            (2, true) => ("unpack_halves(output_words[w])", "pack_halves(packed)"),
            _ => ("", ""),
        };
        let mut lines = format!("  var packed = {start};\n");
        for lane in 0..lanes {
            let i = format!("{lanes}u * w + {lane}u");
            let covers = if masked { format!(" && covers({i})") } else { String::new() };
            let put = match lanes {
                4 => format!("packed = insertBits(packed, {}, {}u, 8u)", element(&i), 8 * lane),
                _ => format!("packed[{lane}] = {}", element(&i)),
            };
            let _ = writeln!(lines, "  if ({i} < immediates.elements{covers}) {{ {put}; }}");
        }
        let (body, guard) = match (lanes, masked) {
            (1, false) => (format!("  return {};\n", element("w")), ""),
            (1, true) => (format!("  return {};\n", element("w")), "  if (!covers(w)) { return; }\n"),
            _ => (format!("{lines}  return {all};\n"), ""),
        };
        format!(
            "@group(0) @binding({binding}) var<storage, read_write> output_words: array<{word}>;
alias output_value = {value};
fn word(w: u32) -> {word} {{
{body}}}
fn store_word(w: u32) {{
{guard}  output_words[w] = word(w);
}}
"
        )
    }

    /// Declares a binding and the function `store(i, x)`, which stores element `i`, for types with one element per
    /// word.
    pub fn storable(self, binding: u32, dtype: DataType) -> String {
        let (word, value) = (self.word(dtype), self.value(dtype));
        let stored = if dtype == Float16 { "f16(x)" } else { "x" };
        format!(
            "@group(0) @binding({binding}) var<storage, read_write> output_words: array<{word}>;\n\
             alias output_value = {value};\n\
             fn store(i: u32, x: output_value) {{ output_words[i] = {stored}; }}\n"
        )
    }

    /// Like [`storable`](Self::storable), for floats, but with the function `store_four(i, x)` for four neighboring
    /// elements, starting at a multiple of four.
    pub fn storable_four(self, binding: u32, dtype: DataType) -> String {
        let word = self.word(dtype);
        format!(
            "@group(0) @binding({binding}) var<storage, read_write> output_words: array<vec4<{word}>>;\n\
             alias output_value = f32;\n\
             fn store_four(i: u32, x: vec4<f32>) {{ output_words[i] = vec4<{word}>(x); }}\n"
        )
    }
}
