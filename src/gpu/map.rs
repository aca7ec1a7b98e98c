//! Kernels that compute every element of their output on its own, with a function of its index. One source serves all
//! data types: [`Dialect`](super::dialect::Dialect) packs elements into words.

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
    /// The name of the function that returns its elements.
    pub name: &'static str,
    /// The binding.
    pub bound: Bound,
    /// The type of its elements.
    pub dtype: DataType,
}

/// An element-wise program to apply to every result.
pub struct BoundEpilogue<'a> {
    /// The program; its operand 0 is the result.
    pub program: &'a Fused,
    /// The other operands: their bindings and descriptors.
    pub operands: Vec<(Bound, &'a Descriptor)>,
}

/// How the invocations of a kernel share its work.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// An invocation computes the elements of one word, each with the function `value(i: u32)`.
    Words,
    /// An invocation computes the elements of one word; elements for which the function `covers(i: u32) -> bool` is
    /// false keep their old values.
    MaskedWords,
    /// Like [`Words`](Entry::Words), for `count` elements from element `first` on; all others keep their old values.
    Part {
        /// The first element.
        first: u32,
        /// Number of elements.
        count: u32,
    },
    /// The source has an entry point of its own, which calls `store(i, follow(x, i))` for each element, and is launched
    /// with this number of workgroups. Each word of the output holds one element.
    Own {
        /// Number of workgroups.
        workgroups: u32,
        /// The value of `immediates.elements`.
        elements: u32,
    },
}

/// Float tensors to bind as vectors of four elements; their sizes and strides must be multiples of four.
#[derive(Clone, Debug, Default)]
pub struct Wide {
    /// Names of inputs; see [`Dialect::readable_four`].
    pub inputs: Vec<&'static str>,
    /// Whether the output is bound as vectors, for a kernel with an [entry point of its own](Entry::Own).
    pub output: bool,
}

/// A kernel that computes the elements of one tensor.
pub struct Map<'a> {
    /// Name, for people.
    pub name: &'static str,
    /// The tensors to read.
    pub inputs: Vec<Readable>,
    /// The tensor to write.
    pub output: Bound,
    /// Data type and shape of the output.
    pub descriptor: &'a Descriptor,
    /// The functions of the kernel.
    pub functions: String,
    /// The numbers that these functions read.
    pub parameters: Parameters,
    /// How invocations share the work.
    pub entry: Entry,
    /// The tensors to bind as vectors.
    pub wide: Wide,
    /// The program to apply to each element.
    pub epilogue: Option<BoundEpilogue<'a>>,
}

impl Map<'_> {
    /// Turns this kernel into a launch of `l`.
    pub fn dispatch(mut self, l: &Lowering) -> Dispatch {
        let dialect = l.dialect;
        let mut text = header(dialect).to_string();
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
                let end = format!("(immediates.elements + {}u) / {lanes}u", lanes - 1);
                let writes = dialect.writable(binding, dtype, masked) + &main("0u", &end, each);
                (writes, elements, words.div_ceil(WORKGROUP * each))
            }
            Entry::Part { first, count } => {
                let end = first + count;
                // Other elements in the words at the edges.
                let masked = first % lanes != 0 || end % lanes != 0 && end != elements;
                let words = end.div_ceil(lanes) - first / lanes;
                let each = words_each(words, masked);
                let at = self.parameters.extend([first, end, first / lanes, end.div_ceil(lanes)]);
                let [first, end, first_word, end_word] =
                    [0, 1, 2, 3].map(|index| format!("parameter({}u)", at + index));
                if masked {
                    text.push_str(&format!("fn covers(i: u32) -> bool {{ return {first} <= i && i < {end}; }}\n"));
                }
                let writes = dialect.writable(binding, dtype, masked) + &main(&first_word, &end_word, each);
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

    /// The function `follow(x, i)`, which applies the epilogue to the result `x` of element `i`. Declares and binds its
    /// operands.
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

/// From this number of words on, an invocation computes several, to have several reads in flight. Below, a large device
/// (some 130 multiprocessors with 2048 invocations each) would not be fully occupied.
const MANY_WORDS: u32 = 1 << 20;

/// The words per invocation in that case, a workgroup's width apart: neighboring invocations access neighboring words.
const WORDS: u32 = 4;

/// Number of words per invocation, for this number of words in all. Masked words are read, changed and written one at a
/// time.
fn words_each(words: u32, masked: bool) -> u32 {
    if words >= MANY_WORDS && !masked { WORDS } else { 1 }
}

/// The entry point; each invocation computes `each` of the output's words from `start` up to `end`.
fn main(start: &str, end: &str, each: u32) -> String {
    let words = match each {
        1 => "  if (first < words) { store_word(first); }\n".to_string(),
        // Computes all before writing the first: compilers must not move reads ahead of writes.
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
  let words = {end};
  let first = {start} + (group.y * groups.x + group.x) * {}u + local;
{words}}}
",
        WORKGROUP * each
    )
}

/// The expression for the element of the tensor `name`, of shape `from`, that is broadcast to element `i` of shape
/// `to`.
pub fn read_broadcast(parameters: &mut Parameters, name: &str, from: &[u32], to: &[u32]) -> String {
    format!("{name}({})", spread(parameters, from, to, Divisors::Parameters))
}

/// Where a kernel finds its divisors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisors {
    /// Among its parameters: shapes share a kernel. Only powers of two, which are few, are in the text.
    Parameters,
    /// In the text: division by a constant compiles to a multiplication, division by a variable to some twenty
    /// instructions.
    Text,
}

/// The expression for the place, in a tensor of shape `from`, of the element that is broadcast to element `i` of shape
/// `to`. Elements repeat along dimensions that `from` lacks, and in blocks along dimensions that are smaller in `from`.
pub fn spread(parameters: &mut Parameters, from: &[u32], to: &[u32], divisors: Divisors) -> String {
    let padding = to.len() - from.len();
    let own = strides(from);
    // Splits each dimension into blocks and the elements of a block: the tensor repeats along the latter.
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
    // All of the tensor's dimensions precede the repeated ones.
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

/// Appends the parameters of the function `strided(first, i)` of `index.wgsl`, which returns the place of element `i`
/// of a tensor with this shape and these strides, in elements. Merges adjacent dimensions where possible.
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
    fn places_of_repeated_elements() {
        let known = |from: &[u32], to: &[u32]| place(from, to, Divisors::Text).0;
        assert_eq!(known(&[], &[2, 3]), "0u");
        assert_eq!(known(&[1, 1], &[2, 3]), "0u");
        assert_eq!(known(&[2, 3], &[2, 3]), "i");
        assert_eq!(known(&[3], &[2, 3]), "i % 3u");
        assert_eq!(known(&[2, 1], &[2, 3]), "i / 3u");
        assert_eq!(known(&[5, 1, 1], &[2, 5, 3, 7]), "i / 21u % 5u");
        // A block-wise scale, and one that repeats twice.
        assert_eq!(known(&[4, 2], &[4, 64]), "i / 32u");
        assert_eq!(known(&[2, 3], &[4, 6]), "strided(0u, i)");
        assert_eq!(known(&[2, 1, 3], &[2, 5, 3]), "strided(0u, i)");
    }

    #[test]
    fn shapes_share_a_kernel_unless_its_text_holds_them() {
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
