// webnn-node/internal/webidl: what webnn-node-compat makes its interfaces with.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import test from 'node:test';

const webidl = createRequire(import.meta.url)('../../webidl.js');
const { ml, MLGraphBuilder } = createRequire(import.meta.url)('../../index.js');
const { defineInterface, defineSlots, dictionary, enforcedUnsignedLong, illegalConstructor, illegalInvocation, interfaceType, requireArguments } = webidl;

const slots = defineSlots();
const toCounter = interfaceType('MLCounter', slots);
const toOptions = dictionary([{ name: 'step', type: 'unsigned long', default: 1, convert: enforcedUnsignedLong }]);

/** An interface whose objects count. */
class MLCounter {
  constructor() {
    throw illegalConstructor('MLCounter');
  }

  static from(other) {
    return slots.create(MLCounter, { count: toCounter(other, 'from: other').count });
  }

  add(options) {
    const state = slots.get(this);
    if (state === undefined) throw illegalInvocation('MLCounter.add', 'MLCounter');
    requireArguments('add', arguments.length, 1);
    state.count += toOptions(options, 'add: options').step;
    return state.count;
  }
}

defineInterface(MLCounter);
const make = (count) => slots.create(MLCounter, { count });

test('an interface of another package has slots, brands and conversions', () => {
  const counter = make(40);
  assert.deepEqual([counter.add({}), counter.add({ step: '1' })], [41, 42]);
  assert.equal(MLCounter.from(counter).add(undefined), 43);
  assert.equal(String(counter), '[object MLCounter]');
  assert.deepEqual(Object.keys(MLCounter.prototype), ['add']);
});

test('what Web IDL refuses is refused, with a message that says where', () => {
  const counter = make(0);
  for (const [call, message] of /** @type {[() => unknown, RegExp][]} */ ([
    [() => new MLCounter(), /^Illegal constructor: MLCounter objects are not created with new$/],
    [() => MLCounter.from({}), /^from: other is an object, expected an MLCounter$/],
    [() => MLCounter.from(Object.create(MLCounter.prototype)), /^from: other is an object/],
    [() => counter.add.call({}, {}), /^MLCounter\.add: Illegal invocation/],
    [() => counter.add(), /^add: 1 argument required, 0 given$/],
    [() => counter.add({ step: -1 }), /^add: options\.step is -1, expected an integer from 0 to 4294967295$/],
    [() => counter.add({ step: 1n }), /^add: options\.step is 1n, expected a number$/],
    [() => counter.add('text'), /^add: options is "text", expected an object$/],
  ])) {
    assert.throws(call, { name: 'TypeError', message });
  }
  assert.throws(() => structuredClone(counter), { name: 'DataCloneError' });
  assert.equal(counter.add({ step: 0 }), 0);
});

for (const extensions of /** @type {import('../../index.js').MLContextExtension[][]} */ ([[], ['dynamic-shapes']])) {
  test(`letBuildAgain: a builder builds what it has, several times; extensions: [${extensions}]`, async () => {
    const context = await ml.createContext({ extensions });
    const builder = new MLGraphBuilder(context);
    webidl.letBuildAgain(builder);
    const shape = extensions.length > 0 ? ['n'] : [2];
    const x = builder.input('x', { dataType: 'float32', shape });
    const sum = builder.add(x, builder.constant({ dataType: 'float32', shape: [2] }, Float32Array.of(10, 20)));
    const graphs = [await builder.build({ y: sum }), await builder.build({ y: builder.neg(sum) })];
    const tensor = () => context.createTensor({ dataType: 'float32', shape: [2], readable: true, writable: true });
    const [from, to] = await Promise.all([tensor(), tensor()]);
    context.writeTensor(from, Float32Array.of(1, 2));
    const results = [];
    for (const graph of graphs) {
      context.dispatch(graph, { x: from }, { y: to });
      results.push([...new Float32Array(await context.readTensor(to))]);
    }
    assert.deepEqual(results, [
      [11, 22],
      [-11, -22],
    ]);
    await assert.rejects(builder.build({}), { name: 'TypeError' });
    context.destroy();
    await assert.rejects(builder.build({ y: sum }), { name: 'InvalidStateError' });
  });
}
