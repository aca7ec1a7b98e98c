//! 4-bit integer constants become bytes unless only packed products read them: no other kernel reads parts of bytes.

use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::{Graph, Source};
use crate::memory::Buffer;
use crate::nibbles::unpacked;
use crate::ops::{Extension, Fusion, Operation};

/// Converts every constant of 4-bit integers to bytes unless only products with packed weights read it.
///
/// # Errors
/// An `UnknownError` if memory for the bytes runs out, an `OperationError` if a mapped constant cannot be read.
pub fn unpack(graph: &mut Graph) -> Result<()> {
    let mut stays = vec![true; graph.values.len()];
    graph.outputs.iter().for_each(|(_, id)| stays[id.index()] = false);
    for node in &graph.nodes {
        let is_packed = matches!(
            node.op,
            Operation::Fusion(Fusion::BlockProduct(_)) | Operation::Extension(Extension::ExpertProduct(_))
        );
        node.reads().filter(|_| !is_packed).for_each(|id| stays[id.index()] = false);
    }
    for (value, _) in graph.values.iter_mut().zip(stays).filter(|(_, stays)| !stays) {
        let bytes = match value.descriptor.dtype {
            DataType::Int4 => DataType::Int8,
            DataType::Uint4 => DataType::Uint8,
            _ => continue,
        };
        // Values computed from constants change their type with them.
        if let Some(constant) = value.constant() {
            let numbers = unpacked(constant.buffer()?.bytes(), value.descriptor.elements(), bytes == DataType::Int8);
            value.source = Source::Constant(Buffer::copy_of(&numbers)?.into());
        }
        value.descriptor.dtype = bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    #[test]
    fn numbers_of_4_bits_are_read_as_bytes() {
        for (dtype, values) in [("uint4", "1 15 0 7 8 9"), ("int4", "1 -8 0 7 -1 3")] {
            let graph = parse(&format!(
                "%0 = input x float32 [3, 2]
                 %1 = constant {dtype} [3, 2] {values}
                 %2 = constant float32 [3, 1] 0.5 2 4
                 %3 = constant {dtype} [3, 1] 1 2 3
                 %4 = dequantizeLinear %1 %2 %3
                 %5 = add %0 %4
                 output y = %5
                 output z = %4"
            ));
            check(&graph, Tolerance::EXACT);
        }
    }
}
