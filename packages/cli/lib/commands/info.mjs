// `webnn-node info`: hardware, settings and limits.
import { systemInfo } from 'webnn-node/inspect';
import { formatBytes, printable } from '../format.mjs';

const HELP = `
Exit code 1 means that an environment variable has an invalid value.

Examples:
  webnn-node info
  webnn-node info --json
  WEBNN_NUM_THREADS=1 webnn-node info`;

/** Shown where an environment variable is invalid. */
const UNKNOWN = 'unknown';

/** Returns the JavaScript runtime and its version. */
function runtime() {
  const { versions } = process;
  if (versions.bun !== undefined) return { name: 'bun', version: versions.bun };
  if (versions.deno !== undefined) return { name: 'deno', version: versions.deno };
  return { name: 'node', version: versions.node };
}

/**
 * Says what the check of an adapter's driver has found.
 * @param {import('webnn-node/inspect').GPUCheck} check
 */
function findings({ families }) {
  const wrong = Object.entries(families).filter(([, problem]) => problem !== null);
  return wrong.length === 0 ? 'checked: all compute right results' : wrong.map(([family, problem]) => `${family}: ${problem}`).join('; ');
}

/**
 * Returns the facts about an adapter.
 * @param {import('webnn-node/inspect').GPUAdapterDescription} adapter
 * @returns {[name: string, value: string][]}
 */
function adapterFacts({ type, backend, driver, features, maxBufferBytes, maxBindingBytes, check, unused }) {
  return [
    ['used', unused === null ? 'yes, where a GPU is asked for' : `no: ${unused}`],
    ['kernels', check === null ? 'not checked yet: the first context on it does' : findings(check)],
    ['type', `${type}, through ${backend}`],
    ['driver', driver || 'unknown'],
    ['features in use', features.join(' ') || 'none'],
    ['buffers', `up to ${formatBytes(maxBufferBytes)}; kernels access up to ${formatBytes(maxBindingBytes)} at once`],
  ];
}

/**
 * Describes the device of contexts that ask for a GPU.
 * @param {import('webnn-node/inspect').SystemInfo} system
 */
function acceleration({ gpuAdapters, gpuReason }) {
  if (gpuReason !== null) return `none: ${gpuReason}`;
  const usable = gpuAdapters.filter(({ unused }) => unused === null);
  return usable.map(({ name }) => name).join(', ');
}

/** @type {import('../types.mjs').CommandDefinition['execute']} */
function execute(output) {
  const system = systemInfo();
  const host = runtime();
  output.document({ ...system, runtime: host, platform: process.platform, arch: process.arch });

  output.pairs([
    ['webnn-node', system.version],
    ['runtime', `${host.name} ${host.version}, ${process.platform} ${process.arch}`],
    ['instruction set', system.isa ?? UNKNOWN],
    ['CPU features', system.features.join(' ') || 'none that matter'],
    ['threads', `${system.threads ?? UNKNOWN} of ${system.logicalCores} logical cores`],
    ['memory limit', system.memoryLimitBytes === null ? 'unknown' : formatBytes(system.memoryLimitBytes)],
    ['default device', `CPU; a GPU computes where it is asked for, by --device gpu, device: 'gpu' or powerPreference: 'high-performance'`],
    ['GPU', acceleration(system)],
  ]);
  for (const adapter of system.gpuAdapters) {
    output.heading(`Adapter: ${adapter.name}`);
    output.pairs(adapterFacts(adapter));
  }
  output.heading('Limits');
  output.pairs(Object.entries(system.limits).map(([limit, value]) => [limit, String(value)]));
  output.heading('Environment variables');
  for (const { name, value, meaning } of system.environment) {
    output.print(`${name}: ${value === null ? 'not set' : printable(value)}`, output.style('dim', `  ${meaning.replaceAll('`', '')}`));
  }
  const problems = system.environment.flatMap(({ problem }) => problem ?? []);
  for (const problem of problems) output.error(`${printable(problem)}; models do not run until it is changed or unset`);
  return problems.length > 0 ? 1 : 0;
}

/** @type {import('../types.mjs').CommandDefinition} */
export default {
  name: 'info',
  description: 'Prints the version, the runtime, the CPU features in use, threads, GPUs and limits.',
  define: () => {},
  execute,
  help: HELP,
};
