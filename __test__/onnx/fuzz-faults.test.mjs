// Files that fuzzing has found: each has a few hundred bytes, and asks for gigabytes, for minutes, or for the whole stack.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { ml } from '../../index.js';
import { OnnxError, loadModel } from '../../onnx.js';

const FOLDER = new URL('../../fuzz/faults/', import.meta.url);

/** Of memory, for a file that is refused. */
const MOST_BYTES = 64 * 2 ** 20;

/** What the error of each file says. */
const FAULTS = {
  'affine-grid': /AffineGrid .*: it needs a constant of 675000000 elements, more than 8388608$/,
  'affine-points': /AffineGrid .*: the model needs too much memory after unrolling its loops$/,
  cubic: /Resize .*: the model needs too much memory after unrolling its loops$/,
  dimensions: /^tensor "w": the shape \[2, .*, 8192\] has more than 2147483647 elements$/,
  expand: /Expand .*: the shape \[687865857, 5632\] has more than 2147483647 elements$/,
  input: /^input: descriptor has shape \[1, 1, 609824, 20000\], more than the 2147483647 elements that are supported$/,
  'mel-weights': /MelWeightMatrix .*: it needs a constant of 5000100000 elements, more than 8388608$/,
  nesting: /^the model cannot be decoded: .*recursion limit reached$/,
  'one-hot': /OneHot .*: it needs a constant of 134717728 elements, more than 8388608$/,
  resize: /Resize .*: it needs a constant of 899910000 elements, more than 8388608$/,
  sequence: /SplitToSequence .*: a sequence has 5000000 tensors, expected at most 4096$/m,
  window: /HannWindow .*: it needs a constant of 100000000 elements, more than 8388608$/,
};

let context;
before(async () => {
  context = await ml.createContext({ accelerated: false });
});
after(() => context.destroy());

for (const [name, message] of Object.entries(FAULTS)) {
  test(`${name} is refused in little memory`, async () => {
    const bytes = readFileSync(new URL(`${name}.onnx`, FOLDER));
    const peak = process.resourceUsage().maxRSS;
    await assert.rejects(loadModel(bytes, { context }), (error) => {
      assert.ok(error instanceof OnnxError, `${error}`);
      assert.match(error.message, message);
      return true;
    });
    const grown = (process.resourceUsage().maxRSS - peak) * 1024;
    assert.ok(grown < MOST_BYTES, `${grown} bytes`);
  });
}

test('every file has a test', () => {
  assert.deepEqual(
    readdirSync(FOLDER).sort(),
    Object.keys(FAULTS).map((name) => `${name}.onnx`),
  );
});
