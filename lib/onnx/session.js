'use strict';

/** Sessions of the native side: one call for each run. */

const { DATA_TYPES } = require('../descriptor.js');
const { quote } = require('../errors.js');
const { Graph, createMLGraph } = require('../graph.js');
const native = require('../native.js');
const { feedName, nativeBytes, requireMemory, requireSameType, requireType, toResult } = require('./data.js');
const { converting } = require('./errors.js');
const { attachedBytes } = require('./source.js');

const { Promise, WeakRef, setImmediate } = globalThis;

/** How many runs end in their calls before the event loop turns: each takes 0.25 ms at most, or the next one is not done at once. */
const RUNS_PER_TURN = 16;

/**
 * Small runs are done at once, which takes less time than to have another thread do them. Promises that are settled at once
 * keep the event loop from whatever else it has to do, so one in a while waits for it.
 */
class Turns {
  #runs = 0;
  /**
   * Settled when the event loop has turned, if it has to before anything more is done at once.
   *
   * @type {Promise<void> | undefined}
   */
  over;

  /** Counts a run that was done at once. */
  count() {
    this.#runs += 1;
    if (this.#runs === RUNS_PER_TURN) {
      this.over = new Promise((resolve) => {
        setImmediate(() => {
          this.#runs = 0;
          this.over = undefined;
          resolve();
        });
      });
    }
  }
}

/** Those of all sessions together. */
const turns = new Turns();

/**
 * Values by name as an object of descriptors.
 *
 * @param {import('../internal.js').NamedDescriptor[]} ports
 */
const descriptors = (ports) => Object.fromEntries(ports.map(({ name, dataType, shape }) => [name, { dataType, shape }]));

/** @typedef {{object: import('../../index.js').MLTensor, state: import('../internal.js').TensorState} | 'tensor'} Target an MLTensor for an output and its state, or that it goes into a new one */

/** @typedef {Record<string, import('../../onnx.js').OnnxResult | import('../../index.js').MLTensor>} Results of a run, by the names of the outputs */

/**
 * The shapes of feeds as the native side takes them: for each the place of a result among those that are held together, the number
 * of dimensions, and their sizes; -1 for a shape that is not given.
 *
 * @param {import('./data.js').Feed[]} feeds
 */
function shapesOf(feeds) {
  /** @type {number[]} */
  const numbers = [];
  for (const { place = 0, shape } of feeds) {
    numbers.push(place, shape === undefined ? -1 : shape.length);
    for (const size of shape ?? []) {
      numbers.push(size);
    }
  }
  return Float64Array.from(numbers);
}

/** State of an OnnxModel: destroyed with it, or with its context. */
class Session {
  #context;
  #handle;
  /** Places of the inputs and outputs by their names. */
  #inputs;
  #outputs;
  /** What messages call the feeds, made once. */
  #feedNames;
  /**
   * Weak references to the graphs that `compile` gave, by the numbers of their specializations.
   *
   * @type {Map<number, WeakRef<import('../../index.js').MLGraph>>}
   */
  #graphs = new Map();
  isDestroyed = false;
  /** Runs and compilations that the native side has begun and that have not ended: they need the context, also after `destroy()`. */
  pending = 0;
  /** Called when the last of them has ended, before its promise is settled. */
  idle = () => {};

  /**
   * @param {import('../internal.js').ContextState} context state of the MLContext
   * @param {import('../internal.js').Handle<'session'>} handle native session
   * @param {import('../internal.js').Signature} signature
   */
  constructor(context, handle, { inputs, outputs }) {
    this.#context = context;
    this.#handle = handle;
    this.inputs = inputs;
    this.outputs = outputs;
    this.#inputs = new Map(inputs.map(({ name }, place) => [name, place]));
    this.#outputs = new Map(outputs.map(({ name }, place) => [name, place]));
    this.#feedNames = new Map(inputs.map(({ name }) => [name, feedName(name)]));
  }

  /**
   * What messages call the feed of that name, which may be of no input.
   *
   * @param {string} name
   */
  feedName(name) {
    return this.#feedNames.get(name) ?? feedName(name);
  }

  /**
   * @param {Map<string, import('./data.js').Feed>} feeds
   * @param {Map<string, Target | null>} fetches null for an output that is not read
   * @returns {Promise<Results> | Results} results by the names of the outputs
   */
  run(feeds, fetches) {
    const { values, shapes, targets } = this.#given(feeds, fetches);
    const id = native.completions.nextId();
    // Promises of a session are settled in the order of its runs.
    const mayRunHere = turns.over === undefined && this.pending === 0;
    const made = this.#runNative(id, values, shapes, targets, mayRunHere);
    const results = made === null ? this.#outcome(id, (/** @type {import('../internal.js').Made} */ made) => this.#resultsOf(made, fetches)) : this.#resultsOf(made, fetches);
    return turns.over === undefined ? results : Promise.all([results, turns.over]).then(([results]) => results);
  }

  /**
   * As `run`, with what the graphs of the run take.
   *
   * @param {Map<string, import('./data.js').Feed>} feeds
   * @param {Map<string, Target | null>} fetches null for an output that is not read
   * @returns {Promise<import('../../onnx.js').OnnxProfile>}
   */
  profile(feeds, fetches) {
    const { values, shapes, targets } = this.#given(feeds, fetches);
    const id = native.completions.nextId();
    native.profileSession(this.#handle, id, values, shapes, targets);
    return this.#outcome(id, (/** @type {[...import('../internal.js').Made, string]} */ made) => {
      const graphs = JSON.parse(/** @type {string} */ (made.pop()));
      return { results: this.#resultsOf(/** @type {import('../internal.js').Made} */ (made), fetches), graphs };
    });
  }

  /**
   * Feeds and fetches as the native side takes them.
   *
   * @param {Map<string, import('./data.js').Feed>} feeds
   * @param {Map<string, Target | null>} fetches
   */
  #given(feeds, fetches) {
    /** @type {import('../internal.js').NativeFeeds} */
    const values = new Array(this.#inputs.size).fill(undefined);
    /** @type {import('./data.js').Feed[]} */
    const placed = new Array(this.#inputs.size);
    const targets = fetches.size === 0 ? undefined : new Array(this.#outputs.size).fill(undefined);
    let matched = 0;
    for (const [name, feed] of feeds) {
      const place = this.#inputs.get(name);
      if (place !== undefined) {
        matched++;
        values[place] = this.#feedOf(this.inputs[place], feed);
        placed[place] = feed;
      }
    }
    for (const [name, target] of fetches) {
      const place = this.#outputs.get(name);
      if (place !== undefined && targets !== undefined) {
        targets[place] = this.#targetOf(name, target);
      }
    }
    if (matched !== this.#inputs.size || matched !== feeds.size || targets !== undefined) {
      native.checkNames(this.#handle, [...feeds.keys()], [...fetches.keys()]);
    }
    return { values, shapes: shapesOf(placed), targets };
  }

  /**
   * What the native side has made at once, or null if it is told later.
   *
   * @param {number} id
   * @param {import('../internal.js').NativeFeeds} values
   * @param {Float64Array} shapes
   * @param {import('../internal.js').NativeTarget[] | undefined} targets
   * @param {boolean} mayRunHere
   */
  #runNative(id, values, shapes, targets, mayRunHere) {
    let made;
    try {
      made = native.runSession(this.#handle, id, values, shapes, targets, mayRunHere);
    } finally {
      // One that fails was perhaps done as well.
      if (made !== null && mayRunHere) {
        turns.count();
      }
    }
    return made;
  }

  /**
   * What becomes of a request that the native side has begun.
   *
   * @template T
   * @param {number} id
   * @param {(made: any) => T} finish called with what was made; what it returns or throws settles the promise
   * @returns {Promise<T>}
   */
  #outcome(id, finish) {
    this.pending += 1;
    return native.completions.outcome(id, (error, made) => {
      this.pending -= 1;
      if (this.pending === 0) {
        this.idle();
      }
      if (error !== undefined) {
        throw error;
      }
      return finish(made);
    });
  }

  /**
   * What the native side takes for a fetch.
   *
   * @param {string} name
   * @param {Target | null} target
   */
  #targetOf(name, target) {
    if (target === null) {
      return null;
    }
    return target === 'tensor' || this.#handleOf(`run: fetch ${quote(name)}`, target.state);
  }

  /**
   * What the native side takes for a feed: a tensor, results that it holds, or a view of bytes.
   *
   * @param {import('../../onnx.js').OnnxValueInfo} input
   * @param {import('./data.js').Feed} feed
   */
  #feedOf({ name, dataType }, feed) {
    const what = this.feedName(name);
    if (feed.tensor !== undefined) {
      return this.#handleOf(what, feed.tensor);
    }
    return converting(() => {
      if (feed.held !== undefined) {
        requireSameType(feed.dataType, dataType, what);
        return feed.held;
      }
      requireType(feed, dataType, what);
      return nativeBytes(attachedBytes(feed.data, feed.kind, what), dataType, what);
    });
  }

  /**
   * @param {string} what messages call the tensor
   * @param {import('../internal.js').TensorState} tensor
   */
  #handleOf(what, tensor) {
    converting(() => this.#context.requireBindable(what, tensor));
    return tensor.handle;
  }

  /**
   * @param {import('../internal.js').Made} made
   * @param {Map<string, Target | null>} fetches
   */
  #resultsOf(made, fetches) {
    const caches = /** @type {import('../internal.js').Handle<'values'> | undefined} */ (made[this.outputs.length]);
    const numbers = new Uint32Array(requireMemory(/** @type {ArrayBuffer | null} */ (made[this.outputs.length + 1]), this.outputs[0].name));
    let next = 0;
    /** @type {[string, Results[string]][]} */
    const results = [];
    this.outputs.forEach((output, place) => {
      const { name } = output;
      const target = fetches.get(name);
      if (made[place] === undefined) {
        if (target !== undefined && target !== null && target !== 'tensor') {
          results.push([name, target.object]);
        }
        return;
      }
      const [type, rank] = [DATA_TYPES[numbers[next]], numbers[next + 1]];
      next += 2;
      /** @type {number[]} */
      const shape = [];
      for (const end = next + rank; next < end; next++) {
        shape.push(numbers[next]);
      }
      if (target === 'tensor') {
        const handle = /** @type {import('../internal.js').Handle<'tensor'>} */ (made[place]);
        results.push([name, this.#context.adoptTensor(handle, { dataType: type, shape, readable: true, writable: true })]);
      } else {
        results.push([name, toResult(/** @type {import('../internal.js').MadeValue} */ (made[place]), caches, type, shape, output)]);
      }
    });
    return Object.fromEntries(results);
  }

  /**
   * @param {[string, number[]][]} shapes of inputs by name
   * @returns {Promise<import('../../onnx.js').OnnxSpecialization>}
   */
  compile(shapes) {
    const id = native.completions.nextId();
    native.compileSession(this.#handle, id, shapes.map(([name]) => name), shapes.map(([, shape]) => shape));
    return this.#outcome(id, (/** @type {[import('../internal.js').Handle<'graph'> | null, string]} */ [handle, json]) =>
      this.#compiledOf(handle, JSON.parse(json)),
    );
  }

  /**
   * @param {[string, number[]][]} shapes of inputs by name
   * @returns {Promise<import('../../onnx.js').OnnxDescription>}
   */
  describe(shapes) {
    const id = native.completions.nextId();
    native.describeSession(this.#handle, id, shapes.map(([name]) => name), shapes.map(([, shape]) => shape));
    return this.#outcome(id, (/** @type {[string]} */ [json]) => JSON.parse(json));
  }

  /**
   * @param {import('../internal.js').Handle<'graph'> | null} handle
   * @param {import('../internal.js').Compilation} compilation
   */
  #compiledOf(handle, { id, inputs, outputs, reads, writes }) {
    const graph = handle === null ? null : this.#graphOf(id, handle, reads, writes);
    return Object.freeze({ graph, inputs: descriptors(inputs), outputs: descriptors(outputs) });
  }

  /**
   * One MLGraph for each specialization, as long as somebody holds it.
   *
   * @param {number} id
   * @param {import('../internal.js').Handle<'graph'>} handle
   * @param {import('../internal.js').NamedDescriptor[]} reads
   * @param {import('../internal.js').NamedDescriptor[]} writes
   */
  #graphOf(id, handle, reads, writes) {
    const known = this.#graphs.get(id)?.deref();
    if (known !== undefined) {
      return known;
    }
    const graph = createMLGraph(new Graph(this.#context, handle, reads, writes));
    this.#graphs.forEach((reference, other) => reference.deref() ?? this.#graphs.delete(other));
    this.#graphs.set(id, new WeakRef(graph));
    return graph;
  }

  /** Frees everything when what was asked before is done. */
  destroy() {
    if (this.isDestroyed) {
      return;
    }
    this.isDestroyed = true;
    this.#graphs.forEach((reference) => reference.deref()?.destroy());
    this.#graphs.clear();
    native.destroySession(this.#handle);
  }
}

module.exports = { Session };
