//! Operators on lists during a run: they take and pass on the held values, whose elements nobody reads.

use super::control::{Turn, truth};
use super::known::{Data, Held};
use super::program::{Program, Run, Values};
use crate::error::Result;
use crate::onnx::control_flow::ControlNode;
use crate::onnx::graph::Node;
use crate::onnx::lists::{List, element, erased, inserted, tensor};
use crate::onnx::value::Value;

/// The operators.
const OPERATORS: &[&str] = &[
    "Identity",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceAt",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
];

/// Whether [`run`] runs `node`, whose first input is a list.
pub(super) fn runs(node: Node) -> bool {
    let is_read_once = || node.inputs().iter().skip(1).all(|&input| input != node.input(0));
    node.operator().is_one_of(OPERATORS) && node.named_outputs() <= 1 && is_read_once()
}

/// The output of `node` of `program` for the list that is its first input; `values` has the others.
///
/// # Errors
/// An OnnxError for a position outside of the list, or another wrong input, an OperationError if reading a position
/// fails.
pub(super) fn run(program: &Program, run: &Run, node: Node, list: List<Data>, values: &Values) -> Result<Held> {
    let mut turn = Turn::new(program, run, node, values);
    let position = |turn: &Turn, index| turn.input(index)?.map(|value| turn.int(&value, "position")).transpose();
    let output = match node.operator().name.as_str() {
        "OptionalHasElement" => return Ok(truth()?.fed()),
        "SequenceAt" => match position(&turn, 1)? {
            Some(position) => element(&list, position).map(Held::fed),
            None => Err("input 1 is missing".to_string()),
        },
        "SequenceErase" => erased(list, position(&turn, 1)?).map(Value::Sequence),
        "SequenceInsert" => {
            let (value, position) = (tensor(turn.input(1)?, 1), position(&turn, 2)?);
            value.and_then(|value| inserted(list, value.fed(), position)).map(Value::Sequence)
        }
        "SequenceLength" => return turn.counter(list.len() as u64),
        _ => Ok(Value::Sequence(list)),
    };
    output.map_err(|reason| turn.refuse(reason))
}
