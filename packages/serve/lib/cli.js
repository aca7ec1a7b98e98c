// `webnn-node-serve`: the server from a shell.

import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import pino from 'pino';
import { FAILED, READY, startProcesses } from './cluster.js';
import { checkKey, OptionError, OPTIONS, parseArgument, parseFile, parseKeys } from './options.js';
import { nothingIn, RepositoryError } from './registry/repository.js';
import { LIMITS, serve, VERSION } from './serve.js';

const KEY_VARIABLE = 'WEBNN_SERVE_API_KEY';

const ENVIRONMENT = `
Environment:
  ${KEY_VARIABLE}  Key that callers must send as "Authorization: Bearer KEY".

The configuration file is a JSON object with the names of serve()'s options:
  {"models": "models", "http": 8080, "limits": {"maxBodyBytes": "16MiB"}}`;

/** The options of the table that have a flag, as commander has them. */
const flags = Object.entries(OPTIONS).flatMap(([name, { flag, help }]) => {
  if (flag === undefined) return [];
  const option = new Option(flag, help?.(LIMITS));
  return { name, option: option.isBoolean() ? option : option.argParser(argumentParser(name)) };
});

/** @param {string} name */
function argumentParser(name) {
  return (/** @type {string} */ text, /** @type {any} */ before) => {
    try {
      return parseArgument(name, text, before, LIMITS);
    } catch (error) {
      throw new InvalidArgumentError(/** @type {Error} */ (error).message);
    }
  };
}

/** @returns {Command} */
export function createProgram() {
  const program = new Command('webnn-node-serve')
    .description("Serves ONNX models over OpenAI's API and the Open Inference Protocol.")
    .version(VERSION, '-V, --version', 'Print the version.')
    .helpOption('-h, --help', 'Print this help.')
    .argument('[models]', 'Folder of models, or a model: its folder or its .onnx file. Default: a small model for embeddings.');
  for (const { option } of flags) program.addOption(option);
  return program
    .option('--api-keys-file <file>', 'File with the keys of callers, one per line.')
    .option('--config <file>', 'Configuration file. Arguments win over it.')
    .addHelpText('after', ENVIRONMENT)
    .action(run);
}

/** @param {string[]} argv as process.argv */
export async function main(argv) {
  await createProgram().parseAsync(argv);
}

/**
 * @param {string} file
 * @param {string} what names it in errors
 * @throws {OptionError}
 */
function readText(file, what) {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new OptionError(`${what} ${file} cannot be read: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/**
 * Joins the configuration file, the arguments and the environment.
 * @param {string | undefined} models
 * @param {Record<string, any>} given by commander
 * @param {NodeJS.ProcessEnv} env
 * @returns {Record<string, any>} options of serve(), and those of the program
 * @throws {OptionError}
 */
export function readOptions(models, { config, apiKeysFile, ...given }, env) {
  const options = config === undefined ? {} : parseFile(readText(config, 'the configuration file'), config, LIMITS);
  if (models !== undefined) options.models = models;
  for (const { name, option } of flags) {
    const value = given[option.attributeName()];
    if (value !== undefined) options[name] = OPTIONS[name].isRepeated ? { ...options[name], ...value } : value;
  }
  for (const [name, { setting }] of Object.entries(OPTIONS)) {
    if (setting === undefined || options[name] === undefined) continue;
    options.defaults = { ...options.defaults, [setting]: options[name] };
    delete options[name];
  }
  if (apiKeysFile !== undefined) options.apiKeys = parseKeys(readText(apiKeysFile, 'the file of keys'), apiKeysFile);
  const key = checkKey(KEY_VARIABLE, env[KEY_VARIABLE]);
  if (key !== undefined) options.apiKey = key;
  const { processes = 1, metrics, control } = options;
  if (processes > 1 && metrics === undefined) {
    throw new OptionError('--processes needs --metrics PORT: at the port for HTTP, each process would show only its own numbers');
  }
  if (processes > 1 && control) throw new OptionError('--control is for one process: a model that one process loads would be missing in the others');
  return options;
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

/** @typedef {{ close: () => Promise<void>, log: any }} Closable */

/**
 * Ends on signals: the first drains, the second ends at once, and so does the first while a single process loads its models, because nothing
 * has begun. A first process of a container gets no signal without such a function.
 * @returns {(closable: Closable) => void} to call when there is something to drain
 */
function closeOnSignals() {
  let isClosing = false;
  /** @type {Closable | undefined} */
  let closable;
  for (const [signal, number] of /** @type {const} */ ([
    ['SIGINT', 2],
    ['SIGTERM', 15],
  ])) {
    process.on(signal, async () => {
      // A terminal and systemd signal all processes, and the first process signals the others once more. They end at once with it.
      if (cluster.isWorker && (isClosing || signal === 'SIGINT')) return;
      if (closable === undefined || isClosing) process.exit(128 + number);
      isClosing = true;
      closable.log.info({ signal }, 'draining');
      await closable.close();
      closable.log.info('closed');
      if (cluster.isWorker) process.disconnect?.();
    });
  }
  return (what) => {
    closable = what;
  };
}

/**
 * Ends with a message of one line where the operator can mend it: options, models, ports, what the system refuses.
 * @param {any} error
 */
function endWith(error) {
  if (!(error instanceof RepositoryError || error instanceof OptionError || error?.syscall !== undefined)) throw error;
  if (cluster.isWorker) process.send?.({ type: FAILED, message: error.message });
  else console.error(`webnn-node-serve: ${error.message}`);
  process.exit(error.exitCode ?? 1);
}

/**
 * @param {string | undefined} models
 * @param {Record<string, any>} given
 */
async function run(models, given) {
  const drain = closeOnSignals();
  try {
    const { processes = 1, logLevel, ...options } = readOptions(models, given, process.env);
    const log = pino({ level: logLevel ?? 'info' });
    if (processes > 1 && cluster.isPrimary) {
      const { host = '127.0.0.1', metrics, limits } = options;
      const { close, ended } = startProcesses({ count: processes, host, metrics, limits: { ...LIMITS, ...limits }, log });
      drain({ close, log });
      await ended;
    } else await runServer(options, { log, isOne: processes === 1, drain });
  } catch (error) {
    endWith(error);
  }
}

/**
 * Runs the server in this process.
 * @param {Record<string, any>} options of serve()
 * @param {{ log: any, isOne: boolean, drain: (closable: Closable) => void }} process
 */
async function runServer(options, { log, isOne, drain }) {
  // Models that one process loads would be missing in the others.
  const server = await serve({ ...options, log, ...(isOne ? {} : { metrics: 'cluster', control: false }) });
  const { ready, versions } = server.registry;
  // Whoever may load models through the network may also begin with none.
  if (versions.length === 0 && options.control !== true && options.models !== undefined) {
    await server.close();
    throw new RepositoryError(nothingIn(options.models));
  }
  if (ready.length === 0 && versions.length > 0) {
    await server.close();
    throw new RepositoryError(['no model can be loaded', ...versions.map(({ name, reason }) => `  ${name}: ${reason}`)].join('\n'));
  }
  drain({ close: () => server.close(), log });
  log.info(server.urls, 'ready');
  if (isOne) console.error([`webnn-node-serve ${VERSION} serves at ${server.urls.http}. Try:`, ...callsOf(server)].join('\n'));
  else process.send?.({ type: READY });
}
