#!/usr/bin/env python3
"""Writes one small model per operator of ai.onnx.ml and variant of it, with seeded inputs and the outputs of onnxruntime's
CPU provider:

    DIRECTORY/<case>/model.onnx
    DIRECTORY/<case>/in_<name>.npy, out_<name>.npy
    DIRECTORY/manifest.json             see model_cases.py

    python ml_models.py DIRECTORY [--only a,b]
"""

import itertools
import os

import numpy as np
import onnx
import onnxruntime
from model_cases import IR_VERSION, Generator, rng, save_case
from onnx import TensorProto, helper, numpy_helper

ML = "ai.onnx.ml"

CASES = {}


def case(name, operator, inputs, outputs=("y",), version=3, **attributes):
    """A case. `inputs` maps names to arrays, which the caller feeds."""
    assert name not in CASES, name
    CASES[name] = (operator, inputs, outputs, version, attributes)


def normal(name, *shape, scale=1.0, dtype=np.float32):
    return (rng(name).standard_normal(shape) * scale).astype(dtype)


def floats(name, *shape):
    return [float(x) for x in normal(name, *shape).flat]


def integers(name, low, high, shape, dtype=np.int64):
    return rng(name).integers(low, high, size=shape).astype(dtype)


def tensor(values, dtype):
    return numpy_helper.from_array(np.array(values, dtype))


NAN = float("nan")

# ---- Features --------------------------------------------------------------------------------------------------------

case("scaler", "Scaler", {"x": normal("sc", 4, 3)}, offset=[0.5, -1.0, 2.0], scale=[2.0, 0.25, -3.0])
case("scaler_one", "Scaler", {"x": normal("sc1", 4, 3)}, offset=[0.5], scale=[2.0])
case("scaler_vector", "Scaler", {"x": normal("scv", 3)}, offset=[0.5, -1.0, 2.0], scale=[2.0, 0.25, -3.0])
for dtype in (np.int32, np.int64, np.float64):
    case(f"scaler_{np.dtype(dtype).name}", "Scaler", {"x": integers("sci", -9, 9, (4, 2), dtype)}, offset=[0.5, 1.0], scale=[2.0, 3.0])
for norm in ("MAX", "L1", "L2"):
    x = normal(f"n{norm}", 5, 4)
    x[2] = 0
    case(f"normalizer_{norm.lower()}", "Normalizer", {"x": x}, norm=norm)
    case(f"normalizer_{norm.lower()}_vector", "Normalizer", {"x": x[0]}, norm=norm)
    case(f"normalizer_{norm.lower()}_int64", "Normalizer", {"x": integers(norm, -9, 9, (4, 3))}, norm=norm)
missing = normal("im", 5, 3)
missing[[0, 2, 4], [1, 0, 2]] = NAN
case("imputer_nan", "Imputer", {"x": missing}, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=NAN)
case("imputer_nan_one", "Imputer", {"x": missing}, imputed_value_floats=[1.5], replaced_value_float=NAN)
whole = integers("ii", -2, 3, (5, 3))
case("imputer_float", "Imputer", {"x": whole.astype(np.float32)}, imputed_value_floats=[1.5, 2.5, 3.5], replaced_value_float=-1.0)
case("imputer_int64", "Imputer", {"x": whole}, imputed_value_int64s=[10, 20, 30], replaced_value_int64=2)
case("binarizer", "Binarizer", {"x": normal("bi", 4, 3)}, threshold=0.25)
case("binarizer_default", "Binarizer", {"x": whole.astype(np.float32)})
case("feature_vectorizer", "FeatureVectorizer", {"a": normal("fa", 3, 2), "b": normal("fb", 3, 4), "c": normal("fc", 3, 1)}, inputdimensions=[2, 4, 1])
case("feature_vectorizer_cut_and_padded", "FeatureVectorizer", {"a": normal("fa", 3, 2), "b": normal("fb", 3, 4)}, inputdimensions=[3, 2])
case("feature_vectorizer_vector", "FeatureVectorizer", {"a": integers("fv", 0, 9, (3,))}, inputdimensions=[3])
case("feature_vectorizer_3d", "FeatureVectorizer", {"a": normal("f3", 2, 2, 3)}, inputdimensions=[6])
case("array_feature_extractor", "ArrayFeatureExtractor", {"x": normal("af", 3, 5), "places": np.array([[4, 0, 2]])})
case("array_feature_extractor_3d", "ArrayFeatureExtractor", {"x": normal("af3", 2, 3, 5), "places": np.array([1, 3])})
case("array_feature_extractor_vector", "ArrayFeatureExtractor", {"x": integers("afv", 0, 9, (5,)), "places": np.array([3, 3, 1])})

# ---- Categories ------------------------------------------------------------------------------------------------------

case("one_hot_int64", "OneHotEncoder", {"x": integers("oh", 0, 5, (4, 2))}, cats_int64s=[1, 3, 4], zeros=1)
case("one_hot_vector", "OneHotEncoder", {"x": np.array([1, 4, 3])}, cats_int64s=[1, 3, 4], zeros=0)
case("one_hot_float", "OneHotEncoder", {"x": np.array([1.5, 4.0, -3.0], np.float32)}, cats_int64s=[1, 4, -3], zeros=1)
codes = integers("le", 0, 6, (3, 4))
case("label_encoder_ints", "LabelEncoder", {"x": codes}, keys_int64s=[5, 1, 3], values_int64s=[10, -7, 33], default_int64=99)
case("label_encoder_ints_to_floats", "LabelEncoder", {"x": codes}, keys_int64s=[5, 1, 3], values_floats=[0.5, -7, 3.25])
case("label_encoder_floats", "LabelEncoder", {"x": np.array([0.5, NAN, 1.5, 7], np.float32)}, keys_floats=[1.5, -2.0, 0.5], values_int64s=[1, 2, 3], default_int64=-5)
case("label_encoder_floats_to_floats", "LabelEncoder", {"x": np.array([0.5, 8, 1.5, 7], np.float32)}, keys_floats=[1.5, 0.5], values_floats=[1.0, 2.0], default_float=0.25)
for version in (3, 4):
    case(f"label_encoder_nan_{version}", "LabelEncoder", {"x": np.array([0.5, NAN, 1.5, 7], np.float32)}, version=version, keys_floats=[1.5, NAN, 0.5], values_int64s=[1, 2, 3], default_int64=-5)
case("label_encoder_repeated_keys", "LabelEncoder", {"x": codes}, keys_int64s=[5, 1, 5, 1], values_int64s=[1, 2, 3, 4])
for before, after in itertools.product((np.int64, np.float32, np.float64), repeat=2):
    names = "_to_".join(np.dtype(dtype).name for dtype in (before, after))
    if np.float64 in (before, after) and before != after:
        continue  # onnxruntime has no kernel for these
    case(f"label_encoder_tensors_{names}", "LabelEncoder", {"x": codes.astype(before)}, version=4,
         keys_tensor=tensor([5, 1, 3], before), values_tensor=tensor([10, -7, 33], after), default_tensor=tensor([2], after))

# ---- Linear models ---------------------------------------------------------------------------------------------------

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def probabilities(transform, *shape):
    """Features that are good for the transform: PROBIT has results for probabilities only."""
    x = rng(transform).random(shape) if transform == "PROBIT" else rng(transform).standard_normal(shape)
    return x.astype(np.float32)


for transform in TRANSFORMS:
    suffix = transform.lower()
    coefficients = [0.25, 0.5, 0.125, 0.5, 0.25, 0.125] if transform == "PROBIT" else floats("lc", 6)
    x = probabilities(transform, 4, 3)
    case(f"linear_regressor_{suffix}", "LinearRegressor", {"x": x}, coefficients=coefficients[:3], intercepts=[0.125], post_transform=transform)
    case(f"linear_regressor_two_{suffix}", "LinearRegressor", {"x": x}, coefficients=coefficients, intercepts=[0.125, 0.0625], targets=2, post_transform=transform)
    case(f"linear_classifier_{suffix}", "LinearClassifier", {"x": x}, ("label", "scores"), coefficients=coefficients, intercepts=[0.125, 0.0625], classlabels_ints=[5, 7], post_transform=transform)
    if transform != "PROBIT":  # of which onnxruntime leaves a score undefined
        case(f"linear_classifier_one_{suffix}", "LinearClassifier", {"x": x}, ("label", "scores"), coefficients=coefficients[:3], intercepts=[0.125], classlabels_ints=[5, 7], post_transform=transform)
case("linear_regressor_without_intercepts", "LinearRegressor", {"x": normal("lr", 4, 3)}, coefficients=floats("lrc", 3))
for dtype in (np.int64, np.int32, np.float64):
    case(f"linear_classifier_{np.dtype(dtype).name}", "LinearClassifier", {"x": integers("lri", -9, 9, (4, 3), dtype)}, ("label", "scores"), coefficients=floats("l3c", 9), intercepts=[0.1, 0.2, -0.1], classlabels_ints=[5, -7, 9])
case("linear_classifier_three", "LinearClassifier", {"x": normal("l3", 6, 3)}, ("label", "scores"), coefficients=floats("l3c", 9), intercepts=[0.1, 0.2, -0.1], classlabels_ints=[5, -7, 9], multi_class=1, post_transform="SOFTMAX")
case("linear_classifier_vector", "LinearClassifier", {"x": normal("lv", 3)}, ("label", "scores"), coefficients=floats("l3c", 9), intercepts=[0.1, 0.2, -0.1], classlabels_ints=[5, -7, 9])

# ---- Support vectors -------------------------------------------------------------------------------------------------

KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.5, 1.0, 3.0], "RBF": [0.5, 0.0, 0.0], "SIGMOID": [0.25, 0.5, 0.0]}


def machine(name, kernel, classes=None, vectors=9, **attributes):
    sizes = [] if classes is None else [vectors // classes] * (classes - 1) + [vectors - vectors // classes * (classes - 1)]
    pairs = 1 if classes is None else classes * (classes - 1) // 2
    attributes |= {"kernel_type": kernel, "kernel_params": KERNELS[kernel], "support_vectors": floats(name + "v", vectors, 3),
                   "coefficients": floats(name + "c", vectors * max(1, (classes or 2) - 1)), "rho": floats(name + "r", pairs)}
    x = normal(name, 7, 3)
    if classes is None:
        case(name, "SVMRegressor", {"x": x}, n_supports=vectors, **attributes)
    else:
        case(name, "SVMClassifier", {"x": x}, ("label", "scores"), vectors_per_class=sizes, classlabels_ints=[5, -7, 9, 11][:classes], **attributes)


for kernel in KERNELS:
    machine(f"svm_regressor_{kernel.lower()}", kernel)
    for classes in (2, 3, 4):
        machine(f"svm_classes_{classes}_{kernel.lower()}", kernel, classes)
        pairs = classes * (classes - 1) // 2
        machine(f"svm_probabilities_{classes}_{kernel.lower()}", kernel, classes, prob_a=[-1.5] * pairs, prob_b=floats("pb", pairs))
machine("svm_regressor_one_class", "RBF", one_class=1)
for transform in TRANSFORMS:
    suffix = transform.lower()
    for classes in (2, 3) if transform != "PROBIT" else ():
        machine(f"svm_classes_{classes}_{suffix}", "RBF", classes, post_transform=transform)
    machine(f"svm_probabilities_{suffix}", "RBF", 3, post_transform=transform, prob_a=[-1.5] * 3, prob_b=[0.25] * 3)
    coefficients = [0.25, 0.5, 0.125, 0.5, 0.25, 0.125]
    linear = {"coefficients": coefficients, "kernel_params": [0.0, 0.0, 0.0], "classlabels_ints": [5, 7], "rho": [0.0625], "post_transform": transform}
    case(f"svm_linear_{suffix}", "SVMClassifier", {"x": probabilities(transform, 7, 3)}, ("label", "scores"), **linear)
    case(f"svm_linear_mixed_{suffix}", "SVMClassifier", {"x": probabilities(transform, 7, 3)}, ("label", "scores"), **linear | {"coefficients": [-x for x in coefficients[:3]] + coefficients[3:]})
case("svm_linear_three", "SVMClassifier", {"x": normal("sl3", 7, 3)}, ("label", "scores"), coefficients=floats("sl3c", 9), kernel_params=[0.0] * 3, classlabels_ints=[5, -7, 9], rho=[0.5])
case("svm_regressor_linear_mode", "SVMRegressor", {"x": normal("srl", 7, 3)}, coefficients=floats("srlc", 3), kernel_params=[0.0] * 3, rho=[0.5])

# ---- Trees -----------------------------------------------------------------------------------------------------------

FEATURES = 5


def trees(name, count, depth, modes=("BRANCH_LEQ",), missing=False, whole=False):
    """Random trees: lists of nodes (tree, node, feature, value, mode, yes, no, whether NaN goes to yes) and of leaves."""
    random = rng(name)
    nodes, leaves = [], []
    for tree in range(count):
        ids = itertools.count()

        def grow(levels):
            own = next(ids)
            if levels == 0 or (levels < depth and random.random() < 0.2):
                nodes.append((tree, own, 0, 0.0, "LEAF", 0, 0, 0))
                leaves.append((tree, own))
                return own
            at = len(nodes)
            nodes.append(None)
            value = float(random.integers(-2, 3)) if whole else float(np.float32(random.standard_normal()))
            sides = grow(levels - 1), grow(levels - 1)
            tracks = int(missing and random.random() < 0.5)
            nodes[at] = (tree, own, int(random.integers(FEATURES)), value, str(random.choice(modes)), *sides, tracks)
            return own

        grow(depth)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")
    attributes = {f"nodes_{key}": list(values) for key, values in zip(names, zip(*nodes))}
    if not missing:
        del attributes["nodes_missing_value_tracks_true"]
    return attributes, leaves


def votes(prefix, leaves, targets, weight):
    """The attributes for the votes of leaves: `targets` and `weight` tell them for a number of a leaf."""
    rows = [(*leaf, target, weight()) for at, leaf in enumerate(leaves) for target in targets(at, leaf[0])]
    names = ("treeids", "nodeids", "ids", "weights")
    return {f"{prefix}_{key}": list(values) for key, values in zip(names, zip(*rows))}


def regressor(name, x, grown, targets=1, weight=None, **attributes):
    nodes, leaves = grown
    random = rng(name)
    weight = weight or (lambda: float(np.float32(random.standard_normal())))
    # onnxruntime does not add the base value of a target without a vote.
    some = lambda: range(targets) if "base_values" in attributes else sorted(set(random.integers(0, targets, 2).tolist()))
    chosen = lambda at, tree: [0] if targets == 1 else some()
    case(name, "TreeEnsembleRegressor", {"x": x}, n_targets=targets, **nodes, **votes("target", leaves, chosen, weight), **attributes)


def features(name, rows, missing=False, whole=False):
    x = integers(name, -3, 4, (rows, FEATURES)).astype(np.float32) if whole else normal(name, rows, FEATURES)
    if missing:
        x[rng(name + "m").random(x.shape) < 0.3] = NAN
    return x


ALL_MODES = tuple(f"BRANCH_{mode}" for mode in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ"))
for rows in (1, 7, 8, 9, 70):
    regressor(f"trees_{rows}_rows", features(f"t{rows}", rows), trees("t", 10, 5))
regressor("tree_one_leaf", features("tl", 3), trees("tl", 1, 0))
for mode in ALL_MODES:
    suffix = mode.removeprefix("BRANCH_").lower()
    regressor(f"trees_{suffix}", features(mode, 40, whole=True), trees(mode, 6, 4, (mode,), whole=True))
    regressor(f"trees_{suffix}_missing", features(mode, 40, True, True), trees(mode, 6, 4, (mode,), True, True))
    regressor(f"trees_{suffix}_nan", features(mode, 40, True, True), trees(mode, 6, 4, (mode,), False, True))
regressor("trees_all_modes", features("ta", 40, True, True), trees("ta", 20, 6, ALL_MODES, True, True))
for aggregate, targets in itertools.product(("SUM", "AVERAGE", "MIN", "MAX"), (1, 3)):
    base = [0.5, -1.0, 0.25][:targets]
    regressor(f"trees_{aggregate.lower()}_{targets}", features("tg", 12), trees("tg", 6, 3), targets, aggregate_function=aggregate, base_values=base)
    regressor(f"trees_{aggregate.lower()}_{targets}_without_base", features("tg", 12), trees("tg", 2, 3), targets, aggregate_function=aggregate)
for transform, targets in itertools.product(TRANSFORMS, (1, 3)):
    weight = (lambda: 0.125) if transform == "PROBIT" else None
    regressor(f"trees_{transform.lower()}_{targets}", features("tt", 12), trees("tt", 3, 3), targets, weight, post_transform=transform)


def classifier(name, x, grown, labels, targets, weight, **attributes):
    nodes, leaves = grown
    case(name, "TreeEnsembleClassifier", {"x": x}, ("label", "scores"), classlabels_int64s=labels, **nodes, **votes("class", leaves, targets, weight), **attributes)


for transform in TRANSFORMS:
    suffix = transform.lower()
    random = rng("tc" + transform)
    positive = lambda: float(np.float32(random.random() * 0.2))
    mixed = lambda: float(np.float32(random.standard_normal()))
    for kind, weight in (("positive", positive),) if transform == "PROBIT" else (("positive", positive), ("mixed", mixed)):
        # Of PROBIT with a single score, onnxruntime leaves the other one undefined.
        for target in (1,) if transform == "PROBIT" else (0, 1):
            classifier(f"tree_classes_two_{target}_{kind}_{suffix}", features("tc", 12), trees("tc", 4, 3), [5, 7], lambda at, tree: [target], weight, post_transform=transform)
        if transform != "PROBIT":
            classifier(f"tree_classes_two_base_{kind}_{suffix}", features("tc", 12), trees("tc", 4, 3), [5, 7], lambda at, tree: [0], weight, post_transform=transform, base_values=[0.125])
        classifier(f"tree_classes_three_{kind}_{suffix}", features("tc", 12), trees("tc", 6, 3), [5, -7, 9], lambda at, tree: [tree % 3], weight, post_transform=transform)
        classifier(f"tree_classes_all_vote_{kind}_{suffix}", features("tc", 12), trees("tc", 4, 3), [5, -7, 9], lambda at, tree: [0, 1, 2], weight, post_transform=transform)
        classifier(f"tree_classes_some_vote_{kind}_{suffix}", features("tc", 12), trees("tc", 2, 3), [5, -7, 9], lambda at, tree: [at % 3], weight, post_transform=transform)
classifier("tree_classes_base", features("tb", 12), trees("tb", 4, 3), [5, -7, 9], lambda at, tree: [at % 3], lambda: -0.25, base_values=[0.1, 0.2, 0.3])
classifier("tree_classes_one", features("to", 12), trees("to", 3, 3), [5], lambda at, tree: [0], lambda: float(np.float32(rng("to").standard_normal())))


for dtype in (np.int64, np.int32, np.float64):
    classifier(f"tree_classes_{np.dtype(dtype).name}", features("ti", 9, whole=True).astype(dtype), trees("ti", 6, 4, whole=True), [5, -7, 9], lambda at, tree: [at % 3], lambda: 0.25)


def ensemble(name, x, grown, targets=1, sets=(), dtype=np.float32, **attributes):
    """The trees in the form of version 5. `sets` are those of the nodes of mode BRANCH_EQ, which become BRANCH_MEMBER."""
    nodes, leaves = grown
    rows = list(zip(*(nodes[f"nodes_{key}"] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids"))))
    tracks = nodes.get("nodes_missing_value_tracks_true")
    branches = [at for at, row in enumerate(rows) if row[4] != "LEAF"]
    places = {rows[at][:2]: place for place, at in enumerate(branches)}
    leaf_places = {leaf: place for place, leaf in enumerate(leaves)}
    order = [f"BRANCH_{mode}" for mode in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")]
    modes = [6 if sets and rows[at][4] == "BRANCH_EQ" else order.index(rows[at][4]) for at in branches]
    sides = {}
    for side, index in (("true", 5), ("false", 6)):
        children = [(rows[at][0], rows[at][index]) for at in branches]
        sides[f"nodes_{side}leafs"] = [int(child in leaf_places) for child in children]
        sides[f"nodes_{side}nodeids"] = [leaf_places.get(child, places.get(child)) for child in children]
    random = rng(name)
    members = [value for at, _ in enumerate(mode for mode in modes if mode == 6) for value in (*sets[at % len(sets)], NAN)]
    if members:
        attributes["membership_values"] = tensor(members, dtype)
    if tracks:
        attributes["nodes_missing_value_tracks_true"] = [tracks[at] for at in branches]
    case(name, "TreeEnsemble", {"x": x.astype(dtype)}, version=5, n_targets=targets,
         tree_roots=[places[(tree, 0)] for tree in sorted({row[0] for row in rows})],
         nodes_featureids=[rows[at][2] for at in branches],
         nodes_splits=tensor([rows[at][3] for at in branches], dtype),
         nodes_modes=tensor(modes, np.uint8), **sides,
         leaf_targetids=[at % targets for at in range(len(leaves))],
         leaf_weights=tensor(random.standard_normal(len(leaves)), dtype), **attributes)


SETS = ((1.0,), (2.0, 1.0, 3.0), (3.0, 1.0), (5.0, 1.0, 3.0, 2.0))
ensemble("tree_ensemble", features("te", 12), trees("te", 6, 4))
ensemble("tree_ensemble_doubles", features("te", 12), trees("te", 6, 4), dtype=np.float64)
ensemble("tree_ensemble_all_modes", features("tm", 40, True, True), trees("tm", 8, 5, ALL_MODES, True, True))
ensemble("tree_ensemble_members", features("tb", 40, False, True), trees("tb", 8, 5, ALL_MODES, False, True), sets=SETS)
ensemble("tree_ensemble_members_missing", features("tb", 40, True, True), trees("tb", 8, 5, ALL_MODES, True, True), sets=SETS)
for aggregate in range(4):
    ensemble(f"tree_ensemble_aggregate_{aggregate}", features("te", 12), trees("te", 6, 4), 2, aggregate_function=aggregate)
for transform in (0, 3):  # of which onnxruntime exchanges 1 and 2
    ensemble(f"tree_ensemble_transform_{transform}", features("te", 12), trees("te", 6, 4), 3, post_transform=transform)

# ---- Writing ---------------------------------------------------------------------------------------------------------


def value_info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def write(directory, name):
    """Writes the case `name` and gives its entry for the manifest."""
    operator, feeds, outputs, version, attributes = CASES[name]
    node = helper.make_node(operator, list(feeds), list(outputs), name=operator, domain=ML, **attributes)
    graph = helper.make_graph([node], operator, [value_info(key, array) for key, array in feeds.items()],
                              [onnx.ValueInfoProto(name=output) for output in outputs])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = dict(zip(outputs, session.run(None, feeds), strict=True))
    del model.graph.output[:]
    model.graph.output.extend(value_info(output, array) for output, array in results.items())
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    # onnxruntime approximates PROBIT with differences of float32 numbers.
    more = {"tolerance": 1e-4} if attributes.get("post_transform") == "PROBIT" else {}
    return save_case(folder, operator, [(feeds, results)], **more)


if __name__ == "__main__":
    Generator(CASES, write).main(__doc__)
