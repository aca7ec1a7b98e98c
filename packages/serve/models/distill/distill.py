"""Makes the small embedding model: static vectors of word pieces that imitate all-MiniLM-L6-v2.

    python distill.py WORDNET_FOLDER MODEL_FOLDER

1. Each word piece goes through the teacher alone, as in Model2Vec. The vectors are projected on the main directions of the
   teacher's vectors, and weighted by how rare the piece is. A text's vector is the sum of its pieces' rows, of length 1.
2. The rows are trained: the cosines among texts of WordNet shall be the teacher's.
3. The rows are quantized to int8 and written as ONNX.

All random numbers are seeded; on the same kind of CPU the same bytes come out.
"""

import json
import pathlib
import sys

import numpy as np

import student
from quality import Sentences, model_vectors, quality
from teacher import FILES, Teacher, padded
from wordnet import read_texts

SEED = 1
WIDTH = 96
TEXTS = 22000

# Numbers of [CLS] and the like, which say nothing about a text; and of the first word, "the". Words follow in order of
# their frequency.
MARKS = [0, 101, 102, 103]
FIRST_WORD = 1996

# a in a / (a + p), the weight of a piece of probability p.
SMOOTHING = 1e-4

STEPS = 400
RATE = 3e-3

# Texts of a step: GROUPS times a text and its NEIGHBOURS, out of SAMPLE texts.
GROUPS, NEIGHBOURS, SAMPLE = 16, 32, 16000

# Of the softmax over cosines.
TEMPERATURE = 0.1


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main_directions(vectors, width):
    """An orthonormal basis [teacher's width, width] of the directions in which vectors are longest."""
    _, directions = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)
    return directions[:, ::-1][:, :width].astype(np.float32)


def frequency_weights(count):
    """Weights of pieces by Zipf's law: the probability of the n-th word is proportional to 1 / n."""
    probability = 1 / np.maximum(np.arange(count) - FIRST_WORD + 1, 1)
    probability /= probability.sum()
    return SMOOTHING / (SMOOTHING + probability)


def first_rows(vocabulary, basis):
    centered = vocabulary - vocabulary[FIRST_WORD:].mean(axis=0)
    rows = centered @ basis * frequency_weights(len(vocabulary))[:, None]
    rows[MARKS] = 0
    return rows.astype(np.float32)


class Optimizer:
    """Adam over those rows of a table that a step touches."""

    def __init__(self, rows):
        self.rows, self.step = rows, 0
        self.mean, self.square = np.zeros_like(rows), np.zeros_like(rows)

    def update(self, touched, gradient, rate):
        self.step += 1
        mean = self.mean[touched] = 0.9 * self.mean[touched] + 0.1 * gradient
        square = self.square[touched] = 0.98 * self.square[touched] + 0.02 * gradient**2
        scale = np.sqrt(square / (1 - 0.98**self.step)) + 1e-8
        self.rows[touched] -= rate * mean / (1 - 0.9**self.step) / scale


def softmax_of_others(cosines):
    """For each text, how much of its attention the others get."""
    scores = cosines / TEMPERATURE
    np.fill_diagonal(scores, -np.inf)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def related_texts(vectors, random):
    """Numbers of texts: some at random, and the closest ones to each out of a larger sample."""
    sample = random.permutation(len(vectors))[:SAMPLE]
    cosines = vectors[sample[:GROUPS]] @ vectors[sample].T
    return np.unique(sample[np.argpartition(-cosines, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]])


def gradient_of_sums(ids, rows, wanted, wanted_directions):
    """
    The gradient for the sum of each text's rows of three losses: squared differences of cosines between texts, cross entropy
    between the softmax of these, and the cosine to the teacher's projected vector.
    """
    sums = rows[ids].sum(axis=1)
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)
    vectors = sums / lengths
    cosines, target = vectors @ vectors.T, wanted @ wanted.T
    attention = softmax_of_others(cosines) - softmax_of_others(target)
    gradient = 40 / len(ids) * (cosines - target) @ vectors + (attention + attention.T) @ vectors - wanted_directions
    # Only what turns a vector changes the losses.
    return (gradient - vectors * (gradient * vectors).sum(axis=1, keepdims=True)) / lengths


def train(rows, lists, vectors, basis):
    """Trains `rows` in place on texts: their token lists, and the teacher's vectors."""
    random = np.random.default_rng(SEED)
    ids, directions, optimizer = padded(lists), unit(vectors @ basis), Optimizer(rows)
    for step in range(STEPS):
        batch = related_texts(vectors, random)
        pieces = ids[batch]
        pieces = pieces[:, : np.count_nonzero(pieces.any(axis=0))]
        gradient = gradient_of_sums(pieces, rows, vectors[batch], directions[batch])
        # Occurrences of tokens, those of the same one behind each other. Padding, 0, stays 0.
        text, place = np.nonzero(pieces)
        tokens = pieces[text, place]
        order = np.argsort(tokens, kind="stable")
        touched, first = np.unique(tokens[order], return_index=True)
        optimizer.update(touched, np.add.reduceat(gradient[text[order]], first), RATE * (1 - step / STEPS))


def main(wordnet, folder):
    teacher = Teacher()
    original = json.loads((FILES / "tokenizer.json").read_text(encoding="utf-8"))
    kept = student.kept_tokens(original)
    sentences = Sentences()
    reference = teacher.vectors(teacher.tokens(sentences.all))

    def write(title, rows):
        student.write(folder, student.renumbered(original, kept), rows[kept])
        print(title)
        for name, value in quality(sentences, model_vectors(folder, sentences.all), reference).items():
            print(f"    {value:.3f}  {name}", flush=True)

    lists = teacher.tokens(read_texts(wordnet, TEXTS, SEED))
    vocabulary = teacher.vectors([[token] for token in range(len(original["model"]["vocab"]))])
    vectors = teacher.vectors(lists)
    basis = main_directions(vectors, WIDTH)
    rows = first_rows(vocabulary, basis)
    write("before training", rows)
    train(rows, lists, vectors, basis)
    write("trained", rows)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
