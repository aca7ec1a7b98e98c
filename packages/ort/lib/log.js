'use strict';

/** Messages on standard error, as onnxruntime writes them. */

/** The severities by their numbers. */
const SEVERITIES = /** @type {const} */ (['verbose', 'info', 'warning', 'error', 'fatal']);

/** @typedef {typeof SEVERITIES[number]} Severity */

/** The escape sequences of a terminal that begin the color of a severity. */
const COLORS = { verbose: '', info: '', warning: '\x1b[0;93m', error: '\x1b[1;31m', fatal: '\x1b[1;31m' };
const NO_COLOR = '\x1b[m';

/** Writes what is severe enough. */
class Log {
  /** @type {number} place in `SEVERITIES` of the least severity that is written */
  #least;
  #id;

  /**
   * @param {number} least a place in `SEVERITIES`
   * @param {string} id named in every message
   */
  constructor(least, id) {
    this.#least = least;
    this.#id = id;
  }

  /** @param {string} message about what does not matter to most */
  info(message) {
    this.#write('info', message);
  }

  /** @param {string} message about what is not done as asked */
  warn(message) {
    this.#write('warning', message);
  }

  /** @param {string} message about what failed and makes no call fail */
  error(message) {
    this.#write('error', message);
  }

  /**
   * @param {Severity} severity
   * @param {string} message
   */
  #write(severity, message) {
    if (SEVERITIES.indexOf(severity) < this.#least) {
      return;
    }
    const time = new Date().toISOString().replace('T', ' ').replace('Z', '');
    const line = `${time} [${severity[0].toUpperCase()}:onnxruntime:${this.#id}, webnn-node] ${message}`;
    const color = process.stderr.isTTY ? COLORS[severity] : '';
    process.stderr.write(`${color}${line}${color === '' ? '' : NO_COLOR}\n`);
  }
}

module.exports = { Log, SEVERITIES };
