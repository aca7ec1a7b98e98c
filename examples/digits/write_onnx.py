"""Writes weights.safetensors as an ONNX model, examples/http-endpoint/digits.onnx, which other examples copy.

    pip install numpy onnx==1.23.2 safetensors==0.8.0
    python examples/digits/write_onnx.py

    pixels         float32 [batch, 1, 8, 8]    0 (paper) to 16 (ink)
    probabilities  float32 [batch, 10]         of the digits 0 to 9
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).resolve().parent
FULL_INK = 16


def model(weights):
    constants = {**weights, "scale": np.float32(1 / FULL_INK), "flat": np.array([0, -1])}
    nodes = [
        helper.make_node("Mul", ["pixels", "scale"], ["ink"]),
        helper.make_node("Conv", ["ink", "conv1.weight", "conv1.bias"], ["y1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["y1"], ["a1"]),
        helper.make_node("Conv", ["a1", "conv2.weight", "conv2.bias"], ["y2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["y2"], ["a2"]),
        helper.make_node("MaxPool", ["a2"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["pooled", "flat"], ["features"]),
        helper.make_node("Gemm", ["features", "dense1.weight", "dense1.bias"], ["y3"]),
        helper.make_node("Relu", ["y3"], ["a3"]),
        helper.make_node("Gemm", ["a3", "dense2.weight", "dense2.bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        initializer=[numpy_helper.from_array(np.array(value), name) for name, value in constants.items()],
    )
    result = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="webnn-node examples", ir_version=8
    )
    onnx.checker.check_model(result, full_check=True)
    return result


def main():
    content = model(load_file(HERE / "weights.safetensors")).SerializeToString()
    (HERE.parent / "http-endpoint" / "digits.onnx").write_bytes(content)


if __name__ == "__main__":
    main()
