// What a language model cannot be fed is refused with an error that names it, and the conversation goes on as if it had not
// been there.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { InferenceSession, Tensor } from 'webnn-node-ort';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { CACHE, CONTEXT, VOCABULARY, cacheShape, decoder } from './decoder.mjs';

const PROMPT = [3, 1, 4, 1, 5];
const TOKENS = [9, 2, 6];

/**
 * @typedef {object} Step
 * @property {number[]} ids
 * @property {number} past
 * @property {Record<string, unknown>} cache
 * @property {number} mask the length of the mask
 * @property {number[]} positions
 */

let context;
before(async () => {
  context = await ml.createContext({ accelerated: false });
});
after(() => context.destroy());

const zeros = (/** @type {number[]} */ shape) => new Float32Array(shape.reduce((a, b) => a * b));
const integers = (/** @type {number[]} */ numbers) => BigInt64Array.from(numbers, BigInt);

/** The ways to run a model: what they are fed, and how. */
const faces = {
  async results(bytes) {
    const model = await loadModel(bytes, { context });
    return { of: (data, shape) => ({ data, shape }), run: (feeds) => model.run(feeds), read: async ({ data }) => [...data], destroy: () => model.destroy() };
  },
  async tensors(bytes) {
    const model = await loadModel(bytes, { context });
    /** @type {Record<string, 'tensor'>} */
    const fetches = Object.fromEntries(['logits', ...CACHE.map((name) => `present.${name}`)].map((name) => [name, 'tensor']));
    return {
      of(data, shape) {
        // Tensors have elements.
        if (data.length === 0) return { data, shape };
        const dataType = data instanceof BigInt64Array ? 'int64' : 'float32';
        return context.createTensor({ dataType, shape, writable: true }).then((tensor) => {
          context.writeTensor(tensor, data);
          return tensor;
        });
      },
      run: (feeds) => model.run(feeds, fetches),
      read: async (tensor) => [...new Float32Array(await context.readTensor(tensor))],
      destroy: () => model.destroy(),
    };
  },
  async onnxruntime(bytes) {
    const session = await InferenceSession.create(bytes);
    const of = (data, shape) => new Tensor(data instanceof BigInt64Array ? 'int64' : 'float32', data, shape);
    return { of, run: (feeds) => session.run(feeds), read: async (tensor) => [...(await tensor.getData())], destroy: () => session.release() };
  },
};

/** A conversation with a model. */
async function conversation(face, style) {
  const { of, run, read, destroy } = await faces[face](decoder(style));
  const part = (length, heads) => of(zeros(cacheShape(length, heads)), cacheShape(length, heads));
  const empty = Object.fromEntries(await Promise.all(CACHE.map(async (name) => [name, await part(0)])));
  /** @param {Step} step */
  const feeds = async ({ ids, mask, positions, cache }) => ({
    input_ids: await of(integers(ids), [1, ids.length]),
    attention_mask: await of(integers(Array(mask).fill(1)), [1, mask]),
    ...(style.positions ? { position_ids: await of(integers(positions), [1, positions.length]) } : {}),
    ...Object.fromEntries(await Promise.all(Object.entries(cache).map(async ([name, held]) => [`past_key_values.${name}`, await held]))),
  });
  /** A step with `ids` behind `past` tokens. @returns {Step} */
  const step = (ids, past, cache) => ({ ids, past, cache, mask: past + ids.length, positions: ids.map((_, i) => past + i) });
  return { empty, part, step, feeds, run, read, destroy };
}

/**
 * The logits of all steps of a conversation, with what is wrong in between.
 * @param {string} face
 * @param {object} style
 * @param {(step: Step, part: (length: number, heads?: number) => unknown) => [object, string, RegExp][]} wrong changes of a step, and how they are refused
 */
async function converse(face, style, wrong) {
  const { empty, part, step, feeds, run, read, destroy } = await conversation(face, style);
  const logits = [];
  let [cache, past] = [empty, 0];
  for (const ids of [PROMPT, ...TOKENS.map((id) => [id]), PROMPT]) {
    const right = step(ids, past, cache);
    for (const [change, code, message] of wrong(right, part)) {
      const changed = await feeds({ ...right, ...change });
      await assert.rejects(run(changed), (/** @type {NodeJS.ErrnoException} */ error) => {
        assert.equal(error.code, code, error.message);
        assert.match(error.message, message);
        return true;
      });
    }
    const results = await run(await feeds(right));
    logits.push(await read(results.logits));
    cache = Object.fromEntries(CACHE.map((name) => [name, results[`present.${name}`]]));
    past += ids.length;
  }
  await destroy();
  return logits;
}

/** Asserts that `wrong` steps are refused, and leave no trace. */
async function assertRefused(face, style, wrong) {
  assert.deepEqual(await converse(face, style, wrong), await converse(face, style, () => []));
}

for (const face of Object.keys(faces)) {
  test(`${face}: ids outside of the vocabulary`, async () => {
    const other = ({ ids }, id) => ({ ids: [...ids.slice(1), id] });
    await assertRefused(face, {}, (step) =>
      [VOCABULARY, -VOCABULARY - 1, 2 ** 40].map((id) => {
        const at = step.ids.length - 1;
        return [
          other(step, id),
          'ERR_WEBNN_INDEX',
          new RegExp(`feed "input_ids" has ${id} at \\[0, ${at}\\], expected -32 to 31: \\[embed\\] Gather .* table of 32`),
        ];
      }),
    );
  });

  test(`${face}: positions that there are not`, async () => {
    const refused = (position) => new RegExp(`feed "position_ids" has ${position} at \\[0, 0\\], expected -16 to 15: \\[positions\\] Gather .* table of 16`);
    await assertRefused(face, { positions: true }, ({ positions }) =>
      [CONTEXT, -CONTEXT - 1].map((position) => [{ positions: [position, ...positions.slice(1)] }, 'ERR_WEBNN_INDEX', refused(position)]),
    );
  });

  test(`${face}: a cache of another model`, async () => {
    await assertRefused(face, {}, ({ past, cache }, part) =>
      CACHE.map((name) => [
        { cache: { ...cache, [name]: part(past + 1, 3) } },
        'ERR_WEBNN_SHAPE',
        new RegExp(`"past_key_values.${name}" has shape \\[1, 3, ${past + 1}, 16\\], expected \\[batch_size=1, 1, past_sequence_length`),
      ]),
    );
  });

  test(`${face}: a cache of another length`, async () => {
    await assertRefused(face, {}, ({ past, cache }, part) =>
      CACHE.slice(1).map((name) => [
        { cache: { ...cache, [name]: part(past + 1) } },
        'ERR_WEBNN_SHAPE',
        new RegExp(`"past_key_values.${name}" has shape \\[1, 1, ${past + 1}, 16\\].* "past_key_values.0.key" `),
      ]),
    );
  });

  test(`${face}: a mask that is too long or too short`, async () => {
    const refused = (past, length) =>
      new RegExp(`"attention_mask" (has shape )?\\[1, ${length}\\].*past_key_values.0.key" (has )?(${past}|\\[1, 1, ${past}, 16\\])`);
    await assertRefused(face, {}, ({ ids, past }) =>
      [past + ids.length + 1, ids.length - 1].filter((length) => length > 0).map((length) => [{ mask: length }, 'ERR_WEBNN_SHAPE', refused(past, length)]),
    );
  });

  test(`${face}: more tokens than there are positions`, async () => {
    await assertRefused(face, {}, ({ past }) => {
      const ids = Array(CONTEXT + 1 - past).fill(7);
      return [[{ ids, mask: CONTEXT + 1 }, 'ERR_WEBNN_SHAPE', /\[attention\.0\] .*total_sequence_length is 17, expected at most the 16 of cos_cache/]];
    });
  });
}

test('a mask that lacks a token is refused where dimensions of one name are one size', async () => {
  for (const face of ['results', 'tensors']) {
    await assertRefused(face, {}, ({ ids, past }) =>
      past === 0
        ? []
        : [
            [
              { mask: past + ids.length - 1 },
              'ERR_WEBNN_SHAPE',
              new RegExp(
                `"attention_mask" has shape .* expected ${past + ids.length} at \\[1\\]: "past_key_values.0.key" has ${past} tokens and "input_ids" ${ids.length}`,
              ),
            ],
          ],
    );
  }
});
