'use strict';

/** Sessions of the native side: one call for each run. */

const { quote } = require('../errors.js');
const { Graph, createMLGraph } = require('../graph.js');
const native = require('../native.js');
const { feedName, requireType, toResult } = require('./data.js');
const { converting } = require('./errors.js');
const { attachedBytes } = require('./source.js');

const { WeakRef } = globalThis;

/** Values by name as an object of descriptors. */
const descriptors = (ports) => Object.fromEntries(ports.map(({ name, dataType, shape }) => [name, { dataType, shape }]));

/** State of an OnnxModel: destroyed with it, or with its context. */
class Session {
  #context;
  #handle;
  /** Places of the inputs and outputs by their names. */
  #inputs;
  #outputs;
  /** What messages call the feeds, made once. */
  #feedNames;
  /** Weak references to the graphs that `compile` gave, by the numbers of their specializations. */
  #graphs = new Map();
  isDestroyed = false;

  /**
   * @param {object} context state of the MLContext
   * @param {object} handle native session
   * @param {{inputs: object[], outputs: object[]}} signature
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

  /** What messages call the feed of that name, which may be of no input. */
  feedName(name) {
    return this.#feedNames.get(name) ?? feedName(name);
  }

  /**
   * @param {Map<string, import('./data.js').Feed>} feeds
   * @param {Map<string, {object: MLTensor, state: object} | null>} fetches null for an output that is not read
   * @param {() => void} ended is called before the promise is settled
   * @returns {Promise<Record<string, object>>} results by the names of the outputs
   */
  run(feeds, fetches, ended) {
    const values = new Array(2 * this.#inputs.size).fill(undefined);
    const targets = fetches.size === 0 ? undefined : new Array(this.#outputs.size).fill(undefined);
    let matched = 0;
    for (const [name, feed] of feeds) {
      const place = this.#inputs.get(name);
      if (place !== undefined) {
        matched++;
        values[2 * place] = this.#feedOf(this.inputs[place], feed);
        values[2 * place + 1] = feed.shape ?? null;
      }
    }
    for (const [name, target] of fetches) {
      const place = this.#outputs.get(name);
      if (place !== undefined) {
        targets[place] = target === null ? null : this.#handleOf(`run: fetch ${quote(name)}`, target.state);
      }
    }
    if (matched !== this.#inputs.size || matched !== feeds.size || targets !== undefined) {
      native.checkNames(this.#handle, [...feeds.keys()], [...fetches.keys()]);
    }
    const id = native.completions.nextId();
    native.runSession(this.#handle, id, values, targets);
    return native.completions.outcome(id, (error, made) => {
      ended();
      if (error !== undefined) {
        throw error;
      }
      return this.#resultsOf(made, fetches);
    });
  }

  /** What the native side takes for a feed: a tensor or a view of bytes. */
  #feedOf({ name, dataType }, feed) {
    const what = this.feedName(name);
    if (feed.tensor !== undefined) {
      return this.#handleOf(what, feed.tensor);
    }
    return converting(() => {
      requireType(feed, dataType, what);
      return attachedBytes(feed.data, feed.kind, what);
    });
  }

  #handleOf(what, tensor) {
    converting(() => this.#context.requireBindable(what, tensor));
    return tensor.handle;
  }

  #resultsOf(made, fetches) {
    const results = [];
    this.outputs.forEach(({ name }, place) => {
      const target = fetches.get(name);
      if (target === undefined) {
        results.push([name, toResult(made[place], name)]);
      } else if (target !== null) {
        results.push([name, target.object]);
      }
    });
    return Object.fromEntries(results);
  }

  /**
   * @param {[string, number[]][]} shapes of inputs by name
   * @param {() => void} ended is called before the promise is settled
   * @returns {Promise<{graph: MLGraph | null, inputs: object, outputs: object}>}
   */
  compile(shapes, ended) {
    const id = native.completions.nextId();
    native.compileSession(this.#handle, id, shapes.map(([name]) => name), shapes.map(([, shape]) => shape));
    return native.completions.outcome(id, (error, made) => {
      ended();
      if (error !== undefined) {
        throw error;
      }
      const [handle, json] = made;
      return this.#compiledOf(handle, JSON.parse(json));
    });
  }

  #compiledOf(handle, { id, inputs, outputs, reads, writes }) {
    const graph = handle === null ? null : this.#graphOf(id, handle, reads, writes);
    return Object.freeze({ graph, inputs: descriptors(inputs), outputs: descriptors(outputs) });
  }

  /** One MLGraph for each specialization, as long as somebody holds it. */
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
