// webnn-node/webidl: what other packages make their interfaces with.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import test from 'node:test';

const webidl = createRequire(import.meta.url)('../../webidl.js');
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
