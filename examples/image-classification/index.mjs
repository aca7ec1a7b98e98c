// Says what is in pictures: `npm start`, or `node index.mjs PICTURE...`
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';
import { loadModel } from 'webnn-node/onnx';

const SIDE = 224; // pixels of the model's input

const here = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

/**
 * The middle of a picture as the model takes it: RGB values from -1 to 1, one plane per color.
 * @param {string} file anything sharp reads
 */
async function pixelsOf(file) {
  const rgb = await sharp(file).autoOrient().removeAlpha().toColourspace('srgb').resize(SIDE, SIDE).raw().toBuffer();
  const plane = SIDE * SIDE;
  return Float32Array.from({ length: 3 * plane }, (_, i) => rgb[(i % plane) * 3 + Math.floor(i / plane)] / 127.5 - 1);
}

const files = process.argv.length > 2 ? process.argv.slice(2) : ['cat', 'cup', 'photographer'].map((name) => here(`pictures/${name}.jpg`));
const labels = (await readFile(here('labels.txt'), 'utf8')).trimEnd().split('\n');
const model = await loadModel(here('squeezenet.onnx'));

for (const file of files) {
  const { output } = await model.run({ input: await pixelsOf(file) });
  /** @type {number[]} */
  const probabilities = [...output.data];
  const best = probabilities.map((probability, i) => ({ probability, label: labels[i] }));
  best.sort((a, b) => b.probability - a.probability);
  console.log(path.basename(file));
  for (const { probability, label } of best.slice(0, 3)) {
    console.log(`  ${(100 * probability).toFixed(0).padStart(3)} %  ${label}`);
  }
}
model.destroy();
