import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { root } from '../../../scripts/process.mjs';

/**
 * A folder with an engine that is called onnxruntime-node: this one on the CPU, its outputs multiplied by `factor`. It says that
 * it has execution providers of the given names, and only that of the CPU works.
 * @param {string} folder in which it is made
 * @param {number} factor
 * @param {string[]} [providers]
 */
export async function folderOfEngine(folder, factor, providers = ['cpu']) {
  const directory = await mkdtemp(path.join(folder, 'engine-'));
  const installed = path.join(directory, 'node_modules', 'onnxruntime-node');
  await mkdir(installed, { recursive: true });
  await writeFile(path.join(installed, 'package.json'), JSON.stringify({ name: 'onnxruntime-node', version: '0.0.7', main: 'index.js' }));
  await writeFile(
    path.join(installed, 'index.js'),
    `
    const { ml } = require(${JSON.stringify(path.join(root, 'index.js'))});
    const { loadModel } = require(${JSON.stringify(path.join(root, 'onnx.js'))});
    class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } }
    const InferenceSession = { async create(file, { executionProviders: [provider] }) {
      if (provider !== 'cpu') throw new Error('no ' + provider + ' here');
      const model = await loadModel(file, { context: await ml.createContext({ accelerated: false }) });
      return {
        inputMetadata: model.inputs.map(({ name, dataType }) => ({ name, type: dataType })),
        run: async (feeds) => {
          const results = await model.run(Object.fromEntries(Object.entries(feeds).map(([name, { data, dims }]) => [name, { data, shape: dims }])));
          return Object.fromEntries(Object.entries(results).map(([name, { dataType, data, shape }]) => [name, new Tensor(dataType, data.map((value) => value * ${factor}), shape)]));
        },
      };
    } };
    const listSupportedBackends = () => ${JSON.stringify(providers.map((name) => ({ name })))};
    module.exports = { InferenceSession, Tensor, listSupportedBackends };
  `,
  );
  return directory;
}
