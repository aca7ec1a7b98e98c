// The commands of docs/deployment.md for bundles and single executables: each makes one from an installed package, and
// runs it in a folder of its own, without node_modules.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HERE } from './runtimes.mjs';

const PROGRAM = `
const { loadModel } = require('webnn-node/onnx');
loadModel('colors.onnx', { device: 'cpu' })
  .then((model) => model.run({ image: new Float32Array(192).fill(1, 0, 64) }))
  .then(({ scores }) => console.log([...scores.data].join()));
`;

/** What a single executable of Node adds: the addon lies beside it. */
const BESIDE = `
const { dirname, join } = require('node:path');
process.env.WEBNN_NATIVE_LIBRARY_PATH ??= join(dirname(process.execPath), 'webnn-node.node');
`;

const PRINTED = '1,0,0';

const ESBUILD = join(HERE, '..', 'node_modules', 'esbuild', 'bin', 'esbuild');

/** @typedef {{ runtime: string, make: string[][], files: string[], start: string[], env?: Record<string, string> }} Way */

/**
 * The ways, by name. RUNTIME is the runtime, ESBUILD the bundler. `files` are copied to the folder in which `start` runs.
 *
 * @type {Record<string, Way>}
 */
const WAYS = {
  'esbuild, the package outside': {
    runtime: 'node-26',
    make: [['RUNTIME', 'ESBUILD', 'program.cjs', '--bundle', '--platform=node', '--external:webnn-node', '--outfile=made/app.cjs']],
    files: ['made/app.cjs', 'node_modules'],
    start: ['RUNTIME', 'app.cjs'],
  },
  'esbuild, the addon copied': {
    runtime: 'node-26',
    make: [['RUNTIME', 'ESBUILD', 'program.cjs', '--bundle', '--platform=node', '--loader:.node=copy', '--asset-names=[name]', '--outfile=made/app.cjs']],
    files: ['made/app.cjs', 'made/ADDON'],
    start: ['RUNTIME', 'app.cjs'],
  },
  'esbuild, a variable': {
    runtime: 'node-26',
    make: [['RUNTIME', 'ESBUILD', 'program.cjs', '--bundle', '--platform=node', '--external:webnn-node-*', '--outfile=made/app.cjs']],
    files: ['made/app.cjs', 'webnn-node.node'],
    start: ['RUNTIME', 'app.cjs'],
    env: { WEBNN_NATIVE_LIBRARY_PATH: 'webnn-node.node' },
  },
  'single executable of Node': {
    runtime: 'node-26',
    make: [
      ['RUNTIME', 'ESBUILD', 'beside.cjs', '--bundle', '--platform=node', '--external:webnn-node-*', '--outfile=made/app.cjs'],
      ['RUNTIME', '--build-sea', 'sea.json'],
    ],
    files: ['made/app', 'webnn-node.node'],
    start: ['./app'],
  },
  'single executable of Bun': {
    runtime: 'bun',
    make: [['RUNTIME', 'build', '--compile', 'program.cjs', '--outfile', 'made/app']],
    files: ['made/app'],
    start: ['./app'],
  },
};

/**
 * Makes and runs what a runtime makes.
 *
 * @param {{ name: string, command: string }} runtime
 * @param {string} folder a project with webnn-node and colors.onnx
 * @param {string} addon file name of the addon in its package
 * @returns {{ text: string, faults: string[] }}
 */
export function runBundles({ name, command }, folder, addon) {
  const fill = (/** @type {string} */ word) => ({ RUNTIME: command, ESBUILD, 'made/ADDON': `made/${addon}` })[word] ?? word;
  const call = (/** @type {string[]} */ words, /** @type {string} */ cwd, env = {}) => {
    const [program, ...args] = words.map(fill);
    const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, env: { ...process.env, ...env }, encoding: 'utf8' });
    return status === 0 ? { stdout } : { fault: `${words.join(' ')} ended with ${status}\n${error?.message ?? stderr}` };
  };
  writeFileSync(join(folder, 'program.cjs'), PROGRAM);
  writeFileSync(join(folder, 'beside.cjs'), BESIDE + PROGRAM);
  writeFileSync(join(folder, 'sea.json'), JSON.stringify({ main: 'made/app.cjs', output: 'made/app' }));
  const ways = Object.entries(WAYS).filter(([, way]) => way.runtime === name);
  const faults = ways.flatMap(([title, { make, files, start, env }]) => {
    const elsewhere = `${folder}-elsewhere`;
    for (const old of [join(folder, 'made'), elsewhere]) rmSync(old, { recursive: true, force: true });
    mkdirSync(join(folder, 'made'));
    mkdirSync(elsewhere);
    try {
      for (const words of make) {
        const { fault } = call(words, folder);
        if (fault !== undefined) return `${title}: ${fault}`;
      }
      for (const file of [...files.map(fill), 'colors.onnx']) {
        cpSync(join(folder, file), join(elsewhere, file.replace('made/', '')), { recursive: true });
      }
      const { fault, stdout } = call(start, elsewhere, env);
      if (fault !== undefined) return `${title}: ${fault}`;
      return stdout.trim() === PRINTED ? [] : `${title}: printed ${stdout.trim()}, expected ${PRINTED}`;
    } finally {
      rmSync(elsewhere, { recursive: true });
    }
  });
  return { text: `${ways.length - faults.length} of ${ways.length} ways to one file`, faults };
}
