// `webnn-node view`: writes a page that shows a model before and after compilation.
import path from 'node:path';
import { shapesOf } from 'webnn-node-text/elements';
import { Failure } from '../errors.mjs';
import { write } from '../files.mjs';
import { formatBytes, formatPlural, printable } from '../format.mjs';
import { RANDOM } from '../inputs.mjs';
import { readFeeds, readModel, withModel } from '../model.mjs';
import {
  cacheOption,
  freeDimensionOption,
  INPUT_HELP,
  inputOptions,
  processorOptions,
  refuseIdle,
  requireThreadsOnCpu,
  runsOption,
  warmupOption,
} from '../options.mjs';
import { profileModel } from '../profile.mjs';
import { withLabel } from '../progress.mjs';

const HELP = `${INPUT_HELP}
Inputs are used by --profile; those without a value are random.
If data decide sizes or branches, the model runs in stages. The page shows the
first one, and where the next one begins.

The page is one file that needs no network.

Examples:
  webnn-node view model.onnx -o model.html
  webnn-node view model.onnx -o model.html --profile
  webnn-node view model.onnx -o model.html --free-dimension batch=1`;

/** Options that only affect times or input values, not the graph. */
const OF_PROFILES = ['runs', 'warmup', 'mean', 'std', 'scale', 'randomRange'];

/**
 * Returns the graph to show.
 * @param {import('webnn-node/onnx').OnnxDescription} description
 */
function graphOf({ graph, cuts }) {
  if (graph !== null) return graph;
  if (cuts.length === 0) throw new Failure('there is nothing to show: no output of the model has any elements');
  const nodes = cuts.map(({ name, operator, reason }) => printable(`[${name}] ${operator}: ${reason}`));
  throw new Failure(`there is nothing to show: the model is cut before anything is computed\n${nodes.join('\n')}`);
}

/** @type {import('../types.mjs').CommandDefinition['execute']} */
async function execute(output, [file], options, isGiven) {
  if (!options.profile) refuseIdle(isGiven, OF_PROFILES, 'the page has a profile with --profile');
  requireThreadsOnCpu(isGiven, options.device);
  const inspection = await readModel(file, options.freeDimension);
  const { inputs, outputs, metadata } = inspection;
  const { tensors, freeDimensions } = await readFeeds(inspection, options, RANDOM);
  const { device, threads, cache } = options;
  const { described, profile } = await withModel(file, { freeDimensions, shapes: shapesOf(tensors), device, threads, cache }, async (opened) => ({
    described: opened.description,
    profile: options.profile ? await profileModel(opened, tensors, options) : undefined,
  }));
  const description = graphOf(described);
  const { cuts, nodesLeft } = described;
  const title = path.basename(file);
  // Imported here because the layout code is large.
  const { viewPage } = await import('../pages/view.mjs');
  const parts = { title, description, ...(profile && { profile }), model: { inputs, outputs, metadata }, cuts, nodesLeft };
  const page = await withLabel('drawing the graph', () => viewPage(parts));
  await write(options.output, page);
  const [source, compiled] = [description.source.nodes.length, description.compiled.nodes.length];
  const bytes = Buffer.byteLength(page);
  output.document({ model: file, page: options.output, bytes, nodes: { source, compiled }, cuts, nodesLeft });
  output.print(`wrote ${printable(options.output)} (${formatBytes(bytes)}): ${formatPlural(source, 'node')}, ${compiled} after compilation`);
  if (cuts.length > 0) output.print(`it shows the first stage: ${formatPlural(nodesLeft, 'node')} of the model run after ${formatPlural(cuts.length, 'cut')}`);
}

/** @type {import('../types.mjs').CommandDefinition} */
export default {
  name: 'view',
  description: 'Writes a page that shows the graph of a model before and after compilation.',
  define: (command) => {
    command.argument('<model>', 'an ONNX file').requiredOption('-o, --output <FILE>', 'the page to write').option('--profile', 'show where the time goes');
    for (const option of [...inputOptions(), freeDimensionOption(), ...processorOptions('the model'), cacheOption()]) command.addOption(option);
    command.addOption(runsOption('runs of the profile').default(10)).addOption(warmupOption());
  },
  execute,
  help: HELP,
};
