"""How close vectors are to the teacher's: on pairs of sentences, and as a search over the texts of examples/semantic-search."""

import json
import pathlib

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from teacher import REPOSITORY, padded

HERE = pathlib.Path(__file__).parent


def read_json(name):
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def spearman(a, b):
    """Rank correlation. Equal values do not occur among these cosines."""
    return np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1]


class Sentences:
    """Pairs of sentences, texts, and questions to them, as one list."""

    def __init__(self):
        self.pairs = read_json("pairs.json")
        folder = REPOSITORY / "examples" / "semantic-search" / "texts"
        lines = [line for file in sorted(folder.glob("*.txt")) for line in file.read_text(encoding="utf-8").splitlines()]
        self.texts = [line for line in lines if line.strip()]
        self.questions = read_json("questions.json")
        self.all = [*(sentence for pair in self.pairs for sentence in pair), *self.texts, *self.questions]

    def split(self, vectors):
        """The vectors of the pairs, the texts and the questions."""
        ends = [2 * len(self.pairs), 2 * len(self.pairs) + len(self.texts)]
        return np.split(vectors, ends)


def best(queries, texts):
    """Numbers of the texts, the closest first. A text is no answer to itself."""
    scores = queries @ texts.T
    if queries is texts:
        np.fill_diagonal(scores, -2)
    return np.argsort(-scores, axis=1)


def quality(sentences, vectors, reference):
    """Numbers from 0 to 1: how well `vectors` agree with the teacher's vectors `reference` of the same sentences."""
    (pairs, texts, questions), (ref_pairs, ref_texts, ref_questions) = map(sentences.split, (vectors, reference))
    result = {"pairs, rank correlation": spearman((pairs[::2] * pairs[1::2]).sum(1), (ref_pairs[::2] * ref_pairs[1::2]).sum(1))}
    for name, found, wanted in (
        ("questions", best(questions, texts), best(ref_questions, ref_texts)),
        ("texts", best(texts, texts), best(ref_texts, ref_texts)),
    ):
        first = wanted[:, :1]
        result[f"{name}, same best"] = (found[:, :1] == first).mean()
        result[f"{name}, best among 5"] = (found[:, :5] == first).any(axis=1).mean()
        result[f"{name}, common of 10"] = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found[:, :10], wanted[:, :10])])
    return result


def model_vectors(folder, texts):
    """Vectors of texts by the files of a model, as a program would compute them."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = padded([encoding.ids for encoding in tokenizer.encode_batch(texts)])
    session = onnxruntime.InferenceSession(str(folder / "onnx" / "model.onnx"), providers=["CPUExecutionProvider"])
    return session.run(["sentence_embedding"], {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64)})[0]
