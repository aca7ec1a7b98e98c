// Serves the built site as hosts of static files do: pages without `.html`, folders by their index.

import { existsSync, readFileSync, statSync } from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { SITE } from '../../scripts/site.mjs';

const TYPES = { '.css': 'text/css', '.html': 'text/html', '.js': 'text/javascript', '.json': 'application/json', '.svg': 'image/svg+xml' };

/**
 * The file that an address leads to.
 *
 * @param {string} path of the address, decoded, with a slash in front
 * @returns {string | undefined} its path in the site; undefined where there is none
 */
export function fileOf(path) {
  const candidates = path.endsWith('/') ? [`${path}index.html`] : [path, `${path}.html`];
  return candidates.find((file) => existsSync(join(SITE, file)) && statSync(join(SITE, file)).isFile());
}

/**
 * Starts a server on a free port.
 * @returns {Promise<{ origin: string, close(): Promise<void> }>}
 */
export async function serve() {
  const server = createServer(({ url = '/' }, response) => {
    const file = fileOf(decodeURIComponent(new URL(url, 'http://localhost').pathname));
    response.writeHead(file === undefined ? 404 : 200, { 'content-type': TYPES[extname(file ?? '')] ?? 'application/octet-stream' });
    response.end(file === undefined ? '' : readFileSync(join(SITE, file)));
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    origin: `http://localhost:${port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
