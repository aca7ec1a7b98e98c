// `webnn-node inspect`: describes a model without running it.
import { formatBytes, formatCount, formatPlural, formatProcessor, formatShape } from '../format.mjs';
import { sizesOf, symbolsOf } from '../inputs.mjs';
import { printSurvey, survey } from '../missing.mjs';
import { readModel, withModel } from '../model.mjs';
import { freeDimensionOption } from '../options.mjs';

const HELP = `
Multiply-adds and memory are shown if all dimensions are known. If data decide
sizes or branches, the model runs in stages, and the numbers are for the first
one: later stages are known only when the model runs.
Exit code 1 means that the model has unsupported nodes.

Examples:
  webnn-node inspect model.onnx
  webnn-node inspect model.onnx --free-dimension batch=1
  webnn-node inspect model.onnx --json | jq .operators
  webnn-node inspect models --missing`;

/** The most optional inputs that are listed: some exporters make all weights such inputs. */
const MAX_OPTIONAL = 10;

/**
 * Returns work and memory of the built graph; null stands for a graph without any elements to compute.
 * @param {import('webnn-node/inspect').GraphDescription | null} graph
 */
function costOf(graph) {
  if (graph === null) return null;
  const { steps, memory, passes, devices, isa, threads, adapter } = graph;
  const multiplyAdds = steps.reduce((sum, step) => sum + step.multiplyAdds, 0);
  return { multiplyAdds, steps: steps.length, memory, passes, devices, isa, threads, adapter };
}

const values = (/** @type {readonly import('webnn-node/onnx').OnnxValueInfo[]} */ infos) =>
  infos.map(({ name, dataType, shape }) => [name, dataType, formatShape(shape)]);

/**
 * @param {import('../output.mjs').Output} output
 * @param {string} path
 * @param {import('webnn-node/onnx').OnnxInspection} inspection
 */
function printMetadata(output, path, { metadata, parameters, parameterBytes }) {
  const producer = [metadata.producerName, metadata.producerVersion].filter((text) => text !== '').join(' ');
  const opsets = Object.entries(metadata.opsets).map(([domain, version]) => `${domain === '' ? 'ai.onnx' : domain} ${version}`);
  /** @type {[name: string, text: string][]} */
  const optional = [
    ['graph', metadata.graphName],
    ['producer', producer],
    ['domain', metadata.domain],
    ['description', metadata.description],
    ...Object.entries(metadata.properties),
  ];
  output.pairs([
    ['model', path],
    ...optional.filter(([, text]) => text !== ''),
    ['opsets', opsets.join(', ')],
    ['IR version', metadata.irVersion],
    ['parameters', `${formatCount(parameters)} (${formatBytes(parameterBytes)})`],
  ]);
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {NonNullable<ReturnType<typeof costOf>>} cost
 * @param {boolean} isCut
 */
function printCost(output, { multiplyAdds, steps, memory, ...processor }, isCut) {
  output.heading(isCut ? 'Compiled (the first stage)' : 'Compiled');
  output.pairs([
    ['multiply-adds', formatCount(multiplyAdds)],
    ['steps', `${steps} (${formatProcessor(processor)})`],
    ['weights', `${formatBytes(memory.constantBytes)}, packed for the kernels ${formatBytes(memory.packedBytes)}`],
    ['arena', `${formatBytes(memory.arenaBytes)} for all intermediate results`],
  ]);
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {import('webnn-node/onnx').OnnxUnsupportedNode[]} unsupported
 */
function printUnsupported(output, unsupported) {
  output.heading(output.style('red', formatPlural(unsupported.length, 'unsupported node')));
  output.table(
    ['node', 'operator', 'domain', '>opset', 'reason'],
    unsupported.map(({ name, operator, domain, opset, reason }) => [name, operator, domain === '' ? 'ai.onnx' : domain, opset, reason]),
  );
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {import('webnn-node/onnx').OnnxUnsupportedNode[]} cuts
 */
function printCuts(output, cuts) {
  output.heading(`Cut at ${formatPlural(cuts.length, 'node')}`);
  output.table(
    ['node', 'operator', 'reason'],
    cuts.map(({ name, operator, domain, reason }) => [name, domain === '' ? operator : `${domain}.${operator}`, reason]),
  );
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {import('webnn-node/onnx').OnnxAsFloat32} values
 */
function printAsFloat32(output, { inputs, outputs, nodes, nodeCount }) {
  const more = nodeCount - nodes.length;
  output.heading('Double, computed in float32');
  output.pairs(
    /** @type {[name: string, text: string][]} */ ([
      ['inputs', inputs.join(', ')],
      ['outputs', outputs.join(', ')],
      ['nodes', `${nodes.join(', ')}${more === 0 ? '' : ` and ${more} more`}`],
    ]).filter(([, text]) => text !== ''),
  );
}

/** @type {import('../types.mjs').CommandDefinition['execute']} */
async function execute(output, [path], { freeDimension = {}, missing = false }) {
  if (missing) return printSurvey(output, await survey(path));
  const inspection = await readModel(path, freeDimension);
  const { inputs, optionalInputs, outputs, metadata, computedAsFloat32, operators, parameters, parameterBytes, unsupported, cuts } = inspection;
  const free = symbolsOf(inputs).filter((name) => !Object.hasOwn(freeDimension, name));
  const buildable = unsupported.length === 0 && free.length === 0 && inputs.every(({ shape }) => shape !== null);
  const compiled = buildable ? await withModel(path, { freeDimensions: freeDimension }, async ({ description }) => costOf(description.graph)) : null;
  output.document({
    model: path,
    inputs,
    optionalInputs,
    outputs,
    metadata,
    computedAsFloat32,
    operators,
    parameters,
    parameterBytes,
    compiled,
    unsupported,
    cuts,
  });

  printMetadata(output, path, inspection);
  output.heading('Inputs');
  output.table(['name', 'data type', 'shape'], values(inputs));
  if (optionalInputs.length > 0) {
    output.heading(formatPlural(optionalInputs.length, 'optional input'));
    output.table(['name', 'data type', 'shape'], values(optionalInputs.slice(0, MAX_OPTIONAL)));
  }
  output.heading('Outputs');
  output.table(['name', 'data type', 'shape'], values(outputs));
  const counts = Object.entries(operators).sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  output.heading(
    formatPlural(
      counts.reduce((sum, [, count]) => sum + count, 0),
      'node',
    ),
  );
  output.table(['operator', '>nodes'], counts);
  if (compiled !== null) printCost(output, compiled, cuts.length > 0);
  if (cuts.length > 0) printCuts(output, cuts);
  if (computedAsFloat32.inputs.length + computedAsFloat32.outputs.length + computedAsFloat32.nodeCount > 0) printAsFloat32(output, computedAsFloat32);
  if (free.length > 0 && unsupported.length === 0) {
    output.print('', `For multiply-adds and memory, give sizes, as in ${sizesOf(free)}`);
  }
  if (unsupported.length > 0) printUnsupported(output, unsupported);
  return unsupported.length > 0 ? 1 : 0;
}

/** @type {import('../types.mjs').CommandDefinition} */
export default {
  name: 'inspect',
  description: 'Prints inputs, outputs, operators, parameters, work, memory and unsupported nodes of a model.',
  define: (command) =>
    command
      .argument('<model>', 'an ONNX file, or with --missing also a folder')
      .addOption(freeDimensionOption())
      .option('--missing', 'list the operators that are not supported, of all models in a folder'),
  execute,
  help: HELP,
};
