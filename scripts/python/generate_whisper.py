"""An encoder-decoder of Whisper's shape, as Optimum exports it and Transformers.js runs it.

`encoder_model.onnx` has `input_features` in and `last_hidden_state` out. `decoder_model_merged.onnx` is one If node on
`use_cache_branch`: without a cache, a branch computes keys and values of the encoder's states and gives them back as
`present.N.encoder.*`; with one, a branch takes `past_key_values.N.encoder.*`, and gives back empty tensors in their place.
Both share the weights, and attention is written out in MatMul, Softmax and Transpose.
"""
import math
import os
from dataclasses import dataclass

import numpy as np
from generate_graph import BOOL, INT64, Graph, Weights, bytes_per_token, save, value
from onnx import TensorProto

MELS = 80
EPSILON = 1e-5


@dataclass
class Sizes:
    layers: int
    hidden: int
    heads: int
    inner: int
    vocab: int
    frames: int  # of a recording; the second convolution halves them
    positions: int  # of the decoder

    @property
    def states(self):
        return self.frames // 2

    @property
    def head_size(self):
        return self.hidden // self.heads


class Writer(Graph):
    """A graph whose nodes have a prefix, so that two branches can stand in one model. Weights have none."""

    def __init__(self, sizes, seed, prefix=""):
        super().__init__()
        self.sizes, self.weights, self.prefix = sizes, Weights(seed), prefix

    def op(self, op, inputs, name, **attributes):
        return self.node(op, inputs, self.prefix + name, **attributes)

    def ints(self, *numbers):
        return self.constant("ints_" + "_".join(map(str, numbers)), np.array(numbers, np.int64))

    def scalar(self, name, number):
        return self.constant(name, np.array(number, np.float32))

    def random(self, name, shape, scale):
        return self.constant(name, self.weights.draw(name, shape, scale))

    def norm(self, x, name):
        size = self.sizes.hidden
        inputs = [x, self.constant(name + ".weight", self.weights.norm(name + ".weight", size)), self.random(name + ".bias", size, 0.1)]
        return self.op("LayerNormalization", inputs, name, axis=-1, epsilon=EPSILON)

    def linear(self, x, name, depth, columns, gain=1.0, bias=True):
        weight = self.constant(name + ".weight", self.weights.matrix(name + ".weight", depth, columns, gain))
        y = self.op("MatMul", [x, weight], name + ".product")
        return self.op("Add", [y, self.random(name + ".bias", columns, 0.1)], name) if bias else y

    def gelu(self, x, name):
        erf = self.op("Erf", [self.op("Div", [x, self.scalar("root_2", math.sqrt(2))], name + ".scaled")], name + ".erf")
        gate = self.op("Add", [erf, self.scalar("one", 1)], name + ".gate")
        return self.op("Mul", [self.op("Mul", [x, gate], name + ".gated"), self.scalar("half", 0.5)], name)

    def split_heads(self, x, name):
        s = self.sizes
        x = self.op("Reshape", [x, self.ints(0, 0, s.heads, s.head_size)], name + ".heads")
        return self.op("Transpose", [x], name + ".heads_first", perm=[0, 2, 1, 3])

    def query(self, x, name):
        q = self.linear(x, name + ".q", self.sizes.hidden, self.sizes.hidden)
        q = self.op("Mul", [q, self.scalar("scale", self.sizes.head_size ** -0.5)], name + ".q_scaled")
        return self.split_heads(q, name + ".q")

    def keys_and_values(self, x, name):
        size = self.sizes.hidden
        return (self.split_heads(self.linear(x, name + ".k", size, size, bias=False), name + ".k"),
                self.split_heads(self.linear(x, name + ".v", size, size), name + ".v"))

    def attend(self, q, k, v, name, mask=None):
        size = self.sizes.hidden
        scores = self.op("MatMul", [q, self.op("Transpose", [k], name + ".k_turned", perm=[0, 1, 3, 2])], name + ".scores")
        if mask is not None:
            scores = self.op("Add", [scores, mask], name + ".masked")
        y = self.op("MatMul", [self.op("Softmax", [scores], name + ".weights", axis=-1), v], name + ".mixed")
        y = self.op("Transpose", [y], name + ".heads_last", perm=[0, 2, 1, 3])
        y = self.op("Reshape", [y, self.ints(0, 0, size)], name + ".joined")
        return self.linear(y, name + ".out", size, size, 0.5)

    def residual(self, x, y, name):
        return self.op("Add", [x, y], name)

    def feed_forward(self, x, name):
        s = self.sizes
        y = self.gelu(self.linear(self.norm(x, name + ".final_norm"), name + ".fc1", s.hidden, s.inner), name + ".gelu")
        return self.residual(x, self.linear(y, name + ".fc2", s.inner, s.hidden, 0.5), name + ".fed")


def encoder(s, seed):
    w = Writer(s, seed)
    x = "input_features"
    for name, channels, stride in (("conv1", MELS, 1), ("conv2", s.hidden, 2)):
        weight = w.random(name + ".weight", (s.hidden, channels, 3), 1 / math.sqrt(3 * channels))
        x = w.op("Conv", [x, weight, w.random(name + ".bias", s.hidden, 0.1)], name, kernel_shape=[3], pads=[1, 1], strides=[stride])
        x = w.gelu(x, name + ".gelu")
    x = w.op("Transpose", [x], "frames_first", perm=[0, 2, 1])
    x = w.op("Add", [x, w.random("encoder.positions", (s.states, s.hidden), 0.3)], "encoder.embedded")
    for i in range(s.layers):
        p = f"encoder.{i}"
        y = w.norm(x, p + ".norm")
        x = w.residual(x, w.attend(w.query(y, p + ".self"), *w.keys_and_values(y, p + ".self"), p + ".self"), p + ".attended")
        x = w.feed_forward(x, p)
    w.norm(x, "encoder.norm")
    w.nodes[-1].output[0] = "last_hidden_state"
    return w.model([value("input_features", w.type, ["batch_size", MELS, s.frames])],
                   [value("last_hidden_state", w.type, ["batch_size", s.states, s.hidden])])


def causal_mask(w, past, total):
    """`[sequence, total]`: 0 where a token sees another, and the lowest float elsewhere."""
    zero, one = w.constant("zero_i", np.array(0)), w.constant("one_i", np.array(1))
    positions = w.op("Range", [past, total, one], "positions")
    rows = w.op("Unsqueeze", [positions, w.ints(1)], "mask_rows")
    columns = w.op("Range", [zero, total, one], "mask_columns")
    hidden = w.op("Less", [rows, columns], "mask_hidden")
    lowest = w.scalar("lowest", np.finfo(np.float32).min)
    return positions, w.op("Where", [hidden, lowest, w.scalar("zero", 0)], "mask")


def present_names(s, side="present"):
    return [f"{side}.{i}.{part}.{kind}" for i in range(s.layers) for part in ("decoder", "encoder") for kind in ("key", "value")]


def branch(s, seed, with_past):
    """The decoder with or without a cache, with its outputs in the order of the merged one."""
    w = Writer(s, seed, "past." if with_past else "first.")
    index = w.constant("one_i", np.array(1))
    length = w.op("Gather", [w.op("Shape", ["input_ids"], "ids_shape"), index], "length", axis=0)
    if with_past:
        shape = w.op("Shape", ["past_key_values.0.decoder.key"], "past_shape")
        past = w.op("Gather", [shape, w.constant("two_i", np.array(2))], "past_length", axis=0)
    else:
        past = w.constant("zero_i", np.array(0))
    positions, mask = causal_mask(w, past, w.op("Add", [past, length], "total"))
    embedded = w.op("Gather", [w.random("decoder.embed_tokens", (s.vocab, s.hidden), 0.5), "input_ids"], "embedded", axis=0)
    where = w.op("Gather", [w.random("decoder.positions", (s.positions, s.hidden), 0.3), positions], "embedded_positions", axis=0)
    x = w.op("Add", [embedded, where], "decoder.embedded")
    outputs = []
    for i in range(s.layers):
        p = f"decoder.{i}"
        own, others = ([f"past_key_values.{i}.{part}.{kind}" for kind in ("key", "value")] for part in ("decoder", "encoder"))
        y = w.norm(x, p + ".norm")
        fresh = w.keys_and_values(y, p + ".self")
        k, v = (w.op("Concat", [old, new], f"{p}.cache.{i}", axis=2) if with_past else new
                for i, (old, new) in enumerate(zip(own, fresh)))
        x = w.residual(x, w.attend(w.query(y, p + ".self"), k, v, p + ".self", mask), p + ".attended")
        y = w.norm(x, p + ".cross_norm")
        cross = others if with_past else w.keys_and_values("encoder_hidden_states", p + ".cross")
        x = w.residual(x, w.attend(w.query(y, p + ".cross"), *cross, p + ".cross"), p + ".crossed")
        x = w.feed_forward(x, p)
        if with_past:
            empty = w.constant("no_states", np.zeros((0, s.heads, 1, s.head_size), np.float32))
            cross = [w.op("Identity", [empty], f"{p}.{kind}.none") for kind in ("key", "value")]
        outputs += [k, v, *cross]
    logits = w.linear(w.norm(x, "decoder.norm"), "proj_out", s.hidden, s.vocab, 3, bias=False)
    return w, [logits, *outputs]


def decoder(s, seed):
    float_type = TensorProto.FLOAT
    branches = {name: branch(s, seed, with_past) for name, with_past in (("then_branch", True), ("else_branch", False))}
    g = Graph()
    for w, _ in branches.values():
        g.initializers |= w.initializers
    # Branches leave the ranks and types of their outputs to inference.
    bodies = {name: w.body(name, [], [value(output, float_type, None) for output in outputs]) for name, (w, outputs) in branches.items()}
    names = ["logits", *present_names(s)]
    g.node("If", ["use_cache_branch"], "merged", names, **bodies)

    def cache(name):
        # The length of the states has another name than in `encoder_hidden_states`: without a cache it is 0 here.
        own = "past_decoder_sequence_length" if name.startswith("past") else "past_decoder_sequence_length + 1"
        length = "encoder_sequence_length_out" if ".encoder." in name else own
        return value(name, float_type, ["batch_size", s.heads, length, s.head_size])

    inputs = [value("input_ids", INT64, ["batch_size", "decoder_sequence_length"]),
              value("encoder_hidden_states", float_type, ["batch_size", "encoder_sequence_length / 2", s.hidden]),
              *(cache(name) for name in present_names(s, "past_key_values")),
              value("use_cache_branch", BOOL, [1])]
    outputs = [value("logits", float_type, ["batch_size", "decoder_sequence_length", s.vocab]),
               *(cache(name) for name in present_names(s))]
    return g.model(inputs, outputs), branches["then_branch"][0].nodes


def config(s):
    return {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "is_encoder_decoder": True,
            "d_model": s.hidden, "encoder_layers": s.layers, "encoder_attention_heads": s.heads, "decoder_layers": s.layers,
            "decoder_attention_heads": s.heads, "num_mel_bins": MELS, "vocab_size": s.vocab, "max_source_positions": s.states,
            "max_target_positions": s.positions, "decoder_start_token_id": s.vocab - 1}


def write(s, seed, folder):
    """Writes both models, and gives the bytes that the decoder reads for one token."""
    save(encoder(s, seed), os.path.join(folder, "onnx", "encoder_model.onnx"))
    model, nodes = decoder(s, seed)
    save(model, os.path.join(folder, "onnx", "decoder_model_merged.onnx"))
    return bytes_per_token(model, nodes)
