//! Tests whether a device's matrix units compute correctly: some drivers offer units that return wrong results.

use super::choice::Variant;
use crate::dtype::DataType;
use crate::error::{ErrorKind, Result};
use crate::gpu::device::Device;
use crate::gpu::dialect::Dialect;
use crate::gpu::direct::Direct;
use crate::gpu::lower::lower;
use crate::gpu::verdicts::{self, Fault};
use crate::ir::{Builder, Graph};
use crate::ops::Op;
use crate::ops::matmul::{Gemm, GemmAttributes};
use crate::shape::Descriptor;
use half::f16;

/// The products to try: tile, rows, columns, depth, and whether the second matrix is transposed. They cover both tile
/// sizes, edges read by elements and by vectors, and each layout of the operands.
const TRIED: [(u32, [u32; 3], bool); 3] =
    [(128, [130, 140, 72], false), (64, [65, 70, 33], true), (64, [64, 68, 36], true)];

/// What this is, for people.
pub const FAMILY: &str = "products of float16 on matrix units";

/// What a verdict on a driver's units is stored under.
fn name(info: &wgpu::AdapterInfo) -> String {
    format!("matrix units of {}", verdicts::key(info))
}

/// What an earlier test has found; `None` if there was none.
pub fn known(info: &wgpu::AdapterInfo) -> Option<Vec<Fault>> {
    verdicts::known(&name(info))
}

/// Why the matrix units of `device` cannot be trusted; `None` if they can. Tested once per driver.
///
/// # Errors
/// An `UnknownError` if memory runs out, an `OperationError` if the device is lost.
pub fn fault(device: &Device) -> Result<Option<Fault>> {
    let faults = verdicts::once(&name(&device.info), FAMILY, device.loss.patience(), || run(device))?;
    Ok(faults.into_iter().next())
}

/// Computes small products with the matrix units and on the CPU; returns the first that differs in any bit, or that is
/// rejected.
///
/// # Errors
/// An `UnknownError` if memory runs out, an `OperationError` if the device is lost.
pub fn run(device: &Device) -> Result<Vec<Fault>> {
    for (tile, sizes, transposed) in TRIED {
        let problem = match agrees(device, tile, sizes, transposed) {
            Ok(true) => continue,
            Ok(false) => format!("a product of {sizes:?} in tiles of {tile} differs"),
            Err(error) if error.kind != ErrorKind::Unknown && device.check().is_ok() => error.message,
            Err(error) => return Err(error),
        };
        return Ok(vec![Fault { family: FAMILY.to_string(), problem }]);
    }
    Ok(Vec::new())
}

/// A number in -2..=2 in steps of 1/8: all sums of their products are exact in float32, in any order.
fn element(index: usize) -> f32 {
    // An odd step visits all remainders, in an irregular order.
    ((index * 37 + index / 32 * 11) % 33) as f32 / 8.0 - 2.0
}

/// `gemm()` of float16 matrices of these sizes.
fn graph([rows, columns, depth]: [u32; 3], b_transpose: bool) -> Result<Graph> {
    let mut builder = Builder::new();
    let b = if b_transpose { [columns, depth] } else { [depth, columns] };
    let a = builder.input("a", Descriptor::new(DataType::Float16, [rows, depth]))?;
    let b = builder.input("b", Descriptor::new(DataType::Float16, b))?;
    let attributes = GemmAttributes { b_transpose, ..Default::default() };
    let y = builder.add(Op::Gemm(Gemm { attributes }), vec![Some(a), Some(b), None], "self-test")?;
    Ok(builder.finish(vec![("y".to_string(), y[0])]))
}

fn agrees(device: &Device, tile: u32, sizes: [u32; 3], transposed: bool) -> Result<bool> {
    let [rows, columns, depth] = sizes.map(|size| size as usize);
    let graph = graph(sizes, transposed)?;
    let dialect = Dialect { product: Some(Variant::Cooperative(tile)), ..device.dialect };
    let numbers = |count: usize, first: usize| (first..first + count).map(element).collect::<Vec<_>>();
    let (a, b) = (numbers(rows * depth, 0), numbers(depth * columns, 5));
    let bytes = |values: &[f32]| values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect::<Vec<_>>();
    let operands = [device.buffer_of("a", &bytes(&a))?, device.buffer_of("b", &bytes(&b))?];
    let output = device.buffer("y", rows * columns * 2)?;
    let lowered = lower(&graph, &graph.nodes[0], dialect)?;
    Direct::new(device, lowered, &[&operands[0], &operands[1]], &[&output])?.submit(device, 1)?;
    let got = device.read(&output, rows * columns * 2)?.wait(device)?;
    let expected = (0..rows * columns).flat_map(|i| {
        let (row, column) = (i / columns, i % columns);
        let place = |k: usize| if transposed { column * depth + k } else { k * columns + column };
        let sum: f32 = (0..depth).map(|k| a[row * depth + k] * b[place(k)]).sum();
        f16::from_f32(sum).to_le_bytes()
    });
    Ok(got.bytes().iter().copied().eq(expected))
}
