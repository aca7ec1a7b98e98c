// One measurement of run.mjs, in its own process. Prints JSON.
//
//   node measure.mjs '{"model", "inputs", "threads", "contexts", "atOnce", "neighbors", "seconds"}'  -> { ms }: of a run, on average
//   node measure.mjs '{"pauseMs", "seconds"}'  -> { ms }: from dispatch() to the result of a graph that adds one number, the median

import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { median } from 'd3-array';
import { ml, MLGraphBuilder } from 'webnn-node';
import { ENGINES } from '../../packages/cli/lib/bench/engines.mjs';
import { readNpy } from '../../packages/cli/lib/npy.mjs';

/** Runs before the clock starts: memory is mapped and threads are started during these. */
const WARM_UP = 5;

/** Time for the system to place a neighbor on a core, in milliseconds. */
const SETTLE_MS = 200;

const until = (/** @type {number} */ seconds) => {
  const end = performance.now() + seconds * 1000;
  return () => performance.now() < end;
};

/** @param {import('./run.mjs').ModelParameters} parameters */
async function runsOfModel({ model, inputs: files, threads, contexts, atOnce, neighbors, seconds }) {
  /** @type {import('../../packages/cli/lib/types.mjs').Tensors} */
  const inputs = {};
  for (const [name, file] of Object.entries(files)) inputs[name] = await readNpy(file);
  /** @type {{ load: (parameters: import('../../packages/cli/lib/bench/types.mjs').LoadParameters) => Promise<import('../../packages/cli/lib/bench/types.mjs').LoadedEngine> }} */
  const { load } = await import(ENGINES['webnn-node'].href);
  /** @type {import('../../packages/cli/lib/bench/types.mjs').LoadedEngine[]} */
  const engines = [];
  for (let i = 0; i < contexts; i++) engines.push(await load({ model, inputs, threads }));
  for (const engine of engines) for (let i = 0; i < WARM_UP; i++) await engine.run();

  const busy = Array.from({ length: neighbors }, () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
  if (neighbors > 0) await sleep(SETTLE_MS);
  let runs = 0;
  const repeat = async (/** @type {typeof engines} */ some, /** @type {number} */ time) => {
    const goesOn = until(time);
    do {
      for (const engine of some) await engine.run();
      runs += some.length;
    } while (goesOn());
  };
  const start = performance.now();
  await (atOnce ? Promise.all(engines.map((engine) => repeat([engine], seconds))) : repeat(engines, seconds));
  const ms = (performance.now() - start) / runs;
  busy.forEach((child) => child.kill('SIGKILL'));
  return { ms };
}

/** @param {import('./run.mjs').RequestParameters} parameters */
async function requests({ pauseMs, seconds }) {
  const context = await ml.createContext({ accelerated: false });
  const builder = new MLGraphBuilder(context);
  /** @type {import('webnn-node').MLOperandDescriptor} */
  const descriptor = { dataType: 'float32', shape: [1] };
  const x = builder.input('x', descriptor);
  const graph = await builder.build({ y: builder.add(x, x) });
  const [from, to] = await Promise.all([{ writable: true }, { readable: true }].map((usage) => context.createTensor({ ...descriptor, ...usage })));
  context.writeTensor(from, new Float32Array([1]));
  const times = [];
  const goesOn = until(seconds);
  do {
    if (pauseMs > 0) await sleep(pauseMs);
    const start = performance.now();
    context.dispatch(graph, { x: from }, { y: to });
    await context.readTensor(to);
    times.push(performance.now() - start);
  } while (goesOn());
  return { ms: median(times) };
}

const parameters = JSON.parse(process.argv[2]);
console.log(JSON.stringify(await ('model' in parameters ? runsOfModel(parameters) : requests(parameters))));
process.exit();
