#!/usr/bin/env python3
"""Writes one small model per operator of com.microsoft and variant of it, with seeded inputs and the outputs of
onnxruntime's CPU provider:

    DIRECTORY/<case>/model.onnx
    DIRECTORY/<case>/in_<name>.npy, out_<name>.npy
    DIRECTORY/manifest.json             see model_cases.py

    python contrib_models.py DIRECTORY [--only a,b]

Operators that onnxruntime has no CPU kernel for (BiasAdd, BiasSoftmax, BiasSplitGelu) are not here, nor are products
with weights of one bit and normalized queries and keys of GroupQueryAttention.
"""

import os

import numpy as np
import onnx
import onnxruntime
from model_cases import IR_VERSION, Generator, rng, save_case
from onnx import TensorProto, helper, numpy_helper

OPSET = 21
MICROSOFT = "com.microsoft"


class Const:
    """An input of the node that the model holds."""

    def __init__(self, array, packed_type=None, shape=None):
        self.array = np.asarray(array)
        self.packed_type = packed_type  # 4-bit type that the array's bytes hold two of each
        self.shape = shape

    def tensor(self, name):
        if self.packed_type is None:
            return numpy_helper.from_array(self.array, name)
        return helper.make_tensor(name, self.packed_type, self.shape, self.array.tobytes(), raw=True)


CASES = {}


def case(name, operator, inputs, outputs=("y",), domain=MICROSOFT, tolerance=None, types=None, **attributes):
    """A case. `inputs` maps names to arrays, which the caller feeds, to Const, or to None for what is left out; empty
    names of `outputs` are left out. `tolerance` is for all results, if the usual ones do not fit; `types` are those of
    outputs that onnxruntime cannot infer."""
    assert name not in CASES, name
    CASES[name] = (operator, inputs, outputs, domain, tolerance, types or {}, attributes)


def normal(name, *shape, scale=1.0, dtype=np.float32):
    return (rng(name).standard_normal(shape) * scale).astype(dtype)


def integers(name, low, high, shape, dtype):
    return rng(name).integers(low, high, size=shape).astype(dtype)


def positive(name, *shape):
    return (rng(name).random(shape) * 0.5 + 0.75).astype(np.float32)


def i32(*values):
    return np.array(values, dtype=np.int32)


# ---- Activations -----------------------------------------------------------------------------------------------------

case("gelu", "Gelu", {"x": normal("gelu", 3, 5, scale=3)})
case("bias_gelu", "BiasGelu", {"x": normal("bg", 2, 3, 8, scale=2), "bias": Const(normal("bgb", 8))})
case("fast_gelu", "FastGelu", {"x": normal("fg", 2, 3, 8, scale=3)})
case("fast_gelu_bias", "FastGelu", {"x": normal("fg2", 2, 3, 8), "bias": Const(normal("fgb", 8))})
case("quick_gelu", "QuickGelu", {"x": normal("qg", 4, 7, scale=3)})
case("quick_gelu_alpha", "QuickGelu", {"x": normal("qg2", 4, 7)}, alpha=0.5)

case("scaled_silu", "ScaledSiLU", {"x": normal("ss", 3, 7)}, alpha=0.5)
case("scaled_silu_input", "ScaledSiLU", {"x": normal("ss1", 3, 7), "scale": np.array(2, dtype=np.float32)}, alpha=0.5)

# ---- Products --------------------------------------------------------------------------------------------------------

case("fused_matmul", "FusedMatMul", {"a": normal("fma", 2, 3, 4), "b": normal("fmb", 2, 4, 5)}, alpha=0.5)
case("fused_matmul_trans_a", "FusedMatMul", {"a": normal("fma1", 2, 4, 3), "b": normal("fmb1", 4, 5)}, transA=1)
case("fused_matmul_trans_b", "FusedMatMul", {"a": normal("fma2", 3, 4), "b": normal("fmb2", 5, 4)}, transB=1)
case("fused_matmul_trans_both", "FusedMatMul", {"a": normal("fma3", 2, 4, 3), "b": normal("fmb3", 2, 5, 4)},
     transA=1, transB=1, alpha=2.0)
case("fused_matmul_batch_a", "FusedMatMul", {"a": normal("fma4", 3, 2, 4), "b": normal("fmb4", 2, 4, 5)},
     transBatchA=1)
case("fused_matmul_batch_a_4d", "FusedMatMul", {"a": normal("fma5", 3, 2, 6, 4), "b": normal("fmb5", 2, 6, 4, 5)},
     transBatchA=1)
case("fused_matmul_batch_b_trans", "FusedMatMul", {"a": normal("fma6", 2, 3, 4), "b": normal("fmb6", 4, 2, 5)},
     transBatchB=1)
case("fused_matmul_batch_both_trans", "FusedMatMul", {"a": normal("fma7", 4, 2, 3), "b": normal("fmb7", 5, 2, 4)},
     transBatchA=1, transBatchB=1, transA=1, transB=1)
case("fused_matmul_vector", "FusedMatMul", {"a": normal("fma8", 4), "b": normal("fmb8", 2, 4, 5)})
case("fused_matmul_by_vector", "FusedMatMul", {"a": normal("fma9", 2, 3, 4), "b": normal("fmb9", 4)})
case("transpose_matmul", "TransposeMatMul", {"a": normal("tma", 4, 3), "b": normal("tmb", 4, 5)}, transA=1, alpha=3.0)
case("fused_gemm", "FusedGemm",
     {"a": normal("fga", 3, 4), "b": Const(normal("fgb1", 4, 5)), "c": Const(normal("fgc", 5))}, activation="Relu")
case("fused_gemm_leaky", "FusedGemm",
     {"a": normal("fga1", 4, 3), "b": Const(normal("fgb2", 5, 4)), "c": Const(normal("fgc1", 5))},
     activation="LeakyRelu", activation_alpha=0.3, transA=1, transB=1, alpha=0.5, beta=2.0)
for activation in ("Relu", "Sigmoid", "Tanh"):
    case(f"fused_conv_{activation.lower()}", "FusedConv",
         {"x": normal("fc", 1, 3, 6, 6), "w": Const(normal("fcw", 4, 3, 3, 3, scale=0.3)),
          "b": Const(normal("fcb", 4))},
         activation=activation, pads=[1, 1, 1, 1])
case("fused_conv_leaky", "FusedConv", {"x": normal("fcl", 1, 4, 5, 5), "w": Const(normal("fclw", 4, 1, 3, 3))},
     activation="LeakyRelu", activation_params=[0.2], group=4, strides=[2, 2])
case("fused_conv_clip", "FusedConv", {"x": normal("fcc", 1, 2, 5, 5), "w": Const(normal("fccw", 3, 2, 3, 3))},
     activation="Clip", activation_params=[-0.5, 1.5])
case("fused_conv_hard_sigmoid", "FusedConv", {"x": normal("fch", 1, 2, 5, 5), "w": Const(normal("fchw", 3, 2, 1, 1))},
     activation="HardSigmoid", activation_params=[0.3, 0.4])
case("fused_conv_sum", "FusedConv",
     {"x": normal("fcs", 1, 2, 5, 5), "w": Const(normal("fcsw", 3, 2, 3, 3)), "b": Const(normal("fcsb", 3)),
      "z": normal("fcz", 1, 3, 3, 3)},
     activation="Relu")

# ---- Normalizations --------------------------------------------------------------------------------------------------


def norm_weights(name, size, count):
    names = ["gamma", "beta", "bias"][:count]
    return {weight: Const(normal(name + weight, size) + (weight == "gamma")) for weight in names}


case("skip_layer_norm", "SkipLayerNormalization",
     {"x": normal("sln", 2, 3, 8), "skip": normal("slns", 2, 3, 8), **norm_weights("sln", 8, 2)}, epsilon=1e-5)
case("skip_layer_norm_bias_sum", "SkipLayerNormalization",
     {"x": normal("sln1", 2, 3, 8), "skip": normal("slns1", 2, 3, 8), **norm_weights("sln1", 8, 3)},
     ("y", "", "", "sum"))
case("skip_layer_norm_broadcast", "SkipLayerNormalization",
     {"x": normal("sln2", 2, 3, 8), "skip": normal("slns2", 3, 8), **norm_weights("sln2", 8, 1)})
case("skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization",
     {"x": normal("ssl", 2, 3, 8), "skip": normal("ssls", 2, 3, 8), **norm_weights("ssl", 8, 1)}, ("y", "", "", "sum"))
case("skip_simplified_layer_norm_bias", "SkipSimplifiedLayerNormalization",
     {"x": normal("ssl1", 2, 3, 8), "skip": normal("ssls1", 2, 3, 8), "gamma": Const(normal("sslg", 8)),
      "bias": Const(normal("sslb", 8))},
     ("y", "", "", "sum"), epsilon=1e-6)
case("simplified_layer_norm", "SimplifiedLayerNormalization", {"x": normal("sl", 2, 3, 8), **norm_weights("sl", 8, 1)},
     domain="", epsilon=1e-6)
case("simplified_layer_norm_axis", "SimplifiedLayerNormalization",
     {"x": normal("sl1", 2, 3, 8), "gamma": Const(normal("sl1g", 3, 8))}, domain="", axis=1)

embedding = {
    "ids": integers("ids", 0, 20, (2, 5), np.int32),
    "segments": integers("seg", 0, 2, (2, 5), np.int32),
    "words": Const(normal("words", 20, 8)),
    "positions": Const(normal("positions", 10, 8)),
    "types": Const(normal("types", 2, 8)),
    **norm_weights("emb", 8, 2),
}
case("embed_layer_norm", "EmbedLayerNormalization", embedding, ("y", "mask_index"), epsilon=1e-12)
case("embed_layer_norm_mask_sum", "EmbedLayerNormalization",
     {**embedding, "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=np.int32)}, ("y", "mask_index", "sum"))
case("embed_layer_norm_no_segments", "EmbedLayerNormalization", {**embedding, "segments": None, "types": None},
     ("y", "mask_index"))
case("embed_layer_norm_position_ids", "EmbedLayerNormalization",
     {**embedding, "mask": None, "position_ids": integers("pos", 0, 10, (2, 5), np.int32)}, ("y", "mask_index"))

quantized_embedding = {
    "ids": integers("qids", 0, 20, (2, 5), np.int32),
    "segments": integers("qseg", 0, 2, (2, 5), np.int32),
    **{name: Const(integers("qe" + name, 0, 256, shape, np.uint8))
       for name, shape in {"words": (20, 8), "positions": (10, 8), "types": (2, 8), "gamma": 8, "beta": 8}.items()},
    "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=np.int32),
    **{f"{name}_scale": Const(np.float32(0.01 + at / 100))
       for at, name in enumerate(("words", "positions", "types", "gamma", "beta"))},
    **{f"{name}_zero": Const(np.uint8(100 + at))
       for at, name in enumerate(("words", "positions", "types", "gamma", "beta"))},
}
case("q_embed_layer_norm", "QEmbedLayerNormalization", quantized_embedding, ("y", "mask_index"), epsilon=1e-12)
case("q_embed_layer_norm_no_segments", "QEmbedLayerNormalization",
     {**quantized_embedding, **dict.fromkeys(("segments", "types", "mask", "types_scale", "types_zero"))},
     ("y", "mask_index"))

case("gated_add", "GatedAdd",
     {"x": normal("gax", 2, 3, 8), "y0": normal("gay", 2, 3, 8), "gate": normal("gag", 2, 3, 1)})
for activation in ("silu", "sigmoid"):
    case(f"gated_rms_norm_{activation}", "GatedRMSNorm",
         {"x": normal("grx", 2, 3, 16), "scale": Const(positive("grs", 8)), "gate": normal("grg", 2, 3, 16)},
         activation=activation)
linear_gate = {"a": normal("lga", 2, 3, 4, scale=3), "dt_bias": Const(normal("lgb", 4)),
               "decay_scale": Const(-positive("lgs", 4))}
case("linear_attention_gate", "LinearAttentionGate", {**linear_gate, "b": normal("lgr", 2, 3, 4)}, ("decay", "beta"))
case("linear_attention_gate_decay", "LinearAttentionGate", linear_gate, ("decay",))

# ---- Attention -------------------------------------------------------------------------------------------------------

MASKS = {
    "ends": i32(3, 5),
    "ends_starts": i32(4, 5, 0, 2),
    "raw": np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], dtype=np.int32),
    "raw_3d": np.tril(np.ones((2, 5, 5), dtype=np.int32)),
}


def projected(name, batch=2, sequence=5, hidden=8, columns=24):
    return {
        "x": normal(name + "x", batch, sequence, hidden),
        "w": Const(normal(name + "w", hidden, columns, scale=0.4)),
        "b": Const(normal(name + "b", columns, scale=0.2)),
    }


case("attention", "Attention", projected("att"), num_heads=2)
case("attention_unidirectional", "Attention", projected("att1"), num_heads=2, unidirectional=1)
case("attention_scale", "Attention", projected("att2"), num_heads=2, scale=0.3)
case("attention_value_size", "Attention", projected("att3", columns=28), num_heads=2, qkv_hidden_sizes=[8, 8, 12])
for mask_name, mask in MASKS.items():
    case(f"attention_mask_{mask_name}", "Attention", {**projected("att4" + mask_name), "mask": mask}, num_heads=2)
case("attention_mask_raw_unidirectional", "Attention", {**projected("att5"), "mask": MASKS["raw"]}, num_heads=2,
     unidirectional=1)
case("attention_mask_filter", "Attention", {**projected("att7"), "mask": MASKS["raw"]}, num_heads=2,
     mask_filter_value=-2.0)
case("attention_attention_bias", "Attention",
     {**projected("att8"), "mask": None, "past": None, "bias": normal("att8bias", 1, 2, 5, 5)}, num_heads=2)
case("attention_past", "Attention",
     {**projected("att9", sequence=2), "mask": None, "past": normal("att9p", 2, 2, 2, 3, 4)}, ("y", "present"),
     num_heads=2, unidirectional=1)
case("attention_past_mask", "Attention",
     {**projected("att10", sequence=2), "mask": MASKS["raw"], "past": normal("att10p", 2, 2, 2, 3, 4)},
     ("y", "present"), num_heads=2)
case("attention_present", "Attention", projected("att11"), ("y", "present"), num_heads=2)
case("attention_past_empty", "Attention",
     {**projected("att12"), "mask": None, "past": normal("att12p", 2, 2, 2, 0, 4)}, ("y", "present"), num_heads=2,
     unidirectional=1)


def flat_heads(name, batch=2, queries=5, keys=5, hidden=8, value_hidden=8):
    return {
        "q": normal(name + "q", batch, queries, hidden),
        "k": normal(name + "k", batch, keys, hidden),
        "v": normal(name + "v", batch, keys, value_hidden),
    }


MHA = "MultiHeadAttention"
case("mha", MHA, flat_heads("mha"), num_heads=2)
case("mha_cross", MHA, flat_heads("mha1", keys=7, value_hidden=12), num_heads=2)
case("mha_bias", MHA, {**flat_heads("mha2"), "bias": Const(normal("mha2b", 24))}, num_heads=2)
case("mha_unidirectional", MHA, flat_heads("mha3"), num_heads=2, unidirectional=1)
case("mha_scale", MHA, flat_heads("mha4"), num_heads=2, scale=0.7)
for mask_name in ("ends", "raw", "raw_3d"):
    case(f"mha_mask_{mask_name}", MHA,
         {**flat_heads("mha5" + mask_name), "bias": None, "mask": MASKS[mask_name]}, num_heads=2)
case("mha_attention_bias", MHA,
     {**flat_heads("mha6"), "bias": None, "mask": None, "attention_bias": normal("mha6b", 2, 1, 5, 5)}, num_heads=2)
mha_past = {"past_key": normal("mha7pk", 2, 2, 3, 4), "past_value": normal("mha7pv", 2, 2, 3, 4)}
case("mha_past", MHA,
     {**flat_heads("mha7", queries=2, keys=2), "bias": None, "mask": None, "attention_bias": None, **mha_past},
     ("y", "present_key", "present_value"), num_heads=2)
case("mha_past_unidirectional", MHA,
     {**flat_heads("mha8", queries=2, keys=2), "bias": Const(normal("mha8b", 24)), "mask": None,
      "attention_bias": None, **mha_past},
     ("y", "present_key", "present_value"), num_heads=2, unidirectional=1)
case("mha_past_mask", MHA,
     {**flat_heads("mha9", queries=2, keys=2), "bias": None, "mask": MASKS["raw"], "attention_bias": None, **mha_past},
     ("y", "present_key", "present_value"), num_heads=2)
case("mha_present", MHA, flat_heads("mha10"), ("y", "present_key", "present_value"), num_heads=2)
case("mha_encoder_states", MHA,
     {"q": normal("mha11q", 2, 3, 8), "k": normal("mha11k", 2, 2, 6, 4), "v": normal("mha11v", 2, 2, 6, 4)},
     num_heads=2)

DECODER = "DecoderMaskedMultiHeadAttention"
one_token = {name: normal("dmm" + name, 2, 1, 8) for name in "qkv"}
buffers = {"past_key": normal("dmmpk", 2, 2, 6, 4), "past_value": normal("dmmpv", 2, 2, 6, 4)}
case("decoder_mha_self", DECODER,
     {**one_token, "mask": None, "attention_bias": None, **buffers, "past_length": i32(3)},
     ("y", "present_key", "present_value"), num_heads=2, past_present_share_buffer=1)
case("decoder_mha_self_first", DECODER,
     {**one_token, "mask": None, "attention_bias": None, **buffers, "past_length": i32(0)},
     ("y", "present_key", "present_value"), num_heads=2, past_present_share_buffer=1, scale=0.7)
case("decoder_mha_self_bias_mask", DECODER,
     {**one_token, "mask": np.array([[1, 1, 1, 1], [0, 1, 1, 1]], dtype=np.int32),
      "attention_bias": normal("dmmab", 1, 2, 1, 4), **buffers, "past_length": i32(3), "beam_width": None,
      "cache_indirection": None, "bias": Const(normal("dmmb", 24))},
     ("y", "present_key", "present_value"), num_heads=2, past_present_share_buffer=1)
encoded = {"q": one_token["q"], "k": normal("dmmck", 2, 2, 5, 4), "v": normal("dmmcv", 2, 2, 5, 4)}
case("decoder_mha_cross", DECODER, encoded, num_heads=2)
case("decoder_mha_cross_mask", DECODER,
     {**encoded, "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=np.int32),
      **dict.fromkeys(("attention_bias", "past_key", "past_value", "past_length", "beam_width", "cache_indirection")),
      "bias": Const(normal("dmmcb", 24))},
     num_heads=2)
case("decoder_mha_cross_scores", DECODER, encoded, ("y", "", "", "qk"), types={"qk": TensorProto.FLOAT}, num_heads=2,
     output_qk=1)

for count in (1, 2):
    for unidirectional in (0, 1):
        case(f"mha_buffer_{count}_{'causal' if unidirectional else 'all'}", MHA,
             {**flat_heads(f"mhab{count}", queries=count, keys=count),
              **dict.fromkeys(("bias", "mask", "attention_bias")), **buffers, "past_length": i32(3)},
             ("y", "present_key", "present_value"), num_heads=2, unidirectional=unidirectional)
case("mha_buffer_mask_bias", MHA,
     {**flat_heads("mhabm", queries=2, keys=2), "bias": Const(normal("mhabmb", 24)),
      "mask": np.array([[1, 1, 1, 1, 1], [0, 1, 1, 1, 1]], dtype=np.int32),
      "attention_bias": normal("mhabma", 1, 2, 2, 5), **buffers, "past_length": i32(3)},
     ("y", "present_key", "present_value"), num_heads=2)

for layout, shape in {"3d": (2, 3, 16), "4d": (2, 2, 3, 8)}.items():
    for interleaved in (0, 1):
        case(f"rotary_{layout}_{'interleaved' if interleaved else 'halves'}", "RotaryEmbedding",
             {"x": normal("rot" + layout, *shape),
              "positions": np.array([[0, 1, 2], [4, 5, 6]], dtype=np.int64),
              "cos": Const(normal("rotcos", 10, 4)), "sin": Const(normal("rotsin", 10, 4))}, interleaved=interleaved)
case("rotary_offset", "RotaryEmbedding",
     {"x": normal("rot1", 2, 3, 16), "positions": np.array([4], dtype=np.int64),
      "cos": Const(normal("rot1cos", 10, 4)), "sin": Const(normal("rot1sin", 10, 4))})
case("rotary_part", "RotaryEmbedding",
     {"x": normal("rot2", 2, 3, 16), "positions": np.array([[0, 1, 2], [4, 5, 6]], dtype=np.int64),
      "cos": Const(normal("rot2cos", 10, 2)), "sin": Const(normal("rot2sin", 10, 2))},
     num_heads=2, rotary_embedding_dim=4)

for name, sections, layout in (("sections", [4, 2, 2], 0), ("in_turns", [3, 3, 2], 1)):
    case(f"multimodal_rotary_{name}", "MRotaryEmbedding",
         {"x": normal("mrot", 2, 3, 32), "positions": integers("mrotp", 0, 10, (3, 2, 3), np.int64),
          "cos": Const(normal("mrotcos", 10, 8)), "sin": Const(normal("mrotsin", 10, 8))},
         num_heads=2, mrope_section=sections, mrope_layout=layout)
case("multimodal_rotary_part", "MRotaryEmbedding",
     {"x": normal("mrot1", 2, 2, 3, 16), "positions": integers("mrotp", 0, 10, (3, 2, 3), np.int64),
      "cos": Const(normal("mrotcos1", 10, 4)), "sin": Const(normal("mrotsin1", 10, 4))},
     num_heads=2, rotary_embedding_dim=8, mrope_section=[2, 1, 1], mrope_layout=1)

GQA = "GroupQueryAttention"


def grouped(name, batch=1, sequence=4, heads=4, shared=2, size=16, past=0, total=None, last=None, packed=False, **more):
    """Inputs of a GroupQueryAttention; `total` is sequence + past unless it is given."""
    total = past + sequence if total is None else total
    width = (heads + 2 * shared) * size if packed else heads * size
    inputs = {
        "q": normal(name + "q", batch, sequence, width),
        "k": None if packed else normal(name + "k", batch, sequence, shared * size),
        "v": None if packed else normal(name + "v", batch, sequence, shared * size),
        "past_key": None if past is None else normal(name + "pk", batch, shared, past, size),
        "past_value": None if past is None else normal(name + "pv", batch, shared, past, size),
        "last": np.array(last if last is not None else [total - 1] * batch, dtype=np.int32),
        "total": Const(np.array(total, dtype=np.int32)),
        "cos": None, "sin": None, "positions": None, "attention_bias": None, "sink": None,
    }
    inputs.update(more)
    while inputs[list(inputs)[-1]] is None:
        inputs.popitem()
    return inputs


def caches(rows=16, size=16):
    angles = np.arange(rows)[:, None] / (100.0 ** (np.arange(size // 2) / (size // 2)))
    return {"cos": Const(np.cos(angles).astype(np.float32)), "sin": Const(np.sin(angles).astype(np.float32))}


PRESENT = ("y", "present_key", "present_value")
grouped_heads = {"num_heads": 4, "kv_num_heads": 2}
case("gqa_prompt", GQA, grouped("gqa"), PRESENT, **grouped_heads)
case("gqa_prompt_batch", GQA, grouped("gqa1", batch=2), PRESENT, **grouped_heads)
case("gqa_prompt_padded", GQA, grouped("gqa2", batch=2, last=[3, 1]), PRESENT, **grouped_heads)
case("gqa_decode", GQA, grouped("gqa3", sequence=1, past=5), PRESENT, **grouped_heads)
case("gqa_decode_batch", GQA, grouped("gqa4", batch=2, sequence=1, past=5), PRESENT, **grouped_heads)
case("gqa_chunk", GQA, grouped("gqa5", sequence=3, past=5), PRESENT, **grouped_heads)
case("gqa_rotary_prompt", GQA, grouped("gqa6", **caches()), PRESENT, **grouped_heads, do_rotary=1)
case("gqa_rotary_decode", GQA, grouped("gqa7", sequence=1, past=5, **caches()), PRESENT, **grouped_heads, do_rotary=1)
case("gqa_rotary_chunk", GQA, grouped("gqa8", sequence=3, past=5, **caches()), PRESENT, **grouped_heads, do_rotary=1)
case("gqa_rotary_interleaved", GQA, grouped("gqa9", sequence=1, past=5, **caches()), PRESENT, **grouped_heads,
     do_rotary=1, rotary_interleaved=1)
case("gqa_rotary_positions", GQA,
     grouped("gqa10", sequence=2, past=5, **caches(), positions=np.array([[2, 3]], dtype=np.int64)), PRESENT,
     **grouped_heads, do_rotary=1)
case("gqa_packed", GQA, grouped("gqa11", packed=True, **caches()), PRESENT, **grouped_heads, do_rotary=1)
case("gqa_window_prompt", GQA, grouped("gqa12", sequence=6), PRESENT, **grouped_heads, local_window_size=3)
case("gqa_window_decode", GQA, grouped("gqa13", sequence=1, past=7), PRESENT, **grouped_heads, local_window_size=3)
case("gqa_softcap", GQA, grouped("gqa14"), PRESENT, **grouped_heads, softcap=1.5)
case("gqa_scale", GQA, grouped("gqa15"), PRESENT, **grouped_heads, scale=0.2)
case("gqa_attention_bias", GQA, grouped("gqa16", attention_bias=normal("gqa16b", 1, 1, 4, 4)), PRESENT, **grouped_heads)
case("gqa_attention_bias_softcap", GQA, grouped("gqa17", attention_bias=normal("gqa17b", 1, 4, 4, 4)), PRESENT,
     **grouped_heads, softcap=2.0)
case("gqa_smooth_softmax", GQA, grouped("gqa18"), PRESENT, **grouped_heads, smooth_softmax=1)
case("gqa_sink", GQA, grouped("gqa19", sink=Const(normal("gqa19s", 4))), PRESENT, **grouped_heads)
case("gqa_no_past", GQA, grouped("gqa20", past=None, total=4), PRESENT, **grouped_heads)
case("gqa_fixed_cache_decode", GQA, grouped("gqa21", sequence=1, past=8, total=8, last=[5], **caches()), PRESENT,
     **grouped_heads, do_rotary=1)
case("gqa_fixed_cache_prompt", GQA, grouped("gqa22", sequence=4, past=8, total=4, last=[3]), PRESENT, **grouped_heads)
case("gqa_ragged_decode", GQA, grouped("gqa23", batch=2, sequence=1, past=5, last=[5, 3], **caches()), PRESENT,
     **grouped_heads, do_rotary=1)
case("gqa_not_causal", GQA, grouped("gqa24"), PRESENT, **grouped_heads, causal=0)
case("gqa_scores", GQA, grouped("gqa25"), PRESENT + ("scores",), **grouped_heads, qk_output=1)
case("gqa_probabilities", GQA, grouped("gqa26"), PRESENT + ("scores",), **grouped_heads, qk_output=2)
case("gqa_one_head", GQA, grouped("gqa27", heads=3, shared=1), PRESENT, num_heads=3, kv_num_heads=1)

# ---- Blocks of weights -----------------------------------------------------------------------------------------------


def n_bits(name, n, k, block, bits, rows=(3,), zero=None, bias=False):
    blocks = -(-k // block)
    inputs = {
        "a": normal(name + "a", *rows, k),
        "b": Const(integers(name + "b", 0, 256, (n, blocks, block * bits // 8), np.uint8)),
        "scales": Const(positive(name + "s", n, blocks) * np.float32(0.1)),
        "zero_points": None, "g_idx": None, "bias": None,
    }
    if zero == "packed":
        inputs["zero_points"] = Const(integers(name + "z", 0, 256, (n, -(-blocks * bits // 8)), np.uint8))
    elif zero == "float":
        inputs["zero_points"] = Const(normal(name + "z", n, blocks) + np.float32(7))
    if bias:
        inputs["bias"] = Const(normal(name + "bias", n))
    while inputs[list(inputs)[-1]] is None:
        inputs.popitem()
    return inputs


def n_bits_case(name, n, k, block, bits, **options):
    case(name, "MatMulNBits", n_bits(name, n, k, block, bits, **options), N=n, K=k, block_size=block, bits=bits)


n_bits_case("n_bits_4", 8, 64, 32, 4)
n_bits_case("n_bits_4_zero", 8, 64, 16, 4, zero="packed")
n_bits_case("n_bits_4_zero_odd", 8, 96, 32, 4, zero="packed")
n_bits_case("n_bits_4_zero_float", 8, 64, 16, 4, zero="float")
n_bits_case("n_bits_4_part_of_block", 8, 40, 32, 4, zero="packed")
n_bits_case("n_bits_4_bias_batch", 6, 64, 32, 4, rows=(2, 3), bias=True)
n_bits_case("n_bits_8", 8, 64, 32, 8)
n_bits_case("n_bits_8_zero", 8, 64, 32, 8, zero="packed")
n_bits_case("n_bits_2", 8, 64, 32, 2)
n_bits_case("n_bits_2_zero", 8, 96, 32, 2, zero="packed")

indices = np.array([[1, 4, 9], [0, 0, 7]], dtype=np.int64)


def packed_table(name, rows=10, columns=64, block=16, bits=4, zero=False):
    blocks = -(-columns // block)
    inputs = {
        "data": Const(integers(name + "d", 0, 256, (rows, columns * bits // 8), np.uint8)),
        "indices": indices,
        "scales": Const(positive(name + "s", rows, blocks)),
    }
    if zero:
        inputs["zero_points"] = Const(integers(name + "z", 0, 256, (rows, -(-blocks * bits // 8)), np.uint8))
    return inputs


GATHER = "GatherBlockQuantized"
case("gather_block_uint8", GATHER, packed_table("gb"), block_size=16, quantize_axis=1, bits=4)
case("gather_block_uint8_zero", GATHER, packed_table("gb1", zero=True), block_size=16, quantize_axis=1, bits=4)
case("gather_block_8_bits", GATHER, packed_table("gb2", bits=8), block_size=16, quantize_axis=1, bits=8)
for element, name in ((TensorProto.UINT4, "uint4"), (TensorProto.INT4, "int4")):
    case(f"gather_block_{name}", GATHER,
         {"data": Const(integers("gb3" + name, 0, 256, (10 * 32,), np.uint8), element, (10, 64)), "indices": indices,
          "scales": Const(positive("gb3s", 10, 4)),
          "zero_points": Const(integers("gb3z" + name, 0, 256, (20,), np.uint8), element, (10, 4))},
         block_size=16, quantize_axis=1)
case("gather_block_int4_part_of_block", GATHER,
     {"data": Const(integers("gb4", 0, 256, (10 * 20,), np.uint8), TensorProto.INT4, (10, 40)), "indices": indices,
      "scales": Const(positive("gb4s", 10, 3))}, block_size=16, quantize_axis=1)
case("gather_block_int4_same_axis", GATHER,
     {"data": Const(integers("gb5", 0, 256, (32 * 3,), np.uint8), TensorProto.INT4, (32, 6)),
      "indices": np.array([5, 17, 31], dtype=np.int64), "scales": Const(positive("gb5s", 2, 6))},
     block_size=16, quantize_axis=0)
case("gather_block_int4_middle", GATHER,
     {"data": Const(integers("gb6", 0, 256, (3 * 5 * 16,), np.uint8), TensorProto.INT4, (3, 5, 32)),
      "indices": np.array([[4, 0]], dtype=np.int32), "scales": Const(positive("gb6s", 3, 5, 2))},
     block_size=16, quantize_axis=2, gather_axis=1)

for quant_type, type_name in enumerate(("fp4", "nf4")):
    for rows in (1, 5):
        case(f"matmul_bnb4_{type_name}_{rows}", "MatMulBnb4",
             {"a": normal("bnb4", rows, 32), "b": Const(integers("bnb4b", 0, 256, (24 * 32 // 2,), np.uint8)),
              "absmax": Const(positive("bnb4s", 24 * 32 // 16))},
             N=24, K=32, block_size=16, quant_type=quant_type)
case("matmul_bnb4_uneven", "MatMulBnb4",
     {"a": normal("bnb4u", 2, 3, 20), "b": Const(integers("bnb4ub", 0, 256, (7 * 20 // 2,), np.uint8)),
      "absmax": Const(positive("bnb4us", 5))},
     N=7, K=20, block_size=32, quant_type=1)

# ---- Mixtures of experts ---------------------------------------------------------------------------------------------


def experts(name, columns, depth, bits=None, block=None, zeros=False):
    """The matrices of four experts, with scales and zero points if they have `bits`, and biases."""
    bias = Const(normal(name + "b", 4, columns))
    if bits is None:
        return {name: Const(normal(name, 4, columns, depth, scale=0.3)), name + "_bias": bias}, None
    scales = (4, columns, depth // block) if block else (4, columns)
    # Rows of zero points begin with a byte.
    packed = [*scales[:-1], -(-scales[-1] * bits // 8)]
    tensors = {
        name: Const(integers(name, 0, 256, (4, columns, depth * bits // 8), np.uint8)),
        name + "_scale": Const(positive(name + "s", *scales) * np.float32(2.0**-bits)),
        name + "_bias": bias,
    }
    return tensors, Const(integers(name + "z", 0, 256, packed, np.uint8)) if zeros else None


def mixture(name, operator, tokens, activation, doubles=False, shape=None, weights=None, tolerance=None, **attributes):
    """A case with 32 features and 16 hidden ones; `weights` are bits, block size and whether there are zero points."""
    weights = weights or ()
    inputs = {"x": normal(name + "x", *(shape or (tokens, 32))), "router": normal(name + "r", tokens, 4)}
    first, first_zeros = experts("fc1", 32 if doubles else 16, 32, *weights)
    last, last_zeros = experts("fc2", 32, 16, *weights)
    inputs.update(first | last)
    if weights:
        inputs.update(dict.fromkeys(("fc3", "fc3_scale", "fc3_bias")))
        inputs.update({"fc1_zero": first_zeros, "fc2_zero": last_zeros})
        attributes["expert_weight_bits"] = weights[0]
        if len(weights) > 1 and weights[1]:
            attributes["block_size"] = weights[1]
    router_weights = attributes.pop("router_weights", None)
    if router_weights is not None:
        inputs.update({"fc3_zero": None, "router_weights": router_weights})
    while inputs[list(inputs)[-1]] is None:
        inputs.popitem()
    case(name, operator, inputs, tolerance=tolerance, k=2, activation_type=activation, **attributes)


SWIGLU = {"doubles": True, "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 1.5}
for tokens in (1, 7, 40):
    for activation in ("relu", "gelu", "silu", "identity", "swiglu"):
        mixture(f"moe_{activation}_{tokens}", "MoE", tokens, activation, **(SWIGLU if activation == "swiglu" else {}))
    for bits, block, zeros in ((2, 0, True), (4, 0, False), (4, 0, True), (4, 16, False), (4, 16, True), (8, 0, True)):
        mixture(f"qmoe_{bits}_{block}_{'zeros' if zeros else 'plain'}_{tokens}", "QMoE", tokens, "swiglu",
                weights=(bits, block, zeros), **SWIGLU)
mixture("moe_3d_normalized", "MoE", 6, "silu", shape=(2, 3, 32), normalize_routing_weights=1)
mixture("qmoe_silu", "QMoE", 5, "silu", weights=(4, 16))
for normalized in (0, 1):
    mixture(f"qmoe_router_weights_{normalized}", "QMoE", 5, "swiglu", weights=(4, 0, True), **SWIGLU,
            router_weights=rng("qmrw").random((5, 4), dtype=np.float32), normalize_routing_weights=normalized)

# ---- Linear attention ------------------------------------------------------------------------------------------------

LINEAR = "LinearAttention"


def recurrent(name, steps, batch=2, queries=2, keys=2, states=2, size=8, decay=None, beta=None, past=True):
    """Inputs of a LinearAttention, whose keys have length 1."""
    k = normal(name + "k", batch, steps, keys, size)
    k /= np.linalg.norm(k, axis=3, keepdims=True)
    return {
        "q": normal(name + "q", batch, steps, queries * size),
        "k": k.reshape(batch, steps, keys * size),
        "v": normal(name + "v", batch, steps, states * 6),
        "past": normal(name + "p", batch, states, size, 6) if past else None,
        "decay": -np.abs(normal(name + "d", batch, steps, decay or states)),
        "beta": rng(name + "b").random((batch, steps, beta or states), dtype=np.float32),
    }


for rule in ("linear", "gated", "delta", "gated_delta"):
    for steps in (1, 5, 70):
        case(f"linear_attention_{rule}_{steps}", LINEAR, recurrent(f"la{rule}{steps}", steps), ("y", "present"),
             q_num_heads=2, kv_num_heads=2, update_rule=rule)
for steps in (1, 40):
    case(f"linear_attention_shared_state_{steps}", LINEAR, recurrent(f"la1{steps}", steps, queries=4), ("y", "present"),
         q_num_heads=4, kv_num_heads=2, scale=0.3)
    case(f"linear_attention_shared_queries_{steps}", LINEAR,
         recurrent(f"la2{steps}", steps, states=4, beta=1, past=False), ("y", "present"), q_num_heads=2, kv_num_heads=4)
    case(f"linear_attention_decay_of_features_{steps}", LINEAR, recurrent(f"la3{steps}", steps, decay=16),
         ("y", "present"), q_num_heads=2, kv_num_heads=2)

CONV = "CausalConvWithState"
for steps in (1, 7):
    conv = {"x": normal(f"cc{steps}", 2, 4, steps), "w": Const(normal("ccw", 4, 1, 3)), "b": Const(normal("ccb", 4))}
    case(f"causal_conv_{steps}", CONV, {**conv, "past": normal("ccp", 2, 4, 2)}, ("y", "present"), activation="silu")
    case(f"causal_conv_dilated_{steps}", CONV, {**conv, "past": normal("ccq", 2, 4, 4)}, ("y", "present"), dilation=2)
    case(f"causal_conv_without_past_{steps}", CONV, conv, ("y", "present"))
    case(f"causal_conv_channels_last_{steps}", CONV,
         {**conv, "x": normal(f"ccl{steps}", 2, steps, 2, 2), "past": normal("cclp", 2, 2, 2, 2)}, ("y", "present"),
         channels_last=1)

# ---- Operators of the standard in older forms ------------------------------------------------------------------------

case("conv_transpose_pads", "ConvTransposeWithDynamicPads",
     {"x": normal("ctx", 1, 2, 4, 5), "w": Const(normal("ctw", 2, 3, 3, 3)), "pads": Const(np.int64([1, 0, 1, 2])),
      "b": Const(normal("ctb", 3))},
     strides=[2, 2])
for axis in (0, -1):
    case(f"expand_dims_{'first' if axis == 0 else 'last'}", "ExpandDims",
         {"x": normal("ed", 2, 3), "axis": Const(np.int32(axis))})
case("gather_nd", "GatherND", {"x": normal("gnd", 2, 3, 4), "i": np.array([[0, 1], [1, -1]], dtype=np.int64)})
for mode in ("bilinear", "nearest", "bicubic"):
    case(f"grid_sample_{mode}", "GridSample", {"x": normal("gs", 1, 2, 4, 5), "grid": normal("gsg", 1, 3, 3, 2)},
         mode=mode, padding_mode="border")
case("pad_2d_sizes", "Pad",
     {"x": normal("pad", 2, 3), "pads": Const(np.array([[0, 1, 2, 0]], dtype=np.int64)),
      "value": Const(np.float32([5]))})
case("pad_edge", "Pad", {"x": normal("pad1", 3, 3), "pads": Const(np.array([1, 1, 0, -1], dtype=np.int64))},
     mode="edge")
case("range_int", "Range", {"start": Const(np.int64([2])), "limit": Const(np.int64(7))})
case("range_float", "Range",
     {"start": Const(np.float32(1)), "limit": Const(np.float32(2)), "delta": Const(np.float32(0.25))})
case("trilu_lower", "Trilu", {"x": normal("tri", 2, 3, 4), "k": Const(np.int64(1))}, upper=0)
case("trilu_upper", "Trilu", {"x": normal("tri1", 3, 4)})
case("unique", "Unique", {"x": np.array([2, 1, 1, 3, 4, 3], dtype=np.float32)}, ("y", "which", "counts"))

# ---- Further operators -----------------------------------------------------------------------------------------------

for metric in ("euclidean", "sqeuclidean"):
    case(f"cdist_{metric}", "CDist", {"a": normal("cda", 5, 7), "b": normal("cdb", 3, 7)}, metric=metric)
case("unfold_tensor", "UnfoldTensor", {"x": normal("ut", 2, 9, 3)}, dim=1, size=4, step=2)
case("unfold_tensor_last", "UnfoldTensor", {"x": normal("ut1", 2, 5)}, size=3)

# ---- Quantized tensors -----------------------------------------------------------------------------------------------


def quantized(prefix, name, shape, dtype, scale=0.05, zero=None):
    info = np.iinfo(dtype)
    zero = (3 if dtype == np.int8 else 130) if zero is None else zero
    return {
        prefix: integers(name + prefix, info.min, info.max + 1, shape, dtype),
        prefix + "_scale": Const(np.float32(scale)),
        prefix + "_zero": Const(np.array(zero, dtype=dtype)),
    }


def output_of(dtype, scale, zero):
    return {"y_scale": Const(np.float32(scale)), "y_zero": Const(np.array(zero, dtype=dtype))}


for dtype in (np.uint8, np.int8):
    name = np.dtype(dtype).name
    for operator, scale in (("QLinearAdd", 0.1), ("QLinearMul", 0.3)):
        case(f"{operator.lower()}_{name}", operator,
             {**quantized("a", operator, (2, 3, 4), dtype), **quantized("b", operator, (3, 1), dtype, scale=0.07),
              **output_of(dtype, scale, 5)})
    case(f"qlinearsigmoid_{name}", "QLinearSigmoid",
         {**quantized("x", "qls", (3, 40), dtype), **output_of(dtype, 1 / 256, np.iinfo(dtype).min)})
    case(f"qlinearleakyrelu_{name}", "QLinearLeakyRelu",
         {**quantized("x", "qll", (3, 40), dtype), **output_of(dtype, 0.06, 7)}, alpha=0.2)
    case(f"qlinearglobalaveragepool_{name}", "QLinearGlobalAveragePool",
         {**quantized("x", "qlg", (2, 3, 5, 7), dtype), **output_of(dtype, 0.01, 4)}, channels_last=0)
    case(f"qlinearaveragepool_{name}", "QLinearAveragePool",
         {**quantized("x", "qla", (2, 3, 6, 7), dtype), **output_of(dtype, 0.03, 4)}, kernel_shape=[3, 2],
         strides=[2, 1], pads=[1, 0, 1, 1])
    case(f"qlinearconcat_{name}", "QLinearConcat",
         {**output_of(dtype, 0.06, 2), **quantized("a", "qlc", (2, 3), dtype),
          **quantized("b", "qlc", (2, 5), dtype, scale=0.03)},
         axis=1)
    case(f"qlinearsoftmax_{name}", "QLinearSoftmax",
         {**quantized("x", "qlsm", (3, 20), dtype, scale=0.02), **output_of(dtype, 1 / 256, np.iinfo(dtype).min)},
         opset=13, axis=-1)
    case(f"qlinearwhere_{name}", "QLinearWhere",
         {"condition": rng("qlw").random((2, 3, 4)) > 0.5, **quantized("a", "qlw", (2, 3, 4), dtype),
          **quantized("b", "qlw", (3, 1), dtype, scale=0.03), **output_of(dtype, 0.06, 2)})
case("qlinearglobalaveragepool_channels_last", "QLinearGlobalAveragePool",
     {**quantized("x", "qlgc", (2, 5, 7, 3), np.uint8), **output_of(np.uint8, 0.01, 4)}, channels_last=1)
case("qlinearaveragepool_channels_last", "QLinearAveragePool",
     {**quantized("x", "qlac", (1, 6, 7, 3), np.uint8), **output_of(np.uint8, 0.03, 4)}, kernel_shape=[2, 2],
     channels_last=1, pads=[1, 1, 0, 0], count_include_pad=1)
case("qlinearaveragepool_ceil", "QLinearAveragePool",
     {**quantized("x", "qlae", (1, 2, 6, 7), np.uint8), **output_of(np.uint8, 0.03, 4)}, kernel_shape=[3, 3],
     strides=[2, 2], ceil_mode=1)

for dtype in (np.uint8, np.int8):
    name = np.dtype(dtype).name
    zero = np.array(4 if dtype == np.int8 else 120, dtype=dtype)
    weight = integers("dqw", np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (6, 5), dtype)
    case(f"dynamic_quantize_matmul_{name}", "DynamicQuantizeMatMul",
         {"a": normal("dqa", 2, 4, 6), "b": Const(weight), "b_scale": Const(np.float32(0.02)), "b_zero": Const(zero)})
    case(f"dynamic_quantize_matmul_columns_{name}", "DynamicQuantizeMatMul",
         {"a": normal("dqa1", 4, 6), "b": Const(weight), "b_scale": Const(positive("dqs", 5) * np.float32(0.02)),
          "b_zero": Const(np.full(5, zero, dtype=dtype)), "bias": Const(normal("dqb", 5))})
    case(f"matmul_integer_to_float_{name}", "MatMulIntegerToFloat",
         {"a": integers("mia", 0, 256, (2, 4, 6), np.uint8), "b": Const(weight), "a_scale": Const(np.float32(0.03)),
          "b_scale": Const(positive("mis", 5) * np.float32(0.02)), "a_zero": Const(np.uint8(100)),
          "b_zero": Const(np.full(5, zero, dtype=dtype)), "bias": Const(normal("mib", 5))})
case("dynamic_quantize_matmul_zeros", "DynamicQuantizeMatMul",
     {"a": np.zeros((4, 6), dtype=np.float32), "b": Const(weight), "b_scale": Const(np.float32(0.02))})

q_gemm = {
    **quantized("a", "qg", (3, 6), np.uint8),
    "b": Const(integers("qgb", -128, 128, (6, 5), np.int8)),
    "b_scale": Const(positive("qgs", 5) * np.float32(0.02)), "b_zero": Const(np.zeros(5, dtype=np.int8)),
    "c": Const(integers("qgc", -3000, 3000, (5,), np.int32)),
}
case("q_gemm", "QGemm", {**q_gemm, **output_of(np.uint8, 0.3, 120)})
case("q_gemm_float", "QGemm", q_gemm)
case("q_gemm_transposed", "QGemm",
     {**quantized("a", "qg1", (6, 3), np.uint8), **quantized("b", "qg1", (5, 6), np.uint8)},
     transA=1, transB=1, alpha=0.5)

q_attention = {
    "x": integers("qatx", 0, 256, (2, 5, 8), np.uint8), "w": Const(integers("qatw", -128, 128, (8, 24), np.int8)),
    "b": Const(normal("qatb", 24, scale=0.2)), "x_scale": Const(np.float32(0.01)), "w_scale": Const(np.float32(0.01)),
    "mask": MASKS["raw"], "x_zero": Const(np.uint8(128)), "w_zero": Const(np.int8(1)),
}
case("q_attention", "QAttention", q_attention, num_heads=2)
case("q_attention_columns_past", "QAttention",
     {**q_attention, "x": q_attention["x"][:, :2], "w_scale": Const(positive("qats", 24) * np.float32(0.01)),
      "w_zero": Const(np.zeros(24, dtype=np.int8)), "past": normal("qatp", 2, 2, 2, 3, 4)}, ("y", "present"),
     num_heads=2, unidirectional=1)

for name, dtype, zero, directions, columns in (
    ("uint8", np.uint8, 128, 1, 1),
    ("int8", np.int8, 0, 1, 1),
    ("both", np.int8, 0, 2, 1),
    ("columns", np.int8, 0, 2, 20),
):
    info = np.iinfo(dtype)
    parameters = (directions,) if columns == 1 else (directions, columns)
    weights = {
        key: Const(integers(f"dql{name}{key}", info.min, info.max + 1, (directions, features, 20), dtype))
        for key, features in (("w", 4), ("r", 5))
    }
    # onnxruntime rounds input and states to 8 bits.
    case(f"dynamic_quantize_lstm_{name}", "DynamicQuantizeLSTM",
         {"x": normal("dqlx" + name, 6, 2, 4), **weights, "b": Const(normal("dqlb", directions, 40)),
          **dict.fromkeys(("lengths", "h", "c", "p")),
          **{f"{key}_{what}": Const(value) for key in "wr"
             for what, value in (("scale", positive(f"dqls{key}", *parameters) * np.float32(0.005)),
                                 ("zero", np.full(parameters, zero, dtype=dtype)))}},
         ("y", "y_h", "y_c"), tolerance=0.02, hidden_size=5,
         direction="bidirectional" if directions == 2 else "forward")

case("quantize_linear", "QuantizeLinear",
     {"x": normal("ql", 3, 4), "scale": Const(np.float32(0.02)), "zero": Const(np.int8(3))})
case("quantize_linear_axis", "QuantizeLinear",
     {"x": normal("ql1", 3, 4), "scale": Const(positive("ql1s", 3) * np.float32(0.02)),
      "zero": Const(np.array([3, 100, 128], dtype=np.uint8))},
     axis=0)
case("dequantize_linear", "DequantizeLinear",
     {"x": integers("dl", 0, 256, (3, 4), np.uint8), "scale": Const(np.float32(0.02)), "zero": Const(np.uint8(3))})
case("dequantize_linear_axis", "DequantizeLinear",
     {"x": integers("dl1", -128, 128, (3, 4), np.int8), "scale": Const(positive("dl1s", 4)),
      "zero": Const(np.array([3, 100, -128, 0], dtype=np.int8))},
     axis=1)


# ---- Writing ---------------------------------------------------------------------------------------------------------


def value_info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def output_info(name, types):
    """An output, of which onnxruntime infers the type unless it is among `types`."""
    return helper.make_tensor_value_info(name, types[name], None) if name in types else onnx.ValueInfoProto(name=name)


def model_of(operator, inputs, outputs, domain, types, attributes):
    """The model with this one node, and what to feed it."""
    feeds = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
    initializers = [value.tensor(name) for name, value in inputs.items() if isinstance(value, Const)]
    names = ["" if value is None else name for name, value in inputs.items()]
    node = helper.make_node(operator, names, list(outputs), name=operator, domain=domain, **attributes)
    graph = helper.make_graph(
        [node], operator, [value_info(name, array) for name, array in feeds.items()],
        [output_info(name, types) for name in outputs if name], initializers)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION), feeds


def write(directory, name):
    """Writes the case `name` and gives its entry for the manifest."""
    operator, inputs, outputs, domain, tolerance, types, attributes = CASES[name]
    model, feeds = model_of(operator, inputs, outputs, domain, types, attributes)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = dict(zip([output for output in outputs if output], session.run(None, feeds), strict=True))
    del model.graph.output[:]
    model.graph.output.extend(value_info(output, array) for output, array in results.items())
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    more = {} if tolerance is None else {"tolerance": tolerance}
    return save_case(folder, operator, [(feeds, results)], **more)


if __name__ == "__main__":
    Generator(CASES, write).main(__doc__)
