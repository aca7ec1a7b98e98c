//! Windows that move over the spatial dimensions of an input, for convolutions and pooling.

use crate::dimension::Dim;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;

/// How a window moves over the spatial dimensions of an input.
#[derive(Clone)]
pub struct Window {
    /// Its size along each dimension.
    pub kernel: Vec<u32>,
    /// Distance between its places.
    pub strides: Vec<u32>,
    /// Distance between its elements.
    pub dilations: Vec<u32>,
    /// Leading and trailing padding of each dimension.
    pub padding: Vec<[Dim; 2]>,
}

/// The non-negative integers of an attribute that has one entry per spatial dimension.
///
/// # Errors
/// If there are not exactly `count`, or some are negative.
pub fn per_dimension(call: &Call, name: &str, count: usize, default: u32) -> Step<Vec<u32>> {
    let Some(ints) = call.ints_attribute(name) else { return Ok(vec![default; count]) };
    let sizes: Option<Vec<u32>> = ints.iter().map(|&int| u32::try_from(int).ok()).collect();
    sizes
        .filter(|sizes| sizes.len() == count)
        .ok_or_else(|| Refusal(format!("{name} is {ints:?}, expected {count} integers that are not negative")))
}

/// The attributes `strides` and `dilations` for `count` dimensions.
///
/// # Errors
/// If there are not exactly `count` of each, or one is 0.
pub fn steps(call: &Call, count: usize) -> Step<[Vec<u32>; 2]> {
    let steps = [per_dimension(call, "strides", count, 1)?, per_dimension(call, "dilations", count, 1)?];
    match steps.iter().flatten().any(|&step| step == 0) {
        true => Err(Refusal(format!("strides and dilations are {steps:?}, expected numbers above 0"))),
        false => Ok(steps),
    }
}

/// The attribute `pads`: leading and trailing padding of `count` dimensions.
///
/// # Errors
/// If there are not exactly two per dimension, or some are negative.
pub fn pads(call: &Call, count: usize) -> Step<Vec<[u32; 2]>> {
    let pads = per_dimension(call, "pads", 2 * count, 0)?;
    Ok((0..count).map(|at| [pads[at], pads[count + at]]).collect())
}

/// The window of a convolution or pooling over `spatial`, the spatial dimensions of the input.
///
/// # Errors
/// If an attribute does not match.
pub fn window(call: &Call, spatial: &[Dim], kernel: Vec<u32>) -> Step<Window> {
    let count = spatial.len();
    if kernel.len() != count || kernel.contains(&0) {
        return Err(Refusal(format!("the kernel is {kernel:?}, expected {count} numbers above 0")));
    }
    let [strides, dilations] = steps(call, count)?;
    let padding = match call.text_or("auto_pad", "NOTSET").as_str() {
        "NOTSET" | "" => pads(call, count)?.into_iter().map(|pads| pads.map(Dim::from)).collect(),
        "VALID" => vec![[Dim::number(0); 2]; count],
        same @ ("SAME_UPPER" | "SAME_LOWER") => (0..count)
            .map(|at| {
                let more = Dim::from(kernel[at] - 1) * dilations[at];
                let total = match strides[at] {
                    1 => more,
                    // The output has ceil(input / stride) elements.
                    stride => {
                        let last = (spatial[at].div_ceil(stride).max(1u32) - 1) * stride;
                        (last + more + 1 - spatial[at]).max(0u32)
                    }
                };
                shares(total.min(u32::MAX), same == "SAME_UPPER")
            })
            .collect(),
        other => return Err(Refusal(format!("auto_pad is {other}"))),
    };
    Ok(Window { kernel, strides, dilations, padding })
}

/// Splits `total` into two halves; if it is odd, the last one is larger if `upper`, else the first.
pub fn shares(total: Dim, upper: bool) -> [Dim; 2] {
    let (less, more) = (total / 2, total - total / 2);
    if upper { [less, more] } else { [more, less] }
}

impl Window {
    /// The padding in WebNN's order.
    pub fn flat_padding(&self) -> Vec<Dim> {
        self.padding.iter().flatten().copied().collect()
    }

    /// The number of elements that the window spans along dimension `at`, capped beyond the size of any tensor.
    pub fn reach(&self, at: usize) -> u64 {
        ((self.kernel[at] - 1) as u64 * self.dilations[at] as u64 + 1).min(1 << 40)
    }

    /// Adds a leading dimension of size 1.
    pub fn with_row(&self) -> Window {
        let behind = |first: u32, rest: &[u32]| [&[first], rest].concat();
        Window {
            kernel: behind(1, &self.kernel),
            strides: behind(1, &self.strides),
            dilations: behind(1, &self.dilations),
            padding: [&[[Dim::number(0); 2]], self.padding.as_slice()].concat(),
        }
    }

    /// Restricts the window to `count` dimensions from `first` on.
    pub fn part(&self, first: usize, count: usize) -> Window {
        let range = first..first + count;
        Window {
            kernel: self.kernel[range.clone()].to_vec(),
            strides: self.strides[range.clone()].to_vec(),
            dilations: self.dilations[range.clone()].to_vec(),
            padding: self.padding[range].to_vec(),
        }
    }
}
