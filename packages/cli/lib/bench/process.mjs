// An engine, as the parent process sees it.
//
// An engine is a program that answers lines of JSON: it reads `{ "command": ..., ... }` from its standard input, one
// line at a time, and writes `{ "result": ... }` or `{ "error": "...", "help": "..." }` to file descriptor 3; `help` is
// the address that explains an error with a code. The libraries under test may print anything to the standard streams.
// types.d.mts lists the commands.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Failure } from '../errors.mjs';

/** @typedef {import('./types.mjs').Commands} Commands */

/** File descriptor of the answers in the child. */
const ANSWERS = 3;

/** How much of the end of an engine's output an error quotes, in characters. */
const QUOTED = 600;

/** An engine cannot fulfil a request. */
export class EngineError extends Failure {
  name = 'EngineError';
}

/**
 * An engine in a process of its own: memory, threads and garbage of one engine do not affect another.
 *
 * @template {{ [K in keyof C]: (parameters: any) => Promise<any> }} [C=Commands] its commands
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
    // If the child has died, the end of its answers shows that; errors from writing to it add nothing.
    this.#child.stdin.on('error', () => {});
    this.#ended = new Promise((resolve) => {
      this.#child.on('error', (error) => resolve(error.message));
      this.#child.on('close', (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
    this.#answers = createInterface({ input: /** @type {import('node:stream').Readable} */ (this.#child.stdio[ANSWERS]) })[Symbol.asyncIterator]();
  }

  /** Process id of a started engine. */
  get pid() {
    return /** @type {number} */ (this.#child.pid);
  }

  /**
   * Sends one request and waits for the answer.
   *
   * @template {keyof C & string} K
   * @param {K} command
   * @param {Parameters<C[K]>[0]} [parameters]
   * @returns {Promise<Awaited<ReturnType<C[K]>>>} the engine's answer
   * @throws {EngineError} when the engine reports an error or has ended
   */
  async request(command, parameters) {
    this.#child.stdin.write(`${JSON.stringify({ command, ...parameters })}\n`);
    const { value, done } = await this.#answers.next();
    if (done) {
      const how = await this.#ended;
      throw new EngineError(`${this.name} ended (${how}) during ${command}: ${this.#printed.trim()}`);
    }
    const { result, error, help } = JSON.parse(value);
    if (error !== undefined) {
      // Libraries print reasons that their errors omit.
      const [last] = this.#printed.trim().split('\n').slice(-1);
      throw Object.assign(new EngineError(`${this.name}: ${error}${last === '' ? '' : ` (${last})`}`), { help });
    }
    return result;
  }

  /** Ends the process, and waits until its memory is free. */
  async end() {
    if (this.#child.exitCode === null && this.#child.signalCode === null && this.#child.pid !== undefined) {
      this.#child.kill('SIGKILL');
      await once(this.#child, 'close');
    }
  }
}
