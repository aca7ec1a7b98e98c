import assert from 'node:assert/strict';
import path from 'node:path';
import test, { describe } from 'node:test';
import { fileURLToPath } from 'node:url';
import { root } from '../../scripts/process.mjs';
import { runNode } from '../lib/processes.mjs';

const directory = fileURLToPath(new URL('.', import.meta.url));
const compiler = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));

/** Runs the TypeScript compiler in this folder; its exit code and what it prints. */
async function compile(...args) {
  const { code, stdout, stderr } = await runNode([compiler, ...args], { cwd: directory });
  return { code, output: stdout + stderr };
}

/** All JavaScript by the project that checks it: what Node runs, what the pages run in browsers, the tests. */
for (const [what, project] of [
  ['that Node runs', path.join(root, 'tsconfig.json')],
  ['of pages', 'client.tsconfig.json'],
  ['of tests', 'tests.tsconfig.json'],
]) {
  test(`the JavaScript ${what} has the right types`, async () => {
    assert.deepEqual(await compile('--project', project), { code: 0, output: '' });
  });
}

const STRICT = ['--ignoreConfig', '--strict', '--noEmit', '--target', 'es2023', '--skipLibCheck', 'false'];

/** How packages are found: by Node's own rules, and as bundlers do. */
const RESOLUTIONS = {
  node16: ['--module', 'node16'],
  bundler: ['--module', 'esnext', '--moduleResolution', 'bundler'],
};

test('the declarations compile strictly, accept right programs and find the mistakes in wrong ones', async () => {
  assert.deepEqual(await compile('--project', 'tsconfig.json'), { code: 0, output: '' });
});

describe('the declarations stand beside those of runtimes', { concurrency: 2 }, () => {
  for (const [resolution, how] of Object.entries(RESOLUTIONS)) {
    for (const lib of ['es2024', 'es2024,dom']) {
      for (const types of ['', 'node']) {
        const also = types === '' ? [] : ['--types', types];
        test(`${resolution}, ${lib}, ${types === '' ? 'no other types' : '@types/node'}`, async () => {
          const files = ['auto.mts', 'auto-own.mts', 'onnx.mts'];
          assert.deepEqual(await compile(...STRICT, ...how, '--lib', lib, ...also, ...files), { code: 0, output: '' });
        });
      }
    }
    test(`${resolution}, a library that declares WebNN itself`, async () => {
      for (const files of [
        ['lib.webnn.d.ts', 'auto.mts', 'lib-users.mts'],
        ['auto.mts', 'lib-users.mts', 'lib.webnn.d.ts'],
      ]) {
        const result = await compile(...STRICT, ...how, '--lib', 'es2024,dom', '--types', 'node', ...files);
        assert.deepEqual(result, { code: 0, output: '' });
      }
    });
  }
});
