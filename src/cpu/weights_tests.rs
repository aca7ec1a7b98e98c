//! Graphs with mapped constants: the same bits as with owned ones, and memory held only once.

use super::arena::Arena;
use super::evaluate::evaluator;
use super::plan::{Plan, PlanOptions, TARGET};
use super::probe::stored_as_bfloat16;
use super::product::formats::ByteFormat;
use super::schedule::pool::Threads;
use super::simd::Isa;
use super::steps::Env;
use super::weights::{Weights, origins, resident};
use crate::compile::Passes;
use crate::description::Origin;
use crate::dtype::DataType;
use crate::error::{ErrorKind, Result};
use crate::ir::{Constant, Evaluator, Graph, Source, ValueId, Widened, parse};
use crate::memory::{Buffer, Mapped};
#[cfg(target_os = "linux")]
use crate::testing::alone;
use crate::testing::{Tolerance, check, run_compiled, shrink, with_mapped_constants};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

fn plan(graph: &Graph) -> Plan {
    let threads = Threads::new(1).unwrap();
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    Plan::compile(graph.clone(), &env, Passes::ALL, PlanOptions::default()).unwrap()
}

/// The addresses of the buffers held by a plan.
fn addresses(plan: &Plan) -> Vec<*const Buffer> {
    plan.weights().map(Arc::as_ptr).collect()
}

/// One operator with constant weights `%1`, and `%0` to multiply them with.
const OPERATORS: &[&str] = &[
    "%0 = input x T [5, 70]\n%1 = constant T [70, 45]\n%2 = matmul %0 %1",
    "%0 = input x T [2, 5, 70]\n%1 = constant T [2, 70, 45]\n%2 = matmul %0 %1",
    "%0 = input x T [70, 45]\n%1 = constant T [5, 70]\n%2 = matmul %1 %0",
    "%0 = input x T [5, 70]\n%1 = constant T [45, 70]\n%2 = gemm %0 %1 bTranspose=true",
    "%0 = input x T [1, 70]\n%1 = constant T [45, 70]\n%2 = gemm %0 %1 bTranspose=true",
    "%0 = input x T [5, 70]\n%1 = constant T [70, 90]\n%3, %4 = split %1 splits=2 axis=1\n%2 = matmul %0 %4",
    "%0 = input x T [5, 70]\n%1 = constant T [90, 70]\n%3, %4 = split %1 splits=2\n%2 = gemm %0 %4 bTranspose=true",
    "%0 = input x T [2, 6, 9, 9]\n%1 = constant T [14, 3, 3, 3]\n%2 = conv2d %0 %1 groups=2",
    "%0 = input x T [2, 9, 9, 6]\n%1 = constant T [3, 3, 3, 14]\n\
     %2 = conv2d %0 %1 groups=2 inputLayout=nhwc filterLayout=hwio",
    "%0 = input x T [2, 6, 9, 9]\n%1 = constant T [6, 1, 3, 3]\n%2 = conv2d %0 %1 groups=6",
    "%0 = input x T [2, 6, 9, 9]\n%1 = constant T [6, 5, 3, 3]\n%2 = convTranspose2d %0 %1 strides=[2, 2]",
    "%0 = input x T [6, 2, 20]\n%1 = constant T [1, 64, 20]\n%3 = constant T [1, 64, 16]\n\
     %2, %4 = lstm %0 %1 %3 steps=6 hiddenSize=16",
    "%0 = input x T [1, 2, 20]\n%1 = constant T [1, 48, 20]\n%3 = constant T [1, 48, 16]\n\
     %2 = gru %0 %1 %3 steps=1 hiddenSize=16",
    "%0 = input x T [4, 30]\n%1 = constant T [30]\n%2 = add %0 %1",
    "%0 = input x int32 [4]\n%1 = constant T [30, 7]\n%2 = gather %1 %0",
];

#[test]
fn mapped_constants_give_the_same_bits() {
    for operator in OPERATORS {
        for dtype in ["float32", "float16"] {
            let graph = parse(&(operator.replace(" T ", &format!(" {dtype} ")) + "\noutput y = %2"));
            for isa in Isa::available() {
                let owned = run_compiled(&graph, isa);
                for offset in [0, 2, 3] {
                    let (mapped, _file) = with_mapped_constants(&graph, offset);
                    assert!(run_compiled(&mapped, isa) == owned, "{isa:?}, offset {offset}:\n{graph}");
                }
            }
        }
    }
}

/// The bfloat16 constants of a graph as float32.
fn widened(mut graph: Graph) -> Graph {
    for value in &mut graph.values {
        if let Some(constant) = value.constant() {
            value.source = Source::Constant(Constant::Owned(constant.buffer().unwrap()));
        }
    }
    graph
}

#[test]
fn bfloat16_constants_give_the_bits_of_float32() {
    for operator in OPERATORS {
        let graph = stored_as_bfloat16(parse(&(operator.replace(" T ", " float32 ") + "\noutput y = %2")));
        for isa in Isa::available() {
            assert!(run_compiled(&widened(graph.clone()), isa) == run_compiled(&graph, isa), "{isa:?}:\n{graph}");
        }
    }
}

#[test]
fn products_with_bfloat16_at_the_edges_of_tiles() {
    for rows in [1, 2, 3, 12, 13] {
        for columns in [1, 7, 8, 16, 31, 32, 33, 64, 130, 257] {
            for depth in [1, 5, 70, 260] {
                let right = [format!("[{depth}, {columns}]"), format!("[{columns}, {depth}]")];
                for (text, left) in [
                    (format!("%1 = constant float32 {}\n%2 = matmul %0 %1", right[0]), [rows, depth]),
                    (format!("%1 = constant float32 {}\n%2 = gemm %0 %1 bTranspose=true", right[1]), [rows, depth]),
                    (format!("%1 = constant float32 {}\n%2 = matmul %1 %0", right[1]), [depth, rows]),
                ] {
                    let text = format!("%0 = input x float32 {left:?}\n{text}\noutput y = %2");
                    check(&stored_as_bfloat16(parse(&text)), Tolerance::ulps(16).or_absolute(2e-3));
                }
            }
        }
    }
}

#[test]
fn bfloat16_weights_take_two_bytes() {
    for transposed in [false, true] {
        let graph = stored_as_bfloat16(tied("float32", transposed, ""));
        check(&graph, SUMS);
        // Lanes are padded to the width of a panel.
        let (lanes, weights) = (90usize.next_multiple_of(32), weight_bytes(&plan(&graph)));
        assert!((70 * 90 * 2..=70 * lanes * 2).contains(&weights), "{weights} bytes of\n{graph}");
    }
}

/// Products of up to 80 terms below 8.
const SUMS: Tolerance = Tolerance::ulps(16).or_absolute(2e-4);
const HALF_SUMS: Tolerance = Tolerance::ulps(1).or_absolute(2e-4);

/// A matrix that is both gathered from and multiplied with; `besides` adds other readers.
fn tied(dtype: &str, transposed: bool, besides: &str) -> Graph {
    let shape = if transposed { "[90, 70]" } else { "[70, 90]" };
    parse(&format!(
        "%0 = input x {dtype} [5, 70]
         %1 = constant {dtype} {shape}
         %2 = input i int32 [3, 2]
         %3 = gather %1 %2
         %4 = gemm %0 %1 bTranspose={transposed}
         %5 = input j int64 []
         %6 = gather %1 %5
         %7 = input z {dtype} {shape}
         {besides}
         output g = %3
         output h = %6
         output p = %4"
    ))
}

#[test]
fn a_matrix_gathered_and_multiplied_is_held_once() {
    for (dtype, size, tolerance) in [("float32", 4, SUMS), ("float16", 2, HALF_SUMS)] {
        for transposed in [false, true] {
            let graph = tied(dtype, transposed, "");
            check(&graph, tolerance);
            let (mapped, _file) = with_mapped_constants(&graph, 1);
            assert!(run_compiled(&mapped, Isa::best()) == run_compiled(&graph, Isa::best()));
            // Lanes are padded to the width of a panel.
            let lanes = 90usize.next_multiple_of(32);
            for graph in [graph, mapped] {
                let weights = weight_bytes(&plan(&graph));
                assert!((70 * 90 * size..=70 * lanes * size).contains(&weights), "{weights} bytes of\n{graph}");
            }
        }
    }
}

#[test]
fn a_matrix_with_other_readers_keeps_its_raw_bytes() {
    for besides in ["%8 = add %7 %1\noutput s = %8", "%8 = gather %1 %2 axis=1\noutput s = %8"] {
        let graph = tied("float32", true, besides);
        check(&graph, SUMS);
        assert!(weight_bytes(&plan(&graph)) >= 2 * 70 * 90 * 4);
    }
}

/// A product with packed weights of 40 KiB, and with weights that are read in place.
fn product(rows: usize, dtype: &str) -> Graph {
    parse(&format!(
        "%0 = input x {dtype} [{rows}, 100]
         %1 = constant {dtype} [100, 96]
         %2 = matmul %0 %1
         %3 = input i int32 [{rows}]
         %4 = constant {dtype} [128, 96]
         %5 = gather %4 %3
         output y = %2
         output z = %5"
    ))
}

#[test]
fn plans_share_equal_weights() {
    let first = plan(&product(7, "float32"));
    let (mapped, _file) = with_mapped_constants(&product(9, "float32"), 3);
    let others = [plan(&product(9, "float32")), plan(&mapped), plan(&mapped)];
    assert_eq!(addresses(&first).len(), 2);
    for other in &others {
        assert_eq!(addresses(&first), addresses(other), "all weights are the same buffers");
    }
    let half = plan(&product(7, "float16"));
    assert!(addresses(&half).iter().all(|buffer| !addresses(&first).contains(buffer)));
    let twice = plan(&parse(
        "%0 = input x float32 [3, 100]
         %1 = constant float32 [100, 100] 1 2 3
         %2 = constant float32 [100, 100] 1 2 3
         %3 = matmul %0 %1
         %4 = matmul %3 %2
         output y = %4",
    ));
    assert_eq!(addresses(&twice)[0], addresses(&twice)[1]);
    assert!(weight_bytes(&twice) < 2 * 40_000, "memory shared by steps counts once");
}

#[test]
fn constants_are_packed_once_for_all_plans() {
    let (mapped, _file) = with_mapped_constants(&product(9, "float32"), 3);
    for graph in [product(7, "float32"), mapped] {
        let constant = graph.value(ValueId(1)).constant().unwrap();
        let weights = Weights::of(constant, DataType::Float32, None);
        // A form that no other test packs to.
        let form = ("this test", 96, 100);
        let first = weights.packed(&form, &[], 40, |_| Ok(())).unwrap();
        let again = weights.packed(&form, &[], 40, |_| panic!("it is shared")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let raw = [resident(constant).unwrap(), resident(constant).unwrap()];
        assert!(Arc::ptr_eq(&raw[0], &raw[1]));
        drop((first, again));
        assert!(weights.packed(&form, &[], 50, |_| Ok(())).unwrap().len() == 50, "no buffer is kept alive");
    }
}

#[test]
fn float16_constants_of_the_same_buffer_are_packed_once() {
    let graph = product(7, "float16");
    let Some(Constant::Owned(buffer)) = graph.value(ValueId(1)).constant() else { panic!("a buffer") };
    let window = || Mapped::new(buffer.clone(), 0..buffer.len()).unwrap();
    let [first, second] = [(); 2].map(|()| Constant::Widened(Widened::of_halves(window())));
    let pack = |constant, fill: &dyn Fn(&mut [u8]) -> Result<()>| {
        Weights::of(constant, DataType::Float32, None).packed(&("float16 test", 96, 100), &[], 40, fill).unwrap()
    };
    let made = pack(&first, &|_| Ok(()));
    assert!(Arc::ptr_eq(&made, &pack(&second, &|_| panic!("it is shared"))));
    let plans = [plan(&graph), plan(&graph)];
    let known = origins();
    let another = plan(&graph);
    assert_eq!((origins(), addresses(&another)), (known, addresses(&plans[0])), "nothing is packed again");
}

#[test]
fn bytes_are_packed_once_for_all_plans() {
    let graph = |rows| {
        parse(&format!(
            "%0 = input x uint8 [{rows}, 100]
             %1 = input z uint8 [1, 1]
             %2 = constant float32 [1, 1] 1
             %3 = dequantizeLinear %0 %2 %1
             %4 = constant int8 [100, 90]
             %5 = constant int8 [1, 1] 3
             %6 = dequantizeLinear %4 %2 %5
             %7 = matmul %3 %6
             output y = %7"
        ))
    };
    let (mapped, _file) = with_mapped_constants(&graph(7), 3);
    for graph in [graph(9), mapped] {
        let plan = plan(&graph);
        let held: Vec<_> = plan.weights().collect();
        let [panels] = held[..] else { panic!("{} weights", held.len()) };
        assert!(panels.len() < 12_000, "one byte per weight, and a few per column");
        let constant = graph.value(ValueId(4)).constant().unwrap();
        let (format, zeros) = (ByteFormat::of(Isa::best()).sizes(), vec![3i16; 90]);
        let (sizes, strides) = ([90, 100], [1, 90, 0, 0]);
        let form = ("int8", format.name, format.panel(), sizes, 0, strides, [1, 100], &zeros);
        let again = Weights::of(constant, DataType::Int8, None)
            .packed(&form, &[], panels.len(), |_| panic!("it is shared"))
            .unwrap();
        assert!(Arc::ptr_eq(panels, &again));
    }
}

#[test]
fn a_file_that_shrinks_before_the_graph_is_built_is_an_error() {
    for rows in [7, 1] {
        let (mapped, file) = with_mapped_constants(&product(rows, "float32"), 1);
        if !shrink(&file, 5000) {
            continue;
        }
        let threads = Threads::new(1).unwrap();
        let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
        let plan = Plan::compile(mapped, &env, Passes::ALL, PlanOptions::default());
        let error = plan.err().expect("the bytes are gone");
        assert_eq!(error.kind, ErrorKind::Operation);
        assert!(error.message.ends_with("and has 5000 now"), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_large_mapped_weight_is_in_memory_once() {
    alone("cpu::weights_tests::a_large_mapped_weight_is_in_memory_once", measure_a_large_weight);
}

#[cfg(target_os = "linux")]
fn measure_a_large_weight() {
    use crate::dtype::DataType;
    use crate::ir::Builder;
    use crate::memory::{Mapped, MappedFile};
    use crate::ops::attributes::{Attribute, Attributes};
    use crate::shape::Descriptor;
    use crate::testing::{TemporaryFile, process_bytes};
    use std::io::Write;

    const SIZE: u32 = 4096;
    const BYTES: usize = 4 * (SIZE * SIZE) as usize;
    let file = TemporaryFile::new("large", &[1, 2, 3]);
    let mut out = std::fs::File::options().append(true).open(&file.0).unwrap();
    for block in 0..BYTES >> 16 {
        let numbers = (0..1 << 14).flat_map(|i| (((i * 31 + block) % 1009) as f32 * 1e-3).to_le_bytes());
        out.write_all(&numbers.collect::<Vec<u8>>()).unwrap();
    }
    let mapped = MappedFile::open(&file.0).unwrap();
    let before = process_bytes("VmHWM");
    let mut plans = Vec::new();
    for rows in [8, 16] {
        let mut builder = Builder::new();
        let descriptor = Descriptor::new(DataType::Float32, [SIZE, SIZE]);
        let weight = builder.constant_mapped(descriptor, Mapped::new(mapped.clone(), 3..3 + BYTES).unwrap()).unwrap();
        let ids = builder.input("ids", Descriptor::new(DataType::Int32, [rows])).unwrap();
        let mut add = |name: &str, operands: [(&str, _); 2], attributes: Attributes| {
            let operands = operands.map(|(name, id)| (name.to_string(), vec![id])).into();
            builder.add_named(name, operands, attributes, "").unwrap()[0]
        };
        let x = add("gather", [("input", weight), ("indices", ids)], Attributes::default());
        let transpose = Attributes([("bTranspose".to_string(), Attribute::Bool(true))].into());
        let y = add("gemm", [("a", x), ("b", weight)], transpose);
        plans.push(plan(&builder.finish(vec![("y".to_string(), y)])));
        let (peak, after) = (process_bytes("VmHWM") - before, process_bytes("VmRSS").saturating_sub(before));
        assert!(peak < BYTES * 5 / 4 && after < BYTES * 115 / 100, "{rows} rows: peak {peak}, after {after}");
    }
    assert!(plans.iter().all(|plan| plan.bytes() >= BYTES));
}

fn weight_bytes(plan: &Plan) -> usize {
    let memory = plan.description().memory;
    memory.constants + memory.packed
}

/// A product, a convolution, and other readers of constants that are folded and large.
const FOLDED: [&str; 5] = [
    "%0 = input x T [5, 130]\n%1 = constant T [130, 128]\n%2 = constant T [130, 128]\n\
     %3 = concat %1 %2 axis=1\n%4 = matmul %0 %3",
    "%0 = input x T [5, 130]\n%1 = constant T [130, 128]\n%2 = constant T [130, 128]\n%3 = concat %1 %2 axis=1\n\
     %5 = matmul %0 %3\n%6 = input z T [130, 256]\n%7 = add %6 %3\n%8 = reduceSum %7 axes=[0] keepDimensions=true\n\
     %4 = add %5 %8",
    "%0 = input x T [1, 64, 9, 9]\n%1 = constant T [64, 64, 3, 3]\n%2 = conv2d %0 %1 padding=[1, 1, 1, 1]\n\
     %3 = constant T [64] 1 2 3\n%5 = constant T [64] 1 2 3\n%4 = batchNormalization %2 %3 %5",
    "%0 = input x T [2, 256]\n%1 = constant T [512, 256]\n%2 = tanh %1\n%3, %5 = split %2 splits=2\n\
     %6 = gemm %0 %3 bTranspose=true\n%7 = gemm %0 %5 bTranspose=true\n%4 = mul %6 %7",
    "%0 = input x int32 [7]\n%1 = constant T [512, 128]\n%2 = tanh %1\n%3 = gather %2 %0\n\
     %4 = gemm %3 %2 bTranspose=true",
];

/// Computes all derived constants of a graph.
fn computed(mut graph: Graph) -> Graph {
    for value in &mut graph.values {
        let Some(constant @ Constant::Derived(_)) = value.constant() else { continue };
        value.source = Source::Constant(match constant.halves() {
            Some(halves) => {
                let halves = halves.buffer().unwrap();
                let len = halves.len();
                Constant::Widened(Widened::of_halves(Mapped::new(halves, 0..len).unwrap()))
            }
            None => Constant::Owned(constant.buffer().unwrap()),
        });
    }
    graph
}

#[test]
fn folded_constants_are_computed_once_when_a_graph_is_lowered_and_never_if_their_panels_are_known() {
    let threads = Threads::new(2).unwrap();
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    for text in FOLDED {
        // Scales are not folded into filters of float16.
        let types = if text.contains("conv2d") { &["float32"][..] } else { &["float32", "float16"] };
        for dtype in types {
            let graph = parse(&(text.replace(" T ", &format!(" {dtype} ")) + "\noutput y = %4"));
            let calls: Arc<Mutex<Vec<usize>>> = Arc::default();
            let (cpu, own) = (evaluator(&env), calls.clone());
            let counting = Evaluator::new(move |graph, node| {
                own.lock().unwrap().push(std::ptr::from_ref(graph).addr());
                cpu.evaluate(graph, node)
            });
            let (mut lazy, _file) = with_mapped_constants(&graph, 3);
            let origin = Origin::optimize(&mut lazy, &TARGET, Passes::ALL, &counting).unwrap();
            calls.lock().unwrap().clear();
            let plan = |graph: &Graph| {
                Plan::of_optimized(&mut graph.clone(), origin.clone(), &env, PlanOptions::default()).unwrap()
            };
            let first = plan(&lazy);
            let nodes = calls.lock().unwrap().clone();
            let distinct: HashSet<usize> = nodes.iter().copied().collect();
            assert!(!nodes.is_empty() && distinct.len() == nodes.len(), "{nodes:?} of\n{lazy}");
            let again = plan(&lazy);
            assert_eq!(calls.lock().unwrap().len(), nodes.len(), "nothing is computed again for\n{lazy}");
            assert_eq!(addresses(&first), addresses(&again));
            // Equal bytes share a buffer.
            assert_eq!(addresses(&first), addresses(&plan(&computed(lazy.clone()))), "the bits of\n{lazy}");
        }
    }
}

#[test]
fn folded_constants_give_correct_results() {
    for text in FOLDED {
        let graph = parse(&(text.replace(" T ", " float32 ") + "\noutput y = %4"));
        check(&graph, Tolerance::ulps(64).or_absolute(0.1));
    }
}

#[test]
fn a_file_that_shrinks_before_a_folded_constant_is_computed_is_an_error() {
    let graph = parse(&(FOLDED[0].replace(" T ", " float32 ") + "\noutput y = %4"));
    let threads = Threads::new(1).unwrap();
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    let (mut mapped, file) = with_mapped_constants(&graph, 1);
    let origin = Origin::optimize(&mut mapped, &TARGET, Passes::ALL, &evaluator(&env)).unwrap();
    if shrink(&file, 5000) {
        let error =
            Plan::of_optimized(&mut mapped, origin, &env, PlanOptions::default()).err().expect("the bytes are gone");
        assert_eq!(error.kind, ErrorKind::Operation);
        assert!(error.message.ends_with("and has 5000 now"), "{error}");
    }
}
