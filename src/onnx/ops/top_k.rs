//! `TopK`: the largest or smallest elements along a dimension, in order.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::onnx::call::Call;
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::extension::top_k::TopK;
use crate::ops::gather::GatherElements;
use crate::shape::Descriptor;

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
    let places = call.emit(TopK { axis, count: k, largest }, &[x])?;
    let values = call.emit(GatherElements { axis }, &[x, places])?;
    Ok([values, places].map(Value::Tensor).to_vec())
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
