//! Reads, describes and imports a model, without building a graph: for tests with arbitrary input.

use super::deciding::deciders;
use super::describe::{inspect, interface};
use super::error::Result;
use super::file::Files;
use super::import::{Request, import};
use super::model::{Dimension, Model};
use crate::ir::Builder;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The size of every free dimension.
const SIZE: u32 = 2;

/// Reads, describes and imports the model in `bytes`, with a fixed size for each free dimension.
///
/// # Errors
/// If the model is refused at any stage.
pub fn probe(bytes: &[u8]) -> Result<()> {
    let (files, bytes) = Files::of_bytes(Bytes::copy_from_slice(bytes));
    let model = Model::decode(bytes, files)?;
    let inputs = interface(&model).inputs;
    let names = inputs.iter().flat_map(|input| input.shape.iter().flatten());
    let free_dimensions: BTreeMap<String, u32> = names
        .filter_map(|dimension| match dimension {
            Dimension::Free(name) => Some((name.clone(), SIZE)),
            Dimension::Fixed(_) => None,
        })
        .collect();
    inspect(&model, free_dimensions.clone())?;
    let request = Request { free_dimensions, ..Request::default() };
    drop(deciders(&model, &mut Builder::new(), &Request { may_cut: true, ..request.clone() }));
    import(&model, &mut Builder::new(), &request).map(drop)
}
