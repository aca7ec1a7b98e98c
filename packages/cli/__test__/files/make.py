"""Writes the models and arrays of the command line's tests beside this script. Needs onnx and numpy."""

from pathlib import Path

import numpy as np
from onnx import TensorProto as T, checker, helper as h, numpy_helper, save

HERE = Path(__file__).parent
OPSETS = [h.make_opsetid("", 17)]


def model(name, nodes, inputs, outputs, initializers=(), opsets=OPSETS):
    values = lambda pairs: [h.make_tensor_value_info(n, t, s) for n, t, s in pairs]
    graph = h.make_graph(nodes, name, values(inputs), values(outputs), list(initializers))
    proto = h.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="make.py")
    if opsets is OPSETS:
        checker.check_model(proto, full_check=True)
    save(proto, HERE / f"{name}.onnx")


def models():
    # The mean of each channel: a classifier of colours.
    model("colors",
          [h.make_node("GlobalAveragePool", ["image"], ["mean"], "mean"), h.make_node("Flatten", ["mean"], ["scores"], "flat")],
          [("image", T.FLOAT, [1, 3, 8, 8])], [("scores", T.FLOAT, [1, 3])])
    # The preprocessed picture itself.
    shape = ["batch", 3, "height", "width"]
    model("any-size", [h.make_node("Identity", ["image"], ["same"], "same")], [("image", T.FLOAT, shape)], [("same", T.FLOAT, shape)])
    model("bytes", [h.make_node("Identity", ["image"], ["same"], "same")],
          [("image", T.UINT8, [1, 8, 8, 3])], [("same", T.UINT8, [1, 8, 8, 3])])
    sequence = ["batch", "sequence"]
    model("tokens",
          [h.make_node("Cast", ["ids"], ["floats"], "cast", to=T.FLOAT), h.make_node("Mul", ["floats", "mask"], ["masked"], "mask"),
           h.make_node("Identity", ["ids"], ["copy/ids"], "copy")],
          [("ids", T.INT64, sequence), ("mask", T.FLOAT, sequence)], [("masked", T.FLOAT, sequence), ("copy/ids", T.INT64, sequence)])
    model("half", [h.make_node("Add", ["x", "x"], ["y"], "double")], [("x", T.FLOAT16, [4])], [("y", T.FLOAT16, [4])])
    weights = numpy_helper.from_array((np.arange(256, dtype=np.float32).reshape(16, 16, 1, 1) - 128) / 256, "weights")
    shape = [1, 16, 4, 4]
    model("conv", [h.make_node("Conv", ["x", "weights"], ["sum"], "mix"), h.make_node("Relu", ["sum"], ["y"], "positive")],
          [("x", T.FLOAT, shape)], [("y", T.FLOAT, shape)], [weights])
    # The name would turn a terminal red.
    model("unsupported", [h.make_node("Strange", ["x"], ["y"], "odd\x1b[31m", domain="org.example")],
          [("x", T.FLOAT, [4])], [("y", T.FLOAT, [4])], opsets=[*OPSETS, h.make_opsetid("org.example", 1)])


def arrays():
    for dtype in ["float64", "float32", "float16", "int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8"]:
        np.save(HERE / f"{dtype}.npy", np.arange(6).astype(dtype).reshape(2, 3))
    np.save(HERE / "bool.npy", np.array([True, False, True]))
    np.save(HERE / "scalar.npy", np.array(7, dtype=np.float32))
    np.save(HERE / "empty.npy", np.zeros((0, 3), dtype=np.float32))
    np.save(HERE / "fortran.npy", np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
    np.save(HERE / "big-endian.npy", np.arange(6, dtype=">f4").reshape(2, 3))
    np.savez(HERE / "one.npz", ids=np.arange(6, dtype=np.int64).reshape(2, 3))
    np.savez_compressed(HERE / "two.npz", ids=np.arange(6, dtype=np.int64).reshape(2, 3), mask=np.ones((2, 3), dtype=np.float32))


models()
arrays()
