import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';
import { FULL_INK, SIDE } from './model.mjs';

/** The pictures that come with the example. */
export const PICTURES = fileURLToPath(new URL('pictures', import.meta.url));

const NAME = /^(?<index>\d+)-is-(?<label>\d)\.png$/;

/**
 * @typedef {object} LabelledPicture
 * @property {string} name file name
 * @property {number} index place in scikit-learn's set
 * @property {number} label the digit that was written
 * @property {Float32Array} pixels 64 values, row-major, 0 (paper) to 16 (ink)
 */

/**
 * The pictures of a folder that are named INDEX-is-LABEL.png, by label and then by index.
 * @param {string} folder
 * @returns {Promise<LabelledPicture[]>} at least one
 */
export async function loadPictures(folder) {
  const named = (await readdir(folder)).flatMap((name) => {
    const groups = NAME.exec(name)?.groups;
    return groups ? [{ name, index: Number(groups.index), label: Number(groups.label) }] : [];
  });
  if (named.length === 0) throw new Error(`${folder}: no picture is named INDEX-is-LABEL.png`);
  named.sort((a, b) => a.label - b.label || a.index - b.index);
  return Promise.all(
    named.map(async (entry) => ({
      ...entry,
      pixels: await decodeDigit(path.join(folder, entry.name)),
    })),
  );
}

/**
 * Decodes a picture of white ink on black to the 8x8 pixels the network knows: the mean of each
 * block, scaled to 0..16.
 * @param {string} path anything sharp reads; both sides a multiple of 8
 * @returns {Promise<Float32Array>}
 */
export async function decodeDigit(path) {
  const { data, info } = await sharp(path).removeAlpha().toColourspace('b-w').raw().toBuffer({ resolveWithObject: true });
  const { width, height } = info;
  if (width % SIDE !== 0 || height % SIDE !== 0) {
    throw new RangeError(`${path}: ${width}x${height} pixels, expected multiples of ${SIDE}`);
  }
  const [blockWidth, blockHeight] = [width / SIDE, height / SIDE];
  const pixels = new Float32Array(SIDE * SIDE);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const block = Math.floor(y / blockHeight) * SIDE + Math.floor(x / blockWidth);
      pixels[block] += data[(y * width + x) * info.channels];
    }
  }
  const scale = FULL_INK / (255 * blockWidth * blockHeight);
  return pixels.map((sum) => sum * scale);
}
