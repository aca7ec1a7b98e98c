//! Matrix products.

pub mod choice;
mod kernels;
pub mod self_test;

use crate::dtype::DataType;
use crate::gpu::kernel::{Bound, Parameters};
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Map, Readable, read_broadcast, strided};
use crate::gpu::template::Values;
use crate::ops::matmul::Gemm;
use crate::shape::{Descriptor, broadcast_strides};
use choice::{Choice, Shape, Variant, choose};

/// A stack of matrix products, `output[r, c] = plus(alpha * (sum over terms k of a[r, k] b[k, c]))`, followed by the
/// epilogue.
pub struct Product<'s> {
    /// Name, for people.
    pub name: &'static str,
    /// Rows of the first matrix.
    pub rows: u32,
    /// Columns of the second matrix.
    pub columns: u32,
    /// Terms of each sum.
    pub depth: u32,
    /// The dimensions of the stack.
    pub stack: &'s [u32],
    /// The two matrices. A position is a row of the first or a column of the second.
    pub sides: [Side; 2],
    /// Strides in the output, in elements: those of rows and columns, and those of matrices, for each dimension of the
    /// stack.
    pub output: ([u32; 2], Vec<isize>),
    /// A factor of the sums.
    pub alpha: f64,
    /// The addition after the multiplication by `alpha`.
    pub addition: Addition,
    /// The parameters of the kernels. The first [`FIXED`] are common to all products.
    pub parameters: Parameters,
}

/// Number of parameters that all products have; see `matmul_common.wgsl`.
pub const FIXED: usize = 10;

/// A matrix to multiply.
pub struct Side {
    /// The operand of the operator.
    pub operand: usize,
    /// The places of its elements.
    pub places: Places,
}

/// The places of a matrix's elements in an operand.
pub enum Places {
    /// Constant strides, in elements.
    Matrix {
        /// The strides of positions and of terms.
        steps: [u32; 2],
        /// The strides of matrices in each dimension of the stack.
        stack: Vec<isize>,
    },
    /// Computed by WGSL functions.
    Text {
        /// The functions `$SIDE_prepare(stack)` and `$SIDE_place(position, term)`.
        template: &'static str,
        /// All values of the template except `$SIDE`.
        values: Values,
        /// Whether terms rather than positions are contiguous.
        terms_first: bool,
        /// Whether any four terms, starting at a multiple of four, are contiguous in memory, also starting at a
        /// multiple of four.
        wide: bool,
    },
}

/// What a product adds to its sums.
pub struct Addition {
    /// Tensors that it reads.
    pub inputs: Vec<Readable>,
    /// The expression for the result, given the product `sum`, the channel `own_channel` and the index `i` of an output
    /// element.
    pub plus: String,
    /// The expression for the channel of `position` on one side, in matrix `stack_at` of the stack.
    pub channel: String,
    /// The index of that side.
    pub side: usize,
    /// The expression for the channel of element `i` of the output.
    pub channel_of: String,
}

impl Default for Addition {
    fn default() -> Addition {
        let zero = || "0u".to_string();
        Addition { inputs: Vec::new(), plus: "sum".to_string(), channel: zero(), side: 0, channel_of: zero() }
    }
}

impl Side {
    /// Whether terms rather than positions are contiguous.
    fn terms_first(&self) -> bool {
        match &self.places {
            Places::Matrix { steps, .. } => steps[1] == 1,
            Places::Text { terms_first, .. } => *terms_first,
        }
    }

    /// Whether four neighbors can be read at once, along the terms if `terms`, else along the positions; `sizes` is
    /// `[positions, depth]`.
    fn is_wide(&self, terms: bool, sizes: [u32; 2]) -> bool {
        let along = terms as usize;
        match &self.places {
            Places::Matrix { steps, stack } => {
                let apart = steps[1 - along].is_multiple_of(4) || sizes[1 - along] == 1;
                let stacked = stack.iter().all(|step| step % 4 == 0);
                steps[along] == 1 && sizes[along].is_multiple_of(4) && apart && stacked
            }
            Places::Text { wide, .. } => terms && *wide,
        }
    }
}

impl Product<'_> {
    /// The properties that the choice of a kernel depends on.
    pub fn shape(&self, l: &Lowering) -> Shape {
        let contiguous = self.output.0 == [self.columns, 1];
        Shape {
            rows: self.rows,
            columns: self.columns,
            depth: self.depth,
            matrices: self.stack.iter().product(),
            terms_first: [0, 1].map(|side| self.sides[side].terms_first()),
            halves: self.sides.iter().all(|side| l.dialect.word(l.input(side.operand).dtype) == "f16"),
            plain: contiguous && self.sides.iter().all(|side| matches!(side.places, Places::Matrix { .. })),
        }
    }

    /// Appends the kernels.
    pub fn lower(mut self, l: &mut Lowering) {
        let choice = choose(&self.shape(l), l.dialect);
        if choice.swapped {
            std::mem::swap(&mut self.rows, &mut self.columns);
            self.sides.swap(0, 1);
            self.output.0.swap(0, 1);
            self.addition.side = 1 - self.addition.side;
        }
        self.number(l, choice);
        if choice.variant == Variant::Plain {
            let sides = kernels::sides(&mut self, l, &choice, Values::default());
            let text = self.plus() + &sides.text + include_str!("../shaders/matmul_plain.wgsl");
            let inputs = self.inputs(l);
            return l.map(0, self.name, inputs, &text, self.parameters);
        }
        // Parts of sums, and sums that share a word with others, go through scratch memory.
        match choice.parts > 1 || l.dialect.lanes(l.outputs[0].dtype) > 1 {
            false => self.whole(l, choice),
            true => self.in_parts(l, choice),
        }
    }

    /// Fills in the parameters common to all products.
    fn number(&mut self, l: &Lowering, choice: Choice) {
        let ([row, column], stack) = &self.output;
        let places = strided(&mut self.parameters, self.stack, stack, 0);
        let elements = l.outputs[0].elements() as u32;
        let alpha = (self.alpha as f32).to_bits();
        self.parameters.0[..FIXED].copy_from_slice(&[
            self.rows,
            self.columns,
            self.depth,
            choice.parts,
            choice.part_depth,
            elements,
            alpha,
            *row,
            *column,
            places,
        ]);
    }

    /// Appends one kernel that computes the output.
    fn whole(mut self, l: &mut Lowering, choice: Choice) {
        let kernel = kernels::kernel(&mut self, l, &choice, false);
        let mut inputs = self.operands(l);
        inputs.append(&mut self.addition.inputs);
        let map = Map {
            name: self.name,
            inputs,
            output: Bound::Output(0),
            descriptor: l.outputs[0],
            functions: self.plus() + &kernel.text,
            parameters: self.parameters,
            entry: kernel.entry,
            wide: kernel.wide,
            epilogue: l.epilogue(),
        };
        let dispatch = map.dispatch(l);
        l.dispatch(dispatch);
    }

    /// Appends a kernel that computes sums over parts of the terms, and one that adds them up.
    fn in_parts(mut self, l: &mut Lowering, choice: Choice) {
        let kernel = kernels::kernel(&mut self, l, &choice, true);
        let elements = choice.parts * l.outputs[0].elements() as u32;
        let parts = l.scratch(elements as usize * size_of::<f32>());
        let map = Map {
            name: self.name,
            inputs: self.operands(l),
            output: parts,
            descriptor: &Descriptor::new(DataType::Float32, [elements]),
            functions: kernel.text,
            parameters: self.parameters.clone(),
            entry: kernel.entry,
            wide: kernel.wide,
            epilogue: None,
        };
        let dispatch = map.dispatch(l);
        l.dispatch(dispatch);
        let text = self.plus() + include_str!("../shaders/matmul_sum.wgsl");
        let mut inputs = vec![Readable { name: "parts", bound: parts, dtype: DataType::Float32 }];
        inputs.append(&mut self.addition.inputs);
        l.map(0, "sum of products", inputs, &text, self.parameters);
    }

    fn operands(&self, l: &Lowering) -> Vec<Readable> {
        vec![l.readable("a", self.sides[0].operand), l.readable("b", self.sides[1].operand)]
    }

    fn inputs(&mut self, l: &Lowering) -> Vec<Readable> {
        let mut inputs = self.operands(l);
        inputs.append(&mut self.addition.inputs);
        inputs
    }

    /// The functions `plus()` and `channel_of()`.
    fn plus(&self) -> String {
        let Addition { plus, channel_of, .. } = &self.addition;
        format!(
            "fn plus(sum: f32, own_channel: u32, i: u32) -> f32 {{ return {plus}; }}
fn channel_of(i: u32) -> u32 {{ return {channel_of}; }}
"
        )
    }
}

/// `matmul()`.
pub fn matmul(l: &mut Lowering) {
    let (a, b, output) = (&l.input(0).sizes(), &l.input(1).sizes(), &l.outputs[0].sizes());
    let (stack, matrix) = output.split_at(output.len() - 2);
    let depth = a[a.len() - 1];
    let places = |shape: &[u32]| -> Vec<isize> {
        let (own, matrix) = shape.split_at(shape.len() - 2);
        let size = matrix[0] as isize * matrix[1] as isize;
        broadcast_strides(own, stack).into_iter().map(|stride| stride as isize * size).collect()
    };
    let [rows, columns] = [matrix[0], matrix[1]];
    let product = Product {
        name: "matmul",
        rows,
        columns,
        depth,
        stack,
        sides: [
            Side { operand: 0, places: Places::Matrix { steps: [depth, 1], stack: places(a) } },
            Side { operand: 1, places: Places::Matrix { steps: [1, columns], stack: places(b) } },
        ],
        output: ([columns, 1], places(output)),
        alpha: 1.0,
        addition: Addition::default(),
        parameters: Parameters(vec![0; FIXED]),
    };
    product.lower(l);
}

/// `gemm()`.
pub fn gemm(op: &Gemm, l: &mut Lowering) {
    let attributes = &op.attributes;
    let (a, output) = (&l.input(0).sizes(), &l.outputs[0].sizes());
    let [rows, columns] = [output[0], output[1]];
    let depth = a[if attributes.a_transpose { 0 } else { 1 }];
    let matrix = |operand, steps| Side { operand, places: Places::Matrix { steps, stack: vec![] } };
    let mut parameters = Parameters(vec![0; FIXED]);
    let mut addition = Addition::default();
    if let Some(c) = l.inputs.get(2).copied().flatten() {
        let beta = parameters.push_f32(attributes.beta as f32);
        let c = read_broadcast(&mut parameters, "c", &c.sizes(), output);
        addition.inputs.push(l.readable("c", 2));
        addition.plus = format!("sum + parameter_f32({beta}u) * {c}");
    }
    let product = Product {
        name: "gemm",
        rows,
        columns,
        depth,
        stack: &[],
        sides: [
            matrix(0, if attributes.a_transpose { [1, rows] } else { [depth, 1] }),
            matrix(1, if attributes.b_transpose { [depth, 1] } else { [1, columns] }),
        ],
        output: ([columns, 1], vec![]),
        alpha: attributes.alpha,
        addition,
        parameters,
    };
    product.lower(l);
}

#[cfg(test)]
mod on_software_vulkan;
