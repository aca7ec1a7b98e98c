// Writes the models of the guides, which are small enough to be read: `node __test__/documentation/files/make.mjs`.

import { writeFileSync } from 'node:fs';
import { FLOAT, INT64, node, value, weight, writeModel } from '../../onnx/model-writer.mjs';

const save = (name, model) => writeFileSync(new URL(name, import.meta.url), writeModel(model));

/** Words and what they have to do with animals, food and vehicles. The first token is padding. */
const MEANINGS = [
  [0, 0, 0],
  [0.1, 0.1, 0.1], // [PAD], [UNK]
  [1, 0.1, 0],
  [0.9, 0.2, 0],
  [0.8, 0.3, 0.1], // cat, dog, horse
  [0.1, 1, 0],
  [0, 0.9, 0],
  [0.2, 0.8, 0], // bread, cheese, fish
  [0, 0, 1],
  [0, 0.1, 0.9],
  [0.1, 0, 0.8], // car, train, bicycle
];

/** An encoder of sentences: a vector for each token. */
save('encoder.onnx', {
  inputs: ['input_ids', 'attention_mask'].map((name) => value(name, INT64, ['batch', 'sequence'])),
  outputs: [value('last_hidden_state', FLOAT, ['batch', 'sequence', 3])],
  weights: [weight('meanings', [MEANINGS.length, 3], Float32Array.from(MEANINGS.flat())), weight('last', [1], BigInt64Array.of(-1n))],
  nodes: [
    node('Gather', ['meanings', 'input_ids'], ['embedded'], {}, 'embeddings'),
    node('Cast', ['attention_mask'], ['weights'], { to: { i: FLOAT } }),
    node('Unsqueeze', ['weights', 'last'], ['column']),
    node('Mul', ['embedded', 'column'], ['last_hidden_state']),
  ],
});

const VOCABULARY = 10;

/** A language model that counts: the most likely token is the next number. Its cache holds the tokens that were read. */
save('counter.onnx', {
  inputs: [value('input_ids', INT64, [1, 'sequence_length']), value('past_key_values.0.key', FLOAT, [1, 1, 'past_sequence_length', 1])],
  outputs: [value('logits', FLOAT, [1, 'sequence_length', VOCABULARY]), value('present.0.key', FLOAT, [1, 1, 'total_sequence_length', 1])],
  weights: [
    weight(
      'successors',
      [VOCABULARY, VOCABULARY],
      Float32Array.from({ length: VOCABULARY ** 2 }, (_, i) => (i % VOCABULARY === Math.floor(i / VOCABULARY) + 1 ? 5 : 0)),
    ),
    weight('rows', [4], BigInt64Array.of(1n, 1n, -1n, 1n)),
  ],
  nodes: [
    node('Gather', ['successors', 'input_ids'], ['logits'], {}, 'embeddings'),
    node('Cast', ['input_ids'], ['numbers'], { to: { i: FLOAT } }),
    node('Reshape', ['numbers', 'rows'], ['key']),
    node('Concat', ['past_key_values.0.key', 'key'], ['present.0.key'], { axis: { i: 2 } }),
  ],
});

const SAMPLES = 160;

/** A meter of loudness, 10 ms at a time: it rises with the sound and falls slowly. */
save('meter.onnx', {
  inputs: [value('samples', FLOAT, [SAMPLES]), value('state', FLOAT, [1])],
  outputs: [value('level', FLOAT, [1]), value('state_out', FLOAT, [1])],
  weights: [weight('decay', [1], Float32Array.of(0.5))],
  nodes: [
    node('Abs', ['samples'], ['magnitudes']),
    node('ReduceMax', ['magnitudes'], ['peak'], { axes: { ints: [0] } }),
    node('Mul', ['state', 'decay'], ['fallen']),
    node('Max', ['peak', 'fallen'], ['level']),
    node('Identity', ['level'], ['state_out']),
  ],
});
