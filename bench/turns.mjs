// Runs processes of several engines in turns: changes of the machine's state affect all of them.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/**
 * Takes samples, each in a process of its own.
 *
 * @template Sample
 * @param {string[]} engines
 * @param {(engine: string) => { worker: string, parameters: object, env?: Record<string, string> }} processOf returns the
 *   program of a sample, which prints it as JSON, its argument, and variables of its environment
 * @param {number} rounds
 * @param {(done: number) => void} advance called with the number of samples that are done
 * @returns {Promise<Record<string, Sample[]>>} by engine
 * @throws {Error} with the program's output when it fails
 */
export async function sampleInTurns(engines, processOf, rounds, advance) {
  let done = 0;
  /** @type {Record<string, Sample[]>} */
  const taken = Object.fromEntries(engines.map((engine) => [engine, []]));
  for (let round = 0; round < rounds; round++) {
    // Alternates the order: none is always first.
    for (const engine of round % 2 === 0 ? engines : engines.toReversed()) {
      const { worker, parameters, env } = processOf(engine);
      const { stdout } = await promisify(execFile)(process.execPath, [worker, JSON.stringify(parameters)], { env: { ...process.env, ...env } });
      taken[engine].push(JSON.parse(stdout));
      advance(++done);
    }
  }
  return taken;
}
