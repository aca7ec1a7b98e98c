// The program, started as users start it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { listCache, verifyCache } from 'webnn-node/inspect';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { endOf } from '../../../__test__/lib/processes.mjs';
import { until } from '../../../__test__/lib/wait.mjs';
import { freePort } from '../../../scripts/services.mjs';
import { DIGITS, PICTURE, post, postJson } from './support.mjs';

const PROGRAM = fileURLToPath(new URL('../bin/webnn-node-serve.js', import.meta.url));
const EMBEDDINGS = fileURLToPath(new URL('../models/embeddings', import.meta.url));

/** Models that take about 100 ms each to load. */
const COUNT = 50;

/**
 * Starts the program, which does not outlive a test that fails: the runner would wait for it.
 *
 * @param {import('node:test').TestContext} t
 * @param {string[]} args
 */
function start(t, ...args) {
  const child = spawn(process.execPath, [PROGRAM, ...args, '--limit', 'maxEventLoopDelayMs=0'], { env: { ...process.env, NODE_TEST_CONTEXT: undefined } });
  t.after(() => void child.kill('SIGKILL'));
  return child;
}

/** Waits until a program listens. @returns {Promise<{ http: string }>} its addresses */
function ready(child) {
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const { msg, ...urls } = JSON.parse(line);
      if (msg === 'ready') resolve(urls);
    });
  });
}

test('--cache fills a folder that the next server maps, with every kind of model', async (t) => {
  const folder = temporaryFolder(t);
  const cache = path.join(folder, 'weights');
  const models = { embeddings: EMBEDDINGS, digits: DIGITS };
  const vectors = [];
  for (const kind of /** @type {('embeddings' | 'digits')[]} */ (['embeddings', 'embeddings', 'digits', 'digits'])) {
    // A model that frees memory between requests computes the same.
    const idle = vectors.length % 2 === 0 ? [] : ['--idle', '1'];
    const child = start(t, models[kind], '--name', kind, '--http', '0', '--cache', cache, ...idle);
    const ended = endOf(child);
    const { http } = await ready(child);
    const ask = () =>
      kind === 'embeddings'
        ? postJson(`${http}/v1/embeddings`, { model: kind, input: 'a' })
        : postJson(`${http}/v2/models/${kind}/infer`, { inputs: [PICTURE] });
    await ask();
    await sleep(50);
    const { json } = await ask();
    vectors.push(JSON.stringify(json.data ?? json.outputs));
    if (process.platform !== 'win32') {
      child.kill('SIGTERM');
      assert.equal((await ended).code, 0);
    }
    const { files } = await listCache(cache);
    assert.deepEqual((await verifyCache(cache)).files, []);
    if (process.platform !== 'win32') assert.equal(files.length, kind === 'embeddings' ? 1 : 2);
  }
  assert.deepEqual([vectors[0], vectors[2]], [vectors[1], vectors[3]]);
});

// Windows has no signals.
if (process.platform !== 'win32') {
  test('a signal while models are loaded ends the program, also as the first process of a container', async (t) => {
    const repository = mkdtempSync(path.join(tmpdir(), 'webnn-serve-'));
    t.after(() => rmSync(repository, { recursive: true }));
    for (let i = 0; i < COUNT; i++) symlinkSync(EMBEDDINGS, path.join(repository, `m${i}`));
    const child = start(t, repository, '--http', '0');
    const ended = endOf(child);
    child.stdout.once('data', () => child.kill('SIGTERM'));
    const { code, signal, stdout } = await ended;
    // Without a function for the signal the system would end the program, but not where it is process 1.
    assert.deepEqual([code, signal], [143, null]);
    assert.doesNotMatch(stdout, /"ready"/);
  });

  test('two processes answer behind one port, count together, and end with 0', async (t) => {
    const [http, metrics] = [await freePort(), await freePort()];
    const child = start(t, '--processes', '2', '--http', String(http), '--metrics', String(metrics));
    const ended = endOf(child);
    let ready = 0;
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (JSON.parse(line).msg === 'ready') ready += 1;
    });
    await until(() => ready === 2, 'both processes are ready');
    for (let i = 0; i < 4; i++) {
      const { status } = await post(`http://127.0.0.1:${http}/v1/embeddings`, { model: 'embeddings', input: 'a' }, { connection: 'close' });
      assert.equal(status, 200);
    }
    let numbers = '';
    await until(async () => {
      const response = await fetch(`http://127.0.0.1:${metrics}/metrics`).catch(() => null);
      numbers = (await response?.text()) ?? '';
      return response !== null;
    }, 'the metrics can be read');
    assert.match(numbers, /^nv_inference_request_success\{model="embeddings",version="1"\} 4$/m);
    child.kill('SIGTERM');
    const { code, signal } = await ended;
    assert.deepEqual([code, signal], [0, null]);
  });
}
