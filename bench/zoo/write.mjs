// Writes the models of the benchmark with samples of their inputs and with reference outputs, as bench/models.mjs reads them.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatNpy } from '../../packages/cli/lib/npy.mjs';
import { root, say } from '../../scripts/process.mjs';
import { rewriteIfStale } from '../../scripts/rewrite-stale.mjs';
import { installNpmPeers } from '../peers.mjs';
import { CATALOG } from './catalog.mjs';
import { quantizeStatically, rangedTensors } from './quantized.mjs';
import { rangesOf, runModel, runNetwork, writeNetwork } from './reference.mjs';

/** The folder of the models. */
export const MODELS = join(root, 'target', 'onnx-models');

/** Everything that determines the models. */
export function sources() {
  const here = new URL('.', import.meta.url);
  const own = readdirSync(here).map((name) => new URL(name, here));
  const others = ['../package.json', '../../__test__/onnx/model-writer.mjs', '../../packages/text/lib/random.mjs'].map((file) => new URL(file, here));
  return [...own.sort(), ...others].map((file) => readFileSync(file, 'utf8')).join();
}

/**
 * @param {string} name
 * @param {string} folder
 */
async function writeModel(name, folder) {
  const { network: make, reference, unquantized, calibrated } = CATALOG[name];
  const [file, temporary] = [`${folder}.onnx`, join(folder, 'temporary.onnx')];
  /** @type {(kind: string, tensors: Record<string, import('../../packages/cli/lib/types.mjs').Tensor>) => void} */
  const keep = (kind, tensors) =>
    Object.entries(tensors).forEach(([key, tensor]) => {
      writeFileSync(join(folder, `${kind}_${key}.npy`), formatNpy(tensor));
    });
  let network = make();
  if (calibrated) network = quantizeStatically(network, await rangesOf(network, rangedTensors(network), temporary));
  const feeds = network.feeds();
  writeNetwork(network, file);
  keep('in', feeds);
  keep('out', reference === undefined ? await runModel(file, feeds) : await runNetwork(reference(), temporary));
  if (unquantized !== undefined) keep('out_float', await runNetwork(unquantized(), temporary));
}

/**
 * Writes models that are missing or that other sources wrote.
 *
 * @param {string[]} names of {@link CATALOG}
 */
export async function writeModels(names) {
  const source = sources();
  await installNpmPeers();
  for (const name of names) {
    const folder = join(MODELS, name);
    await rewriteIfStale(folder, source, async () => {
      say(`model ${name}`);
      await writeModel(name, folder);
    });
  }
}
