//! Straightforward loops: the yardstick for the gain of an optimized kernel. One thread, and only the vectors that the
//! compiler finds.

use machine_limits::best_of;
use std::hint::black_box;

/// Duration of each measurement, in seconds; a single call may take longer.
const SECONDS: f64 = 0.05;

/// Maximum number of multiply-adds to measure: more take longer than about a second.
const MAX_MULTIPLY_ADDS: usize = 1 << 30;

/// The best time of a loop in seconds.
pub fn seconds(mut work: impl FnMut()) -> f64 {
    best_of(SECONDS, &mut work)
}

/// `[m, k]` times `[k, n]`; `None` if it would take long.
pub fn product([m, k, n]: [usize; 3]) -> Option<f64> {
    let (a, b, mut out) = (vec![0.5f32; m * k], vec![0.25f32; k * n], vec![0.0f32; m * n]);
    (m * k * n <= MAX_MULTIPLY_ADDS).then(|| {
        seconds(|| {
            for (a, out) in a.chunks_exact(k).zip(out.chunks_exact_mut(n)) {
                out.fill(0.0);
                for (a, b) in a.iter().zip(b.chunks_exact(n)) {
                    out.iter_mut().zip(b).for_each(|(out, b)| *out += a * b);
                }
            }
            black_box(&out);
        })
    })
}

/// A square convolution with padding that keeps the size at stride 1, channels first; `None` if it would take long.
pub fn convolution(channels: [usize; 2], size: usize, filter: usize, stride: usize, groups: usize) -> Option<f64> {
    let [inputs, outputs] = [channels[0] / groups, channels[1] / groups];
    let (padding, out_size) = (filter / 2, size.div_ceil(stride));
    let x = vec![0.5f32; channels[0] * size * size];
    let weights = vec![0.25f32; channels[1] * inputs * filter * filter];
    let mut y = vec![0.0f32; channels[1] * out_size * out_size];
    let at = |out: usize, tap: usize| (out * stride + tap).checked_sub(padding).filter(|&place| place < size);
    (weights.len() * out_size * out_size <= MAX_MULTIPLY_ADDS / 4).then(|| {
        seconds(|| {
            for (i, y) in y.iter_mut().enumerate() {
                let (column, row, output) = (i % out_size, i / out_size % out_size, i / out_size / out_size);
                let mut sum = 0.0;
                for input in 0..inputs {
                    let image = &x[(output / outputs * inputs + input) * size * size..][..size * size];
                    for (tap, weight) in
                        weights[(output * inputs + input) * filter * filter..][..filter * filter].iter().enumerate()
                    {
                        if let (Some(row), Some(column)) = (at(row, tap / filter), at(column, tap % filter)) {
                            sum += image[row * size + column] * weight;
                        }
                    }
                }
                *y = sum;
            }
            black_box(&y);
        })
    })
}

/// Applies `work` to each row of a matrix and writes another one of the same size.
pub fn rows([rows, columns]: [usize; 2], work: impl Fn(&[f32], &mut [f32])) -> f64 {
    let x: Vec<f32> = (0..rows * columns).map(|i| (i % 401) as f32 / 100.0 - 2.0).collect();
    let mut y = vec![0.0f32; rows * columns];
    seconds(|| {
        x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)).for_each(|(x, y)| work(x, y));
        black_box(&y);
    })
}
