// Tokens to texts: choice, stop texts, whole characters.

import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { Tokenizer } from '@huggingface/tokenizers';
import { randomNumbers } from 'webnn-node-text/random';
import { END, TOKENIZER, VOCABULARY } from '../../../__test__/examples/model-folder.mjs';
import { generator as randomOf } from '../../../__test__/lib/random.mjs';
import { Answer } from '../lib/text/answer.js';
import { changedLogits, chooseToken, GREEDY, logprobsOf, UNCHANGED } from '../lib/text/sampling.js';
import { mapInParts } from '../lib/text/parts.js';
import { StopTexts } from '../lib/text/stop-texts.js';
import { TextStream } from '../lib/text/text-stream.js';
import { tokenBytes } from '../lib/text/token-bytes.js';

describe('stop texts', () => {
  /** What comes of pieces, and what is left at the end. */
  function passed(stop, pieces) {
    const stops = new StopTexts(stop);
    const out = pieces.map((piece) => stops.push(piece));
    return { out, rest: stops.end(), isStopped: stops.isStopped };
  }

  test('are found within a piece and across pieces, and nothing behind them is passed on', () => {
    assert.deepEqual(passed(['END'], ['one END two', 'three']), { out: ['one ', ''], rest: '', isStopped: true });
    assert.deepEqual(passed(['END'], ['one E', 'N', 'D two']), { out: ['one ', '', ''], rest: '', isStopped: true });
  });

  test('hold back only what may be their beginning', () => {
    assert.deepEqual(passed(['END'], ['one E', 'N', 'E', 'x']), { out: ['one ', '', 'EN', 'Ex'], rest: '', isStopped: false });
    assert.deepEqual(passed(['\n\n'], ['a\n', 'b\n']), { out: ['a', '\nb'], rest: '\n', isStopped: false });
    assert.deepEqual(passed(['aab'], ['aaa', 'ab']), { out: ['a', 'a'], rest: '', isStopped: true });
  });

  test('the first in the text counts', () => {
    assert.deepEqual(passed(['two', 'one'], ['zero one two']), { out: ['zero '], rest: '', isStopped: true });
    assert.deepEqual(passed(['abcd', 'bc'], ['xabc', 'd']), { out: ['xa', ''], rest: '', isStopped: true });
  });

  test('that begin with what they repeat are found wherever the pieces end', () => {
    const { below, chance } = randomOf(6);
    for (let round = 0; round < 500; round++) {
      const word = (/** @type {number} */ length) => Array.from({ length }, () => 'ab'[below(2)]).join('');
      const stops = Array.from({ length: 1 + below(3) }, () => word(1 + below(5)));
      const text = word(30);
      const pieces = [];
      for (let at = 0; at < text.length; at += pieces[pieces.length - 1].length) pieces.push(text.slice(at, at + 1 + below(chance(0.3) ? 10 : 2)));
      // The stop text that is whole first counts; of several, the longest.
      const ends = stops.flatMap((stop) => (text.includes(stop) ? [{ end: text.indexOf(stop) + stop.length, start: text.indexOf(stop) }] : []));
      const [first] = ends.sort((a, b) => a.end - b.end || a.start - b.start);
      const { out, rest, isStopped } = passed(stops, pieces);
      assert.equal(out.join('') + rest, first === undefined ? text : text.slice(0, first.start), JSON.stringify({ stops, pieces }));
      assert.equal(isStopped, first !== undefined);
    }
  });

  test('that hold back much are looked for once in each character', { timeout: 60_000 }, () => {
    // A million characters may be the beginning, until one comes that is none: to try each shorter beginning then takes minutes.
    const [count, piece] = [2 ** 10, 'a'.repeat(2 ** 10)];
    const { out, rest, isStopped } = passed([`${piece.repeat(count)}b`], [...Array(2 * count).fill(piece), 'c']);
    assert.equal(out.join('').length, 2 * count * piece.length + 1);
    assert.deepEqual([rest, isStopped], ['', false]);
  });

  test('without any, all is passed on at once', () => {
    assert.deepEqual(passed([], ['a', 'b']), { out: ['a', 'b'], rest: '', isStopped: false });
  });
});

describe('an answer', () => {
  const folder = { tokenizer: new Tokenizer(TOKENIZER, {}), stop: new Set([END]) };
  const only = (/** @type {number} */ id) => Float32Array.from({ length: VOCABULARY }, (_, i) => (i === id ? 9 : 0));

  /** Lets a model say a text. */
  function say(text, options = {}, ids = [...Buffer.from(text)]) {
    /** @type {string[]} */
    const pieces = [];
    const logprobs = [];
    const all = { sampling: GREEDY, changes: UNCHANGED, seed: 0, stop: [], maxTokens: 1000, logprobs: null, ...options };
    const answer = new Answer(all, folder, (piece, some) => {
      pieces.push(piece);
      logprobs.push(...some);
    });
    /** @type {number | null} */
    let last = 0;
    for (const id of [...ids, END]) {
      last = answer.choose(only(id));
      if (last === null) break;
    }
    assert.equal(last, null);
    return { pieces, logprobs, tokens: answer.tokens, reason: answer.finishReason };
  }

  // Bytes are the tokens, so characters of several bytes are several tokens.
  test('comes in whole characters', () => {
    const text = 'Grüße, 世界 👋🏽!';
    const { pieces, tokens, reason } = say(text);
    assert.equal(pieces.join(''), text);
    assert.deepEqual(pieces.slice(0, 4), ['G', 'r', 'ü', 'ß']);
    assert.ok(pieces.every((piece) => !piece.includes('\ufffd')));
    assert.deepEqual({ tokens, reason }, { tokens: Buffer.byteLength(text), reason: 'stop' });
  });

  test('ends at stop texts with characters of several tokens', () => {
    const { pieces, reason, tokens } = say('Grüße, 世界 und mehr', { stop: ['界 u', 'nie'] });
    assert.equal(pieces.join(''), 'Grüße, 世');
    assert.equal(reason, 'stop');
    assert.equal(tokens, Buffer.byteLength('Grüße, 世界 u'));
  });

  test('ends at its length, also within a character and within what was held back', () => {
    assert.deepEqual(say('abc', { maxTokens: 2 }), { pieces: ['a', 'b'], logprobs: [], tokens: 2, reason: 'length' });
    assert.deepEqual(say('aü', { maxTokens: 2 }).pieces, ['a', '\ufffd']);
    assert.deepEqual(say('abEN', { stop: ['END'], maxTokens: 4 }).pieces, ['a', 'b', 'EN']);
    assert.deepEqual(say('', {}).pieces, []);
    assert.deepEqual(say('abEND', { stop: ['END'], maxTokens: 5 }).reason, 'stop');
  });

  test('has the logarithms of probabilities of all its tokens, those of held back ones as well', () => {
    const { logprobs } = say('Grü E', { stop: ['END'], logprobs: 2 });
    assert.deepEqual(
      logprobs.map(({ id }) => id),
      [...Buffer.from('Grü E')],
    );
    const expected = -Math.log(1 + (VOCABULARY - 1) * Math.exp(-9));
    for (const { logprob, top, id } of logprobs) {
      assert.ok(Math.abs(logprob - expected) < 1e-6);
      assert.equal(top.length, 2);
      assert.deepEqual(top[0], { id, logprob });
    }
  });

  test('has penalties for what it has said', () => {
    const options = { changes: { ...UNCHANGED, frequency: 5 } };
    // The score of "a" is 9, then 4, then -1, below that of all others.
    const { pieces } = say('', options, [97, 97, 97]);
    assert.deepEqual(pieces.slice(0, 2), ['a', 'a']);
    assert.notEqual(pieces[2], 'a');
  });
});

describe('whole characters of tokens that come one by one', () => {
  /** A tokenizer.json with a token for each byte, and others. @param {string[]} more @param {object} rest */
  const fallback = (more, rest) => ({
    ...TOKENIZER,
    added_tokens: [],
    pre_tokenizer: null,
    ...rest,
    model: {
      type: 'BPE',
      byte_fallback: true,
      unk_token: null,
      merges: [],
      vocab: Object.fromEntries(
        [...Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`), ...more].map((token, id) => [token, id]),
      ),
    },
  });
  /** As Llama 2 and Gemma have it. */
  const LLAMA = fallback(['▁', 'a', '▁the', 'é', '世', '\ufffd'], {
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        { type: 'Strip', content: ' ', start: 1, stop: 0 },
      ],
    },
  });
  const METASPACE = {
    ...TOKENIZER,
    decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' },
    model: { ...TOKENIZER.model, vocab: { '▁': 0, '▁the': 1, a: 2, b: 3, '▁▁': 4 } },
  };
  const all = (/** @type {any} */ file) => Object.values(file.model.vocab).concat(file.added_tokens.map((/** @type {any} */ { id }) => id));

  /** What a stream makes of tokens, and how many were decoded for it. @param {any} file tokenizer.json @param {number[]} ids */
  function streamed(file, ids) {
    const tokenizer = new Tokenizer(file, {});
    let decoded = 0;
    const decode = (/** @type {number[]} */ some) => {
      decoded += some.length;
      return tokenizer.decode(some, { skip_special_tokens: true, clean_up_tokenization_spaces: false });
    };
    const stream = new TextStream(decode);
    const pieces = ids.map((id) => stream.push(id));
    return { pieces, text: pieces.join('') + stream.end(), decoded, whole: ids.length === 0 ? '' : decode([...ids]) };
  }

  for (const [name, file] of /** @type {[string, any][]} */ ([
    ['bytes', TOKENIZER],
    ['bytes and words', LLAMA],
    ['words', METASPACE],
    [
      'pieces of words',
      {
        ...METASPACE,
        decoder: { type: 'WordPiece', prefix: '##', cleanup: false },
        model: { ...TOKENIZER.model, vocab: { un: 0, '##bel': 1, '##ie': 2, a: 3, '.': 4 } },
      },
    ],
    [
      'ends of words',
      { ...METASPACE, decoder: { type: 'BPEDecoder', suffix: '</w>' }, model: { ...TOKENIZER.model, vocab: { un: 0, 'a</w>': 1, b: 2, 'c</w>': 3 } } },
    ],
  ])) {
    test(`${name}: any tokens give the text that they have together`, () => {
      const { below } = randomOf(4);
      const ids = all(file);
      for (let round = 0; round < 300; round++) {
        const chosen = Array.from({ length: below(40) }, () => ids[below(ids.length)]);
        const { text, whole } = streamed(file, chosen);
        assert.equal(text, whole, String(chosen));
      }
    });
  }

  test('characters and emoji of many bytes come when they are whole, never as U+FFFD', () => {
    const text = 'é世界🦄👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿 a👋🏽';
    for (const file of [TOKENIZER, LLAMA]) {
      const { pieces, text: all } = streamed(file, [...Buffer.from(text)]);
      assert.equal(all, text);
      assert.deepEqual(
        pieces.filter((piece) => piece !== ''),
        [...text],
      );
    }
  });

  test('tokens with the end of one character and the beginning of the next', () => {
    // Tokens of two bytes, in a text whose characters have three.
    const text = '世界'.repeat(40);
    const bytes = Buffer.from(text);
    const single = new Map(Object.entries(TOKENIZER.model.vocab).map(([token, id]) => [id, token]));
    const pairs = Array.from({ length: bytes.length / 2 }, (_, i) => `${single.get(bytes[2 * i])}${single.get(bytes[2 * i + 1])}`);
    const vocab = Object.fromEntries([...new Set(pairs)].map((token, id) => [token, id]));
    const {
      pieces,
      text: all,
      decoded,
    } = streamed(
      { ...TOKENIZER, added_tokens: [], model: { ...TOKENIZER.model, vocab } },
      pairs.map((pair) => vocab[pair]),
    );
    assert.equal(all, text);
    // Two of three tokens complete a character.
    assert.equal(pieces.filter((piece) => piece !== '').length, text.length);
    assert.ok(decoded < 12 * pairs.length, `${decoded} tokens were decoded for ${pairs.length}`);
  });

  for (const [name, ids] of /** @type {[string, number[]][]} */ ([
    ['bytes that never are a character', [0x80]],
    ['characters that are never whole', [0xf0, 0x9f]],
    ['marks without a text', [END]],
    ['marks within characters', [0xe4, END, 0xb8]],
    ['letters', [97]],
  ])) {
    test(`${name}: the work grows with the tokens, and the text comes at once`, () => {
      const count = 4000;
      const { pieces, text, whole, decoded } = streamed(
        TOKENIZER,
        Array.from({ length: count }, (_, i) => ids[i % ids.length]),
      );
      assert.equal(text, whole);
      assert.ok(decoded < 14 * count, `${decoded} tokens were decoded for ${count}`);
      const given = pieces.slice(0, count / 2).join('').length;
      assert.ok(given >= Math.floor(whole.length / 2) - 1, `${given} of ${whole.length} characters after half of the tokens`);
    });
  }

  test('the bytes of tokens are those of the text', () => {
    const { below } = randomOf(8);
    for (const file of /** @type {any[]} */ ([TOKENIZER, LLAMA, METASPACE])) {
      const tokenizer = new Tokenizer(file, {});
      const bytesOf = tokenBytes(tokenizer, file);
      for (let round = 0; round < 100; round++) {
        const ids = Array.from({ length: 1 + below(20) }, () => all(file)[below(all(file).length)]);
        const bytes = Buffer.concat(ids.map(bytesOf));
        const whole = tokenizer.decode(ids, { skip_special_tokens: false, clean_up_tokenization_spaces: false });
        // The first space is not part of a text.
        assert.ok([whole, ` ${whole}`].includes(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)), `${ids}`);
      }
    }
    assert.deepEqual([...tokenBytes(new Tokenizer(/** @type {any} */ (LLAMA), {}), LLAMA)(0xe2)], [0xe2]);
    assert.deepEqual(Buffer.from(tokenBytes(new Tokenizer(/** @type {any} */ (LLAMA), {}), LLAMA)(258)).toString(), ' the');
  });
});

describe('the choice of a token', () => {
  test('scores are changed by bias and penalties, in a copy', () => {
    const logits = Float32Array.of(1, 2, 3);
    assert.equal(changedLogits(logits, UNCHANGED, new Map([[1, 2]])), logits);
    assert.deepEqual(Array.from(changedLogits(logits, { ...UNCHANGED, bias: new Map([[0, 100]]) }, new Map())), [101, 2, 3]);
    assert.deepEqual(Array.from(changedLogits(logits, { bias: new Map(), presence: 0.5, frequency: 1 }, new Map([[2, 2]]))), [1, 2, 0.5]);
    assert.deepEqual([...logits], [1, 2, 3]);
  });

  test('of many tokens, those count that would count if all were sorted', () => {
    const random = randomNumbers(3);
    const logits = Float32Array.from({ length: 5000 }, () => 12 * random());
    const sorted = [...logits.keys()].sort((a, b) => logits[b] - logits[a]);
    const weights = sorted.map((id) => Math.exp(logits[id] - logits[sorted[0]]));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    for (const [sampling, count] of /** @type {[{ topK: number, topP: number }, number][]} */ ([
      [{ topK: 7, topP: 1 }, 7],
      [{ topK: 4000, topP: 1 }, 4000],
      ...[0.01, 0.5, 0.9, 0.999].map((topP) => {
        let sum = 0;
        return [{ topK: 0, topP }, weights.findIndex((weight) => (sum += weight) >= topP * total) + 1];
      }),
    ])) {
      // The end of the range is the last token that counts, in the order of their numbers.
      const chosen = chooseToken(logits, { temperature: 1, ...sampling }, () => 1 - 2 ** -40);
      assert.equal(chosen, Math.max(...sorted.slice(0, count)), JSON.stringify(sampling));
    }
  });

  test('the logarithms of probabilities', () => {
    const { id, logprob, top } = logprobsOf(Float32Array.of(0, Math.log(2), Math.log(5), Math.log(2)), 0, 3);
    assert.equal(id, 0);
    assert.ok(Math.abs(logprob - Math.log(0.1)) < 1e-6);
    assert.deepEqual(
      top.map((entry) => entry.id),
      [2, 1, 3],
    );
    assert.ok(Math.abs(top[0].logprob - Math.log(0.5)) < 1e-6);
  });
});

test('others get their turn while a long list is read', async () => {
  let turns = 0;
  const timer = setImmediate(function again() {
    turns += 1;
    if (turns < 100) setImmediate(again);
  });
  const busy = (/** @type {number} */ entry, /** @type {number} */ index) => {
    const until = performance.now() + 11;
    while (performance.now() < until);
    return entry * index;
  };
  assert.deepEqual(await mapInParts([5, 6, 7, 8], busy), [0, 6, 14, 24]);
  assert.ok(turns >= 3, `${turns} turns`);
  clearImmediate(timer);
});
