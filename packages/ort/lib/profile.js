'use strict';

/** Writes traces for chrome://tracing and Perfetto, in the format of onnxruntime. */

const { writeFileSync } = require('node:fs');
const { threadId } = require('node:worker_threads');

const NANOSECONDS_PER_MILLISECOND = 1e6;

/** Maximum number of events; later ones are dropped, as in onnxruntime. */
const MAX_EVENTS = 1_000_000;

/**
 * Formats local time for a file name: 2026-01-31_13-59-59_999.
 *
 * @param {Date} time
 */
function fileTime(time) {
  const text = (/** @type {number} */ number, digits = 2) => String(number).padStart(digits, '0');
  const day = [time.getFullYear(), time.getMonth() + 1, time.getDate()].map((part) => text(part)).join('-');
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => text(part)).join('-');
  return `${day}_${clock}_${text(time.getMilliseconds(), 3)}`;
}

/** The events of one session, written to a file when it ends. */
class Profile {
  #begin;
  /** @type {object[]} */
  #events = [];
  #path;
  #log;
  #isEnded = false;
  #atExit = () => this.end();

  /**
   * @param {string} prefix of the file's path
   * @param {number} begin of the session, from `performance.now()`
   * @param {InstanceType<typeof import('./log.js').Log>} log reports a file that cannot be written
   */
  constructor(prefix, begin, log) {
    this.#begin = begin;
    this.#path = `${prefix}_${fileTime(new Date())}.json`;
    this.#log = log;
    process.once('exit', this.#atExit);
  }

  /** Whether events are still recorded. */
  get isActive() {
    return !this.#isEnded;
  }

  /**
   * Records an event of the session that ends now.
   *
   * @param {string} name
   * @param {number} begin from `performance.now()`
   */
  record(name, begin) {
    this.#add('Session', name, begin, performance.now() - begin, {});
  }

  /**
   * Records the steps of a run.
   *
   * @param {import('webnn-node/onnx').OnnxProfile['graphs']} graphs
   * @param {number} begin of the run, from `performance.now()`
   */
  recordSteps(graphs, begin) {
    const milliseconds = (/** @type {number} */ nanoseconds) => nanoseconds / NANOSECONDS_PER_MILLISECOND;
    for (const { start, duration, steps } of graphs) {
      this.#add('Session', 'SequentialExecutor::Execute', begin + milliseconds(start), milliseconds(duration), {});
      for (const step of steps) {
        const details = { op_name: step.operator, kernel: step.kernel, node_index: String(step.index), output_size: String(step.bytesWritten) };
        this.#add('Node', `${step.label || step.operator}_kernel_time`, begin + milliseconds(step.start), milliseconds(step.duration), details);
      }
    }
  }

  /**
   * @param {'Session' | 'Node'} category
   * @param {string} name
   * @param {number} begin in milliseconds, from `performance.now()`
   * @param {number} duration in milliseconds
   * @param {Record<string, string>} details
   */
  #add(category, name, begin, duration, details) {
    if (this.#isEnded || this.#events.length >= MAX_EVENTS) {
      return;
    }
    const microseconds = (/** @type {number} */ milliseconds) => Math.round(milliseconds * 1000);
    const time = { dur: microseconds(duration), ts: microseconds(begin - this.#begin) };
    this.#events.push({ cat: category, pid: process.pid, tid: threadId, ...time, ph: 'X', name, args: details });
  }

  /** Writes the file, once. */
  end() {
    if (this.#isEnded) {
      return;
    }
    this.#isEnded = true;
    process.off('exit', this.#atExit);
    try {
      writeFileSync(this.#path, `[\n${this.#events.map((event) => JSON.stringify(event)).join(',\n')}\n]\n`);
    } catch (error) {
      this.#log.error(`the profile cannot be written: ${/** @type {Error} */ (error).message}`);
    }
    this.#events = [];
  }
}

module.exports = { Profile };
