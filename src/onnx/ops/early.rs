//! Operators of opsets 1 to 6: forms that later opsets have dropped become those of opset 7, and operators that they
//! have dropped get translations. onnxruntime runs the operators of this file, and most of the forms not.

use super::elementwise::{map, unary};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::shape::Descriptor;

/// The first opset whose operators have today's forms.
const PRESENT: i64 = 7;

/// Gives the inputs of a node of ai.onnx the form of opset 7.
///
/// # Errors
/// If they have none.
pub fn update(call: &mut Call, operator: &str) -> Step<()> {
    if call.opset >= PRESENT {
        return Ok(());
    }
    match operator {
        "Add" | "And" | "Div" | "Equal" | "Greater" | "Less" | "Mul" | "Or" | "Pow" | "Sub" | "Xor" => align(call),
        "PRelu" => slope_of_channels(call),
        "Reshape" if call.opset < 5 => list_of(call, "shape"),
        "Tile" if call.opset < 6 => repeats_of_axis(call),
        "Upsample" if call.opset == 1 => scales_of_pictures(call),
        "Split" if call.opset == 1 && call.value(1).is_some() => {
            Err("sizes (input 1) are not supported in opset 1".into())
        }
        "GlobalLpPool" | "LpPool" if call.opset == 1 && call.float_attribute("p").is_some_and(|p| p != 0.0) => {
            Err("p as a floating-point number is not supported".into())
        }
        _ => Ok(()),
    }
}

/// Reshapes input 1 so that its dimensions lie at those of input 0 from `axis` on: later opsets align the last ones.
fn align(call: &mut Call) -> Step<()> {
    let Some(axis) = call.int_attribute("axis").filter(|_| call.int_or("broadcast", 0) != 0) else { return Ok(()) };
    let (shape, mut given) = (call.input_shape(0)?, call.input_shape(1)?);
    let axis = call.axis(axis, shape.len())? as usize;
    let Some(behind) = shape.len().checked_sub(axis + given.len()) else {
        return Err(Refusal(format!("input 1 of shape {given:?} does not fit into {shape:?} from axis {axis} on")));
    };
    given.extend(vec![Dim::ONE; behind]);
    let operand = call.input(1)?;
    let operand = call.reshape(operand, &given)?;
    call.replace(1, operand);
    Ok(())
}

/// A slope per channel, which is dimension 1: later opsets align the last ones.
fn slope_of_channels(call: &mut Call) -> Step<()> {
    let (rank, given) = (call.input_shape(0)?.len(), call.input_shape(1)?);
    if let [channels] = given[..]
        && rank > 2
        && channels != 1
    {
        let mut shape = vec![Dim::ONE; rank - 1];
        shape[0] = channels;
        let slope = call.input(1)?;
        let slope = call.reshape(slope, &shape)?;
        call.replace(1, slope);
    }
    Ok(())
}

/// Makes the integers of an attribute input 1.
fn list_of(call: &mut Call, name: &str) -> Step<()> {
    let ints = call.ints_attribute(name).ok_or_else(|| Refusal(format!("{name} is missing")))?;
    int_input(call, &ints)
}

fn int_input(call: &mut Call, ints: &[i64]) -> Step<()> {
    let bytes: Vec<u8> = ints.iter().flat_map(|int| int.to_le_bytes()).collect();
    let list = call.constant_from_bytes(Descriptor::new(DataType::Int64, [ints.len() as u32]), &bytes)?;
    call.replace(1, list);
    Ok(())
}

/// The repetitions of one dimension, for all dimensions.
fn repeats_of_axis(call: &mut Call) -> Step<()> {
    let (tiles, axis) = (call.one_number(1, "tiles")?, call.one_number(2, "axis")?);
    let rank = call.input_shape(0)?.len();
    let axis = call.axis(axis.to_f64() as i64, rank)? as usize;
    let mut repeats = vec![1; rank];
    repeats[axis] = tiles.to_f64() as i64;
    int_input(call, &repeats)
}

/// The scales of height and width, for all four dimensions.
fn scales_of_pictures(call: &mut Call) -> Step<()> {
    let scales = [1.0, 1.0, call.float_or("height_scale", 0.0), call.float_or("width_scale", 0.0)];
    let bytes: Vec<u8> = scales.iter().flat_map(|&scale| (scale as f32).to_le_bytes()).collect();
    let scales = call.constant_from_bytes(Descriptor::new(DataType::Float32, [4]), &bytes)?;
    call.replace(1, scales);
    Ok(())
}

/// `alpha * x + beta`.
fn affine(call: &mut Call) -> Outcome {
    let (alpha, beta) = (call.float_or("alpha", 1.0), call.float_or("beta", 0.0));
    unary(call, E::Linear { alpha, beta })
}

/// Scales pictures, and adds a bias to each channel.
fn image_scaler(call: &mut Call) -> Outcome {
    let (alpha, bias) = (call.float_or("scale", 1.0), call.floats_attribute("bias").unwrap_or_default());
    map(call, |call, x| {
        let scaled = call.emit(E::Linear { alpha, beta: 0.0 }, &[x])?;
        if bias.is_empty() {
            return Ok(scaled);
        }
        let dtype = call.dtype(x);
        let bytes: Vec<u8> = bias.iter().flat_map(|&number| Number::Float(number).to_bytes(dtype)).collect();
        let bias = call.constant_from_bytes(Descriptor::new(dtype, [1, bias.len() as u32, 1, 1]), &bytes)?;
        call.add(scaled, bias)
    })
}

/// `alpha * f(beta * x)`.
fn scaled(call: &mut Call, f: E) -> Outcome {
    let (alpha, beta) = (call.float_or("alpha", 1.0), call.float_or("beta", 1.0));
    map(call, |call, x| {
        let inner = call.emit(E::Linear { alpha: beta, beta: 0.0 }, &[x])?;
        let value = call.emit(f, &[inner])?;
        call.emit(E::Linear { alpha, beta: 0.0 }, &[value])
    })
}

/// Cuts pictures. `border` has what is cut at the left, top, right and bottom, or with `scale` where the result of this
/// height and width begins.
fn crop(call: &mut Call) -> Outcome {
    let border = call.ints_attribute("border").unwrap_or_default();
    let Ok([left, top, right, bottom]) = <[i64; 4]>::try_from(border) else {
        return Err("border has not four numbers".into());
    };
    let size = call.ints_attribute("scale");
    map(call, |call, x| {
        let shape = call.sizes(x);
        if shape.len() != 4 {
            return Err(Refusal(format!("input 0 has shape {shape:?}, expected four dimensions")));
        }
        let mut y = x;
        for (at, (axis, start, end)) in [(2, top, bottom), (3, left, right)].into_iter().enumerate() {
            let whole = i64::from(shape[axis]);
            let end = match size.as_ref().and_then(|size| size.get(at)) {
                Some(size) => start.saturating_add(*size),
                None => whole.saturating_sub(end),
            };
            if start < 0 || end <= start || end > whole {
                return Err(Refusal(format!("the part from {start} to {end} of dimension {axis} is not in {shape:?}")));
            }
            y = call.slice_axis(y, axis, start as u32, (end - start) as u32)?;
        }
        Ok(y)
    })
}

/// The operators of this family: they were experimental, and left the standard with opset 10 or before.
pub const OPERATORS: &[Entry] = &[
    standard("Affine", "", affine),
    standard("Crop", "", crop),
    standard("ImageScaler", "", image_scaler),
    standard("ParametricSoftplus", "", |call| scaled(call, E::Softplus)),
    standard("ScaledTanh", "", |call| scaled(call, E::Tanh)),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::*;
    use crate::ops::tensor::Tensor;
    use std::collections::HashMap;

    /// What a graph of this opset computes of x = 1, 2, 3, ... as its output `y`.
    fn computed(graph: TestGraph, opset: i64) -> Vec<f64> {
        let graph = graph.output("y").import(opset, &Default::default()).unwrap();
        let counting = |(name, id): &(String, _)| {
            let mut next = 0.0;
            let tensor = Tensor::from_fn(graph.descriptor(*id), |_| {
                next += 1.0;
                crate::dtype::Number::Float(next)
            });
            (name.clone(), tensor)
        };
        let inputs: HashMap<_, _> = graph.inputs.iter().map(counting).collect();
        y_of(&graph, &inputs)
    }

    fn picture() -> TestGraph {
        TestGraph::default().input("x", Float, &["1", "2", "2", "3"])
    }

    #[test]
    fn the_axis_of_opset_6_says_where_shapes_meet() {
        let graph = || picture().floats("b", &[2], &[10.0, 100.0]);
        let at = |axis| vec![("broadcast", Attr::Int(1)), ("axis", Attr::Int(axis))];
        let channels = [11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 107.0, 108.0, 109.0, 110.0, 111.0, 112.0];
        assert_eq!(computed(graph().node("Add", "x b", "y", at(1)), 6), channels);
        let rows = [11.0, 12.0, 13.0, 104.0, 105.0, 106.0, 17.0, 18.0, 19.0, 110.0, 111.0, 112.0];
        assert_eq!(computed(graph().node("Add", "x b", "y", at(2)), 1), rows);
        let refusal = graph().node("Add", "x b", "y", at(3)).output("y").refusal(6);
        assert!(refusal.contains("y] Add") || refusal.contains("Add"), "{refusal}");
        // Since opset 7, the attributes mean nothing.
        let refusal = graph().node("Add", "x b", "y", at(1)).output("y").refusal(7);
        assert!(refusal.contains("broadcast"), "{refusal}");
        let slopes = picture().floats("s", &[2], &[0.5, 2.0]).node("Neg", "x", "n", vec![]);
        let y = computed(slopes.node("PRelu", "n s", "y", vec![]), 6);
        assert_eq!((y[0], y[11]), (-0.5, -24.0));
    }

    #[test]
    fn early_forms_become_those_of_opset_7() {
        let reshaped = picture().node("Reshape", "x", "y", vec![("shape", Attr::Ints(&[3, -1]))]);
        assert_eq!(reshaped.output("y").output_shape(1), [3, 4]);
        let tiled = picture().ints("n", &[2]).ints("axis", &[3]).node("Tile", "x n axis", "y", vec![]);
        assert_eq!(computed(tiled, 1)[..6], [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        let scales = vec![("height_scale", Attr::Float(2.0)), ("width_scale", Attr::Float(1.0))];
        assert_eq!(computed(picture().node("Upsample", "x", "y", scales), 1)[..6], [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        let cast = picture().node("Cast", "x", "i", vec![("to", Attr::Text("INT32"))]);
        let cast = cast.node("Cast", "i", "y", vec![("to", Attr::Text("FLOAT"))]);
        assert_eq!(computed(cast, 5)[10..], [11.0, 12.0]);
        let refusal = picture().node("Cast", "x", "y", vec![("to", Attr::Text("DECIMAL"))]).output("y").refusal(5);
        assert!(refusal.contains("to is DECIMAL, which is not an element type"), "{refusal}");
        let padded = picture().node("Pad", "x", "y", vec![("paddings", Attr::Ints(&[0, 0, 0, 0, 0, 0, 0, 1]))]);
        assert_eq!(computed(padded, 1)[..5], [1.0, 2.0, 3.0, 0.0, 4.0]);
    }

    #[test]
    fn operators_that_left_the_standard() {
        let y = computed(
            picture().node("Affine", "x", "y", vec![("alpha", Attr::Float(2.0)), ("beta", Attr::Float(-1.0))]),
            6,
        );
        assert_eq!(y[..3], [1.0, 3.0, 5.0]);
        let attributes = vec![("scale", Attr::Float(0.5)), ("bias", Attr::Floats(&[1.0, -1.0]))];
        let y = computed(picture().node("ImageScaler", "x", "y", attributes), 6);
        assert_eq!((y[0], y[11]), (1.5, 5.0));
        let y = computed(picture().node("Crop", "x", "y", vec![("border", Attr::Ints(&[1, 0, 1, 1]))]), 6);
        assert_eq!(y, [2.0, 8.0]);
        let attributes = vec![("border", Attr::Ints(&[0, 1, 0, 0])), ("scale", Attr::Ints(&[1, 2]))];
        assert_eq!(computed(picture().node("Crop", "x", "y", attributes), 6), [4.0, 5.0, 10.0, 11.0]);
        let both = || vec![("alpha", Attr::Float(3.0)), ("beta", Attr::Float(0.5))];
        let y = computed(picture().node("ScaledTanh", "x", "y", both()), 6);
        assert!((y[0] - 3.0 * 0.5f64.tanh()).abs() < 1e-6);
        let y = computed(picture().node("ParametricSoftplus", "x", "y", both()), 6);
        assert!((y[1] - 3.0 * (1f64.exp() + 1.0).ln()).abs() < 1e-6);
        let refusal =
            picture().node("Crop", "x", "y", vec![("border", Attr::Ints(&[2, 0, 1, 0]))]).output("y").refusal(6);
        assert!(refusal.contains("the part from 2 to 2 of dimension 3 is not in [1, 2, 2, 3]"), "{refusal}");
    }
}
