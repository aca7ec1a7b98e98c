// Compares the texts that two engines generate with one model, token by token. `npm run suite -- text` writes the
// models and names their folder.

import assert from 'node:assert/strict';
import { deviation } from 'd3-array';
import { numbersOf } from 'webnn-node-text/elements';
import { compareOutput, TOLERANCES } from '../../bench/check.mjs';
import { TYPES, vocabularyOf } from '../../bench/generate/catalog.mjs';
import { likeliest, openDirect } from '../../bench/generate/direct.mjs';
import { promptOf } from '../../bench/generate/inputs.mjs';

const models = process.env.WEBNN_TEXT_MODELS ?? '';
assert.ok(models, 'WEBNN_TEXT_MODELS does not name the folder of the models; run `npm run suite -- text`');

const PROMPT = 24;

/**
 * How far logits may be off where activations are rounded to 8 bits, in standard deviations of the reference. Sums that
 * nearly tie are rounded to either side; onnxruntime's logits move by 0.05 when it rounds at all.
 */
const ROUNDED = 0.1;

const allowedFor = (type) => (type === 'q4-level4' ? ROUNDED : TOLERANCES[TYPES[type].dataType]);

/**
 * Generates a text: reads a prompt, then token after token, and at last the prompt once more, all of it behind the cache.
 *
 * @param {import('../../bench/generate/types.d.mts').Runtime} runtime
 * @param {import('../../bench/generate/catalog.mjs').TypeName} type
 * @param {number} tokens how many are chosen before the prompt comes again
 * @param {number[]} [given] tokens to read in the place of those that are chosen
 * @returns {Promise<{ ids: number[], logits: { dataType: string, data: any }[] }>} the likeliest tokens, and the logits that
 *   each was chosen by: `[vocabulary]`
 */
async function generate(runtime, type, tokens, given) {
  const { dataType } = TYPES[type];
  const vocabulary = vocabularyOf(models, type);
  const prompt = promptOf(PROMPT, vocabulary);
  const ids = /** @type {number[]} */ ([]);
  const logits = /** @type {{ dataType: string, data: any }[]} */ ([]);
  let text = (await openDirect(runtime, { models, type, threads: 2 }))();
  const read = async (some) => {
    const step = await text(some);
    ids.push(likeliest(step.logits, vocabulary));
    logits.push({ dataType, data: step.logits.data.slice(-vocabulary) });
    text = step.text;
  };
  await read(prompt);
  while (ids.length < tokens) await read([(given ?? ids)[ids.length - 1]]);
  await read(prompt);
  return { ids, logits };
}

/**
 * Asserts that an engine generates the text of the reference: the same tokens where both round alike. Otherwise they may
 * choose another one of two tokens whose logits nearly tie; both go on with the reference's then, so that all are compared.
 *
 * @param {import('node:test').TestContext} t is told how many tokens are the same
 * @param {import('../../bench/generate/catalog.mjs').TypeName} type
 * @param {import('../../bench/generate/types.d.mts').Runtime} reference
 * @param {import('../../bench/generate/types.d.mts').Runtime} engine
 * @param {number} tokens
 */
export async function assertSameText(t, type, reference, engine, tokens) {
  const expected = await generate(reference, type, tokens);
  const got = await generate(engine, type, tokens, expected.ids);
  // Of one token again and again, the comparison would tell little.
  assert.ok(new Set(expected.ids).size > tokens / 10, `the text has ${new Set(expected.ids).size} different tokens`);
  const allowed = allowedFor(type);
  const errors = expected.logits.map((logits, i) => compareOutput(got.logits[i], logits, TYPES[type].dataType).error);
  const different = expected.ids.flatMap((id, i) => (got.ids[i] === id ? [] : [i]));
  t.diagnostic(
    `${errors.length - different.length} of ${errors.length} tokens are the same, logits are off by up to ${Math.max(...errors).toExponential(1)} standard deviations`,
  );
  for (const [i, error] of errors.entries()) {
    assert.ok(error <= allowed, `the logits of token ${i} are off by ${error} standard deviations, allowed are ${allowed}`);
  }
  for (const i of different) {
    const [wanted, chosen] = [expected.ids[i], got.ids[i]];
    const logits = numbersOf(expected.logits[i]);
    const lead = (logits[wanted] - logits[chosen]) / Number(deviation(logits));
    assert.ok(!TYPES[type].exact && lead <= allowed, `token ${i} is ${chosen}, expected ${wanted}, which leads by ${lead} standard deviations`);
  }
}
