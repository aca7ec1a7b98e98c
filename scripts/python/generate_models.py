#!/usr/bin/env python3
"""Language models with seeded random weights in the form in which they are published, for `npm run bench -- generate`.

    python generate_models.py OUT_DIR [--tiny | --large] [--types fp32,q4,...] [--gguf F16,...] [--explicit] [--no-whisper] [--seed 0]

    OUT_DIR/decoder   a decoder-only model of SmolLM-135M's sizes: config.json and onnx/*.onnx, a folder that Transformers.js
                      takes as a model, and the same weights as model-*.gguf
    OUT_DIR/whisper   an encoder-decoder of Whisper tiny's sizes: encoder_model.onnx and decoder_model_merged.onnx, which has
                      `use_cache_branch` and an If
    OUT_DIR/models.json   for every file that is run for one token, the bytes of weights that it reads

--tiny writes sizes for tests, --large a decoder of a billion weights, for `npm run bench -- store`. --explicit gives the decoder
positions as an input and biases, which its GGUF files cannot have.
"""
import argparse
import json
import logging
import os

import generate_decoder
import generate_whisper

DECODER = generate_decoder.Sizes(layers=30, hidden=576, heads=9, kv_heads=3, inner=1536, vocab=49152)
TINY_DECODER = generate_decoder.Sizes(layers=2, hidden=128, heads=4, kv_heads=2, inner=256, vocab=1024, head_size=32, context=8192)
LARGE_DECODER = generate_decoder.Sizes(layers=20, hidden=2048, heads=32, kv_heads=8, inner=8192, vocab=32000)
WHISPER = generate_whisper.Sizes(layers=4, hidden=384, heads=6, inner=1536, vocab=51865, frames=3000, positions=448)
TINY_WHISPER = generate_whisper.Sizes(layers=2, hidden=64, heads=2, inner=128, vocab=512, frames=64, positions=256)


def names_of(known):
    def parse(text):
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
        return names
    return parse


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--large", action="store_true")
    for name, known in (("--types", list(generate_decoder.TYPES)), ("--gguf", generate_decoder.GGUF_TYPES)):
        parser.add_argument(name, type=names_of(known), default=known)
    parser.add_argument("--explicit", action="store_true")
    parser.add_argument("--no-whisper", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.explicit and given.gguf:
        parser.error("--explicit goes with --gguf '' only")
    return given


def write_json(path, content):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)


def folder_of(out, name, config):
    folder = os.path.join(out, name)
    os.makedirs(os.path.join(folder, "onnx"), exist_ok=True)
    write_json(os.path.join(folder, "config.json"), config)
    write_json(os.path.join(folder, "generation_config.json"), {})
    return folder


def main():
    logging.disable(logging.INFO)  # onnxruntime and gguf tell about every node
    o = options()
    read = {}
    sizes = TINY_DECODER if o.tiny else LARGE_DECODER if o.large else DECODER
    folder = folder_of(o.out, "decoder", generate_decoder.config(sizes))
    decoder = generate_decoder.Decoder(sizes, o.seed, o.explicit)
    for name in o.types:
        print(f"decoder, {name}", flush=True)
        read[name] = generate_decoder.write_type(decoder, folder, name)
    for name in o.gguf:
        print(f"decoder, GGUF {name}", flush=True)
        read[name] = decoder.write_gguf(os.path.join(folder, f"model-{name}.gguf"), name)
    if not o.no_whisper:
        print("whisper", flush=True)
        sizes = TINY_WHISPER if o.tiny else WHISPER
        folder = folder_of(o.out, "whisper", generate_whisper.config(sizes))
        read["whisper"] = generate_whisper.write(sizes, o.seed, folder)
    write_json(os.path.join(o.out, "models.json"), {"bytesPerToken": read})


main()
