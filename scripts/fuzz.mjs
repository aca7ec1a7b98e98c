// Fuzzes with cargo-fuzz: the reader of ONNX models, starting from the committed corpus, fuzz/corpus.tar.gz, or the
// products of the CPU. `npm test` replays that corpus, and computes products that chance chooses. A file that shows a
// fault gets a name in fuzz/faults, and a test.
//
//   npm run fuzz                     the reader, 10 minutes
//   npm run fuzz -- products         products
//   npm run fuzz -- --seconds 60
//   npm run fuzz -- --minimize       keeps one file for each part of the reader that is reached, and writes the archive
//
// cargo-fuzz is installed under target/ if it is missing. It needs unstable compiler flags, which RUSTC_BOOTSTRAP
// allows, and clang's address sanitizer, which comes with Rust on Linux and macOS.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { cargoTool } from './cargo-tools.mjs';
import { entry, Failure, isProgram, root, run } from './process.mjs';

const ARCHIVE = join(root, 'fuzz', 'corpus.tar.gz');
const CORPUS = join(root, 'fuzz', 'corpus');

/** Options of GNU tar with which the same files make the same archive. */
const SAME_BYTES = ['--format=ustar', '--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX'];

/**
 * Limits for a single allocation and for the time of one input. The target itself checks the sum of allocations; with
 * the sanitizer, everything takes many times longer.
 *
 * @type {Record<string, string[]>}
 */
const LIMITS = {
  onnx: ['-malloc_limit_mb=64', '-timeout=25', '-rss_limit_mb=4096', '-max_len=65536'],
  products: ['-timeout=120', '-rss_limit_mb=4096', '-max_len=48'],
};

/**
 * Writes the files of the corpus into the subfolder `onnx` of a folder.
 *
 * @param {string} folder
 * @throws {Failure}
 */
export function unpackCorpus(folder) {
  mkdirSync(folder, { recursive: true });
  // From standard input: GNU's tar takes the drive in a path of Windows for the name of a computer.
  const { status, stderr, error } = spawnSync('tar', ['-xzf-'], { cwd: folder, input: readFileSync(ARCHIVE), encoding: 'utf8' });
  if (status !== 0) throw new Failure(`tar cannot unpack ${ARCHIVE}: ${error?.message ?? stderr}`);
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { seconds: { type: 'string', default: '600' }, minimize: { type: 'boolean', default: false } },
  });
  const [target = 'onnx', ...others] = positionals;
  if (!Object.hasOwn(LIMITS, target) || others.length > 0) {
    throw new Failure(`the target is ${positionals.join(' ')}, expected one of ${Object.keys(LIMITS).join(', ')}`, 2);
  }
  const seconds = Number(values.seconds);
  if (!Number.isInteger(seconds) || seconds < 1) {
    throw new Failure(`--seconds is ${values.seconds}, expected a positive integer`, 2);
  }
  const { env } = await cargoTool('fuzz');
  const options = { env: { ...env, RUSTC_BOOTSTRAP: '1' } };
  unpackCorpus(CORPUS);
  if (values.minimize) {
    await run('minimization of the corpus', 'cargo', ['fuzz', 'cmin', 'onnx'], options);
    await run('archive of the corpus', 'tar', [...SAME_BYTES, '--use-compress-program=gzip -9n', '-cf', ARCHIVE, '-C', CORPUS, 'onnx']);
  } else {
    const limits = [...LIMITS[target], `-max_total_time=${seconds}`, '-print_final_stats=1'];
    await run(`fuzzing of ${target}`, 'cargo', ['fuzz', 'run', target, '--', ...limits], options);
  }
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
