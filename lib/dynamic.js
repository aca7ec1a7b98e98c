'use strict';

/** Graphs with named dimensions: the extension "dynamic-shapes", see docs/dynamic-shapes.md. */

const { describe } = require('./descriptor.js');
const { illegalInvocation, notSupportedError, quote } = require('./errors.js');
const { Graph, MLGraph, createMLGraph, matchNames, slots } = require('./graph.js');
const native = require('./native.js');
const { converterFor } = require('./types.js');
const { conversionError, dictionary, enforcedUnsignedLong, record, requireArguments, sequence, usvString } = require('./webidl.js');

const toNamedShapes = record(sequence(enforcedUnsignedLong));

/**
 * MLDimension. Only strings are names: Web IDL would turn null and objects into names as well.
 *
 * @type {import('./internal.js').Converter<import('../index.js').MLDimension>}
 */
function toDimension(value, what, key) {
  if (value === null || value === undefined) {
    throw conversionError(what, key, 'a size or a name', value);
  }
  return typeof value === 'string' ? usvString(value, what, key) : enforcedUnsignedLong(value, what, key);
}

/** @type {import('./internal.js').Converter<import('./internal.js').Described>} */
const toInputOperandDescriptor = dictionary([
  { name: 'dataType', type: 'MLOperandDataType', required: true, convert: converterFor('MLOperandDataType') },
  { name: 'shape', type: 'sequence<MLDimension>', required: true, convert: sequence(toDimension) },
]);

/** State of an MLGraph with named dimensions. */
class DynamicGraph extends Graph {
  /** @type {import('./internal.js').Handle<'dynamicGraph'>} */
  #handle;

  /**
   * @param {import('./internal.js').ContextState} context state of the MLContext
   * @param {import('./internal.js').Handle<'dynamicGraph'>} handle native graph
   * @param {import('./internal.js').NamedShape[]} inputs in native order
   * @param {import('./internal.js').NamedShape[]} outputs in native order
   */
  constructor(context, handle, inputs, outputs) {
    super(context, /** @type {never} */ (undefined), inputs, outputs);
    this.#handle = handle;
  }

  /**
   * Whether a tensor has the data type of an input or output; the native side checks the shape.
   *
   * @override
   * @param {import('./internal.js').Described} tensor
   * @param {import('./internal.js').Described} wanted
   */
  fits(tensor, wanted) {
    return tensor.dataType === wanted.dataType;
  }

  /** @override */
  nativeDevices() {
    return [this.context.device];
  }

  /**
   * @override
   * @param {string} operation
   * @returns {never}
   */
  requireProfilable(operation) {
    throw notSupportedError(`${operation}: the graph has named dimensions, build it with sizes in their place`);
  }

  /**
   * Describes the graph that was compiled for the latest dispatch.
   *
   * @override
   * @param {string} operation
   * @returns {import('../inspect.js').GraphDescription}
   */
  describe(operation) {
    this.requireNotDestroyed(operation);
    const json = native.describeDynamicGraph(this.#handle);
    if (json === null) {
      throw notSupportedError(
        `${operation}: the graph has named dimensions and is compiled for their sizes when it is dispatched: first dispatch it and read a result`,
      );
    }
    return JSON.parse(json);
  }

  /**
   * @override
   * @param {import('./internal.js').Handle<'context'>} context native
   * @param {import('./internal.js').Handle<'tensor'>[]} inputs in native order
   * @param {import('./internal.js').Handle<'tensor'>[]} outputs in native order
   * @param {number[][]} donations pairs of an output and the input whose memory it takes over
   */
  dispatch(context, inputs, outputs, donations) {
    native.dynamicDispatch(context, this.#handle, inputs, outputs, donations);
  }

  /**
   * @param {number[][]} shapes of the inputs in native order
   * @returns {number[][]} shapes of the outputs in native order
   */
  shapesOfOutputs(shapes) {
    return native.dynamicShapes(this.#handle, shapes);
  }

  /** @override */
  release() {
    native.destroyDynamicGraph(this.#handle);
    this.#handle = /** @type {never} */ (undefined);
  }
}

/**
 * Returns the shapes of the outputs of a graph without named dimensions.
 *
 * @param {import('./internal.js').GraphState} graph
 * @param {number[][]} shapes of the inputs
 * @returns {number[][]} shapes of the outputs
 * @throws {TypeError} if the inputs have other shapes
 */
function fixedShapes({ inputs, outputs }, shapes) {
  for (const [index, input] of inputs.entries()) {
    const given = { ...input, shape: shapes[index] };
    if (describe(given) !== describe(input)) {
      const text = `input ${quote(input.name)} needs ${describe(input)}, it has [${shapes[index].join(', ')}]`;
      throw new TypeError(`computeShapes: ${text}`);
    }
  }
  return outputs.map(({ shape }) => /** @type {number[]} */ ([...shape]));
}

/** The members that the extension adds to graphs of contexts that have it. */
class DynamicMLGraph {
  /** @param {unknown} inputShapes */
  computeShapes(inputShapes) {
    const graph = slots.get(this);
    if (graph === undefined) {
      throw illegalInvocation('MLGraph.computeShapes', 'MLGraph');
    }
    requireArguments('computeShapes', arguments.length, 1);
    const given = toNamedShapes(inputShapes, 'computeShapes: inputShapes');
    graph.requireNotDestroyed('computeShapes');
    const shapes = matchNames('computeShapes', 'input', given, graph.inputs);
    const found = graph instanceof DynamicGraph ? graph.shapesOfOutputs(shapes) : fixedShapes(graph, shapes);
    return Object.fromEntries(graph.outputs.map(({ name }, index) => [name, found[index]]));
  }
}

Object.setPrototypeOf(DynamicMLGraph.prototype, MLGraph.prototype);
Object.defineProperty(DynamicMLGraph.prototype, 'computeShapes', { enumerable: true });
Object.defineProperty(DynamicMLGraph.prototype, 'constructor', { value: MLGraph });

/**
 * @param {import('./internal.js').GraphState} graph of a context with the extension, whose build has completed
 * @returns {import('../index.js').MLDynamicGraph}
 */
function createDynamicMLGraph(graph) {
  return /** @type {import('../index.js').MLDynamicGraph} */ (createMLGraph(graph, DynamicMLGraph));
}

module.exports = { DynamicGraph, createDynamicMLGraph, toInputOperandDescriptor };
