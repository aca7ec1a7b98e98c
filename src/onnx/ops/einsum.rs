//! `Einsum`: sums of products as transpositions, matrix products and reductions.

use crate::dimension::Dim;
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::reduce::ReduceKind;
use crate::ops::slice::Slice;
use std::collections::{BTreeMap, BTreeSet};

/// The name of a dimension: a letter, or a position among the dimensions of an ellipsis, counted from their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

/// An operand with the names of its dimensions.
struct Term {
    operand: OperandId,
    labels: Vec<Label>,
}

/// Sizes of dimensions by name.
type Sizes = BTreeMap<Label, Dim>;

/// Maximum number of inputs: each product looks at all that follow.
const MAX_TERMS: usize = 256;

/// The labels of a term of the equation; its ellipsis stands for `ellipsis` dimensions.
fn labels(term: &str, ellipsis: usize) -> Step<Vec<Label>> {
    let (before, after) = match term.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (term, None),
    };
    let wrong = |letter: char| Refusal(format!("\"{letter}\" in the equation is not a letter"));
    let letters = |text: &str| -> Step<Vec<Label>> {
        let letter = |c: char| if c.is_ascii_alphabetic() { Ok(Label::Letter(c)) } else { Err(wrong(c)) };
        text.chars().map(letter).collect()
    };
    let mut all = letters(before)?;
    if let Some(after) = after {
        all.extend((0..ellipsis).rev().map(Label::Ellipsis));
        all.extend(letters(after)?);
    }
    Ok(all)
}

/// The operands with the names of their dimensions.
fn terms(call: &Call, left: &str) -> Step<Vec<Term>> {
    let written: Vec<&str> = left.split(',').collect();
    if written.len() != call.input_count() {
        return Err(Refusal(format!(
            "the equation has {} for {}",
            amount(written.len(), "term"),
            amount(call.input_count(), "input")
        )));
    }
    if written.len() > MAX_TERMS {
        return Err(Refusal(format!(
            "the equation has {}, expected at most {MAX_TERMS}",
            amount(written.len(), "term")
        )));
    }
    let mut terms = Vec::new();
    for (index, text) in written.iter().enumerate() {
        let operand = call.input(index)?;
        let rank = call.rank(operand);
        let named = text.replace("...", "").chars().count();
        let fail = || Refusal(format!("the term \"{text}\" does not match input {index}, which has rank {rank}"));
        let ellipsis = rank.checked_sub(named).ok_or_else(fail)?;
        let labels = labels(text, ellipsis)?;
        if labels.len() != rank {
            return Err(fail());
        }
        terms.push(Term { operand, labels });
    }
    Ok(terms)
}

/// The names of the output's dimensions. If they are implicit: those of the ellipsis, then the letters that occur once,
/// in alphabetical order.
fn output_labels(terms: &[Term], right: Option<&str>) -> Step<Vec<Label>> {
    let all: BTreeSet<Label> = terms.iter().flat_map(|term| term.labels.iter().copied()).collect();
    let ellipsis = all.iter().filter(|label| matches!(label, Label::Ellipsis(_))).count();
    let output = match right {
        Some(right) => labels(right, ellipsis)?,
        None => {
            let times =
                |label: &Label| terms.iter().flat_map(|term| &term.labels).filter(|other| *other == label).count();
            let letters = all.iter().filter(|label| matches!(label, Label::Letter(_)) && times(label) == 1);
            (0..ellipsis).rev().map(Label::Ellipsis).chain(letters.copied()).collect()
        }
    };
    let distinct: BTreeSet<_> = output.iter().collect();
    match distinct.len() == output.len() && output.iter().all(|label| all.contains(label)) {
        true => Ok(output),
        false => Err("the output of the equation has a letter twice, or one that no input has".into()),
    }
}

/// Transposes the dimensions of `term` into the order of `labels`, a permutation of its own.
fn transposed(call: &mut Call, term: &Term, labels: &[Label]) -> Step<OperandId> {
    let place = |label| term.labels.iter().position(|own| own == label).expect("a label of the term") as u32;
    let permutation: Vec<u32> = labels.iter().map(place).collect();
    call.transpose(term.operand, &permutation)
}

/// Replaces dimensions with the same name by their diagonal.
fn diagonal(call: &mut Call, mut term: Term) -> Step<Term> {
    while let Some(&label) = (1..term.labels.len()).find_map(|at| {
        let label = &term.labels[at];
        term.labels[..at].contains(label).then_some(label)
    }) {
        let rank = term.labels.len() as u32;
        let at = |axis: &u32| term.labels[*axis as usize] == label;
        let pair: Vec<u32> = (0..rank).filter(at).take(2).collect();
        let rest: Vec<u32> = (0..rank).filter(|axis| !pair.contains(axis)).collect();
        let moved = call.transpose(term.operand, &[rest.clone(), pair].concat())?;
        let shape = call.sizes(moved);
        let (outer, &[size, other]) = shape.split_last_chunk::<2>().expect("a pair of dimensions");
        if size != other {
            return Err(Refusal(format!("dimensions of sizes {size} and {other} have the same letter")));
        }
        let flat = call.reshape(moved, &[outer, &[size * size]].concat())?;
        let mut strides = vec![1; outer.len()];
        strides.push(size + 1);
        let sizes = call.shape(flat);
        term.operand =
            call.emit(Slice { starts: vec![Dim::number(0); sizes.len()], sizes, strides: Some(strides) }, &[flat])?;
        term.labels = rest.iter().map(|&axis| term.labels[axis as usize]).chain([label]).collect();
    }
    Ok(term)
}

/// The size of each name. A dimension of size 1 broadcasts.
fn sizes(call: &Call, terms: &[Term]) -> Step<Sizes> {
    let mut sizes = Sizes::new();
    for term in terms {
        for (&label, size) in term.labels.iter().zip(call.shape(term.operand)) {
            let known = sizes.entry(label).or_insert(size);
            if *known != size && *known != 1 && size != 1 {
                return Err(Refusal(format!("dimensions of sizes {known} and {size} have the same letter")));
            }
            if *known == 1 {
                *known = size;
            }
        }
    }
    Ok(sizes)
}

/// Removes broadcast dimensions, which does not change the product.
fn without_broadcast(call: &mut Call, term: Term, sizes: &Sizes) -> Step<Term> {
    let shape = call.shape(term.operand);
    let kept: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] == sizes[&term.labels[axis]]).collect();
    let shape: Vec<Dim> = kept.iter().map(|&axis| shape[axis]).collect();
    let operand = call.reshape(term.operand, &shape)?;
    Ok(Term { operand, labels: kept.iter().map(|&axis| term.labels[axis]).collect() })
}

/// Sums over the dimensions that are not `needed`.
fn summed(call: &mut Call, term: Term, needed: &BTreeSet<Label>) -> Step<Term> {
    let axes: Vec<u32> =
        (0..term.labels.len() as u32).filter(|&axis| !needed.contains(&term.labels[axis as usize])).collect();
    if axes.is_empty() {
        return Ok(term);
    }
    let operand = call.reduce(ReduceKind::Sum, term.operand, &axes, false)?;
    Ok(Term { operand, labels: term.labels.into_iter().filter(|label| needed.contains(label)).collect() })
}

/// Multiplies two terms and sums over the dimensions that are not `needed`.
fn product(call: &mut Call, a: Term, b: Term, needed: &BTreeSet<Label>, sizes: &Sizes) -> Step<Term> {
    let of = |term: &Term| -> BTreeSet<Label> { term.labels.iter().copied().collect() };
    let (a_labels, b_labels) = (of(&a), of(&b));
    let a = summed(call, a, &(needed | &b_labels))?;
    let b = summed(call, b, &(needed | &a_labels))?;
    let choose = |labels: &[Label], test: &dyn Fn(&Label) -> bool| -> Vec<Label> {
        labels.iter().copied().filter(test).collect()
    };
    let batch = choose(&a.labels, &|label| b_labels.contains(label) && needed.contains(label));
    let contracted = choose(&a.labels, &|label| b_labels.contains(label) && !needed.contains(label));
    let rows = choose(&a.labels, &|label| !b_labels.contains(label));
    let columns = choose(&b.labels, &|label| !a_labels.contains(label));
    let count = |labels: &[Label]| labels.iter().map(|label| sizes[label]).product::<Dim>();
    let (n, m, k, l) = (count(&batch), count(&rows), count(&contracted), count(&columns));
    let left = transposed(call, &a, &[&batch[..], &rows, &contracted].concat())?;
    let operand = if contracted.is_empty() {
        let right = transposed(call, &b, &[&batch[..], &columns].concat())?;
        let (left, right) = (call.reshape(left, &[n, m, Dim::ONE])?, call.reshape(right, &[n, Dim::ONE, l])?);
        call.mul(left, right)?
    } else if call.dtype(left).is_float() {
        let right = transposed(call, &b, &[&batch[..], &contracted, &columns].concat())?;
        let (left_shape, right_shape): (&[Dim], &[Dim]) =
            if batch.is_empty() { (&[m, k], &[k, l]) } else { (&[n, m, k], &[n, k, l]) };
        let (left, right) = (call.reshape(left, left_shape)?, call.reshape(right, right_shape)?);
        call.matmul(left, right)?
    } else {
        // Matrix products are for floats only.
        let right = transposed(call, &b, &[&batch[..], &columns, &contracted].concat())?;
        let (left, right) = (call.reshape(left, &[n, m, Dim::ONE, k])?, call.reshape(right, &[n, Dim::ONE, l, k])?);
        let products = call.mul(left, right)?;
        call.reduce(ReduceKind::Sum, products, &[3], false)?
    };
    let labels = [batch, rows, columns].concat();
    let shape: Vec<Dim> = labels.iter().map(|label| sizes[label]).collect();
    Ok(Term { operand: call.reshape(operand, &shape)?, labels })
}

/// Multiplies terms from left to right, and sums over a dimension as soon as neither a later term nor the output needs
/// it.
fn einsum(call: &mut Call) -> Outcome {
    let equation: String = call.text_or("equation", "").split_whitespace().collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (&equation[..], None),
    };
    let written = terms(call, left)?;
    let output = output_labels(&written, right)?;
    let mut terms = Vec::new();
    for term in written {
        terms.push(diagonal(call, term)?);
    }
    let sizes = sizes(call, &terms)?;
    let mut rest = Vec::new();
    for term in terms {
        rest.push(without_broadcast(call, term, &sizes)?);
    }
    rest.reverse();
    let mut result = rest.pop().ok_or("there are no inputs")?;
    while let Some(next) = rest.pop() {
        let later = rest.iter().flat_map(|term| &term.labels);
        let needed: BTreeSet<Label> = output.iter().chain(later).copied().collect();
        result = product(call, result, next, &needed, &sizes)?;
    }
    let result = summed(call, result, &output.iter().copied().collect())?;
    let output = transposed(call, &result, &output);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[standard("Einsum", "", einsum)];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::{Float, Int32};
    use crate::onnx::testing::{Attr, TestGraph};

    fn einsum(graph: TestGraph, inputs: &str, equation: &str) -> TestGraph {
        graph.node("Einsum", inputs, "y", vec![("equation", Attr::Text(equation))]).output("y")
    }

    fn floats(a: &[&str], b: &[&str]) -> TestGraph {
        TestGraph::default().input("a", Float, a).input("b", Float, b)
    }

    #[test]
    fn contractions_are_products_of_matrices() {
        let attention = floats(&["2", "5", "3", "4"], &["2", "6", "3", "4"]);
        let text = einsum(attention, "a b", "bqhd, bkhd -> bhqk").text(12);
        assert!(text.contains("matmul") && text.contains("[6, 5, 4]") && text.contains("[2, 3, 5, 6]"), "{text}");
        let text = einsum(floats(&["2", "3"], &["3", "4"]), "a b", "ij,jk").text(12);
        assert!(text.contains("%2 = matmul %0 %1"), "{text}");
        let ints = TestGraph::default().input("a", Int32, &["2", "3"]).input("b", Int32, &["3", "4"]);
        let text = einsum(ints, "a b", "ij,jk->ik").text(12);
        assert!(!text.contains("matmul") && text.contains("reduceSum"), "{text}");
    }

    #[test]
    fn diagonals_are_slices() {
        let text = einsum(floats(&["5", "3", "3"], &["1"]), "a", "...ii->...i").text(12);
        assert!(text.contains("slice") && text.contains("strides=[1, 4]"), "{text}");
    }

    #[test]
    fn wrong_equations_are_refused() {
        let refusal = |equation| einsum(floats(&["2", "3"], &["3", "4"]), "a b", equation).refusal(12);
        assert!(refusal("ij->i").contains("the equation has 1 term for 2 inputs"));
        assert!(refusal("ijk,jk->i").contains("the term \"ijk\" does not match input 0, which has rank 2"));
        assert!(refusal("ij,kj->i").contains("dimensions of sizes 3 and 4 have the same letter"));
        assert!(refusal("ij,jk->iz").contains("a letter twice, or one that no input has"));
        assert!(refusal("i1,1k->ik").contains("\"1\" in the equation is not a letter"));
    }
}
