// What well-meaning callers see meanwhile, in a process of its own: health every 50 ms, a valid request every 250 ms. Told where the
// server is by a message; answers with a report when told to stop.

import http from 'node:http';
import http2 from 'node:http2';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { PICTURE } from '../../../packages/serve/__test__/support.mjs';
import { grpcFrame, inferMessage } from './wire.mjs';

const [HEALTH_MS, VALID_MS, PATIENCE_MS] = [50, 250, 30_000];

/** @typedef {{ ok: boolean, refused?: boolean, why: string }} Result */

/** @typedef {{ slowest: Record<string, number>, count: Record<string, number>, refused: number, failed: Record<string, number>, ownDelay: number }} Report */

/**
 * Sends a request, by default on a connection of its own, as probes do.
 * @param {{ port: number, key: string | null, agent?: http.Agent }} target
 * @param {string} method
 * @param {string} path
 * @param {string} [body]
 * @returns {Promise<Result>}
 */
function overHttp({ port, key, agent }, method, path, body = '') {
  return new Promise((resolve) => {
    const headers = { 'content-length': Buffer.byteLength(body), ...(key === null ? {} : { authorization: `Bearer ${key}` }) };
    const request = http.request({ host: '127.0.0.1', port, method, path, headers, agent: agent ?? false, timeout: PATIENCE_MS }, (response) => {
      const refused = response.statusCode === 503 && response.headers['retry-after'] !== undefined;
      let text = '';
      response.setEncoding('utf8').on('data', (piece) => {
        text += piece;
      });
      response.once('end', () => resolve({ ok: response.statusCode === 200, refused, why: `${response.statusCode} ${text.slice(0, 150)}` }));
      response.once('error', (error) => resolve({ ok: false, why: error.message }));
    });
    request.once('timeout', () => request.destroy(new Error(`no response within ${PATIENCE_MS} ms`)));
    request.once('error', (error) => resolve({ ok: false, why: /** @type {NodeJS.ErrnoException} */ (error).code ?? error.message }));
    request.end(body);
  });
}

/** Calls over one connection, which is opened again where it ends. */
class GrpcCaller {
  /** @type {http2.ClientHttp2Session | undefined} */
  #session;
  #options;

  /** @param {{ port: number, key: string | null }} options */
  constructor(options) {
    this.#options = options;
  }

  close() {
    this.#session?.destroy();
  }

  /** @param {string} path @param {Uint8Array} message @returns {Promise<Result>} */
  call(path, message) {
    const { port, key } = this.#options;
    if (this.#session === undefined || this.#session.destroyed || this.#session.closed) {
      this.#session = http2.connect(`http://127.0.0.1:${port}`);
      this.#session.on('error', () => undefined);
    }
    const authorization = key === null ? {} : { authorization: `Bearer ${key}` };
    const stream = this.#session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...authorization });
    return new Promise((resolve) => {
      let status = -1;
      let why = 'closed without a status';
      const note = (/** @type {any} */ headers) => {
        if (headers['grpc-status'] === undefined) return;
        status = Number(headers['grpc-status']);
        why = `grpc ${status} ${decodeURIComponent(headers['grpc-message'] ?? '')}`;
      };
      // A stream of a connection that is never answered does not end by itself.
      const timer = setTimeout(() => {
        why = `no response within ${PATIENCE_MS} ms`;
        this.close();
      }, PATIENCE_MS);
      stream
        .on('response', note)
        .on('trailers', note)
        .on('error', (error) => {
          why = /** @type {NodeJS.ErrnoException} */ (error).code ?? error.message;
        });
      stream
        .once('close', () => {
          clearTimeout(timer);
          resolve({ ok: status === 0, refused: status === 14, why });
        })
        .resume()
        .end(grpcFrame(message));
    });
  }
}

/**
 * Repeats something, one at a time, until it is over.
 * @param {number} everyMs
 * @param {() => boolean} isOver
 * @param {() => Promise<void>} act
 */
async function repeat(everyMs, isOver, act) {
  while (!isOver()) {
    const start = performance.now();
    await act();
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, start + everyMs - performance.now())));
  }
}

/** @param {{ ports: { http: number, grpc: number, metrics: number }, key: string | null }} target @param {() => boolean} isOver @returns {Promise<Report>} */
async function probe({ ports, key }, isOver) {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const [health, web] = [
    { port: ports.http, key: null },
    { port: ports.http, key },
  ];
  const [grpcHealth, grpc] = [new GrpcCaller({ port: ports.grpc, key }), new GrpcCaller({ port: ports.grpc, key })];
  /** @type {Report} */
  const report = { slowest: {}, count: {}, refused: 0, failed: {}, ownDelay: 0 };
  const measure = async (/** @type {string} */ what, /** @type {() => Promise<Result>} */ act) => {
    const start = performance.now();
    const { ok, refused = false, why } = await act();
    report.slowest[what] = Math.max(report.slowest[what] ?? 0, performance.now() - start);
    report.count[what] = (report.count[what] ?? 0) + 1;
    if (ok) return;
    if (refused && !what.startsWith('health')) report.refused += 1;
    else report.failed[`${what}: ${why}`] = (report.failed[`${what}: ${why}`] ?? 0) + 1;
  };
  const pixels = Buffer.from(Float32Array.from(PICTURE.data).buffer);
  const requests = [
    ['digits over HTTP', () => overHttp(web, 'POST', '/v2/models/digits/infer', JSON.stringify({ inputs: [PICTURE] }))],
    ['digits over gRPC', () => grpc.call('/inference.GRPCInferenceService/ModelInfer', inferMessage('digits', [PICTURE], [pixels]))],
    ['an embedding', () => overHttp(web, 'POST', '/v1/embeddings', JSON.stringify({ model: 'embeddings', input: 'a dog' }))],
    ['a text', () => overHttp(web, 'POST', '/v1/completions', JSON.stringify({ model: 'letters', prompt: 'Hello', max_tokens: 5 }))],
  ];
  const agent = new http.Agent({ keepAlive: true });
  let next = 0;
  await Promise.all([
    repeat(HEALTH_MS, isOver, () => measure('health over HTTP', () => overHttp(health, 'GET', '/v2/health/ready'))),
    repeat(HEALTH_MS, isOver, () =>
      measure('health at the port of the metrics', () => overHttp({ port: ports.metrics, key: null }, 'GET', '/v2/health/ready')),
    ),
    repeat(HEALTH_MS, isOver, () => measure('health over a kept connection', () => overHttp({ ...health, agent }, 'GET', '/v2/health/live'))),
    repeat(HEALTH_MS, isOver, () => measure('health over gRPC', () => grpcHealth.call('/inference.GRPCInferenceService/ServerLive', Buffer.alloc(0)))),
    repeat(VALID_MS, isOver, () => {
      const [what, act] = /** @type {[string, () => Promise<Result>]} */ (requests[next++ % requests.length]);
      return measure(what, act);
    }),
  ]);
  agent.destroy();
  for (const caller of [grpcHealth, grpc]) caller.close();
  report.ownDelay = delay.max / 1e6;
  return report;
}

let isOver = false;
process.on('message', async (/** @type {any} */ message) => {
  if (message === 'stop') isOver = true;
  else process.send?.(await probe(message, () => isOver));
});
