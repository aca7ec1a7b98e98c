// Messages from a terminal, or from a pipe that stands for it, and the answers to them.
import { createInterface } from 'node:readline';
import { styleText } from 'node:util';
import { PromptError } from './generator.mjs';

/** What a model writes must not command the terminal: of the control characters, only tabs and ends of lines are left. */
const harmless = (/** @type {string} */ text) => text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '\ufffd');

/**
 * A text in a style where somebody sees it, and plain in files and pipes.
 * @param {import('node:tty').WriteStream} stream
 * @param {'bold' | 'gray'} style
 * @param {string} text
 */
const styled = (stream, style, text) => (stream.isTTY && !process.env.NO_COLOR ? styleText(style, text) : text);

/**
 * One line about an answer.
 * @param {import('./chat.mjs').AnswerStatistics} statistics
 */
function describe({ promptTokens, tokens, firstMs, restMs }) {
  const read = `read ${promptTokens} ${promptTokens === 1 ? 'token' : 'tokens'}`;
  if (tokens === 0) return `${read}, wrote none`;
  const rate = tokens === 1 ? '' : ` at ${((1000 * (tokens - 1)) / restMs).toFixed(1)} tokens/s`;
  return `${read}, wrote the first one after ${firstMs.toFixed(1)} ms, ${tokens} in all${rate}`;
}

/**
 * Where messages come from and answers go to.
 * @typedef {object} Streams
 * @property {NodeJS.ReadableStream} input
 * @property {import('node:tty').WriteStream} output of the answers
 * @property {import('node:tty').WriteStream} remarks what is said beside the answers
 * @property {boolean} terminal whether somebody sits at both ends
 */

/** Reads messages line by line and streams the answers. */
export class Conversation {
  #chat;
  #streams;
  #isContinuing;
  /** Of the answer that is being written. @type {AbortController | null} */
  #answer = null;

  /**
   * @param {import('./chat.mjs').Chat} chat
   * @param {Streams & { isContinuing: boolean }} options `isContinuing`: answers go on with the message
   */
  constructor(chat, { isContinuing, ...streams }) {
    this.#chat = chat;
    this.#isContinuing = isContinuing;
    this.#streams = streams;
  }

  /** @param {string} text */
  #remark(text) {
    const { remarks } = this.#streams;
    remarks.write(`${styled(remarks, 'gray', text)}\n`);
  }

  /**
   * Writes the answer to a message as it comes.
   * @param {string} message
   * @param {AbortSignal} signal
   */
  async #say(message, signal) {
    const { output } = this.#streams;
    let started = false;
    for await (const piece of this.#chat.answer(message, signal)) {
      if (!started && this.#isContinuing) output.write(styled(output, 'bold', message));
      started = true;
      output.write(harmless(piece));
    }
    output.write('\n');
    this.#remark(`${describe(this.#chat.statistics)}${signal.aborted ? ', stopped' : ''}`);
    if (this.#chat.isFull) this.#remark('the context is full: /new begins a new conversation');
  }

  /**
   * Answers, or says why there is no answer. Where nobody sits who can say it better, that ends the program.
   * @param {string} message
   */
  async #reply(message) {
    this.#answer = new AbortController();
    try {
      await this.#say(message, this.#answer.signal);
    } catch (error) {
      if (!(error instanceof PromptError) || !this.#streams.terminal) throw error;
      this.#remark(error.message);
    } finally {
      this.#answer = null;
    }
  }

  /**
   * Obeys or answers a line.
   * @param {string} line
   * @returns {Promise<boolean>} whether the conversation goes on
   */
  async #take(line) {
    const text = line.trim();
    if (text === '/exit') return false;
    if (text === '/new') this.#chat.reset();
    else if (text !== '') await this.#reply(line);
    return true;
  }

  /**
   * Takes lines until `/exit` or the end of the input.
   * @throws {PromptError} for a text that the model cannot read
   */
  async run() {
    const { input, output, terminal } = this.#streams;
    const lines = createInterface({ input, output, terminal, prompt: '> ' });
    let isOpen = true;
    lines.once('close', () => {
      isOpen = false;
    });
    // A prompt would open the input again.
    const ask = () => terminal && isOpen && lines.prompt();
    const interrupt = () => {
      this.#answer?.abort();
      if (this.#answer !== null) return;
      this.#remark('\nCtrl+C stops an answer; /exit ends the program');
      ask();
    };
    // A terminal in which lines are edited makes Ctrl+C a key; elsewhere it is a signal.
    lines.on('SIGINT', interrupt);
    process.on('SIGINT', interrupt);
    if (terminal) this.#remark('Ctrl+C stops an answer, /new forgets the conversation, /exit ends the program.');
    ask();
    try {
      for await (const line of lines) {
        if (!(await this.#take(line))) break;
        ask();
      }
    } finally {
      process.off('SIGINT', interrupt);
      lines.close();
    }
  }
}
