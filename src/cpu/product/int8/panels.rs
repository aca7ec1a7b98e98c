//! Packed right operands of products of bytes.

use crate::cpu::product::formats::{ByteFormat, Format, FormatKernel, FormatSizes};
use crate::cpu::weights::Weights;
use crate::error::Result;
use crate::memory::{Buffer, bytes_of, elements};
use std::sync::Arc;

/// Bytes per column after the groups of a panel: its sum and its lift.
const TRAILER: usize = 2 * size_of::<i32>();

/// Multiply-adds that take as long as packing one number.
const PACKING: usize = 100;

/// Right operands in panels of columns, in the layout of a format.
///
/// A panel is as wide as the register tile; the last one is only as wide as its columns require. After its groups come
/// the sum and the lift of each column, where the lift is the offset that was subtracted from its numbers to make them
/// signed bytes.
pub struct BytePanels {
    format: ByteFormat,
    sizes: FormatSizes,
    data: Arc<Buffer>,
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
}

impl ByteColumns<'_> {
    /// Writes depth `k` of the columns from `first` on.
    #[inline(always)]
    fn read(&self, k: usize, first: usize, to: &mut [i16]) {
        let place = self.places[k] + first * self.stride;
        let bytes = self.bytes[place..].iter().step_by(self.stride);
        let numbers = to.iter_mut().zip(bytes).zip(&self.zeros[first..]);
        match self.is_signed {
            true => numbers.for_each(|((to, &byte), zero)| *to = byte as i8 as i16 - zero),
            false => numbers.for_each(|((to, &byte), zero)| *to = byte as i16 - zero),
        }
    }
}

impl BytePanels {
    /// The panels in a buffer created by [`pack`](Self::pack) for as many columns and depths.
    pub fn of(format: ByteFormat, columns: usize, depth: usize, data: Arc<Buffer>) -> BytePanels {
        BytePanels { format, sizes: format.sizes(), data, columns, depth }
    }

    /// Packs columns, on the threads of `weights`.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the panels.
    pub fn pack(format: ByteFormat, weights: &Weights, columns: &ByteColumns) -> Result<Buffer> {
        let sizes = format.sizes();
        let (count, depth) = (columns.zeros.len(), columns.places.len());
        let column = depth.next_multiple_of(sizes.group) + TRAILER;
        let padded = sizes.padded_columns(count);
        let mut data = Buffer::streamed(padded * column)?;
        let (full, rest) = data.bytes_mut().split_at_mut(padded / sizes.panel() * sizes.panel() * column);
        weights.fill(full, sizes.panel() * column, PACKING, |first, panels| {
            for (index, panel) in panels.chunks_exact_mut(sizes.panel() * column).enumerate() {
                format.run(false, PackPanel { columns, first: (first + index) * sizes.panel(), panel });
            }
        });
        if !rest.is_empty() {
            format.run(false, PackPanel { columns, first: padded / sizes.panel() * sizes.panel(), panel: rest });
        }
        Ok(data)
    }

    /// The format.
    pub fn format(&self) -> ByteFormat {
        self.format
    }

    /// The sum and the lift of each column that the panels have room for.
    pub fn sums_and_lifts(&self) -> [Vec<i32>; 2] {
        let (sizes, padded) = (self.sizes, self.sizes.padded_columns(self.columns));
        let [mut sums, mut lifts] = [Vec::new(), Vec::new()];
        for first in (0..padded).step_by(sizes.panel()) {
            let wide = sizes.panel().min(padded - first);
            let panel = self.panel(first, wide);
            let (own_sums, own_lifts) = elements::<i32>(&panel[panel.len() - wide * TRAILER..]).split_at(wide);
            sums.extend(own_sums);
            lifts.extend(own_lifts);
        }
        [sums, lifts]
    }

    /// The buffer of the panels.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.data
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
    pub fn panel(&self, column: usize, wide: usize) -> &[u8] {
        let each = self.depth.next_multiple_of(self.sizes.group) + TRAILER;
        &self.data.bytes()[column * each..][..wide * each]
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
        let mut group = vec![0; F::SIZES.group * wide];
        let (mut sums, mut lifts, mut ranges) = (vec![0; wide], vec![0i32; wide], vec![[i16::MAX, i16::MIN]; count]);
        for k in 0..depth {
            columns.read(k, first, &mut group[..count]);
            for ((&number, sum), [min, max]) in group[..count].iter().zip(&mut sums).zip(&mut ranges) {
                (*sum, *min, *max) = (*sum + number as i32, number.min(*min), number.max(*max));
            }
        }
        let lift = |[min, max]: [i16; 2]| if min < -128 { min + 128 } else { (max - 127).max(0) };
        lifts.iter_mut().zip(ranges).for_each(|(to, range)| *to = lift(range) as i32);
        let (groups, trailer) = panel.split_at_mut(panel.len() - wide * TRAILER);
        for (index, to) in groups.chunks_exact_mut(wide * F::SIZES.group).enumerate() {
            group.fill(0);
            for k in 0..F::SIZES.group.min(depth - index * F::SIZES.group) {
                let numbers = &mut group[k * wide..][..count];
                columns.read(index * F::SIZES.group + k, first, numbers);
                numbers.iter_mut().zip(&lifts).for_each(|(number, &lift)| *number -= lift as i16);
            }
            format.pack_right(&group, wide, to);
        }
        let (to_sums, to_lifts) = trailer.split_at_mut(wide * size_of::<i32>());
        to_sums.copy_from_slice(bytes_of(&sums));
        to_lifts.copy_from_slice(bytes_of(&lifts));
    }
}
