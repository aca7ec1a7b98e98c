// What gRPC answers, with a client of other people.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import protobuf from 'protobufjs';
import { FLOAT, node, value, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { begin, callRaw, clientOf, envelope, grpcServer, INFER, picture, rawPicture, sessionOf } from './grpc-support.mjs';
import { DIGITS, repositoryOf, wordsFiles } from './support.mjs';

const PROTO = new protobuf.Root().loadSync(fileURLToPath(new URL('../lib/grpc/inference.proto', import.meta.url)), { keepCase: true });

/** ModelInferRequest as bytes. */
const encodeInfer = (/** @type {object} */ message) => {
  const type = PROTO.lookupType('inference.ModelInferRequest');
  return type.encode(type.fromObject(message)).finish();
};

/**
 * A server with one model for digits, and clients.
 * @param {{ after: (done: () => void) => void }} t
 * @param {import('../lib/serve.js').ServeOptions & { files?: Record<string, string | object> }} [options]
 */
async function digits(t, { files = {}, ...options } = {}) {
  const { server, address } = await grpcServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS, ...files }), ...options });
  return { server, address, ...clientOf(t, address) };
}

test('says what it is and has', async (t) => {
  const { call } = await digits(t);
  assert.deepEqual(await call('ServerLive'), { live: true });
  assert.deepEqual(await call('ServerReady'), { ready: true });
  const { name, extensions } = await call('ServerMetadata');
  assert.deepEqual([name, extensions], ['webnn-node-serve', ['binary_tensor_data', 'model_repository']]);
  assert.deepEqual(await call('ModelMetadata', { name: 'digits' }), {
    name: 'digits',
    versions: ['1'],
    platform: 'onnx_webnn-node',
    inputs: [{ name: 'pixels', datatype: 'FP32', shape: ['-1', '1', '8', '8'] }],
    outputs: [{ name: 'probabilities', datatype: 'FP32', shape: ['-1', '10'] }],
    properties: {},
  });
  assert.deepEqual((await call('RepositoryIndex')).models, [{ name: 'digits', version: '1', state: 'READY', reason: '' }]);
});

test('raw bytes and numbers give the same answer, also compressed', async (t) => {
  const { call, address } = await digits(t);
  const pixels = Float32Array.from({ length: 64 }, (_, i) => i % 17);
  const raw = await call('ModelInfer', { model_name: 'digits', id: 'ä1', inputs: [picture()], raw_input_contents: [Buffer.from(pixels.buffer)] });
  assert.deepEqual([raw.id, raw.model_name, raw.model_version, raw.outputs[0].shape], ['ä1', 'digits', '1', ['1', '10']]);
  assert.equal(raw.raw_output_contents[0].length, 40);
  const numbers = await call('ModelInfer', { model_name: 'digits', id: 'ä1', inputs: [picture({ contents: { fp32_contents: [...pixels] } })] });
  assert.deepEqual(numbers, raw);
  const bytes = encodeInfer({ model_name: 'digits', inputs: [picture()], raw_input_contents: [new Uint8Array(pixels.buffer)] });
  const session = sessionOf(t, address);
  const plain = await callRaw(session, INFER, envelope(bytes));
  const packed = await callRaw(session, INFER, envelope(gzipSync(bytes), { isCompressed: true }), { 'grpc-encoding': 'gzip' });
  assert.deepEqual([plain.code, packed.code], ['OK', 'OK']);
  assert.deepEqual(packed.bytes, plain.bytes);
  const wrong = await callRaw(session, INFER, envelope(bytes, { isCompressed: true }), { 'grpc-encoding': 'gzip' });
  assert.deepEqual([wrong.code, /^the message is not gzip/.test(wrong.details)], ['INVALID_ARGUMENT', true]);
  const unknown = await callRaw(session, INFER, envelope(bytes, { isCompressed: true }), { 'grpc-encoding': 'br' });
  assert.deepEqual([unknown.code, unknown.details], ['UNIMPLEMENTED', 'there is no compression "br", expected one of identity,gzip,deflate']);
});

test('a model that is not there, not loaded or not ready is not ready, without an error, as with Triton', async (t) => {
  const broken = Buffer.from('no model');
  const { server, call } = await digits(t, { files: { 'broken/1/model.onnx': broken } });
  const isReady = async (name, version = '') => (await call('ModelReady', { name, version })).ready;
  assert.deepEqual(await Promise.all(['digits', 'none', 'broken', ''].map((name) => isReady(name))), [true, false, false, false]);
  assert.deepEqual([await isReady('digits', '1'), await isReady('digits', '2')], [true, false]);
  await call('RepositoryModelUnload', { repository_or_model_name: 'digits' });
  assert.equal(await isReady('digits'), false);
  await call('RepositoryModelLoad', { repository_or_model_name: '', model_name: 'digits' });
  assert.equal(await isReady('digits'), true);
  server.registry.beginDrain();
  assert.deepEqual(await call('ServerReady'), { ready: false });
});

test('a model has all versions that are ready, one of them only itself', async (t) => {
  const { call, server } = await digits(t, { files: { 'digits/3/model.onnx': DIGITS, 'digits/model.json': { versions: 'all' } }, http: 0 });
  const { versions } = await (await fetch(`${server.urls.http}/v2/models/digits`)).json();
  assert.deepEqual((await call('ModelMetadata', { name: 'digits' })).versions, versions);
  assert.deepEqual(versions.toSorted(), ['1', '3']);
  assert.deepEqual((await call('ModelMetadata', { name: 'digits', version: '1' })).versions, ['1']);
});

test('errors have the codes of gRPC, and messages of any script', async (t) => {
  const { call } = await digits(t, { files: wordsFiles('words') });
  const infer = (message) => call('ModelInfer', { model_name: 'digits', ...message });
  const invalid = async (message, details) => assert.deepEqual(await infer(message), { code: 'INVALID_ARGUMENT', details });
  assert.deepEqual(await infer({ model_name: '雪 %ü' }), { code: 'NOT_FOUND', details: 'there is no model "雪 %ü", the server has "digits", "words"' });
  assert.deepEqual(await call('ModelMetadata', { name: 'digits', version: '9' }), { code: 'NOT_FOUND', details: 'model "digits" has no version "9"' });
  await invalid({ inputs: [picture({ datatype: 'X' })] }, 'input "pixels": there is no datatype "X"');
  await invalid({ inputs: [picture({ shape: [-1] })] }, 'input "pixels": its shape has -1, expected a size from 0');
  await invalid({ inputs: [picture({ shape: ['9223372036854775807'] })] }, 'input "pixels": its shape has 9223372036854776000, expected a size from 0');
  await invalid({ inputs: [picture({ contents: { fp32_contents: [1] } })] }, 'input "pixels": its shape has 64 elements, its contents fewer');
  await invalid({ inputs: [picture({ contents: { fp32_contents: Array(65).fill(1) } })] }, 'input "pixels": its shape has 64 elements, its contents more');
  await invalid({ inputs: [picture({ contents: { fp32_contents: Array(63).fill(1) } })] }, 'input "pixels": its shape has 64 elements, its contents 63');
  await invalid({ inputs: [picture({ contents: { fp64_contents: Array(64).fill(1) } })] }, 'input "pixels": FP32 has fp32_contents, and it has fp64_contents');
  await invalid({ inputs: [picture({ datatype: 'FP16' })] }, 'input "pixels": FP16 has no contents; send raw_input_contents');
  await invalid({ inputs: [picture()], raw_input_contents: [Buffer.alloc(3)] }, 'input "pixels": 64 elements of FP32 take 256 bytes, not 3');
  await invalid({ inputs: [picture()], raw_input_contents: [Buffer.alloc(1), Buffer.alloc(1)] }, 'raw_input_contents has 2 entries for 1 input');
  await invalid({ inputs: [picture(), picture()], raw_input_contents: [Buffer.alloc(256), Buffer.alloc(256)] }, 'input "pixels" is given twice');
  const large = picture({ shape: [2 ** 20 + 1] });
  await invalid({ inputs: [large] }, 'input "pixels": contents may have 1048576 elements together; send raw_input_contents');
  const text = { name: 'text', datatype: 'BYTES', shape: [2], contents: { bytes_contents: [Buffer.from('a dog'), Buffer.from('a horse')] } };
  const { outputs } = await call('ModelInfer', { model_name: 'words', inputs: [text] });
  assert.equal(outputs[0].shape[0], '2');
});

test('contents beside raw contents are refused, whatever they are', async (t) => {
  const { call } = await digits(t);
  for (const contents of [{ fp32_contents: Array(64).fill(1) }, { fp32_contents: [0] }, { bytes_contents: [Buffer.alloc(0)] }]) {
    const answer = await call('ModelInfer', { ...rawPicture(), inputs: [picture({ contents })] });
    assert.deepEqual(answer, { code: 'INVALID_ARGUMENT', details: 'input "pixels": contents must not be set beside raw_input_contents' });
  }
  // What has no elements says nothing.
  assert.equal((await call('ModelInfer', { ...rawPicture(), inputs: [picture({ contents: {} })] })).outputs.length, 1);
});

test('parameters that would change the meaning are refused by name, others are not, in both protocols', async (t) => {
  const { call, server } = await digits(t, { http: 0 });
  const choices = { bigint: 'int64_param', number: 'int64_param', string: 'string_param', boolean: 'bool_param' };
  const parametersOf = (given) => Object.fromEntries(Object.entries(given).map(([name, entry]) => [name, { [choices[typeof entry]]: entry }]));
  const asGrpc = async ({ request = {}, input = {}, output = {} }) => {
    const outputs = [{ name: 'probabilities', parameters: parametersOf(output) }];
    const inputs = [picture({ parameters: parametersOf(input) })];
    return (await call('ModelInfer', { ...rawPicture(), inputs, outputs, parameters: parametersOf(request) })).details;
  };
  const asHttp = async ({ request = {}, input = {}, output = {} }) => {
    const inputs = [{ ...picture(), data: Array(64).fill(0), parameters: input }];
    const body = JSON.stringify({ inputs, outputs: [{ name: 'probabilities', parameters: output }], parameters: request });
    return (await (await fetch(`${server.urls.http}/v2/models/digits/infer`, { method: 'POST', body })).json()).error;
  };
  for (const [given, message] of /** @type {[object, string][]} */ ([
    [{ request: { sequence_id: 7 } }, 'the request: the parameter sequence_id is not supported'],
    [{ request: { sequence_id: 'a' } }, 'the request: the parameter sequence_id is not supported'],
    [{ request: { sequence_start: true } }, 'the request: the parameter sequence_start is not supported'],
    [{ request: { sequence_end: true } }, 'the request: the parameter sequence_end is not supported'],
    [{ request: { priority: 2 } }, 'the request: the parameter priority is not supported'],
    [{ input: { shared_memory_region: 'r' } }, 'input "pixels": the parameter shared_memory_region is not supported'],
    [{ output: { shared_memory_byte_size: 64 } }, 'output "probabilities": the parameter shared_memory_byte_size is not supported'],
    [{ output: { classification: 3 } }, 'output "probabilities": the parameter classification is not supported'],
  ])) {
    assert.deepEqual([await asGrpc(given), await asHttp(given)], [message, message]);
  }
  // Nothing, or what some clients send for it, and what only names or describes the request.
  const harmless = { request: { sequence_id: 0, priority: 0, sequence_start: false, timeout: 5_000_000, note: 'x' }, input: { unit: 'm' } };
  assert.deepEqual([await asGrpc(harmless), await asHttp(harmless)], [undefined, undefined]);
});

test('the timeout of a request and the deadline of a call are heeded', async (t) => {
  const { call, address } = await digits(t);
  // A microsecond is over before anything is computed.
  const short = await call('ModelInfer', { ...rawPicture(), parameters: { timeout: { int64_param: 1 } } });
  assert.equal(short.code, 'DEADLINE_EXCEEDED');
  const wrong = await call('ModelInfer', { ...rawPicture(), parameters: { timeout: { string_param: 'x' } } });
  assert.deepEqual(wrong, { code: 'INVALID_ARGUMENT', details: 'the parameter timeout is not a number of microseconds' });
  const session = sessionOf(t, address);
  assert.equal((await callRaw(session, INFER, undefined, { 'grpc-timeout': '99999999H' })).code, 'NOT_FOUND');
  assert.equal((await callRaw(session, INFER, undefined, { 'grpc-timeout': '1 week' })).code, 'INVALID_ARGUMENT');
  const late = await callRaw(session, INFER, envelope(encodeInfer(rawPicture())), { 'grpc-timeout': '1n' });
  assert.equal(late.code, 'DEADLINE_EXCEEDED');
});

test('what is no call of this service is UNIMPLEMENTED, and what is none of gRPC is no success of HTTP', async (t) => {
  const { address } = await digits(t);
  const session = sessionOf(t, address);
  for (const path of ['/inference.GRPCInferenceService/ModelStreamInfer', '/constructor']) {
    assert.equal((await callRaw(session, path)).code, 'UNIMPLEMENTED', path);
  }
  for (const headers of /** @type {Record<string, string>[]} */ ([
    { ':method': 'GET' },
    { 'content-type': 'application/json' },
    { 'content-type': 'application/grpc-web' },
  ])) {
    const { stream, answer } = begin(session, INFER, headers);
    const [{ ':status': status }] = await once(stream, 'response');
    assert.equal(status, 415);
    await answer;
  }
});

test('bytes that are no message are the fault of who sends them', async (t) => {
  const { address } = await digits(t);
  const session = sessionOf(t, address);
  const ready = '/inference.GRPCInferenceService/ModelReady';
  for (const [path, hex] of [
    [ready, '0a05'],
    [ready, '0a02c328'],
    [ready, '00'],
    [ready, 'ffffffffffffffffffff'],
    [INFER, '2a05'],
    [INFER, '00'],
  ]) {
    const { code, details } = await callRaw(session, path, envelope(Buffer.from(hex, 'hex')));
    assert.deepEqual([code, /^the message is malformed/.test(details)], ['INVALID_ARGUMENT', true], `${hex}: ${details}`);
  }
});

test('models that only the key may ask for need it for all but health', async (t) => {
  const { address, call } = await digits(t, { apiKey: 'secret' });
  for (const name of ['ServerMetadata', 'ModelReady', 'ModelMetadata', 'ModelInfer', 'RepositoryIndex', 'RepositoryModelLoad']) {
    assert.deepEqual(await call(name), { code: 'UNAUTHENTICATED', details: 'the API key is missing or wrong' }, name);
  }
  for (const authorization of ['secret', 'Bearer', 'Bearer secre', 'Bearer secret2']) {
    assert.equal((await clientOf(t, address, { authorization }).call('ServerMetadata')).code, 'UNAUTHENTICATED', authorization);
  }
  const known = clientOf(t, address, { authorization: 'Bearer secret' });
  assert.equal((await known.call('ModelInfer', rawPicture())).outputs.length, 1);
  assert.deepEqual([await call('ServerLive'), await call('ServerReady')], [{ live: true }, { ready: true }]);
  assert.deepEqual(await clientOf(t, address).health('Check'), { status: 'SERVING' });
  assert.equal((await known.reflect('v1', [{ list_services: '' }])).length, 1);
  await assert.rejects(clientOf(t, address).reflect('v1', [{ list_services: '' }]), { code: 16 });
});

test('grpc.health.v1 says whether the server is ready, and tells who watches when it ends', async (t) => {
  const { server, health, watch } = await digits(t);
  assert.deepEqual(await health('Check'), { status: 'SERVING' });
  assert.deepEqual(await health('Check', { service: 'inference.GRPCInferenceService' }), { status: 'SERVING' });
  assert.deepEqual(await health('Check', { service: 'x' }), { code: 'NOT_FOUND', details: 'there is no service "x"' });
  assert.deepEqual(await health('List'), { statuses: { '': { status: 'SERVING' }, 'inference.GRPCInferenceService': { status: 'SERVING' } } });
  const unknown = watch({ service: 'x' });
  const known = watch({});
  /** @type {{ unknown: string[], known: string[] }} */
  const seen = { unknown: [], known: [] };
  unknown.on('data', ({ status }) => seen.unknown.push(status));
  known.on('data', ({ status }) => seen.known.push(status));
  unknown.on('error', () => undefined);
  await Promise.all([once(unknown, 'data'), once(known, 'data')]);
  const ended = once(known, 'error');
  server.registry.beginDrain();
  const [error] = await ended;
  assert.equal(error.code, 14);
  assert.deepEqual(seen, { unknown: ['SERVICE_UNKNOWN'], known: ['SERVING', 'NOT_SERVING'] });
  assert.deepEqual(await health('Check'), { status: 'NOT_SERVING' });
});

for (const version of /** @type {const} */ (['v1', 'v1alpha'])) {
  test(`reflection ${version}: tools find services, and messages from their names`, async (t) => {
    const { reflect } = await digits(t);
    const symbol = 'inference.ModelInferRequest.InferInputTensor';
    const [list, bySymbol, byMethod, byName, missing, extension] = await reflect(version, [
      { list_services: '' },
      { file_containing_symbol: symbol },
      { file_containing_symbol: 'inference.GRPCInferenceService.ModelInfer' },
      { file_by_filename: 'grpc/health/v1/health.proto' },
      { file_containing_symbol: 'x.Y' },
      { file_containing_extension: { containing_type: 'x.Y', extension_number: 1 } },
    ]);
    assert.deepEqual(
      list.list_services_response.service.map(({ name }) => name),
      ['inference.GRPCInferenceService', 'grpc.health.v1.Health', 'grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'],
    );
    const { default: descriptor } = await import('protobufjs/ext/descriptor.js');
    const read = ({ file_descriptor_response: { file_descriptor_proto: files } }) =>
      protobuf.Root.fromDescriptor({ file: files.map((file) => descriptor.FileDescriptorProto.decode(file)) });
    const expected = PROTO.lookupType(symbol);
    const fieldsOf = (type) => type.fieldsArray.map(({ id, type: kind, repeated }) => [id, kind.split('.').at(-1), repeated]);
    assert.deepEqual(fieldsOf(read(bySymbol).lookupType(symbol)), fieldsOf(expected));
    assert.ok(read(byMethod).lookupService('inference.GRPCInferenceService').methods.ModelInfer);
    assert.ok(read(byName).lookupService('grpc.health.v1.Health').methods.Watch);
    for (const { error_response: error } of [missing, extension]) assert.equal(error.error_code, 5);
  });
}

test('answers of megabytes arrive', async (t) => {
  const wide = writeModel({ inputs: [value('x', FLOAT, ['n'])], outputs: [value('y', FLOAT, ['n'])], nodes: [node('Neg', ['x'], ['y'])] });
  const { call } = await digits(t, { files: { 'wide/1/model.onnx': wide } });
  const numbers = Float32Array.from({ length: 3_000_000 }, (_, i) => i);
  const input = { name: 'x', datatype: 'FP32', shape: [numbers.length] };
  const answer = await call('ModelInfer', { model_name: 'wide', inputs: [input], raw_input_contents: [Buffer.from(numbers.buffer)] });
  const bytes = answer.raw_output_contents[0];
  assert.deepEqual(
    new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)),
    numbers.map((number) => -number),
  );
});
