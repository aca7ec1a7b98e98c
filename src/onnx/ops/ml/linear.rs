//! Linear models.

use super::scores::{Labels, Other, Transform, both, constant, features, size};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, ml};
use crate::ops::matmul::{Gemm, GemmAttributes};

/// The products of the features `x` with the rows of `coefficients`, plus `intercepts`: `[rows, scores]`.
///
/// # Errors
/// If the numbers of coefficients and intercepts do not fit.
pub fn products(call: &mut Call, x: OperandId, coefficients: &[f64], intercepts: &[f64]) -> Step<OperandId> {
    let (count, width) = (size(intercepts.len())?, call.shape(x)[1]);
    let each = coefficients.len() / intercepts.len().max(1);
    if width != size(each)? || coefficients.len() != each * intercepts.len() {
        let got = coefficients.len();
        return Err(Refusal(format!("coefficients has {got} numbers, expected {count} times the {width} features")));
    }
    let coefficients = constant(call, &[count, size(each)?], coefficients)?;
    let attributes = GemmAttributes { b_transpose: true, ..GemmAttributes::default() };
    if intercepts.iter().all(|&number| number == 0.0) {
        return call.emit(Gemm { attributes }, &[x, coefficients]);
    }
    let intercepts = constant(call, &[count], intercepts)?;
    call.emit(Gemm { attributes }, &[x, coefficients, intercepts])
}

/// The list `name`, which must have elements.
///
/// # Errors
/// If it is missing.
pub fn required_floats(call: &Call, name: &str) -> Step<Vec<f64>> {
    let floats = call.floats_attribute(name).filter(|floats| !floats.is_empty());
    floats.ok_or_else(|| Refusal(format!("{name} is missing")))
}

fn linear_regressor(call: &mut Call) -> Outcome {
    let (x, transform) = (features(call)?, Transform::of(call)?);
    let coefficients = required_floats(call, "coefficients")?;
    let targets = usize::try_from(call.int_or("targets", 1)).unwrap_or(0).min(coefficients.len());
    let intercepts = call.floats_attribute("intercepts").unwrap_or_default();
    let intercepts = if intercepts.is_empty() { vec![0.0; targets] } else { intercepts };
    if intercepts.len() != targets {
        let (got, targets) = (intercepts.len(), call.int_or("targets", 1));
        return Err(Refusal(format!("intercepts has {got} numbers, expected {targets}, one per target")));
    }
    let scores = products(call, x, &coefficients, &intercepts)?;
    let output = transform.apply(call, scores);
    call.one(output)
}

fn linear_classifier(call: &mut Call) -> Outcome {
    let (x, transform) = (features(call)?, Transform::of(call)?);
    let labels = Labels::of(call, "classlabels_strings", "classlabels_ints")?;
    let coefficients = required_floats(call, "coefficients")?;
    let intercepts = required_floats(call, "intercepts")?;
    let scores = products(call, x, &coefficients, &intercepts)?;
    let (label, scores) = match intercepts.len() {
        1 if labels.count() == 2 => {
            let label = labels.of_two(call, scores, 0.0)?;
            (label, both(call, scores, Other::Rest, transform)?)
        }
        count if count == labels.count() => (labels.of_largest(call, scores)?, transform.apply(call, scores)?),
        count => return Err(Refusal(format!("intercepts has {count} numbers for {} labels", labels.count()))),
    };
    Ok(vec![label, Value::Tensor(scores)])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    ml("LinearClassifier", "labels that are texts are not returned", linear_classifier),
    ml("LinearRegressor", "", linear_regressor),
];

#[cfg(test)]
mod tests {
    use crate::onnx::ops::ml::testing::{Input, assert_close, refusal, run};
    use crate::onnx::tensor::ElementType::{Float, String};
    use crate::onnx::testing::{Attr, TestGraph};

    const X: Input = (Float, &[2, 3], &[1.0, -2.0, 0.5, 0.0, 0.0, 0.0]);
    const COEFFICIENTS: [f32; 9] = [0.5, 0.25, 1.0, 1.0, 0.5, -1.0, -0.5, 0.25, 0.5];

    /// The results are those of onnxruntime 1.31, and of later tests of this file too.
    #[test]
    fn two_classes_with_one_score() {
        for (transform, expected) in
            [("NONE", [0.375, 0.625, 0.875, 0.125]), ("LOGISTIC", [0.348_645_1, 0.651_354_9, 0.468_790_6, 0.531_209_4])]
        {
            let attributes = vec![
                ("coefficients", Attr::Floats(&COEFFICIENTS[..3])),
                ("intercepts", Attr::Floats(&[0.125])),
                ("classlabels_ints", Attr::Ints(&[5, 7])),
                ("post_transform", Attr::Text(transform)),
            ];
            let results = run("LinearClassifier", X, "label scores", attributes);
            assert_close(&results[0], &[7.0, 7.0]);
            assert_close(&results[1], &expected);
        }
    }

    #[test]
    fn the_largest_of_several_scores_wins() {
        let attributes = vec![
            ("coefficients", Attr::Floats(&COEFFICIENTS)),
            ("intercepts", Attr::Floats(&[0.125, 0.25, -0.5])),
            ("classlabels_ints", Attr::Ints(&[5, 7, -9])),
            ("post_transform", Attr::Text("SOFTMAX")),
        ];
        let results = run("LinearClassifier", X, "label scores", attributes);
        assert_close(&results[0], &[5.0, 7.0]);
        let expected = [0.636_854_65, 0.265_480_5, 0.097_664_83, 0.374_755, 0.424_653_1, 0.200_591_9];
        assert_close(&results[1], &expected);
    }

    #[test]
    fn labels_can_be_texts() {
        let attributes = vec![
            ("coefficients", Attr::Floats(&COEFFICIENTS[..6])),
            ("intercepts", Attr::Floats(&[0.125, 0.25])),
            ("classlabels_strings", Attr::Texts(&["no", "yes"])),
        ];
        let graph = TestGraph::default().input("x", Float, &["2", "3"]);
        let graph = graph.node("ai.onnx.ml.LinearClassifier", "x", "label scores", attributes);
        let text = graph.output_of("label", String).output("scores").text(17);
        assert!(text.contains("constant int32 [2]") && text.contains("gather"), "{text}");
    }

    #[test]
    fn targets_are_transformed() {
        let attributes = vec![
            ("coefficients", Attr::Floats(&COEFFICIENTS[..6])),
            ("intercepts", Attr::Floats(&[0.125, 0.25])),
            ("targets", Attr::Int(2)),
            ("post_transform", Attr::Text("SOFTMAX_ZERO")),
        ];
        assert_close(
            &run("LinearRegressor", X, "y", attributes)[0],
            &[0.705_785, 0.294_215, 0.468_790_65, 0.531_209_4],
        );
        let attributes = vec![
            ("coefficients", Attr::Floats(&[0.25; 3])),
            ("intercepts", Attr::Floats(&[0.625])),
            ("post_transform", Attr::Text("PROBIT")),
        ];
        assert_close(&run("LinearRegressor", X, "y", attributes)[0], &[0.0, 0.318_651_3]);
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        let coefficients = || ("coefficients", Attr::Floats(&COEFFICIENTS[..4]));
        let message = refusal("LinearRegressor", X, "y", vec![coefficients()]);
        assert!(message.contains("coefficients has 4 numbers, expected 1 times the 3 features"), "{message}");
        let message = refusal("LinearRegressor", X, "y", vec![coefficients(), ("targets", Attr::Int(-1))]);
        assert!(message.contains("coefficients has 4 numbers"), "{message}");
        let intercepts = || ("intercepts", Attr::Floats(&[1.0, 2.0]));
        let message = refusal("LinearRegressor", X, "y", vec![coefficients(), intercepts()]);
        assert!(message.contains("intercepts has 2 numbers, expected 1, one per target"), "{message}");
        let labels = ("classlabels_ints", Attr::Ints(&[1, 2, 3]));
        let coefficients_of_two = ("coefficients", Attr::Floats(&COEFFICIENTS[..6]));
        let message = refusal("LinearClassifier", X, "l s", vec![coefficients_of_two, intercepts(), labels]);
        assert!(message.contains("intercepts has 2 numbers for 3 labels"), "{message}");
        let transform = ("post_transform", Attr::Text("SIGMOID"));
        let message = refusal("LinearRegressor", X, "y", vec![coefficients(), transform]);
        assert!(message.contains("post_transform is SIGMOID, expected NONE,"), "{message}");
    }
}
