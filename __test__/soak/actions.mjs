/**
 * What a long run does at random with contexts, tensors and graphs. Each action has random numbers of its own, so that
 * the same seed starts the same actions whatever the order is in which they end.
 */

import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { profileGraph } from '../../inspect.js';
import { MLGraphBuilder, ml } from '../runtime/helpers.mjs';
import { generator } from '../lib/random.mjs';
import { compose, contents, difference } from './graphs.mjs';
import { collectGarbage } from './growth.mjs';

/** @typedef {import('../../index.js').MLContext} MLContext */
/** @typedef {import('../../index.js').MLNamedTensors} MLNamedTensors */
/** @typedef {import('../robustness/types.mjs').Random} Random */
/** @typedef {{ context: MLContext, kept: Setup[] }} Owner of graphs: a context that nothing has ended */

const require = createRequire(import.meta.url);
const { slots: contextSlots } = /** @type {typeof import('../../lib/context.js')} */ (require('../../lib/context.js'));

/** Contexts that are open at a time, at most. */
const MAX_CONTEXTS = 3;

/** Graphs that a context keeps for later, at most. */
const MAX_KEPT = 4;

/** Writes without a read. */
const WRITES = 50;

/** How long the loss of a device, or the end of a worker, may take, in milliseconds. */
const PATIENCE = 60_000;

/**
 * What `promise` gives.
 *
 * @template T
 * @param {Promise<T>} promise
 * @param {string} what
 * @returns {Promise<T>}
 * @throws {Error} if that takes too long
 */
function inTime(promise, what) {
  /** @type {NodeJS.Timeout} */
  let timer;
  /** @type {Promise<never>} */
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} takes more than ${PATIENCE / 1000} s`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/**
 * An order of `items` at random.
 *
 * @template T
 * @param {Random} random
 * @param {readonly T[]} items
 */
function shuffled(random, items) {
  const order = [...items];
  for (let i = order.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

/** A graph on a context, with its tensors. */
class Setup {
  /**
   * @param {MLContext} context
   * @param {number} number of the graph
   * @param {import('../../index.js').MLGraph} graph
   * @param {ReturnType<typeof compose>} composed what it was built from
   * @param {MLNamedTensors} inputs
   * @param {MLNamedTensors} outputs
   */
  constructor(context, number, graph, { inputs: descriptors, steps }, inputs, outputs) {
    this.context = context;
    this.number = number;
    this.graph = graph;
    this.descriptors = descriptors;
    this.steps = steps;
    this.inputs = inputs;
    this.outputs = outputs;
  }

  /**
   * @param {MLContext} context
   * @param {number} number
   * @param {string} device that the graph must be computed on
   */
  static async create(context, number, device) {
    const builder = new MLGraphBuilder(context);
    const composed = compose(builder, generator(number));
    const graph = await builder.build(composed.outputs);
    // A context that was lost meanwhile has freed it, and says so.
    if (graph.devices.length === 0) await inTime(context.lost, 'the loss of a context whose graph is gone').then(requireReason);
    else if (`${graph.devices}` !== device) {
      throw new Error(`graph ${number} is computed on ${graph.devices}, expected ${device}`);
    }
    const inputs = await tensors(context, composed.inputs, { writable: true });
    const outputs = await tensors(context, composed.outputs, { readable: true });
    return new Setup(context, number, graph, composed, inputs, outputs);
  }

  /** Tensors and graph. */
  get things() {
    return [...Object.values(this.inputs), ...Object.values(this.outputs), this.graph];
  }

  /**
   * Writes the inputs that `seed` stands for.
   *
   * @param {number} seed
   */
  write(seed) {
    const random = generator(seed);
    for (const [name, tensor] of Object.entries(this.inputs)) {
      this.context.writeTensor(tensor, contents(random, this.descriptors[name]));
    }
  }

  dispatch() {
    this.context.dispatch(this.graph, this.inputs, this.outputs);
  }

  /** Promises of all outputs. */
  reads() {
    return Object.values(this.outputs).map((tensor) => this.context.readTensor(tensor));
  }
}

/**
 * @param {MLContext} context
 * @param {Record<string, import('../../lib/internal.js').Described & { shape: readonly number[] }>} descriptors
 * @param {{ readable: true } | { writable: true }} use
 * @returns {Promise<MLNamedTensors>}
 */
async function tensors(context, descriptors, use) {
  const names = Object.keys(descriptors);
  const created = names.map((name) => {
    const { dataType, shape } = descriptors[name];
    return context.createTensor({ dataType, shape: [...shape], ...use });
  });
  const made = await Promise.all(created);
  return Object.fromEntries(names.map((name, i) => [name, made[i]]));
}

/** The program of a worker. */
/**
 * The options of contexts on a device.
 *
 * @param {string} device
 * @returns {import('../../index.js').MLContextOptions}
 */
const preferenceFor = (device) => (device === 'gpu' ? { powerPreference: 'high-performance' } : { accelerated: false });

const WORKER = `
  const { parentPort, workerData } = require('node:worker_threads');
  import(workerData.module).then(async ({ computeInWorker }) => computeInWorker(parentPort, workerData));`;

/**
 * Computes in a worker, and goes on until it is terminated if it is to be.
 *
 * @param {import('node:worker_threads').MessagePort} port is told the outputs
 * @param {{ number: number, seed: number, device: string, goesOn: boolean }} work
 */
export async function computeInWorker(port, { number, seed, device, goesOn }) {
  const context = await ml.createContext({ ...preferenceFor(device), numThreads: 1 });
  const setup = await Setup.create(context, number, device);
  setup.write(seed);
  setup.dispatch();
  port.postMessage(await Promise.all(setup.reads()));
  while (goesOn) {
    setup.dispatch();
    await Promise.all(setup.reads());
  }
}

/** The contexts of a run and what is done with them. */
export class Churn {
  #device;
  #reference;
  #graphs;
  /** @type {Set<Owner>} */
  #open = new Set();
  /**
   * Contexts that were destroyed: what they are asked is refused.
   *
   * @type {WeakSet<MLContext>}
   */
  #destroyed = new WeakSet();
  /** Losses of the device that were asked for, and how many there were before a context. */
  #losses = 0;
  /** @type {WeakMap<MLContext, number>} */
  #lossesBefore = new WeakMap();

  /**
   * Number of times that each action was done.
   *
   * @type {Record<string, number>}
   */
  done = {};

  /** Results that were compared. */
  compared = 0;

  /** Promises that were rejected because their context or tensor ended, as they should be. */
  refused = 0;

  /**
   * @param {'cpu' | 'gpu'} device
   * @param {MLContext} reference on the CPU
   * @param {number} graphs that are different: drivers keep what they have compiled, which is no leak if it comes to
   *   an end
   */
  constructor(device, reference, graphs) {
    this.#device = device;
    this.#reference = reference;
    this.#graphs = graphs;
  }

  /**
   * Does `name` with the random numbers of `seed`.
   *
   * @param {string} name
   * @param {number} seed
   */
  async act(name, seed) {
    try {
      await ACTIONS[name].act(this, generator(seed));
    } catch (caught) {
      const error = /** @type {Error} */ (caught);
      throw new Error(`${name} with seed ${seed}: ${error?.name}: ${error?.message}`, { cause: error });
    }
    this.done[name] = (this.done[name] ?? 0) + 1;
  }

  /**
   * One of the open contexts, or a new one.
   *
   * @param {Random} random
   * @returns {Promise<Owner>}
   */
  async context(random) {
    if (this.#open.size > 0 && (this.#open.size >= MAX_CONTEXTS || random.chance(0.7))) {
      return random.pick([...this.#open]);
    }
    const losses = this.#losses;
    const options = { ...preferenceFor(this.#device), numThreads: 1 + random.below(2) };
    /** @type {Owner} */
    const owner = { context: await this.#create(options), kept: [] };
    this.#lossesBefore.set(owner.context, losses);
    if (losses === this.#losses) {
      this.#open.add(owner);
    }
    return owner;
  }

  /**
   * A new context; a second one where the device of the first was lost before it was there.
   *
   * @param {import('../../index.js').MLContextOptions} options
   * @returns {Promise<MLContext>}
   */
  async #create(options) {
    const losses = this.#losses;
    try {
      return await ml.createContext(options);
    } catch (caught) {
      const error = /** @type {Error} */ (caught);
      if (error?.name !== 'InvalidStateError' || losses === this.#losses) {
        throw error;
      }
      return this.#create(options);
    }
  }

  /**
   * The context is about to be destroyed.
   *
   * @param {Owner} owner
   */
  ends(owner) {
    this.#open.delete(owner);
    this.#destroyed.add(owner.context);
  }

  /** All contexts are about to be lost, also those that are just being made and those that were dropped. */
  allEnd() {
    this.#losses += 1;
    this.#open.clear();
  }

  /** @param {MLContext} context one of `context()` */
  #isEnded(context) {
    return this.#destroyed.has(context) || /** @type {number} */ (this.#lossesBefore.get(context)) < this.#losses;
  }

  /** Nobody has any of the open contexts any more. */
  drop() {
    this.#open.clear();
  }

  /**
   * @param {MLContext} context
   * @param {number} number
   */
  setup(context, number) {
    return Setup.create(context, number, this.#device);
  }

  /** @param {Random} random */
  numberOfGraph(random) {
    return 1 + random.below(this.#graphs);
  }

  /**
   * Does `work` on a context. That it is refused is right if the context was ended meanwhile.
   *
   * @param {MLContext} context
   * @param {() => Promise<unknown>} work
   */
  async tolerant(context, work) {
    try {
      await work();
    } catch (caught) {
      const error = /** @type {Error} */ (caught);
      const isRefusal = error?.name === 'InvalidStateError' || / is destroyed$/.test(error?.message);
      if (!isRefusal || !this.#isEnded(context)) {
        throw error;
      }
      this.refused += 1;
    }
  }

  /**
   * Waits for all reads and compares those that succeed.
   *
   * @param {Promise<ArrayBuffer>[]} reads
   * @param {number} number
   * @param {number} seed
   */
  async settle(reads, number, seed) {
    const settled = await inTime(Promise.allSettled(reads), 'a read');
    for (const read of settled) {
      if (read.status === 'rejected' && read.reason?.name !== 'InvalidStateError') {
        throw read.reason;
      }
    }
    this.refused += settled.filter(({ status }) => status === 'rejected').length;
    await this.compare(
      settled.map((read) => (read.status === 'fulfilled' ? read.value : undefined)),
      number,
      seed,
    );
  }

  /**
   * Compares outputs with those of the CPU; `undefined` stands for one that is not there.
   *
   * @param {(ArrayBuffer | undefined)[]} got
   * @param {number} number
   * @param {number} seed
   */
  async compare(got, number, seed) {
    const setup = await Setup.create(this.#reference, number, 'cpu');
    setup.write(seed);
    setup.dispatch();
    const expected = await Promise.all(setup.reads());
    Object.entries(setup.outputs).forEach(([name, { dataType }], i) => {
      const result = got[i];
      if (result === undefined) return;
      const wrong = difference(dataType, result, expected[i], setup.steps[name]);
      if (wrong !== undefined) {
        throw new Error(`graph ${number} with inputs ${seed}: ${name} (${dataType}): ${wrong}`);
      }
      this.compared += 1;
    });
    setup.things.forEach((thing) => thing.destroy());
  }

  /**
   * A worker that computes; gives its message and how to end it.
   *
   * @param {{ number: number, seed: number, goesOn: boolean }} work
   */
  worker(work) {
    const workerData = { module: import.meta.url, device: this.#device, ...work };
    const worker = new Worker(WORKER, { eval: true, workerData });
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    /** @type {Promise<ArrayBuffer[]>} */
    const message = new Promise((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
    return { worker, message: inTime(message, 'a worker'), ended: inTime(ended, 'the end of a worker') };
  }
}

const seedOf = (/** @type {Random} */ random) => 1 + random.below(2 ** 31);

/**
 * Gives away a graph and its tensors: to the context for later, to the collector, or in any order at once.
 *
 * @param {Random} random
 * @param {Owner} owner
 * @param {Setup} setup
 */
function giveAway(random, owner, setup) {
  if (owner.kept.length < MAX_KEPT && random.chance(0.3)) {
    owner.kept.push(setup);
  } else if (random.chance(0.7)) {
    shuffled(random, setup.things).forEach((thing) => thing.destroy());
  }
}

/** @type {Act} */
async function compute(churn, random) {
  const owner = await churn.context(random);
  await churn.tolerant(owner.context, async () => {
    const [number, seed] = [churn.numberOfGraph(random), seedOf(random)];
    const setup = await churn.setup(owner.context, number);
    setup.write(seed);
    for (let count = 1 + random.below(4); count > 0; count--) setup.dispatch();
    await churn.compare(await Promise.all(setup.reads()), number, seed);
    giveAway(random, owner, setup);
  });
}

/** @type {Act} */
async function again(churn, random) {
  const owner = await churn.context(random);
  const setup = owner.kept.splice(random.below(owner.kept.length), 1)[0];
  if (setup === undefined) return;
  await churn.tolerant(owner.context, async () => {
    const seed = seedOf(random);
    setup.write(seed);
    setup.dispatch();
    await churn.compare(await Promise.all(setup.reads()), setup.number, seed);
    giveAway(random, owner, setup);
  });
}

/** @type {Act} */
async function writeOnly(churn, random) {
  const { context } = await churn.context(random);
  await churn.tolerant(context, async () => {
    const shape = [1 + random.below(1 << 18)];
    const tensor = await context.createTensor({ dataType: 'uint8', shape, writable: true });
    const data = contents(random, { dataType: 'uint8', shape });
    for (let i = 0; i < WRITES; i++) context.writeTensor(tensor, data);
    if (random.chance(0.7)) tensor.destroy();
  });
}

/** @type {Act} */
async function dispatchOnly(churn, random) {
  const owner = await churn.context(random);
  await churn.tolerant(owner.context, async () => {
    const setup = await churn.setup(owner.context, churn.numberOfGraph(random));
    for (let count = random.below(30); count > 0; count--) setup.dispatch();
    giveAway(random, owner, setup);
  });
}

/** @type {Act} */
async function destroyWhilePending(churn, random) {
  const owner = await churn.context(random);
  await churn.tolerant(owner.context, async () => {
    const [number, seed] = [churn.numberOfGraph(random), seedOf(random)];
    const setup = await churn.setup(owner.context, number);
    setup.write(seed);
    setup.dispatch();
    const reads = setup.reads();
    shuffled(random, setup.things)
      .slice(random.below(setup.things.length))
      .forEach((thing) => thing.destroy());
    await churn.settle(reads, number, seed);
  });
}

/** @type {Act} */
async function profile(churn, random) {
  const owner = await churn.context(random);
  await churn.tolerant(owner.context, async () => {
    const [number, seed] = [churn.numberOfGraph(random), seedOf(random)];
    const setup = await churn.setup(owner.context, number);
    setup.write(seed);
    const { context, graph, inputs, outputs } = setup;
    await profileGraph(context, graph, inputs, outputs, { runs: 2, warmup: 0 });
    await churn.compare(await Promise.all(setup.reads()), number, seed);
    giveAway(random, owner, setup);
  });
}

/**
 * @param {import('../../index.js').MLContextLostInfo} info
 * @throws {Error} if a context was lost without a reason
 */
function requireReason({ message }) {
  if (typeof message !== 'string' || message === '') {
    throw new Error(`a context that was lost says ${JSON.stringify(message)}, expected why`);
  }
}

/**
 * Leaves a graph that is being built and reads behind in a context that ends as `end` says.
 *
 * @param {Churn} churn
 * @param {Random} random
 * @param {(owner: Owner) => void} end
 */
async function endWithPending(churn, random, end) {
  const owner = await churn.context(random);
  const { context } = owner;
  await churn.tolerant(context, async () => {
    const [number, seed] = [churn.numberOfGraph(random), seedOf(random)];
    const setup = await churn.setup(context, number);
    setup.write(seed);
    setup.dispatch();
    // All are waited for from the beginning: nobody knows which is refused first.
    const pending = [
      churn.settle(setup.reads(), number, seed),
      churn.tolerant(context, () => churn.setup(context, churn.numberOfGraph(random))),
      inTime(context.lost, 'the loss of a context').then(requireReason),
    ];
    end(owner);
    await Promise.all(pending);
  });
}

/** @type {Act} */
async function destroyContext(churn, random) {
  await endWithPending(churn, random, (owner) => {
    churn.ends(owner);
    owner.context.destroy();
  });
}

/**
 * All contexts on a GPU are lost with its device, which is there until they are collected: V8 does not know how heavy it
 * is, and would let many pile up.
 *
 * @type {Act}
 */
async function loseDevice(churn, random) {
  await endWithPending(churn, random, ({ context }) => {
    churn.allEnd();
    /** @type {import('../../lib/internal.js').ContextState} */ (contextSlots.get(context)).loseDevice();
  });
  collectGarbage();
}

/**
 * Contexts end when nobody holds them.
 *
 * @type {Act}
 */
async function dropContexts(churn) {
  churn.drop();
}

/** @type {Act} */
async function worker(churn, random) {
  const [number, seed, goesOn] = [churn.numberOfGraph(random), seedOf(random), random.chance(0.5)];
  const { worker: thread, message, ended } = churn.worker({ number, seed, goesOn });
  await churn.compare(await message, number, seed);
  if (goesOn) await thread.terminate();
  await ended;
}

/**
 * What can be done, how often, and whether it needs a GPU. One that is `alone` goes with no
 * other: workers would not know that a loss of their device was wanted.
 *
 * @typedef {(churn: Churn, random: Random) => Promise<void>} Act
 * @typedef {{ act: Act, weight: number, gpu?: true, alone?: true }} Action
 *
 * @type {Record<string, Action>}
 */
export const ACTIONS = {
  compute: { act: compute, weight: 30 },
  again: { act: again, weight: 15 },
  writeOnly: { act: writeOnly, weight: 10 },
  dispatchOnly: { act: dispatchOnly, weight: 10 },
  destroyWhilePending: { act: destroyWhilePending, weight: 15 },
  profile: { act: profile, weight: 5 },
  destroyContext: { act: destroyContext, weight: 5 },
  loseDevice: { act: loseDevice, weight: 2, gpu: true },
  dropContexts: { act: dropContexts, weight: 3 },
  worker: { act: worker, weight: 2, alone: true },
};
