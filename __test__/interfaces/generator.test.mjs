import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'webidl2';

import { root } from '../../scripts/process.mjs';
import { runNode } from '../lib/processes.mjs';
import { require } from './helpers.mjs';
import { defined } from '../lib/types.mjs';

const { dictionaries, enumerations, operators } = require('../../lib/operators.js');
const idl = parse(readFileSync(new URL('../../spec/webnn.idl', import.meta.url), 'utf8'));

const operator = (name) => defined(operators.find((row) => row.name === name));
const member = (dictionary, name) => dictionaries[dictionary].find((row) => row.name === name);

test('the generated files belong to the IDL', async () => {
  const { code, stderr } = await runNode(['scripts/generate-operators.mjs', '--check'], { cwd: root });
  assert.equal(stderr, '');
  assert.equal(code, 0);
});

test('the table has each operator once', () => {
  const names = idl
    .filter(({ type, name, partial }) => type === 'interface' && name === 'MLGraphBuilder' && partial)
    .flatMap(({ members }) => members.map(({ name }) => name));
  assert.deepEqual(
    operators.map(({ name }) => name),
    names,
  );
  assert.equal(new Set(names).size, names.length);
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
    ['accelerated', 'cache', 'computePolicy', 'extensions', 'numThreads', 'powerPreference'],
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

test('index.d.ts describes every member, and operands with the data types and ranks of their rule rows', () => {
  const lines = readFileSync(new URL('../../index.d.ts', import.meta.url), 'utf8').split('\n');
  const members = lines.flatMap((line, index) => {
    const [, name] = /^ {2}(?:get |readonly )?(\w+)(?:\?|\(.*\))?(?:\(\))?:/.exec(line) ?? [];
    return name === undefined ? [] : [{ name, index }];
  });
  assert.ok(members.length > 400, `${members.length} members`);
  const bare = members.filter(({ name, index }) => !lines[index - 1].endsWith('*/') && !lines[index - 1].startsWith(`  ${name}(`));
  // What tells a device of WebGPU from options belongs to another API.
  assert.deepEqual(bare.map(({ name }) => name).sort(), ['lost', 'queue']);
  const comment = (start) =>
    lines
      .slice(
        lines.findLastIndex((line, index) => line === '  /**' && index < start),
        start,
      )
      .join(' ')
      .replaceAll(/\s+\*?\s*/g, ' ');
  const conv2d = comment(lines.findIndex((line) => line.startsWith('  conv2d(')));
  assert.match(
    conv2d,
    /@param filter .* Allowed: float32 or float16, rank 4\..*@returns .*@throws \{TypeError\}.*@see https:\/\/www\.w3\.org\/TR\/webnn\/#api-mlgraphbuilder-conv2d/,
  );
  const gather = comment(lines.findIndex((line) => line.startsWith('  gather(')));
  assert.match(gather, /@param input .* any data type, rank 1 to 8\. @param indices .* int32, uint32 or int64, rank 0 to 8\./);
});
