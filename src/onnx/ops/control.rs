//! Control flow. WebNN graphs have none: rounds of loops are unrolled, and both branches of a computed condition run.
//! Rounds that are many, or whose number is not known, are left to a session.

use super::sequence::joined;
use crate::dtype::{DataType, Number};
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::body::Body;
use crate::onnx::call::{Call, Step};
use crate::onnx::control_flow::{self, ControlNode, Scan, branch_for, listed};
use crate::onnx::error::{Cut, Refusal};
use crate::onnx::import::Value;
use crate::onnx::model::ValueInfo;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::shape::Descriptor;

/// Maximum number of nodes that the rounds after the first add to a graph if they may also run one after another:
/// compiling that many takes some 50 ms. Compiling a single one takes as long as ten rounds of a small graph.
const MAX_UNROLLED_NODES: u64 = 1024;

/// A node whose graphs become part of the graph that contains it.
pub(super) struct Unrolled<'u, 'c, 'm> {
    call: &'u mut Call<'c, 'm>,
    /// Whether the number of rounds is known to be of no concern.
    unrolls_all: bool,
    /// How often a graph has run.
    runs: u64,
}

impl<'u, 'c, 'm> Unrolled<'u, 'c, 'm> {
    pub fn of(call: &'u mut Call<'c, 'm>) -> Unrolled<'u, 'c, 'm> {
        let unrolls_all = call.unrolls_all();
        Unrolled { call, unrolls_all, runs: 0 }
    }

    /// Leaves `runs` runs of `body` to a session if compiling that many nodes takes longer.
    fn check_runs(&self, body: Body, runs: u64) -> Step<()> {
        let copies = runs.saturating_sub(1).saturating_mul(body.node_count() as u64);
        match self.unrolls_all || copies <= MAX_UNROLLED_NODES {
            true => Ok(()),
            false => Err(Refusal::from("the many rounds of its graph run one after another").unless(Cut::Control)),
        }
    }
}

impl<'m> ControlNode for Unrolled<'_, '_, 'm> {
    type Tensor = OperandId;
    type Body = Body<'m>;
    type Column = (Value, usize);
    type Rows = Vec<Value>;
    type Error = Refusal;

    fn fail(&self, reason: String) -> Refusal {
        Refusal(reason)
    }

    fn input_count(&self) -> usize {
        self.call.input_count()
    }

    fn input(&self, index: usize) -> Step<Option<Value>> {
        Ok(self.call.value(index))
    }

    fn ints(&self, attribute: &str) -> Step<Option<Vec<i64>>> {
        let one = |ints: Vec<i64>| {
            if ints.is_empty() { self.call.int_attribute(attribute).into_iter().collect() } else { ints }
        };
        Ok(self.call.ints_attribute(attribute).map(one))
    }

    fn body(&mut self, attribute: &str) -> Step<Body<'m>> {
        self.call.body(attribute)
    }

    fn inputs_of(body: &Body<'m>) -> usize {
        body.inputs().len()
    }

    fn outputs_of<'b>(body: &'b Body<'m>) -> &'b [ValueInfo] {
        body.outputs()
    }

    fn run(&mut self, body: &mut Body<'m>, inputs: Vec<Value>) -> Outcome {
        self.runs += 1;
        self.check_runs(*body, self.runs)?;
        self.call.run_body(*body, inputs)
    }

    fn shapes(&mut self, body: &Body<'m>, inputs: Vec<Value>) -> Step<Vec<Option<Descriptor>>> {
        self.call.shapes_of_body(*body, inputs)
    }

    fn begin(&mut self, &body: &Body<'m>, rounds: Option<u64>) -> Step<()> {
        let Some(rounds) = rounds else { return Ok(()) };
        self.check_runs(body, rounds)?;
        match self.call.can_repeat(body, rounds) {
            true => Ok(()),
            false => {
                let reason = format!("with the {rounds} rounds of its graph, the model expands to too many nodes");
                Err(Refusal(reason).unless(Cut::Control))
            }
        }
    }

    /// The import has a budget.
    fn check_goes_on(&self) -> Step<()> {
        Ok(())
    }

    fn int(&self, value: &Value, what: &str) -> Step<i64> {
        let other = || Refusal(format!("{what} is not a tensor of 1 element"));
        let Value::Tensor(id) = value else { return Err(other()) };
        if !self.unrolls_all && self.call.is_open(*id) {
            return Err(Refusal(format!("{what} depends on sizes of inputs")).unless(Cut::Control));
        }
        let numbers = self.call.listed(*id).map_err(|refusal| Refusal(format!("{what} {}", refusal.reason)))?;
        match numbers.as_deref() {
            None => {
                let refusal = Refusal(format!("{what} is computed from inputs of the model")).unless(Cut::Control);
                // A graph would be valid for one count only.
                Err(if self.call.dtype(*id) == DataType::Uint8 { refusal.lacking(*id) } else { refusal })
            }
            Some(&[Number::Int(int)]) => i64::try_from(int).map_err(|_| Refusal(format!("{what} is too large"))),
            Some([_]) => {
                let dtype = self.call.dtype(*id);
                Err(Refusal(format!("{what} is of type {dtype}, expected bool, int32 or int64")))
            }
            Some(_) => Err(other()),
        }
    }

    fn descriptor(&self, value: &Value) -> Option<Descriptor> {
        match value {
            Value::Tensor(id) => Some(self.call.descriptor(*id)),
            Value::Empty(descriptor) => Some(descriptor.clone()),
            _ => None,
        }
    }

    fn counter(&mut self, round: u64) -> Step<Value> {
        self.call.int_scalar(DataType::Int64, round as i64).map(Value::Tensor)
    }

    fn truth(&mut self) -> Step<Value> {
        self.call.int_scalar(DataType::Uint8, 1).map(Value::Tensor)
    }

    fn column(&mut self, value: &Value, axis: usize) -> Step<((Value, usize), u32)> {
        let length = self.descriptor(value).expect("a tensor").shape[axis];
        match length.is_number() || self.unrolls_all {
            true => Ok(((value.clone(), axis), length.get())),
            false => Err(Refusal::from("the number of rounds depends on sizes of inputs").unless(Cut::Control)),
        }
    }

    fn slice(&mut self, (value, axis): &(Value, usize), at: u32) -> Step<Value> {
        match value {
            Value::Tensor(id) => self.call.pick(*id, *axis, at).map(Value::Tensor),
            value => {
                let mut slice = self.descriptor(value).expect("a tensor");
                slice.shape.remove(*axis);
                Ok(Value::Empty(slice))
            }
        }
    }

    fn slice_of_nothing(&mut self, slice: Descriptor) -> Step<Value> {
        if slice.is_empty() {
            return Ok(Value::Empty(slice));
        }
        let zero = self.call.int_scalar(slice.dtype, 0)?;
        self.call.expand(zero, &slice.shape).map(Value::Tensor)
    }

    fn push(&mut self, rows: &mut Vec<Value>, row: Value) -> Step<()> {
        rows.push(row);
        Ok(())
    }

    fn stack(&mut self, mut rows: Vec<Value>, _: &Descriptor, axis: usize, reversed: bool) -> Step<Value> {
        if reversed {
            rows.reverse();
        }
        joined(self.call, &rows, axis as i64, true)
    }
}

// ---- If ----------------------------------------------------------------------------------------------------------

/// The branch that a constant condition selects, otherwise both.
fn if_else(call: &mut Call) -> Outcome {
    if call.is_known(0) {
        return control_flow::choose(&mut Unrolled::of(call));
    }
    let condition = call.input(0)?;
    call.lacks(condition);
    let condition = call.to_scalar(condition)?;
    let branch = |call: &mut Call, taken: bool| {
        let body = call.body(branch_for(taken))?;
        call.run_body(body, Vec::new())
    };
    let both = |call: &mut Call| Ok((branch(call, true)?, branch(call, false)?));
    let (yes, no) = call.attempt(both, Cut::Control)?;
    if yes.len() != no.len() {
        return Err(Refusal(format!("its branches have {} and {}", yes.len(), amount(no.len(), "output"))));
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
        (Value::Texts(yes), Value::Texts(no)) => {
            chosen(call, condition, Value::Tensor(yes), Value::Tensor(no))?.of_texts()
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

// ---- Loop and Scan -----------------------------------------------------------------------------------------------

fn repeat(call: &mut Call) -> Outcome {
    control_flow::repeat(&mut Unrolled::of(call))
}

fn scan(call: &mut Call) -> Outcome {
    match call.opset {
        ..9 => batched_scan(call),
        _ => control_flow::scan(&mut Unrolled::of(call)),
    }
}

/// Opset 8: a batch of scans along the second dimension. No session runs them.
fn batched_scan(call: &mut Call) -> Outcome {
    let flow = &mut Unrolled { call, unrolls_all: true, runs: 0 };
    let mut scan = Scan::of(flow, 1)?;
    let directions = listed(flow, "directions", scan.scanned.len())?;
    let operand = |value: &Value| match value {
        Value::Tensor(id) => Ok(*id),
        _ => Err(Refusal("an input has no elements".to_string())),
    };
    let states: Vec<OperandId> = scan.states.iter().map(operand).collect::<Step<_>>()?;
    let scanned: Vec<OperandId> = scan.scanned.iter().map(operand).collect::<Step<_>>()?;
    let batches: Vec<u32> =
        states.iter().chain(&scanned).map(|&id| flow.call.sizes(id).first().copied().unwrap_or(0)).collect();
    let batch = batches[0];
    if scanned.iter().any(|&id| flow.call.rank(id) < 2) || batches.iter().any(|&other| other != batch) {
        return Err("the inputs differ in their batch dimension".into());
    }
    let length = flow.call.sizes(scanned[0])[1];
    if let Some(lengths) = flow.call.optional_ints(0, "sequence_lens")?
        && lengths.iter().any(|&given| given != length as i64)
    {
        return Err(Refusal(format!("sequence_lens is {lengths:?}, expected only the full length {length}")));
    }
    let mut columns = vec![Vec::new(); states.len() + scan.rows];
    for at in 0..batch {
        let mut of_batch = |ids: &[OperandId]| -> Step<Vec<Value>> {
            ids.iter().map(|&id| flow.call.pick(id, 0, at).map(Value::Tensor)).collect()
        };
        (scan.states, scan.scanned) = (of_batch(&states)?, of_batch(&scanned)?);
        let inputs = directions.iter().map(|&direction| (0, direction != 0));
        let outputs = std::iter::repeat_n((0, false), scan.rows);
        let results = scan.run(flow, inputs, outputs)?;
        columns.iter_mut().zip(results).for_each(|(column, result)| column.push(result));
    }
    columns.into_iter().map(|column| joined(flow.call, &column, 0, true)).collect()
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("If", "a non-constant condition only for branches of the same types and shapes: both run", if_else),
    standard("Loop", "constant trip counts and conditions: rounds are unrolled", repeat),
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
        // Decided by data: an unknown size becomes 0.
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
        // No node needs the loop: it is not translated.
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
