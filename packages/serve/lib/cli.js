// `webnn-node-serve`: the server from a shell.

import cluster from 'node:cluster';
import { Command, InvalidArgumentError } from 'commander';
import pino from 'pino';
import { startProcesses } from './cluster.js';
import { checkConfig, DEFAULTS } from './registry/config.js';
import { nothingIn, RepositoryError } from './registry/repository.js';
import { serve, VERSION } from './serve.js';

/** @param {string} text */
function parsePort(text) {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65535) throw new InvalidArgumentError('expected a port, 0 to 65535.');
  return port;
}

/** @param {string} text */
function parseCount(text) {
  if (!/^[1-9]\d{0,2}$/.test(text)) throw new InvalidArgumentError('expected a whole number from 1 to 999.');
  return Number(text);
}

/**
 * A setting of models: NAME=VALUE, the value in JSON.
 * @param {string} text
 * @param {Record<string, unknown>} before
 */
function parseSetting(text, before) {
  const [, name, value] = /^(\w+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError('expected NAME=VALUE.');
  try {
    return { ...before, ...checkConfig({ [name]: value === '' ? '' : parseValue(value) }, '--set') };
  } catch (error) {
    throw new InvalidArgumentError(/** @type {Error} */ (error).message);
  }
}

/** Numbers, objects and null as JSON, all else as a text. @param {string} text */
function parseValue(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @returns {Command} */
export function createProgram() {
  return new Command('webnn-node-serve')
    .description('Serves ONNX models over the API of OpenAI and the Open Inference Protocol')
    .version(VERSION)
    .argument('[models]', 'folder of models, or a model; a small model for embeddings if left out')
    .option('--name <name>', 'name of the model if MODELS is itself a model; that of its folder if left out')
    .option('--host <address>', 'address to listen at; only this machine reaches the default', '127.0.0.1')
    .option('--http <port>', 'port for HTTP', parsePort, 8080)
    .option('--grpc <port>', 'port for gRPC; none if left out', parsePort)
    .option('--metrics <port>', 'port for the metrics; they are at /metrics of the port for HTTP if left out', parsePort)
    .option('--processes <count>', 'processes behind the ports, each with all models', parseCount, 1)
    .option('--set <name=value>', `a setting of all models: ${Object.keys(DEFAULTS).join(', ')}`, parseSetting, {})
    .option('--control', 'models may be loaded and unloaded through the network (the default if only this machine reaches the server)')
    .option('--log-level <level>', 'trace, debug, info, warn, error or silent', 'info')
    .addHelpText('after', '\nEnvironment:\n  WEBNN_SERVE_API_KEY  key that callers must send as "Authorization: Bearer KEY"')
    .action(run);
}

/** @param {string[]} argv as process.argv */
export async function main(argv) {
  await createProgram().parseAsync(argv);
}

/**
 * Calls of the first models, to copy.
 * @param {import('./serve.js').Server} server
 */
function callsOf(server) {
  const url = server.urls.http;
  /** @type {Record<import('./models/load.js').Model['kind'], (model: string) => string>} */
  const examples = {
    embeddings: (model) => `curl ${url}/v1/embeddings -d '{"model":"${model}","input":"Hello, world"}'`,
    generation: (model) => `curl ${url}/v1/completions -d '{"model":"${model}","prompt":"Hello, world"}'`,
    tensors: (model) => `curl ${url}/v2/models/${encodeURIComponent(model)}`,
  };
  return server.registry.ready.slice(0, 3).flatMap(({ name, model }) => (model === null ? [] : `  ${examples[model.kind](name)}`));
}

/**
 * Ends on signals; a second one ends at once, as usual. While models are loaded, the first one ends at once, too: nothing has begun.
 * A first process of a container gets no signal without such a function.
 * @param {any} log
 * @returns {(close: () => Promise<void>) => void} to call when the server is ready
 */
function closeOnSignals(log) {
  let isClosing = false;
  /** @type {(() => Promise<void>) | undefined} */
  let close;
  for (const [signal, number] of /** @type {const} */ ([
    ['SIGINT', 2],
    ['SIGTERM', 15],
  ])) {
    process.once(signal, async () => {
      if (close === undefined) process.exit(128 + number);
      if (isClosing) return;
      isClosing = true;
      log.info({ signal }, 'draining');
      await close();
      log.info('closed');
      if (cluster.isWorker) process.disconnect?.();
    });
  }
  return (whenReady) => {
    close = whenReady;
  };
}

/**
 * @param {string | undefined} repository
 * @param {any} options
 */
async function run(repository, { name, host, http, grpc, metrics, processes, set: defaults, control, logLevel }) {
  const log = pino({ level: logLevel });
  const setClose = closeOnSignals(log);
  if (processes > 1 && cluster.isPrimary) {
    const { close, failed } = await startProcesses({ count: processes, host, metrics, log });
    setClose(close);
    // Nothing waits for it, because it never comes where all goes well: Node ends with 13 where a module waits for that.
    void failed.then(async (code) => {
      process.exitCode = code;
      await close();
    });
    return;
  }
  const isOne = processes === 1;
  try {
    // Models that one process loads would be missing in the others.
    const options = isOne ? { metrics, control } : { metrics: /** @type {const} */ ('cluster'), control: false };
    const server = await serve({ repository, name, host, http, grpc, defaults, log, apiKey: process.env.WEBNN_SERVE_API_KEY, ...options });
    const { ready, versions } = server.registry;
    // Whoever may load models through the network may also begin with none.
    if (versions.length === 0 && control !== true && repository !== undefined) {
      await server.close();
      throw new RepositoryError(nothingIn(repository));
    }
    if (ready.length === 0 && versions.length > 0) {
      await server.close();
      throw new RepositoryError(['no model can be loaded', ...versions.map(({ name, reason }) => `  ${name}: ${reason}`)].join('\n'));
    }
    setClose(() => server.close());
    log.info(server.urls, 'ready');
    if (isOne) console.error([`webnn-node-serve ${VERSION} serves at ${server.urls.http}. Try:`, ...callsOf(server)].join('\n'));
    else process.send?.('ready');
  } catch (error) {
    if (!(error instanceof RepositoryError) && /** @type {NodeJS.ErrnoException} */ (error).code !== 'EADDRINUSE') throw error;
    console.error(`webnn-node-serve: ${/** @type {Error} */ (error).message}`);
    process.exit(1);
  }
}
