// `npm run suite -- ort-programs`: packs this package and its stand-in for onnxruntime-node, installs them with the
// programs of __test__/external/ort-programs, and runs the programs.
//
//   npm run suite -- ort-programs                tests; needs Python and espeak-ng
//   npm run suite -- ort-programs --reference    computes their reference results by onnxruntime-node

import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { writeModels } from '../../__test__/external/ort-programs/models.mjs';
import { digests, PACKAGES, PROGRAMS, REFERENCES, runProgram } from '../../__test__/external/ort-programs/runs.mjs';
import { EXTERNAL, installExternal } from '../external.mjs';
import { packThisPlatform, tarballsFor } from '../pack-local.mjs';
import { entry, Failure, isProgram, outputOf, root, run, runNpm, say, withUsage } from '../process.mjs';
import { rewriteIfStale } from '../rewrite-stale.mjs';

/** The programs with the original onnxruntime-node. */
export const ORIGINAL = join(EXTERNAL, 'ort-programs');
const PROGRAMS_FOLDER = join(ORIGINAL, 'programs');

/** Folder of all written files. */
const FOLDER = join(root, 'target', 'ort-programs');
const DATA = { models: join(FOLDER, 'models'), speech: join(FOLDER, 'speech') };

/** The programs with the packed stand-in in place of onnxruntime-node. */
export const REPLACED = join(FOLDER, 'replaced');

const STAND_IN = 'webnn-node-ort';

/** Text of the recordings, with the pauses between words in units of 10 ms. */
const SPEECH = {
  'sentence.wav': { text: 'The quick brown fox jumps over the lazy dog.', gap: 0 },
  'pauses.wav': { text: 'Hello. This is a longer text, with pauses in between. Do you hear me?', gap: 60 },
};

async function writeSpeech() {
  if (outputOf('espeak-ng', ['--version']) === undefined) {
    throw new Failure("espeak-ng cannot be run. Install it from your system's packages: apt install espeak-ng");
  }
  await rewriteIfStale(DATA.speech, JSON.stringify(SPEECH), async () => {
    for (const [name, { text, gap }] of Object.entries(SPEECH)) {
      await run(`recording ${name}`, 'espeak-ng', ['-g', String(gap), '-w', join(DATA.speech, name), text]);
    }
  });
}

/**
 * Packs the stand-in with the addon in the repository root, and installs {@link REPLACED}.
 * @returns {Promise<string[]>} the tarballs of the stand-in and its dependencies
 */
export async function installReplaced() {
  const packed = packThisPlatform(join(FOLDER, 'staged'), join(FOLDER, 'packed'));
  const [tarball] = packed.filter(({ name }) => name === STAND_IN);
  const others = tarballsFor(STAND_IN, packed).filter((file) => file !== tarball.file);
  const { dependencies } = JSON.parse(readFileSync(join(EXTERNAL, 'package.json'), 'utf8'));
  const manifest = {
    private: true,
    /** @type {Record<string, string>} */
    dependencies: { ...Object.fromEntries(PACKAGES.map((name) => [name, dependencies[name]])), 'onnxruntime-node': `file:${tarball.file}` },
    overrides: { 'onnxruntime-node': '$onnxruntime-node' },
  };
  for (const file of others) {
    const { name } = /** @type {{ name: string }} */ (packed.find((one) => one.file === file));
    manifest.dependencies[name] = `file:${file}`;
  }
  rmSync(REPLACED, { recursive: true, force: true });
  cpSync(PROGRAMS_FOLDER, REPLACED, { recursive: true });
  cpSync(join(EXTERNAL, 'package-lock.json'), join(REPLACED, 'package-lock.json'));
  writeFileSync(join(REPLACED, 'package.json'), JSON.stringify(manifest));
  await runNpm('installation of the programs on webnn-node-ort', ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: REPLACED,
  });
  return [tarball.file, ...others];
}

/** Computes the reference results with the onnxruntime-node installed for the tests. */
async function writeReferences() {
  const { version } = JSON.parse(readFileSync(join(EXTERNAL, 'node_modules', 'onnxruntime-node', 'package.json'), 'utf8'));
  /** @type {Record<string, unknown>} */
  const results = {};
  for (const name of Object.keys(PROGRAMS)) {
    say(`reference results of ${name}`);
    ({ results: results[name] } = await runProgram(PROGRAMS_FOLDER, name, DATA));
  }
  const note = `What onnxruntime-node ${version} computes, and for Transformers.js 2 its own version; written by npm run suite -- ort-programs --reference`;
  // Digits of float32, one line per program.
  const text = (/** @type {unknown} */ value) => JSON.stringify(value, (_, x) => (typeof x === 'number' ? Number(x.toPrecision(8)) : x));
  const lines = Object.entries(results).map(([name, result]) => `${text(name)}: ${text(result)}`);
  writeFileSync(REFERENCES, `{"note": ${text(note)},\n"digests": ${text(digests(DATA))},\n"results": {\n${lines.join(',\n')}\n}}\n`);
}

if (isProgram(import.meta.url)) {
  await entry(async () => {
    const options = /** @type {const} */ ({ reference: { type: 'boolean', default: false } });
    const { reference } = withUsage('usage: npm run suite -- ort-programs [--reference]', () => parseArgs({ options }).values);
    await installExternal();
    await writeModels(DATA.models);
    await writeSpeech();
    if (reference) {
      await writeReferences();
      return;
    }
    await installReplaced();
    const env = { WEBNN_ORT_REPLACED: REPLACED, WEBNN_ORT_DATA: FOLDER };
    await run('tests of the programs', process.execPath, ['--test', join(ORIGINAL, 'programs.test.mjs')], { env });
  });
}
