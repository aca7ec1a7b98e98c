// Texts on the CPU are those of onnxruntime-node, with models of all types.

import test from 'node:test';
import { TYPES } from '../../bench/generate/catalog.mjs';
import { onnxruntimeRuntime, webnnRuntime } from '../../bench/generate/runtimes.mjs';
import { assertSameText } from './agreement.mjs';

const TOKENS = 200;

const onnxruntime = onnxruntimeRuntime(new URL('../external/package.json', import.meta.url).href);

for (const type of /** @type {import('../../bench/generate/catalog.mjs').TypeName[]} */ (Object.keys(TYPES))) {
  test(`${type}: ${TOKENS} tokens of onnxruntime-node ${onnxruntime.version}`, (t) => assertSameText(t, type, onnxruntime, webnnRuntime('cpu'), TOKENS));
}
