// `webnn-node bench --generate`, and the inputs of language models by their names.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test, { describe } from 'node:test';
import { inspectModel, loadModel } from 'webnn-node/onnx';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { greedyTokens, languageModel } from '../../../__test__/onnx/language-model.mjs';
import { generate } from '../lib/bench/generate.mjs';
import { generateRequest } from '../lib/bench/generation.mjs';
import { DecoderError, describeDecoder, emptyCache, lastLogits, mostLikely, stepInputs } from 'webnn-node-text/decoder';
import { feedsOf, HalfArray, halfFromNumber } from 'webnn-node-text/elements';
import { file, webnn } from './command.mjs';
import { folderOfEngine } from './engine.mjs';

const VOCABULARY = 50;

/** Every style of model that is published; the sums of one are never those of another. */
const STYLES = [{}, { half: true }, { positions: true }, { branch: true }, { half: true, positions: true, branch: true }].map((extra) => ({
  vocabulary: VOCABULARY,
  next: (sum) => (7 * sum + 3) % VOCABULARY,
  ...extra,
}));

const [PLAIN] = STYLES;

const folder = temporaryFolder(undefined, { 'model.onnx': languageModel(PLAIN) });
const model = path.join(folder, 'model.onnx');

/** The document of a command, and its notes. */
async function documentOf(...args) {
  const { code, stdout, stderr } = await webnn(...args, '--json');
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^(note: the machine was busy: .*\n)?$/);
  return JSON.parse(stdout);
}

describe('a decoder', () => {
  /** @returns {any} what counts of a value */
  const value = (name, shape, dataType = 'float32') => ({ name, shape, dataType });
  const inputs = [
    value('input_ids', ['b', 's'], 'int64'),
    value('attention_mask', ['b', 't'], 'int64'),
    value('past_key_values.0.key', ['b', 2, 'p', 4]),
    value('past_key_values.0.value', ['b', 2, 'p', 4]),
  ];
  const outputs = [value('logits', ['b', 's', 7]), value('present.0.key', null), value('present.0.value', null)];
  const without = (values, name) => values.filter((one) => one.name !== name);

  test('is found by the names of inputs and outputs', () => {
    assert.deepEqual(describeDecoder({ inputs, outputs }), {
      inputs: [
        { name: 'input_ids', dataType: 'int64' },
        { name: 'attention_mask', dataType: 'int64' },
      ],
      cache: ['key', 'value'].map((kind) => ({ name: `past_key_values.0.${kind}`, output: `present.0.${kind}`, dataType: 'float32', heads: 2, size: 4 })),
      vocabulary: 7,
    });
  });

  test('is refused with what is missing or unknown', () => {
    const refused = (changed, message) =>
      assert.throws(
        () => describeDecoder({ inputs, outputs, ...changed }),
        (error) => {
          assert.ok(error instanceof DecoderError);
          assert.match(error.message, /^this model cannot generate text: /);
          assert.match(error.message, message);
          return true;
        },
      );
    const names = /expected the inputs input_ids and past_key_values\.0\.key, it has /;
    refused({ inputs: without(inputs, 'input_ids') }, names);
    refused({ inputs: inputs.slice(0, 2) }, names);
    refused({ inputs: [...inputs, value('pixel_values', [1]), value('toString', [1])] }, /no value is known for its input pixel_values, toString$/);
    refused(
      { inputs: [...without(inputs, 'past_key_values.0.key'), value('past_key_values.0.key', ['b', 'h', 'p', 4])] },
      /past_key_values\.0\.key is \[b, h, p, 4\], expected \[batch, heads, length, size\]/,
    );
    refused({ outputs: without(outputs, 'present.0.value') }, /no output present\.0\.value for its input past_key_values\.0\.value$/);
    refused({ outputs: without(outputs, 'logits') }, /no output logits; its outputs: present\.0\.key, present\.0\.value$/);
    refused({ outputs: [value('logits', ['b', 's', 'v']), ...outputs] }, /logits is \[b, s, v\], expected \[batch, length, vocabulary\]/);
  });

  test('gets positions behind its cache, a mask over all of it, and its branch', () => {
    const named = ['input_ids', 'attention_mask', 'position_ids'].map((name) => ({ name, dataType: 'int64' }));
    const decoder = { inputs: [...named, { name: 'use_cache_branch', dataType: 'uint8' }], cache: [], vocabulary: 9 };
    const step = (shape, ...numbers) => ({ dataType: 'int64', shape, data: BigInt64Array.from(numbers, BigInt) });
    assert.deepEqual(stepInputs(decoder, [8, 3], 0), {
      input_ids: step([1, 2], 8, 3),
      attention_mask: step([1, 2], 1, 1),
      position_ids: step([1, 2], 0, 1),
      use_cache_branch: { dataType: 'uint8', shape: [1], data: Uint8Array.of(0) },
    });
    assert.deepEqual(stepInputs(decoder, [5], 2), {
      input_ids: step([1, 1], 5),
      attention_mask: step([1, 3], 1, 1, 1),
      position_ids: step([1, 1], 2),
      use_cache_branch: { dataType: 'uint8', shape: [1], data: Uint8Array.of(1) },
    });
  });

  test('begins with an empty cache of its type', () => {
    const cache = [{ name: 'past_key_values.0.key', output: 'present.0.key', dataType: 'float16', heads: 2, size: 4 }];
    assert.deepEqual(emptyCache({ inputs: [], cache, vocabulary: 1 }), {
      'past_key_values.0.key': { dataType: 'float16', shape: [1, 2, 0, 4], data: new HalfArray(0) },
    });
  });

  test('has the scores of the last token, also as bits of float16', () => {
    const numbers = [1, 2, 3, 4, -5, 6];
    const shape = [1, 2, 3];
    assert.deepEqual([...lastLogits({ dataType: 'float32', shape, data: Float32Array.from(numbers) })], [4, -5, 6]);
    assert.deepEqual([...lastLogits({ dataType: 'float16', shape, data: Uint16Array.from(numbers, halfFromNumber) })], [4, -5, 6]);
    assert.equal(mostLikely([4, -5, 6, 6]), 2);
  });

  for (const style of STYLES) {
    test(`generates what its cache, mask and positions say: ${JSON.stringify(style)}`, async () => {
      const loaded = await loadModel(languageModel(style), { device: 'cpu', numThreads: 1 });
      const session = { feedsOf, run: (feeds) => loaded.run(feeds), tensorOf: (result) => result };
      const prompt = [4, 49, 0, 33];
      const { ids, firstMs, tokenMs } = await generate(session, { decoder: describeDecoder(loaded), prompt, tokens: 12 });
      loaded.destroy();
      assert.deepEqual(ids, greedyTokens(style, prompt, 12));
      assert.equal(tokenMs.length, 11);
      assert.ok([firstMs, ...tokenMs].every((ms) => ms > 0));
    });
  }
});

test('bench --generate: rates, times and memory', async () => {
  const svg = path.join(folder, 'tokens.svg');
  const { code, stdout } = await webnn('bench', model, '--generate', '6,5', '--runs', '3', '--threads', '1', '--svg', svg);
  assert.equal(code, 0);
  assert.match(stdout, /^engine +device +prompt tokens\/s +tokens\/s +first token +a token +p95 +texts +load +memory +peak$/m);
  assert.match(stdout, /^webnn-node \d+\.\d+\.\d+ +CPU \(\w+, 1 thread\) .* 3 /m);
  assert.match(stdout, /^Times of one token on the CPU$/m);
  assert.match(await readFile(svg, 'utf8'), /^<svg [^>]*role="img"[^]*model\.onnx: time of one token on the CPU/);
});

test('bench --generate: for programs, every sample and the generated tokens', async () => {
  const {
    engines: [engine],
    prompt,
    tokens,
    threads,
    ratio,
  } = await documentOf('bench', model, '--generate', '6,5', '--seconds', '0.1', '--threads', '1');
  assert.deepEqual([prompt, tokens, threads, ratio], [6, 5, 1, undefined]);
  assert.ok(engine.runs >= 2);
  assert.equal(engine.samples.length, 4 * engine.runs);
  assert.equal(engine.first.runs, engine.runs);
  assert.equal(engine.promptRate, 6000 / engine.first.median);
  assert.equal(engine.tokenRate, 1000 / engine.token.median);
  assert.ok(engine.residentPeak >= engine.residentAfterLoad && engine.residentAfterLoad > 2 ** 20);
  const request = generateRequest(inspectModel(model), [6, 5]);
  assert.ok(new Set(request.prompt).size > 3 && request.prompt.every((id) => id >= 0 && id < VOCABULARY));
  assert.deepEqual(engine.ids, greedyTokens(PLAIN, request.prompt, 5));
});

test('bench --generate: two engines go on with the same prompt, and their tokens are compared', async () => {
  const against = async (factor, bench) =>
    bench('bench', model, '--generate', '6,9', '--runs', '2', '--against', 'onnxruntime-node', '--against-from', await folderOfEngine(folder, factor));
  const { engines, ratio, agreement } = await against(1, documentOf);
  assert.deepEqual(
    engines.map(({ name, runs }) => [name, runs]),
    [
      ['webnn-node', 2],
      ['onnxruntime-node', 2],
    ],
  );
  assert.equal(ratio.prompt, engines[0].first.median / engines[1].first.median);
  assert.equal(ratio.token, engines[0].token.median / engines[1].token.median);
  assert.deepEqual(agreement, { count: 9, equal: 9, firstDifference: null });
  assert.deepEqual(engines[0].ids, engines[1].ids);
  // The least likely token becomes the most likely one.
  const { code, stdout } = await against(-1, webnn);
  assert.equal(code, 0);
  assert.match(stdout, /x as fast as .* \(medians, a prompt of 6 tokens on the CPU\)$/m);
  assert.match(stdout, /x as fast as .* \(medians, each of 8 further tokens on the CPU\)$/m);
  assert.match(stdout, /^\d of 9 tokens are the same; the first difference is at 1$/m);
});

test('bench --generate: a model without a cache is refused', async () => {
  const { code, stdout, stderr } = await webnn('bench', file('conv.onnx'), '--generate', '6,5');
  assert.deepEqual(
    [code, stdout, stderr],
    [1, '', 'webnn-node: this model cannot generate text: expected the inputs input_ids and past_key_values.0.key, it has x\n'],
  );
});
