// The chat of examples/text-generation with models that are written here, which add up all that they have read.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, unlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import test, { describe } from 'node:test';
import { Tokenizer } from '@huggingface/tokenizers';
import { mostLikely } from 'webnn-node-text/decoder';
import { until } from '../lib/wait.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { root } from '../../scripts/process.mjs';
import { Chat } from '../../examples/text-generation/chat.mjs';
import { Conversation } from '../../examples/text-generation/conversation.mjs';
import { FolderError, readFolder } from '../../examples/text-generation/folder.mjs';
import { Generator } from '../../examples/text-generation/generator.mjs';
import { TextStream } from 'webnn-node-serve/text';
import { nextToken } from '../onnx/language-model.mjs';
import { END, LETTERS, TEMPLATE, TOKENIZER, VOCABULARY, writeFolder } from './model-folder.mjs';
import { runExampleWith } from './run-example.mjs';
import { defined } from '../lib/types.mjs';

const PROGRAM = 'text-generation/index.mjs';

/** A new folder of a model. */
const folderOf = async (content) => writeFolder(temporaryFolder(), content);

/** A chat with the model of a folder, which is closed at the end of the test. */
async function chatOf(t, content, options) {
  const { file, maxLength, tokenizer, render, stop } = await readFolder(await folderOf(content), 'fp32');
  const generator = await Generator.load(file, { maxLength, device: 'cpu', numThreads: 1 });
  t.after(() => generator.destroy());
  const chat = new Chat(generator, { tokenizer, render, stop, choose: mostLikely, maxTokens: 40, ...options });
  return { chat, generator, encode: (text) => tokenizer.encode(text, { add_special_tokens: false }).ids };
}

/** All of an answer. */
async function answerOf(chat, message, signal) {
  let text = '';
  for await (const piece of chat.answer(message, signal)) text += piece;
  return text;
}

const user = (text) => `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;

/** The tokens of an answer by a model of this style. The cache already holds the first `past` tokens of the prompt. */
function answerTokens(style, ids, past, limit = 40) {
  const all = [...ids];
  while (all.length < ids.length + limit) {
    const next = nextToken(style, all, all.length === ids.length ? past : all.length - 1);
    if (next === END) break;
    all.push(next);
  }
  return all.slice(ids.length);
}

const textOf = (ids) => String.fromCharCode(...ids);

describe('text from tokens', () => {
  test('characters of several tokens come whole', () => {
    const tokenizer = new Tokenizer(TOKENIZER, {});
    const text = 'Grüße, 世界 👋🏽!\n';
    const stream = new TextStream((ids) => tokenizer.decode(ids, { clean_up_tokenization_spaces: false }));
    const pieces = tokenizer.encode(text).ids.map((id) => stream.push(id));
    assert.equal(pieces.join(''), text);
    assert.deepEqual(pieces.slice(0, 5), ['G', 'r', '', 'ü', '']);
    assert.ok(pieces.every((piece) => !piece.includes('\ufffd')));
    assert.equal(stream.end(), '');
  });

  test('bytes that never become a character are shown at the end', () => {
    const tokenizer = new Tokenizer(TOKENIZER, {});
    const stream = new TextStream((ids) => tokenizer.decode(ids));
    const [first] = tokenizer.encode('世').ids;
    assert.equal(stream.push(first), '');
    assert.equal(stream.end(), '\ufffd');
  });

  test('spaces that a tokenizer drops at the start of a text stay within it', () => {
    const marks = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true };
    const vocab = { '▁What': 0, '▁a': 1, '▁day': 2, '!': 3 };
    const tokenizer = new Tokenizer({ ...TOKENIZER, added_tokens: [], pre_tokenizer: marks, decoder: marks, model: { type: 'BPE', vocab, merges: [] } }, {});
    const stream = new TextStream((ids) => tokenizer.decode(ids, { clean_up_tokenization_spaces: false }));
    assert.deepEqual(
      [0, 1, 2, 3].map((id) => stream.push(id)),
      ['What', ' a', ' day', '!'],
    );
  });

  test('nothing comes of nothing', () => {
    assert.equal(new TextStream(() => assert.fail('there are no tokens')).end(), '');
  });
});

describe('a folder', () => {
  test('has a file for each type of weights', async () => {
    const folder = await folderOf({ models: ['model.onnx', 'model_q4f16.onnx', 'model_q8.onnx'] });
    const named = async (dtype) =>
      path
        .relative(folder, String((await readFolder(folder, dtype)).file))
        .split(path.sep)
        .join('/');
    assert.equal(await named('fp32'), 'onnx/model.onnx');
    assert.equal(await named('q4f16'), 'onnx/model_q4f16.onnx');
    assert.equal(await named('q8'), 'onnx/model_q8.onnx');
    await writeFile(path.join(folder, 'onnx', 'model_quantized.onnx'), '');
    assert.equal(await named('q8'), 'onnx/model_quantized.onnx');
  });

  test('says what ends an answer, how tokens are chosen and how long a text can be', async () => {
    const folder = await folderOf({ config: { eos_token_id: 7 }, generation: { eos_token_id: [1, 2], do_sample: true, top_k: 3 } });
    const { stop, sampling, maxLength } = await readFolder(folder, 'fp32');
    assert.deepEqual([...stop], [1, 2, END]);
    assert.equal(sampling.top_k, 3);
    assert.equal(maxLength, 256);
    await unlink(path.join(folder, 'generation_config.json'));
    assert.deepEqual([...(await readFolder(folder, 'fp32')).stop], [7, END]);
    const other = await readFolder(await folderOf({ config: { max_position_embeddings: undefined, n_positions: 64 } }), 'fp32');
    assert.equal(other.maxLength, 64);
  });

  test('has its chat template in one of three places, or none', async () => {
    const messages = [{ role: /** @type {const} */ ('user'), content: 'Hi' }];
    const rendered = async (tokenizerConfig) => (await readFolder(await folderOf({ tokenizerConfig }), 'fp32')).render?.(messages);
    const bos = { content: '<s>' };
    assert.equal(await rendered({}), user('Hi'));
    assert.equal(await rendered({ chat_template: '{{ bos_token }}{{ messages[0].content }}', bos_token: bos }), '<s>Hi');
    assert.equal(
      await rendered({
        chat_template: [
          { name: 'tool_use', template: 'x' },
          { name: 'default', template: '{{ messages[0].role }}' },
        ],
      }),
      'user',
    );
    assert.equal(await rendered({ chat_template: undefined }), undefined);
    const folder = await folderOf({ tokenizerConfig: { chat_template: undefined } });
    await writeFile(path.join(folder, 'chat_template.jinja'), '{{ messages | length }}');
    assert.equal((await readFolder(folder, 'fp32')).render?.(messages), '1');
  });

  test('is refused with what is missing', async () => {
    const refused = (folder, dtype, message) =>
      assert.rejects(readFolder(folder, dtype), (error) => {
        assert.ok(error instanceof FolderError, String(error));
        assert.match(error.message, message);
        return true;
      });
    const folder = await folderOf({ models: ['model.onnx', 'model_q8.onnx', 'model_q4.onnx'] });
    await refused(folder, 'fp16', /there is no model_fp16\.onnx in .*onnx; there is --dtype fp32, q8, q4$/);
    await refused(path.join(root, 'absent'), 'q8', /there is no model_quantized\.onnx or model_q8\.onnx in .*absent.onnx$/);
    for (const name of ['tokenizer.json', 'tokenizer_config.json']) {
      const incomplete = await folderOf();
      await unlink(path.join(incomplete, name));
      await refused(incomplete, 'fp32', new RegExp(`there is no ${name} in .*; expected a model for Transformers\\.js$`));
    }
    await writeFile(path.join(folder, 'config.json'), '{');
    await refused(folder, 'fp32', /config\.json is not JSON: /);
  });
});

describe('a chat', () => {
  for (const extra of [{}, { half: true }, { positions: true }, { branch: true }, { half: true, positions: true, branch: true }]) {
    test(`reads in each turn only what is new: ${JSON.stringify(extra)}`, async (t) => {
      const style = { ...LETTERS, ...extra };
      const { chat, generator, encode } = await chatOf(t, { style });
      let ids = [];
      let past = 0;
      for (const [i, message] of ['Hello!', 'And, 世界?', 'Once more.'].entries()) {
        // The mark at the end of an answer and the line behind it come with the next message.
        const added = encode((i === 0 ? '' : '<|im_end|>\n') + user(message));
        ids = [...ids, ...added];
        const expected = answerTokens(style, ids, past);
        assert.equal(await answerOf(chat, message), textOf(expected));
        ids = [...ids, ...expected];
        past = generator.length;
        assert.equal(past, ids.length);
        assert.ok(expected.length > 0);
        assert.equal(chat.statistics.promptTokens, added.length);
        assert.equal(chat.statistics.tokens, expected.length);
        assert.ok(chat.statistics.firstMs > 0 && chat.statistics.restMs >= 0);
      }
    });
  }

  test('goes on behind an answer that was cut, by its length or by a signal', async (t) => {
    const style = { ...LETTERS, next: (sum) => 97 + (sum % 26) };
    const { chat, encode } = await chatOf(t, { style }, { maxTokens: 7 });
    const first = encode(user('Hello!'));
    const expected = answerTokens(style, first, 0, 7);
    assert.equal(await answerOf(chat, 'Hello!'), textOf(expected));
    const stopped = new AbortController();
    const second = [...first, ...expected, ...encode(`<|im_end|>\n${user('Go on.')}`)];
    let text = '';
    for await (const piece of chat.answer('Go on.', stopped.signal)) {
      text += piece;
      if (text.length === 3) stopped.abort();
    }
    assert.equal(text, textOf(answerTokens(style, second, 1, 3)));
    const third = [...second, ...Buffer.from(text), ...encode(`<|im_end|>\n${user('And then?')}`)];
    assert.equal(await answerOf(chat, 'And then?'), textOf(answerTokens(style, third, 1, 7)));
  });

  test('reads all again where its template changes what was said', async (t) => {
    const chat_template = TEMPLATE.replace('m.content', '(m.content | upper)');
    const { chat, generator, encode } = await chatOf(t, { tokenizerConfig: { chat_template } });
    const first = await answerOf(chat, 'HELLO');
    const ids = encode(`${user('HELLO').replace(/<\|im_start\|>assistant\n$/, '')}<|im_start|>assistant\n${first.toUpperCase()}<|im_end|>\n${user('AGAIN')}`);
    assert.equal(await answerOf(chat, 'again'), textOf(answerTokens(LETTERS, ids, 0)));
    assert.equal(chat.statistics.promptTokens, ids.length);
    assert.equal(generator.length, ids.length + chat.statistics.tokens);
  });

  test('forgets everything but what it was told first', async (t) => {
    const { chat, encode } = await chatOf(t, {}, { system: 'Be brief.' });
    const ids = encode(`<|im_start|>system\nBe brief.<|im_end|>\n${user('Hello!')}`);
    const expected = textOf(answerTokens(LETTERS, ids, 0));
    assert.equal(await answerOf(chat, 'Hello!'), expected);
    await answerOf(chat, 'Something else');
    chat.reset();
    assert.equal(await answerOf(chat, 'Hello!'), expected);
  });

  test('says that a message is too long, and goes on as before', async (t) => {
    const { chat, encode } = await chatOf(t);
    const first = await answerOf(chat, 'Hello!');
    await assert.rejects(answerOf(chat, 'x'.repeat(256)), {
      name: 'PromptError',
      message: /^\d+ tokens and \d+ new tokens are too long for the model: its context has 256/,
    });
    const ids = encode(`${user('Hello!')}${first}<|im_end|>\n${user('Go on.')}`);
    assert.equal(await answerOf(chat, 'Go on.'), textOf(answerTokens(LETTERS, ids, 0)));
  });

  test('knows when its context is full', async (t) => {
    const { chat, generator } = await chatOf(t, { style: { ...LETTERS, next: () => 97 } }, { maxTokens: Infinity });
    assert.equal(chat.isFull, false);
    await answerOf(chat, 'Hello!');
    assert.equal(generator.length, 256);
    assert.equal(chat.isFull, true);
  });

  test('says that the tokenizer is that of another model, and what a template refuses', async (t) => {
    const { chat } = await chatOf(t, { style: { vocabulary: 200, next: () => 97 } });
    await assert.rejects(answerOf(chat, 'Hello!'), { name: 'PromptError', message: /^token 256 is outside of the model's vocabulary of 200 tokens/ });
    const { chat: strict } = await chatOf(t, { tokenizerConfig: { chat_template: "{{ raise_exception('no system messages') }}" } });
    await assert.rejects(answerOf(strict, 'Hello!'), {
      name: 'PromptError',
      message: "the model's chat template refuses the conversation: no system messages",
    });
  });

  test('goes on with each message where there is no template', async (t) => {
    const { chat, encode } = await chatOf(t, { tokenizerConfig: { chat_template: undefined } });
    for (const message of ['Once upon', 'Two']) {
      assert.equal(await answerOf(chat, message), textOf(answerTokens(LETTERS, encode(message), 0)));
      assert.equal(chat.statistics.promptTokens, message.length);
    }
  });
});

/** A conversation on streams that stand for a terminal: what it writes, and the promise of its end. */
async function terminalOf(t, content, options) {
  const { chat } = await chatOf(t, content, options);
  /** @type {any[]} */
  const [input, output, remarks] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const written = { output: '', remarks: '' };
  output.setEncoding('utf8').on('data', (text) => {
    written.output += text;
  });
  remarks.setEncoding('utf8').on('data', (text) => {
    written.remarks += text;
  });
  const ended = new Conversation(chat, { input, output, remarks, terminal: true, isContinuing: false }).run();
  return { input, written, ended, shown: (name, pattern) => until(() => pattern.test(written[name]), `${pattern}`) };
}

describe('a conversation in a terminal', () => {
  test('asks until the input ends, and says what cannot be read', async (t) => {
    const { input, written, ended, shown } = await terminalOf(t);
    await shown('output', /> /);
    input.write('Hello!\r');
    await shown('remarks', /^read \d+ tokens, wrote the first one after [\d.]+ [mµ]?s, \d+ in all/m);
    input.write(`${'x'.repeat(256)}\r`);
    await shown('remarks', /^\d+ tokens and \d+ new tokens are too long for the model/m);
    input.write('/new\r');
    input.write('Hello!\r');
    await shown('remarks', /(read[^]*){2}/);
    const [first, second] = defined(written.remarks.match(/^read \d+ tokens/gm));
    assert.equal(first, second);
    input.write('\x04');
    await ended;
    assert.match(written.remarks, /^Ctrl\+C stops an answer, \/new forgets the conversation, \/exit ends the program\.\n/);
  });

  test('Ctrl+C stops an answer, and not the conversation', async (t) => {
    const { input, written, ended, shown } = await terminalOf(
      t,
      { style: { ...LETTERS, next: () => 97 }, config: { max_position_embeddings: 1e6 } },
      { maxTokens: Infinity },
    );
    input.write('Hello!\r');
    await shown('output', /aaa/);
    input.write('\x03');
    await shown('remarks', /, stopped\n/);
    input.write('\x03');
    await shown('remarks', /^Ctrl\+C stops an answer; \/exit ends the program$/m);
    input.write('And?\r');
    await shown('output', /And\?[^]*aaa/);
    input.write('\x03');
    await shown('remarks', /stopped\n[^]*stopped\n/);
    input.write('/exit\r');
    await ended;
    assert.equal(written.remarks.match(/^read /gm)?.length, 2);
  });

  test('what a model writes does not command the terminal', async (t) => {
    const { input, written, ended, shown } = await terminalOf(t, { style: { ...LETTERS, next: (sum) => [27, 91, 50, 74, 7, 10][sum % 6] } });
    input.write('Hello!\r');
    await shown('remarks', /^read /m);
    input.end();
    await ended;
    const answer = written.output.split('Hello!\r\n')[1].split('> ')[0];
    assert.match(answer, /\ufffd/);
    assert.doesNotMatch(answer.replace(/\x1b\[1G\x1b\[0J$/, ''), /[\x00-\x08\x0b\x0c\x0e-\x1f]/);
  });
});

describe('the program', () => {
  test('answers the lines of a pipe, with the types of weights that there are', async () => {
    const folder = await folderOf({ models: ['model_q4.onnx'] });
    const run = (...args) => runExampleWith('Hello!\n/new\nHello!\n\n/exit\nnever read\n', PROGRAM, folder, '--threads', '1', ...args);
    const { code, stdout, stderr } = await run('--dtype', 'q4');
    assert.equal(code, 0, stderr);
    const ids = new Tokenizer(TOKENIZER, {}).encode(user('Hello!')).ids;
    const line = `${textOf(answerTokens(LETTERS, ids, 0))}\n`;
    assert.equal(stdout, line + line);
    assert.match(stderr, /^(read \d+ tokens, wrote .*\n){2}$/);
    const refused = await run();
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /^text-generation: there is no model\.onnx in .*; there is --dtype q4\n$/);
  });

  test('chooses tokens as generation_config.json says, and as the user says', async () => {
    const style = { vocabulary: VOCABULARY, next: (sum) => 97 + (sum % 26) };
    const folder = await folderOf({ style, generation: { do_sample: true, temperature: 4, top_k: 0 } });
    const run = async (...args) => (await runExampleWith('Hello!\n', PROGRAM, folder, '--threads', '1', '--max-tokens', '30', ...args)).stdout;
    assert.notEqual(await run('--seed', '1'), await run('--seed', '2'));
    const greedy = await run('--temperature', '0');
    assert.match(greedy, /^[a-z]{30}\n$/);
    assert.equal(await run('--top-k', '1', '--seed', '3'), greedy);
  });

  test('refuses what is no model for it, with exit code 2', async () => {
    const refused = async (message, folder, ...args) => {
      const { code, stdout, stderr } = await runExampleWith('Hello!\n', PROGRAM, folder, ...args);
      assert.match(stderr, message);
      assert.match(stderr, /^text-generation: [^\n]*\n$/);
      assert.deepEqual([code, stdout], [2, '']);
    };
    const other = await folderOf();
    await writeFile(path.join(other, 'onnx', 'model.onnx'), 'no model');
    await refused(/not an ONNX file/, other);
    const colors = await folderOf();
    await copyFile(path.join(root, 'packages/cli/__test__/files/colors.onnx'), path.join(colors, 'onnx', 'model.onnx'));
    await refused(/this model cannot generate text: loadModel: keepLast names "logits", which is not an output: the model has "scores"/, colors);
    await refused(
      /--system has no effect: this model has no chat template/,
      await folderOf({ tokenizerConfig: { chat_template: undefined } }),
      '--system',
      'Be brief.',
    );
    await refused(/token 256 is outside of the model's vocabulary of 200 tokens/, await folderOf({ style: { vocabulary: 200, next: () => 97 } }));
  });

  test('an interrupt stops an answer, and not the program', async (t) => {
    const folder = await folderOf({ style: { ...LETTERS, next: () => 97 }, config: { max_position_embeddings: 1e6 } });
    const child = spawn(process.execPath, [path.join(root, 'examples', PROGRAM), folder, '--threads', '1', '--max-tokens', '1000000'], { cwd: root });
    t.after(() => child.kill('SIGKILL'));
    const [answers, remarks] = [child.stdout.setEncoding('utf8'), child.stderr.setEncoding('utf8')];
    let said = '';
    remarks.on('data', (text) => {
      said += text;
    });
    for (let turn = 1; turn <= 2; turn++) {
      child.stdin.write('Hello!\n');
      await once(answers, 'data');
      child.kill('SIGINT');
      await until(() => said.split(', stopped\n').length > turn, `${turn} stopped`);
    }
    child.stdin.end('/exit\n');
    assert.deepEqual(await once(child, 'close'), [0, null]);
    assert.match(said, /^(read \d+ tokens, wrote .*, stopped\n){2}$/);
  });
});
