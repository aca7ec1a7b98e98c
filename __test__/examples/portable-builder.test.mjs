import assert from 'node:assert/strict';
import test from 'node:test';
import { runExample } from './run-example.mjs';

/** What the program allows contexts to differ by; all of them are one CPU here. */
const TOLERANCE = 1e-3;

const NAMES = ['accelerated', 'CPU', 'CPU, one thread'];

/** The number after "off by" in the first line that matches. */
function offBy(stdout, pattern) {
  const line = stdout.split('\n').find((candidate) => pattern.test(candidate));
  assert.ok(line !== undefined, `${pattern} in ${stdout}`);
  return Number(/off by ([^,\s]+)/.exec(line)[1]);
}

/** Runs the program; what it printed, after the checks that hold for every budget. */
async function run(...args) {
  const { code, stdout, stderr } = await runExample('portable-builder.mjs', ...args);
  assert.equal(stderr, '');
  assert.equal(code, 0);
  for (const name of NAMES) {
    assert.match(stdout, new RegExp(`^${name}: [\\d.]+ ms, accelerated ${name === 'accelerated'},`, 'm'));
    assert.ok(offBy(stdout, new RegExp(`^${name}: `)) <= TOLERANCE, stdout);
  }
  assert.ok(offBy(stdout, /^two graphs/) <= TOLERANCE, stdout);
  assert.ok(offBy(stdout, /^new classifier/) > 0.01, 'other weights give other scores');
  assert.ok(offBy(stdout, /went on/) <= TOLERANCE, stdout);
  const [, chosen, size] = /^chosen: (.+), (large|small) network/m.exec(stdout);
  assert.ok(NAMES.includes(chosen), chosen);
  assert.match(stdout, new RegExp(`^${chosen} is lost: destroy\\(\\) was called`, 'm'));
  assert.match(stdout, new RegExp(`^${chosen} cannot go on: `, 'm'));
  const [, successor] = /^(.+) went on/m.exec(stdout);
  assert.ok(NAMES.includes(successor) && successor !== chosen, stdout);
  return {
    size,
    milliseconds: [...stdout.matchAll(/: ([\d.]+) ms, accelerated/g)].map(([, time]) => Number(time)),
    chosen,
    stdout,
  };
}

test('one description runs on several contexts, the fastest is chosen, and another takes over', async () => {
  const { size, milliseconds, chosen } = await run('--budget', '60000');
  assert.equal(size, 'large');
  assert.equal(milliseconds[NAMES.indexOf(chosen)], Math.min(...milliseconds));
});

test('a budget that no context meets selects the small network', async () => {
  assert.equal((await run('--budget', '0')).size, 'small');
});

test('a budget that is no number is refused', async () => {
  const { code, stderr } = await runExample('portable-builder.mjs', '--budget', 'low');
  assert.equal(code, 1);
  assert.match(stderr, /--budget is low, expected milliseconds/);
});
