//! Convolutions and transposed convolutions with any number of spatial dimensions.
//!
//! WebNN supports two. A single dimension gets a second one of size 1. With three or more, the first is folded into the
//! channels: the elements that the window covers along it become channels, and its positions become images of the
//! batch.

use super::window::{Window, pads, per_dimension, shares, steps, window};
use crate::dimension::{Dim, numbers};
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::conv_transpose2d::{ConvTranspose2d, ConvTranspose2dAttributes};
use crate::ops::conv2d::{Conv2d, Conv2dAttributes};
use crate::ops::reverse::Reverse;
use crate::ops::slice::Slice;

/// The parameters of a convolution.
#[derive(Clone)]
pub struct Convolution {
    /// How the filter moves.
    pub window: Window,
    /// Number of groups of channels.
    pub groups: u32,
}

/// How operands with zeros of their own are convolved.
pub trait Convolve {
    /// Pads dimension 2 of an input.
    ///
    /// # Errors
    /// If the size is too large.
    fn pad(&self, call: &mut Call, x: OperandId, amounts: [Dim; 2]) -> Step<OperandId>;

    /// Convolves images with two dimensions.
    ///
    /// # Errors
    /// If types or shapes do not match.
    fn images(&self, call: &mut Call, operands: [OperandId; 2], how: Conv2dAttributes) -> Step<OperandId>;
}

/// Convolves floats, with an optional bias.
struct Floats(Option<OperandId>);

impl Convolve for Floats {
    fn pad(&self, call: &mut Call, x: OperandId, amounts: [Dim; 2]) -> Step<OperandId> {
        call.pad_axis(x, 2, amounts)
    }

    fn images(&self, call: &mut Call, [x, filter]: [OperandId; 2], attributes: Conv2dAttributes) -> Step<OperandId> {
        Ok(call.emit_all(Conv2d { attributes }, vec![Some(x), Some(filter), self.0])?[0])
    }
}

/// The attribute `group` of an input with `channels` channels.
fn groups(call: &Call, channels: Dim) -> Step<u32> {
    let group = call.int_or("group", 1);
    let groups = u32::try_from(group).ok().filter(|&groups| groups > 0 && channels.is_multiple_of(groups));
    groups.ok_or_else(|| Refusal(format!("group is {group}, expected a divisor of {}", amount(channels, "channel"))))
}

/// Checks that both have the same number of spatial dimensions, and at least one.
fn check_ranks(x: &[Dim], filter: &[Dim]) -> Step<()> {
    match x.len() == filter.len() && x.len() > 2 {
        true => Ok(()),
        false => Err(Refusal(format!(
            "the input has shape {x:?} and the filter {filter:?}, expected the same rank of at least 3"
        ))),
    }
}

/// The parameters of a convolution of an input `[N, C, ...]` with a filter `[O, C / groups, ...]`.
///
/// # Errors
/// If attributes or shapes do not match.
pub fn convolution(call: &Call, x: &[Dim], filter: &[Dim]) -> Step<Convolution> {
    check_ranks(x, filter)?;
    let groups = groups(call, x[1])?;
    if filter[1] * groups != x[1] || !filter[0].is_multiple_of(groups) {
        return Err(Refusal(format!(
            "the filter has shape {filter:?}, expected [O, {}, ...] with O a multiple of {groups}",
            x[1] / groups
        )));
    }
    Ok(Convolution { window: window(call, &x[2..], numbers(&filter[2..]))?, groups })
}

/// Inserts a dimension of 1 in front of the spatial ones.
fn with_row(shape: &[Dim]) -> Vec<Dim> {
    [&shape[..2], &[Dim::number(1)], &shape[2..]].concat()
}

/// Removes the first spatial dimension.
fn without_first(shape: &[Dim]) -> Vec<Dim> {
    [&shape[..2], &shape[3..]].concat()
}

/// Convolves `x` `[N, C, ...]` with `filter` `[O, C / groups, ...]` and an optional `bias` `[O]`.
///
/// # Errors
/// If types or shapes do not match.
pub fn convolve(
    call: &mut Call,
    x: OperandId,
    filter: OperandId,
    bias: Option<OperandId>,
    how: &Convolution,
) -> Step<OperandId> {
    convolve_with(call, x, filter, &Floats(bias), how)
}

/// Like [`convolve`], for any kind of operands.
///
/// # Errors
/// If types or shapes do not match.
pub fn convolve_with(
    call: &mut Call,
    x: OperandId,
    filter: OperandId,
    kind: &dyn Convolve,
    how: &Convolution,
) -> Step<OperandId> {
    let Convolution { window, groups } = how;
    match window.kernel.len() {
        1 => {
            let (x_shape, filter_shape) = (call.shape(x), call.shape(filter));
            let x = call.reshape(x, &with_row(&x_shape))?;
            let filter = call.reshape(filter, &with_row(&filter_shape))?;
            let y = convolve_with(call, x, filter, kind, &Convolution { window: window.with_row(), ..*how })?;
            let shape = without_first(&call.shape(y));
            call.reshape(y, &shape)
        }
        2 => {
            let attributes = Conv2dAttributes {
                padding: window.flat_padding(),
                strides: window.strides.clone(),
                dilations: window.dilations.clone(),
                groups: *groups,
                ..Default::default()
            };
            kind.images(call, [x, filter], attributes)
        }
        count => {
            let x = kind.pad(call, x, window.padding[0])?;
            let (x, places) = fold_input(call, x, &window.part(0, 1), *groups)?;
            let filter = fold_filter(call, filter)?;
            let rest = Convolution { window: window.part(1, count - 1), ..*how };
            let y = convolve_with(call, x, filter, kind, &rest)?;
            unfold(call, y, places)
        }
    }
}

/// Maximum kernel size along a dimension folded into the channels.
const MAX_FOLDED: u32 = 1024;

/// Folds the first spatial dimension into the channels: `[N, C, D, ...]` becomes `[N * places, C * kernel, ...]`; the
/// channels of a group are contiguous for each step of the window. Also returns the number of places.
fn fold_input(call: &mut Call, x: OperandId, window: &Window, groups: u32) -> Step<(OperandId, Dim)> {
    let shape = call.shape(x);
    let rank = shape.len() as u32;
    let (stride, dilation) = (window.strides[0], window.dilations[0]);
    let (size, reach) = (shape[2], window.reach(0));
    let room = size - Dim::number(reach as i64);
    if room < 0 {
        return Err(Refusal(format!(
            "a window of {} does not fit into {size} with its padding",
            amount(reach, "element")
        )));
    }
    if window.kernel[0] > MAX_FOLDED {
        return Err(Refusal(format!(
            "a kernel of {} along a third dimension is too large",
            amount(window.kernel[0], "element")
        )));
    }
    let places = room / stride + 1;
    let permutation: Vec<u32> = [0, 2, 1].into_iter().chain(3..rank).collect();
    let x = call.transpose(x, &permutation)?;
    let rest: Dim = shape[3..].iter().copied().product();
    let mut steps = Vec::new();
    for step in 0..window.kernel[0] {
        let (mut starts, mut strides) = (vec![Dim::number(0); rank as usize], vec![1; rank as usize]);
        let mut sizes = call.shape(x);
        (starts[1], sizes[1], strides[1]) = (Dim::from(step) * dilation, (places - 1) * stride + 1, stride);
        let slice = call.emit(Slice { starts, sizes, strides: Some(strides) }, &[x])?;
        steps.push(call.reshape(slice, &[shape[0] * places, groups.into(), shape[1] / groups, rest])?);
    }
    let folded = call.concat(&steps, 2)?;
    let shape = [&[shape[0] * places, shape[1] * window.kernel[0]], &shape[3..]].concat();
    Ok((call.reshape(folded, &shape)?, places))
}

/// Folds a filter: `[O, C, K, ...]` becomes `[O, K * C, ...]`.
fn fold_filter(call: &mut Call, filter: OperandId) -> Step<OperandId> {
    let shape = call.shape(filter);
    let permutation: Vec<u32> = [0, 2, 1].into_iter().chain(3..shape.len() as u32).collect();
    let filter = call.transpose(filter, &permutation)?;
    call.reshape(filter, &[&[shape[0], shape[1] * shape[2]], &shape[3..]].concat())
}

/// Unfolds the output: `[N * places, O, ...]` becomes `[N, O, places, ...]`.
fn unfold(call: &mut Call, y: OperandId, places: Dim) -> Step<OperandId> {
    let shape = call.shape(y);
    let y = call.reshape(y, &[&[shape[0] / places, places], &shape[1..]].concat())?;
    let permutation: Vec<u32> = [0, 2, 1].into_iter().chain(3..=shape.len() as u32).collect();
    call.transpose(y, &permutation)
}

fn conv(call: &mut Call) -> Outcome {
    let (x, filter, bias) = (call.input(0)?, call.input(1)?, call.optional(2)?);
    let how = convolution(call, &call.shape(x), &call.shape(filter))?;
    let y = convolve(call, x, filter, bias, &how);
    call.one(y)
}

/// The parameters of a transposed convolution: the whole output without `begin` leading and `end` trailing elements;
/// negative numbers add zeros instead.
struct Transposed {
    kernel: Vec<u32>,
    strides: Vec<u32>,
    dilations: Vec<u32>,
    begin: Vec<u32>,
    end: Vec<i64>,
    groups: u32,
}

impl Transposed {
    /// Removes the first dimension.
    fn rest(&self) -> Transposed {
        Transposed {
            kernel: self.kernel[1..].to_vec(),
            strides: self.strides[1..].to_vec(),
            dilations: self.dilations[1..].to_vec(),
            begin: self.begin[1..].to_vec(),
            end: self.end[1..].to_vec(),
            groups: self.groups,
        }
    }

    /// Inserts a dimension of size 1 in front.
    fn with_row(&self) -> Transposed {
        let behind = |first: u32, rest: &[u32]| [&[first], rest].concat();
        Transposed {
            kernel: behind(1, &self.kernel),
            strides: behind(1, &self.strides),
            dilations: behind(1, &self.dilations),
            begin: behind(0, &self.begin),
            end: [&[0], self.end.as_slice()].concat(),
            groups: self.groups,
        }
    }
}

/// `given` are the pads, if no attribute has them.
fn transposed(call: &Call, x: &[Dim], filter: &[Dim], given: Option<Vec<[u32; 2]>>) -> Step<Transposed> {
    check_ranks(x, filter)?;
    let groups = groups(call, x[1])?;
    if filter[0] != x[1] {
        return Err(Refusal(format!("the filter has shape {filter:?}, expected [{}, ...]", x[1])));
    }
    let (spatial, kernel) = (&x[2..], numbers(&filter[2..]));
    let count = spatial.len();
    let [strides, dilations] = steps(call, count)?;
    let more = per_dimension(call, "output_padding", count, 0)?;
    let mode = call.text_or("auto_pad", "NOTSET");
    let same = matches!(mode.as_str(), "SAME_UPPER" | "SAME_LOWER");
    let pads = match given {
        Some(pads) => pads,
        None if mode == "VALID" => vec![[0, 0]; count],
        None => pads(call, count)?,
    };
    let wanted = match call.has_attribute("output_shape") {
        true => Some(per_dimension(call, "output_shape", count, 0)?),
        false => None,
    };
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    for at in 0..count {
        // The window's reach: the output covers `(size - 1) * stride` elements plus this number.
        let reach = (kernel[at] as i64 - 1).max(0).saturating_mul(dilations[at] as i64).saturating_add(1);
        let whole = (spatial[at] - 1) * strides[at] + Dim::number(reach);
        let total = match &wanted {
            // The size of the output determines the padding.
            Some(wanted) => Some((whole + more[at] - wanted[at]).pinned()),
            None if same => Some(reach + more[at] as i64 - strides[at] as i64),
            None => None,
        };
        let (begin, end) = match total {
            Some(total) => {
                let begin = shares(Dim::number(total.clamp(0, u32::MAX as i64)), mode == "SAME_UPPER")[0].get();
                (begin, total - more[at] as i64 - begin as i64)
            }
            None => (pads[at][0], pads[at][1] as i64 - more[at] as i64),
        };
        let (all, outputs) = (whole + more[at], whole - begin - Dim::number(end));
        if outputs < 1 || outputs > i32::MAX as u32 || all <= Dim::from(begin) || all > Dim::number(1 << 40) {
            return Err(Refusal(format!(
                "dimension {at} of the output would have {outputs} of {}",
                amount(all, "element")
            )));
        }
        begins.push(begin);
        ends.push(end);
    }
    Ok(Transposed { kernel, strides, dilations, begin: begins, end: ends, groups })
}

/// Convolves `x` `[N, C, ...]` with `filter` `[C, O / groups, ...]`, transposed.
fn convolve_transposed(
    call: &mut Call,
    x: OperandId,
    filter: OperandId,
    bias: Option<OperandId>,
    how: &Transposed,
) -> Step<OperandId> {
    match how.kernel.len() {
        1 => {
            let (x_shape, filter_shape) = (call.shape(x), call.shape(filter));
            let x = call.reshape(x, &with_row(&x_shape))?;
            let filter = call.reshape(filter, &with_row(&filter_shape))?;
            let y = convolve_transposed(call, x, filter, bias, &how.with_row())?;
            let shape = without_first(&call.shape(y));
            call.reshape(y, &shape)
        }
        2 => conv_transpose2d(call, x, filter, bias, how),
        _ => {
            let (x, places) = fold_transposed_input(call, x, how)?;
            let filter = fold_transposed_filter(call, filter, how.groups)?;
            let y = convolve_transposed(call, x, filter, bias, &how.rest())?;
            unfold(call, y, places)
        }
    }
}

fn conv_transpose2d(
    call: &mut Call,
    x: OperandId,
    filter: OperandId,
    bias: Option<OperandId>,
    how: &Transposed,
) -> Step<OperandId> {
    let (mut padding, mut output_padding, mut zeros) = (Vec::new(), Vec::new(), [0; 2]);
    for (at, zeros) in zeros.iter_mut().enumerate() {
        let [cut, missing] = [how.end[at], -how.end[at]].map(|count| count.clamp(0, u32::MAX as i64) as u32);
        padding.extend([how.begin[at], cut]);
        // WebNN adds less than a stride at the end.
        let inside = missing < how.strides[at];
        output_padding.push(if inside { missing } else { 0 });
        *zeros = if inside { 0 } else { missing };
    }
    let late_bias = bias.filter(|_| zeros != [0; 2]);
    let attributes = ConvTranspose2dAttributes {
        padding,
        strides: how.strides.clone(),
        dilations: how.dilations.clone(),
        output_padding,
        groups: how.groups,
        ..Default::default()
    };
    let early_bias = bias.filter(|_| late_bias.is_none());
    let mut y = call.emit_all(ConvTranspose2d { attributes }, vec![Some(x), Some(filter), early_bias])?[0];
    for (at, after) in zeros.into_iter().enumerate() {
        y = call.pad_axis(y, 2 + at, [Dim::number(0), after.into()])?;
    }
    let Some(bias) = late_bias else { return Ok(y) };
    let channels = call.shape(y)[1];
    let bias = call.reshape(bias, &[channels, Dim::number(1), Dim::number(1)])?;
    call.add(y, bias)
}

/// Like [`fold_input`], for a transposed convolution: a convolution with the reversed filter, over the input with zeros
/// inserted.
fn fold_transposed_input(call: &mut Call, x: OperandId, how: &Transposed) -> Step<(OperandId, Dim)> {
    let shape = call.shape(x);
    let (size, stride) = (shape[2], how.strides[0]);
    let mut x = x;
    if stride > 1 {
        let rest: Dim = shape[3..].iter().copied().product();
        x = call.reshape(x, &[shape[0] * shape[1], size, Dim::number(1), rest])?;
        x = call.pad_axis(x, 2, [Dim::number(0), Dim::from(stride - 1)])?;
        x = call.reshape(x, &[&shape[..2], &[size * stride], &shape[3..]].concat())?;
        x = call.slice_axis(x, 2, 0u32, (size - 1) * stride + 1)?;
    }
    let reach = (how.kernel[0] - 1) as i64 * how.dilations[0] as i64 + 1;
    let [before, after] = [how.begin[0] as i64, how.end[0]].map(|padding| reach - 1 - padding);
    // Negative padding removes elements.
    let cut = |padding: i64| Dim::number(-padding.min(0));
    let kept = call.shape(x)[2] - cut(before) - cut(after);
    if kept < 1 {
        return Err("the padding removes the whole output".into());
    }
    x = call.slice_axis(x, 2, cut(before), kept)?;
    x = call.pad_axis(x, 2, [before, after].map(|padding| Dim::number(padding.max(0))))?;
    let window = Window {
        kernel: vec![how.kernel[0]],
        strides: vec![1],
        dilations: vec![how.dilations[0]],
        padding: vec![[Dim::number(0); 2]],
    };
    fold_input(call, x, &window, how.groups)
}

/// Folds a filter: `[C, O / groups, K, ...]` becomes `[C * K, O / groups, ...]` in the order of
/// [`fold_transposed_input`].
fn fold_transposed_filter(call: &mut Call, filter: OperandId, groups: u32) -> Step<OperandId> {
    let shape = call.shape(filter);
    let rest: Dim = shape[3..].iter().copied().product();
    let filter = call.emit(Reverse { axes: Some(vec![2]) }, &[filter])?;
    let filter = call.reshape(filter, &[groups.into(), shape[0] / groups, shape[1], shape[2], rest])?;
    let filter = call.transpose(filter, &[0, 3, 1, 2, 4])?;
    call.reshape(filter, &[&[shape[0] * shape[2], shape[1]], &shape[3..]].concat())
}

fn conv_transpose(call: &mut Call) -> Outcome {
    let (x, filter, bias) = (call.input(0)?, call.input(1)?, call.optional(2)?);
    let how = transposed(call, &call.shape(x), &call.shape(filter), None)?;
    let y = convolve_transposed(call, x, filter, bias, &how);
    call.one(y)
}

/// `ConvTranspose` with pads as an input.
///
/// # Errors
/// If they are computed, or operands do not match.
pub fn conv_transpose_with_pads(call: &mut Call) -> Outcome {
    let (x, filter, bias) = (call.input(0)?, call.input(1)?, call.optional(3)?);
    let (given, count) = (call.ints(2, "Pads")?, call.rank(x).saturating_sub(2));
    let pads: Vec<u32> = given.iter().filter_map(|&pad| u32::try_from(pad).ok()).collect();
    if pads.len() != 2 * count || given.len() != pads.len() {
        let count = 2 * count;
        return Err(Refusal(format!("Pads are {given:?}, expected {count} numbers that are not negative")));
    }
    let pads = (0..count).map(|at| [pads[at], pads[count + at]]).collect();
    let how = transposed(call, &call.shape(x), &call.shape(filter), Some(pads))?;
    let y = convolve_transposed(call, x, filter, bias, &how);
    call.one(y)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[standard("Conv", "", conv), standard("ConvTranspose", "", conv_transpose)];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    fn conv(operator: &str, x: &[&str], filter: &[&str], attributes: Vec<(&str, Attr)>) -> TestGraph {
        let graph = TestGraph::default().input("x", Float, x).input("w", Float, filter).input("b", Float, &["4"]);
        graph.node(operator, "x w b", "y", attributes).output("y")
    }

    #[test]
    fn one_dimension_gets_a_second_one() {
        let text = conv("Conv", &["1", "2", "9"], &["4", "2", "3"], vec![("pads", Attr::Ints(&[1, 2]))]).text(17);
        assert!(text.contains("padding=[0, 0, 1, 2]") && text.contains("newShape=[1, 4, 10]"), "{text}");
    }

    #[test]
    fn three_dimensions_are_one_convolution_of_two() {
        let attributes = vec![("strides", Attr::Ints(&[2, 1, 1])), ("group", Attr::Int(2))];
        let text = conv("Conv", &["1", "4", "7", "5", "5"], &["4", "2", "3", "3", "3"], attributes).text(17);
        assert_eq!(text.matches("conv2d").count(), 1, "{text}");
        // Three places, and three steps of the window per channel.
        assert!(text.contains("newShape=[3, 12, 5, 5]") && text.contains("newShape=[4, 6, 3, 3]"), "{text}");
        assert!(text.contains("groups=2"), "{text}");
    }

    #[test]
    fn automatic_padding_is_uneven_where_it_must_be() {
        let padded = |mode| {
            conv("Conv", &["1", "2", "6", "6"], &["4", "2", "2", "3"], vec![("auto_pad", Attr::Text(mode))]).text(17)
        };
        assert!(padded("SAME_UPPER").contains("padding=[0, 1, 1, 1]"));
        assert!(padded("SAME_LOWER").contains("padding=[1, 0, 1, 1]"));
    }

    #[test]
    fn padding_of_a_transposed_convolution_follows_from_its_output() {
        let transposed = |shape: &'static [i64], mode| {
            let attributes = vec![
                ("strides", Attr::Ints(&[2, 2])),
                ("output_shape", Attr::Ints(shape)),
                ("auto_pad", Attr::Text(mode)),
            ];
            conv("ConvTranspose", &["1", "2", "5", "5"], &["2", "4", "3", "3"], attributes).text(17)
        };
        assert!(transposed(&[10, 8], "SAME_UPPER").contains("padding=[0, 1, 1, 2]"));
        assert!(transposed(&[10, 8], "NOTSET").contains("padding=[1, 0, 2, 1]"));
        assert!(transposed(&[12, 11], "NOTSET").contains("outputPadding=[1, 0]"));
        // More than WebNN can add: zeros, and then the bias.
        let text = transposed(&[14, 11], "NOTSET");
        assert!(text.contains("endingPadding=[0, 0, 3, 0]") && text.contains("= add "), "{text}");
    }

    #[test]
    fn mismatched_shapes_are_refused() {
        let message = conv("Conv", &["1", "3", "5", "5"], &["4", "2", "3", "3"], vec![]).refusal(17);
        assert!(message.contains("the filter has shape [4, 2, 3, 3], expected [O, 3, ...]"), "{message}");
        let message =
            conv("Conv", &["1", "2", "2", "5", "5"], &["4", "2", "3", "3", "3"], vec![("group", Attr::Int(1))])
                .refusal(17);
        assert!(message.contains("a window of 3 elements does not fit into 2"), "{message}");
        let message =
            conv("Conv", &["1", "2", "5", "5"], &["4", "2", "3", "3"], vec![("group", Attr::Int(0))]).refusal(17);
        assert!(message.contains("group is 0, expected a divisor of 2 channels"), "{message}");
    }
}
