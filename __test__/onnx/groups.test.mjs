// Caches that are fed back with one property: feeds.past = results.present.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { runNode } from '../lib/processes.mjs';
import { CACHE, cacheShape, decoder } from './decoder.mjs';
import { FLOAT, FLOAT16, node, value, weight, writeModel } from './model-writer.mjs';

const MEASURE = new URL('../../bench/border/measure.mjs', import.meta.url);

let context;
before(async () => {
  context = await ml.createContext({ numThreads: 1 });
});
after(() => context.destroy());

const ids = (...numbers) => ({ data: BigInt64Array.from(numbers, BigInt), shape: [1, numbers.length] });
const empty = () => Object.fromEntries(CACHE.map((name) => [`past_key_values.${name}`, { data: new Float32Array(0), shape: cacheShape(0) }]));
const named = (results) => Object.fromEntries(CACHE.map((name) => [`past_key_values.${name}`, results[`present.${name}`]]));

/** Inputs of a step except the cache. */
const step = (past, ...tokens) => ({ input_ids: ids(...tokens), attention_mask: ids(...Array(past + tokens.length).fill(1)) });

/**
 * A model that appends a number to each of some caches; `pairs` are names of inputs and of the outputs that become them.
 */
const appending = (pairs, type = FLOAT) =>
  writeModel({
    inputs: [value('x', type, [1, 1, 'new', 1]), ...pairs.map(([input]) => value(input, type, [1, 1, 'past', 1]))],
    outputs: [value('y', type, [1, 1, 'new', 1]), ...pairs.map(([, output]) => value(output, type, [1, 1, 'total', 1]))],
    nodes: [node('Neg', ['x'], ['y']), ...pairs.map(([input, output]) => node('Concat', [input, 'x'], [output], { axis: { i: 2 } }))],
  });

const row = (...numbers) => ({ data: Float32Array.from(numbers), shape: [1, 1, numbers.length, 1] });

/** Feeds of empty caches. */
const start = ({ inputs }) => Object.fromEntries(inputs.filter(({ name }) => name !== 'x').map(({ name }) => [name, row()]));

/** The results of the second step, when caches have begun to grow in place: each holds 1 and 2. */
const grown = async (model) => model.run({ x: row(2), past: (await model.run({ x: row(1), ...start(model) })).present });

/** The caches among results: `1,2 3,4`. */
const shown = (results) =>
  Object.keys(results)
    .filter((name) => name !== 'y')
    .map((name) => results[name].data.join())
    .join(' ');

const TWO = [1, 2].map((layer) => [`past.${layer}`, `present.${layer}`]);

/**
 * Bytes of JavaScript's heap that a token of a decoder with 48 caches may take: 3.7 KB were measured for a group, of which the program
 * itself takes 0.5 KB, and 7.3 KB for caches by their names; closures and an entry of a WeakMap per cache took 92 KB.
 */
const HEAP = { grouped: 6 << 10, named: 12 << 10 };

test('caches that go around leave little garbage', async () => {
  const heapOf = async (grouped) => {
    const parameters = { layers: 24, tokens: 2000, heads: 1, size: 4, grouped };
    const flags = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256'];
    const { code, stdout, stderr } = await runNode([...flags, fileURLToPath(MEASURE), JSON.stringify(parameters)]);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout).heapBytes;
  };
  for (const [grouped, limit] of [
    [true, HEAP.grouped],
    [false, HEAP.named],
  ]) {
    const heap = await heapOf(grouped);
    assert.ok(heap > 0 && heap <= limit, `${heap} bytes, at most ${limit}`);
  }
});

test('a group is what its members are by their names', async () => {
  const model = await loadModel(decoder(), { context });
  let byName = await model.run({ ...step(0, 3, 1, 4), ...empty() });
  let grouped = await model.run({ ...step(0, 3, 1, 4), ...empty() });
  for (let past = 3; past < 12; past++) {
    byName = await model.run({ ...step(past, past), ...named(byName) });
    grouped = await model.run({ ...step(past, past), past: grouped.present });
    assert.deepEqual(grouped.logits.data, byName.logits.data);
  }
  for (const name of CACHE) {
    assert.deepEqual(grouped[`present.${name}`], byName[`present.${name}`]);
  }
  const { results } = await model.profile({ ...step(12, 2), past: grouped.present });
  assert.deepEqual(results.logits.data, (await model.run({ ...step(12, 2), ...named(byName) })).logits.data);
  model.destroy();
});

test('results with a group are plain objects of the outputs', async () => {
  const model = await loadModel(decoder(), { context });
  const run = () => model.run({ ...step(0, 3, 1), ...empty() });
  const results = await run();
  const names = ['logits', ...CACHE.map((name) => `present.${name}`)];
  assert.deepEqual(Object.keys(results), names);
  assert.equal(Object.getPrototypeOf(results), Object.prototype);
  assert.equal(results.present, results.present);
  assert.equal(results['present.0.key'], results['present.0.key']);
  const { logits, ...caches } = results;
  assert.equal(logits, results.logits);
  assert.equal(caches['present.1.value'], results['present.1.value']);
  assert.deepEqual(Object.keys(caches['present.1.value']), ['data', 'shape', 'dataType']);

  const plain = Object.fromEntries(names.map((name) => [name, { data: results[name].data, shape: results[name].shape, dataType: 'float32' }]));
  assert.deepEqual(await run(), plain);
  assert.deepEqual(structuredClone(await run()), plain);
  assert.match(inspect(await run()), /'present.0.key': \{\s+data: Float32Array\(32\) \[/);

  const frozen = Object.freeze(await run());
  assert.equal(frozen['present.0.key'], frozen['present.0.key']);
  const changed = await run();
  changed['present.0.key'] = 'mine';
  changed.present = 'too';
  assert.deepEqual([changed['present.0.key'], changed.present, Object.keys(changed).length], ['mine', 'too', names.length]);
  delete changed['present.0.key'];
  assert.equal(changed['present.0.key'], undefined);
  model.destroy();
});

test('shapes of unread results are lists of their own, made once', async () => {
  // On a GPU, results this small are read at once.
  const model = await loadModel(appending([['past.0', 'present.0']]), { device: 'cpu' });
  const unread = async () => (await grown(model))['present.0'];
  const feed = async (number, result) => shown(await model.run({ x: row(number), 'past.0': result }));
  const result = await unread();
  assert.deepEqual(result.shape, [1, 1, 2, 1]);
  assert.equal(result.shape, result.shape);
  assert.equal(await feed(3, result), '1,2,3');
  result.shape.reverse();
  await assert.rejects(feed(3, result), { code: 'ERR_WEBNN_SHAPE' });
  result.shape.reverse();
  assert.equal(await feed(4, result), '1,2,4');
  result.shape = [1, 1, 1, 2];
  await assert.rejects(feed(4, result), { code: 'ERR_WEBNN_SHAPE' });

  const frozen = Object.freeze(await unread());
  assert.equal(frozen.shape, frozen.shape);
  assert.deepEqual(
    [frozen.shape, [...frozen.data]],
    [
      [1, 1, 2, 1],
      [1, 2],
    ],
  );
  assert.equal(await feed(5, frozen), '1,2,5');
  const inheriting = Object.create(await unread());
  assert.throws(() => inheriting.data, { name: 'TypeError', message: 'Illegal invocation' });
  model.destroy();
});

test('what somebody has read or changed is fed with the group', async () => {
  const model = await loadModel(appending(TWO), { context });
  const first = await grown(model);
  const feed = async (number) => shown(await model.run({ x: row(number), past: first.present }));
  assert.equal(await feed(0), '1,2,0 1,2,0');
  first['present.2'].data[0] = 7;
  assert.equal(await feed(3), '1,2,3 7,2,3');
  first['present.1'].data = Float32Array.of(9, 8);
  assert.equal(await feed(4), '9,8,4 7,2,4');
  first['present.1'].shape = [2];
  await assert.rejects(feed(5), { code: 'ERR_WEBNN_SHAPE', message: /"past.1"/ });
  model.destroy();
});

test('a name of its own comes before the group', async () => {
  const model = await loadModel(appending(TWO), { context });
  const first = await grown(model);
  assert.equal(shown(await model.run({ past: first.present, 'past.2': row(5, 6), x: row(3) })), '1,2,3 5,6,3');
  assert.equal(shown(await model.run({ 'past.2': row(8, 7), x: row(3), past: first.present })), '1,2,3 8,7,3');
  first['present.1'].data;
  assert.equal(shown(await model.run({ 'past.2': row(9, 9), x: row(3), past: first.present })), '1,2,3 9,9,3');
  model.destroy();
});

test('groups are found by the names of inputs and outputs', async () => {
  const styles = [
    ['past_0', 'present_0'],
    ['past_key_values.0.key', 'present.0.key'],
    ['past_key_values.0.decoder.key', 'present.0.decoder.key'],
    ['past_key_value.3', 'present_key_value.3'],
    ['past_key_values.3', 'present_key_values.3'],
    ['past_key_self_0', 'present_key_self_0'],
    ['past_conv.1', 'present_conv.1'],
    ['cached_key_0', 'new_cached_key_0'],
    ['cache_last_channel', 'cache_last_channel_next'],
    ['cache', 'cache_out'],
    ['h', 'hn'],
    ['state', 'stateN'],
  ];
  for (const pair of styles) {
    const model = await loadModel(appending([pair]), { context });
    assert.equal(shown(await model.run({ x: row(3), past: (await grown(model)).present })), '1,2,3', pair.join());
    model.destroy();
  }
});

test('of several outputs that an input could become, the first one does', async () => {
  const model = await loadModel(
    writeModel({
      inputs: [value('x', FLOAT, [1, 1, 'new', 1]), value('cache', FLOAT, [1, 1, 'past', 1])],
      outputs: ['new_cache', 'cache_out'].map((name) => value(name, FLOAT, [1, 1, 'total', 1])),
      nodes: [node('Concat', ['cache', 'x'], ['new_cache'], { axis: { i: 2 } }), node('Neg', ['new_cache'], ['cache_out'])],
    }),
    { context },
  );
  const results = await model.run({ x: row(3), past: (await grown(model)).present });
  assert.equal(shown(results), '1,2,3 -1,-2,-3');
  results.new_cache.data;
  assert.equal(shown(await model.run({ x: row(4), past: results.present })), '1,2,3,4 -1,-2,-3,-4');
  model.destroy();
});

test('models that use the names themselves have no group', async () => {
  const model = await loadModel(appending([['past', 'present']]), { context });
  const first = await model.run({ x: row(1), past: row() });
  assert.deepEqual(Object.keys(first), ['y', 'present']);
  assert.deepEqual([...(await model.run({ x: row(2), past: first.present })).present.data], [1, 2]);
  model.destroy();

  const other = await loadModel(appending([['a', 'b']]), { context });
  assert.equal((await other.run({ x: row(1), a: row() })).present, undefined);
  other.destroy();
});

test('a group goes to another model that has inputs for it', async () => {
  const outputs = ['present.0', 'present.1', 'present.unused'];
  const first = await loadModel(
    writeModel({
      inputs: [value('x', FLOAT, [1, 1, 'n', 1])],
      outputs: outputs.map((name) => value(name, FLOAT, [1, 1, 'n', 1])),
      nodes: outputs.map((name) => node('Neg', ['x'], [name])),
    }),
    { context },
  );
  const next = await loadModel(appending([1, 0].map((layer) => [`past_key_values.${layer}`, `present.${layer}`])), { context });
  let results = await first.run({ x: row(1) });
  results = await next.run({ x: row(2), past: results.present });
  results = await next.run({ x: row(3), past: results.present });
  assert.equal(shown(results), '-1,2,3 -1,2,3');

  results = await grown(next);
  const elsewhere = await loadModel(appending([['past.1', 'present.1']]));
  assert.equal(shown(await elsewhere.run({ x: row(5), past: results.present })), '1,2,5');
  const half = await loadModel(appending([['past.1', 'present.1']], FLOAT16), { context });
  const x = { data: new Uint16Array(1), shape: [1, 1, 1, 1] };
  await assert.rejects(half.run({ x, past: results.present }), { code: 'ERR_WEBNN_TYPE', message: /feed "past.1" is of type "float32", expected float16/ });
  for (const model of [first, next, elsewhere, half]) model.destroy();
});

test('caches that a group lacks are missing feeds', async () => {
  const model = await loadModel(appending(TWO), { context });
  const { present } = await grown(model);
  const one = await model.run({ x: row(3), past: present }, { 'present.2': null });
  assert.equal('present.2' in one, false);
  await assert.rejects(model.run({ x: row(4), past: one.present }), { code: 'ERR_WEBNN_MISSING_FEED', message: /: "past.2" is missing;/ });
  const tensor = await model.run({ x: row(3), past: present }, { 'present.2': 'tensor' });
  assert.equal(shown(await model.run({ x: row(4), past: tensor.present })), '1,2,3,4 1,2,3,4');
  const larger = await loadModel(appending([...TWO, ['past.3', 'present.3']]), { context });
  await assert.rejects(larger.run({ x: row(3), past: present }), { code: 'ERR_WEBNN_MISSING_FEED', message: /: "past.3" is missing;/ });
  await assert.rejects(larger.run({ past: present }), { code: 'ERR_WEBNN_MISSING_FEED', message: /"x" is missing, "past.3" is missing/ });
  assert.equal(shown(await larger.run({ x: row(3), past: present, 'past.3': row(4, 5) })), '1,2,3 1,2,3 4,5,3');
  larger.destroy();
  model.destroy();
});

test('only groups of results with inputs in the model are groups', async () => {
  const model = await loadModel(appending([['past.1', 'present.1']]), { context });
  const other = await loadModel(appending([['past.a', 'present.a']]), { context });
  for (const past of [undefined, null, 5, {}, []]) {
    await assert.rejects(model.run(/** @type {any} */ ({ x: row(1), past })), { name: 'TypeError', code: 'ERR_WEBNN_TYPE', message: /feed "past" / });
  }
  await assert.rejects(model.run({ x: row(1), 'past.1': row(), past: row(1) }), { code: 'ERR_WEBNN_UNKNOWN_FEED', message: /"past" is not an input/ });
  const { present } = await other.run({ x: row(1), 'past.a': row() });
  await assert.rejects(model.run({ x: row(1), past: present }), { code: 'ERR_WEBNN_UNKNOWN_FEED', message: /none of which the model has an input for/ });
  await assert.rejects(model.run({ x: row(1), 'past.1': present }), { name: 'TypeError', code: 'ERR_WEBNN_TYPE' });
  other.destroy();
  const results = await model.run({ x: row(1), 'past.1': row() });
  model.destroy();
  await assert.rejects(model.run({ x: row(1), past: results.present }), { code: 'ERR_WEBNN_DESTROYED' });
});

test('a getter of a feed cannot take a result away from the run', async () => {
  // On a GPU, results this small are read at once.
  const model = await loadModel(appending([['past.1', 'present.1']]), { device: 'cpu' });
  const results = await grown(model);
  const feeds = (past) => Object.defineProperty(past, 'x', { enumerable: true, get: () => (results['present.1'].data, row(3)) });
  const refused = { name: 'TypeError', code: 'ERR_WEBNN_TYPE', message: /was read by a getter of another feed/ };
  await assert.rejects(model.run(feeds({ past: results.present })), refused);
  assert.equal(shown(await model.run(feeds({ past: results.present }))), '1,2,3', 'it had been read before');
  model.destroy();
});

test('caches that have a default are fed by a group as well', async () => {
  const model = await loadModel(
    writeModel({
      inputs: [value('x', FLOAT, [1, 1, 'new', 1]), value('past.1', FLOAT, [1, 1, 'past', 1])],
      outputs: [value('present.1', FLOAT, [1, 1, 'total', 1])],
      weights: [weight('past.1', [1, 1, 1, 1], Float32Array.of(9))],
      nodes: [node('Concat', ['past.1', 'x'], ['present.1'], { axis: { i: 2 } })],
    }),
    { context },
  );
  const first = await model.run({ x: row(1) });
  assert.equal(shown(first), '9,1');
  let results = first;
  for (let number = 2; number < 5; number++) results = await model.run({ x: row(number), past: results.present });
  assert.equal(shown(results), '9,1,2,3,4');
  assert.equal(shown(await model.run({ x: row(5) })), '9,5');
  model.destroy();
});
