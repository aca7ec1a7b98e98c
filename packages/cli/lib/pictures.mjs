// Pictures as inputs: decodes, resizes and crops them like torchvision's transforms, normalizes them, and lays them
// out.
import { arrayFromNumbers, isFloat } from 'webnn-node-text/elements';
import { Failure, UsageError } from './errors.mjs';
import { formatShape, printable } from './format.mjs';

/**
 * Maps 0..1 to -1..1. Models trained on narrower or wider ranges mostly tolerate that; conversely, ImageNet's channel
 * values (torchvision) break models that were trained on -1..1.
 */
const DEFAULT = { mean: [0.5], std: [0.5] };

const CHANNEL_COUNTS = [1, 3];

/** Loads the decoder, which is not a dependency of this package. */
async function loadSharp() {
  try {
    return (await import('sharp')).default;
  } catch (caught) {
    const cause = /** @type {NodeJS.ErrnoException} */ (caught);
    if (cause.code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    throw new Failure('pictures are decoded by the npm package sharp, which is not installed: npm install sharp', { cause });
  }
}

/**
 * Finds channels, height and width in an input's shape.
 * @param {import('./types.mjs').ShapedInput} input
 * @param {'nchw' | 'nhwc' | undefined} layout
 * @returns {{ layout: 'nchw' | 'nhwc', channels: number, height: number | string, width: number | string }}
 */
function placesOf(input, layout) {
  const { shape } = input;
  const fail = (/** @type {string} */ what) => new UsageError(`input ${printable(input.name)} has shape ${printable(formatShape(shape))}: ${what}`);
  if (shape.length !== 3 && shape.length !== 4) throw fail('a picture needs 3 or 4 dimensions');
  const [first, second, third] = shape.slice(-3);
  if (shape.length === 4 && typeof shape[0] === 'number' && shape[0] !== 1) {
    throw fail(`a picture is a batch of 1, not of ${shape[0]}`);
  }
  const isChannels = (/** @type {number | string} */ dimension) => CHANNEL_COUNTS.some((count) => count === dimension);
  const found = layout ?? (isChannels(first) ? 'nchw' : isChannels(third) ? 'nhwc' : undefined);
  if (found === undefined) throw fail('neither the first nor the last dimension is 1 or 3 channels; give --layout');
  const [dimension, height, width] = found === 'nchw' ? [first, second, third] : [third, first, second];
  if (typeof dimension === 'number' && !isChannels(dimension)) {
    throw fail(`layout ${found} means ${dimension} channels, expected 1 or 3`);
  }
  // A free number of channels means a color picture.
  return { layout: found, channels: typeof dimension === 'number' ? dimension : 3, height, width };
}

/**
 * Computes the size of a picture after resizing, and its center crop.
 *
 * Without options, the picture is resized to just cover the input, and the rest is cut off.
 * @param {{ width: number, height: number }} picture as decoded
 * @param {{ width: number | string, height: number | string }} input a name if the model takes any size
 * @param {import('./types.mjs').PictureOptions} options
 * @returns {{ resized: { width: number, height: number }, cropped: { width: number, height: number } }}
 */
function plan(picture, input, { resize, crop, stretch }) {
  const { height, width } = input;
  const fixed = typeof width === 'number' && typeof height === 'number' ? { height, width } : undefined;
  const target = crop ? { height: crop[0], width: crop[1] } : fixed;
  if (stretch) {
    if (target === undefined) throw new UsageError('--stretch: the input has no fixed size; give --crop HEIGHTxWIDTH');
    return { resized: target, cropped: target };
  }
  const scale =
    resize !== undefined
      ? resize / Math.min(picture.width, picture.height)
      : target !== undefined
        ? Math.max(target.width / picture.width, target.height / picture.height)
        : 1;
  const resized = {
    width: Math.max(1, Math.round(picture.width * scale)),
    height: Math.max(1, Math.round(picture.height * scale)),
  };
  return { resized, cropped: target ?? resized };
}

/**
 * Decodes to bytes, with interleaved channels.
 * @param {string} path
 * @param {number} channels
 * @param {{ height: number | string, width: number | string }} input
 * @param {import('./types.mjs').PictureOptions} options
 */
async function decode(path, channels, input, options) {
  const sharp = await loadSharp();
  try {
    const upright = await sharp(path)
      .autoOrient()
      .removeAlpha()
      .toColourspace(channels === 1 ? 'b-w' : 'srgb')
      .raw()
      .toBuffer({ resolveWithObject: true });
    const { width, height, channels: decoded } = upright.info;
    const { resized, cropped } = plan({ width, height }, input, options);
    const [left, top] = [resized.width - cropped.width, resized.height - cropped.height].map((rest) => Math.floor(rest / 2));
    if (left < 0 || top < 0) {
      throw new UsageError(`the picture is ${resized.width}x${resized.height} after --resize, too small for a crop of ${cropped.width}x${cropped.height}`);
    }
    const pixels = await sharp(upright.data, { raw: { width, height, channels: decoded } })
      .resize(resized.width, resized.height, { fit: 'fill', kernel: 'linear' })
      .extract({ left, top, width: cropped.width, height: cropped.height })
      .toColourspace(channels === 1 ? 'b-w' : 'srgb')
      .raw()
      .toBuffer({ resolveWithObject: true });
    if (pixels.info.channels !== channels) {
      throw new Failure(`${printable(path)}: ${pixels.info.channels} channels, expected ${channels}`);
    }
    return { pixels: pixels.data, ...cropped };
  } catch (cause) {
    if (cause instanceof Failure || cause instanceof UsageError) throw cause;
    throw new Failure(`cannot read the picture ${printable(path)}: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/**
 * Returns one number per channel, given a single number or one per channel.
 * @param {string} option
 * @param {number[]} numbers
 * @param {number} channels
 */
function perChannel(option, numbers, channels) {
  if (numbers.length === channels) return numbers;
  if (numbers.length === 1) return Array(channels).fill(numbers[0]);
  throw new UsageError(`--${option} has ${numbers.length} numbers, and the input has ${channels} ${channels === 1 ? 'channel' : 'channels'}`);
}

/**
 * Reads a picture as the tensor of an input: RGB or gray, (value · scale − mean) / std. Integer inputs get the plain
 * values, 0..255.
 * @param {string} path anything sharp reads
 * @param {import('./types.mjs').ShapedInput} input rank 3 or 4, batch of 1
 * @param {import('./types.mjs').PictureOptions} options `scale`: default 1/255; `mean`, `std`: default 0.5; `layout`: default from the
 *   shape; `resize`: length of the shorter side; `crop`: height and width
 * @returns {Promise<import('./types.mjs').Tensor>}
 * @throws {UsageError | Failure}
 */
export async function pictureTensor(path, input, options) {
  const { layout, channels, ...size } = placesOf(input, options.layout);
  const normalising = /** @type {const} */ (['mean', 'std', 'scale']).filter((name) => options[name] !== undefined);
  if (!isFloat(input.dataType) && normalising.length > 0) {
    throw new UsageError(`--${normalising[0]}: input ${printable(input.name)} is ${input.dataType} and takes the plain values 0 to 255`);
  }
  const { pixels, width, height } = await decode(path, channels, size, options);
  const mean = perChannel('mean', options.mean ?? DEFAULT.mean, channels);
  const std = perChannel('std', options.std ?? DEFAULT.std, channels);
  const scale = options.scale ?? 1 / 255;
  const plane = width * height;
  const values = new Float32Array(channels * plane);
  for (let pixel = 0; pixel < plane; pixel++) {
    for (let channel = 0; channel < channels; channel++) {
      const value = pixels[pixel * channels + channel];
      const at = layout === 'nchw' ? channel * plane + pixel : pixel * channels + channel;
      values[at] = isFloat(input.dataType) ? (value * scale - mean[channel]) / std[channel] : value;
    }
  }
  const dimensions = layout === 'nchw' ? [channels, height, width] : [height, width, channels];
  const shape = input.shape.length === 4 ? [1, ...dimensions] : dimensions;
  return { dataType: input.dataType, shape, data: arrayFromNumbers(input.dataType, values) };
}
