//! Control flow. WebNN graphs have none: loops are unrolled, and both branches of a computed condition run.

use super::sequence::joined;
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::body::{Body, is_described, row};
use crate::onnx::call::{Call, Step};
use crate::onnx::error::{Cut, Refusal};
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::shape::Descriptor;

// ---- If ----------------------------------------------------------------------------------------------------------

fn branch(call: &mut Call, name: &str) -> Outcome {
    let body = call.body(name)?;
    call.run_body(body, Vec::new())
}

/// The branch that a constant condition selects, otherwise both.
fn if_else(call: &mut Call) -> Outcome {
    if call.is_known(0) {
        let taken = call.one_int(0, "cond")? != 0;
        return branch(call, if taken { "then_branch" } else { "else_branch" });
    }
    let condition = call.input(0)?;
    call.lacks(condition);
    let condition = call.to_scalar(condition)?;
    let both = |call: &mut Call| Ok((branch(call, "then_branch")?, branch(call, "else_branch")?));
    let (yes, no) = call.attempt(both, Cut::Control)?;
    if yes.len() != no.len() {
        return Err(Refusal(format!("its branches have {} and {} outputs", yes.len(), no.len())));
    }
    yes.into_iter().zip(no).map(|(yes, no)| chosen(call, condition, yes, no)).collect()
}

/// Selects between two values, which must have the same type and shape.
fn chosen(call: &mut Call, condition: OperandId, yes: Value, no: Value) -> Step<Value> {
    Ok(match (yes, no) {
        (Value::Tensor(yes), Value::Tensor(no)) if yes == no => Value::Tensor(yes),
        (Value::Tensor(yes), Value::Tensor(no)) => {
            let (a, b) = (call.descriptor(yes), call.descriptor(no));
            if a != b {
                return Err(Refusal(format!(
                    "the condition is computed from inputs of the model and its branches return {} {:?} and {} {:?}, \
                     expected the same",
                    a.dtype, a.shape, b.dtype, b.shape
                ))
                .unless(Cut::Control));
            }
            Value::Tensor(call.select(condition, yes, no)?)
        }
        (Value::Empty(yes), Value::Empty(no)) if yes == no => Value::Empty(yes),
        (Value::Absent, Value::Absent) => Value::Absent,
        (Value::Sequence(yes), Value::Sequence(no)) if yes.len() == no.len() => {
            let pairs = yes.iter().cloned().zip(no.iter().cloned());
            let values = pairs.map(|(yes, no)| chosen(call, condition, yes, no));
            Value::list(values.collect::<Step<_>>()?)
        }
        _ => {
            let reason = "the condition is computed from inputs of the model and its branches differ in type";
            return Err(Refusal::from(reason).unless(Cut::Control));
        }
    })
}

// ---- Loop --------------------------------------------------------------------------------------------------------

fn truth(call: &Call, value: &Value) -> Option<bool> {
    let Value::Tensor(id) = value else { return None };
    Some(call.numbers_of(*id)?.first()?.to_f64() != 0.0)
}

/// Refuses to unroll a loop, or cuts the model there if data decide its length.
fn decided(refusal: Refusal) -> Refusal {
    if refusal.cut.is_some() { refusal.unless(Cut::Control) } else { refusal }
}

/// Refuses to unroll `rounds` rounds of `body` if that yields too many nodes.
fn check_rounds(call: &Call, body: Body, rounds: i64) -> Step<()> {
    match call.can_repeat(body, rounds) {
        true => Ok(()),
        false => {
            let reason = format!("with the {rounds} rounds of its graph, the model expands to too many nodes");
            Err(Refusal(reason).unless(Cut::Control))
        }
    }
}

/// Runs the rounds at translation time, until the trip count is reached, or the condition, which must fold to a
/// constant, is false.
fn unrolled(call: &mut Call) -> Outcome {
    let trips = match call.value(0) {
        Some(_) => call.one_int(0, "the trip count").map_err(decided)?,
        None => i64::MAX,
    };
    let mut goes_on = match call.value(1) {
        Some(_) => call.one_int(1, "cond").map_err(decided)? != 0,
        None => true,
    };
    let mut state: Vec<Value> =
        (2..call.input_count()).map(|index| call.value(index).unwrap_or(Value::Absent)).collect();
    let body = call.body("body")?;
    let outputs = body.outputs().len();
    let scans = outputs
        .checked_sub(1 + state.len())
        .ok_or_else(|| Refusal(format!("its graph has {outputs} outputs, expected at least {}", 1 + state.len())))?;
    if call.value(0).is_some() && trips < i64::MAX {
        check_rounds(call, body, trips)?;
    }
    let mut rows = vec![Vec::new(); scans];
    let yes = call.int_scalar(DataType::Uint8, 1)?;
    let mut round = 0;
    let mut known = Vec::new();
    if !goes_on || trips <= 0 {
        let counter = call.int_list(&[], &[0])?;
        let inputs = [counter, Value::Tensor(yes)].into_iter().chain(state.clone()).collect();
        known = not_run(call, (body, outputs - scans), inputs)?;
    }
    while goes_on && round < trips {
        let counter = call.int_list(&[], &[round])?;
        let inputs = [counter, Value::Tensor(yes)].into_iter().chain(state).collect();
        let mut results = call.run_body(body, inputs)?.into_iter();
        let condition = results.next();
        round += 1;
        goes_on = condition.as_ref().and_then(|value| truth(call, value)).ok_or_else(|| {
            let reason = format!("its condition after round {round} is computed from inputs of the model");
            let refusal = Refusal(reason).unless(Cut::Control);
            match condition {
                Some(Value::Tensor(id)) => refusal.lacking(id),
                _ => refusal,
            }
        })?;
        state = results.by_ref().take(outputs - 1 - scans).collect();
        rows.iter_mut().zip(results).for_each(|(rows, row)| rows.push(row));
    }
    let first_scan = outputs - scans;
    for (at, rows) in rows.into_iter().enumerate() {
        let place = first_scan + at;
        state.push(collected(call, (body, place), rows, known.get(place), 0)?);
    }
    Ok(state)
}

/// What follows for the outputs of `body`, which does not run on these inputs, unless it describes all from the `first`
/// collected one on.
fn not_run(call: &mut Call, (body, first): (Body, usize), inputs: Vec<Value>) -> Step<Vec<Option<Descriptor>>> {
    match body.outputs()[first..].iter().all(is_described) {
        true => Ok(Vec::new()),
        false => call.shapes_of_body(body, inputs),
    }
}

/// Stacks the rows that an output of `body` returned in each round along the new dimension `axis`. Without rows, it has
/// the shape that is declared or `known`.
fn collected(
    call: &mut Call,
    (body, index): (Body, usize),
    rows: Vec<Value>,
    known: Option<&Option<Descriptor>>,
    axis: i64,
) -> Step<Value> {
    if !rows.is_empty() {
        return joined(call, &rows, axis, true);
    }
    let info = &body.outputs()[index];
    let mut descriptor = row(info, known.and_then(Option::as_ref))
        .ok_or_else(|| Refusal(format!("no round returns a row of '{}', and its type is not described", info.name)))?;
    let axis = call.axis(axis, descriptor.rank() + 1)? as usize;
    descriptor.shape.insert(axis, 0u32.into());
    Ok(Value::Empty(descriptor))
}

// ---- Scan --------------------------------------------------------------------------------------------------------

/// The scanned inputs and outputs of `Scan`.
struct Scans<'m> {
    body: Body<'m>,
    /// For each scanned input, its axis, and whether it is read from the end.
    inputs: Vec<(u32, bool)>,
    /// For each collected output, its axis, and whether rows are prepended.
    outputs: Vec<(i64, bool)>,
}

/// An attribute with one integer per input or output.
fn listed(call: &Call, name: &str, count: usize) -> Step<Vec<i64>> {
    let ints = call.ints_attribute(name).unwrap_or_else(|| vec![0; count]);
    match ints.len() == count {
        true => Ok(ints),
        false => Err(Refusal(format!("{name} is {ints:?}, expected {count} integers"))),
    }
}

/// Runs the rounds; returns the states after the last one, then the collected outputs. `scanned` holds the scanned
/// inputs.
fn run_scan(call: &mut Call, scans: &mut Scans, mut state: Vec<Value>, scanned: &[Value]) -> Step<Vec<Value>> {
    let mut lengths = Vec::new();
    for (value, (axis, _)) in scanned.iter().zip(&scans.inputs) {
        let shape = match value {
            Value::Tensor(id) => call.sizes(*id),
            Value::Empty(descriptor) => numbers(&descriptor.shape),
            _ => return Err("a scanned input is not a tensor that WebNN has".into()),
        };
        lengths.push(shape[*axis as usize]);
    }
    let length = lengths[0];
    if lengths.iter().any(|&other| other != length) {
        return Err(Refusal(format!("the scanned inputs have lengths {lengths:?}, expected the same")));
    }
    check_rounds(call, scans.body, i64::from(length))?;
    let states = state.len();
    let mut rows = vec![Vec::new(); scans.outputs.len()];
    for round in 0..length {
        let mut inputs = state;
        for (value, &(axis, reversed)) in scanned.iter().zip(&scans.inputs) {
            let Value::Tensor(id) = value else {
                return Err("a scanned input has no elements".into());
            };
            let at = if reversed { length - 1 - round } else { round };
            inputs.push(Value::Tensor(call.pick(*id, axis as usize, at)?));
        }
        let mut results = call.run_body(scans.body, inputs)?.into_iter();
        state = results.by_ref().take(states).collect();
        rows.iter_mut().zip(results).for_each(|(rows, row)| rows.push(row));
    }
    let mut known = Vec::new();
    if length == 0 {
        let mut inputs = state.clone();
        for (value, &(axis, _)) in scanned.iter().zip(&scans.inputs) {
            inputs.push(slice_of_nothing(call, value, axis as usize)?);
        }
        known = not_run(call, (scans.body, states), inputs)?;
    }
    for (at, (mut rows, (axis, reversed))) in rows.into_iter().zip(scans.outputs.clone()).enumerate() {
        if reversed {
            rows.reverse();
        }
        let place = states + at;
        state.push(collected(call, (scans.body, place), rows, known.get(place), axis)?);
    }
    Ok(state)
}

/// A tensor of the type and shape that a slice of `value` along `axis` would have.
fn slice_of_nothing(call: &mut Call, value: &Value, axis: usize) -> Step<Value> {
    let Value::Empty(descriptor) = value else { return Err("a scanned input is not a tensor that WebNN has".into()) };
    let mut slice = descriptor.clone();
    slice.shape.remove(axis);
    if slice.is_empty() {
        return Ok(Value::Empty(slice));
    }
    let zero = call.int_scalar(slice.dtype, 0)?;
    call.expand(zero, &slice.shape).map(Value::Tensor)
}

fn scan(call: &mut Call) -> Outcome {
    let first = (call.opset < 9) as usize;
    let count = call.int_attribute("num_scan_inputs").ok_or("num_scan_inputs is missing")?;
    let inputs = call.input_count() - first.min(call.input_count());
    let count = usize::try_from(count).ok().filter(|count| (1..=inputs).contains(count));
    let count = count.ok_or("num_scan_inputs is not between 1 and the number of inputs")?;
    let states = inputs - count;
    let values: Vec<Value> = (first..call.input_count()).map(|index| call.required(index)).collect::<Step<_>>()?;
    let body = call.body("body")?;
    let outputs = body.outputs().len();
    let collected = outputs
        .checked_sub(states)
        .ok_or_else(|| Refusal(format!("its graph has {outputs} outputs, expected at least {states}")))?;
    let scanned = values[states..].to_vec();
    if first == 1 {
        return batched_scan(call, body, values[..states].to_vec(), scanned, collected);
    }
    let (axes, directions) = (listed(call, "scan_input_axes", count)?, listed(call, "scan_input_directions", count)?);
    let mut inputs = Vec::new();
    for (at, (axis, direction)) in axes.into_iter().zip(directions).enumerate() {
        let rank = call.input_sizes(states + at)?.len();
        inputs.push((call.axis(axis, rank)?, direction != 0));
    }
    let axes = listed(call, "scan_output_axes", collected)?;
    let directions = listed(call, "scan_output_directions", collected)?;
    let outputs = axes.into_iter().zip(directions.into_iter().map(|direction| direction != 0)).collect();
    run_scan(call, &mut Scans { body, inputs, outputs }, values[..states].to_vec(), &scanned)
}

/// Opset 8: a batch of scans along the second dimension.
fn batched_scan(call: &mut Call, body: Body, states: Vec<Value>, scanned: Vec<Value>, collected: usize) -> Outcome {
    let directions = listed(call, "directions", scanned.len())?;
    let operand = |value: &Value| match value {
        Value::Tensor(id) => Ok(*id),
        _ => Err(Refusal("an input has no elements".to_string())),
    };
    let states: Vec<OperandId> = states.iter().map(operand).collect::<Step<_>>()?;
    let scanned: Vec<OperandId> = scanned.iter().map(operand).collect::<Step<_>>()?;
    let batches: Vec<u32> =
        states.iter().chain(&scanned).map(|&id| call.sizes(id).first().copied().unwrap_or(0)).collect();
    let batch = batches[0];
    if scanned.iter().any(|&id| call.rank(id) < 2) || batches.iter().any(|&other| other != batch) {
        return Err("the inputs differ in their batch dimension".into());
    }
    let length = call.sizes(scanned[0])[1];
    if let Some(lengths) = call.optional_ints(0, "sequence_lens")?
        && lengths.iter().any(|&given| given != length as i64)
    {
        return Err(Refusal(format!("sequence_lens is {lengths:?}, expected only the full length {length}")));
    }
    let inputs = directions.into_iter().map(|direction| (0, direction != 0)).collect();
    let mut scans = Scans { body, inputs, outputs: vec![(0, false); collected] };
    let mut columns = vec![Vec::new(); states.len() + collected];
    for at in 0..batch {
        let mut of_batch = |ids: &[OperandId]| -> Step<Vec<Value>> {
            ids.iter().map(|&id| call.pick(id, 0, at).map(Value::Tensor)).collect()
        };
        let (state, scanned) = (of_batch(&states)?, of_batch(&scanned)?);
        let results = run_scan(call, &mut scans, state, &scanned)?;
        columns.iter_mut().zip(results).for_each(|(column, result)| column.push(result));
    }
    columns.into_iter().map(|column| joined(call, &column, 0, true)).collect()
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("If", "a non-constant condition only for branches of the same types and shapes: both run", if_else),
    standard("Loop", "constant trip counts and conditions: rounds are unrolled", unrolled),
    standard("Scan", "rounds are unrolled; sequence_lens of opset 8 only for full lengths", scan),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::{Bool, Float, Int64};
    use crate::onnx::testing::*;

    fn branch(operator: &str) -> TestGraph {
        TestGraph::default().node(operator, "x", &format!("of_{operator}"), vec![]).output(&format!("of_{operator}"))
    }

    fn if_else(other: TestGraph) -> TestGraph {
        let branches = vec![("then_branch", Attr::Graph(branch("Abs"))), ("else_branch", Attr::Graph(other))];
        TestGraph::default().input("x", Float, &["2"]).node("If", "c", "y", branches).output("y")
    }

    #[test]
    fn a_constant_condition_takes_one_branch_and_a_computed_one_both() {
        let text = if_else(branch("Neg")).raw("c", Bool, &[], &[0]).text(17);
        assert!(text.contains("neg") && !text.contains("abs"), "{text}");
        let text = if_else(branch("Neg")).input("c", Bool, &["1"]).text(17);
        assert!(text.contains("%4 = neg %0") && text.contains("where %2 %3 %4"), "{text}");
        let flat = TestGraph::default().node("ReduceSum", "x", "z", vec![("keepdims", Attr::Int(0))]).output("z");
        let flat = if_else(flat).input("c", Bool, &[]).refusal(17);
        assert!(flat.contains("not supported"), "{flat}");
    }

    fn body() -> TestGraph {
        TestGraph::default()
            .input("i", Int64, &[])
            .input("c", Bool, &[])
            .input("a", Float, &["2"])
            .floats("w", &[2], &[1.0, 2.0])
            .node("Constant", "", "d", vec![("value", Attr::Tensor(Bool, &[], &[1]))])
            .node("Add", "a w", "b", vec![])
            .output("d")
            .output("b")
            .output("b2")
            .node("Mul", "b x", "b2", vec![])
    }

    fn looped(trips: &[i64]) -> TestGraph {
        TestGraph::default()
            .input("x", Float, &["2"])
            .ints("m", trips)
            .node("Loop", "m _ x", "y rows", vec![("body", Attr::Graph(body()))])
            .output("y")
            .output("rows")
    }

    #[test]
    fn loops_are_unrolled_with_shared_constants() {
        let text = looped(&[3]).text(17);
        assert_eq!(text.matches(" add ").count(), 3, "{text}");
        assert_eq!(text.matches("= constant float32").count(), 1, "{text}");
        assert!(text.contains("concat"), "{text}");
    }

    #[test]
    fn a_loop_without_rounds_has_the_rows_that_a_round_would_return() {
        let rows = |declared: &[&str], operator: &str, second: &str| {
            let body = TestGraph::default()
                .input("i", Int64, &[])
                .input("c", Bool, &[])
                .node("Identity", "c", "d", vec![])
                .node(operator, &format!("x {second}"), "row", vec![])
                .output("d")
                .shaped_output("row", declared);
            let graph = TestGraph::default()
                .input("x", Float, &["0", "4"])
                .input("w", Float, &["4", "5"])
                .ints("m", &[0])
                .node("Loop", "m _", "rows", vec![("body", Attr::Graph(body))])
                .output("rows");
            let model = crate::onnx::Model::decode(graph.encode(17), Default::default()).unwrap();
            let imported = crate::onnx::import(&model, &mut crate::ir::Builder::new(), &Default::default()).unwrap();
            crate::dimension::numbers(&imported.outputs[0].descriptor.shape)
        };
        // Of an empty list, the first row; and a product with it.
        assert_eq!(rows(&["a"], "Gather", "i"), [0, 4]);
        assert_eq!(rows(&["a", "b"], "MatMul", "w"), [0, 0, 5]);
        // As declared, completed by what is known.
        assert_eq!(rows(&["7"], "Gather", "i"), [0, 7]);
        assert_eq!(rows(&["a", "6"], "MatMul", "w"), [0, 0, 6]);
        // Decided by data: of sizes that nobody knows, 0 is left.
        assert_eq!(rows(&["a", "3"], "NonZero", "_"), [0, 0, 3]);
    }

    /// The shape of the output of loops of no rounds, `depth` deep.
    fn nested_without_rounds(depth: usize) -> Vec<u32> {
        let ends = |at: usize| TestGraph::default().input(&format!("i{at}"), Int64, &[]).input("c", Bool, &[]);
        let mut body = ends(0).node("Gather", "x i0", "r0", vec![]).node("Identity", "c", "d", vec![]);
        body = body.output("d").shaped_output("r0", &["a"]);
        for at in 1..depth {
            // What has no elements in each graph takes two trials of the graph within.
            let (empty, row, inner) = (format!("e{at}"), format!("r{at}"), format!("r{}", at - 1));
            let within = body.node("Identity", &empty, &format!("u{at}"), vec![]);
            let outer = ends(at).raw(&empty, Float, &[0, 4], &[]).node("Identity", "c", "d", vec![]);
            let outer = outer.node("Loop", "m _", &inner, vec![("body", Attr::Graph(within))]);
            let outer = outer.node("Identity", &inner, &row, vec![]);
            body = outer.output("d").shaped_output(&row, &vec!["a"; at + 1]);
        }
        let graph = TestGraph::default().input("x", Float, &["0", "4"]).ints("m", &[0]);
        let graph = graph.node("Loop", "m _", "rows", vec![("body", Attr::Graph(body))]).output("rows");
        let model = crate::onnx::Model::decode(graph.encode(17), Default::default()).unwrap();
        let imported = crate::onnx::import(&model, &mut crate::ir::Builder::new(), &Default::default()).unwrap();
        crate::dimension::numbers(&imported.outputs[0].descriptor.shape)
    }

    #[test]
    fn nested_loops_without_rounds_share_a_budget() {
        assert_eq!(nested_without_rounds(2), [0, 0, 4]);
        let start = std::time::Instant::now();
        assert_eq!(nested_without_rounds(14).len(), 15);
        assert!(start.elapsed() < std::time::Duration::from_secs(5), "{:?}", start.elapsed());
    }

    #[test]
    fn a_loop_without_rounds_has_rows_of_its_inputs_not_of_their_defaults() {
        let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("a", Float, &["n"]);
        let body = body.floats("a", &[7], &[0.0; 7]).node("Identity", "c", "d", vec![]);
        let body = body.node("Identity", "a", "next", vec![]).node("Neg", "a", "row", vec![]);
        let body = body.output("d").shaped_output("next", &["n"]).shaped_output("row", &["n"]);
        let graph = TestGraph::default().input("x", Float, &["2"]).ints("m", &[0]);
        let graph = graph.node("Loop", "m _ x", "y rows", vec![("body", Attr::Graph(body))]).output("rows");
        let model = crate::onnx::Model::decode(graph.encode(17), Default::default()).unwrap();
        let imported = crate::onnx::import(&model, &mut crate::ir::Builder::new(), &Default::default()).unwrap();
        assert_eq!(crate::dimension::numbers(&imported.outputs[0].descriptor.shape), [0, 2]);
    }

    #[test]
    fn endless_loops_are_refused() {
        let empty = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).output("c");
        let message = TestGraph::default()
            .input("x", Float, &["2"])
            .node("Loop", "_ _", "", vec![("body", Attr::Graph(empty))])
            .node("Abs", "x", "y", vec![])
            .output("y");
        // No node needs the loop; it is not even decoded.
        assert!(message.text(17).contains("abs"));
        let message = looped(&[i64::MAX]).refusal(17);
        assert!(message.contains("expands to too many nodes"), "{message}");
        let idle = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("a", Float, &["2"]);
        let idle = idle.output("c").output("a");
        let graph = TestGraph::default().input("x", Float, &["2"]);
        let graph = graph.node("Loop", "_ _ x", "y", vec![("body", Attr::Graph(idle))]).output("y");
        let message = graph.refusal(17);
        assert!(message.contains("expands to too many nodes"), "{message}");
    }
}
