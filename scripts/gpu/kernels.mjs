// The SPIR-V of all kernels, under target/gpu/kernels.

import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Failure, root, run } from '../process.mjs';

/** The folder of the SPIR-V, relative to the root. */
export const KERNELS = 'target/gpu/kernels';

/** Writes all kernels, after those of earlier sources are gone. Fails if one cannot be translated. */
export async function writeKernels() {
  const folder = join(root, KERNELS);
  rmSync(folder, { recursive: true, force: true });
  await run('translation of the kernels', 'cargo', ['test', '--lib', '--no-default-features', 'gpu::proof'], { env: { WEBNN_GPU_KERNELS: folder } });
}

/**
 * The files of one kind: `samples`, or all kernels for a version of SPIR-V.
 *
 * @param {'samples' | 'spirv-1.3' | 'spirv-1.6'} kind
 * @returns {string[]} paths
 */
export function kernelFiles(kind) {
  const folder = join(root, KERNELS, kind);
  const names = readdirSync(folder).sort();
  if (names.length === 0) throw new Failure(`${folder} is empty`);
  return names.map((name) => join(folder, name));
}
