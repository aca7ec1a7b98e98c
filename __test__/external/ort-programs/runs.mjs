// Runs of the programs in a process of its own, and what they are compared with.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { promisify } from 'node:util';

const WATCH = new URL('watch.mjs', import.meta.url).href;

/** Results of onnxruntime-node, and digests of the files that the programs read. */
export const REFERENCES = new URL('references.json', import.meta.url);

/** Folders with the models and recordings that the programs read. @typedef {{ models: string, speech: string }} Data */

/**
 * Names of the programs, and the arguments that each is started with.
 *
 * @type {Record<string, (data: Data) => string[]>}
 */
export const PROGRAMS = {
  'default-embed': ({ models }) => [models],
  fastembed: ({ models }) => [models],
  'feature-extraction': ({ models }) => [models],
  'text-classification': ({ models }) => [models],
  'text-generation': ({ models }) => [models],
  'transformers-2': ({ models }) => [models],
  'voice-detector': ({ speech }) =>
    readdirSync(speech)
      .sort()
      .map((name) => join(speech, name)),
};

/**
 * Programs with their packages that are written for onnxruntime-common 1.14. With overrides, all programs of a project share one,
 * and here it is a newer one.
 */
export const ONLY_REGISTERED = { 'transformers-2': '@xenova/transformers' };

/** The packages of the other programs, which get webnn-node-ort in place of onnxruntime-node. */
export const PACKAGES = ['@chroma-core/default-embed', '@huggingface/transformers', '@ricky0123/vad-node', 'fastembed'];

/**
 * Digests of the models, texts and recordings, which other versions of their generators may write with other content.
 *
 * @param {Data} data
 */
export function digests({ models, speech }) {
  const digest = (/** @type {string} */ path) => createHash('sha256').update(readFileSync(path)).digest('hex').slice(0, 16);
  const filesIn = (/** @type {string} */ folder) => readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)));
  const files = [...filesIn(models), ...filesIn(speech)].filter((path) => /(\.onnx|\.onnx_data|\.wav|texts\.json)$/.test(path));
  const name = (/** @type {string} */ path) => relative(dirname(models), path).replaceAll(sep, '/');
  return Object.fromEntries(files.sort().map((path) => [name(path), digest(path)]));
}

/**
 * Runs a program.
 *
 * @param {string} project folder of the programs, with node_modules beside or above them
 * @param {string} name
 * @param {Data} data
 * @param {string[]} [flags] of Node
 * @returns {Promise<{ results: unknown, libraries: string[] }>} what it printed, and the shared libraries that it had loaded
 */
export async function runProgram(project, name, data, flags = []) {
  const args = [...flags, '--import', WATCH, join(project, `${name}.mjs`), ...PROGRAMS[name](data)];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: project, maxBuffer: 1 << 26 });
  const lines = stdout.trim().split('\n');
  return { libraries: JSON.parse(lines[lines.length - 1]).libraries, results: JSON.parse(lines[lines.length - 2]) };
}
