'use strict';

/** Constants of 4-bit integers: the extension "int4", see docs/int4.md. */

const { CONSTANT_DATA_TYPES } = require('./descriptor.js');
const { dictionaries } = require('./operators.js');
const { converterFor, dictionaryConverter } = require('./types.js');
const { dictionary, enumeration } = require('./webidl.js');

/** Converters of what describes a constant. */
const draftConstants = {
  toDataType: converterFor('MLOperandDataType'),
  toDescriptor: dictionaryConverter('MLOperandDescriptor'),
};

/** @type {import('./internal.js').Converter<import('../index.js').MLConstantDataType>} */
const toDataType = enumeration(CONSTANT_DATA_TYPES);

/** The same in contexts with the extension. */
const int4Constants = {
  toDataType,
  /** @type {import('./internal.js').Converter<import('./internal.js').ConstantDescriptor>} */
  toDescriptor: dictionary(
    dictionaries.MLOperandDescriptor.map((member) => ({
      ...member,
      convert: member.name === 'dataType' ? toDataType : converterFor(member.type),
    })),
  ),
};

module.exports = { draftConstants, int4Constants };
