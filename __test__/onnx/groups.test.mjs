// Caches that are fed back with one property: feeds.past = results.present.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { serialize } from 'node:v8';
import { ml } from '../../index.js';
import { cacheKey, loadModel } from '../../onnx.js';
import { runNode } from '../lib/processes.mjs';
import { collectUntil } from '../lib/wait.mjs';
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
 * A model that appends a number to each of some caches; `pairs` are names of inputs and of the outputs that become
 * them.
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
 * The most bytes of JavaScript heap that a token of a decoder with 48 caches may allocate. Measured: 3.7 KB for a
 * group, 0.5 KB of it by the program itself, and 8 KB for caches fed by name. With closures and a WeakMap entry for
 * each cache, it was 92 KB; with result objects for members that do not grow, 47 KB.
 */
const HEAP = { grouped: 6 << 10, named: 12 << 10 };

test('caches that are fed back leave little garbage, whether or not they grow', async () => {
  const heapOf = async (grouped, constant) => {
    const parameters = { layers: 24, tokens: 2000, heads: 1, size: 4, grouped, constant };
    const flags = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256'];
    const { code, stdout, stderr } = await runNode([...flags, fileURLToPath(MEASURE), JSON.stringify(parameters)]);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout).heapBytes;
  };
  for (const [grouped, constant, limit] of [
    [true, false, HEAP.grouped],
    [true, true, HEAP.grouped],
    [false, false, HEAP.named],
  ]) {
    const heap = await heapOf(grouped, constant);
    assert.ok(heap > 0 && heap <= limit, `${heap} bytes, at most ${limit}; grouped: ${grouped}, constant: ${constant}`);
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
  // On the CPU, these caches grow in place.
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
  model.destroy();
});

/** Wraps everything that is read, as libraries do that watch an object. */
const watched = (object) =>
  new Proxy(object, {
    get(target, key, receiver) {
      const found = Reflect.get(target, key, receiver);
      return typeof found === 'object' && found !== null && !ArrayBuffer.isView(found) ? watched(found) : found;
    },
  });

const proxy = (object) => new Proxy(object, {});
const copied = (object) => Object.create(Object.prototype, Object.getOwnPropertyDescriptors(object));

/** What passes the reads of properties on to another object. */
const WRAPPERS = { proxy, watched, inheriting: (object) => Object.create(object), copied, proxyOfHeir: (object) => proxy(Object.create(object)) };

for (const [kind, wrap] of Object.entries(WRAPPERS)) {
  test(`results, groups and feeds are used through other objects: ${kind}`, async () => {
    const model = await loadModel(appending(TWO), { device: 'cpu' });
    const feed = async (feeds) => shown(await model.run(feeds));
    const fresh = () => grown(model);

    const results = wrap(await fresh());
    assert.deepEqual([...results['present.1'].data], [1, 2]);
    assert.deepEqual([...results['present.2'].shape], [1, 1, 2, 1]);
    assert.equal(results['present.1'].dataType, 'float32');
    assert.equal(await feed({ x: row(3), past: results.present }), '1,2,3 1,2,3');
    assert.equal(await feed({ x: row(4), past: wrap((await fresh()).present) }), '1,2,4 1,2,4');
    assert.equal(await feed(wrap({ x: row(5), past: (await fresh()).present })), '1,2,5 1,2,5');

    const first = await fresh();
    assert.equal(await feed({ x: row(6), 'past.1': wrap(first['present.1']), 'past.2': first['present.2'] }), '1,2,6 1,2,6');
    const second = await fresh();
    const one = wrap(second['present.1']);
    assert.deepEqual([...one.shape], [1, 1, 2, 1]);
    assert.deepEqual([...one.data], [1, 2]);
    assert.equal([...second['present.1'].data].join(), '1,2');

    const changed = await fresh();
    wrap(changed)['present.2'] = row(7, 8);
    const isWrittenThrough = kind === 'proxy' || kind === 'watched';
    assert.equal(await feed({ x: row(9), past: changed.present }), isWrittenThrough ? '1,2,9 7,8,9' : '1,2,9 1,2,9');
    const other = await fresh();
    wrap(other['present.2']).data = Float32Array.of(7, 8);
    assert.equal(await feed({ x: row(9), past: other.present }), isWrittenThrough ? '1,2,9 7,8,9' : '1,2,9 1,2,9');
    const own = wrap(await fresh());
    own['present.2'] = row(5, 6);
    assert.equal(await feed({ x: row(9), past: own.present }), '1,2,9 5,6,9');
    model.destroy();
  });
}

test('results are copied, and their copies are fed', async () => {
  const model = await loadModel(appending(TWO), { context });
  const results = await grown(model);
  const byName = (all) => Object.fromEntries(TWO.map(([input, output]) => [input, all[output]]));
  for (const copy of [{ ...results }, Object.assign({}, results), structuredClone(results)]) {
    assert.equal(shown(await model.run({ x: row(3), ...byName(copy) })), '1,2,3 1,2,3');
    assert.equal(copy.present, undefined);
    await assert.rejects(model.run({ x: row(3), past: copy.present }), {
      code: 'ERR_WEBNN_TYPE',
      message: /feed "past" is undefined, expected a group: pass results\.present/,
    });
  }
  await assert.rejects(model.run({ x: row(3), past: results }), { code: 'ERR_WEBNN_TYPE', message: /feed "past" is the results of a run.*results\.present/ });
  for (const copy of [{ ...results.present }, Object.assign({}, results.present)]) {
    assert.equal(shown(await model.run({ x: row(3), past: copy })), '1,2,3 1,2,3');
  }
  model.destroy();
});

test('a getter of results that reads another object says what it lacks', async () => {
  const model = await loadModel(appending(TWO), { device: 'cpu' });
  const results = await grown(model);
  const descriptor = (object, name) => /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(object, name));
  /** @returns {any} */
  const alone = (object, name) => Object.defineProperty({}, name, descriptor(object, name));
  assert.throws(() => alone(results, 'present.1')['present.1'], { code: 'ERR_WEBNN_TYPE', message: /output "present\.1" .*\{ \.\.\.results \}/ });
  assert.throws(() => alone(results, 'present').present, { code: 'ERR_WEBNN_TYPE', message: /output "present" / });
  assert.throws(() => alone(results['present.1'], 'data').data, { code: 'ERR_WEBNN_TYPE', message: /the data of a result .*\{ \.\.\.result \}/ });
  const get = /** @type {() => unknown} */ (descriptor(results['present.2'], 'shape').get);
  for (const receiver of [undefined, null, 5, results, {}, []]) {
    assert.throws(() => get.call(receiver), { name: 'TypeError', code: 'ERR_WEBNN_TYPE' });
  }
  // A proxy that wraps functions as well hides what the getters need.
  const wrapping = new Proxy(results, { get: (target, key, receiver) => wrapped(Reflect.get(target, key, receiver)) });
  const wrapped = (value) => (typeof value === 'function' ? new Proxy(value, {}) : value);
  assert.throws(() => wrapping['present.1'], { code: 'ERR_WEBNN_TYPE', message: /output "present\.1" / });
  model.destroy();
});

/**
 * Models with caches that grow, and others that are passed through, dropped, or of a size that the model gives them.
 */
const crossed = () =>
  writeModel({
    inputs: [value('x', FLOAT, [1, 1, 'new', 1]), ...['dec', 'enc', 'conv'].map((name) => value(`past.${name}`, FLOAT, [1, 1, `past_${name}`, 1]))],
    outputs: [value('y', FLOAT, [1, 1, 'new', 1]), ...['dec', 'enc', 'conv'].map((name) => value(`present.${name}`, FLOAT, [1, 1, `total_${name}`, 1]))],
    weights: [weight('two', [], Float32Array.of(2))],
    nodes: [
      node('Neg', ['x'], ['y']),
      node('Concat', ['past.dec', 'x'], ['present.dec'], { axis: { i: 2 } }),
      node('Identity', ['past.enc'], ['present.enc']),
      node('Mul', ['past.conv', 'two'], ['present.conv']),
    ],
  });

for (const length of [1, 3, 8192]) {
  test(`members that do not grow are fed with the group: ${length} positions`, async () => {
    const model = await loadModel(crossed(), { context });
    const many = (number) => ({ data: new Float32Array(length).fill(number), shape: [1, 1, length, 1] });
    const begin = () => model.run({ x: row(1), 'past.dec': row(), 'past.enc': many(5), 'past.conv': many(1) });
    const check = (results, dec, enc, conv) => {
      assert.deepEqual(results['present.dec'], { ...row(...dec), dataType: 'float32' });
      assert.deepEqual(results['present.enc'], { ...many(enc), dataType: 'float32' });
      assert.deepEqual(results['present.conv'], { ...many(conv), dataType: 'float32' });
    };
    let results = await begin();
    for (let number = 2; number < 6; number++) results = await model.run({ x: row(number), past: results.present });
    check(results, [1, 2, 3, 4, 5], 5, 32);

    // Not returned, so fed by name beside the group.
    results = await begin();
    const enc = results['present.enc'];
    for (let number = 2; number < 5; number++) results = await model.run({ x: row(number), past: results.present, 'past.enc': enc }, { 'present.enc': null });
    check({ ...results, 'present.enc': enc }, [1, 2, 3, 4], 5, 16);

    // In tensors.
    results = await begin();
    for (let number = 2; number < 5; number++) results = await model.run({ x: row(number), past: results.present }, { 'present.conv': 'tensor' });
    const tensor = results['present.conv'];
    check({ ...results, 'present.conv': { ...many(0), data: new Float32Array(await context.readTensor(tensor)), dataType: 'float32' } }, [1, 2, 3, 4], 5, 16);

    // All of them fed by their names, and none left for the group.
    results = await begin();
    const { 'present.dec': dec, 'present.conv': conv, present } = results;
    const last = await model.run({ x: row(9), past: present, 'past.dec': dec, 'past.enc': results['present.enc'], 'past.conv': conv });
    check(last, [1, 9], 5, 4);
    model.destroy();
  });
}

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

test('what a caller writes to results is what the group feeds', async () => {
  const model = await loadModel(appending(TWO), { device: 'cpu' });
  const feed = async (change) => {
    const results = await grown(model);
    const { present } = results;
    change(results, results['present.1']);
    return shown(await model.run({ x: row(3), past: present }));
  };
  const define = (object, name, value) => Object.defineProperty(object, name, { value, enumerable: true });
  assert.equal(await feed(() => {}), '1,2,3 1,2,3', 'looking at a result changes nothing');
  for (const replace of [
    (results) => (results['present.1'] = row(7)),
    (results) => define(results, 'present.1', row(7)),
    (results) => Object.defineProperty(results, 'present.1', { get: () => row(7) }),
    (_, result) => Object.assign(result, row(7)),
    (_, result) => (define(result, 'data', Float32Array.of(7)), define(result, 'shape', [1, 1, 1, 1])),
    (_, result) => (result.shape, Object.defineProperty(result, 'shape', { get: () => [1, 1, 1, 1] }), (result.data = Float32Array.of(7))),
  ]) {
    assert.equal(await feed(replace), '7,3 1,2,3', String(replace));
  }
  assert.equal(await feed((_, result) => define(result, 'data', Float32Array.of(8, 9))), '8,9,3 1,2,3');
  assert.equal(await feed((_, result) => delete result.dataType), '1,2,3 1,2,3', 'data without a type');
  const type = { name: 'TypeError', code: 'ERR_WEBNN_TYPE' };
  for (const [change, error] of [
    [(_, result) => (result.dataType = 'int32'), { ...type, message: /feed "past.1" is of type "int32", expected float32/ }],
    [(_, result) => define(result, 'shape', [1, 1, 3, 1]), { code: 'ERR_WEBNN_SHAPE', message: /"past.1" has 8 bytes/ }],
    [(_, result) => delete result.shape, { ...type, message: /feed "past.1" has data but no shape/ }],
    [(_, result) => delete result.data, { ...type, message: /feed "past.1" is an object/ }],
    [(results) => (results['present.1'] = null), { ...type, message: /feed "past.1" is null/ }],
    [(results) => delete results['present.1'], { code: 'ERR_WEBNN_MISSING_FEED', message: /"past.1" is missing/ }],
    [(results) => (results['present.1'] = undefined), { code: 'ERR_WEBNN_MISSING_FEED', message: /"past.1" is missing/ }],
  ]) {
    await assert.rejects(feed(change), error, String(change));
  }
  model.destroy();
});

test('a cache that is kept does not keep the other results', async () => {
  const model = await loadModel(appending(TWO), { device: 'cpu' });
  const kept = [];
  const others = [];
  for (let round = 0; round < 10; round++) {
    const results = await grown(model);
    kept.push(results['present.1']);
    others.push(new WeakRef(results), new WeakRef(results.present), new WeakRef(results.y));
  }
  await collectUntil(() => others.filter((other) => other.deref() !== undefined).length <= 3, 'all but the last ones are freed');
  for (const cache of kept) assert.deepEqual([...cache.data], [1, 2]);
  model.destroy();
});

test('a group is shown with its members, equal to itself only, and never cloned', async () => {
  const model = await loadModel(appending(TWO), { device: 'cpu' });
  const [first, second] = [await grown(model), await grown(model)];
  const { present } = first;
  assert.match(inspect(present), /^OnnxGroup \{\s+'present.1': \{ dataType: 'float32', shape: \[ 1, 1, 2, 1 \] \},\s+'present.2': /);
  second['present.1'] = row(1, 2);
  delete second['present.2'];
  assert.match(inspect(second.present), /^OnnxGroup \{\s+'present.1': \{ data: Float32Array\(2\) \[ 1, 2 \], shape: \[ 1, 1, 2, 1 \] \}\s+\}$/);
  assert.notEqual(Object.getOwnPropertyDescriptor(first['present.1'], 'data')?.get, undefined, 'still unread');
  assert.deepEqual(present, first.present);
  assert.notDeepEqual(present, second.present);
  assert.notDeepEqual(present, (await grown(model)).present);
  for (const clone of [structuredClone, serialize, (message) => new MessageChannel().port1.postMessage(message)]) {
    assert.throws(() => clone(present), { message: /results of run\(\).* could not be cloned/ });
  }
  assert.throws(() => structuredClone(present), { name: 'DataCloneError' });
  model.destroy();
});

test('a group does not choose between two inputs for one result', async () => {
  const names = ['past_key_values.1', 'past.1', 'past.2'];
  const model = await loadModel(
    writeModel({
      inputs: [value('x', FLOAT, [1, 1, 'new', 1]), ...names.map((name) => value(name, FLOAT, [1, 1, `length_${name}`, 1]))],
      outputs: ['present.1', 'present.2'].map((name) => value(name, FLOAT, [1, 1, `total_${name}`, 1])),
      nodes: [
        node('Concat', ['past_key_values.1', 'past.1', 'x'], ['present.1'], { axis: { i: 2 } }),
        node('Concat', ['past.2', 'x'], ['present.2'], { axis: { i: 2 } }),
      ],
    }),
    { context },
  );
  const { present } = await model.run({ x: row(1), ...Object.fromEntries(names.map((name) => [name, row()])) });
  for (const other of /** @type {Record<string, unknown>[]} */ ([{}, { 'past.2': row(4) }])) {
    await assert.rejects(model.run({ x: row(2), past: present, ...other }), {
      name: 'TypeError',
      code: 'ERR_WEBNN_TYPE',
      message: /feed "past" is a group with one result for "past_key_values.1" and "past.1": feed these inputs by their names/,
    });
  }
  assert.equal(shown(await model.run({ x: row(2), past: present, 'past.1': row(8) })), '1,8,2 1,2');
  assert.equal(shown(await model.run({ 'past_key_values.1': row(8), x: row(2), past: present })), '8,1,2 1,2');
  assert.equal(shown(await model.run({ x: row(2), past: present, 'past.1': row(7), 'past_key_values.1': row(8) })), '8,7,2 1,2');
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

test('the names of a cache have a key in common', () => {
  for (const name of ['past.0.key', 'past_key_values.0.key', 'present.0.key', 'present_key_values.0.key']) assert.equal(cacheKey(name), '.0.key', name);
  for (const name of ['past_0', 'past_key_value_0', 'present_0']) assert.equal(cacheKey(name), '_0', name);
  for (const name of ['past', 'present', '0.key', 'logits', 'the past.0', '']) assert.equal(cacheKey(name), undefined, name);
  assert.throws(() => cacheKey(/** @type {any} */ (Symbol('past.0'))), { name: 'TypeError', code: 'ERR_WEBNN_TYPE' });
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
  // On the CPU, these caches grow in place.
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
