//! Image patches as rows of bytes, for products with a filter.

use crate::ops::spatial::Slide;

/// Converts an image to rows, one per output pixel in row-major order. A row holds the patch under the filter, tap by
/// tap in row-major order.
#[derive(Clone, Debug)]
pub struct BytePatches {
    /// The movement of the filter along height and width.
    pub slides: [Slide; 2],
    /// Output rows and columns.
    pub output: [usize; 2],
    /// Channels of the image.
    pub channels: usize,
    /// Channels per group.
    pub group: usize,
    /// The byte that represents 0 in the image.
    pub zero: u8,
}

impl BytePatches {
    /// Bytes after the last row that [`fill`](Self::fill) may overwrite.
    pub const SLACK: usize = 16;

    /// Bytes per row.
    pub fn depth(&self) -> usize {
        self.slides.iter().map(|slide| slide.window as usize).product::<usize>() * self.group
    }

    /// Fills `out` with the patches of `rows` output pixels from `first` on, `stride` bytes apart, for the channels from
    /// `channel` on. The content between rows and after the last one is undefined.
    ///
    /// # Panics
    /// If `out` is too short or there are fewer pixels.
    pub fn fill(&self, image: &[u8], channel: usize, first: usize, rows: usize, stride: usize, out: &mut [u8]) {
        let [vertical, horizontal] = self.slides;
        let size = vertical.input as usize * horizontal.input as usize * self.channels;
        assert!(stride >= self.depth() && out.len() >= rows * stride + BytePatches::SLACK);
        assert!(first + rows <= self.output[0] * self.output[1] && image.len() >= size);
        // At these positions, no column of the filter is in the padding.
        let inner = horizontal.inner(self.output[1]);
        let mut row = 0;
        while row < rows {
            let (y, x) = ((first + row) / self.output[1], (first + row) % self.output[1]);
            let end = self.output[1].min(x + rows - row);
            let lines = vertical.taps(y);
            for x in x..end {
                let out = &mut out[row * stride..];
                match inner.contains(&x) && self.group == self.channels && horizontal.dilation == 1 {
                    true => self.inner(&image[channel..], lines, x, out),
                    false => self.patch(&image[channel..], lines, x, out),
                }
                row += 1;
            }
        }
    }

    /// Writes the patch at column `x` of an output row where all columns of the filter are inside the image and
    /// contiguous. `lines` are the rows of the filter inside the image, as returned by [`Slide::taps`].
    #[inline(always)]
    fn inner(&self, image: &[u8], (top, high, image_y): (usize, usize, usize), x: usize, out: &mut [u8]) {
        let [vertical, horizontal] = self.slides;
        let width = horizontal.window as usize * self.group;
        let line = horizontal.input as usize * self.channels;
        let image_x = (x * horizontal.stride as usize - horizontal.begin as usize) * self.channels;
        if high < vertical.window as usize {
            out[..self.depth()].fill(self.zero);
        }
        for tap in 0..high {
            let image_y = image_y + tap * vertical.dilation as usize;
            copy(&image[image_y * line + image_x..], &mut out[(top + tap) * width..], width);
        }
        // Runs after the copies, which may write beyond their run.
        if top + high < vertical.window as usize {
            out[(top + high) * width..self.depth()].fill(self.zero);
        }
    }

    /// Like [`inner`](Self::inner), at any column.
    fn patch(&self, image: &[u8], (top, high, image_y): (usize, usize, usize), x: usize, out: &mut [u8]) {
        let [vertical, horizontal] = self.slides;
        let (left, wide, image_x) = horizontal.taps(x);
        out[..self.depth()].fill(self.zero);
        for tap in 0..high {
            let image_y = image_y + tap * vertical.dilation as usize;
            let line = &image[(image_y * horizontal.input as usize + image_x) * self.channels..];
            let out = &mut out[((top + tap) * horizontal.window as usize + left) * self.group..];
            let step = self.channels * horizontal.dilation as usize;
            for tap in 0..wide {
                out[tap * self.group..][..self.group].copy_from_slice(&line[tap * step..][..self.group]);
            }
        }
    }
}

/// Copies `len` bytes. A short run is copied as 16 bytes if `from` has that many: a copy of constant length is a single
/// instruction.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8], len: usize) {
    const SLACK: usize = BytePatches::SLACK;
    if len <= SLACK
        && let (Some(from), Some(to)) = (from.first_chunk::<SLACK>(), to.first_chunk_mut::<SLACK>())
    {
        *to = *from;
    } else {
        to[..len].copy_from_slice(&from[..len]);
    }
}
