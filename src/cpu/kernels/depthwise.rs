//! Depthwise convolution.
