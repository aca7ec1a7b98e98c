// Processes of two engines, taken in turns: what the machine does meanwhile meets both.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/**
 * Starts a process for each sample.
 *
 * @template Sample
 * @param {[string, string]} engines
 * @param {(engine: string) => { worker: string, parameters: object }} processOf the program of a sample, which prints it as JSON,
 *   and its argument
 * @param {number} rounds
 * @param {(done: number) => void} advance is told how many samples are done
 * @returns {Promise<Record<string, Sample[]>>} by engine
 * @throws {Error} with what the program printed when it fails
 */
export async function sampleInTurns([first, second], processOf, rounds, advance) {
  let done = 0;
  /** @type {Record<string, Sample[]>} */
  const taken = { [first]: [], [second]: [] };
  for (let round = 0; round < rounds; round++) {
    // Neither is always the first.
    for (const engine of round % 2 === 0 ? [first, second] : [second, first]) {
      const { worker, parameters } = processOf(engine);
      const { stdout } = await promisify(execFile)(process.execPath, [worker, JSON.stringify(parameters)]);
      taken[engine].push(JSON.parse(stdout));
      advance(++done);
    }
  }
  return taken;
}
