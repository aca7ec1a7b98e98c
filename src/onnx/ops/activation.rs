//! Activations.

use super::elementwise::{is_unsigned, map, unary};
use crate::dtype::Number;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;

fn hard_sigmoid(call: &mut Call) -> Outcome {
    let op = E::HardSigmoid { alpha: call.float_or("alpha", 0.2), beta: call.float_or("beta", 0.5) };
    unary(call, op)
}

/// `gamma * elu(x)`.
fn selu(call: &mut Call) -> Outcome {
    let (alpha, gamma) = (call.float_or("alpha", 1.673_263_2), call.float_or("gamma", 1.050_701));
    map(call, |call, x| {
        let elu = call.emit(E::Elu { alpha }, &[x])?;
        call.scale(elu, gamma)
    })
}

/// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.
fn celu(call: &mut Call) -> Outcome {
    let alpha = call.float_or("alpha", 1.0);
    map(call, |call, x| {
        if alpha == 1.0 {
            return call.emit(E::Elu { alpha }, &[x]);
        }
        let divisor = call.scalar_like(x, alpha)?;
        let ratio = call.div(x, divisor)?;
        // `elu` computes `exp(x) - 1` without cancellation. The positive part, which it leaves unchanged, is cut off
        // below.
        let below = call.emit(E::Elu { alpha: 1.0 }, &[ratio])?;
        let below = call.scale(below, alpha)?;
        let zero = call.scalar_like(x, 0.0)?;
        let below = call.emit(E::Min, &[below, zero])?;
        let above = call.emit(E::Relu, &[x])?;
        call.add(above, below)
    })
}

/// `x` above `alpha`, 0 elsewhere.
fn thresholded_relu(call: &mut Call) -> Outcome {
    let alpha = call.float_or("alpha", 1.0);
    map(call, |call, x| {
        let (threshold, zero) = (call.scalar_like(x, alpha)?, call.scalar_like(x, 0.0)?);
        let is_above = call.emit(E::Greater, &[x, threshold])?;
        call.select(is_above, x, zero)
    })
}

/// `x + bias` below `-lambd`, `x - bias` above `lambd`, 0 between.
fn shrink(call: &mut Call) -> Outcome {
    let (bias, lambd) = (call.float_or("bias", 0.0), call.float_or("lambd", 0.5));
    map(call, |call, x| {
        let is_float = call.dtype(x).is_float();
        if !is_float && bias.fract() != 0.0 {
            return Err(Refusal(format!("bias is {bias}, expected a whole number for integers")));
        }
        // For integers, above a number means above its floor.
        let (low, high) = if is_float { (-lambd, lambd) } else { ((-lambd).ceil(), lambd.floor()) };
        let zero = call.scalar_like(x, 0.0)?;
        let (low, high) = (call.scalar_like(x, low)?, call.scalar_like(x, high)?);
        let bias = call.scalar_like(x, bias)?;
        let (raised, lowered) = (call.add(x, bias)?, call.sub(x, bias)?);
        let is_above = call.emit(E::Greater, &[x, high])?;
        let output = call.select(is_above, lowered, zero)?;
        let is_below = call.emit(E::Lesser, &[x, low])?;
        call.select(is_below, raised, output)
    })
}

/// `x * tanh(softplus(x))`.
fn mish(call: &mut Call) -> Outcome {
    map(call, |call, x| {
        let softplus = call.emit(E::Softplus, &[x])?;
        let gate = call.emit(E::Tanh, &[softplus])?;
        call.mul(x, gate)
    })
}

/// `x * sigmoid(alpha * x)`.
pub fn swish(call: &mut Call, x: OperandId, alpha: f64) -> Step<OperandId> {
    if alpha != 1.0 {
        return call.emit(E::Swish { alpha }.into_operation(), &[x]);
    }
    // Which the compiler knows.
    let gate = call.emit(E::Sigmoid, &[x])?;
    call.mul(x, gate)
}

/// The swish of input 0, times input 1.
fn swiglu(call: &mut Call) -> Outcome {
    let alpha = call.float_or("alpha", 1.0);
    let shapes = [call.input_shape(0)?, call.input_shape(1)?];
    if shapes[0] != shapes[1] {
        return Err(Refusal(format!("the inputs have shapes {:?} and {:?}, expected the same", shapes[0], shapes[1])));
    }
    map(call, |call, gate| {
        let (gate, value) = (swish(call, gate, alpha)?, call.input(1)?);
        call.mul(gate, value)
    })
}

fn gelu(call: &mut Call) -> Outcome {
    match call.text_or("approximate", "none").as_str() {
        "none" => unary(call, E::Gelu),
        "tanh" => unary(call, E::TanhGelu),
        other => Err(Refusal(format!("approximate is {other}, expected none or tanh"))),
    }
}

/// `prelu()`; the slope broadcasts to the input.
fn prelu(call: &mut Call) -> Outcome {
    map(call, |call, x| {
        if is_unsigned(call.dtype(x)) {
            return Ok(x);
        }
        let slope = call.input(1)?;
        let (shape, slope_shape) = (call.shape(x), call.shape(slope));
        if !crate::shape::broadcasts_to(&slope_shape, &shape) {
            return Err(Refusal(format!("slope has shape {slope_shape:?}, which does not broadcast to {shape:?}")));
        }
        // A single slope for all elements allows a simpler operator.
        match call.number_of(slope) {
            Some(Number::Float(alpha)) => call.emit(E::LeakyRelu { alpha }, &[x]),
            _ => call.emit(E::Prelu, &[x, slope]),
        }
    })
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Celu", "", celu),
    standard("Elu", "", |call| {
        let alpha = call.float_or("alpha", 1.0);
        unary(call, E::Elu { alpha })
    }),
    standard("Gelu", "", gelu),
    standard("HardSigmoid", "", hard_sigmoid),
    standard("HardSwish", "", |call| unary(call, E::HardSwish)),
    standard("LeakyRelu", "", |call| {
        let alpha = call.float_or("alpha", 0.01);
        unary(call, E::LeakyRelu { alpha })
    }),
    standard("Mish", "", mish),
    standard("PRelu", "", prelu),
    standard("Relu", "", |call| unary(call, E::Relu)),
    standard("Selu", "", selu),
    standard("Shrink", "a whole bias for integers", shrink),
    standard("Sigmoid", "", |call| unary(call, E::Sigmoid)),
    standard("Softplus", "", |call| unary(call, E::Softplus)),
    standard("Softsign", "", |call| unary(call, E::Softsign)),
    standard("SwiGLU", "", swiglu),
    standard("Swish", "", |call| {
        let alpha = call.float_or("alpha", 1.0);
        map(call, |call, x| swish(call, x, alpha))
    }),
    standard("Tanh", "", |call| unary(call, E::Tanh)),
    standard("ThresholdedRelu", "", thresholded_relu),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::{Float, Int32};
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn gelu_is_one_operator() {
        let text = |approximate| {
            let graph = TestGraph::default().input("x", Float, &["2"]);
            graph.node("Gelu", "x", "y", vec![("approximate", Attr::Text(approximate))]).output("y").text(20)
        };
        assert!(text("none").contains("%1 = gelu %0"));
        assert!(text("tanh").contains("%1 = tanhGelu %0"));
    }

    #[test]
    fn one_slope_makes_a_leaky_relu() {
        let graph = TestGraph::default().input("x", Float, &["2", "3"]).floats("slope", &[1], &[0.25]);
        let text = graph.node("PRelu", "x slope", "y", vec![]).output("y").text(16);
        assert!(text.contains("leakyRelu %0 alpha=0.25"), "{text}");
        let graph = TestGraph::default().input("x", Float, &["3"]).input("slope", Float, &["2", "3"]);
        let refusal = graph.node("PRelu", "x slope", "y", vec![]).output("y").refusal(16);
        assert!(refusal.contains("slope has shape [2, 3], which does not broadcast to [3]"), "{refusal}");
    }

    #[test]
    fn a_swish_times_a_value() {
        let graph = TestGraph::default().input("x", Float, &["2", "3"]).input("b", Float, &["2", "3"]);
        let text = graph.node("SwiGLU", "x b", "y", vec![("alpha", Attr::Float(0.5))]).output("y").text(28);
        assert!(text.contains("%2 = swish %0 alpha=0.5") && text.contains("mul %2 %1"), "{text}");
        let graph = TestGraph::default().input("x", Float, &["2", "3"]).input("b", Float, &["3"]);
        let refusal = graph.node("SwiGLU", "x b", "y", vec![]).output("y").refusal(28);
        assert!(refusal.contains("the inputs have shapes [2, 3] and [3], expected the same"), "{refusal}");
    }

    #[test]
    fn shrink_refuses_fractional_biases_for_integers() {
        let graph = TestGraph::default().input("x", Int32, &["2"]);
        let refusal = graph.node("Shrink", "x", "y", vec![("bias", Attr::Float(0.5))]).output("y").refusal(16);
        assert!(refusal.contains("bias is 0.5, expected a whole number"), "{refusal}");
    }
}
