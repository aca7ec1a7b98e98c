//! All kernels, checked without a device: each is translated for Vulkan, DirectX 12 and Metal as drivers would get it.
//!
//! Without [`FOLDER`], only some are. With it, it takes the SPIR-V of all, for tools that are not written in Rust: see
//! `.ci/run gpu-kernels`.

mod kernels;
mod translate;

use super::dialect::{Dialect, MatrixUnits};
use super::kernel::Dispatch;
use super::lower::lower;
use super::simulate::{GENERATORS, is_in_first_half, random_graph};
use super::split::split;
use super::steps::product::choice::{TILES, Variant};
use super::testing::{DIALECTS, is_for_gpus, optimized};
use crate::compile::memory::{Place, Space};
use crate::ir::{Graph, parse};
use crate::ops::sweep::for_each_graph;
use crate::testing::Random;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use translate::{translate, version};

/// Names the folder that takes the SPIR-V.
const FOLDER: &str = "WEBNN_GPU_KERNELS";

/// Like AMD's GPUs with Mesa's driver.
const AMD: Dialect = Dialect {
    f16: true,
    int64: true,
    subgroups: true,
    subgroup_size: None,
    cooperative: None,
    workgroup_bytes: 65536,
    product: None,
};

/// Like NVIDIA's GPUs, with matrix units.
const UNITS: Dialect = Dialect {
    subgroup_size: Some(32),
    cooperative: Some(MatrixUnits { side: 16, emulated: false }),
    workgroup_bytes: 49152,
    ..AMD
};

/// Of so many kernels, one is translated where there is no folder: all take minutes, and the simulation validates their
/// texts, too.
const SAMPLED: u64 = 8;

/// The kernels so far: hashes of their texts, with the extensions that these may use.
#[derive(Default)]
struct Translated(HashSet<(u64, [bool; 4])>);

impl Translated {
    /// Translates a kernel that is new, and keeps it in the folder.
    fn add(&mut self, name: &str, source: &str, dialect: Dialect) {
        let extensions = [dialect.f16, dialect.int64, dialect.subgroups, dialect.cooperative.is_some()];
        let hash = rapidhash::v3::rapidhash_v3(source.as_bytes());
        let is_new = self.0.insert((hash, extensions));
        if !is_new || (std::env::var_os(FOLDER).is_none() && !hash.is_multiple_of(SAMPLED)) {
            return;
        }
        let tags = ["f16", "int64", "subgroups", "units"].into_iter().zip(extensions).filter(|(_, has)| *has);
        let tags = tags.map(|(tag, _)| format!("-{tag}")).collect::<String>();
        let (major, minor) = version(dialect);
        let words = translate(name, source, dialect);
        keep(&format!("spirv-{major}.{minor}"), &format!("{name}{tags}-{hash:016x}"), &words);
    }

    /// Translates the kernels of all nodes.
    fn add_graph(&mut self, graph: &Graph, dialect: Dialect) {
        for node in &graph.nodes {
            for dispatch in lower(graph, node, dialect).expect("all operators have kernels").dispatches {
                self.add(dispatch.name, &dispatch.source, dialect);
            }
        }
    }
}

/// Writes SPIR-V to the folder, if there is one.
fn keep(kind: &str, name: &str, words: &[u32]) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder).join(kind);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(format!("{}.spv", name.replace(' ', "_"))), bytes).expect("space for a file");
}

/// The kernels of these operators, of every data type and rank.
fn sweep(names: impl Fn(&str) -> bool) {
    let mut translated = Translated::default();
    for_each_graph(names, |graph, _| {
        if !is_for_gpus(&graph) {
            return;
        }
        for dialect in DIALECTS.into_iter().chain([AMD]) {
            translated.add_graph(&graph, dialect);
        }
        for node in &graph.nodes {
            for dispatch in lower(&graph, node, DIALECTS[3]).expect("kernels").dispatches {
                add_in_pieces(&mut translated, &dispatch, DIALECTS[3]);
            }
        }
    });
    assert!(translated.0.len() > 500, "{} kernels", translated.0.len());
}

#[test]
fn every_type_and_rank_of_one_half_of_the_operators() {
    sweep(is_in_first_half);
}

#[test]
fn every_type_and_rank_of_the_other_half() {
    sweep(|name| !is_in_first_half(name));
}

/// Translates a kernel with each tensor bound in three pieces.
///
/// # Panics
/// If it cannot be split, except for atomic arrays, which can only be used by reference.
fn add_in_pieces(translated: &mut Translated, dispatch: &Dispatch, dialect: Dialect) {
    let place = Place { space: Space::Arena, offset: 0, bytes: 700 };
    match split(&dispatch.source, &vec![place; dispatch.bindings.len()], 256) {
        Ok((source, places)) => {
            assert_eq!(places.len(), 3 * dispatch.bindings.len());
            translated.add(dispatch.name, &source, dialect);
        }
        Err(why) => assert!(why.contains("atomic"), "{}: {why}", dispatch.name),
    }
}

/// A product with all options, for each order of the terms of both matrices.
fn gemms(dtype: &str, [rows, columns, depth]: [u32; 3]) -> [Graph; 4] {
    [[false, false], [true, false], [false, true], [true, true]].map(|[a_transpose, b_transpose]| {
        let a = if a_transpose { [depth, rows] } else { [rows, depth] };
        let b = if b_transpose { [columns, depth] } else { [depth, columns] };
        parse(&format!(
            "%0 = input a {dtype} {a:?}
             %1 = input b {dtype} {b:?}
             %2 = input c {dtype} [{columns}]
             %3 = gemm %0 %1 %2 aTranspose={a_transpose} bTranspose={b_transpose} alpha=0.5 beta=2.0
             %4 = gelu %3
             output y = %4"
        ))
    })
}

#[test]
fn products_of_every_variant() {
    let mut translated = Translated::default();
    let variants = [Variant::Plain, Variant::Lines, Variant::Dots, Variant::SubgroupDots].into_iter();
    for variant in variants.chain(TILES.map(Variant::Tiled)) {
        for (base, dtype) in [(DIALECTS[1], "float32"), (DIALECTS[1], "float16"), (AMD, "float16")] {
            let dialect = Dialect { workgroup_bytes: 49152, product: Some(variant), ..base };
            // Rows of one and several accumulators; columns and depths with and without vectors; parts of sums.
            for rows in [1, 2, 8] {
                for [columns, depth] in [[64, 40], [65, 41], [64, 2048]] {
                    for graph in gemms(dtype, [rows, columns, depth]) {
                        translated.add_graph(&graph, dialect);
                        translated.add_graph(&optimized(&graph), dialect);
                    }
                }
            }
        }
    }
    assert!(translated.0.len() > 100, "{}", translated.0.len());
}

#[test]
fn products_with_matrix_units() {
    let mut translated = Translated::default();
    for (side, tile) in [(16, 64), (16, 128), (8, 64)] {
        let cooperative = Some(MatrixUnits { side, emulated: false });
        let dialect = Dialect { cooperative, product: Some(Variant::Cooperative(tile)), ..UNITS };
        for graph in gemms("float16", [200, 201, 64]) {
            let dispatches = lower(&graph, &graph.nodes[0], dialect).expect("kernels").dispatches;
            assert!(dispatches[0].source.contains("coopMultiplyAdd"));
            translated.add_graph(&graph, dialect);
            translated.add_graph(&optimized(&graph), dialect);
        }
    }
    assert!(translated.0.len() >= 24, "{}", translated.0.len());
}

/// Fused operators, before and after the kernels that they are part of.
#[test]
fn kernels_of_optimized_graphs() {
    let mut translated = Translated::default();
    for (_, generate, _) in GENERATORS {
        for seed in 1..=8 {
            let graph = optimized(&parse(&random_graph(*generate, &mut Random::new(seed))));
            for dialect in [DIALECTS[0], AMD, UNITS] {
                translated.add_graph(&graph, dialect);
            }
        }
    }
    assert!(translated.0.len() > 200, "{}", translated.0.len());
}

#[test]
fn kernels_that_stand_for_all() {
    let mut names = HashSet::new();
    for sample in kernels::samples() {
        let graph = optimized(&parse(&format!("{}\noutput y = %y", sample.text)));
        let dialect = Dialect { product: sample.product, ..AMD };
        let lowered = graph.nodes.iter().map(|node| lower(&graph, node, dialect).expect("kernels"));
        for (number, dispatch) in lowered.flat_map(|lowered| lowered.dispatches).enumerate() {
            let name = match number {
                0 => sample.name.clone(),
                _ => format!("{}, {} {}", sample.name, number + 1, dispatch.name),
            };
            let words = translate(&name, &dispatch.source, dialect);
            assert!(names.insert(name.clone()), "{name} twice");
            keep("samples", &name, &words);
        }
    }
}
