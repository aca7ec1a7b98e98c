//! Attention.

use crate::dimension::{Dim, numbers};
use crate::dtype::DataType;
use crate::gpu::kernel::Parameters;
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Entry, Map, Readable, Wide, strided};
use crate::ops::attention::{Attention, MaskKind};
use crate::shape::Descriptor;

/// Rows of the output per workgroup of `attention.wgsl`.
const ROWS: u32 = 16;
/// Columns of the output per workgroup.
const COLUMNS: u32 = 128;

/// Keys per workgroup of `attention_decode.wgsl`, also its maximum number of columns and maximum depth.
const KEYS: u32 = 256;

/// The variants of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// A workgroup computes a block of rows for all keys.
    Blocks,
    /// A workgroup computes a row for some of the keys; another kernel combines the parts. For few rows, blocks leave a
    /// device nearly idle: a language model generates a token with one row per head.
    Parts,
}

/// Maximum number of floats in the parts of an attention. With more, whole rows keep any device busy as well.
const MAX_PARTS: u64 = 1 << 24;

/// The variant for an attention. Blocks would waste most of their work on a quarter of their rows or less.
pub fn variant(op: &Attention) -> Variant {
    let [rows, keys, depth, columns] = sizes(op);
    let parts = op.matrices() as u64 * rows as u64 * keys.div_ceil(KEYS) as u64;
    let fits = parts * (columns as u64 + 2) <= MAX_PARTS && depth <= KEYS && columns <= KEYS;
    match fits && rows <= ROWS / 4 {
        true => Variant::Parts,
        false => Variant::Blocks,
    }
}

/// Rows, keys, depth and columns.
fn sizes(op: &Attention) -> [u32; 4] {
    [op.rows, op.keys, op.depth, op.columns].map(Dim::get)
}

/// The names of the masks.
const MASKS: [&str; crate::ops::attention::MAX_MASKS] = ["mask0", "mask1"];

/// Lowers an attention; its scores stay in workgroup memory.
pub fn attention(op: &Attention, l: &mut Lowering) {
    let [rows, keys, depth, columns] = sizes(op);
    let mut parameters = Parameters(vec![rows, keys, depth, columns]);
    parameters.push_f32(op.factor() as f32);
    let places: Vec<_> = [&op.query, &op.key, &op.value, &op.output]
        .into_iter()
        .chain(op.masks.iter().map(|mask| &mask.places))
        .collect();
    let first = parameters.extend(vec![0; 3 * places.len()]) as usize;
    for (index, place) in places.into_iter().enumerate() {
        let steps: Vec<isize> = place.batch.iter().map(|step| step.pinned() as isize).collect();
        let start = strided(&mut parameters, &numbers(&op.batch), &steps, place.offset.size());
        let at = first + 3 * index;
        parameters.0[at..at + 3].copy_from_slice(&[place.row.get(), place.col.get(), start]);
    }
    let mut inputs = vec![l.readable("query", 0), l.readable("key", 1), l.readable("value_of", 2)];
    let mut masked = String::new();
    if op.softcap != 0.0 {
        let softcap = parameters.push_f32(op.softcap as f32);
        masked += &format!("  result = parameter_f32({softcap}u) * tanh_f32(result);\n");
    }
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
    let operands = include_str!("../shaders/attention_operands.wgsl");
    let text = text + operands;
    let matrices = op.matrices() as u32;
    if variant(op) == Variant::Blocks {
        let text = text + &include_str!("../shaders/attention.wgsl").replace("EMPTY", empty);
        let workgroups = matrices * rows.div_ceil(ROWS) * columns.div_ceil(COLUMNS);
        return l.own("attention", inputs, &text, parameters, Entry::Own { workgroups, elements: matrices });
    }
    let lines = matrices * rows;
    let parts = lines * keys.div_ceil(KEYS);
    let descriptor = &Descriptor::new(DataType::Float32, [parts * (columns + 2)]);
    let partial = l.scratch(descriptor.bytes());
    let map = Map {
        name: "attention",
        inputs,
        output: partial,
        descriptor,
        functions: text + include_str!("../shaders/attention_decode.wgsl"),
        parameters: parameters.clone(),
        entry: Entry::Own { workgroups: parts, elements: matrices },
        wide: Wide::default(),
        epilogue: None,
    };
    let dispatch = map.dispatch(l);
    l.dispatch(dispatch);
    let partial = vec![Readable { name: "partial", bound: partial, dtype: DataType::Float32 }];
    let text = operands.to_string() + &include_str!("../shaders/attention_combine.wgsl").replace("EMPTY", empty);
    l.own("attention", partial, &text, parameters, Entry::Own { workgroups: lines, elements: matrices });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::ops::attention::Places;
    use crate::testing::{Tolerance, check};

    #[test]
    fn variants() {
        let variant = |matrices: u32, rows: u32, keys: u32, depth: u32, columns: u32| {
            let [matrices, rows, keys, depth, columns] = [matrices, rows, keys, depth, columns].map(Dim::from);
            let places = Places::default();
            let [query, key, value, output] = [(); 4].map(|()| places.clone());
            let (batch, shape, masks) = (vec![matrices], vec![matrices, rows, columns], Vec::new());
            variant(&Attention {
                batch,
                rows,
                keys,
                depth,
                columns,
                scale: 1.0,
                softcap: 0.0,
                query,
                key,
                value,
                masks,
                output,
                shape,
                empty_is_zero: false,
            })
        };
        assert_eq!(variant(32, 1, 4096, 64, 64), Variant::Parts);
        assert_eq!(variant(32, 4, 1, 256, 256), Variant::Parts);
        assert_eq!(variant(32, 5, 4096, 64, 64), Variant::Blocks);
        assert_eq!(variant(32, 1, 4096, 257, 64), Variant::Blocks);
        assert_eq!(variant(32, 1, 4096, 64, 257), Variant::Blocks);
        assert_eq!(variant(1 << 14, 1, 4096, 64, 62), Variant::Parts);
        assert_eq!(variant(1 << 14, 1, 4097, 64, 62), Variant::Blocks);
        assert_eq!(variant(1 << 28, 4, 1 << 28, 64, 1), Variant::Blocks);
    }

    #[test]
    fn few_rows_agree_with_the_oracle_at_the_edges_of_parts() {
        for (rows, keys, depth) in [(1, 1, 8), (1, 255, 5), (2, 256, 16), (1, 257, 70), (4, 600, 32), (5, 40, 33)] {
            let text = format!(
                "%0 = input q float32 [2, {rows}, {depth}]
                 %1 = input k float32 [2, {keys}, {depth}]
                 %2 = input v float32 [2, {keys}, {depth}]
                 %3 = input m float32 [{rows}, {keys}]
                 %4 = transpose %1 permutation=[0, 2, 1]
                 %5 = matmul %0 %4
                 %6 = constant float32 [] 0.125
                 %7 = mul %5 %6
                 %11 = tanh %7
                 %12 = linear %11 alpha=2
                 %8 = add %12 %3
                 %9 = softmax %8 axis=2
                 %10 = matmul %9 %2
                 output y = %10"
            );
            check(&parse(&text), Tolerance::ulps(64).or_absolute(1e-4));
        }
    }
}
