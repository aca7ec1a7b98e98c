// Lets each of the first calls of a Vulkan driver fail, in a process of its own. See USAGE.

import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root, run } from '../../scripts/process.mjs';
import { runNode } from '../lib/processes.mjs';
import { mapConcurrently, positiveInteger, readCommandLine, runMain, UsageError } from '../lib/runners.mjs';

const USAGE = `usage: node __test__/gpu-faults/run.mjs [options]

Builds a Vulkan layer, and runs a small program once for each fault of each of the driver's first calls that may fail: the
device is lost, memory is exhausted, or the call never returns. Each process must get an error within ${10} seconds that
names the cause (or right results, or the CPU with the reason), go on with a context on the CPU, and end by itself. Before that,
processes end while the driver is slow, in the loading of drivers and in the opening of a device.

  --calls N          the number of calls (default: 200)
  --every N          only each Nth of them (default: 1)
  --fault NAME       only lost, memory or never
  --first            without the verdict on the driver that earlier processes have left: the check of it runs, too
  --concurrency N    processes at the same time (default: 2)

Exit status: 0 all were as they must be; 1 one was not; 2 wrong usage.`;

const LAYER = '__test__/gpu-faults/layer';

/** The faults, and what their errors say. */
const FAULTS = /** @type {const} */ ({ lost: /lost/i, memory: /memory/i, never: /has not answered/ });

/** What errors say where wgpu hides the driver's answer: it panics, or only writes a log. */
const HIDDEN = /the GPU failed \(\w|no adapter of Vulkan|Parent device is lost/;

/** How long an error may take, in milliseconds. */
const ERROR_MS = 10_000;

/** Seconds that a driver may take. */
const PATIENCE = '1';

/** Builds the layer; its environment without a fault, in `folder`. */
async function prepare(folder) {
  const target = join(root, 'target/gpu-faults');
  await run('build of the layer', 'cargo', ['build', '--release', '--locked', '--manifest-path', `${LAYER}/Cargo.toml`, '--target-dir', target]);
  const manifest = {
    file_format_version: '1.2.0',
    layer: {
      name: 'VK_LAYER_WEBNN_faults',
      type: 'GLOBAL',
      library_path: join(target, 'release/libgpu_faults.so'),
      api_version: '1.3.0',
      implementation_version: '1',
      description: 'Lets one call of the driver fail',
    },
  };
  writeFileSync(join(folder, 'faults.json'), JSON.stringify(manifest));
  return { VK_LAYER_PATH: folder, VK_INSTANCE_LAYERS: manifest.layer.name, WEBNN_GPU_SOFTWARE: '1', WEBNN_GPU_PATIENCE: PATIENCE };
}

/** Calls in which a process ends, and after how many milliseconds it does. */
const SLOW = /** @type {const} */ ([
  ['vkCreateInstance', 600],
  ['vkCreateDevice', 1000],
]);

/**
 * Ends processes while a call of the driver takes its time.
 *
 * @param {Record<string, string>} env
 * @param {string[]} names of the calls, in order
 * @returns {Promise<number>} how many failed
 */
async function endInSlowCalls(env, names) {
  let failures = 0;
  for (const [name, ms] of SLOW) {
    const slow = { GPU_FAULTS: 'slow', GPU_FAULTS_AT: String(1 + names.indexOf(name)), WEBNN_GPU_PATIENCE: '10' };
    const { code, signal, stderr } = await runNode(['__test__/gpu-faults/leaving.mjs', String(ms)], { cwd: root, env: { ...env, ...slow } });
    const isRight = code === 0 && stderr === '';
    failures += Number(!isRight);
    console.log(`the process ends during ${name}: ${isRight ? 'as it must' : `exit code ${code}, signal ${signal}, ${stderr}`}`);
  }
  return failures;
}

/** Runs the program with `env`; its ending, what it printed, and how long it took. */
async function attempt(env) {
  const start = Date.now();
  const ending = await runNode(['__test__/gpu-faults/child.mjs'], { cwd: root, env });
  const line = ending.stdout.trim().split('\n').at(-1);
  let result = /** @type {any} */ (null);
  try {
    result = line ? JSON.parse(line) : null;
  } catch {
    // Told below: it printed something else.
  }
  return { ...ending, result, took: ending.ended - start };
}

/** What is wrong with how a process went; null if nothing is. */
function problemOf({ code, signal, stderr, result, took }, names) {
  if (result === null) return `no result after ${took} ms: exit code ${code}, signal ${signal}, ${stderr.trim() || 'nothing on standard error'}`;
  const { error, reason, ms, endMs, onCpu, longestMs } = result;
  if (code !== 0) return `exit code ${code}, signal ${signal} after its result, ${stderr.trim()}`;
  if (ms > ERROR_MS) return `${error ?? reason ?? 'a result'} after ${(ms / 1000).toFixed(1)} s`;
  if (took - endMs > ERROR_MS) return `the process took ${((took - endMs) / 1000).toFixed(1)} s beside it`;
  const said = error ?? reason;
  if (said !== null && !names.test(said) && !HIDDEN.test(said)) return `does not name the cause: ${said}`;
  if (onCpu === 0 || longestMs > ERROR_MS) return `the context on the CPU computed ${onCpu} times, once for ${longestMs.toFixed(0)} ms`;
  return null;
}

async function main() {
  const { values } = readCommandLine({
    args: process.argv.slice(2),
    options: {
      calls: { type: 'string', default: '200' },
      every: { type: 'string', default: '1' },
      fault: { type: 'string' },
      first: { type: 'boolean', default: false },
      concurrency: { type: 'string', default: '2' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  if (values.fault !== undefined && !(values.fault in FAULTS)) throw new UsageError(`--fault is ${values.fault}, expected lost, memory or never`);
  const [calls, every, concurrency] = /** @type {const} */ (['calls', 'every', 'concurrency']).map((name) => positiveInteger(`--${name}`, values[name]));
  const folder = mkdtempSync(join(tmpdir(), 'webnn-gpu-faults-'));
  try {
    const env = await prepare(folder);
    const warm = join(folder, 'warm');
    mkdirSync(warm);
    // Fills the folder with what a first process leaves there; the second shows the calls.
    for (const log of ['first.log', 'calls.log']) {
      const ending = await attempt({ ...env, WEBNN_GPU_PATIENCE: undefined, WEBNN_CACHE_DIR: warm, GPU_FAULTS_LOG: join(folder, log) });
      const { result } = ending;
      if (result === null || result.error !== null || result.reason !== null) {
        console.log(`without a fault: ${JSON.stringify(result)} ${ending.stderr}`);
        return 1;
      }
    }
    const names = readFileSync(join(folder, values.first ? 'first.log' : 'calls.log'), 'utf8')
      .trim()
      .split('\n');
    const count = Math.min(calls, names.length);
    console.log(`${names.length} calls that may fail, of which ${count} are tried`);
    const cases = Object.entries(FAULTS)
      .filter(([fault]) => values.fault === undefined || fault === values.fault)
      .flatMap(([fault, said]) => Array.from({ length: Math.ceil(count / every) }, (_, i) => ({ fault, said, at: 1 + i * every })));
    const tally = /** @type {Record<string, number>} */ ({});
    let failures = await endInSlowCalls({ ...env, WEBNN_CACHE_DIR: warm }, names);
    await mapConcurrently(cases, concurrency, async ({ fault, said, at }) => {
      const own = mkdtempSync(join(folder, 'case-'));
      const [cache, log] = [join(own, 'cache'), join(own, 'log')];
      if (!values.first) cpSync(warm, cache, { recursive: true });
      const ending = await attempt({ ...env, WEBNN_CACHE_DIR: cache, GPU_FAULTS: fault, GPU_FAULTS_AT: String(at), GPU_FAULTS_LOG: log });
      const name = existsSync(log) ? readFileSync(log, 'utf8').trim() : 'no call';
      const problem = problemOf(ending, said);
      const { error = null, reason = null } = ending.result ?? {};
      const outcome = error !== null ? 'an error' : reason !== null ? 'the CPU instead' : 'right results';
      const key = `${fault}: ${name}: ${problem === null ? outcome : 'WRONG'}`;
      tally[key] = (tally[key] ?? 0) + 1;
      if (problem !== null) {
        failures++;
        console.log(`${fault} at call ${at} (${name}): ${problem}`);
      }
      rmSync(own, { recursive: true });
    });
    for (const key of Object.keys(tally).sort()) console.log(`${String(tally[key]).padStart(4)}  ${key}`);
    const all = cases.length + SLOW.length;
    console.log(`${all - failures} of ${all} are as they must be`);
    return failures === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

await runMain(main, USAGE);
