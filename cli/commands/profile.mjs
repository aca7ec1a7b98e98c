// `webnn-node profile`: where the time of a model goes.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { profileGraph } from 'webnn-node/inspect';
import { shapesOf } from '../elements.mjs';
import { Failure } from '../errors.mjs';
import { formatDuration, formatPercent, formatPlural, formatRate, printable } from '../format.mjs';
import { readFeeds, readModel, withModel } from '../model.mjs';
import { freeDimensionOption, INPUT_HELP, inputOptions, runsOption, threadsOption, topOption, warmupOption } from '../options.mjs';
import { chromeTrace, profilePage, summarize } from '../pages/profile.mjs';
import { withProgress } from '../progress.mjs';

const HELP = `${INPUT_HELP}
Inputs without a value are random.

Times are medians over the runs. GFLOP/s counts two operations per multiply-add,
GB/s the bytes that a step reads and writes. The trace opens in chrome://tracing
and in https://ui.perfetto.dev.

Examples:
  webnn-node profile model.onnx
  webnn-node profile model.onnx --threads 1 --runs 50 --top 20
  webnn-node profile model.onnx --trace trace.json --html profile.html`;

/** Nanoseconds, as the profile has them. */
const duration = (nanoseconds) => formatDuration(nanoseconds / 1e6);

/** What inputs without a value get. */
export const RANDOM = { kind: 'random', seed: 0 };

/**
 * Profiles the graph of an opened model.
 * @param {{ context: MLContext, specialization: OnnxSpecialization }} opened
 * @param {Record<string, { data: ArrayBufferView }>} tensors by input name
 * @param {{ runs: number, warmup: number }} options
 * @returns {Promise<import('webnn-node/inspect').GraphProfile>}
 */
export async function profileModel({ context, specialization }, tensors, { runs, warmup }) {
  const { graph } = specialization;
  if (graph === null) throw new Failure('there is nothing to profile: no output of the model has any elements');
  const create = async (descriptors, access) => Object.fromEntries(
    await Promise.all(Object.entries(descriptors).map(async ([name, { dataType, shape }]) =>
      [name, await context.createTensor({ dataType, shape, ...access })])),
  );
  const inputs = await create(specialization.inputs, { writable: true });
  const outputs = await create(specialization.outputs, {});
  for (const [name, tensor] of Object.entries(inputs)) context.writeTensor(tensor, tensors[name].data);
  return withProgress('profiling', () => profileGraph(context, graph, inputs, outputs, { runs, warmup }));
}

function printOperators(output, perOperator) {
  output.heading('Operators');
  output.table(
    ['operator', '>steps', '>time', '>share', '>GFLOP/s', '>GB/s'],
    perOperator.map((row) => [row.operator, row.steps, duration(row.median), formatPercent(row.share), formatRate(row.gflops), formatRate(row.gigabytesPerSecond)]),
  );
}

function printSteps(output, perStep, top) {
  const slowest = [...perStep].sort((a, b) => b.median - a.median).slice(0, top);
  output.heading(slowest.length < perStep.length ? `The ${slowest.length} slowest of ${perStep.length} steps` : formatPlural(perStep.length, 'step'));
  output.table(
    ['>#', 'operator', 'label', 'kernel', '>time', '>share', '>GFLOP/s', '>GB/s'],
    slowest.map((row) => [row.index, row.operator, row.label, row.kernel, duration(row.median), formatPercent(row.share), formatRate(row.gflops), formatRate(row.gigabytesPerSecond)]),
  );
}

async function execute(output, [file], options) {
  const { inputs } = await readModel(file, options.freeDimension);
  const { tensors, freeDimensions } = await readFeeds(inputs, options, RANDOM);
  const profile = await withModel(file, { freeDimensions, shapes: shapesOf(tensors), threads: options.threads }, (opened) => profileModel(opened, tensors, options));
  const { runs, perStep, perOperator } = summarize(profile);
  const title = path.basename(file);
  if (options.trace !== undefined) await writeFile(options.trace, JSON.stringify(chromeTrace(profile)));
  if (options.html !== undefined) await writeFile(options.html, profilePage({ title, profile }));
  const { isa, threads, passes, memory } = profile.description;
  output.document({ model: file, isa, threads, passes, memory, runs, perOperator, perStep });

  output.print(`${output.style('bold', printable(title))}: ${duration(runs.median)} a run, median of ${profile.runs.length} (${isa}, ${formatPlural(threads, 'thread')})`);
  printOperators(output, perOperator);
  printSteps(output, perStep, options.top);
  for (const written of [options.trace, options.html]) if (written !== undefined) output.print('', `wrote ${printable(written)}`);
}

export default {
  name: 'profile',
  description: 'Prints the time of each step and operator of a model, with the rates that it reaches.',
  define: (command) => {
    command.argument('<model>', 'an ONNX file');
    for (const option of inputOptions()) command.addOption(option);
    command
      .addOption(freeDimensionOption())
      .addOption(threadsOption())
      .addOption(runsOption('runs that count').default(10))
      .addOption(warmupOption())
      .addOption(topOption('how many steps to print, the slowest first', 15))
      .option('--trace <FILE>', 'write a trace in the Trace Event format (JSON)')
      .option('--html <FILE>', 'write a page that shows the profile');
  },
  execute,
  help: HELP,
};
