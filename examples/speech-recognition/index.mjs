// Writes down what is said in recordings, with Whisper tiny.en.
//
//   node index.mjs FILE.wav...    English, any sample rate
import { readFile } from 'node:fs/promises';
import { Tokenizer } from '@huggingface/tokenizers';
import wavefile from 'wavefile';
import { ml } from 'webnn-node';
import { loadModel } from 'webnn-node/onnx';

/** What the encoder takes at a time: half a minute, padded with silence. */
const RATE = 16_000;
const SAMPLES = 30 * RATE;
/** The most tokens that the decoder has places for. */
const MOST_TOKENS = 448;
const [LAYERS, HEADS, HEAD_WIDTH] = [4, 6, 64];

const START = '<|startoftranscript|>';
const NO_TIMES = '<|notimestamps|>';
const END = '<|endoftext|>';

const read = (/** @type {string} */ name) => readFile(new URL(`model/${name}`, import.meta.url), 'utf8').then(JSON.parse);

const [vocabulary, config] = await Promise.all([read('tokenizer.json'), read('config.json')]);
const tokenizer = new Tokenizer(vocabulary, {});
const [start, noTimes, end] = [START, NO_TIMES, END].map((token) => tokenizer.token_to_id(token));
// Marks, sounds and speakers, which the model is not to write; and at the beginning neither a space nor nothing at all.
const never = new Set(config.suppress_ids);
const notFirst = new Set([...never, ...config.suppress_ids_begin]);

// In one context, the keys and values of the encoder go to the decoder as they are.
const context = await ml.createContext();
const encoder = await loadModel(new URL('model/encoder.onnx', import.meta.url), { context });
const decoder = await loadModel(new URL('model/decoder.onnx', import.meta.url), { context });

/**
 * A recording of any rate as one channel of 16 kHz, -1 to 1.
 * @param {string} file
 * @returns {Promise<Float32Array>}
 */
async function readSamples(file) {
  const wav = new wavefile.WaveFile(await readFile(file));
  wav.toBitDepth('32f');
  wav.toSampleRate(RATE);
  // One array, or one for each channel.
  const samples = wav.getSamples(false, Float32Array);
  const channels = Array.isArray(samples) ? samples : [samples];
  return channels[0].map((_, i) => channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length);
}

/**
 * The most likely token.
 * @param {Float32Array} logits
 * @param {Set<number>} excluded
 */
function choose(logits, excluded) {
  let best = -1;
  logits.forEach((logit, token) => {
    if (!excluded.has(token) && (best < 0 || logit > logits[best])) best = token;
  });
  return best;
}

/** The decoder's cache before the first token. */
function emptyCache() {
  const empty = { data: new Float32Array(0), shape: [1, HEADS, 0, HEAD_WIDTH] };
  const names = Array.from({ length: LAYERS }, (_, i) => [`past.${i}.key`, `past.${i}.value`]).flat();
  return Object.fromEntries(names.map((name) => [name, empty]));
}

/**
 * What is said in half a minute, or less.
 * @param {Float32Array} sound
 */
async function transcribe(sound) {
  const samples = new Float32Array(SAMPLES);
  samples.set(sound);
  // Nobody reads these results: they stay where they are, and so does the cache.
  const cross = await encoder.run({ samples });
  let cache = emptyCache();
  /** @type {number[]} */
  const tokens = [];
  for (let i = 0, token = start; i < MOST_TOKENS && token !== end; i++) {
    const { logits, ...present } = await decoder.run({ token: { data: BigInt64Array.of(BigInt(token)), shape: [1, 1] }, ...cross, ...cache });
    cache = Object.fromEntries(Object.entries(present).map(([name, value]) => [name.replace('present', 'past'), value]));
    token = i === 0 ? noTimes : choose(logits.data, i === 1 ? notFirst : never);
    if (i > 0 && token !== end) tokens.push(token);
  }
  return tokenizer.decode(tokens, { skip_special_tokens: true }).trim();
}

for (const file of process.argv.slice(2)) {
  const samples = await readSamples(file);
  for (let at = 0; at < samples.length; at += SAMPLES) {
    console.log(await transcribe(samples.subarray(at, at + SAMPLES)));
  }
}
context.destroy();
