'use strict';

/** What a compiled graph is and does, how long its steps take, and what this process computes with. */

const { slots: contextSlots } = require('./context.js');
const { slots: graphSlots } = require('./graph.js');
const native = require('./native.js');
const { slots: tensorSlots } = require('./tensor.js');
const { dictionary, enforcedUnsignedLong, interfaceType, record, requireArguments } = require('./webidl.js');

const { Promise } = globalThis;
const reject = Promise.reject.bind(Promise);

const toContext = interfaceType('MLContext', contextSlots);
const toGraph = interfaceType('MLGraph', graphSlots);
const toNamedTensors = record(interfaceType('MLTensor', tensorSlots));

/** Most runs of a profile, and most runs in front of it. */
const MAX_RUNS = 10_000;

const toProfileOptions = dictionary([
  { name: 'runs', convert: countConverter(1), default: 10 },
  { name: 'warmup', convert: countConverter(0), default: 2 },
]);

/** Converter of a number of runs. */
function countConverter(least) {
  return (value, what) => {
    const count = enforcedUnsignedLong(value, what);
    if (count < least || count > MAX_RUNS) {
      throw new TypeError(`${what} is ${count}, expected ${least} to ${MAX_RUNS}`);
    }
    return count;
  };
}

function describeGraph(graph) {
  requireArguments('describeGraph', arguments.length, 1);
  return toGraph(graph, 'describeGraph: graph').describe('describeGraph');
}

function profileGraph(context, graph, inputs, outputs, options = undefined) {
  try {
    requireArguments('profileGraph', arguments.length, 4);
    return toContext(context, 'profileGraph: context').profile(
      toGraph(graph, 'profileGraph: graph'),
      toNamedTensors(inputs, 'profileGraph: inputs'),
      toNamedTensors(outputs, 'profileGraph: outputs'),
      toProfileOptions(options, 'profileGraph: options'),
    );
  } catch (error) {
    return reject(error);
  }
}

function systemInfo() {
  return JSON.parse(native.systemInfo());
}

module.exports = { describeGraph, profileGraph, systemInfo };
