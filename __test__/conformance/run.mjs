// Runs a folder of conformance vectors through the public API. See USAGE.

import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mapConcurrently, positiveInteger, readCommandLine, regularExpression, runMain, UsageError } from '../lib/runners.mjs';
import { runCase } from './case.mjs';

const USAGE = `usage: npm run conformance -- DIR [options]

Runs the cases of every JSON file in DIR (except index.json) and compares the results.

  --filter RE        only cases whose "file: name" matches the regular expression
  --json FILE        write the results to FILE, with every element that differs
  --accelerated      on a GPU (default: a context on the CPU)
  --adapter TEXT     on the GPU whose name has this text
  --num-threads N    number of threads of the context
  --concurrency N    cases in flight at the same time (default: 4)

Exit status: 0 all passed; 1 a case failed, a file cannot be read, no case ran, or they would not run on a GPU as demanded; 2 wrong
usage.`;

/** Elements printed of an output that differs; --json has all of them. */
const PRINTED_ELEMENTS = 5;

/** Reads the command line. @throws {UsageError} */
function readArguments(args) {
  const { values, positionals } = readCommandLine({
    args,
    allowPositionals: true,
    options: {
      filter: { type: 'string', default: '' },
      json: { type: 'string' },
      accelerated: { type: 'boolean', default: false },
      adapter: { type: 'string' },
      'num-threads': { type: 'string' },
      concurrency: { type: 'string', default: '4' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    return { help: true };
  }
  if (positionals.length !== 1) {
    throw new UsageError(`expected one folder, got ${positionals.length}`);
  }
  const [directory] = positionals;
  if (!existsSync(directory) || !statSync(directory).isDirectory()) {
    throw new UsageError(`${directory} is not a folder`);
  }
  return {
    directory,
    filter: regularExpression('filter', values.filter),
    json: values.json,
    concurrency: positiveInteger('concurrency', values.concurrency),
    adapter: values.adapter ?? (values.accelerated ? '' : undefined),
    contextOptions: /** @type {import('../../index.js').MLContextOptions} */ ({
      ...(values.accelerated || values.adapter !== undefined ? { powerPreference: 'high-performance' } : { accelerated: false }),
      ...(values['num-threads'] !== undefined && { numThreads: positiveInteger('num-threads', values['num-threads']) }),
    }),
  };
}

/**
 * Reads one vector file.
 *
 * @param {number | undefined} promised number of cases according to index.json
 * @throws {Error} when it is no array of cases or has another number of them
 */
function readCases(path, promised) {
  const cases = JSON.parse(readFileSync(path, 'utf8'));
  if (!Array.isArray(cases)) {
    throw new Error('not an array of cases');
  }
  if (promised !== undefined && cases.length !== promised) {
    throw new Error(`${cases.length} cases, index.json promises ${promised}`);
  }
  return cases;
}

/**
 * All vector files of a folder: those that are there and those that index.json promises.
 *
 * @returns {{ file: string, cases?: any[], error?: string }[]} sorted; `error` where a file cannot be used
 */
function readVectors(directory) {
  const unreadable = (file, error) => ({ file, error: error.message });
  const indexPath = join(directory, 'index.json');
  let promised = {};
  const vectors = [];
  if (existsSync(indexPath)) {
    try {
      promised = JSON.parse(readFileSync(indexPath, 'utf8')).files ?? {};
    } catch (error) {
      vectors.push(unreadable('index.json', error));
    }
  }
  const present = readdirSync(directory).filter((file) => file.endsWith('.json') && file !== 'index.json');
  for (const file of [...new Set([...present, ...Object.keys(promised)])].sort()) {
    try {
      vectors.push({ file, cases: readCases(join(directory, file), promised[file]?.cases) });
    } catch (error) {
      vectors.push(unreadable(file, error));
    }
  }
  return vectors;
}

/** Runs a case; a failure is a result: `{ name, outputs }` or `{ name, error }`. */
async function attempt(api, testCase) {
  const name = testCase?.name ?? '(a case without a name)';
  try {
    return { name, outputs: await runCase(api, testCase) };
  } catch (error) {
    return { name, error: `${/** @type {Error} */ (error)?.name}: ${/** @type {Error} */ (error)?.message}` };
  }
}

function isFailure({ error, outputs }) {
  return error !== undefined || outputs.length > 0;
}

/** `-0` and bigints as they would be written in JavaScript. */
function written(value) {
  return Object.is(value, -0) ? '-0' : String(value);
}

/** The lines that describe a failed case. */
function describeFailure({ name, error, outputs }) {
  if (error !== undefined) {
    return [`  FAILED ${name}`, `    ${error}`];
  }
  const lines = [`  FAILED ${name}`];
  for (const { output, elements, mismatches } of outputs) {
    for (const { index, got, expected, distance } of mismatches.slice(0, PRINTED_ELEMENTS)) {
      lines.push(`    ${output}[${index}]: got ${written(got)}, expected ${written(expected)}, distance ${written(distance)}`);
    }
    lines.push(`    ${output}: ${mismatches.length} of ${elements} elements differ`);
  }
  return lines;
}

/** Runs the chosen cases of one file and prints its line and its failures. */
async function runFile(api, { file, chosen }, concurrency) {
  const results = await mapConcurrently(chosen, concurrency, (testCase) => attempt(api, testCase));
  const failures = results.filter(isFailure);
  const passed = results.length - failures.length;
  console.log(`${file.padEnd(36)} ${String(passed).padStart(4)} passed ${String(failures.length).padStart(4)} failed`);
  failures.flatMap(describeFailure).forEach((line) => console.log(line));
  return { file, passed, failed: failures.length, failures };
}

/** Writes the results for another program to read; bigints and non-finite numbers as strings. */
function writeResults(path, totals, files) {
  const plain = (_, value) =>
    typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value)) || Object.is(value, -0) ? written(value) : value;
  writeFileSync(path, `${JSON.stringify({ ...totals, files }, plain, 1)}\n`);
}

/** Runs everything that the command line asks for. @returns {Promise<number>} the exit status */
async function main(args) {
  const options = readArguments(args);
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const vectors = readVectors(options.directory).map((vector) => ({
    ...vector,
    chosen: (vector.cases ?? []).filter((testCase) => options.filter?.test(`${vector.file}: ${testCase?.name}`)),
  }));
  const unreadable = vectors.filter(({ error }) => error !== undefined);
  unreadable.forEach(({ file, error }) => console.log(`${file}: cannot be read: ${error}`));

  const files = [];
  const runnable = vectors.filter(({ chosen }) => chosen.length > 0);
  if (runnable.length > 0) {
    const { ml, MLGraphBuilder } = await import('webnn-node');
    const { describeContext } = await import('webnn-node/inspect');
    const context = await ml.createContext(options.contextOptions);
    const { adapter, reason } = describeContext(context);
    if (options.adapter !== undefined && !adapter?.includes(options.adapter)) {
      console.log(`expected a GPU with "${options.adapter}" in its name, got ${adapter ?? `the CPU: ${reason}`}`);
      return 1;
    }
    console.log(`on ${adapter ?? 'the CPU'}`);
    for (const vector of runnable) {
      files.push(await runFile({ context, MLGraphBuilder }, vector, options.concurrency));
    }
    context.destroy();
  }

  const sum = (key) => files.reduce((total, file) => total + file[key], 0);
  const totals = { passed: sum('passed'), failed: sum('failed'), unreadable: unreadable.map(({ file, error }) => ({ file, error })) };
  if (options.json !== undefined) {
    writeResults(options.json, totals, files);
  }
  console.log(`\n${files.length} files, ${totals.passed + totals.failed} cases, ${unreadable.length} unreadable files`);
  if (files.length === 0) {
    console.log('no case ran');
  }
  console.log(`${totals.passed} passed, ${totals.failed} failed`);
  return totals.failed > 0 || unreadable.length > 0 || files.length === 0 ? 1 : 0;
}

await runMain(main, USAGE);
