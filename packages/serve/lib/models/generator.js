// A model that goes on with texts.

import { randomInt } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { inspectModel, loadModel } from 'webnn-node/onnx';
import { describeDecoder, KEEP_LAST } from 'webnn-node-text/decoder';
import { counted } from '../batcher/executor.js';
import { InTurns, Together } from '../batcher/rows.js';
import { Sequences } from '../batcher/sequences.js';
import { whenGone } from '../departure.js';
import { invalid } from '../errors.js';
import { loadOptions } from '../registry/config.js';
import { Answer } from '../text/answer.js';
import { encodeText } from '../text/folder.js';
import { mapInParts } from '../text/parts.js';
import { samplingOf, UNCHANGED } from '../text/sampling.js';
import { chooseBatching, obstacle } from './batching.js';
import { contextBound } from './context.js';
import { Decoder } from './decoder.js';
import { float32Warnings } from './precision.js';

/**
 * @typedef {import('../text/folder.js').TextFolder} TextFolder
 * @typedef {import('../batcher/executor.js').CallOptions} CallOptions
 * @typedef {import('../text/answer.js').TokenLogprobs} TokenLogprobs
 */

/**
 * What a caller says about a text; what is left out is as the model's generation_config.json says.
 * @typedef {object} Wishes
 * @property {Partial<import('../text/sampling.js').Sampling>} [sampling]
 * @property {Partial<import('../text/sampling.js').Changes>} [changes]
 * @property {number} [seed]
 * @property {readonly string[]} [stop]
 * @property {number} [maxTokens] 0 only reads the prompt; by default as many as the context has room for, and LONGEST at most
 * @property {number} [minTokens] before these, no token ends the text
 * @property {boolean} [ignoreEnd] whether the text goes on where the model would end it
 * @property {readonly number[]} [stopTokens] further tokens that end the text
 * @property {number | null} [logprobs]
 * @property {Record<string, unknown>} [templateArguments] variables of the chat template, for `readMessages`
 */

/** @typedef {{ text: string, logprobs: TokenLogprobs[], tokens: number, finishReason: 'stop' | 'length' }} Generated */

/** The longest text where nobody says how long it may be. */
const LONGEST = 4096;

/** Prompts of one request. */
const MAX_PROMPTS = 128;

/** Tokens of a text in the Open Inference Protocol, and in OpenAI's completions, unless the request says it. */
export const FEW_TOKENS = 16;

export class Generator {
  kind = /** @type {const} */ ('generation');
  #model;
  #folder;
  #vocabulary;
  #sequences;
  #context;
  #maxTokens;
  #observer;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {TextFolder} folder
   * @param {object} parts
   * @param {number} parts.vocabulary
   * @param {Sequences} parts.sequences
   * @param {{ together: number, reason: string }} parts.batching
   * @param {import('./context.js').ContextBound} parts.context
   * @param {number | null} parts.maxTokens of an answer where the caller does not say it
   * @param {import('../batcher/executor.js').Observer} parts.observer
   */
  constructor(model, folder, { vocabulary, sequences, batching, context, maxTokens, observer }) {
    this.#observer = observer;
    this.#model = model;
    this.#folder = folder;
    this.#context = context;
    this.#maxTokens = maxTokens;
    this.#vocabulary = vocabulary;
    this.#sequences = sequences;
    /** How many texts are computed at once, and why. */
    this.batching = batching;
  }

  /**
   * Loads a language model, and tries what it will do: that also compiles it.
   * @param {string} file
   * @param {TextFolder} folder
   * @param {import('./load.js').Services} services
   */
  static async load(file, folder, { config, turns, observer }) {
    const { maxSequences, maxTokens } = config;
    const known = obstacle(inspectModel(file));
    // A cache with room for further tokens is longer than what the exported names of dimensions say.
    const model = await loadModel(file, { ...loadOptions(config), keepLast: KEEP_LAST, ...(known === null && { strictDimensions: false }) });
    try {
      const described = describeDecoder(model);
      const { vocabulary } = described;
      const decoder = new Decoder(model, described);
      const own = folder.maxLength;
      const context = contextBound(described.cache, { own, wanted: config.maxLength, isTogether: known === null && maxSequences > 1, maxSequences });
      const { maxLength } = context;
      // The trial has texts of its own, which a low bound has nothing to do with.
      const { counts, reason } = await chooseBatching({ decoder, vocabulary, maxSequences, maxLength: own, obstacle: known });
      const isTogether = counts.length > 0;
      const rows = isTogether ? new Together(decoder, counts, maxLength) : new InTurns(decoder);
      const sequences = new Sequences({ limits: { ...config, maxQueueMs: config.maxTextQueueMs }, decoder, rows, turns, observer, room: context.tokens });
      const batching = { together: isTogether ? maxSequences : 1, reason };
      return new Generator(model, { ...folder, maxLength }, { vocabulary, sequences, batching, context, maxTokens, observer });
    } catch (error) {
      model.destroy();
      throw error;
    }
  }

  /** What the log says about it. */
  get about() {
    return { batching: this.batching, maxLength: this.#folder.maxLength, cacheTokens: this.#context.tokens };
  }

  /** What whoever runs the server should know. */
  get warnings() {
    const { ignored } = this.#folder.generation;
    const unsupported = `generation_config.json sets what is not supported and has no effect: ${ignored.join(', ')}`;
    return [...(ignored.length > 0 ? [unsupported] : []), ...this.#context.warnings, ...float32Warnings(this.#model)];
  }

  get metadata() {
    return {
      platform: 'onnx_webnn-node',
      inputs: [
        { name: 'text_input', datatype: 'BYTES', shape: [-1] },
        { name: 'max_tokens', datatype: 'INT32', shape: [-1] },
      ],
      outputs: [{ name: 'text_output', datatype: 'BYTES', shape: [-1] }],
    };
  }

  /** Texts that wait. */
  get waiting() {
    return this.#sequences.waiting;
  }

  /** Texts that are read and written. */
  get running() {
    return this.#sequences.running;
  }

  /** Which part of the tokens that could be there at the same time is there, 0 to 1. */
  get cacheUsage() {
    return this.#sequences.tokens / this.#context.tokens;
  }

  /** Whether the model has a chat template. */
  get hasTemplate() {
    return this.#folder.render !== null;
  }

  /**
   * The tokens of a conversation, up to where the answer begins.
   * @param {readonly import('../text/folder.js').Message[]} messages
   * @param {Record<string, unknown>} [templateArguments] variables of the chat template
   * @returns {readonly number[]}
   */
  readMessages(messages, templateArguments) {
    return counted(this.#observer, () => {
      const { render } = this.#folder;
      if (render === null) throw invalid('the model has no chat template; use /v1/completions', { param: 'model' });
      if (messages.length > this.#folder.maxLength) throw this.#tooLong(`the conversation has ${messages.length} messages`, 'messages');
      const text = render(messages, templateArguments);
      return this.#check(encodeText(this.#folder, text, { what: 'the conversation', param: 'messages', isWhole: false }), 'messages');
    });
  }

  /**
   * The tokens of prompts, checked.
   * @param {readonly (string | readonly number[])[]} prompts
   * @returns {Promise<(readonly number[])[]>}
   */
  async readPrompts(prompts) {
    counted(this.#observer, () => {
      if (prompts.length > MAX_PROMPTS) throw invalid(`there are ${prompts.length} prompts, at most ${MAX_PROMPTS} are allowed`, { param: 'prompt' });
    });
    const read = (/** @type {string} */ prompt) => encodeText(this.#folder, prompt, { what: 'the prompt', param: 'prompt' });
    const check = (/** @type {string | readonly number[]} */ prompt) => this.#check(typeof prompt === 'string' ? read(prompt) : prompt, 'prompt');
    return mapInParts(prompts, (prompt) => counted(this.#observer, () => check(prompt)));
  }

  /**
   * @param {readonly number[]} ids
   * @param {string} param
   */
  #check(ids, param) {
    const { maxLength } = this.#folder;
    if (ids.length === 0) throw invalid('the prompt has no tokens', { param });
    this.#checkKnown(ids, param);
    if (ids.length >= maxLength) throw this.#tooLong(`the prompt has ${ids.length} tokens`, param);
    return ids;
  }

  /**
   * @param {string} what
   * @param {string} param
   */
  #tooLong(what, param) {
    return invalid(`the model's context has ${this.#folder.maxLength} tokens, with room for a response; ${what}`, { param, code: 'context_length_exceeded' });
  }

  /**
   * Text of tokens.
   * @param {readonly number[]} ids
   */
  textOf(ids) {
    return this.#folder.tokenizer.decode([...ids], { skip_special_tokens: false, clean_up_tokenization_spaces: false });
  }

  /**
   * The bytes of a token, which can be parts of characters.
   * @param {number} id
   */
  bytesOf(id) {
    return this.#folder.bytesOf(id);
  }

  /**
   * The longest answer where the caller does not say it.
   * @param {number} promptTokens
   * @param {number} room in the context
   */
  #longest(promptTokens, room) {
    const { maxTokens, maxLength } = this.#folder.generation;
    const wanted = this.#maxTokens ?? maxTokens ?? (maxLength === null ? LONGEST : Math.max(1, maxLength - promptTokens));
    return Math.min(room, wanted);
  }

  /**
   * Refuses a request whose texts have no room.
   * @param {number} [texts] one at least: as many as are known
   * @param {CallOptions} [options]
   * @throws {import('../errors.js').ServeError}
   */
  admit(texts = 1, options) {
    this.#sequences.admit(texts, options);
  }

  /**
   * Goes on with a text.
   * @param {readonly number[]} prompt from `readMessages` or `readPrompts`
   * @param {Wishes} wishes
   * @param {CallOptions & { onText?: import('../text/answer.js').OnText }} [options] `onText` takes the text in pieces
   * @returns {Promise<Generated>}
   * @throws {import('../errors.js').ServeError}
   */
  async generate(prompt, wishes, { onText, ...options } = {}) {
    const { sampling, changes, seed = randomInt(2 ** 32), stop = [], maxTokens, logprobs = null } = wishes;
    const { generation, maxLength } = this.#folder;
    const room = maxLength - prompt.length;
    counted(this.#observer, () => this.#checkWishes(wishes, prompt.length));
    /** @type {string[]} */
    const pieces = [];
    /** @type {TokenLogprobs[]} */
    const all = [];
    const answerOptions = {
      sampling: samplingOf({ ...generation.sampling, top_k: generation.sampling.top_k ?? 0 }, sampling),
      changes: { ...UNCHANGED, ...changes, repetition: changes?.repetition ?? generation.repetition },
      seed,
      stop: [...generation.stop, ...stop],
      maxTokens: maxTokens ?? this.#longest(prompt.length, room),
      minTokens: wishes.minTokens ?? generation.minTokens ?? generation.minLength - prompt.length,
      ignoreEnd: wishes.ignoreEnd,
      stopTokens: wishes.stopTokens,
      logprobs,
      prompt,
      constraints: generation.constraints,
    };
    const answer = new Answer(answerOptions, this.#folder, (piece, some) => {
      pieces.push(piece);
      all.push(...some);
      onText?.(piece, some);
    });
    const sequence = {
      prompt,
      most: prompt.length + answerOptions.maxTokens,
      choose: answerOptions.maxTokens === 0 ? null : (/** @type {ArrayLike<number>} */ logits) => answer.choose(logits),
      get finishReason() {
        return answer.finishReason ?? /** @type {const} */ ('length');
      },
    };
    await this.#sequences.submit(sequence, options);
    return { text: pieces.join(''), logprobs: all, tokens: answer.tokens, finishReason: sequence.finishReason };
  }

  /**
   * @param {Wishes} wishes
   * @param {number} promptTokens
   */
  #checkWishes({ maxTokens = 0, changes, stopTokens = [] }, promptTokens) {
    if (maxTokens > this.#folder.maxLength - promptTokens) {
      throw this.#tooLong(`the prompt has ${promptTokens}, the answer up to ${maxTokens}`, 'max_tokens');
    }
    this.#checkKnown([...(changes?.bias?.keys() ?? [])], 'logit_bias');
    this.#checkKnown(stopTokens, 'stop_token_ids');
  }

  /**
   * @param {readonly number[]} ids
   * @param {string} param that has them
   */
  #checkKnown(ids, param) {
    const unknown = ids.find((id) => !(id >= 0 && id < this.#vocabulary));
    if (unknown !== undefined) throw invalid(`token ${unknown} is not in the model's vocabulary of ${this.#vocabulary} tokens`, { param });
  }

  /**
   * Goes on with texts as tensors.
   * @param {import('./tensor-model.js').InferRequest} request
   * @param {CallOptions} [options]
   * @returns {Promise<import('./tensor-model.js').InferResult>}
   */
  async infer({ inputs, outputs }, options = {}) {
    const text = inputs.get('text_input');
    const limit = inputs.get('max_tokens');
    if (text?.datatype !== 'BYTES' || inputs.size > (limit === undefined ? 1 : 2)) {
      throw invalid('expected the input "text_input" of type BYTES, and "max_tokens" if you want it');
    }
    if (outputs?.some((name) => name !== 'text_output')) throw invalid('there is one output, "text_output"');
    const limits = limit === undefined ? [FEW_TOKENS] : Array.from(/** @type {Int32Array} */ (limit.data));
    const isValid = (limit?.datatype ?? 'INT32') === 'INT32' && [1, text.data.length].includes(limits.length) && limits.every((tokens) => tokens > 0);
    if (!isValid) throw invalid('"max_tokens" must be INT32 numbers from 1, one or as many as strings');
    const prompts = await this.readPrompts(/** @type {Uint8Array[]} */ (text.data).map((bytes) => Buffer.from(bytes).toString()));
    this.admit(prompts.length, options);
    const generated = await together(options.signal, (signal) =>
      prompts.map((prompt, i) => this.generate(prompt, { maxTokens: limits[i] ?? limits[0] }, { ...options, signal })),
    );
    const data = generated.map((one) => Buffer.from(one.text));
    return new Map([['text_output', { datatype: 'BYTES', shape: text.shape, data }]]);
  }

  /** Ends what was begun and what waits, and takes no more. */
  drain() {
    return this.#sequences.drain();
  }

  /** Frees the memory. */
  destroy() {
    this.#model.destroy();
  }
}

/**
 * Texts of one request: if one of them fails, the others are not needed any more.
 * @template T
 * @param {CallOptions['signal']} signal
 * @param {(signal: AbortSignal) => Promise<T>[]} begin
 * @returns {Promise<T[]>}
 */
export async function together(signal, begin) {
  const group = new AbortController();
  // Each text listens to it.
  setMaxListeners(0, group.signal);
  const ignore = whenGone(signal, () => group.abort());
  try {
    return await Promise.all(begin(group.signal));
  } catch (error) {
    group.abort();
    throw error;
  } finally {
    ignore();
  }
}
