"""ONNX graphs with seeded random weights: what the writers of language models share."""
import os
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

MICROSOFT = "com.microsoft"
CONTRIBUTED = {"GroupQueryAttention", "RotaryEmbedding", "SkipSimplifiedLayerNormalization"}

# Weights along the depth that share a scale, as Transformers.js's own conversions and GGUF have them.
BLOCK = 32


class Weights:
    """Random weights by name: the same for every type and file format."""

    def __init__(self, seed):
        self.seed = seed

    def draw(self, name, shape, scale):
        random = np.random.Generator(np.random.PCG64([self.seed, zlib.crc32(name.encode())]))
        return random.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    def matrix(self, name, depth, columns, gain=1.0):
        """`[depth, columns]` that keeps the deviation of its operand, times `gain`."""
        return self.draw(name, (depth, columns), gain / np.sqrt(depth))

    def norm(self, name, size):
        return 1 + self.draw(name, size, 0.1)


class Graph:
    """An ONNX graph under construction. Outputs have the name of their node."""

    def __init__(self, dtype=np.float32):
        self.dtype = np.dtype(dtype)
        self.type = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes, self.initializers = [], {}

    def constant(self, name, array):
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def weight(self, name, array):
        return self.constant(name, array.astype(self.dtype))

    def node(self, op, inputs, name, outputs=None, **attributes):
        domain = MICROSOFT if op in CONTRIBUTED else ""
        outputs = outputs or [name]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def body(self, name, inputs, outputs, initializers=()):
        return helper.make_graph(self.nodes, name, inputs, outputs, list(initializers))

    def model(self, inputs, outputs):
        graph = self.body("model", inputs, outputs, self.initializers.values())
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, producer_name="webnn-node-bench", ir_version=9, opset_imports=opsets)


def quantize(model, bits, level=None):
    """The model with MatMulNBits in the place of products with weights: symmetric, the level of accuracy unset or given."""
    config = DefaultWeightOnlyQuantConfig(block_size=BLOCK, is_symmetric=True, accuracy_level=level, bits=bits)
    quantizer = MatMulNBitsQuantizer(model, algo_config=config)
    quantizer.process()
    return quantizer.model.model


def initializer_bytes(initializer):
    return int(np.prod(initializer.dims)) * helper.tensor_dtype_to_np_dtype(initializer.data_type).itemsize


def bytes_per_token(model, nodes=None):
    """Bytes of weights that are read for one token: all that `nodes` read, but for tables of which they take single rows."""
    sizes = {one.name: initializer_bytes(one) for one in model.graph.initializer}
    read = set()
    for node in model.graph.node if nodes is None else nodes:
        inputs = node.input
        if node.op_type == "Gather":
            inputs = inputs[1:]
        if node.op_type == "GroupQueryAttention":
            inputs = inputs[:7]
        read.update(inputs)
    return sum(size for name, size in sizes.items() if name in read)


def save(model, path, external=False):
    """Writes the model, with `external` its weights in a file beside it, as language models are published."""
    data = path + "_data"
    if os.path.exists(data):
        os.remove(data)  # onnx appends to it
    if external:
        onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=True, location=os.path.basename(data))
    else:
        onnx.save(model, path)


def value(name, data_type, shape):
    return helper.make_tensor_value_info(name, data_type, shape)


INT64 = TensorProto.INT64
INT32 = TensorProto.INT32
BOOL = TensorProto.BOOL
