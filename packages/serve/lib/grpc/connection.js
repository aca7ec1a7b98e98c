// A connection: ends when nothing happens on it, when its caller only begins calls and leaves, and when the server ends.

import { constants } from 'node:http2';

/** Calls that a caller may leave before they are answered, beyond those which were answered since. */
const MAX_RESETS = 500;

/** Calls without a key at the same time: probes need one, and they may watch. */
const MAX_OPEN_CALLS = 10;

/** How long an end waits for the caller to notice it. */
export const GRACE_MS = 300;

export class Connection {
  #session;
  #idleTimeoutMs;
  #calls = 0;
  #openCalls = 0;
  #resets = 0;
  #isClosing = false;
  /** @type {NodeJS.Timeout} */
  #idle;

  /**
   * @param {import('node:http2').ServerHttp2Session} session
   * @param {{ idleTimeoutMs: number }} limits
   */
  constructor(session, { idleTimeoutMs }) {
    this.#session = session;
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#idle = this.#startIdle();
    session.setTimeout(idleTimeoutMs);
    session.on('timeout', () => this.#checkAlive());
    session.once('close', () => clearTimeout(this.#idle));
  }

  #startIdle() {
    return setTimeout(() => this.close(), this.#idleTimeoutMs).unref();
  }

  /** Calls can be computed for long, and health be watched: then the caller must at least answer. */
  #checkAlive() {
    const session = this.#session;
    if (session.destroyed) return;
    const timer = setTimeout(() => session.destroy(), this.#idleTimeoutMs).unref();
    session.ping(() => {
      clearTimeout(timer);
      session.setTimeout(this.#idleTimeoutMs);
    });
  }

  /**
   * Counts a call until it ends.
   * @param {import('node:http2').ServerHttp2Stream} stream
   * @param {boolean} isOpen whether it needs no key
   * @returns {boolean} whether there is room for it
   */
  begin(stream, isOpen) {
    clearTimeout(this.#idle);
    this.#calls += 1;
    if (isOpen) this.#openCalls += 1;
    stream.once('close', () => {
      this.#calls -= 1;
      if (isOpen) this.#openCalls -= 1;
      this.#resets = stream.rstCode !== constants.NGHTTP2_NO_ERROR ? this.#resets + 1 : Math.max(0, this.#resets - 1);
      if (this.#resets > MAX_RESETS && !this.#session.destroyed) {
        this.#session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM);
        this.#session.destroy();
      } else if (this.#calls === 0) this.#isQuiet();
    });
    return this.#openCalls <= MAX_OPEN_CALLS;
  }

  /** Whether it could end without loss. */
  get isUnused() {
    return this.#calls === 0 && !this.#isClosing;
  }

  #isQuiet() {
    if (this.#isClosing) setTimeout(() => this.#session.destroy(), GRACE_MS).unref();
    else this.#idle = this.#startIdle();
  }

  /** Ends when the calls that have begun are answered. Callers learn which have: clients try others elsewhere. */
  close() {
    if (this.#isClosing || this.#session.destroyed) return;
    this.#isClosing = true;
    this.#session.close();
    if (this.#calls === 0) this.#isQuiet();
  }

  destroy() {
    this.#session.destroy();
  }
}
