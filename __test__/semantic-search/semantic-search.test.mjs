// The semantic search example with the real model. `npm run suite -- search` fetches the model and names Python.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { maxAbsDifference } from '../lib/numbers.mjs';
import { root } from '../../scripts/process.mjs';
import { MODEL } from '../../examples/semantic-search/fetch-model.mjs';
import { cosine, Encoder } from '../../examples/semantic-search/encoder.mjs';
import { runExample } from '../examples/run-example.mjs';
import { defined } from '../lib/types.mjs';

const PROGRAM = 'semantic-search/index.mjs';

/** Of numbers of which 384 have length 1. */
const TOLERANCE = 1e-4;

/** Sentences, their paraphrases, and what has nothing to do with either. */
const PARAPHRASES = [
  ['How do plants eat?', 'Green leaves turn sunlight, water and carbon dioxide into sugar.'],
  ['The cat sat on the mat.', 'A feline was resting on a small rug.'],
  ['My computer has crashed again.', 'The machine on my desk stopped working once more.'],
  ['He is saving for his retirement.', 'She puts money aside for old age.'],
  ['It is raining heavily outside.', 'There is a downpour out there.'],
  ['The violinist played beautifully.', 'The musician gave a wonderful performance on the fiddle.'],
];

/** What the model's own tokenizer and training library make of these: tokens, and the first numbers of the vector. */
const KNOWN = [
  {
    text: 'How do plants eat?',
    tokens: [101, 2129, 2079, 4264, 4521, 1029, 102],
    start: [0.018602, 0.032015, -0.01458, 0.079068, -0.031145, -0.000172],
  },
  {
    text: 'A naïve café-owner paid 12.50€ for 3 Zürich tickets — twice!',
    tokens: [101, 1037, 15743, 7668, 1011, 3954, 3825, 2260, 1012, 2753, 30102, 2005, 1017, 10204, 9735, 1517, 3807, 999, 102],
    start: [0.04836, 0.084766, 0.016297, -0.009904, 0.045311, -0.00392],
  },
  {
    text: 'unbelievably antidisestablishmentarian',
    tokens: [101, 4895, 8671, 2666, 3567, 6321, 3424, 10521, 4355, 7875, 13602, 3672, 12199, 102],
    start: [0.062453, 0.011229, -0.010188, 0.029651, -0.086193, -0.070966],
  },
  {
    text: '東京 is big.',
    tokens: [101, 1879, 1755, 2003, 2502, 1012, 102],
    start: [0.162417, 0.068505, 0.058705, -0.04197, -0.044664, -0.028396],
  },
];

/** Embeddings of token lists by onnxruntime. */
function referenceEmbeddings(tokens) {
  const args = [path.join(root, 'scripts/python/embed.py'), path.join(MODEL, 'model.onnx')];
  return JSON.parse(execFileSync(defined(process.env.PYTHON), args, { input: JSON.stringify(tokens), encoding: 'utf8', maxBuffer: 2 ** 26 }));
}

let encoder;
before(async () => {
  assert.ok(process.env.PYTHON, 'PYTHON does not name a Python with onnxruntime; run `npm run suite -- search`');
  encoder = await Encoder.load(MODEL);
});
after(() => encoder?.destroy());

test('tokens and vectors are those of the original model', async () => {
  const vectors = await encoder.encode(KNOWN.map(({ text }) => text));
  KNOWN.forEach(({ text, tokens, start }, i) => {
    assert.deepEqual(encoder.tokens(text), tokens);
    const difference = maxAbsDifference(vectors[i].slice(0, start.length), start);
    assert.ok(difference < TOLERANCE, `${text}: largest difference ${difference}`);
  });
});

test('embeddings agree with those of onnxruntime', async () => {
  // From one word to a cut text; in one call, so that most are padded.
  const texts = [...PARAPHRASES.flat(), 'Hello', 'word '.repeat(90), 'word '.repeat(400)];
  const vectors = await encoder.encode(texts);
  const reference = referenceEmbeddings(texts.map((text) => encoder.tokens(text)));
  texts.forEach((text, i) => {
    const difference = maxAbsDifference(vectors[i], reference[i]);
    assert.ok(difference < TOLERANCE, `${text.slice(0, 40)}: largest difference ${difference}`);
    assert.ok(Math.abs(cosine(vectors[i], vectors[i]) - 1) < TOLERANCE, `${text.slice(0, 40)}: not of length 1`);
  });
});

test('a paraphrase outranks all unrelated sentences', async () => {
  const asked = await encoder.encode(PARAPHRASES.map(([sentence]) => sentence));
  const candidates = await encoder.encode(PARAPHRASES.map(([, paraphrase]) => paraphrase));
  PARAPHRASES.forEach(([sentence], i) => {
    const scores = candidates.map((candidate) => cosine(asked[i], candidate));
    assert.equal(scores.indexOf(Math.max(...scores)), i, `${sentence}: ${scores.map((score) => score.toFixed(3)).join(', ')}`);
  });
});

test('the program finds lines by their meaning', async () => {
  const questions = {
    'how do plants eat': /^Plants make their own food/,
    'why is the ocean salty': /^Sea water is salty/,
    'my employer does not let me do my job remotely': /^Working from home/,
  };
  for (const [question, answer] of Object.entries(questions)) {
    const { code, stdout, stderr } = await runExample(PROGRAM, question, '--json', '--top', '3');
    assert.equal(stderr, '');
    assert.equal(code, 0);
    const hits = JSON.parse(stdout);
    assert.equal(hits.length, 3);
    assert.match(hits[0].text, answer);
    assert.ok(hits[0].score >= hits[1].score && hits[1].score >= hits[2].score);
  }
});

test('without --json there is one line per hit: score, text, topic', async () => {
  const { stdout } = await runExample(PROGRAM, 'how', 'do', 'plants', 'eat');
  const lines = stdout.trimEnd().split('\n');
  assert.equal(lines.length, 5);
  assert.match(lines[0], /^ 0\.\d{2}  Plants make their own food.*  \(plants-and-animals\)$/);
});

test('bad usage is exit code 2 and says what was wrong', async () => {
  /** @type {[string[], RegExp][]} */
  const refusals = [
    [[], /there is no question/],
    [['x', '--top', '0'], /--top is "0", expected a positive whole number/],
    [['x', '--model', root], /there is no model\.onnx in .*; get it with: node fetch-model\.mjs/],
    [['x', '--texts', path.join(root, 'src')], /there are no lines of text in the \.txt files of /],
    [['x', '--bogus'], /Unknown option '--bogus'/],
  ];
  for (const [args, message] of refusals) {
    const { code, stdout, stderr } = await runExample(PROGRAM, ...args);
    assert.match(stderr, message);
    assert.match(stderr, /^semantic-search: [^\n]*\n$/);
    assert.equal(stdout, '');
    assert.equal(code, 2);
  }
});
