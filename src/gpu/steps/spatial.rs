//! Convolutions, pooling and resampling that compute each element of the output on its own.

use super::depthwise::depthwise;
use super::product::{Addition, FIXED, Places, Product, Side};
use super::reduce::reduce_axes;
use crate::dimension::{Dim, numbers};
use crate::dtype::DataType;
use crate::gpu::kernel::Parameters;
use crate::gpu::lower::Lowering;
use crate::gpu::map::Readable;
use crate::gpu::template::Values;
use crate::ops::conv_transpose2d::ConvTranspose2d;
use crate::ops::conv2d::{Conv2d, Conv2dAttributes};
use crate::ops::pool2d::{Pool2d, PoolKind};
use crate::ops::reduce::ReduceKind;
use crate::ops::resample2d::{InterpolationMode, Resample2d, between, nearest};
use crate::ops::spatial::{InputLayout, Slide, exactly, slides};
use crate::shape::strides;

/// Sizes and strides of a four-dimensional tensor, in the order of `axes`.
pub fn sizes_and_strides(shape: &[u32], axes: [usize; 4]) -> [u32; 8] {
    let own = strides(shape);
    let mut numbers = [0; 8];
    for (place, axis) in axes.into_iter().enumerate() {
        numbers[place] = shape[axis];
        numbers[4 + place] = own[axis] as u32;
    }
    numbers
}

/// The filter taps that meet the input, for an output position along one dimension: first tap, number of taps, input
/// position of the first tap.
type Taps = (u32, u32, u32);

/// Appends the taps for each output position along height and width; their places are stored in the parameters `at` and
/// `at + 1`. The strides of taps and of input positions come next.
fn add_taps(parameters: &mut Parameters, at: usize, tables: [Vec<Taps>; 2], tap: [u32; 2], position: [i64; 2]) {
    parameters.0[at + 2..at + 6].copy_from_slice(&[tap[0], tap[1], position[0] as u32, position[1] as u32]);
    for (axis, table) in tables.into_iter().enumerate() {
        let first = parameters.extend(table.into_iter().flat_map(|(first, count, position)| [first, count, position]));
        parameters.0[at + axis] = first;
    }
}

/// The taps of a window that slides over the input.
fn sliding(slide: &Slide, outputs: u32) -> Vec<Taps> {
    let taps = |at: u32| {
        let (first, count, position) = slide.taps(at as usize);
        (first as u32, count as u32, position as u32)
    };
    (0..outputs).map(taps).collect()
}

/// The taps of a transposed convolution that meet the input: `output + padding - tap * dilation` is a multiple of the
/// stride and inside the input. They are equally spaced; also returns their stride and the stride of the input
/// positions.
fn transposed(slide: &Slide, outputs: u32) -> (Vec<Taps>, u32, i64) {
    let (stride, dilation) = (slide.stride as i128, slide.dilation as i128);
    let divisor = gcd(stride, dilation);
    let (tap_step, position_step) = (stride / divisor, dilation / divisor);
    let taps = |at: u32| {
        let start = at as i128 + slide.begin as i128;
        let candidates = tap_step.min(slide.window as i128);
        let Some(first) = (0..candidates).find(|tap| (start - tap * dilation).rem_euclid(stride) == 0) else {
            return (0, 0, 0);
        };
        let position = (start - first * dilation).div_euclid(stride);
        // Positions decrease: skips those beyond the end of the input, and leaves out those before its start.
        let beyond = (position - (slide.input as i128 - 1)).max(0);
        let skipped = (beyond + position_step - 1) / position_step;
        let (first, position) = (first + skipped * tap_step, position - skipped * position_step);
        if position < 0 || first >= slide.window as i128 {
            return (0, 0, 0);
        }
        let count = (position / position_step).min((slide.window as i128 - 1 - first) / tap_step) + 1;
        (first as u32, count as u32, position as u32)
    };
    ((0..outputs).map(taps).collect(), tap_step as u32, -(position_step as i64))
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Parameters: sizes and strides of output, input and filter (batches or output channels, channels, height, width),
/// space for the results of [`add_taps`], number of groups.
fn convolution(l: &Lowering, layout: InputLayout, filter: [usize; 4], groups: u32) -> Parameters {
    let mut parameters = Parameters::default();
    parameters.extend(sizes_and_strides(&l.outputs[0].sizes(), layout.axes()));
    parameters.extend(sizes_and_strides(&l.input(0).sizes(), layout.axes()));
    parameters.extend(sizes_and_strides(&l.input(1).sizes(), filter));
    parameters.extend([0; 6]);
    parameters.push(groups);
    parameters
}

/// Appends `conv2d.wgsl`, with `places` as its functions.
fn convolve(l: &mut Lowering, name: &'static str, places: &str, parameters: Parameters) {
    let mut inputs = vec![l.readable("x", 0), l.readable("w", 1)];
    let bias = bias(l, &mut inputs);
    let functions = include_str!("../shaders/image.wgsl").to_string()
        + places
        + &include_str!("../shaders/conv2d.wgsl").replace("BIAS", bias);
    l.map(0, name, inputs, &functions, parameters);
}

/// `conv2d()`.
pub fn conv2d(op: &Conv2d, l: &mut Lowering) {
    let a = &op.attributes;
    let filter = a.filter_layout.axes();
    let slides = window(l, a.input_layout, filter, [&numbers(&a.padding), &a.strides, &a.dilations]);
    let one_input = l.input(1).sizes()[filter[1]] == 1;
    if one_input && fits(l, a, &slides) {
        let bias = bias(l, &mut Vec::new());
        if depthwise(l, a, &slides, bias) {
            return;
        }
    }
    if is_product(l, a, &slides) {
        return convolve_as_product(l, a, &slides);
    }
    let mut parameters = convolution(l, a.input_layout, filter, a.groups);
    let output = a.input_layout.image(&l.outputs[0].sizes());
    let tables = [sliding(&slides[0], output.height), sliding(&slides[1], output.width)];
    add_taps(&mut parameters, 24, tables, [1, 1], slides.map(|slide| slide.dilation as i64));
    let places = "
fn group_inputs() -> u32 { return parameter(17u); }
fn first_input(c: u32) -> u32 { return c / (parameter(1u) / parameter(30u)) * group_inputs(); }
fn filter_place(c: u32, r: u32, s: u32) -> u32 { return place(16u, vec4<u32>(c, 0u, r, s)); }
const FILTER_STEP: u32 = 21u;
";
    convolve(l, "conv2d", places, parameters);
}

/// Whether 32 bits suffice to distinguish positions before the image from those after it.
fn fits(l: &Lowering, a: &Conv2dAttributes, slides: &[Slide; 2]) -> bool {
    let output = a.input_layout.image(&l.outputs[0].sizes());
    let reach = |slide: &Slide, outputs: u32| {
        outputs as u64 * slide.stride as u64 + slide.window as u64 * slide.dilation as u64 + slide.begin as u64
    };
    reach(&slides[0], output.height).max(reach(&slides[1], output.width)) < 1 << 30
}

/// Minimum number of output channels per group, and of output positions, for a product: at a quarter of a small tile
/// each way, the waste equals about what reading every operand once saves.
const LEAST_POSITIONS: u32 = 16;

/// Minimum number of terms for a product.
const LEAST_TERMS: u32 = 8;

/// Minimum number of terms for a product with few positions, which is computed in slices of the terms.
const LEAST_POINT_TERMS: u32 = 32;

/// Whether a convolution is faster as a product: it must be large enough, and 32 bits must suffice to distinguish
/// positions before the image from those after it.
fn is_product(l: &Lowering, a: &Conv2dAttributes, slides: &[Slide; 2]) -> bool {
    let output = a.input_layout.image(&l.outputs[0].sizes());
    let filter = &l.input(1).sizes();
    let [channels, group_inputs, height, width] = a.filter_layout.axes().map(|axis| filter[axis]);
    let positions = (channels / a.groups).min(output.height * output.width);
    let depth = group_inputs * height * width;
    // A single position is a matrix-vector product.
    let full = positions >= LEAST_POSITIONS || (is_pointwise(l, a, slides) && depth >= LEAST_POINT_TERMS);
    fits(l, a, slides) && full && depth >= LEAST_TERMS
}

/// Whether each output position depends on a single input position, its own.
fn is_pointwise(l: &Lowering, a: &Conv2dAttributes, slides: &[Slide; 2]) -> bool {
    let (input, output) = (a.input_layout.image(&l.input(0).sizes()), a.input_layout.image(&l.outputs[0].sizes()));
    let still = slides.iter().all(|slide| slide.window == 1 && slide.stride == 1 && slide.begin == 0);
    still && (output.height, output.width) == (input.height, input.width)
}

/// Lowers a convolution as a product of a group's filters `[output channels, terms]` with the image patches
/// `[terms, output positions]`, or as its transpose if channels are the last dimension. A term is a channel and a tap.
fn convolve_as_product(l: &mut Lowering, a: &Conv2dAttributes, slides: &[Slide; 2]) {
    let layout = a.input_layout;
    let channels_last = layout == InputLayout::Nhwc;
    let [_, output_channels, output_height, output_width, out_batch, out_channel, _, out_column] =
        sizes_and_strides(&l.outputs[0].sizes(), layout.axes());
    let [channels, _, height, width, ..] = sizes_and_strides(&l.input(1).sizes(), a.filter_layout.axes());
    let group_inputs = l.input(1).sizes()[a.filter_layout.axes()[1]];
    let (rows, columns) = (channels / a.groups, output_height * output_width);
    let depth = group_inputs * height * width;
    let mut parameters = Parameters(vec![0; FIXED]);
    let image = image(l, a, slides, &mut parameters);
    let filter = filter(l, a, &mut parameters);
    let addition = match l.inputs.get(2).copied().flatten() {
        None => Addition::default(),
        Some(_) => {
            let [groups, of_group, all] = [a.groups, rows, output_channels].map(|value| parameters.push(value));
            let positions = parameters.push(if channels_last { 1 } else { columns });
            Addition {
                inputs: vec![l.readable("bias", 2)],
                plus: "sum + bias(own_channel)".to_string(),
                channel: format!("stack_at % parameter({groups}u) * parameter({of_group}u) + position"),
                side: channels_last as usize,
                channel_of: format!("i / parameter({positions}u) % parameter({all}u)"),
            }
        }
    };
    let steps = [out_channel, out_column];
    let stack = vec![out_batch as isize, rows as isize * out_channel as isize];
    let product = Product {
        name: "conv2d",
        rows: if channels_last { columns } else { rows },
        columns: if channels_last { rows } else { columns },
        depth,
        stack: &[layout.image(&l.outputs[0].sizes()).batches, a.groups],
        sides: if channels_last { [image, filter] } else { [filter, image] },
        output: (if channels_last { [steps[1], steps[0]] } else { steps }, stack),
        alpha: 1.0,
        addition,
        parameters,
    };
    product.lower(l);
}

/// The image as a side of a product: without patches if each position depends only on its own place.
fn image(l: &Lowering, a: &Conv2dAttributes, slides: &[Slide; 2], parameters: &mut Parameters) -> Side {
    let layout = a.input_layout;
    let channels_last = layout == InputLayout::Nhwc;
    let [_, _, height, width, batch, channel, row, column] = sizes_and_strides(&l.input(0).sizes(), layout.axes());
    let output = layout.image(&l.outputs[0].sizes());
    let filter = a.filter_layout.axes().map(|axis| l.input(1).sizes()[axis]);
    let group = filter[1] * channel;
    if is_pointwise(l, a, slides) {
        let stack = vec![batch as isize, group as isize];
        return Side { operand: 0, places: Places::Matrix { steps: [column, channel], stack } };
    }
    let first = parameters.extend([a.groups, batch, group, channel, row, column, height, width, output.width]);
    parameters.extend(slides.map(|slide| slide.stride));
    parameters.extend(slides.map(|slide| slide.begin));
    parameters.extend(slides.map(|slide| slide.dilation));
    parameters.extend(filter[1..].iter().copied());
    let places = Places::Text {
        template: include_str!("../shaders/conv2d_patches.wgsl"),
        values: ordered(channels_last, first),
        terms_first: channels_last,
        wide: channels_last && filter[1].is_multiple_of(4) && [batch, row, column].iter().all(|s| s.is_multiple_of(4)),
    };
    Side { operand: 0, places }
}

/// The filter as a side of a product: with strides of its own if it is in the order of the terms.
fn filter(l: &Lowering, a: &Conv2dAttributes, parameters: &mut Parameters) -> Side {
    let channels_last = a.input_layout == InputLayout::Nhwc;
    let axes = a.filter_layout.axes();
    let [outputs, inputs, height, width, output, input, row, column] = sizes_and_strides(&l.input(1).sizes(), axes);
    let rows = outputs / a.groups;
    let distances = |order: [(u32, u32); 3]| {
        let mut expected = 1;
        order.into_iter().all(|(size, stride)| (size == 1 || stride == expected, expected *= size).0)
    };
    let in_order = match channels_last {
        true => distances([(inputs, input), (width, column), (height, row)]),
        false => distances([(width, column), (height, row), (inputs, input)]),
    };
    let group = rows as isize * output as isize;
    if in_order || height * width == 1 {
        // The terms of a single tap are the channels, at any stride.
        let step = if height * width == 1 { input } else { 1 };
        return Side { operand: 1, places: Places::Matrix { steps: [output, step], stack: vec![0, group] } };
    }
    let first = parameters.extend([a.groups, group as u32, output, input, row, column, inputs, height, width]);
    let places = Places::Text {
        template: include_str!("../shaders/conv2d_filter.wgsl"),
        values: ordered(channels_last, first),
        terms_first: output != 1,
        wide: false,
    };
    Side { operand: 1, places }
}

/// The values that describe the order of the terms, and the first parameter of a side.
fn ordered(channels_last: bool, first: u32) -> Values {
    Values::default().with("CHANNELS_LAST", channels_last as u32).with("FIRST", first)
}

/// The expression for the bias of the output channel `c`.
fn bias(l: &Lowering, inputs: &mut Vec<Readable>) -> &'static str {
    match l.inputs.get(2).copied().flatten() {
        Some(_) => {
            inputs.push(l.readable("bias", 2));
            "bias(c)"
        }
        None => "0.0",
    }
}

/// `convTranspose2d()`.
pub fn conv_transpose2d(op: &ConvTranspose2d, l: &mut Lowering) {
    let a = &op.attributes;
    let filter = a.filter_layout.axes();
    let mut parameters = convolution(l, a.input_layout, filter, a.groups);
    let slides = window(l, a.input_layout, filter, [&a.padding, &a.strides, &a.dilations]);
    let output = a.input_layout.image(&l.outputs[0].sizes());
    let (rows, row_tap, row_position) = transposed(&slides[0], output.height);
    let (columns, column_tap, column_position) = transposed(&slides[1], output.width);
    add_taps(&mut parameters, 24, [rows, columns], [row_tap, column_tap], [row_position, column_position]);
    let places = "
fn group_inputs() -> u32 { return parameter(9u) / parameter(30u); }
fn first_input(c: u32) -> u32 { return c / parameter(17u) * group_inputs(); }
fn filter_place(c: u32, r: u32, s: u32) -> u32 {
  return place(16u, vec4<u32>(first_input(c), c % parameter(17u), r, s));
}
const FILTER_STEP: u32 = 20u;
";
    convolve(l, "convTranspose2d", places, parameters);
}

/// How a convolution's filter moves along height and width.
fn window(l: &Lowering, layout: InputLayout, filter: [usize; 4], numbers: [&[u32]; 3]) -> [Slide; 2] {
    let shape = &l.input(1).sizes();
    let [padding, strides, dilations] = numbers;
    slides(
        layout.image(&l.input(0).sizes()),
        [shape[filter[2]], shape[filter[3]]],
        exactly("padding", padding).expect("validated"),
        exactly("strides", strides).expect("validated"),
        exactly("dilations", dilations).expect("validated"),
    )
}

/// The reduction that a pooling is equivalent to if its only window is the whole image.
fn as_reduction(op: &Pool2d, slides: &[Slide; 2]) -> Option<ReduceKind> {
    let whole = |slide: &Slide| slide.window == slide.input && (slide.begin, slide.end, slide.dilation) == (0, 0, 1);
    slides.iter().all(whole).then_some(match op.kind {
        PoolKind::Average => ReduceKind::Mean,
        PoolKind::L2 => ReduceKind::L2,
        PoolKind::Max => ReduceKind::Max,
    })
}

/// Pooling.
pub fn pool2d(op: &Pool2d, l: &mut Lowering) {
    let layout = op.attributes.layout;
    let input = l.input(0);
    let slides = op.slides(layout.image(&input.sizes()), Dim::get).expect("validated");
    if let Some(kind) = as_reduction(op, &slides) {
        let [_, _, height, width] = layout.axes();
        let reduced: Vec<bool> = (0..4).map(|axis| axis == height || axis == width).collect();
        return reduce_axes(l, kind, &reduced);
    }
    let mut parameters = Parameters::default();
    parameters.extend(sizes_and_strides(&l.outputs[0].sizes(), layout.axes()));
    parameters.extend(sizes_and_strides(&input.sizes(), layout.axes()));
    parameters.extend([0; 6]);
    let output = layout.image(&l.outputs[0].sizes());
    let tables = [sliding(&slides[0], output.height), sliding(&slides[1], output.width)];
    add_taps(&mut parameters, 16, tables, [1, 1], slides.map(|slide| slide.dilation as i64));
    let suffix = l.dialect.suffix(input.dtype);
    let (term, result) = match op.kind {
        PoolKind::Max => (format!("select(max_{suffix}(total, v), v, count == 0u)"), "total".to_string()),
        PoolKind::Average => ("total + v".to_string(), "total / f32(count)".to_string()),
        PoolKind::L2 => ("total + v * v".to_string(), "sqrt(total)".to_string()),
    };
    // The result of a window without elements.
    let empty = match (op.kind, input.dtype) {
        (PoolKind::Max, DataType::Float32 | DataType::Float16) => "-infinity()".to_string(),
        (PoolKind::Max, DataType::Int8) => "-128".to_string(),
        (PoolKind::Max, DataType::Int32) => "bitcast<i32>(0x80000000u)".to_string(),
        (PoolKind::Max, DataType::Int64) => "i64_from_words(0u, 0x80000000u)".to_string(),
        _ => format!("zero_{suffix}()"),
    };
    let functions = include_str!("../shaders/image.wgsl").to_string()
        + &include_str!("../shaders/pool2d.wgsl")
            .replace("ZERO", &format!("zero_{suffix}()"))
            .replace("TERM", &term)
            .replace("RESULT", &result)
            .replace("EMPTY", &empty);
    let inputs = vec![l.readable("x", 0)];
    l.map(0, "pool2d", inputs, &functions, parameters);
}

/// `resample2d()`. Computes the source of each element here, exactly.
pub fn resample2d(op: &Resample2d, l: &mut Lowering) {
    let (input, output) = (l.input(0), l.outputs[0]);
    let own = strides(&input.sizes());
    let axes = op.sorted_axes(4);
    let exact = input.dtype.size() == 1;
    let mut parameters = Parameters::default();
    // For each dimension, the last one first: size of the output, and stride of the input (0 for the two resampled
    // ones).
    for axis in (0..4).rev() {
        parameters.extend([output.sizes()[axis], if axes.contains(&axis) { 0 } else { own[axis] as u32 }]);
    }
    // For each of the two: its index, the start of its table, the stride of the input.
    let first = parameters.extend([0; 6]);
    for (which, axis) in axes.into_iter().enumerate() {
        let (from, to) = (input.sizes()[axis], output.sizes()[axis]);
        let table = (0..to as usize).flat_map(|i| match op.mode {
            InterpolationMode::NearestNeighbor => vec![nearest(from, to, i) as u32],
            InterpolationMode::Linear => {
                let place = between(from, to, i);
                // The weight is a fraction whose denominator is twice the output's size.
                let weight = if exact {
                    (place.weight * 2.0 * to as f64).round() as u32
                } else {
                    (place.weight as f32).to_bits()
                };
                vec![place.low as u32, place.high as u32, weight]
            }
        });
        let table: Vec<u32> = table.collect();
        let start = parameters.extend(table);
        let at = first as usize + 3 * which;
        parameters.0[at..at + 3].copy_from_slice(&[3 - axis as u32, start, own[axis] as u32]);
    }
    let result = match (op.mode, input.dtype) {
        (InterpolationMode::NearestNeighbor, _) => "nearest(i)",
        (_, DataType::Int8) => "bitcast<i32>(exact(i) - 128u)",
        (_, DataType::Uint8) => "exact(i)",
        _ => "linear(i)",
    };
    let template = match op.mode {
        InterpolationMode::NearestNeighbor => include_str!("../shaders/resample2d_nearest.wgsl"),
        InterpolationMode::Linear if exact => include_str!("../shaders/resample2d_linear_exact.wgsl"),
        InterpolationMode::Linear => include_str!("../shaders/resample2d_linear.wgsl"),
    };
    let offset = if input.dtype == DataType::Int8 { "128" } else { "0" };
    let template = include_str!("../shaders/resample2d.wgsl").to_string() + &template.replace("OFFSET", offset);
    let functions = format!("{template}\nfn value(i: u32) -> x_value {{ return {result}; }}\n");
    let inputs = vec![l.readable("x", 0)];
    l.map(0, "resample2d", inputs, &functions, parameters);
}
