// OpenAI's API for generated texts over HTTP: whole answers, and streams of server-sent events.

import { PassThrough } from 'node:stream';
import { ServeError, toServeError } from '../errors.js';
import { FEW_TOKENS, together } from '../models/generator.js';
import { encodeError } from '../protocol/openai.js';
import { ChatForm, CompletionForm, decodeChat, decodeCompletion } from '../protocol/openai-generation.js';
import { bodyOf, callOf, callOptions } from './calls.js';
import { modelFor } from './openai.js';

/** Bytes of a stream that its caller has not read: then nobody reads it any more. */
const MAX_UNREAD_BYTES = 2 ** 20;

/**
 * @typedef {import('../models/generator.js').Generator} Generator
 * @typedef {import('../models/generator.js').Generated} Generated
 * @typedef {import('../protocol/openai-generation.js').GenerationRequest} GenerationRequest
 * @typedef {ChatForm | CompletionForm} Form
 */

/**
 * What to generate and how to write it.
 * @typedef {object} Task
 * @property {Generator} model
 * @property {GenerationRequest} request
 * @property {(readonly number[])[]} prompts
 * @property {Form} form
 */

/**
 * Generates all texts of a request.
 * @param {Task} task
 * @param {import('../batcher/executor.js').CallOptions} options
 * @param {(index: number, ...piece: Parameters<import('../text/answer.js').OnText>) => void} [onText]
 * @param {(index: number, result: Generated) => void} [onEnd]
 */
function generate({ model, request: { wishes, count }, prompts }, { signal, deadline }, onText, onEnd) {
  const all = prompts.flatMap((prompt) => Array.from({ length: count }, (_, nth) => ({ prompt, nth })));
  return together(signal, (group) =>
    all.map(async ({ prompt, nth }, index) => {
      // The answers to one prompt differ.
      const seed = wishes.seed === undefined ? undefined : (wishes.seed + nth) % 2 ** 32;
      const options = { signal: group, deadline, onText: onText?.bind(null, index) };
      const result = await model.generate(prompt, { ...wishes, seed }, options);
      onEnd?.(index, result);
      return result;
    }),
  );
}

const promptTokens = (/** @type {Task} */ { prompts }) => prompts.reduce((sum, { length }) => sum + length, 0);
const hasLogprobs = (/** @type {Task} */ { request }) => (request.wishes.logprobs ?? null) !== null;

/** Server-sent events. A caller who does not read them must not fill the memory. */
class Events {
  stream = new PassThrough();
  #signal;

  /** @param {AbortController} reader is aborted when the caller does not read */
  constructor(reader) {
    this.#signal = reader;
  }

  /**
   * @param {string} data
   * @param {string} [event]
   */
  write(data, event) {
    this.stream.write(`${event === undefined ? '' : `event: ${event}\n`}data: ${data}\n\n`);
    if (this.stream.writableLength + this.stream.readableLength > MAX_UNREAD_BYTES) this.#signal.abort();
  }
}

/**
 * Answers with events. Until the first token is there, an error is an answer of its own.
 * @param {Task} task
 * @param {import('fastify').FastifyRequest} request
 * @param {import('fastify').FastifyReply} reply
 */
async function answerEvents(task, request, reply) {
  const { form, prompts } = task;
  const { count, includeUsage } = task.request;
  const { signal, deadline } = callOptions(request, reply);
  const unread = new AbortController();
  const events = new Events(unread);
  // Where the caller wants the usage, all events but the last have none.
  const write = (/** @type {object} */ chunk) => events.write(JSON.stringify(includeUsage ? { usage: null, ...chunk } : chunk));
  const withLogprobs = hasLogprobs(task);
  let hasBegun = false;
  /** @type {(value?: unknown) => void} */
  let settle = () => undefined;
  const begun = new Promise((resolve) => {
    settle = resolve;
  });
  const begin = () => {
    if (hasBegun) return;
    hasBegun = true;
    for (const chunk of form.begin(prompts.length * count)) write(chunk);
    settle();
  };
  const done = generate(
    task,
    { signal: AbortSignal.any([signal, unread.signal]), deadline },
    (index, text, logprobs) => {
      begin();
      write(form.piece(index, text, logprobs, withLogprobs));
    },
    (index, { finishReason }) => {
      begin();
      write(form.end(index, finishReason));
    },
  );
  const ended = done.then(
    (results) => {
      if (includeUsage) write(form.usage(form.object, promptTokens(task), results));
      events.write('[DONE]');
    },
    (caught) => {
      if (!hasBegun) throw caught;
      const error = unread.signal.aborted ? new ServeError('canceled', 'the answer is not read') : toServeError(caught);
      if (error.kind === 'internal') request.log.error({ err: error.cause ?? error }, 'request failed');
      events.write(JSON.stringify(encodeError(error)), 'error');
    },
  );
  const closed = ended.then(() => events.stream.end());
  await Promise.race([begun, closed]);
  return reply.type('text/event-stream').header('cache-control', 'no-cache').header('x-accel-buffering', 'no').send(events.stream);
}

/**
 * @param {Task} task
 * @param {import('fastify').FastifyRequest} request
 * @param {import('fastify').FastifyReply} reply
 */
async function answer(task, request, reply) {
  if (task.request.stream) return answerEvents(task, request, reply);
  const results = await generate(task, callOptions(request, reply));
  return task.form.whole(promptTokens(task), results, hasLogprobs(task));
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../serve.js').Context} context
 */
export function addGenerationRoutes(app, { registry, json }) {
  app.post('/v1/completions', async (request, reply) => {
    const body = await json.read('completion', bodyOf(request), callOf(request).signal);
    const name = /** @type {string} */ (body.model);
    const model = modelFor(registry, name, 'generation');
    const decoded = decodeCompletion(body, FEW_TOKENS);
    const prompts = await model.readPrompts(decoded.prompts);
    const form = new CompletionForm(name, (ids) => model.textOf(ids));
    return answer({ model, request: decoded, prompts, form }, request, reply);
  });

  app.post('/v1/chat/completions', async (request, reply) => {
    const body = await json.read('chat', bodyOf(request), callOf(request).signal);
    const name = /** @type {string} */ (body.model);
    const model = modelFor(registry, name, 'generation');
    const decoded = decodeChat(body);
    const form = new ChatForm(name, (ids) => model.textOf(ids));
    return answer({ model, request: decoded, prompts: [model.readMessages(decoded.messages)], form }, request, reply);
  });
}
