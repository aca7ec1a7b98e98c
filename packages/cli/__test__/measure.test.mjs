import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { root } from '../../../scripts/process.mjs';
import { histogramLines, histogramSvg, sharedBins } from '../lib/histogram.mjs';
import { systemInfo } from 'webnn-node/inspect';
import { compareTensors, describeTensor, summarizeTimes } from '../lib/statistics.mjs';
import { file, webnn, webnnJson } from './command.mjs';
import { folderOfEngine } from './engine.mjs';

const conv = file('conv.onnx');

const folder = temporaryFolder();

/** Fails unless every tag is closed in order and no character stands where XML forbids it. */
function assertWellFormed(xml) {
  const open = [];
  for (const [, close, name, , selfClosing] of xml.matchAll(/<(\/?)(\w+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>/g)) {
    if (close) assert.equal(open.pop(), name);
    else if (!selfClosing) open.push(name);
  }
  assert.deepEqual(open, []);
  assert.doesNotMatch(xml.replace(/<\/?\w+(?:\s+[\w:-]+="[^"<]*")*\s*\/?>/g, ''), /[<>]|&(?!#\d+;)/);
}

test('statistics of durations', () => {
  const samples = [5, 1, 2, 4, 3];
  const { throughput, ...rest } = summarizeTimes(samples);
  assert.deepEqual(rest, { runs: 5, median: 3, p95: 4.8, min: 1, mean: 3 });
  assert.ok(Math.abs(throughput - 1000 / 3) < 1e-9);
  assert.deepEqual(samples, [5, 1, 2, 4, 3]);
});

test('statistics of tensors', () => {
  const tensor = (...numbers) => ({ dataType: 'float32', shape: [numbers.length], data: Float32Array.from(numbers) });
  assert.deepEqual(describeTensor(tensor(1, NaN, 3)), { dataType: 'float32', shape: [3], min: 1, max: 3, mean: 2, nans: 1, first: [1, NaN, 3] });
  assert.deepEqual(describeTensor(tensor()), { dataType: 'float32', shape: [0], min: null, max: null, mean: null, nans: 0, first: [] });
  assert.deepEqual(compareTensors(tensor(1, 2), tensor(1, 4)), { maxAbsolute: 2, relative: 0.5 });
  assert.deepEqual(compareTensors(tensor(NaN, Infinity), tensor(NaN, Infinity)), { maxAbsolute: 0, relative: 0 });
  assert.equal(compareTensors(tensor(NaN), tensor(1)).maxAbsolute, Infinity);
  assert.equal(compareTensors(tensor(1), tensor(1, 2)).relative, Infinity);
});

test('the bins of a histogram hold every sample once', () => {
  const sets = [[1, 1, 1], [1, 2, 3, 4, 100], Array.from({ length: 1000 }, (_, i) => 5 + Math.sin(i)), [0.001], Array(50).fill(7)];
  for (const a of sets) {
    for (const b of sets) {
      const bins = sharedBins([a, b].map((samples, i) => ({ name: `${i}`, samples })));
      for (const [i, samples] of [a, b].entries()) {
        assert.equal(
          bins.reduce((sum, { counts }) => sum + counts[i], 0),
          samples.length,
        );
      }
      const lines = histogramLines(
        [
          { name: 'a', samples: a },
          { name: 'b', samples: b },
        ],
        80,
        (_, text) => text,
      );
      assert.equal(lines.length, bins.length + 1);
      for (const line of lines) assert.ok(line.length <= 80, line);
    }
  }
});

test('the picture of a histogram is well-formed, whatever the names are', () => {
  const series = [
    { name: '<a&"\'\u0001', samples: [1, 2, 3], median: 2 },
    { name: 'b', samples: [2, 2, 2], median: 2 },
  ];
  const svg = histogramSvg(series, 'a < b & c');
  assertWellFormed(svg);
  assert.match(svg, /^<svg [^>]*role="img"/);
  assert.doesNotMatch(svg, /NaN|Infinity|undefined|\u0001/);
});

test('bench: numbers, histogram and picture', async () => {
  const svg = path.join(folder, 'times.svg');
  const { code, stdout } = await webnn('bench', conv, '--runs', '20', '--warmup', '1', '--threads', '1', '--svg', svg);
  assert.equal(code, 0);
  assert.match(stdout, /^engine +device +median +p95 +min +runs\/s +runs +load +memory +peak$/m);
  assert.match(stdout, /^webnn-node \d+\.\d+\.\d+ +CPU \(\w+, 1 thread\) .* 20 /m);
  assert.match(stdout, /^Times of one run on the CPU$/m);
  assert.match(stdout, /█ \d+$/m);
  assertWellFormed(await readFile(svg, 'utf8'));
});

test('bench: for programs, every sample', async () => {
  const {
    engines: [engine],
    threads,
    othersShare,
  } = await webnnJsonWithNotes('bench', conv, '--seconds', '0.2');
  assert.equal(engine.name, 'webnn-node');
  // Also where there is a GPU: measurements are those of the CPU unless they are asked for elsewhere.
  assert.equal(engine.device, 'cpu');
  assert.match(engine.processor, /^\w+, \d+ threads?$/);
  assert.equal(engine.samples.length, engine.runs);
  assert.ok(engine.min > 0 && engine.min <= engine.median && engine.median <= engine.p95);
  assert.ok(engine.residentPeak >= engine.residentAfterLoad && engine.residentAfterLoad > 2 ** 20);
  assert.equal(threads, null);
  assert.ok(othersShare >= 0 && othersShare <= 1);
});

/** As `webnnJson`, with the note about a busy machine allowed on standard error. */
async function webnnJsonWithNotes(...args) {
  const { code, stdout, stderr } = await webnn(...args, '--json');
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^(note: the machine was busy: .*\n)?$/);
  return JSON.parse(stdout);
}

test('bench: an engine that is not installed is named, with the way to install it', async () => {
  const { code, stdout, stderr } = await webnn('bench', conv, '--against', 'onnxruntime-node', '--against-from', folder);
  assert.equal(code, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /onnxruntime-node is not installed in .*; install it there with: npm install onnxruntime-node/);
  const absent = await webnn('bench', conv, '--against', 'onnxruntime-node', '--against-from', path.join(folder, 'absent'));
  assert.equal(absent.code, 1);
  assert.match(absent.stderr, /--against-from .*absent: there is no such folder/);
});

test('bench: two engines are measured in turns and compared', async () => {
  const against = async (factor, bench = webnnJsonWithNotes) =>
    bench('bench', conv, '--runs', '6', '--against', 'onnxruntime-node', '--against-from', await folderOfEngine(folder, factor));
  const {
    engines,
    ratio,
    agreement: [same],
  } = await against(1);
  assert.deepEqual(
    engines.map(({ name, runs }) => [name, runs]),
    [
      ['webnn-node', 6],
      ['onnxruntime-node', 6],
    ],
  );
  assert.equal(engines[1].version, '0.0.7');
  assert.equal(ratio, engines[0].median / engines[1].median);
  assert.deepEqual(same, { name: 'y', dataType: 'float32', maxAbsolute: 0, relative: 0, agrees: true });
  const { code, stdout } = await against(1.01, webnn);
  assert.equal(code, 0);
  assert.match(stdout, /^output y \(float32\) differs: .*, 0\.0099\d* of the largest value$/m);
  assert.match(stdout, /x as fast as .* \(medians, on the CPU\)$/m);
  assert.match(stdout, /^ +webnn-node +onnxruntime-node$/m);
});

test('bench: two engines run on one device, or the command says which cannot', async () => {
  const { load } = await import('../lib/bench/onnxruntime-node.mjs');
  const inputs = { x: { dataType: 'float32', shape: [1, 16, 4, 4], data: new Float32Array(256) } };
  const options = { model: conv, inputs, from: await folderOfEngine(folder, 1, ['cpu', 'webgpu', 'cuda']) };
  const { processor } = await load({ ...options, device: 'cpu' });
  assert.equal(await processor?.(), 'cpu');
  await assert.rejects(load({ ...options, device: 'gpu' }), { message: 'it cannot use the GPU: cuda: no cuda here; webgpu: no webgpu here' });
  await assert.rejects(load({ ...options, device: 'gpu', from: await folderOfEngine(folder, 1) }), { message: 'it cannot use the GPU: it has only cpu' });
});

test('run, profile and view: a GPU that is asked for is used, or the commands say why not', async () => {
  const { gpuReason } = systemInfo();
  for (const [command, ...options] of [
    ['run', '--input', 'ones'],
    ['profile', '--runs', '1'],
    ['view', '-o', path.join(folder, 'gpu.html')],
  ]) {
    const { code, stderr } = await webnn(command, conv, ...options, '--device', 'gpu');
    if (gpuReason === null) assert.deepEqual([code, stderr], [0, '']);
    else assert.deepEqual([code, stderr.includes('device is "gpu", but no GPU can be used: ')], [1, true], stderr);
  }
});

test('bench: a GPU that is asked for is used, or the command says why not', async () => {
  const { gpuReason } = systemInfo();
  const { code, stdout, stderr } = await webnn('bench', conv, '--runs', '2', '--device', 'gpu');
  if (gpuReason === null) {
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^webnn-node [\d.]+ +GPU \(.+ \(\w+\)\) /m);
    assert.match(stdout, /^Times of one run on the GPU$/m);
  } else {
    assert.deepEqual([code, stdout, stderr], [1, '', `webnn-node: webnn-node: the GPU cannot be used: ${gpuReason}\n`]);
  }
});

test('bench: an error of an engine ends the command', async () => {
  const { code, stderr } = await webnn('bench', file('unsupported.onnx'));
  assert.equal(code, 1);
  assert.match(stderr, /^webnn-node: .*Strange/s);
  assert.match(stderr, /^See https:.*#err_webnn_unsupported_operator\n$/m);
});

test('profile: operators, steps, trace and page', async () => {
  const [trace, html] = ['trace.json', 'profile.html'].map((name) => path.join(folder, name));
  const { code, stdout } = await webnn('profile', conv, '--runs', '5', '--trace', trace, '--html', html);
  assert.equal(code, 0);
  assert.match(stdout, /^conv\.onnx: .* a run, median of 5 \(/);
  assert.match(stdout, /^Operators\noperator +steps +time +share +GFLOP\/s +GB\/s\n\w+/m);
  assert.match(stdout, /^# +operator +label +kernel +time +share +GFLOP\/s +GB\/s\n/m);
  const events = JSON.parse(await readFile(trace, 'utf8')).traceEvents;
  assert.ok(events.length >= 5);
  assert.match(await readFile(html, 'utf8'), /^<!doctype html>/i);
  const { perStep, perOperator, runs } = await webnnJson('profile', conv, '--runs', '3', '--input', 'ones');
  assert.equal(runs.count, 3);
  assert.ok(perStep.length >= 1 && perOperator.length >= 1);
});

test('profile: the slowest steps come first, and say what they compute', async () => {
  const { code, stdout } = await webnn('profile', path.join(root, 'examples', 'text-generation', 'model.onnx'), '--runs', '3', '--top', '20');
  assert.equal(code, 0);
  const rows = stdout
    .split(/^The 20 slowest of \d+ steps\n.*\n/m)[1]
    .split('\n')
    .slice(0, 20);
  const shares = rows.map((row) => Number(/ ([\d.]+) % /.exec(row)?.[1]));
  assert.deepEqual(
    shares,
    shares.toSorted((a, b) => b - a),
  );
  const whole = await webnn('profile', path.join(root, 'examples', 'text-generation', 'model.onnx'), '--runs', '1', '--top', '1000');
  // As the head says after the median: threads of the CPU, or the name of a GPU.
  const kernel = / threads?\)$/m.test(whole.stdout) ? 'attention, streamed' : 'attention';
  assert.match(whole.stdout, new RegExp(`^ *\\d+ +attention +MatMul_26 +${kernel} {2}`, 'm'));
});

test('view: a page that holds the names of the nodes', async () => {
  const page = path.join(folder, 'view.html');
  const { code, stdout } = await webnn('view', conv, '-o', page, '--profile', '--runs', '2');
  assert.equal(code, 0);
  assert.match(stdout, /^wrote .*view\.html \([\d.]+ [KM]iB\): 2 nodes, \d after compilation\n$/);
  const html = await readFile(page, 'utf8');
  assert.match(html, /^<!doctype html>/i);
  assert.match(html, /positive/);
});
