//! Convolutions with one input channel per group.

use super::spatial::sizes_and_strides;
use crate::gpu::kernel::{Parameters, WORKGROUP};
use crate::gpu::lower::Lowering;
use crate::gpu::map::Entry;
use crate::ops::conv2d::Conv2dAttributes;
use crate::ops::spatial::{InputLayout, Slide};
use std::fmt::Write;

/// Neighboring outputs along the width per invocation: with a stride of 1 and 3 filter columns, 4 outputs read 6
/// elements of the input instead of 12.
const OUTPUTS: u32 = 4;

/// Maximum number of input elements per line that an invocation holds, and of filter columns: with the sums, they must
/// fit into an invocation's registers at high occupancy.
const MOST: u32 = 32;

/// The number of elements of an input line that an invocation's outputs need; `None` if there are too many.
pub fn span(slide: &Slide) -> Option<u32> {
    let span = |stride: u32, dilation: u32| {
        u32::checked_add((OUTPUTS - 1).checked_mul(stride)?, (slide.window - 1).checked_mul(dilation)?)?.checked_add(1)
    };
    span(slide.stride, slide.dilation).filter(|&span| span <= MOST && slide.window <= MOST)
}

/// Appends the kernel of a convolution with the filter layout `filter` and one input channel per group. 32 bits must
/// suffice to distinguish positions in the leading padding from those in the trailing one. Returns `false` if there is
/// no kernel for such a filter.
pub fn depthwise(l: &mut Lowering, a: &Conv2dAttributes, slides: &[Slide; 2], bias: &str) -> bool {
    let Some(span) = span(&slides[1]) else { return false };
    let output = a.input_layout.image(&l.outputs[0].sizes());
    let mut parameters = Parameters::default();
    parameters.extend(sizes_and_strides(&l.outputs[0].sizes(), a.input_layout.axes()));
    parameters.extend(sizes_and_strides(&l.input(0).sizes(), a.input_layout.axes()));
    parameters.extend(sizes_and_strides(&l.input(1).sizes(), a.filter_layout.axes()));
    // From 24 on: outputs per group, blocks of columns, total number of blocks; stride, leading padding and dilation
    // along the height; leading padding along a line.
    let blocks = output.width.div_ceil(OUTPUTS);
    let channels = l.outputs[0].elements() as u32 / (output.batches * output.height * output.width);
    let items = output.batches * channels * output.height * blocks;
    parameters.extend([channels / a.groups, blocks, items]);
    parameters.extend([slides[0].stride, slides[0].begin, slides[0].dilation, slides[1].begin]);
    let coordinates = match a.input_layout {
        // Neighboring invocations read adjacent elements: the next block of a line, or the next channel.
        InputLayout::Nchw => {
            "fn item_of(item: u32) -> vec4<u32> {
  let line = item / parameter(25u);
  let plane = line / parameter(2u);
  return vec4<u32>(plane / parameter(1u), plane % parameter(1u), line % parameter(2u), item % parameter(25u));
}
"
        }
        InputLayout::Nhwc => {
            "fn item_of(item: u32) -> vec4<u32> {
  let block = item / parameter(1u);
  let line = block / parameter(25u);
  return vec4<u32>(line / parameter(2u), item % parameter(1u), line % parameter(2u), block % parameter(25u));
}
"
        }
    };
    let text = include_str!("../shaders/image.wgsl").to_string()
        + coordinates
        + &include_str!("../shaders/depthwise.wgsl")
            .replace("// LINE", &line(&slides[1], span))
            .replace("BIAS", bias)
            .replace("WORKGROUP", &WORKGROUP.to_string())
            .replace("STRIDE", &format!("{}u", slides[1].stride));
    let mut inputs = vec![l.readable("x", 0), l.readable("w", 1)];
    if bias != "0.0" {
        inputs.push(l.readable("bias", 2));
    }
    l.own(
        "depthwise",
        inputs,
        &text,
        parameters,
        Entry::Own { workgroups: items.div_ceil(WORKGROUP), elements: items },
    );
    true
}

/// The statements that read one line of the input and one of the filter and add their products. They use no arrays,
/// which compilers may keep in memory.
fn line(slide: &Slide, span: u32) -> String {
    let mut text = String::new();
    let used =
        |at: u32| (0..slide.window).any(|tap| (0..OUTPUTS).any(|j| j * slide.stride + tap * slide.dilation == at));
    for at in (0..span).filter(|&at| used(at)) {
        let _ = writeln!(text, "      let x{at} = pixel(line, column + {at}u);");
    }
    for tap in 0..slide.window {
        let _ = writeln!(text, "      let w{tap} = w(weights + {tap}u * parameter(23u));");
        for j in 0..OUTPUTS {
            let at = j * slide.stride + tap * slide.dilation;
            let _ = writeln!(text, "      sum[{j}] = fma(x{at}, w{tap}, sum[{j}]);");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    #[test]
    fn lines_that_fit_into_registers() {
        let of = |window, stride, dilation| span(&Slide { input: 100, window, begin: 0, end: 0, stride, dilation });
        assert_eq!(of(3, 1, 1), Some(6));
        assert_eq!(of(3, 2, 1), Some(9));
        assert_eq!(of(7, 1, 4), Some(28));
        assert_eq!(of(29, 1, 1), Some(32));
        assert_eq!(of(30, 1, 1), None);
        assert_eq!(of(3, u32::MAX, 1), None);
    }

    #[test]
    fn depthwise_convolutions_agree_with_the_oracle() {
        let tolerance = Tolerance::ulps(16).or_absolute(1e-4);
        for (layout, input, filter, filter_layout) in [
            ("nchw", ["[2, 3, 5, ", "]"], "[6, 1, 3, 3]", "oihw"),
            ("nhwc", ["[2, 5, ", ", 3]"], "[1, 3, 3, 6]", "ihwo"),
        ] {
            for (width, options) in [
                (7, ""),
                (8, "padding=[1, 1, 1, 1]"),
                (9, "padding=[2, 0, 0, 3] strides=[2, 2]"),
                (12, "padding=[1, 2, 3, 1] dilations=[2, 3]"),
                (4, "padding=[0, 0, 30, 30] strides=[1, 12]"),
            ] {
                let input = input.join(&width.to_string());
                let text = format!(
                    "%0 = input x float32 {input}
                     %1 = constant float32 {filter}
                     %2 = constant float32 [6]
                     %3 = conv2d %0 %1 %2 groups=3 inputLayout={layout} filterLayout={filter_layout} {options}
                     %4 = relu %3
                     %5 = cast %0 dataType=float16
                     %6 = cast %1 dataType=float16
                     %7 = conv2d %5 %6 groups=3 inputLayout={layout} filterLayout={filter_layout} {options}
                     output y = %4
                     output z = %7"
                );
                check(&parse(&text), tolerance);
            }
        }
    }
}
