#!/usr/bin/env python3
"""Writes models of one Resize or Upsample each, over modes, coordinates, types and sizes, with seeded inputs and expected
results:

    DIRECTORY/<case>/model.onnx
    DIRECTORY/<case>/in_<name>.npy, out_<name>.npy
    DIRECTORY/manifest.json             see model_cases.py

    python resize_models.py DIRECTORY [--only a,b]

The results are onnxruntime's. Where it contradicts the standard's text, or does not support a case, they are those of
`expected()`, which computes coordinates from sizes as fractions.
"""

import math
import os
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
from model_cases import IR_VERSION, Generator, rng, save_case
from onnx import TensorProto, helper, numpy_helper

TRANSFORMATIONS = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
SCALES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.2, 1.25, 1.5, 1.6, 2.0, 2.5, 3.0, 1 / 3, 2 / 3)
CASES = {}


def case(name, shape, dtype=np.float32, sizes=None, scales=None, roi=None, opset=19, free=False, operator="Resize", **attributes):
    """A case. Dimensions are free on demand."""
    assert name not in CASES, name
    CASES[name] = (shape, dtype, sizes, scales, roi, opset, free, operator, attributes)


# ---- Random cases ----------------------------------------------------------------------------------------------------


def length(random, most=24):
    return int(random.integers(1, most))


def scaled(size, scale):
    return math.floor(np.float32(size) * np.float32(scale))


def factors(random, count):
    """Usual scales, and any others."""
    return [float(random.choice(SCALES)) if random.random() < 0.7 else 0.1 + 3 * random.random() for _ in range(count)]


def target(random, shape, axes, by_scales):
    """Sizes or scales for `axes`; the other dimensions remain. With antialiasing, onnxruntime ignores scales that do not
    change the size, so there are none."""
    if by_scales:
        scales = factors(random, len(axes))
        sizes = [(shape[axis], scaled(shape[axis], scale)) for axis, scale in zip(axes, scales)]
        if all(after not in (0, before) for before, after in sizes):
            return {"scales": scales}
    return {"sizes": [length(random, 30) for _ in axes]}


def add_nearest():
    random = rng("nearest")
    for transformation in TRANSFORMATIONS:
        for rounding in ROUNDINGS:
            for at in range(8):
                by_scales = at % 2 == 1
                rank = int(random.integers(1, 6))
                shape = [length(random) for _ in range(rank)] if rank < 3 else [2] * (rank - 2) + [length(random), length(random)]
                axes = list(range(rank)) if rank < 3 else [rank - 2, rank - 1]
                dtype = random.choice([np.float32, np.float32, np.uint8, np.int8, np.int32])
                case(f"nearest_{transformation}_{rounding}_{at}", shape, dtype, **target(random, shape, axes, by_scales), axes=axes,
                     mode="nearest", coordinate_transformation_mode=transformation, nearest_mode=rounding,
                     opset=11 if transformation == "tf_half_pixel_for_nn" and rank > 2 else 19, free=at % 4 > 1)


def add_interpolated():
    random = rng("interpolated")
    types = [np.float32, np.float16, np.uint8, np.int8, np.int32]
    for mode in ("linear", "cubic"):
        for antialias in (0, 1):
            for transformation in TRANSFORMATIONS[:5]:
                for at, dtype in enumerate(types):
                    if mode == "cubic" and not antialias and np.dtype(dtype).kind in "iu":
                        continue  # onnxruntime cannot
                    shape, axes = [1, 2, length(random), length(random)], [2, 3]
                    outside = int(mode == "cubic" or antialias) * int(random.integers(0, 2))
                    case(f"{mode}_{antialias}_{transformation}_{np.dtype(dtype).name}", shape, dtype,
                         **target(random, shape, axes, random.random() < 0.5), axes=axes, mode=mode, antialias=antialias,
                         coordinate_transformation_mode=transformation, exclude_outside=outside, free=at % 2 == 1)
    for at in range(12):
        shape = [1, 2, length(random, 60), length(random, 60)]
        case(f"bytes_{at}", shape, np.uint8, sizes=[length(random, 60), length(random, 60)], axes=[2, 3],
             mode="cubic" if at % 3 == 2 else "linear", antialias=1, exclude_outside=at % 2, free=at % 4 > 1)
    for at, shape in enumerate(([9, 8], [2, 7, 6], [1, 2, 5, 4, 6])):
        axes = list(range(len(shape)))[-3 if len(shape) == 5 else -2:]
        case(f"linear_{len(shape)}_dimensions", shape, sizes=[length(random, 12) for _ in axes], axes=axes, mode="linear")
        case(f"linear_{len(shape)}_dimensions_scales", shape, **target(random, shape, axes, True), axes=axes, mode="linear")


def add_regions():
    random = rng("regions")
    for mode in ("nearest", "linear", "cubic"):
        for at in range(4):
            shape, axes = [1, 1, 4 + length(random, 9), 4 + length(random, 9)], [2, 3]
            start = [float(x) for x in np.round(random.random(2) * 0.6 - 0.2, 2)]
            roi = start + [float(x) for x in np.round(np.array(start) + 0.3 + random.random(2) * 0.6, 2)]
            sizes = [size + 1 + length(random, 6) for size in shape[2:]]
            case(f"region_{mode}_{at}", shape, sizes=sizes, axes=axes, roi=roi, mode=mode, extrapolation_value=-7.5,
                 coordinate_transformation_mode="tf_crop_and_resize")
    case("region_whole", [1, 1, 5, 6], sizes=[9, 4], axes=[2, 3], roi=[0, 0, 1, 1], mode="linear", extrapolation_value=9.0,
         coordinate_transformation_mode="tf_crop_and_resize")


def add_others():
    random = rng("others")
    for at, policy in enumerate(("not_larger", "not_smaller") * 4):
        for mode in ("nearest", "linear"):
            transformation = TRANSFORMATIONS[at % 3]
            shape = [1, 2, 3 + length(random), 3 + length(random)]
            case(f"policy_{policy}_{mode}_{at}", shape, sizes=[4 + length(random), 4 + length(random)], axes=[3, 2], mode=mode,
                 coordinate_transformation_mode=transformation, keep_aspect_ratio_policy=policy)
    for mode in ("nearest", "linear"):
        for at in range(3):
            shape = [1, 2, length(random, 9), length(random, 9)]
            scales = [1.0, 1.0] + [float(random.choice([1, 1.5, 2, 2.5, 3, 1.6])) for _ in range(2)]
            case(f"upsample_7_{mode}_{at}", shape, operator="Upsample", opset=7, scales=scales, mode=mode)
            case(f"upsample_9_{mode}_{at}", shape, operator="Upsample", opset=9, scales=scales, mode=mode, free=at == 1)
            larger = shape[:2] + [4 + size for size in shape[2:]]
            case(f"resize_10_{mode}_{at}", larger, opset=10, scales=scales[:2] + factors(random, 2), mode=mode, free=at == 1)
    # Exact positions.
    for rounding in ROUNDINGS:
        for before, after in ((7, 2), (21, 3), (14, 4), (10, 4), (9, 6)):
            case(f"exact_{rounding}_{before}_{after}", [before], sizes=[after], mode="nearest", nearest_mode=rounding,
                 coordinate_transformation_mode="asymmetric")
        case(f"product_{rounding}", [10, 20], scales=[0.7, 0.35], mode="nearest", nearest_mode=rounding,
             coordinate_transformation_mode="half_pixel_symmetric")


add_nearest()
add_interpolated()
add_regions()
add_others()

# ---- The standard's text ---------------------------------------------------------------------------------------------


def coordinate(x, before, after, factor, roi, transformation):
    """The coordinate in the input for place `x`, as a fraction."""
    center = (Fraction(x) + Fraction(1, 2)) / factor - Fraction(1, 2)
    last = before - 1
    if transformation == "half_pixel":
        return center
    if transformation == "half_pixel_symmetric":
        return Fraction(before, 2) * (1 - Fraction(after) / (factor * before)) + center
    if transformation == "pytorch_half_pixel":
        return center if after > 1 else Fraction(0)
    if transformation == "asymmetric":
        return Fraction(x) / factor
    if transformation == "align_corners":
        return Fraction(x * last, after - 1) if after > 1 else Fraction(0)
    if transformation == "tf_half_pixel_for_nn":
        return center + Fraction(1, 2)
    start, end = (Fraction(float(np.float32(side))) for side in roi)
    return last * (start * (after - 1 - x) + end * x) / (after - 1) if after > 1 else (start + end) * last / 2


def nearest(x, rounding):
    half = Fraction(1, 2)
    return {"round_prefer_floor": lambda: math.ceil(x - half), "round_prefer_ceil": lambda: math.floor(x + half),
            "floor": lambda: math.floor(x), "ceil": lambda: math.ceil(x)}[rounding]()


def weights(x, factor, attributes):
    """Elements and weights around the coordinate `x`."""
    cubic, a = attributes["mode"] == "cubic", -0.75
    stretch = min(1.0, float(factor)) if attributes.get("antialias") else 1.0
    support = (2 if cubic else 1) / stretch

    def weight(distance):
        d = abs(distance) * stretch
        if not cubic:
            return max(0.0, 1 - d)
        return ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else a * (((d - 5) * d + 8) * d - 4) if d < 2 else 0.0

    return [(at, weight(float(at - x))) for at in range(math.floor(x - support), math.ceil(x + support) + 1)]


def along(x, axis, after, factor, roi, attributes):
    """Resizes one dimension, in float64."""
    before, lines = x.shape[axis], np.moveaxis(x, axis, 0)
    transformation = attributes.get("coordinate_transformation_mode", "half_pixel")
    result = np.empty((after, *lines.shape[1:]))
    outside = np.zeros(after, bool)
    for place in range(after):
        at = coordinate(place, before, after, factor, roi, transformation)
        outside[place] = transformation == "tf_crop_and_resize" and not 0 <= at <= before - 1
        if attributes["mode"] == "nearest":
            index = nearest(at, attributes.get("nearest_mode", "round_prefer_floor"))
            result[place] = lines[min(max(index, 0), before - 1)]
            continue
        taps = weights(at, factor, attributes)
        if attributes.get("exclude_outside"):
            taps = [tap for tap in taps if 0 <= tap[0] < before]
        total = sum(weight for _, weight in taps) if attributes.get("antialias") or attributes.get("exclude_outside") else 1
        result[place] = sum(lines[min(max(index, 0), before - 1)] * (weight / total) for index, weight in taps)
    return np.moveaxis(result, 0, axis), outside


def expected(x, sizes, scales, roi, attributes):
    """The result of Resize by sizes, or by scales whose coordinates are not at exact positions."""
    y, regions, axes = x.astype(np.float64), [], attributes.get("axes", range(x.ndim))
    rounds, info = attributes.get("antialias"), np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
    for at, axis in reversed(list(enumerate(axes))):
        before = x.shape[axis]
        factor = Fraction(float(np.float32(scales[at]))) if scales else Fraction(sizes[at], before)
        after = scaled(before, scales[at]) if scales else sizes[at]
        region = (roi[at], roi[at + len(axes)]) if roi else (0, 1)
        if factor != 1 or region != (0, 1):
            y, outside = along(y, axis, after, factor, region, attributes)
            y = np.clip(np.floor(y + 0.5), info.min, info.max) if info and rounds else y
            regions.append((axis, outside))
    for axis, outside in regions:
        np.moveaxis(y, axis, 0)[outside] = attributes.get("extrapolation_value", 0.0)
    return np.clip(np.trunc(y), info.min, info.max).astype(x.dtype) if info else y.astype(x.dtype)


def follows_text(name, dtype, sizes, attributes):
    """Whether onnxruntime contradicts the standard's text, or does not support the case."""
    return (
        # Its coordinates are float32, and so at some exact positions not exact.
        (attributes["mode"] == "nearest" and sizes is not None and "keep_aspect_ratio_policy" not in attributes
         and attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize")
        # It ignores regions if the size does not change, and misses ends of regions.
        or attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        # It replaces negative results by 0.
        or (attributes.get("antialias") and dtype == np.int8)
    )


# ---- Writing ---------------------------------------------------------------------------------------------------------


def tolerance(dtype, attributes):
    """How far results may be off."""
    if attributes["mode"] == "nearest" or (dtype == np.uint8 and attributes.get("antialias")):
        return 0
    # Sums just below and at a whole number, cut off or rounded to it.
    return 1 if np.dtype(dtype).kind in "iu" else 2e-5 if dtype == np.float32 else 4e-3


def write(directory, name):
    """Writes the case `name` and gives its entry for the manifest."""
    shape, dtype, sizes, scales, roi, opset, free, operator, attributes = CASES[name]
    attributes = dict(attributes)
    random = rng(name)
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    low, high = (max(info.min, -1000), min(info.max, 1000)) if info else (0, 0)
    x = (random.integers(low, high + 1, shape) if info else random.standard_normal(shape)).astype(dtype)
    own = dict(attributes)
    axes = own.get("axes", list(range(len(shape))))
    all_sizes, all_scales, all_roi = sizes, scales, roi
    if opset < 18 and "axes" in attributes:
        # These opsets name all dimensions.
        del attributes["axes"]
        place = {axis: at for at, axis in enumerate(axes)}
        all_sizes = sizes and [sizes[place[axis]] if axis in place else shape[axis] for axis in range(len(shape))]
        all_scales = scales and [scales[place[axis]] if axis in place else 1.0 for axis in range(len(shape))]
    constants, inputs = [], ["x"]
    if opset >= 11:
        if opset < 13:
            all_roi, all_scales = all_roi or [], all_scales or []
        for given, element in ((all_roi, np.float32), (all_scales, np.float32), (all_sizes, np.int64)):
            inputs.append("" if given is None else f"c{len(inputs)}")
            if given is not None:
                constants.append(numpy_helper.from_array(np.array(given, dtype=element), inputs[-1]))
        while not inputs[-1]:
            inputs.pop()
    elif opset >= 9:
        inputs.append("scales")
        constants.append(numpy_helper.from_array(np.array(all_scales, dtype=np.float32), "scales"))
    else:
        attributes["scales"] = all_scales
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    declared = [f"d{axis}" for axis in range(len(shape))] if free else shape
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info("x", element, declared)],
                              [helper.make_tensor_value_info("y", element, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    if follows_text(name, np.dtype(dtype), sizes, own) and opset >= 11:
        y = expected(x, sizes, scales, roi, own)
    else:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        y = session.run(None, {"x": x})[0]
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    return save_case(folder, "a resizing", [({"x": x}, {"y": y})], tolerance=tolerance(np.dtype(dtype), own))


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(4)
    Generator(CASES, write).main(__doc__)
