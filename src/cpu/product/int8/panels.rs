//! Packed right operands of products of bytes.

use crate::cpu::product::formats::{ByteFormat, Format, FormatKernel, FormatSizes};
use crate::cpu::weights::Weights;
use crate::memory::{bytes_of, elements};

/// Bytes per column after the groups of a panel: its sum and its lift.
const TRAILER: usize = 2 * size_of::<i32>();

/// Maximum columns of a panel, and depths of a group.
const MAX_WIDE: usize = 64;
const MAX_GROUP: usize = 16;

/// Multiply-adds that take as long as packing one number.
const PACKING: usize = 100;

/// Right operands in panels of columns, in the layout of a format.
///
/// A panel is as wide as the register tile; the last one is only as wide as its columns require. After its groups come
/// the sum and the lift of each column, where the lift is the offset that was subtracted from its numbers to make them
/// signed bytes.
#[derive(Clone, Copy)]
pub struct BytePanels<'a> {
    format: ByteFormat,
    sizes: FormatSizes,
    data: &'a [u8],
    columns: usize,
    depth: usize,
}

/// The numbers to pack: number `k` of column `c` is the byte at `places[k] + c * stride`, minus `zeros[c]`.
pub struct ByteColumns<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether they are signed.
    pub is_signed: bool,
    /// Distance between columns.
    pub stride: usize,
    /// Where the numbers of the first column are.
    pub places: &'a [usize],
    /// The zero point of each column.
    pub zeros: &'a [i16],
    /// The lift of all columns, if it shall not be found out.
    pub lift: Option<i16>,
}

impl ByteColumns<'_> {
    /// Writes depth `k` of the columns from `first` on.
    #[inline(always)]
    fn read(&self, k: usize, first: usize, to: &mut [i16]) {
        let (bytes, zeros) = (&self.bytes[self.places[k] + first * self.stride..], &self.zeros[first..]);
        macro_rules! read {
            ($bytes:expr) => {
                match self.is_signed {
                    true => {
                        to.iter_mut().zip($bytes).zip(zeros).for_each(|((to, &x), zero)| *to = x as i8 as i16 - zero)
                    }
                    false => to.iter_mut().zip($bytes).zip(zeros).for_each(|((to, &x), zero)| *to = x as i16 - zero),
                }
            };
        }
        // Neighboring bytes are read in vectors.
        if self.stride == 1 { read!(bytes) } else { read!(bytes.iter().step_by(self.stride)) }
    }
}

impl<'a> BytePanels<'a> {
    /// The panels that [`pack`](Self::pack) or [`fill`](Self::fill) wrote for as many columns and depths.
    pub fn of(format: ByteFormat, columns: usize, depth: usize, data: &'a [u8]) -> BytePanels<'a> {
        BytePanels { format, sizes: format.sizes(), data, columns, depth }
    }

    /// Bytes per column of a panel.
    fn column(sizes: &FormatSizes, depth: usize) -> usize {
        depth.next_multiple_of(sizes.group) + TRAILER
    }

    /// Bytes of a full panel.
    pub fn panel_bytes(format: ByteFormat, depth: usize) -> usize {
        let sizes = format.sizes();
        sizes.panel() * BytePanels::column(&sizes, depth)
    }

    /// Bytes of all panels.
    pub fn bytes(format: ByteFormat, columns: usize, depth: usize) -> usize {
        let sizes = format.sizes();
        sizes.padded_columns(columns) * BytePanels::column(&sizes, depth)
    }

    /// Packs columns into `out`, which has room for their [panels](Self::bytes), on the threads of `weights`.
    pub fn pack(format: ByteFormat, weights: &Weights, columns: &ByteColumns, out: &mut [u8]) {
        let each = BytePanels::panel_bytes(format, columns.places.len());
        let (full, rest) = out.split_at_mut(out.len() / each * each);
        let last = full.len() / each;
        weights.fill(full, each, PACKING, |first, panels| {
            for (index, panel) in panels.chunks_exact_mut(each).enumerate() {
                BytePanels::fill(format, columns, first + index, panel);
            }
        });
        if !rest.is_empty() {
            BytePanels::fill(format, columns, last, rest);
        }
    }

    /// Packs the columns of panel `index`, which may be a full panel or the beginning of one.
    pub fn fill(format: ByteFormat, columns: &ByteColumns, index: usize, panel: &mut [u8]) {
        let sizes = format.sizes();
        let (first, column) = (index * sizes.panel(), BytePanels::column(&sizes, columns.places.len()));
        let wide = (sizes.padded_columns(columns.zeros.len()) - first).min(sizes.panel());
        format.run(false, PackPanel { columns, first, panel: &mut panel[..wide * column] });
    }

    /// The format.
    pub fn format(&self) -> ByteFormat {
        self.format
    }

    /// The sums and the lifts of the columns of each panel, including those that it only has room for.
    pub fn sums_and_lifts(self) -> impl Iterator<Item = [&'a [i32]; 2]> {
        let (sizes, padded) = (self.sizes, self.sizes.padded_columns(self.columns));
        (0..padded).step_by(sizes.panel()).map(move |first| {
            let wide = sizes.panel().min(padded - first);
            let panel = self.panel(first, wide);
            elements::<i32>(&panel[panel.len() - wide * TRAILER..]).split_at(wide).into()
        })
    }

    /// The number of columns, and of elements per column.
    pub fn sizes(&self) -> [usize; 2] {
        [self.columns, self.depth]
    }

    /// The panel of `wide` columns that starts at `column`.
    ///
    /// # Panics
    /// If there are fewer columns.
    #[inline(always)]
    pub fn panel(&self, column: usize, wide: usize) -> &'a [u8] {
        let each = BytePanels::column(&self.sizes, self.depth);
        &self.data[column * each..][..wide * each]
    }
}

struct PackPanel<'a> {
    columns: &'a ByteColumns<'a>,
    /// The first column.
    first: usize,
    panel: &'a mut [u8],
}

impl FormatKernel for PackPanel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Format>(self, format: F) {
        let PackPanel { columns, first, panel } = self;
        let depth = columns.places.len();
        let wide = panel.len() / (depth.next_multiple_of(F::SIZES.group) + TRAILER);
        let count = wide.min(columns.zeros.len() - first);
        assert!(wide <= MAX_WIDE && F::SIZES.group <= MAX_GROUP);
        let mut group = [0; MAX_WIDE * MAX_GROUP];
        let (mut sums, mut lifts) = ([0i32; MAX_WIDE], [columns.lift.unwrap_or(0); MAX_WIDE]);
        if columns.lift.is_none() {
            let mut ranges = [[i16::MAX, i16::MIN]; MAX_WIDE];
            for k in 0..depth {
                columns.read(k, first, &mut group[..count]);
                for (&number, [min, max]) in group[..count].iter().zip(&mut ranges) {
                    (*min, *max) = (number.min(*min), number.max(*max));
                }
            }
            let lift = |[min, max]: [i16; 2]| if min < -128 { min + 128 } else { (max - 127).max(0) };
            lifts.iter_mut().zip(&ranges[..count]).for_each(|(to, &range)| *to = lift(range));
        }
        let (groups, trailer) = panel.split_at_mut(panel.len() - wide * TRAILER);
        let group = &mut group[..F::SIZES.group * wide];
        for (index, to) in groups.chunks_exact_mut(wide * F::SIZES.group).enumerate() {
            let some = F::SIZES.group.min(depth - index * F::SIZES.group);
            if count < wide || some < F::SIZES.group {
                group.fill(0);
            }
            for k in 0..some {
                let numbers = &mut group[k * wide..][..count];
                columns.read(index * F::SIZES.group + k, first, numbers);
                for ((number, sum), &lift) in numbers.iter_mut().zip(&mut sums).zip(&lifts) {
                    *sum += *number as i32;
                    *number -= lift;
                }
            }
            format.pack_right(group, wide, to);
        }
        let (to_sums, to_lifts) = trailer.split_at_mut(wide * size_of::<i32>());
        to_sums.copy_from_slice(bytes_of(&sums[..wide]));
        to_lifts.copy_from_slice(bytes_of(&lifts.map(i32::from)[..wide]));
    }
}
