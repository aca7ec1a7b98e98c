//! Tests every product kernel against the oracle, at the edges of its tiles.

use super::choice::{TILES, Variant};
use super::self_test;
use crate::gpu::dialect::{Dialect, MatrixUnits};
use crate::gpu::lower::lower;
use crate::gpu::testing::{check_in, software};
use crate::ir::{Graph, parse};
use crate::testing::Tolerance;

/// For sums of `depth` products of numbers in -4..4. A misplaced element would be off by about 1.
fn tolerance(depth: u32, dtype: &str) -> Tolerance {
    match dtype {
        "float16" => Tolerance::ulps(2).or_absolute(2e-3 + 4e-6 * depth as f64),
        _ => Tolerance::ulps(16).or_absolute(4e-6 * depth as f64),
    }
}

/// `gemm()` of these sizes, with all of its options.
fn gemm(dtype: &str, [rows, columns, depth]: [u32; 3], [a_transpose, b_transpose]: [bool; 2], rest: &str) -> Graph {
    let matrix = |rows, columns, transpose| if transpose { [columns, rows] } else { [rows, columns] };
    let (a, b) = (matrix(rows, depth, a_transpose), matrix(depth, columns, b_transpose));
    let c = if rest.contains("beta") { "%2" } else { "" };
    let text = format!(
        "%0 = input a {dtype} {a:?}
         %1 = input b {dtype} {b:?}
         %2 = input c {dtype} [{columns}]
         %3 = gemm %0 %1 {c} aTranspose={a_transpose} bTranspose={b_transpose} {rest}
         output y = %3"
    );
    parse(&text)
}

/// A dialect with matrix units of this size, real or emulated.
fn with_units(dialect: Dialect, side: u32, emulated: bool) -> Dialect {
    let cooperative = Some(MatrixUnits { side, emulated });
    Dialect { subgroups: true, subgroup_size: Some(32), cooperative, ..dialect }
}

/// Checks `graph` with a variant on every device that supports it; at least one must.
fn check(graph: &Graph, depth: u32, dtype: &str, variant: Variant) {
    let dispatches = |dialect| lower(graph, graph.nodes.last().expect("a node"), dialect).expect("kernels").dispatches;
    let adapt = |dialect: Dialect| {
        let forced = Dialect { product: Some(variant), ..dialect };
        let subgroups = variant != Variant::SubgroupDots || dialect.subgroups;
        assert!(!dispatches(forced).is_empty());
        subgroups.then_some(forced)
    };
    assert!(check_in(graph, tolerance(depth, dtype), adapt) > 0);
}

const TRANSPOSES: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];

#[test]
fn tiles_at_their_edges() {
    for tile in TILES {
        for (turn, [rows, columns]) in [[-1, 1], [0, 4], [1, 0], [0, -1], [4, 1], [1, 4]].into_iter().enumerate() {
            let [rows, columns] = [rows, columns].map(|more: i32| tile.wrapping_add_signed(more));
            // Alternates depths around one step, and layouts.
            let depth = [8, 12, 16, 17, 31, 7][turn];
            let dtype = ["float32", "float16"][turn % 2];
            let graph = gemm(dtype, [rows, columns, depth], TRANSPOSES[turn % 4], "");
            check(&graph, depth, dtype, Variant::Tiled(tile));
        }
    }
}

#[test]
fn tiles_read_vectors_in_every_direction() {
    for tile in [32, 64] {
        for (turn, transposes) in TRANSPOSES.into_iter().enumerate() {
            let dtype = ["float32", "float16"][turn / 2];
            let graph = gemm(dtype, [tile + 8, tile + 4, 20], transposes, "alpha=0.5 beta=2");
            check(&graph, 20, dtype, Variant::Tiled(tile));
        }
    }
}

#[test]
fn few_rows_with_every_layout() {
    for variant in [Variant::Lines, Variant::Dots, Variant::SubgroupDots] {
        for (turn, [rows, columns, depth]) in
            [[1, 33, 128], [3, 31, 127], [8, 32, 132], [1, 3, 200], [5, 100, 64], [2, 1, 33]].into_iter().enumerate()
        {
            let dtype = ["float32", "float16"][turn % 2];
            let graph = gemm(dtype, [rows, columns, depth], TRANSPOSES[turn % 4], "");
            check(&graph, depth, dtype, variant);
        }
        let swapped = gemm("float32", [36, 4, 64], [false, true], "alpha=0.5 beta=2");
        check(&swapped, 64, "float32", variant);
    }
}

#[test]
fn sums_in_parts() {
    for (variant, sizes) in [
        (Variant::Lines, [2, 40, 1100]),
        (Variant::Dots, [1, 33, 2051]),
        (Variant::SubgroupDots, [3, 36, 1100]),
        (Variant::SubgroupDots, [36, 3, 1100]),
        (Variant::Tiled(32), [33, 36, 1100]),
        (Variant::Tiled(64), [20, 61, 1537]),
    ] {
        for (turn, transposes) in TRANSPOSES.into_iter().enumerate() {
            let dtype = ["float32", "float16"][turn % 2];
            let graph = gemm(dtype, sizes, transposes, "alpha=0.5 beta=2");
            check(&graph, sizes[2], dtype, variant);
        }
    }
}

#[test]
fn stacks_of_matrices_that_broadcast() {
    for variant in [Variant::Plain, Variant::Tiled(32), Variant::Lines, Variant::SubgroupDots] {
        for [rows, columns, depth] in [[3, 36, 33], [33, 8, 40]] {
            for dtype in ["float32", "float16"] {
                let text = format!(
                    "%0 = input a {dtype} [2, 1, {rows}, {depth}]
                     %1 = input b {dtype} [3, {depth}, {columns}]
                     %2 = matmul %0 %1
                     output y = %2"
                );
                check(&parse(&text), depth, dtype, variant);
            }
        }
    }
}

#[test]
fn the_epilogue_is_applied_to_every_element_once() {
    for variant in [Variant::Plain, Variant::Tiled(32), Variant::Lines, Variant::Dots] {
        for ([rows, columns, depth], dtype) in [([4, 36, 40], "float32"), ([5, 35, 1100], "float16")] {
            let text = format!(
                "%0 = input a {dtype} [{rows}, {depth}]
                 %1 = input b {dtype} [{depth}, {columns}]
                 %2 = input c {dtype} [{rows}, 1]
                 %3 = matmul %0 %1 %2 epilogue=[add(r0 r1), relu(r2)]
                 output y = %3"
            );
            check(&parse(&text), depth, dtype, variant);
        }
    }
}

#[test]
fn everything_around_matrix_units() {
    for (side, variant, sizes, transposes, rest) in [
        (16, Variant::Cooperative(64), [65, 61, 33], [true, false], ""),
        (16, Variant::Cooperative(64), [64, 68, 36], [true, true], "beta=2"),
        (16, Variant::Cooperative(64), [40, 72, 1100], [false, true], "alpha=0.5 beta=2"),
        (8, Variant::Cooperative(64), [64, 64, 40], [false, false], ""),
    ] {
        let graph = gemm("float16", sizes, transposes, rest);
        let adapt = |dialect: Dialect| {
            let forced = Dialect { product: Some(variant), ..with_units(dialect, side, true) };
            dialect.f16.then_some(forced)
        };
        assert_eq!(check_in(&graph, tolerance(sizes[2], "float16"), adapt), 1);
    }
}

/// `conv2d()` with a bias, of 2 images of 9 x 7.
fn convolution(dtype: &str, [inputs, outputs, groups]: [u32; 3], window: u32, layouts: [&str; 2]) -> Graph {
    let [input, filter] = layouts;
    let of_group = inputs / groups;
    let image = if input == "nchw" { [2, inputs, 9, 7] } else { [2, 9, 7, inputs] };
    let taps = match filter {
        "oihw" => [outputs, of_group, window, window],
        "hwio" => [window, window, of_group, outputs],
        _ => [outputs, window, window, of_group],
    };
    let rest = if window == 1 { "" } else { "padding=[1, 0, 2, 1] strides=[1, 2]" };
    parse(&format!(
        "%0 = input x {dtype} {image:?}
         %1 = input w {dtype} {taps:?}
         %2 = input b {dtype} [{outputs}]
         %3 = conv2d %0 %1 %2 inputLayout={input} filterLayout={filter} groups={groups} {rest}
         output y = %3"
    ))
}

#[test]
fn convolutions_as_products() {
    for (channels, window, layouts) in [
        ([6, 34, 1], 3, ["nchw", "oihw"]),
        ([8, 40, 1], 3, ["nhwc", "ohwi"]),
        ([16, 64, 2], 2, ["nhwc", "hwio"]),
        ([8, 36, 2], 3, ["nchw", "hwio"]),
        ([40, 36, 1], 1, ["nchw", "oihw"]),
        ([64, 48, 2], 1, ["nhwc", "ohwi"]),
        ([40, 20, 1], 1, ["nhwc", "hwio"]),
    ] {
        let depth = channels[0] / channels[2] * window * window;
        for (dtype, variant) in [("float32", Variant::Tiled(32)), ("float16", Variant::Tiled(64))] {
            check(&convolution(dtype, channels, window, layouts), depth, dtype, variant);
        }
        let adapt = |dialect: Dialect| {
            let forced = Dialect { product: Some(Variant::Cooperative(64)), ..with_units(dialect, 16, true) };
            dialect.f16.then_some(forced)
        };
        let graph = convolution("float16", channels, window, layouts);
        assert_eq!(check_in(&graph, tolerance(depth, "float16"), adapt), 1);
    }
}

#[test]
fn the_self_test_detects_wrong_results() {
    let device = software();
    let emulated = device.with_dialect(with_units(device.dialect, 16, true)).unwrap();
    assert_eq!(self_test::run(&emulated), Ok(Vec::new()));
    // A device without matrix units refuses the text for them.
    let forced = device.with_dialect(with_units(device.dialect, 16, false)).unwrap();
    assert_eq!(self_test::run(&forced).unwrap().is_empty(), device.dialect.cooperative.is_some());
}
