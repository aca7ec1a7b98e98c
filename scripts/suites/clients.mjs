// `npm run suite -- clients`: installs the libraries of __test__/clients once, then tests them on this package.

import { join } from 'node:path';
import { entry, isProgram, root, run } from '../process.mjs';
import { installLocked, isAtLeast } from '../setup.mjs';

const DIRECTORY = join(root, '__test__', 'clients');
export const TESTS = ['onnxruntime-web.test.mjs', 'transformers.test.mjs'].map((name) => `__test__/clients/${name}`);

/** Node 20's optimizing compiler takes a minute for onnxruntime-web's WebAssembly before the code runs. */
const FLAGS = isAtLeast(process.version, '22') ? [] : ['--liftoff-only'];

/** Installs the libraries if they are missing or older than the lock file. */
export const installClients = () => installLocked('the client libraries', DIRECTORY);

if (isProgram(import.meta.url)) {
  await entry(async () => {
    await installClients();
    await run('tests of the client libraries', process.execPath, [...FLAGS, '--test', ...TESTS]);
  });
}
