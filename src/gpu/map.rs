//! Kernels that compute every element of their output on its own, with a function of its index. The same text does for
//! all data types: how elements are packed into words is the [`Dialect`](super::dialect::Dialect)'s.

use super::dialect::Dialect;
use super::kernel::{Bound, Dispatch, Parameters, WORKGROUP, grid, header};
use super::lower::Lowering;
use super::prologue::declare;
use super::scalar::Scalars;
use crate::dtype::DataType;
use crate::ops::fused::Fused;
use crate::shape::{Descriptor, strides};

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
pub struct BoundEpilogue<'a> {
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
    pub epilogue: Option<BoundEpilogue<'a>>,
}

impl Map<'_> {
    /// The launch of this kernel, which is one of those of `l`.
    pub fn dispatch(mut self, l: &Lowering) -> Dispatch {
        let dialect = l.dialect;
        let mut text = header(dialect);
        let mut bindings = Vec::new();
        for input in &self.inputs {
            let is_wide = self.wide.inputs.contains(&input.name);
            text.push_str(&declare(l, input, is_wide, &mut bindings, &mut self.parameters));
        }
        let follow = self.follow(dialect, &mut text, &mut bindings);
        bindings.push(self.output);
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
                let words = elements.div_ceil(lanes);
                let each = words_each(words, masked);
                let writes = dialect.writable(binding, dtype, masked) + &main(lanes, each);
                (writes, elements, words.div_ceil(WORKGROUP * each))
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
        let Some(BoundEpilogue { program, operands }) = &self.epilogue else {
            return "fn follow(x: output_value, i: u32) -> output_value { return x; }\n".to_string();
        };
        let (mut reads, mut types) = (vec!["x".to_string()], vec![self.descriptor.dtype]);
        for (index, (bound, descriptor)) in operands.iter().enumerate() {
            let name = format!("operand{}", index + 1);
            bindings.push(*bound);
            text.push_str(&dialect.readable(bindings.len() as u32, &name, descriptor.dtype));
            reads.push(read_broadcast(&mut self.parameters, &name, &descriptor.sizes(), &self.descriptor.sizes()));
            types.push(descriptor.dtype);
        }
        let (lines, result) = Scalars { dialect, parameters: &mut self.parameters }.program(program, &reads, &types);
        format!("fn follow(x: output_value, i: u32) -> output_value {{\n{lines}  return {result};\n}}\n")
    }
}

/// Words from which on an invocation computes several, so that it has several reads on their way. Below, a large device
/// (some 130 multiprocessors with 2048 invocations each) would not be full.
const MANY_WORDS: u32 = 1 << 20;

/// Words that an invocation computes then, at distances of a workgroup: neighbours read and write what lies side by side.
const WORDS: u32 = 4;

/// Number of words that each invocation computes for so many words in all. Those that are masked are read, changed and
/// written one after the other.
fn words_each(words: u32, masked: bool) -> u32 {
    if words >= MANY_WORDS && !masked { WORDS } else { 1 }
}

/// The entry point, whose invocations compute `each` words of the output.
fn main(lanes: u32, each: u32) -> String {
    let words = match each {
        1 => "  if (first < words) { store_word(first); }\n".to_string(),
        // All are computed before the first one is written: reads must not be moved in front of writes.
        _ => {
            let place = |j: u32| format!("first + {}u", j * WORKGROUP);
            let computed = (0..each).map(|j| format!("  let word{j} = word(min({}, words - 1u));\n", place(j)));
            let stored =
                (0..each).map(|j| format!("  if ({0} < words) {{ output_words[{0}] = word{j}; }}\n", place(j)));
            computed.chain(stored).collect()
        }
    };
    format!(
        "fn compute(i: u32) -> output_value {{ return follow(value(i), i); }}
@compute @workgroup_size({WORKGROUP})
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {{
  let words = (immediates.elements + {}u) / {lanes}u;
  let first = (group.y * groups.x + group.x) * {}u + local;
{words}}}
",
        lanes - 1,
        WORKGROUP * each
    )
}

/// The expression for the element of the tensor `name`, of the shape `from`, that the element `i` of the shape `to` is
/// computed of.
pub fn read_broadcast(parameters: &mut Parameters, name: &str, from: &[u32], to: &[u32]) -> String {
    format!("{name}({})", spread(parameters, from, to, Divisors::Parameters))
}

/// Where a kernel has the numbers from that it divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisors {
    /// Among its parameters, so that shapes share a kernel; only powers of two, of which there are few, are in its text.
    Parameters,
    /// In its text: a division by a number that the compiler knows costs a multiplication, one by another number some
    /// twenty instructions.
    Text,
}

/// The expression for the place of the element, of a tensor of the shape `from`, that stands for the element `i` of the
/// shape `to`: elements repeat along dimensions that `from` does not have, and over blocks of those that it has less of.
pub fn spread(parameters: &mut Parameters, from: &[u32], to: &[u32], divisors: Divisors) -> String {
    let padding = to.len() - from.len();
    let own = strides(from);
    // Each dimension is seen as two, blocks and elements of a block: the tensor repeats over the second.
    let axes = to.iter().enumerate().flat_map(|(axis, &size)| match axis.checked_sub(padding) {
        None => [(1, 0), (size, 0)],
        Some(axis) => [(from[axis], own[axis] as isize), (size / from[axis], 0)],
    });
    let axes: Vec<(u32, isize)> = axes.filter(|(size, _)| *size != 1).collect();
    let leading = axes.iter().take_while(|(_, stride)| *stride == 0).count();
    let (elements, repeats): (Vec<_>, Vec<_>) = axes[leading..].iter().partition(|(_, stride)| *stride != 0);
    let product = |axes: &[&(u32, isize)]| axes.iter().map(|(size, _)| size).product::<u32>();
    let (elements, repeats) = (product(&elements), product(&repeats));
    if elements == 1 {
        return "0u".to_string();
    }
    // All that the tensor has lies in front of what repeats.
    if !axes[leading..].is_sorted_by_key(|(_, stride)| *stride == 0) {
        let (sizes, steps): (Vec<u32>, Vec<isize>) = axes.into_iter().unzip();
        return format!("strided({}u, i)", strided(parameters, &sizes, &steps, 0));
    }
    let mut divisor = |number: u32| match number.is_power_of_two() || divisors == Divisors::Text {
        true => format!("{number}u"),
        false => format!("parameter({}u)", parameters.push(number)),
    };
    let quotient = if repeats == 1 { "i".to_string() } else { format!("i / {}", divisor(repeats)) };
    if leading == 0 { quotient } else { format!("{quotient} % {}", divisor(elements)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(from: &[u32], to: &[u32], divisors: Divisors) -> (String, Vec<u32>) {
        let mut parameters = Parameters::default();
        (spread(&mut parameters, from, to, divisors), parameters.0)
    }

    #[test]
    fn places_of_what_repeats() {
        let known = |from: &[u32], to: &[u32]| place(from, to, Divisors::Text).0;
        assert_eq!(known(&[], &[2, 3]), "0u");
        assert_eq!(known(&[1, 1], &[2, 3]), "0u");
        assert_eq!(known(&[2, 3], &[2, 3]), "i");
        assert_eq!(known(&[3], &[2, 3]), "i % 3u");
        assert_eq!(known(&[2, 1], &[2, 3]), "i / 3u");
        assert_eq!(known(&[5, 1, 1], &[2, 5, 3, 7]), "i / 21u % 5u");
        // A scale of blocks, and one that repeats twice.
        assert_eq!(known(&[4, 2], &[4, 64]), "i / 32u");
        assert_eq!(known(&[2, 3], &[4, 6]), "strided(0u, i)");
        assert_eq!(known(&[2, 1, 3], &[2, 5, 3]), "strided(0u, i)");
    }

    #[test]
    fn shapes_share_a_kernel_unless_they_are_to_be_in_its_text() {
        assert_eq!(place(&[6], &[5, 6], Divisors::Parameters), ("i % parameter(0u)".to_string(), vec![6]));
        assert_eq!(place(&[8], &[5, 8], Divisors::Parameters), ("i % 8u".to_string(), vec![]));
    }

    #[test]
    fn many_words_are_computed_by_few_invocations() {
        assert_eq!(words_each(MANY_WORDS - 1, false), 1);
        assert_eq!(words_each(MANY_WORDS, false), WORDS);
        assert_eq!(words_each(MANY_WORDS, true), 1);
    }
}
