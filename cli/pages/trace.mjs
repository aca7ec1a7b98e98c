// Profiles in the Trace Event Format, which chrome://tracing and Perfetto open.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

import { typeText } from './types.mjs';

const PROCESS = 1;
const THREAD = 1;

/** The format counts in microseconds and takes fractions. */
const microseconds = (nanoseconds) => nanoseconds / 1000;

/** What a step reads and writes, as text; empty for a step that belongs to no node of the compiled graph. */
function typesOf({ node: id }, nodes, values) {
  const node = nodes.get(id);
  const types = (ids) => ids.map((value) => (value === null ? null : typeText(values.get(value))));
  return node === undefined ? {} : { inputs: types(node.inputs), outputs: types(node.outputs), epilogue: node.epilogue };
}

/**
 * All runs of a profile on one thread: a slice per run, and within it a slice per step.
 *
 * @param {import('webnn-node/inspect').GraphProfile} profile
 * @returns {object} to be written with JSON.stringify
 */
export function chromeTrace({ description, runs }) {
  const { compiled, isa, threads, adapter } = description;
  const nodes = new Map(compiled.nodes.map((node) => [node.id, node]));
  const values = new Map(compiled.values.map((value) => [value.id, value]));
  const steps = description.steps.map((step) => {
    const { index, kernel, operator, label, multiplyAdds, bytesRead, bytesWritten, inputLayouts } = step;
    return {
      name: label === '' ? operator : `${operator} ${label}`,
      cat: operator,
      args: { step: index, kernel, ...typesOf(step, nodes, values), inputLayouts, multiplyAdds, bytesRead, bytesWritten },
    };
  });

  const slice = ({ start, duration }, rest) => ({ ph: 'X', pid: PROCESS, tid: THREAD, ts: microseconds(start), dur: microseconds(duration), ...rest });
  const slices = runs.flatMap((run, i) => [
    slice(run, { name: `run ${i}`, cat: 'run', args: { run: i } }),
    ...run.steps.map(({ start, duration }, place) => slice({ start: run.start + start, duration }, steps[place])),
  ]);
  const metadata = (name, args) => ({ ph: 'M', pid: PROCESS, tid: THREAD, ts: 0, name, args });
  return {
    traceEvents: [metadata('process_name', { name: 'webnn-node' }), metadata('thread_name', { name: 'steps' }), ...slices],
    displayTimeUnit: 'ns',
    otherData: adapter === null ? { isa, threads: String(threads) } : { adapter },
  };
}
