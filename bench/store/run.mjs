// `npm run bench -- store`: processes that share packed weights on disk, in turns with those that do not, and with onnxruntime-node.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { entry, Failure, root, say } from '../../scripts/process.mjs';
import { checksOf } from '../arguments.mjs';
import { describeMachine } from '../machine.mjs';
import { installEngines } from '../generate/engines.mjs';
import { install } from '../peers.mjs';
import { markdownTable } from '../report/markdown.mjs';
import { printTables, writeFiles } from '../report/print.mjs';
import { sampleInTurns } from '../turns.mjs';
import { writeGguf, writeModels } from './models.mjs';
import { PARTS } from './parts.mjs';
import { WORKER } from './processes.mjs';

const USAGE = `usage: npm run bench -- store [OPTION ...]

Measures processes whose packed weights lie in a store on disk. Models with random weights are written on demand (1.8 GB under
target/). Parts that the build cannot do yet are left out, and the others measure loads without a store.

  --filter RE      parts and models, as "PART MODEL", that match: parts are ${Object.keys(PARTS).join(', ')};
                   models resnet50, embedder, gpt2, q4, denoise
  --rounds N       turns of everything (5)
  --processes N    with the same model (8)
  --seconds N      watched without runs, or with few of them (60)
  --against LIST   of onnxruntime-node, node-llama-cpp, or none (onnxruntime-node); node-llama-cpp runs q4 from a GGUF file, which needs
                   Python and 1 GB for packages
  --write          write bench/store/RESULTS.md
  --help`;

const PEER = 'onnxruntime-node';
const LLAMA = 'node-llama-cpp';
const RESULTS = fileURLToPath(new URL('RESULTS.md', import.meta.url));

const REMARK = [
  'Medians of processes in turns, pages of files in the cache. Weights: the size of the model file. Memory is that beyond empty Node processes, some seconds after a run.',
  'Loading of a model with free sizes packs nothing: its first run is added, without the time of a later run; in parentheses, with that run.',
  'Runs with and without a store: two processes of each that are alive at the same time, in turns; the median of the ratios of turns.',
  'The last columns: the same quantity, or its time; of PSS, that of the number of processes in parentheses.',
].join(' ');

function readOptions() {
  const { parsed, integer, pattern, someOf } = checksOf(USAGE);
  const values = parsed(
    () =>
      parseArgs({
        options: {
          filter: { type: 'string', default: '' },
          rounds: { type: 'string', default: '5' },
          processes: { type: 'string', default: '8' },
          seconds: { type: 'string', default: '60' },
          against: { type: 'string', default: PEER },
          write: { type: 'boolean', default: false },
          help: { type: 'boolean', short: 'h', default: false },
        },
      }).values,
  );
  const against = values.against === 'none' ? [] : someOf('against', values.against, [PEER, LLAMA], ', or none');
  return {
    filter: pattern('filter', values.filter),
    rounds: integer('rounds', values.rounds, 1000),
    processes: integer('processes', values.processes, 64),
    seconds: integer('seconds', values.seconds, 3600),
    hasPeer: against.includes(PEER),
    hasLlama: against.includes(LLAMA),
    write: values.write,
  };
}

/** What this build can do. @param {string} folder @returns {Promise<import('./types.d.mts').Abilities>} */
async function abilitiesOf(folder) {
  const cache = join(folder, 'probe');
  mkdirSync(cache);
  const parameters = { task: 'probe', engine: 'webnn-node', model: 'denoise', cache };
  const { probe } = await sampleInTurns(
    ['probe'],
    () => ({ worker: WORKER, parameters }),
    1,
    () => {},
  );
  return /** @type {import('./types.d.mts').Abilities} */ (probe[0]);
}

/** @param {import('./types.d.mts').Row[]} rows @returns {import('../report/tables.mjs').ReportTable} */
const tableOf = (rows) => ({
  title: 'Packed weights on disk',
  remark: REMARK,
  head: ['bar', 'model', '>limit', '>measured', 'met', '>without a store', `>${PEER}`, `>${LLAMA}`],
  rows: rows.map(({ bar, model, limit, measured, met, without, peer, llama }) => [
    bar,
    model,
    limit,
    measured,
    met === null ? '–' : met ? 'yes' : 'NO',
    without,
    peer,
    llama,
  ]),
});

await entry(async () => {
  const { filter, write, ...options } = readOptions();
  if (process.platform !== 'linux') throw new Failure('The benchmark needs Linux: it reads /proc.');
  const isWanted = (/** @type {string} */ part, /** @type {string} */ model) => filter.test(`${part} ${model}`);
  const parts = Object.entries(PARTS).filter(([part, { models }]) => models.some((model) => isWanted(part, model)));
  if (parts.length === 0) throw new Failure(`--filter matches nothing\n\n${USAGE}`, 2);
  if (options.hasPeer) await install([PEER]);
  if (options.hasLlama) await installEngines();
  const models = new Set(parts.flatMap(([part, { models }]) => models.filter((model) => isWanted(part, model))));
  await writeModels(['denoise', ...models]);
  if (options.hasLlama) await writeGguf();
  // Not in the system's folder for temporary files, which may be in memory.
  mkdirSync(join(root, 'target'), { recursive: true });
  const folder = mkdtempSync(join(root, 'target', 'stores-'));
  /** @type {string[]} */
  const notes = [];
  /** @type {import('./types.d.mts').Row[]} */
  const rows = [];
  try {
    const abilities = await withProgress('abilities', () => abilitiesOf(folder));
    if (!abilities.cache) notes.push('This build has no store: only loads without one are measured.');
    if (!abilities.idle) notes.push('This build gives no memory back: nothing about it is measured.');
    for (const [, { run }] of parts) {
      const measured = await run({ ...options, folder, abilities, isWanted });
      for (const { bar, model, limit, measured: value, without, peer, llama } of measured) {
        say(`${bar}, ${model}: ${value} of ${limit}; without ${without}, ${PEER} ${peer}, ${LLAMA} ${llama}`);
      }
      rows.push(...measured);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  const table = tableOf(rows);
  printTables([table], notes);
  const { cpu, processors, system, node } = describeMachine();
  const head = [
    '# Results of packed weights on disk',
    '',
    `${new Date().toISOString().slice(0, 10)}, ${cpu}, ${processors} processors, ${system}, Node ${node}.`,
  ];
  const how = 'To repeat it on an otherwise idle machine: `npm run bench -- store --write`.';
  writeFiles([
    [write ? RESULTS : undefined, () => [...head, '', how, '', REMARK, '', ...markdownTable(table), ...notes.map((note) => `\n${note}`), ''].join('\n')],
  ]);
});
