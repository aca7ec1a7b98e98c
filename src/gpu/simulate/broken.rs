//! Tests that the simulation detects faults: deliberately broken kernels and the expected reports.

use super::fast::Math;
use super::fault::{Checked, Kind};
use super::graph::Simulator;
use super::machine::{Launch, run};
use super::memory::Memory;
use super::program::Program;
use crate::gpu::kernel::Dispatch;
use crate::gpu::testing::DIALECTS;
use crate::ir::parse;
use crate::testing::Random;
use std::cell::Cell;
use std::collections::HashMap;

/// Runs the graph unchanged, which must succeed, and with `from` replaced by `to` in its kernels, which must report
/// this fault.
fn broken(graph: &str, from: &str, to: &str, kind: Kind, parts: &[&str]) {
    let graph = parse(graph);
    let inputs: HashMap<_, _> =
        graph.inputs.iter().map(|(name, id)| (name.clone(), Random::new(1).tensor(graph.descriptor(*id)))).collect();
    let mut programs = HashMap::new();
    let changes = Cell::new(0);
    let mut simulate = |edit: &dyn Fn(&mut Dispatch)| {
        Simulator { dialect: DIALECTS[3], subgroup: 8, math: Math::Strict, edit, programs: &mut programs }
            .run(&graph, &inputs)
    };
    simulate(&|_| ()).unwrap_or_else(|fault| panic!("{fault}"));
    let result = simulate(&|dispatch| {
        changes.set(changes.get() + dispatch.source.matches(from).count());
        dispatch.source = dispatch.source.replace(from, to);
    });
    assert!(changes.get() > 0, "{from:?} is in no kernel");
    expect(result, kind, parts);
}

fn expect<T>(result: Checked<T>, kind: Kind, parts: &[&str]) {
    let fault = result.err().expect("a fault");
    assert!(fault.kind == kind && parts.iter().all(|part| fault.message.contains(part)), "{fault}");
}

const COPY: &str = "%0 = input x float32 [67]
                    %1 = expand %0 newShape=[67]
                    output y = %1";
const SUM: &str = "%0 = input x float32 [2, 300]
                   %1 = cumulativeSum %0 axis=1
                   output y = %1";
const GRU: &str = "%0 = input x float32 [2, 1, 3]
                   %1 = input w float32 [1, 12, 3]
                   %2 = input r float32 [1, 12, 4]
                   %3 = gru %0 %1 %2 steps=2 hiddenSize=4
                   output y = %3";
const SCATTER: &str = "%0 = input x float32 [100]
                       %1 = input i int32 [3]
                       %2 = input u float32 [3]
                       %3 = scatterElements %0 %1 %2 axis=0
                       output y = %3";

#[test]
fn an_index_beyond_the_end_is_out_of_bounds() {
    let (i, twice) = ("fn x(i: u32) -> f32 {", "fn x(j: u32) -> f32 { let i = j * 2u;");
    let parts = ["copy: x_words: index 68 of 67", "invocation [34, 0, 0] of workgroup [0, 0, 0]"];
    broken(COPY, i, twice, Kind::OutOfBounds, &parts);
    let parts = ["cumulativeSum: x_words: index 600 of 600", "invocation [255, 0, 0] of workgroup [1, 0, 0]"];
    let last = "let last = min(first + piece, size);";
    // The last invocations have nothing to add: make them add the element after their row.
    broken(SUM, last, "let last = select(first, first + 1u, local == 255u);", Kind::OutOfBounds, &parts);
    let parts = ["sums: index 256 of 256", "invocation [255, 0, 0] of workgroup [0, 0, 0]"];
    broken(SUM, "before < local;", "before <= local + 1u;", Kind::OutOfBounds, &parts);
    let place = "output_words[at(row, i)] = rounded(next);";
    let parts = ["output_words: index 4294967295 of 600"];
    broken(SUM, place, "output_words[at(row, i) - 1u] = rounded(next);", Kind::OutOfBounds, &parts);
    // 3 elements and a word of padding: the word after the tensor is still within the binding.
    let three = "%0 = input x float32 [3]\n%1 = cumulativeSum %0 axis=0\noutput y = %1";
    let parts = ["x_words: index 3 of 3"];
    broken(three, "of_element(x(at(row, i)))", "of_element(x(at(row, i) + 1u))", Kind::OutOfBounds, &parts);
}

#[test]
fn a_missing_guard_lets_invocations_past_the_end() {
    let guard = "if (i < immediates.elements) { each(i); }";
    let parts = ["words: index 100 of 100", "invocation [36, 0, 0] of workgroup [1, 0, 0]"];
    broken(SCATTER, guard, "each(i);", Kind::OutOfBounds, &parts);
}

#[test]
fn a_missing_barrier_is_a_race() {
    broken(SUM, "workgroupBarrier();", "", Kind::Race, &["reads sums", "wrote", "workgroup [0, 0, 0]"]);
    broken(
        GRU,
        "storageBarrier();",
        "",
        Kind::Race,
        &["recurrent", "writes states", "invocations of workgroup 0 read"],
    );
    // A barrier for the other kind of memory does not prevent the race.
    broken(SUM, "workgroupBarrier();", "storageBarrier();", Kind::Race, &["reads sums"]);
    broken(GRU, "storageBarrier();", "workgroupBarrier();", Kind::Race, &["writes states"]);
}

#[test]
fn workgroups_that_write_the_same_are_a_race() {
    let own = "(group.y * groups.x + group.x) * 64u + local";
    let parts = ["fill: writes words, byte 128", "invocation 32 of workgroup 0 wrote", "of workgroup [1, 0, 0]"];
    broken(SCATTER, own, "group.x * 32u + local", Kind::Race, &parts);
}

#[test]
fn every_word_is_written_once() {
    let store = "output_words[w] = word(w);";
    broken(COPY, store, &store.repeat(2), Kind::WrittenTwice, &["output_words, byte 0 of 268"]);
    let some = format!("if (w != 7u) {{ {store} }}");
    broken(COPY, store, &some, Kind::NotWritten, &["output_words, byte 28 of 268"]);
}

#[test]
fn scratch_and_workgroup_memory_hold_nothing_at_first() {
    let (all, some) = ("words[i] = 0u;", "if (i != 5u) { words[i] = 0u; }");
    broken(SCATTER, all, some, Kind::Unwritten, &["scatter: owner", "byte 20"]);
    let (all, some) = ("if (row >= parameter(0u)) { return; }", "if (row > 0u) { return; }");
    broken(SUM, all, some, Kind::Unwritten, &["copy: x_words, byte 1200"]);
    let (all, some) = ("sums[local] = sum;", "if (local != 9u) { sums[local] = sum; }");
    broken(SUM, all, some, Kind::Unwritten, &["sums, byte 72"]);
}

#[test]
fn endless_loops_are_detected() {
    let step = "for (var i = first; i < last; i = i + 1u) { sum";
    broken(SUM, step, "for (var i = first; i < last; i = i + 0u) { sum", Kind::Endless, &["cumulativeSum"]);
}

#[test]
fn integer_operations_without_a_result_are_detected() {
    broken(SUM, "row / inner", "row / (inner - inner)", Kind::Arithmetic, &["division by zero in at: 0 and 0"]);
    broken(SUM, "let size = parameter(1u);", "let size = parameter(1u) << (row + 32u);", Kind::Arithmetic, &["shift"]);
}

/// Runs a kernel of 8 invocations on a buffer of 16 words, initialized to 0, 1, 2, .., and returns the words.
fn words_of(declarations: &str, body: &str) -> Checked<Vec<u32>> {
    words_with(Math::Strict, declarations, body)
}

/// The same, with these rules for floats.
fn words_with(math: Math, declarations: &str, body: &str) -> Checked<Vec<u32>> {
    let source = format!(
        "enable f16;
         struct Immediates {{ zero: u32 }}
         var<immediate> immediates: Immediates;
         @group(0) @binding(0) var<storage, read> parameters: array<u32>;
         @group(0) @binding(1) var<storage, read_write> words: array<u32>;
         {declarations}
         @compute @workgroup_size(8)
         fn main(
           @builtin(local_invocation_index) local: u32,
           @builtin(subgroup_invocation_id) lane: u32,
           @builtin(subgroup_size) size: u32,
         ) {{ {body} }}"
    );
    let program = Program::new("test", &source)?;
    let bytes: Vec<u8> = (0u32..16).flat_map(u32::to_le_bytes).collect();
    let mut memories = vec![Memory::holding(String::new(), &bytes), Memory::holding(String::new(), &bytes)];
    let launch = Launch {
        memories: &mut memories,
        bound: &[0, 1],
        immediates: &[0; 4],
        workgroups: [1, 1, 1],
        subgroup: 4,
        math,
    };
    run(&program, launch)?;
    Ok(memories[1].bytes.as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect())
}

/// The first 8 words of the result of [`words_of`].
fn first(declarations: &str, body: &str) -> [u32; 8] {
    let words = words_of(declarations, body).unwrap_or_else(|fault| panic!("{fault}"));
    words[..8].try_into().expect("16 words")
}

#[test]
fn control_flow() {
    let switch = "var x = 0u;
        for (var i = 0u; i < 10u; i++) {
          if (i == local) { continue; }
          switch i { case 1u, 2u: { x += 10u; if (local == 3u) { break; } x += 1u; } case 4u: { x += 100u; } default: {} }
          if (i > local + 2u) { break; }
        }
        words[local] = x;";
    assert_eq!(first("", switch), [22, 111, 111, 120, 22, 122, 122, 122]);
    let early = "fn f(n: u32) -> u32 { var i = 0u; loop { if (i * i >= n) { return i; } continuing { i++; break if i > 2u; } } return 77u; }";
    assert_eq!(first(early, "words[local] = f(local * 2u);"), [0, 2, 2, 77, 77, 77, 77, 77]);
}

#[test]
fn memory_of_all_kinds() {
    let nested = "struct Pair { a: vec4<f16>, b: array<u32, 3> }
        var<workgroup> tile: array<array<vec4<f32>, 2>, 4>;
        var<workgroup> count: atomic<u32>;
        var<private> own: Pair;
        fn bump(p: ptr<function, u32>) { *p = *p + 5u; }";
    let body = "tile[local / 2u][local % 2u] = vec4<f32>(f32(local));
        own.a = vec4<f16>(f16(local), 2.0h, 3.0h, 4.0h);
        own.b[local % 3u] = 7u;
        if (local == 0u) { atomicStore(&count, 0u); }
        workgroupBarrier();
        atomicAdd(&count, local);
        workgroupBarrier();
        var x = u32(tile[3u - local / 2u][1u - local % 2u].z);
        bump(&x);
        words[local] = x + 100u * own.b[local % 3u] + 1000u * u32(dot(own.a, vec4<f16>(1.0h))) + 1000000u * atomicLoad(&count);";
    let expected = [0, 1, 2, 3, 4, 5, 6, 7].map(|local| 7 - local + 5 + 700 + 1000 * (local + 9) + 28_000_000);
    assert_eq!(first(nested, body), expected);
    let uniform = "var<workgroup> chosen: u32;";
    let body = "if (local == 3u) { chosen = 9u; } words[local] = workgroupUniformLoad(&chosen) + local;";
    assert_eq!(first(uniform, body), [9, 10, 11, 12, 13, 14, 15, 16]);
}

#[test]
fn operations_of_subgroups() {
    assert_eq!(first("", "words[local] = subgroupAdd(local) + 100u * size + 1000u * lane;"), {
        [406, 1406, 2406, 3406, 422, 1422, 2422, 3422]
    });
    assert_eq!(first("", "words[local] = subgroupShuffleXor(local, 1u);"), [1, 0, 3, 2, 5, 4, 7, 6]);
    assert_eq!(first("", "words[local] = subgroupBroadcast(local, 2u);"), [2, 2, 2, 2, 6, 6, 6, 6]);
    assert_eq!(first("", "words[local] = u32(subgroupMax(f32(local) * 0.5) * 2.0);"), [3, 3, 3, 3, 7, 7, 7, 7]);
    assert_eq!(first("", "words[local] = subgroupInclusiveAdd(1u) + subgroupBallot(lane > 1u).x;"), {
        [13, 14, 15, 16, 13, 14, 15, 16]
    });
}

#[test]
fn packed_numbers() {
    let dot = "words[local] = u32(dot4I8Packed(0xff020304u, 0x01010101u)) + dot4U8Packed(0xff000001u, 0x02000003u);";
    assert_eq!(first("", dot)[0], 8 + 513);
    let halves = "words[local] = pack2x16float(unpack2x16float(0x3c004000u) * 2.0);";
    assert_eq!(first("", halves)[0], 0x4000_4400);
    assert_eq!(first("", "words[local] = pack4xU8(unpack4xU8(0x01020304u) + vec4<u32>(255u));")[0], 0x0001_0203);
    assert_eq!(
        first("", "words[local] = bitcast<u32>(select(vec2<f32>(1.0), vec2<f32>(2.0), vec2<bool>(true, false)).x);")[0],
        { 2f32.to_bits() }
    );
}

#[test]
fn code_reached_by_only_some_invocations_diverges() {
    let some = "for (var i = 0u; i < parameters[local]; i++) { workgroupBarrier(); }";
    expect(words_of("", some), Kind::Divergence, &["a barrier is reached by 7 of 8"]);
    let some = "if (parameters[local] > 5u) { words[local] = subgroupAdd(local); }";
    expect(words_of("", some), Kind::Divergence, &["a subgroup operation is reached by 2 of 4"]);
}

#[test]
fn unsupported_functions_are_named() {
    expect(words_of("", "words[local] = u32(frexp(f32(local)).exp);"), Kind::Unknown, &["Frexp"]);
}

/// A kernel that sums up to 2^24 with errors, which it adds up as well; `$` separates the operations.
const COMPENSATED: &str = "
    var high = 16777216.0;
    var low = 0.0;
    for (var i = 0u; i < 5u; i++) {
      let a = high;
      let s = $(a + 1.0);
      let t = $(s - a);
      low += $(a - $(s - t)) + $(1.0 - t);
      high = s;
    }
    words[local] = u32(high) - 16777216u + u32(low);";

#[test]
fn errors_that_a_compiler_cancels_are_lost_with_fast_math() {
    let sum = |math, opaque: &str| {
        let text = COMPENSATED.replace('$', opaque);
        let words = words_with(math, include_str!("../shaders/float.wgsl"), &text);
        words.unwrap_or_else(|fault| panic!("{fault}"))[0]
    };
    assert_eq!((sum(Math::Strict, ""), sum(Math::Strict, "opaque")), (5, 5));
    assert_eq!((sum(Math::Fast, ""), sum(Math::Fast, "opaque")), (0, 5));
    // The functions for all kernels.
    let precise = "var sum = vec2<f32>(16777216.0, 0.0);
        for (var i = 0u; i < 5u; i++) { sum = add_precise(sum, two_product(0.1, 10.0 + f32(local) * 0.0)); }
        words[local] = u32(i32(sum.x - 16777216.0) + i32(round(sum.y)));";
    for math in [Math::Strict, Math::Fast] {
        let words = words_with(math, include_str!("../shaders/float.wgsl"), precise);
        assert_eq!(words.unwrap_or_else(|fault| panic!("{fault}"))[0], 5, "{math:?}");
    }
}

#[test]
fn comparisons_do_not_recognize_nan_and_infinity_with_fast_math() {
    let body = "let x = bitcast<f32>(select(0x7fc00000u, 0x7f800000u, local == 1u) ^ immediates.zero);
        let compared = select(0u, 1u, x != x) + select(0u, 2u, x == infinity());
        let by_bits = select(0u, 1u, is_nan(x)) + select(0u, 2u, is_infinite(x));
        let ordered = select(0u, 4u, less_f32(x, 1.0) || less_f32(1.0, x)) + select(0u, 8u, equal_f32(x, x));
        let largest = select(0u, 16u, is_nan(max_f32(0.0, x)) && is_nan(max_f32(x, 0.0)));
        words[local] = 100u * compared + by_bits + ordered + largest;";
    let two = |math| words_with(math, include_str!("../shaders/float.wgsl"), body).map(|words| [words[0], words[1]]);
    assert_eq!(two(Math::Strict).ok(), Some([100 + 1 + 16, 200 + 2 + 4 + 8]));
    assert_eq!(two(Math::Fast).ok(), Some([200 + 1 + 16, 100 + 2 + 4 + 8]));
}
