//! The sizes of a model's free dimensions, and the shapes that they determine. Messages name the input; callers prepend
//! the operation.
//!
//! Names of dimensions are not promises: exporters write placeholders, and give one name to different sizes. A name
//! completes shapes that are unknown; known ones it refuses only where the caller wants that.

use super::error::{ModelError, Result, listed, quoted};
use super::model::{Dimension, ValueInfo};
use crate::error::{Code, amount};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The largest size of a dimension.
pub const MAX_SIZE: u32 = i32::MAX as u32;

/// Texts that exporters write for any dimension whose size they do not know, in lower case.
const PLACEHOLDERS: [&str; 10] = ["any", "dyn", "dynamic", "nan", "nil", "none", "null", "undefined", "unk", "unknown"];

/// Whether a dimension of this name says nothing about others of the same name: an empty or unprintable name, `?`, `*`,
/// a negative number, `None` and the like.
pub fn is_placeholder(name: &str) -> bool {
    let name = name.trim();
    !name.chars().any(char::is_alphanumeric)
        || name.parse::<f64>().is_ok_and(|number| number < 0.0)
        || PLACEHOLDERS.contains(&name.to_lowercase().as_str())
}

/// What is known of the size that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Size {
    /// The caller has set it for all dimensions of the name.
    Given(u32),
    /// Every dimension of the name with a known size has this one.
    Found(u32),
    /// Dimensions of the name have different sizes: it says nothing about others.
    Several,
}

/// A dimension whose name is replaced by the number of its slot in [`Sizes`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeSlot {
    /// A fixed size.
    Fixed(u32),
    /// A free size.
    Free(usize),
}

/// The dimensions of an input; `None` if not even their number is known.
pub type SizeSlots = Option<Box<[SizeSlot]>>;

/// Known sizes of free dimensions. Each name has a slot: a caller that asks often looks the names up once, with
/// [`slots`](Self::slots), and passes them to the methods that end in `_at`.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    names: Arc<BTreeMap<String, usize>>,
    /// By slot.
    known: Vec<Option<Size>>,
    /// Whether all dimensions of a name must have the same size.
    is_strict: bool,
}

impl Sizes {
    /// The given sizes, which no shape may contradict.
    pub fn new(given: BTreeMap<String, u32>) -> Sizes {
        let known = given.values().map(|&size| Some(Size::Given(size))).collect();
        let names = given.into_keys().enumerate().map(|(slot, name)| (name, slot)).collect();
        Sizes { names: Arc::new(names), known, is_strict: false }
    }

    /// Sets whether all dimensions of a name must have the same size.
    pub fn strict(self, is_strict: bool) -> Sizes {
        Sizes { is_strict, ..self }
    }

    /// Whether all dimensions of a name must have the same size.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// The dimensions of `input`; new names get a slot here and in later clones.
    pub fn slots(&mut self, input: &ValueInfo) -> SizeSlots {
        let slot = |dimension: &Dimension| match dimension {
            Dimension::Fixed(size) => SizeSlot::Fixed(*size),
            Dimension::Free(name) => SizeSlot::Free(self.slot(name)),
        };
        input.shape.as_ref().map(|dimensions| dimensions.iter().map(slot).collect())
    }

    fn slot(&mut self, name: &str) -> usize {
        self.names.get(name).copied().unwrap_or_else(|| {
            Arc::make_mut(&mut self.names).insert(name.to_string(), self.known.len());
            self.known.push(None);
            self.known.len() - 1
        })
    }

    /// Takes sizes from the shape given for `input`.
    ///
    /// # Errors
    /// If the shape does not match.
    pub fn bind(&mut self, input: &ValueInfo, shape: &[u32]) -> Result<()> {
        let slots = self.slots(input);
        self.bind_at(input, &slots, shape)
    }

    /// Like [`bind`](Self::bind), with the [`slots`](Self::slots) of `input`.
    ///
    /// # Errors
    /// If the shape does not match.
    pub fn bind_at(&mut self, input: &ValueInfo, slots: &SizeSlots, shape: &[u32]) -> Result<()> {
        let Some(slots) = slots else { return Ok(()) };
        let fits = shape.len() == slots.len() && slots.iter().zip(shape).all(|(&slot, &size)| self.takes(slot, size));
        if fits {
            return Ok(());
        }
        let dimensions = input.shape.as_deref().unwrap_or_default();
        let (name, expected, why) = (quoted(&input.name), self.shown(dimensions), self.why(dimensions, shape));
        Err(ModelError::coded(Code::Shape, format!("{name} has shape {shape:?}, expected {expected}{why}")))
    }

    /// Takes the size of a dimension; returns whether it may have this size.
    fn takes(&mut self, slot: SizeSlot, size: u32) -> bool {
        let known = match slot {
            SizeSlot::Fixed(fixed) => return fixed == size,
            SizeSlot::Free(slot) => &mut self.known[slot],
        };
        match known {
            Some(Size::Given(given)) => *given == size,
            Some(Size::Found(found)) if *found == size => true,
            Some(_) => {
                if !self.is_strict {
                    *known = Some(Size::Several);
                }
                !self.is_strict
            }
            None => {
                *known = Some(Size::Found(size));
                true
            }
        }
    }

    /// For a message: the option that made the first contradicted size of a shape known, if there is one.
    fn why(&self, dimensions: &[Dimension], shape: &[u32]) -> String {
        let mut names = dimensions.iter().zip(shape).filter_map(|(dimension, &size)| match dimension {
            Dimension::Free(name) if self.size(dimension).is_some_and(|known| known != size) => Some(name),
            _ => None,
        });
        match names.next().filter(|_| shape.len() == dimensions.len()) {
            Some(name) if matches!(self.known[self.names[name]], Some(Size::Given(_))) => {
                format!(", since freeDimensions sets {name}")
            }
            Some(_) => ", since strictDimensions is true".to_string(),
            None => String::new(),
        }
    }

    /// Derives the only unknown size of `input` from its number of elements; returns whether there was one.
    ///
    /// # Errors
    /// If no size yields that number.
    pub fn solve(&mut self, input: &ValueInfo, elements: usize) -> Result<bool> {
        let slots = self.slots(input);
        self.solve_at(input, &slots, elements)
    }

    /// Like [`solve`](Self::solve), with the [`slots`](Self::slots) of `input`.
    ///
    /// # Errors
    /// If no size yields that number.
    pub fn solve_at(&mut self, input: &ValueInfo, slots: &SizeSlots, elements: usize) -> Result<bool> {
        let (mut known, mut unknown) = (1usize, None);
        for slot in slots.as_deref().unwrap_or_default() {
            let size = match *slot {
                SizeSlot::Fixed(size) => Some(size),
                SizeSlot::Free(at) => match self.known[at] {
                    Some(Size::Several) => return Ok(false),
                    Some(Size::Given(size) | Size::Found(size)) => Some(size),
                    None if unknown.replace(at).is_some() => return Ok(false),
                    None => None,
                },
            };
            known = known.saturating_mul(size.map_or(1, |size| size as usize));
        }
        let Some(at) = unknown else { return Ok(false) };
        let size = match (known, elements) {
            (0, _) => Some(0),
            _ if elements.is_multiple_of(known) => {
                u32::try_from(elements / known).ok().filter(|&size| size <= MAX_SIZE)
            }
            _ => None,
        };
        let size = size.ok_or_else(|| self.unfilled(input, elements))?;
        self.known[at] = Some(Size::Found(size));
        Ok(true)
    }

    /// Like [`solve`](Self::solve), and checks the resulting shape.
    ///
    /// # Errors
    /// If the shape has a different number of elements.
    pub fn fill(&mut self, input: &ValueInfo, elements: usize) -> Result<()> {
        self.solve(input, elements)?;
        match self.shape(input) {
            Ok(shape) if filled(&shape) != elements => Err(self.unfilled(input, elements)),
            _ => Ok(()),
        }
    }

    fn unfilled(&self, input: &ValueInfo, elements: usize) -> ModelError {
        let (name, shape) = (quoted(&input.name), self.shown(input.shape.as_deref().unwrap_or_default()));
        ModelError::coded(
            Code::Shape,
            format!("{name} has {}, expected a number that fills the shape {shape}", amount(elements, "element")),
        )
    }

    /// The shape of `input`.
    ///
    /// # Errors
    /// If one of its sizes is unknown.
    pub fn shape(&self, input: &ValueInfo) -> Result<Vec<u32>> {
        let sizes = input.shape.iter().flatten().map(|dimension| self.size(dimension)).collect();
        self.complete(input, input.shape.as_ref().and(sizes))
    }

    /// Like [`shape`](Self::shape), with the [`slots`](Self::slots) of `input`.
    ///
    /// # Errors
    /// If one of its sizes is unknown.
    pub fn shape_at(&self, input: &ValueInfo, slots: &SizeSlots) -> Result<Vec<u32>> {
        let size = |slot: &SizeSlot| match *slot {
            SizeSlot::Fixed(size) => Some(size),
            SizeSlot::Free(slot) => self.known[slot].and_then(number),
        };
        self.complete(input, slots.as_ref().and_then(|slots| slots.iter().map(size).collect()))
    }

    fn complete(&self, input: &ValueInfo, shape: Option<Vec<u32>>) -> Result<Vec<u32>> {
        shape.ok_or_else(|| self.lacking(input, ""))
    }

    /// The error that sizes of `input` are not known; `how` says how a caller passes its shape.
    pub fn lacking(&self, input: &ValueInfo, how: &str) -> ModelError {
        let name = quoted(&input.name);
        let why = match &input.shape {
            None => format!("the model does not specify the shape of {name}: pass it{how}"),
            Some(dimensions) => {
                let shown = self.shown(dimensions);
                format!("{name} has free sizes, {shown}: pass its shape{how}, or set freeDimensions")
            }
        };
        ModelError::coded(Code::Shape, why)
    }

    /// The shape of `input` as far as it is known: names stand for unknown sizes. `None` if the model declares no
    /// shape.
    pub fn known(&self, input: &ValueInfo) -> Option<Vec<Dimension>> {
        let known = |dimension: &Dimension| self.size(dimension).map_or_else(|| dimension.clone(), Dimension::Fixed);
        Some(input.shape.as_ref()?.iter().map(known).collect())
    }

    /// The known sizes by name.
    pub fn by_name(&self) -> BTreeMap<&str, u32> {
        self.names
            .iter()
            .filter_map(|(name, &slot)| Some((name.as_str(), self.known[slot].and_then(number)?)))
            .collect()
    }

    fn size(&self, dimension: &Dimension) -> Option<u32> {
        match dimension {
            Dimension::Fixed(size) => Some(*size),
            Dimension::Free(name) => self.known[*self.names.get(name)?].and_then(number),
        }
    }

    /// A shape with known sizes and the names of unknown ones: `[1, sequence=12, width]`.
    pub fn shown(&self, dimensions: &[Dimension]) -> String {
        let shown = |dimension: &Dimension| match (dimension, self.size(dimension)) {
            (Dimension::Free(name), Some(size)) => format!("{name}={size}"),
            (Dimension::Free(name), None) => name.clone(),
            (Dimension::Fixed(size), _) => size.to_string(),
        };
        format!("[{}]", dimensions.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

fn number(size: Size) -> Option<u32> {
    match size {
        Size::Given(size) | Size::Found(size) => Some(size),
        Size::Several => None,
    }
}

/// The number of elements of a tensor of this shape.
pub fn filled(shape: &[u32]) -> usize {
    shape.iter().fold(1usize, |product, &size| product.saturating_mul(size as usize))
}

/// Maximum number of sizes of a name, and of names, in a message.
const SHOWN: usize = 4;

/// Names the dimensions of the same name that have different sizes among inputs of these shapes, with these sizes;
/// `None` if there are none.
pub fn contradiction<'a>(inputs: impl IntoIterator<Item = (&'a ValueInfo, &'a [u32])>) -> Option<String> {
    // For each name, the first place of each size.
    let mut places: BTreeMap<&str, Vec<(u32, &ValueInfo, usize)>> = BTreeMap::new();
    for (input, shape) in inputs {
        for (axis, (dimension, &size)) in input.shape.iter().flatten().zip(shape).enumerate() {
            if let Dimension::Free(name) = dimension {
                let sizes = places.entry(name).or_default();
                if sizes.len() < SHOWN && sizes.iter().all(|(known, ..)| *known != size) {
                    sizes.push((size, input, axis));
                }
            }
        }
    }
    let several = places.into_iter().filter(|(_, sizes)| sizes.len() > 1).take(SHOWN);
    let shown = several.map(|(name, sizes)| {
        let place =
            |(size, input, axis): &(u32, &ValueInfo, usize)| format!("{size} in {} at [{axis}]", quoted(&input.name));
        format!("the dimension {} is {}", quoted(name), sizes.iter().map(place).collect::<Vec<_>>().join(", "))
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| shown.join("; "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_not_names() {
        let placeholders = [
            "", " ", "\t", "?", "??", "*", "-", "_", "-1", "-1.0", "None", "none", "NULL", "nan", "Any", "dynamic",
            "unk", " ? ",
        ];
        placeholders.iter().for_each(|name| assert!(is_placeholder(name), "{name:?}"));
        let names = [
            "n",
            "N",
            "batch",
            "unk__12",
            "DynamicDimension.0",
            "?0",
            "dim_-1",
            "0",
            "1",
            "x_dim_0",
            "größe",
            "高",
            "none2",
        ];
        names.iter().for_each(|name| assert!(!is_placeholder(name), "{name:?}"));
    }

    fn input(name: &str, names: &[&str]) -> ValueInfo {
        let free = |name: &&str| Dimension::Free(name.to_string());
        ValueInfo::unknown(name).with_shape(names.iter().map(free).collect())
    }

    #[test]
    fn a_name_of_several_sizes_says_nothing_unless_it_must_have_one() {
        let (a, b, c) = (input("a", &["n", "m"]), input("b", &["n"]), input("c", &["m", "n"]));
        let mut sizes = Sizes::default();
        sizes.bind(&a, &[2, 3]).unwrap();
        assert_eq!(sizes.shape(&c).unwrap(), [3, 2]);
        sizes.bind(&b, &[5]).unwrap();
        assert_eq!(
            sizes.shape(&c).unwrap_err().message,
            "\"c\" has free sizes, [m=3, n]: pass its shape, or set freeDimensions"
        );
        assert_eq!(sizes.by_name(), [("m", 3)].into());
        // The third size of a name is no surprise any more.
        sizes.bind(&b, &[7]).unwrap();
        let shapes = [(&a, &[2, 3][..]), (&b, &[5]), (&c, &[3, 2])];
        assert_eq!(contradiction(shapes).unwrap(), "the dimension \"n\" is 2 in \"a\" at [0], 5 in \"b\" at [0]");
        assert_eq!(contradiction([shapes[0], shapes[2]]), None);

        let mut strict = Sizes::default().strict(true);
        strict.bind(&a, &[2, 3]).unwrap();
        let message = strict.bind(&b, &[5]).unwrap_err().message;
        assert_eq!(message, "\"b\" has shape [5], expected [n=2], since strictDimensions is true");
    }

    #[test]
    fn slots_stay_the_same_in_clones_and_when_names_are_added() {
        let (a, b, c) = (input("a", &["n", "m"]), input("b", &["m", "n"]), input("c", &["k", "n"]));
        let mut opened = Sizes::new([("m".to_string(), 3)].into());
        let [of_a, of_b] = [&a, &b].map(|input| opened.slots(input));
        assert_eq!(opened.slots(&ValueInfo::unknown("x")), None);
        for n in [2, 5] {
            let mut run = opened.clone();
            let of_c = run.slots(&c);
            run.bind_at(&a, &of_a, &[n, 3]).unwrap();
            assert_eq!(run.shape_at(&b, &of_b).unwrap(), [3, n]);
            assert_eq!(run.shape_at(&c, &of_c).unwrap_err().message, run.shape(&c).unwrap_err().message);
            assert!(run.solve_at(&c, &of_c, 4 * n as usize).unwrap());
            assert_eq!(run.shape_at(&c, &of_c).unwrap(), [4, n]);
            assert_eq!(run.by_name(), [("k", 4), ("m", 3), ("n", n)].into());
        }
        assert_eq!(opened.by_name(), [("m", 3)].into());
        assert_eq!(
            opened.shape(&a).unwrap_err().message,
            "\"a\" has free sizes, [n, m=3]: pass its shape, or set freeDimensions"
        );
    }

    #[test]
    fn given_sizes_are_promises_of_the_caller() {
        for is_strict in [false, true] {
            let mut sizes = Sizes::new([("n".to_string(), 2)].into()).strict(is_strict);
            let message = sizes.bind(&input("a", &["n", "m"]), &[3, 3]).unwrap_err().message;
            assert_eq!(message, "\"a\" has shape [3, 3], expected [n=2, m], since freeDimensions sets n");
        }
    }
}
