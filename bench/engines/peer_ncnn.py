"""ncnn in float32, on a model that pnnx has converted. Winograd and the other fast convolutions are on, as by default."""

import pathlib
import re

import ncnn
import numpy as np


class Peer:
    version = ncnn.__version__

    def __init__(self, options):
        folder = pathlib.Path(options.model)
        # The program that pnnx writes next to the model says which inputs lose their batch.
        program = (folder / "model_ncnn.py").read_text()
        batched = dict(re.findall(r'ex\.input\("(\w+)", (.*)\)', program))
        self.net = ncnn.Net()
        self.net.opt.num_threads = options.threads
        self.net.opt.use_fp16_packed = False
        self.net.opt.use_fp16_storage = False
        self.net.opt.use_fp16_arithmetic = False
        self.net.opt.use_bf16_storage = False
        for load, file in ((self.net.load_param, "model.ncnn.param"), (self.net.load_model, "model.ncnn.bin")):
            if load(str(folder / file)) != 0:
                raise RuntimeError(f"ncnn refuses {file}")
        # pnnx numbers inputs in the order of the graph.
        self.inputs = []
        for i, array in enumerate(options.inputs.values()):
            if array.dtype == np.int64:  # what ncnn has for indices
                array = array.astype(np.int32)
            keywords = {"batch_index": 0} if "batch_index=0" in batched.get(f"in{i}", "") else {}
            self.inputs.append((f"in{i}", np.ascontiguousarray(array), keywords))
        self.names = [f"out{i}" for i in range(len(options.outputs))]

    def run(self):
        results = []
        with self.net.create_extractor() as extractor:
            for name, array, keywords in self.inputs:
                if extractor.input(name, ncnn.Mat(array, **keywords).clone()) != 0:
                    raise RuntimeError(f"ncnn refuses the input {name}")
            for name in self.names:
                status, mat = extractor.extract(name)
                if status != 0:
                    raise RuntimeError(f"ncnn fails to compute {name}: {status}")
                results.append(np.array(mat))
        return results

    outputs = run


load = Peer
