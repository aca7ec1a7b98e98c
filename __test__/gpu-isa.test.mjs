// What the step gpu-isa makes of a driver's numbers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differences, read, spilling, tableOf } from '../scripts/gpu/isa.mjs';

/** The output of `driver-probe statistics` for one kernel. */
const output = (numbers, device = 'Null hardware (RADV VEGA10)') => {
  const all = { VGPRs: 24, 'LDS size': 0, 'Subgroups per SIMD': 10, Instructions: 9, 'Code size': 64, 'Inverse Throughput': 7 };
  const spills = { 'Spilled SGPRs': 0, 'Spilled VGPRs': 0, 'Scratch size': 0 };
  const lines = Object.entries({ ...all, ...spills, ...numbers }).map(([name, value]) => `kernels/gather,_2_rows.spv\t${name}\t${value}\n`);
  return `${device}\tradv Mesa 1.2.3\n${lines.join('')}`;
};

test('a kernel that spills is named, with its family', () => {
  assert.deepEqual(spilling([read('vega10', output({}))]), []);
  assert.deepEqual(spilling([read('vega10', output({ 'Spilled VGPRs': 3 }))]), ['gather, 2 rows on vega10: Spilled VGPRs 3, expected 0']);
});

test('a changed number is a difference, an equal table is none', () => {
  const [before, now] = [{}, { VGPRs: 36 }].map((numbers) => tableOf([read('vega10', output(numbers))]));
  assert.match(before, /Mesa 1\.2\.3/);
  assert.deepEqual(differences(before, before), []);
  assert.deepEqual(differences(before, now), ['vega10', '- | gather, 2 rows | 24 | 0 | 10 | 9 | 64 | 7 |', '+ | gather, 2 rows | 36 | 0 | 10 | 9 | 64 | 7 |']);
  assert.ok(differences('', now).length > 0);
});

test('another driver is refused', () => {
  assert.throws(() => read('vega10', output({}, 'llvmpipe')), /expected RADV for vega10, got llvmpipe/);
});
