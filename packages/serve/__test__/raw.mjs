// Connections as bytes, and node's own client: what fetch() does not let a test say.

import { once } from 'node:events';
import http from 'node:http';
import { connect } from 'node:net';

/** A connection whose bytes a test writes and reads itself. */
export class RawConnection {
  received = '';
  isClosed = false;
  #socket;

  /** @param {string} url of the server */
  constructor(url) {
    const { hostname, port } = new URL(url);
    this.#socket = connect(Number(port), hostname);
    this.#socket.on('data', (bytes) => (this.received += bytes.toString('latin1')));
    this.#socket.on('error', () => undefined);
    this.#socket.on('close', () => (this.isClosed = true));
  }

  /** Settles when the server has it, as far as a client can know. */
  async connected() {
    if (this.#socket.connecting) await once(this.#socket, 'connect');
    return this;
  }

  /** @param {string | Uint8Array} bytes */
  write(bytes) {
    this.#socket.write(bytes);
    return this;
  }

  /**
   * Writes a request, or its beginning.
   * @param {string} line method and path
   * @param {Record<string, string | number>} [headers]
   * @param {string | Uint8Array} [body]
   */
  send(line, headers = {}, body = '') {
    const lines = Object.entries({ host: 'localhost', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
    return this.write(`${line} HTTP/1.1\r\n${lines.join('')}\r\n`).write(body);
  }

  /**
   * The next response with a length; what follows it is kept.
   * @returns {Promise<{ status: number, head: string, body: string }>}
   */
  async response() {
    for (;;) {
      const [, head] = /^(HTTP[^]*?\r\n\r\n)/.exec(this.received) ?? [];
      const status = Number(head?.slice(9, 12));
      const length = status === 100 ? 0 : Number(/content-length: (\d+)/i.exec(head ?? '')?.[1] ?? NaN);
      if (head !== undefined && this.received.length >= head.length + length) {
        const body = this.received.slice(head.length, head.length + length);
        this.received = this.received.slice(head.length + length);
        return { status, head, body };
      }
      if (this.isClosed) throw new Error(`the connection ended after ${JSON.stringify(this.received.slice(0, 200))}`);
      await Promise.race([once(this.#socket, 'data'), once(this.#socket, 'close')]);
    }
  }

  async closed() {
    if (!this.isClosed) await once(this.#socket, 'close');
  }

  destroy() {
    this.#socket.destroy();
  }
}

/**
 * Connections that are closed after the test.
 * @param {{ after: (done: () => void) => void }} t
 * @param {string} url of the server
 * @param {number} count
 */
export async function openRaw(t, url, count) {
  const connections = Array.from({ length: count }, () => new RawConnection(url));
  t.after(() => connections.forEach((connection) => connection.destroy()));
  return Promise.all(connections.map((connection) => connection.connected()));
}

/**
 * A request of node's own client.
 * @param {string} url
 * @param {import('node:http').RequestOptions} options
 * @param {Uint8Array | string} [body]
 * @returns {Promise<{ status: number, headers: import('node:http').IncomingHttpHeaders, text: string }>}
 */
export function ask(url, options, body) {
  return new Promise((resolve, reject) => {
    const asked = http.request(url, options, async (response) => {
      try {
        const chunks = [];
        for await (const chunk of response) chunks.push(chunk);
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text: Buffer.concat(chunks).toString() });
      } catch (error) {
        reject(error);
      }
    });
    asked.on('error', reject);
    asked.end(body);
  });
}
