import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import test from 'node:test';
import { until } from '../../../__test__/lib/wait.mjs';
import { begin, callRaw, clientOf, digits, envelope, INFER, LIVE, pictures, sessionOf, WATCH } from './grpc-support.mjs';

test('the end: calls that have begun are answered, new ones are refused, and who is silent does not hold it up', async (t) => {
  const { server, address } = await digits(t, { defaults: { maxDelayMs: 1500, maxBatch: 64 } });
  const { model } = server.registry.get('digits');
  const [host, port] = address.split(':');
  const silent = Array.from({ length: 50 }, () => connect({ host, port: Number(port), allowHalfOpen: true }));
  for (const socket of silent) socket.on('error', () => undefined);
  await Promise.all(silent.map((socket) => once(socket, 'connect')));
  t.after(() => silent.forEach((socket) => socket.destroy()));
  const idle = Array.from({ length: 50 }, () => sessionOf(t, address));
  await Promise.all(idle.map((session) => callRaw(session, LIVE)));
  const watching = begin(idle[0], WATCH);
  watching.stream.end(envelope(Buffer.alloc(0)));
  await once(watching.stream, 'data');
  const busy = sessionOf(t, address);
  const goaway = once(busy, 'goaway');
  const asked = Array.from({ length: 5 }, () => callRaw(busy, INFER, envelope(pictures())));
  await until(() => model.waiting === 5, 'all requests wait for others to join');
  // This one has begun, and its message comes only later.
  const late = begin(busy, INFER);
  await callRaw(busy, LIVE);
  const { call } = clientOf(t, address);
  await call('ServerLive');
  const onTheWay = call('ServerMetadata');
  const closed = server.close();
  await until(() => server.registry.isDraining, 'the end begins');
  // A client of other people asks again, and finds nobody.
  assert.equal((await call('ServerMetadata')).code, 'UNAVAILABLE');
  late.stream.end(envelope(pictures()));
  assert.deepEqual(new Set((await Promise.all([...asked, late.answer])).map(({ code }) => code)), new Set(['OK']));
  const answered = performance.now();
  await goaway;
  await closed;
  assert.ok(performance.now() - answered < 5000, 'far below the 25 s in which calls may end');
  const early = await onTheWay;
  assert.ok(early.name === 'webnn-node-serve' || early.code === 'UNAVAILABLE', JSON.stringify(early));
  assert.equal((await watching.answer).code, 'UNAVAILABLE');
});
