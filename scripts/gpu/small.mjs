// `.ci/run gpu-small`: the conformance vectors on drivers that are like small devices: SwiftShader, without float16 and 64-bit
// types, with ten buffers per kernel and 256 invocations per workgroup; llvmpipe with subgroups of 4, 8 and 16.

import { entry, Failure, run } from '../process.mjs';
import { onlyDriver } from './driver.mjs';

/** The drivers, with part of their devices' names. */
const DRIVERS = [
  { name: 'SwiftShader', env: onlyDriver('swiftshader') },
  // Each vector holds the invocations of a subgroup, of 32 bits.
  ...[128, 256, 512].map((bits) => ({ name: `${bits} bits`, env: { ...onlyDriver('lvp'), LP_NATIVE_VECTOR_WIDTH: String(bits) } })),
];

await entry(async () => {
  const [vectors] = process.argv.slice(2);
  if (vectors === undefined) throw new Failure('usage: node scripts/gpu/small.mjs VECTORS', 2);
  const failed = [];
  for (const { name, env } of DRIVERS) {
    try {
      await run(name, process.execPath, ['__test__/conformance/run.mjs', vectors, '--adapter', name], { env: { ...env, WEBNN_GPU_SOFTWARE: '1' } });
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      failed.push(error.message);
    }
  }
  if (failed.length > 0) throw new Failure(failed.join('\n'));
});
