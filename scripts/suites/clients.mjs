// `npm run suite -- clients`: tests libraries that use WebNN, on this package.

import { parseArgs } from 'node:util';
import { installExternal } from '../external.mjs';
import { entry, isProgram, run, withUsage } from '../process.mjs';
import { isAtLeast } from '../setup.mjs';

export const TESTS = ['onnxruntime-web.test.mjs', 'transformers.test.mjs'].map((name) => `__test__/external/clients/${name}`);

/** Node 20's optimizing compiler takes a minute for onnxruntime-web's WebAssembly before the code runs. */
const FLAGS = isAtLeast(process.version, '22') ? [] : ['--liftoff-only'];

if (isProgram(import.meta.url)) {
  await entry(async () => {
    withUsage('usage: npm run suite -- clients', parseArgs);
    await installExternal();
    await run('tests of the client libraries', process.execPath, [...FLAGS, '--test', ...TESTS]);
  });
}
