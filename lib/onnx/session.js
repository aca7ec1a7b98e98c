'use strict';

/** Native sessions: one call per run. */

const { setImmediate } = require('node:timers');
const { DATA_TYPES } = require('../descriptor.js');
const { quote } = require('../errors.js');
const { Graph, createMLGraph } = require('../graph.js');
const native = require('../native.js');
const { feedName, nativeBytes, requireSameType, requireType, toResult } = require('./data.js');
const { converting } = require('./errors.js');
const { attachedBytes } = require('./source.js');

const { Promise, WeakRef } = globalThis;

/**
 * Maximum number of runs inside their calls before the event loop must turn. Each takes at most 0.25 ms; otherwise, the
 * next run is handed to another thread.
 */
const RUNS_PER_TURN = 16;

/**
 * Counts runs inside their calls. Small runs are done within the call, because handing them to another thread takes
 * longer. Promises that settle at once starve the event loop: every {@link RUNS_PER_TURN}th run waits for it.
 */
class Turns {
  #runs = 0;
  /**
   * Settles when the event loop has turned; undefined unless the next run has to wait for that.
   *
   * @type {Promise<void> | undefined}
   */
  over;

  /** Counts a run that was done within its call. */
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

/** Shared by all sessions. */
const turns = new Turns();

/**
 * Returns descriptors by name.
 *
 * @param {import('../internal.js').NamedDescriptor[]} ports
 */
const descriptors = (ports) => Object.fromEntries(ports.map(({ name, dataType, shape }) => [name, { dataType, shape }]));

/**
 * @typedef {{object: import('../../index.js').MLTensor, state: import('../internal.js').TensorState} | 'tensor'} Target
 *   of an output: an MLTensor and its state, or `'tensor'` for a new one
 */

/**
 * @typedef {Record<string, import('../../onnx.js').OnnxResult | import('../../index.js').MLTensor>} Results of a run,
 *   by output name
 */

/**
 * Returns the shapes of feeds in the form that the native side takes. For each feed: the index of a result in its
 * group, the number of dimensions, and the sizes; -1 dimensions if there is no shape.
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

/** Maximum number of forms of a session for sets of optional inputs that are fed; the least recently used one is dropped. */
const MAX_FORMS = 8;

/**
 * What a session shares with its forms.
 *
 * @typedef {object} Shared
 * @property {number} pending number of unfinished native runs and compilations: promises settle in the order of the runs
 * @property {() => void} idle called when the last of them has finished
 * @property {Map<number, WeakRef<import('../../index.js').MLGraph>>} graphs weak references to those that `compile` returned,
 *   by the numbers of their specializations. `destroy()` reaches them also when their form is dropped
 */

/** State of an OnnxModel. It is destroyed with the model or with its context. */
class Session {
  #context;
  #handle;
  /** Sessions in which optional inputs are fed, by the names of these. @type {Map<string, Session>} */
  #forms = new Map();
  /** Indices of the inputs and outputs by name. */
  #inputs;
  #outputs;
  /** Names of the feeds in messages, created once. */
  #feedNames;
  /** Names of the optional inputs. */
  #optional;
  isDestroyed = false;
  #warn;
  #shared;

  /**
   * @param {import('../internal.js').ContextState} context state of the MLContext
   * @param {import('../internal.js').Handle<'session'>} handle native session
   * @param {import('../internal.js').Signature} signature
   * @param {import('../internal.js').Warn} [warn]
   * @param {Shared} [shared] of the session that this one is a form of
   */
  constructor(context, handle, { inputs, optionalInputs, outputs }, warn, shared = { pending: 0, idle: () => {}, graphs: new Map() }) {
    this.#context = context;
    this.#handle = handle;
    this.#warn = warn;
    this.#shared = shared;
    this.inputs = inputs;
    this.optionalInputs = optionalInputs;
    this.outputs = outputs;
    this.#optional = new Set(optionalInputs.map(({ name }) => name));
    this.#inputs = new Map(inputs.map(({ name }, place) => [name, place]));
    this.#outputs = new Map(outputs.map(({ name }, place) => [name, place]));
    this.#feedNames = new Map(inputs.map(({ name }) => [name, feedName(name)]));
  }

  /** Number of unfinished native runs and compilations, which need the context, even after `destroy()`. */
  get pending() {
    return this.#shared.pending;
  }

  /** Called when the last of them has finished, before its promise settles. */
  set idle(/** @type {() => void} */ idle) {
    this.#shared.idle = idle;
  }

  /**
   * Returns the session for feeds of these names: itself, unless some are optional inputs.
   *
   * @param {Iterable<string>} names
   * @returns {Session}
   */
  #formFor(names) {
    if (this.#optional.size === 0) {
      return this;
    }
    const fed = [...names].filter((name) => this.#optional.has(name));
    if (fed.length === 0) {
      return this;
    }
    const key = JSON.stringify(fed.sort());
    const form = this.#forms.get(key) ?? this.#formWith(fed);
    this.#forms.delete(key);
    this.#forms.set(key, form);
    if (this.#forms.size > MAX_FORMS) {
      this.#forms.delete(/** @type {string} */ (this.#forms.keys().next().value));
    }
    return form;
  }

  /** @param {string[]} fed names of optional inputs */
  #formWith(fed) {
    const { handle, signature } = native.sessionWithInputs(this.#handle, fed);
    return new Session(this.#context, handle, JSON.parse(signature), this.#warn, this.#shared);
  }

  /**
   * Returns the name of a feed in messages, whether or not there is such an input.
   *
   * @param {string} name
   */
  feedName(name) {
    return this.#feedNames.get(name) ?? feedName(name);
  }

  /**
   * @param {Map<string, import('./data.js').Feed>} feeds
   * @param {Map<string, Target | null>} fetches null for an output that is dropped
   * @returns {Promise<Results> | Results} results by output name
   */
  run(feeds, fetches) {
    return this.#formFor(feeds.keys()).#runForm(feeds, fetches);
  }

  /**
   * @param {Map<string, import('./data.js').Feed>} feeds
   * @param {Map<string, Target | null>} fetches
   * @returns {Promise<Results> | Results}
   */
  #runForm(feeds, fetches) {
    const { values, shapes, targets } = this.#given(feeds, fetches);
    const id = native.completions.nextId();
    // Promises of a session settle in the order of its runs.
    const mayRunHere = turns.over === undefined && this.pending === 0;
    const made = this.#runNative(id, values, shapes, targets, mayRunHere);
    const results =
      made === null ? this.#outcome(id, (/** @type {import('../internal.js').Made} */ made) => this.#resultsOf(made, fetches)) : this.#resultsOf(made, fetches);
    return turns.over === undefined ? results : Promise.all([results, turns.over]).then(([results]) => results);
  }

  /**
   * Like `run`, with the times of the run's graphs.
   *
   * @param {Map<string, import('./data.js').Feed>} feeds
   * @param {Map<string, Target | null>} fetches null for an output that is dropped
   * @returns {Promise<import('../../onnx.js').OnnxProfile>}
   */
  profile(feeds, fetches) {
    return this.#formFor(feeds.keys()).#profileForm(feeds, fetches);
  }

  /**
   * @param {Map<string, import('./data.js').Feed>} feeds
   * @param {Map<string, Target | null>} fetches
   * @returns {Promise<import('../../onnx.js').OnnxProfile>}
   */
  #profileForm(feeds, fetches) {
    const { values, shapes, targets } = this.#given(feeds, fetches);
    const id = native.completions.nextId();
    native.profileSession(this.#handle, id, values, shapes, targets, this.#warn);
    return this.#outcome(id, (/** @type {[...import('../internal.js').Made, string]} */ made) => {
      const times = JSON.parse(/** @type {string} */ (made.pop()));
      return { results: this.#resultsOf(/** @type {import('../internal.js').Made} */ (made), fetches), ...times };
    });
  }

  /**
   * Returns feeds and fetches in the form that the native side takes.
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
   * Starts a native run. Returns its outputs if it was done within the call, otherwise null.
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
      made = native.runSession(this.#handle, id, values, shapes, targets, mayRunHere, this.#warn);
    } finally {
      // Failed runs count as well: they may have run within the call.
      if (made !== null && mayRunHere) {
        turns.count();
      }
    }
    return made;
  }

  /**
   * Returns the outcome of a native request.
   *
   * @template T
   * @param {number} id
   * @param {(made: any) => T} finish called with the results; its return value or exception settles the promise
   * @returns {Promise<T>}
   */
  #outcome(id, finish) {
    this.#shared.pending += 1;
    return native.completions.outcome(id, (error, made) => {
      this.#shared.pending -= 1;
      if (this.#shared.pending === 0) {
        this.#shared.idle();
      }
      if (error !== undefined) {
        throw error;
      }
      return finish(made);
    });
  }

  /**
   * Returns a fetch in the form that the native side takes.
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
   * Returns a feed in the form that the native side takes: a tensor, a group of results, or a view of bytes.
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
   * @param {string} what name of the tensor in messages
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
    const numbers = new Uint32Array(/** @type {ArrayBuffer} */ (made[this.outputs.length + 1]));
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
    return this.#formFor(shapes.map(([name]) => name)).#compileForm(shapes);
  }

  /**
   * @param {[string, number[]][]} shapes
   * @returns {Promise<import('../../onnx.js').OnnxSpecialization>}
   */
  #compileForm(shapes) {
    const id = native.completions.nextId();
    native.compileSession(
      this.#handle,
      id,
      shapes.map(([name]) => name),
      shapes.map(([, shape]) => shape),
      this.#warn,
    );
    return this.#outcome(id, (/** @type {[import('../internal.js').Handle<'graph'> | null, string]} */ [handle, json]) =>
      this.#compiledOf(handle, JSON.parse(json)),
    );
  }

  /**
   * @param {[string, number[]][]} shapes of inputs by name
   * @returns {Promise<import('../../onnx.js').OnnxDescription>}
   */
  describe(shapes) {
    return this.#formFor(shapes.map(([name]) => name)).#describeForm(shapes);
  }

  /**
   * @param {[string, number[]][]} shapes
   * @returns {Promise<import('../../onnx.js').OnnxDescription>}
   */
  #describeForm(shapes) {
    const id = native.completions.nextId();
    native.describeSession(
      this.#handle,
      id,
      shapes.map(([name]) => name),
      shapes.map(([, shape]) => shape),
      this.#warn,
    );
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
   * Returns the MLGraph of a specialization: always the same one while something holds it.
   *
   * @param {number} id
   * @param {import('../internal.js').Handle<'graph'>} handle
   * @param {import('../internal.js').NamedDescriptor[]} reads
   * @param {import('../internal.js').NamedDescriptor[]} writes
   */
  #graphOf(id, handle, reads, writes) {
    const { graphs } = this.#shared;
    const known = graphs.get(id)?.deref();
    if (known !== undefined) {
      return known;
    }
    const graph = createMLGraph(new Graph(this.#context, handle, reads, writes));
    graphs.forEach((reference, other) => reference.deref() ?? graphs.delete(other));
    graphs.set(id, new WeakRef(graph));
    return graph;
  }

  /** Frees everything once all earlier requests are done. */
  destroy() {
    if (this.isDestroyed) {
      return;
    }
    this.isDestroyed = true;
    this.#forms.forEach((form) => form.destroy());
    this.#forms.clear();
    this.#shared.graphs.forEach((reference) => reference.deref()?.destroy());
    this.#shared.graphs.clear();
    native.destroySession(this.#handle);
  }
}

module.exports = { Session };
