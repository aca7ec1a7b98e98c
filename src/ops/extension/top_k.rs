//! `topK`: where the first elements along an axis are, in an order.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::gather::check_axis;
use crate::ops::rows::{Along, Rows};
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, place_of, required};
use crate::shape::Descriptor;
use std::cmp::Ordering;
use std::collections::HashMap;

crate::attributes! {
    /// The indices of the `count` largest or smallest elements along an axis, in order. Of equal elements, the first one
    /// comes first; NaN comes before every number, whichever order.
    pub struct TopK {
        /// The dimension to search.
        axis "axis": u32 = 0,
        /// How many elements to find.
        count "count": Dim = Dim::ZERO,
        /// Whether the largest element comes first, or the smallest.
        largest "largest": bool = true,
    }
}

impl NamedOperator for TopK {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "topK",
        operands: &[operand("input", ANY, FROM_1D)],
        outputs: &[output("output", Types::OneOf(&[DataType::Int64]), FROM_1D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<TopK, Problem> {
        TopK::read(attributes)
    }
}

impl Operator for TopK {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        TopK::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        Some(TopK { axis: place_of(axes, self.axis), ..self.clone() })
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let axis = check_axis(self.axis, input)?;
        if self.count < 1 || self.count > input.shape[axis] {
            let expected = format!("1 to {}, the size along axis", input.shape[axis]);
            return Err(Problem::Attribute { name: "count", got: self.count.to_string(), expected });
        }
        let mut shape = input.shape.clone();
        shape[axis] = self.count;
        Ok(vec![Descriptor::new(DataType::Int64, shape)])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        (along.axis != self.axis as usize).then(|| Rows::of_first(self.clone(), along, inputs))
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        visit(&mut self.count);
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, axis) = (required(inputs, 0), self.axis as usize);
        // The places of each line in order, by its first index.
        let mut lines: HashMap<Vec<usize>, Vec<usize>> = HashMap::new();
        vec![Tensor::from_fn(&outputs[0], |index| {
            let mut at = index.to_vec();
            at[axis] = 0;
            let places = lines.entry(at.clone()).or_insert_with(|| {
                let mut element = |place: usize| {
                    at[axis] = place;
                    input.at(&at)
                };
                let elements: Vec<Number> = (0..input.shape()[axis]).map(&mut element).collect();
                let mut places: Vec<usize> = (0..elements.len()).collect();
                // The sort is stable.
                places.sort_by(|&a, &b| self.compare(elements[a], elements[b]));
                places
            });
            Number::Int(places[index[axis]] as i128)
        })]
    }
}

impl TopK {
    /// Which of two elements comes first.
    fn compare(&self, a: Number, b: Number) -> Ordering {
        let ascending = match (a, b) {
            (Number::Int(a), Number::Int(b)) => a.cmp(&b),
            (a, b) => {
                let (a, b) = (a.to_f64(), b.to_f64());
                match a.partial_cmp(&b) {
                    Some(order) => order,
                    None => return b.is_nan().cmp(&a.is_nan()),
                }
            }
        };
        if self.largest { ascending.reverse() } else { ascending }
    }
}
