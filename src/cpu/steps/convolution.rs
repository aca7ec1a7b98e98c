//! The common part of convolution and transposed convolution.

use crate::ops::conv_transpose2d::TransposedFilterLayout;

/// The parameters of a convolution of either kind; `Layout` is the order of the filter dimensions. Pairs are rows, then
/// columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvolutionShape<Layout> {
    /// Number of images.
    pub batches: usize,
    /// Number of groups; both channel counts are multiples of it.
    pub groups: usize,
    /// Input and output channels, of all groups.
    pub channels: [usize; 2],
    /// Input rows and columns.
    pub input: [usize; 2],
    /// Filter rows and columns.
    pub filter: [usize; 2],
    /// Output rows and columns, including output padding.
    pub output: [usize; 2],
    /// Input steps per output step; for a transposed convolution, output steps per input step.
    pub strides: [usize; 2],
    /// Distance between filter taps.
    pub dilations: [usize; 2],
    /// Rows of padding above and columns on the left; for a transposed convolution, those cut off there. The padding
    /// below and on the right follows from the output size.
    pub padding: [usize; 2],
    /// Whether input and output are `[n, h, w, c]`; otherwise `[n, c, h, w]`.
    pub channels_last: bool,
    /// The order of the filter dimensions.
    pub layout: Layout,
}

impl<Layout> ConvolutionShape<Layout> {
    /// Input and output channels of one group.
    pub(super) fn group(&self) -> [usize; 2] {
        self.channels.map(|c| c / self.groups)
    }

    /// Distances between input channels, rows and columns.
    pub(super) fn input_strides(&self) -> [usize; 3] {
        let ([h, w], c) = (self.input, self.channels[0]);
        if self.channels_last { [1, w * c, c] } else { [h * w, w, 1] }
    }
}

/// The parameters of a transposed convolution. Pairs are rows, then columns.
///
/// Input element `(y, x)` adds `filter[tap y][tap x]` times itself to output element
/// `(y * strides + tap y * dilations - padding, ...)`. Positions outside the input count as zeros that take part in the
/// products: an infinite or NaN weight over them produces NaN.
pub type ConvTranspose2dShape = ConvolutionShape<TransposedFilterLayout>;

impl ConvTranspose2dShape {
    /// Distances between output channels, input channels, rows and columns of the filter.
    pub(super) fn filter_strides(&self) -> [usize; 4] {
        let (i, [_, o], [h, w]) = (self.channels[0], self.group(), self.filter);
        match self.layout {
            TransposedFilterLayout::Iohw => [h * w, o * h * w, w, 1],
            TransposedFilterLayout::Hwoi => [i, 1, w * o * i, o * i],
            TransposedFilterLayout::Ohwi => [h * w * i, 1, w * i, i],
        }
    }
}
