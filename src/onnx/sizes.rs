//! The sizes of a model's free dimensions, and the shapes that they determine. Messages name the input; callers prepend
//! the operation.

use super::error::{ModelError, Result, listed, quoted};
use super::model::{Dimension, ValueInfo};
use crate::error::Code;
use std::collections::{BTreeMap, BTreeSet};

/// The largest size of a dimension.
pub const MAX_SIZE: u32 = i32::MAX as u32;

/// Known sizes of free dimensions by name.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    known: BTreeMap<String, u32>,
    /// Whether dimensions of the same name may have different sizes: if no size is given, the first one found then
    /// applies.
    is_loose: bool,
}

impl Sizes {
    /// The given sizes.
    pub fn new(known: BTreeMap<String, u32>) -> Sizes {
        Sizes { known, is_loose: false }
    }

    /// Sets whether dimensions of the same name may have different sizes.
    pub fn loose(self, is_loose: bool) -> Sizes {
        Sizes { is_loose, ..self }
    }

    /// Takes sizes from the shape given for `input`.
    ///
    /// # Errors
    /// If the shape does not match.
    pub fn bind(&mut self, input: &ValueInfo, shape: &[u32]) -> Result<()> {
        let Some(dimensions) = &input.shape else { return Ok(()) };
        let fits = shape.len() == dimensions.len()
            && dimensions.iter().zip(shape).all(|(dimension, &size)| match dimension {
                Dimension::Fixed(fixed) => *fixed == size,
                Dimension::Free(name) => match self.known.get(name) {
                    Some(&known) => known == size || self.is_loose,
                    None => self.known.insert(name.clone(), size).is_none(),
                },
            });
        if fits {
            return Ok(());
        }
        let (name, expected) = (quoted(&input.name), self.shown(dimensions));
        Err(ModelError::coded(Code::Shape, format!("{name} has shape {shape:?}, expected {expected}")))
    }

    /// Derives the only unknown size of `input` from its number of elements; returns whether there was one.
    ///
    /// # Errors
    /// If no size yields that number.
    pub fn solve(&mut self, input: &ValueInfo, elements: usize) -> Result<bool> {
        let dimensions = input.shape.as_deref().unwrap_or_default();
        let mut free = dimensions.iter().filter_map(|dimension| match dimension {
            Dimension::Free(name) if !self.known.contains_key(name) => Some(name),
            _ => None,
        });
        let (Some(name), None) = (free.next(), free.next()) else { return Ok(false) };
        let known = dimensions.iter().filter_map(|dimension| self.size(dimension));
        let known = known.fold(1usize, |product, size| product.saturating_mul(size as usize));
        let size = match (known, elements) {
            (0, _) => Some(0),
            _ if elements.is_multiple_of(known) => {
                u32::try_from(elements / known).ok().filter(|&size| size <= MAX_SIZE)
            }
            _ => None,
        };
        let size = size.ok_or_else(|| self.unfilled(input, elements))?;
        self.known.insert(name.clone(), size);
        Ok(true)
    }

    /// Like [`solve`](Self::solve), and checks the resulting shape.
    ///
    /// # Errors
    /// If the shape has a different number of elements.
    pub fn fill(&mut self, input: &ValueInfo, elements: usize) -> Result<()> {
        self.solve(input, elements)?;
        let filled =
            |shape: Vec<u32>| shape.iter().fold(1usize, |product, &size| product.saturating_mul(size as usize));
        match self.shape(input).map(filled) {
            Ok(filled) if filled != elements => Err(self.unfilled(input, elements)),
            _ => Ok(()),
        }
    }

    fn unfilled(&self, input: &ValueInfo, elements: usize) -> ModelError {
        let (name, shape) = (quoted(&input.name), self.shown(input.shape.as_deref().unwrap_or_default()));
        ModelError::coded(Code::Shape, format!("{name} has {elements} elements, which do not fill the shape {shape}"))
    }

    /// The shape of `input`.
    ///
    /// # Errors
    /// If one of its sizes is unknown.
    pub fn shape(&self, input: &ValueInfo) -> Result<Vec<u32>> {
        let unknown = |why: String| ModelError::coded(Code::Shape, why);
        let Some(dimensions) = &input.shape else {
            let name = quoted(&input.name);
            return Err(unknown(format!("the model does not specify the shape of {name}: give one")));
        };
        let size = |dimension: &Dimension| {
            self.size(dimension).ok_or_else(|| {
                let (name, shape) = (quoted(&input.name), self.shown(dimensions));
                unknown(format!("the shape of {name} is {shape}: give it, or freeDimensions"))
            })
        };
        dimensions.iter().map(size).collect()
    }

    /// The shape of `input` as far as it is known: names stand for unknown sizes. `None` if the model declares no
    /// shape.
    pub fn known(&self, input: &ValueInfo) -> Option<Vec<Dimension>> {
        let known = |dimension: &Dimension| self.size(dimension).map_or_else(|| dimension.clone(), Dimension::Fixed);
        Some(input.shape.as_ref()?.iter().map(known).collect())
    }

    /// The known sizes by name.
    pub fn by_name(&self) -> &BTreeMap<String, u32> {
        &self.known
    }

    fn size(&self, dimension: &Dimension) -> Option<u32> {
        match dimension {
            Dimension::Fixed(size) => Some(*size),
            Dimension::Free(name) => self.known.get(name).copied(),
        }
    }

    /// A shape with known sizes and the names of unknown ones: `[1, sequence=12, width]`.
    pub fn shown(&self, dimensions: &[Dimension]) -> String {
        let shown = |dimension: &Dimension| match dimension {
            Dimension::Fixed(size) => size.to_string(),
            Dimension::Free(name) => self.known.get(name).map_or_else(|| name.clone(), |size| format!("{name}={size}")),
        };
        format!("[{}]", dimensions.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

/// Rejects sizes for names that no dimension of the inputs has.
///
/// # Errors
/// With the first of these names, and the existing ones.
pub fn check_names<'a>(inputs: impl IntoIterator<Item = &'a ValueInfo>, sizes: &BTreeMap<String, u32>) -> Result<()> {
    let dimensions = inputs.into_iter().flat_map(|input| input.shape.iter().flatten());
    let names: BTreeSet<&str> = dimensions
        .filter_map(|dimension| match dimension {
            Dimension::Free(name) => Some(name.as_str()),
            Dimension::Fixed(_) => None,
        })
        .collect();
    let Some(unknown) = sizes.keys().find(|name| !names.contains(name.as_str())) else { return Ok(()) };
    let message = format!("there is no free dimension {}, the model has {}", quoted(unknown), listed(names));
    Err(ModelError::coded(Code::UnknownDimension, message))
}
