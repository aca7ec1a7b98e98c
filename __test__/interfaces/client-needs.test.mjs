// What onnxruntime-web's WebNN execution provider relies on, one by one; __test__/external/clients runs the provider itself. It
// places nodes by what opSupportLimits() says, hands over views of WebAssembly's shared memory, passes members of
// earlier drafts along, and has no way back when build() rejects.

import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { typeError } from '../lib/exceptions.mjs';
import { deviceOf } from '../gpu/device.mjs';
import { named, operators, runGraph, validArguments } from '../robustness/support.mjs';
import { webnn } from './helpers.mjs';

const { ml, MLGraphBuilder } = webnn();
const DATA_TYPES = ['float32', 'float16', 'int32', 'uint32', 'int64', 'uint64', 'int8', 'uint8'];

let context;
let limits;
before(async () => {
  context = await ml.createContext();
  limits = context.opSupportLimits();
});
after(() => context.destroy());

/** Inputs for the operands of a valid call, with data types and shapes replaced where `replace` says so. */
class Operands {
  inputs = {};
  #builder;
  #replace;

  constructor(builder, replace = (descriptor) => descriptor) {
    this.#builder = builder;
    this.#replace = replace;
  }

  f(...shape) {
    return this.of('float32', ...shape);
  }

  of(dataType, ...shape) {
    const index = Object.keys(this.inputs).length;
    const name = `i${index}`;
    this.inputs[name] = this.#builder.input(name, this.#replace({ dataType, shape }, index));
    return this.inputs[name];
  }
}

/** Calls an operator with valid arguments of these operands. @returns {MLOperand[]} */
function call(builder, row, operands) {
  const [args, options] = validArguments(operands, row);
  return [builder[row.name](...args, options)].flat();
}

/**
 * The operands of a valid call by their names in the limits.
 *
 * @returns {Map<string, { index: number, dataType: string, shape: readonly number[] }>} `index` among its inputs
 */
function namedOperands(row) {
  const builder = new MLGraphBuilder(context);
  const operands = new Operands(builder);
  const [args, options] = validArguments(operands, row);
  const inputs = Object.values(operands.inputs);
  const found = new Map();
  const add = (name, value) => {
    const operand = Array.isArray(value) ? value[0] : value;
    const index = inputs.indexOf(operand);
    if (index >= 0) {
      found.set(name, { index, dataType: operand.dataType, shape: operand.shape });
    }
  };
  row.arguments.forEach(({ name }, index) => add(name, args[index]));
  Object.entries(options).forEach(([name, value]) => add(name, value));
  return found;
}

const outputsOf = (row) => Object.keys(limits[row.name]).filter((name) => /^outputs?\d*$/.test(name));

/** An operand's limits are the same whether or not they are of the draft's union of dictionaries. */
function assertSupportLimits(value, what) {
  assert.ok(Array.isArray(value?.dataTypes) && value.dataTypes.length > 0, what);
  value.dataTypes.forEach((dataType) => assert.ok(DATA_TYPES.includes(dataType), `${what}: ${dataType}`));
  const { min, max } = value.rankRange;
  assert.ok(Number.isInteger(min) && Number.isInteger(max) && min >= 0 && min <= max, `${what}: ranks ${min} to ${max}`);
}

describe('opSupportLimits', () => {
  test('has data types and ranks of input, constant and output', () => {
    for (const name of ['input', 'constant', 'output']) {
      assertSupportLimits(limits[name], name);
      assert.deepEqual([...limits[name].dataTypes].sort(), [...DATA_TYPES].sort());
    }
  });

  test('says which layout is preferred, and how large a tensor may be', async () => {
    assert.ok(['nchw', 'nhwc'].includes(limits.preferredInputLayout));
    // On GPUs at least what WebGPU lets every kernel see of a buffer.
    const least = (await deviceOf(context)) === 'gpu' ? 2 ** 27 : 2 ** 30;
    assert.ok(Number.isInteger(limits.maxTensorByteLength) && limits.maxTensorByteLength >= least);
  });

  test('has every operator, with data types and ranks of each operand and each output', () => {
    for (const row of operators) {
      const names = Object.keys(limits[row.name]);
      names.forEach((name) => assertSupportLimits(limits[row.name][name], `${row.name}.${name}`));
      assert.notEqual(outputsOf(row).length, 0, row.name);
      [...namedOperands(row).keys()].forEach((name) => assert.ok(names.includes(name), `${row.name}.${name}`));
    }
  });
});

describe('what the limits advertise can be built and computed, and nothing else gets as far as build()', () => {
  for (const row of operators) {
    test(row.name, async () => {
      for (const [name, { dataType: original }] of namedOperands(row)) {
        const { dataTypes } = limits[row.name][name];
        for (const dataType of DATA_TYPES) {
          // All operands of the same type in the valid call take the new one.
          const replace = (descriptor) => (descriptor.dataType === original ? { ...descriptor, dataType } : descriptor);
          const builder = new MLGraphBuilder(context);
          const operands = new Operands(builder, replace);
          if (!dataTypes.includes(dataType)) {
            assert.throws(() => call(builder, row, operands), typeError(/data type/), `${name}: ${dataType}`);
            continue;
          }
          const outputs = call(builder, row, operands);
          for (const [index, { dataType: type, shape }] of outputs.entries()) {
            const advertised = limits[row.name][outputsOf(row)[index]] ?? limits[row.name].outputs;
            assert.ok(advertised.dataTypes.includes(type), `${type} of output ${index}, ${name}: ${dataType}`);
            assert.ok(shape.length >= advertised.rankRange.min && shape.length <= advertised.rankRange.max);
          }
          await runGraph(context, builder, operands.inputs, named(outputs));
        }
      }
    });

    test(`${row.name}: ranks that are not advertised`, () => {
      for (const [name, { index: changed }] of namedOperands(row)) {
        const { min, max } = limits[row.name][name].rankRange;
        for (const rank of [min - 1, max + 1].filter((number) => number >= 0)) {
          const replace = (descriptor, index) => (index === changed ? { ...descriptor, shape: Array(rank).fill(1) } : descriptor);
          const builder = new MLGraphBuilder(context);
          assert.throws(() => call(builder, row, new Operands(builder, replace)), typeError(/rank|dimensions/), `${name} of rank ${rank}`);
        }
      }
    });
  }

  const SAME_SHAPE = ['abs', 'relu', 'identity', 'softmax', 'sigmoid', 'clamp', 'isNaN', 'reduceSum', 'reverse', 'quantizeLinear'];
  for (const row of operators.filter(({ name }) => SAME_SHAPE.includes(name))) {
    test(`${row.name}: the smallest and the largest rank`, async () => {
      const { min, max } = limits[row.name].input?.rankRange ?? limits[row.name].a.rankRange;
      for (const rank of [min, max]) {
        const builder = new MLGraphBuilder(context);
        const operands = new Operands(builder, (descriptor) => ({ ...descriptor, shape: Array(rank).fill(2) }));
        const [args] = validArguments(operands, row);
        const output = row.name === 'softmax' ? builder.softmax(args[0], rank - 1) : builder[row.name](...args);
        await runGraph(context, builder, operands.inputs, { output });
      }
    });
  }
});

describe('an operand of another builder', () => {
  for (const row of operators) {
    test(`${row.name} throws, instead of build() rejecting`, () => {
      const operands = new Operands(new MLGraphBuilder(context));
      assert.throws(() => call(new MLGraphBuilder(context), row, operands), typeError(/belongs to another builder/));
    });
  }
});

describe('members of earlier drafts are ignored, as undefined ones are', () => {
  const shape = [2, 2];
  /** Members that no draft has now, and of which a value is never read. */
  const former = () => ({
    dimensions: [7],
    usage: 3,
    get type() {
      throw new Error('type was read');
    },
  });
  const OPTIONS = { deviceType: 'gpu', powerPreference: undefined, numThreads: undefined, devicePreference: 'x' };

  test('of createContext', async () => {
    const other = await ml.createContext(OPTIONS);
    other.destroy();
    const preferring = await ml.createContext({ deviceType: undefined, powerPreference: 'low-power' });
    preferring.destroy();
  });

  test('of createTensor', async () => {
    const tensor = await context.createTensor({
      dataType: 'float32',
      shape,
      dimensions: shape,
      usage: undefined,
      writable: true,
    });
    assert.deepEqual([tensor.shape, tensor.writable, tensor.readable], [shape, true, false]);
    const described = await context.createTensor(Object.assign(former(), { dataType: 'int8', shape, writable: undefined }));
    assert.deepEqual([described.dataType, described.shape, described.writable], ['int8', shape, false]);
    [tensor, described].forEach((resource) => resource.destroy());
  });

  test('of input, constant and operators', async () => {
    const builder = new MLGraphBuilder(context);
    const described = (dims, members) => Object.assign(former(), { dataType: 'float32', shape: dims, ...members });
    const input = builder.input('x', described([1, 1, 4, 4]));
    const filter = builder.constant(described([1, 1, 2, 2], { dimensions: undefined }), new Float32Array(4).fill(1));
    const options = {
      label: '',
      inputLayout: undefined,
      bias: undefined,
      groups: 1,
      autoPad: 'explicit',
      activation: null,
    };
    const output = builder.averagePool2d(builder.conv2d(input, filter, options), {
      windowDimensions: [2, 2],
      strides: [2, 2],
      roundingType: 'ceil',
      outputShapeRounding: undefined,
    });
    // Rounded up, it would be 2.
    assert.deepEqual(output.shape, [1, 1, 1, 1]);
    const graph = await builder.build({ y: output });
    graph.destroy();
  });
});

describe('views of WebAssembly memory', () => {
  const BYTES = 64;
  const memories = {
    shared: () => new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true }),
    'not shared': () => new WebAssembly.Memory({ initial: 1, maximum: 2 }),
  };
  for (const [kind, make] of Object.entries(memories)) {
    test(`${kind}: constants, writeTensor and readTensor`, async () => {
      const { buffer } = make();
      const data = new Float32Array(buffer, BYTES, 4).fill(1.5);
      const descriptor = { dataType: 'float32', shape: [4] };
      const builder = new MLGraphBuilder(context);
      const input = builder.input('x', descriptor);
      const graph = await builder.build({ y: builder.add(input, builder.constant(descriptor, data)) });

      const [x, y] = await Promise.all([context.createTensor({ ...descriptor, writable: true }), context.createTensor({ ...descriptor, readable: true })]);
      // As bytes, which is how the provider uploads.
      data.set([1, 2, 3, 4]);
      context.writeTensor(x, new Uint8Array(buffer, BYTES, data.byteLength));
      data.fill(0);
      context.dispatch(graph, { x }, { y });
      const into = new Uint8Array(buffer, 2 * BYTES, data.byteLength);
      assert.equal(await context.readTensor(y, into), undefined);
      assert.deepEqual(new Float32Array(buffer, 2 * BYTES, 4), Float32Array.of(2.5, 3.5, 4.5, 5.5));
      assert.equal(
        new Uint8Array(buffer, 2 * BYTES + data.byteLength, BYTES).every((byte) => byte === 0),
        true,
      );
      [x, y, graph].forEach((resource) => resource.destroy());
    });
  }
});
