import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test, { describe } from 'node:test';
import sharp from 'sharp';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { numbersOf } from 'webnn-node-text/elements';
import { readNpy } from '../lib/npy.mjs';
import { FLOAT, node, sequenceValue, STRING, value, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { file, webnn, webnnJson } from './command.mjs';

const folder = temporaryFolder();

/** Runs a model and reads what it wrote: elements by file name. */
async function written(...args) {
  const directory = temporaryFolder();
  const { code, stderr } = await webnn('run', ...args, '--output-dir', directory);
  assert.equal(stderr, '');
  assert.equal(code, 0);
  const names = (await readdir(directory)).sort();
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await readNpy(path.join(directory, name))])));
}

async function refused(code, message, ...args) {
  const got = await webnn('run', ...args);
  assert.match(got.stderr, message);
  assert.equal(got.stdout, '');
  assert.equal(got.code, code);
}

const tokens = file('tokens.onnx');

describe('values', () => {
  test('arrays of files, which tell the free dimensions', async () => {
    const outputs = await written(tokens, '--input', `ids=${file('two.npz')}:ids`, '--input', 'mask=ones');
    assert.deepEqual(Object.keys(outputs), ['copy_ids.npy', 'masked.npy']);
    assert.deepEqual(outputs['masked.npy'], { dataType: 'float32', shape: [2, 3], data: Float32Array.from([0, 1, 2, 3, 4, 5]) });
    assert.deepEqual(outputs['copy_ids.npy'], { dataType: 'int64', shape: [2, 3], data: BigInt64Array.from([0n, 1n, 2n, 3n, 4n, 5n]) });
  });

  test('other data types of the same kind are converted', async () => {
    const outputs = await written(tokens, '--input', `ids=${file('uint8.npy')}`, '--input', `mask=${file('float64.npy')}`);
    assert.deepEqual(outputs['masked.npy'].data, Float32Array.from([0, 1, 4, 9, 16, 25]));
    await refused(1, /input ids: .*float32\.npy: data type float32, expected int64/, tokens, '--input', `ids=${file('float32.npy')}`, '--input', 'mask=ones');
  });

  test('lists', async () => {
    const outputs = await written(tokens, '--input', 'ids=9007199254740993,-2,3', '--input', 'mask=1,.5,-1e1');
    assert.deepEqual(outputs['copy_ids.npy'], { dataType: 'int64', shape: [1, 3], data: BigInt64Array.from([9007199254740993n, -2n, 3n]) });
    assert.deepEqual(outputs['masked.npy'].data.slice(1), Float32Array.from([-1, -30]));
    await refused(2, /1\.5 is not an integer, but the input is int64/, tokens, '--input', 'ids=1.5', '--input', 'mask=1');
    await refused(2, /the list: input "x" has 3 elements, expected a number that fills the shape \[1, 16, 4, 4\]/, file('conv.onnx'), '--input', '1,2,3');
    await refused(
      2,
      /the list: input "mask" has 2 elements, expected a number that fills the shape \[batch=1, sequence=3\]/,
      tokens,
      '--input',
      'ids=1,2,3',
      '--input',
      'mask=1,2',
    );
    await refused(2, /9223372036854775808 is not in the range of int64/, tokens, '--input', 'ids=9223372036854775808', '--input', 'mask=1');
  });

  test('float16', async () => {
    const outputs = await written(file('half.onnx'), '--input', '0.5,-1,65504,nan');
    assert.equal(outputs['y.npy'].dataType, 'float16');
    assert.deepEqual(Array.from(numbersOf(outputs['y.npy'])), [1, -2, Infinity, NaN]);
  });

  test('random numbers repeat with their seed', async () => {
    const shape = ['--free-dimension', 'batch=2', '--free-dimension', 'sequence=50'];
    const draw = async (seed, ...more) =>
      (await written(tokens, '--input', `ids=random:${seed}`, '--input', 'mask=ones', ...shape, ...more))['copy_ids.npy'].data;
    const first = await draw(1);
    assert.deepEqual(await draw(1), first);
    assert.notDeepEqual(await draw(2), first);
    assert.deepEqual([...new Set(first)].sort(), [0n, 1n]);
    const wide = await draw(1, '--random-range', '5,7');
    assert.deepEqual([...new Set(wide)].sort(), [5n, 6n, 7n]);
    const {
      outputs: [y],
    } = await webnnJson(
      'run',
      file('any-size.onnx'),
      '--input',
      'random',
      '--free-dimension',
      'batch=1',
      '--free-dimension',
      'height=40',
      '--free-dimension',
      'width=40',
    );
    assert.ok(y.min >= -1 && y.min < -0.99 && y.max <= 1 && y.max > 0.99 && Math.abs(y.mean) < 0.05);
  });

  test('shapes that no tensor can have are refused', async () => {
    const size = ['batch', 'height', 'width'].flatMap((name) => ['--free-dimension', `${name}=100000`]);
    await refused(
      1,
      /input image: float32 \[100000, 3, 100000, 100000\] has 12000000000000000 bytes, expected at most 2147483647/,
      file('any-size.onnx'),
      '--input',
      'zeros',
      ...size,
    );
  });

  test('shapes that do not fit are named', async () => {
    await refused(1, /float32\.npy: input "x" has shape \[2, 3\], expected \[1, 16, 4, 4\]/, file('conv.onnx'), '--input', file('float32.npy'));
    await refused(
      1,
      /bool\.npy: input "mask" has shape \[3\], expected \[batch=2, sequence=3\]/,
      tokens,
      '--input',
      `ids=${file('int64.npy')}`,
      '--input',
      `mask=${file('bool.npy')}`,
    );
    await refused(
      1,
      /float32\.npy: input "mask" has shape \[2, 3\], expected \[batch=5, sequence\]/,
      tokens,
      '--input',
      `mask=${file('float32.npy')}`,
      '--input',
      'ids=random',
      '--free-dimension',
      'batch=5',
    );
  });
});

test('a table of each output, and the same for programs', async () => {
  const args = ['run', tokens, '--input', `ids=${file('one.npz')}`, '--input', 'mask=ones'];
  const { stdout } = await webnn(...args);
  assert.match(stdout, /^masked +float32 +\[2, 3\] +0 +5 +2\.5 +0 1 2 3 4$/m);
  assert.match(stdout, /^copy\/ids +int64 +\[2, 3\] +0 +5 +2\.5 +0 1 2 3 4$/m);
  const { outputs } = await webnnJson(...args);
  assert.deepEqual(outputs[0], { name: 'masked', dataType: 'float32', shape: [2, 3], min: 0, max: 5, mean: 2.5, nans: 0, first: [0, 1, 2, 3, 4] });
});

describe('pictures', () => {
  const colors = file('colors.onnx');

  /** Writes a picture of 16 x 8 pixels: the left half in one colour, the right half in another. */
  async function picture(name, left, right = left) {
    const pixels = Uint8Array.from({ length: 16 * 8 * 3 }, (_, i) => (Math.floor(i / 3) % 16 < 8 ? left : right)[i % 3]);
    const target = path.join(folder, name);
    await sharp(pixels, { raw: { width: 16, height: 8, channels: 3 } }).toFile(target);
    return target;
  }

  const scores = async (...args) => Array.from((await written(...args))['scores.npy'].data);
  test('are normalised as asked, to -1 to 1 otherwise', async () => {
    const red = await picture('red.png', [255, 0, 0]);
    assert.deepEqual(await scores(colors, '--input', red, '--mean', '0', '--std', '1'), [1, 0, 0]);
    assert.deepEqual(await scores(colors, '--input', red, '--mean', '127.5', '--std', '127.5', '--scale', '1'), [1, -1, -1]);
    assert.deepEqual(await scores(colors, '--input', red), [1, -1, -1]);
    assert.deepEqual(await scores(colors, '--input', red, '--mean', '0,.5,1', '--std', '1,2,4'), [1, -0.25, -0.25]);
  });

  test('are cropped in the middle, or stretched', async () => {
    const halves = await picture('halves.png', [255, 0, 0], [0, 0, 255]);
    assert.deepEqual(await scores(colors, '--input', halves, '--mean', '0', '--std', '1'), [0.5, 0, 0.5]);
    const size = ['--free-dimension', 'batch=1', '--mean', '0', '--std', '1'];
    const same = async (...args) => (await written(file('any-size.onnx'), '--input', halves, ...size, ...args))['same.npy'];
    assert.deepEqual((await same()).shape, [1, 3, 8, 16]);
    assert.deepEqual((await same('--resize', '4')).shape, [1, 3, 4, 8]);
    assert.deepEqual((await same('--crop', '4x2')).shape, [1, 3, 4, 2]);
    assert.deepEqual((await same('--crop', '4x2', '--stretch')).shape, [1, 3, 4, 2]);
    // Red where the left half was, in the first of the channels.
    assert.deepEqual(Array.from((await same()).data.slice(0, 16)), [...Array(8).fill(1), ...Array(8).fill(0)]);
    assert.deepEqual(Array.from((await same('--crop', '1x16')).data), [...Array(8).fill(1), ...Array(32).fill(0), ...Array(8).fill(1)]);
  });

  test('are turned as their EXIF data say', async () => {
    const upright = await picture('upright.png', [255, 0, 0], [0, 0, 255]);
    const turned = path.join(folder, 'turned.tiff');
    await sharp(upright).withMetadata({ orientation: 3 }).tiff({ compression: 'none' }).toFile(turned);
    const { data } = (await written(file('any-size.onnx'), '--input', turned, '--free-dimension', 'batch=1', '--mean', '0', '--std', '1'))['same.npy'];
    assert.deepEqual(Array.from(data.slice(0, 16)), [...Array(8).fill(0), ...Array(8).fill(1)]);
  });

  test('integer inputs get bytes, channels last where the shape says so', async () => {
    const teal = await picture('teal.png', [0, 128, 129]);
    const { data, shape } = (await written(file('bytes.onnx'), '--input', teal))['same.npy'];
    assert.deepEqual(shape, [1, 8, 8, 3]);
    assert.deepEqual(Array.from(data.slice(0, 6)), [0, 128, 129, 0, 128, 129]);
    await refused(2, /--mean: input image is uint8 and takes the plain values/, file('bytes.onnx'), '--input', teal, '--mean', '0');
    await refused(2, /layout nchw means 8 channels, expected 1 or 3/, file('bytes.onnx'), '--input', teal, '--layout', 'nchw');
  });

  test('what is no picture, or does not fit, is refused', async () => {
    const text = path.join(folder, 'text.jpg');
    await writeFile(text, 'not a picture');
    const red = await picture('small.png', [255, 0, 0]);
    await refused(1, /cannot read the picture .*text\.jpg: /, colors, '--input', text);
    await refused(2, /a picture needs 3 or 4 dimensions/, file('half.onnx'), '--input', red);
    await refused(2, /too small for a crop of 8x8/, colors, '--input', red, '--resize', '4');
    await refused(2, /Expected 1 or 3 numbers/, colors, '--input', red, '--mean', '1,2');
  });

  test('labels: scores become probabilities, the most likely class first', async () => {
    const lines = path.join(folder, 'labels.txt');
    const object = path.join(folder, 'labels.json');
    await writeFile(lines, 'red\ngreen\nblue\n');
    await writeFile(object, JSON.stringify({ 0: 'red', 1: 'green', 2: 'blue' }));
    const green = await picture('green.png', [0, 255, 0]);
    const plain = ['run', colors, '--input', green, '--mean', '0', '--std', '1'];
    // The scores 0, 1, 0 are a distribution already.
    const given = await webnn(...plain, '--labels', lines, '--top', '1');
    assert.match(given.stdout, /^scores: probabilities from the model\n.*\ngreen +100\.0 % +1\n$/);
    const { classes } = await webnnJson('run', colors, '--input', green, '--labels', object);
    assert.equal(classes.softmax, true);
    assert.deepEqual(
      classes.items[0].map(({ label }) => label),
      ['green', 'red', 'blue'],
    );
    const sum = classes.items[0].reduce((total, { probability }) => total + probability, 0);
    assert.ok(Math.abs(sum - 1) < 1e-6);
    await writeFile(lines, 'red\n');
    await refused(1, /there are 1 labels, but no output has an axis of that size: scores \[1, 3\]/, ...plain.slice(1), '--labels', lines);
  });
});

test('a folder that cannot be created is an error', async () => {
  const inFile = path.join(file('conv.onnx'), 'folder');
  await refused(1, /cannot create the folder .*conv\.onnx.folder: ENOTDIR/, file('conv.onnx'), '--input', 'ones', '--output-dir', inFile);
});

test('files of outputs are those of NumPy, in folders that are made', async () => {
  const directory = path.join(folder, 'new', 'npy');
  const { code, stdout } = await webnn('run', tokens, '--input', `ids=${file('int64.npy')}`, '--input', 'mask=ones', '--output-dir', directory);
  assert.equal(code, 0);
  const lines = ['masked.npy  float32 [2, 3]', 'copy_ids.npy  int64 [2, 3]'].map((line) => `${path.join(directory, line)}\n`);
  assert.equal(stdout, lines.join(''));
  assert.ok((await readFile(path.join(directory, 'copy_ids.npy'))).equals(await readFile(file('int64.npy'))));
});

test('whatever outputs are called, each has a file of its own', async () => {
  const names = ['con', 'CON', 'a/b', 'a b', '..', 'x'.repeat(300), `${'x'.repeat(299)}y`];
  const model = path.join(folder, 'names.onnx');
  await writeFile(
    model,
    writeModel({
      inputs: [value('in', FLOAT, [1])],
      outputs: names.map((name) => value(name, FLOAT, [1])),
      nodes: names.map((name) => node('Relu', ['in'], [name])),
    }),
  );
  const files = Object.keys(await written(model, '--input', 'ones'));
  const long = 'x'.repeat(200);
  assert.deepEqual(files.sort(), ['_.npy', '_CON-2.npy', '_con.npy', 'a_b-2.npy', 'a_b.npy', `${long}-2.npy`, `${long}.npy`].sort());
});

test('outputs that are strings, maps and lists are shown, and written as JSON', async () => {
  const model = path.join(folder, 'strings.onnx');
  const strings = (...texts) => ({ strings: texts.map((text) => new TextEncoder().encode(text)) });
  await writeFile(
    model,
    writeModel({
      inputs: [value('x', FLOAT, [1, 2])],
      outputs: [value('label', STRING), sequenceValue('maps', FLOAT), sequenceValue('list', FLOAT)],
      nodes: [
        node('ai.onnx.ml.LinearClassifier', ['x'], ['label', 'scores'], {
          classlabels_strings: strings('no', 'yes'),
          coefficients: { floats: [1, 0, 0, 1] },
          intercepts: { floats: [0, 0] },
        }),
        node('ai.onnx.ml.ZipMap', ['scores'], ['maps'], { classlabels_strings: strings('no', 'yes') }),
        node('SplitToSequence', ['x'], ['list'], { axis: { i: 1 } }),
      ],
    }),
  );
  const { outputs } = await webnnJson('run', model, '--input', 'x=1,3', '--output-dir', folder);
  assert.deepEqual(
    outputs.map(({ name, dataType, first }) => [name, dataType, first]),
    [
      ['label', 'string', ['yes']],
      ['maps', 'map', [{ no: 1, yes: 3 }]],
      ['list[0]', 'float32', [1]],
      ['list[1]', 'float32', [3]],
    ],
  );
  assert.deepEqual(JSON.parse(await readFile(path.join(folder, 'maps.json'), 'utf8')), [{ no: 1, yes: 3 }]);
});
