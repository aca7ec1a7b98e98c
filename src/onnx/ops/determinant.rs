//! `Det`.

use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, standard};

/// Maximum number of rows: those of transformations of the plane and of space. The number of products grows with the
/// factorial.
const MAX_ROWS: u32 = 4;

/// The determinants of matrices.
fn det(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let shape = call.sizes(x);
    let rows = match shape[..] {
        [.., rows, columns] if rows == columns => Some(rows),
        _ => None,
    };
    let Some(rows) = rows.filter(|&rows| rows <= MAX_ROWS) else {
        return Err(Refusal(format!(
            "input 0 has shape {shape:?}, expected square matrices of at most {MAX_ROWS} rows"
        )));
    };
    let all: Vec<u32> = (0..rows).collect();
    let determinant = minor(call, x, 0, &all)?;
    let y = call.reshape(determinant, &shape[..shape.len() - 2]);
    call.one(y)
}

/// The determinant of the rows from `row` on and of these columns, expanded along the first of the rows.
fn minor(call: &mut Call, x: OperandId, row: u32, columns: &[u32]) -> Step<OperandId> {
    let mut sum = None;
    for (at, &column) in columns.iter().enumerate() {
        let rank = call.rank(x);
        let of_row = call.slice_axis(x, rank - 2, row, 1)?;
        let mut term = call.slice_axis(of_row, rank - 1, column, 1)?;
        if columns.len() > 1 {
            let others: Vec<u32> = columns.iter().copied().filter(|&other| other != column).collect();
            let other = minor(call, x, row + 1, &others)?;
            term = call.mul(term, other)?;
        }
        sum = Some(match sum {
            None => term,
            Some(sum) if at % 2 == 1 => call.sub(sum, term)?,
            Some(sum) => call.add(sum, term)?,
        });
    }
    sum.ok_or_else(|| Refusal("a matrix has no columns".into()))
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[standard("Det", "matrices of up to four rows, of constant size", det)];

#[cfg(test)]
mod tests {
    use crate::dtype::Number;
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::*;
    use crate::ops::tensor::Tensor;
    use crate::testing::{Tolerance, check};
    use std::collections::HashMap;

    fn graph(rows: &str) -> TestGraph {
        TestGraph::default().input("x", Float, &["2", rows, rows]).node("Det", "x", "y", vec![]).output("y")
    }

    /// Of a matrix with these rows and its transposed one.
    fn determinants(rows: &[&[f64]]) -> Vec<f64> {
        let graph = graph(&rows.len().to_string()).import(22, &Default::default()).unwrap();
        check(&graph, Tolerance::ulps(64).or_absolute(1e-3));
        let (name, id) = &graph.inputs[0];
        let element = |at: &[usize]| Number::Float(if at[0] == 0 { rows[at[1]][at[2]] } else { rows[at[2]][at[1]] });
        let inputs = HashMap::from([(name.clone(), Tensor::from_fn(graph.descriptor(*id), element))]);
        y_of(&graph, &inputs)
    }

    #[test]
    fn determinants_of_small_matrices() {
        assert_eq!(determinants(&[&[3.0]]), [3.0; 2]);
        assert_eq!(determinants(&[&[1.0, 2.0], &[3.0, 4.0]]), [-2.0; 2]);
        assert_eq!(determinants(&[&[2.0, 0.0, 1.0], &[1.0, 3.0, 2.0], &[1.0, 1.0, 1.0]]), [0.0; 2]);
        let four: [&[f64]; 4] =
            [&[0.0, 1.0, 0.0, 2.0], &[1.0, 0.0, 3.0, 0.0], &[0.0, 4.0, 0.0, 1.0], &[5.0, 0.0, 1.0, 0.0]];
        assert_eq!(determinants(&four), [98.0; 2]);
    }

    #[test]
    fn other_matrices_are_refused() {
        let refusal = graph("5").refusal(22);
        assert!(refusal.contains("expected square matrices of at most 4 rows"), "{refusal}");
    }
}
