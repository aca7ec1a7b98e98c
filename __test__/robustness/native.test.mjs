import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { join } from 'node:path';
import { root } from '../../scripts/process.mjs';
import { addonName } from '../../scripts/packages.mjs';
import { thisPlatform } from '../../scripts/setup.mjs';
import { ml, resultOf } from '../runtime/helpers.mjs';

const file = join(root, addonName(thisPlatform()));
const binding = createRequire(import.meta.url)(file);

/** A context on the CPU, with the ids of its creation, of its loss, and of a problem with its cache. */
const CONTEXT_ARGUMENTS = [1, 2, 3, { threads: 1, powerPreference: 'default', accelerated: false }];

/** Handles of every kind, made as the facade makes them. */
function handles() {
  const ends = new Map();
  const onComplete = (ids, codes, messages) => {
    ids.forEach((id, index) => {
      ends.get(id)?.([codes[index] ?? '', messages[index] ?? '']);
      ends.delete(id);
    });
  };
  const environment = binding.initialize(onComplete);
  let next = 4;
  const end = () => {
    const id = next++;
    return [id, new Promise((resolve) => ends.set(id, resolve))];
  };
  const context = binding.createContext(environment, ...CONTEXT_ARGUMENTS);
  return { environment, context, end };
}

test('every export throws for arguments of the wrong kind', () => {
  const { environment, context } = handles();
  const builder = binding.createBuilder(context);
  const garbage = [
    undefined,
    null,
    true,
    -1,
    NaN,
    2 ** 40,
    5n,
    '',
    'text\ud800',
    Symbol('garbage'),
    {},
    [],
    [1, 'two', {}],
    () => {},
    new Proxy({}, {}),
    new Uint8Array(4),
    new ArrayBuffer(4),
    new Float64Array(1),
    ml,
    environment,
    context,
    builder,
  ];
  for (const [name, call] of Object.entries(binding)) {
    if (typeof call !== 'function') {
      continue;
    }
    let calls = 0;
    for (const first of garbage) {
      for (const second of garbage) {
        for (const args of [
          [first, second],
          [first, second, first, second, first, second],
          [first, 1, first, [], second],
        ]) {
          // Some fit by chance. What counts is that the process lives and that nothing but an Error is thrown.
          try {
            Reflect.apply(call, undefined, args);
          } catch (error) {
            assert.ok(error instanceof Error, `${name} threw ${String(error)}`);
          }
          calls++;
        }
      }
    }
    assert.ok(calls > 1000);
  }
});

/** The functions that need none. */
const WITHOUT_ARGUMENTS = new Set(['supportedOnnxOperators', 'absentOnnxOperators', 'beforeExit', 'errorCodes', 'newStop', 'systemInfo', 'version']);

test('exports without arguments throw', () => {
  for (const [name, call] of Object.entries(binding)) {
    if (typeof call === 'function' && !WITHOUT_ARGUMENTS.has(name)) {
      assert.throws(() => call(), Error, name);
    }
  }
});

test('handles of one kind are not taken for another', () => {
  const { environment, context, end } = handles();
  const builder = binding.createBuilder(context);
  const tensor = binding.createTensor(context, end()[0], 0, [2]);
  for (const wrong of [environment, builder, tensor]) {
    assert.throws(() => binding.destroyContext(wrong), Error);
    assert.throws(() => binding.supportLimits(wrong), Error);
  }
  for (const wrong of [environment, builder, context]) {
    assert.throws(() => binding.destroyTensor(wrong), Error);
    assert.throws(() => binding.destroyGraph(wrong), Error);
    assert.throws(() => binding.takeRead(wrong, new Uint8Array(8)), Error);
  }
  assert.throws(() => binding.input(context, 'x', 0, [1]), Error);
});

test('operands that do not exist, and reads that are not done, are refused', async () => {
  const { context, end } = handles();
  const builder = binding.createBuilder(context);
  assert.equal(binding.input(builder, 'x', 0, [2]), 0);
  assert.throws(() => binding.operator(builder, 'relu', { input: 99 }, {}, ''), Error);
  assert.throws(() => binding.operator(builder, 'relu', { input: 2 ** 32 - 1 }, {}, ''), Error);
  assert.throws(() => binding.operator(builder, 'relu', {}, {}, ''), Error);
  assert.throws(() => binding.operator(builder, 'relu', { input: [] }, {}, ''), Error);
  assert.throws(() => binding.operator(builder, 'relu', { input: [0, 0], other: 0 }, {}, ''), Error);
  assert.throws(() => binding.operator(builder, 'no such operator', { input: 0 }, {}, ''), Error);
  assert.throws(() => binding.operator(builder, 'relu', { input: 0 }, { alpha: 'x' }, ''), Error);
  assert.throws(() => binding.operator(builder, 'softmax', { input: 0 }, { axis: -1 }, ''), Error);
  assert.throws(() => binding.constant(builder, 99, [1], new Uint8Array(4)), Error);
  assert.throws(() => binding.constant(builder, 0, [1], new Uint8Array(5)), Error);
  const [y] = binding.operator(builder, 'relu', { input: 0 }, {}, '');
  const [id, done] = end();
  assert.throws(() => binding.build(context, binding.createBuilder(context), id, ['y'], [77]), Error);
  const { graph } = binding.build(context, builder, id, ['y'], [y[0]]);
  assert.throws(() => binding.build(context, builder, id, ['y'], [y[0]]), Error);
  assert.deepEqual(await done, ['', '']);
  const tensor = binding.createTensor(context, end()[0], 0, [2]);
  const other = binding.createTensor(context, end()[0], 0, [3]);
  assert.throws(() => binding.dispatch(context, graph, [tensor], [tensor]), Error);
  assert.throws(() => binding.dispatch(context, graph, [graph], [context]), Error);
  // Wrong numbers and sizes of tensors end as failures of the dispatch.
  binding.dispatch(context, graph, [], []);
  binding.dispatch(context, graph, [tensor], [other]);
  const [readId, readDone] = end();
  const read = binding.readTensor(context, readId, other);
  assert.throws(() => binding.takeRead(read, new Uint8Array(13)), Error);
  assert.equal((await readDone)[0], 'OperationError');
  assert.throws(() => binding.takeRead(read, new Uint8Array(12)), Error);
});

test('tensors of another context are refused', () => {
  const [a, b] = [handles(), handles()];
  const builder = binding.createBuilder(a.context);
  binding.input(builder, 'x', 0, [2]);
  const [[y]] = binding.operator(builder, 'relu', { input: 0 }, {}, '');
  const { graph } = binding.build(a.context, builder, a.end()[0], ['y'], [y]);
  const tensors = [a, b].map(({ context, end }) => binding.createTensor(context, end()[0], 0, [2]));
  assert.throws(() => binding.dispatch(a.context, graph, [tensors[0]], [tensors[1]]), Error);
});

test('a handler of completions that throws is an uncaught exception, no crash', async () => {
  const caught = await resultOf(
    `import { createRequire } from 'node:module';
     const binding = createRequire(import.meta.url)(${JSON.stringify(file)});
     process.on('uncaughtException', (error) => console.log(JSON.stringify(error.message)));
     const environment = binding.initialize(() => { throw new Error('on purpose'); });
     globalThis.kept = binding.createContext(environment, ...${JSON.stringify(CONTEXT_ARGUMENTS)});`,
  );
  assert.equal(caught, 'on purpose');
});
