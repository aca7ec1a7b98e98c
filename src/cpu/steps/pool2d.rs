//! Pooling.

use super::reduce::ReduceStep;
use super::{Env, Run};
use crate::cpu::kernels::pool::{PoolRows, Pooling, pool_windows};
use crate::cpu::kernels::pool_fold::{Average, Largest, Norm, PoolFold, VectorFold};
use crate::cpu::kernels::pool_planes::PoolPlane;
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk_with;
use crate::cpu::step::Step;
use crate::dimension::Dim;
use crate::dtype::{DataType, Element};
use crate::ops::pool2d::{Pool2d, PoolKind};
use crate::ops::reduce::{Reduce, ReduceAttributes, ReduceKind};
use crate::ops::spatial::InputLayout;
use crate::shape::Descriptor;
use half::f16;
use std::marker::PhantomData;

/// `averagePool2d()`, `l2Pool2d()` and `maxPool2d()`.
pub struct Pool2dStep {
    kind: PoolKind,
    dtype: DataType,
    layout: InputLayout,
    /// Elements per image: all channels of one if they are last, otherwise a plane.
    image: usize,
    pooling: Pooling,
}

/// Creates the step of `op` for operands with these descriptors. A window over the whole image is a reduction.
pub fn step(op: &Pool2d, input: &Descriptor, output: &Descriptor) -> Step {
    let layout = op.attributes.layout;
    let (image, pooled) = (layout.image(&input.sizes()), layout.image(&output.sizes()));
    let slides = op.slides(image, Dim::get).expect("inferred");
    let outputs = [pooled.height as usize, pooled.width as usize];
    let is_whole = |at: usize| {
        let slide = slides[at];
        outputs[at] == 1 && slide.begin == 0 && slide.dilation == 1 && slide.window >= slide.input
    };
    if is_whole(0) && is_whole(1) && input.dtype != DataType::Float16 {
        let [_, _, height, width] = layout.axes().map(|axis| axis as u32);
        let attributes = ReduceAttributes { axes: Some(vec![height, width]), ..Default::default() };
        let kind = match op.kind {
            PoolKind::Average => ReduceKind::Mean,
            PoolKind::L2 => ReduceKind::L2,
            PoolKind::Max => ReduceKind::Max,
        };
        return ReduceStep::new(&Reduce { kind, attributes }, input).into();
    }
    let channels = match layout {
        InputLayout::Nchw => 1,
        InputLayout::Nhwc => image.channels as usize,
    };
    let elements = image.height as usize * image.width as usize * channels;
    let pooling = Pooling::new(slides, outputs, channels);
    Pool2dStep { kind: op.kind, dtype: input.dtype, layout, image: elements, pooling }.into()
}

impl Pool2dStep {
    /// One unit of work is a row of an output image. Planes are images of one channel. `pool` computes rows from one on of the
    /// image that starts at an element of the input.
    fn each<T: Element, A: Send>(
        &self,
        env: &Env,
        scratch: &mut [A],
        io: &mut Io,
        pool: impl Fn(&[T], usize, usize, &mut [T], &mut [A]) + Sync,
    ) {
        let (input, out) = (io.input(0), io.output());
        let (row_len, rows, cost) = (self.pooling.row_len(), self.pooling.rows(), self.pooling.cost());
        for_each_chunk_with(env.threads, out, row_len, 1, cost, scratch, |mut row, mut out, scratch| {
            while !out.is_empty() {
                let (image, first) = (row / rows, row % rows);
                let count = (rows - first).min(out.len() / row_len);
                let (now, rest) = out.split_at_mut(count * row_len);
                pool(input, image * self.image, first, now, scratch);
                (row, out) = (row + count, rest);
            }
        });
    }

    /// Folds vectors of elements.
    fn fold<T: Element, R: PoolFold<T>>(&self, env: &Env, scratch: &mut [R::Sum], io: &mut Io) {
        self.each(env, scratch, io, |input, start, first, out, scratch| {
            env.isa.run(PoolRows::<T, R> { pooling: &self.pooling, image: &input[start..], first, out, scratch });
        });
    }

    /// Folds float32: vectors of planes where they are, if windows are near each other.
    fn floats<R: VectorFold>(&self, env: &Env, io: &mut Io) {
        if !self.pooling.is_near(env.isa.lanes()) {
            return self.fold::<f32, R>(env, io.scratch(), io);
        }
        self.each(env, &mut [(); 0], io, |input, start, first, out, _| {
            env.isa.run(PoolPlane::<R> { pooling: &self.pooling, input, start, first, out, fold: PhantomData });
        });
    }

    /// Folds windows one by one: less code for what is rare.
    fn windows<T: Element, R: PoolFold<T>>(&self, env: &Env, io: &mut Io) {
        self.each(env, &mut [(); 0], io, |input, start, first, out, _| {
            pool_windows::<T, R>(&self.pooling, &input[start..], first, out);
        });
    }

    /// Bytes of an accumulator of vectors.
    fn sum_bytes(&self) -> usize {
        match (self.kind, self.dtype) {
            (PoolKind::Average, _) => size_of::<f32>(),
            (PoolKind::Max, DataType::Float32 | DataType::Float16 | DataType::Int8 | DataType::Uint8) => {
                self.dtype.size()
            }
            _ => 0,
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

    fn scratch_bytes(&self, threads: usize) -> usize {
        threads * self.pooling.scratch() * self.sum_bytes()
    }

    fn run(&self, env: &Env, io: &mut Io) {
        match (self.kind, self.dtype) {
            (PoolKind::Average, DataType::Float32) => self.floats::<Average>(env, io),
            (PoolKind::Average, DataType::Float16) => self.fold::<f16, Average>(env, io.scratch(), io),
            (PoolKind::Max, DataType::Float32) => self.floats::<Largest>(env, io),
            (PoolKind::Max, DataType::Float16) => self.fold::<f16, Largest>(env, io.scratch_i16(), io),
            (PoolKind::Max, DataType::Int8) => self.fold::<i8, Largest>(env, io.scratch(), io),
            (PoolKind::Max, DataType::Uint8) => self.fold::<u8, Largest>(env, io.scratch(), io),
            (PoolKind::Max, DataType::Int32) => self.windows::<i32, Largest>(env, io),
            (PoolKind::Max, DataType::Uint32) => self.windows::<u32, Largest>(env, io),
            (PoolKind::Max, DataType::Int64) => self.windows::<i64, Largest>(env, io),
            (PoolKind::Max, DataType::Uint64) => self.windows::<u64, Largest>(env, io),
            (PoolKind::L2, DataType::Float32) => self.windows::<f32, Norm>(env, io),
            (PoolKind::L2, DataType::Float16) => self.windows::<f16, Norm>(env, io),
            (_, dtype) => unreachable!("no pool of {dtype}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cpu::simd::Isa;
    use crate::dtype::{DataType, Number};
    use crate::ir::parse;
    use crate::ops::tensor::Tensor;
    use crate::shape::Descriptor;
    use crate::testing::{Tolerance, check, check_with, run_compiled_on};
    use proptest::prelude::*;

    /// Squares are summed in float64 on both sides: only the rounding of the result differs.
    const ROUNDED: Tolerance = Tolerance::ulps(1);

    /// Sums of values below 4 in float32, of at most 32 rows and 32 columns.
    const AVERAGED: Tolerance = Tolerance::ulps(2).or_absolute(32.0 * f32::EPSILON as f64);

    fn tolerance(pool: &str) -> Tolerance {
        match pool {
            "averagePool2d" => AVERAGED,
            "l2Pool2d" => ROUNDED,
            _ => Tolerance::EXACT,
        }
    }

    fn graph(pool: &str, dtype: &str, shape: [usize; 4], options: &str) -> crate::ir::Graph {
        parse(&format!("%0 = input x {dtype} {shape:?}\n%1 = {pool} %0 {options}\noutput y = %1"))
    }

    #[test]
    fn every_kind_and_layout() {
        for layout in ["nchw", "nhwc"] {
            // Sizes around those of blocks, and global pools.
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
                    check(&graph_of("averagePool2d", dtype), AVERAGED);
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
            check(&graph("averagePool2d", "float16", [1, 40, 41, 39], &options), AVERAGED);
            check(&graph("l2Pool2d", "float32", [1, 40, 41, 39], &format!("layout={layout}")), ROUNDED);
        }
    }

    #[test]
    fn windows_near_each_other_in_planes() {
        // Widths around those of vectors, windows and padding up to what they reach, and beyond.
        for width in [1, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65] {
            for (window, stride, [begin, end]) in [
                ("[3, 3]", "[1, 1]", [1, 1]),
                ("[2, 2]", "[2, 2]", [0, 1]),
                ("[3, 3]", "[2, 2]", [1, 1]),
                ("[1, 3]", "[1, 2]", [0, 2]),
                ("[2, 5]", "[3, 2]", [3, 9]),
                ("[1, 1]", "[2, 1]", [0, 0]),
                ("[5, 9]", "[1, 1]", [4, 4]),
                ("[4, 16]", "[2, 1]", [8, 7]),
                ("[4, 16]", "[2, 2]", [15, 40]),
            ] {
                let options = format!("windowDimensions={window} strides={stride} padding=[2, 1, {begin}, {end}]");
                for pool in ["averagePool2d", "maxPool2d"] {
                    // Dilated windows may be larger than the image.
                    check(&graph(pool, "float32", [2, 3, 7, width], &options), tolerance(pool));
                    if width > 30 {
                        let dilated = format!("{options} dilations=[2, 2]");
                        check(&graph(pool, "float32", [2, 3, 7, width], &dilated), tolerance(pool));
                    }
                }
            }
        }
    }

    #[test]
    fn images_of_several_tiles_and_windows_of_several_runs() {
        for (shape, options) in [
            ([1, 2, 230, 70], "windowDimensions=[3, 3] padding=[1, 1, 1, 1]"),
            ([1, 1, 200, 90], "windowDimensions=[5, 3] strides=[2, 2] padding=[2, 2, 1, 1]"),
            ([1, 1, 3, 5000], "windowDimensions=[2, 4] strides=[1, 2] padding=[0, 1, 1, 1]"),
            ([2, 1, 1, 4500], "windowDimensions=[1, 40] padding=[0, 0, 20, 20]"),
            ([1, 2, 20, 20], "windowDimensions=[13, 13] padding=[6, 6, 6, 6]"),
            ([1, 1, 60, 50], "windowDimensions=[33, 16] padding=[16, 16, 8, 7]"),
            ([1, 1, 60, 50], "windowDimensions=[32, 17] strides=[3, 2] padding=[16, 16, 8, 7]"),
            ([1, 1, 40, 37], "windowDimensions=[40, 35]"),
            ([1, 3, 9, 9], "windowDimensions=[2, 2] strides=[5, 3] dilations=[3, 2]"),
            ([1, 1, 30, 30], "windowDimensions=[1, 1] strides=[2, 3]"),
        ] {
            for (layout, shape) in [("nchw", shape), ("nhwc", [shape[0], shape[2], shape[3], shape[1]])] {
                for pool in ["averagePool2d", "l2Pool2d", "maxPool2d"] {
                    check(&graph(pool, "float32", shape, &format!("{options} layout={layout}")), tolerance(pool));
                }
                check(&graph("maxPool2d", "uint8", shape, &format!("{options} layout={layout}")), Tolerance::EXACT);
            }
        }
        let options = "windowDimensions=[3, 3] strides=[2, 2] padding=[1, 1, 1, 1] layout=nhwc";
        check(&graph("maxPool2d", "float16", [1, 30, 31, 40], options), Tolerance::EXACT);
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
                check_with(&graph, &inputs, tolerance(pool));
            }
        }
    }

    #[test]
    fn special_values_in_lines() {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        // In the second image, at the ends of rows, and at several places.
        for places in [&[700][..], &[0, 69, 560, 629], &[3, 71, 300, 301, 628]] {
            for (dtype, layout) in [("float32", "nchw"), ("float32", "nhwc"), ("float16", "nchw"), ("float16", "nhwc")]
            {
                let shape = if layout == "nchw" { [1, 2, 9, 70] } else { [1, 9, 70, 2] };
                let mut at = 0;
                let x = Tensor::from_fn(
                    &Descriptor::new(DataType::from_name(dtype).unwrap(), shape.map(|size| size as u32)),
                    |_| {
                        at += 1;
                        let found = places.iter().position(|&place| place == at - 1);
                        Number::Float(found.map_or((at % 13) as f64 - 6.0, |found| special[found % 3]))
                    },
                );
                let inputs = [("x".to_string(), x)].into();
                for stride in 1..4 {
                    for pool in ["averagePool2d", "maxPool2d"] {
                        let options = format!(
                            "windowDimensions=[3, 3] strides=[{stride}, {stride}] padding=[1, 1, 1, 1] layout={layout}"
                        );
                        check_with(&graph(pool, dtype, shape, &options), &inputs, tolerance(pool));
                    }
                }
            }
        }
    }

    #[test]
    fn equal_images_have_equal_averages() {
        let options = "windowDimensions=[19, 1] strides=[2, 1]";
        let pool = graph("averagePool2d", "float32", [2, 1, 100, 8], options);
        let mut at = 0;
        let x = Tensor::from_fn(&Descriptor::new(DataType::Float32, [2, 1, 100, 8]), |_| {
            at += 1;
            Number::Float(f64::from(1.0 / ((at - 1) % 800 + 1) as f32))
        });
        let inputs = [("x".to_string(), x)].into();
        for isa in Isa::available() {
            let y = &run_compiled_on(&pool, &inputs, isa)[0];
            let (first, second) = y.split_at(y.len() / 2);
            assert_eq!(first, second, "{isa:?}");
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
            check(&graph(pool, if half { "float16" } else { "float32" }, shape, &options), tolerance(pool));
        }
    }
}
