// examples/http-endpoint as a server: what it answers to requests that it cannot take, and how it ends.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { root } from '../../scripts/process.mjs';

const FOLDER = path.join(root, 'examples/http-endpoint');
const PICTURES = readFileSync(path.join(FOLDER, 'pictures.json'), 'utf8');
const [PICTURE] = JSON.parse(PICTURES);

let server;
let url;
before(async () => {
  server = spawn(process.execPath, [path.join(FOLDER, 'index.mjs'), '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(server.stdout.setEncoding('utf8'), 'data');
  url = line.trim();
});
after(() => server?.kill('SIGKILL'));

/** Status and JSON of an answer. */
async function ask(body, { method = 'POST', address = url } = {}) {
  const response = await fetch(address, { method, body });
  return [response.status, await response.json()];
}

test('requests at the same time get their own answers', async () => {
  const [four, two] = JSON.parse(PICTURES);
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => ask(JSON.stringify([i % 2 === 0 ? four : two]))));
  answers.forEach(([status, [{ digit, probability }]], i) => {
    assert.deepEqual([status, digit], [200, i % 2 === 0 ? 4 : 2]);
    assert.ok(probability > 0.9);
  });
});

test('a request that cannot be answered is told why', async () => {
  const pictures = (...list) => JSON.stringify(list);
  for (const body of [
    '{}',
    '[]',
    'null',
    pictures(1),
    pictures([[1]]),
    pictures(PICTURE.slice(1)),
    pictures(PICTURE.map((row) => row.map(() => 17))),
    pictures(PICTURE.map((row) => row.map(String))),
  ]) {
    assert.deepEqual(await ask(body), [400, { error: 'expected an array of pictures, each 8 rows of 8 numbers from 0 to 16' }], body);
  }
  const [status, { error }] = await ask('[');
  assert.equal(status, 400);
  assert.match(error, /^the request is not JSON: /);
  assert.equal((await ask(undefined, { method: 'GET' }))[0], 405);
  assert.equal((await ask(PICTURES, { address: new URL('/other', url) }))[0], 404);
  assert.equal((await ask(' '.repeat((1 << 20) + 1)))[0], 413);
  assert.equal((await ask(PICTURES))[0], 200);
});

test('SIGTERM ends the server', { skip: process.platform === 'win32' && 'Windows has no signals' }, async () => {
  server.kill('SIGTERM');
  assert.deepEqual(await once(server, 'exit'), [0, null]);
});
