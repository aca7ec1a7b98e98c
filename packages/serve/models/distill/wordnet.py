"""The texts that the small model learns from: definitions and example sentences of WordNet 3.1."""

import re

FILES = ("data.noun", "data.verb", "data.adj", "data.adv")


def synset(line):
    """The texts of one line: `words: definition`, then its example sentences."""
    data, gloss = line.split("| ", 1)
    fields = data.split(" ")
    count = int(fields[3], 16)
    words = [re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]
    definition = re.split(r';? ?"', gloss, maxsplit=1)[0].strip()
    if definition:
        yield f"{', '.join(words)}: {definition}"
    for example in re.findall(r'"([^"]+)"', gloss):
        # Shorter ones are phrases, which say little.
        if example.count(" ") >= 3:
            yield example


def shuffle(values, seed):
    """Shuffles a list in place, on every machine and with every version of Python alike."""
    state = seed
    for i in range(len(values) - 1, 0, -1):
        state = (state * 1664525 + 1013904223) % 2**32
        other = state * (i + 1) >> 32
        values[i], values[other] = values[other], values[i]


def read_texts(folder, count, seed):
    """`count` texts out of the files of the folder, the same ones for the same seed."""
    lines = [line for name in FILES for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    # Lines of the license begin with a space.
    texts = [text for line in lines if line[0] != " " for text in synset(line)]
    shuffle(texts, seed)
    return texts[:count]
