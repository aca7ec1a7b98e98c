// Who may call. A page in a browser must not reach a server on its user's machine, also not under a name that its owner points
// there; and where a key is set, callers have it.

import { createHash, timingSafeEqual } from 'node:crypto';
import { ServeError } from './errors.js';

const LOCAL = new Set(['127.0.0.1', '::1', 'localhost']);

/** Whether only this machine reaches an address. */
export const isLocal = (/** @type {string} */ host) => LOCAL.has(host);

/** The name in a Host header or an origin, without its port. @param {string} text */
function hostnameOf(text) {
  const address = text.includes('://') ? text : `http://${text}`;
  return URL.canParse(address) ? new URL(address).hostname.replace(/^\[|\]$/g, '') : null;
}

const digest = (/** @type {string} */ text) => createHash('sha256').update(text).digest();

/**
 * Checks the headers of calls.
 * @param {{ host: string, apiKey: string | undefined, allowedHosts?: string[] }} options the address that the server listens at, and the key
 */
export function accessOf({ host, apiKey, allowedHosts = [] }) {
  /** The last name that was called: callers rarely change it, and reading it takes as long as a small computation. */
  let known = '';
  const expected = apiKey === undefined ? undefined : digest(`Bearer ${apiKey}`);
  return {
    /**
     * @param {{ host?: string, origin?: string }} headers
     * @throws {ServeError} `notAllowed` for pages of other origins
     */
    checkOrigin({ host: called = '', origin }) {
      if (isLocal(host) && called !== known) {
        const name = hostnameOf(called) ?? '';
        if (!LOCAL.has(name) && !allowedHosts.includes(name)) throw new ServeError('notAllowed', `Host ${JSON.stringify(called)} is not allowed; add it with --allowed-hosts`);
        known = called;
      }
      if (origin !== undefined && (!URL.canParse(origin) || new URL(origin).host !== called)) {
        throw new ServeError('notAllowed', `pages of ${JSON.stringify(origin)} may not call this server`);
      }
    },
    /**
     * @param {string | undefined} authorization
     * @throws {ServeError} `unauthorized` without the key
     */
    checkKey(authorization = '') {
      // Digests have one length, and comparing them takes one time.
      if (expected !== undefined && !timingSafeEqual(digest(authorization), expected)) {
        throw new ServeError('unauthorized', 'the API key is missing or wrong', { code: 'invalid_api_key' });
      }
    },
  };
}
