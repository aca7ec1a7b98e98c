// Measures one case: prints CPU milliseconds and growth of the peak of memory.

import { readFileSync } from 'node:fs';
import { cases } from './cases.mjs';

const [entry, name] = process.argv.slice(2);
const { loadModel } = await import(entry);
const { bytes, feeds } = cases[name]();

const peak = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024;
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

/**
 * @template T
 * @param {() => Promise<T>} work
 */
async function timed(work) {
  const [before, start] = [peak(), cpu()];
  let error;
  const result = await work().catch((reason) => {
    error = reason.message.split('\n')[0].slice(0, 60);
  });
  return { result, error, ms: Math.round((cpu() - start) * 10) / 10, MiB: Math.round((peak() - before) * 10) / 10 };
}

const load = await timed(() => loadModel(bytes));
/** @type {Record<string, unknown>} */
const row = { KB: Math.round(bytes.length / 1000), 'load ms': load.ms, 'load MiB': load.MiB, error: load.error };
const model = load.result;
if (model && feeds) {
  for (const turn of ['first', 'second']) {
    const ran = await timed(() => model.run(feeds));
    Object.assign(row, { [`${turn} ms`]: ran.ms, [`${turn} MiB`]: ran.MiB });
    row.error ??= ran.error;
  }
}
console.log(JSON.stringify(row));
process.exit();
