//! Attention.

use crate::gpu::kernel::Parameters;
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Entry, strided};
use crate::ops::attention::{Attention, MaskKind};

/// Rows of the output that a workgroup of `attention.wgsl` computes.
const ROWS: u32 = 16;
/// Columns of the output that a workgroup computes.
const COLUMNS: u32 = 128;

/// The names of the masks.
const MASKS: [&str; crate::ops::attention::MAX_MASKS] = ["mask0", "mask1"];

/// All of an attention as one kernel, whose scores stay in the memory of workgroups.
pub fn attention(op: &Attention, l: &mut Lowering) {
    let mut parameters = Parameters(vec![op.rows, op.keys, op.depth, op.columns]);
    parameters.push_f32(op.scale as f32);
    let places: Vec<_> = [&op.query, &op.key, &op.value, &op.output]
        .into_iter()
        .chain(op.masks.iter().map(|mask| &mask.places))
        .collect();
    let first = parameters.extend(vec![0; 3 * places.len()]) as usize;
    for (index, place) in places.into_iter().enumerate() {
        let steps: Vec<isize> = place.batch.iter().map(|&step| step as isize).collect();
        let start = strided(&mut parameters, &op.batch, &steps, place.offset);
        let at = first + 3 * index;
        parameters.0[at..at + 3].copy_from_slice(&[place.row as u32, place.col as u32, start]);
    }
    let mut inputs = vec![l.readable("query", 0), l.readable("key", 1), l.readable("value_of", 2)];
    let mut masked = String::new();
    for (index, (mask, name)) in op.masks.iter().zip(MASKS).enumerate() {
        let readable = l.readable(name, 3 + index);
        let suffix = l.dialect.suffix(readable.dtype);
        let at = format!("place({0}u, start_of({0}u, matrix), row, key_row)", 4 + index);
        masked += &match mask.kind {
            MaskKind::Add => format!("  result = result + {suffix}_to_f32({name}({at}));\n"),
            MaskKind::Fill { value, when } => {
                let value = parameters.push_f32(value as f32);
                let negated = if when { "!" } else { "" };
                format!(
                    "  if ({negated}equal_{suffix}({name}({at}), zero_{suffix}())) {{ result = parameter_f32({value}u); }}\n"
                )
            }
        };
        inputs.push(readable);
    }
    let text = format!(
        "fn masked(score: f32, matrix: u32, row: u32, key_row: u32) -> f32 {{\n  var result = score;\n{masked}  return result;\n}}\n"
    );
    let empty = if op.empty_is_zero { "0.0" } else { "nan()" };
    let text = text + &include_str!("../shaders/attention.wgsl").replace("EMPTY", empty);
    let matrices = op.matrices() as u32;
    let workgroups = matrices * op.rows.div_ceil(ROWS) * op.columns.div_ceil(COLUMNS);
    l.own("attention", inputs, &text, parameters, Entry::Own { workgroups, elements: matrices });
}
