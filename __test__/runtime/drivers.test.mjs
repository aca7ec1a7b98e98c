/** When the drivers of GPUs are loaded, and that nothing of theirs is seen. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../lib/folders.mjs';
import { isGlibc } from '../lib/platform.mjs';
import { runProcess } from './helpers.mjs';

const PROGRAM = `
import { systemInfo } from 'webnn-node/inspect';
const context = await helpers.ml.createContext(helpers.GPU_WANTED);
await context.createTensor(helpers.floats(1));
const { gpuAdapters, gpuReason } = systemInfo();
console.log(JSON.stringify({ gpuAdapters, gpuReason }));`;

/** Whether this machine has a file of a GPU, which Linux has for hardware only. */
function hasDeviceFile() {
  const files = (folder) => (existsSync(folder) ? readdirSync(folder) : []);
  return files('/dev/dri').some((name) => name.startsWith('renderD')) || files('/dev').some((name) => /^(nvidia|dxg$|kfd$|mali|kgsl-3d|nvhost)/.test(name));
}

/** Runs the program without displays; what it prints, and whether it asked the system for Vulkan. */
async function run(t, software) {
  const folder = temporaryFolder(t);
  const env = { WEBNN_GPU_SOFTWARE: software, LD_DEBUG: 'libs', LD_DEBUG_OUTPUT: join(folder, 'libraries') };
  for (const display of ['XDG_RUNTIME_DIR', 'WAYLAND_DISPLAY', 'DISPLAY', 'NODEVICE_SELECT']) env[display] = undefined;
  const { code, stdout, stderr } = await runProcess(PROGRAM, { env });
  assert.deepEqual([code, stderr], [0, '']);
  const looked = readdirSync(folder).some((name) => readFileSync(join(folder, name), 'latin1').includes('find library=libvulkan'));
  return { ...JSON.parse(stdout), looked };
}

// The loader of glibc tells which libraries it is asked for.
test('drivers are loaded only where there can be a GPU, and say nothing', { skip: !isGlibc && 'needs glibc' }, async (t) => {
  const { gpuAdapters, gpuReason, looked } = await run(t, '');
  assert.equal(looked, hasDeviceFile());
  if (!looked) {
    assert.deepEqual(gpuAdapters, []);
    assert.match(gpuReason, /^there is no device file of a GPU \(\/dev\/dri\/renderD\*, .*\), so no driver is loaded: everything is computed on the CPU$/);
  }
});

test('software is looked for where it is asked for, and says nothing', { skip: !isGlibc && 'needs glibc' }, async (t) => {
  const { gpuAdapters, gpuReason, looked } = await run(t, '1');
  assert.equal(looked, true);
  const isThere = gpuAdapters.some(({ unused }) => unused === null);
  assert.equal(gpuReason, isThere ? null : 'no adapter of Vulkan, Metal or DirectX 12 can be used: everything is computed on the CPU');
});
