// Cuts people out of pictures: `npm start`, or `node index.mjs PICTURE...` writes PNG files with a transparent background.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';
import { loadModel } from 'webnn-node/onnx';

const SIDE = 256; // pixels of the model's input and of its result
const BACKGROUND = 0.5; // where the model is less sure than that to see a person, nothing is left
const PERSON = 0.7; // and from here on, all is

const here = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

/**
 * A whole picture as the model takes it: RGB values from 0 to 1.
 * @param {Buffer} picture
 */
async function pixelsOf(picture) {
  const rgb = await sharp(picture).toColourspace('srgb').resize(SIDE, SIDE, { fit: 'fill' }).raw().toBuffer();
  return Float32Array.from(rgb, (value) => value / 255);
}

/**
 * The opacity of each pixel of a picture, 0 to 255, with soft edges.
 * @param {Float32Array} probabilities that a pixel of the model's input is of a person
 * @param {{ width: number, height: number }} size of the picture
 */
function opacity(probabilities, { width, height }) {
  const mask = Uint8Array.from(probabilities, (probability) => Math.round(255 * probability));
  return sharp(mask, { raw: { width: SIDE, height: SIDE, channels: 1 } })
    .resize(width, height, { fit: 'fill' })
    .linear(1 / (PERSON - BACKGROUND), (-255 * BACKGROUND) / (PERSON - BACKGROUND))
    .toColourspace('b-w')
    .raw()
    .toBuffer();
}

const files = process.argv.length > 2 ? process.argv.slice(2) : ['collins', 'hopper'].map((name) => here(`pictures/${name}.jpg`));
const model = await loadModel(here('selfie-segmentation.onnx'));
await mkdir(here('out'), { recursive: true });

for (const file of files) {
  const { data: picture, info } = await sharp(file).autoOrient().flatten().png().toBuffer({ resolveWithObject: true });
  const { activation_10 } = await model.run({ input_1: await pixelsOf(picture) });
  const alpha = await opacity(activation_10.data, info);
  const { name, base } = path.parse(file);
  const raw = { width: info.width, height: info.height, channels: /** @type {const} */ (1) };
  await sharp(picture)
    .joinChannel(alpha, { raw })
    .toFile(here(`out/${name}.png`));
  const share = alpha.reduce((sum, value) => sum + value, 0) / (255 * alpha.length);
  console.log(`${base}: ${(100 * share).toFixed(0)} % of the picture is a person, see out/${name}.png`);
}
model.destroy();
