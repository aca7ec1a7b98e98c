#!/usr/bin/env python3
"""A text classifier from the folder of a sentence encoder that make_embedder.py wrote: the encoder with a pooler and a
classifier with seeded random weights behind it, in float32 and quantized dynamically.

    python make_classifier.py ENCODER OUT_DIR
"""
import json
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from onnxruntime.quantization import QuantType, quantize_dynamic

LABELS = ["anger", "joy", "surprise"]


def main():
    encoder, out = sys.argv[1:]
    os.makedirs(os.path.join(out, "onnx"), exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(encoder, name), out)
    with open(os.path.join(encoder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config.update(architectures=["BertForSequenceClassification"], id2label=dict(enumerate(LABELS)), label2id={label: i for i, label in enumerate(LABELS)})
    with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)

    model = onnx.load(os.path.join(encoder, "onnx", "model.onnx"))
    graph, hidden = model.graph, config["hidden_size"]
    random = np.random.Generator(np.random.PCG64(7))

    def weight(name, *shape):
        graph.initializer.append(nh.from_array((random.standard_normal(shape) * hidden ** -0.5).astype(np.float32), name))
        return name

    graph.initializer.append(nh.from_array(np.array(0), "first"))
    graph.node.extend([
        h.make_node("Gather", ["last_hidden_state", "first"], ["first_state"], axis=1),
        h.make_node("Gemm", ["first_state", weight("pooler.weight", hidden, hidden), weight("pooler.bias", hidden)], ["pooler"]),
        h.make_node("Tanh", ["pooler"], ["pooled"]),
        h.make_node("Gemm", ["pooled", weight("classifier.weight", hidden, len(LABELS)), weight("classifier.bias", len(LABELS))], ["logits"]),
    ])
    del graph.output[:]
    graph.output.append(h.make_tensor_value_info("logits", T.FLOAT, ["batch_size", len(LABELS)]))
    path = os.path.join(out, "onnx", "model.onnx")
    onnx.save(model, path)
    quantize_dynamic(path, os.path.join(out, "onnx", "model_quantized.onnx"), weight_type=QuantType.QInt8)


main()
