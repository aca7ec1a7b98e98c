// The process of an engine that is written in JavaScript: node serve.mjs MODULE. See process.mjs for the format of
// messages.
//
//   ready {}                           -> {}: the process has started
//   load { model, inputs: { NAME: file.npy }, outputs: [NAME], threads }  -> { version, loadMs }
//   run { warmup, iterations }         -> { ms }: wall time of all iterations after the warm-up, in milliseconds
//   times { iterations }               -> { ms: [number] }: wall time of each iteration
//   save { files: [file.npy] }         -> {}: runs once more and writes the outputs, in the order of `load`
//   processor {}                       -> the instruction set and threads, the adapter or the execution provider in use
//   generate { decoder, prompt: [id], tokens } -> { ids, firstMs, tokenMs }: one text, see generate.mjs
//   usage {}                           -> { resident, peak, cpuMicroseconds } of this process
//   any other command is one of the engine's own `commands`

import { writeFileSync } from 'node:fs';
import { formatNpy, readNpy } from '../npy.mjs';
import { answerRequests } from './answers.mjs';
import { generate } from './generate.mjs';

const KIB = 1024;

/** @type {import('./types.mjs').LoadedEngine} */
let engine;

/** @type {import('./types.mjs').ServedCommands} */
const commands = {
  ready: async () => ({}),

  async load({ inputs, ...options }) {
    /** @type {import('../types.mjs').Tensors} */
    const tensors = {};
    for (const [name, file] of Object.entries(inputs)) {
      tensors[name] = await readNpy(file);
    }
    const { load } = await import(process.argv[2]);
    engine = await load({ ...options, inputs: tensors });
    return { version: engine.version, loadMs: engine.loadMs };
  },

  async run({ warmup, iterations }) {
    for (let i = 0; i < warmup; i++) {
      await engine.run();
    }
    const start = performance.now();
    for (let i = 0; i < iterations; i++) {
      await engine.run();
    }
    return { ms: performance.now() - start };
  },

  async times({ iterations }) {
    const ms = [];
    for (let i = 0; i < iterations; i++) {
      const start = performance.now();
      await engine.run();
      ms.push(performance.now() - start);
    }
    return { ms };
  },

  async save({ files }) {
    const outputs = await engine.outputs();
    outputs.forEach((tensor, i) => writeFileSync(files[i], formatNpy(tensor)));
    return {};
  },

  async generate(request) {
    if (engine.session === undefined) throw new Error('it cannot generate text');
    return generate(engine.session, request);
  },

  processor: async () => (await engine.processor?.()) ?? '',

  async usage() {
    const { user, system } = process.cpuUsage();
    return { resident: process.memoryUsage.rss(), peak: process.resourceUsage().maxRSS * KIB, cpuMicroseconds: user + system };
  },
};

await answerRequests((command) => {
  /** @type {Record<string, (parameters: any) => Promise<unknown>>} */
  const known = { ...engine?.commands, ...commands };
  return known[command];
});
