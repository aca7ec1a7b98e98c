//! What callers pass when they open sessions, checked.

use super::Result;
use super::convert::{coded, thrown};
use super::view::View;
use crate::error::{Code, Error};
use crate::memory::store::StoreOptions;
use crate::onnx::Model;
use crate::onnx::error::quoted;
use crate::session::Constant;
use crate::session::signature::checked_size;
use napi_derive::napi;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Sizes of free dimensions by name.
#[napi(object, object_to_js = false)]
pub struct Dimensions {
    /// The names.
    pub names: Vec<String>,
    /// The size of each.
    pub sizes: Vec<f64>,
}

impl Dimensions {
    /// # Errors
    /// A TypeError for a size that no dimension can have. Messages start with `operation`.
    pub fn checked(self, operation: &str) -> Result<BTreeMap<String, u32>> {
        let entry = |(name, size): (String, f64)| {
            let size = checked_size(size, || format!("{operation}: freeDimensions[{}]", quoted(&name)))?;
            Ok((name, size))
        };
        self.names.into_iter().zip(self.sizes).map(entry).collect::<crate::error::Result<_>>().map_err(thrown)
    }
}

/// An input's value that is the same in every run.
#[napi(object, object_to_js = false)]
pub struct ConstantOptions<'a> {
    /// The name of the input.
    pub name: String,
    /// Its shape, if given.
    pub shape: Option<Vec<f64>>,
    /// Its bytes.
    pub bytes: View<'a>,
}

impl ConstantOptions<'_> {
    /// The value of an input of `model`, with a copy of the bytes.
    ///
    /// # Errors
    /// Same as [`Constant::new`], or an UnknownError if memory runs out.
    pub fn constant(self, model: &Model, free_dimensions: &BTreeMap<String, u32>) -> Result<Constant> {
        let ConstantOptions { name, shape, bytes } = self;
        let shape = shape.map(|shape| checked_sizes(&shape, || format!("loadModel: constant {}", quoted(&name))));
        let bytes = bytes.copy().map_err(coded)?;
        Constant::new(model, free_dimensions, name, shape.transpose()?, bytes).map_err(coded)
    }
}

/// Numbers of positions by output name.
#[napi(object, object_to_js = false)]
pub struct KeptCounts {
    /// The names.
    pub names: Vec<String>,
    /// The number of positions of each.
    pub counts: Vec<f64>,
}

impl KeptCounts {
    /// # Errors
    /// A TypeError for an invalid number of positions. Numbers above the size of a dimension keep all positions.
    pub fn checked(self) -> Result<BTreeMap<String, u32>> {
        let entry = |(name, count): (String, f64)| match count.fract() == 0.0 && count >= 1.0 {
            true => Ok((name, count as u32)),
            false => {
                let name = quoted(&name);
                let message = format!("loadModel: keepLast[{name}] is {count}, expected an integer of at least 1");
                Err(thrown(Error::coded(Code::Shape, message)))
            }
        };
        self.names.into_iter().zip(self.counts).map(entry).collect()
    }
}

/// What is fixed for all runs of a session.
#[napi(object, object_to_js = false)]
pub struct OpenOptions<'a> {
    /// Sizes of free dimensions.
    pub dimensions: Dimensions,
    /// Whether names of dimensions are promises.
    pub strict_dimensions: Option<bool>,
    /// Names of the values to compute.
    pub outputs: Option<Vec<String>>,
    /// Inputs that are the same in every run.
    pub constants: Vec<ConstantOptions<'a>>,
    /// For each output, how many of the last positions along the second to last dimension are computed.
    pub keep_last: KeptCounts,
    /// After how many milliseconds without use the session frees what it can make again.
    pub idle: Option<u32>,
    /// How packed weights are kept on disk, if they are.
    pub cache: Option<CacheOptions>,
}

/// How packed weights are kept on disk.
#[napi(object, object_to_js = false)]
pub struct CacheOptions {
    /// The folder; the user's if none is given.
    pub folder: Option<String>,
    /// Whether bytes are compared with their checksums before they are used.
    pub verify: bool,
    /// Whether the model is recognized by its contents.
    pub by_contents: bool,
}

impl From<CacheOptions> for StoreOptions {
    fn from(CacheOptions { folder, verify, by_contents }: CacheOptions) -> StoreOptions {
        StoreOptions { folder: folder.map(PathBuf::from), verifies: verify, by_contents }
    }
}

/// The sizes of a shape, which messages call `what`.
///
/// # Errors
/// A TypeError for a size that no dimension can have.
pub fn checked_sizes(shape: &[f64], what: impl Fn() -> String) -> Result<Vec<u32>> {
    let checked = |(axis, &size)| checked_size(size, || format!("{}: shape[{axis}]", what()));
    shape.iter().enumerate().map(checked).collect::<crate::error::Result<_>>().map_err(thrown)
}
