import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test, { after, before } from 'node:test';
import { MLContext } from 'webnn-node';
import { chooseToken, Generator, randomNumbers } from '../../examples/text-generation/generator.mjs';
import { runExample } from './run-example.mjs';

const FOLDER = new URL('../../examples/text-generation/', import.meta.url);
const PROGRAM = 'text-generation.mjs';

/** What 600 steps may leave behind, in bytes: garbage of the heap that is not collected yet. */
const GROWTH = 8 * 2 ** 20;

/** All that an async generator gives, as one text. */
async function textOf(characters) {
  let text = '';
  for await (const character of characters) text += character;
  return text;
}

let generator;
before(async () => {
  generator = await Generator.load(new URL('model.onnx', FOLDER));
});
after(() => generator?.destroy());

test('greedy generation gives the tokens that onnxruntime gives', async () => {
  const reference = JSON.parse(await readFile(new URL('reference.json', FOLDER), 'utf8'));
  assert.ok(reference.length >= 3);
  for (const { prompt, tokens } of reference) {
    const text = await textOf(generator.generate(prompt, { maxTokens: tokens.length }));
    assert.deepEqual([...Buffer.from(text, 'ascii')], tokens, prompt);
  }
});

test('a text ends at the length of the cache, at maxTokens and at the stop character', async () => {
  const whole = await textOf(generator.generate('The moon '));
  assert.equal('The moon '.length + whole.length, generator.maxLength);
  assert.equal(await textOf(generator.generate('The moon ', { maxTokens: 7 })), whole.slice(0, 7));
  assert.equal(await textOf(generator.generate('The moon ', { stop: '\n' })), whole.split('\n')[0]);
});

test('characters come one by one, and the reader may stop', async () => {
  const characters = generator.generate('Bread ');
  const first = await characters.next();
  assert.equal(first.value.length, 1);
  await characters.return();
  assert.deepEqual(await characters.next(), { value: undefined, done: true });
});

test('steps create no tensors, and memory does not grow', async (t) => {
  const text = () => textOf(generator.generate('A ', { maxTokens: 200 }));
  const first = await text();
  const created = t.mock.method(MLContext.prototype, 'createTensor');
  globalThis.gc();
  const { rss } = process.memoryUsage();
  for (let i = 0; i < 3; i++) assert.equal(await text(), first);
  globalThis.gc();
  const growth = process.memoryUsage().rss - rss;
  assert.equal(created.mock.callCount(), 0);
  assert.ok(growth < GROWTH, `${growth} bytes more after 600 steps`);
});

test('temperature and seed choose the token', () => {
  const logits = Float32Array.of(1, 3, 2);
  assert.equal(chooseToken(logits, 0, () => 0.999), 1);
  assert.equal(chooseToken(logits, 1, () => 0), 0);
  assert.equal(chooseToken(logits, 1, () => 0.5), 1);
  assert.equal(chooseToken(logits, 1, () => 0.999), 2);
  assert.equal(chooseToken(logits, 1e-3, () => 0.999), 1);
  const [a, b] = [randomNumbers(7), randomNumbers(7)];
  const numbers = Array.from({ length: 1000 }, a);
  assert.deepEqual(Array.from({ length: 1000 }, b), numbers);
  assert.ok(numbers.every((number) => number >= 0 && number < 1));
  const mean = numbers.reduce((sum, number) => sum + number) / numbers.length;
  assert.ok(Math.abs(mean - 0.5) < 0.05, `mean ${mean}`);
});

test('the program streams lines, and a seed repeats them', async () => {
  const args = [PROGRAM, 'Bees', '--lines', '2', '--seed', '5', '--stats'];
  const { code, stdout, stderr } = await runExample(...args);
  assert.equal(code, 0);
  assert.match(stdout, /^Bees.+\nBees.+\n$/);
  assert.match(stderr, /^\d+ characters in \d+\.\d\d s: \d+ per second \(seed 5\)\n$/);
  assert.equal((await runExample(...args)).stdout, stdout);
});

test('bad usage is exit code 2 and says what was wrong', async () => {
  const refusals = [
    [['--lines', '0'], /--lines is "0", expected a positive whole number/],
    [['--temperature', 'hot'], /--temperature is "hot", expected a number from 0 to 10/],
    [['--seed', '-1'], /'--seed'|--seed is "-1"/],
    [['Müller'], /a prompt has 1 to 255 characters of ASCII, this one is "Müller"/],
    [['x'.repeat(256)], /a prompt has 1 to 255 characters of ASCII/],
  ];
  for (const [args, message] of refusals) {
    const { code, stderr } = await runExample(PROGRAM, ...args);
    assert.match(stderr, message);
    assert.match(stderr, /^text-generation: /);
    assert.equal(code, 2);
  }
});
