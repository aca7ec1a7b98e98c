//! The steps of `gather`, `gatherND` and `gatherElements`.

use super::{Env, Run};
use crate::cpu::kernels::gather::{Coordinate, GatherElements, Index, gather_rows, rows};
use crate::cpu::memory::Io;
use crate::cpu::product::panel_data::Unpacked;
use crate::cpu::product::panels::Panels;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::dtype::{DataType, Element};
use crate::memory::Buffer;
use crate::ops::gather::Gather;
use crate::shape::{Descriptor, elements, strides};
use crate::{with_index, with_storage};
use half::f16;
use std::sync::Arc;

/// Minimum elements in a thread's range if they are moved one by one.
const GRAIN: usize = 1024;

/// The rows of a tensor that an index tensor refers to.
pub struct IndexedRows {
    index_type: DataType,
    coordinates: Vec<Coordinate>,
    /// Number of rows referred to.
    count: usize,
    /// Elements per row.
    pub row_len: usize,
}

impl IndexedRows {
    /// The last dimension of `indices` holds coordinates into the first dimensions of `input`; the other dimensions
    /// form a row.
    pub fn by_coordinates(input: &Descriptor, indices: &Descriptor) -> IndexedRows {
        let (sizes, input) = (indices.sizes(), input.sizes());
        let (&dimensions, batch) = sizes.split_last().expect("the rule requires rank 1");
        let (indexed, row) = input.split_at(dimensions as usize);
        let coordinates = indexed.iter().map(|&size| size as usize).zip(strides(indexed)).collect();
        IndexedRows { index_type: indices.dtype, coordinates, count: elements(batch), row_len: elements(row) }
    }

    /// Each of `indices` is a position along a dimension of `size` positions with rows of `row_len` elements.
    fn along(size: usize, row_len: usize, indices: &Descriptor) -> IndexedRows {
        IndexedRows { index_type: indices.dtype, coordinates: vec![(size, 1)], count: indices.elements(), row_len }
    }

    /// Bytes of scratch memory for [`find`](Self::find).
    pub fn scratch_bytes(&self) -> usize {
        self.count * size_of::<u32>()
    }

    /// Reads the indices, which are operand 1, and writes the row numbers to the scratch memory.
    pub fn find<'a>(&self, env: &Env, io: &mut Io<'a>) -> &'a [u32] {
        let found = &mut io.scratch::<u32>()[..self.count];
        let group = self.coordinates.len();
        with_index!(self.index_type, I => {
            let indices = io.input::<I>(1);
            for_each_chunk(env.threads, found, 1, GRAIN, 2 * group, |first, found| {
                rows(&indices[first * group..][..found.len() * group], &self.coordinates, found);
            });
        });
        found
    }
}

/// Copies rows.
pub struct GatherStep {
    /// Bytes per element.
    size: usize,
    /// Rows per block of the input; row numbers are relative to a block, and the blocks are gathered one after another.
    block: usize,
    rows: IndexedRows,
}

impl GatherStep {
    /// Creates the step for `gather()` from `input`.
    pub fn new(op: &Gather, input: &Descriptor, indices: &Descriptor) -> GatherStep {
        let axis = op.axis as usize;
        let size = input.sizes()[axis] as usize;
        let rows = IndexedRows::along(size, elements(&input.sizes()[axis + 1..]), indices);
        GatherStep { size: input.dtype.size(), block: size, rows }
    }

    /// Creates the step for `gatherND()` from `input`.
    pub fn by_coordinates(input: &Descriptor, indices: &Descriptor) -> GatherStep {
        let rows = IndexedRows::by_coordinates(input, indices);
        GatherStep { size: input.dtype.size(), block: input.elements() / rows.row_len, rows }
    }
}

impl Run for GatherStep {
    fn kernel(&self) -> &'static str {
        "gather rows"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let rows = self.rows.find(env, io);
        with_storage!(self.size, T => {
            let (input, row_len) = (io.input::<T>(0), self.rows.row_len);
            let cost = (row_len * size_of::<T>()).div_ceil(8) + 1;
            for_each_chunk(env.threads, io.output(), row_len, GRAIN.div_ceil(row_len), cost, |first, out| {
                gather_rows(input, self.block, rows, row_len, first, out);
            });
        })
    }

    fn scratch_bytes(&self, _threads: usize) -> usize {
        self.rows.scratch_bytes()
    }
}

/// `gather()` of rows of a packed matrix.
pub struct PackedGatherStep {
    matrix: Panels,
    /// Whether the rows are the lanes of the packed matrix; otherwise they are its depth indices.
    lanes: bool,
    rows: IndexedRows,
}

impl PackedGatherStep {
    /// Creates the `gather()` from the matrix `input`, packed as `matrix`. `transposed` means that the product
    /// multiplies with the transposed matrix. Returns `None` if the step would gather anything but rows of the matrix.
    pub fn new(
        op: &Gather,
        [input, indices]: [&Descriptor; 2],
        matrix: &Panels,
        transposed: bool,
    ) -> Option<PackedGatherStep> {
        let rows = packed_rows(op, [input, indices], matrix, transposed)?;
        Some(PackedGatherStep { matrix: matrix.clone(), lanes: transposed, rows })
    }

    /// Adapts to indices of another shape; returns `false` if the step would then gather anything but rows.
    #[must_use]
    pub fn resize(&mut self, op: &Gather, operands: [&Descriptor; 2]) -> bool {
        let rows = packed_rows(op, operands, &self.matrix, self.lanes);
        rows.map(|rows| self.rows = rows).is_some()
    }
}

/// The rows that [`PackedGatherStep`] gathers.
fn packed_rows(
    op: &Gather,
    [input, indices]: [&Descriptor; 2],
    matrix: &Panels,
    transposed: bool,
) -> Option<IndexedRows> {
    let [lanes, depth] = matrix.sizes();
    let [count, row_len] = if transposed { [lanes, depth] } else { [depth, lanes] };
    let fits = op.axis == 0 && input.dtype == matrix.dtype() && input.shape == [count as u32, row_len as u32];
    fits.then(|| IndexedRows::along(count, row_len, indices))
}

impl Run for PackedGatherStep {
    fn kernel(&self) -> &'static str {
        "gather packed rows"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let rows = self.rows.find(env, io);
        match self.matrix.dtype() {
            DataType::Float16 => gather_packed(env, &self.matrix, self.lanes, rows, io.output::<f16>()),
            _ => gather_packed(env, &self.matrix, self.lanes, rows, io.output::<f32>()),
        }
    }

    fn scratch_bytes(&self, _threads: usize) -> usize {
        self.rows.scratch_bytes()
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        vec![self.matrix.buffer()]
    }
}

/// Copies rows of a packed matrix: its lanes if `lanes`, otherwise the elements of all lanes at one depth index each.
fn gather_packed<T: Element + Unpacked>(env: &Env, matrix: &Panels, lanes: bool, rows: &[u32], dst: &mut [T]) {
    let [count, depth] = matrix.sizes();
    let row_len = if lanes { depth } else { count };
    // Each element of a lane is in a cache line of its own.
    let cost = if lanes { 2 * row_len } else { row_len };
    for_each_chunk(env.threads, dst, row_len, GRAIN.div_ceil(row_len), cost, |first, part| {
        for (out, &row) in part.chunks_exact_mut(row_len).zip(&rows[first..]) {
            match lanes {
                true => matrix.copy_lane(row as usize, out),
                false => matrix.copy_depth(row as usize, out),
            }
        }
    });
}

/// The dimension along which elements are gathered or scattered, and the sizes around it.
pub struct Along {
    /// Bytes per element.
    element: usize,
    index_type: DataType,
    /// Positions of the input along the dimension.
    pub size: usize,
    /// Positions of the indices along the dimension.
    pub count: usize,
    /// Elements after the dimension.
    pub inner: usize,
}

impl Along {
    /// The dimension `axis`.
    pub fn new(axis: u32, input: &Descriptor, indices: &Descriptor) -> Along {
        let axis = axis as usize;
        Along {
            element: input.dtype.size(),
            index_type: indices.dtype,
            size: input.sizes()[axis] as usize,
            count: indices.sizes()[axis] as usize,
            inner: elements(&input.sizes()[axis + 1..]),
        }
    }

    /// Bytes per element.
    pub fn element(&self) -> usize {
        self.element
    }

    /// The data type of the indices.
    pub fn index_type(&self) -> DataType {
        self.index_type
    }
}

/// `gatherElements()`: copies single elements.
pub struct GatherElementsStep(pub Along);

impl GatherElementsStep {
    fn run_as<T: Element, I: Index>(&self, env: &Env, io: &mut Io) {
        let Along { size, count, inner, .. } = self.0;
        let (input, indices) = (io.input::<T>(0), io.input::<I>(1));
        for_each_chunk(env.threads, io.output(), inner, GRAIN.div_ceil(inner), 2 * inner, |first, out| {
            env.isa.run(GatherElements { src: input, size, indices, count, inner, first: first * inner, out });
        });
    }
}

impl Run for GatherElementsStep {
    fn kernel(&self) -> &'static str {
        "gather elements"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_storage!(self.0.element(), T => with_index!(self.0.index_type(), I => self.run_as::<T, I>(env, io)))
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;
    use crate::ir::parse;
    use crate::testing::{Random, Tolerance, check};
    use proptest::prelude::*;

    fn check_op(dtype: DataType, shape: &[u32], indices: &str, op: &str) {
        let (name, attributes) = op.split_once(' ').unwrap_or((op, ""));
        let text = format!(
            "%0 = input x {dtype} {shape:?}\n%1 = input i {indices}\n%2 = {name} %0 %1 {attributes}\noutput y = %2"
        );
        check(&parse(&text), Tolerance::EXACT);
    }

    #[test]
    fn every_type() {
        for dtype in DataType::OF_VALUES {
            for index in ["int32", "uint32", "int64"] {
                check_op(dtype, &[150, 3], &format!("{index} [5, 2]"), "gather");
                check_op(dtype, &[3, 150], &format!("{index} [3, 7]"), "gatherElements axis=1");
                check_op(dtype, &[20, 30, 2], &format!("{index} [6, 2]"), "gatherND");
            }
        }
    }

    #[test]
    fn edges() {
        let float = |shape: &[u32], indices, op| check_op(DataType::Float32, shape, indices, op);
        float(&[150], "int32 []", "gather");
        float(&[2, 150, 4], "int32 []", "gather axis=1");
        float(&[4, 150], "int32 [5, 6]", "gather axis=1");
        float(&[4, 150, 1, 1], "int32 [5]", "gather axis=1");
        float(&[150, 4], "int32 [3, 4]", "gatherElements");
        float(&[2, 150, 4], "int32 [2, 3, 4]", "gatherElements axis=1");
        float(&[150], "int32 [1]", "gatherND");
        float(&[3, 4, 5], "int32 [3]", "gatherND");
        float(&[3, 4, 5], "int32 [2, 2, 1]", "gatherND");
    }

    #[test]
    fn indices_are_clamped() {
        let indices = "%1 = constant int64 [9] 0 2 3 4 -1 -3 -4 9223372036854775807 -9223372036854775808";
        let text = format!(
            "%0 = input x int32 [3, 9]\n{indices}\n%2 = reshape %1 newShape=[9, 1]\n%3 = gather %0 %1\n\
             %4 = gatherND %0 %2\n%5 = reshape %1 newShape=[1, 9]\n%6 = gatherElements %0 %5\n\
             output a = %3\noutput b = %4\noutput c = %6"
        );
        check(&parse(&text), Tolerance::EXACT);
    }

    #[test]
    fn sizes_that_are_worth_threads() {
        let float = |shape: &[u32], indices, op| check_op(DataType::Float32, shape, indices, op);
        float(&[100, 300], "int32 [700]", "gather");
        float(&[300, 100], "int32 [700]", "gather axis=1");
        float(&[100, 300], "int32 [500, 300]", "gatherElements");
        float(&[300, 100], "int32 [300, 500]", "gatherElements axis=1");
        float(&[100, 100, 3], "int32 [40000, 2]", "gatherND");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn random_shapes(shape in prop::collection::vec(1u32..7, 1..5), batch in prop::collection::vec(1u32..5, 0..3), seed: u64) {
            let mut random = Random::new(seed);
            let mut pick = |n: usize| (random.next() % n as u64) as usize;
            let dtype = DataType::OF_VALUES[pick(9)];
            let index = ["int32", "uint32", "int64"][pick(3)];
            let axis = pick(shape.len());
            let (indices, op) = match pick(3) {
                0 => (batch, format!("gather axis={axis}")),
                1 => {
                    let mut indices = shape.clone();
                    indices[axis] = 1 + pick(9) as u32;
                    (indices, format!("gatherElements axis={axis}"))
                }
                _ => ([&batch[..], &[1 + axis as u32]].concat(), "gatherND".to_string()),
            };
            check_op(dtype, &shape, &format!("{index} {indices:?}"), &op);
        }
    }
}
