//! Operators that interpolate between elements of an input, at computed places.

use super::convolution::{Convolution, convolution};
use crate::dimension::{Dim, dims};
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, microsoft, standard};
use crate::ops::extension::crop_and_resize::CropAndResize;
use crate::ops::extension::deform_columns::DeformColumns;
use crate::ops::extension::grid_sample::{GridSample, MAX_DIMENSIONS, Mode, Padding};
use crate::ops::extension::max_roi_pool::MaxRoiPool;
use crate::ops::extension::roi_align::RoiAlign;
use crate::shape::Descriptor;

/// Moves the channels of `[N, channels, ...]` behind the other dimensions.
fn channels_last(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let order: Vec<u32> = [0].into_iter().chain(2..call.rank(x) as u32).chain([1]).collect();
    call.transpose(x, &order)
}

/// Moves the last dimension behind the first one.
fn channels_first(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let last = call.rank(x) as u32 - 1;
    let order: Vec<u32> = [0, last].into_iter().chain(1..last).collect();
    call.transpose(x, &order)
}

/// Samples an image at the places of a grid.
///
/// # Errors
/// If shapes or modes do not fit.
pub fn grid_sample(call: &mut Call) -> Outcome {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let mode = match call.text_or("mode", "linear").as_str() {
        "linear" | "bilinear" => Mode::Linear,
        "nearest" => Mode::Nearest,
        "cubic" | "bicubic" => Mode::Cubic,
        other => return Err(Refusal(format!("mode is {other}"))),
    };
    let padding = call.text_or("padding_mode", "zeros");
    let padding = Padding::from_name(&padding).ok_or_else(|| Refusal(format!("padding_mode is {padding}")))?;
    check_floats(call, x, mode == Mode::Nearest)?;
    let (rank, shape) = (call.rank(x), call.shape(grid));
    if !(3..=2 + MAX_DIMENSIONS).contains(&rank) {
        return Err(Refusal(format!("the input has {rank} dimensions, expected 3 to {}", 2 + MAX_DIMENSIONS)));
    }
    let (batch, dimensions) = (call.shape(x)[0], rank as u32 - 2);
    if shape.len() != rank || shape[0] != batch || shape[rank - 1] != dimensions {
        return Err(Refusal(format!("grid has shape {shape:?}, expected [{batch}, ..., {dimensions}] of rank {rank}")));
    }
    let grid = call.cast(grid, DataType::Float32)?;
    let x = channels_last(call, x)?;
    let align_corners = call.int_or("align_corners", 0) != 0;
    let y = call.emit(GridSample { mode, padding, align_corners }, &[x, grid])?;
    let y = channels_first(call, y);
    call.one(y)
}

/// Refuses integers, which cannot be interpolated.
fn check_floats(call: &Call, x: OperandId, any: bool) -> Step<()> {
    match any || call.dtype(x).is_float() {
        true => Ok(()),
        false => Err(Refusal(format!("values between those of type {} are not supported", call.dtype(x)))),
    }
}

/// Coordinates of the elements of a tensor `[N, C, ...]` under affine transformations `[N, r, r + 1]`.
fn affine_grid(call: &mut Call) -> Outcome {
    let size = crate::onnx::tensor::checked_shape(&call.ints(1, "size")?).map_err(Refusal)?;
    let align = call.int_or("align_corners", 0) != 0;
    let dims = size.len().saturating_sub(2);
    if let ([0, _, places @ ..], Some(Value::Empty(Descriptor { dtype, .. }))) = (&size[..], call.value(0)) {
        let grid = [&[0], places, &[dims as u32]].concat();
        return Ok(vec![Value::Empty(Descriptor::new(dtype, grid))]);
    }
    let theta = call.input(0)?;
    let expected = [size.first().copied().unwrap_or(0), dims as u32, dims as u32 + 1];
    if dims == 0 || size.contains(&0) || call.sizes(theta) != expected {
        let got = call.sizes(theta);
        return Err(Refusal(format!("theta has shape {got:?} for the size {size:?}, expected {expected:?}")));
    }
    // A checked shape has no more elements than 32 bits can count.
    let places: u32 = size[2..].iter().product();
    let coordinate = |at: u32, size: u32| match (align, size) {
        (true, 1) => -1.0,
        (true, _) => 2.0 * at as f64 / (size as f64 - 1.0) - 1.0,
        (false, _) => (2.0 * at as f64 + 1.0) / size as f64 - 1.0,
    };
    let mut points = call.list(places as u64 * (dims as u64 + 1))?;
    for place in 0..places {
        let mut rest = place;
        for &size in size[2..].iter().rev() {
            points.push(coordinate(rest % size, size));
            rest /= size;
        }
        points.push(1.0);
    }
    let points = call.constant(call.dtype(theta), &[places, dims as u32 + 1], points)?;
    let columns = call.transpose_last(theta)?;
    let grid = call.matmul(points, columns)?;
    let grid = call.reshape(grid, &[&size[..1], &size[2..], &[dims as u32]].concat());
    call.one(grid)
}

/// Averages or maxima of interpolated samples in the bins of regions.
fn roi_align(call: &mut Call) -> Outcome {
    let (x, rois, images) = (call.input(0)?, call.input(1)?, call.input(2)?);
    check_floats(call, x, false)?;
    let size = |name: &str, default: i64| {
        let size = u32::try_from(call.int_or(name, default)).ok();
        size.ok_or_else(|| {
            Refusal(format!("{name} is {}, expected a number that is not negative", call.int_or(name, 1)))
        })
    };
    let default = if call.opset < 16 { "output_half_pixel" } else { "half_pixel" };
    let maximum = match call.text_or("mode", "avg").as_str() {
        "avg" => false,
        "max" => true,
        other => return Err(Refusal(format!("mode is {other}"))),
    };
    let op = RoiAlign {
        output_height: size("output_height", 1)?,
        output_width: size("output_width", 1)?,
        sampling_ratio: size("sampling_ratio", 0)?,
        spatial_scale: call.float_or("spatial_scale", 1.0),
        half_pixel: call.text_or("coordinate_transformation_mode", default) == "half_pixel",
        maximum,
    };
    call.dims::<4>(x, "the input")?;
    let x = call.transpose(x, &[0, 2, 3, 1])?;
    let rois = call.cast(rois, call.dtype(x))?;
    let y = call.emit(op, &[x, rois, images]);
    call.one(y)
}

/// Maxima of the pixels in the bins of regions.
fn max_roi_pool(call: &mut Call) -> Outcome {
    let (x, rois) = (call.input(0)?, call.input(1)?);
    let bins = call.ints_attribute("pooled_shape").unwrap_or_default();
    let sizes: Option<Vec<u32>> = bins.iter().map(|&bins| u32::try_from(bins).ok()).collect();
    let Some(&[output_height, output_width]) = sizes.as_deref() else {
        return Err(Refusal(format!("pooled_shape is {bins:?}, expected two positive numbers")));
    };
    let spatial_scale = call.float_or("spatial_scale", 1.0);
    let y = call.emit(MaxRoiPool { output_height, output_width, spatial_scale }, &[x, rois]);
    call.one(y)
}

/// Regions in another size.
fn crop_and_resize(call: &mut Call) -> Outcome {
    let (x, rois, images) = (call.input(0)?, call.input(1)?, call.input(2)?);
    check_floats(call, x, false)?;
    let size = call.ints(3, "crop_size")?;
    let sizes: Option<Vec<u32>> = size.iter().map(|&size| u32::try_from(size).ok()).collect();
    let Some(&[height, width]) = sizes.as_deref() else {
        return Err(Refusal(format!("crop_size is {size:?}, expected two positive numbers")));
    };
    let nearest = match call.text_or("mode", "bilinear").as_str() {
        "bilinear" => false,
        "nearest" => true,
        other => return Err(Refusal(format!("mode is {other}"))),
    };
    call.dims::<4>(x, "the input")?;
    let x = channels_last(call, x)?;
    let rois = call.cast(rois, DataType::Float32)?;
    let op = CropAndResize { size: [height, width], nearest, outside: call.float_or("extrapolation_value", 0.0) };
    let y = call.emit(op, &[x, rois, images])?;
    let y = channels_first(call, y);
    call.one(y)
}

/// A convolution whose window samples at places that offsets move.
fn deform_conv(call: &mut Call) -> Outcome {
    let (x, filter, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (bias, mask) = (call.optional(3)?, call.optional(4)?);
    let (shape, filter_shape) = (call.shape(x), call.sizes(filter));
    let Convolution { window, groups } = convolution(call, &shape, &dims(&filter_shape))?;
    let given = call.int_or("offset_group", 1);
    let sets = u32::try_from(given).ok().filter(|&sets| sets > 0 && shape[1].is_multiple_of(sets));
    let sets = sets.ok_or_else(|| Refusal(format!("offset_group is {given}, expected a divisor of {}", shape[1])))?;
    let offsets = call.shape(offset);
    if shape.len() != 4 || offsets.len() != 4 {
        return Err("deformable convolutions of other than 2 dimensions are not supported".into());
    }
    let pair = |numbers: &[u32]| [numbers[0], numbers[1]];
    let op = DeformColumns {
        kernel: pair(&window.kernel),
        strides: pair(&window.strides),
        dilations: pair(&window.dilations),
        padding: [0, 1].map(|at| window.padding[at][0].pinned() as u32),
        groups,
        sets,
    };
    let images = channels_last(call, x)?;
    let float = |call: &mut Call, x: OperandId| call.cast(x, DataType::Float32);
    let offset = float(call, offset)?;
    let mask = mask.map(|mask| float(call, mask)).transpose()?;
    let columns = call.emit_all(op, vec![Some(images), Some(offset), mask])?[0];
    // `[groups, elements, channels]` as columns of filters.
    let [filters, own] = [filter_shape[0], filter_shape[1]];
    let (elements, each) = (window.kernel[0] * window.kernel[1], filters / groups);
    let filter = call.reshape(filter, &[groups, each, own, elements])?;
    let filter = call.transpose(filter, &[0, 3, 2, 1])?;
    let (batch, places) = (shape[0], offsets[2] * offsets[3]);
    let y = if groups == 1 {
        let columns = call.reshape(columns, &[batch * places, Dim::number(i64::from(elements * own))])?;
        let filter = call.reshape(filter, &[elements * own, filters])?;
        call.matmul(columns, filter)?
    } else {
        let filter = call.reshape(filter, &[groups, elements * own, each])?;
        let y = call.matmul(columns, filter)?;
        call.transpose(y, &[0, 2, 1, 3])?
    };
    let mut y = call.reshape(y, &[batch, offsets[2], offsets[3], filters.into()])?;
    if let Some(bias) = bias {
        y = call.add(y, bias)?;
    }
    let y = channels_first(call, y);
    call.one(y)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("AffineGrid", "constant size", affine_grid),
    microsoft("CropAndResize", "constant crop_size", crop_and_resize),
    standard("DeformConv", "two spatial dimensions", deform_conv),
    standard("GridSample", "one to three spatial dimensions", grid_sample),
    standard("MaxRoiPool", "", max_roi_pool),
    standard("RoiAlign", "", roi_align),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn samples_are_one_operator() {
        let sample = |mode, grid: &[&'static str]| {
            let graph = TestGraph::default().input("x", Float, &["2", "3", "4", "5"]).input("g", Float, grid);
            graph.node("GridSample", "x g", "y", vec![("mode", Attr::Text(mode))]).output("y")
        };
        for (mode, name) in [("nearest", " mode=nearest"), ("bilinear", ""), ("bicubic", " mode=cubic")] {
            let text = sample(mode, &["2", "6", "7", "2"]).text(20);
            assert!(text.contains(&format!("= gridSample %2 %1{name}\n")), "{text}");
        }
        assert_eq!(sample("nearest", &["2", "6", "7", "2"]).output_shape(20), [2, 3, 6, 7]);
        let refusal = sample("nearest", &["2", "6", "7", "3"]).refusal(20);
        assert!(refusal.contains("grid has shape [2, 6, 7, 3], expected [2, ..., 2] of rank 4"), "{refusal}");
    }

    #[test]
    fn regions_are_one_operator() {
        let align = |attributes: Vec<(&str, Attr)>| {
            let graph = TestGraph::default().input("x", Float, &["1", "3", "4", "5"]).input("r", Float, &["2", "4"]);
            graph.input("i", Int64, &["2"]).node("RoiAlign", "x r i", "y", attributes).output("y")
        };
        let text = align(vec![("sampling_ratio", Attr::Int(0)), ("output_width", Attr::Int(7))]).text(16);
        assert!(text.contains("roiAlign %3 %1 %2 outputWidth=7"), "{text}");
        let refusal = align(vec![("sampling_ratio", Attr::Int(-1))]).refusal(16);
        assert!(refusal.contains("sampling_ratio is -1, expected a number that is not negative"), "{refusal}");
        let refusal = align(vec![("sampling_ratio", Attr::Int(1 << 17))]).refusal(16);
        assert!(refusal.contains("1 to 65536 samples"), "{refusal}");
        let crop = |size: &[i64]| {
            let graph = TestGraph::default().input("x", Float, &["1", "3", "4", "5"]).input("r", Float, &["2", "4"]);
            let graph = graph.input("i", Int32, &["2"]).ints("s", size);
            graph
                .node("com.microsoft.CropAndResize", "x r i s", "y", vec![("extrapolation_value", Attr::Float(2.0))])
                .output("y")
        };
        assert_eq!(crop(&[6, 7]).output_shape(17), [2, 3, 6, 7]);
        assert!(crop(&[6]).refusal(17).contains("crop_size is [6], expected two positive numbers"));
        let graph = TestGraph::default().input("x", Float, &["1", "3", "4", "5"]).input("r", Float, &["2", "5"]);
        let graph = graph.node("MaxRoiPool", "x r", "y", vec![("pooled_shape", Attr::Ints(&[2, 3]))]).output("y");
        assert_eq!(graph.output_shape(22), [2, 3, 2, 3]);
    }
}
