// Listening at a port, with an error that names the port and says in one line why it fails.

import { OptionError } from './options.js';

/** @type {Record<string, string>} */
const REASONS = {
  EADDRINUSE: 'another program listens there',
  EACCES: 'this user may not listen there',
  EADDRNOTAVAIL: 'this machine does not have the address',
  ENOTFOUND: 'there is no such address',
  EAI_AGAIN: 'the name of the address cannot be looked up',
  EINVAL: 'it is not an address to listen at',
};

/**
 * @template T
 * @param {{ name: string, host: string, port: number }} place
 * @param {() => Promise<T>} listen
 * @returns {Promise<T>}
 * @throws {OptionError} if the system refuses it
 */
export async function listening({ name, host, port }, listen) {
  try {
    return await listen();
  } catch (cause) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (cause);
    // gRPC has the system's code only in its message.
    const known = Object.keys(REASONS).find((reason) => code === reason || message.includes(reason));
    if (known === undefined) throw cause;
    const address = host.includes(':') ? `[${host}]` : host;
    const option = name.toLowerCase();
    const hint = known === 'EADDRINUSE' ? `; the option ${option} (--${option} PORT) takes another port` : '';
    throw new OptionError(`cannot listen at ${address}:${port} for ${name}: ${REASONS[known]}${hint}`, { cause });
  }
}
