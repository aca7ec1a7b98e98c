'use strict';

/**
 * The thread on which contexts of the draft of 2021 live. In that draft, building and computing are synchronous: the
 * calling thread waits (bridge.js) while today's asynchronous API does the work here. Requests are handled one by one.
 */

const { workerData } = require('node:worker_threads');

const { port, signal } = workerData;
const state = new Int32Array(signal);
const { BEAT, DONE, ENDED } = workerData.fields;

// Registered before the modules below are loaded: if loading them fails, the other thread must not wait for this one.
process.on('exit', () => {
  Atomics.store(state, ENDED, 1);
  Atomics.store(state, DONE, 1);
  Atomics.notify(state, DONE);
});

const { ml } = require('webnn-node');
const { Compiled } = require('./compiled.js');
const { Program } = require('./program.js');

/** Interval between signs of life for the waiting thread, in milliseconds. */
const BEAT_MS = 100;

/** Promises of contexts, programs and compiled graphs by the ids that the other thread gave them. */
const contexts = new Map();
const programs = new Map();
const graphs = new Map();

/** @type {Record<string, (request: any) => unknown>} */
const handlers = {
  createContext({ id, options }) {
    const promise = ml.createContext({ ...options, extensions: ['dynamic-shapes'] });
    promise.catch(() => {}); // the first user of the context gets the error
    contexts.set(id, promise);
  },

  async createBuilder({ id, context }) {
    programs.set(id, new Program(await contexts.get(context)));
  },

  input({ builder, dataType, shape }) {
    return programs.get(builder).input(dataType, shape);
  },

  constant({ builder, dataType, shape, buffer }) {
    return programs.get(builder).constant(dataType, shape, buffer);
  },

  scalar({ builder, dataType, value }) {
    return programs.get(builder).scalar(dataType, value);
  },

  operator({ builder, name, args, options }) {
    return programs.get(builder).operator(name, args, options);
  },

  async build({ id, context, builder, outputs }) {
    const graph = new Compiled(await contexts.get(context), programs.get(builder), outputs);
    await graph.prepare();
    graphs.set(id, graph);
    return graph.needs();
  },

  compute({ graph, shapes, bytes, outputs }) {
    return graphs.get(graph).compute(shapes, bytes, outputs);
  },

  async release({ kind, id }) {
    if (kind === 'context') {
      const context = contexts.get(id);
      contexts.delete(id);
      (await context).destroy();
    } else {
      const owners = kind === 'builder' ? programs : graphs;
      owners.get(id)?.release();
      owners.delete(id);
    }
  },
};

/**
 * Converts an error to plain data, from which the other thread recreates it, with the stack of the call.
 *
 * @param {Error} error
 */
function plainError(error) {
  const { name, message } = error;
  if (error instanceof RangeError) {
    return { kind: 'DOMException', name: 'UnknownError', message }; // no memory for a buffer
  }
  return {
    kind: error instanceof DOMException ? 'DOMException' : error instanceof TypeError ? 'TypeError' : 'Error',
    name,
    message,
  };
}

/** @param {{ type: string, request: unknown }} message */
async function answer({ type, request }) {
  try {
    return { value: await handlers[type](request) };
  } catch (error) {
    return { error: plainError(/** @type {Error} */ (error)) };
  }
}

/** @param {{ type: string, request: unknown, awaited: boolean }} message */
async function handle(message) {
  const beat = setInterval(() => Atomics.add(state, BEAT, 1), BEAT_MS);
  const reply = await answer(message);
  clearInterval(beat);
  if (message.awaited) {
    port.postMessage(reply);
    Atomics.store(state, DONE, 1);
    Atomics.notify(state, DONE);
  }
}

let last = Promise.resolve();
port.on('message', (/** @type {{ type: string, request: unknown, awaited: boolean }} */ message) => {
  last = last.then(() => handle(message));
});
