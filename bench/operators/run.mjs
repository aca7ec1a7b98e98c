// `npm run bench -- operators`: single operators in the shapes of real networks, in turns with onnxruntime-node.

import { mkdtempSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { ENGINES } from '../../packages/cli/lib/bench/engines.mjs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { entry, Failure, say } from '../../scripts/process.mjs';
import { checksOf, MAX_THREADS } from '../arguments.mjs';
import { describeMachine } from '../machine.mjs';
import { install, OURS } from '../peers.mjs';
import { printTables, writeFiles } from '../report/print.mjs';
import { CASES } from './catalog.mjs';
import { Engine, Measurement } from './measure.mjs';
import { notesOf, resultsMarkdown, speedOf, tablesOf } from './report.mjs';

const USAGE = `usage: npm run bench -- operators [OPTION ...]

Runs models of one operator, compares their results and then their times with onnxruntime-node's, which is installed on demand.

  --filter RE      only cases whose name matches; a name begins with the family
  --threads LIST   numbers of threads, separated by commas (1 and 2, or 1 on a single processor)
  --samples N      turns of each engine with each case and number of threads (3)
  --against NAME   onnxruntime-node, or none: then results are not compared (onnxruntime-node)
  --from FOLDER    with an installed onnxruntime-node, instead of one that is installed in bench/
  --tiny           one run of everything, without pauses: does everything run?
  --list           list the cases
  --json FILE      write all measurements
  --write          write bench/operators/RESULTS.md
  --help`;

const PEER = 'onnxruntime-node';
const SERVER = fileURLToPath(new URL('serve.mjs', import.meta.url));
const RESULTS = fileURLToPath(new URL('RESULTS.md', import.meta.url));

const OPTIONS = /** @satisfies {import('node:util').ParseArgsOptionsConfig} */ ({
  filter: { type: 'string', default: '' },
  threads: { type: 'string', default: availableParallelism() > 1 ? '1,2' : '1' },
  samples: { type: 'string', default: '3' },
  against: { type: 'string', default: PEER },
  from: { type: 'string' },
  tiny: { type: 'boolean', default: false },
  list: { type: 'boolean', default: false },
  json: { type: 'string' },
  write: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
});

function readOptions() {
  const { wrong, parsed, integer, integers, pattern } = checksOf(USAGE);
  const values = parsed(() => parseArgs({ options: OPTIONS }).values);
  if (![PEER, 'none'].includes(values.against)) throw wrong(`--against is ${values.against}, expected ${PEER} or none`);
  if (values.write && (values.filter !== '' || values.tiny || values.against === 'none')) {
    throw wrong(`--write needs times of all cases beside ${PEER}: it goes with no --filter, --tiny or --against none`);
  }
  const filter = pattern('filter', values.filter);
  const cases = CASES.filter(({ name }) => filter.test(name));
  if (cases.length === 0) throw wrong(`--filter: no case has a name that matches ${filter}`);
  return {
    ...values,
    cases,
    threads: integers('threads', values.threads, MAX_THREADS),
    samples: integer('samples', values.samples, 1000),
    engines: values.against === 'none' ? [OURS] : [OURS, PEER],
  };
}

/**
 * Says what became of a case.
 *
 * @param {import('./types.mjs').Outcome} outcome
 * @param {ReturnType<typeof readOptions>} options
 */
function tell(outcome, { threads, engines: [, peer] }) {
  const speeds = () => threads.map((count) => speedOf(outcome, peer, count).toFixed(2)).join(', ');
  say(outcome.status === 'ok' ? `${outcome.name}${peer === undefined ? '' : `: ${speeds()}`}` : notesOf([outcome])[0]);
}

await entry(async () => {
  const options = readOptions();
  const { cases, threads, samples, engines: names, tiny: isTiny, from = dirname(import.meta.dirname), json } = options;
  if (options.list) {
    console.log(cases.map(({ name }) => name).join('\n'));
    return;
  }
  if (names.includes(PEER) && options.from === undefined) await install([PEER]);
  const engines = names.map((name) => new Engine(name, [process.execPath, '--no-warnings', SERVER, ENGINES[name].href], { from }));
  const folder = mkdtempSync(join(tmpdir(), 'webnn-operators-'));
  const measurement = new Measurement(engines, { threads, samples: isTiny ? 1 : samples, isTiny, folder });
  const outcomes = [];
  try {
    for (const [index, one] of cases.entries()) {
      const outcome = await withProgress(`${index + 1} of ${cases.length}: ${one.name}`, () => measurement.measure(one));
      outcomes.push(outcome);
      tell(outcome, options);
    }
  } finally {
    await measurement.end();
  }
  /** @type {import('./report.mjs').Run} */
  const run = {
    date: new Date().toISOString(),
    machine: describeMachine(),
    engines: names,
    versions: Object.fromEntries(engines.map(({ name, version = '' }) => [name, version])),
    threads,
    samples,
    outcomes,
  };
  printTables(tablesOf(run), notesOf(outcomes));
  writeFiles([
    [json, () => `${JSON.stringify(run, undefined, 1)}\n`],
    [options.write ? RESULTS : undefined, () => resultsMarkdown(run)],
  ]);
  const wrong = outcomes.filter(({ status }) => status === 'wrong' || status === 'failed');
  if (wrong.length > 0) throw new Failure(`Not every case has right results:\n${notesOf(wrong).join('\n')}`);
});
