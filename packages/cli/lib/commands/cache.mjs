// `webnn-node cache`: lists, prunes and verifies the files with packed weights.
import { existsSync } from 'node:fs';
import { Argument, InvalidArgumentError } from 'commander';
import { listCache, pruneCache, verifyCache } from 'webnn-node/inspect';
import { Failure } from '../errors.mjs';
import { formatBytes, formatPlural, printable } from '../format.mjs';
import { cacheFolderOption, refuseIdle } from '../options.mjs';
import { withProgress } from '../progress.mjs';

/** @typedef {import('webnn-node/inspect').CacheFile} CacheFile */

const HELP = `
Actions:
  list    prints the files, those used longest ago first
  prune   removes invalid files, then those used longest ago, until the others
          have at most --bytes, or what WEBNN_CACHE_BYTES says, or 20 GiB
  verify  compares all bytes with their checksums; exit code 1 means that files
          are damaged. It changes nothing: loading a model with the option
          cache: { verify: true } packs what is damaged again

Processes that have loaded a model keep what is removed until they end.

Examples:
  webnn-node cache list
  webnn-node cache prune --bytes 2GiB
  webnn-node cache verify --cache /app/weights --json`;

const UNITS = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };

/** @param {string} text */
function parseBytes(text) {
  const [, number, unit] = /^(\d+(?:\.\d+)?) ?(KiB|MiB|GiB)?$/.exec(text) ?? [];
  const bytes = number === undefined ? NaN : Math.floor(Number(number) * (unit === undefined ? 1 : UNITS[/** @type {keyof typeof UNITS} */ (unit)]));
  if (!Number.isSafeInteger(bytes)) throw new InvalidArgumentError('Expected bytes, as in 1000000, 500MiB or 2GiB.');
  return bytes;
}

const sizeOf = (/** @type {readonly CacheFile[]} */ files) => files.reduce((sum, { bytes }) => sum + bytes, 0);

/** Minutes are enough: the time of the last use is up to an hour old. @param {number} time */
const formatTime = (time) => new Date(time).toISOString().slice(0, 16).replace('T', ' ');

/**
 * @param {import('../output.mjs').Output} output
 * @param {readonly CacheFile[]} files
 */
function printFiles(output, files) {
  if (files.length === 0) return;
  output.table(
    ['model', 'instruction set', '>entries', '>size', 'last use (UTC)', 'file'],
    files.map(({ path, model, isa, entries, bytes, used }) => [
      model ?? 'invalid, or of another version',
      isa ?? '-',
      model === null ? '-' : entries,
      formatBytes(bytes),
      formatTime(used),
      path,
    ]),
  );
}

const counted = (/** @type {readonly CacheFile[]} */ files) => `${formatPlural(files.length, 'file')}, ${formatBytes(sizeOf(files))}`;

/** @type {Record<string, (output: import('../output.mjs').Output, folder: string | undefined, bytes?: number) => Promise<number | void>>} */
const ACTIONS = {
  async list(output, given) {
    const { folder, files } = await listCache(given);
    output.document({ folder, files, bytes: sizeOf(files) });
    printFiles(output, files);
    output.print(`${counted(files)} in ${printable(folder)}`);
  },

  async prune(output, given, limit) {
    const { folder, files } = await pruneCache(given, limit);
    const rest = await listCache(given);
    output.document({ folder, removed: files, files: rest.files, bytes: sizeOf(rest.files) });
    printFiles(output, files);
    output.print(`removed ${counted(files)}; kept ${counted(rest.files)} in ${printable(folder)}`);
  },

  async verify(output, given) {
    const { folder, files } = await withProgress('reading', () => verifyCache(given));
    const all = await listCache(given);
    output.document({ folder, files: all.files, damaged: files });
    if (files.length === 0) {
      output.print(`all is well: ${counted(all.files)} in ${printable(folder)}`);
      return 0;
    }
    printFiles(output, files);
    const entries = files.reduce((sum, { damaged }) => sum + damaged, 0);
    output.error(`${formatPlural(files.length, 'file')} of ${all.files.length} in ${printable(folder)} ${files.length === 1 ? 'is' : 'are'} damaged`);
    if (entries > 0)
      output.note(
        `${formatPlural(entries, 'entry', 'entries')} of them changed since they were written; remove the files, or load the models with verify, and these weights are packed again`,
      );
    return 1;
  },
};

/** @type {import('../types.mjs').CommandDefinition['execute']} */
async function execute(output, [action], { cache, bytes }, isGiven) {
  if (action !== 'prune') refuseIdle(isGiven, ['bytes'], 'it is for prune');
  const folder = cache === true ? undefined : cache;
  if (folder !== undefined && !existsSync(folder)) throw new Failure(`cannot read ${printable(folder)}: there is no such folder`);
  return ACTIONS[action](output, folder, bytes);
}

/** @type {import('../types.mjs').CommandDefinition} */
export default {
  name: 'cache',
  description: 'Lists, prunes or verifies the files with packed weights, which processes share.',
  define: (command) => {
    command
      .addArgument(new Argument('<action>', 'what to do').choices(Object.keys(ACTIONS)))
      .addOption(cacheFolderOption('the folder'))
      .option('--bytes <N>', 'prune: how many bytes to keep, as in 500MiB', parseBytes);
  },
  execute,
  help: HELP,
};
