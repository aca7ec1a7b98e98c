//! Ensembles of decision trees.

use super::forest::{Child, Forest, Mode, Numbers, Source, Vote};
use super::gathered;
use super::places::Places;
use super::scores::{Labels, Other, Transform, both, features_as, size};
use crate::dtype::{DataType, Element};
use crate::error::amount;
use crate::ir::OperandId;
use crate::memory::{bytes_of, check_room};
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, ml};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::tree_ensemble::{Aggregate, BRANCH, TreeEnsemble};
use crate::shape::Descriptor;
use std::collections::HashMap;

/// Memory for the lists of a node or vote while trees are read, in bytes. The file has at least 15 bytes for it, so
/// that only the machine's memory is a limit.
const ENTRY_BYTES: usize = 256;

// ---- Reading -----------------------------------------------------------------------------------------------------

/// The numbers in the list `name`, or in a tensor, which can hold doubles.
fn numbers(call: &mut Call, name: &str) -> Step<Vec<f64>> {
    if let Some(floats) = call.floats_attribute(name).filter(|floats| !floats.is_empty()) {
        return Ok(floats);
    }
    tensor(call, &format!("{name}_as_tensor"))
}

/// Thresholds as features are: float32 if inputs that are doubles are rounded to that. A feature that equals its
/// threshold must remain equal.
fn thresholds(call: &Call, numbers: Vec<f64>) -> Vec<f64> {
    let rounds = call.rounds_inputs();
    numbers.into_iter().map(|number| if rounds { f64::from(number as f32) } else { number }).collect()
}

/// What the features at input 0 are, and so are thresholds and weights.
fn numbers_of(call: &Call) -> Numbers {
    if call.input_type(0) == Some(DataType::Float64) { Numbers::Doubles } else { Numbers::Floats }
}

/// The features at input 0, `[rows, features]`.
fn features(call: &mut Call) -> Step<OperandId> {
    let is_double = numbers_of(call) == Numbers::Doubles;
    features_as(call, if is_double { DataType::Float64 } else { DataType::Float32 })
}

/// The numbers in the tensor `name`; none if it is missing.
fn tensor(call: &mut Call, name: &str) -> Step<Vec<f64>> {
    let Some(tensor) = call.tensor_attribute(name)? else { return Ok(Vec::new()) };
    check_room(tensor.elements().saturating_mul(size_of::<f64>()))?;
    let mut numbers = Vec::with_capacity(tensor.elements());
    tensor.visit(|number| numbers.push(number.to_f64()))?;
    Ok(numbers)
}

fn ints(call: &Call, name: &str) -> Vec<i64> {
    call.ints_attribute(name).unwrap_or_default()
}

/// Whether NaN goes to the true side, for each of `count` nodes; none if it never does.
fn missing_sides(call: &Call, count: usize) -> Step<Vec<i64>> {
    const NAME: &str = "nodes_missing_value_tracks_true";
    let missing = ints(call, NAME);
    if !missing.is_empty() {
        check_length(NAME, missing.len(), count)?;
    }
    Ok(missing)
}

/// Checks that the list `name` has as many elements as others.
fn check_length(name: &str, got: usize, expected: usize) -> Step<()> {
    match got == expected {
        true => Ok(()),
        false => Err(Refusal(format!("{name} has {}, expected {expected}", amount(got, "element")))),
    }
}

/// The element at `index` of a list that may be empty, then `default`.
fn element<T: Copy>(list: &[T], index: usize, default: T) -> T {
    list.get(index).copied().unwrap_or(default)
}

/// The trees of version 1 to 3, whose votes have attributes that begin with `votes`.
fn listed(call: &mut Call, votes: &str) -> Step<Forest> {
    let [tree_ids, node_ids, feature_ids] = ["tree", "node", "feature"].map(|of| ints(call, &format!("nodes_{of}ids")));
    let count = tree_ids.len();
    if count == 0 {
        return Err("nodes_treeids is missing".into());
    }
    check_room(count.saturating_mul(ENTRY_BYTES))?;
    let modes = call.texts_attribute("nodes_modes").unwrap_or_default();
    let [yes, no] = ["true", "false"].map(|side| ints(call, &format!("nodes_{side}nodeids")));
    let values = numbers(call, "nodes_values")?;
    let values = thresholds(call, values);
    let lists = [
        ("nodes_nodeids", node_ids.len()),
        ("nodes_featureids", feature_ids.len()),
        ("nodes_modes", modes.len()),
        ("nodes_truenodeids", yes.len()),
        ("nodes_falsenodeids", no.len()),
        ("nodes_values", values.len()),
    ];
    lists.into_iter().try_for_each(|(name, got)| check_length(name, got, count))?;
    let missing = missing_sides(call, count)?;
    let places = Places::new(&tree_ids, &node_ids)?;
    // Each leaf has the number of its node; branches leave theirs unused.
    let is_leaf: Vec<bool> = modes.iter().map(|mode| mode == "LEAF").collect();
    let child = |tree: i64, node: i64| -> Step<Child> {
        let place = places.find(tree, node)?;
        Ok(if is_leaf[place] { Child::Leaf(place) } else { Child::Branch(place) })
    };
    let mut forest = Forest::new(numbers_of(call), count);
    let mut roots = HashMap::new();
    for (place, &tree) in tree_ids.iter().enumerate() {
        // The first node of a tree is its root.
        if roots.insert(tree, ()).is_none() {
            forest.roots.push(child(tree, node_ids[place])?);
        }
        let branch = match is_leaf[place] {
            true => None,
            false => Some(Source {
                feature: feature(feature_ids[place])?,
                mode: Mode::named(&modes[place])?,
                value: values[place],
                members: Vec::new(),
                counts_missing: element(&missing, place, 0) != 0,
                children: [child(tree, yes[place])?, child(tree, no[place])?],
            }),
        };
        forest.branches.push(branch);
    }
    let [trees, nodes, targets] = ["treeids", "nodeids", "ids"].map(|of| ints(call, &format!("{votes}_{of}")));
    let weights = numbers(call, &format!("{votes}_weights"))?;
    check_room(weights.len().saturating_mul(ENTRY_BYTES))?;
    let lists = [("treeids", trees.len()), ("nodeids", nodes.len()), ("ids", targets.len())];
    lists.into_iter().try_for_each(|(name, got)| check_length(&format!("{votes}_{name}"), got, weights.len()))?;
    for (at, &weight) in weights.iter().enumerate() {
        let place = places.find(trees[at], nodes[at])?;
        if is_leaf[place] {
            forest.leaves[place].push(Vote { target: targets[at], weight });
        }
    }
    Ok(forest)
}

fn feature(id: i64) -> Step<u32> {
    let feature = u32::try_from(id).ok().filter(|&feature| feature < 1 << 31);
    feature.ok_or_else(|| Refusal(format!("a node has the feature {id}, expected at least 0 and below 2^31")))
}

/// The trees of version 5, which list branches and leaves apart.
fn indexed(call: &mut Call) -> Step<Forest> {
    let feature_ids = ints(call, "nodes_featureids");
    let count = feature_ids.len();
    check_room(count.saturating_mul(ENTRY_BYTES))?;
    let (splits, modes) = (tensor(call, "nodes_splits")?, tensor(call, "nodes_modes")?);
    let splits = thresholds(call, splits);
    let [yes, no] = ["true", "false"].map(|side| ints(call, &format!("nodes_{side}nodeids")));
    let [yes_leaf, no_leaf] = ["true", "false"].map(|side| ints(call, &format!("nodes_{side}leafs")));
    let lists = [
        ("nodes_splits", splits.len()),
        ("nodes_modes", modes.len()),
        ("nodes_truenodeids", yes.len()),
        ("nodes_falsenodeids", no.len()),
        ("nodes_trueleafs", yes_leaf.len()),
        ("nodes_falseleafs", no_leaf.len()),
    ];
    lists.into_iter().try_for_each(|(name, got)| check_length(name, got, count))?;
    let missing = missing_sides(call, count)?;
    let (targets, weights) = (ints(call, "leaf_targetids"), tensor(call, "leaf_weights")?);
    check_length("leaf_targetids", targets.len(), weights.len())?;
    check_room(weights.len().saturating_mul(ENTRY_BYTES))?;
    let mut forest = Forest::new(numbers_of(call), 0);
    // A leaf can be that of several branches, each of which gets a copy.
    let child = |leaves: &mut Vec<Vec<Vote>>, is_leaf: i64, at: i64| -> Step<Child> {
        let (what, all) = if is_leaf != 0 { ("leaf", weights.len()) } else { ("node", count) };
        let place = usize::try_from(at).ok().filter(|&at| at < all);
        let place = place.ok_or_else(|| Refusal(format!("there is no {what} {at}, there are {all}")))?;
        if is_leaf == 0 {
            return Ok(Child::Branch(place));
        }
        leaves.push(vec![Vote { target: targets[place], weight: weights[place] }]);
        Ok(Child::Leaf(leaves.len() - 1))
    };
    let members = tensor(call, "membership_values")?;
    let members = thresholds(call, members);
    // NaN ends a set.
    let mut sets = members.split_inclusive(|member| member.is_nan());
    for (place, &id) in feature_ids.iter().enumerate() {
        let mode = Mode::numbered(modes[place])?;
        let members = match mode {
            Mode::Member => {
                sets.next().ok_or("membership_values has fewer sets than there are nodes of mode 6")?.to_vec()
            }
            _ => Vec::new(),
        };
        forest.branches.push(Some(Source {
            feature: feature(id)?,
            mode,
            value: splits[place],
            members,
            counts_missing: element(&missing, place, 0) != 0,
            children: [
                child(&mut forest.leaves, yes_leaf[place], yes[place])?,
                child(&mut forest.leaves, no_leaf[place], no[place])?,
            ],
        }));
    }
    for root in ints(call, "tree_roots") {
        let root = child(&mut forest.leaves, 0, root)?;
        forest.roots.push(root);
    }
    if forest.roots.is_empty() {
        return Err("tree_roots is missing".into());
    }
    Ok(forest)
}

// ---- Computing ---------------------------------------------------------------------------------------------------

/// A constant with these elements, which the file has as well: of any number.
fn list<T: Element>(call: &mut Call, shape: &[u32], elements: &[T]) -> Step<OperandId> {
    call.filled(Descriptor::new(T::DATA_TYPE, shape), |bytes| bytes.copy_from_slice(bytes_of(elements)))
}

/// A list of float64 or float32 numbers.
fn reals(call: &mut Call, is_double: bool, numbers: &[f64]) -> Step<OperandId> {
    let shape = [size(numbers.len())?];
    match is_double {
        true => list(call, &shape, numbers),
        false => {
            check_room(size_of_val(numbers))?;
            list(call, &shape, &numbers.iter().map(|&number| number as f32).collect::<Vec<_>>())
        }
    }
}

/// The combined weights of the leaves that rows reach, `[rows, op.count]`.
fn reached(call: &mut Call, x: OperandId, forest: &Forest, op: TreeEnsemble) -> Step<OperandId> {
    let packed = forest.packed(op.count)?;
    let width = call.shape(x)[1];
    if let Some(most) = packed.most_feature
        && width <= most
    {
        return Err(Refusal(format!("a node has the feature {most}, and X has {width} features")));
    }
    let is_double = forest.numbers == Numbers::Doubles;
    if !call.has_extensions() && !is_double && gathered::computes(&op) {
        return gathered::reached(call, x, &packed, &op);
    }
    let [branches, roots] = [size(packed.thresholds.len())?, size(packed.roots.len())?];
    let [leaves, votes] = [size(packed.leaves.len())?, size(packed.targets.len())?];
    let operands = [
        x,
        reals(call, is_double, &packed.thresholds)?,
        list(call, &[branches, BRANCH], packed.branches.as_flattened())?,
        list(call, &[roots], &packed.roots)?,
        list(call, &[leaves], &packed.leaves)?,
        list(call, &[votes], &packed.targets)?,
        reals(call, is_double, &packed.weights)?,
    ];
    call.emit(op, &operands)
}

/// Adds base values, none or one per score.
fn with_base(call: &mut Call, scores: OperandId, base: &[f64]) -> Step<OperandId> {
    if base.is_empty() {
        return Ok(scores);
    }
    let count = size(base.len())?;
    let base = call.constant(call.dtype(scores), &[count], base.iter().copied())?;
    call.add(scores, base)
}

fn regress(
    call: &mut Call,
    forest: &Forest,
    aggregate: Aggregate,
    transform: Transform,
    base: &[f64],
) -> Step<OperandId> {
    let x = features(call)?;
    let targets = call.int_or("n_targets", 0);
    let count = u32::try_from(targets).ok().filter(|&count| count > 0);
    let count = count.ok_or_else(|| Refusal(format!("n_targets is {targets}, expected at least 1")))?;
    if !base.is_empty() {
        check_length("base_values", base.len(), count as usize)?;
    }
    let scores = reached(call, x, forest, TreeEnsemble { count, aggregate, marks_absent: false })?;
    let scores = with_base(call, scores, base)?;
    transform.apply(call, scores)
}

/// Scores as the output of an operator that has no doubles.
fn floats(call: &mut Call, scores: OperandId) -> Step<Value> {
    call.cast(scores, DataType::Float32).map(Value::Tensor)
}

fn tree_ensemble_regressor(call: &mut Call) -> Outcome {
    let forest = listed(call, "target")?;
    let aggregate = match call.text_or("aggregate_function", "SUM").as_str() {
        "SUM" => Aggregate::Sum,
        "AVERAGE" => Aggregate::Average,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => return Err(Refusal(format!("aggregate_function is {other}, expected SUM, AVERAGE, MIN or MAX"))),
    };
    let (transform, base) = (Transform::of(call)?, numbers(call, "base_values")?);
    let scores = regress(call, &forest, aggregate, transform, &base)?;
    Ok(vec![floats(call, scores)?])
}

fn tree_ensemble(call: &mut Call) -> Outcome {
    let forest = indexed(call)?;
    let aggregate = match call.int_or("aggregate_function", 1) {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(Refusal(format!("aggregate_function is {other}, expected 0 to 3"))),
    };
    let transform = Transform::numbered(call.int_or("post_transform", 0))?;
    let scores = regress(call, &forest, aggregate, transform, &[]);
    call.one(scores)
}

fn tree_ensemble_classifier(call: &mut Call) -> Outcome {
    let mut forest = listed(call, "class")?;
    let (x, transform) = (features(call)?, Transform::of(call)?);
    let labels = Labels::of(call, "classlabels_strings", "classlabels_int64s")?;
    let base = numbers(call, "base_values")?;
    let count = size(labels.count())?;
    let op = TreeEnsemble { count, ..TreeEnsemble::default() };
    match (count, forest.only_target()) {
        (1, _) => {
            let scores = reached(call, x, &forest, op)?;
            let scores = with_base(call, scores, &base)?;
            let label = labels.of_two(call, scores, 0.0)?;
            scored(call, label, transform, scores)
        }
        (2, Some(target @ (0 | 1))) => two_classes(call, x, &mut forest, target, (&labels, transform, &base)),
        _ => {
            // Of two classes, a single base value is that of the first one.
            let base = if count == 2 && base.len() == 1 { vec![base[0], 0.0] } else { base };
            if !base.is_empty() {
                check_length("base_values", base.len(), count as usize)?;
            }
            // Classes without a vote do not win against those with negative ones.
            let marks_absent = base.is_empty() && forest.may_lack_votes(count);
            let scores = reached(call, x, &forest, TreeEnsemble { marks_absent, ..op })?;
            let scores = with_base(call, scores, &base)?;
            let [ranked, scores] = if marks_absent { without_votes(call, scores)? } else { [scores; 2] };
            let label = labels.of_largest(call, ranked)?;
            scored(call, label, transform, scores)
        }
    }
}

/// The outputs of a classifier.
fn scored(call: &mut Call, label: Value, transform: Transform, scores: OperandId) -> Outcome {
    let scores = transform.apply(call, scores)?;
    Ok(vec![label, floats(call, scores)?])
}

/// Scores to compare, and scores to return, from those with NaN for classes without a vote.
fn without_votes(call: &mut Call, scores: OperandId) -> Step<[OperandId; 2]> {
    let is_absent = call.emit(E::IsNaN, &[scores])?;
    let [least, zero] = [call.scalar_like(scores, f64::NEG_INFINITY)?, call.scalar_like(scores, 0.0)?];
    Ok([call.select(is_absent, least, scores)?, call.select(is_absent, zero, scores)?])
}

/// Label and scores of two classes of which only `target` has votes, as onnxruntime computes them: above 0.5 the second
/// class wins if no weight is negative, else above 0.
fn two_classes(
    call: &mut Call,
    x: OperandId,
    forest: &mut Forest,
    target: i64,
    (labels, transform, base): (&Labels, Transform, &[f64]),
) -> Outcome {
    if base.len() > 1 {
        let got = base.len();
        return Err(Refusal(format!(
            "base_values has {} for votes of one of two classes, expected 1",
            amount(got, "element")
        )));
    }
    let is_negative = forest.has_negative();
    let least = if is_negative { 0.0 } else { 0.5 };
    forest.retarget();
    let score = reached(call, x, forest, TreeEnsemble::default())?;
    if target == 1 {
        let scores = call.pad_axis(score, 1, [1u32, 0])?;
        let label = labels.of_two(call, score, least)?;
        return scored(call, label, transform, scores);
    }
    let score = with_base(call, score, base)?;
    let label = labels.of_two(call, score, least)?;
    let other = if is_negative { Other::Opposite } else { Other::Rest };
    let scores = both(call, score, other, transform)?;
    Ok(vec![label, floats(call, scores)?])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    ml("TreeEnsemble", "the numbers of transforms are those of the standard, not those of onnxruntime", tree_ensemble),
    ml("TreeEnsembleClassifier", "labels that are texts are not returned", tree_ensemble_classifier),
    ml("TreeEnsembleRegressor", "", tree_ensemble_regressor),
];

#[cfg(test)]
mod tests {
    use crate::dtype::Number;
    use crate::onnx::import::Request;
    use crate::onnx::ops::ml::testing::{Attributes, Input, assert_close, refusal, run};
    use crate::onnx::tensor::ElementType::{Double, Float, Uint8};
    use crate::onnx::testing::{Attr, TestGraph};
    use crate::ops::tensor::Tensor;
    use crate::testing::{Random, Tolerance, check_on_cpu};
    use std::collections::HashMap;

    const X: Input = (Float, &[3, 2], &[0.2, f64::NAN, 0.7, 1.0, f64::NAN, -1.0]);

    /// A tree of three leaves, and one that is a leaf.
    fn trees() -> Attributes<'static> {
        vec![
            ("nodes_treeids", Attr::Ints(&[0, 0, 0, 0, 0, 1])),
            ("nodes_nodeids", Attr::Ints(&[0, 1, 2, 3, 4, 0])),
            ("nodes_featureids", Attr::Ints(&[0, 1, 0, 0, 0, 0])),
            ("nodes_values", Attr::Floats(&[0.5, 0.0, 0.0, 0.0, 0.0, 0.0])),
            ("nodes_modes", Attr::Texts(&["BRANCH_LT", "BRANCH_GTE", "LEAF", "LEAF", "LEAF", "LEAF"])),
            ("nodes_truenodeids", Attr::Ints(&[1, 2, 0, 0, 0, 0])),
            ("nodes_falsenodeids", Attr::Ints(&[4, 3, 0, 0, 0, 0])),
        ]
    }

    fn regressor() -> Attributes<'static> {
        let votes = vec![
            ("target_treeids", Attr::Ints(&[0, 0, 0, 1, 1])),
            ("target_nodeids", Attr::Ints(&[2, 3, 4, 0, 0])),
            ("target_ids", Attr::Ints(&[0, 1, 1, 0, 1])),
            ("target_weights", Attr::Floats(&[1.0, 2.0, 4.0, 8.0, 16.0])),
            ("n_targets", Attr::Int(2)),
        ];
        trees().into_iter().chain(votes).collect()
    }

    fn with(mut all: Attributes<'static>, name: &'static str, value: Attr<'static>) -> Attributes<'static> {
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some((_, old)) => *old = value,
            None => all.push((name, value)),
        }
        all
    }

    /// The results are those of onnxruntime 1.31.
    #[test]
    fn weights_are_combined() {
        for (aggregate, expected) in [
            ("SUM", [8.0, 18.0, 8.0, 20.0, 8.0, 20.0]),
            ("AVERAGE", [4.0, 9.0, 4.0, 10.0, 4.0, 10.0]),
            ("MIN", [8.0, 2.0, 8.0, 4.0, 8.0, 4.0]),
            ("MAX", [8.0, 16.0, 8.0, 16.0, 8.0, 16.0]),
        ] {
            let attributes = with(regressor(), "aggregate_function", Attr::Text(aggregate));
            assert_close(&run("TreeEnsembleRegressor", X, "y", attributes)[0], &expected);
        }
        let missing = Attr::Ints(&[1, 1, 0, 0, 0, 0]);
        let attributes = with(regressor(), "nodes_missing_value_tracks_true", missing);
        let attributes = with(attributes, "base_values", Attr::Floats(&[0.5, -0.5]));
        assert_close(&run("TreeEnsembleRegressor", X, "y", attributes)[0], &[9.5, 15.5, 8.5, 19.5, 8.5, 17.5]);
    }

    /// The results are those of onnxruntime 1.31 for a tree of two leaves, at most 0.5 and above.
    #[test]
    fn two_classes_with_one_score() {
        let classes = |weights: &'static [f32], class: &'static [i64]| {
            vec![
                ("nodes_treeids", Attr::Ints(&[0, 0, 0])),
                ("nodes_nodeids", Attr::Ints(&[0, 1, 2])),
                ("nodes_featureids", Attr::Ints(&[0, 0, 0])),
                ("nodes_values", Attr::Floats(&[0.5, 0.0, 0.0])),
                ("nodes_modes", Attr::Texts(&["BRANCH_LEQ", "LEAF", "LEAF"])),
                ("nodes_truenodeids", Attr::Ints(&[1, 0, 0])),
                ("nodes_falsenodeids", Attr::Ints(&[2, 0, 0])),
                ("class_treeids", Attr::Ints(&[0, 0])),
                ("class_nodeids", Attr::Ints(&[1, 2])),
                ("class_ids", Attr::Ints(class)),
                ("class_weights", Attr::Floats(weights)),
                ("classlabels_int64s", Attr::Ints(&[5, 7])),
            ]
        };
        let x: Input = (Float, &[2, 1], &[0.2, 0.7]);
        let (positive, mixed): (&[f32], &[f32]) = (&[0.3, 0.6], &[-0.3, 0.6]);
        for (weights, class, transform, expected) in [
            (positive, &[0, 0], "NONE", [0.7, 0.3, 0.4, 0.6]),
            (mixed, &[0, 0], "NONE", [0.3, -0.3, -0.6, 0.6]),
            (positive, &[1, 1], "NONE", [0.0, 0.3, 0.0, 0.6]),
            (positive, &[0, 0], "LOGISTIC", [0.425_557_5, 0.574_442_5, 0.354_343_7, 0.645_656_3]),
            (mixed, &[0, 0], "LOGISTIC", [0.574_442_5, 0.425_557_5, 0.354_343_7, 0.645_656_3]),
            (positive, &[1, 1], "LOGISTIC", [0.5, 0.574_442_5, 0.5, 0.645_656_3]),
            (positive, &[0, 0], "SOFTMAX", [0.7, 0.3, 0.4, 0.6]),
            (mixed, &[1, 1], "SOFTMAX", [0.574_442_5, 0.425_557_5, 0.354_343_7, 0.645_656_3]),
        ] {
            let attributes = with(classes(weights, class), "post_transform", Attr::Text(transform));
            let results = run("TreeEnsembleClassifier", x, "label scores", attributes);
            assert_close(&results[0], &[5.0, 7.0]);
            assert_close(&results[1], &expected);
        }
        let three = with(classes(mixed, &[2, 1]), "classlabels_int64s", Attr::Ints(&[5, 7, 9]));
        let results = run("TreeEnsembleClassifier", x, "label scores", three);
        // The class without a vote does not win against a negative sum.
        assert_close(&results[0], &[9.0, 7.0]);
        assert_close(&results[1], &[0.0, 0.0, -0.3, 0.0, 0.6, 0.0]);
        let two = with(classes(positive, &[0, 0]), "base_values", Attr::Floats(&[0.1, 0.2]));
        let message = refusal("TreeEnsembleClassifier", x, "label scores", two);
        assert!(message.contains("base_values has 2 elements for votes of one of two classes"), "{message}");
    }

    /// Random trees of up to 5 levels with branches of all modes, for 4 features and 3 targets.
    #[test]
    fn devices_without_the_operator_compute_the_same() {
        let mut random = Random::new(5);
        let mut below = |most: usize| (random.uniform() * most as f64) as usize;
        let modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF"];
        // Trees of 63 nodes, node i of which leads to 2 i + 1 and 2 i + 2.
        let (trees, nodes) = (9, 63);
        let (mut lists, mut values, mut kinds) = ([const { Vec::new() }; 6], Vec::new(), Vec::new());
        let (mut votes, mut weights) = ([const { Vec::new() }; 3], Vec::new());
        for (tree, node) in (0..trees).flat_map(|tree| (0..nodes).map(move |node| (tree, node))) {
            let kind = if node >= nodes / 2 { "LEAF" } else { modes[below(modes.len())] };
            let numbers = [tree, node, below(4) as i64, 2 * node + 1, 2 * node + 2, below(2) as i64];
            lists.iter_mut().zip(numbers).for_each(|(list, number)| list.push(number));
            values.push(below(5) as f32 - 2.0);
            kinds.push(kind);
            if kind == "LEAF" {
                let numbers = [tree, node, below(3) as i64];
                votes.iter_mut().zip(numbers).for_each(|(list, number)| list.push(number));
                weights.push(below(64) as f32 / 8.0);
            }
        }
        for aggregate in ["SUM", "AVERAGE"] {
            let graph = || {
                let attributes = vec![
                    ("nodes_treeids", Attr::Ints(&lists[0])),
                    ("nodes_nodeids", Attr::Ints(&lists[1])),
                    ("nodes_featureids", Attr::Ints(&lists[2])),
                    ("nodes_truenodeids", Attr::Ints(&lists[3])),
                    ("nodes_falsenodeids", Attr::Ints(&lists[4])),
                    ("nodes_missing_value_tracks_true", Attr::Ints(&lists[5])),
                    ("nodes_values", Attr::Floats(&values)),
                    ("nodes_modes", Attr::Texts(&kinds)),
                    ("target_treeids", Attr::Ints(&votes[0])),
                    ("target_nodeids", Attr::Ints(&votes[1])),
                    ("target_ids", Attr::Ints(&votes[2])),
                    ("target_weights", Attr::Floats(&weights)),
                    ("n_targets", Attr::Int(3)),
                    ("aggregate_function", Attr::Text(aggregate)),
                ];
                let graph = TestGraph::default().input("x", Float, &["20", "4"]);
                graph.node("ai.onnx.ml.TreeEnsembleRegressor", "x", "y", attributes).output("y")
            };
            let [own, gathered] =
                [graph().import(17, &Request::default()), graph().import_for_gpus(17)].map(Result::unwrap);
            assert!(own.to_string().contains("treeEnsemble") && !gathered.to_string().contains("treeEnsemble"));
            let x = Tensor::from_fn(own.descriptor(own.inputs[0].1), |_| match below(8) {
                0 => f64::NAN.into(),
                number => (number as f64 / 2.0 - 2.0).into(),
            });
            let inputs = HashMap::from([("x".to_string(), x)]);
            let [own, gathered] = [own, gathered].map(|graph| {
                let results = check_on_cpu(&graph, &inputs, Tolerance::ulps(4));
                results["y"].numbers().map(Number::to_f64).collect::<Vec<_>>()
            });
            assert_close(&gathered, &own);
        }
    }

    fn ensemble() -> Attributes<'static> {
        vec![
            ("n_targets", Attr::Int(1)),
            ("tree_roots", Attr::Ints(&[0, 2])),
            ("nodes_featureids", Attr::Ints(&[0, 1, 0])),
            // 1 and 0.
            ("nodes_splits", Attr::Tensor(Float, &[3], &[0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0])),
            ("nodes_modes", Attr::Tensor(Uint8, &[3], &[0, 6, 0])),
            ("nodes_truenodeids", Attr::Ints(&[1, 0, 2])),
            ("nodes_trueleafs", Attr::Ints(&[0, 1, 1])),
            ("nodes_falsenodeids", Attr::Ints(&[1, 1, 2])),
            ("nodes_falseleafs", Attr::Ints(&[1, 1, 1])),
            ("leaf_targetids", Attr::Ints(&[0, 0, 0])),
            // 1, 2 and 4.
            ("leaf_weights", Attr::Tensor(Float, &[3], &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x80, 0x40])),
            // 1, 3 and the end of the set.
            ("membership_values", Attr::Tensor(Float, &[3], &[0, 0, 0x80, 0x3f, 0, 0, 0x40, 0x40, 0, 0, 0xc0, 0x7f])),
        ]
    }

    #[test]
    fn branches_test_sets() {
        let x: Input = (Float, &[4, 2], &[1.0, 3.0, 1.0, 2.0, 1.5, 1.0, 0.5, 1.0]);
        assert_close(&run("TreeEnsemble", x, "y", ensemble())[0], &[5.0, 6.0, 6.0, 5.0]);
    }

    #[test]
    fn thresholds_of_doubles_part_floats_as_doubles_do() {
        // 0.1 in float32 is above 0.1 in float64; its neighbor is below.
        let near = f64::from(0.1f32);
        let floats: Input = (Float, &[2, 2], &[near, 0.0, f64::from(0.1f32.next_down()), 0.0]);
        let doubles: Input = (Double, &[2, 2], &[0.1, 0.0, 0.2, 0.0]);
        // As float32, these are equal.
        let close: Input = (Double, &[2, 2], &[0.1f64.next_up(), 0.0, 0.1f64.next_down(), 0.0]);
        let values: Vec<u8> = [0.1, 0.0, 0.0, 0.0, 0.0, 0.0f64].into_iter().flat_map(f64::to_le_bytes).collect();
        for (x, mode, expected) in [
            (floats, "BRANCH_LEQ", [20.0, 18.0]),
            (floats, "BRANCH_GT", [18.0, 20.0]),
            (floats, "BRANCH_EQ", [20.0; 2]),
            (doubles, "BRANCH_LEQ", [18.0, 20.0]),
            (doubles, "BRANCH_GTE", [18.0; 2]),
            (doubles, "BRANCH_EQ", [18.0, 20.0]),
            (close, "BRANCH_LEQ", [20.0, 18.0]),
            (close, "BRANCH_LT", [20.0, 18.0]),
            (close, "BRANCH_NEQ", [18.0; 2]),
        ] {
            let mut attributes = regressor();
            attributes.retain(|(name, _)| !matches!(*name, "nodes_values" | "nodes_modes"));
            attributes.push(("nodes_values_as_tensor", Attr::Tensor(Double, &[6], &values)));
            let modes = [mode, "BRANCH_LT", "LEAF", "LEAF", "LEAF", "LEAF"];
            attributes.push(("nodes_modes", Attr::Texts(&modes)));
            let results = run("TreeEnsembleRegressor", x, "y", attributes);
            assert_close(&[results[0][1], results[0][3]], &expected);
        }
    }

    #[test]
    fn damaged_trees_are_refused() {
        for (name, value, expected) in [
            (
                "nodes_truenodeids",
                Attr::Ints(&[1, 0, 0, 0, 0, 0]),
                "node 0 is reached twice, expected trees without circles",
            ),
            ("nodes_truenodeids", Attr::Ints(&[1, 3, 0, 0, 0, 0]), "leaf 3 is reached twice"),
            ("nodes_falsenodeids", Attr::Ints(&[1, 3, 0, 0, 0, 0]), "node 1 is reached twice"),
            ("nodes_truenodeids", Attr::Ints(&[9, 2, 0, 0, 0, 0]), "there is no node 9 in tree 0"),
            ("nodes_truenodeids", Attr::Ints(&[1, 2]), "nodes_truenodeids has 2 elements, expected 6"),
            ("nodes_missing_value_tracks_true", Attr::Ints(&[1]), "nodes_missing_value_tracks_true has 1 element"),
            ("nodes_nodeids", Attr::Ints(&[0, 1, 2, 3, 3, 0]), "node 3 of tree 0 is there twice"),
            ("nodes_featureids", Attr::Ints(&[0, 2, 0, 0, 0, 0]), "a node has the feature 2, and X has 2 features"),
            ("nodes_featureids", Attr::Ints(&[0, -1, 0, 0, 0, 0]), "a node has the feature -1"),
            (
                "nodes_modes",
                Attr::Texts(&["BRANCH_IN", "BRANCH_LT", "LEAF", "LEAF", "LEAF", "LEAF"]),
                "the mode BRANCH_IN",
            ),
            ("target_ids", Attr::Ints(&[0, 1, 2, 0, 1]), "a leaf has the target 2, there are 2"),
            ("target_ids", Attr::Ints(&[0, -1, 1, 0, 1]), "a leaf has the target -1, there are 2"),
            ("target_nodeids", Attr::Ints(&[2, 3, 7, 0, 0]), "there is no node 7 in tree 0"),
            ("target_nodeids", Attr::Ints(&[2, 3]), "target_nodeids has 2 elements, expected 5"),
            ("target_weights", Attr::Floats(&[f32::NAN; 5]), "the weight of a leaf is NaN"),
            ("base_values", Attr::Floats(&[1.0]), "base_values has 1 element, expected 2"),
            ("aggregate_function", Attr::Text("MEDIAN"), "aggregate_function is MEDIAN"),
            ("n_targets", Attr::Int(0), "n_targets is 0, expected at least 1"),
        ] {
            let message = refusal("TreeEnsembleRegressor", X, "y", with(regressor(), name, value));
            assert!(message.contains(expected), "{message}, expected {expected}");
        }
        let message = refusal("TreeEnsembleRegressor", X, "y", vec![("n_targets", Attr::Int(1))]);
        assert!(message.contains("nodes_treeids is missing"), "{message}");
        for (name, value, expected) in [
            ("nodes_truenodeids", Attr::Ints(&[0, 0, 2]), "node 0 is reached twice"),
            ("nodes_truenodeids", Attr::Ints(&[5, 0, 2]), "there is no node 5, there are 3"),
            ("nodes_falsenodeids", Attr::Ints(&[3, 1, 2]), "there is no leaf 3, there are 3"),
            ("tree_roots", Attr::Ints(&[0, 1]), "node 1 is reached twice"),
            ("tree_roots", Attr::Ints(&[-1]), "there is no node -1"),
            ("tree_roots", Attr::Ints(&[]), "tree_roots is missing"),
            ("nodes_modes", Attr::Tensor(Uint8, &[3], &[0, 7, 0]), "a node has the mode 7, expected 0 to 6"),
            ("membership_values", Attr::Tensor(Float, &[0], &[]), "membership_values has fewer sets"),
            ("leaf_targetids", Attr::Ints(&[0, 0]), "leaf_targetids has 2 elements, expected 3"),
            ("post_transform", Attr::Int(9), "post_transform is 9, expected 0 to 4"),
        ] {
            let message = refusal("TreeEnsemble", X, "y", with(ensemble(), name, value));
            assert!(message.contains(expected), "{message}, expected {expected}");
        }
    }
}
