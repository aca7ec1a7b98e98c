// A product of matrices of integers, which every order of sums gives exactly, with the instruction set that WEBNN_ISA names.
'use strict';

const assert = require('node:assert/strict');
const { ml, MLGraphBuilder } = require('../../index.js');
const { systemInfo } = require('../../inspect.js');

const [ROWS, DEPTH, COLUMNS] = [37, 129, 53];

async function main() {
  const a = Float32Array.from({ length: ROWS * DEPTH }, (_, i) => (i % 7) - 3);
  const b = Float32Array.from({ length: DEPTH * COLUMNS }, (_, i) => (i % 5) - 2);
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const left = builder.input('a', { dataType: 'float32', shape: [ROWS, DEPTH] });
  const right = builder.constant({ dataType: 'float32', shape: [DEPTH, COLUMNS] }, b);
  const graph = await builder.build({ product: builder.matmul(left, right) });
  const input = await context.createTensor({ dataType: 'float32', shape: [ROWS, DEPTH], writable: true });
  const output = await context.createTensor({ dataType: 'float32', shape: [ROWS, COLUMNS], readable: true });
  context.writeTensor(input, a);
  context.dispatch(graph, { a: input }, { product: output });
  const expected = Float32Array.from({ length: ROWS * COLUMNS }, (_, at) => {
    const [row, column] = [Math.floor(at / COLUMNS), at % COLUMNS];
    return a.subarray(row * DEPTH, (row + 1) * DEPTH).reduce((sum, value, i) => sum + value * b[i * COLUMNS + column], 0);
  });
  assert.deepEqual(new Float32Array(await context.readTensor(output)), expected);
  const { isa } = systemInfo();
  console.log(`${process.platform} ${process.arch}, Node ${process.version}, instruction set ${isa}: right`);
}

main();
