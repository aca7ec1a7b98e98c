//! `batchNormalization()`, `instanceNormalization()` and `layerNormalization()`.

use super::elementwise::View;
use super::{Env, Run};
use crate::cpu::kernels::normalize::*;
use crate::cpu::kernels::reduce::{Moments, Nest, Reduce};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::ops::normalization::{BatchNormalization, InstanceNormalization, LayerNormalization};
use crate::ops::reduce::reduced_axes;
use crate::ops::rms_normalization::RmsNormalization;
use crate::shape::{Descriptor, elements, strides};

/// Approximate cost per element and pass, in multiply-adds of a matrix product.
const COST: usize = 8;

/// A compiled normalization of channels.
pub struct ChannelNormStep {
    /// Number of sets of coefficients: 1, or one per batch.
    sets: usize,
    channels: usize,
    /// Length of the rows: all contiguous elements of a channel, or all channels.
    columns: usize,
    rows_per_set: usize,
    /// Whether the elements of a row belong to different channels.
    channels_last: bool,
    epsilon: f64,
    /// The loops that compute mean and variance, unless these are operands.
    moments: Option<Nest>,
    /// The loops over a row.
    row: Nest,
}

impl ChannelNormStep {
    /// Creates the batch normalization `op` of an operand `input`.
    pub fn batch(op: &BatchNormalization, input: &Descriptor) -> ChannelNormStep {
        let (axis, shape) = (op.axis as usize, &input.sizes());
        let (channels, inner) = (shape[axis] as usize, elements(&shape[axis + 1..]));
        let channels_last = inner == 1;
        let columns = if channels_last { channels } else { inner };
        ChannelNormStep {
            sets: 1,
            channels,
            columns,
            rows_per_set: input.elements() / columns,
            channels_last,
            epsilon: op.epsilon,
            moments: None,
            row: Nest::new(&[columns], &[true]),
        }
    }

    /// Creates the instance normalization `op` of an operand `input`.
    pub fn instance(op: &InstanceNormalization, input: &Descriptor) -> ChannelNormStep {
        let dims: Vec<usize> = input.sizes().iter().map(|&dim| dim as usize).collect();
        let (sets, channels) = (dims[0], dims[op.channel_axis()]);
        let channels_last = op.channel_axis() == 3;
        let columns = if channels_last { channels } else { dims[2] * dims[3] };
        ChannelNormStep {
            sets,
            channels,
            columns,
            rows_per_set: input.elements() / columns / sets,
            channels_last,
            epsilon: op.epsilon,
            moments: Some(Nest::new(&dims, &op.reduced())),
            row: Nest::new(&[columns], &[true]),
        }
    }

    /// Computes the mean and factor of every channel of every batch.
    fn measure(&self, env: &Env, nest: &Nest, x: &[f32], moments: &mut [[f64; 2]]) {
        let reduction = Moments { epsilon: self.epsilon };
        for_each_chunk(env.threads, moments, 1, 1, COST * nest.count(), |first, out| {
            if !self.channels_last {
                let x = &x[first * self.columns..][..out.len() * self.columns];
                return env.isa.run(RowMoments { x, row: &self.row, moments: reduction, out });
            }
            env.isa.run(Reduce { nest, reduction, x, first, out });
        });
    }

    fn apply(&self, env: &Env, x: &[f32], out: &mut [f32], coefficients: Coefficients) {
        let &ChannelNormStep { columns, rows_per_set, channels_last, .. } = self;
        for_each_chunk(env.threads, out, columns, 1, COST * columns, |first, out| {
            let x = &x[first * columns..][..out.len()];
            if !channels_last {
                return env.isa.run(UniformRows { x, out, columns, first, coefficients });
            }
            for (i, (x, out)) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)).enumerate() {
                let start = (first + i) / rows_per_set * columns;
                let Coefficients { mean, factor, bias } = coefficients;
                let [mean, factor, bias] = [mean, factor, bias].map(|values| &values[start..start + columns]);
                env.isa.run(ChannelRow { x, out, coefficients: Coefficients { mean, factor, bias } });
            }
        });
    }
}

/// Splits off three parts of `count` elements each.
fn split(values: &mut [f64], count: usize) -> [&mut [f64]; 3] {
    let (a, rest) = values.split_at_mut(count);
    let (b, c) = rest.split_at_mut(count);
    [a, b, &mut c[..count]]
}

impl Run for ChannelNormStep {
    fn kernel(&self) -> &'static str {
        if self.moments.is_some() { "normalize channels, measured" } else { "normalize channels" }
    }

    fn scratch_bytes(&self, _threads: usize) -> usize {
        // Mean, factor and bias, and two moments.
        5 * self.sets * self.channels * size_of::<f64>()
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let count = self.sets * self.channels;
        let (x, scratch) = (io.input::<f32>(0), io.scratch_f64());
        let (coefficients, rest) = scratch.split_at_mut(3 * count);
        let [mean, factor, bias] = split(coefficients, count);
        let weights = match &self.moments {
            None => {
                fill_weights(Some(io.input::<f32>(1)), 1, 0.0, mean);
                fill_weights(Some(io.input::<f32>(2)), 1, 0.0, factor);
                factor.iter_mut().for_each(|variance| *variance = 1.0 / (*variance + self.epsilon).sqrt());
                3
            }
            Some(nest) => {
                let moments = &mut rest.as_chunks_mut::<2>().0[..count];
                self.measure(env, nest, x, moments);
                for (moments, (mean, factor)) in moments.iter().zip(mean.iter_mut().zip(&mut *factor)) {
                    [*mean, *factor] = *moments;
                }
                1
            }
        };
        let (scale, weight) = (io.optional::<f32>(weights), io.optional::<f32>(weights + 1));
        for (factor, bias) in factor.chunks_exact_mut(self.channels).zip(bias.chunks_exact_mut(self.channels)) {
            if let Some(scale) = scale {
                factor.iter_mut().zip(scale).for_each(|(factor, scale)| *factor *= *scale as f64);
            }
            fill_weights(weight, 1, 0.0, bias);
        }
        self.apply(env, x, io.output::<f32>(), Coefficients { mean, factor, bias });
    }
}

/// A compiled layer normalization.
pub struct LayerNormStep {
    moments: Moments,
    /// Whether to subtract the mean.
    centered: bool,
    layers: Layers,
}

enum Layers {
    /// Layers are contiguous rows, and the weights have the same order.
    Rows(Nest),
    /// Any other order of dimensions.
    Strided {
        nest: Nest,
        /// Number of layers.
        count: usize,
        /// Length of the runs in which moments and weights have one stride each.
        run: usize,
        /// Where an element's moments are, and their stride along a run.
        layer: (Box<View>, usize),
        /// Where an element's weights are, and their stride along a run.
        weight: (Box<View>, usize),
    },
}

impl LayerNormStep {
    /// Creates the layer normalization `op` of an operand `input`.
    pub fn new(op: &LayerNormalization, input: &Descriptor) -> LayerNormStep {
        let axes = op.axes(input.rank());
        let dims: Vec<usize> = input.sizes().iter().map(|&dim| dim as usize).collect();
        let reduced = reduced_axes(dims.len(), Some(&axes)).expect("the shape rule checked the axes");
        let first = (dims.len() - axes.len()) as u32;
        let layers = match axes.iter().copied().eq(first..dims.len() as u32) && !axes.is_empty() {
            true => Layers::Rows(Nest::new(&dims[first as usize..], &vec![true; axes.len()])),
            false => strided(&dims, &reduced, &axes),
        };
        LayerNormStep { moments: Moments { epsilon: op.epsilon }, centered: true, layers }
    }

    /// Creates the root-mean-square normalization `op` of an operand `input`.
    pub fn root_mean_square(op: &RmsNormalization, input: &Descriptor) -> LayerNormStep {
        let row: Vec<usize> = op.row(&input.sizes()).iter().map(|&dim| dim as usize).collect();
        let layers = Layers::Rows(Nest::new(&row, &vec![true; row.len()]));
        LayerNormStep { moments: Moments { epsilon: op.epsilon }, centered: false, layers }
    }
}

fn strided(dims: &[usize], reduced: &[bool], axes: &[u32]) -> Layers {
    let sizes: Vec<u32> = axes.iter().map(|&axis| dims[axis as usize] as u32).collect();
    let mut weight = vec![0; dims.len()];
    axes.iter().zip(strides(&sizes)).for_each(|(&axis, stride)| weight[axis as usize] = stride);
    let (mut layer, mut count) = (vec![0; dims.len()], 1);
    for axis in (0..dims.len()).rev().filter(|&axis| !reduced[axis]) {
        layer[axis] = count;
        count *= dims[axis];
    }
    let [layer, weight] = [layer, weight].map(|strides| Box::new(View::new(dims, &strides)));
    let ((layers, layer_stride), (weights, weight_stride)) = (layer.inner(), weight.inner());
    Layers::Strided {
        nest: Nest::new(dims, reduced),
        count,
        run: layers.min(weights),
        layer: (layer, layer_stride),
        weight: (weight, weight_stride),
    }
}

/// Elements whose coefficients are computed at a time.
const BLOCK: usize = 256;

/// Computes one run; the slices of moments and weights start at its first element.
fn strided_run(
    env: &Env,
    x: &[f32],
    out: &mut [f32],
    (layers, layer_stride): (&[[f64; 2]], usize),
    ([scale, bias], weight_stride): ([Option<&[f32]>; 2], usize),
) {
    let (mut mean, mut factor, mut shift) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
    for (block, (x, out)) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).enumerate() {
        let (start, len) = (block * BLOCK, x.len());
        let (mean, factor, shift) = (&mut mean[..len], &mut factor[..len], &mut shift[..len]);
        let [scale, bias] = [scale, bias].map(|weights| weights.map(|weights| &weights[start * weight_stride..]));
        fill_weights(scale, weight_stride, 1.0, factor);
        fill_weights(bias, weight_stride, 0.0, shift);
        for (i, (mean, factor)) in mean.iter_mut().zip(&mut *factor).enumerate() {
            let [layer_mean, layer_factor] = layers[(start + i) * layer_stride];
            *mean = layer_mean;
            *factor *= layer_factor;
        }
        env.isa.run(ChannelRow { x, out, coefficients: Coefficients { mean, factor, bias: shift } });
    }
}

impl Run for LayerNormStep {
    fn kernel(&self) -> &'static str {
        match &self.layers {
            Layers::Rows(_) if !self.centered => "normalize rows, root mean square",
            Layers::Rows(_) => "normalize rows",
            Layers::Strided { .. } => "normalize strided",
        }
    }

    fn scratch_bytes(&self, _threads: usize) -> usize {
        match &self.layers {
            Layers::Rows(_) => 0,
            Layers::Strided { count, .. } => count * size_of::<[f64; 2]>(),
        }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (x, scale, bias) = (io.input::<f32>(0), io.optional::<f32>(1), io.optional::<f32>(2));
        let (out, moments, centered) = (io.output::<f32>(), self.moments, self.centered);
        match &self.layers {
            Layers::Rows(row) => {
                let columns = row.count();
                for_each_chunk(env.threads, out, columns, 1, 3 * COST * columns, |first, out| {
                    let x = &x[first * columns..][..out.len()];
                    env.isa.run(LayerRows { x, out, row, moments, centered, scale, bias });
                });
            }
            Layers::Strided { nest, count, run, layer, weight } => {
                let layers = &mut io.scratch_f64().as_chunks_mut::<2>().0[..*count];
                for_each_chunk(env.threads, layers, 1, 1, COST * nest.count(), |first, out| {
                    env.isa.run(Reduce { nest, reduction: moments, x, first, out });
                });
                let layers = &*layers;
                for_each_chunk(env.threads, out, *run, 1, 3 * COST * run, |first, out| {
                    for (i, out) in out.chunks_exact_mut(*run).enumerate() {
                        let start = (first + i) * run;
                        let layers = (&layers[layer.0.offset(start)..], layer.1);
                        let weight_at = weight.0.offset(start);
                        let weights = [scale, bias].map(|weights| weights.map(|weights| &weights[weight_at..]));
                        strided_run(env, &x[start..start + run], out, layers, (weights, weight.1));
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    /// Terms reach 70, where 4 ULP are 3e-5; most are below 8.
    const TOLERANCE: Tolerance = Tolerance::ulps(4).or_absolute(1e-5);

    /// The lines that define the operands after the first, some of them absent, and the names of these operands.
    fn weights(dtype: &str, shape: &[u32], scale: bool, bias: bool) -> (String, String) {
        let lines = format!("%8 = input s {dtype} {shape:?}\n%9 = input b {dtype} {shape:?}\n");
        (lines, format!("{} {}", if scale { "%8" } else { "_" }, if bias { "%9" } else { "_" }))
    }

    fn batch(dtype: &str, shape: &[u32], axis: usize, scale: bool, bias: bool) {
        let channels = [shape[axis]];
        let (lines, words) = weights(dtype, &channels, scale, bias);
        // The variance is a constant: the oracle then reads the same rounded numbers.
        let values: Vec<String> = (0..channels[0]).map(|i| format!("{}", 0.5 + (i % 7) as f32)).collect();
        let text = format!(
            "%0 = input x {dtype} {shape:?}\n%1 = input m {dtype} {channels:?}\n\
             %2 = constant {dtype} {channels:?} {}\n{lines}\
             %3 = batchNormalization %0 %1 %2 {words} axis={axis} epsilon=0.001\noutput y = %3",
            values.join(" ")
        );
        check(&parse(&text), TOLERANCE);
    }

    fn instance(dtype: &str, shape: [u32; 4], layout: &str, scale: bool, bias: bool) {
        let channels = if layout == "nchw" { shape[1] } else { shape[3] };
        let (lines, words) = weights(dtype, &[channels], scale, bias);
        let text = format!(
            "%0 = input x {dtype} {shape:?}\n{lines}%3 = instanceNormalization %0 {words} layout={layout}\noutput y = %3"
        );
        check(&parse(&text), TOLERANCE);
    }

    fn layer(dtype: &str, shape: &[u32], axes: &[u32], scale: bool, bias: bool) {
        let sizes: Vec<u32> = axes.iter().map(|&axis| shape[axis as usize]).collect();
        let (lines, words) = weights(dtype, &sizes, scale, bias);
        let text = format!(
            "%0 = input x {dtype} {shape:?}\n{lines}%3 = layerNormalization %0 {words} axes={axes:?}\noutput y = %3"
        );
        check(&parse(&text), TOLERANCE);
    }

    #[test]
    fn batches() {
        for dtype in ["float32", "float16"] {
            for (scale, bias) in [(false, false), (true, false), (false, true), (true, true)] {
                batch(dtype, &[2, 3, 4, 5], 1, scale, bias);
                batch(dtype, &[7, 300], 1, scale, bias);
                batch(dtype, &[5, 300], 0, scale, bias);
                batch(dtype, &[9], 0, scale, bias);
            }
        }
    }

    #[test]
    fn instances() {
        for dtype in ["float32", "float16"] {
            for (scale, bias) in [(false, false), (true, false), (false, true), (true, true)] {
                for shape in [[2, 3, 4, 5], [1, 2, 20, 20], [2, 1, 3, 150], [2, 4, 1, 2]] {
                    instance(dtype, shape, "nchw", scale, bias);
                    instance(dtype, shape, "nhwc", scale, bias);
                }
            }
        }
    }

    #[test]
    fn layers() {
        let shapes: [(&[u32], &[u32]); 11] = [
            (&[4, 300], &[1]),
            (&[5, 300], &[0]),
            (&[2, 3, 40], &[1, 2]),
            (&[2, 3, 40], &[2, 1]),
            (&[2, 3, 40], &[0, 2]),
            (&[2, 3, 4, 5], &[3, 0, 1]),
            (&[2, 3, 4, 5], &[1]),
            (&[2, 3, 4, 5], &[0, 1, 2, 3]),
            (&[2, 3], &[]),
            (&[], &[]),
            (&[6], &[0]),
        ];
        for dtype in ["float32", "float16"] {
            for (shape, axes) in shapes {
                for (scale, bias) in [(false, false), (true, false), (false, true), (true, true)] {
                    layer(dtype, shape, axes, scale, bias);
                }
            }
        }
    }

    /// Squares beyond the range of float32, and a deviation that is small relative to the mean.
    #[test]
    fn magnitudes_at_the_edges() {
        for (scale, offset) in [("1e-25", "0"), ("1e25", "0"), ("1", "1000"), ("1", "300000")] {
            for line in ["layerNormalization %3 axes=[2, 3] epsilon=0", "instanceNormalization %3 epsilon=0"] {
                let graph = parse(&format!(
                    "%0 = input x float32 [1, 2, 20, 20]\n%1 = constant float32 [] {scale}\n\
                     %2 = constant float32 [] {offset}\n%9 = mul %0 %1\n%3 = add %9 %2\n%4 = {line}\noutput y = %4"
                ));
                // The sum with the offset is rounded first, unlike in the oracle.
                let rounding = if offset == "0" { 1e-5 } else { offset.parse::<f64>().unwrap() * 1e-7 };
                check(&graph, Tolerance::ulps(8).or_absolute(rounding));
            }
        }
    }

    #[test]
    fn work_is_split() {
        layer("float32", &[200, 300], &[1], true, true);
        layer("float32", &[200, 300], &[0], true, true);
        batch("float32", &[4, 30, 20, 20], 1, true, true);
        instance("float32", [4, 20, 20, 30], "nhwc", true, true);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_layers(
            dims in prop::collection::vec(1u32..6, 1..5),
            order in Just((0..4u32).collect::<Vec<_>>()).prop_shuffle(),
            count in 0usize..5,
            scale: bool,
            bias: bool,
        ) {
            let axes: Vec<u32> = order.into_iter().filter(|&axis| (axis as usize) < dims.len()).take(count).collect();
            layer("float32", &dims, &axes, scale, bias);
        }
    }
}
