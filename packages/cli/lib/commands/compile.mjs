// `webnn-node compile`: packs the weights of a model ahead, into files that processes map.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { listCache } from 'webnn-node/inspect';
import { Failure } from '../errors.mjs';
import { formatBytes, formatPlural, printable } from '../format.mjs';
import { readModel, withLoaded } from '../model.mjs';
import { cacheFolderOption, freeDimensionOption } from '../options.mjs';
import { withProgress } from '../progress.mjs';
import { packForAll } from '../packing.mjs';

const HELP = `
Programs that load the model with the option cache, and this folder, then map
the file instead of packing the weights. The model is recognized by its
contents, so the file also serves copies of it, in an image for example.

Sizes that you give with --free-dimension are fixed, as by the option
freeDimensions: give those that the program gives. Others stay free, and a few
are tried. Matrix products pack the same for all sizes; filters of images do
not, so give sizes of images. Several calls add to one file.
If data decide sizes or branches, the model runs in stages, and only the first
one is known: a note says so, and the first run packs the rest.

Weights are packed for one instruction set, by default the best one of this
machine. --isa names others that this machine can run; use those of the machines
that will run the model.

Examples:
  webnn-node compile model.onnx
  webnn-node compile model.onnx --cache /app/weights
  webnn-node compile model.onnx --isa avx2 --isa avx512
  webnn-node compile model.onnx --free-dimension batch=1 --json`;

const PROGRAM = fileURLToPath(new URL('../../bin/webnn-node.js', import.meta.url));

/**
 * @typedef {object} Compiled
 * @property {import('webnn-node/inspect').CacheFile[]} files none if nothing of the model is packed
 * @property {readonly import('webnn-node/onnx').OnnxUnsupportedNode[]} cuts
 */

/** How `model.memory.problem` says that nothing is kept of a model yet, because its files could still change without another time. */
const TOO_NEW = /has just changed/;

/** After this time it is kept, on all file systems, unless the file changes again or its time is in the future. */
const RETRY_MS = 3100;

/**
 * Packs and writes. What is packed may not be kept: the `failure` is why.
 * @param {string} file
 * @param {string | undefined} folder
 * @param {Record<string, number>} freeDimensions
 */
const packOnce = (file, folder, freeDimensions) =>
  withLoaded(file, { freeDimensions, cache: { folder, byContents: true } }, async ({ model }) => {
    const cuts = await withProgress('packing the weights', () => packForAll(model, freeDimensions));
    const failure = await withProgress('writing the file', () =>
      model.saved().then(
        () => null,
        (/** @type {Error} */ error) => error,
      ),
    );
    const { store, problem } = model.memory;
    return { cuts, failure, store, isTooNew: failure !== null && problem !== null && TOO_NEW.test(problem) };
  });

/**
 * Packs for the instruction set of this process.
 * @param {string} file
 * @param {string | undefined} folder
 * @param {Record<string, number>} freeDimensions
 * @returns {Promise<Compiled>}
 */
async function compileHere(file, folder, freeDimensions) {
  // Names what is wrong with the file or a size.
  await readModel(file, freeDimensions);
  // Says why if the folder cannot be used; loading a model only warns.
  await listCache(folder);
  let packed = await packOnce(file, folder, freeDimensions);
  if (packed.isTooNew) {
    await withProgress('waiting, because the model has just changed', () => sleep(RETRY_MS));
    packed = await packOnce(file, folder, freeDimensions);
  }
  if (packed.failure !== null) throw packed.failure;
  const { files } = await listCache(folder);
  return { files: files.filter(({ path }) => path === packed.store), cuts: packed.cuts };
}

/**
 * Packs for another instruction set, in a process of its own: a process has one.
 * @param {string} isa
 * @param {string} file
 * @param {string | undefined} folder
 * @param {Record<string, number>} freeDimensions
 * @returns {Promise<Compiled>}
 */
async function compileElsewhere(isa, file, folder, freeDimensions) {
  const sizes = Object.entries(freeDimensions).flatMap(([name, size]) => ['--free-dimension', `${name}=${size}`]);
  const args = ['compile', '--json', ...(folder === undefined ? [] : ['--cache', folder]), ...sizes, '--', file];
  const child = spawn(process.execPath, [...process.execArgv, PROGRAM, ...args], {
    env: { ...process.env, WEBNN_ISA: isa },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [code, signal]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  if (code !== 0) throw new Failure(`${printable(isa)}: ${stderr.replace(/^webnn-node: /, '').trimEnd() || `ended with ${signal ?? code}`}`);
  return JSON.parse(stdout);
}

/** @type {import('../types.mjs').CommandDefinition['execute']} */
async function execute(output, [file], { cache, freeDimension = {}, isa = [] }) {
  const folder = cache === true ? undefined : cache;
  /** @type {Compiled[]} */
  const all = [];
  if (isa.length === 0) all.push(await compileHere(file, folder, freeDimension));
  for (const name of new Set(isa)) {
    all.push(await withProgress(`packing for ${name}`, () => compileElsewhere(name, file, folder, freeDimension)));
  }
  const files = all.flatMap((compiled) => compiled.files);
  const { cuts } = all[0];
  output.document({ model: file, files, cuts });
  if (files.length === 0) output.print('nothing is written: the model has no weights of 4 KiB or more that are kept');
  else {
    output.table(
      ['instruction set', '>entries', '>size', 'file'],
      files.map(({ isa: name, entries, bytes, path }) => [String(name), entries, formatBytes(bytes), path]),
    );
  }
  if (cuts.length > 0 && !output.json) {
    output.note(
      `data decide sizes or branches at ${formatPlural(cuts.length, 'node')}, first ${printable(cuts[0].name)} (${cuts[0].operator}): weights behind are packed by the first run`,
    );
  }
}

/** @type {import('../types.mjs').CommandDefinition} */
export default {
  name: 'compile',
  description: 'Packs the weights of a model ahead, into files that processes map and share.',
  define: (command) => {
    command
      .argument('<model>', 'an ONNX file')
      .addOption(cacheFolderOption('the folder to write to'))
      .addOption(freeDimensionOption())
      .option('--isa <NAME>', 'instruction set to pack for, as in WEBNN_ISA; repeatable', (name, /** @type {string[]} */ names = []) => [...names, name]);
  },
  execute,
  help: HELP,
};
