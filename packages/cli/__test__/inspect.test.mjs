import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { root } from '../../../scripts/process.mjs';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { DOUBLE, node, value, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { file, webnn, webnnJson } from './command.mjs';

const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));

test('info says what computes, for people and for programs', async () => {
  const document = await webnnJson('info');
  const { code, stdout, stderr } = await webnn('info');
  assert.equal(code, 0);
  assert.equal(stderr, '');
  assert.match(stdout, new RegExp(`^webnn-node +${version}$`, 'm'));
  assert.match(stdout, /^runtime +node [\d.]+, \w+ \w+$/m);
  assert.match(stdout, /^threads +\d+ of \d+ logical cores$/m);
  const adapters = document.gpuAdapters.filter(({ unused }) => unused === null).map(({ name }) => name);
  const gpu = adapters.length > 0 ? adapters.join(', ') : `none: ${document.gpuReason}`;
  assert.match(stdout, /^default device +CPU; a GPU computes where it is asked for, by --device gpu, /m);
  assert.ok(/^GPU +(.*)$/m.exec(stdout)?.[1] === gpu, stdout);
  for (const { name, unused } of document.gpuAdapters) {
    const used = unused === null ? 'yes, where a GPU is asked for' : `no: ${unused}`;
    assert.ok(stdout.includes(`\nAdapter: ${name}\nused `) && stdout.includes(` ${used}\n`), stdout);
  }
  assert.match(stdout, /^maxTensorByteLength +2147483647$/m);
  assert.match(stdout, /^WEBNN_NUM_THREADS: not set\n  number of threads/m);
  assert.doesNotMatch(stdout, /\x1b/);
  assert.equal(document.version, version);
  assert.deepEqual(document.runtime, { name: 'node', version: process.versions.node });
  assert.ok(document.threads >= 1);
});

test('what the models of a folder need and what is missing', async (t) => {
  const folder = temporaryFolder(t);
  const of = (operators) =>
    writeModel({
      inputs: [value('x0', 1, [2])],
      outputs: [value(`x${operators.length}`, 1, [2])],
      nodes: operators.map((operator, at) => node(operator, [`x${at}`], [`x${at + 1}`])),
    });
  mkdirSync(path.join(folder, 'more'));
  const write = (name, bytes) => writeFileSync(path.join(folder, name), bytes);
  write('a.onnx', of(['Relu', 'Teleport', 'Teleport']));
  write('more/b.onnx', of(['Relu', 'Abs', 'Teleport']));
  write('c.onnx', of(['Relu']));
  write('d.onnx', '{}');
  write('notes.txt', 'no model');
  const { code, stdout } = await webnn('inspect', folder, '--missing', '--json');
  assert.equal(code, 1);
  const { models, operators, missing, unreadable } = JSON.parse(stdout);
  const named = (names) => names.map((name) => path.join(folder, name));
  assert.deepEqual(models, named(['a.onnx', 'c.onnx', 'd.onnx', path.join('more', 'b.onnx')]));
  assert.deepEqual(operators, { Relu: 3, Teleport: 2, Abs: 1 });
  assert.deepEqual(missing, [
    { operator: 'Teleport', models: named(['a.onnx', path.join('more', 'b.onnx')]), reason: 'there is no translation of this operator to WebNN' },
  ]);
  assert.deepEqual(
    unreadable.map(({ model }) => model),
    named(['d.onnx']),
  );
  assert.match(unreadable[0].reason, /JSON/);
  const shown = await webnn('inspect', folder, '--missing');
  assert.equal(shown.code, 1);
  assert.match(shown.stdout, /^4 models with 3 operators$/m);
  assert.match(shown.stdout, /^Teleport +2 /m);
  assert.equal((await webnn('inspect', path.join(folder, 'c.onnx'), '--missing')).code, 0);
});

test('a model of fixed shapes: parts, work and memory', async () => {
  const document = await webnnJson('inspect', file('conv.onnx'));
  const described = { dataType: 'float32', type: 'tensor(float)', shape: [1, 16, 4, 4], declaredShape: [1, 16, 4, 4] };
  assert.deepEqual(document.inputs, [{ name: 'x', ...described }]);
  assert.deepEqual(document.outputs, [{ name: 'y', ...described }]);
  assert.deepEqual(document.operators, { Conv: 1, Relu: 1 });
  assert.deepEqual(document.metadata.opsets, { '': 17 });
  assert.equal(document.metadata.producerName, 'make.py');
  assert.equal(document.parameters, 256);
  assert.equal(document.parameterBytes, 1024);
  assert.equal(document.compiled.multiplyAdds, 16 * 16 * (4 * 4));
  assert.ok(document.compiled.steps >= 1);
  assert.deepEqual(document.unsupported, []);

  const { code, stdout } = await webnn('inspect', file('conv.onnx'));
  assert.equal(code, 0);
  assert.match(stdout, /^model +/, 'people get no JSON');
  assert.match(stdout, /^producer +make\.py$/m);
  assert.match(stdout, /^parameters +256 \(1\.00 KiB\)$/m);
  assert.match(stdout, /^x +float32 +\[1, 16, 4, 4\]$/m);
  assert.match(stdout, /^2 nodes\n.*\nConv +1\nRelu +1$/m);
  assert.match(stdout, /^multiply-adds +/m);
  assert.match(stdout, /^arena +/m);
});

test('free dimensions stay names until they are given', async () => {
  const free = await webnn('inspect', file('tokens.onnx'));
  assert.equal(free.code, 0);
  assert.match(free.stdout, /^ids +int64 +\[batch, sequence\]$/m);
  assert.match(free.stdout, /^For multiply-adds and memory, give sizes, as in --free-dimension batch=1 --free-dimension sequence=1$/m);
  assert.equal((await webnnJson('inspect', file('tokens.onnx'))).compiled, null);
  const given = await webnnJson('inspect', file('tokens.onnx'), '--free-dimension', 'batch=2', '--free-dimension', 'sequence=8');
  assert.ok(given.compiled.steps >= 1);
});

test('unsupported nodes are listed with their reasons, and are exit code 1', async () => {
  const { code, stdout, stderr } = await webnn('inspect', file('unsupported.onnx'));
  assert.equal(code, 1);
  assert.equal(stderr, '');
  assert.match(stdout, /^1 unsupported node\n.*\nodd\\u001b\[31m +Strange +org\.example +1 +\S/m);
  assert.doesNotMatch(stdout, /\x1b/, 'names of a file do not reach the terminal as they are');
  const json = await webnn('inspect', file('unsupported.onnx'), '--json');
  assert.equal(json.code, 1);
  const [node] = JSON.parse(json.stdout).unsupported;
  assert.equal(node.operator, 'Strange');
  assert.equal(node.domain, 'org.example');
  assert.equal(node.name, 'odd\x1b[31m');
});

test('what is double and computed in float32', async (t) => {
  const names = Array.from({ length: 13 }, (_, at) => `y${at}`);
  const model = writeModel({
    inputs: [value('y0', DOUBLE, [2])],
    outputs: [value('y12', DOUBLE, [2])],
    nodes: names.slice(1).map((name, at) => node('Mod', [names[at], names[at]], [name], { fmod: { i: 1 } })),
  });
  const folder = temporaryFolder(t, { 'double.onnx': model });
  const { computedAsFloat32 } = JSON.parse((await webnn('inspect', path.join(folder, 'double.onnx'), '--json')).stdout);
  assert.deepEqual(computedAsFloat32, { inputs: ['y0'], outputs: ['y12'], nodes: names.slice(1, 11), nodeCount: 12 });
  const { stdout, stderr } = await webnn('inspect', path.join(folder, 'double.onnx'));
  assert.match(stdout, /^Double, computed in float32\ninputs +y0\noutputs +y12\nnodes +y1, y2, .*, y10 and 2 more$/m);
  assert.match(stderr, /WARN_WEBNN_FLOAT32/);
  assert.doesNotMatch((await webnn('inspect', file('conv.onnx'))).stdout, /float32\n/);
});
