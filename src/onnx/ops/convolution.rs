//! Convolutions and pooling.

use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::conv2d::{Conv2d, Conv2dAttributes};
use crate::ops::pool2d::{Pool2d, Pool2dAttributes, PoolKind};
use crate::ops::reduce::ReduceKind;

/// How a window moves over the spatial dimensions of an input.
pub struct Window {
    /// Its sizes.
    pub kernel: Vec<u32>,
    /// Steps between its places.
    pub strides: Vec<u32>,
    /// Steps between its elements.
    pub dilations: Vec<u32>,
    /// Before and after each dimension.
    pub padding: Vec<[u32; 2]>,
}

/// The non-negative integers of an attribute with one entry per spatial dimension.
fn per_dimension(call: &Call, name: &str, count: usize, default: u32) -> Step<Vec<u32>> {
    let Some(ints) = call.ints_attribute(name) else { return Ok(vec![default; count]) };
    let sizes: Option<Vec<u32>> = ints.iter().map(|&int| u32::try_from(int).ok()).collect();
    sizes
        .filter(|sizes| sizes.len() == count)
        .ok_or_else(|| Refusal(format!("{name} is {ints:?}, expected {count} integers that are not negative")))
}

/// The window of a convolution or pooling over `spatial`, the spatial dimensions of the input.
pub fn window(call: &Call, spatial: &[u32], kernel: Vec<u32>) -> Step<Window> {
    let count = spatial.len();
    let strides = per_dimension(call, "strides", count, 1)?;
    let dilations = per_dimension(call, "dilations", count, 1)?;
    if strides.contains(&0) {
        return Err("strides has a 0".into());
    }
    let padding = match call.text_or("auto_pad", "NOTSET").as_str() {
        "NOTSET" => {
            let pads = per_dimension(call, "pads", 2 * count, 0)?;
            (0..count).map(|at| [pads[at], pads[count + at]]).collect()
        }
        "VALID" => vec![[0, 0]; count],
        same @ ("SAME_UPPER" | "SAME_LOWER") => (0..count)
            .map(|at| {
                // The output has ceil(input / stride) elements.
                let reach = (kernel[at].max(1) - 1) as u64 * dilations[at] as u64 + 1;
                let last = (spatial[at].div_ceil(strides[at]).max(1) - 1) as u64 * strides[at] as u64;
                let total = (last + reach).saturating_sub(spatial[at] as u64).min(u32::MAX as u64) as u32;
                let (less, more) = (total / 2, total - total / 2);
                if same == "SAME_UPPER" { [less, more] } else { [more, less] }
            })
            .collect(),
        other => return Err(Refusal(format!("auto_pad is {other}"))),
    };
    Ok(Window { kernel, strides, dilations, padding })
}

impl Window {
    /// The padding as WebNN has it.
    pub fn flat_padding(&self) -> Vec<u32> {
        self.padding.iter().flatten().copied().collect()
    }
}

fn conv(call: &mut Call) -> Outcome {
    let (x, filter) = (call.input(0)?, call.input(1)?);
    let bias = call.optional(2)?;
    let (shape, filter_shape) = (call.shape(x), call.shape(filter));
    if shape.len() != 4 || filter_shape.len() != 4 {
        return Err(Refusal(format!("the input has shape {shape:?}, expected 4 dimensions")));
    }
    let window = window(call, &shape[2..], filter_shape[2..].to_vec())?;
    let groups = u32::try_from(call.int_or("group", 1)).map_err(|_| "group is negative")?;
    let attributes = Conv2dAttributes {
        padding: window.flat_padding(),
        strides: window.strides,
        dilations: window.dilations,
        groups,
        ..Default::default()
    };
    let outputs = call.emit_all(Conv2d { attributes }, vec![Some(x), Some(filter), bias])?;
    Ok(vec![Value::Operand(outputs[0])])
}

fn max_pool(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let shape = call.shape(x);
    let kernel = per_dimension(call, "kernel_shape", 2, 1)?;
    let window = window(call, &shape[2..], kernel)?;
    let attributes = Pool2dAttributes {
        padding: window.flat_padding(),
        window_dimensions: Some(window.kernel),
        strides: window.strides,
        dilations: window.dilations,
        ..Default::default()
    };
    let output = call.emit(Pool2d { kind: PoolKind::Max, attributes }, &[x]);
    call.one(output)
}

fn global_average_pool(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let axes: Vec<u32> = (2..call.rank(x) as u32).collect();
    let output = call.reduce(ReduceKind::Mean, x, &axes, true);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Conv", "", conv),
    standard("GlobalAveragePool", "", global_average_pool),
    standard("MaxPool", "", max_pool),
];
