#!/usr/bin/env python3
"""Writes small models with tensors of strings, lists and maps, with the outputs of onnxruntime's CPU provider:

    DIRECTORY/<case>/model.onnx
    DIRECTORY/<case>/in_<name>.json, out_<name>.json    of strings, lists and maps; .npy of numbers
    DIRECTORY/manifest.json             see model_cases.py

    python text_models.py DIRECTORY [--only a,b]
"""

import os

import numpy as np
import onnx
import onnxruntime
from model_cases import IR_VERSION, Generator, rng, save_case
from onnx import TensorProto, helper, numpy_helper

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"

# The default, en_US, is not on every machine.
LOCALE = "C.UTF-8"

CASES = {}


def texts(*values, shape=None):
    array = np.array(values, dtype=object)
    return array if shape is None else array.reshape(shape)


def node(operator, inputs, outputs="y", domain="", **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), name=operator, domain=domain, **attributes)


def case(name, nodes, inputs, outputs="y", constants=None, ml=3, opset=21, runs=()):
    """A case. `inputs` maps names to arrays, which the caller feeds; `runs` are further inputs."""
    assert name not in CASES, name
    CASES[name] = (nodes if isinstance(nodes, list) else [nodes], [inputs, *runs], outputs.split(), constants or {}, ml, opset)


FRUITS = texts("apple", "", "pear", "Äpfel", "apple", "日本", shape=(2, 3))
OTHERS = texts("pear", "new", "pear", "apple", "newer", "new", shape=(2, 3))

# ---- Moving and comparing --------------------------------------------------------------------------------------------

case("identity", node("Identity", "x"), {"x": FRUITS}, runs=[{"x": OTHERS}])
case("equal", node("Equal", "x z"), {"x": FRUITS, "z": OTHERS}, opset=19)
case("equal_constant", node("Equal", "x z"), {"x": FRUITS}, constants={"z": texts("apple")}, opset=19, runs=[{"x": OTHERS}])
case("gather", node("Gather", "t i"), {"i": np.array([2, 0, 2])}, constants={"t": texts("zero", "one", "two")})
case("gather_fed", node("Gather", "x i", axis=1), {"x": FRUITS, "i": np.array([[2], [0]])}, runs=[{"x": OTHERS, "i": np.array([[1]])}])
case("concat", node("Concat", "x z x", axis=0), {"x": FRUITS}, constants={"z": texts("a", "b", "new", shape=(1, 3))}, runs=[{"x": OTHERS}])
case("where", node("Where", "c x z"), {"c": np.array([[True, False, True]]), "x": FRUITS, "z": OTHERS})
case("reshape_transpose", [node("Reshape", "x s", "r"), node("Transpose", "r", perm=[1, 0])], {"x": FRUITS}, constants={"s": np.array([3, 2])})
case("slice_squeeze", [node("Slice", "x a b", "r"), node("Squeeze", "r")], {"x": FRUITS}, constants={"a": np.array([1, 0]), "b": np.array([2, 3])})
case("split", node("Split", "x", "y z", axis=1, num_outputs=2), {"x": FRUITS}, "y z")
case("expand_tile", [node("Expand", "x s", "r"), node("Tile", "r t")], {"x": texts("a", "b")}, constants={"s": np.array([2, 2]), "t": np.array([1, 2])})
case("gather_elements", node("GatherElements", "x i", axis=1), {"x": FRUITS, "i": np.array([[2, 2], [0, 1]])})
case("gather_nd", node("GatherND", "x i"), {"x": FRUITS, "i": np.array([[0, 1], [1, 2]])})
case("scatter_elements", node("ScatterElements", "x i u", axis=0), {"x": texts("a", "b", "c"), "i": np.array([2, 0]), "u": texts("new", "c")})
case("shape_size", [node("Shape", "x", "y"), node("Size", "x", "z")], {"x": FRUITS}, "y z")
case("compress", node("Compress", "x c", axis=1), {"x": FRUITS, "c": np.array([True, False, True])})
case("unique", node("Unique", "x", "y i j k"), {"x": FRUITS}, "y i j k", runs=[{"x": OTHERS}])
case("unique_unsorted", node("Unique", "x", "y i j k", sorted=0), {"x": OTHERS}, "y i j k")
case("constant", [node("Constant", "", "c", value_strings=["a", "b", "日本"]), node("Concat", "x c", axis=0)], {"x": texts("b", "z")})

choose = [
    helper.make_graph([node("Identity", "x", "yes")], "yes", [], [helper.make_tensor_value_info("yes", TensorProto.STRING, None)]),
    helper.make_graph([node("Constant", "", "no", value_strings=["no"])], "no", [], [helper.make_tensor_value_info("no", TensorProto.STRING, None)]),
]
case("if", node("If", "c", then_branch=choose[0], else_branch=choose[1]), {"c": np.array(True), "x": texts("a", "b")}, runs=[{"c": np.array(False), "x": texts("a", "b")}])

# ---- Casts -----------------------------------------------------------------------------------------------------------

NUMBERS = texts("1", "-2", "30", "0")
REALS = texts("1.5", "-2e3", "NaN", "INF", "-INF", "0.1")
for kind in ("INT32", "INT64", "UINT8", "INT8"):
    values = texts("1", "2", "30", "0") if kind.startswith("U") else NUMBERS
    case(f"cast_to_{kind.lower()}", node("Cast", "x", to=getattr(TensorProto, kind)), {"x": values})
case("cast_to_float", node("Cast", "x", to=TensorProto.FLOAT), {"x": REALS})
REAL = np.array([1.5, -1 / 3, 1e8, 123456789, 1e-5, 0, 16777216, np.nan, np.inf, -np.inf, 3.14159274, 1e20], np.float32)
case("cast_from_float", node("Cast", "x", to=TensorProto.STRING), {"x": REAL})
case("cast_from_int64", node("Cast", "x", to=TensorProto.STRING), {"x": np.array([[1, -5], [2**62, 0]])})
case("cast_from_int32", node("Cast", "x", to=TensorProto.STRING), {"x": np.array([7, -5], np.int32)})
case("cast_and_compare", [node("Cast", "x", "t", to=TensorProto.STRING), node("Equal", "t z")], {"x": np.array([7, -5])}, constants={"z": texts("-5")}, opset=19)

# ---- Looking into texts ----------------------------------------------------------------------------------------------

case("string_concat", node("StringConcat", "x z"), {"x": FRUITS, "z": OTHERS})
case("string_concat_broadcast", node("StringConcat", "x z"), {"x": FRUITS}, constants={"z": texts("-", "+", shape=(2, 1))})
case("string_concat_twice", [node("StringConcat", "x x", "d"), node("Equal", "d z")], {"x": texts("ab", "c")}, constants={"z": texts("abab")})
case("string_split", node("StringSplit", "x", "y n", delimiter=","), {"x": texts("a,b,,c", "", "a", ",", shape=(2, 2))}, "y n")
case("string_split_most", node("StringSplit", "x", "y n", delimiter="--", maxsplit=1), {"x": texts("a--b--c", "--", "x")}, "y n")
case("string_split_space", node("StringSplit", "x", "y n"), {"x": texts("  hello   world ", "one", "", "a b  c d")}, "y n")
case("string_split_space_most", node("StringSplit", "x", "y n", maxsplit=1), {"x": texts("  hello   big world ", "one")}, "y n")
for action in ("LOWER", "UPPER", "NONE"):
    case(f"normalizer_{action.lower()}", node("StringNormalizer", "x", locale=LOCALE, case_change_action=action), {"x": texts("Monday", "tuesDAY", "Äß", "")})
    for sensitive in (0, 1):
        case(f"normalizer_{action.lower()}_stop_{sensitive}", node("StringNormalizer", "x", locale=LOCALE, case_change_action=action, is_case_sensitive=sensitive, stopwords=["monday", "Ä"]),
             {"x": texts("Monday", "monday", "tuesday", "ä", shape=(1, 4))})
case("normalizer_all_stopped", node("StringNormalizer", "x", stopwords=["a"], is_case_sensitive=1), {"x": texts("a", "a")})
for at, pattern in enumerate((r"[a-z]+", r"(\d{2})-(\d{2})", r"www\.[\w.-]+\.\bcom\b", ".*ö.*")):
    case(f"regex_{at}", node("RegexFullMatch", "x", pattern=pattern), {"x": texts("abc", "12-34", "www.a-b.com", "schön", "ABC", "x12-34", shape=(2, 3))})

for mode in ("TF", "IDF", "TFIDF"):
    for skips in (0, 1, 5):
        for least, most in ((1, 1), (1, 2), (2, 2)):
            grams = {"mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skips, "ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6]}
            weighted = {} if mode == "TF" else {"weights": [0.5, 2.0, 3.0, 0.25, 1.5, 4.0, 0.125]}
            suffix = f"{mode.lower()}_{least}_{most}_{skips}"
            case(f"tfidf_{suffix}", node("TfIdfVectorizer", "x", pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7], **grams, **weighted), {"x": np.array([[1, 1, 3, 3, 3, 7, 8], [6, 7, 5, 6, 8, 8, 7]])})
            case(f"tfidf_texts_{suffix}", node("TfIdfVectorizer", "x", pool_strings=["two", "three", "five", "four", "five", "six", "seven", "eight", "six", "seven"], **grams, **weighted),
                 {"x": texts("one", "three", "three", "seven", "eight", "new", "six", "seven")}, runs=[{"x": texts("six", "five", "six", "other", "x", "x", "x", "x")}])
case("tfidf_int32", node("TfIdfVectorizer", "x", mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0], ngram_indexes=[1, 0], pool_int64s=[5, 6]), {"x": np.array([5, 6, 5], np.int32)})

TOKENS = {"mark": 0, "pad_value": "#", "mincharnum": 1}
SENTENCES = texts("abc de f", "", "x,yz  Über", "one", shape=(2, 2))
for mark in (0, 1):
    case(f"tokenizer_chars_{mark}", node("Tokenizer", "x", domain=MICROSOFT, separators=[""], **{**TOKENS, "mark": mark}), {"x": SENTENCES})
    case(f"tokenizer_words_{mark}", node("Tokenizer", "x", domain=MICROSOFT, separators=[" ", ","], **{**TOKENS, "mark": mark}), {"x": SENTENCES})
    case(f"tokenizer_expression_{mark}", node("Tokenizer", "x", domain=MICROSOFT, tokenexp="[a-zA-Z]+", **{**TOKENS, "mark": mark}), {"x": SENTENCES})
case("tokenizer_long_words", node("Tokenizer", "x", domain=MICROSOFT, separators=[" "], **{**TOKENS, "mincharnum": 2}), {"x": SENTENCES.reshape(4)})
case("words_to_counts", [
    node("StringNormalizer", "x", "n", locale=LOCALE, case_change_action="LOWER"),
    node("Tokenizer", "n", "t", domain=MICROSOFT, tokenexp="[a-z]+", **TOKENS),
    node("TfIdfVectorizer", "t", mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1, 2], pool_strings=["good", "bad", "film"]),
], {"x": texts("A GOOD film, good!", "Bad film")}, runs=[{"x": texts("nothing", "bad bad")}])

# ---- Labels ----------------------------------------------------------------------------------------------------------

KEYS, VALUES = ["apple", "pear", "", "apple"], ["red", "green", "none", "blue"]
encoders = {
    "texts_to_texts": ({"keys_strings": KEYS, "values_strings": VALUES}, FRUITS),
    "texts_to_texts_default": ({"keys_strings": KEYS, "values_strings": VALUES, "default_string": "?"}, FRUITS),
    "texts_to_ints": ({"keys_strings": KEYS, "values_int64s": [1, 2, 3, 4]}, FRUITS),
    "texts_to_floats": ({"keys_strings": KEYS, "values_floats": [1.5, 2.5, 3.5, 4.5], "default_float": 9.0}, FRUITS),
    "ints_to_texts": ({"keys_int64s": [5, -1, 7], "values_strings": VALUES[:3]}, np.array([[7, 5], [0, -1]])),
    "floats_to_texts": ({"keys_floats": [0.5, 1.0], "values_strings": ["half", "one"], "default_string": "?"}, np.array([1.0, 0.5, 2.0], np.float32)),
}
for name, (attributes, x) in encoders.items():
    case(f"label_encoder_{name}", node("LabelEncoder", "x", domain=ML, **attributes), {"x": x})
many = [f"word {at}" for at in range(3000)]
case("label_encoder_many", node("LabelEncoder", "x", domain=ML, keys_strings=many, values_int64s=list(range(3000))), {"x": texts(*many[::7], "word 3000", "other")}, runs=[{"x": texts(*many[5::9])}])
case("label_encoder_tensors", node("LabelEncoder", "x", domain=ML, keys_tensor=helper.make_tensor("k", TensorProto.STRING, [2], [b"apple", b"pear"]),
     values_tensor=helper.make_tensor("v", TensorProto.INT16, [2], [1, 2]), default_tensor=helper.make_tensor("d", TensorProto.INT16, [1], [7])), {"x": FRUITS}, ml=4)
case("label_encoder_classes", node("LabelEncoder", "x", domain=ML, classes_strings=["a", "b", "c"], default_int64=9), {"x": texts("c", "a", "z")}, ml=1)
case("label_encoder_classes_back", node("LabelEncoder", "x", domain=ML, classes_strings=["a", "b", "c"]), {"x": np.array([2, 0, 5])}, ml=1)
case("category_mapper", node("CategoryMapper", "x", domain=ML, cats_int64s=[4, -1, 6], cats_strings=["a", "b", "c"], default_int64=7), {"x": texts("c", "a", "z")}, ml=1)
case("category_mapper_back", node("CategoryMapper", "x", domain=ML, cats_int64s=[4, -1, 6], cats_strings=["a", "b", "c"], default_string="?"), {"x": np.array([6, -1, 5])}, ml=1)
case("one_hot", node("OneHotEncoder", "x", domain=ML, cats_strings=["apple", "pear", "zero"], zeros=1), {"x": FRUITS}, runs=[{"x": OTHERS}])
case("array_feature_extractor", node("ArrayFeatureExtractor", "x i", domain=ML), {"x": FRUITS, "i": np.array([2, 0])})

# ---- Classifiers -----------------------------------------------------------------------------------------------------


def normal(name, *shape):
    return rng(name).standard_normal(shape).astype(np.float32)


X = normal("x", 7, 3)
for classes in (2, 3):
    coefficients = {"coefficients": normal("lc", classes, 3).ravel().tolist(), "intercepts": normal("li", classes).tolist()}
    case(f"linear_{classes}", node("LinearClassifier", "x", "label scores", domain=ML, classlabels_strings=["no", "yes", "maybe"][:classes], post_transform="SOFTMAX", **coefficients), {"x": X}, "label scores")
    case(f"linear_{classes}_zip_map", [
        node("LinearClassifier", "x", "label scores", domain=ML, classlabels_strings=["no", "yes", "maybe"][:classes], post_transform="SOFTMAX", **coefficients),
        node("ZipMap", "scores", "maps", domain=ML, classlabels_strings=["no", "yes", "maybe"][:classes]),
    ], {"x": X}, "label maps")
case("zip_map_ints", node("ZipMap", "x", "maps", domain=ML, classlabels_int64s=[-1, 0, 7]), {"x": X}, "maps")
case("zip_map_many_rows", node("ZipMap", "x", "maps", domain=ML, classlabels_strings=["a", "b", "c"]), {"x": normal("rows", 4000, 3)}, "maps")
case("zip_map_vector", node("ZipMap", "x", "maps", domain=ML, classlabels_strings=["a", "b", "c"]), {"x": X[0]}, "maps")
leaves = {"class_ids": [0, 1, 2, 0], "class_nodeids": [1, 3, 4, 2], "class_treeids": [0, 0, 0, 1], "class_weights": [1.0, 2.0, 1.5, 0.25]}
case("tree_classes", node("TreeEnsembleClassifier", "x", "label scores", domain=ML, classlabels_strings=["a", "b", "c"], nodes_treeids=[0, 0, 0, 0, 0], nodes_nodeids=[0, 1, 2, 3, 4],
     nodes_featureids=[0, 0, 1, 0, 0], nodes_modes=["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.0, 0, 0.1, 0, 0], nodes_truenodeids=[1, 0, 3, 0, 0], nodes_falsenodeids=[2, 0, 4, 0, 0],
     class_ids=[0, 1, 2], class_nodeids=[1, 3, 4], class_treeids=[0, 0, 0], class_weights=[1.0, 2.0, 1.5]), {"x": X}, "label scores")
case("svm_classes", node("SVMClassifier", "x", "label scores", domain=ML, classlabels_strings=["a", "b"], coefficients=[1.0, -0.5, 0.25], kernel_params=[0.5, 0.0, 3.0], kernel_type="RBF", rho=[0.1],
     support_vectors=normal("sv", 3, 3).ravel().tolist(), vectors_per_class=[2, 1]), {"x": X}, "label scores")

# ---- Writing ---------------------------------------------------------------------------------------------------------


def element_type(array):
    return TensorProto.STRING if array.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(array.dtype)


def value_info(name, value):
    if isinstance(value, list):
        # Lists of maps: what ZipMap returns needs no shape.
        key = TensorProto.STRING if isinstance(next(iter(value[0])), str) else TensorProto.INT64
        return helper.make_value_info(name, helper.make_sequence_type_proto(helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))))
    return helper.make_tensor_value_info(name, element_type(value), [None] * value.ndim)


def write(directory, name):
    """Writes the case `name` and gives its entry for the manifest."""
    nodes, feeds, outputs, constants, ml, opset = CASES[name]
    shapes = {key: [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*(arrays[key].shape for arrays in feeds))] for key in feeds[0]}
    infos = [helper.make_tensor_value_info(key, element_type(array), shapes[key]) for key, array in feeds[0].items()]
    initializers = [numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items()]
    graph = helper.make_graph(nodes, name, infos, [onnx.ValueInfoProto(name=output) for output in outputs], initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, ml), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    runs = [(arrays, dict(zip(outputs, session.run(None, arrays), strict=True))) for arrays in feeds]
    del model.graph.output[:]
    model.graph.output.extend(value_info(output, value) for output, value in runs[0][1].items())
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    return save_case(folder, nodes[-1].op_type, runs)


if __name__ == "__main__":
    Generator(CASES, write).main(__doc__)
