// `webnn-node profile`: where a model spends its time.
import path from 'node:path';
import { shapesOf } from 'webnn-node-text/elements';
import { write } from '../files.mjs';
import { formatPlural, formatProcessor, formatRate, formatShare, formatTime, printable } from '../format.mjs';
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
  topOption,
  warmupOption,
} from '../options.mjs';
import { startOf } from '../pages/client/text.mjs';
import { chromeTrace, profilePage, stepName, summarize } from '../pages/profile.mjs';
import { profileModel } from '../profile.mjs';

const HELP = `${INPUT_HELP}
Inputs without a value are random.

Times are medians of the runs. GFLOP/s counts two operations per multiply-add,
GB/s the bytes that a step reads and writes. Open the trace in
https://ui.perfetto.dev or chrome://tracing.

Examples:
  webnn-node profile model.onnx
  webnn-node profile model.onnx --threads 1 --runs 50 --top 20
  webnn-node profile model.onnx --trace trace.json --html profile.html`;

/** Longer names of fused operators are truncated. */
const MAX_NAME = 40;

/**
 * @param {import('../output.mjs').Output} output
 * @param {ReturnType<typeof summarize>['perOperator']} perOperator
 */
function printOperators(output, perOperator) {
  output.heading('Operators');
  output.table(
    ['operator', '>steps', '>time', '>share', '>GFLOP/s', '>GB/s'],
    perOperator.map((row) => [
      row.operator,
      row.steps,
      formatTime(row.median),
      formatShare(row.share),
      formatRate(row.gflops),
      formatRate(row.gigabytesPerSecond),
    ]),
  );
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {ReturnType<typeof summarize>['perStep']} perStep
 * @param {number} top
 */
function printSteps(output, perStep, top) {
  const slowest = [...perStep].sort((a, b) => b.median - a.median).slice(0, top);
  output.heading(slowest.length < perStep.length ? `The ${slowest.length} slowest of ${perStep.length} steps` : formatPlural(perStep.length, 'step'));
  output.table(
    ['>#', 'operator', 'label', 'kernel', '>time', '>share', '>GFLOP/s', '>GB/s'],
    slowest.map((row) => [
      row.index,
      startOf(stepName(row), MAX_NAME),
      row.label,
      row.kernel,
      formatTime(row.median),
      formatShare(row.share),
      formatRate(row.gflops),
      formatRate(row.gigabytesPerSecond),
    ]),
  );
}

/** @type {import('../types.mjs').CommandDefinition['execute']} */
async function execute(output, [file], options, isGiven) {
  if (options.json) refuseIdle(isGiven, ['top'], 'the document of --json has all steps');
  requireThreadsOnCpu(isGiven, options.device);
  const inspection = await readModel(file, options.freeDimension);
  const { tensors, freeDimensions } = await readFeeds(inspection, options, RANDOM);
  const { device, threads: wantedThreads, cache } = options;
  const profile = await withModel(file, { freeDimensions, shapes: shapesOf(tensors), device, threads: wantedThreads, cache }, (opened) =>
    profileModel(opened, tensors, options),
  );
  const { runs, perStep, perOperator } = summarize(profile);
  const title = path.basename(file);
  if (options.trace !== undefined) await write(options.trace, JSON.stringify(chromeTrace(profile)));
  if (options.html !== undefined) await write(options.html, profilePage({ title, profile }));
  const { devices, isa, threads, adapter, passes, memory } = profile.description;
  output.document({ model: file, devices, isa, threads, adapter, passes, memory, runs, perOperator, perStep });

  output.print(
    `${output.style('bold', printable(title))}: ${formatTime(runs.median)} a run, median of ${profile.runs.length} (${formatProcessor(profile.description)})`,
  );
  printOperators(output, perOperator);
  printSteps(output, perStep, options.top);
  const written = [options.trace, options.html].filter((file) => file !== undefined);
  if (written.length > 0) output.print('', ...written.map((file) => `wrote ${printable(file)}`));
}

/** @type {import('../types.mjs').CommandDefinition} */
export default {
  name: 'profile',
  description: 'Prints the time of each step and operator of a model, with the rates it reaches.',
  define: (command) => {
    command.argument('<model>', 'an ONNX file');
    for (const option of [...inputOptions(), freeDimensionOption(), ...processorOptions('the model'), cacheOption()]) command.addOption(option);
    command
      .addOption(runsOption('measured runs').default(10))
      .addOption(warmupOption())
      .addOption(topOption('how many steps to print, the slowest first', 15))
      .option('--trace <FILE>', 'write a trace in the Trace Event format (JSON)')
      .option('--html <FILE>', 'write a page that shows the profile');
  },
  execute,
  help: HELP,
};
