// Models that compute less precisely than their data types say.

/**
 * Names of the inputs, outputs and nodes that the file declares as double and that are computed in float32.
 * @param {import('webnn-node/onnx').OnnxAsFloat32} computedAsFloat32
 * @returns {[what: 'inputs' | 'outputs' | 'nodes', names: string][]} none for other models
 */
export function float32Names({ inputs, outputs, nodes, nodeCount }) {
  const listed = nodeCount > nodes.length ? [...nodes, `${nodeCount - nodes.length} more`] : nodes;
  const all = /** @type {const} */ ([
    ['inputs', inputs],
    ['outputs', outputs],
    ['nodes', listed],
  ]);
  return all.filter(([, names]) => names.length > 0).map(([what, names]) => [what, names.join(', ')]);
}

/**
 * A line for the log.
 * @param {{ computedAsFloat32: import('webnn-node/onnx').OnnxAsFloat32 }} model
 * @returns {string[]} none for models that compute what they say
 */
export function float32Warnings({ computedAsFloat32 }) {
  const names = float32Names(computedAsFloat32);
  return names.length === 0 ? [] : [`FP64 is computed in float32: ${names.map(([what, listed]) => `${what} ${listed}`).join('; ')}`];
}
