// The embedding model that lies in the package: its tokenizer, its vectors, and what they say about meaning.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Tokenizer } from '@huggingface/tokenizers';
import { maxAbsDifference } from '../../../__test__/lib/numbers.mjs';
import { loadModel } from '../../../onnx.js';

const FOLDER = fileURLToPath(new URL('../models/embeddings/', import.meta.url));

/** Of numbers whose squares add up to 1. */
const TOLERANCE = 1e-6;

/** A sentence, one of similar meaning, and one that has nothing to do with them. */
const TRIPLES = [
  ['How do plants eat?', 'Green leaves turn sunlight, water and carbon dioxide into sugar.', 'The violinist played in a concert hall.'],
  ['The cat sat on the mat.', 'A kitten was resting on a small rug.', 'Stock prices fell on Monday.'],
  ['My computer has crashed again.', 'The laptop stopped working once more.', 'Penguins live in the south.'],
  ['He is saving for his retirement.', 'She puts money aside for her pension.', 'The volcano erupted at night.'],
  ['It is raining heavily outside.', 'A storm brings showers and wind.', 'The novel has three hundred pages.'],
  ['The violinist played beautifully.', 'The orchestra gave a wonderful concert.', 'Install the newest version of the program.'],
  ['Where can I buy fresh bread?', 'The bakery around the corner sells rolls.', 'The planet has two moons.'],
  ['The patient recovered after surgery.', 'Doctors healed the wound in the hospital.', 'Our team lost the match.'],
  ['The team won the championship.', 'Players celebrated their victory in the stadium.', 'Salt dissolves in water.'],
  ['The lawyer spoke to the judge.', 'The court will hear the case in March.', 'Whisk the eggs with sugar.'],
  ['How do I delete a file?', 'Remove documents from the folder on your disk.', 'Horses eat hay and grass.'],
  ['The rocket was launched into orbit.', 'Astronauts travel to a space station.', 'The carpenter sells wooden chairs.'],
];

const LONG = 'word '.repeat(300);

let tokenizer;
let model;
let config;
before(async () => {
  const readJson = async (name) => JSON.parse(await readFile(path.join(FOLDER, name), 'utf8'));
  config = await readJson('config.json');
  tokenizer = new Tokenizer(await readJson('tokenizer.json'), await readJson('tokenizer_config.json'));
  model = await loadModel(path.join(FOLDER, 'onnx/model.onnx'));
});
after(() => model?.destroy());

/**
 * Vectors of token lists in one batch, padded to the longest.
 * @param {number[][]} lists
 */
async function run(lists) {
  const shape = [lists.length, Math.max(...lists.map((ids) => ids.length))];
  const ids = new BigInt64Array(shape[0] * shape[1]);
  const mask = new BigInt64Array(ids.length);
  lists.forEach((list, row) => {
    ids.set(list.map(BigInt), row * shape[1]);
    mask.fill(1n, row * shape[1], row * shape[1] + list.length);
  });
  const { sentence_embedding } = await model.run({ input_ids: { data: ids, shape }, attention_mask: { data: mask, shape } });
  const width = config.hidden_size;
  assert.deepEqual([...sentence_embedding.shape], [lists.length, width]);
  return lists.map((_, row) => sentence_embedding.data.slice(row * width, (row + 1) * width));
}

const tokens = (text) => tokenizer.encode(text).ids;
const encode = (texts) => run(texts.map(tokens));
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

test('the tokenizer cuts texts into the pieces of the original vocabulary', () => {
  const pieces = {
    'How do plants eat?': ['[CLS]', 'how', 'do', 'plants', 'eat', '?', '[SEP]'],
    'Unbelievably naïve 東京!': ['[CLS]', 'un', '##bel', '##ie', '##va', '##bly', 'naive', '東', '京', '!', '[SEP]'],
    '🦄': ['[CLS]', '[UNK]', '[SEP]'],
    '': ['[CLS]', '[SEP]'],
  };
  for (const [text, expected] of Object.entries(pieces)) {
    const { ids, tokens } = tokenizer.encode(text);
    assert.deepEqual(tokens, expected);
    assert.ok(
      ids.every((id) => id >= 0 && id < config.vocab_size),
      text,
    );
  }
  assert.equal(tokenizer.token_to_id('[PAD]'), config.pad_token_id);
});

test('similar sentences score higher than unrelated ones', async () => {
  const vectors = await encode(TRIPLES.flat());
  TRIPLES.forEach(([sentence], i) => {
    const [asked, similar, unrelated] = vectors.slice(3 * i, 3 * i + 3);
    const scores = [dot(asked, similar), dot(asked, unrelated)];
    assert.ok(scores[0] > scores[1] + 0.1, `${sentence}: ${scores}`);
  });
});

test('a similar sentence is found among all others', async () => {
  const asked = await encode(TRIPLES.map(([sentence]) => sentence));
  const candidates = await encode(TRIPLES.flatMap(([, similar, unrelated]) => [similar, unrelated]));
  const found = asked.filter((vector, i) => {
    const scores = candidates.map((candidate) => dot(vector, candidate));
    return scores.indexOf(Math.max(...scores)) === 2 * i;
  });
  assert.ok(found.length >= 8, `${found.length} of ${TRIPLES.length}`);
});

test('vectors have length 1', async () => {
  for (const vector of await encode([...TRIPLES.flat(), 'a', '.', '東京', '🦄', LONG])) {
    assert.ok(Math.abs(Math.sqrt(dot(vector, vector)) - 1) < TOLERANCE);
  }
});

test('a text without tokens, and a mask without ones, give zeros', async () => {
  const zeros = Array(config.hidden_size).fill(0);
  const [empty, masked] = await run([tokens(''), []]);
  assert.deepEqual(Array.from(empty), zeros);
  assert.deepEqual(Array.from(masked), zeros);
});

test('padding does not change a vector', async () => {
  const texts = [...TRIPLES.flat(), LONG];
  const together = await encode(texts);
  for (const [i, text] of texts.entries()) {
    const [alone] = await encode([text]);
    const difference = maxAbsDifference(alone, together[i]);
    assert.ok(difference < TOLERANCE, `${text.slice(0, 40)}: ${difference}`);
  }
});
