//! `pad()`: surrounds a tensor with constant or mirrored values.

use super::attributes::Attributes;
use super::rule::*;
use super::strided::Strided;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, permuted, required};
use crate::dimension::{Dim, numbers};
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::{Descriptor, is_dimension};

crate::enumeration! {
    /// `MLPaddingMode`.
    pub enum PaddingMode {
        /// The same value everywhere.
        Constant = "constant",
        /// The nearest element of the input.
        Edge = "edge",
        /// The input mirrored at its outermost elements, which are not repeated.
        Reflection = "reflection",
    }
}

crate::attributes! {
    /// `pad()` with `MLPadOptions`.
    pub struct Pad {
        /// Number of leading values of each dimension.
        beginning "beginningPadding": Vec<Dim> = Vec::new(),
        /// Number of trailing values of each dimension.
        ending "endingPadding": Vec<Dim> = Vec::new(),
        /// What the padding consists of.
        mode "mode": PaddingMode = PaddingMode::Constant,
        /// The padding value in the mode `constant`.
        value "value": Number = Number::Int(0),
    }
}

impl Pad {
    /// Where the elements of an input of shape `input` are in an output of shape `output`.
    pub fn strided(&self, input: &[u32], output: &[u32]) -> Strided {
        Strided::row_major(output).window(&numbers(&self.beginning), input)
    }

    /// The index along `axis` of the input, which has `size` elements there, for index `i` of the output; `None` for
    /// the padding value.
    pub fn source(&self, axis: usize, size: u32, i: usize) -> Option<usize> {
        let last = size as i64 - 1;
        let place = i as i64 - self.beginning[axis].pinned();
        let place = match self.mode {
            PaddingMode::Constant => return usize::try_from(place).ok().filter(|&place| place < size as usize),
            PaddingMode::Edge => place.clamp(0, last),
            PaddingMode::Reflection if place > last => 2 * last - place,
            PaddingMode::Reflection => place.abs(),
        };
        Some(place as usize)
    }

    fn infer_dimension(&self, axis: usize, size: Dim) -> Result<Dim, Problem> {
        let (beginning, ending) = (self.beginning[axis], self.ending[axis]);
        if self.mode == PaddingMode::Reflection {
            for (name, padding) in [("beginningPadding", beginning), ("endingPadding", ending)] {
                if padding >= size {
                    let expected = format!("below {size}, the size of input along dimension {axis}, to be reflected");
                    return Err(Problem::attribute(name, padding, expected));
                }
            }
        }
        let padded = beginning + size + ending;
        if !is_dimension(padded) {
            return Err(Problem::attribute("padded size", padded, format!("at most {}", i32::MAX)));
        }
        Ok(padded)
    }
}

impl NamedOperator for Pad {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "pad",
        operands: &[operand("input", ANY, ANY_RANK)],
        outputs: &[output("output", Types::SameAs("input"), ANY_RANK)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Pad, Problem> {
        Pad::read(attributes)
    }
}

impl Operator for Pad {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Pad::write(self, attributes);
        // The default after its cast to the input's type; -0.0 differs from it.
        if matches!(self.value, Number::Float(value) if value.to_bits() == 0) {
            attributes.0.remove("value");
        }
    }

    fn resolve(&mut self, inputs: &Inputs) -> Result<(), Problem> {
        self.value = self.value.cast(required(inputs, 0).dtype);
        Ok(())
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let (beginning, ending) = (permuted(axes, &self.beginning), permuted(axes, &self.ending));
        Some(Pad { beginning, ending, ..self.clone() })
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.beginning.iter_mut().chain(&mut self.ending).for_each(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        for (name, list) in [("beginningPadding", &self.beginning), ("endingPadding", &self.ending)] {
            if list.len() != input.rank() {
                let expected = format!("as many numbers as the rank of input, {}", input.rank());
                return Err(Problem::attribute(name, list, expected));
            }
        }
        let dimensions = input.shape.iter().enumerate().map(|(axis, &size)| self.infer_dimension(axis, size));
        Ok(vec![Descriptor::new(input.dtype, dimensions.collect::<Result<Vec<_>, _>>()?)])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let output = Tensor::from_fn(&outputs[0], |index| {
            let place = |(axis, &i): (usize, &usize)| self.source(axis, input.shape()[axis] as u32, i);
            let place: Option<Vec<usize>> = index.iter().enumerate().map(place).collect();
            place.map_or(self.value, |place| input.at(&place))
        });
        vec![output]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;
    use crate::dtype::DataType;

    fn pad(mode: PaddingMode, beginning: &[u32], ending: &[u32]) -> Pad {
        Pad { beginning: dims(beginning), ending: dims(ending), mode, value: Number::Int(0) }
    }

    fn infer(pad: &Pad, input: &[u32]) -> Result<Vec<u32>, String> {
        let input = Descriptor::new(DataType::Int8, input);
        let outputs = pad.infer(&[Some(&input)]).map_err(|problem| problem.to_string())?;
        Ok(outputs[0].sizes().to_vec())
    }

    #[test]
    fn shapes() {
        use PaddingMode::*;
        assert_eq!(infer(&pad(Constant, &[1, 0], &[9, 2]), &[3, 4]), Ok(vec![13, 6]));
        assert_eq!(infer(&pad(Reflection, &[2, 0], &[2, 3]), &[3, 4]), Ok(vec![7, 7]));
        assert_eq!(infer(&pad(Edge, &[], &[]), &[]), Ok(vec![]));
        for (pad, message) in [
            (pad(Edge, &[1], &[0, 0]), "beginningPadding is [1], expected as many numbers as the rank of input, 2"),
            (pad(Edge, &[1, 0], &[0]), "endingPadding is [0], expected as many numbers as the rank of input, 2"),
            (
                pad(Reflection, &[3, 0], &[0, 0]),
                "beginningPadding is 3, expected below 3, the size of input along dimension 0, to be reflected",
            ),
            (
                pad(Reflection, &[0, 0], &[0, 4]),
                "endingPadding is 4, expected below 4, the size of input along dimension 1, to be reflected",
            ),
            (pad(Constant, &[u32::MAX, 0], &[u32::MAX, 0]), "padded size is 8589934593, expected at most 2147483647"),
        ] {
            assert_eq!(infer(&pad, &[3, 4]), Err(message.to_string()));
        }
    }

    #[test]
    fn the_value_is_cast() {
        let input = Descriptor::new(DataType::Uint8, [1]);
        let mut pad = pad(PaddingMode::Constant, &[1], &[1]);
        pad.value = Number::Float(300.5);
        pad.resolve(&[Some(&input)]).unwrap();
        assert_eq!(pad.value, Number::Int(255));
    }

    #[test]
    fn sources() {
        let sources = |mode| {
            let pad = pad(mode, &[2], &[2]);
            (0..7).map(|i| pad.source(0, 3, i).map_or(-1, |i| i as i32)).collect::<Vec<_>>()
        };
        assert_eq!(sources(PaddingMode::Constant), [-1, -1, 0, 1, 2, -1, -1]);
        assert_eq!(sources(PaddingMode::Edge), [0, 0, 0, 1, 2, 2, 2]);
        assert_eq!(sources(PaddingMode::Reflection), [2, 1, 0, 1, 2, 1, 0]);
    }
}
