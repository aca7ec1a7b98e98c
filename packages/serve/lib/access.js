// Who may call. A page in a browser must not reach a server on its user's machine, also not under a name that its owner points
// there; and where keys or a function of the user decide, callers have to pass.

import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { ServeError } from './errors.js';

/** Names and addresses that only this machine has. */
const LOCAL = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|::1)$/;

/** Whether only this machine reaches an address. */
export const isLocal = (/** @type {string} */ host) => LOCAL.test(host);

/** Hosts and origins that are remembered as allowed: reading one takes as long as a small computation. */
const MAX_REMEMBERED = 64;

const digest = (/** @type {string} */ text) => createHash('sha256').update(text).digest();

/**
 * A call of any protocol, before its body or message is read.
 * @typedef {object} IncomingCall
 * @property {'http' | 'grpc'} protocol
 * @property {string} method of HTTP; POST for gRPC
 * @property {string} url path with query; for gRPC the path of the method
 * @property {import('node:http').IncomingHttpHeaders} headers names in lower case; for gRPC the metadata
 * @property {string} ip address of the caller
 */

/**
 * Decides about a call: false, or an error, refuses it; a text is the caller's name in the log.
 * @typedef {(call: IncomingCall) => boolean | string | undefined | void | Promise<boolean | string | undefined | void>} Authenticate
 */

/**
 * @typedef {object} AccessOptions
 * @property {string} host the address that the server listens at
 * @property {string[]} [allowedHosts] names that calls may have as their host, `.example.com` for all below it
 * @property {string[] | '*'} [corsOrigins] origins of other pages that may call
 * @property {boolean} [trustProxy] whether a proxy sets `X-Forwarded-Host`
 * @property {string} [apiKey]
 * @property {string[]} [apiKeys]
 * @property {Authenticate} [authenticate]
 * @property {any} log
 */

/** The name in a Host header, without its port. @param {string} host */
function hostnameOf(host) {
  const url = `http://${host}`;
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, '') : '';
}

/**
 * Whether an origin is that of the server under a name: the port may be left out where it is the usual one.
 * @param {string} origin
 * @param {string} host
 */
function isSame(origin, host) {
  if (!URL.canParse(origin)) return false;
  const page = new URL(origin);
  const url = `${page.protocol}//${host}`;
  return URL.canParse(url) && page.host !== '' && new URL(url).host === page.host;
}

const unauthorized = () => new ServeError('unauthorized', 'the API key is missing or wrong', { code: 'invalid_api_key' });

/** Checks who calls, and from where. */
export class Access {
  #host;
  #allowedHosts;
  #corsOrigins;
  #trustProxy;
  #keys;
  #authenticate;
  #log;
  /** Combinations of headers that were allowed. @type {Set<string>} */
  #remembered = new Set();

  /**
   * @param {AccessOptions} options
   */
  constructor({ host, allowedHosts, corsOrigins = [], trustProxy = false, apiKey, apiKeys = [], authenticate, log }) {
    this.#host = host;
    this.#allowedHosts = allowedHosts?.map((name) => name.toLowerCase());
    this.#corsOrigins = corsOrigins;
    this.#trustProxy = trustProxy;
    this.#keys = [...(apiKey === undefined ? [] : [apiKey]), ...apiKeys].map((key) => digest(`Bearer ${key}`));
    this.#authenticate = authenticate;
    this.#log = log;
  }

  /** Whether nobody is asked for a key. */
  get isOpen() {
    return this.#keys.length === 0 && this.#authenticate === undefined;
  }

  /**
   * Checks under which name the server is called, and by which page.
   * @param {import('node:http').IncomingHttpHeaders} headers
   * @param {string | undefined} localAddress of the connection: a page cannot point a name of its own at a bare address
   * @throws {ServeError} `notAllowed`
   */
  checkOrigin({ host = '', origin, 'x-forwarded-host': forwarded }, localAddress) {
    // No header has a line feed.
    const combination = [host, origin, this.#trustProxy ? forwarded : '', localAddress].join('\n');
    if (this.#remembered.has(combination)) return;
    if (!this.#allowsHost(hostnameOf(host), localAddress)) {
      throw new ServeError('notAllowed', `Host ${JSON.stringify(host)} is not allowed; add it with --allowed-hosts`);
    }
    if (origin !== undefined && !this.#allowsOrigin(origin, host, forwarded)) {
      throw new ServeError('notAllowed', `Origin ${JSON.stringify(origin)} is not allowed; add it with --cors-origins`);
    }
    if (this.#remembered.size === MAX_REMEMBERED) this.#remembered.clear();
    this.#remembered.add(combination);
  }

  /**
   * @param {string} name
   * @param {string | undefined} localAddress
   */
  #allowsHost(name, localAddress) {
    if (this.#allowedHosts === undefined && !isLocal(this.#host)) return true;
    if (isLocal(name) || name === this.#host || (isIP(name) !== 0 && name === localAddress?.replace(/^::ffff:/, ''))) return true;
    return this.#allowedHosts?.some((allowed) => (allowed.startsWith('.') ? name.endsWith(allowed) || name === allowed.slice(1) : name === allowed)) === true;
  }

  /**
   * @param {string} origin
   * @param {string} host
   * @param {string | string[] | undefined} forwarded
   */
  #allowsOrigin(origin, host, forwarded) {
    if (this.#corsOrigins === '*' || this.#corsOrigins.includes(origin) || isSame(origin, host)) return true;
    // Of several proxies, the first one is that which the page knows.
    return this.#trustProxy && forwarded !== undefined && isSame(origin, String(forwarded).split(',')[0].trim());
  }

  /**
   * @param {string | undefined} authorization
   * @throws {ServeError} `unauthorized` without one of the keys
   */
  checkKey(authorization = '') {
    if (this.#keys.length === 0) return;
    // The name of a scheme has no case.
    const given = digest(authorization.replace(/^bearer +/i, 'Bearer '));
    // Digests have one length, and comparing all of them takes one time.
    const fitting = this.#keys.filter((key) => timingSafeEqual(key, given));
    if (fitting.length === 0) throw unauthorized();
  }

  /**
   * Lets a call in: with one of the keys if there are any, and if the function of the user does not refuse it.
   * @param {IncomingCall} call
   * @returns {Promise<string | undefined>} the caller's name, if the function of the user says it
   * @throws {ServeError} `unauthorized`
   */
  async admit(call) {
    this.checkKey(call.headers.authorization);
    return this.ask(call);
  }

  /** Whether a function of the user decides, too. */
  get asks() {
    return this.#authenticate !== undefined;
  }

  /**
   * Lets the function of the user decide, if there is one.
   * @param {IncomingCall} call
   * @returns {Promise<string | undefined>} the caller's name, if the function says it
   * @throws {ServeError} `unauthorized`
   */
  async ask(call) {
    if (this.#authenticate === undefined) return undefined;
    let caller;
    try {
      caller = await this.#authenticate(call);
    } catch (err) {
      this.#log.warn({ err, url: call.url, ip: call.ip }, 'authenticate() failed');
      throw unauthorized();
    }
    if (caller === false) throw unauthorized();
    return typeof caller === 'string' ? caller : undefined;
  }
}
