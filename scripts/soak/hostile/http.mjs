// Hostile messages over HTTP/1.1, written to sockets byte by byte: no client library decides what is possible.

import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';

/**
 * @typedef {ReturnType<typeof import('../../../__test__/lib/random.mjs').generator>} Random
 *
 * What a message needs: random numbers, a size in bytes, and how to reach the server.
 * @typedef {object} Place
 * @property {Random} random
 * @property {number} size
 * @property {{ http: number, grpc: number }} ports
 * @property {(socket: { destroy: () => void, once: (event: 'close', listener: () => void) => unknown }) => void} hold keeps a connection open until later messages push it out
 * @property {() => import('node:http2').ClientHttp2Session} session a connection for gRPC that messages share
 *
 * Sends one message, or more.
 * @typedef {(place: Place) => Promise<string>} Kind resolved with what came of it
 */

/** How long a caller waits for a response: some leave before it can be there. @param {number} size of the message */
export const patienceOf = (size) => 1000 + (size / 2 ** 20) * 100;

/** Bytes that are written at once. */
const PIECE = 2 ** 20;

const INFER = '/v2/models/digits/infer';

/** Paths that take bodies, and some that do not. */
const PATHS = [
  INFER,
  '/v1/embeddings',
  '/v1/completions',
  '/v1/chat/completions',
  '/v2/repository/index',
  '/v2/models/none/infer',
  '/v2/models/digits/versions/9/infer',
  '/nothing',
  '/v2/health/live',
  '/v1/models',
];

/** @param {number} port */
function open(port) {
  const socket = connect({ port, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  return socket;
}

/**
 * The status of the first response, or how the connection ended without one.
 * @param {import('node:net').Socket} socket
 * @param {number} size of the message
 * @returns {Promise<string>}
 */
function outcome(socket, size) {
  return new Promise((resolve) => {
    let text = '';
    const timer = setTimeout(() => end('no response'), patienceOf(size));
    const end = (/** @type {string} */ what) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(what);
    };
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1', 0, 100);
      const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(text) ?? [];
      // Permission to send a body is no response.
      if (status === '100') text = '';
      else if (status !== undefined) end(status);
    });
    socket.once('error', (error) => end(/** @type {NodeJS.ErrnoException} */ (error).code ?? 'error')).once('close', () => end('closed'));
  });
}

/** @param {string} method @param {string} path @param {Record<string, string | number>} headers */
const head = (method, path, headers) =>
  `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`;

/**
 * Writes bytes in pieces, as fast as they are taken, until they are written or the other side has had enough.
 * @param {import('node:net').Socket} socket
 * @param {Iterable<Uint8Array>} pieces
 */
async function write(socket, pieces) {
  for (const piece of pieces) {
    if (socket.destroyed || !socket.writable) return;
    if (!socket.write(piece)) await new Promise((resolve) => socket.once('drain', resolve).once('close', resolve));
  }
}

/** @param {Buffer} bytes */
function* cut(bytes) {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

/**
 * Posts a body.
 * @param {Place} place
 * @param {string} path
 * @param {Buffer | string} body
 * @param {Record<string, string | number>} [headers]
 */
async function post({ ports, size }, path, body, headers = {}) {
  const socket = open(ports.http);
  const result = outcome(socket, size);
  const bytes = Buffer.from(body);
  socket.write(head('POST', path, { 'content-length': bytes.length, ...headers }));
  await write(socket, cut(bytes));
  return result;
}

/** Text that repeats up to a size. @param {string} before @param {string} unit @param {string} after @param {number} size */
const repeated = (before, unit, after, size) =>
  Buffer.concat([Buffer.from(before), Buffer.alloc(Math.ceil(size / unit.length) * unit.length, unit), Buffer.from(after)]);

/** Beginnings of JSON in which lists of anything can stand. */
const BEGINNINGS = [
  '[',
  '{"inputs":[',
  '{"inputs":[{"name":"pixels","shape":[1,1,8,8],"datatype":"FP32","data":[',
  '{"model":"embeddings","input":[',
  '{"model":"letters","messages":[',
];

/** A list of the same, as JSON. @param {string} unit @param {string} last @returns {Kind} */
const json = (unit, last) => (place) => {
  const before = place.random.pick(BEGINNINGS);
  const after = { '[': ']', '{': ']}' }[before[0]] ?? '';
  return post(place, place.random.pick(PATHS), repeated(before, unit, `${last}${before.includes('data') ? ']}' : ''}${after}`, place.size));
};

/** A body for a model of texts. @param {Place} place @param {string} path @param {object} body */
const ask = (place, path, body) => post(place, path, JSON.stringify(body));

/** What 32 MiB become when they are compressed, by what they are made of. */
const BOMBS = ['{},', '0', ' '].map((unit) => gzipSync(Buffer.alloc(2 ** 25, unit)));

/** Tokens of bytes that begin characters of four bytes, or go on with one. */
const INCOMPLETE = [0xf0, 0x80, 0xbf, 0xe2];

/** @type {Record<string, Kind>} */
export const HTTP = {
  'JSON: objects': json('{},', '{}'),
  'JSON: lists': json('[],', '[]'),
  'JSON: numbers': json('1,', '1'),
  'JSON: long numbers': json('123456789.123e-300,', '1'),
  'JSON: strings': json('"",', '""'),
  'JSON: members': ({ random, size, ...rest }) => {
    const count = Math.ceil(size / 12);
    const members = Array.from({ length: Math.min(count, 200_000) }, (_, i) => `"m${i}":0`);
    return post({ random, size, ...rest }, random.pick(PATHS), `{"inputs":[{${members}}]}`);
  },
  'JSON: deep': (place) => post(place, place.random.pick(PATHS), Buffer.alloc(place.size, place.random.pick(['[', '{"a":', '[{"a":']))),
  'JSON: one long string': (place) =>
    post(place, place.random.pick(PATHS), repeated('{"model":"embeddings","input":"', place.random.pick(['a', 'a ', '\\u0000', '漢']), '"}', place.size)),
  'invalid UTF-8': (place) => post(place, place.random.pick(PATHS), Buffer.alloc(place.size, Buffer.from([0x7b, 0x22, 0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80]))),
  'gzip bomb': (place) =>
    post(place, place.random.pick(PATHS), place.random.pick(BOMBS), { 'content-encoding': place.random.pick(['gzip', 'gzip', 'deflate', 'gzip, gzip', 'br']) }),
  'unknown path with a body': (place) => post(place, '/nothing', Buffer.alloc(place.size)),
  'unknown model with a body': (place) => post(place, '/v2/models/none/infer', Buffer.alloc(place.size), { 'inference-header-content-length': 10 }),
  'models are unloaded': (place) =>
    post(place, `/v2/repository/models/${place.random.pick(['digits', '..%2Fdigits', 'letters', '__proto__'])}/${place.random.pick(['load', 'unload'])}`, '{}'),

  async 'endless chunks'({ ports, size, hold }) {
    const socket = open(ports.http);
    const result = outcome(socket, size);
    socket.write(head('POST', INFER, { 'transfer-encoding': 'chunked' }));
    const chunk = Buffer.alloc(Math.min(PIECE, size), '1');
    function* pieces() {
      for (let sent = 0; sent < size; sent += chunk.length) yield Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')]);
    }
    await write(socket, pieces());
    hold(socket);
    return Promise.race([result, Promise.resolve('held')]);
  },
  async 'many tiny chunks'({ ports, size }) {
    const socket = open(ports.http);
    const result = outcome(socket, size);
    socket.write(head('POST', '/v1/embeddings', { 'transfer-encoding': 'chunked' }));
    await write(socket, cut(Buffer.alloc(Math.min(size, 2 ** 20), '1\r\n1\r\n')));
    return result;
  },
  async 'slow body'({ random, ports, hold }) {
    const socket = open(ports.http);
    socket.write(`${head('POST', random.pick(PATHS), { 'content-length': random.pick([100, 2 ** 20, 2 ** 26]) })}{`);
    hold(socket);
    return 'held';
  },
  async 'slow headers'({ random, ports, hold }) {
    const socket = open(ports.http);
    socket.write(random.pick(['P', 'POST / HTTP/1.1\r\n', 'GET /v2 HTTP/1.1\r\nHost: x\r\nX-A: ']));
    hold(socket);
    return 'held';
  },
  async 'silent connections'({ random, ports, hold }) {
    for (let i = random.below(20); i >= 0; i--) hold(open(random.pick([ports.http, ports.grpc])));
    return 'held';
  },
  async 'wrong length'({ random, ports, size }) {
    const socket = open(ports.http);
    const result = outcome(socket, size);
    const length = random.pick([
      '-1',
      '1e3',
      '0x10',
      '99999999999999999999',
      String(size + 1),
      String(Math.max(0, size - 1)),
      '1\r\nContent-Length: 2',
      '5\r\nTransfer-Encoding: chunked',
    ]);
    socket.write(head('POST', random.pick(PATHS), { 'content-length': length }));
    await write(socket, cut(Buffer.alloc(size, ' ')));
    socket.end();
    return result;
  },
  async 'pipelined requests'({ random, ports, size }) {
    const socket = open(ports.http);
    const result = outcome(socket, size);
    const one = head('GET', random.pick(['/v2/health/live', '/v1/models', '/v2/models/digits']), {});
    socket.write(one.repeat(1 + random.below(500)) + random.pick(['', 'garbage\r\n\r\n', '\0'.repeat(100), 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n']));
    return result;
  },
  async 'responses that are not read'({ random, ports, hold }) {
    const socket = open(ports.http);
    socket.pause();
    const body = JSON.stringify({ model: 'embeddings', input: Array(64).fill('a dog'), encoding_format: 'float' });
    const one = head('POST', '/v1/embeddings', { 'content-length': body.length }) + body;
    await write(socket, cut(Buffer.from(one.repeat(1 + random.below(30)))));
    hold(socket);
    return 'held';
  },
  async 'streams that are not read'({ ports, hold }) {
    const socket = open(ports.http);
    socket.pause();
    const body = JSON.stringify({ model: 'letters', prompt: 'a', max_tokens: 200, n: 8, stream: true, logprobs: 5 });
    socket.write(head('POST', '/v1/completions', { 'content-length': body.length }) + body);
    hold(socket);
    return 'held';
  },
  async 'reset behind the headers'({ random, ports }) {
    const socket = open(ports.http);
    await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
    socket.write(head('POST', random.pick(PATHS), { 'content-length': 1000 }));
    await new Promise((resolve) => setImmediate(resolve));
    socket.resetAndDestroy();
    return 'reset';
  },
  async 'huge headers'({ random, ports, size }) {
    const socket = open(ports.http);
    const result = outcome(socket, size);
    const most = Math.min(size, 2 ** 20);
    const request = random.pick([
      () => `GET /${'x'.repeat(most)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`,
      () => head('GET', '/v1/models', { 'x-long': 'y'.repeat(most) }),
      () => head('GET', '/v1/models', Object.fromEntries(Array.from({ length: Math.min(3000, most >> 3) }, (_, i) => [`x-${i}`, '']))),
      () => head('GET', '/v1/models', { authorization: `Bearer ${'k'.repeat(most)}` }),
      () => head('GET', '/v1/models', { host: `${'h'.repeat(most)}`, origin: `https://${'o'.repeat(Math.min(most, 4000))}` }),
    ]);
    await write(socket, cut(Buffer.from(request())));
    return result;
  },
  async 'no HTTP'({ random, ports, size }) {
    const socket = open(ports.http);
    const result = outcome(socket, size);
    socket.end(Buffer.from(Array.from({ length: 1 + random.below(300) }, () => random.below(256))));
    return result;
  },

  'raw bytes that lie': (place) => {
    const { random, size } = place;
    const shape = random.pick([[1, 1, 8, 8], [2 ** 31, 1, 8, 8], [0, 1, 8, 8], [1e15, 1e15], Array(1000).fill(1), [-1], [size >> 8, 1, 8, 8]]);
    const text = JSON.stringify({ inputs: [{ name: 'pixels', shape, datatype: 'FP32', parameters: { binary_data_size: random.pick([256, size, 0, -1]) } }] });
    const length = random.pick([text.length, 0, text.length - 1, size, -1, 'x']);
    return post(place, INFER, Buffer.concat([Buffer.from(text), Buffer.alloc(size)]), { 'inference-header-content-length': length });
  },
  'large batches': (place) => {
    const rows = Math.min(8192, (place.size >> 8) + 1);
    const raw = Buffer.alloc(rows * 256);
    const text = JSON.stringify({ inputs: [{ name: 'pixels', shape: [rows, 1, 8, 8], datatype: 'FP32', parameters: { binary_data_size: raw.length } }] });
    return post(place, INFER, Buffer.concat([Buffer.from(text), raw]), { 'inference-header-content-length': text.length });
  },
  'embeddings of many texts': (place) =>
    ask(place, '/v1/embeddings', {
      model: 'embeddings',
      input: Array(place.random.pick([100, 2048, 2049])).fill(place.random.pick(['a', 'the dog '.repeat(30)])),
      encoding_format: 'float',
    }),
  'embeddings of many tokens': (place) =>
    ask(place, '/v1/embeddings', {
      model: 'embeddings',
      input: place.random.pick([Array(Math.min(place.size, 10 ** 6)).fill(1), Array(Math.min(place.size, 2048)).fill([1, 2 ** 31]), [[2 ** 53 - 1]], [[-1]]]),
    }),
  'logit_bias of incomplete characters': (place) =>
    ask(place, '/v1/completions', {
      model: 'letters',
      prompt: 'a',
      max_tokens: 200,
      logit_bias: { [place.random.pick(INCOMPLETE)]: 100 },
      n: place.random.pick([1, 8]),
      stream: place.random.chance(0.5),
    }),
  'logit_bias of all tokens': (place) =>
    ask(place, '/v1/completions', {
      model: 'letters',
      prompt: 'a',
      max_tokens: 50,
      logit_bias: Object.fromEntries(Array.from({ length: place.random.pick([258, 1024, 5000]) }, (_, i) => [i, -100])),
    }),
  'many prompts': (place) =>
    ask(place, '/v1/completions', {
      model: 'letters',
      prompt: Array(place.random.pick([10, 100, 2000])).fill('a'),
      n: place.random.pick([1, 16, 128]),
      max_tokens: 200,
      stream: place.random.chance(0.5),
    }),
  'logprobs of all': (place) =>
    ask(place, '/v1/chat/completions', {
      model: 'letters',
      messages: [{ role: 'user', content: 'a' }],
      logprobs: true,
      top_logprobs: 20,
      max_tokens: 200,
      n: 4,
    }),
  'many messages': (place) =>
    ask(place, '/v1/chat/completions', {
      model: 'letters',
      messages: Array(Math.min(50_000, place.size >> 5)).fill({ role: 'user', content: place.random.pick(['', 'a', [], [{ type: 'text', text: '' }]]) }),
    }),
  'many stops': (place) =>
    ask(place, '/v1/completions', { model: 'letters', prompt: 'a', max_tokens: 200, stop: Array(4).fill('a'.repeat(Math.min(place.size, 10 ** 6)) + 'b') }),
};
