// Servers that programs and tests use, started for them on free ports.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Failure, outputOf } from './process.mjs';

/** Finds an unused port. @returns {Promise<number>} */
export function freePort() {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}

/**
 * Starts Redis, without persistence, on a free port.
 * @returns {Promise<Service>}
 */
export async function startRedis() {
  if (outputOf('redis-server', ['--version']) === undefined) {
    throw new Failure('redis-server cannot be run; scripts/install-debian-packages.sh installs it');
  }
  const folder = mkdtempSync(join(tmpdir(), 'webnn-redis-'));
  const port = await freePort();
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder];
  const server = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => server.once('close', resolve));
  let log = '';
  await new Promise((resolve, reject) => {
    server.stdout.setEncoding('utf8').on('data', (text) => {
      log += text;
      if (/ready to accept connections/i.test(log)) resolve(undefined);
    });
    server.once('close', (code) => reject(new Failure(`redis-server ended with ${code}:\n${log}`)));
  });
  const stop = async () => {
    server.kill();
    await ended;
    rmSync(folder, { recursive: true });
  };
  return { env: { REDIS_URL: `redis://127.0.0.1:${port}` }, stop };
}

/** @typedef {{ env: Record<string, string>, stop: () => Promise<void> }} Service the variables that tell a program where it is, and how to stop it */
