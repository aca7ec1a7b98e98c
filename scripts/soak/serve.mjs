// `npm run soak -- serve`: sends requests to a server for long, a tenth of them hostile, compares the answers of the others with
// earlier ones, and watches the memory of the server's process.
//
//   npm run soak -- serve --requests 1000000 --seed 7

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { residentMemory } from '../../bench/machine.mjs';
import { hostileRequests, send } from '../../packages/serve/__test__/hostile.mjs';
import { DIGITS, PICTURE } from '../../packages/serve/__test__/support.mjs';
import { entry, Failure, root, say, withUsage } from '../process.mjs';
import { freePort } from '../services.mjs';

/** Callers at the same time. */
const CALLERS = 32;

/** Samples of the memory; the first half is warm-up. */
const SAMPLES = 40;

/** Bytes that the memory may differ by between the third and the last quarter: V8's heap breathes. */
const MARGIN = 16 * 2 ** 20;

/** Share of requests that are hostile. */
const HOSTILE = 0.1;

const USAGE = 'usage: npm run soak -- serve [--requests N] [--seed N]';

/**
 * Sends a request; status 0 where the server ended the connection.
 * @param {Parameters<typeof send>} args
 */
const answerOf = (...args) => send(...args).catch(() => ({ status: 0, text: '' }));

/** Requests whose answers are known from the first time. */
const VALID = [
  { method: 'POST', path: '/v2/models/digits/infer', body: Buffer.from(JSON.stringify({ inputs: [PICTURE] })) },
  {
    method: 'POST',
    path: '/v1/embeddings',
    body: Buffer.from(JSON.stringify({ model: 'embeddings', input: 'Which plant needs the least water?', encoding_format: 'base64' })),
  },
];

/** A number as it is shown, in MB. */
const megabytes = (/** @type {number} */ bytes) => (bytes / 2 ** 20).toFixed(1);

const mean = (/** @type {number[]} */ numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;

/**
 * Whether two vectors or probabilities in base64 or JSON are the same but for rounding: batches sum up in another order.
 * @param {string} expected
 * @param {string} got
 */
function isSame(expected, got) {
  if (expected === got) return true;
  const numbersOf = (/** @type {string} */ text) => {
    const { outputs, data } = JSON.parse(text);
    if (outputs !== undefined) return outputs[0].data;
    const bytes = Buffer.from(data[0].embedding, 'base64');
    return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
  };
  const [wanted, numbers] = [expected, got].map(numbersOf);
  return wanted.every((/** @type {number} */ value, /** @type {number} */ i) => Math.abs(value - numbers[i]) < 1e-5);
}

/**
 * @param {string} repository
 * @param {number} requests
 * @param {number} seed
 */
async function soak(repository, requests, seed) {
  const url = `http://127.0.0.1:${await freePort()}`;
  const program = join(root, 'packages/serve/bin/webnn-node-serve.js');
  const child = spawn(process.execPath, [program, repository, '--http', new URL(url).port, '--log-level', 'fatal'], { stdio: ['ignore', 'inherit', 'ignore'] });
  const agent = new http.Agent({ keepAlive: true, maxSockets: CALLERS });
  try {
    while ((await answerOf(agent, url, { method: 'GET', path: '/v2/health/ready', body: Buffer.alloc(0) })).status !== 200) {
      if (child.exitCode !== null) throw new Failure('the server did not start');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    /** @type {string[]} */
    const expected = [];
    for (const request of VALID) expected.push((await answerOf(agent, url, request)).text);
    const hostile = hostileRequests(seed);
    /** @type {Record<number, number>} */
    const statuses = {};
    /** @type {number[]} */
    const memory = [];
    let done = 0;
    const call = async () => {
      while (done < requests) {
        const number = (done += 1);
        const isHostile = number % Math.round(1 / HOSTILE) === 0;
        const kind = number % VALID.length;
        const { status, text } = await answerOf(agent, url, isHostile ? hostile.next() : VALID[kind]);
        if (isHostile) statuses[status] = (statuses[status] ?? 0) + 1;
        else if (status !== 200 || !isSame(expected[kind], text)) throw new Failure(`request ${number}: status ${status}, ${text.slice(0, 200)}`);
        if (number % Math.ceil(requests / SAMPLES) === 0) {
          memory.push(residentMemory(/** @type {number} */ (child.pid)).resident);
          say(`${number} requests, ${megabytes(memory[memory.length - 1])} MB`);
        }
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, call));
    if (statuses[500] !== undefined) throw new Failure(`${statuses[500]} hostile requests had status 500`);
    const quarter = memory.length >> 2;
    const [third, last] = [memory.slice(2 * quarter, 3 * quarter), memory.slice(3 * quarter)].map(mean);
    say(`statuses of hostile requests: ${JSON.stringify(statuses)}`);
    say(`memory: ${megabytes(third)} MB in the third quarter, ${megabytes(last)} MB in the last one`);
    if (last > third + MARGIN) throw new Failure(`the memory grows: ${megabytes(last - third)} MB between the last two quarters`);
  } finally {
    agent.destroy();
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }
}

await entry(async () => {
  const { requests, seed } = withUsage(USAGE, () => {
    const { values } = parseArgs({ options: { requests: { type: 'string', default: '100000' }, seed: { type: 'string', default: '1' } } });
    const numbers = { requests: Number(values.requests), seed: Number(values.seed) };
    if (!Number.isInteger(numbers.requests) || numbers.requests < SAMPLES || !Number.isInteger(numbers.seed))
      throw new Error(`--requests must be a whole number from ${SAMPLES}, --seed a whole number`);
    return numbers;
  });
  const repository = mkdtempSync(join(tmpdir(), 'webnn-soak-serve-'));
  try {
    mkdirSync(join(repository, 'digits'));
    cpSync(DIGITS, join(repository, 'digits', 'model.onnx'));
    cpSync(join(root, 'packages/serve/models/embeddings'), join(repository, 'embeddings'), { recursive: true });
    await soak(repository, requests, seed);
  } finally {
    rmSync(repository, { recursive: true });
  }
});
