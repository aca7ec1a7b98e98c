import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { resultOf } from './helpers.mjs';

const require = createRequire(import.meta.url);
const { Completions, Requests } = require('../../lib/completions.js');

/**
 * Requests whose ends the test reports, and what one copy of the package makes of them.
 *
 * @param {number} lastId
 */
function requestsFrom(lastId) {
  /** @type {(ids: number[], codes: string[], messages: string[], details: unknown[]) => void} */
  let tell;
  /** @type {any} */
  const binding = {
    initialize: (/** @type {typeof tell} */ onComplete) => {
      tell = onComplete;
    },
  };
  const requests = new Requests(binding, lastId);
  const completions = new Completions(requests, (code, message) => Object.assign(new Error(message), { code }));
  return { requests, completions, report: (/** @type {number[]} */ ...ids) => tell(ids, [], [], []) };
}

test('ids start again after 32 bits, without those of pending requests', async () => {
  const { completions, report } = requestsFrom(2 ** 32 - 3);
  const nextIds = (/** @type {number} */ count) => Array.from({ length: count }, () => completions.nextId());
  assert.deepEqual(nextIds(3), [2 ** 32 - 2, 2 ** 32 - 1, 0]);
  const { completions: older } = requestsFrom(2 ** 32 - 3);
  const outcome = older.outcome(2 ** 32 - 1, () => 'pending');
  older.watch(0, () => {});
  assert.deepEqual([older.nextId(), older.nextId()], [2 ** 32 - 2, 1]);
  assert.notEqual(outcome, undefined);
  // An id is free again when its request has ended, not as soon as it is given up.
  const ended = completions.outcome(1, () => 'ended');
  report(1);
  assert.equal(await ended, 'ended');
  const abandoned = completions.outcome(2, () => 'never');
  completions.abandon(2, new Error('given up'));
  await assert.rejects(abandoned, /given up/);
  assert.deepEqual(nextIds(2), [1, 3]);
  const late = requestsFrom(1);
  const given = late.completions.outcome(2, () => 'never');
  late.completions.abandon(2, new Error('given up'));
  await assert.rejects(given, /given up/);
  late.report(2);
  assert.equal(late.completions.nextId(), 2);
});

test('a watch is told of the end of its own event only', () => {
  const { completions, report } = requestsFrom(0);
  /** @type {string[]} */
  const told = [];
  completions.watch(1, () => told.push('one'));
  completions.watch(2, () => told.push('two'));
  report(1);
  report(1);
  assert.deepEqual(told, ['one']);
});

test('a listener that throws takes no other end of its batch with it', async () => {
  const { requests, completions, report } = requestsFrom(0);
  requests.add(1, {
    end: () => {
      throw new Error('on purpose');
    },
  });
  const others = [2, 3].map((id) => completions.outcome(id, () => id));
  assert.throws(() => report(1, 2, 3), /on purpose/);
  assert.deepEqual(await Promise.all(others), [2, 3]);
});

test('what the end of a request throws rejects its promise', async () => {
  const { completions, report } = requestsFrom(0);
  const outcome = completions.outcome(1, () => {
    throw new RangeError('no room');
  });
  report(1);
  await assert.rejects(outcome, /no room/);
});

/** Starts requests, lets all of them end before one is reported, and says how each ends. */
const BATCH = `
import { loadModel } from 'webnn-node/onnx';
import { FLOAT, node, value, writeModel } from ${JSON.stringify(new URL('../onnx/model-writer.mjs', import.meta.url))};
const tiny = (parts = {}) => writeModel({
  inputs: [value('x', FLOAT, [1])], outputs: [value('y', FLOAT, [1])], nodes: [node('Neg', ['x'], ['y'])], ...parts,
});
const caught = [];
process.on('uncaughtException', (error) => caught.push(error.message));
// How long a profile takes is up to the device, and on a GPU it can be minutes.
const context = await helpers.ml.createContext({ numThreads: 1, accelerated: false });
const settled = async (requests) => {
  const ends = requests.map((request) => request.then((value) => [typeof value], ({ name, code, message }) => [name, code, message]));
  // This thread is blocked while the requests end on others.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000);
  return Promise.race([Promise.all(ends), new Promise((resolve) => setTimeout(resolve, 300_000, 'they never settle').unref())]);
};
const others = () => [context.createTensor(helpers.floats(2)), loadModel(tiny(), { context })];
`;

test('a result that is longer than a string can be rejects its request, and no other one', async () => {
  // A control character has six characters as JSON.
  const { ends, caught } = await resultOf(`${BATCH}
    const metadata_props = [{ key: 'long', value: '\\0'.repeat(2 ** 27) }];
    const ends = await settled([...others(), loadModel(tiny({ metadata_props }), { context }), ...others()]);
    console.log(JSON.stringify({ ends, caught }));`);
  assert.deepEqual(caught, []);
  const long = ends.splice(2, 1)[0];
  assert.deepEqual(ends, Array(4).fill(['object']));
  assert.deepEqual(long.slice(0, 2), ['OperationError', 'ERR_WEBNN_OPERATION']);
  assert.match(long[2], /^loadModel: a description has more than \d+ bytes/);
});

test('a profile of more graphs than fit into a string lists the first ones, whatever else ends with it', async () => {
  const { ends, caught, rounds } = await resultOf(`${BATCH}
    import { BOOL, INT64, weight } from ${JSON.stringify(new URL('../onnx/model-writer.mjs', import.meta.url))};
    // A loop of as many rounds as a feed says. The profile has the names of the nodes in each of them.
    const [STEPS, ROUNDS] = [20, 20_000];
    const steps = Array.from({ length: STEPS }, (_, i) =>
      node(i % 2 ? 'Softmax' : 'Transpose', ['v' + i], ['v' + (i + 1)], {}, i + '\\u0001'.repeat(250)));
    const body = {
      name: 'body',
      node: [node('Identity', ['on'], ['still']), ...steps],
      input: [value('round', INT64, []), value('on', BOOL, []), value('v0', FLOAT, [2, 2])],
      output: [value('still', BOOL, []), value('v' + STEPS, FLOAT, [2, 2])],
    };
    const model = await loadModel(writeModel({
      inputs: [value('n', INT64, []), value('x', FLOAT, [2, 2])],
      outputs: [value('y', FLOAT, [2, 2])],
      weights: [weight('true', [], Uint8Array.of(1), BOOL)],
      nodes: [node('Loop', ['n', 'true', 'x'], ['y'], { body: { g: body } })],
    }), { context });
    const profile = (rounds) => model.profile({ n: BigInt64Array.of(rounds), x: new Float32Array(4) });
    const { graphs } = await profile(2n);
    if (graphs.length !== 2) throw new Error('expected a graph per round, there are ' + graphs.length);
    const long = profile(BigInt(ROUNDS));
    const ends = await settled([...others(), long, ...others()]);
    const { graphs: listed, omittedGraphs } = await long;
    console.log(JSON.stringify({ ends, caught, rounds: [listed.length, omittedGraphs] }));`);
  assert.deepEqual(caught, []);
  assert.deepEqual(ends, Array(5).fill(['object']));
  assert.ok(rounds[0] > 1000 && rounds[1] > 1000, `${rounds}`);
  assert.equal(rounds[0] + rounds[1], 20_000);
});

test('a result that JavaScript refuses rejects its request, and no other one', async () => {
  // Native handles come first in the lists of results of models.
  const { ends, caught } = await resultOf(`${BATCH}
    import { types } from 'node:util';
    const model = await loadModel(tiny(), { context });
    const requests = [context.createTensor(helpers.floats(2)), model.describe(), loadModel(tiny(), { context }), context.createTensor(helpers.floats(2))];
    Object.defineProperty(Array.prototype, 0, {
      configurable: true,
      set(element) {
        if (types.isExternal(element)) throw new Error('on purpose');
        Object.defineProperty(this, 0, { value: element, writable: true, enumerable: true, configurable: true });
      },
    });
    const ends = await settled(requests);
    delete Array.prototype[0];
    console.log(JSON.stringify({ ends, caught }));`);
  assert.deepEqual(caught, []);
  const [refused] = ends.splice(2, 1);
  assert.deepEqual(ends, Array(3).fill(['object']));
  assert.deepEqual(refused.slice(0, 2), ['OperationError', 'ERR_WEBNN_OPERATION']);
  assert.match(refused[2], /cannot be passed to JavaScript/);
});
