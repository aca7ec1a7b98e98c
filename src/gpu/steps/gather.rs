//! Gathering and scattering: elements at places given by another tensor.

use crate::dtype::DataType;
use crate::gpu::kernel::{Bound, Dispatch, Parameters, WORKGROUP, grid, header};
use crate::gpu::lower::Lowering;
use crate::gpu::map::Readable;
use crate::ops::gather::{Gather, GatherElements};
use crate::ops::scatter::ScatterElements;
use crate::shape::strides;

/// The text of a function that returns the place, among `size`, that element `i` of the indices selects: negative
/// indices count from the end; the result is clamped.
fn clamped(l: &Lowering, index: usize) -> String {
    let dtype = l.input(index).dtype;
    let suffix = l.dialect.suffix(dtype);
    format!(
        "fn place(i: u32, size: u32) -> u32 {{
  let index = indices(i);
  let limit = u32_to_{suffix}(size);
  let moved = select(index, add_{suffix}(index, limit), less_{suffix}(index, zero_{suffix}()));
  if (less_{suffix}(moved, zero_{suffix}())) {{ return 0u; }}
  if (!less_{suffix}(moved, limit)) {{ return size - 1u; }}
  return {suffix}_to_u32(moved);
}}
"
    )
}

/// `gather()`.
pub fn gather(op: &Gather, l: &mut Lowering) {
    let input = &l.input(0).sizes();
    let axis = op.axis as usize;
    let inner: u32 = input[axis + 1..].iter().product();
    // Parameters: elements after the axis, number of indices, size along the axis.
    let parameters = Parameters(vec![inner, l.input(1).elements() as u32, input[axis]]);
    let functions = clamped(l, 1)
        + "fn value(i: u32) -> x_value {
  let inner = parameter(0u);
  let count = parameter(1u);
  let row = i / inner;
  let at = row / count * parameter(2u) + place(row % count, parameter(2u));
  return x(at * inner + i % inner);
}
";
    let inputs = vec![l.readable("x", 0), l.readable("indices", 1)];
    l.map(0, "gather", inputs, &functions, parameters);
}

/// `gatherElements()`.
pub fn gather_elements(op: &GatherElements, l: &mut Lowering) {
    let input = &l.input(0).sizes();
    let axis = op.axis as usize;
    let inner: u32 = input[axis + 1..].iter().product();
    // Parameters: elements after the axis, size along the axis of the indices and of the input.
    let parameters = Parameters(vec![inner, l.input(1).sizes()[axis], input[axis]]);
    let functions = clamped(l, 1)
        + "fn value(i: u32) -> x_value {
  let inner = parameter(0u);
  let outer = i / (inner * parameter(1u));
  return x((outer * parameter(2u) + place(i, parameter(2u))) * inner + i % inner);
}
";
    let inputs = vec![l.readable("x", 0), l.readable("indices", 1)];
    l.map(0, "gatherElements", inputs, &functions, parameters);
}

/// `gatherND()`.
pub fn gather_nd(l: &mut Lowering) {
    let parameters = coordinates(&l.input(0).sizes(), &l.input(1).sizes());
    let functions = clamped(l, 1)
        + COORDINATES
        + "fn value(i: u32) -> x_value {
  let inner = parameter(0u);
  return x(start(i / inner) + i % inner);
}
";
    let inputs = vec![l.readable("x", 0), l.readable("indices", 1)];
    l.map(0, "gatherND", inputs, &functions, parameters);
}

/// Parameters: elements per slice that a row of coordinates selects, number of coordinates, then size and stride of
/// each dimension that they cover.
fn coordinates(input: &[u32], indices: &[u32]) -> Parameters {
    let covered = *indices.last().expect("the rule requires rank 1") as usize;
    let mut parameters = Parameters(vec![input[covered..].iter().product(), covered as u32]);
    let own = strides(input);
    for axis in 0..covered {
        parameters.extend([input[axis], own[axis] as u32]);
    }
    parameters
}

/// The function `start(row)`, which returns the place of the slice that a row of the indices selects.
const COORDINATES: &str = "
fn start(row: u32) -> u32 {
  let covered = parameter(1u);
  var at = 0u;
  for (var d = 0u; d < covered; d = d + 1u) {
    at = at + place(row * covered + d, parameter(2u + 2u * d)) * parameter(3u + 2u * d);
  }
  return at;
}
";

/// `scatterElements()`.
pub fn scatter_elements(op: &ScatterElements, l: &mut Lowering) {
    let (input, indices) = (&l.input(0).sizes(), &l.input(1).sizes());
    let axis = op.axis as usize;
    let inner: u32 = input[axis + 1..].iter().product();
    // Parameters: elements after the axis, size along the axis of the indices and of the input.
    let parameters = Parameters(vec![inner, indices[axis], input[axis]]);
    let target = "fn target_of(i: u32) -> u32 {
  let inner = parameter(0u);
  let outer = i / (inner * parameter(1u));
  return (outer * parameter(2u) + place(i, parameter(2u))) * inner + i % inner;
}
";
    scatter(l, parameters, clamped(l, 1) + target, 1);
}

/// `scatterND()`.
pub fn scatter_nd(l: &mut Lowering) {
    let parameters = coordinates(&l.input(0).sizes(), &l.input(1).sizes());
    let slice = parameters.0[0];
    let target = "fn target_of(i: u32) -> u32 { return start(i) / parameter(0u); }\n";
    scatter(l, parameters, clamped(l, 1) + COORDINATES + target, slice);
}

/// Replaces slices of `slice` elements: update `i` goes to the slice number `target_of(i)`. If several updates go to
/// one slice, the last one wins, in whatever order the device works: first, each slice finds its highest update number,
/// then each element takes that update's value.
fn scatter(l: &mut Lowering, parameters: Parameters, functions: String, slice: u32) {
    let slices = l.outputs[0].elements() as u32 / slice;
    let updates = l.input(2).elements() as u32 / slice;
    let owners = l.scratch(slices as usize * 4);
    let clear = Fill { elements: slices, target: owners };
    clear.dispatch(l);
    let dialect = l.dialect;
    let text = header(dialect).to_string()
        + &dialect.readable(1, "indices", l.input(1).dtype)
        + "@group(0) @binding(2) var<storage, read_write> owners: array<atomic<u32>>;\n"
        + &functions
        + include_str!("../shaders/each.wgsl")
        + "fn each(i: u32) { atomicMax(&owners[target_of(i)], i + 1u); }\n";
    l.dispatch(Dispatch {
        name: "scatter",
        source: text,
        bindings: vec![Bound::Input(1), owners],
        parameters,
        elements: updates,
        workgroups: grid(updates.div_ceil(WORKGROUP)),
    });
    let inputs = vec![
        l.readable("x", 0),
        l.readable("updates", 2),
        Readable { name: "owner", bound: owners, dtype: DataType::Uint32 },
    ];
    let functions = "fn value(i: u32) -> x_value {
  let slice = parameter(0u);
  let owner = owner(i / slice);
  if (owner == 0u) { return x(i); }
  return updates((owner - 1u) * slice + i % slice);
}
";
    l.map(0, "scatter", inputs, functions, Parameters(vec![slice]));
}

/// Writes zeros.
struct Fill {
    elements: u32,
    target: Bound,
}

impl Fill {
    fn dispatch(self, l: &mut Lowering) {
        let text = header(l.dialect).to_string()
            + "@group(0) @binding(1) var<storage, read_write> words: array<u32>;\n"
            + include_str!("../shaders/each.wgsl")
            + "fn each(i: u32) { words[i] = 0u; }\n";
        l.dispatch(Dispatch {
            name: "fill",
            source: text,
            bindings: vec![self.target],
            parameters: Parameters(vec![0]),
            elements: self.elements,
            workgroups: grid(self.elements.div_ceil(WORKGROUP)),
        });
    }
}
