// `npm run bench -- serve`: what the server costs over a model's own run(), what joining requests brings, what happens under
// overload, and how processes scale. The server, its callers and the bare runs are processes of their own; what is compared is
// measured in turns.

import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { median, quantile } from 'd3-array';
import { Output } from '../../packages/cli/lib/output.mjs';
import { freePort } from '../../scripts/services.mjs';
import { entry, Failure, root, withUsage } from '../../scripts/process.mjs';
import { fetchModel, MODEL } from '../../examples/semantic-search/fetch-model.mjs';
import { writeModels as writeLanguageModels } from '../generate/models.mjs';
import { describeMachine } from '../machine.mjs';
import { measureDrain } from './drain.mjs';
import { binaryRequest, writeGenerator, writeModels } from './models.mjs';

const USAGE = `usage: npm run bench -- serve [OPTION ...]

  --encoder DIR    sentence encoder with its tokenizer (that of examples/semantic-search, which is fetched)
  --generator DIR  language model (that of npm run bench -- generate, which is written: 2.5 GB)
  --only NAMES     parts: overhead,batches,generation,overload,processes,start,drain
                   (all)
  --rounds N       turns of each comparison (5)
  --seconds N      how long a turn lasts (3)`;

const [LOAD, BARE, PLAIN] = ['load.mjs', 'bare.mjs', 'plain.mjs'].map((name) => fileURLToPath(new URL(name, import.meta.url)));
const PROGRAM = join(root, 'packages', 'serve', 'bin', 'webnn-node-serve.js');

/** The text of the embeddings: 12 tokens. */
const TEXT = 'Which of these plants needs the least water?';

/** Threads that compute under overload: the server needs a core to refuse requests. */
const THREADS = Math.max(1, availableParallelism() - 1);

/** Callers at the same time. */
const CALLERS = 16;

/** @typedef {import('./load.mjs').Outcome} Outcome */

/** Servers that must not outlive a measurement that fails. @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();

/** The server as users start it. */
class Served {
  /**
   * @param {string} repository
   * @param {string[]} [options] further options of the program
   */
  static async start(repository, options = []) {
    const port = await freePort();
    const started = performance.now();
    const child = spawn(process.execPath, [PROGRAM, repository, '--http', String(port), '--log-level', 'silent', ...options], { stdio: 'ignore' });
    running.add(child);
    child.once('exit', () => running.delete(child));
    const served = new Served(child, `http://127.0.0.1:${port}`, started);
    for (;;) {
      const response = await fetch(`${served.url}/v2/health/ready`).catch(() => null);
      if (response?.ok) return served;
      if (child.exitCode !== null) throw new Failure('the server did not start');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /**
   * @param {import('node:child_process').ChildProcess} child
   * @param {string} url
   * @param {number} started
   */
  constructor(child, url, started) {
    this.child = child;
    this.url = url;
    this.started = started;
  }

  async stop() {
    const ended = once(this.child, 'exit');
    this.child.kill('SIGTERM');
    await ended;
  }
}

/**
 * Loads a server from a process of its own.
 * @param {string} url
 * @param {{ body: Buffer | string, headers?: Record<string, string> }} request
 * @param {{ callers: number, seconds: number, rate?: number }} load
 * @returns {Promise<Outcome>}
 */
async function loadServer(url, { body, headers = {} }, load) {
  const child = fork(LOAD);
  child.send({ url, body: Buffer.from(body).toString('base64'), headers, ...load });
  const [outcome] = await once(child, 'message');
  child.kill();
  if (Object.keys(outcome.others).length > 0 || outcome.accepted.length === 0)
    throw new Failure(`unexpected answers of ${url}: ${JSON.stringify(outcome.others)}, none of 200`);
  return outcome;
}

/**
 * Milliseconds of the same work without a server, in a process of its own.
 * @param {object} work see bare.mjs
 * @returns {Promise<number[]>}
 */
async function bareRuns(work) {
  const child = fork(BARE);
  child.send(work);
  const [samples] = await once(child, 'message');
  child.kill();
  return samples;
}

const p99 = (/** @type {number[]} */ samples) => /** @type {number} */ (quantile(samples, 0.99));
const rateOf = (/** @type {Outcome} */ { accepted, seconds }) => accepted.length / seconds;
const middle = (/** @type {number[]} */ values) => /** @type {number} */ (median(values));
const ms = (/** @type {number} */ value) => `${value.toFixed(2)} ms`;

/**
 * @typedef {object} Bench
 * @property {string} repository
 * @property {string} generator folder of a language model
 * @property {number} rounds
 * @property {number} seconds
 * @property {Output} output
 */

/**
 * Over the model's own run().
 * @param {Bench} bench
 */
async function measureOverhead({ repository, rounds, seconds, output }) {
  const picture = binaryRequest('x', [1, 3, 224, 224]);
  const cases = [
    {
      name: '602 KB in, 4 KB out, binary',
      bar: 0.6,
      path: '/v2/models/picture/infer',
      request: picture,
      work: { kind: 'tensors', file: join(repository, 'picture', '1', 'model.onnx'), shape: [1, 3, 224, 224] },
    },
    {
      name: 'a small embedding',
      bar: 0.3,
      path: '/v1/embeddings',
      request: { body: JSON.stringify({ model: 'embeddings', input: TEXT, encoding_format: 'base64' }) },
      work: { kind: 'embeddings', folder: join(repository, 'embeddings'), text: TEXT },
    },
  ];
  const server = await Served.start(repository);
  const plain = fork(PLAIN);
  running.add(plain);
  const [address] = await once(plain, 'message');
  const rows = [];
  for (const { name, bar, path, request, work } of cases) {
    const [bare, served, http] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
    for (let i = 0; i < rounds; i++) {
      http.push(middle((await loadServer(address, request, { callers: 1, seconds })).accepted));
      bare.push(middle(await bareRuns({ ...work, seconds })));
      served.push(middle((await loadServer(server.url + path, request, { callers: 1, seconds })).accepted));
    }
    const over = middle(served) - middle(bare);
    rows.push([name, ms(middle(bare)), ms(middle(http)), ms(middle(served)), ms(over), `${bar} ms`, over <= bar ? 'holds' : 'missed']);
  }
  plain.kill();
  await server.stop();
  output.print('## Over the bare run()\n');
  output.table(['request', '>run()', '>HTTP alone', '>server', '>over it', '>bar', 'bar'], rows);
}

/**
 * Requests of many callers.
 * @param {Bench} bench
 */
async function measureBatches({ repository, rounds, seconds, output }) {
  const row = binaryRequest('x', [1, 1024]);
  const cases = [
    {
      name: 'sentence encoder',
      bar: 1.15,
      path: '/v1/embeddings',
      request: { body: JSON.stringify({ model: 'encoder', input: TEXT, encoding_format: 'base64' }) },
    },
    { name: 'products of one row', bar: 2.5, path: '/v2/models/rows/infer', request: row },
  ];
  const joining = await Served.start(repository);
  const single = await Served.start(repository, ['--set', 'maxBatch=1']);
  const rows = [];
  for (const { name, bar, path, request } of cases) {
    /** @type {Record<string, Outcome[]>} */
    const outcomes = { one: [], joined: [], alone: [] };
    for (let i = 0; i < rounds; i++) {
      outcomes.one.push(await loadServer(joining.url + path, request, { callers: 1, seconds }));
      outcomes.joined.push(await loadServer(joining.url + path, request, { callers: CALLERS, seconds }));
      outcomes.alone.push(await loadServer(single.url + path, request, { callers: CALLERS, seconds }));
    }
    const [one, joined, alone] = Object.values(outcomes).map((list) => middle(list.map(rateOf)));
    const [joinedLatest, aloneLatest] = [outcomes.joined, outcomes.alone].map((list) => middle(list.map(({ accepted }) => p99(accepted))));
    const holds = joined / one >= bar && joinedLatest < 2 * aloneLatest;
    rows.push([
      name,
      one.toFixed(0),
      alone.toFixed(0),
      joined.toFixed(0),
      (joined / one).toFixed(2),
      String(bar),
      ms(aloneLatest),
      ms(joinedLatest),
      holds ? 'holds' : 'missed',
    ]);
  }
  await Promise.all([joining.stop(), single.stop()]);
  output.print(`\n## ${CALLERS} callers\n`);
  output.table(['model', '>one caller, requests/s', '>not joined', '>joined', '>joined / one', '>bar', '>p99, not joined', '>p99, joined', 'bar'], rows);
}

/** Types of the weights of the language model. */
const GENERATED = ['fp32', 'q4', 'q8'];

/** Tokens of a prompt, which is read alone, and tokens to generate. */
const [PROMPT, TOKENS] = [16, 128];

/** Texts that are generated at the same time. */
const TEXTS = 8;

/**
 * Texts of one caller, and of several at the same time.
 * @param {Bench} bench
 */
async function measureGeneration({ repository, rounds, seconds, output, generator }) {
  const rows = [];
  for (const dtype of GENERATED) {
    const folder = `${repository}-${dtype}`;
    writeGenerator(folder, generator, dtype);
    const server = await Served.start(folder);
    const prompt = Array.from({ length: PROMPT }, (_, i) => (i * 37 + 5) % 1000);
    const request = { body: JSON.stringify({ model: basename(folder), prompt, max_tokens: TOKENS, temperature: 0 }) };
    const rates = { one: /** @type {number[]} */ ([]), together: /** @type {number[]} */ ([]) };
    for (let i = 0; i < rounds; i++) {
      // A text takes seconds.
      rates.one.push(TOKENS * rateOf(await loadServer(`${server.url}/v1/completions`, request, { callers: 1, seconds: 4 * seconds })));
      rates.together.push(TOKENS * rateOf(await loadServer(`${server.url}/v1/completions`, request, { callers: TEXTS, seconds: 4 * seconds })));
    }
    await server.stop();
    rmSync(folder, { recursive: true });
    const [one, together] = [rates.one, rates.together].map(middle);
    rows.push([dtype, one.toFixed(0), together.toFixed(0), (together / one).toFixed(2), together / one >= 2.5 ? 'holds' : 'missed']);
  }
  output.print(`\n## ${TEXTS} texts of ${TOKENS} tokens after ${PROMPT}\n`);
  output.table(['weights', '>one caller, tokens/s', `>${TEXTS} callers`, '>ratio (bar 2.5)', 'bar'], rows);
}

/**
 * Load at five times the server's capacity.
 * @param {Bench} bench
 */
async function measureOverload({ repository, seconds, rounds, output }) {
  const path = '/v1/embeddings';
  const request = { body: JSON.stringify({ model: 'encoder', input: TEXT, encoding_format: 'base64' }) };
  const probe = await Served.start(repository, ['--set', `threads=${THREADS}`]);
  const unloaded = (await loadServer(probe.url + path, request, { callers: 1, seconds })).accepted;
  await probe.stop();
  const wait = (middle(unloaded) / 2).toFixed(1);
  const server = await Served.start(repository, ['--set', `maxQueueMs=${wait}`, '--set', 'maxBatch=1', '--set', `threads=${THREADS}`]);
  const rows = [];
  // The first turn is warm-up: V8 compiles what refuses requests.
  for (let i = -1; i < rounds; i++) {
    const alone = (await loadServer(server.url + path, request, { callers: 1, seconds })).accepted;
    const rate = 5 * (1000 / middle(alone));
    const { accepted, refused } = await loadServer(server.url + path, request, { callers: 1024, seconds, rate });
    if (i < 0) continue;
    const [free, busy] = [p99(alone), p99(accepted)];
    rows.push([
      rate.toFixed(0),
      ms(free),
      ms(busy),
      (busy / free).toFixed(2),
      String(accepted.length),
      String(refused.length),
      ms(middle(refused)),
      ms(p99(refused)),
      busy <= 2 * free ? 'holds' : 'missed',
    ]);
  }
  await server.stop();
  output.print(`\n## Load at five times the capacity (maxQueueMs=${wait}, threads=${THREADS})\n`);
  output.table(['>requests/s', '>p99 unloaded', '>p99 accepted', '>ratio (bar 2)', '>accepted', '>refused', '>refused after', '>p99', 'bar'], rows);
}

/**
 * Processes behind one port, one thread each.
 * @param {Bench} bench
 */
async function measureProcesses({ repository, rounds, seconds, output }) {
  const request = { body: JSON.stringify({ model: 'encoder', input: TEXT, encoding_format: 'base64' }) };
  const counts = [1, 2, 4];
  const servers = [];
  for (const count of counts) servers.push(await Served.start(repository, ['--processes', String(count), '--metrics', '0', '--set', 'threads=1']));
  const rates = counts.map(() => /** @type {number[]} */ ([]));
  for (let i = 0; i < rounds; i++) {
    for (const [index, { url }] of servers.entries())
      rates[index].push(rateOf(await loadServer(`${url}/v1/embeddings`, request, { callers: CALLERS, seconds })));
  }
  await Promise.all(servers.map((server) => server.stop()));
  output.print('\n## Processes behind one port, each with one thread\n');
  output.table(
    ['>processes', '>requests/s', '>of one'],
    counts.map((count, i) => [String(count), middle(rates[i]).toFixed(0), (middle(rates[i]) / middle(rates[0])).toFixed(2)]),
  );
}

/**
 * From the start of the program to the first answer of a model of 105 MB.
 * @param {Bench} bench
 */
async function measureStart({ repository, rounds, output }) {
  const { body, headers } = binaryRequest('x', [1, 1024]);
  const times = [];
  for (let i = 0; i < rounds; i++) {
    const server = await Served.start(join(repository, 'large'));
    const response = await fetch(`${server.url}/v2/models/large/infer`, { method: 'POST', body, headers });
    if (!response.ok) throw new Failure(await response.text());
    await response.arrayBuffer();
    times.push(performance.now() - server.started);
    await server.stop();
  }
  output.print('\n## Start\n');
  output.print(
    `From the command to the first answer of a model of 105 MB: ${middle(times).toFixed(0)} ms (bar 1000 ms: ${middle(times) <= 1000 ? 'holds' : 'missed'})`,
  );
}

/** @type {Record<string, (bench: Bench) => Promise<void>>} */
const PARTS = {
  overhead: measureOverhead,
  batches: measureBatches,
  generation: measureGeneration,
  overload: measureOverload,
  processes: measureProcesses,
  start: measureStart,
  drain: (bench) => measureDrain(bench, Served.start),
};

function readArguments() {
  const options = /** @type {const} */ ({
    encoder: { type: 'string' },
    generator: { type: 'string' },
    only: { type: 'string', default: Object.keys(PARTS).join() },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
  });
  return withUsage(USAGE, () => {
    const { values } = parseArgs({ options });
    const [rounds, seconds] = [values.rounds, values.seconds].map(Number);
    if (!(Number.isInteger(rounds) && rounds > 0 && seconds > 0)) throw new Error('--rounds must be a whole number from 1, --seconds above 0');
    for (const [folder, file] of [
      [values.encoder, 'model.onnx'],
      [values.generator, 'config.json'],
    ]) {
      if (folder !== undefined && !existsSync(join(folder, /** @type {string} */ (file)))) throw new Error(`there is no ${file} in ${folder}`);
    }
    const unknown = values.only.split(',').find((name) => !Object.hasOwn(PARTS, name));
    if (unknown !== undefined) throw new Error(`there is no part ${unknown}`);
    return { ...values, parts: values.only.split(',').map((name) => PARTS[name]), rounds, seconds };
  });
}

/** The encoder of an example, which is fetched if it is missing. */
function fetchEncoder() {
  fetchModel();
  return MODEL;
}

/** The decoder of `npm run bench -- generate`, which is written if it is missing. */
const writeDecoder = async () => join(await writeLanguageModels({ tiny: false }), 'decoder');

await entry(async () => {
  const { encoder = fetchEncoder(), generator: given, parts, rounds, seconds } = readArguments();
  const generator = given ?? (parts.includes(PARTS.generation) ? await writeDecoder() : '');
  const repository = mkdtempSync(join(tmpdir(), 'webnn-bench-serve-'));
  try {
    writeModels(repository);
    symlinkSync(encoder, join(repository, 'encoder'));
    symlinkSync(join(root, 'packages', 'serve', 'models', 'embeddings'), join(repository, 'embeddings'));
    const output = new Output();
    const { cpu, processors, node } = describeMachine();
    output.print(`${cpu}, ${processors} cores, Node ${node}; ${rounds} turns of ${seconds} s, medians\n`);
    const bench = { repository, generator, rounds, seconds, output };
    for (const part of parts) await part(bench);
  } finally {
    for (const child of running) child.kill();
    rmSync(repository, { recursive: true });
  }
});
