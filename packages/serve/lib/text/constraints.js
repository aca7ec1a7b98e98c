// Tokens that may not come next, as transformers has it.

/**
 * @typedef {object} Constraints
 * @property {number} ngram no sequence of so many tokens comes twice in prompt and answer; 0 allows all
 * @property {readonly number[]} suppressed tokens that never come
 * @property {readonly number[]} suppressedFirst tokens that do not come first
 * @property {readonly (readonly number[])[]} badWords sequences of tokens that never come; one that is a single token which ends the
 *   text has no effect
 */

/** What one text may not go on with. */
export class Forbidden {
  #constraints;
  #stop;
  #minTokens;
  #length;
  /** The last tokens of prompt and answer, as many as matter. @type {number[]} */
  #last = [];
  #kept;
  /** Which tokens have followed others, by those others. @type {Map<string, Set<number>>} */
  #followers = new Map();
  /** Tokens of the answer. */
  #count = 0;

  /**
   * @param {Constraints} constraints
   * @param {{ prompt: readonly number[], stop: ReadonlySet<number>, minTokens: number }} text its prompt, the tokens that end it, and
   *   how many tokens come before one of these
   */
  constructor(constraints, { prompt, stop, minTokens }) {
    this.#constraints = { ...constraints, badWords: constraints.badWords.filter((word) => word.length > 1 || !stop.has(word[0])) };
    this.#stop = stop;
    this.#minTokens = minTokens;
    this.#length = prompt.length;
    this.#kept = Math.max(constraints.ngram - 1, ...constraints.badWords.map((word) => word.length - 1), 0);
    if (constraints.ngram > 0) for (const id of prompt) this.#remember(id);
    else this.#last = this.#kept === 0 ? [] : prompt.slice(-this.#kept);
  }

  /** The tokens before the next one that a sequence of `ngram` tokens begins with; null if there are too few. */
  #beginning() {
    const { ngram } = this.#constraints;
    if (ngram === 0 || this.#last.length < ngram - 1) return null;
    return ngram === 1 ? '' : this.#last.slice(1 - ngram).join();
  }

  /** @param {number} id */
  #remember(id) {
    const beginning = this.#beginning();
    if (beginning !== null) {
      const followers = this.#followers.get(beginning) ?? new Set();
      this.#followers.set(beginning, followers.add(id));
    }
    if (this.#kept === 0) return;
    this.#last.push(id);
    if (this.#last.length > this.#kept) this.#last.shift();
  }

  /** @param {number} id the next token of the answer */
  push(id) {
    this.#count += 1;
    this.#length += 1;
    this.#remember(id);
  }

  /**
   * The tokens that may not come next.
   * @returns {Generator<number, void>}
   */
  *[Symbol.iterator]() {
    const { suppressed, suppressedFirst, badWords } = this.#constraints;
    yield* suppressed;
    if (this.#count === 0) yield* suppressedFirst;
    if (this.#count < this.#minTokens) yield* this.#stop;
    const beginning = this.#beginning();
    if (beginning !== null) yield* this.#followers.get(beginning) ?? [];
    for (const word of badWords) {
      const before = word.length - 1;
      if (before <= this.#last.length && word.slice(0, -1).every((id, i) => id === this.#last[this.#last.length - before + i])) yield word[before];
    }
  }
}
