//! A chain of element-wise operators, fused into one by the compiler: intermediate values stay in registers.

use super::attributes::{Attribute, Attributes};
use super::elementwise::Elementwise;
use super::rule::{ANY, ANY_RANK, OpRule, output, variadic};
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors};
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::shape::{Descriptor, broadcast};

/// One operator of a chain. Registers `0..inputs` of the program hold the elements of the operands, register
/// `inputs + i` the result of instruction `i`.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// The operator.
    pub op: Elementwise,
    /// The registers of its operands.
    pub operands: Vec<usize>,
    /// The data type of its result.
    pub dtype: DataType,
}

/// A program over the elements of `inputs` operands, all broadcast to the same shape. The last instruction's result is
/// the output. A program without instructions has none; where it is allowed, it stands for "nothing to do".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fused {
    /// Number of operands.
    pub inputs: usize,
    /// The instructions, in execution order.
    pub instructions: Vec<Instruction>,
}

impl Fused {
    /// The program of a single operator.
    pub fn single(op: Elementwise, inputs: &[DataType]) -> Fused {
        let dtype = op.output_type(inputs);
        let operands = (0..inputs.len()).collect();
        Fused { inputs: inputs.len(), instructions: vec![Instruction { op, operands, dtype }] }
    }

    /// The data type of the output.
    pub fn output_type(&self) -> DataType {
        self.instructions.last().expect("a program has instructions").dtype
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// How often instructions read a register.
    pub fn reads(&self, register: usize) -> usize {
        let reads = self.instructions.iter().flat_map(|instruction| &instruction.operands);
        reads.filter(|&&read| read == register).count()
    }

    /// The names of the operators, in execution order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.instructions.iter().map(|instruction| instruction.op.name())
    }

    /// The text form of each instruction: `clamp(r2) maxValue=6.0`.
    pub fn texts(&self) -> Vec<String> {
        let text = |Instruction { op, operands, .. }: &Instruction| {
            let operands: Vec<String> = operands.iter().map(|register| format!("r{register}")).collect();
            let mut own = Attributes::default();
            op.write(&mut own);
            let own: String = own.0.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            format!("{}({}){own}", op.name(), operands.join(" "))
        };
        self.instructions.iter().map(text).collect()
    }

    /// Parses a program's text form, for operands of these data types.
    ///
    /// # Panics
    /// If the text is not a program: it is hand-written, for tests.
    pub fn parse(texts: &[String], inputs: &[DataType]) -> Fused {
        let mut types = inputs.to_vec();
        let instructions = texts.iter().map(|text| {
            let (name, rest) = text.split_once('(').expect("an operator and its registers");
            let (registers, attributes) = rest.split_once(')').expect("registers in parentheses");
            let register = |text: &str| text.strip_prefix('r').and_then(|number| number.parse().ok());
            let operands: Vec<usize> =
                registers.split_whitespace().map(|text| register(text).expect("a register")).collect();
            let op = match name {
                "dequantize" => Elementwise::Dequantize,
                "quantize" => Elementwise::Quantize,
                "silu" => Elementwise::Silu,
                _ => {
                    let mut attributes = Attributes::parse(attributes);
                    let op = Elementwise::read(name, &mut attributes).expect("attributes of the operator");
                    assert_eq!(attributes, Attributes::default(), "attributes of {name}");
                    op
                }
            };
            let dtype = op.output_type(&operands.iter().map(|&register| types[register]).collect::<Vec<_>>());
            types.push(dtype);
            Instruction { op, operands, dtype }
        });
        let instructions = instructions.collect();
        Fused { inputs: inputs.len(), instructions }
    }

    /// The output for operands broadcast to `output`, by the formulas of the draft.
    pub fn evaluate(&self, inputs: &[&Tensor], output: &Descriptor) -> Tensor {
        let operands: Vec<Tensor> = inputs.iter().map(|input| input.broadcast(&output.sizes())).collect();
        Tensor::from_fn(output, |index| {
            let mut registers: Vec<Number> = operands.iter().map(|operand| operand.at(index)).collect();
            for Instruction { op, operands, dtype } in &self.instructions {
                let at = |i: usize| operands.get(i).map_or(Number::Int(0), |&register| registers[register]);
                registers.push(op.eval(&[at(0), at(1), at(2)], *dtype));
            }
            registers[registers.len() - 1]
        })
    }
}

impl Operator for Fused {
    fn rule(&self) -> &'static OpRule {
        const RULE: OpRule = OpRule {
            name: "fused",
            operands: &[variadic("inputs", ANY, ANY_RANK)],
            outputs: &[output("output", ANY, ANY_RANK)],
        };
        &RULE
    }

    fn write(&self, attributes: &mut Attributes) {
        attributes.0.insert("program".to_string(), Attribute::Texts(self.texts()));
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let shape = inputs.iter().flatten().try_fold(Vec::new(), |shape, input| broadcast(&shape, &input.shape));
        Ok(vec![Descriptor::new(self.output_type(), shape.expect("the parts were broadcastable"))])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let operands: Vec<&Tensor> = inputs.iter().flatten().copied().collect();
        vec![self.evaluate(&operands, &outputs[0])]
    }
}
