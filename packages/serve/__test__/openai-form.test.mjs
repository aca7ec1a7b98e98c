// How answers of OpenAI's API are written, without a model: tokens that are parts of characters.

import assert from 'node:assert/strict';
import test from 'node:test';
import { ChatForm, CompletionForm } from '../lib/protocol/openai-form.js';

/** A vocabulary in which characters are several tokens, as byte-level ones have it. */
const TOKENS = ['Hi', ' ✓', '<|end|>'].map((text) => Buffer.from(text));
const PARTS = [[0x20, 0xe2, 0x9c], [0x93], [0xf0, 0x9f], [0x98, 0x80]].map((bytes) => Buffer.from(bytes));
const TEXTS = { bytesOf: (/** @type {number} */ id) => [...TOKENS, ...PARTS][id] };
const HI = 0;
const [CHECK_BEGIN, CHECK_END, SMILE_BEGIN, SMILE_END] = [3, 4, 5, 6];

/** Log probabilities as a generator gives them; the most likely token is another one. */
const logprobsOf = (/** @type {number[]} */ ids) => ids.map((id) => ({ id, logprob: -1, top: [{ id: (id + 1) % 7, logprob: -0.5 }] }));

const textOf = (/** @type {number[]} */ ids) => Buffer.concat(ids.map(TEXTS.bytesOf)).toString();

const ALL = [HI, CHECK_BEGIN, CHECK_END, SMILE_BEGIN, SMILE_END, HI, 1];
const RESULT = { text: textOf(ALL), logprobs: logprobsOf(ALL), tokens: ALL.length, finishReason: /** @type {const} */ ('length') };

test('chat: the bytes of a token are its own, also those of a part of a character', () => {
  assert.equal(RESULT.text, 'Hi ✓😀Hi ✓');
  const [{ logprobs }] = new ChatForm('m', TEXTS).whole(3, [RESULT], true).choices;
  const content = logprobs?.content ?? [];
  assert.equal(Buffer.from(content.flatMap(({ bytes }) => bytes)).toString(), RESULT.text);
  assert.deepEqual(
    content.map(({ token }) => token),
    ['Hi', ' \\xe2\\x9c', '\\x93', '\\xf0\\x9f', '\\x98\\x80', 'Hi', ' ✓'],
  );
  assert.deepEqual(content[0].top_logprobs, [{ token: ' ✓', logprob: -0.5, bytes: [...Buffer.from(' ✓')] }]);
  assert.deepEqual(content[4].top_logprobs, [{ token: 'Hi', logprob: -0.5, bytes: [...Buffer.from('Hi')] }]);
});

test('completions: tokens as OpenAI writes them, and where each begins in the text', () => {
  const [{ text, logprobs }] = new CompletionForm('m', TEXTS).whole(3, [RESULT], true).choices;
  assert.deepEqual(logprobs?.tokens, ['Hi', 'bytes: \\xe2\\x9c', 'bytes:\\x93', 'bytes:\\xf0\\x9f', 'bytes:\\x98\\x80', 'Hi', ' ✓']);
  assert.deepEqual(logprobs?.text_offset, [0, 2, 3, 4, 4, 6, 8]);
  assert.equal(text.slice(logprobs?.text_offset[5]), 'Hi ✓');
  assert.deepEqual(logprobs?.top_logprobs[3], { 'bytes:\\x98\\x80': -0.5 });
});

test('completions: a stream has the tokens and places of the whole answer, whatever its pieces are', () => {
  const [{ logprobs: whole }] = new CompletionForm('m', TEXTS).whole(3, [RESULT], true).choices;
  // The stream holds back what can be the beginning of a stop text: tokens come before their text.
  for (const cuts of [[1, 3, 5, 6, 7], [3, 7], [7], [1, 2, 3, 4, 5, 6, 7]]) {
    const form = new CompletionForm('m', TEXTS);
    const other = logprobsOf([HI]);
    form.piece(1, 'Hi', other, true);
    let passed = 0;
    const pieces = cuts.map((end, i) => {
      const length = textOf(ALL.slice(0, end)).length - (end === ALL.length ? 0 : 1);
      const text = RESULT.text.slice(passed, length);
      passed = length;
      return form.piece(0, text, logprobsOf(ALL.slice(cuts[i - 1] ?? 0, end)), true).choices[0].logprobs;
    });
    assert.deepEqual(
      pieces.flatMap((piece) => piece?.text_offset ?? []),
      whole?.text_offset,
    );
    assert.deepEqual(
      pieces.flatMap((piece) => piece?.tokens ?? []),
      whole?.tokens,
    );
  }
});

test('completions: places are those in the text, also where it leaves out a first space, and marks', () => {
  const END = 2;
  /** @type {[text: string, ids: number[], offsets: number[]][]} */
  const cases = [
    ['✓Hi ✓', [1, HI, 1], [0, 1, 3]],
    ['HiHi', [HI, END, HI, END], [0, 2, 2, 4]],
    ['✓', [END, END, CHECK_BEGIN, CHECK_END], [0, 0, 0, 0]],
    ['Hi<|end|>Hi', [HI, END, HI], [0, 2, 9]],
  ];
  for (const [text, ids, offsets] of cases) {
    const result = { ...RESULT, text, logprobs: logprobsOf(ids) };
    assert.deepEqual(new CompletionForm('m', TEXTS).whole(3, [result], true).choices[0].logprobs?.text_offset, offsets, text);
  }
});

test('without log probabilities nobody asks for bytes', () => {
  const texts = { bytesOf: () => assert.fail('not asked for') };
  assert.equal(new ChatForm('m', texts).whole(3, [RESULT], false).choices[0].logprobs, null);
  assert.equal(new CompletionForm('m', texts).whole(3, [RESULT], false).choices[0].logprobs, null);
});
