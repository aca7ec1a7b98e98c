// Generates several texts at the same time: they join and leave between tokens. A prompt is read in pieces, and others get
// their next token between the pieces.

import { ServeError, toServeError } from '../errors.js';
import { checkRoom } from './batcher.js';
import { counted, reasonOf } from './executor.js';
import { recent } from './recent.js';

/**
 * Tokens of a prompt that are read together. A prompt is always read in these pieces, so its bits do not depend on who else
 * is there. Smaller ones let others wait less and cost more: with 135 M parameters on 2 cores, 256 tokens take 346 ms at
 * once, 348 ms in pieces of 128, and 361 ms in pieces of 64.
 */
export const PIECE = 128;

/**
 * Counts and times of generated texts, in milliseconds; see metrics/.
 * @typedef {object} TextObserver
 * @property {(tokens: number) => void} read part of a prompt
 * @property {() => void} token one was generated
 * @property {(ms: number) => void} first the first one of a text was generated, so long after the request
 * @property {(ms: number) => void} between so long after the one before
 * @property {(reason: 'stop' | 'length' | 'abort' | 'error', ms: number) => void} end of a text, so long after the request; `abort` is
 *   the caller's
 */

/**
 * A text to generate.
 * @typedef {object} Sequence
 * @property {readonly number[]} prompt tokens, at least one
 * @property {((logits: ArrayLike<number>) => number | null) | null} choose the next token, null if the text has ended; null if only the
 *   prompt is read
 * @property {number} [most] tokens that prompt and text have at most; by default only those of the prompt
 * @property {'stop' | 'length'} [finishReason] why it has ended
 */

/**
 * @typedef {object} Entry
 * @property {Sequence} sequence
 * @property {number | undefined} deadline
 * @property {number} since when it was submitted
 * @property {number} begun when it left the queue, 0 before
 * @property {number} last when its last token came, 0 before
 * @property {number} read tokens of the prompt
 * @property {import('../models/decoder.js').Cache | null} cache while the prompt is read
 * @property {number} next token that is not in the cache yet
 * @property {number} tokens that its cache has
 * @property {boolean} isDone
 * @property {(error?: ServeError) => void} end
 */

/** @typedef {import('./rows.js').InTurns<Entry> | import('./rows.js').Together<Entry>} Rows */

const clock = () => performance.now();

export class Sequences {
  #limits;
  #decoder;
  #rows;
  #turns;
  #observer;
  #room;
  /** In the order of their arrival. @type {Entry[]} */
  #waiting = [];
  /** Those whose prompts are read; each in turn has a piece read. @type {Entry[]} */
  #reading = [];
  /** Those that are read and written. @type {Set<Entry>} */
  #begun = new Set();
  #isRunning = false;
  #isDraining = false;
  /** How long a text takes, of late; unknown until one has ended. @type {number | undefined} */
  #msPerText;
  /** @type {(() => void)[]} */
  #idle = [];

  /**
   * @param {object} options
   * @param {import('../registry/config.js').ModelConfig} options.limits
   * @param {import('../models/decoder.js').Decoder} options.decoder
   * @param {Rows} options.rows
   * @param {import('./turns.js').Turns} options.turns
   * @param {import('./executor.js').Observer} options.observer
   * @param {number} [options.room] tokens that the caches of all texts may have together; one text has room in any case
   */
  constructor({ limits, decoder, rows, turns, observer, room = Infinity }) {
    this.#limits = limits;
    this.#decoder = decoder;
    this.#rows = rows;
    this.#turns = turns;
    this.#observer = observer;
    this.#room = room;
  }

  /** Texts that wait. */
  get waiting() {
    return this.#waiting.length;
  }

  /** Texts that are read and written. */
  get running() {
    return this.#begun.size;
  }

  /** Tokens of all texts that are read and written. */
  tokens = 0;

  /**
   * Refuses texts that there is no room for, all of them or none: before anything is done for the first one.
   * @param {number} texts of one request
   * @param {import('./executor.js').CallOptions} [options]
   * @throws {ServeError}
   */
  admit(texts, options) {
    counted(this.#observer, () => this.#check(texts, clock(), options));
  }

  /**
   * @param {number} texts
   * @param {number} now
   * @param {import('./executor.js').CallOptions} [options]
   * @param {readonly Sequence[]} [known] what is known of the texts: others count as short
   */
  #check(texts, now, { signal, deadline } = {}, known = []) {
    if (this.#isDraining) throw new ServeError('unavailable', 'the model is being unloaded');
    if (signal?.aborted) throw new ServeError('canceled', 'the client is gone');
    const all = this.#sequences.concat(known);
    const fitting = Math.min(all.length, this.#placesFor(all));
    const places = fitting < all.length ? fitting : Math.min(this.#limits.maxSequences, all.length + texts - known.length);
    // Those that have a place already do not count as waiting.
    const ahead = this.running + this.#waiting.length + texts - places;
    checkRoom(this.#limits, { waiting: ahead - 1, wait: (ahead * (this.#msPerText ?? 0)) / places, deadline, now });
  }

  /**
   * Generates a text. Its tokens go to its `choose`.
   * @param {Sequence} sequence
   * @param {import('./executor.js').CallOptions} [options]
   * @returns {Promise<void>} settles when the text has ended
   * @throws {ServeError}
   */
  submit(sequence, { signal, deadline } = {}) {
    return new Promise((resolve, reject) => {
      const since = clock();
      counted(this.#observer, () => this.#check(1, since, { signal, deadline }, [sequence]));
      const cancel = () => this.#end(entry, new ServeError('canceled', 'the client is gone'));
      const end = (/** @type {ServeError | undefined} */ error) => {
        signal?.removeEventListener('abort', cancel);
        if (error === undefined) resolve();
        else reject(error);
      };
      /** @type {Entry} */
      const entry = { sequence, deadline, since, begun: 0, last: 0, read: 0, cache: null, next: 0, tokens: 0, isDone: false, end };
      signal?.addEventListener('abort', cancel);
      this.#waiting.push(entry);
      this.#start();
    });
  }

  #start() {
    if (this.#isRunning) return;
    this.#isRunning = true;
    // What arrives with it begins with it.
    setImmediate(() => void this.#loop());
  }

  /** Goes on while there are texts; it does not fail. */
  async #loop() {
    while (this.#waiting.length + this.running > 0) {
      this.#expire();
      this.#admit();
      await this.#read();
      await this.#step();
    }
    this.#isRunning = false;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** Ends texts for which nobody waits any more. */
  #expire() {
    const now = clock();
    for (const entry of [...this.#waiting, ...this.#reading]) this.#checkDeadline(entry, now);
  }

  /**
   * @param {Entry} entry
   * @param {number} now
   */
  #checkDeadline(entry, now) {
    if (entry.deadline === undefined || entry.deadline > now) return;
    const where = entry.begun === 0 ? ' in the queue' : '';
    this.#end(entry, new ServeError('deadline', `the deadline was over after ${Math.round(now - entry.since)} ms${where}`));
  }

  /** Texts that have begun, then those that wait, in their order. */
  get #sequences() {
    return [...this.#begun, ...this.#waiting].map(({ sequence }) => sequence);
  }

  /**
   * How many of the first texts there is room for until they end, also in their caches; for one in any case.
   * @param {readonly Sequence[]} sequences
   */
  #placesFor(sequences) {
    const lengths = sequences.slice(0, this.#limits.maxSequences).map(({ prompt, most = prompt.length }) => most);
    let places = 1;
    while (places < lengths.length && this.#rows.tokensOf(lengths.slice(0, places + 1)) <= this.#room) places += 1;
    return places;
  }

  #admit() {
    if (this.#waiting.length === 0) return;
    // In their order: shorter texts that came later must not take the place of a long one for ever.
    const places = this.#placesFor(this.#sequences);
    while (this.#waiting.length > 0 && this.running < places) {
      const entry = /** @type {Entry} */ (this.#waiting.shift());
      this.#begun.add(entry);
      entry.begun = clock();
      entry.cache = this.#decoder.empty;
      this.#reading.push(entry);
    }
  }

  /** @type {import('./rows.js').Take} */
  #take = async (compute) => {
    const { result, ms } = await this.#turns.take(compute);
    this.#observer.batch({ rows: 1, computeMs: ms });
    return result;
  };

  /** Reads prompts: a piece of one, or short ones together as long as a piece, which are then copied once into the batch. */
  async #read() {
    let tokens = 0;
    while (tokens < PIECE) {
      const [entry] = this.#reading;
      if (entry === undefined) return;
      const left = Math.min(PIECE, entry.sequence.prompt.length - entry.read);
      if (tokens > 0 && tokens + left > PIECE) return;
      await this.#readPiece(entry);
      tokens += left;
    }
  }

  /**
   * Reads the next piece of a prompt.
   * @param {Entry} entry
   */
  async #readPiece(entry) {
    const { prompt } = entry.sequence;
    const ids = prompt.slice(entry.read, entry.read + PIECE);
    const before = /** @type {import('../models/decoder.js').Cache} */ (entry.cache);
    // Whoever ends the text meanwhile leaves the cache to this computation.
    entry.cache = null;
    try {
      const { logits, cache } = await this.#take(() => this.#decoder.read(ids, before));
      this.#decoder.release(before);
      if (entry.isDone) return this.#decoder.release(cache);
      entry.read += ids.length;
      this.#observer.texts.read(ids.length);
      this.#grow(entry, ids.length);
      this.#reading.splice(this.#reading.indexOf(entry), 1);
      if (entry.read < prompt.length) this.#reading.push(Object.assign(entry, { cache }));
      else {
        this.#rows.add(entry, cache);
        this.#advance(entry, logits[0]);
      }
    } catch (error) {
      this.#end(entry, toServeError(error));
    }
  }

  /** Computes the next token of each text. */
  async #step() {
    for await (const outcome of this.#rows.step(({ next }) => next, this.#take)) {
      const { text: entry } = outcome;
      if ('error' in outcome) this.#end(entry, toServeError(outcome.error));
      else this.#advance(entry, outcome.logits);
    }
  }

  /**
   * Gives a text its next token.
   * @param {Entry} entry
   * @param {ArrayLike<number>} logits
   */
  #advance(entry, logits) {
    const { choose } = entry.sequence;
    if (choose === null) return this.#end(entry);
    const now = clock();
    this.#observer.texts.token();
    if (entry.last === 0) this.#observer.texts.first(now - entry.since);
    else this.#observer.texts.between(now - entry.last);
    entry.last = now;
    try {
      const next = choose(logits);
      if (next === null) this.#end(entry);
      else {
        entry.next = next;
        this.#grow(entry, 1);
      }
    } catch (error) {
      this.#end(entry, toServeError(error));
    }
    if (!entry.isDone) this.#checkDeadline(entry, now);
  }

  /**
   * @param {Entry} entry
   * @param {number} tokens
   */
  #grow(entry, tokens) {
    entry.tokens += tokens;
    this.tokens += tokens;
  }

  /**
   * Ends a text, wherever it is: its place is free at once.
   * @param {Entry} entry
   * @param {ServeError} [error]
   */
  #end(entry, error) {
    if (entry.isDone) return;
    entry.isDone = true;
    for (const list of [this.#waiting, this.#reading]) if (list.includes(entry)) list.splice(list.indexOf(entry), 1);
    this.#begun.delete(entry);
    this.#rows.remove(entry);
    this.#decoder.release(entry.cache);
    entry.cache = null;
    const now = clock();
    const begun = entry.begun === 0 ? now : entry.begun;
    if (error === undefined) this.#msPerText = recent(this.#msPerText, now - begun);
    this.tokens -= entry.tokens;
    const totalMs = now - entry.since;
    const times = { queueMs: begun - entry.since, computeMs: now - begun, totalMs };
    this.#observer.request({ ...times, rows: 1, reason: error === undefined ? null : reasonOf(error) });
    if (error === undefined) this.#observer.texts.end(entry.sequence.finishReason ?? 'stop', totalMs);
    else this.#observer.texts.end(error.kind === 'canceled' ? 'abort' : 'error', totalMs);
    entry.end(error);
  }

  /**
   * Takes no more texts, and ends those that wait and run.
   * @returns {Promise<void>}
   */
  async drain() {
    this.#isDraining = true;
    if (this.#isRunning) await new Promise((resolve) => this.#idle.push(() => resolve(undefined)));
  }
}
