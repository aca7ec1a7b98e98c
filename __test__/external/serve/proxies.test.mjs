// Debian's nginx and Caddy in front of the server, with the configurations of deploy/: only addresses, certificates and ports differ.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import grpc from '@grpc/grpc-js';
import OpenAI from 'openai';
import { Agent, fetch } from 'undici';
import { modelsOf } from '../../../packages/serve/__test__/generation-support.mjs';
import { DIGITS, PICTURE, repositoryOf, startServer, wordsFiles } from '../../../packages/serve/__test__/support.mjs';
import { inferMessage } from '../../../scripts/soak/hostile/wire.mjs';
import { LIMITS } from '../../../packages/serve/lib/serve.js';
import { root } from '../../../scripts/process.mjs';
import { freePort } from '../../../scripts/services.mjs';
import { LETTERS } from '../../examples/model-folder.mjs';
import { endOf, runCommand } from '../../lib/processes.mjs';
import { until } from '../../lib/wait.mjs';

/** The public name, which only clients of these tests find. */
const NAME = 'api.example.com';

const read = (name) => readFileSync(path.join(root, 'deploy', name), 'utf8');

/** Replaces what must be there. */
function replaced(text, changes) {
  for (const [from, to] of changes) {
    assert.ok(text.includes(from), `there is no ${from}`);
    text = text.replaceAll(from, to);
  }
  return text;
}

/**
 * A folder with a certificate for a name.
 * @param {{ after: (done: () => void) => void }} t
 */
async function folderWithCertificate(t, name) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-proxy-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [key, certificate] = ['privkey.pem', 'fullchain.pem'].map((file) => path.join(folder, file));
  const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-keyout', key, '-out', certificate];
  const { code, stderr } = await runCommand('openssl', [...args, '-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`]);
  assert.equal(code, 0, stderr);
  return { folder, certificate: readFileSync(certificate, 'utf8') };
}

/**
 * Writes the configuration of a proxy, with one or more addresses for each one in it, and tells how to start it.
 * @type {Record<string, (folder: string, options: { port: number, redirectPort: number, http: string[], grpc: string[] }) => { command: string, args: string[] }>}
 */
const PROXIES = {
  nginx(folder, { port, http, grpc }) {
    const lines = (addresses) => addresses.map((address) => `server ${address} max_fails=0;`).join(' ');
    const site = replaced(read('nginx.conf'), [
      ['/etc/ssl/api.example.com', folder],
      ['listen 443', `listen 127.0.0.1:${port}`],
      ['server 127.0.0.1:8080 max_fails=0;', lines(http)],
      ['server 127.0.0.1:8081 max_fails=0;', lines(grpc)],
    ]);
    writeFileSync(path.join(folder, 'site.conf'), site);
    // What Debian's /etc/nginx/nginx.conf has around a site, in a folder of this user.
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${folder}/${kind};`);
    // Where root runs the tests: others than root could not write into its folder.
    const user = process.getuid?.() === 0 ? 'user root; ' : '';
    const main = `${user}daemon off; pid ${folder}/pid; error_log stderr; events {} http { access_log off; ${paths.join(' ')} include site.conf; }`;
    writeFileSync(path.join(folder, 'nginx.conf'), main);
    // As Debian's package names it; it is not in the PATH of every user.
    return { command: '/usr/sbin/nginx', args: ['-p', folder, '-c', path.join(folder, 'nginx.conf')] };
  },
  Caddy(folder, { port, redirectPort, http, grpc }) {
    const site = replaced(read('Caddyfile'), [
      ['/etc/ssl/api.example.com', folder],
      ['api.example.com:443', `api.example.com:${port}`],
      ['admin off', `admin off\n\thttp_port ${redirectPort}\n\tstorage file_system ${folder}/storage`],
      ['h2c://127.0.0.1:8081', grpc.map((address) => `h2c://${address}`).join(' ')],
      ['127.0.0.1:8080', http.join(' ')],
    ]);
    writeFileSync(path.join(folder, 'Caddyfile'), site);
    return { command: 'caddy', args: ['run', '--adapter', 'caddyfile', '--config', path.join(folder, 'Caddyfile')] };
  },
};

/** Whether something listens at a port. */
const isOpen = (port) =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });

/**
 * Starts a proxy as a process of this user, and clients that find it under its public name.
 * @param {string} kind
 * @param {{ urls: Record<string, string> }[]} servers
 */
async function startProxy(t, kind, servers) {
  const { folder, certificate } = await folderWithCertificate(t, NAME);
  const addresses = (protocol) => servers.map(({ urls }) => urls[protocol].replace(/^\w+:\/\//, ''));
  const port = await freePort();
  const options = { port, redirectPort: await freePort(), http: addresses('http'), grpc: addresses('grpc') };
  mkdirSync(path.join(folder, 'home'));
  const { command, args } = PROXIES[kind](folder, options);
  const child = spawn(command, args, { env: { ...process.env, HOME: path.join(folder, 'home') } });
  const ended = endOf(child);
  t.after(async () => {
    child.kill();
    await ended;
  });
  let failed;
  void ended.then(({ stderr }) => {
    failed = stderr;
  });
  await until(async () => {
    assert.equal(failed, undefined);
    return isOpen(port);
  }, `${kind} listens`);
  const lookup = (/** @type {string} */ _, /** @type {any} */ { all }, /** @type {any} */ found) =>
    all ? found(null, [{ address: '127.0.0.1', family: 4 }]) : found(null, '127.0.0.1', 4);
  const dispatcher = new Agent({ connect: { lookup, ca: certificate, timeout: 60_000 }, headersTimeout: 0, bodyTimeout: 0 });
  const credentials = grpc.credentials.createSsl(Buffer.from(certificate));
  const named = {
    'grpc.ssl_target_name_override': NAME,
    'grpc.default_authority': NAME,
  };
  const client = new grpc.Client(`ipv4:127.0.0.1:${port}`, credentials, named);
  t.after(async () => {
    client.close();
    await dispatcher.destroy();
  });
  const url = `https://${NAME}:${port}`;
  return {
    url,
    openai: new OpenAI({
      baseURL: `${url}/v1`,
      apiKey: 'secret',
      maxRetries: 0,
      fetch: /** @type {any} */ (fetch),
      fetchOptions: /** @type {any} */ ({ dispatcher }),
    }),
    fetch: (target, init = {}) => fetch(`${url}${target}`, { ...init, dispatcher }),
    /** Calls a method with the bytes of a message; resolved with those of the answer. */
    call(method, message, key = 'secret') {
      const metadata = new grpc.Metadata();
      if (key !== null) metadata.set('authorization', `Bearer ${key}`);
      const bytes = (value) => Buffer.from(value);
      return new Promise((resolve, reject) => {
        client.makeUnaryRequest(`/inference.GRPCInferenceService/${method}`, bytes, bytes, message, metadata, (error, answer) =>
          error === null ? resolve(answer) : reject(error),
        );
      });
    },
  };
}

/** A server behind a proxy: with a key and a public name. */
const behindProxy = async (t, repository, options = {}) => startServer(t, { models: repository, apiKey: 'secret', allowedHosts: [NAME], grpc: 0, ...options });

const AUTHORIZED = { authorization: 'Bearer secret' };

const pixels = Buffer.from(Float32Array.from(PICTURE.data).buffer);

/** A request with raw bytes, over HTTP and over gRPC. */
const head = JSON.stringify({
  inputs: [{ ...PICTURE, data: undefined, parameters: { binary_data_size: pixels.length } }],
  parameters: { binary_data_output: true },
});
const BINARY = {
  method: 'POST',
  body: Buffer.concat([Buffer.from(head), pixels]),
  headers: { ...AUTHORIZED, 'inference-header-content-length': String(head.length) },
};
const MESSAGE = inferMessage('digits', [PICTURE], [pixels]);

/** The probabilities of an answer with raw bytes. */
async function probabilitiesOf(response) {
  assert.equal(response.status, 200);
  const bytes = Buffer.from(await response.arrayBuffer());
  return bytes.subarray(Number(response.headers.get('inference-header-content-length')));
}

/** The value of a metric of a model, 0 where there is none. */
async function metricOf({ urls }, name, model) {
  const text = await (await fetch(`${urls.http}/metrics`)).text();
  return Number(new RegExp(`^${name}{.*"${model}".*} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
}

/** Calls over HTTP. */
const inferences = (server) => metricOf(server, 'nv_inference_request_success', 'digits');

/** Caddy cannot repeat a POST: it must know before that a server ends, and asks every second. nginx sends calls again. */
const LEAVE_MS = { nginx: 0, Caddy: 7000 };

for (const kind of Object.keys(PROXIES)) {
  test(`${kind}: OpenAI's client, raw tensors and gRPC over TLS, under a public name`, async (t) => {
    const server = await behindProxy(t, repositoryOf(t, { 'digits/1/model.onnx': DIGITS, ...wordsFiles('words') }));
    const proxy = await startProxy(t, kind, [server]);
    const { data } = await proxy.openai.embeddings.create({ model: 'words', input: ['a dog', 'a horse'] });
    assert.equal(data.length, 2);
    const answer = await probabilitiesOf(await proxy.fetch('/v2/models/digits/infer', BINARY));
    assert.equal(answer.length, 40);
    const message = await proxy.call('ModelInfer', MESSAGE);
    assert.ok(message.includes(answer), 'gRPC answers the same numbers');
    await assert.rejects(proxy.call('ModelInfer', MESSAGE, 'wrong'), { code: grpc.status.UNAUTHENTICATED });
    await assert.rejects(proxy.call('ModelInfer', inferMessage('none', [PICTURE], [pixels])), { code: grpc.status.NOT_FOUND });
  });

  test(`${kind}: health needs no key, metrics and the repository are closed, a name that is not allowed is named`, async (t) => {
    const server = await behindProxy(t, repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), { control: true });
    const proxy = await startProxy(t, kind, [server]);
    assert.equal((await proxy.fetch('/v2/health/ready')).status, 200);
    assert.equal((await proxy.fetch('/v2/models/digits')).status, 401);
    for (const target of ['/metrics', '/v2/repository/index', '/v2/%72epository/models/digits/unload', '/v2//repository/models/digits/unload']) {
      const { status } = await proxy.fetch(target, { method: target === '/metrics' ? 'GET' : 'POST', headers: AUTHORIZED });
      assert.ok(status === 403 || status === 404, `${target}: ${status}`);
    }
    await assert.rejects(proxy.call('RepositoryModelUnload', inferMessage('digits', [])), { code: grpc.status.PERMISSION_DENIED });
    assert.equal((await proxy.fetch('/v2/models/digits', { headers: AUTHORIZED })).status, 200);

    const unnamed = await behindProxy(t, repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), { allowedHosts: [] });
    const other = await startProxy(t, kind, [unnamed]);
    const refused = await other.fetch('/v2/models/digits', { headers: AUTHORIZED });
    assert.equal(refused.status, 403);
    assert.match(await refused.text(), /api\.example\.com.*--allowed-hosts/);
  });

  test(`${kind}: a text comes in pieces while it is generated, and a caller that leaves ends it`, async (t) => {
    const context = 4096;
    const style = { ...LETTERS, next: (/** @type {number} */ sum) => 97 + (sum % 26) };
    const server = await behindProxy(t, await modelsOf(t, { letters: { style, config: { max_position_embeddings: context } } }));
    const metrics = (name) => metricOf(server, name, 'letters');
    const proxy = await startProxy(t, kind, [server]);
    const stream = await proxy.openai.chat.completions.create({
      model: 'letters',
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens: context - 100,
      stream: true,
    });
    for await (const { choices } of stream) {
      if (!choices[0]?.delta.content) continue;
      assert.equal(await metrics('vllm:num_requests_running'), 1, 'the first piece arrives before the end');
      break;
    }
    await until(async () => (await metrics('vllm:num_requests_running')) === 0, 'the text has ended');
    const tokens = await metrics('vllm:generation_tokens_total');
    assert.ok(tokens < context - 100, `${tokens} tokens were generated`);
  });

  test(`${kind}: a body above the limit gets 413, one below it is read`, async (t) => {
    const server = await behindProxy(t, repositoryOf(t, { 'digits/1/model.onnx': DIGITS }));
    const proxy = await startProxy(t, kind, [server]);
    const post = (bytes) => proxy.fetch('/v2/models/digits/infer', { ...BINARY, body: Buffer.alloc(bytes) });
    assert.equal((await post(LIMITS.maxBodyBytes + 1)).status, 413);
    assert.equal((await post(2 ** 20)).status, 400);
    async function* pieces() {
      for (let i = 0; i < 65; i++) yield Buffer.alloc(2 ** 20);
    }
    const chunked = await proxy.fetch('/v2/models/digits/infer', { ...BINARY, body: pieces(), duplex: 'half' });
    assert.equal(chunked.status, 413);
    await chunked.arrayBuffer();
    assert.equal((await proxy.fetch('/v2/models/digits/infer', BINARY)).status, 200);
  });

  test(`${kind}: two servers restart one after the other, and every call is answered`, async (t) => {
    const repository = repositoryOf(t, { 'digits/1/model.onnx': DIGITS, 'digits-over-grpc/1/model.onnx': DIGITS });
    const start = (ports) => behindProxy(t, repository, { ...ports, limits: { leaveMs: LEAVE_MS[kind] } });
    const servers = [await start({}), await start({})];
    const proxy = await startProxy(t, kind, servers);
    const failures = [];
    let [done, isOver] = [0, false];
    const caller = async (ask) => {
      while (!isOver) {
        await ask().catch((error) => failures.push(String(error)));
        done += 1;
      }
    };
    const overHttp = async () => {
      const response = await proxy.fetch('/v2/models/digits/infer', BINARY);
      const text = await response.text();
      if (response.status !== 200) failures.push(`${response.status} ${text}`);
    };
    // No proxy reads the status of gRPC: callers themselves send again what the service could not take.
    const overGrpc = async () => {
      for (;;) {
        try {
          return await proxy.call('ModelInfer', inferMessage('digits-over-grpc', [PICTURE], [pixels]));
        } catch (error) {
          if (/** @type {grpc.ServiceError} */ (error).code !== grpc.status.UNAVAILABLE) throw error;
        }
      }
    };
    const callers = Array.from({ length: 8 }, (_, i) => caller(i < 6 ? overHttp : overGrpc));
    const after = async (count) => {
      const start = done;
      await until(() => done >= start + count, `${count} calls are answered`);
    };
    for (const i of [0, 1, 0, 1]) {
      await after(200);
      const { http, grpc: grpcUrl } = servers[i].urls;
      await servers[i].close();
      await after(200);
      servers[i] = await start({ http: Number(new URL(http).port), grpc: Number(grpcUrl.split(':').at(-1)) });
      await until(async () => (await inferences(servers[i])) > 0, 'the server that has restarted is used again');
    }
    await after(200);
    isOver = true;
    await Promise.all(callers);
    assert.deepEqual([...new Set(failures)], []);
  });
}
