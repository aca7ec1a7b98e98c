'use strict';

const { ELEMENT_SIZES, VIEWS, byteLength, describe } = require('./lib/descriptor.js');
const { amount, article, illegalConstructor, illegalInvocation, notSupportedError, quote } = require('./lib/errors.js');
const { letBuildAgain } = require('./lib/several-builds.js');
const { defineSlots } = require('./lib/slots.js');
const {
  boolean,
  bufferKind,
  bufferSource,
  byteLengthOf,
  defineInterface,
  dictionary,
  double,
  elementOrSequence,
  enforcedUnsignedLong,
  enumeration,
  float,
  interfaceType,
  isObject,
  long,
  record,
  requireArguments,
  sequence,
  unsignedLong,
  usvString,
} = require('./lib/webidl.js');

// A literal of identifiers: import statements find the names of a CommonJS module by reading its text.
module.exports = {
  ELEMENT_SIZES,
  VIEWS,
  amount,
  article,
  boolean,
  bufferKind,
  bufferSource,
  byteLength,
  byteLengthOf,
  defineInterface,
  defineSlots,
  describe,
  dictionary,
  double,
  elementOrSequence,
  enforcedUnsignedLong,
  enumeration,
  float,
  illegalConstructor,
  illegalInvocation,
  interfaceType,
  isObject,
  letBuildAgain,
  long,
  notSupportedError,
  quote,
  record,
  requireArguments,
  sequence,
  unsignedLong,
  usvString,
};
