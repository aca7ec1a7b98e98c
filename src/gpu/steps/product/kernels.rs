//! The texts of product kernels, and their numbers of workgroups.

use super::choice::{Choice, FEW_ROWS, LINE_COLUMNS, Variant};
use super::{Addition, Places, Product};
use crate::gpu::dialect::Dialect;
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Entry, Wide, strided};
use crate::gpu::template::Values;

/// A kernel with an entry point of its own.
pub struct Kernel {
    /// Its functions.
    pub text: String,
    /// How it is launched.
    pub entry: Entry,
    /// The tensors that it binds as vectors.
    pub wide: Wide,
}

/// The functions that return the operands.
pub struct Sides {
    /// `prepare()`, `a_load()`, and the rest of `matmul_common.wgsl` and `matmul_load.wgsl`.
    pub text: String,
    /// The tensors to bind as vectors.
    pub wide: Wide,
    /// For each side, whether loads of four neighbors run along the terms.
    terms: [bool; 2],
}

/// Assembles the functions that return the operands of `choice`, converted to `$TYPE`. Appends their parameters.
pub fn sides(product: &mut Product, l: &Lowering, choice: &Choice, values: Values) -> Sides {
    let positions = [product.rows, product.columns];
    let plain = choice.variant == Variant::Plain;
    let mut wide = Wide::default();
    let Addition { channel, side, .. } = &product.addition;
    let common = values.clone().with("POSITION", ["row", "column"][*side]).with("CHANNEL", channel);
    let mut text = common.expand(include_str!("../../shaders/matmul_common.wgsl"));
    let terms = match choice.variant {
        Variant::Lines => [true, false],
        Variant::Dots | Variant::SubgroupDots => [true, true],
        _ => [0, 1].map(|side| product.sides[side].terms_first()),
    };
    for (index, name) in ["a", "b"].into_iter().enumerate() {
        let side = &product.sides[index];
        let is_wide = !plain && side.is_wide(terms[index], [positions[index], product.depth]);
        if is_wide {
            wide.inputs.push(name);
        }
        let own = values.clone().with("SIDE", name).with("COUNT", index);
        text += &match &side.places {
            Places::Text { template, values, .. } => values.clone().with("SIDE", name).expand(template),
            Places::Matrix { steps, stack } => {
                let places = strided(&mut product.parameters, product.stack, stack, 0);
                let first = product.parameters.extend([steps[0], steps[1], places]);
                own.clone().with("FIRST", first).expand(include_str!("../../shaders/matmul_matrix.wgsl"))
            }
        };
        if !plain {
            let own = own.with("WIDE", is_wide as u32).with("TERMS", terms[index] as u32);
            text += &own.expand(include_str!("../../shaders/matmul_load.wgsl"));
        }
    }
    wide.output = stores_wide(product, l) && !plain;
    Sides { text, wide, terms }
}

/// Whether four neighboring columns of the output can be stored at once.
fn stores_wide(product: &Product, l: &Lowering) -> bool {
    let ([row, column], stack) = &product.output;
    let elements = l.outputs[0].elements();
    *column == 1
        && product.columns.is_multiple_of(4)
        && row.is_multiple_of(4)
        && elements.is_multiple_of(4)
        && stack.iter().all(|step| step % 4 == 0)
}

/// The kernel of `choice`. It stores results, or sums over parts of the terms if `split`.
pub fn kernel(product: &mut Product, l: &Lowering, choice: &Choice, split: bool) -> Kernel {
    let values = match choice.variant {
        Variant::Plain => unreachable!("has no entry point of its own"),
        Variant::Lines => lines(product.rows),
        Variant::Dots => lines(product.rows).with("SUBGROUPS", 0),
        Variant::SubgroupDots => lines(product.rows).with("SUBGROUPS", 1),
        Variant::Tiled(tile) => tiled(tile),
        Variant::Cooperative(tile) => cooperative(tile, l.dialect),
    };
    let is_cooperative = matches!(choice.variant, Variant::Cooperative(_));
    let (scalar, read) = if is_cooperative { ("f16", "halves") } else { ("f32", "four") };
    let values = values.with("TYPE", scalar).with("READ", read).with("SPLIT", split as u32);
    let mut sides = sides(product, l, choice, values.clone());
    // In `Lines`, each invocation holds the sum of a single column.
    sides.wide.output &= choice.variant != Variant::Lines;
    let values = values.with("STORE_WIDE", sides.wide.output as u32);
    let finish = values.expand(include_str!("../../shaders/matmul_finish.wgsl"));
    let own = match choice.variant {
        Variant::Lines => values.expand(include_str!("../../shaders/matmul_lines.wgsl")),
        Variant::Tiled(_) => tiled_text(&values, sides.terms),
        Variant::Cooperative(tile) => cooperative_text(&values, tile, sides.terms),
        _ => values.expand(include_str!("../../shaders/matmul_dots.wgsl")),
    };
    let work = values.expand(include_str!("../../shaders/matmul_work.wgsl"));
    let text = sides.text + &finish + &own.replace("// WORK\n", &work);
    let matrices = product.stack.iter().product::<u32>();
    let [height, width] = match choice.variant {
        Variant::Tiled(tile) | Variant::Cooperative(tile) => [tile, tile],
        _ => [product.rows.next_power_of_two(), LINE_COLUMNS],
    };
    let workgroups = product.rows.div_ceil(height) * product.columns.div_ceil(width) * matrices * choice.parts;
    Kernel { text, entry: Entry::Own { workgroups, elements: matrices }, wide: sides.wide }
}

/// Expands `matmul_tiled.wgsl`; `terms` says for each side whether terms are contiguous.
fn tiled_text(values: &Values, terms: [bool; 2]) -> String {
    let side = |index: usize| {
        let own = values.clone().with("SIDE", ["a", "b"][index]).with("TERMS", terms[index] as u32);
        own.expand(include_str!("../../shaders/matmul_tile_side.wgsl"))
    };
    side(0) + &side(1) + &values.expand(include_str!("../../shaders/matmul_tiled.wgsl"))
}

/// Expands `matmul_cooperative.wgsl`; `terms` says for each side whether terms are contiguous.
fn cooperative_text(values: &Values, tile: u32, terms: [bool; 2]) -> String {
    // For each side, lines of workgroup memory, and vectors per line, including the padding of 8 halves.
    let (lines, pitches): (Vec<u32>, Vec<u32>) =
        terms.map(|terms| if terms { (tile, 32 / 4 + 2) } else { (32, tile / 4 + 2) }).into_iter().unzip();
    let side = |index: usize| {
        let own = values.clone().with("SIDE", ["a", "b"][index]).with("TERMS", terms[index] as u32);
        let own = own.with("PITCH", pitches[index]).with("FOURS", tile / 4);
        own.expand(include_str!("../../shaders/matmul_cooperative_side.wgsl"))
    };
    let own = values.clone().with("A_TERMS", terms[0] as u32).with("B_TERMS", terms[1] as u32);
    let own = own.with("A_PITCH", pitches[0]).with("B_PITCH", pitches[1]);
    let own = own.with("A_STAGE", lines[0] * pitches[0]).with("B_STAGE", lines[1] * pitches[1]);
    own.expand(include_str!("../../shaders/matmul_cooperative.wgsl")) + &side(0) + &side(1)
}

/// The values for `matmul_cooperative.wgsl`: a subgroup computes 32 rows and 64 columns of a tile of 128, or 32 rows
/// and columns of a tile of 64.
fn cooperative(tile: u32, dialect: Dialect) -> Values {
    let (units, size) = (dialect.cooperative.expect("chosen"), dialect.subgroup_size.expect("chosen"));
    let (height, width) = (32, tile / 2);
    let subgroups = (tile / height) * (tile / width);
    let invocations = subgroups * size;
    Values::default()
        .with("HEIGHT", tile)
        .with("WIDTH", tile)
        .with("SUBGROUPS", subgroups)
        .with("SUBGROUP_SIZE", size)
        .with("SUBGROUP_COLUMNS", tile / width)
        .with("SUBGROUP_HEIGHT", height)
        .with("SUBGROUP_WIDTH", width)
        .with("INVOCATIONS", invocations)
        .with("SIDE_OF_SQUARE", units.side)
        .with("ROW_SQUARES", height / units.side)
        .with("COLUMN_SQUARES", width / units.side)
        .with("STEPS", 32 / units.side)
        .with("SQUARES", subgroups * units.side * units.side)
        .with("ELEMENTS", units.side * units.side / size)
        .with("LOADS", tile * 32 / 4 / invocations)
        .with("EMULATED", units.emulated as u32)
}

/// The values for `matmul_lines.wgsl` and `matmul_dots.wgsl` at this number of rows.
fn lines(rows: u32) -> Values {
    let rows = rows.min(FEW_ROWS).next_power_of_two();
    let chunk = rows.min(4);
    Values::default()
        .with("ROWS", rows)
        .with("CHUNK", chunk)
        .with("CHUNKS", rows / chunk)
        .with("HEIGHT", rows)
        .with("WIDTH", LINE_COLUMNS)
}

/// The values for `matmul_tiled.wgsl`: twice as many invocations as a tile has rows. Each carries 4 elements of both
/// sides per step of 8 terms, and computes tile / 2 elements.
fn tiled(tile: u32) -> Values {
    let [row_groups, column_groups] = match tile {
        128 => [2, 2],
        64 => [2, 1],
        _ => [1, 1],
    };
    let column_threads = tile / 4 / column_groups;
    Values::default()
        .with("HEIGHT", tile)
        .with("WIDTH", tile)
        .with("INVOCATIONS", 2 * tile)
        .with("FOURS", tile / 4)
        .with("PITCH", tile / 4 + 1)
        .with("ROW_GROUPS", row_groups)
        .with("COLUMN_GROUPS", column_groups)
        .with("ROW_THREADS", tile / 4 / row_groups)
        .with("COLUMN_THREADS", column_threads)
        .with("BLOCKS", column_threads / 8)
}

#[cfg(test)]
mod tests {
    use super::super::choice::TILES;

    /// The elements of a tile in the order that `matmul_tile_side.wgsl` carries them.
    #[test]
    fn a_step_carries_every_element_once() {
        for tile in TILES {
            let terms_first = |local: u32, j: u32| [local >> 1, (local & 1) * 4 + j];
            let positions_first = |local: u32, j: u32| [local % (tile / 4) * 4 + j, local / (tile / 4)];
            for place in [&terms_first as &dyn Fn(u32, u32) -> [u32; 2], &positions_first] {
                let mut seen = vec![0; (tile * 8) as usize];
                for (local, j) in (0..2 * tile).flat_map(|local| (0..4).map(move |j| (local, j))) {
                    let [at, term] = place(local, j);
                    assert!(at < tile && term < 8);
                    seen[(term * tile + at) as usize] += 1;
                }
                assert!(seen.iter().all(|&count| count == 1));
            }
        }
    }

    /// The assignment of a tile's pieces to invocations in `matmul_tiled.wgsl`.
    #[test]
    fn a_tile_computes_every_element_once() {
        for (tile, [row_groups, column_groups]) in [(32, [1, 1]), (64, [2, 1]), (128, [2, 2])] {
            let (row_threads, column_threads) = (tile / 4 / row_groups, tile / 4 / column_groups);
            let blocks = column_threads / 8;
            let mut seen = vec![0; (tile * tile) as usize];
            for local in 0..2 * tile {
                let block = local >> 5;
                let row = block / blocks * 4 + ((local >> 3) & 3);
                let column = block % blocks * 8 + (local & 7);
                for (i, h) in (0..row_groups).flat_map(|i| (0..column_groups).map(move |h| (i, h))) {
                    for (j, c) in (0..4).flat_map(|j| (0..4).map(move |c| (j, c))) {
                        let at = ((row + i * row_threads) * 4 + j) * tile + (column + h * column_threads) * 4 + c;
                        seen[at as usize] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&count| count == 1), "{tile}");
        }
    }
}
