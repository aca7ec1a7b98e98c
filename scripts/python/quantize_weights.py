"""Stores the convolutions' weights of an ONNX model in 8 bits, as in examples/image-classification.

    python quantize_weights.py MODEL.onnx OUT.onnx

Requires the package `onnx`. A weight becomes an int8 tensor with one scale for each output channel, and a DequantizeLinear node
before the convolution, so the file takes a quarter of the space. The computation itself stays in float32. Biases are not touched.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

LARGEST = 127


def quantize(model):
    """Changes the model in place."""
    graph = model.graph
    weights = {node.input[1] for node in graph.node if node.op_type == "Conv"}
    nodes = []
    for tensor in [tensor for tensor in graph.initializer if tensor.name in weights]:
        value = numpy_helper.to_array(tensor)
        scale = np.abs(value).max(axis=(1, 2, 3)) / np.float32(LARGEST)
        scale[scale == 0] = 1
        quantized = np.rint(value / scale.reshape(-1, 1, 1, 1)).astype(np.int8)
        names = [f"{tensor.name}.{part}" for part in ("int8", "scale")]
        graph.initializer.remove(tensor)
        graph.initializer.extend(map(numpy_helper.from_array, (quantized, scale), names))
        nodes.append(helper.make_node("DequantizeLinear", names, [tensor.name], name=f"{tensor.name}.float", axis=0))
    for node in reversed(nodes):
        graph.node.insert(0, node)


def main(source, out):
    model = onnx.load(source)
    quantize(model)
    onnx.checker.check_model(model, full_check=True)
    out.write_bytes(model.SerializeToString())
    print(f"{out}: {out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:3]))
