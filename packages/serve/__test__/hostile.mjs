// Requests that no well-meaning client sends, the same for the same seed. Wanted are answers in the form of the protocol.

import http from 'node:http';
import { gzipSync } from 'node:zlib';
import { generator } from '../../../__test__/lib/random.mjs';
import { PICTURE } from './support.mjs';

const PATHS = [
  '/v2/models/digits/infer',
  '/v2/models/digits/versions/1/infer',
  '/v1/embeddings',
  '/v2/repository/index',
  '/v1/completions',
  '/v1/chat/completions',
  '/v1/nothing',
  '/v2/models/digits/ready',
  '/v2/repository/models/digits/load',
  '/v2/models/none/infer',
  '/v2/models/..%2F..%2Fetc%2Fpasswd/infer',
  '/v2/models/%00/infer',
  '/v2/models/__proto__/infer',
  '/v2/models/digits/versions/-1/infer',
  `/v2/models/${'x'.repeat(600)}/infer`,
  '/v2/models/%E0%A4%A/infer',
  '//v2//models',
  '/v1/models/constructor',
  '/%ff%fe',
];

/** Values where others belong. */
const VALUES = [
  null,
  true,
  -1,
  0,
  1.5,
  2 ** 53,
  -(2 ** 63),
  1e308,
  '',
  'x',
  '\u0000',
  '\ud800',
  'x'.repeat(1000),
  [],
  [[]],
  {},
  { length: 5 },
  [null],
  Array(50).fill([1]),
];

/**
 * Makes requests.
 * @param {number} seed
 */
export function hostileRequests(seed) {
  const { below, pick, chance } = generator(seed);
  const bytes = (/** @type {number} */ count) => Buffer.from(Array.from({ length: count }, () => below(256)));

  /** Replaces something in a value. @param {any} value @returns {any} */
  function spoil(value) {
    if (value === null || typeof value !== 'object' || chance(0.2)) return pick(VALUES);
    const copy = Array.isArray(value) ? [...value] : { ...value };
    const keys = Object.keys(copy);
    if (keys.length === 0) return pick(VALUES);
    const key = pick(keys);
    if (chance(0.15)) delete copy[key];
    else if (chance(0.1)) copy[pick(['__proto__', 'constructor', 'parameters', 'data', ''])] = pick(VALUES);
    else copy[key] = spoil(copy[key]);
    return copy;
  }

  /** A right request of either protocol. */
  const valid = (/** @type {string} */ path) =>
    path.startsWith('/v1')
      ? { model: pick(['words', 'digits']), input: pick([['a dog'], 'a dog', [1, 2], [[1], [2]]]), encoding_format: pick(['float', 'base64']) }
      : { id: 'x', inputs: [PICTURE], outputs: [{ name: 'probabilities', parameters: { binary_data: chance(0.5) } }], parameters: { timeout: 5_000_000 } };

  /** A body with raw bytes, whose lengths may lie. */
  function binary() {
    const raw = bytes(pick([0, 1, 255, 256, 257]));
    const head = JSON.stringify({ inputs: [{ ...PICTURE, data: undefined, parameters: { binary_data_size: pick([256, 0, -1, 2 ** 40, raw.length]) } }] });
    const length = pick([head.length, 0, head.length - 1, head.length + 1, 10 ** 9, -1, NaN, '0x10', '']);
    return { body: Buffer.concat([Buffer.from(head), raw]), headers: { 'inference-header-content-length': String(length) } };
  }

  /**
   * JSON that is long: it goes to the thread, or is too much for it.
   * @param {string} path
   * @returns {{ body: Buffer, headers: Record<string, string> }}
   */
  function long(path) {
    const value = pick(['{}', '[]', '""', '0', '1e-7', 'null', '[[0]]', '"\\u0000[{"', '{"a":0}', 'true']);
    const values = Array(2 ** pick([12, 14, 16, 18]))
      .fill(value)
      .join();
    const tensor = JSON.stringify({ ...PICTURE, shape: [pick([values.length, 1, 2 ** 16])], data: 0, name: pick(['pixels', 'x']) });
    const json = path.startsWith('/v1')
      ? `{"model":"words","${pick(['input', 'prompt', 'messages', 'other'])}":[${values}]}`
      : `{"inputs":[${tensor.replace('"data":0', `"data":[${values}]`)}${chance(0.2) ? `,${values}` : ''}]}`;
    const text = chance(0.2) ? json.slice(0, -pick([1, 2, 3])) : chance(0.1) ? '['.repeat(2 ** 18) : json;
    const body = Buffer.from(text);
    if (chance(0.3)) return { body: gzipSync(body, { level: 1 }), headers: { 'content-encoding': 'gzip' } };
    if (chance(0.2)) return { body, headers: { 'inference-header-content-length': String(pick([body.length, body.length - 1, 2 ** 30])) } };
    return { body, headers: {} };
  }

  /** Headers that are too many, too long, or say what is not so. */
  const headers = () =>
    pick([
      {},
      { 'content-type': 'text/plain;charset=\u00ff' },
      { 'content-encoding': pick(['gzip', 'br', 'x', 'deflate, gzip']) },
      { 'x-request-id': 'a'.repeat(500) },
      Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`x-${i}`, '1'])),
      { 'x-long': 'a'.repeat(below(20_000)) },
      { origin: pick(['null', 'https://example.com', 'x', 'http://localhost']) },
      { host: pick(['', 'example.com', 'x y', '[::1', '127.0.0.1:99999', 'localhost:x', '\u00ff']) },
      { 'x-forwarded-host': pick(['', ',', 'a,b', 'x y']), origin: 'https://a' },
      { authorization: pick(['', 'Bearer', 'Bearer x', 'Basic eDp5', 'x'.repeat(5000)]) },
      { connection: 'close' },
      { 'transfer-encoding': 'chunked' },
      { expect: pick(['100-continue', 'x']) },
    ]);

  return {
    /** @returns {{ method: string, path: string, headers: Record<string, string>, body: Buffer }} */
    next() {
      const method = pick(['POST', 'POST', 'POST', 'POST', 'GET', 'PUT', 'DELETE', 'OPTIONS']);
      const path = chance(0.7) ? PATHS[below(4)] : pick(PATHS);
      if (chance(0.2)) return { method: 'POST', path: PATHS[below(2)], ...binary() };
      if (chance(0.02)) return { method: 'POST', path, ...long(path) };
      // Nobody wants them.
      if (chance(0.01)) return { method: pick(['POST', 'PUT']), path: pick(PATHS), headers: {}, body: Buffer.alloc(2 ** pick([20, 22]), '[') };
      const json = JSON.stringify(chance(0.1) ? pick(VALUES) : spoil(valid(path)));
      const text = chance(0.1) ? json.slice(0, below(json.length)) : chance(0.03) ? '['.repeat(20_000) : json;
      const body = chance(0.1) ? bytes(below(500)) : Buffer.from(text);
      return { method, path, headers: chance(0.2) ? headers() : {}, body };
    },
  };
}

/**
 * Sends a request as it is, which `fetch()` would not.
 * @param {http.Agent} agent
 * @param {string} url of the server
 * @param {{ method: string, path: string, headers?: Record<string, string>, body: Buffer }} request
 * @returns {Promise<{ status: number, type: string | undefined, text: string }>} rejected where the connection ends without an answer
 */
export function send(agent, url, { method, path, headers = {}, body }) {
  return new Promise((resolve, reject) => {
    const length = 'transfer-encoding' in headers ? {} : { 'content-length': body.length };
    const request = http.request(url + path, { method, agent, headers: { ...headers, ...length } }, async (response) => {
      const chunks = [];
      try {
        for await (const chunk of response) chunks.push(chunk);
        resolve({ status: response.statusCode ?? 0, type: response.headers['content-type'], text: Buffer.concat(chunks).toString() });
      } catch (error) {
        reject(error);
      }
    });
    request.on('error', reject);
    request.end(body);
  });
}
