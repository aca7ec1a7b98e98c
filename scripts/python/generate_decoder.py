"""A decoder-only language model in the form in which most are published for onnxruntime, and as GGUF for llama.cpp.

The graph is that of onnxruntime-genai's model builder: `input_ids`, `attention_mask` and a growing cache
`past_key_values.N.{key,value}` in, `logits` and `present.N.{key,value}` out; GroupQueryAttention with the rotary embedding
inside, (Skip)SimplifiedLayerNormalization, MatMul or MatMulNBits. The embeddings stay in floats, and lm_head has weights of
its own. As other exports have it, `explicit` graphs take `position_ids`, and have nodes for the rotary embedding, and biases.
"""
import os
from dataclasses import dataclass

import gguf
import numpy as np
from generate_graph import INT32, INT64, Graph, Weights, bytes_per_token, quantize, save, value

EPSILON = 1e-5
THETA = 10000.0


@dataclass
class Sizes:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    vocab: int
    head_size: int = 64
    context: int = 2048


# Name: float16 or not, bits of weights, level of accuracy, file as Transformers.js finds it.
TYPES = {
    "fp32": (False, None, None, "model.onnx"),
    "fp16": (True, None, None, "model_fp16.onnx"),
    "q8": (False, 8, None, "model_quantized.onnx"),
    "q4": (False, 4, None, "model_q4.onnx"),
    "q4-level4": (False, 4, 4, "model_level4_q4.onnx"),
    "q4f16": (True, 4, None, "model_q4f16.onnx"),
}
GGUF_TYPES = ["F16", "Q8_0", "Q4_0"]


class Decoder:
    def __init__(self, sizes, seed, explicit=False):
        self.sizes, self.weights, self.explicit = sizes, Weights(seed), explicit

    def products(self):
        """Depth, columns and gain of the products of a layer, by name."""
        s = self.sizes
        wide, narrow = s.heads * s.head_size, s.kv_heads * s.head_size
        return {"q": (s.hidden, wide, 1), "k": (s.hidden, narrow, 1), "v": (s.hidden, narrow, 1), "o": (wide, s.hidden, 0.5),
                "gate": (s.hidden, s.inner, 1), "up": (s.hidden, s.inner, 1), "down": (s.inner, s.hidden, 0.5)}

    def product(self, layer, name):
        return self.weights.matrix(f"layers.{layer}.{name}", *self.products()[name])

    def norm(self, name):
        return self.weights.norm(name, self.sizes.hidden)

    def embeddings(self):
        return self.weights.draw("embed_tokens", (self.sizes.vocab, self.sizes.hidden), 0.5)

    def head(self):
        return self.weights.matrix("lm_head", self.sizes.hidden, self.sizes.vocab, 3)

    def onnx(self, dtype):
        s, g = self.sizes, Graph(dtype)
        inputs = [value("input_ids", INT64, ["batch_size", "sequence_length"]),
                  value("attention_mask", INT64, ["batch_size", "total_sequence_length"])]
        if self.explicit:
            inputs.append(value("position_ids", INT64, ["batch_size", "sequence_length"]))
        outputs = [value("logits", g.type, ["batch_size", "sequence_length", s.vocab])]

        angle = np.arange(s.context)[:, None] / THETA ** (np.arange(0, s.head_size, 2) / s.head_size)[None]
        rotary = [g.weight("cos_cache", np.cos(angle)), g.weight("sin_cache", np.sin(angle))]
        axis, index = g.constant("axis_1", np.array([1])), g.constant("index_1", np.array(1))
        total = g.node("ReduceSum", ["attention_mask", axis], "mask_sum", keepdims=0)
        last = g.node("Cast", [g.node("Sub", [total, axis], "mask_last")], "seqlens_k", to=INT32)
        shape = g.node("Shape", ["attention_mask"], "mask_shape")
        longest = g.node("Cast", [g.node("Gather", [shape, index], "mask_total", axis=0)], "total_length", to=INT32)

        def product(x, layer, name):
            hint = f"layers.{layer}.{name}"
            return g.node("MatMul", [x, g.weight(hint + ".weight", self.product(layer, name))], hint)

        def with_position(y, layer, name, heads):
            hint = f"layers.{layer}.{name}"
            biased = g.node("Add", [y, g.weight(hint + ".bias", self.weights.draw(hint + ".bias", heads * s.head_size, 0.1))], hint + ".biased")
            return biased if name == "v" else g.node("RotaryEmbedding", [biased, "position_ids", *rotary], hint + ".rotary", num_heads=heads)

        def add_and_norm(skip, y, name, mid):
            outputs = [name] if mid is None else [name, "", "", mid]
            return g.node("SkipSimplifiedLayerNormalization", [skip, y, g.weight(name + ".weight", self.norm(name))], name,
                          outputs, epsilon=EPSILON)

        skip = g.node("Gather", [g.weight("embed_tokens.weight", self.embeddings()), "input_ids"], "embed_tokens", axis=0)
        first = "layers.0.input_norm"
        x = g.node("SimplifiedLayerNormalization", [skip, g.weight(first + ".weight", self.norm(first))], first,
                   axis=-1, epsilon=EPSILON, stash_type=1)
        for i in range(s.layers):
            p = f"layers.{i}."
            q, k, v = (product(x, i, name) for name in "qkv")
            if self.explicit:
                q, k, v = (with_position(y, i, name, heads) for y, name, heads in ((q, "q", s.heads), (k, "k", s.kv_heads), (v, "v", s.kv_heads)))
            past, present = ([f"{side}.{i}.{kind}" for kind in ("key", "value")] for side in ("past_key_values", "present"))
            for names, values, length in ((past, inputs, "past_sequence_length"), (present, outputs, "total_sequence_length")):
                values += [value(name, g.type, ["batch_size", s.kv_heads, length, s.head_size]) for name in names]
            y = g.node("GroupQueryAttention", [q, k, v, *past, last, longest, *([] if self.explicit else rotary)], p + "attention",
                       [p + "attention", *present], num_heads=s.heads, kv_num_heads=s.kv_heads,
                       scale=float(1 / np.sqrt(s.head_size)), do_rotary=0 if self.explicit else 1)
            x = add_and_norm(skip, product(y, i, "o"), p + "post_norm", p + "mid")
            gate, up = product(x, i, "gate"), product(x, i, "up")
            silu = g.node("Mul", [gate, g.node("Sigmoid", [gate], p + "sigmoid")], p + "silu")
            y = product(g.node("Mul", [silu, up], p + "gated"), i, "down")
            is_last = i == s.layers - 1
            x = add_and_norm(p + "mid", y, norm_after(i, s.layers), None if is_last else p + "out")
            skip = p + "out"
        g.node("MatMul", [x, g.weight("lm_head.weight", self.head())], "lm_head", ["logits"])
        return g.model(inputs, outputs)

    def write_gguf(self, path, kind):
        """Writes the file, and gives the bytes that are read for one token."""
        s = self.sizes
        quantized = gguf.GGMLQuantizationType[kind]
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{kind}"])
        writer.add_context_length(s.context)
        writer.add_embedding_length(s.hidden)
        writer.add_block_count(s.layers)
        writer.add_feed_forward_length(s.inner)
        writer.add_head_count(s.heads)
        writer.add_head_count_kv(s.kv_heads)
        writer.add_rope_dimension_count(s.head_size)
        writer.add_rope_freq_base(THETA)
        writer.add_layer_norm_rms_eps(EPSILON)
        writer.add_vocab_size(s.vocab)
        add_gguf_tokens(writer, tokens(s.vocab))
        read = 0

        def matrix(name, rows):
            data = gguf.quantize(rows, quantized)
            writer.add_tensor(name, data, raw_dtype=quantized)
            return data.nbytes

        def vector(name, data):
            writer.add_tensor(name, data.astype(np.float32))
            return data.nbytes

        matrix("token_embd.weight", self.embeddings())
        for i in range(s.layers):
            p = f"blk.{i}."
            for name, ours in GGUF_PRODUCTS.items():
                rows = np.ascontiguousarray(self.product(i, ours).T)
                heads = {"q": s.heads, "k": s.kv_heads}.get(ours)
                read += matrix(f"{p}{name}.weight", rows if heads is None else in_pairs(rows, heads))
            read += vector(p + "attn_norm.weight", self.norm("layers.0.input_norm" if i == 0 else norm_after(i - 1, s.layers)))
            read += vector(p + "ffn_norm.weight", self.norm(f"layers.{i}.post_norm"))
        read += vector("output_norm.weight", self.norm(norm_after(s.layers - 1, s.layers)))
        read += matrix("output.weight", np.ascontiguousarray(self.head().T))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return read


def norm_after(layer, layers):
    """The name of the normalization behind a layer."""
    return "final_norm" if layer == layers - 1 else f"layers.{layer + 1}.input_norm"


GGUF_PRODUCTS = {"attn_q": "q", "attn_k": "k", "attn_v": "v", "attn_output": "o", "ffn_gate": "gate", "ffn_up": "up", "ffn_down": "down"}


def in_pairs(rows, heads):
    """llama.cpp turns neighboring rows of a head, where others turn those that are half a head apart."""
    return np.ascontiguousarray(rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape))


def tokens(size):
    """All bytes, words that fill the vocabulary, and the end: tokens of a byte-level BPE without merges."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    names = [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
    return [*names, *(f"<x{i}>" for i in range(len(names), size - 1)), "<|endoftext|>"]


def add_gguf_tokens(writer, names):
    end = len(names) - 1
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(names)
    writer.add_token_types([gguf.TokenType.NORMAL] * end + [gguf.TokenType.CONTROL])
    writer.add_token_merges(["a b"])  # llama.cpp refuses an empty list
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)


def config(s):
    # No token ends a text: every run has as many tokens as it is asked for.
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": s.hidden, "intermediate_size": s.inner,
            "num_hidden_layers": s.layers, "num_attention_heads": s.heads, "num_key_value_heads": s.kv_heads,
            "head_dim": s.head_size, "vocab_size": s.vocab, "max_position_embeddings": s.context, "rms_norm_eps": EPSILON,
            "rope_theta": THETA, "tie_word_embeddings": False}


def write_type(decoder, folder, name):
    """Writes one type, and gives the bytes that are read for one token."""
    half, bits, level, file = TYPES[name]
    model = decoder.onnx(np.float16 if half else np.float32)
    if bits is not None:
        model = quantize(model, bits, level)
    read = bytes_per_token(model)
    save(model, os.path.join(folder, "onnx", file), external=True)
    return read
