// Options of serve(), of the command line and of the configuration file: those that are unknown or wrong are refused before anything listens.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import pino from 'pino';
import { serve } from 'webnn-node-serve';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { runNode } from '../../../__test__/lib/processes.mjs';
import { readOptions } from '../lib/cli.js';
import { OPTIONS } from '../lib/options.js';
import { LIMITS } from '../lib/serve.js';

const PROGRAM = fileURLToPath(new URL('../bin/webnn-node-serve.js', import.meta.url));

/** Runs the program, which must end. */
const run = (args, env = {}) => runNode([PROGRAM, '--http', '0', ...args], { env: { WEBNN_SERVE_API_KEY: undefined, ...env } });

test('serve() refuses what it does not know, and names what it knows', async () => {
  for (const [options, message] of /** @type {[any, RegExp][]} */ ([
    [{ repository: 'models' }, /^serve\(\): there is no option repository; expected models, name, host, .*limits, log$/],
    [{ processes: 2 }, /there is no option processes/],
    [{ limits: { maxBody: 1 } }, /^serve\(\): limits: there is no limit maxBody; expected maxBodyBytes, /],
    [{ defaults: { maxBatches: 1 } }, /^serve\(\): defaults: there is no setting maxBatches; expected maxBatch, /],
    [{ toString: 1 }, /there is no option toString/],
    [{ limits: { constructor: 1 } }, /there is no limit constructor/],
    ['models', /^serve\(\): expected an object with options$/],
    [[], /expected an object/],
    [null, /expected an object/],
  ])) {
    await assert.rejects(serve(options), { message }, JSON.stringify(options));
  }
});

test('serve() refuses values that an option cannot have, and says what it can have', async () => {
  const wrong = {
    models: ['', 1, null, ['models']],
    name: ['', 1],
    host: ['', 1, null],
    http: [-1, 65536, 1.5, '8080', true, null],
    grpc: [-1, '8081', true],
    metrics: [-1, '8082', 'clusters', true],
    control: ['yes', 1, null],
    allowedHosts: ['api.example.com', [''], ['https://api.example.com'], ['api.example.com:443'], [1], null],
    corsOrigins: ['https://app.example.com', ['app.example.com'], ['https://app.example.com/'], ['https://app.example.com:443'], ['HTTPS://app'], ['*'], null],
    trustProxy: ['yes', 1],
    apiKey: ['', 'a b', 'ключ', 'a\n', 1, null],
    apiKeys: ['key', [], [''], ['a', ''], [1], null],
    authenticate: ['key', {}, null],
    setup: ['key', {}, null],
    defaults: [null, [], 'maxBatch', { maxBatch: 0 }],
    limits: [
      null,
      [],
      'maxBodyBytes',
      { maxBodyBytes: -1 },
      { maxBodyBytes: '64MiB' },
      { maxBodyBytes: 1.5 },
      { drainMs: -1 },
      { drainMs: NaN },
      { drainMs: undefined },
    ],
    log: [true, 'info', {}, null],
  };
  const ofServe = Object.keys(OPTIONS).filter((name) => OPTIONS[name].only !== 'program');
  assert.deepEqual(Object.keys(wrong).sort(), ofServe.sort(), 'each option is tried');
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      await assert.rejects(serve(/** @type {any} */ ({ http: false, [name]: value })), { message: /^serve\(\): .*expected / }, `${name} ${String(value)}`);
    }
  }
  // Keys are secrets.
  await assert.rejects(serve({ apiKey: 'secret key' }), { message: /^(?![^]*secret)/ });
});

test('the names and origins of callers have the forms that browsers and apps send', async () => {
  const corsOrigins = ['https://app.example.com', 'http://localhost:3000', 'http://[::1]:3000', 'tauri://localhost', 'chrome-extension://abc', 'null'];
  const allowedHosts = ['api.example.com', '.example.com', 'localhost', '192.168.1.7', '::1', '[::1]', 'gpu-1'];
  for (const options of [{ corsOrigins, allowedHosts }, { corsOrigins: /** @type {const} */ ('*') }, { corsOrigins: [], allowedHosts: [] }]) {
    const server = await serve({ http: 0, log: false, ...options });
    await server.close();
  }
});

test('an option that is undefined is as one that is left out', async () => {
  const server = await serve({ http: 0, log: false, apiKey: undefined, models: undefined, limits: undefined });
  await server.close();
});

test('a public address without a key is a warning, any protection is none', async () => {
  const warnings = async (options) => {
    const lines = [];
    const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line).msg) });
    const server = await serve({ http: 0, log, ...options });
    await server.close();
    return lines;
  };
  for (const host of ['0.0.0.0', '::']) assert.match((await warnings({ host })).join(), /key/, host);
  for (const protection of [{ apiKey: 'key' }, { apiKeys: ['key'] }, { authenticate: () => true }]) {
    assert.deepEqual(await warnings({ host: '0.0.0.0', ...protection }), []);
  }
  assert.deepEqual(await warnings({}), []);
});

test('the configuration file has the names of serve(), and arguments win', (t) => {
  const config = path.join(temporaryFolder(t), 'serve.json');
  const limits = { maxBodyBytes: '16MiB', drainMs: 1000 };
  writeFileSync(config, JSON.stringify({ models: 'a', http: 1, control: true, allowedHosts: ['.example.com'], limits, defaults: { maxBatch: 2, threads: 1 } }));
  const options = readOptions('b', { config, http: 2, limit: { drainMs: 5 }, set: { maxBatch: 4 } }, {});
  assert.deepEqual(options, {
    models: 'b',
    http: 2,
    control: true,
    allowedHosts: ['.example.com'],
    limits: { maxBodyBytes: 16 * 2 ** 20, drainMs: 5 },
    defaults: { maxBatch: 4, threads: 1 },
  });
  assert.deepEqual(readOptions(undefined, {}, {}), {});
});

test('--cache and --idle are settings of all models', (t) => {
  const config = path.join(temporaryFolder(t), 'serve.json');
  writeFileSync(config, JSON.stringify({ cache: 'weights', idle: 5, defaults: { cache: false, maxBatch: 2 } }));
  assert.deepEqual(readOptions(undefined, { config }, {}), { defaults: { cache: 'weights', idleMs: 5, maxBatch: 2 } });
  assert.deepEqual(readOptions('a', { config, cache: true, idle: 9 }, {}), { models: 'a', defaults: { cache: true, idleMs: 9, maxBatch: 2 } });
  assert.deepEqual(readOptions(undefined, { cache: true, set: { threads: 1 } }, {}), { defaults: { cache: true, threads: 1 } });
});

test('what is wrong in a configuration file is named with the file', (t) => {
  const config = path.join(temporaryFolder(t), 'serve.json');
  for (const [text, message] of /** @type {[string, RegExp][]} */ ([
    ['{"model": "a"}', /serve\.json: there is no option model; expected models, .*processes, logLevel$/],
    ['{"authenticate": "a"}', /serve\.json: there is no option authenticate/],
    ['{"metrics": "cluster"}', /serve\.json: metrics is "cluster", expected a port/],
    ['{"limits": {"x": 1}}', /serve\.json: limits: there is no limit x/],
    ['{"limits": {"maxBodyBytes": "16 apples"}}', /serve\.json: limits: maxBodyBytes is "16 apples", expected bytes from 0/],
    ['{"defaults": {"device": "tpu"}}', /serve\.json: defaults: device is "tpu", expected/],
    ['{"apiKeys": ["secret key"]}', /serve\.json: apiKeys is wrong, expected/],
    ['[]', /serve\.json: expected an object with options/],
    ['null', /serve\.json: expected an object with options/],
    ['{', /serve\.json is not JSON/],
  ])) {
    writeFileSync(config, text);
    assert.throws(() => readOptions(undefined, { config }, {}), { message }, text);
  }
  assert.throws(() => readOptions(undefined, { config: `${config}.absent` }, {}), /the configuration file .*absent cannot be read: ENOENT/);
});

test('keys come from the environment and from a file, and an empty one is an error', (t) => {
  const apiKeysFile = path.join(temporaryFolder(t), 'keys');
  writeFileSync(apiKeysFile, 'first\r\nsecond\n');
  assert.deepEqual(readOptions(undefined, { apiKeysFile }, { WEBNN_SERVE_API_KEY: 'third' }), { apiKey: 'third', apiKeys: ['first', 'second'] });
  for (const [text, message] of /** @type {[string, RegExp][]} */ ([
    ['', /keys: line 1 is empty/],
    ['\n', /keys: line 1 is empty/],
    ['a\n\nb\n', /keys: line 2 is empty/],
    ['a\n\n', /keys: line 2 is empty/],
    ['a\nb c', /keys: line 2 is no key/],
  ])) {
    writeFileSync(apiKeysFile, text);
    assert.throws(() => readOptions(undefined, { apiKeysFile }, {}), { message }, JSON.stringify(text));
  }
  assert.throws(() => readOptions(undefined, { apiKeysFile: `${apiKeysFile}.absent` }, {}), /cannot be read: ENOENT/);
});

test('every limit can be given on the command line, sizes with units', async () => {
  for (const name of Object.keys(LIMITS)) {
    const { code, stderr } = await run(['absent', '--limit', `${name}=x`]);
    assert.equal(code, 1, name);
    assert.match(stderr, new RegExp(`--limit: ${name} is "x", expected `));
  }
  const { stderr } = await run(['absent', '--limit', 'maxBodyBytes=1.5MiB', '--limit', 'drainMs=5']);
  assert.equal(stderr, 'webnn-node-serve: there is no folder absent\n');
});

test('what the operator can mend is one line, and the exit code is 1', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await new Promise((resolve) => taken.once('listening', resolve));
  const { port } = /** @type {import('node:net').AddressInfo} */ (taken.address());
  for (const [args, env, message] of /** @type {[string[], NodeJS.ProcessEnv, RegExp][]} */ ([
    [['absent'], {}, /^webnn-node-serve: there is no folder absent\n$/],
    [['--config', 'absent.json'], {}, /^webnn-node-serve: the configuration file absent\.json cannot be read: .*\n$/],
    [['--api-keys-file', 'absent'], {}, /^webnn-node-serve: the file of keys absent cannot be read: .*\n$/],
    [[], { WEBNN_SERVE_API_KEY: '' }, /^webnn-node-serve: WEBNN_SERVE_API_KEY is empty, .*\n$/],
    [['--processes', '2'], {}, /^webnn-node-serve: --processes needs --metrics PORT: .*\n$/],
    [['--processes', '2', '--metrics', '0'], { WEBNN_SERVE_API_KEY: '' }, /^webnn-node-serve: WEBNN_SERVE_API_KEY is empty, .*\n$/],
    [['--processes', '2', '--metrics', '0', '--control'], {}, /^webnn-node-serve: --control is for one process: .*\n$/],
    [
      ['--http', `${port}`],
      {},
      new RegExp(
        `^webnn-node-serve: cannot listen at 127\\.0\\.0\\.1:${port} for http: another program listens there; the option http \\(--http PORT\\) takes another port\n$`,
      ),
    ],
    // gRPC's own library writes a line of its own before.
    [
      ['--grpc', `${port}`],
      {},
      new RegExp(
        `webnn-node-serve: cannot listen at 127\\.0\\.0\\.1:${port} for gRPC: another program listens there; the option grpc \\(--grpc PORT\\) takes another port\n$`,
      ),
    ],
    [
      ['--metrics', `${port}`],
      {},
      new RegExp(
        `^webnn-node-serve: cannot listen at 127\\.0\\.0\\.1:${port} for metrics: another program listens there; the option metrics \\(--metrics PORT\\) takes another port\n$`,
      ),
    ],
    [
      ['--processes', '2', '--metrics', `${port}`],
      {},
      new RegExp(
        `^webnn-node-serve: cannot listen at .*:${port} for metrics: another program listens there; the option metrics \\(--metrics PORT\\) takes another port\n$`,
      ),
    ],
    [['--host', '192.0.2.1'], {}, /^webnn-node-serve: cannot listen at 192\.0\.2\.1:0 for http: this machine does not have the address\n$/],
    [['--nothing'], {}, /^error: unknown option '--nothing'\n/],
  ])) {
    const { code, stderr, stdout } = await run(args, env);
    assert.match(stderr, message, args.join(' '));
    assert.deepEqual([code, stdout.includes('"msg":"ready"')], [1, false], args.join(' '));
  }
});
