// The examples with pictures that need nothing but the repository, and the pictures that they write.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import sharp from 'sharp';
import { root } from '../../scripts/process.mjs';
import { runExample } from './run-example.mjs';

const file = (...names) => path.join(root, 'examples', ...names);

/** Runs an example; it must print what its folder promises. */
async function printsTheExpected(name) {
  const { code, stdout, stderr } = await runExample(`${name}/index.mjs`);
  assert.equal(stderr, '');
  assert.equal(code, 0);
  assert.equal(stdout, await readFile(file(name, 'expected.txt'), 'utf8'));
  return stdout;
}

/** A function that gives the channels of a pixel of a picture. */
async function pixels(picture) {
  const { data, info } = await sharp(picture).raw().toBuffer({ resolveWithObject: true });
  return (x, y) => [...data.subarray((y * info.width + x) * info.channels).subarray(0, info.channels)];
}

test('image classification says what is in the pictures', async () => {
  await printsTheExpected('image-classification');
});

test('face detection draws the boxes that it prints, around the faces', async () => {
  const printed = await printsTheExpected('face-detection');
  const boxes = [...printed.matchAll(/(\d+) x (\d+) pixels at \((\d+), (\d+)\)/g)].map((match) => match.slice(1).map(Number));
  assert.equal(boxes.length, 2);
  const pixel = await pixels(file('face-detection', 'out', 'portraits.png'));
  const plain = await pixels(file('face-detection', 'pictures', 'portraits.jpg'));
  for (const [width, height, left, top] of boxes) {
    const [x, y] = [left + (width >> 1), top + (height >> 1)];
    for (const edge of [
      [left, y],
      [left + width, y],
      [x, top],
      [x, top + height],
    ])
      assert.deepEqual(pixel(...edge), [0, 255, 0, 255], `edge at ${edge}`);
    assert.deepEqual(pixel(x, y), [...plain(x, y), 255]);
  }
  // Between the eyes of Hopper and of Collins.
  for (const [i, [x, y]] of [
    [555, 142],
    [143, 103],
  ].entries()) {
    const [width, height, left, top] = boxes[i];
    assert.ok(left < x && x < left + width && top < y && y < top + height / 2, `face ${i}`);
  }
});

test('background removal keeps the person as she is, and nothing else', async () => {
  await printsTheExpected('background-removal');
  const people = {
    collins: {
      person: [
        [225, 120],
        [200, 340],
      ],
      background: [
        [20, 20],
        [430, 100],
        [330, 60],
      ],
    },
    hopper: {
      person: [
        [265, 210],
        [200, 450],
      ],
      background: [
        [30, 60],
        [480, 100],
        [60, 330],
      ],
    },
  };
  for (const [name, { person, background }] of Object.entries(people)) {
    const pixel = await pixels(file('background-removal', 'out', `${name}.png`));
    const plain = await pixels(file('background-removal', 'pictures', `${name}.jpg`));
    for (const at of person) assert.deepEqual(pixel(...at), [...plain(...at), 255], `${name} at ${at}`);
    for (const at of background) assert.equal(pixel(...at)[3], 0, `${name} at ${at}`);
  }
});
