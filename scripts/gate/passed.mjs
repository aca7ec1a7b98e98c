// Results of the gate that still hold: steps that have passed with the same files, tools and environment.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { outputOf, root } from '../process.mjs';
import { OUTSIDE, STEPS } from './steps.mjs';

/** @typedef {{ key: string, ended: string, seconds: number }} Passed */

const digest = (/** @type {unknown} */ value) => createHash('sha256').update(JSON.stringify(value)).digest('hex');

/** Versions and variables on which results can depend, whatever the step. */
function surroundings() {
  const environment = Object.entries(process.env).filter(([name]) => /^(WEBNN_|CARGO|RUST|NODE_OPTIONS$|CI$)/.test(name));
  const tools = [
    ['rustc', '--version', '--verbose'],
    ['cargo', '--version'],
    ['python3', '--version'],
    ['dpkg-query', '--show'],
  ].map(([command, ...args]) => outputOf(command, args));
  return [process.version, process.platform, process.arch, cpus()[0]?.model, tools, environment.sort()];
}

/**
 * The files of a folder that is not in the repository: what changes them changes a size or a time.
 * @param {string} folder
 */
const listing = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => {
      const { size, mtimeMs } = statSync(join(folder, name));
      return [name, size, mtimeMs];
    });

export class PassedSteps {
  /** @type {Map<string, string | undefined>} digests of files by path */
  #files = new Map();
  #surroundings = surroundings();
  /** @type {Record<string, Passed>} */
  #passed;
  #folder;
  #store;

  /** @param {string} [folder] the repository @param {string} [store] the file of the results */
  constructor(folder = root, store = join(folder, 'target', 'gate', 'passed.json')) {
    this.#folder = folder;
    this.#store = store;
    this.#passed = existsSync(store) ? JSON.parse(readFileSync(store, 'utf8')) : {};
  }

  /** @param {string} path */
  #digestOf(path) {
    if (!this.#files.has(path)) {
      const file = join(this.#folder, path);
      this.#files.set(path, existsSync(file) && statSync(file).isFile() ? digest(readFileSync(file, 'base64')) : undefined);
    }
    return this.#files.get(path);
  }

  /**
   * Everything that decides about the result of a step, as one string.
   *
   * @param {import('./steps.mjs').Step} step
   * @param {import('./steps.mjs').Step[]} [steps] all known steps
   * @returns {string | undefined} `undefined` outside of a checkout of Git
   */
  keyOf(step, steps = STEPS) {
    const { name, run, env, needs = [], inputs = ['.'], outside = [] } = step;
    const patterns = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...inputs];
    const { status, stdout } = spawnSync('git', patterns, { cwd: this.#folder, encoding: 'utf8', maxBuffer: 64 << 20 });
    if (status !== 0) return undefined;
    const files = [...new Set(stdout.split('\0'))].sort().map((path) => [path, this.#digestOf(path)]);
    const others = steps.filter((other) => needs.includes(other.name)).map((other) => this.keyOf(other, steps));
    const data = outside.map((one) => listing(join(this.#folder, OUTSIDE[one])));
    return digest([name, run.map(String), env, files, others, data, this.#surroundings]);
  }

  /**
   * The earlier result of a step, if it still holds.
   *
   * @param {import('./steps.mjs').Step} step
   * @param {string | undefined} key
   * @returns {Passed | undefined}
   */
  find({ name, always = false, products = [] }, key) {
    const passed = this.#passed[name];
    const holds = !always && key !== undefined && passed?.key === key && products.every((path) => existsSync(join(this.#folder, path)));
    return holds ? passed : undefined;
  }

  /**
   * Keeps a result, or forgets an earlier one where a step has failed.
   *
   * @param {string} name
   * @param {Passed | undefined} passed
   */
  keep(name, passed) {
    const { [name]: _, ...others } = this.#passed;
    this.#passed = passed === undefined ? others : { ...others, [name]: passed };
    mkdirSync(dirname(this.#store), { recursive: true });
    writeFileSync(this.#store, `${JSON.stringify(this.#passed, null, 2)}\n`);
  }
}
