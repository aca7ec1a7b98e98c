// The models of the benchmark.

import { BOOL, FLOAT, INT64, node, value, weight, writeModel } from '../../__test__/onnx/model-writer.mjs';

const f32 = (/** @type {number[]} */ ...numbers) => Float32Array.from(numbers);
const i64 = (/** @type {number[]} */ ...numbers) => BigInt64Array.from(numbers, BigInt);
const graph = (/** @type {object[]} */ nodes, /** @type {object[]} */ outputs) => ({ name: 'g', node: nodes, output: outputs });

/** `count` nodes, four of five of them shape arithmetic as exporters write it, on an input of free size. */
function chain(/** @type {number} */ count) {
  const nodes = [];
  let x = 'x';
  for (let at = 0; at < count / 5; at++) {
    nodes.push(
      node('Shape', [x], [`s${at}`]),
      node('Gather', [`s${at}`, 'index'], [`n${at}`]),
      node('Unsqueeze', [`n${at}`, 'zero'], [`u${at}`]),
      node('Concat', [`u${at}`, 'four'], [`c${at}`], { axis: { i: 0 } }),
      node('Reshape', [x, `c${at}`], [`r${at}`]),
    );
    x = `r${at}`;
  }
  return writeModel({
    inputs: [value('x', FLOAT, ['n', 4])],
    outputs: [value(x, FLOAT, ['n', 4])],
    nodes,
    weights: [weight('index', [], i64(0)), weight('zero', [1], i64(0)), weight('four', [1], i64(4))],
  });
}

/** `count` cuts, one after another. */
function cuts(/** @type {number} */ count) {
  const nodes = [];
  let x = 'x';
  for (let at = 0; at < count; at++) {
    nodes.push(
      node('NonZero', [x], [`p${at}`]),
      node('Cast', [`p${at}`], [`f${at}`], { to: { i: FLOAT } }),
      node('ReduceSum', [`f${at}`], [`s${at}`], { keepdims: { i: 0 } }),
      node('Add', ['x', `s${at}`], [`y${at}`]),
    );
    x = `y${at}`;
  }
  return {
    bytes: writeModel({ inputs: [value('x', FLOAT, [4])], outputs: [value(x, FLOAT, [4])], nodes }),
    feeds: { x: f32(1, 0, 2, 0) },
  };
}

/** Ifs of a computed condition, side by side, that read some of many initializers. */
function branches(/** @type {number} */ ifs, /** @type {number} */ weights) {
  const nodes = [node('ReduceSum', ['x'], ['sum'], { keepdims: { i: 0 } }), node('Greater', ['sum', 'zero'], ['c'])];
  for (let at = 0; at < ifs; at++) {
    const then = graph([node('NonZero', ['x'], ['p']), node('Shape', ['p'], ['t'])], [value('t', INT64)]);
    const otherwise = graph([node('Shape', [`w${at % weights}`], ['e'])], [value('e', INT64)]);
    nodes.push(node('If', ['c'], [`y${at}`], { then_branch: { g: then }, else_branch: { g: otherwise } }));
  }
  return {
    bytes: writeModel({
      inputs: [value('x', FLOAT, [4])],
      outputs: Array.from({ length: ifs }, (_, at) => value(`y${at}`, INT64)),
      nodes,
      weights: [weight('zero', [], f32(0)), ...Array.from({ length: weights }, (_, at) => weight(`w${at}`, [1], f32(1)))],
    }),
    feeds: { x: f32(1, 0, 2, 0) },
  };
}

/** Ifs within Ifs, as deep as allowed, side by side, about a megabyte. */
function nested(/** @type {number} */ copies, /** @type {number} */ depth) {
  /** @type {(level: number) => object} */
  const inner = (level) =>
    level === 0
      ? graph([node('Neg', ['x'], ['b'])], [value('b', FLOAT)])
      : graph([node('If', ['c'], ['b'], { then_branch: { g: inner(level - 1) }, else_branch: { g: inner(0) } })], [value('b', FLOAT)]);
  const nodes = Array.from({ length: copies }, (_, at) => node('If', ['c'], [`y${at}`], { then_branch: { g: inner(depth) }, else_branch: { g: inner(0) } }));
  return {
    bytes: writeModel({
      inputs: [value('x', FLOAT, [2]), value('c', BOOL, [])],
      outputs: nodes.map((_, at) => value(`y${at}`, FLOAT, [2])),
      nodes,
    }),
    feeds: { x: f32(1, 2), c: Uint8Array.of(1) },
  };
}

/** Gathers from as many tables by one input. */
function lookups(/** @type {number} */ count) {
  const nodes = [];
  for (let at = 0; at < count; at++) {
    nodes.push(node('Gather', [`t${at}`, 'ids'], [`g${at}`]));
    nodes.push(node('Add', [at === 0 ? 'g0' : `a${at - 1}`, `g${at}`], [`a${at}`]));
  }
  return {
    bytes: writeModel({
      inputs: [value('ids', INT64, ['n'])],
      outputs: [value(`a${count - 1}`, FLOAT)],
      nodes,
      weights: Array.from({ length: count }, (_, at) => weight(`t${at}`, [3 + (at % 7)], new Float32Array(3 + (at % 7)))),
    }),
    feeds: { ids: i64(1, 2) },
  };
}

/** @type {Record<string, () => { bytes: Uint8Array, feeds?: Record<string, any> }>} */
export const cases = {
  'chain of 4,000': () => ({ bytes: chain(4000), feeds: { x: { data: new Float32Array(8), shape: [2, 4] } } }),
  'chain of 100,000': () => ({ bytes: chain(100_000) }),
  '100 cuts': () => cuts(100),
  '400 cuts': () => cuts(400),
  '1,600 cuts': () => cuts(1600),
  '400 branches, 4,000 weights': () => branches(400, 4000),
  'nested Ifs of 1 MB': () => nested(900, 13),
  '8,000 tables': () => lookups(8000),
};
