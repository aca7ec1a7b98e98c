//! Reductions, and what is made of them: softmax, normalisations, the places of extremes.

use crate::dtype::DataType;
use crate::gpu::kernel::{Bound, Dispatch, Parameters, grid, header};
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Readable, strided};
use crate::ops::arg_min_max::ArgMinMax;
use crate::ops::reduce::{Reduce, ReduceKind, reduced_axes};
use crate::shape::strides;

/// How results are laid out in a tensor: result `r` is computed of the elements `kept(r) + reduced(i)`.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Sizes and strides of the dimensions that stay.
    kept: (Vec<u32>, Vec<isize>),
    /// Sizes and strides of those that are reduced.
    reduced: (Vec<u32>, Vec<isize>),
}

impl Rows {
    /// The dimensions of `shape` divided into those that `reduced` names and the others.
    pub fn new(shape: &[u32], reduced: &[bool]) -> Rows {
        let own = strides(shape);
        let part = |which: bool| {
            let axes = || (0..shape.len()).filter(move |&axis| reduced[axis] == which);
            (axes().map(|axis| shape[axis]).collect(), axes().map(|axis| own[axis] as isize).collect())
        };
        Rows { kept: part(false), reduced: part(true) }
    }

    /// `count` rows of `length` elements, one after the other.
    pub fn contiguous(count: u32, length: u32) -> Rows {
        Rows { kept: (vec![count], vec![length as isize]), reduced: (vec![length], vec![1]) }
    }

    /// Number of results.
    pub fn count(&self) -> u32 {
        self.kept.0.iter().product()
    }

    /// Number of elements that each is computed of.
    pub fn length(&self) -> u32 {
        self.reduced.0.iter().product()
    }

    /// Parameters: number of results, number of elements of each, where the numbers of `strided` begin for the results and
    /// for the elements.
    pub fn parameters(&self) -> Parameters {
        let mut parameters = Parameters(vec![self.count(), self.length(), 0, 0]);
        parameters.0[2] = strided(&mut parameters, &self.kept.0, &self.kept.1, 0);
        parameters.0[3] = strided(&mut parameters, &self.reduced.0, &self.reduced.1, 0);
        parameters
    }
}

/// A reduction by a whole workgroup per result, whose functions are spliced into `workgroup_reduce.wgsl`.
pub struct WorkgroupReduction<'a> {
    /// For people.
    pub name: &'static str,
    /// What is read: the first one is the tensor that is reduced.
    pub inputs: Vec<Readable>,
    /// Which elements.
    pub rows: &'a Rows,
    /// The functions `start()`, `term(at, i)` of the element at `at`, the `i`-th of its result, and `combine(a, b)`, and
    /// the type `total`.
    pub functions: String,
    /// The functions `finish(total, row) -> output_value` for each of the outputs, and their types: whole words.
    pub outputs: Vec<(Bound, DataType)>,
}

impl WorkgroupReduction<'_> {
    /// Appends the launch.
    pub fn dispatch(self, l: &mut Lowering) {
        let dialect = l.dialect;
        let mut text = header(dialect);
        text.push_str(include_str!("../shaders/index.wgsl"));
        let mut bindings = Vec::new();
        for input in &self.inputs {
            bindings.push(input.bound);
            text.push_str(&dialect.readable(bindings.len() as u32, input.name, input.dtype));
        }
        let mut stores = String::new();
        for (index, (bound, dtype)) in self.outputs.iter().enumerate() {
            bindings.push(*bound);
            let value = dialect.value(*dtype);
            text.push_str(&format!(
                "@group(0) @binding({}) var<storage, read_write> output{index}: array<{value}>;\n",
                bindings.len()
            ));
            stores.push_str(&format!("    output{index}[row] = finish{index}(result, row);\n"));
        }
        text.push_str(&self.functions);
        text.push_str(&include_str!("../shaders/workgroup_reduce.wgsl").replace("// STORE", &stores));
        let rows = self.rows.count();
        let dispatch = Dispatch {
            name: self.name,
            source: text,
            bindings,
            parameters: self.rows.parameters(),
            elements: rows,
            workgroups: grid(rows),
        };
        l.dispatch(dispatch);
    }
}

/// Which function of the elements is combined, how, and what becomes of the result.
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
        K::Mean => Formula { finish: "x / f32(parameter(1u))", ..sum },
        K::LogSum => Formula { finish: "log_f32(x)", ..sum },
        K::L1 => Formula { term: "abs_S(x)", ..sum },
        K::SumSquare => Formula { term: "mul_S(x, x)", ..sum },
        K::L2 => Formula { term: "x * x", finish: "sqrt(x)", ..sum },
        K::Product => Formula { start: "one_S()", combine: "mul_S(a, b)", ..sum },
        K::Max => Formula { start: "first", combine: "max_S(a, b)", ..sum },
        K::Min => Formula { start: "first", combine: "min_S(a, b)", ..sum },
        // Of the difference to the largest element, which was found before.
        K::LogSumExp => Formula { term: "exp_f32(x - shift(row))", finish: "log_f32(x) + shift(row)", ..sum },
    }
}

/// A reduction.
pub fn reduce(op: &Reduce, l: &mut Lowering) {
    let input = l.input(0);
    let reduced = reduced_axes(input.rank(), op.attributes.axes.as_deref()).expect("validated");
    let rows = Rows::new(&input.shape, &reduced);
    let x = l.readable("x", 0);
    if op.kind == ReduceKind::LogSumExp {
        let largest = l.scratch(rows.count() as usize * 4);
        reduce_rows(l, ReduceKind::Max, x, &rows, vec![], largest);
        let largest = Readable { name: "largest", bound: largest, dtype: DataType::Float32 };
        l.packed(wide(input.dtype), |l, target| reduce_rows(l, op.kind, x, &rows, vec![largest], target));
    } else {
        l.packed(wide(input.dtype), |l, target| reduce_rows(l, op.kind, x, &rows, vec![], target));
    }
}

/// The type of the values of `dtype` while they are computed with.
pub fn wide(dtype: DataType) -> DataType {
    match dtype {
        DataType::Float16 => DataType::Float32,
        DataType::Int8 => DataType::Int32,
        DataType::Uint8 => DataType::Uint32,
        wide => wide,
    }
}

/// Reduces rows of `x` to `target`, one word each.
fn reduce_rows(l: &mut Lowering, kind: ReduceKind, x: Readable, rows: &Rows, others: Vec<Readable>, target: Bound) {
    let suffix = l.dialect.suffix(x.dtype);
    let value = l.dialect.value(x.dtype);
    let Formula { term, start, combine, finish } = formula(kind);
    let shift = match others.is_empty() {
        true => "",
        false => "fn shift(row: u32) -> f32 { let m = largest(row); return select(m, 0.0, is_infinite(m)); }\n",
    };
    let adds = combine == "add_S(a, b)";
    let functions = match adds && x.dtype.is_float() {
        true => precise_sum(term, finish),
        false => {
            let start = if start == "first" { "x(first_of(row))" } else { start };
            format!(
                "alias total_value = {value};
fn start(row: u32) -> total_value {{ return {start}; }}
fn term(at: u32, i: u32, row: u32) -> total_value {{ let x = x(at); return {term}; }}
fn combine(a: total_value, b: total_value) -> total_value {{ return {combine}; }}
fn finish0(x: total_value, row: u32) -> {value} {{ return {finish}; }}
"
            )
        }
    };
    let functions = shift.to_string() + &functions.replace("_S(", &format!("_{suffix}("));
    let mut inputs = vec![x];
    inputs.extend(others);
    WorkgroupReduction { name: "reduce", inputs, rows, functions, outputs: vec![(target, wide(x.dtype))] }.dispatch(l);
}

/// The functions of a reduction that adds `term`, of the element `x`, with twice the digits of a float: sums of terms of
/// both signs would keep few. `finish` is what becomes of the sum `x`.
pub fn precise_sum(term: &str, finish: &str) -> String {
    format!(
        "alias total_value = vec2<f32>;
fn start(row: u32) -> total_value {{ return vec2<f32>(0.0); }}
fn term(at: u32, i: u32, row: u32) -> total_value {{ let x = x(at); return vec2<f32>({term}, 0.0); }}
fn combine(a: total_value, b: total_value) -> total_value {{ return add_precise(a, b); }}
fn finish0(total: total_value, row: u32) -> f32 {{ let x = total.x + total.y; return {finish}; }}
"
    )
}

/// `argMin()` or `argMax()`.
pub fn arg_min_max(op: &ArgMinMax, l: &mut Lowering) {
    let input = l.input(0);
    let reduced: Vec<bool> = (0..input.rank()).map(|axis| axis == op.attributes.axis as usize).collect();
    let rows = Rows::new(&input.shape, &reduced);
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
    // The first of equal elements counts, whatever the order in which they are combined.
    let functions = format!(
        "struct Found {{ value: {value}, index: u32 }}
alias total_value = Found;
fn start(row: u32) -> Found {{ return Found(x(first_of(row)), 0u); }}
fn term(at: u32, i: u32, row: u32) -> Found {{ return Found(x(at), i); }}
fn combine(a: Found, b: Found) -> Found {{
  if ({first}) {{ return a; }}
  if ({second}) {{ return b; }}
  if (a.index <= b.index) {{ return a; }}
  return b;
}}
fn finish0(found: Found, row: u32) -> u32 {{ return found.index; }}
"
    );
    let indices = l.scratch(rows.count() as usize * 4);
    let inputs = vec![l.readable("x", 0)];
    WorkgroupReduction {
        name: "argMinMax",
        inputs,
        rows: &rows,
        functions,
        outputs: vec![(indices, DataType::Uint32)],
    }
    .dispatch(l);
    let inputs = vec![Readable { name: "found", bound: indices, dtype: DataType::Uint32 }];
    let to = l.dialect.suffix(l.outputs[0].dtype);
    let functions = format!("fn value(i: u32) -> output_value {{ return u32_to_{to}(found(i)); }}\n");
    l.map(0, "copy", inputs, &functions, Parameters::default());
}
