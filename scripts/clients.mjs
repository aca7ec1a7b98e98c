// `npm run test:clients`: installs the libraries of __test__/clients once, then runs them on this package.

import { join } from 'node:path';
import { entry, root, run } from './process.mjs';
import { installLocked, isAtLeast, setUp } from './setup.mjs';

const DIRECTORY = join(root, '__test__', 'clients');
const TESTS = ['onnxruntime-web.test.mjs', 'transformers.test.mjs'].map((name) => `__test__/clients/${name}`);

/** The optimizing compiler of Node 20 takes a minute for onnxruntime-web's WebAssembly before it runs at all. */
const FLAGS = isAtLeast(process.version, '22') ? [] : ['--liftoff-only'];

await entry(async () => {
  await setUp();
  await installLocked('the client libraries', DIRECTORY);
  await run('tests of the client libraries', process.execPath, [...FLAGS, '--test', ...TESTS]);
});
