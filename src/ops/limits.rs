//! `MLOpSupportLimits`, printed from the rules.

use super::Op;
use super::rule::Ranks;
use crate::dtype::DataType;
use crate::shape::MAX_RANK;

/// `MLOpSupportLimits` as JSON, for a context whose tensors have at most `max_tensor_bytes` bytes; with `int4`,
/// constants may have the types of that extension. Both backends support everything that the rules allow.
pub fn support_limits_json(max_tensor_bytes: u64, int4: bool) -> String {
    let known: &[DataType] = if int4 { &DataType::OF_CONSTANTS } else { &DataType::ALL };
    let tensor_limits =
        |types: &[DataType], ranks| tensor_limits(types.iter().filter(|dtype| known.contains(dtype)), ranks);
    let any = tensor_limits(&DataType::ALL, (0, MAX_RANK));
    let constant = tensor_limits(known, (0, MAX_RANK));
    let mut members = vec![
        r#""preferredInputLayout":"nchw""#.to_string(),
        format!(r#""maxTensorByteLength":{max_tensor_bytes}"#),
        format!(r#""input":{any}"#),
        format!(r#""constant":{constant}"#),
        format!(r#""output":{any}"#),
    ];
    for rule in Op::rules() {
        let operands = rule.operands.iter().map(|operand| (operand.name, rule.resolve(operand.types), operand.ranks));
        let outputs = rule.outputs.iter().map(|output| (output.name, rule.resolve(output.types), output.ranks));
        let limits: Vec<String> = operands
            .chain(outputs)
            .map(|(name, types, ranks)| format!(r#""{name}":{}"#, tensor_limits(types, ranks)))
            .collect();
        members.push(format!(r#""{}":{{{}}}"#, rule.name, limits.join(",")));
    }
    format!("{{{}}}", members.join(","))
}

/// `MLTensorLimits` as JSON.
fn tensor_limits<'a>(types: impl Iterator<Item = &'a DataType>, (min, max): Ranks) -> String {
    let types: Vec<String> = types.map(|dtype| format!(r#""{dtype}""#)).collect();
    format!(r#"{{"dataTypes":[{}],"rankRange":{{"min":{min},"max":{max}}}}}"#, types.join(","))
}
