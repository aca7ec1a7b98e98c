import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ml } from '../runtime/helpers.mjs';
import { checkException, checkShape, dictionaries, named, operators, runGraph, totalElements, validCall } from './support.mjs';
import { defined } from '../lib/types.mjs';

/** Numbers at the ends of 32 bits, and around what the valid calls have. */
const INTEGERS = [0, 1, 2, 3, 5, 7, 2 ** 15, 2 ** 16 + 1, 2 ** 30, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 2, 2 ** 32 - 1];

const DOUBLES = [0, -0, 1, -1, 5e-324, Number.MAX_VALUE, -Number.MAX_VALUE];

const MLNUMBERS = [...DOUBLES, NaN, Infinity, -Infinity, 0n, -1n, 2n ** 63n, -(2n ** 63n), 2n ** 64n, 10n ** 400n, -(10n ** 400n)];

/** Values at the edges for an IDL type, in the place of the valid value. */
function extremes(type, valid) {
  if (type.startsWith('sequence<') || type.startsWith('(')) {
    const isList = Array.isArray(valid);
    const lengths = isList ? [[], [...valid, ...valid], valid.slice(1)] : [];
    const changed = (isList ? valid : [1]).flatMap((_, at) =>
      INTEGERS.map((integer) => (isList ? (valid.with?.(at, integer) ?? Object.assign([...valid], { [at]: integer })) : [integer])),
    );
    const uniform = isList ? INTEGERS.map((integer) => valid.map(() => integer)) : [];
    const single = type.startsWith('(') ? INTEGERS : [];
    return [...lengths, ...changed, ...uniform, ...single, Array(9).fill(1), Array(100_000).fill(1)];
  }
  if (type.includes('long')) {
    return type.includes('unsigned') ? INTEGERS : [...INTEGERS, -1, -5, -(2 ** 31)].filter((i) => i < 2 ** 31);
  }
  return { double: DOUBLES, MLNumber: MLNUMBERS, boolean: [true, false] }[type] ?? [];
}

/** Whether a type holds operands, strings or words, which have no extremes. */
const isNumeric = (type) => /long|double|MLNumber|boolean/.test(type);

/** Results above this are not computed: they are right or wrong in their shape. */
const MAX_ELEMENTS = 1 << 16;

/** Calls the operator; runs what it gives, unless that is large. Tells whether it ran. */
async function attempt(context, call, row, what) {
  let outputs;
  try {
    outputs = [call.builder[row.name](...call.args, call.options)].flat();
  } catch (error) {
    assert.equal(Object.getPrototypeOf(error), TypeError.prototype, `${what}: ${/** @type {Error} */ (error).stack}`);
    checkException(error, what);
    return false;
  }
  outputs.forEach((output) => checkShape(output.shape, what));
  if (totalElements(outputs) > MAX_ELEMENTS || outputs.length > 100) {
    return false;
  }
  const results = await runGraph(context, call.builder, call.inputs, named(outputs)).catch((error) => {
    throw new Error(`${what}: ${error.message}`, { cause: error });
  });
  assert.equal(Object.keys(results).length, outputs.length);
  return true;
}

const show = (value) =>
  JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${`${v}`.slice(0, 25)}n` : Object.is(v, -0) ? '-0' : v))?.slice(0, 80) ?? String(value);

for (const row of operators) {
  test(`${row.name} at the ends of the range of its numbers`, async () => {
    const context = await ml.createContext();
    assert.ok(await attempt(context, validCall(context, row), row, row.name), 'the valid call is none');
    for (const [index, { name, type }] of row.arguments.entries()) {
      if (isNumeric(type)) {
        for (const value of extremes(type, validCall(context, row).args[index])) {
          const call = validCall(context, row);
          call.args[index] = value;
          await attempt(context, call, row, `${row.name} with ${name} ${show(value)}`);
        }
      }
    }
    for (const { name, type } of dictionaries[row.options]) {
      if (isNumeric(type)) {
        for (const value of extremes(type, validCall(context, row).options[name])) {
          const call = validCall(context, row);
          call.options[name] = value;
          await attempt(context, call, row, `${row.name} with ${name} ${show(value)}`);
        }
      }
    }
    context.destroy();
  });
}

test('sums and products of options that overflow 32 or 64 bits give no valid shape', async () => {
  const context = await ml.createContext();
  const MAX = 2 ** 32 - 1;
  const cases = {
    conv2d: [{ padding: [MAX, MAX, 1, 1] }, { padding: [MAX, 0, 0, 0], strides: [MAX, 1], dilations: [MAX, MAX] }, { dilations: [2 ** 31, 2 ** 31] }],
    convTranspose2d: [
      { strides: [MAX, MAX] },
      { strides: [2 ** 30, 2 ** 30], dilations: [2 ** 31, 2 ** 31], outputPadding: [0, 0] },
      { padding: [MAX, MAX, MAX, MAX] },
      { outputSizes: [MAX, MAX] },
      { outputPadding: [MAX, MAX], strides: [MAX, MAX] },
    ],
    maxPool2d: [
      { windowDimensions: [MAX, MAX] },
      { padding: [MAX, MAX, MAX, MAX], windowDimensions: [MAX, MAX] },
      { dilations: [MAX, MAX] },
      { outputSizes: [MAX, 1] },
    ],
    resample2d: [{ sizes: [2 ** 16, 2 ** 16] }, { sizes: [MAX, MAX] }, { scales: [3.4e38, 3.4e38] }, { scales: [1e-45, 1] }],
    slice: [{ strides: [MAX, MAX] }],
    gru: [{ direction: 'both' }],
  };
  for (const [name, variants] of Object.entries(cases)) {
    const row = defined(operators.find((operator) => operator.name === name));
    for (const changes of variants) {
      const call = validCall(context, row);
      Object.assign(call.options, changes);
      await attempt(context, call, row, `${name} with ${show(changes)}`);
    }
  }
  for (const [name, changed] of Object.entries({
    pad: [
      [MAX, MAX],
      [MAX, MAX],
    ],
    slice: [
      [MAX, 1],
      [MAX, 4],
    ],
    expand: [[2 ** 31 - 1, 3]],
    tile: [[2 ** 31, 2]],
    reshape: [[2 ** 31, 2 ** 31]],
  })) {
    const row = defined(operators.find((operator) => operator.name === name));
    const call = validCall(context, row);
    call.args.splice(1, changed.length, ...changed);
    assert.throws(() => call.builder[name](...call.args), TypeError, name);
  }
  for (const [name, gates] of /** @type {[string, number][]} */ ([
    ['gru', 3],
    ['lstm', 4],
  ])) {
    // hiddenSize times the number of gates is 2^32 more than what the weights have.
    const row = defined(operators.find((operator) => operator.name === name));
    for (const hidden of [2 ** 30, 2 ** 30 + 1, Math.ceil(2 ** 32 / gates), 2 ** 31, MAX]) {
      const call = validCall(context, row);
      call.args[4] = hidden;
      assert.throws(() => call.builder[name](...call.args, call.options), TypeError, `${name} ${hidden}`);
    }
  }
});
