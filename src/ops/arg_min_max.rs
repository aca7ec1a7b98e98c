//! `argMin()` and `argMax()`: the index of the smallest or largest element along an axis.

use super::attributes::Attributes;
use super::gather::check_axis;
use super::reduce::{before_reduction, reduced_shape};
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, place_of, required, row};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::shape::Descriptor;

crate::attributes! {
    /// The axis and `MLArgMinMaxOptions`.
    pub struct ArgAttributes {
        /// The dimension to search.
        axis "axis": u32 = 0,
        /// Whether that dimension is kept, with size 1.
        keep_dimensions "keepDimensions": bool = false,
        /// The data type of the indices.
        output_data_type "outputDataType": DataType = DataType::Int32,
    }
}

/// `argMin()` or `argMax()`. The first of equal elements wins; NaN comes before every number.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgMinMax {
    /// Whether to find the largest element.
    pub max: bool,
    /// The options.
    pub attributes: ArgAttributes,
}

const INDEX_TYPES: &[DataType] = &[DataType::Int32, DataType::Int64];

const fn search(name: &'static str) -> OpRule {
    const OPERANDS: &[OperandRule] = &[operand("input", ANY, FROM_1D)];
    const OUTPUTS: &[OutputRule] = &[output("output", Types::OneOf(INDEX_TYPES), ANY_RANK)];
    OpRule { name, operands: OPERANDS, outputs: OUTPUTS }
}

impl NamedOperator for ArgMinMax {
    const RULES: &'static [OpRule] = &[search("argMin"), search("argMax")];

    fn read(name: &str, attributes: &mut Attributes) -> Result<ArgMinMax, Problem> {
        Ok(ArgMinMax { max: name == "argMax", attributes: ArgAttributes::read(attributes)? })
    }
}

impl Operator for ArgMinMax {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, if self.max { "argMax" } else { "argMin" })
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let attributes = ArgAttributes { axis: place_of(axes, self.attributes.axis), ..self.attributes.clone() };
        Some(ArgMinMax { attributes, ..self.clone() })
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (input, attributes) = (required(inputs, 0), &self.attributes);
        let axis = check_axis(attributes.axis, input)?;
        let dtype = attributes.output_data_type;
        if !INDEX_TYPES.contains(&dtype) {
            return Err(Problem::attribute_value("outputDataType", dtype, "int32 or int64"));
        }
        let largest = dtype.integer_range().map_or(0, |(_, max)| max as i64);
        if input.shape[axis] > Dim::number(largest) {
            return Err(Problem::attribute_value("outputDataType", dtype, "a type that holds the size along axis"));
        }
        let shape = reduced_shape(&input.shape, Some(&[attributes.axis]), attributes.keep_dimensions)?;
        Ok(vec![Descriptor::new(dtype, shape)])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let ArgAttributes { axis, keep_dimensions, .. } = self.attributes;
        let first = before_reduction(required(inputs, 0), Some(&[axis]), keep_dimensions, along)?;
        Some(Rows::of_first(self.clone(), first, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, axis) = (required(inputs, 0), self.attributes.axis as usize);
        let kept = reduced_shape(&input.descriptor().shape, Some(&[self.attributes.axis]), true).expect("inferred");
        let found = Tensor::from_fn(&Descriptor::new(outputs[0].dtype, kept), |start| {
            let mut index = start.to_vec();
            let mut at = |i: usize| {
                index[axis] = i;
                input.at(&index)
            };
            let mut best = 0;
            for i in 1..input.shape()[axis] {
                if self.is_better(at(i), at(best)) {
                    best = i;
                }
            }
            Number::Int(best as i128)
        });
        vec![found.reshape(&outputs[0].sizes())]
    }
}

impl ArgMinMax {
    /// Whether `x` beats `best`, which precedes it.
    fn is_better(&self, x: Number, best: Number) -> bool {
        match (x, best) {
            (Number::Int(x), Number::Int(best)) => {
                if self.max {
                    x > best
                } else {
                    x < best
                }
            }
            (x, best) => {
                let (x, best) = (x.to_f64(), best.to_f64());
                !best.is_nan() && (x.is_nan() || if self.max { x > best } else { x < best })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(
        shape: &[u32],
        axis: u32,
        keep_dimensions: bool,
        output_data_type: DataType,
    ) -> Result<Descriptor, String> {
        let attributes = ArgAttributes { axis, keep_dimensions, output_data_type };
        let input = Descriptor::new(DataType::Float32, shape);
        let outputs = ArgMinMax { max: true, attributes }.infer(&[Some(&input)]);
        outputs.map(|mut outputs| outputs.remove(0)).map_err(|problem| problem.to_string())
    }

    #[test]
    fn shapes() {
        use DataType::*;
        assert_eq!(infer(&[2, 3], 1, false, Int32), Ok(Descriptor::new(Int32, [2])));
        assert_eq!(infer(&[2, 3], 0, true, Int64), Ok(Descriptor::new(Int64, [1, 3])));
        assert_eq!(infer(&[2], 0, false, Int64), Ok(Descriptor::new(Int64, [0u32; 0])));
        assert!(infer(&[2, 3], 2, false, Int32).unwrap_err().starts_with("axis is 2"));
        assert!(infer(&[2, 3], u32::MAX, false, Int32).is_err());
        let message = infer(&[2, 3], 0, false, Uint8).unwrap_err();
        assert_eq!(message, "outputDataType is uint8, expected int32 or int64");
    }

    #[test]
    fn the_first_of_equals_and_nan_win() {
        let input =
            Tensor::float(DataType::Float32, ndarray::arr2(&[[1.0, 2.0, 2.0], [3.0, f64::NAN, 5.0]]).into_dyn());
        let found = |max| {
            let op = ArgMinMax { max, attributes: ArgAttributes { axis: 1, ..ArgAttributes::default() } };
            op.reference(&[Some(&input)], &[Descriptor::new(DataType::Int32, [2])])[0].to_vec::<i32>()
        };
        assert_eq!(found(true), [1, 1]);
        assert_eq!(found(false), [0, 1]);
    }
}
