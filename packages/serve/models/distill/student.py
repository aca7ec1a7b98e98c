"""The small model as files: a tokenizer with fewer tokens, rows of int8, and the ONNX graph that adds them up."""

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MAX_TOKENS = 512

# Below this length a sum is of no token but marks and padding, and the vector stays 0.
SHORTEST = 1e-6


def compact(folder, value, name):
    (folder / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8", newline="\n")


def kept_tokens(tokenizer):
    """The numbers of the tokens that text can become: all but [unused0] and its like."""
    vocabulary = tokenizer["model"]["vocab"]
    return sorted(number for token, number in vocabulary.items() if not token.startswith("[unused"))


def renumbered(tokenizer, kept):
    """The description of the tokenizer with only the kept tokens, numbered from 0 in their old order."""
    new = {old: number for number, old in enumerate(kept)}
    vocabulary = {token: new[old] for token, old in tokenizer["model"]["vocab"].items() if old in new}
    marks = tokenizer["post_processor"]["special_tokens"]
    return {
        **tokenizer,
        "truncation": None,
        "padding": None,
        "added_tokens": [{**token, "id": new[token["id"]]} for token in tokenizer["added_tokens"]],
        "post_processor": {
            **tokenizer["post_processor"],
            "special_tokens": {name: {**mark, "ids": [new[old] for old in mark["ids"]]} for name, mark in marks.items()},
        },
        "model": {**tokenizer["model"], "vocab": dict(sorted(vocabulary.items(), key=lambda item: item[1]))},
    }


def quantized(rows):
    """Rows as int8, and a scale for each."""
    scales = np.abs(rows).max(axis=1) / 127
    # Rows of zeros: the marks.
    scales[scales == 0] = 1
    return np.round(rows / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def graph(rows):
    """
    input_ids           int64 [batch, sequence]
    attention_mask      int64 [batch, sequence]   1 for tokens, 0 for padding
    sentence_embedding  float32 [batch, width]    the sum of the tokens' rows, scaled to length 1; 0 where there are none
    """
    table, scales = quantized(rows)
    constants = {"table": table, "scales": scales, "axis": np.array([1]), "shortest": np.float32(SHORTEST)}
    nodes = [
        ("Gather", ["table", "input_ids"], "gathered", {}),
        ("Cast", ["gathered"], "rows", {"to": TensorProto.FLOAT}),
        ("Gather", ["scales", "input_ids"], "factors", {}),
        ("Cast", ["attention_mask"], "mask", {"to": TensorProto.FLOAT}),
        ("Mul", ["factors", "mask"], "weights", {}),
        ("Unsqueeze", ["weights", "axis"], "weights_row", {}),
        ("MatMul", ["weights_row", "rows"], "sum_row", {}),
        ("Squeeze", ["sum_row", "axis"], "sum", {}),
        ("ReduceL2", ["sum"], "length", {"axes": [1], "keepdims": 1}),
        ("Max", ["length", "shortest"], "divisor", {}),
        ("Div", ["sum", "divisor"], "sentence_embedding", {}),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", rows.shape[1]])
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(kind, ins, [out], name=out, **attributes) for kind, ins, out, attributes in nodes],
            "static embeddings of all-MiniLM-L6-v2",
            inputs,
            [output],
            initializer=[numpy_helper.from_array(value, name) for name, value in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        producer_name="webnn-node",
        ir_version=8,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def write(folder, tokenizer, rows):
    """Writes the files of the model; `rows` has one for each token of the renumbered tokenizer."""
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    (folder / "onnx" / "model.onnx").write_bytes(graph(rows).SerializeToString(deterministic=True))
    compact(folder, tokenizer, "tokenizer.json")
    marks = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
    compact(
        folder,
        {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": MAX_TOKENS, **marks},
        "tokenizer_config.json",
    )
    compact(
        folder,
        {
            "architectures": ["StaticEmbedding"],
            "model_type": "static-embedding",
            "hidden_size": rows.shape[1],
            "max_position_embeddings": MAX_TOKENS,
            "vocab_size": len(rows),
            "pad_token_id": tokenizer["model"]["vocab"]["[PAD]"],
        },
        "config.json",
    )
