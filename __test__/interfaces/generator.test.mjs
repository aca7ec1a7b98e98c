import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'webidl2';

import { require } from './helpers.mjs';

const { dictionaries, enumerations, operators } = require('../../lib/operators.js');
const root = fileURLToPath(new URL('../..', import.meta.url));
const idl = parse(readFileSync(new URL('../../spec/webnn.idl', import.meta.url), 'utf8'));

const operator = (name) => operators.find((row) => row.name === name);
const member = (dictionary, name) => dictionaries[dictionary].find((row) => row.name === name);

test('the generated files belong to the IDL', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/generate-operators.mjs', '--check'], {
    cwd: root,
    encoding: 'utf8',
  });
  assert.equal(stderr, '');
  assert.equal(status, 0);
});

test('the table has each operator once', () => {
  const names = idl
    .filter(({ type, name, partial }) => type === 'interface' && name === 'MLGraphBuilder' && partial)
    .flatMap(({ members }) => members.map(({ name }) => name));
  assert.deepEqual(
    operators.map(({ name }) => name),
    names,
  );
  assert.equal(new Set(names).size, 95);
});

test('members are in reading order: inherited ones first, then by code unit', () => {
  assert.deepEqual(
    dictionaries.MLTensorDescriptor.map(({ name }) => name),
    ['dataType', 'shape', 'readable', 'writable'],
  );
  assert.deepEqual(
    dictionaries.MLGemmOptions.map(({ name }) => name),
    ['label', 'aTranspose', 'alpha', 'bTranspose', 'beta', 'c'],
  );
  assert.deepEqual(
    dictionaries.MLContextOptions.map(({ name }) => name),
    ['accelerated', 'numThreads', 'powerPreference'],
  );
});

test('types keep what changes their conversion', () => {
  assert.equal(operator('softmax').arguments[1].type, '[EnforceRange] unsigned long');
  assert.equal(operator('cumulativeSum').arguments[1].type, 'unsigned long');
  assert.equal(operator('tile').arguments[1].type, 'sequence<unsigned long>');
  assert.equal(operator('concat').arguments[0].type, 'sequence<MLOperand>');
  assert.equal(member('MLTriangularOptions', 'diagonal').type, '[EnforceRange] long');
  assert.equal(member('MLResample2dOptions', 'scales').type, 'sequence<float>');
  assert.equal(member('MLOperandDescriptor', 'shape').required, true);
  assert.equal(member('MLPadOptions', 'value').default, 0);
  assert.equal(member('MLBatchNormalizationOptions', 'epsilon').default, 1e-5);
  assert.deepEqual(enumerations.MLPaddingMode, ['constant', 'edge', 'reflection']);
  assert.equal(operator('lstm').result, 'sequence<MLOperand>');
});
