// An interface of another package. Compiled by types.test.mjs, never run.

import {
  defineInterface,
  defineSlots,
  dictionary,
  enforcedUnsignedLong,
  enumeration,
  interfaceType,
  sequence,
  type Converter,
  type Slots,
} from 'webnn-node/internal/webidl';

interface State {
  count: number;
}

const slots: Slots<State, MLCounter> = defineSlots();
const toCounter: Converter<State> = interfaceType('MLCounter', slots);
const toOptions = dictionary<{ step: number }>([{ name: 'step', type: 'unsigned long', default: 1, convert: enforcedUnsignedLong }]);
const toLayouts: Converter<('nchw' | 'nhwc')[]> = sequence(enumeration(['nchw', 'nhwc']));

class MLCounter {
  add(options?: unknown): number | undefined {
    const state = slots.get(this);
    return state && state.count + toOptions(options, 'add: options').step;
  }
}

defineInterface(MLCounter);
const counter: MLCounter = slots.create(MLCounter, { count: toCounter({}, 'counter').count });
void [counter, toLayouts];

// @ts-expect-error: that is no state
slots.create(MLCounter, { number: 1 });
// @ts-expect-error: a converter says where the value came from
toLayouts([]);
