#!/usr/bin/env python3
"""Benchmark models of the kinds that people run, beside those of make_models.py and in its form.

    PYTHONPATH=FOLDER_OF_MAKE_MODELS python bench_models.py OUT_DIR [--only a,b] [--no-refs] [--list]

Layer shapes are those of well-known networks, operators those that their exporters write, weights random and seeded.
`bilstm_tagger`, `efficientnet_b0`, `vit_small` and `yolov8n` follow PyTorch's exporter, which folds batch normalizations;
`text_detector` follows Paddle's, which keeps them. The models with `_dynamic` are what onnxruntime's quantize_dynamic makes
of a float32 network: their references are its results, and out_float_NAME.npy beside them those of the float32 network.
"""
import math
import os
import tempfile

import numpy as np
import onnx
from make_models import Net, generate, image_input, minilm
from onnx import checker, shape_inference
from onnxruntime.quantization import QuantType, quantize_dynamic

# Of convolutions whose operand has passed SiLU or hard-swish: these let less through than ReLU, for which it is sqrt(2).
SWISH_GAIN = 1.5


class DynamicallyQuantized:
    """A network as quantize_dynamic rewrites it; has what `generate` asks of a Net."""

    def __init__(self, net):
        self.net = net
        self.name, self.outputs, self.feeds, self.alt_feeds = net.name, net.outputs, net.feeds, net.alt_feeds

    def model(self):
        model = self.net.model()
        # onnxruntime's ConvInteger takes unsigned weights alone; where there is none, signed ones are customary.
        has_conv = any(node.op_type == "Conv" for node in model.graph.node)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "model.onnx")
            quantize_dynamic(model, file, weight_type=QuantType.QUInt8 if has_conv else QuantType.QInt8,
                             extra_options={"MatMulConstBOnly": True})
            quantized = onnx.load(file)
        quantized = shape_inference.infer_shapes(quantized, check_type=True, strict_mode=True, data_prop=True)
        checker.check_model(quantized)
        return quantized


# ---------------------------------------------------------------------------
# A tagger of words
# ---------------------------------------------------------------------------
def bilstm_tagger():
    """Tags of the 128 words of a sentence: embeddings of 100, two bidirectional layers of 256, 17 tags."""
    words, embedding, hidden, tags, vocabulary = 128, 100, 256, 17, 20000
    n = Net("bilstm_tagger")

    def lstm(x, width, hint):
        w = n.weight(hint + ".W", (2, 4 * hidden, width), 1 / math.sqrt(width))
        r = n.weight(hint + ".R", (2, 4 * hidden, hidden), 1 / math.sqrt(hidden))
        b = n.weight(hint + ".B", (2, 8 * hidden), 0.05)
        zeros = n.const(np.zeros((2, 1, hidden)))
        y, _, _ = n.op("LSTM", [x, w, r, b, "", zeros, zeros], n_out=3, hidden_size=hidden, direction="bidirectional")
        return n.reshape(n.transpose(y, 0, 2, 1, 3), 0, 0, -1)

    ids = n.input("word_ids", (1, words), np.int64, lambda r: r.integers(0, vocabulary, (1, words)))
    x = n.transpose(n.op("Gather", [n.weight("embeddings", (vocabulary, embedding), 1.0), ids]), 1, 0, 2)
    x = lstm(lstm(x, embedding, "lstm.0"), 2 * hidden, "lstm.1")
    n.output(n.linear(n.transpose(x, 1, 0, 2), 2 * hidden, tags, "tags", gain=3.0), "scores")
    return n


# ---------------------------------------------------------------------------
# Networks that classify images
# ---------------------------------------------------------------------------
# Per stage: expansion, channels, blocks, stride, filter size.
EFFICIENTNET_B0 = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
                   (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]


def efficientnet_b0():
    """EfficientNet-B0 at 224x224: depthwise convolutions, SiLU, squeeze-and-excite in every block."""
    n = Net("efficientnet_b0")

    def conv_silu(x, cin, cout, k, hint, gain=1.0, **kw):
        return n.silu(n.conv(x, cin, cout, k, hint, gain=gain, **kw))

    x = conv_silu(image_input(n, "input", (1, 3, 224, 224)), 3, 32, 3, "stem", stride=2)
    cin = 32
    for stage, (expansion, cout, blocks, stride, k) in enumerate(EFFICIENTNET_B0):
        for i in range(blocks):
            p, s, wide, h = f"blocks.{stage}.{i}", stride if i == 0 else 1, cin * expansion, x
            if expansion != 1:
                h = conv_silu(h, cin, wide, 1, p + ".expand")
            h = conv_silu(h, wide, wide, k, p + ".depthwise", gain=SWISH_GAIN, stride=s, groups=wide)
            e = n.silu(n.conv(n.op("GlobalAveragePool", [h]), wide, cin // 4, 1, p + ".squeeze", gain=3.0))
            e = n.op("Sigmoid", [n.conv(e, cin // 4, wide, 1, p + ".excite", gain=3.0)])
            residual = s == 1 and cin == cout
            h = n.conv(n.mul(h, e), wide, cout, 1, p + ".project", gain=SWISH_GAIN * (1.0 if residual else 1.6))
            x, cin = n.add(h, x) if residual else h, cout
    x = conv_silu(x, 320, 1280, 1, "head")
    x = n.op("Flatten", [n.op("GlobalAveragePool", [x])], axis=1)
    n.output(n.gemm(x, 1280, 1000, "classifier", gain=3.0), "logits")
    return n


def vit_small():
    """ViT-Small/16 at 224x224 as timm has it: one product for q, k and v, and the scale of the scores on q and k."""
    width, heads, layers, size = 384, 6, 12, 64
    tokens = 1 + (224 // 16) ** 2
    n = Net("vit_small")
    x = n.conv(image_input(n, "pixel_values", (1, 3, 224, 224)), 3, width, 16, "patches", stride=16, pad=0, gain=1.0)
    x = n.transpose(n.reshape(x, 1, width, -1), 0, 2, 1)
    x = n.op("Concat", [n.weight("cls_token", (1, 1, width), 0.5), x], axis=1)
    x = n.add(x, n.weight("positions", (1, tokens, width), 0.3))
    scale = n.const(size ** -0.25)
    for i in range(layers):
        p = f"blocks.{i}"
        h = n.linear(n.layer_norm(x, width, p + ".norm1", 1e-6), width, 3 * width, p + ".attn.qkv")
        h = n.transpose(n.reshape(h, 1, tokens, 3, heads, size), 2, 0, 3, 1, 4)
        parts = n.op("Split", [h, n.ints(1, 1, 1)], n_out=3, axis=0)
        q, k, v = (n.op("Squeeze", [part, n.ints(0)]) for part in parts)
        scores = n.op("MatMul", [n.mul(q, scale), n.mul(n.transpose(k, 0, 1, 3, 2), scale)])
        h = n.op("MatMul", [n.op("Softmax", [scores], axis=-1), v])
        h = n.reshape(n.transpose(h, 0, 2, 1, 3), 1, tokens, width)
        x = n.add(x, n.linear(h, width, width, p + ".attn.proj"))
        h = n.linear(n.layer_norm(x, width, p + ".norm2", 1e-6), width, 4 * width, p + ".mlp.fc1")
        x = n.add(x, n.linear(n.gelu_erf(h), 4 * width, width, p + ".mlp.fc2", gain=1.4))
    x = n.op("Gather", [n.layer_norm(x, width, "norm", 1e-6), n.const(0, np.int64)], axis=1)
    n.output(n.gemm(x, width, 1000, "head", gain=1.5), "logits")
    return n


# ---------------------------------------------------------------------------
# Networks that find objects and text
# ---------------------------------------------------------------------------
def yolov8n(side=416):
    """YOLOv8n at 416x416 with its decoder: boxes and 80 scores for each of 3549 places."""
    n = Net("yolov8n")

    def conv(x, cin, cout, k, hint, stride=1):
        return n.silu(n.conv(x, cin, cout, k, hint, stride=stride, gain=SWISH_GAIN))

    def c2f(x, cin, cout, hint, repeats=1, shortcut=False):
        half = cout // 2
        parts = n.op("Split", [conv(x, cin, cout, 1, hint + ".cv1"), n.ints(half, half)], n_out=2, axis=1)
        for i in range(repeats):
            h = conv(parts[-1], half, half, 3, f"{hint}.m.{i}.cv1")
            h = conv(h, half, half, 3, f"{hint}.m.{i}.cv2")
            parts.append(n.add(parts[-1], h) if shortcut else h)
        return conv(n.op("Concat", parts, axis=1), (2 + repeats) * half, cout, 1, hint + ".cv2")

    def sppf(x, channels, hint):
        pools = [conv(x, channels, channels // 2, 1, hint + ".cv1")]
        for _ in range(3):
            pools.append(n.op("MaxPool", [pools[-1]], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
        return conv(n.op("Concat", pools, axis=1), 2 * channels, channels, 1, hint + ".cv2")

    def twice(x):
        return n.op("Resize", [x, "", n.const([1, 1, 2, 2], np.float32)], mode="nearest", nearest_mode="floor",
                    coordinate_transformation_mode="asymmetric", cubic_coeff_a=-0.75)

    def join(a, b):
        return n.op("Concat", [a, b], axis=1)

    x = conv(image_input(n, "images", (1, 3, side, side)), 3, 16, 3, "0", stride=2)
    x = c2f(conv(x, 16, 32, 3, "1", stride=2), 32, 32, "2", shortcut=True)
    p3 = c2f(conv(x, 32, 64, 3, "3", stride=2), 64, 64, "4", repeats=2, shortcut=True)
    p4 = c2f(conv(p3, 64, 128, 3, "5", stride=2), 128, 128, "6", repeats=2, shortcut=True)
    p5 = c2f(conv(p4, 128, 256, 3, "7", stride=2), 256, 256, "8", shortcut=True)
    p5 = sppf(p5, 256, "9")
    h4 = c2f(join(twice(p5), p4), 384, 128, "12")
    h3 = c2f(join(twice(h4), p3), 192, 64, "15")
    h4 = c2f(join(conv(h3, 64, 64, 3, "16", stride=2), h4), 192, 128, "18")
    h5 = c2f(join(conv(h4, 128, 128, 3, "19", stride=2), p5), 384, 256, "21")

    levels, anchors, strides = [], [], []
    for i, (x, c) in enumerate([(h3, 64), (h4, 128), (h5, 256)]):
        box, scores = x, x
        for j, (in_box, in_scores) in enumerate([(c, c), (64, 80)]):
            box = conv(box, in_box, 64, 3, f"22.cv2.{i}.{j}")
            scores = conv(scores, in_scores, 80, 3, f"22.cv3.{i}.{j}")
        box = n.conv(box, 64, 64, 1, f"22.cv2.{i}.2", gain=0.25)
        scores = n.conv(scores, 80, 80, 1, f"22.cv3.{i}.2", gain=0.5)
        levels.append(n.reshape(join(box, scores), 1, 144, -1))
        stride = 8 << i
        yy, xx = np.meshgrid(*[np.arange(side // stride) + 0.5] * 2, indexing="ij")
        anchors.append(np.stack([xx.ravel(), yy.ravel()]))
        strides.append(np.full((1, xx.size), stride))
    places = sum(a.shape[1] for a in anchors)
    x = n.op("Concat", levels, axis=2)
    box, scores = n.op("Split", [x, n.ints(64, 80)], n_out=2, axis=1)
    # Each side of a box is the mean of 16 distances.
    box = n.op("Softmax", [n.transpose(n.reshape(box, 1, 4, 16, places), 0, 2, 1, 3)], axis=1)
    distances = n.init(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1), "22.dfl.weight")
    box = n.reshape(n.op("Conv", [box, distances], kernel_shape=[1, 1]), 1, 4, places)
    left_top = n.op("Slice", [box, n.ints(0), n.ints(2), n.ints(1)])
    right_bottom = n.op("Slice", [box, n.ints(2), n.ints(4), n.ints(1)])
    grid = n.const(np.concatenate(anchors, axis=1)[None], np.float32)
    low, high = n.op("Sub", [grid, left_top]), n.add(grid, right_bottom)
    middle = n.op("Div", [n.add(low, high), n.const(2.0)])
    box = n.mul(join(middle, n.op("Sub", [high, low])), n.const(np.concatenate(strides, axis=1), np.float32))
    n.output(join(box, n.op("Sigmoid", [scores])), "output0")
    return n


# MobileNetV3 large at half width, per block: filter size, expanded channels, channels, hard-swish, stride.
MOBILENET_V3_HALF = [(3, 8, 8, False, 1), (3, 32, 16, False, 2), (3, 40, 16, False, 1),
                     (5, 40, 24, False, 2), (5, 64, 24, False, 1), (5, 64, 24, False, 1),
                     (3, 120, 40, True, 2), (3, 104, 40, True, 1), (3, 96, 40, True, 1), (3, 96, 40, True, 1),
                     (3, 240, 56, True, 1), (3, 336, 56, True, 1),
                     (5, 336, 80, True, 2), (5, 480, 80, True, 1), (5, 480, 80, True, 1)]


def text_detector(side=640):
    """DBNet as PP-OCR has it: MobileNetV3 without squeeze-and-excite, feature pyramid, head of two transposed convolutions."""
    n = Net("text_detector")

    def norm(x, c, hint):
        parts = [n.weight(hint + ".scale", (c,), 0.1, 1.0), n.weight(hint + ".bias", (c,), 0.1),
                 n.weight(hint + ".mean", (c,), 0.1), n.init(np.abs(n.rand(hint + ".variance", (c,), 0.1, 1.0)), hint + ".variance")]
        return n.op("BatchNormalization", [x, *parts], epsilon=1e-5)

    def conv_norm(x, cin, cout, k, hint, **kw):
        return norm(n.conv(x, cin, cout, k, hint, bias=False, **kw), cout, hint + ".norm")

    def hard_swish(x):
        gate = n.op("Clip", [n.add(x, n.const(3.0)), n.const(0.0), n.const(6.0)])
        return n.op("Div", [n.mul(x, gate), n.const(6.0)])

    def transposed(x, cin, cout, hint, gain):
        """2x2 with stride 2: no result has more than one place of the filter."""
        w = n.weight(hint + ".weight", (cin, cout, 2, 2), gain / math.sqrt(cin))
        y = n.op("ConvTranspose", [x, w], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0], dilations=[1, 1], group=1)
        return n.add(y, n.weight(hint + ".bias", (1, cout, 1, 1), 0.1))

    def enlarge(x, factor):
        return n.op("Resize", [x, "", n.const([1, 1, factor, factor], np.float32)], mode="nearest", nearest_mode="floor",
                    coordinate_transformation_mode="asymmetric")

    x = hard_swish(conv_norm(image_input(n, "x", (1, 3, side, side)), 3, 8, 3, "stem", stride=2))
    cin, stages = 8, []
    for i, (k, wide, cout, swish, stride) in enumerate(MOBILENET_V3_HALF):
        p, act, gain = f"blocks.{i}", hard_swish if swish else n.relu, SWISH_GAIN if swish else math.sqrt(2)
        if stride == 2 and i > 1:
            stages.append((x, cin))
        h = act(conv_norm(x, cin, wide, 1, p + ".expand", gain=1.0))
        h = act(conv_norm(h, wide, wide, k, p + ".depthwise", gain=gain, stride=stride, groups=wide))
        residual = stride == 1 and cin == cout
        h = conv_norm(h, wide, cout, 1, p + ".project", gain=0.4 * gain if residual else 1.0)
        x, cin = n.add(x, h) if residual else h, cout
    stages.append((hard_swish(conv_norm(x, cin, 480, 1, "last")), 480))
    # The coarsest first, each with what is coarser added.
    levels = []
    for i, (x, c) in reversed(list(enumerate(stages, 2))):
        x = n.conv(x, c, 96, 1, f"fpn.in{i}", bias=False, gain=1.0)
        levels.append(n.add(x, enlarge(levels[-1], 2)) if levels else x)
    finest = len(levels) - 1
    parts = [n.conv(x, 96, 24, 3, f"fpn.p{5 - i}", bias=False, gain=1.0) for i, x in enumerate(levels)]
    x = n.op("Concat", [enlarge(x, 2 ** (finest - i)) if i < finest else x for i, x in enumerate(parts)], axis=1)
    x = n.relu(conv_norm(x, 96, 24, 3, "head.conv1"))
    x = n.relu(norm(transposed(x, 24, 24, "head.conv2", math.sqrt(2)), 24, "head.conv2.norm"))
    n.output(n.op("Sigmoid", [transposed(x, 24, 1, "head.conv3", 0.5)]), "sigmoid_0.tmp_0")
    return n


# ---------------------------------------------------------------------------
# A network that cuts out what is in front
# ---------------------------------------------------------------------------
# Depth of the nested U of each stage on the way down; 0 stands for the one with dilations instead of pooling.
U2NET_STAGES = [7, 6, 5, 4, 0, 0]


def u2netp(name="u2netp", side=320):
    """U2-Net, small, at 320x320: U-shaped networks of 16 channels nested in one of 64, with seven masks."""
    n = Net(name, "u2netp")

    def conv(x, cin, cout, hint, dilation=1, gain=math.sqrt(2)):
        return n.relu(n.conv(x, cin, cout, 3, hint, pad=dilation, dilation=dilation, gain=gain))

    def pool(x):
        return n.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)

    def like(x, channels, extent):
        return n.op("Resize", [x, "", "", n.ints(1, channels, extent, extent)], mode="linear", nearest_mode="floor",
                    coordinate_transformation_mode="pytorch_half_pixel", cubic_coeff_a=-0.75)

    def join(a, b):
        return n.op("Concat", [a, b], axis=1)

    def rsu(x, cin, depth, extent, hint, mid=16, cout=64):
        """`depth` convolutions down, of which the last has a dilation, the same up, and the sum with the first."""
        first = conv(x, cin, cout, hint + ".in", gain=1.0)
        down, width = [], cout
        x = first
        for i in range(1, depth):
            x = conv(x if i == 1 else pool(x), width, mid, f"{hint}.{i}")
            down.append((x, extent))
            extent, width = -(-extent // 2) if i < depth - 1 else extent, mid
        x = conv(x, mid, mid, f"{hint}.{depth}", dilation=2)
        for i, (skip, size) in reversed(list(enumerate(down, 1))):
            if i < depth - 1:
                x = like(x, mid, size)
            x = conv(join(x, skip), 2 * mid, cout if i == 1 else mid, f"{hint}.{i}d")
        return n.add(x, first)

    def rsu_flat(x, cin, hint, mid=16, cout=64):
        first = conv(x, cin, cout, hint + ".in", gain=1.0)
        a = conv(first, cout, mid, hint + ".1")
        b = conv(a, mid, mid, hint + ".2", dilation=2)
        c = conv(b, mid, mid, hint + ".3", dilation=4)
        x = conv(c, mid, mid, hint + ".4", dilation=8)
        x = conv(join(x, c), 2 * mid, mid, hint + ".3d", dilation=4)
        x = conv(join(x, b), 2 * mid, mid, hint + ".2d", dilation=2)
        return n.add(conv(join(x, a), 2 * mid, cout, hint + ".1d"), first)

    def block(x, cin, stage, extent, hint):
        depth = U2NET_STAGES[stage]
        return rsu(x, cin, depth, extent, hint) if depth else rsu_flat(x, cin, hint)

    x = image_input(n, "input.1", (1, 3, side, side))
    extents = [side >> stage for stage in range(len(U2NET_STAGES))]
    down, cin = [], 3
    for stage, extent in enumerate(extents):
        x = block(x if stage == 0 else pool(x), cin, stage, extent, f"stage{stage + 1}")
        down.append(x)
        cin = 64
    up = [x]
    for stage in reversed(range(len(down) - 1)):
        x = block(join(like(x, 64, extents[stage]), down[stage]), 128, stage, extents[stage], f"stage{stage + 1}d")
        up.append(x)
    sides = []
    for i, x in enumerate(reversed(up)):
        x = n.conv(x, 64, 1, 3, f"side{i + 1}", gain=0.5)
        sides.append(x if i == 0 else like(x, 1, side))
    fused = n.conv(n.op("Concat", sides, axis=1), len(sides), 1, 1, "outconv", gain=1.0)
    for i, x in enumerate([fused, *sides]):
        n.output(n.op("Sigmoid", [x]), f"d{i}")
    return n


# name -> (builder, builder of the network the reference comes from where that is another)
MODELS = {
    "bilstm_tagger": (bilstm_tagger, None),
    "efficientnet_b0": (efficientnet_b0, None),
    "minilm_l6_dynamic": (lambda: DynamicallyQuantized(minilm("minilm_l6_dynamic")), None),
    "text_detector": (text_detector, None),
    "u2netp_dynamic": (lambda: DynamicallyQuantized(u2netp("u2netp_dynamic")), None),
    "vit_small": (vit_small, None),
    "yolov8n": (yolov8n, None),
}
FLOAT_TWIN = {"minilm_l6_dynamic": lambda: minilm("minilm_l6"), "u2netp_dynamic": u2netp}

if __name__ == "__main__":
    generate(MODELS, twins=FLOAT_TWIN, doc=__doc__)
