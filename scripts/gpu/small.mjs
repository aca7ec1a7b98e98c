// `.ci/run gpu-small`: the conformance vectors, WebNN's Web Platform Tests and models on drivers that are like small devices:
// SwiftShader, without float16 and 64-bit types, with ten buffers per kernel and 256 invocations per workgroup; llvmpipe with the
// lowest limits that WebGPU allows, and with subgroups of 4, 8 and 16.

import { entry, Failure, run } from '../process.mjs';
import { onlyDriver } from './driver.mjs';

/** A model of each kind of network; SwiftShader takes minutes to compile the kernels of one. */
const MODELS = ['gru_denoise', 'minilm_l6_fp16', 'mobilenet_v2', 'mobilenet_v2_qdq', 'text_detector'];

/** The drivers, with part of their devices' names. */
const DRIVERS = [
  { name: 'SwiftShader', env: onlyDriver('swiftshader'), models: MODELS.slice(0, 1) },
  { name: 'llvmpipe', env: { ...onlyDriver('lvp'), WEBNN_GPU_LIMITS: 'minimum' }, models: MODELS },
  // Each vector holds the invocations of a subgroup, of 32 bits.
  ...[128, 256, 512].map((bits) => ({
    name: `${bits} bits`,
    env: { ...onlyDriver('lvp'), LP_NATIVE_VECTOR_WIDTH: String(bits) },
    models: MODELS,
  })),
];

await entry(async () => {
  const [vectors, wpt] = process.argv.slice(2);
  if (wpt === undefined) throw new Failure('usage: node scripts/gpu/small.mjs VECTORS WPT', 2);
  const failed = [];
  for (const { name, env, models } of DRIVERS) {
    for (const args of [
      ['__test__/conformance/run.mjs', vectors, '--adapter', name],
      ['__test__/wpt/run.mjs', '--wpt', wpt, '--device', 'gpu'],
      ['scripts/suites/onnx-models.mjs', '--gpu', '--only', models.join(',')],
    ]) {
      try {
        await run(`${name}: ${args[0]}`, process.execPath, args, { env: { ...env, WEBNN_GPU_SOFTWARE: '1' } });
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        failed.push(error.message);
      }
    }
  }
  if (failed.length > 0) throw new Failure(failed.join('\n'));
});
