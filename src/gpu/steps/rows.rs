//! The rows of elements that results are computed from, and how the invocations of a workgroup share them.

use crate::gpu::dialect::Dialect;
use crate::gpu::kernel::Parameters;
use crate::gpu::map::strided;
use crate::shape::strides;

/// The layout of rows in a tensor: result `r` depends on the elements at `kept(r) + reduced(i)`.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Sizes and strides of the dimensions that remain.
    kept: (Vec<u32>, Vec<isize>),
    /// Sizes and strides of the reduced dimensions.
    reduced: (Vec<u32>, Vec<isize>),
}

impl Rows {
    /// Divides the dimensions of `shape` into the reduced ones, marked in `reduced`, and the others.
    pub fn new(shape: &[u32], reduced: &[bool]) -> Rows {
        let own = strides(shape);
        let part = |which: bool| {
            let axes = || (0..shape.len()).filter(move |&axis| reduced[axis] == which && shape[axis] != 1);
            (axes().map(|axis| shape[axis]).collect(), axes().map(|axis| own[axis] as isize).collect())
        };
        Rows { kept: part(false), reduced: part(true) }
    }

    /// `count` contiguous rows of `length` elements.
    pub fn contiguous(count: u32, length: u32) -> Rows {
        Rows::new(&[count, length], &[false, true])
    }

    /// Number of results.
    pub fn count(&self) -> u32 {
        self.kept.0.iter().product()
    }

    /// Number of elements per result.
    pub fn length(&self) -> u32 {
        self.reduced.0.iter().product()
    }

    /// How the invocations of a workgroup share these rows.
    pub fn sharing(&self) -> Sharing {
        let neighbors = self.kept.0.last().copied().filter(|_| self.kept.1.last() == Some(&1));
        Sharing::of(self.length(), neighbors.filter(|_| self.length() > 1))
    }

    /// Returns the functions `first_of(row)` and `element_of(i)`, whose sum is the place of element `i` of a row.
    /// Parameters: number of results, number of elements per result, number of parts per row.
    pub fn functions(&self, parts: u32) -> (Parameters, String) {
        let mut parameters = Parameters(vec![self.count(), self.length(), parts]);
        let text = self.places(&mut parameters);
        (parameters, text)
    }

    /// The functions `first_of(row)` and `element_of(i)`.
    pub fn places(&self, parameters: &mut Parameters) -> String {
        let mut place = |(sizes, steps): &(Vec<u32>, Vec<isize>), i: &str| match (&sizes[..], &steps[..]) {
            ([], _) => "0u".to_string(),
            ([_], [1]) => i.to_string(),
            ([_], [step]) => format!("{i} * parameter({}u)", parameters.push(*step as u32)),
            _ => format!("strided({}u, {i})", strided(parameters, sizes, steps, 0)),
        };
        let (first, element) = (place(&self.kept, "row"), place(&self.reduced, "i"));
        format!(
            "fn first_of(row: u32) -> u32 {{ return {first}; }}\nfn element_of(i: u32) -> u32 {{ return {element}; }}\n"
        )
    }
}

/// Floats of workgroup memory that hold rows; the rest of the 16 KiB available on every device is for sums.
const HELD: u32 = 3072;

/// Maximum number of elements of a row that a few invocations process.
const SHORT: u32 = 32;
/// Maximum number of elements of a row that 64 invocations process, 16 each; longer rows are faster with more
/// invocations.
const MEDIUM: u32 = 1024;

/// How the invocations of a workgroup share rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Invocations per row, a power of two.
    pub lanes: u32,
    /// Rows per workgroup.
    pub rows: u32,
    /// Whether neighboring invocations process neighboring rows rather than neighboring elements of a row.
    pub across: bool,
}

impl Sharing {
    /// How to share rows of `length` elements. If a row's own elements are not contiguous, `neighbors` is the number of
    /// rows whose elements are interleaved.
    pub fn of(length: u32, neighbors: Option<u32>) -> Sharing {
        match (neighbors, length) {
            // Whole lines of 32 elements, or at least the 8 that one memory access returns.
            (Some(_), _) if 32 * length <= HELD => Sharing { lanes: 8, rows: 32, across: true },
            (Some(neighbors), _) if neighbors >= 32 && 8 * length > HELD => {
                Sharing { lanes: 8, rows: 32, across: true }
            }
            (Some(_), _) => Sharing { lanes: 32, rows: 8, across: true },
            (None, ..=SHORT) => Sharing { lanes: 8, rows: 8, across: false },
            (None, ..=MEDIUM) => Sharing { lanes: 64, rows: 1, across: false },
            (None, _) => Sharing { lanes: 256, rows: 1, across: false },
        }
    }

    /// Invocations per workgroup.
    pub fn workgroup(self) -> u32 {
        self.lanes * self.rows
    }

    /// Workgroups for `count` rows of `parts` parts each.
    pub fn workgroups(self, count: u32, parts: u32) -> u32 {
        count.div_ceil(self.rows) * parts
    }

    /// The entry point. It calls `run()` for each row, or part of one, with `row`, `part` and `lane` set.
    pub fn entry(self, dialect: Dialect) -> String {
        let (builtins, known) = match self.uses_subgroups(dialect) {
            true => (
                "  @builtin(subgroup_id) subgroup_number: u32,
  @builtin(num_subgroups) subgroup_numbers: u32,
  @builtin(subgroup_invocation_id) subgroup_local: u32,
  @builtin(subgroup_size) subgroup_locals: u32,
",
                "  subgroup = subgroup_number;
  subgroups = subgroup_numbers;
  subgroup_lane = subgroup_local;
  subgroup_lanes = subgroup_locals;
",
            ),
            false => ("", ""),
        };
        let Sharing { lanes, rows, across } = self;
        let (lane, own) = match across {
            true => ("local / ROWS", "local % ROWS"),
            false => ("local % LANES", "local / LANES"),
        };
        include_str!("../shaders/rows.wgsl")
            .replace("BUILTINS", builtins)
            .replace("KNOWN", known)
            .replace("ROW_LANE", lane)
            .replace("OWN_ROW", own)
            .replace("ROWS", &format!("{rows}u"))
            .replace("LANES", &format!("{lanes}u"))
            .replace("WORKGROUP", &self.workgroup().to_string())
    }

    /// Two functions: `fetch(i, place)` returns element `i` of the row and keeps it, and `again(i, place)` returns it
    /// again, from workgroup memory if it fits there, otherwise from `x(place)`.
    pub fn memory(self) -> String {
        let held = HELD / self.rows;
        let cell = match self.across {
            true => format!("i * {}u + own_row", self.rows),
            false => format!("own_row * {held}u + i"),
        };
        format!(
            "var<workgroup> held: array<f32, {HELD}>;
fn fetch(i: u32, place: u32) -> f32 {{
  let element = x(place);
  if (i < {held}u) {{ held[{cell}] = element; }}
  return element;
}}
fn again(i: u32, place: u32) -> f32 {{
  if (i < {held}u) {{ return held[{cell}]; }}
  return x(place);
}}
"
        )
    }

    /// The function `{name}_across(own)`, which combines values of the type `value` from all lanes of a row with the
    /// function `combine(a, b)`, and returns the result in each lane. All invocations of a workgroup must call it.
    pub fn across(self, dialect: Dialect, name: &str, value: &str, combine: &str) -> String {
        let template = match self.uses_subgroups(dialect) && ["f32", "vec2<f32>", "i32", "u32"].contains(&value) {
            true => include_str!("../shaders/rows_subgroups.wgsl"),
            false => include_str!("../shaders/rows_shared.wgsl"),
        };
        let place = |lane: &str| match self.across {
            true => format!("({lane}) * {}u + own_row", self.rows),
            false => format!("own_row * {}u + {lane}", self.lanes),
        };
        template
            .replace("NAME", name)
            .replace("VALUE", value)
            .replace("COMBINE", combine)
            .replace("WORKGROUP", &self.workgroup().to_string())
            .replace("LANES", &format!("{}u", self.lanes))
            .replace("AT_LANE", &place("lane"))
            .replace("AT_PARTNER", &place("lane + half"))
            .replace("AT_FIRST", &place("0u"))
    }

    /// Whether to use subgroups. Rows that share a workgroup would also share its subgroups, in an order that the
    /// device chooses.
    fn uses_subgroups(self, dialect: Dialect) -> bool {
        dialect.subgroups && self.rows == 1
    }
}

/// Number of workgroups that fills a device: large ones have about 130 multiprocessors, and two workgroups keep each of
/// them busy.
const FILLING: u32 = 256;
/// Minimum number of elements per invocation in a part: below it, a second kernel costs more than it gains.
const LEAST: u32 = 32;

/// The number of parts to cut each of `count` rows into: in parts, few long rows fill a device.
pub fn parts(count: u32, length: u32, sharing: Sharing) -> u32 {
    let workgroups = sharing.workgroups(count, 1);
    (FILLING / workgroups.max(1)).min(length / (LEAST * sharing.lanes)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shared_as_they_lie_in_memory() {
        let sharing = |shape: &[u32], axis: usize| {
            let reduced: Vec<bool> = (0..shape.len()).map(|other| other == axis).collect();
            let Sharing { lanes, rows, across } = Rows::new(shape, &reduced).sharing();
            (lanes, rows, across)
        };
        assert_eq!(sharing(&[1000, 32], 1), (8, 8, false));
        assert_eq!(sharing(&[1000, 33], 1), (64, 1, false));
        assert_eq!(sharing(&[1000, 1024], 1), (64, 1, false));
        assert_eq!(sharing(&[1000, 1025], 1), (256, 1, false));
        assert_eq!(sharing(&[96, 1000], 0), (8, 32, true));
        assert_eq!(sharing(&[97, 1000], 0), (32, 8, true));
        assert_eq!(sharing(&[385, 1000], 0), (8, 32, true));
        assert_eq!(sharing(&[385, 3], 0), (32, 8, true));
        assert_eq!(sharing(&[2, 3000, 1], 1), (256, 1, false));
        assert_eq!(sharing(&[1, 5], 0), (8, 8, false));
    }

    #[test]
    fn workgroups_hold_rows_that_fit_and_have_a_supported_size() {
        for length in [1, 2, 31, 32, 33, 96, 97, 384, 385, 1024, 1025, 3072, 3073, 1 << 20] {
            for neighbors in [None, Some(2), Some(31), Some(32), Some(4096)] {
                let sharing = Sharing::of(length, neighbors);
                assert!([64, 256].contains(&sharing.workgroup()) && sharing.lanes.is_power_of_two());
                assert_eq!(sharing.across, neighbors.is_some());
                // A row that fits into workgroup memory is kept there.
                assert!(sharing.rows * length <= HELD || 8 * length > HELD || !sharing.across);
            }
        }
    }

    #[test]
    fn few_long_rows_are_cut() {
        let parts = |count, length| parts(count, length, Sharing::of(length, None));
        assert_eq!(parts(1, 1 << 24), 256);
        assert_eq!(parts(100, 1 << 20), 2);
        assert_eq!(parts(200, 1 << 20), 1);
        assert_eq!(parts(1, 16384), 2);
        assert_eq!(parts(1, 16383), 1);
        assert_eq!(parts(1, 1), 1);
    }
}
