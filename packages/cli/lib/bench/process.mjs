// An engine of the benchmark, seen from the parent process.
//
// An engine is a program that answers lines of JSON: it reads `{ "command": ..., ... }` from its standard input, one at a
// time, and writes `{ "result": ... }` or `{ "error": "..." }` to file descriptor 3. The libraries under test may print to
// the standard streams what they like. The commands are those of types.d.mts.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Failure } from '../errors.mjs';

/** @typedef {import('./types.mjs').Commands} Commands */

/** Descriptor of the answers in the child. */
const ANSWERS = 3;

/** How much of the end of what an engine prints an error quotes, in characters. */
const QUOTED = 600;

/** An engine cannot do what was asked of it. */
export class EngineError extends Failure {
  name = 'EngineError';
}

/**
 * An engine in its own process, so that memory, threads and garbage of one do not touch another.
 *
 * @template {{ [K in keyof C]: (parameters: any) => Promise<any> }} [C=Commands] what it can be asked
 */
export class EngineProcess {
  #child;
  #answers;
  #printed = '';
  #ended;

  /**
   * @param {string} name of the engine, for messages
   * @param {string[]} command program and arguments
   */
  constructor(name, [program, ...args]) {
    this.name = name;
    this.#child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe', 'pipe'] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (text) => {
        this.#printed = (this.#printed + text).slice(-QUOTED);
      });
    }
    // The end of the answers tells about a child that has died; what is still written to it has no other reader.
    this.#child.stdin.on('error', () => {});
    this.#ended = new Promise((resolve) => {
      this.#child.on('error', (error) => resolve(error.message));
      this.#child.on('close', (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
    this.#answers = createInterface({ input: /** @type {import('node:stream').Readable} */ (this.#child.stdio[ANSWERS]) })[Symbol.asyncIterator]();
  }

  /** Process id of an engine that has started. */
  get pid() {
    return /** @type {number} */ (this.#child.pid);
  }

  /**
   * Asks for one thing and waits for it.
   *
   * @template {keyof C & string} K
   * @param {K} command
   * @param {Parameters<C[K]>[0]} [parameters]
   * @returns {Promise<Awaited<ReturnType<C[K]>>>} what the engine answers
   * @throws {EngineError} when the engine says that it cannot, or has ended
   */
  async request(command, parameters) {
    this.#child.stdin.write(`${JSON.stringify({ command, ...parameters })}\n`);
    const { value, done } = await this.#answers.next();
    if (done) {
      const how = await this.#ended;
      throw new EngineError(`${this.name} ended (${how}) during ${command}: ${this.#printed.trim()}`);
    }
    const { result, error } = JSON.parse(value);
    if (error !== undefined) {
      // Libraries print the reasons that their errors leave out.
      const [last] = this.#printed.trim().split('\n').slice(-1);
      throw new EngineError(`${this.name}: ${error}${last === '' ? '' : ` (${last})`}`);
    }
    return result;
  }

  /** Ends the process and waits until its memory is free. */
  async end() {
    if (this.#child.exitCode === null && this.#child.signalCode === null && this.#child.pid !== undefined) {
      this.#child.kill('SIGKILL');
      await once(this.#child, 'close');
    }
  }
}
