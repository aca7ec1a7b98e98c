// Graphs of MLGraphBuilder in front of and behind an ONNX model. All three share a context, and what goes from one to the next
// are tensors that never leave it: JavaScript writes the bytes of a picture and reads six digits.
//
//   pixels uint8 --[prepare]--> digits float32 --[digits.onnx]--> probabilities float32 --[choose]--> digit int32, probability
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';
import { ml, MLGraphBuilder } from 'webnn-node';
import { loadModel } from 'webnn-node/onnx';

/** @typedef {import('webnn-node').MLOperandDescriptor} Descriptor */

/** The number of digits in the picture, the pixels per side of a digit, and the pixels per side that the model reads. */
const [DIGITS, SIDE, SMALL] = [6, 64, 8];
const WIDTH = DIGITS * SIDE;

/** @type {Record<'picture' | 'digits' | 'probabilities' | 'digit' | 'probability', Descriptor>} */
const SHAPES = {
  picture: { dataType: 'uint8', shape: [SIDE, WIDTH, 3] },
  digits: { dataType: 'float32', shape: [DIGITS, 1, SMALL, SMALL] },
  probabilities: { dataType: 'float32', shape: [DIGITS, 10] },
  digit: { dataType: 'int32', shape: [DIGITS] },
  probability: { dataType: 'float32', shape: [DIGITS] },
};

const context = await ml.createContext();

/** Black ink on white, RGB, side by side, to the model's input: a batch of 8x8 pixels, 0 (paper) to 16 (ink). */
async function buildPrepare() {
  const builder = new MLGraphBuilder(context);
  const number = (/** @type {number} */ value) => builder.constant('float32', value);
  const picture = builder.cast(builder.input('picture', SHAPES.picture), 'float32');
  const gray = builder.reduceMean(picture, { axes: [2] });
  const ink = builder.mul(builder.sub(number(255), gray), number(16 / 255));
  const rows = builder.reshape(ink, [1, SIDE, DIGITS, SIDE]);
  const single = builder.transpose(rows, { permutation: [2, 0, 1, 3] });
  const window = [SIDE / SMALL, SIDE / SMALL];
  return builder.build({ digits: builder.averagePool2d(single, { windowDimensions: window, strides: window }) });
}

/** The most likely class of each row, and how likely it is. */
async function buildChoose() {
  const builder = new MLGraphBuilder(context);
  const probabilities = builder.input('probabilities', SHAPES.probabilities);
  return builder.build({
    digit: builder.argMax(probabilities, 1),
    probability: builder.reduceMax(probabilities, { axes: [1] }),
  });
}

const prepare = await buildPrepare();
const model = await loadModel(new URL('digits.onnx', import.meta.url), { context });
const choose = await buildChoose();

const picture = await context.createTensor({ ...SHAPES.picture, writable: true });
// Neither readable nor writable: they stay where they are computed.
const digits = await context.createTensor(SHAPES.digits);
const probabilities = await context.createTensor(SHAPES.probabilities);
const digit = await context.createTensor({ ...SHAPES.digit, readable: true });
const probability = await context.createTensor({ ...SHAPES.probability, readable: true });

const file = fileURLToPath(new URL('number.png', import.meta.url));
context.writeTensor(picture, await sharp(file).removeAlpha().toColourspace('srgb').raw().toBuffer());
context.dispatch(prepare, { picture }, { digits });
await model.run({ pixels: digits }, { probabilities });
context.dispatch(choose, { probabilities }, { digit, probability });

const [number, certain] = await Promise.all([context.readTensor(digit), context.readTensor(probability)]);
console.log(`The picture shows ${new Int32Array(number).join('')}.`);
console.log(`The least certain digit has a probability of ${Math.min(...new Float32Array(certain)).toFixed(2)}.`);

model.destroy();
context.destroy();
