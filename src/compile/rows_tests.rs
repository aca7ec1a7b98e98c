use super::*;
use crate::compile::simplify::simplify;
use crate::ir::parse;
use crate::testing::{CPU, GPU, Random, Tolerance, check, check_pass, check_pass_changes_nothing};

/// The pass, followed by the one that removes slices of everything.
fn pass(graph: &mut Graph) {
    keep_rows(graph, &CPU);
    graph.verify();
    simplify(graph);
}

#[test]
fn a_slice_moves_in_front_of_all_operators_that_treat_rows_separately() {
    check_pass(
        pass,
        "%0 = input x float32 [1, 6, 8]
         %1 = input y float32 [1, 6, 8]
         %2 = add %0 %1
         %3 = layerNormalization %2 axes=[2] epsilon=0.5
         %4 = constant float32 [8, 5]
         %5 = matmul %3 %4
         %6 = softmax %5 axis=2
         %7 = slice %6 starts=[0, 5, 0] sizes=[1, 1, 5]
         output z = %7",
        "%0 = input x float32 [1, 6, 8]
         %1 = input y float32 [1, 6, 8]
         %2 = slice %0 sizes=[1, 1, 8] starts=[0, 5, 0]
         %3 = slice %1 sizes=[1, 1, 8] starts=[0, 5, 0]
         %4 = add %2 %3
         %5 = layerNormalization %4 axes=[2] epsilon=0.5
         %6 = constant float32 [8, 5]
         %7 = matmul %5 %6
         %8 = softmax %7 axis=2
         output z = %8",
    );
}

#[test]
fn a_batch_that_was_joined_with_rows_is_split_off() {
    check_pass(
        pass,
        "%0 = input x float32 [2, 6, 8]
         %1 = exp %0
         %2 = reshape %1 newShape=[12, 8]
         %3 = constant float32 [5, 8]
         %4 = gemm %2 %3 bTranspose=true
         %5 = reshape %4 newShape=[2, 6, 5]
         %6 = slice %5 starts=[0, 4, 1] sizes=[2, 2, 3]
         output y = %6",
        "%0 = input x float32 [2, 6, 8]
         %1 = slice %0 sizes=[2, 2, 8] starts=[0, 4, 0]
         %2 = exp %1
         %3 = reshape %2 newShape=[4, 8]
         %4 = constant float32 [5, 8]
         %5 = gemm %3 %4 bTranspose=true
         %6 = reshape %5 newShape=[2, 2, 5]
         %7 = slice %6 sizes=[2, 2, 3] starts=[0, 0, 1]
         output y = %7",
    );
}

#[test]
fn flat_values_are_sliced_by_groups() {
    check_pass(
        pass,
        "%0 = input x float32 [12, 8]
         %1 = constant float32 [8, 5]
         %2 = gemm %0 %1
         %3 = reshape %2 newShape=[2, 6, 5]
         %4 = slice %3 starts=[0, 1, 0] sizes=[2, 4, 5] strides=[1, 3, 1]
         output y = %4",
        "%0 = input x float32 [12, 8]
         %1 = reshape %0 newShape=[2, 6, 8]
         %2 = slice %1 sizes=[2, 4, 8] starts=[0, 1, 0] strides=[1, 3, 1]
         %3 = reshape %2 newShape=[4, 8]
         %4 = constant float32 [8, 5]
         %5 = gemm %3 %4
         %6 = reshape %5 newShape=[2, 2, 5]
         output y = %6",
    );
}

#[test]
fn two_readers_of_the_same_rows_share_them() {
    check_pass(
        pass,
        "%0 = input x float32 [1, 6, 8]
         %1 = constant float32 [8, 8]
         %2 = matmul %0 %1
         %3 = layerNormalization %2 axes=[2] epsilon=0.5
         %4 = matmul %3 %1
         %5 = add %2 %4
         %6 = slice %5 starts=[0, 5, 0] sizes=[1, 1, 8]
         output y = %6",
        "%0 = input x float32 [1, 6, 8]
         %1 = slice %0 sizes=[1, 1, 8] starts=[0, 5, 0]
         %2 = constant float32 [8, 8]
         %3 = matmul %1 %2
         %4 = layerNormalization %3 axes=[2] epsilon=0.5
         %5 = matmul %4 %2
         %6 = add %3 %5
         output y = %6",
    );
}

#[test]
fn a_value_that_others_read_is_sliced() {
    check_pass(
        pass,
        "%0 = input x float32 [1, 6, 8]
         %1 = constant float32 [8, 8]
         %2 = matmul %0 %1
         %3 = matmul %2 %1
         %4 = slice %3 starts=[0, 5, 0] sizes=[1, 1, 8]
         output hidden = %2
         output y = %4",
        "%0 = input x float32 [1, 6, 8]
         %1 = constant float32 [8, 8]
         %2 = matmul %0 %1
         %3 = slice %2 sizes=[1, 1, 8] starts=[0, 5, 0]
         %4 = matmul %3 %1
         output hidden = %2
         output y = %4",
    );
}

#[test]
fn a_gather_moves_behind_the_nodes_that_compute_its_indices() {
    check_pass(
        pass,
        "%0 = input x float32 [1, 6, 8]
         %1 = constant float32 [8, 5]
         %2 = matmul %0 %1
         %3 = input mask int32 [6]
         %4 = reduceSum %3
         %5 = gather %2 %4 axis=1
         output y = %5",
        "%0 = input x float32 [1, 6, 8]
         %1 = input mask int32 [6]
         %2 = reduceSum %1
         %3 = reshape %2 newShape=[1]
         %4 = gather %0 %3 axis=1
         %5 = constant float32 [8, 5]
         %6 = matmul %4 %5
         %7 = reshape %6 newShape=[1, 5]
         output y = %7",
    );
}

#[test]
fn indices_that_depend_on_the_value_leave_it_whole() {
    check_pass_changes_nothing(
        pass,
        "%0 = input x float32 [6, 8]
         %1 = constant float32 [8, 5]
         %2 = matmul %0 %1
         %3 = argMax %2
         %4 = reduceMax %3
         %5 = gather %2 %4
         output y = %5",
    );
}

#[test]
fn nothing_moves_without_a_gain() {
    for text in [
        // Half of the rows.
        "%0 = input x float32 [6, 8]
         %1 = exp %0
         %2 = slice %1 sizes=[3, 8] starts=[0, 0]
         output y = %2",
        // All rows are read elsewhere, or are an output.
        "%0 = input x float32 [6, 8]
         %1 = exp %0
         %2 = slice %1 sizes=[1, 8] starts=[0, 0]
         output y = %1
         output z = %2",
        // Other rows are read elsewhere.
        "%0 = input x float32 [6, 8]
         %1 = exp %0
         %2 = slice %1 sizes=[1, 8] starts=[0, 0]
         %3 = slice %1 sizes=[1, 8] starts=[1, 0]
         output y = %2
         output z = %3",
        // Rows that depend on each other.
        "%0 = input x float32 [6, 8]
         %1 = softmax %0
         %2 = slice %1 sizes=[1, 8] starts=[0, 0]
         output y = %2",
        "%0 = input x float32 [6, 8]
         %1 = reshape %0 newShape=[8, 6]
         %2 = exp %1
         %3 = reshape %2 newShape=[6, 8]
         %4 = slice %3 sizes=[1, 8] starts=[0, 0]
         output y = %4",
        // A reshape costs nothing.
        "%0 = input x float32 [6, 2, 4]
         %1 = reshape %0 newShape=[6, 8]
         %2 = slice %1 sizes=[1, 8] starts=[0, 0]
         output y = %2",
        // Columns of weights.
        "%0 = input x float32 [6, 8]
         %1 = constant float32 [8, 8]
         %2 = matmul %0 %1
         %3 = slice %2 sizes=[6, 1] starts=[0, 3]
         output y = %3",
        // The product computes the functions in its epilogue, also past a reshape.
        "%0 = input x float32 [4, 8]
         %1 = constant float32 [8, 8]
         %2 = gemm %1 %0 bTranspose=true
         %3 = relu %2
         %4 = reshape %3 newShape=[8, 4, 1]
         %5 = exp %4
         %6 = slice %5 sizes=[8, 1, 1] starts=[0, 3, 0]
         output y = %6",
    ] {
        check_pass_changes_nothing(pass, text);
    }
}

#[test]
fn a_slice_whose_kernel_computes_its_operand_stays() {
    let text = "%0 = input x float32 [6, 8]
                %1 = exp %0
                %2 = slice %1 sizes=[1, 8] starts=[0, 0]
                output y = %2";
    check_pass_changes_nothing(|graph| keep_rows(graph, &GPU), text);
    let mut graph = parse(text);
    pass(&mut graph);
    assert_eq!(graph.nodes[1].op.rule().name, "exp");
}

/// An operator on `%value` of a shape, as text with output `%next`: it keeps, moves or mixes positions.
fn random_operator(
    random: &mut Random,
    value: usize,
    next: &mut usize,
    shape: &mut Vec<u32>,
    text: &mut String,
) -> usize {
    let mut below = |n: usize| (random.next() % n as u64) as usize;
    let (rank, axis) = (shape.len(), below(shape.len()));
    let mut line = |line: String| {
        *text += &format!("%{next} = {line}\n");
        *next += 1;
        *next - 1
    };
    match below(13) {
        0 => line(format!("tanh %{value}")),
        1 => {
            // A constant that is broadcast along some dimensions, also as the first operand.
            let from = below(rank + 1);
            let own: Vec<u32> = shape[from..].iter().map(|&size| if below(2) == 0 { 1 } else { size }).collect();
            let constant = line(format!("constant float32 {own:?}"));
            line(format!("mul %{value} %{constant}"))
        }
        2 => line(format!("add %{value} %{value}")),
        3 => line(format!("softmax %{value} axis={axis}")),
        4 => line(format!("layerNormalization %{value} axes=[{axis}]")),
        5 if rank >= 2 => {
            let columns = 1 + below(4) as u32;
            let constant = line(format!("constant float32 [{}, {columns}]", shape[rank - 1]));
            shape[rank - 1] = columns;
            line(format!("matmul %{value} %{constant}"))
        }
        6 if rank >= 2 => {
            shape.swap(axis, rank - 1);
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(axis, rank - 1);
            line(format!("transpose %{value} permutation={order:?}"))
        }
        7 if rank >= 2 => {
            // Two dimensions are joined.
            let at = below(rank - 1);
            let joined = shape.remove(at);
            shape[at] *= joined;
            line(format!("reshape %{value} newShape={shape:?}"))
        }
        8 if rank < 4 && shape[axis].is_multiple_of(2) => {
            // One is split.
            shape[axis] /= 2;
            shape.insert(axis + below(2), 2);
            line(format!("reshape %{value} newShape={shape:?}"))
        }
        9 if rank >= 2 => {
            shape[axis] = 1;
            line(format!("reduceMean %{value} axes=[{axis}] keepDimensions=true"))
        }
        10 => {
            let size = 1 + below(shape[axis] as usize) as u32;
            let mut starts = vec![0; rank];
            starts[axis] = below((shape[axis] - size + 1) as usize);
            shape[axis] = size;
            line(format!("slice %{value} starts={starts:?} sizes={shape:?}"))
        }
        11 => {
            let other = line(format!("exp %{value}"));
            shape[axis] *= 2;
            line(format!("concat %{value} %{other} axis={axis}"))
        }
        _ => line(format!("cumulativeSum %{value} axis={axis}")),
    }
}

/// A chain of random operators followed by a slice or gather. Some of its values are outputs.
fn random_graph(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut shape: Vec<u32> = [2, 6, 4][(random.next() % 2) as usize..].to_vec();
    let mut text = format!("%0 = input x float32 {shape:?}\n");
    let (mut next, mut value, mut outputs) = (1, 0, String::new());
    for step in 0..3 + random.next() % 5 {
        value = random_operator(&mut random, value, &mut next, &mut shape, &mut text);
        if random.next().is_multiple_of(12) {
            outputs += &format!("output early{step} = %{value}\n");
        }
    }
    let axis = (0..shape.len()).max_by_key(|&axis| shape[axis]).expect("a dimension");
    if random.next().is_multiple_of(3) {
        let indices = if random.next().is_multiple_of(2) { "[]" } else { "[1]" };
        text += &format!("%{next} = input i int32 {indices}\n%{} = gather %{value} %{next} axis={axis}\n", next + 1);
        next += 1;
    } else {
        let mut starts = vec![0; shape.len()];
        starts[axis] = (random.next() % u64::from(shape[axis])) as u32;
        shape[axis] = 1;
        text += &format!("%{next} = slice %{value} starts={starts:?} sizes={shape:?}\n");
    }
    text + &outputs + &format!("output y = %{next}\n")
}

#[test]
fn random_graphs_compute_the_same() {
    let mut moved = 0;
    for seed in 0..120 {
        let graph = parse(&random_graph(seed));
        let mut kept = graph.clone();
        keep_rows(&mut kept, &CPU);
        kept.verify();
        moved += usize::from(kept.to_string() != graph.to_string());
        check(&graph, Tolerance::ulps(64).or_absolute(1e-4));
    }
    assert!(moved > 40, "the pass changed {moved} of 120 graphs");
}
