// OpenAI's API for generated texts over HTTP: whole answers, and streams of server-sent events.

import { whenGone } from '../departure.js';
import { ServeError, toServeError } from '../errors.js';
import { FEW_TOKENS, together } from '../models/generator.js';
import { encodeError } from '../protocol/openai.js';
import { ChatForm, CompletionForm } from '../protocol/openai-form.js';
import { decodeChat, decodeCompletion } from '../protocol/openai-generation.js';
import { bodyOf, callOf, callOptions } from './calls.js';
import { EventStream } from './events.js';
import { modelFor, ROOTS } from './openai.js';

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
 * @property {number} heartbeatMs
 */

/**
 * Generates all texts of a request.
 * @param {Task} task
 * @param {import('../batcher/executor.js').CallOptions} options
 * @param {(index: number, ...piece: Parameters<import('../text/answer.js').OnText>) => void} [onText]
 * @param {(index: number, result: Generated) => void} [onEnd]
 */
async function generate({ model, request: { wishes, count }, prompts }, { signal, deadline }, onText, onEnd) {
  model.admit(prompts.length * count, { signal, deadline });
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

/**
 * Answers with events. Until the first token or heartbeat is there, an error is an answer of its own.
 * @param {Task} task
 * @param {import('fastify').FastifyRequest} request
 * @param {import('fastify').FastifyReply} reply
 */
async function answerEvents(task, request, reply) {
  const { form, prompts, heartbeatMs } = task;
  const { count, includeUsage } = task.request;
  const { signal, deadline } = callOptions(request);
  const unread = new AbortController();
  const events = new EventStream(heartbeatMs, unread);
  whenGone(signal, () => unread.abort());
  // Where the caller wants the usage, all events but the last have none.
  const write = (/** @type {object} */ chunk) => events.write(JSON.stringify(includeUsage ? { usage: null, ...chunk } : chunk));
  const withLogprobs = hasLogprobs(task);
  let hasBegun = false;
  const begin = () => {
    if (hasBegun) return;
    hasBegun = true;
    for (const chunk of form.begin(prompts.length * count)) write(chunk);
  };
  const done = generate(
    task,
    { signal: unread.signal, deadline },
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
      if (!events.isOpen) throw caught;
      const error = unread.signal.aborted ? new ServeError('canceled', 'the response is not read') : toServeError(caught);
      if (error.kind === 'internal') request.log.error({ err: error.cause ?? error }, 'request failed');
      events.write(JSON.stringify(encodeError(error)));
    },
  );
  await Promise.race([events.opened, ended.finally(() => events.end())]);
  return events.send(reply);
}

/**
 * @param {Task} task
 * @param {import('fastify').FastifyRequest} request
 * @param {import('fastify').FastifyReply} reply
 */
async function answer(task, request, reply) {
  if (task.request.stream) return answerEvents(task, request, reply);
  const results = await generate(task, callOptions(request));
  return task.form.whole(promptTokens(task), results, hasLogprobs(task));
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../serve.js').Context} context
 */
export function addGenerationRoutes(app, { registry, limits: { heartbeatMs }, json }) {
  for (const root of ROOTS) {
    app.post(`${root}/completions`, async (request, reply) => {
      const body = await json.read('completion', bodyOf(request), callOf(request).signal);
      const model = modelFor(registry, body.model, 'generation');
      const decoded = decodeCompletion(body, FEW_TOKENS);
      const prompts = await model.readPrompts(decoded.prompts);
      const echo = (/** @type {string | number[]} */ prompt) => Array(decoded.count).fill(typeof prompt === 'string' ? prompt : model.textOf(prompt));
      const form = new CompletionForm(body.model, model, decoded.echo ? decoded.prompts.flatMap(echo) : []);
      return answer({ model, request: decoded, prompts, form, heartbeatMs }, request, reply);
    });

    app.post(`${root}/chat/completions`, async (request, reply) => {
      const body = await json.read('chat', bodyOf(request), callOf(request).signal);
      const model = modelFor(registry, body.model, 'generation');
      const decoded = decodeChat(body);
      const prompts = [model.readMessages(decoded.messages, decoded.wishes.templateArguments)];
      return answer({ model, request: decoded, prompts, form: new ChatForm(body.model, model), heartbeatMs }, request, reply);
    });
  }
}
