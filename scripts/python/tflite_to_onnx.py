"""Translates a TensorFlow Lite model of convolutions to ONNX, as the models of examples/ were.

    python tflite_to_onnx.py MODEL.tflite OUT.onnx

The requirements are the packages `onnx` and `tflite`. Inputs and outputs keep their names, types and layouts, so pictures are
[1, height, width, channels]. Weights in float16 stay so. Operators are those of the models in the npm packages
@mediapipe/face_detection and @mediapipe/selfie_segmentation; any other one is an error.
"""

import pathlib
import struct
import sys

import numpy as np
import onnx
import tflite
from onnx import TensorProto, helper, numpy_helper

OPERATORS = {code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)}
TYPES = {tflite.TensorType.FLOAT32: np.float32, tflite.TensorType.FLOAT16: np.float16, tflite.TensorType.INT32: np.int32}
TO_CHANNELS_FIRST, TO_CHANNELS_LAST = [0, 3, 1, 2], [0, 2, 3, 1]


def options_of(operator, kind):
    """The table of an operator's options."""
    table = getattr(tflite, kind)()
    table.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
    return table


def same_padding(size, kernel, stride):
    """Zeros in front and behind along one axis, as TensorFlow's SAME has it."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class Translation:
    """Tensors of rank 4 are channels first inside, which is how ONNX computes; all others are as they were."""

    def __init__(self, model):
        self.model = model
        self.graph = model.Subgraphs(0)
        self.nodes, self.initializers = [], []
        self.constants = {}  # values by place, for weights

    def shape(self, place):
        return [int(size) for size in self.graph.Tensors(place).ShapeAsNumpy()]

    def value(self, place):
        """The elements of a constant, or None."""
        if place in self.constants:
            return self.constants[place]
        tensor = self.graph.Tensors(place)
        data = self.model.Buffers(tensor.Buffer())
        if data.DataLength() == 0:
            return None
        return np.frombuffer(data.DataAsNumpy().tobytes(), TYPES[tensor.Type()]).reshape(self.shape(place))

    def emit(self, kind, inputs, output, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name, value):
        """A weight in float32; one in float16 is stored so, and cast."""
        if value.dtype != np.float16:
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
            return name
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), f"{name}.half"))
        return self.emit("Cast", [f"{name}.half"], name, to=TensorProto.FLOAT)

    def name(self, place):
        """The name of an operand; a constant of rank 1 holds along channels."""
        value = self.value(place)
        if value is None:
            return f"t{place}"
        return self.constant(f"c{place}_{len(self.nodes)}", value.reshape(-1, 1, 1) if value.ndim == 1 else value)

    def activation(self, code, name, place):
        """The last node of an operator with a fused activation; `name` is what comes before it."""
        kinds = {tflite.ActivationFunctionType.NONE: "Identity", tflite.ActivationFunctionType.RELU: "Relu"}
        if code == tflite.ActivationFunctionType.RELU6:
            bounds = [self.constant(f"{name}.{bound}", np.float32(bound)) for bound in (0, 6)]
            return self.emit("Clip", [name, *bounds], f"t{place}")
        return self.emit(kinds[code], [name], f"t{place}")

    def window(self, options, x, kernel):
        """Attributes of a sliding window over the tensor `x`."""
        strides = [options.StrideH(), options.StrideW()]
        pads = [0, 0, 0, 0]
        if options.Padding() == tflite.Padding.SAME:
            along = [same_padding(*triple) for triple in zip(self.shape(x)[1:3], kernel, strides)]
            pads = [along[0][0], along[1][0], along[0][1], along[1][1]]
        return {"kernel_shape": kernel, "strides": strides, "pads": pads}

    def convolution(self, operator, inputs, output, depthwise):
        options = options_of(operator, "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions")
        weight = self.value(inputs[1]).transpose([3, 0, 1, 2] if depthwise else TO_CHANNELS_FIRST)
        window = self.window(options, inputs[0], list(weight.shape[2:]))
        parts = [self.constant(f"t{output}.{part}", value) for part, value in (("weight", weight), ("bias", self.value(inputs[2])))]
        if (options.DilationHFactor(), options.DilationWFactor()) != (1, 1):
            raise SystemExit("dilated convolutions are not translated")
        group = weight.shape[0] if depthwise else 1
        self.emit("Conv", [self.name(inputs[0]), *parts], f"t{output}.conv", group=group, **window)
        self.activation(options.FusedActivationFunction(), f"t{output}.conv", output)

    def transposed(self, operator, inputs, output):
        """MediaPipe's transposed convolution with bias; its options are (padding, stride along x, stride along y) in C."""
        _, along_x, along_y = struct.unpack("<iii", operator.CustomOptionsAsNumpy().tobytes()[:12])
        weight = self.value(inputs[1]).transpose([3, 0, 1, 2])
        if weight.shape[2:] != (along_y, along_x):
            raise SystemExit("transposed convolutions whose windows overlap are not translated")
        parts = [self.constant(f"t{output}.{part}", value) for part, value in (("weight", weight), ("bias", self.value(inputs[2])))]
        self.emit("ConvTranspose", [self.name(inputs[0]), *parts], f"t{output}", strides=[along_y, along_x])

    def pool(self, operator, kind, inputs, output):
        options = options_of(operator, "Pool2DOptions")
        window = self.window(options, inputs[0], [options.FilterHeight(), options.FilterWidth()])
        self.emit(kind, [f"t{inputs[0]}"], f"t{output}.pool", **window)
        self.activation(options.FusedActivationFunction(), f"t{output}.pool", output)

    def resize(self, operator, inputs, output):
        options = options_of(operator, "ResizeBilinearOptions")
        modes = {(True, False): "align_corners", (False, True): "half_pixel", (False, False): "asymmetric"}
        n, height, width, channels = self.shape(output)
        sizes = self.constant(f"t{output}.sizes", np.array([n, channels, height, width], np.int64))
        mode = modes[options.AlignCorners(), options.HalfPixelCenters()]
        self.emit("Resize", [f"t{inputs[0]}", "", "", sizes], f"t{output}", mode="linear", coordinate_transformation_mode=mode)

    def reshape(self, inputs, output):
        name, shape = f"t{inputs[0]}", self.shape(output)
        if len(self.shape(inputs[0])) == 4:
            name = self.emit("Transpose", [name], f"t{output}.last", perm=TO_CHANNELS_LAST)
        if len(shape) == 4:
            raise SystemExit("a reshape to four dimensions is not translated")
        self.emit("Reshape", [name, self.constant(f"t{output}.shape", np.array(shape, np.int64))], f"t{output}")

    def translate(self, operator):
        opcode = self.model.OperatorCodes(operator.OpcodeIndex())
        kind = OPERATORS[max(opcode.BuiltinCode(), opcode.DeprecatedBuiltinCode())]
        inputs, output = [int(place) for place in operator.InputsAsNumpy()], operator.Outputs(0)
        binary = {"ADD": "Add", "MUL": "Mul"}
        unary = {"RELU": "Relu", "LOGISTIC": "Sigmoid", "HARD_SWISH": "HardSwish"}
        if kind == "DEQUANTIZE":
            self.constants[output] = self.value(inputs[0])
        elif kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            self.convolution(operator, inputs, output, depthwise=kind != "CONV_2D")
        elif kind == "CUSTOM" and opcode.CustomCode() == b"Convolution2DTransposeBias":
            self.transposed(operator, inputs, output)
        elif kind in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
            self.pool(operator, "MaxPool" if kind == "MAX_POOL_2D" else "AveragePool", inputs, output)
        elif kind in unary:
            self.emit(unary[kind], [f"t{inputs[0]}"], f"t{output}")
        elif kind in binary:
            options = options_of(operator, f"{binary[kind]}Options")
            self.emit(binary[kind], [self.name(place) for place in inputs], f"t{output}.sum")
            self.activation(options.FusedActivationFunction(), f"t{output}.sum", output)
        elif kind == "PAD":
            pads = self.value(inputs[1])[TO_CHANNELS_FIRST].T.reshape(-1).astype(np.int64)
            self.emit("Pad", [f"t{inputs[0]}", self.constant(f"t{output}.pads", pads)], f"t{output}")
        elif kind == "RESIZE_BILINEAR":
            self.resize(operator, inputs, output)
        elif kind == "RESHAPE":
            self.reshape(inputs, output)
        elif kind == "CONCATENATION" and len(self.shape(output)) < 4:
            axis = options_of(operator, "ConcatenationOptions").Axis()
            self.emit("Concat", [f"t{place}" for place in inputs], f"t{output}", axis=axis)
        else:
            raise SystemExit(f"the operator {kind} is not translated")

    def onnx(self, name):
        """The whole model."""

        def info(place):
            tensor = self.graph.Tensors(place)
            return helper.make_tensor_value_info(tensor.Name().decode(), TensorProto.FLOAT, self.shape(place))

        inputs = [int(place) for place in self.graph.InputsAsNumpy()]
        outputs = [int(place) for place in self.graph.OutputsAsNumpy()]
        for place in inputs:
            self.emit("Transpose", [info(place).name], f"t{place}", perm=TO_CHANNELS_FIRST)
        for place in range(self.graph.OperatorsLength()):
            self.translate(self.graph.Operators(place))
        for place in outputs:
            last = {"perm": TO_CHANNELS_LAST} if len(self.shape(place)) == 4 else {}
            self.emit("Transpose" if last else "Identity", [f"t{place}"], info(place).name, **last)
        graph = helper.make_graph(
            self.nodes, name, [info(place) for place in inputs], [info(place) for place in outputs], initializer=self.initializers
        )
        opset = helper.make_opsetid("", 17)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="webnn-node examples", ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def main(source, out):
    model = tflite.Model.GetRootAsModel(source.read_bytes(), 0)
    out.write_bytes(Translation(model).onnx(source.stem).SerializeToString())
    print(f"{out}: {out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:3]))
