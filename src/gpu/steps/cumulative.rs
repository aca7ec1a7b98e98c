//! `cumulativeSum()`.

use super::reduce::wide;
use crate::gpu::kernel::{Dispatch, Parameters, grid, header};
use crate::gpu::lower::Lowering;
use crate::gpu::prologue::declare;
use crate::ops::cumulative_sum::CumulativeSum;

/// A workgroup processes a row: each invocation sums a piece and adds the sums of the preceding pieces.
pub fn cumulative_sum(op: &CumulativeSum, l: &mut Lowering) {
    let input = l.input(0);
    let axis = op.axis as usize;
    let inner: u32 = input.sizes()[axis + 1..].iter().product();
    let size = input.sizes()[axis];
    let rows = input.elements() as u32 / size;
    l.packed(wide(input.dtype), |l, target| {
        let dialect = l.dialect;
        let value = dialect.value(wide(input.dtype));
        // Parameters: rows, elements per row, elements after the axis, whether exclusive, whether reversed.
        let mut parameters = Parameters(vec![rows, size, inner, op.exclusive as u32, op.reversed as u32]);
        let mut bindings = Vec::new();
        let operand = declare(l, &l.readable("x", 0), false, &mut bindings, &mut parameters);
        bindings.push(target);
        let text = header(dialect).to_string()
            + &operand
            + &format!(
                "@group(0) @binding({}) var<storage, read_write> output_words: array<{value}>;\n",
                bindings.len()
            )
            + &totals(input.dtype.is_float(), value, dialect.suffix(input.dtype))
            + include_str!("../shaders/cumulative_sum.wgsl");
        l.dispatch(Dispatch {
            name: "cumulativeSum",
            source: text,
            bindings,
            parameters,
            elements: rows,
            workgroups: grid(rows),
        });
    });
}

/// The type of sums, with functions to start, extend and finish them. Float sums have twice the digits.
fn totals(float: bool, value: &str, suffix: &str) -> String {
    match float {
        true => "alias total_value = vec2<f32>;
fn nothing() -> total_value { return vec2<f32>(0.0); }
fn plus(a: total_value, b: total_value) -> total_value { return add_precise(a, b); }
fn of_element(x: f32) -> total_value { return vec2<f32>(x, 0.0); }
fn rounded(total: total_value) -> f32 { return total.x + total.y; }
"
        .to_string(),
        false => format!(
            "alias total_value = {value};
fn nothing() -> total_value {{ return zero_{suffix}(); }}
fn plus(a: total_value, b: total_value) -> total_value {{ return add_{suffix}(a, b); }}
fn of_element(x: total_value) -> total_value {{ return x; }}
fn rounded(total: total_value) -> total_value {{ return total; }}
"
        ),
    }
}
