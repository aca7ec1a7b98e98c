// Output of commands: text and tables for people, a JSON document for programs, and notes on standard error.
import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { printable } from './format.mjs';

/** @typedef {Parameters<typeof styleText>[0]} Format */

/** Between the columns of a table. */
const GAP = '  ';

/**
 * JSON replacer. JSON has no 64-bit integers, infinities or NaN: these become strings.
 * @param {string} _
 * @param {unknown} value
 */
function jsonValue(_, value) {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}

/**
 * Whether to use colors on a stream: it must be a terminal, and not a dumb one, and NO_COLOR must not be set
 * (https://no-color.org).
 * @param {NodeJS.WriteStream} stream
 * @param {NodeJS.ProcessEnv} env
 */
function wantsColor(stream, env) {
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
}

/** The two streams of a command. */
export class Output {
  #color;
  #noteColor;

  /**
   * @param {{ json?: boolean, color?: boolean }} options `json`: only `document()` writes to standard output; `color`:
   *   false turns colors off
   */
  constructor({ json = false, color = true } = {}) {
    /** Whether the reader is a program. */
    this.json = json;
    this.#color = color && wantsColor(process.stdout, process.env);
    this.#noteColor = color && wantsColor(process.stderr, process.env);
  }

  /** Columns of the terminal; 100 without a terminal. */
  get width() {
    return process.stdout.columns ?? 100;
  }

  /**
   * Returns text in a style of `util.styleText`, unchanged without colors.
   * @param {Format} format
   * @param {string} text
   */
  style(format, text) {
    return this.#color ? styleText(format, text) : text;
  }

  /**
   * Prints lines for people.
   * @param {...string} lines
   */
  print(...lines) {
    if (!this.json) process.stdout.write(`${lines.join('\n')}\n`);
  }

  /**
   * Prints a heading with an empty line above it.
   * @param {string} text
   */
  heading(text) {
    this.print('', this.style('bold', text));
  }

  /**
   * Prints the document for programs.
   * @param {unknown} value
   */
  document(value) {
    if (this.json) process.stdout.write(`${JSON.stringify(value, jsonValue, 2)}\n`);
  }

  /**
   * Prints an error on standard error, for people and programs alike.
   * @param {string} text
   */
  error(text) {
    process.stderr.write(`webnn-node: ${text}\n`);
  }

  /**
   * Prints a note on standard error, for people and programs alike.
   * @param {string} text
   */
  note(text) {
    const line = `note: ${text}`;
    process.stderr.write(`${this.#noteColor ? styleText('yellow', line) : line}\n`);
  }

  /**
   * Prints rows under a header. Text from files is made printable.
   * @param {string[]} head names of columns; a leading ">" aligns a column to the right
   * @param {(string | number | Styled)[][]} rows
   */
  table(head, rows) {
    const header = head.map((name) => new Styled('dim', name.replace(/^>/, '')));
    const lines = [header, ...rows].map((row) => row.map((cell) => (cell instanceof Styled ? this.style(cell.format, printable(cell.text)) : printable(cell))));
    const widths = head.map((_, column) => Math.max(...lines.map((line) => stringWidth(line[column]))));
    const aligned = (/** @type {string} */ cell, /** @type {number} */ column) => {
      const space = ' '.repeat(widths[column] - stringWidth(cell));
      return head[column].startsWith('>') ? space + cell : cell + space;
    };
    this.print(...lines.map((line) => line.map(aligned).join(GAP).trimEnd()));
  }

  /**
   * Prints names and values, one pair a line.
   * @param {[string, string | number][]} pairs
   */
  pairs(pairs) {
    const names = pairs.map(([name]) => printable(name));
    const width = Math.max(...names.map((name) => stringWidth(name)));
    pairs.forEach(([, value], i) => {
      this.print(this.style('dim', names[i]) + ' '.repeat(width - stringWidth(names[i])) + GAP + printable(value));
    });
  }
}

/** A cell of a table in a style. */
export class Styled {
  /**
   * @param {Format} format
   * @param {string} text
   */
  constructor(format, text) {
    this.format = format;
    this.text = text;
  }
}
