//! `linearAttention`: attention that keeps a matrix in place of all earlier keys and values.

use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, given, required};
use crate::shape::Descriptor;
use ndarray::{ArrayD, s};

crate::attributes! {
    /// A state is a matrix with a row per feature of a key and a column per feature of a value. Each step multiplies its
    /// rows by the `decay`, adds the product of key and value, and multiplies the query with the result and `scale`. With
    /// a `rate`, the value is first reduced by what the state has for the key, and multiplied by the rate.
    ///
    /// Operands are `[batch, steps, heads, features]`; several states may share a head of queries or of keys, and several
    /// heads of queries a state. A decay or rate of one number stands for all features or heads.
    pub struct LinearAttention {
        /// The factor of the outputs.
        scale "scale": f64 = 1.0,
    }
}

impl NamedOperator for LinearAttention {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "linearAttention",
        operands: &[
            operand("query", FLOATS, (4, 4)),
            operand("key", Types::SameAs("query"), (4, 4)),
            operand("value", Types::SameAs("query"), (4, 4)),
            optional("decay", Types::SameAs("query"), (4, 4)),
            optional("rate", Types::SameAs("query"), (3, 3)),
            optional("state", Types::SameAs("query"), (4, 4)),
        ],
        outputs: &[output("output", Types::SameAs("query"), (4, 4)), output("state", Types::SameAs("query"), (4, 4))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<LinearAttention, Problem> {
        LinearAttention::read(attributes)
    }
}

impl Operator for LinearAttention {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        LinearAttention::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let [query, key, value] = [0, 1, 2].map(|index| required(inputs, index));
        let &[batch, steps, heads, size] = &query.shape[..] else { unreachable!("the rule gives the rank") };
        let (keys, states, columns) = (key.shape[2], value.shape[2], value.shape[3]);
        let clash = |what, a: &Descriptor| Problem::Incompatible { what, a: a.shape.clone(), b: value.shape.clone() };
        if !(heads.is_multiple_of(states) || states.is_multiple_of(heads)) {
            return Err(clash("heads of query and of value cannot share states", query));
        }
        if !states.is_multiple_of(keys) {
            return Err(clash("the heads of value cannot share those of key", key));
        }
        let one = |index: usize, axis: usize| given(inputs, index).is_some_and(|operand| operand.shape[axis] == 1);
        let decays = if one(3, 3) { 1.into() } else { size };
        let rates = if one(4, 2) { 1.into() } else { states };
        let state = [batch, states, size, columns];
        let expected: [(_, &[_]); 5] = [
            ("key", &[batch, steps, keys, size]),
            ("value", &[batch, steps, states, columns]),
            ("decay", &[batch, steps, states, decays]),
            ("rate", &[batch, steps, rates]),
            ("state", &state),
        ];
        for (index, (operand, expected)) in (1..).zip(expected) {
            if let Some(got) = given(inputs, index).filter(|got| got.shape != expected) {
                return Err(Problem::Shape { operand, got: got.shape.clone(), expected: expected.to_vec() });
            }
        }
        let output = [batch, steps, heads.max(states), columns];
        Ok(vec![Descriptor::new(query.dtype, output), Descriptor::new(query.dtype, state)])
    }

    fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        // Each output reads a column of its state, to which the step before added a product.
        let (state, [_, steps, heads, _]) =
            (outputs[1].elements() as u64, [0, 1, 2, 3].map(|at| outputs[0].sizes()[at]));
        let passes = 1 + heads / outputs[1].sizes()[1] + given(inputs, 4).is_some() as u32;
        state * steps as u64 * passes as u64
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let [query, key, value] = [0, 1, 2].map(|index| required(inputs, index).floats());
        let [decay, rate, past] = [3, 4, 5].map(|index| given(inputs, index).map(Tensor::floats));
        let [output, state] =
            [0, 1].map(|index| outputs[index].sizes().iter().map(|&at| at as usize).collect::<Vec<_>>());
        let (steps, states, heads) = (output[1], state[1], output[2]);
        let mut all = past.map_or_else(|| ArrayD::zeros(&state[..]), |past| past.clone());
        let mut read = ArrayD::zeros(&output[..]);
        for (b, head) in (0..state[0] * states).map(|at| (at / states, at % states)) {
            let mut state = all.slice_mut(s![b, head, .., ..]);
            for step in 0..steps {
                let key = key.slice(s![b, step, head * key.shape()[2] / states, ..]);
                let mut added = value.slice(s![b, step, head, ..]).to_owned();
                if let Some(decay) = decay {
                    state *= &decay.slice(s![b, step, head, ..]).insert_axis(ndarray::Axis(1));
                }
                if let Some(rate) = rate {
                    added = (added - key.dot(&state)) * rate[[b, step, head % rate.shape()[2]].as_slice()];
                }
                for (key, mut row) in key.iter().zip(state.rows_mut()) {
                    row.scaled_add(*key, &added);
                }
                for head in head * heads / states..(head + 1) * heads / states {
                    let query = query.slice(s![b, step, head * query.shape()[2] / heads, ..]);
                    read.slice_mut(s![b, step, head, ..]).assign(&(query.dot(&state) * self.scale));
                }
            }
        }
        [read, all].into_iter().zip(outputs).map(|(array, output)| Tensor::float(output.dtype, array)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType::Float32;

    #[test]
    fn shapes_and_mismatches() {
        let infer = |shapes: [&[u32]; 6]| {
            let descriptors = shapes.map(|shape| (!shape.is_empty()).then(|| Descriptor::new(Float32, shape)));
            let outputs = LinearAttention::default().infer(&descriptors.each_ref().map(Option::as_ref));
            outputs.map(|outputs| outputs.iter().map(|output| output.sizes().to_vec()).collect::<Vec<_>>())
        };
        let fail = |shapes| infer(shapes).unwrap_err().to_string();
        let [q, k, v] = [[2, 3, 4, 5], [2, 3, 1, 5], [2, 3, 2, 7]];
        assert_eq!(infer([&q, &k, &v, &[], &[], &[]]).unwrap(), [[2, 3, 4, 7], [2, 2, 5, 7]]);
        assert_eq!(infer([&k, &k, &v, &[2, 3, 2, 5], &[2, 3, 1], &[2, 2, 5, 7]]).unwrap()[0], [2, 3, 2, 7]);
        assert!(
            fail([&[2, 3, 3, 5], &k, &v, &[], &[], &[]]).contains("heads of query and of value cannot share states")
        );
        assert!(fail([&q, &q, &v, &[], &[], &[]]).contains("the heads of value cannot share those of key"));
        assert_eq!(fail([&q, &k, &v, &[2, 3, 2, 2], &[], &[]]), "decay has shape [2, 3, 2, 2], expected [2, 3, 2, 5]");
        assert_eq!(fail([&q, &k, &v, &[], &[2, 3, 4], &[]]), "rate has shape [2, 3, 4], expected [2, 3, 2]");
        assert_eq!(fail([&q, &k, &v, &[], &[], &[2, 2, 7, 5]]), "state has shape [2, 2, 7, 5], expected [2, 2, 5, 7]");
    }
}
