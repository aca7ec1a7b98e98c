// Answers of OpenAI's API for generated texts: whole, and as streams of server-sent events.

import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { StringDecoder } from 'node:string_decoder';

/**
 * @typedef {import('../models/generator.js').Generated} Generated
 * @typedef {import('../text/answer.js').TokenLogprobs} TokenLogprobs
 */

/**
 * Knows what tokens stand for.
 * @typedef {object} Texts
 * @property {(ids: readonly number[]) => string} textOf
 * @property {(id: number) => Uint8Array} bytesOf the bytes of a token, which may be a part of a character
 */

/** @param {number} promptTokens @param {number} tokens */
const usageOf = (promptTokens, tokens) => ({ prompt_tokens: promptTokens, completion_tokens: tokens, total_tokens: promptTokens + tokens });

/**
 * A token as OpenAI writes it: its text, or where it is a part of a character, its bytes as `\\xe2\\x9c`.
 * @param {Uint8Array} bytes
 * @param {string} [mark] before bytes
 */
function tokenText(bytes, mark = '') {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (isUtf8(buffer)) return buffer.toString();
  const write = (/** @type {number} */ byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`);
  return mark + Array.from(bytes, write).join('');
}

/** How a kind of answer is written. */
class Form {
  /**
   * @param {string} model
   * @param {Pick<Texts, 'bytesOf'>} texts
   * @param {string} prefix of the answer's id
   */
  constructor(model, texts, prefix) {
    this.model = model;
    this.texts = texts;
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
  #echoes;
  /**
   * Of each answer its text so far, how much of it is of tokens that were written, and the bytes of a character that is not complete.
   * @type {Map<number, { text: string, length: number, decoder: StringDecoder }>}
   */
  #written = new Map();

  /**
   * @param {string} model
   * @param {Pick<Texts, 'bytesOf'>} texts
   * @param {readonly string[]} [echoes] what each answer begins with
   */
  constructor(model, texts, echoes = []) {
    super(model, texts, 'cmpl');
    this.#echoes = echoes;
  }

  /** @param {number} id */
  #token(id) {
    return tokenText(this.texts.bytesOf(id), 'bytes:');
  }

  /**
   * Where each token begins in the text of its answer, in UTF-16 units.
   * @param {number} index
   * @param {string} piece of the text; it can end before that of the tokens does, where the beginning of a stop string is held back
   * @param {readonly TokenLogprobs[]} tokens
   */
  #offsets(index, piece, tokens) {
    const written = this.#written.get(index) ?? { text: '', length: 0, decoder: new StringDecoder() };
    this.#written.set(index, written);
    written.text += piece;
    return tokens.map(({ id }) => {
      const offset = written.length;
      const token = written.decoder.write(Buffer.from(this.texts.bytesOf(id)));
      const known = written.text.slice(offset, offset + token.length);
      // Some tokenizers leave out a space before the first token; marks such as the end of a text are not in it.
      if (token.startsWith(known)) written.length += token.length;
      else if (offset === 0 && token.startsWith(' ') && written.text.startsWith(token.slice(1))) written.length += token.length - 1;
      return offset;
    });
  }

  /**
   * @param {number} index
   * @param {string} text
   * @param {readonly TokenLogprobs[]} logprobs
   * @param {boolean} hasLogprobs
   */
  #choice(index, text, logprobs, hasLogprobs) {
    if (!hasLogprobs) return { index, text, logprobs: null };
    const written = {
      tokens: logprobs.map(({ id }) => this.#token(id)),
      token_logprobs: logprobs.map(({ logprob }) => logprob),
      top_logprobs: logprobs.map((entry) => Object.fromEntries(entry.top.map(({ id, logprob }) => [this.#token(id), logprob]))),
      text_offset: this.#offsets(index, text, logprobs),
    };
    return { index, text, logprobs: written };
  }

  /**
   * @param {number} promptTokens
   * @param {readonly Generated[]} results
   * @param {boolean} hasLogprobs
   */
  whole(promptTokens, results, hasLogprobs) {
    const choices = results.map(({ text, logprobs, finishReason }, index) => ({
      ...this.#choice(index, (this.#echoes[index] ?? '') + text, logprobs, hasLogprobs),
      finish_reason: finishReason,
    }));
    return { ...this.head(this.object), choices, usage: usageOf(promptTokens, sum(results)) };
  }

  /** Events before the first piece. @returns {object[]} */
  begin() {
    return this.#echoes.map((echo, index) => this.piece(index, echo, [], false));
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
   * @param {Pick<Texts, 'bytesOf'>} texts
   */
  constructor(model, texts) {
    super(model, texts, 'chatcmpl');
  }

  /**
   * @param {readonly TokenLogprobs[]} logprobs
   * @param {boolean} hasLogprobs
   */
  #logprobs(logprobs, hasLogprobs) {
    if (!hasLogprobs) return null;
    const write = (/** @type {{ id: number, logprob: number }} */ { id, logprob }) => {
      const bytes = this.texts.bytesOf(id);
      return { token: tokenText(bytes), logprob, bytes: [...bytes] };
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
