"""Writes the smallest model, which shows what a call costs: one addition of one number. Needs onnx and numpy."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper

here = pathlib.Path(__file__).parent
graph = helper.make_graph(
    [helper.make_node("Add", ["x", "one"], ["y"])],
    "add",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    [helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="make.py")
onnx.save(model, here / "add.onnx")
(here / "add").mkdir(exist_ok=True)
np.save(here / "add" / "in_x.npy", np.array([2.5], np.float32))
np.save(here / "add" / "out_y.npy", np.array([3.5], np.float32))
