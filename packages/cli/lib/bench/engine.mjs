// An engine of the benchmark, seen from the parent process.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { packTensors, unpackTensors } from '../elements.mjs';
import { Failure } from '../errors.mjs';

const WORKER = fileURLToPath(new URL('./worker.mjs', import.meta.url));

/** An engine in its own process, so that memory, threads and garbage of one do not touch another. */
export class Engine {
  #child;
  /** @type {Map<number, { resolve: (result: any) => void, reject: (error: Error) => void }>} */
  #waiting = new Map();
  #nextId = 0;

  /** @param {'webnn-node' | 'onnxruntime-node'} name */
  constructor(name) {
    this.name = name;
    // Standard output belongs to the result of the command.
    this.#child = fork(WORKER, { serialization: 'advanced', stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.#child.on('message', (/** @type {any} */ { id, result, error }) => this.#settle(id, result, error));
    this.#child.on('error', (error) => this.#fail(error.message));
    this.#child.on('exit', (code, signal) => this.#fail(signal === null ? `exit code ${code}` : signal));
  }

  /**
   * @param {number} id
   * @param {any} result
   * @param {{ message: string, stack?: string } | undefined} error
   */
  #settle(id, result, error) {
    const { resolve, reject } = /** @type {{ resolve: (result: any) => void, reject: (error: Error) => void }} */ (this.#waiting.get(id));
    this.#waiting.delete(id);
    if (error === undefined) resolve(result);
    else reject(Object.assign(new Failure(`${this.name}: ${error.message}`), { stack: error.stack }));
  }

  /** @param {string} how */
  #fail(how) {
    for (const { reject } of this.#waiting.values()) reject(new Failure(`the process of ${this.name} ended: ${how}`));
    this.#waiting.clear();
  }

  /**
   * @param {string} command
   * @param {object} [parameters]
   * @returns {Promise<any>}
   */
  #request(command, parameters = {}) {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, command, ...parameters }, (error) => {
        if (error !== null && this.#waiting.delete(id)) reject(new Failure(`${this.name}: ${error.message}`, { cause: error }));
      });
    });
  }

  /**
   * Loads the model.
   * @param {object} options as the engine's `load` takes them
   * @param {import('../types.mjs').Tensors} tensors by input name
   * @returns {Promise<{ version: string, processor: string, loadMs: number, resident: number }>} `resident`: bytes of the
   *   process afterwards
   */
  load(options, tensors) {
    return this.#request('load', { name: this.name, options, inputs: packTensors(tensors) });
  }

  /**
   * Runs `count` times.
   * @param {number} count
   * @returns {Promise<number[]>} milliseconds each
   */
  async run(count) {
    return Array.from((await this.#request('run', { count })).samples);
  }

  /** Runs once more. @returns {Promise<import('../types.mjs').Tensors>} */
  async outputs() {
    const { tensors } = await this.#request('outputs');
    return unpackTensors(tensors);
  }

  /** @returns {Promise<{ peak: number, cpuMicroseconds: number }>} peak resident bytes and CPU time of the process */
  usage() {
    return this.#request('usage');
  }

  /** Ends the process. */
  end() {
    this.#child.removeAllListeners('exit');
    this.#child.kill();
  }
}
