// node-llama-cpp on its prebuilt library for CPUs.

import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import { fileURLToPath } from 'node:url';
import { ggufFile } from '../catalog.mjs';
import { packageOf } from '../package-of.mjs';
import { Timeline } from '../timeline.mjs';

/**
 * @param {import('../types.d.mts').GenerateLoad} parameters
 * @returns {Promise<import('../types.d.mts').Generator>}
 */
export async function load({ models, type, threads, positions }) {
  const { version } = packageOf(fileURLToPath(import.meta.resolve('node-llama-cpp')));
  const start = performance.now();
  const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, maxThreads: threads, logLevel: LlamaLogLevel.error });
  const model = await llama.loadModel({ modelPath: ggufFile(models, type) });
  const context = await model.createContext({ contextSize: positions, threads });
  const sequence = context.getSequence();
  const loadMs = performance.now() - start;
  return {
    version,
    loadMs,
    async generate({ prompt, ...request }) {
      await sequence.clearHistory();
      const timeline = new Timeline(request);
      for await (const id of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
        timeline.add(id);
        if (timeline.isDone) break;
      }
      return timeline.result();
    },
  };
}
