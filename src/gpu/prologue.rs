//! Operands as kernels read them: tensors, or values that a prologue computes from tensors.

use super::dialect::Dialect;
use super::kernel::{Bound, Parameters};
use super::lower::Lowering;
use super::map::{Divisors, Readable, spread};
use super::scalar::Scalars;
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::ir::{Prologue, Storage};
use crate::shape::{Descriptor, elements};

/// Declares the function `name(i)`, which returns element `i` of an operand, and appends the operand's bindings. If
/// `wide`, declares the functions that return four elements at once instead, see [`Dialect::readable_four`].
pub fn declare(
    l: &Lowering,
    readable: &Readable,
    wide: bool,
    bindings: &mut Vec<Bound>,
    parameters: &mut Parameters,
) -> String {
    let prologue = match readable.bound {
        Bound::Input(index) => l.prologue(index),
        _ => None,
    };
    let Some((prologue, operands)) = prologue else {
        bindings.push(readable.bound);
        let declare = if wide { Dialect::readable_four } else { Dialect::readable };
        return declare(l.dialect, bindings.len() as u32, readable.name, readable.dtype);
    };
    computed(l, readable.name, (prologue, &operands), bindings, parameters)
}

/// An operand of a prologue, in WGSL.
struct Read {
    /// The name of the function that returns an element.
    name: String,
    /// The places of the elements that elements `i` and `i + NEXT` of the result are computed from.
    places: [String; 2],
    /// Whether four neighboring elements, starting at a multiple of four, are computed from the same element.
    is_shared: bool,
    /// The WGSL type of a value.
    value: &'static str,
    /// If a word of integers holds several elements: bits per element, and whether they are signed.
    packed: Option<(u32, bool)>,
}

/// Declares the functions that compute an operand: `name(i)`, and `name_four(i)` for the four elements from `4 i` on,
/// which reads shared elements once. With the type `f16`, `name_halves(i)` returns float16 values without conversion.
fn computed(
    l: &Lowering,
    name: &str,
    (prologue, operands): (&Prologue, &[(Bound, &Descriptor)]),
    bindings: &mut Vec<Bound>,
    parameters: &mut Parameters,
) -> String {
    let dialect = l.dialect;
    let mut text = String::new();
    let mut reads = Vec::new();
    // Sizes of weights are always the same. Others may change with each token of a text, which must not compile a kernel.
    let divisors = if l.is_constant(operands[0].0) { Divisors::Text } else { Divisors::Parameters };
    for (index, (bound, descriptor)) in operands.iter().enumerate() {
        let own = format!("{name}_{index}");
        bindings.push(*bound);
        let binding = bindings.len() as u32;
        let is_packed = index == 0 && prologue.storage == Storage::Nibbles;
        let whole = numbers(&prologue.shape);
        let shape: &[u32] = if is_packed { &whole } else { &descriptor.sizes() };
        text += &match is_packed {
            true => dialect.readable_nibbles(binding, &own, descriptor.dtype),
            false => dialect.readable(binding, &own, descriptor.dtype),
        };
        let place = spread(parameters, shape, &whole, divisors);
        let next = match place.strip_suffix(", i)") {
            Some(call) => format!("{call}, i + NEXT)"),
            None => place.replacen('i', "(i + NEXT)", 1),
        };
        let value = dialect.value(descriptor.dtype);
        let packed = match descriptor.dtype {
            DataType::Int8 | DataType::Uint8 => {
                Some((if is_packed { 4 } else { 8 }, descriptor.dtype == DataType::Int8))
            }
            _ => None,
        };
        let is_shared = is_shared(shape, &whole);
        reads.push(Read { name: own, places: [place, next], is_shared, value, packed });
    }
    let types: Vec<_> = operands.iter().map(|(_, descriptor)| descriptor.dtype).collect();
    let registers: Vec<String> = (0..reads.len()).map(|index| format!("x{index}")).collect();
    let (lines, result) = Scalars { dialect, parameters }.program(&prologue.program, &registers, &types);
    let value = dialect.value(prologue.descriptor.dtype);
    let given: Vec<String> =
        reads.iter().enumerate().map(|(index, read)| format!("x{index}: {}", read.value)).collect();
    let one: Vec<String> = reads.iter().map(|read| format!("{}({})", read.name, read.places[0])).collect();
    text += &format!(
        "alias {name}_value = {value};
fn {name}_of({}) -> {value} {{
{lines}  return {result};
}}
fn {name}(i: u32) -> {value} {{ return {name}_of({}); }}
",
        given.join(", "),
        one.join(", ")
    );
    text + &four(dialect, name, prologue.descriptor.dtype, &reads)
}

/// The functions `name_four(i)` and `name_halves(i)`.
fn four(dialect: Dialect, name: &str, dtype: DataType, reads: &[Read]) -> String {
    if !dtype.is_float() {
        return String::new();
    }
    let mut lines = String::new();
    let mut own = Vec::new();
    for (index, Read { name, places: [place, next], is_shared, packed, .. }) in reads.iter().enumerate() {
        if *is_shared {
            lines += &format!("  let x{index} = {name}({place});\n");
            own.push([(); 4].map(|()| format!("x{index}")));
        } else if let Some((bits, signed)) = packed.filter(|_| place == "i") {
            // The word that holds all four.
            let (word, first) = if bits == 4 { ("quarter >> 1u", "((quarter & 1u) << 4u)") } else { ("quarter", "0u") };
            let word = format!("{name}_words[{word}]");
            let word = if signed { format!("bitcast<i32>({word})") } else { word };
            lines += &format!("  let x{index}_word = {word};\n");
            own.push([0, 1, 2, 3].map(|j| format!("extractBits(x{index}_word, {first} + {}u, {bits}u)", j * bits)));
        } else {
            let element =
                |j: u32| format!("  let x{index}_{j} = {name}({});\n", next.replace("NEXT", &format!("{j}u")));
            lines += &(0..4).map(element).collect::<String>();
            own.push([0, 1, 2, 3].map(|j| format!("x{index}_{j}")));
        }
    }
    let elements: Vec<String> = (0..4)
        .map(|j| {
            let given: Vec<&str> = own.iter().map(|names| names[j].as_str()).collect();
            format!("{name}_of({})", given.join(", "))
        })
        .collect();
    let four = format!(
        "fn {name}_four(quarter: u32) -> vec4<f32> {{
  let i = quarter * 4u;
{lines}  return vec4<f32>({});
}}
",
        elements.join(", ")
    );
    match dialect.f16 && dtype == DataType::Float16 {
        true => four + &format!("fn {name}_halves(i: u32) -> vec4<f16> {{ return vec4<f16>({name}_four(i)); }}\n"),
        false => four,
    }
}

/// Whether each element of a tensor of shape `from` is broadcast to at least four neighbors of shape `to`.
fn is_shared(from: &[u32], to: &[u32]) -> bool {
    // The tensor repeats along the last dimensions, and in blocks along the one in front of them.
    let mut repeats = 1;
    for (index, &size) in to.iter().rev().enumerate() {
        let own = from.len().checked_sub(index + 1).map_or(1, |axis| from[axis]);
        repeats *= size / own;
        if own != 1 {
            break;
        }
    }
    repeats.is_multiple_of(4) || elements(from) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_neighbors_share_an_element() {
        assert!(is_shared(&[], &[3, 5]) && is_shared(&[1, 1], &[3, 5]));
        assert!(is_shared(&[3, 1], &[3, 8]) && is_shared(&[3, 2], &[3, 8]) && is_shared(&[3, 1, 1], &[3, 2, 6]));
        assert!(!is_shared(&[3, 1], &[3, 6]) && !is_shared(&[3, 8], &[3, 8]) && !is_shared(&[3, 4], &[3, 8]));
        assert!(!is_shared(&[1, 4], &[8, 4]));
    }
}
