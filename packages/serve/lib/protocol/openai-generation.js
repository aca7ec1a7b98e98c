// Requests and answers of OpenAI's API for generated texts: completions and chat completions, whole and as streams of
// server-sent events.

import { randomUUID } from 'node:crypto';
import { invalid, shown } from '../errors.js';

/**
 * @typedef {import('../models/generator.js').Generated} Generated
 * @typedef {import('../models/generator.js').Wishes} Wishes
 * @typedef {import('../text/answer.js').TokenLogprobs} TokenLogprobs
 * @typedef {import('../text/folder.js').Message} Message
 */

/**
 * What both kinds of requests have.
 * @typedef {object} GenerationRequest
 * @property {Wishes} wishes
 * @property {number} count answers to each prompt
 * @property {boolean} stream
 * @property {boolean} includeUsage whether a stream ends with the numbers of tokens
 */

/** The limits of OpenAI. */
const [MAX_COUNT, MAX_STOPS, MAX_BIASES] = [128, 4, 1024];

const isNumber = (/** @type {number} */ lowest, /** @type {number} */ highest) => (/** @type {unknown} */ value) =>
  typeof value === 'number' && value >= lowest && value <= highest;
const isWhole =
  (/** @type {number} */ lowest, highest = Number.MAX_SAFE_INTEGER) =>
  (/** @type {unknown} */ value) =>
    Number.isSafeInteger(value) && isNumber(lowest, highest)(value);
const isFlag = (/** @type {unknown} */ value) => typeof value === 'boolean';
const isToken = isWhole(0);
const isText = (/** @type {unknown} */ value) => typeof value === 'string';
const isList = (/** @type {unknown} */ value, /** @type {(entry: unknown) => boolean} */ isEntry, most = Infinity) =>
  Array.isArray(value) && value.length > 0 && value.length <= most && value.every(isEntry);
const isObject = (/** @type {unknown} */ value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const isStop = (/** @type {unknown} */ value) => isText(value) && value !== '';

/** What each parameter may be. @type {Record<string, [test: (value: any) => boolean, expected: string]>} */
const RULES = {
  temperature: [isNumber(0, 2), 'a number from 0 to 2'],
  top_p: [(value) => isNumber(0, 1)(value) && value > 0, 'a number above 0, and 1 at most'],
  top_k: [isWhole(-1), 'a whole number from -1'],
  seed: [Number.isSafeInteger, 'a whole number'],
  presence_penalty: [isNumber(-2, 2), 'a number from -2 to 2'],
  frequency_penalty: [isNumber(-2, 2), 'a number from -2 to 2'],
  max_tokens: [isWhole(1), 'a whole number from 1'],
  max_completion_tokens: [isWhole(1), 'a whole number from 1'],
  n: [isWhole(1, MAX_COUNT), `a whole number from 1 to ${MAX_COUNT}`],
  stop: [(value) => isStop(value) || (Array.isArray(value) && (value.length === 0 || isList(value, isStop, MAX_STOPS))), `a text, or up to ${MAX_STOPS}`],
  stream: [isFlag, 'true or false'],
  stream_options: [(value) => isObject(value) && isFlag(value.include_usage ?? false), 'an object with include_usage'],
  logit_bias: [
    (value) =>
      isObject(value) && Object.keys(value).length <= MAX_BIASES && Object.entries(value).every(([id, bias]) => /^\d+$/.test(id) && isNumber(-100, 100)(bias)),
    'an object with a number from -100 to 100 for each token',
  ],
};

/** Parameters that would change the meaning of the answer, and values of them that do not. @type {Record<string, (value: any) => boolean>} */
const UNSUPPORTED = {
  tools: (value) => Array.isArray(value) && value.length === 0,
  tool_choice: (value) => value === 'none' || value === 'auto',
  functions: (value) => Array.isArray(value) && value.length === 0,
  function_call: (value) => value === 'none' || value === 'auto',
  response_format: (value) => value?.type === 'text',
  modalities: (value) => Array.isArray(value) && value.every((entry) => entry === 'text'),
  audio: () => false,
  web_search_options: () => false,
  echo: (value) => value === false,
  suffix: (value) => value === '',
  best_of: (value) => value === 1,
};

/**
 * Checks the parameters; null is none.
 * @param {Record<string, unknown>} body
 * @returns {Record<string, any>}
 */
function checkParameters(body) {
  const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
  for (const [param, value] of Object.entries(given)) {
    if (Object.hasOwn(UNSUPPORTED, param) && !UNSUPPORTED[param](value)) {
      throw invalid(`${param} is not supported`, { param, code: 'unsupported_parameter' });
    }
    if (!Object.hasOwn(RULES, param)) continue;
    const [test, expected] = RULES[param];
    if (!test(value)) throw invalid(`${param} must be ${expected}`, { param, code: 'invalid_value' });
  }
  return given;
}

/** An object without what is undefined. @template T @param {T} object @returns {T} */
const defined = (object) => /** @type {T} */ (Object.fromEntries(Object.entries(/** @type {object} */ (object)).filter(([, value]) => value !== undefined)));

/**
 * @param {Record<string, any>} given
 * @param {number | null} logprobs
 * @param {number | undefined} maxTokens
 * @returns {GenerationRequest}
 */
function requestOf(given, logprobs, maxTokens) {
  const { temperature, top_p: topP, top_k: topK, presence_penalty: presence, frequency_penalty: frequency, logit_bias: bias } = given;
  const wishes = {
    // vLLM has -1 for all.
    sampling: { temperature, topP, topK: topK === -1 ? 0 : topK },
    changes: defined({ presence, frequency, bias: bias && new Map(Object.entries(bias).map(([id, value]) => [Number(id), value])) }),
    // Whole numbers below 0 and above 32 bits are seeds as well.
    seed: given.seed === undefined ? undefined : Number(BigInt.asUintN(32, BigInt(given.seed))),
    stop: [given.stop ?? []].flat(),
    maxTokens,
    logprobs,
  };
  return { wishes, count: given.n ?? 1, stream: given.stream ?? false, includeUsage: given.stream_options?.include_usage ?? false };
}

/**
 * Reads a request for completions.
 * @param {Record<string, unknown>} body
 * @param {number} fewTokens that OpenAI's completions have unless the request says it
 * @returns {GenerationRequest & { prompts: (string | number[])[] }}
 */
export function decodeCompletion(body, fewTokens) {
  const given = checkParameters(body);
  const isTokens = (/** @type {unknown} */ value) => isList(value, isToken);
  const prompts = isText(given.prompt) || isTokens(given.prompt) ? [given.prompt] : given.prompt;
  if (!isList(prompts, (prompt) => isText(prompt) || isTokens(prompt))) {
    throw invalid('prompt must be a text, a list of tokens, or a list of these', { param: 'prompt' });
  }
  const { logprobs = null, max_tokens: maxTokens = fewTokens } = given;
  if (logprobs !== null && !isWhole(0, 5)(logprobs)) throw invalid('logprobs must be a whole number from 0 to 5', { param: 'logprobs' });
  return { prompts, ...requestOf(given, logprobs, maxTokens) };
}

/**
 * The text of a message.
 * @param {any} content
 * @param {string} param
 * @returns {string}
 */
function contentOf(content, param) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw invalid(`${param} must be a text, or a list of parts`, { param });
  const other = content.find((part) => part?.type !== 'text');
  if (other !== undefined) throw invalid(`${param} has a part of type ${shown(other?.type)}; this model reads only text`, { param });
  if (!content.every((part) => isText(part.text))) throw invalid(`${param} has a part without a text`, { param });
  return content.map((part) => part.text).join('');
}

/**
 * @param {any} message
 * @param {number} index
 * @returns {Message}
 */
function messageOf(message, index) {
  const param = `messages[${index}]`;
  if (!isObject(message) || !isText(message.role)) throw invalid(`${param} must be an object with role and content`, { param });
  if (message.tool_calls?.length > 0 || message.role === 'tool' || message.role === 'function') {
    throw invalid(`${param} is about tools, which are not supported`, { param, code: 'unsupported_parameter' });
  }
  return { role: message.role, content: contentOf(message.content, `${param}.content`) };
}

/**
 * Reads a request for chat completions.
 * @param {Record<string, unknown>} body
 * @returns {GenerationRequest & { messages: Message[] }}
 */
export function decodeChat(body) {
  const given = checkParameters(body);
  if (!isList(given.messages, () => true)) throw invalid('messages must be a list with at least one message', { param: 'messages' });
  const { logprobs = false, top_logprobs: top = 0, max_completion_tokens: most, max_tokens: maxTokens = undefined } = given;
  if (!isFlag(logprobs)) throw invalid('logprobs must be true or false', { param: 'logprobs' });
  if (!isWhole(0, 20)(top) || (top > 0 && !logprobs))
    throw invalid('top_logprobs must be a whole number from 0 to 20, with logprobs', { param: 'top_logprobs' });
  return { messages: given.messages.map(messageOf), ...requestOf(given, logprobs ? top : null, most ?? maxTokens) };
}

/** @param {number} promptTokens @param {number} tokens */
const usageOf = (promptTokens, tokens) => ({ prompt_tokens: promptTokens, completion_tokens: tokens, total_tokens: promptTokens + tokens });

/** How a kind of answer is written. */
class Form {
  /**
   * @param {string} model
   * @param {(ids: readonly number[]) => string} textOf text of tokens
   * @param {string} prefix of the answer's id
   */
  constructor(model, textOf, prefix) {
    this.model = model;
    this.textOf = textOf;
    this.created = Math.floor(Date.now() / 1000);
    this.id = `${prefix}-${randomUUID().replaceAll('-', '')}`;
  }

  /** @param {string} object */
  head(object) {
    return { id: this.id, object, created: this.created, model: this.model };
  }

  /**
   * What a stream ends with, if the caller wants it.
   * @param {string} object
   * @param {number} promptTokens
   * @param {readonly Generated[]} results
   */
  usage(object, promptTokens, results) {
    return { ...this.head(object), choices: [], usage: usageOf(promptTokens, sum(results)) };
  }
}

const sum = (/** @type {readonly Generated[]} */ results) => results.reduce((total, { tokens }) => total + tokens, 0);

/** The form of completions. */
export class CompletionForm extends Form {
  object = 'text_completion';
  /** Characters of each answer that were written. @type {Map<number, number>} */
  #written = new Map();

  /**
   * @param {string} model
   * @param {(ids: readonly number[]) => string} textOf text of tokens
   */
  constructor(model, textOf) {
    super(model, textOf, 'cmpl');
  }

  /**
   * @param {number} index
   * @param {string} text
   * @param {readonly TokenLogprobs[]} logprobs
   * @param {boolean} hasLogprobs
   */
  #choice(index, text, logprobs, hasLogprobs) {
    if (!hasLogprobs) return { index, text, logprobs: null };
    const tokens = logprobs.map(({ id }) => this.textOf([id]));
    let at = this.#written.get(index) ?? 0;
    const offsets = tokens.map((token) => {
      at += token.length;
      return at - token.length;
    });
    this.#written.set(index, at);
    const top = logprobs.map((entry) => Object.fromEntries(entry.top.map(({ id, logprob }) => [this.textOf([id]), logprob])));
    return { index, text, logprobs: { tokens, token_logprobs: logprobs.map(({ logprob }) => logprob), top_logprobs: top, text_offset: offsets } };
  }

  /**
   * @param {number} promptTokens
   * @param {readonly Generated[]} results
   * @param {boolean} hasLogprobs
   */
  whole(promptTokens, results, hasLogprobs) {
    const choices = results.map(({ text, logprobs, finishReason }, index) => ({
      ...this.#choice(index, text, logprobs, hasLogprobs),
      finish_reason: finishReason,
    }));
    return { ...this.head(this.object), choices, usage: usageOf(promptTokens, sum(results)) };
  }

  /** Events before the first piece. @returns {object[]} */
  begin() {
    return [];
  }

  /**
   * @param {number} index
   * @param {string} text
   * @param {readonly TokenLogprobs[]} logprobs
   * @param {boolean} hasLogprobs
   */
  piece(index, text, logprobs, hasLogprobs) {
    return { ...this.head(this.object), choices: [{ ...this.#choice(index, text, logprobs, hasLogprobs), finish_reason: null }] };
  }

  /**
   * @param {number} index
   * @param {Generated['finishReason']} reason
   */
  end(index, reason) {
    return { ...this.head(this.object), choices: [{ index, text: '', logprobs: null, finish_reason: reason }] };
  }
}

/** The form of chat completions. */
export class ChatForm extends Form {
  object = 'chat.completion.chunk';

  /**
   * @param {string} model
   * @param {(ids: readonly number[]) => string} textOf text of tokens
   */
  constructor(model, textOf) {
    super(model, textOf, 'chatcmpl');
  }

  /**
   * @param {readonly TokenLogprobs[]} logprobs
   * @param {boolean} hasLogprobs
   */
  #logprobs(logprobs, hasLogprobs) {
    if (!hasLogprobs) return null;
    const write = (/** @type {{ id: number, logprob: number }} */ { id, logprob }) => {
      const token = this.textOf([id]);
      return { token, logprob, bytes: [...Buffer.from(token)] };
    };
    return { content: logprobs.map((entry) => ({ ...write(entry), top_logprobs: entry.top.map(write) })), refusal: null };
  }

  /**
   * @param {number} promptTokens
   * @param {readonly Generated[]} results
   * @param {boolean} hasLogprobs
   */
  whole(promptTokens, results, hasLogprobs) {
    const choices = results.map(({ text, logprobs, finishReason }, index) => ({
      index,
      message: { role: 'assistant', content: text, refusal: null },
      logprobs: this.#logprobs(logprobs, hasLogprobs),
      finish_reason: finishReason,
    }));
    return { ...this.head('chat.completion'), choices, usage: usageOf(promptTokens, sum(results)) };
  }

  /**
   * Events before the first piece.
   * @param {number} count of answers
   * @returns {object[]}
   */
  begin(count) {
    return Array.from({ length: count }, (_, index) => this.#chunk(index, { role: 'assistant', content: '', refusal: null }, null, null));
  }

  /**
   * @param {number} index
   * @param {object} delta
   * @param {object | null} logprobs
   * @param {Generated['finishReason'] | null} reason
   */
  #chunk(index, delta, logprobs, reason) {
    return { ...this.head(this.object), choices: [{ index, delta, logprobs, finish_reason: reason }] };
  }

  /**
   * @param {number} index
   * @param {string} text
   * @param {readonly TokenLogprobs[]} logprobs
   * @param {boolean} hasLogprobs
   */
  piece(index, text, logprobs, hasLogprobs) {
    return this.#chunk(index, { content: text }, this.#logprobs(logprobs, hasLogprobs), null);
  }

  /**
   * @param {number} index
   * @param {Generated['finishReason']} reason
   */
  end(index, reason) {
    return this.#chunk(index, {}, null, reason);
  }
}
