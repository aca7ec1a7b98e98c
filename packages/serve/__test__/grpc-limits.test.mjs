// Callers of gRPC that send too much, too slowly or not at all, that read nothing, and the end of the server.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http2 from 'node:http2';
import { connect, createServer } from 'node:net';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { until } from '../../../__test__/lib/wait.mjs';
import { FLOAT, node, value, weight, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { begin, callRaw, clientOf, digits, envelope, grpcServer, INFER, LIVE, METADATA, pictures, rawPicture, sessionOf, WATCH } from './grpc-support.mjs';
import { repositoryOf } from './support.mjs';
import { bytesField, varint } from './wire.mjs';

test('the key is looked at before a byte of the message came', async (t) => {
  const { address } = await digits(t, { apiKey: 'secret' });
  const session = sessionOf(t, address);
  for (const authorization of ['', 'Bearer wrong']) {
    const { answer, stream } = begin(session, INFER, { authorization });
    const { code, details, reset } = await answer;
    assert.deepEqual([code, details, reset], ['UNAUTHENTICATED', 'the API key is missing or wrong', 0]);
    assert.ok(stream.destroyed);
  }
  const { answer, stream } = begin(session, INFER, { authorization: 'Bearer secret' });
  stream.end(envelope(pictures()));
  assert.equal((await answer).code, 'OK');
});

test('who goes on sending without the key is answered, and others of the same connection', async (t) => {
  const { address } = await digits(t, { apiKey: 'secret' });
  const session = sessionOf(t, address);
  const { answer, stream } = begin(session, INFER);
  stream.write(envelope(Buffer.alloc(2 ** 26)));
  assert.equal((await answer).code, 'UNAUTHENTICATED');
  for (let i = 0; i < 20; i++) assert.equal((await callRaw(session, INFER, envelope(Buffer.alloc(2 ** 22)))).code, 'UNAUTHENTICATED');
  assert.equal((await callRaw(session, INFER, envelope(pictures(1000)), { authorization: 'Bearer secret' })).code, 'OK');
});

test('only requests with tensors may be large', async (t) => {
  const { address } = await digits(t, { limits: { maxBodyBytes: 2 ** 20 } });
  const session = sessionOf(t, address);
  const refused = async (path, body, headers) => {
    const { code, details } = await callRaw(session, path, body, headers);
    assert.equal(code, 'RESOURCE_EXHAUSTED');
    return details;
  };
  assert.equal(await refused(METADATA, envelope(Buffer.alloc(2 ** 16 + 1))), 'the request has more than 65536 bytes');
  assert.equal(await refused(INFER, envelope(Buffer.alloc(2 ** 20 + 1))), 'the request has more than 1048576 bytes');
  // A length that is only announced, and one that only decompression shows.
  assert.equal(await refused(INFER, envelope(Buffer.alloc(0), { length: 2 ** 32 - 1 })), 'the request has more than 1048576 bytes');
  const bomb = envelope(gzipSync(Buffer.alloc(2 ** 24)), { isCompressed: true });
  assert.equal(await refused(INFER, bomb, { 'grpc-encoding': 'gzip' }), 'the request has more than 1048576 bytes');
  assert.equal((await callRaw(session, METADATA, envelope(bytesField(9, Buffer.alloc(2 ** 15))))).code, 'OK');
});

test('a call is one message, which ends with it', async (t) => {
  const { address } = await digits(t);
  const session = sessionOf(t, address);
  const twice = Buffer.concat([envelope(Buffer.alloc(0)), envelope(Buffer.alloc(0))]);
  for (const [bytes, details] of /** @type {[Buffer, string][]} */ ([
    [twice, 'the call takes one message'],
    [Buffer.alloc(0), 'the call has no message'],
    [envelope(Buffer.alloc(1), { length: 2 }), 'the message ends too early'],
    [Buffer.alloc(3), 'the message ends too early'],
    [Buffer.from([7, 0, 0, 0, 0]), 'the message is not of gRPC'],
  ])) {
    const answer = await callRaw(session, METADATA, bytes);
    assert.deepEqual([answer.code, answer.details], ['INVALID_ARGUMENT', details]);
  }
  // Byte by byte it is the same message.
  const { answer, stream } = begin(session, INFER);
  for (const byte of envelope(pictures())) stream.write(Buffer.from([byte]));
  stream.end();
  assert.equal((await answer).code, 'OK');
});

test('bytes of all calls together have a limit, and are given back however a call ends', async (t) => {
  const { address } = await digits(t, { limits: { maxBytesInFlight: 2 ** 20 } });
  const [first, second] = [sessionOf(t, address), sessionOf(t, address)];
  const infer = () => callRaw(second, INFER, envelope(pictures(1000)));
  const overloaded = { code: 'UNAVAILABLE', details: 'too many bytes of requests are in flight' };
  const isFull = async () => {
    const { code, details } = await infer();
    if (code !== 'OK') assert.deepEqual({ code, details }, overloaded);
    return code !== 'OK';
  };
  for (let round = 0; round < 4; round++) {
    const held = begin(first, INFER);
    await new Promise((resolve) => held.stream.write(envelope(Buffer.alloc(900_000), { length: 1_000_000 }), resolve));
    // What is sent behind them is answered: they are there. And probes are, whatever is in flight.
    assert.equal((await callRaw(first, LIVE)).code, 'OK');
    assert.ok(await isFull());
    if (round % 2 === 0) held.stream.close(8);
    else held.stream.end();
    await held.answer;
    await until(async () => !(await isFull()), 'the bytes are given back');
  }
  const compressed = envelope(gzipSync(Buffer.alloc(2 ** 21)), { isCompressed: true });
  const answer = await callRaw(second, INFER, compressed, { 'grpc-encoding': 'gzip' });
  assert.deepEqual({ code: answer.code, details: answer.details }, overloaded);
  assert.equal((await infer()).code, 'OK');
});

test('callers who send slowly lose their room to others', async (t) => {
  const { address } = await digits(t, { limits: { maxBytesInFlight: 400_000 } });
  const other = () => callRaw(sessionOf(t, address), INFER, envelope(pictures(1000))).then(({ code }) => code);
  // What is only announced takes no room.
  for (let i = 0; i < 5; i++) begin(sessionOf(t, address), INFER).stream.write(envelope(Buffer.alloc(1), { length: 300_000 }));
  assert.equal(await other(), 'OK');
  const session = sessionOf(t, address);
  const { stream, answer } = begin(session, INFER);
  stream.write(envelope(Buffer.alloc(250_000), { length: 300_000 }));
  const timer = setInterval(() => stream.write(Buffer.alloc(1)), 100);
  t.after(() => clearInterval(timer));
  await callRaw(session, LIVE);
  assert.equal(await other(), 'UNAVAILABLE');
  await until(async () => (await other()) === 'OK', 'others get it');
  const { code, details } = await answer;
  assert.deepEqual([code, details], ['UNAVAILABLE', 'too many bytes of requests are in flight, and these came too slowly']);
});

test('a message must arrive in time, also from those who send a little now and then', async (t) => {
  const { address } = await digits(t, { limits: { requestTimeoutMs: 300 } });
  const session = sessionOf(t, address);
  const silent = begin(session, INFER);
  const slow = begin(session, INFER);
  slow.stream.write(envelope(Buffer.alloc(0), { length: 10_000 }));
  const timer = setInterval(() => slow.stream.write(Buffer.alloc(1)), 20);
  t.after(() => clearInterval(timer));
  for (const { answer } of [silent, slow]) {
    const { code, details } = await answer;
    assert.deepEqual([code, details], ['DEADLINE_EXCEEDED', 'the request did not arrive within 300 ms']);
  }
  clearInterval(timer);
});

test('an answer may take longer than a request and a connection have', async (t) => {
  const { address } = await digits(t, { limits: { idleTimeoutMs: 50, requestTimeoutMs: 100 }, defaults: { maxDelayMs: 1000 } });
  assert.equal((await clientOf(t, address).call('ModelInfer', rawPicture())).outputs.length, 1);
});

test('a connection on which nothing happens ends, with or without HTTP/2', async (t) => {
  const { address } = await digits(t, { limits: { idleTimeoutMs: 200 } });
  const [host, port] = address.split(':');
  const socket = connect({ host, port: Number(port), allowHalfOpen: true });
  // The server's end of it is closed, whatever this one does.
  const gone = once(socket.resume(), 'end');
  const session = sessionOf(t, address);
  const ended = once(session, 'close');
  assert.equal((await callRaw(session, LIVE)).code, 'OK');
  await Promise.all([gone, ended]);
});

/** A way to a server on which what it sends can be held. */
async function tap(t, address) {
  const [host, port] = address.split(':');
  const sockets = [];
  const proxy = createServer((socket) => {
    const server = connect({ host, port: Number(port) });
    for (const one of [socket, server]) one.on('error', () => undefined);
    socket.pipe(server);
    server.on('data', (bytes) => socket.write(bytes));
    sockets.push(socket, server);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => {
    proxy.close();
    sockets.forEach((socket) => socket.destroy());
  });
  const { port: number } = /** @type {import('node:net').AddressInfo} */ (proxy.address());
  return { address: `127.0.0.1:${number}`, server: () => sockets[1] };
}

test('who watches stays, unless it is gone without a word', async (t) => {
  const { address } = await digits(t, { limits: { idleTimeoutMs: 150 } });
  const way = await tap(t, address);
  const [watching, mute] = [sessionOf(t, address), sessionOf(t, way.address)];
  const streams = [watching, mute].map((session) => {
    const { stream } = begin(session, WATCH);
    stream.end(envelope(Buffer.alloc(0)));
    return stream;
  });
  const pings = [];
  watching.on('ping', () => pings.push(0));
  await Promise.all(streams.map((stream) => once(stream, 'data')));
  // One gets no pings any more, and answers none.
  way.server().pause();
  await until(() => pings.length > 5, 'the server asks the other several times');
  await once(way.server().resume(), 'end');
  assert.ok(!streams[0].destroyed);
});

test('there is a limit of connections, and of calls on one', async (t) => {
  const { address } = await digits(t, { limits: { maxConnections: 3, maxStreams: 5 } });
  const sessions = [];
  for (let i = 0; i < 3; i++) {
    const session = sessionOf(t, address);
    begin(session, INFER);
    assert.equal((await callRaw(session, LIVE)).code, 'OK');
    sessions.push(session);
  }
  const one = sessionOf(t, address);
  await once(one, 'close');
  sessions[0].destroy();
  await until(async () => (await callRaw(sessionOf(t, address), LIVE).catch(() => ({ code: 'NONE' }))).code === 'OK', 'there is room again');
  assert.equal(sessions[1].remoteSettings.maxConcurrentStreams, 5);
  assert.ok(!sessions[1].destroyed && !sessions[2].destroyed);
  // The server waits for their calls when it ends.
  for (const session of sessions) session.destroy();
});

test('connections on which nothing happens make room for others', async (t) => {
  const { address } = await digits(t, { limits: { maxConnections: 3 } });
  const [host, port] = address.split(':');
  const busy = sessionOf(t, address);
  const { stream } = begin(busy, INFER);
  for (let i = 0; i < 10; i++) {
    const silent = connect({ host, port: Number(port) }).on('error', () => undefined);
    t.after(() => silent.destroy());
    await until(async () => (await callRaw(sessionOf(t, address), LIVE).catch(() => ({ code: 'NONE' }))).code === 'OK', 'there is room');
  }
  stream.end(envelope(pictures()));
  await once(stream, 'response');
});

test('calls without a key are few on a connection', async (t) => {
  const { address } = await digits(t);
  const session = sessionOf(t, address);
  const watching = Array.from({ length: 10 }, () => {
    const { stream } = begin(session, WATCH);
    stream.end(envelope(Buffer.alloc(0)));
    return stream;
  });
  await Promise.all(watching.map((stream) => once(stream, 'data')));
  const { code, details } = await callRaw(session, LIVE);
  assert.deepEqual([code, details], ['UNAVAILABLE', 'too many requests are in flight']);
  assert.equal((await callRaw(session, INFER, envelope(pictures()))).code, 'OK');
  watching[0].close();
  await once(watching[0], 'close');
  assert.equal((await callRaw(session, LIVE)).code, 'OK');
});

test('who begins calls only to leave them loses the connection', async (t) => {
  const { address } = await digits(t);
  const session = sessionOf(t, address);
  const goaway = once(session, 'goaway');
  let calls = 0;
  while (!session.destroyed && !session.closed && calls < 100_000) {
    const { stream } = begin(session, INFER);
    calls += 1;
    stream.close(8);
    if (calls % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(calls < 100_000);
  assert.equal((await goaway)[0], http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
  assert.equal((await callRaw(sessionOf(t, address), LIVE)).code, 'OK');
});

test('who leaves a call now and then keeps the connection', async (t) => {
  const { address } = await digits(t);
  const session = sessionOf(t, address);
  for (let i = 0; i < 700; i++) {
    const { stream, answer } = begin(session, INFER);
    stream.close(8);
    await answer;
    assert.equal((await callRaw(session, LIVE)).code, 'OK', `${i}`);
  }
});

/** A server whose model answers with as many bytes as it gets. */
function echoServer(t, options) {
  const echo = writeModel({ inputs: [value('x', FLOAT, ['n'])], outputs: [value('y', FLOAT, ['n'])], nodes: [node('Neg', ['x'], ['y'])] });
  return grpcServer(t, { models: repositoryOf(t, { 'echo/1/model.onnx': echo }), ...options });
}

const numbers = (/** @type {number} */ count) => {
  const input = Buffer.concat([bytesField(1, 'x'), bytesField(2, 'FP32'), bytesField(3, varint(count))]);
  return envelope(Buffer.concat([bytesField(1, 'echo'), bytesField(5, input), bytesField(7, Buffer.alloc(count * 4))]));
};

test('answers that nobody reads count, are refused beyond the limit, and end', async (t) => {
  const { address } = await echoServer(t, { limits: { maxUnreadBytes: 5_000_000, idleTimeoutMs: 1000 } });
  const lazy = sessionOf(t, address);
  const streams = [];
  for (let i = 0; i < 4; i++) {
    const stream = lazy.request({ ':method': 'POST', ':path': INFER, 'content-type': 'application/grpc' });
    stream.on('error', () => undefined);
    stream.pause();
    stream.end(numbers(256_000));
    await once(stream, 'response');
    streams.push(stream);
  }
  const { code, details } = await callRaw(sessionOf(t, address), INFER, numbers(256_000));
  assert.deepEqual([code, details], ['UNAVAILABLE', 'too many responses wait to be read']);
  // Nothing of them is read for longer than a connection may be idle.
  await until(() => streams.every((stream) => stream.destroyed), 'they are reset');
  await until(async () => (await callRaw(sessionOf(t, address), INFER, numbers(256_000))).code === 'OK', 'there is room again');
});

test('answers on a connection of which nothing is read are given up, too', async (t) => {
  const count = 2_000_000;
  const large = writeModel({
    inputs: [value('x', FLOAT, [1])],
    outputs: [value('y', FLOAT, [count])],
    weights: [weight('w', [count], new Float32Array(count), FLOAT)],
    nodes: [node('Add', ['x', 'w'], ['y'])],
  });
  const repository = repositoryOf(t, { 'echo/1/model.onnx': large });
  const { address } = await grpcServer(t, { models: repository, limits: { maxUnreadBytes: 30_000_000, idleTimeoutMs: 1000 } });
  const way = await tap(t, address);
  const lazy = sessionOf(t, way.address, { settings: { initialWindowSize: 2 ** 30 } });
  await once(lazy, 'remoteSettings');
  lazy.setLocalWindowSize(2 ** 30);
  assert.equal((await callRaw(lazy, LIVE)).code, 'OK');
  way.server().pause();
  const gone = once(way.server(), 'close');
  for (let i = 0; i < 3; i++) begin(lazy, INFER).stream.end(numbers(1));
  // Each response has 8 MB; socket buffers absorb part of it.
  const askOther = async () => (await callRaw(sessionOf(t, address), INFER, numbers(1))).code;
  await until(async () => (await askOther()) === 'UNAVAILABLE', 'their answers wait');
  await until(async () => (await askOther()) === 'OK', 'there is room again');
  way.server().resume();
  await gone;
});

test('an answer that is read slowly is read to its end', async (t) => {
  const { address } = await echoServer(t, { limits: { idleTimeoutMs: 1000 } });
  const session = sessionOf(t, address);
  const stream = session.request({ ':method': 'POST', ':path': INFER, 'content-type': 'application/grpc' });
  stream.end(numbers(1_000_000));
  let bytes = 0;
  const start = performance.now();
  for await (const chunk of stream) {
    bytes += chunk.length;
    // As evenly as its 4 MB last for 3 s.
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, start + (3000 * bytes) / 4e6 - performance.now())));
  }
  assert.ok(bytes > 4_000_000);
  assert.ok(performance.now() - start > 1000, 'it took longer than a connection may be idle');
});

test('calls that come while the server ends are refused with a status', async (t) => {
  const { server, address } = await digits(t);
  const session = sessionOf(t, address);
  server.registry.beginDrain();
  const { code, details } = await callRaw(session, INFER, envelope(pictures()));
  assert.deepEqual([code, details], ['UNAVAILABLE', 'the server is shutting down']);
  assert.equal((await callRaw(session, LIVE)).code, 'OK');
});

test('who never ends a call does not hold up the end of the server', async (t) => {
  const { server, address } = await digits(t, { limits: { drainMs: 200 } });
  const session = sessionOf(t, address);
  const ended = once(session, 'close');
  begin(session, INFER).stream.write(envelope(Buffer.alloc(0), { length: 100 }));
  await callRaw(session, LIVE);
  await server.close();
  await ended;
});
