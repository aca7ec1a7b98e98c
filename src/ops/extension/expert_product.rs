//! `expertProduct`: products of rows with matrices that the rows choose.

use crate::dtype::DataType::*;
use crate::dtype::Number;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::block_product::Blocks;
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, given, required};
use crate::shape::Descriptor;

/// With several blocks, their sizes are multiples of this: the number of integers in a word of packed weights.
const BLOCK_UNIT: u32 = 8;

crate::attributes! {
    /// The product of each row of `a` with a matrix of `b`, whose place `expert` gives; one that does not exist is the
    /// nearest. `b` are the transposed matrices, one below the other: floats, or integers with a `scale` and a
    /// `zeroPoint` per block along the depth. All but `a` and `expert` are constants. A matrix that no row chooses
    /// costs nothing.
    pub struct ExpertProduct {
        /// Number of matrices.
        experts "experts": u32 = 1,
        /// Whether rows may be rounded to 8-bit integers with one scale per block. The reference does not round them.
        rounds_rows "roundsRows": bool = false,
    }
}

impl ExpertProduct {
    /// The sizes of all matrices together, `b` and `scale` having these shapes.
    pub fn blocks(&self, b: &[u32], scale: Option<&[u32]>) -> Blocks {
        let count = scale.map_or(1, |scale| scale[1]);
        Blocks { columns: b[0] as usize, depth: b[1] as usize, count: count as usize }
    }

    /// The matrix with this place.
    pub fn expert(&self, place: i32) -> usize {
        place.clamp(0, self.experts as i32 - 1) as usize
    }
}

impl NamedOperator for ExpertProduct {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "expertProduct",
        operands: &[
            operand("a", FLOATS, (2, 2)),
            operand("expert", Types::OneOf(&[Int32]), (1, 1)),
            operand("b", Types::OneOf(&[Float32, Float16, Uint4, Int4, Uint8, Int8]), (2, 2)),
            optional("scale", Types::SameAs("a"), (2, 2)),
            optional("zeroPoint", Types::SameAs("b"), (2, 2)),
        ],
        outputs: &[output("output", Types::SameAs("a"), (2, 2))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<ExpertProduct, Problem> {
        ExpertProduct::read(attributes)
    }
}

impl Operator for ExpertProduct {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        ExpertProduct::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let [a, expert, b] = [0, 1, 2].map(|index| required(inputs, index));
        let (scale, zero) = (given(inputs, 3), given(inputs, 4));
        let clash =
            |what, other: &Descriptor| Problem::Incompatible { what, a: other.shape.clone(), b: b.shape.clone() };
        if self.experts == 0 || i32::try_from(self.experts).is_err() || !b.shape[0].is_multiple_of(self.experts) {
            return Err(Problem::attribute("experts", self.experts, "a divisor of the rows of b"));
        }
        if a.shape[1] != b.shape[1] {
            return Err(clash("the columns of a differ from those of b", a));
        }
        if expert.shape[0] != a.shape[0] {
            return Err(Problem::Shape { operand: "expert", got: expert.shape.clone(), expected: vec![a.shape[0]] });
        }
        if b.dtype.is_float() != scale.is_none() || scale.is_some() != zero.is_some() {
            return Err(Problem::attribute("scale", scale.is_some(), "scales and zero points for integers alone"));
        }
        if let (Some(scale), Some(zero)) = (scale, zero) {
            let blocks = scale.shape[1];
            let is_even = b.shape[1].is_multiple_of(blocks);
            if scale.shape[0] != b.shape[0]
                || !is_even
                || blocks != 1 && !(b.shape[1] / blocks).is_multiple_of(BLOCK_UNIT)
            {
                return Err(clash("sizes of scale do not divide those of b", scale));
            }
            if zero.shape != scale.shape {
                let (got, expected) = (zero.shape.clone(), scale.shape.clone());
                return Err(Problem::Shape { operand: "zeroPoint", got, expected });
            }
        }
        Ok(vec![Descriptor::new(a.dtype, [a.shape[0], b.shape[0] / self.experts])])
    }

    fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        outputs[0].elements() as u64 * required(inputs, 0).sizes()[1] as u64
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let [a, expert, b] = [0, 1, 2].map(|index| required(inputs, index));
        let sizes = |tensor: &Tensor| tensor.descriptor().sizes().to_vec();
        let (scale, zero) = (given(inputs, 3), given(inputs, 4));
        let blocks = self.blocks(&sizes(b), scale.map(sizes).as_deref());
        let columns = blocks.columns / self.experts as usize;
        let weight = |row: usize, k: usize| {
            let number = b.at(&[row, k]).to_f64();
            let block = [row, k / blocks.size()];
            match (scale, zero) {
                (Some(scale), Some(zero)) => (number - zero.at(&block).to_f64()) * scale.at(&block).to_f64(),
                _ => number,
            }
        };
        vec![Tensor::from_fn(&outputs[0], |index| {
            let place = expert.at(&[index[0]]).to_f64() as i32;
            let row = self.expert(place) * columns + index[1];
            Number::Float((0..blocks.depth).map(|k| a.at(&[index[0], k]).to_f64() * weight(row, k)).sum())
        })]
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::{Graph, parse};
    use crate::testing::{Tolerance, check, check_with};
    use crate::{dtype::Number, ops::tensor::Tensor};
    use std::collections::HashMap;

    const CLOSE: Tolerance = Tolerance::ulps(8).or_absolute(2e-2);

    /// `rows` rows times one of three matrices of `columns` columns, with `blocks` blocks of 16 integers, or of floats.
    fn graph(dtype: &str, weights: &str, [rows, columns, blocks]: [u32; 3], zero: &str, more: &str) -> Graph {
        let (all, depth) = (3 * columns, 16 * blocks);
        let scaled = format!(
            "%s = constant {dtype} [{all}, {blocks}] 0.25 0.5 -0.125 1 0.0625
             %z = constant {weights} [{all}, {blocks}] {zero}"
        );
        let (constants, operands) = if weights.starts_with("float") { (String::new(), "") } else { (scaled, " %s %z") };
        parse(&format!(
            "%x = input x {dtype} [{rows}, {depth}]
             %e = input e int32 [{rows}]
             %w = constant {weights} [{all}, {depth}]
             {constants}
             %y = expertProduct %x %e %w{operands} experts=3{more}
             output y = %y"
        ))
    }

    /// Checks a graph with experts in an order, some of which do not exist.
    fn check_rows(graph: &Graph) {
        let mut random = crate::testing::Random::new(7);
        let inputs: HashMap<String, Tensor> = graph
            .inputs
            .iter()
            .map(|(name, id)| {
                let descriptor = graph.descriptor(*id);
                // Few neighbors with the same matrix, and more than are multiplied with packed weights.
                let places = [2, 2, 0, 0, 1, -5, 9, 2];
                let place = |row: usize| if (12..30).contains(&row) { 1 } else { places[row % places.len()] };
                let expert = |index: &[usize]| Number::Int(place(index[0]));
                let tensor = if name == "e" { Tensor::from_fn(descriptor, expert) } else { random.tensor(descriptor) };
                (name.clone(), tensor)
            })
            .collect();
        check_with(graph, &inputs, CLOSE);
    }

    #[test]
    fn rows_choose_matrices() {
        for dtype in ["float32", "float16"] {
            for (weights, zero) in
                [("uint4", "8"), ("uint4", "3 8 15 0 7"), ("int4", "0"), ("uint8", "128"), ("int8", "1 -3")]
            {
                for rows in [1, 4, 9, 40] {
                    check_rows(&graph(dtype, weights, [rows, 24, 3], zero, ""));
                }
            }
            for rows in [1, 4, 21] {
                check_rows(&graph(dtype, dtype, [rows, 40, 2], "", ""));
            }
        }
    }

    #[test]
    fn matrices_may_begin_within_a_panel() {
        for columns in [1, 7, 33, 100] {
            check_rows(&graph("float32", "uint4", [13, columns, 2], "8", ""));
            check_rows(&graph("float32", "uint8", [3, columns, 1], "1 2 3", ""));
            check_rows(&graph("float32", "float32", [5, columns, 1], "", ""));
        }
    }

    #[test]
    fn places_beyond_the_last_expert_are_clamped() {
        // Random integers of 32 bits.
        check(&graph("float32", "uint4", [6, 16, 1], "8", ""), CLOSE);
    }
}
