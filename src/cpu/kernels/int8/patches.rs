//! The patches of an image that a filter is multiplied with, as rows of bytes.

use crate::ops::spatial::Slide;

/// Bytes behind a run that may be written with it.
const SLACK: usize = 16;

/// How an image becomes rows: one for each output pixel, row by row, with the taps of the filter in it, row by row.
#[derive(Clone, Debug)]
pub struct Patches {
    /// Along height and width.
    pub slides: [Slide; 2],
    /// Output rows and columns.
    pub output: [usize; 2],
    /// Channels of the image.
    pub channels: usize,
    /// Channels of a group.
    pub group: usize,
    /// The byte that stands for 0, as in the image.
    pub zero: u8,
    /// The bits of the image that are inverted: 0x80 makes signed bytes unsigned.
    pub flip: u8,
}

impl Patches {
    /// Bytes of a row.
    pub fn depth(&self) -> usize {
        self.slides.iter().map(|slide| slide.window as usize).product::<usize>() * self.group
    }

    /// Distance between rows.
    pub fn stride(&self) -> usize {
        self.depth().next_multiple_of(4)
    }

    /// Bytes that [`fill`](Self::fill) needs for `rows` rows.
    pub fn bytes(&self, rows: usize) -> usize {
        rows * self.stride() + SLACK
    }

    /// Fills `out` with the patches of `rows` output pixels from `first` on; those of the channels from `channel` on.
    /// Between rows and behind the last one, there may be anything.
    ///
    /// # Panics
    /// If `out` is too short or there are fewer pixels.
    pub fn fill(&self, image: &[u8], channel: usize, first: usize, rows: usize, out: &mut [u8]) {
        let [vertical, horizontal] = self.slides;
        let size = vertical.input as usize * horizontal.input as usize * self.channels;
        assert!(
            out.len() >= self.bytes(rows) && first + rows <= self.output[0] * self.output[1] && image.len() >= size
        );
        let window = horizontal.window as usize;
        for row in 0..rows {
            let (y, x) = ((first + row) / self.output[1], (first + row) % self.output[1]);
            let mut at = row * self.stride();
            let (top, high, image_y) = vertical.taps(y);
            let (left, wide, image_x) = horizontal.taps(x);
            for tap in 0..vertical.window as usize {
                let out = &mut out[at..];
                at += window * self.group;
                if tap < top || tap >= top + high || wide == 0 {
                    out[..window * self.group].fill(self.zero);
                    continue;
                }
                out[..left * self.group].fill(self.zero);
                let image_y = image_y + (tap - top) * vertical.dilation as usize;
                let line = &image[(image_y * horizontal.input as usize + image_x) * self.channels + channel..];
                let out = &mut out[left * self.group..];
                match (self.group == self.channels, horizontal.dilation) {
                    (true, 1) => copy(line, out, wide * self.group),
                    _ => {
                        let step = self.channels * horizontal.dilation as usize;
                        for tap in 0..wide {
                            copy(&line[tap * step..], &mut out[tap * self.group..], self.group);
                        }
                    }
                }
                // After the copies, which may write more than their run.
                out[wide * self.group..(window - left) * self.group].fill(self.zero);
            }
        }
        if self.flip != 0 {
            out[..rows * self.stride()].iter_mut().for_each(|byte| *byte ^= self.flip);
        }
    }
}

/// Copies `len` bytes; of short runs the 16 bytes at `from` where there are that many, because a copy of a fixed length is a
/// single instruction.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8], len: usize) {
    if len <= SLACK
        && let (Some(from), Some(to)) = (from.first_chunk::<SLACK>(), to.first_chunk_mut::<SLACK>())
    {
        *to = *from;
    } else {
        to[..len].copy_from_slice(&from[..len]);
    }
}
