// A text that is generated: chooses tokens, makes text of them, and knows when it has ended.

import { randomNumbers } from 'webnn-node-text/random';
import { Forbidden } from './constraints.js';
import { changedLogits, chooseToken, logprobsOf } from './sampling.js';
import { StopTexts } from './stop-texts.js';
import { TextStream } from './text-stream.js';

/**
 * How a text is generated.
 * @typedef {object} AnswerOptions
 * @property {import('./sampling.js').Sampling} sampling
 * @property {import('./sampling.js').Changes} changes
 * @property {number} seed 0 to 2^32 - 1; the same one gives the same text, whatever else is computed
 * @property {readonly string[]} stop texts that end it, and are left out
 * @property {number} maxTokens
 * @property {number | null} logprobs of how many of the most likely tokens, beside the chosen one; null for none at all
 * @property {readonly number[]} [prompt]
 * @property {import('./constraints.js').Constraints} [constraints]
 * @property {number} [minTokens] before these, no token ends the text
 * @property {boolean} [ignoreEnd] whether the model's own tokens for the end are tokens like others
 * @property {readonly number[]} [stopTokens] further tokens that end the text
 */

/** @typedef {ReturnType<typeof logprobsOf>} TokenLogprobs */

/** @typedef {(piece: string, logprobs: TokenLogprobs[]) => void} OnText takes whole characters, and what is known of their tokens */

/** @type {import('./constraints.js').Constraints} */
const UNCONSTRAINED = { ngram: 0, suppressed: [], suppressedFirst: [], badWords: [] };

export class Answer {
  #options;
  #stopTokens;
  #random;
  #stream;
  #stops;
  #onText;
  /** How often each token was chosen. @type {Map<number, number>} */
  #counts = new Map();
  #forbidden;
  /** Tokens of prompt and text. @type {Set<number>} */
  #seen;
  /** Of tokens whose text is held back. @type {TokenLogprobs[]} */
  #logprobs = [];
  /** Tokens of the text. */
  tokens = 0;
  /** Why it has ended. @type {'stop' | 'length' | null} */
  finishReason = null;

  /**
   * @param {AnswerOptions} options
   * @param {Pick<import('./folder.js').TextFolder, 'tokenizer' | 'stop'>} folder
   * @param {OnText} onText
   */
  constructor(options, { tokenizer, stop }, onText) {
    const { prompt = [], constraints = UNCONSTRAINED, minTokens = 0, ignoreEnd = false, stopTokens = [] } = options;
    this.#options = options;
    this.#stopTokens = new Set([...(ignoreEnd ? [] : stop), ...stopTokens]);
    this.#forbidden = new Forbidden(constraints, { prompt, stop: this.#stopTokens, minTokens });
    // Only this needs the tokens of the prompt, which can be long.
    this.#seen = new Set((options.changes.repetition ?? 1) === 1 ? [] : prompt);
    this.#random = randomNumbers(options.seed);
    this.#stream = new TextStream((ids) => tokenizer.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false }));
    this.#stops = new StopTexts(options.stop);
    this.#onText = onText;
  }

  /**
   * Chooses the next token.
   * @param {ArrayLike<number>} logits
   * @returns {number | null} null when the text has ended
   */
  choose(logits) {
    const { sampling, changes, logprobs, maxTokens } = this.#options;
    const changed = changedLogits(logits, changes, this.#counts, { seen: this.#seen, forbidden: this.#forbidden });
    const id = chooseToken(changed, sampling, this.#random);
    if (this.#stopTokens.has(id)) return this.#end('stop');
    this.tokens += 1;
    this.#seen.add(id);
    this.#forbidden.push(id);
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    if (logprobs !== null) this.#logprobs.push(logprobsOf(logits, id, logprobs));
    this.#pass(this.#stops.push(this.#stream.push(id)));
    if (this.#stops.isStopped) return this.#end('stop');
    return this.tokens === maxTokens ? this.#end('length') : id;
  }

  /** @param {string} piece */
  #pass(piece) {
    if (piece !== '') this.#onText(piece, this.#logprobs.splice(0));
  }

  /** @param {'stop' | 'length'} reason */
  #end(reason) {
    const rest = this.#stops.push(this.#stream.end()) + this.#stops.end();
    if (rest !== '' || this.#logprobs.length > 0) this.#onText(rest, this.#logprobs.splice(0));
    this.finishReason = this.#stops.isStopped ? 'stop' : reason;
    return null;
  }
}
