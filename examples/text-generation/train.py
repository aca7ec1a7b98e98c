"""Trains the small language model of the text-generation example and writes its files.

Usage, from any folder:

    python3 -m venv venv
    venv/bin/pip install torch numpy onnx onnxruntime
    venv/bin/python examples/text-generation/train.py

The model is a GPT-2 in small: learned positions, pre-norm blocks, GELU in its tanh form, output weights tied to the
embedding. Its tokens are the 128 characters of ASCII. It learns the few hundred sentences of
examples/semantic-search/texts by heart, in about ten minutes on one core: what it writes are these sentences and
mixtures of them. Everything random has a fixed seed; another version of torch may round differently.

Written next to this file:

    model.onnx         one step: the logits of the next character, given one character and the keys and values of all
                       before it. Weights are stored in float16 and computed with in float32.
    reference.json     what onnxruntime generates with it, always taking the most likely character

Inputs and outputs of the model (L layers, H heads, C the longest text, D numbers per head):

    token          int64 [1]              the character
    position       int64 [1]              its place, 0 to C - 1
    past_key_l     float32 [H, C, D]      keys of layer l; rows from `position` on are not read
    past_value_l   float32 [H, C, D]
    logits         float32 [1, 128]
    present_key_l  float32 [H, C, D]      past_key_l with the row `position` filled in
    present_value_l

All shapes are fixed, so that one compiled graph serves every step, and a step's `present` tensors are the next
step's `past` tensors.
"""

import json
import math
import pathlib

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = HERE.parent / "semantic-search" / "texts"
SEED = 2026

VOCABULARY = 128
CONTEXT = 256
LAYERS = 3
HEADS = 4
WIDTH = 96
HEAD_WIDTH = WIDTH // HEADS
EPSILON = 1e-5

STEPS = 1400
BATCH = 12
LEARNING_RATE = 3e-3
WARM_UP = 60
WEIGHT_DECAY = 0.02

PROMPTS = ["Cats ", "Stars ", "Winter "]
REFERENCE_LENGTH = 120


class Block(nn.Module):
    """Causal attention and a two-layer perceptron, each after a normalisation and beside a residual connection."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, EPSILON)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, EPSILON)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, HEAD_WIDTH).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    """[batch, length] characters to [batch, length, VOCABULARY] logits."""

    def __init__(self):
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, EPSILON)
        for embedding in (self.characters, self.positions):
            nn.init.normal_(embedding.weight, std=0.05)

    def forward(self, tokens):
        x = self.characters(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.characters.weight.T


def sentences():
    """All lines of the texts; a character outside of ASCII is an error."""
    lines = [line for path in sorted(TEXTS.glob("*.txt")) for line in path.read_text("ascii").splitlines()]
    return [line for line in lines if line]


def batch_of(lines, rng):
    """Rows of CONTEXT + 1 characters: sentences in random order, from the start of one."""
    length = CONTEXT + 1
    rows = np.zeros((BATCH, length), np.int64)
    for row in rows:
        text = ""
        while len(text) < length:
            text += lines[rng.integers(len(lines))] + "\n"
        row[:] = np.frombuffer(text[:length].encode("ascii"), np.uint8)
    return torch.from_numpy(rows)


def train():
    """Returns the trained model; prints the loss."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    lines = sentences()
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), weight_decay=WEIGHT_DECAY)
    schedule = lambda step: min((step + 1) / WARM_UP, 0.5 + 0.5 * math.cos(math.pi * step / STEPS) + 0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    for step in range(STEPS):
        rows = batch_of(lines, rng)
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 100 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return model


class Graph:
    """Collects the nodes and weights of an ONNX graph; every method returns the name of a tensor."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def operator(self, kind, *inputs, outputs=None, **attributes):
        names = outputs or [f"{kind.lower()}_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"{kind}_{len(self.nodes)}", **attributes))
        return names[0] if len(names) == 1 else names

    def constant(self, array, name):
        self.weights.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def weight(self, tensor, name):
        """A weight, stored in float16."""
        half = self.constant(tensor.detach().numpy().astype(np.float16), name)
        return self.operator("Cast", half, to=TensorProto.FLOAT)

    def linear(self, x, layer, name):
        product = self.operator("MatMul", x, self.weight(layer.weight.T, f"{name}.weight"))
        return self.operator("Add", product, self.weight(layer.bias, f"{name}.bias"))

    def norm(self, x, layer, name):
        scale, bias = self.weight(layer.weight, f"{name}.scale"), self.weight(layer.bias, f"{name}.bias")
        return self.operator("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)

    def gelu(self, x):
        """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))"""
        number = lambda value, name: self.constant(np.float32(value), f"{name}_{len(self.weights)}")
        cube = self.operator("Mul", self.operator("Pow", x, number(3, "three")), number(0.044715, "c"))
        inner = self.operator("Mul", self.operator("Add", x, cube), number(math.sqrt(2 / math.pi), "s"))
        sum = self.operator("Add", self.operator("Tanh", inner), number(1, "one"))
        return self.operator("Mul", self.operator("Mul", x, number(0.5, "half")), sum)


def attention(graph, x, block, layer, here, visible):
    """One step of attention over the cache. `here` [C, 1] marks the new row, `visible` [C] the rows that count."""
    name = f"block{layer}"
    qkv = graph.linear(graph.norm(x, block.norm1, f"{name}.norm1"), block.qkv, f"{name}.qkv")
    parts = graph.operator("Split", qkv, "thirds", outputs=[f"{name}.{part}" for part in "qkv"], axis=1)
    q, k, v = (graph.operator("Reshape", part, "heads") for part in parts)
    keys = graph.operator("Where", here, k, f"past_key_{layer}", outputs=[f"present_key_{layer}"])
    values = graph.operator("Where", here, v, f"past_value_{layer}", outputs=[f"present_value_{layer}"])
    scores = graph.operator("MatMul", q, graph.operator("Transpose", keys, perm=[0, 2, 1]))
    scores = graph.operator("Where", visible, graph.operator("Mul", scores, "scale"), "hidden")
    attended = graph.operator("MatMul", graph.operator("Softmax", scores, axis=-1), values)
    return graph.linear(graph.operator("Reshape", attended, "row"), block.project, f"{name}.project")


def onnx_model(model):
    """The ONNX model of one step."""
    graph = Graph()
    graph.constant(np.array([WIDTH] * 3, np.int64), "thirds")
    graph.constant(np.array([HEADS, 1, HEAD_WIDTH], np.int64), "heads")
    graph.constant(np.array([1, WIDTH], np.int64), "row")
    graph.constant(np.array([CONTEXT, 1], np.int64), "column")
    graph.constant(np.float32(1 / math.sqrt(HEAD_WIDTH)), "scale")
    graph.constant(np.float32(-1e9), "hidden")
    graph.constant(np.arange(CONTEXT, dtype=np.int64), "places")
    here = graph.operator("Reshape", graph.operator("Equal", "places", "position"), "column")
    visible = graph.operator("LessOrEqual", "places", "position")
    characters = graph.weight(model.characters.weight, "characters")
    positions = graph.weight(model.positions.weight, "positions")
    embedded = graph.operator("Gather", characters, "token"), graph.operator("Gather", positions, "position")
    x = graph.operator("Add", *embedded)
    for layer, block in enumerate(model.blocks):
        x = graph.operator("Add", x, attention(graph, x, block, layer, here, visible))
        up = graph.linear(graph.norm(x, block.norm2, f"block{layer}.norm2"), block.up, f"block{layer}.up")
        x = graph.operator("Add", x, graph.linear(graph.gelu(up), block.down, f"block{layer}.down"))
    graph.operator("Gemm", graph.norm(x, model.norm, "norm"), characters, transB=1, outputs=["logits"])

    cache = [f"{kind}_{layer}" for layer in range(LAYERS) for kind in ("key", "value")]
    tensor = helper.make_tensor_value_info
    cache_shape = [HEADS, CONTEXT, HEAD_WIDTH]
    inputs = [tensor(name, TensorProto.INT64, [1]) for name in ("token", "position")]
    inputs += [tensor(f"past_{name}", TensorProto.FLOAT, cache_shape) for name in cache]
    outputs = [tensor("logits", TensorProto.FLOAT, [1, VOCABULARY])]
    outputs += [tensor(f"present_{name}", TensorProto.FLOAT, cache_shape) for name in cache]
    result = helper.make_model(
        helper.make_graph(graph.nodes, "text-generation", inputs, outputs, initializer=graph.weights),
        opset_imports=[helper.make_opsetid("", 17)],
        producer_name="webnn-node examples",
        ir_version=8,
    )
    onnx.checker.check_model(result, full_check=True)
    return result


def greedy(session, prompt, length):
    """The most likely continuation, and by how much its characters are ahead of the second most likely ones."""
    cache = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs() if i.name.startswith("past")}
    names = [output.name for output in session.get_outputs()]
    tokens, lead = list(prompt.encode("ascii")), math.inf
    for position in range(len(prompt) + length - 1):
        feeds = {"token": np.array([tokens[position]]), "position": np.array([position])}
        results = dict(zip(names, session.run(names, {**feeds, **cache}), strict=True))
        cache = {name.replace("present", "past"): value for name, value in results.items() if name != "logits"}
        if position + 1 >= len(prompt):
            order = np.sort(results["logits"][0])
            lead = min(lead, float(order[-1] - order[-2]))
            tokens.append(int(results["logits"][0].argmax()))
    return tokens[len(prompt) :], lead


def main():
    model = train()
    path = HERE / "model.onnx"
    path.write_bytes(onnx_model(model).SerializeToString(deterministic=True))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = []
    for prompt in PROMPTS:
        tokens, lead = greedy(session, prompt, REFERENCE_LENGTH)
        print(f"{prompt}|{bytes(tokens).decode('ascii')!r}, every character ahead by {lead:.3f} or more")
        rows.append({"prompt": prompt, "tokens": tokens})
    (HERE / "reference.json").write_text(json.dumps(rows) + "\n")
    print(f"{path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
