// The report of the benchmark, on made-up measurements.

import assert from 'node:assert/strict';
import test from 'node:test';
import { chartSvg, relativeSpeeds } from '../../bench/report/chart.mjs';
import { resultsMarkdown } from '../../bench/report/results.mjs';
import { comparedWith, notesOf, rowOf } from '../../bench/report/rows.mjs';
import { tablesOf } from '../../bench/report/tables.mjs';
import { defined } from '../lib/types.mjs';

const MIB = 2 ** 20;

/** @returns {import('../../bench/measure.mjs').Result} */
const result = (engine, ms) => ({
  engine,
  status: 'ok',
  loadMs: [30, 10, 20],
  memory: { empty: 50 * MIB, loaded: 60 * MIB, afterRuns: 70 * MIB, anonymous: 20 * MIB },
  samples: [
    { ms, iterations: 1, foreign: 0 },
    { ms: ms + 2, iterations: 1, foreign: 0 },
    { ms: ms / 2, iterations: 1, foreign: 1 },
  ],
});

/** @returns {import('../../bench/measure.mjs').Result} */
const unsupported = (engine) => ({ engine, status: 'unsupported', reason: 'no <such> layer | &\nat all' });

/** @returns {import('../../bench/report/rows.mjs').Measurement} */
const model = (name, threads, ...results) => ({ name, kind: 'float32', weightBytes: 4 * MIB, threads, work: { multiplyAdds: 500e6, bytes: 4e6 }, results });

/** @returns {import('../../bench/report/rows.mjs').Run} */
const run = () => ({
  date: '2026-11-20T12:00:00.000Z',
  machine: { cpu: 'CPU <1> & 2', cacheBytes: MIB, processors: 2, memoryBytes: 2 ** 34, system: 'Linux', node: 'v20' },
  engines: ['webnn-node', 'fast', 'odd'],
  versions: { 'webnn-node': '0.1.0', fast: '1.2' },
  limits: [{ threads: 1, fmaGflops: 200, int8Gops: null, bf16Gflops: null, reading: [{ bytes: MIB, pages: 'huge', gbps: 10 }] }],
  models: [
    model('net', 1, result('webnn-node', 10), result('fast', 20), unsupported('odd')),
    model('net2', 1, result('webnn-node', 10), result('fast', 5), { ...result('odd', 1), status: 'wrong', reason: 'y is off' }),
  ],
  calls: [model('add', 1, { ...result('webnn-node', 0.005), extra: { burst: 0.002 } }, result('fast', 0.01), result('odd', 0.02))],
});

const named = (title) => defined(tablesOf(run()).find((table) => table.title.startsWith(title)));

test('a row has times, ratios by the fastest clean samples, and the share of the limit', () => {
  const {
    models: [net],
    limits,
    machine,
  } = run();
  const { times, limit } = rowOf(net, { limits, machine });
  assert.equal(times['webnn-node'].median, 10);
  assert.equal(times['webnn-node'].fastest, 10);
  assert.equal(times['webnn-node'].ratio, null);
  assert.equal(times.fast.ratio, 2);
  assert.deepEqual(times.odd, { status: 'unsupported' });
  assert.deepEqual(limit, { share: 0.5, bound: 'compute' });
  assert.equal(rowOf(net, { limits: null, machine }).limit, null);
});

test('engines are compared over the models that both compute rightly', () => {
  const rows = run().models.map((one) => rowOf(one, run()));
  assert.deepEqual(comparedWith(rows, 'fast', 1), { mean: 1, ahead: 1, models: 2 });
  assert.deepEqual(comparedWith(rows, 'odd', 1), { mean: null, ahead: 0, models: 0 });
});

test('the tables', () => {
  const { head, rows } = named('Times with 1 thread');
  assert.ok(rows.every((row) => row.length === head.length));
  assert.deepEqual(rows[0], ['net', '10.0 / 10.0', '50.0 % C', '20.0 / 20.0', '2.00×', 'not supported', '–', '4/6']);
  assert.deepEqual(rows[1].slice(5), ['wrong: 1.00 / 1.00', '0.10×', '6/9']);
  assert.deepEqual(
    rows.slice(2).map((row) => row.filter((cell) => cell !== '')),
    [
      ['geometric mean', '1.00×', '–'],
      ['not slower', '1 of 2', '0 of 0'],
    ],
  );
  assert.deepEqual(named('Loading').rows.slice(1, 4), [
    ['', '', 'fast', '20.0 / 10.0', '10.0 MiB', '60.0 MiB', '20.0 MiB', '70.0 MiB'],
    ['', '', 'odd', '–', '–', '–', '–', '–'],
    ['net2', '4.00 MiB', 'webnn-node', '20.0 / 10.0', '10.0 MiB', '60.0 MiB', '20.0 MiB', '70.0 MiB'],
  ]);
  assert.deepEqual(named('One addition').rows[0], ['1', '5.00 / 5.00', '10.0 / 10.0', '20.0 / 20.0', '2.00']);
  assert.deepEqual(named('Limits').rows[0], ['1', '200', '–', '–', '10.0']);
});

test('a time without a clean sample is marked', () => {
  const dirty = run();
  dirty.models[0].results[0].samples = [{ ms: 8, iterations: 1, foreign: 1 }];
  assert.equal(tablesOf(dirty)[0].rows[0][1], '8.00 / 8.00*');
});

test('a run without other engines and without limits has tables, too', () => {
  const {
    machine,
    date,
    models: [net],
    calls: [add],
  } = run();
  const alone = (one) => ({ ...one, results: one.results.slice(0, 1) });
  const few = { date, machine, engines: ['webnn-node'], versions: {}, limits: null, models: [alone(net)], calls: [alone(add)] };
  assert.deepEqual(tablesOf(few)[0].rows, [['net', '10.0 / 10.0', '–', '2/3']]);
  assert.match(chartSvg(few), /Speed relative to webnn-node/);
});

test('what is not compared is told once, with its reason', () => {
  const { models } = run();
  const notes = ['odd, net: unsupported: no <such> layer | &\nat all', 'odd, net2: wrong: y is off'];
  assert.deepEqual(notesOf([...models, ...models]), notes);
});

test('speeds are relative to the first other engine; what is wrong has none', () => {
  assert.deepEqual(relativeSpeeds(run(), 'fast', 1), [
    { name: 'net', speeds: [2, 1, null] },
    { name: 'net2', speeds: [0.5, 1, null] },
  ]);
});

test('the chart is well-formed, and knows dark grounds', () => {
  const svg = chartSvg(run());
  const open = [];
  for (const [, close, name, selfClosing] of svg.matchAll(/<(\/?)(\w+)(?:\s+[\w:-]+="[^"<]*")*\s*(\/?)>/g)) {
    if (close) assert.equal(open.pop(), name);
    else if (!selfClosing) open.push(name);
  }
  assert.deepEqual(open, []);
  assert.match(svg, /prefers-color-scheme:dark/);
  assert.match(svg, /CPU &#60;1&#62; &#38; 2/);
  assert.equal(svg.match(/<rect class="engine\d" x="180" y="[\d.]+" width/g)?.length, 4 + 1);
});

test('RESULTS.md names the machine, the versions and how to repeat it, and has all tables', () => {
  const text = resultsMarkdown(run());
  assert.match(text, /2026-11-20, CPU <1> & 2, 2 processors/);
  assert.match(text, /fast 1\.2/);
  assert.match(text, /npm run bench -- models --write/);
  assert.match(text, /\n- odd, net: unsupported: no <such> layer \| & at all\n/);
  for (const { title, rows } of tablesOf(run())) {
    assert.ok(text.includes(`## ${title}\n`), title);
    assert.ok(text.includes(`| ${rows[0].join(' | ')} |`), title);
  }
});
