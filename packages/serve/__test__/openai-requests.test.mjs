// What requests of OpenAI's API may say: checked without a model.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { describe } from 'node:test';
import { generator } from '../../../__test__/lib/random.mjs';
import { ServeError } from '../lib/errors.js';
import { checkEmbeddings, decodeBody, decodeEmbeddings } from '../lib/protocol/openai.js';
import { checkChat, checkCompletion, decodeChat, decodeCompletion } from '../lib/protocol/openai-generation.js';
import { CHAT, COMPLETION, EMBEDDINGS, HARMLESS, NEUTRAL } from '../lib/protocol/schemas-openai.js';

/** @type {any[]} */
const MESSAGES = [{ role: 'user', content: 'Hello' }];

/** A kind of request: its check, its schema, and a body of only what it must have. */
const KINDS = {
  embeddings: { check: checkEmbeddings, schema: EMBEDDINGS, least: { model: 'm', input: 'a' } },
  completions: { check: checkCompletion, schema: COMPLETION, least: { model: 'm', prompt: 'a' } },
  chat: { check: checkChat, schema: CHAT, least: { model: 'm', messages: MESSAGES } },
};
const { embeddings, completions, chat } = KINDS;

/** A value of each parameter that is accepted and not left out of the checked body. */
const VALUES = {
  encoding_format: 'base64',
  dimensions: 3,
  temperature: 0.5,
  top_p: 0,
  top_k: -1,
  min_p: 0.1,
  seed: -5,
  presence_penalty: -2,
  frequency_penalty: 2,
  repetition_penalty: 1.1,
  logit_bias: { 5: -100, 17: 3.5 },
  max_tokens: 5,
  max_completion_tokens: 6,
  min_tokens: 2,
  ignore_eos: true,
  stop: ['a', 'b'],
  stop_token_ids: [1, 2],
  n: 2,
  stream: true,
  stream_options: { include_usage: true, include_obfuscation: false },
  top_logprobs: 4,
  chat_template_kwargs: { enable_thinking: false, documents: [{ title: 'a', text: 'b' }], nothing: null },
};
const EFFECTLESS = {
  user: 'me',
  safety_identifier: 'x',
  metadata: { a: 'b' },
  service_tier: 'flex',
  prompt_cache_key: 'k',
  prompt_cache_options: { ttl: '30m' },
  prompt_cache_retention: '24h',
  parallel_tool_calls: true,
};

/** All of them that a kind of request has. */
const fullOf = ({ schema, least }) => {
  const known = Object.entries({ ...VALUES, ...EFFECTLESS }).filter(([name]) => Object.hasOwn(schema.properties, name));
  const logprobs = schema === CHAT ? { logprobs: true } : schema === COMPLETION ? { logprobs: 5, echo: false } : {};
  return { ...Object.fromEntries(known), ...logprobs, ...least };
};

const refused = (param, code = 'invalid_value') => ({ name: 'ServeError', kind: 'invalid', param, code });
const unsupported = (param) => ({ ...refused(param, 'unsupported_parameter'), message: `${param} is not supported; leave it out` });

describe('each parameter', () => {
  test('is tried here', () => {
    for (const kind of Object.values(KINDS)) {
      const untried = Object.keys(kind.schema.properties).filter((name) => !Object.hasOwn(fullOf(kind), name) && !Object.hasOwn(NEUTRAL, name));
      assert.deepEqual(untried, []);
    }
    assert.deepEqual(Object.keys(EFFECTLESS).sort(), Object.keys(HARMLESS).sort());
  });

  test('is accepted alone and with all others; what has no effect is left out', () => {
    for (const { check, schema, least } of Object.values(KINDS)) {
      const full = fullOf({ schema, least });
      const kept = (body) => Object.fromEntries(Object.entries(body).filter(([name]) => !Object.hasOwn(HARMLESS, name)));
      assert.deepEqual(check(full), kept(full));
      for (const [name, value] of Object.entries(full)) {
        const body = { ...least, [name]: value, ...(name === 'top_logprobs' && { logprobs: true }) };
        assert.deepEqual(check(body), kept(body), name);
      }
    }
  });

  test('is as good as absent if it is null', () => {
    for (const { check, schema, least } of Object.values(KINDS)) {
      const nulls = Object.fromEntries(Object.keys(schema.properties).map((name) => [name, null]));
      assert.deepEqual(check({ ...nulls, guided_json: null, ...least }), least);
      for (const name of Object.keys(least)) {
        assert.throws(() => check({ ...least, [name]: null }), refused(name, 'missing_required_parameter'), name);
      }
    }
    assert.deepEqual(checkChat({ ...chat.least, stream_options: { include_usage: null } }).stream_options, {});
    const part = { type: 'text', text: 'Hello', cache_control: null, prompt_cache_breakpoint: { mode: 'explicit' } };
    const message = { role: 'user', content: [part], name: null, refusal: null, annotations: null, tool_calls: null, function_call: null, audio: null };
    assert.deepEqual(checkChat({ model: 'm', messages: [message] }), chat.least);
  });

  test('is refused by its name if it is of another type', () => {
    const wrong = [{ x: [] }, [{}], 'no such value', -1e300, true];
    for (const { check, schema, least } of Object.values(KINDS)) {
      for (const name of Object.keys(fullOf({ schema, least }))) {
        const failed = wrong.filter((value) => {
          try {
            check({ ...least, [name]: value });
            return false;
          } catch (error) {
            assert.ok(error instanceof ServeError);
            assert.match(String(error.param), new RegExp(`^${name}($|[.[])`), `${name}: ${error.message}`);
            return true;
          }
        });
        assert.ok(failed.length >= 2, `${name}: ${failed}`);
      }
    }
  });
});

test('wrong values are refused, and the error says what is expected and what came', () => {
  const texts = (most, one) => `${one}, a list of token ids, or a list of 1 to ${most} of these`;
  const input = texts(2048, 'a string that is not empty');
  /** @type {[body: object, param: string, message: string][]} */
  const wrong = [
    [{ input: '' }, 'input', 'input must be a string that is not empty; it is ""'],
    [{ input: [] }, 'input', `input must be ${input}; it is an empty list`],
    [{ input: ['a', ''] }, 'input', 'input[1] must be a string that is not empty; it is ""'],
    [{ input: ['a', 1] }, 'input', 'input[1] must be a string that is not empty; it is 1'],
    [{ input: [1, 'a'] }, 'input', 'input[1] must be a whole number from 0; it is "a"'],
    [{ input: [1.5] }, 'input', 'input[0] must be a whole number from 0; it is 1.5'],
    [{ input: [[1], []] }, 'input', 'input[1] must be a list of token ids; it is an empty list'],
    [{ input: [[1], [-1]] }, 'input', 'input[1][0] must be a whole number from 0; it is -1'],
    [{ input: [null] }, 'input', `input must be ${input}; it is a list`],
    [{ input: {} }, 'input', `input must be ${input}; it is an object`],
    [{ input: Array(2049).fill('a') }, 'input', 'input has 2049 entries, at most 2048 are allowed'],
    [{ input: Array(2049).fill([1]) }, 'input', 'input has 2049 entries, at most 2048 are allowed'],
    [{ encoding_format: 'hex' }, 'encoding_format', 'encoding_format must be "float" or "base64"; it is "hex"'],
    [{ dimensions: 0 }, 'dimensions', 'dimensions must be a whole number from 1; it is 0'],
    [{ model: '' }, 'model', 'model must be a string that is not empty; it is ""'],
  ];
  for (const [body, param, message] of wrong) {
    assert.throws(() => checkEmbeddings({ ...embeddings.least, ...body }), { ...refused(param), message });
  }
  assert.throws(() => decodeEmbeddings(checkEmbeddings({ ...embeddings.least, dimensions: 4 }), 3), {
    ...refused('dimensions'),
    message: 'dimensions must be a whole number from 1 to 3; it is 4',
  });
  /** @type {[body: object, param: string, message: string][]} */
  const wrongTexts = [
    [{ temperature: 3 }, 'temperature', 'temperature must be a number from 0 to 2; it is 3'],
    [{ top_p: -0.1 }, 'top_p', 'top_p must be a number from 0 to 1; it is -0.1'],
    [{ top_k: -2 }, 'top_k', 'top_k must be a whole number from -1; it is -2'],
    [{ min_p: '0' }, 'min_p', 'min_p must be a number from 0 to 1; it is "0"'],
    [{ repetition_penalty: 0 }, 'repetition_penalty', 'repetition_penalty must be a number above 0, and at most 10; it is 0'],
    [{ seed: 0.5 }, 'seed', 'seed must be a whole number; it is 0.5'],
    [{ n: 129 }, 'n', 'n must be a whole number from 1 to 128; it is 129'],
    [{ stop: ['a', 'b', 'c', 'd', 'e'] }, 'stop', 'stop has 5 entries, at most 4 are allowed'],
    [{ stop: ['a', ''] }, 'stop', 'stop[1] must be a string of 1 to 1000 characters; it is ""'],
    [{ stream: 'yes' }, 'stream', 'stream must be true or false; it is "yes"'],
    [{ logit_bias: { a: 1 } }, 'logit_bias', 'logit_bias must be an object with a number from -100 to 100 for each token id; it has the key "a"'],
    [{ logit_bias: { 5: 101 } }, 'logit_bias', 'logit_bias.5 must be a number from -100 to 100; it is 101'],
    [{ stream_options: { include_usage: 1 } }, 'stream_options.include_usage', 'stream_options.include_usage must be true or false; it is 1'],
    [{ min_tokens: 5, max_tokens: 4 }, 'min_tokens', 'min_tokens is 5, more than the 4 tokens that the response may have'],
  ];
  for (const [body, param, message] of wrongTexts) {
    for (const run of [
      () => decodeCompletion(checkCompletion({ ...completions.least, ...body }), 16),
      () => decodeChat(checkChat({ ...chat.least, ...body })),
    ]) {
      assert.throws(run, { ...refused(param), message });
    }
  }
  assert.throws(() => checkCompletion({ ...completions.least, prompt: [] }), refused('prompt'));
  assert.throws(() => checkCompletion({ ...completions.least, prompt: Array(129).fill('a') }), refused('prompt'));
  assert.throws(() => checkCompletion({ ...completions.least, logprobs: 6 }), refused('logprobs'));
  assert.throws(() => checkCompletion({ ...completions.least, echo: true, logprobs: 1 }), refused('logprobs', 'unsupported_parameter'));
  assert.throws(() => checkChat({ ...chat.least, max_tokens: 0 }), refused('max_tokens'));
  assert.throws(() => checkChat({ ...chat.least, top_logprobs: 1 }), refused('top_logprobs'));
  assert.throws(() => checkChat({ ...chat.least, logprobs: true, top_logprobs: 21 }), refused('top_logprobs'));
  for (const value of [[[[[1]]]], { a: { b: { c: { d: 1 } } } }, Array(257).fill(1)]) {
    assert.throws(() => checkChat({ ...chat.least, chat_template_kwargs: { value } }), refused('chat_template_kwargs'));
  }
});

test('what is not supported is refused by its name, whatever it is', () => {
  const unknown = [
    ...['guided_json', 'guided_regex', 'guided_choice', 'structured_outputs', 'prediction', 'reasoning_effort', 'reasoning', 'audio', 'web_search_options'],
    ...['truncate_prompt_tokens', 'prompt_logprobs', 'no_repeat_ngram_size', 'typical_p', 'keep_alive', 'num_ctx', 'chat_template', 'prompt_embeds', 'x'],
    ...['constructor', '__proto__', 'toString', ''],
  ];
  for (const { check, least } of Object.values(KINDS)) {
    for (const name of unknown) {
      const body = JSON.parse(JSON.stringify(least).replace(/}$/, `,${JSON.stringify(name)}:{"a":1}}`));
      assert.throws(() => check(body), unsupported(name), name);
    }
  }
  for (const name of ['truncate', 'truncation_direction', 'normalize', 'input_type', 'prompt_name', 'temperature', 'stream']) {
    assert.throws(() => checkEmbeddings({ ...embeddings.least, [name]: true }), unsupported(name));
  }
  assert.throws(() => checkCompletion({ ...completions.least, messages: MESSAGES }), unsupported('messages'));
  assert.throws(() => checkCompletion({ ...completions.least, max_completion_tokens: 1 }), unsupported('max_completion_tokens'));
  assert.throws(() => checkCompletion({ ...completions.least, chat_template_kwargs: {} }), unsupported('chat_template_kwargs'));
  assert.throws(() => checkChat({ ...chat.least, prompt: 'a' }), unsupported('prompt'));
  assert.throws(() => checkChat({ ...chat.least, stream_options: { other: 1 } }), unsupported('stream_options.other'));
});

test('of parameters that are not supported, values pass that change nothing', () => {
  /** @type {Record<keyof typeof NEUTRAL, [neutral: unknown[], others: unknown[]]>} */
  const values = {
    tools: [[[]], [[{ type: 'function', function: { name: 'f' } }], 'x']],
    tool_choice: [
      ['none', 'auto'],
      ['required', { type: 'function', function: { name: 'f' } }],
    ],
    functions: [[[]], [[{ name: 'f' }]]],
    function_call: [['none', 'auto'], [{ name: 'f' }]],
    response_format: [
      [{ type: 'text' }, { type: 'text', other: {} }],
      [{ type: 'json_object' }, { type: 'json_schema', json_schema: {} }, {}, 'text'],
    ],
    modalities: [
      [['text'], []],
      [['text', 'audio'], 'text'],
    ],
    verbosity: [['medium'], ['low', 'high']],
    store: [[false], [true]],
    echo: [[false], [true]],
    suffix: [[''], ['x']],
    best_of: [[1], [2, '1']],
    use_beam_search: [[false], [true]],
    length_penalty: [[1], [0.5]],
    skip_special_tokens: [[true], [false]],
    spaces_between_special_tokens: [[true], [false]],
    include_stop_str_in_output: [[false], [true]],
    add_generation_prompt: [[true], [false]],
    continue_final_message: [[false], [true]],
  };
  for (const { check, least } of [completions, chat]) {
    for (const [name, [neutral, others]] of Object.entries(values)) {
      for (const value of neutral)
        assert.deepEqual(check({ ...least, [name]: value }), name === 'echo' && check === checkCompletion ? { ...least, echo: false } : least);
      if (name === 'echo' && check === checkCompletion) continue;
      for (const value of others) assert.throws(() => check({ ...least, [name]: value }), unsupported(name));
    }
  }
});

describe('messages', () => {
  const messagesOf = (/** @type {any[]} */ messages) => checkChat({ model: 'm', messages }).messages;

  test('of all roles, with names, parts and what answers have', () => {
    const answer = {
      role: 'assistant',
      content: 'Hi',
      refusal: null,
      annotations: [],
      tool_calls: [],
      function_call: null,
      audio: null,
      reasoning_content: 'x',
    };
    assert.deepEqual(
      messagesOf([
        { role: 'developer', content: 'Be short.' },
        { role: 'system', content: '' },
        {
          role: 'user',
          name: 'Ann',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        answer,
        { role: 'assistant', content: null },
        { role: 'assistant' },
        { role: 'user', content: [] },
      ]),
      [
        { role: 'system', content: 'Be short.' },
        { role: 'system', content: '' },
        { role: 'user', content: 'ab', name: 'Ann' },
        { role: 'assistant', content: 'Hi' },
        { role: 'assistant', content: '' },
        { role: 'assistant', content: '' },
        { role: 'user', content: '' },
      ],
    );
  });

  test('that are wrong are refused by their place', () => {
    const roles = '"system", "developer", "user", or "assistant"';
    const content = 'a string, or a list of parts of type "text"';
    /** @type {[message: unknown, param: string, message: string, code?: string][]} */
    const wrong = [
      ['x', '', ' must be an object with role and content; it is "x"'],
      [{ content: 'a' }, '.role', `.role is missing; expected ${roles}`, 'missing_required_parameter'],
      [{ role: 'bogus', content: 'a' }, '.role', `.role must be ${roles}; it is "bogus"`],
      [{ role: 'user' }, '.content', `.content is missing; expected ${content}`, 'missing_required_parameter'],
      [{ role: 'user', content: null }, '.content', `.content is missing; expected ${content}`, 'missing_required_parameter'],
      [{ role: 'user', content: 3 }, '.content', `.content must be ${content}; it is 3`],
      [{ role: 'user', content: ['a'] }, '.content', `.content must be ${content}; it is a list`],
      [{ role: 'user', content: [{ type: 'text' }] }, '.content', '.content[0].text is missing; expected a string', 'missing_required_parameter'],
      [{ role: 'user', content: 'a', prefix: true }, '.prefix', '.prefix is not supported; leave it out', 'unsupported_parameter'],
      [{ role: 'user', content: 'a', name: 3 }, '.name', '.name must be a string; it is 3'],
    ];
    for (const [message, param, text, code] of wrong) {
      assert.throws(() => messagesOf([...MESSAGES, message]), { ...refused(`messages[1]${param}`, code), message: `messages[1]${text}` });
    }
    for (const type of ['image_url', 'input_audio', 'file', 'refusal']) {
      const message = `messages[0].content has a part of type "${type}"; models here read only parts of type "text"`;
      assert.throws(
        () =>
          messagesOf([
            {
              role: 'user',
              content: [
                { type: 'text', text: 'a' },
                { type, [type]: {} },
              ],
            },
          ]),
        {
          ...refused('messages[0].content'),
          message,
        },
      );
    }
    assert.throws(() => messagesOf([]), refused('messages'));
    assert.throws(() => messagesOf(Array(4097).fill(MESSAGES[0])), { message: 'messages has 4097 entries, at most 4096 are allowed' });
  });

  test('about tools are refused with a clear text, also in the middle of a conversation', () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } };
    for (const message of [
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'assistant', content: 'Let me see.', tool_calls: [call] },
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
      { role: 'tool', content: '5', tool_call_id: 'call_1' },
      { role: 'function', name: 'f', content: '5' },
    ]) {
      assert.throws(() => messagesOf([...MESSAGES, message, { role: 'bogus' }]), {
        ...refused('messages[1]', 'unsupported_parameter'),
        message: 'messages[1] is about tools, which are not supported; leave out calls of tools and their results',
      });
    }
  });
});

describe('what clients send', () => {
  /** @type {Record<string, object>} */
  const BODIES = {
    'AI SDK, openai-compatible': { model: 'm', messages: MESSAGES, max_tokens: 12, temperature: 0, stream: true, stream_options: { include_usage: true } },
    'LangChain for JavaScript': {
      ...{ model: 'm', messages: MESSAGES, temperature: 0.7, top_p: 1, frequency_penalty: 0, presence_penalty: 0, n: 1, logit_bias: {}, stream: false },
      ...{ stop: [], user: 'u', parallel_tool_calls: true, modalities: ['text'] },
    },
    'Open WebUI': {
      ...{ model: 'm', stream: true, messages: [{ role: 'system', content: 'x' }, ...MESSAGES], stream_options: { include_usage: true } },
      ...{ max_completion_tokens: 1000, temperature: 0.8, top_p: 0.9, seed: 0, stop: ['</s>'], logit_bias: { 42: -100 }, metadata: { chat_id: 'x' } },
    },
    'a form with all fields of OpenAI, empty': {
      ...{ model: 'm', messages: MESSAGES, audio: null, frequency_penalty: 0, function_call: null, functions: null, logit_bias: null, logprobs: null },
      ...{ max_completion_tokens: null, max_tokens: null, metadata: null, modalities: null, n: 1, parallel_tool_calls: null, prediction: null },
      ...{ presence_penalty: 0, reasoning_effort: null, response_format: { type: 'text' }, seed: null, service_tier: 'auto', stop: null, store: null },
      ...{ stream: false, stream_options: null, temperature: 1, tool_choice: 'none', tools: [], top_logprobs: null, top_p: 1, user: '' },
    },
    "vLLM's own parameters": {
      ...{ model: 'm', messages: MESSAGES, top_k: -1, min_p: 0, repetition_penalty: 1, length_penalty: 1, stop_token_ids: [], ignore_eos: false },
      ...{ min_tokens: 0, skip_special_tokens: true, spaces_between_special_tokens: true, chat_template_kwargs: { enable_thinking: false } },
    },
  };
  for (const [name, body] of Object.entries(BODIES)) test(name, () => void decodeChat(checkChat(body)));

  test('LangChain for Python: lists of tokens', () => {
    const { inputs, format } = decodeEmbeddings(checkEmbeddings({ model: 'm', input: [[1, 2], [3]], encoding_format: 'base64' }), 3);
    assert.deepEqual([inputs, format], [[[1, 2], [3]], 'base64']);
  });
});

test("each parameter that OpenAI's client knows is accepted, or refused on purpose", () => {
  const folder = new URL('resources/', import.meta.resolve('openai'));
  /** The members of an interface. */
  const membersOf = (/** @type {string} */ file, /** @type {string} */ name) => {
    const [, body] = new RegExp(`export interface ${name} \\{\\n([^]*?)\\n\\}`).exec(readFileSync(new URL(file, folder), 'utf8')) ?? [];
    return Array.from(String(body).matchAll(/^ {4}(\w+)\??:/gm), ([, member]) => member);
  };
  const known = /** @type {[keyof typeof KINDS, string[], string[]][]} */ ([
    ['embeddings', membersOf('embeddings.d.ts', 'EmbeddingCreateParams'), []],
    ['completions', membersOf('completions.d.ts', 'CompletionCreateParamsBase'), []],
    [
      'chat',
      membersOf('chat/completions/completions.d.ts', 'ChatCompletionCreateParamsBase'),
      ['audio', 'moderation', 'prediction', 'reasoning_effort', 'web_search_options'],
    ],
  ]);
  for (const [kind, members, others] of known) {
    const { check, schema, least } = KINDS[kind];
    assert.ok(members.includes('model'), kind);
    assert.deepEqual(
      members.filter((name) => !Object.hasOwn(schema.properties, name)),
      others,
    );
    for (const name of others) assert.throws(() => check({ ...least, [name]: {} }), unsupported(name));
  }
});

test('seeds have 64 bits, as far as numbers of JSON have them', () => {
  const seedOf = (/** @type {number} */ seed) => Number(decodeChat(checkChat({ ...chat.least, seed })).wishes.seed);
  for (const seed of [0, -1, 2 ** 32, 2 ** 53 + 2, 2 ** 63, -(2 ** 63)]) {
    assert.ok(Number.isInteger(seedOf(seed)) && seedOf(seed) >= 0 && seedOf(seed) < 2 ** 32, String(seed));
  }
  assert.deepEqual([seedOf(-1), seedOf(2 ** 53 + 2)], [2 ** 32 - 1, 2]);
});

test('the page says of each parameter whether it is supported', () => {
  const page = readFileSync(new URL('../../../docs/server-reference.md', import.meta.url), 'utf8');
  const names = Object.values(KINDS).flatMap(({ schema }) => Object.keys(schema.properties));
  assert.deepEqual(
    names.filter((name) => !new RegExp(`\\b${name}\\b`).test(page)),
    [],
  );
});

test('wishes are what the request says, and nothing else', () => {
  const least = { sampling: {}, changes: {}, stop: [], logprobs: null };
  assert.deepEqual(decodeCompletion(checkCompletion(completions.least), 16), {
    ...{ prompts: ['a'], echo: false, count: 1, stream: false, includeUsage: false },
    wishes: { ...least, maxTokens: 16 },
  });
  assert.deepEqual(decodeChat(checkChat(chat.least)), { messages: MESSAGES, count: 1, stream: false, includeUsage: false, wishes: least });
  assert.deepEqual(decodeChat(checkChat(fullOf(chat))), {
    ...{ messages: MESSAGES, count: 2, stream: true, includeUsage: true },
    wishes: {
      sampling: { temperature: 0.5, topP: 0, topK: 0, minP: 0.1 },
      changes: {
        ...{ presence: -2, frequency: 2, repetition: 1.1 },
        bias: new Map([
          [5, -100],
          [17, 3.5],
        ]),
      },
      ...{ seed: 2 ** 32 - 5, stop: ['a', 'b'], stopTokens: [1, 2], ignoreEnd: true, minTokens: 2, maxTokens: 6, logprobs: 4 },
      templateArguments: VALUES.chat_template_kwargs,
    },
  });
  const { wishes, prompts, echo } = decodeCompletion(checkCompletion({ model: 'm', prompt: [1, 2], max_tokens: 0, echo: true, stop: 'x' }), 16);
  assert.deepEqual([wishes.maxTokens, wishes.stop, prompts, echo], [0, ['x'], [[1, 2]], true]);
  assert.equal(decodeChat(checkChat({ ...chat.least, max_tokens: 7 })).wishes.maxTokens, 7);
  assert.deepEqual(decodeCompletion(checkCompletion({ model: 'm', prompt: [[1], [2]], logprobs: 0 }), 16).wishes.logprobs, 0);
});

test('bodies that are no objects, or no JSON', () => {
  for (const { check } of Object.values(KINDS)) {
    for (const text of ['[]', 'null', '3', '"x"'])
      assert.throws(() => decodeBody(Buffer.from(text), check), { kind: 'invalid', message: /^the body must be an object; it is / });
    for (const text of ['', '{', '\ufeff{}'])
      assert.throws(() => decodeBody(Buffer.from(text), check), { kind: 'invalid', message: /^the body is not JSON: / });
  }
  assert.deepEqual(decodeBody(new TextEncoder().encode(JSON.stringify(chat.least)), checkChat), chat.least);
});

test('hostile bodies: an error of the caller with a short text, or a value that another thread can have', () => {
  const { below, pick, chance } = generator(7);
  const deep = JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`);
  const values = [null, true, -1, 0, 1.5, 2 ** 53, 1e308, '', 'x', '\ud800', 'x'.repeat(5000), [], [[]], {}, { length: 5 }, [null], deep, Array(5000).fill({})];
  const spoil = (/** @type {any} */ value) => {
    if (value === null || typeof value !== 'object' || chance(0.2)) return pick(values);
    const copy = Array.isArray(value) ? [...value] : { ...value };
    const keys = Object.keys(copy);
    if (keys.length === 0) return pick(values);
    const key = pick(keys);
    if (Array.isArray(copy)) copy[Number(key)] = spoil(copy[Number(key)]);
    else {
      const kind = below(10);
      if (kind === 0) delete copy[key];
      // As JSON.parse has it: an assignment would set the prototype.
      else if (kind === 1)
        return Object.fromEntries([...Object.entries(copy), [pick(['constructor', 'x'.repeat(5000), 'a/b~c', '__proto__', '0']), pick(values)]]);
      else copy[key] = spoil(copy[key]);
    }
    return copy;
  };
  const counts = { passed: 0, refused: 0 };
  for (let i = 0; i < 6000; i++) {
    const kind = pick(Object.values(KINDS));
    const body = spoil(
      chance(0.5)
        ? fullOf(kind)
        : { ...kind.least, ...(kind === chat && { messages: [...MESSAGES, { role: 'assistant', content: [{ type: 'text', text: 'a' }] }] }) },
    );
    try {
      const checked = kind.check(body);
      assert.deepEqual(structuredClone(/** @type {any} */ (checked)), checked);
      counts.passed += 1;
    } catch (error) {
      assert.ok(error instanceof ServeError && error.kind === 'invalid', String(error));
      assert.ok(error.message.length < 1000, error.message);
      assert.ok((error.param ?? '').length < 300);
      counts.refused += 1;
    }
  }
  assert.ok(counts.passed > 300 && counts.refused > 300, JSON.stringify(counts));
});
