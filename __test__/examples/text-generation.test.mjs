import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test, { after, before } from 'node:test';
import { MLContext } from 'webnn-node';
import { randomNumbers } from 'webnn-node-text/random';
import { collectGarbage } from '../lib/wait.mjs';
import { Generator, PromptError } from '../../examples/text-generation/generator.mjs';
import { chooseToken, GREEDY, samplingOf } from 'webnn-node-serve/text';
import { asciiTokenizer } from '../../examples/text-generation/tiny-model.mjs';
import { runExample, runExampleWith } from './run-example.mjs';

const FOLDER = new URL('../../examples/text-generation/', import.meta.url);
const PROGRAM = 'text-generation/index.mjs';

/** What 600 steps may leave behind, in bytes: garbage of the heap that is not collected yet. 0.7 MB were measured. */
const GROWTH = 8 * 2 ** 20;

let generator;
before(async () => {
  generator = await Generator.load(new URL('model.onnx', FOLDER));
});
after(() => generator?.destroy());

const greedy = (logits) => chooseToken(logits, GREEDY, Math.random);

/** What the model makes of a prompt, as a text of its own. */
async function textOf(prompt, options) {
  generator.reset();
  let text = '';
  for await (const id of generator.generate(asciiTokenizer.encode(prompt).ids, { choose: greedy, ...options })) text += asciiTokenizer.decode([id]);
  return text;
}

test('greedy generation gives the tokens that onnxruntime gives', async () => {
  const reference = JSON.parse(await readFile(new URL('reference.json', FOLDER), 'utf8'));
  assert.ok(reference.length >= 3);
  for (const { prompt, tokens } of reference) {
    const text = await textOf(prompt, { maxTokens: tokens.length });
    assert.deepEqual([...Buffer.from(text, 'ascii')], tokens, prompt);
  }
});

test('a text ends at the length of the cache, at maxTokens, at a stop token and by a signal', async () => {
  const whole = await textOf('The moon ');
  assert.equal('The moon '.length + whole.length, generator.maxLength);
  assert.equal(generator.length, generator.maxLength);
  assert.equal(await textOf('The moon ', { maxTokens: 7 }), whole.slice(0, 7));
  assert.equal(await textOf('The moon ', { stop: new Set([10]) }), whole.split('\n')[0]);
  const stopped = new AbortController();
  const choose = (logits) => {
    if (generator.length === 'The moon '.length + 3) stopped.abort();
    return greedy(logits);
  };
  assert.equal(await textOf('The moon ', { choose, signal: stopped.signal }), whole.slice(0, 4));
});

test('a text goes on where it ended, with what is added to it', async () => {
  const whole = await textOf('The moon ', { maxTokens: 40 });
  const start = await textOf('The moon ', { maxTokens: 15 });
  assert.equal(generator.length, 9 + 15);
  let rest = '';
  const next = whole[15];
  for await (const id of generator.generate(asciiTokenizer.encode(next).ids, { choose: greedy, maxTokens: 24 })) rest += asciiTokenizer.decode([id]);
  assert.equal(start + next + rest, whole);
});

test('characters come one by one, and the reader may stop', async () => {
  generator.reset();
  const ids = generator.generate(asciiTokenizer.encode('Bread ').ids, { choose: greedy });
  const first = await ids.next();
  assert.equal(typeof first.value, 'number');
  await ids.return();
  assert.deepEqual(await ids.next(), { value: undefined, done: true });
});

test('a prompt that the model cannot read is refused, and the text stays as it was', async () => {
  const whole = await textOf('The moon ', { maxTokens: 5 });
  const refused = (ids, message) =>
    assert.rejects(generator.generate(ids, { choose: greedy }).next(), (error) => {
      assert.ok(error instanceof PromptError, String(error));
      assert.match(error.message, message);
      return true;
    });
  await refused([], /^there are no tokens in this text$/);
  await refused([65, 128], /^token 128 is outside of the model's vocabulary of 128 tokens/);
  await refused([undefined], /^the tokenizer has no token for a part of this text$/);
  await refused(Array(242).fill(65), /^14 tokens and 242 new tokens are too long for the model: its context has 256, with room for a response$/);
  assert.equal(generator.length, 9 + whole.length);
  await assert.rejects(textOf('Müller'), { name: 'PromptError', message: 'this model reads only ASCII, and not "Müller"' });
});

test('steps create no tensors, and memory does not grow', async (t) => {
  const text = () => textOf('A ', { maxTokens: 200 });
  const first = await text();
  const created = t.mock.method(MLContext.prototype, 'createTensor');
  await collectGarbage();
  const { rss } = process.memoryUsage();
  for (let i = 0; i < 3; i++) assert.equal(await text(), first);
  await collectGarbage();
  const growth = process.memoryUsage().rss - rss;
  t.diagnostic(`${growth} bytes more`);
  assert.equal(created.mock.callCount(), 0);
  assert.ok(growth < GROWTH, `${growth} bytes more after 600 steps`);
});

/** The tokens that are chosen for numbers all over 0 to 1. */
function choices(logits, sampling) {
  const chosen = Array.from({ length: 200 }, (_, i) => chooseToken(Float32Array.from(logits), { ...GREEDY, ...sampling }, () => i / 200));
  return [...new Set(chosen)].sort();
}

test('temperature, top-k and top-p choose the token', () => {
  // Probabilities 0.0900, 0.6652, 0.2447 at temperature 1.
  const logits = [1, 3, 2];
  assert.deepEqual(choices(logits, {}), [1]);
  assert.deepEqual(choices(logits, { temperature: 1 }), [0, 1, 2]);
  assert.deepEqual(choices(logits, { temperature: 1e-3 }), [1]);
  assert.deepEqual(choices(logits, { temperature: 1, topK: 1 }), [1]);
  assert.deepEqual(choices(logits, { temperature: 1, topK: 2 }), [1, 2]);
  assert.deepEqual(choices(logits, { temperature: 1, topK: 9 }), [0, 1, 2]);
  assert.deepEqual(choices(logits, { temperature: 1, topP: 0.6 }), [1]);
  assert.deepEqual(choices(logits, { temperature: 1, topP: 0.7 }), [1, 2]);
  assert.deepEqual(choices(logits, { temperature: 1, topP: 0.95 }), [0, 1, 2]);
  // Of the two that are left, the first has 0.73 of the probability.
  assert.deepEqual(choices(logits, { temperature: 1, topK: 2, topP: 0.7 }), [1]);
  assert.deepEqual(choices([1, -Infinity, 1], { temperature: 1, topP: 0.99 }), [0, 2]);
});

test('a model says how tokens are chosen, unless the user does', () => {
  assert.deepEqual(samplingOf({}), GREEDY);
  assert.deepEqual(samplingOf({ temperature: 0.5 }), GREEDY);
  assert.deepEqual(samplingOf({ do_sample: true }), { temperature: 1, topK: 50, topP: 1 });
  assert.deepEqual(samplingOf({ do_sample: true, temperature: 0.5, top_k: 3, top_p: 0.9 }), { temperature: 0.5, topK: 3, topP: 0.9 });
  assert.deepEqual(samplingOf({ do_sample: true, top_k: 3 }, { temperature: 0 }).temperature, 0);
  assert.deepEqual(samplingOf({}, { topK: 0 }), { temperature: 1, topK: 0, topP: 1 });
});

test('a seed repeats its numbers', () => {
  const [a, b] = [randomNumbers(7), randomNumbers(7)];
  const numbers = Array.from({ length: 1000 }, a);
  assert.deepEqual(Array.from({ length: 1000 }, b), numbers);
  assert.ok(numbers.every((number) => number >= 0 && number < 1));
  const mean = numbers.reduce((sum, number) => sum + number) / numbers.length;
  assert.ok(Math.abs(mean - 0.5) < 0.05, `mean ${mean}`);
});

test('the program goes on with lines, and a seed repeats them', async () => {
  const run = () => runExampleWith('Bees\n\nThe moon \n/new\n/exit\nnever read\n', PROGRAM, '--seed', '5', '--threads', '1');
  const { code, stdout, stderr } = await run();
  assert.equal(code, 0);
  assert.match(stdout, /^Bees.+\nThe moon .+\n$/);
  assert.match(stderr, /^(read \d tokens, wrote the first one after [\d.]+ [mµ]?s, \d+ in all at [\d.]+ tokens\/s\n){2}$/);
  assert.equal((await run()).stdout, stdout);
});

test('bad usage is exit code 2 and says what was wrong', async () => {
  /** @type {[string[], RegExp][]} */
  const refusals = [
    [['--max-tokens', '0'], /--max-tokens is "0", expected a positive whole number/],
    [['--temperature', 'hot'], /--temperature is "hot", expected a number from 0 to 10/],
    [['--top-k', '-1'], /'--top-k'|--top-k is "-1"/],
    [['--top-k', '1.5'], /--top-k is "1.5", expected a whole number from 0/],
    [['--top-p', '0'], /--top-p is "0", expected a number above 0, and 1 at most/],
    [['--threads', '0'], /--threads is "0", expected a whole number from 1 to 1024/],
    [['--seed', '-1'], /'--seed'|--seed is "-1"/],
    [['--dtype', 'q4'], /--dtype has no effect without a folder/],
    [['--system', 'Be brief.'], /--system has no effect without a folder/],
    [['a', 'b'], /one folder is expected, not 2: a, b/],
  ];
  for (const [args, message] of refusals) {
    const { code, stdout, stderr } = await runExample(PROGRAM, ...args);
    assert.match(stderr, message);
    assert.match(stderr, /^text-generation: /);
    assert.equal(stdout, '');
    assert.equal(code, 2);
  }
});

test('a line that the model cannot read ends the program where nobody can answer', async () => {
  for (const [line, message] of /** @type {[string, RegExp][]} */ ([
    ['Müller', /this model reads only ASCII, and not "Müller"/],
    ['x'.repeat(256), /256 new tokens are too long for the model/],
  ])) {
    const { code, stdout, stderr } = await runExampleWith(`${line}\nBees\n`, PROGRAM);
    assert.match(stderr, message);
    assert.match(stderr, /^text-generation: [^\n]*\n$/);
    assert.equal(stdout, '');
    assert.equal(code, 2);
  }
});
