// Writes profiles in the Trace Event Format, which chrome://tracing and Perfetto open.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

import { typeText } from './types.mjs';

const PROCESS = 1;
const THREAD = 1;

/** The format uses microseconds and allows fractions. */
const microseconds = (/** @type {number} */ nanoseconds) => nanoseconds / 1000;

/**
 * Returns the operands and results of a step as text; empty for a step without a node in the compiled graph.
 * @param {import('webnn-node/inspect').StepDescription} step
 * @param {Map<number, import('webnn-node/inspect').ListedNode>} nodes
 * @param {import('./data.mjs').Total<number, import('webnn-node/inspect').ListedValue>} values
 */
function typesOf({ node: id }, nodes, values) {
  const node = id === null ? undefined : nodes.get(id);
  const types = (/** @type {(number | null)[]} */ ids) => ids.map((value) => (value === null ? null : typeText(values.get(value))));
  return node === undefined ? {} : { inputs: types(node.inputs), outputs: types(node.outputs), epilogue: node.epilogue };
}

/**
 * Returns all runs of a profile on one thread: a slice per run, and within it a slice per step.
 *
 * @param {import('webnn-node/inspect').GraphProfile} profile
 * @returns {object} to be written with JSON.stringify
 */
export function chromeTrace({ description, runs }) {
  const { compiled, isa, threads, adapter } = description;
  const nodes = new Map(compiled.nodes.map((node) => [node.id, node]));
  const values = /** @type {import('./data.mjs').Total<number, import('webnn-node/inspect').ListedValue>} */ (
    new Map(compiled.values.map((value) => [value.id, value]))
  );
  const steps = description.steps.map((step) => {
    const { index, kernel, operator, label, multiplyAdds, bytesRead, bytesWritten } = step;
    return {
      name: label === '' ? operator : `${operator} ${label}`,
      cat: operator,
      args: { step: index, kernel, ...typesOf(step, nodes, values), multiplyAdds, bytesRead, bytesWritten },
    };
  });

  const slice = (/** @type {import('webnn-node/inspect').TimeSpan} */ { start, duration }, /** @type {object} */ rest) => ({
    ph: 'X',
    pid: PROCESS,
    tid: THREAD,
    ts: microseconds(start),
    dur: microseconds(duration),
    ...rest,
  });
  const slices = runs.flatMap((run, i) => [
    slice(run, { name: `run ${i}`, cat: 'run', args: { run: i } }),
    ...run.steps.map(({ start, duration }, place) => slice({ start: run.start + start, duration }, steps[place])),
  ]);
  const metadata = (/** @type {string} */ name, /** @type {object} */ args) => ({ ph: 'M', pid: PROCESS, tid: THREAD, ts: 0, name, args });
  return {
    traceEvents: [metadata('process_name', { name: 'webnn-node' }), metadata('thread_name', { name: 'steps' }), ...slices],
    displayTimeUnit: 'ns',
    otherData: adapter === null ? { isa, threads: String(threads) } : { adapter },
  };
}
