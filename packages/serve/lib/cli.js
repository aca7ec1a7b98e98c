// `webnn-node-serve`: the server from a shell.

import { Command, InvalidArgumentError } from 'commander';
import pino from 'pino';
import { RepositoryError } from './registry/repository.js';
import { serve } from './serve.js';

/** @param {string} text */
function parsePort(text) {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65535) throw new InvalidArgumentError('expected a port, 0 to 65535.');
  return port;
}

/** @param {string[]} argv as process.argv */
export async function main(argv) {
  const program = new Command('webnn-node-serve')
    .description('Serves ONNX models over the Open Inference Protocol and the API of OpenAI')
    .argument('[models]', 'folder of models; the models of the package if left out')
    .option('--host <address>', 'address to listen at', '127.0.0.1')
    .option('--http <port>', 'port for HTTP', parsePort, 8080)
    .option('--grpc <port>', 'port for gRPC; none if left out', parsePort)
    .option('--metrics <port>', 'port for the metrics; they are at /metrics of the port for HTTP if left out', parsePort)
    .option('--control', 'models may be loaded and unloaded through the network (the default if only this machine reaches the server)')
    .option('--log-level <level>', 'trace, debug, info, warn, error or silent', 'info')
    .action(run);
  await program.parseAsync(argv);
}

/**
 * @param {string | undefined} repository
 * @param {any} options
 */
async function run(repository, { host, http, grpc, metrics, control, logLevel }) {
  const log = pino({ level: logLevel });
  /** @type {import('./serve.js').Server} */
  let server;
  try {
    server = await serve({ repository, host, http, grpc, metrics, control, log });
  } catch (error) {
    if (!(error instanceof RepositoryError) && /** @type {NodeJS.ErrnoException} */ (error).code !== 'EADDRINUSE') throw error;
    console.error(`webnn-node-serve: ${/** @type {Error} */ (error).message}`);
    process.exitCode = 1;
    return;
  }
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      log.info({ signal }, 'draining');
      void server.close().then(() => log.info('closed'));
    });
  }
  log.info(server.urls, 'ready');
}
