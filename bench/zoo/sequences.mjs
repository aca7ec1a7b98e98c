// Networks that read text and sound, and a part of one that draws.

import { extentOf, Layers, standardized } from './layers.mjs';

/** @typedef {import('./network.mjs').Tensor} Tensor */

/**
 * The encoder of all-MiniLM-L6: 6 layers, 384 wide, 12 heads, 128 tokens.
 *
 * @param {{ batch?: number, dataType?: string, precision?: string }} [options] type of the floats, and the type that weights are rounded to
 */
export function minilm({ batch = 1, dataType = 'float32', precision = dataType } = {}) {
  const [length, width, vocabulary] = [128, 384, 30522];
  const n = new Layers('minilm_l6', { dataType, precision });
  const epsilon = precision === 'float16' ? 1e-6 : 1e-12;
  const ids = n.input('input_ids', 'int64', [batch, length], ({ below }) => below(vocabulary));
  // Some padding at the end, more in later rows.
  const mask = n.input('attention_mask', 'int64', [batch, length], (_, i) => Number(i % length < length - 8 - 5 * Math.floor(i / length)));
  const types = n.input('token_type_ids', 'int64', [batch, length], (_, i) => Number(i % length > 60));
  const masked = n.masked(mask);
  const words = n.gather(n.weight([vocabulary, width], 1), ids);
  const sum = n.add(words, n.gather(n.weight([2, width], 0.3), types));
  const positions = n.integers(
    Array.from({ length }, (_, i) => i),
    [1, length],
  );
  let x = n.layerNorm(n.add(sum, n.gather(n.weight([512, width], 0.5), positions)), epsilon);
  for (let layer = 0; layer < 6; layer++) {
    x = n.layerNorm(n.add(n.attention(x, 12, { mask: masked }), x), epsilon);
    const inner = n.gelu(n.linear(x, 4 * width));
    x = n.layerNorm(n.add(n.linear(inner, width, { gain: 1.4 }), x), epsilon);
  }
  n.output(x, 'last_hidden_state');
  return n;
}

/** A mel spectrogram of 80 bands: notes of random pitch and length, with noise. @param {import('./network.mjs').Random} random */
function spectrogram({ next, normal }) {
  const [bands, frames] = [80, 3000];
  const levels = new Float32Array(bands * frames);
  const bell = (/** @type {number} */ distance) => Math.exp(-(distance ** 2));
  for (let note = 0; note < 40; note++) {
    const [band, spread, moment, duration] = [bands * next(), 1 + 5 * next(), frames * next(), 10 + 90 * next()];
    const overTime = Float32Array.from({ length: frames }, (_, frame) => bell((frame - moment) / duration));
    for (let at = 0; at < levels.length; at++) levels[at] += bell((Math.floor(at / frames) - band) / spread) * overTime[at % frames];
  }
  return standardized(levels.map((level) => level + 0.3 * normal()));
}

/** Sines and cosines of growing wavelengths, [length, width]. @param {number} length @param {number} width */
function sinusoids(length, width) {
  const half = width / 2;
  return Array.from({ length: length * width }, (_, at) => {
    const [row, column] = [Math.floor(at / width), at % width];
    const angle = row * Math.exp((-Math.log(10000) / (half - 1)) * (column % half));
    return column < half ? Math.sin(angle) : Math.cos(angle);
  });
}

export function whisperTinyEncoder() {
  const [frames, bands, width] = [3000, 80, 384];
  const length = frames / 2;
  const n = new Layers('whisper_tiny_encoder');
  let x = n.inputOf('input_features', 'float32', [1, bands, frames], spectrogram);
  x = n.reshape(x, 1, bands, 1, frames);
  x = n.gelu(n.conv(x, width, [1, 3]));
  x = n.gelu(n.conv(x, width, [1, 3], { stride: [1, 2] }));
  x = n.transpose(n.reshape(x, 1, width, length), 0, 2, 1);
  x = n.add(x, n.constant(sinusoids(length, width), [length, width]));
  for (let layer = 0; layer < 4; layer++) {
    x = n.add(x, n.attention(n.layerNorm(x), 6, { keyBias: false }));
    const inner = n.gelu(n.linear(n.layerNorm(x), 4 * width));
    x = n.add(x, n.linear(inner, width, { gain: 1.4 }));
  }
  n.output(n.layerNorm(x), 'last_hidden_state');
  return n;
}

/**
 * GPT-2, small.
 *
 * @param {{ length: number, past: number }} sizes new tokens, and cached ones of each layer
 */
export function gpt2({ length, past }) {
  const [width, heads, layers, vocabulary] = [768, 12, 12, 50257];
  const [total, size] = [length + past, width / heads];
  const n = new Layers('gpt2');
  const ids = n.input('input_ids', 'int64', [1, length], ({ below }) => below(vocabulary));
  const positions = n.input('position_ids', 'int64', [1, length], (_, i) => past + i);
  const mask = n.input('attention_mask', 'int64', [1, total], (_, i) => Number(past === 0 || i >= 3));
  const caches = Array.from({ length: past === 0 ? 0 : layers }, (_, layer) =>
    ['key', 'value'].map((kind) => n.input(`past_${kind}_${layer}`, 'float32', [1, heads, past, size], ({ normal }) => normal())),
  );
  const words = n.weight([vocabulary, width], 1 / Math.sqrt(width));
  let x = n.add(n.gather(words, ids), n.gather(n.weight([1024, width], 0.01), positions));
  let masked = n.masked(mask);
  if (length > 1) {
    const later = Array.from({ length: length * total }, (_, at) => (at % total > past + Math.floor(at / total) ? -10000 : 0));
    masked = n.add(masked, n.constant(later, [1, 1, length, total]));
  }
  // Exporters write GPT-2's layers of convolutions as products of matrices.
  const product = (/** @type {Tensor} */ y, /** @type {number} */ to, gain = 1) =>
    n.reshape(n.gemm(n.reshape(y, length, extentOf(y, -1)), to, { gain, transB: false }), 1, length, to);
  const presents = [];
  for (let layer = 0; layer < layers; layer++) {
    const parts = n.split(product(n.layerNorm(x), 3 * width), [width, width, width], 2);
    const [q, ...fresh] = parts.map((part) => n.heads(part, heads));
    const [k, v] = fresh.map((one, i) => (past === 0 ? one : n.concat([caches[layer][i], one], 2)));
    presents.push([k, v]);
    const scores = n.divide(n.matmul(q, n.transpose(k, 0, 1, 3, 2)), n.constant(Math.sqrt(size)));
    const attended = n.matmul(n.softmax(n.add(scores, masked)), v);
    x = n.add(x, product(n.joined(attended), width, 0.3));
    x = n.add(x, product(n.geluTanh(product(n.layerNorm(x), 4 * width)), width, 0.4));
  }
  const states = n.reshape(n.layerNorm(x), length, width);
  const logits = n.node('Gemm', [states, words], { alpha: 1, beta: 1, transB: 1 }, [length, vocabulary]);
  n.output(n.reshape(logits, 1, length, vocabulary), 'logits');
  for (const [layer, [k, v]] of presents.entries()) {
    n.output(k, `present_key_${layer}`);
    n.output(v, `present_value_${layer}`);
  }
  return n;
}

/** ViT-Small/16 at 224x224 as timm has it: one product for q, k and v, and the scale of the scores on q and k. */
export function vitSmall() {
  const [width, heads, patch] = [384, 6, 16];
  const size = width / heads;
  const n = new Layers('vit_small');
  const epsilon = 1e-6;
  const patches = n.conv(n.picture('pixel_values', 224), width, patch, { stride: patch, pad: 0, gain: 1 });
  const rows = n.transpose(n.reshape(patches, 1, width, -1), 0, 2, 1);
  let x = n.concat([n.weight([1, 1, width], 0.5), rows], 1);
  const tokens = extentOf(x, 1);
  x = n.add(x, n.weight([1, tokens, width], 0.3));
  const scale = n.constant(size ** -0.25);
  for (let block = 0; block < 12; block++) {
    const all = n.reshape(n.linear(n.layerNorm(x, epsilon), 3 * width), 1, tokens, 3, heads, size);
    const parts = n.split(n.transpose(all, 2, 0, 3, 1, 4), [1, 1, 1], 0);
    const [q, k, v] = parts.map((part) => n.node('Squeeze', [part, n.integers([0])], {}, part.shape.slice(1)));
    const scores = n.matmul(n.multiply(q, scale), n.multiply(n.transpose(k, 0, 1, 3, 2), scale));
    x = n.add(x, n.linear(n.joined(n.matmul(n.softmax(scores), v)), width));
    const inner = n.gelu(n.linear(n.layerNorm(x, epsilon), 4 * width));
    x = n.add(x, n.linear(inner, width, { gain: 1.4 }));
  }
  const first = n.node('Gather', [n.layerNorm(x, epsilon), n.integers(0)], { axis: 1 }, [1, width]);
  n.output(n.gemm(first, 1000, { gain: 1.5 }), 'logits');
  return n;
}

/** A block of the U-Net of Stable Diffusion: convolutions, and attention to the picture and to a text; 320 channels of 32x32. */
export function unetBlock() {
  const [channels, side, heads, textWidth, timeWidth] = [320, 32, 8, 768, 1280];
  const n = new Layers('unet_block');
  const anything = (/** @type {import('./network.mjs').Random} */ { normal }) => normal();
  let x = n.input('sample', 'float32', [1, channels, side, side], anything);
  const time = n.input('time_embedding', 'float32', [1, timeWidth], anything);
  const text = n.input('encoder_hidden_states', 'float32', [1, 77, textWidth], anything);
  let y = n.conv(n.silu(n.groupNorm(x)), channels, 3);
  y = n.add(y, n.reshape(n.gemm(n.silu(time), channels), 1, channels, 1, 1));
  x = n.add(x, n.conv(n.silu(n.groupNorm(y)), channels, 3));
  y = n.conv(n.groupNorm(x, 32, 1e-6), channels, 1, { gain: 1 });
  y = n.reshape(n.transpose(y, 0, 2, 3, 1), 1, side * side, channels);
  y = n.add(y, n.attention(n.layerNorm(y), heads, { bias: false }));
  y = n.add(y, n.attention(n.layerNorm(y), heads, { context: text, bias: false }));
  const wide = 4 * channels;
  const [value, gate] = n.split(n.linear(n.layerNorm(y), 2 * wide), [wide, wide], 2);
  y = n.add(y, n.linear(n.multiply(value, n.gelu(gate)), channels, { gain: 1.4 }));
  y = n.transpose(n.reshape(y, 1, side, side, channels), 0, 3, 1, 2);
  n.output(n.add(n.conv(y, channels, 1, { gain: 1 }), x), 'out_sample');
  return n;
}

/** 10 ms of a network like RNNoise, for which calls cost more than products. */
export function gruDenoise() {
  const n = new Layers('gru_denoise');
  const features = n.input('features', 'float32', [1, 42], ({ normal }) => normal());
  const states = [24, 48, 96].map((width, i) => n.input(`h${i + 1}`, 'float32', [1, 1, width], ({ normal }) => 0.5 * normal()));
  /** One step. Returns the result as a row, and the new state. */
  const step = (/** @type {Tensor} */ x, /** @type {Tensor} */ state) => {
    const [depth, width] = [extentOf(x, -1), extentOf(state, -1)];
    const weights = [n.weight([1, 3 * width, depth], 1 / Math.sqrt(depth)), n.weight([1, 3 * width, width], 1 / Math.sqrt(width))];
    const inputs = [n.reshape(x, 1, 1, depth), ...weights, n.weight([1, 6 * width], 0.05), undefined, state];
    const [y, next] = n.nodeOf('GRU', inputs, { hidden_size: width, linear_before_reset: 1 }, [[1, 1, 1, width], state.shape]);
    return [n.reshape(y, 1, width), next];
  };
  const dense = n.node('Tanh', [n.gemm(features, 24)]);
  const [voice, voiceState] = step(dense, states[0]);
  const [noise, noiseState] = step(n.concat([dense, voice, features], 1), states[1]);
  const [clean, cleanState] = step(n.concat([voice, noise, features], 1), states[2]);
  n.output(n.sigmoid(n.gemm(clean, 22, { gain: 2 })), 'gains');
  n.output(n.sigmoid(n.gemm(voice, 1, { gain: 2 })), 'vad');
  for (const [i, state] of [voiceState, noiseState, cleanState].entries()) n.output(state, `h${i + 1}_out`);
  return n;
}

/** Tags of the 128 words of a sentence: embeddings of 100, two bidirectional layers of 256, 17 tags. */
export function bilstmTagger() {
  const [words, embedding, hidden, tags, vocabulary] = [128, 100, 256, 17, 20000];
  const n = new Layers('bilstm_tagger');
  const layer = (/** @type {Tensor} */ x) => {
    const depth = extentOf(x, -1);
    const weights = [n.weight([2, 4 * hidden, depth], 1 / Math.sqrt(depth)), n.weight([2, 4 * hidden, hidden], 1 / Math.sqrt(hidden))];
    const zeros = n.constant(new Array(2 * hidden).fill(0), [2, 1, hidden]);
    const inputs = [x, ...weights, n.weight([2, 8 * hidden], 0.05), undefined, zeros, zeros];
    const shapes = [[words, 2, 1, hidden], zeros.shape, zeros.shape];
    const [y] = n.nodeOf('LSTM', inputs, { hidden_size: hidden, direction: 'bidirectional' }, shapes);
    return n.reshape(n.transpose(y, 0, 2, 1, 3), 0, 0, -1);
  };
  const ids = n.input('word_ids', 'int64', [1, words], ({ below }) => below(vocabulary));
  const x = n.transpose(n.gather(n.weight([vocabulary, embedding], 1), ids), 1, 0, 2);
  n.output(n.linear(n.transpose(layer(layer(x)), 1, 0, 2), tags, { gain: 3 }), 'scores');
  return n;
}
