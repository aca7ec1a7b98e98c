// Models in ncnn's format, because ncnn does not read ONNX: pnnx converts them once, under target/bench/ncnn.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root } from '../scripts/process.mjs';

const DIRECTORY = join(root, 'target', 'bench', 'ncnn');

/** pnnx never finishes some models. */
const TIMEOUT_MS = 120_000;

/** The files of pnnx that ncnn and its engine need. */
const KEPT = ['model.ncnn.param', 'model.ncnn.bin', 'model_ncnn.py'];

/** Returns the path of the converter in the Python package; the package's launcher imports PyTorch. */
const converter = (/** @type {string} */ python) => {
  const libraries = join(dirname(dirname(python)), 'lib');
  const [version] = readdirSync(libraries);
  return join(libraries, version, 'site-packages', 'pnnx', 'pnnx');
};

/**
 * Converts a model.
 *
 * @param {string} python of the environment with pnnx
 * @param {import('./models.mjs').BenchModel} model
 * @returns {string} the folder of the result
 * @throws {Error} when pnnx cannot
 */
export function convertForNcnn(python, { name, file }) {
  const { size, mtimeMs } = statSync(file);
  const directory = join(DIRECTORY, `${name}-${size}-${Math.round(mtimeMs)}`);
  if (existsSync(directory)) {
    return directory;
  }
  const temporary = join(DIRECTORY, `.${name}-${process.pid}`);
  rmSync(temporary, { recursive: true, force: true });
  mkdirSync(temporary, { recursive: true });
  try {
    symlinkSync(file, join(temporary, 'model.onnx'));
    const { status, signal, error } = spawnSync(converter(python), ['model.onnx', 'fp16=0'], { cwd: temporary, timeout: TIMEOUT_MS });
    if (status !== 0) {
      throw new Error(`pnnx cannot convert it: ${error?.message ?? (signal === null ? `exit code ${status}` : signal)}`);
    }
    const missing = KEPT.find((part) => !existsSync(join(temporary, part)));
    if (missing !== undefined) {
      throw new Error(`pnnx cannot convert it: it writes no ${missing}`);
    }
    for (const written of readdirSync(temporary)) {
      if (!KEPT.includes(written)) {
        rmSync(join(temporary, written));
      }
    }
    renameSync(temporary, directory);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
  return directory;
}
