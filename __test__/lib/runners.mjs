// What the runners of test suites share: command lines, and concurrent tests.

import { parseArgs } from 'node:util';

/** A wrong command line. */
export class UsageError extends Error {}

/**
 * Reads a command line. See `parseArgs()`.
 *
 * @template {import('node:util').ParseArgsConfig} Config
 * @param {Config} config
 * @throws {UsageError}
 */
export function readCommandLine(config) {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new UsageError(/** @type {Error} */ (error).message);
  }
}

/** The value of an option that is a number. @throws {UsageError} */
export function positiveInteger(option, text) {
  if (!/^[1-9]\d*$/.test(text)) {
    throw new UsageError(`--${option} is "${text}", expected a positive integer`);
  }
  return Number(text);
}

/**
 * The value of an option that is a regular expression; `undefined` if it is not given.
 *
 * @template {string | undefined} Text
 * @param {string} option
 * @param {Text} text
 * @returns {Text extends string ? RegExp : undefined}
 * @throws {UsageError}
 */
export function regularExpression(option, text) {
  try {
    return /** @type {any} */ (text === undefined ? undefined : new RegExp(text));
  } catch (error) {
    throw new UsageError(`--${option}: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * Runs the program and sets its exit status: 2, with the usage on standard error, for a wrong command line.
 *
 * @param {(args: string[]) => Promise<number>} main returns the exit status
 * @param {string} usage
 */
export async function runMain(main, usage) {
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\n\n${usage}`);
    process.exitCode = 2;
  }
}

/** Calls `work` for every item, at most `limit` at a time; returns the results in the order of the items. */
export async function mapConcurrently(items, limit, work) {
  const results = new Array(items.length);
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(items[index]);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}
