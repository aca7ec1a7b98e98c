// `npm run bench -- border`: what a token of a decoder with many caches costs the JavaScript thread, fed by name and as a group.

import { execFile } from 'node:child_process';
import { parseArgs, promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { median } from 'd3-array';
import { Output } from '../../packages/cli/lib/output.mjs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { entry, withUsage } from '../../scripts/process.mjs';

const USAGE = `usage: npm run bench -- border [OPTION ...]

  --layers N    layers, each with two caches (24)
  --heads N     heads of a cache (1)
  --size N      size of a head (4)
  --tokens N    tokens of a sample (2000)
  --rounds N    samples of each kind (5)`;

const MEASURE = fileURLToPath(new URL('measure.mjs', import.meta.url));

/** No collection happens in a sample of the heap: its growth is what the tokens have allocated. */
const UNCOLLECTED = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256'];

function readArguments() {
  const number = (/** @type {string} */ value) => /** @type {const} */ ({ type: 'string', default: value });
  const options = { layers: number('24'), heads: number('1'), size: number('4'), tokens: number('2000'), rounds: number('5') };
  return withUsage(USAGE, () => {
    const { values } = parseArgs({ options });
    const numbers = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value)]));
    const wrong = Object.keys(numbers).find((name) => !(Number.isInteger(numbers[name]) && numbers[name] > 0));
    if (wrong !== undefined) throw new Error(`--${wrong} is ${numbers[wrong]}, expected an integer from 1`);
    return numbers;
  });
}

/**
 * @param {string[]} flags of Node
 * @param {object} parameters
 * @returns {Promise<{ microseconds: number | null, heapBytes: number }>} per token
 */
async function sample(flags, parameters) {
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, MEASURE, JSON.stringify(parameters)]);
  return JSON.parse(stdout);
}

await entry(async () => {
  const { rounds, ...parameters } = readArguments();
  const kinds = [
    { title: `${2 * parameters.layers} caches by name`, grouped: false, constant: false },
    { title: 'as a group', grouped: true, constant: false },
    { title: 'by name, half of them constant', grouped: false, constant: true },
    { title: 'as a group, half of them constant', grouped: true, constant: true },
  ];
  const taken = kinds.map(() => /** @type {{ microseconds: number | null, heapBytes: number }[]} */ ([]));
  const measure = async (/** @type {(done: number) => void} */ advance) => {
    for (let done = 0; done < rounds * kinds.length; advance(++done)) {
      const at = done % kinds.length;
      const { title, ...kind } = kinds[at];
      const { microseconds } = await sample([], { ...parameters, ...kind });
      const { heapBytes } = await sample(UNCOLLECTED, { ...parameters, ...kind });
      taken[at].push({ microseconds, heapBytes });
    }
  };
  await withProgress('caches', measure, rounds * kinds.length);
  const output = new Output();
  output.heading('JavaScript thread, per token');
  output.table(
    ['feeds', 'us', 'bytes of its heap'],
    kinds.map(({ title }, at) => [
      title,
      .../** @type {const} */ (['microseconds', 'heapBytes']).map((key) => median(taken[at], (one) => one[key] ?? Number.NaN)?.toFixed(0) ?? '?'),
    ]),
  );
});
