//! `gridSample`: elements of images between those of an input, at computed places.

use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;
use arrayvec::ArrayVec;

crate::enumeration! {
    /// Which elements an element in between depends on.
    pub enum Mode {
        /// The nearest one; of two, the one at an even place.
        Nearest = "nearest",
        /// The two around it, along each dimension.
        Linear = "linear",
        /// The four around it, along each dimension.
        Cubic = "cubic",
    }
}

crate::enumeration! {
    /// What is outside of the input.
    pub enum Padding {
        /// Zeros.
        Zeros = "zeros",
        /// The outermost elements.
        Border = "border",
        /// The input, mirrored again and again.
        Reflection = "reflection",
    }
}

crate::attributes! {
    /// `GridSample` of `[N, channels, ...]` at the coordinates `[N, ..., dimensions]`.
    pub struct GridSample {
        /// Which elements the result depends on.
        mode "mode": Mode = Mode::Linear,
        /// What is outside of the input.
        padding "padding": Padding = Padding::Zeros,
        /// Whether -1 and 1 are the middles of the outermost elements, not their edges.
        align_corners "alignCorners": bool = false,
        /// Whether coordinates are indices of elements, the first dimension first, not numbers from -1 to 1, the last one
        /// first.
        indices "indices": bool = false,
    }
}

/// An element along a dimension that the result depends on.
#[derive(Clone, Copy, Debug)]
pub struct Tap {
    /// Its place; `None` outside of the input.
    pub place: Option<u32>,
    /// Its weight.
    pub weight: f32,
}

/// Maximum number of spatial dimensions.
pub const MAX_DIMENSIONS: usize = 3;

impl GridSample {
    /// The coordinate along dimension `at` of `count` in those of a place.
    pub fn coordinate(&self, coordinates: &[f32], at: usize) -> f32 {
        coordinates[if self.indices { at } else { coordinates.len() - 1 - at }]
    }

    /// The elements for a coordinate along a dimension of `size` elements.
    pub fn taps(&self, coordinate: f32, size: u32) -> ArrayVec<Tap, 4> {
        let extent = size as f32;
        let place = match (self.indices, self.align_corners) {
            (true, _) => coordinate,
            (false, true) => (coordinate + 1.0) * ((extent - 1.0) / 2.0),
            (false, false) => (coordinate + 1.0) * (extent / 2.0) - 0.5,
        };
        let tap = |place: f32, weight: f32| Tap { place: self.inside(place, size), weight };
        if self.mode == Mode::Nearest {
            return [tap(place.round_ties_even(), 1.0)].into_iter().collect();
        }
        // Beyond the border, the four elements around a place are not all the border's.
        let is_placed = self.mode == Mode::Linear || self.padding != Padding::Border;
        let place = if is_placed { self.placed(place, size) } else { place };
        let floor = place.floor();
        let fraction = place - floor;
        if self.mode == Mode::Linear {
            return [tap(floor, 1.0 - fraction), tap(floor + 1.0, fraction)].into_iter().collect();
        }
        (-1i8..3).map(|offset| tap(floor + f32::from(offset), cubic((f32::from(offset) - fraction).abs()))).collect()
    }

    /// The coordinate of an element, mirrored or clamped into the input; unchanged for zeros.
    fn placed(&self, place: f32, size: u32) -> f32 {
        let last = size as f32 - 1.0;
        let (low, range) = match self.padding {
            Padding::Zeros => return place,
            Padding::Border => return place.clamp(0.0, last),
            Padding::Reflection if self.align_corners => (0.0, last),
            Padding::Reflection => (-0.5, size as f32),
        };
        if range == 0.0 {
            return place.clamp(0.0, last);
        }
        // The distance within a period, there and back.
        let from = place - low;
        let there = from - (from * (0.5 / range)).floor() * (2.0 * range);
        there.min(2.0 * range - there) + low
    }

    /// The place of the element with this index.
    fn inside(&self, index: f32, size: u32) -> Option<u32> {
        let last = size as f32 - 1.0;
        if self.padding == Padding::Zeros && !(index >= 0.0 && index <= last) {
            return None;
        }
        // The conversion saturates.
        Some((self.placed(index, size).clamp(0.0, last).round_ties_even() as u32).min(size - 1))
    }
}

/// The weight of an element at this distance, at most 2.
fn cubic(distance: f32) -> f32 {
    const A: f32 = -0.75;
    match distance <= 1.0 {
        true => ((A + 2.0) * distance - (A + 3.0)) * distance * distance + 1.0,
        false => ((A * distance - 5.0 * A) * distance + 8.0 * A) * distance - 4.0 * A,
    }
}

impl NamedOperator for GridSample {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "gridSample",
        operands: &[
            operand("input", ANY, (3, 2 + MAX_DIMENSIONS)),
            operand("grid", Types::OneOf(&[crate::dtype::DataType::Float32]), (3, 2 + MAX_DIMENSIONS)),
        ],
        outputs: &[output("output", Types::SameAs("input"), (3, 2 + MAX_DIMENSIONS))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<GridSample, Problem> {
        GridSample::read(attributes)
    }
}

impl Operator for GridSample {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        GridSample::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (input, grid) = (required(inputs, 0), required(inputs, 1));
        if self.mode != Mode::Nearest && !input.dtype.is_float() {
            return Err(Problem::attribute("mode", self.mode.name(), "nearest, as the input has integers"));
        }
        let dimensions = input.rank() - 2;
        let (&last, places) = grid.shape[1..].split_last().expect("the rule requires rank 3");
        let expected = [&input.shape[..1], places, &[Dim::from(dimensions as u32)]].concat();
        if grid.shape[0] != input.shape[0] || last != dimensions as u32 {
            return Err(Problem::Shape { operand: "grid", got: grid.shape.clone(), expected });
        }
        Ok(vec![Descriptor::new(input.dtype, [&input.shape[..2], places].concat())])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, grid) = (required(inputs, 0), required(inputs, 1));
        let sizes = &input.shape()[2..];
        vec![Tensor::from_fn(&outputs[0], |index| {
            let coordinates: Vec<f32> = (0..sizes.len())
                .map(|at| grid.at(&[&index[..1], &index[2..], &[at]].concat()).to_f64() as f32)
                .collect();
            let mut taps = vec![(index[..2].to_vec(), 1.0)];
            for (at, &size) in sizes.iter().enumerate() {
                let along = self.taps(self.coordinate(&coordinates, at), size as u32);
                let along = along.iter().filter_map(|tap| Some((tap.place? as usize, tap.weight as f64)));
                let joined = |(place, weight): &(Vec<usize>, f64)| {
                    let (place, weight) = (place.clone(), *weight);
                    along.clone().map(move |(at, own)| ([&place[..], &[at]].concat(), weight * own)).collect::<Vec<_>>()
                };
                taps = taps.iter().flat_map(joined).collect();
            }
            if self.mode == Mode::Nearest {
                return taps.first().map_or(Number::Int(0), |(place, _)| input.at(place));
            }
            Number::Float(taps.iter().map(|(place, weight)| input.at(place).to_f64() * weight).sum())
        })]
    }
}
