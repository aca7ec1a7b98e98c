// Messages of many megabytes that are made to cost more than they are, against a server with a heap of 128 MB.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { callRaw, clientOf, envelope, INFER, LIVE, METADATA, rawPicture, sessionOf } from './grpc-support.mjs';
import { startSmallHeap } from './small-heap.mjs';
import { DIGITS, repositoryOf, wordsFiles } from './support.mjs';
import { bytesField, field, repeated, varint } from './wire.mjs';

const startChild = (t, /** @type {string | undefined} */ key) =>
  startSmallHeap(t, repositoryOf(t, { 'digits/1/model.onnx': DIGITS, ...wordsFiles('words') }), { megabytes: 128, key });

/** Bytes of memory that a process has. */
const residentBytes = (/** @type {number} */ pid) => Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;

const ones = (/** @type {number} */ size) => Buffer.alloc(size, 1);

/** An input of a request, and what is full of something. */
const input = (/** @type {string} */ datatype, /** @type {number} */ count, /** @type {Buffer} */ more) =>
  bytesField(5, Buffer.concat([bytesField(1, 'x'), bytesField(2, datatype), bytesField(3, varint(count)), more]));

/** Messages of a size. @type {[what: string, make: (size: number) => Buffer][]} */
const MESSAGES = [
  ['packed numbers as its shape says', (size) => Buffer.concat([bytesField(1, 'digits'), input('INT64', size, bytesField(5, bytesField(3, ones(size))))])],
  ['packed numbers as few as allowed', (size) => Buffer.concat([bytesField(1, 'digits'), input('INT64', 2 ** 20, bytesField(5, bytesField(3, ones(size))))])],
  ['packed booleans', (size) => input('BOOL', size, bytesField(5, bytesField(1, ones(size))))],
  ['numbers one by one', (size) => input('INT64', 2 ** 20, bytesField(5, repeated(field(3, 0, varint(1)), size)))],
  ['a shape', (size) => bytesField(5, bytesField(3, ones(size)))],
  ['empty texts', (size) => Buffer.concat([bytesField(1, 'words'), input('BYTES', 2 ** 16, bytesField(5, repeated(bytesField(8, ''), size)))])],
  ['empty raw texts', (size) => Buffer.concat([bytesField(1, 'words'), input('BYTES', size >> 2, Buffer.alloc(0)), bytesField(7, Buffer.alloc(size))])],
  ['inputs', (size) => repeated(bytesField(5, ''), size)],
  ['outputs', (size) => repeated(bytesField(6, ''), size)],
  ['raw contents', (size) => repeated(bytesField(7, ''), size)],
  ['parameters', (size) => repeated(bytesField(4, bytesField(1, 'abc')), size)],
  ['nested fields that nobody knows', (size) => bytesField(5, bytesField(4, bytesField(2, repeated(field(99, 0, varint(1)), size))))],
  ['fields that nobody knows', (size) => repeated(field(99, 0, varint(1)), size)],
  ['groups', (size) => repeated(Buffer.from([0x9b, 0x06, 0x9c, 0x06]), size)],
  ['a name', (size) => bytesField(1, Buffer.alloc(size, 'x'))],
  ['bits that do not end', (size) => Buffer.alloc(size, 0xff)],
];

for (const key of [undefined, 'secret']) {
  test(`${MESSAGES.length * 3} messages of 8 to 64 MiB ${key === undefined ? 'without a key' : 'of a caller who has none'} do not end a server with 128 MB`, {
    timeout: 600_000,
  }, async (t) => {
    const { child, address, http, pid } = await startChild(t, key);
    const { call } = clientOf(t, address, key === undefined ? {} : { authorization: `Bearer ${key}` });
    const [outputs] = (await call('ModelInfer', rawPicture())).raw_output_contents;
    let answered = 0;
    for (const [what, make] of MESSAGES) {
      const session = sessionOf(t, address);
      const answers = [8, 16, 64].map((size) => callRaw(session, INFER, envelope(make(size * 2 ** 20 - 100))));
      // Health answers meanwhile.
      const health = (async () => {
        for (let i = 0; i < 5; i++) {
          assert.equal((await callRaw(sessionOf(t, address), LIVE)).code, 'OK');
          assert.equal((await fetch(`${http}/v2/health/live`)).status, 200);
        }
      })();
      for (const { code, details } of await Promise.all(answers)) {
        const wanted = key === undefined ? ['INVALID_ARGUMENT', 'NOT_FOUND', 'RESOURCE_EXHAUSTED', 'UNAVAILABLE'] : ['UNAUTHENTICATED'];
        assert.ok(wanted.includes(code), `${what}: ${code} ${details}`);
        answered += 1;
      }
      await health;
      session.destroy();
    }
    assert.equal(answered, MESSAGES.length * 3);
    const session = sessionOf(t, address);
    const bomb = envelope(gzipSync(Buffer.alloc(2 ** 28)), { isCompressed: true });
    for (const path of [INFER, METADATA, LIVE]) {
      const { code } = await callRaw(session, path, bomb, { 'grpc-encoding': 'gzip' });
      assert.ok(['RESOURCE_EXHAUSTED', 'UNAUTHENTICATED'].includes(code), `${path}: ${code}`);
    }
    assert.equal(child.exitCode, null);
    assert.deepEqual((await call('ModelInfer', rawPicture())).raw_output_contents[0], outputs);
    if (process.platform === 'linux') assert.ok(residentBytes(pid) < 2 ** 30, `${residentBytes(pid)} bytes of memory`);
  });
}
