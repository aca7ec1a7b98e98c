// Vectors of texts, of folders as sentence-transformers and the Hub have them.

import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { assertClose } from '../../../__test__/lib/numbers.mjs';
import { decoder, encoder, modules, sentenceFiles, statesOf, WIDTH } from './embedding-support.mjs';
import { Places, Turns } from '../lib/batcher/turns.js';
import { UNOBSERVED } from '../lib/metrics/metrics.js';
import { loadVersion } from '../lib/models/load.js';
import { DEFAULTS } from '../lib/registry/config.js';
import { post, postJson, repositoryOf, startServer } from './support.mjs';

const TEXTS = ['cat bread train', 'dog', 'bicycle car fish horse cheese'];

const TOLERANCE = 1e-5;

const column = (/** @type {number[][]} */ rows, /** @type {number} */ i) => rows.map((row) => row[i]);
const total = (/** @type {number[]} */ numbers) => numbers.reduce((sum, number) => sum + number, 0);
/** A number for each column. @param {(numbers: number[]) => number} of */
const columns = (/** @type {number[][]} */ rows, of) => rows[0].map((_, i) => of(column(rows, i)));
const normal = (/** @type {number[]} */ vector) => vector.map((number) => number / Math.hypot(...vector));

/** The poolings by their names in model.json, the flags of sentence-transformers, and what they mean. */
const POOLINGS = /** @type {[name: string, flag: string, of: (states: number[][]) => number[]][]} */ ([
  ['cls', 'pooling_mode_cls_token', (states) => states[0]],
  ['max', 'pooling_mode_max_tokens', (states) => columns(states, (numbers) => Math.max(...numbers))],
  ['mean', 'pooling_mode_mean_tokens', (states) => columns(states, (numbers) => total(numbers) / numbers.length)],
  ['mean_sqrt_len', 'pooling_mode_mean_sqrt_len_tokens', (states) => columns(states, (numbers) => total(numbers) / Math.sqrt(numbers.length))],
  [
    'weightedmean',
    'pooling_mode_weightedmean_tokens',
    (states) => columns(states, (numbers) => total(numbers.map((number, i) => (i + 1) * number)) / total(numbers.map((_, i) => i + 1))),
  ],
  ['last', 'pooling_mode_lasttoken', (states) => states[states.length - 1]],
]);

/** What most exports of a BERT have. */
const USUAL = encoder(['last_hidden_state', 'pooler_output']);

/** 1_Pooling/config.json, with the flags that are set. @param {string[]} flags */
const poolingFile = (...flags) => ({ word_embedding_dimension: WIDTH, ...Object.fromEntries(POOLINGS.map(([, flag]) => [flag, flags.includes(flag)])) });

/**
 * Loads a folder with the settings of a model.json.
 * @param {{ after: (done: () => void) => void }} t
 * @param {Record<string, string | object>} files of the model `m`
 * @param {Partial<import('../lib/registry/config.js').ModelConfig>} [config]
 * @param {import('../lib/batcher/executor.js').Observer} [observer]
 */
async function load(t, files, config = {}, observer = UNOBSERVED) {
  const services = { config: { ...DEFAULTS, ...config }, turns: new Turns(new Places()), observer };
  const model = await loadVersion(`${repositoryOf(t, files)}/m`, services);
  t.after(() => model.destroy());
  return /** @type {import('../lib/models/embedder.js').Embedder} */ (model);
}

/** Vectors of all texts together, so that the short ones are padded. @param {import('../lib/models/embedder.js').Embedder} model */
const vectorsOf = async (model, texts = TEXTS) => (await model.embed(texts)).vectors;

describe('the layout of sentence-transformers', () => {
  for (const [name, flag, of] of POOLINGS) {
    test(`${name}: states are pooled as 1_Pooling says, although there is pooler_output`, async (t) => {
      const files = { '1_Pooling/config.json': poolingFile(flag), 'modules.json': modules('Pooling') };
      const model = await load(t, sentenceFiles('m', USUAL, files));
      (await vectorsOf(model)).forEach((vector, i) => assertClose(vector, of(statesOf(TEXTS[i])), TOLERANCE, `${name} of ${TEXTS[i]}`));
      assert.deepEqual([model.about.output, model.about.pooling], ['last_hidden_state', name]);
      const set = await load(
        t,
        sentenceFiles('m', USUAL, { 'modules.json': modules('Pooling', 'Normalize'), '1_Pooling/config.json': poolingFile('pooling_mode_cls_token') }),
        {
          pooling: /** @type {any} */ (name),
        },
      );
      (await vectorsOf(set)).forEach((vector, i) => assertClose(vector, normal(of(statesOf(TEXTS[i]))), TOLERANCE, `${name} by model.json`));
    });
  }

  test('several poolings are joined in their order, also where the file has names in place of flags', async (t) => {
    const [[, clsFlag, cls], [, maxFlag, max], [, meanFlag, mean]] = POOLINGS;
    const expected = TEXTS.map(statesOf).map((states) => [...cls(states), ...max(states), ...mean(states)]);
    for (const config of [poolingFile(meanFlag, clsFlag, maxFlag), { pooling_mode: ['mean', 'max', 'cls'] }]) {
      const model = await load(t, sentenceFiles('m', USUAL, { 'modules.json': modules('Pooling'), '1_Pooling/config.json': config }));
      assert.equal(model.width, 3 * WIDTH);
      (await vectorsOf(model)).forEach((vector, i) => assertClose(vector, expected[i], TOLERANCE));
    }
  });

  test('over HTTP, with sizes that the file only names: the width is known, and vectors can be shortened', async (t) => {
    const [, flag, mean] = POOLINGS[2];
    const recipe = { 'modules.json': modules('Pooling', 'Normalize'), '1_Pooling/config.json': poolingFile(flag) };
    const repository = repositoryOf(t, { ...sentenceFiles('m', USUAL, recipe), ...sentenceFiles('sentences', encoder(['sentence_embedding'])) });
    const { urls } = await startServer(t, { models: repository });
    const embed = (/** @type {object} */ body) => postJson(`${urls.http}/v1/embeddings`, { model: 'm', input: TEXTS, ...body });
    const { status, json } = await embed({});
    assert.equal(status, 200);
    json.data.forEach(({ embedding }, i) => assertClose(embedding, normal(mean(statesOf(TEXTS[i]))), TOLERANCE));
    const short = await embed({ dimensions: 2 });
    short.json.data.forEach(({ embedding }, i) => assertClose(embedding, normal(mean(statesOf(TEXTS[i])).slice(0, 2)), TOLERANCE));
    const long = await embed({ dimensions: WIDTH + 1 });
    assert.match(long.json.error.message, new RegExp(`from 1 to ${WIDTH};`));
    for (const [name, width] of /** @type {const} */ ([
      ['m', WIDTH],
      ['sentences', 2 * WIDTH],
    ])) {
      const response = await fetch(`${urls.http}/v2/models/${name}`);
      assert.deepEqual((await response.json()).outputs, [{ name: 'embedding', datatype: 'FP32', shape: [-1, width] }]);
      const text = { name: 'text', shape: [1], datatype: 'BYTES', data: ['cat'] };
      const { outputs } = JSON.parse((await post(`${urls.http}/v2/models/${name}/infer`, { inputs: [text] })).bytes.toString());
      assert.deepEqual(outputs[0].shape, [1, width]);
    }
  });

  test('a vector of the whole model wins over its states, and contains its further layers', async (t) => {
    const files = { 'modules.json': modules('Pooling', 'Dense'), '1_Pooling/config.json': poolingFile('pooling_mode_mean_tokens') };
    const model = await load(t, sentenceFiles('m', encoder(['token_embeddings', 'pooler_output', 'sentence_embedding']), files));
    (await vectorsOf(model)).forEach((vector, i) => assertClose(vector, [...statesOf(TEXTS[i])[0], ...statesOf(TEXTS[i])[0]], TOLERANCE));
    assert.deepEqual([model.about.output, model.about.pooling, model.width], ['sentence_embedding', 'none', 2 * WIDTH]);
  });

  test('the prompt that is the default stands in front of texts, and not of tokens', async (t) => {
    const prompts = { prompts: { query: 'train ', document: '' }, default_prompt_name: 'query' };
    const recipe = {
      'modules.json': modules('Pooling'),
      '1_Pooling/config.json': poolingFile('pooling_mode_cls_token'),
      'sentence_bert_config.json': { max_seq_length: 4 },
    };
    const files = sentenceFiles('m', USUAL, { ...recipe, 'config_sentence_transformers.json': prompts });
    const model = await load(t, files);
    assert.equal(model.about.maxLength, 4);
    const { vectors, tokens } = await model.embed(['cat dog', [2, 3]]);
    assertClose(vectors[0], statesOf('train')[0], TOLERANCE);
    assertClose(vectors[1], statesOf('cat')[0], TOLERANCE);
    assert.equal(tokens, 5);
    await assert.rejects(model.embed(['cat cat cat cat']), { code: 'context_length_exceeded' });
    for (const [maxLength, own] of [
      [3, 3],
      [10, 10],
      [1000, 64],
    ]) {
      assert.equal((await load(t, files, { maxLength })).about.maxLength, own);
    }
    const other = await load(t, files, { prompt: 'fish ' });
    assertClose((await vectorsOf(other, ['dog']))[0], statesOf('fish')[0], TOLERANCE);
    const empty = await load(
      t,
      sentenceFiles('m', USUAL, { ...recipe, '1_Pooling/config.json': poolingFile('pooling_mode_cls_token', 'pooling_mode_lasttoken') }),
    );
    assert.deepEqual([...(await vectorsOf(empty, [' ']))[0]], Array(2 * WIDTH).fill(0), 'a text without tokens');
    const none = await load(t, sentenceFiles('m', USUAL, { ...recipe, 'config_sentence_transformers.json': { ...prompts, default_prompt_name: null } }));
    assertClose((await vectorsOf(none, ['dog']))[0], statesOf('dog')[0], TOLERANCE);
  });

  const refusals = /** @type {[what: string, files: Record<string, any>, config: object, message: RegExp][]} */ ([
    ['a layer that the file lacks', { 'modules.json': modules('Pooling', 'Dense') }, {}, /2_Dense \(Dense\) behind the states.*"pooling"/],
    ['an unknown pooling', { '1_Pooling/config.json': { pooling_mode_attention: true } }, {}, /has the pooling pooling_mode_attention; expected cls,/],
    ['no pooling at all', { '1_Pooling/config.json': poolingFile() }, {}, /names no pooling/],
    [
      'a pooling file that is missing',
      { 'modules.json': [{ type: 'sentence_transformers.models.Pooling', path: '3_Pooling' }] },
      {},
      /there is no .*3_Pooling/,
    ],
    [
      'a default prompt that is missing',
      { 'config_sentence_transformers.json': { prompts: {}, default_prompt_name: 'query' } },
      {},
      /default_prompt_name is "query"/,
    ],
    ['an output that is missing', {}, { output: 'vectors' }, /no output vectors.*it has last_hidden_state, pooler_output/],
    ['states without a pooling', {}, { output: 'last_hidden_state', pooling: 'none' }, /last_hidden_state has a vector for each token/],
    ['a pooling of what is no states', {}, { output: 'pooler_output', pooling: 'mean' }, /pooler_output has one vector per sequence/],
  ]);
  for (const [what, files, config, message] of refusals) {
    test(`refuses ${what}`, async (t) => {
      /** @type {Record<string, object>} */
      const withPooling =
        'modules.json' in files && !('1_Pooling/config.json' in files) ? { '1_Pooling/config.json': poolingFile('pooling_mode_mean_tokens') } : {};
      await assert.rejects(load(t, sentenceFiles('m', USUAL, { ...withPooling, ...files }), config), { name: 'RepositoryError', message });
    });
  }

  test('refuses pooler_output where the states are to be pooled, unless model.json names it', async (t) => {
    const files = sentenceFiles('m', encoder(['pooler_output']), { '1_Pooling/config.json': poolingFile('pooling_mode_mean_tokens') });
    await assert.rejects(load(t, files), { name: 'RepositoryError', message: /the states of tokens are to be pooled, and no output has them.*"output"/ });
    const model = await load(t, files, { output: 'pooler_output' });
    assert.equal(model.about.pooling, 'none');
  });

  test('a pooling in model.json means states, and none means vectors', async (t) => {
    const files = sentenceFiles('m', encoder(['last_hidden_state', 'sentence_embedding', 'pooler_output']), {
      'modules.json': modules('Pooling'),
      '1_Pooling/config.json': poolingFile('pooling_mode_cls_token'),
    });
    const outputs = [{}, { pooling: 'mean' }, { pooling: ['max', 'mean'] }, { pooling: 'none' }, { output: 'pooler_output' }].map(async (config) => {
      const { output, pooling } = (await load(t, files, /** @type {any} */ (config))).about;
      return `${output}: ${pooling}`;
    });
    assert.deepEqual(await Promise.all(outputs), [
      'sentence_embedding: none',
      'last_hidden_state: mean',
      'last_hidden_state: max, mean',
      'sentence_embedding: none',
      'pooler_output: none',
    ]);
    const plain = sentenceFiles('m', USUAL, { '1_Pooling/config.json': poolingFile('pooling_mode_cls_token') });
    assert.equal((await load(t, plain, { pooling: 'none' })).about.output, 'pooler_output');
  });

  test('layers that are left out because model.json says so are in the log', async (t) => {
    const files = { 'modules.json': modules('Pooling', 'Dense'), '1_Pooling/config.json': poolingFile('pooling_mode_mean_tokens') };
    const model = await load(t, sentenceFiles('m', USUAL, files), { pooling: 'mean' });
    assert.match(model.warnings.join(), /do without 2_Dense/);
  });
});

describe('other folders', () => {
  test('without a recipe: the mean of the states, of length 1, and the log says that it is a guess', async (t) => {
    for (const output of /** @type {const} */ (['last_hidden_state', 'token_embeddings', 'states_of_mine'])) {
      const model = await load(t, sentenceFiles('m', encoder([output, 'pooler_output'])));
      const [, , mean] = POOLINGS[2];
      (await vectorsOf(model)).forEach((vector, i) => assertClose(vector, normal(mean(statesOf(TEXTS[i]))), TOLERANCE));
      assert.equal(model.about.output, output);
      assert.match(model.warnings.join(), /does not say how the states of tokens become a vector/);
    }
  });

  test('a model that does not know what is padding computes only texts of equal length together', async (t) => {
    const model = await load(t, sentenceFiles('m', encoder(['pooler_output'], { mask: false })), { normalize: false, maxBatch: 16 });
    const one = await Promise.all(['cat', 'cat dog', 'dog', 'dog cat fish'].map((text) => vectorsOf(model, [text])));
    const all = await vectorsOf(model, ['cat', 'cat dog', 'dog', 'dog cat fish']);
    one.forEach(([vector], i) => assert.deepEqual(all[i], vector));
  });

  test('tokens that the tokenizer does not have are refused before others wait for them', async (t) => {
    /** @type {number[]} */
    const batches = [];
    const observer = { ...UNOBSERVED, failed: (/** @type {unknown} */ _, /** @type {number} */ requests) => void batches.push(requests) };
    const model = await load(t, sentenceFiles('m', USUAL), {}, observer);
    const refused = { kind: 'invalid', param: 'input', message: "input 0 has the token 11, which the model's tokenizer does not have" };
    const others = Array.from({ length: 8 }, () => model.embed([[2, 3]]));
    await Promise.all([assert.rejects(model.embed([[2, 11]]), refused), ...others]);
    assert.deepEqual(batches, []);
  });

  test('a text for which the model computes what is no number gets an error, and others in its batch their vectors', async (t) => {
    const models = repositoryOf(t, sentenceFiles('m', encoder(['last_hidden_state'], { infinite: 2 })));
    const { urls } = await startServer(t, { models });
    const embed = (/** @type {string} */ input) => postJson(`${urls.http}/v1/embeddings`, { model: 'm', input });
    const [bad, ...good] = await Promise.all(['cat dog', 'dog fish', 'dog dog'].map(embed));
    assert.deepEqual([bad.status, bad.json.error.message], [500, 'the model computed numbers that are not finite for this string']);
    for (const { status, json } of good) assert.ok(status === 200 && json.data[0].embedding.every(Number.isFinite));
  });

  test('lengths below 1 in a configuration are none', async (t) => {
    for (const max_position_embeddings of [-1, 0, null]) {
      const files = sentenceFiles('m', USUAL, { 'config.json': { max_position_embeddings }, 'tokenizer_config.json': { model_max_length: 7 } });
      assert.equal((await load(t, files)).about.maxLength, 7);
    }
  });

  test('a file for one text at a time computes the texts of all requests one after the other', async (t) => {
    const models = { m: encoder(['last_hidden_state'], { batch: 1 }), several: encoder(['last_hidden_state']) };
    const [model, several] = await Promise.all([load(t, sentenceFiles('m', models.m)), load(t, sentenceFiles('m', models.several))]);
    const texts = ['cat dog', 'dog horse', 'fish bread'];
    const expected = await vectorsOf(several, texts);
    const [all, ...each] = await Promise.all([vectorsOf(model, texts), ...texts.map((text) => vectorsOf(model, [text]))]);
    expected.forEach((vector, i) => {
      assertClose(all[i], vector, TOLERANCE);
      assert.deepEqual(each[i], [all[i]]);
    });
  });

  test('a classifier is refused, and served as tensors if model.json says so', async (t) => {
    const files = sentenceFiles('m', encoder(['logits']));
    await assert.rejects(load(t, files), { name: 'RepositoryError', message: /the model has logits.*"kind" to "tensors"/ });
    const { urls } = await startServer(t, { models: repositoryOf(t, { ...files, 'm/model.json': { kind: 'tensors' } }) });
    const tensor = (/** @type {string} */ name, /** @type {number[]} */ data) => ({ name, datatype: 'INT64', shape: [1, data.length], data });
    const inputs = [tensor('input_ids', [2, 3]), tensor('attention_mask', [1, 1]), tensor('token_type_ids', [0, 0])];
    const { status, json } = await postJson(`${urls.http}/v2/models/m/infer`, { inputs });
    assert.equal(status, 200);
    assert.deepEqual(json.outputs[0].shape, [1, 2]);
  });
});

describe('a decoder with a cache', () => {
  const sums = (/** @type {string} */ text) => statesOf(text).reduce((before, state) => before.map((number, i) => number + state[i]));

  test('makes vectors where its folder says so', async (t) => {
    const recipe = { 'modules.json': modules('Pooling', 'Normalize'), '1_Pooling/config.json': poolingFile('pooling_mode_lasttoken') };
    const model = await load(t, sentenceFiles('m', decoder(['logits', 'last_hidden_state']), recipe));
    assert.deepEqual([model.kind, model.about.output, model.about.pooling], ['embeddings', 'last_hidden_state', 'last']);
    (await vectorsOf(model)).forEach((vector, i) => assertClose(vector, normal(sums(TEXTS[i])), TOLERANCE));
  });

  test('makes vectors where it has no scores of tokens, and where model.json says so', async (t) => {
    for (const [outputs, config] of /** @type {[('last_hidden_state' | 'logits')[], object][]} */ ([
      [['last_hidden_state'], { pooling: 'last' }],
      [['logits', 'last_hidden_state'], { kind: 'embeddings', pooling: 'last' }],
    ])) {
      const model = await load(t, sentenceFiles('m', decoder(outputs)), config);
      assert.equal(model.kind, 'embeddings');
      (await vectorsOf(model)).forEach((vector, i) => assertClose(vector, normal(sums(TEXTS[i])), TOLERANCE));
    }
    const generator = await load(t, sentenceFiles('m', decoder(['logits', 'last_hidden_state'])));
    assert.equal(/** @type {any} */ (generator).kind, 'generation');
  });
});
