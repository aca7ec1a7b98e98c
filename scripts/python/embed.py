"""Embeddings of token lists, computed by onnxruntime: the reference for the semantic search example.

    python embed.py MODEL.onnx < TOKENS.json > EMBEDDINGS.json

TOKENS.json is a list of lists of token numbers. They are run one by one, so nothing is padded.
"""

import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
embeddings = []
for tokens in json.load(sys.stdin):
    ids = np.array([tokens], np.int64)
    [embedding] = session.run(["embedding"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    embeddings.append(embedding[0].astype(float).tolist())
json.dump(embeddings, sys.stdout)
