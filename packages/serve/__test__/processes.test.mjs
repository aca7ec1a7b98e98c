// Several processes behind the ports, started as users start them, and what ends them: signals at any time, crashes, models that never load.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlinkSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { endOf } from '../../../__test__/lib/processes.mjs';
import { PATIENCE, until } from '../../../__test__/lib/wait.mjs';
import { freePort } from '../../../scripts/services.mjs';
import { post } from './support.mjs';

const PROGRAM = fileURLToPath(new URL('../bin/webnn-node-serve.js', import.meta.url));
const EMBEDDINGS = fileURLToPath(new URL('../models/embeddings', import.meta.url));

/** The program with two processes, and the lines of its log. */
class Program {
  lines = [];
  http = 0;
  metrics = 0;
  child;
  ended;

  static async start(t, args = []) {
    const program = new Program();
    program.http = await freePort();
    program.metrics = await freePort();
    const ports = ['--http', String(program.http), '--metrics', String(program.metrics)];
    const all = [PROGRAM, '--processes', '2', ...ports, '--limit', 'maxEventLoopDelayMs=0', ...args];
    program.child = spawn(process.execPath, all, { env: { ...process.env, NODE_TEST_CONTEXT: undefined } });
    program.ended = endOf(program.child);
    createInterface({ input: program.child.stdout }).on('line', (line) => program.lines.push(JSON.parse(line)));
    t.after(async () => {
      program.child.kill('SIGKILL');
      for (const pid of program.started) kill(pid, 'SIGKILL');
      await program.ended;
    });
    return program;
  }

  count(msg) {
    return this.lines.filter((line) => line.msg === msg).length;
  }

  /** Process ids by when they were started. */
  get started() {
    return this.lines.filter(({ msg }) => msg === 'process starts').map((line) => line.process);
  }

  /** Process ids of those that serve. */
  get serving() {
    const ended = this.lines.filter(({ msg }) => msg === 'process ended').map((line) => line.process);
    return this.lines.filter(({ msg }) => msg === 'process ready').flatMap((line) => (ended.includes(line.process) ? [] : line.process));
  }

  /** Whether a process is one of the ready ones. */
  async untilServing(count) {
    await until(() => this.serving.length === count || this.child.exitCode !== null, `${count} processes serve`);
    assert.equal(this.serving.length, count, JSON.stringify(this.lines));
  }

  /** Signals the program and returns how it ended. */
  async end(signal = 'SIGTERM') {
    this.child.kill(signal);
    const { code, signal: how, stderr } = await this.ended;
    return { code, how, stderr };
  }

  /** @returns {Promise<any>} null if nothing listens */
  async readMetrics() {
    const response = await fetch(`http://127.0.0.1:${this.metrics}/metrics`).catch(() => null);
    return response === null ? null : { status: response.status, text: await response.text() };
  }

  /** The status of a request on a connection of its own. */
  async ask() {
    const { status } = await post(`http://127.0.0.1:${this.http}/v1/embeddings`, { model: 'embeddings', input: 'a' }, { connection: 'close' });
    return status;
  }
}

/** Signals a process that may be gone. */
function kill(pid, signal) {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    assert.equal(/** @type {NodeJS.ErrnoException} */ (error).code, 'ESRCH');
    return false;
  }
}

const isGone = (pid) => !kill(pid, 0);

/** A folder with models that take some time to load. */
function manyModels(t, count) {
  const folder = temporaryFolder(t);
  for (let i = 0; i < count; i++) symlinkSync(EMBEDDINGS, path.join(folder, i === 0 ? 'embeddings' : `m${i}`));
  return folder;
}

const CLEAN = { code: 0, how: null, stderr: '' };

/** A program that does not end fails its test. @param {string} name @param {(t: import('node:test').TestContext) => Promise<void>} run */
const testProgram = (name, run) => test(name, { timeout: 2 * PATIENCE }, run);

// Windows has no signals.
if (process.platform !== 'win32') {
  testProgram('a process that dies before it is ready is replaced, and the program becomes ready', async (t) => {
    const program = await Program.start(t, [manyModels(t, 20)]);
    await until(() => program.started.length === 2, 'two processes start');
    const [first] = program.started;
    kill(first, 'SIGKILL');
    await program.untilServing(2);
    assert.ok(!program.serving.includes(first));
    const { signal, ready } = program.lines.find(({ msg }) => msg === 'process ended');
    assert.deepEqual([signal, ready, program.count('process starts again after a pause')], ['SIGKILL', false, 1]);
    assert.equal(await program.ask(), 200);
    assert.deepEqual(await program.end(), CLEAN);
  });

  testProgram('a process that dies when it is ready is replaced, and meanwhile every request is answered', async (t) => {
    const program = await Program.start(t);
    await program.untilServing(2);
    const [first] = program.serving;
    kill(first, 'SIGKILL');
    await until(() => program.count('process ended') === 1, 'the end is noticed');
    let asked = 0;
    while (program.serving.length < 2 || asked < 10) {
      assert.equal(await program.ask(), 200);
      asked += 1;
    }
    // It had been ready: there is no pause.
    assert.equal(program.count('process starts again after a pause'), 0);
    assert.deepEqual(await program.end(), CLEAN);
  });

  /** A program that drains while its processes hang. */
  async function startHanging(t) {
    const program = await Program.start(t);
    await program.untilServing(2);
    const pids = program.serving;
    for (const pid of pids) kill(pid, 'SIGSTOP');
    program.child.kill('SIGTERM');
    await until(() => program.count('draining') > 0, 'the program drains');
    return { program, pids };
  }

  testProgram('a process that dies while the program ends does not hold up the end', async (t) => {
    const { program, pids } = await startHanging(t);
    for (const pid of pids) kill(pid, 'SIGKILL');
    const { code } = await program.ended;
    assert.deepEqual([code, program.started.length, program.count('process ended')], [0, 2, 0]);
  });

  testProgram('a second signal ends the program and its processes at once', async (t) => {
    const { program, pids } = await startHanging(t);
    program.child.kill('SIGTERM');
    // Not the end of its output, which the processes that are stopped hold open.
    assert.deepEqual(await once(program.child, 'exit'), [143, null]);
    for (const pid of pids) kill(pid, 'SIGCONT');
    await until(() => pids.every(isGone), 'the processes have ended');
  });

  testProgram('a signal that all processes get, as systemd and terminals send it, ends none before it has answered', async (t) => {
    for (const signal of ['SIGTERM', 'SIGINT']) {
      const program = await Program.start(t, ['--set', 'maxDelayMs=3000', '--set', 'maxQueueMs=100000']);
      await program.untilServing(2);
      const answer = program.ask();
      await until(async () => /^webnn_serve_queue_length\{.*\} 1$/m.test((await program.readMetrics())?.text), 'a request waits');
      for (const pid of [...program.serving, program.child.pid]) kill(pid, signal);
      assert.equal(await answer, 200);
      const { code, stderr } = await program.ended;
      assert.deepEqual([code, stderr], [0, '']);
    }
  });

  testProgram('a signal ends the program while its processes load, and while one starts again', async (t) => {
    const loading = await Program.start(t, [manyModels(t, 50)]);
    await until(() => loading.started.length === 2, 'two processes start');
    assert.deepEqual([await loading.end(), loading.serving], [CLEAN, []]);
    const restarting = await Program.start(t, [manyModels(t, 50)]);
    await until(() => restarting.started.length === 2, 'two processes start');
    for (const pid of restarting.started) kill(pid, 'SIGKILL');
    await until(() => restarting.count('process ended') === 2, 'both have ended');
    assert.deepEqual(await restarting.end('SIGINT'), CLEAN);
    await until(() => restarting.started.every(isGone), 'no process is left');
  });

  testProgram('models that never load end the program after some starts of a process, with the reason', async (t) => {
    const program = await Program.start(t, [temporaryFolder(t, { 'broken.onnx': 'no model' })]);
    const { code, stderr } = await program.ended;
    assert.equal(code, 1);
    assert.match(stderr, /^webnn-node-serve: no model can be loaded\n {2}broken: .*\n$/);
    const { started, lines } = program;
    assert.ok(started.length >= 5 && started.length <= 10, `${started.length}`);
    // Each pause of a process is twice as long as the one before.
    const pauses = lines.filter(({ msg }) => msg === 'process starts again after a pause');
    for (const { ms, failures } of pauses) assert.equal(ms, 250 * 2 ** (failures - 1));
    assert.deepEqual([...new Set(pauses.map(({ failures }) => failures))], [1, 2, 3, 4]);
    assert.ok(started.every(isGone));
  });

  testProgram('a process that hangs in its start is replaced', async (t) => {
    const program = await Program.start(t, ['--limit', 'startMs=8000']);
    await until(() => program.started.length === 2, 'two processes start');
    const [first] = program.started;
    kill(first, 'SIGSTOP');
    await until(() => program.lines.some((line) => line.msg === 'process ended' && line.process === first), 'it is ended');
    assert.equal(program.lines.find(({ msg }) => msg === 'process hangs in its start').process, first);
    await program.untilServing(2);
    assert.deepEqual(await program.end(), CLEAN);
  });

  testProgram('the metrics are there early, and a process that hangs does not take those of the others with it', async (t) => {
    const program = await Program.start(t, [manyModels(t, 20)]);
    const metrics = () => program.readMetrics();
    /** @type {any} */
    let early;
    await until(async () => (early = await metrics()) !== null, 'the metrics can be read');
    assert.deepEqual([early.status, program.serving.length < 2], [200, true]);
    await program.untilServing(2);
    const [first] = program.serving;
    assert.match((await metrics()).text, /^nv_inference_request_success\{model="embeddings",version="1"\} 0$/m);
    kill(first, 'SIGSTOP');
    const { status, text } = await metrics();
    assert.equal(status, 200);
    assert.match(text, /^nv_inference_request_success\{model="embeddings",version="1"\} 0$/m);
    kill(first, 'SIGCONT');
    assert.deepEqual(await program.end(), CLEAN);
  });

  testProgram('the processes end with the first one, however it ends', async (t) => {
    const program = await Program.start(t);
    await program.untilServing(2);
    const pids = program.serving;
    program.child.kill('SIGKILL');
    await until(() => pids.every(isGone), 'the processes have ended');
  });

  testProgram('processes share the port for gRPC', async (t) => {
    const port = await freePort();
    const program = await Program.start(t, ['--grpc', String(port)]);
    await program.untilServing(2);
    const raw = { requestStream: false, responseStream: false, requestSerialize: (bytes) => bytes, requestDeserialize: null, responseSerialize: null };
    for (let i = 0; i < 6; i++) {
      // A connection of its own each.
      const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
      const answer = await new Promise((resolve, reject) => {
        const { requestSerialize } = raw;
        client.makeUnaryRequest('/inference.GRPCInferenceService/ServerReady', requestSerialize, requestSerialize, Buffer.alloc(0), (error, bytes) =>
          error ? reject(error) : resolve(bytes),
        );
      });
      // The field `ready` is true.
      assert.deepEqual([...answer], [8, 1]);
      client.close();
    }
    assert.deepEqual(await program.end(), CLEAN);
  });
}
