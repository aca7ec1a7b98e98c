// How much a model computes and reads at the least, and what share of the machine's limits a time is.

/** Operators that read only some rows of their first operand. */
const SELECTIVE = /^gather/;

/**
 * The work of one run of a compiled graph.
 *
 * @param {import('webnn-node/inspect').GraphDescription} description
 * @returns {{ multiplyAdds: number, bytes: number }} multiply-adds, and bytes that every run has to read or write in
 *   memory: the constants once, of those that are selected from only what is selected, the inputs and the outputs
 */
export function workOf({ compiled: { values, nodes, inputs, outputs }, steps }) {
  const byId = new Map(values.map((value) => [value.id, value]));
  const bytesOf = (ids) => ids.reduce((sum, id) => sum + byId.get(id).bytes, 0);
  const whole = new Set();
  const selected = new Map();
  for (const node of nodes) {
    for (const id of node.inputs) {
      if (id === null || byId.get(id).kind !== 'constant') continue;
      if (SELECTIVE.test(node.operator)) {
        selected.set(id, Math.min(byId.get(id).bytes, (selected.get(id) ?? 0) + bytesOf(node.outputs)));
      } else {
        whole.add(id);
      }
    }
  }
  const partly = [...selected].filter(([id]) => !whole.has(id)).reduce((sum, [, bytes]) => sum + bytes, 0);
  const ports = bytesOf([...inputs, ...outputs].map(({ value }) => value));
  return {
    multiplyAdds: steps.reduce((sum, step) => sum + step.multiplyAdds, 0),
    bytes: bytesOf([...whole]) + partly + ports,
  };
}

/**
 * The work of all steps of a compiled graph: what a device moves and computes where nothing stays in its caches.
 *
 * @param {import('webnn-node/inspect').StepDescription[]} steps
 * @returns {{ multiplyAdds: number, bytes: number }}
 */
export function workOfSteps(steps) {
  const sum = (amount) => steps.reduce((total, step) => total + amount(step), 0);
  return {
    multiplyAdds: sum((step) => step.multiplyAdds),
    bytes: sum((step) => step.bytesRead + step.bytesWritten),
  };
}

/**
 * The share of the machine's limits that a time is: of computing or of reading, whichever allows less.
 *
 * @param {{ multiplyAdds: number, bytes: number }} work
 * @param {'float32' | 'float16' | 'int8'} kind of the model
 * @param {{ fmaGflops: number, int8Gops: number | null, readGbps: number, cacheBytes: number }} limits for the number of
 *   threads; what fits into `cacheBytes` need not come from memory again
 * @param {number} ms time of one run, in milliseconds
 * @returns {{ share: number, bound: 'compute' | 'memory' }} `share` above 1 is possible: fewer multiplications than the
 *   operators say (Winograd)
 */
export function shareOfLimit({ multiplyAdds, bytes }, kind, limits, ms) {
  const rate = kind === 'int8' ? (limits.int8Gops ?? limits.fmaGflops) : limits.fmaGflops;
  const compute = (2 * multiplyAdds) / (rate * 1e6) / ms;
  const memory = bytes <= limits.cacheBytes ? 0 : bytes / (limits.readGbps * 1e6) / ms;
  return compute >= memory ? { share: compute, bound: 'compute' } : { share: memory, bound: 'memory' };
}
