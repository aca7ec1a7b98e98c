'use strict';

/** MLGraph of the draft of 2021, whose compute() is synchronous. */

const { amount, article, byteLengthOf, quote } = require('webnn-node/internal/webidl');
const { ELEMENT_SIZES, bytesIn, holds, viewsOf } = require('../views.js');

const { DOMException, SharedArrayBuffer, Uint8Array } = globalThis;

/** Alignment of input data, in bytes: views of any type can begin there. */
const ALIGNMENT = 8;

const shown = (/** @type {number[]} */ shape) => `[${shape.join(', ')}]`;

const dataError = (/** @type {string} */ message) => new DOMException(message, 'DataError');

/** The number of elements. */
const product = (/** @type {number[]} */ shape) => shape.reduce((elements, size) => elements * size, 1);

/**
 * @param {import('../internal.js').View} view
 * @param {import('webnn-node').MLOperandDataType} dataType
 * @param {string} what
 * @throws {DOMException} DataError if a view has the wrong type of elements
 */
function requireKind({ kind }, dataType, what) {
  if (!holds(kind, dataType)) {
    throw dataError(`${what} is ${article(kind)}, expected ${viewsOf(dataType)} for ${dataType}`);
  }
}

/**
 * @param {number[] | undefined} dimensions
 * @param {number[]} known
 * @param {string} what
 * @returns {number[]} the shape of the data for an input, as the draft checks it
 */
function shapeOf(dimensions, known, what) {
  if (dimensions === undefined) {
    if (known.some((size) => size < 0)) {
      throw dataError(`${what} has unknown dimensions ${shown(known)}, expected {resource, dimensions}`);
    }
    return known;
  }
  const fits = dimensions.length === known.length && dimensions.every((size, i) => size > 0 && (known[i] < 0 || size === known[i]));
  if (!fits) {
    throw dataError(`${what} is given dimensions ${shown(dimensions)}, expected ${shown(known)}`);
  }
  return dimensions;
}

/** State of an MLGraph. */
class Graph {
  #bridge;
  #id;
  /**
   * By name.
   *
   * @type {Map<string, import('../internal.js').Input>}
   */
  #inputs;
  /** The index and the needed inputs of each output, by name. */
  #outputs;
  /** Memory for the input data, which the other thread reads. */
  #staging = new SharedArrayBuffer(0);

  /**
   * @param {import('../internal.js').ContextState} context
   * @param {number} id of the graph on the other thread
   * @param {Map<string, import('../internal.js').Input>} inputs that some output needs, by name
   * @param {Map<string, {place: number, needs: string[]}>} outputs by name
   */
  constructor(context, id, inputs, outputs) {
    this.#bridge = context.bridge;
    this.#id = id;
    this.context = context; // must not be collected before the graph
    this.#inputs = inputs;
    this.#outputs = outputs;
  }

  /**
   * The draft's compute() steps.
   *
   * @param {Map<string, import('../internal.js').InputData>} inputs
   * @param {Map<string, import('../internal.js').View>} outputs
   */
  compute(inputs, outputs) {
    const feeds = [...inputs].map(([name, input]) => this.#feed(name, input));
    const requested = [...outputs].map(([name, view]) => ({ name, view, ...this.#output(name) }));
    requested.forEach((output) => this.#requireInputs(output, inputs));
    if (requested.length === 0) {
      return;
    }
    requested.sort((a, b) => a.place - b.place);
    const bytes = this.#stage(feeds);
    const results = this.#bridge.call('compute', {
      graph: this.#id,
      shapes: feeds.map(({ id, shape }) => [id, shape]),
      bytes: feeds.map(({ id }, i) => [id, bytes[i]]),
      outputs: requested.map(({ place }) => place),
    });
    this.#deliver(results, requested);
  }

  /**
   * @param {string} name
   * @param {import('../internal.js').InputData} input
   */
  #feed(name, { resource, dimensions }) {
    const what = `compute: input ${quote(name)}`;
    const input = this.#inputs.get(name);
    if (input === undefined) {
      throw dataError(`${what} is not in the graph, which has ${this.#names(this.#inputs)}`);
    }
    const { id, type } = input;
    const shape = shapeOf(dimensions, input.dimensions, what);
    requireKind(resource, type, what);
    const { view, kind } = resource;
    const length = byteLengthOf(view, kind) / ELEMENT_SIZES[type];
    if (length !== product(shape)) {
      throw dataError(`${what} has ${amount(length, 'element')}, expected the ${product(shape)} of ${shown(shape)}`);
    }
    return { id, shape, bytes: bytesIn(resource) };
  }

  /** @param {string} name */
  #output(name) {
    const output = this.#outputs.get(name);
    if (output === undefined) {
      throw dataError(`compute: output ${quote(name)} is not in the graph, which has ${this.#names(this.#outputs)}`);
    }
    return output;
  }

  /** @param {Map<string, unknown>} map */
  #names(map) {
    return map.size === 0 ? 'none' : [...map.keys()].map(quote).join(', ');
  }

  /**
   * @param {{ name: string, needs: string[] }} output
   * @param {Map<string, unknown>} inputs
   */
  #requireInputs({ name, needs }, inputs) {
    const missing = needs.find((input) => !inputs.has(input));
    if (missing !== undefined) {
      throw dataError(`compute: output ${quote(name)} needs the input ${quote(missing)}, which is missing`);
    }
  }

  /**
   * Copies the input data to memory that the other thread can read.
   *
   * @param {{ bytes: Uint8Array }[]} feeds
   */
  #stage(feeds) {
    const offsets = /** @type {number[]} */ ([]);
    let end = 0;
    for (const { bytes } of feeds) {
      offsets.push(end);
      end += Math.ceil(bytes.byteLength / ALIGNMENT) * ALIGNMENT;
    }
    if (this.#staging.byteLength < end) {
      this.#staging = new SharedArrayBuffer(end);
    }
    return feeds.map(({ bytes }, i) => {
      const staged = new Uint8Array(this.#staging, offsets[i], bytes.byteLength);
      staged.set(bytes);
      return staged;
    });
  }

  /**
   * Writes results to the caller's views. Checks all views before it writes anything.
   *
   * @param {import('../internal.js').Results} results
   * @param {{ name: string, view: import('../internal.js').View }[]} requested
   */
  #deliver({ buffer, outputs }, requested) {
    outputs.forEach(({ dataType, shape, byteLength }, i) => {
      const { name, view } = requested[i];
      const what = `compute: output ${quote(name)}`;
      requireKind(view, dataType, what);
      const available = byteLengthOf(view.view, view.kind);
      if (byteLength > available) {
        const length = available / ELEMENT_SIZES[dataType];
        throw dataError(`${what} has room for ${amount(length, 'element')}, expected at least the ${product(shape)} of ${shown(shape)}`);
      }
    });
    outputs.forEach(({ byteOffset, byteLength }, i) => {
      bytesIn(requested[i].view).set(new Uint8Array(buffer, byteOffset, byteLength));
    });
  }
}

module.exports = { Graph };
