// Runs processes of two engines in turns: changes of the machine's state affect both.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/**
 * Takes samples, each in a process of its own.
 *
 * @template Sample
 * @param {[string, string]} engines
 * @param {(engine: string) => { worker: string, parameters: object }} processOf returns the program of a sample, which
 *   prints it as JSON, and its argument
 * @param {number} rounds
 * @param {(done: number) => void} advance called with the number of samples that are done
 * @returns {Promise<Record<string, Sample[]>>} by engine
 * @throws {Error} with the program's output when it fails
 */
export async function sampleInTurns([first, second], processOf, rounds, advance) {
  let done = 0;
  /** @type {Record<string, Sample[]>} */
  const taken = { [first]: [], [second]: [] };
  for (let round = 0; round < rounds; round++) {
    // Alternates the order: neither is always first.
    for (const engine of round % 2 === 0 ? [first, second] : [second, first]) {
      const { worker, parameters } = processOf(engine);
      const { stdout } = await promisify(execFile)(process.execPath, [worker, JSON.stringify(parameters)]);
      taken[engine].push(JSON.parse(stdout));
      advance(++done);
    }
  }
  return taken;
}
