// How long a server takes to end while callers say nothing.

import { once } from 'node:events';
import http2 from 'node:http2';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Failure } from '../../scripts/process.mjs';
import { freePort } from '../../scripts/services.mjs';
import { binaryRequest } from './models.mjs';

/** Silent connections to each port. */
const SILENT = 100;

/** Milliseconds of the last request, about, and those between the end of that and the server's own end at most. */
const [REQUEST_MS, BAR_MS] = [2000, 1000];

/** A server that has not ended by then is killed. */
const PATIENCE_MS = 60_000;

/** Rows and columns of the matrix that a request multiplies. */
const SIZE = 1024;

/**
 * Sends the slow request. @param {string} url @param {number} size
 * @returns {Promise<number>} milliseconds
 */
async function request(url, size) {
  const start = performance.now();
  const { body, headers } = binaryRequest('x', [size, SIZE]);
  const response = await fetch(`${url}/v2/models/slow/infer`, { method: 'POST', body, headers });
  if (!response.ok) throw new Failure(`the last request: ${response.status} ${await response.text()}`);
  await response.arrayBuffer();
  return performance.now() - start;
}

/**
 * Connections that say nothing: half of them from the start, half after something was answered there.
 * @param {number} http port
 * @param {number} grpc port
 */
async function openSilent(http, grpc) {
  const opened = [http, grpc].flatMap((port) =>
    Array.from({ length: SILENT / 2 }, () => {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined);
      return once(socket, 'connect');
    }),
  );
  const used = Array.from({ length: SILENT / 2 }, () => {
    const socket = connect(http, '127.0.0.1').on('error', () => undefined);
    socket.write('GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
    return once(socket, 'data');
  });
  const sessions = Array.from({ length: SILENT / 2 }, () => {
    const session = http2.connect(`http://127.0.0.1:${grpc}`).on('error', () => undefined);
    return once(session, 'remoteSettings');
  });
  await Promise.all([...opened, ...used, ...sessions]);
}

/**
 * From the end of the last request to the end of the process.
 * @param {{ repository: string, rounds: number, output: import('../../packages/cli/lib/output.mjs').Output }} bench
 * @param {(repository: string, options: string[]) => Promise<{ child: import('node:child_process').ChildProcess, url: string }>} start
 */
export async function measureDrain({ repository, rounds, output }, start) {
  const rows = [];
  for (let i = 0; i < rounds; i++) {
    const grpc = await freePort();
    const { child, url } = await start(repository, ['--grpc', String(grpc)]);
    // The time of a request grows with its rows.
    await request(url, 64);
    const size = Math.max(64, Math.round((64 * REQUEST_MS) / (await request(url, 64))));
    await openSilent(Number(new URL(url).port), grpc);
    const ended = once(child, 'exit').then(([code, signal]) => ({ at: performance.now(), how: code ?? signal }));
    const last = request(url, size).then((ms) => ({ at: performance.now(), ms }));
    await sleep(REQUEST_MS / 4);
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
    const [answered, { at, how }] = await Promise.all([last, ended]);
    clearTimeout(timer);
    const after = at - answered.at;
    rows.push([`${answered.ms.toFixed(0)} ms`, `${after.toFixed(0)} ms`, String(how), after <= BAR_MS && how === 0 ? 'holds' : 'missed']);
  }
  output.print(`\n## The end, with ${SILENT} silent connections to each of HTTP and gRPC\n`);
  output.table(['>last request', `>exit after it (bar ${BAR_MS} ms)`, 'exit code', 'bar'], rows);
}
