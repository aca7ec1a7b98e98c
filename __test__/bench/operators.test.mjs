// The benchmark of single operators: its cases, and what becomes of them. No other engine is installed: modules stand in for it.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { elementCount } from 'webnn-node-text/elements';
import { inspectModel } from 'webnn-node/onnx';
import { casesOf, feed, floats, ints, modelOf, node, resultsOf, weight, x } from '../../bench/operators/case.mjs';
import { CASES } from '../../bench/operators/catalog.mjs';
import { deviationOf, Engine, Measurement } from '../../bench/operators/measure.mjs';
import { notesOf, resultsMarkdown, speedAlone, speedOf, tablesOf } from '../../bench/operators/report.mjs';
import { ENGINES } from '../../packages/cli/lib/bench/engines.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { runNode } from '../lib/processes.mjs';
import { defined } from '../lib/types.mjs';

const pathOf = (file) => fileURLToPath(new URL(`../../bench/operators/${file}`, import.meta.url));

/** Elements of the models that are written here. */
const FEW = 100_000;

/** Whether a model has something to compute in each run. */
const isFed = (operand) => operand !== null && (operand.role === 'result' ? operand.of.operands.some(isFed) : operand.role === 'feed');

const sizeOf = (operand) => {
  if (operand === null) return 0;
  return operand.role === 'result' ? operand.of.operands.reduce((sum, one) => sum + sizeOf(one), 0) : elementCount(operand.shape);
};

test('each case has a name of its own, and an operand that is fed', () => {
  assert.deepEqual(
    CASES.map(({ name }) => name).filter((name, i, all) => all.indexOf(name) !== i),
    [],
  );
  assert.deepEqual(
    CASES.filter(({ row: [, , operands] }) => !operands.some(isFed)).map(({ name }) => name),
    [],
  );
  assert.ok(CASES.length >= 400);
});

test('a case becomes a model of its operator, with a feed for each input', () => {
  const small = CASES.filter(({ row: [, , operands] }) => operands.reduce((sum, operand) => sum + sizeOf(operand), 0) <= FEW);
  assert.ok(small.length > 100);
  for (const one of small) {
    const { bytes, feeds, outputs } = modelOf(one);
    const { inputs, outputs: written, operators } = inspectModel(bytes);
    const [, operator] = one.row;
    assert.ok(operator in operators, `${one.name}: ${Object.keys(operators)}`);
    assert.deepEqual(
      inputs.map(({ name, shape }) => [name, shape]),
      Object.entries(feeds).map(([name, { shape }]) => [name, shape]),
      one.name,
    );
    assert.deepEqual(
      written.map(({ name }) => name),
      outputs,
    );
  }
});

test('a model is the same each time, and other cases have other elements', () => {
  const [one, other] = casesOf('family', [
    ['a', 'Add', [x(4), floats(1, 2, 3, 4)]],
    ['b', 'Add', [x(4), floats(1, 2, 3, 4)]],
  ]);
  assert.deepEqual(modelOf(one), modelOf(one));
  assert.notDeepEqual(modelOf(one).feeds, modelOf(other).feeds);
});

test('operands may be other operators, have values, or be left out', () => {
  const scaled = node('Mul', [feed('float32', [2, 3], [5, 6]), weight('float32', [3])]);
  const [one] = casesOf('family', [['sizes', 'Resize', [scaled, null, null, ints(4, 3)], { mode: 'nearest', cubic_coeff_a: -0.5 }]]);
  assert.equal(one.name, 'family: Resize sizes');
  const { bytes, feeds } = modelOf(one);
  const [[, { data }]] = Object.entries(feeds);
  assert.ok(Array.from(data, Number).every((value) => value >= 5 && value <= 6));
  const { operators, unsupported } = inspectModel(bytes);
  assert.deepEqual([operators, unsupported], [{ Mul: 1, Resize: 1 }, []]);
});

test('an operand may be taken twice, and other operators may have several results', () => {
  const data = x(2, 2);
  const [values, places] = resultsOf('TopK', [data, ints(1)], ['float32', 'int64']);
  const [one] = casesOf('family', [['twice', 'GatherElements', [node('Add', [data, values]), places], { axis: 1 }]]);
  const { bytes, feeds } = modelOf(one);
  assert.equal(Object.keys(feeds).length, 1);
  const { operators, unsupported } = inspectModel(bytes);
  assert.deepEqual([operators, unsupported], [{ TopK: 1, Add: 1, GatherElements: 1 }, []]);
});

const tensor = (dataType, data) => ({ dataType, shape: [data.length], data });
const isRight = ({ error, allowed }) => error <= allowed;

test('results are compared by their types', () => {
  const float32 = (...values) => tensor('float32', Float32Array.from(values));
  const off = (difference, details = {}) => isRight(deviationOf(float32(10 + difference, 10, -10), float32(10, 10, -10), details));
  assert.deepEqual([off(0), off(9e-4), off(2e-3), off(NaN)], [true, true, false, false]);
  assert.equal(off(0.05, { tolerance: 1e-2 }), true);
  const uint8 = (...values) => tensor('uint8', Uint8Array.from(values));
  assert.equal(isRight(deviationOf(uint8(1, 2), uint8(1, 2), {})), true);
  assert.equal(isRight(deviationOf(uint8(1, 3), uint8(1, 2), {})), false);
  assert.equal(isRight(deviationOf(uint8(1, 3), uint8(1, 2), { steps: 1 })), true);
  assert.equal(isRight(deviationOf(uint8(2, 1), uint8(1, 2), {})), false);
  assert.equal(isRight(deviationOf(uint8(2, 1), uint8(1, 2), { isUnordered: true })), true);
  assert.equal(isRight(deviationOf(uint8(9, 1), uint8(1, 2), { isRandom: true })), true);
  assert.equal(isRight(deviationOf(uint8(1), uint8(1, 2), { isRandom: true })), false);
});

const SERVER = pathOf('serve.mjs');
const [RELU] = casesOf('family', [['4', 'Relu', [feed('float32', [4], [1, 2])]]]);

/** An engine whose module stands in a folder. */
function standIn(folder, name, module) {
  return new Engine(name, [process.execPath, SERVER, pathToFileURL(join(folder, module)).href]);
}

const moduleOf = ({ load = '', run = '', value = 1 }) => `
  export async function load() {
    ${load}
    return {
      version: '1',
      async run() { ${run} return {}; },
      outputs: async () => [{ dataType: 'float32', shape: [4], data: new Float32Array(4).fill(${value}) }],
      operators: async () => 0.5,
      close: async () => {},
    };
  }`;

/** Measures a case in stand-ins, twice. @returns {Promise<import('../../bench/operators/types.mjs').Outcome[]>} */
async function outcomesOf(t, ours, theirs) {
  const folder = temporaryFolder(t, { 'ours.mjs': moduleOf(ours), 'theirs.mjs': moduleOf(theirs) });
  const engines = [standIn(folder, 'webnn-node', 'ours.mjs'), standIn(folder, 'peer', 'theirs.mjs')];
  const measurement = new Measurement(engines, { threads: [1, 2], samples: 1, isTiny: true, folder: join(folder, 'files') });
  try {
    return [await measurement.measure(RELU), await measurement.measure(RELU)];
  } finally {
    await measurement.end();
  }
}

test('this package alone runs a case', async (t) => {
  const engine = new Engine('webnn-node', [process.execPath, SERVER, ENGINES['webnn-node'].href]);
  const folder = join(temporaryFolder(t), 'files');
  const measurement = new Measurement([engine], { threads: [1], samples: 2, isTiny: true, folder });
  try {
    const { status, times, reason } = await measurement.measure(RELU);
    assert.equal(status, 'ok', String(reason));
    const { ms, runs, alone } = times[1]['webnn-node'];
    assert.ok(ms > 0 && defined(alone ?? undefined) > 0);
    assert.equal(runs, 2);
  } finally {
    await measurement.end();
  }
});

test('two engines with equal results are timed with each number of threads', async (t) => {
  const [outcome] = await outcomesOf(t, {}, {});
  assert.deepEqual([outcome.status, Object.keys(outcome.times)], ['ok', ['1', '2']]);
  assert.deepEqual(Object.keys(outcome.times[2]), ['webnn-node', 'peer']);
  assert.equal(outcome.times[1].peer.alone, 0.5);
});

test('a wrong result is told, and not timed', async (t) => {
  const run = "throw new Error('it was timed');";
  const [outcome] = await outcomesOf(t, { value: 2, run }, { run });
  assert.deepEqual([outcome.status, outcome.times], ['wrong', {}]);
  assert.equal(outcome.reason, 'webnn-node 1 against peer 1: off by 1.00 of the root mean square, allowed are 0.0001');
});

test('what an engine refuses has a reason, and does not end the sweep', async (t) => {
  for (const outcome of await outcomesOf(t, {}, { load: "throw new Error('no such operator');" })) {
    assert.deepEqual([outcome.status, outcome.engine, outcome.times], ['refused', 'peer', {}]);
    assert.equal(outcome.reason, 'peer: no such operator');
  }
});

test('an engine that ends during a run is started again', async (t) => {
  for (const outcome of await outcomesOf(t, { run: 'process.exit(3);' }, {})) {
    assert.deepEqual([outcome.status, outcome.engine], ['failed', 'webnn-node']);
    assert.match(defined(outcome.reason), /webnn-node ended \(exit code 3\) during turn/);
  }
});

const taken = (ms, alone) => ({ ms, runs: 10, alone });

/** @returns {import('../../bench/operators/types.mjs').Outcome} */
const timed = (family, name, [ours, theirs], [oursOfTwo, theirsOfTwo], [alone, peerAlone] = /** @type {(number | null)[]} */ ([0.1, 0.05])) => ({
  family,
  name: `${family}: ${name}`,
  status: 'ok',
  times: {
    1: { 'webnn-node': taken(ours, alone), 'onnxruntime-node': taken(theirs, peerAlone) },
    2: { 'webnn-node': taken(oursOfTwo, alone), 'onnxruntime-node': taken(theirsOfTwo, peerAlone) },
  },
});

/** @returns {import('../../bench/operators/report.mjs').Run} */
const run = () => ({
  date: '2026-11-26T12:00:00.000Z',
  machine: { cpu: 'CPU 1', cacheBytes: 1, processors: 2, memoryBytes: 2 ** 34, system: 'Linux', node: 'v20' },
  engines: ['webnn-node', 'onnxruntime-node'],
  versions: { 'webnn-node': '0.1.0', 'onnxruntime-node': '1.30.0' },
  threads: [1, 2],
  samples: 3,
  outcomes: [
    timed('pools', 'MaxPool a', [1, 0.4], [0.5, 0.4]),
    timed('pools', 'MaxPool b', [0.01, 0.04], [0.01, 0.02], [0.004, 0.02]),
    timed('softmax', 'Softmax', [2, 1.6], [1, 0.8], [null, 0.02]),
    { family: 'pools', name: 'pools: MaxPool c', status: 'wrong', reason: 'webnn-node is\noff', times: {} },
    { family: 'softmax', name: 'softmax: Other', status: 'refused', engine: 'webnn-node', reason: 'webnn-node: no | such', times: {} },
  ],
});

const named = (title) => defined(tablesOf(run()).find((table) => table.title === title));

test('speeds are relative to the other engine; those of operators alone need times that mean something', () => {
  const [a, b, c] = run().outcomes;
  assert.equal(speedOf(a, 'onnxruntime-node', 1), 0.4);
  assert.equal(speedOf(a, 'onnxruntime-node', 2), 0.8);
  assert.deepEqual(
    [a, b, c].map((one) => speedAlone(one, 'onnxruntime-node', 1)),
    [0.5, null, null],
  );
});

test('families have means, and counts of what is slow', () => {
  const { head, rows } = named('Families');
  assert.ok(rows.every((row) => row.length === head.length));
  assert.deepEqual(rows, [
    ['all', '3', '1.09', '0.50', '2', '1', '1', '1.09', '0.50', '2', '0', '0'],
    ['from 50 µs on', '2', '0.57', '0.50', '2', '1', '1', '0.80', '0.50', '2', '0', '0'],
    ['pools', '2', '1.26', '0.50', '1', '1', '1', '1.26', '0.50', '1', '0', '0'],
    ['softmax', '1', '0.80', '–', '1', '0', '0', '0.80', '–', '1', '0', '0'],
  ]);
});

test('more threads are compared with one', () => {
  assert.deepEqual(named('What more threads gain').rows, [
    ['all', '3', '1.59', '1.59'],
    ['from 200 µs on', '2', '2.00', '1.41'],
  ]);
  const alone = { ...run(), threads: [2] };
  assert.ok(tablesOf(alone).every(({ title }) => title !== 'What more threads gain'));
});

test('each case that was timed has a row', () => {
  const { head, rows } = named('Cases');
  assert.ok(rows.length === 3 && rows.every((row) => row.length === head.length));
  assert.deepEqual(rows[1], ['pools: MaxPool b', '10.0', '40.0', '4.00', '–', '10.0', '20.0', '2.00', '–', '1.00', '2.00']);
});

test('without another engine there are only times', () => {
  const [{ title, head, rows }, ...others] = tablesOf({ ...run(), engines: ['webnn-node'] });
  assert.deepEqual([title, others.length], ['Cases', 0]);
  assert.deepEqual([head.length, rows[0]], [3, ['pools: MaxPool a', '1000', '500']]);
});

test('RESULTS.md has the machine, the tables, and what was not timed', () => {
  const text = resultsMarkdown(run());
  assert.match(text, /2026-11-26, CPU 1, 2 processors, Linux, Node v20\. webnn-node 0\.1\.0, onnxruntime-node 1\.30\.0\./);
  assert.match(text, /npm run bench -- operators --write/);
  for (const { title, rows } of tablesOf(run())) assert.ok(text.includes(`## ${title}\n`) && text.includes(`| ${rows[0].join(' | ')} |`), title);
  assert.deepEqual(notesOf(run().outcomes), ['pools: MaxPool c: wrong: webnn-node is off', 'softmax: Other: refused: webnn-node: no | such']);
  assert.match(text, /\n- softmax: Other: refused: webnn-node: no \| such\n/);
});

test('the command line', async () => {
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [['--against', 'openvino'], /--against is openvino, expected onnxruntime-node or none/],
    [['--filter', '('], /--filter: /],
    [['--filter', 'no such case'], /--filter: no case has a name that matches/],
    [['--threads', '0'], /--threads has 0/],
    [['--write', '--tiny'], /--write needs times of all cases/],
  ])) {
    const { code, stderr } = await runNode([pathOf('run.mjs'), ...args]);
    assert.equal(code, 2, stderr);
    assert.match(stderr, message);
  }
  const { code, stdout } = await runNode([pathOf('run.mjs'), '--list', '--filter', '^tiny: (Add|Relu) 1']);
  assert.deepEqual([code, stdout], [0, 'tiny: Add 1\ntiny: Relu 16\n']);
});
