'use strict';

/** Logs to standard error, in the format of onnxruntime. */

/** The severities by their numbers. */
const SEVERITIES = /** @type {const} */ (['verbose', 'info', 'warning', 'error', 'fatal']);

/** @typedef {typeof SEVERITIES[number]} Severity */

/** Escape sequences that start a color on a terminal. */
const COLORS = { verbose: '', info: '', warning: '\x1b[0;93m', error: '\x1b[1;31m', fatal: '\x1b[1;31m' };
const NO_COLOR = '\x1b[m';

/** A logger with a severity threshold. */
class Log {
  /** @type {number} index in `SEVERITIES` of the threshold */
  #least;
  #id;

  /**
   * @param {number} least index in `SEVERITIES` of the threshold
   * @param {string} id part of every message
   */
  constructor(least, id) {
    this.#least = least;
    this.#id = id;
  }

  /** @param {string} message */
  info(message) {
    this.#write('info', message);
  }

  /** @param {string} message */
  warn(message) {
    this.#write('warning', message);
  }

  /** @param {string} message about a failure that rejects no call */
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
