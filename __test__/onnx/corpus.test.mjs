// The committed corpus of the fuzz target, through JavaScript: as it is, cut, and with bytes that were changed.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { ml } from '../../index.js';
import { OnnxError, inspectModel, loadModel } from '../../onnx.js';
import { unpackCorpus } from '../../scripts/fuzz.mjs';
import { temporaryFolder } from '../lib/folders.mjs';

/** Of memory, for a file that is refused. */
const MOST_BYTES = 64 * 2 ** 20;

/** Of a processor, for a variant of a file. */
const MOST_MILLISECONDS = 5_000;

/** @returns {Buffer[]} the file, its first two thirds, and two copies with changed bytes, always the same ones */
function variants(bytes) {
  const changed = [3, 7].map((step) => {
    const copy = Buffer.from(bytes);
    for (let at = step; at < copy.length; at += Math.ceil(copy.length / step)) copy[at] ^= 0xff >> (at % 8);
    return copy;
  });
  return [bytes, bytes.subarray(0, Math.floor((bytes.length * 2) / 3)), ...changed];
}

test('every file of the corpus is a model or refused, soon and in little memory', async (t) => {
  // What a GPU has no memory for says nothing of the reader.
  const context = await ml.createContext({ accelerated: false });
  const folder = join(temporaryFolder(t), 'onnx');
  unpackCorpus(join(folder, '..'));
  const names = readdirSync(folder);
  assert.ok(names.length > 200, `${names.length} files`);
  let [refused, used] = [0, 0];
  for (const name of names) {
    const file = readFileSync(join(folder, name));
    assert.equal(createHash('sha1').update(file).digest('hex'), name);
    for (const [index, bytes] of variants(file).entries()) {
      const what = `${name}, variant ${index}`;
      const [peak, start] = [process.resourceUsage().maxRSS, process.cpuUsage()];
      let error;
      for (const use of [() => inspectModel(bytes), async () => (await loadModel(bytes, { context })).destroy()]) {
        try {
          await use();
        } catch (thrown) {
          assert.ok(thrown instanceof OnnxError, `${what}: ${/** @type {Error} */ (thrown).stack}`);
          error = thrown;
        }
      }
      const { user, system } = process.cpuUsage(start);
      const milliseconds = (user + system) / 1000;
      assert.ok(milliseconds < MOST_MILLISECONDS, `${what} took ${milliseconds} ms of a processor`);
      const grown = (process.resourceUsage().maxRSS - peak) * 1024;
      assert.ok(error === undefined || grown < MOST_BYTES, `${what}: ${grown} bytes more for ${error?.message}`);
      if (error === undefined) used++;
      else refused++;
    }
  }
  // Both happen: the variants are neither all valid nor all broken in their first bytes.
  assert.ok(used > 100 && refused > 100, `${used} used, ${refused} refused`);
  context.destroy();
});
