//! Kernels that compute every element of their output on its own, with a function of its index. The same text does for
//! all data types: how elements are packed into words is the [`Dialect`](super::dialect::Dialect)'s.

use super::dialect::Dialect;
use super::kernel::{Bound, Dispatch, Parameters, WORKGROUP, grid, header};
use super::scalar::Scalars;
use crate::dtype::DataType;
use crate::ops::fused::Fused;
use crate::shape::{Descriptor, broadcast_strides};

/// A tensor that a kernel reads.
#[derive(Clone, Copy, Debug)]
pub struct Readable {
    /// The name of the function that gives its elements.
    pub name: &'static str,
    /// What is bound.
    pub bound: Bound,
    /// The type of its elements.
    pub dtype: DataType,
}

/// Tensors that are applied to every result, element by element.
pub struct Epilogue<'a> {
    /// What is computed; operand 0 is the result.
    pub program: &'a Fused,
    /// The other operands: what they are, and their descriptors.
    pub operands: Vec<(Bound, &'a Descriptor)>,
}

/// A kernel that computes each element on its own.
pub struct Map<'a> {
    /// For people.
    pub name: &'static str,
    /// What is read.
    pub inputs: Vec<Readable>,
    /// What is written.
    pub output: Bound,
    /// Type and shape of what is written.
    pub descriptor: &'a Descriptor,
    /// The functions of the kernel. One is `value(i: u32)`, which gives the element `i`.
    pub functions: String,
    /// The numbers that these functions read.
    pub parameters: Parameters,
    /// Whether there is a function `covers(i: u32) -> bool`; the elements that it denies stay as they are.
    pub masked: bool,
    /// What is applied to each element.
    pub epilogue: Option<Epilogue<'a>>,
}

impl Map<'_> {
    /// The launch of this kernel.
    pub fn dispatch(mut self, dialect: Dialect) -> Dispatch {
        let mut text = header(dialect);
        let mut bindings = Vec::new();
        let mut readable = |text: &mut String, name: &str, bound: Bound, dtype: DataType| {
            bindings.push(bound);
            text.push_str(&dialect.readable(bindings.len() as u32, name, dtype));
        };
        for input in &self.inputs {
            readable(&mut text, input.name, input.bound, input.dtype);
        }
        let mut compute = "fn compute(i: u32) -> output_value { return value(i); }\n".to_string();
        if let Some(Epilogue { program, operands }) = &self.epilogue {
            let (mut reads, mut types) = (vec!["value(i)".to_string()], vec![self.descriptor.dtype]);
            for (index, (bound, descriptor)) in operands.iter().enumerate() {
                let name = format!("operand{}", index + 1);
                readable(&mut text, &name, *bound, descriptor.dtype);
                reads.push(read_broadcast(&mut self.parameters, &name, &descriptor.shape, &self.descriptor.shape));
                types.push(descriptor.dtype);
            }
            let (lines, result) =
                Scalars { dialect, parameters: &mut self.parameters }.program(program, &reads, &types);
            compute = format!("fn compute(i: u32) -> output_value {{\n{lines}  return {result};\n}}\n");
        }
        bindings.push(self.output);
        let dtype = self.descriptor.dtype;
        text.push_str(include_str!("shaders/index.wgsl"));
        text.push_str(&self.functions);
        text.push_str(&compute);
        text.push_str(&dialect.writable(bindings.len() as u32, dtype, self.masked));
        let lanes = dialect.lanes(dtype);
        text.push_str(&main(lanes));
        let elements = self.descriptor.elements() as u32;
        Dispatch {
            name: self.name,
            source: text,
            bindings,
            parameters: self.parameters,
            elements,
            workgroups: grid(elements.div_ceil(lanes).div_ceil(WORKGROUP)),
        }
    }
}

/// The entry point: one invocation per word of the output.
fn main(lanes: u32) -> String {
    format!(
        "@compute @workgroup_size({WORKGROUP})
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {{
  let w = (group.y * groups.x + group.x) * {WORKGROUP}u + local;
  if (w < (immediates.elements + {}u) / {lanes}u) {{ store_word(w); }}
}}
",
        lanes - 1
    )
}

/// The expression for the element of the tensor `name`, of the shape `from`, that the element `i` of the shape `to` is
/// computed of.
pub fn read_broadcast(parameters: &mut Parameters, name: &str, from: &[u32], to: &[u32]) -> String {
    if from.iter().product::<u32>() == 1 {
        return format!("{name}(0u)");
    }
    if from.iter().product::<u32>() == to.iter().product::<u32>() {
        return format!("{name}(i)");
    }
    let strides: Vec<isize> = broadcast_strides(from, to).into_iter().map(|stride| stride as isize).collect();
    let first = strided(parameters, to, &strides, 0);
    format!("{name}(strided({first}u, i))")
}

/// The parameters of the function `strided(first, i)` of `index.wgsl`: where the element `i` of a tensor of this shape
/// lies with these strides, in elements. Dimensions that lie one after the other become one.
pub fn strided(parameters: &mut Parameters, shape: &[u32], strides: &[isize], offset: usize) -> u32 {
    let mut merged: Vec<(u32, isize)> = Vec::new();
    for (&size, &stride) in shape.iter().zip(strides).filter(|(size, _)| **size != 1) {
        match merged.last_mut() {
            Some((outer, outer_stride)) if *outer_stride == stride * size as isize => {
                *outer *= size;
                *outer_stride = stride;
            }
            _ => merged.push((size, stride)),
        }
    }
    let first = parameters.extend([merged.len() as u32, offset as u32]);
    for (size, stride) in merged.into_iter().rev() {
        parameters.extend([size, stride as i32 as u32]);
    }
    first
}
