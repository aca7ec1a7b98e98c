//! `gridSample`: elements of images between those of an input, at computed places.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
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
    /// `GridSample` of `[N, ..., channels]` at the coordinates `[N, ..., dimensions]`, the last dimension first.
    pub struct GridSample {
        /// Which elements the result depends on.
        mode "mode": Mode = Mode::Linear,
        /// What is outside of the input.
        padding "padding": Padding = Padding::Zeros,
        /// Whether -1 and 1 are the middles of the outermost elements, not their edges.
        align_corners "alignCorners": bool = false,
    }
}

/// Maximum number of spatial dimensions.
pub const MAX_DIMENSIONS: usize = 3;

/// Where elements are along a dimension of an input.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Number of elements.
    pub size: u32,
    /// What is outside of it.
    pub padding: Padding,
    scale: f32,
    shift: f32,
    /// The place where it is mirrored first, and the distance to the other one.
    mirrors: [f32; 2],
}

impl Axis {
    /// A dimension of `size` elements, with zeros around it.
    pub fn new(size: u32) -> Axis {
        Axis { size, padding: Padding::Zeros, scale: 1.0, shift: 0.0, mirrors: [0.0; 2] }
    }

    /// The place for a coordinate of a grid.
    #[inline(always)]
    pub fn place(&self, coordinate: f32) -> f32 {
        (coordinate + 1.0) * self.scale - self.shift
    }

    /// The nearest place inside; the first one for NaN.
    #[inline(always)]
    pub fn clamped(&self, place: f32) -> f32 {
        place.max(0.0).min(self.last())
    }

    /// A place, mirrored into the dimension.
    #[inline(always)]
    pub fn mirrored(&self, place: f32) -> f32 {
        let [low, range] = self.mirrors;
        // The distance within a period, there and back.
        let from = place - low;
        let there = from - (from * (0.5 / range)).floor() * (2.0 * range);
        there.min(2.0 * range - there) + low
    }

    /// The place of the last element.
    #[inline(always)]
    pub fn last(&self) -> f32 {
        self.size as f32 - 1.0
    }

    /// The elements that one at `place` depends on, and their weights. Those outside do not exist.
    pub fn taps(&self, mode: Mode, place: f32) -> ArrayVec<(usize, f64), 4> {
        let mut taps = ArrayVec::new();
        let mut add = |index: f32, weight: f32| {
            let index = match self.padding {
                Padding::Zeros if index >= 0.0 && index <= self.last() => index,
                Padding::Zeros => return,
                Padding::Border => self.clamped(index),
                Padding::Reflection => self.clamped(self.mirrored(index)),
            };
            taps.push(((index.round_ties_even() as u32).min(self.size - 1) as usize, weight as f64));
        };
        if mode == Mode::Nearest {
            add(place.round_ties_even(), 1.0);
            return taps;
        }
        let place = match self.padding {
            Padding::Reflection => self.mirrored(place),
            // Beyond the border, the four elements around a place are not all the border's.
            Padding::Border if mode == Mode::Linear => self.clamped(place),
            _ => place,
        };
        let (floor, fraction) = (place.floor(), place - place.floor());
        let around = if mode == Mode::Linear { 0..2 } else { -1..3 };
        for offset in around {
            let distance = (fraction - offset as f32).abs();
            add(floor + offset as f32, if mode == Mode::Linear { 1.0 - distance } else { cubic(distance) });
        }
        taps
    }
}

/// The weight of an element at this distance, at most 2.
#[inline(always)]
pub fn cubic(distance: f32) -> f32 {
    const A: f32 = -0.75;
    let near = ((A + 2.0) * distance - (A + 3.0)) * distance * distance + 1.0;
    let far = ((A * distance - 5.0 * A) * distance + 8.0 * A) * distance - 4.0 * A;
    if distance <= 1.0 { near } else { far }
}

/// All elements that one depends on, from those along each dimension of these sizes: their numbers and weights.
pub fn joined(taps: &[ArrayVec<(usize, f64), 4>], sizes: &[usize]) -> Vec<(usize, f64)> {
    taps.iter().zip(sizes).fold(vec![(0, 1.0)], |all, (taps, size)| {
        let join = |&(at, weight): &(usize, f64)| taps.iter().map(move |&(next, own)| (at * size + next, weight * own));
        all.iter().flat_map(join).collect()
    })
}

impl GridSample {
    /// A dimension of `size` elements.
    pub fn axis(&self, size: u32) -> Axis {
        let extent = size as f32;
        let [scale, shift] = if self.align_corners { [(extent - 1.0) / 2.0, 0.0] } else { [extent / 2.0, 0.5] };
        let mirrors = if self.align_corners { [0.0, extent - 1.0] } else { [-0.5, extent] };
        let padding = match self.padding {
            Padding::Reflection if mirrors[1] == 0.0 => Padding::Border,
            padding => padding,
        };
        Axis { size, padding, scale, shift, mirrors }
    }
}

impl NamedOperator for GridSample {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "gridSample",
        operands: &[
            operand("input", DRAFT, (3, 2 + MAX_DIMENSIONS)),
            operand("grid", Types::OneOf(&[DataType::Float32]), (3, 2 + MAX_DIMENSIONS)),
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
        let dimensions = Dim::from(input.rank() as u32 - 2);
        let mut shape = grid.shape.clone();
        let last = shape.len() - 1;
        (shape[0], shape[last]) = (input.shape[0], dimensions);
        if grid.rank() != input.rank() || grid.shape != shape {
            return Err(Problem::Shape { operand: "grid", got: grid.shape.clone(), expected: shape });
        }
        shape[last] = input.shape[input.rank() - 1];
        Ok(vec![Descriptor::new(input.dtype, shape)])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, grid) = (required(inputs, 0), required(inputs, 1));
        let sizes = &input.shape()[1..input.shape().len() - 1];
        vec![Tensor::from_fn(&outputs[0], |index| {
            let (&channel, place) = index.split_last().expect("at least three dimensions");
            let along = |(at, &size): (usize, &usize)| {
                let axis = self.axis(size as u32);
                let coordinate = grid.at(&[place, &[sizes.len() - 1 - at]].concat());
                axis.taps(self.mode, axis.place(coordinate.to_f64() as f32))
            };
            let taps: Vec<_> = sizes.iter().enumerate().map(along).collect();
            let element = |mut at: usize| {
                let mut place = index.to_vec();
                for (place, size) in place[1..].iter_mut().zip(sizes).rev() {
                    (*place, at) = (at % size, at / size);
                }
                *place.last_mut().expect("at least three dimensions") = channel;
                input.at(&place)
            };
            let taps = joined(&taps, sizes);
            match self.mode {
                Mode::Nearest => taps.first().map_or(Number::Int(0), |&(at, _)| element(at)),
                // Elements without weight do not count, whatever they are.
                _ => Number::Float(
                    taps.iter().filter(|tap| tap.1 != 0.0).map(|&(at, weight)| element(at).to_f64() * weight).sum(),
                ),
            }
        })]
    }
}
