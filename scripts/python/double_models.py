#!/usr/bin/env python3
"""Writes one small model per operator of ai.onnx that computes doubles, with seeded inputs whose results need float64, and
the outputs of onnxruntime's CPU provider:

    DIRECTORY/<case>/model.onnx
    DIRECTORY/<case>/in_<name>.npy, out_<name>.npy
    DIRECTORY/manifest.json             see model_cases.py

    python double_models.py DIRECTORY [--only a,b]

Operators that onnxruntime has no double kernel for are not here.
"""

import os

import numpy as np
import onnx
import onnxruntime
from model_cases import IR_VERSION, Generator, rng, save_case
from onnx import TensorProto, helper, numpy_helper

OPSET = 21
CASES = {}


def case(name, nodes, feeds, constants=None, outputs=("y",)):
    """A case. A node is its operator, inputs, outputs and attributes, the names of values separated by spaces."""
    assert name not in CASES, name
    CASES[name] = (nodes, feeds, constants or {}, outputs)


def single(name, operator, feeds, constants=None, outputs="y", **attributes):
    inputs = " ".join([*feeds, *(constants or {})])
    case(name, [(operator, inputs, outputs, attributes)], feeds, constants, tuple(outputs.split()))


def normal(name, *shape, scale=1.0):
    """Numbers, of which neighbors differ by less than float32 resolves."""
    numbers = rng(name).standard_normal(shape) * scale
    flat = numbers.reshape(-1)
    flat[1::2] = flat[: flat.size // 2 * 2 : 2] * (1 + 1e-12)
    return numbers


def positive(name, *shape):
    return np.abs(normal(name, *shape)) + 0.25


SHAPE = (3, 5, 7)

# ---- Element-wise ----------------------------------------------------------------------------------------------------

for operator in ("Abs", "Ceil", "Exp", "Floor", "IsInf", "IsNaN", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin",
                 "Tanh"):
    single(operator.lower(), operator, {"x": normal(operator, *SHAPE, scale=2)})
single("log", "Log", {"x": positive("log", *SHAPE)})
single("sqrt", "Sqrt", {"x": positive("sqrt", *SHAPE)})
single("clip", "Clip", {"x": normal("clip", *SHAPE)}, {"low": np.array(-1 / 3), "high": np.array(2 / 3)})
for operator in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
    single(operator.lower(), operator, {"a": normal(operator, *SHAPE), "b": normal(operator + "b", 5, 1)})
    single(f"{operator.lower()}_scalar", operator, {"a": normal(operator, *SHAPE)}, {"b": np.array(1 / 3)})
single("pow", "Pow", {"a": positive("pow", *SHAPE), "b": normal("powb", 5, 7)})
single("pow_square", "Pow", {"a": normal("pow2", *SHAPE)}, {"b": np.array(2.0)})
single("sum_of_three", "Sum", {"a": normal("s3", *SHAPE), "b": normal("s3b", 7), "c": normal("s3c", 5, 1)})
equal = normal("compare", *SHAPE)
shifted = equal * np.where(rng("shift").random(SHAPE) < 0.5, 1, 1 + 1e-15)
for operator in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
    single(operator.lower(), operator, {"a": equal, "b": shifted})
single("where", "Where", {"c": rng("where").random(SHAPE) < 0.5, "a": equal, "b": normal("whereb", 7)})
for to in ("FLOAT", "FLOAT16", "INT32", "INT64", "UINT8", "BOOL"):
    x = rng("to" + to).integers(0, 200, SHAPE) + rng(to).random(SHAPE) if to == "UINT8" else normal("to" + to, *SHAPE, scale=1e4)
    single(f"cast_to_{to.lower()}", "Cast", {"x": x}, to=getattr(TensorProto, to))
for dtype in (np.float32, np.float16, np.int32, np.int64, np.uint8, np.bool_):
    x = (np.abs(normal("from", *SHAPE, scale=100)) % 200).astype(dtype)
    single(f"cast_from_{np.dtype(dtype).name}", "Cast", {"x": x}, to=TensorProto.DOUBLE)
big = np.array([2**53 + 1, -(2**53) - 1, 2**62 + 1, -3], dtype=np.int64)
single("cast_from_large_int64", "Cast", {"x": big}, to=TensorProto.DOUBLE)
timestamps = 1.7e9 + np.arange(24) / 7
case("timestamps", [("Sub", "x origin", "age", {}), ("Div", "age hour", "hours", {}), ("Floor", "hours", "whole", {}),
                    ("Sub", "hours whole", "part", {}), ("Cast", "part", "y", {"to": TensorProto.FLOAT})],
     {"x": timestamps}, {"origin": np.array(1.7e9), "hour": np.array(3600.0)}, ("age", "part", "y"))

# ---- Reductions ------------------------------------------------------------------------------------------------------

for operator in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
                 "ReduceSumSquare", "ReduceLogSum"):
    x = positive(operator, 4, 6, 5) if operator == "ReduceLogSum" else normal(operator, 4, 6, 5)
    for axes in ([0], [2], [0, 2], None):
        suffix = "all" if axes is None else "_".join(map(str, axes))
        constants = {} if axes is None else {"axes": np.array(axes, dtype=np.int64)}
        single(f"{operator.lower()}_{suffix}", operator, {"x": x}, constants, keepdims=int(axes == [2]))
# A sum that float32 loses.
single("reduce_sum_cancels", "ReduceSum", {"x": np.array([1e10, 1.0, -1e10, 1e-3] * 50)}, keepdims=0)
for operator in ("ArgMax", "ArgMin"):
    for axis in (0, 2):
        single(f"{operator.lower()}_{axis}", operator, {"x": normal(operator, *SHAPE)}, axis=axis)
single("cumsum", "CumSum", {"x": normal("cumsum", *SHAPE)}, {"axis": np.array(1)})
single("cumsum_reversed", "CumSum", {"x": normal("cumsum", *SHAPE)}, {"axis": np.array(2)}, exclusive=1, reverse=1)
single("softmax", "Softmax", {"x": normal("softmax", *SHAPE, scale=3)})
single("log_softmax", "LogSoftmax", {"x": normal("logsoftmax", *SHAPE, scale=3)}, axis=1)
single("top_k", "TopK", {"x": normal("topk", 4, 20)}, {"k": np.array([3])}, "y places")

# ---- Products --------------------------------------------------------------------------------------------------------

for name, a, b in (("matrices", (9, 33), (33, 17)), ("batches", (2, 3, 5, 7), (7, 4)), ("vector", (7,), (7, 4)), ("row", (1, 300), (300, 65)),
                   ("column", (40, 30), (30, 1))):
    single(f"matmul_{name}", "MatMul", {"a": normal(name, *a), "b": normal(name + "b", *b)})
single("gemm", "Gemm", {"a": normal("ga", 6, 9)}, {"b": normal("gb", 4, 9), "c": normal("gc", 4)}, transB=1, alpha=0.5, beta=2.0)
single("gemm_transposed", "Gemm", {"a": normal("gta", 9, 6)}, {"b": normal("gtb", 9, 4), "c": normal("gtc", 6, 1)}, transA=1)
single("einsum", "Einsum", {"a": normal("ea", 3, 4, 5), "b": normal("eb", 3, 5, 2)}, equation="bij,bjk->bik")

# ---- Movement --------------------------------------------------------------------------------------------------------

x = normal("moved", *SHAPE)
places = np.array([[2, 0], [1, -1]], dtype=np.int64)
single("concat", "Concat", {"a": x, "b": normal("cb", 3, 2, 7)}, axis=1)
single("split", "Split", {"x": x}, {"sizes": np.array([2, 3])}, "y z", axis=1)
single("slice", "Slice", {"x": x}, {"starts": np.array([1, -1]), "ends": np.array([3, -8]), "axes": np.array([1, 2]), "steps": np.array([1, -2])})
single("transpose", "Transpose", {"x": x}, perm=[2, 0, 1])
single("reshape", "Reshape", {"x": x}, {"shape": np.array([-1, 5])})
single("expand", "Expand", {"x": normal("ex", 5, 1)}, {"shape": np.array(SHAPE)})
single("tile", "Tile", {"x": normal("ti", 2, 3)}, {"repeats": np.array([2, 3])})
single("pad", "Pad", {"x": normal("pa", 2, 3)}, {"pads": np.array([1, 0, 0, 2]), "value": np.array(1 / 3)})
single("pad_reflected", "Pad", {"x": normal("pr", 4, 3)}, {"pads": np.array([1, 2, 2, 0])}, mode="reflect")
single("gather", "Gather", {"x": x}, {"places": places}, axis=0)
single("gather_elements", "GatherElements", {"x": normal("ge", 3, 2)}, {"places": places}, axis=0)
single("gather_nd", "GatherND", {"x": x}, {"places": np.array([[0, 1], [2, 4]])})
case("scatter_nd", [("ScatterND", "x places updates", "y", {})], {"x": x, "updates": normal("snu", 2, 7)}, {"places": np.array([[0, 1], [2, 4]])})
for reduction in ("none", "add", "mul", "min", "max"):
    case(f"scatter_elements_{reduction}", [("ScatterElements", "x places updates", "y", {"axis": 1, "reduction": reduction})],
         {"x": normal("se", 2, 5), "updates": normal("seu", 2, 3)}, {"places": np.array([[4, 0, 2], [1, 3, 0]])})
single("trilu", "Trilu", {"x": normal("tr", 5, 6)}, upper=0)
single("compress", "Compress", {"x": normal("co", 3, 2), "c": np.array([True, False, True])}, axis=0)
single("unique", "Unique", {"x": np.round(normal("un", 20))})
case("constant_of_shape", [("ConstantOfShape", "shape", "c", {"value": numpy_helper.from_array(np.array([1 / 3]))}), ("Add", "x c", "y", {})],
     {"x": normal("cos", 2, 3)}, {"shape": np.array([2, 3])})
single("range", "Range", {"start": np.array(1 / 3), "limit": np.array(4.0), "delta": np.array(0.7)})
case("branches", [("ReduceSum", "x", "sum", {"keepdims": 0}), ("Greater", "sum zero", "c", {}),
                  ("If", "c", "y", {"then_branch": "Neg", "else_branch": "Sqrt"})], {"x": positive("if", 4)}, {"zero": np.array(0.0)})

# ---- Writing ---------------------------------------------------------------------------------------------------------


def value_info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def branch(operator):
    """A graph with a node that reads the value x of the graph around it."""
    output = f"of_{operator}"
    graph = helper.make_graph([helper.make_node(operator, ["x"], [output])], operator, [], [])
    graph.output.append(helper.make_tensor_value_info(output, TensorProto.DOUBLE, None))
    return graph


def write(directory, name):
    """Writes the case `name` and gives its entry for the manifest."""
    nodes, feeds, constants, outputs = CASES[name]
    made = []
    for operator, inputs, results, attributes in nodes:
        attributes = {key: branch(value) if key.endswith("_branch") else value for key, value in attributes.items()}
        made.append(helper.make_node(operator, inputs.split(), results.split(), name=results, **attributes))
    weights = [numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items()]
    graph = helper.make_graph(made, name, [value_info(key, array) for key, array in feeds.items()],
                              [onnx.ValueInfoProto(name=output) for output in outputs], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = dict(zip(outputs, session.run(None, feeds), strict=True))
    del model.graph.output[:]
    model.graph.output.extend(value_info(output, array) for output, array in results.items())
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    return save_case(folder, name, [(feeds, results)])


if __name__ == "__main__":
    Generator(CASES, write).main(__doc__)
