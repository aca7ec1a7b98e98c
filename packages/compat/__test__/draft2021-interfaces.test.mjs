import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { describe } from 'node:test';
import { parse } from 'webidl2';
import { exception } from '../../../__test__/lib/exceptions.mjs';
import { draft2021, require } from './helpers.mjs';
import { defined } from '../../../__test__/lib/types.mjs';

const idl = parse(readFileSync(new URL('draft-2021.idl', import.meta.url), 'utf8'));
const { ACTIVATIONS, dictionaries, enumerations, operators } = require('../lib/draft2021/idl.js');
const { lowerings } = require('../lib/draft2021/lowering.js');
const { ml, ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLOperator } = draft2021;

const members = (name) => idl.filter((definition) => definition.type === 'interface' && definition.name === name).flatMap((definition) => definition.members);
const operations = (name) => members(name).filter(({ type }) => type === 'operation');

/** The IDL text of a type. */
function text({ union, generic, idlType, nullable }) {
  const inner = Array.isArray(idlType) ? idlType.map(text).join(union ? ' or ' : ', ') : idlType;
  const whole = union ? `(${inner})` : generic ? `${generic}<${inner}>` : inner;
  return nullable ? `${whole}?` : whole;
}

/** The default of a member; one of null stands for an absent member. */
function defaultOf({ default: fallback }) {
  if (fallback === null || fallback.type === 'null') return undefined;
  return fallback.type === 'number' ? Number(fallback.value) : fallback.value;
}

describe('the IDL of the draft', () => {
  test('every operation is a method with that name and length, enumerable and not constructible', () => {
    for (const Interface of [ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLOperator]) {
      const names = new Set(operations(Interface.name).map(({ name }) => name));
      assert.deepEqual(Object.keys(Interface.prototype).sort(), [...names].sort(), Interface.name);
      for (const name of names) {
        const overloads = operations(Interface.name).filter((operation) => operation.name === name);
        const required = Math.min(...overloads.map(({ arguments: list }) => list.filter(({ optional }) => !optional).length));
        const { value, enumerable, writable, configurable } = defined(Object.getOwnPropertyDescriptor(Interface.prototype, name));
        assert.deepEqual([value.name, value.length, enumerable, writable, configurable], [name, required, true, true, true]);
        assert.throws(() => new value(), TypeError);
      }
    }
  });

  test('the table of operators has the arguments and options of the draft', () => {
    const isOperator = ({ name, idlType }) => !['input', 'constant', 'build'].includes(name) && text(idlType) !== 'MLOperator';
    const drafts = operations('MLGraphBuilder').filter(isOperator);
    assert.deepEqual(operators.map(({ name }) => name).sort(), drafts.map(({ name }) => name).sort());
    assert.deepEqual(Object.keys(lowerings).sort(), drafts.map(({ name }) => name).sort());
    for (const draft of drafts) {
      const row = defined(operators.find(({ name }) => name === draft.name));
      const required = draft.arguments.filter(({ optional }) => !optional);
      // The one addition: null for -1, as later drafts have it.
      const types = row.arguments.map(({ name, type }) => [name, type.replace('long?', 'long')]);
      assert.deepEqual(
        types,
        required.map((argument) => [argument.name, text(argument.idlType)]),
        draft.name,
      );
      const optional = draft.arguments.find((argument) => argument.optional);
      assert.equal(row.options, optional === undefined ? undefined : text(optional.idlType), draft.name);
      assert.equal(row.result, text(draft.idlType), draft.name);
    }
  });

  test('operators without an operand are those of the draft', () => {
    const drafts = operations('MLGraphBuilder').filter(({ idlType }) => text(idlType) === 'MLOperator');
    assert.deepEqual(ACTIVATIONS, drafts.map(({ name }) => name).sort());
    for (const { name, arguments: list } of drafts) {
      assert.equal(defined(operators.find((row) => row.name === name)).options, list.length === 0 ? undefined : text(list[0].idlType), name);
    }
  });

  test('dictionaries have the members, types and defaults of the draft in the order of Web IDL', () => {
    // Of resources of GPUs only the views of buffers are named; they are refused as a whole.
    const drafts = idl.filter(({ type, name }) => type === 'dictionary' && name !== 'MLBufferResourceView');
    assert.deepEqual(Object.keys(dictionaries).sort(), drafts.map(({ name }) => name).sort());
    const isBefore = (a, b) => (a.name < b.name ? -1 : 1);
    for (const draft of drafts) {
      const expected = draft.members.map((member) => ({
        name: member.name,
        type: text(member.idlType),
        required: member.required,
        default: defaultOf(member),
      }));
      const found = dictionaries[draft.name].map((member) => ({
        name: member.name,
        type: member.type.replace('?', ''),
        required: member.required === true,
        default: member.default,
      }));
      assert.deepEqual(found, expected.sort(isBefore), draft.name);
    }
  });

  test('enumerations have the values of the draft', () => {
    for (const { name, values } of idl.filter(({ type }) => type === 'enum')) {
      assert.deepEqual(
        enumerations[name],
        values.map(({ value }) => value),
        name,
      );
    }
  });
});

describe('interface objects', () => {
  test('only builders can be made with new', () => {
    for (const Interface of [ML, MLContext, MLGraph, MLOperand, MLOperator]) {
      assert.throws(() => new Interface(), { name: 'TypeError', message: /Illegal constructor/ });
      assert.equal(Interface.prototype[Symbol.toStringTag], Interface.name);
    }
    assert.throws(() => new MLGraphBuilder(), { name: 'TypeError', message: /1 argument required/ });
    assert.throws(() => new MLGraphBuilder({}), { name: 'TypeError', message: /expected an MLContext/ });
  });

  test('methods refuse other receivers', () => {
    assert.throws(() => ML.prototype.createContext.call({}), { name: 'TypeError', message: /Illegal invocation/ });
    assert.throws(() => MLGraph.prototype.compute.call({}, {}, {}), {
      name: 'TypeError',
      message: /Illegal invocation/,
    });
    assert.throws(() => MLGraphBuilder.prototype.relu.call(ml), { name: 'TypeError', message: /Illegal invocation/ });
  });

  test('objects of today are none of the draft', async () => {
    const webnn = require('webnn-node');
    const context = await webnn.ml.createContext();
    assert.throws(() => new MLGraphBuilder(context), { name: 'TypeError', message: /expected an MLContext/ });
    assert.throws(() => new webnn.MLGraphBuilder(ml.createContext()), {
      name: 'TypeError',
      message: /expected an MLContext/,
    });
    const operand = new webnn.MLGraphBuilder(context).input('x', { dataType: 'float32', shape: [1] });
    assert.throws(() => new MLGraphBuilder(ml.createContext()).relu(operand), {
      name: 'TypeError',
      message: /relu: x is an object, expected an MLOperand/,
    });
    context.destroy();
  });

  test('preferences are checked', () => {
    for (const devicePreference of enumerations.MLDevicePreference) assert.ok(ml.createContext({ devicePreference }) instanceof MLContext);
    assert.throws(() => ml.createContext({ devicePreference: 'npu' }), {
      name: 'TypeError',
      message: /devicePreference is "npu"/,
    });
    assert.throws(() => ml.createContext({ powerPreference: 'low' }), {
      name: 'TypeError',
      message: /powerPreference is "low"/,
    });
  });

  test('devices and resources of GPUs are not supported', () => {
    class GPUDevice {}
    class WebGLRenderingContext {}
    class GPUBuffer {}
    const resources = { GPUDevice, WebGLRenderingContext, GPUBuffer };
    Object.assign(globalThis, resources);
    try {
      assert.throws(() => ml.createContext(new GPUDevice()), exception('NotSupportedError', /GPUDevice/));
      assert.throws(() => ml.createContext(new WebGLRenderingContext()), exception('NotSupportedError', /WebGLRenderingContext/));
      const builder = new MLGraphBuilder(ml.createContext());
      const desc = { type: 'float32', dimensions: [1] };
      assert.throws(() => builder.constant(desc, new GPUBuffer()), exception('NotSupportedError', /constant: bufferView is a resource/));
      assert.throws(() => builder.constant(desc, { resource: new GPUBuffer() }), exception('NotSupportedError', /resource of WebGPU/));
      const graph = builder.build({ y: builder.relu(builder.input('x', desc)) });
      assert.throws(() => graph.compute({ x: { resource: new GPUBuffer(), offset: 4 } }, {}), exception('NotSupportedError', /inputs\["x"\] is a resource/));
      assert.throws(() => graph.compute({ x: new GPUBuffer() }, {}), exception('NotSupportedError', /inputs\["x"\] is a resource/));
      assert.throws(() => graph.compute({}, { y: new GPUBuffer() }), exception('NotSupportedError', /outputs\["y"\] is a resource/));
    } finally {
      for (const name of Object.keys(resources)) Reflect.deleteProperty(globalThis, name);
    }
  });
});
