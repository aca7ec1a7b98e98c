//! `treeEnsemble`: what the leaves of decision trees that rows of features reach add up to.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::rows::{Along, Rows};
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;

crate::enumeration! {
    /// How the weights of the reached leaves are combined.
    pub enum Aggregate {
        /// Their sum.
        Sum = "sum",
        /// Their sum, divided by the number of trees.
        Average = "average",
        /// The least of them.
        Min = "min",
        /// The largest of them.
        Max = "max",
    }
}

crate::attributes! {
    /// `TreeEnsemble` of `input`, `[rows, features]`.
    ///
    /// A branch has a threshold and four numbers: its feature, where rows go whose feature is at most the threshold,
    /// where the others go, and whether NaN counts as at most (1) or as above (0). A place of at least 0 is a branch, a
    /// negative one is the leaf `-1 - place`. Branches only lead to branches behind them. `roots` are the places where
    /// trees begin. Leaf `i` has the votes `leaves[i]..leaves[i + 1]`, each with a target and a weight.
    pub struct TreeEnsemble {
        /// The number of columns of the output, each for a target.
        count "count": u32 = 1,
        /// How weights are combined.
        aggregate "aggregate": Aggregate = Aggregate::Sum,
        /// Whether a target without any vote is NaN, not 0.
        marks_absent "marksAbsent": bool = false,
    }
}

impl Aggregate {
    /// Combines the weights so far with the next one.
    pub fn combine(self, so_far: f64, weight: f64) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Average => so_far + weight,
            Aggregate::Min => {
                if weight < so_far {
                    weight
                } else {
                    so_far
                }
            }
            Aggregate::Max => {
                if weight > so_far {
                    weight
                } else {
                    so_far
                }
            }
        }
    }
}

const INTS: Types = Types::OneOf(&[DataType::Int32]);
const FLOATS: Types = Types::OneOf(&[DataType::Float32, DataType::Float64]);
const SAME: Types = Types::SameAs("input");

/// Numbers of a branch beside its threshold.
pub const BRANCH: u32 = 4;

impl NamedOperator for TreeEnsemble {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "treeEnsemble",
        operands: &[
            operand("input", FLOATS, (2, 2)),
            operand("thresholds", SAME, (1, 1)),
            operand("branches", INTS, (2, 2)),
            operand("roots", INTS, (1, 1)),
            operand("leaves", INTS, (1, 1)),
            operand("targets", INTS, (1, 1)),
            operand("weights", SAME, (1, 1)),
        ],
        outputs: &[output("output", SAME, (2, 2))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<TreeEnsemble, Problem> {
        TreeEnsemble::read(attributes)
    }
}

impl Operator for TreeEnsemble {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        TreeEnsemble::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let [input, thresholds, branches] = [0, 1, 2].map(|index| required(inputs, index));
        let [targets, weights] = [5, 6].map(|index| required(inputs, index));
        if self.count == 0 {
            return Err(Problem::attribute("count", self.count, "at least 1"));
        }
        let shapes = [
            ("branches", branches, vec![thresholds.shape[0], BRANCH.into()]),
            ("weights", weights, vec![targets.shape[0]]),
        ];
        for (operand, got, expected) in shapes {
            if got.shape != expected {
                return Err(Problem::Shape { operand, got: got.shape.clone(), expected });
            }
        }
        Ok(vec![Descriptor::new(input.dtype, vec![input.shape[0], self.count.into()])])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        (along.axis == 0).then(|| Rows::of_first(self.clone(), along, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let [input, thresholds, branches, roots] = [0, 1, 2, 3].map(|index| required(inputs, index));
        let [leaves, targets, weights] = [4, 5, 6].map(|index| required(inputs, index));
        let int = |tensor: &Tensor, at: &[usize]| tensor.at(at).to_f64() as i64;
        let leaf_of = |row: usize, root: i64| {
            let mut place = root;
            while let Ok(at) = usize::try_from(place) {
                let feature = input.at(&[row, int(branches, &[at, 0]) as usize]).to_f64();
                let is_at_most = match feature.is_nan() {
                    true => int(branches, &[at, 3]) != 0,
                    false => feature <= thresholds.at(&[at]).to_f64(),
                };
                place = int(branches, &[at, if is_at_most { 1 } else { 2 }]);
            }
            (-1 - place) as usize
        };
        let trees = roots.shape()[0];
        vec![Tensor::from_fn(&outputs[0], |index| {
            let votes = (0..trees).flat_map(|tree| {
                let leaf = leaf_of(index[0], int(roots, &[tree]));
                int(leaves, &[leaf]) as usize..int(leaves, &[leaf + 1]) as usize
            });
            let own = votes.filter(|&vote| int(targets, &[vote]) == index[1] as i64);
            let combined = own.map(|vote| weights.at(&[vote]).to_f64()).reduce(|a, b| self.aggregate.combine(a, b));
            let absent = if self.marks_absent { f64::NAN } else { 0.0 };
            let divisor = if self.aggregate == Aggregate::Average { trees as f64 } else { 1.0 };
            Number::Float(combined.map_or(absent, |combined| combined / divisor))
        })]
    }
}
