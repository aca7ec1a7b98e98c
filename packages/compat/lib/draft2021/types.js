'use strict';

/** Converters for the types and dictionaries of idl.js. */

const webidl = require('webnn-node/internal/webidl');
const { isOneOf } = require('../foreign.js');
const { arrayBufferView } = require('../views.js');
const { dictionaries, enumerations } = require('./idl.js');

const { defineSlots, notSupportedError, quote } = webidl;
const { isView } = ArrayBuffer;

/** Slots of the draft's interfaces. They are here because these converters need some of them. */
const slots = {
  /** @type {import('webnn-node/internal/webidl').Slots<import('../internal.js').ContextState, import('../../index.js').draft2021.MLContext>} */
  context: defineSlots(),
  /** @type {import('webnn-node/internal/webidl').Slots<import('../internal.js').BuilderState, import('../../index.js').draft2021.MLGraphBuilder>} */
  builder: defineSlots(),
  /** @type {import('webnn-node/internal/webidl').Slots<import('../internal.js').OperandState, import('../../index.js').draft2021.MLOperand>} */
  operand: defineSlots(),
  /** @type {import('webnn-node/internal/webidl').Slots<import('../internal.js').GraphState, import('../../index.js').draft2021.MLGraph>} */
  graph: defineSlots(),
  /** @type {import('webnn-node/internal/webidl').Slots<import('../internal.js').OperatorState, import('../../index.js').draft2021.MLOperator>} */
  operator: defineSlots(),
};

/** Interfaces of other standards whose objects the draft accepts but this package does not. */
const FOREIGN_RESOURCES = ['GPUBuffer', 'GPUTexture', 'WebGLBuffer', 'WebGLTexture'];
const FOREIGN_DEVICES = ['GPUDevice', 'WebGLRenderingContext', 'WebGL2RenderingContext'];

/**
 * @param {unknown} value
 * @param {string} what
 * @throws {DOMException} NotSupportedError for a resource of a GPU, also as the draft's MLBufferResourceView
 */
function requireNoResource(value, what) {
  const isResource = (/** @type {unknown} */ candidate) => isOneOf(FOREIGN_RESOURCES, candidate);
  if (isResource(value) || (webidl.isObject(value) && !isView(value) && isResource(/** @type {{ resource?: unknown }} */ (value).resource))) {
    throw notSupportedError(`${what} is a resource of WebGPU or WebGL, expected an ArrayBufferView: contexts own their device`);
  }
}

/**
 * `MLBufferView` and `MLResource`, as far as they apply to contexts that own their device.
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 */
function toView(value, what, key) {
  const name = key === undefined ? what : `${what}[${quote(String(key))}]`;
  requireNoResource(value, name);
  return arrayBufferView(value, name);
}

/**
 * @template T
 * @param {import('webnn-node/internal/webidl').Converter<T>} convert
 * @returns {import('webnn-node/internal/webidl').Converter<T | null>}
 */
const nullable = (convert) => (value, what, key) => (value === null ? null : convert(value, what, key));

/**
 * A union of an interface type and another type.
 *
 * @param {import('webnn-node/internal/webidl').Slots<object, object>} slotsOf of the interface
 * @param {import('webnn-node/internal/webidl').Converter<unknown>} convert for values that are no objects of it
 * @returns {import('webnn-node/internal/webidl').Converter<unknown>}
 */
const objectOr = (slotsOf, convert) => (value, what, key) => slotsOf.get(value) ?? convert(value, what, key);

/** @type {[string, import('webnn-node/internal/webidl').Converter<any>][]} */
const BY_TYPE = [
  ['boolean', webidl.boolean],
  ['double', webidl.double],
  ['float', webidl.float],
  ['long', webidl.long],
  ['unsigned long', webidl.unsignedLong],
  ['long?', nullable(webidl.long)],
  ['MLOperand', webidl.interfaceType('MLOperand', slots.operand)],
  ['MLOperator', webidl.interfaceType('MLOperator', slots.operator)],
  ['(MLOperand or float)', objectOr(slots.operand, webidl.float)],
  ['(MLRecurrentNetworkActivation or MLOperator)', objectOr(slots.operator, webidl.enumeration(enumerations.MLRecurrentNetworkActivation))],
  ['MLResource', toView],
  ...Object.entries(enumerations).map(
    ([name, values]) => /** @type {[string, import('webnn-node/internal/webidl').Converter<string>]} */ ([name, webidl.enumeration(values)]),
  ),
];

const CONVERTERS = new Map(BY_TYPE);

/**
 * @param {string} type as in idl.js
 * @returns {import('webnn-node/internal/webidl').Converter<any>} its converter
 */
function converterFor(type) {
  const known = CONVERTERS.get(type);
  if (known !== undefined) {
    return known;
  }
  const [, union, inner, isNullable] = /** @type {RegExpExecArray} */ (/^(?:\((.+) or )?sequence<(.+)>\)?(\?)?$/.exec(type));
  const convert = (union === undefined ? webidl.sequence : webidl.elementOrSequence)(converterFor(inner));
  return isNullable === undefined ? convert : nullable(convert);
}

/**
 * @param {string} [name] of a dictionary; without it, the dictionary has no members
 * @returns {import('webnn-node/internal/webidl').Converter<any>} its converter
 */
function dictionaryConverter(name) {
  if (name === undefined) {
    return () => ({});
  }
  return webidl.dictionary(dictionaries[name].map((member) => ({ ...member, convert: converterFor(member.type) })));
}

const toInputDictionary = dictionaryConverter('MLInput');

/**
 * `(MLResource or MLInput)`: a view, or a view with the dimensions of its data.
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 * @returns {import('../internal.js').InputData}
 */
function toInput(value, what, key) {
  const name = `${what}[${quote(String(key))}]`;
  requireNoResource(value, name);
  if (isView(value)) {
    return { resource: arrayBufferView(value, name), dimensions: undefined };
  }
  return toInputDictionary(value, name);
}

module.exports = {
  FOREIGN_DEVICES,
  converterFor,
  dictionaryConverter,
  slots,
  toNamedInputs: webidl.record(toInput),
  toNamedOperands: webidl.record(converterFor('MLOperand')),
  toNamedViews: webidl.record(toView),
  toView,
};
