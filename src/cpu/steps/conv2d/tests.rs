use super::super::testing::*;
use super::*;
use crate::ops::conv2d::FilterLayout;
use proptest::prelude::*;

/// The formula in `f64`: the value and the sum of magnitudes of each output.
fn reference(s: &Conv2dShape, input: &[f32], filter: &[f32], bias: Option<&[f32]>) -> Vec<(f64, f64)> {
    let ([ic, row, col], f) = (s.input_strides(), s.filter_strides());
    let ([gi, go], [oh, ow]) = (s.group(), s.output);
    let mut out = vec![(0.0, 0.0); s.batches * s.channels[1] * oh * ow];
    for n in 0..s.batches {
        for o in 0..s.channels[1] {
            for (y, x) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
                let start = bias.map_or(0.0, |bias| bias[o] as f64);
                let (mut sum, mut magnitude) = (start, start.abs());
                for (ty, tx) in (0..s.filter[0]).flat_map(|ty| (0..s.filter[1]).map(move |tx| (ty, tx))) {
                    let iy = (y * s.strides[0] + ty * s.dilations[0]) as isize - s.padding[0] as isize;
                    let ix = (x * s.strides[1] + tx * s.dilations[1]) as isize - s.padding[1] as isize;
                    if iy < 0 || ix < 0 || iy >= s.input[0] as isize || ix >= s.input[1] as isize {
                        continue;
                    }
                    for i in 0..gi {
                        let channel = o / go * gi + i;
                        let image = n * s.channels[0] * s.input[0] * s.input[1];
                        let x = input[image + channel * ic + iy as usize * row + ix as usize * col] as f64
                            * filter[o * f[0] + i * f[1] + ty * f[2] + tx * f[3]] as f64;
                        sum += x;
                        magnitude += x.abs();
                    }
                }
                let at = if s.channels_last {
                    ((n * oh + y) * ow + x) * s.channels[1] + o
                } else {
                    ((n * s.channels[1] + o) * oh + y) * ow + x
                };
                out[at] = (sum, magnitude);
            }
        }
    }
    out
}

/// Checks a filter that is an operand or packed, as float16 if `is_half`.
fn check(shape: &Conv2dShape, is_half: bool) {
    let [gi, _] = shape.group();
    let taps = shape.filter[0] * shape.filter[1];
    let input = random(shape.batches * shape.channels[0] * shape.input[0] * shape.input[1], 1);
    let (filter_half, filter) = halves(&random(shape.channels[1] * gi * taps, 2));
    let bias = random(shape.channels[1], 3);
    for (bias, packed) in [(None, false), (Some(&bias[..]), true)] {
        let exact = reference(shape, &input, &filter, bias);
        let doubled: Vec<_> = exact.iter().map(|&(x, m)| (2.0 * x, 2.0 * m)).collect();
        let run = |env: &Env| {
            let mut step = Conv2dStep::new(env.isa, env.threads.count(), shape.clone(), true);
            if packed {
                let weights = if is_half { Weights::of_slice(&filter_half) } else { Weights::of_slice(&filter) };
                step.prepack(weights, None).unwrap();
            }
            let mut out = vec![f32::NAN; exact.len()];
            let mut scratch = vec![f32::NAN; step.scratch_len()];
            let double = |_: usize, xs: &mut [f32]| xs.iter_mut().for_each(|x| *x *= 2.0);
            let operands = [Some(&input[..]), (!packed).then_some(&filter[..])];
            let tail = Tail { finish: Some(&double), ..Tail::NONE };
            step.run(env, operands, bias, tail, &mut out, &mut scratch);
            out
        };
        on_all(run, |env, out| {
            assert_sums(out, &doubled, gi * taps + 1, || {
                format!("{shape:?}, packed {packed}, {:?}, {} threads", env.isa, env.threads.count())
            });
        });
    }
}

/// A shape with the output size that follows from the other numbers.
fn shape(
    channels: [usize; 2],
    groups: usize,
    input: [usize; 2],
    filter: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    [top, bottom, left, right]: [usize; 4],
) -> Option<Conv2dShape> {
    let size = |axis: usize, padding: usize| {
        let reach = (filter[axis] - 1) * dilations[axis] + 1;
        (input[axis] + padding).checked_sub(reach).map(|free| free / strides[axis] + 1)
    };
    Some(Conv2dShape {
        batches: 2,
        groups,
        channels,
        input,
        filter,
        output: [size(0, top + bottom)?, size(1, left + right)?],
        strides,
        dilations,
        padding: [top, left],
        channels_last: false,
        layout: FilterLayout::Oihw,
    })
}

const LAYOUTS: [FilterLayout; 4] = [FilterLayout::Oihw, FilterLayout::Hwio, FilterLayout::Ohwi, FilterLayout::Ihwo];

#[test]
fn layouts_groups_and_edges() {
    let cases = [
        shape([3, 5], 1, [7, 9], [3, 3], [1, 1], [1, 1], [1; 4]),
        shape([4, 6], 1, [5, 5], [1, 1], [1, 1], [1, 1], [0; 4]),
        shape([4, 6], 1, [6, 5], [1, 1], [2, 2], [1, 1], [0; 4]),
        shape([4, 6], 2, [8, 20], [3, 2], [2, 3], [2, 1], [0, 3, 2, 1]),
        shape([5, 5], 5, [9, 70], [3, 3], [1, 1], [1, 1], [1; 4]),
        shape([70, 70], 70, [5, 6], [3, 3], [2, 2], [1, 1], [1, 0, 0, 1]),
        shape([3, 6], 3, [9, 8], [2, 3], [1, 2], [2, 3], [2, 1, 4, 3]),
        shape([1, 33], 1, [8, 8], [5, 5], [1, 1], [1, 1], [9, 9, 9, 9]),
        shape([35, 14], 1, [4, 40], [3, 3], [1, 1], [1, 1], [1; 4]),
    ];
    for base in cases.into_iter().flatten() {
        for channels_last in [false, true] {
            for layout in LAYOUTS {
                check(&Conv2dShape { channels_last, layout, ..base.clone() }, false);
            }
            check(&Conv2dShape { channels_last, ..base.clone() }, true);
        }
    }
}

#[test]
fn planes_at_the_edges_of_strips_blocks_and_vectors() {
    for base in [
        shape([3, 15], 1, [9, 1500], [3, 3], [1, 1], [1, 1], [1; 4]),
        shape([3, 23], 1, [40, 31], [7, 7], [2, 2], [1, 1], [3; 4]),
        shape([16, 32], 2, [30, 33], [3, 3], [1, 1], [1, 1], [1; 4]),
        shape([8, 6], 2, [14, 14], [3, 3], [2, 2], [1, 1], [1; 4]),
        shape([6, 18], 3, [17, 16], [5, 1], [3, 1], [2, 1], [4, 4, 0, 0]),
        shape([9, 9], 9, [70, 64], [3, 3], [2, 2], [1, 1], [1; 4]),
        shape([9, 27], 9, [64, 1], [9, 1], [1, 1], [1, 1], [4, 4, 0, 0]),
        shape([16, 6], 2, [1, 2500], [1, 7], [1, 2], [1, 1], [0, 0, 3, 3]),
        shape([5, 1], 1, [1, 1700], [1, 3], [1, 1], [1, 4], [0, 0, 8, 0]),
        shape([1, 17], 1, [1, 5000], [1, 10], [1, 5], [1, 1], [0; 4]),
        // A single row of outputs, but not of the filter.
        shape([3, 3], 3, [3, 1700], [3, 3], [1, 1], [1, 1], [0, 0, 1, 1]),
    ] {
        let base = base.unwrap();
        assert_ne!(Conv2dStep::new(Isa::best(), 1, base.clone(), false).kernel(), "conv2d im2col");
        check(&base, false);
        check(&base, true);
    }
}

#[test]
fn steps_and_dilations_beyond_any_memory() {
    // One tap is inside the image. Padded rows would take 2^63 floats, and twice that is 0 modulo 2^64.
    let far = i32::MAX as usize;
    let base = shape([2, 2], 2, [1, 1], [2, 1], [1, 1 << 28], [far, 1], [far, 0, 0, 0]).unwrap();
    for channels_last in [false, true] {
        check(&Conv2dShape { channels_last, ..base.clone() }, false);
    }
}

#[test]
fn large_enough_for_threads() {
    let base = shape([32, 40], 1, [20, 20], [3, 3], [1, 1], [1, 1], [1; 4]).unwrap();
    let deep = shape([48, 48], 48, [40, 40], [3, 3], [1, 1], [1, 1], [1; 4]).unwrap();
    for channels_last in [false, true] {
        check(&Conv2dShape { channels_last, ..base.clone() }, false);
        check(&Conv2dShape { channels_last, ..deep.clone() }, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn random_shapes(
        (groups, gi, go) in (1usize..4, 1usize..6, 1usize..20),
        (h, w, kh, kw) in (1usize..12, 1usize..40, 1usize..4, 1usize..5),
        strides in any::<[bool; 2]>(),
        dilations in [1usize..3, 1usize..4],
        padding in [0usize..4, 0usize..4, 0usize..4, 0usize..4],
        (channels_last, layout) in (any::<bool>(), 0usize..4),
    ) {
        let strides = strides.map(|two| 1 + two as usize);
        let channels = [groups * gi, groups * go];
        if let Some(base) = shape(channels, groups, [h, w], [kh, kw], strides, dilations, padding) {
            check(&Conv2dShape { channels_last, layout: LAYOUTS[layout], ..base }, false);
        }
    }
}

/// For each output, the largest sum of magnitudes among the outputs of the same channel in its tile.
fn tile_magnitudes(s: &Conv2dShape, tile: OutputTile, exact: &[(f64, f64)]) -> Vec<f64> {
    let ([high, wide], channels, size) = (s.output, s.channels[1], tile.size());
    let at = |image: usize, y: usize, x: usize, channel: usize| ((image * high + y) * wide + x) * channels + channel;
    let of = |i: usize| {
        let (pixel, channel) = (i / channels, i % channels);
        let (image, y, x) = (pixel / wide / high, pixel / wide % high, pixel % wide);
        let rows = (y / size * size..high).take(size);
        let places = rows.flat_map(|y| (x / size * size..wide).take(size).map(move |x| at(image, y, x, channel)));
        places.map(|place| exact[place].1).fold(0.0, f64::max)
    };
    (0..exact.len()).map(of).collect()
}

/// Compares with the exact sums, within the documented multiple of the sums of magnitudes.
fn check_winograd(shape: &Conv2dShape, tile: OutputTile, is_half: bool) {
    let [inputs, outputs] = shape.channels;
    let input = random(shape.batches * inputs * shape.input[0] * shape.input[1], 1);
    let (filter_half, filter) = halves(&random(outputs * inputs * 9, 2));
    let bias = random(outputs, 3);
    // With few channels, errors do not average out.
    let units = if inputs < 32 { 2.0 } else { 1.0 }
        * match tile {
            OutputTile::Two => 3.5,
            OutputTile::Four => 16.0,
        };
    for bias in [None, Some(&bias[..])] {
        let exact = reference(shape, &input, &filter, bias);
        let magnitudes = tile_magnitudes(shape, tile, &exact);
        let run = |env: &Env| {
            let mut step = Conv2dStep::new(env.isa, env.threads.count(), shape.clone(), true);
            let weights = if is_half { Weights::of_slice(&filter_half) } else { Weights::of_slice(&filter) };
            step.prepack(weights, Some(tile)).unwrap();
            assert!(step.kernel().starts_with("conv2d winograd"));
            let mut out = vec![f32::NAN; exact.len()];
            let mut scratch = vec![f32::NAN; step.scratch_len()];
            let negate = |_: usize, xs: &mut [f32]| xs.iter_mut().for_each(|x| *x = -*x);
            let tail = Tail { finish: Some(&negate), ..Tail::NONE };
            step.run(env, [Some(&input), None], bias, tail, &mut out, &mut scratch);
            out
        };
        on_all(run, |env, out| {
            for (i, ((x, &(sum, _)), magnitude)) in out.iter().zip(&exact).zip(&magnitudes).enumerate() {
                let x = -x as f64;
                let bound = 2f64.powi(-24) * (units * magnitude + 0.5 * sum.abs());
                assert!(
                    (x - sum).abs() <= bound,
                    "{shape:?}, {tile:?}, {:?}: element {i} is {x}, expected {sum} within {bound:e}",
                    env.isa
                );
            }
        });
    }
}

#[test]
fn winograd_at_edges_of_tiles_vectors_and_panels() {
    for (channels, input, padding) in [
        ([32, 32], [8, 8], [1; 4]),
        ([33, 35], [5, 7], [1; 4]),
        ([40, 70], [4, 13], [0, 1, 2, 0]),
        ([20, 17], [3, 3], [2, 2, 2, 2]),
        ([300, 16], [6, 6], [1; 4]),
        ([16, 48], [9, 30], [1; 4]),
    ] {
        let base = shape(channels, 1, input, [3, 3], [1, 1], [1, 1], padding).unwrap();
        for (layout, tile) in
            LAYOUTS.into_iter().zip([OutputTile::Two, OutputTile::Four, OutputTile::Two, OutputTile::Four])
        {
            let base = Conv2dShape { channels_last: true, layout, ..base.clone() };
            check_winograd(&base, tile, false);
        }
        for tile in [OutputTile::Two, OutputTile::Four] {
            check_winograd(&Conv2dShape { channels_last: true, ..base.clone() }, tile, true);
        }
    }
}

#[test]
fn winograd_is_for_images_of_many_pixels_per_weight() {
    let gate = |channels: [usize; 2], size: usize| {
        let base = shape(channels, 1, [size; 2], [3, 3], [1, 1], [1, 1], [1; 4]).unwrap();
        Conv2dShape { channels_last: true, batches: 1, ..base }.winograd()
    };
    assert_eq!(gate([64, 64], 56), Some(OutputTile::Four));
    assert_eq!(gate([128, 128], 28), Some(OutputTile::Four));
    // F(4x4) would grow the filters by 7 MB to save 6 % of the time.
    assert_eq!(gate([256, 256], 14), Some(OutputTile::Two));
    // It would grow them by 11 MB.
    assert_eq!(gate([320, 320], 32), Some(OutputTile::Two));
    // The filters would grow by 7 MB, read from distant memory in each run.
    assert_eq!(gate([512, 512], 7), None);
    // The transforms take as long as the products save.
    assert_eq!(gate([3, 64], 112), None);
    assert_eq!(gate([64, 8], 112), None);
    assert_eq!(gate([64, 16], 112), Some(OutputTile::Four));
    // A single special value would reach all outputs.
    assert_eq!(gate([64, 64], 3), None);
    let base = shape([64, 64], 1, [56; 2], [3, 3], [1, 1], [1, 1], [1; 4]).unwrap();
    let base = Conv2dShape { channels_last: true, ..base };
    for other in [
        Conv2dShape { channels_last: false, ..base.clone() },
        Conv2dShape { strides: [2, 1], ..base.clone() },
        Conv2dShape { dilations: [1, 2], ..base.clone() },
        Conv2dShape { groups: 2, ..base.clone() },
        Conv2dShape { filter: [3, 2], ..base.clone() },
    ] {
        assert!(base.winograd().is_some() && other.winograd().is_none(), "{other:?}");
    }
}

#[test]
fn no_size_overflows_the_gate() {
    let far = i32::MAX as usize;
    let base = shape([1 << 20, 1 << 20], 1, [far, far], [3, 3], [1, 1], [1, 1], [1; 4]).unwrap();
    assert_eq!(Conv2dShape { channels_last: true, ..base }.winograd(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn random_winograd(
        channels in [32usize..70, 1usize..70],
        input in [3usize..12, 3usize..20],
        padding in [0usize..4, 0usize..4, 0usize..4, 0usize..4],
        (four, layout) in (any::<bool>(), 0usize..4),
    ) {
        if let Some(base) = shape(channels, 1, input, [3, 3], [1, 1], [1, 1], padding) {
            let tile = if four { OutputTile::Four } else { OutputTile::Two };
            check_winograd(&Conv2dShape { channels_last: true, layout: LAYOUTS[layout], ..base }, tile, false);
        }
    }
}
