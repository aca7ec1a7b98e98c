"""OpenVINO in float32, for latency, with arrays that are shared with it instead of copied."""

import importlib.metadata

import openvino


class Peer:
    version = importlib.metadata.version("openvino")

    def __init__(self, options):
        core = openvino.Core()
        model = core.compile_model(
            core.read_model(options.model),
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": "f32",
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": options.threads,
                "NUM_STREAMS": 1,
            },
        )
        self.request = model.create_infer_request()
        self.inputs = options.inputs
        self.names = options.outputs

    def run(self):
        return self.request.infer(self.inputs, share_inputs=True, share_outputs=True)

    def outputs(self):
        results = self.run()
        return [results[name] for name in self.names]


load = Peer
