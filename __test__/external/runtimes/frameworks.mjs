// Test frameworks that run test files in processes, threads and contexts of their own: each loads the installed package there.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HERE } from './runtimes.mjs';

const TEST = `
test('a model computes', async () => {
  const model = await loadModel('../colors.onnx', { device: 'cpu' });
  const { scores } = await model.run({ image: new Float32Array(192).fill(1, 0, 64) });
  expect([...scores.data]).toEqual([1, 0, 0]);
  expect(scores.data[0]).toBeCloseTo(1, 5);
});
`;

const [JEST, VITEST] = ['jest/bin/jest.js', 'vitest/vitest.mjs'].map((file) => join(HERE, '..', 'node_modules', file));

/** Each with two test files, which share nothing. */
const FRAMEWORKS = {
  jest: { head: "const { loadModel } = require('webnn-node/onnx');", extension: 'cjs' },
  vitest: { head: "import { loadModel } from 'webnn-node/onnx';\nimport { expect, test } from 'vitest';", extension: 'mjs' },
};

/** @typedef {{ framework: keyof typeof FRAMEWORKS, args: string[] }} Way */

/** @param {string} pool @returns {Way} */
const vitest = (pool) => ({ framework: 'vitest', args: [VITEST, 'run', '--pool', pool] });

/** @param {string[]} more @returns {Way} */
const jest = (...more) => ({ framework: 'jest', args: [JEST, '--config', '{"testEnvironment":"node"}', '--rootDir', '.', ...more] });

/** The ways by the words of docs/deployment.md. @type {Record<string, Way>} */
const WAYS = {
  'vitest, forks': vitest('forks'),
  'vitest, threads': vitest('threads'),
  'vitest, vmThreads': vitest('vmThreads'),
  'jest, workers': jest('--workerThreads', '--maxWorkers=2'),
  'jest, processes': jest('--maxWorkers=2'),
  'jest, --runInBand': jest('--runInBand'),
};

/**
 * Runs the same tests in each way.
 *
 * @param {{ command: string }} runtime
 * @param {string} folder a project with webnn-node and colors.onnx
 * @returns {{ text: string, faults: string[] }}
 */
export function runFrameworks({ command }, folder) {
  for (const [name, { head, extension }] of Object.entries(FRAMEWORKS)) {
    mkdirSync(join(folder, name));
    for (const file of ['one', 'other']) writeFileSync(join(folder, name, `${file}.test.${extension}`), `${head}\n${TEST}`);
  }
  // Frameworks look for themselves from the test file.
  cpSync(join(HERE, '..', 'node_modules', 'vitest'), join(folder, 'node_modules', 'vitest'), { recursive: true });
  const faults = Object.entries(WAYS).flatMap(([title, { framework, args }]) => {
    const { status, stdout, stderr, error } = spawnSync(command, args, {
      cwd: join(folder, framework),
      env: { ...process.env, NO_COLOR: '1' },
      encoding: 'utf8',
    });
    const passed = /Tests:? +(?:.*, )?2 passed/.test(stdout + stderr);
    return status === 0 && passed ? [] : `${title}: ended with ${status}\n${error?.message ?? stdout + stderr}`;
  });
  const count = Object.keys(WAYS).length;
  return { text: `${count - faults.length} of ${count} ways of test frameworks`, faults };
}
