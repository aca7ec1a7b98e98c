//! All kernels in the simulation.

use super::graph::Simulator;
use crate::gpu::testing::{DIALECTS, tolerance_of};
use crate::ops::sweep::for_each_graph;
use crate::reference;
use crate::testing::{Random, compare};
use std::collections::HashMap;

#[test]
fn every_operator_type_and_rank_runs_without_fault() {
    let mut number = 0;
    let mut programs = HashMap::new();
    for_each_graph(
        |_| true,
        |graph, tolerance| {
            number += 1;
            let mut random = Random::new(number);
            let inputs: HashMap<_, _> =
                graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id)))).collect();
            let expected = reference::run(&graph, &inputs);
            for dialect in DIALECTS {
                let mut simulator = Simulator { dialect, subgroup: 8, edit: &|_| (), programs: &mut programs };
                let outputs = simulator.run(&graph, &inputs);
                let outputs = outputs.unwrap_or_else(|fault| panic!("{fault}, with {dialect:?}, of\n{graph}"));
                let context = || format!("simulated with {dialect:?}, of\n{graph}");
                compare(&graph, &outputs, &expected, |dtype| tolerance_of(tolerance, dtype), &context);
            }
        },
    );
    assert!(number > 500, "{number} graphs");
}
