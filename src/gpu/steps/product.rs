//! Matrix products.

use crate::gpu::kernel::Parameters;
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Entry, Readable, read_broadcast, strided};
use crate::ops::matmul::Gemm;
use crate::shape::broadcast_strides;

/// Rows and columns of the part of a product that a workgroup of `matmul_tiled.wgsl` computes.
const TILE: u32 = 64;

/// The variants of matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Each invocation computes an element and reads all that it is made of from memory.
    Plain,
    /// Each workgroup computes a tile, whose operands pass through its memory once.
    Tiled,
}

/// The variant for matrices of these sizes. A tile that is less than a quarter full wastes more than it saves.
pub fn variant(rows: u32, columns: u32, depth: u32) -> Variant {
    match rows >= TILE / 4 && columns >= TILE / 4 && depth >= 8 {
        true => Variant::Tiled,
        false => Variant::Plain,
    }
}

/// A stack of products `alpha * a * b`. Distances are in elements.
struct Product<'s> {
    rows: u32,
    columns: u32,
    depth: u32,
    /// From one row of `a` to the next, and from one column.
    a: [u32; 2],
    /// From one row of `b` to the next, and from one column.
    b: [u32; 2],
    alpha: f64,
    /// The dimensions of the stack.
    stack: &'s [u32],
    /// Where its matrices lie in both operands: the distances of neighbours in each dimension.
    places: [Vec<isize>; 2],
}

impl Product<'_> {
    /// Parameters: rows, columns, depth, distances of `a` and `b`, alpha, where the numbers of `strided()` for the matrices
    /// of the stack begin for both.
    fn parameters(&self) -> Parameters {
        let [a_row, a_column] = self.a;
        let [b_row, b_column] = self.b;
        let mut parameters = Parameters(vec![self.rows, self.columns, self.depth, a_row, a_column, b_row, b_column]);
        parameters.push_f32(self.alpha as f32);
        parameters.extend([0; 2]);
        for (index, places) in self.places.iter().enumerate() {
            parameters.0[8 + index] = strided(&mut parameters, self.stack, places, 0);
        }
        parameters
    }

    /// Appends the kernel. `addend` is an operand that is added to the product, and its factor.
    fn lower(&self, l: &mut Lowering, name: &'static str, addend: Option<(usize, f64)>) {
        let mut parameters = self.parameters();
        let mut inputs = vec![l.readable("a", 0), l.readable("b", 1)];
        let added = match addend {
            None => String::new(),
            Some((index, beta)) => {
                inputs.push(l.readable("c", index));
                let beta = parameters.push_f32(beta as f32);
                let c = read_broadcast(&mut parameters, "c", &l.input(index).shape, &l.outputs[0].shape);
                format!(" + parameter_f32({beta}u) * {c}")
            }
        };
        let plus = format!("fn plus(sum: f32, row: u32, i: u32) -> f32 {{ return parameter_f32(7u) * sum{added}; }}\n");
        let operands = plus + include_str!("../shaders/matmul.wgsl");
        match variant(self.rows, self.columns, self.depth) {
            Variant::Plain => {
                l.map(0, name, inputs, &(operands + include_str!("../shaders/matmul_plain.wgsl")), parameters);
            }
            Variant::Tiled => {
                let (a, b) = (self.a[1] == 1, self.b[1] == 1);
                let matrices = self.stack.iter().product::<u32>();
                tiled(
                    l,
                    name,
                    inputs,
                    &operands,
                    parameters,
                    Tiles { sizes: [self.rows, self.columns], matrices, a, b },
                );
            }
        }
    }
}

/// What a tiled product is made of.
pub struct Tiles {
    /// Rows and columns of each matrix.
    pub sizes: [u32; 2],
    /// Number of matrices.
    pub matrices: u32,
    /// Whether the terms of a row of the first operand lie side by side in memory, and not its rows.
    pub a: bool,
    /// Whether the columns of the second operand lie side by side, and not its terms.
    pub b: bool,
}

/// Appends `matmul_tiled.wgsl` for the operands that the functions `operands` describe.
pub fn tiled(
    l: &mut Lowering,
    name: &'static str,
    inputs: Vec<Readable>,
    operands: &str,
    parameters: Parameters,
    tiles: Tiles,
) {
    let [rows, columns] = tiles.sizes.map(|size| size.div_ceil(TILE));
    // Which element of a tile (row or column, term) an invocation reads as its `j`-th: neighbours read what lies side by
    // side in memory.
    let along_depth = "vec2<u32>(local / 16u + 16u * j, local % 16u)";
    let across = "vec2<u32>(local % 64u, local / 64u + 4u * j)";
    let a = if tiles.a { along_depth } else { across };
    let b = if tiles.b { across } else { along_depth };
    let text = format!(
        "{operands}
fn a_place(local: u32, j: u32) -> vec2<u32> {{ return {a}; }}
fn b_place(local: u32, j: u32) -> vec2<u32> {{ return {b}; }}
{}",
        include_str!("../shaders/matmul_tiled.wgsl")
    );
    let entry = Entry::Own { workgroups: tiles.matrices * rows * columns, elements: tiles.matrices };
    l.own(name, inputs, &text, parameters, entry);
}

/// `matmul()`.
pub fn matmul(l: &mut Lowering) {
    let (a, b, output) = (&l.input(0).shape, &l.input(1).shape, &l.outputs[0].shape);
    let (stack, matrix) = output.split_at(output.len() - 2);
    let depth = a[a.len() - 1];
    let places = [a, b].map(|shape| {
        let (own, matrix) = shape.split_at(shape.len() - 2);
        let size = matrix[0] as isize * matrix[1] as isize;
        broadcast_strides(own, stack).into_iter().map(|stride| stride as isize * size).collect()
    });
    let [rows, columns] = [matrix[0], matrix[1]];
    let product = Product { rows, columns, depth, a: [depth, 1], b: [columns, 1], alpha: 1.0, stack, places };
    product.lower(l, "matmul", None);
}

/// `gemm()`.
pub fn gemm(op: &Gemm, l: &mut Lowering) {
    let attributes = &op.attributes;
    let (a, output) = (&l.input(0).shape, &l.outputs[0].shape);
    let [rows, columns] = [output[0], output[1]];
    let depth = a[if attributes.a_transpose { 0 } else { 1 }];
    let product = Product {
        rows,
        columns,
        depth,
        a: if attributes.a_transpose { [1, rows] } else { [depth, 1] },
        b: if attributes.b_transpose { [1, depth] } else { [columns, 1] },
        alpha: attributes.alpha,
        stack: &[],
        places: [vec![], vec![]],
    };
    let addend = l.inputs.get(2).copied().flatten().map(|_| (2, attributes.beta));
    product.lower(l, "gemm", addend);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants() {
        assert_eq!(variant(64, 64, 64), Variant::Tiled);
        assert_eq!(variant(16, 16, 8), Variant::Tiled);
        assert_eq!(variant(15, 1024, 1024), Variant::Plain);
        assert_eq!(variant(1024, 15, 1024), Variant::Plain);
        assert_eq!(variant(1024, 1024, 7), Variant::Plain);
    }

    /// The places of a tile as `matmul_tiled.wgsl` reads them.
    #[test]
    fn a_tile_is_read_once_and_as_a_whole() {
        let along_depth = |local: u32, j: u32| [local / 16 + 16 * j, local % 16];
        let across = |local: u32, j: u32| [local % 64, local / 64 + 4 * j];
        for place in [along_depth, across] {
            let mut seen = vec![0; (TILE * 16) as usize];
            for (local, j) in (0..256).flat_map(|local| (0..4).map(move |j| (local, j))) {
                let [at, term] = place(local, j);
                assert!(at < TILE && term < 16);
                seen[(term * TILE + at) as usize] += 1;
            }
            assert!(seen.iter().all(|&count| count == 1));
        }
    }
}
