// The minimum work of a model, and the share of the machine's limits that a time reaches.

/** Operators that read only some rows of their first operand. */
const SELECTIVE = /^gather/;

/**
 * Returns the work of one run of a compiled graph.
 *
 * @param {Pick<import('../inspect.js').GraphDescription, 'compiled' | 'steps'>} description
 * @returns {import('./types.mjs').Work} the bytes that every run must read or write in memory: the constants once, of
 *   those read by a selection only the selected part, the inputs and the outputs
 */
export function workOf({ compiled: { values, nodes, inputs, outputs }, steps }) {
  const byId = /** @type {{ get(id: number): import('../inspect.js').ListedValue }} */ (new Map(values.map((value) => [value.id, value])));
  const bytesOf = (/** @type {number[]} */ ids) => ids.reduce((sum, id) => sum + byId.get(id).bytes, 0);
  /** @type {Set<number>} */
  const whole = new Set();
  /** @type {Map<number, number>} */
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
 * Returns the work of all steps of a compiled graph, for a device whose caches hold nothing between steps.
 *
 * @param {Pick<import('../inspect.js').StepDescription, 'multiplyAdds' | 'bytesRead' | 'bytesWritten'>[]} steps
 * @returns {import('./types.mjs').Work}
 */
export function workOfSteps(steps) {
  const sum = (/** @type {(step: typeof steps[number]) => number} */ amount) => steps.reduce((total, step) => total + amount(step), 0);
  return {
    multiplyAdds: sum((step) => step.multiplyAdds),
    bytes: sum((step) => step.bytesRead + step.bytesWritten),
  };
}

/**
 * Returns the share of the machine's limits that a time reaches: of arithmetic or of bandwidth, whichever is the
 * bottleneck.
 *
 * @param {import('./types.mjs').Work} work
 * @param {import('./types.mjs').Kind} kind of the model
 * @param {{ fmaGflops: number, int8Gops: number | null, readGbps: number, cacheBytes: number }} limits for the number
 *   of threads; data that fit into `cacheBytes` need not come from memory again
 * @param {number} ms time of one run, in milliseconds
 * @returns {{ share: number, bound: 'compute' | 'memory' }} `share` can exceed 1 with fewer multiplications than the
 *   operators count (Winograd)
 */
export function shareOfLimit({ multiplyAdds, bytes }, kind, limits, ms) {
  const rate = kind === 'int8' ? (limits.int8Gops ?? limits.fmaGflops) : limits.fmaGflops;
  const compute = (2 * multiplyAdds) / (rate * 1e6) / ms;
  const memory = bytes <= limits.cacheBytes ? 0 : bytes / (limits.readGbps * 1e6) / ms;
  return compute >= memory ? { share: compute, bound: 'compute' } : { share: memory, bound: 'memory' };
}
