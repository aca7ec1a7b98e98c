"""Trains the small convolutional network of the digits example and writes its files.

Usage, from any folder (numpy and scikit-learn are the only requirements):

    python3 -m venv venv
    venv/bin/pip install numpy scikit-learn
    venv/bin/python examples/digits/train.py

The data are the 1797 handwritten digits that come with scikit-learn: 8x8 pixels from 0 (paper) to
16 (ink). 360 of them, a fixed stratified choice, are held out: they are seen once, after the last
epoch, and choose nothing. The run is single-threaded, takes about twenty seconds and prints the held-out
accuracy. Everything random has a fixed seed, so two runs on one machine write the same bytes;
another BLAS may round differently.

Written next to this file:

    weights.safetensors    the parameters, float32; shapes in `initial_parameters`
    heldout.safetensors    pixels uint8 [360, 8, 8], labels uint8 [360], index int32 [360] (the place
                           in scikit-learn's set), probabilities float32 [360, 10] as computed here;
                           the metadata hold the accuracy
    pictures/              twelve held-out digits as 64x64 PNG, named INDEX-is-LABEL.png
"""

import os

# One thread, before numpy loads its BLAS: the order of summation must not depend on the machine.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import json
import pathlib
import struct
import zlib

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent
SEED = 2026
HELD_OUT = 360
EPOCHS = 60
BATCH = 32
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-2
REQUIRED_ACCURACY = 0.97

# Every digit once, and two more; which ones is decided before the network exists.
PICTURES = 12
PICTURE_SCALE = 8

SAFETENSORS_TYPES = {"float32": "F32", "int32": "I32", "uint8": "U8"}


def initial_parameters(rng):
    """He-normal weights and zero biases. Convolutions are OIHW, dense layers [inputs, outputs]."""
    shapes = {
        "conv1": (16, 1, 3, 3),
        "conv2": (32, 16, 3, 3),
        "dense1": (32 * 4 * 4, 64),
        "dense2": (64, 10),
    }
    parameters = {}
    for name, shape in shapes.items():
        convolution = len(shape) == 4
        fan_in = int(np.prod(shape[1:])) if convolution else shape[0]
        outputs = shape[0] if convolution else shape[1]
        weight = rng.standard_normal(shape) * np.sqrt(2 / fan_in)
        parameters[f"{name}.weight"] = weight.astype(np.float32)
        parameters[f"{name}.bias"] = np.zeros(outputs, np.float32)
    return parameters


def columns(x):
    """The 3x3 neighbourhoods of `x` [N, C, H, W], padded by one: [N * H * W, C * 9]."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * 9)


def conv(x, weight):
    """3x3 convolution with padding 1, NCHW; also returns the columns for the backward pass."""
    n, _, h, w = x.shape
    cols = columns(x)
    y = cols @ weight.reshape(weight.shape[0], -1).T
    return y.reshape(n, h, w, -1).transpose(0, 3, 1, 2), cols


def conv_backward(dy, cols, weight, needs_dx):
    """Gradients of `conv`: (dx or None, dweight, dbias)."""
    flat = dy.transpose(0, 2, 3, 1).reshape(-1, weight.shape[0])
    dweight = (flat.T @ cols).reshape(weight.shape)
    # The gradient of a 'same' convolution is one with the kernel turned around and transposed.
    dx = conv(dy, weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))[0] if needs_dx else None
    return dx, dweight, flat.sum(axis=0)


def forward(p, x):
    """Probabilities [N, 10] for pixels `x` [N, 1, 8, 8] in 0..1, and what `backward` needs."""
    y1, cols1 = conv(x, p["conv1.weight"])
    a1 = np.maximum(y1 + p["conv1.bias"][:, None, None], 0)
    y2, cols2 = conv(a1, p["conv2.weight"])
    a2 = np.maximum(y2 + p["conv2.bias"][:, None, None], 0)
    n, c, h, w = a2.shape
    blocks = a2.reshape(n, c, h // 2, 2, w // 2, 2)
    pooled = blocks.max(axis=(3, 5))
    flat = pooled.reshape(n, -1)
    a3 = np.maximum(flat @ p["dense1.weight"] + p["dense1.bias"], 0)
    logits = a3 @ p["dense2.weight"] + p["dense2.bias"]
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    saved = (cols1, a1, cols2, a2, blocks, pooled, flat, a3)
    return e / e.sum(axis=1, keepdims=True), saved


def backward(p, probabilities, labels, saved):
    """Gradient of the mean cross entropy for every parameter."""
    cols1, a1, cols2, a2, blocks, pooled, flat, a3 = saved
    g = {}
    d = probabilities.copy()
    d[np.arange(len(labels)), labels] -= 1
    d /= len(labels)
    g["dense2.weight"], g["dense2.bias"] = a3.T @ d, d.sum(axis=0)
    d = (d @ p["dense2.weight"].T) * (a3 > 0)
    g["dense1.weight"], g["dense1.bias"] = flat.T @ d, d.sum(axis=0)
    d = (d @ p["dense1.weight"].T).reshape(pooled.shape)[:, :, :, None, :, None]
    winners = blocks == pooled[:, :, :, None, :, None]
    d = (winners * d / winners.sum(axis=(3, 5), keepdims=True)).reshape(a2.shape) * (a2 > 0)
    d, g["conv2.weight"], g["conv2.bias"] = conv_backward(d, cols2, p["conv2.weight"], True)
    d = d * (a1 > 0)
    _, g["conv1.weight"], g["conv1.bias"] = conv_backward(d, cols1, p["conv1.weight"], False)
    return g


def shifted(x, rng):
    """Every picture moved by -1, 0 or 1 pixels in each direction, paper coming in at the edge."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    dy, dx = rng.integers(0, 3, (2, len(x)))
    return np.stack([image[:, r : r + 8, c : c + 8] for image, r, c in zip(padded, dy, dx)])


def train(x, labels, rng):
    """Adam with decoupled weight decay and a cosine learning rate; prints the mean loss now and then."""
    p = initial_parameters(rng)
    mean = {k: np.zeros_like(v) for k, v in p.items()}
    square = {k: np.zeros_like(v) for k, v in p.items()}
    steps_per_epoch = -(-len(x) // BATCH)
    step = 0
    for epoch in range(1, EPOCHS + 1):
        losses = []
        for batch in np.array_split(rng.permutation(len(x)), steps_per_epoch):
            step += 1
            probabilities, saved = forward(p, shifted(x[batch], rng))
            hit = probabilities[np.arange(len(batch)), labels[batch]]
            losses.append(-np.log(np.maximum(hit, 1e-12)).mean())
            gradients = backward(p, probabilities, labels[batch], saved)
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / (EPOCHS * steps_per_epoch)))
            for k, g in gradients.items():
                mean[k] = 0.9 * mean[k] + 0.1 * g
                square[k] = 0.999 * square[k] + 0.001 * g * g
                direction = mean[k] / (1 - 0.9**step)
                direction /= np.sqrt(square[k] / (1 - 0.999**step)) + 1e-8
                decay = WEIGHT_DECAY if k.endswith(".weight") else 0.0
                p[k] = (p[k] - rate * (direction + decay * p[k])).astype(np.float32)
        if epoch % 10 == 0:
            print(f"epoch {epoch:3}: mean loss {np.mean(losses):.4f}")
    return p


def write_safetensors(path, tensors, metadata):
    """Writes the container: length of the header (u64), the header (JSON), the tensors one by one."""
    header, data = {"__metadata__": metadata}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        header[name] = {
            "dtype": SAFETENSORS_TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_png(path, gray):
    """Writes an 8-bit grayscale PNG from a uint8 array [height, width]."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = gray.shape
    rows = b"".join(b"\0" + row.tobytes() for row in gray)
    size = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", size)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def write_pictures(pixels, labels, index):
    """The first held-out picture of every digit, then the next ones in order; ink is white."""
    first = [int(np.flatnonzero(labels == digit)[0]) for digit in range(10)]
    more = [i for i in range(len(labels)) if i not in first]
    folder = HERE / "pictures"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*-is-*.png"):
        old.unlink()
    for i in first + more[: PICTURES - len(first)]:
        gray = np.rint(pixels[i] * (255 / 16)).astype(np.uint8)
        large = np.kron(gray, np.ones((PICTURE_SCALE, PICTURE_SCALE), np.uint8))
        write_png(folder / f"{index[i]:04}-is-{labels[i]}.png", large)


def main():
    digits = load_digits()
    pixels, labels = digits.images.astype(np.uint8), digits.target
    kept, held = train_test_split(
        np.arange(len(labels)), test_size=HELD_OUT, random_state=SEED, stratify=labels
    )

    def network_input(which):
        return (pixels[which, None] / 16).astype(np.float32)

    parameters = train(network_input(kept), labels[kept], np.random.default_rng(SEED))
    probabilities, _ = forward(parameters, network_input(held))
    correct = int((probabilities.argmax(axis=1) == labels[held]).sum())
    accuracy = correct / HELD_OUT
    print(f"held-out accuracy: {accuracy:.4f} ({correct} of {HELD_OUT})")
    if accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f"below the required {REQUIRED_ACCURACY}; nothing is written")

    write_safetensors(HERE / "weights.safetensors", parameters, {"format": "webnn-digits-1"})
    write_safetensors(
        HERE / "heldout.safetensors",
        {
            "index": held.astype(np.int32),
            "probabilities": probabilities.astype(np.float32),
            "pixels": pixels[held],
            "labels": labels[held].astype(np.uint8),
        },
        {"accuracy": f"{accuracy:.6f}", "correct": str(correct), "total": str(HELD_OUT)},
    )
    write_pictures(pixels[held], labels[held], held)


if __name__ == "__main__":
    main()
