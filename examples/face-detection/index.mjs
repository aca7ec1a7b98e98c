// Finds faces and draws boxes around them: `npm start`, or `node index.mjs PICTURE...`
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';
import { loadModel } from 'webnn-node/onnx';

const SIDE = 128; // pixels of the model's input
const LEAST_SCORE = 0.5;
const MOST_OVERLAP = 0.3; // two boxes that share more than that are the same face

/** @typedef {{ score: number, left: number, top: number, right: number, bottom: number }} Face pixels */

const here = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

/** Where the model looks, in the order of its results: the middles of two grids' cells, several times each. */
const anchors = [
  { cells: 16, times: 2 },
  { cells: 8, times: 6 },
].flatMap(({ cells, times }) =>
  Array.from({ length: cells * cells * times }, (_, i) => {
    const cell = Math.floor(i / times);
    return [((cell % cells) + 0.5) / cells, (Math.floor(cell / cells) + 0.5) / cells];
  }),
);

/**
 * A whole picture as the model takes it, RGB values from -1 to 1, with black bars that make it a square.
 * @param {Buffer} picture
 */
async function pixelsOf(picture) {
  const options = { fit: /** @type {const} */ ('contain'), background: 'black' };
  const rgb = await sharp(picture).removeAlpha().toColourspace('srgb').resize(SIDE, SIDE, options).raw().toBuffer();
  return Float32Array.from(rgb, (value) => value / 127.5 - 1);
}

/**
 * The model's results as boxes in a picture.
 * @param {Float32Array} regressors 16 numbers per anchor: middle and size of the box, then six points, such as the eyes
 * @param {Float32Array} classificators a number per anchor, the logit of its score
 * @param {{ width: number, height: number }} size
 * @returns {Face[]} the best first
 */
function candidates(regressors, classificators, { width, height }) {
  const scale = Math.max(width, height); // the square has this side
  const [barX, barY] = [(scale - width) / 2, (scale - height) / 2];
  const faces = anchors.flatMap(([anchorX, anchorY], i) => {
    const score = 1 / (1 + Math.exp(-classificators[i]));
    if (score < LEAST_SCORE) return [];
    const [x, y, boxWidth, boxHeight] = regressors.subarray(16 * i, 16 * i + 4).map((value) => (value / SIDE) * scale);
    const [left, top] = [anchorX * scale + x - boxWidth / 2 - barX, anchorY * scale + y - boxHeight / 2 - barY];
    return [{ score, left, top, right: left + boxWidth, bottom: top + boxHeight }];
  });
  return faces.sort((a, b) => b.score - a.score);
}

/** @param {Face} box */
const area = ({ left, top, right, bottom }) => Math.max(0, right - left) * Math.max(0, bottom - top);

/**
 * How much of two boxes is common to both, 0 to 1.
 * @param {Face} a
 * @param {Face} b
 */
function overlap(a, b) {
  const common = area({
    score: 0,
    left: Math.max(a.left, b.left),
    top: Math.max(a.top, b.top),
    right: Math.min(a.right, b.right),
    bottom: Math.min(a.bottom, b.bottom),
  });
  return common / (area(a) + area(b) - common);
}

/**
 * An SVG with a box for each face.
 * @param {Face[]} faces
 * @param {{ width: number, height: number }} size
 */
function drawing(faces, { width, height }) {
  const boxes = faces.map(({ left, top, right, bottom }) => `<rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}"/>`);
  return Buffer.from(`<svg width="${width}" height="${height}" fill="none" stroke="lime" stroke-width="3">${boxes.join('')}</svg>`);
}

const files = process.argv.length > 2 ? process.argv.slice(2) : ['portraits', 'cat'].map((name) => here(`pictures/${name}.jpg`));
const model = await loadModel(here('blazeface.onnx'));
await mkdir(here('out'), { recursive: true });

for (const file of files) {
  const { data: picture, info } = await sharp(file).autoOrient().png().toBuffer({ resolveWithObject: true });
  const { regressors, classificators } = await model.run({ input: await pixelsOf(picture) });
  /** @type {Face[]} */
  const faces = [];
  for (const face of candidates(regressors.data, classificators.data, info)) {
    if (faces.every((better) => overlap(better, face) <= MOST_OVERLAP)) faces.push(face);
  }
  const { name, base } = path.parse(file);
  await sharp(picture)
    .composite([{ input: drawing(faces, info) }])
    .toFile(here(`out/${name}.png`));
  console.log(`${base}: ${faces.length === 1 ? '1 face' : `${faces.length} faces`}, see out/${name}.png`);
  for (const { score, left, top, right, bottom } of faces) {
    console.log(
      `  ${(100 * score).toFixed(0)} %, ${(right - left).toFixed(0)} x ${(bottom - top).toFixed(0)} pixels at (${left.toFixed(0)}, ${top.toFixed(0)})`,
    );
  }
}
model.destroy();
