// A conversation: messages become tokens by the model's chat template, and tokens become text.
import { TextStream } from 'webnn-node-serve/text';

/** @typedef {{ role: 'system' | 'user' | 'assistant', content: string }} Message */

/**
 * Text to tokens and back; a `Tokenizer` of @huggingface/tokenizers is one.
 * @typedef {object} TextTokenizer
 * @property {(text: string, options?: { add_special_tokens?: boolean }) => { ids: number[] }} encode
 * @property {(ids: number[], options?: { skip_special_tokens?: boolean, clean_up_tokenization_spaces?: boolean }) => string} decode
 */

/**
 * How an answer came about. Times are in milliseconds.
 * @typedef {object} AnswerStatistics
 * @property {number} promptTokens that were read for it; those of earlier turns are in the cache
 * @property {number} tokens
 * @property {number} firstMs from the message to the first token; NaN if there is none
 * @property {number} restMs from the first token to the last
 */

/**
 * @typedef {object} ChatOptions
 * @property {TextTokenizer} tokenizer
 * @property {((messages: Message[]) => string) | null} render the chat template. Without one, the model goes on with each
 *   message, as with a text of its own
 * @property {(logits: ArrayLike<number>) => number} choose
 * @property {ReadonlySet<number>} stop
 * @property {number} maxTokens of an answer
 * @property {string} [system] says how to answer
 */

/** Talks with a model. Each turn reads only what is new: the cache of the turns before is kept. */
export class Chat {
  #generator;
  #options;
  /** @type {Message[]} */
  #messages = [];
  /** What the generator has read and written, as the template has it; empty if the next turn is to begin anew. */
  #text = '';
  /** @type {AnswerStatistics} */
  statistics = { promptTokens: 0, tokens: 0, firstMs: NaN, restMs: 0 };

  /**
   * @param {import('./generator.mjs').Generator} generator
   * @param {ChatOptions} options
   */
  constructor(generator, options) {
    this.#generator = generator;
    this.#options = options;
    this.reset();
  }

  /** Whether there is no room for another answer. */
  get isFull() {
    return this.#generator.length + 1 >= this.#generator.maxLength;
  }

  /** Forgets the conversation. */
  reset() {
    const { system } = this.#options;
    this.#messages = system === undefined ? [] : [{ role: 'system', content: system }];
    this.#text = '';
  }

  /**
   * Answers a message. What was said is remembered when the answer has been read to its end.
   * @param {string} message
   * @param {AbortSignal} [signal] ends the answer
   * @returns {AsyncGenerator<string>} the answer in pieces of whole characters
   * @throws {import('./generator.mjs').PromptError} if the model cannot read the message, which is then forgotten
   */
  async *answer(message, signal) {
    const { tokenizer, render } = this.#options;
    /** @type {Message[]} */
    const messages = [...this.#messages, { role: 'user', content: message }];
    const prompt = render === null ? message : render(messages);
    // What a template makes of earlier answers can differ from what the model wrote: then all is read again.
    const goesOn = render !== null && this.#text !== '' && prompt.startsWith(this.#text);
    const { ids } = tokenizer.encode(goesOn ? prompt.slice(this.#text.length) : prompt, { add_special_tokens: render === null });
    if (!goesOn) this.#generator.reset();
    // Until the answer is complete: one that fails halfway leaves more in the cache than the messages tell.
    this.#text = '';
    const generated = yield* this.#pieces(ids, signal);
    this.#text = prompt + this.#decode(generated, false);
    this.#messages = [...messages, { role: 'assistant', content: this.#decode(generated, true) }];
  }

  /**
   * @param {number[]} prompt
   * @param {AbortSignal | undefined} signal
   * @returns {AsyncGenerator<string, number[]>} the text in pieces, and at the end its tokens
   */
  async *#pieces(prompt, signal) {
    const { choose, stop, maxTokens } = this.#options;
    const stream = new TextStream((ids) => this.#decode(ids, true));
    /** @type {number[]} */
    const generated = [];
    const start = performance.now();
    this.statistics = { promptTokens: prompt.length, tokens: 0, firstMs: NaN, restMs: 0 };
    for await (const id of this.#generator.generate(prompt, { choose, stop, maxTokens, signal })) {
      generated.push(id);
      const ms = performance.now() - start;
      const { firstMs } = generated.length === 1 ? { firstMs: ms } : this.statistics;
      this.statistics = { promptTokens: prompt.length, tokens: generated.length, firstMs, restMs: ms - firstMs };
      yield stream.push(id);
    }
    yield stream.end();
    return generated;
  }

  /**
   * @param {number[]} ids
   * @param {boolean} skipSpecial whether the marks of begin and end are left out
   */
  #decode(ids, skipSpecial) {
    if (ids.length === 0) return '';
    return this.#options.tokenizer.decode(ids, { skip_special_tokens: skipSpecial, clean_up_tokenization_spaces: false });
  }
}
