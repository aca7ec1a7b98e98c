// The errors of the server, by meaning. Each protocol has its own format for them.

/**
 * What a request can fail with: its status over HTTP, the name of its status over gRPC, and its type in OpenAI's errors.
 */
const KINDS = Object.freeze({
  invalid: { status: 400, grpc: 'INVALID_ARGUMENT', openai: 'invalid_request_error' },
  unauthorized: { status: 401, grpc: 'UNAUTHENTICATED', openai: 'invalid_request_error' },
  notFound: { status: 404, grpc: 'NOT_FOUND', openai: 'invalid_request_error' },
  notAllowed: { status: 403, grpc: 'PERMISSION_DENIED', openai: 'invalid_request_error' },
  tooLarge: { status: 413, grpc: 'RESOURCE_EXHAUSTED', openai: 'invalid_request_error' },
  canceled: { status: 499, grpc: 'CANCELLED', openai: 'invalid_request_error' },
  unimplemented: { status: 501, grpc: 'UNIMPLEMENTED', openai: 'invalid_request_error' },
  internal: { status: 500, grpc: 'INTERNAL', openai: 'server_error' },
  overloaded: { status: 503, grpc: 'UNAVAILABLE', openai: 'server_error' },
  unavailable: { status: 503, grpc: 'UNAVAILABLE', openai: 'server_error' },
  deadline: { status: 504, grpc: 'DEADLINE_EXCEEDED', openai: 'server_error' },
});

/** @typedef {keyof typeof KINDS} ErrorKind */

/**
 * A number of things in a message: `1 byte`, `2 bytes`.
 * @param {number} count
 * @param {string} noun in the singular
 */
export const amount = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** A request that cannot be answered. Its message is for the caller. */
export class ServeError extends Error {
  name = 'ServeError';

  /**
   * @param {ErrorKind} kind
   * @param {string} message
   * @param {ErrorOptions & { retryAfterMs?: number, param?: string, code?: string }} [options] when to try again; the parameter
   *   at fault, and a code, as OpenAI's errors name them
   */
  constructor(kind, message, { retryAfterMs, param, code, ...options } = {}) {
    const { stackTraceLimit } = Error;
    // What callers did has no place in this code, and to find the stack takes longer than to refuse a request.
    if (kind !== 'internal') Error.stackTraceLimit = 0;
    super(message, options);
    Error.stackTraceLimit = stackTraceLimit;
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
    this.param = param;
    this.code = code;
  }

  get status() {
    return KINDS[this.kind].status;
  }

  get grpc() {
    return KINDS[this.kind].grpc;
  }

  get openai() {
    return KINDS[this.kind].openai;
  }
}

export const invalid = (/** @type {string} */ message, /** @type {{ param?: string, code?: string, cause?: unknown }} */ options = {}) =>
  new ServeError('invalid', message, options);

/** Codes of webnn-node for requests that do not fit the model: the caller's fault. */
const CALLERS = new Set([
  'ERR_WEBNN_TYPE',
  'ERR_WEBNN_SHAPE',
  'ERR_WEBNN_INDEX',
  'ERR_WEBNN_MISSING_FEED',
  'ERR_WEBNN_UNKNOWN_FEED',
  'ERR_WEBNN_UNKNOWN_OUTPUT',
]);

/** @type {Record<string, ErrorKind>} */
const OTHERS = { ERR_WEBNN_DESTROYED: 'unavailable', ERR_WEBNN_DEVICE_LOST: 'unavailable', ERR_WEBNN_NO_MEMORY: 'overloaded' };

/**
 * The error for a caller. What webnn-node says about a request reaches the caller; the text of any other error stays in the log.
 * @param {unknown} error
 * @returns {ServeError}
 */
export function toServeError(error) {
  if (error instanceof ServeError) return error;
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (error ?? {});
  if (code !== undefined && CALLERS.has(code)) return new ServeError('invalid', message, { cause: error });
  if (code !== undefined && Object.hasOwn(OTHERS, code)) return new ServeError(OTHERS[code], message, { cause: error });
  return new ServeError('internal', 'internal error', { cause: error });
}

/**
 * A value of a request in an error: it can be long, and deeper than the stack.
 * @param {unknown} value
 */
export function shown(value) {
  if (value !== null && typeof value === 'object') return Array.isArray(value) ? 'a list' : 'an object';
  return String(JSON.stringify(typeof value === 'string' ? value.slice(0, 100) : value)).slice(0, 100);
}
