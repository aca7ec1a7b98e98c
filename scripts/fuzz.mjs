// Fuzzes the reader of ONNX models with cargo-fuzz, starting from the committed corpus. `npm test` replays that corpus.
//
//   npm run fuzz                     10 minutes
//   npm run fuzz -- --seconds 60
//   npm run fuzz -- --minimize       only keeps one file of the corpus for each part of the code that it reaches
// cargo-fuzz is installed under target/ if it is missing. It needs unstable compiler flags, which RUSTC_BOOTSTRAP
// allows, and clang's address sanitizer, which comes with Rust on Linux and macOS.

import { parseArgs } from 'node:util';
import { cargoTool } from './cargo-tools.mjs';
import { Failure, entry, run } from './process.mjs';

/**
 * Limits for a single allocation and for the time of one input. The target itself checks the sum of allocations; with
 * the sanitizer, everything takes many times longer.
 */
const LIMITS = ['-malloc_limit_mb=64', '-timeout=25', '-rss_limit_mb=4096', '-max_len=65536'];

async function main() {
  const { values } = parseArgs({ options: { seconds: { type: 'string', default: '600' }, minimize: { type: 'boolean', default: false } } });
  const seconds = Number(values.seconds);
  if (!Number.isInteger(seconds) || seconds < 1) {
    throw new Failure(`--seconds is ${values.seconds}, expected a positive integer`, 2);
  }
  const { env } = await cargoTool('fuzz');
  const options = { env: { ...env, RUSTC_BOOTSTRAP: '1' } };
  if (values.minimize) {
    await run('minimization of the corpus', 'cargo', ['fuzz', 'cmin', 'onnx'], options);
  } else {
    const limits = [...LIMITS, `-max_total_time=${seconds}`, '-print_final_stats=1'];
    await run('fuzzing of the ONNX reader', 'cargo', ['fuzz', 'run', 'onnx', '--', ...limits], options);
  }
}

await entry(main);
