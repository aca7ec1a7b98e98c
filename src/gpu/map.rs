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

/// How the invocations of a kernel share its work.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// One invocation computes the elements of a word, each with the function `value(i: u32)`.
    Words,
    /// One invocation computes the elements of a word; those that the function `covers(i: u32) -> bool` denies stay as
    /// they are.
    MaskedWords,
    /// The text has an entry point of its own, which calls `store(i, follow(x, i))` for each element, and is launched with
    /// so many workgroups. The words of the output hold one element.
    Own {
        /// Number of workgroups.
        workgroups: u32,
        /// What `immediates.elements` is.
        elements: u32,
    },
}

/// Tensors of floats that are bound as vectors of four elements, which their sizes and strides have to be multiples of.
#[derive(Clone, Debug, Default)]
pub struct Wide {
    /// Names of inputs; see [`Dialect::readable_four`].
    pub inputs: Vec<&'static str>,
    /// Whether the output is, of a kernel with an [entry point of its own](Entry::Own).
    pub output: bool,
}

/// A kernel that computes the elements of one tensor.
pub struct Map<'a> {
    /// For people.
    pub name: &'static str,
    /// What is read.
    pub inputs: Vec<Readable>,
    /// What is written.
    pub output: Bound,
    /// Type and shape of what is written.
    pub descriptor: &'a Descriptor,
    /// The functions of the kernel.
    pub functions: String,
    /// The numbers that these functions read.
    pub parameters: Parameters,
    /// Who computes what.
    pub entry: Entry,
    /// What is bound as vectors.
    pub wide: Wide,
    /// What is applied to each element.
    pub epilogue: Option<Epilogue<'a>>,
}

impl Map<'_> {
    /// The launch of this kernel.
    pub fn dispatch(mut self, dialect: Dialect) -> Dispatch {
        let mut text = header(dialect);
        let mut bindings = Vec::new();
        for input in &self.inputs {
            bindings.push(input.bound);
            let declare =
                if self.wide.inputs.contains(&input.name) { Dialect::readable_four } else { Dialect::readable };
            text.push_str(&declare(dialect, bindings.len() as u32, input.name, input.dtype));
        }
        let follow = self.follow(dialect, &mut text, &mut bindings);
        bindings.push(self.output);
        text.push_str(include_str!("shaders/index.wgsl"));
        text.push_str(&self.functions);
        text.push_str(&follow);
        let (dtype, elements) = (self.descriptor.dtype, self.descriptor.elements() as u32);
        let lanes = dialect.lanes(dtype);
        let binding = bindings.len() as u32;
        let (writes, elements, workgroups) = match self.entry {
            Entry::Own { workgroups, elements } => {
                let declare = if self.wide.output { Dialect::storable_four } else { Dialect::storable };
                (declare(dialect, binding, dtype), elements, workgroups)
            }
            Entry::Words | Entry::MaskedWords => {
                let masked = matches!(self.entry, Entry::MaskedWords);
                let writes = dialect.writable(binding, dtype, masked) + &main(lanes);
                (writes, elements, elements.div_ceil(lanes).div_ceil(WORKGROUP))
            }
        };
        text.push_str(&writes);
        Dispatch {
            name: self.name,
            source: text,
            bindings,
            parameters: self.parameters,
            elements,
            workgroups: grid(workgroups),
        }
    }

    /// The function `follow(x, i)`: what becomes of the result `x` for the element `i`. Declares and binds what it reads.
    fn follow(&mut self, dialect: Dialect, text: &mut String, bindings: &mut Vec<Bound>) -> String {
        let Some(Epilogue { program, operands }) = &self.epilogue else {
            return "fn follow(x: output_value, i: u32) -> output_value { return x; }\n".to_string();
        };
        let (mut reads, mut types) = (vec!["x".to_string()], vec![self.descriptor.dtype]);
        for (index, (bound, descriptor)) in operands.iter().enumerate() {
            let name = format!("operand{}", index + 1);
            bindings.push(*bound);
            text.push_str(&dialect.readable(bindings.len() as u32, &name, descriptor.dtype));
            reads.push(read_broadcast(&mut self.parameters, &name, &descriptor.shape, &self.descriptor.shape));
            types.push(descriptor.dtype);
        }
        let (lines, result) = Scalars { dialect, parameters: &mut self.parameters }.program(program, &reads, &types);
        format!("fn follow(x: output_value, i: u32) -> output_value {{\n{lines}  return {result};\n}}\n")
    }
}

/// The entry point: one invocation per word of the output.
fn main(lanes: u32) -> String {
    format!(
        "fn compute(i: u32) -> output_value {{ return follow(value(i), i); }}
@compute @workgroup_size({WORKGROUP})
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
