/**
 * Conversations on one model, as a program with many users has them: they go on at the same time, go back to what was said
 * before, branch, and are left in the middle. The same prompt must be answered by the same tokens each time.
 */

import { likeliest } from '../../bench/generate/direct.mjs';
import { promptOf } from '../../bench/generate/inputs.mjs';

/** @typedef {import('../robustness/types.mjs').Random} Random */
/** @typedef {import('../../bench/generate/types.d.mts').Text} Text */
/** @typedef {{ text: Text, id: number }} Place in a conversation: what was read, and the likeliest token behind it */

/** Prompts that are different, each longer than the one before by so many tokens. */
const [PROMPTS, LONGER_BY] = [16, 3];

/** How often a conversation branches, how many tokens others say then, and how long the branch is at most. */
const BRANCHES = { chance: 0.05, read: 8, answer: 8 };

/** How many conversations are left in the middle of a token. */
const LEFT = 0.2;

export class Conversations {
  #begin;
  #vocabulary;
  /**
   * What the model answers, by the number of the prompt.
   *
   * @type {number[][]}
   */
  #answers = Array.from({ length: PROMPTS }, () => []);

  /** What was done so far: tokens that were read, among others. */
  done = { conversations: 0, tokens: 0, branches: 0, left: 0, compared: 0 };

  /**
   * @param {() => Text} begin
   * @param {number} vocabulary
   */
  constructor(begin, vocabulary) {
    this.#begin = begin;
    this.#vocabulary = vocabulary;
  }

  /**
   * @param {Text} text
   * @param {number[]} tokens
   * @returns {Promise<Place>}
   */
  async #read(text, tokens) {
    this.done.tokens += tokens.length;
    const { logits, text: longer } = await text(tokens);
    return { text: longer, id: likeliest(logits, this.#vocabulary) };
  }

  /**
   * @param {Place} place
   * @param {number} tokens to go on by
   */
  async #goOn({ text, id }, tokens) {
    let place = { text, id };
    for (let i = 0; i < tokens; i++) place = await this.#read(place.text, [place.id]);
    return place;
  }

  /**
   * Compares a token with the one that came when it was said first.
   *
   * @param {number} prompt
   * @param {number} at its place in the answer
   * @param {number} id
   */
  #compare(prompt, at, id) {
    const answer = this.#answers[prompt];
    answer[at] ??= id;
    if (answer[at] !== id) throw new Error(`token ${at} behind prompt ${prompt} is ${id}, and was ${answer[at]} before`);
    this.done.compared += 1;
  }

  /**
   * Goes on with other tokens, twice, while the conversation goes on from a place before.
   *
   * @param {Random} random
   * @param {number} prompt
   * @param {Place} place
   * @param {Place & { at: number }} earlier
   */
  async #branch(random, prompt, place, earlier) {
    const others = Array.from({ length: 1 + random.below(BRANCHES.read) }, () => random.below(this.#vocabulary));
    const [one, two, back] = await Promise.all([this.#read(place.text, others), this.#read(place.text, others), this.#read(earlier.text, [earlier.id])]);
    if (one.id !== two.id) throw new Error(`two branches behind prompt ${prompt} say ${one.id} and ${two.id}`);
    this.#compare(prompt, earlier.at + 1, back.id);
    const tokens = random.below(BRANCHES.answer);
    const ends = await Promise.all([this.#goOn(one, tokens), this.#goOn(two, tokens)]);
    if (ends[0].id !== ends[1].id) throw new Error(`two branches behind prompt ${prompt} end with ${ends[0].id} and ${ends[1].id}`);
    this.done.branches += 1;
    this.done.compared += 2;
  }

  /**
   * Reads a prompt and answers it.
   *
   * @param {Random} random
   * @param {number} tokens of the answer, at least one
   */
  async converse(random, tokens) {
    const prompt = random.below(PROMPTS);
    const isLeft = random.chance(LEFT);
    const length = isLeft ? random.below(tokens) : tokens;
    let place = await this.#read(this.#begin(), promptOf(1 + LONGER_BY * prompt, this.#vocabulary));
    let earlier = { ...place, at: 0 };
    for (let at = 0; at < length; at++) {
      this.#compare(prompt, at, place.id);
      if (random.chance(BRANCHES.chance)) {
        await this.#branch(random, prompt, place, earlier);
        earlier = { ...place, at };
      }
      place = await this.#read(place.text, [place.id]);
    }
    this.done.conversations += 1;
    if (!isLeft) return;
    // Nobody waits for the next token. An error would still end the process.
    void this.#read(place.text, [place.id]);
    this.done.left += 1;
  }

  /**
   * One conversation that goes on and on.
   *
   * @param {number} tokens
   * @param {(tokens: number) => Promise<void>} watch is told after each, how many there are
   */
  async talk(tokens, watch) {
    let place = await this.#read(this.#begin(), promptOf(1, this.#vocabulary));
    for (let length = 1; length < tokens; length++) {
      place = await this.#read(place.text, [place.id]);
      await watch(length + 1);
    }
    this.done.conversations += 1;
  }
}
