#!/usr/bin/env python3
"""Writes small networks as onnxruntime saves them after all of its optimizations (`optimized_model_filepath`), for the
machine that it runs on, with inputs and results:

    DIRECTORY/<case>/model.onnx
    DIRECTORY/<case>/in_<name>.npy, out_<name>.npy
    DIRECTORY/manifest.json             see model_cases.py

    python optimized_models.py DIRECTORY [--only a,b]
"""

import os
import tempfile

import numpy as np
import onnx
import onnxruntime
from model_cases import IR_VERSION, Generator, rng, save_case
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

OPSET = 17


class Net:
    """A network under construction: methods add a node and return the name of its output."""

    def __init__(self, name, prefix=""):
        self.random, self.prefix = rng(name), prefix
        self.nodes, self.constants, self.inputs, self.outputs, self.feeds = [], [], [], [], []

    def input(self, name, shape, *sizes, dtype=np.float32):
        """An input; `sizes` are the shapes of what is fed, one after the other, or `shape` itself."""
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))
        for at, size in enumerate(sizes or [shape]):
            if len(self.feeds) <= at:
                self.feeds.append({})
            array = self.random.standard_normal(size) if np.dtype(dtype).kind == "f" else self.random.integers(0, 8, size)
            self.feeds[at][name] = array.astype(dtype)
        return name

    def constant(self, array):
        name = f"{self.prefix}c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape):
        scale = 1 / np.sqrt(max(1, np.prod(shape[1:])))
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def add(self, operator, *inputs, outputs=1, **attributes):
        names = [f"{self.prefix}v{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, inputs, outputs, size=3, group=1, bias=True, pad=None, **attributes):
        pad = size // 2 if pad is None else pad
        weights = self.weights(outputs, inputs // group, size, size)
        biases = [self.weights(outputs)] if bias else []
        return self.add("Conv", x, weights, *biases, kernel_shape=[size] * 2, pads=[pad] * 4, group=group, **attributes)

    def normalize(self, x, channels):
        positive = lambda: self.constant((self.random.random(channels) + 0.5).astype(np.float32))
        return self.add("BatchNormalization", x, positive(), self.weights(channels), self.weights(channels), positive())

    def dense(self, x, inputs, outputs):
        return self.add("Add", self.add("MatMul", x, self.weights(inputs, outputs)), self.weights(outputs))

    def layer_norm(self, x, size):
        return self.add("LayerNormalization", x, self.weights(size), self.weights(size), axis=-1)

    def gelu(self, x):
        half = self.add("Div", x, self.constant(np.float32(np.sqrt(2))))
        gate = self.add("Add", self.add("Erf", half), self.constant(np.float32(1)))
        return self.add("Mul", self.add("Mul", x, gate), self.constant(np.float32(0.5)))

    def output(self, x):
        self.outputs.append(x)

    def model(self):
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return onnx.shape_inference.infer_shapes(model)


NETS = {}


def net(build):
    """Adds a network: the function that builds it, whose documentation says what is special about it."""
    NETS[build.__name__] = build
    return build


# ---- Convolutions ----------------------------------------------------------------------------------------------------


@net
def conv_relu(n):
    """one convolution of whole blocks, with free sizes"""
    x = n.input("x", ["n", 16, "h", "w"], (1, 16, 8, 8), (2, 16, 5, 9))
    n.output(n.add("Relu", n.conv(x, 16, 32, bias=False)))


@net
def image_network(n):
    """few input channels, whose convolution reads the input as it is; pools; a classifier"""
    x = n.input("x", ["n", 3, 20, 20], (2, 3, 20, 20))
    y = n.add("Relu", n.normalize(n.conv(x, 3, 16, strides=[2, 2]), 16))
    y = n.add("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = n.add("Relu", n.conv(y, 16, 32))
    y = n.add("AveragePool", y, kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1], count_include_pad=1)
    y = n.add("Flatten", n.add("GlobalAveragePool", y))
    n.output(n.add("Softmax", n.add("Gemm", y, n.weights(32, 10), n.weights(10)), axis=-1))


@net
def residual(n):
    """sums that become inputs of convolutions"""
    x = n.input("x", [1, 3, 16, 16])
    y = n.add("Relu", n.conv(x, 3, 32))
    for _ in range(2):
        z = n.add("Relu", n.normalize(n.conv(y, 32, 32), 32))
        y = n.add("Relu", n.add("Add", n.normalize(n.conv(z, 32, 32), 32), y))
    shortcut = n.conv(y, 32, 64, size=1, strides=[2, 2])
    y = n.add("Relu", n.add("Add", n.conv(y, 32, 64, strides=[2, 2]), shortcut))
    n.output(n.add("GlobalMaxPool", y))


@net
def odd_channels(n):
    """numbers of channels that are no multiples of a block"""
    x = n.input("x", [1, 3, 12, 12])
    y = n.add("Relu", n.conv(x, 3, 20))
    y = n.add("Sigmoid", n.conv(y, 20, 28, size=1))
    y = n.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = n.add("Tanh", n.conv(y, 28, 13))
    n.output(y)
    n.output(n.conv(n.conv(y, 13, 36), 36, 5))


@net
def many_odd_channels(n):
    """convolutions between most numbers of channels up to three blocks"""
    x = n.input("x", [1, 1, 6, 6])
    before = 1
    for channels in [4, 7, 8, 9, 12, 15, 16, 17, 20, 24, 30, 31, 32, 33, 40, 44, 48, 3]:
        x = n.add("Relu", n.conv(x, before, channels))
        n.output(x)
        before = channels


@net
def depthwise(n):
    """depthwise separable convolutions, with activations that have bounds"""
    x = n.input("x", ["n", 3, 17, 19], (1, 3, 17, 19))
    clip = lambda x: n.add("Clip", x, n.constant(np.float32(0)), n.constant(np.float32(6)))
    y = clip(n.normalize(n.conv(x, 3, 16, strides=[2, 2], bias=False), 16))
    for before, after, stride in [(16, 24, 1), (24, 32, 2), (32, 32, 1), (32, 72, 1)]:
        z = clip(n.normalize(n.conv(y, before, before, group=before, strides=[stride] * 2, bias=False), before))
        z = n.normalize(n.conv(z, before, after, size=1, bias=False), after)
        y = n.add("Add", y, z) if before == after else z
    n.output(n.add("HardSigmoid", y))


@net
def grouped(n):
    """groups of whole blocks, of parts of blocks, and shuffled channels"""
    x = n.input("x", [2, 32, 9, 7])
    y = n.add("Relu", n.conv(x, 32, 64, group=2))
    y = n.add("LeakyRelu", n.conv(y, 64, 64, group=4), alpha=0.2)
    y = n.conv(y, 64, 48, group=16)
    y = n.add("Reshape", y, n.constant(np.array([0, 4, 12, 9, 7])))
    y = n.add("Reshape", n.add("Transpose", y, perm=[0, 2, 1, 3, 4]), n.constant(np.array([0, 48, 9, 7])))
    n.output(n.conv(y, 48, 96, group=3))


@net
def dilated(n):
    """strides, dilations, and padding that differ by side"""
    x = n.input("x", [1, 16, 21, 18])
    y = n.conv(x, 16, 32, dilations=[2, 3], pad=2)
    y = n.add("Conv", y, n.weights(48, 32, 2, 5), pads=[0, 1, 1, 3], strides=[2, 1])
    y = n.add("Conv", y, n.weights(16, 48, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])
    n.output(n.add("Conv", y, n.weights(16, 16, 4, 4), auto_pad="SAME_LOWER"))


@net
def pools(n):
    """pools with partial windows, dilations and padding"""
    x = n.input("x", [1, 32, 15, 14])
    y = n.conv(x, 32, 32, size=1)
    n.output(n.add("MaxPool", y, kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1))
    n.output(n.add("MaxPool", y, kernel_shape=[2, 3], dilations=[2, 2], pads=[1, 1, 0, 2]))
    n.output(n.add("AveragePool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    n.output(n.add("AveragePool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1))
    n.output(n.add("AveragePool", y, kernel_shape=[4, 3], strides=[3, 2], ceil_mode=1))
    n.output(n.add("GlobalAveragePool", y))
    n.output(n.add("GlobalMaxPool", y))


@net
def joined_channels(n):
    """concatenations of whole blocks and of parts of blocks, split again"""
    x = n.input("x", [1, 16, 10, 10])
    branches = [n.add("Relu", n.conv(x, 16, channels, size)) for channels, size in [(16, 1), (32, 3), (48, 5)]]
    y = n.add("Concat", *branches, axis=1)
    odd = n.add("Concat", n.conv(y, 96, 20), n.conv(y, 96, 12), y, axis=1)
    y = n.conv(odd, 128, 64)
    parts = n.add("Split", y, n.constant(np.array([24, 40])), outputs=2, axis=1)
    n.output(n.add("Concat", n.conv(parts[1], 40, 16), n.conv(parts[0], 24, 16), axis=1))


@net
def pyramid(n):
    """upsampled maps, added to others of the same sizes, which are free"""
    x = n.input("x", ["n", 3, "h", "w"], (1, 3, 32, 48), (2, 3, 16, 32))
    fine = n.add("Relu", n.conv(x, 3, 16, strides=[2, 2]))
    middle = n.add("Relu", n.conv(fine, 16, 32, strides=[2, 2]))
    coarse = n.add("Relu", n.conv(middle, 32, 64, strides=[2, 2]))
    y = n.conv(coarse, 64, 32, size=1)
    for lateral, channels in [(middle, 32), (fine, 16)]:
        scales = n.constant(np.array([1, 1, 2, 2], dtype=np.float32))
        y = n.add("Resize", y, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        y = n.add("Add", y, n.conv(lateral, channels, 32, size=1))
        n.output(n.add("Relu", n.conv(y, 32, 32)))


@net
def upsampled(n):
    """upsampling of blocks: nearest and linear, by several factors"""
    x = n.input("x", [1, 16, 5, 6])
    y = n.conv(x, 16, 16)
    for factors, attributes in [
        ((3, 1), {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        ((2, 2), {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}),
        ((2, 3), {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
        ((3, 2), {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        ((2, 2), {"mode": "nearest"}),
    ]:
        scales = n.constant(np.array([1, 1, *factors], dtype=np.float32))
        n.output(n.conv(n.add("Resize", y, "", scales, **attributes), 16, 16, size=1))


@net
def excited(n):
    """channels scaled by what is computed from their averages"""
    x = n.input("x", ["n", 3, "h", "w"], (1, 3, 14, 15), (2, 3, 9, 10))
    y = n.conv(x, 3, 32)
    y = n.add("Mul", y, n.add("Sigmoid", y))
    squeezed = n.add("Relu", n.conv(n.add("GlobalAveragePool", y), 32, 8, size=1))
    gate = n.add("Sigmoid", n.conv(squeezed, 8, 32, size=1))
    y = n.add("Mul", y, gate)
    biased = n.add("Add", n.conv(y, 32, 16), n.conv(n.add("GlobalMaxPool", y), 32, 16, size=1))
    n.output(n.add("HardSwish", biased))


@net
def channels_last(n):
    """a network of TensorFlow: transposed at both ends"""
    x = n.input("x", ["n", 18, 18, 16], (2, 18, 18, 16))
    y = n.add("Transpose", x, perm=[0, 3, 1, 2])
    y = n.add("Relu", n.conv(y, 16, 20))
    y = n.add("Add", n.conv(y, 20, 32), n.constant(n.random.standard_normal((1, 32, 1, 1)).astype(np.float32)))
    n.output(n.add("Transpose", y, perm=[0, 2, 3, 1]))


@net
def normalized_between(n):
    """batch normalization that no convolution can take"""
    x = n.input("x", [1, 16, 8, 8])
    y = n.conv(x, 16, 32)
    n.output(n.conv(n.add("Relu", n.normalize(y, 32)), 32, 16))
    n.output(n.add("MaxPool", y, kernel_shape=[2, 2]))
    n.output(n.normalize(n.add("Concat", n.conv(y, 32, 16), y, axis=1), 48))


@net
def in_a_branch(n):
    """a graph of If"""
    x = n.input("x", [1, 16, 8, 8])
    flag = n.input("flag", [], dtype=np.int64)
    first, second = Net("in_a_branch, inside", "a_"), Net("in_a_branch, otherwise", "b_")
    first.output(first.add("Relu", first.conv(x, 16, 20)))
    second.output(second.conv(x, 16, 20, size=1))
    graphs = [helper.make_graph(part.nodes, "part", [],
                                [helper.make_tensor_value_info(part.outputs[0], TensorProto.FLOAT, [1, 20, 8, 8])], part.constants)
              for part in (first, second)]
    condition = n.add("Cast", flag, to=TensorProto.BOOL)
    n.output(n.add("If", condition, then_branch=graphs[0], else_branch=graphs[1]))
    n.feeds = [{"x": n.feeds[0]["x"], "flag": np.array(flag, dtype=np.int64)} for flag in (0, 1)]


# ---- Products --------------------------------------------------------------------------------------------------------


@net
def perceptron(n):
    """products with activations, transposed and scaled factors"""
    x = n.input("x", ["n", 12], (5, 12))
    y = n.add("Relu", n.add("Gemm", x, n.weights(20, 12), n.weights(20), transB=1))
    y = n.add("LeakyRelu", n.add("Gemm", y, n.weights(20, 16), n.weights(16)), alpha=0.1)
    y = n.add("Mul", n.add("MatMul", n.add("Transpose", y, perm=[1, 0]), y), n.constant(np.float32(0.3)))
    n.output(n.gelu(n.dense(y, 16, 8)))


@net
def transformer(n):
    """a block with attention, as exporters write it out"""
    x = n.input("x", ["n", "t", 24], (2, 6, 24), (1, 3, 24))
    shape = n.constant(np.array([0, 0, 3, 8]))
    heads = [n.add("Reshape", n.dense(x, 24, 24), shape) for _ in range(3)]
    q, k, v = (n.add("Transpose", head, perm=perm) for head, perm in zip(heads, [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]]))
    scores = n.add("Div", n.add("MatMul", q, k), n.constant(np.float32(np.sqrt(8))))
    y = n.add("MatMul", n.add("Softmax", scores, axis=-1), v)
    y = n.add("Reshape", n.add("Transpose", y, perm=[0, 2, 1, 3]), n.constant(np.array([0, 0, 24])))
    y = n.layer_norm(n.add("Add", n.dense(y, 24, 24), x), 24)
    z = n.dense(n.gelu(n.dense(y, 24, 48)), 48, 24)
    n.output(n.layer_norm(n.add("Add", z, y), 24))


@net
def gated(n):
    """x * sigmoid(1.702 x), RMS normalization, and an embedding"""
    ids = n.input("ids", ["n", "t"], (2, 5), dtype=np.int64)
    x = n.add("Gather", n.weights(8, 16), ids)
    mean = n.add("ReduceMean", n.add("Pow", x, n.constant(np.float32(2))), axes=[-1], keepdims=1)
    root = n.add("Sqrt", n.add("Add", mean, n.constant(np.float32(1e-5))))
    x = n.add("Mul", n.add("Div", x, root), n.weights(16))
    gate = n.add("Sigmoid", n.add("Mul", x, n.constant(np.float32(1.702))))
    n.output(n.dense(n.add("Mul", x, gate), 16, 4))


# ---- Quantized networks ----------------------------------------------------------------------------------------------


class Feeds(CalibrationDataReader):
    """The inputs of a network as calibration data."""

    def __init__(self, feeds):
        self.rest = iter(feeds)

    def get_next(self):
        return next(self.rest, None)


def quantized(n, **options):
    """The network with 8-bit weights and activations."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "float.onnx"), os.path.join(folder, "int8.onnx")
        onnx.save(n.model(), source)
        prepared = os.path.join(folder, "prepared.onnx")
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_static(prepared, target, Feeds(n.feeds), **options)
        return onnx.load(target)


def small_image_network(n):
    x = n.input("x", [1, 3, 16, 16])
    y = n.add("Relu", n.conv(x, 3, 16, strides=[2, 2]))
    z = n.add("Relu", n.conv(y, 16, 16, group=16))
    y = n.add("Add", n.conv(z, 16, 16, size=1), y)
    y = n.add("Concat", n.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]),
              n.add("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2]), axis=1)
    y = n.add("Sigmoid", n.conv(y, 32, 24))
    y = n.add("Flatten", n.add("GlobalAveragePool", y))
    n.output(n.add("Gemm", y, n.weights(24, 10), n.weights(10)))


@net
def quantize_pairs(n):
    """8-bit activations without a sign between pairs of quantization and dequantization"""
    small_image_network(n)
    return quantized(n, quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


@net
def quantize_pairs_signed(n):
    """8-bit activations with a sign, weights quantized by channel"""
    small_image_network(n)
    return quantized(n, quant_format=QuantFormat.QDQ, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, per_channel=True)


@net
def quantize_operators(n):
    """quantized operators"""
    small_image_network(n)
    return quantized(n, quant_format=QuantFormat.QOperator, activation_type=QuantType.QUInt8, weight_type=QuantType.QUInt8)


@net
def quantize_dynamically(n):
    """products of activations that are quantized as they come"""
    transformer(n)
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "float.onnx"), os.path.join(folder, "int8.onnx")
        onnx.save(n.model(), source)
        quantize_dynamic(source, target, weight_type=QuantType.QInt8)
        return onnx.load(target)


# ---- Writing ---------------------------------------------------------------------------------------------------------


def write(directory, name):
    """Writes the case `name` and gives its entry for the manifest."""
    n = Net(name)
    quantized_model = NETS[name](n)
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = os.path.join(folder, "model.onnx")
    options.log_severity_level = 3
    model = (quantized_model or n.model()).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    runs = [(feeds, dict(zip(names, session.run(None, feeds), strict=True))) for feeds in n.feeds]
    # Some steps of 8 bits.
    more = {"tolerance": 0.03 * max(float(np.abs(y).max()) for _, results in runs for y in results.values())}
    return save_case(folder, NETS[name].__doc__.strip(), runs, **(more if quantized_model else {}))


if __name__ == "__main__":
    Generator(NETS, write).main(__doc__)
