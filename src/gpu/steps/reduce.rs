//! Reductions, and the indices of extremes.

use super::rows::{Rows, Sharing, parts};
use crate::dtype::DataType;
use crate::gpu::dialect::Dialect;
use crate::gpu::kernel::{Bound, Parameters};
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Entry, Readable};
use crate::ops::arg_min_max::ArgMinMax;
use crate::ops::reduce::{Reduce, ReduceKind, reduced_axes};
use crate::shape::Descriptor;

/// The type of a running total, and its representation between two kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// A value of the type of the elements.
    Value(DataType),
    /// The sum of two floats.
    Precise,
    /// A value and the index of its element; only the index is stored.
    Found,
}

impl Total {
    /// The type in WGSL.
    fn value(self, dialect: Dialect) -> &'static str {
        match self {
            Total::Value(dtype) => dialect.value(dtype),
            Total::Precise => "vec2<f32>",
            Total::Found => "Found",
        }
    }

    /// The type and number of the words that store it.
    fn words(self) -> (DataType, u32) {
        match self {
            Total::Value(dtype) => (wide(dtype), 1),
            Total::Precise => (DataType::Float32, 2),
            Total::Found => (DataType::Uint32, 1),
        }
    }

    /// The statements that store `total` at `place`.
    fn keep(self) -> &'static str {
        match self {
            Total::Value(_) => "store(place, total);",
            Total::Precise => "store(2u * place, total.x); store(2u * place + 1u, total.y);",
            Total::Found => "store(place, total.index);",
        }
    }

    /// The expression for the total stored at `place`.
    fn kept(self) -> &'static str {
        match self {
            Total::Value(_) => "kept(place)",
            Total::Precise => "vec2<f32>(kept(2u * place), kept(2u * place + 1u))",
            Total::Found => "Found(x(first_of(row) + element_of(kept(place))), kept(place))",
        }
    }
}

/// A reduction of rows. If rows are few and long, they are cut into parts, and a second kernel combines the parts'
/// totals.
pub struct Reduction<'a> {
    /// Name, for people.
    pub name: &'static str,
    /// The tensors to read; the first one is reduced.
    pub inputs: Vec<Readable>,
    /// The elements of each row.
    pub rows: &'a Rows,
    /// The functions `start(row)`, `term(place, i, row)` for the element at `place`, the `i`-th of its row, and
    /// `finish(total, row)`.
    pub functions: String,
    /// The expression that combines the totals `a` and `b`.
    pub combine: String,
    /// The type of the totals.
    pub total: Total,
}

/// The destination of a reduction's results.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The only output, through the epilogue. Its words hold one element.
    Output,
    /// Scratch memory of this type.
    Scratch(Bound, DataType),
}

impl Reduction<'_> {
    /// Appends the launches.
    pub fn lower(mut self, l: &mut Lowering, target: Target) {
        let (count, length) = (self.rows.count(), self.rows.length());
        let sharing = self.rows.sharing();
        let parts = parts(count, length, sharing);
        let (mut parameters, places) = self.rows.functions(parts);
        self.functions += &places;
        if parts == 1 {
            let text = self.text(l.dialect, sharing, "term(first_of(row) + element_of(i), i, row)", FINISH);
            let workgroups = sharing.workgroups(count, 1);
            return append(l, self.name, self.inputs, &text, parameters, (workgroups, count), target);
        }
        let (dtype, words) = self.total.words();
        let totals = l.scratch((count * parts * words) as usize * dtype.size());
        let keep = format!("let place = row * parameter(2u) + part;\n  {}", self.total.keep());
        let text = self.text(l.dialect, sharing, "term(first_of(row) + element_of(i), i, row)", &keep);
        let shape = (sharing.workgroups(count, parts), count * parts * words);
        append(l, self.name, self.inputs.clone(), &text, parameters.clone(), shape, Target::Scratch(totals, dtype));
        // The functions read the parameters of whole rows by position: these remain unchanged.
        parameters.0[1..3].copy_from_slice(&[parts, 1]);
        let length = parameters.push(length);
        self.functions = self.functions.replace("LENGTH", &format!("parameter({length}u)"));
        self.inputs.push(Readable { name: "kept", bound: totals, dtype });
        self.functions +=
            &format!("fn total_of(place: u32, row: u32) -> total_value {{ return {}; }}\n", self.total.kept());
        let sharing = Sharing::of(parts, None);
        let text = self.text(l.dialect, sharing, "total_of(row * parameter(1u) + i, row)", FINISH);
        append(l, self.name, self.inputs, &text, parameters, (sharing.workgroups(count, 1), count), target);
    }

    /// The text of a kernel that combines the `term` of each element, then runs `last` on the total.
    fn text(&self, dialect: Dialect, sharing: Sharing, term: &str, last: &str) -> String {
        let value = self.total.value(dialect);
        let alias = format!("alias total_value = {value};\n");
        let functions = self.functions.replace("LENGTH", "parameter(1u)");
        let combine =
            format!("fn combine(a: total_value, b: total_value) -> total_value {{\n  return {};\n}}\n", self.combine);
        let run = include_str!("../shaders/reduce.wgsl")
            .replace("LANES", &format!("{}u", sharing.lanes))
            .replace("TERM", term)
            .replace("LAST", last);
        let across = sharing.across(dialect, "total", value, "combine(a, b)");
        [alias, functions, combine, across, sharing.entry(dialect), run].concat()
    }
}

/// Finishes the total of a whole row.
const FINISH: &str = "store(row, follow(finish(total, row), row));";

fn append(
    l: &mut Lowering,
    name: &'static str,
    inputs: Vec<Readable>,
    text: &str,
    parameters: Parameters,
    (workgroups, elements): (u32, u32),
    target: Target,
) {
    let entry = Entry::Own { workgroups, elements };
    match target {
        Target::Output => l.entered(0, name, inputs, text, parameters, entry),
        Target::Scratch(output, dtype) => {
            let descriptor = Descriptor::new(dtype, [elements]);
            l.to_scratch(name, inputs, (output, &descriptor), text.to_string(), parameters, entry);
        }
    }
}

/// Runs `reduce` on a target for results of the type `wide`: the output itself, if its words hold one element each.
pub fn to_output(l: &mut Lowering, wide: DataType, reduce: impl FnOnce(&mut Lowering, Target)) {
    match l.dialect.lanes(l.outputs[0].dtype) {
        1 => reduce(l, Target::Output),
        _ => l.packed(wide, |l, target| reduce(l, Target::Scratch(target, wide))),
    }
}

/// The terms of a reduction, how they are combined, and the function of the total.
struct Formula {
    term: &'static str,
    start: &'static str,
    combine: &'static str,
    finish: &'static str,
}

fn formula(kind: ReduceKind) -> Formula {
    use ReduceKind as K;
    let sum = Formula { term: "x", start: "zero_S()", combine: "add_S(a, b)", finish: "x" };
    match kind {
        K::Sum => sum,
        K::Mean => Formula { finish: "x / f32(LENGTH)", ..sum },
        K::LogSum => Formula { finish: "log_f32(x)", ..sum },
        K::L1 => Formula { term: "abs_S(x)", ..sum },
        K::SumSquare => Formula { term: "mul_S(x, x)", ..sum },
        K::L2 => Formula { term: "x * x", finish: "sqrt(x)", ..sum },
        K::Product => Formula { start: "one_S()", combine: "mul_S(a, b)", ..sum },
        K::Max => Formula { start: "first", combine: "max_S(a, b)", ..sum },
        K::Min => Formula { start: "first", combine: "min_S(a, b)", ..sum },
        // Relative to the largest element, which an earlier kernel finds.
        K::LogSumExp => Formula { term: "exp_f32(x - shift(row))", finish: "log_f32(x) + shift(row)", ..sum },
    }
}

/// Lowers a reduction.
pub fn reduce(op: &Reduce, l: &mut Lowering) {
    let reduced = reduced_axes(l.input(0).rank(), op.attributes.axes.as_deref()).expect("validated");
    reduce_axes(l, op.kind, &reduced);
}

/// Reduces the dimensions marked in `reduced`.
pub fn reduce_axes(l: &mut Lowering, kind: ReduceKind, reduced: &[bool]) {
    let input = l.input(0);
    let rows = Rows::new(&input.sizes(), reduced);
    let x = l.readable("x", 0);
    let mut others = Vec::new();
    if kind == ReduceKind::LogSumExp {
        let largest = l.scratch(rows.count() as usize * 4);
        reduction(l, ReduceKind::Max, x, &rows, vec![]).lower(l, Target::Scratch(largest, DataType::Float32));
        others.push(Readable { name: "largest", bound: largest, dtype: DataType::Float32 });
    }
    let reduction = reduction(l, kind, x, &rows, others);
    to_output(l, wide(input.dtype), |l, target| reduction.lower(l, target));
}

/// The type that values of `dtype` are computed in.
pub fn wide(dtype: DataType) -> DataType {
    match dtype {
        DataType::Float16 => DataType::Float32,
        DataType::Int8 => DataType::Int32,
        DataType::Uint8 => DataType::Uint32,
        wide => wide,
    }
}

/// Builds the reduction of the rows of `x`.
fn reduction<'r>(l: &Lowering, kind: ReduceKind, x: Readable, rows: &'r Rows, others: Vec<Readable>) -> Reduction<'r> {
    let suffix = l.dialect.suffix(x.dtype);
    let value = l.dialect.value(x.dtype);
    let Formula { term, start, combine, finish } = formula(kind);
    let shift = match others.is_empty() {
        true => "",
        false => "fn shift(row: u32) -> f32 { let m = largest(row); return select(m, 0.0, is_infinite(m)); }\n",
    };
    let mut inputs = vec![x];
    inputs.extend(others);
    if combine == "add_S(a, b)" && x.dtype.is_float() {
        let mut sum = precise_sum(rows, inputs, &term.replace("_S(", "_f32("), finish);
        sum.functions.push_str(shift);
        return sum;
    }
    let start = if start == "first" { "x(first_of(row))" } else { start };
    let functions = format!(
        "{shift}fn start(row: u32) -> {value} {{ return {start}; }}
fn term(place: u32, i: u32, row: u32) -> {value} {{ let x = x(place); return {term}; }}
fn finish(x: {value}, row: u32) -> {value} {{ return {finish}; }}
"
    );
    let own = |text: &str| text.replace("_S(", &format!("_{suffix}("));
    Reduction {
        name: "reduce",
        inputs,
        rows,
        functions: own(&functions),
        combine: own(combine),
        total: Total::Value(x.dtype),
    }
}

/// A reduction that sums `term`, a function of the element `x`, with twice the digits of a float: otherwise, sums of
/// terms of both signs would keep few. `finish` is the result as a function of the sum `x`.
pub fn precise_sum<'r>(rows: &'r Rows, inputs: Vec<Readable>, term: &str, finish: &str) -> Reduction<'r> {
    let functions = format!(
        "fn start(row: u32) -> vec2<f32> {{ return vec2<f32>(0.0); }}
fn term(place: u32, i: u32, row: u32) -> vec2<f32> {{ let x = x(place); return vec2<f32>({term}, 0.0); }}
fn finish(total: vec2<f32>, row: u32) -> f32 {{ let x = total.x + total.y; return {finish}; }}
"
    );
    Reduction { name: "sum", inputs, rows, functions, combine: "add_precise(a, b)".into(), total: Total::Precise }
}

/// `argMin()` or `argMax()`.
pub fn arg_min_max(op: &ArgMinMax, l: &mut Lowering) {
    let input = l.input(0);
    let reduced: Vec<bool> = (0..input.rank()).map(|axis| axis == op.attributes.axis as usize).collect();
    let rows = Rows::new(&input.sizes(), &reduced);
    let (value, suffix) = (l.dialect.value(input.dtype), l.dialect.suffix(input.dtype));
    let [first, second] = [("a", "b"), ("b", "a")].map(|(p, q)| {
        let order = if op.max { format!("{q}.value, {p}.value") } else { format!("{p}.value, {q}.value") };
        let nan = if input.dtype.is_float() {
            format!("(is_nan({p}.value) && !is_nan({q}.value)) || ")
        } else {
            String::new()
        };
        format!("{nan}less_{suffix}({order})")
    });
    // The first of equal elements wins, in whatever order they are combined.
    let functions = format!(
        "struct Found {{ value: {value}, index: u32 }}
fn start(row: u32) -> Found {{ return Found(x(first_of(row)), 0u); }}
fn term(place: u32, i: u32, row: u32) -> Found {{ return Found(x(place), i); }}
fn better(a: Found, b: Found) -> Found {{
  if ({first}) {{ return a; }}
  if ({second}) {{ return b; }}
  if (a.index <= b.index) {{ return a; }}
  return b;
}}
fn finish(found: Found, row: u32) -> u32 {{ return found.index; }}
"
    );
    let indices = l.scratch(rows.count() as usize * 4);
    let inputs = vec![l.readable("x", 0)];
    let combine = "better(a, b)".to_string();
    Reduction { name: "argMinMax", inputs, rows: &rows, functions, combine, total: Total::Found }
        .lower(l, Target::Scratch(indices, DataType::Uint32));
    let inputs = vec![Readable { name: "found", bound: indices, dtype: DataType::Uint32 }];
    let to = l.dialect.suffix(l.outputs[0].dtype);
    let functions = format!("fn value(i: u32) -> output_value {{ return u32_to_{to}(found(i)); }}\n");
    l.map(0, "copy", inputs, &functions, Parameters::default());
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    const TOLERANCE: Tolerance = Tolerance::ulps(16).or_absolute(1e-4);

    /// Sizes around the number of invocations per row, the rows per workgroup, and the threshold for parts.
    const SHAPES: [[u32; 3]; 10] = [
        [1, 9, 32],
        [2, 4, 33],
        [1, 3, 1025],
        [2, 31, 33],
        [1, 33, 96],
        [3, 97, 8],
        [1, 400, 40],
        [1, 4, 3100],
        [1, 1, 16384],
        [1, 600, 30],
    ];

    #[test]
    fn reductions_of_rows_and_columns_agree_with_the_oracle() {
        for [a, b, c] in SHAPES {
            for (axes, axis) in [("[2]", 2), ("[1]", 1), ("[0, 1]", 0), ("[0, 2]", 2), ("[1, 2]", 1)] {
                let text = format!(
                    "%0 = input x float32 [{a}, {b}, {c}]
                     %1 = input i int32 [{a}, {b}, {c}]
                     %2 = reduceMean %0 axes={axes}
                     %3 = reduceLogSumExp %0 axes={axes}
                     %4 = argMax %0 axis={axis}
                     %5 = reduceMax %1 axes={axes}
                     %6 = neg %2
                     output a = %6
                     output b = %3
                     output c = %4
                     output d = %5"
                );
                check(&parse(&text), TOLERANCE);
            }
        }
    }

    #[test]
    fn softmax_and_normalizations_of_rows_and_columns_agree_with_the_oracle() {
        for [a, b, c] in SHAPES {
            for axis in [1, 2] {
                let size = [a, b, c][axis];
                let text = format!(
                    "%0 = input x float32 [{a}, {b}, {c}]
                     %1 = softmax %0 axis={axis}
                     %2 = constant float32 [{size}]
                     %3 = constant float32 [{size}]
                     %4 = layerNormalization %0 %2 %3 axes=[{axis}]
                     %5 = cast %0 dataType=float16
                     %6 = softmax %5 axis={axis}
                     output a = %1
                     output b = %4
                     output c = %6"
                );
                check(&parse(&text), TOLERANCE);
            }
        }
    }

    #[test]
    fn pooling_a_whole_image_is_a_reduction() {
        let text = "%0 = input x float32 [2, 3, 5, 7]
                    %1 = averagePool2d %0
                    %2 = maxPool2d %0 layout=nhwc
                    %3 = l2Pool2d %0 windowDimensions=[5, 7]
                    output a = %1
                    output b = %2
                    output c = %3";
        check(&parse(text), TOLERANCE);
    }
}
