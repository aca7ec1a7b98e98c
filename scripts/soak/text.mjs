// `npm run soak -- text`: holds conversations with a small language model that is loaded once, compares its answers with
// earlier ones, and watches the process's resources. Then holds one long conversation, during which only its cache may
// grow.
//
//   npm run soak -- text --conversations 1000 --tokens 100000    answers of 100 tokens; branches come on top
//   npm run soak -- text --long 8000                             tokens of the long one
//   npm run soak -- text --types q4f16 --device gpu              WEBNN_GPU_SOFTWARE=1 lets it be a CPU
//   npm run soak -- text --seed 7                                the same conversations again
//   npm run soak -- text --json FILE                             writes the samples

import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { generator } from '../../__test__/lib/random.mjs';
import { Conversations } from '../../__test__/soak/conversations.mjs';
import { judge, LIMITS, sample, shown } from '../../__test__/soak/growth.mjs';
import { checksOf } from '../../bench/arguments.mjs';
import { configOf, TYPES } from '../../bench/generate/catalog.mjs';
import { openDirect } from '../../bench/generate/direct.mjs';
import { writeModels } from '../../bench/generate/models.mjs';
import { webnnRuntime } from '../../bench/generate/runtimes.mjs';
import { entry, Failure, say } from '../process.mjs';

/** @typedef {import('../../bench/generate/catalog.mjs').TypeName} TypeName */

const TYPE_NAMES = /** @type {TypeName[]} */ (Object.keys(TYPES)).filter((name) => TYPES[name].model === 'decoder');

const USAGE = `usage: npm run soak -- text [--conversations N] [--tokens N] [--long N] [--types LIST] [--device cpu|gpu]
                               [--seed N] [--json FILE]
types: ${TYPE_NAMES.join(', ')}`;

const OPTIONS = /** @type {const} */ ({
  conversations: { type: 'string', default: '200' },
  tokens: { type: 'string', default: '20000' },
  long: { type: 'string', default: '2000' },
  types: { type: 'string', default: 'q4' },
  device: { type: 'string', default: 'cpu' },
  seed: { type: 'string', default: '1' },
  json: { type: 'string' },
  help: { type: 'boolean', default: false },
});

const { wrong, parsed, integer, someOf } = checksOf(USAGE);

/** Number of concurrent conversations. */
const TOGETHER = 3;

/** Number of samples of the conversations, of the long one, and between lines of progress. */
const [SAMPLES, LONG_SAMPLES, PROGRESS] = [200, 8, 50];

/** Maximum conversations and tokens, and minimum conversations to measure growth. */
const [MAX_COUNT, MIN_CONVERSATIONS] = [1e9, 20];

/** The same conversations repeat: memory that allocators keep for them is allocated by the end of the warm-up. */
const STEADY = { ...LIMITS, rss: { ...LIMITS.rss, steady: 8 } };

/** Copies of a cache that may exist: a growing cache moves to a larger block, and results wait for the collector. */
const COPIES = 4;

/**
 * Returns the bytes of a token's keys and values.
 *
 * @param {Record<string, number>} config of the model
 * @param {'float32' | 'float16'} dataType
 */
const cacheBytesOf = (config, dataType) => 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * (dataType === 'float16' ? 2 : 4);

/**
 * Holds the requested conversations and returns the samples.
 *
 * @param {Conversations} talks
 * @param {{ conversations: number, tokens: number, seed: number }} options
 */
async function converse(talks, { conversations, tokens, seed }) {
  const random = generator(seed);
  const mean = tokens / conversations;
  const start = performance.now();
  const samples = [await sample(start)];
  for (let begun = 0; begun < conversations; ) {
    const together = Array.from({ length: Math.min(TOGETHER, conversations - begun) }, () => {
      return talks.converse(generator(random.below(2 ** 32)), Math.ceil(mean * (0.5 + random.next())));
    });
    begun += together.length;
    await Promise.all(together);
    if (begun < (samples.length * conversations) / SAMPLES) continue;
    samples.push(await sample(start));
    if (samples.length % PROGRESS === 0) say(shown(samples[samples.length - 1]));
  }
  return samples;
}

/**
 * Holds the long conversation.
 *
 * @param {Conversations} talks
 * @param {number} tokens
 * @param {number} cacheBytes of a token
 * @throws {Failure} if memory grows by more than its cache
 */
async function talk(talks, tokens, cacheBytes) {
  const start = performance.now();
  const samples = [await sample(start)];
  let before = performance.now();
  const part = Math.ceil(tokens / LONG_SAMPLES);
  await talks.talk(tokens, async (length) => {
    if (length % part !== 0 && length !== tokens) return;
    const ms = (performance.now() - before) / part;
    samples.push(await sample(start));
    say(`${length} tokens: ${ms.toFixed(2)} ms for each of the last; ${shown(samples[samples.length - 1])}`);
    before = performance.now();
  });
  const cache = (tokens * cacheBytes) / 2 ** 20;
  for (const name of /** @type {const} */ (['rss', 'heap', 'external'])) {
    const growth = samples[samples.length - 1][name] - samples[0][name];
    const allowed = LIMITS[name].steady + (name === 'heap' ? 0 : COPIES * cache);
    say(`${name}: ${growth.toFixed(1)} MiB more, ${allowed.toFixed(1)} allowed for a cache of ${cache.toFixed(1)} MiB`);
    if (growth > allowed) throw new Failure(`Memory of a long conversation grows by more than its cache: ${name}`);
  }
}

await entry(async () => {
  const values = parsed(() => parseArgs({ options: OPTIONS }).values);
  const count = (/** @type {'conversations' | 'tokens' | 'seed'} */ name) => integer(name, values[name], MAX_COUNT);
  const options = { conversations: count('conversations'), tokens: count('tokens'), seed: count('seed') };
  if (options.conversations < MIN_CONVERSATIONS) {
    throw wrong(`--conversations is ${values.conversations}, expected at least ${MIN_CONVERSATIONS}`);
  }
  const { device } = values;
  if (device !== 'cpu' && device !== 'gpu') throw wrong(`--device is ${device}, expected cpu or gpu`);
  const types = someOf('types', values.types, TYPE_NAMES);
  if (globalThis.gc === undefined || process.platform !== 'linux') {
    throw new Failure('The soak needs Linux, whose /proc it reads, and node --expose-gc.', 2);
  }
  const models = await writeModels({ tiny: true });
  /** @type {Record<string, import('../../__test__/soak/growth.mjs').Sample[]>} */
  const samples = {};
  for (const type of types) {
    const config = configOf(models, type);
    const long = integer('long', values.long, config.max_position_embeddings);
    say(`${type} on the ${device}, seed ${options.seed}`);
    const begin = await openDirect(webnnRuntime(device), { models, type, threads: 2 });
    const talks = new Conversations(begin, config.vocab_size);
    samples[type] = await converse(talks, options);
    say(JSON.stringify(talks.done));
    if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(samples)}\n`);
    judge(samples[type], STEADY);
    await talk(talks, long, cacheBytesOf(config, TYPES[type].dataType));
  }
});
