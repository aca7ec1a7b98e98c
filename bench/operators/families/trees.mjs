// Ensembles of decision trees.

import { casesOf, x } from '../case.mjs';
import { randomNumbers } from 'webnn-node-text/random';

const FEATURES = 30;

/**
 * The attributes of complete trees with random branches. Their leaves vote for `targets` targets in turns, or each for all.
 *
 * @param {number} trees
 * @param {number} levels
 * @param {string} votes prefix of the attributes of votes
 * @param {number} targets
 * @param {boolean} all whether each leaf votes for all targets
 */
function grown(trees, levels, votes, targets = 1, all = false) {
  const random = randomNumbers(trees * 100 + levels);
  const [inner, size] = [2 ** levels - 1, 2 ** (levels + 1) - 1];
  const nodes = Array.from({ length: trees * size }, (_, i) => ({ tree: Math.floor(i / size), node: i % size }));
  const ints = (/** @type {(node: { tree: number, node: number }) => number} */ of) => ({ ints: nodes.map(of) });
  const leaves = nodes.filter(({ node }) => node >= inner);
  const ballots = leaves.flatMap((leaf) => Array.from({ length: all ? targets : 1 }, (_, i) => ({ ...leaf, target: all ? i : leaf.tree % targets })));
  const isLeaf = (/** @type {{ node: number }} */ { node }) => node >= inner;
  return {
    nodes_treeids: ints(({ tree }) => tree),
    nodes_nodeids: ints(({ node }) => node),
    nodes_featureids: ints((node) => (isLeaf(node) ? 0 : Math.floor(random() * FEATURES))),
    nodes_values: { floats: nodes.map((node) => (isLeaf(node) ? 0 : 2 * random() - 1)) },
    nodes_modes: { strings: nodes.map((node) => Buffer.from(isLeaf(node) ? 'LEAF' : 'BRANCH_LEQ')) },
    nodes_truenodeids: ints((node) => (isLeaf(node) ? 0 : 2 * node.node + 1)),
    nodes_falsenodeids: ints((node) => (isLeaf(node) ? 0 : 2 * node.node + 2)),
    [`${votes}_treeids`]: { ints: ballots.map(({ tree }) => tree) },
    [`${votes}_nodeids`]: { ints: ballots.map(({ node }) => node) },
    [`${votes}_ids`]: { ints: ballots.map(({ target }) => target) },
    [`${votes}_weights`]: { floats: ballots.map(() => random()) },
  };
}

/** @param {number} trees @param {number} levels */
const regressor = (trees, levels) => ({ ...grown(trees, levels, 'target'), n_targets: 1 });

/** @param {number} trees @param {number} levels @param {boolean} all */
const classifier = (trees, levels, all) => ({
  ...grown(trees, levels, 'class', 10, all),
  classlabels_int64s: { ints: Array.from({ length: 10 }, (_, i) => i) },
});

/** Sums of 1000 numbers, which onnxruntime adds in float32. */
const SUMS = { tolerance: 1e-4 };

export const TREES = casesOf('trees', [
  ...[1, 100, 10_000].flatMap((rows) =>
    [100, 1000].map(
      (trees) =>
        /** @type {import('../case.mjs').Row} */ ([`${rows} x ${trees}`, 'ai.onnx.ml.TreeEnsembleRegressor', [x(rows, FEATURES)], regressor(trees, 6), SUMS]),
    ),
  ),
  ['1000 x 100, 10 levels', 'ai.onnx.ml.TreeEnsembleRegressor', [x(1000, FEATURES)], regressor(100, 10), SUMS],
  ['1 x 100, of 10 classes', 'ai.onnx.ml.TreeEnsembleClassifier', [x(1, FEATURES)], classifier(100, 6, false), { ...SUMS, results: 2 }],
  ['1000 x 100, of 10 classes', 'ai.onnx.ml.TreeEnsembleClassifier', [x(1000, FEATURES)], classifier(100, 6, false), { ...SUMS, results: 2 }],
  ['1000 x 100, all of 10 classes', 'ai.onnx.ml.TreeEnsembleClassifier', [x(1000, FEATURES)], classifier(100, 6, true), { ...SUMS, results: 2 }],
]);
