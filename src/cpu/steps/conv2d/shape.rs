//! The parameters of `conv2d`, and its operands.

use crate::cpu::kernels::planes::Window;
use crate::cpu::product::finish::Tail;
use crate::cpu::product::matrix::PatchMatrix;
use crate::cpu::schedule::tiles::Matrices;
use crate::cpu::steps::convolution::ConvolutionShape;
use crate::ops::conv2d::FilterLayout;

/// The parameters of a convolution. Pairs are rows, then columns.
///
/// Padding consists of zeros that take part in the products: an infinite or NaN weight over them produces NaN.
/// Depthwise convolutions with channels last skip the padding instead.
pub type Conv2dShape = ConvolutionShape<FilterLayout>;

impl Conv2dShape {
    pub(in super::super) fn is_depthwise(&self) -> bool {
        self.group()[0] == 1 && self.groups > 1
    }

    /// Whether the patch matrix is the image itself.
    pub(in super::super) fn is_pointwise(&self) -> bool {
        self.filter == [1, 1] && self.strides == [1, 1] && self.padding == [0, 0] && self.input == self.output
    }

    /// Distances between output channels, input channels, rows and columns of the filter.
    pub(in super::super) fn filter_strides(&self) -> [usize; 4] {
        let ([i, _], o, [h, w]) = (self.group(), self.channels[1], self.filter);
        match self.layout {
            FilterLayout::Oihw => [i * h * w, h * w, w, 1],
            FilterLayout::Hwio => [1, o, w * i * o, i * o],
            FilterLayout::Ohwi => [h * w * i, 1, w * i, i],
            FilterLayout::Ihwo => [1, h * w * o, w * o, o],
        }
    }

    pub(super) fn window(&self) -> Window {
        let [_, row, col] = self.input_strides();
        Window {
            size: self.input,
            strides: [row, col],
            out_cols: self.output[1],
            filter: self.filter,
            step: self.strides,
            dilation: self.dilations,
            padding: self.padding,
        }
    }

    /// The patches of one group.
    pub(in super::super) fn patches(&self) -> PatchMatrix {
        let [channel_stride, row, col] = self.input_strides();
        let taps = [0, 1].map(|axis| {
            let taps = 0..self.filter[axis];
            taps.map(|tap| (tap * self.dilations[axis]) as isize - self.padding[axis] as isize).collect()
        });
        PatchMatrix {
            channels: self.group()[0],
            channels_first: !self.channels_last,
            size: self.input,
            image_stride: self.channels[0] * self.input[0] * self.input[1],
            channel_stride,
            strides: [row, col],
            out: self.output,
            step: self.strides,
            taps,
        }
    }

    /// The filter as a matrix with the depth order of the patches: each output channel is an image with a single patch.
    pub(super) fn filter_matrix(&self) -> PatchMatrix {
        let [o, i, row, col] = self.filter_strides();
        PatchMatrix {
            channels: self.group()[0],
            channels_first: !self.channels_last,
            size: self.filter,
            image_stride: o,
            channel_stride: i,
            strides: [row, col],
            out: [1, 1],
            step: [1, 1],
            taps: self.filter.map(|size| (0..size as isize).collect()),
        }
    }

    /// The output of all groups.
    pub(super) fn matrices(&self) -> Matrices {
        let ([_, group], pixels) = (self.group(), self.output[0] * self.output[1]);
        if self.channels_last {
            let (rows, row_stride) = (self.batches * pixels, self.channels[1]);
            Matrices { batches: self.groups, batch_stride: group, rows, row_stride, cols: group }
        } else {
            let batches = self.batches * self.groups;
            Matrices { batches, batch_stride: group * pixels, rows: group, row_stride: pixels, cols: pixels }
        }
    }
}

/// The operands of a convolution, and the operations that follow it.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) input: &'a [f32],
    /// `None` if the filter is packed.
    pub(super) filter: Option<&'a [f32]>,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) tail: Tail<'a>,
}

impl<'a> Call<'a> {
    pub(super) fn raw_filter(&self) -> &'a [f32] {
        self.filter.expect("the filter was not packed")
    }
}
