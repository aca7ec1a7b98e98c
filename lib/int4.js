'use strict';

/**
 * Constants of 4-bit integers: the extension "int4", see docs/int4.md.
 *
 * The type checker sees the draft's types: no code depends on the difference.
 */

const { CONSTANT_DATA_TYPES } = require('./descriptor.js');
const { dictionaries } = require('./operators.js');
const { converterFor, dictionaryConverter } = require('./types.js');
const { dictionary, enumeration } = require('./webidl.js');

/** Converters for descriptors of constants. */
const draftConstants = {
  toDataType: converterFor('MLOperandDataType'),
  toDescriptor: dictionaryConverter('MLOperandDescriptor'),
};

const toDataType = enumeration(CONSTANT_DATA_TYPES);

/**
 * The same, in contexts with the extension.
 *
 * @type {typeof draftConstants}
 */
const int4Constants = {
  toDataType,
  toDescriptor: dictionary(
    dictionaries.MLOperandDescriptor.map((member) => ({
      ...member,
      convert: member.name === 'dataType' ? toDataType : converterFor(member.type),
    })),
  ),
};

module.exports = { draftConstants, int4Constants };
