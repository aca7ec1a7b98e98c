//! Operators that move elements in front of every operand of every fused pattern: kernels that read an operand in
//! place meet rows that repeat, overlap, are far apart or run backwards.

use crate::ir::parse;
use crate::ops::tensor::Tensor;
use crate::testing::{Random, Tolerance, check_with};
use std::collections::HashMap;

/// Sums of some dozen terms of up to 2.
const FLOAT: Tolerance = Tolerance::ulps(64).or_absolute(1e-4);
/// The graph as built rounds to float16 after each operator.
const HALF: Tolerance = Tolerance::ulps(8).or_absolute(1e-2);
/// Results that are integers, or that round sums at the middle between two.
const STEP: Tolerance = Tolerance::ulps(1).or_absolute(1e-3);

/// Graphs whose operands are written `<SOURCE TYPE SHAPE>`: the source is an input by default, `constant`, or `either`;
/// the type is float32 by default.
const PATTERNS: &[(Tolerance, &str)] = &[
    // Attention: blocks of queries, a few queries, masks, one query per head, both types.
    (FLOAT, "%p = matmul <[9, 4]> <[4, 5]>\n%w = softmax %p axis=1\n%y = matmul %w <[5, 3]>"),
    (FLOAT, "%p = matmul <[3, 16]> <[16, 20]>\n%w = softmax %p axis=1\n%y = matmul %w <[20, 16]>"),
    (FLOAT, "%p = matmul <[33, 17]> <[17, 20]>\n%w = softmax %p axis=1\n%y = matmul %w <[20, 18]>"),
    (
        FLOAT,
        "%c = constant float32 [] 0.5
         %p = matmul <[1, 2, 9, 8]> <[1, 2, 8, 130]>
         %s = mul %p %c
         %m = add %s <[2, 9, 130]>
         %w = softmax %m axis=3
         %o = matmul %w <[1, 2, 130, 8]>
         %y = transpose %o permutation=[0, 2, 1, 3]",
    ),
    (
        FLOAT,
        "%c = constant float32 [] -1000
         %p = matmul <[2, 12, 5]> <[2, 5, 18]>
         %m = where <uint8 [12, 18]> %p %c
         %w = softmax %m axis=2
         %y = matmul %w <[2, 18, 7]>",
    ),
    (
        FLOAT,
        "%p = matmul <[1, 9, 1, 8]> <[1, 9, 8, 30]>
         %m = add %p <[9, 1, 30]>
         %w = softmax %m axis=3
         %y = matmul %w <[1, 9, 30, 8]>",
    ),
    (
        FLOAT,
        "%k = expand <[2, 1, 8, 30]> newShape=[2, 9, 8, 30]
         %v = expand <[2, 1, 30, 8]> newShape=[2, 9, 30, 8]
         %p = matmul <[2, 9, 1, 8]> %k
         %w = softmax %p axis=3
         %y = matmul %w %v",
    ),
    (
        HALF,
        "%p = matmul <float16 [9, 4]> <float16 [4, 20]>
         %m = add %p <float16 [9, 20]>
         %w = softmax %m axis=1
         %y = matmul %w <float16 [20, 9]>",
    ),
    (HALF, "%p = matmul <float16 [2, 8]> <float16 [8, 20]>\n%w = softmax %p axis=1\n%y = matmul %w <float16 [20, 8]>"),
    // Products and what follows them.
    (FLOAT, "%r = matmul <[7, 5]> <either [5, 9]>\n%a = add %r <either [9]>\n%b = mul %a <[7, 9]>\n%y = relu %b"),
    (FLOAT, "%r = matmul <[1, 30]> <either [30, 20]>\n%y = add %r <[1, 20]>"),
    (FLOAT, "%r = matmul <[20, 30]> <either [30, 1]>\n%y = sub <[20, 1]> %r"),
    (FLOAT, "%r = matmul <[2, 3, 7, 5]> <either [3, 5, 40]>\n%a = mul %r <[7, 1]>\n%y = add %a <[3, 7, 40]>"),
    (FLOAT, "%r = matmul <[40, 33]> <[33, 50]>\n%y = sigmoid %r"),
    (FLOAT, "%y = gemm <[5, 7]> <either [9, 5]> <[9]> aTranspose=true bTranspose=true alpha=0.5 beta=2"),
    (FLOAT, "%g = gemm <[17, 5]> <[5, 33]> <[17, 1]>\n%y = tanh %g"),
    (HALF, "%r = matmul <float16 [20, 5]> <float16 [5, 33]>\n%y = add %r <float16 [33]>"),
    (FLOAT, "%r = matmul <[2, 9, 6]> <constant [6, 20]>\n%y = slice %r starts=[0, 8, 0] sizes=[2, 1, 20]"),
    (
        FLOAT,
        "%x = identity <[3, 20]>
         %c = constant float32 [] 1.4142135
         %o = constant float32 [] 1
         %h = constant float32 [] 0.5
         %a = div %x %c
         %b = erf %a
         %d = add %b %o
         %e = mul %x %d
         %y = mul %e %h",
    ),
    // Normalizations, whole and written out.
    (FLOAT, "%y = layerNormalization <[3, 4, 20]> <[20]> <[20]> axes=[2]"),
    (FLOAT, "%y = layerNormalization <[3, 4, 20]> <[3, 20]> <[3, 20]> axes=[0, 2]"),
    (FLOAT, "%y = instanceNormalization <[2, 3, 4, 5]> <[3]> <[3]>"),
    (FLOAT, "%y = instanceNormalization <[2, 4, 5, 3]> <[3]> <[3]> layout=nhwc"),
    (
        FLOAT,
        "%a = identity <[3]>\n%v = mul %a %a\n%y = batchNormalization <[2, 3, 20]> <[3]> %v <[3]> <[3]> epsilon=0.1",
    ),
    (
        FLOAT,
        "%x = identity <[3, 4, 20]>
         %c = constant float32 [] 0.01
         %m = reduceMean %x axes=[2] keepDimensions=true
         %d = sub %x %m
         %q = mul %d %d
         %v = reduceMean %q axes=[2] keepDimensions=true
         %e = add %v %c
         %s = sqrt %e
         %n = div %d %s
         %g = mul %n <either [20]>
         %y = add %g <either [20]>",
    ),
    (
        FLOAT,
        "%x = identity <[3, 4, 20]>
         %c = constant float32 [] 0.01
         %q = mul %x %x
         %v = reduceMean %q axes=[2] keepDimensions=true
         %e = add %v %c
         %s = sqrt %e
         %n = div %x %s
         %y = mul %n <either [20]>",
    ),
    // Images.
    (FLOAT, "%r = conv2d <[2, 3, 7, 6]> <either [9, 3, 3, 3]> <[9]> padding=[1, 1, 1, 1]\n%y = add %r <[9, 7, 1]>"),
    (
        FLOAT,
        "%r = conv2d <[1, 7, 6, 3]> <either [3, 3, 3, 9]> inputLayout=nhwc filterLayout=hwio\n%y = add %r <[4, 9]>",
    ),
    (FLOAT, "%r = conv2d <[1, 7, 6, 20]> <either [20, 1, 3, 3]> <[20]> inputLayout=nhwc groups=20\n%y = relu %r"),
    (FLOAT, "%r = conv2d <[1, 16, 12, 12]> <constant [20, 16, 3, 3]> padding=[1, 1, 1, 1]\n%y = mul %r <[20, 1, 1]>"),
    (FLOAT, "%r = conv2d <[2, 20, 4, 4]> <either [10, 20, 1, 1]>\n%y = sigmoid %r"),
    (FLOAT, "%r = convTranspose2d <[1, 3, 4, 5]> <either [3, 9, 3, 2]> <[9]> strides=[2, 1]\n%y = add %r <[9, 1, 1]>"),
    (FLOAT, "%y = averagePool2d <[2, 3, 7, 6]> windowDimensions=[3, 2] strides=[2, 1]"),
    (FLOAT, "%y = maxPool2d <[1, 7, 6, 20]> windowDimensions=[3, 2] padding=[1, 0, 1, 0] layout=nhwc"),
    (FLOAT, "%y = l2Pool2d <[1, 3, 7, 6]> windowDimensions=[7, 6]"),
    (FLOAT, "%y = resample2d <[1, 3, 5, 6]> mode=linear sizes=[8, 9]"),
    (FLOAT, "%y = pad <[3, 5, 6]> beginningPadding=[1, 0, 2] endingPadding=[0, 1, 3] mode=reflection"),
    // Rows.
    (FLOAT, "%y = softmax <[3, 4, 20]> axis=2"),
    (FLOAT, "%y = softmax <[3, 4, 20]> axis=1"),
    (FLOAT, "%y = reduceMean <[3, 4, 20]> axes=[0, 2]"),
    (FLOAT, "%y = reduceLogSumExp <[3, 4, 20]> axes=[1]"),
    (FLOAT, "%y = reduceMax <[3, 4, 20]> axes=[2]"),
    (FLOAT, "%y = cumulativeSum <[3, 4, 20]> axis=1 reversed=true"),
    (FLOAT, "%y = triangular <[3, 9, 20]> diagonal=1"),
    (FLOAT, "%y = concat <[3, 4, 5]> <[3, 1, 5]> <[3, 7, 5]> axis=1"),
    (FLOAT, "%y = gather <[10, 6]> <int32 [3, 2]> axis=0"),
    (FLOAT, "%y = gather <[5, 10, 6]> <int32 [4]> axis=1"),
    (FLOAT, "%y = gatherElements <[5, 10]> <int32 [5, 4]> axis=1"),
    (FLOAT, "%y = gatherND <[5, 10, 6]> <int32 [4, 2]>"),
    (FLOAT, "%a = argMax <[5, 10]> axis=1 outputDataType=int32\n%y = cast %a dataType=float32"),
    // Recurrent networks.
    (FLOAT, "%y = gruCell <[3, 4]> <either [15, 4]> <either [15, 5]> <[3, 5]> <[15]> <[15]> hiddenSize=5"),
    (
        FLOAT,
        "%y = gru <[2, 3, 4]> <either [1, 15, 4]> <[1, 15, 5]> <[1, 15]> <[1, 15]> <[1, 3, 5]> steps=2 hiddenSize=5",
    ),
    (
        FLOAT,
        "%y, %z = lstm <[2, 3, 4]> <[1, 20, 4]> <either [1, 20, 5]> <[1, 20]> <[1, 20]> <[1, 15]> <[1, 3, 5]> <[1, 3, 5]> \
         steps=2 hiddenSize=5",
    ),
    // Element-wise chains, alone and while an operand is read.
    (FLOAT, "%a = exp <[3, 20]>\n%b = mul %a <[3, 1]>\n%c = where <uint8 [20]> %b <[3, 20]>\n%y = add %c <[20]>"),
    (FLOAT, "%a = mul <[7, 20]> <[7, 20]>\n%y = matmul %a <either [20, 9]>"),
    (FLOAT, "%a = tanh <[7, 20]>\n%b = transpose %a\n%y = add %b <[20, 1]>"),
    (FLOAT, "%a = cast <uint8 [3, 20]> dataType=float32\n%y = mul %a <[20]>"),
    // Quantized products and weights.
    (
        STEP,
        "%s = constant float32 [1, 1] 0.015625
         %z = constant uint8 [1, 1] 100
         %x = dequantizeLinear <uint8 [9, 20]> %s %z
         %t = constant int8 [1, 1] 3
         %w = dequantizeLinear <constant int8 [20, 12]> %s %t
         %y = matmul %x %w",
    ),
    (
        STEP,
        "%s = constant float32 [1, 1, 1, 1] 0.015625
         %z = constant uint8 [1, 1, 1, 1] 100
         %x = dequantizeLinear <uint8 [1, 20, 6, 7]> %s %z
         %t = constant int8 [1, 1, 1, 1] 3
         %w = dequantizeLinear <constant int8 [20, 1, 3, 3]> %s %t
         %c = conv2d %x %w <constant [20]> groups=20 padding=[1, 1, 1, 1]
         %o = constant float32 [1, 1, 1, 1] 0.5
         %y = quantizeLinear %c %o %z",
    ),
    (
        STEP,
        "%s = constant float32 [1, 1, 1, 1] 0.015625
         %z = constant uint8 [1, 1, 1, 1] 100
         %x = dequantizeLinear <uint8 [1, 8, 6, 7]> %s %z
         %t = constant int8 [1, 1, 1, 1] 3
         %w = dequantizeLinear <constant int8 [20, 8, 3, 3]> %s %t
         %c = conv2d %x %w
         %y = add %c <[20, 1, 1]>",
    ),
    (
        STEP,
        "%i = constant int8 [12, 2, 16]
         %s = constant float32 [12, 2, 1] 0.015625
         %z = constant int8 [12, 2, 1] 3
         %d = dequantizeLinear %i %s %z
         %w = reshape %d newShape=[12, 32]
         %y = gemm <[9, 32]> %w <[12]> bTranspose=true",
    ),
    (STEP, "%y = quantizeLinear <[3, 20]> <constant [3, 1]> <constant int8 [3, 1]>"),
    (STEP, "%y = dequantizeLinear <int8 [3, 20]> <[1, 4]> <int8 [1, 4]>"),
];

/// A graph under construction.
struct Text<'r> {
    random: &'r mut Random,
    lines: Vec<String>,
    names: usize,
}

impl Text<'_> {
    fn below(&mut self, end: usize) -> usize {
        (self.random.next() >> 33) as usize % end
    }

    fn each<T>(&mut self, shape: &[usize], mut f: impl FnMut(&mut Self, usize) -> T) -> Vec<T> {
        shape.iter().map(|&size| f(self, size)).collect()
    }

    /// Adds the line that computes a new value; returns its name.
    fn push(&mut self, right: String) -> String {
        self.names += 1;
        let name = format!("%v{}", self.names);
        self.lines.push(format!("{name} = {right}"));
        name
    }

    /// A value of this shape: up to `moves` operators move the elements of a source.
    fn operand(&mut self, source: &str, dtype: &str, shape: &[usize], moves: usize) -> String {
        if moves == 0 {
            let word = if source == "constant" { "constant".to_string() } else { format!("input x{}", self.names) };
            return self.push(format!("{word} {dtype} {shape:?}"));
        }
        let (before, operator) = self.movement(shape);
        let from = self.operand(source, dtype, &before, moves - 1);
        // The output of a split is one of several.
        match operator.strip_prefix("second ") {
            None => self.push(operator.replace("FROM", &from)),
            Some(operator) => {
                let right = operator.replace("FROM", &from);
                let name = self.push(right);
                let line = self.lines.last_mut().expect("just added");
                *line = format!("{name}first, {line}");
                name
            }
        }
    }

    /// An operator that moves elements to the shape `shape`, and the shape of its operand `FROM`.
    fn movement(&mut self, shape: &[usize]) -> (Vec<usize>, String) {
        let rank = shape.len();
        match self.below(if rank == 0 { 1 } else { 8 }) {
            0 | 1 => {
                let before = self.each(shape, |text, size| if text.below(2) == 0 { 1 } else { size });
                let missing = self.below(1 + before.iter().take_while(|&&size| size == 1).count());
                (before[missing..].to_vec(), format!("expand FROM newShape={shape:?}"))
            }
            2 | 3 => {
                let starts = self.each(shape, |text, _| text.below(3));
                let steps = self.each(shape, |text, _| [1, 1, 2, 3][text.below(4)]);
                let sizes: Vec<usize> = shape.iter().zip(&steps).map(|(size, step)| (size - 1) * step + 1).collect();
                let ends = self.each(shape, |text, _| text.below(2));
                let before = (0..rank).map(|axis| starts[axis] + sizes[axis] + ends[axis]).collect();
                (before, format!("slice FROM starts={starts:?} sizes={sizes:?} strides={steps:?}"))
            }
            4 => {
                let mut permutation: Vec<usize> = (0..rank).collect();
                (1..rank).rev().for_each(|at| permutation.swap(at, self.below(at + 1)));
                let mut before = vec![0; rank];
                permutation.iter().zip(shape).for_each(|(&axis, &size)| before[axis] = size);
                (before, format!("transpose FROM permutation={permutation:?}"))
            }
            5 => {
                let (mut before, axis) = (shape.to_vec(), self.below(rank));
                match self.below(3) {
                    0 if rank > 1 && axis + 1 < rank => {
                        let inner = before.remove(axis + 1);
                        before[axis] *= inner;
                    }
                    1 if before[axis].is_multiple_of(2) && rank < 6 => {
                        before[axis] /= 2;
                        before.insert(axis + self.below(2), 2);
                    }
                    _ => before = vec![shape.iter().product()],
                }
                (before, format!("reshape FROM newShape={shape:?}"))
            }
            6 => {
                let axes: Vec<usize> = (0..rank).filter(|_| self.below(2) == 0).collect();
                (shape.to_vec(), format!("reverse FROM axes={axes:?}"))
            }
            _ => {
                let (mut before, axis, first) = (shape.to_vec(), self.below(rank), 1 + self.below(3));
                before[axis] += first;
                (before, format!("second split FROM splits=[{first}, {}] axis={axis}", shape[axis]))
            }
        }
    }

    /// Replaces the operands in `pattern`, each by a value after up to three movements.
    fn expanded(&mut self, pattern: &str) -> String {
        let mut rest = pattern;
        let mut body = String::new();
        while let Some((before, after)) = rest.split_once('<') {
            let (operand, after) = after.split_once('>').expect("an operand ends");
            let (words, shape) = operand.split_once('[').expect("a shape");
            let shape = shape.trim_end_matches(']').split(", ").map(|size| size.parse().expect("a size"));
            let (mut source, mut dtype) = ("input", "float32");
            for word in words.split_whitespace() {
                match word {
                    "constant" => source = word,
                    "either" => source = ["input", "constant"][self.below(2)],
                    _ => dtype = word,
                }
            }
            let moves = [0, 1, 1, 2, 3][self.below(5)];
            body += before;
            body += &self.operand(source, dtype, &shape.collect::<Vec<usize>>(), moves);
            rest = after;
        }
        self.lines.join("\n") + "\n" + &body + rest + "\noutput y = %y"
    }
}

#[test]
fn operands_of_patterns_may_be_rearranged() {
    const ROUNDS: u64 = 4;
    for (index, (tolerance, pattern)) in PATTERNS.iter().enumerate() {
        for round in 0..ROUNDS {
            let mut random = Random::new(index as u64 * ROUNDS + round);
            let text = Text { random: &mut random, lines: Vec::new(), names: 0 }.expanded(pattern);
            let graph = parse(&text);
            let mut input =
                |(name, id): &(String, _)| (name.clone(), random.tensor_in(graph.descriptor(*id), -1.0, 1.0).rounded());
            let inputs: HashMap<String, Tensor> = graph.inputs.iter().map(&mut input).collect();
            check_with(&graph, &inputs, *tolerance);
        }
    }
}

#[test]
fn a_query_may_repeat() {
    for (rows, keys) in [(9, 5), (9, 130), (40, 17), (3, 20)] {
        let text = format!(
            "%0 = input x float32 [1, 4]
             %1 = expand %0 newShape=[{rows}, 4]
             %2 = input k float32 [4, {keys}]
             %3 = input v float32 [{keys}, 3]
             %4 = matmul %1 %2
             %5 = softmax %4 axis=1
             %6 = matmul %5 %3
             output y = %6"
        );
        crate::testing::check(&parse(&text), FLOAT);
    }
}
