// Texts that are generated at the same time.

import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { generator as randomOf } from '../../../__test__/lib/random.mjs';
import { until } from '../../../__test__/lib/wait.mjs';
import { InTurns } from '../lib/batcher/rows.js';
import { PIECE, Sequences } from '../lib/batcher/sequences.js';
import { Places, Turns } from '../lib/batcher/turns.js';
import { UNOBSERVED } from '../lib/metrics/metrics.js';
import { rowCounts } from '../lib/models/batching.js';
import { DEFAULTS } from '../lib/registry/config.js';
import { CONTEXT, generatorOf, KINDS } from './generation-support.mjs';

/** Texts of many lengths; some prompts are read in several pieces, some caches grow beyond their first room. */
function textsOf(seed, count) {
  const { below, chance } = randomOf(seed);
  return Array.from({ length: count }, (_, i) => ({
    prompt: Array.from({ length: 1 + below(chance(0.2) ? 300 : 40) }, () => below(256)),
    wishes: { seed: i, maxTokens: 1 + below(chance(0.3) ? 150 : 30), logprobs: 1, sampling: { temperature: chance(0.3) ? 0 : 1.5, topK: 0, topP: 1 } },
    delay: below(60),
    leaves: chance(0.2) ? 1 + below(20) : Infinity,
  }));
}

const CANCELED = { kind: 'canceled' };

/** A text that goes on until it is canceled or the context is full. The stop tokens of the folder are biased away. */
const endless = { seed: 1, sampling: { temperature: 0 }, changes: { bias: new Map([[257, -100]]) } };

for (const kind of /** @type {(keyof typeof KINDS)[]} */ (Object.keys(KINDS))) {
  describe(`texts ${kind}`, () => {
    test('that join and leave at random are those of single runs, bit for bit', async (t) => {
      const counts = { runs: 0, tokens: 0 };
      const observer = {
        batch: () => (counts.runs += 1),
        texts: { ...UNOBSERVED.texts, token: () => (counts.tokens += 1) },
      };
      const alone = await generatorOf(t, { kind, config: { maxSequences: 1 } });
      const model = await generatorOf(t, { kind, config: { maxSequences: 6 }, observer });
      assert.equal(model.batching.together, kind === 'together' ? 6 : 1);
      assert.match(model.batching.reason, kind === 'together' ? /bit for bit/ : /its attention is not com\.microsoft\.GroupQueryAttention/);
      const texts = textsOf(5, 40);
      const generated = texts.map(async ({ prompt, wishes, delay, leaves }) => {
        await sleep(delay);
        const gone = new AbortController();
        let pieces = 0;
        const onText = () => {
          pieces += 1;
          if (pieces === leaves) gone.abort();
        };
        return model.generate(prompt, wishes, { signal: gone.signal, onText });
      });
      const results = await Promise.allSettled(generated);
      let canceled = 0;
      for (const [i, { prompt, wishes }] of texts.entries()) {
        const result = results[i];
        if (result.status === 'fulfilled') assert.deepEqual(result.value, await alone.generate(prompt, wishes), `text ${i}`);
        else assert.equal(result.reason.kind, CANCELED.kind, String(result.reason));
        if (result.status === 'rejected') canceled += 1;
      }
      assert.ok(canceled > 0 && canceled < texts.length / 2, `${canceled} texts were canceled`);
      // Each piece of a prompt is a computation, and each token but the first of a text.
      if (kind === 'together') assert.ok(counts.runs < counts.tokens / 2, `${counts.runs} computations for ${counts.tokens} tokens`);
    });

    test('that are longer than their first room are those of single runs', async (t) => {
      const alone = await generatorOf(t, { kind, config: { maxSequences: 1 } });
      const model = await generatorOf(t, { kind });
      const wishes = { ...endless, sampling: { temperature: 1.5, topK: 0, topP: 1 }, maxTokens: 300, logprobs: 0 };
      const texts = await Promise.all([[1], [2, 3]].map((prompt) => model.generate(prompt, wishes)));
      assert.deepEqual(texts[0], await alone.generate([1], wishes));
      assert.deepEqual(texts[1], await alone.generate([2, 3], wishes));
    });

    test('one that is canceled leaves its place to those that wait', async (t) => {
      const model = await generatorOf(t, { kind, config: { maxSequences: 2 } });
      const gone = new AbortController();
      let pieces = 0;
      const count = () => (pieces += 1);
      const first = model.generate([1], endless, { signal: gone.signal, onText: count });
      const second = model.generate([2], endless, { signal: gone.signal });
      const third = model.generate([3], { ...endless, maxTokens: 2 });
      await until(() => pieces > 2, 'there are tokens');
      assert.equal(model.waiting, 1);
      gone.abort();
      await assert.rejects(first, CANCELED);
      await assert.rejects(second, CANCELED);
      assert.equal((await third).tokens, 2);
      await assert.rejects(model.generate([1], endless, { signal: gone.signal }), CANCELED);
    });

    test('one that waits can be canceled as well, and so can one whose prompt is read', async (t) => {
      const reading = new AbortController();
      const observer = { batch: () => begun && reading.abort() };
      let begun = false;
      const model = await generatorOf(t, { kind, config: { maxSequences: 1 }, observer });
      const gone = new AbortController();
      const running = model.generate(Array(500).fill(7), { ...endless, maxTokens: 3 });
      const waiting = model.generate([2], endless, { signal: gone.signal });
      gone.abort();
      await assert.rejects(waiting, CANCELED);
      assert.equal((await running).tokens, 3);
      // The first piece of the prompt: on a fast machine, the whole text takes less than a turn of the event loop.
      begun = true;
      const long = model.generate(Array(500).fill(7), { ...endless, maxTokens: 3 }, { signal: reading.signal });
      await assert.rejects(long, CANCELED);
    });

    test('a seed repeats its text, whatever else is computed', async (t) => {
      const model = await generatorOf(t, { kind });
      const wishes = { seed: 11, maxTokens: 30, sampling: { temperature: 2, topK: 0, topP: 1 }, changes: endless.changes };
      const { text } = await model.generate([1, 2, 3], wishes);
      const others = Array.from({ length: 5 }, (_, seed) => model.generate([seed], { ...wishes, seed }));
      assert.equal((await model.generate([1, 2, 3], wishes)).text, text);
      const texts = (await Promise.all(others)).map((other) => other.text);
      assert.equal(new Set([...texts, text]).size, 6);
    });
  });
}

test('more than can wait are refused, also by the time that they would wait', async (t) => {
  const model = await generatorOf(t, { config: { maxSequences: 1, maxQueue: 1 } });
  const short = { ...endless, maxTokens: 3 };
  const texts = [1, 2, 3].map((id) => model.generate([id], short));
  await assert.rejects(texts[2], { kind: 'overloaded', message: /1 requests wait/ });
  assert.deepEqual(
    (await Promise.all(texts.slice(0, 2))).map(({ tokens }) => tokens),
    [3, 3],
  );

  const impatient = await generatorOf(t, { config: { maxSequences: 1, maxTextQueueMs: 0 } });
  // How long a text takes is not known before the first one has ended.
  await impatient.generate([1], short);
  const running = impatient.generate([1], short);
  await assert.rejects(impatient.generate([2], short), (/** @type {any} */ error) => error.kind === 'overloaded' && error.retryAfterMs > 0);
  await running;
});

test('drain ends what was begun and what waits, and takes no more', async (t) => {
  const model = await generatorOf(t, { config: { maxSequences: 2 } });
  let done = 0;
  const texts = [1, 2, 3, 4, 5].map(async (id) => {
    const { tokens } = await model.generate([id], { ...endless, maxTokens: 20 });
    done += 1;
    return tokens;
  });
  const drained = model.drain();
  await assert.rejects(model.generate([1], endless), { kind: 'unavailable' });
  await drained;
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(done, 5);
  assert.deepEqual(await Promise.all(texts), [20, 20, 20, 20, 20]);
});

test('a context that is full ends a text, and prompts that leave no room are refused', async (t) => {
  const model = await generatorOf(t);
  const { tokens, finishReason } = await model.generate(Array(500).fill(3), endless);
  assert.deepEqual({ tokens, finishReason }, { tokens: CONTEXT - 500, finishReason: 'length' });
  const tooLong = { kind: 'invalid', code: 'context_length_exceeded' };
  await assert.rejects(model.readPrompts([Array(CONTEXT).fill(3)]), tooLong);
  await assert.rejects(model.readPrompts(['a'.repeat(CONTEXT + 1)]), tooLong);
  await assert.rejects(model.readPrompts(['a'.repeat(100_000)]), tooLong);
  await assert.rejects(model.generate([1, 2], { ...endless, maxTokens: CONTEXT - 1 }), tooLong);
  await assert.rejects(model.readPrompts([[258]]), { kind: 'invalid' });
  await assert.rejects(model.readPrompts(['']), { kind: 'invalid' });
});

test('texts as tensors', async (t) => {
  const model = await generatorOf(t, { kind: 'in turns' });
  /** @type {any} */
  const text = { datatype: 'BYTES', shape: [2], data: ['Hello', 'world'].map((word) => Buffer.from(word)) };
  /** @type {Map<string, any>} */
  const inputs = new Map([['text_input', text]]);
  const withLimits = (/** @type {Int32Array} */ data) => new Map([...inputs, ['max_tokens', { datatype: 'INT32', shape: [data.length], data }]]);
  const prompts = await model.readPrompts(['Hello', 'world']);
  const alone = await Promise.all([3, 5].map((maxTokens, i) => model.generate(prompts[i], { maxTokens })));
  const output = /** @type {any} */ ((await model.infer({ inputs: withLimits(Int32Array.of(3, 5)), outputs: null })).get('text_output'));
  assert.deepEqual(output.shape, [2]);
  assert.deepEqual(
    output.data.map(String),
    alone.map((one) => one.text),
  );
  assert.equal((await model.infer({ inputs, outputs: ['text_output'] })).get('text_output')?.data.length, 2);
  for (const wrong of [
    { inputs: new Map(), outputs: null },
    { inputs, outputs: ['logits'] },
    { inputs: new Map([...inputs, ['other', text]]), outputs: null },
    { inputs: withLimits(Int32Array.of(0)), outputs: null },
    { inputs: new Map([['text_input', { ...text, shape: [129], data: Array(129).fill(text.data[0]) }]]), outputs: null },
    { inputs: withLimits(Int32Array.of(1, 2, 3)), outputs: null },
  ]) {
    await assert.rejects(model.infer(wrong), { kind: 'invalid' });
  }
});

/**
 * Sequences of a model whose scores are the token that it reads.
 * @param {(id: number) => unknown} read
 * @param {Partial<import('../lib/registry/config.js').ModelConfig>} [limits]
 * @param {number} [room] tokens of all caches; a text here needs one
 */
function echoing(read, limits = {}, room = Infinity) {
  const cache = { feeds: {}, spare: null, lengths: [1], size: 1 };
  /** @type {any} */
  const decoder = {
    empty: cache,
    release: () => undefined,
    async read(/** @type {number[]} */ [id]) {
      await read(id);
      return { logits: [[id]], cache };
    },
  };
  const options = { decoder, rows: new InTurns(decoder), turns: new Turns(new Places()), observer: UNOBSERVED, room };
  const sequences = new Sequences({ limits: { ...DEFAULTS, ...limits }, ...options });
  /** Counts from a number to another one. */
  const count = (from, to, options) => sequences.submit({ prompt: [from], choose: (logits) => (logits[0] === to ? null : logits[0] + 1) }, options);
  return { sequences, count };
}

test('a deadline ends a text in the queue, and one that is written', async () => {
  const { sequences, count } = echoing(() => sleep(5), { maxSequences: 1 });
  const running = count(1, Infinity, { deadline: performance.now() + 100 });
  const waiting = count(1, Infinity, { deadline: performance.now() + 40 });
  await assert.rejects(waiting, { kind: 'deadline', message: /in the queue/ });
  await assert.rejects(running, { kind: 'deadline', message: /^(?!.*in the queue)/ });
  await count(1, 10);
  // A text takes 50 ms: this one would have to wait too long.
  const busy = count(1, 10);
  await assert.rejects(count(1, 2, { deadline: performance.now() + 10 }), { kind: 'deadline', message: /would wait/ });
  await busy;
  await sequences.drain();
});

test('texts that wait for memory count as waiting', async () => {
  const { sequences, count } = echoing(() => sleep(5), { maxSequences: 8, maxQueue: 1, maxQueueMs: 2 ** 30 }, 2);
  const running = [count(1, 40), count(1, 40)];
  await until(() => sequences.running === 2, 'two texts begin');
  const waiting = count(1, 2);
  await assert.rejects(count(1, 2), { kind: 'overloaded', message: /1 requests wait/ });
  await Promise.all([...running, waiting]);
});

test('a computation that fails ends its text and no other', async () => {
  const { sequences, count } = echoing((id) => {
    if (id === 13) throw Object.assign(new Error('no memory'), { code: 'ERR_WEBNN_NO_MEMORY' });
  });
  /** @type {any[]} */
  const [low, through, high, atOnce] = await Promise.allSettled([count(1, 9), count(10, 20), count(20, 30), count(13, 14)]);
  assert.deepEqual([low.status, high.status], ['fulfilled', 'fulfilled']);
  assert.equal(through.reason.kind, 'overloaded');
  assert.equal(atOnce.reason.kind, 'overloaded');
  const thrower = sequences.submit({
    prompt: [1],
    choose() {
      throw new TypeError('a mistake');
    },
  });
  await assert.rejects(thrower, { kind: 'internal' });
  await sequences.drain();
  assert.equal(sequences.running, 0);
});

test('a long prompt is read in pieces, between which others get their tokens', async () => {
  /** @type {number[]} */
  const order = [];
  const { sequences, count } = echoing((id) => order.push(id));
  const long = sequences.submit({ prompt: Array(4 * PIECE).fill(1000), choose: () => null });
  await Promise.all([long, count(1, 20)]);
  const places = order.flatMap((id, i) => (id === 1000 ? [i] : []));
  assert.equal(places.length, 4);
  // The prompt of the other text is one token as well.
  places.slice(1).forEach((place, i) => assert.ok([2, 3].includes(place - places[i]), `order: ${order}`));
});

test('the numbers of rows', () => {
  assert.deepEqual(rowCounts(3), [1, 2, 3]);
  assert.deepEqual(rowCounts(16).length, 16);
  assert.deepEqual(rowCounts(17).slice(15), [16, 17]);
  assert.deepEqual(rowCounts(40).slice(15), [16, 24, 32, 40]);
});
