//! The compiler: passes that rewrite a graph, one per file, and the memory plan. Knows no backend.

pub mod affine;
mod beside;
mod block_product;
mod blocks;
mod duplicates;
pub mod fold;
pub mod fuse;
mod growing;
mod halves;
pub mod layout;
pub mod memory;
pub mod patterns;
pub mod prologue;
pub mod quantized;
#[cfg(test)]
mod rearranged_tests;
mod rows;
pub mod simplify;
mod target;
pub mod transposed;
mod unpack;
pub mod views;

pub use growing::{appending, find_growing};
pub use target::{Granularity, Operands, Passes, Reads, Target};

use crate::error::Result;
use crate::ir::{Evaluator, Graph};
#[cfg(test)]
pub use block_product::fuse_block_products;
pub use halves::{is_settled, widen_halves};
use std::collections::HashSet;
pub use unpack::unpack;

/// Runs those of `passes` on `graph` that `target` has kernels for; returns these.
///
/// # Errors
/// An `UnknownError` if memory for folded constants runs out, an `OperationError` if a mapped one cannot be read.
pub fn optimize(graph: &mut Graph, target: &Target, passes: Passes, evaluator: &Evaluator) -> Result<Passes> {
    let passes = passes.and(target.passes);
    if passes.growing {
        growing::grow(graph);
        check(graph);
    } else {
        graph.growing.clear();
    }
    if passes.prologues {
        // Must run before transposed constants move into products.
        quantized::sink(graph, false)?;
        check(graph);
    }
    if passes.simplify {
        // Must run before folding, which would transpose the constants.
        transposed::transpose_in_products(graph);
        check(graph);
    }
    if passes.weights {
        block_product::fuse_block_products(graph);
        check(graph);
    }
    unpack(graph)?;
    check(graph);
    tidy(graph, target, passes, evaluator)?;
    if passes.simplify {
        duplicates::merge_duplicates(graph);
        check(graph);
    }
    if passes.patterns {
        for fuse in [patterns::fuse_gelu, patterns::fuse_normalizations, patterns::fuse_attention] {
            fuse(graph);
            check(graph);
        }
        tidy(graph, target, passes, evaluator)?;
    }
    if passes.rows {
        rows::keep_rows(graph, target);
        check(graph);
        tidy(graph, target, passes, evaluator)?;
    }
    // Computes the filters that the pass writes as operators now, not at each dispatch.
    if passes.affine && passes.fold {
        affine::absorb_affine(graph);
        check(graph);
        tidy(graph, target, passes, evaluator)?;
    }
    if !target.computes_halves {
        // Must run after attention is one operator, which may read caches, and after filters are folded.
        widen_halves(graph)?;
        check(graph);
    }
    if passes.layout {
        layout::channels_last(graph);
        check(graph);
        tidy(graph, target, passes, evaluator)?;
    }
    if passes.quantized {
        quantized::quantized(graph, evaluator)?;
        check(graph);
        if passes.fold {
            fold::fold(graph, &HashSet::new(), evaluator)?;
            check(graph);
        }
    }
    if passes.epilogues {
        fuse::fuse_epilogues(graph, target);
        check(graph);
    }
    if passes.chains {
        fuse::fuse_chains(graph, target);
        check(graph);
    }
    if passes.prologues {
        prologue::fuse_prologues(graph, target)?;
        check(graph);
    }
    if passes.beside {
        beside::move_beside(graph);
        check(graph);
    }
    graph.sort_origins();
    Ok(passes)
}

/// Folds new constants, and removes operators that have become no-ops.
fn tidy(graph: &mut Graph, target: &Target, passes: Passes, evaluator: &Evaluator) -> Result<()> {
    if passes.fold {
        // Operands of quantized products stay quantized until these are fused.
        let mut keep = if passes.quantized { quantized::weights(graph) } else { HashSet::new() };
        if passes.prologues {
            keep.extend(prologue::weights(graph, target));
        }
        fold::fold(graph, &keep, evaluator)?;
        check(graph);
    }
    if passes.simplify {
        simplify::simplify(graph);
        check(graph);
    }
    Ok(())
}

fn check(graph: &Graph) {
    if cfg!(debug_assertions) {
        graph.verify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;
    use crate::testing::CPU;

    /// The operators of the compiled graph with their origins.
    fn compiled(text: &str) -> Vec<(&'static str, Vec<u32>)> {
        let mut graph = crate::ir::parse(text);
        optimize(&mut graph, &CPU, Passes::ALL, &Evaluator::new(reference::evaluate)).unwrap();
        graph.nodes.into_iter().map(|node| (node.op.rule().name, node.origins)).collect()
    }

    #[test]
    fn folded_nodes_are_no_origins() {
        let nodes = compiled(
            "%0 = input x float32 [4]
             %1 = constant float32 [4]
             %2 = exp %1
             %3 = neg %2
             %4 = softmax %0 axis=0
             %5 = concat %4 %3 axis=0
             output y = %5",
        );
        assert_eq!(nodes, [("softmax", vec![2]), ("concat", vec![3])]);
    }

    #[test]
    fn an_operator_stands_for_nodes_removed_behind_it_and_merged_into_it() {
        let nodes = compiled(
            "%0 = input x float32 [2, 3, 4]
             %1 = softmax %0 axis=0
             %2 = identity %1
             %3 = identity %2
             %4 = transpose %3 permutation=[2, 0, 1]
             %5 = identity %4
             %6 = transpose %5 permutation=[1, 0, 2]
             output y = %6",
        );
        assert_eq!(nodes, [("softmax", vec![0, 1, 2]), ("transpose", vec![3, 4, 5])]);
    }

    #[test]
    fn transposes_that_cancel_belong_to_the_node_that_computes_their_result() {
        let nodes = compiled(
            "%0 = input x float32 [2, 3]
             %1 = softmax %0 axis=0
             %2 = transpose %1
             %3 = transpose %2
             %4 = softmax %3 axis=1
             output y = %4",
        );
        assert_eq!(nodes, [("softmax", vec![0, 1, 2]), ("softmax", vec![3])]);
    }

    #[test]
    fn an_operator_kept_for_another_reader_stands_for_itself() {
        let nodes = compiled(
            "%0 = input x float32 [2, 3]
             %1 = transpose %0
             %2 = transpose %1
             %3 = reshape %1 newShape=[6]
             %4 = reshape %3 newShape=[2, 3]
             %5 = softmax %4 axis=0
             %6 = softmax %2 axis=0
             output y = %5
             output z = %1
             output w = %6",
        );
        assert_eq!(
            nodes,
            [("transpose", vec![0]), ("reshape", vec![2, 3]), ("softmax", vec![4]), ("softmax", vec![5])]
        );
    }

    #[test]
    fn an_epilogue_and_a_chain_stand_for_all_their_operators() {
        let nodes = compiled(
            "%0 = input x float32 [4, 4]
             %1 = matmul %0 %0
             %2 = identity %1
             %3 = relu %2
             %4 = exp %3
             %5 = softmax %4 axis=0
             %6 = neg %5
             %7 = identity %6
             %8 = mul %7 %7
             %9 = add %8 %0
             output y = %9",
        );
        assert_eq!(nodes, [("matmul", vec![0, 1, 2, 3]), ("softmax", vec![4]), ("fused", vec![5, 6, 7, 8])]);
    }

    #[test]
    fn long_chains_keep_their_origins_in_little_time() {
        for (first, operator) in [("softmax %0 axis=0", "identity"), ("abs %0", "transpose"), ("matmul %0 %0", "relu")]
        {
            let mut text = format!("%0 = input x float32 [2, 2]\n%1 = {first}\n");
            let links = 20_000;
            (1..=links).for_each(|i| text += &format!("%{} = {operator} %{i}\n", i + 1));
            let nodes = compiled(&(text + &format!("output y = %{}", links + 1)));
            let origins: Vec<u32> = nodes.into_iter().flat_map(|(_, origins)| origins).collect();
            assert_eq!(origins, (0..=links).collect::<Vec<u32>>(), "{operator}");
        }
    }

    #[test]
    fn passes_by_name() {
        let others: Vec<&str> = Passes::NAMES.iter().copied().filter(|name| *name != "fold").collect();
        assert_eq!(Passes { fold: false, ..Passes::ALL }.enabled().collect::<Vec<_>>(), others);
        assert_eq!(Passes::without("all"), Some(Passes::NONE));
        assert_eq!(Passes::without("fold"), Some(Passes { fold: false, ..Passes::ALL }));
        assert_eq!(Passes::without("fold, nonsense"), None);
    }
}
