// What a model's folder and a caller say about a text: generation_config.json, settings, the context.

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import path from 'node:path';
import test, { describe } from 'node:test';
import { Template } from '@huggingface/jinja';
import { loadModel } from 'webnn-node/onnx';
import { describeDecoder } from 'webnn-node-text/decoder';
import { END, TEMPLATE, TOKENIZER, VOCABULARY } from '../../../__test__/examples/model-folder.mjs';
import { generator as randomOf } from '../../../__test__/lib/random.mjs';
import { Places, Turns } from '../lib/batcher/turns.js';
import { UNOBSERVED } from '../lib/metrics/metrics.js';
import { Decoder } from '../lib/models/decoder.js';
import { InTurns, Together } from '../lib/batcher/rows.js';
import { Sequences } from '../lib/batcher/sequences.js';
import { rowCounts } from '../lib/models/batching.js';
import { contextBound } from '../lib/models/context.js';
import { DEFAULTS } from '../lib/registry/config.js';
import { Forbidden } from '../lib/text/constraints.js';
import { changedLogits, chooseToken, UNCHANGED } from '../lib/text/sampling.js';
import { CONTEXT, KINDS, modelsOf, loadFrom as loadModelFrom } from './generation-support.mjs';

/**
 * Loads a model with a generation_config.json.
 * @param {{ after: (done: () => Promise<void> | void) => void }} t
 * @param {object} generation
 * @param {{ config?: Partial<import('../lib/registry/config.js').ModelConfig>, content?: object, observer?: object }} [options]
 * @returns {Promise<import('../lib/models/generator.js').Generator>}
 */
async function load(t, generation, { config = {}, content = {}, observer = {} } = {}) {
  return loadFrom(t, await modelsOf(t, { model: { ...KINDS.together, generation, ...content } }), { config, observer });
}

/** Loads the model of a folder that generates two texts at the same time. @type {typeof loadModelFrom} */
const loadFrom = (t, folder, { config = {}, observer } = {}) => loadModelFrom(t, folder, { config: { maxSequences: 2, ...config }, observer });

/** All tokens end nothing: what ends a text is what a test is about. */
const endless = { ignoreEnd: true, sampling: { temperature: 0 } };

/** The tokens of a text: each has its logarithm of a probability. */
const tokensOf = async (model, prompt, wishes) => (await model.generate(prompt, { ...wishes, logprobs: 0 })).logprobs.map(({ id }) => id);

const PROMPT = [...Buffer.from('a text, and a text again')];

/**
 * The scores of all tokens behind some: a text of one token, with all logarithms of probabilities.
 * @param {import('../lib/models/generator.js').Generator} model
 * @param {number[]} ids
 */
async function scoresOf(model, ids) {
  const { logprobs } = await model.generate(ids, { maxTokens: 1, logprobs: VOCABULARY, ...endless });
  const scores = new Float64Array(VOCABULARY);
  for (const { id, logprob } of logprobs[0].top) scores[id] = logprob;
  return scores;
}

/** The most likely of the tokens that are not forbidden, written as simply as can be. */
function naive(scores, isForbidden) {
  let best = -1;
  for (let id = 0; id < scores.length; id++) if (!isForbidden(id) && (best === -1 || scores[id] > scores[best])) best = id;
  return best;
}

/** @param {number[]} ids @param {number} size */
const grams = (ids, size) => ids.slice(0, ids.length - size + 1).map((_, i) => ids.slice(i, i + size).join());

describe('generation_config.json', () => {
  const EVEN = Array.from({ length: 128 }, (_, i) => 2 * i);

  /** What each setting forbids behind the tokens of prompt and answer. */
  const RULES = /** @type {[name: string, setting: object, isForbidden: (id: number, ids: number[], first: boolean) => boolean][]} */ ([
    ['no_repeat_ngram_size 2', { no_repeat_ngram_size: 2 }, (id, ids) => grams(ids, 2).includes(`${ids.at(-1)},${id}`)],
    ['no_repeat_ngram_size 1', { no_repeat_ngram_size: 1 }, (id, ids) => ids.includes(id)],
    ['suppress_tokens', { suppress_tokens: EVEN }, (id) => EVEN.includes(id)],
    ['begin_suppress_tokens', { begin_suppress_tokens: Array.from({ length: 200 }, (_, i) => i) }, (id, _, first) => first && id < 200],
    [
      'bad_words_ids',
      { bad_words_ids: [[44], [END], ...EVEN.flatMap((id) => [...EVEN].map((next) => [id, next]))] },
      (id, ids) => id === 44 || (id % 2 === 0 && /** @type {number} */ (ids.at(-1)) % 2 === 0 && /** @type {number} */ (ids.at(-1)) < 256 && id < 256),
    ],
  ]);
  for (const [name, setting, isForbidden] of RULES) {
    test(`${name}: the tokens are those of a simple search`, async (t) => {
      const plain = await load(t, {});
      const model = await load(t, setting);
      const ids = [...PROMPT];
      for (let i = 0; i < 40; i++) ids.push(naive(await scoresOf(plain, ids), (id) => isForbidden(id, ids, i === 0)));
      const answer = ids.slice(PROMPT.length);
      assert.deepEqual(await tokensOf(model, PROMPT, { ...endless, maxTokens: 40 }), answer);
      const without = await tokensOf(plain, PROMPT, { ...endless, maxTokens: 40 });
      assert.notDeepEqual(without, answer, 'the setting has an effect');
    });
  }

  test('repetition_penalty: scores of what prompt and answer have, as in transformers', async (t) => {
    const model = await load(t, { repetition_penalty: 1.3 });
    const plain = await load(t, {});
    const answer = await tokensOf(model, PROMPT, { ...endless, maxTokens: 40 });
    assert.ok(new Set(answer).size > new Set(await tokensOf(plain, PROMPT, { ...endless, maxTokens: 40 })).size, 'repeats itself less');
    assert.deepEqual(await tokensOf(plain, PROMPT, { ...endless, maxTokens: 40, changes: { repetition: 1.3 } }), answer);
    assert.notDeepEqual(await tokensOf(model, PROMPT, { ...endless, maxTokens: 40, changes: { repetition: 1 } }), answer);
    // The same from the logits of the model, written as simply as can be.
    const raw = await loadModel(path.join(await modelsOf(t, { raw: KINDS.together }), 'raw', 'onnx', 'model.onnx'), { device: 'cpu', numThreads: 1 });
    t.after(() => raw.destroy());
    const decoder = new Decoder(raw, describeDecoder(raw));
    const ids = [...PROMPT];
    let step = await decoder.read(PROMPT, decoder.empty);
    while (ids.length < PROMPT.length + 40) {
      const scores = Array.from(step.logits[0], (score, id) => (!ids.includes(id) ? score : score < 0 ? score * 1.3 : score / 1.3));
      ids.push(naive(scores, () => false));
      step = await decoder.read([ids[ids.length - 1]], step.cache);
    }
    assert.deepEqual(answer, ids.slice(PROMPT.length));
    const { chance, below } = randomOf(3);
    for (let round = 0; round < 50; round++) {
      const logits = Float32Array.from({ length: 30 }, () => below(200) / 10 - 10);
      const seen = new Set(Array.from({ length: below(10) }, () => below(30)));
      const expected = Array.from(logits, (score, id) => (!seen.has(id) ? score : score < 0 ? score * 1.7 : score / 1.7));
      const changed = changedLogits(logits, { ...UNCHANGED, repetition: 1.7 }, new Map(), { seen });
      assert.ok(expected.every((score, id) => Math.abs(score - changed[id]) < 1e-12));
      if (chance(0.5)) assert.equal(changedLogits(logits, UNCHANGED, new Map(), { seen }), logits, 'no copy where nothing changes');
    }
  });

  test('tokens that end a text are a list, and none comes before min_new_tokens', async (t) => {
    const plain = await load(t, {});
    const free = await tokensOf(plain, PROMPT, { ...endless, maxTokens: 12 });
    const end = free[5];
    const at = free.indexOf(end);
    const content = { tokenizerConfig: { eos_token: null } };
    const model = await load(t, { eos_token_id: [END, end] }, { content });
    assert.deepEqual(await tokensOf(model, PROMPT, { sampling: { temperature: 0 } }), free.slice(0, at));
    for (const setting of [{ min_new_tokens: 9 }, { min_length: PROMPT.length + 9 }]) {
      const patient = await load(t, { eos_token_id: [END, end], ...setting, max_new_tokens: 9 }, { content });
      const tokens = await tokensOf(patient, PROMPT, { sampling: { temperature: 0 } });
      assert.equal(tokens.length, 9);
      assert.ok(!tokens.includes(end));
    }
    // As in transformers, min_length has no effect beside it.
    const both = await load(t, { eos_token_id: [END, end], min_new_tokens: 0, min_length: PROMPT.length + 9 }, { content });
    assert.deepEqual(await tokensOf(both, PROMPT, { sampling: { temperature: 0 } }), free.slice(0, at));
    assert.deepEqual(await tokensOf(model, PROMPT, { ...endless, maxTokens: 12 }), free, 'ignoreEnd');
    assert.deepEqual(await tokensOf(plain, PROMPT, { ...endless, maxTokens: 12, stopTokens: [end] }), free.slice(0, at), 'stopTokens');
    assert.ok(!(await tokensOf(plain, PROMPT, { ...endless, maxTokens: 12, stopTokens: [end], minTokens: 12 })).includes(end), 'minTokens');
    await assert.rejects(plain.generate(PROMPT, { stopTokens: [VOCABULARY] }), { kind: 'invalid', param: 'stop_token_ids' });
  });

  test('texts that end an answer', async (t) => {
    const plain = await load(t, {});
    const { text } = await plain.generate(PROMPT, { ...endless, maxTokens: 30 });
    const stop = text.slice(10, 12);
    const model = await load(t, { stop_strings: [stop] });
    const ended = await model.generate(PROMPT, { ...endless, maxTokens: 30 });
    assert.deepEqual([ended.text, ended.finishReason], [text.slice(0, text.indexOf(stop)), 'stop']);
  });

  test('how long an answer is: the caller, then model.json, then the file', async (t) => {
    const long = await load(t, { max_new_tokens: 7 });
    assert.equal((await long.generate(PROMPT, endless)).tokens, 7);
    assert.equal((await long.generate(PROMPT, { ...endless, maxTokens: 3 })).tokens, 3);
    const whole = await load(t, { max_length: PROMPT.length + 5 });
    assert.equal((await whole.generate(PROMPT, endless)).tokens, 5);
    const set = await load(t, { max_new_tokens: 7 }, { config: { maxTokens: 4 } });
    const { tokens, finishReason } = await set.generate(PROMPT, endless);
    assert.deepEqual({ tokens, finishReason }, { tokens: 4, finishReason: 'length' });
  });

  test('config.json counts where there is no such file, but for the length that transformers takes by default', async (t) => {
    const folder = await modelsOf(t, {
      model: { ...KINDS.together, config: { ...KINDS.together.config, max_length: 20, no_repeat_ngram_size: 1, eos_token_id: END } },
    });
    rmSync(path.join(folder, 'model', 'generation_config.json'));
    const model = await loadFrom(t, folder);
    const tokens = await tokensOf(model, PROMPT, { ...endless, maxTokens: 40 });
    assert.equal(new Set([...tokens, ...PROMPT]).size, tokens.length + new Set(PROMPT).size);
    assert.equal((await model.generate([1], endless)).tokens, CONTEXT - 1);
  });

  test('min_p, in the file and by the caller', async (t) => {
    const logits = Float32Array.from({ length: 50 }, (_, i) => Math.log(1 + i));
    for (const [minP, smallest] of [
      [0.49, 24],
      [0.89, 44],
      [1, 49],
    ]) {
      // The smallest random number is the first token that counts, in the order of their numbers.
      assert.equal(
        chooseToken(logits, { temperature: 1, topK: 0, topP: 1, minP }, () => 0),
        smallest,
      );
    }
    // Several tokens have the largest score of this model.
    const isMostLikely = async (/** @type {import('../lib/models/generator.js').Generator} */ model, /** @type {object | undefined} */ sampling) => {
      const { logprobs } = await model.generate(PROMPT, { ignoreEnd: true, maxTokens: 30, logprobs: 1, seed: 1, sampling });
      return logprobs.every(({ logprob, top }) => logprob === top[0].logprob);
    };
    const plain = await load(t, {});
    const model = await load(t, { do_sample: true, temperature: 5, min_p: 1 });
    assert.equal(await isMostLikely(plain, { temperature: 5 }), false);
    assert.equal(await isMostLikely(plain, { temperature: 5, minP: 1 }), true);
    assert.equal(await isMostLikely(model, undefined), true);
    assert.equal(await isMostLikely(model, { minP: 0 }), false);
  });

  test('what is set and not supported is named in the log, once, and only where it has an effect', async (t) => {
    const neutral = { num_beams: 1, typical_p: 1, penalty_alpha: null, guidance_scale: 1, forced_eos_token_id: null, epsilon_cutoff: 0, temperature: 0.5 };
    assert.deepEqual((await load(t, neutral)).warnings, []);
    const model = await load(t, { ...neutral, num_beams: 4, typical_p: 0.9, penalty_alpha: 0.6, sequence_bias: [[[1], 2]] });
    assert.deepEqual(model.warnings, [
      'generation_config.json sets what is not supported and has no effect: num_beams, typical_p, penalty_alpha, sequence_bias',
    ]);
  });

  for (const setting of [{ repetition_penalty: 0 }, { top_p: 2 }, { bad_words_ids: [[]] }, { suppress_tokens: 'all' }, { min_p: '0.1' }]) {
    test(`refuses ${JSON.stringify(setting)}`, async (t) => {
      const [name] = Object.keys(setting);
      await assert.rejects(load(t, setting), { name: 'RepositoryError', message: new RegExp(`generation_config.json: ${name} is .*, expected `) });
    });
  }
});

test('forbidden tokens at random are those of a simple search', () => {
  const { below } = randomOf(9);
  for (let round = 0; round < 200; round++) {
    const ngram = below(4);
    const badWords = Array.from({ length: below(4) }, () => Array.from({ length: 1 + below(3) }, () => below(4)));
    const prompt = Array.from({ length: 1 + below(12) }, () => below(4));
    const forbidden = new Forbidden({ ngram, suppressed: [], suppressedFirst: [], badWords }, { prompt, stop: new Set(), minTokens: 0 });
    const ids = [...prompt];
    for (let i = 0; i < 12; i++) {
      const expected = [0, 1, 2, 3].filter((id) => {
        const next = [...ids, id];
        const repeats = ngram > 0 && next.length > ngram && grams(ids, ngram).includes(next.slice(-ngram).join());
        return repeats || badWords.some((word) => next.slice(-word.length).join() === word.join());
      });
      assert.deepEqual([...new Set(forbidden)].sort(), expected, JSON.stringify({ ngram, badWords, ids }));
      const id = below(4);
      forbidden.push(id);
      ids.push(id);
    }
  }
});

test('scores: first the bias, then the penalty for repetition, then those for what the answer has', () => {
  const changes = {
    bias: new Map([
      [0, 10],
      [1, -10],
      [2, 3],
    ]),
    repetition: 2,
    presence: 0.5,
    frequency: 0.25,
  };
  const more = { seen: new Set([0, 1, 3]), forbidden: [2] };
  const changed = changedLogits(Float32Array.of(-4, 4, 1, 8, 1), changes, new Map([[3, 2]]), more);
  assert.deepEqual(Array.from(changed), [6 / 2, -6 * 2, -Infinity, 8 / 2 - 0.5 - 2 * 0.25, 1]);
});

test('no tokens: the prompt is checked and read, and nothing is generated', async (t) => {
  const counts = { read: 0, tokens: 0 };
  const texts = { ...UNOBSERVED.texts, read: (count) => (counts.read += count), token: () => (counts.tokens += 1) };
  const model = await load(t, {}, { observer: { texts } });
  const pieces = [];
  const result = await model.generate(PROMPT, { maxTokens: 0, logprobs: 1 }, { onText: (piece) => pieces.push(piece) });
  assert.deepEqual(result, { text: '', logprobs: [], tokens: 0, finishReason: 'length' });
  assert.deepEqual([counts, pieces, model.running], [{ read: PROMPT.length, tokens: 0 }, [], 0]);
  await assert.rejects(model.generate(Array(CONTEXT + 1).fill(1), { maxTokens: 0 }), { code: 'context_length_exceeded' });
});

test('arguments of the chat template are variables of it', async (t) => {
  const template = `{% if enable_thinking is defined and not enable_thinking %}quick {% endif %}${TEMPLATE}`;
  const model = await load(t, {}, { content: { tokenizerConfig: { chat_template: template } } });
  const messages = [{ role: 'user', content: 'Hi' }];
  const textOf = (/** @type {object | undefined} */ args) => model.textOf(model.readMessages(messages, /** @type {any} */ (args)));
  const plain = new Template(TEMPLATE).render({ messages, add_generation_prompt: true, eos_token: '<|im_end|>' });
  assert.equal(textOf(undefined), plain);
  assert.equal(textOf({ enable_thinking: false }), `quick ${plain}`);
  assert.equal(textOf({ messages: [], add_generation_prompt: false }), plain, 'what the conversation is stays');
});

test('a chat template sees no tools and no documents, as in transformers', async (t) => {
  const asks = '{% if tools is not none %}tools {% endif %}{% if documents is defined and documents is not none %}documents {% endif %}';
  const model = await load(t, {}, { content: { tokenizerConfig: { chat_template: `${asks}${TEMPLATE}` } } });
  const textOf = (/** @type {object | undefined} */ args) => model.textOf(model.readMessages([{ role: 'user', content: 'Hi' }], /** @type {any} */ (args)));
  assert.ok(textOf(undefined).startsWith('<|im_start|>'));
  assert.ok(textOf({ documents: [] }).startsWith('documents <|im_start|>'));
});

describe('the context', () => {
  test('maxLength lowers it, and errors name it', async (t) => {
    const model = await load(t, {}, { config: { maxLength: 40 } });
    assert.equal(model.about.maxLength, 40);
    const tooLong = { code: 'context_length_exceeded', message: /40 tokens/ };
    await assert.rejects(model.readPrompts(['a'.repeat(40)]), tooLong);
    await assert.rejects(model.readPrompts(['a'.repeat(100)]), tooLong);
    await assert.rejects(model.generate(PROMPT, { ...endless, maxTokens: 40 }), tooLong);
    assert.equal((await model.generate(PROMPT, endless)).tokens, 40 - PROMPT.length);
    const few = await load(t, {}, { config: { maxLength: 4 } });
    assert.deepEqual([(await few.generate([1, 2], endless)).tokens, few.batching.together], [2, 2]);
    const more = await load(t, {}, { config: { maxLength: 10 * CONTEXT } });
    assert.equal(more.about.maxLength, CONTEXT);
  });

  test('how much of it is used', async (t) => {
    const model = await load(t, {});
    const shares = /** @type {number[]} */ ([]);
    const onText = () => shares.push(model.cacheUsage);
    await model.generate(PROMPT, { ...endless, maxTokens: 200 }, { onText });
    // Two texts (maxSequences) of CONTEXT tokens have room. A character can be several tokens.
    assert.ok(
      shares.every((share, i) => share >= PROMPT.length / (2 * CONTEXT) && (i === 0 || share > shares[i - 1])),
      String(shares),
    );
    assert.ok(/** @type {number} */ (shares.at(-1)) <= (PROMPT.length + 200) / (2 * CONTEXT));
    assert.ok(/** @type {number} */ (shares.at(-1)) > (PROMPT.length + 100) / (2 * CONTEXT));
    assert.equal(model.cacheUsage, 0);
  });

  test('the caches of all texts have a quarter of the memory, unless maxLength is set', () => {
    // Qwen2.5-0.5B: 24 layers of 2 heads of 64 numbers, keys and values.
    const cache = Array.from({ length: 48 }, (_, i) => ({ name: `${i}`, output: `${i}`, dataType: 'float32', heads: 2, size: 64 }));
    const options = { own: 32_768, wanted: null, isTogether: false, maxSequences: 8 };
    const GIB = 2 ** 30;
    const alone = contextBound(cache, { ...options, bytes: 4 * GIB });
    assert.deepEqual(alone, { maxLength: 32_768, tokens: Math.floor(GIB / 24_576), warnings: [] });
    const together = contextBound(cache, { ...options, isTogether: true, bytes: 4 * GIB });
    assert.equal(together.maxLength, Math.floor(GIB / (2 * 24_576)));
    assert.equal(together.tokens, together.maxLength);
    assert.match(together.warnings[0], /21845 tokens: the model reads 32768 tokens.*49152 bytes.* 1024 MiB.*maxLength/);
    assert.deepEqual(contextBound(cache, { ...options, bytes: 2 ** 40 }), { maxLength: 32_768, tokens: 8 * 32_768, warnings: [] });
    assert.deepEqual(contextBound(cache, { ...options, wanted: 20_000, bytes: GIB }), { maxLength: 20_000, tokens: 160_000, warnings: [] });
  });

  for (const [kind, room] of /** @type {[keyof typeof KINDS, number][]} */ ([
    // Two rows of 256, which is 180 with the room that a cache begins with, or one of 512.
    ['together', 512],
    ['in turns', 400],
  ])) {
    test(`texts ${kind} wait until the caches have room for them, in their order, and none waits for ever`, async (t) => {
      const file = path.join(await modelsOf(t, { raw: KINDS[kind] }), 'raw', 'onnx', 'model.onnx');
      const raw = await loadModel(file, { device: 'cpu', numThreads: 1, ...(kind === 'together' && { strictDimensions: false }) });
      t.after(() => raw.destroy());
      const decoder = new Decoder(raw, describeDecoder(raw));
      const rows = kind === 'together' ? new Together(decoder, rowCounts(8), CONTEXT) : new InTurns(decoder);
      const sequences = new Sequences({ limits: DEFAULTS, decoder, rows, turns: new Turns(new Places()), observer: UNOBSERVED, room });
      /** @type {[name: string, running: number][]} */
      const ended = [];
      const generate = async (/** @type {string} */ name, /** @type {number} */ most) => {
        let [left, running] = [30, 0];
        const choose = () => {
          running = Math.max(running, sequences.running);
          return (left -= 1) === 0 ? null : 97;
        };
        await sequences.submit({ prompt: PROMPT, most, choose });
        ended.push([name, running]);
      };
      const names = ['a', 'b', 'long', 'c', 'd', 'e'];
      await Promise.all(names.map((name) => generate(name, name === 'long' ? 510 : 180)));
      assert.deepEqual(ended, [
        ['a', 2],
        ['b', 2],
        ['long', 1],
        ['c', 2],
        ['d', 2],
        ['e', 1],
      ]);
      assert.equal(sequences.running, 0);
    });
  }

  test('a folder that says nothing, or more than fits, is served with what fits', async (t) => {
    for (const max_position_embeddings of [null, 2 ** 40]) {
      const model = await load(t, {}, { content: { config: { max_position_embeddings } } });
      assert.match(model.warnings.join(), /Set maxLength in model\.json/);
      assert.ok(model.about.maxLength < 2 ** 40);
    }
  });
});

test('bytes of tokens: together those of the text, also where a token is a part of a character', async (t) => {
  const model = await load(t, {});
  const bytes = Buffer.from('Grüße, 世界 👋🏽!');
  assert.deepEqual(Buffer.concat([...bytes].map((id) => model.bytesOf(id))), bytes);
  assert.deepEqual([...model.bytesOf(0xe4)], [0xe4]);
  assert.equal(Buffer.from(model.bytesOf(END)).toString(), TOKENIZER.added_tokens[1].content);
  assert.deepEqual([...model.bytesOf(VOCABULARY + 5)], []);
});
