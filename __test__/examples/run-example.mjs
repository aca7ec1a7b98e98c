import { execFile } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository's root folder. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Runs a program of `examples/` and waits for its end; does not reject when the program fails.
 * @param {string} program path inside `examples/`
 * @param {...string} args
 * @returns {Promise<{ code: number, stdout: string, stderr: string }>}
 */
export function runExample(program, ...args) {
  return runExampleWith('', program, ...args);
}

/** As `runExample`, with a text as standard input. */
export function runExampleWith(input, program, ...args) {
  const file = path.join(ROOT, 'examples', program);
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [file, ...args], { cwd: ROOT }, (error, stdout, stderr) => {
      resolve({ code: error ? error.code : 0, stdout, stderr });
    });
    // A program that has ended reads nothing more.
    child.stdin.on('error', (error) => { if (error.code !== 'EPIPE') throw error; });
    child.stdin.end(input);
  });
}

/** The largest absolute difference; NaN if any value is NaN, and the lengths must agree. */
export function maxAbsDifference(a, b) {
  if (a.length !== b.length) throw new RangeError(`${a.length} values against ${b.length}`);
  return a.reduce((max, value, i) => Math.max(max, Math.abs(value - b[i])), 0);
}
