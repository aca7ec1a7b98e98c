//! The supported operators and their translations.

use super::call::Call;
use super::error::Refusal;
use super::import::Value;
use super::ops;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The result of a translation: the outputs of the node, or the reason for its refusal.
pub type Outcome = Result<Vec<Value>, Refusal>;

/// The domain of onnxruntime's extensions of the standard.
pub const MICROSOFT: &str = "com.microsoft";

/// The domain of classical models.
pub const ML: &str = "ai.onnx.ml";

/// A supported ONNX operator.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Empty for `ai.onnx`.
    pub domain: &'static str,
    /// `op_type`.
    pub name: &'static str,
    /// Restrictions, for the documentation; empty if all that WebNN's types allow is supported.
    pub notes: &'static str,
    /// Emits operators that compute the outputs of a node, whose inputs have the form of opset 7 or later.
    pub translate: fn(&mut Call) -> Outcome,
}

impl Entry {
    /// Emits operators that compute the outputs of a node, whatever its opset.
    ///
    /// # Errors
    /// If the node is not supported.
    pub fn apply(&self, call: &mut Call) -> Outcome {
        if self.domain.is_empty() {
            ops::early::update(call, self.name)?;
        }
        (self.translate)(call)
    }
}

/// An operator of `ai.onnx`.
pub const fn standard(name: &'static str, notes: &'static str, translate: fn(&mut Call) -> Outcome) -> Entry {
    Entry { domain: "", name, notes, translate }
}

/// An operator of `com.microsoft`.
pub const fn microsoft(name: &'static str, notes: &'static str, translate: fn(&mut Call) -> Outcome) -> Entry {
    Entry { domain: MICROSOFT, name, notes, translate }
}

/// An operator of `ai.onnx.ml`.
pub const fn ml(name: &'static str, notes: &'static str, translate: fn(&mut Call) -> Outcome) -> Entry {
    Entry { domain: ML, name, notes, translate }
}

/// Every supported operator.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    ops::TABLES.iter().copied().flatten()
}

/// The entry for the operator `name` of `domain`.
pub fn find(domain: &str, name: &str) -> Option<&'static Entry> {
    static BY_NAME: OnceLock<HashMap<(&'static str, &'static str), &'static Entry>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| entries().map(|entry| ((entry.domain, entry.name), entry)).collect());
    by_name.get(&(domain, name)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_appears_once() {
        let mut seen = std::collections::HashSet::new();
        for entry in entries() {
            assert!(seen.insert((entry.domain, entry.name)), "{} appears twice", entry.name);
        }
    }
}
