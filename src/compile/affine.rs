//! Operators that scale or shift the channels of a convolution, or pad its image with zeros, merge into its filter,
//! bias and padding. The new filter is written as operators on constants, which [`fold`](super::fold) computes.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::{Graph, Node, Source, ValueId};
use crate::ops::conv2d::Conv2d;
use crate::ops::elementwise::Elementwise;
use crate::ops::normalization::BatchNormalization;
use crate::ops::pad::{Pad, PaddingMode};
use crate::ops::reshape::{Expand, Reshape};
use crate::ops::{Api, Op, Operation};
use crate::shape::Descriptor;
use std::collections::HashSet;

/// Merges batch normalizations, products, sums and paddings with constants into adjacent `float32` convolutions. The
/// remaining batch normalizations become element-wise operators.
pub fn absorb_affine(graph: &mut Graph) {
    let uses = graph.use_counts();
    let nodes = std::mem::take(&mut graph.nodes);
    let mut absorb = Absorb { graph, producers: Vec::new(), known: HashSet::new() };
    for mut node in nodes {
        if let (Api(Op::Elementwise(Elementwise::Mul | Elementwise::Add)), [Some(a), Some(_)]) =
            (&node.op, &node.inputs[..])
            && absorb.is_constant(*a)
        {
            node.inputs.swap(0, 1);
        }
        let input = node.inputs.first().copied().flatten();
        let producer = input.filter(|id| uses[id.index()] == 1).and_then(|id| absorb.producer(id));
        let absorbed = match (producer, &node.op) {
            (Some(index), Api(Op::Conv2d(_))) => absorb.padding(index, &node),
            (Some(index), Api(Op::BatchNormalization(op))) => absorb.normalization(index, op, &node),
            (Some(index), Api(Op::Elementwise(op))) => absorb.operator(index, *op, &node),
            _ => None,
        };
        if absorbed.is_none() && absorb.written_out(&node).is_none() {
            absorb.push(node);
        }
    }
    graph.drop_unused();
}

struct Absorb<'g> {
    graph: &'g mut Graph,
    /// The index of the node that computes each value.
    producers: Vec<Option<usize>>,
    /// The values that this pass computes from constants alone.
    known: HashSet<ValueId>,
}

impl Absorb<'_> {
    fn producer(&self, id: ValueId) -> Option<usize> {
        self.producers.get(id.index()).copied().flatten()
    }

    fn push(&mut self, node: Node) {
        self.producers.resize(self.graph.values.len(), None);
        node.outputs.iter().for_each(|id| self.producers[id.index()] = Some(self.graph.nodes.len()));
        self.graph.nodes.push(node);
    }

    fn is_constant(&self, id: ValueId) -> bool {
        self.graph.value(id).constant().is_some()
    }

    /// Whether a value is or becomes a constant: a filter or bias computed by this pass.
    fn is_known(&self, id: ValueId) -> bool {
        self.is_constant(id) || self.known.contains(&id)
    }

    /// Appends an operator whose output has shape `shape`; returns the output.
    fn compute(&mut self, op: impl Into<Operation>, inputs: &[ValueId], shape: &[Dim]) -> ValueId {
        let id = self.graph.add_value(Descriptor::new(DataType::Float32, shape), Source::Node);
        if inputs.iter().all(|&id| self.is_known(id)) {
            self.known.insert(id);
        }
        let inputs = inputs.iter().copied().map(Some).collect();
        let (label, epilogue, prologues, origins) = Default::default();
        self.push(Node { op: op.into(), label, inputs, outputs: vec![id], epilogue, prologues, origins });
        id
    }

    /// Reshapes `id` to `rank` dimensions, with its elements along dimension `axis`.
    fn along(&mut self, id: ValueId, axis: usize, rank: usize) -> ValueId {
        let mut new_shape = vec![Dim::number(1); rank];
        new_shape[axis] = self.graph.descriptor(id).count();
        let shape = new_shape.clone();
        self.compute(Reshape { new_shape }, &[id], &shape)
    }

    /// The operator and filter of the convolution at `index`, if it can absorb constants.
    fn convolution(&self, index: usize) -> Option<(Conv2d, ValueId)> {
        let node = &self.graph.nodes[index];
        let Api(Op::Conv2d(op)) = &node.op else { return None };
        let known = node.inputs[1..].iter().flatten().all(|&id| self.is_known(id));
        let float = self.graph.descriptor(node.outputs[0]).dtype == DataType::Float32;
        (known && float).then(|| (op.clone(), node.inputs[1].expect("the rule requires this operand")))
    }

    /// Multiplies (or divides) filter and bias of the convolution at `index` by `factors`, and adds `terms` to (or
    /// subtracts them from) the bias. Both have one element per output channel, or one for all. The convolution takes
    /// over the outputs of `node`.
    fn affine(
        &mut self,
        index: usize,
        factors: Option<(Elementwise, ValueId)>,
        terms: Option<(Elementwise, ValueId)>,
        node: &Node,
    ) -> Option<()> {
        let (op, filter) = self.convolution(index)?;
        let shape = self.graph.descriptor(filter).shape.clone();
        let [output_channels, _, _, _] = op.attributes.filter_layout.axes();
        let channels = [shape[output_channels]];
        let mut inputs = self.graph.nodes[index].inputs.clone();
        inputs.resize(3, None);
        let mut bias = inputs[2];
        if let Some((operator, factors)) = factors {
            let along = self.along(factors, output_channels, 4);
            inputs[1] = Some(self.compute(operator, &[filter, along], &shape));
            let factors = self.along(factors, 0, 1);
            bias = bias.map(|bias| self.compute(operator, &[bias, factors], &channels));
        }
        if let Some((operator, terms)) = terms {
            let terms = self.along(terms, 0, 1);
            let bias_or_zeros = match bias {
                Some(bias) => bias,
                None => {
                    let zero = self.number(0.0)?;
                    self.compute(Expand { new_shape: channels.to_vec() }, &[zero], &channels)
                }
            };
            bias = Some(self.compute(operator, &[bias_or_zeros, terms], &channels));
        }
        inputs[2] = bias;
        // Appended at the end, after the nodes that compute its operands. Nothing else reads the old convolution, and
        // copying its origins for each operator of a long chain would be expensive.
        let origins = std::mem::take(&mut self.graph.nodes[index].origins);
        let outputs = node.outputs.clone();
        let mut convolution = Node { inputs, outputs, origins, ..self.graph.nodes[index].clone() };
        convolution.absorb(node.origins.clone());
        self.push(convolution);
        Some(())
    }

    fn number(&mut self, value: f32) -> Option<ValueId> {
        self.graph.add_constant(Descriptor::new(DataType::Float32, [0u32; 0]), &value.to_ne_bytes()).ok()
    }

    /// Absorbs a product, quotient, sum or difference with a constant that has one value per channel.
    fn operator(&mut self, index: usize, operator: Elementwise, node: &Node) -> Option<()> {
        let (op, _) = self.convolution(index)?;
        let constant = node.inputs.get(1).copied().flatten().filter(|&id| self.is_constant(id))?;
        let output = self.graph.descriptor(node.outputs[0]);
        let [_, channels, _, _] = op.attributes.input_layout.axes();
        let shape = &self.graph.descriptor(constant).shape;
        let axis_of = |from_end: usize| output.rank() - from_end;
        let same = shape.len() <= output.rank()
            && shape.iter().rev().enumerate().all(|(i, &size)| size == 1 || axis_of(i + 1) == channels)
            && output.shape == self.graph.descriptor(node.inputs[0]?).shape;
        match operator {
            Elementwise::Mul | Elementwise::Div if same => self.affine(index, Some((operator, constant)), None, node),
            Elementwise::Add | Elementwise::Sub if same => self.affine(index, None, Some((operator, constant)), node),
            _ => None,
        }
    }

    /// The factors `scale / sqrt(variance + epsilon)` of a normalization with constants.
    fn factors(&mut self, op: &BatchNormalization, node: &Node) -> Option<ValueId> {
        let input = self.graph.descriptor(node.inputs[0]?);
        let float = input.dtype == DataType::Float32;
        if !float || !node.inputs[1..].iter().flatten().all(|&id| self.is_constant(id)) {
            return None;
        }
        let shape = [input.shape[op.axis as usize]];
        let epsilon = self.number(op.epsilon as f32)?;
        let variance = self.compute(Elementwise::Add, &[node.inputs[2]?, epsilon], &shape);
        let deviation = self.compute(Elementwise::Sqrt, &[variance], &shape);
        let scale = match node.inputs.get(3).copied().flatten() {
            Some(scale) => scale,
            None => self.number(1.0)?,
        };
        Some(self.compute(Elementwise::Div, &[scale, deviation], &shape))
    }

    /// Absorbs a batch normalization of the channels of a convolution.
    fn normalization(&mut self, index: usize, op: &BatchNormalization, node: &Node) -> Option<()> {
        let (convolution, _) = self.convolution(index)?;
        let [_, channels, _, _] = convolution.attributes.input_layout.axes();
        if op.axis as usize != channels {
            return None;
        }
        let factors = self.factors(op, node)?;
        let shape = self.graph.descriptor(factors).shape.clone();
        let mean = self.compute(Elementwise::Mul, &[node.inputs[1]?, factors], &shape);
        let bias = match node.inputs.get(4).copied().flatten() {
            Some(bias) => bias,
            None => self.number(0.0)?,
        };
        let terms = self.compute(Elementwise::Sub, &[bias, mean], &shape);
        self.affine(index, Some((Elementwise::Mul, factors)), Some((Elementwise::Add, terms)), node)
    }

    /// Writes a batch normalization as `(x - mean) * factors + bias`: the factors are then computed once, and the
    /// operators fuse with their neighbors.
    fn written_out(&mut self, node: &Node) -> Option<()> {
        let Api(Op::BatchNormalization(op)) = &node.op else { return None };
        let factors = self.factors(op, node)?;
        let (input, axis) = (node.inputs[0]?, op.axis as usize);
        let shape = self.graph.descriptor(input).shape.clone();
        let mut steps = vec![(Elementwise::Sub, node.inputs[1]?), (Elementwise::Mul, factors)];
        steps.extend(node.inputs.get(4).copied().flatten().map(|bias| (Elementwise::Add, bias)));
        let mut value = input;
        for (operator, operand) in steps {
            let operand = self.along(operand, axis, shape.len());
            value = self.compute(operator, &[value, operand], &shape);
        }
        // The last step takes over the node's output.
        let last = self.graph.nodes.last_mut().expect("just pushed");
        last.outputs = node.outputs.clone();
        last.label = node.label.clone();
        last.absorb(node.origins.clone());
        let index = self.graph.nodes.len() - 1;
        self.producers[node.outputs[0].index()] = Some(index);
        Some(())
    }

    /// Turns the zeros that the node at `index` adds around the image into padding of the convolution `node`.
    fn padding(&mut self, index: usize, node: &Node) -> Option<()> {
        let (Api(Op::Conv2d(convolution)), Api(Op::Pad(pad))) = (&node.op, &self.graph.nodes[index].op) else {
            return None;
        };
        let Pad { beginning, ending, mode: PaddingMode::Constant, value } = pad else { return None };
        let [batches, channels, height, width] = convolution.attributes.input_layout.axes();
        let zero = value.to_f64() == 0.0;
        if !zero || [batches, channels].into_iter().any(|axis| beginning[axis] + ending[axis] > 0) {
            return None;
        }
        let more = [beginning[height], ending[height], beginning[width], ending[width]];
        let own = &convolution.attributes.padding;
        let sum = |(&own, more): (&Dim, Dim)| Some(own + more).filter(|&sum| sum <= Dim::from(u32::MAX));
        let padding = own.iter().zip(more).map(sum).collect::<Option<_>>()?;
        let mut convolution = convolution.clone();
        convolution.attributes.padding = padding;
        let (input, origins) = (self.graph.nodes[index].inputs[0], self.graph.nodes[index].origins.clone());
        let mut node = Node { op: convolution.into(), ..node.clone() };
        node.inputs[0] = input;
        node.absorb(origins);
        self.push(node);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{Passes, optimize};
    use crate::ir::{Evaluator, parse};
    use crate::reference;
    use crate::testing::{CPU, Tolerance, check, check_pass, check_pass_changes_nothing};

    /// The operators that remain after constants are folded.
    fn operators(text: &str) -> Vec<&'static str> {
        let mut graph = parse(text);
        let passes = Passes { layout: false, epilogues: false, chains: false, ..Passes::ALL };
        optimize(&mut graph, &CPU, passes, &Evaluator::new(reference::evaluate)).unwrap();
        graph.nodes.iter().map(|node| node.op.rule().name).collect()
    }

    const FLOAT: Tolerance = Tolerance::ulps(8).or_absolute(1e-4);

    #[test]
    fn a_normalization_with_constants_moves_into_the_filter() {
        for (image, options) in [("[2, 3, 4, 5]", ""), ("[2, 4, 5, 3]", "inputLayout=nhwc")] {
            for (filter, layout) in [("[6, 3, 2, 2]", "oihw"), ("[2, 2, 3, 6]", "hwio")] {
                for (bias, rest) in [("", ""), ("%7", " %5"), ("%7", " %5 %6")] {
                    let axis = if options.is_empty() { 1 } else { 3 };
                    let text = format!(
                        "%0 = input x float32 {image}
                         %1 = constant float32 {filter}
                         %2 = constant float32 [6]
                         %3 = constant float32 [6]
                         %4 = mul %3 %3
                         %5 = constant float32 [6]
                         %6 = constant float32 [6]
                         %7 = constant float32 [6]
                         %8 = conv2d %0 %1 {bias} filterLayout={layout} {options}
                         %9 = batchNormalization %8 %2 %4{rest} axis={axis} epsilon=0.1
                         output y = %9"
                    );
                    assert_eq!(operators(&text), ["conv2d"]);
                    check(&parse(&text), FLOAT);
                }
            }
        }
    }

    #[test]
    fn constants_of_channels_move_into_the_filter_one_after_the_other() {
        let text = "%0 = input x float32 [1, 3, 4, 5]
             %1 = constant float32 [6, 3, 2, 2]
             %2 = constant float32 [6, 1, 1]
             %3 = constant float32 [1, 6, 1, 1]
             %4 = constant float32 [] 3
             %5 = conv2d %0 %1
             %6 = mul %5 %2
             %7 = sub %6 %3
             %8 = div %7 %4
             %9 = add %2 %8
             output y = %9";
        assert_eq!(operators(text), ["conv2d"]);
        check(&parse(text), FLOAT);
    }

    #[test]
    fn long_chains_of_constants_take_little_time() {
        let links = 20_000;
        let mut text = "%0 = input x float32 [1, 1, 2, 2]
             %1 = constant float32 [1, 1, 1, 1]
             %2 = constant float32 [] 1
             %3 = conv2d %0 %1
             "
        .to_string();
        (0..links).for_each(|i| text += &format!("%{} = {} %{} %2\n", i + 4, ["mul", "add"][i % 2], i + 3));
        let mut graph = parse(&(text + &format!("output y = %{}", links + 3)));
        absorb_affine(&mut graph);
        let origins: Vec<usize> =
            graph.nodes.iter().map(|node| node.origins.len()).filter(|&count| count > 0).collect();
        assert_eq!(origins, [links + 1], "the convolution stands for all nodes");
    }

    #[test]
    fn zeros_around_the_image_become_padding() {
        check_pass(
            absorb_affine,
            "%0 = input x float32 [1, 3, 4, 5]
             %1 = constant float32 [6, 3, 2, 2]
             %2 = pad %0 beginningPadding=[0, 0, 1, 2] endingPadding=[0, 0, 3, 4]
             %3 = conv2d %2 %1 padding=[1, 0, 0, 0]
             output y = %3",
            "%0 = input x float32 [1, 3, 4, 5]
             %1 = constant float32 [6, 3, 2, 2]
             %2 = conv2d %0 %1 padding=[2, 3, 2, 4]
             output y = %2",
        );
    }

    #[test]
    fn a_normalization_alone_is_written_out() {
        let text = "%0 = input x float32 [2, 3, 4]
             %1 = constant float32 [3]
             %2 = mul %1 %1
             %3 = constant float32 [3]
             %4 = batchNormalization %0 %1 %2 %3 %3 epsilon=0.1
             output y = %4";
        assert_eq!(operators(text), ["sub", "mul", "add"]);
        check(&parse(text), FLOAT);
    }

    #[test]
    fn operators_that_a_convolution_cannot_absorb_stay() {
        let convolution = "%0 = input x float32 [1, 3, 4, 5]
             %1 = constant float32 [6, 3, 2, 2]
             %2 = constant float32 [6, 1, 1]
             %3 = input z float32 [6, 1, 1]
             %4 = constant float32 [1, 1, 4]
             %5 = constant float32 [2, 6, 1, 1]
             %6 = conv2d %0 %1
             ";
        for rest in [
            // Another reader, no constant, constants along a row and along the batches.
            "%7 = mul %6 %2\noutput y = %7\noutput z = %6",
            "%7 = mul %6 %3\noutput y = %7",
            "%7 = mul %6 %4\noutput y = %7",
            "%7 = mul %6 %5\noutput y = %7",
            // The convolution is the divisor.
            "%7 = div %2 %6\noutput y = %7",
        ] {
            let text = convolution.to_string() + rest;
            assert_eq!(operators(&text).len(), 2, "{rest}");
        }
        for text in [
            "%0 = input x float16 [1, 3, 4, 5]
             %1 = constant float16 [6, 3, 2, 2]
             %2 = conv2d %0 %1
             %3 = constant float16 [6, 1, 1]
             %4 = mul %2 %3
             output y = %4",
            "%0 = input x float32 [1, 3, 4, 5]
             %1 = pad %0 beginningPadding=[0, 0, 1, 1] endingPadding=[0, 0, 1, 1] value=1.0
             %2 = constant float32 [6, 3, 2, 2]
             %3 = conv2d %1 %2
             output y = %3",
            "%0 = input x float32 [1, 3, 4, 5]
             %1 = pad %0 beginningPadding=[0, 1, 1, 1] endingPadding=[0, 0, 1, 1]
             %2 = constant float32 [6, 4, 2, 2]
             %3 = conv2d %1 %2
             output y = %3",
            "%0 = input x float32 [2, 3]
             %1 = input m float32 [3]
             %2 = batchNormalization %0 %1 %1 epsilon=9.999999747378752e-6
             output y = %2",
        ] {
            check_pass_changes_nothing(absorb_affine, text);
        }
    }
}
