"""What the programs have in common that write small models with onnxruntime's results:

    DIRECTORY/<case>/model.onnx
    DIRECTORY/<case>/in_<name>.npy, out_<name>.npy      of the first run; of later ones in_<name>.<run>.npy, ...;
                                                        .json of strings and maps: { data, shape, dataType }
    DIRECTORY/manifest.json             a description of each case, and names, types and shapes of its runs, in order
"""

import argparse
import json
import os
import zlib

import numpy as np

IR_VERSION = 10


def rng(name):
    return np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))


def save_value(folder, name, value):
    """Writes an input or output; gives its entry for the manifest, without its name."""
    if isinstance(value, list):
        data, shape, dtype = [{str(key): float(number) for key, number in row.items()} for row in value], [len(value)], "map"
    else:
        value = np.asarray(value, order="C")
        if value.dtype.kind not in "OU":
            np.save(os.path.join(folder, f"{name}.npy"), value)
            return {"file": f"{name}.npy", "dtype": value.dtype.name, "shape": list(value.shape)}
        data, shape, dtype = [str(text) for text in value.flat], list(value.shape), "string"
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump({"data": data, "shape": shape, "dataType": dtype}, file)
    return {"file": f"{name}.json", "dtype": dtype, "shape": shape}


def save_case(folder, description, runs, **more):
    """Writes feeds and results of each run into `folder`; gives the case's entry for the manifest, with `more`."""
    entry = {"description": description, "runs": [], **more}
    for at, arrays in enumerate(runs):
        suffix = f".{at}" if at else ""
        run = {}
        for kind, key, values in zip(("in", "out"), ("inputs", "outputs"), arrays, strict=True):
            run[key] = []
            for name, value in values.items():
                run[key].append({"name": name, **save_value(folder, f"{kind}_{name.replace('/', '_')}{suffix}", value)})
        entry["runs"].append(run)
    return entry


class Generator:
    """A program that writes cases: `write(directory, name)` writes one and gives its entry for the manifest."""

    def __init__(self, names, write):
        self.names, self.write = list(names), write

    def main(self, description):
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("directory")
        parser.add_argument("--only", default="", help="names of cases, separated by commas")
        arguments = parser.parse_args()
        names = [name for name in arguments.only.split(",") if name] or self.names
        os.makedirs(arguments.directory, exist_ok=True)
        manifest, failures = {}, []
        for name in names:
            try:
                manifest[name] = self.write(arguments.directory, name)
            except Exception as error:  # every case is tried before the program fails
                failures.append(f"{name}: {str(error).strip()[:300]}")
        with open(os.path.join(arguments.directory, "manifest.json"), "w") as file:
            json.dump(manifest, file, indent=1)
        print(f"{len(manifest)} models in {arguments.directory}")
        if failures:
            raise SystemExit("\n".join(failures))
