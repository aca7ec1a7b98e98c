// Clients of the port for gRPC: one of other people, and frames of HTTP/2 as no client sends them.

import { once } from 'node:events';
import http2 from 'node:http2';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { DIGITS, repositoryOf, startServer } from './support.mjs';
import { bytesField, varint } from './wire.mjs';

const FOLDER = new URL('../lib/grpc/', import.meta.url);

/** Loads a .proto file as users of grpc-js do. @returns {any} */
const load = (/** @type {string} */ file) =>
  grpc.loadPackageDefinition(
    loadSync(fileURLToPath(new URL(file, FOLDER)), { keepCase: true, longs: String, enums: String, defaults: true, arrays: true, objects: true, oneofs: true }),
  );

const { inference } = load('inference.proto');
const { Health } = load('protos/grpc/health/v1/health.proto').grpc.health.v1;
const reflection = {
  v1: load('protos/grpc/reflection/v1/reflection.proto').grpc.reflection.v1.ServerReflection,
  v1alpha: load('protos/grpc/reflection/v1alpha/reflection.proto').grpc.reflection.v1alpha.ServerReflection,
};

/** Codes of gRPC by name. */
export const { status: CODES } = grpc;

/** A server with gRPC that is closed after the test, and its address. */
export async function grpcServer(t, options) {
  const server = await startServer(t, { grpc: 0, http: false, ...options });
  return { server, address: server.urls.grpc.replace('grpc://', '') };
}

/**
 * grpc-js for a server.
 * @param {{ after: (done: () => void) => void }} t
 * @param {string} address
 * @param {Record<string, string>} [metadata] of all calls
 */
export function clientOf(t, address, metadata = {}) {
  const credentials = grpc.credentials.createInsecure();
  const options = { 'grpc.max_send_message_length': -1, 'grpc.max_receive_message_length': -1, 'grpc.use_local_subchannel_pool': 1 };
  const [service, health] = [inference.GRPCInferenceService, Health].map((Service) => new Service(address, credentials, options));
  t.after(() => [service, health].forEach((client) => client.close()));
  const headers = new grpc.Metadata();
  for (const [name, value] of Object.entries(metadata)) headers.set(name, value);
  const caller =
    (client) =>
    (name, message = {}, callOptions = {}) =>
      new Promise((resolve) => {
        client[name](message, headers, callOptions, (error, answer) => resolve(error === null ? answer : { code: CODES[error.code], details: error.details }));
      });
  return {
    /** Calls GRPCInferenceService: the answer, or a code and its details. @type {(name: string, message?: object, options?: object) => Promise<any>} */
    call: caller(service),
    /** The same of grpc.health.v1. @type {(name: string, message?: object) => Promise<any>} */
    health: caller(health),
    watch: (message) => health.Watch(message, headers),
    /** Asks for a description of the services. @type {(version: 'v1' | 'v1alpha', requests: object[]) => Promise<any[]>} */
    async reflect(version, requests) {
      const client = new reflection[version](address, credentials, options);
      t.after(() => client.close());
      const stream = client.ServerReflectionInfo(headers);
      const answers = [];
      // One after the other, as tools ask.
      for (const request of requests) {
        stream.write(request);
        const [answer] = await once(stream, 'data');
        answers.push(answer);
      }
      stream.end();
      await once(stream.resume(), 'end');
      return answers;
    },
  };
}

/** A picture of digits. */
export const picture = (/** @type {object} */ more = {}) => ({ name: 'pixels', datatype: 'FP32', shape: [1, 1, 8, 8], ...more });

export const rawPicture = () => ({ model_name: 'digits', inputs: [picture()], raw_input_contents: [Buffer.alloc(256)] });

/**
 * A connection of HTTP/2, which is destroyed after the test.
 * @param {{ after: (done: () => void) => void }} t
 * @param {string} address
 * @param {import('node:http2').ClientSessionOptions} [options]
 */
export function sessionOf(t, address, options) {
  // In millions of bytes; what is to be sent counts.
  const session = http2.connect(`http://${address}`, { maxSessionMemory: 1000, ...options });
  session.on('error', () => undefined);
  t.after(() => session.destroy());
  return session;
}

export const INFER = '/inference.GRPCInferenceService/ModelInfer';
export const LIVE = '/inference.GRPCInferenceService/ServerLive';
export const METADATA = '/inference.GRPCInferenceService/ServerMetadata';

/** A message as it is on the wire. */
export function envelope(/** @type {Uint8Array} */ bytes, { isCompressed = false, length = bytes.length } = {}) {
  const head = Buffer.alloc(5);
  head[0] = isCompressed ? 1 : 0;
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, bytes]);
}

/**
 * Begins a call; what it sends is up to the test.
 * @param {import('node:http2').ClientHttp2Session} session
 * @param {string} path
 * @param {Record<string, string>} [headers]
 */
export function begin(session, path, headers = {}) {
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers }, { endStream: false });
  stream.on('error', () => undefined);
  return { stream, answer: answerOf(stream) };
}

/**
 * @param {import('node:http2').ClientHttp2Stream} stream
 * @returns {Promise<{ code: string, details: string, bytes: Buffer, reset: number }>} the code is `NONE` without a status
 */
async function answerOf(stream) {
  /** @type {any} */
  let status = {};
  const chunks = [];
  stream.on('response', (headers) => (status = { ...status, ...headers }));
  stream.on('trailers', (headers) => (status = { ...status, ...headers }));
  stream.on('data', (chunk) => chunks.push(chunk));
  if (!stream.destroyed) await new Promise((resolve) => stream.once('close', () => resolve(undefined)));
  const code = status['grpc-status'] === undefined ? 'NONE' : CODES[Number(status['grpc-status'])];
  return { code, details: decodeURIComponent(String(status['grpc-message'] ?? '')), bytes: Buffer.concat(chunks), reset: stream.rstCode ?? 0 };
}

/**
 * A whole call.
 * @param {import('node:http2').ClientHttp2Session} session
 * @param {string} path
 * @param {Uint8Array} [bytes] all that it sends
 * @param {Record<string, string>} [headers]
 */
export function callRaw(session, path, bytes = envelope(Buffer.alloc(0)), headers = {}) {
  const { stream, answer } = begin(session, path, headers);
  stream.end(bytes);
  return answer;
}

export const WATCH = '/grpc.health.v1.Health/Watch';

/** A server with one model for digits. */
export const digits = (t, options = {}) => grpcServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), ...options });

/** ModelInferRequest of pictures with raw bytes. */
export const pictures = (count = 1) => {
  const input = Buffer.concat([bytesField(1, 'pixels'), bytesField(2, 'FP32'), bytesField(3, Buffer.concat([count, 1, 8, 8].map(varint)))]);
  return Buffer.concat([bytesField(1, 'digits'), bytesField(5, input), bytesField(7, Buffer.alloc(count * 256))]);
};
