import path from 'node:path';
import { root } from '../../scripts/process.mjs';
import { runNode } from '../lib/processes.mjs';

/**
 * Runs a program of `examples/` and waits for its end; does not reject when the program fails.
 * @param {string} program path inside `examples/`
 * @param {...string} args
 */
export const runExample = (program, ...args) => runExampleWith('', program, ...args);

/** As `runExample`, with a text as standard input. */
export const runExampleWith = (input, program, ...args) => runNode([path.join(root, 'examples', program), ...args], { cwd: root, input });
