import assert from 'node:assert/strict';
import test from 'node:test';
import pino from 'pino';
import { ask, openRaw } from './raw.mjs';
import { DIGITS, PICTURE, repositoryOf, startServer } from './support.mjs';

const INFER = '/v2/models/digits/infer';

/** A server with one model, and what it logs. */
async function digitsServer(t, options = {}) {
  /** @type {any[]} */
  const lines = [];
  const log = /** @type {any} */ (pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line)) }));
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), log, ...options });
  const { port } = new URL(server.urls.http);
  const url = `http://127.0.0.1:${port}`;
  const statusOf = async (/** @type {Record<string, string>} */ headers, path = '/v2') => (await ask(url + path, { headers })).status;
  return { server, lines, port, url, statusOf };
}

/**
 * Asks with each host.
 * @param {Awaited<ReturnType<typeof digitsServer>>} server
 * @param {string[]} hosts
 */
const statusesOf = ({ statusOf }, hosts) => Promise.all(hosts.map((host) => statusOf({ host })));

test('a server of this machine has the names and addresses that only this machine has', async (t) => {
  const server = await digitsServer(t);
  const { port } = server;
  const own = ['localhost', `localhost:${port}`, 'LOCALHOST', '127.0.0.1', `127.0.0.2:${port}`, '127.255.255.254', '[::1]', `[::1]:${port}`, 'app.localhost'];
  assert.deepEqual(new Set(await statusesOf(server, own)), new Set([200]));
  const others = ['example.com', `example.com:${port}`, 'localhost.example.com', '127.0.0.1.example.com', '10.0.0.1', '[::2]', 'notlocalhost'];
  assert.deepEqual(new Set(await statusesOf(server, others)), new Set([403]));
  const { text } = await ask(`${server.url}/v2`, { headers: { host: 'api.example.com' } });
  assert.deepEqual(JSON.parse(text), { error: 'Host "api.example.com" is not allowed; add it with --allowed-hosts' });
});

test('names that are allowed are those of a proxy, and no others', async (t) => {
  const server = await digitsServer(t, { allowedHosts: ['api.example.com', '.models.example.org'] });
  const allowed = ['api.example.com', 'API.example.com:8443', 'models.example.org', 'a.models.example.org', 'a.b.models.example.org', 'localhost', '127.0.0.1'];
  assert.deepEqual(new Set(await statusesOf(server, allowed)), new Set([200]));
  const others = ['example.com', 'xapi.example.com', 'api.example.com.evil.test', 'xmodels.example.org', 'example.org'];
  assert.deepEqual(new Set(await statusesOf(server, others)), new Set([403]));
});

test('a server of the network has all names, or those that are allowed and its address', async (t) => {
  const open = await digitsServer(t, { host: '0.0.0.0', apiKey: 'k' });
  const withKey = { authorization: 'Bearer k' };
  assert.equal(await open.statusOf({ host: 'example.com', ...withKey }), 200);
  const named = await digitsServer(t, { host: '0.0.0.0', allowedHosts: ['example.com'], apiKey: 'k' });
  // Probes of Kubernetes call the address.
  for (const host of ['example.com', `127.0.0.1:${named.port}`]) assert.equal(await named.statusOf({ host, ...withKey }), 200, host);
  for (const host of ['example.org', '10.1.2.3']) assert.equal(await named.statusOf({ host, ...withKey }), 403, host);
});

test('pages of origins that are allowed may call, after a preflight without a key', async (t) => {
  const origin = 'https://app.example.com';
  const { url } = await digitsServer(t, { corsOrigins: [origin], apiKey: 'k' });
  const preflight = await ask(url + INFER, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization, content-type, inference-header-content-length',
    },
  });
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers['access-control-allow-origin'], origin);
  assert.match(String(preflight.headers['access-control-allow-methods']), /POST/);
  for (const name of ['authorization', 'content-type', 'inference-header-content-length']) {
    assert.ok(String(preflight.headers['access-control-allow-headers']).includes(name), name);
  }
  const body = JSON.stringify({ inputs: [PICTURE] });
  const called = await ask(url + INFER, { method: 'POST', headers: { origin, authorization: 'Bearer k' } }, body);
  assert.deepEqual([called.status, called.headers['access-control-allow-origin']], [200, origin]);
  assert.match(String(called.headers['access-control-expose-headers']), /x-request-id/);
  // A page can read why it is refused.
  const refused = await ask(url + INFER, { method: 'POST', headers: { origin } }, body);
  assert.deepEqual([refused.status, refused.headers['access-control-allow-origin']], [401, origin]);
  for (const other of ['https://evil.example', 'http://app.example.com', 'https://app.example.com:444', 'null']) {
    assert.equal((await ask(url + INFER, { method: 'POST', headers: { origin: other, authorization: 'Bearer k' } }, body)).status, 403, other);
    const asked = await ask(url + INFER, { method: 'OPTIONS', headers: { origin: other, 'access-control-request-method': 'POST' } });
    assert.deepEqual([asked.status, asked.headers['access-control-allow-origin']], [403, undefined]);
  }
});

test('pages of any origin may call where all are allowed', async (t) => {
  const { url } = await digitsServer(t, { corsOrigins: '*' });
  const { status, headers } = await ask(`${url}/v1/models`, { headers: { origin: 'https://any.example' } });
  assert.deepEqual([status, headers['access-control-allow-origin']], [200, '*']);
});

test('pages of the server’s own origin may call, also behind a proxy', async (t) => {
  const kept = await digitsServer(t, { allowedHosts: ['api.example.com'] });
  const page = { origin: 'https://api.example.com' };
  assert.equal(await kept.statusOf({ host: 'api.example.com', ...page }), 200);
  assert.equal(await kept.statusOf({ host: 'api.example.com:443', ...page }), 200);
  assert.equal(await kept.statusOf({ host: 'api.example.com', origin: 'https://api.example.com:8443' }), 403);
  // A proxy that calls the server by its address says under which name it was called itself.
  const forwarded = { 'x-forwarded-host': 'api.example.com', ...page };
  assert.equal(await kept.statusOf(forwarded), 403);
  const trusting = await digitsServer(t, { trustProxy: true });
  assert.equal(await trusting.statusOf(forwarded), 200);
  assert.equal(await trusting.statusOf({ ...forwarded, origin: 'https://evil.example' }), 403);
  // What is remembered of one call is nothing else of another.
  assert.equal(await trusting.statusOf({ host: 'localhost https://api.example.com api.example.com' }), 403);
  assert.equal(await trusting.statusOf({ host: 'localhost', origin: 'https://api.example.com api.example.com' }), 403);
  // A page that points its own name here can set the header, but not Host.
  assert.equal(await trusting.statusOf({ host: 'evil.example', 'x-forwarded-host': 'localhost' }), 403);
  const proxied = await digitsServer(t, { trustProxy: true, authenticate: ({ ip }) => ip === '192.0.2.7' });
  assert.equal(await proxied.statusOf({ 'x-forwarded-for': '192.0.2.7' }), 200);
  assert.equal(await proxied.statusOf({ 'x-forwarded-for': '192.0.2.8' }), 401);
});

test('each of several keys is one', async (t) => {
  const { url, statusOf } = await digitsServer(t, { apiKey: 'one', apiKeys: ['two', 'three'] });
  for (const key of ['one', 'two', 'three']) assert.equal(await statusOf({ authorization: `Bearer ${key}` }), 200, key);
  for (const scheme of ['bearer', 'BEARER', 'Bearer ']) assert.equal(await statusOf({ authorization: `${scheme} one` }), 200, scheme);
  for (const authorization of ['Bearer four', 'Bearer ', 'Bearer onetwo', 'one', 'Basic one'])
    assert.equal(await statusOf({ authorization }), 401, authorization);
  const { status, headers } = await ask(`${url}/v2/models/none`, {});
  assert.deepEqual([status, headers['www-authenticate']], [401, 'Bearer']);
  for (const path of [
    '/v2/models/digits',
    '/v2',
    '/v1/models',
    '/v2/models/digits/ready',
    '/nothing',
    '/metrics/',
    '//metrics',
    '/%6detrics',
    '/v2/health/live/x',
    '/v2/health/../models',
  ])
    assert.equal(await statusOf({}, path), 401, path);
  assert.equal((await ask(`${url}/v2/repository/index`, { method: 'POST' }, '{}')).status, 401);
  for (const path of ['/v2/health/live', '/v2/health/ready', '/metrics', '/metrics?name=x', '/v2/health/live?'])
    assert.equal(await statusOf({}, path), 200, path);
});

test('a key that no caller can send is an error at the start', async (t) => {
  const repository = repositoryOf(t, { 'digits/1/model.onnx': DIGITS });
  for (const options of [{ apiKey: '' }, { apiKeys: ['a', ''] }, { apiKey: 'line\n' }, { apiKey: ' ' }, { apiKeys: ['ключ'] }]) {
    await assert.rejects(startServer(t, { models: repository, ...options }), { name: 'OptionError', message: /apiKey/ });
  }
});

test('authenticate() decides before the body is read, and names the caller', async (t) => {
  /** @type {any[]} */
  const calls = [];
  const { url, lines } = await digitsServer(t, {
    authenticate: async (/** @type {any} */ call) => {
      calls.push(call);
      if (call.headers['x-user'] === 'broken') throw new Error('no database');
      if (call.headers['x-user'] === 'silent') return undefined;
      return call.headers['x-user'] ?? false;
    },
  });
  const [connection] = await openRaw(t, url, 1);
  assert.equal((await connection.send(`POST ${INFER}?a=1`, { 'content-length': 10 }).response()).status, 401);
  const [{ protocol, method, url: path, headers, ip }] = calls;
  assert.deepEqual([protocol, method, path, headers['content-length'], ip], ['http', 'POST', `${INFER}?a=1`, '10', '127.0.0.1']);
  const statusOf = async (/** @type {string} */ user) => (await ask(`${url}/v1/models`, { headers: { 'x-user': user } })).status;
  assert.deepEqual([await statusOf('ada'), await statusOf('silent'), await statusOf('broken')], [200, 200, 401]);
  const before = calls.length;
  assert.equal((await ask(`${url}/v2/health/ready`, {})).status, 200);
  assert.equal(calls.length, before);
  assert.deepEqual(
    lines.filter(({ msg, status }) => msg === 'request' && status === 200).map(({ caller }) => caller),
    ['ada', undefined],
  );
  assert.ok(lines.some(({ msg, err }) => msg === 'authenticate() failed' && err.message === 'no database'));
});

test('the log warns of an address that others reach without a key', async (t) => {
  const warnings = async (/** @type {object} */ options) => (await digitsServer(t, options)).lines.filter(({ level }) => level === 40).length;
  assert.equal(await warnings({ host: '0.0.0.0' }), 1);
  assert.equal(await warnings({ host: '0.0.0.0', apiKey: 'k' }), 0);
  assert.equal(await warnings({ host: '0.0.0.0', authenticate: () => true }), 0);
  assert.equal(await warnings({}), 0);
});

test('models are loaded only by callers of this machine, unless the operator says otherwise', async (t) => {
  const models = repositoryOf(t, { 'digits/1/model.onnx': DIGITS });
  const load = async (/** @type {import('../lib/serve.js').ServeOptions} */ options) => {
    const { urls } = await startServer(t, { models, ...options });
    return (await fetch(`${urls.http}/v2/repository/models/digits/load`, { method: 'POST' })).status;
  };
  assert.equal(await load({}), 200);
  assert.equal(await load({ control: false }), 403);
  assert.equal(await load({ allowedHosts: ['api.example.com'] }), 403);
  assert.equal(await load({ corsOrigins: ['https://app.example.com'] }), 403);
  assert.equal(await load({ trustProxy: true }), 403);
  assert.equal(await load({ allowedHosts: ['api.example.com'], control: true }), 200);
});
