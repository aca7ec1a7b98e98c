// Texts on the GPU are those of the CPU, with models of all types.

import test from 'node:test';
import { TYPES } from '../../bench/generate/catalog.mjs';
import { webnnRuntime } from '../../bench/generate/runtimes.mjs';
import { assertSameText } from './agreement.mjs';

const TOKENS = 50;

for (const type of /** @type {import('../../bench/generate/catalog.mjs').TypeName[]} */ (Object.keys(TYPES))) {
  test(`${type}: ${TOKENS} tokens of the CPU`, (t) => assertSameText(t, type, webnnRuntime('cpu'), webnnRuntime('gpu'), TOKENS));
}
