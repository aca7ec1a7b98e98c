"""PyTorch on a GPU, on a model that onnx2torch has converted: eager or compiled, float32 without TF32 or float16."""

import numpy as np
import onnx
import onnx2torch
import torch
from onnx2torch.node_converters.cast import OnnxCast


class Peer:
    def __init__(self, options):
        # TF32 has fewer bits than float32.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.device = torch.device(options.device)
        self.version = f"{torch.__version__} {options.precision}"
        model = onnx2torch.convert(onnx.load(options.model)).eval().to(self.device)
        if options.precision == "float16":
            model = halve(model)
        self.names = list(options.inputs)
        self.host = [self.tensor(array, options.precision) for array in options.inputs.values()]
        self.inputs = [tensor.to(self.device) for tensor in self.host]
        self.count = len(options.outputs)
        self.model = torch.compile(model) if options.compiled else model
        with torch.inference_mode():
            self.model(*self.inputs)  # compiles
        self.synchronize()

    @staticmethod
    def tensor(array, precision):
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.half() if precision == "float16" and tensor.dtype == torch.float32 else tensor

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def call(self, inputs):
        results = self.model(*inputs)
        return [results] if self.count == 1 else list(results)

    def run(self):
        with torch.inference_mode():
            return [result.cpu() for result in self.call([tensor.to(self.device) for tensor in self.host])]

    def burst(self, count):
        with torch.inference_mode():
            for _ in range(count):
                self.call(self.inputs)
        self.synchronize()

    def outputs(self):
        return [result.float().numpy() if result.dtype == torch.float16 else result.numpy() for result in self.run()]


def halve(model):
    """The model in float16, with what it casts to float32 inside."""
    for module in model.modules():
        if isinstance(module, OnnxCast) and module.torch_dtype == torch.float32:
            module.torch_dtype = torch.float16
    return model.half()


load = Peer
