//! Reductions along dimensions, and normalizations, searches and cumulative operators along one.

use super::elementwise::map;
use super::generate::places;
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::arg_min_max::{ArgAttributes, ArgMinMax};
use crate::ops::cumulative_sum::CumulativeSum;
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::log_softmax::LogSoftmax;
use crate::ops::pad::Pad;
use crate::ops::reduce::{ReduceKind, reduced_shape};
use crate::ops::reverse::Reverse;
use crate::shape::Descriptor;

/// The first opset in which a reduction's axes are an input.
fn opset_of_axes_input(kind: ReduceKind) -> i64 {
    if kind == ReduceKind::Sum { 13 } else { 18 }
}

/// The reduced dimensions. Without axes, these are all, unless `noop_with_empty_axes` is set.
fn reduced_axes(call: &Call, kind: ReduceKind, rank: usize) -> Step<Vec<u32>> {
    let is_input = call.opset >= opset_of_axes_input(kind);
    let axes = if is_input { call.optional_ints(1, "axes")? } else { call.ints_attribute("axes") };
    match axes.unwrap_or_default()[..] {
        [] if is_input && call.int_or("noop_with_empty_axes", 0) != 0 => Ok(Vec::new()),
        [] => Ok((0..rank as u32).collect()),
        ref axes => call.axes(axes, rank),
    }
}

/// The result of reducing no elements.
fn of_nothing(kind: ReduceKind, dtype: DataType) -> Number {
    let (min, max) = match dtype.integer_range() {
        Some((min, max)) => (Number::Int(min), Number::Int(max)),
        None => (Number::Float(f64::NEG_INFINITY), Number::Float(f64::INFINITY)),
    };
    match kind {
        ReduceKind::Max => min,
        ReduceKind::Min => max,
        ReduceKind::Product => Number::Int(1),
        ReduceKind::LogSum | ReduceKind::LogSumExp => Number::Float(f64::NEG_INFINITY),
        // The standard leaves the mean undefined; onnxruntime's is 0.
        ReduceKind::L1 | ReduceKind::L2 | ReduceKind::Mean | ReduceKind::Sum | ReduceKind::SumSquare => Number::Int(0),
    }
}

fn reduce(call: &mut Call, kind: ReduceKind) -> Outcome {
    let shape = call.input_shape(0)?;
    let axes = reduced_axes(call, kind, shape.len())?;
    let keep = call.int_or("keepdims", 1) != 0;
    if let Some(Value::Empty(descriptor)) = call.value(0) {
        let shape = reduced_shape(&shape, Some(&axes), keep).map_err(|problem| Refusal(problem.to_string()))?;
        if shape.iter().any(|&dim| dim == 0) {
            return Ok(vec![Value::Empty(Descriptor { shape, ..descriptor })]);
        }
        let value = call.scalar(descriptor.dtype, of_nothing(kind, descriptor.dtype))?;
        let output = call.expand(value, &shape);
        return call.one(output);
    }
    let x = call.input(0)?;
    let copies = !matches!(
        kind,
        ReduceKind::L1 | ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::SumSquare | ReduceKind::LogSumExp
    );
    if axes.is_empty() && copies {
        return Ok(vec![Value::Tensor(x)]);
    }
    let output = match kind {
        // The mean of integers is an integer division.
        ReduceKind::Mean if !call.dtype(x).is_float() => {
            let sum = call.reduce(ReduceKind::Sum, x, &axes, keep)?;
            let count = axes.iter().map(|&axis| shape[axis as usize]).product();
            let count = call.dim_scalar(call.dtype(x), count)?;
            call.div(sum, count)
        }
        _ => call.reduce(kind, x, &axes, keep),
    };
    call.one(output)
}

/// The index of the first, or last, of the smallest or largest elements.
fn arg(call: &mut Call, max: bool) -> Outcome {
    let x = call.input(0)?;
    let shape = call.shape(x);
    let axis = call.axis(call.int_or("axis", 0), shape.len())?;
    let keep = call.int_or("keepdims", 1) != 0;
    if call.int_or("select_last_index", 0) == 0 {
        let output = arg_operand(call, x, max, axis, keep);
        return call.one(output);
    }
    let reversed = call.emit(Reverse { axes: Some(vec![axis]) }, &[x])?;
    let from_end = arg_operand(call, reversed, max, axis, keep)?;
    let last = call.dim_scalar(DataType::Int64, shape[axis as usize] - 1)?;
    let output = call.sub(last, from_end);
    call.one(output)
}

/// The index, as int64, of the first of the smallest or largest elements along `axis`.
pub fn arg_operand(call: &mut Call, x: OperandId, max: bool, axis: u32, keep: bool) -> Step<OperandId> {
    let attributes = ArgAttributes { axis, keep_dimensions: keep, output_data_type: DataType::Int64 };
    call.emit(ArgMinMax { max, attributes }, &[x])
}

fn cumulative_sum(call: &mut Call) -> Outcome {
    let rank = call.input_shape(0)?.len();
    let axis = call.axis(call.one_int(1, "axis")?, rank)?;
    if let Some(empty @ Value::Empty(_)) = call.value(0) {
        return Ok(vec![empty]);
    }
    let (exclusive, reversed) = (call.int_or("exclusive", 0) != 0, call.int_or("reverse", 0) != 0);
    let x = call.input(0)?;
    let output = call.emit(CumulativeSum { axis, exclusive, reversed }, &[x]);
    call.one(output)
}

/// The products of all elements up to each one. In every round, each partial product is multiplied by the one that is
/// as many places in front of it as it covers elements.
fn cumulative_product(call: &mut Call) -> Outcome {
    let shape = call.input_sizes(0)?;
    let axis = call.axis(call.one_int(1, "axis")?, shape.len())?;
    let size = shape[axis as usize];
    let (exclusive, reversed) = (call.int_or("exclusive", 0) != 0, call.int_or("reverse", 0) != 0);
    let turn = |call: &mut Call, x: OperandId| match reversed {
        true => call.emit(Reverse { axes: Some(vec![axis]) }, &[x]),
        false => Ok(x),
    };
    // The elements `distance` places in front; 1 where there are none.
    let shifted = |call: &mut Call, x: OperandId, distance: u32| {
        let kept = call.slice_axis(x, axis as usize, 0u32, size - distance)?;
        let (mut beginning, ending) = (vec![Dim::number(0); shape.len()], vec![Dim::number(0); shape.len()]);
        beginning[axis as usize] = distance.into();
        call.emit(Pad { beginning, ending, value: Number::Int(1), ..Default::default() }, &[kept])
    };
    map(call, |call, x| {
        let mut product = turn(call, x)?;
        if exclusive && size == 1 {
            let one = call.scalar_like(x, 1.0)?;
            return call.expand(one, &shape);
        }
        if exclusive {
            product = shifted(call, product, 1)?;
        }
        let mut distance = 1;
        while distance < size {
            let others = shifted(call, product, distance)?;
            product = call.mul(product, others)?;
            distance *= 2;
        }
        turn(call, product)
    })
}

/// Applies `f` along the axis. Before opset 13, the default axis is 1, and `f` treats all dimensions from the axis on
/// as one.
fn along(call: &mut Call, f: fn(&mut Call, OperandId, u32) -> Step<OperandId>) -> Outcome {
    if let Some(empty @ Value::Empty(_)) = call.value(0) {
        return Ok(vec![empty]);
    }
    let x = call.input(0)?;
    let shape = call.shape(x);
    if call.opset >= 13 {
        let axis = call.axis(call.int_or("axis", -1), shape.len())?;
        let output = f(call, x, axis);
        return call.one(output);
    }
    let axis = match call.int_or("axis", 1) {
        // The default for a list: each element becomes a row.
        1 if shape.len() == 1 => 1,
        axis => call.axis(axis, shape.len())? as usize,
    };
    let output = if axis + 1 == shape.len() {
        f(call, x, axis as u32)?
    } else {
        let (outer, inner) = shape.split_at(axis);
        let flat = call.reshape(x, &[outer, inner].map(|dims| dims.iter().copied().product::<Dim>()))?;
        f(call, flat, 1)?
    };
    let output = call.reshape(output, &shape);
    call.one(output)
}

/// `x - log(sum(exp(x)))`. Where there is no kernel for it, subtracts the maximum from `x` first, to keep large numbers
/// from canceling.
fn log_softmax(call: &mut Call, x: OperandId, axis: u32) -> Step<OperandId> {
    if call.has_extensions() && call.dtype(x) != DataType::Float64 {
        return call.emit(LogSoftmax { axis }, &[x]);
    }
    let max = call.reduce(ReduceKind::Max, x, &[axis], true)?;
    let shifted = call.sub(x, max)?;
    let sum = call.reduce(ReduceKind::LogSumExp, shifted, &[axis], true)?;
    call.sub(shifted, sum)
}

/// 1 at the first of the largest elements, 0 elsewhere.
fn hardmax(call: &mut Call, x: OperandId, axis: u32) -> Step<OperandId> {
    let shape = call.shape(x);
    let best = arg_operand(call, x, true, axis, true)?;
    let all = places(call, DataType::Int64, shape[axis as usize], axis as usize, shape.len())?;
    let is_best = call.emit(E::Equal, &[all, best])?;
    call.cast(is_best, call.dtype(x))
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("ArgMax", "", |call| arg(call, true)),
    standard("ArgMin", "", |call| arg(call, false)),
    standard("CumProd", "constant axes", cumulative_product),
    standard("CumSum", "constant axes", cumulative_sum),
    standard("Hardmax", "", |call| along(call, hardmax)),
    standard("LogSoftmax", "", |call| along(call, log_softmax)),
    standard("ReduceL1", "constant axes", |call| reduce(call, ReduceKind::L1)),
    standard("ReduceL2", "constant axes, floats only", |call| reduce(call, ReduceKind::L2)),
    standard("ReduceLogSum", "constant axes, floats only", |call| reduce(call, ReduceKind::LogSum)),
    standard("ReduceLogSumExp", "constant axes, floats only", |call| reduce(call, ReduceKind::LogSumExp)),
    standard("ReduceMax", "constant axes", |call| reduce(call, ReduceKind::Max)),
    standard("ReduceMean", "constant axes", |call| reduce(call, ReduceKind::Mean)),
    standard("ReduceMin", "constant axes", |call| reduce(call, ReduceKind::Min)),
    standard("ReduceProd", "constant axes", |call| reduce(call, ReduceKind::Product)),
    standard("ReduceSum", "constant axes", |call| reduce(call, ReduceKind::Sum)),
    standard("ReduceSumSquare", "constant axes", |call| reduce(call, ReduceKind::SumSquare)),
    standard("Softmax", "", |call| along(call, |call, x, axis| call.softmax(x, axis))),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::{Float, Int64};
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn cumulative_products_take_few_rounds() {
        let graph = TestGraph::default().input("x", Float, &["2", "9"]).ints("axis", &[-1]);
        let text = graph.node("CumProd", "x axis", "y", vec![]).output("y").text(26);
        assert_eq!(text.matches("= mul ").count(), 4, "{text}");
        let graph = TestGraph::default().input("x", Float, &["2", "1"]).ints("axis", &[1]);
        let text = graph.node("CumProd", "x axis", "y", vec![("exclusive", Attr::Int(1))]).output("y").text(26);
        assert!(!text.contains("pad") && !text.contains("mul"), "{text}");
    }

    #[test]
    fn axes_are_read_where_the_opset_puts_them() {
        let attribute = || TestGraph::default().input("x", Float, &["2", "3"]);
        let attributes = || vec![("axes", Attr::Ints(&[-1])), ("keepdims", Attr::Int(0))];
        let text = attribute().node("ReduceMean", "x", "y", attributes()).output("y").text(17);
        assert!(text.contains("reduceMean %0 axes=[1]"), "{text}");
        let input = || TestGraph::default().input("x", Float, &["2", "3"]).ints("axes", &[0]);
        for (operator, opset) in [("ReduceSum", 13), ("ReduceMax", 18)] {
            let text = input().node(operator, "x axes", "y", vec![]).output("y").text(opset);
            assert!(text.contains("axes=[0] keepDimensions=true"), "{text}");
        }
    }

    #[test]
    fn no_axes_are_all_or_none() {
        let reduce = |operator: &str, noop| {
            let graph = TestGraph::default().input("x", Float, &["2", "3"]);
            graph.node(operator, "x", "y", vec![("noop_with_empty_axes", Attr::Int(noop))]).output("y").text(18)
        };
        assert!(reduce("ReduceSum", 0).contains("reduceSum %0 axes=[0, 1]"));
        assert!(reduce("ReduceSum", 1).contains("identity %0"));
        assert!(reduce("ReduceSumSquare", 1).contains("reduceSumSquare %0 axes=[]"));
    }

    #[test]
    fn the_product_of_no_numbers_is_one() {
        let graph = TestGraph::default().input("x", Int64, &["0"]).node("ReduceProd", "x", "y", vec![]).output("y");
        let graph = graph.import(13, &Default::default()).unwrap();
        let output = graph.nodes.last().unwrap().inputs[0].unwrap();
        assert_eq!(graph.value(output).constant().unwrap().buffer().unwrap().bytes(), 1i64.to_le_bytes());
    }

    #[test]
    fn softmax_counts_dimensions_as_one_before_opset_13() {
        let softmax = |opset| {
            let graph = TestGraph::default().input("x", Float, &["2", "3", "4"]);
            graph.node("Softmax", "x", "y", vec![]).output("y").text(opset)
        };
        assert!(softmax(12).contains("%1 = reshape %0 newShape=[2, 12]"), "{}", softmax(12));
        assert!(softmax(13).contains("%1 = softmax %0 axis=2"));
    }

    #[test]
    fn the_last_index_is_found_from_the_end() {
        let graph = TestGraph::default().input("x", Float, &["2", "3"]);
        let text = graph.node("ArgMax", "x", "y", vec![("select_last_index", Attr::Int(1))]).output("y").text(13);
        assert!(text.contains("reverse %0 axes=[0]") && text.contains("sub %"), "{text}");
    }
}
