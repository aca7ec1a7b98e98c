// The process of an engine written in JavaScript: node serve.mjs MODULE. See process.mjs for the form of the messages.
//
//   ready {}                           -> {}: the process has started
//   load { model, inputs: { NAME: file.npy }, outputs: [NAME], threads }  -> { version, loadMs }
//   run { warmup, iterations }         -> { ms }: wall time of all iterations after the warm-up, in milliseconds
//   times { iterations }               -> { ms: [number] }: wall time of each iteration
//   save { files: [file.npy] }         -> {}: runs once more and writes the outputs, in the order of `load`
//   anything else is for the engine's own `commands`

import { writeFileSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { formatNpy, readNpy } from '../../cli/npy.mjs';

const ANSWERS = 3;

/**
 * @typedef {object} LoadedEngine
 * @property {string} version of the engine
 * @property {number} loadMs time from the file to a model that can run, in milliseconds
 * @property {() => Promise<unknown>} run writes the inputs, computes, and has read the outputs when it resolves
 * @property {() => Promise<{ dataType: string, shape: number[], data: ArrayBufferView }[]>} outputs of one more run
 * @property {Record<string, (parameters: object) => Promise<object>>} [commands] what only this engine can do
 */

/** @type {LoadedEngine} */
let engine;

const commands = {
  ready: async () => ({}),

  async load({ inputs, ...options }) {
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
};

async function answer({ command, ...parameters }) {
  try {
    return { result: await (commands[command] ?? engine.commands[command])(parameters) };
  } catch (error) {
    return { error: error.message };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  writeSync(ANSWERS, `${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
process.exit();
