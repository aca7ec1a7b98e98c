// Builds and runs the graph of one conformance case on a context.

import { mismatches } from './compare.mjs';
import { DATA_TYPES, decodeArgument, decodeTensor } from './decode.mjs';

/** Creates the operands of a case in order; returns all that have a name. */
function buildOperands(builder, { inputs, operators }) {
  const operands = new Map();
  for (const [name, tensor] of Object.entries(inputs)) {
    const descriptor = { dataType: tensor.dataType, shape: tensor.shape };
    operands.set(name, tensor.constant ? builder.constant(descriptor, decodeTensor(tensor)) : builder.input(name, descriptor));
  }
  for (const { name, arguments: encoded, outputs } of operators) {
    // Each argument is an object with one key, the parameter's name; the order is the order of the call.
    const results = builder[name](...encoded.map((argument) => decodeArgument(Object.values(argument)[0], operands)));
    if (Array.isArray(outputs)) {
      if (outputs.length !== results.length) {
        throw new Error(`${name} has ${results.length} results, expected ${outputs.length}`);
      }
      outputs.forEach((output, index) => operands.set(output, results[index]));
    } else {
      operands.set(outputs, results);
    }
  }
  return operands;
}

function describe({ dataType, shape }) {
  return `${dataType} [${[...shape].join(', ')}]`;
}

/** The operands to build, by output name. @throws {Error} when one is not what the case expects */
function outputOperands(operands, expected) {
  return Object.fromEntries(
    Object.entries(expected).map(([name, tensor]) => {
      const operand = operands.get(name);
      if (operand === undefined) {
        throw new Error(`no operator makes the output ${name}`);
      }
      if (describe(operand) !== describe(tensor)) {
        throw new Error(`output ${name} is ${describe(operand)}, expected ${describe(tensor)}`);
      }
      return [name, operand];
    }),
  );
}

/** Creates one tensor per entry of `tensors`; `keep` learns of each, so that the caller can destroy them all. */
async function createTensors(context, tensors, usage, keep) {
  const created = {};
  for (const [name, { dataType, shape }] of tensors) {
    created[name] = await context.createTensor({ dataType, shape, ...usage });
    keep.push(created[name]);
  }
  return created;
}

/** Runs the graph of a case and returns the elements of its outputs by name. */
async function computeOutputs({ context, MLGraphBuilder }, testCase, keep) {
  const builder = new MLGraphBuilder(context);
  const operands = buildOperands(builder, testCase);
  const graph = await builder.build(outputOperands(operands, testCase.expected));
  keep.push(graph);
  const fed = Object.entries(testCase.inputs).filter(([, tensor]) => !tensor.constant);
  const inputs = await createTensors(context, fed, { writable: true }, keep);
  const outputs = await createTensors(context, Object.entries(testCase.expected), { readable: true }, keep);
  for (const [name, tensor] of fed) {
    context.writeTensor(inputs[name], decodeTensor(tensor));
  }
  context.dispatch(graph, inputs, outputs);
  const elements = {};
  for (const [name, { dataType }] of Object.entries(testCase.expected)) {
    elements[name] = new DATA_TYPES[dataType].array(await context.readTensor(outputs[name]));
  }
  return elements;
}

/**
 * Runs one case.
 *
 * @param {{ context: MLContext, MLGraphBuilder: typeof MLGraphBuilder }} api
 * @param testCase a case of a vector file
 * @returns {Promise<{ output: string, elements: number, mismatches: object[] }[]>} the outputs that are not as
 *   expected; an empty array when the case passes
 * @throws whatever the API or a malformed case throws
 */
export async function runCase(api, testCase) {
  if (Object.keys(testCase.expected).length === 0) {
    throw new Error('the case expects no output');
  }
  const keep = [];
  try {
    const results = await computeOutputs(api, testCase, keep);
    return Object.entries(testCase.expected)
      .map(([output, tensor]) => {
        const found = mismatches(tensor.dataType, results[output], decodeTensor(tensor), testCase.tolerance);
        return { output, elements: results[output].length, mismatches: found };
      })
      .filter((result) => result.mismatches.length > 0);
  } finally {
    keep.forEach((object) => object.destroy());
  }
}
