// Finds out when somebody speaks in a recording, with Silero VAD.
//
//   node index.mjs FILE.wav    any sample rate
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import wavefile from 'wavefile';
import { loadModel } from 'webnn-node/onnx';

const MODEL = fileURLToPath(import.meta.resolve('@ricky0123/vad-web/dist/silero_vad_v6.onnx'));

/** What the model takes: 16 kHz, in steps of 32 ms, each behind the last samples of the one before. */
const RATE = 16_000;
const STEP = 512;
const CONTEXT = 64;

/** Speech begins above the one probability, and ends below the other when that lasts for so many seconds. */
const BEGIN = 0.5;
const END = 0.35;
const PAUSE = 0.2;

/** @typedef {{ start: number, end: number }} Segment in seconds */

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
 * How likely it is that somebody speaks, for each step.
 * @param {import('webnn-node/onnx').OnnxModel} model
 * @param {Float32Array} samples
 */
async function* probabilities(model, samples) {
  const sr = { data: BigInt64Array.of(BigInt(RATE)), shape: [] };
  /** @type {import('webnn-node/onnx').OnnxFeed} */
  let state = { data: new Float32Array(2 * 128), shape: [2, 1, 128] };
  for (let at = 0; at < samples.length; at += STEP) {
    const data = new Float32Array(CONTEXT + STEP);
    const from = Math.max(0, at - CONTEXT);
    data.set(samples.subarray(from, at + STEP), from - at + CONTEXT);
    // The state goes from step to step, and never to JavaScript.
    /** @type {Record<string, import('webnn-node/onnx').OnnxResult<Float32Array>>} */
    const results = await model.run({ input: { data, shape: [1, data.length] }, state, sr });
    state = results.stateN;
    yield results.output.data[0];
  }
}

/**
 * Parts with speech.
 * @param {AsyncIterable<number>} steps probabilities
 * @returns {AsyncGenerator<Segment>}
 */
async function* segments(steps) {
  /** @type {Segment | null} */
  let current = null;
  let time = 0;
  for await (const probability of steps) {
    if (probability >= BEGIN) current ??= { start: time, end: time };
    time += STEP / RATE;
    if (current === null) continue;
    if (probability >= END) current.end = time;
    if (time - current.end >= PAUSE) {
      yield current;
      current = null;
    }
  }
  if (current !== null) yield current;
}

const [file] = process.argv.slice(2);
const samples = await readSamples(file);
const model = await loadModel(MODEL);
console.log(`${file}: ${(samples.length / RATE).toFixed(1)} s`);
for await (const { start, end } of segments(probabilities(model, samples))) {
  console.log(`speech from ${start.toFixed(1)} s to ${end.toFixed(1)} s`);
}
model.destroy();
