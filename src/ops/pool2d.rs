//! Pooling: section "Pooling operations" of the draft.
//!
//! Elements in the padding do not count: an average is divided by the number of image elements that the window covers.
//! A window that covers none yields 0 as average and as L2 norm, and the smallest value of the data type (`-Infinity`
//! for floating-point types) as maximum.
//!
//! The draft's steps for `outputSizes` ignore `padding` and require sizes below the strides, contrary to its prose and
//! its tests. Here, `padding` counts, and the sizes must be the calculated ones, both rounded down or both rounded up.

use super::attributes::Attributes;
use super::rule::*;
use super::spatial::{Image, InputLayout, Slide, exactly, output_dimension, positive, slides};
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, no_operator, required, row};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::shape::Descriptor;

/// The function of a window's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the methods of the draft")]
pub enum PoolKind {
    Average,
    L2,
    Max,
}

crate::enumeration! {
    /// `MLRoundingType`: how the size of the output is rounded.
    pub enum Rounding {
        /// Down: only whole windows count.
        Floor = "floor",
        /// Up: partial windows count.
        Ceil = "ceil",
    }
}

crate::attributes! {
    /// `MLPool2dOptions`.
    pub struct Pool2dAttributes {
        /// Height and width of the window; by default those of the input.
        window_dimensions "windowDimensions": Option<Vec<u32>> = None,
        /// Leading and trailing padding of the height, then of the width.
        padding "padding": Vec<Dim> = vec![Dim::number(0); 4],
        /// Strides along height and width.
        strides "strides": Vec<u32> = vec![1; 2],
        /// Dilations along height and width.
        dilations "dilations": Vec<u32> = vec![1; 2],
        /// Layout of the input and the output.
        layout "layout": InputLayout = InputLayout::Nchw,
        /// How the sizes of the output are rounded.
        output_shape_rounding "outputShapeRounding": Rounding = Rounding::Floor,
        /// Height and width of the output; replaces `outputShapeRounding`.
        output_sizes "outputSizes": Option<Vec<u32>> = None,
    }
}

/// A pooling operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool2d {
    /// The function.
    pub kind: PoolKind,
    /// The options.
    pub attributes: Pool2dAttributes,
}

impl Pool2d {
    /// How the window moves along height and width of `image`; `read` converts paddings.
    ///
    /// # Errors
    /// If a list among the attributes has the wrong length or contains an invalid 0.
    pub fn slides<D>(&self, image: Image<D>, read: impl Fn(Dim) -> D) -> Result<[Slide<D>; 2], Problem>
    where
        D: Copy + From<u32>,
    {
        let a = &self.attributes;
        let window = match &a.window_dimensions {
            Some(window) => positive("windowDimensions", window)?.map(D::from),
            None => [image.height, image.width],
        };
        Ok(slides(
            image,
            window,
            exactly("padding", &a.padding)?.map(read),
            positive("strides", &a.strides)?,
            positive("dilations", &a.dilations)?,
        ))
    }

    /// The height and width of the output for windows that move by `slides`.
    fn output_sizes(&self, slides: [Slide<Dim>; 2]) -> Result<[Dim; 2], Problem> {
        let floor = slides.map(|slide| slide.outputs().0);
        let ceil = slides.map(|slide| slide.outputs().1);
        let sizes = match (&self.attributes.output_sizes, self.attributes.output_shape_rounding) {
            (Some(sizes), _) => {
                let sizes = exactly::<_, 2>("outputSizes", sizes)?.map(Dim::from);
                if sizes != floor && sizes != ceil {
                    return Err(Problem::attribute("outputSizes", sizes, format!("{floor:?} or {ceil:?}")));
                }
                sizes
            }
            (None, Rounding::Floor) => floor,
            (None, Rounding::Ceil) => ceil,
        };
        Ok([output_dimension("output height", sizes[0])?, output_dimension("output width", sizes[1])?])
    }

    /// The result for the elements of a window.
    fn pool(&self, values: &[Number], dtype: DataType) -> Number {
        if let Some((lowest, _)) = dtype.integer_range() {
            let int = |value: &Number| match value {
                Number::Int(x) => *x,
                Number::Float(x) => panic!("{x} in an integer tensor"),
            };
            return Number::Int(values.iter().map(int).max().unwrap_or(lowest));
        }
        let x: Vec<f64> = values.iter().map(|value| value.to_f64()).collect();
        Number::Float(match self.kind {
            PoolKind::Average => x.iter().sum::<f64>() / x.len().max(1) as f64,
            PoolKind::L2 => x.iter().map(|x| x * x).sum::<f64>().sqrt(),
            PoolKind::Max => x.iter().fold(f64::NEG_INFINITY, |a, &b| if a.is_nan() || a > b { a } else { b }),
        })
    }
}

const fn pool(name: &'static str, operands: &'static [OperandRule]) -> OpRule {
    const OUTPUTS: &[OutputRule] = &[output("output", Types::SameAs("input"), (4, 4))];
    OpRule { name, operands, outputs: OUTPUTS }
}

impl NamedOperator for Pool2d {
    const RULES: &'static [OpRule] = &[
        pool("averagePool2d", &[operand("input", FLOATS, (4, 4))]),
        pool("l2Pool2d", &[operand("input", FLOATS, (4, 4))]),
        pool("maxPool2d", &[operand("input", DRAFT, (4, 4))]),
    ];

    fn read(name: &str, attributes: &mut Attributes) -> Result<Pool2d, Problem> {
        let kind = match name {
            "averagePool2d" => PoolKind::Average,
            "l2Pool2d" => PoolKind::L2,
            "maxPool2d" => PoolKind::Max,
            _ => return Err(no_operator(name)),
        };
        Ok(Pool2d { kind, attributes: Pool2dAttributes::read(attributes)? })
    }
}

impl Operator for Pool2d {
    fn rule(&self) -> &'static OpRule {
        row(
            Self::RULES,
            match self.kind {
                PoolKind::Average => "averagePool2d",
                PoolKind::L2 => "l2Pool2d",
                PoolKind::Max => "maxPool2d",
            },
        )
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let layout = self.attributes.layout.transposed(axes)?;
        Some(Pool2d { attributes: Pool2dAttributes { layout, ..self.attributes.clone() }, ..self.clone() })
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.attributes.padding.iter_mut().for_each(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let image = self.attributes.layout.image(&input.shape);
        let [height, width] = self.output_sizes(self.slides(image, |dim| dim)?)?;
        Ok(vec![Descriptor::new(input.dtype, self.attributes.layout.shape(Image { height, width, ..image }))])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let layout = self.attributes.layout;
        let image = layout.image(&input.descriptor().sizes());
        let slides = self.slides(image, Dim::get).expect("inferred");
        vec![Tensor::from_fn(&outputs[0], |index| {
            let [batch, channel, y, x] = layout.axes().map(|axis| index[axis]);
            // Takes the positions of the dilated window one by one, skipping those outside of the image.
            let positions = |slide: Slide, at: usize| {
                (0..slide.window as i64)
                    .map(move |k| at as i64 * slide.stride as i64 - slide.begin as i64 + k * slide.dilation as i64)
                    .filter(move |position| (0..slide.input as i64).contains(position))
            };
            let values: Vec<Number> = positions(slides[0], y)
                .flat_map(|y| positions(slides[1], x).map(move |x| (y as usize, x as usize)))
                .map(|(y, x)| input.at(&layout.index(batch, channel, y, x)))
                .collect();
            self.pool(&values, input.dtype)
        })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;
    use crate::dtype::DataType::{Float32, Int8};

    fn infer(attributes: Pool2dAttributes, input: [u32; 4]) -> Result<Vec<u32>, String> {
        let input = Descriptor::new(Float32, input);
        let outputs = Pool2d { kind: PoolKind::Average, attributes }.infer(&[Some(&input)]);
        outputs.map(|mut outputs| outputs.remove(0).sizes().to_vec()).map_err(|problem| problem.to_string())
    }

    fn window(window: u32, stride: u32) -> Pool2dAttributes {
        Pool2dAttributes { window_dimensions: Some(vec![window; 2]), strides: vec![stride; 2], ..Default::default() }
    }

    #[test]
    fn shapes() {
        assert_eq!(infer(Pool2dAttributes::default(), [1, 2, 5, 7]).unwrap(), [1, 2, 1, 1]);
        assert_eq!(infer(window(3, 2), [1, 2, 5, 7]).unwrap(), [1, 2, 2, 3]);
        let nhwc = Pool2dAttributes { layout: InputLayout::Nhwc, ..window(3, 2) };
        assert_eq!(infer(nhwc, [1, 5, 7, 2]).unwrap(), [1, 2, 3, 2]);
        let padded = Pool2dAttributes { padding: dims(&[1, 0, 0, 1]), ..window(3, 2) };
        assert_eq!(infer(padded.clone(), [1, 2, 5, 5]).unwrap(), [1, 2, 2, 2]);
        let ceil = Pool2dAttributes { output_shape_rounding: Rounding::Ceil, ..padded.clone() };
        assert_eq!(infer(ceil.clone(), [1, 2, 5, 5]).unwrap(), [1, 2, 3, 3]);
        let sized = |sizes: [u32; 2], attributes| Pool2dAttributes { output_sizes: Some(sizes.to_vec()), ..attributes };
        assert_eq!(infer(sized([2, 2], ceil), [1, 2, 5, 5]).unwrap(), [1, 2, 2, 2]);
        assert_eq!(infer(sized([3, 3], padded.clone()), [1, 2, 5, 5]).unwrap(), [1, 2, 3, 3]);
        assert_eq!(
            infer(sized([2, 3], padded), [1, 2, 5, 5]).unwrap_err(),
            "outputSizes is [2, 3], expected [2, 2] or [3, 3]"
        );
    }

    #[test]
    fn mismatches_are_named() {
        assert_eq!(
            infer(window(0, 1), [1, 2, 5, 5]).unwrap_err(),
            "windowDimensions is [0, 0], expected numbers above 0"
        );
        assert_eq!(infer(window(1, 0), [1, 2, 5, 5]).unwrap_err(), "strides is [0, 0], expected numbers above 0");
        assert_eq!(
            infer(window(7, 1), [1, 2, 5, 5]).unwrap_err(),
            "output height is -1, expected a dimension between 1 and 2147483647"
        );
        let hostile = Pool2dAttributes {
            dilations: vec![u32::MAX; 2],
            padding: dims(&[u32::MAX; 4]),
            window_dimensions: Some(vec![u32::MAX; 2]),
            ..Default::default()
        };
        assert!(infer(hostile, [1, 2, 5, 5]).unwrap_err().starts_with("output height is -"));
    }

    #[test]
    fn windows_without_elements() {
        let of = |kind, dtype| Pool2d { kind, attributes: Default::default() }.pool(&[], dtype);
        assert_eq!(of(PoolKind::Average, Float32), Number::Float(0.0));
        assert_eq!(of(PoolKind::L2, Float32), Number::Float(0.0));
        assert_eq!(of(PoolKind::Max, Float32), Number::Float(f64::NEG_INFINITY));
        assert_eq!(of(PoolKind::Max, Int8), Number::Int(-128));
    }
}
