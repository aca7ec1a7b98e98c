// `.ci/run gpu-layer`: the conformance vectors on llvmpipe under the Khronos validation layer of Debian's Chromium, with
// synchronization validation. First, the layer must report a hazard that bench/gpu/driver plants, and nothing without it.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { entry, Failure, root, say } from '../process.mjs';
import { buildProbe, onlyDriver, probe } from './driver.mjs';
import { kernelFiles } from './kernels.mjs';
import { FAULTS } from './spirv.mjs';

const LIBRARY = '/usr/lib/chromium/libVkLayer_khronos_validation.so';
const LAYER = 'VK_LAYER_KHRONOS_validation';
const FOLDER = join(root, 'target', 'gpu', 'layer');
const MESSAGES = join(FOLDER, 'messages.txt');

/** The layer does not look at what shaders access unless it is told to. */
const SETTINGS = {
  validate_sync: 'true',
  syncval_shader_accesses_heuristic: 'true',
  debug_action: 'VK_DBG_LAYER_ACTION_LOG_MSG',
  report_flags: 'error,warn',
  log_filename: MESSAGES,
};

/**
 * What a process under the layer may end with. The addon keeps devices open until the process ends (src/gpu/device.rs), and
 * the layer's own data may be gone before.
 */
const ENDS_BEFORE_DEVICE = 'The VkDevice dispatch handle was not found';

/** Writes the files that make the loader insert the layer; returns the environment. */
function layer() {
  if (!existsSync(LIBRARY)) throw new Failure(`there is no ${LIBRARY}; scripts/install-debian-packages.sh chromium installs it`);
  mkdirSync(FOLDER, { recursive: true });
  const description = { name: LAYER, type: 'GLOBAL', library_path: LIBRARY, api_version: '1.4.0', implementation_version: '1', description: 'validation' };
  writeFileSync(join(FOLDER, 'validation.json'), JSON.stringify({ file_format_version: '1.2.0', layer: description }));
  const settings = Object.entries(SETTINGS).map(([name, value]) => `khronos_validation.${name} = ${value}\n`);
  writeFileSync(join(FOLDER, 'vk_layer_settings.txt'), settings.join(''));
  return { ...onlyDriver('lvp'), VK_LAYER_PATH: FOLDER, VK_INSTANCE_LAYERS: LAYER, VK_LAYER_SETTINGS_PATH: FOLDER };
}

/** The messages since this was last called, by the name of the rule. */
function takeMessages() {
  if (!existsSync(MESSAGES)) return [];
  const texts = readFileSync(MESSAGES, 'utf8').split(/^(?=Validation )/m);
  rmSync(MESSAGES);
  return texts.map((text) => ({ rule: /^Validation \w+: \[ (\S+) \]/.exec(text)?.[1] ?? 'none', text: text.trim() })).filter(({ text }) => text !== '');
}

/**
 * Fails unless the layer reports a missing barrier.
 *
 * @param {Record<string, string>} env
 */
function plantHazard(env) {
  const [kernel] = kernelFiles('spirv-1.3').filter((file) => basename(file).startsWith('elementwise-'));
  if (kernel === undefined) throw new Failure('no kernel is called elementwise');
  const reported = (/** @type {string[]} */ ...args) => {
    probe(['hazard', kernel, ...args], env);
    return takeMessages().map(({ rule }) => rule);
  };
  const [without, withBarrier] = [reported(), reported('--barrier')];
  if (!without.includes('SYNC-HAZARD-WRITE-AFTER-WRITE')) throw new Failure(`the layer misses a planted hazard: it reports ${without.join(', ') || 'nothing'}`);
  if (withBarrier.length > 0) throw new Failure(`the layer reports ${withBarrier.join(', ')} where there is no hazard`);
  console.log(`the layer reports a planted hazard: ${without.join(', ')}`);
}

/**
 * Runs the vectors.
 *
 * @param {string} vectors
 * @param {Record<string, string>} env
 */
async function runVectors(vectors, env) {
  const args = ['__test__/conformance/run.mjs', vectors, '--adapter', 'llvmpipe'];
  say(`node ${args.join(' ')}`);
  const child = spawn(process.execPath, args, { cwd: root, env: { ...process.env, ...env, WEBNN_GPU_SOFTWARE: '1' }, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      text += chunk;
      process.stdout.write(chunk);
    });
  }
  const end = await new Promise((resolve, reject) => child.on('error', reject).on('close', (code, signal) => resolve(code ?? signal)));
  const isKnown = end === 'SIGABRT' && text.includes(ENDS_BEFORE_DEVICE);
  if ((end !== 0 && !isKnown) || !/^[1-9]\d* passed, 0 failed$/m.test(text)) throw new Failure(`the vectors under the layer ended with ${end}`);
  if (isKnown) console.log(`after the last vector, the process ended with ${end}, as it may: "${ENDS_BEFORE_DEVICE}"`);
}

async function main() {
  const [vectors] = process.argv.slice(2);
  if (vectors === undefined) throw new Failure('usage: node scripts/gpu/layer.mjs VECTORS', 2);
  const env = layer();
  await buildProbe();
  takeMessages();
  plantHazard(env);
  await runVectors(vectors, env);
  const messages = takeMessages();
  const known = FAULTS.map(({ rule }) => rule);
  const unknown = messages.filter(({ rule }) => !known.includes(rule));
  if (unknown.length > 0) throw new Failure(unknown.map(({ text }) => text).join('\n\n'));
  if (messages.length === 0 && known.length > 0) throw new Failure(`the layer reports not even ${known.join(', ')}: was it there?`);
  console.log(`the layer reports nothing but ${known.join(', ')}`);
}

await entry(main);
