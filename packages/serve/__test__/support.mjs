// A server for tests: on free ports, with a folder of models.

import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { serve } from 'webnn-node-serve';
import { FLOAT, node, value, writeModel } from '../../../__test__/onnx/model-writer.mjs';

/** Reads digits of 8x8 pixels: input `pixels` [batch, 1, 8, 8], output `probabilities` [batch, 10]. */
export const DIGITS = fileURLToPath(new URL('../../../examples/http-endpoint/digits.onnx', import.meta.url));

const WORDS = fileURLToPath(new URL('../../../__test__/documentation/files/', import.meta.url));

/**
 * Files of an encoder that knows nine words, and reads at most 64.
 * @param {string} name
 */
export const wordsFiles = (name) => ({
  [`${name}/model.onnx`]: `${WORDS}encoder.onnx`,
  [`${name}/tokenizer.json`]: `${WORDS}tokenizer.json`,
  [`${name}/tokenizer_config.json`]: {},
  [`${name}/config.json`]: { max_position_embeddings: 64 },
});

/**
 * A folder of models, removed after the test.
 * @param {{ after: (done: () => void) => void }} t
 * @param {Record<string, string | object>} files by path: a file to copy, bytes, or an object to write as JSON
 * @returns {string}
 */
export function repositoryOf(t, files) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-serve-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, source] of Object.entries(files)) {
    const target = path.join(folder, name);
    mkdirSync(path.dirname(target), { recursive: true });
    if (typeof source === 'string') cpSync(source, target);
    else writeFileSync(target, source instanceof Uint8Array ? source : JSON.stringify(source));
  }
  return folder;
}

/**
 * Starts a server that is closed after the test.
 * @param {{ after: (done: () => void | Promise<void>) => void }} t
 * @param {import('../lib/serve.js').ServeOptions} options
 */
export async function startServer(t, options) {
  // On a busy machine, the event loop of a test is late, which is no reason to refuse its requests.
  const limits = { maxEventLoopDelayMs: 0, ...options.limits };
  const server = await serve({ http: 0, log: false, ...options, limits });
  t.after(() => server.close());
  return server;
}

/** A picture as a v2 request has it. */
export const PICTURE = { name: 'pixels', shape: [1, 1, 8, 8], datatype: 'FP32', data: Array.from({ length: 64 }, (_, i) => i % 17) };

/**
 * Sends a body, JSON unless it is bytes.
 * @param {string} url
 * @param {unknown} body
 * @param {Record<string, string>} [headers]
 */
export async function post(url, body, headers = {}) {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array;
  const response = await fetch(url, { method: 'POST', body: isRaw ? /** @type {any} */ (body) : JSON.stringify(body), headers });
  return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
}

/** The same, with the answer's JSON. @type {(...args: Parameters<typeof post>) => Promise<{ status: number, json: any }>} */
export async function postJson(...args) {
  const { status, bytes } = await post(...args);
  return { status, json: JSON.parse(bytes.toString()) };
}

/**
 * Writes a model whose run takes seconds: powers of a matrix `x` [n, n].
 * @param {{ size?: number, products?: number }} [options]
 */
export function slowModel({ size = 1500, products = 40 } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-slow-'));
  const file = path.join(folder, 'model.onnx');
  const names = ['x', ...Array.from({ length: products - 1 }, (_, i) => `x${i}`), 'y'];
  const nodes = names.slice(1).map((name, i) => node('MatMul', [names[i], 'x'], [name]));
  writeFileSync(file, writeModel({ inputs: [value('x', FLOAT, ['n', 'n'])], outputs: [value('y', FLOAT, ['n', 'n'])], nodes }));
  const x = { data: new Float32Array(size * size).fill(1 / size), shape: [size, size] };
  return { file, feeds: { x }, remove: () => rmSync(folder, { recursive: true }) };
}
