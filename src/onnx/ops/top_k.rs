//! `TopK`: the largest or smallest elements along a dimension, in order.

use super::generate::places;
use super::reduce::arg_operand;
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::gather::GatherElements;
use crate::ops::pad::Pad;
use crate::ops::reverse::Reverse;
use crate::shape::Descriptor;

/// Maximum `K` for which each element is found by a search, with operators of its own. For more, the elements are
/// sorted.
const MAX_SEARCHES: u32 = 128;

/// A search: a tensor, and which of its elements are not found yet.
struct Search {
    x: OperandId,
    axis: u32,
    largest: bool,
    /// The index of every element along the axis.
    all: OperandId,
    /// The value that comes last in the order, in place of found elements.
    worst: OperandId,
    /// 1 for elements that are not found yet; `None` at the start.
    left: Option<OperandId>,
}

impl Search {
    /// The value and the index of the next element.
    fn next(&mut self, call: &mut Call) -> Step<[OperandId; 2]> {
        let Search { x, axis, largest, worst, .. } = *self;
        let Some(left) = self.left else {
            let place = arg_operand(call, x, largest, axis, true)?;
            self.left = Some(call.emit(E::NotEqual, &[self.all, place])?);
            return Ok([call.emit(GatherElements { axis }, &[x, place])?, place]);
        };
        let candidates = call.select(left, x, worst)?;
        let place = arg_operand(call, candidates, largest, axis, true)?;
        let value = call.emit(GatherElements { axis }, &[candidates, place])?;
        // If only worst values remain, they cannot be told from found elements.
        let is_better = call.emit(E::NotEqual, &[value, worst])?;
        let first_left = arg_operand(call, left, true, axis, true)?;
        let place = call.select(is_better, place, first_left)?;
        let others = call.emit(E::NotEqual, &[self.all, place])?;
        self.left = Some(call.emit(E::LogicalAnd, &[left, others])?);
        Ok([value, place])
    }
}

/// Which elements come first, and the number that comes last.
struct Order {
    largest: bool,
    worst: Number,
}

/// A network of comparisons that moves the first elements of the order to the front: bitonic sorting, by operators that
/// each work on all elements. `[keys, places]` have shape `[outer, count, inner]`; `count` is a power of two.
struct Network {
    largest: bool,
    line: [OperandId; 2],
}

impl Network {
    /// Compares elements between the two halves of every `2 * distance` neighbors, and moves the one that comes first
    /// in the order to the first half. If `mirrored`, the first of a half meets the last of the other. `halve` drops
    /// the second halves.
    fn compare(&mut self, call: &mut Call, distance: u32, mirrored: bool, halve: bool) -> Step<()> {
        let mut halves = [[self.line[0]; 2]; 2];
        for (operand, halves) in self.line.into_iter().zip(&mut halves) {
            let [outer, count, inner] = call.dims(operand, "the input")?;
            let blocks = call.reshape(operand, &[outer, count / (2 * distance), Dim::from(2 * distance), inner])?;
            let [first, second] = call.split(blocks, &[distance; 2], 2)?[..] else { unreachable!("two halves") };
            let turned = mirrored && distance > 1;
            *halves = [first, if turned { call.emit(Reverse { axes: Some(vec![2]) }, &[second])? } else { second }];
        }
        let [keys, places] = halves;
        // Equal elements are ordered by their places: no two elements are the same.
        let is_better = call.emit(if self.largest { E::Greater } else { E::Lesser }, &keys)?;
        let is_equal = call.emit(E::Equal, &keys)?;
        let is_before = call.emit(E::Lesser, &places)?;
        let is_before = call.emit(E::LogicalAnd, &[is_equal, is_before])?;
        let stays = call.emit(E::LogicalOr, &[is_better, is_before])?;
        for (operand, [first, second]) in self.line.iter_mut().zip(halves) {
            let mut chosen = call.select(stays, first, second)?;
            if !halve {
                let other = call.select(stays, second, first)?;
                chosen = call.concat(&[chosen, other], 2)?;
            }
            let [outer, blocks, size, inner] = call.dims(chosen, "the input")?;
            *operand = call.reshape(chosen, &[outer, blocks * size, inner])?;
        }
        Ok(())
    }

    /// Merges every two sorted runs of `size` elements into one of twice the size, or, if `halve`, into the first
    /// `size` of them.
    fn join(&mut self, call: &mut Call, size: u32, halve: bool) -> Step<()> {
        self.compare(call, size, true, halve)?;
        let mut distance = size / 2;
        while distance > 0 {
            self.compare(call, distance, false, false)?;
            distance /= 2;
        }
        Ok(())
    }
}

/// The smallest power of two not below `count`; records the sizes for which it is the result.
fn next_power_of_two(count: Dim) -> u32 {
    let power = (count.shown() as u32).next_power_of_two();
    let holds = count <= power && count * 2 > power;
    debug_assert!(holds || power == 1);
    power
}

/// The indices of the first `k` elements of `x` along `axis`.
fn sorted(call: &mut Call, x: OperandId, axis: usize, order: Order, k: Dim) -> Step<OperandId> {
    let Order { largest, worst } = order;
    let shape = call.shape(x);
    let count = shape[axis];
    let [outer, inner] = [&shape[..axis], &shape[axis + 1..]].map(|sizes| sizes.iter().copied().product::<Dim>());
    let [width, all] = [k, count].map(next_power_of_two);
    let mut keys = call.reshape(x, &[outer, count, inner])?;
    if call.dtype(x).is_float() {
        // As in a search, NaN comes before every number.
        let best = call.scalar_like(x, if largest { f64::INFINITY } else { f64::NEG_INFINITY })?;
        let is_nan = call.emit(E::IsNaN, &[keys])?;
        keys = call.select(is_nan, best, keys)?;
    }
    if count < all {
        let (beginning, ending) = (vec![Dim::ZERO; 3], vec![Dim::ZERO, Dim::from(all) - count, Dim::ZERO]);
        keys = call.emit(Pad { beginning, ending, value: worst, ..Default::default() }, &[keys])?;
    }
    // Padding comes last because of its places.
    let places = places(call, DataType::Int32, all, 1, 3)?;
    let mut network = Network { largest, line: [keys, places] };
    let mut size = 1;
    while size < width {
        network.join(call, size, false)?;
        size *= 2;
    }
    let mut left = all;
    while left > width {
        network.join(call, width, true)?;
        left /= 2;
    }
    let found = call.slice_axis(network.line[1], 1, 0u32, k)?;
    let found = call.cast(found, DataType::Int64)?;
    call.reshape(found, &[&shape[..axis], &[k], &shape[axis + 1..]].concat())
}

/// `K` is an attribute before opset 10, a constant since then.
fn top_k(call: &mut Call) -> Outcome {
    let mut shape = call.input_shape(0)?;
    let axis = call.axis(call.int_or("axis", -1), shape.len())?;
    let size = shape[axis as usize];
    let k = match call.opset < 10 {
        true => Dim::number(call.int_attribute("k").ok_or("k is missing")?),
        false => call.one_dim(1).map_or_else(|| call.one_int(1, "K").map(Dim::number), Ok)?,
    };
    if k < 0 || k > size {
        return Err(Refusal(format!("K is {k}, expected at most {size}, the size of the dimension")));
    }
    shape[axis as usize] = k;
    if shape.iter().any(|&size| size == 0) {
        let dtype = call.input_type(0).ok_or("the input is of a type that WebNN does not have")?;
        let empty = |dtype| Value::Empty(Descriptor::new(dtype, shape.clone()));
        return Ok(vec![empty(dtype), empty(DataType::Int64)]);
    }
    let x = call.input(0)?;
    let largest = call.int_or("largest", 1) != 0;
    let worst = match (call.dtype(x).integer_range(), largest) {
        (Some((min, _)), true) => Number::Int(min),
        (Some((_, max)), false) => Number::Int(max),
        (None, true) => Number::Float(f64::NEG_INFINITY),
        (None, false) => Number::Float(f64::INFINITY),
    };
    // A search per element requires a known number.
    if !k.is_number() || k > MAX_SEARCHES {
        let found = sorted(call, x, axis as usize, Order { largest, worst }, k)?;
        let values = call.emit(GatherElements { axis }, &[x, found])?;
        return Ok([values, found].map(Value::Tensor).to_vec());
    }
    let worst = call.scalar(call.dtype(x), worst)?;
    let all = places(call, DataType::Int64, size, axis as usize, call.rank(x))?;
    let mut search = Search { x, axis, largest, all, worst, left: None };
    let (mut values, mut found) = (Vec::new(), Vec::new());
    for _ in 0..k.get() {
        let [value, place] = search.next(call)?;
        values.push(value);
        found.push(place);
    }
    let (values, found) = (call.concat(&values, axis)?, call.concat(&found, axis)?);
    Ok([values, found].map(Value::Tensor).to_vec())
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[standard("TopK", "constant K", top_k)];

#[cfg(test)]
mod tests {
    use crate::dtype::{DataType, Number};
    use crate::onnx::import::Request;
    use crate::onnx::tensor::ElementType::{Float, Int32};
    use crate::onnx::testing::{Attr, TestGraph};
    use crate::ops::tensor::Tensor;
    use crate::shape::Descriptor;
    use crate::testing::Random;
    use std::collections::HashMap;

    #[test]
    fn one_element_needs_one_search() {
        let graph = TestGraph::default().input("x", Float, &["2", "5"]).ints("k", &[1]);
        let text = graph.node("TopK", "x k", "values indices", vec![]).output("values").output("indices").text(11);
        assert_eq!(text.matches("argMax").count(), 1, "{text}");
    }

    #[test]
    fn k_is_at_most_the_size_of_the_dimension() {
        let graph = TestGraph::default().input("x", Float, &["2", "5"]);
        let refusal = graph.node("TopK", "x", "values indices", vec![("k", Attr::Int(6))]).output("values").refusal(9);
        assert!(refusal.contains("K is 6, expected at most 5, the size of the dimension"), "{refusal}");
    }

    /// The results for `x` along the middle one of three dimensions: values and indices.
    fn top_k(x: &Tensor, k: i64, largest: bool) -> [Tensor; 2] {
        let Descriptor { dtype, shape } = x.descriptor();
        let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
        let element = if dtype.is_float() { Float } else { Int32 };
        let attributes = vec![("axis", Attr::Int(1)), ("largest", Attr::Int(largest as i64))];
        let graph = TestGraph::default().input("x", element, &dims).ints("k", &[k]);
        let graph = graph.node("TopK", "x k", "values places", attributes).output("values").output("places");
        let graph = graph.import(11, &Request::default()).unwrap();
        let inputs = HashMap::from([("x".to_string(), x.clone())]);
        let mut outputs = crate::reference::run(&graph, &inputs);
        ["values", "places"].map(|name| outputs.remove(name).unwrap())
    }

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        let numbers = crate::onnx::tensor::numbers(tensor.descriptor().dtype, &tensor.to_bytes());
        numbers.into_iter().map(Number::to_f64).collect()
    }

    #[test]
    fn many_elements_are_sorted() {
        let mut random = Random::new(7);
        let shape = [2, 300, 3];
        let mut check = |dtype: DataType, specials: &[f64], k: usize, largest: bool| {
            // Few distinct values: most occur several times.
            let x = Tensor::from_fn(&Descriptor::new(dtype, shape), |_| {
                let at = (random.next() % 40) as usize;
                Number::Float(specials.get(at).copied().unwrap_or(at as f64)).cast(dtype)
            });
            let results = top_k(&x, k as i64, largest).map(|tensor| numbers(&tensor));
            let x = numbers(&x);
            // NaN comes first.
            let first = |a: f64, b: f64| {
                let numbers = if largest { b.partial_cmp(&a) } else { a.partial_cmp(&b) };
                numbers.unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
            };
            for line in 0..6 {
                let (outer, inner) = (line / 3, line % 3);
                let mut places: Vec<usize> = (0..300).collect();
                let value = |place: usize| x[(outer * 300 + place) * 3 + inner];
                places.sort_by(|&a, &b| first(value(a), value(b)));
                for (at, place) in places.into_iter().take(k).enumerate() {
                    let [got, found] = [0, 1].map(|output| results[output][(outer * k + at) * 3 + inner]);
                    let expected = value(place);
                    // NaN and the infinity on its side of the order are equivalent.
                    let is_same = got == expected || got.is_nan() && expected.is_nan();
                    let is_top = got.is_infinite() && expected.is_nan() || got.is_nan() && expected.is_infinite();
                    assert!(is_same || is_top, "{dtype:?} {k} {largest}: [{at}] is {got}, expected {expected}");
                    if specials.is_empty() {
                        assert_eq!(found, place as f64, "{dtype:?} {k} {largest}: the place of [{at}]");
                    }
                }
                let places = (0..k).map(|at| results[1][(outer * k + at) * 3 + inner] as usize);
                let distinct: std::collections::HashSet<usize> = places.filter(|&place| place < 300).collect();
                assert_eq!(distinct.len(), k);
            }
        };
        for largest in [true, false] {
            for k in [129, 200, 256, 300] {
                check(DataType::Float32, &[], k, largest);
            }
            check(DataType::Int32, &[], 290, largest);
            check(DataType::Int32, &[i32::MAX as f64, i32::MIN as f64], 300, largest);
            check(DataType::Float32, &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY], 300, largest);
        }
    }
}
