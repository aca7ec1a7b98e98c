// Loading a large model does not hold its weights twice. Reads /proc/self/status, which only Linux has.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { defined } from '../lib/types.mjs';

const directory = defined(process.env.ONNX_MODELS);

/** 498 MB of weights. */
const MODEL = 'gpt2_decode';

/** Resident memory of the whole process, Node included, as a part of the file's size. */
const PEAK = 1.25;
const AFTERWARDS = 1.15;

test('loading a 500 MB model holds its weights once', async (t) => {
  const file = path.join(directory, `${MODEL}.onnx`);
  const program = fileURLToPath(new URL('load-and-measure.mjs', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', program, file]);
  const { peak, resident } = JSON.parse(stdout);
  const size = statSync(file).size;
  const parts = `peak ${(peak / size).toFixed(3)}, afterwards ${(resident / size).toFixed(3)} of the file's size`;
  t.diagnostic(parts);
  assert.ok(peak < PEAK * size, parts);
  assert.ok(resident < AFTERWARDS * size, parts);
});
