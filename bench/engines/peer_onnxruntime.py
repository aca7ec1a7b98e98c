"""onnxruntime from Python, with the options that the engine of onnxruntime-node has."""

import onnxruntime


class Peer:
    version = onnxruntime.__version__

    def __init__(self, options):
        session = onnxruntime.SessionOptions()
        session.intra_op_num_threads = options.threads
        session.inter_op_num_threads = 1
        session.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        session.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(options.model, session, providers=["CPUExecutionProvider"])
        self.inputs = options.inputs
        self.names = options.outputs

    def run(self):
        return self.session.run(self.names, self.inputs)

    outputs = run


load = Peer
