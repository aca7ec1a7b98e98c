//! Matrix products and convolutions, with the operations that follow them.

use super::conv_transpose2d::ConvTranspose2dStep;
use super::conv2d::{Conv2dShape, Conv2dStep};
use super::convolution::ConvTranspose2dShape;
use super::convolution::ConvolutionShape;
use super::epilogue::{EpilogueStep, Following, is_vector_along};
use super::matmul::{MatmulShape, MatmulStep, MatrixStrides};
use super::{Env, Run};
use crate::cpu::kernels::float::Floats;
use crate::cpu::memory::Io;
use crate::cpu::product::panels::Panels;
use crate::cpu::schedule::partition::{Grid, Shape};
use crate::cpu::schedule::tiles::Beside;
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::Buffer;
use crate::ops::conv_transpose2d::ConvTranspose2dAttributes;
use crate::ops::conv2d::Conv2dAttributes;
use crate::ops::matmul::GemmAttributes;
use crate::ops::spatial::InputLayout;
use crate::shape::{Descriptor, PerAxis, Sizes, broadcast_strides};
use std::sync::Arc;

/// A compiled product.
enum Dense {
    Matmul(MatmulStep),
    Conv2d(Conv2dStep),
    ConvTranspose2d(ConvTranspose2dStep),
}

/// `matmul()`, `gemm()`, `conv2d()` or `convTranspose2d()`, and element-wise operators on its output.
pub struct DenseStep {
    dense: Box<Dense>,
    /// Type of the right operand.
    right: DataType,
    epilogue: EpilogueStep,
    /// Operands that the step keeps packed copies of.
    packed: Vec<usize>,
}

/// The parameters of a product.
#[derive(Clone, Debug)]
// Large, but only on the stack, while a step is created or resized.
#[allow(clippy::large_enum_variant)]
pub enum DenseShape {
    /// `matmul()` and `gemm()`.
    Matmul(MatmulShape),
    /// `conv2d()`.
    Conv2d(Conv2dShape),
    /// `convTranspose2d()`.
    ConvTranspose2d(ConvTranspose2dShape),
}

impl DenseStep {
    /// Creates the step for `shape`, followed by the operations in `following`. `constants` holds those of the first
    /// two operands that are constant; `right` is the type of the second one; `winograd` permits that algorithm for
    /// convolutions.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed constants, an `OperationError` if mapped ones cannot
    /// be read.
    pub fn new(
        env: &Env,
        mut shape: DenseShape,
        constants: [Option<Weights>; 2],
        right: DataType,
        winograd: bool,
        following: &Following,
    ) -> Result<DenseStep> {
        let output = following.output;
        let epilogue = EpilogueStep::new(following, |strides| shape.take_addend(strides, &output.sizes()));
        let (mut packed, isa, threads) = (Vec::new(), env.isa, env.threads.count());
        let dense = match shape {
            DenseShape::Matmul(shape) => {
                let packs = packs(&shape);
                let halves = right == DataType::Float16;
                let mut step = MatmulStep::new(isa, threads, shape, halves, epilogue.finishes());
                for (index, weights) in constants.into_iter().enumerate().filter(|(index, _)| packs[*index]) {
                    if let Some(weights) = weights {
                        step.prepack(index, weights)?;
                        packed.push(index);
                    }
                }
                Dense::Matmul(step)
            }
            DenseShape::Conv2d(shape) => {
                let winograd = if winograd { shape.winograd() } else { None };
                let mut step = Conv2dStep::new(isa, threads, shape, epilogue.finishes());
                if let [_, Some(filter)] = constants {
                    step.prepack(filter, winograd)?;
                    packed.push(1);
                }
                Dense::Conv2d(step)
            }
            DenseShape::ConvTranspose2d(shape) => {
                let [_, filter] = constants;
                packed.extend(filter.is_some().then_some(1));
                Dense::ConvTranspose2d(ConvTranspose2dStep::new(isa, threads, shape, filter)?)
            }
        };
        Ok(DenseStep { dense: Box::new(dense), right, epilogue, packed })
    }

    /// Adapts the step to other sizes, keeping the packed constants; returns `false` if the step must be rebuilt.
    /// `constants` says which of the first two operands are constant.
    #[must_use]
    pub fn resize(
        &mut self,
        mut shape: DenseShape,
        constants: [bool; 2],
        winograd: bool,
        following: &Following,
    ) -> bool {
        let output = following.output;
        let fits = self.epilogue.resize(following, |strides| shape.take_addend(strides, &output.sizes()));
        fits && self.dense.resize(shape, constants, winograd)
    }

    /// The product as it is cut into tiles beside others; `None` for products that must be alone.
    pub fn shape(&self) -> Option<Shape> {
        if let Dense::Matmul(step) = &*self.dense { step.shape() } else { None }
    }

    /// Adopts the grid of several products, or again that of this one alone.
    pub fn join(&mut self, grid: Option<Grid>) {
        if let Dense::Matmul(step) = &mut *self.dense {
            step.join(grid);
        }
    }

    /// Operands that the step keeps packed copies of.
    pub fn packed_operands(&self) -> &[usize] {
        &self.packed
    }

    /// The packed copy of operand 1, if it is a single matrix.
    pub fn packed_matrix(&self) -> Option<Panels> {
        if let Dense::Matmul(step) = &*self.dense { step.packed_b().cloned() } else { None }
    }
}

impl Run for DenseStep {
    fn kernel(&self) -> &'static str {
        match &*self.dense {
            Dense::Matmul(step) => step.kernel(),
            Dense::Conv2d(step) => step.kernel(),
            Dense::ConvTranspose2d(step) => step.kernel(),
        }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        self.run_beside(env, io, env.threads.into());
    }

    fn run_beside(&self, env: &Env, io: &mut Io, beside: Beside) {
        let (epilogue, threads) = (&self.epilogue, env.threads.count());
        // A packed operand has no memory of its own.
        let left = io.optional::<f32>(0);
        let right = match self.right {
            DataType::Float16 => io.optional(1).map(Floats::F16),
            _ => io.optional(1).map(Floats::F32),
        };
        let filter = right.and_then(Floats::as_f32);
        let addend = epilogue.addend().and_then(|operand| io.optional::<f32>(operand));
        let (out, scratch) = (io.output::<f32>(), io.scratch::<f32>());
        let (registers, scratch) = scratch.split_at_mut(epilogue.scratch_len(threads));
        epilogue.with_tail(env, io, registers, |tail| match &*self.dense {
            Dense::Matmul(step) => step.run(env.isa, beside, (left, right, addend), tail, out, scratch),
            Dense::Conv2d(step) => {
                step.run(env, [left, filter], addend, tail, out, scratch);
                beside.pass();
            }
            Dense::ConvTranspose2d(step) => {
                step.run(env, [left, filter], addend, tail, out, scratch);
                beside.pass();
            }
        });
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        let floats = match &*self.dense {
            Dense::Matmul(step) => step.scratch_len(),
            Dense::Conv2d(step) => step.scratch_len(),
            Dense::ConvTranspose2d(step) => step.scratch_len(),
        };
        (floats + self.epilogue.scratch_len(threads)) * size_of::<f32>()
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        match &*self.dense {
            Dense::Matmul(step) => step.packed().collect(),
            Dense::Conv2d(step) => step.packed(),
            Dense::ConvTranspose2d(step) => step.packed().collect(),
        }
    }
}

impl Dense {
    fn resize(&mut self, shape: DenseShape, constants: [bool; 2], winograd: bool) -> bool {
        match (self, shape) {
            (Dense::Matmul(step), DenseShape::Matmul(shape)) => {
                let packs = packs(&shape);
                [0, 1].map(|index| constants[index] && packs[index]) == step.packs_operands() && step.resize(shape)
            }
            (Dense::Conv2d(step), DenseShape::Conv2d(shape)) => {
                let winograd = if winograd && constants[1] { shape.winograd() } else { None };
                step.resize(shape, winograd)
            }
            (Dense::ConvTranspose2d(step), DenseShape::ConvTranspose2d(shape)) => step.resize(shape),
            _ => false,
        }
    }
}

impl DenseShape {
    /// If the product can add an operand with `strides` over the dimensions `output`, makes it do so. Returns whether
    /// it does.
    fn take_addend(&mut self, strides: &[usize], output: &[u32]) -> bool {
        let channel = |channels_last| if channels_last { 3 } else { 1 };
        match self {
            DenseShape::Matmul(shape) => shape.take_addend(strides),
            DenseShape::Conv2d(shape) => is_vector_along(channel(shape.channels_last), strides, output),
            DenseShape::ConvTranspose2d(shape) => is_vector_along(channel(shape.channels_last), strides, output),
        }
    }
}

/// Which operands are worth packing. A vector is not, nor is a left matrix with contiguous rows that is multiplied with one
/// column: it is read once, in place. A transposed right matrix that is multiplied with one row could be read in place,
/// too, but `npm run bench -- kernels` shows no speedup for 1024 x 1024 and for 768 x 50257, and graphs of one model for one
/// row and for many rows could then not share the matrix.
fn packs(shape: &MatmulShape) -> [bool; 2] {
    let is_column = shape.n == 1;
    [shape.m > 1 && !(is_column && shape.a.col == 1 && shape.a.row != 1), shape.n > 1]
}

/// The parameters of `matmul()`.
pub fn matmul_shape(a: &Descriptor, b: &Descriptor, output: &Descriptor) -> DenseShape {
    let split = |descriptor: &Descriptor| {
        let sizes = descriptor.sizes();
        let (_, matrix) = sizes.split_last_chunk::<2>().expect("inferred");
        (sizes, matrix.map(|size| size as usize))
    };
    let ((a, [m, k]), (b, [_, n]), (output, _)) = (split(a), split(b), split(output));
    let batch = |sizes: &Sizes| sizes.len() - 2;
    let stack = &output[..batch(&output)];
    let strides = |own: &Sizes, [rows, cols]: [usize; 2]| MatrixStrides {
        batch: broadcast_strides(&own[..batch(own)], stack).iter().map(|stride| stride * rows * cols).collect(),
        row: cols,
        col: 1,
    };
    DenseShape::Matmul(MatmulShape {
        batch: stack.iter().map(|&size| size as usize).collect(),
        a: strides(&a, [m, k]),
        b: strides(&b, [k, n]),
        ..MatmulShape::plain(m, k, n)
    })
}

/// The parameters of `gemm()`.
pub fn gemm_shape(op: &GemmAttributes, a: &Descriptor, output: &Descriptor, c: Option<&Descriptor>) -> DenseShape {
    let [m, n] = [0, 1].map(|axis| output.sizes()[axis] as usize);
    let k = a.sizes()[if op.a_transpose { 0 } else { 1 }] as usize;
    let strides = |row, col| MatrixStrides { batch: PerAxis::new(), row, col };
    DenseShape::Matmul(MatmulShape {
        a: if op.a_transpose { strides(1, m) } else { strides(k, 1) },
        b: if op.b_transpose { strides(1, k) } else { strides(n, 1) },
        c: c.map(|c| {
            let own = broadcast_strides(&c.sizes(), &output.sizes());
            strides(own[0], own[1])
        }),
        alpha: op.alpha as f32,
        beta: op.beta as f32,
        ..MatmulShape::plain(m, k, n)
    })
}

fn pair(values: &[u32]) -> [usize; 2] {
    [0, 1].map(|axis| values[axis] as usize)
}

/// The parameters of `conv2d()`.
pub fn conv2d_shape(op: &Conv2dAttributes, images: [&Descriptor; 3]) -> Conv2dShape {
    let [_, _, height, width] = op.filter_layout.axes();
    ConvolutionShape {
        groups: op.groups as usize,
        strides: pair(&op.strides),
        dilations: pair(&op.dilations),
        padding: [op.padding[0].size(), op.padding[2].size()],
        ..sizes(op.input_layout, [height, width], op.filter_layout, images)
    }
}

/// The parameters of `convTranspose2d()`.
pub fn conv_transpose2d_shape(op: &ConvTranspose2dAttributes, images: [&Descriptor; 3]) -> DenseShape {
    let [_, _, height, width] = op.filter_layout.axes();
    DenseShape::ConvTranspose2d(ConvolutionShape {
        groups: op.groups as usize,
        strides: pair(&op.strides),
        dilations: pair(&op.dilations),
        padding: [op.padding[0] as usize, op.padding[2] as usize],
        ..sizes(op.input_layout, [height, width], op.filter_layout, images)
    })
}

/// The sizes of a convolution with one group, strides and dilations of 1, and no padding. `spatial` are the positions
/// of height and width in the filter's shape.
fn sizes<Layout>(
    images: InputLayout,
    spatial: [usize; 2],
    layout: Layout,
    [input, filter, output]: [&Descriptor; 3],
) -> ConvolutionShape<Layout> {
    let (input, output) = (images.image(&input.sizes()), images.image(&output.sizes()));
    ConvolutionShape {
        batches: input.batches as usize,
        groups: 1,
        channels: [input.channels as usize, output.channels as usize],
        input: [input.height as usize, input.width as usize],
        filter: spatial.map(|axis| filter.sizes()[axis] as usize),
        output: [output.height as usize, output.width as usize],
        strides: [1; 2],
        dilations: [1; 2],
        padding: [0; 2],
        channels_last: images == InputLayout::Nhwc,
        layout,
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    /// A few hundred terms of up to 8: each addition has an error of up to 2^-15.
    const FLOAT: Tolerance = Tolerance::ulps(8).or_absolute(5e-4);
    /// One rounding, plus the error of float32.
    const HALF: Tolerance = Tolerance::ulps(1).or_absolute(5e-4);

    fn check_both(text: &str) {
        check(&parse(&text.replace("FLOAT", "float32")), FLOAT);
        check(&parse(&text.replace("FLOAT", "float16")), HALF);
    }

    /// Checks the operands `a` and `b` as inputs and as constants.
    fn check_sources(text: &str) {
        for (a, b) in [("input a", "input b"), ("input a", "constant"), ("constant", "input b")] {
            check_both(&text.replace("SOURCE_A", a).replace("SOURCE_B", b));
        }
    }

    #[test]
    fn products_of_stacks() {
        for (a, b) in [
            ("[1, 1]", "[1, 1]"),
            ("[1, 9]", "[9, 40]"),
            ("[33, 17]", "[17, 1]"),
            ("[2, 3, 5, 7]", "[7, 4]"),
            ("[5, 7]", "[2, 1, 7, 4]"),
            ("[3, 1, 2, 5]", "[1, 4, 5, 3]"),
            ("[4, 1, 6]", "[6, 9]"),
            ("[4, 1, 6]", "[4, 6, 9]"),
            ("[70, 130]", "[130, 65]"),
        ] {
            check_sources(&format!(
                "%0 = SOURCE_A FLOAT {a}\n%1 = SOURCE_B FLOAT {b}\n%2 = matmul %0 %1\noutput y = %2"
            ));
        }
    }

    #[test]
    fn general_products() {
        for (m, k, n) in [(1, 1, 1), (1, 20, 33), (19, 20, 1), (13, 9, 34)] {
            for transposed in 0..4 {
                let (ta, tb) = (transposed & 1 != 0, transposed & 2 != 0);
                let a = if ta { [k, m] } else { [m, k] };
                let b = if tb { [n, k] } else { [k, n] };
                for c in ["[]".to_string(), format!("[{n}]"), format!("[{m}, 1]"), format!("[{m}, {n}]")] {
                    check_sources(&format!(
                        "%0 = SOURCE_A FLOAT {a:?}
                         %1 = SOURCE_B FLOAT {b:?}
                         %2 = input c FLOAT {c}
                         %3 = gemm %0 %1 %2 aTranspose={ta} bTranspose={tb} alpha=0.3 beta=-2.5
                         output y = %3"
                    ));
                }
                check_sources(&format!(
                    "%0 = SOURCE_A FLOAT {a:?}
                     %1 = SOURCE_B FLOAT {b:?}
                     %2 = gemm %0 %1 aTranspose={ta} bTranspose={tb}
                     output y = %2"
                ));
            }
        }
    }

    /// The shape with these sizes in the order of `layout`.
    fn ordered(layout: &str, sizes: &[(char, usize)]) -> Vec<usize> {
        let size = |letter| sizes.iter().find(|(other, _)| *other == letter).expect("a letter of the layout").1;
        layout.chars().map(size).collect()
    }

    struct Convolution {
        transposed: bool,
        batches: usize,
        groups: usize,
        /// Input and output channels per group.
        channels: [usize; 2],
        input: [usize; 2],
        filter: [usize; 2],
        options: String,
    }

    impl Convolution {
        fn text(&self, input_layout: &str, filter_layout: &str, constant: bool, bias: bool) -> String {
            let Convolution { transposed, batches, groups, channels: [i, o], input, filter, options } = self;
            let input = [('n', *batches), ('c', groups * i), ('h', input[0]), ('w', input[1])];
            // The filter dimension that is divided among the groups holds the channels of all groups.
            let (fi, fo) = if *transposed { (groups * i, *o) } else { (*i, groups * o) };
            let filter = [('i', fi), ('o', fo), ('h', filter[0]), ('w', filter[1])];
            format!(
                "%0 = input x FLOAT {:?}
                 %1 = {} FLOAT {:?}
                 %2 = constant FLOAT [{}]
                 %3 = {} %0 %1 {} groups={groups} inputLayout={input_layout} filterLayout={filter_layout} {options}
                 output y = %3",
                ordered(input_layout, &input),
                if constant { "constant" } else { "input f" },
                ordered(filter_layout, &filter),
                groups * o,
                if *transposed { "convTranspose2d" } else { "conv2d" },
                if bias { "%2" } else { "" },
            )
        }

        fn check_all(&self) {
            let filter_layouts: &[&str] =
                if self.transposed { &["iohw", "hwoi", "ohwi"] } else { &["oihw", "hwio", "ohwi", "ihwo"] };
            for input_layout in ["nchw", "nhwc"] {
                for (index, filter_layout) in filter_layouts.iter().enumerate() {
                    check_both(&self.text(input_layout, filter_layout, true, index % 2 == 0));
                    check_both(&self.text(input_layout, filter_layout, false, index % 2 == 1));
                }
            }
        }
    }

    #[test]
    fn convolutions() {
        for (groups, channels, input, filter, options) in [
            (1, [1, 1], [1, 1], [1, 1], ""),
            (1, [3, 5], [7, 9], [3, 3], "padding=[1, 1, 1, 1]"),
            (1, [17, 18], [5, 4], [1, 1], ""),
            (2, [3, 4], [8, 9], [3, 2], "padding=[0, 1, 2, 0] strides=[2, 3]"),
            (5, [1, 1], [9, 20], [3, 3], "padding=[1, 1, 1, 1] dilations=[2, 1]"),
            (4, [1, 2], [6, 5], [2, 3], "strides=[1, 2]"),
            (1, [2, 2], [2, 2], [2, 2], "padding=[4294967295, 0, 0, 0] dilations=[4294967295, 1]"),
        ] {
            Convolution { transposed: false, batches: 2, groups, channels, input, filter, options: options.into() }
                .check_all();
        }
    }

    /// Large enough for Winograd's algorithm, which only compiled graphs use here.
    #[test]
    fn convolutions_with_transformed_filters() {
        for constant in [true, false] {
            let options = "padding=[1, 1, 1, 1]".into();
            let (channels, input, filter) = ([32, 33], [12, 13], [3, 3]);
            let convolution =
                Convolution { transposed: false, batches: 1, groups: 1, channels, input, filter, options };
            check_both(&convolution.text("nhwc", "ohwi", constant, true));
        }
    }

    #[test]
    fn transposed_convolutions() {
        for (groups, channels, input, filter, options) in [
            (1, [1, 1], [1, 1], [1, 1], ""),
            (1, [3, 5], [4, 5], [3, 3], ""),
            (1, [4, 9], [5, 4], [3, 2], "padding=[1, 0, 0, 1] strides=[2, 3] outputPadding=[1, 2]"),
            (2, [3, 4], [4, 3], [2, 3], "strides=[3, 2] outputSizes=[12, 7]"),
            (3, [1, 1], [4, 5], [3, 3], "padding=[1, 1, 1, 1] dilations=[2, 1]"),
            // A stride beyond the filter size leaves outputs without any term.
            (1, [2, 3], [2, 2], [1, 2], "strides=[4, 3] outputPadding=[3, 0]"),
            (1, [2, 1], [2, 1], [1, 2], "strides=[30, 4000000000] outputSizes=[60, 50] padding=[0, 0, 1, 0]"),
        ] {
            Convolution { transposed: true, batches: 2, groups, channels, input, filter, options: options.into() }
                .check_all();
        }
    }

    /// Typical operations after products in exported models. `%r` is the result, `%v` a vector along its channels or
    /// columns, `%f` a value of its shape, `%s` a scalar; the last line defines `%y`.
    const TAILS: &[&str] = &[
        "%y = clamp %r minValue=0 maxValue=6",
        "%a = neg %r\n%b = relu %a\n%y = sqrt %b",
        "%y = add %r %v",
        "%a = add %v %r\n%b = add %a %f\n%y = relu %b",
        "%a = add %r %f\n%b = add %a %v\n%c = relu %b\n%y = clamp %c maxValue=1",
        "%a = add %r %r\n%y = sub %f %a",
        "%a = sigmoid %r\n%y = mul %r %a",
        "%a = div %r %s\n%b = erf %a\n%c = linear %b beta=1\n%d = mul %r %c\n%y = linear %d alpha=0.5",
        "%a = add %r %v\n%b = hardSwish %a\n%c = mul %f %b\n%y = max %c %s",
        "%a = greater %f %s\n%b = where %a %r %s\n%y = add %b %f",
        "%a = add %r %s\n%y = add %a %s",
    ];

    /// Checks each of [`TAILS`] after `%r`, the result of `product`, which has the shape `out`.
    fn check_tails(product: &str, out: &[usize], vector: &[usize]) {
        for tail in TAILS {
            let text = format!(
                "{product}\n%v = constant FLOAT {vector:?}\n%f = input f FLOAT {out:?}\n%s = constant FLOAT [] 1.5\n{tail}\noutput y = %y"
            );
            check(&parse(&text.replace("FLOAT", "float32")), FLOAT);
            // If nothing is fused, intermediate values are rounded.
            check(&parse(&text.replace("FLOAT", "float16")), Tolerance::ulps(4).or_absolute(6e-2));
        }
    }

    #[test]
    fn products_with_tails() {
        let product = |a: &str, b: &str| format!("%0 = input a FLOAT {a}\n%1 = {b}\n%r = matmul %0 %1");
        for b in ["input b", "constant"] {
            check_tails(&product("[20, 30]", &format!("{b} FLOAT [30, 40]")), &[20, 40], &[40]);
            check_tails(&product("[1, 30]", &format!("{b} FLOAT [30, 70]")), &[1, 70], &[70]);
            check_tails(&product("[3, 5, 7]", &format!("{b} FLOAT [7, 1]")), &[3, 5, 1], &[5, 1]);
        }
        check_tails(&product("[2, 13, 300]", "constant FLOAT [300, 33]"), &[2, 13, 33], &[2, 1, 1]);
        check_tails(&product("[2, 5, 7]", "input b FLOAT [2, 7, 33]"), &[2, 5, 33], &[5, 33]);
        check_tails(&product("[9, 1]", "constant FLOAT [1, 1100]"), &[9, 1100], &[1, 1100]);
        let gemm = "%0 = input a FLOAT [30, 20]\n%1 = constant FLOAT [40, 30]\n%2 = constant FLOAT [40]\n\
                    %r = gemm %0 %1 %2 aTranspose=true bTranspose=true alpha=0.5 beta=2";
        check_tails(gemm, &[20, 40], &[40]);
    }

    #[test]
    fn convolutions_with_tails() {
        for (transposed, groups, out) in [(false, 1, [7, 28]), (true, 1, [11, 32]), (false, 3, [7, 28])] {
            for (layout, bias) in [("nchw", false), ("nhwc", true), ("nhwc", false)] {
                let channels = if groups == 1 { [3, 20] } else { [1, 2] };
                let options = String::new();
                let convolution =
                    Convolution { transposed, batches: 2, groups, channels, input: [9, 30], filter: [3, 3], options };
                let text = convolution.text(layout, if transposed { "iohw" } else { "oihw" }, true, bias);
                let channels = groups * channels[1];
                let sizes = [('n', 2), ('c', channels), ('h', out[0]), ('w', out[1])];
                let vector = if layout == "nchw" { vec![channels, 1, 1] } else { vec![channels] };
                let product = text.replace("%3 =", "%r =").replace("output y = %3", "");
                check_tails(product.trim(), &ordered(layout, &sizes), &vector);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn random_convolutions(
            transposed: bool, batches in 1usize..3, groups in 1usize..4, channels in prop::array::uniform2(1usize..6),
            input in prop::array::uniform2(1usize..12), filter in prop::array::uniform2(1usize..5),
            strides in prop::array::uniform2(1usize..4), dilations in prop::array::uniform2(1usize..3),
            padding in prop::array::uniform4(0usize..3), nhwc: bool, layout in 0usize..3, constant: bool, bias: bool,
        ) {
            for axis in 0..2 {
                let (begin, end) = (padding[2 * axis], padding[2 * axis + 1]);
                let span = (filter[axis] - 1) * dilations[axis] + 1;
                let fits = match transposed {
                    true => (input[axis] - 1) * strides[axis] + span > begin + end,
                    false => span <= input[axis] + begin + end,
                };
                prop_assume!(fits);
            }
            let options = format!("strides={strides:?} dilations={dilations:?} padding={padding:?}");
            let convolution = Convolution { transposed, batches, groups, channels, input, filter, options };
            let layouts = if transposed { ["iohw", "hwoi", "ohwi"] } else { ["oihw", "hwio", "ihwo"] };
            let input_layout = if nhwc { "nhwc" } else { "nchw" };
            check_both(&convolution.text(input_layout, layouts[layout], constant, bias));
        }
    }
}
