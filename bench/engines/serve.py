"""The process of an engine written in Python: python serve.py MODULE.

Answers the same messages as packages/cli/lib/bench/serve.mjs. MODULE has a function `load(options)`, where
`options.inputs` are arrays by name. It returns an object with `version`, `run()` and `outputs()`, a list of arrays in the
order of `options.outputs`; engines on a GPU also have `burst(count)`, which runs `count` times on inputs that are already
on the GPU and waits only for the last run.
"""

import importlib
import json
import os
import sys
import time
import types

ANSWERS = 3


class Engine:
    """The commands."""

    def ready(self):
        return {}

    def load(self, inputs, **options):
        import numpy as np  # not before: memory is compared with that of an empty process

        arrays = {name: np.load(file) for name, file in inputs.items()}
        module = importlib.import_module(sys.argv[1])
        start = time.perf_counter()
        self.peer = module.load(types.SimpleNamespace(inputs=arrays, **options))
        return {"version": self.peer.version, "loadMs": (time.perf_counter() - start) * 1000}

    def run(self, warmup, iterations):
        run = self.peer.run
        for _ in range(warmup):
            run()
        start = time.perf_counter()
        for _ in range(iterations):
            run()
        return {"ms": (time.perf_counter() - start) * 1000}

    def times(self, iterations):
        run, ms = self.peer.run, []
        for _ in range(iterations):
            start = time.perf_counter()
            run()
            ms.append((time.perf_counter() - start) * 1000)
        return {"ms": ms}

    def burst(self, count):
        start = time.perf_counter()
        self.peer.burst(count)
        return {"ms": (time.perf_counter() - start) * 1000}

    def save(self, files):
        import numpy as np

        for file, array in zip(files, self.peer.outputs(), strict=True):
            np.save(file, array)
        return {}


def main():
    engine = Engine()
    with os.fdopen(ANSWERS, "w") as answers:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                reply = {"result": getattr(engine, request.pop("command"))(**request)}
            except Exception as error:  # whatever a library throws is the answer
                reply = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(reply), file=answers, flush=True)


main()
