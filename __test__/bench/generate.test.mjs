// The benchmark of text generation: options, times of tokens, and the report on made-up measurements.

import assert from 'node:assert/strict';
import test from 'node:test';
import { ggufFile, TYPES } from '../../bench/generate/catalog.mjs';
import { likeliest } from '../../bench/generate/direct.mjs';
import { commandOf, ENGINE_NAMES } from '../../bench/generate/engines.mjs';
import { promptOf } from '../../bench/generate/inputs.mjs';
import { promptsOf, roundsOf } from '../../bench/generate/measure.mjs';
import { readOptions } from '../../bench/generate/options.mjs';
import { generateMarkdown, generateNotes, tablesOf } from '../../bench/generate/report.mjs';
import { commonTokens, mistakesOf, rowsOf, shareOfReading, summarize } from '../../bench/generate/rows.mjs';
import { generateBy, Timeline } from '../../bench/generate/timeline.mjs';
import { halfFromNumber } from 'webnn-node-text/elements';

test('options: what is left out is all of it', () => {
  const { types, engines, prompts, tokens, rounds, limits, write } = readOptions([]);
  assert.deepEqual(types, Object.keys(TYPES));
  assert.deepEqual(engines, ENGINE_NAMES);
  assert.deepEqual({ prompts, tokens, rounds, limits, write }, { prompts: [128, 1024], tokens: 64, rounds: 3, limits: true, write: false });
});

test('options: lists have each name once, and prompts are sorted', () => {
  const options = readOptions(['--types', 'q4,fp32,q4', '--engines', 'node-llama-cpp', '--threads', '2,1,2', '--prompt', '512,16', '--no-limits']);
  assert.deepEqual(options.types, ['q4', 'fp32']);
  assert.deepEqual(options.engines, ['node-llama-cpp']);
  assert.deepEqual(options.threads, [2, 1]);
  assert.deepEqual(options.prompts, [16, 512]);
  assert.equal(options.limits, false);
});

test('options: what is wrong is named', () => {
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [['--types', 'q3'], /--types names q3, expected some of fp32, /],
    [['--engines', 'none'], /--engines names none/],
    [['--rounds', '0'], /--rounds has 0, expected integers from 1/],
    [['--prompt', '2000', '--tokens', '48'], /add up to at most 2047/],
    [['--tiny', '--write'], /cannot be combined with --tiny/],
    [['--fast'], /--fast/],
  ])) {
    assert.throws(() => readOptions(args), { message, exitCode: 2 }, args.join(' '));
  }
  assert.throws(() => readOptions(['--help']), { exitCode: 0, message: /^usage: npm run bench -- generate/ });
});

test('each type has a file, and those of GGUF another', () => {
  assert.ok(Object.values(TYPES).every(({ model, file }) => (model === 'decoder') === (file !== undefined)));
  assert.match(ggufFile('models', 'q8'), /decoder.model-Q8_0\.gguf$/);
  assert.throws(() => ggufFile('models', 'q4f16'), /no GGUF file is written for q4f16/);
});

test('Transformers.js is started with and without the stand-in for onnxruntime-node', () => {
  assert.match(
    commandOf('transformers-webnn-node-ort').join(' '),
    /--import file:.*packages\/ort\/register\.js .*serve\.mjs file:.*engines\/transformers\.mjs$/,
  );
  assert.ok(!commandOf('transformers-onnxruntime-node').includes('--import'));
});

test('prompts are the same every time, and hold no token that ends texts', () => {
  const prompt = promptOf(500, 8);
  assert.deepEqual(promptOf(500, 8), prompt);
  assert.deepEqual([...new Set(prompt)].sort(), [0, 1, 2, 3, 4, 5, 6]);
});

test('an encoder-decoder has a prompt of its own; longer prompts have fewer rounds', () => {
  assert.deepEqual(promptsOf('q4', [128, 1024]), [128, 1024]);
  assert.deepEqual(promptsOf('whisper', [128, 1024]), [4]);
  assert.deepEqual(roundsOf(3, 3), [3, 2, 2]);
  assert.deepEqual(roundsOf(1, 2), [1, 1]);
});

test('the next token is that of the largest logit behind the last one, by floats or by bits of float16', () => {
  const logits = [9, 9, 9, -2, -0.5, -1, 0.25, 3, 2.5];
  assert.equal(likeliest({ data: Float32Array.from(logits) }, 6), 4);
  assert.equal(likeliest({ data: Uint16Array.from(logits, halfFromNumber) }, 6), 4);
  assert.equal(likeliest({ data: Uint16Array.from([-2, -0.5, -1], halfFromNumber) }, 3), 1);
});

test('a text is the first token and as many more as are asked for', async () => {
  const asked = [];
  const { ids, firstMs, tokenMs } = await generateBy({ prompt: [5, 6], tokens: 3, seconds: 60 }, async (tokens) => {
    asked.push(tokens);
    return 10 + asked.length;
  });
  assert.deepEqual(ids, [11, 12, 13, 14]);
  assert.deepEqual(asked, [[5, 6], [11], [12], [13]]);
  assert.equal(tokenMs.length, 3);
  assert.ok([firstMs, ...tokenMs].every((ms) => ms >= 0));
});

test('no token is begun when the time is over', () => {
  const timeline = new Timeline({ tokens: 100, seconds: 0 });
  timeline.add(1);
  assert.equal(timeline.isDone, false);
  const start = performance.now();
  while (performance.now() - start < 1);
  timeline.add(2);
  assert.equal(timeline.isDone, true);
});

test('texts have their first tokens in common', () => {
  assert.equal(commonTokens([1, 2, 3], [1, 2, 4, 3]), 2);
  assert.equal(commonTokens([1, 2], [1, 2, 3]), 2);
  assert.equal(commonTokens([1], [2]), 0);
});

/** @type {(ms: number, others?: { foreign?: number, ids?: number[], outsideMs?: number[], tokenMs?: number[] }) => any} */
const sample = (ms, { foreign = 0, ids = [1, 2, 3], ...rest } = {}) => ({
  ids,
  firstMs: 10 * ms,
  tokenMs: [ms, 3 * ms, ms],
  peakBytes: 1e8 * ms,
  foreign,
  ...rest,
});

test('a summary has medians of the clean samples, and the largest memory', () => {
  const { perSecond, firstMs, outsideMs, peakBytes, clean, total } = summarize([
    sample(2),
    sample(4, { outsideMs: [1, 2, 9] }),
    sample(3),
    sample(90, { foreign: 1 }),
  ]);
  assert.deepEqual(
    { perSecond, firstMs, outsideMs, peakBytes, clean, total },
    { perSecond: 1000 / 3, firstMs: 30, outsideMs: 2, peakBytes: 9e9, clean: 3, total: 4 },
  );
  assert.equal(summarize([sample(8, { foreign: 1 })]).clean, 0);
  assert.equal(summarize([sample(8, { tokenMs: [] })]).perSecond, null);
});

test('the share of reading is what the weights take of it', () => {
  assert.equal(shareOfReading(500e6, 20, 40), 0.25);
  assert.equal(shareOfReading(500e6, null, 40), null);
  assert.equal(shareOfReading(500e6, 20, undefined), null);
});

const result = (engine, ms, ids) => ({
  engine,
  status: 'ok',
  version: '1.2',
  loadMs: 5,
  firstTextMs: 50,
  texts: [128, 1024].map((prompt) => ({ prompt, samples: [sample(ms, { ids })] })),
});
const unable = (engine) => ({ engine, status: 'unsupported', reason: 'no | file', texts: [] });

const measurement = (type, threads, results, prompts = [128, 1024]) => ({ type, threads, prompts, results });

const run = () => ({
  date: '2026-11-20T12:00:00.000Z',
  machine: { cpu: 'CPU', cacheBytes: 1, processors: 2, memoryBytes: 2 ** 34, system: 'Linux', node: 'v20' },
  engines: ['webnn-node', 'onnxruntime-node', 'node-llama-cpp'],
  versions: { 'onnxruntime-node': '1.2' },
  tokens: 64,
  rounds: 3,
  bytesPerToken: { fp32: 500e6, fp16: 200e6, F16: 100e6, 'q4-level4': 80e6, Q4_0: 70e6, whisper: 10e6 },
  reading: [{ threads: 1, gbps: 40 }],
  measurements: [
    measurement(
      'whisper',
      1,
      [{ ...result('webnn-node', 2), texts: [{ prompt: 4, samples: [sample(2)] }] }, unable('onnxruntime-node'), unable('node-llama-cpp')],
      [4],
    ),
    measurement('fp32', 1, [result('webnn-node', 10, [7, 8, 9]), result('onnxruntime-node', 20, [7, 8, 6]), unable('node-llama-cpp')]),
    measurement('fp32', 2, [result('webnn-node', 5), result('onnxruntime-node', 40), unable('node-llama-cpp')]),
    measurement('fp16', 1, [result('webnn-node', 10), result('onnxruntime-node', 20), result('node-llama-cpp', 4)]),
    measurement('q4-level4', 1, [result('webnn-node', 10), result('onnxruntime-node', 20), result('node-llama-cpp', 4)]),
  ],
});

test('rows compare tokens with onnxruntime-node where the weights are the same numbers', () => {
  const {
    measurements: [, fp32, , fp16, q4],
    ...rest
  } = run();
  assert.deepEqual(
    rowsOf(fp32, rest)
      .slice(0, 3)
      .map(({ agreement }) => agreement),
    [{ same: 2, of: 3 }, null, null],
  );
  assert.deepEqual(rowsOf(fp16, rest)[2].agreement, { same: 3, of: 3 });
  assert.deepEqual(
    rowsOf(q4, rest)
      .slice(0, 3)
      .map(({ agreement }) => agreement),
    [{ same: 3, of: 3 }, null, null],
  );
});

test('the weights of llama.cpp are those of GGUF', () => {
  const {
    measurements: [, , , fp16],
    ...rest
  } = run();
  const [ours, , llama] = rowsOf(fp16, rest);
  assert.deepEqual([ours.weights, llama.weights], [200e6, 100e6]);
  assert.equal(llama.share, (100e6 * 250) / 40e9);
});

test('mistakes are other first tokens where engines round alike, and types that this package cannot run', () => {
  const rows = (measurements) => measurements.flatMap((one) => rowsOf(one, run()));
  assert.deepEqual(mistakesOf(rows(run().measurements)), [
    'webnn-node, fp32, 1 threads, prompt of 128: only the first 2 tokens agree with the reference',
    'webnn-node, fp32, 1 threads, prompt of 1024: only the first 2 tokens agree with the reference',
  ]);
  const longer = Array.from({ length: 9 }, (_, i) => i);
  const results = [result('webnn-node', 1, [...longer, 1]), result('onnxruntime-node', 1, [...longer, 2])];
  assert.deepEqual(mistakesOf(rows([measurement('fp32', 1, results)])), []);
  assert.deepEqual(mistakesOf(rows([measurement('q4', 1, [unable('webnn-node')], [128])])), ['webnn-node, q4, 1 threads, prompt of 128: unsupported']);
});

const NONE = '–';

test('the tables: the best of all threads, then a table for each prompt and number of threads, encoder-decoders last', () => {
  const tables = tablesOf(run());
  for (const { head, rows } of tables) assert.ok(rows.every((row) => row.length === head.length));
  assert.deepEqual(
    tables.map(({ title }) => title),
    [
      'Tokens per second, at best',
      'A prompt of 128, then 64 tokens, 1 thread',
      'A prompt of 128, then 64 tokens, 2 threads',
      'A prompt of 1024, then 64 tokens, 1 thread',
      'A prompt of 1024, then 64 tokens, 2 threads',
      'Speech, a prompt of 4, then 64 tokens, 1 thread',
      'Reading of memory',
    ],
  );
  assert.deepEqual(tables[0].rows.slice(0, 2), [
    ['whisper', '500 (1)', NONE, NONE],
    ['fp32', '200 (2)', '50.0 (1)', NONE],
  ]);
  const [ours, , llama, half] = tables[1].rows;
  assert.deepEqual(ours, ['fp32', 'webnn-node', '100', '1280', '100', '50.0', '1000', '500', '125.0 %', NONE, '2/3', '1/1']);
  assert.deepEqual(llama, ['', 'node-llama-cpp', 'not supported', ...Array(9).fill(NONE)]);
  assert.equal(half[0], 'fp16');
  assert.deepEqual(tables[5].rows[0].slice(0, 5), ['whisper', 'webnn-node', '500', NONE, '20.0']);
  assert.deepEqual(tables[6].rows, [['1', '40.0']]);
});

test('an engine that fails on its way has no numbers', () => {
  const broken = run();
  broken.measurements[1].results[0].status = 'failed';
  assert.deepEqual(tablesOf(broken)[1].rows[0].slice(1, 4), ['webnn-node', 'failed', NONE]);
});

test('RESULTS.md names machine, versions, how to repeat it and what could not be run', () => {
  const text = generateMarkdown(run());
  assert.match(text, /^# Results of text generation\n\n2026-11-20, CPU, 2 processors, 16\.0 GiB memory, Linux, Node v20\. onnxruntime-node 1\.2\. 3 rounds\./);
  assert.match(text, /npm run bench -- generate --write/);
  assert.deepEqual(generateNotes(run()), [
    'onnxruntime-node, whisper: unsupported: no | file',
    'node-llama-cpp, whisper: unsupported: no | file',
    'node-llama-cpp, fp32: unsupported: no | file',
  ]);
  assert.match(text, /\n- node-llama-cpp, fp32: unsupported: no \| file\n/);
  for (const { title } of tablesOf(run())) assert.ok(text.includes(`## ${title}\n`), title);
});
