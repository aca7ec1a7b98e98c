/** Outputs that take the memory of inputs: the extension "donation". */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { generator } from '../lib/random.mjs';
import { exception, typeError } from '../lib/exceptions.mjs';
import { GARBAGE } from '../robustness/random.mjs';
import { checkException } from '../robustness/support.mjs';
import { MLGraphBuilder, interfaces, ml, read } from '../runtime/helpers.mjs';
import { dynamicBuilder } from './builders.mjs';
import { wrong } from '../lib/types.mjs';

/** @typedef {import('../../index.js').MLDonationContext} DonationContext */

/** @param {import('../../index.js').MLContextOptions} options */
const contextOf = async (options) =>
  /** @type {DonationContext} */ (await ml.createContext({ ...options, extensions: options.extensions ?? ['dynamic-shapes', 'donation'] }));

const context = await contextOf({ accelerated: false, numThreads: 2 });
const float32 = (...shape) => ({ dataType: /** @type {const} */ ('float32'), shape });
const random = generator(20261124);

const HEADS = 2;
const SIZE = 8;
const WIDTH = HEADS * SIZE;

const tensorOf = async (on, descriptor, contents) => {
  const tensor = await on.createTensor({ ...descriptor, readable: true, writable: true });
  if (contents !== undefined) {
    on.writeTensor(tensor, contents);
  }
  return tensor;
};
const bytesOf = async (tensor) => new Uint8Array(await context.readTensor(tensor));

/** One layer of a decoder: `y` of `x` and of the keys and values of all steps before. */
async function decoder(on) {
  const builder = dynamicBuilder(on);
  const own = generator(7);
  const weights = () =>
    builder.constant(
      float32(WIDTH, WIDTH),
      Float32Array.from({ length: WIDTH * WIDTH }, () => own.next() - 0.5),
    );
  const x = builder.input('x', float32(1, 1, WIDTH));
  const heads = () => builder.transpose(builder.reshape(builder.matmul(x, weights()), [1, 1, HEADS, SIZE]), { permutation: [0, 2, 1, 3] });
  const grown = (name) => builder.concat([builder.input(name, float32(1, HEADS, 'past', SIZE)), heads()], 2);
  const [query, key, value] = [heads(), grown('past.key'), grown('past.value')];
  const scores = builder.mul(builder.matmul(query, builder.transpose(key, { permutation: [0, 1, 3, 2] })), builder.constant('float32', SIZE ** -0.5));
  const mixed = builder.transpose(builder.matmul(builder.softmax(scores, 3), value), { permutation: [0, 2, 1, 3] });
  const y = builder.tanh(builder.matmul(builder.reshape(mixed, [1, 1, WIDTH]), weights()));
  return builder.build({ y, 'present.key': key, 'present.value': value });
}

/** What a decoder gives in some steps, each of which is fed what the last one gave. */
async function decoded(on, steps, options) {
  const graph = await decoder(on);
  const cache = () => Float32Array.from({ length: HEADS * 2 * SIZE }, (_, at) => Math.sin(at));
  let x = await tensorOf(on, float32(1, 1, WIDTH), new Float32Array(WIDTH).fill(0.5));
  let past = {};
  for (const name of ['key', 'value']) {
    past[name] = await tensorOf(on, float32(1, HEADS, 2, SIZE), cache());
  }
  const results = [];
  for (let step = 0; step < steps; step++) {
    const shape = float32(1, HEADS, 3 + step, SIZE);
    const [y, key, value] = await Promise.all([float32(1, 1, WIDTH), shape, shape].map((descriptor) => tensorOf(on, descriptor)));
    const outputs = { y, 'present.key': key, 'present.value': value };
    on.dispatch(graph, { x, 'past.key': past.key, 'past.value': past.value }, outputs, options);
    past.key.destroy();
    past.value.destroy();
    x.destroy();
    [x, past] = [y, { key, value }];
    results.push(read(on, y));
    if (step % 50 === 25) {
      results.push(read(on, key));
    }
  }
  results.push(read(on, past.key), read(on, past.value));
  return Promise.all(results);
}

const DONATE = { donate: { 'present.key': 'past.key', 'present.value': 'past.value' } };

for (const accelerated of [false, true]) {
  test(`200 steps of a decoder give what they give without it, ${accelerated ? 'on the default device' : 'on the CPU'}`, async () => {
    const on = accelerated ? await contextOf({}) : context;
    const expected = await decoded(on, 200, undefined);
    for (const options of [DONATE, { donate: { 'present.value': 'past.value' } }]) {
      const got = await decoded(on, 200, options);
      assert.deepEqual(got, expected);
    }
  });
}

/** `present`, the rows of `past` with `row` behind, and what `more` adds. */
async function appending(width, more = /** @type {(...operands: any[]) => object} */ (() => ({})), on = context) {
  const builder = dynamicBuilder(on);
  const past = builder.input('past', { dataType: 'uint8', shape: ['n', width] });
  const row = builder.input('row', { dataType: 'uint8', shape: [1, width] });
  const present = builder.concat([past, row], 0);
  return builder.build({ present, ...more(builder, past, row, present) });
}

const rows = (count, width) => ({ dataType: /** @type {const} */ ('uint8'), shape: [count, width] });
const PRESENT = { donate: { present: 'past' } };

/**
 * Bytes that 300 steps may take, whose tensors together have 1.5 GB: three copies of the last and largest tensor, 10 MB each, what
 * is queued, and the heap of JavaScript. 28 MB were measured.
 */
const GROWTH = 100e6;

test('memory grows by what is appended, and every input stays what it was', async (t) => {
  const width = 1 << 15;
  const steps = 300;
  const graph = await appending(width);
  const row = await tensorOf(context, rows(1, width));
  const all = [await tensorOf(context, rows(1, width), new Uint8Array(width))];
  const before = process.memoryUsage.rss();
  for (let step = 1; step <= steps; step++) {
    const present = await tensorOf(context, rows(step + 1, width));
    context.writeTensor(row, new Uint8Array(width).fill(step));
    context.dispatch(graph, { past: all.at(-1), row }, { present }, PRESENT);
    all.push(present);
  }
  assert.equal((await bytesOf(row))[0], steps % 256);
  const grown = process.memoryUsage.rss() - before;
  t.diagnostic(`${(grown / 1e6).toFixed(0)} MB more`);
  assert.ok(grown < GROWTH, `${grown} bytes`);
  for (const count of [1, 2, 100, steps + 1]) {
    const bytes = await bytesOf(all[count - 1]);
    assert.ok(
      bytes.every((byte, at) => byte === Math.floor(at / width) % 256),
      `the first ${count} rows`,
    );
  }
});

test('whatever else is done with the tensors', async () => {
  const width = 3;
  const graph = await appending(width);
  const known = [];
  const add = async (contents) => {
    const tensor = await tensorOf(context, rows(contents.length / width, width));
    known.push({ tensor, contents });
    return tensor;
  };
  const reads = [];
  for (let step = 0; step < 1500; step++) {
    const one = known[random.below(known.length)];
    const kind = known.length < 3 ? 0 : random.below(8);
    if (kind === 0) {
      const contents = Uint8Array.from({ length: width * (1 + random.below(4)) }, () => random.below(256));
      context.writeTensor(await add(contents), contents);
    } else if (kind <= 4) {
      const own = Uint8Array.from({ length: width }, () => random.below(256));
      const row = await tensorOf(context, rows(1, width), own);
      const contents = Uint8Array.from([...one.contents, ...own]);
      // Some go into a tensor that holds something already.
      const other = known.find(({ tensor, contents: { length } }) => tensor !== one.tensor && length === contents.length);
      const present = other?.tensor ?? (await add(contents));
      if (other !== undefined) {
        other.contents = contents;
      }
      context.dispatch(graph, { past: one.tensor, row }, { present }, random.below(4) > 0 ? PRESENT : {});
      row.destroy();
    } else if (kind === 5) {
      one.contents = one.contents.map(() => random.below(256));
      context.writeTensor(one.tensor, one.contents);
    } else if (kind === 6) {
      const { contents } = one;
      reads.push(
        bytesOf(one.tensor).then(
          (bytes) => assert.deepEqual(bytes, contents),
          (error) => assert.equal(error.name, 'InvalidStateError'),
        ),
      );
    } else {
      known.splice(known.indexOf(one), 1);
      one.tensor.destroy();
    }
  }
  await Promise.all(reads);
  for (const { tensor, contents } of known) {
    assert.deepEqual(await bytesOf(tensor), contents);
  }
});

test('an input that is read elsewhere, and an output that is', async () => {
  const graph = await appending(4, (builder, past, row, present) => ({
    same: builder.identity(past),
    turned: builder.transpose(present),
    twice: builder.concat([present, row], 0),
    sum: builder.reduceSum(builder.cast(past, 'int32'), { axes: [0] }),
  }));
  let past = await tensorOf(context, rows(1, 4), Uint8Array.of(1, 2, 3, 4));
  let expected = [1, 2, 3, 4];
  for (let step = 1; step < 20; step++) {
    const own = [step, 2 * step, 3, 4];
    const all = [...expected, ...own];
    const row = await tensorOf(context, rows(1, 4), Uint8Array.from(own));
    const outputs = {
      present: await tensorOf(context, rows(step + 1, 4)),
      same: await tensorOf(context, rows(step, 4)),
      turned: await tensorOf(context, rows(4, step + 1)),
      twice: await tensorOf(context, rows(step + 2, 4)),
      sum: await tensorOf(context, { dataType: 'int32', shape: [4] }),
    };
    context.dispatch(graph, { past, row }, outputs, PRESENT);
    assert.deepEqual([...(await bytesOf(outputs.same))], expected);
    assert.deepEqual([...(await bytesOf(outputs.twice))], [...all, ...own]);
    const columns = [0, 1, 2, 3].map((column) => all.filter((_, at) => at % 4 === column));
    assert.deepEqual([...(await bytesOf(outputs.turned))], columns.flat());
    const sums = new Int32Array(await context.readTensor(outputs.sum));
    assert.deepEqual(
      [...sums],
      columns.map((column) => column.slice(0, -1).reduce((a, b) => a + b)),
    );
    [past, expected] = [outputs.present, all];
  }
  assert.deepEqual([...(await bytesOf(past))], expected);
});

test('what is appended may be of the input itself, nothing, or of any length', async () => {
  const builder = dynamicBuilder(context);
  const past = builder.input('past', { dataType: 'uint8', shape: ['n', 2] });
  const rest = builder.input('rest', { dataType: 'uint8', shape: ['m', 2] });
  const graph = await builder.build({
    self: builder.concat([past, builder.slice(past, [0, 0], [1, 2])], 0),
    more: builder.concat([rest, past, past], 0),
  });
  const alone = dynamicBuilder(context);
  const only = await alone.build({ same: alone.concat([alone.input('past', { dataType: 'uint8', shape: ['n', 2] })], 0) });
  let [first, second] = [await tensorOf(context, rows(1, 2), Uint8Array.of(5, 6)), await tensorOf(context, rows(1, 2), Uint8Array.of(7, 8))];
  let expected = [
    [5, 6],
    [7, 8],
  ];
  for (let step = 0; step < 5; step++) {
    const self = await tensorOf(context, rows(expected[0].length / 2 + 1, 2));
    const more = await tensorOf(context, rows(expected[1].length / 2 + expected[0].length, 2));
    context.dispatch(graph, { past: first, rest: second }, { self, more }, { donate: { self: 'past', more: 'rest' } });
    expected = [
      [...expected[0], 5, 6],
      [...expected[1], ...expected[0], ...expected[0]],
    ];
    [first, second] = [self, more];
    const same = await tensorOf(context, rows(expected[0].length / 2, 2));
    context.dispatch(only, { past: first }, { same }, { donate: { same: 'past' } });
    assert.deepEqual([...(await bytesOf(same))], expected[0]);
    first = same;
  }
  assert.deepEqual([[...(await bytesOf(first))], [...(await bytesOf(second))]], expected);
});

describe('what cannot be right is an error', async () => {
  const builder = dynamicBuilder(context);
  const past = builder.input('past', float32('n', 2));
  const other = builder.input('other', float32('m', 2));
  const fixed = builder.input('fixed', float32(2, 2));
  const graph = await builder.build({
    present: builder.concat([past, other], 0),
    again: builder.concat([past, fixed], 0),
    behind: builder.concat([other, past], 0),
    known: builder.concat([fixed, fixed, builder.slice(other, [0, 0], [1, 2])], 0),
    wide: builder.concat([fixed, fixed], 1),
    negated: builder.neg(past),
    doubled: builder.concat([past, past], 0),
    converted: builder.concat([builder.cast(past, 'int32'), builder.cast(other, 'int32')], 0),
  });
  const inputs = {};
  for (const name of ['past', 'other', 'fixed']) {
    inputs[name] = await tensorOf(context, float32(2, 2), Float32Array.of(1, 2, 3, 4));
  }
  const outputs = {};
  for (const [name, shape] of Object.entries(graph.computeShapes({ past: [2, 2], other: [2, 2], fixed: [2, 2] }))) {
    outputs[name] = await tensorOf(context, { dataType: name === 'converted' ? 'int32' : 'float32', shape });
  }
  const dispatch = (donate, to = outputs) => context.dispatch(graph, inputs, to, { donate });

  test('declarations', () => {
    const misfit = (output, input) =>
      new RegExp(`^dispatch: output "${output}" cannot take the memory of input "${input}": it is not a concat\\(\\) of that input`);
    for (const [donate, pattern] of /** @type {[Record<string, string>, RegExp][]} */ ([
      [{ present: 'Past' }, /^dispatch: options.donate: the graph has no input "Past"$/],
      [{ Present: 'past' }, /^dispatch: options.donate: the graph has no output "Present"$/],
      [{ past: 'present' }, /no output "past"/],
      [{ present: '' }, /no input ""/],
      [{ present: 'other' }, misfit('present', 'other')],
      [{ behind: 'past' }, misfit('behind', 'past')],
      [{ negated: 'past' }, misfit('negated', 'past')],
      [{ doubled: 'past' }, misfit('doubled', 'past')],
      [{ converted: 'past' }, misfit('converted', 'past')],
      [{ wide: 'fixed' }, misfit('wide', 'fixed')],
      [{ known: 'fixed' }, misfit('known', 'fixed')],
      [{ present: 'past', again: 'past' }, /^dispatch: output "again" cannot take the memory of input "past": another output takes it$/],
    ])) {
      assert.throws(() => dispatch(donate), typeError(pattern));
    }
    dispatch({ again: 'past', behind: 'other' });
    dispatch({});
    dispatch(undefined);
  });

  test('tensors', async () => {
    const foreign = await contextOf({ accelerated: false });
    const there = await tensorOf(foreign, float32(4, 2));
    assert.throws(() => dispatch(PRESENT.donate, { ...outputs, present: there }), typeError(/belongs to another context/));
    assert.throws(() => dispatch(PRESENT.donate, { ...outputs, present: inputs.past }), typeError(/passed more than once/));
    const small = await tensorOf(context, float32(3, 2));
    assert.throws(() => dispatch(PRESENT.donate, { ...outputs, present: small }), typeError(/output "present" needs float32 \[4, 2\]/));
    small.destroy();
    assert.throws(() => dispatch(PRESENT.donate, { ...outputs, present: small }), typeError(/destroyed/));
    // Nothing of that was dispatched.
    assert.deepEqual([...(await read(context, inputs.past))], [1, 2, 3, 4]);
    const mine = await appending(2, undefined, foreign);
    const [from, row, to] = [await tensorOf(foreign, rows(1, 2)), await tensorOf(foreign, rows(1, 2)), await tensorOf(foreign, rows(2, 2))];
    foreign.dispatch(mine, { past: from, row }, { present: to }, PRESENT);
    const pending = foreign.readTensor(to).catch(({ name }) => name);
    from.destroy();
    to.destroy();
    mine.destroy();
    assert.equal(await pending, 'InvalidStateError');
    assert.throws(() => foreign.dispatch(mine, { past: from, row }, { present: to }, PRESENT), exception('InvalidStateError'));
    foreign.destroy();
  });

  test('graphs without named dimensions', async () => {
    const plain = dynamicBuilder(context);
    const [x, y] = [plain.input('x', float32(2)), plain.input('y', float32(1))];
    const still = await plain.build({ z: plain.concat([x, y], 0) });
    const given = { x: await tensorOf(context, float32(2)), y: await tensorOf(context, float32(1)) };
    const z = await tensorOf(context, float32(3));
    assert.throws(
      () => context.dispatch(still, given, { z }, { donate: { z: 'x' } }),
      typeError(/^dispatch: output "z" cannot take the memory of input "x": the graph has no named dimensions along which it could grow$/),
    );
    context.dispatch(still, given, { z }, { donate: {} });
  });

  test('garbage', () => {
    for (const [at, make] of GARBAGE.entries()) {
      for (const options of [() => make(), () => ({ donate: make() }), () => ({ donate: { present: make() } })]) {
        try {
          context.dispatch(graph, inputs, outputs, options());
        } catch (error) {
          checkException(error, `garbage ${at}`);
        }
      }
    }
    const loud = {
      get donate() {
        throw new RangeError('mine');
      },
    };
    assert.throws(() => context.dispatch(graph, inputs, outputs, wrong(loud)), RangeError);
  });

  test('nothing, where the draft has no fourth argument', async () => {
    assert.equal(interfaces.MLContext.prototype.dispatch.length, 3);
    for (const extension of /** @type {import('../../index.js').MLContextExtension[][]} */ ([[], ['dynamic-shapes'], ['int4']])) {
      const plain = await contextOf({ accelerated: false, extensions: extension });
      const own = new MLGraphBuilder(plain);
      const simple = await own.build({ y: own.neg(own.input('x', float32(1))) });
      const [x, y] = [await tensorOf(plain, float32(1), Float32Array.of(2)), await tensorOf(plain, float32(1))];
      // Without the extension, the draft has no fourth argument.
      for (const options of [
        5,
        { donate: 'x' },
        { donate: { no: 'such' } },
        {
          get donate() {
            throw new Error('read');
          },
        },
      ]) {
        plain.dispatch(simple, { x }, { y }, wrong(options));
      }
      assert.deepEqual([...(await read(plain, y))], [-2]);
      plain.destroy();
    }
  });
});
