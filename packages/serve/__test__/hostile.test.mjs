import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import test from 'node:test';
import { until } from '../../../__test__/lib/wait.mjs';
import { hostileRequests, send } from './hostile.mjs';
import { startSmallHeap } from './small-heap.mjs';
import { DIGITS, PICTURE, postJson, repositoryOf, startServer, wordsFiles } from './support.mjs';

/** Requests of one run; `HOSTILE_REQUESTS` asks for more. */
const REQUESTS = Number(process.env.HOSTILE_REQUESTS ?? 3000);

/** All bytes of bodies that the servers hold. */
const IN_FLIGHT = 32 * 2 ** 20;

/** Who calls, and what a request may be answered with: its own fault, or nothing wrong with it after all. */
const CALLERS = [
  { who: 'a caller who may call', options: {}, expected: new Set([200, 400, 401, 403, 404, 413, 417, 431, 503, 504]) },
  { who: 'a caller without the key', options: { apiKey: 'k' }, expected: new Set([400, 401, 403, 417, 431]) },
];

/**
 * Sends a request. A refused header ends the connection while the rest is being sent.
 * @param {Parameters<typeof send>} args
 */
const answerOf = (...args) =>
  send(...args).catch((/** @type {NodeJS.ErrnoException} */ error) => {
    if (!['EPIPE', 'ECONNRESET'].includes(String(error.code))) throw error;
    return { status: 431, type: 'application/json', text: '{"error":"malformed HTTP"}' };
  });

for (const { who, options, expected } of CALLERS) {
  test(`${REQUESTS} hostile requests of ${who}: each gets an answer in the form of its protocol, and the server goes on`, async (t) => {
    const server = await startServer(t, {
      models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS, ...wordsFiles('words') }),
      control: false,
      limits: { maxBytesInFlight: IN_FLIGHT },
      ...options,
    });
    const infer = `${server.urls.http}/v2/models/digits/infer`;
    const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
    t.after(() => agent.destroy());
    const requests = hostileRequests(Number(process.env.HOSTILE_SEED ?? 1));
    const headers = { authorization: 'Bearer k' };
    const answer = (await postJson(infer, { inputs: [PICTURE] }, headers)).json;
    for (let done = 0; done < REQUESTS; done += 16) {
      const batch = Array.from({ length: 16 }, () => requests.next());
      const answers = await Promise.all(batch.map((request) => answerOf(agent, server.urls.http, request)));
      answers.forEach(({ status, type, text }, i) => {
        const what = `${batch[i].method} ${batch[i].path} ${JSON.stringify(batch[i].headers).slice(0, 200)} ${batch[i].body.toString('latin1').slice(0, 500)} -> ${status} ${text.slice(0, 200)}`;
        assert.ok(expected.has(status), what);
        if (status === 200 || type === undefined) return;
        const { error } = JSON.parse(text);
        // The protocol of a request whose head cannot be read is not known.
        const isKnown = batch[i].path.startsWith('/v1') && error !== 'malformed HTTP';
        assert.equal(typeof (isKnown ? error.message : error), 'string', what);
      });
    }
    // Nothing is held any more: a body, and its long JSON in the thread, take all that there is.
    const whole = JSON.stringify({ inputs: [PICTURE] }).padEnd(IN_FLIGHT / 2);
    await until(async () => (await postJson(infer, whole, headers)).status === 200, 'all bytes are given back');
    assert.deepEqual((await postJson(infer, { inputs: [PICTURE] }, headers)).json, answer);
  });
}

test('a body in pieces of one byte takes no more memory than its bytes', { timeout: 300_000 }, async (t) => {
  const { http: url } = await startSmallHeap(t, repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), { megabytes: 64 });
  const request = http.request(`${url}/v1/embeddings`, { method: 'POST' });
  // What the server says before all was sent ends nothing here.
  request.on('error', () => undefined);
  const socket = await new Promise((resolve) => request.once('socket', resolve));
  request.flushHeaders();
  const response = once(request, 'response');
  const pieces = Buffer.from('1\r\nx\r\n'.repeat(10_000));
  for (let i = 0; i < 150; i++) if (!socket.write(pieces)) await once(socket, 'drain');
  socket.write('0\r\n\r\n');
  const [{ statusCode }] = await response;
  assert.equal(statusCode, 400);
  assert.equal((await fetch(`${url}/v2/health/live`)).status, 200);
});
