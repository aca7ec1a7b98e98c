//! Support vector machines, as libsvm computes them.

use super::linear::{products, required_floats};
use super::scores::{Labels, Other, Transform, both, constant, features, size};
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::constants::check_generated;
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, ml};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::pairwise_coupling::PairwiseCoupling;
use crate::ops::reduce::ReduceKind;

/// The smallest probability of a class against another one, and the distance of the largest one from 1.
const LEAST_PROBABILITY: f64 = 1e-7;

/// The attributes `kernel_params`.
struct Parameters {
    gamma: f64,
    coef0: f64,
    degree: f64,
}

impl Parameters {
    fn of(call: &Call) -> Step<Parameters> {
        match call.floats_attribute("kernel_params").unwrap_or_default()[..] {
            [gamma, coef0, degree] => Ok(Parameters { gamma, coef0, degree }),
            ref other => Err(Refusal(format!("kernel_params has {} numbers, expected 3", other.len()))),
        }
    }
}

/// The kernel of the features `x` and each of `count` support vectors: `[rows, count]`.
fn kernels(call: &mut Call, x: OperandId, count: usize) -> Step<OperandId> {
    let mut vectors = required_floats(call, "support_vectors")?;
    let (rows, columns) = (size(count)?, call.shape(x)[1]);
    let width = vectors.len() / count;
    if columns != size(width)? || vectors.len() != width * count {
        let got = vectors.len();
        return Err(Refusal(format!(
            "support_vectors has {got} numbers, expected {count} times the {columns} features"
        )));
    }
    let kernel = call.text_or("kernel_type", "LINEAR");
    if kernel == "RBF" {
        return radial(call, x, &mut vectors, width);
    }
    let vectors = constant(call, &[rows, size(width)?], &vectors)?;
    let vectors = call.transpose_last(vectors)?;
    let products = call.matmul(x, vectors)?;
    if kernel == "LINEAR" {
        return Ok(products);
    }
    let Parameters { gamma, coef0, degree } = Parameters::of(call)?;
    let scaled = call.linear(products, gamma, coef0)?;
    match kernel.as_str() {
        "POLY" => {
            let degree = call.scalar_like(scaled, degree)?;
            call.emit(E::Pow, &[scaled, degree])
        }
        "SIGMOID" => call.emit(E::Tanh, &[scaled]),
        _ => Err(Refusal(format!("kernel_type is {kernel}, expected LINEAR, POLY, RBF or SIGMOID"))),
    }
}

/// `exp(-gamma * |x - v|^2)`, where `|x - v|^2` is `|x|^2 + |v|^2 - 2 x v`: of vectors around their mean, so that
/// little of these terms cancels.
fn radial(call: &mut Call, x: OperandId, vectors: &mut [f64], width: usize) -> Step<OperandId> {
    let count = vectors.len() / width;
    let mut mean = vec![0.0; width];
    for vector in vectors.chunks_exact(width) {
        mean.iter_mut().zip(vector).for_each(|(mean, number)| *mean += number / count as f64);
    }
    // Rounded as `x - mean` is in float32.
    mean.iter_mut().for_each(|mean| *mean = f64::from(*mean as f32));
    for vector in vectors.chunks_exact_mut(width) {
        vector.iter_mut().zip(&mean).for_each(|(number, mean)| *number -= mean);
    }
    let squares: Vec<f64> = vectors.chunks_exact(width).map(|vector| vector.iter().map(|x| x * x).sum()).collect();
    let [count, width] = [size(count)?, size(width)?];
    let mean = constant(call, &[width], &mean)?;
    let x = call.sub(x, mean)?;
    let vectors = constant(call, &[count, width], vectors)?;
    let vectors = call.transpose_last(vectors)?;
    let products = call.matmul(x, vectors)?;
    let doubled = call.scale(products, -2.0)?;
    let squares = constant(call, &[count], &squares)?;
    let with_vectors = call.add(doubled, squares)?;
    let of_rows = call.reduce(ReduceKind::SumSquare, x, &[1], true)?;
    let distances = call.add(with_vectors, of_rows)?;
    let distances = call.emit(E::Relu, &[distances])?;
    let scaled = call.scale(distances, -Parameters::of(call)?.gamma)?;
    call.emit(E::Exp, &[scaled])
}

fn svm_regressor(call: &mut Call) -> Outcome {
    let x = features(call)?;
    let (coefficients, rho) = (required_floats(call, "coefficients")?, required_floats(call, "rho")?);
    let count = call.int_or("n_supports", 0);
    let scores = match usize::try_from(count) {
        Ok(0) => products(call, x, &coefficients, &rho[..1])?,
        Ok(count) if count == coefficients.len() => {
            let kernels = kernels(call, x, count)?;
            products(call, kernels, &coefficients, &rho[..1])?
        }
        _ => return Err(Refusal(format!("n_supports is {count} for {} coefficients", coefficients.len()))),
    };
    // As in onnxruntime, there is no transform.
    if call.int_or("one_class", 0) == 0 {
        return Ok(vec![Value::Tensor(scores)]);
    }
    let [zero, one, other] =
        [call.scalar_like(scores, 0.0)?, call.scalar_like(scores, 1.0)?, call.scalar_like(scores, -1.0)?];
    let is_inside = call.emit(E::Greater, &[scores, zero])?;
    let output = call.select(is_inside, one, other);
    call.one(output)
}

/// The pairs of `classes` classes, in the order of their decisions.
fn pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..classes).flat_map(move |first| (first + 1..classes).map(move |second| (first, second)))
}

/// The decisions between the classes of each pair: above 0 for the first.
fn decisions(call: &mut Call, x: OperandId, sizes: &[usize]) -> Step<OperandId> {
    let (classes, count) = (sizes.len(), sizes.iter().sum::<usize>());
    let (coefficients, rho) = (required_floats(call, "coefficients")?, required_floats(call, "rho")?);
    let number = classes * (classes - 1) / 2;
    if coefficients.len() != (classes - 1) * count || rho.len() != number {
        let (got, others) = (coefficients.len(), rho.len());
        let expected = format!("{} coefficients and {number} numbers of rho", (classes - 1) * count);
        return Err(Refusal(format!("there are {got} coefficients and {others} numbers of rho, expected {expected}")));
    }
    let kernels = kernels(call, x, count)?;
    check_generated((count as u64).saturating_mul(number as u64))?;
    call.check_lists(count * number * size_of::<f64>())?;
    let starts: Vec<usize> = sizes.iter().scan(0, |sum, size| Some(std::mem::replace(sum, *sum + size))).collect();
    // A row per decision: with coefficients of support vectors of both classes.
    let mut weights = vec![0.0; number * count];
    for ((first, second), row) in pairs(classes).zip(weights.chunks_exact_mut(count)) {
        for (class, against) in [(first, second - 1), (second, first)] {
            let own = starts[class]..starts[class] + sizes[class];
            row[own.clone()].copy_from_slice(&coefficients[against * count..][..count][own]);
        }
    }
    products(call, kernels, &weights, &rho)
}

/// The label with the most decisions for it, the first of several.
fn elected(call: &mut Call, decisions: OperandId, labels: &Labels) -> Step<Value> {
    let (classes, number) = (labels.count(), pairs(labels.count()).count());
    // A decision for the first class of a pair moves a vote from the second class to it.
    let mut moved = vec![0.0; number * classes];
    let mut before = vec![0.0; classes];
    for ((first, second), row) in pairs(classes).zip(moved.chunks_exact_mut(classes)) {
        (row[first], row[second]) = (1.0, -1.0);
        before[second] += 1.0;
    }
    let zero = call.scalar_like(decisions, 0.0)?;
    let is_first = call.emit(E::Greater, &[decisions, zero])?;
    let is_first = call.cast(is_first, DataType::Float32)?;
    let moved = constant(call, &[size(number)?, size(classes)?], &moved)?;
    let votes = call.matmul(is_first, moved)?;
    let before = constant(call, &[size(classes)?], &before)?;
    let votes = call.add(votes, before)?;
    labels.of_largest(call, votes)
}

/// The probabilities of classes, from decisions between them.
fn probabilities(call: &mut Call, decisions: OperandId, classes: usize, [a, b]: [Vec<f64>; 2]) -> Step<OperandId> {
    let number = pairs(classes).count();
    if a.len() != number || b.len() != number {
        let (a, b) = (a.len(), b.len());
        return Err(Refusal(format!("prob_a and prob_b have {a} and {b} numbers, expected {number}, one per pair")));
    }
    let shape = [size(number)?];
    let (a, b) = (constant(call, &shape, &a)?, constant(call, &shape, &b)?);
    let scaled = call.mul(decisions, a)?;
    let shifted = call.add(scaled, b)?;
    let opposite = call.emit(E::Neg, &[shifted])?;
    let probability = call.emit(E::Sigmoid, &[opposite])?;
    let [min, max] = [LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY].map(Into::into);
    let probability = call.emit(E::Clamp { min, max }, &[probability])?;
    call.emit(PairwiseCoupling { classes: size(classes)? }, &[probability])
}

/// Label and scores of a model with support vectors.
fn of_vectors(call: &mut Call, x: OperandId, labels: &Labels, sizes: &[usize]) -> Outcome {
    if sizes.len() != labels.count() || sizes.len() < 2 {
        let (got, expected) = (sizes.len(), labels.count());
        return Err(Refusal(format!("vectors_per_class has {got} sizes for {expected} labels, expected at least 2")));
    }
    let transform = Transform::of(call)?;
    let decisions = decisions(call, x, sizes)?;
    let label = elected(call, decisions, labels)?;
    let [a, b] = ["prob_a", "prob_b"].map(|name| call.floats_attribute(name).unwrap_or_default());
    let scores = match sizes.len() {
        count if !a.is_empty() => {
            let probabilities = probabilities(call, decisions, count, [a, b])?;
            transform.apply(call, probabilities)?
        }
        2 => {
            let other = if transform == Transform::None { Other::Opposite } else { Other::Rest };
            both(call, decisions, other, transform)?
        }
        _ => transform.apply(call, decisions)?,
    };
    Ok(vec![label, Value::Tensor(scores)])
}

/// Label and scores of a linear model, which has coefficients for each class.
fn linear(call: &mut Call, x: OperandId, labels: &Labels) -> Outcome {
    let (coefficients, rho) = (required_floats(call, "coefficients")?, required_floats(call, "rho")?);
    let transform = Transform::of(call)?;
    let scores = products(call, x, &coefficients, &vec![rho[0]; labels.count()])?;
    let label = match labels.count() {
        2 => {
            // As in onnxruntime, the second label also wins with a large score of the first one.
            let is_negative = coefficients.iter().any(|&number| number < 0.0);
            let largest = call.reduce(ReduceKind::Max, scores, &[1], true)?;
            let least = call.scalar_like(largest, if is_negative { 0.0 } else { 0.5 })?;
            let compared = if is_negative { E::Greater } else { E::GreaterOrEqual };
            let is_large = call.emit(compared, &[largest, least])?;
            let [first, second] = [call.slice_axis(scores, 1, 0u32, 1u32)?, call.slice_axis(scores, 1, 1u32, 1u32)?];
            let is_larger = call.emit(E::Greater, &[second, first])?;
            let is_second = call.emit(E::LogicalOr, &[is_large, is_larger])?;
            let is_second = call.cast(is_second, DataType::Float32)?;
            labels.of_two(call, is_second, 0.5)?
        }
        _ => labels.of_largest(call, scores)?,
    };
    Ok(vec![label, Value::Tensor(transform.apply(call, scores)?)])
}

fn svm_classifier(call: &mut Call) -> Outcome {
    let x = features(call)?;
    let labels = Labels::of(call, "classlabels_strings", "classlabels_ints")?;
    let sizes = call.ints_attribute("vectors_per_class").unwrap_or_default();
    let all: Option<Vec<usize>> =
        sizes.iter().map(|&size| usize::try_from(size).ok().filter(|&size| size < 1 << 31)).collect();
    let all = all.ok_or_else(|| Refusal(format!("vectors_per_class is {sizes:?}, expected sizes of at least 0")))?;
    match all.iter().all(|&size| size == 0) {
        true => linear(call, x, &labels),
        false => of_vectors(call, x, &labels, &all),
    }
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    ml("SVMClassifier", "labels that are texts are not returned", svm_classifier),
    ml("SVMRegressor", "", svm_regressor),
];

#[cfg(test)]
mod tests {
    use crate::onnx::ops::ml::testing::{Attributes, Input, assert_close, refusal, run};
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::Attr;

    const X: Input = (Float, &[2, 3], &[1.0, -2.0, 0.5, 0.0, 0.0, 0.0]);
    const VECTORS: [f32; 9] = [1.0, 2.0, 0.0, -1.0, 0.5, 0.5, 0.0, 1.0, 1.0];

    fn regressor(kernel: &'static str) -> Attributes<'static> {
        vec![
            ("coefficients", Attr::Floats(&[0.5, -1.0])),
            ("support_vectors", Attr::Floats(&VECTORS[..6])),
            ("n_supports", Attr::Int(2)),
            ("rho", Attr::Floats(&[0.25])),
            ("kernel_type", Attr::Text(kernel)),
            ("kernel_params", Attr::Floats(&[0.5, 1.0, 2.0])),
        ]
    }

    /// The results are those of onnxruntime 1.31, and of later tests of this file too.
    #[test]
    fn every_kernel() {
        for (kernel, expected) in [
            ("LINEAR", [0.5, 0.25]),
            ("POLY", [0.359_375, -0.25]),
            ("RBF", [0.244_201_8, -0.181_324]),
            ("SIGMOID", [-0.105_411_6, -0.130_797_1]),
        ] {
            assert_close(&run("SVMRegressor", X, "y", regressor(kernel))[0], &expected);
        }
        let attributes = [regressor("RBF"), vec![("one_class", Attr::Int(1))]].into_iter().flatten().collect();
        assert_close(&run("SVMRegressor", X, "y", attributes)[0], &[1.0, -1.0]);
    }

    fn classifier() -> Attributes<'static> {
        vec![
            ("coefficients", Attr::Floats(&[0.5, -1.0, 2.0, 1.0, 0.5, 0.3])),
            ("support_vectors", Attr::Floats(&VECTORS)),
            ("vectors_per_class", Attr::Ints(&[1, 1, 1])),
            ("rho", Attr::Floats(&[0.25, 0.1, -0.1])),
            ("kernel_type", Attr::Text("RBF")),
            ("kernel_params", Attr::Floats(&[0.5, 1.0, 2.0])),
            ("classlabels_ints", Attr::Ints(&[5, 7, 9])),
        ]
    }

    #[test]
    fn classes_are_elected_and_have_probabilities() {
        let results = run("SVMClassifier", X, "label scores", classifier());
        assert_close(&results[0], &[5.0, 7.0]);
        let expected = [0.244_201_8, 0.112_188_5, -0.095_243, -0.181_324, 0.917_843_9, 0.246_547_1];
        assert_close(&results[1], &expected);
        let more = vec![("prob_a", Attr::Floats(&[-1.5, -1.0, -2.0])), ("prob_b", Attr::Floats(&[0.25, 0.0, -0.125]))];
        let attributes = [classifier(), more].into_iter().flatten().collect();
        let results = run("SVMClassifier", X, "label scores", attributes);
        assert_close(&results[0], &[5.0, 7.0]);
        let expected = [0.361_229_2, 0.311_387_5, 0.327_383_3, 0.327_302, 0.479_364_5, 0.193_333_7];
        assert_close(&results[1], &expected);
    }

    #[test]
    fn a_linear_model_has_scores_of_classes() {
        let attributes = vec![
            ("coefficients", Attr::Floats(&[0.5, 0.25, 1.0, 1.0, 0.5, -1.0])),
            ("rho", Attr::Floats(&[0.25])),
            ("classlabels_ints", Attr::Ints(&[5, 7])),
        ];
        let results = run("SVMClassifier", X, "label scores", attributes);
        assert_close(&results[0], &[7.0, 7.0]);
        assert_close(&results[1], &[0.75, -0.25, 0.25, 0.25]);
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        let with = |mut all: Attributes<'static>, name: &str, value: Attr<'static>| {
            all.iter_mut().find(|(other, _)| *other == name).expect("it is there").1 = value;
            all
        };
        for (name, value, expected) in [
            ("n_supports", Attr::Int(3), "n_supports is 3 for 2 coefficients"),
            ("n_supports", Attr::Int(-2), "n_supports is -2 for 2 coefficients"),
            (
                "support_vectors",
                Attr::Floats(&VECTORS),
                "support_vectors has 9 numbers, expected 2 times the 3 features",
            ),
            ("kernel_params", Attr::Floats(&[1.0]), "kernel_params has 1 numbers, expected 3"),
            ("kernel_type", Attr::Text("COSINE"), "kernel_type is COSINE, expected LINEAR,"),
        ] {
            let message = refusal("SVMRegressor", X, "y", with(regressor("RBF"), name, value));
            assert!(message.contains(expected), "{message}");
        }
        for (name, value, expected) in [
            ("rho", Attr::Floats(&[1.0]), "expected 6 coefficients and 3 numbers of rho"),
            ("vectors_per_class", Attr::Ints(&[1, 2]), "vectors_per_class has 2 sizes for 3 labels"),
            ("vectors_per_class", Attr::Ints(&[1, -1, 1]), "expected sizes of at least 0"),
            ("vectors_per_class", Attr::Ints(&[1, 1, 1 << 30]), "expected"),
        ] {
            let message = refusal("SVMClassifier", X, "l s", with(classifier(), name, value));
            assert!(message.contains(expected), "{message}");
        }
    }
}
