//! Weights of 1 to 8 bits with one scale per block.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::amount;
use crate::ir::OperandId;
use crate::ir::{FileType, SmallFloat};
use crate::nibbles::packed;
use crate::onnx::call::{Call, Step};
use crate::onnx::constants::Conversion;
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::ops::product::with_matrices;
use crate::onnx::registry::{Entry, Outcome, microsoft};
use crate::onnx::tensor::ElementType;
use crate::ops::matmul::{Gemm, GemmAttributes};
use crate::ops::pad::Pad;
use crate::ops::quantize::Quantize;
use crate::shape::Descriptor;
use std::borrow::Cow;

/// The number of bits of a quantized weight.
fn bits(call: &Call) -> Step<u32> {
    match call.int_or("bits", 4) {
        bits @ (1 | 2 | 4 | 8) => Ok(bits as u32),
        other => Err(Refusal(format!("bits is {other}, expected 1, 2, 4 or 8"))),
    }
}

/// The attribute `block_size`.
pub(super) fn block_size(call: &Call, default: i64) -> Step<u32> {
    let given = call.int_or("block_size", default);
    let size = u32::try_from(given).ok().filter(|size| *size >= 16 && size.is_power_of_two());
    size.ok_or_else(|| Refusal(format!("block_size is {given}, expected a power of two from 16 on")))
}

/// Unpacks the numbers in `bytes`, `8 / bits` per byte, from the lowest bits up.
pub(super) fn unpacked(bytes: &[u8], bits: u32) -> Vec<u8> {
    let mask = (0xff_u8) >> (8 - bits);
    bytes.iter().flat_map(|byte| (0..8).step_by(bits as usize).map(move |shift| byte >> shift & mask)).collect()
}

/// A positive integer attribute.
fn positive(call: &Call, name: &str) -> Step<u32> {
    let value = call.int_attribute(name).ok_or_else(|| Refusal(format!("{name} is missing")))?;
    let valid = u32::try_from(value).ok().filter(|&value| value > 0);
    valid.ok_or_else(|| Refusal(format!("{name} is {value}, expected a positive number")))
}

// ---- MatMulNBits -------------------------------------------------------------------------------------------------

/// The sizes of a matrix `[n, k]`, divided into blocks along its rows.
struct Blocks {
    n: u32,
    k: u32,
    size: u32,
    count: u32,
    bits: u32,
}

impl Blocks {
    /// The type of the numbers in the graph: those of 1 and 2 bits are widened to 4 bits.
    fn dtype(&self) -> DataType {
        if self.bits == 8 { DataType::Uint8 } else { DataType::Uint4 }
    }

    /// A constant with the same number everywhere.
    fn same(&self, call: &mut Call, shape: [u32; 3], number: u8) -> Step<OperandId> {
        let byte = if self.bits == 8 { number } else { number | number << 4 };
        call.same(Descriptor::new(self.dtype(), shape), byte)
    }

    /// A constant with these numbers.
    fn constant(&self, call: &mut Call, shape: [u32; 3], numbers: &[u8]) -> Step<OperandId> {
        let bytes = if self.bits == 8 { Cow::Borrowed(numbers) } else { Cow::Owned(packed(numbers)) };
        call.constant_from_bytes(Descriptor::new(self.dtype(), shape), &bytes)
    }
}

/// The zero points, one per block, of type `uint8` or the scales' type.
fn zero_points(call: &mut Call, blocks: &Blocks) -> Step<OperandId> {
    let shape = shape_of_scales(blocks);
    let Some(given) = call.optional(3)? else {
        return blocks.same(call, shape, 1 << (blocks.bits - 1));
    };
    if call.dtype(given) != DataType::Uint8 {
        return call.reshape(given, &shape);
    }
    let row = (blocks.count * blocks.bits).div_ceil(8);
    let packed = call.constant_as(3, "zero_points", Descriptor::new(DataType::Uint8, [blocks.n, row]))?;
    let packed = call.bytes_of(packed)?;
    call.take_room(2 * packed.len() * 8 / blocks.bits as usize)?;
    let rows = packed.bytes().chunks(row as usize).map(|row| unpacked(row, blocks.bits));
    let numbers: Vec<u8> = rows.flat_map(|row| row.into_iter().take(blocks.count as usize)).collect();
    blocks.constant(call, shape, &numbers)
}

/// The weights `[n, k]`.
fn weights(call: &mut Call, blocks: &Blocks) -> Step<OperandId> {
    let Blocks { n, k, size, count, bits } = *blocks;
    let shape = [n, count, size];
    let weights = match bits {
        1 | 2 => {
            let given = call.constant_as(1, "B", Descriptor::new(DataType::Uint8, [n, count, size * bits / 8]))?;
            let given = call.bytes_of(given)?;
            call.take_room(2 * given.len() * 8 / bits as usize)?;
            blocks.constant(call, shape, &unpacked(given.bytes(), bits))?
        }
        _ => call.constant_as(1, "B", Descriptor::new(blocks.dtype(), shape))?,
    };
    let scales = call.input(2)?;
    let scales = call.reshape(scales, &[n, count, 1])?;
    let zero_points = zero_points(call, blocks)?;
    let floats = if call.dtype(zero_points) == blocks.dtype() {
        call.emit(Quantize::DequantizeLinear, &[weights, scales, zero_points])?
    } else {
        // As (numbers - zero points) * scales: zero points can be fractions.
        let one = call.scalar_like(scales, 1.0)?;
        let (one, none) = (call.expand(one, &[n, count, 1])?, blocks.same(call, shape_of_scales(blocks), 0)?);
        let numbers = call.emit(Quantize::DequantizeLinear, &[weights, one, none])?;
        let centered = call.sub(numbers, zero_points)?;
        call.mul(centered, scales)?
    };
    let rows = call.reshape(floats, &[n, count * size])?;
    call.slice_axis(rows, 1, 0, k)
}

fn shape_of_scales(blocks: &Blocks) -> [u32; 3] {
    [blocks.n, blocks.count, 1]
}

fn matmul_n_bits(call: &mut Call) -> Outcome {
    if call.value(4).is_some() {
        return Err("g_idx is given, which onnxruntime no longer supports".into());
    }
    if call.int_or("weight_prepacked", 0) != 0 {
        return Err("weight_prepacked is set, a layout for other devices".into());
    }
    let a = call.input(0)?;
    let (n, k, size) = (positive(call, "N")?, positive(call, "K")?, block_size(call, 0)?);
    let bits = bits(call)?;
    let b = weights(call, &Blocks { n, k, size, count: k.div_ceil(size), bits })?;
    let mut shape = call.shape(a);
    if shape.last() != Some(&Dim::from(k)) {
        return Err(Refusal(format!("A has shape {shape:?}, expected {k} columns")));
    }
    let rows = shape[..shape.len() - 1].iter().copied().product();
    let flat = call.reshape(a, &[rows, Dim::from(k)])?;
    // The minimum precision for A; 4 stands for 8-bit integers.
    let rounds_rows = call.int_or("accuracy_level", 0) == 4;
    let attributes = GemmAttributes { b_transpose: true, rounds_rows, ..Default::default() };
    let bias = call.optional(5)?;
    let product = call.emit_all(Gemm { attributes }, vec![Some(flat), Some(b), bias])?[0];
    *shape.last_mut().expect("checked") = n.into();
    let output = call.reshape(product, &shape);
    call.one(output)
}

// ---- MatMulBnb4 --------------------------------------------------------------------------------------------------

/// Weights of 4 bits, each the place of a number in a table, times the largest magnitude of a block. Blocks go on from
/// row to row of the matrix `[N, K]`.
fn matmul_bnb4(call: &mut Call) -> Outcome {
    let (a, scales) = (call.input(0)?, call.input(2)?);
    let (n, k, size) = (positive(call, "N")?, positive(call, "K")?, block_size(call, 0)?);
    let from = match call.int_or("quant_type", -1) {
        0 => FileType::Small(SmallFloat::Fp4),
        1 => FileType::Small(SmallFloat::Nf4),
        other => return Err(Refusal(format!("quant_type is {other}, expected 0 (FP4) or 1 (NF4)"))),
    };
    let all = n.checked_mul(k).ok_or_else(|| Refusal(format!("there are {n} times {k} weights, too many")))?;
    let count = all.div_ceil(size);
    if call.shape(scales).iter().copied().product::<Dim>() != count {
        return Err(Refusal(format!("absmax has shape {:?}, expected [{count}]", call.shape(scales))));
    }
    let scales = call.reshape(scales, &[count, 1])?;
    let weights = match all.is_multiple_of(size) {
        true => {
            let numbers = call.constant_of_type(1, "B", from, [count, size])?;
            let numbers = call.cast(numbers, call.dtype(scales))?;
            call.mul(numbers, scales)?
        }
        false => {
            let numbers = call.constant_of_type(1, "B", from, [1, all])?;
            let numbers = call.cast(numbers, call.dtype(scales))?;
            let scales = call.expand(scales, &[count, size])?;
            let scales = call.reshape(scales, &[Dim::ONE, Dim::from(count) * size])?;
            let scales = call.slice_axis(scales, 1, 0, all)?;
            call.mul(numbers, scales)?
        }
    };
    let weights = call.reshape(weights, &[n, k])?;
    let weights = if call.int_or("transB", 1) != 0 { call.transpose_last(weights)? } else { weights };
    let (depth, shape) = (call.shape(weights)[0], call.shape(a));
    if shape.last() != Some(&depth) {
        return Err(Refusal(format!("A has shape {shape:?}, expected {depth} columns")));
    }
    let product = with_matrices(call, [a, weights], |call, a, b| call.matmul(a, b));
    call.one(product)
}

// ---- GatherBlockQuantized ----------------------------------------------------------------------------------------

/// Quantized numbers, several per byte of the last dimension.
struct Packed {
    bytes: OperandId,
    bits: u32,
    /// The number that represents 0 if no zero point is given.
    zero: u8,
    /// The offset added to the model's numbers to make them unsigned.
    lift: u8,
}

/// The data as bytes. For 4-bit types, two numbers per byte if rows start at byte boundaries, otherwise one.
fn packed_data(call: &mut Call) -> Step<Packed> {
    let Some(literal) = call.input_literal(0) else {
        let bits = bits(call)?;
        let bytes = call.input(0)?;
        return match call.dtype(bytes) {
            DataType::Uint8 => Ok(Packed { bytes, bits, zero: 1 << (bits - 1), lift: 0 }),
            other => Err(Refusal(format!("data are of type {other}, expected uint8, int4 or uint4"))),
        };
    };
    let lift = match literal.element {
        ElementType::Int4 => 8,
        ElementType::Uint4 => 0,
        other => return Err(Refusal(format!("data are of type {other}, expected uint8, int4 or uint4"))),
    };
    let mut shape = literal.shape.clone();
    call.take_room(4 * literal.bytes.len())?;
    // Inverting the sign bit adds 8 to a number.
    let mut bytes: Vec<u8> = literal.bytes.iter().map(|byte| byte ^ (lift | lift << 4)).collect();
    let mut bits = 4;
    match shape.last_mut() {
        Some(last) if last.is_multiple_of(2) => *last /= 2,
        _ => {
            bytes = unpacked(&bytes, 4);
            bytes.truncate(literal.elements());
            bits = 8;
        }
    }
    let bytes = call.constant_from_bytes(Descriptor::new(DataType::Uint8, shape), &bytes)?;
    Ok(Packed { bytes, bits, zero: lift, lift })
}

/// Unpacks bytes by operators of the graph: the data stay packed until they are needed.
fn numbers(call: &mut Call, bytes: OperandId, bits: u32) -> Step<OperandId> {
    if bits == 8 {
        return Ok(bytes);
    }
    let base = call.int_scalar(DataType::Uint8, 1 << bits)?;
    let mut parts = Vec::new();
    let mut rest = bytes;
    for _ in 1..8 / bits {
        let higher = call.div(rest, base)?;
        let shifted = call.mul(higher, base)?;
        parts.push(call.sub(rest, shifted)?);
        rest = higher;
    }
    parts.push(rest);
    let mut shape = call.shape(bytes);
    let rank = shape.len();
    let stacked = call.stack(&parts, rank)?;
    shape[rank - 1] = shape[rank - 1] * (8 / bits);
    call.reshape(stacked, &shape)
}

/// The zero points in the shape of the scales, offset like the data.
fn table_zero_points(call: &mut Call, packed: &Packed, shape: &[u32]) -> Step<OperandId> {
    if let Some(literal) = call.input_literal(3) {
        let lift = |number: Number| Number::Float(number.to_f64() + packed.lift as f64);
        let lifted = call.converted(&literal, (DataType::Uint8, Conversion::Lifted(packed.lift)), lift)?;
        return call.reshape(lifted, shape);
    }
    match call.optional(3)? {
        None => {
            let zero = packed.zero;
            call.same(Descriptor::new(DataType::Uint8, shape), zero)
        }
        Some(given) => {
            let got = call.sizes(given);
            let axis = shape.len() - 1;
            let per_byte = 8 / packed.bits;
            // The last byte of a row may be padded.
            if got.len() != shape.len() || got[..axis] != shape[..axis] || got[axis] != shape[axis].div_ceil(per_byte) {
                return Err(Refusal(format!("zero_points have shape {got:?}, expected one for each scale {shape:?}")));
            }
            let all = numbers(call, given, packed.bits)?;
            call.slice_axis(all, axis, 0, shape[axis])
        }
    }
}

/// `numbers` as floats, in blocks of `size` along `axis`, the last of which may be shorter.
fn dequantized(
    call: &mut Call,
    numbers: OperandId,
    parameters: [OperandId; 2],
    axis: usize,
    size: u32,
) -> Step<OperandId> {
    let [scales, zero_points] = parameters;
    let shape = call.shape(numbers);
    let blocks = call.shape(scales).get(axis).copied().unwrap_or_default();
    if blocks != shape[axis].div_ceil(size) {
        let got = call.shape(scales);
        return Err(Refusal(format!("scales have shape {got:?} for data of shape {shape:?} in blocks of {size}")));
    }
    let mut whole = numbers;
    if blocks > 1 && !shape[axis].is_multiple_of(size) {
        let mut ending = vec![Dim::number(0); shape.len()];
        let beginning = ending.clone();
        ending[axis] = blocks * size - shape[axis];
        let pad = Pad { beginning, ending, ..Default::default() };
        whole = call.emit(pad, &[numbers])?;
    }
    let floats = call.emit(Quantize::DequantizeLinear, &[whole, scales, zero_points])?;
    call.slice_axis(floats, axis, 0u32, shape[axis])
}

/// Gathers packed rows, and unpacks only these.
fn gather_block_quantized(call: &mut Call) -> Outcome {
    let packed = packed_data(call)?;
    let (indices, scales) = (call.input(1)?, call.input(2)?);
    let rank = call.rank(packed.bytes);
    let size = block_size(call, 128)?;
    let gathered = call.axis(call.int_or("gather_axis", 0), rank)?;
    let blocked = call.axis(call.int_or("quantize_axis", 1), rank)?;
    let scale_shape = call.sizes(scales);
    if scale_shape.len() != rank {
        return Err(Refusal(format!("scales have shape {scale_shape:?}, expected {}", amount(rank, "dimension"))));
    }
    let zero_points = table_zero_points(call, &packed, &scale_shape)?;
    if gathered == blocked || gathered as usize == rank - 1 {
        let all = numbers(call, packed.bytes, packed.bits)?;
        let floats = dequantized(call, all, [scales, zero_points], blocked as usize, size)?;
        let output = call.gather(floats, indices, gathered);
        return call.one(output);
    }
    let rows = call.gather(packed.bytes, indices, gathered)?;
    let rows = numbers(call, rows, packed.bits)?;
    let parameters = [call.gather(scales, indices, gathered)?, call.gather(zero_points, indices, gathered)?];
    // The dimensions of the indices replace the gathered one.
    let axis = if blocked > gathered { blocked as usize + call.rank(indices) - 1 } else { blocked as usize };
    let output = dequantized(call, rows, parameters, axis, size)?;
    Ok(vec![Value::Tensor(output)])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    microsoft(
        "GatherBlockQuantized",
        "no float8 and float4; indices out of bounds are clamped",
        gather_block_quantized,
    ),
    microsoft("MatMulBnb4", "constant weights; floats in memory if rows are no whole blocks", matmul_bnb4),
    microsoft("MatMulNBits", "constant weights, no g_idx", matmul_n_bits),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::fuse_block_products;
    use crate::ir::Graph;
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;
    use crate::ops::tensor::Tensor;
    use crate::testing::{Random, Tolerance, check_on_cpu};
    use std::collections::HashMap;

    #[test]
    fn lowest_bits_come_first() {
        assert_eq!(unpacked(&[0x21, 0x43], 4), [1, 2, 3, 4]);
        assert_eq!(unpacked(&[0b11_10_01_00], 2), [0, 1, 2, 3]);
        assert_eq!(unpacked(&[0b1000_0010], 1), [0, 1, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn packed_rows_are_gathered_packed() {
        let text = TestGraph::default()
            .input("i", Int64, &["3"])
            .raw("w", Int4, &[10, 32], &[0x7f; 160])
            .input("s", Float, &["10", "2"])
            .node("com.microsoft.GatherBlockQuantized", "w i s", "y", vec![("block_size", Attr::Int(16))])
            .output("y")
            .text(21);
        assert!(text.contains("%2 = constant uint8 [10, 16]") && text.contains("%3 = gather %2 %0"), "{text}");
    }

    /// The outputs of a product of the unit matrix with quantized weights: the weights themselves, transposed.
    fn transposed(graph: TestGraph, size: u32) -> Vec<f64> {
        let graph = graph
            .input("a", Float, &[size.to_string().as_str(); 2])
            .output("y")
            .import(21, &Default::default())
            .unwrap();
        let one = Descriptor::new(DataType::Float32, [size, size]);
        let one = Tensor::from_fn(&one, |index| Number::from(f64::from(index[0] == index[1])));
        crate::reference::run(&graph, &[("a".to_string(), one)].into())["y"].floats().iter().copied().collect()
    }

    #[test]
    fn weights_of_one_bit_have_two_values() {
        let sizes = || {
            let sizes = [("N", 1), ("K", 16), ("block_size", 16), ("bits", 1)];
            sizes.map(|(name, size)| (name, Attr::Int(size))).into()
        };
        let graph = || TestGraph::default().raw("b", Uint8, &[1, 1, 2], &[0b101, 0x80]).floats("s", &[1, 1], &[0.5]);
        let places =
            |set: f64, unset: f64| (0..16).map(|at| if [0, 2, 15].contains(&at) { set } else { unset }).collect();
        let expected: Vec<f64> = places(0.0, -0.5);
        assert_eq!(transposed(graph().node("com.microsoft.MatMulNBits", "a b s", "y", sizes()), 16), expected);
        let expected: Vec<f64> = places(0.25, -0.25);
        let graph = graph().floats("z", &[1, 1], &[0.5]);
        assert_eq!(transposed(graph.node("com.microsoft.MatMulNBits", "a b s z", "y", sizes()), 16), expected);
    }

    #[test]
    fn weights_of_a_table_are_scaled_by_blocks() {
        let graph = |quant_type: i64, n: i64, bytes: usize| {
            let bytes: Vec<u8> = (0..bytes).map(|at| (at as u8).wrapping_mul(37)).collect();
            let graph = TestGraph::default().raw("b", Uint8, &[bytes.len() as i64], &bytes);
            let graph = graph.floats("s", &[(n * 8 + 15) / 16], &vec![2.0, 0.5][..(n as usize * 8).div_ceil(16)]);
            let sizes = [("N", n), ("K", 8), ("block_size", 16), ("quant_type", quant_type)];
            let sizes = sizes.map(|(name, size)| (name, Attr::Int(size))).into();
            graph.node("com.microsoft.MatMulBnb4", "a b s", "y", sizes)
        };
        // 0x00, 0x25, 0x4a, ..: the first number of a byte is in its high bits.
        let fp4 = transposed(graph(0, 4, 16), 8);
        assert_eq!([0, 8, 16, 24].map(|at| fp4[at] as f32), [0.0, 1.333_333_4, 0.666_666_7, 0.333_333_34]);
        let nf4 = transposed(graph(1, 3, 12), 8);
        assert_eq!(nf4[0], -2.0, "the last block has half a size");
        assert_eq!(nf4.len(), 24);
        let refusal = |graph: TestGraph| graph.input("a", Float, &["1", "8"]).output("y").refusal(21);
        assert!(refusal(graph(1, 4, 15)).contains("B (input 1) has 15 bytes, expected the 16 bytes of "));
        assert!(refusal(graph(2, 4, 16)).contains("quant_type is 2, expected 0 (FP4) or 1 (NF4)"));
    }

    #[test]
    fn weights_of_a_table_stay_packed() {
        // Fewer are multiplied with their scales when the model is imported.
        for (quant_type, element) in [(0, Float), (1, Float), (1, Float16)] {
            for rows in [1, 9, 40] {
                let bytes: Vec<u8> = (0..520 * 64 / 2).map(|at| (at * 151 % 256) as u8).collect();
                let scales = |at: usize| 0.5 + (at % 7) as f32 / 8.0;
                let scale_bytes: Vec<u8> = match element {
                    Float => (0..2080).flat_map(|at| scales(at).to_le_bytes()).collect(),
                    _ => (0..2080).flat_map(|at| half::f16::from_f32(scales(at)).to_le_bytes()).collect(),
                };
                let graph = TestGraph::default().input("a", element, &[&rows.to_string(), "64"]);
                let graph = graph.raw("b", Uint8, &[16640], &bytes).raw("s", element, &[2080], &scale_bytes);
                let sizes = [("N", 520), ("K", 64), ("block_size", 16), ("quant_type", quant_type)];
                let sizes = sizes.map(|(name, size)| (name, Attr::Int(size))).into();
                let graph = graph.node("com.microsoft.MatMulBnb4", "a b s", "y", sizes).output_of("y", element);
                let graph = graph.import(21, &Default::default()).unwrap();
                let mut fused = graph.clone();
                fuse_block_products(&mut fused);
                assert!(fused.to_string().contains("= blockProduct "), "{fused}");
                let tolerance = if element == Float { Tolerance::ulps(64) } else { Tolerance::ulps(4) };
                check_on_cpu(&graph, &inputs_of(&graph), tolerance.or_absolute(2e-2));
            }
        }
    }

    /// Random inputs.
    fn inputs_of(graph: &Graph) -> HashMap<std::string::String, Tensor> {
        let mut random = Random::new(5);
        let tensors = graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id))));
        tensors.collect()
    }

    #[test]
    fn weights_of_the_wrong_size_are_refused() {
        let sizes = || vec![("N", Attr::Int(2)), ("K", Attr::Int(16)), ("block_size", Attr::Int(16))];
        let graph = |bytes: &[u8]| {
            TestGraph::default()
                .input("a", Float, &["1", "16"])
                .raw("b", Uint8, &[bytes.len() as i64], bytes)
                .floats("s", &[2], &[0.5, 0.25])
                .node("com.microsoft.MatMulNBits", "a b s", "y", sizes())
                .output("y")
        };
        assert!(graph(&[0x98; 16]).text(17).contains("bTranspose"), "gemm");
        let message = graph(&[0x98; 15]).refusal(17);
        assert!(message.contains("B (input 1) has 15 bytes, expected the 16 bytes of "), "{message}");
    }
}
