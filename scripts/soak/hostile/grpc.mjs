// Hostile messages over gRPC: frames of HTTP/2 through node:http2, and raw ones where even that is too polite.

import { connect } from 'node:net';
import http2 from 'node:http2';
import { gzipSync } from 'node:zlib';
import { patienceOf } from './http.mjs';
import { bytesField, grpcFrame, inferMessage, tag, varint, WIRE } from './wire.mjs';

/** @typedef {import('./http.mjs').Place} Place @typedef {import('./http.mjs').Kind} Kind */

const SERVICE = '/inference.GRPCInferenceService/';

/**
 * Sends the bytes of a call.
 * @param {Place} place
 * @param {Uint8Array} bytes
 * @param {{ method?: string, headers?: Record<string, string | string[]>, isEnded?: boolean }} [options]
 * @returns {Promise<string>} the status of gRPC, of HTTP, or the error of the stream
 */
function call({ session, size }, bytes, { method = 'ModelInfer', headers = {}, isEnded = true } = {}) {
  return new Promise((resolve) => {
    let stream;
    try {
      stream = session().request({ ':method': 'POST', ':path': SERVICE + method, 'content-type': 'application/grpc', te: 'trailers', ...headers });
    } catch (error) {
      return resolve(/** @type {NodeJS.ErrnoException} */ (error).code ?? 'error');
    }
    let status = 'closed';
    const timer = setTimeout(() => {
      stream.close(http2.constants.NGHTTP2_CANCEL);
      // On a connection that is never answered, a stream does not end by itself.
      resolve('no response');
    }, patienceOf(size));
    const note = (/** @type {any} */ given) => {
      // What cannot be parsed is INTERNAL as well, by the specification; the server's own faults have this text.
      if (given['grpc-status'] !== undefined)
        status = `grpc ${given['grpc-status']}${given['grpc-message'] === 'internal%20error' || given['grpc-message'] === 'internal error' ? ' (its own fault)' : ''}`;
      else if (given[':status'] !== undefined && given[':status'] !== 200) status = String(given[':status']);
    };
    stream
      .on('response', note)
      .on('trailers', note)
      .on('error', (error) => {
        const { code = 'error' } = /** @type {NodeJS.ErrnoException} */ (error);
        if (status === 'closed') status = stream.rstCode > 0 ? `reset with ${stream.rstCode}` : code;
      });
    stream.once('close', () => {
      clearTimeout(timer);
      resolve(status);
    });
    stream.resume();
    if (isEnded) stream.end(bytes);
    else stream.write(bytes);
  });
}

/** A request for an inference with a field of its contents. @param {Uint8Array} contents */
const withContents = (contents) => inferMessage('digits', [{ name: 'pixels', datatype: 'FP32', shape: [1, 1, 8, 8], parts: [bytesField(5, contents)] }]);

/** Bytes of which each, or each few, are a number. */
const NUMBERS = [[0], [1], [0x7f], [0xff, 0xff, 0xff, 0xff, 0x0f], [...Array(9).fill(0xff), 1]];

/** A field of packed numbers. @param {Place} place */
const packed = ({ random, size }) => Buffer.alloc(size, Buffer.from(random.pick(NUMBERS)));

/** @param {number} field of InferTensorContents @returns {Kind} */
const contents = (field) => (place) => call(place, grpcFrame(withContents(bytesField(field, packed(place)))));

/** Bytes of the same small field, again and again. @param {Uint8Array} field @param {number} size */
const many = (field, size) => Buffer.alloc(Math.ceil(size / field.length) * field.length, field);

/** 32 MiB of zeros, of small fields, compressed. */
const BOMBS = [[0], [0x2a, 0x00], [0x50, 0x01]].map((unit) => gzipSync(Buffer.alloc(2 ** 25, Buffer.from(unit))));

/** A frame of HTTP/2. @param {number} type @param {number} flags @param {number} id @param {Uint8Array} payload */
function frame(type, flags, id, payload) {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, payload]);
}

const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0))]);

/** Frames that floods are made of: each costs the receiver work, or an answer. */
const FLOODS = {
  settings: frame(4, 0, 0, Buffer.alloc(0)),
  ping: frame(6, 0, 0, Buffer.alloc(8)),
  priority: frame(2, 0, 1, Buffer.from([0, 0, 0, 3, 1])),
  empty: frame(0, 0, 1, Buffer.alloc(0)),
  unknown: frame(0xee, 0, 0, Buffer.alloc(64)),
  continuation: frame(9, 0, 1, Buffer.alloc(1000, 0)),
};

/**
 * Writes raw bytes to the port, and waits until the other side ends, or holds the connection.
 * @param {Place} place
 * @param {Uint8Array} bytes
 */
function raw({ ports, hold }, bytes) {
  const socket = connect({ port: ports.grpc, host: '127.0.0.1' });
  hold(socket);
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve('held'), 200);
    socket.on('error', () => undefined).resume();
    socket.once('close', () => {
      clearTimeout(timer);
      resolve('closed');
    });
    socket.write(bytes);
  });
}

/**
 * Opens streams that no other message shares a connection with.
 * @param {Place} place
 * @param {object} [settings] of HTTP/2
 */
function own({ ports, hold }, settings = {}) {
  const session = http2.connect(`http://127.0.0.1:${ports.grpc}`, { settings });
  session.on('error', () => undefined);
  hold(session);
  return session;
}

const HEADERS = { ':method': 'POST', ':path': `${SERVICE}ModelInfer`, 'content-type': 'application/grpc', te: 'trailers' };

const PIXELS = Buffer.alloc(256);

const VALID = inferMessage('digits', [{ name: 'pixels', datatype: 'FP32', shape: [1, 1, 8, 8] }], [PIXELS]);

/** @type {Record<string, Kind>} */
export const GRPC = {
  'packed: bool_contents': contents(1),
  'packed: int_contents': contents(2),
  'packed: int64_contents': contents(3),
  'packed: uint_contents': contents(4),
  'packed: uint64_contents': contents(5),
  'packed: fp32_contents': contents(6),
  'packed: fp64_contents': contents(7),
  'packed: shape': (place) => call(place, grpcFrame(bytesField(5, bytesField(3, packed(place))))),
  'unpacked numbers': (place) =>
    call(place, grpcFrame(withContents(many(Buffer.concat([tag(place.random.pick([1, 3, 5]), WIRE.varint), varint(1)]), place.size)))),
  'empty texts': (place) => call(place, grpcFrame(withContents(many(bytesField(8, ''), place.size)))),
  'empty inputs': (place) => call(place, grpcFrame(many(bytesField(5, ''), place.size))),
  'empty parameters, outputs, raw contents': (place) => call(place, grpcFrame(many(bytesField(place.random.pick([4, 6, 7]), ''), place.size))),
  'unknown fields': (place) =>
    call(place, grpcFrame(many(place.random.pick([Buffer.from([0x50, 0x01]), bytesField(999, ''), bytesField(999, 'x'.repeat(1000))]), place.size))),
  'nested groups': (place) => call(place, grpcFrame(Buffer.alloc(place.size, tag(place.random.pick([1, 5, 99]), WIRE.group)))),
  'ends of groups, wrong wire types': (place) => call(place, grpcFrame(Buffer.alloc(place.size, tag(place.random.pick([1, 5]), place.random.pick([4, 6, 7]))))),
  'long names': (place) => call(place, grpcFrame(bytesField(place.random.pick([1, 2, 3]), Buffer.alloc(place.size, place.random.pick(['x', 'é', '\xff']))))),
  'raw contents': (place) =>
    call(place, grpcFrame(inferMessage('digits', [{ name: 'pixels', datatype: 'FP32', shape: [1, 1, 8, 8] }], [Buffer.alloc(place.size)]))),
  'random bytes': (place) => call(place, grpcFrame(Buffer.from(Array.from({ length: Math.min(place.size, 5000) }, () => place.random.below(256))))),
  'other methods with large messages': (place) =>
    call(place, grpcFrame(bytesField(1, Buffer.alloc(place.size, 'x'))), {
      method: place.random.pick(['ModelReady', 'ModelMetadata', 'ServerLive', 'RepositoryIndex', 'RepositoryModelUnload', 'Nothing']),
    }),
  'length that lies': (place) =>
    call(place, grpcFrame(Buffer.alloc(Math.min(place.size, 2 ** 16)), { length: place.random.pick([0, 1, 2 ** 26, 2 ** 26 + 1, 2 ** 32 - 1]) })),
  'no whole head': (place) => call(place, Buffer.alloc(place.random.below(5))),
  'several messages': (place) => call(place, many(grpcFrame(VALID), Math.min(place.size, 2 ** 22))),
  'compressed, as it says': (place) =>
    call(place, grpcFrame(VALID, { flag: place.random.pick([1, 2, 255]) }), {
      headers: { 'grpc-encoding': place.random.pick(['identity', 'gzip', 'x']) },
    }),
  'gzip bomb': (place) =>
    call(place, grpcFrame(place.random.pick(BOMBS), { flag: 1 }), { headers: { 'grpc-encoding': place.random.pick(['gzip', 'gzip', 'deflate']) } }),
  'other headers': (place) => {
    const [name, value] = place.random.pick([
      ['content-type', 'text/plain'],
      ['grpc-timeout', '99999999999999H'],
      ['grpc-timeout', '-1x'],
      ['x-long', 'x'.repeat(Math.min(place.size, 60_000))],
      [':path', '/'],
      [':method', 'GET'],
      ['authorization', 'Bearer a, Bearer b'],
    ]);
    return call(place, grpcFrame(VALID), { headers: { [name]: value } });
  },
  async 'a message without an end'({ random, size, ...rest }) {
    const session = own({ random, size, ...rest });
    const stream = session.request(HEADERS);
    stream.on('error', () => undefined).write(Buffer.concat([grpcFrame(Buffer.alloc(0), { length: 2 ** 26 }), Buffer.alloc(Math.min(size, 2 ** 22))]));
    return 'held';
  },
  async 'rapid reset'(place) {
    const session = own(place);
    for (let i = 0; i < 100 && !session.destroyed; i++) {
      const stream = session.request(HEADERS);
      stream.on('error', () => undefined).close(http2.constants.NGHTTP2_CANCEL);
      if (i % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return 'reset';
  },
  async 'streams without a message'(place) {
    const session = own(place);
    for (let i = place.random.pick([10, 100, 1000]); i > 0 && !session.destroyed; i--) session.request(HEADERS).on('error', () => undefined);
    return 'held';
  },
  async 'responses that are not read'(place) {
    const session = own(place, { initialWindowSize: 0 });
    for (let i = place.random.pick([1, 20, 100]); i > 0 && !session.destroyed; i--)
      session
        .request(HEADERS)
        .on('error', () => undefined)
        .end(grpcFrame(VALID));
    return 'held';
  },
  'floods of frames': (place) => {
    const { random, size } = place;
    const open = frame(1, 0, 1, Buffer.from([0x83, 0x86]));
    return raw(place, Buffer.concat([PREFACE, open, many(random.pick(Object.values(FLOODS)), Math.min(size, 2 ** 20))]));
  },
  'no HTTP/2': (place) =>
    raw(
      place,
      place.random.pick([
        Buffer.from('GET / HTTP/1.1\r\n\r\n'),
        Buffer.alloc(1000),
        PREFACE.subarray(0, 10),
        Buffer.concat([PREFACE, Buffer.alloc(1000, 255)]),
      ]),
    ),
};
