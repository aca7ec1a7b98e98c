// The platforms that there are packages for, and what Rust and npm call them.

import { createRequire } from 'node:module';

/** Platforms as `lib/binary.js` names them. */
export const PLATFORMS = /** @type {string[]} */ (createRequire(import.meta.url)('../lib/binary.js').PLATFORMS);

/**
 * Rust's names of architectures and systems.
 *
 * @type {Record<string, string>}
 */
const RUST_CPUS = { arm64: 'aarch64', x64: 'x86_64' };
/** @type {Record<string, string>} */
const RUST_SYSTEMS = {
  darwin: 'apple-darwin',
  'linux-gnu': 'unknown-linux-gnu',
  'linux-musl': 'unknown-linux-musl',
  win32: 'pc-windows-msvc',
};

/**
 * @param {string} platform
 * @returns {string} Rust's target triple of a platform
 */
export function rustTarget(platform) {
  const [system, cpu, libc] = platform.split('-');
  return `${RUST_CPUS[cpu]}-${RUST_SYSTEMS[libc === undefined ? system : `${system}-${libc}`]}`;
}
