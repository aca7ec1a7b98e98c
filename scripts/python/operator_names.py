#!/usr/bin/env python3
"""Writes the operators that the packages onnx and onnxruntime know, as [domain, name]: `operator_names.py DIRECTORY` writes
DIRECTORY/operators.json. Of onnx, those of ai.onnx and ai.onnx.ml; of onnxruntime, those of com.microsoft."""

import json
import os
import sys

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as state

directory = sys.argv[1]
os.makedirs(directory, exist_ok=True)
of_onnx = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas() if schema.domain in ("", "ai.onnx.ml")}
of_onnxruntime = {(schema.domain, schema.name) for schema in state.get_all_operator_schema() if schema.domain == "com.microsoft"}
with open(os.path.join(directory, "operators.json"), "w", encoding="utf-8") as file:
    json.dump(sorted(of_onnx | of_onnxruntime), file)
