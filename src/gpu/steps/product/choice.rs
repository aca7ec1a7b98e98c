//! Chooses the kernel of a matrix product, as a function of sizes and device features.

use crate::gpu::dialect::Dialect;

/// The kernels of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Each invocation computes one element and reads all its terms from memory.
    Plain,
    /// For few rows, and contiguous columns of the second matrix: a slice of the terms per group of invocations, 4
    /// columns each.
    Lines,
    /// For few rows, and contiguous terms of the second matrix: teams add up the terms of a column.
    Dots,
    /// Like [`Dots`](Self::Dots), with subgroups as teams.
    SubgroupDots,
    /// Each workgroup computes a square tile of this size.
    Tiled(u32),
    /// Like [`Tiled`](Self::Tiled), with the device's matrix units.
    Cooperative(u32),
}

/// The sides of tiles.
pub const TILES: [u32; 3] = [32, 64, 128];

/// Maximum number of rows of a product that is computed as matrix times vector: up to here, reading the second matrix
/// takes longer than multiplying it.
pub const FEW_ROWS: u32 = 8;

/// Columns per workgroup of [`Variant::Lines`] and [`Variant::Dots`].
pub const LINE_COLUMNS: u32 = 32;

/// Minimum number of terms for [`Variant::Lines`]: fewer do not occupy a workgroup's 32 slices.
const LEAST_LINE_TERMS: u32 = 32;

/// Minimum number of terms for tiles: fewer do not fill one step through workgroup memory.
const LEAST_TILE_TERMS: u32 = 8;

/// Number of workgroups that occupies the cores of the largest devices (an H200 has 132, an RTX 4090 128). Fewer leave
/// cores idle there; more cost smaller devices at most a few extra rounds.
const CORES: u32 = 128;

/// Number of workgroups of 256 invocations that saturates the bandwidth of the largest devices: 4 vectors of 16 bytes
/// per invocation are 16 KiB per workgroup, and 4.8 TB/s times the read latency of 0.8 us are 3.8 MB.
const READERS: u32 = 2 * CORES;

/// Number of terms that justifies another workgroup, and the second kernel that adds up the parts: about 1 us of
/// reading.
const LEAST_PART: u32 = 512;

/// The terms of a part are a multiple of this: one step of all slices of [`Variant::Lines`].
const PART_STEP: u32 = 128;

/// Bytes of workgroup memory for a tile of 128: two steps of 8 rows of 132 floats, for both sides.
const LARGE_TILE_BYTES: u32 = 2 * 2 * 8 * 132 * 4;

/// Bytes of workgroup memory for a cooperative tile of 128: 128 lines of 40 halves for both sides, and 8 squares of
/// floats.
const COOPERATIVE_BYTES: u32 = 2 * 128 * 40 * 2 + 8 * 256 * 4;

/// What the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of the first matrix.
    pub rows: u32,
    /// Columns of the second matrix.
    pub columns: u32,
    /// Terms of each sum.
    pub depth: u32,
    /// Number of products.
    pub matrices: u32,
    /// For each matrix, whether its terms are contiguous in memory, rather than the rows of the first or the columns of
    /// the second.
    pub terms_first: [bool; 2],
    /// Whether both matrices are float16 and bound as such.
    pub halves: bool,
    /// Whether a plain kernel exists.
    pub plain: bool,
}

/// The kernel of a product, with its layout and split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The kernel.
    pub variant: Variant,
    /// Whether to compute the transposed product, with the matrices swapped.
    pub swapped: bool,
    /// Number of parts that the terms are split into; another kernel adds up their sums.
    pub parts: u32,
    /// Terms per part, except the last.
    pub part_depth: u32,
}

/// The best choice for a product of this shape.
pub fn choose(shape: &Shape, dialect: Dialect) -> Choice {
    let few = shape.rows.min(shape.columns) <= FEW_ROWS;
    let swapped = few && shape.rows > FEW_ROWS;
    let terms_first = shape.terms_first[if swapped { 0 } else { 1 }];
    let variant = if let Some(forced) = dialect.product.filter(|&variant| possible(variant, shape, dialect)) {
        forced
    } else if shape.plain && shape.depth < if few { LEAST_LINE_TERMS } else { LEAST_TILE_TERMS } {
        Variant::Plain
    } else if few {
        match (terms_first, dialect.subgroups) {
            (false, _) => Variant::Lines,
            (true, false) => Variant::Dots,
            (true, true) => Variant::SubgroupDots,
        }
    } else {
        [128, 64]
            .map(Variant::Cooperative)
            .into_iter()
            .find(|&variant| possible(variant, shape, dialect) && pays(variant, shape))
            .unwrap_or_else(|| Variant::Tiled(tile(shape, dialect)))
    };
    let swapped = swapped && matches!(variant, Variant::Lines | Variant::Dots | Variant::SubgroupDots);
    let (parts, part_depth) = split(variant, shape, swapped);
    Choice { variant, swapped, parts, part_depth }
}

/// Whether `variant` supports a product of this shape.
pub fn possible(variant: Variant, shape: &Shape, dialect: Dialect) -> bool {
    let few = shape.rows.min(shape.columns) <= FEW_ROWS;
    match variant {
        Variant::Plain => shape.plain,
        Variant::Lines | Variant::Dots => few,
        Variant::SubgroupDots => few && dialect.subgroups,
        Variant::Tiled(128) => dialect.workgroup_bytes >= LARGE_TILE_BYTES,
        Variant::Tiled(_) => true,
        // The kernel's text assigns invocations to subgroups, which requires a fixed subgroup size.
        Variant::Cooperative(_) => {
            let subgroups = dialect.subgroups && dialect.subgroup_size.is_some_and(|size| size <= 32 && 32 % size == 0);
            let unit = dialect.cooperative.is_some_and(|units| units.side == 8 || units.side == 16);
            subgroups && unit && dialect.f16 && shape.halves && dialect.workgroup_bytes >= COOPERATIVE_BYTES
        }
    }
}

/// Whether cooperative tiles would be mostly full and would fill the device.
fn pays(variant: Variant, shape: &Shape) -> bool {
    let Variant::Cooperative(tile) = variant else { return false };
    let full = shape.rows.min(shape.columns) > tile / 2 && shape.depth >= 32;
    full && (tile == 64 || workgroups(shape, tile, tile) >= CORES as u64)
}

/// The tile size with the smallest estimated time: rounds of workgroups times work per workgroup. The weights express
/// that smaller tiles read more workgroup memory per multiply-add: one vector per 16, 10.7 and 8 of them.
fn tile(shape: &Shape, dialect: Dialect) -> u32 {
    let time = |side: u32| {
        let weight = match side {
            128 => 4,
            64 => 5,
            _ => 8,
        };
        workgroups(shape, side, side).div_ceil(CORES as u64) * (side * side * weight) as u64
    };
    let possible = TILES.into_iter().filter(|&side| possible(Variant::Tiled(side), shape, dialect));
    possible.min_by_key(|&side| time(side)).expect("there are tiles that every device can have")
}

fn workgroups(shape: &Shape, height: u32, width: u32) -> u64 {
    shape.rows.div_ceil(height) as u64 * shape.columns.div_ceil(width) as u64 * shape.matrices as u64
}

/// The number of parts to split the terms into, enough to fill the device, and the terms per part.
fn split(variant: Variant, shape: &Shape, swapped: bool) -> (u32, u32) {
    let columns = if swapped { shape.rows } else { shape.columns };
    let (workgroups, wanted) = match variant {
        Variant::Plain => return (1, shape.depth),
        Variant::Tiled(tile) | Variant::Cooperative(tile) => (workgroups(shape, tile, tile), CORES),
        _ => (columns.div_ceil(LINE_COLUMNS) as u64 * shape.matrices as u64, READERS),
    };
    let parts = (wanted as u64 / workgroups.max(1)).min((shape.depth / LEAST_PART) as u64).max(1) as u32;
    let part_depth = shape.depth.div_ceil(parts).next_multiple_of(PART_STEP);
    (shape.depth.div_ceil(part_depth), part_depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::dialect::MatrixUnits;

    const SHAPE: Shape =
        Shape { rows: 0, columns: 0, depth: 0, matrices: 1, terms_first: [true, false], halves: false, plain: true };

    fn dialect() -> Dialect {
        Dialect { workgroup_bytes: 32768, ..Dialect::default() }
    }

    fn chosen(rows: u32, columns: u32, depth: u32) -> (Variant, u32) {
        let choice = choose(&Shape { rows, columns, depth, ..SHAPE }, dialect());
        (choice.variant, choice.parts)
    }

    #[test]
    fn tiles_are_the_largest_that_fill_the_device() {
        assert_eq!(chosen(4096, 4096, 4096), (Variant::Tiled(128), 1));
        assert_eq!(chosen(2048, 2048, 2048), (Variant::Tiled(128), 1));
        assert_eq!(chosen(1024, 1024, 1024), (Variant::Tiled(64), 1));
        assert_eq!(chosen(512, 512, 512), (Variant::Tiled(32), 1));
        assert_eq!(chosen(64, 50_000, 512), (Variant::Tiled(64), 1));
        let little = Dialect { workgroup_bytes: 16384, ..dialect() };
        let shape = Shape { rows: 4096, columns: 4096, depth: 4096, ..SHAPE };
        assert_eq!(choose(&shape, little).variant, Variant::Tiled(64));
    }

    #[test]
    fn many_matrices_fill_the_device_too() {
        let shape = Shape { rows: 128, columns: 128, depth: 64, matrices: 512, ..SHAPE };
        assert_eq!(choose(&shape, dialect()).variant, Variant::Tiled(128));
    }

    #[test]
    fn deep_sums_are_split_where_there_are_few_tiles() {
        assert_eq!(chosen(64, 64, 8192), (Variant::Tiled(32), 16));
        assert_eq!(chosen(64, 64, 1000), (Variant::Tiled(32), 1));
        assert_eq!(chosen(1, 4096, 4096), (Variant::Lines, 2));
        assert_eq!(chosen(1, 1024, 4096), (Variant::Lines, 8));
        assert_eq!(chosen(1, 768, 768), (Variant::Lines, 1));
        assert_eq!(chosen(1, 50_257, 4096), (Variant::Lines, 1));
    }

    #[test]
    fn parts_cover_all_terms() {
        for depth in [8, 511, 1024, 1025, 4096, 5000, 100_003] {
            for columns in [1, 33, 4096] {
                let choice = choose(&Shape { rows: 1, columns, depth, ..SHAPE }, dialect());
                let terms = choice.parts as u64 * choice.part_depth as u64;
                assert!(terms >= depth as u64 && terms - choice.part_depth as u64 <= depth as u64, "{choice:?}");
                assert!(choice.part_depth.is_multiple_of(8) || choice.parts == 1);
            }
        }
    }

    #[test]
    fn few_rows_or_columns_are_read_once() {
        assert_eq!(chosen(8, 1000, 100).0, Variant::Lines);
        assert_eq!(chosen(9, 1000, 100).0, Variant::Tiled(32));
        let shape = Shape { rows: 1000, columns: 3, depth: 100, ..SHAPE };
        let choice = choose(&shape, dialect());
        assert_eq!((choice.variant, choice.swapped), (Variant::Dots, true));
        let transposed = Shape { rows: 3, columns: 1000, terms_first: [true, true], ..shape };
        assert_eq!(choose(&transposed, dialect()).variant, Variant::Dots);
        let subgroups = Dialect { subgroups: true, ..dialect() };
        assert_eq!(choose(&transposed, subgroups).variant, Variant::SubgroupDots);
    }

    #[test]
    fn short_sums_are_plain_if_possible() {
        assert_eq!(chosen(1000, 1000, 7).0, Variant::Plain);
        assert_eq!(chosen(1000, 1000, 8).0, Variant::Tiled(64));
        assert_eq!(chosen(1, 1000, 31).0, Variant::Plain);
        let shape = Shape { rows: 1000, columns: 1000, depth: 7, plain: false, ..SHAPE };
        assert_eq!(choose(&shape, dialect()).variant, Variant::Tiled(64));
    }

    #[test]
    fn matrix_units_take_float16_with_subgroups_of_one_size() {
        let units = Dialect {
            f16: true,
            subgroups: true,
            subgroup_size: Some(32),
            cooperative: Some(MatrixUnits { side: 16, emulated: false }),
            workgroup_bytes: 49152,
            ..dialect()
        };
        let shape = Shape { rows: 4096, columns: 4096, depth: 4096, halves: true, ..SHAPE };
        assert_eq!(choose(&shape, units).variant, Variant::Cooperative(128));
        let smaller = Shape { rows: 512, columns: 512, depth: 512, ..shape };
        assert_eq!(choose(&smaller, units).variant, Variant::Cooperative(64));
        let thin = Shape { rows: 32, ..shape };
        assert!(matches!(choose(&thin, units).variant, Variant::Tiled(_)));
        for lacking in [
            Dialect { f16: false, ..units },
            Dialect { subgroup_size: None, ..units },
            Dialect { cooperative: None, ..units },
            Dialect { workgroup_bytes: 16384, ..units },
        ] {
            assert!(matches!(choose(&shape, lacking).variant, Variant::Tiled(_)), "{lacking:?}");
        }
        let floats = Shape { halves: false, ..shape };
        assert_eq!(choose(&floats, units).variant, Variant::Tiled(128));
    }

    #[test]
    fn a_variant_is_forced_if_possible() {
        let forced = |variant| Dialect { product: Some(variant), ..dialect() };
        let shape = Shape { rows: 20, columns: 20, depth: 20, ..SHAPE };
        assert_eq!(choose(&shape, forced(Variant::Tiled(128))).variant, Variant::Tiled(128));
        assert_eq!(choose(&shape, forced(Variant::Lines)).variant, Variant::Tiled(32));
        assert_eq!(choose(&shape, forced(Variant::Plain)).variant, Variant::Plain);
    }
}
