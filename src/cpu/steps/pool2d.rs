//! Pooling.

use super::{Env, Run};
use crate::cpu::kernels::pool::{Average, Largest, Norm, PoolFold, PoolRow, Taps, Windows};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::dimension::Dim;
use crate::dtype::{DataType, Element};
use crate::ops::pool2d::{Pool2d, PoolKind};
use crate::ops::spatial::{Image, InputLayout, Slide};
use crate::shape::Descriptor;
use std::marker::PhantomData;
use std::ops::Range;

/// `averagePool2d()`, `l2Pool2d()` and `maxPool2d()`.
pub struct Pool2dStep {
    kind: PoolKind,
    dtype: DataType,
    layout: InputLayout,
    input: Image,
    /// Rows and columns of the output.
    output: [usize; 2],
    /// How the window moves along rows and columns.
    slides: [Slide; 2],
    /// The output columns with windows fully inside the width of the image.
    inner: Range<usize>,
    /// Approximate number of elements under a window.
    cost: usize,
}

impl Pool2dStep {
    /// Creates the step of `op` for operands with these descriptors.
    pub fn new(op: &Pool2d, input: &Descriptor, output: &Descriptor) -> Pool2dStep {
        let layout = op.attributes.layout;
        let (image, pooled) = (layout.image(&input.sizes()), layout.image(&output.sizes()));
        let slides = op.slides(image, Dim::get).expect("inferred");
        let output = [pooled.height as usize, pooled.width as usize];
        let cost = slides.map(|slide| slide.window.min(slide.input) as usize).iter().product();
        let inner = slides[1].inner(output[1]);
        Pool2dStep { kind: op.kind, dtype: input.dtype, layout, input: image, output, slides, inner, cost }
    }

    /// One unit of work is an output pixel. Planes are images of one channel.
    fn pool<T: Element, R: PoolFold<T>>(&self, env: &Env, input: &[T], out: &mut [T]) {
        let channels = match self.layout {
            InputLayout::Nchw => 1,
            InputLayout::Nhwc => self.input.channels as usize,
        };
        let (height, width) = (self.input.height as usize, self.input.width as usize);
        let (size, [rows, columns]) = (height * width * channels, self.output);
        for_each_chunk(env.threads, out, channels, 1, channels.saturating_mul(self.cost), |mut at, mut out| {
            while !out.is_empty() {
                let (image, row, first) = (at / columns / rows, at / columns % rows, at % columns);
                let count = (columns - first).min(out.len() / channels);
                let (now, rest) = std::mem::take(&mut out).split_at_mut(count * channels);
                let windows = Windows {
                    image: &input[image * size..][..size],
                    width,
                    channels,
                    rows: Taps::at(&self.slides[0], row),
                    columns: &self.slides[1],
                    inner: self.inner.clone(),
                };
                env.isa.run(PoolRow { windows, first, out: now, reduction: PhantomData::<R> });
                (at, out) = (at + count, rest);
            }
        });
    }

    fn pool_floats(&self, env: &Env, input: &[f32], out: &mut [f32]) {
        match self.kind {
            PoolKind::Average => self.pool::<f32, Average>(env, input, out),
            PoolKind::L2 => self.pool::<f32, Norm>(env, input, out),
            PoolKind::Max => self.pool::<f32, Largest>(env, input, out),
        }
    }
}

impl Run for Pool2dStep {
    fn kernel(&self) -> &'static str {
        match self.layout {
            InputLayout::Nchw => "pool2d planes",
            InputLayout::Nhwc => "pool2d pixels",
        }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        macro_rules! largest {
            ($T:ty) => {
                self.pool::<$T, Largest>(env, io.input(0), io.output())
            };
        }
        match self.dtype {
            DataType::Float32 => self.pool_floats(env, io.input(0), io.output()),
            DataType::Int32 => largest!(i32),
            DataType::Uint32 => largest!(u32),
            DataType::Int64 => largest!(i64),
            DataType::Uint64 => largest!(u64),
            DataType::Int8 => largest!(i8),
            DataType::Uint8 => largest!(u8),
            DataType::Float16 | DataType::Int4 | DataType::Uint4 => unreachable!("no kernel reads {}", self.dtype),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::{DataType, Number};
    use crate::ir::parse;
    use crate::ops::tensor::Tensor;
    use crate::shape::Descriptor;
    use crate::testing::{Tolerance, check, check_with};
    use proptest::prelude::*;

    /// Sums are float64 on both sides: only the rounding of the result differs.
    const ROUNDED: Tolerance = Tolerance::ulps(1);

    fn graph(pool: &str, dtype: &str, shape: [usize; 4], options: &str) -> crate::ir::Graph {
        parse(&format!("%0 = input x {dtype} {shape:?}\n%1 = {pool} %0 {options}\noutput y = %1"))
    }

    #[test]
    fn every_kind_and_layout() {
        for layout in ["nchw", "nhwc"] {
            // Sizes around the widths that are computed side by side, and global pools.
            for (shape, options) in [
                ([1, 1, 1, 1], ""),
                ([2, 3, 7, 9], ""),
                ([1, 70, 5, 5], ""),
                ([1, 2, 6, 140], "windowDimensions=[3, 3]"),
                ([1, 2, 7, 133], "windowDimensions=[3, 2] strides=[2, 2] padding=[1, 0, 0, 1]"),
                ([1, 3, 9, 65], "windowDimensions=[2, 3] strides=[1, 3] padding=[2, 2, 2, 2]"),
                ([1, 2, 9, 9], "windowDimensions=[3, 3] strides=[2, 2] dilations=[2, 3] padding=[1, 1, 2, 2]"),
                ([1, 2, 5, 5], "windowDimensions=[3, 3] strides=[2, 2] padding=[1, 0, 0, 1] outputSizes=[3, 3]"),
                ([1, 2, 4, 4], "windowDimensions=[3, 3] strides=[2, 2] outputShapeRounding=ceil"),
                // Windows inside the padding, or beyond it.
                ([1, 2, 3, 3], "windowDimensions=[2, 2] padding=[4, 4, 5, 5]"),
                ([1, 1, 2, 2], "windowDimensions=[1, 1] strides=[5, 5] outputShapeRounding=ceil"),
                ([1, 1, 2, 2], "windowDimensions=[2, 2] dilations=[4294967295, 1] padding=[4294967295, 0, 0, 0]"),
            ] {
                let graph_of = |pool: &str, dtype: &str| {
                    let [n, c, h, w] = shape;
                    let shape = if layout == "nchw" { [n, c, h, w] } else { [n, h, w, c] };
                    graph(pool, dtype, shape, &format!("{options} layout={layout}"))
                };
                for dtype in ["float32", "float16"] {
                    check(&graph_of("averagePool2d", dtype), ROUNDED);
                    check(&graph_of("l2Pool2d", dtype), ROUNDED);
                }
                for dtype in DataType::ALL {
                    check(&graph_of("maxPool2d", dtype.name()), Tolerance::EXACT);
                }
            }
        }
    }

    #[test]
    fn enough_for_several_threads() {
        for layout in ["nchw", "nhwc"] {
            let options = format!("windowDimensions=[3, 3] strides=[2, 2] padding=[0, 1, 1, 0] layout={layout}");
            check(&graph("maxPool2d", "float16", [1, 40, 41, 39], &options), Tolerance::EXACT);
            check(&graph("averagePool2d", "float16", [1, 40, 41, 39], &options), ROUNDED);
            check(&graph("l2Pool2d", "float32", [1, 40, 41, 39], &format!("layout={layout}")), ROUNDED);
        }
    }

    #[test]
    fn special_values() {
        let descriptor = Descriptor::new(DataType::Float32, [1, 1, 2, 6]);
        let inf = f64::INFINITY;
        let values = [1.0, f64::NAN, 2.0, -inf, -inf, inf, -1.0, 3.0, -3.0, -inf, -inf, -0.0];
        let mut elements = values.into_iter();
        let x = Tensor::from_fn(&descriptor, |_| Number::Float(elements.next().unwrap()));
        let inputs = [("x".to_string(), x)].into();
        for pool in ["averagePool2d", "l2Pool2d", "maxPool2d"] {
            for window in ["[2, 2]", "[1, 1]", "[2, 6]"] {
                let graph = graph(pool, "float32", [1, 1, 2, 6], &format!("windowDimensions={window}"));
                check_with(&graph, &inputs, ROUNDED);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn random_pools(
            n in 1usize..3, c in 1usize..9, size in (1usize..20, 1usize..40), window in (1usize..5, 1usize..5),
            strides in (1usize..4, 1usize..4), dilations in (1usize..3, 1usize..3),
            padding in prop::array::uniform4(0usize..4), nhwc: bool, ceil: bool, kind in 0usize..3, half: bool,
        ) {
            let fits = |size: usize, window: usize, dilation: usize, begin: usize, end: usize| {
                (window - 1) * dilation < size + begin + end
            };
            prop_assume!(fits(size.0, window.0, dilations.0, padding[0], padding[1]));
            prop_assume!(fits(size.1, window.1, dilations.1, padding[2], padding[3]));
            let options = format!(
                "windowDimensions=[{}, {}] strides=[{}, {}] dilations=[{}, {}] padding={padding:?} layout={} outputShapeRounding={}",
                window.0, window.1, strides.0, strides.1, dilations.0, dilations.1,
                if nhwc { "nhwc" } else { "nchw" }, if ceil { "ceil" } else { "floor" },
            );
            let shape = if nhwc { [n, size.0, size.1, c] } else { [n, c, size.0, size.1] };
            let pool = ["averagePool2d", "l2Pool2d", "maxPool2d"][kind];
            check(&graph(pool, if half { "float16" } else { "float32" }, shape, &options), ROUNDED);
        }
    }
}
