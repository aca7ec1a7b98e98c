import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { hostileRequests } from './hostile.mjs';
import { DIGITS, PICTURE, postJson, repositoryOf, startServer, wordsFiles } from './support.mjs';

/** Requests of one run; `HOSTILE_REQUESTS` asks for more. */
const REQUESTS = Number(process.env.HOSTILE_REQUESTS ?? 3000);

/** What a request may be answered with: its own fault, or nothing wrong with it after all. */
const EXPECTED = new Set([200, 400, 401, 403, 404, 413, 417, 431, 503, 504]);

/**
 * Sends a request.
 * @param {string} url
 * @param {http.Agent} agent
 * @param {ReturnType<ReturnType<typeof hostileRequests>['next']>} hostile
 */
function send(url, agent, { method, path, headers, body }) {
  return new Promise((resolve, reject) => {
    const request = http.request(url + path, { method, agent, headers: { ...headers, 'content-length': body.length } }, async (response) => {
      const chunks = [];
      for await (const chunk of response) chunks.push(chunk);
      resolve({ status: response.statusCode, type: response.headers['content-type'], text: Buffer.concat(chunks).toString() });
    });
    // A refused header ends the connection while the rest is being sent.
    request.on('error', (/** @type {NodeJS.ErrnoException} */ error) =>
      ['EPIPE', 'ECONNRESET'].includes(String(error.code))
        ? resolve({ status: 431, type: 'application/json', text: '{"error":"malformed HTTP"}' })
        : reject(error),
    );
    request.end(body);
  });
}

test(`${REQUESTS} hostile requests: each gets an answer in the form of its protocol, and the server goes on`, async (t) => {
  const seed = Number(process.env.HOSTILE_SEED ?? 1);
  const server = await startServer(t, {
    repository: repositoryOf(t, { 'digits/1/model.onnx': DIGITS, ...wordsFiles('words') }),
    control: false,
    ...(process.env.DBG ? { log: undefined } : {}),
  });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  t.after(() => agent.destroy());
  const requests = hostileRequests(seed);
  const expected = (await postJson(`${server.urls.http}/v2/models/digits/infer`, { inputs: [PICTURE] })).json;
  for (let done = 0; done < REQUESTS; done += 16) {
    const batch = Array.from({ length: 16 }, () => requests.next());
    const answers = await Promise.all(batch.map((request) => send(server.urls.http, agent, request)));
    answers.forEach(({ status, type, text }, i) => {
      const what = `${batch[i].method} ${batch[i].path} ${JSON.stringify(batch[i].headers).slice(0, 200)} ${batch[i].body.toString('latin1').slice(0, 500)} -> ${status} ${text.slice(0, 200)}`;
      assert.ok(EXPECTED.has(status), what);
      if (status === 200 || type === undefined) return;
      const { error } = JSON.parse(text);
      // The protocol of a request whose head cannot be read is not known.
      const isKnown = batch[i].path.startsWith('/v1') && error !== 'malformed HTTP';
      assert.equal(typeof (isKnown ? error.message : error), 'string', what);
    });
  }
  assert.deepEqual((await postJson(`${server.urls.http}/v2/models/digits/infer`, { inputs: [PICTURE] })).json, expected);
});
