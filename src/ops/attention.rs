//! Attention, fused into one operator by the compiler: `softmax(scale * query * key^T, capped and masked) * value`, for
//! a batch of matrices with arbitrary layouts.

use super::attributes::{Attribute, Attributes};
use super::rule::*;
use super::tensor::{Data, Tensor};
use super::{Inputs, Operator, Tensors, required};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::{Descriptor, strides};

/// Where a batch's matrices are in a tensor, in elements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// The first element of the first matrix.
    pub offset: Dim,
    /// The stride of each dimension of the batch; 0 broadcasts.
    pub batch: Vec<Dim>,
    /// Distance between rows.
    pub row: Dim,
    /// Distance between columns.
    pub col: Dim,
}

/// What a mask does to the scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaskKind {
    /// The mask is added.
    Add,
    /// The mask is a condition: where it equals `when`, `value` replaces the score.
    Fill {
        /// The replacement.
        value: f64,
        /// The value of the condition that replaces.
        when: bool,
    },
}

/// A mask of the scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// What it does.
    pub kind: MaskKind,
    /// Where its matrices `[rows, keys]` are.
    pub places: Places,
}

/// Maximum number of masks of an attention.
pub const MAX_MASKS: usize = 2;

/// Attention with all its layouts. Operands are query, key, value and the masks, which are applied in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Dimensions of the batch: heads, and all dimensions in front of them.
    pub batch: Vec<Dim>,
    /// Rows of query and output.
    pub rows: Dim,
    /// Rows of key and value.
    pub keys: Dim,
    /// Columns of query and key.
    pub depth: Dim,
    /// Columns of value and output.
    pub columns: Dim,
    /// The factor of the products of query and key.
    pub scale: f64,
    /// Caps scores to `softcap * tanh(score / softcap)` before they are masked, unless it is 0.
    pub softcap: f64,
    /// Where the matrices `[rows, depth]` are.
    pub query: Places,
    /// Where the matrices `[keys, depth]` are.
    pub key: Places,
    /// Where the matrices `[keys, columns]` are.
    pub value: Places,
    /// The masks.
    pub masks: Vec<Mask>,
    /// Where the output's matrices `[rows, columns]` are. They cover the output once, and columns are contiguous.
    pub output: Places,
    /// The shape of the output.
    pub shape: Vec<Dim>,
    /// Whether a row whose softmax is NaN, such as one of -infinity only, becomes zeros.
    pub empty_is_zero: bool,
}

impl Places {
    /// Becomes `other`, in the memory that it has.
    fn assign(&mut self, other: &Places) {
        let Places { offset, batch, row, col } = other;
        self.batch.clone_from(batch);
        (self.offset, self.row, self.col) = (*offset, *row, *col);
    }
}

impl Attention {
    /// Adopts the sizes of `other`, the same attention of operands of other sizes, in the memory that it has.
    pub fn resize(&mut self, other: &Attention) {
        self.batch.clone_from(&other.batch);
        self.shape.clone_from(&other.shape);
        (self.rows, self.keys) = (other.rows, other.keys);
        (self.depth, self.columns) = (other.depth, other.columns);
        let places = [&mut self.query, &mut self.key, &mut self.value, &mut self.output];
        let others = [&other.query, &other.key, &other.value, &other.output];
        places.into_iter().zip(others).for_each(|(places, others)| places.assign(others));
        for (mask, other) in self.masks.iter_mut().zip(&other.masks) {
            mask.places.assign(&other.places);
        }
    }

    /// The factor of the products of query and key: `scale`, divided by the cap if there is one.
    pub fn factor(&self) -> f64 {
        if self.softcap == 0.0 { self.scale } else { self.scale / self.softcap }
    }

    /// Number of matrices.
    pub fn matrices(&self) -> usize {
        self.batch.iter().map(|dim| dim.size()).product()
    }

    /// The first element of matrix `index` of the batch.
    pub fn start(&self, places: &Places, mut index: usize) -> usize {
        let number = |dim: Dim| dim.size();
        let mut start = number(places.offset);
        for (&dim, &stride) in self.batch.iter().zip(&places.batch).rev() {
            start += index % number(dim) * number(stride);
            index /= number(dim);
        }
        start
    }

    /// The last accessed element of matrices `[rows, cols]`.
    pub fn last(&self, places: &Places, [rows, cols]: [Dim; 2]) -> Dim {
        let batch = self.batch.iter().zip(&places.batch).map(|(&dim, &stride)| (dim - 1) * stride);
        places.offset + batch.sum::<Dim>() + (rows - 1) * places.row + (cols - 1) * places.col
    }

    /// The size of each operand's matrices, and where they are.
    fn operands(&self) -> impl Iterator<Item = ([Dim; 2], &Places)> {
        let &Attention { rows, keys, depth, columns, .. } = self;
        let matrices =
            [([rows, depth], &self.query), ([keys, depth], &self.key), ([keys, columns], &self.value)].into_iter();
        matrices.chain(self.masks.iter().map(move |mask| ([rows, keys], &mask.places)))
    }

    /// The scores of one row of a matrix.
    fn scores(&self, inputs: &Tensors, matrix: usize, row: usize) -> Vec<f64> {
        let at = |operand: usize, places: &Places, row: usize, col: usize| {
            let [across, along] = [places.row, places.col].map(|stride| stride.size());
            element(required(inputs, operand), self.start(places, matrix) + row * across + col * along)
        };
        let score = |key: usize| {
            let product = |i: usize| at(0, &self.query, row, i) * at(1, &self.key, key, i);
            let score = self.factor() * (0..self.depth.size()).map(product).sum::<f64>();
            let score = if self.softcap == 0.0 { score } else { self.softcap * score.tanh() };
            self.masks.iter().enumerate().fold(score, |score, (index, mask)| {
                let masked = at(3 + index, &mask.places, row, key);
                match mask.kind {
                    MaskKind::Add => score + masked,
                    MaskKind::Fill { value, when } if (masked != 0.0) == when => value,
                    MaskKind::Fill { .. } => score,
                }
            })
        };
        (0..self.keys.size()).map(score).collect()
    }

    fn row(&self, inputs: &Tensors, matrix: usize, row: usize) -> Vec<f64> {
        let mut powers = self.scores(inputs, matrix, row);
        let max = powers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        powers.iter_mut().for_each(|x| *x = (*x - max).exp());
        let sum: f64 = powers.iter().sum();
        let is_empty = sum.is_nan() && self.empty_is_zero;
        let start = self.start(&self.value, matrix);
        let [across, along] = [self.value.row, self.value.col].map(|stride| stride.size());
        let column = |col: usize| {
            let value = |key: usize| element(required(inputs, 2), start + key * across + col * along);
            powers.iter().enumerate().map(|(key, power)| power / sum * value(key)).sum()
        };
        (0..self.columns.size()).map(|col| if is_empty { 0.0 } else { column(col) }).collect()
    }
}

/// The element at a row-major index.
fn element(tensor: &Tensor, at: usize) -> f64 {
    match &tensor.data {
        Data::Float(array) => array.as_slice().expect("row-major")[at],
        Data::Int(array) => array.as_slice().expect("row-major")[at] as f64,
    }
}

fn numbers(values: impl IntoIterator<Item = Dim>) -> Attribute {
    Attribute::Numbers(values.into_iter().map(|x| Number::Int(x.shown() as i128)).collect())
}

/// As a list: the offset, then the strides of the batch, of rows and of columns.
fn listed(places: &Places) -> Attribute {
    numbers([places.offset].into_iter().chain(places.batch.iter().copied()).chain([places.row, places.col]))
}

/// In a box: nodes are as large as the largest operator, and lists of them are many.
impl Operator for Box<Attention> {
    fn rule(&self) -> &'static OpRule {
        const RULE: OpRule = OpRule {
            name: "attention",
            operands: &[
                operand("query", FLOATS, ANY_RANK),
                operand("key", Types::SameAs("query"), ANY_RANK),
                operand("value", Types::SameAs("query"), ANY_RANK),
                OperandRule { optional: true, ..variadic("masks", DRAFT, ANY_RANK) },
            ],
            outputs: &[output("output", Types::SameAs("query"), ANY_RANK)],
        };
        &RULE
    }

    fn write(&self, attributes: &mut Attributes) {
        let mut put = |name: &str, value: Attribute| _ = attributes.0.insert(name.to_string(), value);
        let sizes = [self.rows, self.keys, self.depth, self.columns];
        put("batch", numbers(self.batch.iter().copied()));
        put("sizes", numbers(sizes));
        put("scale", Attribute::Number(Number::Float(self.scale)));
        put("query", listed(&self.query));
        put("key", listed(&self.key));
        put("value", listed(&self.value));
        put("output", listed(&self.output));
        put("shape", numbers(self.shape.iter().copied()));
        for (index, mask) in self.masks.iter().enumerate() {
            put(&format!("mask{index}"), listed(&mask.places));
            if let MaskKind::Fill { value, when } = mask.kind {
                put(&format!("mask{index}When"), Attribute::Bool(when));
                put(&format!("mask{index}Value"), Attribute::Number(Number::Float(value)));
            }
        }
        if self.softcap != 0.0 {
            put("softcap", Attribute::Number(Number::Float(self.softcap)));
        }
        if self.empty_is_zero {
            put("emptyIsZero", Attribute::Bool(true));
        }
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        let Attention { batch, rows, keys, depth, columns, query, key, value, masks, output, shape, .. } = &mut **self;
        let sizes = [rows, keys, depth, columns].into_iter().chain(batch).chain(shape);
        sizes.for_each(&mut *visit);
        let places = [query, key, value, output].into_iter().chain(masks.iter_mut().map(|mask| &mut mask.places));
        places.for_each(|Places { offset, batch, row, col }| {
            [offset, row, col].into_iter().chain(batch).for_each(&mut *visit)
        });
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        for (index, (size, places)) in self.operands().enumerate() {
            let operand = required(inputs, index);
            if places.batch.len() != self.batch.len() || self.last(places, size) >= operand.count() {
                return Err(Problem::attribute("places", listed(places), format!("places in {:?}", operand.shape)));
            }
        }
        Ok(vec![Descriptor::new(required(inputs, 0).dtype, self.shape.clone())])
    }

    fn multiply_adds(&self, _: &Inputs, _: &[&Descriptor]) -> u64 {
        let [rows, keys, depth, columns] =
            [self.rows, self.keys, self.depth, self.columns].map(|size| size.get() as u64);
        self.matrices() as u64 * rows * keys * (depth + columns)
    }

    fn bytes_read(&self, inputs: &Inputs, _: &[&Descriptor]) -> u64 {
        let read = |index: usize, [rows, cols]: [Dim; 2], places: &Places| {
            let dims = self.batch.iter().zip(&places.batch).chain([(&rows, &places.row), (&cols, &places.col)]);
            let distinct = dims.map(|(&dim, &stride)| if stride == 0 { 1 } else { dim.get() as u64 });
            distinct.product::<u64>() * required(inputs, index).dtype.size() as u64
        };
        self.operands().enumerate().map(|(index, (size, places))| read(index, size, places)).sum()
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let mut values = vec![f64::NAN; outputs[0].elements()];
        for matrix in 0..self.matrices() {
            let start = self.start(&self.output, matrix);
            let [across, along] = [self.output.row, self.output.col].map(|stride| stride.size());
            for row in 0..self.rows.size() {
                for (col, value) in self.row(inputs, matrix, row).into_iter().enumerate() {
                    values[start + row * across + col * along] = value;
                }
            }
        }
        let strides = strides(&outputs[0].sizes());
        vec![Tensor::from_fn(&outputs[0], |index| {
            Number::Float(values[index.iter().zip(&strides).map(|(i, stride)| i * stride).sum::<usize>()])
        })]
    }
}
