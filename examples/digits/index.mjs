// Reads handwritten digits the network has never seen. Run with `npm start`, or with a folder of pictures named
// INDEX-is-LABEL.png: `node index.mjs FOLDER`.
import { ml } from 'webnn-node';
import { colorDepth, GREEN, paint, RED } from './terminal.mjs';
import { argMax, CLASSES, DigitReader, loadWeights } from './model.mjs';
import { loadPictures, PICTURES } from './pictures.mjs';
import { layout, panel } from './render.mjs';

const pictures = await loadPictures(process.argv[2] ?? PICTURES);
const context = await ml.createContext();
const reader = await DigitReader.create(context, await loadWeights(), pictures.length);
const pixels = Float32Array.from(pictures.flatMap((picture) => [...picture.pixels]));
const all = await reader.read(pixels);
context.destroy();

const depth = colorDepth(process.stdout);
const results = pictures.map((picture, i) => {
  const probabilities = all.subarray(i * CLASSES, (i + 1) * CLASSES);
  return { picture, probabilities, right: argMax(probabilities) === picture.label };
});
const panels = results.map(({ picture, probabilities }) => panel(picture, probabilities, depth));
const right = results.filter((result) => result.right).length;
const perfect = right === results.length;

console.log(`\n${layout(panels, process.stdout.columns ?? 80)}`.trimEnd());
console.log('\n' + paint(`${right} of ${results.length} right`, depth, { bold: true, color: perfect ? GREEN : RED }));
process.exitCode = perfect ? 0 : 1;
