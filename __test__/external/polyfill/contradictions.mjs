// Tests of webnn-polyfill, as of its last commit (October 2024) and of May 2022, that fail for another reason than a defect. The runner
// holds every entry to its word: the tests have to fail with the message.

const transfers =
  'MLContext, compute(): "Let transferredInputs be the result of transferring MLNamedArrayBufferViews inputs with realm", and so for outputs. ' +
  'The test uses a view again that it has given away; the polyfill does not transfer';
const isDetached = /^compute: (in|out)put "\w+" has 0 bytes \(or is detached\)/;

const conversion = (value) => `Web IDL: ${value}. The test expects an exception`;
const noException = /^expected \[Function\] to throw Error$/;

/**
 * @typedef {object} Contradiction
 * @property {string} reason
 * @property {RegExp} title of the test, with those of its suites
 * @property {RegExp} message
 */

/** @type {Contradiction[]} */
const OF_BOTH = [
  {
    reason: conversion('numbers, booleans and objects are converted to a DOMString'),
    title: /^test MLGraphBuilder builder\.input should throw for invalid name parameter$/,
    message: noException,
  },
  {
    reason: conversion('"1", true and 1.1 are converted to an integer, which is 1'),
    title: /^test MLGraphBuilder builder\.input should throw for invalid dimensions$/,
    message: noException,
  },
  {
    reason: conversion('[1] is converted to an integer, which is 1'),
    title: /^test MLGraphBuilder builder\.conv2d should throw for invalid parameters$/,
    message: noException,
  },
  {
    reason: 'MLGraphBuilder, constant(): a number is cast to the data type. The test expects an exception for numbers that it cannot hold',
    title: /^test MLGraphBuilder builder\.constant should throw for invalid value according to type$/,
    message: noException,
  },
];

/**
 * By the draft of webnn-node-compat.
 *
 * @type {Record<string, Contradiction[]>}
 */
export const CONTRADICTIONS = {
  2021: [
    ...OF_BOTH,
    {
      reason: conversion('"1" and true are converted to a double, which is 1'),
      title: /^test MLGraphBuilder builder\.constant should throw for invalid value$/,
      message: noException,
    },
    {
      reason: conversion('"1" and "-1" are converted to a long'),
      title: /^test MLGraphBuilder builder\.reshape should throw for invalid parameters$/,
      message: noException,
    },
  ],
  2024: [
    ...OF_BOTH,
    { reason: transfers, title: /^test batchNormalization batchNormalization n(chw|hwc)$/, message: isDetached },
    {
      reason: transfers,
      title: /^test conv2d (fused conv2d with padding (default|n\w+ \w+)|fused depthwise conv2d( default| n\w+ \w+)?|depthwise conv2d nchw oihw)$/,
      message: isDetached,
    },
    { reason: transfers, title: /^test MLContext\.compute MLContext\.compute should support (multiple|specified) outputs$/, message: isDetached },
    { reason: transfers, title: /^test MLContext\.compute MLGraph should be immutable after creation$/, message: isDetached },
    {
      reason: transfers, // and it compares the results with such a view
      title: /^test reshape reshape (reordered_(all|last)_dims|reduced_dims|extended_dims|one_dim)$/,
      message: /^expected false to be true$/,
    },
    {
      reason: 'MLOperand, shape(): "unsigned long" is not nullable. The test expects the null of the new shape',
      title: /^test reshape reshape \[2, 3, 4\] to \[.*null.*\]$/,
      message: /^expected false to be true$/,
    },
    {
      reason: 'no draft says what the message of an exception is. The test expects that of the polyfill',
      title: /^test (MLContext ml\.createContext should throw for invalid options|MLGraphBuilder builder\.build should throw for invalid parameters)$/,
      message: /including 'Invalid (options\.|argument)' but got '(createContext: options is "invalid"|build: 1 argument required)/,
    },
  ],
};
