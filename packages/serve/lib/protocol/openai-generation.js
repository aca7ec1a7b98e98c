// Requests of OpenAI's API for generated texts: completions and chat completions.

import { invalid, shown } from '../errors.js';
import { checkerOf } from './checker.js';
import { listOf } from './openai.js';
import { CHAT, COMPLETION, LIMITS } from './schemas-openai.js';

/**
 * @typedef {import('../models/generator.js').Wishes} Wishes
 * @typedef {import('../text/folder.js').Message} Message
 * @typedef {import('./openai.js').Check} Check
 */

/**
 * What both kinds of requests have.
 * @typedef {object} GenerationRequest
 * @property {Wishes} wishes
 * @property {number} count answers to each prompt
 * @property {boolean} stream
 * @property {boolean} includeUsage whether a stream ends with the numbers of tokens
 */

/** An object without what is undefined. @template T @param {T} object @returns {T} */
const defined = (object) => /** @type {T} */ (Object.fromEntries(Object.entries(/** @type {object} */ (object)).filter(([, value]) => value !== undefined)));

const checkCompletionBody = checkerOf(COMPLETION);
const checkChatBody = checkerOf(CHAT);

/** @type {Check} */
export function checkCompletion(json) {
  const body = checkCompletionBody(json);
  if (body.echo === true && body.logprobs !== undefined) {
    throw invalid('logprobs is not supported with echo: there are none of the prompt; leave out one of them', {
      param: 'logprobs',
      code: 'unsupported_parameter',
    });
  }
  return body;
}

/**
 * Refuses what messages of other servers can have and no model here reads: calls of tools, pictures, sounds.
 * @param {any} message
 * @param {string} param
 */
function refuseOthers(message, param) {
  if (message?.role === 'tool' || message?.role === 'function' || message?.tool_calls?.length > 0 || (message?.function_call ?? null) !== null) {
    throw invalid(`${param} is about tools, which are not supported; leave out calls of tools and their results`, { param, code: 'unsupported_parameter' });
  }
  if (!Array.isArray(message?.content)) return;
  const other = message.content.slice(0, LIMITS.parts).find((/** @type {any} */ part) => typeof part?.type === 'string' && part.type !== 'text');
  if (other === undefined) return;
  throw invalid(`${param}.content has a part of type ${shown(other.type)}; models here read only parts of type "text"`, {
    param: `${param}.content`,
    code: 'invalid_value',
  });
}

/** A message as templates take it. @param {any} message from the checked body @returns {Message} */
const messageOf = ({ role, content = '', name }) =>
  defined({
    role: role === 'developer' ? 'system' : role,
    content: typeof content === 'string' ? content : content.map((/** @type {{ text: string }} */ { text }) => text).join(''),
    name,
  });

/** Gives messages as templates take them. @type {Check} */
export function checkChat(json) {
  const messages = /** @type {any} */ (json)?.messages;
  if (Array.isArray(messages)) messages.slice(0, LIMITS.messages).forEach((message, index) => void refuseOthers(message, `messages[${index}]`));
  const body = checkChatBody(json);
  if (body.top_logprobs > 0 && body.logprobs !== true) {
    throw invalid('top_logprobs needs logprobs: true', { param: 'top_logprobs', code: 'invalid_value' });
  }
  return { ...body, messages: body.messages.map(messageOf) };
}

/**
 * @param {Record<string, any>} body checked
 * @param {number | null} logprobs
 * @param {number | undefined} maxTokens
 * @returns {GenerationRequest}
 */
function requestOf(body, logprobs, maxTokens) {
  const { temperature, top_p: topP, top_k: topK, min_p: minP, presence_penalty: presence, frequency_penalty: frequency } = body;
  const { repetition_penalty: repetition, logit_bias: bias, min_tokens: minTokens } = body;
  if (minTokens > (maxTokens ?? Infinity)) {
    throw invalid(`min_tokens is ${minTokens}, more than the ${maxTokens} tokens that the response may have`, { param: 'min_tokens', code: 'invalid_value' });
  }
  const wishes = defined({
    // vLLM has -1 for all.
    sampling: defined({ temperature, topP, topK: topK === -1 ? 0 : topK, minP }),
    changes: defined({ presence, frequency, repetition, bias: bias && new Map(Object.entries(bias).map(([id, value]) => [Number(id), value])) }),
    // Whole numbers below 0 and above 32 bits are seeds as well.
    seed: body.seed === undefined ? undefined : Number(BigInt.asUintN(32, BigInt(body.seed))),
    stop: [body.stop ?? []].flat(),
    stopTokens: body.stop_token_ids,
    ignoreEnd: body.ignore_eos,
    minTokens,
    maxTokens,
    logprobs,
    templateArguments: body.chat_template_kwargs,
  });
  return { wishes, count: body.n ?? 1, stream: body.stream ?? false, includeUsage: body.stream_options?.include_usage ?? false };
}

/**
 * Reads a request for completions.
 * @param {Record<string, any>} body from {@link checkCompletion}
 * @param {number} fewTokens that OpenAI's completions have unless the request says it
 * @returns {GenerationRequest & { prompts: (string | number[])[], echo: boolean }}
 */
export function decodeCompletion(body, fewTokens) {
  const { prompt, echo = false, logprobs = null, max_tokens: maxTokens = fewTokens } = body;
  return { prompts: listOf(prompt), echo, ...requestOf(body, logprobs, maxTokens) };
}

/**
 * Reads a request for chat completions.
 * @param {Record<string, any>} body from {@link checkChat}
 * @returns {GenerationRequest & { messages: Message[] }}
 */
export function decodeChat(body) {
  const { messages, logprobs = false, top_logprobs: top = 0, max_completion_tokens: most, max_tokens: maxTokens } = body;
  return { messages, ...requestOf(body, logprobs ? top : null, most ?? maxTokens) };
}
