// Models that generate texts, for tests: the tokens are bytes, the weights are numbers without a meaning.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { decoder } from '../../../__test__/onnx/decoder.mjs';
import { VOCABULARY, writeFolder } from '../../../__test__/examples/model-folder.mjs';
import { Places, Turns } from '../lib/batcher/turns.js';
import { UNOBSERVED } from '../lib/metrics/metrics.js';
import { loadVersion } from '../lib/models/load.js';
import { DEFAULTS } from '../lib/registry/config.js';

export const CONTEXT = 512;

/** Folders by the way in which texts are computed: with GroupQueryAttention, and with attention that is written out. */
export const KINDS = {
  together: { bytes: decoder({ vocabulary: VOCABULARY, context: CONTEXT }), config: { max_position_embeddings: CONTEXT } },
  'in turns': { config: { max_position_embeddings: CONTEXT } },
};

/**
 * A folder of models, removed after the test.
 * @param {{ after: (done: () => void) => void }} t
 * @param {Record<string, Parameters<typeof writeFolder>[1]>} models by name
 */
export async function modelsOf(t, models) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-generation-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, content] of Object.entries(models)) await writeFolder(path.join(folder, name), content);
  return folder;
}

/**
 * Loads a model, which is freed after the test.
 * @param {{ after: (done: () => Promise<void> | void) => void }} t
 * @param {object} options
 * @param {keyof typeof KINDS} [options.kind]
 * @param {Partial<import('../lib/registry/config.js').ModelConfig>} [options.config]
 * @param {Partial<import('../lib/batcher/executor.js').Observer>} [options.observer]
 * @returns {Promise<import('../lib/models/generator.js').Generator>}
 */
export async function generatorOf(t, { kind = 'together', config = {}, observer = {} } = {}) {
  return loadFrom(t, await modelsOf(t, { model: KINDS[kind] }), { config: { maxTextQueueMs: 2 ** 30, ...config }, observer });
}

/**
 * Loads the model `model` of a folder, freed after the test.
 * @param {Parameters<typeof modelsOf>[0]} t
 * @param {string} folder
 * @param {{ config?: Partial<import('../lib/registry/config.js').ModelConfig>, observer?: object }} [options]
 * @returns {Promise<import('../lib/models/generator.js').Generator>}
 */
export async function loadFrom(t, folder, { config = {}, observer = {} } = {}) {
  const services = {
    config: { ...DEFAULTS, threads: 1, ...config },
    turns: new Turns(new Places()),
    observer: { ...UNOBSERVED, ...observer },
  };
  const model = await loadVersion(path.join(folder, 'model'), services);
  t.after(async () => {
    await model.drain();
    model.destroy();
  });
  return /** @type {any} */ (model);
}
