// Writes the first corpus of the fuzz target: one small model per operator, and the structures that models have.
//
//   node fuzz/seeds.mjs [FOLDER]        default: fuzz/corpus/onnx

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FLOAT, INT64, externalWeight, node, value, weight, writeModel } from '../__test__/onnx/model-writer.mjs';
import { supportedOperators } from '../onnx.js';

const folder = process.argv[2] ?? fileURLToPath(new URL('corpus/onnx', import.meta.url));
mkdirSync(folder, { recursive: true });
/** @type {(name: string, model: Parameters<typeof writeModel>[0]) => void} */
const write = (name, model) => writeFileSync(join(folder, `${name}.onnx`), writeModel(model));

const x = value('x', FLOAT, [1, 2, 4, 'n']);
const inputs = [x, value('i', INT64, [2])];
const outputs = [value('y', FLOAT)];
const weights = [weight('w', [2, 2, 1, 1], Float32Array.of(1, 2, 3, 4)), weight('s', [2], BigInt64Array.of(1n, 2n))];
const attributes = { axis: { i: 1 }, axes: { ints: [1] }, alpha: { f: 0.5 }, kernel_shape: { ints: [2, 2] }, pads: { ints: [0, 1, 0, 1] } };

for (const { domain, operator } of supportedOperators()) {
  const name = domain === '' ? operator : `${domain}.${operator}`;
  for (const [index, operands] of [['x'], ['x', 'w'], ['x', 's'], ['x', 'x', 'x'], ['w', 's', 'i']].entries()) {
    const results = index === 4 ? ['y', 'z'] : ['y'];
    write(`${name}-${index}`, { inputs, outputs, weights, nodes: [node(name, operands, results, index % 2 === 0 ? {} : attributes)] });
  }
}

/** @type {(nodes: object[], from: object[], to: object[]) => object} */
const body = (nodes, from, to) => ({ g: { node: nodes, input: from, output: to } });
const relu = body([node('Relu', ['x'], ['b'])], [], [value('b', FLOAT)]);
write('structure-if', {
  inputs,
  outputs,
  weights: [...weights, { name: 'c', data_type: 9, raw_data: Uint8Array.of(1) }],
  nodes: [node('If', ['c'], ['y'], { then_branch: relu, else_branch: relu })],
});
write('structure-loop', {
  inputs,
  outputs,
  weights: [weight('trips', [], BigInt64Array.of(3n))],
  nodes: [
    node('Loop', ['trips', '', 'x'], ['y', 'all'], {
      body: body(
        [node('Identity', ['go'], ['on']), node('Abs', ['v'], ['next']), node('Abs', ['v'], ['scan'])],
        [value('at', INT64, []), value('go', 9, []), value('v', FLOAT)],
        [value('on', 9), value('next', FLOAT), value('scan', FLOAT)],
      ),
    }),
  ],
});
write('structure-external', { inputs, outputs, weights: [externalWeight('w', [2], 'w.bin', 0, 8)], nodes: [node('Add', ['x', 'w'], ['y'])] });
write('structure-shapes', {
  inputs,
  outputs,
  weights,
  nodes: [
    node('Shape', ['x'], ['a']),
    node('Gather', ['a', 's'], ['b']),
    node('Concat', ['b', 's'], ['c'], { axis: { i: 0 } }),
    node('ConstantOfShape', ['c'], ['d']),
    node('NonZero', ['d'], ['e']),
    node('Expand', ['x', 'a'], ['f']),
    node('Reshape', ['f', 'a'], ['y']),
  ],
});
