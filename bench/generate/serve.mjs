// The process of an engine: node serve.mjs MODULE. See types.d.mts for the requests.

import { answerRequests } from '../../packages/cli/lib/bench/answers.mjs';

const KIB = 1024;

/** @type {import('./types.d.mts').Generator} */
let generator;

/** @type {import('./types.d.mts').GenerateCommands} */
const commands = {
  async load(parameters) {
    const { load } = await import(process.argv[2]);
    generator = await load(parameters);
    return { version: generator.version, loadMs: generator.loadMs };
  },

  generate: async (request) => ({ ...(await generator.generate(request)), peakBytes: process.resourceUsage().maxRSS * KIB }),
};

await answerRequests((command) => /** @type {Record<string, (parameters: any) => Promise<unknown>>} */ ({ ...commands })[command]);
