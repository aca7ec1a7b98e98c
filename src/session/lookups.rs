//! Checks of feeds beyond types and shapes, before a run begins: elements used as indices into the model's tables, and
//! the lengths of caches.

use super::SessionOptions;
use super::signature::{Shapes, Signature, data_type};
use super::value::Feed;
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::error::{Code, Error, Result};
use crate::memory::elements;
use crate::onnx::error::quoted;
use crate::onnx::lookups::{Cached, Lookup, asked};
use crate::onnx::model::Dimension;
use crate::onnx::{Model, Request};
use crate::runtime::{Backend, Site};
use std::collections::HashMap;

/// The dimension along which a cache grows.
const LENGTH: usize = 2;

/// The checks of a session, with inputs by index.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Inputs whose elements are indices into tables, with these tables.
    places: Vec<(usize, Vec<Lookup>)>,
    /// Caches, each with another cache that must have the same length.
    caches: Vec<[usize; 2]>,
}

/// The pairs of caches that must have the same length: those of attention to the same tokens, if the model gives their
/// lengths the same name.
fn same_lengths(signature: &Signature, caches: &[Cached]) -> Vec<[usize; 2]> {
    let mut first: HashMap<(&str, &str), usize> = HashMap::new();
    let mut same = Vec::new();
    for (name, total) in caches.iter().flat_map(|one| one.inputs.iter().map(|name| (name, one.total.as_str()))) {
        let Some(at) = signature.inputs.iter().position(|input| input.name == *name) else { continue };
        let shape = signature.inputs[at].shape.as_deref().unwrap_or_default();
        let Some(Dimension::Free(length)) = shape.get(LENGTH) else { continue };
        let other = *first.entry((total, length.as_str())).or_insert(at);
        if other != at {
            same.push([at, other]);
        }
    }
    same
}

impl Checks {
    /// The checks for a session of `model`.
    ///
    /// # Errors
    /// If a node is malformed.
    pub fn of(model: &Model, signature: &Signature, options: &SessionOptions) -> Result<Checks> {
        let request = Request { outputs: options.outputs.clone(), ..Request::default() };
        let wanted = request.wanted(model).map_err(|error| error.into_error())?;
        let shape = |constant: &super::Constant| (constant.name.clone(), numbers(&constant.descriptor.shape));
        let constants = options.constants.iter().map(shape).collect();
        let asked = asked(model, &wanted, constants).map_err(|error| error.into_error())?;
        let mut lookups: HashMap<String, Vec<Lookup>> = HashMap::new();
        for lookup in asked.lookups {
            lookups.entry(lookup.input.clone()).or_default().push(lookup);
        }
        let mut places = Vec::new();
        for (at, input) in signature.inputs.iter().enumerate() {
            let is_index = matches!(data_type(input), Some(DataType::Int32 | DataType::Int64));
            if let Some(own) = lookups.remove(&input.name).filter(|_| is_index) {
                places.push((at, own));
            }
        }
        Ok(Checks { places, caches: same_lengths(signature, &asked.caches) })
    }

    /// Rejects caches of different lengths, and feeds with elements outside of a table. Feeds on a GPU are not checked:
    /// reading them back would take longer than many runs.
    ///
    /// # Errors
    /// A TypeError that names the first such input.
    pub fn check(&self, site: &Site, signature: &Signature, shapes: &Shapes, feeds: &[Feed]) -> Result<()> {
        for &[cache, other] in &self.caches {
            if shapes[cache].get(LENGTH) != shapes[other].get(LENGTH) {
                let [name, longer] = [cache, other].map(|at| quoted(&signature.inputs[at].name));
                let (got, expected) = (&shapes[cache], &shapes[other]);
                let message =
                    format!("run: feed {name} has shape {got:?} and {longer} {expected:?}, expected equal lengths");
                return Err(Error::coded(Code::Shape, message));
            }
        }
        for (at, tables) in &self.places {
            let input = &signature.inputs[*at];
            let copied;
            let bytes = match &feeds[*at] {
                Feed::Bytes(bytes) => bytes.bytes(),
                Feed::Items(_) => continue,
                Feed::Cache(cache) => {
                    copied = cache.to_dense()?;
                    copied.bytes()
                }
                Feed::Tensor(_) if matches!(site.backend, Backend::Gpu(_)) => continue,
                Feed::Tensor(tensor) => {
                    // The run itself reports a bad tensor.
                    let Ok(bytes) = tensor.copy() else { continue };
                    copied = bytes;
                    copied.bytes()
                }
            };
            for table in tables {
                let outside = match data_type(input) {
                    Some(DataType::Int64) => outside(elements::<i64>(bytes), table),
                    Some(DataType::Int32) => outside(elements::<i32>(bytes), table),
                    _ => None,
                };
                if let Some((place, number)) = outside {
                    return Err(refusal(table, &indices(place, &shapes[*at]), number));
                }
            }
        }
        Ok(())
    }
}

/// The first of `numbers` that is outside of `table`: its index and value.
fn outside<T: Copy + Into<i64>>(numbers: &[T], table: &Lookup) -> Option<(usize, i64)> {
    let [first, last] = bounds(table);
    let numbers = numbers.iter().map(|&number| number.into()).enumerate();
    numbers.into_iter().find(|(_, number)| !(first..=last).contains(number))
}

/// The smallest and the largest valid index of a table.
fn bounds(table: &Lookup) -> [i64; 2] {
    let length = i64::from(table.length);
    [if table.counts_back { -length } else { 0 }, length - 1]
}

/// The indices of the element at the flat index `place` of a tensor.
fn indices(mut place: usize, shape: &[u32]) -> Vec<usize> {
    let mut indices = Vec::with_capacity(shape.len());
    for &size in shape.iter().rev() {
        indices.push(place % size as usize);
        place /= size as usize;
    }
    indices.reverse();
    indices
}

fn refusal(table: &Lookup, indices: &[usize], number: i64) -> Error {
    let Lookup { input, node, operator, length, .. } = table;
    let [first, last] = bounds(table);
    let message = format!(
        "run: feed {} has {number} at {indices:?}, expected {first} to {last}: [{node}] {operator} looks it up in a table of \
         {length}",
        quoted(input)
    );
    Error::coded(Code::Index, message)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{context, finished, model, run, session};
    use super::super::{Output, Session, Target};
    use super::*;
    use crate::memory::{Buffer, bytes_of};
    use crate::onnx::tensor::ElementType::{Float, Int32, Int64};
    use crate::onnx::testing::{Attr, TestGraph};
    use crate::runtime::{Slot, Tensor};
    use crate::shape::Descriptor;
    use std::sync::Arc;

    /// Three rows of two numbers.
    fn embedding() -> TestGraph {
        TestGraph::default()
            .input("ids", Int64, &["batch", "sequence"])
            .floats("table", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .node("Gather", "table ids", "y", vec![])
            .output("y")
    }

    fn ids(numbers: &[i64]) -> Vec<u8> {
        bytes_of(numbers).to_vec()
    }

    #[test]
    fn ids_outside_of_a_table_are_refused_and_the_next_run_is_right() {
        let session = session(embedding(), SessionOptions::default());
        let feed = |numbers: &[i64]| [(ids(numbers), Some(vec![2, numbers.len() as u32 / 2]))];
        for (numbers, at, number) in
            [(&[0, 1, 2, 3], "[1, 1]", 3), (&[0, -4, 2, 1], "[0, 1]", -4), (&[i64::MIN, 0, 0, 9], "[0, 0]", i64::MIN)]
        {
            let error = run(&session, &feed(numbers)).unwrap_err();
            let expected = format!(
                "run: feed \"ids\" has {number} at {at}, expected -3 to 2: [y] Gather looks it up in a table of 3"
            );
            assert_eq!((error.code, error.message), (Some(Code::Index), expected));
            assert_eq!(run(&session, &feed(&[2, -3])).unwrap(), [(vec![2, 1, 2], vec![5.0, 6.0, 1.0, 2.0])]);
        }
        assert_eq!(run(&session, &[(Vec::new(), Some(vec![2, 0]))]).unwrap()[0].0, [2, 0, 2]);
    }

    #[test]
    fn tensors_are_checked_too() {
        let session = session(embedding(), SessionOptions::default());
        let tensor = |numbers: &[i64]| {
            let tensor = Tensor::new(Descriptor::new(DataType::Int64, [1u32, 2].as_slice()));
            tensor.fill(&Backend::Cpu, Arc::new(Buffer::copy_of(bytes_of(numbers)).unwrap())).unwrap();
            Arc::new(tensor)
        };
        let run = |feed: Arc<Tensor>| {
            let values = Arc::new(Slot::default());
            let (feeds, targets) = (vec![Feed::Tensor(feed)], vec![Target::Read]);
            finished(|done| session.run(Shapes::from_iter([[1, 2]]), feeds, targets).enqueue(values.clone(), done))?;
            Ok(values.take().unwrap().pop().unwrap())
        };
        let wrong: Result<Option<Output>> = run(tensor(&[0, 7]));
        assert!(wrong.is_err_and(|error| error.code == Some(Code::Index)));
        let Some(Output::Bytes { bytes, .. }) = run(tensor(&[1, -1])).unwrap() else { panic!("it is read") };
        assert_eq!(elements::<f32>(bytes.bytes()), [3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn positions_do_not_count_back_and_constants_are_tables() {
        let graph = TestGraph::default()
            .input("x", Float, &["1", "n", "2"])
            .input("positions", Int32, &["1", "n"])
            .input("cos", Float, &["m", "1"])
            .input("sin", Float, &["m", "1"])
            .node("com.microsoft.RotaryEmbedding", "x positions64 cos sin", "y", vec![("num_heads", Attr::Int(1))])
            .node("Cast", "positions", "positions64", vec![("to", Attr::Int(7))])
            .output("y");
        let constant = |name: &str, numbers: [f32; 4]| super::super::Constant {
            name: name.into(),
            descriptor: Descriptor::new(DataType::Float32, [4u32, 1].as_slice()),
            bytes: Arc::new(Buffer::copy_of(bytes_of(&numbers)).unwrap()),
        };
        let constants = vec![constant("cos", [1.0, 0.0, -1.0, 0.0]), constant("sin", [0.0, 1.0, 0.0, -1.0])];
        let options = SessionOptions { constants, ..Default::default() };
        let session = Arc::new(Session::open(model(graph), context(), options).unwrap());
        let feeds = |position: i32| {
            [(bytes_of(&[2.0f32, 3.0]).to_vec(), Some(vec![1, 1, 2])), (bytes_of(&[position]).to_vec(), None)]
        };
        assert_eq!(run(&session, &feeds(1)).unwrap()[0].1, [-3.0, 2.0]);
        for position in [-1, 4] {
            let error = run(&session, &feeds(position)).unwrap_err();
            let expected =
                format!("run: feed \"positions\" has {position} at [0, 0], expected 0 to 3: [y] RotaryEmbedding");
            assert!(error.code == Some(Code::Index) && error.message.starts_with(&expected), "{error}");
        }
        assert_eq!(run(&session, &feeds(2)).unwrap()[0].1, [-2.0, -3.0]);
    }
}
