// Greedy text generation in an engine's process: the same loop for all engines.
import { emptyCache, lastLogits, mostLikely, nextCache, stepInputs } from 'webnn-node-text/decoder';

/**
 * Generates one text, from typed arrays to the chosen ids. The cache passes from step to step in the engine's own form.
 * @param {import('./types.mjs').EngineSession} session
 * @param {import('./types.mjs').GenerateRequest} request
 * @returns {Promise<import('./types.mjs').Generation>}
 */
export async function generate({ feedsOf, run, tensorOf }, { decoder, prompt, tokens }) {
  /** @type {number[]} */
  const ids = [];
  /** @type {number[]} */
  const ms = [];
  let cache = feedsOf(emptyCache(decoder));
  let past = 0;
  for (let next = prompt; ids.length < tokens; next = ids.slice(-1)) {
    const start = performance.now();
    const results = await run({ ...feedsOf(stepInputs(decoder, next, past)), ...cache });
    ids.push(mostLikely(lastLogits(tensorOf(results.logits))));
    ms.push(performance.now() - start);
    cache = nextCache(decoder, results);
    past += next.length;
  }
  const [firstMs, ...tokenMs] = ms;
  return { ids, firstMs, tokenMs };
}
