'use strict';

/** Converters for the types and dictionaries of the IDL, looked up by their IDL text. */

const { cacheConverter } = require('./cache.js');
const { dictionaries, enumerations } = require('./operators.js');
const webidl = require('./webidl.js');

const { slots: operandSlots } = require('./operand.js');

/** @type {[string, import('./internal.js').Converter<any>][]} */
const BY_TYPE = [
  ['[EnforceRange] unsigned long', webidl.enforcedUnsignedLong],
  ['[EnforceRange] long', webidl.enforcedLong],
  ['[EnforceRange] unsigned long long', webidl.enforcedUnsignedLongLong],
  ['unsigned long', webidl.unsignedLong],
  ['unsigned long long', webidl.unsignedLongLong],
  ['long', webidl.long],
  ['double', webidl.double],
  ['unrestricted double', webidl.unrestrictedDouble],
  ['float', webidl.float],
  ['boolean', webidl.boolean],
  ['DOMString', webidl.domString],
  ['USVString', webidl.usvString],
  ['MLNumber', webidl.bigintOrDouble],
  ['MLCache', cacheConverter(['folder', 'verify'])],
  ['MLComputePolicy', webidl.enumeration(['default', 'high-performance', 'low-power', 'fallback'])],
  ['MLContextExtension', webidl.enumeration(['donation', 'dynamic-shapes', 'int4'])],
  ['MLOperand', webidl.interfaceType('MLOperand', operandSlots)],
  ...Object.entries(enumerations).map(
    ([name, values]) => /** @type {[string, import('./internal.js').Converter<string>]} */ ([name, webidl.enumeration(values)]),
  ),
];

const CONVERTERS = new Map(BY_TYPE);

/**
 * @param {string} type IDL text as in lib/operators.js
 * @returns {import('./internal.js').Converter<any>} its converter
 */
function converterFor(type) {
  const known = CONVERTERS.get(type);
  if (known !== undefined) {
    return known;
  }
  const converter = compoundConverter(type);
  CONVERTERS.set(type, converter);
  return converter;
}

/**
 * Converter for `sequence<T>` or `(T or sequence<T>)`.
 *
 * @param {string} type
 * @returns {import('./internal.js').Converter<any>}
 */
function compoundConverter(type) {
  const [, element, inner] = /^(?:\((.+) or )?sequence<(.+)>\)?$/.exec(type) ?? [];
  if (inner === undefined || (element !== undefined && element !== inner)) {
    throw new Error(`no converter for the IDL type ${type}`);
  }
  return (element === undefined ? webidl.sequence : webidl.elementOrSequence)(converterFor(inner));
}

/**
 * @template {string} Name
 * @param {Name} name of a dictionary
 * @returns {import('./internal.js').Converter<Name extends keyof import('./internal.js').Dictionaries
 *   ? import('./internal.js').Dictionaries[Name]
 *   : Record<string, unknown> & {label: string}>} its converter
 */
function dictionaryConverter(name) {
  /** @type {Record<string, import('./internal.js').DictionaryMember[]>} */
  const known = dictionaries;
  return webidl.dictionary(known[name].map((member) => ({ ...member, convert: converterFor(member.type) })));
}

module.exports = { converterFor, dictionaryConverter };
