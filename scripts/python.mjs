// Virtual environments for the Python programs of this repository: created once under target/python from pinned
// requirements, by default scripts/python/NAME.txt, and recreated when those change.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { entry, Failure, isProgram, outputOf, root, run } from './process.mjs';
import { isAtLeast } from './setup.mjs';

/** The oldest Python for which the pinned packages have wheels. */
const OLDEST_PYTHON = '3.11';

/** Returns the first command that runs a recent enough Python. @throws {Failure} when there is none */
function findPython() {
  const seen = [];
  for (const command of ['python3', 'python']) {
    const version = outputOf(command, ['-c', 'import platform; print(platform.python_version())']);
    if (version !== undefined && isAtLeast(version, OLDEST_PYTHON)) {
      return command;
    }
    seen.push(version === undefined ? `${command} cannot be run` : `${command} is Python ${version}`);
  }
  throw new Failure(`This needs Python ${OLDEST_PYTHON} or newer: ${seen.join(', ')}.\nInstall it from your system's packages or from https://www.python.org.`);
}

/**
 * Creates or renews a virtual environment with the packages of a requirements list, if needed.
 *
 * @param {string} name
 * @param {{ requirements?: string, pip?: string[] }} [options] path of the list, `scripts/python/NAME.txt` when absent, and
 *   further arguments of `pip install`
 * @returns {Promise<string>} path of its python
 * @throws {Failure} without Python, venv or the package index
 */
export async function pythonEnvironment(name, { requirements = join(root, 'scripts', 'python', `${name}.txt`), pip = [] } = {}) {
  const directory = join(root, 'target', 'python', name);
  const python = join(directory, ...(process.platform === 'win32' ? ['Scripts', 'python.exe'] : ['bin', 'python']));
  // Written last: an interrupted installation is repeated.
  const stamp = join(directory, 'installed');
  const wanted = createHash('sha256').update(readFileSync(requirements)).digest('hex');
  if (existsSync(python) && existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) {
    return python;
  }
  const system = findPython();
  rmSync(directory, { recursive: true, force: true });
  await run('virtual environment for Python (Debian and Ubuntu have it in the package python3-venv)', system, ['-m', 'venv', directory]);
  await run('installation of Python packages', python, ['-m', 'pip', 'install', '--disable-pip-version-check', ...pip, '--requirement', requirements]);
  writeFileSync(stamp, wanted);
  return python;
}

/**
 * Runs a Python program in the environment `name`, with this process's standard streams.
 *
 * @param {string} step purpose of the program; names the step in the error
 * @param {string} name of the environment
 * @param {string[]} args path of the program and its arguments
 * @throws {Failure} when it cannot be started or fails
 */
export async function runPython(step, name, args) {
  await run(step, await pythonEnvironment(name), args);
}

if (isProgram(import.meta.url)) {
  await entry(async () => {
    const [name = 'models'] = process.argv.slice(2);
    console.log(await pythonEnvironment(name));
  });
}
