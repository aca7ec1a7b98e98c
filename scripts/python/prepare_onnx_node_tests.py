"""Prepares the single-operator tests of the onnx package for a runtime that needs attributes to be known.

    python prepare_onnx_node_tests.py OUT_DIR

Computes the tests of onnx.backend.test.case.node of the installed onnx package, which has no files of them, with the
same random numbers every time. Inputs that WebNN takes as attributes, not as operands (shapes, axes, pads, ...: BAKED below) become initializers
with the values of the test's data; such a model is also written as it is, to be cut where data decide. Nothing else of a model is changed. The expected results of a few tests are wrong
(CORRECTED below) and are computed anew with onnxruntime.

Writes

    OUT_DIR/<test>/model.onnx
    OUT_DIR/<test>/computed.onnx                     the model as it is, where inputs become initializers
    OUT_DIR/<test>/input_<i>.npy, computed_<i>.npy, output_<i>.npy     bool as uint8, bfloat16 as the bits; in the order of index.json;
                                                     .json of strings: { data, shape, dataType }
    OUT_DIR/index.json                               [{ name, opset, operators, dataTypes, emptyTensors,
                                                        baked, corrected, inputs, computed, outputs }], sorted by name

where `inputs`, `computed` (all inputs of computed.onnx, or null) and `outputs` are [{ name, dataType, file }]; `file` is a list
for a sequence, and null where NumPy cannot hold the value, and for an optional without one, which `isNothing` (4-bit and 8-bit floats, ...). `dataTypes` are the element types, by ONNX's
names, of all graph inputs, outputs, initializers and constants; `emptyTensors` names the inputs and outputs, but for
baked ones, that have no elements; `corrected` says why the expected results are not those of the package, or is null.
"""

import collections
import json
import pathlib
import re
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

EXPECTED_TESTS = 1884
SUFFIX = "_expanded"

# Operator -> positions of the inputs that become initializers, and why WebNN cannot take them as operands.
# A test of an operator's function body (`..._expanded`) has the inputs of the operator's own test.
BAKED = {
    # Shapes, sizes, axes, counts: the shape of the result depends on their values, and shapes are static.
    "AffineGrid": [1],  # size
    "CenterCropPad": [1],  # shape
    "Col2Im": [1, 2],  # image shape, block shape
    "Compress": [1],  # condition: it decides how many elements are left
    "ConstantOfShape": [0],  # shape
    "DFT": [1, 2],  # length, axis
    "Expand": [1],  # shape
    "MaxUnpool": [2],  # output shape
    "NonMaxSuppression": [0, 1, 2, 3, 4],  # the boxes decide how many are left
    "NonZero": [0],  # the elements decide how many indices there are
    "OneHot": [1],  # depth
    "Pad": [1, 2, 3],  # pads, value, axes: attributes of pad()
    "Range": [0, 1, 2],  # start, limit, delta
    "Reshape": [1],  # shape
    "Resize": [1, 2, 3],  # region, scales, sizes
    "Slice": [1, 2, 3, 4],  # starts, ends, axes, steps
    "Split": [1],  # sizes
    "SplitToSequence": [1],  # sizes
    "Squeeze": [1],  # axes
    "STFT": [1, 3],  # frame step, frame length
    "Tile": [1],  # repeats
    "TopK": [1],  # k
    "Unique": [0],  # the elements decide how many are different
    "Unsqueeze": [1],  # axes
    "Upsample": [1],  # scales
    "BlackmanWindow": [0],  # size
    "HammingWindow": [0],  # size
    "HannWindow": [0],  # size
    "MelWeightMatrix": [0, 1, 2, 3, 4],  # sizes and frequencies
    "ReduceL1": [1],  # axes
    "ReduceL2": [1],
    "ReduceLogSum": [1],
    "ReduceLogSumExp": [1],
    "ReduceMax": [1],
    "ReduceMean": [1],
    "ReduceMin": [1],
    "ReduceProd": [1],
    "ReduceSum": [1],
    "ReduceSumSquare": [1],
    # Attributes of WebNN's operators whose values, not only whose shapes, decide what is computed.
    "Clip": [1, 2],  # minimum, maximum: attributes of clamp()
    "CumProd": [1],  # axis
    "CumSum": [1],  # axis: an attribute of cumulativeSum()
    "Dropout": [1, 2],  # ratio, training mode
    "ReverseSequence": [1],  # sequence lengths
    "Trilu": [1],  # diagonal: an attribute of triangular()
    # Control flow: WebNN has none, so it must be decided when the graph is built.
    "If": [0],  # condition
    "Loop": [0, 1],  # trip count, condition
}

# Tests whose expected values contradict the operator, and why.
CORRECTED = {
    r"test_attention_4d_causal_fp16(_expanded)?": "every step of the reference is rounded to float16",
    r"test_resize_downsample_scales_(cubic|linear)_align_corners": "the length of the result was not a whole number",
}

# Element types that NumPy holds without help.
PLAIN = {
    "float", "double", "float16", "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip


def type_name(data_type):
    """ONNX's name of an element type: `float`, `bfloat16`, `string`."""
    return TensorProto.DataType.Name(data_type).lower()


def all_nodes(graph):
    """The nodes of a graph and of the graphs inside them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from all_nodes(inner)


def operator_name(node):
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def tensors_inside(graph):
    """Initializers and values of constants."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for inner in [attribute.g, *attribute.graphs]:
                yield from tensors_inside(inner)


def value_type(info):
    """`float` for a tensor of floats; `sequence`, `optional` for those."""
    kind = info.type.WhichOneof("value")
    return type_name(info.type.tensor_type.elem_type) if kind == "tensor_type" else kind.removesuffix("_type")


def value_of(value):
    """A value of a sequence or an optional: a tensor, a list of them, or None."""
    if isinstance(value, onnx.OptionalProto):
        kind = {onnx.OptionalProto.TENSOR: "tensor_value", onnx.OptionalProto.SEQUENCE: "sequence_value"}.get(value.elem_type)
        return None if kind is None else value_of(getattr(value, kind))
    if isinstance(value, onnx.SequenceProto):
        return [value_of(inner) for inner in value.tensor_values]
    if isinstance(value, list):
        return [value_of(inner) for inner in value]
    if value is None or isinstance(value, TensorProto):
        return value
    return numpy_helper.from_array(np.asarray(value))


def tensors(values, infos):
    """The data of the graph's inputs or outputs: tensors, lists of them, or None for an optional without a value."""
    found = []
    for value, info in zip(values, infos, strict=True):
        if info.type.WhichOneof("value") != "tensor_type":
            found.append(value_of(value))
        elif isinstance(value, TensorProto):
            found.append(value)
        else:
            found.append(numpy_helper.from_array(np.asarray(value)))
    return found


def baked_names(name, model, models):
    """Names of the graph inputs that become initializers."""
    of_operator = models.get(name.partition(SUFFIX)[0], model)
    positions = {info.name: i for i, info in enumerate(of_operator.graph.input)}
    baked = set()
    for node in of_operator.graph.node:
        for i in BAKED.get(operator_name(node), []):
            if i < len(node.input) and node.input[i] in positions:
                baked.add(positions[node.input[i]])
    return {model.graph.input[i].name for i in baked}


def bake(model, names, values):
    """Turns graph inputs into initializers. `values` has a tensor per graph input."""
    kept = []
    for info, value in zip(list(model.graph.input), values, strict=True):
        if info.name not in names:
            kept.append(info)
            continue
        initializer = model.graph.initializer.add()
        initializer.CopyFrom(value)
        initializer.name = info.name
    del model.graph.input[:]
    model.graph.input.extend(kept)
    # Before version 4, initializers had to be inputs as well.
    model.ir_version = max(model.ir_version, 4)


def correction(name):
    """Why the expected results of a test are wrong, or None."""
    reasons = [why for pattern, why in CORRECTED.items() if re.fullmatch(pattern, name)]
    return reasons[0] if reasons else None


def corrected(name, model, inputs, outputs):
    """The results of onnxruntime, as tensors. They must differ from `outputs`: else there is nothing to correct."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {info.name: numpy_helper.to_array(value) for info, value in zip(model.graph.input, inputs, strict=True)}
    results = session.run([info.name for info in model.graph.output], feeds)
    if all(np.allclose(new, numpy_helper.to_array(old)) for new, old in zip(results, outputs, strict=True)):
        sys.exit(f"{name}: its expected values are right, although CORRECTED lists it")
    return [numpy_helper.from_array(result) for result in results]


def write_tensor(out, name, value):
    """Writes a tensor; returns the name of the file, or None where NumPy cannot hold it."""
    element = type_name(value.data_type)
    if element == "string":
        texts = [text.decode() for text in value.string_data]
        (out / f"{name}.json").write_text(json.dumps({"data": texts, "shape": list(value.dims), "dataType": "string"}))
        return f"{name}.json"
    if element not in PLAIN and element != "bfloat16":
        return None
    array = numpy_helper.to_array(value)
    if element == "bfloat16":
        array = array.view(np.uint16)
    array = np.ascontiguousarray(array.astype(np.uint8) if array.dtype == bool else array).reshape(array.shape)
    np.save(out / f"{name}.npy", array)
    return f"{name}.npy"


def write_values(out, kind, infos, values):
    """Writes the arrays; returns the rows of the index."""
    rows = []
    for i, (info, value) in enumerate(zip(infos, values, strict=True)):
        data_type, name = value_type(info), f"{kind}_{i}"
        if isinstance(value, list):
            file = [write_tensor(out, f"{name}_{at}", inner) for at, inner in enumerate(value)]
        else:
            file = None if value is None else write_tensor(out, name, value)
        row = {"name": info.name, "dataType": data_type, "file": file}
        if value is None and data_type == "optional":
            row["isNothing"] = True
        rows.append(row)
    return rows


def prepare(test, models, out):
    """Writes one test; returns its row of the index."""
    name, model = test.name, test.model
    ((inputs, outputs),) = test.data_sets
    inputs, outputs = tensors(inputs, model.graph.input), tensors(outputs, model.graph.output)
    if correction(name):
        outputs = corrected(name, model, inputs, outputs)
    names = baked_names(name, model, models)
    types = {value_type(info) for info in [*model.graph.input, *model.graph.output]}
    types |= {type_name(tensor.data_type) for tensor in tensors_inside(model.graph)}
    baked = [info.name for info in model.graph.input if info.name in names]
    original, model = model, onnx.ModelProto.FromString(model.SerializeToString())
    values = {info.name: value for info, value in zip(model.graph.input, inputs, strict=True)}
    bake(model, names, inputs)
    kept = [values[info.name] for info in model.graph.input]
    operands = zip([*model.graph.input, *model.graph.output], [*kept, *outputs], strict=True)
    (out / name).mkdir()
    (out / name / "model.onnx").write_bytes(model.SerializeToString())
    if baked:
        (out / name / "computed.onnx").write_bytes(original.SerializeToString())
    return {
        "name": name,
        "opset": {entry.domain: entry.version for entry in model.opset_import},
        "operators": dict(sorted(collections.Counter(map(operator_name, all_nodes(model.graph))).items())),
        "dataTypes": sorted(types),
        "emptyTensors": [info.name for info, value in operands if isinstance(value, TensorProto) and 0 in value.dims],
        "baked": baked,
        "corrected": correction(name),
        "inputs": write_values(out / name, "input", model.graph.input, kept),
        "computed": write_values(out / name, "computed", original.graph.input, inputs) if baked else None,
        "outputs": write_values(out / name, "output", model.graph.output, outputs),
    }


def precise(transform):
    """A transform of NumPy in float64: since NumPy 2, those of float32 are rounded in every step."""
    return lambda x, *args, **kwargs: transform(np.asarray(x, np.result_type(x, np.float64)), *args, **kwargs)


def main(out):
    for name in ("fft", "ifft", "rfft", "irfft"):
        setattr(np.fft, name, precise(getattr(np.fft, name)))
    np.random.seed(0)
    with np.errstate(all="ignore"):
        tests = sorted(load_node_model_tests(), key=lambda test: test.name)
    if len(tests) != EXPECTED_TESTS:
        sys.exit(f"onnx {onnx.__version__} has {len(tests)} tests, expected {EXPECTED_TESTS}")
    models = {test.name: test.model for test in tests}
    unfinished = out.with_name(out.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    index = [prepare(test, models, unfinished) for test in tests]
    (unfinished / "index.json").write_text(json.dumps(index, indent=1))
    shutil.rmtree(out, ignore_errors=True)
    unfinished.rename(out)
    print(
        f"{len(index)} tests in {out}, {sum(bool(row['baked']) for row in index)} with baked inputs, "
        f"{sum(row['corrected'] is not None for row in index)} with corrected results"
    )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
