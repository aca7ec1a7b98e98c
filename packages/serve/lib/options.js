// The options of the server, in one list: `serve()` checks them by it, the command line and the configuration file are read by it.

import { checkConfig, DEFAULTS } from './registry/config.js';

/** An option that is unknown, or has a value that it cannot have. */
export class OptionError extends Error {
  name = 'OptionError';
}

/**
 * @typedef {object} Option
 * @property {(value: any, where: string, limits: Record<string, number>) => boolean} test whether a value fits; throws an OptionError that
 *   says more
 * @property {string} expected
 * @property {string} [flag] of the command line
 * @property {(limits: Record<string, number>) => string} [help] in `--help`
 * @property {(text: string) => unknown} [parse] the value of an argument, NaN where it is none; without it, the text itself
 * @property {boolean} [isRepeated] whether the flag can come several times, each with a member of the value
 * @property {string} [setting] the setting of all models that the value becomes
 * @property {'code' | 'program'} [only] `code`: not in a file, because JSON cannot have it; `program`: not an option of serve()
 */

const isText = (/** @type {unknown} */ value) => typeof value === 'string' && value !== '';
const isFlag = (/** @type {unknown} */ value) => typeof value === 'boolean';
const isFunction = (/** @type {unknown} */ value) => typeof value === 'function';
const isObject = (/** @type {unknown} */ value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const isWhole = (/** @type {unknown} */ value, lowest = 1, highest = Number.MAX_SAFE_INTEGER) =>
  Number.isSafeInteger(value) && Number(value) >= lowest && Number(value) <= highest;
const isPort = (/** @type {unknown} */ value) => isWhole(value, 0, 65535);
const isKey = (/** @type {unknown} */ value) => typeof value === 'string' && /^[\x21-\x7e]+$/.test(value);
const isListOf =
  (/** @type {(value: unknown) => boolean} */ test, lowest = 0) =>
  (/** @type {unknown} */ value) =>
    Array.isArray(value) && value.length >= lowest && value.every(test);

const wholeNumber = (/** @type {string} */ text) => (/^\d+$/.test(text) ? Number(text) : NaN);
const list = (/** @type {string} */ text) => text.split(',').map((part) => part.trim());

/** A host without a port; with a dot before it, all names below it. */
const isHost = (/** @type {unknown} */ value) => typeof value === 'string' && /^[^\s/:,@]+$|^\[?[\da-fA-F:.]+\]?$/.test(value);

/** What a browser sends as the origin of a page: scheme, host and port, nothing behind them. Apps have schemes of their own. */
const isOrigin = (/** @type {any} */ value) =>
  typeof value === 'string' &&
  /^([a-z][a-z\d+.-]*:\/\/[^\s/?#@]+|null)$/.test(value) &&
  (!value.startsWith('http') || (URL.canParse(value) && new URL(value).origin === value));

const UNITS = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };

/** What a limit may be, by the end of its name. @type {[end: RegExp, test: (value: unknown) => boolean, expected: string][]} */
const LIMIT_RULES = [
  [/Bytes$/, (value) => isWhole(value, 0), 'bytes from 0, such as 67108864 or "64MiB"'],
  [/Ms$/, (value) => typeof value === 'number' && value >= 0 && value < 2 ** 31, 'milliseconds from 0'],
  [/Share$/, (value) => typeof value === 'number' && value > 0 && value <= 1, 'a share above 0, up to 1'],
  [/$/, (value) => isWhole(value), 'a whole number from 1'],
];

/** @type {(given: any, where: string, known: Record<string, number>) => boolean} */
function areLimits(given, where, known) {
  if (!isObject(given)) return false;
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(known, name)) throw new OptionError(`${where}: there is no limit ${name}; expected ${Object.keys(known).join(', ')}`);
    const [, test, expected] = /** @type {(typeof LIMIT_RULES)[number]} */ (LIMIT_RULES.find(([end]) => end.test(name)));
    if (!test(value)) throw new OptionError(`${where}: ${name} is ${JSON.stringify(value)}, expected ${expected}`);
  }
  return true;
}

/** A number, also with a unit of bytes; another text as it is. @param {string} text */
function parseAmount(text) {
  const [, number, unit] = /^(\d+(?:\.\d+)?) ?(KiB|MiB|GiB)?$/.exec(text) ?? [];
  return number === undefined ? text : Number(number) * (unit === undefined ? 1 : UNITS[/** @type {keyof typeof UNITS} */ (unit)]);
}

/** Limits of a configuration file, whose sizes can have units. @param {any} given */
const readLimits = (given) =>
  isObject(given) ? Object.fromEntries(Object.entries(given).map(([name, value]) => [name, typeof value === 'string' ? parseAmount(value) : value])) : given;

/** Numbers, objects and null as JSON, all else as a text. @param {string} text */
function parseSetting(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The member NAME=VALUE of an object. @type {(text: string, parse: (text: string) => unknown) => object | number} */
function parseMember(text, parse) {
  const [, name, value] = /^(\w+)=(.*)$/s.exec(text) ?? [];
  return name === undefined ? NaN : { [name]: value === '' ? '' : parse(value) };
}

/** Makes options that are left out as `undefined` be left out. @template T @param {T} given */
const present = (given) => /** @type {[string, any][]} */ (Object.entries(given ?? {})).filter(([, value]) => value !== undefined);

/** @type {Record<string, Option>} */
export const OPTIONS = {
  models: { test: isText, expected: 'the path of a folder or of an .onnx file' },
  name: {
    test: isText,
    expected: 'a name',
    flag: '--name <name>',
    help: () => 'Name of the model if MODELS is a single model. Default: the name of its folder.',
  },
  host: { test: isText, expected: 'an address', flag: '--host <address>', help: () => 'Address to listen at. Default: 127.0.0.1 (this machine only).' },
  http: {
    test: (value) => value === false || isPort(value),
    expected: 'a port, 0 to 65535',
    flag: '--http <port>',
    parse: wholeNumber,
    help: () => 'Port for HTTP. Default: 8080.',
  },
  grpc: {
    test: (value) => value === false || isPort(value),
    expected: 'a port, 0 to 65535',
    flag: '--grpc <port>',
    parse: wholeNumber,
    help: () => 'Port for gRPC. Default: no gRPC.',
  },
  metrics: {
    test: (value, where) => isPort(value) || (value === 'cluster' && where === SERVE),
    expected: 'a port, 0 to 65535',
    flag: '--metrics <port>',
    parse: wholeNumber,
    help: () => 'Port for metrics, required with --processes. Default: /metrics at the port for HTTP.',
  },
  control: {
    test: isFlag,
    expected: 'true or false',
    flag: '--control',
    help: () => 'Allow callers to load and unload models. Default: only at 127.0.0.1, in one process, without a proxy or web pages in front.',
  },
  allowedHosts: {
    test: isListOf(isHost),
    expected: 'a list of names without ports, such as api.example.com, or .example.com for all names below it',
    flag: '--allowed-hosts <names>',
    parse: list,
    help: () =>
      'Host names under which callers reach the server, separated by commas; .example.com allows all names below it. Default: names of this machine, or any name if --host is public.',
  },
  corsOrigins: {
    test: (value) => value === '*' || isListOf(isOrigin)(value),
    expected: '"*" or a list of origins such as https://app.example.com',
    flag: '--cors-origins <origins>',
    parse: (text) => (text === '*' ? text : list(text)),
    help: () => 'Origins of web pages that may call the server, separated by commas, or "*". Default: none.',
  },
  trustProxy: {
    test: isFlag,
    expected: 'true or false',
    flag: '--trust-proxy',
    help: () => 'Believe the X-Forwarded headers of a proxy in front. Without a proxy, callers could forge them.',
  },
  apiKey: { test: isKey, expected: 'a key of visible ASCII characters without spaces' },
  apiKeys: { test: isListOf(isKey, 1), expected: 'a list of keys of visible ASCII characters without spaces' },
  authenticate: { test: isFunction, expected: 'a function', only: 'code' },
  setup: { test: isFunction, expected: 'a function', only: 'code' },
  defaults: {
    // Its own check names the setting.
    test: (value, where) => isObject(value) && checkConfig(value, where) !== undefined,
    expected: 'an object with settings',
    flag: '--set <name=value>',
    isRepeated: true,
    parse: (text) => parseMember(text, parseSetting),
    help: () => `Setting of all models, repeatable: ${Object.keys(DEFAULTS).join(', ')}.`,
  },
  cache: {
    test: (value) => typeof value === 'boolean' || isText(value),
    expected: 'true, false or the path of a folder',
    flag: '--cache [folder]',
    help: () => "Keep packed weights in this folder, by default the user's, where processes share them. Short for --set cache=true or cache=FOLDER.",
    setting: 'cache',
    only: 'program',
  },
  idle: {
    test: (value) => isWhole(value, 1, 2 ** 32 - 1),
    expected: 'milliseconds from 1',
    flag: '--idle <milliseconds>',
    parse: wholeNumber,
    help: () => 'Free what a model can make again after this time without requests. Short for --set idleMs=MILLISECONDS. Default: never.',
    setting: 'idleMs',
    only: 'program',
  },
  limits: {
    test: areLimits,
    expected: 'an object with limits',
    flag: '--limit <name=value>',
    isRepeated: true,
    parse: (text) => parseMember(text, parseAmount),
    help: (limits) => `Limit of the server, repeatable; sizes such as 64MiB, times in milliseconds: ${Object.keys(limits).join(', ')}.`,
  },
  log: { test: (value) => value === false || isFunction(value?.info), expected: 'false or a logger', only: 'code' },
  processes: {
    test: (value) => isWhole(value, 1, 999),
    expected: 'a whole number from 1 to 999',
    flag: '--processes <count>',
    parse: wholeNumber,
    help: () => 'Processes behind the ports, each with all models. Default: 1.',
    only: 'program',
  },
  logLevel: {
    test: (value) => ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'].includes(value),
    expected: 'trace, debug, info, warn, error, fatal or silent',
    flag: '--log-level <level>',
    help: () => 'trace, debug, info, warn, error, fatal or silent. Default: info.',
    only: 'program',
  },
};

/** Where options of serve() are, in errors. */
const SERVE = 'serve()';

/**
 * Checks options by their names.
 * @param {unknown} given
 * @param {object} context
 * @param {string} [context.where] a configuration file; by default a call of serve()
 * @param {Record<string, number>} context.limits those that there are
 * @returns {Record<string, any>} what is given
 * @throws {OptionError}
 * @throws {import('./registry/repository.js').RepositoryError} if a setting of the models is wrong
 */
export function checkOptions(given, { where = SERVE, limits }) {
  if (!isObject(given)) throw new OptionError(`${where}: expected an object with options`);
  const absent = where === SERVE ? 'program' : 'code';
  const known = Object.keys(OPTIONS).filter((name) => OPTIONS[name].only !== absent);
  for (const [name, value] of present(given)) {
    if (!known.includes(name)) throw new OptionError(`${where}: there is no option ${name}; expected ${known.join(', ')}`);
    checkValue(name, value, where, limits);
  }
  return Object.fromEntries(present(given));
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} where
 * @param {Record<string, number>} limits
 */
function checkValue(name, value, where, limits) {
  const { test, expected } = OPTIONS[name];
  const place = name === 'defaults' || name === 'limits' ? `${where}: ${name}` : where;
  if (test(value, place, limits)) return;
  // Keys are secrets, and errors are logged.
  const shown = name.startsWith('apiKey') ? 'wrong' : (JSON.stringify(value) ?? String(value));
  throw new OptionError(`${where}: ${name} is ${shown}, expected ${expected}`);
}

/**
 * The value of an argument of the command line.
 * @param {string} name of the option
 * @param {string} text
 * @param {any} before of an option that is repeated
 * @param {Record<string, number>} limits
 * @throws {OptionError}
 * @throws {import('./registry/repository.js').RepositoryError} if a setting of the models is wrong
 */
export function parseArgument(name, text, before, limits) {
  const { test, expected, flag = '', parse, isRepeated = false } = OPTIONS[name];
  const value = parse === undefined ? text : parse(text);
  if (Number.isNaN(value) || !test(value, flag.split(' ')[0], limits)) {
    throw new OptionError(isRepeated ? 'expected NAME=VALUE.' : `expected ${expected}.`);
  }
  return isRepeated ? { ...before, .../** @type {object} */ (value) } : value;
}

/**
 * Reads options as a configuration file has them.
 * @param {string} text
 * @param {string} file its path, for errors
 * @param {Record<string, number>} limits
 * @returns {Record<string, any>}
 * @throws {OptionError}
 * @throws {import('./registry/repository.js').RepositoryError} if a setting of the models is wrong
 */
export function parseFile(text, file, limits) {
  let given;
  try {
    given = JSON.parse(text);
  } catch (cause) {
    throw new OptionError(`${file} is not JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
  return checkOptions(isObject(given) && given.limits !== undefined ? { ...given, limits: readLimits(given.limits) } : given, { where: file, limits });
}

/**
 * A key of a variable of the environment. An empty one is an error: it comes from a secret that is absent, and would lock everybody out.
 * @param {string} variable
 * @param {string | undefined} value
 * @throws {OptionError}
 */
export function checkKey(variable, value) {
  if (value === undefined || isKey(value)) return value;
  throw new OptionError(`${variable} is ${value === '' ? 'empty' : 'no key'}, expected ${OPTIONS.apiKey.expected}; to serve without a key, remove it`);
}

/**
 * Reads a file with a key in each line.
 * @param {string} text
 * @param {string} file its path, for errors
 * @returns {string[]}
 * @throws {OptionError} if a line is empty or cannot be a key
 */
export function parseKeys(text, file) {
  const keys = text.replace(/\r?\n$/, '').split(/\r?\n/);
  for (const [i, key] of keys.entries()) {
    if (!isKey(key)) throw new OptionError(`${file}: line ${i + 1} ${key === '' ? 'is empty' : 'is no key'}, expected ${OPTIONS.apiKey.expected}`);
  }
  return keys;
}
