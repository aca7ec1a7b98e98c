// The times of tokens while a text is generated.

/** Records tokens as they come. The clock starts at construction. */
export class Timeline {
  /** @type {number[]} */
  ids = [];
  /** @type {number[]} */
  #at = [performance.now()];
  #request;

  /** @param {Pick<import('./types.d.mts').GenerateRequest, 'tokens' | 'seconds'>} request */
  constructor(request) {
    this.#request = request;
  }

  /** @param {number} id of a new token */
  add(id) {
    this.ids.push(id);
    this.#at.push(performance.now());
  }

  /** Whether no further token is wanted. */
  get isDone() {
    const { tokens, seconds } = this.#request;
    const [, first] = this.#at;
    return this.ids.length > tokens || /** @type {number} */ (this.#at.at(-1)) - first > 1000 * seconds;
  }

  /** Returns the generated tokens and their times. */
  result() {
    const [firstMs, ...tokenMs] = this.#at.slice(1).map((time, i) => time - this.#at[i]);
    return { ids: this.ids, firstMs, tokenMs };
  }
}

/**
 * Generates text with a function that runs a model on new tokens and returns the next one.
 *
 * @param {import('./types.d.mts').GenerateRequest} request
 * @param {(tokens: number[]) => Promise<number>} next
 */
export async function generateBy({ prompt, ...request }, next) {
  const timeline = new Timeline(request);
  for (let tokens = prompt; !timeline.isDone; tokens = timeline.ids.slice(-1)) {
    timeline.add(await next(tokens));
  }
  return timeline.result();
}
